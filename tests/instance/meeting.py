"""A random campaign over the places where nesting, auxiliary graphs, shapes and time meet.

    python -m tests.instance.meeting --courses 1000 --seed 1

A course is a tree of instances over a small machine with power and a network, to which anything happens in any order.  The
oracle knows nothing of instances: it keeps, from what the runners were called for alone, which job at the leaves uses which
unit of which pool, and works out from the description of the machine what each of them draws from each supplier.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import Random
from typing import Any, ClassVar

from fluxres import ResourceGraph
from fluxres.clock import ticks
from fluxres.errors import FluxresError
from fluxres.formats import cluster
from fluxres.formats.source import Source
from fluxres.graph.kinds import WAY
from fluxres.instance import Instance, Job, State
from fluxres.instance.runner import Runner

STEPS = 60
POLICIES = ("fcfs", "easy", "easy-sjbf", "hybrid:depth=2", "conservative", "priority", "fairshare")
RUNNING = (State.RUN, State.CLEANUP)


class Broken(AssertionError):
    """A rule does not hold."""


class Clock:
    """Time that the course moves, in steps that add up, or by the millisecond as a wall clock does."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Machine:
    """A site of racks, nodes and cores, with PDUs in a feed, and switches below a spine with bandwidth on them."""

    def __init__(self, source: Random) -> None:
        self.racks, self.nodes, self.cores = source.randint(1, 2), source.randint(1, 3), source.choice([2, 4])
        self.feed = source.choice([1000, 1500, 3000])
        self.pdu = source.choice([600, 1000, 1600])
        self.spine, self.leaf = source.choice([20, 40]), source.choice([10, 30])
        exclusive = source.random() < 0.1
        memory = "{type: memory, size: 8, unit: GiB, id: null}"
        last = self.racks * self.nodes - 1
        ids = f"0-{last}" if last else "0"
        node = f"{{type: node, count: {self.nodes}, id: {ids}, {'exclusive: true, ' * exclusive}"
        node += f"with: [{{type: core, count: {self.cores}}}, {memory}]}}"
        pdus = f"{{type: power, basename: pdu, count: {self.racks}, size: {self.pdu}, unit: W}}"
        lines = [
            "fluxres: 1",
            "name: s",
            f"resources: [{{type: rack, count: {self.racks}, with: [{node}]}}]",
            "graphs:",
            "  power:",
            "    hierarchy: true",
            f"    pools: [{{type: power, basename: feed, size: {self.feed}, unit: W, with: [{pdus}]}}]",
            "    edges:",
            *(f'      - {{from: "power:/feed/pdu{r}", to: "/s/rack{r}", relation: supplies}}' for r in range(self.racks)),
            "  network:",
            "    pools:",
            f"      - {{type: spine, with: [{{type: bandwidth, size: {self.spine}, id: null}}]}}",
            f"      - {{type: leaf, count: {self.racks}, with: [{{type: bandwidth, size: {self.leaf}, id: null}}]}}",
            "    edges:",
            *(f'      - {{from: "network:/spine", to: "network:/leaf{r}", direction: both}}' for r in range(self.racks)),
            *(f'      - {{from: "network:/leaf{r}", to: "/s/rack{r}/node*", direction: both}}' for r in range(self.racks)),
        ]
        self.text = "\n".join(lines)
        self.graph = ResourceGraph(cluster.read(Source(self.text.encode(), "s.yaml")).structure)
        self.size = {self.graph.structure.uuid(v): self.graph.structure.size.item(v) for v in range(len(self.graph))}
        self.path = {self.graph.structure.uuid(v): self.graph.structure.path(v) for v in range(self.graph.structure.tree_end)}
        self.suppliers = self._suppliers()

    def _suppliers(self) -> dict[tuple[str, int], tuple[str, ...]]:
        """By type and rack, the uuids of the pools that units for a node of the rack are drawn from."""
        structure = self.graph.structure
        power = structure.of_type("power").tolist()
        named = {structure.name(v): structure.uuid(v) for v in power}
        bandwidth = {structure.name(structure.parent.item(v)): structure.uuid(v) for v in structure.of_type("bandwidth").tolist()}
        found = {}
        for rack in range(self.racks):
            found["power", rack] = (named[next(n for n in named if n.startswith("feed"))], named[f"pdu{rack}"])
            found["bandwidth", rack] = (bandwidth["spine"], bandwidth[f"leaf{rack}"])
        return found

    def rack_of(self, path: str) -> int:
        return int(path.split("/")[2].removeprefix("rack"))

    def node_of(self, path: str) -> str:
        return "/".join(path.split("/")[:4])


class Wish:
    """What a job asks for: so many slots of one node or of cores, each with so much of what is drawn."""

    def __init__(self, source: Random, machine: Machine) -> None:
        self.slots = source.choice([1, 1, 1, 2, 3])
        self.what = source.choice(["node", "core", "core", "memory", "rack"])
        self.number = {"core": source.randint(1, machine.cores), "memory": source.randint(1, 8)}.get(self.what, 1)
        self.draws: dict[str, int] = {}
        if self.what in ("node", "core") and source.random() < 0.6:
            self.draws["power"] = source.choice([100, 300, 400, 700])
        if self.what in ("node", "core") and source.random() < 0.25:
            self.draws["bandwidth"] = source.choice([1, 4, 10])
        self.as_jobspec = source.random() < 0.2

    @property
    def request(self) -> Any:
        inside = [f"{self.what}={self.number}" if self.number > 1 else self.what]
        inside += [f"{kind}={number}" for kind, number in self.draws.items()]
        if not self.as_jobspec:
            return f"slot={self.slots}/[{';'.join(inside)}]" if len(inside) > 1 else f"slot={self.slots}/{inside[0]}"
        with_ = [{"type": self.what, "count": self.number}, *({"type": k, "count": n} for k, n in self.draws.items())]
        return {
            "version": 9999,
            "resources": [{"type": "slot", "count": self.slots, "label": "x", "with": with_}],
            "tasks": [{"command": ["a"], "slot": "x", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": 0}},
        }


class Uses:
    """Who uses what at the leaves, as the runners were called."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.running: dict[Job, Counter[str]] = {}
        #: By job, the slots in each node that it was started with, as long as it has anything of the node.
        self.slots: dict[Job, Counter[str]] = {}

    def start(self, job: Job) -> None:
        self.running[job] = self.units(job)

    def end(self, job: Job) -> None:
        self.running.pop(job, None)

    def units(self, job: Job) -> Counter[str]:
        """Units by uuid, those implied by a whole pool among them, of what the graph of the job's instance has to give."""
        graph = job.instance._graph
        structure, found = graph.structure, Counter[str]()
        for where, amount in job.instance.inventory.pools(job.claim):
            v = structure.vertex(where)
            found[structure.uuid(v)] += amount
            if amount == structure.size.item(v):
                for u in range(v + 1, structure.end.item(v)):
                    if not structure.flags.item(u) & WAY:
                        found[structure.uuid(u)] += structure.size.item(u)
        return found

    def leaves(self) -> list[Job]:
        """Jobs that run and have no instance in them, which would use what they hold."""
        return [job for job in self.running if job.child is None]

    def check(self) -> None:
        total: Counter[str] = Counter()
        for job in self.leaves():
            total.update(self.running[job])
        for uuid, amount in total.items():
            if amount > self.machine.size[uuid]:
                using = [f"{job.instance.address}/{job.id}" for job in self.leaves() if uuid in self.running[job]]
                where = self.machine.graph.pool(uuid).where
                raise Broken(f"{amount} of {self.machine.size[uuid]} units of {where} are used by {using}")

    def drawn(self, instance: Instance) -> Counter[str]:
        """Units drawn from each supplier by the jobs of an instance, by the text of what they asked for."""
        found: Counter[str] = Counter()
        for job in instance.jobs(*RUNNING):
            if job not in self.running:
                continue
            wish: Wish = job.payload
            explicit = wish.draws if wish is not None else {}
            of_job = self._of(job, explicit)
            if job.child is not None:
                # It has what its job was given of a supplier, and asks for the rest.
                found.update({uuid: n for uuid, n in self.drawn(job.child).items() if not of_job[uuid]})
            found.update(of_job)
        return found

    def _of(self, job: Job, explicit: dict[str, int]) -> Counter[str]:
        found: Counter[str] = Counter()
        wish: Wish = job.payload
        if wish is None or not explicit:
            return found
        if job.child is not None:
            self._leave(job)
        for node, slots in self.slots[job].items():
            for kind, number in explicit.items():
                for uuid in self.machine.suppliers[kind, self.machine.rack_of(node)]:
                    found[uuid] += slots * number
        return found

    def _leave(self, job: Job) -> None:
        """A node of which nothing is left to a job takes along what was drawn for it, also if the job gets it again."""
        left = {self.machine.node_of(path) for uuid in self.units(job) if (path := self.machine.path.get(uuid))}
        self.slots[job] = Counter({node: slots for node, slots in self.slots[job].items() if node in left})


class Hands(Runner):
    """A runner that ends a job at once when it is asked to, later, or only when it is made to."""

    keeps_limits = False

    def __init__(self, course: Course, manner: str) -> None:
        self.course, self.manner = course, manner

    def start(self, job: Job) -> None:
        course = self.course
        course.uses.start(job)
        wish: Wish | None = job.payload
        slots: Counter[str] = Counter()
        if wish is not None and wish.draws:
            for uuid, amount in course.uses.running[job].items():
                path = course.machine.path.get(uuid)
                kind = course.machine.graph.structure.kind_of(course.machine.graph.vertex(uuid)).type
                if path is not None and kind == wish.what:
                    slots[course.machine.node_of(path)] += amount
        course.uses.slots[job] = Counter({node: n // wish.number for node, n in slots.items()} if wish is not None else {})
        course.uses.check()

    def stop(self, job: Job, why: str) -> None:
        if self.manner == "at once":
            self.course.uses.end(job)
            job.instance.finish(job, 9)
        else:
            self.course.stopping.append(job)


class Course:
    """One tree of instances and what happens to it."""

    def __init__(self, seed: int) -> None:
        self.source = source = Random(seed)
        self.machine = Machine(source)
        self.clock = Clock()
        self.uses = Uses(self.machine)
        self.stopping: list[Job] = []
        self.log: list[str] = []
        self.counts: Counter[str] = Counter()
        inventory = source.choice(["graph", "graph", "auto"])
        self.top = Instance(
            self.machine.graph,
            queue_policy=source.choice(POLICIES),
            match_policy=source.choice(["first", "high"]),
            clock=self.clock,
            name="top",
            inventory=inventory,
            runner=self.runner(),
            events=False,
            sink=self.uses.end,
        )

    def runner(self) -> Hands:
        return Hands(self, self.source.choice(["at once", "at once", "later"]))

    # -- what can happen ---------------------------------------------------------------------------------------------

    def instance(self) -> Instance:
        return self.source.choice(list(self.top.walk()))

    def running(self, *, with_child: bool | None = None) -> list[Job]:
        every = [job for instance in self.top.walk() for job in instance.jobs(State.RUN)]
        return [job for job in every if with_child is None or (job.child is not None) == with_child]

    def submit(self) -> None:
        wish = Wish(self.source, self.machine)
        duration = self.source.choice([None, 5, 10, 20, 50])
        self.instance().submit(wish.request, duration_s=duration, payload=wish)

    def finish(self) -> None:
        found = self.running(with_child=False)
        if found:
            job = self.source.choice(found)
            self.uses.end(job)
            job.instance.finish(job, self.source.choice([0, 0, 1]))

    def stopped(self) -> None:
        """A runner that needed time says that the job has ended."""
        waiting = [job for job in self.stopping if job.state is State.CLEANUP and not job.instance.is_closed]
        self.stopping = waiting
        if waiting:
            job = self.source.choice(waiting)
            self.uses.end(job)
            job.instance.finish(job, 9)

    def end_all(self) -> None:
        """All runners say at last that their jobs have ended, the innermost first."""
        for job in reversed(list(self.uses.running)):
            if job.state is State.CLEANUP and not job.instance.is_closed:
                self.uses.end(job)
                job.instance.finish(job, 9)
                return
        raise Broken("jobs that were asked to stop cannot be finished")

    def cancel(self) -> None:
        jobs = [job for instance in self.top.walk() for job in instance.jobs() if job.state is not State.INACTIVE]
        if jobs:
            job = self.source.choice(jobs)
            job.instance.cancel(job)

    def spawn(self) -> None:
        found = self.running(with_child=False)
        if found:
            job = self.source.choice(found)
            kind = self.source.choice(["graph", "graph", "auto"])
            job.instance.spawn(job, queue_policy=self.source.choice(POLICIES), inventory=kind, runner=self.runner())

    def child(self) -> Instance | None:
        found = [instance for instance in self.top.walk() if instance.parent is not None]
        return self.source.choice(found) if found else None

    def grow(self) -> None:
        child = self.child()
        if child is None or child.parent is None:
            return
        if self.source.random() < 0.5:
            child.grow(Wish(self.source, self.machine).request)
        else:
            pools = child.parent._graph.find(f"type={self.source.choice(['node', 'core', 'rack'])} and available>=1").paths()
            if pools:
                child.grow([self.source.choice(pools)])

    def shrink(self) -> None:
        child = self.child()
        if child is not None:
            pools = child._graph.find(f"type={self.source.choice(['node', 'core', 'memory'])} and available>=1").paths()
            if pools:
                child.shrink([self.source.choice(pools)])

    def close(self) -> None:
        child = self.child()
        if child is not None:
            child.close()

    def fail(self) -> None:
        child = self.child()
        if child is not None:
            child.fail("failed")

    def expire(self) -> None:
        child = self.child()
        if child is not None:
            child.set_expiration(self.clock.now_s + self.source.randint(1, 10))

    def duration(self) -> None:
        found = self.running()
        if found:
            job = self.source.choice(found)
            job.instance.set_duration(job, self.source.choice([None, 5, 15, 40]))

    def state(self) -> None:
        path = self.source.choice([p for p in self.machine.path.values() if p.count("/") > 1])
        self.top.set_state([path], self.source.choice(["down", "drain", "up", "up", "up"]))

    def wait(self) -> None:
        self.clock.now_s += self.source.choice([0.001, 1, 2, 5, 10])
        if self.source.random() < 0.7:
            self.top.advance()

    def ask(self) -> None:
        """Questions, which change nothing."""
        instance = self.instance()
        graph = instance._graph
        graph.aggregate()
        graph.why_not(Wish(self.source, self.machine).request)
        graph.earliest(Wish(self.source, self.machine).request)

    # -- the course --------------------------------------------------------------------------------------------------

    WEIGHTS: ClassVar = {
        "submit": 12,
        "finish": 5,
        "stopped": 4,
        "cancel": 2,
        "spawn": 5,
        "grow": 3,
        "shrink": 3,
        "close": 1,
        "fail": 1,
        "expire": 1,
        "duration": 2,
        "state": 2,
        "wait": 6,
        "ask": 1,
    }

    def run(self, steps: int = STEPS) -> None:
        names, weights = list(self.WEIGHTS), list(self.WEIGHTS.values())
        for _ in range(steps):
            name = self.source.choices(names, weights)[0]
            self.log.append(f"{self.clock.now_s:g} {name}")
            try:
                getattr(self, name)()
                self.counts[name] += 1
            except Broken:
                raise
            except FluxresError as error:
                self.log[-1] += f": {type(error).__name__}: {error}"
                self.counts[f"{name} refused"] += 1
            self.check()
        self.top.shut("the course is over")
        while any(job.state is State.CLEANUP for job in self.uses.running):
            self.end_all()
        if self.machine.graph.jobs():
            raise Broken(f"after the end, {self.machine.graph.jobs()} hold something")

    def check(self) -> None:
        self.uses.check()
        if problems := self.top.check():
            raise Broken(f"check(): {problems[0].where}: {problems[0].message}")
        drawn = self.uses.drawn(self.top)
        graph = self.top.graph
        for uuid in {uuid for pools in self.machine.suppliers.values() for uuid in pools}:
            held = graph.pool(uuid).allocated()
            if drawn[uuid] > self.machine.size[uuid]:
                raise Broken(f"{drawn[uuid]} of {self.machine.size[uuid]} are drawn from {graph.pool(uuid).where}")
            if held < drawn[uuid]:
                raise Broken(f"{drawn[uuid]} are drawn from {graph.pool(uuid).where}, which knows of {held}")


def run(first: int, number: int, *, stop_at: int = 3, aloud: bool = False) -> tuple[list[str], Counter[str]]:
    """So many courses from a seed on: what was wrong, and how often what was done."""
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    for seed in range(first, first + number):
        course = Course(seed)
        try:
            course.run()
        except Exception as error:  # noqa: BLE001  # whatever it is, the course and its step are said
            text = f"course {seed}, step {len(course.log)}: {type(error).__name__}: {error}\n  " + "\n  ".join(course.log[-6:])
            wrong.append(text)
            if aloud:
                print(text, flush=True)
        counts += course.counts
        counts["courses"] += 1
        ticks(course.clock.now_s)
        if aloud and (seed - first + 1) % 1000 == 0:
            print(f"{seed - first + 1} courses", flush=True)
        if len(wrong) >= stop_at:
            break
    return wrong, counts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.instance.meeting", description=__doc__)
    parser.add_argument("--courses", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stop-at", type=int, default=3)
    options = parser.parse_args()
    began = time.perf_counter()
    wrong, counts = run(options.seed, options.courses, stop_at=options.stop_at, aloud=True)
    print(
        f"{counts.pop('courses')} courses from seed {options.seed}, {sum(counts.values())} steps, {len(wrong)} wrong",
        dict(counts),
    )
    print(f"{time.perf_counter() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""A random campaign in which nesting, auxiliary graphs, changes of shape and time interact.

    python -m tests.instance.meeting --courses 1000 --seed 1

A course makes random calls of a tree of instances over a small machine with power and a network.  The oracle does not use
instances: from the calls of the runners it records which innermost job uses which units of which pools, and computes from the
description of the machine what each job draws from each supplier and through each edge.  In addition, `Instance.check()` audits
all instances after every step.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, ClassVar

from fluxres import ResourceGraph
from fluxres.clock import ticks
from fluxres.documents.source import Source
from fluxres.errors import FluxresError, MergeConflict
from fluxres.formats.cluster import read as cluster
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import COLUMNS, Problem
from fluxres.instance import Instance, Job, State
from fluxres.instance.runner import Runner
from fluxres.model import audit
from tests.queue_policies import POLICIES

STEPS = 50
INVENTORIES = ("graph", "graph", "graph", "auto", "auto", "named:node", "named:core", "counted:memory")
RUNNING = (State.RUN, State.CLEANUP)


class Broken(AssertionError):
    """A rule does not hold."""


class Clock:
    """The clock of a course, which sets it; it may also advance by small steps whenever it is read, or run by itself.

    Args:
        source: of the small steps; None for none.
        speed: simulated seconds per real second; 0 for a clock that does not run, so that a course is reproducible.
    """

    def __init__(self, source: Random | None, speed: float = 0.0) -> None:
        self.now_s = 0.0
        self.is_still = False
        self._source, self._speed = source, speed
        self._looked_s = time.perf_counter()

    def __call__(self) -> float:
        if self._speed:
            now_s = time.perf_counter()
            self.now_s += 0.0 if self.is_still else (now_s - self._looked_s) * self._speed
            self._looked_s = now_s
        elif self._source is not None and not self.is_still:
            self.now_s += self._source.choice((0.0, 1e-6, 2e-5, 1e-3))
        return self.now_s


Supply = int | str
"""What units are drawn from: a pool of the machine by its vertex, or a cable by its name."""


class Machine:
    """A site of racks, nodes and cores, with PDUs in a feed, and switches below a spine with bandwidth on them.  The cables of
    some machines carry no more than so much."""

    def __init__(self, source: Random) -> None:
        self.racks, self.nodes, self.cores = source.randint(1, 2), source.randint(1, 3), source.choice([2, 4])
        feed, pdu = source.choice([1000, 1500, 3000]), source.choice([600, 1000, 1600])
        spine, leaf = source.choice([20, 40]), source.choice([10, 30])
        #: What is for one job at a time.
        self.exclusive = for_one = source.choices(["", "node", "rack"], [85, 10, 5])[0]
        #: What a cable carries: of power to a node, between switches, to a node; 0 for whatever is asked.
        carries = [source.choice(some) if source.random() < 0.4 else 0 for some in ([400, 700], [8, 15], [5, 10])]
        #: What each of the cables between a switch and a node carries, by relation, where there are two.
        self.pair = {"link": 3.0, "spare": 4.0} if source.random() < 0.2 else {}
        to_node, uplink, downlink = (f", capacity: {n}" if n else "" for n in carries)
        downlinks = [f", relation: {relation}, capacity: {n:g}" for relation, n in self.pair.items()] or [downlink]
        last = self.racks * self.nodes - 1
        ids = f"0-{last}" if last else "0"
        memory = "{type: memory, size: 8, unit: GiB, id: null}"
        exclusive = {level: "exclusive: true, " * (level == for_one) for level in ("node", "rack")}
        node = f"{{type: node, count: {self.nodes}, id: {ids}, {exclusive['node']}"
        node += f"with: [{{type: core, count: {self.cores}}}, {memory}]}}"
        pdus = f"{{type: power, basename: pdu, count: {self.racks}, size: {pdu}, unit: W}}"
        # A feed may say nothing of what it has to give.
        supply = "type: feed" if source.random() < 0.2 else f"type: power, basename: feed, size: {feed}, unit: W"
        racks = range(self.racks)
        # Cables that carry so much lead to each node; the others may supply a rack.
        supplied = "/node*" if carries[0] else ""
        lines = [
            "fluxres: 1",
            "name: s",
            f"resources: [{{type: rack, count: {self.racks}, {exclusive['rack']}with: [{node}]}}]",
            "graphs:",
            "  power:",
            "    hierarchy: true",
            f"    pools: [{{{supply}, with: [{pdus}]}}]",
            "    edges:",
            *(f'      - {{from: "power:/feed/pdu{r}", to: "/s/rack{r}{supplied}", relation: supplies{to_node}}}' for r in racks),
            "  network:",
            "    pools:",
            f"      - {{type: spine, with: [{{type: bandwidth, size: {spine}, id: null}}]}}",
            f"      - {{type: leaf, count: {self.racks}, with: [{{type: bandwidth, size: {leaf}, id: null}}]}}",
            "    edges:",
            *(f'      - {{from: "network:/spine", to: "network:/leaf{r}", direction: both{uplink}}}' for r in racks),
            *(
                f'      - {{from: "network:/leaf{r}", to: "/s/rack{r}/node*", direction: both{one}}}'
                for r in racks
                for one in downlinks
            ),
        ]
        self.text = "\n".join(lines)
        #: Whether the cables of a PDU lead to each node, and not to the rack.
        self.is_to_node = bool(carries[0])
        self.graph = ResourceGraph(cluster.read(Source(self.text.encode(), "s.yaml")).structure)
        structure = self.graph.structure
        pools = range(len(self.graph))
        self.vertex = {structure.uuid(v): v for v in pools}
        self.path = {structure.uuid(v): structure.path(v) for v in range(structure.tree_end)}
        self.type = {structure.uuid(v): structure.kind_of(v).type for v in pools}
        self.around = {v: (v, *structure.ancestors(v)) for v in pools}
        #: Of pools by vertex, and of cables by name.
        self.size: dict[Supply, float] = {v: structure.size.item(v) for v in pools}
        self.labels: dict[Supply, str] = {v: structure.accounts.said(v) for v in pools}
        #: Graph and ends of cables, by name.
        self.cables: dict[str, tuple[str, str, str]] = {}
        #: Of the cables that are two, what each of them carries, by relation.
        self.pairs: dict[str, dict[str, float]] = {}
        self.supplies = self._supplies()
        self.suppliers = list(dict.fromkeys(v for found in self.supplies.values() for v in found))

    def _supplies(self) -> dict[tuple[str, str], tuple[Supply, ...]]:
        """By type and path of a node, what units for it are drawn from and through, as the description of the machine has it."""
        structure, found = self.graph.structure, {}
        inside = {structure.name(structure.parent.item(v)): v for v in structure.of_type("bandwidth").tolist()}
        watts = {structure.name(v): v for v in structure.of_type("power").tolist()}
        feed = [v for name, v in watts.items() if name.startswith("feed")]
        for node in (path for path in self.path.values() if path.count("/") == 3 and "/node" in path):
            rack = int(node.split("/")[2].removeprefix("rack"))
            power = [*feed, watts[f"pdu{rack}"]]
            cables = [("power", f"power:/feed/pdu{rack}", node if self.is_to_node else node.rpartition("/")[0])]
            found["power", node] = (*power, *self._cables(cables))
            spine, leaf = "network:spine", f"network:leaf{rack}"
            cables = [("network", *ends) for ends in ((spine, leaf), (leaf, spine), (leaf, node), (node, leaf))]
            found["bandwidth", node] = (inside["spine"], inside[f"leaf{rack}"], *self._cables(cables))
        return found

    def _cables(self, cables: list[tuple[str, str, str]]) -> list[str]:
        accounts, names = self.graph.structure.accounts, []
        for graph, src, dst in cables:
            name = f"{graph}: {src} -> {dst}"
            number = accounts.edge_named(name)
            self.cables[name] = graph, src, dst
            if self.pair and graph == "network" and "/node" in name:
                self.pairs[name] = dict(self.pair)
            self.labels[name], self.size[name] = name, math.inf if number < 0 else accounts.size.item(number)
            names.append(name)
        return names


class RandomRequest:
    """A random request: slots of a node, cores, memory or a rack, each with amounts of power and bandwidth."""

    def __init__(self, source: Random, machine: Machine, only: str = "") -> None:
        self.slots = source.choice([1, 1, 1, 2, 3])
        self.what = only or source.choice(["node", "core", "core", "memory", "rack"])
        self.number = {"core": source.randint(1, machine.cores), "memory": source.randint(1, 8)}.get(self.what, 1)
        self.draws: dict[str, int] = {}
        self.id: int | None = None
        self.hosts = ""
        if only:
            self.number = 1 if only == "core" else self.number
        elif self.what in ("node", "core"):
            if source.random() < 0.6:
                self.draws["power"] = source.choice([100, 300, 400, 700])
            if source.random() < 0.3:
                self.draws["bandwidth"] = source.choice([1, 4, 10])
            if source.random() < 0.15:
                self._name(source.randrange(machine.racks * machine.nodes), source.random() < 0.5)
        self.as_jobspec = bool(self.hosts) or source.random() < 0.2

    def _name(self, node: int, by_host: bool) -> None:
        """Request a node by its id, or pools on it by its host name."""
        if by_host:
            self.hosts = f"node{node}"
        elif self.what == "node":
            self.id, self.slots = node, 1

    @property
    def request(self) -> Any:
        if not self.as_jobspec:
            which = "" if self.id is None else f"{{id:'{self.id}'}}"
            inside = [f"{self.what}={self.number}" if self.number > 1 else f"{self.what}{which}"]
            inside += [f"{kind}={number}" for kind, number in self.draws.items()]
            return f"slot={self.slots}/[{';'.join(inside)}]" if len(inside) > 1 else f"slot={self.slots}/{inside[0]}"
        first: dict[str, Any] = {"type": self.what, "count": self.number}
        if self.id is not None:
            first["id"] = str(self.id)
        system: dict[str, Any] = {"duration": 0}
        if self.hosts:
            system["constraints"] = {"hostlist": [self.hosts]}
        return {
            "version": 9999,
            "resources": [
                {
                    "type": "slot",
                    "count": self.slots,
                    "label": "x",
                    "with": [first, *({"type": k, "count": n} for k, n in self.draws.items())],
                }
            ],
            "tasks": [{"command": ["a"], "slot": "x", "count": {"per_slot": 1}}],
            "attributes": {"system": system},
        }


class Oracle:
    """The units that each innermost job uses, from the calls of the runners."""

    def __init__(self, machine: Machine, clock: Clock) -> None:
        self.machine, self.clock = machine, clock
        #: By job, its units by uuid.
        self.running: dict[Job, Counter[str]] = {}
        #: By job, what it draws from each supply.
        self.draws: dict[Job, Counter[Supply]] = {}
        #: Jobs that do not have the watts that they requested, because their child has grown or shrunk.
        self.changed: set[Job] = set()
        #: Pools that the course has put out of service.
        self.out: set[int] = set()
        #: What was wrong when a job was started.
        self.broken: Broken | None = None

    def start(self, job: Job) -> None:
        # Not raised: the instance would turn it into an exception of its job.
        try:
            self.running[job] = units = self.units(job)
            self.draws[job] = self._of(job, units)
            # Pools that are only implied may be out of service.
            for v in (*self.given(job), *self.draws[job]):
                if not self.out.isdisjoint(self.machine.around.get(v, ())):
                    self.broken = Broken(f"{_name(job)} has begun on {self.machine.labels[v]}, which is out of service")
            self.check()
        except Broken as error:
            self.broken = error
        except Exception as error:  # noqa: BLE001  # whatever it is
            self.broken = Broken(f"{_name(job)} has begun, and the oracle: {error!r}")

    def end(self, job: Job) -> None:
        self.running.pop(job, None)
        self.draws.pop(job, None)
        self.changed.discard(job)

    def given(self, job: Job) -> list[int]:
        """The pools that were explicitly allocated to a job."""
        structure = job.instance._graph.structure
        return [
            self.machine.vertex[structure.uuid(structure.vertex(where))] for where, _ in job.instance.inventory.pools(job.claim)
        ]

    def units(self, job: Job) -> Counter[str]:
        """By uuid, the units that a job holds, including those implied by exclusive pools."""
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

    def _of(self, job: Job, units: Counter[str]) -> Counter[Supply]:
        """What a job draws according to its request, for the nodes of its slots."""
        found: Counter[Supply] = Counter()
        wanted: RandomRequest | None = job.payload
        if wanted is None or not wanted.draws:
            return found
        per_node: Counter[str] = Counter()
        for uuid, amount in units.items():
            if self.machine.type[uuid] == wanted.what:
                per_node["/".join(self.machine.path[uuid].split("/")[:4])] += amount
        for node, amount in per_node.items():
            for kind, number in wanted.draws.items():
                for v in self.machine.supplies[kind, node]:
                    found[v] += amount // wanted.number * number
        return found

    def leaves(self) -> list[Job]:
        """Running jobs without a child."""
        return [job for job in self.running if job.child is None]

    def check(self) -> None:
        """No unit is used twice, and no supplier is overdrawn."""
        if self.broken is not None:
            raise self.broken
        machine, now = self.machine, ticks(self.clock.now_s)
        total: Counter[str] = Counter()
        drawn: Counter[Supply] = Counter()
        for job in self.leaves():
            if job.instance.keeps_limits and _limit(job) <= now:
                continue  # it ends at this very moment, by itself
            total.update(self.running[job])
            drawn.update(self.draws[job])
        for uuid, amount in total.items():
            v = machine.vertex[uuid]
            if amount > machine.size[v]:
                using = [_name(job) for job in self.leaves() if uuid in self.running[job]]
                raise Broken(f"{amount} of {machine.size[v]} units of {machine.labels[v]} are used by {using}")
        for v, amount in drawn.items():
            if amount > machine.size[v]:
                raise Broken(f"{amount} of {machine.size[v]} are drawn from {machine.labels[v]}")

    def drawn(self, instance: Instance) -> Counter[Supply]:
        """Units drawn from each supplier by the jobs of an instance, by the text of what they asked for."""
        found: Counter[Supply] = Counter()
        for job in instance.jobs(*RUNNING):
            if job not in self.running:
                continue
            given = self.draws[job] if job not in self.changed else Counter[Supply]()
            found.update(given)
            if job.child is not None:
                # It has what its job was given of a supplier or a cable, and asks for the rest.
                found.update({v: n for v, n in self.drawn(job.child).items() if not given[v]})
        return found

    def check_nested(self, instance: Instance) -> None:
        """What jobs of an instance use is what its job in the parent holds, unit by unit (rule N1)."""
        for child in instance.children:
            job = child.job_in_parent
            assert job is not None
            used: Counter[str] = Counter()
            for inner in child.jobs(*RUNNING):
                if inner in self.running:  # what is in a child comes and goes
                    used.update(self.running[inner] if inner.child is None else self.units(inner))
            if used:
                held = self.units(job)
                for uuid, amount in used.items():
                    if uuid in self.machine.path and amount > held[uuid]:
                        where = self.machine.path[uuid]
                        raise Broken(f"{amount} units of {where} are used in {child.address}, whose job holds {held[uuid]}")
            self.check_nested(child)


def _limit(job: Job) -> int:
    """The latest end of a job, including the limits of the jobs and instances above it."""
    above = job.instance.job_in_parent
    return job.limit if above is None else min(job.limit, job.instance.lifetime.expires, _limit(above))


def _name(job: Job) -> str:
    return f"{job.instance.address}/{job.id}"


class CampaignRunner(Runner):
    """A runner that stops jobs immediately or later, or that keeps limits."""

    def __init__(self, course: Course, manner: str) -> None:
        self.course, self.manner = course, manner
        self.keeps_limits = manner == "keeps limits"

    def start(self, job: Job) -> None:
        self.course.oracle.start(job)

    def stop(self, job: Job, why: str) -> None:
        if self.manner == "later":
            self.course.stopping.append(job)
        else:
            self.course.finishes(job, 9)


class Audits:
    """Audits of graphs, which are repeated only if something has changed since the last one."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Any, list[Problem]]] = {}
        self._structures: dict[int, tuple[Any, list[Problem]]] = {}

    def check(self, graph: ResourceGraph) -> list[Problem]:
        return self._once(self._structures, graph, self._columns(graph), lambda: audit.check_structure(graph.structure)) + (
            self._once(self._seen, graph, self._content(graph), lambda: audit.check_records(graph.records))
        )

    @staticmethod
    def _once(seen: dict[int, tuple[Any, list[Problem]]], graph: ResourceGraph, state: Any, made: Any) -> list[Problem]:
        found = seen.get(graph.number)
        if found is None or found[0] != state:
            found = seen[graph.number] = state, made()
        return found[1]

    @staticmethod
    def _columns(graph: ResourceGraph) -> tuple[Any, ...]:
        structure = graph.structure
        graphs = [(name, one.src.tobytes(), one.dst.tobytes()) for name, one in structure.subsystems.items()]
        return structure, [getattr(structure, column).tobytes() for column in COLUMNS], graphs

    @staticmethod
    def _content(graph: ResourceGraph) -> tuple[Any, ...]:
        records = graph.records
        held = {v: dict(holders) for v, holders in records.held.items()}
        implied = {job: dict(pools) for job, pools in records.implied.items()}
        return graph.revision, records, graph.structure, held, implied, dict(records.stages)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Context in which graphs are audited by this object."""
        every, audit.check = audit.check, self.check
        try:
            yield
        finally:
            audit.check = every


class Course:
    """A tree of instances and the random calls of it."""

    def __init__(self, seed: int, speed: float = 0.0) -> None:
        self.source = source = Random(seed)
        self.machine = Machine(source)
        #: Whether the runners of the tree keep limits: all or none.
        self.keeps_limits = source.random() < 0.15 and not speed
        self.clock = Clock(Random(seed) if not self.keeps_limits and source.random() < 0.25 else None, speed)
        self.oracle = Oracle(self.machine, self.clock)
        #: The numbers of cables in one structure of the machine.
        self.numbers: tuple[Any, dict[str, int]] = None, {}
        self.stopping: list[Job] = []
        self.log: list[str] = []
        self.counts: Counter[str] = Counter()
        inventory = source.choice(["graph", "graph", "auto", "auto", "named:core"])
        self.top = Instance(
            self.machine.graph,
            queue_policy=source.choice(POLICIES),
            match_policy=source.choice(["first", "high"]),
            clock=self.clock,
            name="top",
            inventory=inventory if self.machine.exclusive == "" else "graph",
            runner=self.runner(),
            events=False,
            sink=self.oracle.end,
        )

    def runner(self) -> CampaignRunner:
        manner = self.source.choice(["at once", "at once", "later"])
        return CampaignRunner(self, "keeps limits" if self.keeps_limits else manner)

    # -- what can happen ---------------------------------------------------------------------------------------------

    def instance(self) -> Instance:
        return self.source.choice(list(self.top.walk()))

    def running(self, *, with_child: bool | None = None) -> list[Job]:
        every = [job for instance in self.top.walk() for job in instance.jobs(State.RUN)]
        return [job for job in every if with_child is None or (job.child is not None) == with_child]

    def wanted(self, instance: Instance) -> RandomRequest:
        """What an instance is asked for: of one that counts or names pools mostly those."""
        _, _, only = str(instance._options.inventory).partition(":")
        return RandomRequest(self.source, self.machine, only if self.source.random() < 0.85 else "")

    def submit(self) -> None:
        instance = self.instance()
        wanted = self.wanted(instance)
        duration = self.source.choice([None, 5, 10, 20, 50])
        instance.submit(wanted.request, duration_s=duration, payload=wanted)

    def finishes(self, job: Job, status: int) -> None:
        """A runner says that a job has ended.  One with an instance in it ends with what runs there."""
        if job.child is None or job.child.is_closed:
            self.oracle.end(job)
        job.instance.finish(job, status)

    def finish(self) -> None:
        found = self.running(with_child=False)
        if found:
            job = self.source.choice(found)
            self.finishes(job, self.source.choice([0, 0, 1]))

    def stopped(self) -> None:
        """A runner that needed time says that the job has ended."""
        waiting = [job for job in self.stopping if job.state is State.CLEANUP and not job.instance.is_closed]
        self.stopping = waiting
        if waiting:
            job = self.source.choice(waiting)
            self.finishes(job, 9)

    def end_all(self) -> None:
        """All runners say at last that their jobs have ended, the innermost first."""
        for job in reversed(list(self.oracle.running)):
            if job.state is State.CLEANUP and not job.instance.is_closed:
                self.finishes(job, 9)
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
            kind = self.source.choice(INVENTORIES)
            job.instance.spawn(job, queue_policy=self.source.choice(POLICIES), inventory=kind, runner=self.runner())

    def deeper(self) -> None:
        """The innermost instance gets work, and that work an instance."""
        instance = max(self.top.walk(), key=lambda one: one.depth)
        wanted = self.wanted(instance)
        job = instance.submit(wanted.request, duration_s=self.source.choice([None, 20]), payload=wanted)
        if job.state is State.RUN:
            instance.spawn(job, queue_policy=self.source.choice(POLICIES), inventory="graph", runner=self.runner())

    def child(self) -> Instance | None:
        found = [instance for instance in self.top.walk() if instance.parent is not None]
        return self.source.choice(found) if found else None

    def grow(self) -> None:
        child = self.child()
        if child is None or child.parent is None:
            return
        if self.source.random() < 0.5:
            wanted = RandomRequest(self.source, self.machine)
            try:
                child.grow(wanted.request)
            except MergeConflict as error:
                raise Broken(f"{child.address} was given what does not fit it: {error}") from error
            self.changed(child)
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
                self.changed(child)

    def changed(self, child: Instance) -> None:
        """The job of a child may have been given or given back watts, and with it those above."""
        job = child.job_in_parent
        while job is not None:
            self.oracle.changed.add(job)
            job = job.instance.job_in_parent

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
        """A pool is taken out of service, or put back: a part of the machine, a supplier or a switch."""
        machine, oracle = self.machine, self.oracle
        inside = [machine.vertex[uuid] for uuid, path in machine.path.items() if path.count("/") > 1]
        outside = [v for v in machine.around if v >= machine.graph.structure.tree_end]
        v = self.source.choice(outside if self.source.random() < 0.3 else inside)
        state = self.source.choice(["down", "drain", "up", "up", "up"])
        if state == "up":
            oracle.out.discard(v)
        else:
            oracle.out.add(v)
        before = self.oracle.leaves()
        self.top.set_state([machine.graph.pool(machine.graph.structure.uuid(v)).where], state)
        if state == "down":
            self.lost(v, [job for job in before if job in self.oracle.running])

    def lost(self, v: int, jobs: list[Job]) -> None:
        """What ran on a pool that is down, or below it, has been asked to stop, and so has what drew from it."""
        around = self.machine.around
        for job in jobs:
            inside = (self.machine.vertex[uuid] for uuid in self.oracle.running[job] if uuid in self.machine.path)
            if job.state is State.RUN and any(v in around.get(u, ()) for u in (*inside, *self.oracle.draws[job])):
                raise Broken(f"{_name(job)} runs on, though {self.machine.labels[v]} is down")

    def cable(self) -> None:
        """A cable carries more or less from now on."""
        machine, graph, source = self.machine, self.top.graph, self.source
        name = source.choice(list(machine.cables))
        of_graph, *ends = machine.cables[name]
        before = machine.size[name]
        capacity = math.inf
        if before == math.inf:
            capacity = source.choice([400, 700, 5000] if of_graph == "power" else [5, 10, 15])
        elif source.random() < 0.8:
            capacity = max(1, int(before) * source.choice([1, 2, 4]) // source.choice([1, 2, 4]))
        if (pair := machine.pairs.get(name)) is None:
            graph.set_edge(*ends, of_graph, capacity=capacity)
            machine.size[name] = capacity
            return
        relation = source.choice(list(pair))
        capacity = source.choice([0, 1, 3, 4, 8, math.inf])
        graph.set_edge(*ends, of_graph, relation=relation, capacity=capacity)
        pair[relation] = capacity
        machine.size[name] = sum(pair.values())

    def wait(self) -> None:
        until = self.clock.now_s + self.source.choice([0.001, 1, 2, 5, 10])
        if self.keeps_limits:
            self.keep_limits(until)
        self.clock.now_s = max(self.clock.now_s, until)
        if self.source.random() < 0.7:
            self.top.advance()

    def keep_limits(self, until: float) -> None:
        """Jobs end at their limits, in the order of time, and of one moment the innermost first."""
        while True:
            found = [job for job in self.running() if job.limit <= ticks(until)]
            if not found:
                return
            job = min(found, key=lambda job: (job.limit, -job.instance.depth, job.number))
            self.clock.now_s = max(self.clock.now_s, job.limit / 1e6)
            self.finishes(job, 0)

    def ask(self) -> None:
        """Queries, which change nothing."""
        instance = self.instance()
        graph = instance._graph
        graph.aggregate()
        graph.why_not(RandomRequest(self.source, self.machine).request)
        graph.earliest(RandomRequest(self.source, self.machine).request)

    # -- the course --------------------------------------------------------------------------------------------------

    WEIGHTS: ClassVar = {
        "submit": 12,
        "finish": 5,
        "stopped": 4,
        "cancel": 2,
        "spawn": 5,
        "deeper": 2,
        "grow": 3,
        "shrink": 3,
        "close": 1,
        "fail": 1,
        "expire": 1,
        "duration": 2,
        "state": 3,
        "cable": 1,
        "wait": 6,
        "ask": 1,
    }

    def run(self, steps: int = STEPS) -> None:
        with Audits().used():
            self._run(steps)
        self.check_waiting()
        self.top.shut("the course is over")
        while any(job.state is State.CLEANUP for job in self.oracle.running):
            self.end_all()
        if self.machine.graph.jobs():
            raise Broken(f"after the end, {self.machine.graph.jobs()} hold something")
        if problems := self.machine.graph.check():
            raise Broken(f"after the end: {problems[0].where}: {problems[0].message}")

    def _run(self, steps: int) -> None:
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
            self.counts[f"depth {max(one.depth for one in self.top.walk())}"] += 1

    def check(self) -> None:
        self.oracle.check()
        assert self.top.graph is not None  # handles what is due; the time does not change from here on
        self.clock.is_still = True
        self.oracle.check()
        if problems := self.top.check():
            raise Broken(f"check(): {problems[0].where}: {problems[0].message}")
        self.oracle.check_nested(self.top)
        self.check_suppliers()
        self.clock.is_still = False

    def check_waiting(self) -> None:
        """All jobs that can start have started: another pass of any instance starts none.

        Not checked if runners keep limits, because some policies wait at a limit for the ends that follow, nor for policies that
        consider only the first jobs, which see another job when one of them has started.
        """
        if self.keeps_limits:
            return
        assert self.top.graph is not None  # handles what is due
        self.clock.is_still = True
        for one in list(self.top.walk()):
            if len(one.queue) and not getattr(one.policy, "queue_depth", 0) and one.schedule():
                raise Broken(f"a job of {one.address} was waiting although a pass can start it")
        self.clock.is_still = False

    def check_suppliers(self) -> None:
        """The records of the machine have exactly what is drawn from each supplier and through each cable."""
        oracle, machine = self.oracle, self.machine
        drawn = oracle.drawn(self.top)
        graph = self.top.graph
        now, is_known = graph.now(), not oracle.changed
        if self.numbers[0] is not graph.structure:
            accounts = graph.structure.accounts
            self.numbers = graph.structure, {name: accounts.edge_named(name) for name in machine.cables}
        for supply in machine.suppliers:
            v = supply if isinstance(supply, int) else self.numbers[1][supply]
            if v < 0:
                continue  # a cable without a capacity
            if graph.planner.covered_by(v, now, now + 1) >= 0:
                continue  # one job has all of the feed, which implies what it draws below
            held = graph.planner.used(v, now, now + 1)
            if held < drawn[supply] or (is_known and held != drawn[supply]):
                raise Broken(f"{drawn[supply]} are drawn from {machine.labels[supply]}, but {held} are recorded")


def run(
    first: int,
    number: int,
    *,
    stop_at: int = 3,
    aloud: bool = False,
    speed: float = 0.0,
    make: Callable[[int, float], Course] = Course,
) -> tuple[list[str], Counter[str]]:
    """Run courses with consecutive seeds; returns what was wrong, and how often each step was made."""
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    for seed in range(first, first + number):
        course = make(seed, speed)
        try:
            course.run()
        except Exception as error:  # noqa: BLE001  # reported with the course and its step
            text = f"course {seed}, step {len(course.log)}: {type(error).__name__}: {error}\n  " + "\n  ".join(course.log[-6:])
            wrong.append(text)
            if aloud:
                print(text, flush=True)
        counts += course.counts
        counts["courses"] += 1
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
    parser.add_argument("--speed", type=float, default=0.0, help="simulated seconds per real second; 0: it does not run")
    options = parser.parse_args()
    gc.freeze()  # imported modules are never freed
    gc.set_threshold(20_000, 20, 20)
    began = time.perf_counter()
    wrong, counts = run(options.seed, options.courses, stop_at=options.stop_at, aloud=True, speed=options.speed)
    number, depths = counts.pop("courses"), {name: counts.pop(name) for name in sorted(counts) if name.startswith("depth")}
    print(f"{number} courses from seed {options.seed}, {sum(counts.values())} steps, {len(wrong)} wrong", dict(counts), depths)
    took = time.perf_counter() - began
    print(f"{took:.0f} s, {number / took:.1f} courses/s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

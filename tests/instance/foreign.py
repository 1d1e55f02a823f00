"""A random campaign in which others change the graph of a tree of instances between their calls.

    python -m tests.instance.foreign --courses 1000 --seed 1

Others free what jobs hold, at once or from a moment on, move ends, take pools themselves, and change the shape of the machine.
The oracle knows the running programs from the calls of the runners alone: one uses what its job got until its end is reported,
whatever the records say (rule T1).  No job may start on a unit that a program uses or that others hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import Random
from typing import ClassVar

import fluxres
from fluxres import Resource, ResourceGraph, UnknownPool
from fluxres.errors import FluxresError
from fluxres.instance import Instance, Job, State
from fluxres.instance.runner import Runner
from tests.instance.machines import ManualClock
from tests.instance.meeting import Broken
from tests.queue_policies import POLICIES

STEPS = 40
INVENTORIES = ("graph", "graph", "auto", "auto", "named:node", "named:core", "counted:memory")
LENGTHS = (None, 1, 2, 5, 10, 30)
SHAPE = 3
"""Nodes of the machine at first."""


class ObservedRunner(Runner):
    """Programs that stop at once, or when the course reports their end."""

    def __init__(self, course: Course, stops_at_once: bool) -> None:
        self.course, self.stops_at_once = course, stops_at_once

    def start(self, job: Job) -> None:
        try:
            self.course.begin(job)
        except Broken as error:  # raised here it would be an exception of the job
            self.course.broken = error

    def stop(self, job: Job, why: str) -> None:
        if self.stops_at_once:
            self.course.report(job)


class Course:
    """A tree of instances, and random calls of it and of others."""

    def __init__(self, seed: int) -> None:
        self.source = source = Random(seed)
        self.clock = ManualClock()
        parts = [Resource("node", SHAPE, children=[Resource("core", 2)]), Resource("memory", size=8, unit="GiB")]
        graph = fluxres.build(*parts, name="lab", clock=self.clock)
        self.kind = source.choice(INVENTORIES)
        self.top = Instance(
            graph,
            clock=self.clock,
            name="top",
            runner=ObservedRunner(self, source.random() < 0.3),
            inventory=self.kind,
            queue_policy=source.choice(POLICIES),
        )
        self.using: dict[Job, Counter[str]] = {}
        """By job whose program runs, the units by uuid of the pools below which nothing is."""
        self.lost: set[str] = set()
        """Pools that others have taken while the records did not have them."""
        self.broken: Broken | None = None
        self.log: list[str] = []
        self.counts: Counter[str] = Counter()
        self.number = 0

    # -- what programs and others use --------------------------------------------------------------------------------

    def leaves(self, job: Job) -> Counter[str]:
        """The units of a job by uuid, for pools without any below them."""
        structure, found = job.instance.graph.structure, Counter[str]()
        for where, units in job.instance.inventory.pools(job.claim):
            v = structure.vertex(where)
            inside = range(v, structure.end.item(v))
            for u in (u for u in inside if structure.end.item(u) == u + 1):
                found[structure.uuid(u)] += units if u == v else structure.size.item(u)
        return found

    def begin(self, job: Job) -> None:
        mine, theirs = self.leaves(job), self.held_by_others()
        beside = [each for each in self.using if not self.is_parent(each)]
        structure = self.top._graph.structure
        for uuid, units in mine.items():
            v, used = structure.vertex(uuid), sum(self.using[each][uuid] for each in beside)
            if units + used + theirs[uuid] > structure.size.item(v) and uuid not in self.lost:
                who = [f"{_name(each)} ({each.state.name})" for each in beside if self.using[each][uuid]]
                said = f"{_name(job)} starts on {structure.path(v)}"
                raise Broken(f"{said}, which programs of {who} use, and others {theirs[uuid]} units of it")
        self.using[job] = mine

    def is_parent(self, job: Job) -> bool:
        """Whether the jobs of a child use what this job has."""
        return job.child is not None

    def held_by_others(self) -> Counter[str]:
        """The units that others hold now, by uuid of the pools below which nothing is."""
        graph, found = self.top._graph, Counter[str]()
        structure = graph.structure
        for name in graph.jobs():
            if name.startswith("theirs"):
                for span in graph.allocation(name, at=self.clock.now_s).spans:
                    v = structure.vertex(span.pool)
                    inside = range(v, structure.end.item(v))
                    for u in (u for u in inside if structure.end.item(u) == u + 1):
                        found[structure.uuid(u)] += span.amount if u == v else structure.size.item(u)
        return found

    def report(self, job: Job) -> None:
        """The program of a job has ended."""
        self.using.pop(job, None)
        if job.state in (State.RUN, State.CLEANUP):
            job.instance.finish(job, 0)

    # -- calls of the instances --------------------------------------------------------------------------------------

    def instance(self) -> Instance:
        return self.source.choice(list(self.top.walk()))

    def request(self) -> str:
        what = self.kind.partition(":")[2] or self.source.choice(["node", "core", "memory"])
        return f"slot={self.source.randint(1, 3)}/{what}"

    def submit(self) -> None:
        self.instance().submit(self.request(), duration_s=self.source.choice(LENGTHS))

    def reserve(self) -> None:
        start_s, duration_s = self.clock.now_s + self.source.choice([0.5, 1, 3]), self.source.choice([1, 5])
        self.top.reserve(self.request(), start_s=start_s, duration_s=duration_s)

    def spawn(self) -> None:
        found = [(one, job) for one in self.top.walk() for job in one.jobs(State.RUN) if job.child is None and one.depth < 2]
        if found:
            (one, job), kind = self.source.choice(found), self.source.choice(["graph", "auto"])
            one.spawn(job, inventory=kind, runner=ObservedRunner(self, self.source.random() < 0.3))

    def finish(self) -> None:
        """The program of a running job ends by itself."""
        found = [job for job in self.using if job.state is State.RUN and job.child is None]
        if found:
            self.report(self.source.choice(found))

    def stopped(self) -> None:
        """A program that was asked to stop has stopped."""
        found = [job for job in self.using if job.state is State.CLEANUP and (job.child is None or job.child.is_closed)]
        if found:
            self.report(self.source.choice(found))

    def cancel(self) -> None:
        found = [(one, job) for one in self.top.walk() for job in one.jobs(State.SCHED, State.RUN)]
        if found:
            one, job = self.source.choice(found)
            one.cancel(job)

    def duration(self) -> None:
        found = self.top.jobs(State.RUN)
        if found:
            self.top.set_duration(self.source.choice(found), self.source.choice([1, 3, 20, 60]))

    def advance(self) -> None:
        """Now others can get nothing that a program uses, unless they took it before the instances had noticed."""
        self.top.advance()
        graph, now = self.top.graph, self.top.graph.now()
        total: Counter[str] = Counter()
        for job, units in self.using.items():
            if not self.is_parent(job):
                total += units
        for uuid, number in total.items():
            v = _vertex(graph, uuid)
            if v >= 0 and uuid not in self.lost and graph.structure.size.item(v) - graph.planner.free(v, now, now + 1) < number:
                raise Broken(f"{number} units of {graph.structure.path(v)} are used, and others can get some of them")
        if self.top.inventory.ahead:
            return  # a late job may have what is reserved ahead
        for problem in self.top.check():
            v = _vertex(graph, problem.where.rpartition(" ")[2])
            if v >= 0 and self.lost.isdisjoint(graph.structure.uuid(u) for u in range(v, graph.structure.end.item(v))):
                raise Broken(f"check(): {problem.where}: {problem.message}")

    def wait(self) -> None:
        """Time passes, and nobody calls; often until just a limit."""
        now_s = self.clock.now_s
        ends = [end for job in self.top.jobs(State.RUN) if (end := job.ends_at) is not None and now_s < end < 1e6]
        to_limit = bool(ends) and self.source.random() < 0.4
        self.clock.now_s = min(ends) if to_limit else now_s + self.source.choice([0.25, 1, 3])

    # -- calls of others ---------------------------------------------------------------------------------------------

    def job_in_graph(self) -> str | None:
        found = [str(job.id) for job in self.top.jobs() if self.top._graph.records.is_holder(str(job.id))]
        return self.source.choice(found) if found else None

    def free(self) -> None:
        if (name := self.job_in_graph()) is not None:
            start = self.source.choice([None, None, self.clock.now_s, self.clock.now_s + 1, self.clock.now_s + 4])
            end = self.source.choice([None, None, None, None, self.clock.now_s + 5])
            self.top._graph.free(name, start=start, end=end)

    def end(self) -> None:
        if (name := self.job_in_graph()) is not None:
            self.top._graph.set_end(name, self.clock.now_s + self.source.choice([0.25, 1, 2, 8, 40]))

    def take(self) -> None:
        self.number += 1
        graph, before = self.top._graph, self.held_by_others()
        duration_s, start = self.source.choice([1, 4, 20]), self.clock.now_s + self.source.choice([0, 0, 0, 1, 3])
        name = f"theirs{self.number}"
        graph.allocate(self.request(), job=name, duration_s=duration_s, start=start)
        # They may take what others have freed before the instance has noticed, and for later what is free by then.
        self.lost |= (self.held_by_others() - before).keys() if start == self.clock.now_s else self._pools_of(name)

    def _pools_of(self, name: str) -> set[str]:
        structure, found = self.top._graph.structure, set[str]()
        for span in self.top._graph.allocation(name).spans:
            v = structure.vertex(span.pool)
            found |= {structure.uuid(u) for u in range(v, structure.end.item(v))}
        return found

    def give(self) -> None:
        found = [name for name in self.top._graph.jobs() if name.startswith("theirs")]
        if found:
            self.top._graph.free(self.source.choice(found))

    def merge(self) -> None:
        self.number += 1
        if len(self.top._graph.structure.of_type("node")) < 2 * SHAPE:
            other = Resource("node", id=100 + self.number, children=[Resource("core", 2)])
            self.top._graph.merge(fluxres.build(other, name="lab"))

    def unlink(self) -> None:
        structure = self.top._graph.structure
        nodes = structure.of_type("node").tolist()
        if len(nodes) > 1:
            self.top._graph.unlink(structure.path(self.source.choice(nodes)))

    def state(self) -> None:
        structure = self.top._graph.structure
        node = structure.path(self.source.choice(structure.of_type("node").tolist()))
        self.top._graph.set_state(node, self.source.choice(["up", "up", "drain"]))

    # -- the course --------------------------------------------------------------------------------------------------

    WEIGHTS: ClassVar = {
        "submit": 12,
        "reserve": 1,
        "spawn": 2,
        "finish": 3,
        "stopped": 3,
        "cancel": 1,
        "duration": 1,
        "advance": 3,
        "wait": 6,
        "free": 4,
        "end": 3,
        "take": 2,
        "give": 2,
        "merge": 1,
        "unlink": 1,
        "state": 1,
    }

    def run(self, steps: int = STEPS) -> None:
        names, weights = list(self.WEIGHTS), list(self.WEIGHTS.values())
        for _ in range(steps):
            name = self.source.choices(names, weights)[0]
            self.log.append(f"{self.clock.now_s:g} {name}")
            try:
                getattr(self, name)()
                self.counts[name] += 1
            except FluxresError as error:
                if name in ("advance", "finish", "stopped"):
                    raise
                self.log[-1] += f": {type(error).__name__}: {error}"
                self.counts[f"{name} refused"] += 1
            self.check()
        self.end_all()

    def check(self) -> None:
        if self.broken is not None:
            raise self.broken

    def end_all(self) -> None:
        self.top.shut("the course is over")
        for _ in range(1000):
            if not (found := [job for job in reversed(self.using) if job.state is State.CLEANUP]):
                break
            self.report(found[0])
        self.check()
        left = [name for name in self.top._graph.jobs() if not name.startswith("theirs")]
        if left:
            raise Broken(f"after the end, {left} hold something")
        if problems := self.top._graph.check():
            raise Broken(f"after the end: {problems[0].where}: {problems[0].message}")


def _vertex(graph: ResourceGraph, name: str) -> int:
    """The pool with this uuid or path, -1 if it was removed."""
    try:
        return graph.structure.vertex(name)
    except UnknownPool:
        return -1


def _name(job: Job) -> str:
    return f"{job.instance.address}/{job.id}"


def run(first: int, number: int, *, stop_at: int = 3, aloud: bool = False) -> tuple[list[str], Counter[str]]:
    """Run courses with consecutive seeds; returns what was wrong, and how often each step was made."""
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    for seed in range(first, first + number):
        course = Course(seed)
        try:
            course.run()
        except Exception as error:  # noqa: BLE001  # reported with the course and its step
            text = f"course {seed}, step {len(course.log)}: {type(error).__name__}: {error}\n  " + "\n  ".join(course.log[-8:])
            wrong.append(text)
            if aloud:
                print(text, flush=True)
        counts += course.counts
        counts["courses"] += 1
        if len(wrong) >= stop_at:
            break
    return wrong, counts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.instance.foreign", description=__doc__)
    parser.add_argument("--courses", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stop-at", type=int, default=3)
    options = parser.parse_args()
    began = time.perf_counter()
    wrong, counts = run(options.seed, options.courses, stop_at=options.stop_at, aloud=True)
    number = counts.pop("courses")
    print(f"{number} courses from seed {options.seed}, {sum(counts.values())} steps, {len(wrong)} wrong", dict(counts))
    print(f"{time.perf_counter() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

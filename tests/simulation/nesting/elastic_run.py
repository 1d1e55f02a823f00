"""Random elastic hierarchies with failures, which must choose the same units on all inventories.

``python -m tests.simulation.nesting.elastic_run --cases 1000`` prints differences with their seeds; the exit status is then 1.
"""

from __future__ import annotations

import sys
from random import Random
from typing import Any, NamedTuple

from fluxres.clock import FOREVER
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.events import EVENT_ORDERS
from fluxres.simulation.machine import Machine, of_shape
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.results.numbering import Translated
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission, Workload
from tests.simulation.campaigns import campaign

S = 1_000_000


class Case(NamedTuple):
    """What is simulated: jobs of cores or nodes on elastic children, while nodes fail and are drained."""

    nodes: int
    cores: int
    unit: str
    hierarchy: Hierarchy
    jobs: list[Submission]
    events: list[ExternalEvent]
    event_order: str
    on_failure: str

    @property
    def machine(self) -> Machine:
        return Machine(of_shape(f"node={self.nodes}/core={self.cores}" if self.cores else f"node={self.nodes}"), self.unit)


def made(seed: int) -> Case:
    """The case of a seed."""
    random = Random(seed)
    nodes, unit = random.randint(2, 6), random.choice(("core", "core", "node"))
    cores = random.randint(2, 4) if unit == "core" else 0
    count = nodes * max(cores, 1)
    hierarchy = Hierarchy(
        (random.randint(2, min(4, count)),),
        (random.choice(("fcfs", "easy", "conservative")),),
        boot_s=random.choice((0, 0, 1)),
        larger="up",
        elastic=random.choice(("demand", "demand", "share:7")),
        divide=(unit,),
    )
    order, on_failure = random.choice(list(EVENT_ORDERS)), random.choice(("fail", "requeue"))
    return Case(nodes, cores, unit, hierarchy, _jobs(random, count), _events(random, nodes), order, on_failure)


def _jobs(random: Random, count: int) -> list[Submission]:
    found, submit = [], 0
    for number in range(random.randint(4, 20)):
        submit += random.choice((0, 1, 2, 5, 10)) * S
        run = random.randint(1, 40) * S
        limit = random.choice((FOREVER, run, run + 5 * S))
        found.append(Submission(number, submit, run, limit, random.randint(1, max(count // 2, 1))))
    return found


def _events(random: Random, nodes: int) -> list[ExternalEvent]:
    found = []
    for _ in range(random.randint(0, 3)):
        at, target = random.randint(0, 60), f"node{random.randrange(nodes)}"
        found.append(ExternalEvent(at * S, random.choice(("down", "drain")), target))
        if random.random() < 0.7:
            found.append(ExternalEvent((at + random.randint(1, 40)) * S, "up", target))
    return sorted(found, key=lambda event: event.at)


class Kept:
    """A sink that keeps start, end, instance and units of each job, and the units of its interrupted attempts."""

    def __init__(self) -> None:
        self.jobs: dict[int | str, tuple[Any, ...]] = {}

    def add(self, job: Any) -> None:
        attempts = [(each.start, each.end, each.allocated()) for each in job.earlier]
        self.jobs[job.id] = job.start, job.end, job.instance, job.allocated(), attempts

    def close(self) -> None:
        """Nothing to do."""


def simulated(case: Case, inventory: str) -> dict[int | str, tuple[Any, ...]]:
    """What each job got."""
    kept, machine = Kept(), case.machine
    simulator = Simulator(
        machine,
        hierarchy=case.hierarchy,
        inventory=inventory,
        event_order=case.event_order,
        disturbances=Disturbances(case.events, case.on_failure),
        sinks=[Translated(kept, machine.graph.structure, case.unit)],
        keep=False,
    )
    result = simulator.run(Workload("case", list(case.jobs)))
    assert not [*result.errors, *map(str, simulator.instance.check())]
    return kept.jobs


def difference(seed: int) -> str:
    """Where another inventory differs from the graph; empty if none does."""
    case = made(seed)
    expected = simulated(case, "graph")
    for inventory in ("auto",) if case.cores else ("auto", "named"):  # named pools are of the coarsest type
        found = simulated(case, inventory)
        for job in sorted({*found, *expected}, key=str):
            if found.get(job) != expected.get(job):
                return f"seed {seed}, {inventory}: job {job} is {found.get(job)}, on the graph {expected.get(job)}"
    return ""


if __name__ == "__main__":
    sys.exit(campaign(__doc__, lambda seed: [text] if (text := difference(seed)) else []))

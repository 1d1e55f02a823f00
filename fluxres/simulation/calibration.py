"""Decisions measured for a fit beside those of a run, so that it describes other topologies as well.

A run measures what it makes: one instance of a machine that starts jobs of one core says nothing about machines of other
sizes and larger requests, and no fit of it does.  Calibration measures four workloads more on the same machine, with the
same policies: jobs of all sizes on one instance, a long queue of small jobs, and jobs of all sizes on many children of one
instance and on instances that divide the machine by two, level by level.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from fluxres.clock import TICKS_PER_S
from fluxres.simulation.costs.cost import Measured
from fluxres.simulation.costs.least import Least
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission

if TYPE_CHECKING:
    from fluxres.simulation.costs.cost import Cost
    from fluxres.simulation.costs.fit import Fit
    from fluxres.simulation.machine import Machine

MIXED_JOBS: Final = 200
"""Of all sizes; half of them come at once."""
QUEUED_JOBS: Final = 400
"""Of one unit; half of them come at once."""
LEVELS_MAX: Final = 5
"""How often the machine is divided by two."""
CHILDREN_MAX: Final = 64
"""Of one instance: a parent that makes many children decides with other work between its decisions, which takes longer."""
INTERVAL_S: Final = 0.2
"""Between jobs that do not come at once, so that they meet an empty queue."""


class Mixed:
    """Jobs of powers of two of units, up to a largest one, in a random order that is always the same."""

    def __init__(self, jobs: int, largest: int) -> None:
        self.jobs = jobs
        self.sizes = [1 << power for power in range(largest.bit_length()) if 1 << power <= largest]

    def __len__(self) -> int:
        return self.jobs

    def __iter__(self) -> Iterator[Submission]:
        drawn, at_once = random.Random(self.jobs), self.jobs // 2
        for number in range(self.jobs):
            submit = max(0, number - at_once) * round(INTERVAL_S * TICKS_PER_S)
            yield Submission(number + 1, submit, 1, 1, drawn.choice(self.sizes))


def calibrates(cost: Cost) -> bool:
    """Whether a model asks for calibration."""
    own = cost.cost if isinstance(cost, Least) else cost
    return isinstance(own, Measured) and own.calibrates


def calibrate(
    fit: Fit,
    machine: Callable[[], Machine],
    *,
    queue_policies: Sequence[str] = ("easy",),
    match_policies: Sequence[str] = ("first",),
    inventory: str = "auto",
) -> None:
    """Let a fit see varied decisions, if its model asks for that.

    Args:
        machine: makes the machine, which is different for each simulation.
    """
    if not calibrates(fit.cost):
        return
    own = fit.cost.cost if isinstance(fit.cost, Least) else fit.cost
    passes = own.passes if isinstance(own, Measured) else 1
    for cost in (*[fit.cost] * (passes - 1 if isinstance(fit.cost, Least) else 0), fit):
        for hierarchy, jobs in _parts(machine().count, queue_policies, match_policies):
            fit.begin()
            Simulator(machine(), hierarchy=hierarchy, inventory=inventory, cost=cost, keep=False).run(jobs)
    fit.begin()


def _parts(count: int, queue_policies: Sequence[str], match_policies: Sequence[str]) -> Iterator[tuple[Hierarchy, Mixed]]:
    policies = tuple(queue_policies), tuple(match_policies)
    largest = max(1, count // 2)  # a job of the whole machine is a case of its own
    yield Hierarchy((), *policies), Mixed(MIXED_JOBS, largest)
    yield Hierarchy((), *policies), Mixed(QUEUED_JOBS, 1)
    if count > 1:
        yield Hierarchy((min(CHILDREN_MAX, count // 2),), *policies, larger="up"), Mixed(MIXED_JOBS, largest)
    levels = min(LEVELS_MAX, count.bit_length() - 1)
    if levels:
        yield Hierarchy((2,) * levels, *policies, larger="up"), Mixed(MIXED_JOBS, largest)

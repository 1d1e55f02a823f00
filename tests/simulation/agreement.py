"""Compare runs of random traces with the oracles: every start, and every pool if pools have names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

from fluxres import ResourceGraph
from fluxres.clock import TICKS_PER_S
from fluxres.documents.source import Source
from fluxres.simulation.machine import of_number, of_shape
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload import batsim, swf
from fluxres.syntax import idset
from tests.simulation import batched, oracle
from tests.simulation.workload import traces


def _nodes(number: int) -> ResourceGraph:
    return of_shape(f"node={number}")


class Case(NamedTuple):
    """A queue policy, its oracle, and the machine."""

    policy: str
    expected: Callable[[list[oracle.Asked], int], None]
    machine: Callable[[int], ResourceGraph]
    has_names: bool = False
    event_order: str = "sequential"


def _batched(make_pass: batched.Pass) -> Callable[[list[oracle.Asked], int], None]:
    return partial(batched.run, make_pass=make_pass)


_SHORTEST_FIRST = partial(oracle.easy_by_count, shortest_first=True)

CASES = {
    "fcfs, counted": Case("fcfs", oracle.fcfs, of_number),
    "easy-count, counted": Case("easy-count", oracle.easy_by_count, of_number),
    "easy, counted": Case("easy", oracle.easy_by_count, of_number),
    "easy-sjbf, counted": Case("easy-sjbf", _SHORTEST_FIRST, of_number),
    "conservative, counted": Case("conservative", oracle.conservative_by_count, of_number),
    "fcfs, named": Case("fcfs", oracle.fcfs, _nodes),
    "easy-count, named": Case("easy-count", oracle.easy_by_count, _nodes),
    "easy, named": Case("easy", oracle.easy_by_name, _nodes, has_names=True),
    "conservative, named": Case("conservative", oracle.conservative_by_name, _nodes, has_names=True),
    "fcfs, batched": Case("fcfs", _batched(batched.fcfs), _nodes, has_names=True, event_order="batched"),
    "easy, batched": Case("easy", _batched(batched.easy), _nodes, has_names=True, event_order="batched"),
    "easy-count, batched": Case("easy-count", _batched(batched.easy_by_count), of_number, event_order="batched"),
    "easy-sjbf, batched": Case(
        "easy-sjbf", _batched(partial(batched.easy_by_count, shortest_first=True)), of_number, event_order="batched"
    ),
    "conservative, batched": Case("conservative", _batched(batched.conservative), _nodes, has_names=True, event_order="batched"),
}


def differences(name: str, seed: int, inventory: str = "auto") -> list[str]:
    """Differences from the oracle for the trace of this seed."""
    case, random = CASES[name], Random(seed)
    if random.random() < 0.7:
        trace, read = traces.swf(random), swf.read
    else:
        trace, read = traces.batsim(random), batsim.read
    case.expected(trace.jobs, trace.size)
    workload = read(Source(trace.text, "trace"))
    machine = case.machine(trace.size)
    result = simulate(workload, machine, queue_policy=case.policy, inventory=inventory, event_order=case.event_order)
    schedule = result.schedule
    assert schedule is not None
    found = [] if result.refusals.ids == trace.refused else [f"refused {result.refusals.ids}, expected {trace.refused}"]
    if sorted(map(str, schedule.ids)) != sorted(str(job.id) for job in trace.jobs):
        return [*found, f"jobs {sorted(map(str, schedule.ids))}"]
    starts = dict(zip(schedule.ids, schedule.start, strict=True))
    ends = dict(zip(schedule.ids, schedule.end, strict=True))
    units = dict(zip(schedule.ids, schedule.allocated, strict=True))
    for job in trace.jobs:
        assert job.start is not None
        window = starts[job.id] / TICKS_PER_S, ends[job.id] / TICKS_PER_S
        if window != (job.start, job.start + job.lasts):
            found.append(f"job {job.id} runs over {window}, expected {(job.start, job.start + job.lasts)}")
        elif case.has_names and frozenset(idset.parse(units[job.id])) != job.units:
            found.append(f"job {job.id} has {units[job.id]}, expected {sorted(job.units)}")
    return found

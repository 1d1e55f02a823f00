"""The operations of the matching benchmark, as seen by a caller.

An operation begins with the text of a jobspec, one that was read before, and ends with R as JSON; the allocation is freed outside
the measurement, and timed separately.  Times are processor times, so that neighbours on the machine do not count; a figure is
the least and the median of many runs.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from fluxres.model import ResourceGraph
from fluxres.syntax.jobspec import as_request
from tests.bench import machines
from tests.bench.machines import Job

RUNS = 400
SECONDS = 1.5
"""A figure is of this number of runs, or as many as fit into the time."""


@dataclass
class Figure:
    """Microseconds."""

    least: float
    median: float
    runs: int


@dataclass
class Column:
    """All of one machine and one policy."""

    shape: str
    nodes: int
    policy: str
    load_s: float = 0
    first_request_s: float = 0
    loaded_mb: float = 0
    figures: dict[str, Figure] = field(default_factory=dict)
    queue_jobs: int = 0
    queue_worst_us: float = 0
    queue_99_us: float = 0
    queue_tenths_us: list[float] = field(default_factory=list)
    makespan_s: int = 0
    queued_mb: float = 0
    peak_mb: float = 0

    def as_values(self) -> dict[str, object]:
        return asdict(self)


def resident_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_mb() -> float:
    """Its maximum."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


def timed(call: Callable[[], object], after: Callable[[], object] = lambda: None) -> tuple[Figure, Figure]:
    """Times of a call, and of what follows each time."""
    taken: list[float] = []
    following: list[float] = []
    clock = time.process_time
    while len(taken) < RUNS and (len(taken) < 5 or sum(taken) + sum(following) < SECONDS):
        began = clock()
        call()
        done = clock()
        after()
        following.append(clock() - done)
        taken.append(done - began)
    return _figure(taken), _figure(following)


def _figure(taken: list[float]) -> Figure:
    return Figure(min(taken) * 1e6, statistics.median(taken) * 1e6, len(taken))


def loaded(column: Column) -> ResourceGraph:
    """The machine of a column, before the first request."""
    began = time.process_time()
    graph = ResourceGraph(machines.machine(column.shape, column.nodes))
    column.load_s = time.process_time() - began
    return graph


def allocate(graph: ResourceGraph, text: str, policy: str, job: str = "job") -> bytes:
    """One operation: from text to text."""
    return orjson.dumps(graph.allocate(text, job=job, policy=policy).R())


def single(graph: ResourceGraph, column: Column, names: Sequence[str]) -> None:
    """The requests by name, on an idle machine, including an impossible one."""
    texts = machines.documents(column.nodes)
    for name in names:
        if name == "64 nodes" and column.nodes < 64:
            continue
        text = texts[name]
        given, freed = timed(lambda text=text: allocate(graph, text, column.policy), lambda: graph.free("job"))
        column.figures[name] = given
        column.figures[f"{name}, free"] = freed
    column.figures["satisfiable, N+1 nodes"] = timed(lambda: graph.satisfiable(texts["N+1 nodes"]))[0]


def fill(graph: ResourceGraph, column: Column) -> None:
    """Node by node until none is left: the mean of one, three times."""
    text = machines.documents(column.nodes)["1 node"]
    means = []
    for _ in range(3 if column.nodes <= 1024 else 1):
        began = time.process_time()
        for number in range(column.nodes):
            allocate(graph, text, column.policy, f"job{number}")
        means.append((time.process_time() - began) / column.nodes)
        assert graph.aggregate().get("node", 0) == 0
        for number in range(column.nodes):
            graph.free(f"job{number}")
    column.figures["fill, per node"] = _figure(means)


def queue(graph: ResourceGraph, column: Column, jobs: Sequence[Job]) -> None:
    """Every job allocated now or reserved at its earliest start."""
    taken = []
    for number, job in enumerate(jobs):
        text = job.document()
        as_request(text)  # the benchmark measures requests that were read before
        began = time.process_time()
        given = graph.allocate_orelse_reserve(text, job=f"job{number}", policy=column.policy)
        orjson.dumps(given.R())
        taken.append((time.process_time() - began) * 1e6)
        column.makespan_s = max(column.makespan_s, int(given.end))
    in_order = sorted(taken)
    column.queue_jobs = len(jobs)
    column.figures["queue, mean"] = Figure(statistics.mean(taken), statistics.median(taken), len(taken))
    column.queue_99_us, column.queue_worst_us = in_order[int(len(taken) * 0.99)], in_order[-1]
    tenth = max(len(taken) // 10, 1)
    column.queue_tenths_us = [statistics.mean(taken[at : at + tenth]) for at in range(0, tenth * (len(taken) // tenth), tenth)]
    column.queued_mb = resident_mb()


def behind(graph: ResourceGraph, column: Column) -> None:
    """Small requests behind the queue: reserved where there first is room, and freed."""
    for name in ("1 core", "1 node"):
        text = machines.documents(column.nodes)[name]

        def reserve(text: str = text) -> bytes:
            return orjson.dumps(graph.allocate_orelse_reserve(text, job="late", policy=column.policy).R())

        column.figures[f"{name}, behind the queue"] = timed(reserve, lambda: graph.free("late"))[0]


def measure(column: Column, jobs: Sequence[Job], parts: Sequence[str]) -> Column:
    """All operations of a column, or those named: single, fill, queue."""
    graph = loaded(column)
    column.loaded_mb = resident_mb()
    began = time.process_time()
    allocate(graph, machines.documents(column.nodes)["1 core"], column.policy)
    column.first_request_s = time.process_time() - began
    graph.free("job")
    if "single" in parts:
        single(graph, column, ["1 core", "8 cores + 1 GPU", "1 node", "64 nodes"])
    if "fill" in parts:
        fill(graph, column)
    if "queue" in parts:
        queue(graph, column, jobs)
        behind(graph, column)
    column.peak_mb = peak_mb()
    return column

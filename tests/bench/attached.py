"""The changes of a scheduler on a graph that is attached to a SQLite store, each batch on disk before the next one begins.

    python -m tests.bench.attached [--against CHECKOUT] [--queue queue-1024.csv] [--nodes 1024] [--batch 16] [--times 9]

First pairs of `allocate` (4 cores) and `free` on *flat*, in memory and attached by turns, and with `--against` by turns with
another checkout, so that all meet the same load of the machine; with the number of calls of Python functions, which no load
changes.  Then the queue of the matching benchmark on *rack*, each job allocated or reserved, with what Fluxion took for the same
jobs in memory if the file has recorded that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

import orjson

import fluxres
from fluxres import clock
from fluxres.model import ResourceGraph
from tests.bench import fluxion, machines

T = TypeVar("T")


class Taken(NamedTuple):
    """Microseconds of one unit of work: of processor time, and by the clock."""

    cpu_us: float
    wall_us: float

    def __str__(self) -> str:
        return f"{self.cpu_us:.0f} us of processor time, {self.wall_us:.0f} us by the clock ({1e6 / self.wall_us:,.0f} a second)"


def taken(work: Callable[[], object], number: int) -> Taken:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Taken((time.process_time() - cpu) / number * 1e6, (time.perf_counter() - wall) / number * 1e6)


def batches(items: Sequence[T], number: int) -> Iterator[Sequence[T]]:
    for at in range(0, len(items), number):
        yield items[at : at + number]


def pairs(graph: ResourceGraph, number: int, batch: int) -> None:
    """Allocate for a batch of jobs, then free them, until this number of jobs is through."""
    together = nullcontext if graph.attachment is None else graph.batch
    for names in batches([f"j{job}" for job in range(number)], batch):
        with together():
            for name in names:
                graph.allocate("slot/core=4", job=name, duration_s=3600)
        with together():
            for name in names:
                graph.free(name)


def queue(graph: ResourceGraph, jobs: Sequence[machines.Job], batch: int) -> float:
    """Allocate or reserve for each job, and make its R; returns the end of the last one."""
    ends = []
    for some in batches(list(enumerate(jobs)), batch):
        with graph.batch():
            for number, job in some:
                granted = graph.allocate_orelse_reserve(job.document(), job=f"j{number}", policy="first")
                orjson.dumps(granted.R())
                ends.append(granted.end)
    return max(ends)


def attached(shape: str, nodes: int, folder: Path) -> ResourceGraph:
    store = f"sqlite://{folder}/{shape}.db"
    fluxres.save(ResourceGraph(machines.machine(shape, nodes)), store)
    return fluxres.open(store, clock=clock.fixed(0))


def calls(work: Callable[[], object]) -> int:
    """How many Python functions are called."""
    number = 0

    def count(_frame: object, event: str, _given: object) -> None:
        nonlocal number
        number += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return number


KINDS = ("in memory", "attached")


def answer_requests(nodes: int, batch: int, number: int) -> None:
    """Measure pairs whenever a line of the input asks for it, with the package that this process finds."""
    with tempfile.TemporaryDirectory() as folder:
        memory = ResourceGraph(machines.machine("flat", nodes))
        with attached("flat", nodes, Path(folder)) as kept:
            graphs = dict(zip(KINDS, (memory, kept), strict=True))
            for graph in graphs.values():
                pairs(graph, 10 * batch, batch)
            found = [calls(partial(pairs, graph, 10 * batch, batch)) / batch / 10 for graph in graphs.values()]
            print(json.dumps(found), flush=True)
            for line in sys.stdin:
                graph = graphs[line.strip()]
                print(json.dumps(taken(partial(pairs, graph, number, batch), number)), flush=True)


class Measured:
    """A process that measures pairs with the package of one checkout."""

    def __init__(self, checkout: Path, given: argparse.Namespace) -> None:
        numbers = [str(given.nodes), str(given.batch), str(given.pairs)]
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--answer", *numbers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(checkout)},
        )
        self.calls = dict(zip(KINDS, self._line(), strict=True))
        self.found: dict[str, list[Taken]] = {kind: [] for kind in KINDS}

    def _line(self) -> list[float]:
        assert self._process.stdout is not None
        said: list[float] = json.loads(self._process.stdout.readline())
        return said

    def measure(self, kind: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind}\n")
        self._process.stdin.flush()
        self.found[kind].append(Taken(*self._line()))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def ratio(some: Sequence[Taken], others: Sequence[Taken]) -> float:
    """How much processor time some took of what others did, in the median of the rounds."""
    return median(one.cpu_us / other.cpu_us for one, other in zip(some, others, strict=True))


def report_pairs(given: argparse.Namespace) -> None:
    here = Path(fluxres.__file__).parents[1]
    checkouts = {"": here} if given.against is None else {"": here, ", the other checkout": given.against}
    measured = {name: Measured(checkout, given) for name, checkout in checkouts.items()}
    for _ in range(given.times):
        for kind in KINDS:
            for one in measured.values():
                one.measure(kind)
    for name, one in measured.items():
        one.close()
        for kind, times in one.found.items():
            middle = Taken(*map(median, zip(*times, strict=True)))
            print(f"pairs {kind}, {given.batch} in a batch{name}: {middle}; {one.calls[kind]:.0f} Python calls")
        more = ratio(one.found["attached"], one.found["in memory"])
        print(f"attached costs {more:.2f} times the processor time in memory{name}")
    if given.against is not None:
        for kind in KINDS:
            first, second = (one.found[kind] for one in measured.values())
            print(f"{kind}, processor time against the other checkout: {ratio(first, second):.2f}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def main() -> int:
    if sys.argv[1:2] == ["--answer"]:
        answer_requests(*map(int, sys.argv[2:5]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_024)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=800)
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--against", type=Path, help="another checkout, measured by turns with this one")
    parser.add_argument("--queue", type=Path, help="a recorded queue; one of the same kind by default")
    parser.add_argument("--folder", type=Path, help="where the store of the queue is; a temporary one by default")
    given = parser.parse_args()
    report_pairs(given)
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        folder = Path(made)
        jobs = machines.queue(given.nodes, 1_000) if given.queue is None else machines.read_queue(given.queue)
        ends: list[float] = []
        with attached("rack", given.nodes, folder) as kept:
            each = taken(lambda: ends.append(queue(kept, jobs, given.batch)), len(jobs))
        print(f"queue of {len(jobs)} jobs, attached, until {ends[0]:.0f} s: {each} for each job")
        recorded = fluxion.queue(jobs, "rack", "first")
        if recorded is not None:
            number, mean_us, makespan_s = recorded
            print(f"Fluxion in memory, as recorded: {mean_us:.0f} us for each of {number} jobs, until {makespan_s} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The changes of a scheduler on a graph that is attached to a SQLite store, each batch on disk before the next one begins.

    python -m tests.bench.attached [--queue queue-1024.csv] [--nodes 1024] [--batch 16] [--times 5]

First pairs of `allocate` (4 cores) and `free` on *flat*, in memory and attached by turns, so that both meet the same load of the
machine.  Then the queue of the matching benchmark on *rack*, each job allocated or reserved, with what Fluxion took for the same
jobs in memory if the file has recorded that.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_024)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=1_600)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--queue", type=Path, help="a recorded queue; one of the same kind by default")
    parser.add_argument("--folder", type=Path, help="where the stores are; a temporary one by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        folder = Path(made)
        memory = ResourceGraph(machines.machine("flat", given.nodes))
        with attached("flat", given.nodes, folder) as kept:
            graphs = {"in memory": memory, "attached": kept}
            for graph in graphs.values():
                pairs(graph, 10 * given.batch, given.batch)
            found: dict[str, list[Taken]] = {name: [] for name in graphs}
            for _ in range(given.times):
                for name, graph in graphs.items():
                    found[name].append(taken(lambda graph=graph: pairs(graph, given.pairs, given.batch), given.pairs))
        for name, times in found.items():
            print(f"pairs {name}, {given.batch} in a batch: {Taken(*map(median, zip(*times, strict=True)))}")
        ratio = median(b.cpu_us / a.cpu_us for a, b in zip(found["in memory"], found["attached"], strict=True))
        print(f"attached costs {ratio:.2f} times the processor time in memory; load {os.getloadavg()[0]:.1f}")
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

"""All of the matching benchmark at one size: `python -m tests.bench.match_table --nodes 1024 [--shape rack] [--queue FILE]`.

Each figure is one match, recorded in the planner where the machine fills; the parsing of requests and R are not in it. Times are
processor times, so that neighbours on the machine do not count.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from fluxres.clock import TICKS_PER_S
from fluxres.match import Match, Matcher
from fluxres.planner.planner import Planner
from tests.bench import machines

HOUR = 3600 * TICKS_PER_S
POLICIES = ("first", "high", "lonode", "firstnodex", "locality", "variation", "pack", "spread")


def fresh(shape: str, nodes: int) -> tuple[Matcher, Planner]:
    structure = machines.machine(shape, nodes)
    planner = Planner(
        structure.parent,
        structure.end,
        structure.type,
        structure.size,
        of_type=lambda kind: structure.of_type(structure.types[kind]),
    )
    return Matcher(structure, planner), planner


def record(planner: Planner, found: Match) -> None:
    if len(found) == 1:
        planner.hold(int(found.vertices[0]), int(found.amounts[0]), found.start, found.end)
    else:
        planner.hold_all(found.vertices, found.amounts, found.start, found.end)


def micros(call: Callable[[], object], times: int = 200) -> float:
    call()
    taken = []
    for _ in range(times):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
        if sum(taken) > 2:
            break
    return statistics.median(taken) * 1e6


def run_queue(matcher: Matcher, planner: Planner, jobs: list[machines.Job], policy: str) -> tuple[list[float], int]:
    """Microseconds for each job, allocated or reserved at its earliest start; and the makespan in seconds."""
    taken, makespan = [], 0
    requests: dict[machines.Job, object] = {}
    for job in jobs:
        key = machines.Job(job.nodes, job.cores, job.gpus, 0)
        request = requests.setdefault(key, job.request())
        began = time.process_time()
        found = matcher.earliest(request, job.duration_s * TICKS_PER_S, 0, policy)  # type: ignore[arg-type]
        assert found is not None
        record(planner, found)
        taken.append((time.process_time() - began) * 1e6)
        makespan = max(makespan, found.end // TICKS_PER_S)
    return taken, makespan


def table(shape: str, nodes: int, jobs: list[machines.Job], policies: tuple[str, ...]) -> None:
    rows: dict[str, list[str]] = {}
    for policy in policies:
        matcher, planner = fresh(shape, nodes)
        one, node, many = machines.bundle(1), machines.exclusive_nodes(1), machines.exclusive_nodes(64)
        slot, beyond = machines.bundle(8, 1), machines.exclusive_nodes(nodes + 1)
        asked = [one, slot, node] + ([many] if nodes >= 64 else [])
        column = [f"{micros(partial(matcher.match, request, 0, HOUR, policy)):.0f} µs" for request in asked]
        column += ["-"] * (4 - len(asked))
        column.append(f"{micros(partial(matcher.satisfiable, beyond)):.0f} µs")
        began = time.process_time()
        for _ in range(nodes):
            found = matcher.match(node, 0, HOUR, policy)
            assert found is not None
            record(planner, found)
        column.append(f"{(time.process_time() - began) / nodes * 1e6:.0f} µs")
        assert matcher.match(node, 0, HOUR, policy) is None
        matcher, planner = fresh(shape, nodes)
        taken, makespan = run_queue(matcher, planner, jobs, policy)
        column.append(f"{statistics.mean(taken):.0f} µs")
        column.append(f"{np.percentile(taken, 99):.0f} / {max(taken):.0f} µs")
        column.append(f"{makespan:,} s")
        column.append(f"{planner.nbytes / 1e6:.0f} MB")
        rows[policy] = column
    names = ["1 core", "8 cores + 1 GPU", "1 node", "64 nodes", "satisfiable, N+1 nodes", "fill, per node"]
    names += [f"queue of {len(jobs)}, mean per job", "queue, 99 % / worst", "makespan", "planner after the queue"]
    print(f"{shape}, {nodes} nodes\n| | {' | '.join(rows)} |\n|---|{'--:|' * len(rows)}")
    for at, name in enumerate(names):
        print(f"| {name} | {' | '.join(column[at] for column in rows.values())} |")
    print(f"memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1024)
    parser.add_argument("--shape", choices=machines.SHAPES, default="rack")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--queue", type=Path, help="a recorded queue (CSV) instead of a generated one")
    parser.add_argument("--policy", action="append")
    options = parser.parse_args()
    jobs = machines.read_queue(options.queue) if options.queue else machines.queue(options.nodes, options.jobs)
    table(options.shape, options.nodes, jobs, tuple(options.policy or POLICIES))


if __name__ == "__main__":
    main()

"""Compare the processor time of two commits: `python tests/bench/compare.py OLD NEW [--nodes 1024] [--rounds 60]`.

OLD and NEW are worktrees, each with fluxres installed in its `.venv`. Each gets a process, pinned to the same core, and the two
take turns: a round is a few calls in one, then the same calls in the other, so that a slow phase of the machine slows both. A
figure is the least of all calls. Ratios are valid on any machine; microseconds are not.

An operation goes from the text of a jobspec to R as JSON. "Unseen" texts are new in each call: command, duration and
environment differ. The queue is that of the matching benchmark: a call allocates or reserves all of its jobs, and a figure is the
mean of a job.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CALLS = 20
"""Calls in a round of one operation."""
QUEUED = 400
"""Jobs of the queue."""
REQUESTS = {"1 core": (0, 1, 0), "8 cores + 1 GPU": (0, 8, 1), "1 node": (1, 0, 0), "64 nodes": (64, 0, 0)}
"""Nodes, or cores and GPUs, of the slot."""


def document(request: tuple[int, int, int], number: int) -> str:
    """A jobspec as a scheduler receives it, with command, duration and environment of this number."""
    nodes, cores, gpus = request
    inside = [{"type": "node", "count": nodes}] if nodes else [{"type": "core", "count": cores}]
    inside += [{"type": "gpu", "count": gpus}] if gpus else []
    environment = {f"VARIABLE_{name}": f"/home/user{number}/{name}" for name in range(12)}
    return json.dumps(
        {
            "version": 9999,
            "resources": [{"type": "slot", "count": 1, "label": "task", "with": inside}],
            "tasks": [{"command": ["app", f"--seed={number}"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": 3600 + number, "cwd": f"/home/user{number}", "environment": environment}},
        }
    )


def texts(name: str, unseen: bool) -> Iterator[str]:
    """The documents of an operation."""
    return (document(REQUESTS[name], number if unseen else 0) for number in itertools.count(1))


class Machine:
    """The operations, in the process of one tree."""

    def __init__(self, shape: str, nodes: int) -> None:
        import orjson

        from fluxres.model import ResourceGraph
        from tests.bench import machines

        self.dumps = orjson.dumps
        self.structure = machines.machine(shape, nodes)
        self.graph = ResourceGraph(self.structure)
        self.operations: dict[str, Callable[[], list[tuple[float, float]]]] = {}
        for name in REQUESTS:
            self._add(name, texts(name, unseen=False))
            self._add(f"{name}, unseen text", texts(name, unseen=True))
        self._add("-N2 -c4, without R", itertools.repeat("-N2 -c4"), as_r=False)
        documents = [job.document() for job in machines.queue(nodes, QUEUED)]
        self.operations["job of a queue"] = lambda: [self._queue(ResourceGraph(self.structure), documents)]

    def _queue(self, graph: Any, documents: list[str]) -> tuple[float, float]:
        began = time.process_time()
        for number, text in enumerate(documents):
            self.dumps(graph.allocate_orelse_reserve(text, job=f"job{number}").R())
        middle = time.process_time()
        for number in range(len(documents)):
            graph.free(f"job{number}")
        return (middle - began) / len(documents), (time.process_time() - middle) / len(documents)

    def _add(self, name: str, documents: Iterator[str], as_r: bool = True) -> None:
        graph, dumps, clock = self.graph, self.dumps, time.process_time

        def call() -> tuple[float, float]:
            text = next(documents)
            began = clock()
            given = graph.allocate(text, job="job")
            if as_r:
                dumps(given.R())
            middle = clock()
            graph.free("job")
            return middle - began, clock() - middle

        self.operations[name] = lambda: [call() for _ in range(CALLS)]

    def round(self, name: str) -> list[float]:
        """The least time of an allocation and of a free, in microseconds."""
        taken = self.operations[name]()
        return [min(column) * 1e6 for column in zip(*taken, strict=True)]


def serve(shape: str, nodes: int) -> None:
    """Answer names of operations, one a line."""
    machine = Machine(shape, nodes)
    print(json.dumps(list(machine.operations)), flush=True)
    for line in sys.stdin:
        print(json.dumps(machine.round(line.rstrip("\n"))), flush=True)


class Tree:
    """A worktree and the process that measures it."""

    def __init__(self, path: Path, shape: str, nodes: int) -> None:
        python = path / ".venv" / "bin" / "python"
        command = [str(python), str(Path(__file__).resolve()), "--serve", "--shape", shape, "--nodes", str(nodes)]
        environment = {**os.environ, "PYTHONPATH": str(path)}
        self.process = subprocess.Popen(
            command, cwd=path, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.operations: list[str] = self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def round(self, name: str) -> list[float]:
        assert self.process.stdin is not None
        print(name, file=self.process.stdin, flush=True)
        found: list[float] = self._answer()
        return found

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(old: Tree, new: Tree, name: str, rounds: int) -> tuple[list[float], list[float]]:
    """The least times of both; the first round of each warms up."""
    pairs = [(old.round(name), new.round(name)) for _ in range(rounds + 1)][1:]
    best = [[min(column) for column in zip(*side, strict=True)] for side in zip(*pairs, strict=True)]
    return best[0], best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE", help="the worktree of the old commit and of the new one")
    parser.add_argument("--nodes", type=int, default=1024)
    parser.add_argument("--shape", choices=("rack", "flat"), default="rack")
    parser.add_argument("--rounds", type=int, default=60, help=f"of {CALLS} calls, or of one queue")
    parser.add_argument("--only", action="append", help="operations with this text in their names")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.shape, options.nodes)
        return
    if len(options.trees) != 2:
        parser.error("two worktrees are needed")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    old_tree, new_tree = (Tree(path.resolve(), options.shape, options.nodes) for path in options.trees)
    print(f"{options.shape}, {options.nodes:,} nodes: least of {options.rounds} rounds, µs of processor time")
    print("| operation | old | new | ratio | free: old | new | ratio |\n|---|--:|--:|--:|--:|--:|--:|")
    for name in old_tree.operations:
        if options.only is None or any(part in name for part in options.only):
            old, new = compare(old_tree, new_tree, name, options.rounds)
            cells = [f"{a:.1f} | {b:.1f} | {b / a:.2f}" for a, b in zip(old, new, strict=True)]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
    for tree in (old_tree, new_tree):
        tree.close()


if __name__ == "__main__":
    main()

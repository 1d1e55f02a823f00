"""Several writers on one store: how long each waits, and whether each gets its share.

    python -m tests.crash.fairness --writers 8 --seconds 75 [--store sqlite|postgresql|etcd|ADDRESS]

Each writer is a process with a graph attached to the store; it allocates and frees without a pause. The command fails if one
waited longer than 3 s for a change, if one got less than half of the mean, or if the store does not have what they were told.
With `--commands`, each change opens the store anew instead, as a command does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass

import fluxres
from fluxres import Resource, build
from fluxres.store import open_store
from tests.crash.campaign import address
from tests.traceability import ROOT

WAIT_MAX_S = 3.0
SHARE_MIN = 0.5


@dataclass
class Share:
    """What one writer got.

    Args:
        writer: its number.
        changes: how many it made.
        longest_s: the longest of them.
        median_s: of them.
    """

    writer: int
    changes: int
    longest_s: float
    median_s: float


def write(url: str, writer: int, seconds: float, *, as_commands: bool) -> Share:
    """Allocate and free for some time, from a line on standard input on."""
    took = []
    job = f"w{writer}"
    with fluxres.open(url, command=f"writer {writer}", wait_s=60) as graph:
        graph.matcher  # noqa: B018 - what the first match takes belongs to the start
        print("ready", flush=True)
        sys.stdin.readline()
        until_s, holds = time.monotonic() + seconds, False
        while time.monotonic() < until_s:
            begun = time.perf_counter()
            if as_commands:
                with open_store(url).writing(command=f"writer {writer}", wait_s=60) as transaction:
                    _turn(transaction.graph, job, holds)
            else:
                _turn(graph, job, holds)
            took.append(time.perf_counter() - begun)
            holds = not holds
    took.sort()
    return Share(writer, len(took), took[-1], took[len(took) // 2])


def _turn(graph: fluxres.ResourceGraph, job: str, holds: bool) -> None:
    if holds:
        graph.free(job)
    else:
        graph.allocate("slot=1/core=4", job=job, duration_s=3600)


def campaign(url: str, writers: int, seconds: float, *, as_commands: bool = False) -> tuple[list[Share], list[str]]:
    """Let writers compete; returns what each got, and what is wrong."""
    graph = build(Resource("rack", 64, children=[Resource("node", 16, children=[Resource("core", 32)])]), name="demo")
    store = open_store(url)
    store.put("demo", graph)
    command = [sys.executable, "-m", "tests.crash.fairness", "--store", url, "--seconds", str(seconds)]
    command += ["--commands"] * as_commands
    processes = [
        subprocess.Popen([*command, "--writer", str(writer)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for writer in range(writers)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=seconds + 120)[0] for process in processes]
    problems = [f"writer {i} failed" for i, process in enumerate(processes) if process.returncode]
    shares = [Share(**json.loads(answer)) for answer in answers if answer]
    mean = sum(share.changes for share in shares) / max(1, len(shares))
    problems += [f"writer {s.writer} waited {s.longest_s:.1f} s" for s in shares if s.longest_s > WAIT_MAX_S]
    problems += [f"writer {s.writer} got {s.changes} of {mean:.0f}" for s in shares if s.changes < SHARE_MIN * mean]
    written = store.graphs()[0].seq - 1
    if written != sum(share.changes for share in shares):
        problems.append(f"the store has {written} changes, and {sum(share.changes for share in shares)} were acknowledged")
    problems += [str(problem) for problem in store.load().check()]
    return shares, problems


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--writers", type=int, default=8, help="how many")
    parser.add_argument("--seconds", type=float, default=5, help="how long they compete")
    parser.add_argument("--commands", action="store_true", help="open the store for each change")
    parser.add_argument("--store", default="sqlite", help="a kind, or the address of an empty store")
    parser.add_argument("--writer", type=int, help="be this writer")
    given = parser.parse_args()
    if given.writer is not None:
        print(json.dumps(write(given.store, given.writer, given.seconds, as_commands=given.commands).__dict__))
        return
    with address(given.store) as url:
        shares, problems = campaign(url, given.writers, given.seconds, as_commands=given.commands)
    for share in shares:
        took = f"median {share.median_s * 1e3:.1f} ms, longest {share.longest_s:.2f} s"
        print(f"writer {share.writer}: {share.changes} changes, {took}")
    for problem in problems:
        print(problem)
    counts = [share.changes for share in shares]
    print(
        f"{sum(counts)} changes of {len(shares)} writers in {given.seconds:g} s: {min(counts)} to {max(counts)} each, "
        f"longest wait {max(share.longest_s for share in shares):.2f} s, {len(problems)} problems"
    )
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

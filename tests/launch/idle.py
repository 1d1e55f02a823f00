"""How long slots are idle while requests for them wait: many runs at once, each from a process of its own.

    python -m tests.launch.idle --runs 64 --slots 8 --length 3

Two measures, since no process sees both. By the journal, a slot is idle while it is free and a request for it is in the queue. By
the programs, it is idle from the end of one program to the begin of the next one there, from when that one was in the queue.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import fluxres
from fluxres.clock import seconds
from fluxres.store import open_store
from fluxres.store.journal import Entry


def by_journal(entries: Sequence[Entry], kind: str, units: int) -> float:
    """The longest time, in seconds, for which a unit was free and each request in the queue wanted a single one.

    Args:
        kind: type of the pools; their names begin with it.
        units: that the machine has.

    Requests that never got anything are not in the journal.
    """
    wanted = {entry.event["job"]: _units(entry, kind) for entry in entries if entry.event["event"] == "allocate"}
    moments: list[tuple[float, int, str]] = []
    for entry in entries:
        job = entry.event.get("job", "")
        if entry.event["event"] == "allocate" and entry.event.get("submitted") is not None:
            moments.append((seconds(entry.event["submitted"]), 1, job))
            moments.append((entry.time, 2, job))
        elif entry.event["event"] == "free":
            moments.append((entry.time, 0, job))
    free, queue, since, longest = units, set[str](), None, 0.0
    for at, (when_s, what, job) in enumerate(moments := sorted(moments)):
        match what:
            case 0:
                free += wanted[job]
            case 1:
                queue.add(job)
            case _:
                queue.discard(job)
                free -= wanted[job]
        if at + 1 < len(moments) and moments[at + 1][0] == when_s:
            continue  # of one transaction
        is_idle = free > 0 and bool(queue) and all(wanted[one] == 1 for one in queue)
        if since is not None:
            longest = max(longest, when_s - since)
        since = when_s if is_idle else None
    return longest


def _units(entry: Entry, kind: str) -> int:
    return sum(path.rpartition("/")[2].startswith(kind) for path, _ in entry.event["pools"])


def by_programs(entries: Sequence[Entry], times: dict[str, tuple[float, float]]) -> float:
    """The longest time, in seconds, from the end of a program to the begin of the next one there, which was in the queue already.

    Args:
        times: begin and end of the program of each job.
    """
    of_slot: dict[str, list[tuple[float, float, float]]] = {}
    for entry in entries:
        if entry.event["event"] == "allocate":
            begin, end = times[entry.event["job"]]
            of_slot.setdefault(entry.event["pools"][0][0], []).append((begin, end, seconds(entry.event["submitted"])))
    longest = 0.0
    for runs in of_slot.values():
        for (_, end, _), (begin, _, submitted) in zip(sorted(runs), sorted(runs)[1:], strict=False):
            longest = max(longest, begin - max(end, submitted))
    return longest


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--length", type=float, default=3.0, help="of each program, in seconds")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inside = [{"type": "core", "count": given.slots}]
        machine = {"fluxres": 1, "name": "ws", "resources": [{"type": "node", "hosts": "ws", "with": inside}]}
        store = open_store(str(folder / "idle.db"))
        store.put("ws", fluxres.load(machine))
        script = f"echo $FLUXRES_JOB $(date +%s.%N) $(sleep {given.length}) $(date +%s.%N) >> {folder}/times"
        command = [sys.executable, "-m", "fluxres", "run", "--no-bind", "--wait", "--", "sh", "-c", script]
        environment = {**os.environ, "FLUXRES_STORE": str(folder / "idle.db")}
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        started = [subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) for _ in range(given.runs)]
        statuses = [process.wait() for process in started]
        took_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        lines = [line.split() for line in (folder / "times").read_text().splitlines()]
        times = {job: (float(begin), float(end)) for job, begin, end in lines}
        entries = store.log()
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        least_s = given.runs / given.slots * given.length
        print(
            f"{given.runs} runs of {given.length:g} s on {given.slots} slots: {took_s:.1f} s, at least {least_s:.1f} s", end="; "
        )
        print(f"{cpu_s:.1f} s of CPU")
        print(f"longest idle time of a slot: {by_journal(entries, 'core', given.slots):.3f} s by the journal", end=", ")
        print(f"{by_programs(entries, times):.3f} s by the programs")
    return int(any(statuses) or len(times) != given.runs)


if __name__ == "__main__":
    sys.exit(main())

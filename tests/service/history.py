"""A journal with many jobs of history: start-up, log, an event stream from the start, and compaction.

    python -m tests.service.history [--jobs 1000000] [--store FILE]

Each job is an allocation and an end, two events. A store that was made before is used again.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import islice
from pathlib import Path

import fluxres
from fluxres.store import open_store, upkeep
from tests.service.conftest import DEMO, running

_TOGETHER = 2_000


def made(store: str, jobs: int) -> None:
    """A store with this many jobs that have ended."""
    fluxres.save(fluxres.load(DEMO), store)
    with fluxres.open(store, durability="normal") as graph:
        for first in range(0, jobs, _TOGETHER):
            with graph.batch():
                for job in range(first, min(first + _TOGETHER, jobs)):
                    graph.allocate([f"/demo/rack0/node0/core{job % 8}"], job=f"j{job}", user="ada")
                    graph.free(f"j{job}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--store", default="/tmp/fluxres-history.db")
    given = parser.parse_args()
    store = f"sqlite://{Path(given.store).absolute()}"
    begun = time.monotonic()

    def lap(what: str) -> None:
        nonlocal begun
        now = time.monotonic()
        print(f"{what}: {now - begun:.2f} s", flush=True)
        begun = now

    if not Path(given.store).exists():
        made(store, given.jobs)
        lap(f"{given.jobs:,} jobs were made")
    print(f"{Path(given.store).stat().st_size >> 20} MB", flush=True)
    begun = time.monotonic()
    with running(store) as server:
        lap("the server listens after")
        with fluxres.connect(server.url, timeout_s=600) as graph:
            graph.allocate("slot=1/core", job="first")
            lap("the first change")
            assert graph.log(limit=100)[-1]["job"] == "first"
            lap("`log`, the latest 100")
            middle = graph.log(after=given.jobs, limit=1000)
            lap(f"`log` after the middle, {len(middle)} of its events")
            found = graph.log(job=f"j{given.jobs // 2}")
            lap(f"`log` of one job in the middle ({len(found)} events)")
            last = graph.log(limit=1)[0]["number"]
            begin = next(graph.events(after=0))
            known = begin["context"]["last"] if begin["name"] == "gap" else 0
            lap(f"the first event of a stream from the start ({begin['name']}: {known:,} are forgotten)")
            number = sum(1 for _ in islice(graph.events(after=known), last - known))
            lap(f"a stream of the other {number:,} events")
        memory = Path(f"/proc/{server.process.pid}/statm").read_text(encoding="ascii").split()[1]
        print(f"memory of the server: {int(memory) * 4096 >> 20} MB", flush=True)
    begun = time.monotonic()
    opened = open_store(store)
    with fluxres.open(store):
        lap("`fluxres.open`")

    upkeep.compact(opened)
    lap("compact")
    print(f"{Path(given.store).stat().st_size >> 20} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

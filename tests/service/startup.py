"""How long a server takes from its start to its first answers, on a large graph.

    python -m tests.service.startup [--racks 162] [--jobs 14286]

A rack has 100 nodes of 28 cores and 2 GPUs, and a job holds 7 cores: by default 502,363 pools and 100,002 spans.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import fluxres
from tests.service.conftest import running


def filled(racks: int, jobs: int) -> fluxres.ResourceGraph:
    """A graph with this many racks, and this many jobs of 7 cores."""
    node = {"type": "node", "count": 100, "with": [{"type": "core", "count": 28}, {"type": "gpu", "count": 2}]}
    graph = fluxres.load(
        {"fluxres": 1, "name": "large", "resources": [{"type": "rack", "count": racks, "with": [node]}]}, clock=time.time
    )
    for job in range(jobs):
        rack, node_number = job // 100 % racks, job % 100
        first = job // (100 * racks) * 7
        cores = [f"/large/rack{rack}/node{node_number}/core{core}" for core in range(first, first + 7)]
        graph.allocate(cores, job=f"j{job}", duration_s=86_400)
    return graph


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--racks", type=int, default=162)
    parser.add_argument("--jobs", type=int, default=14_286)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite://{Path(folder)}/site.db"
        graph = filled(given.racks, given.jobs)
        fluxres.save(graph, store)
        print(f"{len(graph):,} pools, {7 * given.jobs:,} spans", flush=True)
        del graph
        for _ in range(given.times):
            begun = time.monotonic()
            with running(store) as server:
                listens = time.monotonic()
                with fluxres.connect(server.url) as remote:
                    assert remote.allocation("j0").job == "j0"
                    asked = time.monotonic()
                    remote.allocate("slot=1/core", job="new", duration_s=60)
                    changed = time.monotonic()
                    remote.free("new")
                parts = [listens - begun, asked - listens, changed - asked, changed - begun]
                stat = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
                memory = int(stat[21]) * 4096 >> 20
                said = "listens after {:.2f} s, first answer {:.2f} s later, first change {:.2f} s later: {:.2f} s".format(*parts)
                print(f"{said}; {(int(stat[11]) + int(stat[12])) / 100:.2f} s of processor time, {memory} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

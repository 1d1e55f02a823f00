"""A campaign of servers that are killed at random moments while clients change a graph through them.

    python -m tests.service.kills --cycles 50 [--clients 6] [--seed 1]

Each client keeps which of its jobs must hold something by what was acknowledged. A change without an answer may
be made or not, but not in part. After each kill the store is read by itself and compared; then the next server starts on it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import fluxres
from fluxres.errors import FluxresError
from fluxres.store import open_store
from tests.service.conftest import demo_store, running

CORES = 2


@dataclass
class Client:
    """What one client knows of its jobs.

    Attributes:
        held: jobs whose allocation was acknowledged, and whose end was not.
        open: the job of the change in progress; it may hold something or not.
    """

    name: str
    random: Random
    held: set[str] = field(default_factory=set)
    open: str | None = None
    count: int = 0
    acknowledged: int = 0

    def work(self, url: str) -> None:
        """Allocate and free until the server is gone."""
        try:
            with fluxres.connect(url, graph="demo", timeout_s=5.0) as graph:
                while True:
                    self._step(graph)
        except (FluxresError, OSError):
            return

    def _step(self, graph: fluxres.service.client.RemoteGraph) -> None:
        if self.held and self.random.random() < 0.6:
            self.open = job = self.random.choice(sorted(self.held))
            graph.free(job)
            self.held.discard(job)
        else:
            self.count += 1
            self.open = job = f"{self.name}-{self.count}"
            try:
                graph.allocate(f"slot=1/core={CORES}", job=job, duration_s=3600)
            except fluxres.InsufficientResources:
                self.open = None
                return
            self.held.add(job)
        self.acknowledged += 1
        self.open = None


def compare(store: str, clients: list[Client]) -> list[str]:
    """What the store has otherwise than the clients know; settles what was in progress."""
    graph = open_store(store).open()[0]
    problems = [str(problem) for problem in graph.check()]
    jobs, units = set(graph.jobs()), dict[str, str]()
    for job in jobs:
        pools = [pool.path for pool in graph.allocation(job).pools]
        if len(pools) != CORES:
            problems.append(f"{job} holds {len(pools)} cores: a change is there in part")
        problems += [f"{path} is held by {units[path]} and {job}" for path in pools if units.setdefault(path, job) != job]
    for client in clients:
        own = {job for job in jobs if job.startswith(f"{client.name}-")}
        unsure = {client.open} if client.open is not None else set()
        problems += [f"{job} was acknowledged and is not there" for job in client.held - own - unsure]
        problems += [f"{job} holds something after its end" for job in own - client.held - unsure]
        client.held, client.open = own, None
    return problems


def cycle(store: str, clients: list[Client], random: Random) -> list[str]:
    """One server, killed after a while."""
    with running(store) as server:
        threads = [threading.Thread(target=client.work, args=(server.url,)) for client in clients]
        for thread in threads:
            thread.start()
        time.sleep(random.uniform(0.05, 1.0))
        server.process.kill()
        server.process.wait()
        for thread in threads:
            thread.join()
    return compare(store, clients)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random = Random(given.seed)
    clients = [Client(f"c{number}", Random(f"{given.seed} {number}")) for number in range(given.clients)]
    with tempfile.TemporaryDirectory() as folder:
        store, begun = demo_store(Path(folder)), time.monotonic()
        problems: list[str] = []
        for number in range(given.cycles):
            problems += [f"cycle {number}: {problem}" for problem in cycle(store, clients, random)]
    acknowledged = sum(client.acknowledged for client in clients)
    took_s = time.monotonic() - begun
    print(f"{given.cycles} servers killed, {acknowledged} changes acknowledged, {len(problems)} problems; {took_s:.0f} s")
    print(*problems[:20], sep="\n")
    return 1 if problems or not acknowledged else 0


if __name__ == "__main__":
    sys.exit(main())

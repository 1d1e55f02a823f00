"""A campaign of servers that are killed at random moments while clients change a graph through them.

    python -m tests.service.kills --cycles 50 [--clients 6] [--seed 1] [--standby [--mixed]] [--store etcd]

Each client keeps which of its jobs must hold something by what was acknowledged. A change without an answer may
be made or not, but not in part. After each kill the store is read by itself and compared; then the next server starts on it.

With `--standby`, another server stands by when the leader is killed, or stopped for longer than its lease, and takes over. The
clients know both, and send what got no answer again, with the same idempotency key: so every change is answered in the end, and
is in the journal exactly once. With `--mixed`, an instance, a child and a program on the store itself work beside them.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random

import fluxres
from fluxres.errors import FluxresError
from fluxres.store import open_store
from tests.crash.campaign import address as new_store
from tests.ports import free_port
from tests.service.conftest import DEMO, Server, running
from tests.service.mixed import Others

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
    waited_s: float = 0.0
    error: str = ""

    def work_through(self, urls: str, end: threading.Event) -> None:
        """Allocate and free until the end, on whichever server leads."""
        try:
            with fluxres.connect(urls, graph="demo", timeout_s=20.0) as graph:
                while not end.is_set():
                    begun = time.monotonic()
                    self._step(graph)
                    self.waited_s = max(self.waited_s, time.monotonic() - begun)
        except (FluxresError, OSError) as error:
            self.error = f"{self.name}: {error}"

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
    for job in {job for job in jobs if job.startswith("c")}:
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


LEASE_S = 1.0


class Pair:
    """A leader and a server that stands by, on one store: a new one stands by as soon as one has ended.

    Args:
        store: URL of the store.
        random: how each leader ends, and when.
    """

    def __init__(self, store: str, random: Random) -> None:
        self.store, self.random = store, random
        self._stack = ExitStack()
        self._ports = [free_port(), free_port()]
        self.servers = [self._begin(port) for port in self._ports]
        self.urls = ",".join(server.url for server in self.servers)

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _begin(self, port: int) -> Server:
        return self._stack.enter_context(running(self.store, "--lease", f"{LEASE_S:g}", "--port", str(port)))

    def change(self) -> str:
        """End the leader in one way or another, and wait until the other one leads; returns which way."""
        leader, second = self.servers
        way = self.random.choice(["killed", "killed", "stopped", "ended"])
        leader.process.send_signal({"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "ended": signal.SIGTERM}[way])
        said = second.says("this server leads the store now", "cannot be taken")
        if way == "stopped":
            leader.process.send_signal(signal.SIGCONT)
            if "cannot be taken" in said:
                way = "stopped within a commit"
        else:
            leader.process.communicate(timeout=60)
            leader = self._begin(int(leader.url.rpartition(":")[2]))
        self.servers = [second, leader]
        self._settle()
        return way

    def _settle(self) -> None:
        """Wait until one leads and the other one does not, the leader first."""
        until_s = time.monotonic() + 60.0
        while (leads := [server.answers("GET", "/ready")[0] == 200 for server in self.servers]).count(True) != 1:
            assert time.monotonic() < until_s, "there is not one leader"
            time.sleep(0.02)
        self.servers = self.servers if leads[0] else self.servers[::-1]


def made_twice(store: str) -> list[str]:
    """Jobs with more than one allocation, or more than one end, in the journal."""
    made = Counter((entry.event["event"], entry.event.get("job")) for entry in open_store(store).log("demo"))
    once = {about: count for about, count in made.items() if about[1] and not about[1].startswith("k-")}  # a child grows
    return [f"{count} times {event} of {job}" for (event, job), count in once.items() if count > 1]


def take_overs(
    store: str, clients: list[Client], random: Random, cycles: int, *, is_mixed: bool = False
) -> tuple[Counter[str], list[str]]:
    """Leaders that end while clients work, and servers that take over; how many ended in which way, and problems."""
    ways, problems, end = Counter[str](), list[str](), threading.Event()
    with Pair(store, random) as pair:
        others = Others(store, pair.urls, random) if is_mixed else None
        threads = [threading.Thread(target=client.work_through, args=(pair.urls, end)) for client in clients]
        for thread in threads:
            thread.start()
        for _ in range(cycles):
            time.sleep(random.uniform(0.05, 1.0))
            ways[pair.change()] += 1
        end.set()
        for thread in threads:
            thread.join()
        if others is not None:
            others.stop()
            ways += others.done
            problems += others.problems()
    problems += [client.error for client in clients if client.error]
    problems += compare(store, clients) + made_twice(store)
    return ways, problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--standby", action="store_true")
    parser.add_argument("--mixed", action="store_true", help="with --standby")
    parser.add_argument("--store", default="sqlite", help="sqlite, postgresql or etcd, or the address of an empty store")
    given = parser.parse_args()
    random = Random(given.seed)
    clients = [Client(f"c{number}", Random(f"{given.seed} {number}")) for number in range(given.clients)]
    with new_store(given.store) as store:
        fluxres.save(fluxres.load(DEMO), store)
        begun = time.monotonic()
        problems: list[str] = []
        if given.standby:
            ways, problems = take_overs(store, clients, random, given.cycles, is_mixed=given.mixed)
            said = ", ".join(f"{count} {way}" for way, count in sorted(ways.items()))
            print(f"leaders: {said}; longest answer {max(client.waited_s for client in clients):.1f} s")
        else:
            for number in range(given.cycles):
                problems += [f"cycle {number}: {problem}" for problem in cycle(store, clients, random)]
    acknowledged = sum(client.acknowledged for client in clients)
    took_s = time.monotonic() - begun
    done = f"{given.cycles} servers {'replaced' if given.standby else 'killed'}, {acknowledged} changes acknowledged"
    print(f"{done}, {len(problems)} problems; {took_s:.0f} s")
    print(*problems[:20], sep="\n")
    return 1 if problems or not acknowledged else 0


if __name__ == "__main__":
    sys.exit(main())

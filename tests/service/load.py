"""Clients that allocate and free through a server, as fast as it answers, with a checker on its event stream.

    python -m tests.service.load --clients 16 --seconds 20 [--nodes 1024]

It starts a server on a store of its own, whose commits are on disk when they are answered. Each client allocates 4 cores and
frees them, over a connection that it keeps. The checker knows nothing of the server but its events: no pool may be held twice,
and each change that was acknowledged must be in the stream exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fluxres
from fluxres.model import ResourceGraph
from tests.bench import machines
from tests.service.conftest import running

CORES = 4
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class Checker:
    """Who holds what, by the events alone.

    Attributes:
        seen: how often each change was in the stream, by event and job.
        faults: what must not happen.
    """

    held: dict[str, str] = field(default_factory=dict)
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    last: int = 0

    def event(self, number: int, name: str, context: dict[str, Any]) -> None:
        if number <= self.last:
            self.faults.append(f"event {number} after event {self.last}")
        self.last = number
        if name == "gap":
            self.faults.append(f"gap: {context}")
        if name not in ("allocate", "free"):
            return
        job = context["job"]
        self.seen[name, job] += 1
        if name == "free":
            for pool in [pool for pool, holder in self.held.items() if holder == job]:
                del self.held[pool]
            return
        for item in context["pools"]:
            pool = item if isinstance(item, str) else item[0]
            if pool in self.held:
                self.faults.append(f"event {number}: {pool} for {job}, but {self.held[pool]} holds it")
            self.held[pool] = job

    def missing(self, acknowledged: set[tuple[str, str]]) -> set[tuple[str, str]]:
        return acknowledged - set(self.seen)

    def finish(self, acknowledged: set[tuple[str, str]]) -> list[str]:
        """The faults of the whole run."""
        lost = [f"{name} of {job} was acknowledged and is not in the stream" for name, job in self.missing(acknowledged)]
        twice = [f"{name} of {job} is {times} times in the stream" for (name, job), times in self.seen.items() if times > 1]
        return self.faults + lost + twice


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes, body: bytes) -> tuple[int, bytes]:
    """Send a request over a connection that stays open, and read status and body of the answer."""
    writer.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
    said = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(said.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(said[9:12]), await reader.readexactly(length)


def head_of(netloc: str, path: str) -> bytes:
    return f"POST /v1/graphs/{path} HTTP/1.1\r\nhost: {netloc}\r\ncontent-type: application/json\r\n".encode()


@dataclass
class Run:
    """What the clients of one run saw.

    Attributes:
        taken_s: seconds of each request.
        acknowledged: the changes that were answered with success, by event and job.
        refused: other answers.
    """

    netloc: str
    graph: str
    taken_s: list[float] = field(default_factory=list)
    acknowledged: set[tuple[str, str]] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)

    async def client(self, number: int, until: float) -> None:
        host, _, port = self.netloc.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        allocate, free = head_of(self.netloc, f"{self.graph}/allocate"), head_of(self.netloc, f"{self.graph}/free")
        turn = 0
        while time.perf_counter() < until:
            job = f"c{number}-{turn}"
            turn += 1
            wanted = b'{"wanted":"slot/core=%d","job":"%b","duration_s":3600}' % (CORES, job.encode())
            for name, head, body in (("allocate", allocate, wanted), ("free", free, b'{"job":"%b"}' % job.encode())):
                begun = time.perf_counter()
                status, said = await ask(reader, writer, head, body)
                self.taken_s.append(time.perf_counter() - begun)
                if status == 200:
                    self.acknowledged.add((name, job))
                else:
                    self.refused[f"{name} {status} {said[:200]!r}"] += 1
        writer.close()


async def follow(netloc: str, graph: str, checker: Checker, ready: asyncio.Event) -> None:
    """Read the event stream of a graph for a checker, until it is cancelled or the server ends it."""
    host, _, port = netloc.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
    writer.write(f"GET /v1/graphs/{graph}/events HTTP/1.1\r\nhost: {netloc}\r\n\r\n".encode())
    number, name = 0, ""
    try:
        while line := await reader.readline():
            if line.startswith(b": following"):
                ready.set()
            elif line.startswith(b"id: "):
                number = int(line[4:])
            elif line.startswith(b"event: "):
                name = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                checker.event(number, name, json.loads(line[6:])["context"])
    finally:
        writer.close()


async def drive(url: str, graph: str, clients: int, seconds: float) -> tuple[Run, Checker, float]:
    """Returns: what the clients saw, the checker, and how many seconds the clients took."""
    netloc = urlsplit(url).netloc
    run, checker, ready = Run(netloc, graph), Checker(), asyncio.Event()
    following = asyncio.create_task(follow(netloc, graph, checker, ready))
    await asyncio.wait_for(ready.wait(), 30)
    begun = time.perf_counter()
    await asyncio.gather(*(run.client(number, begun + seconds) for number in range(clients)))
    took = time.perf_counter() - begun
    for _ in range(100):  # the stream may be a little behind
        if not checker.missing(run.acknowledged):
            break
        await asyncio.sleep(0.1)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    return run, checker, took


def cpu_s(pid: int) -> float:
    """Seconds of processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--nodes", type=int, default=1024, help="of 44 cores and 4 GPUs each")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite://{folder}/site.db"
        graph = ResourceGraph(machines.machine("flat", asked.nodes))
        fluxres.save(graph, store)
        with running(store) as server:
            asyncio.run(drive(server.url, graph.name, asked.clients, 1.0))  # opens the graph, and warms up
            server_s, client_s = cpu_s(server.process.pid), time.process_time()
            run, checker, took = asyncio.run(drive(server.url, graph.name, asked.clients, asked.seconds))
            server_s, client_s = cpu_s(server.process.pid) - server_s, time.process_time() - client_s
    requests = len(run.taken_s)
    slow = sorted(run.taken_s)
    faults = checker.finish(run.acknowledged)
    print(f"{asked.clients} clients, {asked.nodes} nodes, {took:.1f} s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    median_ms, worst_ms = slow[requests // 2] * 1e3, slow[requests * 99 // 100] * 1e3
    print(f"{requests / 2 / took:.0f} pairs/s; p50 {median_ms:.1f} ms, p99 {worst_ms:.1f} ms")
    print(f"CPU a request: server {server_s / requests * 1e6:.0f} us, clients and checker {client_s / requests * 1e6:.0f} us")
    print(f"{len(run.acknowledged)} changes acknowledged, {sum(checker.seen.values())} in the stream, {len(faults)} faults")
    for line in [*faults[:20], *(f"{times} times {what}" for what, times in run.refused.most_common(10))]:
        print(f"- {line}")
    return 1 if faults or run.refused else 0


if __name__ == "__main__":
    sys.exit(main())

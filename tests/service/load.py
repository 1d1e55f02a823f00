"""Clients that allocate and free through a server, as fast as it answers, with a checker on its event stream.

    python -m tests.service.load --clients 16 --seconds 20 [--nodes 1024] [--against CHECKOUT]

It starts a server on a store of its own, whose commits are on disk when they are answered. Each client allocates 4 cores and
frees them, over a connection that it keeps. The checker knows nothing of the server but its events: no pool may be held twice,
and each change that was acknowledged must be in the stream exactly once.

A rate says something on an idle machine only. The processor time of a request does on any: that of the server, by its threads
(the event loop speaks HTTP, the writer makes the changes and commits them, the feed reads the journal for the streams), and that
of the clients with the checker. One interpreter runs the Python of all threads of the server, so their sum bounds its rate. With
`--against`, the server of another checkout is measured by turns, in rounds of a few seconds.
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
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import fluxres
from fluxres.model import ResourceGraph
from tests.bench import machines
from tests.service.conftest import Server, running

CORES = 4
LOOP = "loop"
ROLES = ("write", "feed")
"""What is in the names of the other threads of a server that work for each change."""
CLIENTS = "clients and checker"


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
                number = int(line[4:].partition(b"-")[0])
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


def cpu_s(pid: int) -> dict[str, float]:
    """Seconds of processor time so far, by the threads of a process: those of a server have names, and the first is its loop."""
    found: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended
            name = (task / "comm").read_text(encoding="utf-8").strip()
            role = LOOP if task.name == str(pid) else next((role for role in ROLES if role in name), "others")
            spent_ns = int((task / "schedstat").read_text(encoding="ascii").split()[0])
            found[role] = found.get(role, 0.0) + spent_ns / 1e9
    return found


@dataclass
class Measured:
    """What was measured of one server.

    Attributes:
        rates: pairs a second, of each round.
        taken_s: seconds of each request.
        cpu_us: microseconds of processor time for a request, by thread of the server; that of the clients and the checker.
        faults: what must not happen.
    """

    name: str
    server: Server
    graph: str
    rates: list[float] = field(default_factory=list)
    taken_s: list[float] = field(default_factory=list)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    seen: int = 0

    def round(self, clients: int, seconds: float) -> None:
        before, client_s = cpu_s(self.server.process.pid), time.process_time()
        run, checker, took = asyncio.run(drive(self.server.url, self.graph, clients, seconds))
        after, client_s = cpu_s(self.server.process.pid), time.process_time() - client_s
        number = len(run.taken_s)
        cpu = {role: seconds - before.get(role, 0.0) for role, seconds in after.items()}
        for role, spent_s in {**cpu, "server": sum(cpu.values()), CLIENTS: client_s}.items():
            self.cpu_us.setdefault(role, []).append(spent_s / number * 1e6)
        self.rates.append(number / 2 / took)
        self.taken_s += run.taken_s
        self.faults += checker.finish(run.acknowledged)
        self.refused += run.refused
        self.acknowledged += len(run.acknowledged)
        self.seen += sum(checker.seen.values())

    def report(self) -> None:
        slow, number = sorted(self.taken_s), len(self.taken_s)
        cpu = {role: median(found) for role, found in self.cpu_us.items()}
        threads = ", ".join(f"{role} {cpu[role]:.0f} us" for role in (LOOP, *ROLES, "others") if role in cpu)
        middle_ms, worst_ms = slow[number // 2] * 1e3, slow[number * 99 // 100] * 1e3
        print(f"{self.name}: {median(self.rates):.0f} pairs/s; p50 {middle_ms:.1f} ms, p99 {worst_ms:.1f} ms")
        print(f"  CPU a request: server {cpu['server']:.0f} us ({threads}), {CLIENTS} {cpu[CLIENTS]:.0f} us")
        print(f"  so one interpreter answers at most {1e6 / cpu['server'] / 2:.0f} pairs/s at this load of the machine")
        print(f"  {self.acknowledged} changes acknowledged, {self.seen} in the stream, {len(self.faults)} faults")
        for line in [*self.faults[:20], *(f"{times} times {what}" for what, times in self.refused.most_common(10))]:
            print(f"  - {line}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20.0, help="of all rounds together, for each server")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=1024, help="of 44 cores and 4 GPUs each")
    parser.add_argument("--against", type=Path, help="another checkout, whose server is measured by turns with this one")
    asked = parser.parse_args()
    graph = ResourceGraph(machines.machine("flat", asked.nodes))
    checkouts = {"this checkout": Path(fluxres.__file__).parents[1]}
    if asked.against is not None:
        checkouts["the other one"] = asked.against
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        measured: list[Measured] = []
        for name, checkout in checkouts.items():
            store = f"sqlite://{folder}/{len(measured)}.db"
            fluxres.save(graph, store)
            environment = {"PYTHONPATH": str(checkout), "PYTHONSAFEPATH": "1"}
            measured.append(
                Measured(name, stack.enter_context(running(store, environment=environment, command=True)), graph.name)
            )
        for one in measured:
            asyncio.run(drive(one.server.url, graph.name, asked.clients, 1.0))  # opens the graph, and warms up
        for _ in range(asked.rounds):
            for one in measured:
                one.round(asked.clients, asked.seconds / asked.rounds)
    print(f"{asked.clients} clients, {asked.nodes} nodes; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for one in measured:
        one.report()
    if len(measured) > 1:
        this, other = (one.cpu_us["server"] for one in measured)
        print(f"CPU a request of the server against the other one: {median(a / b for a, b in zip(this, other, strict=True)):.2f}")
    return 1 if any(one.faults or one.refused for one in measured) else 0


if __name__ == "__main__":
    sys.exit(main())

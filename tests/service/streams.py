"""Thousands of event streams of one server, while its graph changes.

    python -m tests.service.streams --streams 10000 --changes 100

Every stream must get every change once and in order. Some clients do not read for a while, and some end and resume. It needs a
limit of open files (`ulimit -n`) above the number of streams.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from fluxres import limits
from tests.service.conftest import demo_store, running
from tests.service.load import ask, cpu_s, head_of

_OPEN_AT_ONCE = 200


@dataclass
class Followed:
    """What the streams saw.

    Attributes:
        late_s: by change, how long after its answer the last stream had it.
        faults: what must not happen, with the number of streams.
    """

    changes: int
    first: int = 0
    done: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    async def follow(self, host: str, port: int, number: int, opened: asyncio.Semaphore, ready: asyncio.Event) -> None:
        """Follow the events until all have come; every 50th client ends once and resumes, every 20th is slow."""
        last, resumes = 0, number % 50 == 0
        until = self.changes
        while last < until:
            async with opened:
                reader, writer = await asyncio.open_connection(host, port, limit=1 << 16)
                resumed = f"Last-Event-ID: {last}\r\n" if last else ""
                writer.write(f"GET /v1/graphs/demo/events HTTP/1.1\r\nhost: {host}:{port}\r\n{resumed}\r\n".encode())
                status = await reader.readline()
                if b" 200 " not in status:
                    self.faults[f"refused: {status!r}"] += 1
                    return
                while not (await reader.readline()).startswith(b": following"):
                    pass
            if not last:
                ready.set()
            if number % 20 == 0:
                await asyncio.sleep(1.0)
            while last < until:
                line = await reader.readline()
                if not line:
                    self.faults["a stream ended"] += 1
                    return
                if line.startswith(b"id: "):
                    seq = int(line[4:].partition(b"-")[0])
                    if last and seq != last + 1:
                        self.faults[f"{'again' if seq <= last else 'missing'}"] += 1
                    if not last:
                        until = self.first + self.changes - 1
                        if seq != self.first:
                            self.faults["the first event is another one"] += 1
                    last = seq
                    if resumes and last == self.first + self.changes // 2:
                        resumes = False
                        break
            writer.close()
        self.done += 1


async def drive(url: str, streams: int, changes: int) -> tuple[Followed, dict[str, float]]:
    netloc = urlsplit(url).netloc
    host, _, port = netloc.partition(":")
    followed, opened = Followed(changes), asyncio.Semaphore(_OPEN_AT_ONCE)
    ready = [asyncio.Event() for _ in range(streams)]
    followed.first = 2  # after the event that loads the graph
    begun = time.perf_counter()
    tasks = [asyncio.create_task(followed.follow(host, int(port), number, opened, each)) for number, each in enumerate(ready)]
    await asyncio.gather(*(each.wait() for each in ready))
    open_s = time.perf_counter() - begun
    reader, writer = await asyncio.open_connection(host, int(port))
    took: list[float] = []
    begun = time.perf_counter()
    for number in range(changes):
        sent = time.perf_counter()
        status, said = await ask(
            reader, writer, head_of(netloc, "demo/tag"), b'{"wanted":"/demo","key":"n","value":"%d"}' % number
        )
        took.append(time.perf_counter() - sent)
        assert status == 200, said
    answered_s = time.perf_counter() - begun
    await asyncio.gather(*tasks)
    all_s = time.perf_counter() - begun
    writer.close()
    return followed, {"open": open_s, "median change": sorted(took)[changes // 2], "changes": answered_s, "all seen": all_s}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=limits.SERVICE_STREAMS_MAX)
    parser.add_argument("--changes", type=int, default=100)
    asked = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = asked.streams + 200
    if hard < needed:
        parser.error(f"{asked.streams} streams need {needed} open files, and the limit is {hard}")
    with tempfile.TemporaryDirectory() as folder, running(demo_store(Path(folder))) as server:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
        followed, seconds = asyncio.run(drive(server.url, asked.streams, asked.changes))
        status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
        memory_mb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
        server_s = cpu_s(server.process.pid)
    print(f"{asked.streams} streams, {asked.changes} changes; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(", ".join(f"{name} {value:.2f} s" for name, value in seconds.items()))
    print(f"server: {server_s:.1f} s of processor time, {memory_mb:.0f} MB at most")
    print(f"{followed.done} streams complete, {sum(followed.faults.values())} faults")
    for what, times in followed.faults.most_common(10):
        print(f"- {times} times {what}")
    return 1 if followed.faults or followed.done < asked.streams else 0


if __name__ == "__main__":
    sys.exit(main())

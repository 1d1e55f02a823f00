"""A campaign of servers that are ended with SIGTERM while clients change a graph, streams are open, and clients are slow.

    python -m tests.service.drains --cycles 10 [--streams 40] [--clients 4] [--seed 1]

Half of the streams are not read, and some clients never send the rest of a body. Each server ends with status 0 in time, what
it acknowledged is in the store, and the streams that were read have all events up to the one where each is to be resumed.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from tests.service.conftest import demo_store, running
from tests.service.kills import Client, compare

_SLOW_SENDERS = 3
DRAIN_S = 25.0
"""10 s for what has begun, 10 s for a client that does not send, and what a busy machine adds."""


def _opened(url: str, request: str) -> socket.socket:
    host, _, port = urlsplit(url).netloc.partition(":")
    made = socket.create_connection((host, int(port)), timeout=60)
    made.sendall(request.format(host=host).encode())
    return made


def _read(stream: socket.socket, found: list[int]) -> None:
    """The numbers of the events of a stream, until it ends."""
    with suppress(OSError), stream.makefile("rb") as lines:
        found.extend(int(line[4:].partition(b"-")[0]) for line in lines if line.startswith(b"id: "))


def cycle(store: str, clients: list[Client], streams: int, random: Random) -> tuple[float, list[str]]:
    """One server; how long it took to end, and problems."""
    seen = [list[int]() for _ in range(streams // 2)]
    with running(store) as server:
        open_ = [_opened(server.url, "GET /v1/graphs/demo/events HTTP/1.1\r\nhost: {host}\r\n\r\n") for _ in range(streams)]
        head = (
            "POST /v1/graphs/demo/tag HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{{"
        )
        slow = [_opened(server.url, head) for _ in range(_SLOW_SENDERS)]
        for stream in open_:
            stream.recv(64)
        threads = [threading.Thread(target=_read, args=one) for one in zip(open_, seen, strict=False)]
        threads += [threading.Thread(target=client.work, args=(server.url,)) for client in clients]
        for thread in threads:
            thread.start()
        time.sleep(random.uniform(0.1, 1.0))
        begun = time.monotonic()
        status, said = server.stop()
        took_s = time.monotonic() - begun
        for thread in threads:
            thread.join()
        for one in [*open_, *slow]:
            one.close()
    found = compare(store, clients)
    found += [f"status {status}: {said}"] * (bool(status) or "Traceback" in said)
    found += [f"ended after {took_s:.1f} s"] * (took_s > DRAIN_S)
    for numbers in seen:
        is_whole = numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else False
        found += ["a stream that was read has gaps, or nothing"] * (not is_whole)
    return took_s, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=10)
    parser.add_argument("--streams", type=int, default=40)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random, took, problems = Random(given.seed), list[float](), list[str]()
    clients = [Client(f"c{number}", Random(f"{given.seed} {number}")) for number in range(given.clients)]
    with tempfile.TemporaryDirectory() as folder:
        store = demo_store(Path(folder))
        for number in range(given.cycles):
            took_s, found = cycle(store, clients, given.streams, random)
            took.append(took_s)
            problems += [f"cycle {number}: {problem}" for problem in found]
    acknowledged = sum(client.acknowledged for client in clients)
    print(f"{given.cycles} servers ended, {acknowledged} changes acknowledged, {len(problems)} problems; ", end="")
    print(f"{sorted(took)[len(took) // 2]:.1f} s until the end, at most {max(took):.1f} s")
    print(*problems[:20], sep="\n")
    return 1 if problems or not acknowledged else 0


if __name__ == "__main__":
    sys.exit(main())

"""A campaign of clients whose histories must be linearizable, while the leader is killed and another server takes over.

    python -m tests.service.histories --seconds 60 [--clients 6] [--seed 1] [--store etcd] [--alone]

Clients allocate named cores, free, extend and set states, on jobs and nodes that they share. Some requests are sent again with
their idempotency key after their answer, and must get the same one. `tests.service.linearizability` checks what they saw against
a model of one node.
"""

from __future__ import annotations

import argparse
import math
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from secrets import token_hex
from typing import Any, NamedTuple

import fluxres
from fluxres.errors import FluxresError, StoreError, Unavailable
from fluxres.service.client.addresses import addresses
from fluxres.service.client.connection import Connection
from fluxres.service.client.requests import of_graph
from tests.crash.campaign import address as new_store
from tests.service.conftest import DEMO, running
from tests.service.kills import Pair
from tests.service.linearizability import Operation, problems

CORES, JOBS = 8, 2
NODES = [f"/demo/rack{rack}/node{node}" for rack in range(2) for node in range(4)]


class Held(NamedTuple):
    """A core that a job holds; infinity is no end."""

    path: str
    job: str
    end: float


class Node(NamedTuple):
    """The state of one node."""

    is_up: bool
    held: frozenset[Held]

    def of(self, job: str) -> frozenset[Held]:
        return frozenset(one for one in self.held if one.job == job)


FREE = Node(True, frozenset())


def ends(held: frozenset[Held]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted((one.path, one.end) for one in held))


def step(node: Node, operation: Operation) -> Node | None:
    """What an operation makes of a node; None if the answer is not that of this node."""
    after, answer = _done(node, operation.name, operation.given)
    return after if not operation.is_answered or answer == operation.answer else None


def _done(node: Node, name: str, given: tuple[Any, ...]) -> tuple[Node, Any]:
    if name == "set_state":
        return node._replace(is_up=given[1] == "up"), 1
    job = given[1]
    own, others = node.of(job), node.held - node.of(job)
    if name == "allocate":
        paths = given[2]
        if not node.is_up or {one.path for one in node.held} & set(paths):
            return node, "insufficient"
        return node._replace(held=node.held | {Held(path, job, math.inf) for path in paths}), paths
    if not own:
        return node, "unknown-job"
    if name == "extend":
        own = frozenset(one._replace(end=given[2]) for one in own)
        return node._replace(held=others | own), ends(own)
    paths = given[2]
    if paths is not None and not set(paths) <= {one.path for one in own}:
        return node, "not-held"
    left = frozenset(one for one in own if paths is not None and one.path not in paths)
    return node._replace(held=others | left), ends(left)


@dataclass
class Client:
    """One client, and what it saw.

    Attributes:
        history: its operations.
        wrong: answers that are wrong whatever the others did.
        resent: requests that were sent again after their answer.
    """

    name: str
    random: Random
    history: list[Operation] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    resent: int = 0

    def work(self, urls: str, end: threading.Event) -> None:
        """Ask for one thing after the other until the end, whichever server leads."""
        connection = Connection(addresses(urls), "", timeout_s=20.0, user=self.name)
        while not end.is_set():
            self._ask(connection, *self._choose())
        connection.close()

    def _choose(self) -> tuple[str, tuple[Any, ...]]:
        node, random = self.random.choice(NODES), self.random
        job = f"{node.replace('/', '.')}-{random.randrange(JOBS)}"
        cores = tuple(sorted(f"{node}/core{core}" for core in random.sample(range(CORES), random.randint(1, 2))))
        match random.choices(["allocate", "free", "free some", "extend", "set_state"], [8, 2, 3, 4, 1])[0]:
            case "allocate":
                return "allocate", (node, job, cores)
            case "free":
                return "free", (node, job, None)
            case "free some":
                return "free", (node, job, cores)
            case "extend":
                return "extend", (node, job, float(2_000_000_000 + random.randrange(10**6)))
            case _:
                return "set_state", (node, random.choice(["up", "up", "up", "down"]))

    def _ask(self, connection: Connection, name: str, given: tuple[Any, ...]) -> None:
        body, key, called = _body(name, given), token_hex(16), time.monotonic()
        try:
            reply = connection.post(of_graph("demo", name), body, key=key)
        except (StoreError, Unavailable) as error:  # done or not
            self.history.append(Operation(called, math.inf, name, given, str(error), self.name))
            return
        except FluxresError as error:
            answer: Any = type(error).code
            self.history.append(Operation(called, time.monotonic(), name, given, answer, self.name))
            return
        self.history.append(Operation(called, time.monotonic(), name, given, _answer(name, reply.document()), self.name))
        if self.random.random() < 0.1:
            self._resend(connection, name, body, key, reply.body)

    def _resend(self, connection: Connection, name: str, body: dict[str, Any], key: str, before: bytes) -> None:
        """Send a request again whose answer is known."""
        self.resent += 1
        try:
            again = connection.post(of_graph("demo", name), body, key=key).body
        except (StoreError, Unavailable):
            return
        except FluxresError as error:
            again = f"{error!r}".encode()
        if again != before:
            self.wrong.append(f"{self.name}: {name} {body} got {before!r}, and then with the same key {again!r}")


def _body(name: str, given: tuple[Any, ...]) -> dict[str, Any]:
    match name:
        case "allocate":
            return {"wanted": list(given[2]), "job": given[1], "grow": True}
        case "free":
            return {"wanted": None if given[2] is None else list(given[2]), "job": given[1]}
        case "extend":
            return {"job": given[1], "end": given[2]}
        case _:
            return {"wanted": given[0], "state": given[1]}


def _answer(name: str, document: dict[str, Any]) -> Any:
    if name == "allocate":
        return tuple(sorted(one["path"] for one in document["pools"]))
    if name == "set_state":
        return document["pools"]
    spans = document["left" if name == "free" else "held"]
    return tuple(sorted((one["path"], math.inf if one["end"] is None else one["end"]) for one in spans))


def wrong(clients: list[Client]) -> list[str]:
    """What is wrong with what the clients saw."""
    history = [one for client in clients for one in client.history]
    return [text for client in clients for text in client.wrong] + problems(
        history, lambda one: one.given[0], lambda _node: FREE, step
    )


def at_work(clients: list[Client], urls: str, until: threading.Event) -> list[threading.Thread]:
    threads = [threading.Thread(target=client.work, args=(urls, until)) for client in clients]
    for thread in threads:
        thread.start()
    return threads


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", default="sqlite", help="sqlite, postgresql or etcd, or the address of an empty store")
    parser.add_argument("--alone", action="store_true", help="one server, which is not killed")
    given = parser.parse_args()
    random, end, ways = Random(given.seed), threading.Event(), Counter[str]()
    clients = [Client(f"c{number}", Random(f"{given.seed} {number}")) for number in range(given.clients)]
    with new_store(given.store) as store:
        fluxres.save(fluxres.load(DEMO), store)
        until_s = time.monotonic() + given.seconds
        if given.alone:
            with running(store) as server:
                threads = at_work(clients, server.url, end)
                time.sleep(given.seconds)
                end.set()
                for thread in threads:
                    thread.join()
        else:
            with Pair(store, random) as pair:
                threads = at_work(clients, pair.urls, end)
                while time.monotonic() < until_s:
                    time.sleep(random.uniform(0.05, 2.0))
                    ways[pair.change()] += 1
                end.set()
                for thread in threads:
                    thread.join()
    begun = time.monotonic()
    found = wrong(clients)
    history = [one for client in clients for one in client.history]
    refused = sum(isinstance(one.answer, str) for one in history if one.is_answered)
    unanswered = [one for one in history if not one.is_answered]
    print(f"leaders: {', '.join(f'{count} {way}' for way, count in sorted(ways.items())) or 'one, which stayed'}")
    print(
        f"{len(history)} operations, {refused} of them refused and {len(unanswered)} without an answer; "
        f"{sum(client.resent for client in clients)} sent again with their key; checked in {time.monotonic() - begun:.1f} s: "
        f"{len(found)} problems"
    )
    print(*Counter(str(one.answer) for one in unanswered).most_common(5), *found[:20], sep="\n")
    return 1 if found or not history else 0


if __name__ == "__main__":
    sys.exit(main())

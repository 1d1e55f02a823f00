"""Rule D1 by force: kill a writing process at random moments, and check what the store holds afterwards.

    python -m tests.crash.campaign --kills 500 [--store sqlite|postgresql|etcd|ADDRESS]

Each life forks a writer, lets it work for a random while and sends SIGKILL.  Then the store must hold exactly the state of
the last operation that was reported as done, or of the one that was under way; the journal must have every operation
reported as done; `check()` must find nothing and the database's own check must pass.  The next writer goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fluxres.store import open_store
from tests.crash import writer
from tests.crash.writer import MAIN, State
from tests.store.graphs import fingerprint, machine
from tests.store.servers import etcd, postgresql


@dataclass
class Tally:
    """The observations."""

    kills: int = 0
    done: int = 0
    under_way: int = 0
    kept: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.done} operations acknowledged, {self.under_way} under way when killed "
            f"({self.kept} wholly there, {self.under_way - self.kept} wholly absent), {len(self.problems)} problems"
        )


def life(url: str, state: State, first: int, random: Random, longest_s: float) -> list[dict[str, Any]]:
    """Fork a writer and kill it; return the lines that it printed."""
    reader, fd = os.pipe()
    seed, weight_max, life_s = random.randrange(2**32), random.choice((0, 10, 60, 256)), random.uniform(0, longest_s)
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            writer.main(url, state, seed, first, fd, weight_max)
        finally:
            # An error in the child must end the child, and not continue as a second campaign.
            traceback.print_exc()
            os._exit(1)
    os.close(fd)
    said = os.read(reader, 1 << 16)  # its life begins with its first operation, however long it took to start
    deadline = time.monotonic() + life_s
    while said and (left_s := deadline - time.monotonic()) > 0:
        if select.select([reader], [], [], left_s)[0]:
            more = os.read(reader, 1 << 16)
            if not more:
                break
            said += more
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    while more := os.read(reader, 1 << 16):
        said += more
    os.close(reader)
    if not os.WIFSIGNALED(status):
        raise SystemExit("the writer ended by itself")
    return [json.loads(line) for line in said.splitlines()]


def judge(url: str, before: State, said: list[dict[str, Any]], tally: Tally) -> State:
    """Compare the store with the printed lines; return its state."""
    done = [line for line in said if line["word"] == "done"]
    under_way = said[-1]["state"] if said and said[-1]["word"] == "try" else None
    acknowledged = done[-1]["state"] if done else before
    found = look(url, tally)
    if under_way is not None:
        tally.under_way += 1
        tally.kept += found == under_way
    if found not in (acknowledged, under_way):
        tally.problems.append(f"kill {tally.kills}: neither the acknowledged state nor the one under way: {found}")
    tally.done += len(done)
    return found


def look(url: str, tally: Tally) -> State:
    """The state of a store; problems are added to the tally."""
    store, found = open_store(url), {}
    tally.problems += [f"kill {tally.kills}: {store.database.kind} says {verdict}" for verdict in store.database.integrity()]
    for name in store.names():
        graph = store.load(name)
        found[name] = fingerprint(graph)
        tally.problems += [f"kill {tally.kills}: {name}: {problem}" for problem in graph.check()]
    return found


def journal_problems(url: str, done: set[int]) -> list[str]:
    """Operations reported as done that are in no journal; they tag the root with their number or replace the graph."""
    store, found = open_store(url), set()
    for entry in store.log(MAIN):
        if entry.command.startswith("operation "):
            found.add(int(entry.command.split()[1]))
        if entry.event["event"] == "tag" and entry.event["key"] == "operation":
            found.add(int(entry.event["value"]))
    return [f"operation {number} was acknowledged and is not in the journal" for number in sorted(done - found)]


def campaign(url: str, kills: int, seed: int, longest_s: float = 0.12) -> Tally:
    """Run and kill a number of writers on one store."""
    random, tally = Random(seed), Tally()
    graph = machine(4, 20)
    open_store(url).put(MAIN, graph)
    state: State = {MAIN: fingerprint(graph)}
    first, acknowledged = 1, set[int]()
    while tally.kills < kills and not tally.problems:
        tally.kills += 1
        said = life(url, state, first, random, longest_s)
        changed_main = state
        for line in said:
            if line["word"] == "done" and line["number"] and line["state"].get(MAIN) != changed_main.get(MAIN):
                acknowledged.add(line["number"])
            changed_main = line["state"] if line["word"] == "done" else changed_main
        state = judge(url, state, said, tally)
        tally.problems += journal_problems(url, acknowledged)
        first = max((line["number"] for line in said), default=first) + 1
    return tally


@contextmanager
def address(store: str) -> Iterator[str]:
    """The address of a store: of a new one, if only its kind is given."""
    if store == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite://{folder}/crash.db"
    elif store == "postgresql":
        with postgresql() as server:
            yield server.store_url
    elif store == "etcd":
        with etcd() as one:
            yield one.store_url
    else:
        yield store


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=500, help="how many")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random operations and moments")
    parser.add_argument("--longest-s", type=float, default=0.12, help="how long a writer lives at most")
    parser.add_argument(
        "--store", default="sqlite", help="a kind, or the address of an empty store, which is kept for inspection"
    )
    arguments = parser.parse_args()
    with address(arguments.store) as url:
        begun = time.monotonic()
        tally = campaign(url, arguments.kills, arguments.seed, arguments.longest_s)
        for problem in tally.problems[:20]:
            print(problem)
        print(f"seed {arguments.seed}: {tally} in {time.monotonic() - begun:.0f} s")
    sys.exit(bool(tally.problems))


if __name__ == "__main__":
    main()

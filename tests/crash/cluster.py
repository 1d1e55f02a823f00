"""An etcd of three servers, of which one after the other is killed and started again while a graph is changed.

    python -m tests.crash.cluster --seconds 40

Each change that was acknowledged must be in the store once, and the graph must be equal to it. The command fails otherwise, and
if a change failed although two servers ran.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import fluxres
from fluxres.errors import StoreError, StoreUnreachable
from fluxres.store import Store, open_store, upkeep
from tests.store.graphs import fingerprint, machine
from tests.store.servers import Etcd


@dataclass
class Tally:
    """The observations.

    Args:
        kills: of servers.
        done: changes that were acknowledged.
        refused: changes of which an error said that nothing was changed, since no server answered in time.
        longest_s: the longest of them.
        problems: in words.
    """

    kills: int = 0
    done: int = 0
    refused: int = 0
    longest_s: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills} servers killed, {self.done} changes acknowledged, {self.refused} refused, "
            f"the longest took {self.longest_s:.1f} s, {len(self.problems)} problems"
        )


class Cluster:
    """Three servers.

    Args:
        folder: their files.
    """

    def __init__(self, folder: Path, random: Random) -> None:
        self.random = random
        for number in range(3):
            (folder / str(number)).mkdir()
        self.members = [Etcd(folder / str(number)) for number in range(3)]
        self._dead: Etcd | None = None
        for member in self.members:
            member.begin(self.members)
        for member in self.members:
            member.wait()

    @property
    def url(self) -> str:
        return f"etcd://{','.join(f'127.0.0.1:{member.port}' for member in self.members)}/site"

    def disturb(self) -> bool:
        """Kill a server, or start the killed one again; whether one was killed."""
        if self._dead is not None:
            self._dead.begin(self.members)
            self._dead = None
            return False
        self._dead = self.random.choice(self.members)
        self._dead.kill()
        return True

    def close(self) -> None:
        for member in self.members:
            member.kill()


def campaign(seconds: float, seed: int) -> Tally:
    random, tally = Random(seed), Tally()
    with tempfile.TemporaryDirectory(prefix="fluxres-etcd-") as folder:
        cluster = Cluster(Path(folder), random)
        try:
            store = open_store(cluster.url)
            store.put("demo", machine())
            until_s = time.monotonic() + seconds
            with fluxres.open(cluster.url) as graph:
                told, refused = _change(graph, cluster, until_s, tally)
                graph.refresh()
                _judge(graph, store, told, refused, tally)
        finally:
            cluster.close()
    return tally


def _change(graph: fluxres.ResourceGraph, cluster: Cluster, until_s: float, tally: Tally) -> tuple[list[str], list[str]]:
    """Change the graph for some time; the tags that were acknowledged, and those that were refused."""
    told, refused, number, next_s = list[str](), list[str](), 0, time.monotonic() + 1
    while (begun_s := time.monotonic()) < until_s:
        if begun_s > next_s:
            tally.kills += cluster.disturb()
            next_s = begun_s + cluster.random.uniform(2, 5)
        try:
            graph.tag("/demo", f"k{number}")
            told.append(f"k{number}")
        except StoreUnreachable:
            tally.refused += 1
            refused.append(f"k{number}")
        except StoreError as error:
            tally.problems.append(str(error))
        tally.longest_s = max(tally.longest_s, time.monotonic() - begun_s)
        number += 1
    tally.done = len(told)
    return told, refused


def _judge(graph: fluxres.ResourceGraph, store: Store, told: list[str], refused: list[str], tally: Tally) -> None:
    stored = [entry.event["key"] for entry in store.log(after=1)]
    tally.problems += [f"{key} was acknowledged and is lost" for key in sorted(set(told) - set(stored))]
    tally.problems += [f"{key} was refused and is there" for key in sorted(set(refused) & set(stored))]
    if len(stored) != len(set(stored)):
        tally.problems.append("a change was made twice")
    if fingerprint(graph) != fingerprint(store.open()[0]):
        tally.problems.append("the graph is not that of the store")
    tally.problems += [problem.message for problem in upkeep.check(store)[1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the moments")
    given = parser.parse_args()
    tally = campaign(given.seconds, given.seed)
    for problem in tally.problems[:20]:
        print(problem)
    print(f"seed {given.seed}: {tally}")
    sys.exit(bool(tally.problems))


if __name__ == "__main__":
    main()

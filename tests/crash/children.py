"""A campaign of instances on one store: a parent, children and grandchildren, whose processes are killed and stopped at random.

    python -m tests.crash.children --seconds 120 [--seed 1] [--lease 1.5] [--store sqlite|postgresql|etcd|ADDRESS]

Each instance is a process. It allocates and frees in its graph; children also grow, shrink and extend what they hold in their
parent, and write what was acknowledged to a file. The check knows all of these files and reads the graphs of the store in one
state. It knows pools by their paths only:

- a unit is held by one job of a graph, and what a child has is held by its job in the parent;
- what was acknowledged is there, as long as the instance has not been ended;
- an instance that was ended acknowledges nothing that it began afterwards;
- at the end, with all processes killed, everything returns to the first parent.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import fluxres
from fluxres.errors import FluxresError, HoldLapsed, StoreConflict
from fluxres.model import ResourceGraph
from fluxres.store import Store, open_store
from fluxres.store.child import Child, open_child
from fluxres.store.claims import Claims
from tests.crash.campaign import address

MACHINE = {
    "fluxres": 1,
    "name": "site",
    "resources": [{"type": "rack", "count": 4, "with": [{"type": "node", "count": 4, "with": [{"type": "core", "count": 4}]}]}],
}
ROOT_JOBS = "p"
"""The jobs of the first parent begin with this, those of the others with `x`."""


# -- an instance ---------------------------------------------------------------------------------------------------------


class Log:
    """What an instance began and what was acknowledged, one line each."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, **facts: Any) -> None:
        os.write(self._file, json.dumps({**facts, "time": time.time()}).encode() + b"\n")

    def around(self, what: str, job: str, operation: Callable[[], Any]) -> None:
        """One change. Errors: HoldLapsed, StoreConflict if the instance was ended."""
        self.write(begun=what, job=job)
        try:
            found = operation()
        except (HoldLapsed, StoreConflict):
            self.write(refused=what)
            raise
        except FluxresError:
            self.write(refused=what)
            return
        self.write(made=what, job=job, paths=found)


def work(url: str, name: str, parent: str, lease_s: float, log: Log, random: Random) -> None:
    """The life of an instance; the first parent has no parent itself."""
    with ExitStack() as stack:
        child: Child | None = None
        if parent:
            wanted = "slot=3/node" if parent == "site" else "slot/node"
            child = stack.enter_context(_opened(url, parent, name, wanted, lease_s, random))
            graph = child.graph
        else:
            graph = stack.enter_context(fluxres.open(url, name="site"))
        log.write(
            open=graph.find("type=node").paths() if child is not None else [], jobs=_jobs(graph, "x" if child else ROOT_JOBS)
        )
        with suppress(HoldLapsed, StoreConflict):
            while True:
                turn(graph, child, "x" if child else ROOT_JOBS, log, random)


def _opened(url: str, parent: str, name: str, wanted: str, lease_s: float, random: Random) -> Child:
    """Begin as soon as the one before has been ended, and the parent has room."""
    while True:
        with suppress(FluxresError):
            return open_child(url, graph=parent, job=f"k{name}", wanted=wanted, name=name, lease_s=lease_s)
        time.sleep(random.uniform(0.05, 0.2))


def _jobs(graph: ResourceGraph, prefix: str) -> dict[str, list[str]]:
    return {job: graph.allocated(job).paths() for job in graph.jobs() if job.startswith(prefix)}


def turn(graph: ResourceGraph, child: Child | None, prefix: str, log: Log, random: Random) -> None:
    """One random change."""
    mine, job = [job for job in graph.jobs() if job.startswith(prefix)], f"{prefix}{os.getpid()}-{random.getrandbits(40):x}"
    draw = random.random()
    if child is None or draw < 0.6:
        if mine and random.random() < 0.55:
            freed = random.choice(mine)
            log.around("free", freed, lambda: graph.free(freed))
        else:
            shape = random.choice(("slot=2/core", "slot/core=3", "slot/core"))
            log.around("allocate", job, lambda: [span.pool for span in graph.allocate(shape, job=job).spans])
    elif draw < 0.75:
        log.around("grow", "", lambda: child.grow("slot/node"))
    elif draw < 0.95:
        idle = graph.find("type=node").paths()
        log.around("shrink", "", lambda: child.shrink(random.choice(idle)))
    else:
        log.around("extend", "", lambda: child.extend(time.time() + 3600))


# -- the check ---------------------------------------------------------------------------------------------------------------


@dataclass
class Known:
    """What an instance must have by its log.

    Attributes:
        jobs: paths of the pools of each job.
        nodes: of a child.
        doubt: the change that was begun and not answered.
        made: when each acknowledged change began.
    """

    jobs: dict[str, list[str]] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    doubt: tuple[str, str] | None = None
    made: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    is_open: bool = False

    @classmethod
    def of(cls, path: Path) -> Known:
        known, begun = cls(), 0.0
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        for line in map(json.loads, lines):
            if "open" in line:
                known.jobs, known.nodes, known.is_open = line["jobs"], set(line["open"]), True
            elif "begun" in line:
                known.doubt, begun = (line["begun"], line["job"]), line["time"]
            elif "refused" in line:
                known.doubt = None
                known.counts["refused"] += 1
            else:
                known.doubt = None
                known._make(line["made"], line["job"], line["paths"])
                known.made.append(begun)
                known.counts[line["made"]] += 1
        return known

    def _make(self, what: str, job: str, paths: Any) -> None:
        if what == "allocate":
            self.jobs[job] = paths
        elif what == "free":
            self.jobs.pop(job, None)
        elif what == "grow":
            self.nodes |= set(paths)
        elif what == "shrink":
            self.nodes -= set(paths)

    def differences(self, graph: ResourceGraph, prefix: str) -> list[str]:
        """What a graph has otherwise than it must have, apart from what is in doubt."""
        what, doubtful = self.doubt or ("", "")
        found, wanted = _jobs(graph, prefix), dict(self.jobs)
        if what in ("allocate", "free"):
            found.pop(doubtful, None)
            wanted.pop(doubtful, None)
        problems = [
            f"{graph.name}: {job} has {found.get(job)} and was given {wanted.get(job)}"
            for job in sorted(found.keys() | wanted.keys())
            if sorted(found.get(job, [])) != sorted(wanted.get(job, []))
        ]
        nodes = set(graph.find("type=node").paths())
        if prefix != ROOT_JOBS and what not in ("grow", "shrink") and nodes != self.nodes:
            problems.append(f"{graph.name}: it has {sorted(nodes)} and was given {sorted(self.nodes)}")
        return problems


def units(graph: ResourceGraph, job: str) -> set[str]:
    """The cores that a job holds now, by the paths of its spans and of all cores."""
    now, cores = graph.clock(), graph.find("type=core").paths()
    tops = {span.pool for span in graph.allocation(job).spans if span.start <= now and (span.end is None or now < span.end)}
    return {core for core in cores if core in tops or any(core.startswith(f"{top}/") for top in tops)}


def seen(store: Store) -> tuple[dict[str, ResourceGraph], list[str]]:
    """All graphs in one state, and what is wrong with them."""
    with store.reading(None) as rows:
        found = {row.name: row for row in rows.graphs()}
        names = {row.uid: row.name for row in found.values()}
        graphs = {name: rows.read(row, time.time) for name, row in found.items()}
        claims = {name: Claims(rows).of(row) for name, row in found.items()}
    parents = {name: (names.get(claim.parent, ""), claim.job) for name, claim in claims.items() if claim is not None}
    problems = []
    for name, graph in graphs.items():
        holders = Counter(core for job in graph.jobs() for core in units(graph, job))
        problems += [f"{name}: {core} is held by {count} jobs" for core, count in holders.items() if count > 1]
        problems += [f"{name}: {problem}" for problem in graph.check()]
        if name == "site":
            continue
        above, job = parents.get(name, ("", ""))
        if above not in graphs or job not in graphs[above].jobs():
            problems.append(f"{name}: its job {job} holds nothing in '{above}'")
            continue
        beyond = set(graph.find("type=core").paths()) - units(graphs[above], job)
        problems += [f"{name}: it has {core}, which its job {job} in '{above}' does not hold" for core in sorted(beyond)]
    return graphs, problems


# -- the campaign ---------------------------------------------------------------------------------------------------------------

PARENTS = {"site": "", "c0": "site", "c1": "site", "g0": "c0", "g1": "c1"}


@dataclass
class Slot:
    """An instance, of which one process runs at a time."""

    name: str
    process: subprocess.Popen[bytes] | None = None
    log: Path = Path()
    is_checked: bool = True


class Campaign:
    """The processes of a run.

    Args:
        url: of an empty store.
        folder: for the logs.
        lease_s: of the children.
    """

    def __init__(self, url: str, folder: Path, lease_s: float, random: Random) -> None:
        self.url, self.folder, self.lease_s, self.random = url, folder, lease_s, random
        self.store = open_store(url)
        fluxres.save(fluxres.load(MACHINE), url)
        self.slots = [Slot(name) for name in PARENTS]
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self._stopped: list[tuple[float, subprocess.Popen[bytes]]] = []
        self._started = 0

    def begin(self, slot: Slot) -> None:
        self._started += 1
        slot.log, slot.is_checked = self.folder / f"{self._started}-{slot.name}", False
        given = [self.url, slot.name, PARENTS[slot.name], str(self.lease_s), str(slot.log), str(self.random.getrandbits(32))]
        slot.process = subprocess.Popen([sys.executable, "-m", "tests.crash.children", "--work", *given])

    def run(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and not self.problems:
            for slot in self.slots:
                if slot.process is None or slot.process.poll() is not None:
                    self.check(slot)
                    self.begin(slot)
            time.sleep(self.random.uniform(0.1, 1.2))
            self._go_on()
            slot, draw = self.random.choice(self.slots), self.random.random()
            assert slot.process is not None
            if draw < 0.35:
                self.kill(slot)
            elif draw < 0.6 and all(slot.process is not one for _, one in self._stopped):
                slot.process.send_signal(signal.SIGSTOP)
                self.counts["stopped"] += 1
                self._stopped.append((time.monotonic() + self.random.choice((0.3, 1.5, 2.5)) * self.lease_s, slot.process))
            else:
                self.problems += seen(self.store)[1]
                self.counts["states checked"] += 1
        self.finish()

    def _go_on(self) -> None:
        for one in [one for one in self._stopped if one[0] < time.monotonic()]:
            self._stopped.remove(one)
            one[1].send_signal(signal.SIGCONT)

    def kill(self, slot: Slot) -> None:
        assert slot.process is not None
        slot.process.kill()
        slot.process.wait()
        self.counts["killed"] += 1
        self.check(slot)

    def check(self, slot: Slot) -> None:
        """Compare what an instance that has ended was given with what the store has, and with when it was ended."""
        if slot.is_checked:
            return
        slot.is_checked, known = True, Known.of(slot.log)
        self.counts.update(known.counts)
        graphs, problems = seen(self.store)
        self.problems += problems
        if not known.is_open:
            return
        if slot.name in graphs:
            self.problems += known.differences(graphs[slot.name], "x" if PARENTS[slot.name] else ROOT_JOBS)
            self.counts["compared"] += 1
            return
        self.counts["found ended"] += 1
        self._require_silence(slot, known)

    def _require_silence(self, slot: Slot, known: Known) -> None:
        """An instance that was ended acknowledged nothing that it began after that."""
        with suppress(FluxresError):
            log = self.store.log(PARENTS[slot.name], job=f"k{slot.name}")
            ends = [entry.time for entry in log if entry.event["event"] == "free" and entry.event["pools"] is None]
            late = [begun for begun in known.made if ends and begun > ends[-1]]
            self.problems += [f"{slot.name}: a change begun at {begun} was made after the end at {ends[-1]}" for begun in late]

    def finish(self) -> None:
        for slot in self.slots:
            self.kill(slot)
        time.sleep(self.lease_s + 0.1)
        while self.store.settle():
            pass
        graphs, problems = seen(self.store)
        site = graphs["site"]
        self.problems += problems + [f"graph '{name}' is left" for name in graphs if name != "site"]
        self.problems += [f"{job} holds something at the end" for job in site.jobs() if not job.startswith(ROOT_JOBS)]


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        url, name, parent, lease_s, log, seed = sys.argv[2:]
        work(url, name, parent, float(lease_s), Log(Path(log)), Random(int(seed)))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120, help="how long")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random operations and moments")
    parser.add_argument("--lease", type=float, default=1.5, help="of the children, in seconds")
    parser.add_argument(
        "--store", default="sqlite", help="a kind, or the address of an empty store, which is kept for inspection"
    )
    arguments = parser.parse_args()
    with ExitStack() as stack:
        url = stack.enter_context(address(arguments.store))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        campaign = Campaign(url, folder, arguments.lease, Random(arguments.seed))
        campaign.run(arguments.seconds)
    print(f"seed {arguments.seed}: {', '.join(f'{count} {what}' for what, count in sorted(campaign.counts.items()))}")
    print("\n".join(campaign.problems) or "0 problems")
    sys.exit(bool(campaign.problems))


if __name__ == "__main__":
    main()

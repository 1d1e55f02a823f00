"""Rule E1 for complete files: any cluster file, document of changes or store gives a result or a FluxresError.

    python -m tests.fuzz.documents --minutes 5

Valid files are damaged (:mod:`tests.fuzz.mutation`) and read as a user reads them: within seconds of processor time and bounded
memory.  A file that can still be read must pass the audit, and be saved and read again as the same machine (rule S1).  A seed and
a number repeat a case.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import fluxres
from fluxres import FluxresError, limits
from fluxres.errors import InputError, Mistake
from fluxres.formats import registry
from fluxres.render.mistakes import lines
from fluxres.store import open_store
from tests.fuzz.mutation import damaged, mutated
from tests.store.graphs import machine

ROOT = Path(__file__).parents[2]
#: of CPU time that a case may take; a collection of garbage in a long run of tests alone may take one
SECONDS = 5.0
#: after which a case is given up
HANG_SECONDS = 30.0
MEMORY_BYTES = 3 << 30
#: the bounds of a machine for this run: one of 64 million pools is allowed, but slow
SMALL = {"POOLS_MAX": 200_000, "EDGES_MAX": 200_000, "SELECTED_MAX": 200_000, "IDSET_COUNT_MAX": 200_000, "RECIPES_MAX": 20_000}

EVERYTHING = b"""fluxres: 1
name: m
parts:
  cpu: &cpu {type: socket, count: 2, with: [{type: core, count: 4}, {type: memory, size: 8, unit: GiB, properties: {speed: 3}}]}
  blade: {use: cpu, count: 1, basename: blade}
resources:
  - type: rack
    count: 2
    name: "r${id:02}"
    with:
      - {type: node, count: 2, hosts: "n[01-04]", tags: {site: a}, state: drain,
         with: [{use: cpu}, {use: blade, exclusive: true}]}
      - {type: switch, names: [s, t], id: {start: 4, within: cluster}, rank: null}
pools: [{type: license, size: 10, uuid: mine}]
graphs:
  power:
    hierarchy: true
    pools: [{type: pdu, count: 2, with: [{type: outlet, count: 2}]}]
    edges: [{from: "power:/pdu[0-1]/outlet0", to: "/m/r0[0-1]", relation: supplies, capacity: 30}]
  network:
    edges:
      - {from: "/m/r00/s", to: "/m/r00/n*", direction: both, attributes: {colour: red}}
      - {from: ["/m/r00/s", "/m/r00/t"], to: "/m/r01/n0[3-4]", pairing: share}
allocations: [{job: j1, start: 0, end: 10, pools: {"/m/r00/n01": 1, "/m/r01/n0[3-4]/blade0/memory": 4}}]
reservations: [{name: w, pools: [/m/r00], windows: [{start: 20, end: 30}, {start: 40, end: 50}], user: ada, ignores_jobs: true}]
"""


class Finding(Exception):
    """A violation of rule E1 or S1."""


class _Hung(BaseException):
    """The case took too long; no reader catches this."""


def _give_up(*_: object) -> None:
    raise _Hung


@contextmanager
def small() -> Iterator[None]:
    """Lower bounds for this run."""
    before = {name: getattr(limits, name) for name in SMALL}
    try:
        for name, value in SMALL.items():
            setattr(limits, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(limits, name, value)


@contextmanager
def watched(what: str) -> Iterator[None]:
    """A result or a FluxresError within the time.

    Errors: Finding.
    """
    began = time.process_time()
    refused: FluxresError | None = None
    before = signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
    try:
        yield
    except FluxresError as error:
        refused = error
    except _Hung:
        raise Finding(f"{what}: no end in {HANG_SECONDS:g} s") from None
    except Exception as error:
        raise Finding(f"{what}: {type(error).__name__}: {error}\n{traceback.format_exc()}") from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    took = time.process_time() - began
    if took > SECONDS:
        raise Finding(f"{what}: {took:.1f} s")
    if refused is not None:
        raise refused


def require_message(error: FluxresError) -> None:
    """A message is a line or two of text that a terminal can show, for each mistake of a bounded number, with its place."""
    mistakes = error.mistakes if isinstance(error, InputError) else [Mistake(error.where, error.message, error.hint)]
    if not 0 < len(mistakes) <= limits.MISTAKES_MAX:
        raise Finding(f"{len(mistakes)} mistakes")
    for mistake in mistakes:
        if not mistake.message or len(str(mistake)) > 5000:
            raise Finding(f"a message of {len(str(mistake))} characters: {str(mistake)[:200]!r}")
        if isinstance(error, InputError) and not mistake.where:
            raise Finding(f"no place: {mistake}")
    if isinstance(error, InputError) and any(len(line) > 5000 or not line.isprintable() for line in lines(error)):
        raise Finding(f"a line that a terminal cannot show: {lines(error)!r:.300}")


class Files:
    """The files to damage: cluster files, documents of changes, stores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        texts = [ROOT / "data" / "clusters" / f"{name}.yaml" for name in ("demo", "workstation")]
        clusters = [EVERYTHING, *(path.read_bytes() for path in [*texts, ROOT / "tests" / "cli" / "machine.yaml"])]
        self.clusters = clusters + [registry.write(registry.read(text).structure).text.encode() for text in clusters]
        self.base = folder / "base.yaml"
        fluxres.save(machine(), self.base)
        self.changes = self._changes()
        self.store = self._store()

    def _changes(self) -> list[bytes]:
        graph = fluxres.load(self.base)
        graph.allocate("/demo/rack0/node0", job="j1", start=0)
        graph.tag(1, "k", "v")
        graph.set_state("/demo/rack1", "down")
        path = self.folder / "c.changes"
        fluxres.save(graph, path, changed_only=True)
        found = [path.read_bytes()]
        graph.unlink("/demo/rack1/node3")
        fluxres.save(graph, path, changed_only=True)
        return [*found, path.read_bytes()]

    def _store(self) -> bytes:
        store = open_store(str(self.folder / "site.db"))
        store.put("demo", machine())
        store.put("more", machine(4, 8))
        with store.writing("demo") as tx:
            tx.graph.allocate("/demo/rack0/node0", job="j1", start=0)
            tx.graph.tag(1, "k", "v")
        return store.path.read_bytes()

    # -- one case of each sort ---------------------------------------------------------------------------------------

    def cluster(self, random: Random) -> str:
        """A cluster file; what was read is audited, saved and read again."""
        path = self.folder / "fuzz.yaml"
        path.write_bytes(mutated(random.choice(self.clusters), random))
        return self._read(lambda: fluxres.load(path))

    def change(self, random: Random) -> str:
        """A document of changes, alone or after what it follows."""
        path = self.folder / "fuzz.changes"
        path.write_bytes(mutated(random.choice(self.changes), random))
        return self._read(lambda: fluxres.load(self.base, changes=path) if random.random() < 0.9 else fluxres.load(path))

    def database(self, random: Random) -> str:
        """A store: listed, loaded, its journal read, written to."""
        path = self.folder / "fuzz.db"
        for old in self.folder.glob("fuzz.db*"):
            old.unlink(missing_ok=True)
        path.write_bytes(damaged(self.store, random))
        store, seen = open_store(str(path)), []
        asked: dict[str, Callable[[], object]] = {
            "names": store.names,
            "default": lambda: store.default,
            "log": lambda: store.log("demo"),
            "load": lambda: store.load("demo").check(),
            "load another": lambda: store.load("more").check(),
            "write": lambda: self._write(path),
            "put": lambda: store.put("new", machine(1, 1), wait_s=0),
            "drop": lambda: store.drop("more", wait_s=0),
        }
        for what, ask in asked.items():
            try:
                with watched(what):
                    ask()
            except FluxresError as error:
                require_message(error)
                seen.append(error.code)
        return seen[0] if seen else "read"

    @staticmethod
    def _write(path: Path) -> None:
        with open_store(str(path)).writing("demo", wait_s=0) as tx:
            tx.graph.tag(2, "k")

    def _read(self, load: Callable[[], fluxres.ResourceGraph]) -> str:
        try:
            with watched("load"):
                graph = load()
        except FluxresError as error:
            require_message(error)
            return error.code
        if len(graph) > 20_000:
            return "read, large"
        with watched("check"):
            problems = [problem for problem in graph.check() if problem.severity == "error"]
        if problems:
            raise Finding(f"check: {problems[:3]}")
        try:
            with watched("write"):
                written = registry.write(graph.structure, registry.holds(graph), name=graph.name)
        except FluxresError as error:
            raise Finding(f"read and not written again: {error}") from error
        if written.left_out:
            raise Finding(f"left out: {written.left_out[:3]}")
        return "read"


SORTS = ("cluster", "cluster", "cluster", "change", "database")


@dataclass
class Tally:
    """The observations."""

    cases: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        seen = ", ".join(f"{count} {what}" for what, count in self.cases.most_common())
        return f"{self.cases.total()} cases, {len(self.findings)} findings: {seen}"


def case(files: Files, seed: str, tally: Tally) -> None:
    """One case, whose kind and content the seed decides."""
    random = Random(seed)
    sort = random.choice(SORTS)
    try:
        with small():
            outcome = getattr(files, sort)(random)
    except Finding as finding:
        tally.findings.append(f"{sort} {seed}: {finding}")
        outcome = "finding"
    tally.cases[f"{sort} {outcome}"] += 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.documents", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to repeat it")
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="end after this number")
    given = parser.parse_args(arguments)
    warnings.simplefilter("error", RuntimeWarning)  # of NumPy, which a user would see
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, before[1]))
    tally, began, number = Tally(), time.monotonic(), given.first
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        files = Files(Path(folder))
        while time.monotonic() - began < given.minutes * 60 and number - given.first < given.cases and len(tally.findings) < 20:
            case(files, f"{given.seed}/{number}", tally)
            number += 1
    resource.setrlimit(resource.RLIMIT_AS, before)
    for finding in tally.findings:
        print(finding)
    print(tally)
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())

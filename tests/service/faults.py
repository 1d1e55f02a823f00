"""A campaign of faults of the store below a running server, while clients change a graph through it.

    python -m tests.service.faults --store sqlite|postgresql|etcd [--faults 20] [--clients 4] [--seed 1]

SQLite: the disk is full for a while. PostgreSQL and etcd: killed and started again; cut off from the server; their answers are
lost; etcd is stopped. All: another writer is stopped while it has the lock. Meanwhile clients get errors that tell whether a
change was made; afterwards each of them succeeds again by itself, and the store has what was acknowledged, once and wholly.
"""

from __future__ import annotations

import argparse
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import fluxres
from fluxres.errors import FluxresError
from fluxres.store import open_store
from tests.service.conftest import DEMO, Server, running
from tests.service.kills import CORES, made_twice
from tests.store.link import Link
from tests.store.servers import Etcd, Postgresql, etcd, postgresql

KINDS = ("sqlite", "postgresql", "etcd")
RECOVERY_S = 60.0
"""Within this time after a fault, each client succeeds."""
_WRITER = """
import sys
from fluxres.store import open_store
with open_store(sys.argv[1]).writing(wait_s=60) as transaction:
    transaction.graph.tag("/demo", "writer")
    print("has the lock", flush=True)
    sys.stdin.readline()
"""

Fault = Callable[[float], None]


@dataclass
class Worker:
    """A client that goes on after errors.

    Attributes:
        held: jobs that hold something.
        unsure: jobs whose last change may be made or not, as its error said.
        errors: by code.
        acknowledged: changes.
    """

    name: str
    random: Random
    held: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    errors: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    _count: int = 0

    def work(self, url: str, end: threading.Event) -> None:
        with fluxres.connect(url, graph="demo", timeout_s=30.0) as graph:
            while not end.is_set():
                self._step(graph, end)

    def _step(self, graph: fluxres.RemoteGraph, end: threading.Event) -> None:
        frees = bool(self.held) and self.random.random() < 0.6
        self._count += not frees
        job = self.random.choice(sorted(self.held)) if frees else f"{self.name}-{self._count}"
        try:
            if frees:
                graph.free(job)
            else:
                graph.allocate(f"slot=1/core={CORES}", job=job, duration_s=3600)
        except fluxres.InsufficientResources:
            return
        except FluxresError as error:
            self.errors[type(error).code] += 1
            if isinstance(error, fluxres.InDoubt):
                self.unsure.add(job)
                self.held.discard(job)
            end.wait(0.05)
            return
        self.acknowledged += 1
        (self.held.discard if frees else self.held.add)(job)


def problems(store: str, workers: list[Worker]) -> list[str]:
    """What the store has otherwise than the clients were told."""
    graph = open_store(store).open("demo")[0]
    found = [str(problem) for problem in graph.check()] + made_twice(store)
    jobs, units = set(graph.jobs()), dict[str, str]()
    for job in jobs:
        pools = [pool.path for pool in graph.allocation(job).pools]
        if len(pools) != CORES:
            found.append(f"{job} holds {len(pools)} cores: a change is there in part")
        found += [f"{path} is held by {units[path]} and {job}" for path in pools if units.setdefault(path, job) != job]
    for worker in workers:
        own = {job for job in jobs if job.startswith(f"{worker.name}-")}
        found += [f"{job} was acknowledged and is not there" for job in worker.held - own]
        found += [f"{job} holds something, which nobody was told" for job in own - worker.held - worker.unsure]
    return found


class Faults:
    """A store, a server on it, and the faults that can happen to them.

    Args:
        kind: of the store.
        stack: ends everything.
        bounds: of the server, where they are not those of `fluxres.limits`.
    """

    def __init__(self, kind: str, stack: ExitStack, bounds: Mapping[str, float]) -> None:
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fluxres-faults-")))
        self.known: dict[str, Fault] = {"a writer is stopped": self._stop_writer}
        below: Etcd | Postgresql | None = None
        if kind == "sqlite":
            self.store = there = f"sqlite://{self.folder}/site.db"
            self.known["the disk is full"] = self._fill_disk
        else:
            below = stack.enter_context(etcd() if kind == "etcd" else postgresql())
            self._link = Link(below.port)
            stack.callback(self._link.close)
            self.store = below.store_url
            there = self.store.replace(str(below.port), str(self._link.port))
            self._below = below
            self.known |= {"it restarts": self._restart, "it is cut off": self._cut, "its answers are lost": self._lose_answers}
        if isinstance(below, Etcd):
            self.known["it is stopped"] = self._stop
        fluxres.save(fluxres.load(DEMO), self.store)
        self.server: Server = stack.enter_context(running(there, "--lease", "2", bounds=bounds))

    def _stop_writer(self, for_s: float) -> None:
        command = [sys.executable, "-c", _WRITER, self.store]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            writer.send_signal(signal.SIGSTOP)
            time.sleep(for_s)
            writer.send_signal(signal.SIGCONT)
            writer.communicate("\n", timeout=60)  # it commits, or is refused

    def _fill_disk(self, for_s: float) -> None:
        """No file of the server can grow, as with a quota (EFBIG instead of EDQUOT)."""
        pid, largest = self.server.process.pid, max(path.stat().st_size for path in self.folder.glob("site.db-wal"))
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (largest, hard))
        time.sleep(for_s)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))

    def _restart(self, for_s: float) -> None:
        self._below.kill()
        time.sleep(for_s)
        self._below.start()

    def _cut(self, for_s: float) -> None:
        self._link.cut()
        time.sleep(for_s)
        self._link.heal()

    def _lose_answers(self, for_s: float) -> None:
        self._link.is_deaf = True
        time.sleep(for_s)
        self._cut(0.0)

    def _stop(self, for_s: float) -> None:
        assert isinstance(self._below, Etcd)
        with self._below.paused():
            time.sleep(for_s)


def at_work(workers: list[Worker], url: str) -> Callable[[], None]:
    """Let clients work; the result ends them."""
    end = threading.Event()
    threads = [threading.Thread(target=worker.work, args=(url, end)) for worker in workers]
    for thread in threads:
        thread.start()

    def stop() -> None:
        end.set()
        for thread in threads:
            thread.join()

    return stop


@contextmanager
def _timed(times: list[float]) -> Iterator[None]:
    begun = time.monotonic()
    yield
    times.append(time.monotonic() - begun)


def wait_for_all(workers: list[Worker]) -> str:
    """Wait until each client has succeeded once more; what is wrong if one does not."""
    before, until_s = [worker.acknowledged for worker in workers], time.monotonic() + RECOVERY_S
    while time.monotonic() < until_s:
        late = [worker for worker, count in zip(workers, before, strict=True) if worker.acknowledged == count]
        if not late:
            return ""
        time.sleep(0.02)
    return f"{', '.join(worker.name for worker in late)}: no change succeeded within {RECOVERY_S:g} s of the end of a fault"


def campaign(
    kind: str, count: int, random: Random, clients: int, longest_s: float = 4.0, bounds: Mapping[str, float] = {}
) -> tuple[str, list[str]]:
    """Make faults happen to a server, which can have other `bounds`; returns a report, and problems."""
    workers = [Worker(f"c{number}", Random(random.random())) for number in range(clients)]
    happened, recovery_s, found = Counter[str](), list[float](), list[str]()
    with ExitStack() as stack:
        faults = Faults(kind, stack, bounds)
        stop = at_work(workers, faults.server.url)
        stack.callback(stop)
        found.append(wait_for_all(workers))
        while happened.total() < count and not any(found):
            time.sleep(random.uniform(0.05, 0.5))
            names = sorted(faults.known)
            name = names[happened.total() % len(names)]
            happened[name] += 1
            faults.known[name](random.uniform(0.2, longest_s))
            with _timed(recovery_s):
                if said := wait_for_all(workers):
                    found.append(f"{name}: {said}")
        stop()
        found += problems(faults.store, workers)
        status, said = faults.server.stop()
        found += [f"the server ended with status {status}: {said}"] * bool(status) + [said] * ("Traceback" in said)
    errors, unsure = sum((worker.errors for worker in workers), Counter()), sum(len(worker.unsure) for worker in workers)
    report = (
        f"{kind}: {', '.join(f'{times} times {name}' for name, times in sorted(happened.items()))}; "
        f"{sum(worker.acknowledged for worker in workers)} changes acknowledged, {unsure} in doubt, "
        f"errors {dict(errors)}; at most {max(recovery_s, default=0.0):.1f} s until each client succeeded again"
    )
    return report, [text for text in found if text]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=KINDS, default="sqlite")
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    report, found = campaign(given.store, given.faults, Random(given.seed), given.clients)
    print(f"{report}; {len(found)} problems")
    print(*found[:20], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs whose processes are killed at random: nothing is held twice, and nothing is left.

    python -m tests.launch.run_campaign --runs 1000 --seed 1
    python -m tests.launch.run_campaign --runs 200 --server

Each program takes a lock on a file for each of its devices, and so do the children that it leaves behind in the background, in
sessions of their own: a lock that is taken already is a device that is held twice. Launchers, guardians and programs get SIGKILL,
alone or together, at random moments from their start on, some while they wait. The launchers are forks of the campaign, which
saves each of them the imports; everything else is as on the command line. With `--server`, two of three runs get their resources
from a server, which is killed and started again in the meantime, and the others from its store.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import fluxres
from fluxres.launch import cgroup
from fluxres.store import mailbox, open_store
from tests.launch import idle
from tests.ports import free_port

DEVICES = 4
SCRIPT = """
n=2
for device in $(echo $CUDA_VISIBLE_DEVICES | tr , ' '); do
    n=$((n + 1))
    eval "exec $n> {folder}/device$device"
    flock -n $n || echo "$FLUXRES_JOB: device $device is held twice" >> {folder}/violations
done
setsid sleep {length} &
sleep {length} &
[ {lasts} = 1 ] && wait
sleep {length}
"""
KILLS = (
    ("launcher",),
    ("guardian",),
    ("program",),
    ("launcher", "guardian"),
    ("guardian", "program"),
    ("launcher", "guardian", "program"),
)
PATIENCE_S = 120.0
IDLE_MAX_S = 0.5


@dataclass
class Outcome:
    """What a campaign did and found.

    Args:
        kills: number of times that each set of processes was killed.
        statuses: number of launchers by exit status.
        problems: what should not be.
        idle_s: the longest time for which a device was free in the store while all in the queue wanted one.
    """

    kills: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    idle_s: float = 0.0


@dataclass
class Launched:
    """A launcher, and when to kill what; None if it is left alone."""

    pid: int
    kill_at: float
    names: tuple[str, ...] | None


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def start(folder: Path, randoms: random.Random, server: str | None = None) -> int:
    """Start a run as a fork of this process.

    Args:
        server: where it gets its resources; the store if None.
    """
    script = SCRIPT.format(folder=folder, length=f"{randoms.uniform(0.01, 0.3):.3f}", lasts=randoms.randrange(2))
    request = [f"-g{randoms.choice((1, 1, 1, 2))}", "--priority", str(randoms.choice((0, 0, 1)))]
    request += [] if server is None else ["--store", server]
    request += ["--duration", "1h"] if randoms.randrange(3) == 0 else []
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 99
    try:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(os.open(folder / "stderr", os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        from fluxres.cli.program import run

        status = run(["run", "--no-bind", *request, "--wait", "--grace", "1", "--", "sh", "-c", script])
    finally:
        os._exit(status)


def kill(one: Launched, outcome: Outcome) -> None:
    """Kill the processes of a run, as far as they are there."""
    assert one.names is not None
    guardians = children(one.pid)
    programs = [pid for guardian in guardians for pid in children(guardian)][:1]
    ids = {"launcher": [one.pid], "guardian": guardians, "program": programs}
    for name in one.names:
        for pid in ids[name]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    outcome.kills["+".join(one.names)] += 1


class Servers:
    """A server on a store, one after the other on one port.

    Args:
        folder: where its output goes.
        store: that it serves.
        randoms: when it is killed.
    """

    def __init__(self, folder: Path, store: Path, randoms: random.Random) -> None:
        self._folder, self._store, self._randoms = folder, store, randoms
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.kills = -1
        self._process: subprocess.Popen[bytes] | None = None
        self.again()

    def again(self) -> None:
        """Kill it, if it runs, and start another one."""
        self.end()
        self.kills += 1
        self.kill_at = time.monotonic() + self._randoms.uniform(1, 6)
        words = ["serve", "--store", f"sqlite://{self._store}", "--port", str(self._port)]
        with (self._folder / "server").open("ab") as out:
            process = subprocess.Popen([sys.executable, "-m", "fluxres", *words], stdout=subprocess.PIPE, stderr=out)
        assert process.stdout is not None
        process.stdout.readline()
        self._process = process

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def campaign(folder: Path, runs: int, seed: int, at_once: int = 12, *, has_server: bool = False) -> Outcome:
    """Make a number of runs, kill some, and say what was wrong."""
    store, randoms, outcome = folder / "campaign.db", random.Random(seed), Outcome()
    os.environ["FLUXRES_STORE"] = str(store)
    resources = [{"type": "core", "count": 16}, {"type": "gpu", "count": DEVICES}]
    machine = {"fluxres": 1, "name": "ws", "resources": [{"type": "node", "hosts": "ws", "with": resources}]}
    open_store(str(store)).put("ws", fluxres.load(machine))
    open_store(str(store)).load().why_not("slot/gpu")  # imports what the launchers need
    for module in ("fluxres.cli.commands.run", "fluxres.launch.runs", "fluxres.service.client.broker"):
        import_module(module)
    servers = Servers(folder, store, randoms) if has_server else None

    running: dict[int, Launched] = {}
    left, deadline = runs, time.monotonic() + PATIENCE_S
    while left or running:
        while left and len(running) < at_once:
            left -= 1
            names = randoms.choice(KILLS) if randoms.random() < 0.6 else None
            through = servers.url if servers is not None and randoms.randrange(3) else None
            pid = start(folder, randoms, through)
            running[pid] = Launched(pid, time.monotonic() + randoms.uniform(0, 1.0), names)
            deadline = time.monotonic() + PATIENCE_S
        for one in list(running.values()):
            if one.names is not None and time.monotonic() >= one.kill_at:
                kill(one, outcome)
                one.names = None
            pid, status = os.waitpid(one.pid, os.WNOHANG)
            if pid:
                del running[pid]
                outcome.statuses[os.waitstatus_to_exitcode(status)] += 1
        if servers is not None and time.monotonic() >= servers.kill_at:
            servers.again()
        if time.monotonic() > deadline:
            outcome.problems.append(f"{len(running)} runs do not end")
            for one in running.values():
                os.kill(one.pid, signal.SIGKILL)
            break
        time.sleep(0.005)
    if servers is not None:
        outcome.kills["server"] = servers.kills
    _look(folder, store, outcome, None if servers is None else servers.url)
    if servers is not None:
        servers.end()
    return outcome


def _look(folder: Path, store: Path, outcome: Outcome, server: str | None) -> None:
    """What is left when everything has ended."""
    from fluxres.cli.settings import Settings
    from fluxres.cli.stores import reading

    urls = [f"sqlite://{store}"] if server is None else [f"sqlite://{store}", server]
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        graph, tickets = reading(Settings(store=str(store))), open_store(str(store)).tickets()
        if not graph.jobs() and not tickets and not _left(urls):
            break
        time.sleep(0.05)
    outcome.problems += [f"{job} holds something" for job in graph.jobs()]
    outcome.problems += [f"{ticket.job} waits" for ticket in tickets]
    outcome.problems += [f"process {pid} runs" for pid in _left(urls)]
    outcome.problems += [str(problem) for problem in graph.check()]
    entries = open_store(str(store)).log()
    marks = [entry.event["launch"]["mark"] for entry in entries if entry.event["event"] == "allocate"]
    outcome.problems += [f"the cgroup {mark} is left" for mark in marks if cgroup.folder_of(mark) is not None]
    outcome.idle_s = idle.by_journal(entries, "gpu", DEVICES)
    if outcome.idle_s >= IDLE_MAX_S and server is None:  # nobody watches while there is no server
        outcome.problems.append(f"a device was idle for {outcome.idle_s:.2f} s while a run waited for one")
    mailbox.sweep(folder / "campaign.db.run")  # as the next run does: the last one may be killed before it has a ticket
    sockets = [file for file in (folder / "campaign.db.run").iterdir() if file.is_socket()]
    outcome.problems += [f"{len(sockets)} sockets are left"] * bool(sockets)
    violations = folder / "violations"
    outcome.problems += violations.read_text().splitlines() if violations.exists() else []
    lost = set() if server is None else {4}  # it began while there was no server
    if unexpected := set(outcome.statuses) - {0, 5, -9, 137} - lost:
        outcome.problems.append(f"statuses {sorted(unexpected)}: {(folder / 'stderr').read_text()[-2000:]}")


def _left(urls: Sequence[str]) -> list[int]:
    """Processes of jobs of this store, whose address and that of its server are given."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with suppress(OSError):
                content = Path(f"/proc/{name}/environ").read_bytes()
                if b"FLUXRES_RUN=" in content and any(f"FLUXRES_STORE={url}\0".encode() in content for url in urls):
                    found.append(int(name))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--server", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        outcome = campaign(Path(folder), given.runs, given.seed, given.at_once, has_server=given.server)
        print(f"{given.runs} runs in {time.monotonic() - began:.0f} s; seed {given.seed}")
        print("killed:", ", ".join(f"{names} {number}" for names, number in sorted(outcome.kills.items())))
        print("statuses:", ", ".join(f"{status}: {number}" for status, number in sorted(outcome.statuses.items())))
        print(f"longest idle time of a device, by the journal: {outcome.idle_s:.3f} s")
        print("\n".join(outcome.problems[:50]) or "nothing was held twice, and nothing is left")
    return bool(outcome.problems)


if __name__ == "__main__":
    sys.exit(main())

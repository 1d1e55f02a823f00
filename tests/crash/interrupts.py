"""Ctrl-C on a terminal at random moments of commands that take long.

    python -m tests.crash.interrupts --cycles 100 [--store sqlite|postgresql|etcd|ADDRESS]

Each cycle runs one command on a pseudo-terminal, and interrupts it once or twice. Then it must have ended with status 130, or
have been done before; the terminal must show no traceback and have its cursor; no temporary file may be left; `store check` must
find nothing, and the store must have everything that it had before.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

from fluxres.store import open_store, upkeep
from fluxres.store.store import Store
from tests.store.graphs import fingerprint, machine
from tests.store.servers import etcd, postgresql

COMMANDS: Final = ("compact", "dump", "restore", "backup", "migrate", "copy", "copy to a file", "load")
START: Final = """
import fcntl, signal, sys, termios

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell or a test runner may have had it ignored
if sys.stdin.isatty():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C there is a signal for this session

from fluxres.cli.interrupts import Interrupts
from fluxres.cli.main import main

begin = Interrupts.__init__

def begun(self):
    begin(self)
    print("up", flush=True)

Interrupts.__init__ = begun
sys.exit(main())
"""
"""A command that prints when the interpreter has started: an earlier Ctrl-C is handled by Python itself."""
EVENTS: Final = 20_000
NODES: Final = 20_000


class Terminal:
    """A command on a terminal.

    Attributes:
        text: what it has printed.
    """

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        environment = {**os.environ, "TERM": "xterm"}
        line = [sys.executable, "-c", START, *arguments]
        self.process = subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True)
        os.close(theirs)
        self.text = ""

    def read(self, wait_s: float) -> bool:
        """Wait for more; whether it has not ended."""
        if not select.select([self._ours], [], [], wait_s)[0]:
            return True
        try:
            part = os.read(self._ours, 65536)
        except OSError:  # Linux: the other end is closed
            part = b""
        self.text += part.decode(errors="replace")
        return bool(part)

    def until(self, text: str) -> None:
        while text not in self.text:
            assert self.read(60), self.text

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def end(self) -> int:
        """Its exit status."""
        while self.read(60):
            pass
        os.close(self._ours)
        return self.process.wait(60)


def fill(store: Store, events: int) -> None:
    """Two graphs, one of them with a long journal."""
    if store.names():
        for name in store.names():
            store.drop(name, force=True)
    store.put("other", machine(1, 2))
    store.put("demo", machine(), use=True)
    with store.writing("demo") as transaction:
        transaction.graph.allocate("/demo/rack0/node0", job="j1")
        for turn in range(events):
            transaction.graph.tag("/demo", f"turn{turn % 5}", str(turn))


def contents(store: Store) -> list[tuple[str, int, str]]:
    return [(row.name, row.seq, fingerprint(store.open(row.name)[0])) for row in store.graphs()]


def words(command: str, url: str, folder: Path) -> list[str]:
    """The words of a command."""
    dest, source = str(folder / "out"), str(folder.parent / "source")
    given = {
        "compact": ["store", "compact", "--keep", str(EVENTS)],
        "dump": ["store", "dump", dest],
        "restore": ["--store", f"sqlite://{folder}/new.db", "store", "restore", f"{source}.jsonl"],
        "backup": ["store", "backup", dest],
        "migrate": ["store", "migrate"],
        "copy": ["copy", "--as", "copied"],
        "copy to a file": ["copy", "--as", f"{dest}.yaml"],
        "load": ["load", f"{source}.yaml", "--name", "loaded"],
    }[command]
    return ["--store", url, *given] if "--store" not in given else given


def problems(terminal: Terminal, status: int, store: Store, before: list[tuple[str, int, str]], folder: Path) -> list[str]:
    """What is wrong after an interrupt."""
    said = []
    if status not in (0, 130) or (status == 130) != ("fluxres: interrupted" in terminal.text):
        said.append(f"status {status}: {terminal.text}")
    if "Traceback" in terminal.text or "ignored" in terminal.text:
        said.append(f"a traceback: {terminal.text}")
    if terminal.text.rfind("\x1b[?25l") > terminal.text.rfind("\x1b[?25h"):
        said.append(f"no cursor: {terminal.text!r}")
    left = {path.name for path in folder.iterdir()} - {"out", "out.yaml", "new.db", "new.db.lock"}  # the first three are complete
    said += [f"left: {', '.join(sorted(left))}"] * bool(left)
    said += [str(problem) for problem in upkeep.check(store)[1]]
    now = [row for row in contents(store) if row[0] not in ("copied", "loaded")]
    if now != before:
        said.append(f"{before} -> {now}")
    return said


def clean(store: Store, folder: Path) -> None:
    """Remove what commands that were not interrupted in time have made."""
    for path in folder.iterdir():
        path.unlink()
    for name in {"copied", "loaded"} & {*store.names()}:
        store.drop(name, force=True)


def cycle(command: str, store: Store, folder: Path, random: Random, longest_s: float) -> tuple[int, list[str]]:
    """Interrupt a command; returns its status, and what is wrong."""
    clean(store, folder)
    before = contents(store)
    terminal = Terminal(*words(command, store.url, folder))
    terminal.until("up")
    over = time.monotonic() + random.uniform(0, longest_s)
    while time.monotonic() < over and terminal.read(over - time.monotonic()):
        pass
    terminal.press_ctrl_c()
    if random.random() < 0.3:
        time.sleep(random.uniform(0, 0.02))
        terminal.press_ctrl_c()
    status = terminal.end()
    return status, problems(terminal, status, store, before, folder)


def prepare(store: Store, folder: Path, events: int = EVENTS, nodes: int = NODES) -> Path:
    """Fill a store and write what commands read; returns the folder in which they write."""
    fill(store, events)
    upkeep.dump_to(store, folder / "source.jsonl")
    node = f"{{type: node, count: {nodes}, with: [{{type: core, count: 64}}]}}"
    (folder / "source.yaml").write_text(f"fluxres: 1\nname: m\nresources:\n- {node}\n")
    (folder / "work").mkdir()
    return folder / "work"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--longest-s", type=float, default=1.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", default="sqlite")
    given = parser.parse_args()
    random, statuses, found = Random(given.seed), Counter[tuple[str, int]](), 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fluxres-interrupts-")))
        servers = {"postgresql": postgresql, "etcd": etcd}
        url = stack.enter_context(servers[given.store]()).store_url if given.store in servers else given.store
        store = open_store(f"sqlite://{folder}/site.db" if url == "sqlite" else url)
        work = prepare(store, folder)
        for number in range(given.cycles):
            command = COMMANDS[number % len(COMMANDS)]
            status, said = cycle(command, store, work, random, given.longest_s)
            statuses[command, status] += 1
            found += len(said)
            for line in said:
                print(f"{command}: {line}", flush=True)
    interrupted = sum(count for (_, status), count in statuses.items() if status == 130)
    print(f"{given.cycles} commands, {interrupted} interrupted, {found} problems")
    for (command, status), count in sorted(statuses.items()):
        print(f"  {command}: status {status}: {count}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

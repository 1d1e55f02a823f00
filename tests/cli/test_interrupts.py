"""Progress bars, and Ctrl-C, on a terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from fluxres import limits
from fluxres.cli.interrupts import Interrupts
from fluxres.store import Store, open_store, upkeep
from tests.crash import interrupts
from tests.crash.interrupts import COMMANDS, START, Terminal, words

WAITING = ("compact", "migrate", "copy", "load", "restore")
"""Commands that take the lock of the store."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interrupts")


@pytest.fixture(scope="module")
def work(folder: Path) -> Path:
    return interrupts.prepare(open_store(f"sqlite://{folder}/site.db"), folder, 1_000, 1_000)


@pytest.fixture
def store(folder: Path, work: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite://{folder}/site.db")
    interrupts.clean(opened, work)
    yield opened
    interrupts.clean(opened, work)


@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_ends_a_command_at_any_moment(command: str, store: Store, work: Path) -> None:
    """`tests.crash.interrupts` does the same many times, on each kind of store."""
    status, said = interrupts.cycle(command, store, work, Random(command), 0.3)
    assert status in {0, 130}, said
    assert said == []


@pytest.mark.parametrize("command", WAITING)
def test_a_command_that_waits_has_a_bar_and_ends_with_ctrl_c(command: str, store: Store, work: Path) -> None:
    waited_for = open_store(f"sqlite://{work}/new.db") if command == "restore" else store
    before = interrupts.contents(store)
    with waited_for.locked("a test", None):
        terminal = Terminal("--wait", "60", *words(command, store.url, work))
        terminal.until("━")
        terminal.press_ctrl_c()
        status = terminal.end()
    assert status == 130, terminal.text
    assert interrupts.problems(terminal, status, store, before, work) == []


@pytest.mark.parametrize("place", ["--json", "pipe"])
def test_there_is_no_bar_beside_json_and_in_a_pipe(place: str, store: Store, work: Path) -> None:
    line = words("compact", store.url, work)
    with store.locked("a test", None):
        if place == "pipe":
            running = subprocess.Popen(
                [sys.executable, "-c", START, *line],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
            assert running.stderr is not None
            said = running.stderr.readline().decode()
        else:
            terminal = Terminal(*line, "--json")
            terminal.until("which is writing")
            assert terminal.read(0.3)
            said = terminal.text.removeprefix("up\r\n")
    assert said.startswith("fluxres: waiting for process")
    if place == "pipe":
        rest = running.communicate(timeout=60)[1]
        assert (running.returncode, rest) == (0, b"")
    else:
        assert terminal.end() == 0
        assert "\x1b" not in terminal.text


# -- what the work reports, and that it can be cancelled at each report ----------------------------------------------------


class Cancelled(Exception):
    """Raised by a callback."""


class Watch:
    """Notes reports, and cancels at one of them."""

    def __init__(self, cancel_at: int = -1) -> None:
        self.reports: list[tuple[str, float, float, str]] = []
        self._cancel_at = cancel_at

    def __call__(self, what: str, done: float, total: float, unit: str) -> None:
        if len(self.reports) == self._cancel_at:
            raise Cancelled
        self.reports.append((what, done, total, unit))


def run(command: str, store: Store, work: Path, watch: Watch) -> None:
    match command:
        case "compact":
            upkeep.compact(store, keep=interrupts.EVENTS, on_progress=watch)
        case "dump":
            upkeep.dump_to(store, work / "out", on_progress=watch)
        case "restore":
            upkeep.restore(open_store(f"sqlite://{work}/new.db"), work.parent / "source.jsonl", on_progress=watch)
        case "backup":
            upkeep.back_up(store, work / "out", on_progress=watch)
        case "migrate":
            upkeep.migrate(store, on_progress=watch)


UNITS = {"compact": "graphs", "dump": "events", "restore": "MB", "backup": "MB", "migrate": "steps"}


@pytest.mark.parametrize("command", UNITS)
def test_work_reports_its_steps_and_is_cancelled_by_an_exception(command: str, store: Store, work: Path) -> None:
    before = interrupts.contents(store)
    run(command, store, work, whole := Watch())
    for path in work.iterdir():
        path.unlink()
    assert whole.reports[0][3] == UNITS[command]
    for (what, done, total, _), (then, later, *_) in zip(whole.reports, whole.reports[1:], strict=False):
        assert 0 <= done <= total
        assert later >= done or then != what
    for number in {0, len(whole.reports) // 2, len(whole.reports) - 1}:
        with pytest.raises(Cancelled):
            run(command, store, work, Watch(number))
        assert {path.name for path in work.iterdir()} <= {"new.db.lock"}
        assert interrupts.contents(store) == before
        assert upkeep.check(store)[1] == []


# -- the signal ------------------------------------------------------------------------------------------------------------


def test_a_second_ctrl_c_waits_until_the_first_one_has_cleaned_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0
    monkeypatch.setattr("fluxres.cli.interrupts.monotonic_ns", lambda: now_ns)
    caught = Interrupts.__new__(Interrupts)
    caught._last_ns = None
    with pytest.raises(KeyboardInterrupt):
        caught._raise(2, None)
    now_ns = int(limits.INTERRUPT_GRACE_SECONDS * 1e9)
    caught._raise(2, None)
    now_ns += 1
    with pytest.raises(KeyboardInterrupt):
        caught._raise(2, None)


def test_an_interrupt_within_a_finalizer_is_not_lost() -> None:
    code = """
import os, signal, time
from fluxres.cli.interrupts import Interrupts
class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)
Interrupts()
try:
    Dropped()
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")

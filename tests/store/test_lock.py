"""One writer at a time; the others learn which, wait, and give up in time."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fluxres.clock import fixed
from fluxres.errors import StoreBusy, StoreError, UsageError
from fluxres.store.lock import Holder, WriterLock, writer_lock

HOLD = """
import sys
from pathlib import Path
from fluxres.clock import system
from fluxres.store.lock import writer_lock
with writer_lock(Path(sys.argv[1]), command="fluxres allocate /demo", wait_s=9, clock=system):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db.lock"


@pytest.fixture
def other(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def held(path: Path, wait_s: float = 0, **more: object) -> object:
    return writer_lock(path, command="test", wait_s=wait_s, clock=fixed(1.7e9), **more)


def test_a_waiting_writer_learns_who_holds_the_lock(path: Path, other: subprocess.Popen[str]) -> None:
    told: list[Holder] = []
    with pytest.raises(StoreBusy) as caught, held(path, 0.8, notify=told.append):
        pass
    assert [(holder.pid, holder.command) for holder in told] == [(other.pid, "fluxres allocate /demo")]
    assert f"process {other.pid} (fluxres allocate /demo, since 20" in str(caught.value)
    assert "--wait" in caught.value.hint
    assert caught.value.where == str(path)


def test_a_short_wait_is_not_reported(path: Path, other: subprocess.Popen[str]) -> None:
    told: list[Holder] = []
    with pytest.raises(StoreBusy), held(path, 0.1, notify=told.append):
        pass
    assert told == []


def test_a_killed_writer_holds_nothing(path: Path, other: subprocess.Popen[str]) -> None:
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert "fluxres allocate /demo" in path.read_text()
    with held(path):
        assert "command: test" in path.read_text()


def test_released_lock_passes_to_the_next_writer(path: Path, other: subprocess.Popen[str]) -> None:
    threading.Timer(0.2, other.kill).start()
    with held(path, 30):
        text = path.read_text()
    assert text.splitlines() == [f"pid: {os.getpid()}", "command: test", "since: 1700000000.0", f"host: {os.uname().nodename}"]


def test_threads_of_one_process_exclude_each_other(path: Path) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(10):
            with held(path, 30):
                with lock:
                    inside += 1
                    most = max(most, inside)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_nested_lock_is_refused_without_waiting(path: Path) -> None:
    with held(path), pytest.raises(StoreBusy, match=f"process {os.getpid()}"), held(path, 0.05):
        pass


def test_a_removed_lock_file_does_not_let_two_in(path: Path) -> None:
    with held(path):
        path.unlink()
        path.touch()
        with held(path):
            assert path.exists()
    with held(path):
        assert "test" in path.read_text()


def test_unreadable_lock_text_means_another_process(path: Path) -> None:
    assert str(Holder()) == "another process"
    with held(path):
        path.write_bytes(b"\xff pid: x")
        with pytest.raises(StoreBusy, match="another process"), held(path):
            pass


def test_lock_records_any_command_text(path: Path) -> None:
    with writer_lock(path, command="a\nb\udcff" + "x" * 5000, wait_s=0, clock=fixed(0)):
        lines = path.read_text().splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("command: a b\\udcffxxx")


@pytest.mark.parametrize(("where", "message"), [("/proc/x.lock", "cannot open the lock file"), ("{tmp}", "Is a directory")])
def test_impossible_lock_file_is_a_store_error(tmp_path: Path, where: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught, held(Path(where.format(tmp=tmp_path))):
        pass
    assert caught.value.hint


@pytest.mark.parametrize("wait_s", [-1, float("nan")])
def test_an_invalid_wait_is_refused(path: Path, wait_s: float) -> None:
    with pytest.raises(UsageError, match="wait"), held(path, wait_s):
        pass


def test_writers_take_turns_in_the_order_in_which_they_came(path: Path) -> None:
    first, order = WriterLock(path, clock=fixed(0)), []
    first.acquire("first", 0)
    waiting: list[threading.Thread] = []
    pause = threading.Event()

    def wait(number: int, lock: WriterLock) -> None:
        lock.acquire(f"writer {number}", 60)
        order.append(number)
        lock.release()

    for number in range(5):
        assert first.is_wanted() == bool(number)
        lock = WriterLock(path, clock=fixed(0))
        waiting.append(threading.Thread(target=wait, args=(number, lock)))
        waiting[-1].start()
        assert any(lock._place or pause.wait(0.01) for _ in range(3000))
    first.release()
    first.acquire("again", 60)  # who has just had it is behind those who wait
    order.append("again")
    assert not first.is_wanted()
    first.close()
    for thread in waiting:
        thread.join()
    assert order == [0, 1, 2, 3, 4, "again"]


def test_a_writer_that_gave_up_leaves_the_queue(path: Path) -> None:
    first, second, third = (WriterLock(path, clock=fixed(0)) for _ in range(3))
    first.acquire("first", 0)
    with pytest.raises(StoreBusy):
        second.acquire("second", 0.05)
    first.release()
    third.acquire("third", 30)
    third.release()
    second.acquire("second", 30)
    second.close()


def test_writers_take_turns_with_a_program_that_does_not_queue(path: Path, other: subprocess.Popen[str]) -> None:
    with path.open("rb") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        other.kill()
        other.wait()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StoreBusy), held(path, 0.05):
            pass
    with held(path, 30):
        pass

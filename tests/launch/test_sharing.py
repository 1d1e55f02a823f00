"""A store that several users share, and many runs at once."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

import fluxres
from fluxres.launch import desk, orphans
from fluxres.store import journal, mailbox, open_store, sqlite
from fluxres.store.mailbox import News
from tests.launch import runs
from tests.launch.runs import Workstation, wait_until

GROUP = 54321
USERS = (54322, 54323)
IMPORTED = (
    "fluxres.cli.main",
    "fluxres.cli.commands.run",
    "fluxres.cli.commands.ps",
    "fluxres.launch.runs",
    "fluxres.launch.lifeline",
)


def as_user(user: int, *words: str, umask: int = 0o022) -> int:
    """A command as a user of the group."""
    return in_fork(user, lambda: int(import_module("fluxres.cli.program").run(list(words))), umask=umask)


def in_fork(user: int, what: Callable[[], int], *, umask: int = 0o022) -> int:
    """Something as a user of the group, in a fork of this process: another user may not read the interpreter."""
    pid = os.fork()
    if pid:
        return pid
    status = 99
    try:
        os.setsid()
        os.setgroups([GROUP])
        os.setgid(GROUP)
        os.setuid(user)
        os.umask(umask)
        journal.os_user.cache_clear()
        status = what()
    finally:
        os._exit(status)


def status_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workstation]:
    """A store in a directory of the group, created by the first user; not below that of pytest, which is for its user only."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as several users")
    for name in IMPORTED:
        import_module(name)
    folder = Path(tempfile.mkdtemp(prefix="fluxres-"))
    folder.chmod(0o755)
    place = folder / "lab"
    place.mkdir()
    os.chown(place, 0, GROUP)
    place.chmod(0o2775)
    machine = folder / "machine.yaml"
    machine.write_text(runs.MACHINE, encoding="utf-8")
    machine.chmod(0o644)
    monkeypatch.setenv("FLUXRES_STORE", str(place / "ws.db"))
    monkeypatch.chdir(place)
    open_store(str(folder / "warm.db")).put("ws", fluxres.loads(runs.MACHINE))  # imports what the users cannot
    open_store(str(folder / "warm.db")).load().why_not("slot/gpu=9")
    assert status_of(as_user(USERS[0], "load", str(machine), umask=0o002)) == 0
    yield Workstation(place, place / "ws.db")
    shutil.rmtree(folder)


def test_users_of_a_group_share_a_store_whatever_their_umask(shared: Workstation) -> None:
    go, done = shared.folder / "go", shared.folder / "done"
    first = as_user(USERS[0], "run", "-g2", "--no-bind", "--", "sh", "-c", f"while ! test -e {go}; do sleep 0.02; done")
    wait_until(lambda: shared.graph().jobs())
    second = as_user(USERS[1], "run", "-g1", "--no-bind", "--wait", "--", "sh", "-c", f"id -u > {done}")
    wait_until(shared.tickets)
    assert {stat.S_IMODE(file.stat().st_mode) & 0o660 for file in shared.folder.glob("ws.db*") if file.is_file()} == {0o660}
    assert status_of(as_user(USERS[1], "cancel", "r1")) == 2  # a job of another user
    assert status_of(as_user(54324, "cancel", "r2")) == 2  # one that waits
    assert len(shared.tickets()) == 1
    go.touch()
    assert (status_of(first), status_of(second)) == (0, 0)
    assert done.read_text() == f"{USERS[1]}\n"
    assert {entry.user for entry in open_store(str(shared.store)).log()} == {f"uid {user}" for user in USERS}


def test_nobody_ends_the_program_of_another_user_by_a_message(shared: Workstation) -> None:
    go = shared.folder / "go"
    script = f"while ! test -e {go}; do sleep 0.02; done"
    first = as_user(USERS[0], "run", "-g2", "--no-bind", "--", "sh", "-c", script)
    wait_until(lambda: shared.graph().jobs())
    second = as_user(USERS[0], "run", "-g1", "--no-bind", "--wait", "--", "true")
    wait_until(shared.tickets)
    marks = [launch.mark for _, launch in orphans.launched(shared.graph())] + [shared.tickets()[0].launch.mark]
    forged = News(is_canceled=True, is_granted=True, grace_s=0.0)

    def send() -> int:
        mailbox.send(shared.store, [(mark, forged) for mark in marks])
        return 0

    def cancel() -> int:
        with suppress(fluxres.UsageError):
            desk.cancel(open_store(str(shared.store)), "ws", "r1", 0.0, desk.Author("server"), lambda _user: None)
            return 1
        return 0

    assert status_of(in_fork(USERS[1], send)) == 0
    assert status_of(in_fork(USERS[1], cancel)) == 0
    go.touch()
    assert (status_of(first), status_of(second)) == (0, 0)


def test_another_user_frees_what_a_dead_process_held(shared: Workstation) -> None:
    first = as_user(USERS[0], "run", "-g2", "--no-bind", "--", "sleep", "1000")
    wait_until(lambda: shared.graph().jobs())
    launcher, guardian, _ = shared.processes("r1")
    os.kill(guardian, 9)
    os.kill(launcher, 9)
    status_of(first)
    assert status_of(as_user(USERS[1], "run", "-g2", "--no-bind", "--", "true")) == 0


def test_sixteen_at_once_are_neither_lost_nor_doubled(workstation: Workstation) -> None:
    script = f"""
        for device in $(echo $CUDA_VISIBLE_DEVICES); do
            exec 9> {workstation.folder}/device$device; flock -n 9 || echo twice >> {workstation.folder}/log
        done
        echo $FLUXRES_JOB >> {workstation.folder}/log; sleep 0.05"""
    started = [workstation.popen("run", "-g1", "--no-bind", "--wait", "--", "sh", "-c", script) for _ in range(16)]
    assert [one.wait(120) for one in started] == [0] * 16
    log = (workstation.folder / "log").read_text().split()
    assert sorted(log, key=lambda job: int(job[1:])) == [f"r{number}" for number in range(1, 17)]


@pytest.mark.parametrize("change", [False, True], ids=["read", "write"])
def test_files_that_root_has_just_made_are_waited_for(shared: Workstation, change: bool) -> None:
    """SQLite gives the files beside the database to the owner of the database after it has created them."""
    beside = [shared.store.with_name(f"{shared.store.name}-{kind}") for kind in ("wal", "shm")]
    for file in beside:
        file.touch(mode=0o600)
    waits, seen = os.pipe(), os.pipe()

    def pause(_seconds: float) -> None:
        os.write(waits[1], b"!")
        os.read(seen[0], 1)

    def work() -> int:
        sqlite.sleep = pause
        store = open_store(str(shared.store))
        if not change:
            return len(store.load().jobs())
        with store.writing("ws") as transaction:
            transaction.graph.tag("/ws", "seen")
        return 0

    pid = in_fork(USERS[0], work)
    os.close(waits[1])
    assert os.read(waits[0], 1) == b"!"
    for file in beside:
        os.chown(file, USERS[0], GROUP)
        file.chmod(0o660)
    os.write(seen[1], b"!")
    assert status_of(pid) == 0

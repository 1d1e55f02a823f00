"""Instances that are forks: they have nothing of their parent, are found by their mark, and end if the nursery does."""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from fluxres.launch import lifeline, nursery
from fluxres.launch.branch import Branch
from fluxres.launch.fork import Forked
from fluxres.launch.hierarchy import EqualJobs, Outcome, Patience, run
from fluxres.simulation.nesting.hierarchy import Hierarchy
from tests.launch.machines import eventually, is_alive, marked, of_shape


def run_watched(act: Callable[[Branch], None], *fan_outs: int, job: str = "sleep:0.2") -> Outcome:
    """Run 16 jobs, and call a function when all instances are ready; nothing is left afterwards."""
    seen: list[Branch] = []

    def watched(branch: Branch) -> None:
        if not seen:
            seen.append(branch)
            act(branch)

    outcome = run(of_shape("node=4/core=2"), Hierarchy(fan_outs), EqualJobs(16, job), Patience(grace_s=0.5), watched=watched)
    assert seen[0].instance.graph.jobs() == []
    assert marked(seen[0].begin.mark) == {}
    return outcome


def instances(branch: Branch) -> dict[int, str]:
    """Processes of instances, without the nursery."""
    return {pid: mark.rpartition("/")[2] for pid, mark in marked(branch.begin.mark).items() if not mark.endswith("/tree")}


def the_nursery(branch: Branch) -> int:
    return next(pid for pid, mark in marked(branch.begin.mark).items() if mark.endswith("/tree"))


def test_forks_have_their_own_mark_group_and_signals() -> None:
    found: dict[str, tuple[bool, str]] = {}
    own = signal.getsignal(signal.SIGUSR1)

    def act(branch: Branch) -> None:
        for pid, name in instances(branch).items():
            fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
            found[name] = (os.getpgid(pid) == pid, fields["SigBlk"])

    signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        outcome = run_watched(act, 2, 2)
    finally:
        signal.signal(signal.SIGUSR1, own)
    assert sorted(found) == ["tree.1", "tree.1.1", "tree.1.2", "tree.2", "tree.2.1", "tree.2.2"]
    assert set(found.values()) == {(True, "0" * 16)}
    assert outcome.completed == 16


def test_forks_have_no_descriptor_of_a_sibling_or_of_the_program(tmp_path: Path) -> None:
    users: dict[str, set[str]] = defaultdict(set)
    files: set[str] = set()

    def act(branch: Branch) -> None:
        for pid, name in instances(branch).items():
            for fd in os.listdir(f"/proc/{pid}/fd"):
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                if target.startswith(("pipe:", "socket:")) and fd != "1" and fd != "2":
                    users[target].add(name)
                elif fd not in ("0", "1", "2"):
                    files.add(target)

    with open(tmp_path / "open", "w") as file:
        os.set_inheritable(file.fileno(), True)
        run_watched(act, 2, 2)
    for names in users.values():  # one process, or an inner instance and its child
        short, *rest = sorted(names)
        assert len(rest) <= 1
        assert all(name.startswith(f"{short}.") for name in rest)
    assert len(users) > 6
    assert {name for name in files if not name.startswith("anon_inode:")} == set()


def test_jobs_get_the_environment_without_the_room_for_marks(capfd: pytest.CaptureFixture[str]) -> None:
    run_watched(lambda _: None, 2, 2, job="env")
    lines = capfd.readouterr().err.splitlines()
    assert not [line for line in lines if line.startswith(lifeline.ROOM)]
    names = [line.rpartition("/")[2] for line in lines if line.startswith(f"{lifeline.MARK}=")]
    assert sorted(names) == sorted(["tree.1.1", "tree.1.2", "tree.2.1", "tree.2.2"] * 4)
    assert f"PATH={os.environ['PATH']}" in lines


def test_marks_have_room_in_an_empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name not in ("PYTHONPATH", "PYTEST_CURRENT_TEST"):
            monkeypatch.delenv(name)
    names: list[str] = []
    run_watched(lambda branch: names.extend(instances(branch).values()), 1, 2, 1, 2)
    assert max(names) == "tree.1.2.1.2"
    assert len(names) == 1 + 2 + 2 + 4


def test_program_with_threads_that_hold_locks_has_children() -> None:
    over, lock = threading.Event(), threading.Lock()

    def hold() -> None:
        with lock:
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert run_watched(lambda _: None, 2, 2).completed == 16
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_instances_end_with_the_nursery(number: int) -> None:
    outcome = run_watched(lambda branch: os.kill(the_nursery(branch), number), 2, 2, job="sleep 100")
    assert (outcome.completed, outcome.lost + outcome.failed) == (0, 16)
    assert outcome.status
    assert outcome.notes


def test_nursery_that_hangs_is_killed() -> None:
    made = nursery.Nursery("test/tree", 60.0)
    child = Forked(made, "test/tree.1")
    (pid,) = (pid for pid in marked("test/tree") if pid != child.pid)
    os.kill(pid, signal.SIGSTOP)
    child.stdin.close()
    assert made._socket is not None
    made._socket.settimeout(0.1)
    assert child.wait() == -signal.SIGTERM
    assert not is_alive(pid)
    assert eventually(lambda: not is_alive(child.pid))
    child.stdout.close()


def test_nursery_that_does_not_start_fails_the_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nursery, "_ARGV", ("false",))
    outcome = run(of_shape("node=4/core=2"), Hierarchy((2,)), EqualJobs(16))
    assert (outcome.completed, outcome.lost) == (0, 16)

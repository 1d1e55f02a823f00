"""The cgroup of a job: on this machine, where this user may create one, and in a directory that behaves like one with memory."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from fluxres.launch import cgroup
from tests.launch.runs import Workstation, wait_until


@pytest.fixture
def with_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A delegated group with a memory controller: directories in it get the files that the kernel would create."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("")
    mkdir = Path.mkdir

    def as_kernel(folder: Path) -> None:
        mkdir(folder)
        for name in ("cgroup.procs", "cgroup.kill"):
            (folder / name).touch()
        if "memory" in (tmp_path / "cgroup.subtree_control").read_text():
            (folder / "memory.max").write_text("max\n")

    monkeypatch.setattr(Path, "mkdir", as_kernel)
    monkeypatch.setattr(cgroup, "_own", lambda: tmp_path)
    return tmp_path


def test_memory_is_limited_where_there_is_a_controller(with_memory: Path) -> None:
    folder, is_limited = cgroup.create("mark", 64 << 20)
    assert (folder, is_limited) == (str(with_memory / "fluxres-mark"), True)
    assert (with_memory / "fluxres-mark" / "memory.max").read_text().startswith(str(64 << 20))


def test_memory_is_not_limited_without_a_controller(with_memory: Path) -> None:
    (with_memory / "cgroup.controllers").write_text("cpu\n")
    folder, is_limited = cgroup.create("mark", 64 << 20)
    assert (folder, is_limited) == (str(with_memory / "fluxres-mark"), False)
    assert not (with_memory / "fluxres-mark" / "memory.max").exists()


def test_a_job_without_memory_changes_nothing_above_its_group(with_memory: Path) -> None:
    assert cgroup.create("mark") == (str(with_memory / "fluxres-mark"), False)
    assert (with_memory / "cgroup.subtree_control").read_text() == ""


needs_group = pytest.mark.skipif(cgroup._own() is None, reason="no cgroup (version 2) is delegated to this user")


@needs_group
def test_a_group_is_removed_with_everything_in_it() -> None:
    folder, _ = cgroup.create("test-removed")
    with subprocess.Popen(["sleep", "1000"]) as process:
        Path(folder, "cgroup.procs").write_text(str(process.pid))
        cgroup.remove("test-removed")
        assert process.wait(10) == -signal.SIGKILL
    assert cgroup.folder_of("test-removed") is None


@needs_group
@pytest.mark.parametrize("killed", [[], [0], [1], [2], [0, 1], [0, 1, 2]])
def test_no_group_is_left(workstation: Workstation, killed: list[int]) -> None:
    process, program = workstation.program("-g1")
    launch = workstation.graph().facts("r1").launch
    assert launch is not None
    folder = cgroup.folder_of(launch.mark)
    assert folder is not None
    assert str(program) in (folder / "cgroup.procs").read_text().split()
    processes = workstation.processes("r1")
    for number in killed:
        with suppress(ProcessLookupError):  # it ended with the one before it
            os.kill(processes[number], signal.SIGKILL)
    if not killed:
        process.terminate()
    process.wait()
    wait_until(lambda: workstation.command("jobs", "--no-header") == "fluxres: no jobs\n")
    wait_until(lambda: not folder.exists())

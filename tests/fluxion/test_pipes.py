"""`fluxres query` driven by a program that waits for each answer before it sends the next command."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fluxion.conftest import ask, grug, jobspec

COMMAND = [sys.executable, "-c", "import sys; from fluxres.cli.main import main; sys.exit(main())", "query"]
WAIT_S = 60.0


class Driven:
    """A session as a process, with pipes on all sides."""

    def __init__(self, folder: Path, *words: str) -> None:
        (folder / "graph").write_text(grug(), encoding="utf-8")
        (folder / "job").write_text(jobspec(ask("slot", 1, ask("node", 1))), encoding="utf-8")
        command = [*COMMAND, "-L", str(folder / "graph"), "-P", "low", *words]
        self.job = folder / "job"
        # If Python itself buffered nothing, this would test nothing.
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=buffered)
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr

    def send(self, line: str) -> None:
        self.stdin.write(f"{line}\n".encode())
        self.stdin.flush()

    def until(self, end: str, *, errors: bool = False) -> str:
        """The output up to a text; fails if nothing more arrives."""
        stream = self.stderr if errors else self.stdout
        found = b""
        deadline = time.monotonic() + WAIT_S
        while not found.endswith(end.encode()):
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            more = os.read(stream.fileno(), 65536) if ready else b""
            assert more, f"waited for {end!r}, got {found.decode()!r}"
            found += more
        return found.decode()

    def end(self) -> int:
        """Close its input; return its exit status."""
        self.stdin.close()
        return self.process.wait(WAIT_S)


Drive = Callable[..., Driven]


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Drive]:
    """Starts sessions, and ends them whatever happens."""
    with ExitStack() as stack:

        def started(*words: str) -> Driven:
            driven = Driven(tmp_path, *words)
            stack.enter_context(driven.process)
            stack.callback(driven.process.kill)
            return driven

        yield started


RULE = "INFO: =============================\n"


def test_each_answer_arrives_before_the_next_command_is_sent(drive: Drive) -> None:
    driven = drive("-d")
    for job in (1, 2, 3):
        driven.send(f"match allocate {driven.job}")
        answer = driven.until(f"SCHEDULED AT=Now\n{RULE}")
        assert f"JOBID={job}\n" in answer
    driven.send("info 2")
    assert driven.until("ALLOCATED\n").startswith("INFO: 2, ")
    driven.send("get-status /m0")
    assert driven.until("\n") == "/m0 is up\n"
    driven.send("cancel 7")
    assert driven.until("\n", errors=True) == "ERROR: no job 7 ('list' shows all jobs)\n"
    driven.send("quit")
    assert driven.process.wait(WAIT_S) == 0


def test_prompts_arrive(drive: Drive) -> None:
    driven = drive()
    assert driven.until("resource-query> ") == "resource-query> "
    driven.send("get-status /m0")
    assert driven.until("resource-query> ") == "/m0 is up\nresource-query> "
    assert driven.end() == 0


def test_results_are_in_the_file_before_the_prompt(drive: Drive, tmp_path: Path) -> None:
    out = tmp_path / "out"
    driven = drive("-t", str(out))
    driven.until("resource-query> ")
    for job in (1, 2):
        driven.send(f"match allocate {driven.job}")
        driven.until("resource-query> ")
        assert out.read_text(encoding="utf-8").count("JOBID=") == job
    assert driven.end() == 0


@pytest.mark.parametrize("place", ["", "missing/out"])
def test_a_file_of_results_that_cannot_be_written_is_an_error(drive: Drive, tmp_path: Path, place: str) -> None:
    driven = drive("-t", str(tmp_path / place))
    assert driven.process.wait(WAIT_S) == 2
    assert b"Traceback" not in driven.stderr.read()

"""`fluxres run` on a terminal: Ctrl-C, Ctrl-Z and fg, the size of the window, pipelines, and the line about the queue."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.launch.runs import FLUXRES, PATIENCE_S, Workstation, is_running, wait_until

RUN = " ".join(FLUXRES) + " run --no-bind"


class Shell:
    """An interactive bash on a terminal of its own."""

    def __init__(self, place: Workstation) -> None:
        self._screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        environment = {**place.environment, "PS1": "ready> ", "TERM": "dumb"}
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=place.folder,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(terminal)
        self._seen = ""
        self.expect("ready> ")

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def expect(self, pattern: str) -> str:
        """Read until a pattern is on the screen; returns what came before it, and removes both."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self._seen)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self._seen!r}"
            if select.select([self._screen], [], [], 0.1)[0]:
                self._seen += os.read(self._screen, 4096).decode()
        before, self._seen = self._seen[: found.start()], self._seen[found.end() :]
        return before

    def command(self, text: str) -> str:
        """What a command prints."""
        self.type(f"{text}\n")
        self.expect(r"\r\n")
        return self.expect("ready> ")

    def has_given_the_terminal(self) -> bool:
        """Whether a job is in the foreground; a shell prints the command of `fg` before that."""
        return os.tcgetpgrp(self._screen) != self.process.pid

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        with suppress(OSError):
            os.close(self._screen)


@pytest.fixture
def shell(workstation: Workstation) -> Shell:
    made = Shell(workstation)
    yield made  # type: ignore[misc]  # a fixture
    made.close()


def test_a_program_has_the_terminal(shell: Shell) -> None:
    assert shell.command(f"{RUN} -- stty size") == "33 77\r\n"
    shell.type(f"{RUN} -- sh -c 'read line; echo \"<$line>\"'\n")
    time.sleep(0.5)
    shell.type("typed\n")
    shell.expect("<typed>")
    shell.expect("ready> ")
    assert shell.command("stty size") == "33 77\r\n"


def test_ctrl_c_reaches_the_program_and_not_the_shell(shell: Shell, workstation: Workstation) -> None:
    shell.type(f"{RUN} -- sh -c 'trap \"echo caught; exit 4\" INT; echo started; while :; do sleep 0.05; done'\n")
    shell.expect("started\r\n")
    shell.type("\x03")
    shell.expect("caught\r\n")
    shell.expect("ready> ")
    assert shell.command("echo $?") == "4\r\n"
    assert workstation.graph().jobs() == []


def test_ctrl_z_stops_the_job_and_fg_continues_it(shell: Shell, workstation: Workstation) -> None:
    shell.type(f"{RUN} -- sh -c 'echo started; read line; echo \"<$line>\"'\n")
    shell.expect("started\r\n")
    shell.type("\x1a")
    shell.expect("Stopped")
    shell.expect("ready> ")
    assert workstation.graph().jobs() == ["r1"]
    assert "Stopped" in shell.command("jobs")
    shell.type("fg\n")
    shell.expect(r"-- sh [^\r]*\r\n")
    shell.type("again\n")
    shell.expect("<again>")
    shell.expect("ready> ")
    assert workstation.graph().jobs() == []


def test_a_job_in_the_background_goes_on(shell: Shell, workstation: Workstation) -> None:
    shell.type(f"{RUN} -- sleep 1000 &\n")
    shell.expect("ready> ")
    wait_until(lambda: workstation.graph().jobs())
    _, _, program = workstation.processes("r1")
    shell.type("fg\n")
    shell.expect("sleep 1000\r\n")
    wait_until(shell.has_given_the_terminal)
    shell.type("\x03")
    shell.expect("ready> ")
    assert shell.command("echo $?") == "130\r\n"
    assert not is_running(program)


def test_a_job_that_ends_in_the_background_leaves_the_terminal_to_the_shell(shell: Shell, workstation: Workstation) -> None:
    shell.type(f"{RUN} -- sh -c 'sleep 1; echo ended' &\n")
    shell.expect("ready> ")
    shell.expect("ended\r\n")
    wait_until(lambda: not workstation.graph().jobs())
    assert shell.command("echo here").startswith("here\r\n")


def test_a_program_stopped_in_the_background_leaves_the_terminal_to_the_shell(shell: Shell, workstation: Workstation) -> None:
    shell.type(f"{RUN} -- sh -c 'kill -STOP $$' &\n")
    shell.expect("ready> ")
    wait_until(lambda: workstation.graph().jobs())
    launcher, _, _ = workstation.processes("r1")
    wait_until(lambda: Path(f"/proc/{launcher}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    assert shell.command("echo here").startswith("here\r\n")


def test_a_pipeline_shares_the_terminal(shell: Shell, workstation: Workstation) -> None:
    assert shell.command(f"{RUN} -- echo one | cat") == "one\r\n"
    shell.type(f"{RUN} -- sh -c 'echo started >&2; exec sleep 1000' | cat\n")
    shell.expect("started\r\n")
    shell.type("\x03")
    shell.expect("ready> ")
    assert shell.command("echo ${PIPESTATUS[0]}") == "130\r\n"
    assert workstation.graph().jobs() == []


def test_a_shell_in_an_allocation(shell: Shell, workstation: Workstation) -> None:
    shell.type(f"SHELL=/bin/sh PS1='inside> ' {' '.join(FLUXRES)} shell -g1 --no-bind\n")
    shell.expect("inside> ")
    shell.type("echo $FLUXRES_JOB-$CUDA_VISIBLE_DEVICES\n")
    shell.expect("r1-0\r\n")
    shell.type("exit 6\n")
    shell.expect("ready> ")
    assert shell.command("echo $?") == "6\r\n"
    assert workstation.graph().jobs() == []


def test_the_place_in_the_queue_is_shown_while_it_changes(shell: Shell, workstation: Workstation) -> None:
    process, _ = workstation.program("-g2")
    other = workstation.popen("run", "-g2", "--wait", "--", "sleep", "1")
    wait_until(workstation.tickets)
    shell.type(f"{RUN} -g1 --wait -- echo done\n")
    shell.expect("job r3 waits for resources: place 2 of 2, its start is not known")
    process.terminate()
    shell.expect("place 1 of 1")
    shell.expect("done\r\n")
    assert other.wait() == 0

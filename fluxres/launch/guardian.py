"""The guardian of a job: the process between the launcher and the program, and what the launcher knows of the two.

Whoever is killed, somebody is left to clean up. The program dies with the guardian (PR_SET_PDEATHSIG), and what the program
leaves behind is adopted by the guardian, else by the launcher (PR_SET_CHILD_SUBREAPER). If the launcher dies, the guardian sees
the end of their socket, kills everything and frees what the job holds. If the guardian dies, the launcher does. If both die,
whoever looks next does (:mod:`fluxres.launch.orphans`).

Both are forks without an exec: the guardian costs a millisecond, and has everything loaded that it needs to free.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from fluxres.errors import RunFailed
from fluxres.launch import descendants, identity, program
from fluxres.launch.loop import Loop, Timer
from fluxres.launch.program import Start

_MESSAGE_BYTES: Final = 4096
_IGNORED: Final = tuple(
    getattr(signal, f"SIG{name}") for name in ("INT", "QUIT", "TSTP", "TTIN", "TTOU", "HUP", "TERM", "USR1", "USR2", "PIPE")
)


class Crew:
    """The two processes that a launcher starts, from its point of view.

    Args:
        guardian, program: process ids.
        messages: to and from the guardian; their end is the end of the guardian.
        start: a pipe for how to start the program.
        failed: a pipe with the number of an error if the program could not be executed.
    """

    def __init__(self, guardian: int, program: int, messages: socket.socket, start: int, failed: int) -> None:
        self.guardian, self.program, self.socket = guardian, program, messages
        self._start, self._failed = start, failed

    @classmethod
    def fork(cls, release: Callable[[], None], *, has_group: bool) -> Crew:
        """Start both; the program waits until :meth:`start`.

        Args:
            release: frees what the job holds; called by the guardian if the launcher dies.
            has_group: whether the program gets its own process group.
        """
        descendants.adopt_orphans()
        own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        start_from, start_to = os.pipe()
        failed_from, failed_to = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        guardian = os.fork()
        if guardian == 0:
            status = 1
            try:
                own.close()
                child = _fork_program(start_from, start_to, failed_from, failed_to, theirs, has_group=has_group)
                os.setpgid(0, 0)  # after the fork: a program without a group of its own is in that of the launcher
                for fd in (start_from, start_to, failed_from, failed_to):
                    os.close(fd)
                Guardian(theirs, child, release, has_group=has_group).run()
                status = 0
            finally:
                os._exit(status)
        theirs.close()
        os.close(start_from)
        os.close(failed_to)
        said = own.recv(_MESSAGE_BYTES)
        if not said:
            raise RunFailed("the guardian process was killed")
        return cls(guardian, int(said), own, start_to, failed_from)

    @property
    def processes(self) -> tuple[tuple[int, int], ...]:
        """The identities of the launcher and of both."""
        return identity.of(os.getpid()), identity.of(self.guardian), identity.of(self.program)

    def start(self, start: Start) -> int:
        """Execute the program; returns 0, or the number of the error."""
        content = msgspec.msgpack.encode(start)
        with suppress(BrokenPipeError):
            while content:
                content = content[os.write(self._start, content) :]
        os.close(self._start)
        self._start = -1
        said = os.read(self._failed, _MESSAGE_BYTES)
        os.close(self._failed)
        return int(said or 0)

    def send(self, message: str) -> None:
        """Send a message; a guardian that has ended is detected elsewhere."""
        with suppress(OSError):
            self.socket.send(message.encode())

    def dismiss(self) -> None:
        """End both processes: what the job held is free, or it never got anything."""
        self.send("done")
        if self._start >= 0:
            os.close(self._start)
            self._start = -1
        self.socket.close()
        with suppress(ChildProcessError):
            os.waitpid(self.guardian, 0)


def _fork_program(start: int, start_to: int, failed_from: int, failed: int, theirs: socket.socket, *, has_group: bool) -> int:
    guardian = os.getpid()
    child = os.fork()
    if child == 0:
        for fd in (start_to, failed_from, theirs.detach()):
            os.close(fd)
        program.become(start, failed, guardian, has_group=has_group)
    if has_group:
        with suppress(OSError):
            os.setpgid(child, child)  # also here, so that the group is there whoever runs first
    return child


class Guardian:
    """The guardian in its process.

    Args:
        launcher: messages to and from the launcher.
        program: process id of its child.
        release: frees what the job holds.
        has_group: whether the program has its own process group.
    """

    def __init__(self, launcher: socket.socket, program: int, release: Callable[[], None], *, has_group: bool) -> None:
        self._launcher, self._program, self._release, self._has_group = launcher, program, release, has_group
        self._is_done = self._is_over = False
        self._deadline: Timer | None = None

    def run(self) -> None:
        """Watch over the program until the launcher has no more use for it."""
        descendants.adopt_orphans()
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        leave_streams()
        self._say(str(self._program))
        with Loop() as self._loop, self._loop.handling({signal.SIGCHLD: self._reap}):
            self._loop.watch(self._launcher.fileno(), self._heard)
            self._reap()
            while not self._is_done:
                self._loop.turn()

    def _say(self, message: str) -> None:
        with suppress(OSError):
            self._launcher.send(message.encode())

    def _heard(self) -> None:
        try:
            word, _, value = self._launcher.recv(_MESSAGE_BYTES).decode().partition(" ")
        except OSError:
            word, value = "", ""
        match word:
            case "signal":
                self._signal(signal.Signals(int(value)))
            case "end":
                self._end(float(value))
            case "done":
                self._kill()
                self._is_done = True
            case _:
                self._kill()
                self._release()
                self._is_done = True

    def _signal(self, number: signal.Signals) -> None:
        if self._is_over:
            return
        with suppress(ProcessLookupError, PermissionError):
            if self._has_group:
                os.killpg(self._program, number)
            else:
                os.kill(self._program, number)

    def _end(self, grace_s: float) -> None:
        """Ask the program to end, and kill it if it does not."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        if self._deadline is None:
            self._deadline = self._loop.after(grace_s, self._kill_program)

    def _kill_program(self) -> None:
        self._signal(signal.SIGKILL)

    def _reap(self) -> None:
        """Note which children have changed their state."""
        with suppress(ChildProcessError):
            while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)) is not None:
                if found.si_pid != self._program:
                    os.waitpid(found.si_pid, os.WNOHANG | os.WUNTRACED)
                elif found.si_code in (os.CLD_STOPPED, os.CLD_TRAPPED):
                    os.waitpid(self._program, os.WNOHANG | os.WUNTRACED)
                    self._say(f"stopped {found.si_status}")
                else:
                    self._signal(signal.SIGKILL)  # to the rest of its group, whose number stays taken until it is reaped
                    self._is_over = True
                    _, status = os.waitpid(self._program, 0)
                    self._say(f"ended {status} {','.join(map(str, self._kill()))}")

    def _kill(self) -> list[int]:
        """Kill the program and everything that it has started; returns what could not be killed."""
        self._signal(signal.SIGKILL)
        return descendants.kill_all()


def leave_streams() -> None:
    """Leave standard input and output to the program alone: who reads its output must see its end."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    os.close(null)

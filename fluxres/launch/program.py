"""The process that becomes the program of a job: it waits until the job has its resources, and then executes the program.

It exists before the job has anything, so that its id is in the record that says what the job holds.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NoReturn

import msgspec

from fluxres.launch import descendants

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
_PIECE_BYTES: Final = 1 << 16


class Start(msgspec.Struct, frozen=True):
    """How to execute the program.

    Args:
        argv: the program with its arguments.
        environment: all variables.
        cpus: CPUs to bind to; None for those of the launcher.
        memory: NUMA nodes to bind memory to; None for no binding.
        group: directory of the cgroup to join; empty for none.
        takes_terminal: whether its process group becomes the one in the foreground.
    """

    argv: tuple[bytes, ...]
    environment: dict[bytes, bytes]
    cpus: tuple[int, ...] | None = None
    memory: tuple[int, ...] | None = None
    group: str = ""
    takes_terminal: bool = False


def become(start: int, failed: int, guardian: int, *, has_group: bool) -> NoReturn:
    """Wait for how to start, and execute the program.

    Args:
        start: a pipe from which it comes, with the end of the pipe after it; nothing if the job never starts.
        failed: a pipe for the number of an error; it is closed by a program that was executed.
        guardian: the parent, with which it ends.
        has_group: whether it gets a process group of its own.
    """
    try:
        descendants.die_with_parent(guardian)
        if has_group:
            os.setpgid(0, 0)
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # as it is in the background of a script
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        content = b"".join(iter(lambda: os.read(start, _PIECE_BYTES), b""))
        if content:
            _execute(msgspec.msgpack.decode(content, type=Start))
    except OSError as error:
        os.write(failed, str(error.errno).encode())
    finally:
        os._exit(NOT_FOUND)


def _execute(start: Start) -> NoReturn:
    if start.group:
        with open(f"{start.group}/cgroup.procs", "w", encoding="utf-8") as file:
            file.write("0")
    if start.cpus is not None:
        os.sched_setaffinity(0, start.cpus)
    if start.memory is not None:
        _bind_memory(start.memory)
    if start.takes_terminal:
        take_terminal(os.getpid())
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and a program would inherit that
        signal.signal(number, signal.SIG_DFL)
    if not start.argv[0]:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    os.execvpe(start.argv[0], start.argv, start.environment)


def _bind_memory(nodes: Iterable[int]) -> None:
    from fluxres.hwloc import Topology
    from fluxres.hwloc.bitmap import Bitmap
    from fluxres.hwloc.topology import MemBindFlags, MemBindPolicy

    with suppress(OSError, RuntimeError, NotImplementedError), Topology.from_this_system() as topology:
        topology.set_membind(Bitmap.from_pyseq(nodes), MemBindPolicy.BIND, MemBindFlags.BYNODESET | MemBindFlags.THREAD)


def take_terminal(group: int) -> None:
    """Make a process group the one in the foreground of the terminal of this session, if there is one."""
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        try:
            before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # else a process in the background would be stopped
            os.tcsetpgrp(terminal, group)
            signal.signal(signal.SIGTTOU, before)
        finally:
            os.close(terminal)


def status_of(number: int) -> int:
    """The exit status for a program that could not be executed, as in shells."""
    return NOT_FOUND if number in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE

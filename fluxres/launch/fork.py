"""Start a child instance as a fork of a process that has everything loaded: milliseconds, where an interpreter takes 0.3 s.

Only clean processes fork instances: the nursery (:mod:`fluxres.launch.nursery`), and instances that are children themselves. They
have one thread, besides one that watches somebody else's queue policy, and no open store between two calls. The program that runs
the outermost instance may have anything: threads, connections, locks.

A fork shares nothing with its parent but pages of memory. Its descriptors are closed, its signals are as after an exec, and it
never returns into the frames of its parent, so nothing of its parent is finalized in it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from typing import Final, NoReturn, Protocol

from fluxres.launch import descendants, lifeline

_ENVIRONMENT: Final = slice(47, 49)
"""Where `/proc/self/stat` has the addresses of the environment (fields 50 and 51), counted from the field after the name."""
_LAST_WORDS: Final = signal.SIGTERM


class Forker(Protocol):
    """A process that forks instances."""

    def start(self, mark: str, streams: tuple[int, int]) -> int:
        """Start an instance; returns its process id.

        Args:
            mark: value of `lifeline.MARK`.
            streams: its standard input and output.

        Errors: OSError.
        """

    def wait(self, pid: int) -> int:
        """Reap an instance that has ended; returns its code as `subprocess` does."""

    def close(self) -> None:
        """All instances have ended."""


class Here:
    """This process forks them."""

    def start(self, mark: str, streams: tuple[int, int]) -> int:
        return fork(mark, streams)

    def wait(self, pid: int) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def close(self) -> None: ...


class Forked:
    """An instance in a fork, with the attributes of a `subprocess.Popen` with pipes."""

    def __init__(self, forker: Forker, mark: str) -> None:
        its_input, to = os.pipe()
        from_, its_output = os.pipe()
        self._forker = forker
        self.stdin, self.stdout = FileIO(to, "w"), FileIO(from_, "r")
        try:
            self.pid = forker.start(mark, (its_input, its_output))
        except OSError:
            self.stdin.close()
            self.stdout.close()
            raise
        finally:
            os.close(its_input)
            os.close(its_output)

    def wait(self) -> int:
        """Reap it; returns its code as `subprocess` does."""
        return self._forker.wait(self.pid)


def fork(mark: str, streams: tuple[int, int]) -> int:
    """Fork an instance, in its own process group, which gets SIGTERM if this process dies; returns its process id.

    Errors: OSError.
    """
    from fluxres.launch.child import main

    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    # A signal for the fork waits until the handlers of its parent are gone.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _become(main, parent, mark, streams, before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _become(main: Callable[[], int], parent: int, mark: str, streams: tuple[int, int], mask: set[int]) -> NoReturn:
    status = 1
    try:
        gc.freeze()
        os.setpgid(0, 0)
        descendants.die_with_parent(parent, _LAST_WORDS)
        _reset_signals()
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        _set_mark(mark)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        status = main()
    except BaseException:  # noqa: BLE001  # nothing returns into the frames of the parent
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(status)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)


def _set_mark(mark: str) -> None:
    """Set the mark where `/proc/PID/environ` shows it, which is the memory that the kernel filled at the last exec.

    All variables move elsewhere before this memory is overwritten.

    Errors: OSError if it is too small.
    """
    os.environ[lifeline.MARK] = mark
    for key, value in os.environb.items():
        os.putenv(key, value)
    with open("/proc/self/stat", "rb") as file:
        begin, end = map(int, file.read().rpartition(b")")[2].split()[_ENVIRONMENT])
    text = f"{lifeline.MARK}={mark}".encode()
    if len(text) >= end - begin:
        raise OSError(f"{len(text)} bytes for {lifeline.MARK}, but there is room for {end - begin}")
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)

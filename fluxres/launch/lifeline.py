"""That no process outlives who started it.

There are four lines, because each of them fails somewhere.  A parent that ends closes the pipe its child reads from.  The
kernel signals a child whose parent has gone.  Jobs have a process group each, so that their own children go with them.  And
who left its group is found by what its environment says, when the instance it belongs to has ended.  A program that leaves its
group and empties its environment gets away.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

from fluxres.errors import UsageError

MARK: Final = "FLUXRES_INSTANCE"
"""Variable in which a process is told the run and the instance it belongs to: ``RUN/tree.2.1``."""
JOB: Final = "FLUXRES_JOB"
"""Variable in which a job is told its id."""
_PR_SET_PDEATHSIG: Final = 1
_ROUNDS: Final = 100


def require_support() -> None:
    """Refuse systems without what this module needs.

    Errors: UsageError.
    """
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        raise UsageError("processes need Linux 5.3 or newer", hint="fluxres simulate needs nothing of it")


def start(
    argv: Sequence[str],
    *,
    mark: str,
    last_words: signal.Signals,
    job: str = "",
    pipes: bool = False,
    extra: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """A process in a group of its own, that is signalled when this one dies.

    Args:
        mark: value of `MARK`.
        last_words: the signal it gets then.
        job: value of `JOB`, if it is one.
        pipes: whether its input and output are pipes; else it has no input, and its output goes to standard error.
        extra: more variables.

    Errors: OSError, when there is no such program or no room for it.
    """
    environment = {**os.environ, **(extra or {}), MARK: mark}
    if job:
        environment[JOB] = job
    output: int | IO[bytes] = subprocess.PIPE if pipes else 2
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
        stdout=output,
        env=environment,
        process_group=0,
        # Two system calls between fork and exec, which no lock of another thread can hold up.
        preexec_fn=_tied(os.getpid(), last_words),  # noqa: PLW1509
    )


def _tied(parent: int, last_words: int) -> Callable[[], None]:
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, last_words)
        if os.getppid() != parent:
            os._exit(1)  # it died before we asked

    return tie


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a process that was not waited for yet, and all of its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def kill_marked(mark: str) -> int:
    """Kill whatever belongs to an instance or one below it; how many processes that were.

    Cost: a look at every process of the machine.
    """
    killed = 0
    for _ in range(_ROUNDS):  # who is killed may just have started another
        found = sum(_kill_if(pid, mark) for pid in _processes())
        if not found:
            break
        killed += found
    return killed


def _processes() -> list[int]:
    own = os.getpid()
    return [pid for name in os.listdir("/proc") if name.isdecimal() and (pid := int(name)) != own]


def _kill_if(pid: int, mark: str) -> bool:
    if not _is_marked(pid, mark):
        return False
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if _is_marked(pid, mark):  # still the same process, now that it cannot become another
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return False


def _is_marked(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = b"\0" + file.read() + b"\0"
    except OSError:
        return False
    wanted = f"\0{MARK}={mark}".encode()
    return wanted + b"\0" in variables or wanted + b"." in variables


def raise_open_files() -> None:
    """Allow as many open files as this process may have: each job and each child takes some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def told(status: int) -> str:
    """A wait status in words.

    >>> told(9), told(256)
    ('killed by signal 9 (SIGKILL)', 'ended with status 1')
    """
    number = status & 0x7F
    if not number:
        return f"ended with status {status >> 8}"
    try:
        return f"killed by signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"killed by signal {number}"


def wait_status(returncode: int) -> int:
    """A wait status from what `subprocess` makes of it.

    >>> wait_status(-9), wait_status(3)
    (9, 768)
    """
    return -returncode if returncode < 0 else returncode << 8


def exit_code(status: int) -> int:
    """What a shell makes of a wait status.

    >>> exit_code(9), exit_code(768)
    (137, 3)
    """
    return 128 + (status & 0x7F) if status & 0x7F else status >> 8

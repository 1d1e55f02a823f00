"""Ensure that no process outlives the one that started it.

There are four mechanisms, because each of them fails in some case. A parent that ends closes the pipe that its child reads from.
The kernel signals a child whose parent has ended. Each job has its own process group, so that its children end with it. A
process that left its group is found by an environment variable after its instance has ended. Only a program that leaves its
group and clears its environment escapes.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from fluxres.errors import UsageError
from fluxres.launch import descendants

if TYPE_CHECKING:
    import subprocess

MARK: Final = "FLUXRES_INSTANCE"
"""Environment variable with the run and the instance of a process: ``RUN/tree.2.1``."""
ROOM: Final = "FLUXRES_ROOM"
"""Environment variable of instances, for the longer marks of their forks to have room."""
JOB: Final = "FLUXRES_JOB"
"""Environment variable with the id of a job."""
RUN: Final = "FLUXRES_RUN"
"""Environment variable with the mark of a job of `fluxres run`."""
_ROUNDS: Final = 100
_ROOM_BYTES: Final = 256


def require_support() -> None:
    """Refuse systems without the required features.

    Errors: UsageError.
    """
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        raise UsageError("processes need Linux 5.3 or newer", hint="'fluxres simulate' works without")


def start(
    argv: Sequence[str],
    *,
    mark: str,
    last_words: signal.Signals,
    job: str = "",
    pipes: bool = False,
    stdin: int | None = None,
    extra: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in its own group, which gets a signal if this process dies.

    Args:
        mark: value of `MARK`.
        last_words: the signal.
        job: value of `JOB`, if it is a job.
        pipes: whether its input and output are pipes; otherwise it has no input, and its output goes to standard error.
        stdin: its input, if there are no pipes.
        extra: more environment variables.

    Errors: OSError if there is no such program or the system lacks resources for it.
    """
    import subprocess

    environment = {**os.environ, **(extra or {}), MARK: mark}
    if job:
        environment[JOB] = job
    else:
        environment[ROOM] = " " * _ROOM_BYTES
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE if pipes else subprocess.DEVNULL if stdin is None else stdin,
        stdout=subprocess.PIPE if pipes else 2,
        env=environment,
        process_group=0,
        # Two system calls between fork and exec, which a lock of another thread cannot block.
        preexec_fn=partial(descendants.die_with_parent, os.getpid(), last_words),  # noqa: PLW1509
    )


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a process that has not been reaped, and all of its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def kill_marked(mark: str, variable: str = MARK) -> int:
    """Kill all processes of an instance and of those below it, or of a job; returns the number of processes.

    Args:
        variable: the environment variable that has the mark.

    Cost: reads the environment of every process of the machine.
    """
    killed = 0
    for _ in range(_ROUNDS):  # a killed process may just have started another
        found = sum(_kill_if(pid, f"{variable}={mark}") for pid in _processes())
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
        if _is_marked(pid, mark):  # still the same process, whose id can no longer be reused
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
    wanted = f"\0{mark}".encode()
    return wanted + b"\0" in variables or wanted + b"." in variables


def raise_open_files() -> None:
    """Raise the limit of open files as far as allowed, since each job and each child takes some."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def status_text(status: int) -> str:
    """A wait status in words.

    >>> status_text(9), status_text(256)
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
    """The wait status for a return code of `subprocess`.

    >>> wait_status(-9), wait_status(3)
    (9, 768)
    """
    return -returncode if returncode < 0 else returncode << 8


def has_ended(pid: int) -> bool:
    """Whether a process has ended, whether it was reaped or not."""
    import select

    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(0))
    finally:
        os.close(handle)


def exit_code(status: int) -> int:
    """The exit status that a shell reports for a wait status.

    >>> exit_code(9), exit_code(768)
    (137, 3)
    """
    return 128 + (status & 0x7F) if status & 0x7F else status >> 8

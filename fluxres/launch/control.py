"""Wait for the end of jobs that live by processes, and end them from outside."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from fluxres.errors import UsageError
from fluxres.launch import identity
from fluxres.launch.loop import Loop
from fluxres.store.journal import os_user

if TYPE_CHECKING:
    from fluxres.allocation.facts import Launch

_MORE_S: Final = 2.0


def handles(processes: Iterable[tuple[int, int]]) -> list[int]:
    """Descriptors of processes that still run (pidfd_open(2)); readable when a process ends."""
    found = []
    for pid, started in processes:
        with suppress(OSError):
            handle = os.pidfd_open(pid)
            if identity.start_time(pid) == started:
                found.append(handle)
            else:
                os.close(handle)
    return found


def wait_for(launches: Sequence[Launch], timeout_s: float | None = None) -> bool:
    """Wait until all processes of these jobs have ended; returns whether they have.

    Args:
        timeout_s: at most this long.
    """
    open_handles = {handle for launch in launches for handle in handles(launch.processes)}
    is_late = False

    def ended(handle: int) -> None:
        loop.unwatch(handle)
        os.close(handle)
        open_handles.discard(handle)

    def late() -> None:
        nonlocal is_late
        is_late = True

    with Loop() as loop:
        for handle in open_handles:
            loop.watch(handle, partial(ended, handle))
        if timeout_s is not None:
            loop.after(timeout_s, late)
        while open_handles and not is_late:
            loop.turn()
        for handle in open_handles:
            os.close(handle)
    return not open_handles


def end(job: str, launch: Launch, grace_s: float) -> None:
    """End a job: its launcher ends the program and frees what the job holds; what does not end in time is killed.

    Args:
        grace_s: between SIGTERM and SIGKILL; 0 kills at once.

    Errors: UsageError if its processes are those of another user or machine.
    """
    if launch.host != identity.host():
        raise UsageError(f"runs on {launch.host}", where=f"job '{job}'", hint=f"cancel it there, or free it: fluxres free {job}")
    if grace_s:
        _send(job, launch.processes[:1], signal.SIGTERM)
        _send(job, launch.processes[:1], signal.SIGCONT)
        if wait_for([launch], grace_s):
            return
        _send(job, launch.processes[2:], signal.SIGKILL)  # the program: its launcher then frees what it holds
        if wait_for([launch], _MORE_S):
            return
    _send(job, launch.processes, signal.SIGKILL)
    wait_for([launch], _MORE_S)


def require_owner(job: str, launch: Launch, user: str | None) -> None:
    """Refuse a job whose launcher this process may not signal; on another machine, one of another user.

    Args:
        user: of the job.

    Errors: UsageError.
    """
    if launch.host == identity.host():
        _send(job, launch.processes[:1], 0)
    elif os.geteuid() and user != os_user():
        raise _not_ours(job)


def _not_ours(job: str) -> UsageError:
    return UsageError("belongs to another user", where=f"job '{job}'", hint="ask its user, or an administrator")


def _send(job: str, processes: Iterable[tuple[int, int]], number: int) -> None:
    for handle in handles(processes):
        try:
            signal.pidfd_send_signal(handle, number)
        except PermissionError:
            raise _not_ours(job) from None
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)

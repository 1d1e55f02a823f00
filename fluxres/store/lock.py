"""One writer at a time, and a message that names it.

SQLite would keep two writers apart by itself, but it cannot name the other one, and a command that loads, decides and then
writes needs the store for all three steps. So a writer takes an flock on a file beside the store and writes its name into it. The
kernel releases the lock when the process ends, for whatever reason. The file stays, because removing it would let two writers
lock two different files of one name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from fluxres.clock import Clock
from fluxres.errors import StoreBusy, StoreError, UsageError

TELL_AFTER_S: Final = 0.5
"""A shorter wait is not reported on the terminal."""
_POLL_S: Final = (0.005, 0.05)
_TEXT_BYTES_MAX: Final = 4096


class Holder(msgspec.Struct, frozen=True):
    """The process that holds the lock.

    Args:
        pid: process id, None if it could not be read.
        command: as it was typed.
        since: seconds since 1970.
        host: name of its machine.
    """

    pid: int | None = None
    command: str = ""
    since: float | None = None
    host: str = ""

    def __str__(self) -> str:
        if self.pid is None:
            return "another process"
        where = "" if self.host in ("", os.uname().nodename) else f" on {self.host}"
        when = "" if self.since is None else f", since {datetime.fromtimestamp(self.since):%Y-%m-%d %H:%M:%S}"
        return f"process {self.pid}{where} ({self.command or 'unknown command'}{when})"


Notify = Callable[[Holder], None]


@contextmanager
def writer_lock(
    path: Path,
    *,
    command: str,
    wait_s: float,
    clock: Clock,
    notify: Notify | None = None,
    mode: int = 0o666,
) -> Iterator[None]:
    """Hold the lock file at `path` for as long as the block runs.

    Args:
        command: reported to other processes that wait.
        wait_s: how long to wait for another writer; 0 tries once.
        notify: called once with the holder, half a second into the wait.
        mode: of the file, if it is that of this user.

    Errors: StoreBusy naming the holder; StoreError if the file cannot be created, opened or locked.
    """
    if not wait_s >= 0:
        raise UsageError(f"wait: expected seconds >= 0, got {wait_s!r}")
    fd = _acquire(path, wait_s, notify, mode)
    try:
        _sign(fd, Holder(os.getpid(), " ".join(command.split())[:1000], clock(), os.uname().nodename))
        yield
    finally:
        os.close(fd)


def _acquire(path: Path, wait_s: float, notify: Notify | None, mode: int) -> int:
    # The wait is counted in sleeps rather than read from a clock, so changing the clock does not cut it short.
    waited_s, pause_s = 0.0, _POLL_S[0]
    pause = threading.Event()
    while True:
        fd = _open(path, mode)
        if _lock(fd, path):
            if _is_current(fd, path):
                return fd
            os.close(fd)
            continue
        holder = _read(fd)
        os.close(fd)
        if notify is not None and waited_s >= TELL_AFTER_S:
            notify(holder)
            notify = None
        if waited_s >= wait_s:
            raise StoreBusy(
                f"waited {wait_s:g} s for {holder}, which is writing to this store",
                where=str(path),
                hint="wait longer with --wait, or end that process",
            )
        pause.wait(min(pause_s, wait_s - waited_s))
        waited_s += pause_s
        pause_s = min(pause_s * 1.5, _POLL_S[1])


def _open(path: Path, mode: int) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        own = os.fstat(fd)
        if own.st_uid == os.geteuid() and own.st_mode & 0o777 != mode:
            os.fchmod(fd, mode)
        return fd
    except OSError as error:
        raise StoreError(
            f"cannot open the lock file: {error.strerror}",
            where=str(path),
            hint="writing needs write access to the directory and the lock file; --store or FLUXRES_STORE selects another store",
        ) from None


def _lock(fd: int, path: Path) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
            return False
        os.close(fd)
        raise StoreError(f"cannot lock: {error.strerror}", where=str(path), hint="put the store on a local file system") from None
    return True


def _is_current(fd: int, path: Path) -> bool:
    """Whether the locked file still has its name; it may have been removed in the meantime."""
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    own = os.fstat(fd)
    return (own.st_ino, own.st_dev) == (named.st_ino, named.st_dev)


def _sign(fd: int, holder: Holder) -> None:
    lines = [f"pid: {holder.pid}", f"command: {holder.command}", f"since: {holder.since}", f"host: {holder.host}", ""]
    text = "\n".join(lines).encode("utf-8", "backslashreplace")
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, text, 0)
    except OSError:
        # A full disk must not prevent a writer from freeing space; the lock is valid without its text.
        return


def _read(fd: int) -> Holder:
    text = os.pread(fd, _TEXT_BYTES_MAX, 0).decode("utf-8", "replace")
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        return Holder(int(fields["pid"]), fields["command"], float(fields["since"]), fields.get("host", ""))
    except (KeyError, ValueError):
        return Holder()

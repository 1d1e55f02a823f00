"""One writer at a time, in the order in which they came, and a message that names the present one.

SQLite would keep two writers apart by itself, but it cannot name the other one, and a command that loads, decides and then
writes needs the store for all three steps. So a writer takes an flock on a file beside the store and writes its name into it. The
kernel releases the lock when the process ends, for whatever reason. The file stays, because removing it would let two writers
lock two different files of one name.

The flock alone is not fair: a process that releases it and wants it again has it before the others wake up. So a writer first
locks the byte of the lock file whose number is the moment at which it came, as its place in the queue, and waits until no lower
byte is locked. The kernel wakes it, and drops the place of a process that ends. Only the flock excludes others: a mistake in the
queue costs order and nothing else.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from fluxres.clock import Clock, monotonic_ns
from fluxres.errors import StoreBusy, StoreError, UsageError

TELL_AFTER_S: Final = 0.5
"""A shorter wait is not reported on the terminal."""
_TEXT_BYTES_MAX: Final = 4096
_FLOCK: Final = struct.Struct("@hhqqi4x")
"""struct flock: type, whence, start, length, process."""
_FIRST_PLACE: Final = _TEXT_BYTES_MAX
"""Places in the queue are bytes from here on."""
_OTHERS: Final = (errno.EWOULDBLOCK, errno.EACCES)
"""Another process has the lock."""


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


class WriterLock:
    """The lock of one writer, taken and released any number of times.

    Args:
        path: of the lock file.
        notify: called once for each wait with the holder, half a second into it.
        mode: of the file, if it is that of this user.

    Cost: 20 us where nobody waits, of them 4 us for the text.
    """

    def __init__(self, path: Path, *, clock: Clock, notify: Notify | None = None, mode: int = 0o666) -> None:
        self.path, self.clock, self.notify, self.mode = path, clock, notify, mode
        self._fd = -1
        self._inode = (0, 0)
        self._place = 0
        self._process = os.getpid()

    def acquire(self, command: str, wait_s: float) -> None:
        """Wait for the lock, behind all who wait already.

        Args:
            command: shown to other processes that wait.
            wait_s: how long to wait; 0 tries once.

        Errors: StoreBusy naming the holder; StoreError if the file cannot be created, opened or locked.
        """
        if not wait_s >= 0:
            raise UsageError(f"wait: expected at least 0 seconds, got {wait_s!r}")
        while True:
            fd = self._opened()
            self._place = _place_in_queue(fd, self.path)
            if not (_is_first(fd, self._place) and _lock(fd, self.path)):
                if not wait_s:
                    self.close()
                    raise self._busy(wait_s)
                self._wait(fd, wait_s)
            if self._is_current():
                break
            self.close()
        _sign(fd, command, self.clock)

    def is_wanted(self) -> bool:
        """Whether another writer waits for the lock that this one holds."""
        return _is_locked(self._fd, self._place + 1)

    def release(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        _unlock_places(self._fd)

    def close(self) -> None:
        """Close the file, and so release the lock if it is held."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _opened(self) -> int:
        if self._process != os.getpid():  # a fork shares the open file, and would share the lock
            self.close()
            self._process = os.getpid()
        if self._fd < 0:
            self._fd = _open(self.path, self.mode)
            own = os.fstat(self._fd)
            self._inode = own.st_ino, own.st_dev
        return self._fd

    def _is_current(self) -> bool:
        """Whether the locked file still has its name; it may have been removed in the meantime."""
        try:
            named = os.stat(self.path)
        except FileNotFoundError:
            return False
        return (named.st_ino, named.st_dev) == self._inode

    def _wait(self, fd: int, wait_s: float) -> None:
        """Wait in the queue, then for the lock.

        A wait in the kernel has no time limit, so it is that of a thread. If the time is over first, the thread keeps the file
        and closes it when its turn comes.
        """
        waiter = _Waiter(fd, self._place)
        waiter.start()
        try:
            first_s = min(TELL_AFTER_S, wait_s)
            is_there = waiter.done.wait(first_s)
            if not is_there and self.notify is not None and wait_s > TELL_AFTER_S:
                self.notify(_read(fd))
            if not (is_there or waiter.done.wait(wait_s - first_s) or waiter.is_done_if_not_left()):
                raise self._busy(wait_s)
        except BaseException:
            if waiter.is_done_if_not_left():
                self.close()
            self._fd = -1
            raise
        if waiter.error is not None:
            self.close()
            raise _unlockable(waiter.error, self.path)

    def _busy(self, wait_s: float) -> StoreBusy:
        return StoreBusy(
            f"waited {wait_s:g} s for {_read_named(self.path)}, which is writing to this store",
            where=str(self.path),
            hint="wait longer with --wait, or end that process",
        )


class _Waiter(threading.Thread):
    """Wait for a place at the front of the queue, and for the lock."""

    def __init__(self, fd: int, place: int) -> None:
        super().__init__(name="fluxres-writer-lock", daemon=True)
        self.done = threading.Event()
        self.error: OSError | None = None
        self._fd, self._place = fd, place
        self._is_left = False
        self._end = threading.Lock()

    def run(self) -> None:
        try:
            _queue(self._fd, self._place)
            if not self._is_left:
                fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError as error:
            self.error = error
        with self._end:
            if self._is_left:
                os.close(self._fd)
            else:
                self.done.set()

    def is_done_if_not_left(self) -> bool:
        """Whether the wait is over; if not, nobody waits for this thread any more."""
        with self._end:
            self._is_left = not self.done.is_set()
            return not self._is_left


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

    Args and errors: as for :class:`WriterLock`.
    """
    lock = WriterLock(path, clock=clock, notify=notify, mode=mode)
    lock.acquire(command, wait_s)
    try:
        yield
    finally:
        lock.close()


def remove_of(path: Path, pid: int, host: str) -> bool:
    """Remove the lock file of a process, so that others lock a new one; False if another process signed it last.

    Errors: StoreError.
    """
    holder = _read_named(path)
    if (holder.pid, holder.host) != (pid, host):
        return False
    try:
        path.unlink()
    except OSError as error:
        raise _unlockable(error, path) from None
    return True


# -- the queue -----------------------------------------------------------------------------------------------------------


def _record(kind: int, start: int, length: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)


_NO_PLACES: Final = _record(fcntl.F_UNLCK, 0, 0)


def _place_in_queue(fd: int, path: Path) -> int:
    """Lock the byte of this moment; a writer that comes later has a higher one."""
    place = _FIRST_PLACE + monotonic_ns()
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _record(fcntl.F_WRLCK, place, 1))
    except OSError as error:
        raise _unlockable(error, path) from None
    return place


def _is_first(fd: int, place: int) -> bool:
    """Whether this is the front of the queue."""
    return not _is_locked(fd, _FIRST_PLACE, place - _FIRST_PLACE)


def _queue(fd: int, place: int) -> None:
    """Wait for the front of the queue."""
    before = (_FIRST_PLACE, place - _FIRST_PLACE)
    fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, _record(fcntl.F_WRLCK, *before))
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _record(fcntl.F_UNLCK, *before))


def _is_locked(fd: int, start: int, length: int = 0) -> bool:
    """Whether another writer has a place among these bytes; 0 means all that follow."""
    found = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _record(fcntl.F_WRLCK, start, length))
    kind: int = _FLOCK.unpack(found)[0]
    return kind != fcntl.F_UNLCK


def _unlock_places(fd: int) -> None:
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _NO_PLACES)


def _unlockable(error: OSError, path: Path) -> StoreError:
    return StoreError(f"cannot lock: {error.strerror}", where=str(path), hint="put the store on a local file system")


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
        if error.errno in _OTHERS:
            return False
        raise _unlockable(error, path) from None
    return True


@lru_cache(maxsize=64)
def _who(process: int, command: str) -> bytes:
    said = " ".join(command.split())[:1000].encode("utf-8", "backslashreplace")
    return b"pid: %d\ncommand: %s\nsince: " % (process, said)


def _sign(fd: int, command: str, clock: Clock) -> None:
    """Write who has the lock, unless that is the process that had it before."""
    who = _who(os.getpid(), command)
    try:
        if os.pread(fd, len(who), 0) != who:
            os.ftruncate(fd, 0)
            os.pwrite(fd, who + f"{clock()}\nhost: {os.uname().nodename}\n".encode(), 0)
    except OSError:
        # A full disk must not prevent a writer from freeing space; the lock is valid without its text.
        return


def _read_named(path: Path) -> Holder:
    with suppress(OSError), path.open("rb") as file:
        return _read(file.fileno())
    return Holder()


def _read(fd: int) -> Holder:
    text = os.pread(fd, _TEXT_BYTES_MAX, 0).decode("utf-8", "replace")
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        return Holder(int(fields["pid"]), fields["command"], float(fields["since"]), fields.get("host", ""))
    except (KeyError, ValueError):
        return Holder()

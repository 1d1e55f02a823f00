"""How a process that waits for resources is woken: by a datagram to a socket in a directory beside the store.

So no process has to poll. A message is only a hint, and the store says what is true: a lost or forged one costs a look at the
store, and a process that waits looks by itself from time to time. Only a message that ends a program is more than that, and the
kernel says who sent it.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph
    from fluxres.model.events import Event

GATE: Final = "starting"
"""The file of :mod:`fluxres.launch.gate` in this directory."""
_BYTES_MAX: Final = 1 << 17
_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group of a sender (unix(7))."""


class News(msgspec.Struct, frozen=True, omit_defaults=True):
    """What has happened to a request that waits.

    Args:
        is_granted: it has its resources.
        is_canceled: it is not in the queue any more.
        reason: why, if nobody canceled it.
        place: its place in the queue, from 1.
        waiting: number of requests in the queue.
        watch: whether this process should look when something becomes free without anybody saying so.
        holders: processes of each job that holds something, as (id, start time); only if it should watch.
        due_s: seconds until something that is held ends by its time; only if it should watch.
        look: the graph was changed by something that makes no pass of the queue, so this process should.
        has_new_end: the end of what it holds may have moved.
        grace_s: end the program, and kill it after this many seconds; None to let it run. Only from its user or root.
    """

    is_granted: bool = False
    is_canceled: bool = False
    reason: str = ""
    place: int = 0
    waiting: int = 0
    watch: bool = False
    holders: tuple[tuple[tuple[int, int], ...], ...] = ()
    due_s: float | None = None
    look: bool = False
    has_new_end: bool = False
    grace_s: float | None = None


def folder_of(store: Path) -> Path:
    """The directory for the sockets of a store."""
    return Path(_name_of(store))


def _name_of(store: Path) -> str:
    return f"{store}.run"


@contextmanager
def _opened(folder: Path) -> Iterator[str]:
    """A short path to a directory: that of a socket has at most 107 bytes."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def make_folder(store: Path) -> Path:
    """Create the directory, for those who may write to the store.

    Errors: OSError.
    """
    folder, mode = folder_of(store), stat.S_IMODE(store.stat().st_mode)
    with suppress(FileExistsError):
        folder.mkdir()
        shared = mode & 0o066
        os.chmod(folder, stat.S_IMODE(folder.stat().st_mode) & ~0o077 | shared | (shared & 0o044) >> 2)
    return folder


class Mailbox:
    """The socket of a process that waits.

    Args:
        store: path of the store.
        mark: of the job; the name of the socket.
    """

    def __init__(self, store: Path, mark: str) -> None:
        self._folder, self._name = make_folder(store), mark
        sweep(self._folder)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with _opened(self._folder) as short:
            self._socket.bind(f"{short}/{mark}")
        os.chmod(self._folder / mark, 0o600 | stat.S_IMODE(store.stat().st_mode) & 0o066)

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> list[News]:
        """The messages that have come."""
        found = []
        while True:
            try:
                data, more, _, _ = self._socket.recvmsg(_BYTES_MAX, socket.CMSG_SPACE(_CREDENTIALS.size))
                news = msgspec.json.decode(data, type=News)
                found.append(news if _may_end(more) else msgspec.structs.replace(news, grace_s=None))
            except BlockingIOError:
                return found
            except msgspec.MsgspecError:
                continue

    def close(self) -> None:
        self._socket.close()
        with suppress(OSError):
            os.unlink(self._folder / self._name)


def _may_end(more: list[tuple[int, int, bytes]]) -> bool:
    """Whether a message is from this user or root, by what the kernel has added to it."""
    for level, kind, data in more:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return _CREDENTIALS.unpack(data[: _CREDENTIALS.size])[1] in (0, os.geteuid())
    return False


def heeds(store: Path, mark: str) -> bool:
    """Whether a process does what a message from here says, if it is there: it belongs to this user, or this is root."""
    try:
        return os.geteuid() in (0, (folder_of(store) / mark).stat().st_uid)
    except OSError:
        return True


def sweep(folder: Path) -> None:
    """Remove the sockets of processes that were killed: a run before it had a ticket, or a server."""
    with suppress(OSError), _opened(folder) as short, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        for name in os.listdir(folder):
            if name == GATE:
                continue
            try:
                out.connect(f"{short}/{name}")
            except ConnectionRefusedError:
                with suppress(OSError):
                    os.unlink(folder / name)
            except OSError:
                continue


def concerned(graph: ResourceGraph, events: Iterable[Event]) -> list[str]:
    """The marks of the jobs that live by processes, and whose end these events have moved."""
    jobs = {event.get("job") for event in events if event["event"] == "set_end"}
    found = [graph.records.facts[job].launch for job in jobs if job in graph.records.facts]
    return [launch.mark for launch in found if launch is not None]


def marks(graph: ResourceGraph) -> list[str]:
    """The marks of all jobs that live by processes."""
    return [facts.launch.mark for facts in graph.records.facts.values() if facts.launch is not None]


def is_awaited(store: Path) -> bool:
    """Whether a process may wait for something in a store.  Cost: a look at a directory."""
    try:
        with os.scandir(_name_of(store)) as entries:  # after each change: a path would cost more than the look
            return any(entry.name != GATE for entry in entries)
    except OSError:
        return False


def discard(store: Path, mark: str) -> None:
    """Remove the socket of a process that has ended without doing so."""
    with suppress(OSError):
        os.unlink(folder_of(store) / mark)


def send(store: Path, news: list[tuple[str, News]]) -> None:
    """Send messages to processes by their marks; those that cannot be reached look by themselves."""
    if not news:
        return
    with suppress(OSError), _opened(folder_of(store)) as short, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.setblocking(False)
        for mark, one in news:
            with suppress(OSError):
                out.sendto(msgspec.json.encode(one), f"{short}/{mark}")

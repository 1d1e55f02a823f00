"""The events of a graph, as they are written to its journal, for all who follow them.

The journal is the source: an event has its number there and is sent only when it is on disk, whichever process made it. One
thread makes the text for all streams of a graph. It gets the changes of this process from their commits, and reads the journal
if numbers are missing between them, and otherwise four times a second. A stream keeps the number of the last event that it has
sent, so a slow one costs no memory, and one that was cut begins where it ended.

A graph of the same name that was created later counts from 1 again. So the id of an event names the graph, too, and no stream
continues with the events of another one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec

from fluxres import limits
from fluxres.clock import stopwatch
from fluxres.errors import FluxresError, StaleHandle, StoreConflict
from fluxres.service.thread_names import show_name
from fluxres.store import Entry, Position, Store, journal
from fluxres.store.writing import Change

_LOOK_EVERY_S: Final = 0.25
_REST_S: Final = 0.02
"""Between two looks: under load, one look finds all changes since the last."""
_KEPT: Final = 2_000
"""Latest events in memory; a stream that is further behind reads the journal itself."""
_COMMENT_EVERY_S: Final = 15.0
"""A comment keeps a quiet stream from being taken for a dead one."""

Message = tuple[int, bytes]
"""The number of an event, and what is sent of it."""


def event_id(number: int, uid: str) -> bytes:
    """The id of an event in a stream: its number in the journal, and the graph.

    >>> event_id(7, "5f3a90c1d2e4b687")
    b'7-5f3a90c1d2e4b687'
    """
    return b"%d-%b" % (number, uid.encode())


class Feed:
    """The events of one graph, from the first time that a stream follows them.

    Args:
        store, name: where the graph is.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._uid, self._last = "", 0
        self._recent: deque[Message] = deque(maxlen=_KEPT)
        self._following: dict[int, list[Message]] = {}
        self._committed: list[tuple[int, Change]] = []
        self._must_read = False
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._is_closed = False
        self._end = threading.Event()

    def committed(self, first: int, changes: Sequence[Change]) -> None:
        """These changes are in the journal now; called in the order of their numbers.

        Args:
            first: number of the first event.
        """
        if self._thread is None:  # no stream follows
            return
        with self._lock:
            for change in changes:
                self._committed.append((first, change))
                first += len(change.bodies)
            if len(self._committed) > _KEPT:  # reading the journal is late, and will find them
                self._committed.clear()
        self._news.set()

    def wake(self) -> None:
        """There may be something of others in the journal."""
        self._must_read = True
        self._news.set()

    def close(self) -> None:
        """End all streams."""
        self._is_closed = True
        self._end.set()
        self._news.set()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake_streams)

    async def follow(self, after: int | None, uid: str = "") -> AsyncGenerator[bytes]:
        """Events with a number above `after`, then those to come; None for those to come only.

        Each item is an event of a stream of server-sent events, or a comment. The first one is a comment with the id
        after which the events begin: a reader whose stream breaks before the first event resumes it there.

        Args:
            uid: of the graph that has the event `after`; empty if the request does not name it.

        Errors: StoreError, UnknownGraph, StaleHandle at the beginning.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._begin, loop)
        if uid not in ("", self._uid):
            raise self._stale(f"event {after} is of another graph of this name, which was dropped, or replaced by a copy of it")
        if after is not None and after > self._last:
            await loop.run_in_executor(None, self._require_written, after)
        last = self._last if after is None else after
        yield b": following %b\n\n" % event_id(last, self._uid)
        while not self._is_closed:
            changed = self._changed
            found = self._since(last)
            if found is None:
                try:
                    found = await loop.run_in_executor(None, self._read, last)
                except StoreConflict:  # it was dropped
                    return
            if found:
                if found[0][0] > last + 1:
                    yield _gap(last + 1, found[0][0] - 1)
                last = found[-1][0]
                yield b"".join(text for _, text in found)
                continue
            await changed.wait()
            if last >= self._last:
                yield b": still there\n\n"
        with suppress(FluxresError):  # what was done before the end
            yield b"".join(text for _, text in await loop.run_in_executor(None, self._read, last))

    def _since(self, last: int) -> list[Message] | None:
        """The events after a number, if they are in memory."""
        with self._lock:
            if last >= self._last:
                return []
            if not self._recent or self._recent[0][0] > last + 1:
                return None
            if last not in self._following:  # most streams have sent the same
                news = list(islice(reversed(self._recent), self._last - last))
                self._following[last] = news[::-1][: limits.SERVICE_EVENTS_READ_MAX]
            return self._following[last]

    def _read(self, last: int) -> list[Message]:
        at = Position(self._uid, last)
        return [self._message(entry) for entry in self._store.log_after(at, self._name, limits.SERVICE_EVENTS_READ_MAX)]

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._loop = loop
            at = self._store.position(self._name)
            self._uid, self._last = at.uid, at.seq
            self._thread = threading.Thread(target=self._run, name=f"fluxres-feed-{self._name}", daemon=True)
            self._thread.start()
        self.wake()  # for what was committed since

    def _require_written(self, number: int) -> None:
        """Refuse a number that the journal has not reached: nothing would be sent until then.

        Errors: StaleHandle.
        """
        latest = self._store.position(self._name).seq
        if number > latest:
            said = f"there is no event {number}, the latest is {latest}: it was restored from an earlier copy, or created anew"
            raise self._stale(said)

    def _stale(self, said: str) -> StaleHandle:
        return StaleHandle(said, where=f"graph '{self._name}'", hint="read the graph again, and follow it from there")

    def _run(self) -> None:
        show_name()
        sent_s = stopwatch()
        while not self._is_closed:
            self._news.wait(_LOOK_EVERY_S)
            self._news.clear()
            try:
                found = self._look()
            except StoreConflict:  # the streams of this graph are over
                self.close()
                return
            if found:
                with self._lock:
                    if found[0].seq > self._last + 1:  # the journal has forgotten those between: a stream reads it, and says so
                        self._recent.clear()
                    self._recent.extend(map(self._message, found))
                    self._following.clear()
                    self._last = found[-1].seq
            if found or stopwatch() - sent_s > _COMMENT_EVERY_S:
                sent_s = stopwatch()
                if self._loop is not None and not self._loop.is_closed():
                    self._loop.call_soon_threadsafe(self._wake_streams)
            self._end.wait(_REST_S)

    def _look(self) -> list[Entry]:
        """The events since the last look.  Errors: StoreConflict if it was dropped, be it by another process."""
        must_read, self._must_read = self._must_read, False
        with self._lock:
            committed, self._committed = self._committed, []
        found: list[Entry] = []
        last = self._last
        for first, change in committed:
            for number, body in enumerate(change.bodies, first):
                if number == last + 1:
                    found.append(journal.entry_of(number, change.time, change.command, body))
                    last = number
                elif number > last:  # those between are of another process
                    must_read = True
        if found and not must_read:
            return found
        found = []
        try:
            found = self._store.log_after(Position(self._uid, self._last), self._name, _KEPT)
        except StoreConflict:
            raise
        except FluxresError:  # in a store that is busy or gone there is nothing new
            pass
        if len(found) == _KEPT:
            self.wake()  # there may be more
        return found

    def _message(self, entry: Entry) -> Message:
        """An event as RFC 18 has it, a timestamp, a name and a context, as an event of a stream."""
        context = {key: value for key, value in entry.document().items() if key not in ("time", "event")}
        body = msgspec.json.encode({"timestamp": entry.time, "name": entry.event["event"], "context": context})
        name, own = entry.event["event"].encode(), event_id(entry.seq, self._uid)
        return entry.seq, b"id: %b\nevent: %b\ndata: %b\n\n" % (own, name, body)

    def _wake_streams(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _gap(first: int, last: int) -> bytes:
    """What is sent instead of events that the journal has forgotten."""
    return b"event: gap\ndata: %b\n\n" % msgspec.json.encode({"name": "gap", "context": {"first": first, "last": last}})

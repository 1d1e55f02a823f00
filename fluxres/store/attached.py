"""A graph in memory that stays attached to its store: a change returns when it is in the journal (rule D1).

The graph is an ordinary one, and questions are answered from memory. A change goes through three steps:

1. The first thread that wants to change something takes the store's lock, for the process, and catches up with what others have
   written. That costs one look at a counter where nothing was written, and a replay of the new events otherwise; so a change is
   decided on the state that it changes, and the lock is held for the time of a change only.
2. Under the lock of the graph, the change is made in memory, and its events become rows that wait.
3. Without the lock of the graph, one of the threads commits all rows that wait, in one transaction with one fsync, and the other
   threads learn that theirs are among them. Meanwhile further threads are at step 2. When no thread is left, or another process
   wants the lock, it is released.

If a commit fails, everything that waits is discarded, and the graph is read from the store again before anybody changes it. So
memory and store are equal, or the graph refuses changes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, TypeVar

import msgspec

from fluxres import clock as clocks
from fluxres import limits
from fluxres.clock import Clock
from fluxres.errors import FluxresError, InDoubt, StoreError, StoreUnreachable, UsageError
from fluxres.model.events import Event, PatientSink
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store import encoding, journal, mailbox, records
from fluxres.store.database import Durability
from fluxres.store.lock import Notify
from fluxres.store.store import Store, open_store
from fluxres.store.url import is_store_url
from fluxres.store.writing import WEIGHT_MAX, Change

T = TypeVar("T")

_SNAPSHOT_PART: Final = 16
"""A snapshot costs time for each pool that is held, so one is due when the events since name a sixteenth of them."""
_REPLAY_MAX: Final = 4 * WEIGHT_MAX
"""Pools to look up to catch up with others; beyond, reading the graph again is faster."""
_SETTLE_EVERY_S: Final = 1.0
"""How often a graph that is being changed looks for children whose lease is over."""
_ADMIT_S: Final = 0.2
"""How long a thread that wants to change something lets another process go first."""


class _Thread(threading.local):
    """What a thread does with the graph.

    Attributes:
        depth: number of changes that it is within.
        together: the changes of `together` so far, which wait for one commit; None outside of it.
    """

    depth = 0
    together: list[_Waiting] | None = None


class _Waiting(msgspec.Struct, eq=False):
    """A change that waits for its commit.

    Attributes:
        is_done: whether the wait is over.
        error: why it could not be written.
    """

    change: Change
    is_done: bool = False
    error: FluxresError | None = None


class _Batch:
    """A block whose changes become one change of the store."""

    __slots__ = ("_attached", "_command", "_user")

    def __init__(self, attached: Attached, command: str, user: str) -> None:
        self._attached, self._command, self._user = attached, command, user

    def __enter__(self) -> None:
        self._attached.begin_batch()

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        self._attached.end_batch(error, self._command, self._user)


class Attached(PatientSink):
    """The connection of a graph with its store: a context manager around each change, and the sink of its events.

    Args:
        store: of the graph.
        name: of the graph; the default one if None.
        durability: ``full``: a change is on disk when it returns; ``normal``: the system has it, and it survives the process, but
            a power failure may undo the last ones.
        command: for the journal.
        wait_s: how long to wait for other processes that write.
        clock: returns "now" of the graph.

    Attributes:
        on_commit: called after each commit, in their order, with the number of its first event and its changes.

    Errors: UnknownGraph, StoreBusy, StoreError.
    """

    on_commit: Callable[[int, Sequence[Change]], None] | None = None

    def __init__(self, store: Store, name: str | None, durability: Durability, command: str, wait_s: float, clock: Clock) -> None:
        self.store, self.command, self._wait_s = store, command, wait_s
        self._user = journal.os_user()
        self._process = os.getpid()
        self._link = store.link(name, durability, command=command, wait_s=wait_s)
        self._lock = store.writer_lock()
        self.graph, _ = self._link.read(clock)
        self.graph.attachment = self
        self.graph.sink = self
        self._thread = _Thread()
        self._settled_s = -_SETTLE_EVERY_S
        # Under the lock of the graph:
        self._events: list[Event | Callable[[], Event]] = []
        self._notes: list[tuple[str, str | None]] = []
        self._revision = 0
        self._generation = self.graph.generation
        self._since_snapshot = self._link.row.weight
        self._is_closed = False
        # Under the gate:
        self._door = threading.Lock()
        self._gate = threading.Condition(self._door)
        self._has_lock = self._is_opening = self._is_closing = False
        self._members = 0
        self._is_current = False
        self._loss: FluxresError | None = None
        self._waiting: list[_Waiting] = []
        self._committing = threading.Lock()

    # -- a change ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> None:
        if self._thread.depth == 0:
            self._join()
            self.graph.lock.acquire()
            try:
                self._require_open()
                if not self._is_current:
                    self.catch_up()
                    self._is_current = True
            except BaseException:
                self.graph.lock.release()
                self._leave()
                raise
            self._events, self._notes, self._revision = [], [], self.graph.revision
        self._thread.depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._thread.depth -= 1
        if self._thread.depth == 0:
            self._end(error, is_whole=False, command=self.command, user=self._user)

    def batch(self, command: str | None, user: str | None) -> _Batch:
        return _Batch(self, self.command if command is None else command, self._user if user is None else user)

    def begin_batch(self) -> None:
        if self._thread.depth:
            raise UsageError("a batch begins within a change or another batch", hint="begin it before")
        self.__enter__()

    def end_batch(self, error: BaseException | None, command: str, user: str) -> None:
        self._thread.depth = 0
        self._end(error, is_whole=True, command=command, user=user)

    def together(self, operations: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """What each of several operations returns or raises; their changes share one commit.

        Each is a batch, a change or several changes as by itself: the error of one undoes nothing of the others.

        Errors: StoreBusy; nothing has been done then. An error of the commit is that of each operation whose changes it loses.
        """
        if self._thread.depth or self._thread.together is not None:
            raise UsageError("operations are made together outside of any change", hint="end it before")
        self._join()
        made: list[tuple[T | Exception, list[_Waiting]]] = []
        try:
            for operation in operations:
                waiting: list[_Waiting] = []
                self._thread.together = waiting
                try:
                    made.append((operation(), waiting))
                except Exception as error:  # noqa: BLE001 - it is an answer
                    made.append((error, waiting))
            self._thread.together = None
            self._snapshot_at_end()
            self._flush()
            self._recover()
        finally:
            self._thread.together = None
            self._leave()
        return [next((one.error for one in waiting if one.error is not None), found) for found, waiting in made]

    def note(self, name: str, text: str | None) -> None:
        self._notes.append((name, text))

    def flush(self) -> None:
        self._flush()

    def __call__(self, event: Event) -> None:
        self._collect(event)

    def later(self, event: Callable[[], Event], pools: int) -> None:
        self._collect(event)

    def _collect(self, event: Event | Callable[[], Event]) -> None:
        if not self._thread.depth:
            self._require_open()
            raise UsageError(
                f"a change of graph '{self.graph.name}' outside of a batch, which its store would not see",
                hint="change it within `with graph.batch():`",
            )
        self._events.append(event)

    def _end(self, error: BaseException | None, *, is_whole: bool, command: str, user: str) -> None:
        """End a change: its events are committed, or undone in memory.

        Args:
            error: that ends it.
            is_whole: an error undoes all of it. Otherwise each of its events is a change of its own, and has been made.
        """
        graph, waiting = self.graph, None
        try:
            if self._loss is not None:
                loss = self._loss
                self._reload()
                raise loss
            is_odd = graph.revision - self._revision != len(self._events)
            if is_odd or (is_whole and error is not None and self._events):
                self._undo()
                if error is None:
                    hint = "do not replay events in an attached graph"
                    raise UsageError("the graph was changed other than by its operations", hint=hint)
            elif self._events:
                waiting = self._note(command, user)
        finally:
            self._events = []
            graph.lock.release()
            try:
                if waiting is not None and (together := self._thread.together) is not None:
                    together.append(waiting)
                elif waiting is not None:
                    self._await(waiting)
            finally:
                self._leave()

    def _note(self, command: str, user: str) -> _Waiting:
        """Let the change wait for its commit, with a snapshot if one is due."""
        try:
            change = self._change(command, user)
            if change.gives and self._link.is_claimed:  # a refusal in the commit would be one of all changes that share it
                with self._committing:
                    self._link.require_held(change)
            with self._door:
                if self._loss is not None:
                    raise self._loss
                waiting = _Waiting(change)
                self._waiting.append(waiting)
                return waiting
        except BaseException:
            self._undo()
            raise

    def _change(self, command: str, user: str) -> Change:
        graph = self.graph
        events = [event if isinstance(event, dict) else event() for event in self._events]
        change = Change.of(events, self.store.clock(), command, user, len(graph))
        change.concerned, change.notes = mailbox.concerned(graph, events), self._notes
        self._since_snapshot += change.weight
        if journal.is_structural(events):
            self._flush()  # `undo` needs the shape before it, which is that of the store then
            self._generation = -1
            change.shape = encoding.encode_shape(graph.structure)
            self._snapshot(change, change.shape)
        elif self._thread.together is None and self._is_snapshot_due():
            self._snapshot(change, self._shape_tail())
        return change

    def _snapshot_at_end(self) -> None:
        """Write a snapshot with the last change that waits, if one is due: within `together`, it would divide the commit."""
        with self.graph.lock:
            if self._is_snapshot_due():
                with self._committing:
                    if self._waiting:
                        self._snapshot(self._waiting[-1].change, self._shape_tail())

    def _snapshot(self, change: Change, shape: bytes) -> None:
        """Let a change be written with the present state of the graph, which is that after it."""
        change.marks = encoding.encode_marks(self.graph.structure, records.capture(self.graph.records), shape)
        self._since_snapshot = 0

    def _shape_tail(self) -> bytes:
        """The end of the present shape, which may be that of a change that waits for its commit."""
        shapes = [one.change.shape for one in list(self._waiting) if one.change.shape is not None]
        return shapes[-1] if shapes else self._link.shape_tail

    def _is_snapshot_due(self) -> bool:
        return self._since_snapshot > WEIGHT_MAX and self._since_snapshot > self.graph.records.pools_held // _SNAPSHOT_PART

    def _undo(self) -> None:
        """Put the state before the present change back."""
        try:
            self._flush()
        finally:
            self._reload()

    # -- which process and which threads may change it ---------------------------------------------------------------------

    def _join(self) -> None:
        """Count this thread among those that change the graph; the process has the lock of the store as long as there are any.

        Within `together`, the thread is counted already.
        """
        if self._thread.together is not None:
            return
        self._require_process()
        self._require_open()
        gate = self._gate
        with self._door:
            if self._is_closing:
                gate.wait_for(lambda: not self._is_closing, _ADMIT_S)  # not longer: a thread may hold the lock of the graph
            gate.wait_for(lambda: not self._is_opening)
            if self._has_lock:
                self._members += 1
                return
            self._is_opening = True
        try:
            self._settle()
            self._lock.acquire(self.command, self._wait_s)
        except BaseException:
            with self._door:
                self._is_opening = False
                gate.notify_all()
            raise
        with self._door:
            self._is_opening, self._has_lock, self._is_current = False, True, False
            self._members = 1
            gate.notify_all()

    def _settle(self) -> None:
        """End the children whose lease is over, so that what they held can be given to others."""
        now = clocks.stopwatch()
        if now - self._settled_s >= _SETTLE_EVERY_S:
            self._settled_s = now
            self.store.settle(self._link.name, wait_s=self._wait_s)

    def _leave(self) -> None:
        if self._thread.together is not None:
            return
        with self._door:
            self._members -= 1
            if self._members == 0:
                try:
                    self._lock.release()
                except StoreError:  # it was lost with its connection
                    self._lock.close()
                self._has_lock = self._is_closing = False
                self._gate.notify_all()

    # -- committing ------------------------------------------------------------------------------------------------------

    def _await(self, waiting: _Waiting) -> None:
        """Wait until a change is committed, or commit it with all that wait.

        Errors: StoreError if that failed; the graph is as stored then.
        """
        self._flush(waiting)
        if waiting.error is not None:
            self._recover()
            raise waiting.error

    def _recover(self) -> None:
        """Read the graph after a commit that failed, if the store can be read; otherwise the next change tries again.

        The caller raises the error of the commit, not one of this.
        """
        with self.graph.lock, suppress(StoreError):
            if self._loss is not None:
                self._reload()

    def _flush(self, wanted: _Waiting | None = None) -> None:
        """Commit all changes that wait.

        Args:
            wanted: stop when this one is over.
        """
        with self._committing:
            while (wanted is None or not wanted.is_done) and (group := self._next_group()):
                self._commit(group)

    def _next_group(self) -> list[_Waiting]:
        """The changes of the next transaction, of which only the last one may have a snapshot."""
        waiting = self._waiting
        last = next((i for i, one in enumerate(waiting) if one.change.marks is not None), len(waiting) - 1)
        return waiting[: last + 1]

    def _commit(self, group: list[_Waiting]) -> None:
        error: FluxresError | None = None
        changes, first = [one.change for one in group], self._link.row.seq + 1
        try:
            self._link.commit(changes)
        except FluxresError as found:
            error = found
        except BaseException as found:
            said = f"{type(found).__name__} during a commit; the change may or may not have been made"
            error = InDoubt(said, where=self.store.url, hint="check the current state")
            raise
        finally:
            with self._door:
                later: list[_Waiting] = []
                if error is not None:
                    self._loss, self._is_current = _unmade(error), False
                    later = self._waiting[len(group) :]
                del self._waiting[: len(group) + len(later)]
                for one in group:
                    one.error, one.is_done = error, True
                for one in later:
                    one.error, one.is_done = self._loss, True
                self._is_closing = self._is_closing or self._lock.is_wanted()
        if error is None:
            self.store.wake(self._link.name, [mark for change in changes for mark in change.concerned])
            if self.on_commit is not None:
                self.on_commit(first, changes)

    # -- the state of the store ------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Make the graph equal to the stored one.  The caller holds its lock.

        Errors: StoreError; the graph refuses changes then.
        """
        if self._loss is None:
            self._loss = StoreError("the changes of other processes could not be read", where=self.store.url)
            try:
                if self._follows():
                    self._loss = None
                    return
            except StoreError:
                if not self._link.is_lost:
                    raise
        self._reload()

    def _follows(self) -> bool:
        """Make the changes of others that are in the store; returns whether they are few enough for that."""
        if self._link.has_moved():
            news = self._link.news()
            if news is None or sum(journal.weight(entry.event) for entry in news) > _REPLAY_MAX:
                return False
            self._thread.depth += 1  # replaying an event of a tag sends the event again
            try:
                for entry in news:
                    self.graph.apply(entry.event)
            finally:
                self._thread.depth -= 1
            self._since_snapshot = self._link.row.weight
        return True

    def refresh(self) -> None:
        self._require_process()
        with self.graph.lock:
            self._require_open()
            if not (self._has_lock and self._is_current):
                self.catch_up()

    def _reload(self) -> None:
        if self._loss is None:
            self._loss = StoreError("the graph could not be read again", where=self.store.url)
        graph = self.graph
        fresh, has_same_shape = self._link.read(graph.clock)
        graph.adopt(fresh, has_same_shape=has_same_shape and graph.generation == self._generation)
        self._generation = graph.generation
        self._since_snapshot = self._link.row.weight
        self._loss = None

    def log(self, after: int, job: str | None, limit: int) -> list[dict[str, Any]]:
        self._require_open()
        return [entry.document() for entry in self.store.log(self._link.name, after=after, job=job, limit=limit)]

    def undo(self, *, redo: bool) -> list[dict[str, Any]]:
        self._require_process()
        self._require_open()
        if self._thread.depth:
            raise UsageError(
                "undo within a batch, whose changes are not made yet", hint="let the batch end, or leave it by an error"
            )
        done = self.store.undo(self._link.name, redo=redo, command=self.command, wait_s=self._wait_s, user=self._user)
        self.refresh()
        return [entry.document() for entry in done]

    def close(self) -> None:
        if self._thread.depth:
            raise UsageError(f"graph '{self.graph.name}' is closed within a change of it", hint="close it afterwards")
        with self._door:
            self._gate.wait_for(lambda: not (self._is_opening or self._members))
            is_closed, self._is_closed = self._is_closed, True
        if not is_closed:
            self._link.close()
            self._lock.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageError(f"graph '{self.graph.name}' was closed: changes would not reach its store", hint="open it again")

    def _require_process(self) -> None:
        if self._process != os.getpid():
            raise UsageError(
                f"graph '{self.graph.name}' was opened by process {self._process}, and this is a fork of it",
                hint="open it again in each process",
            )


def _unmade(error: FluxresError) -> FluxresError:
    """The error of changes that are lost with a commit of others, and were not in it."""
    if not isinstance(error, InDoubt):
        return error
    said = "the answer to the commit before this change was lost; this one was not made"
    return StoreUnreachable(said, where=error.where, hint="try again")


def open(  # noqa: A001 - it is what one does with a store
    store: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    durability: Durability = "full",
    command: str = "",
    wait_s: float | None = None,
    clock: Clock = clocks.system,
    notify: Notify | None = None,
) -> ResourceGraph:
    """A graph that stays attached to its store: a change is in the store's journal when the call returns (rule D1).

    >>> import fluxres, tempfile
    >>> site = f"sqlite:///{tempfile.mkdtemp()}/site.db"
    >>> _ = fluxres.save(fluxres.load({"fluxres": 1, "name": "demo", "resources": [{"type": "node", "count": 4}]}), site)
    >>> with fluxres.open(site) as g:
    ...     _ = g.allocate("slot/node", job="j1")
    ...     with g.batch():
    ...         g.free("j1")
    ...         _ = g.allocate("slot=2/node", job="j2")
    >>> fluxres.load(site).jobs()
    ['j2']

    Other processes may change the graph at the same time. Each change here first catches up with theirs, and then is decided on
    that state; writers take turns in the order in which they came. Questions are answered from memory, as of the last change here
    or `refresh()`. A change of the shape by another process makes handles stale, as one of this graph does.

    Several threads may use the graph. Their changes are committed together: one fsync for all that wait. A question may see
    a change whose commit another thread still waits for.

    Args:
        store: its URL or path; the default one if None.
        name: of the graph; that of ``?graph=NAME``, else the default one.
        durability: ``full``: a change returns when it is on disk. ``normal``: when the system has it: it survives this process,
            but a power failure may undo the last ones. Either way a change is wholly there or wholly absent.
        command: for the journal, and for other processes that wait.
        wait_s: how long a change waits for other processes that write; LOCK_WAIT_SECONDS_DEFAULT by default.
        clock: returns "now" of the graph.
        notify: called with the process that has the lock, if a change waits for it for more than half a second.

    Errors: UnknownGraph, StoreBusy, StoreError. A change raises StoreError if it cannot be written; then it is not made either.
    Cost: about 0.2 ms of CPU for a change by itself, a third of that for one of a batch of 32; and the commit, for which the disk
    decides (specs/store.md).
    """
    if durability not in ("full", "normal"):
        raise UsageError(f"durability: expected 'full' or 'normal', got {durability!r}")
    text = None if store is None else os.fspath(store)
    if text is not None and not is_store_url(text):
        is_server = text.startswith(("http://", "https://"))
        hint = "`fluxres.connect` is for servers" if is_server else "`fluxres.load` reads files; a store is sqlite:///path.db"
        raise UsageError("not the address of a store", where=text, hint=hint)
    wait_s = limits.LOCK_WAIT_SECONDS_DEFAULT if wait_s is None else wait_s
    opened = open_store(text, clock=clock, notify=notify)
    return Attached(opened, name, durability, command, wait_s, clock).graph

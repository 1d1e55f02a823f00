"""A store: named graphs at one address, each a snapshot and the events after it.

A writer holds the lock from before it reads until its changes are on disk, so it decides on the state that it changes. One
transaction appends its events and advances the event number of the graph. After a few hundred events, or when the shape changes,
it also writes a new snapshot, so that no later command has to replay more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from fluxres import clock as clocks
from fluxres import limits
from fluxres.clock import Clock
from fluxres.documents import arguments
from fluxres.documents.document import listed
from fluxres.errors import FluxresError, StoreConflict, UnknownGraph, UsageError
from fluxres.model import changes
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store import encoding, journal, mailbox, writing
from fluxres.store.claims import Claims, Standing
from fluxres.store.contents import GraphRow
from fluxres.store.database import Connection, Database, Durability, Guard, Guards, Lock
from fluxres.store.journal import Entry, Event
from fluxres.store.lock import Notify
from fluxres.store.rows import Rows, Saved, unknown
from fluxres.store.tickets import Ticket, Tickets
from fluxres.store.url import ServerUrl, StoreUrl, parse
from fluxres.store.url import default as default_url
from fluxres.store.writing import Change
from fluxres.syntax.name import is_name

_RECREATED: Final = "was dropped and created again"
"""Another graph has the name of one that was read."""


class Held(msgspec.Struct, frozen=True):
    """What a job of a graph in the store holds.

    Args:
        at: from this moment on, in seconds; now if None.
    """

    graph: str
    job: str
    at: float | None = None


class Position(msgspec.Struct, frozen=True):
    """A state of a graph in a store, to detect whether the graph has changed since.

    Args:
        uid: of the graph.
        seq: number of its last event.
    """

    uid: str
    seq: int

    def __str__(self) -> str:
        return f"store:{self.uid}@{self.seq}"


class Link:
    """A connection that stays open, to one graph of a store, for a process that has the graph in memory.

    Only the holder of the lock commits.  Threads use it in turn.

    Args:
        rows: on a connection outside of a transaction.
        name: of the graph; the default one if None.
        database, durability: of the connection.
        fence: that each commit passes.

    Errors: UnknownGraph, StoreError.
    """

    def __init__(self, rows: Rows, name: str | None, database: Database, durability: Durability, fence: Guard | None) -> None:
        self._rows, self._database, self._durability, self._fence = rows, database, durability, fence
        with database.translated():
            row = rows.graph(name)
            self._log_first, self._log_bytes = rows.log_extent(row)
        self.name = row.name
        self._row = row
        self._version: int | None = None
        self._shape_seq = -1
        self._tail = b""
        self.is_claimed = False

    @property
    def row(self) -> GraphRow:
        """The graph as it was last read or written here."""
        return self._row

    @property
    def shape_tail(self) -> bytes:
        return self._tail

    def has_moved(self) -> bool:
        """Whether something else has written to the store since the last call."""
        with self._database.translated():
            version = self._rows.db.version(self._row.number)
        moved = version != self._version
        self._version = version
        return moved

    def news(self) -> list[Entry] | None:
        """The events since the graph was last read or written here; None if they do not lead from there to the present state.

        Errors: StoreConflict if the graph was dropped; StoreError.
        """
        with self._snapshot() as rows:
            row = self._current(rows)
            if row.seq == self._row.seq:
                self._row = row  # `compact` writes a snapshot without an event
                return []
            if rows.shape_seq(row) != self._shape_seq or rows.oldest(row) > self._row.seq + 1:
                return None
            found = list(rows.entries(row, after=self._row.seq))
            if journal.is_structural(entry.event for entry in found):
                return None
            self._row = row
            return found

    @property
    def is_lost(self) -> bool:
        """Whether the server has ended the connection; the next `read` opens another one."""
        return self._rows.db.is_lost

    def read(self, clock: Clock) -> tuple[ResourceGraph, bool]:
        """The stored graph, and whether its shape is still that of the last read."""
        if self.is_lost:
            self._rows.db.close()
            self._rows.db = self._database.attach(self._durability)
        with self._snapshot() as rows:
            row = self._current(rows)
            graph, shape_seq = rows.read(row, clock), rows.shape_seq(row)
            self.is_claimed = Claims(rows).of(row) is not None
            is_same = shape_seq == self._shape_seq
            self._row, self._shape_seq, self._tail = row, shape_seq, rows.shape_tail(row)
            return graph, is_same

    def require_held(self, change: Change) -> None:
        """As :func:`writing.require_held`, for a change that is still to be committed."""
        with self._snapshot() as rows:
            writing.require_held(rows, self._current(rows), [change])

    def commit(self, changes: Sequence[Change]) -> None:
        """Write changes, of which only the last one may have a snapshot; they are durable when this returns.

        Errors: StoreConflict, StoreError; nothing is written then.
        """
        db, last = self._rows.db, changes[-1]
        with self._database.translated():
            try:
                db.begin_write()
                if self._fence is not None:
                    self._fence.require(db)
                row = writing.write(self._rows, self._row, changes)
                first = self._log_first
                if last.marks is not None:
                    first = writing.forget(self._rows, row, first, self._log_bytes)
                db.commit()
            except BaseException:
                if db.in_transaction:
                    db.rollback()
                raise
        self._row = row
        self._log_bytes = self._rows.log_extent(row)[1] if first != self._log_first else self._log_bytes
        self._log_first = first
        self._log_bytes += sum([len(body) for change in changes for body in change.bodies])
        if last.shape is not None:
            self._shape_seq, self._tail = row.seq, last.shape[-16:]

    def close(self) -> None:
        self._rows.db.close()

    @contextmanager
    def _snapshot(self) -> Iterator[Rows]:
        """Everything read in the block is one state."""
        with self._database.translated():
            self._rows.db.begin_read()
            try:
                yield self._rows
            finally:
                self._rows.db.rollback()

    def _current(self, rows: Rows) -> GraphRow:
        row = rows.find(self.name)
        if row is None or row.uid != self._row.uid:
            if self._fence is not None:
                self._fence.require(rows.db)
            what = "was dropped" if row is None else _RECREATED
            raise StoreConflict(f"graph '{self.name}' {what}", where=rows.url, hint="open it again")
        return row


class Transaction(msgspec.Struct):
    """A graph that is being changed in a store.

    Args:
        graph: the state of the store; changes to it are written when the block ends.
        position: of that state, and of the new one once it is written.
        tickets: the requests that wait for resources of the graph.
        events: the changes so far.
        passes_queue: whether it makes a pass of the queue itself; otherwise those who wait are woken to make one.
        user: who causes the changes, for the journal; the user of this process by default.
    """

    graph: ResourceGraph
    position: Position
    tickets: Tickets
    events: list[Event] = msgspec.field(default_factory=list)
    passes_queue: bool = False
    user: str | None = None


class Store:
    """Named graphs at one address.

    Args:
        url: address; the first write creates what is there.
        clock: returns the time of journal entries, and "now" of the graphs.
        notify: called with the holder of the lock when a write has to wait for more than half a second.
        fence: that each write passes, for a server that may lose its lease; None for everyone else.
    """

    def __init__(
        self, url: StoreUrl | ServerUrl, *, clock: Clock = clocks.system, notify: Notify | None = None, fence: Guard | None = None
    ) -> None:
        self.address = url
        self.database = database_of(url)
        self.url = self.database.url
        self.clock = clock
        self.notify = notify
        self.fence = fence

    def __repr__(self) -> str:
        return f"<Store {self.url}>"

    def guarded(self, guard: Guard) -> Store:
        """This store, whose writes pass a guard after the fence."""
        found = copy(self)
        found.fence = guard if self.fence is None else Guards(self.fence, guard)
        return found

    @property
    def path(self) -> Path:
        """The SQLite file, or a file of this machine in place of the store, if that is on a server."""
        return self.database.path

    # -- reading ------------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Names of the graphs, in the order of creation; empty for a store that does not exist yet."""
        return [row.name for row in self.graphs()]

    def graphs(self) -> list[GraphRow]:
        """The graphs, without reading their content."""
        with self.database.reading() as db:
            return [] if db is None else self.rows(db).graphs()

    def standings(self, only: str | None = None) -> dict[str, Standing]:
        """The graphs (or one of them) that were copied for jobs of others, and how they stand, by name.

        Cost: reads a parent that has changed.  Errors: StoreError for damage.
        """
        now = clocks.ticks(self.clock())
        with self.database.reading() as db:
            rows = None if db is None else self.rows(db)
            asked = [] if rows is None else [(row, Claims(rows)) for row in rows.graphs() if only in (None, row.name)]
            found = {row.name: claims.standing(row, now) for row, claims in asked}
        return {name: standing for name, standing in found.items() if standing is not None}

    @property
    def default(self) -> str | None:
        """The default graph: the one selected with `use`, else the only one, else None."""
        with self.database.reading() as db:
            return None if db is None else self.rows(db).default()

    def load(self, name: str | None = None, *, clock: Clock | None = None) -> ResourceGraph:
        """The current graph: its snapshot and the events after it, without expired stages.

        Args:
            name: of the graph; the default one if None.
            clock: returns "now" of the graph; by default that of the store, as for the commands.

        Errors: UnknownGraph; StoreError for damage.
        """
        graph, _ = self.open(name, clock=clock)
        changes.expire_stages(graph)
        return graph

    def open(self, name: str | None = None, *, clock: Clock | None = None) -> tuple[ResourceGraph, Position]:
        """As :meth:`load`, with the position that was read, and with expired stages."""
        with self.reading(name) as rows:
            row = rows.graph(name)
            return rows.read(row, self.clock if clock is None else clock), Position(row.uid, row.seq)

    def log(
        self,
        name: str | None = None,
        *,
        after: int | None = None,
        job: str | None = None,
        path: str | None = None,
        user: str | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        """Events of a graph, oldest first.

        Args:
            after: only those with a higher number.
            job: only those of this job.
            path: only those that name this pool or one below it.
            user: only those that this user caused.
            limit: at most this number, the latest ones.

        Errors: UnknownGraph; StoreError; UsageError for a negative limit.
        """
        if limit is not None and limit < 0:
            raise UsageError(f"limit: expected a number of at least 0, got {limit}")
        found: list[Entry] = []
        with self.reading(name) as rows:
            for entry in rows.entries(rows.graph(name), after=after or 0, latest_first=True):
                if limit is not None and len(found) >= limit:
                    break
                if (user is None or entry.user == user) and journal.concerns(entry.event, job, path):
                    found.append(entry)
        return found[::-1]

    def log_after(self, at: Position, name: str, limit: int) -> list[Entry]:
        """The events that follow an event of a graph, oldest first.

        Args:
            at: the graph and the number of the event.
            limit: at most this number, the first ones.

        Errors: as :meth:`log`; StoreConflict if it was dropped, also if there is another graph of this name.  Cost: reads these
        events only.
        """
        with self.reading(name) as rows:
            row = rows.find(name)
            if row is None:
                raise StoreConflict(f"graph '{name}' was dropped", where=self.url)
            if row.uid != at.uid:
                raise StoreConflict(f"graph '{name}' {_RECREATED}", where=self.url, hint="read it again")
            return list(islice(rows.entries(row, after=at.seq), limit))

    def position(self, name: str) -> Position:
        """Where a graph is.  Errors: as :meth:`log`."""
        with self.reading(name) as rows:
            row = rows.graph(name)
            return Position(row.uid, row.seq)

    def launched(self, name: str | None, since_s: float) -> list[Entry]:
        """The events in which jobs that live by processes first got something, latest first.

        Args:
            since_s: only those from this moment on, in seconds since 1970.

        Errors: as :meth:`log`.  Cost: reads the events since then; 1.5 µs for each that is another one.
        """
        found: list[Entry] = []
        with self.reading(name) as rows:
            for entry in rows.entries(rows.graph(name), after=0, latest_first=True, having=b'"launch"'):
                if entry.time < since_s:
                    break
                if "launch" in entry.event:
                    found.append(entry)
        return found

    def tickets(self, name: str | None = None) -> list[Ticket]:
        """The requests that wait for resources of a graph, in the order in which they are considered.

        Errors: UnknownGraph; StoreError for damage.
        """
        with self.reading(name) as rows:
            return Tickets(rows.db, rows.graph(name).number).all()

    # -- changing ----------------------------------------------------------------------------------------------------

    def wake(self, name: str, concerned: Iterable[str] = ()) -> None:
        """Have those who wait for resources of a graph look whether they can get them.

        A change that makes no pass of the queue itself ends with this.  Cost: a look at a directory if nobody waits.

        Args:
            concerned: marks of the runs whose end may have moved.
        """
        with suppress(FluxresError):  # they look by themselves from time to time
            if mailbox.is_awaited(self.path):
                first = self.tickets(name)[: limits.QUEUE_WATCHERS]
                news = [(ticket.launch.mark, mailbox.News(look=True)) for ticket in first]
                mailbox.send(self.path, [*news, *((mark, mailbox.News(has_new_end=True)) for mark in concerned)])

    def link(self, name: str | None, durability: Durability, *, command: str = "", wait_s: float | None = None) -> Link:
        """A connection that stays open to one graph.

        Errors: UnknownGraph; StoreBusy; StoreError.
        """
        if not self.database.exists():
            raise self._unmade(name)
        with self.locked(command, wait_s):
            db = self.database.attach(durability)
        try:
            return Link(self.rows(db), name, self.database, durability, self.fence)
        except BaseException:
            db.close()
            raise

    def writer_lock(self) -> Lock:
        """The lock of this store, to be taken many times."""
        return self.database.lock(self.clock, self.notify)

    @contextmanager
    def writing(
        self,
        name: str | None = None,
        *,
        command: str = "",
        wait_s: float | None = None,
        clock: Clock | None = None,
    ) -> Iterator[Transaction]:
        """Change a graph: changes to ``.graph`` in the block are on disk when the block ends (rule D1).

        An exception discards all of them.

        Args:
            name: of the graph; the default one if None.
            command: for the journal, and for other processes that wait.
            wait_s: how long to wait for another writer; LOCK_WAIT_SECONDS_DEFAULT by default.
            clock: returns "now" of the graph; by default that of the store.

        Errors: StoreBusy, UnknownGraph, StoreError.
        """
        if not self.database.exists():
            raise self._unmade(name)
        with self.locked(command, wait_s):
            db = self.database.begin()
            rows = self.rows(db)
            try:
                with self.database.translated():
                    self._pass_fence(db)
                    row, settled = self.settled(rows, rows.graph(name))
                    graph = rows.read(row, self.clock if clock is None else clock)
                    transaction = Transaction(graph, Position(row.uid, row.seq), Tickets(db, row.number))
                revision = graph.revision
                graph.sink = transaction.events.append
                yield transaction
                graph.sink = None
                if graph.revision - revision != len(transaction.events):
                    raise UsageError(
                        "the graph was changed other than by its operations", hint="do not replay events in a block of a store"
                    )
                if transaction.events or transaction.tickets.have_changed or settled:
                    seq = row.seq
                    with self.database.translated():
                        if transaction.events:
                            seq = writing.append(
                                rows, row, graph, transaction.events, self.clock(), command, user=transaction.user
                            )
                        db.commit()
                    transaction.position = Position(row.uid, seq)
            finally:
                db.end()
        if transaction.events and not transaction.passes_queue:
            self.wake(row.name, mailbox.concerned(graph, transaction.events))
        elif settled:
            self.wake(row.name, ())

    def settle(self, name: str | None = None, *, wait_s: float | None = None) -> list[str]:
        """End the children of a graph, or of all graphs, whose lease is over; returns the graphs that got something back.

        Errors: StoreBusy; StoreError.
        """
        now = clocks.ticks(self.clock())
        with self.database.reading() as db:
            names = [] if db is None else self._names_to_settle(self.rows(db), now)
        names = [one for one in names if name in (None, one)]
        for one in names:
            with self.changing(one, "settle", wait_s) as rows:
                if rows.find(one) is not None:
                    self.settled(rows, rows.graph(one))
            self.wake(one, ())
        return names

    @staticmethod
    def _names_to_settle(rows: Rows, now: int) -> list[str]:
        parents = {claim.parent for _, claim in Claims(rows).over(now)}
        return [row.name for row in rows.graphs() if row.uid in parents]

    def settled(self, rows: Rows, row: GraphRow) -> tuple[GraphRow, bool]:
        """The row of a graph after its children whose lease is over have ended, and whether there were any."""
        now = self.clock()
        over = [(child, claim) for child, claim in Claims(rows).over(clocks.ticks(now)) if claim.parent == row.uid]
        for child, claim in over:
            writing.end_child(rows, child, claim, now, "settle", f"the lease of its graph '{child.name}' was over")
        return (rows.graph(row.name) if over else row), bool(over)

    def append(
        self,
        name: str,
        graph: ResourceGraph,
        events: Sequence[Event],
        base: Position,
        *,
        command: str = "",
        wait_s: float | None = None,
    ) -> Position:
        """Write only the changes of a graph since it was at `base` in this store.

        Args:
            graph: as it is after the events.

        Errors: StoreConflict if the stored graph has changed since; nothing is written then.
        """
        with self.changing(name, command, wait_s) as rows:
            row = rows.graph(name)
            self._require(row, base)
            seq = writing.append(rows, row, graph, events, self.clock(), command) if events else row.seq
        self.wake(name, mailbox.concerned(graph, events))
        return Position(row.uid, seq)

    def put(
        self,
        name: str,
        graph: ResourceGraph,
        *,
        replace: bool = False,
        base: Position | None = None,
        use: bool = False,
        held: Held | None = None,
        command: str = "",
        wait_s: float | None = None,
    ) -> Position:
        """Write a complete graph.

        Args:
            replace: replace an existing graph of this name; its journal continues.
            base: as `replace`, but only if the graph is in this state; StoreConflict otherwise.
            use: make it the default one; the first graph becomes the default in any case.
            held: what a job of another graph holds, and this graph is a copy of: it gives something only as long as the job
                holds all of it (rule N1).

        Errors: UsageError for an existing name without `replace`, saying what would be lost, and for a job of which there is a
        copy already; UnknownGraph; HoldLapsed.
        """
        _check_name(name)
        shape = encoding.encode_shape(graph.structure)
        with self.creating(command, wait_s) as db:
            rows = self.rows(db)
            row, chosen = rows.find(name), rows.default()
            loss = None
            if row is None:
                row = rows.make(name, self.clock())
            else:
                if base is not None:
                    self._require(row, base)
                loss = rows.loss(row)
                if not replace and base is None:
                    raise UsageError(
                        f"a graph '{name}' already exists, with {loss}",
                        where=self.url,
                        hint="discard these with --replace, or choose another name",
                    )
            if base is None:  # another graph, which is no copy of what a job holds
                Claims(rows).require_unleased(row)
                rows.require_without_instances(row)
                Claims(rows).remove(row)
            event = journal.load(len(graph), len(graph.records.jobs()), loss)
            seq = writing.append(rows, row, graph, [event], self.clock(), command, shape=shape)
            if held is not None:
                self._stake(rows, row, graph, held)
            rows.choose(name if use or chosen is None else chosen)
        self.wake(name, mailbox.marks(graph))
        return Position(row.uid, seq)

    def add(self, rows: Rows, name: str, graph: ResourceGraph, held: Held, command: str) -> GraphRow:
        """Write a copy of what a job of another graph holds, within a transaction.

        Errors: UsageError for a name that is taken; HoldLapsed.
        """
        _check_name(name)
        if rows.find(name) is not None:
            raise UsageError(f"a graph '{name}' already exists", where=self.url, hint="choose another name")
        chosen, row = rows.default(), rows.make(name, self.clock())
        event = journal.load(len(graph), 0)
        writing.append(rows, row, graph, [event], self.clock(), command, shape=encoding.encode_shape(graph.structure))
        self._stake(rows, row, graph, held)
        if chosen is not None:
            rows.choose(chosen)
        return rows.graph(name)

    def _stake(self, rows: Rows, row: GraphRow, graph: ResourceGraph, held: Held) -> None:
        now = clocks.ticks(self.clock())
        since = now if held.at is None else clocks.ticks(held.at)
        Claims(rows).stake(row, graph.structure, held.graph, held.job, since, now)

    def undo(
        self,
        name: str | None = None,
        *,
        redo: bool = False,
        command: str = "",
        wait_s: float | None = None,
        user: str | None = None,
        require: Callable[[], None] | None = None,
        note: Callable[[list[Entry]], tuple[str, str]] | None = None,
    ) -> list[Entry]:
        """Put back the state before the last change of a graph, as a new change.

        Only one step is kept. Undoing an undo is `redo`, so that two people who undo the same change do not bring it back.

        Args:
            name: of the graph; the default one if None.
            redo: undo an undo, and nothing else.
            user: who undoes it, for the journal; the user of this process by default.
            require: called when nobody else can change the graph any more; its error prevents the change.
            note: makes a note, name and text, that is written with the change.

        Returns: the events of the change that was undone.
        Errors: UsageError if the last change cannot be undone; UnknownGraph; StoreError.
        """
        with self.changing(name, command, wait_s) as rows:
            if require is not None:
                require()
            row = rows.graph(name)
            graph, undone = rows.previous(row, self.clock)
            last = undone[-1].event
            if (last["event"] == "undo") != redo:
                said = "was not an undo" if redo else "was itself an undo"
                hint = "`fluxres undo` undoes it" if redo else "`fluxres undo --redo` brings back what it undid"
                raise UsageError(f"the last change {said}", where=f"graph '{row.name}'", hint=hint)
            if rows.is_of_instance(row, undone):
                hint = "cancel its jobs, or end it: `fluxres instance drop`"
                raise UsageError("the last change was one of an instance, which keeps it", where=f"graph '{row.name}'", hint=hint)
            # Stages never share an id, and the next one must not get that of an undone one.
            stages_made = rows.read(row).records.stages_made if any(e.event["event"] == "stage" for e in undone) else 0
            graph.records.stages_made = max(graph.records.stages_made, stages_made)
            what = {"first": undone[0].seq, "last": undone[-1].seq, "undone": last.get("undone", undone[-1].command)}
            event = {"event": "redo" if redo else "undo", **what}
            writing.append(rows, row, graph, [event], self.clock(), command, user=user)
            if note is not None:
                rows.db.put_note(*note(undone))
        self.wake(row.name, mailbox.marks(graph))
        return undone

    def use(self, name: str, *, wait_s: float | None = None) -> None:
        """Make this graph the default one.

        Errors: UnknownGraph.
        """
        with self.changing(name, f"use {name}", wait_s) as rows:
            rows.graph(name)
            rows.choose(name)

    def drop(self, name: str, *, force: bool = False, command: str = "", wait_s: float | None = None) -> list[str]:
        """Remove a graph, its snapshot and its journal.

        Args:
            force: also if it has jobs or instances, which are lost.

        Returns: what was lost with it, in words.
        Errors: UnknownGraph; StillHeld for jobs that hold something or wait, and for instances; UsageError for the graph of a
        child, whose job would hold what it has for ever.
        """
        with self.changing(name, command or f"drop {name}", wait_s) as rows:
            row = rows.graph(name)
            Claims(rows).require_unleased(row)
            waiting = Tickets(rows.db, row.number).all()
            lost, jobs = rows.uses(row, self.clock, len(waiting))
            if not arguments.flag(force, "force"):
                rows.require_unused(row, lost, jobs)
            children = [child.name for child, _ in Claims(rows).children(row)]
            rows.remove(row)
        mailbox.send(self.path, [(ticket.launch.mark, mailbox.News(look=True)) for ticket in waiting])
        if children:
            is_one = len(children) == 1
            whose = f"job of graph {children[0]}" if is_one else f"jobs of graphs {listed(children)}"
            lost.append(f"the {whose}, which allocate{'s' * is_one} nothing any more")
        return lost

    # -- saves to other places ------------------------------------------------------------------------------------

    def saved(self, name: str | None) -> tuple[ResourceGraph, Position, list[Saved], list[Entry]]:
        """The current graph, the places it was saved to, and the events since the earliest of these saves.

        Places whose events are no longer in the journal are left out.

        Errors: UnknownGraph; StoreError.
        """
        with self.reading(name) as rows:
            row = rows.graph(name)
            graph, oldest = rows.read(row, self.clock), rows.oldest(row)
            places = [place for place in rows.saved(row) if oldest - 1 <= place.seq <= row.seq]
            first = min((place.seq for place in places), default=row.seq)
            return graph, Position(row.uid, row.seq), places, list(rows.entries(row, after=first))

    def remember(self, name: str, uid: str, places: Sequence[Saved], *, wait_s: float | None = None) -> None:
        """Record where a graph was saved, for the next incremental save."""
        with self.changing(name, f"save {name}", wait_s) as rows:
            row = rows.graph(name)
            if row.uid == uid:
                rows.remember(row, places)

    def _unmade(self, name: str | None) -> UnknownGraph:
        """The error for an empty store; for a given store, it says whether its directory is missing."""
        return unknown(name, [], self.url, missing=self.database.missing())

    # -- within a transaction ---------------------------------------------------------------------------------------

    @contextmanager
    def reading(self, name: str | None) -> Iterator[Rows]:
        with self.database.reading() as db:
            if db is None:
                raise self._unmade(name)
            yield self.rows(db)

    @contextmanager
    def changing(self, name: str | None, command: str, wait_s: float | None) -> Iterator[Rows]:
        if not self.database.exists():
            raise self._unmade(name)
        with self.locked(command, wait_s), self.database.writing() as db:
            self._pass_fence(db)
            yield self.rows(db)

    @contextmanager
    def creating(self, command: str, wait_s: float | None) -> Iterator[Connection]:
        self.database.prepare()
        with self.locked(command, wait_s), self.database.creating(), self.database.writing() as db:
            self._pass_fence(db)
            yield db

    @contextmanager
    def locked(self, command: str, wait_s: float | None) -> Iterator[None]:
        lock = self.writer_lock()
        try:
            lock.acquire(command, limits.LOCK_WAIT_SECONDS_DEFAULT if wait_s is None else wait_s)
            yield
        finally:
            lock.close()

    def _pass_fence(self, db: Connection) -> None:
        if self.fence is not None:
            self.fence.require(db)

    def _require(self, row: GraphRow, base: Position) -> None:
        if Position(row.uid, row.seq) != base:
            raise StoreConflict(
                f"graph '{row.name}' has changed: {_moved(row, base)}",
                where=self.url,
                hint="load it again and repeat the changes, or save the complete graph under another name",
            )

    def rows(self, db: Connection) -> Rows:
        return Rows(db, self.url, self.address.graph)


def _moved(row: GraphRow, base: Position) -> str:
    if row.uid != base.uid:
        return f"it {_RECREATED}"
    return f"{row.seq - base.seq} events have been written since"


def _check_name(name: str) -> None:
    if not is_name(name):
        raise UsageError(f"the name of a graph has 1 to {limits.NAME_LENGTH_MAX} printable characters, got {name!r}")


def database_of(url: StoreUrl | ServerUrl) -> Database:
    """Where the tables of the store at this address are."""
    if isinstance(url, ServerUrl) and url.address.startswith("etcd"):
        from fluxres.store.etcd.database import EtcdDatabase

        return EtcdDatabase(url.address, url.path)
    if isinstance(url, ServerUrl):
        from fluxres.store.postgresql import PostgresqlDatabase

        return PostgresqlDatabase(url.address, url.path)
    from fluxres.store.sqlite import SqliteDatabase

    return SqliteDatabase(url.path, private=url.private)


def open_store(url: str | None = None, *, clock: Clock = clocks.system, notify: Notify | None = None) -> Store:
    """The store at this address; nothing is read or created yet.

    Args:
        url: ``sqlite:///path/to/file.db``, ``postgresql://user@host/name`` or ``etcd://host/prefix``, with or without
            ``?graph=NAME``, or a path; by default ``$FLUXRES_STORE``, else the SQLite file in the XDG data directory.
        clock: gives the time of journal entries, and "now" of the graphs.
        notify: called with the holder of the lock when a write waits for more than half a second.

    Errors: StoreError for an unknown scheme.

    >>> open_store("/srv/site.db").url
    'sqlite:///srv/site.db'
    """
    return Store(default_url() if url is None else parse(url), clock=clock, notify=notify)

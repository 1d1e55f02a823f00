"""What the operator of a store does with all of it: check, compact, dump, restore, migrate, back up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace as replaced

from fluxres.clock import ticks
from fluxres.errors import FluxresError, StoreError, UnknownGraph, UsageError
from fluxres.graph.structure import Problem
from fluxres.store import dump, encoding, journal, records, writing
from fluxres.store.claims import Claims
from fluxres.store.contents import CLAIM, Blob, GraphRow
from fluxres.store.disk import sync_folder, temporary
from fluxres.store.lease import INSTANCE
from fluxres.store.progress import OnProgress, unwatched
from fluxres.store.rows import DEFAULT, SAVED, Rows
from fluxres.store.sqlite import SqliteDatabase
from fluxres.store.store import Store
from fluxres.store.tickets import Tickets

_GAPS_MAX: Final = 20
"""Problems of one journal that are listed."""


class Size(msgspec.Struct, frozen=True):
    """What a store occupies.

    Args:
        bytes: of the database.
        events: in all journals.
    """

    bytes: int
    events: int


# -- check ---------------------------------------------------------------------------------------------------------------


def check(store: Store) -> tuple[list[str], list[Problem]]:
    """The names of the graphs, and what is wrong with the store or with one of them.

    It checks the database by its own means; that each graph can be read, its journal leads to its last event, and it obeys the
    rules; the state for `undo`; and what refers to graphs.  Takes no lock: everything is of one moment.

    Errors: UnknownGraph for a store that does not exist.
    """
    names: list[str] = []
    found: list[Problem] = []
    with _noted(found, store.url):
        found += [Problem("error", store.url, said) for said in store.database.integrity()]
    with _noted(found, store.url), store.reading(None) as rows:
        graphs = rows.graphs()
        names = [row.name for row in graphs]
        for row in graphs:
            found += _check_graph(rows, row)
            with _noted(found, f"graph {row.name}"):
                found += _check_claim(rows, row, store.clock())
        with _noted(found, store.url):
            found += _check_notes(rows, graphs)
    return names, found


@contextmanager
def _noted(found: list[Problem], where: str) -> Iterator[None]:
    """Note an error as a problem."""
    try:
        yield
    except UnknownGraph:
        raise
    except FluxresError as error:
        problem = Problem("error", where, error.message)
        if problem not in found:  # a server that does not answer, or a damaged file, fails each step
            found.append(problem)


def _check_graph(rows: Rows, row: GraphRow) -> list[Problem]:
    where = f"graph {row.name}"
    found: list[Problem] = []
    with _noted(found, where):
        found += [Problem("error", where, said) for said in _gaps(rows, row)]
    with _noted(found, where):
        graph = rows.read(row)
        found += [replaced(problem, where=f"{row.name}: {problem.where}") for problem in graph.check()]
        if len(graph) != row.pools:
            found.append(Problem("error", where, f"has {len(graph)} pools, but its row says {row.pools}"))
    with _noted(found, where):
        previous = rows.db.previous(row.number)
        if previous is not None and previous.after == row.seq and rows.oldest(row) <= previous.snapshot_seq + 1:
            rows.previous(row, None)
    with _noted(found, where):
        Tickets(rows.db, row.number).all()
    return _once(found)


def _check_claim(rows: Rows, row: GraphRow, now_s: float) -> Iterator[Problem]:
    standing = Claims(rows).standing(row, ticks(now_s))
    if standing is not None and standing.lapsed is not None:
        problem = standing.problem(rows.read(row), ticks(now_s))
        yield from [] if problem is None else [problem]


def _once(found: list[Problem]) -> list[Problem]:
    """Without repetitions: several checks may meet the same damage."""
    return list(dict.fromkeys(found))


def _gaps(rows: Rows, row: GraphRow) -> list[str]:
    """What is wrong with the journal of a graph, read from its oldest event."""
    said, expected = list[str](), None
    for stored in rows.db.events(row.number, -1, max(row.seq, 1 << 62)):
        if expected is not None and stored.seq != expected:
            missing = f"event {expected} is" if stored.seq == expected + 1 else f"events {expected} to {stored.seq - 1} are"
            said.append(f"{missing} missing")
        if journal.checksum(stored.seq, stored.body) != stored.checksum:
            said.append(f"the checksum of event {stored.seq} does not match")
        else:
            try:
                journal.event_of(stored.body)
            except FluxresError as error:
                said.append(f"event {stored.seq}: {error.message}")
        expected = stored.seq + 1
        if len(said) >= _GAPS_MAX:
            return [*said, "and more of this kind"]
    if expected is not None and expected != row.seq + 1:
        said.append(f"the last event is {expected - 1}, but the row of the graph says {row.seq}")
    return said


def _check_notes(rows: Rows, graphs: list[GraphRow]) -> Iterator[Problem]:
    notes = rows.db.notes()
    uids = {row.uid for row in graphs}
    if notes.get(DEFAULT, "") not in ("", *(row.name for row in graphs)):
        yield Problem("error", rows.url, f"the graph in use, '{notes[DEFAULT]}', does not exist")
    for row in graphs:
        rows.saved(row)
    for prefix, what in ((SAVED, "saves"), (CLAIM, "the claim"), (INSTANCE, "an instance")):
        for key in notes:
            if key.startswith(prefix) and key.removeprefix(prefix).partition(":")[0] not in uids:
                yield Problem("warning", rows.url, f"a note about {what} of a graph that does not exist: {key}")


# -- compact -------------------------------------------------------------------------------------------------------------


def compact(
    store: Store,
    *,
    keep: int | None = None,
    command: str = "",
    wait_s: float | None = None,
    on_progress: OnProgress = unwatched,
) -> tuple[Size, Size]:
    """Write a new snapshot of each graph, forget old events, and give free space back; returns the sizes before and after.

    Args:
        keep: number of the latest events of each graph that stay; by default as many as the store keeps anyway. Those that
            `undo` needs stay in any case.

    Errors: StoreError; a graph that cannot be read is an error, and nothing is changed.
    """
    if keep is not None and keep < 0:
        raise UsageError(f"keep: expected a number of at least 0, got {keep}")
    before = _size(store)
    with store.changing(None, command, wait_s) as rows:
        graphs = rows.graphs()
        for number, row in enumerate(graphs):
            on_progress(f"graph {row.name}", number, len(graphs), "graphs")
            _compact(rows, row, keep)
    with store.locked(command, wait_s):
        store.database.shrink(on_progress)
    return before, _size(store)


def _compact(rows: Rows, row: GraphRow, keep: int | None) -> None:
    db, previous = rows.db, rows.db.previous(row.number)
    if previous is not None and previous.after != row.seq:
        db.remove_previous(row.number)
        previous = None
    if row.snapshot_seq < row.seq:
        graph = rows.read(row)
        marks = encoding.encode_marks(graph.structure, records.capture(graph.records), rows.shape_tail(row))
        if previous is not None:
            db.keep(replaced(row, seq=previous.before), row.seq, ["snapshots"])
        db.put_blob("snapshots", row.number, Blob(row.seq, marks))
        after = replaced(row, snapshot_seq=row.seq, weight=0)
        db.advance(row, after)
    first, size = rows.log_extent(row)
    oldest = writing.forget(rows, row, first, size, until=None if previous is None else previous.snapshot_seq + 1)
    if keep is not None:
        wanted = row.seq - keep + 1 if previous is None else min(row.seq - keep, previous.snapshot_seq) + 1
        if wanted > oldest:
            db.remove_events(row.number, wanted)


def _size(store: Store) -> Size:
    with store.reading(None) as rows:
        events = dump.events_kept(rows)
    return Size(store.database.size(), events)


# -- dump, restore, back up ------------------------------------------------------------------------------------------------


def dump_to(store: Store, path: Path, *, replace: bool = False, on_progress: OnProgress = unwatched) -> tuple[int, int]:
    """Write the whole store to one file; returns the number of graphs and of events.

    Errors: UsageError for a file that exists; StoreError.
    """
    dump.require_new(path, store.database.path, replace=replace)
    with store.reading(None) as rows:
        return dump.write(path, rows, store.clock(), on_progress)


def restore(
    store: Store,
    path: Path,
    *,
    replace: bool = False,
    command: str = "",
    wait_s: float | None = None,
    on_progress: OnProgress = unwatched,
) -> tuple[int, int]:
    """Write a dump into an empty store, in one transaction; returns the number of graphs and of events.

    Args:
        replace: remove what is in the store.

    Errors: UsageError for a store that is not empty; InputError for a damaged dump; StoreError. Nothing is changed then.
    """
    for _ in dump.read(path, f"checking {path.name}", on_progress):  # all of it, before anything is written
        pass
    with store.creating(command, wait_s) as db:
        rows = store.rows(db)
        there = rows.graphs()
        if there and not replace:
            names = ", ".join(row.name for row in there[:5])
            hint = "discard its content with --replace, or name another store"
            raise UsageError(f"the store is not empty: it has {names}", where=store.url, hint=hint)
        for row in there:
            rows.remove(row)
        found = dump.read(path, "writing to the store", on_progress)
        return dump.fill(db, found, {row.uid for row in there}, lambda: os.urandom(8).hex())


def back_up(store: Store, path: Path, *, replace: bool = False, on_progress: OnProgress = unwatched) -> int:
    """Copy the store to an SQLite file, while others go on writing; returns its size in bytes.

    Errors: UsageError for a file that exists; StoreError.
    """
    dump.require_new(path, store.database.path, replace=replace)
    part = path.with_name(f".{path.name[:100]}.{os.getpid()}")
    try:
        with temporary(*(part.with_name(part.name + suffix) for suffix in ("", "-journal", "-wal", "-shm", ".lock"))):
            with store.reading(None):
                pass  # it is there, and its version can be read
            if not store.database.back_up(part, on_progress):
                copy = SqliteDatabase(part)
                with store.reading(None) as rows, copy.creating(), copy.writing() as db:
                    dump.fill(db, dump.items(rows, on_progress), set(), str)
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            part.replace(path)
            sync_folder(path.parent)
            return path.stat().st_size
    except OSError as error:
        said = f"cannot be written: {error.strerror or error}"
        raise StoreError(said, where=str(path), hint="check the directory, its permissions, and the free space") from None


# -- migrate -------------------------------------------------------------------------------------------------------------


def migrate(
    store: Store, *, command: str = "", wait_s: float | None = None, on_progress: OnProgress = unwatched
) -> tuple[int, int]:
    """Bring the store to the present version, in one transaction; returns the version before and after.

    Errors: StoreError naming the versions, for a store that is newer, or too old; UnknownGraph for one that does not exist.
    """
    on_progress("reading the version", 0, 2, "steps")
    with store.reading(None):
        before = store.database.stored_version()
    on_progress("making the tables of the present version", 1, 2, "steps")
    with store.changing(None, command, wait_s):
        pass
    return before, store.database.stored_version()

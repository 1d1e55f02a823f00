"""Writing to the graphs of a store within a transaction: events, snapshots, and the end of children.

A change that allocates something in a graph that was copied for a job is checked here against the claim of the graph (rule N1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from fluxres import clock as clocks
from fluxres import limits
from fluxres.clock import FOREVER, fixed
from fluxres.errors import StoreConflict
from fluxres.graph.structure import Structure
from fluxres.model import changes
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store import encoding, journal, records
from fluxres.store.claims import Claim, Claims
from fluxres.store.contents import Blob, EventRow, GraphRow
from fluxres.store.journal import Event
from fluxres.store.rows import Rows

WEIGHT_MAX: Final = 256
"""Pools to look up in a replay before a new snapshot is due; they take about 30 ms (specs/store.md)."""


class Change(msgspec.Struct):
    """What is written for one change: all of it, or nothing.

    Args:
        bodies: its events, as stored.
        weight: number of pools that they name.
        time: seconds since 1970.
        command: that caused it.
        pools: of the graph after it.
        shape, marks: a snapshot of the graph after it, if one is due.
        concerned: marks of the runs whose end it may have moved.
        notes: names and texts that are written with it; None removes a note.
        gives: whether it may allocate something, or add to what can be allocated.
        begins: the first moment, in ticks, of what it allocates.
    """

    bodies: list[bytes]
    weight: int
    time: float
    command: str
    pools: int
    shape: bytes | None = None
    marks: bytes | None = None
    concerned: list[str] = msgspec.field(default_factory=list)
    notes: list[tuple[str, str | None]] = msgspec.field(default_factory=list)
    gives: bool = False
    begins: int = FOREVER

    @classmethod
    def of(cls, events: Sequence[Event], time: float, command: str, user: str, pools: int) -> Change:
        text = " ".join(command.split()).encode("utf-8", "backslashreplace").decode()
        bodies, weight = [journal.body(event, user) for event in events], sum(map(journal.weight, events))
        begins = min(map(journal.begins, events), default=FOREVER)
        return cls(bodies, weight, time, text, pools, gives=any(map(journal.gives, events)), begins=begins)


def append(
    rows: Rows,
    row: GraphRow,
    graph: ResourceGraph,
    events: Sequence[Event],
    now: float,
    command: str,
    *,
    shape: bytes | None = None,
    user: str | None = None,
) -> int:
    """Write events, and a snapshot if one is due; returns the number of the last event.

    Args:
        graph: as it is after the events.
        shape: of the graph, if it is new.
        user: who caused them; the user of this process by default.
    """
    if shape is None and journal.is_structural(events):
        shape = encoding.encode_shape(graph.structure)
    change = Change.of(events, now, command, journal.os_user() if user is None else user, len(graph))
    change.shape = shape
    if shape is not None or row.weight + change.weight > WEIGHT_MAX:
        tail = shape if shape is not None else rows.shape_tail(row)
        change.marks = encoding.encode_marks(graph.structure, records.capture(graph.records), tail)
    written = write(rows, row, [change])
    if change.marks is not None:
        forget(rows, written, *rows.log_extent(row))
    return written.seq


def write(rows: Rows, row: GraphRow, changes: Sequence[Change]) -> GraphRow:
    """Write changes, of which only the last one may have a snapshot; returns the row after them.

    Errors: StoreConflict if the graph is not in the state of `row` any more; HoldLapsed.
    """
    last = changes[-1]
    if any(change.gives for change in changes) and (claim := require_held(rows, row, changes)) is not None:
        Claims(rows).note(row, claim)
    lines: list[EventRow] = []
    seq, weight = row.seq, row.weight
    for change in changes:
        weight += change.weight
        for body in change.bodies:
            seq += 1
            lines.append(EventRow(seq, change.time, change.command, body, journal.checksum(seq, body)))
    rows.db.add_events(row.number, lines)
    for change in changes:
        for key, text in change.notes:
            if text is None:
                rows.db.remove_note(key)
            else:
                rows.db.put_note(key, text)
    before = replace(row, seq=seq - len(last.bodies))
    rows.keep_previous(before, seq, shape=last.shape is not None, marks=last.marks is not None)
    after = replace(row, seq=seq, weight=weight, pools=last.pools)
    if last.shape is not None:
        rows.db.put_blob("shapes", row.number, Blob(seq, last.shape))
        after = replace(after, generation=row.generation + 1)
    if last.marks is not None:
        rows.db.put_blob("snapshots", row.number, Blob(seq, last.marks))
        after = replace(after, snapshot_seq=seq, weight=0)
    if not rows.db.advance(row, after):
        hint = "let only programs that take its lock write to the store"
        raise StoreConflict(f"graph '{row.name}' was changed without the lock of the store", where=rows.url, hint=hint)
    return after


def require_held(rows: Rows, row: GraphRow, changes: Sequence[Change]) -> Claim | None:
    """Refuse changes of a graph that was copied for a job, if the job does not hold it any more, or not yet (rule N1).

    Args:
        changes: the graph is checked as it is after the last one.

    Returns: the claim, if it is to be noted anew.
    Errors: HoldLapsed.
    """
    change, begins = changes[-1], min([change.begins for change in changes])

    def part() -> Structure:
        if change.shape is None or change.marks is None:
            return rows.structure(row)
        return encoding.decode(change.shape, change.marks)[0]

    return Claims(rows).require(row, clocks.ticks(change.time), begins, part, is_new=change.shape is not None)


def forget(rows: Rows, row: GraphRow, first: int, size: int, *, until: int | None = None) -> int:
    """Delete events beyond the bounds of the journal, which the snapshot just written contains; returns the oldest left.

    Args:
        first, size: as of `log_extent`.
        until: this event and those after it stay.
    """
    oldest = max(first, row.seq - limits.LOG_EVENTS_MAX + 1)
    if size > limits.LOG_BYTES_MAX:
        last = rows.db.log_surplus(row.number, limits.LOG_BYTES_MAX)
        oldest = max(oldest, 0 if last is None else last + 1)
    oldest = oldest if until is None else max(first, min(oldest, until))
    if oldest > first:
        rows.db.remove_events(row.number, oldest)
    return oldest


def end_child(
    rows: Rows, row: GraphRow, claim: Claim, now: float, command: str, reason: str = "", *, user: str | None = None
) -> None:
    """Free the job of a child in its parent, and remove the graph of the child and those of all below it.

    Args:
        now: in seconds.
        reason: for the journal of the parent, if the child did not end itself.
        user: for the same; that of this process by default.
    """
    above = Claims(rows).above(claim)
    if above is not None:
        graph = rows.read(above, fixed(now))
        if graph.records.is_job(claim.job):
            events: list[Event] = []
            graph.sink = events.append
            changes.free(graph, claim.job, None, None, None, reason=reason)
            append(rows, above, graph, events, now, command, user=user)
    _remove_with_children(rows, row)


def _remove_with_children(rows: Rows, row: GraphRow) -> None:
    """Remove the graph of a child, and those of its children. A copy that nobody has a lease on stays, and gives nothing."""
    for below, claim in Claims(rows).children(row):
        if claim.lease is not None:
            _remove_with_children(rows, below)
    rows.remove(row)

"""`fluxres.load` and `fluxres.save`: any file or store, recognised by what it is.

Whatever a format cannot say is in the report of a save and never dropped silently (rule S1).  Both leave a
list of pending changes at the graph, so that the next save may write only those.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

import numpy as np
from msgspec.structs import astuple

from fluxres import clock as clocks
from fluxres.allocation.drawn import DrawRecords
from fluxres.allocation.facts import JobFacts, Reservation
from fluxres.clock import FOREVER, Clock, seconds, ticks
from fluxres.documents import arguments, compression, source_text
from fluxres.documents import source as files
from fluxres.errors import FluxresError, InputError, InputWarning, StoreError, UsageError
from fluxres.formats import registry
from fluxres.formats.format import Hold, Loaded, Reserved
from fluxres.graph import surgery
from fluxres.model import reserving
from fluxres.model.changes import expire_stages
from fluxres.model.resource_graph import ResourceGraph, require_graph
from fluxres.model.targets import Where
from fluxres.store import Notify, journal, open_store, records
from fluxres.store import changes as documents
from fluxres.store.changes import Mark, Pending
from fluxres.store.disk import write_whole
from fluxres.store.encoding import RecordColumns
from fluxres.store.rows import Saved
from fluxres.store.store import Position, Store
from fluxres.store.url import is_store_url
from fluxres.syntax.moment import EPOCH_FROM_S

Source = str | os.PathLike[str]
Given = bytes | bytearray | memoryview | source_text.Readable | Mapping[str, Any]
"""Input that is not an address: the content of a file, an open file, or values."""


class Writable(Protocol):
    """An open file."""

    def write(self, data: Any, /) -> object:
        """Write text or bytes."""
        ...


_FILE: Final = "file"
"""The mark of the last save to a file, or load from one: a new document of changes follows it, whether or not stores came in
between.

With ``:PATH`` appended, the mark of the last save of changes to that document, which the next save of changes there continues.
"""
_SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class SaveReport:
    """The result of a save.

    Args:
        dest: destination.
        format: of the file, ``changes`` or ``store``.
        pools: of the graph.
        events: number of events written, if only changes were written; None for a complete graph.
        left_out: what the format cannot express, one line per kind.
        note: why the complete graph was written although only changes were requested; what another program that reads the format
            does not see; what to consider when it is loaded again.
    """

    dest: str
    format: str
    pools: int
    events: int | None = None
    left_out: list[str] = field(default_factory=list)
    note: str = ""


# -- loading -------------------------------------------------------------------------------------------------------------


def load(
    source: Source | Sequence[Source] | files.Source | files.Sources | Store | Loaded | Given,
    *,
    name: str | None = None,
    format: str | None = None,
    clock: Clock | None = None,
    changes: Source | Sequence[Source] = (),
    **options: Any,
) -> ResourceGraph:
    """Load a graph from a file, a store, or a description in Python.

    Args:
        source: a path of a file in any format, detected from its content, compressed or not; ``-`` for standard input; the URL of
            a store, with ``?graph=NAME`` or without, or an open store; or several paths, for a format whose files are parts of
            one machine; or ``this-machine``, the machine that this program runs on. Or the content itself: bytes, an open file, a
            mapping with the content of a cluster file (specs/cluster-yaml.md) or of a JSON file of another format, what a
            reader returned, or a file that was read.
        name: of the graph; by default the one that the source gives.
        format: of the file; detected from the content by default.
        clock: returns "now" of the graph in seconds. By default `fluxres.clock.system` for a graph from a store, because the
            commands use the same clock, and for one with allocations at calendar times (after 1973, in seconds since 1970); the
            clock of any other graph is always at 0. Copies, duplicates and pickles of a graph have its clock.
        changes: documents that ``save(…, changed_only=True)`` wrote after it, in order.
        options: of the format (``fluxres formats`` lists them).

    Errors: InputError with file, line and column; StoreError, UnknownGraph; StoreConflict for changes of a different state.
    Warns: InputWarning for what the reader of the format left out, or read differently than written.

    >>> load({"fluxres": 1, "name": "tiny", "resources": [{"type": "node", "count": 2}]}).pool("/tiny/node1").id
    1
    >>> load({"fluxres": 1, "resources": [{"type": "node", "count": "two"}]})
    Traceback (most recent call last):
    fluxres.errors.InputError: <dict>: resources[0].count: expected a whole number of at least 1, got 'two'
    >>> load("site.yaml")
    Traceback (most recent call last):
    fluxres.errors.InputError: site.yaml: no such file (relative paths start in the current directory)
    """
    position, place, known = None, _FILE, clock
    notes: tuple[str, ...] = ()
    if isinstance(source, Loaded):
        graph, notes = _graph(source, source.name, clock)
    elif isinstance(source, Mapping):
        graph, notes = _graph(registry.read_values(source, format=format, **options), "<dict>", clock)
    elif isinstance(source, files.Source):
        graph, notes = _load_source(source, format, clock, options)
    elif isinstance(source, bytes | bytearray | memoryview):
        graph, notes = _load_source(files.Source.open(bytes(source)), format, clock, options)
    elif hasattr(source, "read") and not isinstance(source, os.PathLike):
        graph, notes = _load_source(files.Source(*source_text.read_stream(source)), format, clock, options)
    elif not isinstance(source, str | os.PathLike) and isinstance(source, Sequence):
        parts = source if isinstance(source, files.Sources) else files.Sources([_text(cast("Source", each)) for each in source])
        graph, notes = _graph(registry.read_many(parts, format=format, **options), parts.names[0], clock)
    elif isinstance(source, Store) or is_store_url(_text(source)):
        store, usual = (source, source.clock) if isinstance(source, Store) else (open_store(_text(source)), clocks.system)
        if format is not None or options:
            where = store.url if isinstance(source, Store) else _text(source)
            raise UsageError("a store has neither a format nor options", where=where, hint="leave them out")
        known = usual if clock is None else clock
        graph, position = store.open(clock=known)
        place = _place(store, graph.name)
    else:
        graph, notes = _load_file(_text(source), format, clock, options)
    for note in notes:
        warnings.warn(note, InputWarning, stacklevel=2)
    for document in [changes] if isinstance(changes, str | os.PathLike) else changes:
        graph = documents.read(source_text.file_named(_text(document))).apply(graph, known)
        position, place = None, _FILE
    if known is None and _is_by_calendar(graph):
        graph.clock = clocks.system
    graph.name = name if name is not None else graph.name
    _listen(graph).mark(place, position)
    if position is not None:
        expire_stages(graph)  # written with the next change
    return graph


def _is_by_calendar(graph: ResourceGraph) -> bool:
    """Whether some allocation is at calendar times."""
    first = ticks(EPOCH_FROM_S)
    return any(spans[-1][0] > first for holders in graph.records.held.values() for spans in holders.values())


def _text(source: Source) -> str:
    text = os.fspath(source) if isinstance(source, str | os.PathLike) else source
    if not isinstance(text, str):
        raise UsageError(f"expected a path or the URL of a store, got {type(source).__name__}", hint="such as 'cluster.yaml'")
    if text.startswith(("http://", "https://")):
        hint = "`fluxres.connect` is for servers; commands take one as --store"
        raise UsageError("is a server, and not a file or a store", where=text, hint=hint)
    return text


def _load_file(
    text: str, format: str | None, clock: Clock | None, options: dict[str, Any]
) -> tuple[ResourceGraph, tuple[str, ...]]:
    live = registry.read_live(text, **options)
    if live is not None:
        return _graph(live, text, clock)
    return _load_source(files.Source.named(text), format, clock, options)


def _load_source(
    opened: files.Source, format: str | None, clock: Clock | None, options: dict[str, Any]
) -> tuple[ResourceGraph, tuple[str, ...]]:
    # Read once, because a pipe cannot be read twice.
    if format is None and documents.is_changes(opened.data):
        return documents.parse(opened.data, opened.file).apply(None, clock), ()
    return _graph(registry.read(opened, format=format, **options), opened.file, clock)


def _graph(loaded: Loaded, where: str, clock: Clock | None) -> tuple[ResourceGraph, tuple[str, ...]]:
    try:
        held = _held(loaded.allocations)
        graph = records.allocate(loaded.structure, held, name=loaded.name, clock=clock)
    except FluxresError as error:
        raise InputError(f"the allocations break a rule: {error}", where=where) from error
    try:
        for one in loaded.reservations:
            _reserve(graph, one)
    except FluxresError as error:
        raise InputError(f"the reservations break a rule: {error}", where=where) from error
    return graph, loaded.notes


def _reserve(graph: ResourceGraph, one: Reserved) -> None:
    def window(start_s: float, end_s: float) -> tuple[int, int]:
        return ticks(start_s, "start"), ticks(end_s, "end")

    pools, windows = reserving.topmost(graph.structure.end, one.pools), tuple(window(*each) for each in one.windows)
    submitted = None if one.submitted_s is None else ticks(one.submitted_s, "submitted")
    held = None if one.held is None else [(*window(start, end), list(units.items())) for start, end, units in one.held]
    facts = JobFacts(one.user, None, submitted)
    affected = reserving.affected(graph.structure, pools) if one.affected is None else one.affected
    reserving.restore(graph, one.name, Reservation(pools, windows, one.ignores_jobs, affected), facts, held)


def _held(allocations: Sequence[Hold]) -> RecordColumns:
    number: dict[str, int] = {}
    spans = []
    slots_of: dict[str, int] = {}
    drawn = DrawRecords()
    for hold in allocations:
        job = number.setdefault(hold.job, len(number))
        start, end = ticks(hold.start_s, "start"), FOREVER if hold.end_s is None else ticks(hold.end_s, "end")
        spans += [(job, v, start, end, amount) for v, amount in hold.pools.items()]
        if hold.slots and hold.pools:
            slots_of[hold.job] = slots_of.get(hold.job, 0) + hold.slots
        drawn.add(hold.job, np.array(hold.drawn, np.int64).reshape(-1, 3), start, end)
    return RecordColumns.of(list(number), spans, [], slots_of, drawn=records.drawn_rows(drawn, number))


# -- saving --------------------------------------------------------------------------------------------------------------


def save(
    g: ResourceGraph,
    dest: Source | Writable,
    *,
    where: Where = "/",
    format: str | None = None,
    changed_only: bool = False,
    replace: bool = False,
    strict: bool = False,
    **options: Any,
) -> SaveReport:
    """Write a graph, or a pool and everything below it, to a file or store (RFC 4 Serialize).

    Args:
        dest: a path (compressed where it ends in ``.gz``, ``.zst``, ``.xz`` or ``.bz2``), or the URL of a store, in which it gets
            its own name or that of ``?graph=NAME``; or an open text or binary file.
        where: top of the subtree to write, as :meth:`ResourceGraph.duplicate` makes it.
        format: of the file; by its extension by default, ``cluster`` for an open file.
        changed_only: write only the changes since the graph was last loaded or saved. To a store: since it was loaded from or
            saved to that store. To a file: a document of changes, which ``load(base, changes=…)`` applies; a document that
            ends where these changes begin is continued.
        replace: in a store, replace another graph of this name.
        strict: raise if the format cannot express everything.
        options: of the format.

    Returns: what was written, what the format could not express, and whether the complete graph was written after all.
    Errors: StoreConflict if the store has changed since; UsageError if something would be lost; StoreError.
    """
    arguments.texts_or_none(format=format)
    how = _Writing(format, changed_only, replace, strict, options)
    if require_graph(g).vertex(where):
        if changed_only:
            raise UsageError("only changes of a part", where=str(where), hint="changes are always those of the entire graph")
        g = g.duplicate(where)
    if not isinstance(dest, str | os.PathLike) and hasattr(dest, "write"):
        return _save_stream(g, dest, how)
    return _save(g, _text(cast("Source", dest)), how)


def dumps(g: ResourceGraph, *, where: Where = "/", format: str = "cluster", strict: bool = True, **options: Any) -> bytes:
    """A graph, or a pool and everything below it, as bytes (RFC 4 Serialize); `loads` reads them.

    Args:
        where, format, options: as for :func:`save`.
        strict: raise if the format cannot express everything; otherwise the rest is left out.

    Errors: UsageError for content that the format cannot express, such as stages; pickle preserves everything.

    >>> g = load({"fluxres": 1, "name": "tiny", "resources": [{"type": "node", "count": 2, "with": [{"type": "core"}]}]})
    >>> loads(dumps(g, where="/tiny/node1")).pool("/node1/core").uuid == g.pool("/tiny/node1/core").uuid
    True
    """
    return bytes_of(g.duplicate(where) if require_graph(g).vertex(where) else g, format, strict=strict, **options).data


def loads(
    data: str | bytes, *, name: str | None = None, format: str | None = None, clock: Clock | None = None, **options: Any
) -> ResourceGraph:
    """The graph in the content of a file.

    Args: as for :func:`load`.
    """
    if not isinstance(data, str | bytes | bytearray | memoryview):
        raise UsageError(f"expected text or bytes, got {type(data).__name__}", hint="use load for a path or an open file")
    content = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return load(content, name=name, format=format, clock=clock, **options)


def save_stored(
    store: Store,
    name: str | None,
    dest: Source,
    *,
    format: str | None = None,
    changed_only: bool = False,
    replace: bool = False,
    strict: bool = False,
    command: str = "save",
    wait_s: float | None = None,
) -> SaveReport:
    """As :func:`save`, for a graph in a store, whose journal knows what changed since the last save.

    Args:
        store, name: the graph; the store's default one if None.
        command, wait_s: as for :meth:`fluxres.store.Store.writing`.

    A store that cannot be written, such as one on a full disk, can be saved nevertheless; the report notes it then.

    Errors: as :func:`save`; UnknownGraph; UsageError for a save of the graph over itself.
    """
    text = _text(dest)
    g, position, places, entries = store.saved(name)
    if is_store_url(text) and _place(open_store(text), g.name) == f"{store.url}?graph={g.name}":
        raise UsageError("source and destination are the same graph", where=text, hint="name another one with ?graph=NAME")
    events = [journal.body(entry.event) for entry in entries]
    first = position.seq - len(events)
    marks = {
        known.place: Mark(known.seq - first, Position(known.uid, known.at) if known.uid else None, known.digest)
        for known in places
    }
    pending = Pending.resumed(g, events, marks)
    report = _save(g, text, _Writing(format, changed_only, replace, strict, {}, command, wait_s, store.notify))
    present, shift = documents.digest(g), position.seq - pending.count
    kept = [
        Saved(place, mark.at + shift, mark.digest or present, *(astuple(mark.position) if mark.position is not None else ()))
        for place, mark in pending.marks.items()
    ]
    try:
        store.remember(g.name, position.uid, kept, wait_s=wait_s)
    except StoreError as error:  # the graph was saved all the same: its store may be read-only, or on a full disk
        reason = error.message.partition(";")[0]  # what follows is that nothing was changed in the store
        said = f"the save was made, but {error.where} could not record it: {reason}"
        way_out = "save everything again before a save of changes only"
        return dataclasses.replace(report, note="; ".join(filter(None, [report.note, said, way_out])))
    return report


class _Writing(NamedTuple):
    """The options of a save; the last three are for a store."""

    format: str | None
    changed_only: bool
    replace: bool
    strict: bool
    options: dict[str, Any]
    command: str = "save"
    wait_s: float | None = None
    notify: Notify | None = None


def _save(g: ResourceGraph, dest: str, how: _Writing) -> SaveReport:
    with g.lock:
        return _save_whole(g, dest, how)


def _save_whole(g: ResourceGraph, dest: str, how: _Writing) -> SaveReport:
    if (how.format is not None or how.options) and (how.changed_only or is_store_url(dest)):
        what = "a store" if is_store_url(dest) else "changes"
        given = f"format '{how.format}'" if how.format is not None else "options of a format"
        raise UsageError(f"{given} cannot be chosen for {what}", where=dest, hint="leave it out")
    if is_store_url(dest):
        return _save_to_store(g, open_store(dest, notify=how.notify), how)
    return _save_changes(g, Path(dest)) if how.changed_only else _save_file(g, Path(dest), how)


def _save_stream(g: ResourceGraph, stream: Writable, how: _Writing) -> SaveReport:
    known = getattr(stream, "name", None)
    name = known if isinstance(known, str) and known else "<stream>"
    if how.changed_only or how.replace:
        what = "changes go" if how.changed_only else "a graph is replaced only"
        raise UsageError(f"{what} to a file or a store", where=name, hint="give a path or a URL")
    written = bytes_of(g, how.format or "cluster", strict=how.strict, **how.options)
    try:
        stream.write(written.data.decode() if hasattr(stream, "encoding") else written.data)
    except UnicodeDecodeError:
        raise UsageError(f"format '{written.format}' is binary", where=name, hint="open the file in binary mode") from None
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"cannot be written: {error}", where=name, hint="open the file for writing") from None
    return SaveReport(name, written.format, len(g), left_out=written.left_out, note=written.note)


def _save_to_store(g: ResourceGraph, store: Store, how: _Writing) -> SaveReport:
    place, pending = _place(store, g.name), Pending.of(g)
    name = store.address.graph or g.name
    mark = None if pending is None else pending.marks.get(place)
    base = None if mark is None else mark.position
    by: dict[str, Any] = {"command": how.command, "wait_s": how.wait_s}
    if how.changed_only and pending is not None and mark is not None and base is not None:
        events = [journal.event_of(stored) for stored in pending.since(mark)]
        pending.mark(place, store.append(name, g, events, base, **by))
        return SaveReport(store.url, "store", len(g), events=len(events), note=_other_clock(g))
    position = store.put(name, g, replace=how.replace, base=None if how.replace else base, **by)
    notes = [_why_whole(pending, "this store") if how.changed_only else "", _other_clock(g)]
    note = "; ".join(filter(None, notes))
    _listen(g).mark(place, position)
    return SaveReport(store.url, "store", len(g), note=note)


def _save_changes(g: ResourceGraph, path: Path) -> SaveReport:
    pending, here = Pending.of(g), f"{_FILE}:{os.path.realpath(path)}"
    mark = None if pending is None else (pending.marks.get(here) if path.exists() else None) or pending.marks.get(_FILE)
    mark = mark if mark is not None or pending is None else pending.last()
    if pending is None or mark is None:
        documents.write(path, None, [documents.state_line(g)], g)
        note = _why_whole(pending, "a place to follow")
        pending = _listen(g)
        pending.mark(_FILE)
        pending.mark(here)
        return SaveReport(str(path), "changes", len(g), note=note)
    events = pending.since(mark)
    base = mark.digest if mark.digest is not None else documents.digest(g)
    documents.write(path, base, documents.lines_of(events, g), g)
    pending.mark(_FILE)
    pending.mark(here)
    return SaveReport(str(path), "changes", len(g), events=len(events))


def _save_file(g: ResourceGraph, path: Path, how: _Writing) -> SaveReport:
    chosen = how.format if how.format is not None else registry.by_ending(path).name
    written = bytes_of(g, chosen, strict=how.strict, **how.options)
    write_whole(path, compression.pack(written.data, path.suffix))
    if not written.left_out:
        _listen(g).mark(_FILE)
    return SaveReport(str(path), written.format, len(g), left_out=written.left_out, note=written.note)


def bytes_of(g: ResourceGraph, format: str = "cluster", *, strict: bool = False, **options: Any) -> registry.Written:
    """The content that a save of the complete graph would write, and what it leaves out.

    Errors: UsageError for an unknown format, for a graph that it could not read back, and, if `strict`, for one of which it
    leaves something out.
    """
    with g.lock:
        has_stages = bool(g.records.stages)
        no_file_says = _left_out(records.capture(g.records))
        held, kept = registry.holds(g), registry.reserved(g)
        structure = surgery.by_itself(g.structure)
        written = registry.write(structure, held, reservations=kept, name=g.name, format=format, **options)
    left_out = [*no_file_says, *written.left_out]
    if strict and left_out:
        more = [f"and {len(left_out) - _SHOWN_MAX} more"] if len(left_out) > _SHOWN_MAX else []
        shown = "; ".join([*left_out[:_SHOWN_MAX], *more])
        raise UsageError(
            f"format '{format}' would leave out {shown}",
            hint=_ways_out(has_stages=has_stages, is_format=bool(written.left_out), is_every_file=bool(no_file_says)),
        )
    return registry.Written(written.format, written.data, left_out, written.note)


def _ways_out(*, has_stages: bool, is_format: bool, is_every_file: bool) -> str:
    """What the caller can do if a file would leave something out.

    Args:
        is_format: another format can express some of it.
        is_every_file: no file format can express some of it.
    """
    ways = ["commit or release the stages first"] * has_stages
    ways += ["pickle and a store preserve it"] * (is_every_file and not is_format)
    ways += ["another format may preserve more"] * (is_format and not is_every_file)
    return f"nothing was written; {', '.join([*ways, 'or write without --strict (in Python, strict=False)'])}"


def _left_out(held: RecordColumns) -> list[str]:
    """What no file format can express: temporary locks, and times so far away that seconds cannot express their ticks."""
    left_out = [f"stage {staged.stage} of job {staged.job}: files do not store temporary locks" for staged in held.stages]
    windows = {window for one in held.reservations.values() for window in one.windows}
    moments = {moment for window in windows for moment in window}
    moments |= {moment for column in (held.start, held.end) for moment in np.unique(column).tolist()}
    rounded = sum(ticks(seconds(moment)) != moment for moment in moments)
    if rounded:
        left_out.append(f"microseconds of times too far away to express in seconds: {rounded} rounded")
    windows |= {*zip(held.start.tolist(), held.end.tolist(), strict=True)} if rounded else set()
    lost = sum(seconds(start) >= seconds(end) for start, end in windows)
    if lost:
        left_out.append(f"allocations in windows so short and so far away that they round to nothing: {lost}")
    return left_out


def _why_whole(pending: Pending | None, place: str) -> str:
    if pending is None:
        return "everything was written: the changes since the last save were not recorded"
    return f"everything was written: it was not saved to {place} before, or too much has changed since"


def _other_clock(g: ResourceGraph) -> str:
    """A note on loading a graph whose clock is not the system clock."""
    if g.clock is clocks.system or not g.records.held or _is_by_calendar(g):
        return ""
    return "its times are not calendar times, but a graph from a store has the system clock: load it with a clock of your own"


def _place(store: Store, name: str) -> str:
    return f"{store.url}?graph={store.address.graph or name}"


def _listen(g: ResourceGraph) -> Pending:
    pending = Pending.of(g)
    if pending is None:
        pending = Pending(g)
        if g.sink is None or isinstance(g.sink, Pending):
            g.sink = pending
    return pending

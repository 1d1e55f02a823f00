"""Graphs to files and to other stores, and only what changed since the last time.

A command does not live from one save to the next, so what a save followed has to stand at its destination: a store
has it in the command of its last journal entry, a document of changes in its header.  Only where both uid and number
fit are the events after it taken from the journal; in any other case everything is written, and the command says so.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fluxres.cli.output import answer, note
from fluxres.cli.settings import Settings
from fluxres.errors import UnknownGraph, UsageError

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph
    from fluxres.store import Position, SqliteStore
    from fluxres.store.files import SaveReport
    from fluxres.store.journal import Event

_FOLLOWS: Final = re.compile(r"store:(?P<uid>[0-9a-f]+)@(?P<seq>[0-9]{1,18})\)?\Z", re.ASCII)


def is_file(dest: str) -> bool:
    """Whether a destination is a file or another store, and not the name of a graph.

    >>> [is_file(text) for text in ("part", "./part", "part.yaml", "-")]
    [False, True, True, True]
    """
    return dest == "-" or "/" in dest or bool(Path(dest).suffix)


def save_file(graph: ResourceGraph, dest: str, format_name: str | None = None, *, replace: bool = False) -> SaveReport | None:
    """Write a whole graph to a file, a store, or standard output (``-``, without a report)."""
    from fluxres.store.files import save

    if dest != "-":
        return save(graph, dest, format=format_name, replace=replace)
    import sys

    from fluxres.formats import registry

    sys.stdout.write(registry.text(graph.structure, registry.holds(graph), name=graph.name, format=format_name or "cluster"))
    return None


def save_store(
    settings: Settings,
    source: SqliteStore,
    graph: ResourceGraph,
    position: Position,
    dest: str,
    *,
    changed_only: bool,
    replace: bool,
) -> SaveReport:
    """Write a graph of one store to another one."""
    from fluxres.store import open_store
    from fluxres.store.files import SaveReport

    store = open_store(dest, notify=source.notify)
    name = store.address.graph or graph.name
    if (store.path, name) == (source.path, graph.name):
        raise UsageError("this is the graph that would be saved", where=dest, hint="?graph=NAME names another one")
    command = f"{settings.command} ({position})"
    base, follows = _last_save(store, name)
    events = None if follows is None else _events_since(source, graph.name, position, follows)
    if changed_only and base is not None and events is not None:
        store.append(name, graph, events, base, command=command, wait_s=settings.wait_s)
        return SaveReport(store.url, "store", len(graph), events=len(events))
    ours = base if events is not None else None
    store.put(name, graph, replace=replace, base=None if replace else ours, command=command, wait_s=settings.wait_s)
    return SaveReport(store.url, "store", len(graph), note=_WHOLE if changed_only else "")


_WHOLE: Final = "everything was written: what is there did not come from this graph, or too long ago"


def _last_save(store: SqliteStore, name: str) -> tuple[Position | None, re.Match[str] | None]:
    """The state of a graph in a store, and the state of another store that it is a save of."""
    from fluxres.store import Position

    row = next((row for row in store.graphs() if row.name == name), None)
    if row is None:
        return None, None
    last = store.log(name, limit=1)
    found = _FOLLOWS.search(last[0].command) if last and last[0].seq == row.seq else None
    return Position(row.uid, row.seq), found


def _events_since(source: SqliteStore, name: str, position: Position, follows: re.Match[str]) -> list[Event] | None:
    """The events between the state that was saved and `position`; None when the journal does not have them all."""
    seq = int(follows["seq"])
    if follows["uid"] != position.uid or seq > position.seq:
        return None
    try:
        entries = [entry for entry in source.log(name, after=seq) if entry.seq <= position.seq]
    except UnknownGraph:
        return None
    return [entry.event for entry in entries] if len(entries) == position.seq - seq else None


def save_changes(source: SqliteStore, graph: ResourceGraph, position: Position, dest: str) -> SaveReport:
    """Write what changed to a document of changes, or continue the one that is there."""
    from fluxres.store import changes, journal
    from fluxres.store.files import SaveReport

    path = Path(dest)
    before = changes.read(path) if path.exists() else None
    follows = None if before is None else _FOLLOWS.search(_header(path).get("follows", ""))
    events = None if follows is None else _events_since(source, graph.name, position, follows)
    if before is not None and events is not None:
        lines = changes.lines_of([journal.body(event) for event in events], graph)
        changes.write(path, before.header.result, lines, graph)
    else:
        changes.write(path, None, [changes.state_line(graph)], graph)
    _note_position(path, position)
    if events is not None:
        return SaveReport(dest, "changes", len(graph), events=len(events))
    return SaveReport(dest, "changes", len(graph), note="everything was written: nothing was saved there before")


def _header(path: Path) -> dict[str, Any]:
    import msgspec

    with path.open("rb") as file:
        header: dict[str, Any] = msgspec.json.decode(file.readline(), type=dict[str, Any])
    return header


def _note_position(path: Path, position: Position) -> None:
    import msgspec

    from fluxres.store.disc import write_whole

    header = {**_header(path), "follows": str(position)}
    _, _, rest = path.read_bytes().partition(b"\n")
    write_whole(path, msgspec.json.encode(header) + b"\n" + rest)


def answer_report(settings: Settings, report: SaveReport | None) -> None:
    """What a save did; what the format could not say goes to standard error as well."""
    from fluxres.render.text import plural

    if report is None:
        return
    for left in report.left_out:
        note(f"left out: {left}")
    if report.note:
        note(report.note)
    what = plural(report.pools, "pool") if report.events is None else plural(report.events, "change")
    answer(
        settings,
        document=lambda: {
            "dest": report.dest,
            "format": report.format,
            "pools": report.pools,
            "changes": report.events,
            "left_out": list(report.left_out),
            "note": report.note,
        },
        lines=lambda _style: [f"{report.dest}: {what}, {report.format}"],
    )

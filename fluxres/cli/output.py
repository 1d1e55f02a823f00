"""Output: the same facts as a table, as JSON, or as paths for another command; and what commands that find or change say."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import orjson

from fluxres.cli.failures import tell
from fluxres.cli.settings import R_OUTPUTS, TABLE_OUTPUTS, Settings, no_output, output_encoding
from fluxres.clock import FOREVER
from fluxres.documents.document import plural
from fluxres.render.text import UTF_8, Column, Style, printable, table, without_utf8

if TYPE_CHECKING:
    from fluxres.model import Allocation, ResourceGraph, Selection


def answer(
    settings: Settings,
    *,
    document: Callable[[], dict[str, Any]],
    lines: Callable[[Style], Iterable[str]],
    pools: Callable[[], Selection] | None = None,
    allocations: Callable[[], Iterable[Allocation]] | None = None,
    rows: Callable[[], Iterable[Mapping[str, Any]]] | None = None,
) -> None:
    """Print the result of a command in the requested form.

    Args:
        document: the plain values for JSON; a list that may be long can be an iterator, and is written item by item.
        lines: the lines of text.
        pools: the pools, for paths, one per line or folded.
        allocations: for resource sets, one per line, each written as it is made.
        rows: for CSV; None if they are the list in the document, or the document itself.
    """
    if settings.json:
        _write_json(document())
    elif settings.has_table:
        _write(lines(settings.style()))
    elif settings.output == "csv":
        _write_csv(_rows_of(document()) if rows is None else rows(), header=settings.header)
    elif settings.output in R_OUTPUTS and allocations is not None:
        for allocation in allocations():
            _note_windows(allocation)
            sys.stdout.write(_json(allocation.R(R_OUTPUTS[settings.output]), 0) + "\n")
    elif settings.output in {"paths", "folded"} and pools is not None:
        _write(_paths(pools(), folded=settings.output == "folded"))
    else:  # a group, which accepts the outputs of all its commands
        raise no_output(click.get_current_context(), settings.output, TABLE_OUTPUTS)


def _note_windows(allocation: Allocation) -> None:
    """R has one window for all pools, so what a job holds at other times looks as if it held it now."""
    windows = {(start, end) for _, start, end, _ in allocation.records}
    if len(windows) > 1:
        note(
            f"{allocation.job}: R has one window, but its pools are held in {len(windows)} different ones"
            f" (`jobs {allocation.job} --start T -o R` has those of one moment)"
        )


def _rows_of(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The items of the list in a document; the document as the only row if it has none."""
    key, items = next(((key, value) for key, value in document.items() if isinstance(value, list | Iterator)), ("", [document]))
    return (item if isinstance(item, Mapping) else {key: item} for item in items)


def _write_csv(rows: Iterable[Mapping[str, Any]], *, header: bool) -> None:
    """Rows as CSV (RFC 4180) with the keys and values of the JSON documents; a list is joined with blanks, a mapping as `k=v`."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    for number, row in enumerate(rows):
        if number == 0 and header:
            writer.writerow(row)
        writer.writerow([_csv_cell(value) for value in row.values()])


def _csv_cell(value: object) -> object:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list() if all(isinstance(one, str | int | float) for one in value):
            return " ".join(map(str, value))
        case dict() if all(not isinstance(one, dict | list) for one in value.values()):
            return " ".join(str(key) if one is None else f"{key}={one}" for key, one in value.items())
        case list() | dict():
            return orjson.dumps(value).decode()
    return value


def _write_json(document: dict[str, Any]) -> None:
    later = {key: value for key, value in document.items() if isinstance(value, Iterator)}
    text = _json({key: [] if key in later else value for key, value in document.items()})
    for key, items in later.items():
        before, _, text = text.partition(f'  "{key}": []')
        sys.stdout.write(f'{before}  "{key}": [')
        some = False
        for item in items:
            sys.stdout.write(("," if some else "") + "\n    " + _json(item).replace("\n", "\n    "))
            some = True
        sys.stdout.write("\n  ]" if some else "]")
    sys.stdout.write(text + "\n")


def _json(value: object, indent: int = 2) -> str:
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None).decode()
    if text.isascii() or output_encoding() == UTF_8:
        return text
    import json

    return json.dumps(value, indent=indent or None)


def _paths(selection: Selection, *, folded: bool) -> Iterable[str]:
    if not folded:
        where = selection.graph.structure.where
        return (printable(where(v)) for v in selection.vertices.tolist())
    import numpy as np

    from fluxres.render.folding import fold

    looks = np.zeros(len(selection), np.uint64)
    return (item.text for item in fold(selection.graph.structure, selection.vertices, looks, typeable=True))


def _write(lines: Iterable[str]) -> None:
    write, encoding = sys.stdout.write, output_encoding()
    for line in lines:
        if encoding != UTF_8 and not line.isascii():
            line = without_utf8(line, encoding)
        write(line + "\n")


def note(text: str) -> None:
    """Print a line on standard error that is not part of the output."""
    tell(f"fluxres: {text}\n")


def list_pools(settings: Settings, found: Selection, window: tuple[int, int], limit: int | None) -> None:
    """List pools as a table with equal ones folded, as JSON, or as paths.

    Args:
        window: in ticks, of the free units and the jobs shown.
        limit: of lines; in JSON and paths, of pools.
    """
    from fluxres.render import documents, listings

    graph = found.graph
    first = found if limit is None or len(found) <= limit else graph.select(found.vertices[:limit])

    def document() -> dict[str, Any]:
        return {"count": len(found), "pools": (documents.pool(p, window) for p in first)}

    def lines(style: Style) -> Iterable[str]:
        if not found:
            return []
        text, more = listings.pools(found, *window, limit=limit, style=style)
        if more:
            note(plural(more, "more pool"))
        return text

    if not found:
        note("no pools")
    answer(settings, document=document, lines=lines, pools=lambda: first)


def answer_summary(settings: Settings, graph: ResourceGraph, **more: Any) -> None:
    """Totals, jobs and states of a graph; `more` is for JSON."""
    from fluxres.render import documents, listings

    facts = {**documents.summary(graph), **more}
    answer(
        settings, document=lambda: facts, lines=lambda style: listings.summary(facts, style=style), rows=lambda: facts["types"]
    )


def answer_table(
    settings: Settings,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    document: Callable[[], dict[str, Any]],
    records: Callable[[], Iterable[Mapping[str, Any]]] | None = None,
) -> None:
    """A table; `document` is for JSON, `records` for CSV (None: the list in the document)."""
    answer(settings, document=document, lines=lambda style: table(columns, rows, style=style), rows=records)


def note_unmet(graph: ResourceGraph, text: str) -> None:
    """If criteria found nothing, report the values in them that no pool has."""
    from fluxres.model.search import unmet
    from fluxres.syntax import criteria

    for sentence in unmet(graph, criteria.parse(text)):
        note(sentence)


def answer_granted(settings: Settings, graph: ResourceGraph, granted: Allocation) -> None:
    """What a job has just been allocated."""
    from fluxres.render import documents

    _answer(settings, graph, [granted], lambda: documents.granted(granted))


def answer_granted_together(settings: Settings, graph: ResourceGraph, granted: Sequence[Allocation]) -> None:
    """What several jobs have been allocated together."""
    from fluxres.render import documents

    _answer(settings, graph, granted, lambda: {"allocations": [documents.granted(one) for one in granted]})


def _answer(
    settings: Settings, graph: ResourceGraph, granted: Sequence[Allocation], document: Callable[[], dict[str, Any]]
) -> None:
    import numpy as np

    from fluxres.render import documents, listings

    def lines(style: Style) -> list[str]:
        return listings.records(graph, [row for one in granted for row in _rows(one)], style=style)

    answer(
        settings,
        document=document,
        lines=lines,
        pools=lambda: graph.select(np.unique(np.array([p.vertex for one in granted for p in one.pools], np.int32))),
        allocations=lambda: granted,
        rows=lambda: (documents.span(span) for one in granted for span in one.spans),
    )


def _rows(allocation: Allocation) -> list[tuple[str, int, int, int, int]]:
    """The records of an allocation as (job, vertex, start, end, amount)."""
    return [(allocation.job, *record) for record in allocation.records]


def answer_shrunk(settings: Settings, graph: ResourceGraph, taken: Allocation) -> None:
    """What was released from a job, and what it still holds."""
    from fluxres.render import documents, listings

    job = taken.job
    held = listings.held_within(graph, 0, FOREVER, job) if graph.records.is_holder(job) else []

    def document() -> dict[str, Any]:
        return {"job": job, "taken": [documents.span(span) for span in taken.spans], "left": documents.left(graph, job)}

    def lines(style: Style) -> Iterable[str]:
        gone = listings.records(graph, _rows(taken), style=style)
        return [f"released from {job}:", *gone, *_left_lines(graph, job, held, style)]

    answer(settings, document=document, lines=lines)


def answer_held(settings: Settings, graph: ResourceGraph, job: str) -> None:
    """Everything that a job holds, by pool and window."""
    from fluxres.render import documents, listings

    held = listings.held_within(graph, graph.now(), FOREVER, job)
    answer(
        settings,
        document=lambda: {"job": job, "held": documents.spans(graph, sorted({v for _, v, *_ in held}), 0, FOREVER, job)},
        lines=lambda style: listings.records(graph, held, style=style),
    )


def answer_left(settings: Settings, graph: ResourceGraph, job: str) -> None:
    """What a job still holds after a release."""
    from fluxres.render import documents, listings

    held = listings.held_within(graph, 0, FOREVER, job) if graph.records.is_holder(job) else []
    answer(
        settings,
        document=lambda: {"job": job, "left": documents.left(graph, job)},
        lines=lambda style: _left_lines(graph, job, held, style),
    )


def _left_lines(graph: ResourceGraph, job: str, held: Sequence[tuple[str, int, int, int, int]], style: Style) -> Iterable[str]:
    from fluxres.render import listings

    if not held:
        return [f"{job} holds nothing now"]
    return [f"{job} still holds:", *listings.records(graph, held, style=style)]

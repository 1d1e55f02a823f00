"""The text and the table of each value: what :class:`fluxres.shown.Shown` prints and what a notebook shows."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import structs

from fluxres.clock import seconds
from fluxres.documents import arguments
from fluxres.documents.document import plural
from fluxres.errors import StaleHandle
from fluxres.match.refusal import Refusal
from fluxres.model import Allocation, Pool, ResourceGraph, Selection
from fluxres.model.match import Match
from fluxres.model.tables import Spans, Totals
from fluxres.render import documents, listings, tree
from fluxres.render import html as markup
from fluxres.render.text import PLAIN, Style, when_from

if TYPE_CHECKING:
    from fluxres.instance import Instance

    Value = ResourceGraph | Pool | Selection | Allocation | Spans | Totals | Match | Refusal | Instance


def to_text(value: Value) -> str:
    """The lines that the commands print."""
    return "\n".join(_lines(value, PLAIN))


def fitted(value: Value, depth: int | None = None) -> str:
    """As `to_text`, in the width of the terminal if the output is one.

    Args:
        depth: of a tree; None for all levels.
    """
    if depth is not None:
        arguments.whole(depth, "depth")
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return "\n".join(_lines(value, Style(columns=columns), depth))


def to_html(value: Value) -> str:
    """The same as HTML; a graph also has its totals."""
    style = markup.HtmlStyle()
    if isinstance(value, ResourceGraph) and _stale(value) is None:
        return markup.page([*listings.summary(documents.summary(value), style=style), *_lines(value, style)])
    return markup.page(_lines(value, style))


def _lines(value: Value, style: Style, depth: int | None = None) -> Iterable[str]:
    if (stale := _stale(value)) is not None:
        return [stale]
    match value:
        case Refusal():
            return value.sentences()
        case ResourceGraph():
            with value.lock:
                return tree.draw(value, tree.branches(value, 0, depth), style=style)
        case Pool():
            with value.graph.lock:
                return list(of_pool(value, depth, style=style))
        case Selection():
            return _selection(value, style)
        case Allocation():
            held = [(value.job, *record) for record in value.records]
            return listings.records_in(value.structure, held, style=style) if held else [repr(value)]
        case Spans():
            return listings.records_in(value.structure, value.records, style=style) if value else [repr(value)]
        case Totals():
            return listings.totals([structs.asdict(total) for total in value], style=style)
        case Match():
            now = seconds(value.graph.now())
            start = seconds(value.start)
            return ["now" if start <= now else when_from(start), *listings.matched(value, value.graph.structure, style=style)]
    with value.lock:
        return listings.instances(value, style=style)


def _selection(value: Selection, style: Style) -> list[str]:
    if not value:
        return ["no pools"]
    limit = style.rows_max if isinstance(style, markup.HtmlStyle) else None
    with value.graph.lock:
        found, more = listings.pools(value, *value.graph.window(None, None), limit=limit, style=style)
    return [*found, f"… and {plural(more, 'more pool')}"] if more else found


def of_pool(pool: Pool, depth: int | None = None, *, style: Style = PLAIN) -> Iterator[str]:
    """Everything about a pool, and the tree below it."""
    yield from listings.pool(pool, style=style)
    structure = pool.graph.structure
    if structure.end.item(pool.vertex) > pool.vertex + 1:
        yield ""
        yield from tree.draw(pool.graph, tree.branches(pool.graph, pool.vertex, depth), style=style)


def _stale(value: Value) -> str | None:
    """The short form of a value whose graph has changed its structure or was destroyed, so that it has no table."""
    try:
        match value:
            case Pool():
                _ = value.vertex, len(value.graph)
            case Selection():
                _ = value.vertices
            case Match() if value.generation != value.graph.generation:
                return repr(value)
            case ResourceGraph():
                len(value)
    except StaleHandle:
        return repr(value)
    return None

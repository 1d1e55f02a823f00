"""The output of commands that find pools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fluxres.cli.output import answer, note
from fluxres.cli.settings import Settings
from fluxres.syntax import criteria

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph, Selection
    from fluxres.render.style import Style


def list_pools(
    settings: Settings, found: Selection, at: float | None, during: tuple[float, float] | None, limit: int | None
) -> None:
    """List pools as a table with equal ones folded, as JSON, or as paths; `limit` counts lines, but pools in JSON and paths."""
    from fluxres.render import documents, listings

    graph = found.graph
    start, end = graph.window(at, None) if during is None else graph.open_window(*during)
    first = found if limit is None or len(found) <= limit else graph.select(found.vertices[:limit])

    def document() -> dict[str, Any]:
        return {"count": len(found), "pools": (documents.pool(p, at, during) for p in first)}

    def lines(style: Style) -> Iterable[str]:
        if not found:
            return []
        text, more = listings.pools(found, start, end, limit=limit, header=settings.header, style=style)
        if more:
            note(f"{more} more pools")
        return text

    if not found:
        note("no pools")
    answer(settings, document=document, lines=lines, pools=lambda: first)


def note_unmet(graph: ResourceGraph, text: str) -> None:
    """If criteria found nothing, report the values in them that no pool has."""
    from fluxres.model.unmet import unmet

    for sentence in unmet(graph, criteria.parse(text)):
        note(sentence)

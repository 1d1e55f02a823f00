"""All details of one pool."""

from __future__ import annotations

from fluxres.model import Pool, Span
from fluxres.render import documents
from fluxres.render.amounts import units, when
from fluxres.render.holders import tag_text
from fluxres.render.style import PLAIN, Style
from fluxres.render.table import Column, table


def lines(p: Pool, *, style: Style = PLAIN) -> list[str]:
    """Its data and places, then its current and later holders; empty rows are left out."""
    facts = documents.pool(p)
    rows = [
        ["path", facts["path"]],
        *(["uri", uri] for uri in facts["uris"]),
        ["uuid", facts["uuid"]],
        ["type", facts["type"]],
        ["size", units(facts["size"], facts["unit"])],
        ["free", units(facts["available"], facts["unit"])],
        ["rank", "" if facts["rank"] is None else str(facts["rank"])],
        ["state", facts["state"]],
        *(["takes no new work", f"{other['path']} is {other['state']}"] for other in facts["out_of_service_by"]),
        ["properties", " ".join(key if value is None else f"{key}={value}" for key, value in facts["properties"].items())],
        ["tags", tag_text(facts["tags"])],
        ["exclusive", "for one job at a time" if facts["exclusive_only"] else ""],
        *(["held by", _span(p, span)] for span in p.allocations()),
        *(["reserved by", _span(p, span)] for span in p.reservations()),
        ["jobs below", ", ".join(facts["shared"])],
    ]
    columns = [Column("fact", role=lambda _text: "heading"), Column("value")]
    return table(columns, [row for row in rows if row[1]], header=False, style=style)


def _span(p: Pool, span: Span) -> str:
    end = "" if span.end == float("inf") else f" until {when(span.end)}"
    return f"{span.job}: {units(span.amount, p.unit)} from {when(span.start)}{end}"

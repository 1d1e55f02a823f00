"""The holders of a pool, as short notes beside it."""

from __future__ import annotations

from collections.abc import Iterator

from fluxres.clock import FOREVER, seconds
from fluxres.model import ResourceGraph
from fluxres.render.amounts import when


def holders(graph: ResourceGraph, v: int, start: int) -> str:
    """The jobs with records on `v` that have not ended at `start` (ticks), and the stages on it.

    ``j1`` holds all of it, ``j1=4`` four units; a reservation also shows its start.
    """
    records, size = graph.records, graph.structure.size.item(v)
    notes = [
        f"{job}{'' if amount == size else f'={amount}'}{f' from {when(seconds(begin))}' if begin > start else ''}"
        for job, begin, _, amount in records.spans(v, start, FOREVER)
    ]
    if records.stages and records.is_staged(v):
        notes += [f"{s.job} (staged {s.stage})" for s in records.stages.values() if any(u == v for u, _ in s.targets)]
    return ", ".join(notes)


def notes(graph: ResourceGraph, start: int) -> Iterator[tuple[int, str]]:
    """(vertex, text) for every pool with a record or a tag, which makes pools of one kind look different."""
    for v in (v for v in graph.records.held if v < graph.structure.n):
        text = holders(graph, v, start)
        if text:
            yield v, text
    for v, tags in graph.structure.tags.items():
        yield v, tag_text(tags)


def tag_text(tags: dict[str, str | None]) -> str:
    """Tags as on the command line.

    >>> tag_text({"draining": None, "until": "May"})
    'draining until=May'
    """
    return " ".join(key if value is None else f"{key}={value}" for key, value in sorted(tags.items()))

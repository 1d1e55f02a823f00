"""The answer of commands that change who holds what: what was given, or what is left."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fluxres.cli.output import answer
from fluxres.cli.settings import Settings

if TYPE_CHECKING:
    from fluxres.model import Allocation, ResourceGraph
    from fluxres.render.style import Style


def answer_granted(settings: Settings, graph: ResourceGraph, granted: Allocation) -> None:
    """What was given now, of what the job holds in all."""
    import numpy as np

    from fluxres.clock import ticks
    from fluxres.render import listings
    from fluxres.render.amounts import seconds_or_none

    def document() -> dict[str, Any]:
        return {
            "job": granted.job,
            "start": granted.start,
            "end": seconds_or_none(granted.end),
            "pools": [{"path": p.where, "amount": s.amount} for p, s in zip(granted.pools, granted.spans, strict=True)],
        }

    def lines(style: Style) -> list[str]:
        held = [
            (granted.job, p.vertex, ticks(s.start), ticks(s.end), s.amount)
            for p, s in zip(granted.pools, granted.spans, strict=True)
        ]
        return listings.records(graph, held, header=settings.header, style=style)

    answer(
        settings,
        document=document,
        lines=lines,
        pools=lambda: graph.select(np.unique(np.array([p.vertex for p in granted.pools], np.int32))),
        allocations=lambda: [granted],
    )


def answer_left(settings: Settings, graph: ResourceGraph, job: str) -> None:
    """What a job still holds after a free."""
    from fluxres.clock import FOREVER
    from fluxres.render import documents, listings

    held = listings.held_within(graph, 0, FOREVER, job) if job in graph.jobs() else []

    def lines(style: Style) -> Iterable[str]:
        if not held:
            return [f"{job} holds nothing any more"]
        return [f"{job} still holds:", *listings.records(graph, held, header=settings.header, style=style)]

    answer(
        settings,
        document=lambda: {"job": job, "left": documents.spans(graph, sorted({v for _, v, *_ in held}), 0, FOREVER, job)},
        lines=lines,
    )

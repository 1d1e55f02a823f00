"""The output of commands that change allocations: what was allocated, or what remains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fluxres.cli.output import answer
from fluxres.cli.settings import Settings

if TYPE_CHECKING:
    from fluxres.model import Allocation, ResourceGraph
    from fluxres.render.style import Style


def answer_granted(settings: Settings, graph: ResourceGraph, granted: Allocation) -> None:
    """What a job has just been allocated."""
    _answer(settings, graph, [granted], lambda: _granted(granted))


def answer_granted_together(settings: Settings, graph: ResourceGraph, granted: Sequence[Allocation]) -> None:
    """What several jobs have been allocated together."""
    _answer(settings, graph, granted, lambda: {"allocations": [_granted(one) for one in granted]})


def _granted(granted: Allocation) -> dict[str, Any]:
    from fluxres.render.amounts import seconds_or_none

    return {
        "job": granted.job,
        "start": granted.start,
        "end": seconds_or_none(granted.end),
        "pools": [{"path": s.pool, "amount": s.amount} for s in granted.spans],
    }


def _answer(
    settings: Settings, graph: ResourceGraph, granted: Sequence[Allocation], document: Callable[[], dict[str, Any]]
) -> None:
    import numpy as np

    def lines(style: Style) -> list[str]:
        from fluxres.render import listings

        return listings.records(graph, [row for one in granted for row in _rows(graph, one)], header=settings.header, style=style)

    answer(
        settings,
        document=document,
        lines=lines,
        pools=lambda: graph.select(np.unique(np.array([p.vertex for one in granted for p in one.pools], np.int32))),
        allocations=lambda: granted,
    )


def _rows(graph: ResourceGraph, allocation: Allocation) -> list[tuple[str, int, int, int, int]]:
    """The spans of an allocation as (job, vertex, start, end, amount)."""
    from fluxres.clock import ticks
    from fluxres.model import targets

    return [(s.job, targets.account(graph, s.pool), ticks(s.start), ticks(s.end), s.amount) for s in allocation.spans]


def answer_shrunk(settings: Settings, graph: ResourceGraph, taken: Allocation) -> None:
    """What was released from a job, and what it still holds."""
    from fluxres.clock import FOREVER
    from fluxres.render import documents, listings

    job = taken.job
    held = listings.held_within(graph, 0, FOREVER, job) if graph.records.is_holder(job) else []

    def document() -> dict[str, Any]:
        return {"job": job, "taken": [documents.span(span) for span in taken.spans], **_spans(graph, job, held, "left")}

    def lines(style: Style) -> Iterable[str]:
        gone = listings.records(graph, _rows(graph, taken), header=settings.header, style=style)
        return [f"released from {job}:", *gone, *_left_lines(settings, graph, job, held, style)]

    answer(settings, document=document, lines=lines)


def answer_held(settings: Settings, graph: ResourceGraph, job: str) -> None:
    """Everything that a job holds, by pool and window."""
    from fluxres.clock import FOREVER
    from fluxres.render import listings

    held = listings.held_within(graph, graph.now(), FOREVER, job)
    answer(
        settings,
        document=lambda: {"job": job, **_spans(graph, job, held, "held")},
        lines=lambda style: listings.records(graph, held, header=settings.header, style=style),
    )


def answer_left(settings: Settings, graph: ResourceGraph, job: str) -> None:
    """What a job still holds after a release."""
    from fluxres.clock import FOREVER
    from fluxres.render import listings

    held = listings.held_within(graph, 0, FOREVER, job) if graph.records.is_holder(job) else []
    answer(
        settings,
        document=lambda: {"job": job, **_spans(graph, job, held, "left")},
        lines=lambda style: _left_lines(settings, graph, job, held, style),
    )


def _spans(graph: ResourceGraph, job: str, held: Sequence[tuple[str, int, int, int, int]], key: str) -> dict[str, Any]:
    from fluxres.clock import FOREVER
    from fluxres.render import documents

    return {key: documents.spans(graph, sorted({v for _, v, *_ in held}), 0, FOREVER, job)}


def _left_lines(
    settings: Settings, graph: ResourceGraph, job: str, held: Sequence[tuple[str, int, int, int, int]], style: Style
) -> Iterable[str]:
    from fluxres.render import listings

    if not held:
        return [f"{job} holds nothing now"]
    return [f"{job} still holds:", *listings.records(graph, held, header=settings.header, style=style)]

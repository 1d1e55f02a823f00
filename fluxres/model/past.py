"""What is over is in the way of no change of the shape (rule T2).

A record whose end has passed stays until :meth:`ResourceGraph.expire`.  A change of the shape that is refused with such records
and not without them, or that would drop or alter them, drops all that is over first, with the event of `expire`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import suppress
from typing import TYPE_CHECKING

from fluxres.allocation import steps
from fluxres.allocation.owners import ELSEWHERE, STAGE_OWNER
from fluxres.allocation.records import Records, empty_planner
from fluxres.clock import FOREVER
from fluxres.errors import FluxresError
from fluxres.model import changes

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


def next_records(graph: ResourceGraph, make: Callable[[Records], Records], now: int | None = None) -> Records:
    """The records of the next generation; what is over expires first where it is in the way of them.

    Args:
        make: makes them of those that the graph has, or refuses. It looks at all times: what is over is no concern of it.
        now: of an instance, for which time stands still while it does something; that of the graph by default.

    Errors: those of `make`, for what is held now or later; nothing changes then.
    """
    now = graph.now() if now is None else now
    with suppress(FluxresError):
        return make(graph.records)
    made = make(lasting(graph, now))
    expire(graph, now)
    return made


def expire(graph: ResourceGraph, now: int) -> None:
    """Drop what is over: the records that ended by now, and the stages of which the window has."""
    for stage in graph.records.stages_over(now):
        changes.release(graph, stage)
    changes.expire(graph, now)


def lasting(graph: ResourceGraph, now: int) -> Records:
    """The records of a graph without what is over, beside them.

    Cost: that of a duplicate.
    """
    records = graph.records
    left = Records(graph.structure, empty_planner(graph.structure))
    left.take_all(records)
    for stage in left.stages_over(now):
        left.release(stage)
    for job, pieces in left.ended(now):
        left.free(pieces, job)
    for v, holders in records.held.items():
        if ELSEWHERE in holders:
            left.set_elsewhere(v, tuple(steps.within(holders[ELSEWHERE], now, FOREVER)))
    return left


def is_over(records: Records, pools: Container[int], now: int) -> bool:
    """Whether anything of these pools was held, or implied, and is no longer."""
    over = {STAGE_OWNER + stage for stage in records.stages_over(now)}
    for owner in records.pools_of:
        if owner != ELSEWHERE:
            for v in records.pools_with_implied(owner):
                if v in pools and (records.given(v, owner)[0][1] <= now or owner in over):
                    return True
    return False

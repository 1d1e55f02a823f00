"""Moving the end of what a job holds, later or earlier: of all its pools, or of none.

Each pool keeps what the job holds of it at its end: the last units are held on until the new end, or everything from there on is
given back; units that a whole holding implies (rule A5) count like those recorded.  A state in which pools take no new work does
not matter, for the job holds them already (rule A7).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fluxres.allocation import plans, steps
from fluxres.allocation.drawn import Rows
from fluxres.allocation.planned import Batch, Change, Piece
from fluxres.allocation.steps import Steps
from fluxres.clock import FOREVER, Length, Time, length_ticks, seconds, ticks
from fluxres.errors import FluxresError, InsufficientResources, NotHeld, UsageError
from fluxres.model.drawn_on import drawn_on
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    from fluxres.allocation.records import Records
    from fluxres.model.resource_graph import ResourceGraph

Window = tuple[int, int]
Longer = tuple[Window, list[tuple[int, int]], Rows]
"""A window, the pools with units that are held on through it, and for which of them what is drawn."""


class Move(NamedTuple):
    """A checked move of an end.

    Args:
        longer: by window, what is held on.
        shorter: what is given back.
    """

    longer: list[tuple[Window, list[Change], Rows]]
    shorter: Batch | list[Piece]

    def apply(self, records: Records, job: str) -> None:
        """Make the move; where the planner refuses a part of it for its bounds, nothing has changed."""
        slots = records.slots_of.get(job)
        held_on: list[tuple[Window, list[Change]]] = []
        try:
            for window, planned, drawn in self.longer:
                records.allocate(planned, job, *window, drawn=drawn, drawn_on=False)
                held_on.append((window, planned))
        except FluxresError:
            for window, planned in reversed(held_on):
                records.free([(change.v, change.amount, *window) for change in planned], job)
            raise
        finally:
            if slots is not None:
                records.slots_of[job] = slots
        if self.shorter:
            records.free(self.shorter, job)
            if slots is not None:
                records.slots_of[job] = slots


def _given(records: Records, job: str) -> dict[int, Steps]:
    """By pool, ascending, what the job was given over time, recorded or implied.

    Errors: UnknownJob.
    """
    records.require_job(job)
    return {v: records.given(v, job) for v in records.pools_with_implied(job)}


def end_of(graph: ResourceGraph, job: str, end: Time | None, duration_s: Length | None) -> int:
    """The new end in ticks; a duration counts from the beginning of what the job holds.

    Errors: UnknownJob; UsageError unless one of the two is given.
    """
    given = _given(graph.records, job)
    if (end is None) == (duration_s is None):
        wrong = "both an end and a duration were given" if end is not None else "neither an end nor a duration was given"
        raise UsageError(wrong, hint="give one of them; an end of math.inf never comes")
    if end is not None:
        return ticks(end, "end")
    assert duration_s is not None  # one of the two is given
    return min(min(spans[0][0] for spans in given.values()) + length_ticks(duration_s), FOREVER)


def plan(graph: ResourceGraph, job: str, end: int, now: int) -> Move:
    """Check the move of a job's end.

    Args:
        end, now: in ticks; what ended by now stays as it is.

    Errors: UnknownJob; NotHeld for a job that has ended; UsageError for an end that is over or before the job begins;
    InsufficientResources with what is in the way, and the latest end for which nothing is.
    """
    records = graph.records
    given = _given(records, job)
    lasting = {v: spans for v, spans in given.items() if spans[-1][1] > now}
    if not lasting:
        over = max(spans[-1][1] for spans in given.values())
        message = f"job '{job}' ended at {in_message(seconds(over))}, and now is {in_message(seconds(now))}"
        raise NotHeld(message, hint="allocate again")
    _require_later(job, lasting.values(), end, now)
    shorter = [(v, None) for v, spans in lasting.items() if spans[-1][1] > end]
    pieces = plans.free(records, job, shorter, end, None) if shorter else []
    longer = _longer(graph, job, given, end, now)
    try:
        with records.structure.lifted():
            return Move([(window, _plan(records, job, window, named), drawn) for window, named, drawn in longer], pieces)
    except InsufficientResources as error:
        latest = _latest(records, job, longer)
        raise InsufficientResources(
            error.message,
            where=error.where,
            hint="it cannot be held any longer" if latest is None else f"free until {in_message(seconds(latest))}",
            reasons=error.reasons,
        ) from None


def _plan(records: Records, job: str, window: tuple[int, int], named: list[tuple[int, int]]) -> list[Change]:
    return plans.allocate(records, named, job, *window, implies=True)


def _require_later(job: str, lasting: Iterable[Steps], end: int, now: int) -> None:
    if end <= now:
        message = f"the end {in_message(seconds(end))} is in the past, now is {in_message(seconds(now))}"
        raise UsageError(message, hint="to end it now, free it")
    starts = [start for spans in lasting for start, stop, _ in spans if stop > now]
    if end <= min(starts):
        message = (
            f"job '{job}' would end at {in_message(seconds(end))}, not after its beginning at {in_message(seconds(min(starts)))}"
        )
        raise UsageError(message, hint="to drop it, free it")
    if end >= FOREVER and max(starts) > now:
        message = f"job '{job}' holds something from {in_message(seconds(max(starts)))} on, later than now, which needs an end"
        raise UsageError(message, hint="give an end that comes")


def _longer(graph: ResourceGraph, job: str, given: dict[int, Steps], end: int, now: int) -> list[Longer]:
    """What is held on, by windows in each of which it is the same: so a pool and one below it are planned together."""
    own = {v: steps.excess(spans, graph.records.drawn.total(job, v)) for v, spans in given.items()}
    last = {v: spans[-1] for v, spans in own.items() if spans and spans[-1][1] > now}
    drawn = drawn_on(graph, job, own, last, end)
    ends = {stop for _, stop, _ in last.values() if stop < end}
    ends.update(at for held in drawn.values() for start, stop, _ in held for at in (start, stop))
    found: list[Longer] = []
    for lo, hi in pairwise(sorted({*ends, end}) if ends else ()):
        named = {v: amount for v, (_, stop, amount) in last.items() if stop <= lo}
        rows: list[tuple[int, int, int]] = []
        for (consumers, account), held in drawn.items():
            if units := steps.amount_at(held, lo):
                named[account] = named.get(account, 0) + units
                rows += [(consumers[0], account, units), *((v, account, 0) for v in consumers[1:])]
        found.append(((lo, hi), sorted(named.items()), np.array(sorted(rows), np.int64).reshape(-1, 3)))
    return found


def _latest(records: Records, job: str, longer: Sequence[Longer]) -> int | None:
    """The latest moment until which all of it can be held on; None where there is none after its present ends."""
    moments = records.planner.moments(longer[0][0][0] + 1, longer[-1][0][1])

    def is_free(until: int) -> bool:
        try:
            for (lo, hi), named, _ in longer:
                if lo < min(hi, until):
                    _plan(records, job, (lo, min(hi, until)), named)
        except InsufficientResources:
            return False
        return True

    low, high = -1, len(moments)
    with records.structure.lifted():
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_free(moments[middle]) else (low, middle)
    return None if low < 0 else moments[low]

"""Maintenance windows: pools that take no work for some time, while jobs may run into it.

A reservation is an owner of records, as a job is: no unit ever has two owners (rules A1, A3), and matching, searching for the
first start and explaining need to know nothing of it. One that ignores jobs holds what they leave in its windows; when a job
gives something back, the reservation takes that at once, so that no other job gets it before the window ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fluxres import limits
from fluxres.allocation import reserved
from fluxres.allocation.facts import JobFacts, Reservation
from fluxres.allocation.planned import Planned
from fluxres.allocation.reserved import Held, Rest
from fluxres.arrays import Int32
from fluxres.clock import FOREVER, TICKS_PER_S, seconds
from fluxres.documents.document import listed
from fluxres.errors import InsufficientResources, LimitExceeded, UnknownJob, UsageError
from fluxres.graph import forest
from fluxres.graph.structure import Structure
from fluxres.model import changes, events, targets
from fluxres.syntax.moment import EPOCH_FROM_S, to_the_second

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

_DAY_TICKS = 86_400 * TICKS_PER_S


def repeated(start: int, end: int, every: int | None, until: int | None) -> tuple[tuple[int, int], ...]:
    """The windows of a reservation: the first one, and with `every` the same again until a moment.

    Whole days count in local time: what begins at eight does so when the clocks have changed, too.

    Errors: UsageError for windows that overlap, or that repeat without an end; LimitExceeded.

    >>> repeated(0, 10, 20, 50)
    ((0, 10), (20, 30), (40, 50))
    """
    if every is None:
        if until is not None:
            raise UsageError("an end of the repetition was given, and no interval", hint="give the interval, such as 7d")
        return ((start, end),)
    if until is None or until >= FOREVER:
        raise UsageError("a reservation that repeats needs an end", hint="give the time until which it repeats")
    number = -(-(until - start) // every)
    if number > limits.RESERVATION_WINDOWS_MAX:
        message = f"the reservation would have {number} windows, the limit is {limits.RESERVATION_WINDOWS_MAX}"
        raise LimitExceeded(message, hint="let it end earlier, and reserve again then")
    begins = [begin for i in range(number + 1) if (begin := _repetition(start, every, i)) < until]
    if not begins:
        raise UsageError("the repetition ends before the first window begins", hint="give a later end of the repetition")
    if any(after < begin + end - start for begin, after in pairwise(begins)):
        raise UsageError("the windows would overlap", hint="repeat it at intervals that are longer than its duration")
    return tuple((begin, begin + end - start) for begin in begins)


def _repetition(start: int, every: int, number: int) -> int:
    days, rest = divmod(every, _DAY_TICKS)
    if rest or seconds(start) <= EPOCH_FROM_S:
        return start + number * every
    second, fraction = divmod(start, TICKS_PER_S)
    try:
        begin = datetime.fromtimestamp(second) + timedelta(days=days * number)
        return round(begin.timestamp()) * TICKS_PER_S + fraction
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return start + number * every


def topmost(end: Int32, vertices: Sequence[int]) -> tuple[int, ...]:
    """The pools that are not below another one, as :func:`forest.topmost`."""
    return tuple(forest.topmost(end, np.unique(np.array(vertices, np.int32))).tolist())


def affected(structure: Structure, pools: Sequence[int]) -> tuple[int, ...]:
    """What a reservation takes besides its pools, as in :class:`Reservation`: pools that only these supply (rule F3)."""
    found = tuple(structure.affected(pools).tolist())
    return () if found == tuple(pools) else found


def reserve(graph: ResourceGraph, name: str, reservation: Reservation, facts: JobFacts) -> None:
    """Reserve windows, all of them or none.

    Errors: UsageError for a name in use, and for no pools; InsufficientResources if jobs run into a window and are not to be
    ignored.
    """
    held, planned = _plan(graph, name, reservation)
    structure = graph.structure
    changes.tell(graph, lambda: events.reserve(structure, name, reservation, facts, held), len(reservation.pools))
    reserved.apply(graph.records, name, reservation, facts, planned)
    graph.revision += 1


def restore(
    graph: ResourceGraph, name: str, reservation: Reservation, facts: JobFacts, held: Sequence[Held] | None = None
) -> None:
    """Record a reservation of a file.

    Args:
        held: what it holds; by default whatever no job holds.

    Errors: as :func:`reserve`; InsufficientResources if jobs hold what it is said to hold.
    """
    _, planned = _plan(graph, name, reservation, held)
    reserved.apply(graph.records, name, reservation, facts, planned)


def _plan(
    graph: ResourceGraph, name: str, reservation: Reservation, held: Sequence[Held] | None = None
) -> tuple[Sequence[Held], list[Planned]]:
    """What a new reservation holds, checked."""
    records = graph.records
    if not reservation.pools:
        raise UsageError("no pools named", hint="name at least one pool")
    require_unused(graph, name)
    if len(records.reservations) >= limits.RESERVATIONS_MAX:
        raise LimitExceeded(f"more than {limits.RESERVATIONS_MAX} reservations", hint="remove those that are over")
    number = len(reservation.windows) * len(reservation.out)
    if number > limits.RESERVATION_SPANS_MAX:
        message = (
            f"{len(reservation.windows)} windows of {len(reservation.out)} pools are more than {limits.RESERVATION_SPANS_MAX}"
        )
        raise LimitExceeded(message, hint="name the racks instead of their nodes, or let it repeat for a shorter time")
    if held is None:
        rest = reserved.left_of(records, name, reservation, 0)
        if rest.owners and not reservation.ignores_jobs:
            _refuse(graph, reservation, rest)
        held = rest.held
    _require_room(graph, held)
    return held, reserved.plan(records, name, held)


def require_unused(graph: ResourceGraph, name: str) -> None:
    """Errors: UsageError for the name of a reservation or a job."""
    if name in graph.records.reservations or graph.records.is_holder(name):
        what = "a reservation" if name in graph.records.reservations else "a job"
        raise UsageError(f"'{name}' is {what} already", hint="choose another name")


def _refuse(graph: ResourceGraph, reservation: Reservation, rest: Rest) -> None:
    said = list(dict.fromkeys(map(graph.records.said, rest.owners)))
    names = listed(said)
    start = reservation.windows[0][0]
    where = graph.structure.where(reservation.pools[0])
    raise InsufficientResources(
        f"{names} {'holds' if len(said) == 1 else 'hold'} something there between {_said(start)}"
        f" and {_said(reservation.windows[-1][1])}",
        where=listed([where], total=len(reservation.pools)),
        hint="ignore running jobs: they keep what they hold, and nothing new starts",
        reasons={where: names},
    )


def _said(tick: int) -> str:
    return to_the_second(seconds(tick))


def _require_room(graph: ResourceGraph, held: Sequence[Held]) -> None:
    windows: dict[tuple[int, int], list[int]] = {}
    for start, end, pools in held:
        windows.setdefault((start, end), []).extend(v for v, _ in pools)
    graph.planner.require_room(windows)


def remove(graph: ResourceGraph, name: str) -> None:
    """Give up a reservation, with all of its windows.

    Errors: UnknownJob.
    """
    if targets.job_id(name) not in graph.records.reservations:
        raise UnknownJob(f"no reservation '{name}'", hint="`reserve` lists them")
    changes.tell(graph, lambda: events.unreserve(name))
    graph.records.drop_reservation(name)
    graph.revision += 1
    changes.refill(graph)

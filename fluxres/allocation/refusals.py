"""Why an allocation is refused: who or what is in the way, and when it would succeed.

A refusal may take its time: it searches for the earliest start, which an allocation that succeeds never does.
"""

from __future__ import annotations

from fluxres import clock
from fluxres.allocation import steps
from fluxres.allocation.records import Records
from fluxres.errors import InfeasibleRequest, InsufficientResources
from fluxres.syntax.moment import in_message


def barred(records: Records, v: int, by: int) -> InsufficientResources:
    """The state of the pool, or of the one above it that is `by`, forbids new work (rule A7)."""
    accounts = records.accounts
    state, at = accounts.pools.state_name(by), accounts.where(by)
    reason = f"it is {state}" if by == v else f"{at} is {state}"
    return InsufficientResources(
        f"not available: {reason}", where=accounts.where(v), hint=f"set the state of {at} to up", reasons={at: state}
    )


def way(records: Records, v: int) -> InfeasibleRequest:
    """The graph has the pool only as a way to others (rule N1)."""
    return InfeasibleRequest(
        "the pool is only a pass-through in this part of the machine, without any units",
        where=records.accounts.where(v),
        hint="its units are in the graph that it was copied from, or left this one with unlink",
    )


def units(amount: int) -> str:
    """An amount, such as ``1 unit``."""
    return f"{amount} unit{'s' * (amount != 1)}"


def taken(records: Records, v: int, amount: int, job: str, start: int, end: int) -> InsufficientResources:
    """Too few units are free, or a pool above is held exclusively."""
    accounts, held = records.accounts, records.held
    above = records.planner.covered_by(v, start, end)
    if above >= 0:
        size = accounts.size.item(above)
        owners = [owner for owner, spans in held.get(above, {}).items() if steps.whole(spans, start, end, 0, size)]
        who = ", ".join(sorted({records.job_behind(owner) for owner in owners}))
        return _refusal(records, (v, amount, job, start, end), f"held through {accounts.where(above)} by {who}", {above: who})
    holders = sorted({records.job_behind(o) for o, spans in held.get(v, {}).items() if steps.touches(spans, start, end)})
    who, free = ", ".join(holders), records.planner.free(v, start, end)
    message = f"requested {units(amount)}, {free} of {accounts.size.item(v)} free (held by {who})"
    return _refusal(records, (v, amount, job, start, end), message, {v: who})


def beyond(records: Records, v: int, amount: int, had: int, job: str) -> InsufficientResources:
    """More units of a pool than it has, below one that the job holds exclusively."""
    where, size = records.accounts.where(v), records.accounts.size.item(v)
    message = f"requested {units(amount)}, {max(size - had, 0)} of {size} free (held by {job})"
    return InsufficientResources(message, where=where, reasons={where: job})


def below(records: Records, v: int, amount: int, job: str, u: int, owner: str, start: int, end: int) -> InsufficientResources:
    """The pool would be held exclusively, and another job holds `u` below it (rule A3)."""
    who = records.job_behind(owner)
    message = f"cannot be allocated exclusively: {who} holds {records.accounts.where(u)} in it"
    return _refusal(records, (v, amount, job, start, end), message, {u: who})


def exclusive(
    records: Records, v: int, amount: int, job: str, u: int, held: int, other: str, start: int, end: int
) -> InsufficientResources:
    """A pool at or above it is for one job at a time, and another job holds something in it (rule A8)."""
    where = records.accounts.where
    message = f"{where(u)} is exclusive to one job, and {other} holds {where(held)} in it"
    return _refusal(records, (v, amount, job, start, end), message, {u: other})


def too_many(records: Records, v: int, amount: int) -> InfeasibleRequest:
    """More units than a pool or an edge has."""
    size, unit = records.accounts.size.item(v), records.accounts.unit(v)
    if not records.accounts.is_edge(v):
        message = f"requested {units(amount)} of a pool of {size}"
    elif unit:
        message = f"requested {amount} {unit} of an edge that carries {size} {unit}"
    else:
        message = f"requested {units(amount)} of an edge that carries {size}"
    return InfeasibleRequest(message, where=records.accounts.where(v), hint=f"ask for at most {size}")


def _refusal(
    records: Records, wanted: tuple[int, int, str, int, int], message: str, reasons: dict[int, str]
) -> InsufficientResources:
    when = _earliest_s(records, *wanted)
    where = records.accounts.where
    return InsufficientResources(
        message,
        where=where(wanted[0]),
        hint="" if when is None else f"free from {in_message(when)} on",
        earliest=when,
        reasons={where(u): who for u, who in reasons.items()},
    )


def _earliest_s(records: Records, v: int, amount: int, job: str, start: int, end: int) -> float | None:
    """First start from `start` on at which the amount is free for as long; None where there is none, or it is unknown."""
    leaf = records.accounts.end.item(v) == v + 1
    if not leaf and (job in records.shared.get(v, ()) or records.steps_of(v, job)):
        return None  # the job's own units would count, and the planner knows no jobs
    length = end - start if end < clock.FOREVER else clock.FOREVER
    earliest = records.planner.earliest([(v, amount)], length, start)
    while earliest is not None and (left := _left(records, v, job, earliest, min(earliest + length, clock.FOREVER))):
        # Another job holds something in an exclusive pool around it, and has to free that first.
        earliest = None if left >= clock.FOREVER else records.planner.earliest([(v, amount)], length, left)
    return None if earliest is None else clock.seconds(earliest)


def _left(records: Records, v: int, job: str, start: int, end: int) -> int:
    """When the first of the other jobs that hold something in an exclusive pool around in a window frees it; 0 for none."""
    ends = [
        e
        for u in records.accounts.exclusive_around(v)
        for w, other in records.inside(u, start, end)
        if other != job
        for owner, held in records.held[w].items()
        if records.job_behind(owner) == other
        for _, e, _ in steps.within(held, start, clock.FOREVER)
        if e > start
    ]
    return min(ends, default=0)

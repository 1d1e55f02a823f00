"""Several allocations made together: all of them, or none.

The units of the first share must be locked while the others are checked, and released if one of them is refused.  A stage does
both (RFC 4, "Staged"): it locks units under a separate owner, and releasing it restores the previous state, whatever else the
job holds.  So each share is staged under a hidden id.  If that succeeds for all of them, the stages are released and the shares
allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from fluxres.allocation import plans
from fluxres.allocation.chosen import Chosen
from fluxres.allocation.drawn import NO_ROWS, Rows
from fluxres.allocation.facts import JobFacts
from fluxres.allocation.planned import Staged
from fluxres.allocation.plans import Implies
from fluxres.allocation.records import STAGE_OWNER, Records
from fluxres.arrays import Int32, Int64
from fluxres.clock import FOREVER
from fluxres.errors import FluxresError, UsageError

Found = tuple[Int32, Int64, Sequence[tuple[int, int]]]
"""Vertices, amounts and implied units of a match."""
Lock = Callable[["Share"], str]
"""Locks the units of a share until the end of the block, and returns the id of the stage."""


class Share(NamedTuple):
    """What one job gets in several allocations made together.

    Args:
        place: its name in refusals, such as ``request 2 (j2)``.
        job: id.
        targets: (vertex, amount).
        start, end: window in ticks.
        found: vertices, amounts and implied units, which a matcher found on the present state with the earlier shares locked:
            they are not checked again.
        slots: number of slots of the request; 0 if pools were named.
        implies: as for :func:`plans.allocate`.
        drawn: the pools for which parts of it are drawn.
        is_routed: whether some of it is drawn along routes; None if unknown.
        facts: what is known about the job.
        chosen: the order of the pools of a request for amounts.
    """

    place: str
    job: str
    targets: Sequence[tuple[int, int]]
    start: int
    end: int
    found: Found | None = None
    slots: int = 0
    implies: Implies = False
    drawn: Rows = NO_ROWS
    is_routed: bool | None = None
    facts: JobFacts | None = None
    chosen: Chosen | None = None


@contextmanager
def located(place: str) -> Iterator[None]:
    """Prefix the place to `where` of the errors in the block."""
    try:
        yield
    except FluxresError as error:
        error.put_within(place)
        raise


@contextmanager
def locking(records: Records) -> Iterator[Lock]:
    """Locks that last until the end of the block."""
    taken: list[str] = []

    def lock(share: Share) -> str:
        stage = f"\x00{len(taken)}"
        staged = Staged(stage, share.job, tuple(share.targets), share.start, share.end, FOREVER)
        with located(share.place):
            if share.found is None:
                records.stage(staged, plans.stage(records, staged, implies=share.implies))
            else:
                owner, window = STAGE_OWNER + stage, (share.start, share.end)
                records.allocate(plans.match(records, *share.found, owner, *window), owner, *window)
                records.stages[stage] = staged
        taken.append(stage)
        return stage

    try:
        yield lock
    finally:
        for stage in reversed(taken):
            records.release(stage)


def grant(records: Records, shares: Sequence[Share], tell: Callable[[], None] | None = None) -> None:
    """Allocate every share to its job, or none of them.

    Args:
        shares: those with `found` were matched while the units of the others were locked.
        tell: called after all shares are checked and before any is allocated; if it raises, nothing is allocated.

    Errors: those of an allocation, with the place of the share; nothing changes then.
    Cost: that of the allocations; three times as much if a job holds something already, or has several shares.
    """
    jobs = {share.job for share in shares}
    if len(jobs) < len(shares) or any(share.found is None for share in shares) or any(map(records.is_holder, jobs)):
        _check(records, shares)
    # This comes after the check because `tell` must not see the locks.
    if tell is not None:
        tell()
    for share in shares:
        window = share.start, share.end
        if share.found is None or records.is_holder(share.job):
            planned = plans.allocate(records, share.targets, share.job, *window, implies=share.implies)
            records.allocate(planned, share.job, *window, share.slots, share.drawn, is_routed=share.is_routed)
        else:
            planned_match = plans.match(records, *share.found, share.job, *window)
            records.allocate(planned_match, share.job, *window, share.slots, share.drawn, is_routed=share.is_routed)
        records.note_facts(share.job, share.facts)
        records.note_chosen(share.job, share.chosen)


def _check(records: Records, shares: Sequence[Share]) -> None:
    """Refuse shares that cannot all be allocated."""
    _require_one_piece(records, shares)
    with locking(records) as lock:
        stages = [lock(share._replace(found=None)) for share in shares]
        for share, stage in zip(shares, stages, strict=True):
            with located(share.place):
                plans.commit(records, stage)


def _require_one_piece(records: Records, shares: Sequence[Share]) -> None:
    """Refuse two shares of one pool for one job: together they might be all of it, and imply what other jobs hold below it."""
    accounts = records.accounts
    seen: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for share in shares:
        for v in {v for v, _ in share.targets}:
            if accounts.end.item(v) == v + 1 or accounts.size.item(v) == 1:
                continue
            windows = seen.setdefault((share.job, v), [])
            if any(start < share.end and share.start < end for start, end in windows):
                message = f"a second piece of {accounts.where(v)} for the same job"
                raise UsageError(message, where=share.place, hint="name all units of it at once")
            windows.append((share.start, share.end))

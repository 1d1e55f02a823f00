"""Check allocations, frees and stages completely against the records before anything changes.

A plan only reads.  The records apply what it returns (:mod:`fluxres.allocation.planned`) completely, so a refused change leaves
no trace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fluxres import clock, limits
from fluxres.allocation import steps
from fluxres.allocation.drawn import NO_ROWS
from fluxres.allocation.planned import Batch, Change, Piece, Planned, Staged, StagedWindow, Target, Window
from fluxres.allocation.records import STAGE_OWNER, Records
from fluxres.allocation.steps import Steps
from fluxres.arrays import Int32, Int64
from fluxres.clock import FOREVER, seconds
from fluxres.documents.document import listed, plural
from fluxres.errors import InfeasibleRequest, InsufficientResources, NotHeld, UsageError
from fluxres.graph.kinds import EXCLUSIVE, is_state
from fluxres.planner.planner import FEW_POOLS_MAX
from fluxres.syntax.moment import in_message

Implies = bool | frozenset[int]
"""Whether exclusive pools imply the targets below them; or the accounts that they imply."""


class _Covered:
    """The pools above the next one that the changes so far hold exclusively; changes come in the order of their pools.

    Args:
        end: one past the last descendant, by vertex.
    """

    def __init__(self, end: Int32) -> None:
        self._end = end.item
        self._above: list[Change] = []

    def around(self, v: int) -> list[Window]:
        """Windows in which a pool above this one is held exclusively."""
        self._leave(v)
        return [window for change in self._above for window in change.covers]

    def add(self, change: Change) -> None:
        self._leave(change.v)
        if change.covers:
            self._above.append(change)

    def _leave(self, v: int) -> None:
        while self._above and v >= self._end(self._above[-1].v):
            self._above.pop()


class _Asked(NamedTuple):
    """What an allocation asks for.

    Args:
        units: by pool.
        owner: who gets it: the job, or a stage made for the job, which is not blocked by what the job holds itself.
        start, end: window in ticks.
    """

    units: Mapping[int, int]
    owner: str
    job: str
    start: int
    end: int
    implies: Implies

    @property
    def window(self) -> Window:
        return self.start, self.end


def _said(tick: int) -> str:
    return in_message(seconds(tick))


# -- allocating ----------------------------------------------------------------------------------------------------------


def allocate(
    records: Records, targets: Sequence[Target], job: str, start: int, end: int, *, implies: Implies = False
) -> list[Change]:
    """Check an allocation to a job, which grows if it holds something already.

    Args:
        targets: (vertex, amount); amounts of a repeated vertex are added.
        start, end: window in ticks.
        implies: whether an exclusive pool implies targets below it (all, or these vertices); otherwise it is an error to name
            them as well.

    Errors: InsufficientResources with the earliest time, InfeasibleRequest, UsageError.
    """
    return _plan(records, targets, job, job, start, end, implies=implies)


def match(
    records: Records,
    vertices: Int32,
    amounts: Int64,
    implied: Sequence[Target],
    job: str,
    start: int,
    end: int,
) -> Batch | list[Change]:
    """Check the allocation of a match; a full check is only needed for a job that holds something already.

    Args:
        vertices, amounts: what the matcher found on the present revision: ascending, each vertex once, none below one that is
            allocated exclusively.
        implied: what it charged below a pool that is allocated exclusively.

    Errors: as :func:`allocate`, for a job that holds something already, because the matcher does not consider that.
    """
    if implied or records.is_holder(job):
        targets = [*zip(vertices.tolist(), amounts.tolist(), strict=True), *implied]
        return _plan(records, targets, job, job, start, end, implies=True)
    size, stop = records.accounts.size, records.accounts.end
    if len(vertices) <= FEW_POOLS_MAX:
        units = amounts.tolist()
        covered = []
        if max(units) > 1:
            several = [(v, n) for v, n in zip(vertices.tolist(), units, strict=True) if n > 1]
            covered = [v for v, amount in several if amount == size.item(v) and stop.item(v) > v + 1]
    elif amounts.max() > 1:
        covered = vertices[(amounts > 1) & (amounts == size[vertices]) & (stop[vertices] > vertices + 1)].tolist()
    else:
        covered = []
    return Batch(vertices, amounts, covered, start, end, NO_ROWS)


def _plan(
    records: Records, targets: Sequence[Target], owner: str, job: str, start: int, end: int, *, implies: Implies = False
) -> list[Change]:
    """Check an allocation to an owner, which is as in `_Asked`."""
    _require_window(start, end)
    require_units(records, targets)
    total: dict[int, int] = {}
    for v, amount in targets:
        total[v] = total.get(v, 0) + amount
    if not total:
        raise UsageError("no pools named", hint="name at least one pool")
    _require_possible(records, total)
    asked = _Asked(total, owner, job, start, end, implies)
    try:
        return _plan_each(records, asked)
    except InsufficientResources as error:
        _say_more(records, asked, error)
        raise


def _plan_each(records: Records, asked: _Asked) -> list[Change]:
    implies = asked.implies
    if not implies:
        changes = [_plan_one(records, asked, v) for v in sorted(asked.units)]
        _require_unnested(records, changes)
        return changes
    changes = []
    covered, holds, owners = _Covered(records.accounts.end), records.is_holder(asked.owner), {asked.owner, asked.job}
    for v in sorted(asked.units):
        around: list[Window] = []
        if implies is True or v in implies:
            around = covered.around(v)
            if holds:
                around += records.exclusive_above(v, asked.owner, *asked.window)
        changes.append(_plan_one(records, asked, v, around))
        covered.add(changes[-1])
        _require_implied_fits(records, changes[-1], asked.job, owners)
    if implies is not True:
        _require_unnested(records, [change for change in changes if change.v not in implies])
    return changes


def _say_more(records: Records, asked: _Asked, error: InsufficientResources) -> None:
    """Let the refusal of the first pool say which others are in the way, and when all of them are free together.

    Errors: UsageError for what cannot be had at any time.
    """
    if len(asked.units) > 1:
        for other in _refusals(records, asked):
            for where, who in other.reasons.items():
                error.reasons.setdefault(where, who)
    _, *others = error.reasons.items()
    if others:
        said = f"also in the way: {listed(f'{where} ({who})' for where, who in others)}"
        error.hint = f"{error.hint}; {said}" if error.hint else said
    if _is_time_known(records, asked):
        error.earliest = _earliest_s(records, asked)
    if error.earliest is not None:
        when = f"{'all are ' * bool(others)}free from {in_message(error.earliest)} on"
        error.hint = f"{error.hint}; {when}" if error.hint else when


def _refusals(records: Records, asked: _Asked) -> list[InsufficientResources]:
    """Those of single pools, at most `limits.POOLS_IN_THE_WAY_MAX`."""
    units, implies = asked.units, asked.implies
    whole = {v for v in units if units[v] == records.accounts.size.item(v)} if implies else set[int]()
    holds, refused = records.is_holder(asked.owner), list[InsufficientResources]()
    for v in sorted(units):
        may_imply = implies is True or (implies and v in implies)
        if may_imply and not whole.isdisjoint(records.accounts.ancestors(v)):
            continue  # a pool above it is asked for as well
        around = records.exclusive_above(v, asked.owner, *asked.window) if may_imply and holds else []
        try:
            _plan_one(records, asked, v, around)
        except InsufficientResources as error:
            refused.append(error)
            if len(refused) == limits.POOLS_IN_THE_WAY_MAX:
                break
    return refused


def _is_time_known(records: Records, asked: _Asked) -> bool:
    """Whether the planner decides when pools are free.

    It does not if a state is in the way, if a pool is named beside one that includes it, or if the owner has some of it already.
    """
    accounts, size = records.accounts, records.accounts.size.item
    units, owner = asked.units, asked.owner
    if len(records.structure.unavailable_roots()) and any(accounts.unavailable_above(v) >= 0 for v in units):
        return False
    if not asked.implies:
        whole = {v for v in units if units[v] == size(v)} if len(units) > 1 else set[int]()
        return not any(not whole.isdisjoint(accounts.ancestors(v)) for v in units) if whole else True
    if not records.is_holder(owner):
        return True
    return not any(records.given(v, owner) or records.exclusive_above(v, owner, *asked.window) for v in units)


def require_units(records: Records, targets: Iterable[Target]) -> None:
    """Refuse an amount below 1."""
    for v, amount in targets:
        if amount < 1:
            raise UsageError(f"amount must be at least 1, got {amount}", where=records.accounts.where(v))


def _require_window(start: int, end: int) -> None:
    if not start < end:
        raise UsageError(
            f"the window ends at {_said(end)}, not after its beginning at {_said(start)}",
            hint="give an end (or a duration) after the start",
        )


def _require_possible(records: Records, wanted: Mapping[int, int]) -> None:
    """Refuse targets that can never be allocated, before any is refused because it is not free now."""
    size, units = records.accounts.size.item, records.accounts.units.item
    for v in sorted(wanted):
        if wanted[v] > size(v):
            raise _too_many(records, v, wanted[v])
        if not units(v):
            raise _way(records, v)


def _plan_one(records: Records, asked: _Asked, v: int, around: Sequence[Window] = ()) -> Change:
    units, owner, job, start, end, _ = asked
    amount, size = units[v], records.accounts.size.item(v)
    if len(records.structure.unavailable_roots()) and (barred := records.accounts.unavailable_above(v)) >= 0:
        raise _barred(records, v, barred)
    change = Change(v, amount, [], [])
    for s, e in steps.without(start, end, list(around)) if around else ((start, end),):
        own = records.steps_of(v, owner)
        if records.accounts.flags.item(v) & EXCLUSIVE and steps.whole(own, s, e, amount, size) != [(s, e)]:
            raise UsageError(
                f"requested {amount} of {size} units of a pool that is only allocated exclusively",
                where=records.accounts.where(v),
                hint=f"ask for all {size}",
            )
        if records.planner.free(v, s, e) < amount:
            raise _taken(records, v, amount, s, e)
        if len(records.structure.exclusive_composites):
            _require_alone(records, v, job, s, e)
        if records.accounts.end.item(v) > v + 1:
            covers = steps.whole(own, s, e, amount, size)
            change.covers += covers
            change.absorbs += _absorbed(records, v, job, owner, covers)
    if around:
        change.implied = steps.inside(start, end, list(around))
    return change


def _require_alone(records: Records, v: int, job: str, start: int, end: int) -> None:
    """Refuse units in an exclusive-only pool in which another job holds something (rule A8)."""
    for u in records.accounts.exclusive_around(v):
        for w, other in records.inside(u, start, end):
            if records.job_behind(other) != job:
                raise _exclusive(records, v, u, w, other)


def _absorbed(records: Records, v: int, job: str, owner: str, covers: list[Window]) -> list[tuple[int, int, int]]:
    """Records of the owner below `v` that holding `v` exclusively implies (rules A3, A5): (vertex, start, end).

    Errors: InsufficientResources if another job holds something there.
    """
    found: list[tuple[int, int, int]] = []
    for start, end in covers:
        if not records.planner.busy_below(v, start, end):
            continue
        for u in records.planner.busy(v + 1, records.accounts.end.item(v), start, end).tolist():
            for other, held in records.held[u].items():
                if not steps.touches(held, start, end):
                    continue
                if other != job:
                    raise _below(records, v, u, other)
                if owner == job:
                    found.append((u, start, end))
    return found


def _require_implied_fits(records: Records, change: Change, job: str, owners: Collection[str]) -> None:
    """Refuse more implied units of a pool than its size: they could not become records when the pool above is freed."""
    if not change.implied:
        return
    had, size = steps.joined([records.given(change.v, owner) for owner in owners]), records.accounts.size.item(change.v)
    for s, e in change.implied:
        most = max((units for _, _, units in steps.within(had, s, e)), default=0)
        if most + change.amount > size:
            raise _beyond(records, change.v, change.amount, most, job)


def _require_unnested(records: Records, changes: list[Change]) -> None:
    reach, above = 0, -1
    for change in changes:
        if change.v < reach:
            raise UsageError(
                f"named beside {records.accounts.where(above)}, which is allocated exclusively and includes it",
                where=records.accounts.where(change.v),
                hint="leave it out",
            )
        if change.covers:
            reach, above = records.accounts.end.item(change.v), change.v


# -- freeing --------------------------------------------------------------------------------------------------------------


def free(
    records: Records,
    job: str,
    targets: Iterable[tuple[int, int | None]] | None,
    start: int | None,
    end: int | None,
    *,
    implied: bool = False,
) -> Batch | list[Piece]:
    """Check a free of all or part of what a job holds.

    Args:
        targets: (vertex, amount or None for all of it); None for every pool of the job.
        start, end: window in ticks; None for all the time that the job holds the pool.
        implied: whether implied units may be freed without the pool above, as when a child instance returns what it drew.

    Returns: the job's batch, or pieces, for :meth:`Records.free`.
    Errors: UnknownJob, NotHeld (naming the pool to free instead if the units are implied).
    """
    everything = targets is None and start is None and end is None and isinstance(job, str)
    if everything and (batch := records.batch_of(job)) is not None:
        return batch
    records.require_job(job)
    wanted: dict[int, int | None] = {} if targets is not None else dict.fromkeys(records.pools_with_implied(job))
    require_units(records, [(v, amount) for v, amount in targets or () if amount is not None])
    for v, amount in targets or ():
        before = wanted.get(v, 0)
        wanted[v] = None if amount is None or before is None else before + amount
    pieces: list[Piece] = []
    lo, hi = (0 if start is None else start), (FOREVER if end is None else end)
    _require_window(lo, hi)
    windowed = start is not None and end is not None
    with_above = implied or targets is None
    for v, amount in wanted.items():
        above = with_above or (len(wanted) > 1 and any(u in wanted for u in records.accounts.ancestors(v)))
        held = _freeable(records, job, v, lo, hi, above)
        pieces.extend(_free_one(records, job, v, held, amount, lo, hi, windowed, targets is None))
    if not pieces:
        raise NotHeld(f"job '{job}' holds nothing in this window", hint="`jobs` shows what it holds")
    if job in records.drawn.ledgers:
        pieces = records.draws_of(job).with_drawn(pieces)
    records.require_room_to_free(job, pieces)
    return pieces


def _freeable(records: Records, job: str, v: int, lo: int, hi: int, with_above: bool) -> Steps:
    """What a job holds of a pool and can free: implied units only together with a pool above (rule A5).

    Errors: NotHeld if the units are implied in a part of the window, and no pool above is named.
    """
    held = records.steps_of(v, job)
    implied = records.implied.get(job, {}).get(v, ())
    if not implied:
        return held
    if not with_above:
        if steps.touches(implied, lo, hi):
            what = "in a part of the window only through a pool above" if steps.touches(held, lo, hi) else "nothing of it"
            raise NotHeld(
                f"job '{job}' holds {what}", where=records.accounts.where(v), hint=_implied_hint(records, job, v, lo, hi)
            )
        return held
    return steps.canonical([*held, *implied])


def _free_one(
    records: Records, job: str, v: int, held: Steps, amount: int | None, lo: int, hi: int, windowed: bool, lenient: bool
) -> list[Piece]:
    parts = list(steps.within(held, lo, hi))
    if not parts:
        if lenient:
            return []
        raise NotHeld(
            f"job '{job}' holds nothing of it", where=records.accounts.where(v), hint=_implied_hint(records, job, v, lo, hi)
        )
    if amount is None:
        left = [(v, units, s, e) for s, e, units in parts]
    else:
        fewest = steps.least(held, lo, hi) if windowed else min(units for _, _, units in parts)
        if fewest < amount:
            raise NotHeld(
                f"cannot free {amount} units: job '{job}' holds {fewest} throughout the window",
                where=records.accounts.where(v),
                hint="free fewer, or name the window with start and end",
            )
        left = [(v, amount, s, e) for s, e, _ in parts]
    if records.accounts.flags.item(v) & EXCLUSIVE and amount is not None and amount < records.accounts.size.item(v):
        raise UsageError(
            f"cannot free {amount} of {records.accounts.size.item(v)} units of a pool that is only allocated exclusively",
            where=records.accounts.where(v),
            hint="free all of it",
        )
    return left


def _implied_hint(records: Records, job: str, v: int, lo: int, hi: int) -> str:
    for u in records.accounts.ancestors(v):
        whole = steps.whole(records.steps_of(u, job), lo, hi, 0, records.accounts.size.item(u))
        if whole:
            beside = " as well, or name a window beside" if steps.touches(records.steps_of(v, job), lo, hi) else ""
            until = "" if whole[0][1] >= FOREVER else f" until {_said(whole[0][1])}"
            times = f" from {_said(whole[0][0])}{until}" if beside else ""
            return f"it is held through {records.accounts.where(u)}{times}: free that{beside}"
    return "`jobs` shows what the job holds"


# -- staging --------------------------------------------------------------------------------------------------------------


def stage(records: Records, staged: Staged, *, implies: Implies = False) -> list[Planned]:
    """Check a stage; arguments and errors as for :func:`allocate`."""
    if staged.stage in records.stages:
        raise UsageError(f"there is a stage '{staged.stage}' already")
    owner = STAGE_OWNER + staged.stage
    return [
        Planned(_plan(records, part.targets, owner, staged.job, part.start, part.end, implies=implies), (part.start, part.end))
        for part in staged.parts()
    ]


def commit(records: Records, stage: str) -> list[Planned]:
    """Check that a stage can become an allocation of its job.

    Errors: StaleHandle; InsufficientResources if the job would hold a pool exclusively in which another job holds something by
    now.
    """
    staged = records.require_stage(stage)
    return [Planned(_commit_part(records, staged.job, part), (part.start, part.end)) for part in staged.parts()]


def _commit_part(records: Records, job: str, part: StagedWindow) -> list[Change]:
    changes, covered = list[Change](), _Covered(records.accounts.end)
    for v, amount in sorted(part.targets):
        changes.append(_commit_one(records, job, part, v, amount, covered.around(v)))
        covered.add(changes[-1])
        _require_implied_fits(records, changes[-1], job, {job})
    return changes


def _commit_one(records: Records, job: str, part: StagedWindow, v: int, amount: int, around: list[Window]) -> Change:
    # The stage holds the units already. Only the sum with the job's own units can have changed.
    start, end = part.start, part.end
    around = around + records.exclusive_above(v, job, start, end)
    change = Change(v, amount, [], [], steps.inside(start, end, around))
    if records.accounts.end.item(v) > v + 1:
        own, size = records.steps_of(v, job), records.accounts.size.item(v)
        for s, e in steps.without(start, end, around):
            covers = steps.whole(own, s, e, amount, size)
            change.covers += covers
            change.absorbs += _absorbed(records, v, job, job, covers)
    return change


def _barred(records: Records, v: int, by: int) -> InsufficientResources:
    """The state of the pool, or of the one above it that is `by`, forbids new work (rule A7)."""
    accounts = records.accounts
    state, at = accounts.pools.state_name(by), accounts.where(by)
    reason = f"it is {is_state(state)}" if by == v else f"{at} is {is_state(state)}"
    return InsufficientResources(
        f"not available: {reason}", where=accounts.where(v), hint=f"set the state of {at} to up", reasons={at: state}
    )


def _way(records: Records, v: int) -> InfeasibleRequest:
    """The pool is a pass-through pool (rule N1)."""
    return InfeasibleRequest(
        "the pool is only a pass-through in this part of the machine, without any units",
        where=records.accounts.where(v),
        hint="its units are in the graph that it was copied from, or left this one with unlink",
    )


def units(amount: int) -> str:
    """An amount, such as ``1 unit``."""
    return plural(amount, "unit")


def _taken(records: Records, v: int, amount: int, start: int, end: int) -> InsufficientResources:
    """Too few units are free, or a pool above is held exclusively."""
    accounts, held = records.accounts, records.held
    above = records.planner.covered_by(v, start, end)
    if above >= 0:
        size = accounts.size.item(above)
        owners = [owner for owner, spans in held.get(above, {}).items() if steps.whole(spans, start, end, 0, size)]
        who = ", ".join(sorted({records.said(owner) for owner in owners}))
        return _refusal(records, v, f"held through {accounts.where(above)} by {who}", {above: who})
    holders = sorted({records.said(o) for o, spans in held.get(v, {}).items() if steps.touches(spans, start, end)})
    who, free = ", ".join(holders), records.planner.free(v, start, end)
    message = f"requested {units(amount)}, {free} of {accounts.size.item(v)} free (held by {who})"
    return _refusal(records, v, message, {v: who})


def _beyond(records: Records, v: int, amount: int, had: int, job: str) -> InsufficientResources:
    """More units of a pool than it has, below one that the job holds exclusively."""
    where, size = records.accounts.where(v), records.accounts.size.item(v)
    message = f"requested {units(amount)}, {max(size - had, 0)} of {size} free (held by {job})"
    return InsufficientResources(message, where=where, reasons={where: job})


def _below(records: Records, v: int, u: int, owner: str) -> InsufficientResources:
    """The pool would be held exclusively, and another job holds `u` below it (rule A3)."""
    who = records.said(owner)
    message = f"cannot be allocated exclusively: {who} holds {records.accounts.where(u)} in it"
    return _refusal(records, v, message, {u: who})


def _exclusive(records: Records, v: int, u: int, held: int, other: str) -> InsufficientResources:
    """A pool at or above it is for one job at a time, and another job holds something in it (rule A8)."""
    where, who = records.accounts.where, records.said(other)
    message = f"{where(u)} is exclusive to one job, and {who} holds {where(held)} in it"
    return _refusal(records, v, message, {u: who})


def _too_many(records: Records, v: int, amount: int) -> InfeasibleRequest:
    """More units than a pool or an edge has."""
    size, unit = records.accounts.size.item(v), records.accounts.unit(v)
    if not records.accounts.is_edge(v):
        message = f"requested {units(amount)} of a pool of {size}"
    elif unit:
        message = f"requested {amount} {unit} of an edge that carries {size} {unit}"
    else:
        message = f"requested {units(amount)} of an edge that carries {size}"
    return InfeasibleRequest(message, where=records.accounts.where(v), hint=f"ask for at most {size}")


def _refusal(records: Records, v: int, message: str, reasons: dict[int, str]) -> InsufficientResources:
    where = records.accounts.where
    return InsufficientResources(message, where=where(v), reasons={where(u): who for u, who in reasons.items()})


def _earliest_s(records: Records, asked: _Asked) -> float | None:
    """First start from the window on at which all of it is free for the same time; None if there is none, or it is unknown."""
    units, job, (start, end) = asked.units, asked.job, asked.window
    for v in units:
        leaf = records.accounts.end.item(v) == v + 1
        if not leaf and (job in records.shared.get(v, ()) or records.steps_of(v, job)):
            return None  # the job's own units would count, and the planner knows no jobs
    length, demands = end - start if end < clock.FOREVER else clock.FOREVER, list(units.items())
    may_be_alone = bool(len(records.structure.exclusive_composites))

    def left(earliest: int) -> int:
        until = min(earliest + length, clock.FOREVER)
        return max(_left(records, v, job, earliest, until) for v in units) if may_be_alone else 0

    earliest = records.planner.earliest(demands, length, start)
    while earliest is not None and (begin := left(earliest)):
        # Another job holds something in an exclusive pool above, and has to free that first.
        earliest = None if begin >= clock.FOREVER else records.planner.earliest(demands, length, begin)
    return None if earliest is None else clock.seconds(earliest)


def _left(records: Records, v: int, job: str, start: int, end: int) -> int:
    """When the first of the other jobs in an exclusive pool above frees what it holds there in a window; 0 for none."""
    ends = [
        e
        for u in records.accounts.exclusive_around(v)
        for w, owner in records.inside(u, start, end)
        if records.job_behind(owner) != job
        for _, e, _ in steps.within(records.held[w][owner], start, clock.FOREVER)
        if e > start
    ]
    return min(ends, default=0)

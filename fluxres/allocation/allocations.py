"""Allocations, made and taken back: checked as a whole against the state before, then applied as a whole.

Nothing between the two can fail, so a refused change leaves no trace.  What follows from the records is kept beside them: the
planner's rows, which say how much is free when, and which pools are held whole.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fluxres import clock
from fluxres.allocation import drawn as drawing
from fluxres.allocation import refusals, steps
from fluxres.allocation.drawn import NO_ROWS, Consumers, Rows
from fluxres.allocation.holdings import Batch, Holdings, Piece, Target
from fluxres.allocation.steps import Steps
from fluxres.allocation.subtrees import Subtrees, topmost
from fluxres.errors import FluxresError, NotHeld, UsageError
from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import EXCLUSIVE
from fluxres.graph.structure import Structure
from fluxres.planner.lines import FEW_POOLS_MAX
from fluxres.planner.planner import Planner
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    from fluxres.allocation.own_draws import OwnDraws

Implies = bool | frozenset[int]
"""Whether what lies below a pool held whole is implied by it; or which accounts are."""


@dataclass(slots=True)
class Change:
    """One checked step of an allocation: what applying it does.

    Args:
        covers: windows in which the pool comes to be held whole.
        absorbs: own records below that the whole holding implies from now on: (vertex, start, end).
        implied: windows in which a whole holding of the owner implies these units, so that nothing is recorded.
    """

    v: int
    amount: int
    covers: list[tuple[int, int]]
    absorbs: list[tuple[int, int, int]]
    implied: list[tuple[int, int]] = field(default_factory=list)


class Covered:
    """What changes, planned in the order of their pools, hold whole around the pool that comes next."""

    def __init__(self, holdings: Holdings) -> None:
        self._end = holdings.accounts.end.item
        self._above: list[Change] = []

    def around(self, v: int) -> list[tuple[int, int]]:
        """Windows in which a pool around this one is held whole."""
        self._leave(v)
        return [window for change in self._above for window in change.covers]

    def add(self, change: Change) -> None:
        """One more change, of the pool that came next."""
        self._leave(change.v)
        if change.covers:
            self._above.append(change)

    def _leave(self, v: int) -> None:
        while self._above and v >= self._end(self._above[-1].v):
            self._above.pop()


def _given_back(pieces: Iterable[Piece]) -> dict[int, Steps]:
    """By account, the units over time that pieces take back."""
    gone: dict[int, Steps] = {}
    for v, amount, s, e in pieces:
        gone[v] = steps.add(gone.get(v, ()), s, e, amount)
    return gone


def _said(tick: int) -> str:
    return in_message(clock.seconds(tick))


class Allocations(Holdings):
    """What is held, and the checks and changes of it that an owner, a job or a stage, asks for.

    Args:
        structure: the generation the vertex numbers belong to.
        planner: empty, over the same structure.
    """

    def __init__(self, structure: Structure, planner: Planner) -> None:
        super().__init__(structure)
        self.planner = planner
        self._own_draws: OwnDraws | None = None

    # -- checking ----------------------------------------------------------------------------------------------------

    def _check_window(self, start: int, end: int) -> None:
        if not start < end:
            raise UsageError(
                f"the window ends at {_said(end)}, not after its beginning at {_said(start)}",
                hint="give an end (or a duration) after the start",
            )

    def _plan(
        self, targets: Sequence[Target], owner: str, job: str, start: int, end: int, *, implies: Implies = False
    ) -> list[Change]:
        """Check an allocation as a whole; what applying it will do."""
        self._check_window(start, end)
        wanted: dict[int, int] = {}
        for v, amount in targets:
            if amount < 1:
                raise UsageError(f"amount must be at least 1, got {amount}", where=self.accounts.where(v))
            wanted[v] = wanted.get(v, 0) + amount
        if not wanted:
            raise UsageError("no pools named", hint="name at least one pool")
        self._require_possible(wanted)
        if not implies:
            changes = [self._plan_one(v, wanted[v], owner, job, start, end) for v in sorted(wanted)]
            self._check_nesting(changes)
            return changes
        changes = []
        covered = Covered(self)
        for v in sorted(wanted):
            around: list[tuple[int, int]] = []
            if implies is True or v in implies:
                around = [*covered.around(v), *self.whole_above(v, owner, start, end)]
            changes.append(self._plan_one(v, wanted[v], owner, job, start, end, around))
            covered.add(changes[-1])
            self._require_implied_fits(changes[-1], job, {owner, job})
        if implies is not True:
            self._check_nesting([change for change in changes if change.v not in implies])
        return changes

    def _require_possible(self, wanted: Mapping[int, int]) -> None:
        """Refuse what can never be given, before anything is refused because it is not free now."""
        size, units = self.accounts.size.item, self.accounts.units.item
        for v in sorted(wanted):
            if wanted[v] > size(v):
                raise refusals.too_many(self, v, wanted[v])
            if not units(v):
                raise refusals.way(self, v)

    def _require_implied_fits(self, change: Change, job: str, owners: Collection[str]) -> None:
        """Refuse more units below a pool held whole than there are: they would be records that do not fit, once that goes."""
        if not change.implied:
            return
        had, size = steps.joined([self.given(change.v, owner) for owner in owners]), self.accounts.size.item(change.v)
        for s, e in change.implied:
            most = max((units for _, _, units in steps.within(had, s, e)), default=0)
            if most + change.amount > size:
                raise refusals.beyond(self, change.v, change.amount, most, job)

    def _plan_one(
        self, v: int, amount: int, owner: str, job: str, start: int, end: int, around: Sequence[tuple[int, int]] = ()
    ) -> Change:
        size = self.accounts.size.item(v)
        if len(self.structure.unavailable_roots()) and (barred := self.accounts.unavailable_above(v)) >= 0:
            raise refusals.barred(self, v, barred)
        change = Change(v, amount, [], [])
        for s, e in steps.without(start, end, list(around)) if around else ((start, end),):
            own = self.steps_of(v, owner)
            if self.accounts.flags.item(v) & EXCLUSIVE and steps.whole(own, s, e, amount, size) != [(s, e)]:
                raise UsageError(
                    f"{amount} of {size} units wanted of a pool that is only allocated exclusively",
                    where=self.accounts.where(v),
                    hint=f"ask for all {size}",
                )
            if self.planner.free(v, s, e) < amount:
                raise refusals.taken(self, v, amount, job, s, e)
            if len(self.structure.exclusive_composites):
                self._require_alone(v, amount, job, s, e)
            if self.accounts.end.item(v) > v + 1:
                covers = steps.whole(own, s, e, amount, size)
                change.covers += covers
                change.absorbs += self._absorbed(v, amount, job, owner, covers)
        if around:
            change.implied = steps.inside(start, end, list(around))
        return change

    def _require_alone(self, v: int, amount: int, job: str, start: int, end: int) -> None:
        """Refuse units in a pool that is for one job at a time, and another is there (rule A8)."""
        for u in self.accounts.exclusive_around(v):
            for w, other in self.inside(u, start, end):
                if other != job:
                    raise refusals.exclusive(self, v, amount, job, u, w, other, start, end)

    def inside(self, v: int, start: int, end: int) -> Iterator[tuple[int, str]]:
        """Records below a pool that touch a window: the pool held, and the job."""
        stop = self.accounts.end.item(v)
        for owner in self.shared.get(v, ()):
            for u in self.pools_of[owner]:
                if v < u < stop and steps.touches(self.held[u][owner], start, end):
                    yield u, self.job_behind(owner)

    def _absorbed(self, v: int, amount: int, job: str, owner: str, covers: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """Own records below `v` that its whole holding makes needless (rules A3, A5): (vertex, start, end)."""
        found: list[tuple[int, int, int]] = []
        for start, end in covers:
            if not self.planner.busy_below(v, start, end):
                continue
            for u in self.planner.busy(v + 1, self.accounts.end.item(v), start, end).tolist():
                for other, held in self.held[u].items():
                    if not steps.touches(held, start, end):
                        continue
                    if other != job:
                        raise refusals.below(self, v, amount, job, u, other, start, end)
                    if owner == job:
                        found.append((u, start, end))
        return found

    def _check_nesting(self, changes: list[Change]) -> None:
        reach, above = 0, -1
        for change in changes:
            if change.v < reach:
                raise UsageError(
                    f"named beside {self.accounts.where(above)}, which is taken whole and implies it",
                    where=self.accounts.where(change.v),
                    hint="leave it out",
                )
            if change.covers:
                reach, above = self.accounts.end.item(change.v), change.v

    def plan_allocate(
        self, targets: Sequence[Target], job: str, start: int, end: int, *, implies: Implies = False
    ) -> list[Change]:
        """Check an allocation without making it.

        Args:
            targets: (vertex, amount); a vertex named twice adds up.
            job: that grows, where it already holds some.
            start, end: window in ticks.
            implies: pools below one that is held whole are implied by it, all or these; else naming them is an error.

        Errors: InsufficientResources with the earliest time, InfeasibleRequest, UsageError; in every case nothing changes.
        """
        return self._plan(targets, job, job, start, end, implies=implies)

    def plan_match(
        self,
        vertices: Int32,
        amounts: NDArray[np.int64],
        implied: Sequence[Target],
        job: str,
        start: int,
        end: int,
    ) -> Batch | list[Change]:
        """As :meth:`plan_allocate`, for pools that were found free on the present state.

        Args:
            vertices, amounts: what the matcher found on this very revision: ascending, each vertex once, none below one that
                is taken whole.
            implied: what it charged below a pool that is taken whole.

        Errors: as :meth:`plan_allocate`, where the job holds something already, which a matcher does not know.
        """
        if implied or self.is_holder(job):
            targets = [*zip(vertices.tolist(), amounts.tolist(), strict=True), *implied]
            return self._plan(targets, job, job, start, end, implies=True)
        size, stop = self.accounts.size, self.accounts.end
        if len(vertices) <= FEW_POOLS_MAX:
            few = zip(vertices.tolist(), amounts.tolist(), strict=True)
            covered = [v for v, amount in few if amount > 1 and amount == size.item(v) and stop.item(v) > v + 1]
        elif amounts.max() > 1:
            covered = vertices[(amounts > 1) & (amounts == size[vertices]) & (stop[vertices] > vertices + 1)].tolist()
        else:
            covered = []
        return Batch(vertices, amounts, covered, start, end)

    # -- giving ------------------------------------------------------------------------------------------------------

    def allocate(
        self,
        planned: Batch | Sequence[Change],
        owner: str,
        start: int,
        end: int,
        slots: int = 0,
        drawn: Rows = NO_ROWS,
        *,
        drawn_on: bool = True,
        is_routed: bool | None = None,
    ) -> None:
        """Apply what :meth:`plan_allocate` or :meth:`plan_match` found to be right.

        Args:
            slots: of the request that this answers; 0 where pools were named.
            drawn: for which pools what of it is drawn.
            drawn_on: what else is held on may have been drawn for a pool that is held on as well.
            is_routed: whether some of it is drawn along routes; None for what the owner had before, or where it is not known.
        """
        self._note_route(owner, is_routed)
        before = self.slots_of.get(owner, 0)
        if not before and self.is_holder(owner):
            slots = 0  # nobody knows how many slots the pools are that it holds already
        # The planner first: it is the one that may still refuse, for its bounds, and then nothing has changed.
        if isinstance(planned, Batch):
            self._hold(planned.vertices, planned.amounts, start, end)
            for v in planned.covered:
                self.planner.cover(v, start, end, True)
            self._batches[owner] = replace(planned, drawn=drawn) if len(drawn) else planned
            if slots:
                self.slots_of[owner] = slots
            return
        self._apply(planned, owner, start, end)
        if drawn_on and owner in self.drawn.ledgers:
            self._draw_on(owner, planned, start, end, drawn)
        if len(drawn):
            self.drawn.add(owner, drawn, start, end)
        if slots:
            self.slots_of[owner] = before + slots
        elif before:
            del self.slots_of[owner]

    def _note_route(self, owner: str, is_routed: bool | None) -> None:
        if is_routed:
            self.upward.discard(owner)
            if self.upstream is not None:
                self.upstream.note_route()
        elif not self.is_holder(owner):
            if is_routed is None:
                self.upward.discard(owner)
            else:
                self.upward.add(owner)

    def _apply(self, planned: Sequence[Change], owner: str, start: int, end: int) -> None:
        for change in planned:
            if change.absorbs or change.implied:
                self._apply_around(planned, owner, start, end)
                return
        self._hold([change.v for change in planned], [change.amount for change in planned], start, end)
        self._record(planned, owner, start, end)

    def _record(self, changes: Iterable[Change], owner: str, start: int, end: int) -> None:
        for change in changes:
            self._note(change.v, owner, change.amount, start, end)
            if change.covers:
                self._cover(change.v, change.covers)

    def _apply_around(self, planned: Sequence[Change], owner: str, start: int, end: int) -> None:
        """Apply what makes own records needless, or is implied by a whole holding itself."""
        absorbed = [(u, s, e) for change in planned for u, s, e in change.absorbs]
        for u, s, e in absorbed:
            self._absorb(u, owner, s, e)
        recorded = [change for change in planned if not change.implied]
        implied = [(change.v, change.amount, s, e) for change in planned for s, e in change.implied]
        between = [change for change in planned if change.implied]
        beside = [(change.v, change.amount, s, e) for change in between for s, e in steps.without(start, end, change.implied)]
        with ExitStack() as undo:
            for u, s, e in sorted(absorbed, reverse=True):
                undo.callback(self._return_implied, u, owner, s, e)
            for v, amount, s, e in implied:
                self._imply(v, owner, amount, s, e)
                undo.callback(self._imply, v, owner, -amount, s, e)
            for v, amount, s, e in beside:
                self._hold([v], [amount], s, e)
                undo.callback(self._release, [v], [amount], s, e)
            if recorded:
                self._hold([change.v for change in recorded], [change.amount for change in recorded], start, end)
            undo.pop_all()
        self._record(recorded, owner, start, end)
        for v, amount, s, e in beside:
            self._enter(v, owner, amount, s, e)

    def _cover(self, v: int, windows: Iterable[tuple[int, int]]) -> None:
        if self.accounts.size.item(v) > 1:
            for s, e in windows:
                self.planner.cover(v, s, e, True)

    def _absorb(self, v: int, owner: str, start: int, end: int) -> None:
        """Make what the owner records of `v` in the window implied by a whole holding that is about to be made above."""
        for s, e, amount in list(steps.within(self.held[v][owner], start, end)):
            self._uncover(v, owner, s, e)
            self.planner.release(v, amount, s, e)
            self._erase(v, owner, amount, s, e)
            self._note_implied(v, owner, amount, s, e)

    def _return_implied(self, top: int, owner: str, start: int, end: int) -> None:
        """Record again what is at `top` or below it and no longer implied by a whole holding above, in the window (rule A6)."""
        pools = self.implied.get(owner)
        if not pools:
            return
        for v in sorted(v for v in pools if top <= v < self.accounts.end.item(top)):
            for s, e, amount in list(steps.within(self.implied.get(owner, {}).get(v, ()), start, end)):
                for lo, hi in steps.without(s, e, self.whole_above(v, owner, s, e)):
                    self._note_implied(v, owner, -amount, lo, hi)
                    self._put(v, owner, amount, lo, hi)

    def _put(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        """Record units that the owner has already; those that come from above the graph were given before."""
        self.planner.hold(v, amount, start, end)
        self._enter(v, owner, amount, start, end)

    def _enter(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        """Write the record of units that the planner counts as held."""
        covers = []
        if self.accounts.end.item(v) > v + 1:
            covers = steps.whole(self.steps_of(v, owner), start, end, amount, self.accounts.size.item(v))
        self._note(v, owner, amount, start, end)
        self._cover(v, covers)

    def _hold(self, vertices: Sequence[int] | Int32, amounts: Sequence[int] | NDArray[np.int64], start: int, end: int) -> None:
        if self.upstream is not None:
            self.upstream.take(vertices, amounts, start, end)
        try:
            if len(vertices) == 1:
                self.planner.hold(int(vertices[0]), int(amounts[0]), start, end)
            else:
                self.planner.hold_all(vertices, amounts, start, end)
        except FluxresError:
            if self.upstream is not None:
                self.upstream.give(vertices, amounts, start, end)
            raise

    def _release(self, vertices: Sequence[int] | Int32, amounts: Sequence[int] | NDArray[np.int64], start: int, end: int) -> None:
        if len(vertices) == 1:
            self.planner.release(int(vertices[0]), int(amounts[0]), start, end)
        else:
            self.planner.release_all(vertices, amounts, start, end)
        if self.upstream is not None:
            self.upstream.give(vertices, amounts, start, end)

    # -- taking back -------------------------------------------------------------------------------------------------

    def _shrink(self, pieces: Sequence[Piece], owner: str, start: int, end: int) -> None:
        """Take back pieces of one window."""
        has_implied = owner in self.implied
        if has_implied:
            pieces = self._take_implied(pieces, owner)
        for v, _, s, e in pieces:
            self._uncover(v, owner, s, e)
        if not has_implied or all(piece[2:] == (start, end) for piece in pieces):
            if pieces:
                self._release([piece[0] for piece in pieces], [piece[1] for piece in pieces], start, end)
        else:
            for v, amount, s, e in pieces:
                self._release([v], [amount], s, e)
        for v, amount, s, e in pieces:
            self._erase(v, owner, amount, s, e)
        if has_implied:
            for v, _, s, e in sorted(pieces):
                self._return_implied(v, owner, s, e)

    def _take_implied(self, pieces: Sequence[Piece], owner: str) -> list[Piece]:
        """Take back the parts of pieces that are implied; the parts that are recorded."""
        recorded: list[Piece] = []
        for v, amount, start, end in pieces:
            implied = [(s, e) for s, e, _ in steps.within(self.implied.get(owner, {}).get(v, ()), start, end)]
            for s, e in implied:
                self._imply(v, owner, -amount, s, e)
            recorded += [(v, amount, s, e) for s, e in steps.without(start, end, implied)]
        return recorded

    def _uncover(self, v: int, owner: str, start: int, end: int) -> None:
        size = self.accounts.size.item(v)
        if size > 1 and self.accounts.end.item(v) > v + 1:
            for s, e in steps.whole(self.held[v][owner], start, end, 0, size):
                self.planner.cover(v, s, e, False)

    def plan_free(
        self,
        job: str,
        targets: Iterable[tuple[int, int | None]] | None,
        start: int | None,
        end: int | None,
        *,
        implied: bool = False,
    ) -> Batch | list[Piece]:
        """Check a free or a shrink without making it.

        Args:
            job: that gives back.
            targets: (vertex, amount or None for all of it); None for every pool of the job.
            start, end: window in ticks; None for the whole time the job holds the pool.
            implied: what is implied may go back without the pool above: an instance below the job drew it, and has no use for it.

        Returns: (vertex, amount, start, end) pieces, or all of a batch, for :meth:`free`.
        Errors: UnknownJob, NotHeld (naming the pool to free instead where the hold is implied); nothing changes.
        """
        everything = targets is None and start is None and end is None and isinstance(job, str)
        if everything and (batch := self._batches.get(job)) is not None:
            return batch
        self.require_job(job)
        wanted: dict[int, int | None] = {} if targets is not None else dict.fromkeys(self.pools_with_implied(job))
        for v, amount in targets or ():
            if amount is not None and amount < 1:
                raise UsageError(f"amount must be at least 1, got {amount}", where=self.accounts.where(v))
            before = wanted.get(v, 0)
            wanted[v] = None if amount is None or before is None else before + amount
        pieces: list[Piece] = []
        lo, hi = (0 if start is None else start), (clock.FOREVER if end is None else end)
        self._check_window(lo, hi)
        windowed = start is not None and end is not None
        with_above = implied or targets is None
        for v, amount in wanted.items():
            above = with_above or (len(wanted) > 1 and any(u in wanted for u in self.accounts.ancestors(v)))
            held = self._freeable(job, v, lo, hi, above)
            pieces.extend(self._plan_free_one(job, v, held, amount, lo, hi, windowed, targets is None))
        if not pieces:
            raise NotHeld(f"job '{job}' holds nothing in this window", hint="`allocated` shows what it holds")
        pieces = self._with_what_goes_along(job, pieces)
        self._require_room(job, pieces)
        return pieces

    def _require_room(self, job: str, pieces: Sequence[Piece]) -> None:
        """Refuse before anything changes what the planner would refuse in the middle, for its bounds.

        Errors: LimitExceeded, also where the windows together would just have fitted one after the other.
        """
        implied = self.implied.get(job)
        if not implied and self.planner.has_room(len(pieces)):
            return
        windows: dict[tuple[int, int], list[int]] = {}
        for v, _, start, end in pieces:
            windows.setdefault((start, end), []).append(v)
        if implied:
            for start, end in list(windows):
                for v, held in implied.items():  # it may become a record again
                    for s, e, _ in steps.within(held, start, end):
                        windows.setdefault((s, e), []).append(v)
        self.planner.require_room(windows)

    def _freeable(self, job: str, v: int, lo: int, hi: int, with_above: bool) -> Steps:
        """What a job holds of a pool and can give back: what is implied only with a pool above (rule A5).

        Errors: NotHeld where a part of the window is only implied, and no pool above is named.
        """
        held = self.steps_of(v, job)
        implied = self.implied.get(job, {}).get(v, ())
        if not implied:
            return held
        if not with_above:
            if steps.touches(implied, lo, hi):
                what = "in a part of the window only through a pool above" if steps.touches(held, lo, hi) else "nothing of it"
                raise NotHeld(f"job '{job}' holds {what}", where=self.accounts.where(v), hint=self._implied_hint(job, v, lo, hi))
            return held
        return steps.canonical([*held, *implied])

    def _plan_free_one(
        self, job: str, v: int, held: Steps, amount: int | None, lo: int, hi: int, windowed: bool, lenient: bool
    ) -> list[Piece]:
        parts = list(steps.within(held, lo, hi))
        if not parts:
            if lenient:
                return []
            raise NotHeld(
                f"job '{job}' holds nothing of it", where=self.accounts.where(v), hint=self._implied_hint(job, v, lo, hi)
            )
        if amount is None:
            left = [(v, units, s, e) for s, e, units in parts]
        else:
            fewest = steps.least(held, lo, hi) if windowed else min(units for _, _, units in parts)
            if fewest < amount:
                raise NotHeld(
                    f"{amount} units to be freed, job '{job}' holds {fewest} throughout the time asked",
                    where=self.accounts.where(v),
                    hint="free fewer, or name the window with start and end",
                )
            left = [(v, amount, s, e) for s, e, _ in parts]
        if self.accounts.flags.item(v) & EXCLUSIVE and amount is not None and amount < self.accounts.size.item(v):
            raise UsageError(
                f"{amount} of {self.accounts.size.item(v)} units of a pool that is only allocated exclusively",
                where=self.accounts.where(v),
                hint="free all of it",
            )
        return left

    def _implied_hint(self, job: str, v: int, lo: int, hi: int) -> str:
        for u in self.accounts.ancestors(v):
            whole = steps.whole(self.steps_of(u, job), lo, hi, 0, self.accounts.size.item(u))
            if whole:
                beside = " as well, or name a window beside" if steps.touches(self.steps_of(v, job), lo, hi) else ""
                until = "" if whole[0][1] >= clock.FOREVER else f" until {_said(whole[0][1])}"
                times = f" from {_said(whole[0][0])}{until}" if beside else ""
                return f"it is held through {self.accounts.where(u)}{times}: free that{beside}"
        return "`allocated` shows what the job holds"

    def free(self, planned: Batch | Iterable[Piece], job: str, slots: int = 0) -> None:
        """Apply what :meth:`plan_free` found to be right.

        Args:
            slots: that go back, where a request says what does; of what is left of a part nobody knows how many slots it is,
                nor where a pool goes back in windows apart.
        """
        left = self.slots_of.pop(job, 0) - slots
        if slots and left > 0 and (isinstance(planned, Batch) or not self._recurs(job, planned := list(planned))):
            self.slots_of[job] = left
        if isinstance(planned, Batch):
            if job in self._batches:
                for v in planned.covered:
                    self.planner.cover(v, planned.start, planned.end, False)
                self._release(planned.vertices, planned.amounts, planned.start, planned.end)
                del self._batches[job]
                self.upward.discard(job)
                return
            planned = planned.pieces()  # somebody looked at the records since it was planned
        by_window: dict[tuple[int, int], list[Piece]] = {}
        for piece in planned:
            by_window.setdefault(piece[2:], []).append(piece)
        lost: list[tuple[Consumers, int, Steps]] = []
        if job in self.drawn.ledgers:
            lost = self._own_draws_lost(job, _given_back(piece for together in by_window.values() for piece in together))
        for window, together in by_window.items():
            self._shrink(together, job, *window)
        if not self.is_holder(job) and job not in self.implied:
            self.slots_of.pop(job, None)
            self.upward.discard(job)
        if job in self.drawn.ledgers:
            for consumers, account, held in lost:
                self.drawn.drop(job, consumers, account, held)
        if job in self.drawn.ledgers:
            self._settle_drawn(job, {piece[0] for together in by_window.values() for piece in together})

    def _recurs(self, job: str, planned: Sequence[Piece]) -> bool:
        """Whether a pool is given back in windows apart: each may have been a slot of its own."""
        ledger = self.drawn.ledgers.get(job)
        pools = [piece[0] for piece in planned if ledger is None or piece[0] not in ledger.held]
        return len(set(pools)) < len(pools)

    # -- what was drawn for pools ------------------------------------------------------------------------------------

    def _with_what_goes_along(self, job: str, pieces: list[Piece]) -> list[Piece]:
        """Pieces, and what was drawn for pools of which the job has nothing left then (rule F2); of a pool each moment once."""
        if job not in self.drawn.ledgers:
            return pieces
        gone = _given_back(pieces)
        more: dict[int, Steps] = {}
        for consumers, windows in self._left_alone(job, gone, gone):
            for account, held in self.drawn.of(job, consumers).items():
                more[account] = steps.joined([more.get(account, ()), steps.clipped(held, windows)])
        for _, account, held in self._own_draws_lost(job, gone):
            more[account] = steps.joined([more.get(account, ()), held])
        # What is named beside the pool it was drawn for is not taken twice, and nothing is that is not held: so no free can fail.
        rest = drawing.minus(more, gone)
        rest = {account: steps.least_of(held, self._had(job, account, gone)) for account, held in rest.items()}
        own = [piece for piece in pieces if piece[0] not in rest]
        joined = {account: steps.joined([gone.get(account, ()), held]) for account, held in sorted(rest.items())}
        return own + [(account, amount, s, e) for account, held in joined.items() for s, e, amount in held]

    def _own_draws_lost(self, job: str, gone: Mapping[int, Steps]) -> list[tuple[Consumers, int, Steps]]:
        """What pools drew by themselves that a job gives back and of which it keeps parts: that goes with the pools (rule F2)."""
        found: list[tuple[Consumers, int, Steps]] = []
        if not self.structure.kinds.may_draw or job not in self.drawn.ledgers:
            return found
        pools = self.pools_with_implied(job)
        singles = sorted(consumers[0] for consumers in self.drawn.ledgers[job].accounts if len(consumers) == 1)
        for consumers, alone in self._left_alone(job, gone, gone):
            if len(consumers) == 1:
                inside = singles[bisect_right(singles, consumers[0]) : bisect_left(singles, self.accounts.end.item(consumers[0]))]
                lost = self._lost_of(job, consumers[0], gone, pools, inside, steps.without(0, clock.FOREVER, alone))
                found += [(consumers, account, spans) for account, spans in lost.items()]
        return found

    def _lost_of(
        self,
        job: str,
        v: int,
        gone: Mapping[int, Steps],
        pools: list[int],
        inside: list[int],
        used: list[tuple[int, int]],
    ) -> dict[int, Steps]:
        """By account, what is drawn for a pool that pools drew by themselves of which a job no longer has all.

        Args:
            pools: what it has.
            inside: pools in this one for which something is drawn apart.
            used: windows in which it keeps something there.
        """
        end = self.accounts.end.item(v)
        around = [*self.accounts.ancestors(v), *pools[bisect_left(pools, v) : bisect_left(pools, end)]]
        parts = [(u, had, self._had(job, u, gone)) for u in around if (had := self.given(u, job))]
        going = [window[:2] for _, had, left in parts if had != left for window in steps.excess(had, left)]
        if not any(s < until and since < e for s, e in going for since, until in used):
            return {}
        drawn, apart = self.drawn.of(job, (v,)), {u: self.drawn.of(job, (u,)) for u in inside}
        every = [*(held for _, had, left in parts for held in (had, left)), *drawn.values()]
        every += [held for by_account in apart.values() for held in by_account.values()]
        moments = sorted({at for held in every for s, e, _ in held for at in (s, e)})
        found: dict[int, list[tuple[int, int, int]]] = {}
        for start, stop in pairwise(moments):
            if not (any(s <= start < e for s, e in used) and any(s <= start < e for s, e in going)):
                continue
            before = self._whole_at(v, [(u, had) for u, had, _ in parts], start)
            after = self._whole_at(v, [(u, left) for u, _, left in parts], start)
            if before == after:
                continue
            held = {account: units for account, spans in drawn.items() if (units := steps.amount_at(spans, start))}
            others = {
                u: {account for account, spans in by_account.items() if steps.amount_at(spans, start)}
                for u, by_account in apart.items()
            }
            for account, units in self._by_itself.lost(v, held, before, after, others).items():
                found.setdefault(account, []).append((start, stop, units))
        return {account: steps.canonical(spans) for account, spans in found.items()}

    @property
    def _by_itself(self) -> OwnDraws:
        if self._own_draws is None:
            from fluxres.allocation.own_draws import OwnDraws  # the matcher, which nothing else here needs

            self._own_draws = OwnDraws(self.structure)
        return self._own_draws

    def _whole_at(self, v: int, parts: Iterable[tuple[int, Steps]], moment: int) -> Subtrees:
        """Of a pool and those in it, the topmost of which all is held at a moment, by themselves or by one above."""
        size, end = self.accounts.size.item, self.accounts.end.item
        return topmost([(max(u, v), min(end(u), end(v))) for u, held in parts if steps.amount_at(held, moment) == size(u)])

    def _whole_windows(self, owner: str, v: int, gone: Mapping[int, Steps]) -> list[tuple[int, int]]:
        """Windows, disjoint, in which an owner has all of a pool, by itself or by one above."""
        found: list[tuple[int, int]] = []
        for u in (v, *self.accounts.ancestors(v)):
            found += steps.whole(self._had(owner, u, gone), 0, clock.FOREVER, 0, self.accounts.size.item(u))
        return steps.inside(0, clock.FOREVER, found)

    def has_throughout(self, owner: str, v: int, start: int, end: int) -> bool:
        """Whether an owner has all of a pool in the whole of a window."""
        return not steps.without(start, end, self._whole_windows(owner, v, {}))

    def _draw_on(self, owner: str, planned: Sequence[Change], start: int, end: int, drawn: Rows) -> None:
        """What is held on from the moment at which it was drawn for a pool, which is held on as well, is drawn for that.

        Args:
            drawn: for which pools what of it is drawn, as far as that is known.
        """
        pools: list[int] | None = None
        anew = set(drawn[:, 1].tolist())
        for change in planned:
            if change.v in anew:
                continue  # the caller knows what it is drawn for
            left = change.amount
            for consumers, units in self.drawn.ending(owner, change.v, start):
                pools = pools or self.pools_with_implied(owner)
                used = [window for v in consumers for window in self.windows_of(owner, v, {}, pools)]
                if units <= left and any(s <= start < e for s, e in used):
                    self.drawn.put(owner, consumers, change.v, ((start, end, units),))
                    left -= units

    def _settle_drawn(self, owner: str, vertices: Collection[int]) -> None:
        """Once these were given back: forget what was drawn for pools of which nothing is left, and more than is held."""
        if owner not in self.pools_of and owner not in self.implied:
            self.drawn.forget(owner)
            return
        for consumers, windows in self._left_alone(owner, vertices, {}):
            for account, held in self.drawn.of(owner, consumers).items():
                if part := steps.clipped(held, windows):
                    self.drawn.drop(owner, consumers, account, part)
        for v in vertices:
            self.drawn.trim(owner, v, self._had(owner, v, {}))

    def _left_alone(
        self, owner: str, vertices: Iterable[int], gone: Mapping[int, Steps]
    ) -> Iterator[tuple[Consumers, list[tuple[int, int]]]]:
        """Pools near others for which something was drawn, and windows in which the owner has nothing of them.

        Args:
            gone: by vertex, what is about to be given back.
        """
        pools = self.pools_with_implied(owner)
        for consumers in self.drawn.related(owner, vertices, self.accounts.end):
            used = [window for v in consumers for window in self.windows_of(owner, v, gone, pools)]
            yield consumers, steps.without(0, clock.FOREVER, used)

    def windows_of(self, owner: str, v: int, gone: Mapping[int, Steps], pools: list[int]) -> list[tuple[int, int]]:
        """Windows in which an owner has a pool or something in it; what was drawn there for others does not count."""
        inside = pools[bisect_left(pools, v) : bisect_left(pools, self.accounts.end.item(v))]
        found = [(s, e) for u in inside for s, e, _ in steps.excess(self._had(owner, u, gone), self.drawn.total(owner, u))]
        for u in self.accounts.ancestors(v):
            found += steps.whole(self._had(owner, u, gone), 0, clock.FOREVER, 0, self.accounts.size.item(u))
        return found

    def _had(self, owner: str, v: int, gone: Mapping[int, Steps]) -> Steps:
        """What an owner holds of an account, implied or not, without what is about to go."""
        return steps.excess(self.given(v, owner), gone.get(v, ()))

    def drawn_with(self, job: str, tops: Collection[int], moment: int) -> dict[int, int]:
        """By account, what goes along at a moment when a job gives back some pools and all in them (rule F2).

        What it holds whole above them it has by the other parts from then on.
        """
        self.require_job(job)
        found: dict[int, int] = {}
        pools = self.pools_with_implied(job)
        for consumers in self.drawn.related(job, tops, self.accounts.end):
            if not any(self._has_beside(job, v, tops, pools, moment) for v in consumers):
                for account, held in self.drawn.of(job, consumers).items():
                    found[account] = found.get(account, 0) + steps.amount_at(held, moment)
        return {account: units for account, units in found.items() if units}

    def cut_off(self, job: str, top: int) -> dict[int, Steps]:
        """By edge into a pool that a job gave back, what was drawn through it for pools around that (rule F2).

        Without what leads on from there: that may be drawn for another pool in the same pools around.
        """
        ledger, stop = self.drawn.ledgers.get(job), self.accounts.end.item(top)
        found: dict[int, Steps] = {}
        for consumers in ledger.accounts if ledger is not None else ():
            if not any(v < top < self.accounts.end.item(v) for v in consumers):
                continue
            drawn = self.drawn.of(job, consumers)
            edges = {u: self.accounts.edge(u)[1:] for u in drawn if self.accounts.is_edge(u)}
            into = {u for u, (_, dst) in edges.items() if top <= dst < stop}
            if not any(top <= src < stop for u, (src, _) in edges.items() if u not in into):
                found |= {u: steps.joined([found.get(u, ()), drawn[u]]) for u in into}
        return found

    def _has_beside(self, owner: str, v: int, tops: Collection[int], pools: list[int], moment: int) -> bool:
        """Whether an owner has a pool, or something in it, once others and all in them are gone."""
        end, size = self.accounts.end, self.accounts.size

        def rest(u: int) -> int:  # pools in u that are left, and are not only the way to others
            ways = {w for top in tops if u <= top < end.item(u) for w in self.accounts.ancestors(top) if w >= u}
            gone = sum(end.item(top) - top for top in tops if u <= top < end.item(u))
            return end.item(u) - u - gone - len(ways)

        if any(top <= v < end.item(top) for top in tops):
            return False
        for u in pools[bisect_left(pools, v) : bisect_left(pools, end.item(v))]:
            units = steps.amount_at(steps.excess(self._had(owner, u, {}), self.drawn.total(owner, u)), moment)
            is_left = not any(top <= u < end.item(top) for top in tops)
            is_whole = units == size.item(u) and any(u < top < end.item(u) for top in tops)
            if units and is_left and (not is_whole or rest(u)):
                return True
        above = self.accounts.ancestors(v)
        return any(steps.amount_at(self._had(owner, u, {}), moment) == size.item(u) for u in above) and rest(v) > 0

    def drawn_at(self, job: str, moment: int) -> Rows:
        """For which pools what was drawn of what a job holds at a moment."""
        self.require_job(job)
        rows: list[tuple[int, int, int]] = []
        for owner, consumers, account, held in self.drawn.rows():
            units = steps.amount_at(held, moment) if owner == job else 0
            if units:
                rows += [(v, account, units if v == consumers[0] else 0) for v in consumers]
        return np.array(sorted(rows), np.int64).reshape(-1, 3)

    def ended(self, now: int) -> list[tuple[str, Batch | list[Piece]]]:
        """By job, the spans that ended at or before `now`, for :meth:`free`."""
        found: list[tuple[str, Batch | list[Piece]]] = []
        for job in self.jobs():
            batch = self._batches.get(job)
            if batch is not None:
                if batch.end <= now:
                    found.append((job, batch))
                continue
            held, implied = self._held, self.implied.get(job, {})
            spans = [(v, span) for v in sorted(self._pools_of[job]) for span in held[v][job]]
            spans += [(v, span) for v, of_pool in implied.items() for span in of_pool]
            pieces = [(v, amount, s, e) for v, (s, e, amount) in spans if e <= now]
            if pieces:
                found.append((job, pieces))
        return found

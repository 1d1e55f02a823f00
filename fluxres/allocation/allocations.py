"""Allocations, made and taken back: checked as a whole against the state before, then applied as a whole.

Nothing between the two can fail, so a refused change leaves no trace.  What follows from the records is kept beside them: the
planner's rows, which say how much is free when, and which pools are held whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluxres import clock
from fluxres.allocation import refusals, steps
from fluxres.allocation.holdings import Batch, Holdings, Piece, Target
from fluxres.errors import InfeasibleRequest, NotHeld, UsageError
from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import EXCLUSIVE
from fluxres.graph.structure import Structure
from fluxres.planner.planner import Planner
from fluxres.syntax.moment import in_message


@dataclass(slots=True)
class Change:
    """One checked step of an allocation: what applying it does."""

    v: int
    amount: int
    covers: list[tuple[int, int]]
    absorbs: list[tuple[int, int, int]]


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

    # -- checking ----------------------------------------------------------------------------------------------------

    def _check_window(self, start: int, end: int) -> None:
        if not start < end:
            raise UsageError(
                f"the window ends at {_said(end)}, not after its beginning at {_said(start)}",
                hint="give an end (or a duration) after the start",
            )

    def _plan(self, targets: Sequence[Target], owner: str, job: str, start: int, end: int) -> list[Change]:
        """Check an allocation as a whole; what applying it will do."""
        self._check_window(start, end)
        wanted: dict[int, int] = {}
        for v, amount in targets:
            if amount < 1:
                raise UsageError(f"amount must be at least 1, got {amount}", where=self.structure.where(v))
            wanted[v] = wanted.get(v, 0) + amount
        if not wanted:
            raise UsageError("no pools named", hint="name at least one pool")
        changes = [self._plan_one(v, wanted[v], owner, job, start, end) for v in sorted(wanted)]
        self._check_nesting(changes)
        return changes

    def _plan_one(self, v: int, amount: int, owner: str, job: str, start: int, end: int) -> Change:
        size = self.structure.size.item(v)
        if amount > size:
            raise InfeasibleRequest(
                f"{refusals.units(amount)} wanted of a pool of {size}",
                where=self.structure.where(v),
                hint=f"ask for at most {size}",
            )
        barred = self.structure.unavailable_above(v)
        if barred >= 0:
            raise refusals.barred(self, v, barred)
        own = self.steps_of(v, owner)
        if self.structure.flags.item(v) & EXCLUSIVE and steps.whole(own, start, end, amount, size) != [(start, end)]:
            raise UsageError(
                f"{amount} of {size} units wanted of a pool that is only given whole",
                where=self.structure.where(v),
                hint=f"ask for all {size}",
            )
        if self.planner.free(v, start, end) < amount:
            raise refusals.taken(self, v, amount, job, start, end)
        leaf = self.structure.end.item(v) == v + 1
        covers = [] if leaf else steps.whole(own, start, end, amount, size)
        return Change(v, amount, covers, self._absorbed(v, amount, job, owner, covers))

    def _absorbed(self, v: int, amount: int, job: str, owner: str, covers: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """Own records below `v` that its whole holding makes needless (rules A3, A5): (vertex, start, end)."""
        found: list[tuple[int, int, int]] = []
        for start, end in covers:
            if not self.planner.busy_below(v, start, end):
                continue
            for u in self.planner.busy(v + 1, self.structure.end.item(v), start, end).tolist():
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
                    f"named beside {self.structure.where(above)}, which is taken whole and implies it",
                    where=self.structure.where(change.v),
                    hint="leave it out",
                )
            if change.covers:
                reach, above = self.structure.end.item(change.v), change.v

    def plan_allocate(self, targets: Sequence[Target], job: str, start: int, end: int) -> list[Change]:
        """Check an allocation without making it.

        Args:
            targets: (vertex, amount); a vertex named twice adds up.
            job: that grows, where it already holds some.
            start, end: window in ticks.

        Errors: InsufficientResources with the earliest time, InfeasibleRequest, UsageError; in every case nothing changes.
        """
        return self._plan(targets, job, job, start, end)

    def plan_match(self, vertices: Int32, amounts: NDArray[np.int64], job: str, start: int, end: int) -> Batch | list[Change]:
        """As :meth:`plan_allocate`, for pools that were found free on the present state.

        Args:
            vertices, amounts: what the matcher found on this very revision: ascending, each vertex once, none below one that
                is taken whole.

        Errors: as :meth:`plan_allocate`, where the job holds something already, which a matcher does not know.
        """
        if self.is_holder(job):
            return self._plan(list(zip(vertices.tolist(), amounts.tolist(), strict=True)), job, job, start, end)
        covered: list[int] = []
        if amounts.max() > 1:
            stop = self.structure.end[vertices]
            covered = vertices[(amounts > 1) & (amounts == self.structure.size[vertices]) & (stop > vertices + 1)].tolist()
        return Batch(vertices, amounts, covered, start, end)

    # -- giving ------------------------------------------------------------------------------------------------------

    def allocate(self, planned: Batch | Sequence[Change], owner: str, start: int, end: int, slots: int = 0) -> None:
        """Apply what :meth:`plan_allocate` or :meth:`plan_match` found to be right.

        Args:
            slots: of the request that this answers; 0 where pools were named.
        """
        before = self.slots_of.get(owner, 0)
        if not before and self.is_holder(owner):
            slots = 0  # nobody knows how many slots the pools are that it holds already
        # The planner first: it is the one that may still refuse, for its bounds, and then nothing has changed.
        if isinstance(planned, Batch):
            self._hold(planned.vertices, planned.amounts, start, end)
            for v in planned.covered:
                self.planner.cover(v, start, end, True)
            self._batches[owner] = planned
            if slots:
                self.slots_of[owner] = slots
            return
        for change in planned:
            for u, s, e in change.absorbs:
                self._drop(u, owner, s, e)
        self._hold([change.v for change in planned], [change.amount for change in planned], start, end)
        for change in planned:
            self._note(change.v, owner, change.amount, start, end)
            if change.covers and self.structure.size.item(change.v) > 1:
                for s, e in change.covers:
                    self.planner.cover(change.v, s, e, True)
        if slots:
            self.slots_of[owner] = before + slots
        elif before:
            del self.slots_of[owner]

    def _hold(self, vertices: Sequence[int] | Int32, amounts: Sequence[int] | NDArray[np.int64], start: int, end: int) -> None:
        if len(vertices) == 1:
            self.planner.hold(int(vertices[0]), int(amounts[0]), start, end)
        else:
            self.planner.hold_all(vertices, amounts, start, end)

    def _release(self, vertices: Sequence[int] | Int32, amounts: Sequence[int] | NDArray[np.int64], start: int, end: int) -> None:
        if len(vertices) == 1:
            self.planner.release(int(vertices[0]), int(amounts[0]), start, end)
        else:
            self.planner.release_all(vertices, amounts, start, end)

    # -- taking back -------------------------------------------------------------------------------------------------

    def _drop(self, v: int, owner: str, start: int, end: int) -> None:
        """Take all units of `owner` in the window from `v`."""
        for s, e, amount in list(steps.within(self.held[v][owner], start, end)):
            self._shrink([(v, amount, s, e)], owner, s, e)

    def _shrink(self, pieces: Sequence[Piece], owner: str, start: int, end: int) -> None:
        """Take back pieces of one window."""
        for v, _, _, _ in pieces:
            self._uncover(v, owner, start, end)
        self._release([piece[0] for piece in pieces], [piece[1] for piece in pieces], start, end)
        for v, amount, _, _ in pieces:
            self._erase(v, owner, amount, start, end)

    def _uncover(self, v: int, owner: str, start: int, end: int) -> None:
        size = self.structure.size.item(v)
        if size > 1 and self.structure.end.item(v) > v + 1:
            for s, e in steps.whole(self.held[v][owner], start, end, 0, size):
                self.planner.cover(v, s, e, False)

    def plan_free(
        self, job: str, targets: Iterable[tuple[int, int | None]] | None, start: int | None, end: int | None
    ) -> Batch | list[Piece]:
        """Check a free or a shrink without making it.

        Args:
            job: that gives back.
            targets: (vertex, amount or None for all of it); None for every pool of the job.
            start, end: window in ticks; None for the whole time the job holds the pool.

        Returns: (vertex, amount, start, end) pieces, or all of a batch, for :meth:`free`.
        Errors: UnknownJob, NotHeld (naming the pool to free instead where the hold is implied); nothing changes.
        """
        everything = targets is None and start is None and end is None and isinstance(job, str)
        if everything and (batch := self._batches.get(job)) is not None:
            return batch
        pools = self.require_job(job)
        wanted: dict[int, int | None] = {}
        for v, amount in ((v, None) for v in sorted(pools)) if targets is None else targets:
            if amount is not None and amount < 1:
                raise UsageError(f"amount must be at least 1, got {amount}", where=self.structure.where(v))
            before = wanted.get(v, 0)
            wanted[v] = None if amount is None or before is None else before + amount
        pieces: list[Piece] = []
        lo, hi = (0 if start is None else start), (clock.FOREVER if end is None else end)
        self._check_window(lo, hi)
        windowed = start is not None and end is not None
        for v, amount in wanted.items():
            pieces.extend(self._plan_free_one(job, v, amount, lo, hi, windowed, targets is None))
        if not pieces:
            raise NotHeld(f"job '{job}' holds nothing in this window", hint="`allocated` shows what it holds")
        return pieces

    def _plan_free_one(
        self, job: str, v: int, amount: int | None, lo: int, hi: int, windowed: bool, lenient: bool
    ) -> list[Piece]:
        held = self.steps_of(v, job)
        parts = list(steps.within(held, lo, hi))
        if not parts:
            if lenient:
                return []
            raise NotHeld(
                f"job '{job}' holds nothing of it", where=self.structure.where(v), hint=self._implied_hint(job, v, lo, hi)
            )
        if amount is None:
            left = [(v, units, s, e) for s, e, units in parts]
        else:
            fewest = steps.least(held, lo, hi) if windowed else min(units for _, _, units in parts)
            if fewest < amount:
                raise NotHeld(
                    f"{amount} units to be freed, job '{job}' holds {fewest} throughout the time asked",
                    where=self.structure.where(v),
                    hint="free fewer, or name the window with start and end",
                )
            left = [(v, amount, s, e) for s, e, _ in parts]
        if self.structure.flags.item(v) & EXCLUSIVE and amount is not None and amount < self.structure.size.item(v):
            raise UsageError(
                f"{amount} of {self.structure.size.item(v)} units of a pool that is only given whole",
                where=self.structure.where(v),
                hint="free all of it",
            )
        return left

    def _implied_hint(self, job: str, v: int, lo: int, hi: int) -> str:
        for u in self.structure.ancestors(v):
            if self.steps_of(u, job) and steps.whole(self.steps_of(u, job), lo, hi, 0, self.structure.size.item(u)):
                return f"it is held through {self.structure.where(u)}: free that"
        return "`allocated` shows what the job holds"

    def free(self, planned: Batch | Iterable[Piece], job: str, slots: int = 0) -> None:
        """Apply what :meth:`plan_free` found to be right.

        Args:
            slots: that go back, where a request says what does; of what is left of a part nobody knows how many slots it is.
        """
        left = self.slots_of.pop(job, 0) - slots
        if slots and left > 0:
            self.slots_of[job] = left
        if isinstance(planned, Batch):
            if job in self._batches:
                for v in planned.covered:
                    self.planner.cover(v, planned.start, planned.end, False)
                self._release(planned.vertices, planned.amounts, planned.start, planned.end)
                del self._batches[job]
                return
            planned = planned.pieces()  # somebody looked at the records since it was planned
        by_window: dict[tuple[int, int], list[Piece]] = {}
        for piece in planned:
            by_window.setdefault(piece[2:], []).append(piece)
        for window, together in by_window.items():
            self._shrink(together, job, *window)

    def ended(self, now: int) -> list[tuple[str, Batch | list[Piece]]]:
        """By job, the spans that ended at or before `now`, for :meth:`free`."""
        found: list[tuple[str, Batch | list[Piece]]] = []
        for job in self.jobs():
            batch = self._batches.get(job)
            if batch is not None:
                if batch.end <= now:
                    found.append((job, batch))
                continue
            held = self._held
            pieces = [(v, amount, s, e) for v in sorted(self._pools_of[job]) for s, e, amount in held[v][job] if e <= now]
            if pieces:
                found.append((job, pieces))
        return found

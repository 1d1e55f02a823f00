"""The allocation records of RFC 4 and RFC 16, and the only code that changes them.

A record says that a job holds units of one pool over time (:mod:`fluxres.allocation.steps`); a stage holds
units the same way under an owner of its own until it is committed.  What follows from the records is kept
beside them: the planner's rows (how much is free, when) and the `shared` counters of the pools above.

Every change is checked as a whole against the state before it, then applied as a whole; nothing between
the two can fail, so a refused change leaves no trace.  The rules by number are in ``specs/rules.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fluxres import clock
from fluxres.allocation import refusals, steps
from fluxres.allocation.steps import Steps
from fluxres.errors import InfeasibleRequest, NotHeld, StaleHandle, UnknownJob, UsageError
from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import EXCLUSIVE
from fluxres.graph.structure import Structure
from fluxres.planner.planner import Planner
from fluxres.syntax.moment import in_message

Target = tuple[int, int]
"""A vertex and an amount of its units."""
Piece = tuple[int, int, int, int]
"""A vertex, an amount of its units, and the window (start, end) they are taken back over."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A temporary lock on pools while a job is considered (RFC 4, "Staged")."""

    stage: str
    job: str
    targets: tuple[Target, ...]
    start: int
    end: int
    expires: int


@dataclass(slots=True)
class Change:
    """One checked step of an allocation: what applying it does."""

    v: int
    amount: int
    covers: list[tuple[int, int]]
    absorbs: list[tuple[int, int, int]]


_STAGE_OWNER = "\x00stage:"


def _said(tick: int) -> str:
    return in_message(clock.seconds(tick))


class Records:
    """Who holds what on one structure.

    Args:
        structure: the generation the vertex numbers belong to.
        planner: empty, over the same structure.
    """

    def __init__(self, structure: Structure, planner: Planner) -> None:
        self.structure = structure
        self.planner = planner
        self.held: dict[int, dict[str, Steps]] = {}
        self.pools_of: dict[str, set[int]] = {}
        self.shared: dict[int, dict[str, int]] = {}
        self.stages: dict[str, Staged] = {}

    # -- asking ------------------------------------------------------------------------------------------------------

    def jobs(self) -> list[str]:
        """Jobs that hold anything, in the order they first did."""
        return [owner for owner in self.pools_of if not owner.startswith(_STAGE_OWNER)]

    def require_job(self, job: str) -> set[int]:
        """The pools a job has records on.

        Errors: UnknownJob; UsageError for what is no id.
        """
        if not isinstance(job, str):
            raise UsageError(f"job: expected an id, got {job!r}")
        pools = self.pools_of.get(job)
        if pools is None:
            raise UnknownJob(f"no job '{job}' holds anything", hint="`allocated` lists the jobs")
        return pools

    def steps_of(self, v: int, job: str) -> Steps:
        """What `job` holds of `v` over time; empty when nothing."""
        return self.held.get(v, {}).get(job, ())

    def spans(self, v: int, start: int, end: int) -> list[tuple[str, int, int, int]]:
        """Records of `v` that touch the window, stages left out: (job, start, end, amount), by start."""
        found = [
            (job, s, e, amount)
            for job, held in self.held.get(v, {}).items()
            if not job.startswith(_STAGE_OWNER)
            for s, e, amount in held
            if s < end and start < e
        ]
        return sorted(found, key=lambda span: (span[1], span[0]))

    def whole_holder(self, v: int, moment: int) -> tuple[int, str] | None:
        """The pool (`v` or the nearest above it) that one owner holds whole at this moment, and the job behind it."""
        u = v
        while u >= 0:
            for owner, held in self.held.get(u, {}).items():
                if steps.amount_at(held, moment) == self.structure.size.item(u):
                    return u, self.job_behind(owner)
            u = self.structure.parent.item(u)
        return None

    def shared_jobs(self, v: int, start: int, end: int) -> list[str]:
        """Jobs that hold something below `v` at some moment of the window (RFC 4 `shared`).

        Cost: the pools those jobs hold below `v`.
        """
        stop = self.structure.end.item(v)
        found = []
        for job in self.shared.get(v, ()):
            if job.startswith(_STAGE_OWNER):
                continue
            if any(v < u < stop and steps.touches(self.held[u][job], start, end) for u in self.pools_of[job]):
                found.append(job)
        return found

    def is_staged(self, v: int) -> bool:
        """Whether a stage locks units of `v`."""
        return any(owner.startswith(_STAGE_OWNER) for owner in self.held.get(v, ()))

    def job_behind(self, owner: str) -> str:
        """The job of an owner: itself, or the job a stage was made for."""
        return self.stages[owner.removeprefix(_STAGE_OWNER)].job if owner.startswith(_STAGE_OWNER) else owner

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
                f"{amount} units wanted of a pool of {size}", where=self.structure.where(v), hint=f"ask for at most {size}"
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

    # -- changing ----------------------------------------------------------------------------------------------------

    def plan_allocate(self, targets: Sequence[Target], job: str, start: int, end: int) -> list[Change]:
        """Check an allocation without making it.

        Args:
            targets: (vertex, amount); a vertex named twice adds up.
            job: that grows, where it already holds some.
            start, end: window in ticks.

        Errors: InsufficientResources with the earliest time, InfeasibleRequest, UsageError; in every case nothing changes.
        """
        return self._plan(targets, job, job, start, end)

    def plan_match(self, targets: Sequence[Target], job: str, start: int, end: int) -> list[Change]:
        """As :meth:`plan_allocate`, for pools that were found free on the present state.

        Args:
            targets: what the matcher found on this very revision, each vertex once, none below one that is taken whole.

        Errors: as :meth:`plan_allocate`, where the job holds something already, which a matcher does not know.
        """
        if job in self.pools_of:
            return self._plan(targets, job, job, start, end)
        size, stop = self.structure.size, self.structure.end
        window = [(start, end)]
        return [Change(v, n, window if n == size.item(v) and stop.item(v) > v + 1 else [], []) for v, n in targets]

    def allocate(self, changes: Sequence[Change], owner: str, start: int, end: int) -> None:
        """Apply what :meth:`plan_allocate` found to be right."""
        for change in changes:
            for u, s, e in change.absorbs:
                self._drop(u, owner, s, e)
        # The planner first: it is the one that may still refuse, for its bounds, and then nothing has changed.
        if len(changes) == 1:
            self.planner.hold(changes[0].v, changes[0].amount, start, end)
        else:
            self.planner.hold_all([change.v for change in changes], [change.amount for change in changes], start, end)
        for change in changes:
            self._note(change.v, owner, change.amount, start, end)
            if change.covers and self.structure.size.item(change.v) > 1:
                for s, e in change.covers:
                    self.planner.cover(change.v, s, e, True)

    def _note(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        """Write the record of a holding."""
        holders = self.held.setdefault(v, {})
        before = holders.get(owner)
        if before is not None:
            holders[owner] = steps.add(before, start, end, amount)
            return
        holders[owner] = ((start, end, amount),)
        pools = self.pools_of.get(owner)
        if pools is None:
            self.pools_of[owner] = {v}
        else:
            pools.add(v)
        self._count_above(v, owner, 1)

    def _count_above(self, v: int, owner: str, by: int) -> None:
        parent, shared = self.structure.parent, self.shared
        u = parent.item(v)
        while u >= 0:
            owners = shared.setdefault(u, {})
            count = owners.get(owner, 0) + by
            if count:
                owners[owner] = count
            else:
                del owners[owner]
                if not owners:
                    del shared[u]
            u = parent.item(u)

    def _drop(self, v: int, owner: str, start: int, end: int) -> None:
        """Take all units of `owner` in the window from `v`."""
        for s, e, amount in list(steps.within(self.held[v][owner], start, end)):
            self._shrink([(v, amount, s, e)], owner, s, e)

    def _shrink(self, pieces: Sequence[Piece], owner: str, start: int, end: int) -> None:
        """Take back pieces of one window."""
        for v, _, _, _ in pieces:
            self._uncover(v, owner, start, end)
        if len(pieces) == 1:
            self.planner.release(pieces[0][0], pieces[0][1], start, end)
        else:
            self.planner.release_all([piece[0] for piece in pieces], [piece[1] for piece in pieces], start, end)
        for v, amount, _, _ in pieces:
            self._erase(v, owner, amount, start, end)

    def _uncover(self, v: int, owner: str, start: int, end: int) -> None:
        size = self.structure.size.item(v)
        if size > 1 and self.structure.end.item(v) > v + 1:
            for s, e in steps.whole(self.held[v][owner], start, end, 0, size):
                self.planner.cover(v, s, e, False)

    def _erase(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        """Take a holding out of the record."""
        holders = self.held[v]
        after = steps.add(holders[owner], start, end, -amount)
        if after:
            holders[owner] = after
            return
        del holders[owner]
        if not holders:
            del self.held[v]
        pools = self.pools_of[owner]
        pools.discard(v)
        if not pools:
            del self.pools_of[owner]
        self._count_above(v, owner, -1)

    def plan_free(
        self, job: str, targets: Iterable[tuple[int, int | None]] | None, start: int | None, end: int | None
    ) -> list[Piece]:
        """Check a free or a shrink without making it.

        Args:
            job: that gives back.
            targets: (vertex, amount or None for all of it); None for every pool of the job.
            start, end: window in ticks; None for the whole time the job holds the pool.

        Returns: (vertex, amount, start, end) pieces for :meth:`free`.
        Errors: UnknownJob, NotHeld (naming the pool to free instead where the hold is implied); nothing changes.
        """
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

    def free(self, pieces: Iterable[Piece], job: str) -> None:
        """Apply what :meth:`plan_free` found to be right."""
        by_window: dict[tuple[int, int], list[Piece]] = {}
        for piece in pieces:
            by_window.setdefault(piece[2:], []).append(piece)
        for window, together in by_window.items():
            self._shrink(together, job, *window)

    # -- staging -----------------------------------------------------------------------------------------------------

    def plan_stage(self, staged: Staged) -> list[Change]:
        """Check a stage without making it; errors as for :meth:`plan_allocate`."""
        if staged.stage in self.stages:
            raise UsageError(f"there is a stage '{staged.stage}' already")
        return self._plan(staged.targets, _STAGE_OWNER + staged.stage, staged.job, staged.start, staged.end)

    def stage(self, staged: Staged, changes: list[Change]) -> None:
        """Apply what :meth:`plan_stage` found to be right."""
        self.stages[staged.stage] = replace(staged, targets=tuple((change.v, change.amount) for change in changes))
        self.allocate(changes, _STAGE_OWNER + staged.stage, staged.start, staged.end)

    def require_stage(self, stage: str) -> Staged:
        """The stage of this id.

        Errors: StaleHandle when it was committed, released or has expired.
        """
        staged = self.stages.get(stage)
        if staged is None:
            raise StaleHandle(f"no stage '{stage}': it was committed, released or has expired")
        return staged

    def release(self, stage: str) -> Staged:
        """Give back what a stage locked."""
        staged = self.require_stage(stage)
        owner = _STAGE_OWNER + stage
        for v in sorted(self.pools_of[owner]):
            self._drop(v, owner, staged.start, staged.end)
        del self.stages[stage]
        return staged

    def plan_commit(self, stage: str) -> list[Change]:
        """Check that a stage can become an allocation of its job.

        Errors: StaleHandle; InsufficientResources when the units complete a whole pool below which another job came to hold
        something meanwhile. The stage stays as it is.
        """
        staged = self.require_stage(stage)
        changes = [self._plan_commit(staged, v, amount) for v, amount in sorted(staged.targets)]
        self._check_nesting(changes)
        return changes

    def commit(self, stage: str, changes: list[Change]) -> None:
        """Apply what :meth:`plan_commit` found to be right."""
        staged = self.release(stage)
        self.allocate(changes, staged.job, staged.start, staged.end)

    def _plan_commit(self, staged: Staged, v: int, amount: int) -> Change:
        # The stage holds the units already; what can have changed is only what the job's own units add up to.
        own, size = self.steps_of(v, staged.job), self.structure.size.item(v)
        leaf = self.structure.end.item(v) == v + 1
        covers = [] if leaf else steps.whole(own, staged.start, staged.end, amount, size)
        return Change(v, amount, covers, self._absorbed(v, amount, staged.job, staged.job, covers))

    def expired_stages(self, now: int) -> list[str]:
        """Stages whose time is over."""
        return [staged.stage for staged in self.stages.values() if staged.expires <= now]

    def ended(self, now: int) -> list[tuple[str, list[Piece]]]:
        """By job, the spans that ended at or before `now`, as pieces for :meth:`free`."""
        found = []
        for job in self.jobs():
            pieces = [(v, amount, s, e) for v in sorted(self.pools_of[job]) for s, e, amount in self.held[v][job] if e <= now]
            if pieces:
                found.append((job, pieces))
        return found

    # -- moving ------------------------------------------------------------------------------------------------------

    def take(self, other: Records, old_to_new: Int32) -> None:
        """Add the records and stages of another structure, by new vertex numbers; those on pools that are gone are left out.

        Nothing is checked: the caller audits the result (:func:`fluxres.allocation.audit.check_records`).
        Errors: UsageError from the planner when units do not fit a pool.
        """
        for v in sorted(other.held):
            new = int(old_to_new[v])
            if new < 0:
                continue
            for owner, held in other.held[v].items():
                for start, end, amount in held:
                    self._put(new, owner, amount, start, end)
        for staged in other.stages.values():
            moved = tuple((int(old_to_new[v]), amount) for v, amount in staged.targets if old_to_new[v] >= 0)
            if moved:
                self.stages[staged.stage] = replace(staged, targets=moved)

    def _put(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        leaf = self.structure.end.item(v) == v + 1
        size = self.structure.size.item(v)
        covers = [] if leaf or size == 1 else steps.whole(self.steps_of(v, owner), start, end, amount, size)
        self.allocate([Change(v, amount, covers, [])], owner, start, end)

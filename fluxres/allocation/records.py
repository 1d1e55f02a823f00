"""The allocation records of RFC 4 and RFC 16, and the only code that changes them.

A record says that a job holds units of one pool over time (:mod:`fluxres.allocation.steps`); a stage holds units the same way
under an owner of its own until it is committed.  What is held stands in :mod:`fluxres.allocation.holdings`, how it comes
to be held and given back in :mod:`fluxres.allocation.allocations`; stages, and the move to another structure, are here.
The rules by number are in ``specs/rules.md``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fluxres.allocation import steps
from fluxres.allocation.allocations import Allocations, Change, Covered, Implies
from fluxres.allocation.holdings import ELSEWHERE, STAGE_OWNER, Part, Staged, Target
from fluxres.allocation.steps import Steps
from fluxres.errors import FluxresError, StaleHandle, UsageError
from fluxres.graph.auxiliary import Int32
from fluxres.graph.structure import Structure
from fluxres.planner.planner import Planner

__all__ = ["Records", "Staged"]

_NUMBERED: Final = re.compile(r"s[0-9]{1,15}", re.ASCII)
"""The ids that stages get; a journal that was typed by hand may have others."""


def empty_planner(structure: Structure) -> Planner:
    """A planner over the pools of a structure and its edges with a capacity, in which nothing is held."""
    accounts = structure.accounts
    return Planner(accounts.parent, accounts.end, accounts.type, accounts.units, of_type=accounts.of_type)


Planned = tuple[tuple[int, int], list[Change]]
"""A window, and what is done in it."""


def _each_once(targets: Iterable[Target]) -> tuple[Target, ...]:
    total = Counter[int]()
    for v, amount in targets:
        total[v] += amount
    return tuple(sorted(total.items()))


class Records(Allocations):
    """Who holds what on one structure.

    Args:
        structure: the generation the vertex numbers belong to.
        planner: empty, over the same structure.
    """

    # -- staging -----------------------------------------------------------------------------------------------------

    def plan_stage(self, staged: Staged, *, implies: Implies = False) -> list[Planned]:
        """Check a stage without making it; arguments and errors as for :meth:`plan_allocate`."""
        if staged.stage in self.stages:
            raise UsageError(f"there is a stage '{staged.stage}' already")
        owner = STAGE_OWNER + staged.stage
        return [
            ((part.start, part.end), self._plan(part.targets, owner, staged.job, part.start, part.end, implies=implies))
            for part in staged.parts()
        ]

    def stage(self, staged: Staged, planned: Sequence[Planned]) -> None:
        """Apply what :meth:`plan_stage` found to be right; where the planner refuses it for its bounds, nothing has changed."""
        owner = STAGE_OWNER + staged.stage
        try:
            for window, changes in planned:
                self.allocate(changes, owner, *window)
        except FluxresError:
            if self.is_holder(owner):
                self.free(self.plan_free(owner, None, None, None), owner)
            raise
        self.stages[staged.stage] = replace(staged, targets=_each_once(staged.targets))
        self._count(staged.stage)

    def _count(self, stage: str) -> None:
        if _NUMBERED.fullmatch(stage):
            self.stages_made = max(self.stages_made, int(stage[1:]) + 1)

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
        owner = STAGE_OWNER + stage
        self.free(self.plan_free(owner, None, None, None), owner)
        del self.stages[stage]
        return staged

    def plan_commit(self, stage: str) -> list[Planned]:
        """Check that a stage can become an allocation of its job.

        Errors: StaleHandle; InsufficientResources when the units complete a whole pool below which another job came to hold
        something meanwhile. The stage stays as it is.
        """
        staged = self.require_stage(stage)
        return [((part.start, part.end), self._plan_commit_part(staged.job, part)) for part in staged.parts()]

    def commit(self, stage: str, planned: Sequence[Planned]) -> None:
        """Apply what :meth:`plan_commit` found to be right."""
        staged = self.release(stage)
        for (window, changes), part in zip(planned, staged.parts(), strict=True):
            drawn = np.array(part.drawn, np.int64).reshape(-1, 3)
            self.allocate(changes, staged.job, *window, staged.slots, drawn)

    def _plan_commit_part(self, job: str, part: Part) -> list[Change]:
        changes, covered = list[Change](), Covered(self)
        for v, amount in sorted(part.targets):
            changes.append(self._plan_commit(job, part, v, amount, covered.around(v)))
            covered.add(changes[-1])
            self._require_implied_fits(changes[-1], job, {job})
        return changes

    def _plan_commit(self, job: str, part: Part, v: int, amount: int, around: list[tuple[int, int]]) -> Change:
        # The stage holds the units already; what can have changed is only what the job's own units add up to.
        start, end = part.start, part.end
        around = around + self.whole_above(v, job, start, end)
        change = Change(v, amount, [], [], steps.inside(start, end, around))
        if self.accounts.end.item(v) > v + 1:
            own, size = self.steps_of(v, job), self.accounts.size.item(v)
            for s, e in steps.without(start, end, around):
                covers = steps.whole(own, s, e, amount, size)
                change.covers += covers
                change.absorbs += self._absorbed(v, amount, job, job, covers)
        return change

    def expired_stages(self, now: int) -> list[str]:
        """Stages whose time is over."""
        return [staged.stage for staged in self.stages.values() if staged.expires <= now]

    def stages_over(self, now: int) -> list[str]:
        """Stages that lock nothing now or later: their time is over, or their window is."""
        return [staged.stage for staged in self.stages.values() if min(staged.expires, staged.end) <= now]

    # -- what is held elsewhere --------------------------------------------------------------------------------------

    def set_elsewhere(self, v: int, held: steps.Steps) -> bool:
        """Note what other instances draw from a supplier that is shared with them; whether that is another amount than before.

        Where they draw more than is left here, which only records changed by hand can say, what is left is noted.
        """
        before = self.steps_of(v, ELSEWHERE)
        if held == before:
            return False
        for start, end, amount in before:
            self.planner.release(v, amount, start, end)
            self._erase(v, ELSEWHERE, amount, start, end)
        for start, end, amount in steps.beside(held, self.planner.segments(v), self.accounts.size.item(v)):
            self.planner.hold(v, amount, start, end)
            self._note(v, ELSEWHERE, amount, start, end)
        return True

    # -- moving ------------------------------------------------------------------------------------------------------

    def _take_held(self, v: int, owner: str, held: Steps) -> None:
        """Record what an owner has of a pool, after all above it: a pool that has become smaller may be held whole now."""
        for start, end, amount in held:
            recorded = steps.without(start, end, self.whole_above(v, owner, start, end))
            for s, e in recorded:
                self._put(v, owner, amount, s, e)
            for s, e in steps.without(start, end, recorded):
                self._imply(v, owner, amount, s, e)

    def take(self, other: Records, old_to_new: Int32) -> None:
        """Add the records and stages of another structure, by new vertex numbers; those on what is gone, or is
        only a way now, are left out.

        Args:
            old_to_new: of the pools; edges are where both their ends are.

        Nothing is checked: the caller audits the result (:func:`fluxres.allocation.audit.check_records`).
        Errors: UsageError from the planner when units do not fit a pool.
        """
        self.stages_made = max(self.stages_made, other.stages_made)
        if not (other.held or other.implied or other.stages):
            return
        # A way holds nothing, and yet something may be drawn for it: for a node of which a child has some cores.
        renumbered = other.accounts.renumbered(self.accounts, old_to_new)
        old_to_new = np.where(self.accounts.units[renumbered] == 0, -1, renumbered).astype(np.int32)
        known = [job for job in other.slots_of if not self.is_holder(job)]
        for v in sorted(other.held):
            new = int(old_to_new[v])
            if new < 0:
                continue
            for owner, held in other.held[v].items():
                # What is held elsewhere is found anew, and what a child draws from its parent is drawn already.
                if owner != ELSEWHERE:
                    self._take_held(new, owner, held)
        for owner, pools in other.implied.items():
            for v in sorted(pools):
                if (new := int(old_to_new[v])) >= 0:
                    self._take_held(new, owner, pools[v])
        self.drawn.take(other.drawn, renumbered, old_to_new)
        for staged in other.stages.values():
            moved = tuple((int(old_to_new[v]), amount) for v, amount in staged.targets if old_to_new[v] >= 0)
            rows = [(int(renumbered[v]), int(old_to_new[account]), units) for v, account, units in staged.drawn]
            drawn = tuple(row for row in rows if row[0] >= 0 and row[1] >= 0)
            apart = [(s, e, int(renumbered[v]), int(old_to_new[account]), units) for s, e, v, account, units in staged.apart]
            relied_on = [(int(old_to_new[v]), s, e) for v, s, e in staged.relied_on]
            self._count(staged.stage)
            if moved:
                self.stages[staged.stage] = replace(
                    staged,
                    targets=moved,
                    drawn=drawn,
                    apart=tuple(row for row in apart if row[2] >= 0 and row[3] >= 0),
                    relied_on=tuple(row for row in relied_on if row[0] >= 0),
                )
        for job in known:
            if all(old_to_new[v] >= 0 for v in other.pools_of[job]):
                self.slots_of[job] = other.slots_of[job]

    def take_all(self, other: Records) -> None:
        """Be the records of another structure over the same pools; there are none here yet."""
        # Jobs are listed in the order they first held something, and not in that of their pools.
        self.pools_of = {owner: set() for owner in other.pools_of if owner != ELSEWHERE}
        self.take(other, np.arange(self.structure.n, dtype=np.int32))
        self.slots_of = dict(other.slots_of)

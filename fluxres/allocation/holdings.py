"""What is held: a record for each pool and holder, the holders' pools, and how many records stand below each pool.

A job that is matched gets all its pools at once, and mostly gives them back at once; nobody looks at a single record between.
So what it got stays together as it came, a batch of a few bytes a pool, until somebody asks for records; then they are written,
once.  Batches are newer than what is written, so the order in which jobs first held something is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fluxres.allocation import steps
from fluxres.allocation.drawn import NO_ROWS, Drawn, Rows
from fluxres.allocation.steps import Steps
from fluxres.errors import UnknownJob, UsageError
from fluxres.graph.auxiliary import Int32
from fluxres.graph.structure import Structure

Target = tuple[int, int]
"""A vertex and an amount of its units."""
Piece = tuple[int, int, int, int]
"""A vertex, an amount of its units, and the window (start, end) they are taken back over."""
HIDDEN = "\x00"
"""What the names of owners that are no jobs begin with."""
STAGE_OWNER = HIDDEN + "stage:"
"""What the owner of a stage's records is called, before the id of the stage."""
ELSEWHERE = HIDDEN + "elsewhere"
"""The owner of what other instances draw from the suppliers that a child instance shares with them."""


class Upstream(Protocol):
    """Gives units of suppliers that a graph has only as a way: the parent of a child instance (rule N1)."""

    def refresh(self) -> None:
        """Bring what is held elsewhere up to date."""

    def take(self, vertices: Sequence[int] | Int32, amounts: Sequence[int] | NDArray[np.int64], start: int, end: int) -> None:
        """Get those of these units that come from above.

        Errors: InsufficientResources; nothing changes then.
        """

    def give(self, vertices: Sequence[int] | Int32, amounts: Sequence[int] | NDArray[np.int64], start: int, end: int) -> None:
        """Give them back."""

    def note_route(self) -> None:
        """A job draws along a route of its own: see `Holdings.upward`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """All that one job holds, over one window.

    Args:
        vertices: int32, ascending, each once, none below another that is held whole.
        amounts: int64, units of each.
        covered: those of more than one unit that are held whole and have pools below.
        start, end: window in ticks.
        drawn: for which pools what of it was drawn.
    """

    vertices: Int32
    amounts: NDArray[np.int64]
    covered: list[int]
    start: int
    end: int
    drawn: Rows = field(default_factory=lambda: NO_ROWS)

    def pieces(self) -> list[Piece]:
        """What frees all of it."""
        window = (self.start, self.end)
        return [(v, amount, *window) for v, amount in zip(self.vertices.tolist(), self.amounts.tolist(), strict=True)]


class Part(NamedTuple):
    """What is locked in a window of a stage, and for which pools what of it is drawn."""

    start: int
    end: int
    targets: tuple[Target, ...]
    drawn: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Staged:
    """A temporary lock on pools while a job is considered (RFC 4, "Staged").

    Args:
        slots: of the request that it answers; 0 where pools were named.
        targets: of an account from which not the same is drawn all the time, the most.
        drawn: (pool, account, units) of what is drawn for pools, as in :data:`fluxres.allocation.drawn.Rows`.
        apart: (start, end, pool, account, units) instead, where the job draws some of it already for a part of the time.
        relied_on: (pool, start, end) of what the job holds exclusively, so that nothing is drawn for it once more.
    """

    stage: str
    job: str
    targets: tuple[Target, ...]
    start: int
    end: int
    expires: int
    slots: int = 0
    drawn: tuple[tuple[int, int, int], ...] = ()
    apart: tuple[tuple[int, int, int, int, int], ...] = ()
    relied_on: tuple[tuple[int, int, int], ...] = ()

    def parts(self) -> list[Part]:
        """By window in which it is the same, what is locked; all windows together are that of the stage."""
        if not self.apart:
            return [Part(self.start, self.end, self.targets, self.drawn)]
        moments = sorted({self.start, self.end, *(at for row in self.apart for at in row[:2])})
        rows = [
            (start, end, tuple(row[2:] for row in self.apart if row[0] <= start < row[1])) for start, end in pairwise(moments)
        ]
        drawn = [Counter[int]() for _ in rows]
        for total, (_, _, of_part) in zip(drawn, rows, strict=True):
            for _, account, units in of_part:
                total[account] += units
        most = Counter[int]()
        for total in drawn:
            most |= total
        named = Counter[int]()
        for v, amount in self.targets:
            named[v] += amount
        return [
            Part(start, end, tuple(sorted((named - most + total).items())), of_part)
            for total, (start, end, of_part) in zip(drawn, rows, strict=True)
        ]


class Holdings:
    """Who holds what on one structure: the records, asked and kept, and checked nowhere here.

    Args:
        structure: the generation the vertex numbers belong to.
    """

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.accounts = structure.accounts
        self._held: dict[int, dict[str, Steps]] = {}
        self.implied: dict[str, dict[int, Steps]] = {}
        """By owner and vertex, holdings below a pool that the owner holds whole at those moments: they are no records (rule A5),
        and become records again when the whole holding goes (rule A6)."""
        self.drawn = Drawn()
        """For which pools what of the records, and of what is implied, was drawn; that of batches stands there."""
        self._pools_of: dict[str, set[int]] = {}
        self._shared: dict[int, dict[str, int]] = {}
        self._batches: dict[str, Batch] = {}
        self.upstream: Upstream | None = None
        """Who gives the units of linked ways; None for a graph that stands by itself."""
        self.stages: dict[str, Staged] = {}
        self.stages_made = 0
        """Number of the next stage; no two stages of a graph have one id, however often it is saved and loaded in between."""
        self.upward: set[str] = set()
        """Owners known to draw only along the ways up from their pools, and along no route to another place (rule F1). A route
        may lead along edges without a capacity, which no record names; of owners that were read from a file it is not known."""
        self.slots_of: dict[str, int] = {}
        """By job, of how many slots its requests were (RFC 20); no entry where pools were named, or some of them went back."""

    @property
    def held(self) -> dict[int, dict[str, Steps]]:
        """By vertex and owner, what is held over time."""
        if self._batches:
            self._write()
        return self._held

    @property
    def pools_of(self) -> dict[str, set[int]]:
        """By owner, the pools with records, in the order in which owners first held something."""
        if self._batches:
            self._write()
        return self._pools_of

    @pools_of.setter
    def pools_of(self, given: dict[str, set[int]]) -> None:
        self._pools_of = given

    @property
    def shared(self) -> dict[int, dict[str, int]]:
        """By vertex and owner, the number of records below (rule A4)."""
        if self._batches:
            self._write()
        return self._shared

    # -- asking ------------------------------------------------------------------------------------------------------

    def jobs(self) -> list[str]:
        """Jobs that hold anything, in the order they first did."""
        return [owner for owner in (*self._pools_of, *self._batches) if not owner.startswith(HIDDEN)]

    def is_holder(self, owner: str) -> bool:
        """Whether a job, or a stage, holds anything."""
        return owner in self._batches or owner in self._pools_of

    def ends(self, owner: str) -> set[int]:
        """Moments at which a holder gives something back, as far as the records say.

        Cost: its records.
        """
        batch = self._batches.get(owner)
        if batch is not None:
            return {batch.end}
        return {end for v in self._pools_of[owner] for _, end, _ in self._held[v][owner]}

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

    def pools_with_implied(self, owner: str) -> list[int]:
        """Pools of which an owner has anything, recorded or implied, ascending."""
        pools = self.pools_of.get(owner, ())
        implied = self.implied.get(owner)
        return sorted(implied.keys() | pools if implied else pools)

    def given(self, v: int, owner: str) -> Steps:
        """What an owner has of a pool over time, recorded or implied."""
        return steps.joined([self.steps_of(v, owner), self.implied.get(owner, {}).get(v, ())])

    def spans(self, v: int, start: int, end: int) -> list[tuple[str, int, int, int]]:
        """Records of `v` that touch the window, stages left out: (job, start, end, amount), by start."""
        found = [
            (job, s, e, amount)
            for job, held in self.held.get(v, {}).items()
            if not job.startswith(HIDDEN)
            for s, e, amount in held
            if s < end and start < e
        ]
        return sorted(found, key=lambda span: (span[1], span[0]))

    def whole_holder(self, v: int, moment: int) -> tuple[int, str] | None:
        """The pool (`v` or the nearest above it) that one owner holds whole at this moment, and the job behind it."""
        u = v
        while u >= 0:
            for owner, held in self.held.get(u, {}).items():
                if owner != ELSEWHERE and steps.amount_at(held, moment) == self.accounts.size.item(u):
                    return u, self.job_behind(owner)
            u = self.accounts.parent.item(u)
        return None

    def shared_jobs(self, v: int, start: int, end: int) -> list[str]:
        """Jobs that hold something below `v` at some moment of the window (RFC 4 `shared`).

        Cost: the pools those jobs hold below `v`.
        """
        stop = self.accounts.end.item(v)
        found = []
        for job in self.shared.get(v, ()):
            if job.startswith(HIDDEN):
                continue
            if any(v < u < stop and steps.touches(self.held[u][job], start, end) for u in self.pools_of[job]):
                found.append(job)
        return found

    def is_staged(self, v: int) -> bool:
        """Whether a stage locks units of `v`."""
        return any(owner.startswith(STAGE_OWNER) for owner in self.held.get(v, ()))

    def job_behind(self, owner: str) -> str:
        """The job of an owner: itself, or the job a stage was made for; other instances by a word that is no job."""
        if owner == ELSEWHERE:
            return "other instances"
        return self.stages[owner.removeprefix(STAGE_OWNER)].job if owner.startswith(STAGE_OWNER) else owner

    def whole_above(self, v: int, owner: str, start: int, end: int) -> list[tuple[int, int]]:
        """Windows within [start, end) in which the owner holds a pool above `v` whole; they may overlap."""
        found: list[tuple[int, int]] = []
        pools = self.pools_of.get(owner, ())
        for u in self.accounts.ancestors(v):
            if u in pools:
                found += steps.whole(self.steps_of(u, owner), start, end, 0, self.accounts.size.item(u))
        return found

    # -- keeping -----------------------------------------------------------------------------------------------------

    def _imply(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        """Add units that the owner did not have (or take some away, where negative) to what a whole holding above implies.

        All that a graph has of a pool may be a part of what there is: what comes from above, comes from there all the same.
        Errors: InsufficientResources; nothing changes then.
        """
        if self.upstream is not None and amount > 0:
            self.upstream.take([v], [amount], start, end)
        self._note_implied(v, owner, amount, start, end)
        if self.upstream is not None and amount < 0:
            self.upstream.give([v], [-amount], start, end)

    def _note_implied(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        """Write, of units that the owner has, that a whole holding above implies them; negative that it no longer does."""
        pools = self.implied.setdefault(owner, {})
        after = steps.add(pools.get(v, ()), start, end, amount)
        if after:
            pools[v] = after
        else:
            del pools[v]
            if not pools:
                del self.implied[owner]

    def _note(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        """Write the record of a holding."""
        holders = self.held.setdefault(v, {})
        before = holders.get(owner)
        if before is not None:
            holders[owner] = steps.add(before, start, end, amount)
            return
        holders[owner] = ((start, end, amount),)
        self._pools_of.setdefault(owner, set()).add(v)
        self._count_one_above(v, owner, 1)

    def _erase(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        """Take a holding out of the record."""
        holders = self.held[v]
        after = steps.add(holders[owner], start, end, -amount)
        if after:
            holders[owner] = after
            return
        del holders[owner]
        if not holders:
            del self._held[v]
        pools = self._pools_of[owner]
        pools.discard(v)
        if not pools:
            del self._pools_of[owner]
        self._count_one_above(v, owner, -1)

    def _write(self) -> None:
        """Make records of the batches."""
        batches, self._batches = self._batches, {}
        held = self._held
        for owner, batch in batches.items():
            vertices = batch.vertices.tolist()
            record: dict[int, Steps] = {n: ((batch.start, batch.end, n),) for n in set(batch.amounts.tolist())}
            for v, amount in zip(vertices, batch.amounts.tolist(), strict=True):
                held.setdefault(v, {})[owner] = record[amount]
            self._pools_of[owner] = set(vertices)
            above, number = np.unique(self.accounts.parent[batch.vertices], return_counts=True)
            self._count_above(dict(zip(above.tolist(), number.tolist(), strict=True)), owner, 1)
            self.drawn.add(owner, batch.drawn, batch.start, batch.end)

    def _count_one_above(self, v: int, owner: str, sign: int) -> None:
        """As :meth:`_count_above` for one record: of a pool that is named there mostly is no more than one."""
        parent, shared = self.accounts.parent.item, self._shared
        u = parent(v)
        while u >= 0:
            owners = shared.get(u)
            if owners is None:
                owners = shared[u] = {}
            count = owners.get(owner, 0) + sign
            if count:
                owners[owner] = count
            else:
                del owners[owner]
                if not owners:
                    del shared[u]
            u = parent(u)

    def _count_above(self, records: dict[int, int], owner: str, sign: int) -> None:
        """Count records that came (1) or went (-1): that number each below these pools, and all above them."""
        parent, shared = self.accounts.parent, self._shared
        while records:
            higher: dict[int, int] = {}
            for u, number in records.items():
                if u < 0:
                    continue
                owners = shared.setdefault(u, {})
                count = owners.get(owner, 0) + sign * number
                if count:
                    owners[owner] = count
                else:
                    del owners[owner]
                    if not owners:
                        del shared[u]
                above = parent.item(u)
                higher[above] = higher.get(above, 0) + number
            records = higher

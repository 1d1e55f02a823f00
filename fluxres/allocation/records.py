"""Which job holds what, and when (RFC 4, RFC 16): the records of a graph, and the only code that changes them.

A record says that a job holds units of one pool over time (:mod:`fluxres.allocation.steps`); a stage holds units the same way
under a separate owner until it is committed.  Every change is planned first (:mod:`fluxres.allocation.plans`), which only
reads; applying a plan can fail only because of the bounds of the planner, and then changes nothing.  ``specs/rules.md`` numbers
the rules.

A matched job gets all its pools at once, and mostly frees them at once; single records are rarely read in between.  So its match
is stored as a :class:`Batch` of a few bytes per pool until records are needed; then it is converted, once.  Batches are newer
than all converted records, so jobs stay in the order of their first allocation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import islice
from typing import Final, NamedTuple, Protocol

import numpy as np
from msgspec import structs

from fluxres import limits
from fluxres.allocation import steps
from fluxres.allocation.chosen import Chosen, Returns
from fluxres.allocation.drawn import NO_ROWS, Consumers, DrawRecords, Rows
from fluxres.allocation.facts import ID_OF_JOB, JobFacts, Reservation
from fluxres.allocation.job_draws import JobDraws, OwnDraws
from fluxres.allocation.planned import Batch, Change, Piece, Planned, Staged, Target, freed
from fluxres.allocation.steps import Steps
from fluxres.arrays import Int32, Int64
from fluxres.clock import FOREVER
from fluxres.documents.suggestion import suggest
from fluxres.errors import FluxresError, StaleHandle, UnknownJob, UsageError
from fluxres.graph.structure import Structure
from fluxres.planner.planner import Planner
from fluxres.syntax.variants import SHARE

HIDDEN: Final = "\x00"
"""First character of the names of owners that are not jobs."""
STAGE_OWNER: Final = HIDDEN + "stage:"
"""Prefix of the owner of a stage's records; the id of the stage follows."""
ELSEWHERE: Final = HIDDEN + "elsewhere"
"""Owner of what other instances draw from the suppliers that a child instance shares with them."""


class Upstream(Protocol):
    """Gives a graph units of its pass-through suppliers: the parent of a child instance."""

    def refresh(self) -> None:
        """Update the records of what other instances hold."""

    @property
    def is_closed(self) -> bool:
        """Whether the child has ended and gets nothing more."""

    def require_open(self, vertices: Iterable[int]) -> None:
        """Refuse units of the parent for a child that has ended. Errors: StaleHandle."""

    def take(self, vertices: Sequence[int] | Int32, amounts: Sequence[int] | Int64, start: int, end: int) -> None:
        """Get those of these units that come from the parent.

        Errors: InsufficientResources; nothing changes then.
        """

    def give(self, vertices: Sequence[int] | Int32, amounts: Sequence[int] | Int64, start: int, end: int) -> None:
        """Return them."""

    def note_route(self) -> None:
        """Note that a job draws along a route; see `Records.upward`."""


_NUMBERED: Final = re.compile(r"s[0-9]{1,15}", re.ASCII)
"""The form of generated stage ids; a journal written by hand may have others."""


def empty_planner(structure: Structure) -> Planner:
    """A planner over the pools of a structure and its edges with a capacity, in which nothing is held."""
    accounts = structure.accounts
    return Planner(accounts.parent, accounts.end, accounts.type, accounts.units, of_type=accounts.of_type)


def _each_once(targets: Iterable[Target]) -> tuple[Target, ...]:
    total = Counter[int]()
    for v, amount in targets:
        total[v] += amount
    return tuple(total.items())


class RecordsState(NamedTuple):
    """All that records state themselves, by the names of `Records`; what is derived, such as the shared lists, is built again."""

    held: dict[int, dict[str, Steps]]
    implied: dict[str, dict[int, Steps]]
    owners: list[str]
    stages: dict[str, Staged]
    slots_of: dict[str, int]
    drawn: DrawRecords
    facts: dict[str, JobFacts]
    reservations: dict[str, Reservation]
    chosen: dict[str, Chosen]
    returns: Returns
    stages_made: int


class Records:
    """Which job holds what on one structure.

    Args:
        structure: the generation that the vertex numbers belong to.
        planner: over the same structure, with nothing held; kept in step with the records.
    """

    def __init__(self, structure: Structure, planner: Planner) -> None:
        self.structure = structure
        self.accounts = structure.accounts
        self.planner = planner
        self._held: dict[int, dict[str, Steps]] = {}
        self._pools_of: dict[str, set[int]] = {}
        self._shared: dict[int, dict[str, int]] = {}
        self._batches: dict[str, Batch] = {}
        self.implied: dict[str, dict[int, Steps]] = {}
        """By owner and vertex, units over time that an exclusive pool of the owner implies below it: these are not records (rule
        A5), and become records again when the pool above is freed (rule A6)."""
        self.drawn = DrawRecords()
        """For which pools parts of the records, and of the implied units, were drawn; a batch keeps its own until converted."""
        self.upstream: Upstream | None = None
        """Gives the units of linked pass-through pools; None for a graph without a parent."""
        self.stages: dict[str, Staged] = {}
        self.stages_made = 0
        """Number of the next stage; stages of a graph never share an id, even if the graph is saved and loaded in between."""
        self.upward: set[str] = set()
        """Owners known to draw only along the supply paths of their pools, not along a route to another place (rule F1). A route
        may lead through edges without a capacity, which no record names. The routes of owners read from a file are unknown."""
        self.slots_of: dict[str, int] = {}
        """By job, the number of slots in its requests (RFC 20); jobs that named pools, or freed some by name, have none."""
        self.facts: dict[str, JobFacts] = {}
        """By job, its user and name, if they were given."""
        self.reservations: dict[str, Reservation] = {}
        """By name, the maintenance windows; a record of that owner is not one of a job."""
        self.chosen: dict[str, Chosen] = {}
        """By job, the pools of requests for amounts, in the order chosen."""
        self.returns = Returns()
        """In which order these came back."""

    @property
    def held(self) -> dict[int, dict[str, Steps]]:
        """By vertex and owner, what is held over time."""
        if self._batches:
            self._write()
        return self._held

    @property
    def pools_of(self) -> dict[str, set[int]]:
        """By owner, the pools with records, in the order of the owners' first allocation."""
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

    # -- queries ----------------------------------------------------------------------------------------------------------

    def jobs(self) -> list[str]:
        """Jobs that hold anything, in the order of their first allocation."""
        return [owner for owner in (*self._pools_of, *self._batches) if not owner.startswith(HIDDEN)]

    @property
    def pools_held(self) -> int:
        """The number of pools held; one that several jobs share may count several times."""
        return len(self._held) + sum(len(batch.vertices) for batch in self._batches.values())

    def columns(self) -> tuple[list[str], Int64, DrawRecords]:
        """The owners, in the order of their first allocation; (owner index, vertex, start, end, amount) of all records; and the
        draws.

        What other instances draw is left out. Batches are read as they are, so that a snapshot costs their jobs nothing later.
        """
        owners = [owner for owner in self._pools_of if owner != ELSEWHERE]
        index = {owner: i for i, owner in enumerate(owners)}
        singly = [
            (index[owner], v, start, end, amount)
            for v, holders in self._held.items()
            for owner, held in holders.items()
            if owner != ELSEWHERE
            for start, end, amount in held
        ]
        parts, drawn = [np.array(singly, np.int64).reshape(-1, 5)], DrawRecords()
        lengths = [len(batch.vertices) for batch in self._batches.values()]
        if lengths:
            every = self._batches.values()
            of_batch = np.array([(batch.start, batch.end) for batch in every], np.int64)
            rows = np.empty((sum(lengths), 5), np.int64)
            rows[:, 0] = np.repeat(np.arange(len(owners), len(owners) + len(lengths)), lengths)
            rows[:, 1] = np.concatenate([batch.vertices for batch in every])
            rows[:, 2:4] = np.repeat(of_batch, lengths, axis=0)
            rows[:, 4] = np.concatenate([batch.amounts for batch in every])
            parts.append(rows)
            for owner, batch in self._batches.items():
                if len(batch.drawn):
                    drawn.add(owner, batch.drawn, batch.start, batch.end)
        drawn.ledgers = self.drawn.ledgers | drawn.ledgers
        return [*owners, *self._batches], np.concatenate(parts), drawn

    def is_holder(self, owner: str) -> bool:
        """Whether a job, or a stage, holds anything."""
        return owner in self._batches or owner in self._pools_of

    def is_job(self, owner: str) -> bool:
        """Whether a job holds anything; a maintenance reservation is none."""
        return self.is_holder(owner) and owner not in self.reservations

    def ends(self, owner: str) -> set[int]:
        """Moments at which a record of a holder ends.

        Cost: its records.
        """
        batch = self._batches.get(owner)
        if batch is not None:
            return {batch.end}
        return {end for v in self._pools_of[owner] for _, end, _ in self._held[v][owner]}

    def held_until(self, owner: str, since: int) -> int:
        """Until when an owner has something at any moment since another one; the end of what it had before, -1 for nothing.

        Cost: its records.
        """
        batch, end = self._batches.get(owner), -1  # a moment may be 0
        if batch is not None:
            return batch.end if batch.start <= since else end
        held = {(start, stop) for v in self._pools_of.get(owner, ()) for start, stop, _ in self._held[v][owner]}
        for start, stop in sorted(held):
            if start > max(end, since):
                break
            end = max(end, stop)
        return end

    def require_job(self, job: str) -> set[int]:
        """The pools of which a job has records.

        Errors: UnknownJob; UsageError for anything but an id.
        """
        if not isinstance(job, str):
            raise UsageError(f"job: expected an id, got {job!r}", hint=ID_OF_JOB)
        pools = self.pools_of.get(job)
        if pools is None:
            hint = suggest(job, islice(self.jobs(), limits.COMPARED_MAX), most=3, cutoff=0.7) or "`jobs` lists those that do"
            raise UnknownJob(f"no job '{job}' holds anything", hint=hint)
        return pools

    def steps_of(self, v: int, job: str) -> Steps:
        """What a job holds of a pool over time, without implied units."""
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
        """Records of jobs, not of stages, of a pool in a window: (job, start, end, amount), by start."""
        found = [
            (job, s, e, amount)
            for job, held in self.held.get(v, {}).items()
            if not job.startswith(HIDDEN)
            for s, e, amount in held
            if s < end and start < e
        ]
        return sorted(found, key=lambda span: (span[1], span[0]))

    def inside(self, v: int, start: int, end: int) -> Iterator[tuple[int, str]]:
        """(pool, owner) of the records below a pool that overlap a window."""
        for owner in self.shared.get(v, ()):
            for u in self._pools_below(v, owner):
                if steps.touches(self.held[u][owner], start, end):
                    yield u, owner

    def _pools_below(self, v: int, owner: str) -> Iterator[int]:
        """The pools below `v` with records of an owner.  Cost: the pools below, or those of the owner, whichever are fewer."""
        pools, below = self.pools_of[owner], range(v + 1, self.accounts.end.item(v))
        few, many = (below, pools) if len(below) < len(pools) else (pools, below)
        return (u for u in few if u in many)

    def exclusive_holder(self, v: int, moment: int) -> tuple[int, str] | None:
        """`v` or the nearest pool above it that is held exclusively at a moment, and the job of its owner."""
        u = v
        while u >= 0:
            for owner, held in self.held.get(u, {}).items():
                if owner != ELSEWHERE and steps.amount_at(held, moment) == self.accounts.size.item(u):
                    return u, self.job_behind(owner)
            u = self.accounts.parent.item(u)
        return None

    def shared_jobs(self, v: int, start: int, end: int) -> list[str]:
        """Jobs that hold something below `v` at some moment of the window (RFC 4 `shared`).

        Cost: for each of these jobs, the pools below `v`, or those of the job, whichever are fewer.
        """
        return [
            job
            for job in self.shared.get(v, ())
            if not job.startswith(HIDDEN) and any(steps.touches(self.held[u][job], start, end) for u in self._pools_below(v, job))
        ]

    def is_staged(self, v: int) -> bool:
        """Whether a stage locks units of `v`."""
        return any(owner.startswith(STAGE_OWNER) for owner in self.held.get(v, ()))

    def job_behind(self, owner: str) -> str:
        """The job of an owner, for messages: the owner itself, the job of a stage, or "other instances"."""
        if owner == ELSEWHERE:
            return "other instances"
        return self.stages[owner.removeprefix(STAGE_OWNER)].job if owner.startswith(STAGE_OWNER) else owner

    def said(self, owner: str) -> str:
        """An owner in words: the job behind it, or the maintenance."""
        return f"maintenance '{owner}'" if owner in self.reservations else self.job_behind(owner)

    def exclusive_above(self, v: int, owner: str, start: int, end: int) -> list[tuple[int, int]]:
        """Windows within [start, end) in which the owner holds a pool above `v` exclusively; they may overlap."""
        found: list[tuple[int, int]] = []
        pools = self.pools_of.get(owner, ())
        for u in self.accounts.ancestors(v):
            if u in pools:
                found += steps.whole(self.steps_of(u, owner), start, end, 0, self.accounts.size.item(u))
        return found

    def has_throughout(self, owner: str, v: int, start: int, end: int) -> bool:
        """Whether an owner holds a pool exclusively throughout a window, by a record or through pools above."""
        found: list[tuple[int, int]] = []
        for u in (v, *self.accounts.ancestors(v)):
            found += steps.whole(self.given(u, owner), start, end, 0, self.accounts.size.item(u))
        return not steps.without(start, end, found)

    def batch_of(self, owner: str) -> Batch | None:
        """Everything that an owner holds, if it is still stored as a batch."""
        return self._batches.get(owner)

    def has_exactly(self, owner: str, accounts: Int32, amounts: Int64, start: int, end: int) -> bool:
        """Whether an owner holds these units over this window, and nothing else.

        Cost: its records, unless they are still stored as a batch.
        """
        batch = self._batches.get(owner)
        if batch is not None:
            return (batch.start, batch.end, len(batch.vertices)) == (start, end, len(accounts))
        if len(self._pools_of.get(owner, ())) != len(accounts):
            return False
        pieces = zip(accounts.tolist(), amounts.tolist(), strict=True)
        return all(list(self._held.get(v, {}).get(owner, ())) == [(start, end, amount)] for v, amount in pieces)

    def draws_of(self, owner: str) -> JobDraws:
        """What an owner drew from suppliers for its pools; valid until the owner allocates or frees something."""
        if self._batches:
            self._write()
        given, pools = partial(self.given, owner=owner), partial(self.pools_with_implied, owner)
        return JobDraws(self.structure, self.drawn, owner, given, pools, lambda: self._own_draws)

    @cached_property
    def _own_draws(self) -> OwnDraws:
        return OwnDraws(self.structure)

    # -- allocating -------------------------------------------------------------------------------------------------------

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
        """Apply what :func:`plans.allocate` or :func:`plans.match` returned.

        Args:
            slots: number of slots of the request; 0 if pools were named.
            drawn: the pools for which parts of it are drawn.
            drawn_on: record units that continue the draw of a pool which the owner keeps as drawn for that pool.
            is_routed: whether some of it is drawn along routes; None for what the owner had before, or if unknown.

        Errors: LimitExceeded from the planner; nothing changes then.
        """
        holds = self.is_holder(owner)
        if is_routed:
            self.note_route(owner)
        elif not holds:
            (self.upward.discard if is_routed is None else self.upward.add)(owner)
        before = self.slots_of.get(owner, 0)
        if not before and holds:
            slots = 0  # the number of slots of what it holds already is unknown
        # The planner comes first: it may still refuse because of its bounds, and then nothing has changed.
        if isinstance(planned, Batch):
            self._hold(planned.vertices, planned.amounts, start, end)
            for v in planned.covered:
                self.planner.cover(v, start, end, True)
            self._batches[owner] = structs.replace(planned, drawn=drawn) if len(drawn) else planned
            if slots:
                self.slots_of[owner] = slots
            return
        self._apply(planned, owner, start, end)
        if drawn_on and owner in self.drawn.ledgers:
            self.draws_of(owner).extend(planned, start, end, drawn)
        if len(drawn):
            self.drawn.add(owner, drawn, start, end)
        if slots:
            self.slots_of[owner] = before + slots
        elif before:
            del self.slots_of[owner]

    def note_route(self, owner: str) -> None:
        """Note that an owner draws along a route, here and in the parent; see `upward`."""
        self.upward.discard(owner)
        if self.upstream is not None:
            self.upstream.note_route()

    def _apply(self, planned: Sequence[Change], owner: str, start: int, end: int) -> None:
        for change in planned:
            if change.absorbs or change.implied:
                self._apply_around(planned, owner, start, end)
                return
        self._hold([change.v for change in planned], [change.amount for change in planned], start, end)
        self._record(planned, owner, start, end)

    def _record(self, changes: Iterable[Change], owner: str, start: int, end: int) -> None:
        above: dict[int, int] = {}
        for change in changes:
            self._note(change.v, owner, change.amount, start, end, above)
            if change.covers:
                self._cover(change.v, change.covers)
        self._count_above(above, owner, 1)

    def _apply_around(self, planned: Sequence[Change], owner: str, start: int, end: int) -> None:
        """Apply changes that absorb records of the owner, or that an exclusive pool of the owner implies."""
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

    def _absorb(self, v: int, owner: str, start: int, end: int) -> None:
        """Turn records of the owner into implied units, because it is about to hold a pool above exclusively."""
        for s, e, amount in list(steps.within(self.held[v][owner], start, end)):
            self._uncover(v, owner, s, e)
            self.planner.release(v, amount, s, e)
            self._erase(v, owner, amount, s, e)
            self._note_implied(v, owner, amount, s, e)

    # -- freeing ----------------------------------------------------------------------------------------------------------

    def free(self, planned: Batch | Iterable[Piece], job: str, slots: int = 0) -> None:
        """Apply what :func:`plans.free` returned.

        Args:
            slots: number of slots that are freed, if a request selected the pools. Otherwise, or if a pool is freed in several
                windows, the number of remaining slots is unknown.
        """
        self._free(planned, job, slots)
        if job in self.chosen:
            self._note_return(job)

    def _note_return(self, job: str) -> None:
        """Note which pools a job has returned that it chose by amounts: the one chosen last comes back first."""
        chosen = self.chosen.pop(job)
        kept = self.pools_of.get(job, ()) if self.is_holder(job) else ()
        parent = self.accounts.parent.item
        for v in reversed(chosen.pools):
            if v in kept:
                continue
            if self.structure.kind_of(v).type == SHARE:
                if self.planner.used(v, 0, FOREVER):
                    continue  # others have a share of the index
                v = parent(v)
            self.returns.push(parent(v), v)
        if kept:
            left = tuple(v for v in chosen.pools if v in kept)
            if left:
                self.chosen[job] = Chosen(left, chosen.variant)

    def note_chosen(self, job: str, chosen: Chosen | None) -> None:
        """Record the order in which a request chose what the job holds now."""
        if chosen is not None:
            before = self.chosen.get(job)
            self.chosen[job] = chosen if before is None else before.joined(chosen)

    def _free(self, planned: Batch | Iterable[Piece], job: str, slots: int) -> None:
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
                self.facts.pop(job, None)
                return
            planned = planned.pieces()  # the batch was converted to records after the change was planned
        by_window: dict[tuple[int, int], list[Piece]] = {}
        for piece in planned:
            by_window.setdefault(piece[2:], []).append(piece)
        lost: list[tuple[Consumers, int, Steps]] = []
        if job in self.drawn.ledgers:
            lost = self.draws_of(job).lost(freed(piece for together in by_window.values() for piece in together))
        for window, together in by_window.items():
            self._shrink(together, job, *window)
        if not self.is_holder(job) and job not in self.implied:
            self.slots_of.pop(job, None)
            self.upward.discard(job)
            if job not in self.reservations:
                self.facts.pop(job, None)
        if job in self.drawn.ledgers:
            for consumers, account, held in lost:
                self.drawn.drop(job, consumers, account, held)
        if job in self.drawn.ledgers:
            if job in self.pools_of or job in self.implied:
                self.draws_of(job).settle({piece[0] for together in by_window.values() for piece in together})
            else:
                self.drawn.forget(job)

    def _recurs(self, job: str, planned: Sequence[Piece]) -> bool:
        """Whether a pool is freed in several windows, each of which may have been a slot."""
        ledger = self.drawn.ledgers.get(job)
        pools = [piece[0] for piece in planned if ledger is None or piece[0] not in ledger.held]
        return len(set(pools)) < len(pools)

    def _shrink(self, pieces: Sequence[Piece], owner: str, start: int, end: int) -> None:
        """Free pieces of one window."""
        has_implied = owner in self.implied
        if has_implied:
            pieces = self._free_implied(pieces, owner)
        for v, _, s, e in pieces:
            self._uncover(v, owner, s, e)
        if not has_implied or all(piece[2:] == (start, end) for piece in pieces):
            if pieces:
                self._release([piece[0] for piece in pieces], [piece[1] for piece in pieces], start, end)
        else:
            for v, amount, s, e in pieces:
                self._release([v], [amount], s, e)
        above: dict[int, int] = {}
        for v, amount, s, e in pieces:
            self._erase(v, owner, amount, s, e, above)
        self._count_above(above, owner, -1)
        if has_implied:
            for v, _, s, e in sorted(pieces):
                self._return_implied(v, owner, s, e)

    def _free_implied(self, pieces: Sequence[Piece], owner: str) -> list[Piece]:
        """Free the implied parts of pieces and return the recorded parts."""
        recorded: list[Piece] = []
        for v, amount, start, end in pieces:
            implied = [(s, e) for s, e, _ in steps.within(self.implied.get(owner, {}).get(v, ()), start, end)]
            for s, e in implied:
                self._imply(v, owner, -amount, s, e)
            recorded += [(v, amount, s, e) for s, e in steps.without(start, end, implied)]
        return recorded

    def _return_implied(self, top: int, owner: str, start: int, end: int) -> None:
        """Record again units at or below `top` that no exclusive pool above implies any more in the window (rule A6)."""
        pools = self.implied.get(owner)
        if not pools:
            return
        for v in sorted(v for v in pools if top <= v < self.accounts.end.item(top)):
            for s, e, amount in list(steps.within(self.implied.get(owner, {}).get(v, ()), start, end)):
                for lo, hi in steps.without(s, e, self.exclusive_above(v, owner, s, e)):
                    self._note_implied(v, owner, -amount, lo, hi)
                    self._put(v, owner, amount, lo, hi)

    def _everything(self, owner: str) -> Batch | list[Piece]:
        """The argument with which :meth:`free` frees everything that an owner holds.

        Errors: LimitExceeded.
        """
        batch = self._batches.get(owner)
        if batch is not None:
            return batch
        pieces = [(v, units, s, e) for v in self.pools_with_implied(owner) for s, e, units in self.given(v, owner)]
        self.require_room_to_free(owner, pieces)
        return pieces

    def require_room_to_free(self, job: str, pieces: Sequence[Piece]) -> None:
        """Refuse, before anything changes, a free that would exceed the bounds of the planner half-way.

        Errors: LimitExceeded, even if the windows would just have fitted one after the other.
        """
        implied = self.implied.get(job)
        if not implied and self.planner.has_room(len(pieces)):
            return
        windows: dict[tuple[int, int], list[int]] = {}
        for v, _, start, end in pieces:
            windows.setdefault((start, end), []).append(v)
        if implied:
            for start, end in list(windows):
                for v, held in implied.items():  # these may become records again
                    for s, e, _ in steps.within(held, start, end):
                        windows.setdefault((s, e), []).append(v)
        self.planner.require_room(windows)

    def ended(self, now: int) -> list[tuple[str, Batch | list[Piece]]]:
        """By job, what ended at or before `now`, as an argument of :meth:`free`."""
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

    # -- facts and maintenance --------------------------------------------------------------------------------------------

    def note_facts(self, job: str, facts: JobFacts | None) -> None:
        """Record who a job belongs to, unless that is known."""
        if facts is not None:
            self.facts.setdefault(job, facts)

    def renew(self, job: str, lease: int) -> None:
        """Renew the lease of a job that lives by its processes."""
        if job in self.facts:
            self.facts[job] = self.facts[job].renewed(lease)

    def drop_reservation(self, name: str) -> None:
        """Free what a maintenance window holds, and forget it."""
        del self.reservations[name]
        if self.is_holder(name):
            self.free(self._everything(name), name)
        self.facts.pop(name, None)

    def forget_reservations(self, before: int) -> None:
        """Forget the maintenance windows of which the last has ended by a moment."""
        for name, reservation in list(self.reservations.items()):
            if reservation.windows[-1][1] <= before:
                self.drop_reservation(name)

    # -- staging ----------------------------------------------------------------------------------------------------------

    def stage(self, staged: Staged, planned: Sequence[Planned]) -> None:
        """Apply what :func:`plans.stage` returned; if it exceeds the bounds of the planner, nothing changes."""
        owner = STAGE_OWNER + staged.stage
        try:
            for changes, window in planned:
                self.allocate(changes, owner, *window)
        except FluxresError:
            if self.is_holder(owner):
                self.free(self._everything(owner), owner)
            raise
        self.stages[staged.stage] = structs.replace(staged, targets=_each_once(staged.targets))
        self._count(staged.stage)

    def require_stage(self, stage: str) -> Staged:
        """The stage with this id.

        Errors: StaleHandle if it has been committed or released, or has expired.
        """
        staged = self.stages.get(stage)
        if staged is None:
            raise StaleHandle(f"no stage '{stage}': it was committed, released or has expired")
        return staged

    def commit(self, stage: str, planned: Sequence[Planned]) -> None:
        """Apply what :func:`plans.commit` returned."""
        staged = self.release(stage)
        for (changes, window), part in zip(planned, staged.parts(), strict=True):
            drawn = np.array(part.drawn, np.int64).reshape(-1, 3)
            self.allocate(changes, staged.job, *window, staged.slots, drawn, is_routed=True)  # a stage does not record routes
        self.note_chosen(staged.job, staged.chosen)

    def release(self, stage: str) -> Staged:
        """Free what a stage locks, and return the stage."""
        staged = self.require_stage(stage)
        owner = STAGE_OWNER + stage
        self.free(self._everything(owner), owner)
        del self.stages[stage]
        return staged

    def _count(self, stage: str) -> None:
        if _NUMBERED.fullmatch(stage):
            self.stages_made = max(self.stages_made, int(stage[1:]) + 1)

    def expired_stages(self, now: int) -> list[str]:
        """Ids of the stages that have expired."""
        return [staged.stage for staged in self.stages.values() if staged.expires <= now]

    def stages_over(self, now: int) -> list[str]:
        """Ids of the stages that lock nothing now or later, because they have expired or their window has ended."""
        return [staged.stage for staged in self.stages.values() if min(staged.expires, staged.end) <= now]

    # -- units held elsewhere ---------------------------------------------------------------------------------------------

    def set_elsewhere(self, v: int, held: steps.Steps) -> bool:
        """Record what other instances draw from a shared supplier; return whether that has changed.

        If they draw more than is left here, which only records edited by hand can contain, what is left is recorded.
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

    # -- moving to another structure --------------------------------------------------------------------------------------

    def carry_over(self, other: Records, old_to_new: Int32) -> None:
        """Add the records and stages of another structure, without those of removed or pass-through pools.

        Nothing is checked: the caller audits the result (:func:`fluxres.allocation.audit.check_records`).

        Args:
            old_to_new: new vertex numbers of the pools; an edge follows from its ends.

        Errors: UsageError from the planner if units do not fit a pool.
        """
        self.stages_made = max(self.stages_made, other.stages_made)
        unknown = {owner for owner, pools in self._pools_of.items() if pools and owner not in self.upward}
        self.upward = {owner for owner in self.upward if not other.is_holder(owner)} | (other.upward - unknown)
        new_of = {name: one.renumbered(old_to_new) for name, one in other.reservations.items()} if other.reservations else {}
        self.reservations |= {name: one for name, one in new_of.items() if one.pools}
        if not (other.held or other.implied or other.stages):
            self._carry_over_facts(other)
            self.carry_over_chosen(other, old_to_new)
            return
        # Nothing of a pass-through pool is held, but units may be drawn for it: for a node of which a child has some cores.
        renumbered = other.accounts.renumbered(self.accounts, old_to_new)
        held_to_new = np.where(self.accounts.units[renumbered] == 0, -1, renumbered).astype(np.int32)
        known = [job for job in other.slots_of if not self.is_holder(job)]
        for v in sorted(other.held):
            new = int(held_to_new[v])
            if new < 0:
                continue
            for owner, held in other.held[v].items():
                # What other instances hold is read again from the parent, and what a child drew from it is drawn already.
                if owner != ELSEWHERE:
                    self._carry_over_held(new, owner, held)
        for owner, pools in other.implied.items():
            for v in sorted(pools):
                if (new := int(held_to_new[v])) >= 0:
                    self._carry_over_held(new, owner, pools[v])
        self.drawn.carry_over(other.drawn, renumbered, held_to_new)
        for staged in other.stages.values():
            self._count(staged.stage)
            moved = staged.renumbered(renumbered, held_to_new)
            if moved.targets:
                self.stages[staged.stage] = moved
        for job in known:
            if all(held_to_new[v] >= 0 for v in other.pools_of[job]):
                self.slots_of[job] = other.slots_of[job]
        self._carry_over_facts(other)
        self.carry_over_chosen(other, old_to_new)

    def add_batches(self, batches: Mapping[str, Batch]) -> None:
        """Add what was stored of owners that hold nothing yet, to the records of a new graph.

        Nothing is checked.

        Errors: UsageError from the planner if units do not fit a pool.
        """
        if not batches:
            return
        parts = list(batches.values())
        lengths = [len(batch.vertices) for batch in parts]
        starts, ends = (
            np.repeat(np.array(column, np.int64), lengths) for column in zip(*((b.start, b.end) for b in parts), strict=True)
        )
        vertices = np.concatenate([batch.vertices for batch in parts]).astype(np.int64)
        self.planner.hold_windows(vertices, np.concatenate([batch.amounts for batch in parts]), starts, ends)
        for batch in parts:
            for v in batch.covered:
                self.planner.cover(v, batch.start, batch.end, True)
        self._batches.update(batches)
        self._write()

    def carry_over_chosen(self, other: Records, old_to_new: Int32) -> None:
        """Carry over the orders of another structure."""
        for job, chosen in other.chosen.items():
            made = chosen.renumbered(old_to_new)
            if made.pools and self.is_holder(job):
                self.chosen.setdefault(job, made)
        back = [new for v in other.returns.in_order() if (new := int(old_to_new[v])) >= 0]
        self.returns.restore([*self.returns.in_order(), *back], self.accounts.parent.item)

    def _carry_over_facts(self, other: Records) -> None:
        for job, facts in other.facts.items():
            if self.is_holder(job) or job in self.reservations:
                self.facts.setdefault(job, facts)

    def state(self) -> RecordsState:
        """What :meth:`restore` needs, for pickle; it shares values with these records."""
        return RecordsState(
            self.held,
            self.implied,
            list(self.pools_of),
            self.stages,
            self.slots_of,
            self.drawn,
            self.facts,
            self.reservations,
            self.chosen,
            self.returns,
            self.stages_made,
        )

    def restore(self, state: RecordsState) -> None:
        """Record everything of a state, in records that have nothing yet."""
        before = Records(self.structure, self.planner)
        before._held.update(state.held)
        before._pools_of = {owner: set() for owner in state.owners}
        before.implied, before.stages, before.slots_of, before.drawn = state.implied, state.stages, state.slots_of, state.drawn
        before.facts, before.reservations, before.chosen, before.returns = (
            state.facts,
            state.reservations,
            state.chosen,
            state.returns,
        )
        self.carry_over_all(before)
        self.stages_made = state.stages_made

    def carry_over_all(self, other: Records) -> None:
        """Carry over all records of another structure with the same pools; there must be none yet."""
        # Jobs stay in the order of their first allocation; taking them by pool would reorder them.
        self.pools_of = {owner: set() for owner in other.pools_of if owner != ELSEWHERE}
        self.carry_over(other, np.arange(self.structure.n, dtype=np.int32))
        self.slots_of = dict(other.slots_of)

    def _carry_over_held(self, v: int, owner: str, held: Steps) -> None:
        """Record what an owner has of a pool, after all pools above: one that shrank may now be held exclusively and imply it."""
        for start, end, amount in held:
            recorded = steps.without(start, end, self.exclusive_above(v, owner, start, end))
            for s, e in recorded:
                self._put(v, owner, amount, s, e)
            for s, e in steps.without(start, end, recorded):
                self._imply(v, owner, amount, s, e)

    # -- units together with their records --------------------------------------------------------------------------------

    def _hold(self, vertices: Sequence[int] | Int32, amounts: Sequence[int] | Int64, start: int, end: int) -> None:
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

    def _release(self, vertices: Sequence[int] | Int32, amounts: Sequence[int] | Int64, start: int, end: int) -> None:
        if len(vertices) == 1:
            self.planner.release(int(vertices[0]), int(amounts[0]), start, end)
        else:
            self.planner.release_all(vertices, amounts, start, end)
        if self.upstream is not None:
            self.upstream.give(vertices, amounts, start, end)

    def _put(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        """Record units for which those of the parent instance have been taken already."""
        self.planner.hold(v, amount, start, end)
        self._enter(v, owner, amount, start, end)

    def _enter(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        """Record units that the planner already counts as held."""
        covers = []
        if self.accounts.end.item(v) > v + 1:
            covers = steps.whole(self.steps_of(v, owner), start, end, amount, self.accounts.size.item(v))
        self._note(v, owner, amount, start, end)
        self._cover(v, covers)

    def _cover(self, v: int, windows: Iterable[tuple[int, int]]) -> None:
        if self.accounts.size.item(v) > 1:
            for s, e in windows:
                self.planner.cover(v, s, e, True)

    def _uncover(self, v: int, owner: str, start: int, end: int) -> None:
        size = self.accounts.size.item(v)
        if size > 1 and self.accounts.end.item(v) > v + 1:
            for s, e in steps.whole(self.held[v][owner], start, end, 0, size):
                self.planner.cover(v, s, e, False)

    def _imply(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        """Add to (or, if negative, subtract from) the units that an exclusive pool of the owner implies.

        Units of the parent instance are taken from it as for any allocation: this graph may have only a part of the supplier.

        Errors: InsufficientResources; nothing changes then.
        """
        if self.upstream is not None and amount > 0:
            self.upstream.take([v], [amount], start, end)
        self._note_implied(v, owner, amount, start, end)
        if self.upstream is not None and amount < 0:
            self.upstream.give([v], [-amount], start, end)

    # -- records and derived data -----------------------------------------------------------------------------------------

    def _note_implied(self, v: int, owner: str, amount: int, start: int, end: int) -> None:
        """Record that an exclusive pool above implies units of the owner; negative if it no longer does."""
        pools = self.implied.setdefault(owner, {})
        after = steps.add(pools.get(v, ()), start, end, amount)
        if after:
            pools[v] = after
        else:
            del pools[v]
            if not pools:
                del self.implied[owner]

    def _note(self, v: int, owner: str, amount: int, start: int, end: int, above: dict[int, int] | None = None) -> None:
        """Add units to a record.

        Args:
            above: collects the parents of pools that get their first record, for the caller to count together.
        """
        holders = self.held.setdefault(v, {})
        before = holders.get(owner)
        if before is not None:
            holders[owner] = steps.add(before, start, end, amount)
            return
        holders[owner] = ((start, end, amount),)
        self._pools_of.setdefault(owner, set()).add(v)
        parent = self.accounts.parent.item(v)
        if above is None:
            self._count_above({parent: 1}, owner, 1)
        else:
            above[parent] = above.get(parent, 0) + 1

    def _erase(self, v: int, owner: str, amount: int, start: int, end: int, above: dict[int, int] | None = None) -> None:
        """Subtract units from a record.

        Args:
            above: collects the parents of pools that lose their last record, for the caller to count together.
        """
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
        parent = self.accounts.parent.item(v)
        if above is None:
            self._count_above({parent: 1}, owner, -1)
        else:
            above[parent] = above.get(parent, 0) + 1

    def _write(self) -> None:
        """Convert the batches to records."""
        batches, self._batches = self._batches, {}
        held = self._held
        for owner, batch in batches.items():
            vertices = batch.vertices.tolist()
            record: dict[int, Steps] = {n: ((batch.start, batch.end, n),) for n in set(batch.amounts.tolist())}
            for v, amount in zip(vertices, batch.amounts.tolist(), strict=True):
                held.setdefault(v, {})[owner] = record[amount]
            self._pools_of[owner] = set(vertices)
            self._count_above(Counter(self.accounts.parent[batch.vertices].tolist()), owner, 1)
            self.drawn.add(owner, batch.drawn, batch.start, batch.end)

    def _count_above(self, records: dict[int, int], owner: str, sign: int) -> None:
        """Count added (1) or removed (-1) records, given by parent, at the parent and every pool above it (rule A4)."""
        parent, shared = self.accounts.parent.item, self._shared
        while records:
            higher: dict[int, int] = {}
            for u, number in records.items():
                if u < 0:
                    continue
                owners = shared.setdefault(u, {})
                owners[owner] = owners.get(owner, 0) + sign * number
                if not owners[owner]:
                    del owners[owner]
                    if not owners:
                        del shared[u]
                above = parent(u)
                higher[above] = higher.get(above, 0) + number
            records = higher

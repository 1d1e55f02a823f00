"""Inventory for all requests, on the resource graph itself: the matcher finds pools, and the records hold them.

Each job and each reservation is an allocation in the graph under the job's id, so the graph shows what the instance does, and
enforces the rules.  A request that found nothing is not tried again before something is freed, and neither is one for more of the
same or for longer (`refused.py`), so a queue of similar jobs costs one search.

EASY drops its reservations at each pass and makes them again.  To erase thousands of pools from the records and write the same
ones again would be most of the work of a pass, so `suspend` leaves them there until they are in the way, or the pass ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from msgspec import structs

from fluxres.allocation import steps
from fluxres.arrays import Int32, Int64
from fluxres.clock import FOREVER, seconds
from fluxres.errors import InfeasibleRequest, InsufficientResources, LimitExceeded, NotHeld
from fluxres.graph import compare
from fluxres.instance import recording
from fluxres.instance.inventory import CurrentMeasure, Hold, Running
from fluxres.instance.named import DESCENDING
from fluxres.instance.refused import Refused, Wanted, Wants
from fluxres.match import Matcher, Placement
from fluxres.match.policy import policy
from fluxres.model import changes, matching
from fluxres.syntax import fluid
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.model import ResourceGraph
    from fluxres.planner.planner import Planner


Name = TypeVar("Name", int, str)
"""A pool or an edge: its number or its path."""


class Reserved(NamedTuple):
    """A reservation, as it was found.

    Args:
        planner, freed: the planner, and its number of releases then; -1 if it was restored, since others may have lost theirs.
    """

    hold: GraphHold
    place: Placement
    planner: Planner
    freed: int


class Ended(NamedTuple):
    """A job that has ended, and the requests that had found nothing beside it: the next job may take exactly what it held.

    Args:
        revision: of the graph, without it.
    """

    hold: GraphHold
    failed: Refused
    revision: int


class GraphInventory:
    """An `Inventory` that allocates in its graph.

    Args:
        match_policy: which pools to prefer.
        measure: the type in whose units sizes are measured.
    """

    kind: str = "graph"

    def __init__(self, graph: ResourceGraph, match_policy: str = "first", measure: str | None = None) -> None:
        self.graph = graph
        self.revision = graph.revision
        self._measure = CurrentMeasure(measure)
        self.match_policy = match_policy
        self.running = Running()
        self._reserved: dict[int, Reserved] = {}
        self.ahead: dict[int, Hold] = {}
        self._suspended: dict[int, Reserved] = {}
        """Reservations that were dropped, but are in the records until they are in the way."""
        self._has_fixed_order = _has_fixed_order(match_policy)
        self._feasible: dict[Wanted, bool] = {}
        self._wants = self._new_wants()
        self._failed = Refused()
        """Requests that found nothing since something was last freed, or was freed and taken again."""
        self._ended: Ended | None = None
        """The job that ended last, if nothing was freed or taken since then."""
        self._undecided: dict[Wanted, int] = {}
        """Requests that could not be decided or granted since then, with the shortest window for which they could not."""
        self._unreservable = Refused()
        """Requests without any start since then."""
        self._disputed: dict[int, list[tuple[str, int]]] = {}
        """By key, all pools of a late job of which others hold some; the records have less."""
        self._expired: dict[int, list[tuple[str, int]]] = {}
        """By key, the pools of a job that has not ended, but whose records have expired."""
        self._known = self._graph_state()
        graph.keepers.add(self)

    def _new_wants(self) -> Wants:
        return Wants(is_divided=not self.graph.structure.partitions)

    def _matcher(self) -> Matcher:
        if self.graph.records.upstream is not None:
            self.graph.records.upstream.refresh()
        return self.graph.matcher

    # -- requests ----------------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> Request:
        """The request itself, if it can ever be satisfied, and asks for more than shared pools."""
        wanted = self._wants.of(request)
        known = self._feasible.get(wanted)
        if known is None:
            known = self._is_feasible(request)
            if len(self._feasible) > 4096:
                self._feasible.clear()
            self._feasible[wanted] = known
        if not known:
            refusal, is_child = self.graph.why_not(request), self.graph.records.upstream is not None
            if refusal is not None and refusal.never:
                raise matching.refused(replace(refusal, is_of_part=refusal.is_of_part or is_child))
            raise InfeasibleRequest("the request can never be satisfied", hint="this machine can never satisfy it")
        return request

    def _is_feasible(self, request: Request) -> bool:
        """Whether the idle machine satisfies a request. Errors: UsageError for one that only asks for shared pools.

        A request of another system may say that it consumes nothing.
        """
        matcher = self._matcher()
        if not matcher.satisfiable(request):
            return False
        if request.chooser is None and not matcher.is_recorded(request, self.match_policy):
            raise changes.nothing_recorded()
        return True

    @property
    def is_full(self) -> bool:
        """Always False: it depends on the request."""
        return False

    @property
    def free_units(self) -> int:
        """The records have reservations as well; one that is due is not held until its job starts."""
        free, now = self.graph.aggregate().get(self.measure, 0), self.graph.now()
        known = (*self._reserved.values(), *self._suspended.values())
        return free + sum(reserved.hold.count for reserved in known if reserved.hold.start <= now < reserved.hold.end)

    def idle(self, number: int, now: int) -> list[tuple[str, int]]:
        """At most that many units of `measure` that nobody holds now: whole pools, the last ones, else units of one pool."""
        structure = self.graph.structure
        found: list[tuple[str, int]] = []
        for v in reversed(structure.of_type(self.measure).tolist() if self.measure in structure.types else []):
            if structure.is_way(v) or structure.unavailable_above(v) >= 0:
                continue
            free, size = self.graph.planner.free(v, now, now + 1), structure.size.item(v)
            if size == free <= number or (not found and size > 1 and free):
                found.append((structure.path(v), min(free, number)))
                number -= found[-1][1]
                if found[-1][1] < size:
                    break
        return found

    def start(self, key: int, ask: Request, now: int, end: int) -> Hold | None:
        wanted, length = self._wants.of(ask), end - now
        if self._failed.includes(wanted, length) or self._undecided.get(wanted, FOREVER + 1) <= length:
            return None
        if self._suspended and not self._fits_before_suspended(ask, wanted, now, end):
            return None
        try:
            found = self._match(ask, wanted, now, end)
        except LimitExceeded:  # undecided, and it will stay so until something is freed
            self._undecided[wanted] = length
            raise
        if found is None:
            return None
        self.unreserve(key)
        ended, is_same = self._ended, self._ended is not None and self._ended.revision == self.graph.revision
        try:
            hold = self._commit(key, found)
        except InsufficientResources:  # of a supplier of the parent, which serves others first
            self._undecided[wanted] = length
            return None
        self.running.add(hold)
        if ended is not None:
            self._ended = None
            if is_same and not self._failed and ended.hold.has_same(hold):
                self._failed = ended.failed
        return hold

    def _match(self, ask: Request, wanted: Wanted, now: int, end: int) -> Placement | None:
        try:
            found = self._matcher().match(ask, now, end, self.match_policy, is_queued=True)
        except InfeasibleRequest:  # the machine has lost all pools of a type, but may get some again
            found = None
        if found is None:
            self._learn(ask, wanted, now, end)
        return found

    def _learn(self, ask: Request, wanted: Wanted, now: int, end: int) -> None:
        """Remember that a request found nothing, and from what number on there is nothing even now, or until a reservation.

        Such a number spares the searches of later requests, so it is worth one of its own from the second request on: a policy
        that stops at the first one asks no more.
        """
        is_first = not self._failed
        self._failed.add(wanted, end - now)
        if is_first:
            return
        begun = (reserved.hold.start for reserved in self._reserved.values())
        for stop in (now + 1, min((start for start in begun if start > now), default=end) + 1):
            if stop < end and (most := self._matcher().at_most(ask, now, stop, self.match_policy)) < wanted.number:
                self._failed.add(Wanted(wanted.kind, most + 1), stop - now)
                return

    def _fits_before_suspended(self, ask: Request, wanted: Wanted, now: int, end: int) -> bool:
        """Whether there may be room although suspended reservations are in the records; erases them if they are in the way."""
        first = min(reserved.hold.start for reserved in self._suspended.values())
        if end <= first:
            return True
        with suppress(LimitExceeded):
            if self._match(ask, wanted, now, first) is None:
                return False
        self.drop_suspended()
        return True

    def start_on(self, key: int, choose: Callable[[int, int], Placement | None], now: int, end: int) -> Hold | None:
        """Allocate what a queue policy chooses over [now, end); None if it finds no room."""
        self.drop_suspended()
        found = choose(now, end)
        if found is None:
            return None
        try:
            hold = self._commit(key, found)
        except InsufficientResources:  # of a supplier
            return None
        self.running.add(hold)
        return hold

    def _commit(self, key: int, found: Placement, *, is_moved: bool = False) -> GraphHold:
        graph = self.graph
        hold = GraphHold(key, found.start, found.end, 0, found.vertices, found.amounts, graph)
        hold.count = self._measure.of(graph.structure).units(hold.vertices, found.amounts[: len(hold.vertices)])
        if len(found.vertices):  # empty for a request that only shares pools
            with recording.own_changes(self):
                changes.record_match(graph, found, fluid.encode(key), is_moved=is_moved)
        return hold

    def forget_failures(self) -> None:
        if self._failed:
            self._failed = Refused()
        self._ended = None
        self._undecided.clear()
        self._unreservable.clear()

    def has_room(self, ask: Request, now: int) -> bool:
        if self._failed.includes(self._wants.of(ask), 1):
            return False
        with suppress(InfeasibleRequest):
            return self._matcher().match(ask, now, now + 1, self.match_policy, is_queued=True) is not None
        return False

    # -- reserving ---------------------------------------------------------------------------------------------------

    def reserve(self, key: int, ask: Request, duration: int, now: int) -> int | None:
        kept = self._reserved.get(key) or self._suspended.pop(key, None)
        if kept is not None:
            self._reserved[key] = kept
            if self._is_still_earliest(kept, ask, duration, now):
                return kept.hold.start
        self.drop_suspended()
        self.unreserve(key)
        wanted = self._wants.of(ask)
        if self._unreservable.includes(wanted, duration):
            return None
        try:
            found = self._matcher().earliest(ask, duration, now, self.match_policy, is_queued=True)
        except InfeasibleRequest:
            return None
        if found is None:
            self._unreservable.add(wanted, duration)
            return None
        return found.start if self._reserve(key, found) else None

    def _reserve(self, key: int, found: Placement, *, is_moved: bool = False) -> bool:
        try:
            hold = self._commit(key, found, is_moved=is_moved)
        except InsufficientResources:
            return False
        planner = self.graph.records.planner
        self._reserved[key] = Reserved(hold, found, planner, -1 if is_moved else planner.levels.freed)
        return True

    def _is_still_earliest(self, reserved: Reserved, ask: Request, duration: int, now: int) -> bool:
        """Whether a search would surely find the same place again.

        Since it was found, nothing was freed of what is to come; or only before its start, and still too little at every moment.
        """
        hold, planner = reserved.hold, self.graph.records.planner
        if hold.start < now or hold.end != min(hold.start + duration, FOREVER) or reserved.planner is not planner:
            return False
        if reserved.freed < 0:
            return False
        if not self._has_fixed_order or self.graph.records.upstream is not None or self.graph.structure.partitions:
            return False
        freed = planner.levels.freed_within(reserved.freed)
        if freed is None or freed[1] <= now:
            return True
        if any(other.hold.start < hold.start for other in self._suspended.values()):
            return False  # those in the records would be in the way, and have been dropped
        return freed[1] <= hold.start and self._matcher().no_start_before(ask, 1, now, self.match_policy) >= hold.start

    def suspend(self, now: int) -> None:
        """Drop all reservations, most of which are about to be made again."""
        self._suspended.update(self._reserved)
        self._reserved.clear()
        self.forget_failures()
        if any(reserved.hold.start <= now for reserved in self._suspended.values()):
            self.drop_suspended()

    def drop_suspended(self) -> None:
        while self._suspended:
            self._free(self._suspended.popitem()[0])

    def places(self) -> dict[int, Placement]:
        return {key: reserved.place for key, reserved in self._reserved.items()}

    def restore(self, key: int, place: Placement, duration: int, start: int, now: int) -> bool:
        moved = structs.replace(place, start=start, end=min(start + duration, FOREVER))
        with suppress(InfeasibleRequest):
            return self._reserve(key, moved, is_moved=True)
        return False

    def begin(self, key: int, ask: Request, now: int, end: int) -> Hold | None:
        reserved = self._reserved[key].hold
        if reserved.start != now or reserved.end != end:
            self.unreserve(key)
            return self.start(key, ask, now, end)
        del self._reserved[key]
        self.running.add(reserved)
        return reserved

    def reserved(self, key: int) -> Hold | None:
        found = self._reserved.get(key)
        return None if found is None else found.hold

    def reserved_starts(self) -> dict[int, int]:
        return {key: reserved.hold.start for key, reserved in self._reserved.items()}

    def check(self) -> list[tuple[str, str]]:
        """Nothing to check: all counts are in the records."""
        return []

    def unreserve(self, key: int) -> None:
        if self._reserved.pop(key, None) is not None or self._suspended.pop(key, None) is not None:
            self._free(key)

    def clear(self) -> None:
        self.drop_suspended()
        for key in list(self._reserved):
            self.unreserve(key)

    # -- advance reservations ----------------------------------------------------------------------------------------

    def reserve_ahead(self, key: int, ask: Request, start: int, end: int, now: int) -> None:
        self.clear()
        self.forget_failures()
        found = self._matcher().match(ask, start, end, self.match_policy, is_queued=True)
        if found is None:
            raise matching.error(self.graph, ask, (start, end), self.match_policy)
        self.ahead[key] = self._commit(key, found)

    def reserve_pools_ahead(self, key: int, vertices: list[int], start: int, end: int, now: int) -> None:
        self.clear()
        self.forget_failures()
        structure = self.graph.structure
        pools = [(structure.where(v), structure.size.item(v)) for v in vertices]
        with recording.own_changes(self):
            recording.record(self.graph, fluid.encode(key), pools, start, end)
            self.ahead[key] = self.adopt(key, Hold(key, start, end, 0), pools, is_disputed=False, is_running=False)

    def begin_ahead(self, key: int) -> Hold | None:
        hold = self.ahead[key]
        if self._disputed and self._is_used_by_late_job(hold):
            return None
        self.clear()
        del self.ahead[key]
        self.running.add(hold)
        return hold

    def _is_used_by_late_job(self, ahead: Hold) -> bool:
        """Whether a job that has not ended in time still uses some of an advance reservation, which the records have already."""
        end, reserved = self.graph.structure.accounts.end.item, self.vertices(ahead)
        for claim in (*self.running.holds, *self.running.lapsed.values()):
            given = self.disputed(claim)
            if given is None:
                continue
            recorded = dict(self._recorded_at_end(claim, int))
            lost = [v for v, amount in given if recorded.get(v, 0) < amount]
            if any(u < end(v) and v < end(u) for v in lost for u in reserved):
                return True
        return False

    def drop_ahead(self, key: int) -> None:
        if self.ahead.pop(key, None) is not None:
            self.clear()
            self._free(key)

    # -- the end of claims -------------------------------------------------------------------------------------------

    def _free(self, key: int) -> None:
        graph, job = self.graph, fluid.encode(key)
        if graph.records.is_holder(job):
            with recording.own_changes(self), graph.write_lock:
                changes.expire_stages(graph)
                changes.free(graph, job, None, None, None)
        self.forget_failures()

    def finish(self, key: int, claim: Hold, now: int) -> None:
        self.running.release(claim)
        if isinstance(claim, GraphHold) and claim.generation != self.graph.generation:  # it grew or shrank: for `ids`
            known = self.vertices(claim) or [v for v, _ in recording.existing(self.graph, self._expired.get(key, []))]
            claim.vertices, claim.generation = np.array(known, np.int32), self.graph.generation
        self._disputed.pop(key, None)
        self._expired.pop(key, None)
        failed, number = self._failed, len(self.graph.records.pools_of.get(fluid.encode(key), ()))
        self._free(key)
        if failed and isinstance(claim, GraphHold) and number == len(claim.accounts):  # others may have added to it
            self._ended = Ended(claim, failed, self.graph.revision)

    def resize(self, key: int, claim: Hold, now: int, end: int) -> None:
        self.clear()
        with recording.own_changes(self):
            if end > claim.end:
                self._record(claim, max(claim.end, now), end)
            elif end < claim.end:
                recording.free_rest(self.graph, fluid.encode(key), end)  # nothing if it only shares pools, or others hold all
        self._move(claim, end)

    def _record(self, claim: Hold, start: int, end: int) -> None:
        pools = self._final_pools(claim)
        if pools:
            recording.record(self.graph, fluid.encode(claim.key), pools, start, end)

    def _final_pools(self, claim: Hold) -> list[tuple[str, int]]:
        """What a job holds at its end, including what it holds implicitly below exclusive pools; else what it was given."""
        return self._disputed[claim.key] if claim.key in self._disputed else self._pools_at_end(claim) or self._given_to(claim)

    def _given_to(self, claim: Hold) -> list[tuple[str, int]]:
        if not isinstance(claim, GraphHold) or claim.generation != self.graph.generation:
            return []
        name = self.graph.structure.accounts.by_uuid
        return [(name(v), amount) for v, amount in claim.given()]

    def _pools_at_end(self, claim: Hold) -> list[tuple[str, int]]:
        return self._recorded_at_end(claim, self.graph.structure.accounts.where) or self._expired.get(claim.key, [])

    def keep_ended(self, before: int) -> None:
        """Remember what jobs hold whose records are about to expire although the jobs have not ended (rule T1)."""
        running = self.running
        for hold in (*running.holds[: bisect_right(running.ends, before)], *running.lapsed.values()):
            if hold.end <= before and (pools := self._recorded_at_end(hold, self.graph.structure.accounts.by_uuid)):
                self._expired[hold.key] = pools  # by uuid, since the same change may move them

    def _recorded_at_end(self, claim: Hold, name: Callable[[int], Name]) -> list[tuple[Name, int]]:
        job, records = fluid.encode(claim.key), self.graph.records
        held = ((v, steps.amount_at(records.given(v, job), claim.end - 1)) for v in records.pools_with_implied(job))
        return [(name(v), amount) for v, amount in held if amount]

    def _move(self, claim: Hold, end: int) -> None:
        self.running.move(claim, end)
        self._expired.pop(claim.key, None)
        self.forget_failures()

    def extend(self, key: int, claim: Hold, now: int, end: int) -> list[str]:
        self.clear()
        job, pools = fluid.encode(key), self._final_pools(claim)
        may_gain = not claim.is_live or key in self._disputed or claim.end < now
        with recording.own_changes(self), self._ended_kept(now, claim) if may_gain else nullcontext():
            taken = recording.record_available(self.graph, job, pools, claim.end, now, end, replace=key in self._disputed)
        if taken:
            self._disputed[key] = pools  # to be held again when the others have freed it
        else:
            self._disputed.pop(key, None)
        self._move(claim, end)
        return taken

    def take_back(self, claim: Hold) -> None:
        """Note that a job is to hold again what it was given, of which others have freed everything; `extend` records it."""
        if claim.key not in self._expired and (given := self._given_to(claim)):
            self._disputed.setdefault(claim.key, given)

    def renumber(self, before: Structure, old_to_new: Int32 | None) -> None:
        """Keep what was given to jobs, by the numbers of the next generation.

        Cost: the pools of the jobs as arrays; without the numbers, a sort of the pools of the machine.
        """
        known = (*self.running.holds, *self.running.lapsed.values(), *self.ahead.values())
        held = [hold for hold in known if isinstance(hold, GraphHold) and hold.generation == self.graph.generation - 1]
        if held:
            after = self.graph.structure
            pools = compare.numbers_in(after, before) if old_to_new is None else old_to_new
            numbers = before.accounts.renumbered(after.accounts, pools)
            for hold in held:
                hold.renumber(numbers, before, self.graph)

    @contextmanager
    def _ended_kept(self, now: int, beside: Hold) -> Iterator[None]:
        """Extend the records of other jobs whose end has come for a while: what they hold stays theirs until `advance`."""
        over = [hold for hold in self.running.holds[: bisect_right(self.running.ends, now)] if hold is not beside]
        for hold in over:
            recording.record_available(
                self.graph, fluid.encode(hold.key), self._pools_at_end(hold), hold.end, now, now + 1, replace=False
            )
        try:
            yield
        finally:
            for hold in over:
                recording.free_rest(self.graph, fluid.encode(hold.key), hold.end)

    def shrink(self, key: int, claim: Hold, part: Request, now: int) -> bool:
        policy = "low" if self.match_policy in DESCENDING else "high"
        return self._change(key, claim, now, lambda job: self.graph.shrink(job, part, policy=policy))

    def grow(self, key: int, claim: Hold, part: Request, now: int) -> bool:
        return self._change(key, claim, now, lambda job: self.graph.grow(job, part, start=seconds(now), policy=self.match_policy))

    def _change(self, key: int, claim: Hold, now: int, change: Callable[[str], object]) -> bool:
        """Change the records of a claim, and then what it knows of them; those of its past, with another size, are dropped."""
        self.clear()
        if not claim.is_live or key in self._disputed or not isinstance(claim, GraphHold):
            return False
        job = fluid.encode(key)
        try:
            with recording.own_changes(self):
                if now > max(claim.start, 0):
                    with suppress(NotHeld):
                        self.graph.free(job, end=seconds(now))
                change(job)
        except (InfeasibleRequest, InsufficientResources, LimitExceeded, NotHeld):
            return False
        self.forget_failures()
        self._renew(claim, self._held_units(claim))
        return True

    def recount(self, claim: Hold) -> None:
        """Count what a claim holds by the records, after a child has grown or shrunk."""
        if not isinstance(claim, GraphHold) or claim.key in self._disputed:
            return
        job, records = fluid.encode(claim.key), self.graph.records
        ends = records.ends(job) if records.is_holder(job) else ()
        last = min(claim.end, max(ends, default=claim.end)) - 1  # others may have set an earlier end
        self._renew(claim, ((v, steps.amount_at(records.steps_of(v, job), last)) for v in self.vertices(claim)))

    def has_lost(self, claim: Hold, now: int) -> bool:
        """Whether a claim has fewer units now than were counted, since others have freed some; counts them then.

        What it was given stays known, so that `check` reports what is missing.
        """
        job, records = fluid.encode(claim.key), self.graph.records
        if not isinstance(claim, GraphHold) or claim.key in self._disputed or not records.is_holder(job):
            return False
        at = max(now, claim.start)
        held = ((v, steps.amount_at(records.steps_of(v, job), at)) for v in self.vertices(claim))
        count = self._size(*_columns((v, amount) for v, amount in held if amount))
        if count >= claim.count:
            return False
        claim.count = count
        return True

    def _renew(self, claim: GraphHold, held: Iterable[tuple[int, int]]) -> None:
        vertices, amounts = _columns((v, amount) for v, amount in held if amount)
        claim.count = self._size(vertices, amounts)
        claim.hold(vertices, amounts, self.graph)

    def size_of(self, job: str) -> int:
        """The size of what a job of the graph holds, without what it holds of edges."""
        records, n = self.graph.records, self.graph.structure.n
        held = ((v, max(amount for _, _, amount in records.held[v][job])) for v in records.require_job(job) if v < n)
        return self._size(*_columns(held))

    def _size(self, vertices: Int32, amounts: Int64) -> int:
        return self._measure.of(self.graph.structure).units(vertices, amounts)

    def advance(self, now: int) -> list[int]:
        ends = self.running.ends
        if not ends or ends[0] > now:
            return []
        self.forget_failures()
        return [hold.key for hold in self.running.take_ended(now)]

    def refresh(self) -> None:
        self.clear()
        self.forget_failures()
        self._feasible.clear()
        self._wants = self._new_wants()
        self._measure.drop()
        self._known = self._graph_state()

    def _graph_state(self) -> tuple[int, bytes]:
        return self.graph.generation, self.graph.structure.unavailable_roots().tobytes()

    @property
    def is_stale(self) -> bool:
        return self._graph_state() != self._known or self._has_lost_reservations()

    def _has_lost_reservations(self) -> bool:
        """Whether others have freed or moved some of what the queue policy has reserved."""
        known, records = (*self._reserved.values(), *self._suspended.values()), self.graph.records
        return not all(
            records.has_exactly(fluid.encode(hold.key), hold.accounts, hold.amounts, hold.start, hold.end) for hold, *_ in known
        )

    def set_held_by_others(self, held: dict[int, int]) -> bool:
        """Nothing to do: the records have it."""
        return False

    def adopt(self, key: int, claim: Hold, pools: list[tuple[str, int]], *, is_disputed: bool, is_running: bool = True) -> Hold:
        """Take over a claim of another inventory that is recorded in the graph already; return the claim here.

        Args:
            pools: all pools of the claim, with their units.
            is_disputed: whether others hold some of it, so that the records have less.
            is_running: whether it has begun; otherwise it is an advance reservation.
        """
        accounts, amounts = _columns(recording.existing(self.graph, pools))
        if is_disputed:
            self._disputed[key] = pools
        hold = GraphHold(key, claim.start, claim.end, self._size(accounts, amounts), accounts, amounts, self.graph)
        hold.is_live = claim.is_live
        if hold.is_live and is_running:
            self.running.add(hold)
        return hold

    # -- queries -----------------------------------------------------------------------------------------------------

    def pools(self, claim: Hold) -> list[tuple[str, int]]:
        structure = self.graph.structure
        return [(structure.where(v), amount) for v, amount in self._held_units(claim)]

    def vertices(self, claim: Hold) -> list[int]:
        """Pools with a record, and pools of which others hold some."""
        if claim.key in self._disputed:
            return [v for v, _ in self._held_units(claim)]
        structure, records, job = self.graph.structure, self.graph.records, fluid.encode(claim.key)
        found: list[int] = []
        stop = 0
        for v in sorted(v for v in records.pools_of.get(job, ()) if v < structure.n):
            if v < stop:
                continue  # recorded while others held the rest of the pool above, which it holds exclusively now
            found.append(v)
            end = structure.end.item(v)
            if end > v + 1 and steps.amount_at(records.steps_of(v, job), claim.end - 1) == structure.size.item(v):
                stop = end
        return found

    def disputed(self, claim: Hold) -> list[tuple[int, int]] | None:
        """All pools and edges of a late job with their units, if others hold some of them; else None."""
        found = self._disputed.get(claim.key)
        return None if found is None else recording.existing(self.graph, found)

    def _held_units(self, claim: Hold) -> list[tuple[int, int]]:
        disputed = self.disputed(claim)
        if disputed is not None:
            n = self.graph.structure.n  # without the edges
            return [(v, amount) for v, amount in disputed if v < n]
        job, records = fluid.encode(claim.key), self.graph.records
        return [(v, max((amount for _, _, amount in records.steps_of(v, job)), default=0)) for v in self.vertices(claim)]

    def ids(self, claim: Hold) -> str:
        measure = self._measure.of(self.graph.structure)
        if isinstance(claim, GraphHold) and claim.generation == self.graph.generation:
            return measure.ids(claim.vertices)
        return measure.ids(np.array(self.vertices(claim), np.int32))

    def requested(self, request: Request) -> int:
        return self._measure.of(self.graph.structure).requested(request)

    def measure_in(self, type_name: str | None) -> None:
        self._measure = CurrentMeasure(type_name)

    @property
    def measure(self) -> str:
        return self._measure.of(self.graph.structure).type

    @property
    def size(self) -> int:
        return self._measure.of(self.graph.structure).size

    def count(self, claim: Hold) -> int:
        """The units of the measured type, including those held implicitly below exclusive pools."""
        return claim.count


def _columns(pools: Iterable[tuple[int, int]]) -> tuple[Int32, Int64]:
    """Pools and edges with their units, as two arrays."""
    accounts, amounts = np.array(list(pools), np.int64).reshape(-1, 2).T
    return accounts.astype(np.int32), amounts


def _has_fixed_order(match_policy: str) -> bool:
    """Whether a match policy prefers the same pools whatever else is held, so that a place that stays free stays the choice."""
    found = policy(match_policy)
    return found.score is None and not found.near and not found.evened


class GraphHold(Hold):
    """What was allocated to a job in a graph; usable without the records until the shape of the graph changes.

    Args:
        accounts, amounts: the pools and edges, ascending, with the units of each.
    """

    __slots__ = ("accounts", "amounts", "generation", "vertices")

    def __init__(
        self,
        key: int,
        start: int,
        end: int,
        count: int,
        accounts: Int32,
        amounts: Int64,
        graph: ResourceGraph,
    ) -> None:
        super().__init__(key, start, end, count)
        self.hold(accounts, amounts, graph)

    def hold(self, accounts: Int32, amounts: Int64, graph: ResourceGraph) -> None:
        self.accounts = accounts
        self.amounts = amounts
        n = graph.structure.n  # edges follow the pools
        self.vertices = accounts if not len(accounts) or accounts.item(-1) < n else accounts[accounts < n]
        """The pools among them."""
        self.generation = graph.generation

    def renumber(self, numbers: Int32, before: Structure, graph: ResourceGraph) -> None:
        """Follow the graph into the next generation; pools held with all in them stay so if they have another size.

        Args:
            numbers: the new numbers by old one, -1 for what has gone.
        """
        old, new, accounts = self.accounts, numbers[self.accounts], graph.structure.accounts
        size = accounts.size[new]
        whole = (self.amounts == before.accounts.size[old]) & (before.accounts.end[old] > old + 1) & (old < before.tree_end)
        amounts = np.where(whole, size, np.minimum(self.amounts, size))
        left = np.flatnonzero((new >= 0) & (accounts.units[new] != 0) & (amounts > 0))
        left = left[np.argsort(new[left])]
        self.hold(new[left], amounts[left], graph)

    def has_same(self, other: GraphHold) -> bool:
        """Whether another job got the same units of the same pools, in the same graph."""
        return (
            self.generation == other.generation
            and self.accounts.tobytes() == other.accounts.tobytes()
            and self.amounts.tobytes() == other.amounts.tobytes()
        )

    def given(self) -> list[tuple[int, int]]:
        """The pools and edges with their units."""
        return list(zip(self.accounts.tolist(), self.amounts.tolist(), strict=True))

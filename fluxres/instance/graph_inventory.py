"""Any request there is, on the resource graph itself: the matcher finds, the records remember.

Every job and every reservation is an allocation of the graph under the job's id, so that a look at the graph shows what
the instance does, and the rules are held where they always are.  A request that found nothing is not tried again for as long,
or longer, before something comes back: a queue of equal jobs costs one search.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fluxres.allocation import steps
from fluxres.clock import FOREVER, seconds
from fluxres.errors import InfeasibleRequest, InsufficientResources, LimitExceeded, NotHeld, UnknownJob
from fluxres.instance import recording
from fluxres.instance.inventory import Hold, Running
from fluxres.instance.measure import Measure
from fluxres.match import Matcher, Placement
from fluxres.model import changes, matching
from fluxres.syntax import fluid
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph


class GraphInventory:
    """A resource graph as what an instance schedules on.

    Args:
        graph: jobs become allocations in it.
        match_policy: which pools to prefer.
        measure: type that sizes are measured in.
    """

    kind: str = "graph"

    def __init__(self, graph: ResourceGraph, match_policy: str = "first", measure: str | None = None) -> None:
        self.graph = graph
        self.revision = graph.revision
        self._measure = measure
        self.match_policy = match_policy
        self.running = Running()
        self._reserved: dict[int, Hold] = {}
        self._places: dict[int, Placement] = {}
        """What was found for these."""
        self._feasible: dict[object, bool] = {}
        self._failed: dict[object, int] = {}
        """Requests that found nothing since something last came back, with the shortest window that was too long."""
        self._scale: tuple[int, Measure] | None = None
        self._disputed: dict[int, list[tuple[str, int]]] = {}
        """What those have of which others hold some; the records have less."""
        self._expired: dict[int, list[tuple[str, int]]] = {}
        """What those had at their end whose records have expired, though they have not given it back."""
        self._known = self._state()
        graph.keepers.add(self)

    def _matcher(self) -> Matcher:
        if self.graph.records.upstream is not None:
            self.graph.records.upstream.refresh()
        return self.graph.matcher

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> Request:
        """The request, if it can ever be had."""
        what = request.resources, request.constraint
        known = self._feasible.get(what)
        if known is None:
            known = self._matcher().satisfiable(request)
            if len(self._feasible) > 4096:
                self._feasible.clear()
            self._feasible[what] = known
        if not known:
            refusal = self.graph.why_not(request)
            if refusal is not None and refusal.never:
                raise matching.refused(refusal)
            raise InfeasibleRequest("the request can never be satisfied", hint="this machine can never satisfy it")
        return request

    @property
    def is_full(self) -> bool:
        """Not known without a request."""
        return False

    def start(self, key: int, ask: Request, now: int, end: int) -> Hold | None:
        """A match now, recorded; see Inventory."""
        what = ask.resources, ask.constraint
        if end - now >= self._failed.get(what, FOREVER + 1):
            return None
        try:
            found = self._matcher().match(ask, now, end, self.match_policy)
        except InfeasibleRequest:  # the machine has lost all pools of a type, and may have some again
            found = None
        except LimitExceeded:  # undecided, and so it stays until something comes back
            self._failed[what] = end - now
            raise
        if found is None:
            self._failed[what] = end - now
            return None
        try:
            hold = self._commit(key, found)
        except InsufficientResources:  # of a supplier that the parent has, and gives to others first
            self._failed[what] = end - now
            return None
        self.running.add(hold)
        return hold

    def _commit(self, key: int, found: Placement, *, anew: bool = False) -> Hold:
        pools = found.vertices < self.graph.structure.n
        vertices, amounts = found.vertices[pools], found.amounts[pools]
        count = self._measured().units(vertices, amounts, self.graph.structure.size[vertices])
        hold = Held(key, found.start, found.end, count, found.vertices, found.amounts, self.graph)
        if len(found):  # a request that only shares pools holds nothing
            with recording.ours(self):
                changes.commit_match(self.graph, found, fluid.encode(key), anew=anew)
        return hold

    def forget_failures(self) -> None:
        """Requests that found nothing may find something now."""
        self._failed.clear()

    def has_room(self, ask: Request, now: int) -> bool:
        """Whether there is a match for a moment; see Inventory."""
        with suppress(InfeasibleRequest):
            return self._matcher().match(ask, now, now + 1, self.match_policy) is not None
        return False

    # -- reserving ---------------------------------------------------------------------------------------------------

    def reserve(self, key: int, ask: Request, duration: int, now: int) -> int | None:
        """The earliest match, recorded; see Inventory."""
        self.unreserve(key)
        try:
            found = self._matcher().earliest(ask, duration, now, self.match_policy)
        except InfeasibleRequest:
            return None
        if found is None:
            return None
        try:
            self._reserved[key] = self._commit(key, found)
        except InsufficientResources:
            return None
        self._places[key] = found
        return found.start

    def places(self) -> dict[int, Placement]:
        """Matches by key; see Inventory."""
        return dict(self._places)

    def restore(self, key: int, place: Placement, duration: int, start: int, now: int) -> bool:
        """The same match, recorded; see Inventory."""
        moved = replace(place, start=start, end=min(start + duration, FOREVER))
        try:
            self._reserved[key] = self._commit(key, moved, anew=True)
        except (InsufficientResources, InfeasibleRequest):
            return False
        self._places[key] = moved
        return True

    def begin(self, key: int, ask: Request, now: int, end: int) -> Hold | None:
        """What was reserved; see Inventory."""
        reserved = self._reserved[key]
        if reserved.start != now or reserved.end != end:
            self.unreserve(key)
            return self.start(key, ask, now, end)
        del self._reserved[key], self._places[key]
        self.running.add(reserved)
        return reserved

    def reserved(self, key: int) -> Hold | None:
        """What is reserved for a job."""
        return self._reserved.get(key)

    def promises(self) -> dict[int, int]:
        """Starts that are reserved; see Inventory."""
        return {key: hold.start for key, hold in self._reserved.items()}

    def check(self) -> list[tuple[str, str]]:
        """Nothing is counted beside the records; see Inventory."""
        return []

    def unreserve(self, key: int) -> None:
        """Drop a reservation; see Inventory."""
        if self._reserved.pop(key, None) is not None:
            del self._places[key]
            self._give_back(key)

    def clear(self) -> None:
        """Drop all reservations."""
        for key in list(self._reserved):
            self.unreserve(key)

    # -- giving back -------------------------------------------------------------------------------------------------

    def _give_back(self, key: int) -> None:
        job = fluid.encode(key)
        if self.graph.records.is_holder(job):
            with recording.ours(self):
                self.graph.free(job)
        self._failed.clear()

    def finish(self, key: int, claim: Hold, now: int) -> None:
        """The records go; see Inventory."""
        self.running.release(claim)
        self._disputed.pop(key, None)
        self._expired.pop(key, None)
        self._give_back(key)

    def resize(self, key: int, claim: Hold, now: int, end: int) -> None:
        """Records to another end; see Inventory."""
        self.clear()
        with recording.ours(self):
            if end > claim.end:
                self._record(claim, max(claim.end, now), end)
            elif end < claim.end:
                with suppress(NotHeld, UnknownJob):  # it shares pools only, or others have all of them
                    self.graph.free(fluid.encode(key), start=seconds(end))
        self._move(claim, end)

    def _record(self, claim: Hold, start: int, end: int) -> None:
        pools = self._last(claim)
        if pools:
            recording.record(self.graph, fluid.encode(claim.key), pools, start, end)

    def _last(self, claim: Hold) -> list[tuple[str, int]]:
        """What is held when it ends, and what a whole holding implies then."""
        return self._disputed[claim.key] if claim.key in self._disputed else self._at_end(claim)

    def _at_end(self, claim: Hold) -> list[tuple[str, int]]:
        return self._recorded(claim, self.graph.structure.accounts.where) or self._expired.get(claim.key, [])

    def keep_ended(self, before: int) -> None:
        """Remember what jobs have whose end has come, and which have not ended: its records expire now (rule T1)."""
        running = self.running
        for hold in (*running.holds[: bisect_right(running.ends, before)], *running.lapsed.values()):
            if hold.end <= before and (pools := self._recorded(hold, self.graph.structure.accounts.by_uuid)):
                self._expired[hold.key] = pools  # they may move in the same change

    def _recorded(self, claim: Hold, name: Callable[[int], str]) -> list[tuple[str, int]]:
        job, records = fluid.encode(claim.key), self.graph.records
        held = ((v, steps.amount_at(records.given(v, job), claim.end - 1)) for v in records.pools_with_implied(job))
        return [(name(v), amount) for v, amount in held if amount]

    def _move(self, claim: Hold, end: int) -> None:
        self.running.move(claim, end)
        self._expired.pop(claim.key, None)
        self._failed.clear()

    def extend(self, key: int, claim: Hold, now: int, end: int) -> list[str]:
        """Records to a later end, beside those of others; see Inventory."""
        self.clear()
        job, pools = fluid.encode(key), self._last(claim)
        may_gain = not claim.is_live or key in self._disputed
        with recording.ours(self), self._held_through(now, claim) if may_gain else nullcontext():
            taken = recording.hold(self.graph, job, pools, claim.end, now, end, anew=key in self._disputed)
        if taken:
            self._disputed[key] = pools  # when the others have gone, it has all of it again
        else:
            self._disputed.pop(key, None)
        self._move(claim, end)
        return taken

    @contextmanager
    def _held_through(self, now: int, beside: Hold) -> Iterator[None]:
        """As if the records of others whose end has come went on: what they hold is theirs until `advance`."""
        over = [hold for hold in self.running.holds[: bisect_right(self.running.ends, now)] if hold is not beside]
        for hold in over:
            recording.hold(self.graph, fluid.encode(hold.key), self._at_end(hold), hold.end, now, now + 1, anew=False)
        try:
            yield
        finally:
            for hold in over:
                with suppress(NotHeld, UnknownJob):
                    self.graph.free(fluid.encode(hold.key), start=seconds(hold.end))

    def advance(self, now: int) -> list[int]:
        """Time moves; see Inventory."""
        ends = self.running.ends
        if not ends or ends[0] > now:
            return []
        self._failed.clear()
        return [hold.key for hold in self.running.over(now)]

    def refresh(self) -> None:
        """States or structure have changed."""
        self.clear()
        self._failed.clear()
        self._feasible.clear()
        self._scale = None
        self._known = self._state()

    def _state(self) -> tuple[int, bytes]:
        return self.graph.generation, self.graph.structure.unavailable_roots().tobytes()

    @property
    def is_stale(self) -> bool:
        """Whether states or structure have changed; see Inventory."""
        return self._state() != self._known

    def leave_alone(self, held: dict[int, int]) -> bool:
        """The records say so already."""
        return False

    def forget(self) -> None:
        """What found nothing may find something; see Inventory."""
        self._failed.clear()

    def adopt(self, key: int, claim: Hold, pools: list[tuple[str, int]], *, is_disputed: bool) -> Hold:
        """What another inventory held and the records have already, measured anew.

        Args:
            is_disputed: whether others hold some of it, and the records have less.
        """
        vertices, amounts = np.array(recording.known(self.graph, pools), np.int64).reshape(-1, 2).T
        accounts = vertices.astype(np.int32)
        if is_disputed:
            self._disputed[key] = pools
        count = self._measured().units(accounts, amounts, self.graph.structure.size[vertices])
        hold = Held(key, claim.start, claim.end, count, accounts, amounts, self.graph)
        hold.is_live = claim.is_live
        if hold.is_live:
            self.running.add(hold)
        return hold

    # -- saying ------------------------------------------------------------------------------------------------------

    def pools(self, claim: Hold) -> list[tuple[str, int]]:
        """The records; what is below a whole pool is implied."""
        structure = self.graph.structure
        return [(structure.where(v), amount) for v, amount in self._held(claim)]

    def vertices(self, claim: Hold) -> list[int]:
        """Pools with a record, and those of which others hold some."""
        if claim.key in self._disputed:
            return [v for v, _ in self._held(claim)]
        structure, records, job = self.graph.structure, self.graph.records, fluid.encode(claim.key)
        found: list[int] = []
        stop = 0
        for v in sorted(v for v in records.pools_of.get(job, ()) if v < structure.n):
            if v < stop:
                continue  # it had this as a part, while others held the rest, and has all of it now
            found.append(v)
            end = structure.end.item(v)
            if end > v + 1 and steps.amount_at(records.steps_of(v, job), claim.end - 1) == structure.size.item(v):
                stop = end
        return found

    def disputed(self, claim: Hold) -> list[tuple[int, int]] | None:
        """Pools and edges with the units that a job is to have, where others hold some of them; None where nobody does."""
        found = self._disputed.get(claim.key)
        return None if found is None else recording.known(self.graph, found)

    def _held(self, claim: Hold) -> list[tuple[int, int]]:
        disputed = self.disputed(claim)
        if disputed is not None:
            n = self.graph.structure.n  # edges are drawn through, and are no pools
            return [(v, amount) for v, amount in disputed if v < n]
        job, records = fluid.encode(claim.key), self.graph.records
        return [(v, max((amount for _, _, amount in records.steps_of(v, job)), default=0)) for v in self.vertices(claim)]

    def ids(self, claim: Hold) -> str:
        """Numbers of measured pools that are held, as long as the graph keeps its shape; see Inventory."""
        if isinstance(claim, Held) and claim.generation == self.graph.generation:
            return self._measured().ids(claim.vertices)
        return self._measured().ids(np.array(self.vertices(claim), np.int32))

    def _measured(self) -> Measure:
        if self._scale is None or self._scale[0] != self.graph.generation:
            self._scale = self.graph.generation, Measure(self.graph.structure, self._measure)
        return self._scale[1]

    def measure_in(self, type_name: str | None) -> None:
        """Measure in units of another type; see Inventory."""
        self._measure, self._scale = type_name, None

    @property
    def measure(self) -> str:
        """The type that sizes are measured in."""
        return self._measured().type

    @property
    def size(self) -> int:
        """Units of that type in the machine."""
        return self._measured().size

    def count(self, claim: Hold) -> int:
        """Units of the measured type that were given, those implied by a whole pool among them."""
        return claim.count


class Held(Hold):
    """What a job was given in a graph: known after the records are gone, while the graph keeps its shape.

    Args:
        accounts, amounts: pools and edges, with the units that it was given of each.
    """

    __slots__ = ("accounts", "amounts", "generation", "vertices")

    def __init__(
        self,
        key: int,
        start: int,
        end: int,
        count: int,
        accounts: NDArray[np.int32],
        amounts: NDArray[np.int64],
        graph: ResourceGraph,
    ) -> None:
        super().__init__(key, start, end, count)
        self.accounts = accounts
        self.amounts = amounts
        self.vertices = accounts[accounts < graph.structure.n]
        """The pools among them."""
        self.generation = graph.generation

    def given(self) -> list[tuple[int, int]]:
        """Pools and edges with the units of each."""
        return list(zip(self.accounts.tolist(), self.amounts.tolist(), strict=True))

"""Any request there is, on the resource graph itself: the matcher finds, the records remember.

Every job and every reservation is an allocation of the graph under the job's id, so that whoever looks at the graph sees what
the instance does, and the rules are held where they always are.  A request that found nothing is not tried again for as long,
or longer, before something comes back: a queue of equal jobs costs one search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fluxres.clock import FOREVER, seconds
from fluxres.errors import InfeasibleRequest, InsufficientResources
from fluxres.instance.inventory import Hold, Running
from fluxres.instance.measure import Measure
from fluxres.match import Match, Matcher
from fluxres.model import changes, matching
from fluxres.model.extending import lifted
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
        self._measure = measure
        self.match_policy = match_policy
        self._running = Running()
        self._reserved: dict[int, Hold] = {}
        self._feasible: dict[object, bool] = {}
        self._failed: dict[object, int] = {}
        """Requests that found nothing since something last came back, with the shortest window that was too long."""
        self._scale: tuple[int, Measure] | None = None

    def _matcher(self) -> Matcher:
        if self.graph.records.upstream is not None:
            self.graph.records.upstream.refresh()
        return matching.matcher(self.graph)

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
        found = self._matcher().match(ask, now, end, self.match_policy)
        if found is None:
            self._failed[what] = end - now
            return None
        try:
            hold = self._commit(key, found)
        except InsufficientResources:  # of a supplier that the parent has, and gives to others first
            self._failed[what] = end - now
            return None
        self._running.add(hold)
        return hold

    def _commit(self, key: int, found: Match) -> Hold:
        count = self._measured().units(found.vertices, found.amounts, self.graph.structure.size[found.vertices])
        hold = Held(key, found.start, found.end, count, found.vertices, self.graph.generation)
        if len(found):  # a request that only shares pools holds nothing
            changes.commit_match(self.graph, found, fluid.encode(key))
        return hold

    def forget_failures(self) -> None:
        """Requests that found nothing may find something now."""
        self._failed.clear()

    def has_room(self, ask: Request, now: int) -> bool:
        """Whether there is a match for a moment; see Inventory."""
        return self._matcher().match(ask, now, now + 1, self.match_policy) is not None

    # -- reserving ---------------------------------------------------------------------------------------------------

    def reserve(self, key: int, ask: Request, duration: int, now: int) -> int | None:
        """The earliest match, recorded; see Inventory."""
        self.unreserve(key)
        found = self._matcher().earliest(ask, duration, now, self.match_policy)
        if found is None:
            return None
        try:
            self._reserved[key] = self._commit(key, found)
        except InsufficientResources:
            return None
        return found.start

    def begin(self, key: int, ask: Request, now: int, end: int) -> Hold | None:
        """What was reserved; see Inventory."""
        reserved = self._reserved[key]
        if reserved.start != now or reserved.end != end:
            self.unreserve(key)
            return self.start(key, ask, now, end)
        del self._reserved[key]
        self._running.add(reserved)
        return reserved

    def unreserve(self, key: int) -> None:
        """Drop a reservation; see Inventory."""
        if self._reserved.pop(key, None) is not None:
            self._give_back(key)

    def clear(self) -> None:
        """Drop all reservations."""
        for key in list(self._reserved):
            self.unreserve(key)

    # -- giving back -------------------------------------------------------------------------------------------------

    def _give_back(self, key: int) -> None:
        job = fluid.encode(key)
        if self.graph.records.pools_of.get(job):
            self.graph.free(job)
        self._failed.clear()

    def finish(self, key: int, claim: Hold, now: int) -> None:
        """The records go; see Inventory."""
        if claim.is_live:
            claim.is_live = False
            self._running.remove(claim)
        self._give_back(key)

    def resize(self, key: int, claim: Hold, now: int, end: int) -> None:
        """Records to another end; see Inventory."""
        self.clear()
        job = fluid.encode(key)
        held = self.graph.records.pools_of.get(job)
        if claim.is_live:
            self._running.remove(claim)
        elif end > claim.end:
            claim.is_live = True
        if held and end > claim.end:
            whole = [(v, max(amount for _, _, amount in self.graph.records.held[v][job])) for v in held]
            with lifted(self.graph.structure):
                changes.allocate(self.graph, job, whole, (claim.end, min(end, FOREVER)))
        elif held and end < claim.end:
            self.graph.free(job, start=seconds(end))
        claim.end = end
        if claim.is_live:
            self._running.add(claim)
        self._failed.clear()

    def advance(self, now: int) -> bool:
        """Time moves; see Inventory."""
        ends = self._running.ends
        if not ends or ends[0] > now:
            return False
        self._running.over(now)
        self._failed.clear()
        return True

    def refresh(self) -> None:
        """States or structure have changed."""
        self.clear()
        self._failed.clear()
        self._feasible.clear()
        self._scale = None

    def adopt(self, key: int, claim: Hold) -> Hold:
        """What another inventory held and the records have already, measured anew."""
        vertices, amounts = np.array(self._held(claim), np.int64).reshape(-1, 2).T
        count = self._measured().units(vertices.astype(np.int32), amounts, self.graph.structure.size[vertices])
        hold = Held(key, claim.start, claim.end, count, vertices.astype(np.int32), self.graph.generation)
        hold.is_live = claim.is_live
        if hold.is_live:
            self._running.add(hold)
        return hold

    # -- saying ------------------------------------------------------------------------------------------------------

    def pools(self, claim: Hold) -> list[tuple[str, int]]:
        """The records; what is below a whole pool is implied."""
        structure = self.graph.structure
        return [(structure.where(v), amount) for v, amount in self._held(claim)]

    def vertices(self, claim: Hold) -> list[int]:
        """Pools with a record."""
        return sorted(self.graph.records.pools_of.get(fluid.encode(claim.key), ()))

    def _held(self, claim: Hold) -> list[tuple[int, int]]:
        job, records = fluid.encode(claim.key), self.graph.records
        return [(v, max(amount for _, _, amount in records.held[v][job])) for v in self.vertices(claim)]

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
    """What a job was given in a graph: its vertices are known after the records are gone, while the graph keeps its shape."""

    __slots__ = ("generation", "vertices")

    def __init__(self, key: int, start: int, end: int, count: int, vertices: NDArray[np.int32], generation: int) -> None:
        super().__init__(key, start, end, count)
        self.vertices = vertices
        self.generation = generation

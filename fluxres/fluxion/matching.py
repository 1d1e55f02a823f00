"""Match operations on one graph (now, at the earliest time, or satisfiability), and what each job then has.

The order of attempts is Fluxion's: first a count of nodes, then a search now, then a search at each change point of the root's
aggregates, then a search in the far future, where nothing is planned, to distinguish *never* from *not now*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from fluxres.clock import Clock
from fluxres.errors import InputError
from fluxres.fluxion import pruning
from fluxres.fluxion.graph import Graph, Vertex
from fluxres.fluxion.jobspec import Jobspec, Resource, exclusive_types, shared_in_exclusive, sum_needs
from fluxres.fluxion.planner import HORIZON_S
from fluxres.fluxion.policies import Policy
from fluxres.fluxion.record import Holding, Recorder, release
from fluxres.fluxion.traverser import FlexibleTraverser, Traverser, Window, accepts, expand
from fluxres.fluxion.writers import WRITERS, Writer

Operation = Literal[
    "allocate",
    "allocate_with_satisfiability",
    "allocate_orelse_reserve",
    "satisfiability",
    "without_allocating",
    "without_allocating_future",
]
OPERATIONS: Final[dict[str, Operation]] = {
    "allocate": "allocate",
    "allocate_with_satisfiability": "allocate_with_satisfiability",
    "allocate_orelse_reserve": "allocate_orelse_reserve",
    "satisfiability": "satisfiability",
    "without_allocating": "without_allocating",
    "without_allocating_future": "without_allocating_future",
}
"""Operations by their names in commands."""
UNRECORDED: Final = ("satisfiability", "without_allocating", "without_allocating_future")
"""Operations that take no job id."""
_RESERVING: Final = ("allocate_orelse_reserve", "without_allocating_future")
_ONLY_NOW: Final = ("allocate", "without_allocating")
Chosen = tuple[Sequence[Resource], int, bool]


@dataclass(frozen=True)
class Outcome:
    """The result of a match.

    Args:
        at: start in seconds; None if nothing was found.
        text: output of the writer.
        is_satisfiable: whether it could be found at some time, as far as the operation determined it.
        elapsed_s: time taken.
        reason: why nothing was taken although something was found, or why nothing can ever be found.
    """

    at: int | None
    text: str = ""
    is_satisfiable: bool = True
    elapsed_s: float = 0.0
    reason: str = ""


class Scheduling:
    """A graph with its jobs and the configuration of the search.

    Args:
        subsystem: dominant subsystem.
        match_format: output format.
        is_flexible: whether sibling slots are alternatives.
        filters: the types counted below vertices, by type of vertex.
    """

    def __init__(
        self,
        graph: Graph,
        subsystem: str,
        policy: Policy,
        match_format: str,
        *,
        is_flexible: bool = False,
        filters: dict[str, list[str]],
        clock: Clock,
    ) -> None:
        if subsystem not in graph.roots:
            raise InputError(f"the graph has no subsystem {subsystem}", hint=f"it has {', '.join(sorted(graph.roots))}")
        self.graph = graph
        self.subsystem = subsystem
        self.match_format = match_format
        self.filters = filters
        self.holdings: dict[int, Holding] = {}
        self._clock = clock
        kind = FlexibleTraverser if is_flexible else Traverser
        self.traverser = kind(graph, subsystem, policy)
        self._expands = is_flexible
        self._up: int | None = None
        self.prime()

    @property
    def root(self) -> Vertex:
        """Root of the dominant subsystem."""
        return self.graph.roots[self.subsystem]

    def prime(self) -> None:
        """Recount the units below every vertex after the graph has changed."""
        pruning.prime(self.graph, self.subsystem, self.filters)
        self._up = None

    def writer(self) -> Writer:
        """A new writer of the output format."""
        return WRITERS[self.match_format]()

    def next_color(self) -> int:
        """The colour of the next walk."""
        self.traverser.token += 1
        return self.traverser.token

    def set_status(self, vertex: Vertex, up: bool) -> None:
        """Mark one vertex up or down; this affects everything below it."""
        vertex.up = up
        self._up = None

    def match(self, job: int, request: Jobspec, operation: Operation) -> Outcome:
        """Try a request.

        Args:
            job: id to record.

        Cost O(vertices) for each time tried. Errors: InputError for a request that cannot be satisfied at any time because of its
        form.
        """
        started = self._clock()
        traverser = self.traverser
        traverser.preorder = traverser.postorder = 0
        duration = math.ceil(request.duration_s) or HORIZON_S
        if duration > HORIZON_S:
            raise InputError(f"duration: {duration} s exceeds the planning horizon ({HORIZON_S} s)")
        shared = shared_in_exclusive(request.resources)
        if shared is None:
            variants = expand(request.resources) if self._expands else [request.resources]
            outcome = self._attempt(job, request, operation, duration, variants)
        else:
            reason = f"expected no sharing below a slot, got exclusive: false for {shared}"
            outcome = Outcome(None, is_satisfiable=operation in _ONLY_NOW, reason=reason)
        return replace(outcome, elapsed_s=self._clock() - started)

    def _attempt(
        self, job: int, request: Jobspec, operation: Operation, duration: int, variants: Sequence[Sequence[Resource]]
    ) -> Outcome:
        needs = [sum_needs(resources, alternatives=self._expands) for resources in variants]
        self.traverser.exclusive_types = {"node"} if self.traverser.policy.node_exclusive else set()
        for resources in variants:
            self.traverser.exclusive_types |= exclusive_types(resources)
        if operation == "satisfiability":
            return Outcome(None, is_satisfiable=self._ever(request, duration, variants))
        nodes = min((need.get("node", 0) for need in needs), default=0)
        if nodes and not self._enough_nodes(request, operation, duration, nodes):
            return Outcome(None, is_satisfiable=operation != "allocate_with_satisfiability")
        window = Window(0, min(duration, HORIZON_S), request.constraint)
        chosen = self._select(variants, window)
        if chosen is not None:
            return self._take(job, request, operation, window, chosen)
        if operation in _RESERVING:
            return self._later(job, request, operation, duration, variants, needs)
        if operation == "allocate_with_satisfiability":
            return Outcome(None, is_satisfiable=self._ever(request, duration, variants))
        return Outcome(None)

    def _select(self, variants: Sequence[Sequence[Resource]], window: Window) -> Chosen | None:
        for resources in variants:
            found = self.traverser.select(resources, window)
            if found is not None:
                return resources, *found
        return None

    def _later(
        self,
        job: int,
        request: Jobspec,
        operation: Operation,
        duration: int,
        variants: Sequence[Sequence[Resource]],
        needs: Sequence[dict[str, int]],
    ) -> Outcome:
        aggregate = self.root.aggregate
        after = 1
        if aggregate is not None:
            # One set of counts guides the search: the minimum over all variants.
            least = {type_: min(need.get(type_, 0) for need in needs) for type_ in aggregate.types}
            counts = aggregate.counts(least)
            while aggregate.ever_fits(counts) and (at := aggregate.first_fit(after, duration, counts)) is not None:
                window = Window(at, duration, request.constraint, starts_now=False)
                chosen = self._select(variants, window)
                if chosen is not None:
                    return self._take(job, request, operation, window, chosen)
                after = at + 1
        return Outcome(None, is_satisfiable=self._ever(request, duration, variants))

    def _ever(self, request: Jobspec, duration: int, variants: Sequence[Sequence[Resource]]) -> bool:
        window = Window(HORIZON_S - duration - 1, duration, request.constraint, only_up=False, starts_now=False)
        if window.at < 0:
            window = Window(0, duration, request.constraint, only_up=False, starts_now=False)
        return self._select(variants, window) is not None

    def _enough_nodes(self, request: Jobspec, operation: Operation, duration: int, nodes: int) -> bool:
        """Whether enough nodes are up, satisfy the constraint, and are free at the only, or the last, allowed time."""
        if "node" not in self.graph.counted:
            return True
        if self._up is None:
            self._up = sum(self.graph.is_up(vertex) for vertex in self.graph.by_type.get("node", ()))
        if self._up < nodes:
            return False
        if request.constraint is None:
            return True
        at = 0 if operation in _ONLY_NOW else HORIZON_S - 1
        any_state = operation == "allocate_with_satisfiability"
        found = 0
        for vertex in self.graph.by_type.get("node", ()):
            if (any_state or vertex.up) and vertex.available(at, duration) and accepts(request.constraint, vertex):
                found += 1
                if found >= nodes:
                    return True
        return False

    def _take(self, job: int, request: Jobspec, operation: Operation, window: Window, chosen: Chosen) -> Outcome:
        _, needs, exclusive = chosen
        if self.traverser.is_hollow:
            return Outcome(None, reason="a slot must be filled by the children of the pool below which it is requested")
        holding = None
        if operation not in UNRECORDED:
            holding = Holding(job, window.at, window.duration, reserved=window.at > 0)
        taken, text = self.record(holding, needs, exclusive, window.at, window.duration, request.queue)
        if not taken:
            return Outcome(None, reason="the match takes nothing exclusively; ask for a slot, or use exclusive: true")
        if text is None:
            if holding is not None:
                self.cancel(job)
            raise InputError(
                f"-F {self.match_format} has no form for a match without cores and gpus",
                hint="use another format, such as -F simple",
            )
        return Outcome(window.at, text)

    def record(
        self,
        holding: Holding | None,
        needs: int,
        exclusive: bool,
        at: int,
        duration: int,
        queue: str | None = None,
        planned: frozenset[int] | None = None,
    ) -> tuple[bool, str | None]:
        """Record and write the result marked on the edges; returns whether it takes anything, and the output of the writer."""
        writer = self.writer()
        token = self.traverser.token
        recorder = Recorder(
            self.graph,
            self.subsystem,
            token,
            self.next_color(),
            self.traverser.exclusive_types,
            self.traverser.policy.stop_on_1_matches,
            writer,
            holding,
            planned,
            self.traverser.labels,
        )
        if not recorder.walk(self.root, needs, exclusive):
            return False, ""
        if holding is not None:
            self.holdings[holding.job] = holding
        return True, writer.text(at, at + duration, queue)

    def visits(self, job: int) -> tuple[int, int]:
        """The number of vertices visited by a walk over everything that a job has, and how many of them have something of the job
        at or below.
        """
        vertices = self.holdings[job].vertices
        seen = sum(edge.subsystem == self.subsystem for vertex in vertices for edge in vertex.edges)
        return seen + 1, len(vertices)

    def cancel(self, job: int) -> None:
        release(self.graph, self.subsystem, self.holdings.pop(job))

    def release_some(self, job: int, vertices: Sequence[Vertex]) -> bool:
        """Release what a job has on some vertices; returns whether nothing is left of it."""
        if release(self.graph, self.subsystem, self.holdings[job], vertices):
            del self.holdings[job]
            return True
        return False

"""The search: depth first over the dominant subsystem, as Fluxion walks it.

A visit decides whether a vertex can take part, looks below it, and hands its candidates up; the first level that asks for
a number of something chooses, and writes its choice on the edges.  What was chosen is then walked again and recorded
(:mod:`fluxres.query.record`).  The walk recurses once a level of the graph, and levels are bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.query.graph import Edge, Graph, Vertex
from fluxres.query.jobspec import Resource
from fluxres.query.policies import Policy
from fluxres.query.scores import Candidate, Scores
from fluxres.syntax import constraint as constraints
from fluxres.syntax.constraint import Constraint

_CONSTRAINED = ("node", "storage_node")
_MET = 1


@dataclass
class Window:
    """When, under which conditions, and for whom a search looks.

    Args:
        at: start in seconds.
        duration: seconds.
        constraint: what nodes must be like.
        only_up: whether pools that are down are passed over.
        starts_now: whether a pool that some job still holds past its time is refused.
    """

    at: int
    duration: int
    constraint: Constraint | None = None
    only_up: bool = True
    starts_now: bool = True


@dataclass
class Traverser:
    """A graph and how it is searched.

    Args:
        dominant: subsystem that is walked.
        policy: which of several candidates is taken.
    """

    graph: Graph
    dominant: str
    policy: Policy
    token: int = 0
    """Number of the last walk: marks and colours of earlier ones do not count."""
    preorder: int = 0
    postorder: int = 0
    exclusive_types: set[str] = field(default_factory=set)
    """Types of which every vertex taken is given whole, with all below it."""

    def select(self, resources: Sequence[Resource], window: Window) -> tuple[int, bool] | None:
        """Search from the root; the units the root gives and whether exclusively, or None.

        Cost O(vertices visited). What was chosen stands on the edges, under the present `token`.
        """
        self.token += 1
        root = self.graph.roots[self.dominant]
        scores = Scores()
        exclusive = self._visit(root, resources, True, False, window, scores, 0, 1)
        if exclusive is None:
            return None
        available = scores.available
        scores.add(root.type, Candidate(scores.score, available, ()))
        for resource in resources:
            if not self._choose_top(scores, resource):
                return None
        scores.choose_all()
        scores.mark(self.token)
        needs = 1
        for resource in resources:
            if resource.type == root.type:
                needs = resource.count.up_to(available)
        return (needs, exclusive) if needs else None

    def _choose_top(self, scores: Scores, resource: Resource) -> bool:
        count = resource.count.up_to(scores.total(resource.type))
        if not count:
            return False
        self.policy.sort_top(scores, resource.type)
        scores.choose(resource.type, count)
        return True

    def _visit(
        self,
        vertex: Vertex,
        resources: Sequence[Resource],
        pristine: bool,
        exclusive: bool,
        window: Window,
        to_parent: Scores,
        enclosing: int,
        depth: int,
    ) -> bool | None:
        """Whether the vertex would be taken exclusively; None when it cannot take part."""
        self.preorder += 1
        matched, slots = self._match(vertex, resources)
        if matched is None and not slots and not pristine:
            return None
        asked = exclusive or any(resource.exclusive and resource.type == vertex.type for resource in resources)
        # A policy that gives whole nodes takes one only when something in it is chosen: that shows when it is recorded.
        whole = asked or vertex.type in self.exclusive_types
        if self._pruned(vertex, resources, whole, window):
            return None
        if depth > limits.DEPTH_MAX:
            raise LimitExceeded(f"more than {limits.DEPTH_MAX} levels", where=vertex.path[:80])
        vertex.color = self.token
        scores = Scores()
        inner = enclosing + self.policy.level(vertex)
        below = (window, inner, depth + 1)
        if slots:
            self._fill_slots(vertex, slots, scores, below)
        else:
            wanted = resources if matched is None else matched.children
            self._explore(vertex, wanted, pristine and matched is None, asked, scores, 1, below)
        if not self._finish(vertex, resources, scores):
            return None
        if scores.chosen:
            scores.choose_all()
            scores.mark(self.token)
        else:
            to_parent.merge(scores)
        to_parent.available = vertex.available(window.at, window.duration)
        to_parent.score = self.policy.score(vertex, enclosing)
        self.postorder += 1
        return asked

    def _match(self, vertex: Vertex, resources: Sequence[Resource]) -> tuple[Resource | None, Sequence[Resource]]:
        """The resource that the vertex is, and the slots that its children can fill."""
        for resource in resources:
            if resource.type == vertex.type:
                slots = [child for child in resource.children if child.is_slot and self._offers(vertex, child)]
                return resource, slots[-1:]
            if resource.is_slot and self._offers(vertex, resource):
                return None, (resource,)
        return None, ()

    def _offers(self, vertex: Vertex, slot: Resource) -> bool:
        types = vertex.child_types
        if types is None:
            types = vertex.child_types = frozenset(edge.target.type for edge in vertex.edges if edge.subsystem == self.dominant)
        return all(child.type in types for child in slot.children)

    def _pruned(self, vertex: Vertex, resources: Sequence[Resource], exclusive: bool, window: Window) -> bool:
        if window.only_up and not vertex.up:
            return True
        if window.constraint is not None and vertex.type in _CONSTRAINED and not accepts(window.constraint, vertex):
            return True
        if not vertex.available(window.at, window.duration):
            return True
        if exclusive and not self._alone(vertex, window):
            return True
        if any(one.type == vertex.type and not self._has_below(vertex, one, window) for one in resources):
            return True
        slots = [resource for resource in resources if resource.is_slot]
        return bool(slots) and not self._has_slots(vertex, slots, window)

    def _has_slots(self, vertex: Vertex, slots: Sequence[Resource], window: Window) -> bool:
        return all(self._has_below(vertex, slot, window) for slot in slots)

    @staticmethod
    def _has_below(vertex: Vertex, resource: Resource, window: Window) -> bool:
        aggregate = vertex.aggregate
        return aggregate is None or aggregate.fits(window.at, window.duration, aggregate.counts(resource.needs))

    @staticmethod
    def _alone(vertex: Vertex, window: Window) -> bool:
        if window.starts_now and vertex.allocations:
            return False
        return vertex.unshared(window.at, window.duration)

    def _explore(
        self,
        vertex: Vertex,
        resources: Sequence[Resource],
        pristine: bool,
        exclusive: bool,
        scores: Scores,
        slots: int,
        below: tuple[Window, int, int],
    ) -> bool:
        """Visit children until all were, or until the policy has enough; whether any takes part."""
        window, enclosing, depth = below
        stops = self.policy.stop_on_1_matches
        if not resources:
            # Nothing below can match; each child would be looked at once, and not more than one where one is enough.
            seen = sum(edge.subsystem == self.dominant and edge.target.color != self.token for edge in vertex.edges)
            self.preorder += min(seen, 1) if stops else seen
            return False
        edges = self._ring(vertex) if stops else vertex.edges
        tallies = [Tally(resource, slots) for resource in resources] if stops else []
        found = False
        for edge in edges:
            target = edge.target
            if edge.subsystem != self.dominant or target.color == self.token:
                continue
            whole = self._visit(target, resources, pristine, exclusive, window, scores, enclosing, depth)
            if whole is not None:
                count = scores.available
                scores.add(target.type, Candidate(scores.score, count, ((edge, count, whole),)))
                found = True
                enough = [tally.advance(scores) for tally in tallies]
                if stops and all(enough):
                    break
        return found

    def _ring(self, vertex: Vertex) -> list[Edge]:
        if vertex.ring is None:
            edges = [edge for edge in vertex.edges if edge.subsystem == self.dominant]
            vertex.ring = sorted(edges, key=lambda edge: (edge.weight, edge.target.uniq_id), reverse=True)
        return vertex.ring

    def _fill_slots(self, vertex: Vertex, slots: Sequence[Resource], scores: Scores, below: tuple[Window, int, int]) -> None:
        """Make as many slots as the children give."""
        slot = slots[0]
        inner = Scores()
        if not self._explore(vertex, slot.children, False, True, inner, slot.count.largest, below):
            return
        self.policy.sort_slot(inner)
        for candidate in fill(slot, inner):
            scores.add(slot.type, candidate)

    def _finish(self, vertex: Vertex, resources: Sequence[Resource], scores: Scores) -> bool:
        """Choose for every resource that the vertex is what is asked for below it; whether it is there."""
        key = self.policy.order()
        for resource in resources:
            if resource.type == vertex.type:
                for child in resource.children:
                    count = child.count.up_to(scores.total(child.type))
                    if not count:
                        return False
                    scores.sort(child.type, key)
                    scores.choose(child.type, count)
        return True


def fill(slot: Resource, inner: Scores) -> list[Candidate]:
    """The slots that sorted candidates make: whole vertices, bundled for each type in turn."""
    if len({child.type for child in slot.children}) < len(slot.children):
        return []
    parts = []
    for child in slot.children:
        count = child.count.up_to(inner.total(child.type))
        if not count:
            return []
        parts.append(list(inner.bundles(child.type, count)))
    made = []
    for bundles in zip(*parts, strict=False):
        members = [member for bundle in bundles for member in bundle]
        edges = tuple((edge, needs, True) for member in members for edge, needs, _ in member.edges)
        made.append(Candidate(_MET + sum(member.score for member in members), 1, edges))
    return made


class Tally:
    """How many complete shares of a resource have been found, for policies that stop at enough."""

    __slots__ = ("_per_share", "_position", "_resource", "_shares", "_units", "_wanted")

    def __init__(self, resource: Resource, wanted: int) -> None:
        self._resource = resource
        self._per_share = resource.count.largest
        self._wanted = wanted
        self._position = self._shares = self._units = 0

    def advance(self, scores: Scores) -> bool:
        """Whether there is enough, with what was found since the last time."""
        candidates = scores.found.get(self._resource.type, ())
        for candidate in candidates[self._position :]:
            self._units += candidate.count
            if self._units >= self._per_share:
                self._shares += 1
                self._units = 0
        self._position = len(candidates)
        return self._shares >= self._wanted


def accepts(constraint: Constraint, vertex: Vertex) -> bool:
    """Whether a vertex is as the constraint wants it."""
    return constraints.matches(constraint, vertex, hostname_is_property=False)

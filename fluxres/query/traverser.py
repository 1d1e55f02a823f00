"""The search: depth first over the dominant subsystem, as Fluxion walks it.

A visit decides whether a vertex can take part, looks below it, and hands its candidates up; the first level that asks for
a number of something chooses, and marks the edges of its choice, and of nothing else.  At the top the edges that lead to what
was chosen there are marked too.  A walk over the marks then records what was taken (:mod:`fluxres.query.record`).  Both walks
recurse once a level of the graph, and levels are bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.query.graph import Edge, Graph, Vertex
from fluxres.query.jobspec import SLOT, Resource, has_labels
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


class Met(NamedTuple):
    """What a vertex is for a request.

    Args:
        resource: the resource of its type.
        slots: those that its children fill.
    """

    resource: Resource | None
    slots: Sequence[Resource]


_NOTHING: Final = Met(None, ())


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
    """Types of which every vertex taken is allocated exclusively, with all below it."""
    labels: dict[int, str] = field(default_factory=dict)
    """Labels of the request by identity of the vertices that met them in the last walk."""
    is_hollow: bool = False
    """Whether a part of what the last walk chose would not be taken."""
    _labelled: bool = False

    def select(self, resources: Sequence[Resource], window: Window) -> tuple[int, bool] | None:
        """Search from the root; the units the root gives and whether exclusively, or None.

        Cost O(vertices visited). What was chosen stands on the edges, under the present `token`.
        """
        self.token += 1
        self.labels = {}
        self._labelled = has_labels(resources)
        root = self.graph.roots[self.dominant]
        scores = Scores()
        exclusive = self._visit(root, resources, True, False, window, scores, 0, 1)
        if exclusive is None:
            return None
        available = scores.available
        scores.add(root.type, Candidate(scores.score, available, (), scores.is_hollow))
        for resource in resources:
            if not self._choose_top(scores, resource):
                return None
        self.is_hollow = False
        for candidate in scores.picked():
            self.is_hollow |= candidate.is_hollow
            for edge, units, whole in candidate.edges:
                edge.mark(units, whole, self.token)
                self._mark_above(edge.source, scores)
        needs = 1
        for resource in resources:
            if resource.type == root.type:
                needs = resource.count.up_to(available)
        return (needs, exclusive) if needs else None

    def _mark_above(self, vertex: Vertex, scores: Scores) -> None:
        """Mark the way to a vertex, as far as it leads over types of which nobody asked a number."""
        while (edge := self._edge_to(vertex)) is not None and edge.token != self.token:
            vertex, type_ = edge.source, edge.target.type
            if type_ in scores.found and type_ not in scores.chosen:
                edge.mark(edge.target.size, False, self.token)

    def _edge_to(self, vertex: Vertex) -> Edge | None:
        return next((edge for edge in vertex.ins if edge.subsystem == self.dominant), None)

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
        met = self._match(vertex, resources)
        if met is None or (met.resource is None and not met.slots and not pristine):
            return None
        asked = exclusive or any(resource.exclusive and resource.type == vertex.type for resource in resources)
        # A policy that allocates whole nodes takes one only when something in it is chosen: that shows when it is recorded.
        whole = asked or vertex.type in self.exclusive_types
        if self._pruned(vertex, resources, whole, window):
            return None
        if depth > limits.DEPTH_MAX:
            raise LimitExceeded(f"more than {limits.DEPTH_MAX} levels", where=vertex.path[:80])
        vertex.color = self.token
        scores = Scores()
        inner = enclosing + self.policy.level(vertex)
        below = (window, inner, depth + 1)
        if met.slots:
            self._fill_slots(vertex, met.slots, scores, below)
        else:
            wanted = resources if met.resource is None else met.resource.children
            self._explore(vertex, wanted, pristine and met.resource is None, asked, scores, 1, below)
        if not self._finish(vertex, resources, scores):
            return None
        is_hollow = False
        if scores.chosen:
            # No mark leads to slots that only a level further down can fill.
            is_hollow = scores.mark(self.token) or (SLOT in scores.chosen and not met.slots)
            is_hollow = is_hollow and not whole
        else:
            to_parent.merge(scores)
        to_parent.is_hollow = is_hollow
        to_parent.available = vertex.available(window.at, window.duration)
        to_parent.score = self.policy.score(vertex, enclosing)
        if self._labelled:
            self.labels.update((id(vertex), one.label) for one in resources if one.label and one.type == vertex.type)
        self.postorder += 1
        return asked

    def _match(self, vertex: Vertex, resources: Sequence[Resource]) -> Met | None:
        """What the vertex is for a request; None where two siblings ask for it, which nothing can satisfy."""
        resource: Resource | None = None
        slot: Resource | None = None
        for one in resources:
            if one.type == vertex.type:
                if resource is not None or slot is not None:
                    return None
                resource = one
            elif one.type == SLOT:
                if resource is not None or slot is not None:
                    return None
                slot = one
        if resource is not None:
            for child in resource.children:
                if child.type == SLOT:
                    slot = child
        elif slot is None:
            return _NOTHING
        return Met(resource, (slot,) if slot is not None and self._offers(vertex, slot) else ())

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
            # Nothing below can match; each child would be looked at once.
            self.preorder += sum(edge.subsystem == self.dominant and edge.target.color != self.token for edge in vertex.edges)
            return False
        edges = self._ring(vertex) if stops else vertex.edges
        tallies = [Tally(resource, slots) for resource in resources] if stops else []
        enough: set[str] = set()
        found = False
        for edge in edges:
            target = edge.target
            if edge.subsystem != self.dominant or target.color == self.token or target.type in enough:
                continue
            whole = self._visit(target, resources, pristine, exclusive, window, scores, enclosing, depth)
            if whole is not None:
                count = scores.available
                scores.add(target.type, Candidate(scores.score, count, ((edge, count, whole),), scores.is_hollow))
                found = True
                if stops:
                    enough.update(tally.type for tally in tallies if tally.advance(scores))
                    if len(enough) == len(tallies):
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

    __slots__ = ("_per_share", "_position", "_shares", "_units", "_wanted", "type")

    def __init__(self, resource: Resource, wanted: int) -> None:
        self.type = resource.type
        self._per_share = resource.count.largest
        self._wanted = wanted
        self._position = self._shares = self._units = 0

    def advance(self, scores: Scores) -> bool:
        """Whether there is enough, with what was found since the last time; that is not divided between shares."""
        candidates = scores.found.get(self.type, ())
        self._units += sum(candidate.count for candidate in candidates[self._position :])
        self._position = len(candidates)
        if self._units >= self._per_share:
            self._shares += 1
            self._units = 0
        return self._shares >= self._wanted


def accepts(constraint: Constraint, vertex: Vertex) -> bool:
    """Whether a vertex is as the constraint wants it."""
    return constraints.matches(constraint, vertex, hostname_is_property=False)

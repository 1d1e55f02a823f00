"""The search: depth first over the dominant subsystem, as in Fluxion.

A visit decides whether a vertex can take part, searches below it, and passes its candidates up. The first level that requests a
number of something chooses, and marks only the edges of its choice. At the root, the edges that lead to what was chosen there are
marked too. A walk over the marks then records what was taken (:mod:`fluxres.fluxion.record`). Both walks recurse once per level
of the graph, and levels are bounded.

For the flexible traverser, sibling slots are alternatives. Sibling `slot`s may be mixed: of the pools below a vertex, the mix
with the most slots is taken. Sibling `xor_slot`s are mutually exclusive: the request is expanded into one variant per choice
before the search, and the first variant that matches is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from operator import sub
from typing import Final, NamedTuple

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.fluxion.graph import Edge, Graph, Vertex
from fluxres.fluxion.jobspec import SLOT, XOR_SLOT, Resource, has_labels
from fluxres.fluxion.policies import Policy
from fluxres.fluxion.scores import Candidate, Scores
from fluxres.syntax import constraint as constraints
from fluxres.syntax.constraint import Constraint

_CONSTRAINED = ("node", "storage_node")
_MET = 1


@dataclass
class Window:
    """The window and the conditions of a search.

    Args:
        at: start in seconds.
        duration: seconds.
        constraint: on nodes.
        only_up: whether to skip pools that are down.
        starts_now: whether to refuse a pool that some job holds beyond its end.
    """

    at: int
    duration: int
    constraint: Constraint | None = None
    only_up: bool = True
    starts_now: bool = True


class Met(NamedTuple):
    """The role of a vertex in a request.

    Args:
        resource: the resource of its type.
        slots: the slots that its children fill.
    """

    resource: Resource | None
    slots: Sequence[Resource]


_NOTHING: Final = Met(None, ())


@dataclass
class Traverser:
    """Searches a graph.

    Args:
        dominant: subsystem that is walked.
        policy: chooses among candidates.
    """

    graph: Graph
    dominant: str
    policy: Policy
    token: int = 0
    """Number of the last walk: marks and colours of earlier walks do not count."""
    preorder: int = 0
    postorder: int = 0
    exclusive_types: set[str] = field(default_factory=set)
    """Types whose vertices are always allocated exclusively, with all below them."""
    labels: dict[int, str] = field(default_factory=dict)
    """Labels of the request by identity of the vertices that matched them in the last walk."""
    is_hollow: bool = False
    """Whether a part of what the last walk chose would not be taken."""
    _labelled: bool = False

    def select(self, resources: Sequence[Resource], window: Window) -> tuple[int, bool] | None:
        """Search from the root; returns the units of the root and whether exclusively, or None.

        Cost O(vertices visited). The choice is marked on the edges, with the current `token`.
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
        """Mark the path to a vertex, as far as it leads over types of which no number is requested."""
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
        """Whether the vertex would be taken exclusively; None if it cannot take part."""
        self.preorder += 1
        met = self._match(vertex, resources)
        if met is None or (met.resource is None and not met.slots and not pristine):
            return None
        asked = exclusive or any(resource.exclusive and resource.type == vertex.type for resource in resources)
        # A policy with exclusive nodes takes a node only if something in it is chosen, which shows when it is recorded.
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
            # No mark leads to slots that only a lower level can fill.
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
        """The role of the vertex in a request; None if two siblings match it, which can never be satisfied."""
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
        """Visit children until all are visited, or until the policy has enough; returns whether any takes part."""
        window, enclosing, depth = below
        stops = self.policy.stop_on_1_matches
        if not resources:
            # Nothing below can match, but Fluxion still visits each child once.
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
        """Make as many slots as the children provide."""
        slot = slots[0]
        inner = Scores()
        if not self._explore(vertex, slot.children, False, True, inner, slot.count.largest, below):
            return
        self.policy.sort_slot(inner)
        for candidate in fill(slot, inner):
            scores.add(slot.type, candidate)

    def _finish(self, vertex: Vertex, resources: Sequence[Resource], scores: Scores) -> bool:
        """Choose for every resource requested below the vertex; returns whether all are available."""
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
    """The slots that sorted candidates make: complete vertices, bundled for each type in turn."""
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
    """Counts complete shares of a resource found so far, for policies that stop at enough."""

    __slots__ = ("_per_share", "_position", "_shares", "_units", "_wanted", "type")

    def __init__(self, resource: Resource, wanted: int) -> None:
        self.type = resource.type
        self._per_share = resource.count.largest
        self._wanted = wanted
        self._position = self._shares = self._units = 0

    def advance(self, scores: Scores) -> bool:
        """Whether there is enough, including what was found since the last call, which is not divided between shares."""
        candidates = scores.found.get(self.type, ())
        self._units += sum(candidate.count for candidate in candidates[self._position :])
        self._position = len(candidates)
        if self._units >= self._per_share:
            self._shares += 1
            self._units = 0
        return self._shares >= self._wanted


def accepts(constraint: Constraint, vertex: Vertex) -> bool:
    return constraints.matches(constraint, vertex, hostname_is_property=False)


# -- the flexible traverser --------------------------------------------------------------------------------------------


def expand(resources: Sequence[Resource]) -> list[list[Resource]]:
    """Every way to choose one of the `xor_slot`s of each level.

    Errors: LimitExceeded beyond `limits.VARIANTS_MAX`.
    """
    fixed = [resource for resource in resources if resource.type != XOR_SLOT]
    choices = [resource for resource in resources if resource.type == XOR_SLOT]
    below = [_variants(resource) for resource in fixed]
    picks = [[pick] for resource in choices for pick in _variants(replace(resource, type=SLOT))] or [[]]
    count = len(picks)
    for variants in below:
        count *= len(variants)
    if count > limits.VARIANTS_MAX:
        raise LimitExceeded(f"xor_slot: the request has more than {limits.VARIANTS_MAX} variants")
    return [[*chosen, *pick] for pick in picks for chosen in product(*below)]


def _variants(resource: Resource) -> list[Resource]:
    if not resource.children:
        return [resource]
    return [replace(resource, children=children) for children in expand(resource.children)]


class FlexibleTraverser(Traverser):
    """A traverser for which sibling slots are alternatives."""

    def _match(self, vertex: Vertex, resources: Sequence[Resource]) -> Met | None:
        resource: Resource | None = None
        slots = [one for one in resources if one.is_slot]
        for one in resources:
            if one.type == vertex.type:
                if resource is not None or slots:
                    return None
                resource = one
        if resource is not None:
            slots = [child for child in resource.children if child.is_slot]
        # A vertex that cannot contain any of the alternatives does not match the request.
        filled = any(self._offers(vertex, slot) for slot in slots)
        return Met(None if slots else resource, slots if filled else ())

    def _has_slots(self, vertex: Vertex, slots: Sequence[Resource], window: Window) -> bool:
        return any(self._has_below(vertex, slot, window) for slot in slots)

    def _fill_slots(self, vertex: Vertex, slots: Sequence[Resource], scores: Scores, below: tuple[Window, int, int]) -> None:
        if len(slots) == 1:
            super()._fill_slots(vertex, slots, scores, below)
            return
        inner = Scores()
        wanted = _union(slots)
        if not self._explore(vertex, wanted, False, True, inner, slots[-1].count.largest, below):
            return
        self.policy.sort_slot(inner)
        for candidate in mix(slots, inner):
            scores.add(SLOT, candidate)


def _union(slots: Sequence[Resource]) -> list[Resource]:
    """One resource of each type that any of the slots requests.

    Its children are those that all slots request, because candidates differ only by their type.
    """
    found: dict[str, Resource] = {}
    for child in (child for slot in slots for child in slot.children):
        known = found.get(child.type)
        found[child.type] = child if known is None else _both(known, child)
    return list(found.values())


def _both(one: Resource, other: Resource) -> Resource:
    children: dict[str, Resource] = {}
    for child in (*one.children, *other.children):
        known = children.get(child.type)
        if known is None:
            children[child.type] = child
        else:
            count = max(known.count, child.count, key=lambda each: each.least)
            children[child.type] = replace(_both(known, child), count=count)
    types = one.needs | other.needs
    needs = {type_: max(one.needs.get(type_, 0), other.needs.get(type_, 0)) for type_ in types}
    return replace(one, exclusive=one.exclusive or other.exclusive, children=list(children.values()), needs=needs)


def mix(slots: Sequence[Resource], inner: Scores) -> list[Candidate]:
    """The mix of alternatives that makes the most slots of what was found.

    Of several such mixes, the one that takes the most of the first alternatives.
    """
    types = list(dict.fromkeys(child.type for slot in slots for child in slot.children))
    fillable: list[Resource] = []
    needs: list[tuple[int, ...]] = []
    for slot in slots:
        counts = {child.type: child.count.up_to(inner.total(child.type)) for child in slot.children}
        if len(counts) == len(slot.children) and all(counts.values()):
            fillable.append(slot)
            needs.append(tuple(counts.get(type_, 0) for type_ in types))
    left = {type_: list(inner.found.get(type_, ())) for type_ in types}
    made: list[Candidate] = []
    for number in _most(tuple(inner.total(type_) for type_ in types), needs):
        filled = fill(fillable[number], Scores(found=left))
        if not filled:
            break
        made.append(filled[0])
        used = {id(edge) for edge, _, _ in filled[0].edges}
        left = {type_: [one for one in held if id(one.edges[0][0]) not in used] for type_, held in left.items()}
    return made


def _most(have: tuple[int, ...], needs: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Indexes of needs, ascending, as many as the available units allow.

    One round per slot: the possible remainders after that many slots, each with the first way to reach it.

    >>> _most((10, 1), [(6, 0), (4, 1), (3, 0)])
    (1, 2, 2)
    """
    ways: dict[tuple[int, ...], tuple[int, ...]] = {have: ()}
    for _ in range(limits.SLOTS_MIXED_MAX):
        further: dict[tuple[int, ...], tuple[int, ...]] = {}
        for left, way in ways.items():
            for number in range(way[-1] if way else 0, len(needs)):
                rest = tuple(map(sub, left, needs[number]))
                if min(rest) >= 0 and rest not in further and len(further) < limits.MIXES_MAX:
                    further[rest] = (*way, number)
        if not further:
            break
        ways = further
    return next(iter(ways.values()))

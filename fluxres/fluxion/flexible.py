"""The flexible traverser: sibling slots are alternatives.

Sibling `slot`s may be mixed: of the pools below a vertex, the mix with the most slots is taken. Sibling `xor_slot`s are mutually
exclusive: the request is expanded into one variant per choice before the search, and the first variant that matches is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from operator import sub

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.fluxion.graph import Vertex
from fluxres.fluxion.jobspec import SLOT, XOR_SLOT, Resource
from fluxres.fluxion.scores import Candidate, Scores
from fluxres.fluxion.traverser import Met, Traverser, Window, fill


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

"""Requests for amounts within one node, matched as a HyperQueue worker allocates: stacks of indices, fractions, sums, groups.

The vector path and the traverser search for pools; here the rules of HyperQueue fix which pools of a node a request gets
(`specs/seed-systems.md`).  What the two cannot choose, and is therefore here:

* The order of indices.  HyperQueue takes the last free index of its definition, but first what was returned last, so a repeated
  task gets the same indices again.  Records know the order of returns (:mod:`fluxres.allocation.chosen`); without returns, the
  order is that of the policy `high`.
* Groups.  A policy looks at one pool at a time; which groups are best depends on all resources of the request together
  (:mod:`fluxres.match.group_choice`), and a forced policy compares the present with the idle node.
* Fractions: the index where a fraction leaves least, and never two; `all`: everything or nothing; sums over several pools.

`Amounts` is the rule of such a request: everything or nothing, by the first variant that a node can serve.  `Workers` is what it
knows about the nodes of a machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fluxres.arrays import Int32, Mask
from fluxres.clock import seconds
from fluxres.documents.document import plural
from fluxres.errors import InfeasibleRequest, InputError
from fluxres.graph import groups as graph_groups
from fluxres.graph.structure import Structure
from fluxres.match.chooser import Alternative, Choice, Chooser, Offer, Returned
from fluxres.match.group_choice import GroupChoice, GroupNeed, Pair, choose
from fluxres.match.policy import Policy
from fluxres.match.result import Picked
from fluxres.match.situation import Situation
from fluxres.match.typology import Typology
from fluxres.planner.planner import Planner
from fluxres.syntax.jobspec import Request
from fluxres.syntax.variants import ALL, FRACTION_UNIT, PER_UNIT, SHARE, Ask, Variant, format_amount, resources, type_of
from fluxres.syntax.vertex import Vertex

GROUP: Final = "worker_group"
"""The property of a node that names its group of workers; whole nodes of one task are of one group."""
EXPIRATION: Final = "expiration"
"""The property of a node that says when it ends, in seconds of the clock."""
_AS_GOOD: Final = 0.1
"""How much worse than on an idle node a choice may be for a request that would otherwise wait."""
_MANY_NODES: Final = 8
"""From this number of nodes on, those with too little are excluded together before any is looked at."""
_NONE: Final[dict[int, int]] = {}
_NOTHING: Final[list[tuple[int, int]]] = []


@dataclass(frozen=True, eq=False)
class Layout:
    """The pools of one type in one node.

    Args:
        kind: number of the type.
        groups: vertices by group, ascending; a single one for a sum.
        vertices: of the groups, -1 for a sum.
        is_sum: whether units are counted, not pools.
        per_unit: ten-thousandths in a unit of a sum.
        first, stop: the pools as ordinals of their type.
        share: by index, the pool of its ten-thousandths.
        holder: by pool below an index, the index.
        parents: the pools directly above.
        above: all pools above, through which others may hold these.
    """

    kind: int
    groups: tuple[tuple[int, ...], ...]
    vertices: tuple[int, ...]
    is_sum: bool
    per_unit: int
    first: int
    stop: int
    share: Mapping[int, int]
    holder: Mapping[int, int]
    parents: tuple[int, ...] = ()
    above: tuple[int, ...] = ()

    @cached_property
    def group_of(self) -> dict[int, int]:
        return {v: number for number, group in enumerate(self.groups) for v in group}

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.groups))


class FreeResource:
    """What is free of one type in one node over a window.

    Args:
        returned: which pools such requests returned last.
        parent_of: by vertex, the pool above.

    Attributes:
        used: indices of which something is held, or that are out of service.
        open: by index, the ten-thousandths left of one of which others have shares.
        in_service: indices, or units of a sum, in service.
        left: of a sum, the free units of each pool.
        free: complete free indices, by group.
    """

    __slots__ = ("_parent_of", "_returned", "_stacks", "free", "in_service", "layout", "left", "open", "used")

    def __init__(self, layout: Layout, returned: Returned, parent_of: memoryview) -> None:
        self.layout = layout
        self.used: set[int] = set()
        self.open: dict[int, int] = {}
        self.in_service = layout.stop - layout.first
        self.left: list[tuple[int, int]] = []
        self.free = list(layout.sizes)
        self._parent_of = parent_of
        self._returned = returned
        self._stacks: dict[int, Iterator[int]] = {}

    def take_out(self, used: Iterable[int]) -> None:
        """Count indices as not free."""
        for v in used:
            if v not in self.used:
                self.used.add(v)
                self.free[self.layout.group_of[v]] -= 1

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def most(self) -> int:
        """The most that one request can get: fractions of different indices do not add up."""
        if self.layout.is_sum:
            return sum(units for _, units in self.left) * self.layout.per_unit
        return sum(self.free) * PER_UNIT + (max(self.open.values()) if self.open else 0)

    @property
    def size(self) -> int:
        """Everything in service."""
        return self.in_service * self.layout.per_unit

    def can_give(self, ask: Ask) -> bool:
        if ask.amount == ALL:
            return 0 < self.size == self.most
        if self.layout.is_sum:
            return ask.amount <= self.most and ask.amount % self.layout.per_unit == 0
        return ask.amount <= self.most and (not ask.fraction or bool(self.layout.share))

    def need(self, ask: Ask) -> GroupNeed:
        most_open = [0] * len(self.free)
        for v, left in self.open.items():
            at = self.layout.group_of[v]
            most_open[at] = max(most_open[at], left)
        return GroupNeed(ask.units, ask.fraction, tuple(self.free), tuple(most_open))

    # -- taking ------------------------------------------------------------------------------------------------------

    def take(self, ask: Ask, chosen: Sequence[int] | None) -> list[tuple[int, int]]:
        """(vertex, units) in the order in which the task sees them, a fraction last; it is known that there is enough."""
        if self.layout.is_sum:
            return self._amount(self.size if ask.amount == ALL else ask.amount)
        units, fraction = divmod(self.size if ask.amount == ALL else ask.amount, PER_UNIT)
        every = range(len(self.free))
        if len(every) == 1:
            stack = self._stack(0)
            return [(next(stack), 1) for _ in range(units)] + self._fraction(every, fraction)
        if ask.amount == ALL or ask.policy == "scatter":
            return self._evenly(every, units, fraction)
        if ask.policy in ("tight", "tight!"):
            return self._tightly(chosen or (), units, fraction)
        return self._evenly(chosen or (), units, fraction)

    def _amount(self, amount: int) -> list[tuple[int, int]]:
        found, missing = [], amount // self.layout.per_unit
        for v, units in self.left:
            if missing and units:
                found.append((v, min(units, missing)))
                missing -= found[-1][1]
        return found

    def _stack(self, group: int) -> Iterator[int]:
        """The free indices of a group, the one to take next first."""
        found = self._stacks.get(group)
        if found is None:
            found = self._stacks[group] = self._in_order(self.layout.groups[group])
        return found

    def _in_order(self, group: tuple[int, ...]) -> Iterator[int]:
        used = self.used
        recent = self._returned.get(self._parent_of[group[0]], _NONE)
        if len(self.layout.parents) > len(self.layout.groups):  # pools between
            recent = {v: n for parent in self.layout.parents for v, n in self._returned.get(parent, _NONE).items()}
            recent = dict(sorted(recent.items(), key=itemgetter(1)))
        if recent:
            group_of = self.layout.group_of
            mine = group_of[group[0]]
            for v in reversed(recent):
                if v not in used and group_of.get(v) == mine:
                    yield v
        for v in reversed(group):
            if v not in used and v not in recent:
                yield v

    def _evenly(self, chosen: Iterable[int], units: int, fraction: int) -> list[tuple[int, int]]:
        """One index from each group in turn, in the order of the machine; then the fraction, from the first group that has it."""
        chosen = list(chosen)
        if len(chosen) == 1:
            stack = self._stack(chosen[0])
            return [(v, 1) for v in sorted([next(stack) for _ in range(units)])] + self._fraction(chosen, fraction)
        found: list[int] = []
        while len(found) < units:
            for group in chosen:
                if len(found) < units and self.free[group]:
                    found.append(next(self._stack(group)))
                    self.free[group] -= 1
        group_of = self.layout.group_of
        found.sort(key=lambda v: (group_of[v], v))
        return [(v, 1) for v in found] + self._fraction(chosen, fraction)

    def _tightly(self, chosen: Iterable[int], units: int, fraction: int) -> list[tuple[int, int]]:
        """Repeatedly the smallest group that holds all of the rest, else all of the largest group."""
        found: list[tuple[int, int]] = []
        left = set(chosen)
        every = sorted(left)
        while units:
            sizes = sorted((self.free[group], group) for group in left)
            size, group = next(((size, group) for size, group in sizes if size >= units), sizes[-1])
            if size < units:
                group = min(each for its, each in sizes if its == size)
            left.discard(group)
            taken = min(units, size)
            found += [(next(self._stack(group)), 1) for _ in range(taken)]
            self.free[group] -= taken
            units -= taken
        return found + self._fraction(every, fraction)

    def _fraction(self, chosen: Iterable[int], fraction: int) -> list[tuple[int, int]]:
        """The fraction from the open index where it leaves least, or from a new one, in the first group that has either."""
        if not fraction:
            return _NOTHING
        share, group_of = self.layout.share, self.layout.group_of
        for group in chosen:
            fitting = [(left, v) for v, left in self.open.items() if left >= fraction and group_of[v] == group]
            v = min(fitting)[1] if fitting else next(self._stack(group), -1)
            if v >= 0:
                return [(share[v], fraction)]
        raise AssertionError("the chosen groups have it")


def is_sum(structure: Structure, vertices: NDArray[Any]) -> bool:
    """Whether pools of one type are an amount: they have sizes or a unit, or there is one that is only named like its type."""
    first = int(vertices[0])
    if (structure.size[vertices] != 1).any() or structure.kind_of(first).unit is not None:
        return True
    is_bare = structure.id.item(first) < 0 and structure.name(first) == structure.kind_of(first).type
    return len(vertices) == 1 and is_bare and structure.end.item(first) == first + 1


@dataclass(frozen=True, slots=True)
class Amounts(Chooser):
    """The rule of a task of HyperQueue: the first of these variants that a node can serve, in the order of the policy."""

    variants: tuple[Variant, ...]

    def asked(self, request: Request, typology: Typology) -> Request:
        """The nearest that a jobspec says to the first variant whose resources the machine has.

        Errors: InfeasibleRequest if there is none; InputError for one resource by two names.
        """
        workers = Workers(typology)
        for variant in self.variants:
            workers.require_unique(variant)
        known = next((variant for variant in self.variants if not workers.unknown(variant)), None)
        if known is not None:
            return replace(request, resources=workers.resources(known))
        missing = dict.fromkeys(name for variant in self.variants for name in workers.unknown(variant))
        message = "this machine has no " + " or ".join(f"'{name}'" for name in missing)
        there = ", ".join(sorted(workers.types - {"cluster", "node", "group", "socket", SHARE}))
        raise InfeasibleRequest(message, hint=f"it has {there}"[:200], reasons={"request": message})

    def choose(self, offer: Offer) -> Choice | None:
        workers = Workers.of(offer)
        for number, variant in enumerate(self.variants):
            found = workers.match(variant, offer)
            if found is not None:
                return Choice([Picked(0, v, units) for v, units in found], variant=number)
        return None

    def on(self, offer: Offer, number: int, nodes: Sequence[int]) -> Choice | None:
        """A certain variant on certain nodes, all of which it needs; None if there is no room."""
        size, variant = offer.situation.size, self.variants[number]
        found: list[tuple[int, int]] | None
        if variant.nodes:
            found = [(v, size[v]) for v in nodes] if all(map(offer.situation.is_clear, nodes)) else None
        else:
            found = Workers.of(offer).in_node(nodes[0], variant, offer)
        return None if found is None else Choice([Picked(0, v, units) for v, units in found], variant=number)

    def alternatives(self, request: Request, offer: Offer) -> list[Alternative]:
        """By variant what its node lacks, beyond what the pools of each type say."""
        workers, found = Workers.of(offer), list[Alternative]()
        for number, variant in enumerate(self.variants):
            name = f"variant {number}: " if len(self.variants) > 1 else ""
            if unknown := workers.unknown(variant):
                found.append(Alternative(partial(_lacks_types, unknown), None, name))
            else:
                asked = replace(request, resources=workers.resources(variant))
                found.append(Alternative(partial(workers.lacks, variant, offer), asked, name))
        return found


class Workers:
    """What requests for amounts need to know about the nodes of one machine.

    Args:
        typology: of the machine.
    """

    def __init__(self, typology: Typology) -> None:
        self.typology = typology
        self.structure = typology.structure
        self._parent = self.structure.parent.data
        self._layouts: dict[tuple[int, str], Layout | None] = {}
        self._weights: dict[tuple[int, tuple[str, ...]], dict[Pair, float]] = {}

    @classmethod
    def of(cls, offer: Offer) -> Workers:
        """Those of the machine of an offer, which keeps them."""
        found: Workers | None = offer.facts.get(cls)
        if found is None:
            found = offer.facts[cls] = cls(offer.situation.typology)
        return found

    # -- what a machine has ------------------------------------------------------------------------------------------

    @cached_property
    def types(self) -> frozenset[str]:
        return frozenset(self.structure.types)

    def unknown(self, variant: Variant) -> list[str]:
        """The resources of a variant that the machine does not have."""
        return [ask.name for ask in variant.asks if type_of(ask.name, self.types) not in self.types]

    def require_unique(self, variant: Variant) -> None:
        """Refuse a variant that has one resource by two names.

        Errors: InputError.
        """
        names: dict[str, str] = {}
        for ask in variant.asks:
            other = names.setdefault(type_of(ask.name, self.types), ask.name)
            if other != ask.name:
                message = f"'{other}' and '{ask.name}' are the same resource of this machine"
                raise InputError(message, where="request", hint="name it once, with the sum of both")

    def resources(self, variant: Variant) -> tuple[Vertex, ...]:
        """The nearest that a jobspec says to a variant on this machine."""
        asks, in_parts = [], set()
        for ask in variant.asks:
            name = type_of(ask.name, self.types)
            pools = self.structure.of_type(name).astype(np.int64)
            if self.structure.kind_of(int(pools[0])).unit == FRACTION_UNIT:
                in_parts.add(name)
            elif ask.fraction and (is_sum(self.structure, pools) or SHARE not in self.types):
                ask = msgspec.structs.replace(ask, amount=(ask.units + 1) * PER_UNIT)
            asks.append(ask)
        return resources(msgspec.structs.replace(variant, asks=tuple(asks)), types=self.types, sums=in_parts)

    def layout(self, node: int, name: str) -> Layout | None:
        """The pools of a resource in a node; None if it has none."""
        key = node, name
        if key not in self._layouts:
            self._layouts[key] = self._laid_out(node, name)
        return self._layouts[key]

    def _laid_out(self, node: int, name: str) -> Layout | None:
        s = self.structure
        kind = self.typology.number(type_of(name, self.types))
        if not 0 <= kind < len(s.types):
            return None
        every = self.typology.vertices(kind)
        first, stop = every.searchsorted(np.array([node + 1, s.end.item(node)], np.int32)).tolist()
        vertices = every[first:stop].astype(np.int64)
        if not len(vertices):
            return None
        if is_sum(s, vertices):
            in_parts = s.kind_of(int(vertices[0])).unit == FRACTION_UNIT
            pools = tuple(vertices.tolist())
            return Layout(kind, (pools,), (-1,), True, 1 if in_parts else PER_UNIT, first, stop, {}, {})
        parts = graph_groups.in_host(s, vertices, node)
        owners = tuple(graph_groups.group_of(s, part, node) for part in parts)
        share: dict[int, int] = {}
        holder: dict[int, int] = {}
        if (s.end[vertices] > vertices + 1).any():
            for v in vertices.tolist():
                holder.update((u, v) for u in range(v + 1, s.end.item(v)))
                share.update((v, u) for u in range(v + 1, s.end.item(v)) if s.kind_of(u).type == SHARE)
        parents = tuple(dict.fromkeys(s.parent[vertices].tolist()))
        above = tuple(dict.fromkeys(u for v in parents for u in (v, *s.ancestors(v))))
        of_groups = tuple(tuple(part.tolist()) for part in parts)
        return Layout(kind, of_groups, owners, False, PER_UNIT, first, stop, share, holder, parents, above)

    def _weights_of(self, node: int, names: tuple[str, ...], layouts: Sequence[Layout]) -> dict[Pair, float]:
        """The weights between the groups of these resources, by the number of the resource and that of the group."""
        key = node, names
        found = self._weights.get(key)
        if found is None:
            found = {}
            at: dict[int, list[tuple[int, int]]] = {}
            for number, layout in enumerate(layouts):
                for group, v in enumerate(layout.vertices):
                    at.setdefault(v, []).append((number, group))
            for one, other in ((a, b) for cells in at.values() for a in cells for b in cells if a < b):
                found[one, other] = float(graph_groups.WEIGHT_DEFAULT)
            for (v, w), weight in graph_groups.weights(self.structure, dict.fromkeys(at, 0)).items():
                for one, other in ((a, b) for a in at[v] for b in at[w] if a != b):
                    found[min(one, other), max(one, other)] = weight
            self._weights[key] = found
        return found

    # -- what is free ------------------------------------------------------------------------------------------------

    def supply(self, layout: Layout, offer: Offer) -> FreeResource:
        """What is free of one type in one node over the window of an offer."""
        situation = offer.situation
        found = FreeResource(layout, offer.returned, self._parent)
        planner, start, end = situation.planner, situation.start, situation.end
        if layout.is_sum:
            pools = layout.groups[0]
            found.left = [(v, situation.free(v)) for v in pools]
            found.in_service = sum(self.structure.size.item(v) for v in pools if situation.is_up(v))
            return found
        if situation.ideal:
            return found
        if len(self.structure.unavailable_roots()):
            out = self._out_of_service(layout)
            found.in_service -= len(out)
            found.take_out(out)
        if any(planner.is_covered(v, start, end) for v in layout.above):
            found.take_out(v for group in layout.groups for v in group if planner.covered_by(v, start, end) >= 0)
        held = planner.held_ordinals(layout.kind, layout.first, layout.stop, start, end)
        if held is not None:
            found.take_out(self.typology.vertices(layout.kind)[held[0]].tolist())
        if layout.holder:
            self._take_shares(found, planner, start, end)
        if len(self.structure.exclusive_composites):
            found.take_out([v for group in layout.groups for v in group if v not in found.used and situation.free(v) < 1])
        return found

    def _take_shares(self, found: FreeResource, planner: Planner, start: int, end: int) -> None:
        """Count indices of which others have something as open, or as used if it is no share."""
        layout = found.layout
        lo, hi = layout.groups[0][0], max(self.structure.end.item(group[-1]) for group in layout.groups)
        for u in planner.busy(lo, hi, start, end).tolist():
            v = layout.holder.get(u)
            if v is None or v in found.used:
                continue
            found.take_out([v])
            if layout.share.get(v) == u:
                found.open[v] = planner.free(u, start, end)

    def _out_of_service(self, layout: Layout) -> list[int]:
        above = self.structure.accounts.unavailable_above
        return [v for group in layout.groups for v in group if above(v) >= 0]

    # -- matching ----------------------------------------------------------------------------------------------------

    def match(self, variant: Variant, offer: Offer) -> list[tuple[int, int]] | None:
        """(vertex, units) in the order in which the task sees them, from the first node that serves a variant; or None."""
        if variant.nodes:
            return self._whole_nodes(variant, offer)
        for node in self.nodes(variant, offer.situation, offer.policy):
            found = self.in_node(node, variant, offer)
            if found is not None and offer.is_supplied(found):
                return found
        return None

    def in_node(self, node: int, variant: Variant, offer: Offer) -> list[tuple[int, int]] | None:
        """What one node gives to a variant; None if it cannot."""
        supplies = []
        for ask in variant.asks:
            layout = self.layout(node, ask.name)
            if layout is None:
                return None
            supplies.append(self.supply(layout, offer))
            if not supplies[-1].can_give(ask):
                return None
        chosen = self._groups(node, variant.asks, supplies)
        if chosen is None:
            return None
        return [
            pool
            for number, (ask, supply) in enumerate(zip(variant.asks, supplies, strict=True))
            for pool in supply.take(ask, chosen.get(number))
        ]

    def _groups(self, node: int, asks: Sequence[Ask], supplies: Sequence[FreeResource]) -> dict[int, tuple[int, ...]] | None:
        """The groups for each resource that selects groups, by its number; None if a forced policy waits."""
        choosing = [
            number
            for number, (ask, supply) in enumerate(zip(asks, supplies, strict=True))
            if len(supply.free) > 1 and ask.amount != ALL and ask.policy != "scatter"
        ]
        if not choosing:
            return {}
        layouts = [supplies[number].layout for number in choosing]
        names = tuple(asks[number].name for number in choosing)
        weights = (
            self._weights_of(node, names, layouts) if len(choosing) > 1 or graph_groups.GRAPH in self.structure.subsystems else {}
        )
        found = choose([supplies[number].need(asks[number]) for number in choosing], weights)
        if found is None:
            return None
        if any(asks[number].is_forced for number in choosing):
            ideal = self._ideal([asks[number] for number in choosing], layouts, weights)
            if ideal is not None and found.worth < ideal.worth - _AS_GOOD:
                return None
        return dict(zip(choosing, found.groups, strict=True))

    @staticmethod
    def _ideal(asks: Sequence[Ask], layouts: Sequence[Layout], weights: Mapping[Pair, float]) -> GroupChoice | None:
        """The choice in an idle node."""
        needs = [
            GroupNeed(ask.units, ask.fraction, layout.sizes, (0,) * len(layout.sizes))
            for ask, layout in zip(asks, layouts, strict=True)
        ]
        return choose(needs, weights)

    # -- nodes -------------------------------------------------------------------------------------------------------

    @cached_property
    def hosts(self) -> Int32:
        """The nodes; the root of a machine without nodes."""
        return self.typology.vertices(self.typology.node) if self.typology.node >= 0 else np.zeros(1, np.int32)

    @cached_property
    def _described(self) -> bool:
        """Whether any node ends at some time, or is in a group of workers."""
        return any(key in (GROUP, EXPIRATION) for kind in self.structure.kinds for key, _ in kind.properties)

    def property_of(self, node: int, key: str) -> object:
        return dict(self.structure.kind_of(node).properties).get(key)

    def number_of(self, node: int, key: str) -> float | None:
        """A property of a node that is a number; formats with text properties have it as text."""
        value = self.property_of(node, key)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        try:
            return float(value)
        except ValueError:
            return None

    def lives(self, node: int, variant: Variant, situation: Situation) -> bool:
        """Whether a node is there as long as a variant needs it."""
        end = None if situation.ideal or not self._described else self.number_of(node, EXPIRATION)
        return end is None or seconds(situation.start) + variant.min_time_s <= end

    def nodes(self, variant: Variant, situation: Situation, policy: Policy) -> Iterator[int]:
        """The nodes that may serve a variant, in the order of the policy."""
        nodes, eligible = self.hosts, situation.eligible
        if not eligible.everywhere and not eligible._by_pool:
            nodes = nodes[eligible.mask]
        if len(nodes) >= _MANY_NODES and self.typology.node >= 0:
            nodes = nodes[self._with_room(nodes, variant, situation)]
        if len(nodes) > 1:
            nodes = policy.order(situation, nodes)
        for node in nodes.tolist():
            if situation.is_up(node) and (not self._described or self.lives(node, variant, situation)):
                yield node

    def _with_room(self, nodes: Int32, variant: Variant, situation: Situation) -> Mask:
        """Which nodes have at least the units, counted at the busiest moment; the others cannot serve it."""
        level = situation.planner.levels.of(self.typology.node)
        room = np.ones(len(nodes), np.bool_)
        if level is None:
            return room
        at = level.vertices.searchsorted(nodes)
        for ask in variant.asks:
            kind = self.typology.number(type_of(ask.name, self.types))
            if not 0 <= kind < len(self.structure.types):
                return np.zeros(len(nodes), np.bool_)
            sizes = self.typology.sizes(kind)
            if ask.amount == ALL or (sizes != 1).any():
                continue
            first, stop = level.edges(kind)
            free = (stop - first)[at]
            peaks = None if situation.ideal else level.peaks(kind, situation.start, situation.end)
            room &= (free if peaks is None else free - peaks[at]) >= ask.units
        return room

    def _whole_nodes(self, variant: Variant, offer: Offer) -> list[tuple[int, int]] | None:
        """Whole nodes of one group of workers, of the first group that has enough of them."""
        situation = offer.situation
        alike: dict[object, list[tuple[int, int]]] = {}
        enough: list[list[tuple[int, int]]] = []
        if self.typology.node < 0:
            return None
        for node in self.nodes(Variant(min_time_s=variant.min_time_s), situation, offer.policy):
            if not situation.is_clear(node):
                continue
            group = self.property_of(node, GROUP) if self._described else None
            found = alike.setdefault(group, [])
            found.append((node, situation.size[node]))
            if len(found) == variant.nodes:
                if offer.is_supplied(found):
                    return found
                enough.append(found)
        supplied = (offer.first_supplied(found, variant.nodes) for found in enough)
        return next((found for found in supplied if found is not None), None)

    # -- refusals ----------------------------------------------------------------------------------------------------

    def lacks(self, variant: Variant, offer: Offer) -> list[str]:
        """What only this module knows about a variant that no node can serve, as sentences without their full stop."""
        situation, first = offer.situation, Policy("first")
        if variant.nodes:
            return self._lacking_nodes(variant, situation)
        nodes = list(self.nodes(Variant(min_time_s=variant.min_time_s), situation, first))
        if not nodes and self.hosts.size and variant.min_time_s:
            return [f"no node is there for another {variant.min_time_s:g} s, as the time request asks"]
        found = []
        for ask in variant.asks:
            layouts = [layout for node in nodes if (layout := self.layout(node, ask.name)) is not None]
            if ask.fraction and layouts and not any(self._divides(layout, ask) for layout in layouts):
                text = "is not divisible on this machine, which was read without the option fractions"
                found.append(f"requested {format_amount(ask.amount)} of {ask.name}, which {text}")
                continue
            supplies = [self.supply(layout, offer) for layout in layouts]
            if supplies and not any(supply.can_give(ask) for supply in supplies):
                found.append(_short(ask, supplies))
        if not found and any(ask.is_forced for ask in variant.asks):
            forced = " and ".join(f"{ask.name} {ask.policy}" for ask in variant.asks if ask.is_forced)
            found.append(f"{forced}: it waits for as few groups as an idle node would need")
        return found or ["no node has all of it at once"]

    def _divides(self, layout: Layout, ask: Ask) -> bool:
        return ask.amount % layout.per_unit == 0 if layout.is_sum else bool(layout.share)

    def _lacking_nodes(self, variant: Variant, situation: Situation) -> list[str]:
        groups: dict[object, int] = {}
        for node in self.nodes(Variant(min_time_s=variant.min_time_s), situation, Policy("first")):
            group = self.property_of(node, GROUP)
            groups[group] = groups.get(group, 0) + situation.is_clear(node)
        most = max(groups.values(), default=0)
        return [f"requested {plural(variant.nodes, 'whole node')} of one group, at most {most} are free together"]


def _short(ask: Ask, supplies: Sequence[FreeResource]) -> str:
    if ask.amount == ALL:
        return f"requested all of {ask.name}, some of it is held in each node"
    most = max(supply.most for supply in supplies)
    if ask.fraction and not supplies[0].layout.is_sum:
        text = f"a fraction is of one index, and one node has at most {format_amount(most)}"
        return f"requested {format_amount(ask.amount)} of {ask.name}: {text}"
    return f"requested {format_amount(ask.amount)} of {ask.name} in one node, at most {format_amount(most)} is free in one"


def _lacks_types(unknown: Sequence[str]) -> list[str]:
    return [f"this machine has no {' and no '.join(unknown)}"]

"""The forms of request that the vector path takes.

Nearly every job asks for one of three things: whole nodes or parts of nodes by number (`nodes`), so many equal bundles of
leaf pools each within a node (`bundles`), or so many units wherever they are (`units`).  In all of them what is asked of a node
is a number per type, and then choosing nodes is arithmetic over one level.  Anything else goes to the traverser.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, prod
from typing import Literal

from fluxres.match.demand import Demand, Plan
from fluxres.match.typology import Typology


@dataclass(frozen=True, slots=True)
class Part:
    """Units of one type asked for in a node.

    Args:
        demand: the leaf; `kind` its type number.
        slot: the innermost slot around it below the node or bundle; None where the node (or nothing) is what it stands in.
        worth: how much of what is asked for one unit of a pool gives.
        shares: looked at, not taken.
    """

    demand: Demand
    slot: Demand | None
    worth: Fraction
    shares: bool

    def units(self, counts: tuple[int, ...]) -> int:
        """Units of pools for one instance."""
        count = counts[self.demand.number]
        return count if self.worth == 1 else ceil(count / self.worth)


@dataclass(frozen=True, slots=True)
class Form:
    """What the vector path makes of a request.

    Args:
        sort: which of the three.
        node: the demand for nodes (`nodes`).
        outer: the slot around the nodes, or the slot that is the bundle.
        parts: what is asked for in each node or bundle, in the order written.
    """

    sort: Literal["nodes", "bundles", "units"]
    node: Demand | None
    outer: Demand | None
    parts: tuple[Part, ...]
    _needs: dict[tuple[int, ...], dict[int, int]] = field(default_factory=dict, compare=False, repr=False)

    def number(self, counts: tuple[int, ...]) -> int:
        """Nodes, bundles or units in all."""
        if self.sort == "units":
            return self.parts[0].units(counts)
        return prod(counts[demand.number] for demand in (self.outer, self.node) if demand is not None)

    def repeats(self, part: Part, counts: tuple[int, ...]) -> int:
        """How often a part is asked for in one node or bundle."""
        inner = self.sort == "nodes" and part.slot is not None and part.slot is not self.outer
        return counts[part.slot.number] if inner and part.slot is not None else 1

    def needs(self, counts: tuple[int, ...]) -> dict[int, int]:
        """Units by type that a node (or a bundle, or one unit) takes; the last answer is kept."""
        found = self._needs.get(counts)
        if found is None:
            found = self._find_needs(counts)
            self._needs.clear()
            self._needs[counts] = found
        return found

    def _find_needs(self, counts: tuple[int, ...]) -> dict[int, int]:
        if self.sort == "units":
            return {self.parts[0].demand.kind: 1}
        found: dict[int, int] = {}
        for part in self.parts:
            kind = part.demand.kind
            found[kind] = found.get(kind, 0) + self.repeats(part, counts) * part.units(counts)
        return found

    @property
    def kinds(self) -> list[int]:
        """Type numbers of the parts."""
        return sorted({part.demand.kind for part in self.parts})


def form(plan: Plan, typology: Typology) -> Form | None:
    """The form of a request, or None where only the traverser will do."""
    if len(plan.demands) != 1 or plan.named or typology.node < 0 or typology.nests(typology.node):
        return None
    top = plan.demands[0]
    if top.is_slot:
        if len(top.children) == 1 and top.children[0].kind == typology.node:
            return _nodes(top.children[0], top, typology)
        parts = _parts(top.children, top, typology)
        return Form("bundles", None, top, parts) if parts and top.confined and not top.beside else None
    if top.kind == typology.node:
        return _nodes(top, None, typology)
    parts = _parts((top,), None, typology)
    if parts and (typology.node_of[typology.vertices(top.kind)] >= 0).all():
        return Form("units", None, None, parts)
    return None


def _nodes(node: Demand, outer: Demand | None, typology: Typology) -> Form | None:
    if not node.children:
        return Form("nodes", node, outer, ()) if node.wanted_unit is None else None
    parts: list[Part] = []
    for child in node.children:
        found = _parts(child.children, child, typology) if child.is_slot else _parts((child,), outer, typology)
        if not found:
            return None
        parts += found
    return Form("nodes", node, outer, tuple(parts))


def _parts(demands: tuple[Demand, ...], slot: Demand | None, typology: Typology) -> tuple[Part, ...]:
    """Leaf demands as parts; empty when one of them is not simple."""
    found = []
    for demand in demands:
        part = None if demand.is_slot or demand.children else _part(demand, slot, typology)
        if part is None:
            return ()
        found.append(part)
    return tuple(found)


def _part(demand: Demand, slot: Demand | None, typology: Typology) -> Part | None:
    kind = demand.kind
    if kind not in typology.in_node or typology.below[kind] or typology.is_flagged(kind):
        return None
    (least, most), units = typology.least_and_most(kind), typology.units(kind)
    ones = least == most == 1
    if len(units) != 1 or not (ones or (least > 1 and not demand.whole)):
        return None
    worth = demand.per_unit(next(iter(units)))
    return None if worth is None else Part(demand, slot, worth, demand.shared and ones)

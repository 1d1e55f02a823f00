"""Reads a request for one machine: its vertices as demands, in the machine's own types.

What a vertex means may depend on what is around it and on the machine: a slot of cores lies within one node where there are
nodes, watts beside a node are charged where the node gets them from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fluxres.errors import InfeasibleRequest, InputError
from fluxres.graph.kinds import DRAW
from fluxres.match.demand import Demand, Plan
from fluxres.match.relations import Relations
from fluxres.match.typology import NODE, Typology
from fluxres.syntax import hostlist
from fluxres.syntax.count import exactly
from fluxres.syntax.jobspec import Request, Vertex


def plan(request: Request, typology: Typology) -> Plan:
    """Make a request ready for a machine.

    Errors: InfeasibleRequest for a type that the machine does not have, with the types that it has.
    """
    reader = _Reader(typology, (vertex.type for vertex in request.vertices()))
    demands = reader.read(request.resources, "resources", in_node=False)
    for demand in reader.all:
        if demand.confined:
            demand.inside, demand.beside = reader.split(demand)
    reader.charge(demands, -1, in_node=False)
    Relations(typology).settle(demands, frozenset())
    _set_totals(demands, ())
    leaves = [demand.kind for demand in reader.all if not demand.children and demand.kind in typology.in_node]
    return Plan(
        request,
        demands,
        tuple(reader.all),
        tuple(demand for demand in reader.all if demand.is_slot),
        leaves[0] if leaves else -1,
        any(demand.named for demand in reader.all),
        any(demand.charged or demand.upstream for demand in reader.all),
    )


class _Reader:
    def __init__(self, typology: Typology, asked: Iterable[str] = ()) -> None:
        self.typology = typology
        self.all: list[Demand] = []
        #: Types that pools draw by themselves, unless the request says how much is drawn of them.
        self.draws = typology.drawn_by_itself if typology.structure.kinds.may_draw else {}
        if self.draws:
            said = {typology.numbers.get(name, -1) for name in asked}
            said |= {kind for feeds in typology.paths.feeds if feeds.kind in said for kind in feeds.counted}
            self.draws = {kind: name for kind, name in self.draws.items() if kind not in said}

    def read(self, vertices: Iterable[Vertex], place: str, *, in_node: bool) -> tuple[Demand, ...]:
        return tuple(
            self.demand(vertex, f"{place}[{at}]", in_node)
            for at, vertex in enumerate(vertices)
            if vertex.count.max != 0  # the count 0, which RFC 25 knows for gpus
        )

    def demand(self, vertex: Vertex, place: str, in_node: bool) -> Demand:
        typology = self.typology
        kind = -1 if vertex.is_slot else typology.numbers.get(vertex.type, -1)
        if kind < 0 and not vertex.is_slot:
            known = ", ".join(sorted(typology.numbers)[:20])
            raise InfeasibleRequest(
                f"no pool of type '{vertex.type}' in this graph",
                where=place,
                hint=f"types are {known}",
                reasons={place: f"no pool of type '{vertex.type}'"},
            )
        flow = kind in typology.flows
        if flow and (vertex.children or vertex.ids is not None):
            raise InputError(
                f"units of the graph '{vertex.type}' have no ids, and nothing below them",
                where=place,
                hint=f"such as [node;{vertex.type}=10]",
            )
        ranges = vertex.id_ranges
        made = Demand(
            len(self.all),
            place,
            vertex.type,
            kind,
            vertex.count,
            vertex.label,
            None if ranges is None else tuple(ranges),
            _names(vertex.ids, place) if vertex.ids is not None and ranges is None else None,
            None if vertex.children else vertex.unit,
            whole=vertex.is_exclusive if vertex.children else bool(vertex.exclusive),
            shared=not vertex.is_exclusive and not vertex.children and not flow,
            upstream=not vertex.children and kind in typology.paths.channels,
            flow=flow,
        )
        self.all.append(made)
        made.children = self.read(vertex.children, f"{place}.with", in_node=in_node or vertex.type == NODE)
        if self.draws and not vertex.is_slot and vertex.is_exclusive:
            self._add_draws(made, vertex)
        made.confined = (
            vertex.is_slot
            and not in_node
            and not self._has_node(made.children)
            and any(self._is_in_node(child) for child in made.children)
        )
        return made

    def _add_draws(self, demand: Demand, vertex: Vertex) -> None:
        """Charge what the pools draw by themselves that are taken whole."""
        if not demand.children and (vertex.unit is not None or self.typology.least_and_most(demand.kind)[1] != 1):
            return
        pools = self.typology.vertices(demand.kind)
        for kind, name in self.draws.items():
            totals = self.typology.draws.total(name)[pools[pools < self.typology.structure.n]]
            if not totals.any():
                continue
            units, even = max(int(totals.min()), 1), bool((totals == totals[0]).all()) and demand.kind == self.typology.node
            place = f"{demand.place}.{DRAW}{name}"
            made = Demand(
                len(self.all), place, name, kind, exactly(units), None, None, None, None, whole=False, shared=False,
                charged="below", own=True, even=even,
            )  # fmt: skip
            self.all.append(made)
            demand.children = (*demand.children, made)
            demand.whole, demand.wanted_unit = True, None

    def _has_node(self, demands: Sequence[Demand]) -> bool:
        return any(demand.kind == self.typology.node >= 0 or self._has_node(demand.children) for demand in demands)

    def _is_in_node(self, demand: Demand) -> bool:
        """Whether a child of a slot is to be sought in a node: its type occurs there; for a slot, those of all its parts do.

        What is distributed goes with what does.
        """
        if demand.is_slot:
            parts = [child for child in demand.children if not child.upstream] or demand.children
            return all(map(self._is_in_node, parts))
        return demand.kind in self.typology.in_node

    def split(self, slot: Demand) -> tuple[tuple[Demand, ...], tuple[Demand, ...]]:
        inside = [child.upstream or self._is_in_node(child) for child in slot.children]
        paired = list(zip(slot.children, inside, strict=True))
        return tuple(child for child, within in paired if within), tuple(child for child, within in paired if not within)

    def charge(self, demands: Iterable[Demand], above: int, *, in_node: bool) -> None:
        """Decide of what is distributed whether it is picked, or charged and from where.

        Args:
            above: type of the pool that the demands are sought below; -1 at the top.
            in_node: whether that is a node or in one.
        """
        demands = tuple(demands)
        alone = all(demand.upstream or demand.charged for demand in demands)
        for demand in demands:
            if demand.upstream and not demand.named and not (above >= 0 and demand.kind in self.typology.below[above]):
                demand.charged = "siblings" if not in_node and not alone else "below" if above >= 0 else ""
                demand.upstream = not demand.charged
                if demand.flow and not demand.charged:
                    raise InputError(
                        f"units of the graph '{demand.type}' are drawn by what they are asked for with",
                        where=demand.place,
                        hint=f"such as [node;{demand.type}=10]",
                    )
            elif demand.confined:
                self.charge(demand.inside, self.typology.node, in_node=True)
                self.charge(demand.beside, above, in_node=in_node)
            else:
                kind = above if demand.is_slot else demand.kind
                inner = kind == self.typology.node >= 0 or kind in self.typology.in_node
                self.charge(demand.children, kind, in_node=in_node or inner)


def _names(text: str, place: str) -> frozenset[str]:
    try:
        return frozenset(hostlist.parse(text))
    except InputError as error:
        raise type(error)(f"id: {error.message}", where=place, hint="an idset such as 0-3, or names as in a hostlist") from None


def _set_totals(demands: Iterable[Demand], above: tuple[int, ...]) -> None:
    for demand in demands:
        demand.total = (*above, demand.number)
        _set_totals(demand.children, demand.total if demand.is_slot else ())

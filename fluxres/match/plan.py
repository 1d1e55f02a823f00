"""Compile a request for one machine: its vertices become demands with the machine's own type numbers.

The meaning of a vertex may depend on its surroundings and on the machine: a slot of cores lies within one node if there are
nodes, and watts next to a node are charged to the node's suppliers.

A count that leaves a choice is resolved last, by attempts with fixed counts (`settle`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from math import ceil

from fluxres import limits
from fluxres.documents.suggestion import did_you_mean, suggest
from fluxres.errors import InfeasibleRequest, InputError, LimitExceeded, UnknownPool, UnknownType
from fluxres.graph.kinds import DRAW
from fluxres.graph.short_names import AT
from fluxres.match.demand import Counts, Demand, Plan
from fluxres.match.paths import Meeting
from fluxres.match.result import Placement
from fluxres.match.situation import having
from fluxres.match.typology import NODE, Typology
from fluxres.syntax import hostlist
from fluxres.syntax.count import Count, exactly
from fluxres.syntax.jobspec import Request
from fluxres.syntax.vertex import Vertex, preorder


def plan(request: Request, typology: Typology, meeting: Meeting | None = None) -> Plan:
    """Compile a request for a machine.

    Args:
        meeting: where its nodes meet, if it requests units between them; without it, they are a single node and nothing is
            charged.

    Errors: InfeasibleRequest for a type that the machine does not have, with the types that it has.
    """
    reader = _Reader(typology, meeting)
    parts = reader.read_parts(request)
    demands = tuple(chain.from_iterable(parts))
    for demand in reader.all:
        if demand.confined:
            demand.inside, demand.beside = reader.split(demand)
    if any(demand.upstream for demand in reader.all):
        for part in parts:
            reader.charge(part, -1, in_node=False)
    slots: list[Demand] = []
    loose: list[Demand] = []
    measured, named, charged, is_routed = -1, False, False, reader.between >= 0
    for demand in reader.all:
        if demand.is_slot:
            slots.append(demand)
        if demand.count.fixed is None:
            loose.append(demand)
        if measured < 0 and not demand.children and demand.kind in typology.in_node:
            measured = demand.kind
        named = named or demand.named
        charged = charged or bool(demand.charged) or demand.upstream
        is_routed = is_routed or demand.to is not None
    return Plan(
        request,
        demands,
        tuple(reader.all),
        tuple(slots),
        measured,
        named,
        charged,
        reader.between,
        tuple([demand.count.min for demand in reader.all]),
        tuple(loose),
        is_routed,
    )


class _Reader:
    def __init__(self, typology: Typology, meeting: Meeting | None) -> None:
        self.typology = typology
        self.meeting = meeting
        self.between = -1
        self.all: list[Demand] = []
        #: Types that pools draw on their own, unless the request specifies how much is drawn of them.
        self.draws: dict[int, str] = {}

    def read_parts(self, request: Request) -> list[tuple[Demand, ...]]:
        """The top level of each of the requests that are co-allocated."""
        found, first = [], 0
        for vertices in request.by_part:
            self.draws = self._draws_beside(vertices)
            found.append(self.read(vertices, "resources", (), in_node=False, first=first))
            first += len(vertices)
        return found

    def _draws_beside(self, vertices: tuple[Vertex, ...]) -> dict[int, str]:
        typology = self.typology
        draws = typology.drawn_by_itself if typology.structure.kinds.may_draw else {}
        if not draws:
            return {}
        said = typology.said({typology.number(vertex.type) for vertex in preorder(vertices)})
        return {kind: name for kind, name in draws.items() if kind not in said}

    def read(
        self,
        vertices: Iterable[Vertex],
        place: str,
        slots: tuple[int, ...],
        *,
        in_node: bool,
        in_whole: bool = False,
        first: int = 0,
    ) -> tuple[Demand, ...]:
        """The demands of some vertices.

        Args:
            slots: the numbers of the slots around them, up to the nearest pool.
            in_whole: below a pool that is taken exclusively and draws for everything in it.
        """
        return tuple(
            [
                self.demand(vertex, f"{place}[{at}]", slots, in_node, in_whole)
                for at, vertex in enumerate(vertices, first)
                if vertex.count.max != 0  # a count of 0, which RFC 25 allows for gpus
            ]
        )

    def _instead_of(self, vertex: Vertex) -> str:
        """What to write for a type that the graph does not have, as a hint."""
        known = self.typology.graphs | self.typology.types
        if vertex.type == "core" and "node" in known:
            return "slot/node requests nodes without cores"
        if vertex.children and AT in vertex.type:
            pool, _, node = vertex.type.partition(AT)
            return did_you_mean([f"{pool}{AT}{vertex.children[0].type}{AT}{node}"])
        if vertex.children and self.typology.structure.named([vertex.type]):
            pool, at, node = vertex.children[0].type.partition(AT)
            return f"{vertex.type} is a pool; one in it is {pool}{AT}{vertex.type}{at}{node}"
        return nearest(vertex.type, known)

    def _kind(self, vertex: Vertex, place: str) -> int:
        """The number of a type, or of the graph whose units are requested; -1 for a slot."""
        typology = self.typology
        if vertex.is_slot:
            return -1
        if not vertex.is_directed:
            kind = typology.number(vertex.type)
            if kind < 0:
                message = f"no pool of type '{vertex.type:.{limits.NAME_LENGTH_MAX}}' in this graph"
                raise UnknownType(message, where=place, hint=self._instead_of(vertex), reasons={place: message})
            return kind
        found = typology.graphs.get(vertex.type)
        if found is None:
            where = f"to '{vertex.to}'" if vertex.to is not None else "between nodes"
            raise _infeasible(
                f"no graph '{vertex.type}' that could carry units {where}",
                place,
                f"graphs are {', '.join(sorted(typology.graphs)[:20])}" if typology.graphs else "there are no auxiliary graphs",
            )
        return found

    def demand(self, vertex: Vertex, place: str, slots: tuple[int, ...], in_node: bool, in_whole: bool) -> Demand:
        """The demand of a vertex, with those below it; see `read`."""
        made = self._bare(vertex, place, slots)
        if vertex.to is not None:
            made.channel = self.typology.paths.channel(made.kind, self._named(vertex.type, vertex.to, place))
        if vertex.between is not None:
            self._charge_between(made)
        self.all.append(made)
        is_slot = vertex.is_slot
        made.children = self.read(
            vertex.children,
            f"{place}.with",
            made.total if is_slot else (),
            in_node=in_node or vertex.type == NODE,
            in_whole=in_whole or (not is_slot and vertex.is_exclusive),
        )
        if self.draws and not is_slot and not in_whole:
            self._add_draws(made, vertex)
        made.confined = (
            is_slot
            and not in_node
            and not self._has_node(made.children)
            and any(self._is_in_node(child) for child in made.children)
        )
        return made

    def _bare(self, vertex: Vertex, place: str, slots: tuple[int, ...]) -> Demand:
        """The demand of a vertex, without what follows from others."""
        typology, kind = self.typology, self._kind(vertex, place)
        flow = typology.is_flow(kind)
        if flow and (vertex.children or vertex.ids is not None or vertex.properties):
            raise InputError(
                f"units of the graph '{vertex.type}' have no ids and properties, and contain nothing",
                where=place,
                hint=f"such as [node;{vertex.type}=10]",
            )
        ranges = None if vertex.ids is None else vertex.id_ranges
        return Demand(
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
            upstream=not vertex.children and typology.is_distributed(kind),
            channel=kind,
            to=vertex.to,
            flow=flow,
            total=(*slots, len(self.all)),
            properties=self._selective(vertex.properties, kind) if vertex.properties else (),
        )

    def _selective(self, properties: tuple[str, ...], kind: int) -> tuple[str, ...]:
        """The properties, or none if all pools of the type have them: then pools are as interchangeable as without."""
        return () if having(self.typology.structure, self.typology.vertices(kind), properties).all() else properties

    def _charge_between(self, demand: Demand) -> None:
        if self.typology.node < 0:
            raise _infeasible(f"units of '{demand.type}' between nodes: there are no nodes in this graph", demand.place, "")
        if self.between not in (-1, demand.kind):
            raise InputError(
                "expected one graph between the nodes of a request",
                where=demand.place,
                hint="name a pool with `to` in the others",
            )
        self.between = demand.kind
        if self.meeting is None:
            demand.channel = self.typology.paths.alone(demand.kind)
        else:
            demand.channel, demand.to = self.meeting.channel, self.typology.structure.where(self.meeting.v)

    def _named(self, graph: str, to: str, place: str) -> int:
        """The pool to which units of a graph are requested; a bare name refers to a pool of the graph."""
        try:
            return self.typology.structure.vertex(to)
        except UnknownPool as error:
            for find, name in (
                (self.typology.structure.vertex, f"{graph}:/{to}"),
                (self.typology.structure.short_names.vertex, to),
            ):
                with suppress(UnknownPool):
                    return find(name)
            raise _infeasible(f"units to '{to}': {error.message}", place, error.hint) from None

    def _add_draws(self, demand: Demand, vertex: Vertex) -> None:
        """Charge what exclusively taken pools draw on their own."""
        in_units = not demand.children and (vertex.unit is not None or self.typology.facts(demand.kind).most != 1)
        if demand.flow or not (in_units or vertex.is_exclusive):
            return
        pools = self.typology.vertices(demand.kind)
        for kind, name in self.draws.items():
            totals = self.typology.draws.total(name)[pools[pools < self.typology.structure.n]]
            if not totals.any():
                continue
            is_even = bool((totals == totals[0]).all()) and demand.kind == self.typology.node and not in_units
            place = f"{demand.place}.{DRAW}{name}"
            made = Demand(
                len(self.all), place, name, kind, exactly(max(int(totals.min()), 1)), None, None, None, None,
                whole=False, shared=False, charged="below", channel=kind, own=True, even=is_even,
            )  # fmt: skip
            self.all.append(made)
            if in_units:
                demand.draws = (*demand.draws, made)
                continue
            demand.children = (*demand.children, made)
            demand.whole, demand.wanted_unit = True, None

    def _has_node(self, demands: Sequence[Demand]) -> bool:
        return any(demand.kind == self.typology.node >= 0 or self._has_node(demand.children) for demand in demands)

    def _is_in_node(self, demand: Demand) -> bool:
        """Whether to look for a child of a slot in a node: its type occurs there; for a slot, the types of all its parts do.

        Distributed resources follow the parts that do.
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
        """Decide for each distributed resource whether it is picked, or charged and from where.

        Args:
            above: type of the pool below which the demands are searched; -1 at the top.
            in_node: whether that pool is a node or in one.
        """
        demands = tuple(demands)
        alone = all(demand.upstream or demand.charged for demand in demands)
        for demand in demands:
            if demand.upstream and not demand.named and not (above >= 0 and demand.kind in self.typology.below[above]):
                demand.charged = "siblings" if not in_node and not alone else "below" if above >= 0 else ""
                demand.upstream = not demand.charged
                if demand.flow and not demand.charged:
                    raise InputError(
                        f"units of the graph '{demand.type}' must be requested together with the pools that draw them",
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


def nearest(name: str, known: Iterable[str]) -> str:
    """The types with the nearest names, or the types that there are, as a hint."""
    some = sorted(known)[:20]
    swapped = [
        each for each in some if sorted(each) == sorted(name)
    ]  # in a short word, the usual comparison finds these too far away
    return did_you_mean(swapped) or suggest(name, some, most=3, cutoff=0.7) or f"types are {', '.join(some)}"


def _infeasible(message: str, place: str, hint: str) -> InfeasibleRequest:
    return InfeasibleRequest(message, where=place, hint=hint, reasons={place: message})


def _names(text: str, place: str) -> frozenset[str]:
    try:
        return frozenset(hostlist.parse(text))
    except InputError as error:
        raise type(error)(f"id: {error.message}", where=place, hint="an idset such as 0-3, or names as in a hostlist") from None


# -- counts that leave a choice ------------------------------------------------------------------------------------------

Attempt = Callable[[Counts], Placement | None]


def settle(plan: Plan, typology: Typology, attempt: Attempt) -> Placement | None:
    """The match with the largest counts, or None if not even the minimum fits.

    A count such as `2-8` is resolved once, to the same number wherever its resource vertex occurs in instances of the request:
    all slots of a job are equal.  Counts are resolved in the order written, each to the largest acceptable number with which the
    request still matches while the later ones are at their minimum.  If a number does not fit, no larger one does, so the
    largest is found by bisection.

    Args:
        attempt: finds a match for fixed counts, by number of demand.

    Errors: LimitExceeded if even the minimum counts stay undecided; larger counts that stay undecided are not taken.
    Cost: one attempt, and for each count with a choice as many as its range has bits.
    """
    found = attempt(plan.lowest)
    if found is None:
        return None
    counts = list(plan.lowest)
    for demand in plan.loose:
        low, high = counts[demand.number], demand.count.valid(_at_most(demand, typology))
        trying = high
        while low < high:
            try:
                better = attempt((*counts[: demand.number], trying, *counts[demand.number + 1 :]))
            except LimitExceeded:
                # Undecided: fall back to what is known to fit.
                return found
            if better is not None:
                found, low = better, trying
            else:
                high = demand.count.valid(trying - 1)
            trying = _between(demand.count, low, high)
        counts[demand.number] = low
    return found


def _between(count: Count, low: int, high: int) -> int:
    """The acceptable number nearest below the middle of (low, high], or else the first one above `low`.

    >>> from fluxres.syntax.count import parse
    >>> _between(parse("1,90-100"), 1, 100), _between(parse("1,90-100"), 90, 100)
    (90, 95)
    """
    middle = count.valid((low + high + 1) // 2)
    if middle > low:
        return middle
    first = bisect_right(range(high + 1), low, lo=low, key=count.valid)
    return count.valid(min(first, high))


def _at_most(demand: Demand, typology: Typology) -> int:
    """An upper bound for the number of instances on this machine."""
    if demand.flow and demand.count.max is not None:
        return demand.count.max  # edges without a capacity are unlimited
    if not demand.is_slot:
        pools = typology.vertices(demand.kind)
        if demand.children:
            return len(pools)
        return max(ceil(int(typology.sizes(demand.kind).sum()) * typology.most_worth(demand)), 1)
    # Every pool satisfies one child, so units of one type that several children request add up. Pools that are only looked at
    # on a supply path are shared by all, and units of a graph may be unlimited.
    children = [child for child in demand.children if not child.flow and not (child.charged and child.shared)]
    needed: dict[int, int] = {}
    for child in children:
        worth = 0 if child.is_slot or child.children else typology.most_worth(child)
        if worth:
            needed[child.kind] = needed.get(child.kind, 0) + ceil(child.count.min / worth)
    together = [int(typology.sizes(kind).sum()) // units for kind, units in needed.items()]
    return min([_at_most(child, typology) // child.count.min for child in children] + together, default=1)

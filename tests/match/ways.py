"""Which pool supplies which, computed slowly: edge by edge, pool by pool, following `specs/matching.md`.

An edge with a capacity is numbered behind the pools: graph by graph, by source and target.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from math import floor, isnan

from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import UNAVAILABLE_STATES, WAY
from fluxres.graph.structure import Structure

Edge = tuple[int, int]
Givers = tuple[int, ...]


class Ways:
    """The auxiliary graphs of a machine as lists of (supplier, supplied)."""

    def __init__(self, structure: Structure, *, ideal: bool = False) -> None:
        self.structure = structure
        self.ideal = ideal
        self.type = [structure.kind_of(v).type for v in range(structure.n)]
        self.above = [[v, *structure.ancestors(v)] for v in range(structure.n)]
        followed = [(graph, self.followed(graph)) for graph in structure.subsystems.values()]
        self.graphs = [edges for _, edges in followed if edges]
        self.names = [graph.name for graph, edges in followed if edges]
        self.cuts: dict[int, set[int]] = {}
        self.carried: dict[int, int] = {}
        self.number: dict[tuple[str, Edge], int] = {}
        self.own_unit: dict[int, str] = {}
        for graph in structure.subsystems.values():
            self.find_limits(graph)
        self.found: dict[tuple[int, str], dict[Givers, Fraction] | None] = {}
        self.is_distributed: dict[str, bool] = {}
        self.neighbours: dict[tuple[int, int], set[int]] = {}

    def find_limits(self, graph: Subsystem) -> None:
        capacity: dict[Edge, list[float]] = {}
        unit: dict[Edge, str] = {}
        for a, b, data in graph.rows():
            capacity.setdefault((a, b), []).append(data.get("capacity", float("nan")))
            if "unit" in data:
                unit[a, b] = data["unit"]
        for edge in sorted(capacity):
            if not any(map(isnan, capacity[edge])):
                number = self.structure.n + len(self.carried)
                self.number[graph.name, edge] = number
                self.carried[number] = floor(sum(capacity[edge]))
                if edge in unit:
                    self.own_unit[number] = unit[edge]

    def unit(self, v: int) -> str | None:
        """The unit of an edge."""
        if v in self.own_unit:
            return self.own_unit[v]
        name = next(graph for (graph, _), number in self.number.items() if number == v)
        edges = self.graphs[self.names.index(name)]
        types = [t for t in sorted(set(self.type)) if self.is_counted(edges, t)]
        pools = [u for u in self.givers(edges) if self.type[u] in types]
        return self.structure.kind_of(min(pools)).unit if pools else None

    def givers(self, edges: list[Edge]) -> set[int]:
        """Pools that may have something to give by one graph."""
        suppliers, members = self.distributors(edges), {v for edge in edges for v in edge}
        found = set(suppliers)
        for v in range(self.structure.n):
            ends = any((u, v) in edges for u in suppliers) and self.outside(v)
            on = self.structure.parent.item(v) in suppliers and (self.outside(v) or v in members)
            if self.structure.end.item(v) == v + 1 and (ends or on):
                found.add(v)
        return found

    def is_counted(self, edges: list[Edge], type_name: str) -> bool:
        """Whether something of the type can be drawn in parts by one graph."""
        if not self.distributed(type_name):
            return False
        pools = [v for v in self.givers(edges) if self.type[v] == type_name]
        return any(self.structure.size.item(v) > 1 or self.structure.kind_of(v).unit is not None for v in pools)

    def limits(self, edges: list[Edge], a: int, b: int) -> set[int]:
        """Edges with a capacity between two pools, in both directions."""
        name = self.names[self.graphs.index(edges)]
        return {self.number[name, ends] for ends in ((a, b), (b, a)) if (name, ends) in self.number}

    def outside(self, v: int) -> bool:
        return v >= self.structure.tree_end

    def in_node(self, v: int) -> bool:
        return any(self.type[u] == "node" for u in self.above[v])

    def followed(self, graph: Subsystem) -> list[Edge]:
        edges = list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
        if graph.hierarchy:
            return edges
        one_way = [(a, b) for a, b in edges if (b, a) not in edges]
        if not any(not self.outside(b) for _, b in one_way) and any(not self.outside(a) for a, _ in one_way):
            one_way = [(b, a) for a, b in one_way]
        both = [(a, b) for a, b in edges if (b, a) in edges]
        ends = {a for a, _ in both}
        near = {v for v in ends if self.in_node(v)} or {v for v in ends if not self.outside(v)}
        distance = dict.fromkeys(near, 0)
        for hops in range(self.structure.n):
            reached = {b for a, b in both if distance.get(a) == hops and b not in distance}
            distance |= dict.fromkeys(reached, hops + 1)
        unreached = self.structure.n
        return [*one_way, *((a, b) for a, b in both if distance.get(a, unreached) > distance.get(b, unreached))]

    def suppliers(self, edges: list[Edge], v: int) -> list[int]:
        """The suppliers of a pool: only those with units of their own, if there are any."""
        every = self.all_suppliers(edges, v)
        found = sorted([a for a in every if not self.is_dead(edges, a)] or every)
        graph = self.structure.subsystems[self.names[self.graphs.index(edges)]]
        one_of = {frozenset((a, b)) for a, b, data in graph.rows() if data.get("supply") == "any"}
        several = [a for a in found if frozenset((a, v)) in one_of]
        several = [a for a in several if not self.is_spent(edges, a, set())] or several
        return [a for a in found if a in several[:1] or frozenset((a, v)) not in one_of]

    def is_spent(self, edges: list[Edge], u: int, below: set[int]) -> bool:
        """Whether a supplier, or all suppliers farther up from it, are pass-through pools."""
        if u in below:
            return False
        types = {self.type[v] for v in self.givers(edges) if self.is_counted(edges, self.type[v])}
        supplying = {self.type[v] for v in self.distributors(edges)}
        hung = [u] * (self.type[u] in types)
        hung += [v for type_name in types - supplying for v in self.hung(u, type_name)]
        if hung and all(self.structure.flags.item(v) & WAY for v in hung):
            return True
        place = next((w for w in self.above[u] if self.all_suppliers(edges, w)), None)
        farther = [] if place is None else self.all_suppliers(edges, place)
        return bool(farther) and all(self.is_dead(edges, a) or self.is_spent(edges, a, below | {u}) for a in farther)

    def all_suppliers(self, edges: list[Edge], v: int) -> list[int]:
        return [a for a, b in edges if b == v]

    def is_out(self, v: int) -> bool:
        return not self.ideal and any(self.structure.state_name(u) in UNAVAILABLE_STATES for u in self.above[v])

    def is_dead(self, edges: list[Edge], v: int) -> bool:
        """Whether a supplier gives nothing: it is out of service, or all of its suppliers give nothing."""
        place = next((u for u in self.above[v] if self.all_suppliers(edges, u)), None)
        return self.is_out(v) or (place is not None and place in self.cut(edges))

    def cut(self, edges: list[Edge]) -> set[int]:
        """Supplied pools that are cut off in a graph."""
        key = id(edges)
        if key not in self.cuts:
            found: set[int] = set()
            while True:
                self.cuts[key] = found
                fresh = {b for _, b in edges if all(self.is_dead(edges, a) for a in self.all_suppliers(edges, b))}
                if fresh <= found or not self.is_vital(edges):
                    break
                found = found | fresh
        return self.cuts[key]

    def is_vital(self, edges: list[Edge]) -> bool:
        """Whether a pool without supply in a graph can do no work."""
        graph = self.structure.subsystems[self.names[self.graphs.index(edges)]]
        types = {self.type[v] for v in self.givers(edges)}
        limited = any(self.limits(edges, a, b) for a, b in edges)
        return graph.hierarchy or limited or any(self._distributed_by(edges, name) for name in types)

    def is_cut_off(self, v: int) -> bool:
        """Whether a pool is cut off in one of the graphs."""
        if self.ideal:
            return False
        near = [next(filter(None, (self.taken_in(edges, u) for u in self.above[v])), []) for edges in self.graphs]
        return any(bool(places) and set(places) <= self.cut(edges) for places, edges in zip(near, self.graphs, strict=True))

    def taken_in(self, edges: list[Edge], u: int) -> list[int]:
        """The pools through which the supply of a pool and its contents enters: the pool itself, or the cards of a node.

        A node in a node without cards of its own has the supply of the pools above it: cards next to it are not its cards.
        """
        if self.all_suppliers(edges, u):
            return [u]
        return self.cards(edges, u) if self.type[u] == "node" else []

    def distributors(self, edges: list[Edge]) -> set[int]:
        found = {a for a, _ in edges}
        return found | {u for a in found for u in self.above[a] if self.outside(u) and self.outside(a)}

    def hung(self, u: int, type_name: str) -> list[int]:
        """Childless pools of a type below a pool, or attached to it by an edge outside the tree."""
        found = set()
        for v in range(self.structure.n):
            if self.type[v] != type_name or self.structure.end.item(v) != v + 1:
                continue
            ends = any((u, v) in edges and v not in self.distributors(edges) for edges in self.graphs)
            if self.structure.parent.item(v) == u or (ends and self.outside(v)):
                found.add(v)
        return sorted(found)

    def distributed(self, type_name: str) -> bool:
        if type_name not in self.is_distributed:
            self.is_distributed[type_name] = self.is_flow(type_name) or self._distributed(type_name)
        return self.is_distributed[type_name]

    def is_flow(self, name: str) -> bool:
        """Whether units of a graph are meant, by its name."""
        return name in self.names and name not in self.type

    def _distributed(self, type_name: str) -> bool:
        if any(self.type[u] == type_name for v in range(len(self.type)) if self.type[v] == "node" for u in self.above[v]):
            return False
        return any(self._distributed_by(edges, type_name) for edges in self.graphs)

    def _distributed_by(self, edges: list[Edge], type_name: str) -> bool:
        if any(self.type[u] == type_name for v in range(len(self.type)) if self.type[v] == "node" for u in self.above[v]):
            return False
        suppliers = self.distributors(edges)
        members = {v for edge in edges for v in edge}
        if any(self.type[u] == type_name for u in suppliers):
            return True
        return any(self.outside(v) or v in members for u in suppliers for v in self.hung(u, type_name))

    def entries(self, edges: list[Edge], v: int) -> list[int]:
        for u in self.above[v]:
            if self.all_suppliers(edges, u):
                return [u]
            if (u == v or self.in_node(u)) and (inside := self.cards(edges, u)):
                return inside
        return []

    def cards(self, edges: list[Edge], u: int) -> list[int]:
        """The pools in a pool that are supplied from outside it."""
        below = range(u + 1, self.structure.end.item(u))
        return [w for w in below if any(a not in (u, *below) for a in self.all_suppliers(edges, w))]

    def up(self, edges: list[Edge], u: int) -> tuple[list[int], set[int]]:
        """The next pools up from a supplier, and the limits of the edges to it."""
        if self.outside(u):
            place, beside = u, self.above[u][1:2]
        else:
            place, beside = next((w for w in self.above[u] if self.all_suppliers(edges, w)), u), []
        found = self.suppliers(edges, place)
        return [*found, *beside], {v for a in found for v in self.limits(edges, a, place)}

    def charged(self, v: int, type_name: str) -> dict[Givers, Fraction] | None:
        """The suppliers with the part that each gives; None if nothing supplies the pool."""
        if (v, type_name) not in self.found:
            self.found[v, type_name] = self._charged(v, type_name)
        return self.found[v, type_name]

    def _charged(self, v: int, type_name: str) -> dict[Givers, Fraction] | None:
        if self.is_flow(type_name):
            edges = self.graphs[self.names.index(type_name)]
            if not self.entries(edges, v):
                return None
            types = [t for t in set(self.type) if self.is_counted(edges, t)]
            return self.by(edges, v, types, flow=True)
        parts = {}
        if not any(any(self.type[u] == type_name for u in self.distributors(edges)) for edges in self.graphs):
            parts = {tuple(hung): Fraction(1) for u in self.above[v] if (hung := self.hung(u, type_name))}
        for edges in self.graphs:
            for givers, part in self.by(edges, v, [type_name]).items():
                parts[givers] = max(part, parts.get(givers, part))
        return parts or None

    def by(self, edges: list[Edge], v: int, types: list[str], *, flow: bool = False) -> dict[Givers, Fraction]:
        """What gives to a pool in one graph: pools of these types, and edges if those are counted, or for the graph itself."""
        every = self.entries(edges, v)
        entries = [u for u in every if u not in self.cut(edges)] or every
        here: dict[Givers, Fraction] = {}
        for entry in entries:
            met: set[int] = set()
            todo = self.suppliers(edges, entry)
            through = {v for a in todo for v in self.limits(edges, a, entry)}
            while todo:
                u = todo.pop()
                if u not in met:
                    met.add(u)
                    farther, limits = self.up(edges, u)
                    todo += farther
                    through |= limits
            givers: set[Givers] = {(e,) for e in through} if flow else set()
            for type_name in types:
                itself = any(self.type[u] == type_name for u in self.distributors(edges))
                each = ([u] * (self.type[u] == type_name) if itself else self.hung(u, type_name) for u in met)
                supplied = {tuple(pools) for pools in each if pools}
                if supplied and self.is_counted(edges, type_name):
                    supplied |= {(e,) for e in through}
                givers |= supplied
            for each_givers in givers:
                here[each_givers] = here.get(each_givers, Fraction(0)) + Fraction(1, len(entries))
        return here

    # -- routes to a pool that is named ------------------------------------------------------------------------------

    def routed(self, v: int, name: str, to: str) -> dict[Givers, Fraction] | None:
        """What gives which part of units of a graph towards a pool; None if there is no route."""
        edges, end = self.graphs[self.names.index(name)], self.structure.vertex(to)
        pairs = [(a, b) for a in self.ends(edges, v) for b in self.ends(edges, end)]
        return self.along(edges, [route for a, b in pairs if (route := self.route(edges, a, b)) is not None])

    def along(self, edges: list[Edge], routes: list[list[int]]) -> dict[Givers, Fraction] | None:
        here: dict[Givers, Fraction] = {}
        types = [t for t in set(self.type) if self.is_counted(edges, t)]
        for route in routes:
            givers: set[Givers] = {(e,) for a, b in pairwise(route) for e in self.limits(edges, a, b)}
            for type_name in types:
                itself = any(self.type[u] == type_name for u in self.distributors(edges))
                each = ([u] * (self.type[u] == type_name) if itself else self.hung(u, type_name) for u in route[1:])
                givers |= {tuple(pools) for pools in each if pools}
            for each_givers in givers:
                here[each_givers] = here.get(each_givers, Fraction(0)) + Fraction(1, len(routes))
        return here if routes else None

    # -- where nodes meet --------------------------------------------------------------------------------------------

    def above_all(self, edges: list[Edge], v: int) -> set[int]:
        """The suppliers on the path of a node; of all its cards, if it has several."""
        every = self.entries(edges, v)
        entries = [u for u in every if u not in self.cut(edges)] or every
        ways = [self.walked(edges, entry) for entry in entries]
        return set.intersection(*ways) if ways else set()

    def walked(self, edges: list[Edge], entry: int) -> set[int]:
        met: set[int] = set()
        todo = self.suppliers(edges, entry)
        while todo:
            u = todo.pop()
            if u not in met:
                met.add(u)
                todo += self.up(edges, u)[0]
        return met

    def routes_to(self, edges: list[Edge], v: int, meeting: int) -> list[list[int]]:
        return [route for a in self.ends(edges, v) if (route := self.route(edges, a, meeting)) is not None]

    def meetings(self, name: str) -> list[list[tuple[int, set[int]]]]:
        """(supplier, the nodes below it) by how far the farthest of them is."""
        edges = self.graphs[self.names.index(name)]
        nodes = [v for v in range(self.structure.n) if self.type[v] == "node"]
        found: dict[int, list[tuple[int, set[int]]]] = {}
        for u in range(self.structure.n):
            routes = {v: self.routes_to(edges, v, u) for v in nodes if u in self.above_all(edges, v)}
            below = {v for v in routes if routes[v]}
            if below:
                height = max(len(route) - 1 for v in below for route in routes[v])
                found.setdefault(height, []).append((u, below))
        return [found[height] for height in sorted(found)]

    def ends(self, edges: list[Edge], v: int) -> list[int]:
        found = [v] if self.beside(edges, v) else self.entries(edges, v)
        return [u for u in found if self.beside(edges, u)]

    def route(self, edges: list[Edge], a: int, b: int) -> list[int] | None:
        """Of the shortest routes the first one by the numbers of its pools."""
        for length in range(self.structure.n):
            found = list(self.walks(edges, [a], b, length))
            if found:
                return min(found)
        return None

    def walks(self, edges: list[Edge], met: list[int], b: int, left: int) -> Iterator[list[int]]:
        if not left:
            yield from [met] if met[-1] == b else []
        elif len(met) == 1 or not self.in_node(met[-1]):
            for u in self.beside(edges, met[-1]):
                if u not in met:
                    yield from self.walks(edges, [*met, u], b, left - 1)

    def beside(self, edges: list[Edge], v: int) -> set[int]:
        """The pools in service one step away, in either direction of the edge."""
        if (id(edges), v) not in self.neighbours:
            graph = self.structure.subsystems[self.names[self.graphs.index(edges)]]
            steps = list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
            for u in self.distributors(edges):
                around = self.above[u][1:2] if self.outside(u) else self.above[u]
                place = next((w for w in around if self.outside(u) or self.all_suppliers(edges, w)), u)
                steps += [(u, place)] * (place != u)
            both = [*steps, *((b, a) for a, b in steps)]
            self.neighbours[id(edges), v] = {b for a, b in both if a == v and not self.is_out(a) and not self.is_out(b)}
        return self.neighbours[id(edges), v]

    def upstream(self, v: int, type_name: str) -> dict[Givers, Fraction]:
        """What is farther up than the pools attached to the same suppliers."""
        return {givers: part for givers, part in (self.charged(v, type_name) or {}).items() if v not in givers}

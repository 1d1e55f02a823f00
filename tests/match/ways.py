"""Who supplies whom, found the slow way: edge by edge, pool by pool, by the text of `specs/matching.md`."""

from __future__ import annotations

from fractions import Fraction

from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.structure import Structure

Edge = tuple[int, int]
Givers = tuple[int, ...]


class Ways:
    """The auxiliary graphs of a machine as lists of (supplier, supplied)."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.type = [structure.kind_of(v).type for v in range(structure.n)]
        self.above = [[v, *structure.ancestors(v)] for v in range(structure.n)]
        self.graphs = [edges for graph in structure.subsystems.values() if (edges := self.followed(graph))]
        self.found: dict[tuple[int, str], dict[Givers, Fraction]] = {}
        self.is_distributed: dict[str, bool] = {}

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
        return [a for a, b in edges if b == v]

    def distributors(self, edges: list[Edge]) -> set[int]:
        found = {a for a, _ in edges}
        return found | {u for a in found for u in self.above[a] if self.outside(u) and self.outside(a)}

    def hung(self, u: int, type_name: str) -> list[int]:
        """Childless pools of a type below a pool, or outside the tree at the end of an edge from it."""
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
            self.is_distributed[type_name] = self._distributed(type_name)
        return self.is_distributed[type_name]

    def _distributed(self, type_name: str) -> bool:
        if any(self.type[u] == type_name for v in range(len(self.type)) if self.type[v] == "node" for u in self.above[v]):
            return False
        for edges in self.graphs:
            suppliers = self.distributors(edges)
            members = {v for edge in edges for v in edge}
            if any(self.type[u] == type_name for u in suppliers):
                return True
            for u in suppliers:
                for v in self.hung(u, type_name):
                    if self.outside(v) or v in members:
                        return True
        return False

    def entries(self, edges: list[Edge], v: int) -> list[int]:
        for u in self.above[v]:
            if self.suppliers(edges, u):
                return [u]
            if u == v or self.in_node(u):
                below = range(u + 1, self.structure.end.item(u))
                inside = [w for w in below if any(a not in (u, *below) for a in self.suppliers(edges, w))]
                if inside:
                    return inside
        return []

    def up(self, edges: list[Edge], u: int) -> list[int]:
        if self.outside(u):
            return [*self.suppliers(edges, u), *self.above[u][1:2]]
        return next((found for w in self.above[u] if (found := self.suppliers(edges, w))), [])

    def charged(self, v: int, type_name: str) -> dict[Givers, Fraction]:
        if (v, type_name) not in self.found:
            self.found[v, type_name] = self._charged(v, type_name)
        return self.found[v, type_name]

    def _charged(self, v: int, type_name: str) -> dict[Givers, Fraction]:
        supplying = [any(self.type[u] == type_name for u in self.distributors(edges)) for edges in self.graphs]
        parts: dict[Givers, Fraction] = {}
        if not any(supplying):
            parts = {tuple(hung): Fraction(1) for u in self.above[v] if (hung := self.hung(u, type_name))}
        for edges, itself in zip(self.graphs, supplying, strict=True):
            entries = self.entries(edges, v)
            here: dict[Givers, Fraction] = {}
            for entry in entries:
                met: set[int] = set()
                todo = self.suppliers(edges, entry)
                while todo:
                    u = todo.pop()
                    if u not in met:
                        met.add(u)
                        todo += self.up(edges, u)
                each = ([u] * (self.type[u] == type_name) if itself else self.hung(u, type_name) for u in met)
                for givers in {tuple(pools) for pools in each if pools}:
                    here[givers] = here.get(givers, Fraction(0)) + Fraction(1, len(entries))
            for givers, part in here.items():
                parts[givers] = max(part, parts.get(givers, part))
        return parts

    def upstream(self, v: int, type_name: str) -> dict[Givers, Fraction]:
        """What lies farther up than what hangs on the same suppliers."""
        return {givers: part for givers, part in self.charged(v, type_name).items() if v not in givers}

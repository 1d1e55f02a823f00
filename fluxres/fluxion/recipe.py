"""Build a graph from a GRUG recipe, with Fluxion's order and numbers of vertices.

Fluxion walks the recipe depth first from each of its nodes in turn. An edge met for the first time makes the vertices of its
target below every vertex of its source. Number, id and path of a vertex follow from the moment of its creation.
"""

from __future__ import annotations

from math import prod

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.fluxion.graph import Graph, Vertex
from fluxres.formats.flux.grug import Kind, Recipe, Rule


def build(recipe: Recipe) -> Graph:
    """The graph of a recipe.

    Cost O(vertices). Errors: LimitExceeded for recipes that make more than `limits.POOLS_MAX`; InputError for a rule that
    connects pools before there are any.
    """
    builder = _Builder(recipe)
    for kind in recipe.kinds:
        builder.walk(kind)
    return builder.graph


class _Builder:
    def __init__(self, recipe: Recipe) -> None:
        self.graph = Graph()
        self._kinds = {kind.key: kind for kind in recipe.kinds}
        self._rules: dict[str, list[Rule]] = {}
        for rule in recipe.rules:
            self._rules.setdefault(rule.source, []).append(rule)
        self._made: dict[str, list[Vertex]] = {}
        self._seen: set[str] = set()
        self._scales: list[int] = []
        self._ranks = 0

    def walk(self, start: Kind) -> None:
        """Walk depth first from a node of the recipe, unless it was visited before."""
        if start.key in self._seen:
            return
        self._meet(start)
        path = [(start.key, 0)]
        while path:
            key, position = path.pop()
            rules = self._rules.get(key, ())
            while position < len(rules):
                rule = rules[position]
                position += 1
                if rule.target in self._seen:
                    continue
                self._apply(rule)
                self._meet(self._kinds[rule.target])
                path.append((key, position))
                self._scales.append(rule.scale)
                key, position, rules = rule.target, 0, self._rules.get(rule.target, ())
            if path:
                self._scales.pop()

    def _meet(self, kind: Kind) -> None:
        self._seen.add(kind.key)
        if kind.is_root:
            vertex = self._make(kind, 0)
            self.graph.place(vertex, kind.subsystem, f"/{vertex.name}")
            self.graph.set_root(kind.subsystem, vertex)
            self._made.setdefault(kind.key, []).append(vertex)

    def _make(self, kind: Kind, id_: int) -> Vertex:
        rank = -1
        if kind.type == "node":
            rank, self._ranks = self._ranks, self._ranks + 1
        number = len(self.graph.vertices)
        name = f"{kind.basename}{id_}"
        return self.graph.add(Vertex(number, kind.type, kind.basename, name, id_, rank=rank, size=kind.size, unit=kind.unit))

    def _apply(self, rule: Rule) -> None:
        sources = self._made.get(rule.source, [])
        target = self._kinds[rule.target]
        if rule.method == "MULTIPLY":
            if len(self.graph.vertices) + len(sources) * rule.scale > limits.POOLS_MAX:
                raise LimitExceeded(f"the recipe makes more than {limits.POOLS_MAX} vertices", where=rule.target)
            self._multiply(rule, sources, target)
            return
        existing = self.graph.by_type.get(target.type, [])
        if not existing:
            raise InputError(f"no {target.type} has been made yet that could be connected", where=f"edge to {rule.target}")
        tied = self._made.setdefault(rule.target, [])
        by_path = rule.method == "ASSOCIATE_BY_PATH_IN"
        for source in sources:
            near = _cut(source.paths.get(rule.target_subsystem, ""), rule.source_up)
            for vertex in list(existing):
                if not by_path or _cut(vertex.paths.get(rule.target_subsystem, ""), rule.target_up) == near:
                    self._connect(source, vertex, rule.subsystem)
                    tied.append(vertex)

    def _multiply(self, rule: Rule, sources: list[Vertex], target: Kind) -> None:
        made = self._made.setdefault(rule.target, [])
        scope = min(rule.id_scope, len(self._scales))
        period = prod(self._scales[len(self._scales) - scope :]) if scope else 1
        for number, source in enumerate(sources):
            base = number % period * rule.scale * rule.id_stride if period else 0
            for position in range(rule.scale):
                vertex = self._make(target, rule.id_start + base + position * rule.id_stride)
                self._connect(source, vertex, rule.subsystem)
                made.append(vertex)

    def _connect(self, source: Vertex, target: Vertex, subsystem: str) -> None:
        above = source.paths.get(subsystem)
        if above is None:
            raise InputError(f"{source.path or source.name} has no path in {subsystem}", where=f"edge to {target.name}")
        self.graph.place(target, subsystem, f"{above}/{target.name}")
        self.graph.connect(source, target, subsystem)


def _cut(path: str, levels: int) -> str:
    """A path without its last levels."""
    return "/".join(path.split("/")[: -levels or None])

"""The graph as Fluxion's matcher sees it: numbered vertices, edges in the order of creation, and the plans of jobs.

The numbers, the order of edges and the paths determine what is matched and printed, so readers build the graph vertex by vertex.
The schedule of a vertex is made on demand: most vertices of a large machine never need one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.fluxion.planner import Aggregate, Plan

CONTAINMENT = "containment"
SHARERS_MAX = 0x40000000
"""Maximal number of jobs with something at or below one vertex at the same time; an exclusive job takes all of it."""
UNTOUCHED = 2**64 - 1
"""Weight of an edge over which nothing has been allocated yet."""


_NO_SPANS: Mapping[int, int] = MappingProxyType({})


class VertexSchedule:
    """What jobs planned on one vertex; made for the first job."""

    __slots__ = ("allocations", "plan", "reservations", "sharer_spans", "sharers", "spans_below")

    def __init__(self, size: int) -> None:
        self.plan = Plan(size)
        """Units of the vertex itself."""
        self.sharers = Plan(SHARERS_MAX)
        """Jobs that hold something at or below it."""
        self.allocations: dict[int, int] = {}
        self.reservations: dict[int, int] = {}
        self.sharer_spans: dict[int, int] = {}
        self.spans_below: dict[int, tuple[int, ...]] = {}


class Vertex:
    """A pool with its place in the graph and its schedule."""

    __slots__ = (
        "aggregate", "basename", "child_types", "color", "edges", "id", "ins", "name", "paths", "properties", "rank",
        "ring", "schedule", "size", "type", "uniq_id", "unit", "up",
    )  # fmt: skip

    def __init__(
        self, uniq_id: int, type_: str, basename: str, name: str, id_: int, *, rank: int = -1, size: int = 1, unit: str = ""
    ) -> None:
        self.uniq_id = uniq_id
        self.type = type_
        self.basename = basename
        self.name = name
        self.id = id_
        self.rank = rank
        self.size = size
        self.unit = unit
        self.up = True
        self.properties: dict[str, str] = {}
        self.paths: dict[str, str] = {}
        self.edges: list[Edge] = []
        self.ins: list[Edge] = []
        self.ring: list[Edge] | None = None
        """Edges in the order in which the policy tries them first; None until something has been allocated below."""
        self.aggregate: Aggregate | None = None
        self.schedule: VertexSchedule | None = None
        self.color = 0
        self.child_types: frozenset[str] | None = None
        """Types of its children; None until needed."""

    @property
    def path(self) -> str:
        """Its path in containment, or in its first subsystem."""
        return self.paths.get(CONTAINMENT) or next(iter(self.paths.values()), "")

    @property
    def hostname(self) -> str:
        """Its name, as used by constraints on hosts."""
        return self.name

    @property
    def state(self) -> str:
        return "up" if self.up else "down"

    @property
    def allocations(self) -> Mapping[int, int]:
        """Jobs that hold it now, with their spans."""
        return _NO_SPANS if self.schedule is None else self.schedule.allocations

    @property
    def reservations(self) -> Mapping[int, int]:
        """Jobs that will hold it, with their spans."""
        return _NO_SPANS if self.schedule is None else self.schedule.reservations

    @property
    def tags(self) -> Mapping[int, int]:
        """Jobs that hold something at or below it."""
        return _NO_SPANS if self.schedule is None else self.schedule.sharer_spans

    def scheduled(self) -> VertexSchedule:
        """Its schedule, created if necessary."""
        if self.schedule is None:
            self.schedule = VertexSchedule(self.size)
        return self.schedule

    def available(self, at: int, duration: int) -> int:
        """The unplanned units in a window."""
        return self.size if self.schedule is None else self.schedule.plan.lowest(at, duration)

    def unshared(self, at: int, duration: int) -> bool:
        """Whether no job holds anything at or below it in a window."""
        return self.schedule is None or self.schedule.sharers.lowest(at, duration) >= SHARERS_MAX


class Edge:
    """A relation in one subsystem, with the mark left by the last match."""

    __slots__ = ("exclusive", "needs", "source", "subsystem", "target", "token", "weight")

    def __init__(self, source: Vertex, target: Vertex, subsystem: str) -> None:
        self.source = source
        self.target = target
        self.subsystem = subsystem
        self.token = 0
        self.needs = 0
        self.exclusive = False
        self.weight = UNTOUCHED

    def mark(self, needs: int, exclusive: bool, token: int) -> None:
        """Mark the edge as chosen by the match of this token."""
        self.needs = needs
        self.exclusive = exclusive
        self.token = token


@dataclass
class Graph:
    """All vertices, found by number, path, rank and type."""

    vertices: list[Vertex] = field(default_factory=list)
    roots: dict[str, Vertex] = field(default_factory=dict)
    by_path: dict[str, list[Vertex]] = field(default_factory=dict)
    by_rank: dict[int, list[Vertex]] = field(default_factory=dict)
    by_type: dict[str, list[Vertex]] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    """Types in the order of their first vertex."""
    counted: frozenset[str] = frozenset()
    """Types that are counted below some vertex."""

    def add(self, vertex: Vertex) -> Vertex:
        """Add a vertex; :meth:`place` sets its paths."""
        if len(self.vertices) >= limits.POOLS_MAX:
            raise LimitExceeded(f"more than {limits.POOLS_MAX} vertices")
        self.vertices.append(vertex)
        self.types.setdefault(vertex.type, len(self.types))
        self.by_type.setdefault(vertex.type, []).append(vertex)
        if vertex.rank >= 0:
            self.by_rank.setdefault(vertex.rank, []).append(vertex)
        return vertex

    def place(self, vertex: Vertex, subsystem: str, path: str) -> None:
        """Set the path of a vertex; its previous path in this subsystem still finds it."""
        if path.count("/") > limits.DEPTH_MAX:
            raise LimitExceeded(f"path of more than {limits.DEPTH_MAX} levels", where=path[:80])
        vertex.paths[subsystem] = path
        found = self.by_path.setdefault(path, [])
        if vertex not in found:
            found.append(vertex)

    def count(self, vertex: Vertex, units: int, below: Mapping[str, int], into: dict[str, int]) -> None:
        """Add what a job has of a vertex and below it to the sums of its parent; only counted types are included."""
        if vertex.type in self.counted:
            into[vertex.type] = into.get(vertex.type, 0) + units
        for type_, count in below.items():
            into[type_] = into.get(type_, 0) + count

    def set_root(self, subsystem: str, vertex: Vertex) -> None:
        if subsystem in self.roots:
            raise InputError(f"expected one root of {subsystem}, got {vertex.path} next to {self.roots[subsystem].path}")
        self.roots[subsystem] = vertex

    def connect(self, source: Vertex, target: Vertex, subsystem: str) -> Edge:
        edge = Edge(source, target, subsystem)
        source.edges.append(edge)
        source.ring = source.child_types = None
        target.ins.append(edge)
        return edge

    def disconnect(self, edge: Edge) -> None:
        edge.source.edges = [other for other in edge.source.edges if other is not edge]
        edge.target.ins = [other for other in edge.target.ins if other is not edge]
        edge.source.ring = edge.source.child_types = None

    def unlink(self, vertices: Iterable[Vertex]) -> None:
        """Remove vertices, with every edge to and from them."""
        gone = {id(vertex) for vertex in vertices}
        around: dict[int, Vertex] = {}
        for vertex in self.vertices:
            if id(vertex) in gone:
                around |= {id(edge.source): edge.source for edge in vertex.ins}
                around |= {id(edge.target): edge.target for edge in vertex.edges}
        for vertex in around.values():
            own = id(vertex) in gone
            vertex.edges = [edge for edge in vertex.edges if not (own or id(edge.target) in gone)]
            vertex.ins = [edge for edge in vertex.ins if not (own or id(edge.source) in gone)]
            vertex.ring = vertex.child_types = None
        for index in (self.by_path, self.by_rank, self.by_type):
            for key in list(index):
                kept = [vertex for vertex in index[key] if id(vertex) not in gone]  # type: ignore[index]  # keys are those of the graph itself
                if len(kept) != len(index[key]):  # type: ignore[index]  # keys are those of the graph itself
                    if kept:
                        index[key] = kept  # type: ignore[index]  # keys are those of the graph itself
                    else:
                        del index[key]  # type: ignore[arg-type]  # keys are those of the graph itself
        self.vertices = [vertex for vertex in self.vertices if id(vertex) not in gone]

    def below(self, vertex: Vertex, subsystem: str) -> Iterator[Vertex]:
        """A vertex and all below it in a subsystem, each once, in pre-order."""
        seen = {id(vertex)}
        todo = [vertex]
        while todo:
            found = todo.pop()
            yield found
            for edge in reversed(found.edges):
                if edge.subsystem == subsystem and id(edge.target) not in seen:
                    seen.add(id(edge.target))
                    todo.append(edge.target)

    def is_up(self, vertex: Vertex) -> bool:
        """Whether it and all its ancestors in containment are up."""
        seen: set[int] = set()
        todo = [vertex]
        while todo:
            found = todo.pop()
            if not found.up:
                return False
            if id(found) not in seen:
                seen.add(id(found))
                todo += (edge.source for edge in found.ins if edge.subsystem == CONTAINMENT)
        return True

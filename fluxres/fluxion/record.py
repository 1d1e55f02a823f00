"""Record what a match took: walk the marked edges again, record the vertices, and pass them to a writer.

A vertex belongs to the result if it, or something below it, is taken exclusively. Counts are passed up during the walk, so each
vertex plans what was taken below it and each ancestor knows the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fluxres.fluxion.graph import Edge, Graph, Vertex, VertexSchedule
from fluxres.fluxion.planner import Aggregate
from fluxres.fluxion.writers import Writer


@dataclass
class Holding:
    """What a job has: its window, and every vertex that has a record of it, children before parents."""

    job: int
    at: int
    duration: int
    reserved: bool
    vertices: list[Vertex] = field(default_factory=list)

    def spans(self, schedule: VertexSchedule) -> dict[int, int]:
        """The dictionary in which a vertex keeps the spans of such jobs."""
        return schedule.reservations if self.reserved else schedule.allocations

    def held(self, vertex: Vertex) -> bool:
        """Whether the vertex itself is taken, and not only something below it."""
        return vertex.schedule is not None and self.job in self.spans(vertex.schedule)


@dataclass
class Recorder:
    """One walk over the chosen vertices.

    Args:
        token: of the marks on the edges.
        visited: colour of this walk.
        exclusive_types: types whose vertices are taken with all below them.
        weigh: whether to update the weights of edges, for policies that try the emptiest first.
        holding: where to record; None only writes.
        planned: identities of the vertices to plan; None plans all that are taken exclusively.
        labels: labels of the request by identity of vertices.
    """

    graph: Graph
    dominant: str
    token: int
    visited: int
    exclusive_types: set[str]
    weigh: bool
    writer: Writer
    holding: Holding | None
    planned: frozenset[int] | None = None
    labels: Mapping[int, str] = field(default_factory=dict)

    def walk(self, root: Vertex, needs: int, exclusive: bool) -> bool:
        """Record from the root; returns whether anything was taken."""
        return self._take(root, needs, exclusive, False, {}, 1) > 0

    def _take(self, vertex: Vertex, needs: int, exclusive: bool, whole: bool, to_parent: dict[str, int], level: int) -> int:
        vertex.color = self.visited
        whole = whole or vertex.type in self.exclusive_types
        exclusive = exclusive or whole
        below: dict[str, int] = {}
        plans = 0
        reweighed = False
        for edge in vertex.edges:
            target = edge.target
            if edge.subsystem != self.dominant or target.color == self.visited:
                continue
            if whole:
                count = self._take(target, target.size, True, True, below, level + 1)
            elif edge.token == self.token:
                count = self._take(target, edge.needs, edge.exclusive, False, below, level + 1)
            else:
                continue
            if count:
                plans += count
                reweighed |= self.weigh and _weigh(edge)
                self.writer.edge(edge)
        if reweighed:
            vertex.ring = None
        if exclusive:
            plans += 1
        if plans:
            units = needs if exclusive and (self.planned is None or id(vertex) in self.planned) else 0
            if self.holding is not None:
                self._record(vertex, units, below)
            self.writer.vertex(vertex, needs, exclusive, level, label=self.labels.get(id(vertex)))
            self.graph.count(vertex, units, below, to_parent)
        return plans

    def _record(self, vertex: Vertex, units: int, below: dict[str, int]) -> None:
        holding = self.holding
        assert holding is not None
        holding.vertices.append(vertex)
        if units:
            schedule = vertex.scheduled()
            span = schedule.plan.add(holding.at, holding.duration, units)
            holding.spans(schedule)[holding.job] = span
        know(vertex, holding, below)


def _weigh(edge: Edge) -> bool:
    """Update the weight of an edge from the available units below it, of the type counted last; returns whether its position
    changes.
    """
    aggregate = edge.target.aggregate
    if aggregate is None:
        return False
    last = aggregate.plans[-1]
    left = last.at(0)
    if left == 0 and not last.is_used:
        return False
    edge.weight = left
    return True


def know(vertex: Vertex, holding: Holding, below: dict[str, int]) -> None:
    """Record on a vertex that a job has something at or below it."""
    schedule = vertex.scheduled()
    schedule.sharer_spans[holding.job] = schedule.sharers.add(holding.at, holding.duration, 1)
    aggregate: Aggregate | None = vertex.aggregate
    # A job without counted units below a vertex has no share there, which `find` distinguishes from a share of 0.
    if aggregate is not None and below:
        schedule.spans_below[holding.job] = aggregate.add(holding.at, holding.duration, aggregate.counts(below))


def forget(vertex: Vertex, job: int) -> None:
    """Undo :func:`know`."""
    schedule = vertex.scheduled()
    schedule.sharers.remove(schedule.sharer_spans.pop(job))
    spans = schedule.spans_below.pop(job, None)
    if spans is not None and vertex.aggregate is not None:
        vertex.aggregate.remove(spans)


def release(graph: Graph, dominant: str, holding: Holding, gone: Iterable[Vertex] | None = None) -> bool:
    """Release all that a job has, or only what it has on some vertices; returns whether nothing is left.

    A released vertex still knows the job while something below it is held.

    Cost O(vertices of the job).
    """
    leaving = None if gone is None else {id(vertex) for vertex in gone}
    units: dict[int, int] = {}
    for vertex in holding.vertices:
        forget(vertex, holding.job)
        schedule = vertex.scheduled()
        span = holding.spans(schedule).get(holding.job)
        if span is None:
            continue
        if leaving is None or id(vertex) in leaving:
            schedule.plan.remove(span)
            del holding.spans(schedule)[holding.job]
        else:
            units[id(vertex)] = schedule.plan.window(span)[2]
    if not units:
        holding.vertices = []
        return True
    members = {id(vertex) for vertex in holding.vertices}
    below: dict[int, dict[str, int]] = {}
    kept = []
    for vertex in holding.vertices:
        own, sums = units.get(id(vertex), 0), below.get(id(vertex))
        if not own and sums is None:
            continue
        kept.append(vertex)
        know(vertex, holding, sums or {})
        above = (edge.source for edge in vertex.ins if edge.subsystem == dominant)
        parent = next((source for source in above if id(source) in members), None)
        if parent is not None:
            graph.count(vertex, own, sums or {}, below.setdefault(id(parent), {}))
    holding.vertices = kept
    return False

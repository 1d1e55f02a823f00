"""What a match took: walked once more in the order of edges, recorded on the vertices, and handed to a writer.

A vertex belongs to the result when it, or something below it, is taken exclusively.  Counts go up with the walk, so that
each vertex plans what was taken below it and each ancestor knows the job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fluxres.query.graph import Edge, Graph, Schedule, Vertex
from fluxres.query.planner import Aggregate
from fluxres.query.writers import Writer


@dataclass
class Holding:
    """What a job has: its window, and every vertex that knows it, children before parents."""

    job: int
    at: int
    duration: int
    reserved: bool
    vertices: list[Vertex] = field(default_factory=list)

    def spans(self, schedule: Schedule) -> dict[int, int]:
        """Where a vertex keeps the spans of such jobs."""
        return schedule.reservations if self.reserved else schedule.allocations

    def held(self, vertex: Vertex) -> bool:
        """Whether the vertex itself is taken, and not only something below it."""
        return vertex.schedule is not None and self.job in self.spans(vertex.schedule)


@dataclass
class Recorder:
    """One walk over what was chosen.

    Args:
        token: of the marks on the edges.
        visited: colour of this walk.
        exclusive_types: types whose vertices are taken with all below them.
        weigh: whether edges are weighed anew, for policies that try the emptiest first.
        holding: where to record; None only writes.
    """

    graph: Graph
    dominant: str
    token: int
    visited: int
    exclusive_types: set[str]
    weigh: bool
    writer: Writer
    holding: Holding | None

    def walk(self, root: Vertex, needs: int, exclusive: bool) -> bool:
        """Record from the root; whether anything was taken."""
        return self._take(root, needs, exclusive, False, {}, 1) > 0

    def _take(self, vertex: Vertex, needs: int, exclusive: bool, whole: bool, to_parent: dict[str, int], level: int) -> int:
        vertex.color = self.visited
        if not whole and vertex.type in self.exclusive_types and (exclusive or self._chosen_below(vertex)):
            whole = exclusive = True
            needs = vertex.size
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
                reweighed |= self.weigh and self.holding is not None and self._weigh(edge)
                self.writer.edge(edge)
        if reweighed:
            vertex.ring = None
        if exclusive:
            plans += 1
        if plans:
            if self.holding is not None:
                self._record(vertex, needs if exclusive else 0, below)
            self.writer.vertex(vertex, needs, exclusive, level)
            if exclusive:
                to_parent[vertex.type] = to_parent.get(vertex.type, 0) + needs
            for type_, units in below.items():
                to_parent[type_] = to_parent.get(type_, 0) + units
        return plans

    def _chosen_below(self, vertex: Vertex) -> bool:
        """Whether marks lead to something that is taken exclusively."""
        todo, seen = [vertex], {id(vertex)}
        while todo:
            for edge in todo.pop().edges:
                if edge.token == self.token and edge.subsystem == self.dominant and id(edge.target) not in seen:
                    if edge.exclusive:
                        return True
                    seen.add(id(edge.target))
                    todo.append(edge.target)
        return False

    def _weigh(self, edge: Edge) -> bool:
        aggregate = edge.target.aggregate
        if aggregate is None:
            return False
        edge.weight = aggregate.plans[-1].at(0)
        return True

    def _record(self, vertex: Vertex, units: int, below: dict[str, int]) -> None:
        holding = self.holding
        assert holding is not None
        holding.vertices.append(vertex)
        if units:
            schedule = vertex.scheduled()
            span = schedule.plan.add(holding.at, holding.duration, units)
            holding.spans(schedule)[holding.job] = span
        know(vertex, holding, below)


def know(vertex: Vertex, holding: Holding, below: dict[str, int]) -> None:
    """Let a vertex know that a job has something at or below it."""
    schedule = vertex.scheduled()
    schedule.sharer_spans[holding.job] = schedule.sharers.add(holding.at, holding.duration, 1)
    aggregate: Aggregate | None = vertex.aggregate
    if aggregate is not None and below:
        schedule.spans_below[holding.job] = aggregate.add(holding.at, holding.duration, aggregate.counts(below))


def forget(vertex: Vertex, job: int) -> None:
    """Undo :func:`know`."""
    schedule = vertex.scheduled()
    schedule.sharers.remove(schedule.sharer_spans.pop(job))
    spans = schedule.spans_below.pop(job, None)
    if spans is not None and vertex.aggregate is not None:
        vertex.aggregate.remove(spans)


def release(holding: Holding, gone: Iterable[Vertex] | None = None) -> bool:
    """Give back what a job has, or only what it has on some vertices; whether nothing is left.

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
    members = {id(vertex) for vertex in holding.vertices if leaving is None or id(vertex) not in leaving or id(vertex) in units}
    below: dict[int, dict[str, int]] = {}
    kept = []
    for vertex in holding.vertices:
        own, sums = units.get(id(vertex), 0), below.get(id(vertex), {})
        if not own and not sums:
            continue
        kept.append(vertex)
        know(vertex, holding, sums)
        parent = next((edge.source for edge in vertex.ins if id(edge.source) in members), None)
        if parent is not None:
            into = below.setdefault(id(parent), {})
            if own:
                into[vertex.type] = into.get(vertex.type, 0) + own
            for type_, count in sums.items():
                into[type_] = into.get(type_, 0) + count
    holding.vertices = kept
    return False

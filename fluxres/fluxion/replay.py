"""Import allocations made elsewhere from a document, and release them by one: `update` and `partial-cancel`.

A document names vertices. Those taken exclusively must be free for the entire window, or nothing is imported. The edges that lead
to them are marked as by a match, and the result is recorded and written in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fluxres.documents import yaml_document
from fluxres.errors import InputError, InsufficientResources, UsageError
from fluxres.fluxion import jgf, loading, rv1
from fluxres.fluxion.graph import CONTAINMENT, Graph, Vertex
from fluxres.fluxion.matching import Outcome, Scheduling
from fluxres.fluxion.planner import HORIZON_S
from fluxres.fluxion.record import Holding

READERS: Final = ("jgf", "jgf_shorthand", "rv1exec")
"""Formats that `update` reads."""
CANCEL_READERS: Final = ("jgf", "rv1exec")
"""Formats that `partial-cancel` reads."""


def update(scheduling: Scheduling, text: bytes, file: str, reader: str, job: int, at: int, duration: int) -> Outcome:
    """Import an allocation.

    Args:
        text: the document.
        file: its name for messages.

    Errors: InputError for a document that cannot be read or names unknown pools; InsufficientResources for pools that are not
    free; UsageError for an existing job, or an empty or impossible window.
    """
    if job in scheduling.holdings:
        raise UsageError(f"job {job} already exists", hint=f"'cancel {job}' releases it")
    if at < 0 or duration <= 0 or at + duration > HORIZON_S:
        raise UsageError(f"expected a window from 0 to {HORIZON_S} s, got {duration} s from {at}")
    if reader not in READERS:
        raise UsageError(f"no reader {reader!r}", hint=f"one of {', '.join(READERS)}")
    document = yaml_document.load(text, file=file)
    if reader == "rv1exec":
        part = _of_resource_set(scheduling, rv1.read(document))
    else:
        part = _of_jgf(scheduling, jgf.read(document), whole=reader == "jgf_shorthand")
    taking = {id(vertex) for vertex in part.taken}
    for vertex in _up_to_root(scheduling, [*part.taken, *part.partial, *part.shared]):
        is_alone = id(vertex) not in taking or vertex.unshared(at, duration)
        if vertex.available(at, duration) < vertex.size or not is_alone:
            raise InsufficientResources(f"{vertex.path} is not free from {at} for {duration} s")
    exclusive = _mark(scheduling, part, scheduling.next_color())
    scheduling.traverser.exclusive_types = set()
    scheduling.traverser.labels = {}
    holding = Holding(job, at, duration, reserved=False)
    planned = frozenset(map(id, part.taken))
    taken, answer = scheduling.record(holding, scheduling.root.size, exclusive, at, duration, planned=planned)
    if not taken:
        raise InputError("takes nothing exclusively", where=file)
    return Outcome(at, answer or "" if part.from_root else "")


@dataclass(frozen=True)
class _Part:
    """The vertices that a document names.

    Args:
        taken: vertices to plan.
        partial: vertices written as exclusive, because something in them is taken.
        shared: vertices that are only named.
        from_root: whether it begins at the root that is walked; otherwise Fluxion writes nothing.
    """

    taken: list[Vertex]
    partial: list[Vertex]
    shared: list[Vertex]
    from_root: bool


def _up_to_root(scheduling: Scheduling, vertices: Iterable[Vertex]) -> list[Vertex]:
    """Vertices and all their ancestors, each once."""
    found = {id(vertex): vertex for vertex in vertices}
    todo = list(found.values())
    while todo:
        for edge in todo.pop().ins:
            if edge.subsystem == scheduling.subsystem and id(edge.source) not in found:
                found[id(edge.source)] = edge.source
                todo.append(edge.source)
    return list(found.values())


def _mark(scheduling: Scheduling, part: _Part, token: int) -> bool:
    """Mark the edges that lead to vertices; returns whether the root is written as exclusive."""
    exclusive = {id(vertex) for vertex in (*part.taken, *part.partial)}
    for vertex in _up_to_root(scheduling, [*part.taken, *part.partial, *part.shared]):
        for edge in vertex.ins:
            if edge.subsystem == scheduling.subsystem:
                edge.mark(vertex.size, id(vertex) in exclusive, token)
    return id(scheduling.root) in exclusive


def _of_jgf(scheduling: Scheduling, document: jgf.Graph, *, whole: bool) -> _Part:
    taken: dict[int, Vertex] = {}
    shared = []
    named = {node.key: _named(scheduling.graph, node) for node in document.nodes}
    for node in document.nodes:
        vertex = named[node.key]
        if not node.exclusive:
            shared.append(vertex)
        elif whole:
            taken.update((id(below), below) for below in scheduling.graph.below(vertex, scheduling.subsystem))
        else:
            taken[id(vertex)] = vertex
    from_root = any(named[edge.source] is scheduling.root for edge in document.edges)
    return _Part(list(taken.values()), [], shared, from_root)


def _named(graph: Graph, node: jgf.Node) -> Vertex:
    vertex = loading.find(graph, node)
    if vertex is None:
        where = next(iter(node.paths.values()), node.key)
        raise InputError(f"the graph has no {where} of rank {node.rank}")
    return vertex


def _of_resource_set(scheduling: Scheduling, resources: rv1.ResourceSet) -> _Part:
    """Nodes whose content is all named are taken exclusively; of other nodes, what is named."""
    taken: list[Vertex] = []
    partial: list[Vertex] = []
    hosts = resources.host_of()
    for entry in resources.entries:
        for rank in entry.ranks:
            node = _node_of(scheduling.graph, rank, hosts[rank])
            below = list(scheduling.graph.below(node, scheduling.subsystem))
            leaves = {(vertex.type, vertex.id): vertex for vertex in below if not vertex.edges}
            named = {
                key: _leaf(node, leaves, *key) for key in ((type_, id_) for type_, ids in entry.children.items() for id_ in ids)
            }
            if len(named) == len(leaves):
                taken += below
            else:
                partial.append(node)
                taken += named.values()
    return _Part(taken, partial, [], scheduling.subsystem == CONTAINMENT)


def _node_of(graph: Graph, rank: int, host: str) -> Vertex:
    for vertex in graph.by_rank.get(rank, ()):
        if vertex.type == "node":
            if vertex.name != host:
                raise InputError(f"rank {rank} is {vertex.name}, got {host}")
            return vertex
    raise InputError(f"the graph has no node of rank {rank} ({host})")


def _leaf(node: Vertex, leaves: dict[tuple[str, int], Vertex], type_: str, number: int) -> Vertex:
    if (type_, number) not in leaves:
        raise InputError(f"{node.path} has no {type_}{number}")
    return leaves[type_, number]


def partial_cancel(scheduling: Scheduling, job: int, reader: str, text: bytes, file: str) -> bool:
    """Release the pools of a job that a document names; returns whether nothing is left of the job.

    Args:
        text: the document.
        file: its name for messages.

    Errors: InputError for a document that cannot be read, names unknown pools, or names nothing of the job; UsageError for a
    reservation.
    """
    if reader not in CANCEL_READERS:
        raise UsageError(f"no reader {reader!r}", hint=f"one of {', '.join(CANCEL_READERS)}")
    holding = scheduling.holdings[job]
    if holding.reserved:
        raise UsageError(f"job {job} is a reservation, which can only be released as a whole", hint=f"cancel {job}")
    document = yaml_document.load(text, file=file)
    if reader == "rv1exec":
        ranks = set(rv1.read(document).ranks())
        gone = [vertex for vertex in holding.vertices if vertex.rank in ranks]
    else:
        graph = jgf.read(document)
        gone = [_named(scheduling.graph, node) for node in graph.nodes if node.rank not in graph.free_ranks]
    if not any(holding.held(vertex) for vertex in gone):
        raise InputError(f"names nothing that job {job} has", where=file)
    return scheduling.release_some(job, gone)

"""Changes by a document: import allocations made elsewhere (`update`), release parts of them (`partial-cancel`), and grow and
shrink the graph while jobs run (`attach`, `remove`).

The document of an allocation names vertices. Those taken exclusively must be free for the entire window, or nothing is imported.
The edges that lead to them are marked as by a match, and the result is recorded and written in the same way. Removing vertices
also removes the records of jobs on them, so that counts above match the remaining graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fluxres.documents import yaml_document
from fluxres.errors import InputError, InsufficientResources, LimitExceeded, StillHeld, UnknownPool, UsageError
from fluxres.fluxion import jgf, loading, rv1
from fluxres.fluxion.graph import CONTAINMENT, Graph, Vertex
from fluxres.fluxion.matching import Outcome, Scheduling
from fluxres.fluxion.planner import HORIZON_S
from fluxres.fluxion.record import Holding
from fluxres.syntax import idset

# -- allocations -------------------------------------------------------------------------------------------------------

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


# -- parts of the graph ------------------------------------------------------------------------------------------------


def attach(scheduling: Scheduling, file: str) -> None:
    """Add a part to the graph; it must contain the path from the root.

    Errors: InputError for a file that cannot be read, a second root, or unconnected vertices. Nothing is added then.
    """
    document = jgf.read(yaml_document.load(Path(file)))
    _check_reached(scheduling, document)
    vertices, edges = loading.add_document(scheduling.graph, document)
    try:
        scheduling.prime()
    except LimitExceeded:
        for edge in edges:
            scheduling.graph.disconnect(edge)
        scheduling.graph.unlink(vertices)
        scheduling.prime()
        raise


def _check_reached(scheduling: Scheduling, document: jgf.Graph) -> None:
    known = {node.key for node in document.nodes if loading.find(scheduling.graph, node) is not None}
    for node in document.nodes:
        for subsystem, path in node.paths.items():
            if path.count("/") == 1 and node.key not in known and subsystem in scheduling.graph.roots:
                root = scheduling.graph.roots[subsystem]
                raise InputError(f"{path} would be a second root of {subsystem}, next to {root.path}")
    reached = set(known)
    targets: dict[str, list[str]] = {}
    for edge in document.edges:
        targets.setdefault(edge.source, []).append(edge.target)
    todo = list(known)
    while todo:
        for key in targets.get(todo.pop(), ()):
            if key not in reached:
                reached.add(key)
                todo.append(key)
    for node in document.nodes:
        if node.key not in reached:
            where = next(iter(node.paths.values()), node.key)
            raise InputError(f"nothing leads from the graph to {where}")


def remove(scheduling: Scheduling, target: str, is_path: bool) -> None:
    """Remove a path, or all pools of some ranks, with everything below.

    Errors: UnknownPool for a path or ranks that do not exist; InputError for invalid ranks; StillHeld for a root.
    """
    tops = scheduling.graph.by_path.get(target, []) if is_path else _of_ranks(scheduling, target)
    if not tops:
        raise UnknownPool(f"no {'path' if is_path else 'ranks'} {target} in the graph")
    gone = {id(below): below for top in tops for below in scheduling.graph.below(top, scheduling.subsystem)}
    if any(id(root) in gone for root in scheduling.graph.roots.values()):
        raise StillHeld(f"{target} is a root, which cannot be removed")
    for job, holding in list(scheduling.holdings.items()):
        leaving = [vertex for vertex in holding.vertices if id(vertex) in gone]
        if leaving:
            _forget(scheduling, job, leaving)
    scheduling.graph.unlink(gone.values())
    scheduling.prime()


def _forget(scheduling: Scheduling, job: int, leaving: list[Vertex]) -> None:
    # The job remains even if nothing is left of it, because it was not cancelled.
    holding = scheduling.holdings[job]
    scheduling.release_some(job, leaving)
    scheduling.holdings[job] = holding


def _of_ranks(scheduling: Scheduling, target: str) -> list[Vertex]:
    found = []
    for rank in idset.parse(target):
        pools = scheduling.graph.by_rank.get(rank, [])
        found += [min(pools, key=lambda vertex: len(vertex.path))] if pools else []
    return found

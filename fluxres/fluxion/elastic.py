"""Grow and shrink a graph while jobs run: `attach` and `remove`.

Removing vertices also removes the records of jobs on them, so that counts above match the remaining graph.
"""

from __future__ import annotations

from pathlib import Path

from fluxres.documents import yaml_document
from fluxres.errors import InputError, LimitExceeded, StillHeld, UnknownPool
from fluxres.fluxion import jgf, loading
from fluxres.fluxion.graph import Vertex
from fluxres.fluxion.matching import Scheduling
from fluxres.syntax import idset


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

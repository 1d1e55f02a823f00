"""Read graphs from files; each vertex gets the number, name and id that Fluxion would give it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fluxres.documents import yaml_document
from fluxres.errors import InputError, UsageError
from fluxres.fluxion import jgf, recipe, rv1
from fluxres.fluxion.graph import CONTAINMENT, Edge, Graph, Vertex
from fluxres.formats.flux import grug

_UNIQ_ID = re.compile(r"[0-9]{1,18}\Z")


def load(file: str, format_: str, allowlist: frozenset[str] = frozenset()) -> Graph:
    """The graph of a file.

    Args:
        format_: one of `FORMATS`.
        allowlist: types to keep, if the format supports it; empty keeps all.

    Errors: InputError for a file that cannot be read; UsageError for an unknown format.
    """
    if format_ not in FORMATS:
        raise UsageError(f"unknown load format {format_!r}", hint=f"one of {', '.join(FORMATS)}")
    if allowlist and format_ != "hwloc":
        raise UsageError(f"the load format {format_} does not support an allowlist", hint="only hwloc does")
    return FORMATS[format_](Path(file), allowlist)


def _grug(path: Path, _: frozenset[str]) -> Graph:
    return recipe.build(grug.load(path))


def _jgf(path: Path, _: frozenset[str]) -> Graph:
    graph = Graph()
    add_document(graph, jgf.read(yaml_document.load(path)))
    if CONTAINMENT not in graph.roots:
        raise InputError("expected a vertex whose containment path is the root, got none", where=str(path))
    return graph


def _rv1exec(path: Path, _: frozenset[str]) -> Graph:
    return from_resource_set(rv1.read(yaml_document.load(path)))


def _hwloc(path: Path, allowlist: frozenset[str]) -> Graph:
    from fluxres.fluxion import hwloc

    return hwloc.load(path, allowlist)


FORMATS: Final[dict[str, Callable[[Path, frozenset[str]], Graph]]] = {
    "grug": _grug,
    "hwloc": _hwloc,
    "jgf": _jgf,
    "jgf_shorthand": _jgf,
    "rv1exec": _rv1exec,
    "rv1exec_force": _rv1exec,
}
"""Readers by name of format."""


def add_document(graph: Graph, document: jgf.Graph) -> tuple[list[Vertex], list[Edge]]:
    """Add the content of a JGF document; existing vertices and edges stay unchanged.

    Returns what is new. Errors: InputError for a second root, and for invalid numbers.
    """
    known = {node.key: find(graph, node) for node in document.nodes} if graph.vertices else {}
    there = [vertex for vertex in known.values() if vertex is not None]
    linked = {(id(edge.source), id(edge.target)) for vertex in there for edge in vertex.edges}
    made = {node.key: known.get(node.key) or _add_node(graph, node) for node in document.nodes}
    edges = []
    for edge in document.edges:
        source, target = made[edge.source], made[edge.target]
        if (id(source), id(target)) not in linked:
            edges.append(graph.connect(source, target, edge.subsystem))
    return [vertex for key, vertex in made.items() if known.get(key) is None], edges


def find(graph: Graph, node: jgf.Node) -> Vertex | None:
    """The vertex of a graph that a node of a document refers to, by path and rank."""
    for path in node.paths.values():
        for vertex in graph.by_path.get(path, ()):
            if vertex.rank == node.rank:
                return vertex
    return None


def _add_node(graph: Graph, node: jgf.Node) -> Vertex:
    uniq_id = node.uniq_id
    if uniq_id is None:
        if not _UNIQ_ID.match(node.key):
            raise InputError(f"node {node.key!r}: expected a uniq_id, or an id that is a number")
        uniq_id = int(node.key)
    basename = node.basename or node.type
    number = node.id
    if number is None:
        number = rv1.suffix(node.name or "") if node.type == "node" else -1
        if number > rv1.NUMBER_MAX:
            raise InputError(f"node {node.key!r}: the number in its name is larger than {rv1.NUMBER_MAX}", hint="give it an id")
        number = uniq_id if number < 0 else number
    name = node.name if node.name is not None else f"{basename}{number}"
    roots = [subsystem for subsystem, path in node.paths.items() if path.count("/") == 1]
    for subsystem in roots:
        if subsystem in graph.roots:
            raise InputError(
                f"{node.paths[subsystem]} would be a second root of {subsystem}, next to {graph.roots[subsystem].name}"
            )
    # Fluxion drops units when it reads JGF, which its later output shows.
    vertex = Vertex(uniq_id, node.type, basename, name, number, rank=node.rank, size=node.size)
    graph.add(vertex)
    vertex.up = not node.is_down
    vertex.properties.update(node.properties)
    for subsystem, path in node.paths.items():
        graph.place(vertex, subsystem, path)
    for subsystem in roots:
        graph.set_root(subsystem, vertex)
    return vertex


def from_resource_set(resources: rv1.ResourceSet) -> Graph:
    """A cluster of the nodes of an R, each with its children.

    >>> lite = (rv1.Entry((0, 1), {"core": (0, 1)}),)
    >>> [vertex.path for vertex in from_resource_set(rv1.ResourceSet(lite, ("n0", "n1"))).vertices][:4]
    ['/cluster0', '/cluster0/n0', '/cluster0/n0/core0', '/cluster0/n0/core1']
    """
    graph = Graph()
    root = graph.add(Vertex(0, "cluster", "cluster", "cluster0", 0))
    graph.place(root, CONTAINMENT, "/cluster0")
    graph.set_root(CONTAINMENT, root)
    hosts = resources.host_of()
    properties: dict[int, dict[str, str]] = {}
    for key, ranks in resources.properties.items():
        for rank in ranks:
            properties.setdefault(rank, {})[key] = ""
    for entry in resources.entries:
        for rank in entry.ranks:
            node = _add_host(graph, root, hosts[rank], rank)
            node.properties.update(properties.get(rank, {}))
            for type_, ids in entry.children.items():
                for number in ids:
                    _add_below(graph, node, type_, f"{type_}{number}", number, rank)
    return graph


def _add_host(graph: Graph, root: Vertex, host: str, rank: int) -> Vertex:
    vertex = _add_below(graph, root, "node", host, rv1.suffix(host), rank)
    vertex.basename = host.rstrip("0123456789") or host
    return vertex


def _add_below(graph: Graph, parent: Vertex, type_: str, name: str, number: int, rank: int) -> Vertex:
    vertex = graph.add(Vertex(len(graph.vertices), type_, type_, name, number, rank=rank))
    graph.place(vertex, CONTAINMENT, f"{parent.path}/{name}")
    graph.connect(parent, vertex, CONTAINMENT)
    return vertex

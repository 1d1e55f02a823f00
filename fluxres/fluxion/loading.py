"""Read graphs from files; each vertex gets the number, name and id that Fluxion would give it."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fluxres import limits
from fluxres.documents import yaml_document
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.fluxion import jgf, rv1
from fluxres.fluxion.graph import CONTAINMENT, Edge, Graph, Vertex
from fluxres.formats.flux import grug
from fluxres.formats.flux.grug import Kind, Recipe, Rule

if TYPE_CHECKING:
    from fluxres.formats.hwloc.objects import Object

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
    return from_recipe(grug.load(path))


def _jgf(path: Path, _: frozenset[str]) -> Graph:
    graph = Graph()
    add_document(graph, jgf.read(yaml_document.load(path)))
    if CONTAINMENT not in graph.roots:
        raise InputError("expected a vertex whose containment path is the root, got none", where=str(path))
    return graph


def _rv1exec(path: Path, _: frozenset[str]) -> Graph:
    return from_resource_set(rv1.read(yaml_document.load(path)))


def _hwloc(path: Path, allowlist: frozenset[str]) -> Graph:
    from fluxres.formats.hwloc import cluster

    unknown = sorted(allowlist - set(HWLOC_TYPES))
    if unknown:
        raise UsageError(f"unknown hwloc type {unknown[0]!r} in the allowlist", hint=f"one of {', '.join(HWLOC_TYPES)}")
    return from_topology(cluster.parse(path), allowlist)


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


# -- GRUG recipes ------------------------------------------------------------------------------------------------------


def from_recipe(recipe: Recipe) -> Graph:
    """The graph of a recipe, with Fluxion's order and numbers of vertices.

    Fluxion walks the recipe depth first from each of its nodes in turn. An edge met for the first time makes the vertices of its
    target below every vertex of its source. Number, id and path of a vertex follow from the moment of its creation.

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


# -- hwloc: the objects of a topology that become vertices, and their names --------------------------------------------

HWLOC_TYPES: Final = (
    "node", "group", "numanode", "socket", "L1cache", "L2cache", "L3cache", "core", "pu", "gpu", "storage",
)  # fmt: skip
"""Types allowed in the allowlist of a topology."""
_PLAIN: Final = {"Group": "group", "NUMANode": "numanode", "Package": "socket", "Core": "core", "PU": "pu"}
_CACHES: Final = {"1": "L1cache", "2": "L2cache", "3": "L3cache"}
_GPU = re.compile(r"(?:cuda|rsmi|opencl[0-9]+d)([0-9]{1,9})\Z")
_KIB = 1024
_SIZE_DIVISOR = 1_000_000


def from_topology(machine: Object, allowlist: frozenset[str] = frozenset()) -> Graph:
    """A cluster with the node of a topology.

    Args:
        allowlist: names of `HWLOC_TYPES` to keep; empty keeps all.
    """
    graph = Graph()
    root = graph.add(Vertex(0, "cluster", "cluster", "cluster0", 0))
    graph.place(root, CONTAINMENT, "/cluster0")
    graph.set_root(CONTAINMENT, root)
    _add_object(graph, root, machine, allowlist)
    return graph


def _add_object(graph: Graph, parent: Vertex, found: Object, allowlist: frozenset[str]) -> None:
    """Add an object below a vertex, or the children of an object that is not a vertex."""
    vertex = _object_vertex(graph, found, allowlist)
    if vertex is not None:
        graph.add(vertex)
        graph.place(vertex, CONTAINMENT, f"{parent.path}/{vertex.name}")
        graph.connect(parent, vertex, CONTAINMENT)
        parent = vertex
    for child in found.children:
        _add_object(graph, parent, child, allowlist)


def _object_vertex(graph: Graph, found: Object, allowlist: frozenset[str]) -> Vertex | None:
    number = len(graph.vertices)
    if found.type == "Machine":
        host = found.infos.get("HostName")
        if not host or (allowlist and "node" not in allowlist):
            return None
        basename = host.rstrip("0123456789")
        digits = host[len(basename) :]
        return Vertex(number, "node", basename, host, int(digits) if 0 < len(digits) <= 18 else -1)
    named = _named(found)
    if named is None or (allowlist and named[1] not in allowlist):
        return None
    type_, basename, id_, size = named
    vertex = Vertex(number, type_, basename, f"{basename}{id_}", id_, size=size)
    if type_ == "storage":
        vertex.properties["LinuxDeviceID"] = found.infos.get("LinuxDeviceID", "-1")
    return vertex


def _named(found: Object) -> tuple[str, str, int, int] | None:
    """Type, basename, id and size of the vertex for an object; None if it is not a vertex."""
    if found.type in _PLAIN:
        return _PLAIN[found.type], _PLAIN[found.type], found.index, 1
    if found.type == "Cache" or re.fullmatch(r"L[123]i?Cache", found.type):
        level = found.attributes.get("depth", "")
        if level not in _CACHES or not _brings_structure(found):
            return None
        return "cache", _CACHES[level], found.index, _number(found.attributes.get("cache_size", "")) // _KIB
    gpu = _GPU.match(found.name)
    if gpu and (found.device == "CoProc" or (found.device == "GPU" and found.name.startswith("rsmi"))):
        return "gpu", "gpu", int(gpu[1]), 1
    if found.device == "Block":
        return "storage", "storage", found.index, _number(found.infos.get("Size", "")) // _SIZE_DIVISOR
    return None


def _brings_structure(found: Object) -> bool:
    """Whether a cache contains more than one object for the same processors."""
    return len([child for child in found.children if child.type not in ("NUMANode", "Bridge", "PCIDev", "OSDev")]) > 1


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else 0

"""A node from an hwloc topology: the objects that become vertices, and their names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from fluxres.errors import UsageError
from fluxres.fluxion.graph import CONTAINMENT, Graph, Vertex
from fluxres.formats.hwloc import cluster as hwloc
from fluxres.formats.hwloc.objects import Object

ALLOWED: Final = (
    "node", "group", "numanode", "socket", "L1cache", "L2cache", "L3cache", "core", "pu", "gpu", "storage",
)  # fmt: skip
"""Types allowed in an allowlist."""
_PLAIN: Final = {"Group": "group", "NUMANode": "numanode", "Package": "socket", "Core": "core", "PU": "pu"}
_CACHES: Final = {"1": "L1cache", "2": "L2cache", "3": "L3cache"}
_GPU = re.compile(r"(?:cuda|rsmi|opencl[0-9]+d)([0-9]{1,9})\Z")
_KIB = 1024
_SIZE_DIVISOR = 1_000_000


def load(path: Path, allowlist: frozenset[str] = frozenset()) -> Graph:
    """A cluster with the node of a topology.

    Args:
        allowlist: names of `ALLOWED` to keep; empty keeps all.

    Errors: InputError for a file that cannot be read; UsageError for any other name in the list.
    """
    unknown = sorted(allowlist - set(ALLOWED))
    if unknown:
        raise UsageError(f"unknown hwloc type {unknown[0]!r} in the allowlist", hint=f"one of {', '.join(ALLOWED)}")
    graph = Graph()
    root = graph.add(Vertex(0, "cluster", "cluster", "cluster0", 0))
    graph.place(root, CONTAINMENT, "/cluster0")
    graph.set_root(CONTAINMENT, root)
    _add(graph, root, hwloc.parse(path), allowlist)
    return graph


def _add(graph: Graph, parent: Vertex, found: Object, allowlist: frozenset[str]) -> None:
    """Add an object below a vertex, or the children of an object that is not a vertex."""
    vertex = _vertex(graph, found, allowlist)
    if vertex is not None:
        graph.add(vertex)
        graph.place(vertex, CONTAINMENT, f"{parent.path}/{vertex.name}")
        graph.connect(parent, vertex, CONTAINMENT)
        parent = vertex
    for child in found.children:
        _add(graph, parent, child, allowlist)


def _vertex(graph: Graph, found: Object, allowlist: frozenset[str]) -> Vertex | None:
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

"""Which auxiliary graphs of a machine Fluxion's JGF reader accepts as subsystems, and why it would refuse the others.

Fluxion refuses a whole file because of one graph that it cannot represent: its graph has one edge from one vertex to another and
one root per subsystem, and it finds vertices by path and rank.  Other graphs go into a part of the file that Fluxion ignores.
The answer depends on the whole machine, not on the part that is written: in the R of a job, each pool must have the same paths as
in the file of the machine, or Fluxion does not find it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fluxres.errors import FluxresError
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.structure import Structure

CONTAINMENT = "containment"


class Subsystems(NamedTuple):
    """The auxiliary graphs that have edges, except one named containment.

    Args:
        taken: those that Fluxion accepts, by name.
        refused: why it would refuse each of the others, by name.
    """

    taken: Mapping[str, Subsystem]
    refused: Mapping[str, str]


def of(structure: Structure) -> Subsystems:
    """The auxiliary graphs of a machine by whether Fluxion accepts them.

    Cost: O(edges) array operations and O(pools of hierarchies) Python, once per machine.
    """
    graphs = tuple(structure.subsystems.values())
    known = _KNOWN.get(structure)
    if known is None or len(known[0]) != len(graphs) or any(a is not b for a, b in zip(known[0], graphs, strict=True)):
        known = _KNOWN[structure] = graphs, _Check(structure).found()
    return known[1]


_KNOWN: WeakKeyDictionary[Structure, tuple[tuple[Subsystem, ...], Subsystems]] = WeakKeyDictionary()


def paths_in(structure: Structure, subsystem: Subsystem) -> Callable[[int], str]:
    """A function from pool to path in an auxiliary graph: from the root of a hierarchy, in any other graph just the name."""
    known: dict[int, str] = {}

    def path(v: int) -> str:
        chain = []
        u = v
        while u >= 0 and u not in known:
            chain.append(u)
            u = subsystem.parent(u) if subsystem.hierarchy else -1
        text = known.get(u, "")
        for u in reversed(chain):
            text = known[u] = f"{text}/{structure.name(u)}"
        return text

    return path


class _Check:
    """Decides graph by graph; an accepted graph restricts the ones after it."""

    def __init__(self, structure: Structure) -> None:
        self._s = structure
        self._edges: dict[str, NDArray[np.int64]] = {}
        self._places: dict[tuple[str, int], int] = {}

    def found(self) -> Subsystems:
        taken: dict[str, Subsystem] = {}
        refused: dict[str, str] = {}
        for name, graph in self._s.subsystems.items():
            if name == CONTAINMENT or not len(graph):
                continue
            reason = self._outside(graph) or self._doubled(graph) or self._misplaced(graph)
            if reason:
                refused[name] = reason
            else:
                taken[name] = graph
                self._edges[name] = self._codes(graph)
        return Subsystems(taken, refused)

    def _outside(self, graph: Subsystem) -> str:
        """Why it would be refused: several roots, or pools with a rank that no job can have; empty if neither."""
        s = self._s
        outside = graph.members[graph.members >= s.tree_end]
        roots = len(graph.roots()) if graph.hierarchy else len(outside)
        if roots > 1:
            return f"{roots} roots" if graph.hierarchy else f"{roots} pools outside containment"
        ranked = outside[s.rank[outside] >= 0]
        return f"{s.name(int(ranked[0]))} outside containment has a rank" if len(ranked) else ""

    def _doubled(self, graph: Subsystem) -> str:
        """Why it would be refused: an edge joins two pools that another edge joins already; empty if none does."""
        s = self._s
        codes = self._codes(graph)
        order = np.argsort(codes, kind="stable")
        again = order[1:][np.diff(codes[order]) == 0]
        if len(again):
            return f"two edges from {self._names(graph, int(again[0]))}"
        inside = (graph.dst < s.tree_end) & (s.parent[graph.dst] == graph.src)
        if inside.any():
            return f"an edge from {self._names(graph, int(inside.argmax()))}, as in containment"
        for name, others in self._edges.items():
            if len(both := np.flatnonzero(np.isin(codes, others))):
                return f"an edge from {self._names(graph, int(both[0]))}, as in {name}"
        return ""

    def _codes(self, graph: Subsystem) -> NDArray[np.int64]:
        """A number for each pair of pools that an edge joins."""
        return graph.src.astype(np.int64) * self._s.n + graph.dst

    def _names(self, graph: Subsystem, row: int) -> str:
        return f"{self._s.name(int(graph.src[row]))} to {self._s.name(int(graph.dst[row]))}"

    def _misplaced(self, graph: Subsystem) -> str:
        """Why it would be refused: Fluxion would take two pools for one, because they share a path; empty if none do."""
        s = self._s
        members = graph.members if graph.hierarchy else graph.members[graph.members >= s.tree_end]
        path, found = paths_in(s, graph), dict[tuple[str, int], int]()
        top = f"/{s.name(0)}"
        for v in members.tolist():
            text, rank = path(v), s.rank.item(v)
            other = self._places.get((text, rank), found.get((text, rank), v))
            if other == v and (text == top or text.startswith(f"{top}/")):
                other = self._contained(text, rank, v)
            if other != v:
                return f"{text} is the path of two pools"
            found[text, rank] = v
        self._places |= found
        return ""

    def _contained(self, path: str, rank: int, v: int) -> int:
        """The pool of containment with this path and rank; `v` if there is none."""
        try:
            other = self._s.vertex(path)
        except FluxresError:
            return v
        return other if self._s.rank.item(other) == rank else v

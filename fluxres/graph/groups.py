"""Groups of pools within a node, as HyperQueue has them, and the weights that couple groups.

HyperQueue groups the CPUs that it finds by NUMA node.  So the groups of a node are its NUMA domains (pools that contain memory),
sockets, or pools of type group, and not the caches within them.  On a machine without these, the pools directly above are the
groups.  Pools of two types in one group are close to each other; other weights are in the auxiliary graph `coupling`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from fluxres.arrays import Int64
from fluxres.graph.structure import Structure

GRAPH: Final = "coupling"
"""The auxiliary graph of weights between groups."""
RELATION: Final = "coupled"
WEIGHT: Final = "weight"
"""The attribute of an edge that holds the weight."""
WEIGHT_DEFAULT: Final = 256
"""The weight between pools of two types in one group."""
_TYPES: Final = ("socket", "numa")


def nearest(structure: Structure, vertices: Int64, hosts: Int64) -> Int64:
    """By vertex, the nearest pool above it that is a group, or its host.

    Args:
        hosts: nodes, or the root of a machine without nodes; each of the vertices is in one of them.

    Cost: a few vector operations for each level between.
    """
    s = structure
    is_group = np.isin(s.type, [s.types.index(name) for name in _TYPES if name in s.types])
    memory = s.of_type("memory")
    is_group[s.parent[memory[memory < s.tree_end]]] = True
    is_group[hosts] = True
    at = s.parent[vertices].astype(np.int64)
    while not is_group[at].all():
        at = np.where(is_group[at], at, s.parent[at])
    return at


def in_host(structure: Structure, vertices: Int64, host: int) -> list[Int64]:
    """Pools of one type in a node, by group, in the order of the first pool of each.

    Args:
        vertices: ascending.
    """
    above = nearest(structure, vertices, np.array([host]))
    if (above == host).all():
        above = structure.parent[vertices].astype(np.int64)
    _, first, which = np.unique(above, return_index=True, return_inverse=True)
    order = np.argsort(first[which.reshape(-1)], kind="stable")
    cuts = np.flatnonzero(np.diff(above[order])) + 1
    return np.split(vertices[order], cuts)


def group_of(structure: Structure, vertices: Int64, host: int) -> int:
    """The pool that is the group of these, one of the results of :func:`in_host`."""
    above = nearest(structure, vertices, np.array([host]))
    return int(structure.parent[vertices[0]]) if (above == host).all() else int(above[0])


def weights(structure: Structure, groups: Mapping[int, int]) -> dict[tuple[int, int], float]:
    """The weights between groups that an edge couples.

    Args:
        groups: what each group is called, by vertex; groups of several types may be one vertex.
    """
    graph = structure.subsystems.get(GRAPH)
    if graph is None or WEIGHT not in graph.attributes:
        return {}
    found: dict[tuple[int, int], float] = {}
    for v in groups:
        for row in graph.out_rows(v).tolist():
            other = graph.dst.item(row)
            if other in groups:
                found[v, other] = float(graph.attributes[WEIGHT][row])
    return found

"""The pools that a resource set describes, and which of their attributes, so that everything else can be reported as left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres.errors import InputError
from fluxres.formats import left_out
from fluxres.formats.flux.rank_hosts import HOST
from fluxres.formats.flux.resource_set import TAGS
from fluxres.formats.format import Fact
from fluxres.formats.loaded import Hold
from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import Structure

ROOT: Final = "cluster0"
_CARRIES: Final[frozenset[Fact]] = frozenset({"pools", "names", "ids", "sizes", "units", "properties", "ranks", "tags"})
Mask = NDArray[np.bool_]


class Targets(NamedTuple):
    """Execution targets in the order of their ranks."""

    ranks: NDArray[np.int64]
    vertices: Int32


def targets_of(structure: Structure) -> Targets:
    """The topmost pool of each rank, without pools that only connect the root with others.

    Errors: InputError if there is none, if two siblings have one rank, and if one is in another. Cost: O(pools) array operations.
    """
    on_rank = np.flatnonzero(structure.rank[: structure.tree_end] >= 0)
    above = structure.parent[on_rank]
    tops = on_rank[(above < 0) | (structure.rank[above] != structure.rank[on_rank])].astype(np.int32)
    vertices = tops[np.argsort(structure.rank[tops], kind="stable")]
    ranks = structure.rank[vertices]
    again = np.flatnonzero(ranks[1:] == ranks[:-1])
    if len(again):
        at = int(again[0])
        first, second = (structure.path(int(v)) for v in vertices[at : at + 2])
        raise InputError(f"{first} and {second} both have rank {ranks[at]}", hint="each node must have its own rank")
    inner = np.flatnonzero(np.diff(np.searchsorted(np.sort(vertices), [vertices, structure.end[vertices]]), axis=0)[0] > 1)
    if len(inner):
        message = f"{structure.path(int(vertices[inner[0]]))} has rank {ranks[inner[0]]}, but contains pools of other ranks"
        raise InputError(message, hint="nodes in R cannot be nested")
    offers = structure.offers[vertices]
    if not offers.any():
        raise InputError("no pool has a rank", hint="R describes nodes, which have ranks")
    ranks, vertices = ranks[offers], vertices[offers]
    return Targets(ranks.astype(np.int64), vertices)


class Told(NamedTuple):
    """Pools that are written, and those whose id, size and unit, and properties are; bool by vertex."""

    pools: Mask
    ids: Mask
    sizes: Mask
    properties: Mask
    retyped: Mask
    """Pools whose properties are written, except for the difference between numbers and text."""
    mixed: Mask
    """Pools whose children are in an order that is not preserved."""

    @classmethod
    def nothing(cls, structure: Structure, targets: Targets) -> Told:
        """Only the root and the targets, as the state before writing."""
        told = cls(*(np.zeros(structure.n, np.bool_) for _ in cls._fields))
        for mask in (told.pools, told.ids):
            mask[targets.vertices] = True
            mask[0] = True
        return told


def offered(structure: Structure, type_name: str) -> Int32:
    """Pools of a type, without those that only connect the root with others."""
    pools, ways = structure.of_type(type_name), (structure.flags & WAY) != 0
    return np.asarray(pools[~ways[pools]], np.int32) if ways.any() else pools


def pools_within(structure: Structure, targets: Targets, type_name: str) -> Int32:
    """Pools of a type below targets, as :func:`offered`."""
    pools = offered(structure, type_name)
    starts = np.sort(targets.vertices)
    at = np.searchsorted(starts, pools) - 1
    reach = np.maximum.accumulate(structure.end[starts])
    return pools[(at >= 0) & (pools < reach[at])]


def lost(
    structure: Structure, allocations: Sequence[Hold], targets: Targets, told: Told, host_ids: NDArray[np.int64], name: str | None
) -> list[str]:
    """What was not written.

    Args:
        host_ids: the id that a reader gives each target, from its host.
        name: of the machine.
    """
    is_target = np.zeros(structure.n, np.bool_)
    is_target[targets.vertices] = True
    kinds, kind = structure.kinds, structure.kind

    def of_kind(test: list[bool]) -> Mask:
        return np.asarray(np.array(test)[kind] & told.pools)

    lines = left_out.concern(structure, "pools", ~told.pools)
    lines += left_out.concern(structure, "pools", is_target & of_kind([k.type != "node" for k in kinds]), "nodes instead;")
    lines += left_out.concern(structure, "pools", told.mixed, "the order in which types alternate,")
    lines += left_out.lines(structure, allocations, _CARRIES, within=told.pools)
    if structure.kind_of(0).type != "cluster":
        lines.append(f"pools: the root is a {structure.kind_of(0).type} and becomes a cluster")
    if structure.name(0) != ROOT or name not in (None, ROOT):
        lines.append(f"names: of the root, which becomes {ROOT}")
    named = of_kind([k.name is not None for k in kinds])
    named[list(structure.names)] = True
    named[0] = False
    lines += left_out.concern(structure, "names", named & told.pools & ~is_target)
    ids = told.pools & ~told.ids
    ids[0] = structure.id[0] != 0
    ids[targets.vertices] = structure.id[targets.vertices] != host_ids
    lines += left_out.concern(structure, "ids", ids)
    lines += left_out.concern(structure, "sizes", told.pools & ~told.sizes & (structure.size != 1))
    lines += left_out.concern(structure, "units", ~told.sizes & of_kind([k.unit is not None for k in kinds]))
    unsaid = ~told.properties & of_kind([bool(k.properties) for k in kinds])
    lines += left_out.concern(structure, "properties", unsaid & told.retyped, left_out.TYPES)
    lines += left_out.concern(structure, "properties", unsaid & ~told.retyped)
    tagged = np.zeros(structure.n, np.bool_)
    for v, tags in structure.tags.items():
        tagged[v] = bool(tags.keys() - (TAGS if v == 0 else (HOST,) if is_target[v] else ()))
    return lines + left_out.concern(structure, "tags", tagged & told.pools)

"""Uniform requests: for a number of interchangeable pools, or of units of one pool, and nothing else.

`slot=4/node` is any four nodes.  Recorded workloads and most ensembles have only such requests, which a number or a bit set can
answer.  Requests with constraints, ids, several types or a range of counts need the
matcher, and so does any request to a machine with partitions.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fluxres.arrays import Int32
from fluxres.graph.forest import slice_of
from fluxres.graph.kinds import EXCLUSIVE
from fluxres.graph.structure import Structure
from fluxres.syntax.jobspec import Request
from fluxres.syntax.vertex import Vertex


class UniformRequest(NamedTuple):
    """A uniform request.

    Args:
        type: the type of the pools.
        number: the number of pools of size 1, or of units of a larger pool.
        together: the number of pools that must be in one node, if nodes contain the type.
        is_whole: whether the request explicitly asks for exclusive pools.
        is_exclusive: whether pools of size 1 are allocated, rather than shared.
    """

    type: str
    number: int
    together: int
    is_whole: bool
    is_exclusive: bool


def uniform_request(request: Request) -> UniformRequest | None:
    """A request as a uniform one; None if it is not.

    >>> from fluxres.syntax.jobspec import as_request
    >>> uniform_request(as_request("slot=4/node"))
    UniformRequest(type='node', number=4, together=1, is_whole=False, is_exclusive=True)
    >>> uniform_request(as_request("slot=2/core=4"))[:3], uniform_request(as_request("node/core"))
    (('core', 8, 4), None)
    """
    is_plain = request.constraint is None and request.queue is None and request.chooser is None
    if not is_plain or len(request.resources) != 1:
        return None
    top, times = request.resources[0], 1
    if top.is_slot:
        if len(top.children) != 1 or top.count.fixed is None:
            return None
        times, top = top.count.fixed, top.children[0]
    if not _is_plain(top) or top.count.fixed is None:
        return None
    return UniformRequest(
        top.type,
        times * top.count.fixed,
        top.count.fixed if request.resources[0].is_slot else 1,
        top.exclusive is True,
        top.is_exclusive,
    )


def _is_plain(vertex: Vertex) -> bool:
    return (
        not vertex.is_slot
        and not vertex.children
        and vertex.unit is None
        and vertex.ids is None
        and not (vertex.is_directed or vertex.properties)
    )


_NODE: Final = "node"


def interchangeable(structure: Structure, wanted: UniformRequest) -> Int32 | None:
    """The pools of size 1 that a request can be satisfied from, ascending; None if they are not interchangeable."""
    if wanted.type not in structure.types or not wanted.is_exclusive or structure.kinds.may_draw or structure.partitions:
        return None
    vertices = structure.of_type(wanted.type)
    if not len(vertices) or vertices[-1] >= structure.tree_end or (structure.size[vertices] != 1).any():
        return None
    if (structure.end[vertices][:-1] > vertices[1:]).any() or _is_for_one_job(structure, vertices):
        return None
    if wanted.together > 1 and wanted.type != _NODE and _NODE in structure.types:
        nodes = structure.of_type(_NODE)
        if (slice_of(nodes, structure.end[nodes], vertices) >= 0).any():
            return None
    return vertices


def one_pool(structure: Structure, wanted: UniformRequest, least: int = 2) -> int | None:
    """The single pool from whose units a request can be satisfied; None if there are several, or it has fewer than `least`."""
    if wanted.type not in structure.types or wanted.is_whole or structure.partitions:
        return None
    vertices = structure.of_type(wanted.type)
    if len(vertices) != 1 or vertices[0] >= structure.tree_end or structure.size.item(int(vertices[0])) < least:
        return None
    return None if _is_for_one_job(structure, vertices) or structure.flags.item(vertices[0]) & EXCLUSIVE else int(vertices[0])


def _is_for_one_job(structure: Structure, vertices: Int32) -> bool:
    """Whether any of these pools is in a pool that only one job may use at a time (rule A8)."""
    around = structure.exclusive_composites
    return bool(len(around) and (np.searchsorted(vertices, around + 1) < np.searchsorted(vertices, structure.end[around])).any())

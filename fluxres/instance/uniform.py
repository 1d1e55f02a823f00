"""Requests that ask for a number of equal pools, or of units of one pool, and nothing more.

`slot=4/node` is four nodes, whichever.  Recorded workloads ask for nothing else, and neither do most ensembles; whoever asks
so can be answered with a number or a set of bits.  Everything that makes pools different (constraints, ids, bundles of
several types, counts that leave a choice) is for the matcher.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fluxres.graph.kinds import EXCLUSIVE
from fluxres.graph.structure import Structure
from fluxres.syntax.jobspec import Request
from fluxres.syntax.vertex import Vertex


class UniformRequest(NamedTuple):
    """A simple request.

    Args:
        type: of the pools.
        number: of pools of size 1, or of units of a larger pool.
        together: pools that must lie in one node, where the type occurs in nodes; 1 for pools on their own.
        is_whole: whether it says itself that pools are wanted whole.
        is_exclusive: whether pools of size 1 are taken, and not only looked at.
    """

    type: str
    number: int
    together: int
    is_whole: bool
    is_exclusive: bool


def uniform_request(request: Request) -> UniformRequest | None:
    """What a simple request asks for; None for any other.

    >>> from fluxres.syntax.jobspec import as_request
    >>> uniform_request(as_request("slot=4/node"))
    UniformRequest(type='node', number=4, together=1, is_whole=False, is_exclusive=True)
    >>> uniform_request(as_request("slot=2/core=4"))[:3], uniform_request(as_request("node/core"))
    (('core', 8, 4), None)
    """
    if request.constraint is not None or len(request.resources) != 1:
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
    return not vertex.is_slot and not vertex.children and vertex.unit is None and vertex.ids is None and not vertex.is_directed


_NODE: Final = "node"


def interchangeable(structure: Structure, wanted: UniformRequest) -> np.ndarray | None:
    """The pools that such a request chooses from: whole pools of size 1, ascending; None where they are not interchangeable."""
    if wanted.type not in structure.types or not wanted.is_exclusive or structure.kinds.may_draw:
        return None
    vertices = structure.of_type(wanted.type)
    if not len(vertices) or vertices[-1] >= structure.tree_end or (structure.size[vertices] != 1).any():
        return None
    if (structure.end[vertices][:-1] > vertices[1:]).any() or _is_for_one_job(structure, vertices):
        return None
    if wanted.together > 1 and wanted.type != _NODE and _NODE in structure.types:
        nodes = structure.of_type(_NODE)
        if (np.searchsorted(nodes, vertices, side="right") > 0).any() and _any_inside(structure, nodes, vertices):
            return None
    return vertices


def one_pool(structure: Structure, wanted: UniformRequest) -> int | None:
    """The one pool whose units such a request chooses from; None where there are several or it has but one unit."""
    if wanted.type not in structure.types or wanted.is_whole:
        return None
    vertices = structure.of_type(wanted.type)
    if len(vertices) != 1 or vertices[0] >= structure.tree_end or structure.size.item(int(vertices[0])) < 2:
        return None
    return None if _is_for_one_job(structure, vertices) or structure.flags.item(vertices[0]) & EXCLUSIVE else int(vertices[0])


def _is_for_one_job(structure: Structure, vertices: np.ndarray) -> bool:
    """Whether any of these pools lies in one that only one job may use at a time (rule A8)."""
    around = structure.exclusive_composites
    return bool(len(around) and (np.searchsorted(vertices, around + 1) < np.searchsorted(vertices, structure.end[around])).any())


def _any_inside(structure: Structure, nodes: np.ndarray, vertices: np.ndarray) -> bool:
    before = np.searchsorted(nodes, vertices, side="right") - 1
    held = before >= 0
    return bool((vertices[held] < structure.end[nodes[before[held]]]).any())

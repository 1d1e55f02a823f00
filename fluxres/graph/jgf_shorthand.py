"""Summaries of what the shorthand form of R leaves out below exclusively held pools: the hosts, and the ids of R_lite.

Without them, a reader that does not have the machine cannot tell which of two racks a node is in, or which socket a core is in.
Host names and ids stay valid when Flux assigns other ranks to the nodes.  Fluxion ignores these keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from fluxres.graph.jgf import GraphPart
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, idset


def left_out_below(
    structure: Structure,
    part: GraphPart,
    types: Sequence[str],
    *,
    host: Callable[[int], str] | None = None,
    numbers: NDArray[np.int64] | None = None,
) -> dict[int, str]:
    """Members for the metadata of nodes, by vertex: `hosts` above nodes, `children` within them.

    Args:
        part: contains pools without what is below them.
        types: of the pools that R_lite lists by id.
        host: the host name of a node; its pool name by default.
        numbers: ids in R_lite, by vertex; by default the position among the pools of that type on the node.

    Errors: InputError for a name that a hostlist cannot express.
    Cost: a few microseconds for each such pool that is not a node itself.
    """
    s, found = structure, dict[int, str]()
    ranks, tops = s.execution_targets
    in_tree = np.sort(tops[tops < s.tree_end])
    for v in _hiding(s, part):
        rank, stop = s.rank.item(v), s.end.item(v)
        said: dict[str, Any] = {}
        if rank < 0:
            nodes = in_tree[np.searchsorted(in_tree, v) : np.searchsorted(in_tree, stop)].tolist()
            said = {"hosts": hostlist.format(map(host or s.name, nodes))} if nodes else {}
        elif (top := int(tops[np.searchsorted(ranks, rank)])) != v:
            for type_ in types:
                table = s.of_type(type_)
                lo, hi, first = np.searchsorted(table, [v + 1, stop, top]).tolist()
                if lo < hi:
                    ids = range(lo - first, hi - first) if numbers is None else numbers[table[lo:hi]].tolist()
                    said.setdefault("children", {})[type_] = idset.format(sorted(ids))
        if said:
            found[v] = f",{orjson.dumps(said).decode()[1:-1]}"
    return found


def _hiding(structure: Structure, part: GraphPart) -> Iterator[int]:
    """Exclusively held pools that have descendants, none of which is in the part."""
    vertices = part.vertices
    stop = structure.end[vertices]
    following = np.append(vertices[1:], structure.n)
    hides = part.exclusive & (stop > vertices + 1) & (following >= stop) & (vertices < structure.tree_end)
    yield from vertices[hides].tolist()

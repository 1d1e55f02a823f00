"""What the shorthand of R leaves out below pools that are held whole, said in a word: which nodes, and which ids of R_lite.

Without it a reader that does not have the machine cannot tell which of two racks a node is in, or in which socket a core.  Hosts
and ids mean the same after Flux gave the nodes other ranks.  Fluxion passes these keys over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from fluxres.graph.jgf import Part
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, idset


def left_out_below(
    structure: Structure,
    part: Part,
    types: Sequence[str],
    *,
    host: Callable[[int], str] | None = None,
    numbers: NDArray[np.int64] | None = None,
) -> dict[int, str]:
    """Members for the metadata of nodes, by vertex: `hosts` above nodes, `children` in them.

    Args:
        part: in which some pools stand without what is below them.
        types: of the pools that R_lite has by id.
        host: of a node; its name by default.
        numbers: ids of R_lite, by vertex; the position among the pools of its type on the node by default.

    Errors: InputError for a name that no hostlist can say.
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


def _hiding(structure: Structure, part: Part) -> Iterator[int]:
    """Pools of a part that are held whole, and of which nothing below is in it although there is something."""
    vertices = part.vertices
    stop = structure.end[vertices]
    following = np.append(vertices[1:], structure.n)
    hides = part.exclusive & (stop > vertices + 1) & (following >= stop) & (vertices < structure.tree_end)
    yield from vertices[hides].tolist()

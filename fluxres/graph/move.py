"""Move a pool with its subtree to another place in the containment tree, or below another pool in an auxiliary hierarchy (RFC 4,
"Merge": from its place to a path or URI).

In the tree, the rows of the subtree move behind those of the new parent; in a hierarchy, one edge gets another source.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fluxres import limits
from fluxres.arrays import Int32
from fluxres.errors import LimitExceeded, MergeConflict, UnknownPool, UsageError
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.edges import with_subsystem
from fluxres.graph.identity import template_fields
from fluxres.graph.structure import Structure
from fluxres.graph.surgery import settle_names, sparse_data
from fluxres.syntax import template


class Destination(NamedTuple):
    """The new parent of a pool, and its new name in the containment tree if it gets one."""

    parent: int
    name: str | None = None


def destination(s: Structure, v: int, path: str) -> Destination:
    """Interpret a path in the containment tree as the new place of `v`: an existing pool to put it in, or the new path of `v`.

    Errors: UnknownPool for a path whose parent does not exist.
    """
    try:
        return Destination(s.vertex(path))
    except UnknownPool:
        above, _, name = path.rstrip("/").rpartition("/")
        if not above or not name or above.endswith(":"):
            raise
        parent = s.vertex(above)
    if len(name) > limits.NAME_LENGTH_MAX or not name.isprintable():
        raise UsageError(f"a name has 1 to {limits.NAME_LENGTH_MAX} printable characters", where=name[:40])
    return Destination(parent, None if name == s.name(v) else name)


def within_tree(s: Structure, v: int, to: Destination) -> tuple[Structure, Int32]:
    """The machine with the subtree of `v` at another place in the containment tree.

    uuids, states, tags and the edges of auxiliary graphs stay.  Names stay too: a name that a template would render differently
    at the new place becomes explicit.  Pools moved into a node get its rank; pools moved out of a node lose theirs.

    Returns: the structure, and the new numbers as int32 by old number.
    Errors: UsageError for the root, for a place below `v` itself and for its present place; MergeConflict for a name that is
    taken there; LimitExceeded.
    Cost: O(n), vectorised.
    """
    _require_movable(s, v, to)
    block, p = np.arange(v, s.end.item(v), dtype=np.int32), s.end.item(to.parent)
    rest = np.delete(np.arange(s.n, dtype=np.int32), block)
    at = int(np.searchsorted(rest, p))
    if s.parent.item(v) == to.parent:
        at = v  # only the name changes
    order = np.concatenate([rest[:at], block, rest[at:]])
    old_to_new = np.empty(s.n, np.int32)
    old_to_new[order] = np.arange(s.n, dtype=np.int32)
    columns = {name: column[order] for name, column in s.columns().items()}
    parent, below = s.parent.copy(), (s.end - np.arange(s.n, dtype=np.int32))
    below[s.ancestors(v)] -= len(block)
    below[[to.parent, *s.ancestors(to.parent)]] += len(block)
    parent[v] = to.parent
    columns["parent"] = np.where(parent < 0, -1, old_to_new[parent])[order]
    columns["end"] = np.arange(s.n, dtype=np.int32) + below[order]
    _settle_ranks(s, v, to.parent, columns["rank"], old_to_new)
    made = Structure(
        columns,
        s.kinds,
        origins=list(s.origins),
        **sparse_data(s, order, old_to_new),
        subsystems={name: graph.renumber(old_to_new) for name, graph in s.subsystems.items()},
        tree_end=s.tree_end,
    )
    made.counts = s.counts
    if s.linked is not None:
        made.linked = s.linked[order]
    if to.name is not None:
        _rename(made, int(old_to_new[v]), to.name)
    kept = old_to_new[block if to.name is None else block[1:]]
    by_place = np.array([bool(template_fields(kind) - {"id"}) for kind in s.kinds], np.bool_)
    settle_names(s, order, made, [u for u in kept[by_place[made.kind[kept]]].tolist() if made.name(u) != s.name(int(order[u]))])
    return made, old_to_new


def _require_movable(s: Structure, v: int, to: Destination) -> None:
    if not 0 < v < s.tree_end:
        what = "the root" if v == 0 else "a pool outside the containment tree"
        raise UsageError(f"{what} cannot be moved", where=s.where(v), hint="merge brings back a pool that was unlinked")
    if to.parent >= s.tree_end:
        raise UsageError("is not in the containment tree", where=s.where(to.parent), hint="name a pool of the tree")
    if v <= to.parent < s.end.item(v):
        raise UsageError(f"is below {s.path(v)} itself", where=s.path(to.parent), hint="name a place outside it")
    name = to.name if to.name is not None else s.name(v)
    there = next((u for u in s.children(to.parent).tolist() if s.name(u) == name), -1)
    if there == v:
        raise UsageError("is there already", where=s.path(v))
    if there >= 0:
        hint = "give its complete new path, with another name"
        raise MergeConflict(f"name: '{name}' is taken there by {s.path(there)}", where=s.path(v), hint=hint)
    deepest = int(s.depth[v : s.end.item(v)].max()) - s.depth.item(v) + s.depth.item(to.parent) + 1
    if deepest >= limits.DEPTH_MAX:
        raise LimitExceeded(f"would be {deepest + 1} levels deep, at most {limits.DEPTH_MAX} are allowed", where=s.path(v))


def _settle_ranks(s: Structure, v: int, parent: int, rank: Int32, old_to_new: Int32) -> None:
    here, there, own = s.rank.item(s.parent.item(v)), s.rank.item(parent), s.rank.item(v)
    inherited = here >= 0 and own == here
    if there >= 0 or inherited:
        moved = np.arange(v, s.end.item(v))
        rank[old_to_new[moved if there >= 0 else moved[s.rank[moved] == here]]] = there


def _rename(made: Structure, v: int, name: str) -> None:
    """Rename a pool of a structure that is not published yet: through its id where that gives the name, else explicitly."""
    kind = made.kind_of(v)
    number = template.default_id(kind.basename, name) if kind.name is None else template.invert(kind.name, name)
    made.names.pop(v, None)
    if number is not None:
        made.id[v] = number
    else:
        made.names[v] = name


def within_hierarchy(s: Structure, graph: Subsystem, v: int, parent: int) -> Structure:
    """The machine with `v` and what is below it in an auxiliary hierarchy moved below another pool of that hierarchy.

    Its edge there keeps its attributes.  A pool that was not in the hierarchy gets an edge with the relation of the first edge of
    its new parent, without a capacity.

    Errors: UsageError for its present place, and for a place below itself.
    """
    rows = graph.in_rows(v)
    if len(rows) and graph.src.item(int(rows[0])) == parent:
        raise UsageError("is there already", where=s.auxiliary_uri(graph, v))
    above = parent
    while above >= 0:
        if above == v:
            raise UsageError(f"is below {s.where(v)} itself in hierarchy '{graph.name}'", where=s.where(parent))
        above = graph.parent(above)
    name = s.name(v)
    there = next((u for u in graph.successors(parent).tolist() if s.name(u) == name), -1)
    if there >= 0:
        raise MergeConflict(f"name: '{name}' is taken there by {s.where(there)}", where=s.where(v), hint="unlink that one first")
    if len(rows):
        made = graph.restricted(np.ones(len(graph), np.bool_))
        made.src[int(rows[0])] = parent
        return with_subsystem(s, made)
    if len(graph) >= limits.EDGES_MAX:
        raise LimitExceeded(f"an auxiliary graph has at most {limits.EDGES_MAX} edges", where=graph.name)
    first = graph.out_rows(parent)
    made = Subsystem(
        graph.name,
        True,
        np.append(graph.src, np.int32(parent)),
        np.append(graph.dst, np.int32(v)),
        np.append(graph.relation, graph.relation[first[0]] if len(first) else np.uint16(0)),
        list(graph.relations),
        {k: np.append(c, np.nan if c.dtype.kind == "f" else np.array([None])) for k, c in graph.attributes.items()},
    )
    return with_subsystem(s, made)

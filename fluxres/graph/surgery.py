"""Cut a machine: duplicate it, extract a part of it, unlink a part from it.  (`merge` joins two.)

Every function takes a `Structure` and returns the next one; nothing of the old one is changed or shared, except the table of
kinds, which only grows.  Copying a rack must cost in the size of the rack and not of the machine, so `extract` never creates an
array as long as the machine: it returns the old number of each new pool, and renumbers through a window over the slice it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fluxres.arrays import Int32, Int64, Mask, UInt8
from fluxres.errors import UnknownPool, UsageError
from fluxres.graph import accounts
from fluxres.graph.accounts import cut
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.identity import template_fields
from fluxres.graph.kinds import WAY
from fluxres.graph.merge import merge
from fluxres.graph.partitions import PARTITIONS
from fluxres.graph.structure import Structure

__all__ = ["by_itself", "duplicate", "extract", "extract_many", "merge", "remove", "unlink", "with_the_way"]

Carried = Callable[[Int32], Int64]
"""Maps accounts (edges with a capacity, or pools) to units."""
Along = Callable[[Mask], Mask]
"""Maps a part of a machine to the further pools (both bool by vertex) it needs so that charges follow the same paths."""
T = TypeVar("T")


def duplicate(s: Structure) -> Structure:
    """An equal structure that shares nothing with `s` but the table of kinds (RFC 4, "Duplicate").

    Cost: one copy of the columns and of the sparse data.
    """
    subsystems = {}
    for name, graph in s.subsystems.items():
        attributes = {key: column.copy() for key, column in graph.attributes.items()}
        subsystems[name] = Subsystem(
            name, graph.hierarchy, graph.src.copy(), graph.dst.copy(), graph.relation.copy(), list(graph.relations), attributes
        )
    made = Structure(
        {name: column.copy() for name, column in s.columns().items()},
        s.kinds,
        origins=list(s.origins),
        names=dict(s.names),
        uuid_texts=dict(s.uuid_texts),
        tags={v: dict(tags) for v, tags in s.tags.items()},
        capacity=dict(s.capacity),
        subsystems=subsystems,
        tree_end=s.tree_end,
    )
    made.linked, made.counts = None if s.linked is None else s.linked.copy(), s.counts
    return made


def by_itself(s: Structure) -> Structure:
    """The machine of a child instance without its parent: what the parent would grant on request becomes its own (rule N1).

    The suppliers and edges keep the units that the parent has of them, so everything held of them still fits.

    Returns: `s` itself if nothing comes from a parent; else a structure that shares all other data with it.
    Cost: O(1); for a child, one copy of the flags and of the attributes of its edges.
    """
    if s.accounts.linked is None:
        return s
    flags = s.flags if s.linked is None else np.where(s.linked, s.flags & np.uint8(255 - WAY), s.flags)
    return s.replaced({"flags": flags}, {name: accounts.by_itself(graph) for name, graph in s.subsystems.items()})


class _Renumbering:
    """Old to new numbers of the kept pools: a table within a window, a search for the few outside it.

    Args:
        vertices: kept pools by old number, ascending.
        lo, hi: window of old numbers that contains nearly all of them.
    """

    def __init__(self, vertices: Int32, lo: int, hi: int) -> None:
        self.vertices, self.lo, self.hi = vertices, lo, hi
        first, last = np.searchsorted(vertices, [lo, hi])
        self.before = np.zeros(hi - lo + 1, np.int32)
        self.before[vertices[first:last] - lo + 1] = 1
        self.before[0] = first
        np.cumsum(self.before, dtype=np.int32, out=self.before)

    def count_before(self, old: Int32) -> Int32:
        """The number of kept pools before each of these old numbers."""
        counts = self.before[np.clip(old, self.lo, self.hi) - self.lo]
        outside = (old < self.lo) | (old > self.hi)
        if outside.any():
            counts[outside] = np.searchsorted(self.vertices, old[outside])
        return counts

    def of(self, old: Int32) -> Int32:
        """New numbers of these old ones, -1 for dropped pools (and for -1)."""
        new = self.count_before(old)
        new[self.vertices[np.minimum(new, len(self.vertices) - 1)] != old] = -1
        return new


def extract(
    s: Structure,
    v: int,
    keep: Mask | None = None,
    size: Int64 | None = None,
    *,
    take_ancestors: bool = True,
    way_units: Carried | None = None,
    outside: Int64 | None = None,
    carried: Carried | None = None,
    along: Along | None = None,
) -> tuple[Structure, Int32]:
    """The subtree of `v` restricted to some of its pools, with the path to the root (rule C1; RFC 4, "Copy").

    Pools that are only in auxiliary graphs are included if they are on the path from a taken pool to the root of a hierarchy, or
    if an edge of another graph joins them to a kept pool.  They are pass-through pools, with the sizes in `outside` (the full
    size where it says 0).  For the root of the containment tree, all such pools with units are included as the copy's own.

    Args:
        v: vertex of the containment tree.
        keep: bool over the slice ``[v, end[v])``; a pool whose parent is not kept is not kept.  All by default.
        size: units of each pool of the slice; a pool with 0 is not kept.  `capacity` records the full size of reduced pools.
        take_ancestors: whether to include the pools above `v`, flagged WAY; without them `v` is the root.
        way_units: units of the pass-through pools of the containment tree, by vertex; 0 leaves the size as it is.
        outside: units of the pools ``[tree_end, n)``.
        carried: units of edges with a capacity, by account; all by default.
        along: further pass-through pools to include, so that charges follow the same paths as in `s`; within the containment tree
            only with `take_ancestors`.

    Returns: the structure, and the old number of each of its pools (int32, ascending).
    Errors: UnknownPool for a vertex outside the containment tree; UsageError if `v` is not kept or an array has the wrong length.
    Cost: in the size of the slice, not of the machine.
    """
    if not 0 <= v < s.tree_end:
        raise UnknownPool(f"vertex {v} is not in the containment tree", where=str(v))
    stop = s.end.item(v)
    mask = _kept_slice(s, v, stop, keep, size)
    inside = np.flatnonzero(mask).astype(np.int32) + np.int32(v)
    ways, supply = _ways_to(s, v, inside, along, take_ancestors=take_ancestors)
    in_tree = np.concatenate([ways[ways < v], inside, ways[ways >= stop]])
    is_way = (in_tree < v) | (in_tree >= stop)
    taken = _Renumbering(in_tree, v, stop)
    beside, own = _beside(s, taken, inside, ways, supply, outside, everything=v == 0)
    vertices = np.concatenate([in_tree, beside])
    numbers = _Renumbering(vertices, v, stop) if len(beside) else taken

    sizes, flags = s.size[vertices], s.flags[vertices]
    (size_inside, size_beside), (flags_inside, flags_beside) = (np.split(column, [len(in_tree)]) for column in (sizes, flags))
    if size is not None:
        size_inside[~is_way] = size[mask]
    if way_units is not None and is_way.any():
        units = way_units(in_tree[is_way])
        size_inside[is_way] = np.where(units, units, size_inside[is_way])
    if outside is not None:
        size_beside[:] = np.where(own, outside[beside - s.tree_end], size_beside)
    flags_inside[is_way] |= WAY
    # A part of the machine has its suppliers only as pass-through pools, like the rack above it: another part may share them.
    flags_beside[~own if v == 0 else slice(None)] |= WAY
    subsystems = {
        name: _edges(s, graph, numbers, _rows_near(graph, vertices, v, stop), carried) for name, graph in s.subsystems.items()
    }
    made = _carry(s, numbers, sizes, flags, subsystems, len(in_tree))
    if not take_ancestors and v > 0:
        settle_names(s, vertices, made, np.arange(len(in_tree)))
    return made, vertices


def extract_many(
    s: Structure, keep: Mask, size: Int64 | None = None, along: Mask | None = None, *, carried: Carried | None = None
) -> tuple[Structure, Int32]:
    """Any set of pools, with their ancestors as pass-through pools: what a job holds, for a nested instance.

    Args:
        keep: bool over all n pools; a pool outside the containment tree is the copy's own if kept, a pass-through pool if only
            needed.
        size: int64 over all n pools; a pool with 0 is not kept.
        along: bool over all n pools: further pass-through pools, included with their ancestors.
        carried: as for :func:`extract`.

    Returns: as :func:`extract`.
    Errors: UsageError if nothing is kept or an array has the wrong length.
    Cost: O(n), vectorised.
    """
    _fit("keep", keep, s.n)
    kept = keep.copy()
    if size is not None:
        _fit("size", size, s.n)
        kept &= size > 0
    taken = kept.copy() if along is None else kept | along
    if not taken.any():
        raise UsageError("nothing to copy", hint="a copy needs at least one pool with available units")
    taken[0] = True
    inside = np.flatnonzero(_with_ancestors(s, taken)).astype(np.int32)
    supplies = _supplies(s, np.flatnonzero(kept[: s.tree_end]).astype(np.int32), inside)
    vertices = np.union1d(inside, supplies) if len(supplies) else inside
    numbers = _Renumbering(vertices, 0, s.n)
    own = kept[vertices]
    sizes = s.size[vertices] if size is None else np.where(own, size[vertices], s.size[vertices])
    flags = s.flags[vertices]
    flags[~own] |= WAY
    if s.linked is not None:  # what the parent granted of a pass-through pool is the copy's own
        flags[own & s.linked[vertices]] &= np.uint8(255 - WAY)
    subsystems = {name: _edges(s, graph, numbers, np.arange(len(graph)), carried) for name, graph in s.subsystems.items()}
    return _carry(s, numbers, sizes, flags, subsystems, int(np.searchsorted(vertices, s.tree_end))), vertices


def with_the_way(s: Structure, own: Int32, tops: Int32) -> Int32:
    """These pools together with the pass-through pools that :func:`extract_many` includes for them, ascending.

    Args:
        own: ascending.
        tops: those of `own` whose parent may be missing from `own`, and further pass-through pools to include.

    Cost: arrays over the pools found, and over the edges of auxiliary graphs.
    """
    found = [own, tops, np.zeros(1, np.int32)]
    above = tops
    while len(above := np.unique(s.parent[above])) and above[-1] >= 0:
        above = above[above >= 0]
        found.append(above)
    every = np.unique(np.concatenate(found))
    return np.union1d(every, _supplies(s, own[own < s.tree_end], every)) if s.subsystems else every


def unlink(s: Structure, v: int, hierarchy: str | None = None) -> tuple[Structure, Int32]:
    """The machine without `v` and what is below it, in one hierarchy (rule M1; RFC 4, "Unlink").

    In containment, the subtree leaves the containment tree and none of it can be allocated any more; pools that are in an
    auxiliary hierarchy stay there as pass-through pools, outside the tree, until a merge brings them back.  In an auxiliary
    hierarchy, `v` and what is below it there lose the edges that reach them; a pool outside the tree that is in no other
    hierarchy is removed.

    Args:
        hierarchy: name of an auxiliary hierarchy; by default, or under its own name, containment.

    Returns: the structure, and the new numbers as int32 by old number, -1 for removed pools.
    Errors: UsageError for the root and for a pool that is not in this hierarchy; UnknownGraph.
    Cost: O(n), vectorised.
    """
    if not 0 <= v < s.n:
        raise UnknownPool(f"no vertex {v}", where=str(v))
    is_named = isinstance(hierarchy, str)
    if hierarchy is None or (is_named and hierarchy == s.hierarchy and hierarchy not in s.subsystems):
        return _unlink_contained(s, v)
    graph = s.subsystem(hierarchy)
    if not graph.hierarchy:
        raise UsageError(
            f"'{hierarchy}' is a graph but not a hierarchy",
            where=s.where(v),
            hint="remove its edges where the machine is described",
        )
    if not s.is_member(graph, v):
        raise UsageError(f"is not in hierarchy '{hierarchy}'", where=s.where(v), hint=f"it is in {', '.join(s.uris(v))}")
    below = _below(graph, v)
    left = np.zeros(s.n, np.bool_)
    left[below] = True
    rest = {**s.subsystems, hierarchy: graph.renumber(np.arange(s.n, dtype=np.int32), keep_rows=~left[graph.dst])}
    gone = np.zeros(s.n, np.bool_)
    for u in below[below >= s.tree_end].tolist():
        gone[u : s.end.item(u)] = True
    loose = gone.copy()
    for other in rest.values():
        if other.hierarchy:
            gone[other.members] = False
    return _without(s, gone, loose & ~gone, rest)


def _unlink_contained(s: Structure, v: int) -> tuple[Structure, Int32]:
    if v >= s.tree_end:
        raise UsageError("is not in the containment tree", where=s.where(v), hint="name the hierarchy to unlink it from")
    if v == 0:
        raise UsageError(
            "the root cannot be unlinked",
            where=s.path(0),
            hint="`fluxres graphs drop` drops a graph from a store, destroy() one in memory",
        )
    gone = np.zeros(s.n, np.bool_)
    gone[v : s.end.item(v)] = True
    stays = np.zeros(s.n, np.bool_)
    for graph in s.subsystems.values():
        if graph.hierarchy:
            stays[graph.members] = True
    made, old_to_new = _without(s, gone & ~stays, gone & stays, s.subsystems)
    made.flags[old_to_new[gone & stays]] |= WAY
    return made, old_to_new


def remove(s: Structure, v: int) -> tuple[Structure, Int32]:
    """The machine without the containment subtree of `v`, which leaves every hierarchy.

    What is only below it in an auxiliary hierarchy stays, with the remaining edges.

    Returns, errors: as :func:`unlink`.
    """
    if not 0 < v < s.tree_end:
        raise UsageError("only pools below the root of the containment tree can be removed", where=s.where(v))
    gone = np.zeros(s.n, np.bool_)
    gone[v : s.end.item(v)] = True
    return _without(s, gone, np.zeros(s.n, np.bool_), s.subsystems)


def _without(s: Structure, gone: Mask, loose: Mask, subsystems: dict[str, Subsystem]) -> tuple[Structure, Int32]:
    """The structure without the pools in `gone`; each pool in `loose` becomes a tree of its own, after all others."""
    rooted = np.flatnonzero(~(gone | loose)).astype(np.int32)
    alone = np.flatnonzero(loose).astype(np.int32)
    vertices = np.concatenate([rooted, alone])
    old_to_new = np.full(s.n, -1, np.int32)
    old_to_new[vertices] = np.arange(len(vertices), dtype=np.int32)
    before = np.concatenate([[0], np.cumsum(~(gone | loose))])
    columns = {name: column[vertices] for name, column in s.columns().items()}
    above = s.parent[rooted]
    columns["parent"] = np.concatenate([np.where(above < 0, -1, old_to_new[above]), np.full(len(alone), -1)])
    columns["end"] = np.concatenate([before[s.end[rooted]], np.arange(len(rooted), len(vertices)) + 1])
    made = Structure(
        columns,
        s.kinds,
        origins=list(s.origins),
        **sparse_data(s, vertices, old_to_new),
        subsystems={name: graph.renumber(old_to_new) for name, graph in subsystems.items()},
        tree_end=int(np.searchsorted(rooted, s.tree_end)),
    )
    settle_names(s, vertices, made, np.arange(len(rooted), len(vertices)))
    return made, old_to_new


def _kept_slice(s: Structure, v: int, stop: int, keep: Mask | None, size: Int64 | None) -> Mask:
    """Which pools of a slice are kept, given that each needs its parent."""
    mask = np.ones(stop - v, np.bool_)
    if keep is not None:
        _fit("keep", keep, stop - v)
        mask &= keep
    if size is not None:
        _fit("size", size, stop - v)
        mask &= size > 0
    if not mask[0]:
        raise UsageError(
            "is not available, so there is nothing to copy",
            where=s.where(v),
            hint="copy what is below it, or wait until it is free",
        )
    dropped = np.flatnonzero(~mask)
    if len(dropped):
        # +1 where a dropped subtree begins and -1 where it ends: a positive running sum means below a dropped pool.
        steps = np.bincount(s.end[v + dropped] - v, minlength=stop - v + 1)
        steps[dropped] -= 1
        mask = np.cumsum(steps[:-1]) == 0
    return mask


def _with_ancestors(s: Structure, kept: Mask) -> Mask:
    before = np.concatenate([[0], np.cumsum(kept)])
    return np.asarray(before[s.end] > before[: s.n])


def _ways_to(s: Structure, v: int, inside: Int32, along: Along | None, *, take_ancestors: bool) -> tuple[Int32, Int32]:
    """The pass-through pools for some pools of the subtree of `v`, ascending: in the containment tree, and outside it.

    In the tree they are the ancestors, and what supplies the part from elsewhere in the tree.
    """
    ways, supply = np.array(s.ancestors(v)[::-1] if take_ancestors else [], np.int32), inside[:0]
    if along is not None and v:
        kept = np.zeros(s.n, np.bool_)
        kept[inside] = True
        supply = np.flatnonzero(along(kept)).astype(np.int32)
        supply = supply[(supply < v) | (supply >= s.end[v])]
    if take_ancestors:
        ways = np.union1d(ways, supply[supply < s.tree_end]).astype(np.int32)
    return ways, supply[supply >= s.tree_end]


def _beside(
    s: Structure, taken: _Renumbering, kept: Int32, ways: Int32, along: Int32, outside: Int64 | None, *, everything: bool
) -> tuple[Int32, Mask]:
    """Pools outside the containment tree to include, ascending, and which of them are the copy's own.

    Args:
        kept: the pools of the tree in `taken` that are not pass-through.
        ways: the other pools in `taken`.
        along: the pools that supply them.
    """
    here = np.arange(s.tree_end, s.n, dtype=np.int32)
    if outside is not None:
        _fit("outside", outside, len(here))
    if not len(here):
        return here, np.zeros(0, np.bool_)
    found = np.zeros(len(here), np.bool_)
    own = np.full(len(here), everything)
    if everything:
        found[:] = True if outside is None else outside > 0
    elif s.subsystems:
        joined = _joined(s, kept, taken.lo, taken.hi)
        found[joined - s.tree_end] = True
        if outside is not None:
            found &= outside > 0
    fresh = np.concatenate([here[found], along, _hierarchy_parents(s, taken, ways)])
    while len(fresh):
        found[fresh - s.tree_end] = True
        # Up in every auxiliary hierarchy, and in the separate tree that a pool outside containment may be in.
        parents = {graph.parent(u) for u in fresh.tolist() for graph in s.subsystems.values() if graph.hierarchy}
        parents.update(s.parent[fresh].tolist())
        fresh = np.array([u for u in parents if u >= s.tree_end and not found[u - s.tree_end]], np.int32)
    if outside is not None:
        own = found & (outside > 0)
    return here[found], own[found]


def _hierarchy_parents(s: Structure, taken: _Renumbering, ways: Int32) -> Int32:
    """Pools outside the containment tree that are parents of taken ones in a hierarchy; `ways` are outside the window."""
    found: list[int] = []
    for graph in s.subsystems.values():
        if graph.hierarchy and len(graph):
            rows = graph.rows_reaching(taken.lo, taken.hi)
            rows = rows[taken.of(graph.dst[rows]) >= 0]
            found.extend(np.unique(graph.src[rows]).tolist())
            found.extend(graph.parent(u) for u in ways.tolist())
    return np.array([u for u in found if u >= s.tree_end], np.int32)


def _supplies(s: Structure, kept: Int32, taken: Int32) -> Int32:
    """Pools outside the containment tree that are above taken ones, or that an edge joins to a kept pool of the tree.

    Partitions are not among them: what a job got in a partition is its own.
    """
    hierarchies = [graph for graph in s.subsystems.values() if graph.hierarchy]
    first = [graph.src[graph.rows_to(taken)[1]] for graph in hierarchies]
    for name, graph in s.subsystems.items():
        if not graph.hierarchy and not (name == PARTITIONS and s.partitions):
            first += [graph.dst[graph.rows_from(kept)[1]], graph.src[graph.rows_to(kept)[1]]]
    joined = np.concatenate([np.zeros(0, np.int32), *first])
    fresh = np.unique(joined[joined >= s.tree_end])
    found: set[int] = set()
    while len(fresh := fresh[fresh >= s.tree_end]):
        found.update(fresh.tolist())
        # Up in every auxiliary hierarchy, and in the separate tree that a pool outside containment may be in.
        above = {graph.parent(u) for graph in hierarchies for u in fresh.tolist()}
        above.update(s.parent[fresh].tolist())
        fresh = np.array(sorted(above - found), np.int32)
    return np.array(sorted(found), np.int32)


def _joined(s: Structure, kept: Int32, lo: int, hi: int) -> Int32:
    """Pools outside the containment tree that an edge of a graph without hierarchy joins to a kept pool in the window."""
    found = [np.zeros(0, np.int32)]
    for graph in s.subsystems.values():
        if graph.hierarchy or not len(graph) or not len(kept):
            continue
        for near, far, rows in (
            (graph.src, graph.dst, graph.rows_leaving(lo, hi)),
            (graph.dst, graph.src, graph.rows_reaching(lo, hi)),
        ):
            rows = rows[far[rows] >= s.tree_end]
            at = np.minimum(np.searchsorted(kept, near[rows]), len(kept) - 1)
            found.append(far[rows][kept[at] == near[rows]])
    return np.unique(np.concatenate(found))


def _rows_near(graph: Subsystem, vertices: Int32, lo: int, hi: int) -> Int64:
    """Rows of edges that may have both ends among `vertices`, of which few are outside the window; in document order."""
    rows = [graph.rows_leaving(lo, hi)]
    rows.extend(graph.out_rows(u) for u in vertices[(vertices < lo) | (vertices >= hi)].tolist())
    return np.sort(np.concatenate(rows))


def _edges(s: Structure, graph: Subsystem, numbers: _Renumbering, rows: Int64, carried: Carried | None) -> Subsystem:
    """The edges among these rows whose two ends are kept, renumbered."""
    src, dst = numbers.of(graph.src[rows]), numbers.of(graph.dst[rows])
    both = (src >= 0) & (dst >= 0)
    if carried is not None:
        graph = cut(s.accounts, graph, rows[both], carried)
    attributes = {key: column[rows[both]] for key, column in graph.attributes.items()}
    return Subsystem(
        graph.name, graph.hierarchy, src[both], dst[both], graph.relation[rows[both]], list(graph.relations), attributes
    )


def _below(graph: Subsystem, v: int) -> Int32:
    """`v` and what is below it in a hierarchy, level by level."""
    levels = [np.array([v], np.int32)]
    while len(levels[-1]):
        levels.append(graph.all_successors(levels[-1]))
    return np.concatenate(levels)


def _carry(
    s: Structure, numbers: _Renumbering, sizes: Int64, flags: UInt8, subsystems: dict[str, Subsystem], tree_end: int
) -> Structure:
    """The kept pools with all their data, sizes and flags replaced."""
    vertices = numbers.vertices
    columns: dict[str, NDArray[Any]] = {
        name: column[vertices] for name, column in s.columns().items() if name not in ("parent", "end", "size", "flags")
    }
    columns["parent"] = numbers.of(s.parent[vertices])
    columns["end"] = numbers.count_before(s.end[vertices])
    columns["size"] = sizes
    columns["flags"] = flags
    sparse = sparse_data(s, vertices, numbers)
    smaller = np.flatnonzero(sizes < s.size[vertices])
    for new, full in zip(smaller.tolist(), s.size[vertices[smaller]].tolist(), strict=True):
        sparse["capacity"].setdefault(new, full)
    made = Structure(columns, s.kinds, origins=list(s.origins), **sparse, subsystems=subsystems, tree_end=tree_end)
    if len(smaller) and any("size" in template_fields(kind) for kind in s.kinds):
        settle_names(s, vertices, made, smaller)
    return made


def sparse_data(s: Structure, vertices: Int32, numbers: _Renumbering | Int32) -> dict[str, Any]:
    """Names, uuids, tags and capacities of the kept pools, by new number."""
    return {
        "names": _restricted(s.names, vertices, numbers),
        "uuid_texts": _restricted(s.uuid_texts, vertices, numbers),
        "tags": {v: dict(tags) for v, tags in _restricted(s.tags, vertices, numbers).items()},
        "capacity": _restricted(s.capacity, vertices, numbers),
    }


def _restricted(sparse: dict[int, T], vertices: Int32, numbers: _Renumbering | Int32) -> dict[int, T]:
    # Iterate over whichever is shorter: the sparse data, or the kept pools.
    if len(sparse) > len(vertices):
        return {new: sparse[old] for new, old in enumerate(vertices.tolist()) if old in sparse}
    if not sparse:
        return {}
    old = np.fromiter(sparse, np.int32, len(sparse))
    new = numbers.of(old) if isinstance(numbers, _Renumbering) else numbers[old]
    return {n: value for n, value in zip(new.tolist(), sparse.values(), strict=True) if n >= 0}


def settle_names(s: Structure, vertices: Int32, made: Structure, where: Iterable[int] | NDArray[Any]) -> None:
    """Make names explicit that a template no longer gives because something it uses is gone or has changed."""
    needy = np.array([bool(template_fields(kind) - {"id"}) for kind in s.kinds] or [False], np.bool_)
    new = np.asarray(where, np.int64)
    for v in new[needy[made.kind[new]]].tolist():
        made.names[v] = s.name(int(vertices[v]))


def _fit(what: str, values: Sequence[Any] | NDArray[Any], length: int) -> None:
    if len(values) != length:
        raise UsageError(f"{what} has {len(values)} values where {length} are needed")

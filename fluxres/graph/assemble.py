"""Build a structure from a table of pools and their parents in any order, which is what most foreign file formats hold.

Files list pools in the order of their own traversal.  This module sorts the rows into pre-order one level at a time.  The rows of
a level are grouped by parent, so subtree sizes are sums over groups and positions are running sums.  A machine has few levels,
and no loop visits single pools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fluxres import limits
from fluxres.arrays import Int32, Int64
from fluxres.errors import InputError, LimitExceeded
from fluxres.graph import uuids
from fluxres.graph.kinds import EXCLUSIVE, KindTable
from fluxres.graph.recipe import NO_RANK, hand_down
from fluxres.graph.structure import Structure


class Assembled(NamedTuple):
    """A structure, and where its rows went: ``vertex[i]`` is the vertex number of row i (int32)."""

    structure: Structure
    vertex: Int32


def assemble(  # noqa: PLR0913 - one argument per column
    parent: ArrayLike,
    kind: ArrayLike,
    *,
    kinds: KindTable,
    size: ArrayLike | None = None,
    id: ArrayLike | None = None,
    rank: ArrayLike | None = None,
    state: ArrayLike | None = None,
    exclusive: ArrayLike | None = None,
    names: Mapping[int, str] = {},
    uuid_texts: Mapping[int, str] = {},
    tags: Mapping[int, dict[str, str | None]] = {},
    capacity: Mapping[int, int] = {},
    origin: int | None = None,
    where: Callable[[int], str] | None = None,
) -> Assembled:
    """The structure of a table of pools.

    Args:
        parent: n row numbers; -1 for a root.  The first root is that of the containment tree, the others are outside it.
        kind: n indexes into `kinds`.
        size, id: n int64; 1 and -1 (no id) by default.
        rank: n execution targets; -1 inherits from the pool above.  None numbers the nodes in pre-order.
        state: n indexes into `STATES`; up by default.
        exclusive: n booleans.
        names, uuid_texts, tags, capacity: keyed by row; a structure keys them by vertex.
        origin: base of the uuids, whose serials are vertex numbers; random by default.
        where: the place of a row in error messages; ``row N`` by default.

    Children keep the order of their rows.  Values are not checked: the reader of the file does that, because it knows the place.
    Errors: InputError for parents that do not form a tree (a cycle, no root, a missing row); LimitExceeded past
    `limits.POOLS_MAX` and `limits.DEPTH_MAX`.
    Cost: O(n log n) array operations, O(names + tags) Python.

    >>> from fluxres.graph.kinds import Kind
    >>> table = KindTable([Kind("cluster", "demo"), Kind("node", "node")])
    >>> made = assemble([2, 2, -1], [1, 1, 0], kinds=table, id=[7, 3, -1])
    >>> made.vertex.tolist(), made.structure.path(1), made.structure.rank.tolist()
    ([1, 2, 0], '/demo/node7', [-1, 0, 1])
    """
    above = np.ascontiguousarray(parent, np.int32)
    place = where if where is not None else "row {}".format
    vertex, length, tree_end = _preorder(above, place)
    n = len(above)
    row = np.empty(n, np.int32)
    row[vertex] = np.arange(n, dtype=np.int32)
    parents = above[row]
    parents = np.where(parents >= 0, vertex[parents], np.int32(-1))
    columns: dict[str, NDArray[Any]] = {
        "parent": parents,
        "end": np.arange(n, dtype=np.int32) + length[row],
        "kind": np.asarray(kind, np.int32)[row],
        "size": np.ones(n, np.int64) if size is None else np.asarray(size, np.int64)[row],
        "id": np.full(n, -1, np.int64) if id is None else np.asarray(id, np.int64)[row],
        "state": np.zeros(n, np.uint8) if state is None else np.asarray(state, np.uint8)[row],
        "flags": np.zeros(n, np.uint8) if exclusive is None else np.where(np.asarray(exclusive)[row], EXCLUSIVE, 0),
        "origin": np.zeros(n, np.uint16),
        "serial": np.arange(n, dtype=np.int64),
    }
    columns["rank"] = _ranks(columns, kinds, None if rank is None else np.asarray(rank, np.int32)[row], tree_end)
    structure = Structure(
        columns,
        kinds,
        origins=[uuids.new_origin() if origin is None else origin],
        names=_moved(names, vertex),
        uuid_texts=_moved(uuid_texts, vertex),
        tags=_moved(tags, vertex),
        capacity=_moved(capacity, vertex),
        tree_end=tree_end,
    )
    return Assembled(structure, vertex)


def _preorder(parent: Int32, place: Callable[[int], str]) -> tuple[Int32, Int32, int]:
    """For each row its pre-order number and the size of its subtree; and the end of the first root's tree."""
    n = len(parent)
    if n > limits.POOLS_MAX:
        raise LimitExceeded(f"{n} pools, at most {limits.POOLS_MAX} fit")
    levels = _levels(parent, place)
    length = np.ones(n, np.int32)
    for level in reversed(levels[1:]):
        starts = _groups(parent[level])
        length[parent[level[starts]]] += np.add.reduceat(length[level], starts, dtype=np.int32)
    vertex = np.empty(n, np.int32)
    for level in levels:
        before = np.cumsum(length[level], dtype=np.int32) - length[level]
        if parent[level[0]] >= 0:
            starts = _groups(parent[level])
            before -= np.repeat(before[starts], np.diff(starts, append=len(level)))
            before += vertex[parent[level]] + np.int32(1)
        vertex[level] = before
    return vertex, length, int(length[levels[0][0]])


def _groups(parents: Int32) -> Int64:
    """The first index of each run of equal values."""
    return np.flatnonzero(np.diff(parents, prepend=np.int32(-2)))


def _levels(parent: Int32, place: Callable[[int], str]) -> list[Int32]:
    """The rows of each level, grouped by parent in their original order."""
    n = len(parent)
    stray = np.flatnonzero((parent < -1) | (parent >= n))
    if len(stray):
        row = int(stray[0])
        raise InputError(f"parent {parent[row]} does not exist: there are {n} pools", where=place(row))
    order = np.argsort(parent, kind="stable").astype(np.int32)
    starts = np.searchsorted(parent[order], np.arange(-1, n + 1, dtype=np.int32)).astype(np.int32)
    level = order[: starts[1]]
    if not len(level):
        raise InputError("every pool has a parent: there is no root", where=place(0) if n else "")
    levels: list[Int32] = []
    reached = 0
    while len(level):
        if len(levels) == limits.DEPTH_MAX:
            raise LimitExceeded(f"more than {limits.DEPTH_MAX} levels", where=place(int(level[0])))
        levels.append(level)
        reached += len(level)
        first, count = starts[level + 1], starts[level + 2] - starts[level + 1]
        offsets = np.repeat(first - np.cumsum(count, dtype=np.int32) + count, count)
        level = order[offsets + np.arange(len(offsets), dtype=np.int32)]
    if reached < n:
        seen = np.zeros(n, np.bool_)
        seen[np.concatenate(levels)] = True
        raise InputError("is its own descendant", where=place(_in_cycle(parent, int(np.flatnonzero(~seen)[0]))))
    return levels


def _in_cycle(parent: Int32, row: int) -> int:
    """A row of the cycle that following the parents of this row leads into."""
    seen = set()
    while row not in seen:
        seen.add(row)
        row = int(parent[row])
    return row


def _ranks(columns: dict[str, NDArray[Any]], kinds: KindTable, given: Int32 | None, tree_end: int) -> Int32:
    if given is None:
        is_node = np.array([kind.type == "node" for kind in kinds])
        setters = np.flatnonzero(is_node[columns["kind"][:tree_end]])
        given = np.empty(len(columns["kind"]), np.int32)
        given[setters] = np.arange(len(setters))
    else:
        setters = np.flatnonzero(given > NO_RANK)
    hand_down(given, setters, columns["end"])
    return given


def _moved(sparse: Mapping[int, Any], vertex: Int32) -> dict[int, Any]:
    if not sparse:
        return {}
    rows = np.fromiter(sparse, np.int64, len(sparse))
    found = dict(zip(vertex[rows].tolist(), sparse.values(), strict=True))
    return dict(sorted(found.items()))

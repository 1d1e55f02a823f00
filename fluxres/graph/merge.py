"""Merge two machines into one (rule M1; RFC 4, "Merge"; specs/decisions/0004-merge.md).

`join` decides which pools of both are the same.  Both containment trees are walked from the root, level by level: pools with the
same name below the same joined parent are the same pool.  A level is two arrays of numbers (`identity`), so the cost depends on
the number of levels, not of pools.  Pools outside the tree are matched by uuid, or by their path in an auxiliary hierarchy.

Then each topmost pool that only the other machine has is inserted, with its subtree, after the children of its joined parent, and
the data of pools that are the same is combined: sizes, ranks, names, tags and edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Int32, Int64, Mask, UInt64
from fluxres.documents.document import plural
from fluxres.errors import LimitExceeded, MergeConflict, UnknownPool, UsageError
from fluxres.graph import accounts
from fluxres.graph.auxiliary import CONTAINS, Subsystem
from fluxres.graph.identity import NameKeys, joint_origins, repeated, template_fields, texts_needed, uuid_keys
from fluxres.graph.kinds import WAY, KindTable
from fluxres.graph.structure import COLUMNS, Structure
from fluxres.syntax import template

UuidKeys = UInt64


# -- where the root of other goes ----------------------------------------------------------------------------------------


def placed(s: Structure, other: Structure, at: str | None) -> tuple[Structure, int]:
    """`other` under its new name, and the vertex of `s` to attach its root to (-1: its root is the root of `s`)."""
    root = other.kind_of(0).type
    if at is None:
        if other.hierarchy != s.hierarchy or root != s.kind_of(0).type:
            raise MergeConflict(
                f"{root} '/{other.hierarchy}' and {s.kind_of(0).type} '/{s.hierarchy}' have no common ancestor",
                where=f"/{other.hierarchy}",
                hint="give the path that it gets there: `--as PATH`, in Python at=",
            )
        return other, -1
    path = at.rstrip("/") if auxiliary(s, at) else _path_of(s, at)
    try:
        v = s.vertex(path)
    except UnknownPool:
        above, _, name = path.rpartition("/")
        if not above or above.endswith(":") or not name:
            if not auxiliary(s, at):
                raise
            raise UsageError(
                "there is no pool to merge below",
                where=at,
                hint=f"name a pool of '{auxiliary(s, at)}', or describe a new root in a file",
            ) from None
        other, v = _renamed(other, name), s.vertex(above)
        _require_outside(s, v, at)
        return other, v
    _require_outside(s, v, at)
    if s.name(v) == other.hierarchy and s.kind_of(v).type == root:
        return other, s.parent.item(v)
    return other, v


def auxiliary(s: Structure, at: str | None) -> str | None:
    """The auxiliary hierarchy in which a URI names a place; None for a place in containment."""
    named = "" if at is None or at.startswith("/") else at.partition(":/")[0]
    found = s.subsystems.get(named) if named != s.hierarchy else None
    return named if found is not None and found.hierarchy else None


def _require_outside(s: Structure, v: int, at: str) -> None:
    if auxiliary(s, at) and v < s.tree_end:
        raise UsageError(
            "is in the containment tree, so what is merged there must be in it too",
            where=at,
            hint=f"merge at {s.path(v)}, and add an edge for '{auxiliary(s, at)}'",
        )


def _path_of(s: Structure, at: str) -> str:
    if at.startswith("/"):
        return at.rstrip("/") or f"/{s.hierarchy}"
    hierarchy, colon, path = at.partition(":/")
    if not colon:
        raise UsageError(f"'{at}' is not a path", where=at, hint="a path starts with '/', a URI reads 'name:/path'")
    if hierarchy != s.hierarchy:
        raise UsageError(
            f"graphs are merged in containment, not in '{hierarchy}'", where=at, hint=f"name a path or {s.hierarchy}:/path"
        )
    return f"/{hierarchy}/{path}".rstrip("/")


def _renamed(other: Structure, name: str) -> Structure:
    """`other` with its root renamed: through its id if basename or template then give the name, explicitly otherwise."""
    if not name or len(name) > limits.NAME_LENGTH_MAX:
        raise UsageError(f"a name has 1 to {limits.NAME_LENGTH_MAX} characters", where=name[:40])
    if name == other.hierarchy:
        return other
    kind = other.kind_of(0)
    number = template.default_id(kind.basename, name) if kind.name is None else template.invert(kind.name, name)
    names = {v: text for v, text in other.names.items() if v}
    columns = dict(other.columns())
    if number is not None:
        columns["id"] = other.id.copy()
        columns["id"][0] = number
    else:
        names[0] = name
    return Structure(
        columns,
        other.kinds,
        origins=other.origins,
        names=names,
        uuid_texts=other.uuid_texts,
        tags=other.tags,
        capacity=other.capacity,
        subsystems=other.subsystems,
        tree_end=other.tree_end,
    )


# -- matching pools ------------------------------------------------------------------------------------------------------


@dataclass
class Joined:
    """For each vertex of `other`, the same pool in `s`; -1 for none.

    `moved` are pools outside the tree of `s` that `other` places in its own tree.
    """

    to_s: Int32
    moved: dict[int, int]
    keys_s: UuidKeys
    keys_other: UuidKeys


def join(s: Structure, other: Structure, parent: int) -> Joined:
    """Match the pools of both machines, starting at the root of `other` below vertex `parent` of `s` (-1: at the root of `s`).

    Errors: MergeConflict naming the pool where two pools meet that cannot be the same.
    """
    to_s = np.full(other.n, -1, np.int32)
    keys_s, keys_other = uuid_keys([s, other])
    joined_outside = _join_outside(s, other, keys_s, keys_other)
    for w, v in joined_outside.items():
        to_s[w] = v
    names = NameKeys()
    if parent < 0:
        to_s[0] = 0
    else:
        _join_children(s, other, to_s, names, np.zeros(1, np.int32), np.full(1, parent, np.int32))
    for depth in range(1, int(other.depth.max()) + 1):
        join_level(s, other, to_s, names, depth)
    twice = repeated(to_s[to_s >= 0])
    if len(twice):
        v = int(to_s[to_s >= 0][twice[0]])
        raise MergeConflict("two pools of the other graph match this one", where=s.where(v), hint="rename one of them")
    _check_types(s, other, to_s)
    return Joined(to_s, _moved(s, other, to_s, keys_s, keys_other), keys_s, keys_other)


def _join_outside(s: Structure, other: Structure, keys_s: UuidKeys, keys_other: UuidKeys) -> dict[int, int]:
    """Pools outside the tree of `other` that `s` also has: matched by uuid, or by the path in an auxiliary hierarchy."""
    found: dict[int, int] = {}
    outside = np.arange(other.tree_end, other.n)
    if not len(outside):
        return found
    order = np.argsort(keys_s, kind="stable")
    at = np.minimum(np.searchsorted(keys_s[order], keys_other[outside]), s.n - 1)
    same = keys_s[order[at]] == keys_other[outside]
    for w, v in zip(outside[same].tolist(), order[at[same]].tolist(), strict=True):
        # A pool inside a tree outside containment is matched only if its parent is.
        if other.parent.item(w) < 0 or other.parent.item(w) in found:
            found[w] = v
    for w in outside[~same & (other.parent[outside] < 0)].tolist():
        for graph in other.subsystems.values():
            if (
                graph.hierarchy
                and graph.name in s.subsystems
                and s.subsystems[graph.name].hierarchy
                and other.is_member(graph, w)
            ):
                try:
                    v = s.vertex(other.auxiliary_uri(graph, w))
                except UnknownPool:
                    continue
                if v >= s.tree_end and s.is_member(s.subsystems[graph.name], v):
                    found[w] = v
                    break
    return found


def join_level(s: Structure, other: Structure, to_s: Int32, names: NameKeys, depth: int) -> Int32:
    """Match by name the pools of `other` at one depth of which the parents match; returns those that are found."""
    level = np.flatnonzero((other.depth == depth) & (to_s < 0)).astype(np.int32)
    above = to_s[other.parent[level]]
    joined = np.flatnonzero(to_s >= 0)
    names.ancestors_differ = bool((s.id[to_s[joined]] != other.id[joined]).any())
    _join_children(s, other, to_s, names, level[above >= 0], above[above >= 0])
    return level[to_s[level] >= 0]


def _join_children(s: Structure, other: Structure, to_s: Int32, names: NameKeys, level: Int32, above: Int32) -> None:
    """Match pools of `other` with the children of the same name below the pools of `s` that match their parents."""
    if not len(level):
        return
    is_parent = np.zeros(s.n + 1, np.bool_)
    is_parent[above] = True
    here = np.flatnonzero(is_parent[s.parent]).astype(np.int32)
    cls_s, number_s, odd_s = names.of(s, here)
    cls_o, number_o, odd_o = names.of(other, level)
    group = np.concatenate([s.parent[here], above])
    cls, number, odd = np.concatenate([cls_s, cls_o]), np.concatenate([number_s, number_o]), np.concatenate([odd_s, odd_o])
    order = np.lexsort((number, cls, group))
    first, second = order[:-1], order[1:]
    same = (group[first] == group[second]) & (cls[first] == cls[second]) & (number[first] == number[second])
    same &= (first < len(here)) & (second >= len(here))
    to_s[level[second[same] - len(here)]] = here[first[same]]

    left = np.ones(len(group), np.bool_)
    left[first[same]] = left[second[same]] = False
    rows = np.flatnonzero(left)
    rows = rows[texts_needed(group[rows], cls[rows], odd[rows], names.injective())]
    by_name = {(int(group[i]), s.name(int(here[i]))): int(here[i]) for i in rows[rows < len(here)].tolist()}
    for i in rows[rows >= len(here)].tolist() if by_name else ():
        w = int(level[i - len(here)])
        to_s[w] = by_name.get((int(group[i]), other.name(w)), -1)


def _check_types(s: Structure, other: Structure, to_s: Int32) -> None:
    pairs = np.flatnonzero(to_s >= 0)
    kinds = np.stack([s.kind[to_s[pairs]], other.kind[pairs]])
    for mine, theirs in np.unique(kinds, axis=1).T.tolist():
        if s.kinds[mine].type != other.kinds[theirs].type:
            v = int(to_s[pairs[np.flatnonzero((kinds[0] == mine) & (kinds[1] == theirs))[0]]])
            raise MergeConflict(
                f"is a {s.kinds[mine].type} here and a {other.kinds[theirs].type} in the other graph",
                where=s.where(v),
                hint="rename one of them, or merge at another path",
            )


def _moved(s: Structure, other: Structure, to_s: Int32, keys_s: UuidKeys, keys_other: UuidKeys) -> dict[int, int]:
    """By vertex of `other`: pools outside the tree of `s` that `other` has inside its own.  Any other pool with a uuid of `s` is
    a conflict.
    """
    fresh = np.flatnonzero(to_s < 0)
    order = np.argsort(keys_s, kind="stable")
    at = np.minimum(np.searchsorted(keys_s[order], keys_other[fresh]), s.n - 1)
    hits = keys_s[order[at]] == keys_other[fresh]
    moved: dict[int, int] = {}
    taken = set(to_s[to_s >= s.tree_end].tolist())
    for w, v in zip(fresh[hits].tolist(), order[at[hits]].tolist(), strict=True):
        if v < s.tree_end or w >= other.tree_end or v in taken or s.parent.item(v) >= 0 or s.end.item(v) > v + 1:
            raise MergeConflict(
                f"the pool with uuid {s.uuid(v)} would be both here and at '{s.where(v)}'",
                where=other.where(w),
                hint=f"unlink '{s.where(v)}' first, or merge it at that place",
            )
        if s.kind_of(v).type != other.kind_of(w).type:
            raise MergeConflict(
                f"is a {s.kind_of(v).type} in '{s.where(v)}'", where=other.where(w), hint="give one of them another uuid"
            )
        moved[w] = v
    return moved


def merge(s: Structure, other: Structure, at: str | None = None) -> tuple[Structure, Int32, Int32]:
    """`s` with `other` merged into it (rule M1; RFC 4, "Merge").

    Args:
        at: path or containment URI in `s`.  If a pool there has the name and type of the root of `other`, the two are the same;
            any other pool there becomes the parent of the root.  If there is no such pool but its parent exists, the root goes
            below that parent under this name.  None requires both roots to have the same name and type.

    Returns: the structure; int32 new numbers by old number of `s`; the same for `other`.
    Errors: MergeConflict naming the pool for which data would have to be invented or lost; LimitExceeded.
    Cost: O(n of both), vectorised; Python for sparse data.
    """
    if s.n + other.n > limits.POOLS_MAX:
        raise LimitExceeded(f"{s.n} and {other.n} pools together exceed {limits.POOLS_MAX}")
    other, parent = placed(s, other, at)
    plan = _Plan(s, other, join(s, other, parent), parent)
    _check_depth(plan)
    columns = plan.columns()
    _settle_sizes(plan, columns)
    _settle_ranks(plan, columns)
    subsystems, hierarchy = _subsystems(plan), auxiliary(s, at)
    if hierarchy is not None:
        subsystems[hierarchy] = _joint_edges(plan, subsystems[hierarchy], _contained(plan, hierarchy))
    made = Structure(
        columns,
        plan.kinds,
        origins=plan.origins,
        **_sparse(plan, columns),
        subsystems=subsystems,
        tree_end=plan.tree_end,
    )
    _settle_names(plan, made)
    return made, plan.from_s, plan.from_other


# -- the new order -------------------------------------------------------------------------------------------------------


class _Plan:
    """The position of each pool of both machines in the result, and the columns that follow from it."""

    def __init__(self, s: Structure, other: Structure, joined: Joined, parent: int) -> None:
        self.s, self.other, self.to_s, self.joined, self.parent = s, other, joined.to_s, joined, parent
        self.moved_w = np.array(sorted(joined.moved), np.int64)
        self.moved_v = np.array([joined.moved[w] for w in self.moved_w.tolist()], np.int64)
        above = np.where(other.parent >= 0, self.to_s[other.parent], -1)
        above[0] = parent
        self.fresh = np.flatnonzero(self.to_s < 0)
        is_block = np.zeros(other.n, np.bool_)
        is_block[self.fresh] = (other.parent[self.fresh] < 0) | (above[self.fresh] >= 0)
        self.blocks = np.flatnonzero(is_block)
        self.under = above[self.blocks]
        self.block_of = np.cumsum(is_block)[self.fresh] - 1
        self._number()
        self.kinds, self._kind_map = joint_kinds(s, other)
        self.origins, maps = joint_origins([s, other])
        self._origin_map = maps[1]

    def _number(self) -> None:
        s, other = self.s, self.other
        lengths = other.end[self.blocks].astype(np.int64) - self.blocks
        # A block goes after the last descendant of its parent; where several parents end together, the deepest comes first.
        place = np.where(self.under >= 0, s.end[self.under], s.n)
        depth = np.where(self.under >= 0, s.depth[self.under], -1)
        order = np.lexsort((self.blocks, -depth.astype(np.int64), place))
        start = np.empty(len(order), np.int64)
        start[order] = np.cumsum(lengths[order]) - lengths[order]

        stays = np.ones(s.n, np.int64)
        stays[self.moved_v] = 0
        inserted = np.bincount(place, weights=lengths, minlength=s.n + 1).astype(np.int64)
        new = np.concatenate([[0], np.cumsum(stays)]) + np.cumsum(inserted)
        below = np.concatenate(
            [[0], np.cumsum(np.bincount(self.under[self.under >= 0], weights=lengths[self.under >= 0], minlength=s.n))]
        )
        before = np.concatenate([[0], np.cumsum(stays)])
        self.end_s = new[: s.n] + (before[s.end] - before[: s.n]) + (below[s.end] - below[: s.n]).astype(np.int64)
        self.from_s = new[: s.n].astype(np.int32)
        self.from_other = np.where(self.to_s >= 0, self.from_s[self.to_s], -1).astype(np.int32)
        first = before[place] + start
        self.from_other[self.fresh] = first[self.block_of] + (self.fresh - self.blocks[self.block_of])
        self.from_s[self.moved_v] = self.from_other[self.moved_w]
        self.n = s.n + len(self.fresh) - len(self.moved_v)
        self.tree_end = int(self.end_s[0])
        self.stays = np.flatnonzero(stays)
        self.pairs = np.flatnonzero(self.to_s >= 0)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Columns of the result; where both have the pool, those of `s`."""
        s, other = self.s, self.other
        mine, theirs = self.from_s[self.stays], self.from_other[self.fresh]
        columns: dict[str, NDArray[Any]] = {}
        for name, dtype in COLUMNS.items():
            column = np.empty(self.n, dtype)
            column[theirs] = getattr(other, name)[self.fresh]
            column[mine] = getattr(s, name)[self.stays]
            columns[name] = column
        columns["kind"][theirs] = self._kind_map[other.kind[self.fresh]]
        columns["origin"][theirs] = self._origin_map[other.origin[self.fresh]]
        above = s.parent[self.stays]
        columns["parent"][mine] = np.where(above < 0, -1, self.from_s[above])
        above = other.parent[self.fresh]
        columns["parent"][theirs] = np.where(above < 0, -1, self.from_other[above])
        root = self.from_other[0]
        if self.to_s[0] < 0:
            columns["parent"][root] = self.from_s[self.under[self.blocks == 0]][0]
        columns["end"][mine] = self.end_s[self.stays]
        columns["end"][theirs] = theirs + (other.end[self.fresh] - self.fresh)
        # A pool that only moves keeps its data in `s`.
        moved = self.from_s[self.moved_v]
        for name in ("kind", "id", "rank", "state", "flags", "origin", "serial"):
            columns[name][moved] = getattr(s, name)[self.moved_v]
        return columns


def joint_kinds(s: Structure, other: Structure) -> tuple[KindTable, Int32]:
    if other.kinds is s.kinds:
        return s.kinds, np.arange(len(s.kinds), dtype=np.int32)
    kinds = KindTable(s.kinds)
    used = np.zeros(len(other.kinds), np.bool_)
    used[other.kind] = True
    return kinds, np.array([kinds.intern(kind) if used[i] else 0 for i, kind in enumerate(other.kinds)], np.int32)


def _check_depth(plan: _Plan) -> None:
    s, other = plan.s, plan.other
    if not len(plan.fresh):
        return
    base = np.where(plan.under >= 0, s.depth[plan.under].astype(np.int64) + 1, 0)[plan.block_of]
    depth = base + other.depth[plan.fresh] - other.depth[plan.blocks[plan.block_of]]
    deepest = int(depth.argmax())
    if depth[deepest] >= limits.DEPTH_MAX:
        raise LimitExceeded(
            f"would be {int(depth[deepest]) + 1} levels deep, at most {limits.DEPTH_MAX} are allowed",
            where=other.where(int(plan.fresh[deepest])),
            hint="merge it nearer to the root",
        )


# -- combining the data of two pools -------------------------------------------------------------------------------------


def _settle_sizes(plan: _Plan, columns: dict[str, NDArray[Any]]) -> None:
    """Sizes, pass-through flags and full sizes (`columns["full"]`) where two pools became one."""
    s, other = plan.s, plan.other
    full = np.empty(plan.n, np.int64)
    full_s, full_other = s.full_size, other.full_size
    full[plan.from_other[plan.fresh]] = full_other[plan.fresh]
    full[plan.from_s[plan.stays]] = full_s[plan.stays]
    columns["full"] = full
    mine = np.concatenate([plan.to_s[plan.pairs], plan.moved_v]).astype(np.int64)
    theirs = np.concatenate([plan.pairs, plan.moved_w])
    if not len(mine):
        return
    same = plan.joined.keys_s[mine] == plan.joined.keys_other[theirs]
    a, b, full_a, full_b = s.size[mine], other.size[theirs], full_s[mine], full_other[theirs]
    way_a, way_b = (s.flags[mine] & WAY) != 0, (other.flags[theirs] & WAY) != 0
    leaf = (s.end[mine] == mine + 1) & (other.end[theirs] == theirs + 1)
    leaf[len(plan.pairs) :] = False
    _check_strangers(plan, mine, theirs, leaf & ~same & ~way_a & ~way_b & (mine > 0))
    known = np.where(same, np.maximum(full_a, full_b), full_a)
    size = np.where(leaf & same, a + b, np.where(same, np.minimum(a + b, known), a))
    size = np.where(way_b, a, np.where(way_a, b, size))
    known = np.where(way_a | way_b, np.where(same, np.maximum(full_a, full_b), np.where(way_b, full_a, full_b)), known)
    _check_sizes(plan, mine, size, known)
    new = plan.from_s[mine]
    columns["size"][new] = size
    columns["full"][new] = known
    columns["flags"][new] = s.flags[mine] & np.where(way_a & ~way_b, np.uint8(255 - WAY), np.uint8(255))


def _check_strangers(plan: _Plan, mine: Int64, theirs: Int64, clash: Mask) -> None:
    """Refuse leaves with the same path and different uuids, because it is unknown whether their units are the same."""
    strangers = np.flatnonzero(clash)
    if not len(strangers):
        return
    v, w = int(mine[strangers[0]]), int(theirs[strangers[0]])
    more = f", and {plural(len(strangers) - 1, 'more pool')} like it" if len(strangers) > 1 else ""
    raise MergeConflict(
        f"uuid: {plan.s.uuid(v)} here and {plan.other.uuid(w)} in the other graph, so these are two pools with one path{more}",
        where=plan.s.where(v),
        hint="each load of a file without uuids makes new ones: copy one graph, or load a saved one, which has them; "
        "if they are different pools, rename one or merge at another path",
    )


def _check_sizes(plan: _Plan, mine: Int64, size: Int64, known: Int64) -> None:
    over = np.flatnonzero(size > known)
    if not len(over):
        return
    i = int(over[0])
    where = plan.s.where(int(mine[i]))
    unit = plan.s.kind_of(int(mine[i])).unit or "units"
    raise MergeConflict(
        f"would make {int(size[i])} of {int(known[i])} {unit}",
        where=where,
        hint="the other graph has units that this one has already",
    )


def _settle_ranks(plan: _Plan, columns: dict[str, NDArray[Any]]) -> None:
    """Ranks of inserted pools: the rank of the execution target they are in, else their own, or the next free one if `s` has it.

    A pool inserted into a target becomes part of it whatever it was before, as in a move.
    """
    s, other = plan.s, plan.other
    if not len(plan.fresh):
        return
    ranks = other.rank[plan.fresh].astype(np.int64)
    above_s = np.where(plan.under >= 0, s.rank[plan.under], -1)[plan.block_of]
    parent = other.parent[plan.blocks]
    above_other = np.where((plan.under >= 0) & (parent >= 0), other.rank[parent], -1)[plan.block_of]
    inherited = (above_s >= 0) | ((plan.under >= 0)[plan.block_of] & (ranks == above_other))
    own = np.unique(ranks[~inherited & (ranks >= 0)])
    used = np.unique(s.rank[plan.stays])
    clash = own[np.isin(own, used)]
    if len(clash):
        used = np.union1d(used[used >= 0], own)
        free = int(used[-1]) + 1 if int(used[-1]) + len(clash) <= np.iinfo(np.int32).max else 0
        spare = np.setdiff1d(np.arange(free, free + len(used) + len(clash)), used)[: len(clash)]
        at = np.minimum(np.searchsorted(clash, ranks), len(clash) - 1)
        ranks = np.where(~inherited & (clash[at] == ranks), spare[at], ranks)
    columns["rank"][plan.from_other[plan.fresh]] = np.where(inherited, above_s, ranks)
    is_part = (above_s >= 0)[np.searchsorted(plan.fresh, plan.moved_w)]
    columns["rank"][plan.from_s[plan.moved_v[~is_part]]] = s.rank[plan.moved_v[~is_part]]


def _sparse(plan: _Plan, columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Names, uuids, tags and capacities by new number; `s` wins where both say something."""
    s, other, from_s, from_other = plan.s, plan.other, plan.from_s, plan.from_other
    known = (plan.to_s >= 0).copy()
    known[plan.moved_w] = True
    tags = {int(from_other[w]): dict(values) for w, values in other.tags.items()}
    for v, values in s.tags.items():
        tags[int(from_s[v])] = {**tags.get(int(from_s[v]), {}), **values}
    full, size = columns.pop("full"), columns["size"]
    cut = np.flatnonzero(full > size)
    names, uuid_texts = (
        {int(from_other[w]): text for w, text in theirs.items() if not known[w]}
        | {int(from_s[v]): text for v, text in mine.items()}
        for theirs, mine in ((other.names, s.names), (other.uuid_texts, s.uuid_texts))
    )
    return {
        "names": names,
        "uuid_texts": uuid_texts,
        "tags": tags,
        "capacity": dict(zip(cut.tolist(), full[cut].tolist(), strict=True)),
    }


def _settle_names(plan: _Plan, made: Structure) -> None:
    """Make names explicit that a template no longer gives because a size, a rank or the id of a joined ancestor has changed."""
    s, other = plan.s, plan.other
    fields = [template_fields(kind) for kind in made.kinds]
    by_ancestor = np.array([bool(f - {"id", "size", "rank"}) for f in fields], np.bool_)
    by_number = np.array([bool(f & {"size", "rank"}) for f in fields], np.bool_)
    new = plan.from_other[plan.fresh]
    kinds = made.kind[new]
    doubtful = by_number[kinds]
    if (s.id[plan.to_s[plan.pairs]] != other.id[plan.pairs]).any():
        doubtful |= by_ancestor[kinds]
    for w in plan.fresh[doubtful].tolist():
        made.names.setdefault(int(plan.from_other[w]), other.name(w))
    changed = plan.stays[by_number[s.kind[plan.stays]]]
    for v in changed[s.size[changed] != made.size[plan.from_s[changed]]].tolist():
        made.names.setdefault(int(plan.from_s[v]), s.name(v))
    for w in plan.moved_w.tolist():
        place, name = int(plan.from_other[w]), other.name(w)
        made.names.pop(place, None)
        if made.name(place) != name:
            made.names[place] = name


# -- auxiliary graphs ----------------------------------------------------------------------------------------------------


def _subsystems(plan: _Plan) -> dict[str, Subsystem]:
    s, other = plan.s, plan.other
    made = {name: graph.renumber(plan.from_s) for name, graph in s.subsystems.items()}
    for name, graph in other.subsystems.items():
        added = graph.renumber(plan.from_other)
        made[name] = _joint_edges(plan, made[name], added) if name in made else added
    if len(made) > limits.SUBSYSTEMS_MAX:
        raise LimitExceeded(f"{len(made)} auxiliary graphs, at most {limits.SUBSYSTEMS_MAX} are allowed")
    return made


def _contained(plan: _Plan, hierarchy: str) -> Subsystem:
    """The containment tree of the other graph as edges of a hierarchy, below the pool that its root is merged under."""
    other, numbers = plan.other, plan.from_other
    inside = np.arange(other.tree_end, dtype=np.int32)
    above = numbers[other.parent[inside]]
    above[0] = plan.from_s[plan.parent]
    return Subsystem(hierarchy, True, above, numbers[inside], np.zeros(len(inside), np.uint16), [CONTAINS])


def _joint_edges(plan: _Plan, mine: Subsystem, added: Subsystem) -> Subsystem:
    """The edges of both; an edge that both have (same ends and relation) occurs once."""
    if mine.hierarchy != added.hierarchy:
        a, b = ("hierarchy", "graph") if mine.hierarchy else ("graph", "hierarchy")
        raise MergeConflict(f"'{mine.name}' is a {a} here and a {b} in the other", where=mine.name, hint="rename one of them")
    relations = {relation: i for i, relation in enumerate(mine.relations)}
    renumbered = [relations.setdefault(relation, len(relations)) for relation in added.relations]
    if len(relations) > limits.RELATIONS_MAX:
        raise LimitExceeded(f"{len(relations)} different relations, at most {limits.RELATIONS_MAX} are allowed", where=mine.name)
    src, dst = np.concatenate([mine.src, added.src]), np.concatenate([mine.dst, added.dst])
    relation_column = np.concatenate([mine.relation, np.array(renumbered, np.uint16)[added.relation]])
    keep = np.ones(len(src), np.bool_)
    again = repeated(src, dst, relation_column)
    again = again[again >= len(mine)]
    keep[again] = False
    if int(keep.sum()) > limits.EDGES_MAX:
        raise LimitExceeded(f"{int(keep.sum())} edges, at most {limits.EDGES_MAX} are allowed", where=mine.name)
    attributes = {
        key: np.concatenate([attribute_column(mine, key, added), attribute_column(added, key, mine)])
        for key in dict.fromkeys([*mine.attributes, *added.attributes])
    }
    joint = Subsystem(mine.name, mine.hierarchy, src, dst, relation_column, list(relations), attributes)
    if accounts.CAPACITY in joint.attributes:
        accounts.join(joint, len(mine), _same(joint, again, len(mine)))
    joint = joint.restricted(keep)
    if joint.hierarchy:
        _check_forest(plan, joint)
    return joint


def _same(joint: Subsystem, again: Int64, first: int) -> tuple[Int64, Int64]:
    """The rows of the edges that both have, each once: those of the first graph and, from `first` on, those of the second."""
    if not len(again):
        return again, again
    ends = np.stack([joint.src, joint.dst, joint.relation], axis=1)
    _, index, of = np.unique(ends, axis=0, return_index=True, return_inverse=True)
    ours, at = np.unique(index[of][again], return_index=True)
    return ours[ours < first], again[at[ours < first]]


def attribute_column(graph: Subsystem, key: str, partner: Subsystem) -> NDArray[Any]:
    """A column of edge attributes in the type that both can be written in; absent values where the graph has none."""
    have = graph.attributes.get(key)
    theirs = partner.attributes.get(key)
    numeric = all(column is None or column.dtype.kind == "f" for column in (have, theirs))
    if have is None:
        return np.full(len(graph), np.nan) if numeric else np.full(len(graph), None, object)
    if numeric or have.dtype == object:
        return have
    values = have.astype(object)
    values[np.isnan(have)] = None
    return values


def _check_forest(plan: _Plan, graph: Subsystem) -> None:
    twice = repeated(graph.dst)
    if len(twice):
        new = int(graph.dst[twice[0]])
        mine = np.flatnonzero(plan.from_s == new)
        where = plan.s.where(int(mine[0])) if len(mine) else plan.other.where(int(np.flatnonzero(plan.from_other == new)[0]))
        raise MergeConflict(
            f"would have two parents in hierarchy '{graph.name}'", where=where, hint="unlink it from one of them first"
        )
    graph.require_forest()

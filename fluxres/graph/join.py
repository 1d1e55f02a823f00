"""Which pools of two machines are the same: the first half of a merge (specs/decisions/0004-merge.md).

Both containment trees are walked from the root, level by level: pools with the same name below the same joined parent are the
same pool.  A level is two arrays of numbers (`identity`), so the cost depends on the number of levels, not of pools.  Pools
outside the tree are matched by uuid, or by their path in an auxiliary hierarchy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.errors import MergeConflict, UnknownPool, UsageError
from fluxres.graph.auxiliary import Int32
from fluxres.graph.identity import NameKeys, repeated, texts_needed, uuid_keys
from fluxres.graph.structure import Structure
from fluxres.syntax import template

UuidKeys = NDArray[np.uint64]


# -- where the root of other goes ----------------------------------------------------------------------------------------


def placed(s: Structure, other: Structure, at: str | None) -> tuple[Structure, int]:
    """`other` under its new name, and the vertex of `s` to attach its root to (-1: its root is the root of `s`)."""
    root = other.kind_of(0).type
    if at is None:
        if other.hierarchy != s.hierarchy or root != s.kind_of(0).type:
            raise MergeConflict(
                f"{root} '/{other.hierarchy}' and {s.kind_of(0).type} '/{s.hierarchy}' have no common ancestor",
                where=f"/{other.hierarchy}",
                hint="name the path of the graph to merge it at",
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
        _join_level(s, other, to_s, names, np.zeros(1, np.int32), np.full(1, parent, np.int32))
    for depth in range(1, int(other.depth.max()) + 1):
        level = np.flatnonzero((other.depth == depth) & (to_s < 0)).astype(np.int32)
        above = to_s[other.parent[level]]
        joined = np.flatnonzero(to_s >= 0)
        names.ancestors_differ = bool((s.id[to_s[joined]] != other.id[joined]).any())
        _join_level(s, other, to_s, names, level[above >= 0], above[above >= 0])
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


def _join_level(s: Structure, other: Structure, to_s: Int32, names: NameKeys, level: Int32, above: Int32) -> None:
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

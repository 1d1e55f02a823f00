"""Which pools of two structures are the same: of a machine, and of a new description of it.

Pools of the containment tree are the same if they have the same path and type, pools outside it if an auxiliary graph gives them
the same name.  Of the rest, pools with the same uuid or host name have moved.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from fluxres.arrays import Int32, Mask
from fluxres.errors import MergeConflict, UnknownPool
from fluxres.graph.identity import NameKeys, uuid_keys
from fluxres.graph.merge import join_level
from fluxres.graph.structure import Structure


class Correspondence:
    """The pools of `s` that `other` describes.

    Args:
        s: the machine.
        other: the description.

    Attributes:
        to_s: int32, by vertex of `other` the same pool of `s`; -1 for a new one.
        to_other: int32, the inverse; -1 for a pool that is gone.

    Errors: MergeConflict if the roots differ.
    Cost: O(n of both), vectorised; Python for pools outside the containment tree, and for hosts found nowhere by their path.
    """

    def __init__(self, s: Structure, other: Structure) -> None:
        self.s, self.other = s, other
        _require_one_machine(s, other)
        self.to_s = np.full(other.n, -1, np.int32)
        self.to_s[0] = 0
        self._names = NameKeys()
        self._match_outside()
        self._match_below()
        if self._match_moved():
            self._match_below()

    @cached_property
    def to_other(self) -> Int32:
        found = np.full(self.s.n, -1, np.int32)
        same = self.pairs
        found[self.to_s[same]] = same
        return found

    @cached_property
    def pairs(self) -> Int32:
        """The vertices of `other` that `s` has."""
        return np.flatnonzero(self.to_s >= 0).astype(np.int32)

    @cached_property
    def new_tops(self) -> Int32:
        """The topmost pools that only `other` has, ascending."""
        return _tops(self.other.parent, self.to_s < 0)

    @cached_property
    def gone_tops(self) -> Int32:
        """The topmost pools that only `s` has, ascending."""
        return _tops(self.s.parent, self.to_other < 0)

    @cached_property
    def gone_top(self) -> Int32:
        """By vertex of `s`, the topmost pool that it is gone with; -1 for pools that stay, also below one that is gone."""
        s, found = self.s, np.full(self.s.n, -1, np.int32)
        found[self.gone_tops] = self.gone_tops
        left = (self.to_other < 0) & (found < 0)
        for depth in range(1, int(s.depth.max()) + 1 if left.any() else 0):
            level = np.flatnonzero(left & (s.depth == depth))
            found[level] = found[s.parent[level]]
        return found

    @cached_property
    def moved_tops(self) -> Int32:
        """The vertices of `other` that `s` has below another pool, or by another name, ascending; not what moved with them."""
        w = self.pairs[self.pairs > 0]
        v, above = self.to_s[w], self.other.parent[w]
        elsewhere = np.where(above >= 0, self.to_s[above], -1) != self.s.parent[v]
        renamed = [u for u in self._found_by_uuid.tolist() if self.other.name(u) != self.s.name(int(self.to_s[u]))]
        return np.union1d(w[elsewhere], renamed).astype(np.int32)

    # -- matching ----------------------------------------------------------------------------------------------------

    def _match_outside(self) -> None:
        """Match roots outside the containment tree by their name in an auxiliary graph, else by uuid."""
        s, other = self.s, self.other
        taken: set[int] = set()
        roots = (np.flatnonzero(other.parent[other.tree_end :] < 0) + other.tree_end).tolist()
        for w in roots:
            for name in other.names_outside(w):
                try:
                    v = s.vertex(name)
                except UnknownPool:
                    continue
                if v >= s.tree_end and s.parent.item(v) < 0 and v not in taken and _same_type(s, v, other, w):
                    self.to_s[w] = v
                    taken.add(v)
                    break
        self._found_by_uuid = np.zeros(0, np.int32)

    def _match_below(self) -> None:
        """Match by name what is below pools that match, level by level."""
        for depth in range(1, int(self.other.depth.max()) + 1):
            self._drop_other_types(join_level(self.s, self.other, self.to_s, self._names, depth))
        self.__dict__.pop("pairs", None)

    def _drop_other_types(self, found: Int32) -> None:
        s, other, to_s = self.s, self.other, self.to_s
        numbers: dict[str, int] = {}
        types_s, types_other = (
            np.array([numbers.setdefault(kind.type, len(numbers)) for kind in each.kinds], np.int64) for each in (s, other)
        )
        differ = types_s[s.kind[to_s[found]]] != types_other[other.kind[found]]
        to_s[found[differ]] = -1
        # A pool that was found by its uuid keeps its match.
        taken = np.bincount(to_s[to_s >= 0], minlength=s.n) > 1
        if taken.any():
            twice = found[taken[to_s[found]] & (to_s[found] >= 0)]
            to_s[twice] = -1

    def _match_moved(self) -> bool:
        """Match pools by uuid, and execution targets by host name, where nothing has their path."""
        s, other, to_s = self.s, self.other, self.to_s
        left_other = np.flatnonzero(to_s < 0).astype(np.int32)
        left = np.ones(s.n, np.bool_)
        left[to_s[to_s >= 0]] = False
        left_s = np.flatnonzero(left).astype(np.int32)
        if not len(left_other) or not len(left_s):
            return False
        keys_s, keys_other = uuid_keys([s, other])
        _, at_s, at_other = np.intersect1d(keys_s[left_s], keys_other[left_other], return_indices=True)
        by_uuid = [
            (v, w)
            for v, w in zip(left_s[at_s].tolist(), left_other[at_other].tolist(), strict=True)
            if (v < s.tree_end) == (w < other.tree_end) and _same_type(s, v, other, w)
        ]
        for v, w in by_uuid:
            to_s[w] = v
            left[v] = False
        self._found_by_uuid = np.array([w for _, w in by_uuid], np.int32)
        by_host = self._hosts(left)
        for v, w in by_host:
            to_s[w] = v
        return bool(by_uuid or by_host)

    def _hosts(self, left: Mask) -> list[tuple[int, int]]:
        """Execution targets of both that have the same name and no match yet."""
        s, other = self.s, self.other
        _, tops_s = s.execution_targets
        _, tops_other = other.execution_targets
        tops_s = tops_s[left[tops_s] & (tops_s < s.tree_end)]
        tops_other = tops_other[(self.to_s[tops_other] < 0) & (tops_other < other.tree_end)]
        if not len(tops_s) or not len(tops_other):
            return []
        hosts, twice = dict[str, int](), set[str]()
        for v in tops_s.tolist():
            name = s.name(v)
            twice.update([name] * (name in hosts))
            hosts[name] = v
        found = dict[str, int]()
        for w in tops_other.tolist():
            name = other.name(w)
            if name in hosts and _same_type(s, hosts[name], other, w):
                twice.update([name] * (name in found))
                found[name] = w
        return [(hosts[name], w) for name, w in found.items() if name not in twice]


def _require_one_machine(s: Structure, other: Structure) -> None:
    mine, theirs = f"{s.kind_of(0).type} '/{s.hierarchy}'", f"{other.kind_of(0).type} '/{other.hierarchy}'"
    if mine != theirs:
        raise MergeConflict(
            f"the description is of the {theirs}, not of the {mine}",
            hint="`fluxres load` loads it as another graph; --graph NAME names the graph to change",
        )


def _same_type(s: Structure, v: int, other: Structure, w: int) -> bool:
    return s.kind_of(v).type == other.kind_of(w).type


def _tops(parent: Int32, which: Mask) -> Int32:
    """Of these pools, those whose parent is not among them."""
    return np.flatnonzero(which & ~((parent >= 0) & which[parent])).astype(np.int32)

"""What a new description of a machine changes: the value that `ResourceGraph.diff` and `ResourceGraph.apply` return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluxres.arrays import Int32, Int64, Mask
from fluxres.documents.document import plural
from fluxres.graph.accounts import capacities
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.correspondence import Correspondence
from fluxres.graph.kinds import DRAW, EXCLUSIVE, STATES, WAY, Kind
from fluxres.graph.structure import Structure


@dataclass(frozen=True, slots=True)
class SubtreeChange:
    """A pool that appears or goes, with everything below it.

    Args:
        path: of the pool.
        pools: number of pools that appear or go with it, itself included.
        jobs: those that hold some of it, now or later.
    """

    path: str
    pools: int
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Changed:
    """One attribute that changes in the same way in some pools.

    Args:
        attribute: ``size``, ``unit``, ``basename``, ``state``, ``exclusive``, ``way``, ``property KEY`` or ``tag KEY``.
        before, after: its values; None where there is none.
        vertices: the pools, in the present graph.
    """

    attribute: str
    before: object
    after: object
    vertices: Int32 = field(repr=False, compare=False)
    structure: Structure = field(repr=False, compare=False)

    @cached_property
    def paths(self) -> list[str]:
        return self.structure.wheres(self.vertices.tolist())


@dataclass(frozen=True, slots=True)
class EdgeChange:
    """An edge between pools that stay.

    Args:
        change: ``added``, ``removed`` or ``changed``.
        graph, source, target, relation: the edge.
        before, after: its attributes, those that differ if it is changed; empty where there is no edge.
    """

    change: str
    graph: str
    source: str
    target: str
    relation: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


class EdgeRows:
    """The edges of one auxiliary graph that a description changes, by row.

    Args:
        before, after: the graph in the machine and in its description; one may be missing.
        same: the pools.

    Attributes:
        added: rows of `after`.
        removed: rows of `before`.
        changed: rows of both, whose attributes differ.
    """

    def __init__(self, before: Subsystem | None, after: Subsystem | None, same: Correspondence) -> None:
        self.before, self.after, self.same = before, after, same
        keys = self._keys()
        mine, theirs = keys[: _length(before)], keys[_length(before) :]
        self.removed = np.flatnonzero(~np.isin(mine, theirs))
        self.added = np.flatnonzero(~np.isin(theirs, mine))
        _, at_mine, at_theirs = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
        self.changed = at_mine, at_theirs
        if before is not None and after is not None:
            differ = _rows_differ(before, after, at_mine, at_theirs)
            self.changed = at_mine[differ], at_theirs[differ]

    def _keys(self) -> Int64:
        """A number for each edge of both, the same for the same ends and relation; repeated edges are counted."""
        s, to_s = self.same.s, self.same.to_s
        joint = np.where(to_s >= 0, to_s, s.n + np.arange(len(to_s)))
        relations: dict[str, int] = {}
        columns: list[NDArray[Any]] = []
        for graph, numbers in ((self.before, np.arange(s.n)), (self.after, joint)):
            if graph is not None:
                of = np.array([relations.setdefault(name, len(relations)) for name in graph.relations], np.int64)
                columns.append(np.stack([numbers[graph.src], numbers[graph.dst], of[graph.relation]]))
        rows = np.concatenate(columns, axis=1)
        order = np.lexsort(rows)
        ordered = rows[:, order]
        starts = np.concatenate([[True], (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)])[: len(order)]
        group = np.cumsum(starts) - 1
        # The first edge of one graph is the first one of the other.
        is_theirs = order >= _length(self.before)
        repeats = np.zeros(len(order), np.int64)
        for side in (False, True):
            at = np.flatnonzero(is_theirs == side)
            first = np.concatenate([[True], group[at][1:] != group[at][:-1]])[: len(at)]
            index = np.arange(len(at))
            repeats[at] = index - np.maximum.accumulate(np.where(first, index, 0)) if len(at) else 0
        keys = np.empty(len(order), np.int64)
        keys[order] = group * (int(repeats.max(initial=0)) + 1) + repeats
        return keys

    @cached_property
    def added_between(self) -> Mask:
        """Which of the added edges join pools that the machine has."""
        if self.after is None:
            return np.zeros(0, np.bool_)
        to_s = self.same.to_s
        found: Mask = (to_s[self.after.src[self.added]] >= 0) & (to_s[self.after.dst[self.added]] >= 0)
        return found

    @cached_property
    def removed_between(self) -> Mask:
        """Which of the removed edges join pools that stay."""
        if self.before is None:
            return np.zeros(0, np.bool_)
        stays = self.same.to_other >= 0
        found: Mask = stays[self.before.src[self.removed]] & stays[self.before.dst[self.removed]]
        return found

    def __iter__(self) -> Iterator[EdgeChange]:
        s, other = self.same.s, self.same.other
        if self.before is not None:
            for row in self.removed[self.removed_between].tolist():
                yield _edge("removed", s, self.before, row, _attributes(self.before, row), {})
        if self.after is not None:
            for row in self.added[self.added_between].tolist():
                yield _edge("added", other, self.after, row, {}, _attributes(self.after, row))
        if self.before is not None and self.after is not None:
            for mine, theirs in zip(*(rows.tolist() for rows in self.changed), strict=True):
                old, new = _attributes(self.before, mine), _attributes(self.after, theirs)
                keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
                yield _edge("changed", s, self.before, mine, {k: old.get(k) for k in keys}, {k: new.get(k) for k in keys})


def _length(graph: Subsystem | None) -> int:
    return 0 if graph is None else len(graph)


def _attributes(graph: Subsystem, row: int) -> dict[str, Any]:
    return {key: value for key, value in graph.edge_data(row).items() if key not in ("subsystem", "type")}


def _edge(
    change: str, s: Structure, graph: Subsystem, row: int, before: Mapping[str, Any], after: Mapping[str, Any]
) -> EdgeChange:
    source, target = s.where(graph.src.item(row)), s.where(graph.dst.item(row))
    return EdgeChange(change, graph.name, source, target, graph.relations[graph.relation.item(row)], before, after)


def _rows_differ(a: Subsystem, b: Subsystem, at_a: Int64, at_b: Int64) -> Mask:
    differ = np.zeros(len(at_a), np.bool_)
    for key in a.attributes.keys() | b.attributes.keys():
        left, right = a.attributes.get(key), b.attributes.get(key)
        if left is not None and right is not None and left.dtype.kind == right.dtype.kind == "f":
            x, y = left[at_a], right[at_b]
            differ |= (x != y) & ~(np.isnan(x) & np.isnan(y))
        else:
            pairs = zip(_objects(left, at_a), _objects(right, at_b), strict=True)
            differ |= np.fromiter((p != q for p, q in pairs), np.bool_, len(at_a))
    return differ


def _objects(column: NDArray[Any] | None, at: Int64) -> list[Any]:
    if column is None:
        return [None] * len(at)
    values = column[at].tolist()
    return [None if isnan(value) else value for value in values] if column.dtype.kind == "f" else values


class Difference:
    """What differs between a machine and a description of it; false if nothing does.

    Args:
        same: the machine and the description.
        jobs: by vertex of the machine, the jobs that hold some of a pool that is gone.

    What belongs to the machine rather than to its description does not differ: allocations, uuids, ranks, states other than `up`,
    and tags that the description does not have.

    Cost: O(pools + edges), vectorised; Python for what differs.
    """

    def __init__(self, same: Correspondence, jobs: Mapping[int, tuple[str, ...]]) -> None:
        self.same = same
        self._jobs = jobs
        names = dict.fromkeys([*same.s.subsystems, *same.other.subsystems])
        self.edge_rows = {name: EdgeRows(same.s.subsystems.get(name), same.other.subsystems.get(name), same) for name in names}
        self.drained: list[str] = []
        """After `apply`: the pools that are gone from the description and stay until no job holds them."""

    def __bool__(self) -> bool:
        return bool(len(self.same.new_tops) or len(self.same.gone_tops) or self.changes_what_stays)

    def jobs_of(self, v: int) -> tuple[str, ...]:
        """The jobs that hold some of a pool that is gone, by vertex of the machine."""
        return self._jobs.get(v, ())

    @property
    def changes_what_stays(self) -> bool:
        """Whether anything differs in pools that stay, or between them."""
        rows = self.edge_rows.values()
        edges = any(each.added_between.any() or each.removed_between.any() or len(each.changed[0]) for each in rows)
        return bool(len(self.same.moved_tops) or self.graphs or self.changed or edges)

    def __repr__(self) -> str:
        return f"<Difference: {self.summary}>"

    @cached_property
    def summary(self) -> str:
        """The numbers of differences, in words."""
        rows, drained = self.edge_rows.values(), set(self.drained)
        edges = sum(int(each.added_between.sum() + each.removed_between.sum()) + len(each.changed[0]) for each in rows)
        facts = [
            (sum(part.pools for part in self.added), "pool", "added"),
            (sum(part.pools for part in self.removed if part.path not in drained), "pool", "removed"),
            (sum(part.pools for part in self.removed if part.path in drained), "pool", "drained"),
            (len(self.moved), "pool", "moved"),
            (len(self.pools_changed), "pool", "changed"),
            (edges, "edge", "added, removed or changed"),
            (len(self.graphs), "auxiliary graph", "added, removed or changed"),
        ]
        said = [f"{plural(number, what)} {how}" for number, what, how in facts if number]
        return ", ".join(said) or "no difference"

    @cached_property
    def added(self) -> list[SubtreeChange]:
        """Pools that only the description has, without what is below them."""
        other, new = self.same.other, _counted(self.same.to_s < 0)
        tops = self.same.new_tops.tolist()
        return [SubtreeChange(path, int(new[other.end[w]] - new[w])) for w, path in zip(tops, other.wheres(tops), strict=True)]

    @cached_property
    def removed(self) -> list[SubtreeChange]:
        """Pools that the description does not have, without what is below them."""
        s, gone = self.same.s, _counted(self.same.to_other < 0)
        tops = self.same.gone_tops.tolist()
        return [
            SubtreeChange(path, int(gone[s.end[v]] - gone[v]), self.jobs_of(v))
            for v, path in zip(tops, s.wheres(tops), strict=True)
        ]

    @cached_property
    def moved(self) -> list[tuple[str, str]]:
        """Present and new path of pools with the same uuid or host name."""
        tops = self.same.moved_tops
        return list(zip(self.same.s.wheres(self.same.to_s[tops].tolist()), self.same.other.wheres(tops.tolist()), strict=True))

    @cached_property
    def graphs(self) -> list[tuple[str, str | None, str | None]]:
        """Auxiliary graphs that appear, go, or change between ``hierarchy`` and ``graph``: name, before, after."""
        found = []
        for name, rows in self.edge_rows.items():
            before, after = (
                None if graph is None else "hierarchy" if graph.hierarchy else "graph" for graph in (rows.before, rows.after)
            )
            if before != after:
                found.append((name, before, after))
        return found

    @cached_property
    def edges(self) -> list[EdgeChange]:
        """Edges between pools that stay."""
        return [edge for rows in self.edge_rows.values() for edge in rows]

    @property
    def pools_changed(self) -> Int32:
        """The pools in `changed`, as vertices of the machine, each once, ascending."""
        found = [each.vertices for each in self.changed]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int32)

    @cached_property
    def changed(self) -> list[Changed]:
        """What changes in pools that stay."""
        s, other, w = self.same.s, self.same.other, self.same.pairs
        v = self.same.to_s[w]
        part = (s.full_size[v] == other.full_size[w]) & (s.size[v] != other.size[w])  # of the same pool
        return [
            *self._column("size", s.full_size[v], other.full_size[w]),
            *self._column("size", s.size[v], other.size[w], only=part),
            *self._of_kinds(),
            *self._column("state", s.state[v], other.state[w], STATES, only=(s.state[v] == 0) & (other.state[w] != 0)),
            *self._column("exclusive", s.flags[v] & EXCLUSIVE != 0, other.flags[w] & EXCLUSIVE != 0),
            *self._column("way", s.flags[v] & WAY != 0, other.flags[w] & WAY != 0),
            *self._tags(),
        ]

    @cached_property
    def of_other_units(self) -> Mask:
        """Which pools of the machine change what a unit of them is, or what they draw by themselves."""
        marked = np.zeros(self.same.s.n, np.bool_)
        for each in self._of_kinds():
            if each.attribute == "unit" or each.attribute.startswith(f"property {DRAW}"):
                marked[each.vertices] = True
        return marked

    def _column(
        self,
        attribute: str,
        before: NDArray[Any],
        after: NDArray[Any],
        said: tuple[str, ...] | None = None,
        only: Mask | None = None,
    ) -> list[Changed]:
        differ = np.flatnonzero(before != after if only is None else only)
        if not len(differ):
            return []
        pairs, which = np.unique(np.stack([before[differ], after[differ]]), axis=1, return_inverse=True)
        at, s = self.same.to_s[self.same.pairs[differ]], self.same.s
        found = []
        for number, (old, new) in enumerate(pairs.T.tolist()):
            values = (old, new) if said is None else (said[old], said[new])
            found.append(Changed(attribute, *values, np.sort(at[which.reshape(-1) == number]), s))
        return found

    def _of_kinds(self) -> list[Changed]:
        s, other, w = self.same.s, self.same.other, self.same.pairs
        v = self.same.to_s[w]
        codes = s.kind[v].astype(np.int64) * len(other.kinds) + other.kind[w]
        found: dict[tuple[str, str, str], tuple[object, object, list[Int32]]] = {}
        pairs, which = np.unique(codes, return_inverse=True)
        for number, code in enumerate(pairs.tolist()):
            mine, theirs = (_facts(k) for k in (s.kinds[code // len(other.kinds)], other.kinds[code % len(other.kinds)]))
            if mine == theirs:
                continue
            vertices = v[which.reshape(-1) == number]
            for key in {**mine, **theirs}:
                old, new = mine.get(key), theirs.get(key)
                if old != new:
                    said = (_shown(old), _shown(new))
                    if said == (True, True):  # one of them has no value, and they are two properties
                        said = (_shown(old, "no value"), _shown(new, "no value"))
                    found.setdefault((key, repr(old), repr(new)), (*said, []))[2].append(vertices)
        return [Changed(key, old, new, np.sort(np.concatenate(at)), s) for (key, _, _), (old, new, at) in found.items()]

    def _tags(self) -> list[Changed]:
        s, to_s = self.same.s, self.same.to_s
        found: dict[tuple[str, bool | str | None, bool | str], list[int]] = {}
        for w, tags in self.same.other.tags.items():
            v = int(to_s[w])
            if v >= 0:
                own = s.tags.get(v, {})
                for key, value in tags.items():
                    if key not in own or own[key] != value:
                        old = _tag_shown(own[key]) if key in own else None
                        found.setdefault((key, old, _tag_shown(value)), []).append(v)
        return [Changed(f"tag {key}", old, new, np.array(sorted(at), np.int32), s) for (key, old, new), at in found.items()]


def _tag_shown(value: str | None) -> bool | str:
    return True if value is None else value


def _counted(mask: Mask) -> Int64:
    return np.concatenate([[0], np.cumsum(mask)])


def _facts(kind: Kind) -> dict[str, tuple[type, object]]:
    """The attributes of a kind, with their types, because 1 and True differ."""
    facts: dict[str, tuple[type, object]] = {"basename": (str, kind.basename)}
    if kind.unit is not None:
        facts["unit"] = str, kind.unit
    return facts | {f"property {key}": (type(value), True if value is None else value) for key, value in kind.properties}


def _shown(fact: tuple[type, object] | None, bare: object = True) -> object:
    """A fact for people, `bare` for a property without a value."""
    return None if fact is None else bare if fact[0] is type(None) else fact[1]


def gains_capacity(rows: EdgeRows) -> Int64:
    """The rows, in the machine, of changed edges that had no capacity and get one."""
    mine, theirs = rows.changed
    if rows.before is None or rows.after is None or not len(mine):
        return mine[:0]
    found: Int64 = mine[~is_finite(rows.before, mine) & is_finite(rows.after, theirs)]
    return found


def is_finite(graph: Subsystem, rows: Int64) -> Mask:
    """Which of these edges have a capacity."""
    return np.isfinite(capacities(graph)[rows])

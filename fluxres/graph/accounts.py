"""What a job can hold units of: the pools of a machine, and behind them its edges that have a capacity.

A link that carries 100 Gbit/s is used up like a pool of 100 units, so it is counted like one: it has a number behind those of the
pools, a size, nothing above it and nothing below.  Planner and records know numbers only and need not tell the two apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.errors import LimitExceeded, UnknownPool
from fluxres.graph.auxiliary import Int32, Subsystem

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure

CAPACITY: Final = "capacity"
FULL: Final = "full"
"""Attribute of an edge of which a copy took a part: its full capacity."""
LINKED: Final = "linked"
"""Attribute of an edge of which a child instance has nothing itself: its parent draws through it on request (rule N1)."""
UNIT: Final = "unit"
LARGER_UNIT: Final = "count in a larger unit"
"""What helps where a capacity is not countable."""
ARROW: Final = " -> "
_NONE: Final = np.zeros(0, np.int64)
_EXACT_MAX: Final = 1e9
"""Sums of capacities below it tell millionths of a unit apart."""


class Edge(NamedTuple):
    """An account that is an edge: of which auxiliary graph, and between which pools."""

    graph: Subsystem
    src: int
    dst: int


class _Limited:
    """The edges of one auxiliary graph that have a capacity, those between the same two pools in the same direction as one.

    Args:
        first: number of the first of them.
    """

    def __init__(self, graph: Subsystem, n: int, first: int) -> None:
        self.graph = graph
        self.first = first
        self._n = n
        #: Ends as one number, ascending, and whole units.
        self.codes, self.size = _capacities(graph, n)

    @property
    def stop(self) -> int:
        return self.first + len(self.codes)

    def of(self, src: Int32, dst: Int32) -> Int32:
        """The accounts of edges between these pools, -1 for those without a limit, or without an edge."""
        if not len(self.codes):
            return np.full(len(src), -1, np.int32)
        codes = src.astype(np.int64) * self._n + dst
        at = np.minimum(self.codes.searchsorted(codes), len(self.codes) - 1)
        found: Int32 = np.where((self.codes[at] == codes) & (src >= 0) & (dst >= 0), at + self.first, -1).astype(np.int32)
        return found

    def marked(self, key: str) -> Int32:
        """The accounts of edges that have a number of this name."""
        rows = np.flatnonzero(~np.isnan(_column(self.graph, key)))
        found = self.of(self.graph.src[rows], self.graph.dst[rows])
        return found[found >= 0]

    def ends(self, v: int) -> tuple[int, int]:
        return divmod(int(self.codes[v - self.first]), self._n)


class Accounts:
    """Pools and edges with a capacity of one structure, as columns.

    A capacity is counted in whole units, fractions are rounded down.  Edges of one graph between the same pools in the same
    direction carry together; if one of them has no capacity, or one past `limits.SIZE_MAX`, they carry whatever is asked.

    `parent`, `end`, `size`, `flags` and `type` are those of the structure, with a row for each edge behind them; without such
    edges they are the columns of the structure themselves.  The type number of an edge is the number of types of pools plus the
    place of its graph among the auxiliary graphs.
    """

    parent: Int32
    end: Int32
    size: NDArray[np.int64]
    flags: NDArray[np.uint8]
    type: NDArray[np.uint16]

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self._limited: list[_Limited] = []
        self.n = structure.n
        for graph in structure.subsystems.values():
            self._limited.append(_Limited(graph, structure.n, self.n))
            self.n = self._limited[-1].stop
        self._lay_out()

    def _lay_out(self) -> None:
        s = self.structure
        self.parent, self.end, self.size, self.flags, self.type = s.parent, s.end, s.size, s.flags, s.type
        more = self.n - s.n
        if not more:
            return
        numbers = np.repeat(np.arange(len(self._limited)), [len(of.codes) for of in self._limited]) + len(s.types)
        self.parent = np.concatenate([s.parent, np.full(more, -1, np.int32)])
        self.end = np.concatenate([s.end, np.arange(s.n + 1, self.n + 1, dtype=np.int32)])
        self.size = np.concatenate([s.size, *(of.size for of in self._limited)])
        self.flags = np.concatenate([s.flags, np.zeros(more, np.uint8)])
        self.type = np.concatenate([s.type, numbers.astype(np.uint16)])

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """Units of each account that may be held here: its size, and none of a pool that is only a way."""
        s = self.structure
        return s.units if self.n == s.n else np.concatenate([s.units, self.size[s.n :]])

    @cached_property
    def ways(self) -> NDArray[np.bool_]:
        """Pools that are here only as the way to others."""
        s = self.structure
        return s.ways if self.n == s.n else np.concatenate([s.ways, np.zeros(self.n - s.n, np.bool_)])

    @cached_property
    def linked(self) -> NDArray[np.bool_] | None:
        """Of what a child instance has nothing itself, and its parent gives on request; None where there is no such thing."""
        s = self.structure
        marks = [limited.marked(LINKED) for limited in self._limited if LINKED in limited.graph.attributes]
        if s.linked is None and not marks:
            return None
        found = np.zeros(self.n, np.bool_)
        if s.linked is not None:
            found[: s.n] = s.linked
        found[[v for of_graph in marks for v in of_graph.tolist()]] = True
        return found

    @cached_property
    def reduced(self) -> frozenset[int]:
        """Of what a copy took a part only: pools and edges."""
        marks = [limited.marked(FULL).tolist() for limited in self._limited if FULL in limited.graph.attributes]
        return frozenset(self.structure.capacity).union(*marks)

    # -- edges -------------------------------------------------------------------------------------------------------

    def is_edge(self, v: int) -> bool:
        """Whether an account is an edge."""
        return v >= self.structure.n

    def edge(self, v: int) -> Edge:
        """The edge of an account that is one."""
        limited = self._of(v)
        return Edge(limited.graph, *limited.ends(v))

    def _of(self, v: int) -> _Limited:
        return next(limited for limited in self._limited if v < limited.stop)

    def between(self, graph: Subsystem, src: Int32, dst: Int32) -> Int32:
        """The accounts of edges of a graph between these pools, -1 for those that carry whatever is asked."""
        return next(limited for limited in self._limited if limited.graph is graph).of(src, dst)

    def kind(self, graph: Subsystem) -> int:
        """The type number of edges of a graph."""
        return len(self.structure.types) + next(at for at, limited in enumerate(self._limited) if limited.graph is graph)

    # -- facts -------------------------------------------------------------------------------------------------------

    def of_type(self, number: int) -> Int32:
        """The accounts of a type number, ascending."""
        at = number - len(self.structure.types)
        if at < 0:
            return self.structure.of_type(self.structure.types[number])
        return np.arange(self._limited[at].first, self._limited[at].stop, dtype=np.int32)

    def unit(self, v: int) -> str | None:
        """What an account is counted in; an edge that does not say it, in what its graph distributes."""
        if v < self.structure.n:
            return self.structure.kind_of(v).unit
        return self._units_of_edges[v - self.structure.n]

    @cached_property
    def _units_of_edges(self) -> list[str | None]:
        found: list[str | None] = []
        default = {feeds.kind: feeds.unit for feeds in self.structure.feeds}
        for number, limited in enumerate(self._limited, len(self.structure.types)):
            column = limited.graph.attributes.get(UNIT)
            own = dict.fromkeys(range(limited.first, limited.stop), default.get(number))
            if column is not None:
                rows = [row for row, value in enumerate(column.tolist()) if isinstance(value, str)]
                accounts = limited.of(limited.graph.src[rows], limited.graph.dst[rows])
                own |= {v: column[row] for v, row in zip(accounts.tolist(), rows, strict=True) if v >= 0}
            found += own.values()
        return found

    def is_way(self, v: int) -> bool:
        """Whether it is a pool that is here only as the way to others."""
        return v < self.structure.n and self.structure.is_way(v)

    def exclusive_around(self, v: int) -> list[int]:
        """See :meth:`Structure.exclusive_around`."""
        return self.structure.exclusive_around(v) if v < self.structure.n else []

    def ancestors(self, v: int) -> list[int]:
        """Pools above an account, from the parent up."""
        return self.structure.ancestors(v) if v < self.structure.n else []

    def unavailable_above(self, v: int) -> int:
        """See :meth:`Structure.unavailable_above`; an edge has no state of its own."""
        return self.structure.unavailable_above(v) if v < self.structure.n else -1

    # -- names -------------------------------------------------------------------------------------------------------

    def where(self, v: int) -> str:
        """How messages and records name an account: a pool as `Structure.where` does, an edge by its graph and both ends.

        Such as ``power: /demo/rack0 -> /demo/rack0/node3``.
        """
        return self._named(v, self.structure.where)

    def by_uuid(self, v: int) -> str:
        """A name for an account that stays while pools move, and that :meth:`number` takes: uuids instead of paths."""
        return self._named(v, self.structure.uuid)

    def _named(self, v: int, name: Callable[[int], str]) -> str:
        if v < self.structure.n:
            return name(v)
        graph, src, dst = self.edge(v)
        return f"{graph.name}: {name(src)}{ARROW}{name(dst)}"

    def number(self, where: str) -> int:
        """The account that :meth:`where` names so, or the pool with this path, URI or uuid.

        Errors: UnknownPool.  Cost: the names of all edges at the first call with a name that no ends can be found of.
        """
        found = self.edge_named(where)
        if found >= 0:
            return found
        try:
            return self.structure.vertex(where)
        except UnknownPool:
            if not is_edge(where):
                raise
            hint = "an edge is named as `allocated` shows it, such as 'power: /demo/rack0 -> /demo/rack0/node3'"
            raise UnknownPool(f"no edge with a capacity is called {where!r:.200}", hint=hint) from None

    def edge_named(self, where: str) -> int:
        """The edge that :meth:`where` names so, or whose ends are named in another way; -1 for none."""
        if not is_edge(where):
            return -1
        found = self.edges_between(where, lambda end: [self.structure.vertex(end)])
        return found[0] if found else self._by_name.get(where, -1)

    def edges_between(self, where: str, ends: Callable[[str], list[int]]) -> list[int]:
        """The edges with a capacity that a text ``GRAPH: FROM -> TO`` names; none where it names none.

        Args:
            ends: the pools that one side of the arrow names.

        Errors: LimitExceeded past EDGES_MAX pairs.
        """
        name, _, sides = where.partition(": ")
        graph = self.structure.subsystems.get(name)
        if graph is None or sides.count(ARROW) != 1:
            return []
        try:
            src, dst = (np.array(ends(side), np.int32) for side in sides.split(ARROW))
        except UnknownPool:
            return []
        if len(src) * len(dst) > limits.EDGES_MAX:
            raise LimitExceeded(f"{len(src) * len(dst)} pairs of pools in the name of an edge", where=where[:200])
        between = self.between(graph, np.repeat(src, len(dst)), np.tile(dst, len(src)))
        found: list[int] = between[between >= 0].tolist()
        return found

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {self.where(v): v for v in range(self.structure.n, self.n)}

    def said(self, v: int) -> str:
        """An account for messages: pools outside the containment tree by their bare names, edges as they are named."""
        if v >= self.structure.n:
            return self.where(v)
        return self.structure.path(v) if v < self.structure.tree_end else self.structure.name(v)

    def same_in(self, other: Accounts, v: int) -> int:
        """The account of another structure that has the same uuid, or is the edge between the same pools; -1 for none."""
        try:
            if v < self.structure.n:
                return other.structure.vertex(self.structure.uuid(v))
            graph, *ends = self.edge(v)
            src, dst = (np.array([other.structure.vertex(self.structure.uuid(u))], np.int32) for u in ends)
        except UnknownPool:
            return -1
        found = other.structure.subsystems.get(graph.name)
        return -1 if found is None else int(other.between(found, src, dst)[0])

    # -- other generations -------------------------------------------------------------------------------------------

    def renumbered(self, made: Accounts, old_to_new: Int32) -> Int32:
        """New numbers of all accounts, by old number, where those of the pools are given; -1 for what is gone.

        Args:
            made: the accounts of the structure that the new numbers belong to.
        """
        found = [old_to_new]
        for limited in self._limited:
            graph = made.structure.subsystems.get(limited.graph.name)
            src, dst = np.divmod(limited.codes, max(self.structure.n, 1))
            gone = np.full(len(src), -1, np.int32)
            found.append(gone if graph is None else made.between(graph, old_to_new[src], old_to_new[dst]))
        return np.concatenate(found).astype(np.int32)


def cut(
    structure: Structure, graph: Subsystem, rows: NDArray[np.int64], units_of: Callable[[Int32], NDArray[np.int64]]
) -> Subsystem:
    """A graph whose edges carry only a part of what they did.

    Args:
        rows: edges to be cut; the others may be left as they are.
        units_of: the units that are left of these accounts.
    """
    accounts = structure.accounts.between(graph, graph.src[rows], graph.dst[rows])
    order = np.argsort(accounts, kind="stable")[int((accounts < 0).sum()) :]
    rows, accounts = rows[order], accounts[order]
    if not len(rows):
        return graph
    before = capacities(graph)
    after, full = before.copy(), _column(graph, FULL)
    limited, of = np.unique(accounts, return_inverse=True)
    left = units_of(limited)
    is_less = (left < structure.accounts.size[limited])[of]
    after[rows] = np.where(is_less, _one_after_the_other(of, left, before[rows]), before[rows])
    less = rows[is_less]
    full[less] = np.where(np.isnan(full[less]), before[less], full[less])
    attributes = {**graph.attributes, CAPACITY: after, FULL: full}
    if np.isnan(full).all():
        del attributes[FULL]
    return replace(graph, attributes=attributes)


def link(structure: Structure, copied: tuple[Structure, Int32] | None = None) -> None:
    """Mark the edges of a child instance of which it has nothing itself: they carry what its parent's do.

    Args:
        copied: of a new copy, what it is a copy of, and which pools of that.
    """
    for name, graph in structure.subsystems.items():
        carried, full = capacities(graph), _column(graph, FULL)
        of = _pairs(graph)  # of several edges between the same two pools, one may have all that is left
        rows = np.flatnonzero(np.bincount(of, weights=carried)[of] == 0)
        of_parent = np.nan_to_num(full)
        if copied is not None:  # what the job was given of an edge is the child's own, and the parent may not have all of one
            graph.attributes.pop(LINKED, None)
            whole, kept = copied[0].subsystems[name], np.zeros(copied[0].n, np.bool_)
            kept[copied[1]] = True
            of_parent = capacities(whole)[kept[whole.src] & kept[whole.dst]]
        if len(rows):
            mark = _column(graph, LINKED)
            carried[rows], mark[rows], full[rows] = of_parent[rows], 1, np.nan
            graph.attributes |= {CAPACITY: carried, LINKED: mark, FULL: full}


def lend(graph: Subsystem, numbers: Int32, of_parent: Mapping[int, int]) -> None:
    """Let edges of a child instance, of which it has nothing itself, carry what its parent's do.

    Args:
        numbers: the account of each row.
        of_parent: units by account.
    """
    carried, full, mark = capacities(graph), _column(graph, FULL), _column(graph, LINKED)
    for v, units in of_parent.items():
        rows = np.flatnonzero(numbers == v)
        carried[rows], full[rows], mark[rows] = 0, np.nan, 1
        carried[rows[:1]] = units
    graph.attributes |= {CAPACITY: carried, LINKED: mark, FULL: full}


def lift(graph: Subsystem, rows: NDArray[np.int64]) -> None:
    """Let edges carry whatever is asked."""
    for key in (CAPACITY, FULL, LINKED):
        if key in graph.attributes:
            column = _column(graph, key)
            column[rows] = np.nan
            graph.attributes[key] = column


def by_itself(graph: Subsystem) -> Subsystem:
    """The same edges without a parent to ask: they carry what it lets them carry."""
    return replace(graph, attributes={key: column for key, column in graph.attributes.items() if key != LINKED})


def join(graph: Subsystem, first: int, same: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
    """Edges of two graphs between the same two pools carry together what they do in both, but not more than in full.

    Of what neither graph has anything itself, the edges carry what those of the other graph do: it knows the parent as it is now.

    Args:
        graph: the edges of the one and, from row `first` on, those of the other.
        same: rows of the one and of the other that are the same edge; the latter will be dropped.
    """
    carried, full, mark = capacities(graph), _column(graph, FULL), _column(graph, LINKED)
    full = np.where(np.isnan(full), carried, full)
    of, rows = _pairs(graph), np.arange(len(graph))
    ours, theirs = (np.bincount(of, weights=each) > 0 for each in (rows < first, rows >= first))
    limited = ours & theirs & ~np.isnan(np.bincount(of, weights=carried))
    is_own = np.isnan(mark)
    has_own = np.bincount(of, weights=is_own) > 0
    counted = np.where(has_own[of], is_own, rows >= first)
    units = np.bincount(of, weights=np.where(counted, carried, 0))
    most = np.where(has_own[of], full, np.where(rows >= first, carried, 0))
    mine, others = same
    most[mine] = np.where(has_own[of[mine]], np.maximum(full[mine], full[others]), carried[others])
    kept = limited[of]
    kept[others] = False
    # Of several edges those that the other graph has as well come first.
    order = np.lexsort((rows, ~np.isin(rows, mine) & (rows < first), of))
    order = order[kept[order]]
    groups, at = np.unique(of[order], return_inverse=True)
    carried[order] = _one_after_the_other(at, units[groups], most[order])
    full[order], mark[order] = most[order], np.where(has_own[of[order]], np.nan, 1)
    graph.attributes[CAPACITY] = carried
    if LINKED in graph.attributes:
        graph.attributes[LINKED] = mark
        full = np.where(np.isnan(mark), full, np.nan)
    if FULL in graph.attributes:
        graph.attributes[FULL] = np.where(full > carried, full, np.nan)


def _pairs(graph: Subsystem) -> NDArray[np.int64]:
    """By row, the number of the pools that the edge leads from and to."""
    codes = graph.src.astype(np.int64) * (int(graph.dst.max(initial=0)) + 1) + graph.dst
    found: NDArray[np.int64] = np.unique(codes, return_inverse=True)[1]
    return found


def _one_after_the_other(
    of: NDArray[np.int64], units: NDArray[np.float64] | NDArray[np.int64], most: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What rows carry of the units of their groups: in each group one after the other as much as it can.

    Args:
        of: the group of each row, ascending.
        units: of each group.
        most: of each row.
    """
    before = np.cumsum(most) - most
    return np.clip(units[of] - (before - before[np.searchsorted(of, of)]), 0, most)


def is_edge(where: str) -> bool:
    """Whether a text looks like the name of an edge."""
    return ARROW in where


def is_countable(capacity: object) -> bool:
    """Whether a float tells a capacity in whole units apart from the next one, or it is past all counting: no limit."""
    return not (isinstance(capacity, int | float) and limits.CAPACITY_MAX < capacity < limits.SIZE_MAX)


def capacities(graph: Subsystem) -> NDArray[np.float64]:
    """The capacity of each row, NaN where it has none."""
    return _column(graph, CAPACITY)


def _column(graph: Subsystem, key: str) -> NDArray[np.float64]:
    """The numbers among the attributes of this name, by row; NaN elsewhere."""
    column = graph.attributes.get(key)
    if column is None:
        return np.full(len(graph), np.nan)
    if column.dtype.kind == "f":
        return column.astype(np.float64)
    numbers = [value if isinstance(value, int | float) and not isinstance(value, bool) else np.nan for value in column.tolist()]
    return np.array(numbers, np.float64)


def _capacities(graph: Subsystem, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ends as one number, ascending, and whole units of what carries a limited number of them."""
    if CAPACITY not in graph.attributes:
        return _NONE, _NONE
    rows = capacities(graph)
    codes, of = np.unique(graph.src.astype(np.int64) * n + graph.dst, return_inverse=True)
    total = np.bincount(of, weights=rows, minlength=len(codes))
    # A sum of fractions that is a whole number may come out below it.
    total = np.where(total < _EXACT_MAX, np.round(total, 6), total)
    known = np.isfinite(total) & (total >= 0) & (total < float(limits.SIZE_MAX))
    size = np.floor(total[known]).astype(np.int64)
    large = size > limits.CAPACITY_MAX
    if large.any():  # a sum of floats may be more than they are together
        whole = np.zeros(len(codes), np.int64)
        rows_known = known[of]
        np.add.at(whole, of[rows_known], np.floor(rows[rows_known]).astype(np.int64))
        size = np.where(large, whole[known], size)
    return codes[known], size

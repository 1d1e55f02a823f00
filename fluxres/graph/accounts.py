"""Accounts: everything a job can hold units of, that is, the pools of a machine followed by its edges with a capacity.

A link that carries 100 Gbit/s is used up like a pool of 100 units, so it is counted like one.  An edge with a capacity gets a
number after those of the pools, a size, no parent and no children.  The planner and the records work with account numbers and
need not distinguish edges from pools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import numpy as np

from fluxres import limits
from fluxres.arrays import Floats, Int32, Int64, Mask, UInt8, UInt16
from fluxres.errors import LimitExceeded, UnknownPool
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import Kind, KindTable

CAPACITY: Final = "capacity"
FULL: Final = "full"
"""Attribute of an edge that a copy took only partly: its full capacity."""
LINKED: Final = "linked"
"""Attribute of an edge on which a child instance has no units of its own: its parent charges it on request (rule N1)."""
UNIT: Final = "unit"
LARGER_UNIT: Final = "count in a larger unit"
"""Hint for a capacity that is not countable."""
ARROW: Final = " -> "
_NONE: Final = np.zeros(0, np.int64)
_EXACT_MAX: Final = 1e9
"""Sums of capacities below it tell millionths of a unit apart."""


class Pools(Protocol):
    """The pools of one generation, as far as their accounts and supplies depend on them; a `Structure` has them."""

    n: int
    tree_end: int
    parent: Int32
    end: Int32
    kind: Int32
    size: Int64
    state: UInt8
    flags: UInt8
    kinds: KindTable
    subsystems: dict[str, Subsystem]
    capacity: dict[int, int]
    linked: Mask | None
    counts: frozenset[tuple[str, str]]

    @property
    def types(self) -> list[str]: ...
    @property
    def type(self) -> UInt16: ...
    @property
    def units(self) -> Int64: ...
    @property
    def ways(self) -> Mask: ...
    @property
    def full_size(self) -> Int64: ...
    def kind_of(self, v: int) -> Kind: ...
    def of_type(self, type_name: str) -> Int32: ...
    def ancestors(self, v: int) -> list[int]: ...
    def is_way(self, v: int) -> bool: ...
    def exclusive_around(self, v: int) -> list[int]: ...
    def unavailable_above(self, v: int) -> int: ...
    def state_name(self, v: int) -> str: ...
    def name(self, v: int) -> str: ...
    def path(self, v: int) -> str: ...
    def where(self, v: int) -> str: ...
    def wheres(self, vertices: Sequence[int]) -> list[str]: ...
    def uuid(self, v: int) -> str: ...
    def vertex(self, where: str) -> int: ...
    def named(self, names: Iterable[str], block: slice | None = None, type_name: str | None = None) -> list[int]: ...


class Edge(NamedTuple):
    """An account that is an edge: its auxiliary graph and the two pools it joins."""

    graph: Subsystem
    src: int
    dst: int


class _Limited:
    """The edges of one auxiliary graph that have a capacity; parallel edges (same source and target) form one account.

    Args:
        first: number of the first account.
    """

    def __init__(self, graph: Subsystem, n: int, first: int) -> None:
        self.graph = graph
        self.first = first
        self._n = n
        #: Source and target as one number, ascending, and the size of each account in whole units.
        self.codes, self.size = _capacities(graph, n)

    @property
    def stop(self) -> int:
        return self.first + len(self.codes)

    def of(self, src: Int32, dst: Int32) -> Int32:
        """The accounts of the edges between these pools; -1 where there is no edge, or one without a limit."""
        if not len(self.codes):
            return np.full(len(src), -1, np.int32)
        codes = src.astype(np.int64) * self._n + dst
        at = np.minimum(self.codes.searchsorted(codes), len(self.codes) - 1)
        found: Int32 = np.where((self.codes[at] == codes) & (src >= 0) & (dst >= 0), at + self.first, -1).astype(np.int32)
        return found

    def marked(self, key: str) -> Int32:
        """The accounts of the edges that have a number under this attribute."""
        rows = np.flatnonzero(~np.isnan(_column(self.graph, key)))
        found = self.of(self.graph.src[rows], self.graph.dst[rows])
        return found[found >= 0]

    def ends(self, v: int) -> tuple[int, int]:
        return divmod(int(self.codes[v - self.first]), self._n)


class Accounts:
    """The pools of one structure and its edges with a capacity, as columns.

    A capacity is counted in whole units; fractions are rounded down.  Parallel edges (same graph, source and target) add up; if
    one of them has no capacity, or one above `limits.SIZE_MAX`, together they are unlimited.

    `parent`, `end`, `size`, `flags` and `type` are the columns of the structure with one row appended for each such edge; without
    such edges they are the columns of the structure themselves.  The type number of an edge is the number of pool types plus the
    position of its graph among the auxiliary graphs.

    Args:
        pools: of the structure.
        units: by type number of the edges of a graph, the unit of those without one of their own.
    """

    parent: Int32
    end: Int32
    size: Int64
    flags: UInt8
    type: UInt16

    def __init__(self, pools: Pools, units: Callable[[], Mapping[int, str | None]]) -> None:
        self.pools = pools
        self._units_of_graphs = units
        self._limited: list[_Limited] = []
        self._numbers: dict[str, int] = {}
        self.n = pools.n
        for number, (name, graph) in enumerate(pools.subsystems.items()):
            self._numbers[name] = number
            self._limited.append(_Limited(graph, pools.n, self.n))
            self.n += len(self._limited[-1].codes)
        self._lay_out()

    def _lay_out(self) -> None:
        s = self.pools
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
    def units(self) -> Int64:
        """Units of each account that can be held here: its size, or 0 for a pass-through pool."""
        s = self.pools
        return s.units if self.n == s.n else np.concatenate([s.units, self.size[s.n :]])

    @cached_property
    def ways(self) -> Mask:
        """Pass-through pools: present only because the path to another pool leads through them."""
        s = self.pools
        return s.ways if self.n == s.n else np.concatenate([s.ways, np.zeros(self.n - s.n, np.bool_)])

    @cached_property
    def linked(self) -> Mask | None:
        """Accounts of which a child instance has no units of its own and which its parent grants on request; None if there are
        none.
        """
        s = self.pools
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
        """Pools and edges that a copy took only partly."""
        marks = [limited.marked(FULL).tolist() for limited in self._limited if FULL in limited.graph.attributes]
        return frozenset(self.pools.capacity).union(*marks)

    # -- edges -------------------------------------------------------------------------------------------------------

    def is_edge(self, v: int) -> bool:
        return v >= self.pools.n

    def edge(self, v: int) -> Edge:
        limited = self._of(v)
        return Edge(limited.graph, *limited.ends(v))

    def _of(self, v: int) -> _Limited:
        return next(limited for limited in self._limited if v < limited.stop)

    def between(self, graph: Subsystem, src: Int32, dst: Int32) -> Int32:
        """The accounts of a graph's edges between these pools, -1 for unlimited edges."""
        return self._limited[self._numbers[graph.name]].of(src, dst)

    def kind(self, graph: Subsystem) -> int:
        """The type number of edges of a graph."""
        return len(self.pools.types) + self._numbers[graph.name]

    # -- facts -------------------------------------------------------------------------------------------------------

    def of_type(self, number: int) -> Int32:
        """The accounts of a type number, ascending."""
        at = number - len(self.pools.types)
        if at < 0:
            return self.pools.of_type(self.pools.types[number])
        return np.arange(self._limited[at].first, self._limited[at].stop, dtype=np.int32)

    def unit(self, v: int) -> str | None:
        """The unit an account is counted in; for an edge without one of its own, the unit of what its graph distributes."""
        if v < self.pools.n:
            return self.pools.kind_of(v).unit
        return self._units_of_edges[v - self.pools.n]

    @cached_property
    def _units_of_edges(self) -> list[str | None]:
        found: list[str | None] = []
        default = self._units_of_graphs()
        for number, limited in enumerate(self._limited, len(self.pools.types)):
            column = limited.graph.attributes.get(UNIT)
            own = dict.fromkeys(range(limited.first, limited.stop), default.get(number))
            if column is not None:
                rows = [row for row, value in enumerate(column.tolist()) if isinstance(value, str)]
                accounts = limited.of(limited.graph.src[rows], limited.graph.dst[rows])
                own |= {v: column[row] for v, row in zip(accounts.tolist(), rows, strict=True) if v >= 0}
            found += own.values()
        return found

    def is_way(self, v: int) -> bool:
        """Whether the account is a pass-through pool."""
        return v < self.pools.n and self.pools.is_way(v)

    def exclusive_around(self, v: int) -> list[int]:
        """See :meth:`Structure.exclusive_around`."""
        return self.pools.exclusive_around(v) if v < self.pools.n else []

    def ancestors(self, v: int) -> list[int]:
        """The pools above an account, parent first; none for an edge."""
        return self.pools.ancestors(v) if v < self.pools.n else []

    def unavailable_above(self, v: int) -> int:
        """See :meth:`Structure.unavailable_above`; an edge has no state of its own."""
        return self.pools.unavailable_above(v) if v < self.pools.n else -1

    # -- names -------------------------------------------------------------------------------------------------------

    def where(self, v: int) -> str:
        """The name of an account in messages and records: `Structure.where` for a pool, graph and both ends for an edge.

        For example ``power: /demo/rack0 -> /demo/rack0/node3``.
        """
        return self._named(v, self.pools.where)

    def wheres(self, vertices: Sequence[int]) -> list[str]:
        """As :meth:`where`, for many."""
        if max(vertices, default=-1) < self.pools.n:
            return self.pools.wheres(vertices)
        return [self.where(v) for v in vertices]

    def by_uuid(self, v: int) -> str:
        """A name for an account that survives when pools move and that :meth:`number` accepts: uuids in place of paths."""
        return self._named(v, self.pools.uuid)

    def _named(self, v: int, name: Callable[[int], str]) -> str:
        if v < self.pools.n:
            return name(v)
        graph, src, dst = self.edge(v)
        return f"{graph.name}: {name(src)}{ARROW}{name(dst)}"

    def number(self, where: str) -> int:
        """The account with the name that :meth:`where` returns, or the pool with this path, URI or uuid.

        Errors: UnknownPool.  Cost: renders the names of all edges on the first call whose ends cannot be resolved.
        """
        found = self.edge_named(where)
        if found >= 0:
            return found
        try:
            return self.pools.vertex(where)
        except UnknownPool:
            if not is_edge(where):
                raise
            hint = "name an edge as `jobs` shows it, such as 'power: /demo/rack0 -> /demo/rack0/node3'"
            raise UnknownPool(f"no edge with a capacity is named {where!r:.200}", hint=hint) from None

    def edge_named(self, where: str) -> int:
        """The edge with the name that :meth:`where` returns, or with any other names of its two ends; -1 if there is none."""
        if not is_edge(where):
            return -1
        found = self.edges_between(where, lambda end: [self.pools.vertex(end)])
        return found[0] if found else self._by_name.get(where, -1)

    def edges_between(self, where: str, ends: Callable[[str], list[int]]) -> list[int]:
        """The edges with a capacity that a text ``GRAPH: FROM -> TO`` names; empty if it names none.

        Args:
            ends: resolves one side of the arrow to pools.

        Errors: LimitExceeded past EDGES_MAX pairs.
        """
        name, _, sides = where.partition(": ")
        graph = self.pools.subsystems.get(name)
        if graph is None or sides.count(ARROW) != 1:
            return []
        try:
            src, dst = (np.array(ends(side), np.int32) for side in sides.split(ARROW))
        except UnknownPool:
            return []
        if len(src) * len(dst) > limits.EDGES_MAX:
            raise LimitExceeded(f"this edge name expands to {len(src) * len(dst)} pairs of pools", where=where[:200])
        between = self.between(graph, np.repeat(src, len(dst)), np.tile(dst, len(src)))
        found: list[int] = between[between >= 0].tolist()
        return found

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {self.where(v): v for v in range(self.pools.n, self.n)}

    def said(self, v: int) -> str:
        """The name of an account in messages: a bare name for a pool outside the containment tree, otherwise as :meth:`where`."""
        if v >= self.pools.n:
            return self.where(v)
        return self.pools.path(v) if v < self.pools.tree_end else self.pools.name(v)

    def same_in(self, other: Accounts, v: int) -> int:
        """The account of another structure with the same uuid, or the edge between the same pools; -1 if there is none."""
        try:
            if v < self.pools.n:
                return other.pools.vertex(self.pools.uuid(v))
            graph, *ends = self.edge(v)
            src, dst = (np.array([other.pools.vertex(self.pools.uuid(u))], np.int32) for u in ends)
        except UnknownPool:
            return -1
        found = other.pools.subsystems.get(graph.name)
        return -1 if found is None else int(other.between(found, src, dst)[0])

    # -- other generations -------------------------------------------------------------------------------------------

    def renumbered(self, made: Accounts, old_to_new: Int32) -> Int32:
        """New numbers of all accounts by old number, given those of the pools; -1 for removed accounts.

        Args:
            made: the accounts of the structure that the new numbers refer to.
        """
        found = [old_to_new]
        for limited in self._limited:
            graph = made.pools.subsystems.get(limited.graph.name)
            src, dst = np.divmod(limited.codes, max(self.pools.n, 1))
            gone = np.full(len(src), -1, np.int32)
            found.append(gone if graph is None else made.between(graph, old_to_new[src], old_to_new[dst]))
        return np.concatenate(found).astype(np.int32)


def cut(of_pools: Accounts, graph: Subsystem, rows: Int64, units_of: Callable[[Int32], Int64]) -> Subsystem:
    """A graph in which some edges carry only a part of their capacity.

    Args:
        of_pools: the accounts of the pools that the graph joins.
        rows: the edges to reduce; other edges may keep their capacity.
        units_of: the units left on these accounts.
    """
    accounts = of_pools.between(graph, graph.src[rows], graph.dst[rows])
    order = np.argsort(accounts, kind="stable")[int((accounts < 0).sum()) :]
    rows, accounts = rows[order], accounts[order]
    if not len(rows):
        return graph
    before = capacities(graph)
    after, full = before.copy(), _column(graph, FULL)
    limited, of = np.unique(accounts, return_inverse=True)
    left = units_of(limited)
    is_less = (left < of_pools.size[limited])[of]
    after[rows] = np.where(is_less, _one_after_the_other(of, left, before[rows]), before[rows])
    less = rows[is_less]
    full[less] = np.where(np.isnan(full[less]), before[less], full[less])
    attributes = {**graph.attributes, CAPACITY: after, FULL: full}
    if np.isnan(full).all():
        del attributes[FULL]
    return replace(graph, attributes=attributes)


def link(pools: Pools, copied: tuple[Pools, Int32] | None = None) -> None:
    """Mark the edges on which a child instance has no units of its own; they get the capacity they have in the parent.

    Args:
        copied: for a new copy, the structure it was copied from and the vertices taken from it.
    """
    for name, graph in pools.subsystems.items():
        carried, full = capacities(graph), _column(graph, FULL)
        of = _pairs(graph)  # one of several parallel edges may have all remaining units
        rows = np.flatnonzero(np.bincount(of, weights=carried)[of] == 0)
        of_parent = np.nan_to_num(full)
        if copied is not None:  # units that the job holds are the child's own; the parent itself may have a part
            graph.attributes.pop(LINKED, None)
            whole, kept = copied[0].subsystems[name], np.zeros(copied[0].n, np.bool_)
            kept[copied[1]] = True
            of_parent = capacities(whole)[kept[whole.src] & kept[whole.dst]]
        if len(rows):
            mark = _column(graph, LINKED)
            carried[rows], mark[rows], full[rows] = of_parent[rows], 1, np.nan
            graph.attributes |= {CAPACITY: carried, LINKED: mark, FULL: full}


def lend(graph: Subsystem, numbers: Int32, of_parent: Mapping[int, int]) -> None:
    """Give edges on which a child instance has no units of its own the capacity they have in the parent.

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


def lift(graph: Subsystem, rows: Int64) -> None:
    """Remove the limits of some edges."""
    for key in (CAPACITY, FULL, LINKED):
        if key in graph.attributes:
            column = _column(graph, key)
            column[rows] = np.nan
            graph.attributes[key] = column


def by_itself(graph: Subsystem) -> Subsystem:
    """The same edges for an instance without a parent: their capacity is what the parent would grant."""
    return replace(graph, attributes={key: column for key, column in graph.attributes.items() if key != LINKED})


def join(graph: Subsystem, first: int, same: tuple[Int64, Int64]) -> None:
    """Merge the capacities of edges of two graphs between the same two pools: the sum, but not more than the full capacity.

    Where neither graph has units of its own, the edges carry what those of the other graph do, which knows the present parent.

    Args:
        graph: the edges of the one and, from row `first` on, those of the other.
        same: rows of the one and of the other that are the same edge; the latter will be dropped.
    """
    carried, full, mark = capacities(graph), _column(graph, FULL), _column(graph, LINKED)
    full = np.where(np.isnan(full), carried, full)
    of, rows = _pairs(graph), np.arange(len(graph))
    ours, theirs = (np.bincount(of, weights=each) > 0 for each in (rows < first, rows >= first))
    limited = ours & theirs & ~np.isnan(np.bincount(of, weights=carried))
    if not limited.any():
        return
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


def _pairs(graph: Subsystem) -> Int64:
    """By row, a number for the pair of pools that the edge joins."""
    codes = graph.src.astype(np.int64) * (int(graph.dst.max(initial=0)) + 1) + graph.dst
    found: Int64 = np.unique(codes, return_inverse=True)[1]
    return found


def _one_after_the_other(of: Int64, units: Floats | Int64, most: Floats) -> Floats:
    """Distribute the units of each group over its rows, in order, each row taking as much as it can.

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
    """Whether a float can represent the capacity to the unit; a capacity of SIZE_MAX or more counts as unlimited."""
    return not (isinstance(capacity, int | float) and limits.CAPACITY_MAX < capacity < limits.SIZE_MAX)


def capacities(graph: Subsystem) -> Floats:
    """The capacity of each row, NaN where it has none."""
    return _column(graph, CAPACITY)


def _column(graph: Subsystem, key: str) -> Floats:
    """The numeric values of an attribute by row; NaN elsewhere."""
    column = graph.attributes.get(key)
    if column is None:
        return np.full(len(graph), np.nan)
    if column.dtype.kind == "f":
        return column.astype(np.float64)
    numbers = [value if isinstance(value, int | float) and not isinstance(value, bool) else np.nan for value in column.tolist()]
    return np.array(numbers, np.float64)


def _capacities(graph: Subsystem, n: int) -> tuple[Int64, Int64]:
    """The source and target of each limited edge as one ascending number, and its size in whole units."""
    if CAPACITY not in graph.attributes:
        return _NONE, _NONE
    rows = capacities(graph)
    codes, of = np.unique(graph.src.astype(np.int64) * n + graph.dst, return_inverse=True)
    total = np.bincount(of, weights=rows, minlength=len(codes))
    # A sum of fractions that is a whole number may come out below it.
    is_small = total < _EXACT_MAX
    total[is_small] = np.round(total[is_small], 6)
    known = np.isfinite(total) & (total >= 0) & (total < float(limits.SIZE_MAX))
    size = np.floor(total[known]).astype(np.int64)
    large = size > limits.CAPACITY_MAX
    if large.any():  # rounding can make a sum of floats too large
        whole = np.zeros(len(codes), np.int64)
        rows_known = known[of]
        np.add.at(whole, of[rows_known], np.floor(rows[rows_known]).astype(np.int64))
        size = np.where(large, whole[known], size)
    return codes[known], size

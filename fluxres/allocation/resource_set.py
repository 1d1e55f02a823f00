"""R, the resource set of a job (RFC 20, version 1), from the pools it holds.

R has execution targets (ranks), cores and gpus.  Anything else that a job holds is only in the graph that R includes on request
for a nested scheduler (RFC 40).  Ids are logical: the position of a core among the cores of its target, whatever levels are in
between.  Targets with the same ids share an entry.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fluxres.arrays import Int32, Int64
from fluxres.clock import FOREVER, seconds
from fluxres.errors import UsageError
from fluxres.graph import jgf
from fluxres.graph.structure import Structure
from fluxres.graph.surgery import Along
from fluxres.planner.columns import distinct
from fluxres.syntax import hostlist, idset

NUMBER_DIGITS_MAX: Final = 18
"""Longer numbers are part of the name, because they do not fit the column."""
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9.-]{0,63}")
"""Names that every host list can contain; others are checked."""


class Hosts:
    """Names of targets, each rendered when it is first needed.

    Args:
        vertices: the pool of each target.
    """

    __slots__ = ("_digits", "_names", "_numbers", "_padded", "_stem_of", "_stems", "_vertices")

    def __init__(self, vertices: Int32) -> None:
        length = len(vertices)
        self._vertices = vertices
        self._names: list[str | None] = [None] * length
        #: Number of the stem; -1 for a name that was not rendered yet.
        self._stem_of = np.full(length, -1, np.int32)
        self._numbers: Int64 = np.zeros(length, np.int64)
        #: Digits of the number; 0 for a name without a number.
        self._digits = np.zeros(length, np.int8)
        self._padded = np.zeros(length, np.bool_)
        self._stems: dict[str, int] = {}

    def _learn(self, structure: Structure, at: int) -> str:
        name = structure.name(self._vertices.item(at))
        if not _PLAIN.fullmatch(name):
            hostlist.format([name])  # refuses a name that no host list can contain
        stem = name.rstrip("0123456789")
        digits = name[len(stem) :]
        if 0 < len(digits) <= NUMBER_DIGITS_MAX:
            self._numbers[at] = int(digits)
            self._digits[at] = len(digits)
            self._padded[at] = digits[0] == "0" and len(digits) > 1
        else:
            stem = name
        self._stem_of[at] = self._stems.setdefault(stem, len(self._stems))
        self._names[at] = name
        return name

    def name(self, structure: Structure, at: int) -> str:
        """The name of one target; cost and errors as for :meth:`folded`."""
        return self._names[at] or self._learn(structure, at)

    def folded(self, structure: Structure, targets: Int64) -> str:
        """The host list of these targets, in this order.

        Args:
            structure: the structure of the vertices.
            targets: positions, at least one.

        Cost: columns over the targets; a few microseconds for each new name.
        Errors: InputError for a name that no host list can contain.
        """
        if len(targets) == 1:
            return self.name(structure, targets.item(0))
        stem = self._stem_of[targets]
        if (new := targets[stem < 0]).size:
            for at in new.tolist():
                self._learn(structure, at)
            stem = self._stem_of[targets]
        number, digits = self._numbers[targets], self._digits[targets]
        # The next number has as many digits, or more if it is not padded.
        longer = (digits[1:] > digits[:-1]) & ~self._padded[targets[1:]]
        joins = (stem[1:] == stem[:-1]) & (number[1:] == number[:-1] + 1) & ((digits[1:] == digits[:-1]) | longer)
        joins &= digits[:-1] > 0
        first = np.flatnonzero(np.concatenate([[True], ~joins]))
        last = np.append(first[1:], len(targets)) - 1
        stems = list(self._stems)
        groups: list[tuple[int, list[str]]] = []
        columns = (stem[first], number[first], digits[first], number[last])
        for which, low, width, high in zip(*(column.tolist() for column in columns), strict=True):
            text = f"{low:0{width}}" if low == high else f"{low:0{width}}-{high:0{width}}"
            if width and groups and groups[-1][0] == which and groups[-1][1]:
                groups[-1][1].append(text)
            else:
                groups.append((which, [text] if width else []))
        return ",".join(_group(stems[which], runs) for which, runs in groups)


def _group(stem: str, runs: list[str]) -> str:
    if len(runs) == 1 and "-" not in runs[0]:
        return stem + runs[0]
    return f"{stem}[{','.join(runs)}]" if runs else stem


CHILDREN: Final = ("core", "gpu")
_BARRED: Final = frozenset("!&'\"^\\`|()")
"""Characters that RFC 20 forbids in the name of a property."""
FEW_POOLS_MAX: Final = 16
"""Up to this number of pools are handled one by one."""

Texts = tuple[str, ...]
"""Ids of the held children, as idsets, in the order of `CHILDREN`."""


class ExecutionTargets:
    """The targets of one machine, ascending by rank; see :func:`of`."""

    def __init__(self, structure: Structure) -> None:
        ranks, tops = structure.execution_targets
        inside = tops < structure.tree_end  # pools that are only in auxiliary graphs are on no node
        self.ranks, self.tops = ranks[inside], tops[inside]
        self._end = structure.end[self.tops]
        self._pools = [structure.of_type(child) for child in CHILDREN]
        self._first = [pools.searchsorted(self.tops) for pools in self._pools]
        self._counts = np.stack([p.searchsorted(self._end) - a for p, a in zip(self._pools, self._first, strict=True)])
        self._by_vertex = np.argsort(self.tops, kind="stable")
        self._sorted = self.tops[self._by_vertex]
        self._is_plain = self._find_plain(structure)
        self._is_numbered = bool((self.ranks == np.arange(len(self.ranks))).all())
        self._hosts = Hosts(self.tops)
        child_of = {structure.types.index(child): at for at, child in enumerate(CHILDREN) if child in structure.types}
        tables = list(zip([table.data for table in self._pools], [first.data for first in self._first], strict=True))
        #: For reading one pool at a time: ranks, ends, types and sizes of all; tops of targets; by type number the sort of
        #: children; and of each sort its pools, and the first one of each target.
        columns = structure.rank.data, structure.end.data, structure.type.data, structure.size.data
        self._views = *columns, self.tops.data, child_of, tables
        self._kinds = structure.kind[self.tops]
        self._table = structure.kinds

    def _find_plain(self, structure: Structure) -> bool:
        """Whether the pools with a rank are the subtrees of the targets, and no target is below another."""
        order = self._by_vertex
        edges = np.zeros(2 * len(order) + 2, np.int64)
        edges[1:-1:2], edges[2:-1:2], edges[-1] = self._sorted, self._end[order], structure.tree_end
        values = np.full(2 * len(order) + 1, -1, np.int32)
        values[1::2] = self.ranks[order]
        lengths = np.diff(edges)
        rank = structure.rank[: structure.tree_end]
        return bool((lengths >= 0).all()) and bool((np.repeat(values, lengths) == rank).all())

    def describe(
        self, structure: Structure, vertices: Int32, amounts: Int64
    ) -> tuple[list[dict[str, Any]], str, dict[str, str], int]:
        """Parts of R for these pools: `R_lite`, the host list, the properties, and the number of targets.

        Args:
            structure: of this machine.
            vertices, amounts: ascending, and the units of each; a pool held exclusively includes everything below it. Pools
                outside the containment tree are not part of R.
        """
        few = None
        if len(vertices) <= FEW_POOLS_MAX and self._is_plain:
            few = self._few(vertices.tolist(), amounts.tolist(), structure.tree_end)
        if few is not None and len(few) == 1:
            ((at, parts),) = few.items()
            return self._describe_one(structure, at, parts)
        if few is None:
            pools = _counted(structure, vertices, amounts)
            positions, texts = self._whole(pools) or self._any(structure, pools)
        else:
            positions, texts = np.array(sorted(few), np.int64), {at: parts for at, parts in few.items() if parts is not None}
        hosts = self._hosts.folded(structure, positions) if len(positions) else ""
        return self._entries(positions, texts), hosts, self._properties_of(positions), len(positions)

    # -- held ids ----------------------------------------------------------------------------------------------------

    def _whole(self, pools: Int32) -> tuple[Int64, dict[int, Texts]] | None:
        """The positions of pools that are all targets, ascending; None if one is not a target."""
        if not self._is_plain or not len(self.tops):
            return None
        at = np.minimum(self._sorted.searchsorted(pools), len(self.tops) - 1)
        return (np.sort(self._by_vertex[at]), {}) if (self._sorted[at] == pools).all() else None

    def _few(self, pools: list[int], amounts: list[int], tree_end: int) -> dict[int, Texts | None] | None:
        """Positions of targets, each with its held ids, None for all; None if a pool has several targets below it."""
        rank_of, stop_of, type_of, size_of, tops, child_of, tables = self._views
        parts: dict[int, list[list[int]] | None] = {}
        # The last child, and its rank and type: if the next vertex has the same, it is the next child of the same target.
        child_before, rank_before, type_before = -1, -1, -1
        ids: list[int] = []
        for v, amount in zip(pools, amounts, strict=True):
            is_leaf = stop_of[v] == v + 1
            if v >= tree_end or (not is_leaf and amount != size_of[v]):
                continue
            rank = rank_of[v]
            if v == child_before + 1 and is_leaf and rank == rank_before and type_of[v] == type_before:
                ids.append(ids[-1] + 1)
                child_before = v
                continue
            if rank < 0:
                if not is_leaf:
                    return None
                continue
            at = rank if self._is_numbered else bisect_left(self._rank_view, rank)
            if tops[at] == v:
                parts[at] = None
                continue
            numbers = parts.get(at)
            if numbers is None:
                if at in parts:
                    continue
                numbers = parts[at] = [[] for _ in CHILDREN]
            if not is_leaf:
                for mine, (table, first) in zip(numbers, tables, strict=True):
                    mine.extend(range(bisect_left(table, v) - first[at], bisect_left(table, stop_of[v]) - first[at]))
            elif (child := child_of.get(type_of[v])) is not None:
                table, first = tables[child]
                ids = numbers[child]
                ids.append(bisect_left(table, v, first[at]) - first[at])
                child_before, rank_before, type_before = v, rank, type_of[v]
        return {at: None if numbers is None else tuple(map(folded, numbers)) for at, numbers in parts.items()}

    def _any(self, structure: Structure, pools: Int32) -> tuple[Int64, dict[int, Texts]]:
        """Positions of the targets that these pools are on, ascending, and the held ids of those that are held in part."""
        within = [_within(structure, table, pools) for table in self._pools]
        below = [_within(structure, self._sorted, pools), *within]
        ranks = distinct(np.concatenate([structure.rank[pools], *(structure.rank[table] for table in below)]))
        positions = self.ranks.searchsorted(ranks[ranks >= 0])
        lo = np.stack([held.searchsorted(self.tops[positions]) for held in within])
        hi = np.stack([held.searchsorted(self._end[positions]) for held in within])
        partly = np.flatnonzero((hi - lo != self._counts[:, positions]).any(axis=0))
        texts = {}
        for k in partly.tolist():
            at = int(positions[k])
            texts[at] = tuple(
                folded((table.searchsorted(held[a[k] : b[k]]) - first[at]).tolist())
                for table, first, held, a, b in zip(self._pools, self._first, within, lo, hi, strict=True)
            )
        return positions, texts

    @cached_property
    def _rank_view(self) -> memoryview:
        return self.ranks.data

    # -- parts of R --------------------------------------------------------------------------------------------------

    @cached_property
    def _alike(self) -> tuple[Int64, list[Texts]]:
        """By target, a number shared by targets with the same numbers of children; and by that number, the children's ids."""
        counts, inverse = np.unique(self._counts, axis=1, return_inverse=True)
        return inverse.reshape(-1), [tuple(folded(range(n)) for n in row) for row in counts.T.tolist()]

    def _describe_one(
        self, structure: Structure, at: int, parts: Texts | None
    ) -> tuple[list[dict[str, Any]], str, dict[str, str], int]:
        alike, whole = self._alike
        rank = str(self.ranks.item(at))
        texts = whole[alike.item(at)] if parts is None else parts
        properties = dict.fromkeys(self._properties.get(self._kinds.item(at), ()), rank) if self._properties else {}
        return [_entry(rank, texts)], self._hosts.name(structure, at), properties, 1

    def _entries(self, positions: Int64, parts: dict[int, Texts]) -> list[dict[str, Any]]:
        """`R_lite`: targets with the same ids share an entry."""
        alike, whole = self._alike
        of = alike[positions]
        if not parts and (not len(of) or (of == of[0]).all()):
            return [_entry(_ranks(self.ranks[positions]), whole[of.item(0)])] if len(of) else []
        groups: dict[Texts, list[int]] = {}
        ranks = self.ranks[positions].tolist()
        for at, rank, number in zip(positions.tolist(), ranks, of.tolist(), strict=True):
            groups.setdefault(parts.get(at) or whole[number], []).append(rank)
        return [_entry(_ranks(np.array(members)), texts) for texts, members in groups.items()]

    @cached_property
    def _properties(self) -> dict[int, list[str]]:
        """By kind of target, its properties as named in R; kinds without any are left out.

        Properties that RFC 20 hides from jobs are left out: names with a leading plus, which only concern this instance, and
        names that readers reject.
        """
        found = {}
        for number in distinct(self._kinds).tolist():
            said = [key if value is None else f"{key}={value}" for key, value in self._table[number].properties]
            public = [name for name in said if name[0] != "+" and not _BARRED & set(name)]
            if public:
                found[number] = public
        return found

    def _properties_of(self, positions: Int64) -> dict[str, str]:
        """Ranks of the targets by property; a value follows the name after an equals sign."""
        if not self._properties:
            return {}
        numbers = self._kinds[positions]
        kinds, first = np.unique(numbers, return_index=True)
        found: dict[str, list[Int32]] = {}
        for number in kinds[np.argsort(first)].tolist():
            for name in self._properties.get(number, ()):
                found.setdefault(name, []).append(self.ranks[positions[numbers == number]])
        return {name: idset.format(np.concatenate(ranks).tolist()) for name, ranks in found.items()}


def _entry(ranks: str, texts: Texts) -> dict[str, Any]:
    # Every entry lists cores (RFC 20), even if there are none.
    core, gpu = texts
    return {"rank": ranks, "children": {"core": core, "gpu": gpu} if gpu else {"core": core}}


def _ranks(ranks: NDArray[Any]) -> str:
    """Ascending ranks as an idset."""
    cuts = np.flatnonzero(ranks[1:] != ranks[:-1] + 1) + 1
    first = ranks[np.concatenate([[0], cuts])].tolist()
    last = ranks[np.concatenate([cuts - 1, [-1]])].tolist()
    return ",".join(map(_run, first, last))


def _run(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def folded(ids: Sequence[int]) -> str:
    """Ascending ids as an idset; mostly they are one range.

    >>> folded([4, 5, 6]), folded([1, 7]), folded([])
    ('4-6', '1,7', '')
    """
    if not ids:
        return ""
    if ids[-1] - ids[0] == len(ids) - 1:
        return _run(ids[0], ids[-1])
    return idset.format(ids)


def _counted(structure: Structure, vertices: Int32, amounts: Int64) -> Int32:
    """The pools of the containment tree that R is about: without those that have pools below and are held in part."""
    counts = (amounts == structure.size[vertices]) | (structure.end[vertices] == vertices + 1)
    if len(vertices) and vertices.item(-1) >= structure.tree_end:
        counts &= vertices < structure.tree_end
    return vertices if counts.all() else vertices[counts]


def _within(structure: Structure, table: Int32, tops: Int32) -> Int32:
    """Pools of a table at or below these, ascending."""
    lo, hi = np.searchsorted(table, tops), np.searchsorted(table, structure.end[tops])
    lengths = hi - lo
    return np.asarray(table[np.repeat(hi - np.cumsum(lengths), lengths) + np.arange(int(lengths.sum()))], np.int32)


_KNOWN: WeakKeyDictionary[Structure, ExecutionTargets] = WeakKeyDictionary()


def execution_targets(structure: Structure) -> ExecutionTargets:
    """The targets of a machine, found once and kept as long as the machine."""
    found = _KNOWN.get(structure)
    if found is None:
        found = _KNOWN[structure] = ExecutionTargets(structure)
    return found


GRAPHS: Final = {"jgf": "fluxion:jgf", "jgf_shorthand": jgf.SHORTHAND}
"""Forms of the graph that R may include, and the name of each in R."""


def resource_set(
    structure: Structure, vertices: Int32, amounts: Int64, start: int, end: int, nslots: int | None = 0
) -> dict[str, Any]:
    """R version 1 as plain values.

    Args:
        structure: the machine.
        vertices, amounts: the pools, ascending, each once, and the units held of each; a pool held exclusively includes
            everything below it.
        start, end: window in ticks; no end leaves the expiration unset (0).
        nslots: number of slots of the request; 0 counts each target as a slot. None leaves the number out.

    Cost: a few microseconds for complete targets or parts of one, and a microsecond per target that is held in part.
    Source: RFC 20.
    """
    entries, hosts, properties, number = execution_targets(structure).describe(structure, vertices, amounts)
    execution: dict[str, Any] = {
        "R_lite": entries,
        "starttime": seconds(start),
        "expiration": 0.0 if end >= FOREVER else seconds(end),
        "nodelist": [hosts] if number else [],
    }
    if properties:
        execution["properties"] = properties
    if nslots is not None and (slots := nslots or number):
        execution["nslots"] = slots
    return {"version": 1, "execution": execution}


def scheduling(structure: Structure, held: Int32, amounts: Int64, form: str = "jgf") -> dict[str, Any]:
    """The graph of what is held, which R includes under `scheduling`.

    Args:
        structure: the machine.
        held: accounts (:mod:`fluxres.graph.accounts`), ascending, each once: pools, and edges that have a capacity.
        amounts: units of each.
        form: ``jgf``; ``jgf_shorthand`` leaves out what is below pools held exclusively.

    Errors: UsageError for another form.
    Cost: about 2 µs per pool of the graph; arrays as long as the machine if its auxiliary graphs distribute something.
    Source: RFC 40.
    """
    if form not in GRAPHS:
        raise UsageError(f"no form '{form}' of the graph in R", hint=f"use one of {', '.join(GRAPHS)}")
    shorthand = form == "jgf_shorthand"
    pools = held < structure.n
    part = jgf.held(structure, held[pools], amounts[pools], shorthand=shorthand, along=_along(structure))
    more = jgf.left_out_below(structure, part, CHILDREN) if shorthand else {}

    def carried(edges: Int32) -> Int64:
        at = np.minimum(held.searchsorted(edges), len(held) - 1)
        return np.where(held[at] == edges, amounts[at], 0)

    return {"writer": GRAPHS[form], **jgf.document(structure, part, more, carried)}


def _along(structure: Structure) -> Along | None:
    if not structure.feeds:
        return None
    from fluxres.match.paths import Paths  # imports the matcher, which an allocation by name does not need

    return Paths(structure).along

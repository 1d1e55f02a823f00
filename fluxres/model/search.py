"""Searching a graph: criteria as boolean columns, walking, totals (RFC 4 Match, Find, Traversal, Aggregation).

A comparison becomes one mask over all pools.  What pools of one kind share is tested once per kind and
spread by one gather; amounts come from the planner as a column; only questions about jobs look at records,
of which there are as many as pools held, not as pools.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fluxres.allocation import steps
from fluxres.clock import FOREVER, Time, seconds, ticks
from fluxres.errors import UsageError
from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import STATES, Kind
from fluxres.model.pool import Pool
from fluxres.model.selection import Selection
from fluxres.syntax import criteria as language
from fluxres.syntax.criteria import All, And, Compare, Criteria, Not, Or

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

Mask = NDArray[np.bool_]
_ORDER: Final[dict[str, Callable[..., Any]]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def find(
    graph: ResourceGraph, criteria: str | Criteria, at: Time | None = None, during: tuple[Time, Time] | None = None
) -> Selection:
    """Pools that meet the criteria; see :meth:`ResourceGraph.find`."""
    parsed = language.parse(criteria) if isinstance(criteria, str) else criteria
    if at is not None and during is not None:
        raise UsageError("both a moment and a window were given", hint="give `at` or `during`")
    if during is not None and not (isinstance(during, tuple | list) and len(during) == 2):
        raise UsageError(f"during: expected a pair of start and end, got {during!r}")
    window = graph.window(at, None) if during is None else graph.open_window(*during)
    found = _Search(graph, window).mask(parsed)
    # What is a way outside the tree has nothing to give and nothing in it (rules M1, N1); the way within the tree has.
    outside = slice(graph.structure.tree_end, None)
    found[outside] &= ~graph.structure.ways[outside]
    return Selection(graph, np.flatnonzero(found).astype(np.int32))


class _Search:
    """One search: the graph, the window that records are asked about."""

    def __init__(self, graph: ResourceGraph, window: tuple[int, int]) -> None:
        self.graph = graph
        self.structure = graph.structure
        self.window = window

    def mask(self, node: Criteria) -> Mask:
        match node:
            case All():
                return np.ones(self.structure.n, np.bool_)
            case And():
                return reduce(np.logical_and, (self.mask(item) for item in node.items))
            case Or():
                return reduce(np.logical_or, (self.mask(item) for item in node.items))
            case Not():
                return ~self.mask(node.item)
            case Compare():
                found: Mask = getattr(self, f"_{node.key}")(node)
                return ~found if node.op == "!=" else found

    # -- what a kind has ---------------------------------------------------------------------------------------------

    def _by_kind(self, test: Callable[[Kind], bool]) -> Mask:
        of_kind = np.fromiter((test(kind) for kind in self.structure.kinds), np.bool_, len(self.structure.kinds))
        return of_kind[self.structure.kind]

    def _type(self, node: Compare) -> Mask:
        return self._by_kind(lambda kind: _text_matches(kind.type, node))

    def _unit(self, node: Compare) -> Mask:
        return self._by_kind(lambda kind: _text_matches(kind.unit or "", node))

    def _basename(self, node: Compare) -> Mask:
        wanted = _names(node)
        return self._by_kind(lambda kind: _text_matches(kind.basename, node) if wanted is None else kind.basename in wanted)

    def _property(self, node: Compare) -> Mask:
        return self._by_kind(lambda kind: _qualified(dict(kind.properties), node))

    # -- what a column has -------------------------------------------------------------------------------------------

    def _id(self, node: Compare) -> Mask:
        return _numbers(self.structure.id, node) & (self.structure.id >= 0)

    def _rank(self, node: Compare) -> Mask:
        return _numbers(self.structure.rank, node) & (self.structure.rank >= 0)

    def _size(self, node: Compare) -> Mask:
        return _numbers(self.structure.size, node)

    def _depth(self, node: Compare) -> Mask:
        return _numbers(self.structure.depth, node)

    def _state(self, node: Compare) -> Mask:
        wanted = np.array([_text_matches(state, node) for state in STATES])
        if not wanted.any() and node.op != "~":
            raise UsageError(f"no state '{', '.join(node.texts)}'", hint=f"states are {', '.join(STATES)}")
        return np.asarray(wanted[self.structure.state])

    def _tag(self, node: Compare) -> Mask:
        return self._only(v for v, tags in self.structure.tags.items() if _qualified(tags, node))

    def _only(self, vertices: Iterable[int]) -> Mask:
        found = np.zeros(self.structure.n, np.bool_)
        found[np.fromiter(vertices, np.int64)] = True
        return found

    # -- what a pool is called ---------------------------------------------------------------------------------------

    def _name(self, node: Compare) -> Mask:
        wanted = _names(node)
        if wanted is None:
            return self._matching(self.structure.name, node)
        return self._only(self.structure.named(wanted))

    def _matching(self, text_of: Callable[[int], str], node: Compare) -> Mask:
        # A glob has no inverse: every name is made and looked at.
        return self._only(v for v in range(self.structure.n) if _text_matches(text_of(v), node))

    def _path(self, node: Compare) -> Mask:
        return self._matching(self.structure.where, node) if node.op == "~" else self._at(node.texts)

    def _uri(self, node: Compare) -> Mask:
        if node.op != "~":
            return self._at(node.texts)
        uris = self.structure.uris
        return self._only(v for v in range(self.structure.n) if any(_text_matches(uri, node) for uri in uris(v)))

    def _uuid(self, node: Compare) -> Mask:
        return self._matching(self.structure.uuid, node) if node.op == "~" else self._at(node.texts)

    def _at(self, places: Iterable[str]) -> Mask:
        return self._only(self.structure.vertex(place) for place in places)

    def _parent(self, node: Compare) -> Mask:
        structure = self.structure
        if node.op == "~":
            above = self._matching(structure.where, node) | self._matching(structure.name, node)
        else:
            named = [v for text in node.texts for v in ([structure.vertex(text)] if "/" in text else structure.named([text]))]
            above = self._only(named)
        return np.where(structure.parent >= 0, above[structure.parent], False)

    def _under(self, node: Compare) -> Mask:
        structure = self.structure
        tops = self._matching(structure.where, node) if node.op == "~" else self._at(node.texts)
        return _below(structure.end, np.flatnonzero(tops), structure.n)

    def _subsystem(self, node: Compare) -> Mask:
        return self._members(node, hierarchies_only=False)

    def _hierarchy(self, node: Compare) -> Mask:
        return self._members(node, hierarchies_only=True)

    def _members(self, node: Compare, *, hierarchies_only: bool) -> Mask:
        structure = self.structure
        found = np.zeros(structure.n, np.bool_)
        if _text_matches(structure.hierarchy, node) or (not hierarchies_only and _text_matches("containment", node)):
            found[: structure.tree_end] = True
        for subsystem in structure.subsystems.values():
            if (subsystem.hierarchy or not hierarchies_only) and _text_matches(subsystem.name, node):
                found[subsystem.members] = True
        return found

    # -- who holds what ----------------------------------------------------------------------------------------------

    def _when(self, node: Compare) -> tuple[int, int]:
        if node.when is None:
            return self.window
        start, end = node.when.resolve(seconds(self.graph.now()))
        lo = ticks(start, "at")
        return (lo, lo + 1) if node.when.kind == "at" else (lo, min(ticks(end, "during"), FOREVER))

    def _available(self, node: Compare) -> Mask:
        return _numbers(available_units(self.graph, *self._when(node)), node)

    def _allocated(self, node: Compare) -> Mask:
        free = self.graph.planner.free_slice(0, self.structure.n, *self._when(node))
        return _numbers(self.structure.units - free, node)

    def _job(self, node: Compare) -> Mask:
        records, (start, end) = self.graph.records, self._when(node)
        jobs = [job for job in records.jobs() if _text_matches(job, node)]
        return self._only(v for job in jobs for v in records.pools_of[job] if any(steps.within(records.held[v][job], start, end)))

    def _exclusive(self, node: Compare) -> Mask:
        records, structure, (start, end) = self.graph.records, self.structure, self._when(node)
        tops = [
            v
            for v, holders in records.held.items()
            if any(steps.whole(held, start, end, 0, structure.size.item(v)) == [(start, end)] for held in holders.values())
        ]
        tops.sort()
        found = _below(structure.end, np.array(tops, np.int64), structure.n)
        found[tops] = True
        return found if node.flag is not False else ~found

    def _shared(self, node: Compare) -> Mask:
        records, window = self.graph.records, self._when(node)
        if node.flag is not None:
            found = self._only(v for v in list(records.shared) if records.shared_jobs(v, *window))
            return found if node.flag else ~found
        return self._only(
            v for v in list(records.shared) if any(_text_matches(job, node) for job in records.shared_jobs(v, *window))
        )

    def _staged(self, node: Compare) -> Mask:
        found = self._only(v for v in self.graph.records.held if self.graph.records.is_staged(v))
        return found if node.flag is not False else ~found


def _text_matches(text: str, node: Compare) -> bool:
    if node.op == "~":
        return any(fnmatch.fnmatchcase(text, pattern) for pattern in node.texts)
    return text in node.texts


def _names(node: Compare) -> set[str] | None:
    """The names a comparison lists, hostlists unfolded; None for a glob."""
    return None if node.op == "~" else set(node.names())


def _numbers(column: NDArray[Any], node: Compare) -> Mask:
    if node.op in _ORDER:
        return np.asarray(_ORDER[node.op](column, node.ranges[0][0]), np.bool_)
    lows, highs = np.array(node.ranges, np.int64).T
    at = np.searchsorted(lows, column, side="right") - 1
    return np.asarray((at >= 0) & (column <= highs[at]))


def _qualified(have: Mapping[str, object], node: Compare) -> bool:
    """A property or tag: whether the key is there, or how its value compares; numbers as numbers, other values as text."""
    if node.qualifier is None and node.flag is not None:
        return bool(have) == node.flag
    if node.qualifier is None:
        return any(_text_matches(key, node) for key in have)
    if node.qualifier not in have:
        return False
    value = have[node.qualifier]
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if node.op not in _ORDER:
        return _text_matches(text, node)
    wanted = node.texts[0]
    try:
        return bool(_ORDER[node.op](float(text), float(wanted)))
    except ValueError:
        return bool(_ORDER[node.op](text, wanted))


def _below(end: Int32, tops: NDArray[np.int64], n: int) -> Mask:
    """Everything strictly below these pools (ascending vertex numbers)."""
    mark = np.zeros(n + 1, np.int32)
    np.add.at(mark, tops + 1, 1)
    np.add.at(mark, end[tops], -1)
    return np.asarray(np.cumsum(mark[:n]) > 0)


def available_units(graph: ResourceGraph, start: int, end: int) -> NDArray[np.int64]:
    """Units free throughout the window for every pool, 0 where a state forbids new work (rule A7)."""
    structure = graph.structure
    free = graph.planner.free_slice(0, structure.n, start, end)
    for v in structure.unavailable_roots().tolist():
        free[v : structure.end.item(v)] = 0
    return free


def available(graph: ResourceGraph, start: int, end: int) -> Selection:
    """Pools with units free throughout the window."""
    return Selection(graph, np.flatnonzero(available_units(graph, start, end)).astype(np.int32))


def allocated(graph: ResourceGraph, job: str | None, at: Time | None) -> Selection:
    """Pools with a record; see :meth:`ResourceGraph.allocated`."""
    records = graph.records
    start, end = (graph.now(), FOREVER) if at is None else graph.window(at, None)
    vertices = {
        v
        for name in (records.jobs() if job is None else [job])
        for v in (records.require_job(name))
        if any(steps.within(records.held[v][name], start, end))
    }
    return Selection(graph, np.array(sorted(vertices), np.int32))


def aggregate(graph: ResourceGraph, v: int, start: int, end: int, every_type: bool) -> dict[str, int]:
    """Free units by type below and at `v`; see :meth:`ResourceGraph.aggregate`."""
    structure = graph.structure
    barred = structure.unavailable_roots()
    if structure.unavailable_above(v) >= 0:
        totals = np.zeros(0, np.int64)
    else:
        totals = graph.planner.totals(v, start, end, barred if len(barred) else None)
    # The kinds of a graph outlive its pools: there may be types of which none is left.
    totals = np.pad(totals, (0, len(structure.types) - len(totals)))
    present = np.unique(structure.type[v : structure.end.item(v)]).tolist() if every_type else None
    return {
        name: int(totals[number])
        for number, name in enumerate(structure.types)
        if (totals[number] > 0 if present is None else number in present)
    }


def walk(
    graph: ResourceGraph,
    v: int,
    order: str,
    prune: Callable[[Pool], bool] | None,
    sort: Callable[[list[Pool]], Iterable[Pool]] | None,
) -> Iterator[Pool]:
    """Visit a subtree depth first; see :meth:`ResourceGraph.walk`."""
    if order not in ("pre", "post"):
        raise UsageError(f"order: expected 'pre' or 'post', got {order!r}")
    return _walk(Pool(graph, v), order == "pre", prune, sort)


def _walk(
    top: Pool,
    pre: bool,
    prune: Callable[[Pool], bool] | None,
    sort: Callable[[list[Pool]], Iterable[Pool]] | None,
) -> Iterator[Pool]:
    pending: list[tuple[Pool, bool]] = [(top, False)]
    while pending:
        pool, done = pending.pop()
        if done:
            yield pool
            continue
        if prune is not None and prune(pool):
            continue
        if pre:
            yield pool
        else:
            pending.append((pool, True))
        children = list(pool.children)
        ordered = children if sort is None else list(sort(children))
        pending.extend((child, False) for child in reversed(ordered))

"""Searching a graph: criteria as boolean columns (RFC 4 Match and Find).

A comparison becomes one mask over all pools.  What pools of one kind share is tested once per kind and
spread by one gather; amounts come from the planner as a column; only criteria about jobs read the records,
whose number depends on the pools held, not on all pools.

An empty selection is a valid result: a program may look for GPUs on a machine without any.  For a person it is often a typing
error, so :func:`unmet` reports to commands which values no pool has, and what may have been meant.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.allocation import steps
from fluxres.arrays import Int32, Mask
from fluxres.clock import FOREVER, seconds, ticks
from fluxres.documents.suggestion import choose_from, suggest
from fluxres.errors import StaleHandle, UnknownType, UsageError
from fluxres.graph.kinds import STATES, Kind, instead_of
from fluxres.graph.structure import CONTAINMENT
from fluxres.model import targets
from fluxres.model.pool import Pool
from fluxres.model.targets import Place
from fluxres.model.totals import available_units, considered
from fluxres.syntax import unit
from fluxres.syntax.criteria import All, Amount, And, Compare, Criteria, Not, Or

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


_ORDER: Final[dict[str, Callable[..., Any]]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def matching(graph: ResourceGraph, criteria: Criteria, window: tuple[int, int]) -> Int32:
    """Vertices, ascending, of the pools that meet the criteria; amounts and jobs are compared over the window."""
    found, every = _CriteriaSearch(graph, window).mask(criteria), considered(graph.structure)
    return np.flatnonzero(found if every is None else found & every).astype(np.int32)


def accepted_by(graph: ResourceGraph, accepts: Callable[[Pool], object]) -> Int32:
    """Vertices, ascending, of the pools that a function accepts.

    Errors: StaleHandle when the function changes the structure of the graph.
    """
    every = considered(graph.structure)
    vertices = range(graph.structure.n) if every is None else np.flatnonzero(every).tolist()
    generation = graph.generation
    found = [v for v in vertices if accepts(Pool(graph, v, generation))]
    if graph.generation != generation:
        raise StaleHandle("the graph changed its structure during this search", hint="search first, and change it then")
    return np.array(found, np.int32)


class _CriteriaSearch:
    """One search: the graph and the window."""

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
            case _:
                raise UsageError(f"expected criteria, got {node!r:.80}", hint="fluxres.syntax.criteria.parse makes them")

    # -- kinds -------------------------------------------------------------------------------------------------------

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

    # -- columns -----------------------------------------------------------------------------------------------------

    def _id(self, node: Compare) -> Mask:
        return _numbers(self.structure.id, node) & (self.structure.id >= 0)

    def _rank(self, node: Compare) -> Mask:
        return _numbers(self.structure.rank, node) & (self.structure.rank >= 0)

    def _size(self, node: Compare) -> Mask:
        return self._amounts(self.structure.size, node)

    def _depth(self, node: Compare) -> Mask:
        return _numbers(self.structure.depth, node)

    def _state(self, node: Compare) -> Mask:
        wanted = np.array([_text_matches(state, node) for state in STATES])
        if not wanted.any() and node.op != "~":
            raise UsageError(f"no state '{', '.join(node.texts)}'", hint=instead_of(node.texts[0]))
        return np.asarray(wanted[self.structure.state])

    def _tag(self, node: Compare) -> Mask:
        return self._only(v for v, tags in self.structure.tags.items() if _qualified(tags, node))

    def _only(self, vertices: Iterable[int]) -> Mask:
        found = np.zeros(self.structure.n, np.bool_)
        found[np.fromiter(vertices, np.int64)] = True
        return found

    # -- names and places --------------------------------------------------------------------------------------------

    def _name(self, node: Compare) -> Mask:
        wanted = _names(node)
        if wanted is None:
            return self._matching(self.structure.name, node)
        return self._only(self.structure.named(wanted))

    def _matching(self, text_of: Callable[[int], str], node: Compare) -> Mask:
        if not node.texts:
            return np.zeros(self.structure.n, np.bool_)
        # A glob cannot be looked up: every name is built and tested.
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
        return self._only(v for place in places for v in targets.vertices_named(self.structure, place))

    def _parent(self, node: Compare) -> Mask:
        structure = self.structure
        if node.op == "~":
            contained = self._contained(node)
            above = self._matching(structure.where, contained) | self._matching(structure.name, contained)
            return self._next_below(above) | self._in_auxiliary(node, self._children)
        found = self._next_below(self._only(structure.named(text for text in node.texts if "/" not in text)))
        for text in node.texts:
            if "/" in text:
                place = targets.place(self.graph, text)
                found |= self._next_below(self._only(place.vertices)) if place.name is None else self._children(place)
        return found

    def _next_below(self, above: Mask) -> Mask:
        """Children in containment."""
        return np.where(self.structure.parent >= 0, above[self.structure.parent], False)

    def _children(self, place: Place) -> Mask:
        if place.above_roots:
            return self._only(place.vertices)
        forest = place.require_forest()
        return self._only(child for v in place.vertices for child in forest.children(v).tolist())

    def _under(self, node: Compare) -> Mask:
        structure = self.structure
        if node.op == "~":
            tops = self._matching(structure.where, self._contained(node))
            return structure.forest().below(np.flatnonzero(tops)) | self._in_auxiliary(node, self._below)
        return reduce(np.logical_or, (self._below(targets.place(self.graph, text)) for text in node.texts))

    def _below(self, place: Place) -> Mask:
        forest, tops = place.require_forest(), np.array(place.vertices, np.int32)
        return forest.with_below(tops) if place.above_roots else forest.below(tops)

    def _contained(self, node: Compare) -> Compare:
        """The globs that apply to containment, without URIs of auxiliary hierarchies."""
        names = [subsystem.name for subsystem in self.structure.subsystems.values() if subsystem.hierarchy]
        return replace(node, values=tuple(text for text in node.texts if not any(_in_hierarchy(text, name) for name in names)))

    def _in_auxiliary(self, node: Compare, found_at: Callable[[Place], Mask]) -> Mask:
        """Pools that URI globs find in auxiliary hierarchies."""
        structure, found = self.structure, np.zeros(self.structure.n, np.bool_)
        for subsystem in structure.subsystems.values():
            patterns = [text for text in node.texts if _in_hierarchy(text, subsystem.name)]
            if subsystem.hierarchy and patterns:
                uris = ((v, structure.auxiliary_uri(subsystem, v)) for v in subsystem.members.tolist())
                tops = [v for v, uri in uris if any(fnmatch.fnmatchcase(uri, pattern) for pattern in patterns)]
                found |= found_at(Place(structure, tops, subsystem.name))
        return found

    def _subsystem(self, node: Compare) -> Mask:
        return self._members(node, hierarchies_only=False)

    def _hierarchy(self, node: Compare) -> Mask:
        return self._members(node, hierarchies_only=True)

    def _members(self, node: Compare, *, hierarchies_only: bool) -> Mask:
        structure = self.structure
        found = np.zeros(structure.n, np.bool_)
        if _text_matches(structure.hierarchy, node) or (not hierarchies_only and _text_matches(CONTAINMENT, node)):
            found[: structure.tree_end] = True
        for subsystem in structure.subsystems.values():
            if (subsystem.hierarchy or not hierarchies_only) and _text_matches(subsystem.name, node):
                found[subsystem.members] = True
        return found

    # -- jobs --------------------------------------------------------------------------------------------------------

    def _when(self, node: Compare) -> tuple[int, int]:
        if node.when is None:
            return self.window
        start, end = node.when.resolve(seconds(self.graph.now()))
        lo = ticks(start, "at")
        return (lo, lo + 1) if node.when.kind == "at" else (lo, min(ticks(end, "during"), FOREVER))

    def _available(self, node: Compare) -> Mask:
        return self._amounts(available_units(self.graph, *self._when(node)), node)

    def _allocated(self, node: Compare) -> Mask:
        free = self.graph.planner.free_slice(0, self.structure.n, *self._when(node))
        return self._amounts(self.structure.units - free, node)

    def _amounts(self, column: NDArray[Any], node: Compare) -> Mask:
        """Numbers are compared as they are, sizes in the unit of each pool; one without such a unit meets none of these."""
        found = _numbers(column, node) if node.ranges else np.zeros(self.structure.n, np.bool_)
        for own in {kind.unit for kind in self.structure.kinds if kind.unit is not None}:
            for amount in node.amounts:
                if unit.dimension(own) == unit.dimension(amount.unit):
                    found |= _sizes(column, node.op, amount, own) & self._by_kind(partial(_is_in, own))
        return found

    def _job(self, node: Compare) -> Mask:
        records, (start, end) = self.graph.records, self._when(node)
        jobs = [job for job in records.jobs() if _text_matches(job, node)]
        pools = (v for job in jobs for v in records.pools_of[job] if any(steps.within(records.held[v][job], start, end)))
        return self._only(v for v in pools if v < self.structure.n)

    def _exclusive(self, node: Compare) -> Mask:
        records, structure, (start, end) = self.graph.records, self.structure, self._when(node)
        tops = [
            v
            for v, holders in records.held.items()
            if v < structure.n
            and any(steps.whole(held, start, end, 0, structure.size.item(v)) == [(start, end)] for held in holders.values())
        ]
        tops.sort()
        found = structure.forest().below(np.array(tops, np.int64))
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
        found = self._only(v for v in self.graph.records.held if v < self.structure.n and self.graph.records.is_staged(v))
        return found if node.flag is not False else ~found


def _in_hierarchy(pattern: str, name: str) -> bool:
    """Whether a glob matches URIs of this hierarchy."""
    before, colon, _ = pattern.partition(":/")
    return bool(colon) and fnmatch.fnmatchcase(name, before)


def _text_matches(text: str, node: Compare) -> bool:
    if node.op == "~":
        return any(fnmatch.fnmatchcase(text, pattern) for pattern in node.texts)
    return text in node.texts


def _names(node: Compare) -> set[str] | None:
    """The names that a comparison lists, hostlists expanded; None for a glob."""
    return None if node.op == "~" else set(node.names())


def _numbers(column: NDArray[Any], node: Compare) -> Mask:
    if node.op in _ORDER:
        return np.asarray(_ORDER[node.op](column, node.ranges[0][0]), np.bool_)
    lows, highs = np.array(node.ranges, np.int64).T
    at = np.searchsorted(lows, column, side="right") - 1
    return np.asarray((at >= 0) & (column <= highs[at]))


def _is_in(own: str, kind: Kind) -> bool:
    return kind.unit == own


def _sizes(column: NDArray[Any], op: str, amount: Amount, own: str) -> Mask:
    """How a column of this unit compares with an amount."""
    exact = Fraction(unit.convert(amount.number, amount.unit, own))
    if op not in _ORDER:
        return np.asarray(column == exact.numerator if exact.denominator == 1 else np.zeros(len(column), np.bool_))
    least = math.ceil(exact) if op in ("<", ">=") else math.floor(exact)
    return np.asarray(_ORDER[op](column, min(least, limits.SIZE_MAX + 1)), np.bool_)


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


def unmet(graph: ResourceGraph, criteria: Criteria) -> Iterator[str]:
    """A sentence for each requested value that no pool of the graph has."""
    match criteria:
        case And() | Or():
            for item in criteria.items:
                yield from unmet(graph, item)
        case Compare(op="="):
            yield from _compared(graph, criteria)
        case Compare(op=">" | ">=", key="size" | "available" | "allocated", ranges=((number, _),)):
            yield from _beyond(graph, number)
        case All() | Not() | Compare():
            return


def require_types(graph: ResourceGraph, criteria: Criteria) -> None:
    """Errors: UnknownType for a requested type that no pool of the graph has."""
    match criteria:
        case And() | Or():
            for item in criteria.items:
                require_types(graph, item)
        case Compare(op="=", key="type", flag=None):
            from fluxres.match.plan import nearest

            known = graph.structure.types
            for text in criteria.texts if criteria.qualifier is None else (criteria.qualifier,):
                if text not in known:
                    message = f"no pool of type '{text[: limits.NAME_LENGTH_MAX]}' in this graph"
                    raise UnknownType(message, hint=nearest(text, known))


def _compared(graph: ResourceGraph, node: Compare) -> Iterator[str]:
    known = _known(graph, node.key)
    if known is None or node.flag is not None:
        return
    texts = node.texts if node.qualifier is None else (node.qualifier,)
    values = dict.fromkeys(known)
    for text in texts:
        if text not in values:
            yield f"no {node.key} '{text[: limits.NAME_LENGTH_MAX]}' in this graph{_instead(text, values)}"


def _beyond(graph: ResourceGraph, number: int) -> Iterator[str]:
    largest = int(graph.structure.size.max())
    if number > largest:
        sizes = "; sizes have a unit, such as 64GiB" if any(kind.unit for kind in _kinds(graph)) else ""
        yield f"no pool has {number} units in this graph (the largest has {largest}{sizes})"


def _instead(text: str, known: Iterable[str]) -> str:
    some = list(islice(known, limits.COMPARED_MAX))
    if hint := suggest(text, some, most=3, cutoff=0.7):
        return f" ({hint})"
    return f" ({choose_from(some, most=limits.WHY_NAMES_MAX)})"


def _kinds(graph: ResourceGraph) -> Iterator[Kind]:
    structure = graph.structure
    return (structure.kinds[number] for number in np.flatnonzero(np.bincount(structure.kind)).tolist())


def _known(graph: ResourceGraph, key: str) -> Iterable[str] | None:
    """The values that pools of the graph have for a key; None for a key whose values are not listed."""
    structure = graph.structure
    match key:
        case "type":
            return structure.types
        case "basename":
            return (kind.basename for kind in _kinds(graph))
        case "unit":
            return (kind.unit for kind in _kinds(graph) if kind.unit is not None)
        case "property":
            return (name for kind in _kinds(graph) for name, _ in kind.properties)
        case "tag":
            return (name for tags in structure.tags.values() for name in tags)
        case "subsystem":
            return [CONTAINMENT, structure.hierarchy, *structure.subsystems]
        case "hierarchy":
            return structure.hierarchies()
        case "job":
            return graph.jobs()
    return None

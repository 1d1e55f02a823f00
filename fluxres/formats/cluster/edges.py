"""Edges of ``cluster.yaml``: read into auxiliary graphs, and written by folding rows into as few entries as possible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Int64
from fluxres.documents.document import Document, Key, shown
from fluxres.documents.mistakes import Mistakes
from fluxres.documents.suggestion import choose_from
from fluxres.errors import ErrorPlace, InputError, LimitExceeded
from fluxres.formats import losses
from fluxres.formats.cluster.entries import size_of
from fluxres.formats.cluster.schema import Edge, Graph
from fluxres.formats.selector import Selectors
from fluxres.graph.accounts import LARGER_UNIT, is_countable
from fluxres.graph.auxiliary import CONTAINS, Subsystem
from fluxres.graph.edges import RESERVED, in_unit_of, is_float
from fluxres.graph.kinds import fault_of
from fluxres.graph.structure import OUTSIDE, Structure
from fluxres.syntax.name import is_name

#: the default relation
LINK = "link"


@dataclass(slots=True)
class _Block:
    """The rows of one entry.

    Args:
        converts: whether its capacity is a text such as ``24 kW``, which counts in the unit of the pools of its graph.
    """

    src: Int64
    dst: Int64
    relation: str
    attributes: dict[str, Any]
    path: tuple[Key, ...]
    converts: bool = False


def pair(a: Int64, b: Int64, pairing: str | None) -> tuple[Int64, Int64]:
    """Sources and targets of the edges between two selections.

    Args:
        pairing: `each`, `cross`, `share`, or None to derive it from the number of pools on each side.

    Errors: InputError when the numbers of pools do not allow it, LimitExceeded past EDGES_MAX.

    >>> [x.tolist() for x in pair(np.array([1]), np.array([2, 3]), None)]
    [[1, 1], [2, 3]]
    >>> [x.tolist() for x in pair(np.array([1, 2]), np.array([5, 6, 7, 8]), "share")]
    [[1, 1, 2, 2], [5, 6, 7, 8]]
    """
    one = len(a) == 1 or len(b) == 1
    if pairing == "cross" or (one and pairing != "each"):
        if len(a) * len(b) > limits.EDGES_MAX:
            raise LimitExceeded(f"{len(a) * len(b)} edges, at most {limits.EDGES_MAX} are allowed")
        return np.repeat(a, len(b)), np.tile(b, len(a))
    if pairing == "share":
        short, long = sorted((len(a), len(b)))
        if long % short:
            raise InputError(f"{long} pools cannot be divided among {short} in equal runs")
        return (np.repeat(a, long // short), b) if len(a) == short else (a, np.repeat(b, long // short))
    if len(a) != len(b):
        hint = "'pairing: share' divides the longer side among the shorter in equal runs, 'pairing: cross' connects all with all"
        raise InputError(f"{len(a)} pools on one side and {len(b)} on the other", hint=hint)
    return a, b


class Doubts:
    """What cannot be judged in a document because something else in it is wrong.

    Args:
        wrong: the entries with a value that could not be read.
        mistakes: where all other mistakes go.

    Attributes:
        graphs: those of which edges are missing, so that a pool may not be found in them.
    """

    def __init__(self, wrong: Iterable[tuple[Key, ...]], mistakes: Mistakes) -> None:
        self.wrong = set(wrong)
        self.mistakes = mistakes
        self.graphs = {str(path[1]) for path in self.wrong if path[:1] == ("graphs",) and len(path) > 1}

    def of(self, *texts: str, inside: str = "") -> Mistakes:
        """Where mistakes in an entry go that names these pools: nowhere if they may follow from others.

        Args:
            inside: the graph that the entry is in, whose edges it cannot use.
        """
        named = {text.partition(":/")[0] for text in texts if self.graphs and ":/" in text} - {inside}
        return Mistakes() if named & self.graphs else self.mistakes


def _listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


class Edges:
    """Makes the auxiliary graphs of one document."""

    def __init__(
        self, document: Document, structure: Structure, selectors: Selectors, graphs: Iterable[str], doubts: Doubts
    ) -> None:
        self._graphs = (structure.hierarchy, *graphs)
        self._doubts = doubts
        self._document = document
        self._structure = structure
        self._selectors = selectors

    def subsystem(self, name: str, graph: Graph, roots: Sequence[int]) -> Subsystem:
        """One auxiliary graph.

        Args:
            roots: of the pools that it declares; in a hierarchy, containment among them becomes edges.

        Errors: InputError for selections that match nothing, sides that cannot be paired, and hierarchies that are not forests.
        """
        path: tuple[Key, ...] = ("graphs", name)
        hierarchy = graph.hierarchy is True
        blocks = [self._inside(root, path) for root in roots] if hierarchy else []
        for i, edge in enumerate(graph.edges or ()):
            place = (*path, "edges", i)
            if place in self._doubts.wrong:
                continue
            with self._doubts.of(*_listed(edge.from_), *_listed(edge.to), inside=name):
                blocks.append(self._block(edge, place))
                continue
            self._doubts.graphs.add(name)
        blocks = [block for block in blocks if len(block.src)]
        self._convert(blocks)
        rows = sum(len(block.src) for block in blocks)
        if rows > limits.EDGES_MAX:
            raise LimitExceeded(f"{rows} edges, at most {limits.EDGES_MAX} are allowed", where=self._document.where(path))
        relations = list(dict.fromkeys(block.relation for block in blocks)) or [LINK]
        if len(relations) > limits.RELATIONS_MAX:
            raise LimitExceeded(
                f"{len(relations)} relations, at most {limits.RELATIONS_MAX} are allowed", where=self._document.where(path)
            )
        numbers = {relation: i for i, relation in enumerate(relations)}
        lengths = [len(block.src) for block in blocks]
        keys = dict.fromkeys(key for block in blocks for key in block.attributes)
        if len(keys) > limits.EDGE_ATTRIBUTES_MAX or len(keys) * sum(lengths) > limits.EDGES_MAX:
            message = f"{len(keys)} attributes of {sum(lengths)} edges, at most {limits.EDGE_ATTRIBUTES_MAX} are allowed"
            raise LimitExceeded(message, where=self._document.where(path), hint="use the same few attributes for all edges")
        subsystem = Subsystem(
            name,
            hierarchy,
            _joined([block.src for block in blocks]).astype(np.int32),
            _joined([block.dst for block in blocks]).astype(np.int32),
            np.repeat(np.array([numbers[block.relation] for block in blocks], np.uint16), lengths),
            relations,
            _columns(keys, blocks, lengths),
        )
        if hierarchy:
            self._require_forest(subsystem, blocks, lengths)
        return subsystem

    def _convert(self, blocks: list[_Block]) -> None:
        """Count the capacities with a unit in the unit of the pools of the graph."""
        if not any(block.converts for block in blocks):
            return
        pools = np.unique(np.concatenate([side for block in blocks for side in (block.src, block.dst)]))
        for carried in (block.attributes for block in blocks if block.converts):
            number, carried["unit"] = in_unit_of(self._structure, pools, int(carried["capacity"]), carried["unit"])
            carried["capacity"] = float(number)

    def _inside(self, root: int, path: tuple[Key, ...]) -> _Block:
        below = np.arange(root + 1, self._structure.end.item(root), dtype=np.int64)
        return _Block(self._structure.parent[below].astype(np.int64), below, CONTAINS, {}, (*path, "pools"))

    def _block(self, edge: Edge, path: tuple[Key, ...]) -> _Block:
        found = Mistakes()
        with found:
            src = self._selected(edge.from_, (*path, "from"))
        with found:
            dst = self._selected(edge.to, (*path, "to"))
        with found:
            attributes = attributes_of(self._document, edge, path)
        found.require_none()
        with ErrorPlace(partial(self._document.where, path)):
            src, dst = pair(src, dst, None if edge.pairing is UNSET else edge.pairing)
        loops = np.flatnonzero(src == dst)
        if len(loops):
            name = self._structure.where(int(src[loops[0]]))
            raise InputError(f"an edge from {name} to itself", where=self._document.where(path))
        if edge.direction == "in":
            src, dst = dst, src
        elif edge.direction == "both":
            src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
        relation = LINK if edge.relation is UNSET else edge.relation
        return _Block(src, dst, relation, attributes, path, isinstance(edge.capacity, str) and edge.unit is UNSET)

    def _selected(self, texts: str | list[str], path: tuple[Key, ...]) -> Int64:
        found = []
        for i, text in enumerate(_listed(texts)):
            try:
                found.append(self._selectors.vertices(text))
            except InputError as error:
                where = self._document.where(path if isinstance(texts, str) else (*path, i))
                graph = text.partition(":/")[0]
                if ":/" in text and graph not in (*self._graphs, OUTSIDE):
                    raise type(error)(f"no graph '{graph}'", where=where, hint=choose_from(self._graphs)) from None
                raise type(error)(error.message, where=where, hint=self._spelled_out(text, path) or error.hint) from None
        return np.concatenate(found)

    def _spelled_out(self, text: str, path: tuple[Key, ...]) -> str:
        """A hint with the path or URI of the only pool that has a name; empty if there is none."""
        named = self._structure.named([text]) if ":" not in text and "/" not in text else []
        if len(named) != 1:
            return ""
        is_inside = named[0] < self._structure.tree_end
        return f"write {self._structure.path(named[0]) if is_inside else f'{path[1]}:{text}'}"

    def _require_forest(self, subsystem: Subsystem, blocks: list[_Block], lengths: list[int]) -> None:
        order = np.argsort(subsystem.dst, kind="stable")
        twice = np.flatnonzero(subsystem.dst[order][1:] == subsystem.dst[order][:-1])
        if len(twice):
            row = int(order[twice[0] + 1])
            entry = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
            v, first = int(subsystem.dst[row]), int(subsystem.src[order[twice[0]]])
            message = (
                f"{self._structure.path(v)} would have two parents in the hierarchy '{subsystem.name}': "
                f"{self._structure.path(first)} and {self._structure.path(int(subsystem.src[row]))}"
            )
            hint = "only a graph with 'hierarchy: false' may have two parents"
            raise InputError(message, where=self._document.where(blocks[entry].path), hint=hint)
        try:
            subsystem.require_forest()
        except InputError:
            row = _row_of_cycle(subsystem)
            entry = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
            message = (
                f"{self._structure.where(int(subsystem.dst[row]))} would be below itself in the hierarchy '{subsystem.name}'"
            )
            hint = "remove one edge of the cycle; only a graph with 'hierarchy: false' may have one"
            raise InputError(message, where=self._document.where(blocks[entry].path), hint=hint) from None


def attributes_of(document: Document, edge: Edge, path: tuple[Key, ...]) -> dict[str, Any]:
    """What an edge of a document carries, its capacity included."""
    attributes: dict[str, Any] = {}
    if isinstance(edge.capacity, str):
        with ErrorPlace(lambda: document.where((*path, "capacity"))):
            attributes |= size_of(edge.capacity, edge.unit or None, "capacity")
        attributes["capacity"] = float(attributes["capacity"])
    elif edge.capacity is not UNSET:
        if math.isnan(edge.capacity) or edge.capacity < 0:
            message = f"expected a number of at least 0, got {edge.capacity}"
            raise InputError(message, where=document.where((*path, "capacity")), hint="leave it out if it is unknown")
        if not is_countable(edge.capacity):
            message = f"expected at most {limits.CAPACITY_MAX}, got {edge.capacity}"
            raise InputError(message, where=document.where((*path, "capacity")), hint=LARGER_UNIT)
        attributes["capacity"] = float(edge.capacity)
    if edge.unit is not UNSET:
        attributes["unit"] = edge.unit
    if edge.supply is not UNSET:
        attributes["supply"] = edge.supply
    for key, value in (edge.attributes or {}).items():
        where = (*path, "attributes", key)
        if key in RESERVED or key in attributes or not is_name(key):
            raise InputError(f"{key!r} is not a valid attribute name", where=document.where(where, key=True))
        if (fault := fault_of(value)) is not None:
            kind = LimitExceeded if fault.is_limit else InputError
            raise kind(fault.message, where=document.where(where), hint=fault.hint)
        attributes[key] = value
    return attributes


def _row_of_cycle(subsystem: Subsystem) -> int:
    """An edge of a cycle, in a graph in which no pool has two parents; -1 if there is no cycle. Cost O(edges)."""
    targets: list[int] = subsystem.dst.tolist()
    above = dict(zip(targets, subsystem.src.tolist(), strict=True))
    free: set[int] = set()
    for v in targets:
        way: set[int] = set()
        while v in above and v not in free and v not in way:
            way.add(v)
            v = above[v]
        if v in way:
            return targets.index(v)
        free |= way
    return -1


def _joined(arrays: list[Int64]) -> Int64:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def _columns(keys: Iterable[str], blocks: list[_Block], lengths: list[int]) -> dict[str, NDArray[Any]]:
    """Attribute columns: numbers as float64 with NaN for absent, anything else as objects with None."""
    columns: dict[str, NDArray[Any]] = {}
    for key in keys:
        values = [block.attributes.get(key) for block in blocks]
        if all(value is None or is_float(value) for value in values):
            cells = np.array([math.nan if value is None else float(value) for value in values])
        else:
            cells = np.empty(len(values), object)
            cells[:] = values
        columns[key] = np.repeat(cells, lengths)
    return columns


Values = dict[str, Any]

#: rows of one entry, fewer than a selector may name
_ROWS_MAX = 1_000_000


def outside_homes(structure: Structure) -> dict[str, list[int]]:
    """The graph that declares each tree outside the containment tree: the first graph with an edge to it.

    Pools before the first one that any graph has an edge to go into the top-level `pools`. All of them go there where their order
    or the edges of a hierarchy would otherwise not be preserved.
    """
    roots = (np.flatnonzero(structure.parent[structure.tree_end :] < 0) + structure.tree_end).tolist()
    if not roots:
        return {}
    order = list(structure.subsystems)
    first: dict[int, int] = {}
    for number, subsystem in enumerate(structure.subsystems.values()):
        members = subsystem.members[subsystem.members >= structure.tree_end]
        for tree in np.unique(np.searchsorted(roots, members, side="right") - 1).tolist():
            first.setdefault(roots[tree], number)
    numbers = [first.get(root, -1) for root in roots]
    for at in range(1, len(numbers)):
        if numbers[at] < 0:
            numbers[at] = numbers[at - 1]  # a pool without edges is declared where the one before it is
    homes = {
        OUTSIDE if number < 0 else order[number]: [root for root, home in zip(roots, numbers, strict=True) if home == number]
        for number in sorted(set(numbers))
    }
    fits = all(
        _contained(structure, structure.subsystems[graph], found) is not None
        for graph, found in homes.items()
        if graph != OUTSIDE
    )
    return homes if fits and numbers == sorted(numbers) else {OUTSIDE: roots}


def _contained(structure: Structure, subsystem: Subsystem, roots: Sequence[int]) -> int | None:
    """Number of leading rows that are containment edges of these trees, implied by a hierarchy; None if they are missing."""
    if not subsystem.hierarchy:
        return 0
    below = [np.arange(root + 1, structure.end.item(root)) for root in roots]
    dst = np.concatenate(below) if below else np.zeros(0, np.int64)
    rows = len(dst)
    if not rows:
        return 0
    same = len(subsystem) >= rows and np.array_equal(subsystem.dst[:rows], dst)
    if not same or not np.array_equal(subsystem.src[:rows], structure.parent[dst]):
        return None
    bare = all(_codes(column[:rows]).max() == 0 and not losses.is_set(column[0]) for column in subsystem.attributes.values())
    return rows if bare and all(subsystem.relations[r] == CONTAINS for r in set(subsystem.relation[:rows].tolist())) else None


def edge_entries(structure: Structure, subsystem: Subsystem, selectors: Selectors, roots: Sequence[int]) -> list[Values]:
    """Entries for the rows of an auxiliary graph, in order.

    Args:
        roots: of the trees that this graph declares; their containment edges are not written again.
    """
    skipped = _contained(structure, subsystem, roots) or 0
    src, dst = subsystem.src[skipped:].astype(np.int64), subsystem.dst[skipped:].astype(np.int64)
    if not len(src):
        return []
    # Pools of another type begin another entry: one list of racks and nodes would be shorter, but hard to read.
    columns: list[NDArray[Any]] = [structure.type[src], structure.type[dst], subsystem.relation[skipped:]]
    columns.extend(_codes(column[skipped:]) for column in subsystem.attributes.values())
    change = np.zeros(len(src) - 1, np.bool_)
    for column in columns:
        change |= np.diff(column.astype(np.int64)) != 0
    change[_ROWS_MAX - 1 :: _ROWS_MAX] = True
    starts = [0, *(np.flatnonzero(change) + 1).tolist()]
    blocks: list[_Rows] = []
    for start, stop in zip(starts, [*starts[1:], len(src)], strict=True):
        blocks.extend(_blocks(src[start:stop], dst[start:stop], _carried(subsystem, skipped + start)))
    return [
        {"from": _one(selectors.texts(block.a.tolist())), "to": _one(selectors.texts(block.b.tolist())), **block.rest}
        for block in _both_ways(blocks)
    ]


@dataclass(slots=True)
class _Rows:
    """Rows that one entry describes: the two sides, what the edges carry, and the rows themselves."""

    a: Int64
    b: Int64
    rest: Values
    src: Int64
    dst: Int64


def _both_ways(blocks: list[_Rows]) -> Iterator[_Rows]:
    """Merge neighbouring blocks that are the two directions of the same edges."""
    at = 0
    while at < len(blocks):
        block = blocks[at]
        back = blocks[at + 1] if at + 1 < len(blocks) else None
        plain = back is not None and "direction" not in block.rest and "direction" not in back.rest
        carried = [{k: v for k, v in b.rest.items() if k != "pairing"} for b in (block, back) if b is not None]
        is_back = back is not None and np.array_equal(block.src, back.dst) and np.array_equal(block.dst, back.src)
        if plain and carried[0] == carried[1] and is_back:
            yield replace(block, rest={**block.rest, "direction": "both"})
            at += 2
        else:
            yield block
            at += 1


def _blocks(src: Int64, dst: Int64, carried: Values) -> Iterator[_Rows]:
    """Blocks of rows with the same relation, capacity and attributes, in order."""
    half = len(src) // 2
    if len(src) % 2 == 0 and np.array_equal(src[:half], dst[half:]) and np.array_equal(dst[:half], src[half:]):
        folded = list(_one_way(src[:half], dst[:half], carried))
        if len(folded) == 1:
            yield replace(folded[0], rest={**folded[0].rest, "direction": "both"}, src=src, dst=dst)
            return
    yield from _one_way(src, dst, carried)


def _one_way(src: Int64, dst: Int64, carried: Values) -> Iterator[_Rows]:
    runs_a, runs_b = _run_starts(src), _run_starts(dst)
    if len(runs_a) == 1 or len(runs_b) == 1:
        a = src[:1] if len(runs_a) == 1 else src
        yield _Rows(a, dst[:1] if len(runs_a) > 1 else dst, carried, src, dst)
        return
    for starts, few, long in ((runs_a, src, dst), (runs_b, dst, src)):
        length = len(few) // len(starts)
        if length > 1 and len(few) == length * len(starts) and np.array_equal(starts, np.arange(len(starts)) * length):
            pairing = "share"
            if starts is runs_a and np.array_equal(long, np.tile(long[:length], len(starts))):
                pairing, long = "cross", long[:length]
            a, b = (few[starts], long) if starts is runs_a else (long, few[starts])
            yield _Rows(a, b, {**carried, "pairing": pairing}, src, dst)
            return
    fewest = min(runs_a, runs_b, key=len)
    if len(fewest) * 2 > len(src):
        yield _Rows(src, dst, carried, src, dst)
        return
    for start, stop in zip(fewest.tolist(), [*fewest[1:].tolist(), len(src)], strict=True):
        yield from _one_way(src[start:stop], dst[start:stop], carried)


def _run_starts(values: Int64) -> Int64:
    return np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1])


def _one(texts: list[str]) -> str | list[str]:
    return texts[0] if len(texts) == 1 else texts


def _codes(column: NDArray[Any]) -> Int64:
    """A number for each value; equal for values that are equal and of the same type."""
    if column.dtype.kind == "f":
        codes: Int64 = np.unique(column, return_inverse=True)[1].reshape(-1)
        return codes
    known: dict[tuple[type, object], int] = {}
    odd = next((value for value in column.tolist() if not isinstance(value, str | int | float | bool | None)), None)
    if odd is not None:
        raise InputError(f"an edge has the value {shown(odd)}, which is neither text nor number", hint="write it as text")
    return np.array([known.setdefault((type(value), value), len(known)) for value in column.tolist()], np.int64)


def _short(value: object) -> object:
    """A whole float as an int, unless that has more digits than the float."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _carried(subsystem: Subsystem, row: int) -> Values:
    carried: Values = {}
    relation = subsystem.relations[subsystem.relation[row]]
    if relation != LINK:
        carried["relation"] = relation
    data = {key: value for key, value in subsystem.edge_data(row).items() if key not in ("subsystem", "type")}
    data = {key: _short(value) for key, value in data.items()}
    if "capacity" in data:
        carried["capacity"] = data.pop("capacity")
    if isinstance(unit := data.get("unit"), str) and 0 < len(unit) <= limits.NAME_LENGTH_MAX:
        carried["unit"] = data.pop("unit")
    if data.get("supply") in ("all", "any"):
        carried["supply"] = data.pop("supply")
    if data:
        carried["attributes"] = data
    return carried

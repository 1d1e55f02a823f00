"""Write auxiliary graphs as edges of ``cluster.yaml``, folding rows into as few entries as possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.documents.document import shown
from fluxres.errors import InputError
from fluxres.formats import losses
from fluxres.formats.cluster.edges import LINK
from fluxres.formats.selector import Selectors
from fluxres.graph.auxiliary import CONTAINS, Subsystem
from fluxres.graph.structure import OUTSIDE, Structure

Int64 = NDArray[np.int64]
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
    blocks: list[_Block] = []
    for start, stop in zip(starts, [*starts[1:], len(src)], strict=True):
        blocks.extend(_blocks(src[start:stop], dst[start:stop], _carried(subsystem, skipped + start)))
    return [
        {"from": _one(selectors.texts(block.a.tolist())), "to": _one(selectors.texts(block.b.tolist())), **block.rest}
        for block in _both_ways(blocks)
    ]


@dataclass(slots=True)
class _Block:
    """Rows that one entry describes: the two sides, what the edges carry, and the rows themselves."""

    a: Int64
    b: Int64
    rest: Values
    src: Int64
    dst: Int64


def _both_ways(blocks: list[_Block]) -> Iterator[_Block]:
    """Merge neighbouring blocks that are the two directions of the same edges."""
    at = 0
    while at < len(blocks):
        block = blocks[at]
        back = blocks[at + 1] if at + 1 < len(blocks) else None
        plain = back is not None and "direction" not in block.rest and "direction" not in back.rest
        carried = [{k: v for k, v in b.rest.items() if k != "pairing"} for b in (block, back) if b is not None]
        if back is not None and plain and carried[0] == carried[1] and _is_back(block, back):
            yield replace(block, rest={**block.rest, "direction": "both"})
            at += 2
        else:
            yield block
            at += 1


def _is_back(block: _Block, back: _Block) -> bool:
    return np.array_equal(block.src, back.dst) and np.array_equal(block.dst, back.src)


def _blocks(src: Int64, dst: Int64, carried: Values) -> Iterator[_Block]:
    """Blocks of rows with the same relation, capacity and attributes, in order."""
    half = len(src) // 2
    if len(src) % 2 == 0 and np.array_equal(src[:half], dst[half:]) and np.array_equal(dst[:half], src[half:]):
        folded = list(_one_way(src[:half], dst[:half], carried))
        if len(folded) == 1:
            yield replace(folded[0], rest={**folded[0].rest, "direction": "both"}, src=src, dst=dst)
            return
    yield from _one_way(src, dst, carried)


def _one_way(src: Int64, dst: Int64, carried: Values) -> Iterator[_Block]:
    runs_a, runs_b = _run_starts(src), _run_starts(dst)
    if len(runs_a) == 1 or len(runs_b) == 1:
        a = src[:1] if len(runs_a) == 1 else src
        yield _Block(a, dst[:1] if len(runs_a) > 1 else dst, carried, src, dst)
        return
    for starts, few, long in ((runs_a, src, dst), (runs_b, dst, src)):
        length = len(few) // len(starts)
        if length > 1 and len(few) == length * len(starts) and np.array_equal(starts, np.arange(len(starts)) * length):
            pairing = "share"
            if starts is runs_a and np.array_equal(long, np.tile(long[:length], len(starts))):
                pairing, long = "cross", long[:length]
            a, b = (few[starts], long) if starts is runs_a else (long, few[starts])
            yield _Block(a, b, {**carried, "pairing": pairing}, src, dst)
            return
    fewest = min(runs_a, runs_b, key=len)
    if len(fewest) * 2 > len(src):
        yield _Block(src, dst, carried, src, dst)
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
    """Relation, capacity and attributes of a row."""
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

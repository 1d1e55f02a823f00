"""Compare two structures: whether they describe the same machine, and where they differ.

After saving and loading, a structure may number its kinds, uuid bases and relations differently, or produce by a template a name
that was explicit before.  So what is compared is what a user sees: the data of every pool, and the edges as a set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fluxres.arrays import Int32, Int64, Mask
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import STATES
from fluxres.graph.structure import Structure

#: differences reported of each kind: the first few show what is wrong
SHOWN_MAX = 5


def equal(a: Structure, b: Structure, *, uuids: bool = True) -> list[str]:
    """The differences between two structures, as sentences with the path; empty if they are equal.

    Args:
        uuids: whether to compare uuids too.

    Cost: O(pools) array operations and O(differences + edges) Python.

    >>> from fluxres.graph.recipe import Recipe, expand
    >>> a, b = (expand(Recipe("cluster", children=(Recipe("core", 3, size=n),)), origin=0) for n in (1, 2))
    >>> equal(a, a), equal(a, b)[0]
    ([], '/cluster/core0: size 1, not 2')
    """
    if (a.n, a.tree_end) != (b.n, b.tree_end):
        return [f"{a.n} pools, {a.tree_end} of them in the containment tree, not {b.n} and {b.tree_end}"]
    shape = [*_column(a, b, "parent"), *_column(a, b, "end")]
    if shape:
        return shape
    found = [*_column(a, b, "size"), *_column(a, b, "id"), *_column(a, b, "rank"), *_column(a, b, "flags")]
    found += _cells(a, a.state != b.state, lambda v: f"state {STATES[a.state[v]]}, not {STATES[b.state[v]]}")
    found += _kinds(a, b)
    found += _names(a, b)
    found += _sparse(a, "tags", a.tags, b.tags)
    found += _sparse(a, "capacity", a.capacity, b.capacity)
    if uuids:
        found += _uuids(a, b)
    return found + _graphs(a, b)


def numbers_in(after: Structure, before: Structure) -> Int32:
    """By pool of a structure, the number of the same pool, with the same uuid, in another one; -1 if it is not there.

    Cost: a sort of the pools.
    """
    base = 1 + max(before.serial.max(initial=0).item(), after.serial.max(initial=0).item())
    index = {origin: number for number, origin in enumerate(after.origins)}
    origin = np.array([index.get(each, -1) for each in before.origins], np.int64)[before.origin]
    wanted = np.where(origin < 0, -1, origin * base + before.serial)
    known = after.origin.astype(np.int64) * base + after.serial
    wanted[list(before.uuid_texts)] = -1  # the serial of an explicit uuid says nothing
    known[list(after.uuid_texts)] = -2
    order = np.argsort(known, kind="stable")
    at = np.minimum(known[order].searchsorted(wanted), len(order) - 1)
    found = np.where((wanted >= 0) & (known[order[at]] == wanted), order[at], -1).astype(np.int32)
    numbers = {text: v for v, text in after.uuid_texts.items()}
    for v, text in before.uuid_texts.items():
        found[v] = numbers.get(text, -1)
    return found


def _cells(a: Structure, differs: Mask, message: Callable[[int], str]) -> list[str]:
    where = np.flatnonzero(differs)
    shown = [f"{_where(a, v)}: {message(v)}" for v in where[:SHOWN_MAX].tolist()]
    return [*shown, f"and {len(where) - SHOWN_MAX} more pools like this"] if len(where) > SHOWN_MAX else shown


def _where(a: Structure, v: int) -> str:
    return a.path(v) if v < a.tree_end else f"outside the tree, {a.path(v)}"


def _column(a: Structure, b: Structure, name: str) -> list[str]:
    left, right = getattr(a, name), getattr(b, name)
    return _cells(a, left != right, lambda v: f"{name} {left[v]}, not {right[v]}")


def _kind_facts(s: Structure, number: int) -> tuple[object, ...]:
    kind = s.kinds[number]
    return kind.type, kind.basename, kind.unit, tuple((key, type(value), value) for key, value in kind.properties)


def _pairs(a: Structure, b: Structure) -> tuple[Int64, Int64]:
    """The distinct pairs (kind in `a`, kind in `b`) over all vertices, and the index of the pair of each vertex."""
    return _distinct(a.kind.astype(np.int64) * len(b.kinds) + b.kind, len(a.kinds) * len(b.kinds))


def _distinct(codes: Int64, stop: int) -> tuple[Int64, Int64]:
    """The distinct codes, all below `stop`, ascending, and the index of each code among them."""
    if stop > 4 * len(codes):
        found, which = np.unique(codes, return_inverse=True)
        return found, which.reshape(-1)
    # With few kinds and many pools, counting is ten times faster than sorting.
    counts = np.bincount(codes, minlength=stop)
    return np.flatnonzero(counts), (np.cumsum(counts > 0) - 1)[codes]


def _kinds(a: Structure, b: Structure) -> list[str]:
    pairs, which = _pairs(a, b)
    facts = [(_kind_facts(a, pair // len(b.kinds)), _kind_facts(b, pair % len(b.kinds))) for pair in pairs.tolist()]
    differs = np.array([left != right for left, right in facts])
    return _cells(a, differs[which], lambda v: "{} (type, basename, unit, properties), not {}".format(*facts[int(which[v])]))


def _names(a: Structure, b: Structure) -> list[str]:
    pairs, which = _pairs(a, b)
    doubtful = np.array([a.kinds[p // len(b.kinds)].name != b.kinds[p % len(b.kinds)].name for p in pairs.tolist()])[which]
    doubtful[[*a.names, *b.names]] = True
    differs = np.zeros(a.n, np.bool_)
    for v in np.flatnonzero(doubtful).tolist():
        differs[v] = a.name(v) != b.name(v)
    return _cells(a, differs, lambda v: f"name {a.name(v)!r}, not {b.name(v)!r}")


def _sparse(a: Structure, what: str, left: dict[int, Any], right: dict[int, Any]) -> list[str]:
    differs = np.zeros(a.n, np.bool_)
    for v in left.keys() | right.keys():
        differs[v] = left.get(v) != right.get(v)
    return _cells(a, differs, lambda v: f"{what} {left.get(v)!r}, not {right.get(v)!r}")


def _uuids(a: Structure, b: Structure) -> list[str]:
    differs = a.serial != b.serial
    both = a.origin.astype(np.int64) * len(b.origins) + b.origin
    for pair in _distinct(both, len(a.origins) * len(b.origins))[0].tolist():
        if a.origins[pair // len(b.origins)] != b.origins[pair % len(b.origins)]:
            differs |= both == pair
    explicit = [*a.uuid_texts, *b.uuid_texts]
    differs[explicit] = True
    # Different bases and serials may still give the same text, and explicit texts must be compared one by one.
    for v in np.flatnonzero(differs).tolist():
        differs[v] = a.uuid(v) != b.uuid(v)
    return _cells(a, differs, lambda v: f"uuid {a.uuid(v)}, not {b.uuid(v)}")


def _graphs(a: Structure, b: Structure) -> list[str]:
    found = []
    if a.subsystems.keys() != b.subsystems.keys():
        found.append(f"auxiliary graphs {', '.join(a.subsystems) or 'none'}, not {', '.join(b.subsystems) or 'none'}")
    for name in a.subsystems.keys() & b.subsystems.keys():
        left, right = a.subsystems[name], b.subsystems[name]
        if left.hierarchy != right.hierarchy:
            found.append(f"graph {name}: hierarchy {left.hierarchy}, not {right.hierarchy}")
        if _same_rows(left, right):
            continue
        ours, theirs = Counter(_edges(left)), Counter(_edges(right))
        for word, rest in (("only in the first", ours - theirs), ("only in the second", theirs - ours)):
            found += [
                f"graph {name}: {_where(a, src)} to {_where(a, dst)} {dict(data)} is {word}"
                for src, dst, data in list(rest)[:SHOWN_MAX]
            ]
            if len(rest) > SHOWN_MAX:
                found.append(f"graph {name}: {len(rest) - SHOWN_MAX} more edges like this")
    return found


def _same_rows(a: Subsystem, b: Subsystem) -> bool:
    """Whether two graphs have the same rows in the same order and the same columns, without looking at single edges."""
    if not (np.array_equal(a.src, b.src) and np.array_equal(a.dst, b.dst)):
        return False
    if a.attributes.keys() != b.attributes.keys() or a.relations != b.relations or not np.array_equal(a.relation, b.relation):
        return False
    columns = [(a.attributes[key], b.attributes[key]) for key in a.attributes]
    return all(x.dtype.kind == y.dtype.kind == "f" and np.array_equal(x, y, equal_nan=True) for x, y in columns)


def _edges(subsystem: Subsystem) -> Iterator[tuple[int, int, tuple[tuple[str, object], ...]]]:
    for src, dst, data in subsystem.rows():
        yield src, dst, tuple(sorted(data.items()))

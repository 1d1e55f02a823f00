"""Convert the properties of a resource set, which gives ranks by property, to properties by node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.documents import json_typed
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded
from fluxres.graph.kinds import require_draws
from fluxres.syntax import idset
from fluxres.syntax.constraint import RESERVED

BARRED: Final = RESERVED
Pairs = tuple[tuple[str, str | None], ...]


def properties_by_node(
    source: Source, given: Mapping[str, str], ranks: NDArray[np.int64]
) -> tuple[list[Pairs], NDArray[np.int64]]:
    """The distinct sets of properties, and the number of the set of each node.

    Args:
        given: idset of ranks by property; a value follows an equals sign.
        ranks: of the nodes, ascending.

    Errors: InputError for names that RFC 20 forbids and for ranks that do not exist; LimitExceeded past IDSET_COUNT_MAX
    memberships. Cost: O(memberships) array operations.
    """
    sort = np.zeros(len(ranks), np.int64)
    made: list[tuple[int, str]] = [(-1, "")]  # a set is another set and one more property
    total = 0
    for name, text in given.items():
        path = ["execution", "properties", name]
        if BARRED & set(name):
            barred = min(BARRED & set(name))
            raise InputError(f"{barred!r} in the name of a property", where=json_typed.where(source, path, key=True))
        require_draws(pairs_of([name]), partial(json_typed.where, source, path, key=True))
        try:
            spans = idset.ranges(text)
        except InputError as error:
            raise type(error)(error.message, where=json_typed.where(source, path), hint=error.hint) from None
        members = _positions(spans, ranks)
        if sum(last - first + 1 for first, last in spans) != len(members):
            lost = next(rank for first, last in spans for rank in range(first, last + 1) if not _has(ranks, rank))
            raise InputError(f"rank {lost} is in no entry of R_lite", where=json_typed.where(source, path))
        total += len(members)
        if total > limits.IDSET_COUNT_MAX:
            raise LimitExceeded(f"more than {limits.IDSET_COUNT_MAX} properties of nodes", where=json_typed.where(source, path))
        before, which = np.unique(sort[members], return_inverse=True)
        sort[members] = len(made) + which
        made += [(number, name) for number in before.tolist()]
    used, which = np.unique(sort, return_inverse=True)
    return [_pairs(made, number) for number in used.tolist()], which


def _positions(spans: list[tuple[int, int]], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    found = [np.arange(*np.searchsorted(ranks, [first, last + 1])) for first, last in spans]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _has(ranks: NDArray[np.int64], rank: int) -> bool:
    at = int(np.searchsorted(ranks, rank))
    return at < len(ranks) and int(ranks[at]) == rank


def _pairs(made: list[tuple[int, str]], number: int) -> Pairs:
    names = []
    while number > 0:
        number, name = made[number]
        names.append(name)
    return pairs_of(names)


def pairs_of(names: Iterable[str]) -> Pairs:
    """Properties of a node from their names in R; a value follows an equals sign.

    >>> pairs_of(["gen=5", "ssd", "gen=4"])
    (('gen', '4'), ('gen=5', None), ('ssd', None))
    """
    pairs: dict[str, str | None] = {}
    for name in sorted(set(names)):
        key, equals, value = name.partition("=")
        if equals and key and value and key not in pairs:
            pairs[key] = value
        else:
            pairs[name] = None  # for a second value of one key, or no value at all, the whole word is the property
    return tuple(sorted(pairs.items()))

"""Paths that name several pools: any part of `/demo/rack[0-1]/node[0-3]` may be a hostlist, with brackets and commas."""

from __future__ import annotations

from itertools import product
from math import prod

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.syntax import hostlist


def folds(text: str) -> bool:
    """Whether a text may name several pools."""
    return "[" in text or "," in text


def expand(where: str) -> list[str]:
    """The paths or URIs that a text with brackets or commas names.

    Errors: InputError for invalid brackets; LimitExceeded beyond IDSET_COUNT_MAX paths.

    >>> expand("power:/pdu0/node[0-1]")
    ['power:/pdu0/node0', 'power:/pdu0/node1']
    """
    if not folds(where):
        return [where]
    parts = _outside_brackets(where)
    if prod(hostlist.count(part) if folds(part) else 1 for part in parts) > limits.IDSET_COUNT_MAX:
        raise LimitExceeded(f"more than {limits.IDSET_COUNT_MAX} pools in one argument", where=where)
    return ["/".join(names) for names in product(*(hostlist.parse(part) if folds(part) else [part] for part in parts))]


def _outside_brackets(where: str) -> list[str]:
    parts, start, depth = [], 0, 0
    for at, character in enumerate(where):
        depth += (character == "[") - (character == "]")
        if character == "/" and depth == 0:
            parts.append(where[start:at])
            start = at + 1
    return [*parts, where[start:]]

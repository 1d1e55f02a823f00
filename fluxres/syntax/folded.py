"""Texts that name several pools: any part of `/demo/rack[0-1]/node[0-3]` or of `core[0-3]@node[0-1]` may be a hostlist, and names
may be joined with commas.
"""

from __future__ import annotations

import re
from itertools import product
from math import prod
from typing import Final, NamedTuple

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
        raise _too_many(where)
    return ["/".join(names) for names in product(*(hostlist.parse(part) if folds(part) else [part] for part in parts))]


class Folded(NamedTuple):
    """Names that one text lists.

    Args:
        names: paths or URIs; or names of pools.
        hosts: what contains the pools; empty if that was not given.
    """

    names: list[str]
    hosts: list[str]


def listed(text: str) -> list[Folded]:
    """The parts of a text, at the commas between them; those within a path stay with it, and neighbours of one form are joined.

    Errors: as :func:`expand`.

    >>> listed("/demo/rack0,rack1,core[0-1]@node3")
    [Folded(names=['/demo/rack0', '/demo/rack1'], hosts=[]), Folded(names=['core0', 'core1'], hosts=['node3'])]
    """
    parts: list[str] = []
    for part in _outside_brackets(text, ","):
        if parts and _is_path(parts[-1]) and not _is_path(part) and "@" not in part:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    found: list[Folded] = []
    for part in parts:
        names, hosts = _names(part)
        before = found[-1] if found else None
        if before is not None and hosts and before.hosts and names == before.names:
            before.hosts.extend(hosts)
        elif before is not None and not hosts and not before.hosts and _is_path(before.names[0]) == _is_path(part):
            before.names.extend(names)
        else:
            found.append(Folded(names, hosts))
    return found


def _names(part: str) -> Folded:
    pool, *host = _outside_brackets(part, "@")
    if _is_path(part) or not pool or not any(host):
        return Folded(expand(part), [])
    found = Folded(expand(pool), expand("@".join(host)))
    if len(found.names) * len(found.hosts) > limits.IDSET_COUNT_MAX:
        raise _too_many(part)
    return found


_PATH: Final = re.compile(r"/|[^\s/\[\]{}()=:;,@]+:")


def _is_path(text: str) -> bool:
    return _PATH.match(text) is not None


def _too_many(where: str) -> LimitExceeded:
    return LimitExceeded(f"more than {limits.IDSET_COUNT_MAX} pools in one argument", where=where)


def _outside_brackets(where: str, separator: str = "/") -> list[str]:
    parts, start, depth = [], 0, 0
    for at, character in enumerate(where):
        depth += (character == "[") - (character == "]")
        if character == separator and depth == 0:
            parts.append(where[start:at])
            start = at + 1
    return [*parts, where[start:]]

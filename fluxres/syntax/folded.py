"""Texts that name several pools: any part of `/demo/rack[0-1]/node[0-3]` or of `core[0-3]@socket0@node[0-1]` may be a hostlist,
and names may be joined with commas.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, product
from math import prod
from typing import Final, NamedTuple

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.syntax import hostlist


def folds(text: str) -> bool:
    """Whether a text may name several pools, or has quoted names."""
    return any(mark in text for mark in "[,'\"")


def fold(names: Iterable[str]) -> str:
    """Names of pools in one text, which :func:`expand` reads: neighbours with one prefix share brackets, odd names are quoted.

    >>> fold(["node0", "node1", "left over"])
    "node[0-1],'left over'"
    """
    found = list(names)
    if len(found) == 1 and found[0][:1] not in _QUOTES:
        return found[0] if hostlist.is_name(found[0]) else repr(found[0])
    texts: list[str] = []
    for is_listed, group in groupby(found, is_plain):
        neighbours = list(group)
        texts += [hostlist.format(neighbours)] if is_listed else [repr(name) for name in neighbours]
    return ",".join(texts)


def is_plain(name: str) -> bool:
    """Whether a list of pools may have this name without quotes: it is a host name, and starts no path, URI or quote.

    >>> [is_plain(name) for name in ("node0", "left over", "core0@node0", "a:b", "'a'")]
    [True, False, False, False, False]
    """
    return hostlist.is_name(name) and ":" not in name and "@" not in name and name[0] not in _QUOTES


def expand(where: str) -> list[str]:
    """The paths or URIs that a text with brackets, commas or quotes names.

    Errors: InputError for invalid brackets; LimitExceeded beyond IDSET_COUNT_MAX paths.

    >>> expand("power:/pdu0/node[0-1]"), expand("network:leaf0,leaf1"), expand("/m/'a b',c")
    (['power:/pdu0/node0', 'power:/pdu0/node1'], ['network:leaf0', 'network:leaf1'], ['/m/a b', '/m/c'])
    """
    if not folds(where):
        return [where]
    graph = _GRAPH.match(where)
    start = graph[0] if graph is not None else ""
    steps = [list(_items(step)) for step in _outside_brackets(where[len(start) :])]
    if prod(sum(len(item) for item in items) for items in steps) > limits.IDSET_COUNT_MAX:
        raise _too_many(where)
    return [start + "/".join(names) for names in product(*([name for item in items for name in item] for items in steps))]


def _items(step: str) -> Iterator[Sequence[str] | hostlist.Expression]:
    """The names that one step of a path lists."""
    for item in _outside_brackets(step, ","):
        if _QUOTED.fullmatch(item) is not None:
            yield [str(ast.literal_eval(item))]
        elif folds(item) or item != step:
            yield from hostlist.expressions(item)
        else:
            yield [item]


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
        name, *host = _outside_brackets(part, "@")
        if parts and _is_path(parts[-1]) and not _is_path(part) and (not host or "/" in name):
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
    names, hosts = expand(pool), [expand(each) for each in host]
    if prod(map(len, (names, *hosts))) > limits.IDSET_COUNT_MAX:
        raise _too_many(part)
    return Folded(names, ["@".join(each) for each in product(*hosts)])


_GRAPH: Final = re.compile(r"[^\s/\[\]{}()=:;,@'\"]+:")
_PATH: Final = re.compile(rf"/|{_GRAPH.pattern}")
_QUOTES: Final = ("'", '"')
_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
"""A name as Python writes it, where a hostlist cannot have it."""


def _is_path(text: str) -> bool:
    return _PATH.match(text) is not None


def _too_many(where: str) -> LimitExceeded:
    return LimitExceeded(f"more than {limits.IDSET_COUNT_MAX} pools in one argument", where=where)


def _outside_brackets(where: str, separator: str = "/") -> list[str]:
    """The parts between separators outside brackets and quoted names."""
    parts, start, depth, at = [], 0, 0, 0
    while at < len(where):
        character = where[at]
        quoted = _QUOTED.match(where, at) if character in "'\"" and (at == 0 or where[at - 1] in "/,:@") else None
        if quoted is not None:
            at = quoted.end()
            continue
        depth += (character == "[") - (character == "]")
        if character == separator and depth == 0:
            parts.append(where[start:at])
            start = at + 1
        at += 1
    return [*parts, where[start:]]

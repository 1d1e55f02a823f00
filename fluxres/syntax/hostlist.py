"""Lists of host names as text: `node[0-15,20],login1` (Flux RFC 29).

A hostlist is an ordered list, repeats kept, so `format` never sorts.  Where the RFC and flux-core differ this follows
flux-core, because its daemons read what fluxres writes: each element is padded by its own low end
(`[005,4]` is 005, 4), blanks separate like commas, and stray commas are passed over.  Expressions stay ranges
until a list is asked for; :func:`regular` lets a recipe of thousands of nodes skip the list altogether.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax.excerpt import excerpt

_DIGITS = "0123456789"
_SEPARATORS = ", \t\n"
_NAME = re.compile(r"[!-+\--Z\\^-~]+")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
# Longer numbers are names to us: they fit no id, and merging them would promise arithmetic on them.
_NUMBER_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True)
class Expression:
    """One top-level item: `prefix`, then numbers, then `suffix`; without numbers the prefix is the whole name."""

    prefix: str
    runs: tuple[tuple[int, int, int], ...] = ()
    """(first, last, width) with both ends included, in the order written."""
    suffix: str = ""

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last, _ in self.runs) if self.runs else 1

    def __iter__(self) -> Iterator[str]:
        if not self.runs:
            yield self.prefix
        for first, last, width in self.runs:
            for number in range(first, last + 1):
                yield f"{self.prefix}{number:0{width}}{self.suffix}"


def parse(text: str) -> list[str]:
    """The hosts of a hostlist, in order, repeats kept.

    Cost O(hosts). Errors: InputError with the column; LimitExceeded beyond `limits.HOSTLIST_RANGE_MAX` hosts in a range,
    `limits.IDSET_COUNT_MAX` in all, or `limits.NAME_LENGTH_MAX` characters in a name.
    Source: RFC 29, Hostlist Format; padding as flux-core.

    >>> parse("node[08-10,3],login1")
    ['node08', 'node09', 'node10', 'node3', 'login1']
    """
    return [host for expression in expressions(text) for host in expression]


def count(text: str) -> int:
    """How many hosts a hostlist has, without expanding it; cost and errors in the length of the text.

    >>> count("node[0-1023],login1")
    1025
    """
    return sum(len(expression) for expression in expressions(text))


def expressions(text: str) -> list[Expression]:
    """The items of a hostlist, checked and bounded but not expanded.

    >>> expressions("n[0-3,7]-ib")
    [Expression(prefix='n', runs=((0, 3, 1), (7, 7, 1)), suffix='-ib')]
    """
    found = []
    hosts = 0
    for start, item in _items(text, _SEPARATORS):
        expression = _expression(item, start + 1)
        found.append(expression)
        hosts += len(expression)
        if hosts > limits.IDSET_COUNT_MAX:
            raise LimitExceeded(f"hostlist has more than {limits.IDSET_COUNT_MAX} hosts", where=_at(start + 1))
    return found


def regular(text: str) -> tuple[str, int, str, int, int] | None:
    """(prefix, width, suffix, first, last) of a hostlist that is one plain range; None for any other text.

    None is also the answer for text that :func:`parse` refuses, so callers fall back to it and get its error.

    >>> regular("frontier[00001-09408]"), regular("node[0-3,7]")
    (('frontier', 5, '', 1, 9408), None)
    """
    try:
        items = expressions(text)
    except InputError:
        return None
    if len(items) != 1 or len(items[0].runs) != 1:
        return None
    first, last, width = items[0].runs[0]
    return items[0].prefix, width, items[0].suffix, first, last


def split(text: str) -> list[str]:
    """The items of a comma separated list, cut only outside brackets; blanks around items and empty items go.

    >>> split("node[0-3,7], login1,")
    ['node[0-3,7]', 'login1']
    """
    return [item.strip() for _, item in _items(text, ",") if item.strip()]


def format(hosts: Iterable[str]) -> str:  # noqa: A001 - read as hostlist.format
    """Hosts folded as flux-core encodes them: neighbours with one prefix share a bracket, order is kept.

    Cost O(hosts). Errors: InputError for a name that no hostlist can say (empty, or with blanks, commas, brackets, or
    characters outside printable ASCII); :func:`fold` shows such names instead.

    >>> format(["node0", "node1", "node2", "node5", "login", "node9"])
    'node[0-2,5],login,node9'
    """
    return ",".join(_groups(_checked(hosts)))


def fold(names: Iterable[str]) -> str:
    """Names folded for a reader: as :func:`format`, and what it refuses stands there quoted.

    >>> fold(["node0", "node1", "left over"])
    "node[0-1],'left over'"
    """
    out: list[str] = []
    plain: list[str] = []
    for name in names:
        if _wrong(name) is None:
            plain.append(name)
            continue
        out += _groups(plain)
        plain = []
        out.append(repr(name))
    return ",".join([*out, *_groups(plain)])


def _items(text: str, separators: str) -> Iterator[tuple[int, str]]:
    """(offset, item) of what stands between separators outside brackets; empty items are passed over."""
    start = depth = 0
    for offset, char in enumerate(text):
        if char in "[]":
            depth = max(0, depth + (1 if char == "[" else -1))
        elif depth == 0 and char in separators:
            if offset > start:
                yield start, text[start:offset]
            start = offset + 1
    if start < len(text):
        yield start, text[start:]


def _expression(item: str, column: int) -> Expression:
    prefix, opened, rest = item.partition("[")
    inside, closed, suffix = rest.partition("]")
    if "]" in prefix or (opened and not closed) or "[" in inside or "]" in suffix:
        raise InputError(f"expected matching brackets, got {excerpt(item)}", where=_at(column))
    if "[" in suffix:
        raise InputError(
            f"expected one bracket group in a name, got {excerpt(item)}", where=_at(column), hint="write the names out"
        )
    for part in (prefix, suffix):
        wrong = _wrong(part) if part else None
        if wrong:
            raise InputError(wrong, where=_at(column))
    if not opened:
        return Expression(prefix)
    room = limits.NAME_LENGTH_MAX - len(prefix) - len(suffix)
    runs = []
    column += len(prefix) + 1
    for field in inside.split(","):
        runs.append(_run(field, column, room))
        column += len(field) + 1
    return Expression(prefix, tuple(runs), suffix)


def _run(field: str, column: int, room: int) -> tuple[int, int, int]:
    parts = _RANGE.fullmatch(field)
    if parts is None:
        raise InputError(f"expected a number or a range lo-hi, got {excerpt(field)}", where=_at(column))
    low, high = parts[1], parts[2] or parts[1]
    if max(len(low), len(high)) > room:
        raise LimitExceeded(f"expected names of at most {limits.NAME_LENGTH_MAX} characters, got a longer one", where=_at(column))
    first, last = int(low), int(high)
    if last < first:
        raise InputError(f"expected lo <= hi, got {excerpt(field)}", where=_at(column))
    if last - first >= limits.HOSTLIST_RANGE_MAX:
        raise LimitExceeded(
            f"expected at most {limits.HOSTLIST_RANGE_MAX} hosts in a range, got {excerpt(field)}",
            where=_at(column),
            hint="cut it into several ranges",
        )
    return first, last, len(low)


def _checked(hosts: Iterable[str]) -> Iterator[str]:
    for host in hosts:
        wrong = _wrong(host)
        if wrong:
            raise InputError(wrong)
        yield host


def _wrong(name: str) -> str | None:
    if _NAME.fullmatch(name) and len(name) <= limits.NAME_LENGTH_MAX:
        return None
    if not name:
        return "expected a host name, got an empty one"
    if len(name) > limits.NAME_LENGTH_MAX:
        return f"expected a name of at most {limits.NAME_LENGTH_MAX} characters, got {excerpt(name)}"
    return f"expected printable ASCII without blanks, commas and brackets in a host name, got {excerpt(name)}"


def _groups(hosts: Iterable[str]) -> Iterator[str]:
    """One text for each run of neighbours that share a prefix."""
    prefix: str | None = None
    runs: list[_Run] = []
    for host in hosts:
        stem = host.rstrip(_DIGITS)
        digits = host[len(stem) :]
        if not 0 < len(digits) <= _NUMBER_DIGITS_MAX:
            yield from _group(prefix, runs)
            prefix, runs = None, []
            yield host
            continue
        if stem != prefix:
            yield from _group(prefix, runs)
            prefix, runs = stem, []
        if not (runs and runs[-1].takes(digits)):
            runs.append(_Run(digits))
    yield from _group(prefix, runs)


class _Run:
    """Consecutive numbers written with the padding of the first."""

    __slots__ = ("last", "low", "width")

    def __init__(self, low: str) -> None:
        self.low = low
        self.width = len(low)
        self.last = int(low)

    def takes(self, digits: str) -> bool:
        # Padded like the low end, the next number must give just these digits: 9 and 10 join, 1 and 02 do not.
        longer = len(digits) - self.width
        if longer < 0 or (longer and digits[0] == "0") or int(digits) != self.last + 1:
            return False
        self.last += 1
        return True

    def __str__(self) -> str:
        first = int(self.low)
        return self.low if first == self.last else f"{self.low}-{self.last:0{self.width}}"


def _group(prefix: str | None, runs: list[_Run]) -> Iterator[str]:
    if not runs:
        return
    text = ",".join(map(str, runs))
    yield f"{prefix}{text}" if len(runs) == 1 and "-" not in text else f"{prefix}[{text}]"


def _at(column: int) -> str:
    return f"hostlist:{column}"

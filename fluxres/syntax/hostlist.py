"""Lists of host names as text: `node[0-15,20],login1` (Flux RFC 29).

A hostlist is an ordered list that may contain repeats, so `format` never sorts. Where the RFC and flux-core differ, this
follows flux-core, because its daemons read what fluxres writes: each element is padded by its own low end (`[005,4]` is 005,
4), blanks are separators like commas, and stray commas are ignored. Expressions stay ranges until a list is requested;
:func:`regular` lets a recipe of thousands of nodes avoid the list altogether. :class:`Hostlist` is such a list as a value,
with the operations of flux-core's class of that name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, SupportsIndex, overload

import msgspec

from fluxres import limits
from fluxres.documents import arguments
from fluxres.documents.document import excerpt, shown
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.syntax.idset import IDset

_DIGITS = "0123456789"
_SEPARATORS = ", \t\n"
_NAME = re.compile(r"[!-+\--Z\\^-~]+")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
# Longer numbers are treated as names: they do not fit an id, and merging them would need arithmetic on them.
_NUMBER_DIGITS_MAX = 18


class Expression(msgspec.Struct, frozen=True):
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
    """The hosts of a hostlist, in order, including repeats.

    Cost O(hosts). Errors: InputError with the column; LimitExceeded beyond `limits.HOSTLIST_RANGE_MAX` hosts in a range,
    `limits.IDSET_COUNT_MAX` in total, or `limits.NAME_LENGTH_MAX` characters in a name.
    Source: RFC 29, Hostlist Format; padding as flux-core.

    >>> parse("node[08-10,3],login1")
    ['node08', 'node09', 'node10', 'node3', 'login1']
    """
    return [host for expression in expressions(text) for host in expression]


def count(text: str) -> int:
    """The number of hosts of a hostlist, without expanding it. Cost O(length of the text).

    >>> count("node[0-1023],login1")
    1025
    """
    return sum(len(expression) for expression in expressions(text))


def expressions(text: str) -> list[Expression]:
    """The items of a hostlist, checked but not expanded.

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

    Returns None for text that :func:`parse` refuses as well, so that callers fall back to it and get its error.

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
    """The items of a comma-separated list, split only outside brackets; blanks around items and empty items are removed.

    >>> split("node[0-3,7], login1,")
    ['node[0-3,7]', 'login1']
    """
    return [item.strip() for _, item in _items(text, ",") if item.strip()]


def format(hosts: Iterable[str]) -> str:  # noqa: A001 - read as hostlist.format
    """Hosts folded as flux-core encodes them: neighbours with the same prefix share a bracket; the order is kept.

    Cost O(hosts). Errors: InputError for a name that a hostlist cannot express (empty, or with blanks, commas, brackets, or
    characters outside printable ASCII); :func:`fold` shows such names instead.

    >>> format(["node0", "node1", "node2", "node5", "login", "node9"])
    'node[0-2,5],login,node9'
    """
    return ",".join(_groups(_checked(hosts)))


def fold(names: Iterable[str]) -> str:
    """Names folded for display: like :func:`format`, except that names which it refuses are quoted.

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


def is_name(name: str) -> bool:
    """Whether a hostlist can have this name.

    >>> is_name("node0"), is_name("left over")
    (True, False)
    """
    return _NAME.fullmatch(name) is not None and len(name) <= limits.NAME_LENGTH_MAX


class Hostname(NamedTuple):
    """The parts of a host name: the text before its trailing digits, and these digits as a number and as written.

    >>> Hostname.of("foo001"), Hostname.of("foo1-ib")
    (Hostname(prefix='foo', number=1, digits='001'), Hostname(prefix='foo1-ib', number=None, digits=''))
    """

    prefix: str
    number: int | None
    digits: str

    @classmethod
    def of(cls, name: str) -> Hostname:
        """The parts of a name. Errors: InputError for a name that a hostlist cannot express."""
        (checked,) = _checked([name])
        prefix = checked.rstrip(_DIGITS)
        digits = checked[len(prefix) :]
        # int() refuses thousands of digits; such a number is part of the name, as in `format`.
        return cls(prefix, int(digits), digits) if 0 < len(digits) <= _NUMBER_DIGITS_MAX else cls(checked, None, "")

    @property
    def key(self) -> tuple[str, bool, int, str]:
        """The sort key of hosts: prefix, names without a number first, shorter numbers first, numbers."""
        return self.prefix, self.number is not None, len(self.digits), self.digits


class Hostlist(Sequence[str]):
    """An immutable list of hosts, in order, including repeats.

    Args:
        hosts: RFC 29 text, or hosts, each of which may be such text. Every parameter for hosts accepts both forms.

    A sequence of names (`len`, `in`, `[2]`, `[-1]`, `[1:3]`, and the hosts at ids: `[IDset("0,4-7")]`) with the operations of
    flux-core by name.  Cost of an operation: O(hosts).  Errors: InputError with the column; LimitExceeded as :func:`parse`.

    >>> hosts = Hostlist("node[0-3,9],login")
    >>> len(hosts), hosts[-2], str(hosts[1:4]), hosts.find("node9"), str(hosts.delete("node[1-2]"))
    (6, 'node9', 'node[1-3]', 4, 'node[0,3,9],login')
    """

    _hosts: tuple[str, ...]

    def __init__(self, hosts: Hosts = ()) -> None:
        if isinstance(hosts, Hostlist):
            self._hosts = hosts._hosts
            return
        texts = [hosts] if isinstance(hosts, str) else list(arguments.items(hosts, "hostlist", "hosts"))
        wrong = next((text for text in texts if not isinstance(text, str)), None)
        if wrong is not None:
            raise UsageError(f"hostlist: expected hosts, got {shown(wrong)}")
        self._hosts = tuple(host for text in texts for host in parse(text))

    @classmethod
    def _of(cls, hosts: Iterable[str]) -> Hostlist:
        made = cls()
        made._hosts = tuple(hosts)
        return made

    def append(self, *others: Hosts) -> Hostlist:
        """Its hosts, followed by those of the others.

        >>> str(Hostlist("foo12").append("foo[4,1-2]", ["bar26"]))
        'foo[12,4,1-2],bar26'
        """
        return self._of(host for hosts in (self, *map(Hostlist, others)) for host in hosts)

    def sort(self) -> Hostlist:
        """In order of prefix and number, including repeats.

        >>> str(Hostlist("foo[3,1,1],bar,foo").sort())
        'bar,foo,foo[1,1,3]'
        """
        return self._of(sorted(self._hosts, key=lambda host: Hostname.of(host).key))

    def uniq(self) -> Hostlist:
        """Sorted, each host once.

        >>> str(Hostlist("foo[5-6],foo[4-7]").uniq())
        'foo[4-7]'
        """
        return self._of(sorted(set(self._hosts), key=lambda host: Hostname.of(host).key))

    def find(self, host: str) -> int:
        """The first position of a host, -1 if it is not in the list."""
        return self._places.get(host, -1)

    def indices(self, hosts: Hosts, ignore_nomatch: bool = False) -> list[int]:
        """The first position of each of these hosts, in their order.

        Args:
            ignore_nomatch: ignore hosts that are not in the list.

        Errors: UsageError that lists the missing hosts.

        >>> Hostlist("foo[0-10]").indices("foo[7,1]"), Hostlist("foo[0-2]").indices("foo[2-4]", ignore_nomatch=True)
        ([7, 1], [2])
        """
        wanted = Hostlist(hosts)
        missing = self._of(host for host in wanted if host not in self._places)
        if missing and not ignore_nomatch:
            raise UsageError(f"not in the hostlist: {excerpt(str(missing))}", where="hosts")
        return [self._places[host] for host in wanted if host in self._places]

    def delete(self, hosts: Hosts) -> Hostlist:
        """Without the first occurrences of the given hosts, as many of each as are given.

        >>> str(Hostlist("foo[1,1,2]").delete("foo1")), str(Hostlist("foo[1,1,2]").delete("foo[1,1,3]"))
        ('foo[1-2]', 'foo2')
        """
        gone = Counter(Hostlist(hosts))
        kept = []
        for host in self._hosts:
            if gone[host]:
                gone[host] -= 1
            else:
                kept.append(host)
        return self._of(kept)

    def exclude(self, hosts: Hosts) -> Hostlist:
        """Without any occurrence of these hosts.

        >>> str(Hostlist("foo[0-3,0]").exclude("foo[0,2]"))
        'foo[1,3]'
        """
        gone = set(Hostlist(hosts))
        return self._of(host for host in self._hosts if host not in gone)

    def union(self, *others: Hosts) -> Hostlist:
        """All hosts of this list and the others, sorted, each once.

        >>> str(Hostlist("foo[3,1]").union("foo[1-2]"))
        'foo[1-3]'
        """
        return self.append(*others).uniq()

    def intersect(self, *others: Hosts) -> Hostlist:
        """The hosts that are in this list and in all others, sorted, each once.

        >>> str(Hostlist("foo[0-5]").intersect("foo[3-9]", "foo[5,4]"))
        'foo[4-5]'
        """
        common = set(self._hosts).intersection(*map(Hostlist, others))
        return self._of(common).uniq() if others else self

    def xor(self, other: Hosts) -> Hostlist:
        """The hosts that are in exactly one of the two, sorted, each once.

        >>> str(Hostlist("foo[1-3]").xor("foo[2-5]"))
        'foo[1,4-5]'
        """
        return self._of(set(self._hosts) ^ set(Hostlist(other))).uniq()

    @overload
    def __getitem__(self, at: SupportsIndex) -> str: ...

    @overload
    def __getitem__(self, at: slice | IDset) -> Hostlist: ...

    def __getitem__(self, at: SupportsIndex | slice | IDset) -> str | Hostlist:
        if isinstance(at, slice):
            return self._of(self._hosts[at])
        if isinstance(at, IDset):
            return self._of(self._hosts[id_] for id_ in at)
        name: str = self._hosts[at]
        return name

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def __contains__(self, host: object) -> bool:
        return host in self._places

    def __eq__(self, other: object) -> bool:
        return self._hosts == other._hosts if isinstance(other, Hostlist) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._hosts)

    def __str__(self) -> str:
        return format(self._hosts)

    def __repr__(self) -> str:
        return f"Hostlist({str(self)!r})"

    @cached_property
    def _places(self) -> dict[str, int]:
        """The first position of each host."""
        return {host: at for at, host in reversed(list(enumerate(self._hosts)))}


Hosts = str | Iterable[str]
"""Arguments of a Hostlist: RFC 29 text, or hosts, each of which may be such text."""


def _items(text: str, separators: str) -> Iterator[tuple[int, str]]:
    """(offset, item) between separators outside brackets; empty items are skipped."""
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
        message = f"expected a range from a lower number to a higher one, got {excerpt(field)}"
        raise InputError(message, where=_at(column), hint=f"write {high}-{low}")
    if last - first >= limits.HOSTLIST_RANGE_MAX:
        raise LimitExceeded(
            f"expected at most {limits.HOSTLIST_RANGE_MAX} hosts in a range, got {excerpt(field)}",
            where=_at(column),
            hint="split it into several ranges",
        )
    return first, last, len(low)


def _checked(hosts: Iterable[str]) -> Iterator[str]:
    for host in hosts:
        wrong = _wrong(host)
        if wrong:
            raise InputError(wrong)
        yield host


def _wrong(name: str) -> str | None:
    if is_name(name):
        return None
    if not name:
        return "expected a host name, got an empty one"
    if len(name) > limits.NAME_LENGTH_MAX:
        return f"expected a name of at most {limits.NAME_LENGTH_MAX} characters, got {excerpt(name)}"
    return f"expected printable ASCII without blanks, commas and brackets in a host name, got {excerpt(name)}"


def _groups(hosts: Iterable[str]) -> Iterator[str]:
    """One text for each run of neighbours that share a prefix."""
    prefix = ""
    runs: list[_Run] = []
    for host in hosts:
        stem = host.rstrip(_DIGITS)
        digits = host[len(stem) :]
        is_numbered = 0 < len(digits) <= _NUMBER_DIGITS_MAX
        if runs and not (is_numbered and stem == prefix):
            yield _group(prefix, runs)
            runs = []
        if not is_numbered:
            yield host
        elif not (runs and runs[-1].takes(digits)):
            prefix = stem
            runs.append(_Run(digits))
    if runs:
        yield _group(prefix, runs)


class _Run:
    """Consecutive numbers written with the padding of the first."""

    __slots__ = ("last", "low", "width")

    def __init__(self, low: str) -> None:
        self.low = low
        self.width = len(low)
        self.last = int(low)

    def takes(self, digits: str) -> bool:
        # Padded like the low end, the next number must give exactly these digits: 9 and 10 join, 1 and 02 do not.
        longer = len(digits) - self.width
        if longer < 0 or (longer and digits[0] == "0") or int(digits) != self.last + 1:
            return False
        self.last += 1
        return True

    def __str__(self) -> str:
        first = int(self.low)
        return self.low if first == self.last else f"{self.low}-{self.last:0{self.width}}"


def _group(prefix: str, runs: list[_Run]) -> str:
    text = ",".join(map(str, runs))
    return f"{prefix}{text}" if len(runs) == 1 and "-" not in text else f"{prefix}[{text}]"


def _at(column: int) -> str:
    return f"hostlist:{column}"

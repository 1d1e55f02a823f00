"""Resource pools of a HyperQueue worker: `gpus=[0,1]`, `cpus=2x4`, `mem=sum(1.5)` ↔ values.

Two grammars are in use.  That of versions up to 0.12 has `list(1,2)`, numbers only; later ones have `[a,b]`, groups and
fractions.  No text means one thing in the one and something else in the other, so both are read unless a dialect
is asked for.

Ranges and `NxM` stay two numbers: the labels of `range(0-999999999)` are made when they are read.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, overload

from fluxres import limits
from fluxres.documents.document import excerpt
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats.peers.hyperqueue.tokens import U32_MAX, U64_MAX, Cursor
from fluxres.syntax.variants import CPUS, PER_UNIT, format_amount


@dataclass(frozen=True, slots=True)
class Range:
    """Labels that are the numbers from `start` to `end`, both included."""

    start: int
    end: int

    def __len__(self) -> int:
        return max(self.end - self.start + 1, 0)

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self.start, self.end + 1))


@dataclass(frozen=True, slots=True)
class Listed:
    """Labels one by one, in the order of their definition."""

    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)


Labels = Range | Listed


@dataclass(frozen=True, slots=True)
class Grid(Sequence[Range]):
    """A number of groups with a number of labels each, numbered through from 0: what `NxM` says, at the price of two numbers."""

    number: int
    each: int

    def __len__(self) -> int:
        return self.number

    @overload
    def __getitem__(self, at: int) -> Range: ...
    @overload
    def __getitem__(self, at: slice) -> list[Range]: ...
    def __getitem__(self, at: int | slice) -> Range | list[Range]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(self.number))]
        if not -self.number <= at < self.number:
            raise IndexError(at)
        start = at % self.number * self.each
        return Range(start, start + self.each - 1)


@dataclass(frozen=True, slots=True)
class Groups:
    """Labels in groups, such as the cores of sockets; at least two groups.  ``hyperqueue.grouped`` makes them."""

    groups: tuple[Labels, ...] | Grid

    def __len__(self) -> int:
        return self.groups.number * self.groups.each if isinstance(self.groups, Grid) else sum(map(len, self.groups))

    def __iter__(self) -> Iterator[str]:
        return (label for group in self.groups for label in group)


@dataclass(frozen=True, slots=True)
class Sum:
    """An amount without identity; ten-thousandths of a unit."""

    amount: int


Kind = Labels | Groups | Sum


@dataclass(frozen=True, slots=True)
class Pool:
    """One resource of a worker.

    >>> Pool("cpus", Groups(Grid(2, 4))).kind.groups[1]
    Range(start=4, end=7)
    """

    name: str
    kind: Kind


Dialect = Literal["any", "seed", "current"]
"""Which definitions are read: `seed` those of versions 0.11 and 0.12, `current` those since 0.13, `any` both."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9/]*")
_SEED_NAME = re.compile(r"[A-Za-z0-9]+")
_LABEL = re.compile(r'"[^"]+"|[^,\[\]" \t\r\n]+')
_PLAIN = re.compile(r'[^,\[\]" \t\r\n]+')
_DECIMAL = re.compile(r"0|[1-9][0-9]*")
_KIND = re.compile(r"list|range|sum")
_FORMS: Final = "forms are [a,b], [[a,b],[c,d]], NxM, range(0-3), list(0,1) and sum(100)"


def parse(text: str, *, dialect: Dialect = "any") -> Pool:
    """A definition as given to ``hq worker start --resource``.

    Args:
        text: ``NAME=DEFINITION``; blanks may stand round every token.

    Cost O(length). Errors: InputError with the column; LimitExceeded for numbers beyond 32 bits, or a text beyond
    `limits.DOCUMENT_BYTES_MAX`.

    >>> parse("gpus = [a, b]"), parse("mem=sum(1_000.5)").kind
    (Pool(name='gpus', kind=Listed(labels=('a', 'b'))), Sum(amount=10005000))
    """
    cursor = Cursor(text, "pool", limits.DOCUMENT_BYTES_MAX)
    name = _name(cursor, dialect)
    cursor.require("=", "a pool is NAME=DEFINITION")
    return Pool(name, _kind(cursor, dialect))


def parse_cpus(text: str, *, dialect: Dialect = "any") -> Pool:
    """A definition as given to ``hq worker start --cpus``: also a bare number of cpus. Errors: as :func:`parse`.

    >>> parse_cpus("4").kind, parse_cpus("[0, 5, 7]").kind
    (Range(start=0, end=3), Listed(labels=('0', '5', '7')))
    """
    cursor = Cursor(text, "cpus", limits.DOCUMENT_BYTES_MAX)
    cursor.skip()
    if re.fullmatch(r"[0-9][0-9_]*", text.strip()):
        count = cursor.integer()
        if not count:
            raise cursor.error("at least one cpu", offset=0)
        return Pool(CPUS, Range(0, count - 1))
    return Pool(CPUS, _kind(cursor, dialect))


def check(pools: Sequence[Pool]) -> None:
    """What a worker must satisfy: names and labels stand once, no pool is empty, `cpus` is no sum.

    Cost O(labels listed). Errors: InputError naming the pool.
    """
    seen: set[str] = set()
    for pool in pools:
        where = f"pool {pool.name}"
        if pool.name in seen:
            raise InputError("the resource is defined more than once", where=where, hint="remove one, or rename it")
        seen.add(pool.name)
        if isinstance(pool.kind, Sum):
            if pool.name == CPUS:
                hint = "write cpus=4x1 or cpus=range(0-3)"
                raise InputError("Resource kind `sum` cannot be used with CPUs", where=where, hint=hint)
            empty = pool.kind.amount == 0
        else:
            empty = len(pool.kind) == 0
            _require_unique(pool.kind, where)
        if empty:
            raise InputError(f"Resource {pool.name} is empty", where=where, hint="leave it out, or give it at least one")


def _require_unique(kind: Labels | Groups, where: str) -> None:
    if isinstance(kind, Groups) and isinstance(kind.groups, Grid):
        return
    groups = kind.groups if isinstance(kind, Groups) else (kind,)
    ranges = sorted((group.start, group.end) for group in groups if isinstance(group, Range) and len(group))
    for (_, end), (start, _) in itertools.pairwise(ranges):
        if start <= end:
            raise InputError(f"the label {start} is in two groups", where=where, hint="Group items have to be unique")
    seen: set[str] = set()
    for group in groups:
        for label in group.labels if isinstance(group, Listed) else ():
            number = int(label) if len(label) < 20 and _DECIMAL.fullmatch(label) else -1
            at = bisect_right(ranges, (number, U64_MAX)) - 1
            if label in seen or (at >= 0 and number <= ranges[at][1]):
                raise InputError(f"the label {excerpt(label)} is listed twice", where=where, hint="List items have to be unique")
            seen.add(label)


def grouped(groups: Iterable[Iterable[str]]) -> Labels | Groups:
    """The kind that these groups of labels are: one group is a list; groups of consecutive numbers are ranges.

    >>> grouped([["0", "1"], ["2", "3"]]) == parse("x=2x2").kind, grouped([["b", "a"]])
    (True, Listed(labels=('b', 'a')))
    """
    made = [tuple(group) for group in groups]
    if len(made) == 1:
        return Listed(made[0])
    return of_groups(map(_compact, made))


def of_groups(groups: Iterable[Labels]) -> Groups:
    """Several groups, in the one form that equal ones have.

    >>> of_groups([Range(0, 1), Range(2, 3)]) == parse("x=2x2").kind
    True
    """
    made = tuple(groups)
    each = len(made[0])
    is_grid = all(group == Range(i * each, (i + 1) * each - 1) for i, group in enumerate(made))
    return Groups(Grid(len(made), each) if is_grid else made)


def _compact(labels: tuple[str, ...]) -> Labels:
    first, last = labels[0], labels[-1]
    if max(len(first), len(last)) < 11 and _DECIMAL.fullmatch(first) and _DECIMAL.fullmatch(last):
        span = Range(int(first), int(last))
        if len(span) == len(labels) and all(map(str.__eq__, span, labels)):
            return span
    return Listed(labels)


# -- reading ---------------------------------------------------------------------------------------------------------


def _name(cursor: Cursor, dialect: Dialect) -> str:
    pattern = _NAME if dialect == "current" else _SEED_NAME
    if dialect == "any":
        pattern = re.compile(f"{_NAME.pattern}|{_SEED_NAME.pattern}")
    name = cursor.match(pattern, "the name of a resource", "names have letters, digits and '/'")
    if len(name) > limits.NAME_LENGTH_MAX:
        message = f"expected a name of at most {limits.NAME_LENGTH_MAX} characters, got {len(name)}"
        raise LimitExceeded(message, where=cursor.where())
    return name


def _kind(cursor: Cursor, dialect: Dialect) -> Kind:
    cursor.skip()
    found: Kind
    if dialect != "seed" and cursor.take("["):
        found = _groups(cursor) if cursor.peek("[") else _listed(cursor, "List")
    elif dialect != "seed" and cursor.text[cursor.offset : cursor.offset + 1].isdecimal():
        found = _times(cursor)
    else:
        word = cursor.match(_KIND, "a definition", _FORMS)
        if word == "list" and dialect == "current":
            hint = "since HyperQueue 0.13 a list is written [1,2]"
            raise cursor.error("[…], NxM, range(…) or sum(…)", hint, offset=cursor.offset - 4)
        found = {"list": _list, "range": _range, "sum": _sum}[word](cursor, dialect)
    cursor.end("the end of the definition", _FORMS)
    return found


def _times(cursor: Cursor) -> Kind:
    count = cursor.integer()
    if not cursor.take("x"):
        raise cursor.error("_ or x", f"a bare number is only read after --cpus; {_FORMS}")
    each = cursor.integer()
    if count * each > U32_MAX:
        raise LimitExceeded(f"expected labels up to {U32_MAX}, got {count}x{each} of them", where=cursor.where(0))
    if not count or not each:
        raise InputError(f"expected at least one group of one, got {count}x{each}", where=cursor.where(0))
    if count == 1:
        return Range(0, each - 1)
    return Groups(Grid(count, each))


def _groups(cursor: Cursor) -> Kind:
    groups: list[tuple[str, ...]] = []
    seen: set[str] = set()
    while True:
        cursor.require("[", "groups are [[a,b],[c,d]]")
        labels = _listed(cursor, "Each group").labels
        again = next((label for label in labels if label in seen), None)
        if again is not None:
            message = f"Group items have to be unique: {excerpt(again)} is in two groups"
            raise InputError(message, where=cursor.where())
        seen.update(labels)
        groups.append(labels)
        if cursor.take("]"):
            return grouped(groups)
        cursor.require(",", "groups end with ]]")


def _listed(cursor: Cursor, what: str) -> Listed:
    if cursor.peek("]"):
        raise InputError(f"{what} has to contain at least a single element", where=cursor.where(), hint="write [0]")
    labels: dict[str, None] = {}
    while True:
        start = cursor.offset
        label = cursor.match(_LABEL, "a label", "labels are words, or any text in double quotes").strip('"')
        if label in labels:
            hint = f"{excerpt(label)} is listed twice"
            raise InputError("List items have to be unique", where=cursor.where(start), hint=hint)
        if len(label) > limits.NAME_LENGTH_MAX:
            message = f"expected a label of at most {limits.NAME_LENGTH_MAX} characters, got {len(label)}"
            raise LimitExceeded(message, where=cursor.where(start))
        labels[label] = None
        if cursor.take("]"):
            return Listed(tuple(labels))
        cursor.require(",", "a list ends with ]")


def _list(cursor: Cursor, dialect: Dialect) -> Kind:
    cursor.require("(")
    numbers = [cursor.integer()]
    while cursor.take(","):
        numbers.append(cursor.integer())
    cursor.require(")")
    if len(set(numbers)) < len(numbers):
        raise InputError("List items have to be unique", where=cursor.where(0), hint="remove the repeated number")
    return Listed(tuple(map(str, sorted(numbers))))


def _range(cursor: Cursor, dialect: Dialect) -> Kind:
    cursor.require("(")
    cursor.skip()
    place = cursor.offset
    start = cursor.integer()
    cursor.require("-")
    end = cursor.integer()
    cursor.require(")")
    if start > end and dialect != "seed":  # versions 0.11 and 0.12 read it, as a pool of nothing
        message = f"Start must be greater or equal to end: got {start}-{end}"
        raise InputError(message, where=cursor.where(place), hint=f"write range({end}-{start})")
    return Range(start, end)


def _sum(cursor: Cursor, dialect: Dialect) -> Kind:
    cursor.require("(")
    if dialect == "seed":
        amount = cursor.integer("an amount", U64_MAX) * PER_UNIT
    else:
        amount = cursor.amount(U32_MAX if dialect == "current" else U64_MAX)
    cursor.require(")")
    return Sum(amount)


# -- writing ---------------------------------------------------------------------------------------------------------


def format(pool: Pool) -> str:  # noqa: A001 - read as hyperqueue.format
    """The shortest definition of a pool, in today's grammar; :func:`parse` reads the same pool back.

    Errors: InputError for a label with a double quote, which no definition can say.

    >>> format(parse("cpus=[[0,1],[2,3]]")), format(parse('x=["a b",c]')), format(parse("mem=list(3,1)"))
    ('cpus=2x2', 'x=["a b",c]', 'mem=[1,3]')
    """
    return f"{pool.name}={format_kind(pool.kind)}"


def format_kind(kind: Kind) -> str:
    """What stands behind the name in a definition."""
    if isinstance(kind, Sum):
        return f"sum({format_amount(kind.amount)})"
    if isinstance(kind, Range):
        return f"range({kind.start}-{kind.end})"
    if isinstance(kind, Listed):
        return _bracketed(kind)
    if isinstance(kind.groups, Grid):
        return f"{kind.groups.number}x{kind.groups.each}"
    _require_listable(len(kind))
    return f"[{','.join(map(_bracketed, kind.groups))}]"


def _bracketed(labels: Labels) -> str:
    return f"[{','.join(map(_label, labels))}]"


def _label(label: str) -> str:
    if _PLAIN.fullmatch(label):
        return label
    if not label or '"' in label:
        hint = "labels are text without double quotes"
        raise InputError(f"the label {excerpt(label)} cannot be written", where="pool", hint=hint)
    return f'"{label}"'


def to_plain(pool: Pool) -> dict[str, Any]:
    """The pool as HyperQueue's JSON output has it; amounts in ten-thousandths.

    Errors: LimitExceeded beyond `limits.IDSET_COUNT_MAX` labels in groups.

    >>> to_plain(parse("s=sum(5)")), to_plain(parse("r=range(1-3)"))
    ({'name': 's', 'kind': 'sum', 'size': 50000}, {'name': 'r', 'kind': 'range', 'start': 1, 'end': 3})
    """
    kind = pool.kind
    if isinstance(kind, Sum):
        return {"name": pool.name, "kind": "sum", "size": kind.amount}
    if isinstance(kind, Range):
        return {"name": pool.name, "kind": "range", "start": kind.start, "end": kind.end}
    if isinstance(kind, Listed):
        return {"name": pool.name, "kind": "list", "values": list(kind)}
    _require_listable(len(kind))
    return {"name": pool.name, "kind": "groups", "groups": [list(group) for group in kind.groups]}


def _require_listable(count: int) -> None:
    if count > limits.IDSET_COUNT_MAX:
        raise LimitExceeded(f"{count} labels in groups, at most {limits.IDSET_COUNT_MAX} are written", where="pool")


def summary(pools: Iterable[Pool], *, multiline: bool = False) -> str:
    """What a worker has, as ``hq worker list`` shows it: cpus first, the others by name.

    >>> summary([parse("shark=[1,3,5,2]"), parse("cpus=4x2"), parse("small=sum(0.5)")])
    'cpus 4x2; shark 4; small 0.5'
    """
    ordered = sorted(pools, key=lambda pool: (pool.name != CPUS, pool.name))
    lines = [f"{pool.name}{':' if multiline else ''} {_short(pool.kind)}" for pool in ordered]
    return ("\n" if multiline else "; ").join(lines)


def _short(kind: Kind) -> str:
    if isinstance(kind, Sum):
        return format_amount(kind.amount)
    if not isinstance(kind, Groups):
        return str(len(kind))
    if isinstance(kind.groups, Grid):
        return f"{kind.groups.number}x{kind.groups.each}"
    counts: dict[int, int] = {}
    for group in kind.groups:
        counts[len(group)] = counts.get(len(group), 0) + 1
    return " ".join(f"{number}x{size}" for size, number in sorted(counts.items()))

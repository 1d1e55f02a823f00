"""Constraints on where a job may run: `{"and": [{"properties": ["ssd"]}, {"not": [{"ranks": ["0"]}]}]}` (Flux RFC 31).

Constraints are read once into frozen values and checked completely, so that a matcher can turn them into masks over a machine
without finding an invalid one half-way. :func:`matches` defines their meaning for one target; vectorised evaluations are
compared with it. Where Flux's two matchers differ, this follows the RFC and the C matcher: an empty `or` is true, an empty
`not` false, several keys in one mapping must all hold, and a host name counts as a property of its node.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any, Final, Protocol

import msgspec

from fluxres import limits
from fluxres.documents.document import Place
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax import hostlist, idset
from fluxres.syntax.hostlist import Expression

STATES: Final = ("up", "down", "drain", "degraded", "failing", "unknown", "null", "inactive")
_OPERATORS: Final = ("properties", "hostlist", "ranks", "states", "and", "or", "not")
RESERVED: Final = frozenset("!&'\"^`|()")
"""Characters that are not allowed in property names (RFC 20)."""


class Target(Protocol):
    """The object that a constraint is evaluated on: a node, or anything else with a rank."""

    @property
    def properties(self) -> Collection[str]:
        """Its property names."""

    @property
    def hostname(self) -> str:
        """Its host name."""

    @property
    def rank(self) -> int:
        """Its execution target rank, -1 for none."""

    @property
    def state(self) -> str:
        """Its state, one of `STATES`."""


class Properties(msgspec.Struct, frozen=True):
    """Targets that have all of `required` and none of `excluded`."""

    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


class Hostlist(msgspec.Struct, frozen=True):
    """Targets whose host name is in any of the hostlists."""

    texts: tuple[str, ...]

    def expressions(self) -> list[Expression]:
        """The items of all texts, unexpanded. Cost O(length)."""
        return [item for text in self.texts for item in _expressions(text)]


class Ranks(msgspec.Struct, frozen=True):
    """Targets whose rank is in any of the idsets."""

    texts: tuple[str, ...]

    def ranges(self) -> list[tuple[int, int]]:
        """The ranges of all texts, both ends included, in the order written. Cost O(length)."""
        return [span for text in self.texts for span in idset.ranges(text)]


class Part(Ranks, frozen=True):
    """The targets of the only part of the machine that a request is about: a refusal counts nothing outside of it."""


class States(msgspec.Struct, frozen=True):
    """Targets in any of the states."""

    states: tuple[str, ...]


class And(msgspec.Struct, frozen=True):
    """All of the items; without items, every target."""

    items: tuple[Constraint, ...] = ()


class Or(msgspec.Struct, frozen=True):
    """Any of the items; without items, every target as well (RFC 31)."""

    items: tuple[Constraint, ...] = ()


class Not(msgspec.Struct, frozen=True):
    """Targets for which the item is false."""

    item: Constraint


Constraint = Properties | Hostlist | Ranks | States | And | Or | Not

EVERYTHING: Final = And()
"""The constraint `{}`."""


def parse(values: object, place: Place = Place()) -> Constraint:  # noqa: B008 - a place never changes
    """A constraint from plain values.

    Args:
        values: a mapping of operators to lists.
        place: its position in a larger document.

    Cost O(length). Errors: InputError with the place; LimitExceeded beyond `limits.CONSTRAINT_DEPTH_MAX` levels.
    Source: RFC 31. `states` is our addition; several values of `not` are combined by *and*, as in Fluxion.

    >>> parse({"properties": ["ssd", "^slow"], "ranks": ["0-3"]})
    And(items=(Properties(required=('ssd',), excluded=('slow',)), Ranks(texts=('0-3',))))
    >>> parse({}) is EVERYTHING
    True
    """
    return _constraint(values, place, 1)


def to_plain(constraint: Constraint) -> dict[str, Any]:
    """The constraint as plain values; :func:`parse` reads an equal one back.

    >>> to_plain(Not(Properties(("gpu",), ("slow",))))
    {'not': [{'properties': ['gpu', '^slow']}]}
    """
    match constraint:
        case Properties(required, excluded):
            return {"properties": [*required, *(f"^{name}" for name in excluded)]}
        case Hostlist(texts):
            return {"hostlist": list(texts)}
        case Ranks(texts):
            return {"ranks": list(texts)}
        case States(states):
            return {"states": list(states)}
        case Not(item):
            return {"not": [to_plain(item)]}
        case And(()):
            return {}
        case And(items):
            return {"and": [to_plain(item) for item in items]}
        case Or(items):
            return {"or": [to_plain(item) for item in items]}


def matches(constraint: Constraint, target: Target, *, hostname_is_property: bool = True) -> bool:
    """Whether a target satisfies a constraint: the reference that faster evaluations are compared with.

    Args:
        hostname_is_property: whether `properties` may name a host, as in flux-core's C matcher.

    Cost O(length of the constraint).
    """
    match constraint:
        case Properties(required, excluded):
            names = set(target.properties)
            if hostname_is_property:
                names.add(target.hostname)
            return names.issuperset(required) and names.isdisjoint(excluded)
        case Hostlist():
            return any(_names(item, target.hostname) for item in constraint.expressions())
        case Ranks():
            return any(first <= target.rank <= last for first, last in constraint.ranges())
        case States(states):
            return target.state in states
        case Not(item):
            return not matches(item, target, hostname_is_property=hostname_is_property)
        case And(items):
            return all(matches(item, target, hostname_is_property=hostname_is_property) for item in items)
        case Or(items):
            return not items or any(matches(item, target, hostname_is_property=hostname_is_property) for item in items)


def required(constraint: Constraint | None) -> list[str]:
    """The properties that a constraint asks for, in some of its alternatives at least.

    >>> required(And((Properties(("ssd",), ("slow",)), Or((Ranks(("0",)), Properties(("big",))))))), required(None)
    (['ssd', 'big'], [])
    """
    match constraint:
        case Properties():
            return list(constraint.required)
        case And() | Or():
            return [name for item in constraint.items for name in required(item)]
    return []


def hosts_of(constraint: Constraint | None) -> list[str]:
    """The hostlists that a constraint asks for, in some of its alternatives at least.

    >>> hosts_of(Or((Hostlist(("node[0-3]",)), Not(Hostlist(("node9",))))))
    ['node[0-3]']
    """
    match constraint:
        case Hostlist():
            return list(constraint.texts)
        case And() | Or():
            return [text for item in constraint.items for text in hosts_of(item)]
    return []


def part_of(constraint: Constraint | None) -> Part | None:
    """The part of the machine that a request is about; None for all of it.

    >>> part_of(And((Properties(("ssd",)), Part(("0-3",))))), part_of(Ranks(("0-3",)))
    (Part(texts=('0-3',)), None)
    """
    items = constraint.items if isinstance(constraint, And) else (constraint,)
    return next((item for item in items if isinstance(item, Part)), None)


def _constraint(values: object, place: Place, depth: int) -> Constraint:
    if depth > limits.CONSTRAINT_DEPTH_MAX:
        raise LimitExceeded(f"expected at most {limits.CONSTRAINT_DEPTH_MAX} levels of constraints", where=str(place))
    given = place.mapping(values, _OPERATORS)
    parts = tuple(_operator(name, below, place.at(name), depth) for name, below in given.items())
    if not parts:
        return EVERYTHING
    return parts[0] if len(parts) == 1 else And(parts)


def _operator(name: str, values: object, place: Place, depth: int) -> Constraint:
    below = place.sequence(values, empty=True)
    if name in ("and", "or", "not"):
        items = tuple(_constraint(value, place.at(number), depth + 1) for number, value in enumerate(below))
        if name == "not":
            return Not(items[0] if len(items) == 1 else And(items))
        return And(items) if name == "and" else Or(items)
    texts = tuple(_text(value, name, place.at(number)) for number, value in enumerate(below))
    if name == "properties":
        names = [_property(text, place.at(number)) for number, text in enumerate(texts)]
        return Properties(tuple(name for name, wanted in names if wanted), tuple(name for name, wanted in names if not wanted))
    for number, text in enumerate(texts):
        try:
            if name == "hostlist":
                hostlist.expressions(text)
            elif name == "ranks":
                idset.ranges(text)
            elif text not in STATES:
                raise place.at(number).expected("a state", text, f"one of {', '.join(STATES)}")
        except InputError as error:
            raise place.at(number).refine(error) from None
    if name == "hostlist":
        return Hostlist(texts)
    return Ranks(texts) if name == "ranks" else States(texts)


def _text(value: object, name: str, place: Place) -> str:
    # A single rank is a number in YAML, and Fluxion accepts it.
    if name == "ranks" and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(place.integer(value, 0))
    return place.text(value)


def _property(text: str, place: Place) -> tuple[str, bool]:
    name = text.removeprefix("^")
    if not name or not RESERVED.isdisjoint(name):
        raise place.expected("a property name", text, f"without any of {' '.join(sorted(RESERVED))}; ^ in front negates it")
    return name, name == text


# A matcher evaluates the same few hostlists on every target of a machine.
@lru_cache(maxsize=64)
def _expressions(text: str) -> tuple[Expression, ...]:
    return tuple(hostlist.expressions(text))


def _names(item: Expression, host: str) -> bool:
    """Whether this item of a hostlist contains this host, without expanding it."""
    if not item.runs:
        return host == item.prefix
    if not (host.startswith(item.prefix) and host.endswith(item.suffix)):
        return False
    digits = host[len(item.prefix) : len(host) - len(item.suffix)]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > limits.NAME_LENGTH_MAX:
        return False
    number = int(digits)
    return any(first <= number <= last and digits == f"{number:0{width}}" for first, last, width in item.runs)

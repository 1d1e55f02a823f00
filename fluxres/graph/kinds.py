"""What equal pools share (type, basename, unit, name template and properties), stored once.

A machine of a million pools has a few dozen kinds of them.  Storing one small number per pool instead of five fields keeps a
generation at 44 bytes per pool, and lets a search test each kind once before it looks at any pool.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec
import numpy as np

from fluxres import limits
from fluxres.documents import arguments
from fluxres.documents.suggestion import suggest
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax import template

PropertyValue = str | int | float | bool | None

#: pool states in column order (RFC 4 base data, plus drain, and inactive, which partitions have)
STATES: tuple[str, ...] = ("up", "down", "drain", "degraded", "failing", "unknown", "null", "inactive")
#: states in which a pool takes no new work (rule A7)
UNAVAILABLE_STATES: frozenset[str] = frozenset({"down", "drain", "failing", "unknown", "inactive"})
UNAVAILABLE_CODES: Final = np.array([code for code, state in enumerate(STATES) if state in UNAVAILABLE_STATES], np.uint8)


def is_state(state: str) -> str:
    """A state after the word "is".

    >>> is_state("down"), is_state("drain"), is_state("unknown")
    ('down', 'drained', 'in state unknown')
    """
    return {"drain": "drained", "unknown": "in state unknown", "null": "in state null"}.get(state, state)


def instead_of(state: str) -> str:
    """A hint in place of a state that does not exist.

    >>> instead_of("dwon"), instead_of("x")
    ('did you mean down?', 'states are up, down, drain, degraded, failing, unknown, null, inactive')
    """
    return suggest(state, STATES) or f"states are {', '.join(STATES)}"


DRAW = "draw."
"""Prefix of a property ``draw.TYPE``: the units of that type that a pool draws from its suppliers, whichever job holds it."""

IDENTIFYING: frozenset[str] = frozenset({"cpus", "visible", "uuid", "address"})
"""Properties that tell one core or device from those like it: its CPUs, its name in programs, its address on the bus."""

#: flag bits
EXCLUSIVE = 1
WAY = 2


class ValueFault(NamedTuple):
    """What is wrong with a value.

    Args:
        is_limit: it is too large.
    """

    message: str
    hint: str = ""
    is_limit: bool = False


def fault_of(value: object) -> ValueFault | None:
    """Why a value cannot be stored as that of a property, a tag or an attribute of an edge; None if it can.

    >>> fault_of("ssd"), fault_of(10**300).hint
    (None, 'write it as text')
    """
    if isinstance(value, str):
        if len(value) > limits.VALUE_LENGTH_MAX:
            return ValueFault(f"{len(value)} characters, at most {limits.VALUE_LENGTH_MAX}", is_limit=True)
        if not arguments.is_unicode(value):
            return ValueFault(f"half a character in {value!r:.80}", "write the whole character")
    elif isinstance(value, int) and abs(value) >= limits.NUMBER_MAX:
        return ValueFault("a number of more than 300 digits", "write it as text", is_limit=True)
    elif isinstance(value, float) and math.isnan(value):
        return ValueFault("expected a value, got .nan, which is not a number (NaN)", "leave it out")
    return None


class Kind(msgspec.Struct, frozen=True):
    """What equal pools have in common.

    Args:
        type: resource type, such as ``core``.
        basename: first part of the default name; RFC 4 defaults it to the type.
        unit: unit of the size, or None.
        name: name template (:mod:`fluxres.syntax.template`), or None for basename + id.
        properties: sorted (key, value) pairs; None is a bare property.

    >>> Kind("core", "core").properties
    ()
    """

    type: str
    basename: str
    unit: str | None = None
    name: str | None = None
    properties: tuple[tuple[str, PropertyValue], ...] = ()


def properties_tuple(properties: Iterable[tuple[str, PropertyValue]]) -> tuple[tuple[str, PropertyValue], ...]:
    """Properties in the order a :class:`Kind` keeps them.

    >>> properties_tuple({"ssd": None, "class": 7}.items())
    (('class', 7), ('ssd', None))
    """
    return tuple(sorted(properties, key=lambda item: item[0]))


def units_drawn(value: PropertyValue) -> int | None:
    """The number of units in a property ``draw.…``, given as a number or as text (Flux properties are text); None for anything
    else.

    >>> units_drawn(400), units_drawn("400"), units_drawn("lots"), units_drawn(True)
    (400, 400, None, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < len(str(limits.SIZE_MAX)):
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= limits.SIZE_MAX
    return value if whole and isinstance(value, int) else None


def require_draws(properties: Iterable[tuple[str, PropertyValue]], where: Callable[[], str]) -> None:
    """Refuse a property ``draw.…`` that is not a number of units.

    Args:
        where: the place of the properties.

    Errors: InputError.
    """
    for key, value in properties:
        if key.startswith(DRAW) and units_drawn(value) is None:
            message = f"{key}: expected a whole number of units, got {'no value' if value is None else repr(value)[:80]}"
            raise InputError(message, where=where(), hint=f"such as {key}: 400")


def _with_units(kind: Kind) -> Kind:
    """The kind with its ``draw.…`` properties as numbers."""
    if not any(key.startswith(DRAW) for key, _ in kind.properties):
        return kind
    require_draws(kind.properties, lambda: f"{kind.type}.properties")
    return msgspec.structs.replace(kind, properties=draws_as_numbers(kind.properties))


def draws_as_numbers(properties: Iterable[tuple[str, PropertyValue]]) -> tuple[tuple[str, PropertyValue], ...]:
    """Properties that were read as text, in the form a kind stores.

    >>> draws_as_numbers([("draw.power", "400"), ("gen", "4")])
    (('draw.power', 400), ('gen', '4'))
    """
    return tuple((key, units_drawn(value) if key.startswith(DRAW) else value) for key, value in properties)


def around_id(kind: Kind) -> tuple[str, int, str] | None:
    """The text before and after the id in a name, and the width of the id; None if the name depends on more than the id."""
    if kind.name is None:
        return kind.basename, 0, ""
    found = template.around_id(kind.name)
    return None if found is None else (found[0], found[1].width, found[2])


class KindTable:
    """The kinds of a graph, append-only so that generations and copies can share one table.

    >>> table = KindTable()
    >>> table.intern(Kind("core", "core")), table.intern(Kind("core", "core"))
    (0, 0)
    """

    __slots__ = ("_index", "_types", "listed", "may_draw", "may_identify")

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        #: Whether some kind draws from suppliers on its own.
        self.may_draw = False
        #: Whether some kind has a property of `IDENTIFYING`.
        self.may_identify = False
        #: By number; only `intern` adds to it.
        self.listed: list[Kind] = []
        self._types: set[str] = set()
        self._index: dict[tuple[object, ...], int] = {}
        self._keep(kinds)

    def intern(self, kind: Kind) -> int:
        """The number of this kind, added if it is new.

        A ``draw.…`` property given as text becomes a number.

        Errors: LimitExceeded past KINDS_MAX and TYPES_MAX; InputError for a ``draw.…`` property that is not a whole number of
        units.
        """
        return self._keep([_with_units(kind)])

    def _keep(self, kinds: Iterable[Kind]) -> int:
        """Add the kinds that are new; returns the number of the last one."""
        number = -1
        for kind in kinds:
            # 1, 1.0 and True are equal in Python but different to a user, so the types of the values are part of the key.
            key = kind, tuple([type(value) for _, value in kind.properties]) if kind.properties else ()
            number = self._index.get(key, len(self.listed))
            if number < len(self.listed):
                continue
            if number >= limits.KINDS_MAX:
                raise LimitExceeded(f"more than {limits.KINDS_MAX} different kinds of pools", where=kind.type)
            self._types.add(kind.type)
            if len(self._types) > limits.TYPES_MAX:
                raise LimitExceeded(f"more than {limits.TYPES_MAX} types of pools", where=kind.type)
            for name, _ in kind.properties:
                self.may_draw = self.may_draw or name.startswith(DRAW)
                self.may_identify = self.may_identify or name in IDENTIFYING
            self.listed.append(kind)
            self._index[key] = number
        return number

    def __getitem__(self, number: int) -> Kind:
        return self.listed[number]

    def __len__(self) -> int:
        return len(self.listed)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self.listed)

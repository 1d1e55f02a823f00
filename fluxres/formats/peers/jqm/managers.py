"""JQM's resource managers and the parameters that configure them, in every spelling that is in use.

A manager is identified by its type and its key.  Its parameters are in the manager itself, in a job definition and in a job; the
last of these wins.  Three spellings name a parameter of a job:

* ``com.enioka.jqm.rm.quantity.thread.consumption``: what the program reads first;
* ``com.enioka.jqm.rm.thread.consumption``: what its documentation says;
* ``com.enioka.jqm.rm.quantity.consumption``: for all managers of the type.

The first two name one manager and win over the third, wherever they stand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from fluxres import limits
from fluxres.documents.document import shown
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax.name import is_name

PREFIX: Final = "com.enioka.jqm.rm."
QUANTITY_DEFAULT: Final = 10
ITEMS_DEFAULT: Final = tuple(f"item{number:02}" for number in range(1, 11))
PRIORITY_MAX: Final = 10
_INTEGER = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A resource that is only counted.

    Args:
        key: its name, in lower case.
        consumption: how much a job takes that does not say.
    """

    key: str
    quantity: int = QUANTITY_DEFAULT
    consumption: int = 1


@dataclass(frozen=True, slots=True)
class Discrete:
    """A resource of named items; a job gets the names of those that it has.

    Args:
        key: its name, in lower case.
        consumption: how many a job takes that does not say.
    """

    key: str
    items: tuple[str, ...] = ITEMS_DEFAULT
    consumption: int = 0


@dataclass(frozen=True, slots=True)
class Highlander:
    """Lets one job of a definition run at a time, on all nodes."""

    key: str


Rules = Quantity | Discrete | Highlander
TYPES: Final[dict[str, type[Rules]]] = {"quantity": Quantity, "discrete": Discrete, "highlander": Highlander}


def type_of(manager: Rules) -> str:
    """The word for its type in parameters."""
    return type(manager).__name__.lower()


def configured(type_name: str, key: str, parameters: Mapping[str, Any]) -> Rules:
    """The manager of this type and key.

    Args:
        parameters: by bare name (``quantity``, ``consumption``, ``list``) or in any of the spellings; values as text or number.

    Errors: InputError naming the parameter.

    >>> configured("quantity", "Thread", {"com.enioka.jqm.rm.quantity.quantity": "3"})
    Quantity(key='thread', quantity=3, consumption=1)
    """
    if type_name not in TYPES:
        raise InputError(f"no resource manager of type {shown(type_name)}", where="type", hint=f"types are {', '.join(TYPES)}")
    key = key.lower()
    if not is_name(key, without="/"):
        raise InputError(f"expected a key, got {shown(key)}", where="key", hint="a word such as thread or ports")
    known = {"quantity": ("quantity", "consumption"), "discrete": ("list", "consumption"), "highlander": ()}[type_name]
    bare = {name: value for name in known if (value := _stated(parameters, type_name, key, name, bare=True)) is not None}
    for name in parameters:
        if name not in _spelled(type_name, key, known):
            hint = f"a {type_name} manager has {', '.join(known) or 'no parameters'}"
            raise InputError(f"unknown parameter {shown(name)}", where=key, hint=hint)
    if type_name == "highlander":
        return Highlander(key)
    if type_name == "discrete":
        items = _items(bare.get("list", ITEMS_DEFAULT), key)
        return Discrete(key, items, _integer(bare.get("consumption", 0), f"{key}.consumption", 0))
    return Quantity(
        key,
        _integer(bare.get("quantity", QUANTITY_DEFAULT), f"{key}.quantity", 0),
        _integer(bare.get("consumption", 1), f"{key}.consumption", 0),
    )


def spellings(type_name: str, key: str, name: str) -> tuple[str, str, str]:
    """How a parameter may be written, the one that wins first.

    >>> spellings("quantity", "thread", "consumption")[1]
    'com.enioka.jqm.rm.thread.consumption'
    """
    return f"{PREFIX}{type_name}.{key}.{name}", f"{PREFIX}{key}.{name}", f"{PREFIX}{type_name}.{name}"


def consumption(manager: Rules, definition: Mapping[str, Any], job: Mapping[str, Any]) -> int:
    """How much of a manager's resource a job takes; 0 for a highlander.

    Args:
        manager: whose default is taken where neither says.
        definition, job: their parameters; those of the job win.

    Errors: InputError naming the parameter.

    >>> consumption(Quantity("thread"), {"com.enioka.jqm.rm.quantity.consumption": "6"}, {})
    6
    """
    if isinstance(manager, Highlander):
        return 0
    stated = _stated({**definition, **job}, type_of(manager), manager.key, "consumption")
    return manager.consumption if stated is None else _integer(stated, f"{manager.key}.consumption", 0)


Answer = Literal["go", "not-enough", "empty"]


def answer(manager: Quantity | Discrete, need: int, free: int) -> Answer:
    """What a manager answers a job: after *not enough* the next job may be tried, after *empty* none is.

    The boundary between the two differs: a quantity is empty when less than the default consumption is left, a list when no item
    is.

    Args:
        need: what the job takes.
        free: what is left.

    >>> answer(Quantity("thread", 10, 4), 5, 2), answer(Discrete("ports", ("a",)), 2, 1), answer(Discrete("ports", ("a",)), 0, 0)
    ('empty', 'not-enough', 'go')
    """
    if isinstance(manager, Discrete):
        if not need or need <= free:
            return "go"
        return "not-enough" if free > 0 else "empty"
    if need <= free:
        return "go"
    return "empty" if free < manager.consumption else "not-enough"


def room(manager: Quantity | Discrete, free: int) -> int:
    """How many more jobs would fit: items, or times the default consumption; negative after a quantity was reduced while in use.

    >>> room(Quantity("thread", 10, 4), 9), room(Quantity("thread"), -1), room(Discrete("ports"), 3)
    (2, -1, 3)
    """
    if isinstance(manager, Discrete):
        return free
    each = manager.consumption or 1
    return -(-free // each) if free < 0 else free // each


def seen_by_job(managers: Iterable[Rules], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a job itself gets: those for managers are taken away.

    >>> seen_by_job([Quantity("thread")], {"com.enioka.jqm.rm.thread.consumption": 2, "date": "today"})
    {'date': 'today'}
    """
    hidden = {name for each in managers for name in _spelled(type_of(each), each.key, ("consumption", "quantity", "list"))}
    return {name: value for name, value in parameters.items() if name not in hidden}


def environment(booked: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The variables that tell a job its items, by key of the manager; none for a manager of which it has none.

    >>> environment({"ports": ["p1", "p2"], "seats": []})
    {'JQM_RM_DISCRETE_PORTS_ITEMS': 'p1,p2'}
    """
    return {f"JQM_RM_DISCRETE_{key.upper()}_ITEMS": ",".join(items) for key, items in booked.items() if items}


def priority(value: object) -> int:
    """The priority of a job: 1 to 10, and 0, below all, for one without.

    Errors: InputError for any other value.

    >>> priority(None), priority(10)
    (0, 10)
    """
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= PRIORITY_MAX:
        hint = "leave it out for a job below all others"
        raise InputError(f"expected a whole number from 1 to {PRIORITY_MAX}, got {shown(value)}", where="priority", hint=hint)
    return value


def _spelled(type_name: str, key: str, names: Iterable[str]) -> set[str]:
    return {text for name in names for text in (name, *spellings(type_name, key, name))}


def _stated(parameters: Mapping[str, Any], type_name: str, key: str, name: str, *, bare: bool = False) -> Any:
    written = (*spellings(type_name, key, name), *([name] if bare else []))
    return next((parameters[text] for text in written if text in parameters), None)


def _integer(value: object, where: str, least: int) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()) and len(value) < 40:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"expected a whole number of at least {least}, got {shown(value)}", where=where)
    if value > limits.SIZE_MAX:
        raise LimitExceeded(f"expected a whole number of at most {limits.SIZE_MAX}, got {shown(value)}", where=where)
    return value


def _items(value: object, key: str) -> tuple[str, ...]:
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(item, str) for item in listed):
        raise InputError(f"expected items with commas between them, got {shown(value)}", where=f"{key}.list")
    items = tuple(item.strip() for item in listed if item.strip())
    if len(set(items)) < len(items):
        again = Counter(items).most_common(1)[0][0]
        raise InputError(f"the item {shown(again)} is listed twice", where=f"{key}.list", hint="remove one")
    if any(len(item) > limits.NAME_LENGTH_MAX for item in items):
        raise LimitExceeded(f"expected items of at most {limits.NAME_LENGTH_MAX} characters", where=f"{key}.list")
    return items

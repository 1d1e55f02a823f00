"""Parameters as people write them, ``name=value,name=value``: of models, policies, and options with several parts.

What can be written follows from what is made: the parameters of a class, with their annotations.

>>> def failures(mtbf_s: float, mttr_s: float, each: str = "node") -> None: ...
>>> read("mtbf=30d, mttr=4h", of(failures), "failures")
{'mtbf_s': 2592000.0, 'mttr_s': 14400.0}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from inspect import Parameter as Argument
from inspect import signature
from math import isfinite
from typing import Any, Final, NamedTuple

from fluxres.documents.suggestion import suggest
from fluxres.errors import FluxresError, UsageError
from fluxres.syntax import duration as durations

UNITS: Final = ("_s", "_w")
"""What names of parameters may end with, and people leave out: seconds, watts."""
_DIGITS_MAX: Final = 18
_WORD: Final = re.compile(r"\w+")


class Parameter(NamedTuple):
    """A parameter that can be written.

    Args:
        field: its name in Python.
        what: is expected, for messages.
        read: a value from text; raises ValueError or FluxresError.
        is_required: it has no default.
    """

    field: str
    what: str
    read: Callable[[str], Any]
    is_required: bool = False


Known = Mapping[str, Parameter]
"""Parameters by the names that people write."""


def of(
    make: Callable[..., Any],
    *,
    without: Collection[str] = (),
    renamed: Mapping[str, str] | None = None,
    required: Collection[str] = (),
) -> Known:
    """The parameters of a class or a function that can be written.

    A name that ends with _s is a duration. Otherwise its annotation decides, or its default: text, a whole number, or a number.
    Parameters of other types can only be given as values.

    Args:
        without: names that people do not write.
        renamed: what people write for some names.
        required: names that people must write although there is a default.

    Errors: TypeError and ValueError for what has no signature.
    """
    found = {}
    for name, parameter in _arguments(make).items():
        if name not in without:
            written = (renamed or {}).get(name) or _without_unit(name)
            found[written] = parameter._replace(is_required=True) if name in required else parameter
    return found


@lru_cache(maxsize=256)
def takes_any(make: Callable[..., Any]) -> bool:
    """Whether a class or a function has parameters of any name, or nobody knows which."""
    try:
        return any(each.kind is Argument.VAR_KEYWORD for each in signature(make).parameters.values())
    except (TypeError, ValueError):
        return True


def read(text: str, known: Known, where: str) -> dict[str, Any]:
    """Values by the names in Python.

    Errors: UsageError for a parameter that does not exist, is given twice or is missing, and for a wrong value.
    """
    if not text:
        raise UsageError("expected name=value, got ''", where=where, hint=_there(known))
    return values(pairs(text, where), known, where, text)


def values(given: Mapping[str, Any], known: Known, where: str, text: str = "", *, takes_any: bool = False) -> dict[str, Any]:
    """Values by the names in Python, from those that people write; texts are read, other values stay.

    Args:
        text: that was given, for the error of a missing one.
        takes_any: other parameters are taken as well, as numbers if they are such.
    """
    found: dict[str, Any] = {}
    by_field = {each.field: name for name, each in known.items()}
    for key, value in given.items():
        name = key.replace("-", "_")
        name = name if name in known else by_field.get(name, "")
        if not name and takes_any:
            found[key] = _number_or_text(value)
            continue
        if not name:
            raise UsageError(f"no parameter {key!r:.80}", where=where, hint=suggest(key, known) or _there(known))
        if known[name].field in found:
            raise UsageError(f"{name} is given twice", where=where)
        found[known[name].field] = _value(value, known[name], f"{where} {name}") if isinstance(value, str) else value
    missing = [name for name, each in known.items() if each.is_required and each.field not in found]
    if missing:
        got = f", got {text!r:.80}" if text else ""
        raise UsageError(f"expected {' and '.join(missing)} as well{got}", where=where)
    return found


def pairs(text: str, where: str) -> dict[str, str]:
    """Parameters of any name.

    Errors: UsageError for what is not a pair, and for a name that is given twice.

    >>> pairs("size=4, days=2", "workload")
    {'size': '4', 'days': '2'}
    """
    found: dict[str, str] = {}
    for pair in text.split(",") if text else ():
        key, equals, value = (word.strip() for word in pair.partition("="))
        if not equals:
            raise UsageError(f"expected name=value, got {pair!r:.80}", where=where)
        if key in found:
            raise UsageError(f"{key:.80} is given twice", where=where)
        found[key] = value
    return found


def number(text: str) -> int | float:
    """A finite number.

    >>> number("8"), number("0.5")
    (8, 0.5)
    """
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX:
        return int(text)
    found = float(text)
    if not isfinite(found):
        raise ValueError(text)
    return int(found) if found.is_integer() and abs(found) < 10**_DIGITS_MAX else found


def _real(text: str) -> float:
    return float(number(text))


def _whole(text: str) -> int:
    found = number(text)
    if isinstance(found, float):
        raise ValueError(text)
    return found


def _flag(text: str) -> bool:
    return {"true": True, "false": False, "1": True, "0": False}[text.lower()]


def _number_or_text(value: Any) -> Any:
    try:
        return number(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _exact(text: str) -> str:
    """A number, as it is written: a model makes a fraction of it."""
    number(text)
    return text


@lru_cache(maxsize=256)
def _arguments(make: Callable[..., Any]) -> dict[str, Parameter]:
    found = {}
    for name, each in signature(make).parameters.items():
        kind = _kind(each)
        if kind is not None and each.kind in (Argument.POSITIONAL_OR_KEYWORD, Argument.KEYWORD_ONLY):
            found[name] = Parameter(name, *kind, is_required=each.default is Argument.empty)
    return found


def _kind(argument: Argument) -> tuple[str, Callable[[str], Any]] | None:
    if argument.name.endswith("_s"):
        return "a duration", durations.read
    given = argument.annotation
    if given is Argument.empty:
        return ("text", str) if isinstance(argument.default, str) else ("a number", number)
    words = set(_WORD.findall(given if isinstance(given, str) else getattr(given, "__name__", str(given))))
    if words & {"list", "tuple", "dict", "Sequence", "Mapping"}:
        return None
    for word, kind in _KINDS.items():
        if word in words:
            return kind
    return None


_KINDS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "Length": ("a duration", durations.read),
    "str": ("text", str),
    "Literal": ("text", str),
    "Fraction": ("a number", _exact),
    "float": ("a number", _real),
    "int": ("a whole number", _whole),
    "bool": ("true or false", _flag),
}
"""By a word of the annotation, the first of these that it has."""


def _value(text: str, parameter: Parameter, where: str) -> Any:
    try:
        return parameter.read(text)
    except FluxresError as error:
        raise UsageError(error.message, where=where, hint=error.hint) from None
    except (ValueError, OverflowError, KeyError):
        raise UsageError(f"expected {parameter.what}, got {text!r:.80}", where=where) from None


def _without_unit(name: str) -> str:
    return next((name.removesuffix(unit) for unit in UNITS if name.endswith(unit)), name)


def _there(known: Known) -> str:
    return f"it has {', '.join(known)}" if known else "it has none"

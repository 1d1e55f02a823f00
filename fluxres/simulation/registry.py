"""Objects by name and parameters, such as ``average:last=5,by=user``: built-in ones, and those of other packages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from importlib.metadata import entry_points
from inspect import Parameter, signature
from typing import Any, Generic, TypeVar

from fluxres.errors import FluxresError, InputError, UsageError
from fluxres.syntax import duration as durations

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes by name.

    Args:
        what: is made, for messages.
        built_in: the classes of this package.
        group: the entry point group of those of other packages.

    >>> Registry("number", {"real": float, "whole": int}, "fluxres.no_such_group").names()
    ['real', 'whole']
    """

    def __init__(self, what: str, built_in: Mapping[str, Callable[..., T]], group: str) -> None:
        self.what, self.built_in, self.group = what, built_in, group

    def names(self) -> list[str]:
        """The names of all; those of other packages come last."""
        return [*self.built_in, *sorted(entry.name for entry in entry_points(group=self.group))]

    def make(self, text: str) -> T:
        """An object by its name and parameters: text, numbers, and durations for parameters whose name ends with _s.

        Errors: UsageError for a name or a parameter that does not exist, and for a wrong value.
        """
        name, _, rest = text.partition(":")
        factory = self.find(name)
        if factory is None:
            raise UsageError(f"no {self.what} {name!r:.80}", hint=near(name, self.names()))
        where = f"{self.what} {name}"
        known = signature(factory).parameters
        given: dict[str, Any] = {}
        for pair in rest.split(",") if rest else ():
            key, equals, value = pair.partition("=")
            field = key if key in known else f"{key}_s"
            if not equals or field not in known:
                there = ", ".join(each.removesuffix("_s") for each in known)
                hint = f"it has {there}" if known else "it has none"
                raise UsageError(f"expected parameters as name=value, got {pair!r:.80}", where=where, hint=hint)
            given[field] = _value(value, field, known[field], f"{where} {key}")
        try:
            return factory(**given)
        except FluxresError:
            raise
        except Exception as error:  # it may be that of another package
            raise UsageError(f"{error}" or type(error).__name__, where=where) from error

    def find(self, name: str) -> Callable[..., T] | None:
        """The class of this name, imported if it is that of another package; None if there is none.

        Errors: UsageError if it cannot be imported.
        """
        if name in self.built_in:
            return self.built_in[name]
        for entry in entry_points(group=self.group):
            if entry.name == name:
                try:
                    found: Callable[..., T] = entry.load()
                except Exception as error:
                    hint = f"its package has the entry point {entry.value!r}: repair or uninstall it"
                    said = f"cannot be imported: {type(error).__name__}: {error}"
                    raise UsageError(said, where=f"{self.what} {name}", hint=hint) from error
                return found
        return None


def near(name: str, known: Iterable[str]) -> str:
    """A hint for a name that does not exist: the one that it looks like, else all.

    >>> near("tsafir", ["tsafrir", "average"]), near("x", ["tsafrir", "average"])
    ('did you mean tsafrir?', 'there is tsafrir, average')
    """
    names = list(known)
    alike = get_close_matches(name[:64], names, 1)
    return f"did you mean {alike[0]}?" if alike else f"there is {', '.join(names)}"


def pairs(text: str, where: str) -> dict[str, str]:
    """Parameters as ``name=value,…``.

    Errors: UsageError for what is not a pair.

    >>> pairs("size=4, days=2", "workload")
    {'size': '4', 'days': '2'}
    """
    found = {}
    for pair in text.split(",") if text else ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"expected parameters as name=value, got {pair!r:.80}", where=where)
        found[key.strip()] = value.strip()
    return found


def _value(text: str, field: str, parameter: Parameter, where: str) -> Any:
    if isinstance(parameter.default, str):
        return text
    try:
        if field.endswith("_s"):
            return durations.read(text)
        number = float(text)
        return int(number) if number.is_integer() else number
    except (ValueError, OverflowError, InputError):
        kind = "a duration" if field.endswith("_s") else "a number"
        raise UsageError(f"expected {kind}, got {text!r:.80}", where=where) from None

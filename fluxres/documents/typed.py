"""Convert plain values to msgspec documents, with readable messages.

msgspec converts and checks at C speed, but its messages (``Expected `int`, got `str` - at `$.parts[...].count```) lack the value,
the line and the key. So when it refuses, the values are walked again along the same type definitions to find the first error.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from fluxres.documents.document import Document, Key, Place, shown
from fluxres.errors import InputError, LimitExceeded

T = TypeVar("T")

_WITH_UNIT = re.compile(r"([0-9]+) ?([A-Za-z/]{1,12})")
_WITH_UNITS: Final = ("size", "capacity")
"""Keys whose unit has a key of its own."""


class _Found(Exception):  # carries the first error out of the walk
    def __init__(self, path: list[Key], message: str, hint: str = "", *, key: bool = False, limit: bool = False) -> None:
        super().__init__(message)
        self.path, self.message, self.hint, self.key = path, message, hint, key
        self.error = LimitExceeded if limit else InputError


def convert(document: Document, kind: type[T]) -> T:
    """The document as `kind`.

    Errors: InputError with file, line, column, path, the expected and the actual value; LimitExceeded for a text that is
    too long or a number that is too large.

    >>> from fluxres.documents import yaml_document
    >>> from fluxres.formats.cluster import schema as cluster_schema
    >>> convert(yaml_document.load(b"{fluxres: 1, resources: [{type: core, count: four}]}"), cluster_schema.Cluster)
    Traceback (most recent call last):
      ...
    fluxres.errors.InputError: <text>:1:46: resources[0].count: expected int >= 1, got 'four'
    """
    try:
        return msgspec.convert(document.values, kind)
    except msgspec.ValidationError as error:
        try:
            _check(document.values, inspect.type_info(kind), [])
        except _Found as found:
            raise found.error(found.message, where=document.where(found.path, key=found.key), hint=found.hint) from None
        if not document.is_made:
            raise InputError(str(error), where=document.where(())) from None
    except RecursionError:
        raise InputError("is nested too deeply", where=document.where(())) from None
    # A number of NumPy or a StrEnum is right to Python, and msgspec wants exactly a float or a str.
    return msgspec.convert(Place(document=document).values(document.values), kind)


def nearest(word: str, known: list[str]) -> str:
    """A hint for an unknown word.

    >>> nearest("cuont", ["count", "type"])
    "did you mean 'count'?"
    """
    near = difflib.get_close_matches(word, known, 1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"


def _bounds(kind: Any) -> str:
    low, high = kind.ge, kind.le
    return (f" >= {low}" if low is not None else "") + (f" and <= {high}" if high is not None and low != 0 else "")


def _beyond(kind: Any, value: Any) -> str:
    """The upper bound, which a message mentions only if it was exceeded, since it is far above all realistic values."""
    return f" and <= {kind.le}" if kind.le is not None and kind.ge == 0 and value > kind.le else ""


def _describe(kind: Any) -> str:
    match kind:
        case inspect.UnionType():
            return " or ".join(dict.fromkeys(map(_describe, kind.types)))
        case inspect.IntType():
            return "int" + _bounds(kind)
        case inspect.FloatType():
            return "number" + _bounds(kind)
        case inspect.LiteralType():
            return ("one of " if len(kind.values) > 1 else "") + ", ".join(map(str, kind.values))
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "null"
        case inspect.ListType():
            return "a list"
        case _:
            return "a mapping"


def _takes(kind: Any, value: object) -> bool:
    """Whether a value is of the type (not necessarily in the range) that `kind` requires."""
    match kind:
        case inspect.AnyType():
            return True
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case inspect.LiteralType():
            return any(type(value) is type(literal) for literal in kind.values)
        case inspect.StrType():
            return isinstance(value, str)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.NoneType():
            return value is None
        case inspect.ListType():
            return isinstance(value, list | tuple)
        case inspect.StructType() | inspect.DictType():
            return isinstance(value, Mapping)
        case _:
            return False


def _beside(value: object, kind: Any, path: list[Key]) -> str:
    """A hint for a number written together with its unit."""
    found = _WITH_UNIT.fullmatch(value) if isinstance(value, str) and isinstance(kind, inspect.IntType) else None
    return f"the unit has a key of its own: {path[-1]}: {found[1]}, unit: {found[2]}" if found and path[-1] in _WITH_UNITS else ""


def _check(value: Any, kind: Any, path: list[Key], whole: Any = None) -> None:
    whole = whole or kind
    if isinstance(kind, inspect.Metadata):
        return _check(value, kind.type, path, whole.type if whole is kind else whole)
    if isinstance(kind, inspect.UnionType):
        for choice in kind.types:
            inner = choice.type if isinstance(choice, inspect.Metadata) else choice
            if _takes(inner, value):
                return _check(value, inner, path, kind)
        raise _Found(path, f"expected {_describe(kind)}, got {shown(value)}")
    if not _takes(kind, value):
        raise _Found(path, f"expected {_describe(whole)}, got {shown(value)}", _beside(value, kind, path))
    match kind:
        case inspect.StructType():
            _check_struct(value, kind, path)
        case inspect.DictType():
            _check_keys(value, path)
            for key, item in value.items():
                _check(item, kind.value_type, [*path, key])
        case inspect.ListType():
            if kind.min_length is not None and len(value) < kind.min_length:
                raise _Found(path, "expected at least one entry, got an empty list")
            for i, item in enumerate(value):
                _check(item, kind.item_type, [*path, i])
        case _:
            _check_scalar(value, kind, path, whole)
    return None


def _check_scalar(value: Any, kind: Any, path: list[Key], whole: Any) -> None:
    # Described only for the wrong value: hundreds of thousands before it may be right.
    match kind:
        case inspect.LiteralType():
            if value not in kind.values:
                hint = nearest(value, [str(word) for word in kind.values]) if isinstance(value, str) else ""
                said = f"expected {_describe(whole)}, got {shown(value)}"
                raise _Found(path, said, hint if hint.startswith("did") else "")
        case inspect.IntType() | inspect.FloatType():
            if (kind.ge is not None and not value >= kind.ge) or (kind.le is not None and not value <= kind.le):
                beyond, limit = _beyond(kind, value), kind.le is not None and value > kind.le
                raise _Found(path, f"expected {_describe(whole)}{beyond}, got {shown(value)}", limit=limit)
        case inspect.StrType():
            if kind.min_length is not None and len(value) < kind.min_length:
                raise _Found(path, "expected text, got an empty one")
            if kind.max_length is not None and len(value) > kind.max_length:
                raise _Found(path, f"expected at most {kind.max_length} characters, got {len(value)}", limit=True)


def _check_keys(value: Mapping[Any, Any], path: list[Key]) -> None:
    for key in value:
        if not isinstance(key, str):
            raise _Found(path, f"the key {shown(key)} is not text")


def _check_struct(value: Mapping[str, Any], kind: Any, path: list[Key]) -> None:
    _check_keys(value, path)
    fields = {field.encode_name: field for field in kind.fields}
    for key in value:
        if key not in fields and kind.forbid_unknown_fields:
            raise _Found([*path, key], f"unknown key {shown(key)}", nearest(key, list(fields)), key=True)
    for name, field in fields.items():
        if name in value:
            _check(value[name], field.type, [*path, name])
        elif field.required:
            raise _Found(path, f"the key {name!r} is missing")


def json_schema(kind: Any, *, title: str = "") -> dict[str, Any]:
    """The JSON Schema of documents of a type."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **({"title": title} if title else {}),
        **msgspec.json.schema(kind),
    }

"""Convert plain values to msgspec documents, with readable messages.

msgspec converts and checks at C speed, but its messages (``Expected `int`, got `str` - at `$.parts[...].count```) lack the value,
the line and the key, and it stops at the first. So when it refuses, the values are walked again along the same type definitions
to find all errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, inspect

from fluxres import limits
from fluxres.documents.document import Document, Key, Place, shown
from fluxres.documents.mistakes import Mistakes
from fluxres.documents.suggestion import did_you_mean, nearest
from fluxres.errors import InputError, LimitExceeded

T = TypeVar("T")

_WHOLE: Final = "a whole number"
_NUMBER: Final = "a number"
_NOTHING: Final = "nothing"
"""What people call null."""
_FAR: Final = 10**12
_AT_LEAST: Final = re.compile(r"of at least (\d+)")


class _Found(NamedTuple):
    """Something wrong at a path."""

    path: tuple[Key, ...]
    message: str
    hint: str = ""
    key: bool = False
    limit: bool = False


def convert(document: Document, kind: type[T]) -> T:
    """The document as `kind`.

    Errors: InputError with file, line, column, path, the expected and the actual value of everything that is wrong; LimitExceeded
    for a text that is too long or a number that is too large.

    >>> from fluxres.documents import yaml_document
    >>> from fluxres.formats.cluster import schema as cluster_schema
    >>> convert(yaml_document.load(b"{fluxres: 1, resources: [{type: core, count: four}]}"), cluster_schema.Cluster)
    Traceback (most recent call last):
      ...
    fluxres.errors.InputError: <text>:1:46: resources[0].count: expected a whole number of at least 1, got 'four'
    """
    mistakes = Mistakes()
    found, _ = convert_partly(document, kind, mistakes)
    mistakes.require_none()
    return found


def convert_partly(document: Document, kind: type[T], mistakes: Mistakes) -> tuple[T, list[tuple[Key, ...]]]:
    """The document as `kind`, as far as it is right, and the paths at which it is wrong.

    Args:
        mistakes: what is wrong is added here. Optional keys with a wrong value are then missing, and required ones UNSET.
    """
    try:
        try:
            return msgspec.convert(document.values, kind), []
        except (msgspec.ValidationError, UnicodeEncodeError) as error:  # the latter for half a character, where text is wrong
            refused = str(error)
        walk = _Walk()
        made = walk.check(document.values, inspect.type_info(kind), ())
    except RecursionError:
        raise InputError("is nested too deeply", where=document.where(())) from None
    if walk.found:
        _add(document, walk, mistakes)
        return made, walk.wrong
    if not document.is_made:
        raise InputError(refused, where=document.where(()))
    # A number of NumPy or a StrEnum is right to Python, and msgspec wants exactly a float or a str.
    return msgspec.convert(Place(document=document).values(document.values), kind), []


def _add(document: Document, walk: _Walk, mistakes: Mistakes) -> None:
    for found in walk.found:
        error = LimitExceeded if found.limit else InputError
        mistakes.add(error(found.message, where=document.where(found.path, key=found.key), hint=found.hint))
    mistakes.unlisted += len(walk.wrong) - len(walk.found)


def _bounds(kind: Any, *, above: bool) -> str:
    """The bounds of a number in words.

    Args:
        above: whether the upper bound was exceeded. One far above all realistic values is said only then.
    """
    low = "" if kind.ge is None and kind.gt is None else f"above {kind.gt}" if kind.ge is None else f"of at least {kind.ge}"
    if kind.lt is not None:
        high = f"below {kind.lt}"
    elif kind.le is None or (not above and (kind.ge == 0 or kind.le > _FAR)):
        high = ""
    elif kind.ge is not None:
        return f" from {kind.ge} to {_readable(kind.le)}"
    else:
        high = f"at most {kind.le}" if low else f"of at most {kind.le}"
    return " " + " and ".join(filter(None, (low, high))) if low or high else ""


def _readable(bound: float) -> str:
    """A bound without `.0`."""
    return f"{bound:.0f}" if float(bound).is_integer() else str(bound)


def _is_within(kind: Any, value: Any) -> bool:
    """Whether a number is between the bounds of its type; NaN is not."""
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
        and (kind.lt is None or value < kind.lt)
    )


class _Worded(NamedTuple):
    """What a key takes, in words of its own."""

    words: str


def _describe(kind: Any, above: Any = None) -> str:
    """What a type takes, in words.

    Args:
        above: the number in it whose upper bound was exceeded.
    """
    match kind:
        case _Worded():
            return kind.words if above is None else _AT_LEAST.sub(rf"from \1 to {above.le}", kind.words, count=1)
        case inspect.UnionType():
            words = {str(value) for choice in kind.types if isinstance(choice, inspect.LiteralType) for value in choice.values}
            said = dict.fromkeys(text for choice in kind.types if (text := _describe(choice, above)) not in words)
            wholes = {text for text in said if text.startswith(_WHOLE) and text.replace(_WHOLE, _NUMBER) in said}
            choices = [text for text in said if text != _NOTHING and text not in wholes]
            return " or ".join(choices) + f", or {_NOTHING}" * (_NOTHING in said and "null" not in words)
        case inspect.IntType():
            return _WHOLE + _bounds(kind, above=kind is above)
        case inspect.FloatType():
            return _NUMBER + _bounds(kind, above=kind is above)
        case inspect.LiteralType():
            return ("one of " if len(kind.values) > 1 else "") + ", ".join(map(str, kind.values))
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return _NOTHING
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


def _instead(kind: Any, value: object) -> str:
    """A hint for a value of another form than that of `kind`, where it is likely what was meant.

    >>> _instead(inspect.type_info(list[int]), "4")
    'write [4]'
    """
    if isinstance(value, str) and not value.isprintable():
        return ""
    match kind:
        case inspect.Metadata():
            return _instead(kind.type, value)
        case inspect.UnionType():
            choices = [choice for choice in kind.types if not isinstance(choice, inspect.StrType)]
            return next((hint for choice in choices if (hint := _instead(choice, value))), "")
        case inspect.StructType() if isinstance(value, str):
            word, colon, rest = value.partition(":")
            names = [field.encode_name for field in kind.fields]
            if colon and word in names:
                return f"write '{word}: {rest:.40}', with a ':' and a blank"
            return f"write its keys, such as '{'type' if 'type' in names else names[0]}: {value:.40}'"
        case inspect.ListType() if isinstance(value, Mapping):
            return "a list has a '-' before each of its entries"
        case inspect.ListType() if isinstance(value, str):
            return _instead(kind.item_type, value) or f"write [{value:.40}]"
        case inspect.StrType() if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return f"write one text, such as {shown(','.join(value[:4]))}"
    return ""


def _as_mapping(value: list[Any], kind: Any, path: tuple[Key, ...]) -> str:
    """A hint for a list of names in which some have a value, where a mapping of names is possible too."""
    if not isinstance(kind, inspect.UnionType) or not any(isinstance(choice, inspect.DictType) for choice in kind.types):
        return ""
    pairs: dict[str, Any] = {}
    for item in value[:4]:
        pairs.update(item if isinstance(item, Mapping) else {item: None} if isinstance(item, str) else {})
    from fluxres.documents import yaml_document

    return f"a list has names only; write names with values as a mapping: {path[-1]}: {yaml_document.flow(pairs)}"


def _nothing_of(kind: Any) -> Any:
    return kind.cls(**{field.name: UNSET for field in kind.fields if field.required})


def _missing(names: list[str]) -> str:
    if len(names) == 1:
        return f"the key {names[0]!r} is missing"
    return f"the keys {', '.join(map(repr, names[:-1]))} and {names[-1]!r} are missing"


class _Walk:
    """Walks values along the definition of their type; makes what is right of them, and finds what is wrong.

    Attributes:
        found: the mistakes, up to `limits.MISTAKES_MAX`.
        wrong: the path of each.
    """

    def __init__(self) -> None:
        self.found: list[_Found] = []
        self.wrong: list[tuple[Key, ...]] = []

    def _fail(self, path: tuple[Key, ...], say: Callable[[], tuple[str, str]], *, key: bool = False, limit: bool = False) -> Any:
        """Note a mistake, whose message and hint are made only if it is listed; the value in its place."""
        self.wrong.append(path)
        if len(self.found) < limits.MISTAKES_MAX:
            self.found.append(_Found(path, *say(), key, limit))
        return UNSET

    def check(self, value: Any, kind: Any, path: tuple[Key, ...], whole: Any = None) -> Any:
        """The value as `kind`; UNSET if it is wrong."""
        whole = whole or kind
        if isinstance(kind, inspect.Metadata):
            return self.check(value, kind.type, path, whole.type if whole is kind else whole)
        if isinstance(kind, inspect.UnionType):
            for choice in kind.types:
                inner = choice.type if isinstance(choice, inspect.Metadata) else choice
                if _takes(inner, value):
                    return self.check(value, inner, path, whole if isinstance(whole, _Worded) else kind)
            wanted = whole if isinstance(whole, _Worded) else kind
            return self._fail(path, lambda: (f"expected {_describe(wanted)}, got {shown(value)}", _instead(kind, value)))
        if not _takes(kind, value):
            return self._fail(path, lambda: (f"expected {_describe(whole)}, got {shown(value)}", _instead(kind, value)))
        match kind:
            case inspect.StructType():
                return self._struct(value, kind, path)
            case inspect.DictType():
                inside = {key: self.check(item, kind.value_type, (*path, key)) for key, item in self._keyed(value, path)}
                if isinstance(kind.value_type, inspect.StructType):
                    return {key: _nothing_of(kind.value_type) if item is UNSET else item for key, item in inside.items()}
                return {key: item for key, item in inside.items() if item is not UNSET}
            case inspect.ListType():
                return self._list(value, kind, path, whole)
            case _:
                return self._scalar(value, kind, path, whole)

    def _list(self, value: Any, kind: Any, path: tuple[Key, ...], whole: Any) -> Any:
        least, most = kind.min_length or 0, kind.max_length
        if len(value) < least or (most is not None and len(value) > most):
            many = str(least) if least == most else f"at most {most}" if len(value) > least else f"at least {least}"
            entries = "at least one entry" if many == "at least 1" else f"{many} entries"
            return self._fail(path, lambda: (f"expected {entries}, got {shown(value)}", ""))
        if isinstance(kind.item_type, inspect.StrType) and any(isinstance(item, Mapping) for item in value):
            hint = _as_mapping(value, whole, path)
            if hint:
                at = next(i for i, item in enumerate(value) if isinstance(item, Mapping))
                return self._fail((*path, at), lambda: ("expected text, got a mapping", hint))
        items = [self.check(item, kind.item_type, (*path, i)) for i, item in enumerate(value)]
        if isinstance(kind.item_type, inspect.StructType):
            # What comes after a wrong item keeps its number.
            return [_nothing_of(kind.item_type) if item is UNSET else item for item in items]
        return [item for item in items if item is not UNSET]

    def _scalar(self, value: Any, kind: Any, path: tuple[Key, ...], whole: Any) -> Any:
        # Described only for the wrong value: hundreds of thousands before it may be right.
        match kind:
            case inspect.LiteralType():
                if value not in kind.values:
                    hint = nearest(value, [str(word) for word in kind.values], "") if isinstance(value, str) else ""
                    return self._fail(path, lambda: (f"expected {_describe(whole)}, got {shown(value)}", hint))
            case inspect.IntType() | inspect.FloatType():
                above = kind.le is not None and value > kind.le
                if not _is_within(kind, value):
                    said = f"expected {_describe(whole, kind if above else None)}, got {shown(value)}"
                    return self._fail(path, lambda: (said, ""), limit=above)
            case inspect.StrType():
                if kind.min_length is not None and len(value) < kind.min_length:
                    return self._fail(path, lambda: ("expected text, got an empty one", ""))
                if kind.max_length is not None and len(value) > kind.max_length:
                    said = f"expected at most {kind.max_length} characters, got {len(value)}"
                    return self._fail(path, lambda: (said, ""), limit=True)
        return value

    def _keyed(self, value: Mapping[Any, Any], path: tuple[Key, ...]) -> list[tuple[str, Any]]:
        for key in value:
            if not isinstance(key, str):
                self._fail(path, lambda key=key: (f"the key {shown(key)} is not text", ""))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        return [(key, item) for key, item in value.items() if isinstance(key, str)]

    def _struct(self, value: Mapping[str, Any], kind: Any, path: tuple[Key, ...]) -> Any:
        fields = {field.encode_name: field for field in kind.fields}
        worded: Mapping[str, str] = getattr(kind.cls, "worded", {})
        made: dict[str, Any] = {}
        for key, item in self._keyed(value, path):
            if key in fields:
                words = worded.get(key)
                inside = self.check(item, fields[key].type, (*path, key), None if words is None else _Worded(words))
                if inside is not UNSET:
                    made[fields[key].name] = inside
            elif kind.forbid_unknown_fields:
                self._fail((*path, key), lambda key=key: (f"unknown key {shown(key)}", self._meant(key, kind)), key=True)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        unknown = [key for key in value if isinstance(key, str) and key not in fields and kind.forbid_unknown_fields]
        missing = [name for name, field in fields.items() if field.required and name not in value]
        # A misspelt key is one mistake, not two.
        missing = [name for name in missing if not any(repr(name) in self._meant(key, kind) for key in unknown)]
        if missing:
            self._fail(path, lambda: (_missing(missing), ""))
        if not path and len(missing) > 1 and len(unknown) > 1:
            hint = f"it has {', '.join(unknown[:4])}: is this another kind of file?"
            self.found, self.wrong = [_Found((), _missing(missing), hint)], [()]
        made.update({field.name: UNSET for field in kind.fields if field.required and field.name not in made})
        return kind.cls(**made)

    @staticmethod
    def _meant(key: str, kind: Any) -> str:
        word, _, value = re.sub(r"[:\s]+", ":", key).partition(":")
        names = [field.encode_name for field in kind.fields]
        if value and word in names:
            return f"write '{word}: {value:.40}', with a ':' and a blank"
        meant = getattr(kind.cls, "also_called", {}).get(key.lower())
        return did_you_mean([repr(meant)]) if meant else nearest(key, names)


def json_schema(kind: Any, *, title: str = "") -> dict[str, Any]:
    """The JSON Schema of documents of a type."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **({"title": title} if title else {}),
        **msgspec.json.schema(kind),
    }

"""Decode large JSON documents directly into typed ones, without plain Python values in between.

msgspec decodes a typed document four times as fast as a parser followed by a converter, and in half the memory. But its messages
say little. So if anything is wrong, the text is read again, slowly, by a parser that knows places. Of a key that a mapping has
twice, the last one counts.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Final, NoReturn, TypeVar, Union, cast, get_args, get_origin

import msgspec
import orjson
from msgspec import inspect, structs

from fluxres import limits
from fluxres.documents import typed, yaml_document
from fluxres.documents.document import Document, Key, path_text
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded

T = TypeVar("T")
Buffer = bytes | msgspec.Raw

_INVALID: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_PLACED_MAX: Final = 1 << 24
"""Maximal size of a text in which lines and columns are looked up: walking it token by token takes a second for every four
megabytes.
"""


def decode(source: Source, kind: type[T], *, part: Buffer | None = None, whole: type[Any] | None = None) -> T:
    """A JSON text as a typed document.

    Args:
        kind: type to decode.
        part: the part of the text to decode; all of it by default.
        whole: type of the whole text, used to explain an invalid part.

    Errors: InputError with file, line, column and path for text that is not JSON or not of this type; LimitExceeded. Cost: about
    3 ns per byte; an invalid text is read a second time.
    """
    try:
        return cast(T, _decoded(source, part, kind))
    except _INVALID as error:
        _explain(source, whole or kind, str(error))


def decode_leniently(
    source: Source, kind: type[T], *, part: Buffer | None = None, whole: type[Any] | None = None
) -> tuple[T, bool]:
    """As :func:`decode`, and whether the text has keys that its type does not; :func:`unknown_keys` names them."""
    try:
        return cast(T, _decoded(source, part, _strict(cast(Any, kind)))), False
    except _INVALID:
        return decode(source, kind, part=part, whole=whole), True


def _decoded(source: Source, part: Buffer | None, kind: Any) -> Any:
    if len(source.data) > limits.DOCUMENT_BYTES_MAX:
        raise LimitExceeded(f"{len(source.data)} bytes, at most {limits.DOCUMENT_BYTES_MAX} are allowed", where=source.file)
    with collector_paused():
        return _decoder(kind).decode(part if part is not None else source.data.removeprefix(b"\xef\xbb\xbf"))


@lru_cache(maxsize=64)
def _strict(kind: Any) -> Any:
    """A type whose structs, at every level, refuse unknown keys."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = [(f.name, _strict(f.type)) if f.required else (f.name, _strict(f.type), f.default) for f in structs.fields(kind)]
        return msgspec.defstruct(kind.__name__, fields, bases=(kind,), forbid_unknown_fields=True)
    if get_origin(kind) is Annotated:
        return Annotated[_strict(get_args(kind)[0]), *kind.__metadata__]
    if get_origin(kind) is UnionType or get_origin(kind) is Union:
        return reduce(or_, map(_strict, get_args(kind)))
    if get_origin(kind) in (list, dict):
        return get_origin(kind)[tuple(map(_strict, get_args(kind)))]
    return kind


def unknown_keys(source: Source, kind: Any) -> list[str]:
    """The keys of a JSON text that its type does not have, as paths without list indexes, each once.

    Args:
        kind: type of the whole text, whose structs ignore unknown keys.

    Cost: the text is read a second time, value by value.
    """
    found: dict[str, None] = {}
    _find_unknown(plain(source).values, inspect.type_info(kind), "", found)
    return list(found)


def _find_unknown(value: object, kind: Any, path: str, found: dict[str, None]) -> None:
    match kind:
        case inspect.Metadata():
            _find_unknown(value, kind.type, path, found)
        case inspect.UnionType():
            for each in kind.types:
                _find_unknown(value, each, path, found)
        case inspect.StructType() if isinstance(value, dict):
            fields = {field.encode_name: field.type for field in kind.fields}
            for key, inner in value.items():
                place = f"{path}.{key}" if path else str(key)
                if key in fields:
                    _find_unknown(inner, fields[key], place, found)
                else:
                    found[place] = None
        case inspect.DictType() if isinstance(value, dict):
            for inner in value.values():
                _find_unknown(inner, kind.value_type, path, found)
        case inspect.ListType() if isinstance(value, list):
            for inner in value:
                _find_unknown(inner, kind.item_type, path, found)
        case _:
            pass


@lru_cache(maxsize=16)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause garbage collection while millions of long-lived objects are made, which it would scan again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _explain(source: Source, kind: type[Any], said: str) -> NoReturn:
    """Raise an error that explains why a text is invalid."""
    typed.convert(plain(source), kind)
    raise InputError(said, where=source.file)


def plain(source: Source) -> Document:
    """The values of a text that must be JSON.

    Errors: InputError with line and column; LimitExceeded.
    """
    text = source.text
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg}", where=source.where(error.lineno, error.colno)) from None
    yaml_document.require_bounded(source.data, values, source.file)
    return Document(values, source.file, text, source.path, is_json=True)


def where(source: Source, path: Sequence[Key], *, key: bool = False) -> str:
    """``file:line:column: path`` of a value; without line and column in long texts, where the search would take minutes."""
    if len(source.data) > _PLACED_MAX:
        return f"{source.file}: {path_text(path)}"
    return source.json_places.where(path, key=key)

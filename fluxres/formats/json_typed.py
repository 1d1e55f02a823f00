"""Large JSON documents straight into typed ones, without a value of plain Python between.

msgspec reads a typed document four times faster than a parser and a converter do one after the other, and in half the
memory.  It says little of what is wrong and keeps the last of two equal keys.  So the keys written in the text are counted
against those that came out, and when something is wrong at all the text is read again, slowly, by what knows places.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeVar, cast

import msgspec
import orjson

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats import json_places, typed
from fluxres.formats.source import Source
from fluxres.formats.yaml_document import Document, Key, path_text

T = TypeVar("T")
Buffer = bytes | msgspec.Raw

_BLANKS: Final = b" \t\r\n"
_CHUNK: Final = 1 << 24
_PLACED_MAX: Final = 1 << 24
"""Bytes of a text in which lines and columns are looked for: a walk token by token takes a second for each four megabytes."""


def decode(source: Source, kind: type[T], *, part: Buffer | None = None, whole: type[Any] | None = None) -> T:
    """A JSON text as a typed document; whether a key stands in it twice is asked with :func:`require_unique_keys`.

    Args:
        kind: type of what is decoded.
        part: of the text, when it is not all of it that is of this type.
        whole: type of the whole text, by which a part that was refused is explained.

    Errors: InputError with file, line, column and path for what is no JSON or not of this type; LimitExceeded.
    Cost: about 3 ns a byte; the text is read a second time when it is wrong.
    """
    data: Buffer = part if part is not None else source.data.removeprefix(b"\xef\xbb\xbf")
    if len(source.data) > limits.DOCUMENT_BYTES_MAX:
        raise LimitExceeded(f"{len(source.data)} bytes, at most {limits.DOCUMENT_BYTES_MAX} are read", where=source.file)
    try:
        with collector_paused():
            return cast(T, _decoder(cast(Any, kind)).decode(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _explain(source, whole or kind, str(error))


def require_unique_keys(source: Source, count: int) -> None:
    """Refuse a JSON text with a key that its mapping has already.

    Args:
        count: how many keys came out, in all mappings; see :func:`keys_in`.

    Errors: InputError with the place of the second one.
    Cost: about 1 ns a byte where no text in it has a quote or a backslash.
    """
    if count != _keys_written(source.data):
        line, column, path = json_places.first_duplicate(source.text)
        raise InputError("the key stands here twice", where=f"{source.where(line, column)}: {path_text(path)}", hint="remove one")


@lru_cache(maxsize=16)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection while millions of objects are made that all stay: it would look at each of them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _explain(source: Source, kind: type[Any], said: str) -> NoReturn:
    """Raise what is wrong with a text that was refused."""
    typed.convert(plain(source), kind)
    raise InputError(said, where=source.file)


def plain(source: Source) -> Document:
    """The values of a JSON text, which it must be.

    Errors: InputError with line and column; LimitExceeded.
    """
    text = source.text
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg}", where=source.where(error.lineno, error.colno)) from None
    count, _ = json_places.measure(values, source.file)
    if count > limits.DOCUMENT_VALUES_MAX:
        raise LimitExceeded(f"{count} values, at most {limits.DOCUMENT_VALUES_MAX} are read", where=source.file)
    return Document(values, source.file, text, source.path, is_json=True)


def where(source: Source, path: Sequence[Key], *, key: bool = False) -> str:
    """``file:line:column: path`` of a value; of long texts, in which looking would take minutes, without line and column."""
    if len(source.data) > _PLACED_MAX:
        return f"{source.file}: {path_text(path)}"
    line, column = json_places.position(source.text, list(path), key=key)
    return f"{source.where(line, column)}: {path_text(path)}" if path else source.where(line, column)


def keys_in(value: object, file: str = "") -> int:
    """How many keys stand in all mappings of a plain value; none in UNSET.

    Errors: LimitExceeded naming the file past DOCUMENT_DEPTH_MAX levels.

    >>> keys_in({"a": [1, {"b": 2}]}), keys_in(msgspec.UNSET)
    (2, 0)
    """
    return json_places.measure(value, file)[1] if isinstance(value, dict | list) else 0


def _keys_written(data: bytes) -> int:
    """How often a key is written in a valid JSON text."""
    if b'\\"' in data or b"\\\\" in data:
        return json_places.written_keys(data.decode())
    # A quote begins a text or ends it, and a colon behind the end makes it a key. A text that starts with a colon looks like a
    # key too, so where there is one the text is counted token by token.
    found, last = 0, b""
    for at in range(0, len(data), _CHUNK):
        part = last + data[at : at + _CHUNK].translate(None, _BLANKS)
        if any(begin in part for begin in (b',":', b'{":', b'[":', b':":')):
            return json_places.written_keys(data.decode())
        found += part.count(b'":') - last.count(b'":')
        last = part[-2:]
    return found

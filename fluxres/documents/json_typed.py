"""Decode large JSON documents directly into typed ones, without plain Python values in between.

msgspec decodes a typed document four times as fast as a parser followed by a converter, and in half the memory. But its messages
say little, and it keeps the last of two equal keys. So the number of keys in the text is compared with the number decoded, and if
anything is wrong, the text is read again, slowly, by a parser that knows places.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeVar, cast

import msgspec
import orjson
from msgspec import inspect

from fluxres import limits
from fluxres.documents import json_places, typed
from fluxres.documents.document import Document, Key, path_text
from fluxres.documents.source import Source
from fluxres.errors import FluxresError, InputError, LimitExceeded

T = TypeVar("T")
Buffer = bytes | msgspec.Raw

_PLACED_MAX: Final = 1 << 24
"""Maximal size of a text in which lines and columns are looked up: walking it token by token takes a second for every four
megabytes.
"""


def decode(source: Source, kind: type[T], *, part: Buffer | None = None, whole: type[Any] | None = None) -> T:
    """A JSON text as a typed document; :func:`require_unique_keys` checks for duplicate keys separately.

    Args:
        kind: type to decode.
        part: the part of the text to decode; all of it by default.
        whole: type of the whole text, used to explain an invalid part.

    Errors: InputError with file, line, column and path for text that is not JSON or not of this type; LimitExceeded. Cost: about
    3 ns per byte; an invalid text is read a second time.
    """
    data: Buffer = part if part is not None else source.data.removeprefix(b"\xef\xbb\xbf")
    if len(source.data) > limits.DOCUMENT_BYTES_MAX:
        raise LimitExceeded(f"{len(source.data)} bytes, at most {limits.DOCUMENT_BYTES_MAX} are allowed", where=source.file)
    try:
        with collector_paused():
            return cast(T, _decoder(cast(Any, kind)).decode(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _explain(source, whole or kind, str(error))


def parts(raw: Buffer) -> dict[str, msgspec.Raw]:
    """A JSON mapping whose values are left undecoded, so that each can be decoded when needed, or never.

    Errors: those of msgspec if it is not a mapping.

    >>> {key: bytes(part) for key, part in parts(b'{"a": [1, 2]}').items()}
    {'a': b'[1, 2]'}
    """
    return cast(dict[str, msgspec.Raw], _decoder(dict[str, msgspec.Raw]).decode(raw))


class Places:
    """Places in a JSON text, which is searched when one is needed."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def where(self, path: Iterable[Key], *, key: bool = False) -> str:
        """As :meth:`Document.where`."""
        return where(self._source, list(path), key=key)


class Alike:
    """Decodes equal parts of a JSON text once, however often they occur, and counts all decoded keys.

    A file of ten thousand nodes says the same about nearly all of them. A reader in parts adds up the keys it decoded, and
    :meth:`is_whole` compares this with the keys in the text. If they differ, a key is duplicated or unknown, and a slower reader
    reports it.
    """

    def __init__(self, source: Source) -> None:
        self.data = source.data.removeprefix(b"\xef\xbb\xbf")
        self._file = source.file
        self._known: dict[tuple[Any, bytes], tuple[Any, int]] = {}
        self._keys = 0

    def parts(self, raw: Buffer) -> dict[str, msgspec.Raw]:
        """A mapping with undecoded values."""
        found = parts(raw)
        self._keys += len(found)
        return found

    def list(self, raw: Buffer) -> list[dict[str, msgspec.Raw]]:
        """A list of mappings with undecoded values."""
        found = cast(list[dict[str, msgspec.Raw]], _decoder(list[dict[str, msgspec.Raw]]).decode(raw))
        self._keys += sum(map(len, found))
        return found

    def value(self, raw: msgspec.Raw, kind: Any) -> Any:
        """The decoded value, of type `kind`; equal texts give the same object.

        Errors: those of msgspec and orjson, and LimitExceeded.
        """
        key = kind, bytes(raw)
        if key not in self._known:
            values = orjson.loads(key[1])
            self._known[key] = msgspec.convert(values, kind), json_places.measure(values, self._file)[1]
        found, keys = self._known[key]
        self._keys += keys
        return found

    def pass_over(self, raws: Iterable[msgspec.Raw]) -> None:
        """Count the keys of values that are otherwise ignored."""
        for raw in raws:
            if bytes(memoryview(raw)[:1]) in (b"{", b"["):
                self.value(raw, Any)

    def long(self, raw: msgspec.Raw, kind: Any) -> Any:
        """The decoded value, of type `kind`, whose missing keys are UNSET: for a value that occurs once, in a third of the
        memory.
        """
        found = _decoder(kind).decode(raw)
        self._keys += json_places.keys_of(found)
        return found

    def is_whole(self) -> bool:
        """Whether every key of the text was decoded."""
        return self._keys == json_places.written_keys(self.data)


#: exceptions raised for a text that cannot be read in parts
UNLIKE: Final = (msgspec.MsgspecError, RecursionError, LookupError, ValueError, FluxresError)


def require_unique_keys(source: Source, count: int) -> None:
    """Refuse a JSON text with a duplicate key in a mapping.

    Args:
        count: number of decoded keys in all mappings; see :func:`keys_in`.

    Errors: InputError with the place of the second one. Cost: about 1 ns per byte if no string in it has a quote or a backslash.
    """
    if count != json_places.written_keys(source.data):
        line, column, path = json_places.first_duplicate(source.text)
        raise InputError("duplicate key", where=f"{source.where(line, column)}: {path_text(path)}", hint="remove one")


def passed_over(source: Source, count: int, kind: Any) -> list[str]:
    """The keys of a JSON text that its type does not have, as paths without list indexes, each once.

    Args:
        count: number of decoded keys in all mappings that the type describes; see :func:`keys_in`.
        kind: type of the whole text, whose structs ignore unknown keys.

    Errors: InputError with the place of a duplicate key. Cost: that of :func:`require_unique_keys`; with unknown keys, the text
    is read a second time, value by value.
    """
    written = json_places.written_keys(source.data)
    if count == written:
        return []
    values = plain(source).values
    if json_places.measure(values, source.file)[1] != written:
        require_unique_keys(source, -1)
    found: dict[str, None] = {}
    _find_unknown(values, inspect.type_info(kind), "", found)
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
    json_places.require_bounded(source.data, values, source.file)
    return Document(values, source.file, text, source.path, is_json=True)


def where(source: Source, path: Sequence[Key], *, key: bool = False) -> str:
    """``file:line:column: path`` of a value; without line and column in long texts, where the search would take minutes."""
    if len(source.data) > _PLACED_MAX:
        return f"{source.file}: {path_text(path)}"
    line, column = json_places.position(source.text, list(path), key=key)
    return f"{source.where(line, column)}: {path_text(path)}" if path else source.where(line, column)


def keys_in(value: object, file: str = "") -> int:
    """The number of keys in all mappings of a plain value; 0 for UNSET.

    Errors: LimitExceeded naming the file past DOCUMENT_DEPTH_MAX levels.

    >>> keys_in({"a": [1, {"b": 2}]}), keys_in(msgspec.UNSET)
    (2, 0)
    """
    return json_places.measure(value, file)[1] if isinstance(value, dict | list) else 0

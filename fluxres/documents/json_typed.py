"""Large JSON documents straight into typed ones, without a value of plain Python between.

msgspec reads a typed document four times faster than a parser and a converter do one after the other, and in half the
memory.  It says little of what is wrong and keeps the last of two equal keys.  So the keys written in the text are counted
against those that came out, and when something is wrong at all the text is read again, slowly, by what knows places.
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


def parts(raw: Buffer) -> dict[str, msgspec.Raw]:
    """A JSON mapping with its values as they are written, each to be read when its turn comes, or never.

    Errors: those of msgspec for what is no mapping.

    >>> {key: bytes(part) for key, part in parts(b'{"a": [1, 2]}').items()}
    {'a': b'[1, 2]'}
    """
    return cast(dict[str, msgspec.Raw], _decoder(dict[str, msgspec.Raw]).decode(raw))


class Places:
    """Places in a JSON text, which is looked through when one is asked for."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def where(self, path: Iterable[Key], *, key: bool = False) -> str:
        """As :meth:`Document.where`."""
        return where(self._source, list(path), key=key)


class Alike:
    """Parts of a JSON text that are read once, however often they stand in it, and the keys of all that was read.

    A file of ten thousand nodes says the same of nearly all of them. A reader in parts adds up the keys it met, and
    :meth:`is_whole` tells whether it met each that is written: one that stands twice is told by a slower reader.
    """

    def __init__(self, source: Source) -> None:
        self.data = source.data.removeprefix(b"\xef\xbb\xbf")
        self._file = source.file
        self._known: dict[tuple[Any, bytes], tuple[Any, int]] = {}
        self._keys = 0

    def parts(self, raw: Buffer) -> dict[str, msgspec.Raw]:
        """A mapping in parts."""
        found = parts(raw)
        self._keys += len(found)
        return found

    def list(self, raw: Buffer) -> list[dict[str, msgspec.Raw]]:
        """A list of mappings in parts."""
        found = cast(list[dict[str, msgspec.Raw]], _decoder(list[dict[str, msgspec.Raw]]).decode(raw))
        self._keys += sum(map(len, found))
        return found

    def value(self, raw: msgspec.Raw, kind: Any) -> Any:
        """What is written here, as `kind`; the same object where the same is written.

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
        """Values of which nothing is wanted but that their keys differ."""
        for raw in raws:
            if bytes(memoryview(raw)[:1]) in (b"{", b"["):
                self.value(raw, Any)

    def long(self, raw: msgspec.Raw, kind: Any) -> Any:
        """What is written here, as `kind`, whose absent keys are UNSET: for what stands there once, in a third of the memory."""
        found = _decoder(kind).decode(raw)
        self._keys += json_places.keys_of(found)
        return found

    def is_whole(self) -> bool:
        """Whether every key of the text was met."""
        return self._keys == json_places.written_keys(self.data)


#: what is raised by what cannot be read in parts
UNLIKE: Final = (msgspec.MsgspecError, RecursionError, LookupError, ValueError, FluxresError)


def require_unique_keys(source: Source, count: int) -> None:
    """Refuse a JSON text with a key that its mapping has already.

    Args:
        count: how many keys came out, in all mappings; see :func:`keys_in`.

    Errors: InputError with the place of the second one.
    Cost: about 1 ns a byte where no text in it has a quote or a backslash.
    """
    if count != json_places.written_keys(source.data):
        line, column, path = json_places.first_duplicate(source.text)
        raise InputError("the key stands here twice", where=f"{source.where(line, column)}: {path_text(path)}", hint="remove one")


def passed_over(source: Source, count: int, kind: Any) -> list[str]:
    """The keys of a JSON text that its type does not know, as paths without the numbers in lists, each once.

    Args:
        count: how many keys came out, in all mappings that the type knows; see :func:`keys_in`.
        kind: type of the whole text, whose structs pass unknown keys over.

    Errors: InputError with the place of a key that its mapping has already.
    Cost: that of :func:`require_unique_keys`; where there are unknown keys, the text is read a second time, value by value.
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
    json_places.require_bounded(source.data, values, source.file)
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

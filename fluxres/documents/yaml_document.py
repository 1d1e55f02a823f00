"""YAML and JSON text → plain values, with the place of each value, at a bounded cost; and plain values → readable YAML.

PyYAML's own constructors are not used. They resolve YAML 1.1 (``no`` is false, ``12:30`` is 750), keep the last of two equal
keys, follow aliases without counting, and recurse at every level. Its event parser, in C where available, is sound; the composer
on top of it is one loop with an explicit stack.

Its emitter cannot write entries as blocks with small values on one line, and takes seconds where `block` takes a tenth of one.
Quoting follows the rules by which values are read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NoReturn

import orjson
import yaml

from fluxres import limits
from fluxres.documents import places, source_text
from fluxres.documents.document import Document, Key, path_text
from fluxres.documents.mistakes import Mistakes
from fluxres.errors import InputError, LimitExceeded, TextPlace

_FLATTER: Final = f"a machine has at most {limits.DEPTH_MAX} levels"

#: a sign and the digits of a number below NUMBER_MAX
_DIGITS_MAX = len(str(-limits.NUMBER_MAX)) - 1
_INT = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
WORDS: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
#: all bytes but quotes and brackets, and a table that maps all brackets to square ones
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'"[]{}'))
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")


def looks_like_a_number(text: str) -> bool:
    """Whether the YAML 1.2 core schema reads this plain text as a number.

    >>> looks_like_a_number("1e3"), looks_like_a_number("0-3"), looks_like_a_number("1_000")
    (True, False, False)
    """
    return bool(_INT.match(text) or _BASED.match(text) or _FLOAT.match(text))


def load(source: str | Path | bytes, *, file: str | None = None) -> Document:
    """Read one YAML or JSON document.

    Args:
        source: bytes are the text itself; a Path is a file; a str is a path, ``-`` for standard input, or the text if it
            contains a line break.
        file: name for messages instead of the path.

    Errors: InputError ``FILE:line:col: path: …`` if it cannot be read, LimitExceeded if it is too large.

    >>> load(b"{count: 0x10, on: yes}").values
    {'count': 16, 'on': 'yes'}
    """
    data, name, path = source_text.opened(source, file)
    return parse(data, file=name, path=path)


def parse(data: bytes, *, file: str = "<text>", path: Path | None = None, mistakes: Mistakes | None = None) -> Document:
    """The document in these bytes; see :func:`load`.

    YAML in which a mapping has a key twice is refused; in JSON the last one counts.

    Args:
        mistakes: what is wrong in a document that can be read nevertheless is added here, and not raised.
    """
    if len(data) > limits.DOCUMENT_BYTES_MAX:
        raise LimitExceeded(f"{len(data)} bytes, at most {limits.DOCUMENT_BYTES_MAX} are allowed", where=file)
    text = source_text.decode(data, file)
    if text.lstrip()[:1] in ("{", "["):
        values = _parse_json(text, data.removeprefix(b"\xef\xbb\xbf"), file)
        if values is not None:
            return Document(values, file, text, path, is_json=True)
    if len(data) > limits.YAML_BYTES_MAX:
        raise LimitExceeded(
            f"{len(data)} bytes of YAML, at most {limits.YAML_BYTES_MAX} are allowed",
            where=file,
            hint="use JSON for large documents",
        )
    composer = _Composer(file, text)
    values = composer.compose()
    if mistakes is None:
        composer.mistakes.require_none()
    else:
        mistakes.take(composer.mistakes)
    return Document(values, file, text, path)


def parse_text(text: str) -> Document:
    """As :func:`parse`, for a text in memory."""
    if source_text.is_plain(text) and (values := _parse_json(text, text.encode(), "<text>")) is not None:
        return Document(values, "<text>", text, is_json=True)
    return parse(text.encode("utf-8", "surrogatepass"))


def _parse_json(text: str, data: bytes, file: str) -> object | None:
    """The values of a JSON text, or None if it is not JSON; it may still be YAML's flow style."""
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if len(text) > limits.YAML_BYTES_MAX:
            raise InputError(f"is not JSON: {error.msg}", where=f"{file}:{error.lineno}:{error.colno}") from None
        return None
    require_bounded(data, values, file)
    return values  # type: ignore[no-any-return]  # any JSON value: the caller checks it


def count(values: object, file: str) -> int:
    """The number of values.

    Errors: LimitExceeded past DOCUMENT_DEPTH_MAX levels.

    >>> count({"a": [1, {"b": 2}]}, "x.json")
    5
    """
    found, depth = 1, 0
    level: list[object] = [values] if isinstance(values, dict | list) else []
    while level:
        depth += 1
        if depth > limits.DOCUMENT_DEPTH_MAX:
            raise LimitExceeded(f"more than {limits.DOCUMENT_DEPTH_MAX} levels", where=file)
        below: list[object] = []
        for container in level:
            assert isinstance(container, dict | list)
            found += len(container)
            inner = container.values() if isinstance(container, dict) else container
            below.extend(value for value in inner if isinstance(value, dict | list))
        level = below
    return found


def require_bounded(data: bytes, values: object, file: str) -> None:
    """Refuse a valid JSON text of more values or levels than a document may have.

    Args:
        values: the values read from it.

    Errors: LimitExceeded past DOCUMENT_DEPTH_MAX levels or DOCUMENT_VALUES_MAX values.
    Cost: about 3 ns per byte if no string in it has a quote or a bracket.

    >>> require_bounded(b'{"a": [1]}', {"a": [1]}, "x.json")
    """
    opened = data.count(b"[") + data.count(b"{")
    is_deep = opened > limits.DOCUMENT_DEPTH_MAX and not _is_shallow(data)
    if is_deep or data.count(b",") + opened + 1 > limits.DOCUMENT_VALUES_MAX:
        found = count(values, file)
        if found > limits.DOCUMENT_VALUES_MAX:
            raise LimitExceeded(f"{found} values, at most {limits.DOCUMENT_VALUES_MAX} are allowed", where=file)


def _is_shallow(data: bytes) -> bool:
    """Whether a valid JSON text certainly has few enough levels; walking its values takes twenty times as long."""
    if b'\\"' in data:
        return False
    left = data.translate(_SQUARE, _NO_BRACKETS).replace(b'""', b"")
    if b'"' in left:  # brackets within a string keep its quotes apart
        return False
    for _ in range(limits.DOCUMENT_DEPTH_MAX):
        if not left:
            return True
        left = left.replace(b"[]", b"")
    return not left


@dataclass(slots=True)
class _Open:
    """An open mapping or list."""

    value: Any
    is_map: bool
    line: int
    column: int
    anchor: str | None
    before: int
    key: str | None = None
    height: int = 1
    merged: list[Any] | None = None
    merging: bool = False


class _Composer:
    """One pass over the events of a text."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.mistakes = Mistakes()
        self.stack: list[_Open] = []
        self.root: Any = None
        self.count = 0
        self.aliased = 0
        #: anchor -> (value, values in it, levels in it); None while its value is being read
        self.anchors: dict[str, tuple[Any, int, int] | None] = {}

    def compose(self) -> object:
        """The values. Keys that occur twice are in `mistakes`. Errors: what is wrong besides, with these."""
        try:
            self._compose()
        except LimitExceeded:
            raise
        except InputError as error:
            self.mistakes.add(error)
            raise self.mistakes.error() from None
        return self.root

    def _compose(self) -> None:
        documents = 0
        event: Any
        for event in self._events():
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._start(event)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._finish()
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    self._fail(
                        "a second document begins here", event, hint="a file must have a single document; remove the '---'"
                    )
        if documents == 0:
            raise InputError("is empty", where=f"{self.file}:1:1", hint="a document must have at least one key")

    def _events(self) -> Iterator[Any]:
        try:
            yield from places.events(self.text)
        except yaml.MarkedYAMLError as error:
            raise self._explained(error) from None
        except yaml.YAMLError as error:
            offset = getattr(error, "position", None)
            where = source_text.place(self.file, self.text, offset) if isinstance(offset, int) else self.file
            raise InputError(str(getattr(error, "reason", error)).splitlines()[0], where=where) from None
        except UnicodeEncodeError as error:
            where = source_text.place(self.file, self.text, error.start)
            raise InputError("contains half a surrogate pair", where=where, hint="remove it") from None

    def _explained(self, error: yaml.MarkedYAMLError) -> InputError:
        from fluxres.documents import yaml_errors

        mark = error.problem_mark
        if mark is not None and "nesting depth" in (error.problem or ""):  # LibYAML's own bound
            where = self._where(mark.line, mark.column, [])
            return LimitExceeded(f"more than {limits.DOCUMENT_DEPTH_MAX} levels", where=where, hint=_FLATTER)
        starts = [*self._line_starts, None]
        lines = [self.text[start:end].rstrip("\r\n\x85\u2028\u2029") for start, end in pairwise(starts)]
        found = yaml_errors.explained(error, lines, self._quoted_over_lines(), self._bracket(lines))
        is_there = mark is not None and (mark.line, mark.column) == (found.line, found.column)
        where = self._where(found.line, found.column, self._path() if is_there else [])
        return InputError(found.message, where=where, hint=found.hint)

    def _bracket(self, lines: list[str]) -> tuple[int, int] | None:
        """Where the innermost list or mapping begins that is open, if it is one in brackets."""
        top = self.stack[-1] if self.stack else None
        return (top.line, top.column) if top and lines[top.line][top.column : top.column + 1] in ("[", "{") else None

    def _quoted_over_lines(self) -> Any:
        """The last value in quotes before the error that goes over several lines; None if there is none."""
        last: Any = None
        with suppress(yaml.YAMLError):
            event: Any
            for event in places.events(self.text):
                is_quoted = isinstance(event, yaml.ScalarEvent) and event.style in ("'", '"')
                if is_quoted and event.start_mark.line < event.end_mark.line:
                    last = event
        return last

    @cached_property
    def _line_starts(self) -> list[int]:
        return source_text.line_starts(self.text)

    def _where(self, line: int, column: int, path: list[Key]) -> TextPlace:
        """The place of line and column, from 0, and the path that is there."""
        name = f"{self.file}:{line + 1}:{column + 1}"
        name = f"{name}: {path_text(path)}" if path else name
        return source_text.text_place(name, self.text, line + 1, column + 1, self._line_starts)

    def _path(self, *more: Key) -> list[Key]:
        path: list[Key] = []
        for frame in self.stack:
            if not frame.is_map:
                path.append(len(frame.value))
            elif frame.key is not None:
                path.append(frame.key)
        return [*path, *more]

    def _fail(self, message: str, event: Any, *, hint: str = "", limit: bool = False, path: list[Key] | None = None) -> NoReturn:
        where = self._where(event.start_mark.line, event.start_mark.column, self._path() if path is None else path)
        raise (LimitExceeded if limit else InputError)(message, where=where, hint=hint)

    def _more(self, event: Any, values: int = 1) -> None:
        self.count += values
        if self.count > limits.DOCUMENT_VALUES_MAX:
            hint = "use 'count' or 'use' for repetition, which cost nothing"
            self._fail(f"more than {limits.DOCUMENT_VALUES_MAX} values", event, limit=True, hint=hint)

    def _scalar(self, event: Any) -> None:
        self._more(event)
        frame = self.stack[-1] if self.stack else None
        if frame is not None and frame.is_map and frame.key is None:
            self._key(event, frame)
            return
        value = self._value(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, 1, 0)
        self._put(value, event.start_mark.line, event.start_mark.column, event)

    def _key(self, event: Any, frame: _Open) -> None:
        key = self._value(event)
        if not isinstance(key, str):
            self._fail(f"the key {event.value or 'null'} is not text", event, hint="put it in quotes")
        if event.anchor is not None:
            self.anchors[event.anchor] = (key, 1, 0)
        frame.merging = key == "<<" and event.implicit[0]
        if not frame.merging and key in frame.value:
            self._duplicate(key, event)
        frame.key = key

    def _duplicate(self, key: str, event: Any) -> None:
        if len(self.mistakes) >= limits.MISTAKES_MAX:
            self.mistakes.unlisted += 1
            return
        with self.mistakes:
            self._fail("duplicate key", event, hint="remove one", path=self._path(key))

    def _value(self, event: Any) -> str | int | float | bool | None:
        text: str = event.value
        if event.tag is not None:
            self._fail(f"tags such as {event.tag} are not supported", event, hint="write the value without it")
        if not event.implicit[0]:
            return text
        if text in WORDS:
            return WORDS[text]
        if text[0] in "-+.0123456789":
            if _INT.match(text) or _BASED.match(text):
                if len(text) > _DIGITS_MAX:
                    self._fail(f"a number of {len(text)} digits", event, limit=True)
                return int(text, 0 if _BASED.match(text) else 10)
            if _FLOAT.match(text):
                return float(text)
        return text

    def _start(self, event: Any) -> None:
        self._more(event)
        is_map = isinstance(event, yaml.MappingStartEvent)
        if event.tag is not None:
            self._fail(f"tags such as {event.tag} are not supported", event, hint="write the value without it")
        if self.stack and self.stack[-1].is_map and self.stack[-1].key is None:
            self._fail(f"a {'mapping' if is_map else 'list'} cannot be a key", event, hint="keys must be text")
        if len(self.stack) >= limits.DOCUMENT_DEPTH_MAX:
            self._fail(f"more than {limits.DOCUMENT_DEPTH_MAX} levels", event, limit=True, hint=_FLATTER)
        value: Any = {} if is_map else []
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        mark = event.start_mark
        self.stack.append(_Open(value, is_map, mark.line, mark.column, event.anchor, self.count - 1))

    def _finish(self) -> None:
        frame = self.stack.pop()
        for source in frame.merged or ():
            for key, value in source.items():
                if key not in frame.value:
                    frame.value[key] = value
        if frame.anchor is not None:
            self.anchors[frame.anchor] = (frame.value, self.count - frame.before, frame.height)
        self._put(frame.value, frame.line, frame.column, None, height=frame.height)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            self._fail(f"no anchor '&{event.anchor}' above", event, hint="put a value in quotes that begins with '*'")
        target = self.anchors[event.anchor]
        if target is None:
            self._fail(f"'*{event.anchor}' is inside its own anchor", event, hint="a value cannot contain itself")
        value, count, height = target
        if self.stack and self.stack[-1].is_map and self.stack[-1].key is None:
            self._fail(f"the alias '*{event.anchor}' cannot be a key", event, hint="write the key")
        self.aliased += count
        if self.aliased > limits.ALIASED_VALUES_MAX:
            hint = "use 'count' or 'use' for repetition, which cost nothing"
            self._fail(f"aliases expand to more than {limits.ALIASED_VALUES_MAX} values", event, limit=True, hint=hint)
        if len(self.stack) + height > limits.DOCUMENT_DEPTH_MAX:
            self._fail(f"more than {limits.DOCUMENT_DEPTH_MAX} levels", event, limit=True, hint=_FLATTER)
        self._more(event, count)
        self._put(value, event.start_mark.line, event.start_mark.column, event, height=height)

    def _put(self, value: Any, line: int, column: int, event: Any, *, height: int = 0) -> None:
        """Put a finished value where it belongs."""
        if not self.stack:
            self.root = value
            return
        frame = self.stack[-1]
        frame.height = max(frame.height, height + 1)
        if not frame.is_map:
            frame.value.append(value)
            return
        assert frame.key is not None
        if frame.merging:
            sources = value if isinstance(value, list) else [value]
            if not all(isinstance(source, dict) for source in sources):
                where = self._where(line, column, self._path())
                raise InputError(
                    "'<<' merges a mapping or a list of mappings", where=where, hint="put the key in quotes if it is one"
                )
            frame.merged = [*(frame.merged or ()), *sources]
        else:
            frame.value[frame.key] = value
        frame.key, frame.merging = None, False


_PLAIN = re.compile(r"[A-Za-z0-9_/.][A-Za-z0-9_/.$+-]*\Z")
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_WIDTH = 110


def scalar(value: object) -> str:
    """One value on one line.

    >>> scalar("core"), scalar("0x1"), scalar("a: b"), scalar(6000.0), scalar(None)
    ('core', '"0x1"', '"a: b"', '6000.0', 'null')
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, float):
        return float.__repr__(value)  # NumPy's floats have another repr
    if isinstance(value, int):
        return repr(value)
    text = str(value)
    if _PLAIN.match(text) and text not in WORDS and not looks_like_a_number(text):
        return text
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def flow(value: object) -> str:
    """A value in flow style.

    >>> flow({"type": "core", "count": 4, "properties": ["fast"]})
    '{type: core, count: 4, properties: [fast]}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return scalar(value)


def block(value: Mapping[str, object]) -> str:
    r"""A document in block style; lists and mappings without nested entries stay on one line where they fit.

    >>> print(block({"name": "demo", "resources": [{"type": "node", "with": [{"type": "core", "count": 4}]}]}), end="")
    name: demo
    resources:
      - type: node
        with:
          - {type: core, count: 4}
    """
    return "\n".join(_lines(value, 0)) + "\n"


def _fits(value: object, indent: int) -> bool:
    return _is_small(value) and len(flow(value)) + indent <= _WIDTH


def _is_small(value: object) -> bool:
    """Whether it contains no list of mappings, so that it reads well on one line."""
    if isinstance(value, Mapping):
        return all(
            _is_small(item) and not (isinstance(item, list) and any(isinstance(i, Mapping) for i in item))
            for item in value.values()
        )
    if isinstance(value, list | tuple):
        return not any(isinstance(item, Mapping) for item in value)
    return True


def _lines(value: Mapping[str, object], indent: int) -> Iterator[str]:
    pad = " " * indent
    for key, item in value.items():
        head = f"{pad}{scalar(key)}:"
        if isinstance(item, Mapping | list | tuple) and item and not _fits(item, indent + len(key) + 2):
            yield head
            yield from _items(item, indent + 2) if isinstance(item, list | tuple) else _lines(item, indent + 2)
        else:
            yield f"{head} {flow(item)}"


def _items(values: list[object] | tuple[object, ...], indent: int) -> Iterator[str]:
    pad = " " * indent
    for item in values:
        if isinstance(item, Mapping) and item and not _fits(item, indent + 2):
            lines = _lines(item, indent + 2)
            yield f"{pad}- {next(lines)[indent + 2 :]}"
            yield from lines
        else:
            yield f"{pad}- {flow(item)}"

"""Resource shapes: `slot=4/node{-x}/[core=8;gpu=1]` ↔ the resources section of a jobspec (Flux RFC 46).

The result is plain values, not vertices, because a shape may contain keys that jobspec does not have; the jobspec reader,
which knows the rules, makes vertices from these values. The tokens are those of flux-core: blanks between them are ignored,
`slot` is case-insensitive, quoted text has no escapes. JSON lists end at their closing bracket, not at the last bracket of the
line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from fluxres import limits
from fluxres.documents.document import Place, excerpt, shown
from fluxres.documents.suggestion import did_you_mean
from fluxres.errors import ErrorPlace, InputError, LimitExceeded, UsageError
from fluxres.syntax import count as counts
from fluxres.syntax import unit as units
from fluxres.syntax.vertex import SLOT

Resource = dict[str, Any]

DEFAULT_LABEL: Final = "task"
"""The label of the only slot if the shape gives none, as in flux-core."""

_BLANKS = re.compile(r"\s*")
_WORD = re.compile(r"""[^\s={}\[\]/;'"]+""")
_COUNT = re.compile(r"""[^\s={}\[\]/;'"]+|\[[^\s={}\[\]/;'"]*\]""")
_WITH_UNIT = re.compile(r"([0-9.]+)([A-Za-z]{1,9})")
_ITEM = re.compile(r"""[^\s={}\[\]/;:,'"]+""")
_VALUE = re.compile(r"""[^\s={}\[\];,'"]+""")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<real>\.[0-9]+)?(?P<power>[eE][-+]?[0-9]+)?")
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_STRUCTURE: Final = ("type", "count", "with")


def parse(
    text: str, *, default_label: str = DEFAULT_LABEL, range_as_mapping: bool = False, keep_counts: bool = False
) -> list[Resource]:
    """The resources section of a shape, as plain values.

    Args:
        default_label: the label of a slot without one; it must then be the only slot.
        range_as_mapping: write ranges as mappings of min, max, operator and operand instead of as text.
        keep_counts: leave each count as the `Count` it was parsed to, for a reader of resources that takes these.

    Cost O(length). Errors: InputError with the column; LimitExceeded beyond `limits.REQUEST_TEXT_MAX` characters or
    `limits.REQUEST_DEPTH_MAX` levels. Source: RFC 46.

    >>> parse("node=2{x}/slot/core=2+")[0]["with"]
    [{'type': 'slot', 'count': 1, 'label': 'task', 'with': [{'type': 'core', 'count': '2+'}]}]
    >>> parse("memory=4{unit:GB}", range_as_mapping=True)
    [{'type': 'memory', 'count': 4, 'unit': 'GB'}]
    """
    if len(text) > limits.REQUEST_TEXT_MAX:
        raise LimitExceeded(f"expected at most {limits.REQUEST_TEXT_MAX} characters, got {len(text)}", where=_at(0))
    return _Reader(text, default_label, range_as_mapping, keep_counts).read()


def format(resources: Sequence[Mapping[str, Any]], *, default_label: str = DEFAULT_LABEL) -> str:  # noqa: A001 - read as shape.format
    """The shortest shape of a resources section; :func:`parse` reads the same resources.

    Errors: InputError for anything that is not a resources section; UsageError for text that contains both kinds of quotes.

    >>> format(parse("[ node = [2-4] { +x , unit:'a b' } / slot{task} / [core=1] ]"))
    "node=2-4{x,unit:'a b'}/slot/core"
    """
    place = Place(("resources",))
    slots = _count_slots(resources, place)
    return _format_list(resources, place, default_label if slots == 1 else None)


class _Reader:
    def __init__(self, text: str, default_label: str, range_as_mapping: bool, keep_counts: bool) -> None:
        self.text = text
        self.offset = 0
        self.default_label = default_label
        self.range_as_mapping = range_as_mapping
        self.keep_counts = keep_counts
        self.slots: list[tuple[int, str | None]] = []

    def read(self) -> list[Resource]:
        found = self.level(1)
        if self.peek():
            by_name = "name pools by path, such as /demo/rack0/node[0-3], or request a number of them, such as node=4"
            raise self.error("expected the end", by_name if self.peek() == "[" else "")
        seen: set[str | None] = set()
        for start, label in self.slots:
            if len(self.slots) > 1 and (label is None or label in seen):
                got = "none" if label is None else f"{excerpt(label)} again"
                such = "in braces, such as slot{first}/node"
                raise InputError(f"expected a different label for each slot, got {got}", where=_at(start), hint=such)
            seen.add(label)
        return found

    def level(self, depth: int) -> list[Resource]:
        if depth > limits.REQUEST_DEPTH_MAX:
            raise LimitExceeded(f"expected at most {limits.REQUEST_DEPTH_MAX} levels", where=_at(self.offset))
        if not self.take("["):
            return [self.vertex(depth)]
        opened = self.offset - 1
        found = [self.vertex(depth)]
        while self.take(";"):
            found.append(self.vertex(depth))
        if not self.take("]"):
            if self.peek():
                raise self.error("expected ; or ]")
            raise InputError("expected ] for this [, got the end", where=_at(opened))
        return found

    def vertex(self, depth: int) -> Resource:
        self.skip()
        start = self.offset
        type_name = self.word(_WORD, "a resource type")
        quoted = self.text[start] in "'\""
        slot = SLOT in ((type_name,) if quoted else (type_name.lower(),))
        made: Resource = {"type": SLOT if slot else type_name, "count": 1}
        if self.take("="):
            count = self.count()
            made |= {"count": count[0], "unit": count[1]} if isinstance(count, tuple) else {"count": count}
        if slot:
            made["label"] = None
        if self.peek() == "{":
            self.keys(made, slot)
        if slot:
            self.slots.append((start, made["label"]))
            made["label"] = self.default_label if made["label"] is None else made["label"]
        if self.take("/"):
            made["with"] = self.level(depth + 1)
        elif slot:
            raise self.error("expected / and the contents of the slot")
        return made

    def count(self) -> Any:
        """A count; with its unit, where it has one."""
        self.skip()
        start = self.offset
        found = _COUNT.match(self.text, start)
        if found is None:
            raise self.error("expected a count", "such as 4, 2-8, 2+, 4,9,16 or 2-16:2:*")
        self.offset = found.end()
        text = found[0].strip("[]")
        with_unit = _WITH_UNIT.fullmatch(text)
        if with_unit is not None and units.is_size(text):
            return self.size(text, start)
        try:
            count = counts.parse(text)
        except InputError as error:
            hint = error.hint
            if with_unit is not None and units.dimension(with_unit[2]) is None:
                number, unit = with_unit.groups()
                hint = did_you_mean(units.near(unit)) or f"write a unit of your own in braces: {number}{{unit:{unit}}}"
            raise type(error)(error.message, where=_at(start), hint=hint) from None
        if count.fixed is not None and text.isdigit():
            return counts.exactly(count.fixed) if self.keep_counts else count.fixed
        if self.keep_counts:
            return count
        return count.to_mapping() if self.range_as_mapping and count.steps and "," not in text else text

    def size(self, text: str, start: int) -> tuple[Any, str]:
        with ErrorPlace(_at(start)):
            number, unit = units.parse(text)
            count = counts.parse(number)
            return count if self.keep_counts else count.fixed, unit

    def keys(self, made: Resource, slot: bool) -> None:
        opened = self.offset
        self.take("{")
        if slot and self.peek() not in ("}", ""):
            made["label"] = self.label()
            if self.peek() != "}" and not self.take(","):
                raise self.unclosed(opened, ", or }")
        given = self.items(opened, 1, vertex=True)
        for key, value in given.items():
            if key in made and key == "unit":
                raise InputError(f"expected one unit, got {made[key]} and {excerpt(str(value))}", where=_at(opened))
            if key in _STRUCTURE or (slot and key == "label"):
                raise InputError(f"expected a key other than type, count and with, got {key!r}", where=_at(opened))
            made[key] = value

    def label(self) -> str:
        self.skip()
        start = self.offset
        label = self.word(_ITEM, "a label")
        quoted = self.text[start] in "'\""
        if not quoted and (label[0] in "+-" or self.peek() == ":"):
            raise InputError(
                f"expected the label of the slot before its keys, got {excerpt(label)}",
                where=_at(start),
                hint="such as slot{name,x}/node; quote a label that begins with + or -",
            )
        return label

    def items(self, opened: int, depth: int, *, vertex: bool = False) -> dict[str, Any]:
        """The items in braces, up to and including the closing one."""
        if depth > limits.REQUEST_DEPTH_MAX:
            raise LimitExceeded(f"expected at most {limits.REQUEST_DEPTH_MAX} levels", where=_at(opened))
        made: dict[str, Any] = {}
        if self.take("}"):
            return made
        while True:
            self.skip()
            start = self.offset
            quoted = self.text[start : start + 1] in ("'", '"')
            key = self.word(_ITEM, "a key")
            sign = "" if quoted or key[0] not in "+-" else key[0]
            if sign and not key[1:]:
                raise InputError(f"expected a key right after {sign}", where=_at(start))
            has_value = not sign and self.take(":")
            key = key.removeprefix(sign)
            key = "exclusive" if vertex and key == "x" and not quoted else key
            if key in made:
                raise InputError(f"expected each key once, got {excerpt(key)} again", where=_at(start))
            made[key] = self.value(depth) if has_value else sign != "-"
            if self.take("}"):
                return made
            if not self.take(","):
                raise self.unclosed(opened, ", or }")

    def value(self, depth: int) -> Any:
        start = self.peek()
        if start == "{":
            opened = self.offset
            self.take("{")
            return self.items(opened, depth + 1)
        if start == "[":
            return self.json_list()
        at = self.offset
        word = self.word(_VALUE, "a value")
        if start in "'\"":
            return word
        try:
            return _scalar(word)
        except InputError as error:
            raise type(error)(error.message, where=_at(at)) from None

    def json_list(self) -> Any:
        opened = end = self.offset
        depth = 0
        quoted = False
        while end < len(self.text):
            mark = self.text[end]
            if quoted and mark == "\\":
                end += 1
            elif mark == '"':
                quoted = not quoted
            elif not quoted:
                depth += (mark == "[") - (mark == "]")
            end += 1
            if not depth:
                break
        try:
            made = orjson.loads(self.text[opened:end])
        except orjson.JSONDecodeError as error:
            raise InputError(f"expected a JSON list: {error.msg}", where=_at(opened + error.pos)) from None
        self.offset = end
        return Place(("list",)).values(made)

    def word(self, pattern: re.Pattern[str], what: str) -> str:
        mark = self.peek()
        if mark and mark in "'\"":
            end = self.text.find(mark, self.offset + 1)
            if end < 0:
                raise self.error(f"expected {mark} at the end of the text in quotes")
            word, self.offset = self.text[self.offset + 1 : end], end + 1
            if not word and pattern is not _VALUE:
                raise InputError(f"expected {what}, got empty text", where=_at(end))
            return word
        found = pattern.match(self.text, self.offset)
        if found is None:
            raise self.error(f"expected {what}")
        self.offset = found.end()
        return found[0]

    def skip(self) -> None:
        found = _BLANKS.match(self.text, self.offset)
        self.offset = found.end() if found else self.offset

    def peek(self) -> str:
        self.skip()
        return self.text[self.offset : self.offset + 1]

    def take(self, mark: str) -> bool:
        found = self.peek() == mark
        self.offset += found
        return found

    def unclosed(self, opened: int, what: str) -> InputError:
        return self.error(f"expected {what}") if self.peek() else InputError("expected } for this {", where=_at(opened))

    def error(self, message: str, hint: str = "") -> InputError:
        rest = self.text[self.offset :]
        return InputError(f"{message}, got {excerpt(rest) if rest else 'the end'}", where=_at(self.offset), hint=hint)


def _scalar(word: str) -> Any:
    """An unquoted value: a constant, a number or text."""
    if word.lower() in _CONSTANTS:
        return _CONSTANTS[word.lower()]
    number = _NUMBER.fullmatch(word)
    if number is None:
        return word
    if number["real"] or number["power"]:
        if not math.isfinite(float(word)):
            raise InputError(f"expected a number that fits a float, got {excerpt(word)}")
        return float(word)
    if len(word) > 20:
        raise LimitExceeded(f"expected a number of at most 20 characters, got {excerpt(word)}")
    return int(word)


def _count_slots(resources: object, place: Place, depth: int = 1) -> int:
    """The number of slots; refuses values that do not have the form of resources."""
    if depth > limits.REQUEST_DEPTH_MAX:
        raise LimitExceeded(f"expected at most {limits.REQUEST_DEPTH_MAX} levels of resources", where=str(place))
    slots = 0
    for number, value in enumerate(place.sequence(resources)):
        here = place.at(number)
        given = here.mapping(value, required=("type", "count"))
        here.at("type").text(given["type"])
        slots += given["type"] == SLOT
        if given["type"] == SLOT:
            here.mapping(given, required=("with",))
        if "label" in given:
            here.at("label").text(given["label"])
        if "with" in given:
            slots += _count_slots(given["with"], here.at("with"), depth + 1)
    return slots


def _format_list(resources: Sequence[Mapping[str, Any]], place: Place, only_label: str | None) -> str:
    texts = [_format_vertex(vertex, place.at(number), only_label) for number, vertex in enumerate(resources)]
    return texts[0] if len(texts) == 1 else f"[{';'.join(texts)}]"


def _format_vertex(vertex: Mapping[str, Any], place: Place, only_label: str | None) -> str:
    slot = vertex["type"] == SLOT
    try:
        count = counts.format(counts.parse(vertex["count"]))
    except InputError as error:
        raise place.at("count").refine(error) from None
    text = _quoted(vertex["type"], _WORD, place) + (f"={count}" if count != "1" else "")
    stated = {key: value for key, value in vertex.items() if key not in _STRUCTURE and not (slot and key == "label")}
    items = [_format_item(key, value, place.at(key), vertex=True) for key, value in stated.items()]
    if slot and (items or vertex.get("label", only_label) != only_label or only_label is None):
        label = place.at("label").text(vertex.get("label", only_label))
        items.insert(0, _quoted(label, _ITEM, place.at("label")))
    text += f"{{{','.join(items)}}}" if items else ""
    return f"{text}/{_format_list(vertex['with'], place.at('with'), only_label)}" if "with" in vertex else text


def _format_item(key: str, value: object, place: Place, *, vertex: bool = False) -> str:
    name = "x" if vertex and key == "exclusive" else f"'{key}'" if vertex and key == "x" else _quoted(key, _ITEM, place)
    if value is True:
        return name
    if value is False and name[0] not in "'\"":
        return f"-{name}"
    return f"{name}:{_format_value(value, place)}"


def _format_value(value: object, place: Place) -> str:
    if value is None or isinstance(value, bool):
        return shown(value)
    if isinstance(value, str):
        return _quoted(value, _VALUE, place)
    if isinstance(value, Mapping):
        given = place.mapping(place.values(value))
        return f"{{{','.join(_format_item(key, below, place.at(key)) for key, below in given.items())}}}"
    try:
        return orjson.dumps(place.values(value)).decode()
    except orjson.JSONEncodeError:
        raise place.expected("a JSON value", value) from None


def _quoted(text: str, pattern: re.Pattern[str], place: Place) -> str:
    """Text in the form of a shape: unquoted if that reads as the same text."""
    if not text and pattern is not _VALUE:
        raise place.expected("a name", text)
    if pattern.fullmatch(text) and _reads_as_itself(text, pattern):
        return text
    for quote in "'\"":
        if quote not in text:
            return f"{quote}{text}{quote}"
    raise UsageError(f"expected text with one kind of quotes, got {excerpt(text)}", where=str(place))


def _reads_as_itself(text: str, pattern: re.Pattern[str]) -> bool:
    if pattern is _WORD:
        return text == SLOT or text.lower() != SLOT
    if pattern is _ITEM:
        return text[0] not in "+-"
    return text.lower() not in _CONSTANTS and not _NUMBER.fullmatch(text)


def _at(offset: int) -> str:
    return f"shape:{offset + 1}"

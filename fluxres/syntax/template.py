"""Name templates of pools: `node-${frameid}-${rack}`, `frontier${id:05}`, `$$` for a dollar.

A million nodes share one template, so names are only made on access, and pools are found by name without making names:
:func:`invert` reads the id out of a name, :func:`default_id` does so for the default name, basename and id. The caller's
`lookup` defines the meaning of a field (attribute, property, id of an ancestor).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

from fluxres import limits
from fluxres.documents.document import excerpt
from fluxres.errors import InputError, LimitExceeded

_FIELD = re.compile(r"\$\{(?P<key>[^\s${}:]+)(?::(?P<width>[^}]*))?\}")
_WIDTH = re.compile(r"0[1-9][0-9]{0,2}", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)


class Field(msgspec.Struct, frozen=True):
    """`${key}`, or `${key:0W}` with the value padded by zeros to `width` characters (0 = no padding)."""

    key: str
    width: int = 0

    def text(self, value: object) -> str:
        """The text of a value in a name."""
        word = ("true" if value else "false") if isinstance(value, bool) else str(value)
        return word.zfill(self.width)


Part = str | Field


@lru_cache(maxsize=4096)
def parse(text: str) -> tuple[Part, ...]:
    """The literals and fields of a template, in order; two literals are never adjacent.

    Errors: InputError with the column; LimitExceeded beyond `limits.NAME_LENGTH_MAX` characters.

    >>> parse("frontier${id:05}")
    ('frontier', Field(key='id', width=5))
    >>> parse("cost$$")
    ('cost$',)
    """
    if len(text) > limits.NAME_LENGTH_MAX:
        raise LimitExceeded(f"expected at most {limits.NAME_LENGTH_MAX} characters, got {len(text)}", where=_at(0))
    if not text:
        raise InputError("expected a name template, got empty text", where=_at(0))
    parts: list[Part] = []
    literal = ""
    position = 0
    while position < len(text):
        dollar = text.find("$", position)
        literal += text[position:] if dollar < 0 else text[position:dollar]
        if dollar < 0:
            break
        if text.startswith("$$", dollar):
            literal += "$"
            position = dollar + 2
            continue
        found = _FIELD.match(text, dollar)
        if found is None:
            raise InputError(
                f"expected ${{KEY}} or ${{KEY:0WIDTH}}, got {excerpt(text[dollar:])}",
                where=_at(dollar),
                hint="write $$ for a dollar",
            )
        parts += [literal, _field(found)] if literal else [_field(found)]
        literal = ""
        position = found.end()
    return (*parts, literal) if literal else tuple(parts)


def render(parts: tuple[Part, ...], lookup: Callable[[str], object]) -> str:
    """The name that a template gives.

    Args:
        parts: from :func:`parse`.
        lookup: the value of a key, None if there is none.

    Errors: InputError for a key without a value; LimitExceeded for a name that gets too long.

    >>> render(parse("node-${frame}-${id:03}"), {"frame": "a", "id": 7}.get)
    'node-a-007'
    """
    out = []
    values: dict[str, object] = {}  # the name of a parent may contain that of its own parent, and so on: look it up once
    for part in parts:
        if isinstance(part, Field):
            value = values[part.key] if part.key in values else values.setdefault(part.key, lookup(part.key))
            if value is None:
                raise InputError(f"no value for ${{{part.key}}} of a name template", where="template")
            out.append(part.text(value))
        else:
            out.append(part)
    name = "".join(out)
    if len(name) > limits.NAME_LENGTH_MAX:
        raise LimitExceeded(
            f"expected a name of at most {limits.NAME_LENGTH_MAX} characters, got {excerpt(name)}", where="template"
        )
    return name


def settled(text: str, values: Mapping[str, object]) -> str:
    """The template with the fields of some keys replaced by their values.

    Errors: as :func:`parse`.

    >>> settled("n-${state}-${id}", {"state": "up"})
    'n-up-${id}'
    """
    out = []
    for part in parse(text):
        if isinstance(part, Field) and part.key not in values:
            out.append(f"${{{part.key}:0{part.width}}}" if part.width else f"${{{part.key}}}")
        else:
            out.append((part if isinstance(part, str) else part.text(values[part.key])).replace("$", "$$"))
    return "".join(out)


def invert(text: str, name: str) -> int | None:
    """The id with which a template gives exactly this name; None if none does, or if `id` is not its only field.

    Cost: constant. Errors: as :func:`parse`.

    >>> invert("frontier${id:05}", "frontier00042"), invert("frontier${id:05}", "frontier42"), invert("n${rack}", "n1")
    (42, None, None)
    """
    affixes = around_id(text)
    if affixes is None:
        return None
    prefix, field, suffix = affixes
    if len(name) <= len(prefix) + len(suffix) or not (name.startswith(prefix) and name.endswith(suffix)):
        return None
    digits = name[len(prefix) : len(name) - len(suffix)]
    number = _id(digits.lstrip("0") or "0")
    return number if number is not None and field.text(number) == digits else None


def is_invertible(text: str) -> bool:
    """Whether :func:`invert` can read ids out of this template's names: `id` is its only field. Errors: as :func:`parse`.

    >>> is_invertible("frontier${id:05}"), is_invertible("n-${rack}-${id}")
    (True, False)
    """
    return around_id(text) is not None


def possible_ids(text: str, name: str) -> list[int] | None:
    """Ids with which a template may give this name, some of them in vain; None if the id does not matter.

    Errors: as :func:`parse`.

    >>> possible_ids("n${rack}-${id}", "n1-23"), possible_ids("n${rack}", "n1"), possible_ids("n${rack}", "m1")
    ([1, 2, 3, 23], None, [])
    """
    parts, at = parse(text), 0
    for part in parts:
        if isinstance(part, str):
            found = name.find(part, at)
            if found < 0 or (part is parts[0] and found > 0):
                return []
            at = found + len(part)
    if all(isinstance(part, str) or part.key != "id" for part in parts):
        return None
    runs = _DIGITS.findall(name)
    numbers = {int(run[i:j]) for run in runs for i in range(len(run)) for j in range(i + 1, min(len(run), i + 19) + 1)}
    return [-1] * ("-1" in name) + sorted(number for number in numbers if number <= limits.ID_MAX)


def default_id(basename: str, name: str) -> int | None:
    """The id in a default name, which is basename and id written together; None if the name is not of that form.

    >>> default_id("node", "node12"), default_id("node", "node012"), default_id("node", "node")
    (12, None, None)
    """
    return _id(name[len(basename) :]) if name.startswith(basename) else None


def _field(found: re.Match[str]) -> Field:
    width = found["width"]
    if width is None:
        return Field(found["key"])
    if not _WIDTH.fullmatch(width) or int(width) > limits.NAME_LENGTH_MAX:
        raise InputError(
            f"expected a width such as 05 after {found['key']!r}, got {excerpt(width)}",
            where=_at(found.start("width")),
            hint=f"0 and 1 to {limits.NAME_LENGTH_MAX}",
        )
    return Field(found["key"], int(width))


@lru_cache(maxsize=4096)
def around_id(text: str) -> tuple[str, Field, str] | None:
    """(literal before, field, literal after) of a template whose only field is `id`."""
    parts = parse(text)
    fields = [part for part in parts if isinstance(part, Field)]
    if [field.key for field in fields] != ["id"]:
        return None
    at = parts.index(fields[0])
    prefix, suffix = "".join(map(str, parts[:at])), "".join(map(str, parts[at + 1 :]))
    return prefix, fields[0], suffix


def _id(digits: str) -> int | None:
    if len(digits) > 19 or not _NUMBER.fullmatch(digits):
        return None
    return int(digits) if int(digits) <= limits.ID_MAX else None


def _at(offset: int) -> str:
    return f"template:{offset + 1}"

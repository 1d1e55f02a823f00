"""What a CTest test asks for, `2,gpus:2;gpus:4,crypto_chips:2` ↔ groups, and the variables that give it the answer.

Each description between semicolons is a group of resources for one process of the test, or for a number of equal ones.  The slots
of one requirement come from one instance.  Groups stay as they were counted: `1000000,gpus:1` is one description.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fluxres import limits
from fluxres.documents.document import excerpt
from fluxres.errors import InputError, LimitExceeded

SLOTS_MAX: Final = (1 << 31) - 1
"""Slots of a requirement or instance: CTest keeps them in an `int`."""

TYPE: Final = re.compile(r"[a-z_][a-z0-9_]*")
ID: Final = re.compile(r"[a-z0-9_]+")
_COUNT = re.compile(r"[0-9]+")
_NEED = re.compile(rf"({TYPE.pattern}):([0-9]+)")
_COMMAS = re.compile(r",+")
_FORM: Final = "a description is [COUNT,]TYPE:SLOTS[,TYPE:SLOTS…], with types in lower case and no blanks"


@dataclass(frozen=True, slots=True)
class Need:
    """Slots of one instance of a type."""

    type: str
    slots: int


@dataclass(frozen=True, slots=True)
class Group:
    """A number of processes that each need all of these."""

    count: int
    needs: tuple[Need, ...]


def parse(text: str) -> list[Group]:
    """The groups of a ``RESOURCE_GROUPS`` property, as written; empty descriptions are passed over.

    Cost O(length). Errors: InputError with the column; LimitExceeded beyond `limits.REQUEST_TEXT_MAX` characters,
    `limits.COUNT_MAX` processes, or SLOTS_MAX slots.  Source: CMake, property RESOURCE_GROUPS of a test.

    >>> parse("3,threads:2;gpus:4")
    [Group(count=3, needs=(Need(type='threads', slots=2),)), Group(count=1, needs=(Need(type='gpus', slots=4),))]
    """
    if len(text) > limits.REQUEST_TEXT_MAX:
        message = f"expected at most {limits.REQUEST_TEXT_MAX} characters, got {len(text)}"
        raise LimitExceeded(message, where="RESOURCE_GROUPS:1")
    found, column = [], 1
    for part in text.split(";"):
        if part:
            found.append(_group(part, column))
        column += len(part) + 1
    return found


def _group(text: str, column: int) -> Group:
    count, at = 1, 0
    if (leading := _COUNT.match(text)) is not None:
        count, at = _number(leading[0], limits.COUNT_MAX, column), leading.end()
    needs: list[Need] = []
    is_first = leading is None
    while at < len(text):
        if not is_first:
            commas = _COMMAS.match(text, at)
            if commas is None:
                raise _error(text, at, column, "a comma")
            at = commas.end()
            if at == len(text):
                break
        is_first = False
        need = _NEED.match(text, at)
        if need is None:
            raise _error(text, at, column, "TYPE:SLOTS" if count != 1 or needs or at else "COUNT or TYPE:SLOTS")
        needs.append(Need(need[1], _number(need[2], SLOTS_MAX, column + need.start(2))))
        at = need.end()
    return Group(count, tuple(needs))


def _number(digits: str, most: int, column: int) -> int:
    if len(digits) > 20 or int(digits) > most:
        raise LimitExceeded(f"expected a number up to {most}, got {excerpt(digits)}", where=f"RESOURCE_GROUPS:{column}")
    return int(digits)


def _error(text: str, at: int, column: int, expected: str) -> InputError:
    return InputError(f"expected {expected}, got {excerpt(text[at:])}", where=f"RESOURCE_GROUPS:{column + at}", hint=_FORM)


def format(groups: Iterable[Group]) -> str:  # noqa: A001 - read as ctest_groups.format
    """Groups as text; :func:`parse` reads equal ones back.

    >>> format([Group(2, ()), Group(1, (Need("gpus", 1), Need("gpus", 1)))])
    '2;gpus:1,gpus:1'
    """
    texts = []
    for group in groups:
        needs = [f"{need.type}:{need.slots}" for need in group.needs]
        texts.append(",".join([*([str(group.count)] if group.count != 1 or not needs else []), *needs]))
    return ";".join(texts)


def processes(groups: Iterable[Group]) -> int:
    return sum(group.count for group in groups)


def expand(groups: Sequence[Group]) -> Iterator[tuple[Need, ...]]:
    """The needs of each process in turn.

    Errors: LimitExceeded beyond `limits.REQUEST_VERTICES_MAX` processes or needs of all.

    >>> list(expand(parse("2;x:1")))
    [(), (), (Need(type='x', slots=1),)]
    """
    total = sum(group.count * max(len(group.needs), 1) for group in groups)
    if total > limits.REQUEST_VERTICES_MAX:
        hint = "ask for fewer processes"
        message = f"{total} requirements, at most {limits.REQUEST_VERTICES_MAX} are looked at"
        raise LimitExceeded(message, where="RESOURCE_GROUPS", hint=hint)
    for group in groups:
        for _ in range(group.count):
            yield group.needs


Given = Mapping[str, Sequence[tuple[str, int]]]
"""What one process was given: by type, instances and slots of each, in the order asked for."""


def environment(given: Sequence[Given]) -> dict[str, str]:
    """The variables that tell a test what its processes were given; an empty sequence for a test without groups.

    Source: CTest, resource allocation, environment variables.

    >>> environment([{"gpus": [("0", 2), ("3", 1)]}])["CTEST_RESOURCE_GROUP_0_GPUS"]
    'id:0,slots:2;id:3,slots:1'
    """
    made = {"CTEST_RESOURCE_GROUP_COUNT": str(len(given))}
    for number, types in enumerate(given):
        made[f"CTEST_RESOURCE_GROUP_{number}"] = ",".join(sorted(types))
        for type_name in sorted(types):
            parts = [f"id:{instance},slots:{slots}" for instance, slots in types[type_name]]
            made[f"CTEST_RESOURCE_GROUP_{number}_{type_name.upper()}"] = ";".join(parts)
    return made


def given(environment: Mapping[str, str]) -> list[dict[str, list[tuple[str, int]]]]:
    """What a test was given, read back from its variables; empty when CTest gave none.

    Errors: InputError naming the variable.

    >>> given(environment([{"gpus": [("0", 2)]}]))
    [{'gpus': [('0', 2)]}]
    """
    count = environment.get("CTEST_RESOURCE_GROUP_COUNT", "0")
    if not _COUNT.fullmatch(count) or len(count) > 9 or int(count) > limits.REQUEST_VERTICES_MAX:
        raise InputError(f"expected a number of groups, got {excerpt(count)}", where="CTEST_RESOURCE_GROUP_COUNT")
    found = []
    for number in range(int(count)):
        types: dict[str, list[tuple[str, int]]] = {}
        for type_name in filter(None, environment.get(f"CTEST_RESOURCE_GROUP_{number}", "").split(",")):
            key = f"CTEST_RESOURCE_GROUP_{number}_{type_name.upper()}"
            parts = [re.fullmatch(r"id:([a-z0-9_]+),slots:([0-9]{1,10})", part) for part in environment.get(key, "").split(";")]
            if not all(parts):
                hint = "id:ID,slots:N, several with semicolons"
                raise InputError(f"expected instances and slots, got {excerpt(environment.get(key, ''))}", where=key, hint=hint)
            types[type_name] = [(part[1], int(part[2])) for part in parts if part is not None]
        found.append(types)
    return found

"""Runs of labelled units as entries of a machine: whether a label becomes an id, a name, or neither.

Numbers become ids and other labels become names, as long as the two cannot be confused. A label that can be neither is kept as a
property of a numbered pool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from fluxres import limits
from fluxres.graph.kinds import PropertyValue
from fluxres.graph.recipe import Recipe

#: prefix of the key of a property that is about the file and not about the pool
OF_FILE: Final = "file:"
#: the property that keeps a label which cannot be a name: it occurs twice, or has a character not allowed in paths
LABEL: Final = f"{OF_FILE}label"
#: the property that keeps a number of slots which cannot be a size
SLOTS: Final = f"{OF_FILE}slots"
#: the unit of amounts in ten-thousandths
FRACTION_UNIT: Final = "0.0001"
FRACTIONS: Final = 10_000

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,17}")
DIGITS: Final = "0123456789"


@dataclass(frozen=True, slots=True)
class Run:
    """Labelled units that are equal except for their label.

    Args:
        labels: in order; a `range` of numbers costs nothing however long it is.
        size: units of each; 0 if it cannot be allocated.
        unit: of the size.
        properties: of each.
        fractions: whether each can be allocated in ten-thousandths.
    """

    labels: Sequence[str] | range
    size: int = 1
    unit: str | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    fractions: bool = False


def compact(labels: list[str]) -> Sequence[str] | range:
    """Labels as a range if they are consecutive numbers, which costs nothing however many there are.

    >>> compact(["3", "4", "5"]), compact(["3", "5"]), compact(["03", "4"])
    (range(3, 6), ['3', '5'], ['03', '4'])
    """
    if len(labels) > 1 and _DECIMAL.fullmatch(labels[0]):
        start = int(labels[0])
        made = range(start, start + len(labels))
        if labels[-1] == str(made[-1]) and labels == list(map(str, made)):
            return made
    return labels


def entries(run: Run, type_name: str, taken: set[str], stems: set[str]) -> list[Recipe]:
    """Entries for a run: numbers become ids and other labels names; a pool whose label can be neither is numbered and keeps its
    label.

    Args:
        taken: names that siblings have, to which those of the run are added.
        stems: words that, followed by a number, are the names of numbered pools.
    """
    base = Recipe(type_name, size=max(run.size, 1), unit=run.unit, properties=run.properties, children=shares(run))
    if run.size == 0:
        base = replace(base, properties={**run.properties, SLOTS: 0}, state="down")
    if isinstance(run.labels, range):
        return [replace(base, count=len(run.labels), ids=run.labels.start)] if len(run.labels) else []
    made: list[Recipe] = []
    numbers: list[int] = []
    names: list[str] = []

    def close() -> None:
        if numbers:
            made.append(replace(base, count=len(numbers), ids=np.array(numbers, np.int64)))
        if names:
            made.append(replace(base, count=len(names), ids=None, names=list(names), word_for_word=True))
        numbers.clear()
        names.clear()

    if _are_plain_names(run.labels, taken, stems):
        taken.update(run.labels)
        return [replace(base, count=len(run.labels), ids=None, names=list(run.labels), word_for_word=True)]
    for at, label in enumerate(run.labels):
        is_number = _DECIMAL.fullmatch(label) is not None
        name = f"{type_name}{label}" if is_number else label
        looks_numbered = not is_number and label.rstrip(DIGITS) in stems and label[-1:] in DIGITS
        if name in taken or looks_numbered or not is_name(name):
            close()
            name = free(lambda at: f"{type_name}~{at}", at, taken)
            made.append(replace(base, names=[name], ids=None, word_for_word=True, properties={**base.properties, LABEL: label}))
        else:
            if names if is_number else numbers:
                close()
            if is_number:
                numbers.append(int(label))
            else:
                names.append(label)
        taken.add(name)
    close()
    return made


def _are_plain_names(labels: Sequence[str], taken: set[str], stems: set[str]) -> bool:
    """Whether all of these labels can be used as names, checked together: a hundred thousand take a few milliseconds."""
    whole = "".join(labels)
    return (
        len(labels) > 0
        and all(labels)
        and max(map(len, labels)) <= limits.NAME_LENGTH_MAX
        and whole.isprintable()
        and "/" not in whole
        and not any(map(str.isdecimal, labels))
        and taken.isdisjoint(labels)
        and stems.isdisjoint({label.rstrip(DIGITS) for label in labels})
        and len(set(labels)) == len(labels)
    )


def shares(run: Run) -> tuple[Recipe, ...]:
    """The child that makes each pool of a run divisible."""
    return (Recipe("share", ids=None, size=FRACTIONS, unit=FRACTION_UNIT),) if run.fractions else ()


def is_name(text: str) -> bool:
    """Whether a text can be the name of a pool."""
    return 0 < len(text) <= limits.NAME_LENGTH_MAX and text.isprintable() and "/" not in text


def free(name: Callable[[int], str], start: int, seen: set[str]) -> str:
    """The first free name, numbering from `start` on."""
    while name(start) in seen:
        start += 1
    return name(start)

"""Find out which of a million pools are the same, all at once.

Merging and auditing both compare names among siblings and uuids among all pools.  Comparing texts would take one Python string
per pool; here equal names and equal uuids are equal numbers.  Names and uuids that no template or origin produces are sparse, and
only those are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Int32, Int64, Mask, UInt64
from fluxres.errors import LimitExceeded
from fluxres.graph import uuids
from fluxres.graph.kinds import Kind
from fluxres.graph.structure import Structure
from fluxres.syntax import template

_EXPLICIT: Final = 0
_BASE_LENGTH: Final = 23
"""Length of the part of a uuid text that its base determines: all but the last group."""


def template_fields(kind: Kind) -> frozenset[str]:
    """The keys that the name template of a kind uses; ``id`` if it has none.

    >>> sorted(template_fields(Kind("node", "node", name="n${rack}-${id}")))
    ['id', 'rack']
    """
    if kind.name is None:
        return frozenset({"id"})
    return frozenset(part.key for part in template.parse(kind.name) if isinstance(part, template.Field))


class NameKeys:
    """Names of siblings as pairs of numbers.

    Under one parent, equal pairs mean equal names.  Unequal pairs mean unequal names if neither side is `odd`, or if both are of
    one class that is `injective`; otherwise the texts decide.

    Cost: O(1) Python per kind and explicit name, arrays for the rest.
    """

    def __init__(self) -> None:
        self._classes: dict[object, int] = {}
        self._texts: dict[str, int] = {}
        self._injective: list[bool] = [False]
        #: whether pools of one parent may have different ancestors: then templates that use them are compared as text
        self.ancestors_differ = False

    def of(self, s: Structure, vertices: Int32) -> tuple[Int64, Int64, Mask]:
        """Class, number and oddness of the names of these pools, each an array as long as `vertices`."""
        used = np.zeros(len(s.kinds), np.bool_)
        used[s.kind[vertices]] = True
        class_of = np.zeros(len(s.kinds), np.int64)
        odd_of, rendered = np.zeros((2, len(s.kinds)), np.bool_)
        for k in np.flatnonzero(used).tolist():
            class_of[k], odd_of[k], rendered[k] = self._class(s.kinds[k])
        kinds = s.kind[vertices]
        cls, number, odd = class_of[kinds], s.id[vertices].copy(), odd_of[kinds]
        by_text = rendered[kinds]
        if s.names:
            by_text = by_text | np.isin(vertices, np.fromiter(s.names, np.int32, len(s.names)))
        for i in np.flatnonzero(by_text).tolist():
            number[i] = self._texts.setdefault(s.name(int(vertices[i])), len(self._texts))
        cls[by_text] = _EXPLICIT
        odd[by_text] = True
        return cls, number, odd

    def injective(self) -> Mask:
        """By class, whether two siblings of that class have the same name only if they have the same id."""
        return np.array(self._injective, np.bool_)

    def _class(self, kind: Kind) -> tuple[int, bool, bool]:
        if kind.name is None:
            # 'n1' + 2 and 'n' + 12 give the same name, so a basename that ends in a digit is compared as text.
            odd = kind.basename[-1:].isdigit()
            return self._number(kind.basename, True), odd, False
        fields = template_fields(kind)
        if fields & {"size", "rank", "uuid"} or (self.ancestors_differ and fields != {"id"}):
            return _EXPLICIT, True, True
        key = (kind.name, kind.basename, kind.type, kind.unit, kind.properties)
        return self._number(key, fields == {"id"}), True, False

    def _number(self, key: object, injective: bool) -> int:
        number = self._classes.get(key)
        if number is None:
            number = self._classes[key] = len(self._injective)
            self._injective.append(injective)
        return number


def texts_needed(group: Int32, cls: Int64, odd: Mask, injective: Mask) -> Mask:
    """Which rows have siblings from which only the texts of their names distinguish them.

    Args:
        group: parent of each row; rows with the same parent are compared with each other.
        cls, odd: of each row, from :meth:`NameKeys.of`.
        injective: from :meth:`NameKeys.injective`.
    """
    if not odd.any():
        return np.zeros(len(group), np.bool_)
    parents, of_row = np.unique(group, return_inverse=True)
    lowest = np.full(len(parents), np.iinfo(np.int64).max)
    highest = np.full(len(parents), -1, np.int64)
    np.minimum.at(lowest, of_row, cls)
    np.maximum.at(highest, of_row, cls)
    has_odd = np.zeros(len(parents), np.bool_)
    has_odd[of_row[odd]] = True
    alone = np.bincount(of_row, minlength=len(parents)) == 1
    one_class = (lowest == highest) & (injective[highest] | (highest == _EXPLICIT))
    return np.asarray((has_odd & ~alone & ~one_class)[of_row])


def joint_origins(structures: Sequence[Structure]) -> tuple[list[int], list[Int64]]:
    """A joint list of the uuid bases of several structures, and for each structure the indexes of its own bases in it.

    Errors: LimitExceeded past ORIGINS_MAX.
    """
    index: dict[int, int] = {}
    maps = [np.array([index.setdefault(base, len(index)) for base in s.origins], np.int64) for s in structures]
    if len(index) > limits.ORIGINS_MAX:
        raise LimitExceeded(f"{len(index)} uuid origins, at most {limits.ORIGINS_MAX} are allowed")
    return list(index), maps


def uuid_keys(structures: Sequence[Structure]) -> list[UInt64]:
    """The uuids of all pools as uint64, equal if and only if the uuids are; one array per structure.

    Cost: O(1) Python per explicit uuid, arrays for the rest.
    """
    bases, maps = joint_origins(structures)
    by_prefix = {uuids.text(base, 0)[:_BASE_LENGTH]: i for i, base in enumerate(bases)}
    texts: dict[str, int] = {}
    shift = np.uint64(uuids.SERIAL_BITS)
    found: list[UInt64] = []
    for s, base_map in zip(structures, maps, strict=True):
        origin = base_map[s.origin] if len(base_map) else np.zeros(s.n, np.int64)
        keys = (origin.astype(np.uint64) << shift) | s.serial.astype(np.uint64)
        for v, text in s.uuid_texts.items():
            keys[v] = _explicit_key(text, by_prefix, texts)
        found.append(keys)
    return found


def _explicit_key(text: str, by_prefix: dict[str, int], texts: dict[str, int]) -> int:
    base = by_prefix.get(text[:_BASE_LENGTH].lower())
    parts = uuids.split(text) if base is not None else None
    if base is not None and parts is not None:
        return (base << uuids.SERIAL_BITS) | parts[1]
    return (limits.ORIGINS_MAX << uuids.SERIAL_BITS) | texts.setdefault(text, len(texts))


def repeated(*keys: NDArray[Any]) -> Int64:
    """Rows whose keys occur in an earlier row, ascending.

    >>> repeated(np.array([3, 1, 3, 3])).tolist()
    [2, 3]
    """
    order = np.lexsort(keys[::-1])
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for key in keys:
        same &= key[order][1:] == key[order][:-1]
    return np.sort(order[1:][same])

"""Add up units by type, and never units that measure different things.

Pools of one type may be counted in several units.  Where these convert, the sum is exact and in the unit that most of the pools
have; what does not make a whole unit gets an entry of its own, in a unit in which it is whole.  Units that do not convert get
separate entries.  The names of the entries depend on the pools that exist and not on what is free, so a caller who knows the
machine knows which entries to expect.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import msgspec
import numpy as np

from fluxres import limits
from fluxres.arrays import Int32, Int64
from fluxres.errors import LimitExceeded
from fluxres.graph.kinds import KindTable
from fluxres.syntax import unit


class Entry(msgspec.Struct, frozen=True):
    """Pools of one type whose units convert into each other.

    Args:
        type: of the pools.
        name: of the sum: the type, or ``memory[GiB]`` if the type has units that do not convert.
        unit: of the sum.
        fine: the largest unit in which every such sum is whole.
        parts: the code of the pools counted in each unit.
    """

    type: str
    name: str
    unit: str | None
    fine: str | None
    parts: dict[str | None, int]

    @property
    def rest_name(self) -> str:
        """The name for the part that does not make a whole unit: ``memory[MiB]``."""
        return f"{self.type}[{self.fine}]"


class Sums:
    """Adds up the units of one structure by *code*, a number for each pair of type and unit.

    Args:
        kinds: of the structure; they must keep their types and units.
        kind: by pool, an index into `kinds`.
        size: by pool, its units.
    """

    def __init__(self, kinds: KindTable, kind: Int32, size: Int64) -> None:
        self._kind, self._size = kind, size
        self._code_of_kind = np.zeros(len(kinds), np.int64)
        units: dict[str, dict[str | None, int]] = {}
        count = 0
        for number in np.flatnonzero(np.bincount(kind)).tolist():
            found = kinds.listed[number]
            code = units.setdefault(found.type, {}).setdefault(found.unit, count)
            count += code == count
            self._code_of_kind[number] = code
        self._units = units
        #: The number of codes.
        self.count = count
        #: Whether each type has only one unit, so that sums need no conversion.
        self.is_plain = count == len(units)

    @cached_property
    def code(self) -> Int64:
        """The code of each pool.

        Errors: LimitExceeded if the pools of one code together have more units than an int64 can count.
        """
        code = self._code_of_kind[self._kind]
        if np.bincount(code, self._size).max() > float(limits.SIZE_MAX):
            message = f"the pools of one type together have more than {limits.SIZE_MAX} units"
            raise LimitExceeded(message, hint="use a larger unit, such as GiB instead of bytes")
        return code

    def in_amounts(self, type_name: str) -> bool:
        """Whether the pools of a type are counted in units of something, rather than each being one thing."""
        units = self._units[type_name]
        return any(own is not None for own in units) or bool((self._size[np.isin(self.code, list(units.values()))] > 1).any())

    def by_code(self, vertices: Int32 | slice, units: Int64) -> Int64:
        """The sums of the units of these pools, by code."""
        found = np.zeros(self.count, np.int64)
        np.add.at(found, self.code[vertices], units)
        return found

    @cached_property
    def entries(self) -> list[Entry]:
        """One entry for each type, or for each group of its units that convert, in the order of the types."""
        return [entry for name, codes in self._units.items() for entry in self._entries(name, codes)]

    def _entries(self, name: str, codes: dict[str | None, int]) -> list[Entry]:
        groups: dict[tuple[bool, str | None], dict[str | None, int]] = {}
        for own, code in codes.items():
            measures = None if own is None else unit.dimension(own)
            groups.setdefault((measures is None, measures or own), {})[own] = code
        found = []
        for group in groups.values():
            most = self._unit_of_most(group)
            fine = most if len(group) == 1 else unit.common(str(own) for own in group)
            plain = len(groups) == 1 or most is None
            found.append(Entry(name, name if plain else f"{name}[{most}]", most, fine, group))
        return found

    def _unit_of_most(self, group: dict[str | None, int]) -> str | None:
        """The unit that most pools have; in a tie, that of the first pool."""
        if len(group) == 1:
            return next(iter(group))
        pools = np.bincount(self.code, minlength=self.count)
        return min(group, key=lambda own: (-int(pools[group[own]]), int((self.code == group[own]).argmax())))

    def exact(self, entry: Entry, by_code: Int64) -> Fraction:
        """A sum in the unit of its entry."""
        parts = ((int(by_code[code]), own) for own, code in entry.parts.items())
        return sum((Fraction(unit.convert(amount, own, entry.unit)) for amount, own in parts if amount), Fraction(0))

    def named(self, by_code: Int64) -> dict[str, int]:
        """Sums by name; a part that does not make a whole unit has its own name."""
        found: dict[str, int] = {}
        for entry in self.entries:
            total = self.exact(entry, by_code)
            found[entry.name] = int(total)
            if rest := total - int(total):
                found[entry.rest_name] = int(unit.convert(rest, entry.unit, entry.fine))
        return found

    @cached_property
    def units(self) -> dict[str, str | None]:
        """The unit of each sum, by name."""
        found: dict[str, str | None] = {}
        for entry in self.entries:
            found[entry.name] = entry.unit
            if entry.fine != entry.unit:
                found[entry.rest_name] = entry.fine
        return found

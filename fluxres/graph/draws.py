"""What pools draw from their suppliers by themselves: a node of 400 W draws them for whoever has it (property ``draw.power``)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.kinds import DRAW, WAY

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure

Int64 = NDArray[np.int64]


class Draws:
    """The draws of one structure.  Cost: O(n) for each type that something draws."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._inside: dict[str, tuple[Int64, Int64]] = {}

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Types, or names of graphs, of which some pool draws units."""
        structure = self._structure
        if not structure.kinds.may_draw:
            return ()
        kinds = [structure.kinds[number] for number in np.unique(structure.kind).tolist()]
        found = {key.removeprefix(DRAW) for kind in kinds for key, _ in kind.properties if key.startswith(DRAW)}
        return tuple(sorted(found))

    def own(self, name: str) -> Int64:
        """By pool, the units that it draws; none of one that is here only as the way to others."""
        return self._of(name)[0]

    def total(self, name: str) -> Int64:
        """By pool, the units that it draws with all that is in it."""
        structure, before = self._structure, self._of(name)[1]
        return before[structure.end] - before[:-1]

    def _of(self, name: str) -> tuple[Int64, Int64]:
        found = self._inside.get(name)
        if found is None:
            structure = self._structure
            of_kind = np.zeros(len(structure.kinds), np.int64)
            for number, kind in enumerate(structure.kinds):
                units = dict(kind.properties).get(DRAW + name)
                if isinstance(units, int) and not isinstance(units, bool) and units > 0:
                    of_kind[number] = units
            own = np.where((structure.flags & WAY) != 0, 0, of_kind[structure.kind])
            found = self._inside[name] = own, np.concatenate([[0], np.cumsum(own)])
        return found

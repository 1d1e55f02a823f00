"""The nodes of a machine as the vector path needs them: what each contains, and what of it is in service.

Derived from the structure and its states, and kept until they change.  Everything is by ordinal of the node, as in the planner's
level: bits for questions about nodes, numbers for what they contain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np

from fluxres.arrays import Floats, Int32, Int64, Mask
from fluxres.match.situation import PERFORMANCE_CLASS, Eligible, Situation
from fluxres.match.typology import Typology
from fluxres.planner.level import Level
from fluxres.planner.marks import Bits, bits_of
from fluxres.planner.planner import Planner

_NOTHING: Final = np.zeros(0, np.int32)


class NodeTable:
    """What each node of one machine contains, and what of it is in service.

    Args:
        typology: of the machine.
        planner: what is held.
        ideal: ignore states.
    """

    def __init__(self, typology: Typology, planner: Planner, *, ideal: bool = False) -> None:
        self.typology = typology
        self.planner = planner
        self.ideal = ideal
        self.forget()

    @cached_property
    def is_flat(self) -> bool:
        """Whether the nodes have a level: they do not nest and have no sizes."""
        return self.typology.node >= 0 and self.planner.levels.of(self.typology.node) is not None

    @cached_property
    def level(self) -> Level:
        """The level of the nodes, if `is_flat`.  The planner maintains it from the first use on."""
        found = self.planner.levels.of(self.typology.node)
        assert found is not None
        return found

    def forget(self) -> None:
        """Drop what was derived from states and kinds."""
        self.forget_states()
        self._eligible: dict[Eligible, Bits] = {}
        self._units: dict[int, Int64] = {}
        self._classes: list[Floats | None] = []
        self._even: dict[int, bool] = {}
        self._varied: dict[int, bool] = {}

    def forget_states(self) -> None:
        """Drop what was derived from states."""
        #: The topmost pools that take no new work.
        self._out = _NOTHING if self.ideal else self.typology.structure.unavailable_roots()
        self._up: Bits | None = None
        self._takeable: Bits | None = None
        self._capacity: dict[int, tuple[Int64, int]] = {}
        self._up_pools: dict[int, Mask | None] = {}

    # -- nodes -------------------------------------------------------------------------------------------------------

    def is_up(self, vertices: Int32) -> Mask:
        """Whether each pool and all its ancestors are in service."""
        structure, roots = self.typology.structure, self._out
        if not len(roots):
            return np.ones(len(vertices), np.bool_)
        at = roots.searchsorted(vertices, "right") - 1
        return (at < 0) | (vertices >= structure.end[roots[at]])

    def open(self, eligible: Eligible, *, whole: bool) -> Bits:
        """Nodes in service that satisfy a constraint; for exclusive use, without pass-through nodes."""
        level = self.level
        if self._up is None or self._takeable is None:
            up = self.is_up(level.vertices)
            self._up = bits_of(up)
            self._takeable = bits_of(up & ~self.typology.structure.ways[level.vertices])
        found = self._takeable if whole else self._up
        if eligible.everywhere:
            return found
        allowed = self._eligible.get(eligible)
        if allowed is None:
            allowed = self._eligible[eligible] = bits_of(eligible.mask)
        return found & allowed

    def classes(self, situation: Callable[[], Situation]) -> Floats | None:
        """The performance class of each node; None if all are equal.  Calls `situation` only the first time."""
        if not self._classes:
            classes = situation().performance_class(self.level.vertices)
            self._classes.append(None if (classes == classes[0]).all() else classes)
        return self._classes[0]

    # -- contents of nodes -------------------------------------------------------------------------------------------

    def units(self, kind: int) -> Int64:
        """Units of a type in each node, whatever their state."""
        found = self._units.get(kind)
        if found is None:
            first, stop = self.level.edges(kind)
            sums = np.concatenate([[0], np.cumsum(self.typology.sizes(kind))])
            found = self._units[kind] = sums[stop] - sums[first]
        return found

    def is_even(self, kind: int) -> bool:
        """Whether every node has the same units of a type."""
        if kind not in self._even:
            units = self.units(kind)
            self._even[kind] = bool((units == units[0]).all())
        return self._even[kind]

    def capacity(self, kind: int) -> tuple[Int64, int]:
        """Units of a type in service in each node, and the least of these numbers."""
        found = self._capacity.get(kind)
        if found is None:
            level = self.level
            up = self.up_pools(kind)
            units = self.units(kind)
            if up is not None:
                sums = np.concatenate([[0], np.cumsum(np.where(up, self.typology.sizes(kind), 0))])
                first, stop = level.edges(kind)
                units = sums[stop] - sums[first]
            found = self._capacity[kind] = units, int(units.min()) if len(units) else 0
        return found

    def up_pools(self, kind: int) -> Mask | None:
        """Which pools of a type are in service; None if all are."""
        if not len(self._out):
            return None
        if kind not in self._up_pools:
            up = self.is_up(self.typology.vertices(kind))
            self._up_pools[kind] = None if up.all() else up
        return self._up_pools[kind]

    def is_varied(self, kind: int) -> bool:
        """Whether pools of one node may differ in performance class: some pool of the type, or one between, has its own."""
        if kind not in self._varied:
            structure = self.typology.structure
            numbers = [kind, *self.level.between(kind)]
            self._varied[kind] = any(
                PERFORMANCE_CLASS in dict(structure.kinds[number].properties)
                for of in numbers
                for number in np.unique(structure.kind[self.typology.vertices(of)]).tolist()
            )
        return self._varied[kind]

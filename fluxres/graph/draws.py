"""What pools draw from their suppliers on their own: a node with ``draw.power: 400`` draws 400 W for the job that uses it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fluxres.arrays import Int64
from fluxres.documents.suggestion import choose_from
from fluxres.graph.kinds import DRAW, WAY, units_drawn

if TYPE_CHECKING:
    from fluxres.graph.feeds import Feeds
    from fluxres.graph.structure import Structure


ONLY_A_WAY: Final = "which is only a pass-through in this part of the machine"
"""Part of a message about a supplier of which a copy of a part of the machine has no units, because other parts draw from it."""
WITH_UNITS: Final = "a copy of a job has the units that the job holds, a copy or duplicate of `/` has all suppliers"
"""Hint: how to get a part of a machine in which pools that draw something can be allocated."""


class Fault(NamedTuple):
    """Why what pools draw under a name is not charged, or not charged as intended."""

    message: str
    hint: str


class Draws:
    """The draws of one structure.  Cost: O(n) for each type that something draws."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._inside: dict[str, tuple[Int64, Int64]] = {}

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types, or names of graphs, of which some pool draws units."""
        structure = self._structure
        if not structure.kinds.may_draw:
            return ()
        kinds = [structure.kinds[number] for number in np.unique(structure.kind).tolist()]
        found = {key.removeprefix(DRAW) for kind in kinds for key, _ in kind.properties if key.startswith(DRAW)}
        return tuple(sorted(found))

    @cached_property
    def supplied(self) -> frozenset[str]:
        """The names that units can be drawn of: the types that auxiliary graphs distribute, and the graphs themselves."""
        names = self._structure.types
        types = {names[number] for feeds in self._structure.feeds for number in feeds.types}
        return frozenset(types | {feeds.graph.name for feeds in self._structure.feeds})

    def fault(self, name: str) -> Fault | None:
        """What is wrong with drawing units under a name: no graph distributes it, or it is counted in several units."""
        if name not in self.supplied:
            hint = choose_from(sorted(self.supplied), otherwise="no graph distributes anything")
            return Fault(f"draws units of '{name}', which no graph distributes", hint)
        units = self._units_of(name)
        if len(units) < 2:
            return None
        message = f"draws units of '{name}', which is counted in {' and '.join(units)}"
        return Fault(message, f"give all suppliers and edges of graph '{self._graphs_of(name)[0].graph.name}' the same unit")

    def _graphs_of(self, name: str) -> list[Feeds]:
        types = self._structure.types
        if name not in types:
            return [feeds for feeds in self._structure.feeds if feeds.graph.name == name]
        return [feeds for feeds in self._structure.feeds if types.index(name) in feeds.types]

    def _units_of(self, name: str) -> list[str]:
        """The units in which suppliers and edges count what is drawn under a name, sorted."""
        structure = self._structure
        found: set[str | None] = set()
        for feeds in self._graphs_of(name):
            types = frozenset({structure.types.index(name)}) if name in structure.types else feeds.counted
            found |= feeds.units_of(types)
        return sorted(unit for unit in found if unit is not None)

    def own(self, name: str) -> Int64:
        """The units that each pool draws itself; 0 for a pass-through pool."""
        return self._of(name)[0]

    def total(self, name: str) -> Int64:
        """The units that each pool draws together with everything below it."""
        structure, before = self._structure, self._of(name)[1]
        return before[structure.end] - before[:-1]

    def within(self, name: str, start: int, stop: int) -> int:
        """The units that the pools ``[start, stop)`` draw."""
        before = self._of(name)[1]
        return int(before[stop] - before[start])

    def names_of(self, account: int) -> tuple[str, ...]:
        """The names under which pools may draw units from an account on their own."""
        return tuple(name for name in self.types if self._may_draw_from(name, account))

    def _may_draw_from(self, name: str, account: int) -> bool:
        accounts, types = self._structure.accounts, self._structure.types
        feeds = self._graphs_of(name)
        if accounts.is_edge(account):
            return accounts.edge(account).graph.name in {each.graph.name for each in feeds}
        kind = accounts.type.item(account)
        return types.index(name) == kind and bool(feeds) if name in types else any(kind in each.types for each in feeds)

    def _of(self, name: str) -> tuple[Int64, Int64]:
        found = self._inside.get(name)
        if found is None:
            structure = self._structure
            of_kind = np.zeros(len(structure.kinds), np.int64)
            for number, kind in enumerate(structure.kinds):
                of_kind[number] = units_drawn(dict(kind.properties).get(DRAW + name)) or 0
            own = np.where((structure.flags & WAY) != 0, 0, of_kind[structure.kind])
            found = self._inside[name] = own, np.concatenate([[0], np.cumsum(own)])
        return found

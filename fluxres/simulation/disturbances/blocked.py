"""Which units jobs could not have and when: those out of service, and those of advance reservations, for charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fluxres import limits
from fluxres.arrays import Int64
from fluxres.syntax import idset

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.instance import Job

OUT_OF_SERVICE: Final = "out of service"
RESERVED: Final = "reserved"


class Blocked(NamedTuple):
    """Units that no job of the workload could have.

    Args:
        kind: out of service, or reserved.
        start, end: ticks.
        units: their numbers, as an idset.
        name: of the reservation, or empty.
    """

    kind: str
    start: int
    end: int
    units: str
    name: str = ""


class BlockedUnits:
    """Collects them during a simulation, up to `limits.BLOCKED_MAX`.

    Args:
        structure: of the machine.
        unit: type of the numbered pools; if a pool has several units, they have no numbers, and nothing is collected.
    """

    def __init__(self, structure: Structure, unit: str) -> None:
        pools = structure.of_type(unit)
        self._pools = pools if (structure.size[pools] == 1).all() else pools[:0]
        self._since = np.full(self._pools.size, -1, np.int64)
        """By unit, since when it is out of service, or -1."""
        self._found: list[Blocked] = []
        self.note_states(0, structure)

    def note_states(self, at: int, structure: Structure) -> None:
        """Note which units are out of service from now on."""
        out = np.zeros(self._pools.size, bool)
        for root in structure.unavailable_roots().tolist():
            first, stop = np.searchsorted(self._pools, (root, structure.end.item(root)))
            out[first:stop] = True
        was = self._since >= 0
        self._close(np.flatnonzero(was & ~out), at)
        self._since[out & ~was] = at

    def note_reservation(self, job: Job, name: str) -> None:
        """Note what a reservation that is over held."""
        if job.claim is not None and job.started >= 0 and (units := job.instance.inventory.ids(job.claim)):
            self._add(Blocked(RESERVED, job.started, job.ended, units, name))

    def until(self, end: int) -> list[Blocked]:
        """All of them by their begin; those that are out of service now until a moment."""
        open_before = np.flatnonzero((self._since >= 0) & (self._since < end))
        kept, since = self._found.copy(), self._since.copy()
        self._close(open_before, end)
        found, self._found, self._since = self._found, kept, since
        return sorted(found, key=lambda each: each.start)

    def _close(self, units: Int64, end: int) -> None:
        for since in np.unique(self._since[units]).tolist():
            own = units[self._since[units] == since]
            if since < end:
                self._add(Blocked(OUT_OF_SERVICE, since, end, idset.format(own.tolist())))
        self._since[units] = -1

    def _add(self, found: Blocked) -> None:
        if len(self._found) < limits.BLOCKED_MAX:
            self._found.append(found)

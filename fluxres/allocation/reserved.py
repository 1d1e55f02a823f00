"""What maintenance windows hold: whatever nobody else holds there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fluxres.allocation import plans, steps
from fluxres.allocation.facts import JobFacts, Reservation
from fluxres.allocation.planned import Planned
from fluxres.allocation.records import Records
from fluxres.graph.kinds import EXCLUSIVE

Held = tuple[int, int, list[tuple[int, int]]]
"""Start, end, and (pool, units)."""


class Rest(NamedTuple):
    """What a reservation can hold now, and who is in the way of the rest.

    Args:
        held: by window.
        owners: of what others hold there.
    """

    held: list[Held]
    owners: list[str]


def plan(records: Records, name: str, held: Sequence[Held]) -> list[Planned]:
    """Check what a reservation takes."""
    with records.structure.lifted():  # a pool that is down may be reserved
        return [
            Planned(plans.allocate(records, pools, name, start, end, implies=True), (start, end)) for start, end, pools in held
        ]


def hold(records: Records, name: str, planned: Sequence[Planned]) -> None:
    """Record units that a reservation takes."""
    for changes, window in planned:
        records.allocate(changes, name, *window, drawn_on=False, is_routed=False)


def apply(records: Records, name: str, reservation: Reservation, facts: JobFacts, planned: Sequence[Planned]) -> None:
    """Record a reservation and what it takes."""
    records.reservations[name] = reservation
    records.note_facts(name, facts)
    hold(records, name, planned)


def left_of(records: Records, name: str, reservation: Reservation, now: int) -> Rest:
    """What nobody holds of the pools of a reservation in its windows, from now on.

    Cost: the records in these pools, and the children of pools that are held in part.
    """
    seeker = _Seeker(records, name)
    for start, end in reservation.windows:
        if end > now:
            for v in reservation.out:
                seeker.seek(v, max(start, now), end)
    held = [(start, end, pools) for (start, end), pools in sorted(seeker.found.items())]
    return Rest(held, list(dict.fromkeys(seeker.owners)))


class _Seeker:
    """Looks for what nobody holds, and what a reservation may hold.

    An exclusive-only pool has one owner (rule A8): while another holds something in it, the reservation takes nothing there.
    """

    def __init__(self, records: Records, name: str) -> None:
        self.records = records
        self.name = name
        self.accounts = records.accounts
        self.vertices = np.array(sorted(records.held), np.int64)
        self.found: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self.owners: list[str] = []

    def seek(self, v: int, start: int, end: int) -> None:
        """Look in a pool and below it, outside of the windows in which a pool above is held exclusively."""
        records = self.records
        above: list[tuple[int, int]] = []
        for u in self.accounts.ancestors(v):
            for owner, held in records.held.get(u, {}).items():
                whole = steps.whole(held, start, end, 0, self.accounts.size.item(u))
                above += whole
                self.owners += [owner] * bool(whole)
        for u in self.accounts.exclusive_around(v):
            above += [(s, e) for s, e, owner in self._spans(u, start, end) if owner != self.name]
        for lo, hi in steps.without(start, end, above):
            self._below(v, lo, hi)

    def _below(self, v: int, start: int, end: int) -> None:
        size = self.accounts.size.item(v)
        if not self.accounts.units.item(v):
            return
        found = list(self._spans(v, start, end))
        if not found:
            self._take(v, size, start, end)
            return
        spans = [(s, e) for s, e, _ in found]
        for lo, hi in steps.without(start, end, spans):
            self._take(v, size, lo, hi)
        is_exclusive = self.accounts.flags.item(v) & EXCLUSIVE
        full = [(s, e) for s, e, owner in found if is_exclusive and owner != self.name]
        for lo, hi, used in self.records.planner.segments(v):
            s, e = max(lo, start), min(hi, end)
            if s < e and used == size:
                full.append((s, e))
            elif s < e and used:
                self._take(v, size - used, s, e)
        for lo, hi in steps.inside(start, end, spans):
            for s, e in steps.without(lo, hi, full):
                for child in self._children(v):
                    self._below(child, s, e)

    def _spans(self, v: int, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        """When something is held of a pool or below it, and by whom."""
        lo, hi = self.vertices.searchsorted([v, self.accounts.end.item(v)]).tolist()
        for u in self.vertices[lo:hi].tolist():
            for owner, held in self.records.held[u].items():
                for s, e, _ in held:
                    if s < end and start < e:
                        self.owners.append(owner)
                        yield max(s, start), min(e, end), owner

    def _children(self, v: int) -> Iterator[int]:
        child, stop = v + 1, self.accounts.end.item(v)
        while child < stop:
            yield child
            child = self.accounts.end.item(child)

    def _take(self, v: int, amount: int, start: int, end: int) -> None:
        self.found.setdefault((start, end), []).append((v, amount))

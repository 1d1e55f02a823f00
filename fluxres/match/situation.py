"""What is available in one window: queries that combine the machine's states, a constraint and the planner.

The Evaluating Filter of RFC 4 queries single pools, policies query many.  Results are cached, so that a pool is looked up only
once however often the search returns to it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.kinds import EXCLUSIVE
from fluxres.graph.structure import Structure
from fluxres.match.eligible import Eligible
from fluxres.match.typology import Typology
from fluxres.planner.planner import Planner

PERFORMANCE_CLASS: Final = "perf_class"
"""The property that the policy `variation` sorts by."""
NO_CLASS: Final = float("inf")
"""The performance class of a pool that has none: sorts after all others."""


class Situation:
    """One machine, one window, one constraint.

    Args:
        typology: of the machine.
        planner: what is held, and when.
        eligible: what the constraint allows.
        start, end: window in ticks.
        measured: type that measures how full a node is, for `pack` and `spread`; -1 for none.
        ideal: everything is up and nothing is held, as for `satisfiable`.
    """

    def __init__(
        self,
        typology: Typology,
        planner: Planner,
        eligible: Eligible,
        start: int,
        end: int,
        *,
        measured: int = -1,
        ideal: bool = False,
    ) -> None:
        self.typology = typology
        self.structure: Structure = typology.structure
        self.planner = planner
        self.eligible = eligible
        self.start, self.end = start, end
        self.measured = measured
        self.ideal = ideal
        self.accounts = accounts = typology.accounts
        self.size = accounts.size.data
        self.stop = accounts.end.data
        self.parent = accounts.parent.data
        self.flags = accounts.flags.data
        self._all_up = ideal or not len(self.structure.unavailable_roots())
        self._free: dict[int, int] = {}
        self._clear: dict[int, bool] = {}
        self._signatures: dict[int, tuple[object, ...]] = {}
        self._room: NDArray[np.int64] | None = None

    # -- one pool ----------------------------------------------------------------------------------------------------

    def is_up(self, v: int) -> bool:
        """Rule A7: neither the pool nor one of its ancestors is out of service."""
        return self._all_up or self.accounts.unavailable_above(v) < 0

    def free(self, v: int) -> int:
        """Units of an available, eligible pool that are free through the window; 0 for any other."""
        found = self._free.get(v)
        if found is None:
            found = 0
            if self.is_up(v) and self.eligible.of(v):
                found = self.accounts.units.item(v) if self.ideal else self.planner.free(v, self.start, self.end)
                if found and not self.ideal and any(map(self.is_busy_below, self.accounts.exclusive_around(v))):
                    found = 0  # rule A8: another job is in it
            self._free[v] = found
        return found

    def is_passable(self, v: int) -> bool:
        """Whether to search in a pool: it has a free unit, or is a pass-through pool with no exclusive holding above it."""
        if self.free(v) > 0:
            return True
        if not self.accounts.is_way(v) or not (self.is_up(v) and self.eligible.of(v)):
            return False
        if not self.ideal and any(map(self.is_busy_below, self.accounts.exclusive_around(v))):
            return False
        return self.ideal or self.planner.covered_by(v, self.start, self.end) < 0

    def is_busy_below(self, v: int) -> bool:
        """Whether anything below is held at some moment of the window."""
        return not self.ideal and self.stop[v] > v + 1 and self.planner.busy_below(v, self.start, self.end)

    def is_clear(self, v: int) -> bool:
        """Whether the pool may be allocated exclusively: all of it free, nothing below it held, no ineligible node below it."""
        found = self._clear.get(v)
        if found is None:
            size = self.size[v]
            found = self._clear[v] = (
                size > 0
                and not self.accounts.is_way(v)
                and self.free(v) == size
                and not self.is_busy_below(v)
                and self.eligible.all_below(v)
            )
        return found

    def signature(self, v: int) -> tuple[object, ...]:
        """Equal for two pools whose subtrees agree in all that matters to a match: kinds, service, free units, eligibility."""
        found = self._signatures.get(v)
        if found is None:
            stop = self.stop[v]
            out = None if self._all_up else self.structure.unavailable_roots()
            free = self.structure.units[v:stop] if self.ideal else self.planner.free_slice(v, stop, self.start, self.end)
            found = self._signatures[v] = (
                self.structure.kind[v:stop].tobytes(),
                (self.structure.end[v:stop] - np.arange(v, stop)).tobytes(),
                self.structure.flags[v:stop].tobytes(),
                self.is_up(v),
                b"" if out is None else (out[slice(*out.searchsorted(np.array([v, stop], np.int32)))] - np.int32(v)).tobytes(),
                free.tobytes(),
                self.eligible.of(v),
                self.eligible.barred_in(v).tobytes(),
            )
        return found

    def only_whole(self, v: int) -> bool:
        """Whether the pool can only be allocated exclusively."""
        return bool(self.flags[v] & EXCLUSIVE)

    def totals(self) -> NDArray[np.int64]:
        """Units free through the window, or passed through, by type over the machine; ignores the constraint."""
        structure = self.structure
        if self.ideal:
            return np.array([int(self.typology.sizes(kind).sum()) for kind in range(len(structure.types))], np.int64)
        # Pass-through pools have no units, but requests for pools in them need them all the same.
        ways = np.flatnonzero(structure.ways)
        found = np.zeros(len(structure.types), np.int64)
        np.add.at(found, structure.type[ways], structure.size[ways])
        for root in self.typology.roots:
            found += self.planner.totals(root, self.start, self.end, structure.unavailable_roots())[: len(found)]
        return found

    @cached_property
    def free_everywhere(self) -> NDArray[np.int64]:
        """Units free through the window, by vertex; 0 if a pool is out of service. Ignores the constraint."""
        n, structure = self.structure.n, self.structure
        free = structure.units.copy() if self.ideal else self.planner.free_slice(0, n, self.start, self.end)
        for root in [] if self.ideal else structure.unavailable_roots().tolist():
            free[root : structure.end.item(root)] = 0
        return free

    # -- scores ------------------------------------------------------------------------------------------------------

    def performance_class(self, vertices: NDArray[np.int32]) -> NDArray[np.float64]:
        """The class of each pool, or of its nearest ancestor that has one."""
        structure = self.structure
        of_kind = np.full(len(structure.kinds), np.nan)
        for number, kind in enumerate(structure.kinds):
            value = dict(kind.properties).get(PERFORMANCE_CLASS)
            try:
                of_kind[number] = np.nan if value is None else float(value)
            except ValueError:
                of_kind[number] = np.nan
        found = of_kind[structure.kind[vertices]]
        at = vertices
        while (open_ := np.isnan(found) & (at >= 0)).any():
            at = np.where(open_, structure.parent[at], -1).astype(np.int32)
            up = at >= 0
            found[up] = of_kind[structure.kind[at[up]]]
        return np.where(np.isnan(found), NO_CLASS, found)

    def room(self, vertices: NDArray[np.int32]) -> NDArray[Any]:
        """The room for the measured type in the node of each pool: its units less those used at the busiest moment.

        For a pool above nodes, the sum over its nodes.  All 0 if nodes nest or have sizes, or if nothing is measured.
        """
        level = self.planner.levels.of(self.typology.node) if self.typology.node >= 0 else None
        if level is None or self.measured < 0:
            return np.zeros(len(vertices), np.int64)
        if self._room is None:
            first, stop = level.edges(self.measured)
            sums = np.concatenate([[0], np.cumsum(self.typology.sizes(self.measured))])
            self._room = sums[stop] - sums[first]
            if not self.ideal:
                peaks = self.planner.levels.counted(level, self.measured).peaks(self.measured, self.start, self.end)
                self._room = self._room if peaks is None else self._room - peaks
        nodes = level.ordinal_of[vertices]
        sums = np.concatenate([[0], np.cumsum(self._room)])
        lo, hi = level.vertices.searchsorted(vertices), level.vertices.searchsorted(self.structure.end[vertices])
        return np.where(nodes >= 0, self._room[nodes], sums[hi] - sums[lo]) if level.length else np.zeros(len(vertices), np.int64)

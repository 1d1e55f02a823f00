"""How much of which pool is free when.

One timeline per type (`timeline.py`) records what is used of each pool itself.  What an exclusive holding implies for the pools
below it (rule A5) is never recorded: a pool is *covered* while one job holds all of an ancestor, and queries look that up among
its five or six ancestors.  A pool of size 1 is held exclusively whenever it is used, so its own timeline is enough; larger pools
have a second timeline of bits, which `cover` maintains.

`hold` and `release` check units against the size at every moment (rule A1), because a planner with silently wrong records would
allocate units twice.  The caller records which job holds the units.  A change of a few pools is made pool by pool, because the
overhead of NumPy exceeds that work; a change of many pools is checked and made by vector operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import lt
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fluxres import limits
from fluxres.arrays import Int32, Int64
from fluxres.clock import FOREVER
from fluxres.errors import LimitExceeded, UsageError
from fluxres.planner import audit, fit
from fluxres.planner.block import BEGINNING, too_many_breakpoints
from fluxres.planner.columns import NO_RUNS, Columns, OfType, Runs
from fluxres.planner.deltas import Deltas
from fluxres.planner.level import Changes, Levels
from fluxres.planner.timeline import Finding, Timeline

FEW_POOLS_MAX: Final = 32
"""Up to this number, pools are changed one by one, if there are few changes to make."""

FEW_CHANGES_MAX: Final = 8
"""Each costs 10 us in a window without breakpoints and 40 us among twenty; a vector operation costs 130 to 200 us for any."""


class Planner:
    """Used units of every pool over time, and the queries that a scheduler makes.

    Windows are half-open ticks `[start, end)`; an end at or after `clock.FOREVER` is infinite.  All queries are about the whole
    window: a unit is free if it is used at no moment of the window.

    Args:
        parent, end: int32[n], the containment trees in pre-order (-1 above a root; one past the last descendant).
        type_of: uint16[n], type numbers.
        size: int64[n], units.
        of_type: returns the ascending vertices (int32) of a type number, so that they are shared and not computed again.

    Cost: nothing per pool; arrays are shared, tables are made on first use.
    Errors: a change that raises UsageError or LimitExceeded changes nothing.

    A rack of two nodes with two units of memory each:

    >>> p = Planner(parent=[-1, 0, 1, 0, 3], end=[5, 3, 3, 5, 5], type_of=[0, 1, 2, 1, 2], size=[1, 1, 2, 1, 2])
    >>> p.hold(1, 1, 0, 10); p.hold(4, 1, 5, 20)
    >>> p.free_slice(0, 5, 0, 6).tolist()
    [1, 0, 0, 1, 1]
    >>> p.totals(0, 10, 11).tolist()
    [1, 2, 3]
    >>> p.earliest([(2, 2), (4, 2)], duration=5, after=0)
    20
    """

    #: Pools per block, for bits and for counts: about a kilobyte per row. Larger rows copy more for a job on one
    #: core, smaller ones make more rows for a job on the whole machine.
    span_bits = 8192
    span_counts = 4096

    def __init__(
        self,
        parent: npt.ArrayLike,
        end: npt.ArrayLike,
        type_of: npt.ArrayLike,
        size: npt.ArrayLike,
        *,
        of_type: OfType | None = None,
    ) -> None:
        self.columns = columns = Columns(parent, end, type_of, size, of_type)
        self._n = columns.n
        self._parent, self._end, self._type, self._size = columns.parent, columns.end, columns.type, columns.size
        #: Timelines by type number, created on the first write; where all sizes are 1, both are the same object.
        self._used: list[Timeline | None] = [None] * columns.types
        self._cover: list[Timeline | None] = [None] * columns.types
        self._made: list[Timeline] = []
        #: Ordinals by vertex, valid for the types that have a timeline.
        self._ordinal = memoryview(b"")
        #: Maintained on behalf of matchers: nodes as they see them, and what was released.
        self.levels = Levels(columns, self._used, self._cover, self.covers)

    def _open(self, kind: int) -> Timeline:
        """Create the timeline of a type."""
        columns = self.columns
        self._ordinal = columns.number(kind)
        dtype = columns.dtype(kind)
        line = Timeline(len(columns.vertices(kind)), self.span_bits if dtype is None else self.span_counts, dtype)
        self._used[kind] = line
        self._made.append(line)
        if dtype is None:
            self._cover[kind] = line
        return line

    def _cover_of(self, kind: int) -> Timeline:
        """The timeline of the pools of a type that are held exclusively."""
        line = self._used[kind] or self._open(kind)
        cover = self._cover[kind]
        if cover is None:
            cover = self._cover[kind] = Timeline(line.length, self.span_bits, None)
            self._made.append(cover)
        return cover

    # -- changes ----------------------------------------------------------------------------------------------

    def hold(self, v: int, amount: int, start: int, end: int) -> None:
        """Use `amount` units of pool v itself over the window.

        Cost: a few microseconds, more with the number of breakpoints in the window.
        Errors: UsageError if the pool has too few free units at some moment; LimitExceeded (BREAKPOINTS_MAX).
        """
        self._require(v, amount, start, end)
        if not self._change(v, 1, amount, start, end):
            raise UsageError(
                f"pool {v}: {amount} units requested for {shown(start, end)}, "
                f"where {self.used(v, start, end)} of {self._size[v]} are used"
            )
        self.levels.change(((v, 1, amount),), start, end)

    def release(self, v: int, amount: int, start: int, end: int) -> None:
        """Undo `hold` for `amount` units, over all or any part of the window.

        Errors: UsageError if fewer units are used at some moment of the window (rule A6).
        """
        self._require(v, amount, start, end)
        if not self._change(v, 1, -amount, start, end):
            raise UsageError(f"pool {v}: {amount} units released for {shown(start, end)}, where fewer are used")
        self.levels.change(((v, 1, -amount),), start, end)

    def cover(self, v: int, start: int, end: int, on: bool) -> None:
        """Record that one job holds all of v (size > 1) over the window, or no longer does.  No effect for size 1, where `hold`
        is enough.

        Errors: UsageError if v is covered already (on) or is not covered (off) at some moment of the window.
        """
        self._require(v, 1, start, end)
        if self._size[v] == 1:
            return
        if not self._size[v]:
            raise UsageError(f"pool {v}: has no units, so it cannot be held exclusively")
        if not self._cover_of(self._type[v]).change(self._ordinal[v], 1, 1 if on else -1, 1, start, end):
            raise UsageError(f"pool {v}: {'already' if on else 'not'} held exclusively at some moment of {shown(start, end)}")
        self.levels.cover([v], on, start, end)

    def hold_all(self, vertices: npt.ArrayLike, amounts: npt.ArrayLike, start: int, end: int) -> None:
        """Use units of many pools over one window, all or nothing.

        Args:
            vertices: int[k], each once; amounts: int[k], or one for all.

        Cost: a vector operation per block of pools and moment; 10,000 nodes take less than a millisecond.
        """
        self._change_all(vertices, amounts, start, end, 1)

    def release_all(self, vertices: npt.ArrayLike, amounts: npt.ArrayLike, start: int, end: int) -> None:
        """Undo `hold_all` over all or any part of the window; all or nothing."""
        self._change_all(vertices, amounts, start, end, -1)

    def hold_windows(self, vertices: Int64, amounts: Int64, starts: Int64, ends: Int64) -> None:
        """Use units of pools, each over a window of its own, before there is a level: as `hold` for each, all or nothing.

        Args:
            vertices: int64[k], a pool as often as it likes; amounts, starts, ends: int64[k].

        Cost: a sort of everything that is held; a hundred thousand windows take about 0.1 s.
        Errors: UsageError naming a pool without enough units; LimitExceeded (BREAKPOINTS_MAX).
        """
        assert not self.levels.are_kept  # they would not see this
        if not vertices.size:
            return
        wrong = np.flatnonzero((starts <= BEGINNING) | (starts >= ends) | (starts >= FOREVER))
        if wrong.size:
            raise _wrong_window(int(starts[wrong[0]]), int(ends[wrong[0]]))
        if vertices.min() < 0 or vertices.max() >= self._n:
            raise UsageError(f"vertices {vertices.min()} … {vertices.max()}: expected 0 <= vertex < {self._n}")
        if amounts.min() < 1:
            raise UsageError(f"pool {vertices[amounts.argmin()]}: expected amount >= 1, got {amounts.min()}")
        filled: list[tuple[Timeline, Deltas]] = []
        for kind, of_kind in self.columns.by_kind(vertices):
            which = vertices[of_kind]
            line, sizes = self._used[kind] or self._open(kind), self.columns.sizes[which]
            windows = np.asarray(self._ordinal)[which].astype(np.int64), amounts[of_kind], starts[of_kind], ends[of_kind]
            deltas = _with_windows(line, *windows)
            self._require_units(kind, deltas)
            filled.append((line, deltas))
            single = sizes == 1
            if line.dtype is not None and single.any():
                cover = self._cover_of(kind)
                filled.append((cover, _with_windows(cover, *(column[single] for column in windows))))
        before = [(line, line.blocks, line.breakpoints) for line, _ in filled]
        try:
            for line, deltas in filled:
                line.fill(deltas)
        except LimitExceeded:
            for line, blocks, breakpoints in before:
                line.blocks, line.breakpoints = blocks, breakpoints
            raise

    def _require_units(self, kind: int, deltas: Deltas) -> None:
        """Raise UsageError if a pool of a type has fewer units than are used of it (rule A1)."""
        vertices = self.columns.vertices(kind)[deltas.pools]
        used, sizes = deltas.used(), self.columns.sizes[vertices]
        bad = np.flatnonzero(used > sizes)
        if bad.size:
            k = bad[0]
            raise UsageError(f"pool {vertices[k]}: {used[k]} units requested from {deltas.times[k]} on (size {sizes[k]})")

    def has_room(self, changes: int) -> bool:
        """Whether this number of changes of pools fits, whatever their windows.  Cost: the number of types."""
        most = limits.BREAKPOINTS_MAX - 2 * changes
        for line in self._made:  # noqa: SIM110  # called for every change of a named pool: a generator is slower
            if line.breakpoints > most:
                return False
        return True

    def require_room(self, windows: Mapping[tuple[int, int], Sequence[int]]) -> None:
        """Raise unless the use of these pools can be changed over these windows, one after the other.

        Errors: LimitExceeded (BREAKPOINTS_MAX).  Cost: little, unless the timelines are nearly full.
        """
        if self.has_room(sum(map(len, windows.values()))):
            return
        missing: dict[int, int] = {}
        for (start, end), vertices in windows.items():
            which = np.unique(np.asarray(vertices, np.int64))
            for kind, of_kind in self.columns.by_kind(which):
                ordinals = np.asarray(self._ordinal)[which[of_kind]].astype(np.int64)
                for line in {id(line): line for line in (self._used[kind], self._cover[kind]) if line is not None}.values():
                    missing[id(line)] = missing.get(id(line), line.breakpoints) + line.missing(ordinals, start, end)
        if max(missing.values(), default=0) > limits.BREAKPOINTS_MAX:
            raise too_many_breakpoints()

    def _require(self, v: int, amount: int, start: int, end: int) -> None:
        if not 0 <= v < self._n:
            raise UsageError(f"vertex {v}: expected 0 <= vertex < {self._n}")
        if amount < 1:
            raise UsageError(f"pool {v}: expected amount >= 1, got {amount}")
        if not BEGINNING < start < end or start >= FOREVER:
            raise _wrong_window(start, end)

    def _change_all(self, vertices: npt.ArrayLike, amounts: npt.ArrayLike, start: int, end: int, sign: int) -> None:
        if not BEGINNING < start < end or start >= FOREVER:
            raise _wrong_window(start, end)
        which, units = np.asarray(vertices), np.asarray(amounts)
        if units.shape != which.shape:
            units = np.broadcast_to(units, which.shape)
        if not which.size:
            return
        # An impossible change of a few pools falls through to the code below, which raises with the reason.
        if len(which) <= FEW_POOLS_MAX and self._change_few(which.tolist(), units.tolist(), start, end, sign):
            return
        which, units = which.astype(np.int64), units.astype(np.int64)
        gaps = which[1:] - which[:-1]
        if gaps.size and gaps.min() <= 0:
            order = np.argsort(which, kind="stable")
            which, units = which[order], units[order]
            twice = np.flatnonzero(which[1:] == which[:-1])
            if twice.size:
                raise UsageError(f"pool {which[twice[0]]} is listed twice")
        if which[0] < 0 or which[-1] >= self._n:
            raise UsageError(f"vertices {which[0]} … {which[-1]}: expected 0 <= vertex < {self._n}")
        if units.min() < 1:
            raise UsageError(f"pool {which[units.argmin()]}: expected amount >= 1, got {units.min()}")
        for change in list(self._plan(which, units, start, end, sign)):
            change(start, end)
        self.levels.change_many(which, sign * units, start, end)

    def _change(self, v: int, number: int, amount: int, start: int, end: int) -> bool:
        """Add units to the use of a pool, or to each of a run of adjacent pools; False, without a change, if that is impossible.

        Args:
            number: length of the run; see `_runs`.

        Errors: LimitExceeded (BREAKPOINTS_MAX), without a change.
        """
        kind = self._type[v]
        line = self._used[kind] or self._open(kind)
        size = self._size[v]
        if not line.change(self._ordinal[v], number, amount, size, start, end):
            return False
        if size == 1 and line.dtype is not None:
            try:
                self._cover_of(kind).change(self._ordinal[v], 1, amount, 1, start, end)
            except LimitExceeded:
                line.change(self._ordinal[v], 1, -amount, size, start, end)
                raise
        return True

    def _change_few(self, vertices: list[int], units: list[int], start: int, end: int, sign: int) -> bool:
        """Change each of a few pools, all up or all down; False, without a change, if that is impossible, or too much."""
        if vertices[0] < 0 or vertices[-1] >= self._n or not all(map(lt, vertices, vertices[1:])) or min(units) < 1:
            return False
        runs = self._runs(vertices, units, sign)
        if len(vertices) > FEW_CHANGES_MAX and self.levels.number_of_changes(runs) > FEW_CHANGES_MAX:
            return False
        if len(runs) == 1:
            try:
                if not self._change(*runs[0], start, end):
                    return False
            except LimitExceeded:
                return False
            self.levels.change(runs, start, end)
            return True
        done: list[tuple[int, int, int]] = []
        for v, number, amount in runs:
            try:
                changed = self._change(v, number, amount, start, end)
            except LimitExceeded:
                changed = False
            if not changed:
                for run in reversed(done):  # which restores the previous breakpoints, so there is room
                    self._change(run[0], run[1], -run[2], start, end)
                return False
            done.append((v, number, amount))
        self.levels.change(done, start, end)
        return True

    def _runs(self, vertices: list[int], units: list[int], sign: int) -> Changes:
        """Pools as runs of adjacent ones in one word of a timeline of bits, such as the cores of a job in a socket; others are
        runs of length 1.

        Args:
            sign: of the change.
        """
        types, plain, count = self._type, self.columns.plain, len(vertices)
        found, at = [], 0
        while at < count:
            v, amount = vertices[at], units[at]
            kind, length = types[v], 1
            if at + 1 < count and vertices[at + 1] == v + 1:
                line = self._used[kind] or self._open(kind)
                most = min(line.run_length(self._ordinal[v]), count - at) if kind in plain else 1
                while length < most and vertices[at + length] == v + length and types[v + length] == kind:
                    if units[at + length] != amount:
                        break
                    length += 1
            found.append((v, length, sign * amount))
            at += length
        return found

    def _plan(self, vertices: Int64, units: Int64, start: int, end: int, sign: int) -> Iterator[Callable[[int, int], None]]:
        """Check a change of many ascending pools, all up or all down, and yield its parts, each for one timeline.

        Errors: UsageError naming the first pool without enough units; LimitExceeded.
        """
        for kind, of_kind in self.columns.by_kind(vertices):
            which, steps = vertices[of_kind], sign * units[of_kind]
            line = self._used[kind] or self._open(kind)
            ordinals = np.asarray(self._ordinal)[which].astype(np.int64)
            if kind in self.columns.plain and (steps == sign).all():
                flips = line.flips(ordinals, start, end, on=sign > 0)
                if flips is not None:  # else the code below raises with the reason
                    line.require_room(ordinals, start, end)
                    yield partial(line.flip, flips)
                    continue
            sizes = self.columns.sizes[which]
            if sign > 0:
                bad = line.extremes(ordinals, start, end) > sizes - steps
            else:
                bad = line.extremes(ordinals, start, end, least=True) + steps < 0
            if bad.any():
                k = int(bad.argmax())
                raise UsageError(
                    f"pool {which[k]}: {abs(int(steps[k]))} units {'requested' if sign > 0 else 'released'} for "
                    f"{shown(start, end)}, where {'too many' if sign > 0 else 'fewer'} are used (size {sizes[k]})"
                )
            parts = [(line, ordinals, steps)]
            single = sizes == 1
            if line.dtype is not None and single.any():
                parts.append((self._cover_of(kind), ordinals[single], steps[single]))
            for part_line, part, _ in parts:
                part_line.require_room(part, start, end)
            for part_line, part, amounts in parts:
                yield partial(part_line.add, part, amounts)

    # -- one pool ---------------------------------------------------------------------------------------------

    def used(self, v: int, start: int, end: int) -> int:
        """The maximum use of v itself over the window."""
        line = self._used[self._type[v]]
        return 0 if line is None else line.most(self._ordinal[v], start, end)

    def is_covered(self, v: int, start: int, end: int) -> bool:
        """Whether v itself is held exclusively at some moment of the window."""
        line = self._cover[self._type[v]]
        return line is not None and line.most(self._ordinal[v], start, end) > 0

    def covered_by(self, v: int, start: int, end: int) -> int:
        """The nearest proper ancestor of v that is held exclusively at some moment of the window, or -1."""
        parent, types, cover, ordinal = self._parent, self._type, self._cover, self._ordinal
        u: int = parent[v]
        while u >= 0:
            line = cover[types[u]]
            if line is not None and line.most(ordinal[u], start, end):
                return u
            u = parent[u]
        return -1

    def free(self, v: int, start: int, end: int) -> int:
        """Units of v free through the whole window: 0 if an ancestor is held exclusively at some moment of it."""
        if self.covered_by(v, start, end) >= 0:
            return 0
        size: int = self._size[v]
        return size - self.used(v, start, end)

    def segments(self, v: int) -> list[tuple[int, int, int]]:
        """(start, end, used) of v itself over all time where it is used; adjacent equal segments are merged."""
        line = self._used[self._type[v]]
        return [] if line is None else line.steps(self._ordinal[v])

    def covers(self, v: int) -> list[tuple[int, int]]:
        """(start, end) over all time where v is held exclusively, adjacent periods merged."""
        line = self._cover[self._type[v]]
        return [] if line is None else [(start, end) for start, end, _ in line.steps(self._ordinal[v])]

    # -- slices -----------------------------------------------------------------------------------------------

    def busy_below(self, v: int, start: int, end: int) -> bool:
        """Whether any unit strictly below v is used at some moment of the window."""
        lo, hi = v + 1, self._end[v]
        if lo == hi:
            return False
        return any(
            line is not None and line.any(*self.columns.ordinals(kind, lo, hi), start, end)
            for kind, line in enumerate(self._used)
        )

    def busy(self, lo: int, hi: int, start: int, end: int) -> Int32:
        """Vertices in [lo, hi) that are themselves used at some moment of the window, ascending (int32)."""
        found = [vertices for vertices, _ in self._held(self._used, lo, hi, start, end)]
        if not found:
            return np.zeros(0, np.int32)
        return np.sort(np.concatenate(found)) if len(found) > 1 else found[0]

    def _held(
        self, lines: Sequence[Timeline | None], lo: int, hi: int, start: int, end: int
    ) -> Iterator[tuple[Int32, npt.NDArray[Any]]]:
        """By type: vertices in [lo, hi) in use, ascending, and the maximum use of each; types without any are left out."""
        for kind, line in enumerate(lines):
            if line is None:
                continue
            ordinals, units = line.held(*self.columns.ordinals(kind, lo, hi), start, end)
            if ordinals.size:
                yield self.columns.vertices(kind)[ordinals], units

    def _covered_above(self, v: int, start: int, end: int) -> int:
        """Where the subtree of v's topmost ancestor held exclusively in the window ends; v if there is no such ancestor."""
        stop, u = v, self.covered_by(v, start, end)
        while u >= 0:
            stop = max(stop, self._end[u])
            u = self.covered_by(u, start, end)
        return stop

    def free_slice(self, lo: int, hi: int, start: int, end: int) -> Int64:
        """Units free through the whole window, for every vertex in [lo, hi) (int64), as defined by `free`.

        Cost: a copy of the sizes, and the rows of the window over the slice.
        """
        columns = self.columns
        free = columns.sizes[lo:hi].copy()
        if lo >= hi:
            return free
        for vertices, units in self._held(self._used, lo, hi, start, end):
            free[vertices - lo] -= units
        free[: max(self._covered_above(lo, start, end) - lo, 0)] = 0
        self._covered_below(lo, hi, start, end).clear(free, lo)
        return free

    def _covered_below(self, lo: int, hi: int, start: int, end: int) -> Runs:
        """Everything strictly below the vertices of [lo, hi) that are held exclusively at some moment of the window."""
        return self._below([vertices for vertices, _ in self._held(self._cover, lo, hi, start, end)])

    def _below(self, pools: Sequence[Int32]) -> Runs:
        if not pools:
            return NO_RUNS
        ends = self.columns.ends
        roots = np.concatenate(pools)
        roots = roots[ends[roots] > roots + 1]
        return Runs.of(roots + 1, ends[roots]) if roots.size else NO_RUNS

    def totals(self, v: int, start: int, end: int, unavailable: npt.ArrayLike | None = None) -> Int64:
        """Units free through the whole window in the subtree of v, including v, by type number (int64).

        Args:
            unavailable: ascending vertices whose subtrees do not count (because they are down, say), none below another.

        Cost: two look-ups per type, plus what is held or unavailable below v; independent of the size of the subtree.
        """
        columns = self.columns
        total = np.zeros(columns.types, np.int64)
        lo, hi = v, self._end[v]
        out = np.zeros(0, np.int32) if unavailable is None else np.asarray(unavailable, np.int32)
        if out.size:
            k = int(out.searchsorted(np.int32(v), "right"))
            if k and self._end[int(out[k - 1])] > v:
                return total
            out = out[k : int(out.searchsorted(np.int32(hi)))]
        if self.covered_by(v, start, end) >= 0:
            return total
        held: list[tuple[int, Int32, npt.NDArray[Any]]] = []
        whole: list[Int32] = []
        edges = np.array([lo, hi], np.int32)
        for kind, line in enumerate(self._used):
            vertices = columns.vertices(kind)
            a, b = vertices.searchsorted(edges).tolist()
            if a == b:
                continue
            sums = columns.sums(kind)
            total[kind] = b - a if sums is None else sums[b] - sums[a]
            if line is None:
                continue
            ordinals, units = line.held(a, b, start, end)
            which = vertices[ordinals]
            if ordinals.size:
                held.append((kind, which, units))
            roof = self._cover[kind]
            if roof is not None:
                whole.append(which if roof is line else vertices[roof.held(a, b, start, end)[0]])
        gone = self._below(whole)
        if out.size:
            gone = Runs.of(np.concatenate([gone.starts, out]), np.concatenate([gone.stops, columns.ends[out]]))
        for kind, which, units in held:
            total[kind] -= gone.outside(which).dot(units)
        return total - self._units_in(gone, total) if gone.edges.size else total

    def _units_in(self, runs: Runs, there: Int64) -> Int64:
        """Units in runs of vertices, by type; types with 0 in `there` are skipped."""
        signs = np.ones(len(runs.edges), np.int64)
        signs[::2] = -1
        units = np.zeros_like(there)
        for kind in there.nonzero()[0].tolist():
            at, sums = self.columns.vertices(kind).searchsorted(runs.edges), self.columns.sums(kind)
            units[kind] = (at if sums is None else sums[at]).dot(signs)
        return units

    # -- time -------------------------------------------------------------------------------------------------

    def moments(self, start: int, end: int) -> list[int]:
        """Moments in [start, end) at which the use of any pool changes, ascending."""
        return sorted(set[int]().union(*(line.moments(start, end) for line in self._made)))

    def earliest(self, demands: Sequence[tuple[int, int]], duration: int, after: int) -> int | None:
        """The first start from `after` on at which all demands are free together for `duration`.

        A demand is (vertex, units); several on one vertex add up.  A demand for all units of a pool also requires that nothing
        below it is used.  Free is defined as in `free`.

        Returns: a tick, either `after` or a breakpoint; None if a demand exceeds the size, or something held without end is in
        the way.
        Cost: each row of the blocks concerned is read once, from `after` to the answer.
        """
        return fit.earliest(self.columns, self._used, self._cover, demands, duration, after)

    # -- whole machine, audit ---------------------------------------------------------------------------------

    def free_ordinals(self, kind: int, lo: int, hi: int, start: int, end: int) -> Int64:
        """The ordinals in [lo, hi) of a type, all of whose pools have size 1, that are not used themselves in the window."""
        line = self._used[kind]
        return np.arange(lo, hi) if line is None else line.unused(lo, hi, start, end)

    def held_ordinals(self, kind: int, lo: int, hi: int, start: int, end: int) -> tuple[Int64, npt.NDArray[Any]] | None:
        """The ordinals in [lo, hi) of a type used in the window, ascending, and the maximum use of each; or None."""
        line = self._used[kind]
        if line is None:
            return None
        held = line.held(lo, hi, start, end)
        return held if held[0].size else None

    def check(self) -> list[str]:
        """All findings as text; empty if there are none.  Cost: all rows."""
        return [f"pool {v}: {text}" if v >= 0 else text for v, text in self.findings()]

    def findings(self) -> list[Finding]:
        """As `check`, with the pool that each finding concerns."""
        return audit.check(self.columns, self._used, self._cover) + self.levels.check()

    @property
    def nbytes(self) -> int:
        """Bytes of rows and derived tables, without the arrays passed in."""
        return self.columns.nbytes + self.levels.nbytes + sum(line.nbytes for line in self._made)


def _with_windows(line: Timeline, ordinals: Int64, amounts: Int64, starts: Int64, ends: Int64) -> Deltas:
    """What is used in a timeline, and these units besides."""
    return Deltas.sum_of([Deltas.of(*line.differences()), Deltas.of_windows(ordinals, amounts, starts, ends)])


def shown(start: int, end: int) -> str:
    """A window as messages show it."""
    return f"[{start}, {'for ever' if end >= FOREVER else end})"


def _wrong_window(start: int, end: int) -> UsageError:
    return UsageError(f"window {shown(start, end)}: expected start < end and a finite start")

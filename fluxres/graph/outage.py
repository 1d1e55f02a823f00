"""Pools that take no new work: those in a state that forbids it, those below them (rule A7), and those that only they supply
(F3).

A node whose only PDU is down has no power.  So every question about availability consults this module, for all three causes at
once.  A pool with another live supplier is not cut off and draws from that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from fluxres.arrays import Int32, Mask
from fluxres.graph.accounts import Pools
from fluxres.graph.feeds import Feeds
from fluxres.graph.forest import are_in, in_slices, topmost
from fluxres.graph.kinds import UNAVAILABLE_CODES

Dead = dict[int, Mask]
"""By type number of a graph's edges: which of them (as rows of its feeds) come from a supplier that gives nothing."""
NOTHING_DEAD: Final[Dead] = {}


class Outage:
    """What is out of service in one structure with its present states.

    Args:
        feeds: the graphs in which some pool supplies another; called only if something is out of service.
        out: the topmost pools that are out of service, ascending; by default those whose own state forbids new work.

    Cost: a vector operation over the states; if a supplier is out of service, some over its graph and over the pools.
    """

    def __init__(self, pools: Pools, feeds: Callable[[], Sequence[Feeds]], out: Int32 | None = None) -> None:
        self._pools = pools
        #: Topmost pools whose own state forbids new work, ascending.
        self.stated = _stated(pools) if out is None else out
        #: Topmost pools of the subtrees that take no new work, ascending, none below another.
        self.roots = self.stated
        self.dead: Dead = NOTHING_DEAD
        self._cut: list[tuple[Feeds, Mask]] = []
        if len(self.stated):
            self._spread(feeds())

    def _spread(self, every: Sequence[Feeds]) -> None:
        for feeds in every:
            out = self.is_stated(feeds.above) if feeds.is_vital else np.zeros(0, np.bool_)
            if out.any():
                dead, cut = reach(feeds, out)
                self.dead = {**self.dead, feeds.kind: dead}
                if cut.any():
                    self._cut.append((feeds, cut))
        if self._cut:
            self.roots = self._all_roots()

    def is_stated(self, vertices: Int32) -> Mask:
        """Whether each pool, or one of its ancestors, is in a state that forbids new work."""
        return self._are_in(self.stated, vertices)

    def is_cut_off(self, vertices: Int32) -> Mask:
        """Whether each pool takes no new work only because of its suppliers."""
        return self._are_in(self.roots, vertices) & ~self.is_stated(vertices)

    def _are_in(self, tops: Int32, vertices: Int32) -> Mask:
        return are_in(self._pools.end, tops, vertices)

    def _all_roots(self) -> Int32:
        pools = self._pools
        mask = in_slices(self.stated, pools.end[self.stated], pools.n)
        for feeds, cut in self._cut:
            mask |= _cut_off(pools, feeds, cut)
        return _tops_of(pools, mask)

    def affected(self, vertices: Int32, feeds: Callable[[], Sequence[Feeds]]) -> Int32:
        """The topmost pools that take no new work while some pools are out of service, ascending.

        That is these pools, those that only they supply, and those whose other suppliers are out of service now.
        """
        pools = self._pools
        tops = topmost(pools.end, np.unique(vertices).astype(np.int32))
        alone = Outage(pools, feeds, tops)
        if not len(self.stated):
            return alone.roots
        others = self.stated[~are_in(pools.end, tops, self.stated)]
        without, both = (Outage(pools, feeds, topmost(pools.end, out)) for out in (others, np.union1d(others, tops)))
        # Pool by pool: a rack may be out as a whole, of which a part is out anyway.
        return _tops_of(pools, alone._mask() | both._mask() & ~without._mask())

    def _mask(self) -> Mask:
        """Whether each pool takes no new work."""
        return in_slices(self.roots, self._pools.end[self.roots], self._pools.n)

    # -- one pool ----------------------------------------------------------------------------------------------------

    def is_out(self, v: int) -> bool:
        """Whether a pool takes no new work."""
        at = int(np.searchsorted(self.roots, v, side="right")) - 1
        return at >= 0 and v < self._pools.end.item(int(self.roots[at]))

    def culprit(self, v: int) -> int:
        """The first of :meth:`culprits`; -1 for none."""
        return next(iter(self.culprits(v)), -1)

    def culprits(self, v: int) -> list[int]:
        """The pools whose own state keeps `v` from new work.

        That is the topmost such pool among `v` and its ancestors, or all suppliers whose outage cuts it off; empty if `v` takes
        new work.
        """
        if not len(self.roots) or not self.is_out(v):
            return []
        above = self._stated_above(v)
        if above >= 0:
            return [above]
        for feeds, cut in self._cut:
            places = feeds.arrivals(v)
            if places and all(cut[feeds.supplied.searchsorted(place)] for place in places):
                return self._behind(feeds, places)
        raise AssertionError(f"pool {v} is out of service without a cause")

    def _stated_above(self, v: int) -> int:
        at = int(np.searchsorted(self.stated, v, side="right")) - 1
        return int(self.stated[at]) if at >= 0 and v < self._pools.end.item(int(self.stated[at])) else -1

    def _behind(self, feeds: Feeds, places: list[int]) -> list[int]:
        """The pools whose state cuts others off, nearest first."""
        todo, seen = list(places), set(places)
        found: dict[int, None] = {}
        for at in todo:
            for row in feeds.rows_into(at):
                above = self._stated_above(feeds.above.item(row))
                if above >= 0:
                    found[above] = None
                    continue
                onward = feeds.places.item(row)
                if onward >= 0 and (above := feeds.supplied.item(onward)) not in seen:
                    seen.add(above)
                    todo.append(above)
        return list(found)


def _tops_of(pools: Pools, mask: Mask) -> Int32:
    """The topmost pools that are marked with all below them; one with a descendant that is not, such as a cut-off pool with a
    descendant that has a supply of its own, is none."""
    before = np.concatenate([[0], np.cumsum(mask)])
    full = before[pools.end] - before[:-1] == pools.end - np.arange(pools.n)
    roots: Int32 = np.flatnonzero(full & ~(full[pools.parent] & (pools.parent >= 0))).astype(np.int32)
    return roots


def _stated(pools: Pools) -> Int32:
    return topmost(pools.end, np.flatnonzero(np.isin(pools.state, UNAVAILABLE_CODES)).astype(np.int32))


def reach(feeds: Feeds, out: Mask) -> tuple[Mask, Mask]:
    """Which edges come from a supplier that gives nothing, and which supplied pools are left without supply.

    A supplier gives nothing if it is out of service, or if all that supplies it gives nothing.
    """
    cut = np.zeros(len(feeds.supplied), np.bool_)
    while True:
        dead = out | (cut[feeds.places] & (feeds.places >= 0))
        now_cut = np.bincount(feeds.groups, ~dead, minlength=len(cut)) == 0
        if (now_cut == cut).all():
            return dead, cut
        cut = now_cut


def _cut_off(pools: Pools, feeds: Feeds, cut: Mask) -> Mask:
    """The pools that one graph no longer reaches: those supplied and cut off, and those supplied through them."""
    mask = np.zeros(pools.n, np.bool_)
    parts = dict(zip(feeds.supplied.tolist(), cut.tolist(), strict=True))
    for node, entries in feeds.cards():
        parts[node] = all(parts[entry] for entry in entries)
    for v, is_cut in sorted(parts.items()):
        if is_cut or mask[v]:
            mask[v : pools.end.item(v)] = is_cut
    return mask

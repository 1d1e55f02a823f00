"""Supply paths of one auxiliary graph: from the pool where a supply enters, up through all suppliers that pass it on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.feeds import Feeds
from fluxres.graph.outage import reach


class Way(NamedTuple):
    """What is on a supply path.

    Args:
        pools: suppliers, ascending.
        edges: accounts of the edges with a capacity, ascending.
    """

    pools: tuple[int, ...]
    edges: tuple[int, ...]


class Ways:
    """The supply paths of one graph.  Cost: each is walked once for all pools with the same suppliers.

    Args:
        dead: by edge, whether it comes from a supplier that gives nothing; such edges are ignored if there are others.
        only_ways: whether suppliers are pass-through pools without units; called where one of several suppliers is enough.
    """

    def __init__(self, feeds: Feeds, dead: NDArray[np.bool_] | None, only_ways: Callable[[Feeds], NDArray[np.bool_]]) -> None:
        self.feeds = feeds
        self._dead = dead
        self._only_ways = only_ways
        self._farther: dict[tuple[int, ...], Way] = {}

    def of(self, entry: int) -> Way:
        """The supply path of a pool that has suppliers."""
        feeds = self.feeds
        rows = self._live(entry)
        found = self.beyond(tuple(feeds.above.item(row) for row in rows))
        if not feeds.is_limited:
            return found
        own = {v for row in rows for v in feeds.limits(row)}
        return Way(found.pools, tuple(sorted(own.union(found.edges))))

    def entries(self, v: int) -> list[int]:
        """The pools through which a pool is supplied: of the cards of a node, those that receive anything, if there are any."""
        entries = self.feeds.entries(v)
        if self._dead is None or len(entries) < 2:
            return entries
        return [u for u in entries if not all(self._dead[row] for row in self.feeds.rows_into(u))] or entries

    def _live(self, place: int) -> Sequence[int]:
        """The edges into a pool through which anything comes; all of them if nothing does."""
        every = self.feeds.rows_into(place)
        rows = every if self._dead is None else [row for row in every if not self._dead[row]] or every
        alternative = self.feeds.alternative
        if alternative is None or len(rows) < 2:
            return rows
        # Of alternative suppliers, the first one with units of its own gives; the others stand by.
        several = [row for row in rows if alternative[row]]
        if len(several) > 1 and (spent := self._spent) is not None:
            several = [row for row in several if not spent[row]] or several
        return [row for row in rows if row in several[:1] or not alternative[row]]

    def standing_by(self, u: int) -> list[int]:
        """Suppliers in service from which the pools supplied by this one would draw if it gave nothing.

        Cost: the edges from and to these pools.
        """
        feeds, alternative = self.feeds, self.feeds.alternative
        if alternative is None:
            return []
        found: set[int] = set()
        for place in feeds.below[(feeds.above == u) & alternative].tolist():
            live = self._live(place)
            others = [row for row in feeds.rows_into(place) if alternative[row] and row not in live]
            found.update(feeds.above.item(row) for row in others if self._dead is None or not self._dead[row])
        return sorted(found - {u})

    @cached_property
    def _spent(self) -> NDArray[np.bool_] | None:
        """By edge, whether its supplier, or all suppliers farther up, are pass-through pools; None if none are."""
        nothing = self._only_ways(self.feeds)
        if not nothing.any():
            return None
        return reach(self.feeds, nothing if self._dead is None else nothing | self._dead)[0]

    def beyond(self, suppliers: tuple[int, ...]) -> Way:
        """The supply path from these suppliers on, including them."""
        found = self._farther.get(suppliers)
        if found is None:
            found = self._farther[suppliers] = self._walk(suppliers)
        return found

    def _walk(self, suppliers: tuple[int, ...]) -> Way:
        feeds = self.feeds
        met: set[int] = set()
        edges: set[int] = set()
        todo = list(suppliers)
        while todo:
            u = todo.pop()
            if u in met:
                continue
            met.add(u)
            place, beside = feeds.onward(u)
            rows = self._live(place)
            todo += [feeds.above.item(row) for row in rows]
            todo += [beside] * (beside >= 0)
            if feeds.is_limited:
                edges.update(v for row in rows for v in feeds.limits(row))
        return Way(tuple(sorted(met)), tuple(sorted(edges)))

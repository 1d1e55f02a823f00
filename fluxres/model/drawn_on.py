"""What pools go on drawing when a job holds them longer (rule F2).

What a pool draws by itself follows from what the job holds exclusively at each moment: it is drawn once for a pool, from the
suppliers that it drew from before.  What a request asked for goes on from the end of what it was asked for, beside that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fluxres.allocation import steps
from fluxres.allocation.drawn import Consumers
from fluxres.allocation.steps import Steps
from fluxres.allocation.subtrees import Subtrees, both, minus, topmost
from fluxres.graph.draws import Draws

if TYPE_CHECKING:
    from fluxres.match.typology import Typology
    from fluxres.model.resource_graph import ResourceGraph

Span = tuple[int, int, int]
"""Start, end and units."""
Rows = dict[Consumers, dict[int, Steps]]
"""By pools and account, what was drawn for them from it."""
Piece = tuple[int, int, Consumers, int, int]
"""Start, end, pools, account and units drawn for them from it."""
DrawnOn = dict[tuple[Consumers, int], Steps]


def drawn_on(graph: ResourceGraph, job: str, own: Mapping[int, Steps], last: Mapping[int, Span], end: int) -> DrawnOn:
    """By pools and account, what is drawn beside what is recorded when a job holds the last parts of its pools until another end.

    Args:
        own: by pool what the job holds of it, without what it draws for others.
        last: the last spans of those that are held on, each from its end.
        end: in ticks.

    Cost: for each pool for which something is drawn, the spans of what the job holds in it and around it.
    """
    ledger = graph.records.drawn.ledgers.get(job)
    found: DrawnOn = {}
    if ledger is None:
        return found
    typology = None
    if graph.structure.kinds.may_draw:
        matcher = graph.matcher
        matcher.follow_suppliers()
        typology = matcher.typology
    rows = {consumers: graph.records.drawn.of(job, consumers) for consumers in sorted(ledger.accounts)}
    pools = sorted(own)
    for root, of_place in _by_place(typology, rows):
        parts = {v: own[v] for v in _parts(graph, root, of_place, pools) if v in own}
        stop = _only_end(of_place, parts, last)
        if stop is not None:
            ending = {(consumers, u): held[-1][2] for consumers, of_pool in of_place.items() for u, held in of_pool.items()}
            found.update({key: ((stop, end, units),) for key, units in ending.items() if stop < end})
            continue
        place = _Place(graph, typology, root, of_place, parts, last, end)
        for start, stop, consumers, account, units in (*place.asked(), *place.by_itself()):
            key = consumers, account
            found[key] = steps.add(found.get(key, ()), start, stop, units)
    return found


def _by_place(typology: Typology | None, rows: Rows) -> Iterator[tuple[int, Rows]]:
    """Rows by the node for which they are, or by the topmost of pools above nodes that are in one another.

    Those of several pools together are places of their own, -1: no pool draws them by itself.
    """
    by_root: dict[int, Rows] = {}
    top = reach = -1
    for consumers, held in rows.items():
        v = consumers[0]
        if typology is None or len(consumers) > 1:
            yield -1, {consumers: held}
            continue
        root = typology.node_at[v]
        if root < 0:
            if v >= reach:
                top, reach = v, typology.structure.end.item(v)
            root = top
        by_root.setdefault(root, {})[consumers] = held
    yield from by_root.items()


def _parts(graph: ResourceGraph, root: int, rows: Rows, pools: list[int]) -> list[int]:
    """What the job holds around the pools of a place and in them, ascending."""
    accounts, found = graph.structure.accounts, set[int]()
    for v in {v for consumers in rows for v in consumers} if root < 0 else {root}:
        found.update(accounts.ancestors(v), pools[bisect_left(pools, v) : bisect_left(pools, accounts.end.item(v))])
    return sorted(found)


def _only_end(rows: Rows, parts: Mapping[int, Steps], last: Mapping[int, Span]) -> int | None:
    """The end of everything that there is at a place, where it has one beginning and one end: then all of it goes on."""
    spans = {last[v][:2] if v in last and len(held) == 1 else None for v, held in parts.items()}
    spans |= {held[0][:2] if len(held) == 1 else None for by_account in rows.values() for held in by_account.values()}
    span = spans.pop() if len(spans) == 1 else None
    return None if span is None else span[1]


class _Place:
    """Pools for which a job draws something, and what it holds in them and around them.

    Args:
        typology: None where no pool draws anything by itself.
        root: the pool in which all of them are; -1 where none of them draws anything by itself.
        rows: what was drawn for them.
        parts: by pool, ascending, what the job holds of it, without what it draws for others.
        last, end: as for :func:`drawn_on`.
    """

    def __init__(
        self,
        graph: ResourceGraph,
        typology: Typology | None,
        root: int,
        rows: Rows,
        parts: Mapping[int, Steps],
        last: Mapping[int, Span],
        end: int,
    ) -> None:
        self._accounts, self._typology = graph.structure.accounts, typology
        self._draws = Draws(graph.structure) if typology is None else typology.draws
        self._root, self._rows, self._parts, self._end = root, rows, parts, end
        self._last = {v: last[v] for v in parts if v in last and last[v][1] < end}
        held = [span for spans in parts.values() for span in spans]
        held += [span for by_account in rows.values() for spans in by_account.values() for span in spans]
        #: Between two of these, nothing changes.
        self._cuts = sorted({0, end, *(at for start, stop, _ in held for at in (start, stop) if at < end)})
        #: By name, the units that the pools of the place up to each of them draw.
        self._sums: dict[str, NDArray[np.int64]] = {}

    # -- what a request asked for --------------------------------------------------------------------------------------

    def asked(self) -> Iterator[Piece]:
        """What goes on from the end of a part of what it was asked for."""
        for consumers, by_account in self._rows.items():
            near = [v for v in self._parts if self._is_near(v, consumers)]
            for stop in sorted({self._last[v][1] for v in near if v in self._last}):
                before = self._before(stop)
                goes_on = any(self._has(v, consumers, before) and self._has(v, consumers, stop) for v in near)
                for account in by_account:
                    kept = self._units_asked(consumers, account, stop) if goes_on else 0
                    units = self._units_asked(consumers, account, before) - kept
                    if units > 0:
                        yield stop, self._end, consumers, account, units

    def _units_asked(self, consumers: Consumers, account: int, moment: int) -> int:
        units = steps.amount_at(self._rows[consumers][account], moment)
        return units - self._default(consumers, moment).get(account, 0) if units else 0

    def _is_near(self, v: int, consumers: Consumers) -> bool:
        """Whether a pool is one of some others, in them or around them."""
        end = self._accounts.end.item
        return any(v <= u < end(v) or u <= v < end(u) for u in consumers)

    def _has(self, v: int, consumers: Consumers, moment: int) -> bool:
        """Whether the job has something of some pools by a part at a moment: in them anything, around them all of it."""
        units = steps.amount_at(self._parts[v], moment)
        return units > 0 and (units == self._accounts.size.item(v) or any(u <= v for u in consumers))

    # -- what pools draw by themselves ---------------------------------------------------------------------------------

    def by_itself(self) -> Iterator[Piece]:
        """What pools draw that come to be held exclusively at moments at which they were not."""
        if self._typology is None or self._root < 0 or not self._last:
            return
        first = bisect_left(self._cuts, min(stop for _, stop, _ in self._last.values()))
        for at in range(first, len(self._cuts) - 1):
            start, stop = self._cuts[at : at + 2]
            after = self._whole(start, after=True)
            left = minus(after, self._whole(start))
            # Each of these was held exclusively before: as it drew then, it goes on drawing.
            for moment in reversed(self._cuts[:at]) if left else ():
                whole = self._whole(moment)
                for consumers, account, units in self._drawn(moment, both(left, whole), after):
                    yield start, stop, consumers, account, units
                left = minus(left, whole)
                if not left:
                    break

    def _drawn(self, moment: int, pools: Subtrees, after: Subtrees) -> Iterator[tuple[Consumers, int, int]]:
        """What some pools drew at a moment, for the topmost of them that are held exclusively from now on."""
        for consumers in self._rows if pools else ():
            default = self._default(consumers, moment)
            for account, units in default.items():
                names = self._draws.names_of(account)
                every = sum(self._own(name, self._carried(consumers[0], name, moment)) for name in names)
                for top in after:
                    some = sum(
                        self._own(name, both(both([top], pools), self._carried(consumers[0], name, moment))) for name in names
                    )
                    if some:
                        yield (max(top[0], consumers[0]),), account, ceil(units * some / every)

    def _default(self, consumers: Consumers, moment: int) -> dict[int, int]:
        """By account, as much of what is drawn for a pool at a moment as it draws by itself, with what is in it."""
        found: dict[int, int] = {}
        if self._typology is None or self._root < 0:
            return found
        (v,) = consumers
        drawn = {account: steps.amount_at(held, moment) for account, held in self._rows[consumers].items()}
        for kind, name in self._typology.drawn_by_itself.items():
            own = self._own(name, self._carried(v, name, moment))
            charges = (self._typology.paths.charged(v, kind) or ()) if own else ()
            others = {u for u in drawn if name in self._draws.names_of(u)}.difference(*(givers for givers, _ in charges))
            for givers, part in (*charges, *(((u,), Fraction(1)) for u in sorted(others))):
                room = ceil(part * own)
                for u in givers:
                    units = min(room, drawn.get(u, 0) - found.get(u, 0))
                    if units > 0:
                        found[u] = found.get(u, 0) + units
                        room -= units
        return found

    def _carried(self, v: int, name: str, moment: int) -> Subtrees:
        """Pools whose own draw is in what is drawn for a pool: those in it, but for those for which it is drawn apart."""
        end = self._accounts.end.item
        deeper = [
            (u, end(u))
            for (u, *_), by_account in self._rows.items()
            if v < u < end(v)
            and any(name in self._draws.names_of(w) and steps.amount_at(held, moment) for w, held in by_account.items())
        ]
        return minus(both([(v, end(v))], self._whole(moment)), sorted(deeper))

    def _own(self, name: str, pools: Subtrees) -> int:
        """Units that pools of the place draw by themselves."""
        assert self._typology is not None  # no pool draws anything then
        sums = self._sums.get(name)
        root = self._root
        if sums is None:
            node_of = self._typology.node_of[root : self._accounts.end.item(root)]
            own = np.where(node_of == node_of[0], self._draws.own(name)[root : root + len(node_of)], 0)
            sums = self._sums[name] = np.concatenate([[0], np.cumsum(own)])
        return sum(int(sums[stop - root] - sums[start - root]) for start, stop in pools)

    # -- what the job holds --------------------------------------------------------------------------------------------

    def _before(self, cut: int) -> int:
        """The cut before one."""
        return self._cuts[bisect_left(self._cuts, cut) - 1]

    def _whole(self, moment: int, *, after: bool = False) -> Subtrees:
        """The pools of the place that the job holds exclusively at a moment, now or once it holds the last parts longer."""
        root, end = self._root, self._accounts.end.item
        found: Subtrees = []
        for v, spans in self._parts.items():
            units = steps.amount_at(spans, moment)
            if after and v in self._last and self._last[v][1] <= moment:
                units = self._last[v][2]
            if units == self._accounts.size.item(v):
                found.append((max(v, root), min(end(v), end(root))))
        return topmost(found)

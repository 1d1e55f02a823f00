"""Extend or shorten what a job holds: all of its pools, or none.

The units that the job holds of a pool at the end are held until the new end, or freed from the new end on.  Units that an
exclusive pool above implies (rule A5) count like recorded ones.  The states of pools do not matter, because the job holds them
already (rule A7).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fluxres.allocation import plans, steps
from fluxres.allocation.drawn import Consumers, Rows
from fluxres.allocation.planned import Batch, Piece, Planned, Target, Window
from fluxres.allocation.steps import Steps, Subtrees, both, minus, topmost
from fluxres.arrays import Int64
from fluxres.clock import FOREVER, Length, Time, length_ticks, seconds, ticks
from fluxres.errors import FluxresError, InsufficientResources, NotHeld, UsageError
from fluxres.graph.draws import Draws
from fluxres.syntax.moment import in_message, to_the_second

if TYPE_CHECKING:
    from fluxres.allocation.records import Records
    from fluxres.match.typology import Typology
    from fluxres.model.resource_graph import ResourceGraph


class Longer(NamedTuple):
    """What stays held in a window: pools with units, and what is drawn for which of them."""

    window: Window
    named: list[Target]
    drawn: Rows


class Move(NamedTuple):
    """A checked move of an end.

    Args:
        longer: by window, what stays held, and what is drawn for which of it.
        shorter: what is freed.
    """

    longer: list[tuple[Planned, Rows]]
    shorter: Batch | list[Piece]

    def apply(self, records: Records, job: str) -> None:
        """Move the end; if a part of it exceeds the bounds of the planner, nothing changes."""
        slots = records.slots_of.get(job)
        held_on: list[Planned] = []
        try:
            for planned, drawn in self.longer:
                records.allocate(planned.changes, job, *planned.window, drawn=drawn, drawn_on=False)
                held_on.append(planned)
        except FluxresError:
            for changes, window in reversed(held_on):
                records.free([(change.v, change.amount, *window) for change in changes], job)
            raise
        finally:
            if slots is not None:
                records.slots_of[job] = slots
        if self.shorter:
            records.free(self.shorter, job)
            if slots is not None:
                records.slots_of[job] = slots


def _given(records: Records, job: str) -> dict[int, Steps]:
    """By pool, ascending, what the job holds over time, recorded or implied.

    Errors: UnknownJob.
    """
    records.require_job(job)
    return {v: records.given(v, job) for v in records.pools_with_implied(job)}


def end_of(graph: ResourceGraph, job: str, end: Time | None, duration_s: Length | None) -> int:
    """The new end in ticks; a duration counts from the job's first start.

    Errors: UnknownJob; UsageError unless one of the two is given.
    """
    given = _given(graph.records, job)
    if (end is None) == (duration_s is None):
        wrong = "both an end and a duration were given" if end is not None else "neither an end nor a duration was given"
        raise UsageError(wrong, hint="give one of them; an end must be finite")
    if end is not None:
        return ticks(end, "end", graph.now())
    assert duration_s is not None  # one of the two is given
    return min(min(spans[0][0] for spans in given.values()) + length_ticks(duration_s), FOREVER)


def plan(graph: ResourceGraph, job: str, end: int, now: int) -> Move:
    """Check the move of a job's end.

    Args:
        end, now: in ticks; what ended by now stays as it is.

    Errors: UnknownJob; NotHeld for a job that has ended; UsageError for an end in the past or before the job begins;
    InsufficientResources with the jobs in the way, and the latest end that is possible.
    """
    records = graph.records
    given = _given(records, job)
    lasting = _lasting(job, given, now)
    _require_later(job, lasting.values(), end, now)
    shorter = [(v, None) for v, spans in lasting.items() if spans[-1][1] > end]
    pieces = plans.free(records, job, shorter, end, None) if shorter else []
    longer = _longer(graph, job, given, end, now)
    try:
        with records.structure.lifted():
            return Move([(_plan(records, job, window, named), drawn) for window, named, drawn in longer], pieces)
    except InsufficientResources as error:
        latest = _latest(records, job, longer)
        raise InsufficientResources(
            error.message,
            where=error.where,
            hint="it cannot be extended" if latest is None else f"free until {in_message(seconds(latest))}",
            reasons=error.reasons,
        ) from None


def latest_end(graph: ResourceGraph, job: str, now: int) -> int:
    """The latest end that `plan` would accept, in ticks; FOREVER if nothing is in the way.

    Errors: UnknownJob; NotHeld for a job that has ended; UsageError for a job that begins later and that nothing stops.
    """
    records, given = graph.records, _given(graph.records, job)
    lasting = _lasting(job, given, now)
    longer = _longer(graph, job, given, FOREVER, now)
    try:
        with records.structure.lifted():
            for window, named, _ in longer:
                _plan(records, job, window, named)
    except InsufficientResources:
        latest = _latest(records, job, longer)
        return max(spans[-1][1] for spans in lasting.values()) if latest is None else latest
    _require_later(job, lasting.values(), FOREVER, now)
    return FOREVER


def _plan(records: Records, job: str, window: Window, named: list[Target]) -> Planned:
    return Planned(plans.allocate(records, named, job, *window, implies=True), window)


def _lasting(job: str, given: Mapping[int, Steps], now: int) -> dict[int, Steps]:
    """What a job holds now or later.

    Errors: NotHeld if it has ended.
    """
    lasting = {v: spans for v, spans in given.items() if spans[-1][1] > now}
    if not lasting:
        over = max(spans[-1][1] for spans in given.values())
        message = f"job '{job}' ended at {to_the_second(seconds(over))}, and now is {to_the_second(seconds(now))}"
        raise NotHeld(message, hint="allocate again")
    return lasting


def _require_later(job: str, lasting: Iterable[Steps], end: int, now: int) -> None:
    if end < now:
        message = f"the end {to_the_second(seconds(end))} is in the past, now is {to_the_second(seconds(now))}"
        raise UsageError(message, hint="to end it now, free it")
    starts = [start for spans in lasting for start, stop, _ in spans if stop > now]
    if end <= min(starts):
        message = (
            f"job '{job}' would end at {in_message(seconds(end))}, not after its beginning at {in_message(seconds(min(starts)))}"
        )
        raise UsageError(message, hint="to drop it, free it")
    if end >= FOREVER and max(starts) > now:
        message = f"job '{job}' holds something from {in_message(seconds(max(starts)))} on, later than now, which needs an end"
        raise UsageError(message, hint="give a finite end")


def _longer(graph: ResourceGraph, job: str, given: dict[int, Steps], end: int, now: int) -> list[Longer]:
    """What stays held, by windows during which it does not change, so that a pool and one below it are planned together."""
    own = {v: steps.excess(spans, graph.records.drawn.total(job, v)) for v, spans in given.items()}
    last = {v: spans[-1] for v, spans in own.items() if spans and spans[-1][1] > now}
    drawn = drawn_on(graph, job, own, last, end)
    ends = {stop for _, stop, _ in last.values() if stop < end}
    ends.update(at for held in drawn.values() for start, stop, _ in held for at in (start, stop))
    found: list[Longer] = []
    for lo, hi in pairwise(sorted({*ends, end}) if ends else ()):
        named = {v: amount for v, (_, stop, amount) in last.items() if stop <= lo}
        rows: list[tuple[int, int, int]] = []
        for (consumers, account), held in drawn.items():
            if units := steps.amount_at(held, lo):
                named[account] = named.get(account, 0) + units
                rows += [(consumers[0], account, units), *((v, account, 0) for v in consumers[1:])]
        found.append(Longer((lo, hi), sorted(named.items()), np.array(sorted(rows), np.int64).reshape(-1, 3)))
    return found


def _latest(records: Records, job: str, longer: Sequence[Longer]) -> int | None:
    """The latest moment until which all of it can stay held; None if there is none after its present ends."""
    moments = records.planner.moments(longer[0].window[0] + 1, longer[-1].window[1])

    def is_free(until: int) -> bool:
        try:
            for (lo, hi), named, _ in longer:
                if lo < min(hi, until):
                    _plan(records, job, (lo, min(hi, until)), named)
        except InsufficientResources:
            return False
        return True

    low, high = -1, len(moments)
    with records.structure.lifted():
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_free(moments[middle]) else (low, middle)
    return None if low < 0 else moments[low]


TickSpan = tuple[int, int, int]
"""Start, end and units."""
_Rows = dict[Consumers, dict[int, Steps]]
"""By pools and account, the units drawn for the pools from the account."""
_Piece = tuple[int, int, Consumers, int, int]
"""Start, end, pools, account, and the units drawn for the pools from the account."""
DrawnOn = dict[tuple[Consumers, int], Steps]


def drawn_on(graph: ResourceGraph, job: str, own: Mapping[int, Steps], last: Mapping[int, TickSpan], end: int) -> DrawnOn:
    """By pools and account, what is drawn beyond the records when a job holds the last parts of its pools until a new end.

    Args:
        own: by pool, what the job holds of it, without what it draws for other pools.
        last: the last spans of the pools that stay held, each from its end.
        end: in ticks.

    Cost: for each pool with a draw, the spans of what the job holds in it and above it.
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


def _by_place(typology: Typology | None, rows: _Rows) -> Iterator[tuple[int, _Rows]]:
    """Rows grouped by the node that they are for, or by the topmost of nested pools above nodes.

    A row for several pools together is a place of its own, -1: no single pool draws it.
    """
    by_root: dict[int, _Rows] = {}
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


def _parts(graph: ResourceGraph, root: int, rows: _Rows, pools: list[int]) -> list[int]:
    """The pools of the job above the pools of a place and in them, ascending."""
    accounts, found = graph.structure.accounts, set[int]()
    for v in {v for consumers in rows for v in consumers} if root < 0 else {root}:
        found.update(accounts.ancestors(v), pools[bisect_left(pools, v) : bisect_left(pools, accounts.end.item(v))])
    return sorted(found)


def _only_end(rows: _Rows, parts: Mapping[int, Steps], last: Mapping[int, TickSpan]) -> int | None:
    """The end of everything at a place, if all of it begins and ends together: then all of it goes on."""
    spans = {last[v][:2] if v in last and len(held) == 1 else None for v, held in parts.items()}
    spans |= {held[0][:2] if len(held) == 1 else None for by_account in rows.values() for held in by_account.values()}
    span = spans.pop() if len(spans) == 1 else None
    return None if span is None else span[1]


class _Place:
    """Pools for which a job draws something, and what it holds in them and above them.

    Args:
        typology: None if no pool draws anything by itself.
        root: the pool that contains all of them; -1 if none of them draws anything by itself.
        rows: what was drawn for them.
        parts: by pool, ascending, what the job holds of it, without what it draws for other pools.
        last, end: as for :func:`drawn_on`.
    """

    def __init__(
        self,
        graph: ResourceGraph,
        typology: Typology | None,
        root: int,
        rows: _Rows,
        parts: Mapping[int, Steps],
        last: Mapping[int, TickSpan],
        end: int,
    ) -> None:
        self._accounts, self._typology = graph.structure.accounts, typology
        self._draws = Draws(graph.structure) if typology is None else typology.draws
        self._root, self._rows, self._parts, self._end = root, rows, parts, end
        self._last = {v: last[v] for v in parts if v in last and last[v][1] < end}
        held = [span for spans in parts.values() for span in spans]
        held += [span for by_account in rows.values() for spans in by_account.values() for span in spans]
        #: Nothing changes between two of these.
        self._cuts = sorted({0, end, *(at for start, stop, _ in held for at in (start, stop) if at < end)})
        #: By name, the cumulative units that the pools of the place draw.
        self._sums: dict[str, Int64] = {}

    # -- draws of a request --------------------------------------------------------------------------------------------

    def asked(self) -> Iterator[_Piece]:
        """What a request drew, and is drawn on from the end of a part of its pools."""
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
        """Whether a pool is one of the consumers, or in one, or above one."""
        end = self._accounts.end.item
        return any(v <= u < end(v) or u <= v < end(u) for u in consumers)

    def _has(self, v: int, consumers: Consumers, moment: int) -> bool:
        """Whether the job holds something of the consumers by this part at a moment: anything in them, or all of a pool above."""
        units = steps.amount_at(self._parts[v], moment)
        return units > 0 and (units == self._accounts.size.item(v) or any(u <= v for u in consumers))

    # -- the pools' own draw -------------------------------------------------------------------------------------------

    def by_itself(self) -> Iterator[_Piece]:
        """What pools draw that become held exclusively at moments at which they were not."""
        if self._typology is None or self._root < 0 or not self._last:
            return
        first = bisect_left(self._cuts, min(stop for _, stop, _ in self._last.values()))
        for at in range(first, len(self._cuts) - 1):
            start, stop = self._cuts[at : at + 2]
            after = self._whole(start, after=True)
            left = minus(after, self._whole(start))
            # Each of these was held exclusively before, and goes on drawing what it drew then.
            for moment in reversed(self._cuts[:at]) if left else ():
                whole = self._whole(moment)
                for consumers, account, units in self._drawn(moment, both(left, whole), after):
                    yield start, stop, consumers, account, units
                left = minus(left, whole)
                if not left:
                    break

    def _drawn(self, moment: int, pools: Subtrees, after: Subtrees) -> Iterator[tuple[Consumers, int, int]]:
        """What pools drew at a moment, for the topmost of them that are held exclusively from now on."""
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
        """By account, the part of what is drawn for a pool at a moment that the pool and its contents draw by themselves."""
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
        """Pools whose own draw is part of what is drawn for a pool: those in it, except those with a row of their own."""
        end = self._accounts.end.item
        deeper = [
            (u, end(u))
            for (u, *_), by_account in self._rows.items()
            if v < u < end(v)
            and any(name in self._draws.names_of(w) and steps.amount_at(held, moment) for w, held in by_account.items())
        ]
        return minus(both([(v, end(v))], self._whole(moment)), sorted(deeper))

    def _own(self, name: str, pools: Subtrees) -> int:
        """Units that pools of this place draw by themselves."""
        assert self._typology is not None  # no pool draws anything then
        sums = self._sums.get(name)
        root = self._root
        if sums is None:
            node_of = self._typology.node_of[root : self._accounts.end.item(root)]
            own = np.where(node_of == node_of[0], self._draws.own(name)[root : root + len(node_of)], 0)
            sums = self._sums[name] = np.concatenate([[0], np.cumsum(own)])
        return sum(int(sums[stop - root] - sums[start - root]) for start, stop in pools)

    # -- the job's pools -----------------------------------------------------------------------------------------------

    def _before(self, cut: int) -> int:
        return self._cuts[bisect_left(self._cuts, cut) - 1]

    def _whole(self, moment: int, *, after: bool = False) -> Subtrees:
        """The pools of the place that the job holds exclusively at a moment, now or after the move."""
        root, end = self._root, self._accounts.end.item
        found: Subtrees = []
        for v, spans in self._parts.items():
            units = steps.amount_at(spans, moment)
            if after and v in self._last and self._last[v][1] <= moment:
                units = self._last[v][2]
            if units == self._accounts.size.item(v):
                found.append((max(v, root), min(end(v), end(root))))
        return topmost(found)

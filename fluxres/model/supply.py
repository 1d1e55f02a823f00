"""What pools draw from their suppliers, and jobs through the edges of auxiliary graphs.

Pools allocated by name draw by themselves: a node of 400 W takes these from its PDU, whichever job gets it.  While something is
drawn through an edge, the edge cannot be removed or lose capacity (rule F1).  Those checks consider all records; callers leave
out the ended ones (`changes.lasting`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fluxres.allocation import steps
from fluxres.allocation.drawn import NO_ROWS, Rows
from fluxres.allocation.records import Records
from fluxres.arrays import Int32
from fluxres.clock import FOREVER
from fluxres.errors import InfeasibleRequest, InsufficientResources, StillHeld
from fluxres.graph import edges
from fluxres.graph.draws import ONLY_A_WAY, WITH_UNITS
from fluxres.graph.structure import Structure
from fluxres.model.unrecorded import may_draw

if TYPE_CHECKING:
    from fluxres.match import Matcher
    from fluxres.model.resource_graph import ResourceGraph


Named = list[tuple[int, int]]
WindowPart = tuple[tuple[int, int], Named, Rows]
"""A window, what is allocated in it, and which part of it is drawn for which pool."""


def with_draws(graph: ResourceGraph, named: Named, window: tuple[int, int], job: str | None = None) -> tuple[Named, Rows]:
    """Pools with what they draw, and for which pool it is drawn.

    If units of a type are named, only these are drawn, and nothing is added of this type, nor of a graph that distributes it.

    Args:
        job: the job that gets them; pools that it has throughout the window draw already, and do not draw twice (rule F2).

    Errors: InfeasibleRequest if nothing supplies a pool.  Cost: none if no pool draws anything.
    """
    if not graph.structure.kinds.may_draw:
        return named, NO_ROWS
    matcher = graph.matcher
    matcher.follow_suppliers()
    said = matcher.typology.said({graph.structure.accounts.type.item(v) for v, _ in named})
    records = graph.records
    draws_already = None
    if job is not None and records.is_holder(job):
        draws_already = partial(_has, records, job, window)
    charge = _Charge(graph, matcher, window, draws_already)
    for kind in matcher.typology.drawn_by_itself.keys() - said:
        for v, amount in named:
            if v < graph.structure.n and amount == graph.structure.size.item(v):
                charge.add(v, kind)
    return [*named, *sorted(charge.units.items())], np.array(sorted(charge.rows), np.int64).reshape(-1, 3)


class NamingConsumers:
    """Adds to a refusal of units that the caller did not name which pools draw them.

    Args:
        drawn: (pool, account, units) of what pools draw by themselves.
    """

    __slots__ = ("_drawn", "_graph")

    def __init__(self, graph: ResourceGraph, drawn: Rows) -> None:
        self._graph, self._drawn = graph, drawn

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, InsufficientResources | InfeasibleRequest):
            _name_consumers(self._graph, self._drawn, error)


def _name_consumers(graph: ResourceGraph, drawn: Rows, error: InsufficientResources | InfeasibleRequest) -> None:
    where = graph.structure.accounts.where
    meant = [u for u in np.unique(drawn[:, 1]).tolist() if error.where.endswith(where(u))]
    pools = np.unique(drawn[np.isin(drawn[:, 1], meant), 0]).tolist()
    if pools:
        more = len(pools) - 1
        they = f"{where(pools[0])} and {more} more draw" if more else f"{where(pools[0])} draws"
        error.message += f"; {they} them"
        if isinstance(error, InfeasibleRequest):
            error.hint = "allocate fewer of these" if more else "nothing can supply it"


def by_window(graph: ResourceGraph, named: Named, window: tuple[int, int], job: str) -> list[WindowPart]:
    """As :func:`with_draws`, split into windows in which the draws differ because the job has some of the pools already."""
    found: list[WindowPart] = []
    for part in pairwise(_moments(graph, named, window, job)):
        charged, drawn = with_draws(graph, named, part, job)
        if found and np.array_equal(found[-1][2], drawn):
            found[-1] = ((found[-1][0][0], part[1]), charged, drawn)
        else:
            found.append((part, charged, drawn))
    return found


def drawn_already(graph: ResourceGraph, named: Named, window: tuple[int, int], job: str) -> list[tuple[int, int, int]]:
    """(pool, start, end) of pools that draw by themselves and that the job already holds exclusively: they do not draw twice."""
    records, accounts = graph.records, graph.structure.accounts
    if not graph.structure.kinds.may_draw or not records.is_holder(job):
        return []
    typology = graph.matcher.typology
    names = typology.drawn_by_itself.keys() - typology.said({accounts.type.item(v) for v, _ in named})
    draws = [typology.drawn_by_itself[kind] for kind in sorted(names)]
    whole = [(v, accounts.end.item(v)) for v, amount in named if v < graph.structure.n and amount == accounts.size.item(v)]
    return [
        (u, start, end)
        for u in records.pools_with_implied(job)
        if any(v <= u < stop for v, stop in whole) and any(typology.draws.within(name, u, accounts.end.item(u)) for name in draws)
        for start, end in steps.whole(records.given(u, job), *window, 0, accounts.size.item(u))
    ]


def _moments(graph: ResourceGraph, named: Named, window: tuple[int, int], job: str) -> list[int]:
    """The ends of a window, and the moments in it at which a job's records of these pools, or above them, begin or end."""
    records, accounts = graph.records, graph.structure.accounts
    start, end = window
    found = {start, end}
    if graph.structure.kinds.may_draw and records.is_holder(job) and start < end:
        for u in records.pools_with_implied(job):
            if u < graph.structure.n and any(v <= u < accounts.end.item(v) or u <= v < accounts.end.item(u) for v, _ in named):
                found.update(at for s, e, _ in records.given(u, job) for at in (s, e) if start < at < end)
    return sorted(found) if start < end else [start, end]


def _has(records: Records, job: str, window: tuple[int, int], v: int) -> bool:
    return records.has_throughout(job, v, *window)


class _Charge:
    """Charges draws to suppliers, one after the other."""

    def __init__(
        self, graph: ResourceGraph, matcher: Matcher, window: tuple[int, int], but: Callable[[int], bool] | None
    ) -> None:
        self._but = but
        self._graph, self._typology, self._window = graph, matcher.typology, window
        self.units: dict[int, int] = {}
        self.rows: list[tuple[int, int, int]] = []

    def add(self, v: int, kind: int) -> None:
        for start, units, parts in self._typology.charged_by_itself(v, kind, self._but):
            if parts is None:
                where, name = self._graph.structure.where(start), self._typology.drawn_by_itself[kind]
                raise InfeasibleRequest(f"it draws {units} of {name}, and nothing supplies it", where=where)
            for givers, number in parts:
                self._require_own(start, givers, number)
                self._draw(start, givers, number)

    def _require_own(self, start: int, givers: tuple[int, ...], units: int) -> None:
        accounts = self._graph.structure.accounts
        if accounts.ways[list(givers)].all():
            unit = f" {accounts.unit(givers[0])}" if accounts.unit(givers[0]) else ""
            message = f"it draws {units}{unit} of {accounts.said(givers[0])}, {ONLY_A_WAY}"
            raise InfeasibleRequest(message, where=self._graph.structure.where(start), hint=WITH_UNITS)

    def _draw(self, start: int, givers: tuple[int, ...], units: int) -> None:
        # Missing units are charged to suppliers that have them at other times, so that the refusal is for now only.
        planner, accounts = self._graph.planner, self._graph.structure.accounts
        lacking, taken = units, dict.fromkeys(givers, 0)
        for most in (lambda u: planner.free(u, *self._window), accounts.units.item):
            for u in givers if lacking else ():
                more = min(lacking, max(most(u) - self.units.get(u, 0) - taken[u], 0))
                taken[u] += more
                lacking -= more
        taken[givers[-1]] += lacking
        for u, number in taken.items():
            if number:
                self.units[u] = self.units.get(u, 0) + number
                self.rows.append((start, u, number))


Ends = tuple[str, int, int]
"""Name of an auxiliary graph, source, target."""


def require_drawn(records: Records, after: Structure, between: Iterable[Ends]) -> None:
    """Refuse if an edge would carry less than jobs draw through it, or if it is not known how much they draw.

    Errors: StillHeld.
    """
    before = records.structure
    for name, src, dst in between:
        if name not in before.subsystems:
            continue
        old, new = _account(before, name, src, dst), _account(after, name, src, dst)
        there = [len(edges.rows_between(s.subsystems[name], src, dst)) > 0 for s in (before, after)]
        where = edges.said(before, name, src, dst)
        if old >= 0:
            drawn = records.planner.used(old, 0, FOREVER)
            room = math.inf if new < 0 and there[1] else 0 if new < 0 else after.accounts.size.item(new)
            if drawn > room:
                would = f"would carry {room}" if there[1] else "would be removed"
                raise StillHeld(
                    f"{_by(records, old)} {drawn} units through it, now or later, and it {would}", where=where, hint=_FREE
                )
        elif there[0] and (new >= 0 or not there[1]):
            job = may_draw(records, before.subsystems[name], src, dst, goes=not there[1])
            if job is not None:
                what = f"{job} may draw through it, and how much is not recorded, for it had no capacity"
                raise StillHeld(what, where=where, hint=_FREE)


def require_kept(records: Records, after: Structure, old_to_new: Int32) -> None:
    """Refuse if an edge through which jobs draw would be removed with a pool that is unlinked.

    Args:
        old_to_new: int32 by vertex, -1 for removed pools.

    Errors: StillHeld.
    """
    before = records.structure
    number = before.accounts.renumbered(after.accounts, old_to_new)
    for account in sorted(records.held):
        if account >= before.n and number[account] < 0 and (drawn := records.planner.used(account, 0, FOREVER)):
            where = before.accounts.where(account)
            what = f"{_by(records, account)} {drawn} units through it, now or later, and it would be removed"
            raise StillHeld(what, where=where, hint=_FREE)


_FREE = "free what draws through it first"


def _account(s: Structure, name: str, src: int, dst: int) -> int:
    graph = s.subsystems[name]
    return int(s.accounts.between(graph, np.array([src], np.int32), np.array([dst], np.int32))[0])


def _by(records: Records, account: int) -> str:
    jobs = sorted({records.job_behind(owner) for owner in records.held.get(account, ())})
    return f"{jobs[0]} draws" if len(jobs) == 1 else f"{len(jobs)} jobs draw"

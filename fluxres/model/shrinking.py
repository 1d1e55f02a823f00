"""Freeing by request: which of the job's pools match it.

The pools that the job holds form a machine, on which the request is matched as on any other, so slots, counts and constraints
have the same meaning as in an allocation.  States are ignored, because pools that are down can be freed.  Pools below one that is
held exclusively have no record that could be freed alone; they are matched only as parts of that pool.
"""

from __future__ import annotations

from dataclasses import replace
from math import floor
from typing import TYPE_CHECKING

import numpy as np

from fluxres.allocation import steps
from fluxres.allocation.drawn import Consumers
from fluxres.allocation.records import empty_planner
from fluxres.allocation.steps import Steps
from fluxres.arrays import Int32, Int64
from fluxres.clock import FOREVER
from fluxres.errors import InputError, NotHeld
from fluxres.graph import surgery
from fluxres.graph.structure import Structure
from fluxres.match import Matcher, Policy
from fluxres.match.situation import Eligible
from fluxres.model import changes
from fluxres.model.unrecorded import downward
from fluxres.syntax import unit
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

Answer = tuple[list[tuple[int, int]], int]
"""Vertices with amounts, and their number of slots."""


def answer(graph: ResourceGraph, job: str, request: Request, start: int | None, end: int | None, policy: str | Policy) -> Answer:
    """Which of the job's pools match a request.

    Args:
        start, end: window in ticks: units held throughout it if both are given, else whenever the pool is held.

    Errors: UnknownJob; NotHeld if the job does not hold such pools; UsageError, InfeasibleRequest for the request.
    Cost: arrays over the machine, and a match on what the job holds.
    """
    held = _held(graph, job, start, end)
    charged = _implied(graph, job, start, end)
    if not held:
        throughout = "throughout" if start is not None and end is not None else "in"
        raise NotHeld(f"job '{job}' holds nothing {throughout} this window", hint="`jobs` shows what it holds")
    named = None if request.queue is None else graph.structure.partition(request.queue)
    eligible = Eligible(graph.matcher.typology, request.constraint, named)
    amounts = {v: n for v, n in held.items() if eligible.of(v) and eligible.all_below(v)}
    sought = replace(request, constraint=None)
    picks, slots = _match(graph, {**amounts, **charged}, sought, policy, below=True)
    taken = {v for v, _ in picks}
    implied = [
        v for v, _ in picks if v not in amounts and not (v in charged and taken.intersection(graph.structure.ancestors(v)))
    ]
    if implied:
        picks, slots = _match(graph, amounts, sought, policy, below=False)
    if picks:
        return picks + _on_the_way(graph, job, held, picks), slots
    if implied:
        above = next(u for u in graph.structure.ancestors(implied[0]) if u in amounts)
        raise NotHeld(
            f"job '{job}' holds it only as a part of {graph.structure.where(above)}",
            where=graph.structure.where(implied[0]),
            hint=f"free {graph.structure.where(above)} instead",
        )
    why = _short(graph, amounts, sought, policy)
    raise NotHeld(f"job '{job}' does not hold that: {why}", hint="`jobs` shows what it holds")


def _held(graph: ResourceGraph, job: str, start: int | None, end: int | None) -> dict[int, int]:
    """By pool, the units that can be freed in the window: the fewest that are held at any moment of it."""
    pools = sorted(graph.records.require_job(job))
    least = {v: _least(graph.records.steps_of(v, job), start, end) for v in pools}
    return {v: amount for v, amount in least.items() if amount}


def _implied(graph: ResourceGraph, job: str, start: int | None, end: int | None) -> dict[int, int]:
    """By pool, the units charged below a supplier that the job holds exclusively: they are freed with units of the supplier."""
    pools = graph.records.implied.get(job, {})
    least = {v: _least(pools[v], start, end) for v in sorted(pools)}
    return {v: amount for v, amount in least.items() if amount}


def _least(spans: Steps, start: int | None, end: int | None) -> int:
    if start is not None and end is not None:
        return steps.least(spans, start, end)
    within = steps.within(spans, 0 if start is None else start, FOREVER if end is None else end)
    return min((units for _, _, units in within), default=0)


def _on_the_way(graph: ResourceGraph, job: str, held: dict[int, int], picks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Units of edges that are freed with units of suppliers: what the edges carried of them to the pools that draw.

    If such a pool is freed itself, everything drawn for it is freed anyway (rule F2), and is not included here.

    Args:
        held: by account, the units that can be freed.
    """
    structure, drawn = graph.structure, graph.records.drawn
    accounts, named = structure.accounts, dict(picks)
    by_account: dict[int, list[tuple[Consumers, int]]] = {}
    for owner, consumers, account, spans in drawn.rows():
        if owner == job and account in held:
            by_account.setdefault(account, []).append((consumers, min(held[account], *(n for _, _, n in spans))))
    if not any(account >= structure.n for account in by_account) or drawn.related(
        job, set(named) - set(by_account), accounts.end
    ):
        return []
    carried: dict[int, dict[Consumers, int]] = {}
    for v, units in picks:
        parts = sorted(by_account.get(v, ()), reverse=True) if v < structure.n else []
        left = units - (held.get(v, 0) - sum(n for _, n in parts))
        for consumers, most in parts:  # units drawn for the last pools go first, as in the records
            less = min(most, left)
            for edge, own in by_account.items() if less > 0 else ():
                of_edge = dict(own).get(consumers, 0)
                if edge >= structure.n and edge not in named and of_edge and _leads_on(structure, v, edge):
                    given = carried.setdefault(edge, {})
                    given[consumers] = max(
                        given.get(consumers, 0), min(of_edge, _converted(less, accounts.unit(v), accounts.unit(edge)))
                    )
            left -= less
    totals = {edge: sum(given.values()) for edge, given in carried.items()}
    return [(edge, units) for edge, units in sorted(totals.items()) if units]


def _leads_on(structure: Structure, v: int, edge: int) -> bool:
    """Whether units of a supplier may flow through an edge."""
    of_graph, *ends = structure.accounts.edge(edge)
    for feeds in structure.feeds:
        if feeds.graph is of_graph:
            starts = [v]
            if not (feeds.above == v).any():  # a supplier above it has the edges
                starts = [u for u in (*feeds.suppliers(v), structure.parent.item(v)) if u >= 0]
            return set[int]().union(*(downward(feeds, u) for u in starts)).issuperset(ends)
    return False


def _converted(units: int, from_unit: str | None, to_unit: str | None) -> int:
    """Whole units of an edge, converted from units of a supplier, rounded down; 0 if the units do not convert."""
    try:
        return floor(unit.convert(units, from_unit, to_unit)) if from_unit != to_unit else units
    except InputError:
        return 0


def _machine(structure: Structure, amounts: dict[int, int], *, below: bool) -> tuple[Structure, Int32]:
    """The held pools as a machine with everything up, and the numbers of its pools and edges in the real machine."""
    size = np.zeros(structure.n, np.int64)
    for v, amount in sorted(amounts.items()):
        if v >= structure.n:
            continue
        if below and amount == structure.size.item(v):
            size[v : structure.end.item(v)] = structure.size[v : structure.end.item(v)]
        else:
            size[v] = amount

    def carried(edges: Int32) -> Int64:
        return np.array([amounts.get(edge, 0) for edge in edges.tolist()], np.int64)

    made, vertices = surgery.extract_many(structure, size > 0, size, carried=carried)
    made.state[:] = 0
    return made, made.accounts.renumbered(structure.accounts, vertices)


def _matcher(made: Structure) -> Matcher:
    return Matcher(made, empty_planner(made), with_draws=False, with_partitions=False)


def _match(graph: ResourceGraph, amounts: dict[int, int], request: Request, policy: str | Policy, *, below: bool) -> Answer:
    if not amounts:
        return [], 0
    made, vertices = _machine(graph.structure, amounts, below=below)
    found = None if _lacking(graph.structure, made, request) else _matcher(made).match(request, 0, FOREVER, policy)
    if found is None:
        return [], 0
    changes.require_picks(found)
    return list(zip(vertices[found.vertices].tolist(), found.amounts.tolist(), strict=True)), found.nslots


def _lacking(machine: Structure, held: Structure, request: Request) -> str:
    """A type of the request that the machine has but the job does not hold; empty for none."""
    named = (vertex.type for vertex in request.vertices() if not vertex.is_slot)
    return next((name for name in named if name in machine.types and name not in held.types), "")


def _short(graph: ResourceGraph, amounts: dict[int, int], request: Request, policy: str | Policy) -> str:
    """What is missing, in words."""
    if not amounts:
        return "nothing that it holds satisfies the constraint"
    made, _ = _machine(graph.structure, amounts, below=True)
    if lacking := _lacking(graph.structure, made, request):
        return f"nothing of type {lacking}"
    refusal = _matcher(made).why_not(request, 0, FOREVER, policy)
    return "" if refusal is None else "; ".join(f"{place}: {why.removesuffix('.')}" for place, why in refusal.reasons().items())

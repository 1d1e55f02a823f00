"""A job gives back a pool, which it may hold only as a part of one above it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fluxres.allocation import steps
from fluxres.clock import FOREVER
from fluxres.errors import NotHeld
from fluxres.model import changes

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

IDLE_NODES: Final = "graph.find('type=node and available>0 and allocated=0 and not shared')"
"""For hints: finds the nodes on which nothing runs."""


def give_back(graph: ResourceGraph, job: str, v: int, now: int, limit: int) -> None:
    """Free a pool and all below it from a job that holds it, part of it, or exclusively a pool above it.

    Args:
        now, limit: what stays below such a pool above is the job's own over this window, in ticks.

    Errors: NotHeld.
    """
    _free(graph, job, v, now, limit)
    _free_cables(graph, job, v)


def _free(graph: ResourceGraph, job: str, v: int, now: int, limit: int) -> None:
    structure, records = graph.structure, graph.records
    # What it held before it got a pool above is not its own now.
    held = sorted(u for u in records.require_job(job) if steps.touches(records.steps_of(u, job), now, FOREVER))
    inside = [u for u in held if v <= u < structure.end.item(v)]
    if inside:
        graph.free(job, inside)
        return
    above = next((u for u in structure.ancestors(v) if u in held), -1)
    if above < 0:
        raise NotHeld(f"job '{job}' does not hold it", where=structure.where(v), hint="`jobs` shows what it holds")
    # The job held everything below `above` implicitly; from now on it holds the rest explicitly.
    rest: list[int] = []
    at = above
    while at != v:
        below = structure.children(at).tolist()
        at, others = next(u for u in below if u <= v < structure.end.item(u)), below
        rest += [u for u in others if u != at]
    before, is_upward = records.draws_of(job).at(now), job in records.upward
    graph.free(job, [above])
    # What it held before it got the pool above is its own again.
    pools = records.require_job(job) if records.is_holder(job) else ()
    own = {u: steps.amount_at(records.steps_of(u, job), now) for u in pools}
    if again := [u for u, amount in own.items() if amount and v <= u < structure.end.item(v)]:
        graph.free(job, again)
    rest = [u for u in rest if own.get(u, 0) < structure.size.item(u)]
    if not rest:
        return
    # What was drawn for the rest stays with it.
    left = records.draws_of(job).at(now) if records.is_holder(job) else before[:0]
    lost = np.array([row for row in before.tolist() if row not in left.tolist()], np.int64).reshape(-1, 3)
    lost = lost[[any(r < structure.end.item(u) and u < structure.end.item(r) for r in rest) for u in lost[:, 0].tolist()]]
    units: dict[int, int] = {u: structure.size.item(u) - own.get(u, 0) for u in rest}
    for _, account, amount in lost.tolist():
        units[account] = units.get(account, 0) + amount
    named = [(u, amount) for u, amount in units.items() if amount]
    changes.allocate_more(graph, job, named, (now, min(limit, FOREVER)), lost, is_routed=False if is_upward else None)


def _free_cables(graph: ResourceGraph, job: str, v: int) -> None:
    """Free what a job draws through edges into a returned pool for pools around it, such as a rack."""
    cut_off = graph.records.draws_of(job).cut_off(v)
    if cut_off:
        changes.free_pieces(graph, job, [(u, units, s, e) for u, held in cut_off.items() for s, e, units in held])

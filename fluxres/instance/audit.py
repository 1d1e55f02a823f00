"""Whether an instance and its children keep the rules: what jobs hold is in the graph, and children have what is theirs (rule
N1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fluxres.allocation import steps
from fluxres.allocation.holdings import ELSEWHERE
from fluxres.clock import FOREVER
from fluxres.errors import UnknownPool
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import Problem, Structure
from fluxres.instance.states import State
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.instance.job import Job
    from fluxres.model import ResourceGraph


def check(instance: Instance) -> list[Problem]:
    """Problems of an instance and all below it."""
    found: list[Problem] = []
    for one in instance.walk():
        graph = one.graph
        found += [Problem(p.severity, f"{one.address} {p.where}", p.message) for p in graph.check()]
        found += _jobs(one, graph)
        for child in one.children:
            found += _child(one, graph, child)
    return found


def _jobs(instance: Instance, graph: ResourceGraph) -> list[Problem]:
    known = {fluid.encode(job.number) for job in instance.jobs() if job.state is not State.INACTIVE}
    holding = set(graph.records.jobs())
    found = [
        Problem("error", instance.address, f"{name} holds resources and is no job")
        for name in sorted(holding - known - instance.foreign)
    ]
    found += [
        Problem("error", instance.address, f"{job.id} runs and holds nothing")
        for job in instance.jobs(State.RUN, State.CLEANUP)
        if job.claim is not None and instance.inventory.vertices(job.claim) and fluid.encode(job.number) not in holding
    ]
    return found


def _child(parent: Instance, graph: ResourceGraph, child: Instance) -> list[Problem]:
    job = child.job_in_parent
    if job is None or job.child is not child or job.state not in (State.RUN, State.CLEANUP):
        return [Problem("error", child.address, "rule N1: no running job of the parent has this child")]
    structure = child._graph.structure
    own = np.flatnonzero((structure.flags & WAY) == 0).tolist()
    lacking = [v for v in own if _held(graph, job, structure, v) < structure.size.item(v)]
    return [*(_n1(child, v, "the job in the parent does not hold it") for v in lacking), *_drawn(child, graph, job)]


def _drawn(child: Instance, graph: ResourceGraph, job: Job) -> list[Problem]:
    """Suppliers that the child shares with others: its job in the parent draws as much as the child, all others the rest."""
    upstream, own = child.upstream, child._graph.records
    if upstream is None:
        return []
    upstream.refresh()
    records, name, now = graph.records, fluid.encode(job.number), job.instance.now
    found = []
    for v, p in upstream.above().items():
        held = steps.canonical([*records.steps_of(p, name), *records.implied.get(name, {}).get(p, ())])
        drawn = upstream.drawn(v)
        if list(steps.within(held, now, FOREVER)) != list(steps.within(drawn, now, FOREVER)):
            found.append(_n1(child, v, f"the child draws {drawn}, and its job in the parent {held}"))
        if own.steps_of(v, ELSEWHERE) != upstream.elsewhere(p):
            found.append(_n1(child, v, "what other instances draw does not show in the child"))
    return found


def _n1(child: Instance, v: int, message: str) -> Problem:
    return Problem("error", f"{child.address} {child._graph.structure.where(v)}", f"rule N1: {message}")


def _held(graph: ResourceGraph, job: Job, of_child: Structure, v: int) -> int:
    """Units of a pool of the child that its job in the parent holds, by a record or implied by one above."""
    structure, held, name = graph.structure, graph.records.held, fluid.encode(job.number)
    try:
        p = structure.vertex(of_child.where(v))
    except UnknownPool:
        return 0
    now = job.instance.now
    for u in (p, *structure.ancestors(p)):
        amount = max((n for s, e, n in held.get(u, {}).get(name, ()) if s <= now < e), default=0)
        if amount == structure.size.item(u):
            return structure.size.item(p)
        if u == p and amount:
            return amount
    return 0

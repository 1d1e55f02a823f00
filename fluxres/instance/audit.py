"""Whether an instance and its children keep the rules: what jobs hold is in the graph, children have what is theirs (rule N1),
and what a job has is its own until it has ended (rule T1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluxres.allocation import steps
from fluxres.errors import UnknownPool
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import Problem
from fluxres.instance.states import State
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.instance.job import Job
    from fluxres.model import ResourceGraph


def check(instance: Instance) -> list[Problem]:
    """Problems of an instance and all below it; what is due is done first."""
    now = instance._time.look()
    for one in list(instance.walk()):
        if not one.is_closed:
            one._go_on(now)
    found: list[Problem] = []
    for one in instance.walk():
        graph = one._shown()
        found += [Problem(p.severity, f"{one.address} {p.where}", p.message) for p in graph.check()]
        found += _jobs(one, graph)
        found += _late(one, graph)
        for child in one.children:
            found += _child(one, graph, child)
    return found


def _jobs(instance: Instance, graph: ResourceGraph) -> list[Problem]:
    known = {fluid.encode(job.number) for job in instance.jobs() if job.state is not State.INACTIVE}
    holding = set(graph.jobs())
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


def _late(instance: Instance, graph: ResourceGraph) -> list[Problem]:
    """Rule T1, as far as a state shows it: jobs past their limit are asked to stop, and jobs that have not ended hold what they
    have."""
    found, now = [], instance._time.now
    for job in instance.jobs(State.RUN, State.CLEANUP):
        if job.state is State.RUN and job.limit < now:
            found.append(Problem("error", instance.address, f"rule T1: {job.id} is past its limit and was not asked to stop"))
        if job.claim is None or job.limit == now or job.started > now:
            continue  # it may end at this very moment, or its start is being decided
        for v, others in _lost(graph, fluid.encode(job.number), instance.inventory.vertices(job.claim), now):
            who = f"; {', '.join(others)} does" if others else ""
            where = f"{instance.address} {graph.structure.where(v)}"
            found.append(Problem("error", where, f"rule T1: {job.id} has not ended, and does not hold it any more{who}"))
    return found


def _lost(graph: ResourceGraph, job: str, vertices: list[int], now: int) -> list[tuple[int, list[str]]]:
    """Pools that a job has and does not hold in the records at this moment, nor by their parts; and which jobs do.

    Args:
        vertices: what it has, below whole pools or not.
    """
    structure, records = graph.structure, graph.records
    found: list[tuple[int, list[str]]] = []
    todo, had = sorted(vertices), records.pools_of.get(job, set()) | set(vertices)
    while todo:
        v = todo.pop()
        if steps.amount_at(records.steps_of(v, job), now) or any(
            steps.amount_at(records.steps_of(u, job), now) == structure.size.item(u) for u in structure.ancestors(v)
        ):
            continue
        below = structure.children(v).tolist()
        if any(u in had or job in records.shared.get(u, ()) for u in below):
            todo += [u for u in below if u not in had]  # others hold a part of it, and the job the rest
        else:
            near = (v, *structure.ancestors(v), *below)
            found.append((v, sorted({name for u in near for name, *_ in records.spans(u, now, now + 1)} - {job})))
    return found


def _child(parent: Instance, graph: ResourceGraph, child: Instance) -> list[Problem]:
    job = child.job_in_parent
    if job is None or job.child is not child or job.state not in (State.RUN, State.CLEANUP):
        return [Problem("error", child.address, "rule N1: no running job of the parent has this child")]
    if job.limit <= parent._time.now and parent.keeps_limits:
        return []  # it ends at this moment, and the child with it
    structure = child._graph.structure
    found = []
    for v in range(structure.tree_end):
        if structure.flags.item(v) & WAY:
            continue
        path = structure.path(v)
        if _held(graph, job, path) < structure.size.item(v):
            found.append(Problem("error", f"{child.address} {path}", "rule N1: the job in the parent does not hold it"))
    return found


def _held(graph: ResourceGraph, job: Job, path: str) -> int:
    """Units of a pool that a job holds, by a record or implied by one above."""
    structure, held, name = graph.structure, graph.records.held, fluid.encode(job.number)
    try:
        v = structure.vertex(path)
    except UnknownPool:
        return 0
    now = job.instance.now
    for u in (v, *structure.ancestors(v)):
        amount = max((n for s, e, n in held.get(u, {}).get(name, ()) if s <= now < e), default=0)
        if amount == structure.size.item(u):
            return structure.size.item(v)
        if u == v and amount:
            return amount
    return 0

"""Whether an instance and its children keep the rules: what jobs hold is in the graph, and children have what is theirs (rule
N1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def _child(parent: Instance, graph: ResourceGraph, child: Instance) -> list[Problem]:
    job = child.job_in_parent
    if job is None or job.child is not child or job.state not in (State.RUN, State.CLEANUP):
        return [Problem("error", child.address, "rule N1: no running job of the parent has this child")]
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

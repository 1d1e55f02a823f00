"""Plan a hierarchy of processes before any of them is started.

The parts are allocated and copied exactly as the instances will do it. So a hierarchy that needs more than the machine has, or
whose smallest instance is too small for a job, is refused before anything is started.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from fluxres import clock as clocks
from fluxres import limits
from fluxres.errors import InfeasibleRequest, LimitExceeded, UsageError
from fluxres.graph.draws import ONLY_A_WAY
from fluxres.instance import Instance
from fluxres.launch import work
from fluxres.launch.facts import Facts, facts
from fluxres.launch.protocol import Begin, line
from fluxres.launch.shares import child_begins
from fluxres.syntax.jobspec import as_request

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph
    from fluxres.syntax.jobspec import Request


class Planned(NamedTuple):
    """A planned instance: its name, the jobs of it and those below, its resources, the number of its children."""

    tree_id: str
    jobs: int
    has: Facts
    children: int


def instances(fan_outs: tuple[int, ...]) -> int:
    """The number of instances, including the outermost.

    >>> instances(()), instances((2, 4))
    (1, 11)
    """
    return sum(prod(fan_outs[:level]) for level in range(len(fan_outs) + 1))


def plan(graph: ResourceGraph, begin: Begin) -> list[Planned]:
    """The instances of a hierarchy, parents before their children.

    Errors: LimitExceeded for too many; InfeasibleRequest if there are not enough pools for the instances, or in an instance for a
    job; UsageError for parameters that are not a valid hierarchy.
    """
    if begin.instances > limits.INSTANCE_PROCESSES_MAX:
        raise LimitExceeded(
            f"{begin.instances} instances, expected at most {limits.INSTANCE_PROCESSES_MAX} processes",
            where=begin.tree_id,
            hint="'fluxres simulate --hierarchy' allows more",
        )
    if len(begin.fan_outs) >= limits.INSTANCE_DEPTH_MAX:
        raise LimitExceeded(f"expected at most {limits.INSTANCE_DEPTH_MAX} levels of instances", where=begin.tree_id)
    if begin.jobs < 0:
        raise UsageError(f"expected a number of jobs, got {begin.jobs}", where="jobs")
    work.parse(begin.job)
    line(begin)
    return list(_plan(graph, begin, as_request(begin.request)))


_ASKS_NO_PARENT: Final = (
    "a process has only the units of its part and cannot ask its parent for more: give the nodes a `draw`, "
    "or use `fluxres simulate --hierarchy`, whose instances share suppliers"
)


def _plan(graph: ResourceGraph, begin: Begin, request: Request) -> list[Planned]:
    fan_outs = begin.fan_outs
    found = [Planned(begin.tree_id, begin.jobs, facts(graph), fan_outs[0] if fan_outs else 0)]
    top = Instance(
        graph,
        queue_policy=begin.queue_policies[0],
        match_policy=begin.match_policies[0],
        inventory="graph",
        name=begin.tree_id,
        clock=clocks.fixed(),
        events=False,
    )
    if not fan_outs:
        try:
            top.submit(request, duration_s=begin.duration_s)
        except InfeasibleRequest as error:
            raise InfeasibleRequest(
                f"a job asks for more than this instance has: {error.message}",
                where=begin.tree_id,
                hint=_ASKS_NO_PARENT if ONLY_A_WAY in error.message else "use smaller fan-outs, or let jobs ask for less",
                reasons=error.reasons,
            ) from None
        return found
    for part, child in child_begins(graph, begin):
        job = top.submit(part)
        if job.started_at is None:
            raise _nothing_left(graph, begin.tree_id, child.tree_id, part)
        found += _plan(graph.copy(job=str(job.id)), child, request)
    return found


def _nothing_left(graph: ResourceGraph, where: str, child: str, part: Request) -> InfeasibleRequest:
    """Why there is no part for one more child."""
    refusal = graph.why_not(part)
    short = [] if refusal is None else [one for one in refusal.parts if one.is_short]
    hint = "use a smaller fan-out"
    if any(one.each for one in short):
        hint = "the children share the complete machine, and its suppliers cannot supply all of it: copy a part (fluxres copy)"
    reasons = {} if refusal is None else refusal.reasons()
    said = "".join(f": {place}: {why}" for place, why in list(reasons.items())[:1]).removesuffix(".")
    return InfeasibleRequest(f"there is nothing left for {child}{said}", where=where, hint=hint, reasons=reasons)

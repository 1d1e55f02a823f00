"""An instance as values that a store keeps, and an instance made of them again.

What is kept is what cannot be found out again: the jobs, their states and what they wait for. Reservations are not: the next pass
of the policy makes them. An instance that is kept has the inventory `graph`, so what its jobs hold is in the records of its
graph; of a child, whose graph is a copy, the pools of each job are kept. Its jobs run unattended: somebody reports their end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fluxres.clock import FOREVER
from fluxres.errors import UsageError
from fluxres.instance import recording
from fluxres.instance.charged import Charged
from fluxres.instance.instance import Instance
from fluxres.instance.inventory import Hold
from fluxres.instance.job import Dependency, Failure, Job, JobEvent
from fluxres.instance.states import RUNNING, State
from fluxres.model import ResourceGraph
from fluxres.syntax import constraint, fluid, jobspec
from fluxres.syntax.jobspec import Request

POLICIES: Final = ("fcfs", "easy", "easy-count", "easy-sjbf", "hybrid", "conservative")
"""Queue policies that decide by the jobs that are there: others have a memory, which would be lost."""


class SavedJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job. Times are ticks; -1 is a time that is not known, and no duration or limit is None.

    Args:
        waits_for: the dependencies that are not satisfied.
        pools: what it holds, by path.
        size: in units of what its instance measures in.
    """

    number: int
    request: dict[str, Any]
    duration: int | None
    submitted: int
    state: str
    urgency: int
    priority: int = 0
    name: str | None = None
    user: str | None = None
    charged: tuple[str | None, str | None, str | None, str | None] | None = None
    payload: Any = None
    started: int = -1
    limit: int | None = None
    ended: int = -1
    status: int = 0
    dependencies: tuple[tuple[str, int], ...] = ()
    waits_for: tuple[tuple[str, int], ...] = ()
    exceptions: tuple[tuple[str, int, str], ...] = ()
    pools: tuple[tuple[str, int], ...] = ()
    size: int = 0


class SavedInstance(msgspec.Struct, frozen=True, omit_defaults=True):
    """An instance without its jobs.

    Args:
        job: number of the job of its parent; 0 for an outermost one.
        ids: the generator of its job ids (RFC 19), their epoch in ticks, and the last moment and sequence number.
        now: the last moment that it handled, in ticks.
    """

    name: str
    queue_policy: str
    match_policy: str
    ids: tuple[int, int, int, int]
    now: int
    job: int = 0
    children: tuple[SavedInstance, ...] = ()


def require_policy(name: str) -> str:
    """A queue policy that a kept instance may have. Errors: UsageError."""
    if name.partition(":")[0] not in POLICIES:
        raise UsageError(f"no queue policy '{name:.80}' for an instance that is kept", hint=f"there are {', '.join(POLICIES)}")
    return name


def job(one: Job) -> SavedJob:
    """A job as it is now."""
    instance = one.instance
    assert isinstance(instance, Instance)
    return SavedJob(
        one.number,
        jobspec.to_plain(one.request),
        None if one.duration >= FOREVER else one.duration,
        one.submitted,
        one.state.name,
        one.urgency,
        one.priority,
        one.name,
        one.user,
        (one.charged.user, one.charged.account, one.charged.qos, one.charged.partition),
        one.payload,
        one.started,
        None if one.limit >= FOREVER else one.limit,
        one.ended,
        one.status,
        tuple((each.scheme, each.value) for each in one.dependencies),
        tuple((each.scheme, each.value) for each in instance.dependencies.open(one)),
        tuple((each.type, each.severity, each.note) for each in one.exceptions),
        tuple(one.pools),
        one.size,
    )


def instance(one: Instance) -> SavedInstance:
    """An instance and those below it, as they are now."""
    below = tuple(instance(child) for child in one.children)
    number = 0 if one.job_in_parent is None else one.job_in_parent.number
    return SavedInstance(one.name, one.queue_policy, one.match_policy, one.ids.state, one.now, number, below)


Jobs = Mapping[tuple[int, ...], Sequence[SavedJob]]
"""By the numbers of the jobs that lead from the outermost instance to theirs."""


def restored(graph: ResourceGraph, kept: SavedInstance, jobs: Jobs, events: Callable[[Job, JobEvent], None]) -> Instance:
    """An instance as it was kept, on the graph with what its jobs hold; `advance` handles what was due meanwhile."""
    made = Instance(graph, queue_policy=kept.queue_policy, match_policy=kept.match_policy, name=kept.name, events=events)
    made.time.now = min(made.time.now, kept.now)
    _resume(made, kept, jobs, ())
    return made


def _resume(made: Instance, kept: SavedInstance, jobs: Jobs, way: tuple[int, ...]) -> None:
    """The jobs of an instance, and the instances below it."""
    made.ids.resume(kept.ids)
    made.resume([_job(made, one, is_child=bool(way)) for one in jobs.get(way, ())])
    for child in kept.children:
        job = made.running_job(child.job)
        below = made.make_child(job, kept.now, queue_policy=child.queue_policy, match_policy=child.match_policy, name=child.name)
        _resume(below, child, jobs, (*way, child.job))


def _job(made: Instance, kept: SavedJob, *, is_child: bool) -> tuple[Job, Hold | None, list[tuple[str, int]], list[Dependency]]:
    """A job, its claim, what it holds, and what it waits for."""
    request = _request(kept.request)
    duration = FOREVER if kept.duration is None else kept.duration
    charged = None if kept.charged is None else Charged(*kept.charged)
    job = Job(made, kept.number, request, duration, kept.submitted, kept.urgency, kept.name, kept.user, kept.payload, charged)
    job.state, job.priority, job.status = State[kept.state], kept.priority, kept.status
    job.started, job.ended, job.limit = kept.started, kept.ended, FOREVER if kept.limit is None else kept.limit
    job.dependencies = tuple(Dependency(*one) for one in kept.dependencies)
    job.exceptions = tuple(Failure(*one) for one in kept.exceptions)
    job.measured(made.inventory.measure, kept.size)
    waits_for = [Dependency(*one) for one in kept.waits_for]
    if job.state not in RUNNING:
        return job, None, [], waits_for
    pools, name = list(kept.pools), fluid.encode(kept.number)
    if is_child:
        with recording.own_changes(made.inventory):
            recording.record(made.inventory.graph, name, pools, job.started, job.limit)
    return job, Hold(kept.number, job.started, job.limit, 0), pools, waits_for


def _request(plain: dict[str, Any]) -> Request:
    """A request as it was kept: a shape has no tasks, so it is no complete jobspec."""
    if plain["tasks"]:
        return jobspec.as_request(plain)
    system = plain["attributes"].get("system", {})
    within = constraint.parse(system["constraints"]) if "constraints" in system else None
    resources = jobspec.parse_resources(plain["resources"])
    return Request(resources, (), plain["attributes"], plain["version"], system.get("duration"), within)

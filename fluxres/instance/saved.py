"""An instance as values that a store keeps, and an instance made of them again.

Only what cannot be derived is kept: the jobs, their states and what they wait for, advance reservations, and what
users have used. Reservations of the queue policy are not: its next pass makes them. An instance that is kept has the inventory
`graph`, so what its jobs hold is in the records of its graph; of a child, whose graph is a copy, the pools of each job are kept.
What a child draws from suppliers of its parent is drawn again when it is restored. Other programs run its jobs, and
report their end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np

from fluxres.allocation.drawn import NO_ROWS
from fluxres.clock import FOREVER
from fluxres.documents.suggestion import choose_from
from fluxres.errors import UnknownPool, UsageError
from fluxres.graph.kinds import STATES
from fluxres.instance import pool_states, recording
from fluxres.instance.accounting import Accounting
from fluxres.instance.charged import Charged
from fluxres.instance.fair_share import Account, Used
from fluxres.instance.instance import Instance
from fluxres.instance.inventory import Hold
from fluxres.instance.job import Dependency, Failure, Job, JobEvent
from fluxres.instance.options import InstanceOptions
from fluxres.instance.policy import Multifactor
from fluxres.instance.preemption import Preempted
from fluxres.instance.states import RUNNING, State
from fluxres.instance.upstream import in_service
from fluxres.model import ResourceGraph, changes
from fluxres.syntax import constraint, fluid, jobspec
from fluxres.syntax.jobspec import Request

POLICIES: Final = ("fcfs", "easy", "easy-count", "easy-sjbf", "hybrid", "conservative", "priority", "fairshare")
"""Queue policies that decide by the jobs that are there, and by usage, which is kept: others have a memory that would be lost."""

_UP: Final = STATES.index("up")
Drawn = tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
"""Units of pools and edges, by the pool for which they are drawn."""


class SavedJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job. Times are ticks; -1 is a time that is not known, and no duration or limit is None.

    Args:
        waits_for: the dependencies that are not satisfied.
        limit: of one that is reserved ahead, the end of what is reserved.
        pools: what it holds, or has reserved ahead, by path; without what its child draws.
        drawn: for which of them what is drawn, as in an event.
        size: in units of what its instance measures in; of what it holds, held or has reserved ahead, as it was measured then.
        is_booking: whether it was reserved ahead.
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
    drawn: Drawn = ()
    size: int = 0
    is_booking: bool = False


class SavedInstance(msgspec.Struct, frozen=True, omit_defaults=True):
    """An instance without its jobs.

    Args:
        job: number of the job of its parent; 0 for an outermost one.
        ids: the generator of its job ids (RFC 19), their epoch in ticks, and the last moment and sequence number.
        now: the last moment that it handled, in ticks.
        supplies: what it draws from pools and edges of its parent that it shares with others, by their paths.
        states: the states of pools of a child that are not up, by path.
        measure: the type in whose units sizes were asked for.
        expires: when it was set to expire, in ticks; -1 for never.
        preempted: jobs that make room for others, and run until their grace time is over.
    """

    name: str
    queue_policy: str
    match_policy: str
    ids: tuple[int, int, int, int]
    now: int
    job: int = 0
    supplies: tuple[str, ...] = ()
    states: tuple[tuple[str, str], ...] = ()
    measure: str | None = None
    expires: int = -1
    preempted: tuple[Preempted, ...] = ()
    children: tuple[SavedInstance, ...] = ()


def require_policy(name: str) -> str:
    """A queue policy that a kept instance may have. Errors: UsageError."""
    if name.partition(":")[0] not in POLICIES:
        raise UsageError(f"no queue policy '{name:.80}' for an instance in a store", hint=choose_from(POLICIES))
    return name


def job(one: Job) -> SavedJob:
    """A job as it is now."""
    instance = one.instance
    assert isinstance(instance, Instance)
    ahead = instance.inventory.ahead.get(one.number)
    limit = one.limit if ahead is None else ahead.end
    pools, drawn = _held(instance, one)
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
        None if limit >= FOREVER else limit,
        one.ended,
        one.status,
        tuple((each.scheme, each.value) for each in one.dependencies),
        tuple((each.scheme, each.value) for each in instance.dependencies.open(one)),
        tuple((each.type, each.severity, each.note) for each in one.exceptions),
        pools,
        drawn,
        one.size if ahead is None else ahead.count,
        one.is_booking,
    )


def _held(instance: Instance, one: Job) -> tuple[tuple[tuple[str, int], ...], Drawn]:
    """What a job holds or has reserved ahead, without what its child draws; in a child also edges, and what is drawn for what."""
    hold = instance.inventory.ahead.get(one.number) if one.claim is None else one.claim
    if hold is None or one.state is State.INACTIVE:
        return (), ()
    graph, name = instance.inventory.graph, fluid.encode(one.number)
    records, where = graph.records, graph.structure.accounts.where
    supply = instance.holdings.suppliers.get(one.number)
    lent = frozenset[int]() if supply is None else frozenset(supply.in_parent().values())
    if instance.parent is None:  # the records of its graph are in the store
        names = {where(v) for v in lent}
        return tuple(held for held in instance.inventory.pools(hold) if held[0] not in names), ()
    given = [(v, max((n for _, _, n in records.given(v, name)), default=0)) for v in records.pools_with_implied(name)]
    drawn: dict[str, list[tuple[str, int]]] = {}
    for pool, account, units in records.draws_of(name).at(max(instance.now, hold.start)).tolist():
        if account not in lent:
            drawn.setdefault(where(pool), []).append((where(account), units))
    held = tuple((where(v), units) for v, units in given if units and v not in lent)
    return held, tuple((pool, tuple(parts)) for pool, parts in drawn.items())


def instance(one: Instance) -> SavedInstance:
    """An instance and those below it, as they are now."""
    below = tuple(instance(child) for child in one.children)
    number = 0 if one.job_in_parent is None else one.job_in_parent.number
    return SavedInstance(
        one.name,
        one.queue_policy,
        one.match_policy,
        one.ids.state,
        one.now,
        number,
        _supplies(one),
        _states(one),
        one.choice.measure,
        -1 if one.lifetime.expires_given >= FOREVER else one.lifetime.expires_given,
        () if one.preemption is None else one.preemption.state(),
        below,
    )


def usage(one: Instance) -> dict[Account, Used]:
    """What users have used, for policies that decide by that."""
    return one.policy.used() if isinstance(one.policy, Multifactor) else {}


def _supplies(one: Instance) -> tuple[str, ...]:
    upstream = one.holdings.upstream
    if upstream is None:
        return ()
    return tuple(upstream.above.structure.accounts.wheres(list(upstream.in_parent().values())))


def _states(one: Instance) -> tuple[tuple[str, str], ...]:
    if one.parent is None:
        return ()  # its graph has them
    structure = one.inventory.graph.structure
    return tuple((structure.where(v), structure.state_name(v)) for v in np.flatnonzero(structure.state != _UP).tolist())


Jobs = Mapping[tuple[int, ...], Sequence[SavedJob]]
"""By the numbers of the jobs that lead from the outermost instance to theirs."""


def restored(
    graph: ResourceGraph,
    kept: SavedInstance,
    jobs: Jobs,
    events: Callable[[Job, JobEvent], None],
    accounting: Accounting | None = None,
    usage: Mapping[tuple[int, ...], Mapping[Account, Used]] | None = None,
) -> Instance:
    """An instance as it was kept, on the graph with what its jobs hold; `advance` handles what was due meanwhile.

    Args:
        usage: what users have used, of each instance as its jobs.
    """
    made = Instance(
        graph,
        queue_policy=kept.queue_policy,
        match_policy=kept.match_policy,
        name=kept.name,
        events=events,
        accounting=accounting,
    )
    made.time.now = min(made.time.now, kept.now)
    try:
        _resume(made, kept, jobs, {} if usage is None else usage, ())
    except BaseException:  # such as the end of the time of a request: the next attempt makes the same ids
        for each in made.walk():
            each.ids.release()
        raise
    return made


def _resume(
    made: Instance,
    kept: SavedInstance,
    jobs: Jobs,
    usage: Mapping[tuple[int, ...], Mapping[Account, Used]],
    way: tuple[int, ...],
) -> None:
    """The jobs of an instance, and the instances below it."""
    made.ids.resume(kept.ids)
    made.choice.measure_in(kept.measure)
    known = [_job(made, one, is_child=bool(way)) for one in jobs.get(way, ())]
    made.resume(known, FOREVER if kept.expires < 0 else kept.expires)
    if isinstance(made.policy, Multifactor):
        made.policy.resume(made.limiter, [job for job, *_ in known if job.state in RUNNING], usage.get(way, {}))
    if made.preemption is not None:
        made.preemption.resume(kept.preempted)
    for child in kept.children:
        job = made.lifecycle.jobs[child.job]
        _return_draws(made, job, child.supplies)
        given = InstanceOptions(child.queue_policy, child.match_policy)
        below = made.make_child(job, kept.now, given, child.name, is_again=True)
        _set_states(below, child.states)
        with in_service(below.inventory.graph):
            _resume(below, child, jobs, usage, (*way, child.job))


def _return_draws(made: Instance, job: Job, supplies: Sequence[str]) -> None:
    """Free what the child of a job drew, so that it begins with what the job itself holds, and draws again."""
    graph, name = made.inventory.graph, fluid.encode(job.number)
    pieces = []
    for where in supplies:
        with suppress(UnknownPool):
            v = graph.structure.accounts.number(where)
            pieces += [(v, units, start, end) for start, end, units in graph.records.given(v, name)]
    if pieces:
        with recording.own_changes(made.inventory):
            changes.free_pieces(graph, name, pieces)


def _set_states(below: Instance, kept: Sequence[tuple[str, str]]) -> None:
    """Set the states that pools of a child had; the others are up."""
    graph, wanted = below.inventory.graph, dict[str, list[str]]()
    known = dict(kept)
    for where in {*known, *(where for where, _ in _states(below))}:
        if pool_states.has_pool(graph, where):
            wanted.setdefault(known.get(where, "up"), []).append(where)
    with recording.own_changes(below.inventory):
        for state, names in wanted.items():
            graph.set_state(names, state)


def _job(made: Instance, kept: SavedJob, *, is_child: bool) -> tuple[Job, Hold | None, list[tuple[str, int]], list[Dependency]]:
    """A job, its claim, what it holds, and what it waits for."""
    request = _request(kept.request)
    duration = FOREVER if kept.duration is None else kept.duration
    limit = FOREVER if kept.limit is None else kept.limit
    charged = None if kept.charged is None else Charged(*kept.charged)
    job = Job(made, kept.number, request, duration, kept.submitted, kept.urgency, kept.name, kept.user, kept.payload, charged)
    job.state, job.priority, job.status = State[kept.state], kept.priority, kept.status
    job.started, job.ended = kept.started, kept.ended
    job.dependencies = tuple(Dependency(*one) for one in kept.dependencies)
    job.exceptions = tuple(Failure(*one) for one in kept.exceptions)
    job.is_booking = kept.is_booking
    waits_for = [Dependency(*one) for one in kept.waits_for]
    is_ahead = job.is_booking and job.state is State.DEPEND
    if not is_ahead:
        job.limit = limit
    if not is_ahead and job.state not in RUNNING:
        if job.started >= 0:
            job.claim = Hold(kept.number, job.started, limit, kept.size)  # its size is that of what it held, whatever is measured
        return job, None, [], waits_for
    hold = Hold(kept.number, job.dependencies[0].value if is_ahead else job.started, limit, kept.size)
    if not is_child:
        return job, hold, list(kept.pools), waits_for
    _record(made, fluid.encode(kept.number), kept, hold.start, limit)
    return job, hold, made.inventory.pools(hold), waits_for


def _record(made: Instance, name: str, kept: SavedJob, start: int, end: int) -> None:
    """Record in the graph of a child what a job of it holds, and draw that from its parent again."""
    graph = made.inventory.graph
    accounts, rows = graph.structure.accounts, []
    for pool, parts in kept.drawn:
        for account, units in parts:
            with suppress(UnknownPool):
                rows.append((accounts.number(pool), accounts.number(account), units))
    drawn = np.array(rows, np.int64).reshape(-1, 3) if rows else NO_ROWS
    if left := recording.existing(graph, kept.pools):
        with recording.own_changes(made.inventory), graph.structure.lifted():
            changes.allocate_more(graph, name, left, (start, end), drawn)


def _request(plain: dict[str, Any]) -> Request:
    """A request as it was kept: a shape has no tasks, so it is no complete jobspec."""
    if plain["tasks"]:
        return jobspec.as_request(plain)
    system = plain["attributes"].get("system", {})
    within = constraint.parse(system["constraints"]) if "constraints" in system else None
    resources = jobspec.parse_resources(plain["resources"])
    return Request(resources, (), plain["attributes"], plain["version"], system.get("duration"), within)

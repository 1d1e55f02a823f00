"""The bodies of requests. Their fields are the arguments of the methods of :class:`fluxres.ResourceGraph`, and mean the same."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from fluxres import limits

Moment = float | str
"""Seconds since 1970, or text such as ``tomorrow 08:00`` and ``+1h``; ``-`` is never."""
Length = float | str
"""Seconds, or text such as ``90m``."""
WaitStatus = Annotated[int, msgspec.Meta(ge=0, le=limits.WAIT_STATUS_MAX)]
Pools = str | list[str] | dict[str, int | None]
"""Pools by path, URI, uuid or short name; with amounts as a mapping."""
Wanted = str | list[str] | dict[str, Any]
"""A request (a shape, options, a jobspec as text or as values), or pools."""


class Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What all bodies have in common: unknown fields are refused."""


class Run(Body):
    """What a program is to run in, and the processes that ask for it.

    `request` is a jobspec; without one, `pools` are allocated by name, null being all units of a pool. The server takes the lease
    from now on; a request that `waits` is queued if it does not fit now.
    """

    mark: str
    host: str
    boot: str
    processes: list[tuple[int, int]]
    program: list[str] = []
    request: dict[str, Any] | None = None
    pools: list[tuple[str, int | None]] = []
    waits: bool = False
    job: str | None = None
    user: str = ""
    name: str | None = None
    priority: int = 0
    duration_s: float | None = None
    policy: str = "first"
    shows_place: bool = False
    lease_s: float = limits.RUN_LEASE_SECONDS_DEFAULT
    command: str = ""


class Renew(Body):
    """A run, by its mark, and the life of its lease from now on."""

    mark: str
    lease_s: float = limits.RUN_LEASE_SECONDS_DEFAULT
    command: str = ""


class EndRun(Body):
    """A run, by its mark: it holds nothing and waits for nothing afterwards; the exit status of its program, if known."""

    mark: str
    status: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    command: str = ""


class Cancel(Body):
    """A job of run or shell, and the time between SIGTERM and SIGKILL."""

    job: str
    grace_s: float = limits.RUN_GRACE_SECONDS_DEFAULT
    command: str = ""


class Question(Body):
    """A request, and the start and the length to ask about; by default now, and the duration of the request."""

    wanted: str | dict[str, Any]
    at: Moment | None = None
    duration_s: Length | None = None
    policy: str = "first"


class Allocate(Body):
    """What a job gets, from when to when.

    With `or_reserve`, a request that cannot start then gets the earliest start. A job that holds something already is refused
    unless `grow` is true.
    """

    wanted: Wanted
    job: str
    start: Moment | None = None
    end: Moment | None = None
    duration_s: Length | None = None
    policy: str = "first"
    user: str | None = None
    name: str | None = None
    or_reserve: bool = False
    grow: bool = False


class Part(Body):
    """What one of several jobs gets."""

    wanted: Wanted
    job: str


class AllocateAll(Body):
    """What several jobs get at one start: all of them, or none."""

    parts: list[Part]
    start: Moment | None = None
    end: Moment | None = None
    duration_s: Length | None = None
    policy: str = "first"
    user: str | None = None
    or_reserve: bool = False
    grow: bool = False


class Free(Body):
    """What a job gives back: everything, or pools, or units of them."""

    job: str
    wanted: Pools | None = None
    start: Moment | None = None
    end: Moment | None = None


class Grow(Body):
    """What a job gets in addition, until it ends by default."""

    job: str
    wanted: Wanted
    start: Moment | None = None
    end: Moment | None = None
    policy: str = "first"


class Shrink(Body):
    """What a job gives back: pools, units of them, or what a request finds in what it holds."""

    job: str
    wanted: Wanted
    start: Moment | None = None
    end: Moment | None = None
    policy: str = "high"


class Extend(Body):
    """The new end of a job, or its length from its first start."""

    job: str
    end: Moment | None = None
    duration_s: Length | None = None


class Expire(Body):
    """The moment up to which ended records are dropped; now by default."""

    before: Moment | None = None


class SetState(Body):
    """Pools, by path, URI, uuid or short name, and the state that they get; the time and the name of the token are noted."""

    wanted: Pools
    state: str
    reason: str | None = None


class Reserve(Body):
    """Pools that no job gets in a window, which may be repeated; jobs that run into one are a reason to refuse, or ignored."""

    wanted: Pools
    name: str
    start: Moment | None = None
    end: Moment | None = None
    duration_s: Length | None = None
    every_s: Length | None = None
    until: Moment | None = None
    ignore_jobs: bool = False
    user: str | None = None


class Unreserve(Body):
    """A maintenance reservation that is given up."""

    name: str


class Tag(Body):
    """Pools and a tag."""

    wanted: Pools
    key: str
    value: str | None = None


class Untag(Body):
    """Pools and the key of a tag that they lose."""

    wanted: Pools
    key: str


class MakeStage(Body):
    """What is locked while a job is considered."""

    wanted: Wanted
    job: str
    start: Moment | None = None
    end: Moment | None = None
    duration_s: Length | None = None
    ttl_s: Length = limits.STAGE_SECONDS_DEFAULT
    policy: str = "first"


class EndStage(Body):
    """A stage."""

    stage: str


class Copy(Body):
    """A new graph in the store: what is free below a path, or what a job holds."""

    name: str
    path: str = "/"
    job: str | None = None
    at: Moment | None = None
    replace: bool = False


class Unlink(Body):
    """A pool, and the hierarchy from which it is removed: by default that of its URI, else containment."""

    path: str
    hierarchy: str | None = None


class Move(Body):
    """A pool, and its new parent or its new path."""

    path: str
    to: str


class OneEdge(Body):
    """An edge of an auxiliary graph; `relation` selects one of several between the two pools."""

    source: str
    target: str
    subsystem: str
    relation: str | None = None


class RemoveEdge(OneEdge):
    """The edge that is removed."""


class SetEdge(OneEdge):
    """An edge and what changes of it; a capacity of `inf` is no limit, and an attribute that is null is removed."""

    capacity: float | Literal["inf"] | None = None
    unit: str | None = None
    supply: Literal["all", "any"] | None = None
    attributes: dict[str, Any] | None = None


class AddEdge(SetEdge):
    """A new edge; with `hierarchy`, the graph is created if there is none of this name."""

    relation: str = "link"
    hierarchy: bool | None = None


class Undo(Body):
    """The last change is undone; with `redo`, the last undo."""

    redo: bool = False
    command: str = ""


class OpenChild(Body):
    """A child that begins: the job that it works on, what the job gets first, and the process that has the lease."""

    job: str
    wanted: Wanted | None = None
    duration_s: Length | None = None
    name: str | None = None
    lease_s: float = limits.CHILD_LEASE_SECONDS_DEFAULT
    host: str = ""
    process: int = 0


class Leased(Body):
    """A child by the mark of its lease."""

    mark: str


class EndChild(Body):
    """A child by the mark of its lease; without one, that of any program."""

    mark: str | None = None
    command: str = ""


class GrowChild(Body):
    """What the job of a child gets in addition in its parent."""

    wanted: Wanted
    policy: str = "first"
    command: str = ""


class ShrinkChild(Body):
    """The pools that a child returns, by name."""

    wanted: Pools
    command: str = ""


class ExtendChild(Body):
    """The new end of the job of a child in its parent, or its length from its first start."""

    end: Moment | None = None
    duration_s: Length | None = None
    command: str = ""


class Events(Body):
    """Events to be made, as the journal has them: what a command decided on the revision that If-Match names."""

    events: list[dict[str, Any]]
    command: str = ""


class CreateInstance(Body):
    """A new instance on the graph: the name, and how it chooses jobs and pools.

    `accounting` has partitions, QOS, accounts and users with limits, as in a file (specs/accounting.md). Sizes, in it and of
    jobs, are measured in pools of the type `unit`.
    """

    name: str
    queue_policy: str = "easy"
    match_policy: str = "first"
    unit: str | None = None
    accounting: dict[str, Any] | None = None


class InInstance(Body):
    """An instance by its address: its name, and with slashes the ids of the jobs that lead to one below it."""

    instance: str


class Submit(InInstance):
    """A job: what it wants, its limit, its urgency from 0 (held) to 31, what it waits for, and values for its runner."""

    wanted: str | dict[str, Any]
    duration_s: Length | None = None
    urgency: int = 16
    name: str | None = None
    user: str | None = None
    dependencies: list[str] = []
    payload: Any = None
    account: str | None = None
    qos: str | None = None
    partition: str | None = None


class ReserveAhead(InInstance):
    """A job that starts at a given time, on what no other job gets until its end: what a request wants, or these pools."""

    start_s: Moment
    duration_s: Length
    wanted: str | dict[str, Any] | None = None
    pools: Pools | None = None
    name: str | None = None
    user: str | None = None
    payload: Any = None


class SetPoolState(InInstance):
    """Pools of an instance get a state, here and below; down ends the jobs on them, or lets them wait again."""

    where: Pools
    state: str
    requeue: bool = False


class SetExpiration(InInstance):
    """When an instance ends with its jobs; null is when its job ends."""

    at_s: Moment | None = None


class MeasureIn(InInstance):
    """The type in whose units the size of jobs is measured; null is the default."""

    type_name: str | None = None


class FailInstance(InInstance):
    """A child that ends with its job as failed, and why."""

    note: str = ""


class OfJob(InInstance):
    """A job of an instance by its id, in any form of RFC 19."""

    job: str


class CancelJob(OfJob):
    """A job that ends, and why."""

    note: str = ""


class FinishJob(OfJob):
    """A job that has ended, and its wait status; 0 is success."""

    status: WaitStatus = 0


class Raise(OfJob):
    """An exception of a job (RFC 21); severity 0 ends it."""

    kind: str
    severity: int = 0
    note: str = ""


class SetUrgency(OfJob):
    """The new urgency of a job that waits."""

    urgency: int


class SetDuration(OfJob):
    """The new limit of a job; null is none. With it, the urgency of a job that waits may be changed."""

    duration_s: Length | None = None
    urgency: int | None = None


class AddDependency(OfJob):
    """Something more that a job waits for, such as `afterok:ƒA`."""

    dependency: str


class Spawn(OfJob):
    """A child on what a running job holds; the policies are those of its parent by default."""

    name: str | None = None
    queue_policy: str | None = None
    match_policy: str | None = None


class GrowInstance(InInstance):
    """What a child gets from its parent: a request, or pools of the parent."""

    wanted: Wanted


class ShrinkInstance(InInstance):
    """What a child returns to its parent: pools, or units of one."""

    wanted: Pools


class CloseInstance(InInstance):
    """An instance that ends with its jobs; of a child, the job in its parent ends with this status.

    Args:
        if_idle: refuse (`still-held`) if jobs run or wait, there or below.
    """

    status: WaitStatus = 0
    if_idle: bool = False

"""The answers, which are the JSON documents of the commands (specs/cli.md), as types for the OpenAPI document.

The values are made by :mod:`fluxres.render`, as for the commands; a test decodes every answer as its type.
"""

from __future__ import annotations

from typing import Any

import msgspec

State = str


class _Answer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    pass


class Amount(_Answer):
    path: str
    amount: int


class Span(_Answer):
    job: str
    path: str
    amount: int
    start: float
    end: float | None


class Granted(_Answer):
    """What a job has been allocated; no end is null."""

    job: str
    start: float
    end: float | None
    pools: list[Amount]


class GrantedAll(_Answer):
    allocations: list[Granted]


class Left(_Answer):
    """What a job still holds."""

    job: str
    left: list[Span]


class Shrunk(_Answer):
    job: str
    taken: list[Span]
    left: list[Span]


class Extended(_Answer):
    job: str
    held: list[Span]


class Ended(_Answer):
    """The jobs of which records were dropped."""

    ended: list[str]


class Changed(_Answer):
    """The number of pools concerned."""

    pools: int


class Matched(_Answer):
    """When a request can start, and what it would get."""

    start: float
    end: float | None
    now: bool
    pools: list[Amount]
    shared: list[str]


class Refusal(_Answer):
    """Why a request has no match."""

    matches: bool
    never: bool
    earliest: float | None
    undecided: bool
    enough: dict[str, int]
    partition: dict[str, Any] | None
    parts: list[dict[str, Any]]
    notes: list[str]
    rule: str = ""
    sentences: list[str] = []


class Satisfiability(_Answer):
    satisfiable: bool


class Blocker(_Answer):
    path: str
    state: State


class Pool(_Answer):
    path: str
    uris: list[str]
    uuid: str
    type: str
    basename: str
    name: str
    id: int | None
    rank: int | None
    size: int
    unit: str | None
    state: State
    out_of_service_by: list[Blocker]
    properties: dict[str, Any]
    state_reason: str | None
    state_user: str | None
    state_since: float | None
    tags: dict[str, str | None]
    exclusive_only: bool
    available: int
    allocated: int
    jobs: list[str]
    shared: list[str]
    staged: bool


class Pools(_Answer):
    """A page of pools; `next` is the value of `after` for the next one, null at the end. `count` is the number of all."""

    count: int
    pools: list[Pool]
    next: str | None


class Aggregate(_Answer):
    """Free units by type."""

    path: str
    available: dict[str, int]
    units: dict[str, str | None]


class Totals(_Answer):
    type: str
    pools: int
    units: int
    unit: str | None
    available: int
    mixed: int


class Subsystem(_Answer):
    name: str
    hierarchy: bool
    edges: int
    pools: int


class Summary(_Answer):
    """A graph in numbers."""

    graph: str
    pools: int
    levels: int
    subsystems: list[Subsystem]
    states: dict[str, int]
    jobs: list[str]
    reservations: list[str]
    stages: list[str]
    types: list[Totals]


class Merged(Summary):
    """A graph in numbers, and the pools that it has in addition."""

    added: int


class Subtree(_Answer):
    """A pool that appears, with the number of pools below it and itself."""

    path: str
    pools: int


class GoneSubtree(Subtree):
    """A pool that goes, and the jobs that hold some of it."""

    jobs: list[str]


class NewPlace(_Answer, rename={"before": "from", "after": "to"}):
    before: str
    after: str


class ChangedPool(_Answer):
    """An attribute of a pool; null where there is none."""

    path: str
    attribute: str
    before: Any
    after: Any


class ChangedEdge(_Answer):
    """An edge that is added, removed or changed, and its attributes."""

    change: str
    graph: str
    source: str
    target: str
    relation: str
    before: dict[str, Any]
    after: dict[str, Any]


class ChangedGraph(_Answer):
    """An auxiliary graph: `hierarchy`, `graph`, or null where it does not exist."""

    graph: str
    before: str | None
    after: str | None


class Difference(_Answer):
    """What a description of the machine changes."""

    different: bool
    summary: str
    added: list[Subtree]
    removed: list[GoneSubtree]
    moved: list[NewPlace]
    changed: list[ChangedPool]
    edges: list[ChangedEdge]
    graphs: list[ChangedGraph]


class Reshaped(Difference):
    """What was changed, the number of pools, and those that are drained until no job holds them."""

    pools: int
    drained: list[str]


class Unlinked(_Answer):
    """The number of pools that were removed, and of those that remain."""

    path: str
    hierarchy: str | None
    removed: int
    pools: int


class Moved(_Answer):
    """Where a pool was, and where it is."""

    path: str
    to: str
    uuid: str


class Edge(_Answer):
    """An edge, and the number of edges in its graph."""

    subsystem: str
    source: str
    target: str
    relation: str | None
    edges: int


class Undone(_Answer):
    """The events that were undone."""

    undone: list[dict[str, Any]]


class InUse(_Answer):
    in_use: str


class Held(_Answer):
    """What a graph was copied for: a job of another one, null if that was dropped; and why it allocates nothing any more.

    If a process works on it under a lease, `host` is where it runs, and `until` is when the lease is over unless it is renewed.
    """

    graph: str | None
    job: str
    lapsed: str | None
    host: str | None
    until: float | None


class Paths(_Answer):
    """The pools concerned."""

    paths: list[str]


class ChildLease(_Answer):
    """A child: its graph, that of its parent, the job there, and its lease. Changes of the child name the mark."""

    graph: str
    parent: str
    job: str
    mark: str
    life_s: float
    until: float


class Renewed(_Answer):
    """When a lease is over if it is not renewed again, and why the child allocates nothing now; null if it does."""

    until: float
    lapsed: str | None


class NewEnd(_Answer):
    """The end of a job; no end is null."""

    end: float | None


class Graph(_Answer):
    graph: str
    in_use: bool
    pools: int
    events: int | None
    created: float
    held: Held | None


class Graphs(_Answer):
    graphs: list[Graph]


class Dropped(_Answer):
    dropped: str


class DroppedGraph(_Answer):
    dropped: str
    lost: list[str]


class Job(_Answer):
    job: str
    user: str | None
    name: str | None
    state: str
    submitted: float | None
    start: float
    end: float | None
    time_left: float | None
    nodes: list[str]
    holds: dict[str, int]


class Jobs(_Answer):
    """A page of jobs; `next` is the value of `after` for the next one, null at the end. `count` is the number of all."""

    count: int
    jobs: list[Job]
    next: int | None


class OneJob(Job):
    """A job with all that it holds, and what its start waits for."""

    waits_for: list[str]
    allocated: list[Span]


class ResourceSet(msgspec.Struct):
    """R version 1 (RFC 20)."""

    version: int
    execution: dict[str, Any]
    scheduling: dict[str, Any] | None = None
    attributes: dict[str, Any] | None = None


class Stage(_Answer):
    stage: str
    job: str
    pools: list[Amount]
    start: float
    end: float | None
    expires: float | None


class Stages(_Answer):
    stages: list[Stage]


class Released(_Answer):
    released: str


class Window(_Answer):
    start: float
    end: float


class Reservation(_Answer):
    """A maintenance reservation."""

    name: str
    user: str | None
    pools: list[str]
    windows: list[Window]
    ignores_jobs: bool
    affected: list[str]


class Reservations(_Answer):
    """The maintenance reservations that are not over."""

    reservations: list[Reservation]


class Removed(_Answer):
    """The name of a maintenance reservation that was given up."""

    removed: str


class Nodes(_Answer):
    """The nodes by state."""

    counts: dict[str, int]
    nodes: list[dict[str, Any]]
    next: str | None


class Log(_Answer):
    """Events of the journal, oldest first.

    `time`, when an event was written, is in seconds since 1970. All times that belong to the event (`start`, `end`, `since`, …)
    are ticks, microseconds since 1970; null is no end.
    """

    log: list[dict[str, Any]]


class Problem(_Answer):
    severity: str
    where: str
    message: str


class Check(_Answer):
    graph: str
    pools: int
    problems: list[Problem]


class Applied(_Answer):
    """The number of events made."""

    events: int


class Standing(_Answer):
    """How a run stands: running, waiting or gone."""

    job: str
    state: str
    end: float | None


class Queue(_Answer):
    """The requests that wait, in their order, and when each is expected to start; null if that is not known.

    `freed` are the jobs whose programs run on the machine of the server although what they held was freed.
    """

    tickets: list[dict[str, Any]]
    starts: dict[str, float | None]
    freed: list[dict[str, Any]]


class Instance(_Answer):
    """A scheduler on the graph, or on what a job of another one holds; `children` are addresses."""

    address: str
    name: str
    queue_policy: str
    match_policy: str
    unit: str
    has_accounting: bool
    pools: int
    pending: int
    running: int
    expires: float | None
    job: str | None
    children: list[str]


class Instances(_Answer):
    instances: list[Instance]


class JobException(_Answer):
    """An exception (RFC 21); severity 0 is fatal."""

    type: str
    severity: int
    note: str


class InstanceJob(_Answer):
    """A job of an instance. Times that are not known, and ends that never come, are null.

    `limit_reached` is the limit of the accounting that keeps it waiting; one that `is_booking` was reserved ahead. `unit` is the
    type of pools in which its size is measured, `expires` when its instance ends, and the job with it.
    """

    id: str
    state: str
    result: str | None
    name: str | None
    user: str | None
    account: str | None
    qos: str | None
    partition: str | None
    limit_reached: str
    is_booking: bool
    urgency: int
    priority: int
    duration: float | None
    submitted: float
    reserved: float | None
    started: float | None
    ends: float | None
    expires: float | None
    finished: float | None
    status: int
    size: int
    unit: str
    pools: list[Amount]
    dependencies: list[str]
    exceptions: list[JobException]
    payload: Any
    child: str | None


class InstanceJobs(_Answer):
    """A page of jobs in the order of their submission; `next` is the value of `after` for the next one, null at the end."""

    count: int
    jobs: list[InstanceJob]
    next: str | None


class Problems(_Answer):
    problems: list[Problem]


class Closed(_Answer):
    """The address of an instance that has ended."""

    closed: str


class Canceled(_Answer):
    """What a job was before: waiting, running or ended."""

    job: str
    was: str


class Health(_Answer):
    status: str
    version: str


class Ready(_Answer):
    status: str
    store: str
    graphs: int
    epoch: int

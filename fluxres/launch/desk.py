"""What is done in a store for a run: it enters the queue or gets its resources, is renewed, and gives everything back.

A launcher does this itself where it can write to the store; otherwise a server does it for the launcher.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from fluxres.allocation.facts import Launch
from fluxres.clock import FOREVER, seconds, ticks
from fluxres.documents.document import plural
from fluxres.errors import InsufficientResources, UnknownJob, UsageError
from fluxres.launch import identity, orphans, waiting
from fluxres.launch.identity import Presence
from fluxres.model import changes, matching
from fluxres.store import Ticket, mailbox
from fluxres.store.mailbox import News
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from collections.abc import Callable

    from fluxres.model import ResourceGraph
    from fluxres.model.events import Event
    from fluxres.store import Store, Transaction
    from fluxres.syntax.jobspec import Request

LOCK_WAIT_S: Final = 300.0
"""Hundreds may start or end at once, each with a transaction of some milliseconds."""
MARK: Final = re.compile(r"[0-9a-f]{24}", re.ASCII)


class Author(NamedTuple):
    """Who changes something, for the journal.

    Args:
        command: for other processes that wait, too.
        user: that of this process if None.
    """

    command: str = ""
    user: str | None = None


class Application(msgspec.Struct, frozen=True):
    """Who asks for what.

    Args:
        launch: the processes that ask.
        user, name: of the job.
        waits: whether it waits for what is not free now.
        job: id; None for a new one.
        priority: in the queue.
        request: what is asked for; None for pools by name.
        plain: the request as plain values.
        pools: paths with units, None for all of a pool.
        duration_s: how long it is held; None for no end.
        policy: the match policy.
        shows_place: whether it gets news of its place in the queue.
        lease_s: life of its lease; None for no lease.
        is_served: whether a server asks for it.
    """

    launch: Launch
    user: str
    name: str | None
    waits: bool
    job: str | None
    priority: int
    request: Request | None
    plain: dict[str, Any] | None
    pools: tuple[tuple[str, int | None], ...]
    duration_s: float | None
    policy: str
    shows_place: bool
    lease_s: float | None
    is_served: bool = False


class Standing(msgspec.Struct, frozen=True):
    """What has become of a run.

    Args:
        job: its id; empty if nothing is known of it.
        state: "running" if it holds something, "waiting" if it has a ticket, else "gone".
        end: of what it holds, in seconds since 1970; None for no end.
    """

    job: str
    state: str
    end: float | None = None


GONE: Final = Standing("", "gone")


@contextmanager
def _writing(store: Store, name: str | None, author: Author) -> Iterator[Transaction]:
    with store.writing(name, command=author.command, wait_s=LOCK_WAIT_S) as transaction:
        transaction.user = author.user
        yield transaction


def enter(
    store: Store, name: str, mark: str, asking: Callable[[ResourceGraph], Application], author: Author
) -> tuple[Standing, ResourceGraph | None]:
    """Grant what is asked for, or put it into the queue; nothing is done for a mark that is there already.

    Args:
        mark: of the launch.
        asking: what is asked for, once the graph is known.

    Returns: how it stands, and the graph if it was granted.
    Errors: InsufficientResources if it may not wait; InfeasibleRequest; UsageError.
    """
    with _writing(store, name, author) as transaction:
        graph = transaction.graph
        attendance = waiting.Attendance(transaction, store.path)
        attendance.begin()
        known = _standing(transaction, mark)
        if known.state != "gone":
            return known, graph if known.state == "running" else None
        asked = asking(graph)
        ticket = _ticket(transaction, asked)
        made = attendance.end(ticket, asked.request)
        is_granted = ticket in made.granted
        if not is_granted:
            _refuse(graph, ticket, asked, made)
            transaction.tickets.add(ticket)
        found = _held(graph, ticket.job) if is_granted else Standing(ticket.job, "waiting")
    attendance.tell()
    return found, graph if is_granted else None


def _ticket(transaction: Transaction, asked: Application) -> Ticket:
    graph = transaction.graph
    waiting_jobs = {ticket.job for ticket in transaction.tickets.all()}
    if asked.job is None:
        job = transaction.tickets.next_job()
        while graph.records.is_holder(job) or job in waiting_jobs:
            job = transaction.tickets.next_job()
    else:
        job = asked.job
        if graph.records.is_holder(job) or job in waiting_jobs:
            raise UsageError("holds resources already", where=f"job '{job}'", hint="choose another id, or leave --job out")
    now = graph.now()
    launch = msgspec.structs.replace(asked.launch, lease=None if asked.lease_s is None else now + ticks(asked.lease_s))
    return Ticket(
        job,
        asked.user,
        asked.priority,
        seconds(now),
        launch,
        asked.name,
        asked.plain,
        asked.pools,
        asked.duration_s,
        asked.policy,
        asked.shows_place,
        asked.is_served,
    )


def _refuse(graph: ResourceGraph, ticket: Ticket, asked: Application, made: waiting.Pass) -> None:
    """Refuse what can never be granted, and anything if it may not wait.

    Errors: InfeasibleRequest, InsufficientResources; UsageError for units that a pool does not have.
    """
    request = asked.request
    if request is not None:
        if asked.waits and graph.satisfiable(request):
            return
        if (refusal := graph.why_not(request, duration_s=ticket.duration_s, policy=ticket.policy)) is not None:
            raise matching.refused(refusal)
    is_queued = any(one is ticket for one in made.waiting)
    if request is None and asked.waits and is_queued:
        return
    number = len(made.waiting) - 1
    if not number or not is_queued:
        named = [(graph.vertex(path), amount) for path, amount in ticket.pools]
        graph.allocate(named, job=ticket.job, duration_s=ticket.duration_s)  # this explains why not
    raise InsufficientResources(f"{plural(number, 'request')} before it in the queue", hint="--wait queues this one too")


def look(store: Store, name: str, mark: str = "", lease_s: float | None = None) -> Standing:
    """Free what dead processes hold, and make a pass of the queue.

    Args:
        mark: of a run whose lease is renewed before.

    Returns: how that run stands afterwards.
    """
    with _writing(store, name, Author()) as transaction:
        if lease_s is not None:
            _renew(transaction, mark, lease_s)
        attendance = waiting.Attendance(transaction, store.path)
        attendance.begin()
        attendance.end()
        found = _standing(transaction, mark)
    attendance.tell()
    return found


def renew(store: Store, name: str, mark: str, lease_s: float, author: Author) -> Standing:
    """Renew the lease of a run that waits or holds something."""
    with _writing(store, name, author) as transaction:
        transaction.passes_queue = True  # nothing becomes free
        _renew(transaction, mark, lease_s)
        return _standing(transaction, mark)


def _renew(transaction: Transaction, mark: str, lease_s: float) -> None:
    graph = transaction.graph
    lease = graph.now() + ticks(lease_s)
    for job, launch in list(orphans.launched(graph)):
        if launch.mark == mark:
            changes.renew(graph, job, lease)
    for ticket in transaction.tickets.all():
        if ticket.launch.mark == mark:
            transaction.tickets.renew(ticket, lease)


def has_runs(store: Store, attached: ResourceGraph) -> bool:
    """Whether a job of a graph lives by processes, or a request waits for its resources.

    Args:
        attached: the graph, as stored.
    """
    with attached.lock:
        is_one_there = next(orphans.launched(attached), None) is not None
    return is_one_there or bool(store.tickets(attached.name))


def spare(store: Store, attached: ResourceGraph, lease_s: float) -> None:
    """Let no lease of a process elsewhere end for some time: they could not be renewed while there was no server.

    Args:
        attached: the graph, as stored.
    """
    if not has_runs(store, attached):
        return
    with _writing(store, attached.name, Author()) as transaction:
        transaction.passes_queue = True
        graph = transaction.graph
        until = graph.now() + ticks(lease_s)
        found = [launch for _, launch in orphans.launched(graph)]
        for launch in (*found, *(ticket.launch for ticket in transaction.tickets.all())):
            is_elsewhere = identity.presence(launch, 0) is Presence.ELSEWHERE
            if is_elsewhere and launch.lease is not None and launch.lease < until:
                _renew(transaction, launch.mark, lease_s)


def release(store: Store, name: str, mark: str, author: Author, status: int | None = None) -> None:
    """Free what a run holds, and take its ticket out of the queue; nothing of its program runs any more.

    Args:
        status: exit status of the program; None if it did not run, or its launcher has died.
    """
    with _writing(store, name, author) as transaction:
        graph = transaction.graph
        attendance = waiting.Attendance(transaction, store.path)
        attendance.begin()
        for ticket in transaction.tickets.all():
            if ticket.launch.mark == mark:
                transaction.tickets.remove(ticket)
        for job, launch in list(orphans.launched(graph)):
            if launch.mark == mark:
                changes.free(graph, job, None, None, None, status=status)
        attendance.end()
    attendance.tell()
    mailbox.discard(store.path, mark)


def cancel(store: Store, name: str, job: str, grace_s: float, author: Author, require: Callable[[str | None], None]) -> str:
    """Take a run out of the queue, or have its launcher end the program.

    Args:
        require: refuses the user of the job.

    Returns: what it was before: "waiting", "running", or "ended" if its program is not there any more.
    Errors: UnknownJob; UsageError for a job without processes.
    """
    ticket = next((one for one in store.tickets(name) if one.job == job), None)
    if ticket is not None:
        require(ticket.user)
        if withdraw(store, name, ticket, author):
            return "waiting"
    user, launch = launch_of(store, name, job)
    require(user)
    if launch is None or identity.presence(launch, store.load(name).now()) is Presence.GONE:
        return "ended"
    if not mailbox.heeds(store.path, launch.mark):
        raise UsageError(
            "belongs to another user of the machine of the server", where=f"job '{job}'", hint="cancel it there, or serve as root"
        )
    mailbox.send(store.path, [(launch.mark, News(grace_s=grace_s))])
    return "running"


def withdraw(store: Store, name: str | None, ticket: Ticket, author: Author) -> bool:
    """Take a ticket out of the queue; returns whether it was still there."""
    with _writing(store, name, author) as transaction:
        if not any(one.number == ticket.number for one in transaction.tickets.all()):
            return False
        transaction.tickets.remove(ticket)
        attendance = waiting.Attendance(transaction, store.path)
        attendance.begin()
        attendance.end()
    mailbox.send(store.path, [(ticket.launch.mark, News(is_canceled=True))])
    attendance.tell()
    return True


def launch_of(store: Store, name: str | None, job: str) -> tuple[str | None, Launch | None]:
    """User and processes of a job that has got something, also if that was freed in the meantime.

    Returns: None for processes that are not known any more.
    Errors: UnknownJob; UsageError for a job without processes.
    """
    return launch_in(store.load(name), lambda: store.log(name, job=job), job)


def launch_in(graph: ResourceGraph, log: Callable[[], Any], job: str) -> tuple[str | None, Launch | None]:
    """As :func:`launch_of`, with the graph, and a function that reads what the journal has of the job."""
    facts = graph.records.facts.get(job)
    if facts is not None and facts.launch is not None:
        return facts.user, facts.launch
    if fluid.is_name(job):
        hint = f"`fluxres instance cancel {job}` ends a job of an instance"
        raise UsageError("is not a job of run or shell", where=f"job '{job}'", hint=hint)
    if graph.records.is_holder(job):
        raise UsageError("is not a job of run or shell", where=f"job '{job}'", hint=f"`fluxres free {job}` frees what it holds")
    entries = log()
    if not entries:
        raise UnknownJob(f"no job '{job}'", hint="`fluxres ps` lists the jobs of run and shell")
    for entry in reversed(entries):
        if (launch := launch_of_event(entry.event)) is not None:
            return entry.event.get("user"), launch
    return None, None


def status_in(log: Iterable[Any], job: str) -> int | None:
    """The exit status of the program of a job that has ended, by what the journal has of the job; None if it is not known."""
    for entry in reversed(list(log)):
        if entry.event.get("event") == "free" and entry.event.get("job") == job:
            found: int | None = entry.event.get("status")
            return found
    return None


def freed(store: Store, name: str | None, graph: ResourceGraph) -> list[Ticket]:
    """The jobs of this host that hold nothing any more, although their programs run: somebody has freed what they held."""
    now, found = graph.now(), dict[str, Ticket]()
    known = {launch.mark for _, launch in orphans.launched(graph)}
    for entry in store.launched(name, identity.boot_time()):
        launch = launch_of_event(entry.event)
        if launch is None or launch.mark in known or identity.presence(launch, now) in (Presence.GONE, Presence.ELSEWHERE):
            continue
        known.add(launch.mark)
        event = entry.event
        found[launch.mark] = Ticket(event["job"], event.get("user") or "", 0, entry.time, launch, event.get("name"))
    return list(found.values())[::-1]


def launch_of_event(event: Event) -> Launch | None:
    """The processes that a job lives by, if the event is that in which it first got something."""
    found = event.get("launch")
    return None if found is None else msgspec.convert(found, Launch)


def standing(graph: ResourceGraph, tickets: list[Ticket], mark: str) -> Standing:
    """How a run stands."""
    for job, launch in orphans.launched(graph):
        if launch.mark == mark:
            return _held(graph, job)
    return next((Standing(ticket.job, "waiting") for ticket in tickets if ticket.launch.mark == mark), GONE)


def _standing(transaction: Transaction, mark: str) -> Standing:
    return standing(transaction.graph, transaction.tickets.all(), mark)


def _held(graph: ResourceGraph, job: str) -> Standing:
    end = max(graph.records.ends(job))
    return Standing(job, "running", None if end >= FOREVER else seconds(end))

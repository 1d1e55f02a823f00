"""The queue of requests that wait for resources: who gets what has become free.

There is no daemon. Whoever frees something makes a pass of the queue in the same transaction, so what is free and wanted never
stays unused, and the grant is in the store before anybody acts on it (rule H2).

A pass goes through the tickets by priority, then first come first served. A later one overtakes an earlier one only if it does
not delay it: for that, each earlier one that does not fit now gets the earliest possible start on a trial copy of the graph (as
with `allocate --or-reserve`), and keeps its pools there. If the pools it needs are held without an end, its start is not known;
then the copy assumes that these all end together in the distant future, and the pools that it would get are kept for it until
then.
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fluxres import limits
from fluxres.allocation.facts import JobFacts
from fluxres.clock import FOREVER, fixed, seconds, ticks
from fluxres.errors import FluxresError, InfeasibleRequest, InsufficientResources, UnknownPool, UsageError
from fluxres.graph.kinds import IDENTIFYING
from fluxres.graph.short_names import NODE
from fluxres.launch import identity, orphans
from fluxres.launch.identity import Presence
from fluxres.model import changes, holdings, matching, supply
from fluxres.store import mailbox
from fluxres.store.mailbox import News
from fluxres.syntax import jobspec

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.match import Placement
    from fluxres.model import ResourceGraph
    from fluxres.store import Ticket, Transaction
    from fluxres.syntax.jobspec import Request

_Named = list[tuple[int, int]]
_DISTANT_S: Final = 3e9
"""Later than any end that somebody gives."""


class Pass:
    """A pass of the queue over a graph.

    Args:
        graph: what is granted is allocated there.
        known: requests by job, as far as they have been read.

    Attributes:
        granted: the tickets that got their resources.
        waiting: the other tickets, in order.
        void: tickets whose processes are gone.
        refused: tickets that can never be granted any more, each with the reason.
        starts: estimated starts, in seconds, by job, of those that were looked at; infinity for those that are not known.
    """

    def __init__(self, graph: ResourceGraph, known: dict[str, Request] | None = None) -> None:
        self.graph, self.known = graph, known or {}
        self.granted: list[Ticket] = []
        self.waiting: list[Ticket] = []
        self.void: list[Ticket] = []
        self.refused: list[tuple[Ticket, str]] = []
        self.starts: dict[str, float] = {}
        self._trial: ResourceGraph | None = None
        self._blocked: list[Ticket] = []
        self._placed = 0
        self._unfit: set[tuple[Any, ...]] = set()

    def run(self, tickets: list[Ticket], *, only_estimate: bool = False) -> Pass:
        """Go through the tickets in order.

        Args:
            only_estimate: grant nothing, and find the estimated start of each.
        """
        now = self.graph.now()
        for ticket in tickets:
            if identity.presence(ticket.launch, now) is Presence.GONE:
                self.void.append(ticket)
                continue
            is_asleep = not identity.is_awake(ticket.launch, now)  # it keeps its place, and blocks nobody
            if only_estimate or is_asleep or not self._grant(ticket):
                self.waiting.append(ticket)
                if not is_asleep:
                    self._blocked.append(ticket)
        refused = [ticket for ticket, _ in self.refused]
        self.waiting = [ticket for ticket in self.waiting if ticket not in refused]
        if only_estimate:
            self._place()
        return self

    def _grant(self, ticket: Ticket) -> bool:
        """Allocate what a ticket asks for, if that is free now and delays none before it."""
        if self.graph.records.is_holder(ticket.job):  # a program that makes no pass of the queue has taken its id
            self.refused.append((ticket, "its id was given to another job, which holds resources"))
            return False
        kind = (msgspec.json.encode(ticket.request), ticket.pools, ticket.duration_s, ticket.policy)
        if kind in self._unfit:
            return False
        try:
            found = self._matched(self.graph, ticket, ticket.duration_s)
            if found is not None and self._blocked:
                if len(self._blocked) > limits.QUEUE_PLACED_MAX:
                    return False
                end, trial = found[1], self._place()
                found = self._matched(trial, ticket, self._length_s(ticket))
                if found is not None:
                    _commit(trial, ticket, *found)
                    found = found[0], end
            if found is None:
                self._unfit.add(kind)
                return False
            _commit(self.graph, ticket, *found)
        except InsufficientResources:
            self._unfit.add(kind)
            return False
        except (InfeasibleRequest, UnknownPool, UsageError) as error:  # the machine has changed since it was queued
            self.refused.append((ticket, str(error)))
            return False
        self.granted.append(ticket)
        return True

    def _request(self, ticket: Ticket) -> Request | None:
        if ticket.request is None:
            return None
        if ticket.job not in self.known:
            self.known[ticket.job] = jobspec.parse(ticket.request, dialect="any")
        return self.known[ticket.job]

    def _matched(self, graph: ResourceGraph, ticket: Ticket, length_s: float | None) -> tuple[Placement | _Named, int] | None:
        """What a ticket would get now, and until when; None if a request does not fit now."""
        request, length = self._request(ticket), None if length_s is None else ticks(length_s)
        now = graph.now()
        if request is not None:
            end = min(now + (matching.length(graph, request) if length is None else length), FOREVER)
            found = graph.matcher.match(request, now, end, ticket.policy)
            return None if found is None else (found, end)
        return _named(graph, ticket), FOREVER if length is None else now + length

    def _length_s(self, ticket: Ticket) -> float:
        """How long a ticket holds its resources: until the distant future if it has no limit."""
        request, graph = self._request(ticket), self.graph
        length = None if ticket.duration_s is None else ticks(ticket.duration_s)
        if length is None and request is not None:
            length = matching.length(graph, request)
        return _DISTANT_S - seconds(graph.now()) if length is None or length >= FOREVER else seconds(length)

    # -- earlier tickets -------------------------------------------------------------------------------------------------

    def _place(self) -> ResourceGraph:
        """Keep, on the trial copy, what each waiting ticket will get."""
        if self._trial is None:
            self._trial = _trial(self.graph)
        for ticket in self._blocked[self._placed : limits.QUEUE_PLACED_MAX]:
            self._placed += 1
            with suppress(FluxresError):
                self.starts[ticket.job] = self._placed_on(self._trial, ticket)
        return self._trial

    def _placed_on(self, trial: ResourceGraph, ticket: Ticket) -> float:
        """Reserve the earliest start of a ticket, and return it; infinity if it is not known."""
        request, length_s = self._request(ticket), self._length_s(ticket)
        if request is None:
            wanted = _named(trial, ticket)
            start = _earliest(trial, wanted, ticks(length_s))
            if start < _DISTANT_S:
                trial.allocate(wanted, job=f"{ticket.job} ", start=start, duration_s=length_s)
                return start
        else:
            got = trial.allocate_orelse_reserve(request, job=f"{ticket.job} ", duration_s=length_s, policy=ticket.policy)
            if got.start < _DISTANT_S:
                return got.start
            pools, units = (column.tolist() for column in got.held)
            first = [(v, amount) for v, amount in zip(pools, units, strict=True) if v < trial.structure.n]
            wanted = _with_free(self.graph, trial, (ticks(got.start), ticks(got.end)), first)
            if wanted != first:
                trial.free(got.job)
                with suppress(FluxresError):  # a supplier may be short then; what is free is kept nevertheless
                    trial.allocate(wanted, job=got.job, start=got.start, end=got.end)
        _keep(trial, ticket, wanted)
        return math.inf


def _named(graph: ResourceGraph, ticket: Ticket) -> _Named:
    """The pools that a ticket names, with their units."""
    sizes = graph.structure.size
    named = [(graph.vertex(path), amount) for path, amount in ticket.pools]
    return [(v, sizes.item(v) if amount is None else amount) for v, amount in named]


def _earliest(graph: ResourceGraph, named: _Named, length: int) -> float:
    """The earliest moment at which all of these pools are free for that many ticks; infinity if none is known."""
    now = graph.now()
    charged, _ = supply.with_draws(graph, named, (now, now + length))
    start = graph.planner.earliest(charged, length, now)
    return math.inf if start is None else seconds(start)


def _with_free(graph: ResourceGraph, trial: ResourceGraph, window: tuple[int, int], wanted: _Named) -> _Named:
    """The same pools, with others of their node that are free now in the place of those that are held, if they are like these.

    Which of the pools that are held will be free first is not known; what is free already must be there then.

    Args:
        graph: without what earlier tickets will get, which is on the trial copy.
        window: in which the wanted pools are.
    """
    structure, now, found = trial.structure, trial.now(), dict(wanted)
    for v, amount in wanted:
        if amount < structure.size.item(v) or _is_free(graph, v, (now, ticks(_DISTANT_S))):
            continue
        node = next((above for above in structure.ancestors(v) if structure.kind_of(above).type == NODE), 0)
        pools = structure.of_type(structure.kind_of(v).type)
        inside = pools[pools.searchsorted(node) : pools.searchsorted(structure.end.item(node))].tolist()
        others = [one for one in inside if one not in found and _likeness(structure, one) == _likeness(structure, v)]
        others = [one for one in others if _is_free(graph, one, (now, ticks(_DISTANT_S))) and _is_free(trial, one, window)]
        if others:  # what is kept for an earlier ticket that ends before, keeps nothing more
            other = min(others, key=lambda one: trial.planner.free(one, now, ticks(_DISTANT_S)))
            del found[v]
            found[other] = amount
    return list(found.items())


def _is_free(graph: ResourceGraph, v: int, window: tuple[int, int]) -> bool:
    planner = graph.planner
    return planner.free(v, *window) == graph.structure.size.item(v) and not planner.busy_below(v, *window)


def _likeness(structure: Structure, v: int) -> tuple[int, object]:
    """What pools of one type have in common that serve the same requests."""
    return structure.size.item(v), [item for item in structure.kind_of(v).properties if item[0] not in IDENTIFYING]


def _keep(trial: ResourceGraph, ticket: Ticket, wanted: _Named) -> None:
    """Keep what is free of these pools, and below those that are wanted as a whole, until the distant future."""
    sizes, now = trial.structure.size, trial.now()
    whole = [v for v, amount in wanted if amount == sizes.item(v)]
    if whole:
        # As for maintenance: the others have what they hold, and nobody gets any more.
        trial.reserve(whole, name=f"{ticket.job}  ", end=_DISTANT_S, ignore_jobs=True)
    for v, amount in wanted:
        free = 0 if v in whole else min(amount, trial.planner.free(v, now, ticks(_DISTANT_S)))
        if free > 0:
            with suppress(FluxresError):
                trial.allocate([(v, free)], job=f"{ticket.job} ", start=seconds(now), end=_DISTANT_S)


def _trial(graph: ResourceGraph) -> ResourceGraph:
    """A copy on which everything ends, in the distant future if it has no end."""
    trial = graph.duplicate()
    trial.clock = fixed(seconds(graph.now()))
    for one in holdings.of(trial, trial.now()):
        if one.end >= FOREVER and not one.is_maintenance:
            trial.set_end(one.job, _DISTANT_S)
    return trial


def _commit(graph: ResourceGraph, ticket: Ticket, found: Placement | _Named, end: int) -> None:
    """Allocate what was found for a ticket, from now on.  Errors: InsufficientResources."""
    facts, now = JobFacts(ticket.user, ticket.name, ticks(ticket.since), ticket.launch), graph.now()
    if isinstance(found, list):
        changes.allocate(graph, ticket.job, found, (now, end), facts)
    else:
        changes.commit_match(graph, msgspec.structs.replace(found, start=now, end=end), ticket.job, is_moved=True, facts=facts)


# -- as a part of any transaction ----------------------------------------------------------------------------------------


class Attendance:
    """What a transaction on a store does for jobs that live by processes, and for requests that wait.

    Args:
        transaction: on a graph that has such jobs or requests.
        store: path of the store.
    """

    def __init__(self, transaction: Transaction, store: Path) -> None:
        self._transaction, self._store = transaction, store
        transaction.passes_queue = True
        self._news: list[tuple[str, News]] = []
        self._void: list[str] = []

    def begin(self) -> None:
        """Free what dead processes held, before the changes of the transaction."""
        self._void = orphans.reap(self._transaction.graph)

    def end(self, newcomer: Ticket | None = None, request: Request | None = None) -> Pass:
        """Make a pass of the queue, after the changes of the transaction.

        Args:
            newcomer: a request that is not in the queue yet; it is not written there.
            request: that of the newcomer.

        Errors: UsageError if the transaction has given something to the id of a job that waits.
        """
        tickets, known = self._transaction.tickets.all(), {}
        self._require_own_ids(tickets)
        if newcomer is not None:
            tickets = sorted([*tickets, newcomer], key=lambda one: (-one.priority, one.number or math.inf))
            if request is not None:
                known[newcomer.job] = request
        made = Pass(self._transaction.graph, known=known).run(tickets)
        for ticket in (*made.granted, *made.void, *(ticket for ticket, _ in made.refused)):
            if ticket.number:
                self._transaction.tickets.remove(ticket)
        self._void += [ticket.launch.mark for ticket in made.void]
        self._news = [(ticket.launch.mark, News(is_granted=True)) for ticket in made.granted]
        self._news += [(ticket.launch.mark, News(is_canceled=True, reason=reason)) for ticket, reason in made.refused]
        marks = mailbox.concerned(self._transaction.graph, self._transaction.events)
        self._news += [(mark, News(has_new_end=True)) for mark in marks]
        self._news += _places(self._transaction.graph, made.waiting)
        return made

    def _require_own_ids(self, tickets: list[Ticket]) -> None:
        given = {event.get("job") for event in self._transaction.events}
        for ticket in tickets:
            if ticket.job in given and self._transaction.graph.records.is_holder(ticket.job):
                hint = "choose another id, or leave --job out"
                raise UsageError("is the id of a run that waits", where=f"job '{ticket.job}'", hint=hint)

    def tell(self) -> None:
        """Wake those whom the transaction concerns, once it is committed."""
        for mark in self._void:
            mailbox.discard(self._store, mark)
        mailbox.send(self._store, self._news)


def _places(graph: ResourceGraph, waiting: list[Ticket]) -> list[tuple[str, News]]:
    """What the waiting processes learn of a pass: the first few that are not stopped, what to watch; some, their places."""
    if not waiting:
        return []
    now = graph.now()
    holders = tuple(launch.processes for _, launch in orphans.launched(graph) if launch.host == identity.host())
    leases = [launch.lease for _, launch in orphans.launched(graph) if launch.lease is not None]
    moments = [moment for moment in (*graph.planner.moments(now, FOREVER), *leases) if now < moment < FOREVER]
    due_s = seconds(min(moments) - now) if moments else None
    found, watchers = [], 0
    for place, ticket in enumerate(waiting, 1):
        if not ticket.is_served and watchers < limits.QUEUE_WATCHERS and identity.is_awake(ticket.launch, now):
            watchers += 1
            found.append((ticket.launch.mark, News(place=place, waiting=len(waiting), watch=True, holders=holders, due_s=due_s)))
        elif ticket.shows_place or ticket.is_served:
            found.append((ticket.launch.mark, News(place=place, waiting=len(waiting))))
    return found

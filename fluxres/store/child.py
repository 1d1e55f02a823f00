"""A child: a process, on any machine, that works on what a job of another graph in the store holds (RFC 16, KVS of the enclosing
instance; rule N1).

The child has a graph of its own in the store of its parent: it loads what it was given from there, and its changes are in the
journal there when they return. It has a lease on this graph, which it renews after a third of its life. What it gets more, what
it gives back and its end change both graphs in one transaction of the store, so a crash in between gives nothing twice.

A child whose lease is over, because it stood still or could not reach the store, changes nothing any more: each of its
transactions checks that the store still has the lease and that it has not run out. The next process that writes to the parent
ends a crashed child (`Store.settle`), and its parent gets back everything that it held.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from fluxres import clock as clocks
from fluxres import limits
from fluxres.clock import FOREVER, Clock, Length, Time, seconds, ticks
from fluxres.errors import HoldLapsed, StillHeld, StoreBusy, StoreConflict, UnknownGraph, UnknownPool, UsageError
from fluxres.model import giving_back, targets
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store import claims, writing
from fluxres.store.attached import Attached
from fluxres.store.claims import ChildLease, Claim, Claims, states_of
from fluxres.store.contents import GraphRow
from fluxres.store.database import Connection
from fluxres.store.leased import Leased, require_none
from fluxres.store.rows import Rows
from fluxres.store.store import Held, Store, open_store
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    from fluxres.model.targets import Targets
    from fluxres.syntax.jobspec import Wanted


class ChildFence:
    """What lets a child write as long as it has its lease, and as long as the instances above it have theirs.

    Args:
        clock: gives the time in seconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._uid = self._name = self._mark = ""
        self.loss: HoldLapsed | None = None
        """Why it writes nothing any more."""

    def begin(self, row: GraphRow, lease: ChildLease) -> None:
        self._uid, self._name, self._mark = row.uid, row.name, lease.mark

    def require(self, db: Connection) -> None:
        """Errors: HoldLapsed, from then on; StoreError for damage."""
        if not self._uid:
            return  # it has no lease yet, and is taking one
        if self.loss is None:
            try:
                leased(db, self._uid, self._name, self._mark, ticks(self._clock()))
            except HoldLapsed as loss:
                self.loss = loss
        require_none(self.loss)


class Child(Leased):
    """What a job of another graph holds, as a graph of its own under a lease. It returns everything when the block ends.

    Several threads may use it. :func:`open_child` makes one.

    Args:
        store: of the parent.
        row: the graph in it.
        claim: what the graph is a part of, with the lease.
        fence: that each write transaction passes.
        command: for the journals.

    Attributes:
        graph: attached to the store: a change is in the journal when it returns.
        name: of the graph.
        parent: name of the graph that it is a part of.
        job: that holds its pools there.
        uid: of the graph.
        on_loss: called by a thread when the lease has been lost.
    """

    def __init__(self, store: Store, row: GraphRow, claim: Claim, fence: ChildFence, command: str) -> None:
        assert claim.lease is not None
        super().__init__(row.name, claim.name, claim.job, claim.lease.life_s)
        self.store, self.uid = store, row.uid
        self._fence, self._command = fence, command
        self._until, self._mark = claim.lease.until, claim.lease.mark
        wait_s = limits.LOCK_WAIT_SECONDS_DEFAULT
        self.graph: ResourceGraph = Attached(store, row.name, "full", command, wait_s, store.clock).graph
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Child {self.name} of job {self.job} in {self.parent} at {self.store.url}>"

    @property
    def lease_until(self) -> float:
        """When the lease is over if it is not renewed, in seconds."""
        return seconds(self._until)

    @property
    def loss(self) -> HoldLapsed | None:
        return self._fence.loss

    # -- more, less, longer --------------------------------------------------------------------------------------------

    def grow(self, wanted: Targets | Wanted, *, policy: str = "first") -> list[str]:
        """Get more from the parent: pools by name, or what a request asks for there, until the job ends (RFC 16).

        Returns: paths of what it got.
        Errors: InsufficientResources, InfeasibleRequest and others of the parent; StillHeld for what a job here holds as a whole
            and that would grow; HoldLapsed. Nothing is changed then.
        """
        with self._both("grow") as pair:
            return grow(pair, wanted, policy)

    def shrink(self, wanted: Targets) -> list[str]:
        """Return pools to the parent, by name, with everything in them.

        Returns: their paths.
        Errors: StillHeld if jobs here hold some of it, now or later; NotHeld; UsageError; HoldLapsed. Nothing is changed then.
        """
        with self._both("shrink") as pair:
            return shrink(pair, wanted)

    def extend(self, end: Time | None = None, *, duration_s: Length | None = None) -> float:
        """Move the end of the job in the parent; returns it in seconds, infinity for no end.

        Args:
            end, duration_s: as for `ResourceGraph.set_end`.

        Errors: those of `ResourceGraph.set_end` in the parent; HoldLapsed.
        """
        with self._both("extend") as pair:
            return extend(pair, end, duration_s)

    def refresh(self) -> None:
        """Take over what the parent has changed in what the job holds: pools that it added, removed or resized.

        Errors: StillHeld if jobs here hold some of what has gone; HoldLapsed.
        """
        with self._both("refresh"):
            pass

    @contextmanager
    def _both(self, what: str) -> Iterator[Both]:
        with both(self.store, self.name, f"{self._command or 'child'}: {what}") as pair:
            yield pair
        self.graph.refresh()

    # -- the lease -----------------------------------------------------------------------------------------------------

    def renew(self) -> None:
        """Renew the lease now; a thread does so after a third of its life.

        Errors: HoldLapsed if it was over, or if the job holds nothing any more; StoreBusy; StoreError.
        """
        wait_s = max(0.0, seconds(self._until) - self.store.clock())
        try:
            self._until, lapsed = renew(self.store, self.name, self._mark, wait_s, self._command or "child: end")
        except HoldLapsed as loss:
            self._fence.loss = loss
            raise
        if lapsed is not None:
            with suppress(StillHeld):  # its jobs end first; nothing new starts
                self.refresh()

    def end(self) -> None:
        """End it: its job in the parent is freed, and its graph is removed with those of all below it.

        Nothing happens if it has ended already. Errors: StoreBusy, StoreError; the lease then ends by itself.
        """
        was_over = self._is_over.is_set()
        self._stop()
        if was_over or self._fence.loss is not None:
            return
        with suppress(HoldLapsed):
            end(self.store, self.name, self._command or "child: end")
        self._was_ended = True
        self._fence.loss = HoldLapsed("it has ended", where=f"graph '{self.name}'", hint="start again")

    def detach(self) -> None:
        """Release the lease, and leave the graph with its jobs, which then lasts as long as the job in the parent.

        `open_child` takes it over.

        Errors: StoreBusy, StoreError, HoldLapsed; the lease then ends by itself.
        """
        self._stop()
        detach(self.store, self.name, self._mark, self._command or "child: detach")
        self._fence.loss = HoldLapsed("it was detached", where=f"graph '{self.name}'", hint="open it again")

    def _stop(self) -> None:
        super()._stop()
        self.graph.close()

    def _note_end_of_lease(self) -> None:
        if seconds(self._until) <= self.store.clock():
            self._fence.loss = claims.over(self.name, self._until)


def open_child(
    url: str | None = None,
    *,
    graph: str | None = None,
    job: str,
    wanted: Targets | Wanted | None = None,
    duration_s: Length | None = None,
    name: str | None = None,
    lease_s: float = limits.CHILD_LEASE_SECONDS_DEFAULT,
    command: str = "",
    clock: Clock = clocks.system,
) -> Child:
    """Work on what a job of a graph in a store holds, as an instance of its own, from any machine that reaches the store.

    >>> import fluxres, tempfile
    >>> site = f"sqlite:///{tempfile.mkdtemp()}/site.db"
    >>> _ = fluxres.save(fluxres.load({"fluxres": 1, "name": "demo", "resources": [{"type": "node", "count": 4}]}), site)
    >>> with fluxres.open_child(site, job="j1", wanted="slot=2/node") as child:
    ...     _ = child.graph.allocate("slot/node", job="inner")
    ...     child.grow("slot/node")
    ...     child.shrink("/demo/node1")
    ...     child.graph.allocated("inner").paths(), len(child.graph.find("type=node"))
    ['/demo/node2']
    ['/demo/node1']
    (['/demo/node0'], 2)
    >>> fluxres.load(site).jobs()
    []

    Args:
        url: of the store, ``etcd://…``, ``postgresql://…`` or ``sqlite:///…``; the default one if None.
        graph: the parent; that of ``?graph=NAME``, else the graph in use.
        job: that holds the pools there, or gets them first (`wanted`).
        wanted: allocated to the job first, in the same transaction: pools by name, or a request.
        duration_s: of this allocation; None for no end.
        name: of the graph of the child; ``PARENT.JOB`` by default. A copy for this job that nobody works on is taken over.
        lease_s: life of the lease.
        command: for the journals.
        clock: gives "now", the same as for the parent.

    Errors: UnknownJob; InsufficientResources if the job holds nothing now, or `wanted` cannot be allocated; StoreBusy if another
        process has the lease; UsageError for a name that is taken; HoldLapsed if the parent has nothing to give any more.
    """
    store, fence = open_store(url, clock=clock), ChildFence(clock)
    who = os.uname().nodename, os.getpid()
    asked = Opening(graph, job, wanted, duration_s, name, lease_s, who)
    row, claim = begin(store, asked, command or "child: open")
    assert claim.lease is not None
    fence.begin(row, claim.lease)
    store.fence = fence
    return Child(store, row, claim, fence, command)


class Opening(NamedTuple):
    """What a child asks for as it begins; the arguments of `open_child`.

    Args:
        who: host and process that get the lease.
    """

    graph: str | None
    job: str
    wanted: Targets | Wanted | None
    duration_s: Length | None
    name: str | None
    lease_s: float
    who: tuple[str, int]


def begin(
    store: Store,
    asked: Opening,
    command: str,
    user: str | None = None,
    keep: Callable[[GraphRow, Claim], tuple[str, str] | None] = lambda _row, _claim: None,
) -> tuple[GraphRow, Claim]:
    """Begin to work on what a job holds.

    Args:
        user: for the journals; that of this process by default.
        keep: makes a note to be written with it.

    Returns: the graph of the child, and its claim with the lease. Errors: those of `open_child`.
    """
    job, wanted, lease_s = asked.job, asked.wanted, asked.lease_s
    if not isinstance(lease_s, int | float) or not limits.CHILD_LEASE_SECONDS_MIN <= lease_s <= limits.CHILD_LEASE_SECONDS_MAX:
        bounds = f"{limits.CHILD_LEASE_SECONDS_MIN:g} to {limits.CHILD_LEASE_SECONDS_MAX:g}"
        raise UsageError(f"lease_s: expected {bounds} seconds, got {lease_s!r}")
    with store.changing(asked.graph, command, None) as rows:
        above, _ = store.settled(rows, rows.graph(asked.graph))
        if wanted is not None:
            with _changed(store, rows, above, command, user) as parent:
                parent.allocate(wanted, job=job, duration_s=asked.duration_s, user=user)
            above = rows.graph(above.name)
        row = _part(store, rows, above, job, asked.name or f"{above.name}.{job}", command)
        claim = Claims(rows).of(row)
        assert claim is not None
        lease = ChildLease(token_hex(8), *asked.who, lease_s, ticks(store.clock() + lease_s))
        claim = replace(claim, lease=lease)
        Claims(rows).note(row, claim)
        if (note := keep(row, claim)) is not None:
            rows.db.put_note(*note)
    return row, claim


def renew(store: Store, name: str, mark: str, wait_s: float | None, command: str) -> tuple[int, str | None]:
    """Renew the lease with this mark.

    Returns: when it is over, in ticks, and why the graph allocates nothing now, if so: the parent has changed what the job holds.
    Errors: HoldLapsed if the lease was over, or if the job holds nothing any more, in which case the child has ended.
    """
    now = store.clock()
    with store.changing(name, "renew", wait_s) as rows:
        row = rows.graph(name)
        claim, standing = leased(rows.db, row.uid, name, mark, ticks(now)), Claims(rows).standing(row, ticks(now))
        assert claim.lease is not None
        assert standing is not None
        until = ticks(now + claim.lease.life_s)
        if is_void := standing.lapsed is not None and not _holds(rows, row, claim.job, ticks(now)):
            writing.end_child(rows, row, claim, now, command)
        else:
            Claims(rows).note(row, replace(claim, lease=replace(claim.lease, until=until)))
    if is_void:
        raise HoldLapsed(str(standing.lapsed), where=f"graph '{name}'", hint="start again")
    return until, standing.lapsed


def detach(store: Store, name: str, mark: str, command: str, note: tuple[str, str] | None = None) -> None:
    """Give a lease back, and leave the graph, which then lasts as long as the job in the parent.

    Args:
        note: name and text, to be written with it.

    Errors: HoldLapsed.
    """
    with store.changing(name, command, None) as rows:
        row = rows.graph(name)
        claim = leased(rows.db, row.uid, name, mark, ticks(store.clock()))
        Claims(rows).note(row, replace(claim, lease=None))
        if note is not None:
            rows.db.put_note(*note)


@contextmanager
def gone(name: str, mark: str | None = "") -> Iterator[None]:
    """The graph of a child that is not there any more was taken from it.

    Args:
        mark: of its lease; None if it is not a child that asks.

    Errors: HoldLapsed.
    """
    try:
        yield
    except (UnknownGraph, StoreConflict) as error:
        is_another = isinstance(error, UnknownGraph) and error.graph != name  # also an auxiliary graph
        if mark is None or is_another:
            raise
        raise _taken(name) from error


def require(store: Store, name: str, mark: str) -> None:
    """Errors: HoldLapsed unless a graph has a lease with this mark; the caller has the lock of the store."""
    with store.reading(name) as rows:
        leased(rows.db, rows.graph(name).uid, name, mark, ticks(store.clock()))


def _taken(name: str) -> HoldLapsed:
    return claims.lapsed(name, "its lease was over, and its parent has ended it")


def leased(db: Connection, uid: str, name: str, mark: str, now: int) -> Claim:
    """The claim of a graph whose lease has this mark, as long as the instances above it have theirs, too.

    Args:
        now: in ticks.

    Errors: HoldLapsed; StoreError for damage.
    """
    where = f"graph '{name}'"
    found = claim = claims.read(db, uid, where)
    if found is None or claim is None or found.lease is None or found.lease.mark != mark:
        raise _taken(name)
    while claim is not None:
        if claim.lease is not None and claim.lease.until <= now:
            raise claims.over(name, claim.lease.until)
        claim = claims.read(db, claim.parent, f"graph '{claim.name}'")
    return found


def _part(store: Store, rows: Rows, above: GraphRow, job: str, name: str, command: str) -> GraphRow:
    """The graph of what a job holds: the one that there is, or a new one."""
    for row, claim in Claims(rows).children(above):
        if claim.job == job:
            if claim.lease is not None:
                raise StoreBusy(
                    f"process {claim.lease.process} on {claim.lease.host} works on what this job holds, "
                    f"until {in_message(seconds(claim.lease.until))} or longer",
                    where=f"graph '{row.name}'",
                    hint="end it, or wait for the end of its lease",
                )
            return row
    part = rows.read(above, store.clock).copy(job=job)
    return store.add(rows, name, part, Held(above.name, job), command)


def grow(pair: Both, wanted: Targets | Wanted, policy: str) -> list[str]:
    """Allocate more to the job of a child; returns the paths."""
    targets.require_no_number(wanted)
    return list(dict.fromkeys(span.pool for span in pair.parent.grow(pair.job, wanted, policy=policy).spans))


def shrink(pair: Both, wanted: Targets) -> list[str]:
    """Return pools of a child to its parent; returns their paths."""
    parent, part, job = pair.parent, pair.part, pair.job
    targets.require_no_number(wanted)
    if targets.is_request(wanted, part):
        hint = f"name them, such as {giving_back.IDLE_NODES}"
        raise UsageError(f"expected pools to return, got a request: {wanted!r:.80}", hint=hint)
    s, now = part.structure, parent.now()
    tops: list[int] = []
    for v, amount in sorted(targets.resolve(part, wanted)):
        if amount is not None and (v >= s.n or amount != s.size.item(v)):
            raise UsageError("only complete pools can be returned", where=s.accounts.where(v), hint="name all units")
        if not tops or v >= s.end.item(tops[-1]):
            tops.append(v)
    limit = max(parent.records.ends(job), default=FOREVER)
    for v in tops:
        if not parent.records.is_holder(job):
            break
        with parent.structure.lifted():
            giving_back.give_back(parent, job, parent.vertex(s.uuid(v)), now, limit)
    if not parent.records.is_holder(job):
        raise UsageError("a child that returns everything ends", where=f"graph '{part.name}'", hint="end it")
    return s.wheres(tops)


def extend(pair: Both, end: Time | None, duration_s: Length | None) -> float:
    """Move the end of the job of a child; returns it in seconds, infinity for no end."""
    return max(span.end for span in pair.parent.set_end(pair.job, end, duration_s=duration_s).spans)


def end(
    store: Store,
    name: str,
    command: str,
    mark: str | None = None,
    *,
    user: str | None = None,
    note: Callable[[str], tuple[str, str] | None] = lambda _above: None,
) -> None:
    """End a child: its job in the parent is freed, and its graph is removed with those of all below it.

    Args:
        mark: of its lease, if that is to be looked at.
        user: for the journal; that of this process by default.
        note: makes a name and a text, to be written with it, of the name of the parent; its error prevents the end.

    Errors: HoldLapsed, also if the parent was dropped; UsageError for a graph that is no child.
    """
    with store.changing(name, command, None) as rows:
        row, above, claim = _parent(store, rows, name, mark)
        found = note(above.name)
        writing.end_child(rows, row, claim, store.clock(), command, user=user)
        if found is not None:
            rows.db.put_note(*found)
    store.wake(above.name, ())


class Both(msgspec.Struct):
    """A child and its parent, within one transaction.

    Args:
        parent: to be changed.
        job: of the child in it.
        part: the graph of the child as it is before the change.
        notes: names and texts that are written with the change.
    """

    parent: ResourceGraph
    job: str
    part: ResourceGraph
    notes: list[tuple[str, str]] = msgspec.field(default_factory=list)


@contextmanager
def both(store: Store, name: str, command: str, user: str | None = None, mark: str | None = None) -> Iterator[Both]:
    """Change what the job of a child holds in its parent; the graph of the child then becomes what the job holds.

    Both are written in one transaction, or neither.

    Args:
        name: of the graph of the child.
        user: for the journals; that of this process by default.
        mark: of the lease of the child, if that is to be looked at.

    Errors: StillHeld if jobs of the child hold some of what goes; HoldLapsed; UsageError for a graph that is no child.
    """
    with store.changing(name, command, None) as rows:
        row, above, claim = _parent(store, rows, name, mark)
        with _changed(store, rows, above, command, user) as parent:
            if not _is_holder(parent, claim.job, parent.now()):
                said = f"job '{claim.job}' of graph '{above.name}' holds nothing any more"
                raise HoldLapsed(said, where=f"graph '{name}'", hint="start again")
            pair = Both(parent, claim.job, rows.read(row, store.clock))
            yield pair
            fresh = parent.copy(job=claim.job)
        with _changing(store, rows, row, pair.part, command, user):
            try:
                pair.part.apply(fresh)
            except StillHeld as error:
                said = error.message.replace("is not in the description", "would go from the child")
                hint = "free it in the child, or wait until it ends"
                raise StillHeld(said, jobs=error.jobs, where=error.where, hint=hint) from None
            states = states_of(fresh.structure)
            _follow_states(pair.part, claim.states, states)
        if states != claim.states and (kept := Claims(rows).of(row)) is not None:
            Claims(rows).note(row, replace(kept, states=states))
        for key, text in pair.notes:
            rows.db.put_note(key, text)
    store.wake(above.name, ())
    store.wake(name, ())


def _follow_states(part: ResourceGraph, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Let the pools of a child whose state is that of the parent have its new state; what the child has set itself stays.

    Args:
        before, now: the states other than up in the parent, by uuid.
    """
    structure = part.structure
    for uuid, state in before.items():
        new = now.get(uuid, "up")
        with suppress(UnknownPool):  # it is no part of the child any more
            v = structure.vertex(uuid)
            if new != state and structure.state_name(v) == state:
                part.set_state(structure.where(v), new)


def _parent(store: Store, rows: Rows, name: str, mark: str | None) -> tuple[GraphRow, GraphRow, Claim]:
    """The graph of a child, that of its parent, and the claim on it.

    Args:
        mark: of the lease of the child, if that is to be looked at.

    Errors: HoldLapsed; UsageError for a graph that is no child.
    """
    row = rows.graph(name)
    if mark is not None:
        leased(rows.db, row.uid, name, mark, ticks(store.clock()))
    return row, *Claims(rows).parent(row)


def _holds(rows: Rows, row: GraphRow, job: str, now: int) -> bool:
    """Whether the job that a graph is a part of holds anything now."""
    try:
        above, _ = Claims(rows).parent(row)
    except HoldLapsed:
        return False
    return _is_holder(rows.read(above), job, now)


def _is_holder(graph: ResourceGraph, job: str, now: int) -> bool:
    return graph.records.is_job(job) and any(end > now for end in graph.records.ends(job))


@contextmanager
def _changed(store: Store, rows: Rows, row: GraphRow, command: str, user: str | None = None) -> Iterator[ResourceGraph]:
    graph = rows.read(row, store.clock)
    with _changing(store, rows, row, graph, command, user):
        yield graph


@contextmanager
def _changing(store: Store, rows: Rows, row: GraphRow, graph: ResourceGraph, command: str, user: str | None) -> Iterator[None]:
    """Write the changes of a graph that are made in the block, within a transaction."""
    events: list[dict[str, object]] = []
    graph.sink = events.append
    yield
    graph.sink = None
    if events:
        writing.append(rows, row, graph, events, store.clock(), command, user=user)

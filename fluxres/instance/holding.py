"""What running jobs hold: recording it in the graph, keeping it until a job has ended (rule T1), and changing the limit.

Inventories other than the graph do not record what their jobs hold.  It is recorded when the graph is used, when a job gets a
child, and while others hold something in the graph.

A job whose limit has passed is asked to stop, and keeps its resources until its runner reports that it has ended.  Until then its
records are extended by a short time, again and again.  In the same way, a job of which others free everything is asked to stop,
and holds it again until it has ended.  At the exact moment of the limit only `advance` asks the job to stop: any
other call may be the one that reports its end, and until then its resources are kept for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from fluxres.allocation import steps
from fluxres.arrays import UInt8
from fluxres.clock import FOREVER, seconds, ticks
from fluxres.documents.document import listed
from fluxres.errors import FluxresError, InfeasibleRequest, InsufficientResources
from fluxres.instance import recording, states
from fluxres.instance.graph_inventory import GraphHold, GraphInventory
from fluxres.instance.interchangeable import InterchangeableInventory
from fluxres.instance.inventory import Hold
from fluxres.instance.job import Job
from fluxres.instance.queue import Queue, QueueOwner
from fluxres.instance.roles import Foreign
from fluxres.instance.sizes import Option
from fluxres.instance.states import State
from fluxres.instance.upstream import ParentSupply, in_service
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure

KEPT_TICKS: Final = 1
"""Ticks for which a job at its limit keeps its resources: that moment only."""

FREED: Final = "others have freed what it held"
"""The note of the exception of a job that others cancel in this way."""
OVERTIME_S: Final = 10.0
"""The time by which the claim of a late job is extended, repeatedly."""


class HoldingsOwner(QueueOwner, Protocol):
    """What `Holdings` uses of its instance."""

    holdings: Holdings
    keeps_limits: bool
    queue: Queue

    @property
    def others(self) -> Foreign: ...

    def walk(self) -> Iterator[HoldingsOwner]: ...


class Holdings:
    """What the running jobs of one instance hold, until and beyond their limits.

    Args:
        jobs: the active jobs by number.
        children: by number of the job that holds the child's resources.
    """

    def __init__(self, instance: HoldingsOwner, jobs: Mapping[int, Job], children: Mapping[int, HoldingsOwner]) -> None:
        self.instance, self.jobs, self.children = instance, jobs, children
        self.graph = instance.inventory.graph
        self.recorded: set[int] = set()
        """Jobs that were recorded in the graph although the inventory does not use records."""
        self.at_limit: set[int] = set()
        """Jobs that are exactly at their limit and keep their resources."""
        self.overtime: set[int] = set()
        """Jobs that have not ended by their limit."""
        self.disputed: set[int] = set()
        """Jobs of whose resources others hold some in the graph, or will before the job's limit."""
        self.lost: dict[int, list[tuple[str, int]]] = {}
        """By number of a job, what others have freed of it that the inventory no longer counts, for `check`."""
        self.freed: list[tuple[Job, list[tuple[str, int]]]] = []
        """Running jobs of which others have freed a part in the graph that the inventory still counts, with that part."""
        self.grown: dict[int, int] = {}
        """By vertex, the units that others have added to running jobs in the graph, and that the inventory does not count."""
        self._grown: set[int] = set()
        """The jobs to which they have added these."""
        self._cut: dict[int, int] = {}
        """By number of a running job, the tick from which it holds nothing although its limit is later: others have freed it."""
        self.next_cut = FOREVER
        """The earliest of these moments."""
        self._moved: list[Job] = []
        """Running jobs of which something is recorded beyond their limit."""
        self._lapsed: list[int] = []
        """Jobs with their limit at `lapsed_at` whose runner keeps limits: they must have ended by then."""
        self.lapsed_at = FOREVER
        self.suppliers: dict[int, ParentSupply] = {}
        """By number of the job, what its child draws from this instance; also after the child has ended."""
        self.propagated_states: tuple[Structure, UInt8] | None = None
        """The structure and pool states that were last propagated to the children."""

    @property
    def upstream(self) -> ParentSupply | None:
        """The suppliers that the instance shares with its parent; None for an outermost instance."""
        found = self.graph.records.upstream
        return found if isinstance(found, ParentSupply) else None

    def jobs_in(self, in_states: Collection[State]) -> list[Job]:
        """The active jobs in some states, in order of submission."""
        return sorted((job for job in self.jobs.values() if job.state in in_states), key=lambda job: job.number)

    def forget(self, job: Job) -> None:
        """Remove a job whose resources are free now."""
        self._unrecord(job)
        self.at_limit.discard(job.number)
        self.overtime.discard(job.number)
        self.disputed.discard(job.number)
        self.suppliers.pop(job.number, None)
        self.lost.pop(job.number, None)
        if job.number in self._grown:
            self.instance.inventory.revision = -1  # what was added to it is free as well
        self._forget_cut(job)

    def _forget_cut(self, job: Job) -> None:
        if self._cut.pop(job.number, None) is not None:
            self.next_cut = min(self._cut.values(), default=FOREVER)

    def note_suppliers(self) -> None:
        """Note in the time of the tree whether the instance draws from suppliers that it shares with others."""
        time, linked = self.instance.time, self.graph.structure.accounts.linked
        time.has_suppliers = time.has_suppliers or (linked is not None and bool(linked.any()))

    # -- what others free --------------------------------------------------------------------------------------------

    def find_cut(self) -> None:
        """Find the jobs of which others have freed everything, or everything from a moment before their limit on.

        Also those of which others have moved the end beyond their limit. Cost: the running jobs.
        """
        now, before = self.instance.time.now, self._cut
        self._cut, self._moved = {number: end for number, end in before.items() if end < now}, []  # those still to be handled
        for job in self._on_time(now):
            end = self._recorded_end(job)
            if end is not None and end < min(self.held_until(job), FOREVER):
                self._cut[job.number] = end if end >= now else min(now - 1, before.get(job.number, FOREVER))
            elif end is not None and end > self.held_until(job):
                self._moved.append(job)
        for number, ahead in self.instance.inventory.ahead.items():
            if number in self.jobs and self._has_recorded(number, ahead):
                end = self.graph.records.held_until(fluid.encode(number), max(now, ahead.start))
                if end < ahead.end:
                    self._cut[number] = end if end > ahead.start else min(now, ahead.start) - 1
        self.next_cut = min(self._cut.values(), default=FOREVER)
        for number in before.keys() | self._cut.keys():
            if (child := self.children.get(number)) is not None and before.get(number) != self._cut.get(number):
                child.lifetime.take_end()
        self.instance.due.announce(self.cut_event)

    @property
    def cut_event(self) -> int:
        """When a cut has to be handled, in ticks: what others free at a moment can be used then, so it is due a tick earlier."""
        return FOREVER if self.next_cut >= FOREVER else self.next_cut - 1

    def freed_from(self, number: int) -> int:
        """From when on others have freed everything that a job holds, which ends it; FOREVER if they have not."""
        return self._cut.get(number, FOREVER)

    def end_of(self, job: Job) -> int:
        """When a running job ends at the latest: at its limit, or when others have freed all that it holds."""
        return min(job.limit, self.freed_from(job.number))

    def take_moved_ends(self) -> list[tuple[Job, int]]:
        """The running jobs of which others have moved the end beyond their limit, and where to."""
        found, self._moved = self._moved, []
        ends = [(job, self._recorded_until(job)) for job in found if job.state is State.RUN]
        return [(job, end) for job, end in ends if end > self.held_until(job)]

    def _recorded_until(self, job: Job) -> int:
        """Until when the records have something of every pool of a job; 0 for one without pools."""
        records, name = self.graph.records, fluid.encode(job.number)
        pools = self.instance.inventory.vertices(job.claim)
        return min((held[-1][1] if (held := records.steps_of(v, name)) else 0 for v in pools), default=0)

    def compare_records(self) -> bool:
        """Find what the records of the graph have less (`freed`) or more (`grown`) of running jobs than the inventory counts.

        Nothing on the inventory `graph`, which reads the records. Cost: what the recorded jobs hold.

        Returns: whether they differ.
        """
        inventory, records, where = self.instance.inventory, self.graph.records, self.graph.structure.accounts.where
        now, self.freed, self.grown = self.instance.time.now, [], {}
        self._grown.clear()
        for number in () if isinstance(inventory, GraphInventory) else sorted(self.recorded - self.disputed):
            job, name = self.jobs.get(number), fluid.encode(number)
            if job is None or job.claim is None or not records.is_holder(name):
                continue
            given, at = dict(recording.existing(self.graph, inventory.pools(job.claim))), max(now, job.started)
            held = {v: steps.amount_at(records.steps_of(v, name), at) for v in {*given, *records.pools_of[name]}}
            for v, units in held.items():
                if units > given.get(v, 0):
                    self.grown[v] = self.grown.get(v, 0) + units - given.get(v, 0)
                    self._grown.add(number)
            if job.state is State.RUN and self._is_on_time(job, now) and any(held[v] for v in given):  # else all is freed: a cut
                lost = [(where(v), units - held[v]) for v, units in given.items() if held[v] < units]
                self.freed += [(job, lost)] if lost else []
        return bool(self.freed or self.grown)

    def recount(self) -> None:
        """Note what running jobs still hold of what others have freed in part. Cost: what running jobs hold."""
        instance, inventory = self.instance, self.instance.inventory
        now = instance.time.now
        if isinstance(inventory, InterchangeableInventory):
            freed, self.freed = self.freed, []
            for job, lost in freed:
                part = inventory.part_of(job.claim, lost)
                if part is not None and job.state is State.RUN:  # a listener may have ended it
                    inventory.reduce(job.claim, part, now)
                    self.lost.setdefault(job.number, []).extend(lost)
                    instance.lifecycle.resized(job)
        if not isinstance(inventory, GraphInventory):
            return
        for job in list(self._on_time(now)):  # a listener may submit and end jobs
            if job.state is State.RUN and inventory.has_lost(job.claim, now):
                instance.lifecycle.resized(job)

    def lost_of_children(self) -> list[tuple[HoldingsOwner, list[str]]]:
        """The children of running jobs of which others have freed some pools, with the names of these pools."""
        found: list[tuple[HoldingsOwner, list[str]]] = []
        now, records, accounts = self.instance.time.now, self.graph.records, self.graph.structure.accounts
        for number, child in self.children.items():
            job, name = self.jobs.get(number), fluid.encode(number)
            if job is None or job.state is not State.RUN or not isinstance(job.claim, GraphHold) or not records.is_holder(name):
                continue
            if job.claim.generation != self.graph.generation or number in self.disputed:
                continue
            lost = [v for v in job.claim.vertices.tolist() if not steps.amount_at(records.steps_of(v, name), now)]
            found += [(child, [accounts.where(v) for v in lost])] if lost else []
        return found

    def _on_time(self, now: int) -> Iterator[Job]:
        return (job for job in self.jobs.values() if self._is_on_time(job, now))

    def _is_on_time(self, job: Job, now: int) -> bool:
        """Whether a job runs and is not past its limit, or is being stopped and lacks nothing."""
        if job.claim is None or job.limit < now or job.number in self.disputed:
            return False
        return job.state is State.CLEANUP or (job.state is State.RUN and job.number not in self.overtime)

    def _has_recorded(self, number: int, claim: Hold) -> bool:
        """Whether the records of the graph should have something of a claim: one that shares pools only has none."""
        if self.instance.inventory.kind != "graph":
            return number in self.recorded
        return not isinstance(claim, GraphHold) or bool(len(claim.accounts))

    def _recorded_end(self, job: Job) -> int | None:
        """Until when the records have something of a job at any moment from now on, -1 if they have nothing at all.

        None if they need not have anything.
        """
        if not self._has_recorded(job.number, job.claim):
            return None
        end = self.graph.records.held_until(fluid.encode(job.number), max(self.instance.time.now, job.started))
        return None if end < 0 and self._is_removed(job) else end

    def _is_removed(self, job: Job) -> bool:
        """Whether no pool of a job is in the graph any more; its inventory still counts them."""
        inventory = self.instance.inventory
        return isinstance(inventory, InterchangeableInventory) and not recording.existing(self.graph, inventory.held(job.claim))

    def end_cut(self, moment: int) -> None:
        """End the jobs that hold nothing from a moment on, since others have freed it: that is how they cancel a job.

        Those that do not end immediately keep their resources until they have stopped.
        """
        for number in [number for number, end in self._cut.items() if end <= moment]:
            del self._cut[number]
            if (job := self.jobs.get(number)) is None:
                continue
            try:
                if job.state is State.RUN or job.number in self.instance.inventory.ahead:
                    self.instance.lifecycle.raise_exception(job, "cancel", states.FATAL, FREED)
            finally:
                if job.state is State.CLEANUP:
                    self._take_back(job)
        self.next_cut = min(self._cut.values(), default=FOREVER)

    def _take_back(self, job: Job) -> None:
        """Let a job that is being stopped hold again what others have freed, as far as they leave it (rule T1)."""
        self._note_loss(job)
        if job.limit > self.instance.due.now:
            self._dispute(job, self.keep(job, job.limit))
        else:
            self._extend_overtime(job)

    def _note_loss(self, job: Job) -> None:
        """Note that others have freed what a job holds, which is to be recorded again."""
        if isinstance(self.instance.inventory, GraphInventory):
            self.instance.inventory.take_back(job.claim)
        self._mark_disputed(job)

    # -- records -----------------------------------------------------------------------------------------------------

    def record_job(self, job: Job) -> None:
        """Record in the graph what a job holds, unless the inventory does so itself."""
        if self.instance.inventory.kind != "graph" and job.number not in self.recorded:
            self.recorded.add(job.number)
            taken = self._record_more(job, min(job.started, self.instance.due.now), self.held_until(job))
            if taken:  # otherwise it may lack what other jobs of this instance hold
                self._dispute(job, taken)

    def record_jobs(self) -> None:
        """Record in the graph what all jobs hold, late jobs last that may lack something."""
        jobs = [job for job in self.jobs.values() if job.claim is not None]
        for job in sorted(jobs, key=lambda job: job.number in self.disputed):
            self.record_job(job)

    def _record_more(self, job: Job, start: int, end: int) -> list[str]:
        """Record what a job holds over a further window.

        Returns: the paths of pools that others hold in the graph.
        """
        instance, inventory = self.instance, self.instance.inventory
        assert isinstance(inventory, InterchangeableInventory)  # the resource graph records its claims itself
        name, pools, is_disputed = fluid.encode(job.number), inventory.held(job.claim), job.number in self.disputed
        with recording.own_changes(inventory):
            return recording.record_available(
                self.graph, name, pools, start, instance.due.now, end, replace=is_disputed, is_routed=False
            )

    def _unrecord(self, job: Job, start: int | None = None) -> None:
        """Remove what a job holds from the records of the graph.

        Args:
            start: only from this tick on; None for everything.
        """
        if job.number not in self.recorded:
            return
        name = fluid.encode(job.number)
        with recording.own_changes(self.instance.inventory):
            if self.graph.records.is_holder(name):
                self.graph.free(name, start=None if start is None else seconds(start))
        if start is None:
            self.recorded.discard(job.number)

    # -- limits ------------------------------------------------------------------------------------------------------

    def next_limit(self) -> int:
        """When the next limit of a job has to be handled.

        The limits of a runner that keeps limits are handled only after they have passed; its job is then late like any other.
        """
        if self.at_limit:
            return min(self.jobs[number].limit for number in self.at_limit)
        ends, instance = self.instance.inventory.running.ends, self.instance
        if ends and (not instance.keeps_limits or ends[0] < instance.time.now):
            return ends[0]
        return min((self.jobs[number].limit for number in self.overtime), default=FOREVER)

    def keep_at_limit(self) -> None:
        """Let jobs that are exactly at their limit keep their resources until their end is reported or they are asked to stop.

        Jobs whose runner promises that they end at their limit are left out.  Reservations keep their pools, or begin a tick
        later.
        """
        held = self.jobs_at_limit()
        if held:
            places = self.instance.queue.places()
            self.keep_jobs(held)
            self.instance.queue.restore(places, KEPT_TICKS)

    def jobs_at_limit(self) -> list[Job]:
        """Jobs that are exactly at their limit and may run on after it."""
        instance = self.instance
        found = (self.jobs[number] for number in instance.inventory.running.ending_by(instance.due.now))
        return [job for job in found if not self._ends_by_itself(job)]

    def keep_jobs(self, held: list[Job]) -> None:
        """Keep the resources of jobs that are exactly at their limit."""
        for job in held:
            if self.keep(job, self.instance.due.now + KEPT_TICKS):
                self._mark_disputed(job)
            else:
                self.disputed.discard(job.number)
            self.at_limit.add(job.number)

    def _ends_by_itself(self, job: Job) -> bool:
        """Whether a job ends at its limit by itself: its runner keeps limits, and so do the runners of all jobs in its child.

        False for a late job, and if an active job in its child is late or has a runner that does not keep limits.
        """
        instance = self.instance
        if not instance.keeps_limits or job.number in self.overtime or job.limit < instance.time.now:
            return False
        if (child := self.children.get(job.number)) is None:
            return True
        below = child.holdings
        return all(below._ends_by_itself(each) for each in below.jobs.values() if each.claim is not None)

    def free_lapsed(self, now: int) -> None:
        """Let what jobs hold be free from their limit on, if it has come."""
        instance = self.instance
        lapsed = instance.inventory.advance(now)
        if not lapsed:
            return
        instance.queue.elapsed = True
        instance.time.has_returned = True
        since = instance.due.now
        self._lapsed = lapsed if self.lapsed_at != since else self._lapsed + lapsed
        self.lapsed_at = since

    def find_late(self) -> bool:
        """Mark the jobs that have not ended at their limit, although their runner keeps limits, as late.

        Returns: whether there are any.
        """
        late = [job for number in self._lapsed if (job := self.jobs.get(number)) and job.limit == self.lapsed_at]
        self.overtime.update(job.number for job in late)
        self._lapsed, self.lapsed_at = [], FOREVER
        return bool(late)

    def enforce_limits(self, moment: int) -> None:
        """Ask the jobs with their limit at a moment to stop; those that do not end immediately keep their resources."""
        instance = self.instance
        for number in sorted({*self.at_limit, *self.overtime, *instance.inventory.running.ending_by(moment)}):
            job = self.jobs.get(number)
            if job is None or job.limit > moment:
                continue
            is_on_time = job.state is State.RUN and job.limit >= instance.due.now and number not in self.at_limit
            if is_on_time and self._ends_by_itself(job):
                continue
            try:
                if job.state is State.RUN:
                    instance.lifecycle.raise_exception(job, "timelimit", states.FATAL, "the job has reached its limit")
            finally:
                if job.state is State.CLEANUP:
                    self._extend_overtime(job)

    def _extend_overtime(self, job: Job) -> None:
        """Extend the claim of a job that has not ended by its limit (rule T1).

        What others hold now, or will hold during the extension, they keep, since their records are older.  In that case the job
        gets an exception that does not end it, and `check` reports the pools as long as this lasts.
        """
        now, ends = self.instance.due.now, self.instance.others.ends
        end = min(now + ticks(OVERTIME_S), next((end for end in reversed(ends) if end > now), FOREVER))
        self.overtime.add(job.number)
        if job.number not in self.disputed:
            self._adjust_records(job)
        taken = self.keep(job, end)
        self.at_limit.discard(job.number)
        job.limit = end
        self._dispute(job, taken)

    def leave_overtime(self) -> list[Job]:
        """Free in the records what late jobs hold from now on; returns these jobs, for `return_to_overtime`."""
        late = [job for number in sorted(self.overtime) if (job := self.jobs[number]).claim is not None]
        with recording.own_changes(self.instance.inventory):
            for job in late:
                recording.free_rest(self.graph, fluid.encode(job.number), self.instance.due.now)
        return late

    def return_to_overtime(self, late: list[Job]) -> None:
        """Let late jobs hold again what is left of their resources."""
        for job in late:
            self._mark_disputed(job)
        self.reacquire()

    def _adjust_records(self, job: Job) -> None:
        """Take account of what others have freed of a job at its limit, or added to it beyond that."""
        recorded, until = self._recorded_end(job), self.held_until(job)
        if recorded is not None and recorded < until:
            self._note_loss(job)
        elif recorded is not None and recorded > until:
            with recording.own_changes(self.instance.inventory):
                recording.free_rest(self.graph, fluid.encode(job.number), until)

    # -- keeping what a job holds ------------------------------------------------------------------------------------

    def keep(self, job: Job, end: int) -> list[str]:
        """Extend what an active job holds until `end`.

        Returns: the paths of pools that others hold.
        """
        with in_service(self.graph):
            taken = self._keep(job, end)
            if taken and self.instance.time.drop_reservations():  # the late job comes before reservations
                self._mark_disputed(job)  # it has a part now, so all of it is tried again
                taken = self._keep(job, end)
                if not taken:
                    self.disputed.discard(job.number)
        return taken

    def _keep(self, job: Job, end: int) -> list[str]:
        if (own := self.graph.records.upstream) is not None:
            own.refresh()  # the job lacks what others hold of shared suppliers
        supply = self.suppliers.get(job.number)
        if supply is None:
            return self._extend(job, end)
        supply.return_all()
        taken = self._extend(job, end)
        return [*taken, *supply.draw_available(end, self.instance.due.now)]

    def _extend(self, job: Job, end: int) -> list[str]:
        instance = self.instance
        taken = instance.inventory.extend(job.number, job.claim, instance.due.now, end)
        if job.number in self.recorded:
            taken = sorted({*taken, *self._record_more(job, self.held_until(job), end)})
        instance.queue.reservations_dropped()
        return taken

    def held_until(self, job: Job) -> int:
        """The tick until which a job holds its resources: its limit, or one tick later if they are kept at the limit."""
        return job.limit + (job.number in self.at_limit)

    def _mark_disputed(self, job: Job) -> None:
        """Note that others may hold some of the resources of a job."""
        self.disputed.add(job.number)
        self.instance.time.disputing[self.instance.due] = None

    def _dispute(self, job: Job, taken: list[str]) -> None:
        """Note whether others hold some of the resources of a job; the first time, the job gets an exception.

        Args:
            taken: the paths of pools that others hold; empty if the job has everything.
        """
        if not taken:
            self.disputed.discard(job.number)
            return
        self._mark_disputed(job)
        if not any(failure.type == "overlap" for failure in job.exceptions):
            note = f"it has not ended, and others hold {listed(taken, 1)}"
            self.instance.lifecycle.raise_exception(job, "overlap", states.WARNING, note)

    def reacquire(self) -> None:
        """Let late jobs, and those at their limit, hold again what others have freed of their resources (rule T1)."""
        now = self.instance.due.now
        for number in list(self.disputed):
            job = self.jobs.get(number)
            if job is not None and job.limit > now:
                self._dispute(job, self.keep(job, job.limit))
            elif job is not None and number in self.at_limit and job.limit == now:
                self.keep_jobs([job])

    # -- another limit -----------------------------------------------------------------------------------------------

    def move_limit(self, job: Job, end: int) -> None:
        """Change the limit of a running job, and until when its child draws; reservations are kept if they still fit.

        Errors: InsufficientResources if others hold some of its resources before the new limit; nothing changes then.
        """
        places = self.instance.queue.places()
        try:
            with in_service(self.graph):
                self._move(job, end)
        finally:
            self.instance.queue.restore(places)

    def change_size(self, job: Job, option: Option, end: int) -> bool:
        """Change the size and the limit of a running job, before all reservations of the queue policy.

        Returns: False, with nothing changed, if others hold some of what it needs, or will before its new limit.
        """
        instance, before = self.instance, job.limit
        assert job.sizes is not None  # it has several
        if job.number in self.disputed or job.number in self.at_limit or job.limit <= instance.due.now:
            return False
        difference = option.size - job.sizes.chosen.size
        was_recorded = job.number in self.recorded
        try:
            if end != before:
                self.move_limit(job, end)
            part = instance.inventory.ask(job.sizes.request(abs(difference)))
        except (InsufficientResources, InfeasibleRequest):
            return False
        change = instance.inventory.grow if difference > 0 else instance.inventory.shrink
        is_changed = change(job.number, job.claim, part, instance.due.now)
        if is_changed and was_recorded:
            self._unrecord(job)
            self.record_job(job)
        elif not is_changed and end != before:
            self.move_limit(job, before)
        instance.queue.reservations_dropped()
        return is_changed

    def _move(self, job: Job, end: int) -> None:
        supply, before, now = self.suppliers.get(job.number), job.limit, self.instance.due.now
        if supply is None:
            self._resize(job, end)
            return
        supply.return_all(now)
        try:
            self._resize(job, end)
            supply.draw_again(end, now)
        except FluxresError:
            if job.limit != before:
                self._resize(job, before)
            supply.draw_again(before, now)
            raise

    def _resize(self, job: Job, end: int) -> None:
        instance, before = self.instance, job.limit
        instance.queue.unreserve()
        instance.queue.changed = True
        if (cut := self._cut.get(job.number)) is not None:  # the records end there
            job.limit = max(cut, job.started, instance.due.now)
            instance.inventory.resize(job.number, job.claim, instance.due.now, job.limit)
            try:
                self._resize_claim(job, end)
            except InsufficientResources:
                instance.inventory.resize(job.number, job.claim, instance.due.now, before)
                job.limit = before
                raise
            self._forget_cut(job)
        else:
            self._resize_claim(job, end)

    def _resize_claim(self, job: Job, end: int) -> None:
        instance = self.instance
        if instance.others.names:
            self.record_job(job)
        start = self.held_until(job)
        if end > job.limit and job.number in self.recorded:
            self.record_jobs()  # so that a refusal names all jobs that hold something
            with recording.own_changes(instance.inventory):
                name, pools = fluid.encode(job.number), instance.inventory.pools(job.claim)
                recording.record(self.graph, name, pools, start, end, is_routed=False)
        try:
            instance.inventory.resize(job.number, job.claim, instance.due.now, end)
        except InsufficientResources:
            self._unrecord(job, start)
            raise
        self.at_limit.discard(job.number)
        if end < job.limit:
            self._unrecord(job, end)
            instance.queue.supplies_returned()
        job.limit = end
        if not instance.keeps_limits:
            instance.due.announce(end)

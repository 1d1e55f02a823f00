"""The time of one instance (rule T1): which events are due in it and when, and the passes that follow them.

Begin times of jobs are kept here; limits are those of `holding`, and what others free is known to `others`.  The `Timekeeper` has
the order of the events in a tree of instances, and calls `DueEvents` of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final, Protocol

from fluxres.clock import FOREVER
from fluxres.instance.holding import KEPT_TICKS
from fluxres.instance.job import Job
from fluxres.instance.others import Others, OthersOwner

_NO_JOB: Final = -1
"""In place of the number of a job that waits for its begin time."""


class DueOwner(OthersOwner, Protocol):
    """What `DueEvents` uses of its instance."""

    due: DueEvents
    others: Others

    @property
    def parent(self) -> DueOwner | None: ...

    @property
    def outermost(self) -> DueOwner: ...

    @property
    def depth(self) -> int: ...

    def walk(self) -> Iterator[DueOwner]: ...


class DueEvents:
    """The time and the events of one instance, for the calls of that instance and for its Timekeeper."""

    def __init__(self, instance: DueOwner) -> None:
        self._instance = instance
        self.now = 0
        """In ticks; it does not change while due events are handled, nor during a pass."""
        self.announced = FOREVER
        """When the next event is due, as announced to the Timekeeper."""
        self._timers: list[tuple[int, int]] = []
        """A heap of begin times and the numbers of the jobs that wait for them."""

    @property
    def is_closed(self) -> bool:
        return self._instance.lifetime.is_closed

    @property
    def depth(self) -> int:
        return self._instance.depth

    def walk(self) -> Iterator[DueEvents]:
        """Those of this instance and of all below it, depth first."""
        return (one.due for one in self._instance.walk())

    # -- before a call -----------------------------------------------------------------------------------------------

    def advance_to(self, now: int) -> None:
        """Handle the events of the complete tree that were due before now, and advance the inventory to now."""
        instance = self._instance
        time = instance.time
        if instance.parent is not None and not time.still:
            instance.parent.due.see_changes(now)
        if time.has_suppliers:
            time.announce_late(now)
        self._advance_inventory(now)
        if time.is_moving:
            return
        if time.has_suppliers:
            time.settle_moment()
        if time.disputing and not time.passes_open:
            time.reclaim()

    def see_changes(self, now: int) -> None:
        """Handle changes by others in this graph and those above it, on behalf of a call of an instance below."""
        instance = self._instance
        if instance.parent is not None:
            instance.parent.due.see_changes(now)
        if instance.holdings.graph.revision != instance.inventory.revision and not instance.lifetime.is_closed:
            self.advance_to(now)

    def _advance_inventory(self, now: int) -> None:
        instance = self._instance
        time, inventory, holdings = instance.time, instance.inventory, instance.holdings
        ends = inventory.running.ends
        self.now = now
        if holdings.lapsed_at < now:
            self._find_late()
        if time.next < now or holdings.graph.revision != inventory.revision or (ends and ends[0] < now):
            if not time.still:
                self.catch_up(now)
                self.now = now
                ends = instance.inventory.running.ends
            elif time.is_moving or (ends and ends[0] < now):
                return  # the inventory would free claims at limits that have not been handled yet
        if ends and ends[0] <= now and (holdings.overtime or holdings.children or not instance.keeps_limits):
            holdings.keep_at_limit()
        holdings.free_lapsed(now)

    def catch_up(self, before: int) -> None:
        """Handle changes by others, and all events before a moment."""
        self._instance.others.refresh_if_changed()
        self.announce(self.next_event())
        time = self._instance.time
        if time.next < before:
            time.catch_up(before)

    # -- when something is due ---------------------------------------------------------------------------------------

    def announce(self, moment: int) -> None:
        """Announce an event to the Timekeeper, unless an earlier one is announced."""
        if moment < self.announced:
            self.announced = moment
            self._instance.time.announce(moment, self)

    def wait_until(self, moment: int, job: Job) -> None:
        """Let a job wait until a moment in ticks."""
        heappush(self._timers, (moment, job.number))
        self.announce(self.next_event())

    def wake_at(self, moment: int) -> None:
        """Make a pass at a moment in ticks, even if nothing happens until then."""
        heappush(self._timers, (moment, _NO_JOB))
        self.announce(self.next_event())

    def next_event(self) -> int:
        """When the next event is due, in ticks; FOREVER for never.

        What others free at a moment can be used at that moment, so that event is due a tick earlier.
        """
        instance = self._instance
        holdings, ends = instance.holdings, instance.others.ends
        begin = self._timers[0][0] if self._timers else FOREVER
        freed = ends[-1] - 1 if ends else FOREVER
        return min(begin, holdings.next_limit(), holdings.cut_event, freed, instance.lifetime.expires)

    def next_wakeup(self) -> int:
        """When `advance` has to be called next so that events are handled in time."""
        instance = self._instance
        timers, ends, holdings = self._timers, instance.others.ends, instance.holdings
        found = min(instance.queue.next_due(), holdings.next_cut, instance.lifetime.expires)
        if timers:
            found = min(found, timers[0][0])
        if holdings.overtime or holdings.at_limit or not instance.keeps_limits:
            found = min(found, holdings.next_limit())
        if not len(instance.queue):
            return found
        if not instance.time.has_suppliers:
            return min(found, ends[-1]) if ends else found
        return min(found, *(one.others.ends[-1] for one in instance.outermost.walk() if one.others.ends), FOREVER)

    def _find_late(self) -> None:
        if self._instance.holdings.find_late():
            self.announce(self.next_event())

    def announce_late(self) -> None:
        """Find the late jobs of a runner that keeps limits, since the instance may not have been called at the limits."""
        instance = self._instance
        if instance.keeps_limits and not instance.lifetime.is_closed:
            if instance.holdings.lapsed_at < instance.time.now:
                self._find_late()
            self.announce(instance.holdings.next_limit())

    def is_behind(self) -> bool:
        """Whether an event was due before now, including limits that a runner promised to keep and did not."""
        self.announce_late()
        return self.next_event() < self._instance.time.now

    # -- handling it -------------------------------------------------------------------------------------------------

    def do_next(self, before: int) -> bool:
        """Handle the next event if it is due before a moment; False if others free something in the next tick."""
        self.announced, is_due = FOREVER, True
        try:
            moment = FOREVER if self._instance.lifetime.is_closed else self.next_event()
            if moment >= before:
                return True
            self.now = self._instance.time.now
            is_due = self._do(moment)
            if is_due:
                self.follow_up()
            return is_due
        finally:
            if is_due and not self._instance.lifetime.is_closed:
                self.announce(self.next_event())

    def _do(self, moment: int) -> bool:
        """Handle the event of a moment, which may be over for others; returns whether there was one."""
        instance = self._instance
        timers, ends, holdings = self._timers, instance.others.ends, instance.holdings
        if moment == holdings.cut_event and holdings.next_cut <= self.now:
            holdings.end_cut(holdings.next_cut)
        elif moment == holdings.next_limit():
            holdings.enforce_limits(moment)
        elif ends and moment == ends[-1] - 1 and ends[-1] <= self.now:
            instance.others.refresh()
        elif timers and moment == timers[0][0]:
            _, number = heappop(timers)
            instance.lifecycle.end_wait(number, moment)
        elif moment == instance.lifetime.expires:
            instance.lifetime.expire()
        else:
            return False
        return True

    def settle_moment(self) -> None:
        """Let all jobs here and below that are exactly at their limit keep their resources, children before their parents.

        What one job frees may become free in another instance (rule N1).  If an instance expires now, its reservations are
        dropped: they cannot begin any more, and would only block others on what they share.
        """
        still_open = [one for one in reversed(list(self._instance.walk())) if not one.lifetime.is_closed]
        places = [one.queue.places() for one in still_open]
        for one in still_open:
            one.due.now = one.time.now
            one.holdings.keep_jobs(one.holdings.jobs_at_limit())
            if one.lifetime.expires <= one.due.now and one.queue.reserved:
                one.queue.unreserve()
                one.queue.supplies_returned()
        for one, known in zip(still_open, places, strict=True):
            if one.lifetime.expires > one.due.now:
                one.queue.restore(known, KEPT_TICKS)

    def refresh_if_changed(self) -> None:
        """Update after changes by others in the graph, if there are any."""
        self._instance.others.refresh_if_changed()

    def reacquire(self) -> None:
        """Let late jobs hold again what others have freed of their resources (rule T1)."""
        instance = self._instance
        if instance.lifetime.is_closed or not instance.holdings.disputed:
            instance.time.disputing.pop(self, None)
            return
        self.now = instance.time.now
        instance.holdings.reacquire()

    # -- the passes that follow --------------------------------------------------------------------------------------

    def follow_up(self) -> None:
        """Make the passes that follow a change, here and in other instances."""
        instance = self._instance
        time = instance.time
        if time.disputing and not time.still:
            time.reclaim()
        if time.has_suppliers:
            time.offer()
        if time.owed and not time.still and instance.passes == "event":
            time.owe(self)
        else:
            instance.queue.react()
        if time.owed or time.has_suppliers:
            self.make_owed_passes()
        if time.deferred.first is not None and not time.calls:
            raise time.deferred.take()

    def owe_pass(self, *, is_promised: bool = False) -> None:
        """Let the Timekeeper make a pass when everything due is done, unless passes are made manually.

        Args:
            is_promised: as for `Timekeeper.owe`.
        """
        if self._instance.passes == "event":
            self._instance.time.owe(self, is_promised=is_promised)

    def make_owed_passes(self) -> None:
        """Make the passes that are owed, unless they are being made already."""
        time = self._instance.time
        if not time.still and (time.offer() or time.owes_passes):
            time.catch_up(time.now)

    def make_owed_pass(self) -> None:
        """Make a pass that was postponed until all due events were handled; called by the Timekeeper."""
        time = self._instance.time
        time.reclaim()
        if not self._instance.lifetime.is_closed:
            self.advance_to(time.now)
            self._instance.queue.run()

    def take_offer(self) -> None:
        """Get a pass, or another round of the current one, since something was freed that waiting jobs may use."""
        queue = self._instance.queue
        if len(queue) and not self._instance.lifetime.is_closed:
            queue.supply_changed()
            self.request_pass()

    def request_pass(self) -> None:
        """Get another round of the pass in progress, or a pass."""
        queue = self._instance.queue
        if queue.is_running:
            queue.request_round()
        else:
            self.owe_pass()

    def drop_reservations(self) -> bool:
        """Drop the reservations, so that others get what was reserved; returns whether there were any."""
        queue = self._instance.queue
        if not queue.reserved:
            return False
        queue.unreserve()
        queue.supply_changed()
        return True

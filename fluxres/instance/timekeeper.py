"""Time in a tree of instances (rule T1): the clock is read here, and events that were due before now are handled first.

Every call of an instance begins with `DueEvents.advance_to`, which uses this module.  Therefore it makes no difference whether
`advance` is called as soon as a limit has passed, or only when the next job is submitted.

What is freed of suppliers that instances share, such as PDUs and switches (rule N1), is offered to late jobs first (rule T1), and
then to the passes of all instances.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from heapq import heappop, heappush
from typing import Protocol
from weakref import ReferenceType, ref

from fluxres import limits
from fluxres.clock import FOREVER, Clock, now_ticks
from fluxres.instance.deferred import Deferred


class Member(Protocol):
    """An instance of a tree, as the Timekeeper sees it; it is a `due.DueEvents`."""

    announced: int
    """When its next event is due, as announced to the Timekeeper; FOREVER if none is announced."""

    @property
    def is_closed(self) -> bool: ...

    @property
    def depth(self) -> int: ...

    def walk(self) -> Iterator[Member]: ...

    def announce(self, moment: int) -> None: ...

    def announce_late(self) -> None: ...

    def next_event(self) -> int: ...

    def do_next(self, before: int) -> bool: ...

    def make_owed_pass(self) -> None: ...

    def settle_moment(self) -> None: ...

    def refresh_if_changed(self) -> None: ...

    def reacquire(self) -> None: ...

    def take_offer(self) -> None: ...

    def drop_reservations(self) -> bool: ...


class Timekeeper:
    """The time of all instances of a tree, the agenda of their events, and the offers of what they share.

    Args:
        clock: returns now in seconds; if it has a method `ticks`, that is called instead.
        outermost: the instance without a parent.

    Time never runs backwards, and does not change during a pass and while due events are handled.
    """

    def __init__(self, clock: Clock, outermost: Member) -> None:
        self.outermost = outermost
        self._read = getattr(clock, "ticks", None) or partial(now_ticks, clock)
        self.now: int = self._read()
        self.still = 0
        """The number of passes and `catch_up` calls in progress; the clock is not read meanwhile."""
        self.is_moving = False
        """Whether due events, or the consequences of one event, are being handled: no job starts meanwhile."""
        self.passes_open = 0
        """The number of passes in progress."""
        self.next = FOREVER
        """When the next event may be due, in ticks."""
        self._agenda: list[tuple[int, int, int, ReferenceType[Member]]] = []
        self.owed: dict[Member, tuple[bool, int, int]] = {}
        """The instances whose passes are owed, with their places in the order."""
        self._owed_order: list[tuple[bool, int, int, Member]] = []
        self._sequence = 0
        self.has_suppliers = False
        """Whether instances below the outermost one draw from suppliers that they share with others."""
        self.returned = 0
        """Counts the events that may have freed units of shared suppliers."""
        self._offered = 0
        """The value of `returned` at the last offer to all instances."""
        self._settled = -1
        """The moment for which `settle_moment` was last done, in ticks."""
        self.disputing: dict[Member, None] = {}
        """Instances that may have late jobs of whose resources others hold some."""
        self.has_returned = False
        """Whether anything was freed since the last `reclaim`."""
        self._reclaimed = -1
        """The moment of the last `reclaim`, in ticks."""
        self.calls = 0
        """The number of calls of the instances of the tree in progress, one within the other."""
        self.deferred = Deferred("in this call")
        """What listeners and sinks have raised, or an exit that one asks for; the outermost call raises it when it has done its
        work."""

    @property
    def owes_passes(self) -> bool:
        return bool(self.owed)

    def read_clock(self) -> int:
        """The time now, in ticks."""
        if self.still:
            return self.now
        now = self._read()
        if now <= self.now:
            return self.now  # the clock was set back
        self.now = now
        return now

    def announce(self, moment: int, instance: Member) -> None:
        """Put the next event of an instance on the agenda."""
        self._sequence += 1
        heappush(self._agenda, (moment, -instance.depth, self._sequence, ref(instance)))
        self.next = min(self.next, moment)

    def owe(self, instance: Member, *, is_promised: bool = False) -> None:
        """Make a pass of an instance after all due events have been handled.

        Args:
            is_promised: its reservations were dropped. Its pass comes before others, which could take what was reserved.
        """
        instance.announce_late()  # limits that a runner promised to keep may have passed
        known = self.owed.get(instance)
        if known is None or (is_promised and known[0]):
            self._sequence += 1
            place = self.owed[instance] = not is_promised, instance.depth, self._sequence
            heappush(self._owed_order, (*place, instance))
        self.next = min(self.next, self.now - 1)

    def _next_owed(self) -> Member:
        """The instance whose pass comes next: those with dropped reservations first, and parents before their children."""
        while True:
            *place, instance = heappop(self._owed_order)
            if self.owed.get(instance) == tuple(place):
                del self.owed[instance]
                return instance

    @contextmanager
    def one_event(self) -> Iterator[None]:
        """What happens inside belongs to one event: passes that follow are owed until it is over, and no job starts meanwhile."""
        was_moving, self.is_moving = self.is_moving, True
        self.still += 1
        try:
            yield
        finally:
            self.still -= 1
            self.is_moving = was_moving

    def catch_up(self, before: int) -> None:
        """Handle the events of all instances before a moment in order of time, and then make the owed passes.

        At one moment, events of children come before those of their parents, so that the jobs of a child end before the job that
        holds its resources.  Passes are made in parents first (`_next_owed`).
        """
        self.still += 1
        try:
            self._do_due(before)
            if self.owed:
                self.settle_moment()  # before the first pass, since this may drop reservations
            waves = 0
            while self.owed:
                if self._agenda and self._agenda[0][0] < before:
                    self._do_due(before)  # such as a limit that `owe` has announced
                self._next_owed().make_owed_pass()
                if not self.owed and waves < limits.OFFER_WAVES_MAX:
                    waves += self.offer()
        finally:
            if self.owed:
                self.next = min(self.next, self.now - 1)
            self.still -= 1

    def _do_due(self, before: int) -> None:
        """Handle the events of all instances before a moment in order of time; no job starts meanwhile."""
        agenda = self._agenda
        not_yet: list[Member] = []
        self.is_moving = True
        try:
            while agenda and agenda[0][0] < before:
                moment, _, _, found = heappop(agenda)
                one = found()
                if one is None or one.announced != moment:
                    continue  # superseded by an earlier event, which has been handled
                if not one.do_next(moment + 1):  # what it has announced may be over, and its next event after those of others
                    not_yet.append(one)
        finally:
            for one in not_yet:
                if not one.is_closed:
                    one.announce(one.next_event())
            self.is_moving = False
            self.next = agenda[0][0] if agenda else FOREVER

    # -- what the instances share ------------------------------------------------------------------------------------

    def note_return(self) -> None:
        """Note that units of shared suppliers may have been freed."""
        if self.has_suppliers:
            self.returned += 1

    def offer(self) -> bool:
        """Offer what was freed since the last offer to all instances; returns whether there may be anything."""
        if self._offered == self.returned:
            return False
        self._offered = self.returned
        for one in self.outermost.walk():
            one.take_offer()
        return True

    def announce_late(self, now: int) -> None:
        """At a new moment, find the late jobs of runners that keep limits."""
        if self.has_suppliers and self._settled < now and not self.is_moving:
            for one in self.outermost.walk():
                one.announce_late()

    def settle_moment(self) -> None:
        """Let all jobs of the tree that are exactly at their limit keep their resources, if instances share suppliers."""
        if self.has_suppliers and self._settled < self.now:
            self._settled = self.now
            self.outermost.settle_moment()

    def reclaim(self) -> None:
        """Offer what was freed to the late jobs of the tree before others get it (rule T1)."""
        if not self.disputing:
            return
        if not self.outermost.is_closed:
            self.outermost.refresh_if_changed()
        if self.has_returned or self._reclaimed != self.now:  # what others had reserved may be over
            self.has_returned, self._reclaimed = False, self.now
            for one in list(self.disputing):
                one.reacquire()

    def drop_reservations(self) -> bool:
        """Drop all reservations of the tree, if instances share suppliers; returns whether there were any."""
        found = [one.drop_reservations() for one in self.outermost.walk()] if self.has_suppliers else []
        return any(found)

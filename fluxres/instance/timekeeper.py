"""Time in a tree of instances (rule T1): the clock is read here, and events that were due before now are handled first.

Every call of an instance begins with `Instance._advance_to`, which uses this module.  Therefore it makes no difference whether
`advance` is called as soon as a limit has passed, or only when the next job is submitted.
"""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

from fluxres import limits
from fluxres.clock import FOREVER, Clock, now_ticks
from fluxres.instance import due

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance


class Timekeeper:
    """The time of all instances of a tree, and the agenda of their events.

    Args:
        clock: returns now in seconds; if it has a method `ticks`, that is called instead.

    Time never runs backwards, and does not change during a pass and while due events are handled.
    """

    __slots__ = (
        "_agenda",
        "_owed",
        "_owed_order",
        "_read",
        "_sequence",
        "is_moving",
        "next",
        "now",
        "passes_open",
        "still",
    )

    def __init__(self, clock: Clock) -> None:
        self._read = getattr(clock, "ticks", None) or partial(now_ticks, clock)
        self.now: int = self._read()
        self.still = 0
        """The number of passes and `catch_up` calls in progress; the clock is not read meanwhile."""
        self.is_moving = False
        """Whether due events are being handled: no job starts meanwhile."""
        self.passes_open = 0
        """The number of passes in progress."""
        self.next = FOREVER
        """When the next event may be due, in ticks."""
        self._agenda: list[tuple[int, int, int, ReferenceType[Instance]]] = []
        self._owed: dict[Instance, tuple[bool, int, int]] = {}
        self._owed_order: list[tuple[bool, int, int, Instance]] = []
        self._sequence = 0

    @property
    def is_behind(self) -> bool:
        """Whether passes are owed."""
        return bool(self._owed)

    def read_clock(self) -> int:
        """The time now, in ticks."""
        if self.still:
            return self.now
        now = self._read()
        if now <= self.now:
            return self.now  # the clock was set back
        self.now = now
        return now

    def announce(self, moment: int, instance: Instance) -> None:
        """Put the next event of an instance on the agenda."""
        self._sequence += 1
        heappush(self._agenda, (moment, -instance.depth, self._sequence, ref(instance)))
        self.next = min(self.next, moment)

    def owe(self, instance: Instance, *, is_promised: bool = False) -> None:
        """Make a pass of an instance after all due events have been handled.

        Args:
            is_promised: its reservations were dropped. Its pass comes before others, which could take what was reserved.
        """
        due.announce_late((instance,))  # limits that a runner promised to keep may have passed
        known = self._owed.get(instance)
        if known is None or (is_promised and known[0]):
            self._sequence += 1
            place = self._owed[instance] = not is_promised, instance.depth, self._sequence
            heappush(self._owed_order, (*place, instance))
        self.next = min(self.next, self.now - 1)

    def _next_owed(self) -> Instance:
        """The instance whose pass comes next: those with dropped reservations first, and parents before their children."""
        while True:
            *place, instance = heappop(self._owed_order)
            if self._owed.get(instance) == tuple(place):
                del self._owed[instance]
                return instance

    def catch_up(self, before: int) -> None:
        """Handle the events of all instances before a moment in order of time, and then make the owed passes.

        At one moment, events of children come before those of their parents, so that the jobs of a child end before the job that
        holds its resources.  Passes are made in parents first (`_next_owed`).
        """
        self.still += 1
        try:
            self._do_due(before)
            for instance in list(self._owed)[:1]:
                instance.shared.settle_moment()  # before the first pass, since this may drop reservations
            waves = 0
            while self._owed:
                if self._agenda and self._agenda[0][0] < before:
                    self._do_due(before)  # such as a limit that `owe` has announced
                instance = self._next_owed()
                instance.make_owed_pass()
                if not self._owed and waves < limits.OFFER_WAVES_MAX:
                    waves += instance.shared.offer()
        finally:
            if self._owed:
                self.next = min(self.next, self.now - 1)
            self.still -= 1

    def _do_due(self, before: int) -> None:
        """Handle the events of all instances before a moment in order of time; no job starts meanwhile."""
        agenda = self._agenda
        not_yet: list[Instance] = []
        self.is_moving = True
        try:
            while agenda and agenda[0][0] < before:
                moment, _, _, found = heappop(agenda)
                one = found()
                if one is None or one._announced != moment:
                    continue  # superseded by an earlier event, which has been handled
                if not due.do_next(one, before):
                    not_yet.append(one)
        finally:
            for one in not_yet:
                if not one.is_closed:
                    one._announce(due.next_event(one))
            self.is_moving = False
            self.next = agenda[0][0] if agenda else FOREVER

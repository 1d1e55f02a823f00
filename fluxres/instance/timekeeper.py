"""Time in a tree of instances: here the clock is read, and what was due before now is done before anything else (rule T1).

Every call on an instance begins with `Instance._go_on`, which comes here.  So it makes no difference whether `advance` is called
as soon as a limit has passed, or not before the next job is submitted.
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
    """The time of an instance and of all below and above it.

    Args:
        clock: called for now in seconds; one with a method `ticks` is asked for that instead.

    It does not run backwards, and it stands still while a pass is made and while what is due is done.
    """

    __slots__ = (
        "_agenda",
        "_made",
        "_owed",
        "_owed_order",
        "_read",
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
        """Passes that are being made, and movements; while there are any the clock is not read."""
        self.is_moving = False
        """Whether what is due is being done: no job starts meanwhile."""
        self.passes_open = 0
        """Passes that are being made."""
        self.next = FOREVER
        """When something may be due, in ticks."""
        self._agenda: list[tuple[int, int, int, ReferenceType[Instance]]] = []
        self._owed: dict[Instance, tuple[bool, int, int]] = {}
        self._owed_order: list[tuple[bool, int, int, Instance]] = []
        self._made = 0

    @property
    def is_behind(self) -> bool:
        """Whether there are passes to be made up for."""
        return bool(self._owed)

    def look(self) -> int:
        """Now."""
        if self.still:
            return self.now
        now = self._read()
        if now <= self.now:
            return self.now  # a clock that was set back must not undo what has happened
        self.now = now
        return now

    def announce(self, moment: int, instance: Instance) -> None:
        """Something is due in an instance at a moment, and nothing before."""
        self._made += 1
        heappush(self._agenda, (moment, -instance.depth, self._made, ref(instance)))
        self.next = min(self.next, moment)

    def owe(self, instance: Instance, *, is_promised: bool = False) -> None:
        """Something has happened in an instance; its pass comes when all that is due is done.

        Args:
            is_promised: its reservations were dropped. Until its pass makes them again, no other pass may take what they promise.
        """
        due.announce_late((instance,))  # of limits that a runner promised to keep nobody may know yet
        known = self._owed.get(instance)
        if known is None or (is_promised and known[0]):
            self._made += 1
            place = self._owed[instance] = not is_promised, instance.depth, self._made
            heappush(self._owed_order, (*place, instance))
        self.next = min(self.next, self.now - 1)

    def _next_owed(self) -> Instance:
        """The instance whose pass comes next: those with promises to renew first, and then parents before their children."""
        while True:
            *place, instance = heappop(self._owed_order)
            if self._owed.get(instance) == tuple(place):
                del self._owed[instance]
                return instance

    def catch_up(self, before: int) -> None:
        """Do what is due before a moment in any of the instances, the earliest first, and then make the passes that follow.

        Of one moment what is due in children comes before what is due in their parents, so that jobs below are over when what
        they run on is.  Passes are made the other way round (`owe`).
        """
        self.still += 1
        try:
            self._do_due(before)
            for instance in list(self._owed)[:1]:
                instance.shared.settle_moment()  # before the first pass, since what that drops is promised
            waves = 0
            while self._owed:
                if self._agenda and self._agenda[0][0] < before:
                    self._do_due(before)  # the limit of a job of an instance that was owed a pass since
                instance = self._next_owed()
                instance.make_owed_pass()
                if not self._owed and waves < limits.OFFER_WAVES_MAX:
                    waves += instance.shared.offer()
        finally:
            if self._owed:
                self.next = min(self.next, self.now - 1)
            self.still -= 1

    def _do_due(self, before: int) -> None:
        """Do what is due before a moment in any of the instances, the earliest first; no job starts meanwhile."""
        agenda = self._agenda
        not_yet: list[Instance] = []
        self.is_moving = True
        try:
            while agenda and agenda[0][0] < before:
                moment, _, _, found = heappop(agenda)
                one = found()
                if one is None or one._announced != moment:
                    continue  # something earlier was announced, and is done
                if not due.do_first(one, before):
                    not_yet.append(one)
        finally:
            for one in not_yet:
                if not one.is_closed:
                    one._announce(due.first(one))
            self.is_moving = False
            self.next = agenda[0][0] if agenda else FOREVER

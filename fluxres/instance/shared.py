"""State that all instances of a tree share besides time (rule N1): suppliers such as PDUs and switches, and the order in which
freed units are offered: first to late jobs (rule T1), then to the passes of all instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluxres.instance import due, external

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance


class Shared:
    """The state that all instances of a tree have in common.

    Args:
        outermost: the instance without a parent.
    """

    def __init__(self, outermost: Instance) -> None:
        self.outermost = outermost
        self.has_suppliers = False
        """Whether instances below the outermost one draw from suppliers that they share with others."""
        self.returned = 0
        """Counts the events that may have freed units of shared suppliers."""
        self._offered = 0
        """The value of `returned` at the last offer to all instances."""
        self._settled = -1
        """The moment for which `settle_moment` was last done, in ticks."""
        self.disputing: dict[Instance, None] = {}
        """Instances that may have late jobs of whose resources others hold some."""
        self.has_returned = False
        """Whether anything was freed since the last `reclaim`."""

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
            if len(one.queue) and not one.is_closed:
                one.supply_changed()
                if one.scheduling.is_running:
                    one.scheduling.request_round()
                else:
                    one.owe_pass()
        return True

    def announce_late(self, now: int) -> None:
        """At a new moment, find the late jobs of runners that keep limits."""
        if self.has_suppliers and self._settled < now and not self.outermost._time.is_moving:
            due.announce_late(self.outermost.walk())

    def settle_moment(self) -> None:
        """Let all jobs of the tree that are exactly at their limit keep their resources, if instances share suppliers."""
        now = self.outermost._time.now
        if self.has_suppliers and self._settled < now:
            self._settled = now
            due.keep_all_at_limit(reversed(list(self.outermost.walk())))

    def reclaim(self) -> None:
        """Offer what was freed to the late jobs of the tree before others get it (rule T1)."""
        if not self.disputing:
            return
        outermost = self.outermost
        if outermost.has_unseen_changes and not outermost.is_closed:
            external.refresh(outermost)
            outermost.owe_pass()
        if self.has_returned:
            self.has_returned = False
            for one in list(self.disputing):
                external.reacquire(one)

    def drop_reservations(self) -> bool:
        """Drop all reservations of the tree, if instances share suppliers; returns whether there were any."""
        found = [one for one in self.outermost.walk() if one.queue.reserved] if self.has_suppliers else []
        for one in found:
            one.queue.unreserve()
            one.supply_changed()
        return bool(found)

"""What the instances of a tree share besides time (rule N1): suppliers such as PDUs and switches, and the order in which what is
given back is offered: first to late jobs (rule T1), then to the passes of all instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluxres.instance import due, foreign

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
        """How often something of shared suppliers may have been given back."""
        self._offered = 0
        """The value of `returned` when all instances were last offered what was given back."""
        self._settled = -1
        """The moment for which the jobs at their limit were last seen to, in ticks."""
        self.disputing: dict[Instance, None] = {}
        """Instances that may have late jobs of which others hold something."""
        self.has_returned = False
        """Whether anything was given back since these late jobs were last seen to."""

    def note_return(self) -> None:
        """Something of shared suppliers may have been given back."""
        if self.has_suppliers:
            self.returned += 1

    def offer(self) -> bool:
        """Let all instances look at what was given back since the last offer; whether there was anything."""
        if self._offered == self.returned:
            return False
        self._offered = self.returned
        for one in self.outermost.walk():
            if len(one.queue) and not one.is_closed:
                one.supply_changed()
                if one.scheduling.is_running:
                    one.scheduling.request_round()
                elif one.passes == "event":
                    one._time.owe(one)
        return True

    def announce_late(self, now: int) -> None:
        """At a new moment, see whether runners that keep limits have kept them."""
        if self.has_suppliers and self._settled < now and not self.outermost._time.is_moving:
            due.announce_late(self.outermost.walk())

    def settle_moment(self) -> None:
        """Let all jobs of the tree whose limit is now keep what they draw from shared suppliers."""
        now = self.outermost._time.now
        if self.has_suppliers and self._settled < now:
            self._settled = now
            due.hold_all_through(reversed(list(self.outermost.walk())))

    def reclaim(self) -> None:
        """Give late jobs anywhere in the tree what was given back, before others get it (rule T1)."""
        if not self.disputing:
            return
        outermost = self.outermost
        if outermost.has_unseen_changes and not outermost.is_closed:
            foreign.look(outermost)
            if outermost.passes == "event":
                outermost._time.owe(outermost)
        if self.has_returned:
            self.has_returned = False
            for one in list(self.disputing):
                foreign.hold_again(one)

    def drop_reservations(self) -> bool:
        """Drop all reservations of the tree where instances share suppliers; whether there were any."""
        found = [one for one in self.outermost.walk() if one.queue.reserved] if self.has_suppliers else []
        for one in found:
            one.queue.unreserve()
            one.supply_changed()
        return bool(found)

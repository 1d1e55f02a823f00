"""What JQM's resource managers answer: go, not enough, or empty.

The three answers are what its queues are built on: after *not enough* the next job is tried, after *empty* none is.  Where
exactly one turns into the other is each manager's own, and kept as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fluxres.syntax import jqm
from fluxres.syntax.jqm import Discrete, Highlander, Quantity

Answer = Literal["go", "not-enough", "empty"]
Parameters = Mapping[str, Any]


class QuantityBookings:
    """A counted resource and who has how much of it.

    >>> bookings = QuantityBookings(Quantity("thread", 3))
    >>> bookings.book("a", {"com.enioka.jqm.rm.quantity.consumption": 5}), bookings.book("b", {}), bookings.slots_available()
    ('not-enough', 'go', 2)
    """

    def __init__(self, rules: Quantity) -> None:
        self.rules = rules
        self._free = rules.quantity
        self._held: dict[str, int] = {}

    def slots_available(self) -> int:
        """How many more jobs that do not say what they need would fit; below zero after it was made smaller in use."""
        each = self.rules.consumption or 1
        return -(-self._free // each) if self._free < 0 else self._free // each

    def book(self, job: str, definition: Parameters, instance: Parameters | None = None) -> Answer:
        """Give a job what it needs, or say why not. Errors: InputError for a need that is no number."""
        need = jqm.consumption(self.rules, definition, instance or {})
        if self._free >= need:
            self._free -= need
            self._held[job] = self._held.get(job, 0) + need
            return "go"
        return "empty" if self._free < self.rules.consumption else "not-enough"

    def release(self, job: str) -> None:
        """Take back what a job has; nothing from one without any."""
        self._free += self._held.pop(job, 0)

    def reconfigure(self, rules: Quantity) -> None:
        """Other rules while it is in use: what is free grows or shrinks by the difference."""
        self._free += rules.quantity - self.rules.quantity
        self.rules = rules


class DiscreteBookings:
    """Named items and who has which.

    >>> bookings = DiscreteBookings(Discrete("ports", ("p1", "p2"), 1))
    >>> bookings.book("a", {}), bookings.items("a"), bookings.slots_available()
    ('go', ('p1',), 1)
    """

    def __init__(self, rules: Discrete) -> None:
        self.rules = rules
        self._free = dict.fromkeys(rules.items)
        self._held: dict[str, tuple[str, ...]] = {}

    def slots_available(self) -> int:
        """How many items are free."""
        return len(self._free)

    def book(self, job: str, definition: Parameters, instance: Parameters | None = None) -> Answer:
        """Give a job its items, or say why not; a job that needs none is always let go. Errors: as for a quantity."""
        need = jqm.consumption(self.rules, definition, instance or {})
        if need > len(self._free):
            return "not-enough" if self._free else "empty"
        if need:
            items = tuple(self._free)[:need]
            for item in items:
                del self._free[item]
            self._held[job] = (*self._held.get(job, ()), *items)
        return "go"

    def items(self, job: str) -> tuple[str, ...]:
        """The items of a job."""
        return self._held.get(job, ())

    def environment(self, job: str) -> dict[str, str]:
        """The variable that tells a job its items; none where it has none."""
        return jqm.environment({self.rules.key: self.items(job)})

    def release(self, job: str) -> None:
        """Take back the items of a job; those that are no items any more are forgotten."""
        for item in self._held.pop(job, ()):
            if item in self.rules.items:
                self._free[item] = None

    def reconfigure(self, rules: Discrete) -> None:
        """Another list while items are in use."""
        held = {item for items in self._held.values() for item in items}
        self._free = dict.fromkeys(item for item in rules.items if item not in held)
        self.rules = rules


class HighlanderBookings:
    """Definitions of which only one job may run.

    >>> bookings = HighlanderBookings(Highlander("highlander"))
    >>> bookings.book("a", "report", is_highlander=True), bookings.book("b", "report", is_highlander=True)
    ('go', 'not-enough')
    """

    def __init__(self, rules: Highlander) -> None:
        self.rules = rules
        self._running: dict[str, str] = {}

    def book(self, job: str, definition: str, *, is_highlander: bool) -> Answer:
        """Let a job go unless it is a highlander and another of its definition runs."""
        if is_highlander and definition in self._running.values():
            return "not-enough"
        self._running[job] = definition
        return "go"

    def release(self, job: str) -> None:
        """A job has ended."""
        self._running.pop(job, None)

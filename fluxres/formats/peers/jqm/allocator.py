"""What JQM's resource managers answer: go, not enough, or empty.

JQM's queues are built on the three answers: after *not enough* the next job is tried, after *empty* none is.  The exact boundary
between the two differs from manager to manager, and is kept as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fluxres.formats.peers.jqm import managers as jqm
from fluxres.formats.peers.jqm.managers import Discrete, Highlander, Quantity

Answer = Literal["go", "not-enough", "empty"]
Parameters = Mapping[str, Any]


class QuantityBookings:
    """A counted resource and which job has how much of it.

    >>> bookings = QuantityBookings(Quantity("thread", 3))
    >>> bookings.book("a", {"com.enioka.jqm.rm.quantity.consumption": 5}), bookings.book("b", {}), bookings.slots_available()
    ('not-enough', 'go', 2)
    """

    def __init__(self, rules: Quantity) -> None:
        self.rules = rules
        self._free = rules.quantity
        self._held: dict[str, int] = {}

    def slots_available(self) -> int:
        """How many more jobs with the default consumption would fit; negative after the quantity was reduced while in use."""
        each = self.rules.consumption or 1
        return -(-self._free // each) if self._free < 0 else self._free // each

    def book(self, job: str, definition: Parameters, instance: Parameters | None = None) -> Answer:
        """Book what a job needs, or answer why not. Errors: InputError for a need that is not a number."""
        need = jqm.consumption(self.rules, definition, instance or {})
        if self._free >= need:
            self._free -= need
            self._held[job] = self._held.get(job, 0) + need
            return "go"
        return "empty" if self._free < self.rules.consumption else "not-enough"

    def release(self, job: str) -> None:
        """Release what a job has; no effect for a job without bookings."""
        self._free += self._held.pop(job, 0)

    def reconfigure(self, rules: Quantity) -> None:
        """Change the rules while in use: the free amount changes by the difference."""
        self._free += rules.quantity - self.rules.quantity
        self.rules = rules


class DiscreteBookings:
    """Named items and which job has which.

    >>> bookings = DiscreteBookings(Discrete("ports", ("p1", "p2"), 1))
    >>> bookings.book("a", {}), bookings.items("a"), bookings.slots_available()
    ('go', ('p1',), 1)
    """

    def __init__(self, rules: Discrete) -> None:
        self.rules = rules
        self._free = dict.fromkeys(rules.items)
        self._held: dict[str, tuple[str, ...]] = {}

    def slots_available(self) -> int:
        """The number of free items."""
        return len(self._free)

    def book(self, job: str, definition: Parameters, instance: Parameters | None = None) -> Answer:
        """Book items for a job, or answer why not; a job that needs none always gets go. Errors: as for a quantity."""
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
        return self._held.get(job, ())

    def environment(self, job: str) -> dict[str, str]:
        """The environment variable that lists a job's items; empty if it has none."""
        return jqm.environment({self.rules.key: self.items(job)})

    def release(self, job: str) -> None:
        """Release the items of a job; items that no longer exist are dropped."""
        for item in self._held.pop(job, ()):
            if item in self.rules.items:
                self._free[item] = None

    def reconfigure(self, rules: Discrete) -> None:
        """Change the list of items while some are in use."""
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
        """Answer go unless the job is a highlander and another of its definition is running."""
        if is_highlander and definition in self._running.values():
            return "not-enough"
        self._running[job] = definition
        return "go"

    def release(self, job: str) -> None:
        self._running.pop(job, None)

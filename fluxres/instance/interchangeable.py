"""What the inventories of interchangeable units share: `counted.py` for units without names, `named.py` for pools.

A request is a number, a claim is a `Hold`, and a part of a claim is a number or a bit set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from fluxres.arrays import Int32
from fluxres.clock import seconds
from fluxres.documents.document import listed
from fluxres.errors import InsufficientResources
from fluxres.graph.forest import are_in
from fluxres.instance.inventory import Hold, Running
from fluxres.instance.uniform import UniformRequest, uniform_request
from fluxres.syntax import fluid
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.instance.availability import Availability
    from fluxres.model import ResourceGraph
    from fluxres.syntax.jobspec import Request


class InterchangeableInventory(ABC):
    """The part of an `Inventory` that does not depend on whether units have names."""

    type: str
    """The type of the units."""

    def __init__(self, graph: ResourceGraph) -> None:
        self.graph = graph
        self.revision = graph.revision
        self.structure: Structure = graph.structure
        self.running = Running()
        self.ahead: dict[int, Hold] = {}
        self._reserved: dict[int, Hold] = {}
        self._disputed: dict[int, int] = {}
        """By key, all units of a late job of which others hold some."""
        self._asks: dict[int, tuple[Request, int]] = {}
        self._rows: Availability | None = None
        """Availability over time, while several reservations need it."""

    # -- requests ----------------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> int:
        """The number of units requested."""
        known = self._asks.get(id(request))
        if known is None or known[0] is not request:
            if len(self._asks) > 4096:
                self._asks.clear()
            known = self._asks[id(request)] = (request, self._number(uniform_request(request)))
        return known[1]

    @abstractmethod
    def _number(self, wanted: UniformRequest | None) -> int:
        """The number of units requested; errors as of `Inventory.ask`."""

    @abstractmethod
    def start(self, key: int, ask: int, now: int, end: int) -> Hold | None:
        """As of `Inventory`."""

    def forget_failures(self) -> None:  # noqa: B027 - no inventory of these remembers any
        """Nothing to do: failures are not remembered here."""

    # -- reservations ------------------------------------------------------------------------------------------------

    @abstractmethod
    def reserve_count(self, key: int, ask: int, now: int) -> int | None:
        """Reserve a number of units, without choosing them, from the earliest moment at which that many are free."""

    def places(self) -> dict[int, Hold]:
        """As of `Inventory`; without a reservation by number."""
        return dict(self._reserved)

    def reserved_starts(self) -> dict[int, int]:
        return {key: hold.start for key, hold in self._reserved.items()}

    def clear(self) -> None:
        self._reserved.clear()
        self._rows = None

    def suspend(self, now: int) -> None:
        self.clear()

    def drop_suspended(self) -> None:  # noqa: B027 - nothing is suspended
        """Nothing to do: `suspend` has dropped all."""

    def drop_ahead(self, key: int) -> None:
        if self.ahead.pop(key, None) is not None:
            self.clear()

    def _drop_rows(self) -> None:
        if not self._reserved:
            self._rows = None

    @property
    @abstractmethod
    def unit_pools(self) -> Int32:
        """The pools whose units it allocates, ascending."""

    def has_all_of(self, vertices: list[int]) -> bool:
        """Whether everything in these pools is a pool that it allocates, below one, or around some."""
        end = self.structure.end
        leaves = np.flatnonzero(end == np.arange(1, len(end) + 1))
        leaves = leaves[are_in(end, np.unique(vertices), leaves)]
        return bool(are_in(end, self.unit_pools, leaves).all())

    def no_room(self, start: int, end: int) -> InsufficientResources:
        """The error for what cannot be reserved ahead over [start, end)."""
        claims = (*self.running.holds, *self.running.lapsed.values(), *self.ahead.values())
        keys = sorted({hold.key for hold in claims if hold.start < end and (hold.end > start or hold.key in self.running.lapsed)})
        why = f": {listed(map(fluid.encode, keys))} may hold some of it then" if keys else ""
        hint = "start later, ask for less, or let such a job end earlier" if keys else "ask for less, or put pools in service"
        return InsufficientResources(f"cannot be reserved from {in_message(seconds(start))} on{why}", hint=hint)

    # -- claims ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def finish(self, key: int, claim: Hold, now: int) -> None:
        """As of `Inventory`."""

    @abstractmethod
    def part_of(self, claim: Hold, pools: list[tuple[str, int]]) -> int | None:
        """The part of a claim that these pools or units are; None if only the resource graph can free them."""

    @abstractmethod
    def reduce(self, claim: Hold, part: int, now: int) -> None:
        """Free a part of a claim; reservations stay, as when a job ends."""

    @abstractmethod
    def _last_part(self, claim: Hold, number: int) -> int:
        """The part of a claim that a match would choose last."""

    def join(self, claim: Hold, more: Hold) -> None:
        """Add what a claim with the same end holds to another one; drops all reservations."""
        self.clear()
        self.running.release(more)
        claim.units |= more.units
        claim.count += more.count

    def shrink(self, key: int, claim: Hold, part: int, now: int) -> bool:
        is_possible = self._is_complete(claim) and part < claim.count
        if is_possible:
            self.clear()
            self.reduce(claim, self._last_part(claim, part), now)
        return is_possible

    def grow(self, key: int, claim: Hold, part: int, now: int) -> bool:
        self.clear()
        more = self.start(key, part, now, claim.end) if self._is_complete(claim) else None
        if more is not None:
            self.join(claim, more)
        return more is not None

    def _is_complete(self, claim: Hold) -> bool:
        """Whether a claim runs, and others hold nothing of it."""
        return claim.is_live and claim.key not in self._disputed

    def advance(self, now: int) -> list[int]:
        ends = self.running.ends
        over = self.running.take_ended(now) if ends and ends[0] <= now else []
        if over:
            self._free_ended(over)
        if self._rows is not None:
            self._rows.advance(now)
        return [hold.key for hold in over]

    @abstractmethod
    def _free_ended(self, over: list[Hold]) -> None:
        """Count what claims held that have ended as free."""

    # -- queries -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def pools(self, claim: Hold) -> list[tuple[str, int]]:
        """As of `Inventory`."""

    @abstractmethod
    def held(self, claim: Hold) -> list[tuple[str, int]]:
        """As `pools`, without what others hold of it."""

    @abstractmethod
    def count(self, claim: Hold) -> int:
        """As of `Inventory`."""

"""The inventory that an instance schedules on: its choice, by name or by request, and the change to another one for what it does
not support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from fluxres.documents import arguments
from fluxres.errors import InsufficientResources, UsageError
from fluxres.instance import states
from fluxres.instance.counted import CountedInventory
from fluxres.instance.graph_inventory import GraphInventory
from fluxres.instance.holding import HoldingsOwner
from fluxres.instance.interchangeable import InterchangeableInventory
from fluxres.instance.inventory import Ask, Inventory, NotUniform
from fluxres.instance.named import ASCENDING, DESCENDING, NamedInventory
from fluxres.instance.uniform import UniformRequest, interchangeable, one_pool, uniform_request
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph

KINDS: Final = ("graph", "auto", "named", "counted")


def make_inventory(kind: str, graph: ResourceGraph, match_policy: str) -> Inventory:
    """An inventory by name: graph, auto, named or counted.

    `named:TYPE` and `counted:TYPE` give the type of the pools; the default is node for `named`, and for `counted` the first type
    with pools of several units, else that of the only leaf.  `auto` begins with the graph, and the first request decides.

    Errors: UsageError for another name, and if the pools of the type are not interchangeable or not a single pool.
    """
    name, _, type_name = arguments.text(kind, "inventory").partition(":")
    if name not in KINDS or (type_name and name in ("graph", "auto")):
        raise UsageError(f"inventory: expected {', '.join(KINDS)}, got {kind!r:.80}")
    if name in ("graph", "auto"):
        return GraphInventory(graph, match_policy)
    structure = graph.structure
    if name == "named":
        try:
            return NamedInventory(graph, type_name or "node", match_policy)
        except NotUniform as error:
            raise UsageError(str(error), where=f"inventory {kind}", hint="use inventory='graph' or 'auto'") from None
    large = np.flatnonzero(structure.size[: structure.tree_end] > 1)
    leaves = np.flatnonzero(structure.end[: structure.tree_end] == np.arange(1, structure.tree_end + 1))
    first = large[:1] if len(large) else leaves if len(leaves) == 1 else leaves[:0]
    wanted = type_name or (structure.types[structure.type.item(int(first[0]))] if len(first) else "")
    pool = one_pool(structure, UniformRequest(wanted, 1, 1, False, True), 1 if type_name or not len(large) else 2)
    if pool is None:
        problem = f"there is no single pool of {wanted or 'several'} units to count"
        raise UsageError(problem, where=f"inventory {kind}", hint="use inventory='named:TYPE', 'graph' or 'auto'")
    return CountedInventory(graph, pool)


def fastest(graph: ResourceGraph, match_policy: str, request: Request, measure: str | None = None) -> Inventory:
    """The fastest inventory that supports a request."""
    wanted = uniform_request(request)
    return (wanted and _fastest(graph, match_policy, wanted, measure)) or GraphInventory(graph, match_policy, measure)


def _fastest(graph: ResourceGraph, match_policy: str, wanted: UniformRequest, measure: str | None) -> Inventory | None:
    structure = graph.structure
    if graph.records.jobs() or graph.records.stages or match_policy not in (*ASCENDING, *DESCENDING):
        return None
    pool = one_pool(structure, wanted)
    if pool is not None:
        return CountedInventory(graph, pool)
    if interchangeable(structure, wanted) is None:
        return None
    return NamedInventory(graph, wanted.type, match_policy, measure)


class ChoiceOwner(HoldingsOwner, Protocol):
    """What `InventoryChoice` uses of its instance."""

    match_policy: str


class InventoryChoice:
    """Which inventory an instance has, and in what it measures; nothing else sets the `inventory` of an instance.

    Args:
        is_adaptive: whether requests decide; otherwise it stays as it is.
    """

    def __init__(self, instance: ChoiceOwner, *, is_adaptive: bool) -> None:
        self._instance = instance
        self.is_adaptive = is_adaptive
        self.measure: str | None = None
        """The type in whose units sizes were asked for; None for the default of the inventory."""

    def measure_in(self, type_name: str | None) -> None:
        """Measure in units of a type, also after a change of the inventory."""
        self.measure = type_name
        self._instance.inventory.measure_in(type_name)

    def ask(self, request: Request) -> Ask:
        """A request in the form of the inventory, which is changed for it if necessary.

        Errors: InfeasibleRequest, with the same words whatever the inventory is; UsageError for a request that only a fixed
        inventory does not support.
        """
        instance = self._instance
        inventory = instance.inventory
        if self.is_adaptive and inventory.kind == "graph" and not instance.holdings.jobs:
            self.adapt(request)
            inventory = instance.inventory
        try:
            return inventory.ask(request)
        except NotUniform:
            if inventory.kind == "graph" or not self.is_adaptive:
                GraphInventory(instance.holdings.graph, instance.match_policy).ask(request)  # refuses what no inventory supports
                raise UsageError(
                    "this request is not for a number of interchangeable pools",
                    where=f"inventory {inventory.kind}",
                    hint="use inventory='graph' or 'auto'",
                ) from None
        self.adapt(request)
        return instance.inventory.ask(request)

    def adapt(self, request: Request | None) -> None:
        """Change to an inventory that supports a request (all requests, if None), and transfer everything that is held."""
        instance, holdings = self._instance, self._instance.holdings
        holdings.record_jobs()
        before = instance.inventory
        before.clear()
        instance.queue.reservations_dropped()
        if not holdings.jobs and request is not None:
            instance.inventory = fastest(holdings.graph, instance.match_policy, request, self.measure)
            return
        late = holdings.leave_overtime() if before.ahead else []  # what is reserved ahead comes before it
        made = GraphInventory(holdings.graph, instance.match_policy, self.measure)
        for job in holdings.jobs.values():
            job.ask = job.request  # without a check: it was feasible when it was submitted
            if job.sizes is not None:
                job.sizes.use_requests()
            if job.claim is not None:
                is_disputed = job.number in holdings.disputed or job in late
                job.claim = made.adopt(job.number, job.claim, before.pools(job.claim), is_disputed=is_disputed)
        taken = []
        for number, hold in before.ahead.items():
            try:
                made.reserve_pools_ahead(number, before.vertices(hold), hold.start, hold.end, instance.due.now)
            except InsufficientResources as error:
                taken.append((holdings.jobs[number], f"others got what was reserved for it: {error.message}"))
        instance.inventory = made
        holdings.recorded.clear()
        holdings.return_to_overtime(late)
        for job, note in taken:
            instance.lifecycle.raise_exception(job, "alloc", states.FATAL, note)

    def show_ahead(self) -> None:
        """Have the records of the graph show advance reservations, which other inventories do not record; a fixed one stays."""
        if self.is_adaptive and self._instance.inventory.kind != "graph":
            self.adapt(None)

    def use_graph(self) -> None:
        """Have the records of the graph hold everything that jobs hold, which a change of its shape requires.

        Errors: UsageError for a fixed inventory other than the graph.
        """
        instance = self._instance
        if instance.inventory.kind == "graph":
            return
        if not self.is_adaptive:
            raise UsageError(
                f"an instance on inventory {instance.inventory.kind} can give and take only whole interchangeable pools",
                where=instance.address,
                hint="use inventory='graph' or 'auto'",
            )
        self.adapt(None)

    def reserve_pools(self, number: int, vertices: list[int], start: int, end: int) -> None:
        """Reserve pools ahead for a job; see `Inventory.reserve_pools_ahead`."""
        instance = self._instance
        if not vertices:
            raise UsageError("no pools named", where=instance.address, hint="name at least one pool")
        inventory = instance.inventory
        if self.is_adaptive and isinstance(inventory, InterchangeableInventory) and not inventory.has_all_of(vertices):
            self.adapt(None)  # jobs for what is beside its units would not see the reservation
        try:
            instance.inventory.reserve_pools_ahead(number, vertices, start, end, instance.due.now)
        except NotUniform as error:
            if not self.is_adaptive:
                raise UsageError(str(error), where=instance.address, hint="use inventory='graph' or 'auto'") from None
            self.adapt(None)
            instance.inventory.reserve_pools_ahead(number, vertices, start, end, instance.due.now)

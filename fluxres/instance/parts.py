"""Growing and shrinking of a running child instance (RFC 4 Merge and Unlink, rule N1).

The records of the parent and the graph of the child change together or not at all: everything is checked before either is
changed.  This works on records.  A parent with a counting or naming inventory chooses with that, and changes to the resource
graph only for what is not interchangeable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

import numpy as np

from fluxres.clock import FOREVER, seconds
from fluxres.documents.document import listed, plural
from fluxres.errors import FluxresError, InsufficientResources, NotHeld, StaleHandle, StillHeld, UnknownPool, UsageError
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import Structure
from fluxres.instance import pool_states, recording, states
from fluxres.instance.counted import CountedInventory
from fluxres.instance.graph_inventory import GraphInventory
from fluxres.instance.holding import HoldingsOwner
from fluxres.instance.interchangeable import InterchangeableInventory
from fluxres.instance.inventory import Ask, Hold, NotUniform
from fluxres.instance.job import Job
from fluxres.instance.lifecycle import Lifecycle, LifecycleOwner
from fluxres.instance.named import NamedInventory
from fluxres.instance.queue import Queue
from fluxres.instance.upstream import ParentSupply, in_service, up_from
from fluxres.model import changes, giving_back, joining, targets
from fluxres.syntax import fluid
from fluxres.syntax.jobspec import as_request

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph
    from fluxres.model.targets import Targets
    from fluxres.syntax.jobspec import Wanted


_GROWTH: Final = -1
"""The key of what a child is about to get, in an inventory."""


class PartOwner(LifecycleOwner, Protocol):
    """What growing and shrinking use of an instance, the child and its parent alike."""

    lifecycle: Lifecycle


def ask_of(parent: PartOwner, wanted: Targets | Wanted) -> Ask | None:
    """What a child wants in the form of an inventory of interchangeable units; None if the resource graph is used for it."""
    if parent.inventory.kind != "graph" and targets.is_request(wanted, parent.holdings.graph):
        with suppress(NotUniform):
            return parent.inventory.ask(as_request(wanted))
    parent.choice.use_graph()
    return None


def prepare(child: PartOwner, upstream: ParentSupply) -> None:
    """Have a child on an inventory that can get more of what it has."""
    if isinstance(child.inventory, NamedInventory) and child.inventory.has_parts_of(upstream.above.structure):
        child.choice.use_graph()  # its pool of one unit may get more of them


def grow(child: PartOwner, upstream: ParentSupply, parent: PartOwner, wanted: Targets | Wanted) -> list[str]:
    """Give a child that is prepared more of its parent; see Instance.grow."""
    try:
        ask = ask_of(parent, wanted)
        if ask is not None:
            given = _grow_interchangeably(child, upstream, parent, ask)
        else:
            given = _grow_on_graph(child, upstream, parent, wanted)
        parent.lifecycle.child_resized(upstream.job)
    finally:
        child.holdings.note_suppliers()
    return given


def _grow_on_graph(child: HoldingsOwner, upstream: ParentSupply, parent: PartOwner, wanted: Targets | Wanted) -> list[str]:
    """Give a child more of its parent, whose inventory is the resource graph."""
    graph, now, job, inventory = upstream.above, child.time.now, upstream.job, parent.inventory
    until = parent.holdings.end_of(job)
    assert isinstance(inventory, GraphInventory)  # `ask_of` has seen to that

    def allocate(growth: str) -> int:
        try:
            end = None if until >= FOREVER else seconds(until)
            graph.allocate(wanted, job=growth, start=seconds(now), end=end, policy=parent.match_policy)
        except InsufficientResources as error:
            raise joining.held_already(graph, upstream.holder, wanted, now) or error from None
        except UnknownPool as error:
            raise _not_held(job.instance.address, graph, wanted, f"grow {job.instance.address} first") or error from None
        return inventory.size_of(growth)

    return _grow_by(child, upstream, until, allocate)


def _grow_interchangeably(child: HoldingsOwner, upstream: ParentSupply, parent: HoldingsOwner, ask: Ask) -> list[str]:
    """Give a child more of its parent, whose inventory of interchangeable units chooses.

    Args:
        ask: in the form of that inventory.
    """
    inventory, job, now = parent.inventory, upstream.job, child.time.now
    until = parent.holdings.end_of(job)
    assert isinstance(inventory, InterchangeableInventory)  # `ask` has its form
    more = inventory.start(_GROWTH, ask, now, job.limit)
    if more is None:
        raise InsufficientResources("not that many units are free and not reserved", where=parent.address)

    def allocate(growth: str) -> int:
        recording.record(upstream.above, growth, inventory.pools(more), now, until, is_routed=False)
        return inventory.count(more)

    try:
        paths = _grow_by(child, upstream, until, allocate)
    except FluxresError:
        inventory.finish(_GROWTH, more, now)
        raise
    inventory.join(job.claim, more)
    parent.queue.reservations_dropped()
    return paths


def _grow_by(child: HoldingsOwner, upstream: ParentSupply, until: int, allocate: Callable[[str], int]) -> list[str]:
    # The parent has less than before, so its reservations remain valid.
    with recording.own_changes(upstream.job.instance.inventory, child.inventory):
        paths = _grow(upstream, child.queue, allocate, (child.time.now, until))
    _propagate_sizes(child)
    pool_states.graph_changed(child)
    return paths


def _grow(upstream: ParentSupply, queue: Queue, allocate: Callable[[str], int], window: tuple[int, int]) -> list[str]:
    """Allocate more to the job of a child in its parent, and merge that into the graph of the child.

    Args:
        allocate: allocates it to a job of this name, and returns its size.
        window: from now until the job ends.
    """
    graph, job, name, now = upstream.above, upstream.job, upstream.holder, window[0]
    growth = f"{name}+"
    size = allocate(growth)
    records = graph.records
    pools = [(v, max(amount for _, _, amount in records.held[v][growth])) for v in sorted(records.require_job(growth))]
    paths = [graph.structure.accounts.where(v) for v, _ in pools]
    try:
        if all(graph.structure.accounts.is_edge(v) for v, _ in pools):
            raise UsageError(
                "an edge can only be added with pools that draw through it", where=paths[0], hint="name such pools too"
            )
        _require_allowed(job, size)
        part = joining.copy_job(graph, growth, now, linked=True)
        _prepare_suppliers(upstream, part, now)
        queue.unreserve()  # reservations of a shared supplier may exceed what the child gets of it
        joining.merge(upstream.graph, part, None, now)
    except FluxresError:
        graph.free(growth)
        raise
    more = [(v, max(amount for _, _, amount in held)) for v, held in records.implied.get(growth, {}).items()]
    drawn, is_routed = graph.records.draws_of(growth).at(now), growth not in graph.records.upward
    graph.free(growth)
    changes.allocate_more(graph, name, pools + more, window, drawn, is_routed=is_routed or None)
    return paths


def _require_allowed(job: Job, more: int) -> None:
    """Check that the accounting of the parent lets the job of a child have that many more units.

    Errors: InsufficientResources.
    """
    limiter = job.instance.limiter
    if limiter is not None and not job.is_booking and not limiter.may_grow(job, more):
        message = f"the accounting does not let job {job.id} have {plural(more, job.instance.inventory.measure)} more"
        raise InsufficientResources(message, where=job.instance.address, hint="grow by fewer, or once other jobs have ended")


def shrink(child: PartOwner, upstream: ParentSupply, parent: PartOwner, wanted: Targets) -> list[str]:
    """Return pools of a child to its parent; see Instance.shrink."""
    given = _shrink(child, upstream, parent, wanted)
    parent.lifecycle.child_resized(upstream.job)
    parent.queue.supply_changed()
    parent.queue.supplies_returned()
    for one in (parent, child):
        one.due.owe_pass()
    return given


def _shrink(child: PartOwner, upstream: ParentSupply, parent: PartOwner, wanted: Targets) -> list[str]:
    job, holder, now, mine = upstream.job, upstream.holder, child.time.now, upstream.graph
    if job.limit <= now:
        hint = "close the instance to return everything"
        raise StaleHandle(f"job {job.id} is past its limit", where=child.address, hint=hint)
    if targets.is_request(wanted, mine):
        hint = f"name them, such as {giving_back.IDLE_NODES}"
        raise UsageError(f"expected pools to return, got a request: {wanted!r:.80}", where=child.address, hint=hint)
    try:
        named = targets.resolve(mine, wanted)
    except UnknownPool as error:
        raise _not_held(child.address, mine, wanted, "name pools that it holds") or error from None
    if len(named) == 1 and _is_part(mine.structure, *named[0]):
        return _shrink_units(child, upstream, parent, named[0][0], named[0][1] or 0)
    if child.inventory.kind == "counted":
        child.choice.use_graph()  # the counted pool may be among those that are returned
    tops = _topmost(mine.structure, named, child.address)
    _require_idle(child, tops)
    paths = [mine.structure.path(v) for v in tops]
    part = _part(parent, job, list(zip(paths, mine.structure.size[tops].tolist(), strict=True)))
    if part is None:
        parent.choice.use_graph()
    graph = upstream.above
    given = [_require_returnable(parent, job, path) for path in paths]
    below = [one for one in child.walk() if one is not child]
    ways = [(one, path) for one in below for path in paths if pool_states.has_pool(one.holdings.graph, path)]
    for one, path in ways:
        _require_only_way(one, path)
    if child.inventory.kind == "graph":
        child.queue.unreserve()
        child.queue.changed = True
    reduction = _reduction(mine, graph, graph.records.draws_of(holder).going_with(given, now), now)
    changed = dict.fromkeys([child, *(one for one, _ in ways)])
    with recording.own_changes(*(one.inventory for one in changed)):
        if reduction:
            joining.leave(mine, reduction, now)
        for path in paths:
            joining.remove(mine, mine.structure.vertex(path), now)
            with recording.own_changes(parent.inventory), in_service(graph):
                giving_back.give_back(graph, holder, graph.structure.vertex(path), now, job.limit)
        for one, path in ways:
            joining.remove(one.holdings.graph, one.holdings.graph.structure.vertex(path), now)
        for one in changed:
            if one.holdings.upstream is not None:
                _restore_ways(one.holdings.upstream, paths, now)
            pool_states.graph_changed(one)
    if part is not None:
        part.free(now)
    _propagate_sizes(child)
    return paths


def _not_held(address: str, graph: ResourceGraph, wanted: Targets | Wanted, way_out: str) -> NotHeld | None:
    """The refusal of pools that the whole machine has, and this instance has not.

    Args:
        graph: of the instance.

    Returns: None for an outermost instance. Errors: UnknownPool for pools that the machine does not have either.
    """
    *_, whole = up_from(graph)
    if whole is graph:
        return None
    paths = [whole.structure.accounts.where(v) for v, _ in targets.resolve(whole, cast("Targets", wanted))]
    missing = [path for path in paths if not recording.existing(graph, [(path, 1)])]
    return NotHeld("the instance does not hold it", where=f"{address} {listed(missing)}", hint=way_out)


class _Part(NamedTuple):
    """A part of a claim on interchangeable units, as its inventory represents it."""

    inventory: InterchangeableInventory
    claim: Hold
    units: int

    def free(self, now: int) -> None:
        self.inventory.reduce(self.claim, self.units, now)


def _part(parent: HoldingsOwner, job: Job, pools: list[tuple[str, int]]) -> _Part | None:
    """What pools are of the claim of a job, if its inventory can free them; None if that takes the resource graph."""
    inventory = parent.inventory
    if not isinstance(inventory, InterchangeableInventory) or job.number in parent.holdings.disputed:
        return None
    units = inventory.part_of(job.claim, pools)
    return None if units is None else _Part(inventory, job.claim, units)


def _is_part(structure: Structure, v: int, amount: int | None) -> bool:
    """Whether these are some units, not all, of a pool of the containment tree with nothing below it."""
    if amount is None or not 0 < v < structure.tree_end or structure.end.item(v) > v + 1 or structure.flags.item(v) & WAY:
        return False
    return 0 < amount < structure.size.item(v)


def _shrink_units(child: PartOwner, upstream: ParentSupply, parent: PartOwner, v: int, units: int) -> list[str]:
    """Return some units of a pool of a child."""
    inventory, job, mine, now = child.inventory, upstream.job, upstream.graph, child.time.now
    if inventory.kind == "named":
        child.choice.use_graph()
    path, size = mine.structure.path(v), mine.structure.size.item(v)
    if inventory.kind == "graph":
        child.queue.unreserve()
        child.queue.changed = True
    is_counted = isinstance(inventory, CountedInventory) and inventory.vertex == v
    free = inventory.free_units if is_counted else mine.planner.free(v, now, FOREVER)
    if units > free:
        message = f"{units} units to return, but only {free} of {size} are free"
        raise StillHeld(message, where=f"{child.address} {path}", hint="jobs must end first")
    part = _part(parent, job, [(path, units)])
    if part is None:
        parent.choice.use_graph()
    graph = upstream.above
    p = _require_returnable(parent, job, path)
    with recording.own_changes(child.inventory, parent.inventory), in_service(graph):
        joining.leave(mine, {v: (size - units, graph.structure.size.item(p))}, now)
        changes.free_pieces(graph, upstream.holder, [(p, units, now, min(job.limit, FOREVER))])
    pool_states.graph_changed(child)
    if part is not None:
        part.free(now)
    return [path]


def _propagate_sizes(child: HoldingsOwner) -> None:
    """Propagate the new sizes of a child's suppliers to the instances below it."""
    for one in child.walk():
        if one is not child and pool_states.propagate_sizes(one):
            pool_states.graph_changed(one)


def _reduction(child: ResourceGraph, graph: ResourceGraph, drawn: dict[int, int], now: int) -> dict[int, tuple[int, int]]:
    """By account of a child's own suppliers, the units that it keeps when a part of it is returned, and those of the parent.

    Args:
        graph: that of the parent.
        drawn: by account of the parent, what was drawn for that part.

    Errors: StillHeld if jobs of the child draw more than it would keep.
    """
    mine, theirs, found = child.structure.accounts, graph.structure.accounts, {}
    for p, units in drawn.items():
        v = theirs.same_in(mine, p)
        if v < 0 or mine.is_way(v) or (mine.linked is not None and mine.linked[v]):
            continue
        left, used = mine.size.item(v) - units, child.planner.used(v, now, FOREVER)
        if used > left:
            raise StillHeld(
                f"jobs draw {used} of it, but only {left} would be left", where=mine.where(v), hint="they must end first"
            )
        found[v] = left, theirs.size.item(p)
    return found


def _topmost(structure: Structure, named: list[tuple[int, int | None]], where: str) -> list[int]:
    found: list[int] = []
    for v, amount in sorted(named):
        if structure.accounts.is_edge(v):
            name = structure.accounts.where(v)
            raise UsageError("an edge is returned with the pools that draw through it", where=name, hint="name these pools")
        if amount is not None and amount != structure.size.item(v):
            raise UsageError(
                f"{amount} of {structure.size.item(v)} units: only complete pools can be returned",
                where=structure.where(v),
                hint="name all units",
            )
        if v == 0 or v >= structure.tree_end:
            raise UsageError("the root is returned by closing the instance", where=f"{where} {structure.where(v)}")
        if (structure.flags[v : structure.end.item(v)] & WAY).all():
            message = "the instance has no units of it, it is only a pass-through to other pools"
            hint = "graph.find('available>0') lists what is free, close() returns everything"
            raise NotHeld(message, where=f"{where} {structure.where(v)}", hint=hint)
        if not found or v >= structure.end.item(found[-1]):
            found.append(v)
    if not found:
        raise UsageError("no pools named", hint="name at least one pool")
    return found


def _require_idle(child: HoldingsOwner, tops: list[int]) -> None:
    """Check that neither active jobs of a child nor others in its graph hold any of these pools; reservations do not count.

    Errors: StillHeld.
    """
    graph = child.holdings.graph
    structure, waiting = graph.structure, {fluid.encode(job.number) for job in child.holdings.jobs_in(states.PENDING)}
    changes.expire_stages(graph)
    for job in child.holdings.jobs.values():
        for u in () if job.claim is None else child.inventory.vertices(job.claim):
            for v in tops:
                if u < structure.end.item(v) and v < structure.end.item(u):
                    raise StillHeld(f"job {job.id} holds {structure.path(u)}", where=structure.path(v), hint="it must end first")
    for v in tops:
        joining.require_removable(graph, v, waiting, child.time.now)


def _require_only_way(instance: HoldingsOwner, path: str) -> None:
    """Check that an instance below has a pool only as a pass-through.

    Errors: StillHeld if it has units of it, which its job then does not hold.
    """
    graph = instance.holdings.graph
    structure, v = graph.structure, graph.structure.vertex(path)
    if not (structure.flags[v : structure.end.item(v)] & WAY).all():
        message = "an instance below has it, and its job no longer holds it"
        raise StillHeld(message, where=f"{instance.address} {path}", hint="close that instance first")
    joining.require_removable(graph, v, (), instance.time.now)


def _require_returnable(parent: HoldingsOwner, job: Job, path: str) -> int:
    """The vertex in the parent of a pool that its job can return, because it holds it, part of it, or a pool above it.

    Errors: NotHeld; UnknownPool if the parent no longer has it; StillHeld if others hold some of what the job has.
    """
    graph, name = parent.holdings.graph, fluid.encode(job.number)
    structure, where, way_out = graph.structure, f"{parent.address} {path}", "close the instance to return everything"
    if job.number in parent.holdings.disputed:
        raise StillHeld(
            f"job {job.id} has not ended by its limit, and others hold some of what it has", where=where, hint=way_out
        )
    v, held = structure.vertex(path), graph.records.pools_of.get(name, set())
    if not any(v <= u < structure.end.item(v) for u in held) and held.isdisjoint(structure.ancestors(v)):
        raise NotHeld(f"job {job.id} no longer holds it", where=where, hint=f"check() has details; {way_out}")
    return v


def _restore_ways(upstream: ParentSupply, paths: Iterable[str], now: int) -> None:
    """Add pass-through pools on the paths to what an instance still has, with the units of edges that its job still holds.

    Args:
        upstream: of the instance.
        paths: the returned pools.
    """
    structure = upstream.above.structure
    gone = np.zeros(structure.n, np.bool_)
    for path in paths:
        with suppress(UnknownPool):  # the parent does not have it either
            v = structure.vertex(path)
            gone[v : structure.end.item(v)] = True
    ways = joining.copy_ways(upstream.above, upstream.holder, now, gone)
    if ways is not None:
        joining.merge(upstream.graph, ways, None, now)


def _prepare_suppliers(upstream: ParentSupply, part: ResourceGraph, now: int) -> None:
    """Prepare a child for units of its own of suppliers that it has shared with others so far.

    Errors: StillHeld if jobs of the child draw from one of them on request: its own units might be fewer.
    """
    mine, theirs = upstream.graph.structure, part.structure
    linked = theirs.accounts.linked
    given = {theirs.accounts.where(v) for v in np.flatnonzero((theirs.flags & WAY) == 0).tolist()}
    given |= {theirs.accounts.where(v) for v in range(theirs.n, theirs.accounts.n) if linked is None or not linked[v]}
    own = {v: where for v in upstream.in_parent() if (where := mine.accounts.where(v)) in given}
    for v, where in own.items():
        if upstream.drawn(v, now):
            raise StillHeld(
                "jobs of the child draw units of it that the parent grants on request",
                where=where,
                hint="grow by the nodes alone, or after these jobs have ended",
            )
    upstream.forget_elsewhere(own)

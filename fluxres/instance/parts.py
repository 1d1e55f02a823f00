"""Growing and shrinking of a running child instance (RFC 4 Merge and Unlink, rule N1).

The records of the parent and the graph of the child change together or not at all: everything is checked before either is
changed.  This works on records, so a parent with a counting or naming inventory changes to the resource graph first.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np

from fluxres.clock import FOREVER, seconds
from fluxres.errors import FluxresError, NotHeld, StaleHandle, StillHeld, UnknownPool, UsageError
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import Structure
from fluxres.instance import holding, recording, states
from fluxres.instance.pool_states import graph_changed, has_pool, propagate_sizes
from fluxres.model import changes, joining, targets
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.instance.job import Job
    from fluxres.model import ResourceGraph
    from fluxres.model.targets import Targets
    from fluxres.syntax.jobspec import Wanted


IDLE_NODES: Final = "graph.find('type=node and available>0 and allocated=0 and not shared')"
"""For hints: finds the nodes on which nothing runs."""


def graph_with_records(parent: Instance) -> ResourceGraph:
    """The graph of a parent with the records of everything that its jobs hold.

    Errors: UsageError for a fixed inventory other than the graph.
    """
    if parent.inventory.kind != "graph":
        if not parent.is_adaptive:
            raise UsageError(
                f"an instance on inventory {parent.inventory.kind} cannot grow or shrink its children",
                where=parent.address,
                hint="use inventory='graph' or 'auto'",
            )
        parent._adapt(None)
    return parent._graph


def grow(parent: Instance, job: Job, child: Instance, wanted: Targets | Wanted) -> list[str]:
    """Give a child more of its parent; see Instance.grow."""
    graph = graph_with_records(parent)
    with recording.own_changes(
        parent.inventory, child.inventory
    ):  # the parent has less than before, so its reservations remain valid
        paths = _grow(parent, job, child, graph, wanted)
    _propagate_sizes(child)
    graph_changed(child)
    return paths


def _grow(parent: Instance, job: Job, child: Instance, graph: ResourceGraph, wanted: Targets | Wanted) -> list[str]:
    """Allocate more to a job of the parent, and merge that into the graph of its child."""
    growth = f"{fluid.encode(job.number)}+"
    start, end = seconds(parent.now), None if job.limit >= FOREVER else seconds(job.limit)
    graph.allocate(wanted, job=growth, start=start, end=end, policy=parent.match_policy)
    records = graph.records
    pools = [(v, max(amount for _, _, amount in records.held[v][growth])) for v in sorted(records.require_job(growth))]
    paths = [graph.structure.accounts.where(v) for v, _ in pools]
    try:
        if all(graph.structure.accounts.is_edge(v) for v, _ in pools):
            raise UsageError(
                "an edge can only be added with pools that draw through it", where=paths[0], hint="name such pools too"
            )
        part = joining.copy_job(graph, growth, parent.now, linked=True)
        _prepare_suppliers(child, part)
        child.queue.unreserve()  # reservations of a shared supplier may exceed what the child gets of it
        joining.merge(child._graph, part, None, child._time.now)
    except FluxresError:
        graph.free(growth)
        raise
    more = [(v, max(amount for _, _, amount in held)) for v, held in records.implied.get(growth, {}).items()]
    drawn, is_routed = graph.records.draws_of(growth).at(parent.now), growth not in graph.records.upward
    graph.free(growth)
    name, window = fluid.encode(job.number), (parent.now, min(job.limit, FOREVER))
    changes.allocate_more(graph, name, pools + more, window, drawn, is_routed=is_routed or None)
    return paths


def shrink(parent: Instance, job: Job, child: Instance, wanted: Targets) -> list[str]:
    """Return pools of a child to its parent; see Instance.shrink."""
    if job.limit <= parent.now:
        raise StaleHandle(f"job {job.id} is past its limit", where=child.address, hint="close the instance to return everything")
    if child.inventory.kind == "counted":
        graph_with_records(child)  # the counted pool may be among those that are returned
    if targets.is_request(wanted, child._graph):
        hint = f"name them, such as {IDLE_NODES}"
        raise UsageError(f"expected pools to return, got a request: {wanted!r:.80}", where=child.address, hint=hint)
    structure = child._graph.structure
    tops = _topmost(structure, targets.resolve(child._graph, wanted), child.address)
    _require_idle(child, structure, tops)
    paths = [structure.path(v) for v in tops]
    graph, holder = graph_with_records(parent), fluid.encode(job.number)
    given = [_require_returnable(parent, job, path) for path in paths]
    ways = [(instance, path) for instance in child.walk() if instance is not child for path in paths if has_pool(instance, path)]
    for instance, path in ways:
        _require_only_way(instance, path)
    if child.inventory.kind == "graph":
        child.queue.unreserve()
        child.queue.changed = True
    reduction = _reduction(child, graph, graph.records.draws_of(holder).going_with(given, parent.now))
    with recording.own_changes(*{one.inventory for one, _ in ways}, child.inventory):
        if reduction:
            joining.leave(child._graph, reduction, child._time.now)
        for path in paths:
            joining.remove(child._graph, child._graph.structure.vertex(path), child._time.now)
            with recording.own_changes(parent.inventory), holding.in_service(parent):
                _release(graph, holder, graph.structure.vertex(path), parent.now, job.limit)
                _release_cables(graph, holder, graph.structure.vertex(path))
        for instance, path in ways:
            joining.remove(instance._graph, instance._graph.structure.vertex(path), instance._time.now)
        for instance in dict.fromkeys([child, *(instance for instance, _ in ways)]):
            _restore_ways(instance, paths)
            graph_changed(instance)
    _propagate_sizes(child)
    parent.supply_changed()
    return paths


def _reduction(child: Instance, graph: ResourceGraph, drawn: dict[int, int]) -> dict[int, tuple[int, int]]:
    """By account of a child's own suppliers, the units that it keeps when a part of it is returned, and those of the parent.

    Args:
        drawn: by account of the parent, what was drawn for that part.

    Errors: StillHeld if jobs of the child draw more than it would keep.
    """
    mine, theirs, found = child._graph.structure.accounts, graph.structure.accounts, {}
    for p, units in drawn.items():
        v = theirs.same_in(mine, p)
        if v < 0 or mine.is_way(v) or (mine.linked is not None and mine.linked[v]):
            continue
        left, used = mine.size.item(v) - units, child._graph.planner.used(v, child._time.now, FOREVER)
        if used > left:
            raise StillHeld(
                f"jobs draw {used} of it, but only {left} would be left", where=mine.where(v), hint="they must end first"
            )
        found[v] = left, theirs.size.item(p)
    return found


def _propagate_sizes(child: Instance) -> None:
    """Propagate the new sizes of a child's suppliers to the instances below it."""
    for instance in child.walk():
        if instance is not child and propagate_sizes(instance):
            graph_changed(instance)


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


def _require_idle(child: Instance, structure: Structure, tops: list[int]) -> None:
    """Check that neither jobs of the child nor others in its graph hold any of these pools; reservations do not count.

    Errors: StillHeld.
    """
    changes.expire_stages(child._graph)
    for job in child.jobs():
        if job.claim is None or job.state.letter == "I":
            continue
        for u in child.inventory.vertices(job.claim):
            for v in tops:
                if u < structure.end.item(v) and v < structure.end.item(u):
                    raise StillHeld(f"job {job.id} holds {structure.path(u)}", where=structure.path(v), hint="it must end first")
    waiting = {fluid.encode(job.number) for job in child.jobs(*states.PENDING)}
    for v in tops:
        joining.require_removable(child._graph, v, waiting, child._time.now)


def _require_only_way(instance: Instance, path: str) -> None:
    """Check that an instance below has a pool only as a pass-through.

    Errors: StillHeld if it has units of it, which its job then does not hold.
    """
    structure = instance._graph.structure
    v = structure.vertex(path)
    if not (structure.flags[v : structure.end.item(v)] & WAY).all():
        message = "an instance below has it, and its job no longer holds it"
        raise StillHeld(message, where=f"{instance.address} {path}", hint="close that instance first")
    joining.require_removable(instance._graph, v, (), instance._time.now)


def _require_returnable(parent: Instance, job: Job, path: str) -> int:
    """The vertex in the parent of a pool that its job can return, because it holds it, part of it, or a pool above it.

    Errors: NotHeld; UnknownPool if the parent no longer has it; StillHeld if others hold some of what the job has.
    """
    structure, records, name = parent._graph.structure, parent._graph.records, fluid.encode(job.number)
    where, way_out = f"{parent.address} {path}", "close the instance to return everything"
    if job.number in parent._disputed:
        raise StillHeld(
            f"job {job.id} has not ended by its limit, and others hold some of what it has", where=where, hint=way_out
        )
    v, held = structure.vertex(path), records.pools_of.get(name, set())
    if not any(v <= u < structure.end.item(v) for u in held) and held.isdisjoint(structure.ancestors(v)):
        raise NotHeld(f"job {job.id} no longer holds it", where=where, hint=f"check() has details; {way_out}")
    return v


def _release(graph: ResourceGraph, job: str, v: int, now: int, limit: int) -> None:
    """Free a pool and all below it from a job that holds it, part of it, or exclusively a pool above it."""
    structure, records = graph.structure, graph.records
    held = sorted(records.require_job(job))
    inside = [u for u in held if v <= u < structure.end.item(v)]
    if inside:
        graph.free(job, inside)
        return
    above = next(u for u in structure.ancestors(v) if u in held)
    # The job held everything below `above` implicitly; from now on it holds the rest explicitly.
    rest: list[int] = []
    at = above
    while at != v:
        below = structure.children(at).tolist()
        at, others = next(u for u in below if u <= v < structure.end.item(u)), below
        rest += [u for u in others if u != at]
    before, is_upward = records.draws_of(job).at(now), job in records.upward
    graph.free(job, [above])
    if not rest:
        return
    # What was drawn for the rest stays with it.
    left = records.draws_of(job).at(now) if records.is_holder(job) else before[:0]
    lost = np.array([row for row in before.tolist() if row not in left.tolist()], np.int64).reshape(-1, 3)
    lost = lost[[any(r < structure.end.item(u) and u < structure.end.item(r) for r in rest) for u in lost[:, 0].tolist()]]
    units: dict[int, int] = {u: structure.size.item(u) for u in rest}
    for _, account, amount in lost.tolist():
        units[account] = units.get(account, 0) + amount
    named = [(u, amount) for u, amount in units.items() if amount]
    changes.allocate_more(graph, job, named, (now, min(limit, FOREVER)), lost, is_routed=False if is_upward else None)


def _release_cables(graph: ResourceGraph, job: str, v: int) -> None:
    """Free what a job draws through edges into a returned pool for pools around it, such as a rack."""
    cut_off = graph.records.draws_of(job).cut_off(v)
    if cut_off:
        changes.free_pieces(graph, job, [(u, units, s, e) for u, held in cut_off.items() for s, e, units in held])


def _restore_ways(instance: Instance, paths: Iterable[str]) -> None:
    """Add pass-through pools on the paths to what an instance still has, with the units of edges that its job still holds.

    Args:
        paths: the returned pools.
    """
    parent, job = instance.parent, instance.job_in_parent
    assert parent is not None  # only a child can return pools
    assert job is not None
    structure = parent._graph.structure
    gone = np.zeros(structure.n, np.bool_)
    for path in paths:
        with suppress(UnknownPool):  # the parent does not have it either
            v = structure.vertex(path)
            gone[v : structure.end.item(v)] = True
    ways = joining.copy_ways(parent._graph, fluid.encode(job.number), parent.now, gone)
    if ways is not None:
        joining.merge(instance._graph, ways, None, instance._time.now)


def _prepare_suppliers(child: Instance, part: ResourceGraph) -> None:
    """Prepare a child for units of its own of suppliers that it has shared with others so far.

    Errors: StillHeld if jobs of the child draw from one of them on request: its own units might be fewer.
    """
    upstream, mine, theirs = child.upstream, child._graph.structure, part.structure
    if upstream is None:
        return
    linked = theirs.accounts.linked
    given = {theirs.accounts.where(v) for v in np.flatnonzero((theirs.flags & WAY) == 0).tolist()}
    given |= {theirs.accounts.where(v) for v in range(theirs.n, theirs.accounts.n) if linked is None or not linked[v]}
    own = {v: where for v in upstream.in_parent() if (where := mine.accounts.where(v)) in given}
    for v, where in own.items():
        if upstream.drawn(v, child._time.now):
            raise StillHeld(
                "jobs of the child draw units of it that the parent grants on request",
                where=where,
                hint="grow by the nodes alone, or after these jobs have ended",
            )
    upstream.forget_elsewhere(own)

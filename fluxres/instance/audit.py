"""Audit of an instance and its children: the graph records what jobs hold (rule A6), a child has what its job in the parent
holds (rule N1), a job keeps what it has until it has ended (rule T1), and the queue and the inventory agree with the states of
the jobs (rule J1)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from fluxres.allocation import steps
from fluxres.allocation.records import ELSEWHERE
from fluxres.clock import FOREVER, seconds
from fluxres.errors import UnknownPool
from fluxres.graph.kinds import UNAVAILABLE_CODES, UNAVAILABLE_STATES, WAY
from fluxres.graph.structure import Problem
from fluxres.instance import recording, states
from fluxres.instance.graph_inventory import GraphHold, GraphInventory
from fluxres.instance.holding import HoldingsOwner
from fluxres.instance.job import URGENCY_HELD, Job
from fluxres.instance.states import State
from fluxres.instance.upstream import ParentSupply
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph


def check(instance: HoldingsOwner) -> list[Problem]:
    """Check an instance and all below it; the caller has handled what is due."""
    found: list[Problem] = []
    for one in instance.walk():
        one.holdings.record_jobs()
        graph = one.holdings.graph
        found += [Problem(p.severity, f"{one.address} {p.where}", p.message) for p in graph.check()]
        found += [*_check_bookkeeping(one), *_check_holdings(one, graph), *_check_reserved_pools(one, graph)]
        found += [*_check_elsewhere(one), *_check_late(one, graph), *_check_listed(one)]
        for child in one.holdings.children.values():
            found += _check_child(one, child)
    return found


def _check_holdings(instance: HoldingsOwner, graph: ResourceGraph) -> list[Problem]:
    """Only active jobs hold resources, and waiting ones only what is reserved for them (rule A6).

    That running jobs hold theirs is rule T1.
    """
    known = {fluid.encode(job.number) for job in instance.holdings.jobs.values() if job.state is not State.INACTIVE}
    holding = set(graph.records.jobs())
    found = []
    strangers = set[str]() if instance.lifetime.is_closed else holding - known - instance.others.names
    for name in sorted(strangers):  # a closed instance no longer notes which jobs of others there are
        pools = sorted(graph.records.require_job(name))
        if not pools:
            continue  # the index of jobs is wrong: the audit of the graph reports it
        found.append(_a6(instance, graph, pools, f"{name} holds resources and is not a job"))
    promised = instance.inventory.reserved_starts().keys() | instance.inventory.ahead.keys()
    for job in () if instance.time.still else instance.holdings.jobs_in(states.PENDING):
        name = fluid.encode(job.number)
        if (
            job.claim is None
            and name in holding
            and job.number not in promised
            and (pools := sorted(graph.records.require_job(name)))
        ):
            found.append(_a6(instance, graph, pools, f"{job.id} is waiting, and holds resources that are not reserved for it"))
    return found


def _claimed(instance: HoldingsOwner, graph: ResourceGraph, job: Job) -> list[int]:
    """The pools allocated to a job, whatever the records say now; those of a job with a child change (rule N1)."""
    claim = job.claim
    if isinstance(claim, GraphHold) and claim.generation == graph.generation and job.child is None:
        return [int(v) for v in claim.vertices]
    return sorted(instance.inventory.vertices(claim))


def _a6(instance: HoldingsOwner, graph: ResourceGraph, pools: list[int], message: str) -> Problem:
    more = f"; {len(pools)} pools in all" if len(pools) > 1 else ""
    return Problem("error", f"{instance.address} {graph.structure.accounts.where(pools[0])}", f"rule A6: {message}{more}")


def _check_elsewhere(instance: HoldingsOwner) -> list[Problem]:
    """All that other instances hold here is what they draw from suppliers shared with them."""
    shared = instance.holdings.upstream.in_parent() if instance.holdings.upstream is not None else {}
    pools = instance.holdings.graph.records.pools_of.get(ELSEWHERE, set())
    return [_n1(instance, v, "other instances hold it, but it is not a shared supplier") for v in sorted(pools - shared.keys())]


def _check_late(instance: HoldingsOwner, graph: ResourceGraph) -> list[Problem]:
    """Rule T1, as far as it can be checked at one moment: jobs past their limit were asked to stop, and jobs that have not ended
    hold what they have, now and until their limit."""
    found, now = [], instance.time.now
    ahead = {fluid.encode(number) for number in instance.inventory.ahead}
    for job in instance.holdings.jobs_in(states.RUNNING):
        if job.state is State.RUN and job.limit < now:
            found.append(Problem("error", instance.address, f"rule T1: {job.id} is past its limit and was not asked to stop"))
        ends_now = job.limit == now and job.number not in instance.holdings.overtime
        if job.claim is None or ends_now or job.started > now:
            continue  # it may end at this very moment, or is about to start
        upstream = instance.holdings.suppliers.get(job.number)
        on_request = set() if upstream is None else set(upstream.in_parent().values())  # held only while the child draws it
        is_disputed = job.number in instance.holdings.disputed
        pools = [(v, amount) for v, amount in _expected(instance, graph, job, is_disputed=is_disputed) if v not in on_request]
        # Later others may free or take some of it, and it ends when they have freed all.
        until = now + 1 if is_disputed else max(instance.holdings.end_of(job), now + 1)
        name = fluid.encode(job.number)
        for v, amount, at, others in _not_held(graph, name, pools, now, until):
            if is_disputed and others and ahead.issuperset(others):
                continue  # the records have it for an advance reservation, which begins when the late job has ended
            left = steps.amount_at(graph.records.steps_of(v, name), at)
            what = f"holds {left} of {amount} units" if left else "no longer holds it"
            later = f" from {seconds(at):g} s on" if at > now else ""
            holders = f"; {', '.join(others)} does" if others else ""
            where = f"{instance.address} {graph.structure.accounts.where(v)}"
            found.append(Problem("error", where, f"rule T1: {job.id} has not ended, and {what}{later}{holders}"))
        found += _check_closed_child(instance, graph, job)
    return found


def _expected(instance: HoldingsOwner, graph: ResourceGraph, job: Job, *, is_disputed: bool) -> list[tuple[int, int]]:
    """Pools and edges that an active job must hold, with the least number of units of each."""
    claim, inventory = job.claim, instance.inventory
    if is_disputed and isinstance(inventory, GraphInventory):
        disputed = inventory.disputed(claim)
        if disputed is not None:
            return disputed
    if is_disputed or not isinstance(inventory, GraphInventory):
        given = Counter(dict(inventory.pools(claim)))
        for path, amount in instance.holdings.lost.get(job.number, ()):
            given[path] += amount
        return recording.existing(graph, list(given.items()))
    if isinstance(claim, GraphHold) and claim.generation == graph.generation and job.child is None:
        return claim.given()
    return [(v, 1) for v in _claimed(instance, graph, job)]  # it may have had more units of them before


def _not_held(
    graph: ResourceGraph, job: str, pools: list[tuple[int, int]], start: int, end: int
) -> list[tuple[int, int, int, list[str]]]:
    """Pools and edges that a job does not hold throughout a window in the records, neither themselves nor by their parts.

    Args:
        pools: the pools and edges to check, with their units.

    Returns: each with its units, the first moment at which the job does not hold them, and the jobs that hold it then.
    """
    structure, records, accounts = graph.structure, graph.records, graph.structure.accounts
    found: list[tuple[int, int, int, list[str]]] = []
    todo, named = [(v, amount, start, end) for v, amount in sorted(pools)], {v for v, _ in pools}
    held = sorted(v for v in records.pools_of.get(job, ()) if steps.touches(records.steps_of(v, job), start, end))
    while todo:
        v, amount, lo, hi = todo.pop()
        windows = [(s, e) for s, e, units in records.steps_of(v, job) if units >= amount]
        for u in accounts.ancestors(v):
            windows += steps.whole(records.steps_of(u, job), lo, hi, 0, accounts.size.item(u))
        missing = steps.without(lo, hi, windows)
        if not missing:
            continue
        at = missing[0][0]
        below = [] if accounts.is_edge(v) else structure.children(v).tolist()
        if bisect_left(held, v + 1) < bisect_left(held, accounts.end.item(v)):
            # Others hold a part of it, and the job the rest. What the parent instance grants on request does not belong to it.
            inside = [u for u in below if accounts.linked is None or not accounts.linked[u]]
            todo += [(u, accounts.size.item(u), s, e) for u in inside if u not in named for s, e in missing]
        else:
            near = (v, *accounts.ancestors(v), *below)
            others = {name for u in near for name, *_ in records.spans(u, at, at + 1)} - {job}
            found.append((v, amount, at, sorted(others)))
    return found


def _check_closed_child(instance: HoldingsOwner, graph: ResourceGraph, job: Job) -> list[Problem]:
    """A job that outlives its child holds what the child had, as far as the graph still has it."""
    upstream = instance.holdings.suppliers.get(job.number)
    if upstream is None or not upstream.is_closed or job.number in instance.holdings.disputed:
        return []
    mine, theirs = upstream.graph.structure.accounts, graph.structure.accounts
    return [
        Problem(
            "error",
            f"{instance.address} {mine.where(v)}",
            f"rule T1: {job.id} has not ended, and does not hold what its child had",
        )
        for v in _pools_not_held(upstream, _until(instance, job))
        if (p := mine.same_in(theirs, v)) >= 0 and not theirs.is_way(p)
    ]


def _check_reserved_pools(instance: HoldingsOwner, graph: ResourceGraph) -> list[Problem]:
    """The records hold from now on what the inventory has reserved for waiting jobs."""
    found: list[Problem] = []
    inventory, now = instance.inventory, instance.time.now
    if instance.time.still or not isinstance(inventory, GraphInventory):
        return found
    for number in inventory.reserved_starts():
        hold, name = inventory.reserved(number), fluid.encode(number)
        if isinstance(hold, GraphHold) and hold.generation == graph.generation and hold.end > now:
            for v, *_ in _not_held(graph, name, hold.given(), max(hold.start, now), hold.end):
                where = f"{instance.address} {graph.structure.accounts.where(v)}"
                found.append(Problem("error", where, f"rule J1: it is reserved for {name}, and not recorded for it"))
    return found


def _check_listed(instance: HoldingsOwner) -> list[Problem]:
    """The children of active jobs are listed as children of the instance until they are closed."""
    return [
        Problem("error", job.child.address, "rule N1: it is the child of a job, but not listed as a child of the instance")
        for number, job in instance.holdings.jobs.items()
        if job.child is not None and not job.child.is_closed and job.child is not instance.holdings.children.get(number)
    ]


def _check_child(parent: HoldingsOwner, child: HoldingsOwner) -> list[Problem]:
    upstream = child.holdings.upstream
    if upstream is None or (job := upstream.job).child is not child or job.state not in states.RUNNING:
        return [Problem("error", child.address, "rule N1: no running job of the parent has this child")]
    if job.limit <= parent.time.now and parent.keeps_limits:
        return []  # it ends at this moment, and so does the child
    # What a late job lacks because others hold it is reported by rule T1.
    missing = [] if job.number in parent.holdings.disputed else _pools_not_held(upstream, _until(parent, job))
    expires_late = not child.lifetime.is_ending and child.lifetime.expires > child.lifetime.latest
    late = "rule N1: it expires after its job in the parent, or the parent itself, ends"
    return [
        *([Problem("error", child.address, late)] if expires_late else []),
        *(_n1(child, v, "the job in the parent does not hold it") for v in missing),
        *_check_states(child, upstream),
        *_check_sizes(child, upstream),
        *_check_drawn(child, upstream),
    ]


def _until(instance: HoldingsOwner, job: Job) -> int:
    """Until when an active job holds what its child has: its end, or later if it is late."""
    return max(instance.holdings.end_of(job), job.instance.now + 1)


def _pools_not_held(upstream: ParentSupply, until: int) -> list[int]:
    """Pools and edges of a child that its job in the parent does not hold until its end."""
    structure, given = upstream.graph.structure, upstream.own_in_parent()
    own = np.flatnonzero((structure.flags & WAY) == 0).tolist()
    found = [v for v in own if not _is_held(upstream, given.get(v, -1), structure.size.item(v), until)]
    return found + _edges_not_held(upstream, until)


def _edges_not_held(upstream: ParentSupply, until: int) -> list[int]:
    """Edges of which a child has more units of its own than its job in the parent holds.

    Edges without a capacity in the parent are left out: nothing holds units of them there, and a closed child is not updated.
    """
    mine, theirs = upstream.graph.structure.accounts, upstream.above.structure.accounts
    own = mine.size[mine.pools.n :] > 0
    if mine.linked is not None:
        own &= ~mine.linked[mine.pools.n :]
    edges = (np.flatnonzero(own) + mine.pools.n).tolist()
    found = [v for v in edges if not _is_held(upstream, mine.same_in(theirs, v), mine.size.item(v), until)]
    lifted = upstream.changed_capacities() if found else {}
    return [v for v in found if (mine.edge(v).graph.name, *mine.edge(v)[1:]) not in lifted]


def _check_states(child: HoldingsOwner, upstream: ParentSupply) -> list[Problem]:
    """Pools that are out of service in the parent are out of service in the child (rule A7)."""
    theirs, mine, found = upstream.above.structure, upstream.graph.structure, []
    for p in np.flatnonzero(np.isin(theirs.state, UNAVAILABLE_CODES)).tolist():
        with suppress(UnknownPool):
            v = mine.vertex(theirs.where(p))
            if mine.state_name(v) not in UNAVAILABLE_STATES:
                message = f"rule A7: it is {theirs.state_name(p)} in the parent, but not here"
                found.append(Problem("error", f"{child.address} {mine.where(v)}", message))
    return found


def _check_sizes(child: HoldingsOwner, upstream: ParentSupply) -> list[Problem]:
    """The parent has the edges of the child, and shared suppliers and edges have the same limits in both."""
    mine, found = upstream.graph.structure, []
    for name, src, dst in upstream.cut_off():
        where = f"{child.address} {mine.where(src)} -> {mine.where(dst)}"
        found.append(Problem("error", where, f"rule N1: the parent no longer has this edge in '{name}'"))
    sizes = mine.accounts.size
    found += [
        _n1(child, v, f"it has {size} units in the parent, and {sizes.item(v)} here")
        for v, size in upstream.changed_sizes().items()
    ]
    for (name, src, dst), units in upstream.changed_capacities().items():
        message = f"its capacity is {units} units in the parent, and unlimited here"
        if units is None:
            message = "its capacity is unlimited in the parent, and limited here"
        where = f"{child.address} {name}: {mine.where(src)} -> {mine.where(dst)}"
        found.append(Problem("error", where, f"rule N1: {message}"))
    return found


def _check_drawn(child: HoldingsOwner, upstream: ParentSupply) -> list[Problem]:
    """From shared suppliers, the job in the parent draws as much as the child; what all others draw shows in the child."""
    upstream.refresh()
    own, records, name, now = upstream.graph.records, upstream.above.records, upstream.holder, upstream.job.instance.now
    found = []
    for v, p in upstream.in_parent().items():
        # The past may differ: a runner may have broken its promise, and a late job may have got its units again afterwards.
        held, drawn, elsewhere, shown = (
            list(steps.within(each, now, FOREVER))
            for each in (records.given(p, name), upstream.drawn(v), upstream.elsewhere(p), own.steps_of(v, ELSEWHERE))
        )
        if held != drawn:
            found.append(_n1(child, v, f"the child draws {drawn}, and its job in the parent {held}"))
        if shown != elsewhere:
            found.append(_n1(child, v, "what other instances draw does not show in the child"))
    return found


def _n1(child: HoldingsOwner, v: int, message: str) -> Problem:
    return Problem("error", f"{child.address} {child.holdings.graph.structure.accounts.where(v)}", f"rule N1: {message}")


def _is_held(upstream: ParentSupply, p: int, units: int, end: int) -> bool:
    """Whether the job in the parent holds that number of units until its end, by a record or by holding a pool above exclusively.

    Args:
        p: the pool or edge in the parent; -1 if it has none.
    """
    if p < 0:
        return False
    graph, name, now = upstream.above, upstream.holder, upstream.job.instance.now
    accounts, held = graph.structure.accounts, graph.records.held
    windows = [(s, e) for s, e, amount in held.get(p, {}).get(name, ()) if amount >= units]
    if units <= accounts.size.item(p):
        for u in accounts.ancestors(p):
            windows += steps.whole(held.get(u, {}).get(name, ()), now, end, 0, accounts.size.item(u))
    return not steps.without(now, end, windows)


# -- queue, inventory and states of jobs agree (rule J1) ---------------------------------------------------------------


def _check_bookkeeping(instance: HoldingsOwner) -> list[Problem]:
    """Problems of one instance, without its children.  Cost: O(active jobs), and the `check` of its inventory.

    During a pass, and while due events are handled, only the states and claims of jobs are compared.
    """
    found = [*_check_job_states(instance), *_check_claims(instance)]
    if not instance.time.still:
        found += [*_check_ends(instance), *_check_queue(instance), *_check_reservations(instance)]
        found += [_j1(instance, where, message) for where, message in instance.inventory.check()]
    return found


def _check_job_states(instance: HoldingsOwner) -> list[Problem]:
    """Running jobs have a claim, and pending jobs have none."""
    found = []
    for number, job in instance.holdings.jobs.items():
        if job.state in states.PENDING and job.claim is not None:
            found.append(_j1_of(instance, number, f"it is {job.state.name} and has resources"))
        elif job.claim is None and (job.state is State.RUN or (job.state is State.CLEANUP and job.started >= 0)):
            found.append(_j1_of(instance, number, f"it is {job.state.name} and has no resources"))
    return found


def _check_claims(instance: HoldingsOwner) -> list[Problem]:
    """The inventory lists the claims of active jobs as running, sorted by their end, and nothing else."""
    running = instance.inventory.running
    claims = {id(job.claim): job for job in instance.holdings.jobs.values() if job.claim is not None}
    listed = {id(hold) for hold in running.holds}
    found = [
        _j1_of(instance, job.number, "its resources are not listed as running in the inventory")
        for known, job in claims.items()
        if job.claim.is_live and known not in listed
    ]
    found += [
        _j1_of(instance, hold.key, "the inventory lists running resources that belong to no job of the instance")
        for hold in running.holds
        if id(hold) not in claims
    ]
    if running.ends != sorted(hold.end for hold in running.holds):
        wrong = [hold.key for hold, end in zip(running.holds, running.ends, strict=False) if hold.end != end]
        message = "the inventory lists a wrong end for its resources, or the ends are not sorted"
        found.append(_j1_of(instance, wrong[0], message) if wrong else _j1(instance, "inventory", message))
    return found


def _check_ends(instance: HoldingsOwner) -> list[Problem]:
    """A claim ends at the limit of its job, or a tick later while it is kept for a job at its limit (rule T1)."""
    found = []
    for number, job in instance.holdings.jobs.items():
        if job.claim is None or job.state not in states.RUNNING or not job.claim.is_live:
            continue
        if job.claim.end != job.limit + (number in instance.holdings.at_limit):
            limit, end = ("never" if at >= FOREVER else f"at {seconds(at):g} s" for at in (job.limit, job.claim.end))
            where = f"{instance.address} {job.id}"
            found.append(Problem("error", where, f"rule T1: its limit is {limit}, and what it holds ends {end}"))
    return found


def _check_queue(instance: HoldingsOwner) -> list[Problem]:
    """The queue has each job that waits for resources exactly once, and no other."""
    found, queue = [], instance.queue
    listed = Counter(job.number for job in queue.waiting())
    waiting = {job.number for job in instance.holdings.jobs_in((State.SCHED,)) if job.urgency != URGENCY_HELD}
    for number in sorted(listed.keys() | waiting):
        times = listed[number]
        if number not in waiting:
            found.append(_j1_of(instance, number, "it is in the queue, but is not waiting for resources"))
        elif times != 1:
            found.append(_j1_of(instance, number, f"it is waiting for resources, and is in the queue {times} times"))
    if len(queue) != listed.total():
        found.append(_j1(instance, "queue", f"its length is {len(queue)}, but it has {listed.total()} jobs"))
    return found


def _check_reservations(instance: HoldingsOwner) -> list[Problem]:
    """Queue, inventory and jobs agree on the reservations and their starts; only jobs in the queue have one."""
    promised = {job.number: job for job in instance.queue.reserved_jobs()}
    reserved = instance.inventory.reserved_starts()
    waiting = {number: job for number, job in instance.holdings.jobs.items() if job.reserved >= 0 and job.claim is None}
    found = []
    for number in sorted(promised.keys() | reserved.keys() | waiting.keys()):
        job = instance.holdings.jobs.get(number)
        if job is None or job.state is not State.SCHED:
            found.append(_j1_of(instance, number, "it has a reservation, but is not waiting for resources"))
        elif promised.get(number) is not job:
            found.append(_j1_of(instance, number, "it has a reservation that the queue does not know"))
        elif number not in reserved:
            found.append(_j1_of(instance, number, "it has a reservation that the inventory does not know"))
        elif job.reserved != reserved[number]:
            found.append(_j1_of(instance, number, "the start promised to it differs from the reserved one"))
    return found


def _j1_of(instance: HoldingsOwner, number: int, message: str) -> Problem:
    return _j1(instance, fluid.encode(number), message)


def _j1(instance: HoldingsOwner, where: str, message: str) -> Problem:
    return Problem("error", f"{instance.address} {where}", f"rule J1: {message}")

"""Whether an instance and its children keep the rules: what jobs hold is in the graph (rule A6), children have what is theirs
(rule N1), what a job has is its own until it has ended (rule T1), and jobs are where their states say (rule J1)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np

from fluxres.allocation import steps
from fluxres.allocation.records import ELSEWHERE
from fluxres.clock import FOREVER, seconds
from fluxres.errors import UnknownPool
from fluxres.graph.kinds import STATES, UNAVAILABLE_STATES, WAY
from fluxres.graph.structure import Problem
from fluxres.instance import holding, recording, states
from fluxres.instance.graph_inventory import GraphInventory, Held
from fluxres.instance.job import URGENCY_HELD
from fluxres.instance.states import State
from fluxres.syntax import fluid

_UNAVAILABLE: Final = np.array([code for code, state in enumerate(STATES) if state in UNAVAILABLE_STATES], np.uint8)

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.instance.job import Job
    from fluxres.model import ResourceGraph


def check(instance: Instance) -> list[Problem]:
    """Problems of an instance and all below it; what is due is done first."""
    now = instance._time.look()
    for one in list(instance.walk()):
        if not one.is_closed:
            one._advance_to(now)
    found: list[Problem] = []
    for one in instance.walk():
        holding.record_jobs(one)
        graph = one._graph
        found += [Problem(p.severity, f"{one.address} {p.where}", p.message) for p in graph.check()]
        found += [*_bookkeeping(one), *_jobs(one, graph), *_promised(one, graph), *_elsewhere(one)]
        found += [*_late(one, graph), *_unlisted(one)]
        for child in one.children:
            found += _child(one, graph, child)
    return found


def _jobs(instance: Instance, graph: ResourceGraph) -> list[Problem]:
    """What is held is of jobs that have not ended, and was given or promised to them; jobs that run hold something (rule A6)."""
    known = {fluid.encode(job.number) for job in instance.jobs() if job.state is not State.INACTIVE}
    holding = set(graph.records.jobs())
    found = []
    for name in sorted(holding - known - instance.foreign):
        pools = sorted(graph.records.require_job(name))
        if not pools:
            continue  # an index of jobs that is wrong is a finding of the graph
        found.append(_a6(instance, graph, pools, f"{name} holds resources and is no job"))
    promised = instance.inventory.promises()
    for job in () if instance._time.still else instance.jobs(*states.PENDING):
        name = fluid.encode(job.number)
        if (
            job.claim is None
            and name in holding
            and job.number not in promised
            and (pools := sorted(graph.records.require_job(name)))
        ):
            found.append(_a6(instance, graph, pools, f"{job.id} waits, and holds resources that are not reserved for it"))
    for job in instance.jobs(State.RUN, State.CLEANUP):
        if job.claim is None or fluid.encode(job.number) in holding:
            continue
        if job.number in instance._disputed or job.limit == instance._time.now:
            continue  # what others have of it is named by rule T1; it may end at this very moment
        if claimed := _claimed(instance, graph, job):
            found.append(_a6(instance, graph, claimed, f"{job.id} runs and does not hold it"))
    return found


def _claimed(instance: Instance, graph: ResourceGraph, job: Job) -> list[int]:
    """The pools that a job was given, whatever the records say now; those of a job with a child come and go (rule N1)."""
    claim = job.claim
    if isinstance(claim, Held) and claim.generation == graph.generation and job.child is None:
        return [int(v) for v in claim.vertices]
    return sorted(instance.inventory.vertices(claim))


def _a6(instance: Instance, graph: ResourceGraph, pools: list[int], message: str) -> Problem:
    more = f"; {len(pools)} pools in all" if len(pools) > 1 else ""
    return Problem("error", f"{instance.address} {graph.structure.accounts.where(pools[0])}", f"rule A6: {message}{more}")


def _elsewhere(instance: Instance) -> list[Problem]:
    """Other instances hold nothing here but what they draw from suppliers shared with them."""
    shared = instance.upstream.above() if instance.upstream is not None else {}
    pools = instance._graph.records.pools_of.get(ELSEWHERE, set())
    return [
        _n1(instance, v, "other instances hold it, and it is no supplier shared with them") for v in sorted(pools - shared.keys())
    ]


def _late(instance: Instance, graph: ResourceGraph) -> list[Problem]:
    """Rule T1, as far as a state shows it: jobs past their limit are asked to stop, and jobs that have not ended hold what they
    have, now and until their limit."""
    found, now = [], instance._time.now
    for job in instance.jobs(State.RUN, State.CLEANUP):
        if job.state is State.RUN and job.limit < now:
            found.append(Problem("error", instance.address, f"rule T1: {job.id} is past its limit and was not asked to stop"))
        ends_now = job.limit == now and job.number not in instance._overtime
        if job.claim is None or ends_now or job.started > now:
            continue  # it may end at this very moment, or its start is being decided
        upstream = None if job.child is None else job.child.upstream
        asked = set() if upstream is None else set(upstream.above().values())  # held only when the child draws it
        is_disputed = job.number in instance._disputed
        pools = [(v, amount) for v, amount in _due_to(instance, graph, job, is_disputed=is_disputed) if v not in asked]
        until = now + 1 if is_disputed else max(job.limit, now + 1)  # of the rest others may give it back, or take more
        name = fluid.encode(job.number)
        for v, amount, at, others in _lost(graph, name, pools, now, until):
            left = steps.amount_at(graph.records.steps_of(v, name), at)
            what = f"holds {left} of {amount} units" if left else "does not hold it any more"
            later = f" from {seconds(at):g} s on" if at > now else ""
            who = f"; {', '.join(others)} does" if others else ""
            where = f"{instance.address} {graph.structure.accounts.where(v)}"
            found.append(Problem("error", where, f"rule T1: {job.id} has not ended, and {what}{later}{who}"))
        found += _left_behind(instance, graph, job)
    return found


def _due_to(instance: Instance, graph: ResourceGraph, job: Job, *, is_disputed: bool) -> list[tuple[int, int]]:
    """Pools and edges that a job that has not ended is to hold, with the units that it has at least."""
    claim, inventory = job.claim, instance.inventory
    if is_disputed and isinstance(inventory, GraphInventory):
        disputed = inventory.disputed(claim)
        if disputed is not None:
            return disputed
    if is_disputed or not isinstance(inventory, GraphInventory):
        return recording.known(graph, inventory.pools(claim))
    if isinstance(claim, Held) and claim.generation == graph.generation and job.child is None:
        return claim.given()
    return [(v, 1) for v in _claimed(instance, graph, job)]  # it may have had more of them before


def _lost(
    graph: ResourceGraph, job: str, pools: list[tuple[int, int]], start: int, end: int
) -> list[tuple[int, int, int, list[str]]]:
    """Pools and edges that a job has and does not hold in the records throughout a window, nor by their parts.

    Args:
        pools: what it has at least, by vertex and units.

    Returns: of each the units, the first moment at which it lacks some, and which jobs hold it then.
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
        lacking = steps.without(lo, hi, windows)
        if not lacking:
            continue
        at = lacking[0][0]
        below = [] if accounts.is_edge(v) else structure.children(v).tolist()
        if bisect_left(held, v + 1) < bisect_left(held, accounts.end.item(v)):
            # Others hold a part of it, and the job the rest; what the enclosing instance gives on request is no part of it.
            inside = [u for u in below if accounts.linked is None or not accounts.linked[u]]
            todo += [(u, accounts.size.item(u), s, e) for u in inside if u not in named for s, e in lacking]
        else:
            near = (v, *accounts.ancestors(v), *below)
            others = {name for u in near for name, *_ in records.spans(u, at, at + 1)} - {job}
            found.append((v, amount, at, sorted(others)))
    return found


def _left_behind(instance: Instance, graph: ResourceGraph, job: Job) -> list[Problem]:
    """A job whose child is over, and which has not ended, holds what the child had and the graph still has."""
    child = job.child
    if child is None or not child.is_closed or job.number in instance._disputed:
        return []
    mine, theirs = child._graph.structure.accounts, graph.structure.accounts
    return [
        Problem(
            "error",
            f"{instance.address} {child._graph.structure.accounts.where(v)}",
            f"rule T1: {job.id} has not ended, and does not hold what its child had",
        )
        for v in _lacking(graph, child, job)
        if (p := mine.same_in(theirs, v)) >= 0 and not theirs.is_way(p)
    ]


def _promised(instance: Instance, graph: ResourceGraph) -> list[Problem]:
    """What is reserved in the graph for a job that waits is held for it, from now on."""
    found: list[Problem] = []
    inventory, now = instance.inventory, instance._time.now
    if instance._time.still or not isinstance(inventory, GraphInventory):
        return found
    for number in inventory.promises():
        hold, name = inventory.reserved(number), fluid.encode(number)
        if isinstance(hold, Held) and hold.generation == graph.generation and hold.end > now:
            for v, *_ in _lost(graph, name, hold.given(), max(hold.start, now), hold.end):
                where = f"{instance.address} {graph.structure.accounts.where(v)}"
                found.append(Problem("error", where, f"rule J1: it is reserved for {name}, and not held for it"))
    return found


def _unlisted(instance: Instance) -> list[Problem]:
    """The child of a job that has not ended is among the children of the instance, until it is closed."""
    return [
        Problem("error", job.child.address, "rule N1: it is the child of a job, and not among the children of its instance")
        for number, job in instance._jobs.items()
        if job.child is not None and not job.child.is_closed and instance._children.get(number) is not job.child
    ]


def _child(parent: Instance, graph: ResourceGraph, child: Instance) -> list[Problem]:
    job = child.job_in_parent
    if job is None or job.child is not child or job.state not in (State.RUN, State.CLEANUP):
        return [Problem("error", child.address, "rule N1: no running job of the parent has this child")]
    if job.limit <= parent._time.now and parent.keeps_limits:
        return []  # it ends at this moment, and the child with it
    # What a late job has not, or will not have, because others hold it, is reported by rule T1.
    lacking = [] if job.number in parent._disputed else _lacking(graph, child, job)
    later = not child.is_ending and child.expires > job.limit
    return [
        *([Problem("error", child.address, "rule N1: it expires after its job in the parent ends")] if later else []),
        *(_n1(child, v, "the job in the parent does not hold it") for v in lacking),
        *_in_service(child, graph),
        *_cables(child),
        *_drawn(child, graph, job),
    ]


def _lacking(graph: ResourceGraph, child: Instance, job: Job) -> list[int]:
    """Pools, and edges, of a child that its job in the parent does not hold until it ends."""
    structure, upstream = child._graph.structure, child.upstream
    name, given = fluid.encode(job.number), {} if upstream is None else upstream.given()
    own = np.flatnonzero((structure.flags & WAY) == 0).tolist()
    found = [v for v in own if not _is_held(graph, job, name, given.get(v, -1), structure.size.item(v))]
    return found + _edges_lacking(child, graph, job, name)


def _edges_lacking(child: Instance, graph: ResourceGraph, job: Job, name: str) -> list[int]:
    """Edges of which a child has more units itself than its job in the parent holds.

    Not those without a capacity in the parent: nobody holds units of them there, and a closed child does not learn of it.
    """
    mine, theirs = child._graph.structure.accounts, graph.structure.accounts
    own = mine.size[mine.pools.n :] > 0
    if mine.linked is not None:
        own &= ~mine.linked[mine.pools.n :]
    edges = (np.flatnonzero(own) + mine.pools.n).tolist()
    found = [v for v in edges if not _is_held(graph, job, name, mine.same_in(theirs, v), mine.size.item(v))]
    lifted = child.upstream.relimited() if found and child.upstream is not None else {}
    return [v for v in found if (mine.edge(v).graph.name, *mine.edge(v)[1:]) not in lifted]


def _in_service(child: Instance, graph: ResourceGraph) -> list[Problem]:
    """What takes no new work in the parent takes none in the child (rule A7)."""
    theirs, mine, found = graph.structure, child._graph.structure, []
    for p in np.flatnonzero(np.isin(theirs.state, _UNAVAILABLE)).tolist():
        with suppress(UnknownPool):
            v = mine.vertex(theirs.where(p))
            if mine.state_name(v) not in UNAVAILABLE_STATES:
                message = f"rule A7: it is {theirs.state_name(p)} in the parent, and not here"
                found.append(Problem("error", f"{child.address} {mine.where(v)}", message))
    return found


def _cables(child: Instance) -> list[Problem]:
    """What a child draws, it draws through edges that its parent has as well, with a capacity where they have one there."""
    mine, upstream = child._graph.structure, child.upstream
    found = []
    for name, src, dst in [] if upstream is None else upstream.cut_off():
        where = f"{child.address} {mine.where(src)} -> {mine.where(dst)}"
        found.append(Problem("error", where, f"rule N1: the parent has no such edge in '{name}' any more"))
    return found + _limits(child)


def _limits(child: Instance) -> list[Problem]:
    """What a child shares with its parent has as many units as there, and edges a capacity where those of its parent have one."""
    mine, upstream = child._graph.structure, child.upstream
    if upstream is None:
        return []
    sizes = mine.accounts.size
    found = [
        _n1(child, v, f"it has {units} units in the parent, and {sizes.item(v)} here") for v, units in upstream.resized().items()
    ]
    for (name, src, dst), units in upstream.relimited().items():
        message = f"it carries {units} units in the parent, and any number here"
        if units is None:
            message = "it carries any number of units in the parent, and is limited here"
        where = f"{child.address} {name}: {mine.where(src)} -> {mine.where(dst)}"
        found.append(Problem("error", where, f"rule N1: {message}"))
    return found


def _drawn(child: Instance, graph: ResourceGraph, job: Job) -> list[Problem]:
    """Suppliers that the child shares with others: its job in the parent draws as much as the child, all others the rest."""
    upstream, own = child.upstream, child._graph.records
    if upstream is None:
        return []
    upstream.refresh()
    records, name, now = graph.records, fluid.encode(job.number), job.instance.now
    found = []
    for v, p in upstream.above().items():
        # What is over may differ: a promise that was not kept, and a late job that was given its units again afterwards.
        held, drawn, elsewhere, shown = (
            list(steps.within(each, now, FOREVER))
            for each in (records.given(p, name), upstream.drawn(v), upstream.elsewhere(p), own.steps_of(v, ELSEWHERE))
        )
        if held != drawn:
            found.append(_n1(child, v, f"the child draws {drawn}, and its job in the parent {held}"))
        if shown != elsewhere:
            found.append(_n1(child, v, "what other instances draw does not show in the child"))
    return found


def _n1(child: Instance, v: int, message: str) -> Problem:
    return Problem("error", f"{child.address} {child._graph.structure.accounts.where(v)}", f"rule N1: {message}")


def _is_held(graph: ResourceGraph, job: Job, name: str, p: int, units: int) -> bool:
    """Whether the job in the parent holds that number of units until it ends, by a record or implied by a pool above.

    Args:
        p: the pool or edge, -1 for one that the parent does not have.
    """
    if p < 0:
        return False
    accounts, held, now = graph.structure.accounts, graph.records.held, job.instance.now
    end = max(job.limit, now + 1)
    windows = [(s, e) for s, e, amount in held.get(p, {}).get(name, ()) if amount >= units]
    if units <= accounts.size.item(p):
        for u in accounts.ancestors(p):
            windows += steps.whole(held.get(u, {}).get(name, ()), now, end, 0, accounts.size.item(u))
    return not steps.without(now, end, windows)


# -- jobs are where their states say (rule J1) -------------------------------------------------------------------------


def _bookkeeping(instance: Instance) -> list[Problem]:
    """Problems of an instance, without its children.  Cost: O(jobs that are not over), and what its inventory counts.

    In the middle of a pass, and while what is due is done, only states and what runs are compared.
    """
    found = [*_job_states(instance), *_claims(instance)]
    if not instance._time.still:
        found += [*_ends(instance), *_queue(instance), *_reservations(instance)]
        found += [_j1(instance, where, message) for where, message in instance.inventory.check()]
    return found


def _job_states(instance: Instance) -> list[Problem]:
    """Jobs that wait were given nothing, and jobs that run were."""
    found = []
    for number, job in instance._jobs.items():
        if job.state in states.PENDING and job.claim is not None:
            found.append(_j1_of(instance, number, f"it is {job.state.name} and has resources"))
        elif job.claim is None and (job.state is State.RUN or (job.state is State.CLEANUP and job.started >= 0)):
            found.append(_j1_of(instance, number, f"it is {job.state.name} and has no resources"))
    return found


def _claims(instance: Instance) -> list[Problem]:
    """What runs in the inventory is what jobs that have not ended were given, by its end."""
    running = instance.inventory.running
    claims = {id(job.claim): job for job in instance._jobs.values() if job.claim is not None}
    listed = {id(hold) for hold in running.holds}
    found = [
        _j1_of(instance, job.number, "its resources are not among those that run in the inventory")
        for known, job in claims.items()
        if job.claim.is_live and known not in listed
    ]
    found += [
        _j1_of(instance, hold.key, "resources run in the inventory that no job of the instance was given")
        for hold in running.holds
        if id(hold) not in claims
    ]
    if running.ends != sorted(hold.end for hold in running.holds):
        wrong = [hold.key for hold, end in zip(running.holds, running.ends, strict=False) if hold.end != end]
        message = "the inventory has another end of its resources than they have, or another order of the ends"
        found.append(_j1_of(instance, wrong[0], message) if wrong else _j1(instance, "inventory", message))
    return found


def _ends(instance: Instance) -> list[Problem]:
    """What a job was given ends at its limit; a tick later where it is kept for it through its limit (rule T1)."""
    found = []
    for number, job in instance._jobs.items():
        if job.claim is None or job.state not in states.RUNNING or not job.claim.is_live:
            continue
        if job.claim.end != job.limit + (number in instance._at_limit):
            limit, end = ("never" if at >= FOREVER else f"at {seconds(at):g} s" for at in (job.limit, job.claim.end))
            where = f"{instance.address} {job.id}"
            found.append(Problem("error", where, f"rule T1: its limit comes {limit}, and what it has ends {end}"))
    return found


def _queue(instance: Instance) -> list[Problem]:
    """In the queue is each job that waits for resources, once, and no other."""
    found, queue = [], instance.queue
    listed = Counter(job.number for job in queue)
    waiting = {number for number, job in instance._jobs.items() if job.state is State.SCHED and job.urgency != URGENCY_HELD}
    for number in sorted(listed.keys() | waiting):
        times = listed[number]
        if number not in waiting:
            found.append(_j1_of(instance, number, "it is in the queue, and does not wait for resources"))
        elif times != 1:
            found.append(_j1_of(instance, number, f"it waits for resources, and is in the queue {times} times"))
    if len(queue) != listed.total():
        found.append(_j1(instance, "queue", f"{len(queue)} jobs are counted, and {listed.total()} wait"))
    return found


def _reservations(instance: Instance) -> list[Problem]:
    """Reserved is what a job in the queue was promised, from the same moment on for all who know of it."""
    promised = {job.number: job for job in instance.queue.promises()}
    reserved = instance.inventory.promises()
    waiting = {number: job for number, job in instance._jobs.items() if job.reserved >= 0 and job.claim is None}
    found = []
    for number in sorted(promised.keys() | reserved.keys() | waiting.keys()):
        job = instance._jobs.get(number)
        if job is None or job.state is not State.SCHED:
            found.append(_j1_of(instance, number, "it has a reservation, and does not wait for resources"))
        elif promised.get(number) is not job:
            found.append(_j1_of(instance, number, "it has a reservation of which the queue does not know"))
        elif number not in reserved:
            found.append(_j1_of(instance, number, "it has a reservation of which the inventory does not know"))
        elif job.reserved != reserved[number]:
            found.append(_j1_of(instance, number, "the start that it was promised is not the one that is reserved"))
    return found


def _j1_of(instance: Instance, number: int, message: str) -> Problem:
    return _j1(instance, fluid.encode(number), message)


def _j1(instance: Instance, where: str, message: str) -> Problem:
    return Problem("error", f"{instance.address} {where}", f"rule J1: {message}")

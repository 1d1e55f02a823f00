"""Changes of pool states and of the sizes of suppliers, and their consequences for the jobs and children of an instance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from fluxres.arrays import UInt8
from fluxres.errors import UnknownPool, UsageError
from fluxres.graph.kinds import STATES, UNAVAILABLE_STATES
from fluxres.instance import recording, states
from fluxres.instance.holding import Holdings, HoldingsOwner
from fluxres.instance.job import Job
from fluxres.instance.states import State
from fluxres.model import joining, targets
from fluxres.model.targets import Targets
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.model import ResourceGraph


def require_in_service_above(instance: HoldingsOwner, where: Targets, state: str) -> None:
    """Refuse to put pools in service that are out of service in the parent (rule A7).

    Errors: UsageError.
    """
    holdings = instance.holdings
    if (upstream := holdings.upstream) is None or state in UNAVAILABLE_STATES:
        return
    mine, theirs = holdings.graph.structure, upstream.above.structure
    for v, _ in targets.resolve(holdings.graph, where):
        with suppress(UnknownPool):  # the parent no longer has it
            above = theirs.state_name(theirs.vertex(mine.where(v)))
            if above in UNAVAILABLE_STATES:
                hint = "set the state there; it applies here too"
                raise UsageError(f"it is {above} in {upstream.job.instance.address}", where=mine.where(v), hint=hint)


def set_state(instance: HoldingsOwner, vertices: list[int], state: str, *, requeue: bool = False) -> None:
    """Set the state of pools in an instance and all below it; if it is down, the jobs on them fail, or wait again.

    No pass is made before all instances have the state: a child could start a job on what is out of service in its parent.
    """
    for one, known in reversed(list(_set(instance, vertices, state))):
        if state == "down" and not one.lifetime.is_closed:
            _stop_jobs_on(one, known, requeue=requeue)
        if one is not instance:
            one.due.owe_pass()


def _set(instance: HoldingsOwner, vertices: list[int], state: str) -> Iterator[tuple[HoldingsOwner, list[int]]]:
    """Set the state of pools; yields each instance with its vertices of these pools, parents first."""
    holdings = instance.holdings
    graph = holdings.graph
    with recording.own_changes(instance.inventory):
        graph.set_state(vertices, state)
    instance.inventory.refresh()
    instance.queue.reservations_dropped()
    remember(holdings)
    yield instance, vertices
    names = [graph.structure.where(v) for v in vertices]
    for child in list(holdings.children.values()):
        below = child.holdings.graph
        known = [below.structure.vertex(name) for name in names if has_pool(below, name)]
        if known:
            yield from _set(child, known, state)


def remember(holdings: Holdings) -> None:
    """Remember the states of the pools of an instance as those that its children have."""
    if holdings.children:
        structure = holdings.graph.structure
        holdings.propagated_states = structure, structure.state.copy()


def propagate(holdings: Holdings) -> None:
    """Propagate states of pools, and sizes of suppliers, that others have set in the graph of an instance to its children.

    Jobs there continue to run.

    Cost: O(pools) to compare the states; the names of the changed pools, or after a change of shape of all that are not up.
    """
    if holdings.propagated_states is None or not holdings.children:
        return
    structure, before = holdings.graph.structure, holdings.propagated_states
    if structure is before[0] and np.array_equal(structure.state, before[1]):
        return
    remember(holdings)
    children = list(holdings.children.values())
    resized = set()
    if structure is not before[0]:
        resized = {child for child in children if propagate_sizes(child)}
    by_state: dict[int, list[str]] = {}
    for name, code in _changed_states(before, structure):
        by_state.setdefault(code, []).append(name)
    for child in children:
        _set_below(child, {STATES[code]: names for code, names in by_state.items()}, is_resized=child in resized)


def _set_below(
    child: HoldingsOwner, by_state: dict[str, list[str]], *, is_resized: bool = False, reason: str | None = None
) -> None:
    """Set states of the pools that a child has, by name, and propagate them to its children."""
    graph = child.holdings.graph
    known = {state: [name for name in names if has_pool(graph, name)] for state, names in by_state.items()}
    with recording.own_changes(child.inventory):
        for state, names in known.items():
            if names:
                graph.set_state(names, state, reason=reason)
    if any(known.values()) or is_resized:
        graph_changed(child)
        propagate(child.holdings)


def drain(child: HoldingsOwner, names: list[str]) -> None:
    """Let nothing more start in a child on pools that others have freed of its job; jobs there continue to run."""
    graph = child.holdings.graph
    open_ones = [name for name in names if has_pool(graph, name) and graph.pool(name).state not in UNAVAILABLE_STATES]
    _set_below(child, {"drain": open_ones}, reason="others have freed it of the job that has it")


def propagate_sizes(child: HoldingsOwner) -> bool:
    """Update the sizes of the suppliers that a child shares with its parent, and the capacities of its edges.

    Returns whether anything has changed.
    """
    upstream = child.holdings.upstream
    if upstream is None or upstream.is_closed:
        return False
    limited = upstream.changed_capacities()
    if not limited and not upstream.changed_sizes():
        return False
    child.queue.unreserve()  # reservations past the end of the child may exceed the new sizes
    with recording.own_changes(child.inventory):
        if limited:
            joining.limit(upstream.graph, limited)
        if sizes := upstream.changed_sizes():
            upstream.set_sizes(sizes, child.time.now)
    return True


def graph_changed(instance: HoldingsOwner) -> None:
    """Drop what was computed for the old graph and its reservations; a pass follows."""
    instance.inventory.refresh()
    instance.queue.reservations_dropped()
    instance.due.owe_pass()


def _changed_states(before: tuple[Structure, UInt8], structure: Structure) -> Iterator[tuple[str, int]]:
    """Pools whose state differs from before, with the code of the new one."""
    if structure is before[0]:
        changed = np.flatnonzero(structure.state != before[1]).tolist()
        yield from ((structure.where(v), structure.state.item(v)) for v in changed)
        return
    old = {before[0].where(v): before[1].item(v) for v in np.flatnonzero(before[1]).tolist()}
    new = {structure.where(v): structure.state.item(v) for v in np.flatnonzero(structure.state).tolist()}
    for name in sorted(old.keys() | new.keys()):
        if old.get(name, 0) != new.get(name, 0):
            yield name, new.get(name, 0)


def has_pool(graph: ResourceGraph, where: str) -> bool:
    try:
        graph.structure.vertex(where)
    except UnknownPool:
        return False
    return True


def _stop_jobs_on(instance: HoldingsOwner, vertices: list[int], *, requeue: bool) -> None:
    """Fail or requeue the jobs that hold any of these pools, something below one, or one implicitly by a pool above it."""
    structure, inventory = instance.holdings.graph.structure, instance.inventory
    end = structure.end
    for job in instance.holdings.jobs_in((State.RUN,)):
        if job.child is not None or job.is_booking or job.state is not State.RUN:
            continue  # it has ended with another one
        near = ((u, v) for u in inventory.vertices(job.claim) for v in vertices if u < end.item(v) and v < end.item(u))
        lost = next((v for u, v in near if u >= v or _holds_inside(instance, job, u, v)), None)
        if lost is None:
            continue
        note = f"lost {structure.where(lost)}"
        if requeue:
            instance.lifecycle.requeue(job, states.EXEC, note)
        else:
            instance.lifecycle.raise_exception(job, states.EXEC, states.FATAL, note)


def _holds_inside(instance: HoldingsOwner, job: Job, u: int, v: int) -> bool:
    """Whether a job that holds units of `u` implicitly holds `v` below it; not with a part of `u`, nor if it draws elsewhere."""
    graph, inventory = instance.holdings.graph, instance.inventory
    structure = graph.structure
    if (structure.where(u), structure.size.item(u)) not in inventory.pools(job.claim):
        return False
    implied = graph.records.implied.get(fluid.encode(job.number), {}) if u >= structure.tree_end else {}
    drawn = [w for w in implied if u < w < structure.end.item(u)]
    return not drawn or any(v <= w < structure.end.item(v) for w in drawn)

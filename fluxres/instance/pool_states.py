"""Changes of pool states and their consequences for the jobs and children of an instance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fluxres.errors import UnknownPool, UsageError
from fluxres.graph.kinds import STATES, UNAVAILABLE_STATES
from fluxres.instance import recording, states
from fluxres.instance.states import State
from fluxres.model import joining, targets
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.instance.instance import Instance
    from fluxres.instance.job import Job
    from fluxres.model.targets import Targets


def set_state(instance: Instance, where: Targets, state: str) -> None:
    """Set the state of pools; see Instance.set_state.  The caller has handled what was due.

    No pass is made before all instances have the state: a child could start a job on what is out of service in its parent.
    """
    for one in instance.walk():
        one._advance_to(one._time.now)
    changed = list(_apply(instance, targets.pools(instance._graph, where, "state and no tags"), state))
    for one, vertices in reversed(changed):
        if state == "down" and not one.is_closed:
            _fail_jobs_on(one, vertices)
        if one is not instance:
            one.owe_pass()


def _apply(instance: Instance, vertices: list[int], state: str) -> Iterator[tuple[Instance, list[int]]]:
    """Set the state in an instance and all below it; yields each with its vertices of these pools, parents first."""
    graph = instance._graph
    with recording.own_changes(instance.inventory):
        graph.set_state(vertices, state)
    instance.inventory.refresh()
    instance.queue.reservations_dropped()
    remember(instance)
    yield instance, vertices
    names = [graph.structure.where(v) for v in vertices]
    for child in instance.children:
        known = [child._graph.structure.vertex(name) for name in names if has_pool(child, name)]
        if known:
            yield from _apply(child, known, state)


def remember(instance: Instance) -> None:
    """Remember the states of an instance as those that its children have."""
    if instance.children:
        structure = instance._graph.structure
        instance.propagated_states = structure, structure.state.copy()


def propagate(instance: Instance) -> None:
    """Propagate states of pools, and sizes of suppliers, that others have set in the graph of an instance to its children.

    Jobs there continue to run.

    Cost: O(pools) to compare the states; the names of the changed pools, or after a change of shape of all that are not up.
    """
    if instance.propagated_states is None or not instance.children:
        return
    structure, before = instance._graph.structure, instance.propagated_states
    if structure is before[0] and np.array_equal(structure.state, before[1]):
        return
    remember(instance)
    resized = set()
    if structure is not before[0]:
        resized = {child for child in instance.children if propagate_sizes(child)}
    by_state: dict[int, list[str]] = {}
    for name, code in _changed_states(before, structure):
        by_state.setdefault(code, []).append(name)
    for child in instance.children:
        known = {code: [name for name in names if has_pool(child, name)] for code, names in by_state.items()}
        with recording.own_changes(child.inventory):
            for code, names in known.items():
                if names:
                    child._graph.set_state(names, STATES[code])
        if any(known.values()) or child in resized:
            graph_changed(child)
            propagate(child)


def propagate_sizes(child: Instance) -> bool:
    """Update the sizes of the suppliers that a child shares with its parent, and the capacities of its edges.

    Returns whether anything has changed.
    """
    upstream = child.upstream
    if upstream is None or upstream.is_closed:
        return False
    limited = upstream.changed_capacities()
    if not limited and not upstream.changed_sizes():
        return False
    child.queue.unreserve()  # reservations past the end of the child may exceed the new sizes
    with recording.own_changes(child.inventory):
        if limited:
            joining.limit(child._graph, limited)
        if sizes := upstream.changed_sizes():
            upstream.set_sizes(sizes, child._time.now)
    return True


def graph_changed(instance: Instance) -> None:
    """Drop what was computed for the old graph and its reservations; a pass follows."""
    instance.inventory.refresh()
    instance.queue.reservations_dropped()
    instance.owe_pass()


def _changed_states(before: tuple[Structure, NDArray[np.uint8]], structure: Structure) -> Iterator[tuple[str, int]]:
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


def require_in_service_in_parent(instance: Instance, where: Targets, state: str) -> None:
    """Refuse to put pools in service that are out of service in the parent (rule A7).

    Errors: UsageError.
    """
    if instance.parent is None or state in UNAVAILABLE_STATES:
        return
    mine, theirs = instance._graph.structure, instance.parent._graph.structure
    for v, _ in targets.resolve(instance._graph, where):
        with suppress(UnknownPool):  # the parent no longer has it
            above = theirs.state_name(theirs.vertex(mine.where(v)))
            if above in UNAVAILABLE_STATES:
                raise UsageError(
                    f"it is {above} in {instance.parent.address}",
                    where=mine.where(v),
                    hint="set the state there; it applies here too",
                )


def has_pool(instance: Instance, where: str) -> bool:
    try:
        instance._graph.structure.vertex(where)
    except UnknownPool:
        return False
    return True


def _fail_jobs_on(instance: Instance, vertices: list[int]) -> None:
    """Fail the jobs that hold any of these pools, something below one, or one implicitly by holding a pool above it."""
    structure, end = instance._graph.structure, instance._graph.structure.end
    for job in instance.jobs(State.RUN):
        if job.child is not None:
            continue
        near = ((u, v) for u in instance.inventory.vertices(job.claim) for v in vertices if u < end.item(v) and v < end.item(u))
        lost = next((v for u, v in near if u >= v or _holds_inside(instance, job, u, v)), None)
        if lost is not None:
            instance._raise(job, states.EXEC, states.FATAL, f"lost {structure.where(lost)}")


def _holds_inside(instance: Instance, job: Job, u: int, v: int) -> bool:
    """Whether a job that holds units of `u` implicitly holds `v` below it; not with a part of `u`, nor if it draws elsewhere."""
    structure = instance._graph.structure
    if (structure.where(u), structure.size.item(u)) not in instance.inventory.pools(job.claim):
        return False
    implied = instance._graph.records.implied.get(fluid.encode(job.number), {}) if u >= structure.tree_end else {}
    drawn = [w for w in implied if u < w < structure.end.item(u)]
    return not drawn or any(v <= w < structure.end.item(v) for w in drawn)

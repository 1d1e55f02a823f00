"""Copies of a graph and changes of its shape, records included (rules C1 and M1).

The next structure and records are built next to the present ones and audited; one step at the end replaces these.
A merge or unlink that would take something from a job, or give it something that was never allocated, is refused.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from msgspec import structs

from fluxres.allocation import plans, steps
from fluxres.allocation.audit import check_records
from fluxres.allocation.planned import Batch
from fluxres.allocation.records import ELSEWHERE, STAGE_OWNER, Records, empty_planner
from fluxres.arrays import Int32, Int64, Mask
from fluxres.clock import FOREVER, seconds
from fluxres.errors import FluxresError, InputError, InsufficientResources, MergeConflict, StillHeld, UnknownPool
from fluxres.graph import accounts, edges, surgery
from fluxres.graph import move as moving
from fluxres.graph.correspondence import Correspondence
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import OUTSIDE, Structure
from fluxres.model import changes, targets
from fluxres.model.supply import Ends, require_drawn, require_kept
from fluxres.syntax import folded
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph
    from fluxres.syntax.jobspec import Wanted

_NAMED_MAX: Final = 32
"""Pools that a refusal names."""


def _made(graph: ResourceGraph, structure: Structure) -> ResourceGraph:
    return type(graph)(structure, name=graph.name, clock=graph._clock_given)


def copy(graph: ResourceGraph, v: int, moment: int) -> ResourceGraph:
    """What is available at and below `v`, with the path up to the root, as a new graph (rule C1)."""
    structure, planner = graph.structure, graph.planner
    _require_in_tree(structure, v, "name a pool of the containment tree")
    stop, window = structure.end.item(v), (moment, moment + 1)
    nothing = planner.covered_by(v, *window) >= 0 if structure.is_way(v) else planner.free(v, *window) == 0
    if structure.unavailable_above(v) >= 0 or nothing:
        where = structure.where(v)
        message = "nothing of it is available, so there is nothing to copy"
        raise InsufficientResources(message, where=where, hint=f"`show {where}` shows which jobs hold it")
    # A pass-through pool stays one, whatever is free below it.
    ways = structure.ways
    free = np.where(ways[v:stop], structure.size[v:stop], planner.free_slice(v, stop, *window))
    barred = structure.unavailable_roots()
    for u in barred[np.searchsorted(barred, v) : np.searchsorted(barred, stop)].tolist():
        free[u - v : structure.end.item(u) - v] = 0
    outside = None
    if structure.tree_end < structure.n:
        outside = planner.free_slice(structure.tree_end, structure.n, *window)
        for u in (np.flatnonzero(ways[structure.tree_end :]) + structure.tree_end).tolist():
            if planner.covered_by(u, *window) < 0:
                outside[u - structure.tree_end] = structure.size.item(u)
        for u in barred[np.searchsorted(barred, structure.tree_end) :].tolist():
            outside[u - structure.tree_end : structure.end.item(u) - structure.tree_end] = 0
        for partition in structure.partitions.values():  # in any state
            outside[partition.vertex - structure.tree_end] = structure.size.item(partition.vertex)

    def way_units(vertices: Int32) -> Int64:
        outage = structure.outage
        return np.array([0 if outage.is_out(u) else planner.free(u, *window) for u in vertices.tolist()], np.int64)

    def carried(edges: Int32) -> Int64:
        return np.array([planner.free(edge, *window) for edge in edges.tolist()], np.int64)

    along = partial(_along, graph) if structure.subsystems else None
    made, _ = surgery.extract(structure, v, free > 0, free, way_units=way_units, outside=outside, carried=carried, along=along)
    return _made(graph, made)


def copy_job(graph: ResourceGraph, job: str, moment: int, *, linked: bool = False, may_be_empty: bool = False) -> ResourceGraph:
    """What a job holds at a moment, as a new graph with nothing allocated.

    Args:
        may_be_empty: if it holds nothing, copy the root as a pass-through pool: a child instance may have returned everything.
        linked: copy for a child instance. The suppliers of the job's pools are copied as pass-through pools that give units on
            request, and both ends of each edge of which the job holds units are copied. Otherwise only edges between copied
            pools are copied, as in R.

    Errors: UnknownJob; InsufficientResources when it holds nothing then; UsageError for a maintenance reservation.
    """
    changes.refuse_reservation(graph, job)
    is_empty = may_be_empty and not graph.records.is_holder(job)
    size = np.zeros(graph.structure.n, np.int64) if is_empty else _units_held(graph, job, moment, linked=linked)
    if is_empty or (may_be_empty and not size.any()):
        root = np.arange(graph.structure.n) == 0
        return _made(graph, surgery.extract_many(graph.structure, size > 0, size, root)[0])
    if not size.any():
        raise InsufficientResources(
            f"job '{job}' holds nothing at this moment",
            hint="use `at`, --start on the command line, for a moment at which it does",
        )
    kept, carried = size > 0, partial(_carried, graph, job, moment)
    along = None
    if graph.structure.subsystems:
        along = _ways_of(graph, job, moment, kept) if linked else _along(graph, kept)
    made, vertices = surgery.extract_many(graph.structure, kept, size, along, carried=carried)
    if linked:
        _link(graph, made, vertices)
    return _made(graph, made)


def not_held(graph: ResourceGraph, job: str, moment: int, part: Structure) -> tuple[list[str], int]:
    """Where a copy has more than a job holds at a moment (rule N1), topmost, and the moment at which that may change by itself.

    Args:
        part: the copy, possibly changed since.

    Errors: MergeConflict if it is of another machine.
    """
    if not graph.records.is_job(job):
        return [], moment
    until = min((end for end in graph.records.ends(job) if end > moment), default=moment)
    same = Correspondence(graph.structure, part)
    held = np.where(same.to_s >= 0, _units_held(graph, job, moment, linked=False)[same.to_s], 0)
    short = part.units > held
    lacking = np.flatnonzero(short & ~np.where(part.parent >= 0, short[part.parent], False)).tolist()
    there, records = graph.structure.accounts, graph.records
    for edge in range(part.n, part.accounts.n):
        v = part.accounts.same_in(there, edge)
        if v < 0 or part.accounts.units[edge] > steps.amount_at(records.steps_of(v, job), moment):
            lacking.append(edge)
    return part.accounts.wheres(lacking), until


def held_already(graph: ResourceGraph, job: str, wanted: targets.Targets | Wanted, moment: int) -> InsufficientResources | None:
    """The refusal of whole pools of which a child instance, the job, has a part: what that is, and what to ask for instead.

    Returns: None for a request, and for pools of which the job holds nothing.
    """
    structure, records = graph.structure, graph.records
    if targets.is_request(wanted, graph) or not records.is_holder(job):
        return None
    held = {v: units for v in records.pools_of[job] if (units := steps.amount_at(records.steps_of(v, job), moment))}
    around = {u for v in held if v < structure.n for u in structure.ancestors(v)}
    named = targets.resolve(graph, cast("targets.Targets", wanted))
    already, rest, todo = list[tuple[str, str]](), list[tuple[str, str]](), named[::-1]
    while todo:
        v, amount = todo.pop()
        units, size, where = held.get(v, 0), structure.accounts.size.item(v), structure.accounts.where(v)
        above = () if v >= structure.n else structure.ancestors(v)
        if any(held.get(u) == structure.size.item(u) for u in above) or (units and amount in (None, size)):
            part = "" if units in (0, size) else f"{units} of {size} units of "
            already.append((part, where))
            rest += [(f"{size - units} units of ", where)] if part else []
        elif v in around:
            todo += [(u, None) for u in reversed(structure.children(v).tolist())]
        else:
            rest.append(("", where))
    if not already:
        return None
    hint = f"ask for the rest: {_folded(rest)}" if rest else "name pools that it does not hold"
    where = structure.accounts.where(named[0][0])
    return InsufficientResources(f"the instance holds {_folded(already)} already", where=where, hint=hint)


def _folded(found: list[tuple[str, str]]) -> str:
    """Pools in words: the units of each, if not all of it, and its name."""
    whole = [where for part, where in found[:_NAMED_MAX] if not part]
    texts = [folded.fold(whole)] * bool(whole) + [f"{part}{where}" for part, where in found[:_NAMED_MAX] if part]
    return ", ".join(texts) + (f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else "")


def copy_ways(graph: ResourceGraph, job: str, moment: int, gone: Mask) -> ResourceGraph | None:
    """The pools that a job freed and that a copy of the rest, for a child instance, needs as pass-through pools.

    Args:
        gone: bool over all pools: those that the job freed.

    Returns: a graph of them, or None. Their edges carry the units that the job holds of these edges; nothing else has units.
    """
    structure = graph.structure
    if not structure.subsystems or not graph.records.is_holder(job):
        return None
    kept = _units_held(graph, job, moment, linked=True) > 0
    ways = _ways_of(graph, job, moment, kept)
    again = ways & gone
    if not again.any():
        return None
    near = again.copy()
    for each in structure.subsystems.values():
        near[each.src[again[each.dst]]] = near[each.dst[again[each.src]]] = True
    near &= kept | ways

    def carried(edges: Int32) -> Int64:
        ends = np.array([structure.accounts.edge(edge)[1:] for edge in edges.tolist()], np.int64).reshape(-1, 2)
        return np.where(again[ends].any(axis=1), _carried(graph, job, moment, edges), 0)

    made, vertices = surgery.extract_many(structure, np.zeros(structure.n, np.bool_), None, near, carried=carried)
    _link(graph, made, vertices)
    return _made(graph, made)


def _units_held(graph: ResourceGraph, job: str, moment: int, *, linked: bool) -> Int64:
    """By pool, the units that a job holds at a moment, recorded or implied.

    Args:
        linked: for a child instance. Below a supplier that the job draws completely, the child gets only what the job draws
            there: the rest would no longer be its own once its parent gets more of that supplier.
    """
    structure, records = graph.structure, graph.records
    size = np.zeros(structure.n, np.int64)
    distributed = _distributed(graph) if linked and structure.subsystems else frozenset()
    for v in sorted(v for v in records.require_job(job) if v < structure.n):
        amount = steps.amount_at(records.held[v][job], moment)
        if amount == structure.size.item(v):
            size[v : structure.end.item(v)] = structure.size[v : structure.end.item(v)]
            drawn = structure.type.item(v) in distributed and _is_drawn(records, job, v, [(moment, moment + 1)])
            _count_below(records, job, v, moment, size, all_below=drawn)
        elif amount:
            size[v] = amount
    return size


def _carried(graph: ResourceGraph, job: str, moment: int, edges: Int32) -> Int64:
    """The units that a job holds of some edges at a moment."""
    held = graph.records.steps_of
    return np.array([steps.amount_at(held(edge, job), moment) for edge in edges.tolist()], np.int64)


def _ways_of(graph: ResourceGraph, job: str, moment: int, kept: Mask) -> Mask:
    """The pass-through pools that a copy of a part needs: its suppliers, and the ends of the edges of which the job holds units.

    Args:
        kept: the part, bool over all pools.
    """
    records, ends = graph.records, kept.copy()
    for edge in records.require_job(job):
        if records.accounts.is_edge(edge) and steps.amount_at(records.steps_of(edge, job), moment):
            ends[list(records.accounts.edge(edge)[1:])] = True
    return (ends | _along(graph, ends)) & ~kept


def _link(graph: ResourceGraph, made: Structure, vertices: Int32) -> None:
    """Mark in the copy for a child instance what its parent gives on request, and the types that its parent counts (rule N1).

    Args:
        vertices: the pools of the graph that were copied.
    """
    made.linked = ((made.flags & WAY) != 0) & np.isin(graph.structure.type[vertices], list(_distributed(graph)))
    made.counts = frozenset(
        (feeds.graph.name, graph.structure.types[kind]) for feeds in graph.structure.feeds for kind in feeds.counted
    )
    accounts.link(made, (graph.structure, vertices))


def _count_below(records: Records, job: str, v: int, moment: int, size: Int64, *, all_below: bool) -> None:
    """Below a pool held exclusively, reduce what the parent instance gives on request to what the job drew (rule N1).

    Args:
        all_below: reduce everything below it in this way.
    """
    structure, implied = records.structure, records.implied.get(job, {})
    below = slice(v + 1, structure.end.item(v))
    if all_below:
        only = np.arange(below.start, below.stop)
    elif structure.linked is not None:
        only = np.flatnonzero(structure.linked[below]) + below.start
    else:
        return
    for u in only.tolist():
        size[u] = steps.amount_at(implied.get(u, ()), moment)


def _along(graph: ResourceGraph, kept: Mask) -> Mask:
    """The pools of auxiliary graphs that a part needs so that its draws are charged along the same paths."""
    return graph.matcher.typology.paths.along(kept)


def _distributed(graph: ResourceGraph) -> frozenset[int]:
    """Numbers of the types that auxiliary graphs distribute, and of the graphs themselves."""
    return graph.matcher.typology.paths.channels


def duplicate(graph: ResourceGraph, v: int = 0) -> ResourceGraph:
    """Everything at and below `v`, unchanged, sharing nothing with the graph."""
    if v:
        return _subtree(graph, v)
    made = _made(graph, surgery.duplicate(surgery.by_itself(graph.structure)))
    made.records.carry_over_all(graph.records)
    return made


def _require_in_tree(structure: Structure, v: int, hint: str) -> None:
    if v >= structure.tree_end:
        raise UnknownPool("is not in the containment tree", where=structure.where(v), hint=hint)


def _subtree(graph: ResourceGraph, v: int) -> ResourceGraph:
    """A pool and everything below it as a new graph, with the records there."""
    structure, records = surgery.by_itself(graph.structure), graph.records
    _require_in_tree(structure, v, "name a pool of the containment tree, or duplicate the whole graph")
    part, vertices = surgery.extract(
        structure, v, take_ancestors=False, along=partial(_along, graph) if structure.subsystems else None
    )
    made = type(graph)(part, clock=graph._clock_given)
    size, stop = part.size.item(0), structure.end.item(v)
    inside = {job: all(v <= u < stop for u in records.pools_of[job]) for job in records.slots_of}
    with part.lifted():
        for owner in records.pools_of:
            # The owner of an exclusive pool above holds everything here, too.
            whole = steps.inside(0, FOREVER, records.exclusive_above(v, owner, 0, FOREVER))
            if whole and owner.startswith(STAGE_OWNER):
                staged = records.stages[owner.removeprefix(STAGE_OWNER)]
                made.records.stages[staged.stage] = structs.replace(
                    staged, targets=((0, size),), drawn=(), apart=(), relied_on=()
                )
            # The owner's units of the top itself are taken below, with the other implied units.
            had = records.implied.get(owner, {}).get(v, ())
            for s, e, units in steps.excess(tuple((s, e, size) for s, e in whole), had):
                made.records.allocate(plans.allocate(made.records, [(0, units)], owner, s, e), owner, s, e)
    # A reservation of a pool above is one of everything here.
    above = set(records.accounts.ancestors(v))
    for name, one in records.reservations.items():
        if not above.isdisjoint(one.out):
            made.records.reservations[name] = structs.replace(one, pools=(0,), affected=())
    # Suppliers are copied as ways; what is held of them is not held here.
    old_to_new = np.full(structure.n, -1, np.int32)
    old_to_new[vertices[: part.tree_end]] = np.arange(part.tree_end, dtype=np.int32)
    made.records.carry_over(records, old_to_new)
    made.records.pools_of = {owner: made.records.pools_of[owner] for owner in records.pools_of if made.records.is_holder(owner)}
    made.records.slots_of = {job: slots for job, slots in records.slots_of.items() if inside[job]}
    return made


def taken(structure: Structure, own: Records, numbers: Int32) -> Records:
    """The records of the next generation of a graph.

    Args:
        own: those of the present one.
        numbers: new numbers of the pools, by old number.
    """
    records = Records(structure, empty_planner(structure))
    records.carry_over(own, numbers)
    return records


def merge(graph: ResourceGraph, other: ResourceGraph, at: str | None, now: int | None = None) -> None:
    """Add another graph; `now` is as for :func:`changes.next_records`."""
    if now is None:
        changes.expire_stages(graph)
    if other.records.stages:
        raise MergeConflict("the other graph has staged pools", hint="commit or release its stages first")
    at = None if at is None else targets.spelled_out(graph.structure, at)
    structure, from_own, from_other = surgery.merge(graph.structure, other.structure, at)
    _require_partitions(structure)
    _carry_from_parent(structure, (graph.structure, from_own), (other.structure, from_other))

    def make(own: Records, theirs: Records) -> Records:
        return _joined(graph, structure, (own, from_own), (theirs, from_other))

    try:
        records = changes.next_records(graph, lambda own: make(own, other.records), now)
    except FluxresError as error:
        now = graph.now() if now is None else now
        try:
            make(changes.lasting(graph, now), changes.lasting(other, now))
        except FluxresError:
            raise error from None
        raise _over_in(other, error, now) from None
    changes.tell_now(
        graph,
        {"event": "merge", "at": at, "root": other.structure.path(0), "added": structure.n - graph.structure.n, "graph": other},
    )
    graph.restructure(structure, records, from_own)


def _require_partitions(structure: Structure) -> None:
    """Refuse a merge after which a name would mean two partitions; of two default ones, that of the first machine stays it."""
    try:
        structure.partitions  # noqa: B018 - found when they are first needed
    except InputError as error:
        raise MergeConflict(error.message, where=error.where, hint="rename one of them where it is described") from None


def _joined(graph: ResourceGraph, structure: Structure, *parts: tuple[Records, Int32]) -> Records:
    """The records of both sides of a merge."""
    _require_fit(structure, *parts)
    (own, from_own), (theirs, from_theirs) = parts
    records = taken(structure, own, from_own)
    records.carry_over(theirs, from_theirs)
    for part, numbers in parts:
        _require_whole(part, records, numbers)
        _require_recorded(part, records, numbers)
    _require_consistent(records, "the records of the two do not fit together")
    return records


def _require_consistent(records: Records, said: str) -> None:
    """Refuse records of the next generation that break a rule. Errors: MergeConflict."""
    problems = check_records(records)
    if problems:
        raise MergeConflict(f"{said}: {problems[0].message}", where=problems[0].where)


def _over_in(other: ResourceGraph, error: FluxresError, now: int) -> MergeConflict:
    """The refusal if only ended records of the other graph are in the way: a merge does not change that graph (rule T2)."""
    accounts = other.structure.accounts
    ended = [
        (end, u, job)
        for job, pieces in other.records.ended(now)
        for u, _, _, end in (pieces.pieces() if isinstance(pieces, Batch) else pieces)
    ]
    try:
        v = accounts.number(error.where)
    except FluxresError:  # the pool has another name there
        near = []
    else:
        near = [each for each in ended if each[1] < accounts.end.item(v) and v < accounts.end.item(each[1])]
    until, u, job = max(near or ended)
    held = f"{job} held {accounts.where(u)} until {in_message(seconds(until))}"
    return MergeConflict(
        f"in the other graph {held}, and that is in the way: {error.message}",
        where=error.where,
        hint=f"expire({seconds(until)}) of the other graph drops it, `free --ended` on the command line",
    )


def _require_recorded(part: Records, records: Records, numbers: Int32) -> None:
    """Refuse if a job holds a pool in one graph and, exclusively, a pool above it in the other: it would hold it twice."""
    numbers = part.accounts.renumbered(records.accounts, numbers)
    for owner, pools in records.implied.items():
        for v in part.pools_of.get(owner, ()):
            implied = pools.get(int(numbers[v]), ()) if numbers[v] >= 0 else ()
            if steps.overlap(implied, part.steps_of(v, owner)):
                message = f"'{part.job_behind(owner)}' holds it in one of the two, and in the other one a pool around it"
                raise MergeConflict(message, where=records.accounts.where(int(numbers[v])), hint="free one of them first")


def _carry_from_parent(structure: Structure, *parts: tuple[Structure, Int32]) -> None:
    """Carry over which suppliers a child instance shares (unless it has its own units there) and the types its parent counts."""
    structure.counts = frozenset().union(*(part.counts for part, _ in parts))
    if all(part.linked is None for part, _ in parts):
        return
    linked = np.zeros(structure.n, np.bool_)
    for part, numbers in parts:
        if part.linked is not None:
            linked[numbers[part.linked & (numbers >= 0)]] = True
    structure.linked = linked & ((structure.flags & WAY) != 0)


def _require_fit(structure: Structure, *parts: tuple[Records, Int32]) -> None:
    """Refuse if the records of both sides together exceed the size of a pool that both have."""
    total: dict[int, steps.Steps] = {}
    for records, pools in parts:
        old_to_new = records.accounts.renumbered(structure.accounts, pools)
        for v, holders in records.held.items():
            new = int(old_to_new[v])
            for held in holders.values():
                for start, end, amount in held:
                    total[new] = steps.add(total.get(new, ()), start, end, amount)
    for new, spans in total.items():
        most = max(amount for _, _, amount in spans)
        if new >= 0 and most > structure.accounts.size.item(new):
            raise MergeConflict(
                f"jobs of both hold {most} units of it together, but it has {structure.accounts.size.item(new)}",
                where=structure.accounts.where(new),
                hint="free some of it first",
            )


def _require_whole(before: Records, after: Records, old_to_new: Int32) -> None:
    """Refuse if a pool held exclusively, and with it everything below, would no longer be held exclusively.

    A supplier that was drawn completely, for pools or by a child instance, is an exception: what was drawn below it is recorded.
    """
    size, end = before.accounts.size, before.accounts.end
    for v, holders in before.held.items():
        if end.item(v) == v + 1 or after.structure.size.item(int(old_to_new[v])) == size.item(v):
            continue
        for owner, held in holders.items():
            windows = steps.whole(held, 0, FOREVER, 0, size.item(v))
            if windows and not (_is_supplier(before.structure, v) and _is_drawn(before, owner, v, windows)):
                raise MergeConflict(
                    f"held exclusively by {before.job_behind(owner)}, and would grow from {size.item(v)} to "
                    f"{after.structure.size.item(int(old_to_new[v]))} units",
                    where=before.structure.where(v),
                    hint="free it first",
                )


def _is_supplier(structure: Structure, v: int) -> bool:
    return any(structure.type.item(v) in feeds.types for feeds in structure.feeds)


def _is_drawn(records: Records, owner: str, v: int, windows: list[tuple[int, int]]) -> bool:
    """Whether all units of a pool that a job holds exclusively in these windows were drawn, or come from the pools below it."""
    size, implied = records.accounts.size.item(v), records.implied.get(owner, {})
    below = steps.joined([implied.get(u, ()) for u in records.structure.children(v).tolist()])
    full = [each for held in (records.drawn.total(owner, v), below) for each in steps.whole(held, 0, FOREVER, 0, size)]
    return not any(steps.without(start, end, full) for start, end in windows)


def unlink(graph: ResourceGraph, where: targets.Where, hierarchy: str | None) -> None:
    """Remove a pool and everything below it from a hierarchy."""
    changes.expire_stages(graph)
    if isinstance(where, str):
        where = targets.spelled_out(graph.structure, where)
    v = targets.vertex(graph, where)
    if hierarchy is None and isinstance(where, str) and ":/" in where:
        named = where.partition(":/")[0]
        hierarchy = None if named in (graph.structure.hierarchy, OUTSIDE) else named
    structure, old_to_new = surgery.unlink(graph.structure, v, hierarchy)
    _carry_from_parent(structure, (graph.structure, old_to_new))

    def make(own: Records) -> Records:
        _require_free(own, structure, old_to_new, v)
        require_kept(own, structure, old_to_new)
        return taken(structure, own, old_to_new)

    records = changes.next_records(graph, make)
    changes.tell_now(
        graph,
        {"event": "unlink", "pool": graph.structure.where(v), "hierarchy": hierarchy, "removed": int((old_to_new < 0).sum())},
    )
    graph.restructure(structure, records, old_to_new)


def remove(graph: ResourceGraph, v: int, now: int) -> None:
    """Remove a pool and everything below it from every hierarchy; the pools above it become pass-through pools.

    Errors: StillHeld when a job holds something there; UsageError for the root and for pools outside the containment tree.
    """
    above = graph.structure.ancestors(v)
    structure, old_to_new = surgery.remove(graph.structure, v)
    structure.flags[old_to_new[above]] |= WAY
    _carry_from_parent(structure, (graph.structure, old_to_new))

    def make(own: Records) -> Records:
        _require_free(own, structure, old_to_new, v)
        return taken(structure, own, old_to_new)

    _give_way(graph, above, now)
    records = changes.next_records(graph, make, now)
    where = graph.structure.where(v)
    changes.tell_now(graph, {"event": "unlink", "pool": where, "hierarchy": None, "removed": int((old_to_new < 0).sum())})
    graph.restructure(structure, records, old_to_new)


def _give_way(graph: ResourceGraph, changed: Container[int], now: int) -> None:
    """Drop ended records if the graph is about to lose units of some accounts (rule T2)."""
    if changes.is_over(graph.records, changed, now):
        changes.expire_all(graph, now)


def require_removable(graph: ResourceGraph, v: int, waiting: Container[str], now: int) -> None:
    """Refuse to remove a pool if a job holds anything of it now or later, or draws through an edge that would be removed with it.

    Args:
        waiting: jobs whose reservations do not count.

    Errors: StillHeld; UsageError as `remove`.
    """
    before, records = graph.structure, graph.records
    after, old_to_new = surgery.remove(before, v)
    new = before.accounts.renumbered(after.accounts, old_to_new)
    above = set(before.ancestors(v))
    for u in sorted(records.held):
        if new.item(u) >= 0 and u not in above:
            continue
        for owner, held in records.held[u].items():
            if owner == ELSEWHERE or owner in waiting or held[-1][1] <= now:
                continue
            if u not in above or steps.whole(held, now, FOREVER, 0, before.size.item(u)):
                raise _still_held(records, v, u, owner)


def leave(graph: ResourceGraph, left: Mapping[int, tuple[int, int]], now: int) -> None:
    """Reduce the units that a child instance has of some suppliers; where it has none left, its parent gives units on request.

    Args:
        left: by account, the units that remain (at least those held), and the units that the parent has.
    """
    before = graph.structure
    structure = surgery.duplicate(before)
    linked = np.zeros(structure.n, np.bool_) if structure.linked is None else structure.linked
    for v, (units, of_parent) in left.items():
        if v < before.n:
            structure.size[v] = units or of_parent
            structure.capacity[v] = max(before.capacity.get(v, before.size.item(v)), structure.size.item(v))
            structure.flags[v] |= 0 if units else WAY
            linked[v] |= not units

    def carried(edges: Int32) -> Int64:
        return np.array([left[edge][0] if edge in left else before.accounts.size.item(edge) for edge in edges.tolist()], np.int64)

    for name, of_graph in before.subsystems.items():
        made = structure.subsystems[name] = accounts.cut(before.accounts, of_graph, np.arange(len(of_graph)), carried)
        numbers = before.accounts.between(of_graph, of_graph.src, of_graph.dst)
        if lent := {v: of_parent for v, (units, of_parent) in left.items() if not units and v in numbers}:
            accounts.lend(made, numbers, lent)
    structure.linked = linked if linked.any() else None
    size, end = before.accounts.size, before.accounts.end
    _give_way(graph, {v for v, units in left.items() if (units[0] or units[1]) < size.item(v) or end.item(v) > v + 1}, now)
    same = np.arange(before.n, dtype=np.int32)
    graph.restructure(structure, taken(structure, graph.records, same), same)


def limit(graph: ResourceGraph, carried: Mapping[Ends, int | None]) -> None:
    """Set edges of which a child instance has no units to the capacity that they now have in its parent.

    Args:
        carried: units; None for an edge without a limit.
    """
    before = graph.structure
    structure = surgery.duplicate(before)
    for name, of_graph in before.subsystems.items():
        numbers = np.full(len(of_graph), -1, np.int32)
        lifted, units = np.zeros(len(of_graph), np.bool_), dict[int, int]()
        for number, (ends, capacity) in enumerate(carried.items()):
            if ends[0] == name:
                rows = edges.rows_between(of_graph, *ends[1:])
                if capacity is None:
                    lifted[rows] = True
                else:
                    numbers[rows], units[number] = number, capacity
        made = structure.subsystems[name] = replace(of_graph, attributes=dict(of_graph.attributes))
        accounts.lift(made, np.flatnonzero(lifted))
        if units:
            accounts.lend(made, numbers, units)
    same = np.arange(before.n, dtype=np.int32)
    graph.restructure(structure, taken(structure, graph.records, same), same)


def move(graph: ResourceGraph, where: targets.Where, to: targets.Where) -> None:
    """Move a pool and everything below it to another place."""
    changes.expire_stages(graph)
    before, v = graph.structure, targets.vertex(graph, where)
    if isinstance(to, str):
        to = targets.spelled_out(before, to)
    hierarchy = to.partition(":/")[0] if isinstance(to, str) and ":/" in to and not to.startswith("/") else before.hierarchy
    event = {
        "event": "move",
        "pool": before.where(v),
        "to": to if isinstance(to, str) else before.where(targets.vertex(graph, to)),
    }
    if hierarchy != before.hierarchy and hierarchy in before.subsystems:
        # Only edges change, and the accounts of edges with a capacity.
        subsystem, parent = before.subsystem(hierarchy), targets.vertex(graph, to)
        before.forest(hierarchy)  # refuses a graph that is not a hierarchy
        structure = moving.within_hierarchy(before, subsystem, v, parent)
        old_to_new = np.arange(before.n, dtype=np.int32)
        edges = [(hierarchy, above, v) for above in (subsystem.parent(v), parent) if above >= 0]
        require = partial(require_drawn, after=structure, between=edges)
    else:
        place = moving.destination(before, v, to) if isinstance(to, str) else moving.Destination(targets.vertex(graph, to))
        structure, old_to_new = moving.within_tree(before, v, place)
        require = partial(_require_nothing_held, v=v, parent=place.parent)

    def make(own: Records) -> Records:
        require(own)
        records = taken(structure, own, old_to_new)
        _require_consistent(records, "what is held does not fit there")
        return records

    records = changes.next_records(graph, make)
    changes.tell_now(graph, event)
    graph.restructure(structure, records, old_to_new)


def _require_nothing_held(records: Records, v: int, parent: int) -> None:
    """Refuse to move a pool of which a job holds anything, and to move a pool into one that a job holds exclusively."""
    structure = records.structure
    above = records.planner.covered_by(v, 0, FOREVER)
    if above >= 0:
        raise _still_held(records, v, above)
    for u in range(v, structure.end.item(v)) if records.held else ():
        if records.held.get(u):
            raise _still_held(records, v, u)
    for u in (parent, *structure.ancestors(parent)):
        for owner, held in records.held.get(u, {}).items():
            if steps.whole(held, 0, FOREVER, 0, structure.size.item(u)):
                raise StillHeld(
                    f"{records.said(owner)} holds it exclusively, and would get {structure.where(v)}",
                    where=structure.where(u),
                    hint=_release(records, owner),
                )


def _require_free(records: Records, after: Structure, old_to_new: Int32, top: int) -> None:
    """Refuse if a job would lose a pool: one with records, or one that an exclusive pool above implies."""
    before = records.structure
    gone = old_to_new < 0
    leaving = gone | ((before.parent >= 0) & (after.parent[old_to_new] < 0))
    for v in np.flatnonzero(leaving & ~leaving[before.parent] & (before.parent >= 0)).tolist():
        above = records.planner.covered_by(v, 0, FOREVER)
        if above >= 0:
            raise _still_held(records, top, above)
    for v in records.held:
        if v < before.n and leaving[v]:
            raise _still_held(records, top, v)


def _still_held(records: Records, top: int, v: int, owner: str | None = None) -> StillHeld:
    """The error for a pool that cannot leave its place: an owner (any by default) holds `v`, which is it, around it or in it."""
    holders, size = records.held[v], records.accounts.size.item(v)
    owner = owner or next((one for one in holders if steps.whole(holders[one], 0, FOREVER, 0, size)), next(iter(holders)))
    message = f"{records.said(owner)} holds {records.accounts.where(v)}"
    return StillHeld(message, where=records.structure.where(top), hint=_release(records, owner))


def _release(records: Records, owner: str) -> str:
    return f"`reserve --remove {owner}` removes it" if owner in records.reservations else "free it first"

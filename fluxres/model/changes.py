"""Changes of the records, on vertices and ticks: plan, emit the event, apply.

The order matters: a refused change emits no event and changes nothing, and once the event is out, applying it cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import structs

from fluxres.allocation import plans, reserved, steps, together
from fluxres.allocation.chosen import Chosen
from fluxres.allocation.drawn import NO_ROWS, Rows, implicit
from fluxres.allocation.facts import JobFacts
from fluxres.allocation.planned import Batch, Change, Piece, Staged, Window
from fluxres.allocation.plans import Implies
from fluxres.allocation.records import ELSEWHERE, STAGE_OWNER, Records, empty_planner
from fluxres.allocation.together import Share
from fluxres.arrays import Int32
from fluxres.clock import FOREVER, Length, positive_ticks, seconds
from fluxres.errors import FluxresError, NothingHeld, StaleHandle, UsageError
from fluxres.model import events, extending, supply, targets
from fluxres.model.values import Allocation, Stage, columns
from fluxres.syntax.moment import in_message, to_the_second

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.match import Placement
    from fluxres.model.resource_graph import ResourceGraph


def tell(graph: ResourceGraph, event: Callable[[], events.Event], pools: int = 1) -> None:
    """Send the event of a change that is about to be made to the sink, if the graph has one.

    Args:
        event: creates the event.
        pools: number of pools that the event names.
    """
    # Naming every pool by its path takes longer than the change itself, so the event is created only for a sink, and only when
    # the sink wants it.  Until then it keeps the structure that its vertex numbers refer to.
    sink = graph.sink
    if sink is None:
        return
    if isinstance(sink, events.PatientSink):
        sink.later(event, pools)
    else:
        sink(event())


def tell_now(graph: ResourceGraph, event: events.Event) -> None:
    """Send an event to the sink now: the change is about to replace the structure that its vertex numbers refer to."""
    if graph.sink is not None:
        graph.sink(event)


def require_room(graph: ResourceGraph, *planned: tuple[Batch | Sequence[Change], Window]) -> None:
    """Refuse, before the event is emitted, what would exceed the bounds of the planner afterwards, or has lost its parent.

    Args:
        planned: plans of allocations, each with its window.

    Errors: LimitExceeded; StaleHandle for units of the parent of a child instance that has ended.
    """
    upstream = graph.records.upstream
    if upstream is not None and upstream.is_closed:
        upstream.require_open(v for changed, _ in planned for v in _vertices(changed))
    number = 0
    for changed, _ in planned:
        if isinstance(changed, Batch):
            number += len(changed.vertices)
            continue
        for change in changed:
            number += 1 + len(change.absorbs) + len(change.implied)
    if graph.planner.has_room(number):
        return
    windows: dict[Window, list[int]] = {}
    for changed, window in planned:
        if isinstance(changed, Batch):
            windows.setdefault(window, []).extend(changed.vertices.tolist())
            continue
        for change in changed:
            windows.setdefault(window, []).append(change.v)
            for v, start, end in (*change.absorbs, *((change.v, *implied) for implied in change.implied)):
                windows.setdefault((start, end), []).append(v)
    graph.planner.require_room(windows)


def _vertices(changed: Batch | Sequence[Change]) -> list[int]:
    return changed.vertices.tolist() if isinstance(changed, Batch) else [change.v for change in changed]


def require_end(graph: ResourceGraph, window: Window) -> None:
    """Refuse an allocation that begins later and has no end (RFC 16), and one whose window is already over.

    Errors: UsageError.
    """
    (start, end), now = window, graph.now()
    begins, ends, present = (to_the_second(seconds(tick)) for tick in (start, end, now))
    if end >= FOREVER and start > now:
        message = f"the allocation begins at {begins}, later than now ({present}), and has no end"
        raise UsageError(message, hint="give an end or a duration")
    if end <= now:
        raise UsageError(f"the window ends at {ends}, which is not after now ({present})", hint="give a later end")


def require_picks(found: Placement) -> None:
    """Refuse to allocate a match without pools to record."""
    if not len(found.vertices):
        raise nothing_recorded()


def nothing_recorded() -> NothingHeld:
    """For a request whose matches have no pools to record."""
    return NothingHeld(
        "the request only asks for shared pools, for which nothing is recorded",
        hint="put them in a slot, such as slot/node, or ask for them exclusively, such as node{x}",
    )


def allocate(graph: ResourceGraph, job: str, named: supply.Named, window: Window, facts: JobFacts | None = None) -> Allocation:
    """Allocate pools to a job, together with the units that they draw from their suppliers."""
    drawn = NO_ROWS
    if graph.structure.kinds.may_draw:
        parts = supply.by_window(graph, named, window, job)
        if len(parts) > 1:
            return _allocate_by_window(graph, job, parts, facts)
        ((window, named, drawn),) = parts
    _give(graph, job, named, window, drawn, implicit(named, drawn), is_routed=False, facts=facts)
    return Allocation(graph, job, named, window)


def _give(
    graph: ResourceGraph,
    job: str,
    named: supply.Named,
    window: Window,
    drawn: Rows,
    implies: Implies,
    *,
    is_routed: bool | None = None,
    facts: JobFacts | None = None,
) -> None:
    start, end = window
    facts = _facts_of(graph, job, facts)
    refuse_reservation(graph, job)
    with supply.NamingConsumers(graph, drawn):
        planned = plans.allocate(graph.records, named, job, start, end, implies=implies)
    require_room(graph, (planned, window))
    structure = graph.structure
    tell(graph, lambda: events.allocate(structure, job, named, start, end, drawn=drawn, facts=facts), len(named))
    graph.records.allocate(planned, job, start, end, drawn=drawn, is_routed=is_routed)
    if facts is not None:
        graph.records.note_facts(job, facts)
    graph.revision += 1


def _allocate_by_window(graph: ResourceGraph, job: str, parts: Sequence[supply.WindowPart], facts: JobFacts | None) -> Allocation:
    """Allocate pools over consecutive windows in which they draw different units: over all of the windows, or none."""
    structure = graph.structure
    shares = [
        Share(
            f"from {in_message(seconds(start))} on",
            job,
            named,
            start,
            end,
            implies=implicit(named, drawn),
            drawn=drawn,
            is_routed=False,
            facts=facts,
        )
        for (start, end), named, drawn in parts
    ]
    pools = sum(len(share.targets) for share in shares)
    together.grant(graph.records, shares, lambda: tell(graph, lambda: events.allocate_all(structure, shares), pools))
    graph.revision += 1
    return Allocation.of_windows(graph, job, [(window, named) for window, named, _ in parts])


def allocate_more(
    graph: ResourceGraph,
    job: str,
    named: list[tuple[int, int]],
    window: Window,
    drawn: Rows = NO_ROWS,
    *,
    is_routed: bool | None = None,
) -> None:
    """Allocate units of pools to a job whose exclusive pools may imply some of them.

    Args:
        drawn: the pools for which parts of it are drawn.
        is_routed: as for `Records.allocate`.
    """
    _give(graph, job, named, window, drawn, implies=True, is_routed=is_routed)


def commit_match(
    graph: ResourceGraph, found: Placement, job: str, *, is_moved: bool = False, facts: JobFacts | None = None
) -> Allocation:
    """As `record_match`, and return the allocation."""
    chosen = record_match(graph, found, job, is_moved=is_moved, facts=facts)
    window = found.start, found.end
    return Allocation(
        graph, job, (found.vertices, found.amounts), window, found.nslots, found.implied, picked=found.picked, chosen=chosen
    )


def record_match(
    graph: ResourceGraph, found: Placement, job: str, *, is_moved: bool = False, facts: JobFacts | None = None
) -> Chosen | None:
    """Allocate a placement to a job that the matcher found on the present state.

    Args:
        is_moved: the placement was found on an earlier state of the same structure, or for another window: check it again.

    Returns: the order of the pools of a request for amounts.
    Errors: InsufficientResources, InfeasibleRequest if it is no longer free; nothing changes then.
    """
    window, structure, slots = (found.start, found.end), graph.structure, found.nslots
    chosen = None if found.variant is None else Chosen(found.order, found.variant)
    planned: Batch | list[Change]
    facts = _facts_of(graph, job, facts)
    if graph.records.reservations:
        refuse_reservation(graph, job)
    if is_moved:
        pools = zip(found.vertices.tolist(), found.amounts.tolist(), strict=True)
        planned = plans.allocate(graph.records, [*pools, *found.implied], job, *window, implies=True)
    else:
        planned = plans.match(graph.records, found.vertices, found.amounts, found.implied, job, *window)
    require_room(graph, (planned, window))
    if graph.sink is not None:
        tell(
            graph,
            lambda: events.allocate(structure, job, found.targets, *window, slots, found.drawn, facts, chosen),
            len(found.vertices),
        )
    graph.records.allocate(planned, job, *window, slots, found.drawn, is_routed=found.is_routed)
    if facts is not None:
        graph.records.note_facts(job, facts)
    if chosen is not None:
        graph.records.note_chosen(job, chosen)
    graph.revision += 1
    return chosen


def _facts_of(graph: ResourceGraph, job: str, given: JobFacts | None) -> JobFacts | None:
    """What a job is known by that gets something: what is given, else, for a new job, what its instance knows."""
    if given is not None or graph.facts_of_instance is None or graph.records.is_holder(job):
        return given
    facts_of = graph.facts_of_instance()
    return None if facts_of is None else facts_of(job)


def free(
    graph: ResourceGraph,
    job: str,
    named: list[tuple[int, int | None]] | None,
    start: int | None,
    end: int | None,
    slots: int = 0,
    reason: str = "",
    status: int | None = None,
) -> Batch | list[Piece]:
    """Free what a job holds, and return what was freed.

    Args:
        named: vertices with amounts, where None means all units that the job holds; None for everything.
        start, end: window in ticks; None for no bound.
        slots: number of slots freed, if a request selected the pools.
        reason: why, if the job did not free them itself.
        status: exit status of the program, if the job was one that has ended.
    """
    refuse_reservation(graph, job)
    pieces = plans.free(graph.records, job, named, start, end)
    structure = graph.structure
    tell(graph, lambda: events.free(structure, job, named, start, end, slots, reason=reason, status=status), len(named or ()))
    graph.records.free(pieces, job, slots)
    graph.revision += 1
    refill(graph)
    return pieces


def refill(graph: ResourceGraph) -> None:
    """Let the reservations that ignore jobs take what has been given back."""
    if not graph.records.reservations:
        return
    now, structure = graph.now(), graph.structure
    for name, reservation in list(graph.records.reservations.items()):
        held = reserved.left_of(graph.records, name, reservation, now).held if reservation.ignores_jobs else []
        for one in held:
            start, end, pools = one
            planned = reserved.plan(graph.records, name, [one])
            tell(graph, partial(events.allocate, structure, name, pools, start, end), len(pools))
            reserved.hold(graph.records, name, planned)
            graph.revision += 1


def refuse_reservation(graph: ResourceGraph, job: object) -> None:
    """Refuse to change a reservation as if it were a job.

    Errors: UsageError.
    """
    if isinstance(job, str) and job in graph.records.reservations:
        raise UsageError(f"'{job}' is a maintenance reservation, not a job", hint=f"`reserve --remove {job}` removes it")


def free_pieces(graph: ResourceGraph, job: str, pieces: list[Piece]) -> None:
    """Free pieces that a job is known to hold, recorded or implied: one change per window."""
    structure = graph.structure
    windows: dict[Window, list[tuple[int, int | None]]] = {}
    for v, amount, *window in pieces:
        windows.setdefault((window[0], window[1]), []).append((v, amount))
    for (start, end), named in windows.items():
        planned = plans.free(graph.records, job, named, start, end, implied=True)
        tell(graph, partial(events.free, structure, job, named, start, end, implied=True), len(named))
        graph.records.free(planned, job)
        graph.revision += 1
    refill(graph)


def set_end(graph: ResourceGraph, job: str, until: int, now: int) -> None:
    """Move the end of what a job holds; what has ended by now stays as it is."""
    refuse_reservation(graph, job)
    move = extending.plan(graph, job, until, now)
    if move.longer or move.shorter:
        require_room(graph, *(planned for planned, _ in move.longer))
        tell(graph, lambda: events.set_end(job, now, until))
        move.apply(graph.records, job)
        graph.revision += 1
        refill(graph)


def renew(graph: ResourceGraph, job: str, lease: int) -> None:
    """Renew the lease of a job that lives by its processes."""
    tell(graph, lambda: events.renew(job, lease))
    graph.records.renew(job, lease)
    graph.revision += 1


class Keeper(Protocol):
    """A scheduler on the graph, which knows the jobs that are still running although their records have ended."""

    def keep_ended(self, before: int) -> None:
        """Remember the records that ended by a moment: they are about to be dropped."""

    def renumber(self, before: Structure, old_to_new: Int32 | None) -> None:
        """Follow the graph into the next generation; its pools had other numbers before, which are found by uuid if not given."""


def expire(graph: ResourceGraph, before: int) -> list[str]:
    """Drop the records that ended by a moment, and return the jobs concerned."""
    ended = graph.records.ended(before)
    if ended:
        for keeper in list(graph.keepers):
            keeper.keep_ended(before)
        tell(graph, lambda: events.expire(before))
        for job, pieces in ended:
            graph.records.free(pieces, job)
        graph.records.forget_reservations(before)
        graph.revision += 1
    return [job for job, _ in ended]


def stage(
    graph: ResourceGraph,
    job: str,
    named: list[tuple[int, int]],
    window: Window,
    ttl_s: Length,
    nslots: int = 0,
    drawn: Rows = NO_ROWS,
    *,
    implies: Implies = False,
    variant: int | None = None,
) -> Stage:
    """Lock pools for a job."""
    expires = _expires(graph, job, window, ttl_s)
    rows = tuple((pool, account, units) for pool, account, units in drawn.tolist())
    staged = Staged(graph.new_stage_id(), job, tuple(named), *window, expires, nslots, rows, variant=variant)
    return _stage(graph, staged, drawn, implies)


def stage_by_window(graph: ResourceGraph, job: str, named: supply.Named, window: Window, ttl_s: Length) -> Stage:
    """Lock pools for a job, together with the units that they draw, except those that the job draws already."""
    expires = _expires(graph, job, window, ttl_s)
    plans.require_units(graph.records, named)
    parts = supply.by_window(graph, named, window, job)
    relied_on = tuple(supply.drawn_already(graph, named, window, job))
    rows = tuple((start, end, *row) for (start, end), _, drawn in parts for row in drawn.tolist())
    most: dict[int, int] = {}
    for _, charged, _ in parts:
        vertices, amounts = columns(charged)
        for v, amount in zip(vertices.tolist(), amounts.tolist(), strict=True):
            most[v] = max(most.get(v, 0), amount)
    drawn = np.concatenate([of_part for _, _, of_part in parts])
    staged = Staged(graph.new_stage_id(), job, tuple(sorted(most.items())), *window, expires, relied_on=relied_on)
    staged = (
        structs.replace(staged, drawn=tuple(row[2:] for row in rows)) if len(parts) == 1 else structs.replace(staged, apart=rows)
    )
    return _stage(graph, staged, drawn, frozenset[int]().union(*(implicit(charged, of_part) for _, charged, of_part in parts)))


def _expires(graph: ResourceGraph, job: str, window: Window, ttl_s: Length) -> int:
    targets.job_id(job)
    refuse_reservation(graph, job)
    require_end(graph, window)
    return min(graph.now() + positive_ticks(ttl_s, "ttl_s"), FOREVER)


def _stage(graph: ResourceGraph, staged: Staged, drawn: Rows, implies: Implies) -> Stage:
    with supply.NamingConsumers(graph, drawn):
        planned = plans.stage(graph.records, staged, implies=implies)
    require_room(graph, *planned)
    structure = graph.structure
    tell(graph, lambda: events.stage(structure, staged), len(staged.targets))
    graph.records.stage(staged, planned)
    graph.revision += 1
    return Stage(graph, staged.stage, staged.job)


def commit(graph: ResourceGraph, stage: str) -> Allocation:
    """Turn a stage into an allocation of its job."""
    staged = graph.records.require_stage(stage)
    for v, start, end in staged.relied_on:
        start = max(start, graph.now())
        if start < end and not graph.records.has_throughout(staged.job, v, start, end):
            message = (
                f"{staged.job} has freed it since stage '{stage}' was made, and the stage does not lock what it draws by itself"
            )
            raise StaleHandle(message, where=graph.structure.where(v), hint="release the stage and stage again")
    planned = plans.commit(graph.records, stage)
    require_room(graph, *planned)
    tell(graph, lambda: events.stage_end("commit", stage))
    graph.records.commit(stage, planned)
    graph.revision += 1
    if len(planned) > 1:
        return Allocation.of_windows(
            graph, staged.job, [(each.window, part.targets) for each, part in zip(planned, staged.parts(), strict=True)]
        )
    window = staged.start, staged.end
    return Allocation(graph, staged.job, list(staged.targets), window, staged.slots, chosen=staged.chosen)


def release(graph: ResourceGraph, stage: str) -> None:
    graph.records.require_stage(stage)
    tell(graph, lambda: events.stage_end("release", stage))
    graph.records.release(stage)
    graph.revision += 1
    refill(graph)


def expire_stages(graph: ResourceGraph) -> None:
    """Release expired stages.  Every change does so first; a query never does."""
    if graph.records.stages:
        for stage in graph.records.expired_stages(graph.now()):
            release(graph, stage)


# -- ended records -----------------------------------------------------------------------------------------------------
#
# A record that has ended stays until :meth:`ResourceGraph.expire`.  If only ended records prevent a change of the shape, or if
# the change would drop or alter them, all ended records are dropped first, with the event of `expire` (rule T2).


def next_records(graph: ResourceGraph, make: Callable[[Records], Records], now: int | None = None) -> Records:
    """The records of the next generation; ended records expire first if they are in the way.

    Args:
        make: derives them from the present records, or refuses. It does not have to distinguish ended records.
        now: the time of an instance, whose time does not pass during an operation; that of the graph by default.

    Errors: those of `make`, because of records that have not ended; nothing changes then.
    """
    now = graph.now() if now is None else now
    with suppress(FluxresError):
        return make(graph.records)
    made = make(lasting(graph, now))
    expire_all(graph, now)
    return made


def expire_all(graph: ResourceGraph, now: int) -> None:
    """Drop the records that have ended by now, and the stages whose window has ended."""
    for over in graph.records.stages_over(now):
        release(graph, over)
    expire(graph, now)


def lasting(graph: ResourceGraph, now: int) -> Records:
    """A copy of a graph's records without those that have ended.

    Cost: that of a duplicate.
    """
    records = graph.records
    left = Records(graph.structure, empty_planner(graph.structure))
    left.carry_over_all(records)
    for stage in left.stages_over(now):
        left.release(stage)
    for job, pieces in left.ended(now):
        left.free(pieces, job)
    for v, holders in records.held.items():
        if ELSEWHERE in holders:
            left.set_elsewhere(v, tuple(steps.within(holders[ELSEWHERE], now, FOREVER)))
    return left


def is_over(records: Records, pools: Container[int], now: int) -> bool:
    """Whether any of these pools has an ended record, or was implied by one."""
    over = {STAGE_OWNER + stage for stage in records.stages_over(now)}
    for owner in records.pools_of:
        if owner != ELSEWHERE:
            for v in records.pools_with_implied(owner):
                if v in pools and (records.given(v, owner)[0][1] <= now or owner in over):
                    return True
    return False

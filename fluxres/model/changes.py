"""Changes of who holds what, on vertices and ticks: plan, emit the event, apply.

The order matters: a change that is refused has made no event and changed nothing; once the event is out, nothing in between can
fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fluxres.allocation import plans, steps, together
from fluxres.allocation.drawn import NO_ROWS, Rows, implicit
from fluxres.allocation.planned import Batch, Change, Piece, Target
from fluxres.allocation.plans import Implies
from fluxres.allocation.resource_set import resource_set, scheduling
from fluxres.allocation.staged import Staged
from fluxres.allocation.steps import Steps
from fluxres.allocation.together import Share
from fluxres.clock import FOREVER, Length, length_ticks, seconds
from fluxres.errors import StaleHandle, UsageError
from fluxres.graph.auxiliary import Int32
from fluxres.graph.structure import Structure
from fluxres.model import drawing, events, extending, targets
from fluxres.model.pool import Pool
from fluxres.model.stage import Stage
from fluxres.model.values import Allocation, Span
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    from fluxres.match import Placement
    from fluxres.model.resource_graph import ResourceGraph

Window = tuple[int, int]
Held = tuple[Int32, NDArray[np.int64]]
"""Vertices, ascending, each once, and the units of each."""


def tell(graph: ResourceGraph, event: Callable[[], events.Event], pools: int = 1) -> None:
    """Send the event of a change that is about to be made to the sink, if there is one.

    Args:
        event: makes the event.
        pools: number of pools that it names.
    """
    # Naming every pool by its path takes longer than the change: the event is only made for a sink, and when the sink wants it.
    # Its vertices are those of a structure that it keeps.
    sink = graph.sink
    if isinstance(sink, events.PatientSink):
        sink.later(event, pools)
    elif sink is not None:
        sink(event())


def tell_now(graph: ResourceGraph, event: events.Event) -> None:
    """Send an event to the sink, if there is one: that of a change which replaces the structure its vertices are of."""
    if graph.sink is not None:
        graph.sink(event)


def require_room(graph: ResourceGraph, *planned: tuple[Batch | Sequence[Change], Window]) -> None:
    """Refuse, before the event is made, what the planner would refuse for its bounds afterwards.

    Args:
        planned: plans of allocations, each with its window.

    Errors: LimitExceeded.
    """
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


def given(
    graph: ResourceGraph,
    job: str,
    held: Callable[[], Held],
    window: Window,
    nslots: int | None = 0,
    implied: Sequence[Target] = (),
) -> Allocation:
    """The Allocation of what a job got in one window."""
    # Most callers look at R or at nothing: pools and spans are made on demand.
    structure, generation = graph.structure, graph.generation

    def pools() -> tuple[Pool, ...]:
        return tuple([Pool(graph, v, generation) for v in held()[0].tolist() if v < structure.n])

    def spans() -> tuple[Span, ...]:
        return tuple([graph.span(job, amount, *window, structure.accounts.where(v)) for v, amount in pairs(held())])

    r = DeferredR(structure, held, window, nslots, implied)
    return Allocation(job, pools, spans, r, (seconds(window[0]), seconds(window[1])))


def columns(named: Iterable[tuple[int, int]]) -> Held:
    """Pairs of vertex and amount as columns; amounts of a vertex named twice add up."""
    total: dict[int, int] = {}
    for v, amount in named:
        total[v] = total.get(v, 0) + amount
    vertices = sorted(total)
    return np.array(vertices, np.int32), np.array([total[v] for v in vertices], np.int64)


def pairs(held: Held) -> list[tuple[int, int]]:
    """Columns as pairs of vertex and amount."""
    return list(zip(held[0].tolist(), held[1].tolist(), strict=True))


class DeferredR:
    """R of the pools held, made on demand, with the graph of them where the caller names its form.

    Args:
        implied: what was drawn below pools held exclusively; the graph includes those that a parent instance gives on request.
    """

    __slots__ = ("held", "implied", "nslots", "structure", "window")

    def __init__(
        self,
        structure: Structure,
        held: Callable[[], Held],
        window: Window,
        nslots: int | None,
        implied: Sequence[Target] = (),
    ) -> None:
        self.structure = structure
        self.held = held
        self.window = window
        self.nslots = nslots
        self.implied = implied

    def __call__(self, form: str | None) -> dict[str, Any]:
        held = vertices, amounts = self.held()
        if self.structure.accounts.n > self.structure.n:  # R has no edges
            pools = vertices < self.structure.n
            vertices, amounts = vertices[pools], amounts[pools]
        r = resource_set(self.structure, vertices, amounts, *self.window, self.nslots)
        if form is None:
            return r
        linked = self.structure.accounts.linked
        asked = [(v, amount) for v, amount in self.implied if linked is not None and linked[v]]
        return {**r, "scheduling": scheduling(self.structure, *(columns(pairs(held) + asked) if asked else held), form)}

    def __reduce__(self) -> tuple[type[DeferredR], tuple[Any, ...]]:
        return DeferredR, (self.structure, partial(tuple, self.held()), self.window, self.nslots, tuple(self.implied))


def require_end(graph: ResourceGraph, window: Window) -> None:
    """Refuse an allocation that begins later than now and has no end (RFC 16), and one that has ended already.

    Errors: UsageError.
    """
    start, end = window
    now = graph.now()
    if end >= FOREVER and start > now:
        raise UsageError(
            f"would begin at {in_message(seconds(start))}, later than now ({in_message(seconds(now))}), and has no end",
            hint="give an end or a duration",
        )
    if end <= now:
        raise UsageError(
            f"the window ends at {in_message(seconds(end))}, which is not after now ({in_message(seconds(now))})",
            hint="give a later end",
        )


def allocate(graph: ResourceGraph, job: str, named: drawing.Named, window: Window) -> Allocation:
    """Allocate pools to a job, with what they draw by themselves from their suppliers."""
    drawn = NO_ROWS
    if graph.structure.kinds.may_draw:
        parts = drawing.by_window(graph, named, window, job)
        if len(parts) > 1:
            return _allocate_by_window(graph, job, parts)
        ((window, named, drawn),) = parts
    _give(graph, job, named, window, drawn, implicit(named, drawn), is_routed=False)
    return given(graph, job, lambda: columns(named), window)


def _give(
    graph: ResourceGraph,
    job: str,
    named: drawing.Named,
    window: Window,
    drawn: Rows,
    implies: Implies,
    *,
    is_routed: bool | None = None,
) -> None:
    start, end = window
    with drawing.NamingConsumers(graph, drawn):
        planned = plans.allocate(graph.records, named, job, start, end, implies=implies)
    require_room(graph, (planned, window))
    structure = graph.structure
    tell(graph, lambda: events.allocate(structure, job, named, start, end, drawn=drawn), len(named))
    graph.records.allocate(planned, job, start, end, drawn=drawn, is_routed=is_routed)
    graph.revision += 1


def _allocate_by_window(graph: ResourceGraph, job: str, parts: Sequence[drawing.Part]) -> Allocation:
    """Allocate pools over consecutive windows in which they draw different units: in all of them, or in none."""
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
        )
        for (start, end), named, drawn in parts
    ]
    pools = sum(len(share.targets) for share in shares)
    together.grant(graph.records, shares, lambda: tell(graph, lambda: events.allocate_all(structure, shares), pools))
    graph.revision += 1
    return of_windows(graph, job, [(window, named) for window, named, _ in parts])


def of_windows(graph: ResourceGraph, job: str, parts: Iterable[tuple[Window, Iterable[Target]]]) -> Allocation:
    """The Allocation of what a job got in consecutive windows."""
    spans: dict[int, Steps] = {}
    for (start, end), named in parts:
        for v, amount in named:
            spans[v] = steps.add(spans.get(v, ()), start, end, amount)
    return of_spans(graph, job, [(v, s, e, n) for v, held in sorted(spans.items()) for s, e, n in held], 0)


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
        drawn: for which pools parts of it are drawn.
        is_routed: as for `Records.allocate`.
    """
    _give(graph, job, named, window, drawn, implies=True, is_routed=is_routed)


def commit_match(graph: ResourceGraph, found: Placement, job: str, *, anew: bool = False) -> Allocation:
    """Allocate to a job what a matcher found on the present state.

    Args:
        anew: the match was found on an earlier state of the same structure, or for another window: check it like any allocation.

    Errors: InsufficientResources, InfeasibleRequest where it is no longer free; nothing changes then.
    """
    window, structure, slots = (found.start, found.end), graph.structure, found.nslots
    planned: Batch | list[Change]
    if anew:
        pools = zip(found.vertices.tolist(), found.amounts.tolist(), strict=True)
        planned = plans.allocate(graph.records, [*pools, *found.implied], job, *window, implies=True)
    else:
        planned = plans.match(graph.records, *found.found, job, *window)
    require_room(graph, (planned, window))
    tell(graph, lambda: events.allocate(structure, job, found.targets, *window, slots, found.drawn), len(found))
    graph.records.allocate(planned, job, *window, slots, found.drawn, is_routed=found.is_routed)
    graph.revision += 1
    return given(graph, job, lambda: (found.vertices, found.amounts), window, slots, found.implied)


def free(
    graph: ResourceGraph,
    job: str,
    named: list[tuple[int, int | None]] | None,
    start: int | None,
    end: int | None,
    slots: int = 0,
) -> Batch | list[Piece]:
    """Free what a job holds, and return it.

    Args:
        named: vertices with amounts, None for all units that the job holds; None for everything.
        start, end: window in ticks; None for all of the time.
        slots: that are freed, where a request says what is.
    """
    pieces = plans.free(graph.records, job, named, start, end)
    structure = graph.structure
    tell(graph, lambda: events.free(structure, job, named, start, end, slots), len(named or ()))
    graph.records.free(pieces, job, slots)
    graph.revision += 1
    return pieces


def of_spans(
    graph: ResourceGraph,
    job: str,
    held: Sequence[tuple[int, int, int, int]],
    nslots: int | None = None,
    implied: Sequence[Target] = (),
) -> Allocation:
    """The Allocation of records of one job.

    Args:
        held: (vertex, start, end, amount) in ticks, by vertex and start.
        nslots: for R; None where it is unknown.
        implied: vertices below pools held exclusively, and the most units drawn there at one time.
    """
    structure = graph.structure

    def most() -> Held:
        # R has one window, the longest, one amount per pool, the largest, and nothing below an exclusive pool.
        amounts = {v: amount for v, _, _, amount in sorted(held, key=itemgetter(3))}
        size, end, reach = structure.accounts.size, structure.accounts.end, 0
        named: list[Target] = []
        for v, amount in sorted(amounts.items()):
            if v >= reach:
                named.append((v, amount))
                reach = end.item(v) if amount == size.item(v) else reach
        return columns(named)

    window = min((s for _, s, _, _ in held), default=0), max((e for _, _, e, _ in held), default=FOREVER)
    r = DeferredR(structure, most, window, nslots, implied)
    spans = tuple(graph.span(job, amount, s, e, structure.accounts.where(v)) for v, s, e, amount in held)
    pools = dict.fromkeys(v for v, *_ in held if v < structure.n)
    return Allocation(job, tuple(Pool(graph, v) for v in pools), spans, r)


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


def set_end(graph: ResourceGraph, job: str, until: int, now: int) -> None:
    """Move the end of what a job holds; what has ended by now stays as it is."""
    move = extending.plan(graph, job, until, now)
    if move.longer or move.shorter:
        require_room(graph, *((planned, held_on) for held_on, planned, _ in move.longer))
        tell(graph, lambda: events.set_end(job, now, until))
        move.apply(graph.records, job)
        graph.revision += 1


class Keeper(Protocol):
    """A scheduler on the graph, which knows the jobs that have not ended although their records have."""

    def keep_ended(self, before: int) -> None:
        """Remember what jobs had whose records ended by a moment: these are about to be dropped."""


def expire(graph: ResourceGraph, before: int) -> list[str]:
    """Drop the records that ended by a moment, and return the jobs concerned."""
    ended = graph.records.ended(before)
    if ended:
        for keeper in list(graph.keepers):
            keeper.keep_ended(before)
        tell(graph, lambda: events.expire(before))
        for job, pieces in ended:
            graph.records.free(pieces, job)
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
) -> Stage:
    """Lock pools for a job."""
    expires = _expires(graph, job, window, ttl_s)
    rows = tuple((pool, account, units) for pool, account, units in drawn.tolist())
    staged = Staged(graph.new_stage_id(), job, tuple(named), *window, expires, nslots, rows)
    return _stage(graph, staged, drawn, implies)


def stage_by_window(graph: ResourceGraph, job: str, named: drawing.Named, window: Window, ttl_s: Length) -> Stage:
    """Lock pools for a job, with what they draw by themselves and the job does not draw already."""
    expires = _expires(graph, job, window, ttl_s)
    parts = drawing.by_window(graph, named, window, job)
    relied_on = tuple(drawing.drawn_already(graph, named, window, job))
    rows = tuple((start, end, *row) for (start, end), _, drawn in parts for row in drawn.tolist())
    most: dict[int, int] = {}
    for _, charged, _ in parts:
        for v, amount in pairs(columns(charged)):
            most[v] = max(most.get(v, 0), amount)
    drawn = np.concatenate([of_part for _, _, of_part in parts])
    staged = Staged(graph.new_stage_id(), job, tuple(sorted(most.items())), *window, expires, relied_on=relied_on)
    staged = replace(staged, drawn=tuple(row[2:] for row in rows)) if len(parts) == 1 else replace(staged, apart=rows)
    return _stage(graph, staged, drawn, frozenset[int]().union(*(implicit(charged, of_part) for _, charged, of_part in parts)))


def _expires(graph: ResourceGraph, job: str, window: Window, ttl_s: Length) -> int:
    targets.job_id(job)
    require_end(graph, window)
    life = length_ticks(ttl_s, "ttl_s")
    if life < 1:
        raise UsageError(f"ttl_s: expected a positive number of seconds, got {ttl_s!r}")
    return min(graph.now() + life, FOREVER)


def _stage(graph: ResourceGraph, staged: Staged, drawn: Rows, implies: Implies) -> Stage:
    with drawing.NamingConsumers(graph, drawn):
        planned = plans.stage(graph.records, staged, implies=implies)
    require_room(graph, *((changed, window) for window, changed in planned))
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
    require_room(graph, *((changed, window) for window, changed in planned))
    tell(graph, lambda: events.stage_end("commit", stage))
    graph.records.commit(stage, planned)
    graph.revision += 1
    if len(planned) > 1:
        return of_windows(
            graph, staged.job, [(window, part.targets) for (window, _), part in zip(planned, staged.parts(), strict=True)]
        )
    return given(graph, staged.job, lambda: columns(staged.targets), (staged.start, staged.end), staged.slots)


def release(graph: ResourceGraph, stage: str) -> None:
    """Release what a stage locks."""
    graph.records.require_stage(stage)
    tell(graph, lambda: events.stage_end("release", stage))
    graph.records.release(stage)
    graph.revision += 1


def expire_stages(graph: ResourceGraph) -> None:
    """Release the stages whose time is over; every change does so first, a query never does."""
    if graph.records.stages:
        for stage in graph.records.expired_stages(graph.now()):
            release(graph, stage)

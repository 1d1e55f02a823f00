"""Bring a new description onto a machine that is in use.

Nothing that a job holds, now or later, is taken from it, and a pool that a job holds exclusively stays as it is.  Everything that
a change would take is found first, so that one refusal names all jobs in the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fluxres import limits
from fluxres.allocation import steps
from fluxres.allocation.audit import check_records
from fluxres.allocation.records import ELSEWHERE, Records
from fluxres.arrays import Int32, Mask
from fluxres.clock import FOREVER
from fluxres.documents.document import listed, plural
from fluxres.errors import FluxresError, StillHeld, UsageError
from fluxres.graph import update
from fluxres.graph.compare import equal
from fluxres.graph.correspondence import Correspondence
from fluxres.graph.edges import rows_between, said
from fluxres.graph.forest import in_slices
from fluxres.graph.structure import Structure
from fluxres.model import changes, joining
from fluxres.model.difference import Difference, gains_capacity
from fluxres.model.unrecorded import may_draw

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

_HINT: Final = "free it, or wait until it ends"
_DRAIN: Final = "free it or wait until it ends; `apply --drain` keeps what is gone until then, without new work"
_GONE: Final = "is not in the description"


def diff(graph: ResourceGraph, other: ResourceGraph) -> Difference:
    """What `apply` would change."""
    same = Correspondence(graph.structure, other.structure)
    return Difference(same, _holders(graph, same))


def apply(graph: ResourceGraph, other: ResourceGraph, *, drain: bool) -> Difference:
    """Make the machine what `other` describes."""
    if graph.records.upstream is not None or graph.structure.accounts.linked is not None:
        raise UsageError("the graph of a child instance changes with that of its parent", hint="apply it to the parent")
    changes.expire_stages(graph)
    found = diff(graph, other)
    same, before = found.same, graph.structure
    kept = _with_links(same, [v for v in same.gone_tops.tolist() if drain and found.jobs_of(v)])
    draining = np.array([v for v in kept.tolist() if before.unavailable_above(v) < 0], np.int32)
    found.drained = before.wheres(kept.tolist())
    if not (found.changes_what_stays or len(same.new_tops) or len(kept) < len(same.gone_tops) or len(draining)):
        return found
    structure, old_to_new = update.updated(same, kept)
    structure.set_state(old_to_new[draining], "drain")
    if structure.n == before.n and not equal(before, structure):
        return found  # all that differs is kept for jobs already

    def make(own: Records) -> Records:
        _require_kept(_Obstacles(own, found, structure, old_to_new), drain=drain)
        try:
            records = joining.taken(structure, own, old_to_new)
        except FluxresError as error:
            raise StillHeld(f"what jobs hold does not fit the description: {error.message}", where=error.where) from error
        if problems := check_records(records):
            raise StillHeld(f"what jobs hold does not fit the description: {problems[0].message}", where=problems[0].where)
        return records

    records = changes.next_records(graph, make)
    event = {
        "event": "apply",
        "summary": found.summary,
        "drain": drain,
        "drained": before.wheres(draining.tolist()),
        "graph": other,
    }
    changes.tell_now(graph, event)
    graph.restructure(structure, records, old_to_new)
    return found


def _holders(graph: ResourceGraph, same: Correspondence) -> dict[int, tuple[str, ...]]:
    """By topmost pool that is gone, the jobs that hold some of it now or later."""
    records, now, tops = graph.records, graph.now(), same.gone_tops
    found: dict[int, set[str]] = {}
    for v, holders in records.held.items() if len(tops) else ():
        if v >= same.s.n:
            continue
        top = same.gone_top.item(v)
        for owner, held in holders.items():
            if owner == ELSEWHERE or held[-1][1] <= now:
                continue
            inside = [top] if top >= 0 else _tops_in(same, v) if _is_whole(records, v, owner) else []
            for each in inside:
                found.setdefault(each, set()).add(records.job_behind(owner))
    return {v: tuple(sorted(jobs)) for v, jobs in found.items()}


def _with_links(same: Correspondence, held: list[int]) -> Int32:
    """Pools that are gone and held, and the gone pools outside the containment tree that they are linked to.

    A job goes on drawing through these.
    """
    s, tops = same.s, np.array(held, np.int32)
    while len(tops):
        kept = np.isin(same.gone_top, tops)
        ends = [
            np.where(kept[a], b, -1)
            for graph in s.subsystems.values()
            for a, b in ((graph.src, graph.dst), (graph.dst, graph.src))
        ]
        near = np.unique(np.concatenate([tops[:0], *ends]))
        linked = same.gone_top[near[near >= s.tree_end]]
        more = np.union1d(tops, linked[linked >= 0]).astype(np.int32)
        if len(more) == len(tops):
            break
        tops = more
    return tops


def _tops_in(same: Correspondence, v: int) -> list[int]:
    tops = same.gone_tops
    lo, hi = np.searchsorted(tops, [v, same.s.end.item(v)])
    inside: list[int] = tops[lo:hi].tolist()
    return inside


def _is_whole(records: Records, v: int, owner: str) -> bool:
    """Whether an owner holds a pool with pools in it exclusively at some time."""
    inside = records.accounts.end.item(v) > v + 1
    return inside and bool(steps.whole(records.steps_of(v, owner), 0, FOREVER, 0, records.accounts.size.item(v)))


class _Obstacle(NamedTuple):
    """Something that jobs hold and that a change would take from them, or add to.

    Args:
        goes: whether it is a pool that the description does not have, or an edge of one: `drain` keeps these.
    """

    where: str
    jobs: tuple[str, ...]
    why: str
    goes: bool = False


class _Obstacles:
    """What is in the way of a change.

    Args:
        records: what jobs hold.
        found: the differences.
        after: the machine afterwards.
        old_to_new: its vertices by present vertex, -1 for removed ones.

    Cost: O(spans held), and arrays over all pools.
    """

    def __init__(self, records: Records, found: Difference, after: Structure, old_to_new: Int32) -> None:
        self._records, self._found, self._after, self._new = records, found, after, old_to_new
        self._before = records.structure
        self._accounts = records.accounts.renumbered(after.accounts, old_to_new)

    def __iter__(self) -> Iterator[_Obstacle]:
        if not self._records.held:
            return
        self._moved = self._in_moved()
        stays = self._new >= 0
        resized = np.zeros(self._before.n, np.bool_)
        resized[stays] = self._before.size[stays] != self._after.size[self._new[stays]]
        self._resized = resized
        touched = ~stays | resized | self._moved | self._found.of_other_units
        self._touched = np.concatenate([[0], np.cumsum(touched)])
        for v in sorted(self._records.held):
            yield from self._of_edge(v) if v >= self._before.n else self._of_pool(v)
        yield from self._of_routes()

    def _in_moved(self) -> Mask:
        tops = self._found.same.to_s[self._found.same.moved_tops]
        return in_slices(tops, self._before.end[tops], self._before.n)

    def _of_pool(self, v: int) -> Iterator[_Obstacle]:
        s, new = self._before, int(self._new[v])
        if new < 0:
            yield self._held(v, _GONE, goes=True)
        elif self._moved[v]:
            yield self._held(v, "would move")
        elif self._after.is_way(new) and not s.is_way(v):
            yield self._held(v, "would only be a pass-through to other pools")
        elif self._found.of_other_units[v]:
            yield self._held(v, "would change what a unit of it is, or draws")
        elif (used := self._records.planner.used(v, 0, FOREVER)) > (size := self._after.size.item(new)):
            yield self._held(v, f"would have {size} units, of which jobs hold {used}")
        elif self._resized[v] and s.end.item(v) > v + 1:
            yield self._held(v, f"would have {size} units instead of {s.size.item(v)}")
        else:
            yield from self._of_whole(v, new)

    def _of_whole(self, v: int, new: int) -> Iterator[_Obstacle]:
        """A pool held exclusively keeps everything in it, and gets nothing more."""
        inside = slice(v + 1, self._before.end.item(v))
        lost = self._touched[inside.stop] - self._touched[inside.start]
        if not lost and inside.stop - v == self._after.end.item(new) - new:
            return
        size = self._before.size.item(v)
        held = self._records.held[v].items()
        owners = [owner for owner, spans in held if owner != ELSEWHERE and steps.whole(spans, 0, FOREVER, 0, size)]
        if owners:
            changed = [u for u in range(inside.start, inside.stop) if self._touched[u + 1] > self._touched[u]] if lost else []
            what = self._before.path(changed[0]) if changed else "what is in it"
            jobs = tuple(sorted({self._records.job_behind(owner) for owner in owners}))
            yield _Obstacle(self._before.where(v), jobs, f"is held as a whole, and {what} would change")

    def _of_edge(self, v: int) -> Iterator[_Obstacle]:
        number, accounts = int(self._accounts[v]), self._records.accounts
        used = self._records.planner.used(v, 0, FOREVER)
        if number >= 0 and self._after.accounts.size.item(number) >= used:
            return
        name, src, dst = accounts.edge(v)[0].name, *(int(self._new[end]) for end in accounts.edge(v)[1:])
        after = self._after.subsystems.get(name)
        if number < 0 and min(src, dst) >= 0 and after is not None and len(rows_between(after, src, dst)):
            return  # it has no limit any more
        carries = f"would carry {self._after.accounts.size.item(number)}" if number >= 0 else "is not in the description"
        yield self._held(v, f"{carries}, and jobs draw {used} units through it", goes=min(src, dst) < 0)

    def _of_routes(self) -> Iterator[_Obstacle]:
        """Edges without a capacity through which jobs may draw, and that go or get a capacity."""
        for name, rows in self._found.edge_rows.items():
            if rows.before is None:
                continue
            gone = rows.removed
            ends = self._new[rows.before.src[gone]] >= 0, self._new[rows.before.dst[gone]] >= 0
            survives = ends[0] & ends[1] & ~rows.removed_between  # an edge of a pool that is kept
            for change, of in (("is not in the description", gone[(ends[0] | ends[1]) & ~survives]), ("", gains_capacity(rows))):
                for row in of.tolist():
                    src, dst = rows.before.src.item(row), rows.before.dst.item(row)
                    if self._records.accounts.between(rows.before, rows.before.src[[row]], rows.before.dst[[row]])[0] >= 0:
                        continue
                    job = may_draw(self._records, rows.before, src, dst, goes=bool(change))
                    if job is not None:
                        why = f"{change or 'would get a capacity'}, and jobs may draw through it"
                        goes = bool(self._new[[src, dst]].min() < 0)
                        yield _Obstacle(said(self._before, name, src, dst), (job,), why, goes)

    def _held(self, v: int, why: str, *, goes: bool = False) -> _Obstacle:
        owners = self._records.held[v].keys() - {ELSEWHERE}
        jobs = tuple(sorted({self._records.job_behind(owner) for owner in owners}))
        return _Obstacle(self._records.accounts.where(v), jobs, why, goes)


def _require_kept(obstacles: _Obstacles, *, drain: bool) -> None:
    """Refuse a change that something is in the way of, naming all jobs.

    Args:
        drain: what goes is kept already.

    Errors: StillHeld.
    """
    found = [each for each in obstacles if each.jobs]
    if not found:
        return
    first = found[0]
    jobs = sorted({job for each in found for job in each.jobs})
    more = len({each.where for each in found}) - 1
    message = f"{first.why} (held by {listed(first.jobs, limits.JOBS_NAMED_MAX)})"
    if more:
        are = "is" if more == 1 else "are"
        message += f"; {plural(more, 'more pool')} {are} in the way; jobs: {listed(jobs, limits.JOBS_NAMED_MAX)}"
    hint = _DRAIN if not drain and all(each.goes for each in found) else _HINT
    raise StillHeld(message, where=first.where, hint=hint, jobs=jobs)

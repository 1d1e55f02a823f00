"""What a child instance draws from suppliers that it shares with others (rule N1).

Power and bandwidth are not divided when a job becomes an instance, since a PDU supplies the nodes of many jobs.  A child whose
job has watts has these.  Any other child has the supplier as a pass-through, and requests watts from its parent whenever one of
its jobs takes or reserves some.  The parent charges its own pools to the child's job, and requests them from its own parent if it
has them as a pass-through itself.  So each supplier records everything drawn below it, and what is drawn elsewhere shows in the
child as held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import numpy as np

from fluxres.allocation import steps
from fluxres.allocation.records import ELSEWHERE
from fluxres.allocation.steps import Steps
from fluxres.arrays import Int32, Int64
from fluxres.clock import FOREVER
from fluxres.errors import FluxresError, InfeasibleRequest, InsufficientResources, StaleHandle, UnknownPool
from fluxres.graph.kinds import WAY
from fluxres.instance import recording
from fluxres.model import changes, joining
from fluxres.model.supply import Ends
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.instance.job import Job
    from fluxres.model import ResourceGraph

Vertices = Sequence[int] | Int32
Amounts = Sequence[int] | Int64


class ParentSupply:
    """The suppliers that a child instance shares with others, and its parent, which grants units of them; an `Upstream`.

    Args:
        job: the job of the parent that holds what the child has; `job.instance` is the parent.
        graph: the graph of the child, with `linked` set on its structure.
    """

    def __init__(self, job: Job, graph: ResourceGraph) -> None:
        self.job, self.graph = job, graph
        self.is_closed = False
        self.until = job.limit
        """Until when the parent is charged, in ticks: the end of the child's job."""
        self.on_change: Callable[[], None] = _ignore
        """Called when what is held elsewhere has changed."""
        self._seen: tuple[int, ...] = ()
        self._generations: tuple[int, int] = (-1, -1)
        self._in_parent: dict[int, int] = {}
        self._compared: tuple[Structure, Structure, tuple[dict[Ends, int | None], list[Ends]]] | None = None
        self._own_in_parent: tuple[tuple[int, int], dict[int, int]] = (-1, -1), {}

    @property
    def above(self) -> ResourceGraph:
        return self.job.instance.inventory.graph

    @property
    def holder(self) -> str:
        """The name of the child's job in the records of the parent."""
        return fluid.encode(self.job.number)

    def in_parent(self) -> dict[int, int]:
        """By shared pool or edge of the child, the same one in the parent."""
        mine, theirs = self.graph, self.above
        generations = mine.generation, theirs.generation
        if generations != self._generations:
            linked = mine.structure.accounts.linked
            vertices = np.flatnonzero(linked).tolist() if linked is not None else []
            accounts = mine.structure.accounts
            self._in_parent = {v: p for v in vertices if (p := accounts.same_in(theirs.structure.accounts, v)) >= 0}
            self._generations = generations
        return self._in_parent

    def refresh(self) -> None:
        """Update the records of what others hold; see `Upstream`."""
        graph, above = self.graph, self.above
        if self.is_closed:
            return
        if above.records.upstream is not None:
            above.records.upstream.refresh()
        state = above.revision, above.generation, graph.generation, self.until
        if state == self._seen:
            return
        changed = [graph.records.set_elsewhere(v, self.elsewhere(p)) for v, p in self.in_parent().items()]
        self._seen = state
        if any(changed):
            graph.revision += 1
            self.on_change()

    def forget_elsewhere(self, vertices: Iterable[int]) -> None:
        """Drop the records of what others draw from these pools until the next refresh: the child gets units of its own."""
        for v in vertices:
            self.graph.records.set_elsewhere(v, ())
        self._seen = ()

    def changed_sizes(self) -> dict[int, int]:
        """By shared pool or edge whose size differs from that in the parent, the size in the parent."""
        if self.is_closed:
            return {}
        mine, theirs = self.graph.structure.accounts.size, self.above.structure.accounts.size
        return {v: theirs.item(p) for v, p in self.in_parent().items() if mine.item(v) != theirs.item(p)}

    def changed_capacities(self) -> dict[Ends, int | None]:
        """By edge that has a capacity only in the parent, that capacity; None for an edge that has one only in the child."""
        return self._compare_edges()[0]

    def cut_off(self) -> list[Ends]:
        """The edges of the child that the parent no longer has."""
        return self._compare_edges()[1]

    def _compare_edges(self) -> tuple[dict[Ends, int | None], list[Ends]]:
        """The results of `changed_capacities` and `cut_off`.  Cost: O(edges), once for each shape of the two graphs."""
        mine, theirs = self.graph.structure, self.above.structure
        if self._compared is not None and self._compared[0] is mine and self._compared[1] is theirs:
            return self._compared[2]
        limited: dict[Ends, int | None] = {}
        cut_off: list[Ends] = []
        for name, graph in mine.subsystems.items():
            of_parent = theirs.subsystems.get(name)
            src, dst = (_same(mine, theirs, ends) for ends in (graph.src, graph.dst))
            here, there = mine.accounts.between(graph, graph.src, graph.dst), np.full(len(graph), -1, np.int32)
            is_there = (src >= 0) & (dst >= 0) & (of_parent is not None)
            if of_parent is not None:
                there = theirs.accounts.between(of_parent, src, dst)
                codes = of_parent.src.astype(np.int64) * theirs.n + of_parent.dst
                is_there &= np.isin(src.astype(np.int64) * theirs.n + dst, codes)
            ends = list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
            for row in np.flatnonzero(is_there & ((here < 0) != (there < 0))).tolist():
                p = there.item(row)
                limited[name, *ends[row]] = None if p < 0 else theirs.accounts.size.item(p)
            cut_off += [(name, *ends[row]) for row in np.flatnonzero(~is_there).tolist()]
        self._compared = mine, theirs, (limited, cut_off)
        return limited, cut_off

    def set_sizes(self, sizes: dict[int, int], now: int) -> None:
        """Set the sizes of shared pools and edges to those in the parent; the child must not hold more."""
        self.refresh()  # so that no more is held elsewhere than the new size
        joining.leave(self.graph, {v: (0, units) for v, units in sizes.items()}, now)

    def elsewhere(self, p: int) -> Steps:
        """What all but the child's job hold of a pool of the parent, until the end of that job; at most its size."""
        records, accounts = self.above.records, self.above.structure.accounts
        total: Steps = ()
        for owner, held in records.held.get(p, {}).items():
            for s, e, amount in steps.within(held, 0, self.until) if owner != self.holder else ():
                total = steps.add(total, s, e, amount)
        for u in accounts.ancestors(p):
            for owner, held in records.held.get(u, {}).items() if accounts.size.item(u) else ():
                if owner not in (self.holder, ELSEWHERE):
                    for s, e in steps.whole(held, 0, self.until, 0, accounts.size.item(u)):
                        total = steps.add(total, s, e, accounts.size.item(p))
        return steps.least_of(total, ((0, FOREVER, accounts.size.item(p)),))

    def own_in_parent(self) -> dict[int, int]:
        """By pool of which the child has units of its own, the same one in the parent, if it has it."""
        mine, theirs = self.graph, self.above
        generations = mine.generation, theirs.generation
        if self._own_in_parent[0] != generations:
            found = {}
            for v in np.flatnonzero((mine.structure.flags & WAY) == 0).tolist():
                with suppress(UnknownPool):
                    found[v] = theirs.structure.vertex(mine.structure.where(v))
            self._own_in_parent = generations, found
        return self._own_in_parent[1]

    def drawn(self, v: int, now: int = 0) -> Steps:
        """What the jobs and stages of the child hold of a shared pool, until the end of its job in the parent.

        Args:
            now: leave out what has ended by then.
        """
        total: Steps = ()
        records = self.graph.records
        of_pool = [held for owner, held in records.held.get(v, {}).items() if owner != ELSEWHERE]
        of_pool += [pools[v] for pools in records.implied.values() if v in pools]
        for held in of_pool:
            for s, e, amount in steps.within(held, 0, self.until):
                total = steps.add(total, s, e, amount) if e > now else total
        return total

    def require_open(self, vertices: Iterable[int]) -> None:
        """Refuse units of the parent for a child that has ended; see `Upstream`."""
        linked = self.graph.structure.accounts.linked
        if not self.is_closed or linked is None:
            return
        for v in vertices:
            if linked.item(v):
                raise StaleHandle("its instance has ended", where=self.graph.structure.accounts.where(v))

    def take(self, vertices: Vertices, amounts: Amounts, start: int, end: int) -> None:
        """Charge the parent; see `Upstream`."""
        named = self._linked_units(vertices, amounts)
        end = min(end, self.until)
        if not named or start >= end:
            return
        self.require_open(v for v, _ in named)
        above = self.in_parent()
        try:
            with recording.own_changes(self.job.instance.inventory):
                changes.allocate_more(self.above, self.holder, [(above[v], amount) for v, amount in named], (start, end))
        except InfeasibleRequest as error:  # the parent has returned what it had when the child began
            raise InsufficientResources(error.message, where=error.where, hint=error.hint) from None

    def give(self, vertices: Vertices, amounts: Amounts, start: int, end: int) -> None:
        """Return units to the parent; see `Upstream`."""
        named = self._linked_units(vertices, amounts)
        end = min(end, self.until)
        if not named or start >= end or self.is_closed:
            return
        self._return([(v, amount, start, end) for v, amount in named])

    def note_route(self) -> None:
        """Note that the job in the parent draws along a route; see `Upstream`."""
        self.above.records.note_route(self.holder)

    def _return(self, pieces: list[tuple[int, int, int, int]]) -> None:
        records, above = self.above.records, self.in_parent()
        found = []
        for v, amount, start, end in pieces:
            p = above[v]
            held = records.given(p, self.holder)
            # Records that have ended may have expired in the parent.
            found += [(p, min(amount, units), s, e) for s, e, units in steps.within(held, start, end)]
        if found:
            with recording.own_changes(self.job.instance.inventory):
                changes.free_pieces(self.above, self.holder, found)

    def return_all(self, now: int = 0) -> None:
        """Return everything that the child draws, before its job in the parent gets another limit.

        Args:
            now: leave what has ended by then as it is.
        """
        self._return([(v, n, s, e) for v in self.in_parent() for s, e, n in self.drawn(v, now)])

    def draw_again(self, until: int, now: int) -> None:
        """Draw everything again, until the new end of the child's job; without what has ended (rule T2).

        Errors: InsufficientResources if the parent does not have that much; nothing is drawn then.
        """
        self.until = until
        above = self.in_parent()
        taken: list[tuple[int, int, int, int]] = []
        for v in above:
            for s, e, amount in self.drawn(v, now):
                try:
                    with recording.own_changes(self.job.instance.inventory):
                        changes.allocate_more(self.above, self.holder, [(above[v], amount)], (s, e))
                except FluxresError:
                    self._return(taken)
                    raise
                taken.append((v, amount, s, e))

    def draw_available(self, until: int, now: int) -> list[str]:
        """Draw again what others leave of what the child draws, because its job in the parent is late (rule T1).

        Returns: the places in the parent of which others hold something.
        """
        self.until = until
        above, taken = self.in_parent(), []
        for v in sorted(above, reverse=True):  # children first: afterwards an exclusive parent would hold them implicitly
            for s, e, amount in self.drawn(v, now):
                with recording.own_changes(self.job.instance.inventory):
                    is_whole = recording.record_available_units(self.above, above[v], amount, self.holder, max(s, now), e)
                if not is_whole:
                    taken.append(self.above.structure.accounts.where(above[v]))
        return taken

    def close(self) -> None:
        """Stop charging the parent: the child has ended."""
        self.is_closed = True

    def _linked_units(self, vertices: Vertices, amounts: Amounts) -> list[tuple[int, int]]:
        linked = self.graph.structure.accounts.linked
        if linked is None or (len(vertices) == 1 and not linked[vertices[0]]):
            return []
        which = np.asarray(vertices)
        mask = linked[which]
        if not mask.any():
            return []
        above = self.in_parent()
        return [(v, n) for v, n in zip(which[mask].tolist(), np.asarray(amounts)[mask].tolist(), strict=True) if v in above]


@contextmanager
def in_service(graph: ResourceGraph) -> Iterator[None]:
    """Treat all pools of an instance and those above it as in service: a job that continues is not new work (rule A7)."""
    with ExitStack() as stack:
        for one in up_from(graph):
            stack.enter_context(one.structure.lifted())
        yield


def up_from(graph: ResourceGraph) -> Iterator[ResourceGraph]:
    """The graph of an instance and those of the instances above it, nearest first."""
    yield graph
    while isinstance(upstream := graph.records.upstream, ParentSupply):
        graph = upstream.above
        yield graph


def _same(mine: Structure, theirs: Structure, vertices: Int32) -> Int32:
    """The vertices with the same uuids in another structure, -1 where it has none."""
    number = np.full(mine.n, -1, np.int32)
    for v in np.unique(vertices).tolist():
        with suppress(UnknownPool):
            number[v] = theirs.vertex(mine.uuid(v))
    found: Int32 = number[vertices]
    return found


def _ignore() -> None:
    """The default of `on_change`."""

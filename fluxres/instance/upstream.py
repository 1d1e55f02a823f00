"""What a child instance draws from suppliers that it has only as a way (rule N1).

Power and bandwidth are not cut into parts when a job becomes an instance: a PDU supplies the nodes of many jobs.  A child whose
job was given watts has these.  One whose job was given none asks its parent, whenever a job of its own takes or reserves
some: the parent charges its own pools, under the child's job, and asks its own parent in turn where it has them as a way
itself.  So every supplier has the whole draw of all that is below it, and what is drawn elsewhere shows in the child as held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fluxres.allocation import steps
from fluxres.allocation.records import ELSEWHERE
from fluxres.allocation.steps import Steps
from fluxres.clock import FOREVER
from fluxres.errors import FluxresError, InfeasibleRequest, InsufficientResources, StaleHandle, UnknownPool
from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import WAY
from fluxres.instance import recording
from fluxres.model import changes, joining
from fluxres.model.supply import Ends
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.instance.instance import Instance
    from fluxres.instance.job import Job
    from fluxres.model import ResourceGraph

Vertices = Sequence[int] | NDArray[np.int32]
Amounts = Sequence[int] | NDArray[np.int64]


class ParentSupply:
    """The suppliers that a child instance shares with others, and its parent, which gives units of them.

    Args:
        parent: its job holds what the child has.
        graph: of the child, with `linked` set on its structure.
    """

    def __init__(self, parent: Instance, job: Job, graph: ResourceGraph) -> None:
        self.parent, self.job, self.graph = parent, job, graph
        self.is_closed = False
        self.until = job.limit
        """Until when the parent is charged, in ticks: what the child draws after its job's end, it will not draw."""
        self.on_change: Callable[[], None] = _ignore
        """Called when what is held elsewhere has changed."""
        self._seen: tuple[int, ...] = ()
        self._generations: tuple[int, int] = (-1, -1)
        self._above: dict[int, int] = {}
        self._compared: tuple[Structure, Structure, tuple[dict[Ends, int | None], list[Ends]]] | None = None
        self._given: tuple[tuple[int, int], dict[int, int]] = (-1, -1), {}

    @property
    def holder(self) -> str:
        """The job in the parent that draws what the child does."""
        return fluid.encode(self.job.number)

    def above(self) -> dict[int, int]:
        """By linked pool or edge of the child, that of the parent."""
        mine, theirs = self.graph, self.parent._graph
        generations = mine.generation, theirs.generation
        if generations != self._generations:
            linked = mine.structure.accounts.linked
            vertices = np.flatnonzero(linked).tolist() if linked is not None else []
            accounts = mine.structure.accounts
            self._above = {v: p for v in vertices if (p := accounts.same_in(theirs.structure.accounts, v)) >= 0}
            self._generations = generations
        return self._above

    def refresh(self) -> None:
        """Bring what is held elsewhere up to date; see Upstream."""
        graph, above = self.graph, self.parent._graph
        if self.is_closed:
            return
        if above.records.upstream is not None:
            above.records.upstream.refresh()
        state = above.revision, above.generation, graph.generation, self.until
        if state == self._seen:
            return
        changed = [graph.records.set_elsewhere(v, self.elsewhere(p)) for v, p in self.above().items()]
        self._seen = state
        if any(changed):
            graph.revision += 1
            self.on_change()

    def forget_elsewhere(self, vertices: Iterable[int]) -> None:
        """Hold nothing of these pools for what others draw, until the next refresh: the child is to get units of its own."""
        for v in vertices:
            self.graph.records.set_elsewhere(v, ())
        self._seen = ()

    def resized(self) -> dict[int, int]:
        """By linked pool or edge of which the parent has another number of units than the child knows, that number."""
        if self.is_closed:
            return {}
        mine, theirs = self.graph.structure.accounts.size, self.parent._graph.structure.accounts.size
        return {v: theirs.item(p) for v, p in self.above().items() if mine.item(v) != theirs.item(p)}

    def relimited(self) -> dict[Ends, int | None]:
        """By edge that has a capacity in the parent and none in the child, that capacity; None for the other way round."""
        return self._compare()[0]

    def cut_off(self) -> list[Ends]:
        """Edges of the child that the parent does not have."""
        return self._compare()[1]

    def _compare(self) -> tuple[dict[Ends, int | None], list[Ends]]:
        """The edges of the child and of its parent.  Cost: the ends of all edges, by uuid, once for each shape of the two."""
        mine, theirs = self.graph.structure, self.parent._graph.structure
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

    def resize(self, sizes: dict[int, int]) -> None:
        """Know as many units of some linked pools and edges as the parent has now, of which the child holds no more."""
        self.refresh()  # no more is held elsewhere than there is now
        joining.leave(self.graph, {v: (0, units) for v, units in sizes.items()}, self.parent._time.now)

    def elsewhere(self, p: int) -> Steps:
        """What is held of a pool of the parent, by any but the child's job, until that ends; never more than all of it."""
        records, accounts = self.parent._graph.records, self.parent._graph.structure.accounts
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

    def given(self) -> dict[int, int]:
        """By pool that the child has itself, that of the parent; without those that the parent does not have."""
        mine, theirs = self.graph, self.parent._graph
        generations = mine.generation, theirs.generation
        if self._given[0] != generations:
            found = {}
            for v in np.flatnonzero((mine.structure.flags & WAY) == 0).tolist():
                with suppress(UnknownPool):
                    found[v] = theirs.structure.vertex(mine.structure.where(v))
            self._given = generations, found
        return self._given[1]

    def drawn(self, v: int, now: int = 0) -> Steps:
        """What the child's own jobs and stages hold of a linked pool, as far as its job in the parent lasts.

        Args:
            now: what is over by then is left out.
        """
        total: Steps = ()
        records = self.graph.records
        of_pool = [held for owner, held in records.held.get(v, {}).items() if owner != ELSEWHERE]
        of_pool += [pools[v] for pools in records.implied.values() if v in pools]
        for held in of_pool:
            for s, e, amount in steps.within(held, 0, self.until):
                total = steps.add(total, s, e, amount) if e > now else total
        return total

    def take(self, vertices: Vertices, amounts: Amounts, start: int, end: int) -> None:
        """Charge the parent; see Upstream."""
        named = self._named(vertices, amounts)
        end = min(end, self.until)
        if not named or start >= end:
            return
        if self.is_closed:
            where = self.graph.structure.accounts.where(named[0][0])
            raise StaleHandle("the instance that gave its suppliers has ended", where=where)
        above = self.above()
        try:
            with recording.ours(self.parent.inventory):
                changes.allocate_more(self.parent._graph, self.holder, [(above[v], amount) for v, amount in named], (start, end))
        except InfeasibleRequest as error:  # the parent has given back what it had when the child began
            raise InsufficientResources(error.message, where=error.where, hint=error.hint) from None

    def give(self, vertices: Vertices, amounts: Amounts, start: int, end: int) -> None:
        """Give back to the parent; see Upstream."""
        named = self._named(vertices, amounts)
        end = min(end, self.until)
        if not named or start >= end or self.is_closed:
            return
        self._give([(v, amount, start, end) for v, amount in named])

    def note_route(self) -> None:
        """The job of the parent draws along a route; see Upstream."""
        self.parent._graph.records.note_route(self.holder)

    def _give(self, pieces: list[tuple[int, int, int, int]]) -> None:
        records, above = self.parent._graph.records, self.above()
        found = []
        for v, amount, start, end in pieces:
            p = above[v]
            held = records.given(p, self.holder)
            # What ended may have expired in the parent.
            found += [(p, min(amount, units), s, e) for s, e, units in steps.within(held, start, end)]
        if found:
            with recording.ours(self.parent.inventory):
                changes.free_pieces(self.parent._graph, self.holder, found)

    def give_all(self, now: int = 0) -> None:
        """Give back all that the child draws: its job in the parent is about to get another limit.

        Args:
            now: what is over by then stays as it is.
        """
        self._give([(v, n, s, e) for v in self.above() for s, e, n in self.drawn(v, now)])

    def take_all(self, until: int, now: int) -> None:
        """Draw again what the child draws, as far as its job lasts now; what is over is drawn no more (rule T2).

        Errors: InsufficientResources where the parent has not as much; nothing is drawn then.
        """
        self.until = until
        above = self.above()
        taken: list[tuple[int, int, int, int]] = []
        for v in above:
            for s, e, amount in self.drawn(v, now):
                try:
                    with recording.ours(self.parent.inventory):
                        changes.allocate_more(self.parent._graph, self.holder, [(above[v], amount)], (s, e))
                except FluxresError:
                    self._give(taken)
                    raise
                taken.append((v, amount, s, e))

    def take_left(self, until: int, now: int) -> list[str]:
        """Draw again what the child draws, as far as others leave it: its job in the parent is late (rule T1).

        Returns: where in the parent others hold some of it.
        """
        self.until = until
        above, parent, taken = self.above(), self.parent, []
        for v in sorted(above, reverse=True):  # before what is held whole implies it
            for s, e, amount in self.drawn(v, now):
                with recording.ours(parent.inventory):
                    is_whole = recording.hold_left(parent._graph, above[v], amount, self.holder, max(s, now), e)
                if not is_whole:
                    taken.append(parent._graph.structure.accounts.where(above[v]))
        return taken

    def close(self) -> None:
        """The child has ended: nothing it does reaches the parent any more."""
        self.is_closed = True

    def _named(self, vertices: Vertices, amounts: Amounts) -> list[tuple[int, int]]:
        linked = self.graph.structure.accounts.linked
        if linked is None:
            return []
        which = np.asarray(vertices)
        mask = linked[which]
        if not mask.any():
            return []
        above = self.above()
        return [(v, n) for v, n in zip(which[mask].tolist(), np.asarray(amounts)[mask].tolist(), strict=True) if v in above]


def _same(mine: Structure, theirs: Structure, vertices: Int32) -> Int32:
    """The vertices of another structure that have the same uuids, -1 for those that it does not have."""
    number = np.full(mine.n, -1, np.int32)
    for v in np.unique(vertices).tolist():
        with suppress(UnknownPool):
            number[v] = theirs.vertex(mine.uuid(v))
    found: Int32 = number[vertices]
    return found


def _ignore() -> None:
    """Nobody asked."""

"""The draws of one job, compared with what it holds (rule F2).

The ledger (:mod:`fluxres.allocation.drawn`) says for which pools units were drawn. Together with the records it determines what
else is freed when a job frees a pool, what stays drawn when the job keeps a pool longer, and what was drawn at a moment.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fluxres.allocation import drawn as drawing
from fluxres.allocation import steps
from fluxres.allocation.drawn import Consumers, DrawRecords, Rows
from fluxres.allocation.planned import Change, Piece, freed
from fluxres.allocation.steps import Steps, Subtrees, topmost
from fluxres.clock import FOREVER
from fluxres.graph.structure import Structure

if TYPE_CHECKING:
    from fluxres.match.typology import Typology  # imports the matcher, which an allocation by name does not need

Parts = Counter[tuple[int, ...]]
"""Units, by the group of suppliers that gives them."""


class OwnDraws:
    """What the pools of one structure draw by themselves.  Cost: O(n) for the first query."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._present: Typology | None = None

    @cached_property
    def _ordinary(self) -> Typology:
        from fluxres.match.typology import Typology

        return Typology(self._structure)

    def _typologies(self) -> Iterator[Typology]:
        """The machine with every supplier in service, then as it is, because a job keeps what it holds when a supplier fails."""
        yield self._ordinary
        dead = self._structure.outage.dead
        if dead:
            if self._present is None or self._present.dead is not dead:
                from fluxres.match.typology import Typology

                self._present = Typology(self._structure, dead, self._structure.outage.stated)
            yield self._present

    def lost(
        self, v: int, held: Mapping[int, int], before: Subtrees, after: Subtrees, apart: Mapping[int, Collection[int]]
    ) -> dict[int, int]:
        """By account, the units drawn for a pool that are freed when a job keeps less of the pool and of its contents.

        Args:
            held: by account, the units drawn for the pool.
            before, after: of this pool and those in it, the ones that the job holds exclusively.
            apart: pools in it with a separate draw from these accounts.
        """
        whole, typology = Parts(), self._ordinary
        for typology in self._typologies():
            whole = self._parts(typology, v, before, apart)
            if all(sum(held.get(account, 0) for account in givers) >= units for givers, units in whole.items()):
                break
        left = self._parts(typology, v, after, apart)
        is_whole = before == [(v, self._structure.accounts.end.item(v))]
        found: dict[int, int] = {}
        for givers, units in sorted(whole.items()):
            there = {account: held.get(account, 0) - found.get(account, 0) for account in givers}
            total = sum(there.values())
            if total > units and not is_whole:
                continue  # a request drew some of it for parts of the pool
            going = min(total, units - left[givers])
            for account in reversed(givers):  # suppliers are used in order, so the last units came from the last
                taken = min(going, there[account])
                if taken:
                    found[account] = found.get(account, 0) + taken
                going -= taken
        return found

    def _parts(self, typology: Typology, v: int, whole: Subtrees, apart: Mapping[int, Collection[int]]) -> Parts:
        """What a pool draws for the exclusive pools in it, without those that have a separate draw."""
        found = Parts()
        for kind in typology.drawn_by_itself if whole else ():
            charged = {account for givers, _ in typology.paths.charged(v, kind) or () for account in givers}
            others = [w for w, accounts in apart.items() if not charged.isdisjoint(accounts)]
            for charge in typology.charged_by_itself(v, kind, partial(self._is_none_of, whole, others)):
                if charge.pool == v:
                    found.update(dict(charge.parts or ()))
        return found

    def _is_none_of(self, whole: Subtrees, others: list[int], u: int) -> bool:
        """Whether a pool is outside all subtrees of `whole`, or in one of the others."""
        end = self._structure.end.item
        return not any(start <= u < stop for start, stop in whole) or any(w <= u < end(w) for w in others)


_NOTHING: Mapping[int, Steps] = {}


class JobDraws:
    """The draws of one owner, for one query or one change: it is stale once the owner's records change.

    Args:
        structure: the machine.
        drawn: the ledger of all owners.
        owner: a job, or a stage.
        given: what the owner has of an account over time, recorded or implied.
        pools: the accounts of which the owner has anything, ascending.
        own_draws: what pools of the machine draw by themselves.
    """

    def __init__(
        self,
        structure: Structure,
        drawn: DrawRecords,
        owner: str,
        given: Callable[[int], Steps],
        pools: Callable[[], list[int]],
        own_draws: Callable[[], OwnDraws],
    ) -> None:
        self._structure = structure
        self._accounts = structure.accounts
        self._drawn = drawn
        self._owner = owner
        self._given = given
        self._list_pools = pools
        self._own_draws = own_draws

    @cached_property
    def _pools(self) -> list[int]:
        return self._list_pools()

    # -- queries -----------------------------------------------------------------------------------------------------

    def at(self, moment: int) -> Rows:
        """Rows of what is drawn, for which pools, of what the job holds at a moment."""
        rows: list[tuple[int, int, int]] = []
        for owner, consumers, account, held in self._drawn.rows():
            units = steps.amount_at(held, moment) if owner == self._owner else 0
            if units:
                rows += [(v, account, units if v == consumers[0] else 0) for v in consumers]
        return np.array(sorted(rows), np.int64).reshape(-1, 3)

    def windows_of(self, v: int, gone: Mapping[int, Steps] = _NOTHING) -> list[tuple[int, int]]:
        """Windows in which the job has a pool or something in it, apart from what was drawn there for other pools.

        Args:
            gone: by vertex, what is being freed.
        """
        inside = self._pools[bisect_left(self._pools, v) : bisect_left(self._pools, self._accounts.end.item(v))]
        found = [(s, e) for u in inside for s, e, _ in steps.excess(self._left(u, gone), self._drawn.total(self._owner, u))]
        for u in self._accounts.ancestors(v):
            found += steps.whole(self._left(u, gone), 0, FOREVER, 0, self._accounts.size.item(u))
        return found

    def going_with(self, tops: Collection[int], moment: int) -> dict[int, int]:
        """By account, the units that are freed at a moment together with some pools and everything in them.

        If a pool above them was held exclusively, the rest of it is held in parts from then on.
        """
        found: dict[int, int] = {}
        for consumers in self._drawn.related(self._owner, tops, self._accounts.end):
            if not any(self._has_beside(v, tops, moment) for v in consumers):
                for account, held in self._drawn.of(self._owner, consumers).items():
                    found[account] = found.get(account, 0) + steps.amount_at(held, moment)
        return {account: units for account, units in found.items() if units}

    def cut_off(self, top: int) -> dict[int, Steps]:
        """By edge into a pool that the job freed, what was drawn through the edge for pools above that pool.

        Edges that lead on from there are left out: they may serve another pool below the same pools.
        """
        ledger, stop = self._drawn.ledgers.get(self._owner), self._accounts.end.item(top)
        found: dict[int, Steps] = {}
        for consumers in ledger.accounts if ledger is not None else ():
            if not any(v < top < self._accounts.end.item(v) for v in consumers):
                continue
            drawn = self._drawn.of(self._owner, consumers)
            edges = {u: self._accounts.edge(u)[1:] for u in drawn if self._accounts.is_edge(u)}
            into = {u for u, (_, dst) in edges.items() if top <= dst < stop}
            if not any(top <= src < stop for u, (src, _) in edges.items() if u not in into):
                found |= {u: steps.joined([found.get(u, ()), drawn[u]]) for u in into}
        return found

    def _left(self, v: int, gone: Mapping[int, Steps]) -> Steps:
        """What the job has of an account after the free."""
        return steps.excess(self._given(v), gone.get(v, ()))

    def _left_alone(
        self, vertices: Iterable[int], gone: Mapping[int, Steps] = _NOTHING
    ) -> Iterator[tuple[Consumers, list[tuple[int, int]]]]:
        """Consumers near some pools, and windows in which the job has nothing of them after the free.

        Args:
            gone: by vertex, what is being freed.
        """
        for consumers in self._drawn.related(self._owner, vertices, self._accounts.end):
            used = [window for v in consumers for window in self.windows_of(v, gone)]
            yield consumers, steps.without(0, FOREVER, used)

    def _has_beside(self, v: int, tops: Collection[int], moment: int) -> bool:
        """Whether the job has a pool, or something in it, after `tops` and everything in them are freed."""
        end, size, pools = self._accounts.end, self._accounts.size, self._pools

        def rest(u: int) -> int:  # pools in u that are left, without pass-through pools
            ways = {w for top in tops if u <= top < end.item(u) for w in self._accounts.ancestors(top) if w >= u}
            gone = sum(end.item(top) - top for top in tops if u <= top < end.item(u))
            return end.item(u) - u - gone - len(ways)

        if any(top <= v < end.item(top) for top in tops):
            return False
        for u in pools[bisect_left(pools, v) : bisect_left(pools, end.item(v))]:
            units = steps.amount_at(steps.excess(self._given(u), self._drawn.total(self._owner, u)), moment)
            is_left = not any(top <= u < end.item(top) for top in tops)
            is_whole = units == size.item(u) and any(u < top < end.item(u) for top in tops)
            if units and is_left and (not is_whole or rest(u)):
                return True
        above = self._accounts.ancestors(v)
        return any(steps.amount_at(self._given(u), moment) == size.item(u) for u in above) and rest(v) > 0

    # -- what is freed along with pools ------------------------------------------------------------------------------

    def with_drawn(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces to free, with the draws of pools of which nothing is left; an account's units are freed only once."""
        gone = freed(pieces)
        more: dict[int, Steps] = {}
        for consumers, windows in self._left_alone(gone, gone):
            for account, held in self._drawn.of(self._owner, consumers).items():
                more[account] = steps.joined([more.get(account, ()), steps.clipped(held, windows)])
        for _, account, held in self.lost(gone):
            more[account] = steps.joined([more.get(account, ()), held])
        # Units named together with the pool they were drawn for are freed once, and only held units are, so no free can fail.
        rest = drawing.minus(more, gone)
        rest = {account: steps.least_of(held, self._left(account, gone)) for account, held in rest.items()}
        own = [piece for piece in pieces if piece[0] not in rest]
        joined = {account: steps.joined([gone.get(account, ()), held]) for account, held in sorted(rest.items())}
        return own + [(account, amount, s, e) for account, held in joined.items() for s, e, amount in held]

    def lost(self, gone: Mapping[int, Steps]) -> list[tuple[Consumers, int, Steps]]:
        """The own draws that are freed because the job frees a part of a pool and keeps the rest.

        Args:
            gone: by vertex, what is being freed.
        """
        found: list[tuple[Consumers, int, Steps]] = []
        if not self._structure.kinds.may_draw or self._owner not in self._drawn.ledgers:
            return found
        singles = sorted(consumers[0] for consumers in self._drawn.ledgers[self._owner].accounts if len(consumers) == 1)
        for consumers, alone in self._left_alone(gone, gone):
            if len(consumers) == 1:
                stop = self._accounts.end.item(consumers[0])
                inside = singles[bisect_right(singles, consumers[0]) : bisect_left(singles, stop)]
                lost = self._lost_of(consumers[0], gone, inside, steps.without(0, FOREVER, alone))
                found += [(consumers, account, spans) for account, spans in lost.items()]
        return found

    def _lost_of(self, v: int, gone: Mapping[int, Steps], inside: list[int], used: list[tuple[int, int]]) -> dict[int, Steps]:
        """By account, the own draws for a pool that end because the job no longer has all of the pools that draw.

        Args:
            inside: pools in this one that have a separate draw.
            used: windows in which the job keeps something there.
        """
        pools, end = self._pools, self._accounts.end.item(v)
        around = [*self._accounts.ancestors(v), *pools[bisect_left(pools, v) : bisect_left(pools, end)]]
        parts = [(u, had, self._left(u, gone)) for u in around if (had := self._given(u))]
        going = [window[:2] for _, had, left in parts if had != left for window in steps.excess(had, left)]
        if not any(s < until and since < e for s, e in going for since, until in used):
            return {}
        drawn, apart = self._drawn.of(self._owner, (v,)), {u: self._drawn.of(self._owner, (u,)) for u in inside}
        every = [*(held for _, had, left in parts for held in (had, left)), *drawn.values()]
        every += [held for by_account in apart.values() for held in by_account.values()]
        moments = sorted({at for held in every for s, e, _ in held for at in (s, e)})
        found: dict[int, list[tuple[int, int, int]]] = {}
        for start, stop in pairwise(moments):
            if not (any(s <= start < e for s, e in used) and any(s <= start < e for s, e in going)):
                continue
            before = self._whole_at(v, [(u, had) for u, had, _ in parts], start)
            after = self._whole_at(v, [(u, left) for u, _, left in parts], start)
            if before == after:
                continue
            held = {account: units for account, spans in drawn.items() if (units := steps.amount_at(spans, start))}
            others = {
                u: {account for account, spans in by_account.items() if steps.amount_at(spans, start)}
                for u, by_account in apart.items()
            }
            for account, units in self._own_draws().lost(v, held, before, after, others).items():
                found.setdefault(account, []).append((start, stop, units))
        return {account: steps.canonical(spans) for account, spans in found.items()}

    def _whole_at(self, v: int, parts: Iterable[tuple[int, Steps]], moment: int) -> Subtrees:
        """Of a pool and those in it, the topmost ones held exclusively at a moment, by a record or through a pool above."""
        size, end = self._accounts.size.item, self._accounts.end.item
        return topmost([(max(u, v), min(end(u), end(v))) for u, held in parts if steps.amount_at(held, moment) == size(u)])

    # -- updating the ledger -----------------------------------------------------------------------------------------

    def extend(self, planned: Sequence[Change], start: int, end: int, drawn: Rows) -> None:
        """Record draws that an allocation continues: units drawn for a pool up to `start`, if the job keeps the pool as well.

        Args:
            planned: what was allocated over [start, end).
            drawn: the pools for which parts of it are drawn, as far as the caller knows.
        """
        known = set(drawn[:, 1].tolist())
        for change in planned:
            if change.v in known:
                continue
            left = change.amount
            for consumers, units in self._drawn.ending(self._owner, change.v, start):
                used = [window for v in consumers for window in self.windows_of(v)]
                if units <= left and any(s <= start < e for s, e in used):
                    self._drawn.put(self._owner, consumers, change.v, ((start, end, units),))
                    left -= units

    def settle(self, vertices: Collection[int]) -> None:
        """After these vertices were freed, drop draws for pools of which nothing is left, and draws that exceed the records."""
        for consumers, windows in self._left_alone(vertices):
            for account, held in self._drawn.of(self._owner, consumers).items():
                if part := steps.clipped(held, windows):
                    self._drawn.drop(self._owner, consumers, account, part)
        for v in vertices:
            self._drawn.trim(self._owner, v, self._given(v))

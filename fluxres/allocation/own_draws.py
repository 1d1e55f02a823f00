"""How much of the units drawn for a pool it draws by itself: these are freed when a job no longer holds all of it (rule F2).

The ledger says for which pool units were drawn, and not whether a request asked for them.  So what a pool draws by itself is
computed as when it was allocated: from the pools that draw, along the paths to their suppliers, in parts where a supply enters at
several places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property, partial

from fluxres.allocation.subtrees import Subtrees
from fluxres.graph.structure import Structure
from fluxres.match.paths import Givers
from fluxres.match.typology import Typology

Parts = Counter[Givers]
"""Units, by the suppliers that give them together."""


class OwnDraws:
    """What the pools of one structure draw by themselves.  Cost: O(n) for the first question."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._present: Typology | None = None

    @cached_property
    def _ordinary(self) -> Typology:
        return Typology(self._structure)

    def _typologies(self) -> Iterator[Typology]:
        """The machine with every supplier in service, then as it is: a job keeps what it holds when a supplier fails."""
        yield self._ordinary
        dead = self._structure.outage.dead
        if dead:
            if self._present is None or self._present.dead is not dead:
                self._present = Typology(self._structure, dead, self._structure.outage.stated)
            yield self._present

    def lost(
        self, v: int, held: Mapping[int, int], before: Subtrees, after: Subtrees, apart: Mapping[int, Collection[int]]
    ) -> dict[int, int]:
        """By account, the units drawn for a pool that are freed when a job keeps less of the pool and of what is in it.

        Args:
            held: by account, the units drawn for the pool.
            before, after: the pools that the job holds exclusively, among this one and those in it.
            apart: pools in it for which something is drawn from these accounts separately.
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
                continue  # a request asked for some of it, for parts of the pool
            going = min(total, units - left[givers])
            for account in reversed(givers):  # suppliers are used in order, so the last units came from the last
                taken = min(going, there[account])
                if taken:
                    found[account] = found.get(account, 0) + taken
                going -= taken
        return found

    def _parts(self, typology: Typology, v: int, whole: Subtrees, apart: Mapping[int, Collection[int]]) -> Parts:
        """What a pool draws for the exclusive pools in it, without those that something is drawn for separately."""
        found = Parts()
        for kind in typology.drawn_by_itself if whole else ():
            charged = {account for givers, _ in typology.paths.charged(v, kind) or () for account in givers}
            others = [w for w, accounts in apart.items() if not charged.isdisjoint(accounts)]
            for charge in typology.charged_by_itself(v, kind, partial(self._is_none_of, whole, others)):
                if charge.pool == v:
                    found.update(dict(charge.parts or ()))
        return found

    def _is_none_of(self, whole: Subtrees, others: list[int], u: int) -> bool:
        """Whether a pool is in none of some subtrees, or in one of some others."""
        end = self._structure.end.item
        return not any(start <= u < stop for start, stop in whole) or any(w <= u < end(w) for w in others)

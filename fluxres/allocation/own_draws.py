"""What of the units drawn for a pool it draws by itself: so much goes when a job no longer has all of it (rule F2).

The records say for which pool units were drawn, and not whether a request asked for them.  So what a pool draws by itself is
computed as when it was allocated: from the pools that draw, along the ways from them, in parts where a supply comes in at several
places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

from fluxres.allocation import steps
from fluxres.allocation.steps import Steps
from fluxres.graph.structure import Structure
from fluxres.match.paths import Givers
from fluxres.match.typology import Typology

Parts = Counter[Givers]
"""Units by those that give them together."""


@dataclass(frozen=True, slots=True)
class Within:
    """A pool in another one, and when a job has it whole, or what is drawn for it by account."""

    v: int
    held: Mapping[int, Steps]


class OwnDraws:
    """What the pools of one structure draw by themselves.  Cost: of facts about the machine, O(n) when first asked for."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._present: Typology | None = None

    @cached_property
    def _ordinary(self) -> Typology:
        return Typology(self._structure)

    def _typologies(self) -> Iterator[Typology]:
        """The machine with every supplier in service, then as it is: what jobs hold they keep when a supplier fails."""
        yield self._ordinary
        dead = self._structure.outage.dead
        if dead:
            if self._present is None or self._present.dead is not dead:
                self._present = Typology(self._structure, dead, self._structure.outage.stated)
            yield self._present

    def lost(
        self,
        v: int,
        windows: Sequence[tuple[int, int]],
        held: Mapping[int, Steps],
        kept: Sequence[Within],
        apart: Sequence[Within],
    ) -> dict[int, Steps]:
        """By account, what a pool draws by itself with all that is in it, of what is drawn for it.

        Args:
            windows: in which a job no longer has all of the pool.
            held: by account, what is drawn for it.
            kept: pools in it that the job has whole then: they draw on.
            apart: pools in it for which something is drawn beside it.
        """
        cuts = {at for spans in held.values() for span in spans for at in span[:2]}
        cuts |= {at for inner in (*kept, *apart) for spans in inner.held.values() for span in spans for at in span[:2]}
        found: dict[int, list[tuple[int, int, int]]] = {}
        for start, end in windows:
            for at, until in pairwise(sorted({start, end, *(at for at in cuts if start < at < end)})):
                there = {account: units for account, spans in held.items() if (units := steps.amount_at(spans, at))}
                whole = [inner.v for inner in kept if any(steps.amount_at(spans, at) for spans in inner.held.values())]
                beside = {
                    inner.v: {account for account, spans in inner.held.items() if steps.amount_at(spans, at)} for inner in apart
                }
                for account, units in self._lost_at(v, there, whole, beside).items():
                    found.setdefault(account, []).append((at, until, units))
        return {account: steps.canonical(spans) for account, spans in sorted(found.items())}

    def _lost_at(self, v: int, held: dict[int, int], kept: list[int], apart: dict[int, set[int]]) -> dict[int, int]:
        """The same at one moment, where each of these pools is kept, or has something drawn for it."""
        parts = Parts()
        for typology in self._typologies():
            parts = self._parts(typology, v, kept, apart)
            if all(sum(held.get(account, 0) for account in givers) >= units for givers, units in parts.items()):
                break
        found: dict[int, int] = {}
        for givers, wanted in sorted(parts.items()):
            units = wanted
            for account in reversed(givers):  # the first give first, so what came last is of the last
                taken = min(units, held.get(account, 0) - found.get(account, 0))
                if taken:
                    found[account] = found.get(account, 0) + taken
                units -= taken
        return found

    def _parts(self, typology: Typology, v: int, kept: list[int], apart: dict[int, set[int]]) -> Parts:
        """What a pool draws with all in it that is neither kept nor drawn for apart."""
        found = Parts()
        for kind in typology.drawn_by_itself:
            charged = {account for givers, _ in typology.paths.charged(v, kind) or () for account in givers}
            others = [*kept, *(w for w, accounts in apart.items() if accounts & charged)]
            for charge in typology.charged_by_itself(v, kind, partial(self._is_in, others)):
                if charge.pool == v:
                    found.update(dict(charge.parts or ()))
        return found

    def _is_in(self, pools: Sequence[int], u: int) -> bool:
        return any(w <= u < self._structure.end.item(w) for w in pools)

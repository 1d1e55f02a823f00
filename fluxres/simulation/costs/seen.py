"""What the decisions were like that a cost model was fitted to, which bounds where the fit may be used.

A term of a quantity that did not vary, or only together with others, could as well be any other number if theirs change with
it: the fit is right for decisions like those, and for others it is a guess.  So a fit remembers such quantities with the
values that it saw, and refuses others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from fluxres import limits
from fluxres.errors import UsageError
from fluxres.simulation.costs.decision import Decision

QUANTITIES: Final = {"size": "units of the instance", "units": "units of the job", "pools": "pools of the job"}
"""What starts differ in, and what it means."""
COUNTS: Final = {"considered": "jobs tried at once", "queued": "waiting jobs"}

FAR: Final = 4
"""How far a term is extended: up to this many times the largest count that was seen."""

ALIKE: Final = 1e-3
"""Relative singular value below which quantities count as varying only together."""


@dataclass(frozen=True)
class FitBounds:
    """Bounds of a fit.

    Args:
        considered, queued: the largest numbers seen, if the fit has a term for them; -1 if not.
        quantities: names of those that it could not tell apart.
        starts: their values, of starts that it saw; any if `quantities` is empty.
    """

    considered: int = -1
    queued: int = -1
    quantities: tuple[str, ...] = ()
    starts: frozenset[tuple[int, ...]] = frozenset()

    def require(self, made: Decision) -> None:
        """Refuse a decision that the fit does not describe.

        Errors: UsageError.
        """
        for name in COUNTS:
            most: int = getattr(self, name)
            if most >= 0 and (found := getattr(made, name)) > max(FAR * most, 1):
                raise _refusal(f"{found} {COUNTS[name]}; it saw at most {most}")
        if self.quantities and made.started and (own := self._of(made)) not in self.starts:
            said = " and ".join(f"{value} {QUANTITIES[name]}" for name, value in zip(self.quantities, own, strict=True))
            raise _refusal(f"a start with {said}; it saw {self._listed()} ({'/'.join(self.quantities)})")

    def _of(self, made: Decision) -> tuple[int, ...]:
        return tuple(getattr(made, name) for name in self.quantities)

    def _listed(self) -> str:
        return " and ".join("/".join(map(str, row)) for row in sorted(self.starts, reverse=True))

    def __str__(self) -> str:
        """The form that `parse` accepts.

        >>> str(FitBounds(queued=40, quantities=("size", "units"), starts=frozenset({(256, 1)})))
        'queued:40;size/units:256/1'
        """
        parts = [f"{name}:{getattr(self, name)}" for name in COUNTS if getattr(self, name) >= 0]
        if self.quantities:
            rows = "+".join("/".join(map(str, row)) for row in sorted(self.starts, reverse=True))
            parts.append(f"{'/'.join(self.quantities)}:{rows}")
        return ";".join(parts)


def parse(text: str, where: str = "cost") -> FitBounds:
    """Bounds as text.

    Errors: UsageError.

    >>> parse("queued:40;size/units:256/1+32/1").starts == {(256, 1), (32, 1)}
    True
    """
    counts: dict[str, int] = {}
    quantities: tuple[str, ...] = ()
    starts: frozenset[tuple[int, ...]] = frozenset()
    try:
        for part in text.split(";"):
            name, _, rest = part.partition(":")
            if name in COUNTS:
                counts[name] = int(rest)
                continue
            quantities = tuple(name.split("/"))
            starts = frozenset(tuple(map(int, row.split("/"))) for row in rest.split("+"))
            if not set(quantities) <= set(QUANTITIES) or {len(row) for row in starts} != {len(quantities)}:
                raise ValueError
    except ValueError:
        hint = "write it as a measured run prints it, such as queued:40;size/units:256/1+32/1"
        raise UsageError(f"expected what a fit saw, got {text!r:.80}", where=where, hint=hint) from None
    return FitBounds(**counts, quantities=quantities, starts=starts)


class Sights:
    """What the decisions of a fit are like."""

    def __init__(self) -> None:
        self._most = dict.fromkeys(COUNTS, 0)
        self._starts: dict[tuple[int, int, int], None] = {}

    def add(self, made: Decision) -> None:
        for name, most in self._most.items():
            self._most[name] = max(most, getattr(made, name))
        if made.started and len(self._starts) < limits.FIT_STARTS_MAX:
            self._starts[made.size, made.units, made.pools] = None

    def not_identified(self) -> tuple[str, ...]:
        """Quantities that did not vary, or only together with others; none if there was no start.

        These are the columns of the matrix of all different starts that take part in its null space.
        """
        if not self._starts:
            return ()
        rows = np.array([(1.0, *_columns(*start)) for start in self._starts])
        rows /= np.abs(rows).max(axis=0, initial=1.0, where=rows != 0)
        _, values, vectors = np.linalg.svd(rows, full_matrices=True)
        rank = int((values > ALIKE * values[0]).sum())
        part = np.abs(vectors[rank:]).max(axis=0, initial=0.0)
        found = {name for name, own in zip(("", "size", "units", "pools", "pools"), part.tolist(), strict=True) if own > ALIKE}
        return tuple(name for name in QUANTITIES if name in found)

    def seen(self, *, is_considered: bool, is_queued: bool) -> FitBounds | None:
        """The bounds of a fit with or without terms for the two counts; None if it has none."""
        quantities = self.not_identified()
        at = [list(QUANTITIES).index(name) for name in quantities]
        own = dict.fromkeys(tuple(start[each] for each in at) for start in self._starts)
        starts = frozenset(list(own)[: limits.FIT_STARTS_LISTED_MAX])
        found = FitBounds(
            self._most["considered"] if is_considered else -1,
            self._most["queued"] if is_queued else -1,
            quantities,
            starts if quantities else frozenset(),
        )
        return None if found == FitBounds() else found


def _columns(size: int, units: int, pools: int) -> Iterator[float]:
    yield from (float(size), float(units), float(np.log2(max(pools, 1))), float(pools > 1))


def _refusal(said: str) -> UsageError:
    hint = "measure with calibration (--cost measured:calibrate), whose fit describes other topologies as well"
    return UsageError(f"the fitted cost does not describe {said}", where="cost", hint=hint)

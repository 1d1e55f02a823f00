"""What a scheduling decision costs in simulated time.

A scheduler makes one decision after the other, and that is what limits a flat instance with a million short jobs.  A cost model
states how long a decision keeps its instance busy: not at all, always the same time, depending on what it had to look at, or as
long as it actually took here, with the real matcher on the real graph.  A decision starts at most one job; a job that needs the
next decision waits for it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import astuple, dataclass
from itertools import combinations
from typing import Final, NamedTuple, Protocol

import numpy as np

from fluxres.errors import UsageError


class Decision(NamedTuple):
    """One decision, as a cost model sees it.

    Args:
        considered: starts and reservations that were tried.
        started: 1 if a job was started, else 0.
        queued: waiting jobs.
        size: units of the machine of the instance.
        took_s: processor time that it took here; 0 unless the model measures.
        units: what the job that was started holds, in the same units.
        is_first: whether it is the first decision of its instance, which makes tables that later ones use.
        pools: the number of pools that the job that was started gets something of; 0 unless the model `sees_pools`.
    """

    considered: int
    started: int
    queued: int
    size: int
    took_s: float
    units: int = 0
    is_first: bool = False
    pools: int = 0

    @property
    def doublings(self) -> float:
        """The logarithm of `pools` to the base 2; 0 for none."""
        return math.log2(self.pools) if self.pools > 1 else 0.0


class Cost(Protocol):
    @property
    def measures(self) -> bool:
        """Whether the model needs `took_s`."""

    @property
    def sees_pools(self) -> bool:
        """Whether the model needs `pools`."""

    def decide(self, made: Decision) -> float:
        """Seconds that a decision takes."""


@dataclass(frozen=True)
class Fitted:
    """A sum of terms; `fixed` is the special case of one term.

    Args:
        base_s: per decision.
        start_s: per start.
        considered_s: per job that was tried.
        queued_s: per waiting job.
        size_s: per unit of the machine.
        unit_s: per unit that a started job gets.
        first_s: for the first decision of an instance.
        doubling_s: per doubling of the number of pools that a started job gets something of: none for one pool, one for two.
    """

    base_s: float = 0.0
    start_s: float = 0.0
    considered_s: float = 0.0
    queued_s: float = 0.0
    size_s: float = 0.0
    unit_s: float = 0.0
    first_s: float = 0.0
    doubling_s: float = 0.0

    @property
    def measures(self) -> bool:
        return False

    @property
    def sees_pools(self) -> bool:
        return bool(self.doubling_s)

    @property
    def is_nothing(self) -> bool:
        """Whether decisions take no time."""
        return not any(astuple(self))

    def decide(self, made: Decision) -> float:
        return (
            self.base_s
            + self.start_s * made.started
            + self.considered_s * made.considered
            + self.queued_s * made.queued
            + self.size_s * made.size
            + self.unit_s * made.units
            + self.first_s * made.is_first
            + self.doubling_s * made.doublings
        )

    def __str__(self) -> str:
        """The form that `parse` accepts.

        >>> str(Fitted(start_s=0.02, size_s=1e-6))
        'fitted:start=0.02,size=1e-06'
        """
        parts = ",".join(f"{key}={value:.6g}" for key, value in zip(_FITTED, astuple(self), strict=True) if value)
        return f"fitted:{parts or 'base=0'}"


@dataclass(frozen=True)
class Measured:
    """The processor time it took on this machine, multiplied by a factor.

    Args:
        factor: for a machine that is slower (above 1) or faster.
        passes: how often a simulation is made, of which the last one counts (`least.Least`).
    """

    factor: float = 1.0
    passes: int = 8

    @property
    def measures(self) -> bool:
        return True

    @property
    def sees_pools(self) -> bool:
        return True

    def decide(self, made: Decision) -> float:
        return made.took_s * self.factor


_FITTED: Final = ("base", "start", "considered", "queued", "size", "unit", "first", "doubling")


class Quality(NamedTuple):
    """How well a fit describes the decisions that it was made from.

    Args:
        decisions: their number.
        mean_s: what one took on average.
        residual_s: the root of the mean square of what the fit does not say.
        explained: the fraction of the variance that the fit explains; below 0 if their mean alone describes them better.
    """

    decisions: int
    mean_s: float
    residual_s: float
    explained: float


NOTHING_S: Final = 1e-140
"""A decision that takes less is none: relative to it, the square of a term would not be a float."""


class Fit:
    """A cost model that wraps another one and fits a sum of terms to what that one returns.

    Least squares of relative errors, with no negative term; of the decisions of a kind, each next one has less weight, so that
    the few decisions of a parent count beside the many of its children.  Of all sets of terms, the one with the least Bayesian
    information criterion (Schwarz 1978): a term that explains little is left out, because it would be wrong elsewhere, and a
    machine of constant size gets no size term.  Stores sums of products, and the number of decisions of each kind.

    Args:
        cost: the wrapped model, usually `Measured`.

    >>> fit = Fit(Fitted(base_s=0.5, considered_s=0.25))
    >>> [fit.decide(Decision(tried, tried % 2, 9 - tried, 16, 0.0)) for tried in (1, 2, 3, 4)]
    [0.75, 1.0, 1.25, 1.5]
    >>> str(fit.fitted()), fit.quality().explained
    ('fitted:base=0.5,considered=0.25', 1.0)
    """

    def __init__(self, cost: Cost) -> None:
        self.cost = cost
        self._products = np.zeros((len(_FITTED) + 1, len(_FITTED) + 1))
        self._weighted = np.zeros_like(self._products)
        self._seen: Counter[tuple[float, ...]] = Counter()

    @property
    def measures(self) -> bool:
        return self.cost.measures

    @property
    def sees_pools(self) -> bool:
        return True

    def decide(self, made: Decision) -> float:
        found = self.cost.decide(made)
        terms = (1.0, made.started, made.considered, made.queued, made.size, made.units, made.is_first, made.doublings)
        products = np.outer(row := np.array((*terms, found)), row)
        self._products += products
        kind = (made.started, made.considered, made.queued.bit_length(), made.size, made.units, made.is_first, made.pools)
        if found > NOTHING_S and (self._seen[kind] or len(self._seen) < KINDS_MAX):
            self._seen[kind] += 1
            self._weighted += np.outer(row / found, row / found) / self._seen[kind]
        return found

    def quality(self) -> Quality:
        """How well the best fitting sum describes the decisions, from the same sums of products."""
        own = np.array([*astuple(self.fitted()), -1.0])
        number, total, squares = self._products[0, 0], self._products[0, -1], self._products[-1, -1]
        left = max(float(own @ self._products @ own), 0.0)
        spread = float(squares - total * total / number) if number else 0.0
        is_exact = left <= _GAIN_LEAST * squares or spread <= _GAIN_LEAST * squares  # or all decisions took the same time
        explained = 1.0 if is_exact else 1.0 - left / spread
        mean = float(total / number) if number else 0.0
        return Quality(int(number), mean, float(np.sqrt(left / number)) if number else 0.0, explained)

    def fitted(self) -> Fitted:
        """The best fitting sum.

        Cost: one small system of equations for each of the 255 sets of terms.
        """
        scale = np.sqrt(np.diag(self._weighted))
        scale[scale == 0.0] = 1.0
        products = self._weighted / np.outer(scale, scale)
        number_of, exact = float(self._weighted[-1, -1]), _GAIN_LEAST * float(products[-1, -1])
        if not number_of or not products[-1, -1]:
            return Fitted()

        def criterion(error: float, terms: int) -> float:
            return number_of * math.log(max(error, exact)) + terms * math.log(number_of)

        best, least = np.zeros(len(_FITTED)), criterion(float(products[-1, -1]), 0)
        for number in range(1, len(_FITTED) + 1):
            for chosen in map(list, combinations(range(len(_FITTED)), number)):
                inside, towards = products[np.ix_(chosen, chosen)], products[chosen, -1]
                parts = np.linalg.lstsq(inside, towards, rcond=None)[0]
                error = float(products[-1, -1] - 2 * parts @ towards + parts @ inside @ parts)
                found = criterion(error, number)
                if (parts >= 0.0).all() and found < least - _GAIN_LEAST:
                    best, least = np.zeros(len(_FITTED)), found
                    best[chosen] = parts
        return Fitted(*(best * scale[-1] / scale[:-1]).tolist())


KINDS_MAX: Final = 100_000
"""Bound on the kinds of decisions that are remembered."""

_GAIN_LEAST: Final = 1e-9
"""The fraction of the sum of squares below which a fit is exact."""


def parse(text: str | None) -> Cost | None:
    """A cost model from a command line argument.

    Args:
        text: ``none``; ``fixed:0.02`` seconds per start; ``fitted:start=0.01,considered=1e-4,size=1e-6``; ``measured`` or
            ``measured:2``.

    Errors: UsageError.

    >>> parse("fixed:0.02").decide(Decision(3, 1, 10, 100, 0.0))
    0.02
    """
    name, _, rest = (text or "none").partition(":")
    if name == "none" and not rest:
        return None
    if name == "fixed":
        return Fitted(start_s=_seconds(rest, text))
    if name == "measured":
        return Measured(_seconds(rest, text) if rest else 1.0)
    if name == "fitted":
        parts = {}
        for pair in rest.split(","):
            key, _, value = pair.partition("=")
            if key not in _FITTED:
                raise UsageError(f"expected {', '.join(_FITTED)}, got {key!r:.80}", where=f"cost {text!s:.80}")
            parts[f"{key}_s"] = _seconds(value, text)
        return Fitted(**parts)
    raise UsageError(f"expected none, fixed:S, fitted:PART=S,… or measured, got {text!r:.80}", where="cost")


def _seconds(value: str, text: str | None) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0.0 <= found < 1e9:
        raise UsageError(f"expected a number of at least 0, got {value!r:.80}", where=f"cost {text!s:.80}")
    return found

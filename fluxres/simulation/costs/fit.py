"""A cost model that is fitted to the decisions that another one saw."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from fluxres.simulation.costs.cost import TERMS, Fitted
from fluxres.simulation.costs.seen import Sights

if TYPE_CHECKING:
    from fluxres.simulation.costs.cost import Cost
    from fluxres.simulation.costs.decision import Decision


class Quality(NamedTuple):
    """How well a fit describes the decisions that it was made from.

    Args:
        decisions: their number.
        mean_s: what one took on average.
        residual_s: the root of the mean square of what the fit does not say.
        explained: the fraction of the variance that the fit explains; below 0 if their mean alone describes them better.
        not_identified: quantities whose terms no fit to these decisions could tell apart: they did not vary, or only together.
    """

    decisions: int
    mean_s: float
    residual_s: float
    explained: float
    not_identified: tuple[str, ...] = ()


NOTHING_S: Final = 1e-140
"""A decision that takes less is none: relative to it, the square of a term would not be a float."""


class Fit:
    """A cost model that wraps another one and fits a sum of terms to what that one returns.

    Least squares of relative errors, with no negative term; of the decisions of a kind, each next one has less weight, so
    that the few decisions of a parent count beside the many of its children.  Of all sets of terms, the one with the least
    Bayesian information criterion (Schwarz 1978): a term that explains little is left out, because it would be wrong
    elsewhere, and a machine of constant size gets no size term.  Stores sums of products, the number of decisions of each
    kind, and what starts were like: a fit that cannot tell terms apart is valid for such starts only (`seen.Seen`).

    Of several workloads (`begin`), each has the same weight, and the set of terms is the one that predicts each workload best
    from the others.

    Args:
        cost: the wrapped model, usually `Measured`.

    >>> from fluxres.simulation.costs.decision import Decision
    >>> fit = Fit(Fitted(base_s=0.5, considered_s=0.25))
    >>> [fit.decide(Decision(tried, tried % 2, 9 - tried, 16, 0.0)) for tried in (1, 2, 3, 4)]
    [0.75, 1.0, 1.25, 1.5]
    >>> str(fit.fitted())
    'fitted:base=0.5,considered=0.25,seen=considered:4;size/units/pools:16/0/0'
    >>> fit.quality().explained, fit.quality().not_identified
    (1.0, ('size', 'units', 'pools'))
    """

    def __init__(self, cost: Cost) -> None:
        self.cost = cost
        self._products = np.zeros((len(TERMS) + 1, len(TERMS) + 1))
        self._groups = [np.zeros_like(self._products)]
        """By workload: sums of products of weighted relative values."""
        self._nothing = np.zeros_like(self._products)
        """The same of decisions that took no time, which are compared with the mean of all."""
        self._kinds: Counter[tuple[float, ...]] = Counter()
        self._sights = Sights()

    @property
    def measures(self) -> bool:
        return self.cost.measures

    @property
    def sees_pools(self) -> bool:
        return True

    @property
    def sees_load(self) -> bool:
        return self.cost.sees_load

    def begin(self) -> None:
        """Decisions from now on are of another workload."""
        if self._groups[-1].any():
            self._groups.append(np.zeros_like(self._products))
            self._kinds.clear()

    def decide(self, made: Decision) -> float:
        found = self.cost.decide(made)
        terms = (
            *(1.0, made.started, made.considered, made.queued, made.size, made.units, made.is_first),
            *(made.doublings, made.pools > 1),
        )
        self._sights.add(made)
        products = np.outer(row := np.array((*terms, found)), row)
        self._products += products
        kind = (made.started, made.considered, made.queued.bit_length(), made.size, made.units, made.is_first, made.pools)
        if self._kinds[kind] or len(self._kinds) < KINDS_MAX:
            self._kinds[kind] += 1
            if found > NOTHING_S:
                self._groups[-1] += np.outer(row / found, row / found) / self._kinds[kind]
            else:
                row[-1] = 0.0
                self._nothing += np.outer(row, row) / self._kinds[kind]
        return found

    def quality(self) -> Quality:
        """How well the best fitting sum describes the decisions, from the same sums of products."""
        own = np.array([*self.fitted().terms, -1.0])
        number, total, squares = self._products[0, 0], self._products[0, -1], self._products[-1, -1]
        left = max(float(own @ self._products @ own), 0.0)
        spread = float(squares - total * total / number) if number else 0.0
        is_exact = left <= _GAIN_LEAST * squares or spread <= _GAIN_LEAST * squares  # or all decisions took the same time
        explained = 1.0 if is_exact else 1.0 - left / spread
        mean = float(total / number) if number else 0.0
        residual = float(np.sqrt(left / number)) if number else 0.0
        return Quality(int(number), mean, residual, explained, self._sights.not_identified())

    def fitted(self) -> Fitted:
        """The best fitting sum.

        Cost: one small system of equations for each of the 511 sets of terms, and for each workload.
        """
        groups = [group / group[-1, -1] for group in self._groups if group[-1, -1]]
        if groups:
            mean = float(self._products[0, -1] / self._products[0, 0])
            groups = [group + self._nothing / (mean * mean * self._products[0, 0]) for group in groups]
        scale = np.sqrt(np.diag(sum(groups, np.zeros_like(self._products))))
        scale[scale == 0.0] = 1.0
        groups = [group / np.outer(scale, scale) for group in groups]
        best = np.zeros(len(TERMS))
        if groups and scale[-1]:
            best = _of_several(groups) if len(groups) > 1 else _of_one(groups[0], float(self._groups[-1][-1, -1]))
        sum_of = Fitted(*(best * scale[-1] / scale[:-1]).tolist())
        return replace(sum_of, seen=self._sights.seen(is_queued=sum_of.queued_s > 0, is_considered=sum_of.considered_s > 0))


def _sets() -> Iterator[list[int]]:
    """All sets of terms, small ones first."""
    for number in range(1, len(TERMS) + 1):
        yield from map(list, combinations(range(len(TERMS)), number))


def _solved(products: Any, chosen: list[int]) -> Any:
    """The best parameters of these terms; None if one of them is negative."""
    parts = np.linalg.lstsq(products[np.ix_(chosen, chosen)], products[chosen, -1], rcond=None)[0]
    return parts if (parts >= 0.0).all() else None


def _error(products: Any, chosen: list[int], parts: Any) -> float:
    inside, towards = products[np.ix_(chosen, chosen)], products[chosen, -1]
    return float(products[-1, -1] - 2 * parts @ towards + parts @ inside @ parts)


def _of_one(products: Any, number_of: float) -> Any:
    """The parameters by the Bayesian information criterion."""
    exact = _GAIN_LEAST * float(products[-1, -1])

    def criterion(error: float, terms: int) -> float:
        return number_of * math.log(max(error, exact)) + terms * math.log(number_of)

    best, least = np.zeros(len(TERMS)), criterion(float(products[-1, -1]), 0)
    for chosen in _sets():
        if (parts := _solved(products, chosen)) is None:
            continue
        found = criterion(_error(products, chosen, parts), len(chosen))
        if found < least - _GAIN_LEAST:
            best, least = np.zeros(len(TERMS)), found
            best[chosen] = parts
    return best


def _of_several(groups: list[Any]) -> Any:
    """The parameters of the set of terms that predicts each workload best from the others (cross-validation)."""
    every = sum(groups)
    best, least = np.zeros(len(TERMS)), float(every[-1, -1])
    for chosen in _sets():
        if (parts := _solved(every, chosen)) is None:
            continue
        found = 0.0
        for group in groups:
            if (own := _solved(every - group, chosen)) is None:
                break
            found += _error(group, chosen, own)
            if found >= least:
                break
        else:
            if found < least - _GAIN_LEAST:
                best, least = np.zeros(len(TERMS)), found
                best[chosen] = parts
    return best


KINDS_MAX: Final = 100_000
"""Bound on the kinds of decisions that are remembered."""

_GAIN_LEAST: Final = 1e-9
"""The fraction of the sum of squares below which a fit is exact."""

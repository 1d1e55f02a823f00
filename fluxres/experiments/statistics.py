"""Means and their confidence: Student's t over repeats, and ratios of pairs with the same seed.

Runs with the same seed see the same jobs, so ratios are computed per run and then averaged: variation between seeds affects both
runs and cancels.  The quantiles are tabulated here, because a dependency for one function of one variable is not worth it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

LEVEL: Final = 0.95
_T: Final = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
_Z: Final = 1.959964


class Estimate(NamedTuple):
    """A mean with its confidence interval.

    Args:
        mean: of the values.
        low, high: 95 % confidence; None for a single value.
        number: of values.
    """

    mean: float
    low: float | None
    high: float | None
    number: int


def student_t(freedom: int) -> float:
    """The 97.5 % quantile of Student's t.

    Args:
        freedom: degrees of freedom, at least 1.

    Beyond 30, an expansion around the normal distribution (Abramowitz and Stegun 26.7.5), accurate to four digits.

    >>> student_t(4), round(student_t(60), 4)
    (2.7764, 2.0003)
    """
    if freedom <= len(_T):
        return _T[freedom - 1]
    z, n = _Z, freedom
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / n + second / n**2 + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)


def estimate(values: Sequence[float]) -> Estimate | None:
    """Mean and confidence interval; None for no values.

    >>> tuple(round(value, 3) for value in estimate([1.0, 2.0, 3.0]))
    (2.0, -0.484, 4.484, 3)
    """
    number = len(values)
    if not number:
        return None
    mean = math.fsum(values) / number
    if number == 1:
        return Estimate(mean, None, None, 1)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (number - 1))
    half = student_t(number - 1) * deviation / math.sqrt(number)
    return Estimate(mean, mean - half, mean + half, number)


def ratio(values: Mapping[int, float], base: Mapping[int, float]) -> Estimate | None:
    """Mean of the ratios of paired values; None if there is no pair.

    Args:
        values, base: by repeat. Pairs with a base of 0 are left out.

    >>> ratio({0: 4.0, 1: 9.0, 2: 5.0}, {0: 2.0, 1: 3.0})[0]
    2.5
    """
    return estimate([value / base[repeat] for repeat, value in values.items() if base.get(repeat)])

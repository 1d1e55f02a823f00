"""What a scheduling decision costs in simulated time.

A scheduler makes one decision after the other, and that is what limits a flat instance with a million short jobs.  A cost model
states how long a decision keeps its instance busy: not at all, always the same time, depending on what it had to look at, or as
long as it actually took here, with the real matcher on the real graph.  A decision starts at most one job; a job that needs the
next decision waits for it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, NamedTuple, Protocol

import numpy as np

from fluxres.errors import UsageError
from fluxres.simulation.seen import Seen, Sights
from fluxres.simulation.seen import parse as parse_seen


class Decision(NamedTuple):
    """One decision, as a cost model sees it.

    Args:
        considered: starts and reservations that were tried.
        started: 1 if a job was started, else 0.
        queued: waiting jobs.
        size: units of the machine of the instance.
        took_s: processor time that it took here; 0 unless the model measures.
        units: what the job that was started holds, in the same units.
        is_first: whether it is the first decision of its instance that tries a job, which makes tables that later ones use.
        pools: the number of pools that the job that was started gets something of; 0 unless the model `sees_pools`.
        asked: units that all jobs that were tried request together.
        free: units that were free before; 0 unless the model `sees_load`.
        held: jobs that held or had reserved something before; 0 unless the model `sees_load`.
        cores: of a unit of the machine; 1 for a machine without cores.
    """

    considered: int
    started: int
    queued: int
    size: int
    took_s: float
    units: int = 0
    is_first: bool = False
    pools: int = 0
    asked: int = 0
    free: int = 0
    held: int = 0
    cores: float = 1.0

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

    @property
    def sees_load(self) -> bool:
        """Whether the model needs `free` and `held`."""

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
        several_s: per start of a job that gets something of more than one pool.
        seen: what the decisions were like that it was fitted to; others are refused.  None for assumed constants.
    """

    base_s: float = 0.0
    start_s: float = 0.0
    considered_s: float = 0.0
    queued_s: float = 0.0
    size_s: float = 0.0
    unit_s: float = 0.0
    first_s: float = 0.0
    doubling_s: float = 0.0
    several_s: float = 0.0
    seen: Seen | None = None

    @property
    def measures(self) -> bool:
        return False

    @property
    def sees_pools(self) -> bool:
        return bool(self.doubling_s or self.several_s or (self.seen is not None and self.seen.starts))

    @property
    def sees_load(self) -> bool:
        return False

    @property
    def terms(self) -> tuple[float, ...]:
        """The seconds of all terms, in the order of `TERMS`."""
        return tuple(getattr(self, f"{name}_s") for name in TERMS)

    @property
    def is_nothing(self) -> bool:
        """Whether decisions take no time."""
        return not any(self.terms)

    def decide(self, made: Decision) -> float:
        """Seconds that a decision takes.

        Errors: UsageError for a decision that the fit does not describe.
        """
        if self.seen is not None:
            self.seen.require(made)
        return (
            self.base_s
            + self.start_s * made.started
            + self.considered_s * made.considered
            + self.queued_s * made.queued
            + self.size_s * made.size
            + self.unit_s * made.units
            + self.first_s * made.is_first
            + self.doubling_s * made.doublings
            + self.several_s * (made.pools > 1)
        )

    def __str__(self) -> str:
        """The form that `parse` accepts.

        >>> str(Fitted(start_s=0.02, size_s=1e-6))
        'fitted:start=0.02,size=1e-06'
        """
        parts = [f"{key}={value:.6g}" for key, value in zip(TERMS, self.terms, strict=True) if value]
        if self.seen is not None:
            parts.append(f"seen={self.seen}")
        return f"fitted:{','.join(parts) or 'base=0'}"


@dataclass(frozen=True)
class Measured:
    """The processor time it took on this machine, multiplied by a factor.

    Args:
        factor: for a machine that is slower (above 1) or faster.
        passes: how often a simulation is made, of which the last one counts (`least.Least`).
        calibrates: whether a workload of varied requests on instances of varied sizes is measured as well (`calibration`), so
            that the fit describes other topologies too.
    """

    factor: float = 1.0
    passes: int = 8
    calibrates: bool = False

    @property
    def measures(self) -> bool:
        return True

    @property
    def sees_pools(self) -> bool:
        return True

    @property
    def sees_load(self) -> bool:
        return False

    def decide(self, made: Decision) -> float:
        return made.took_s * self.factor


TERMS: Final = ("base", "start", "considered", "queued", "size", "unit", "first", "doubling", "several")


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

    Least squares of relative errors, with no negative term; of the decisions of a kind, each next one has less weight, so that
    the few decisions of a parent count beside the many of its children.  Of all sets of terms, the one with the least Bayesian
    information criterion (Schwarz 1978): a term that explains little is left out, because it would be wrong elsewhere, and a
    machine of constant size gets no size term.  Stores sums of products, the number of decisions of each kind, and what starts were
    like: a fit that cannot tell terms apart is valid for such starts only (`seen.Seen`).

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
        self._products = np.zeros((len(TERMS) + 1, len(TERMS) + 1))
        self._weighted = np.zeros_like(self._products)
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
        if found > NOTHING_S and (self._kinds[kind] or len(self._kinds) < KINDS_MAX):
            self._kinds[kind] += 1
            self._weighted += np.outer(row / found, row / found) / self._kinds[kind]
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

        Cost: one small system of equations for each of the 511 sets of terms.
        """
        scale = np.sqrt(np.diag(self._weighted))
        scale[scale == 0.0] = 1.0
        products = self._weighted / np.outer(scale, scale)
        number_of, exact = float(self._weighted[-1, -1]), _GAIN_LEAST * float(products[-1, -1])
        if not number_of or not products[-1, -1]:
            return Fitted()

        def criterion(error: float, terms: int) -> float:
            return number_of * math.log(max(error, exact)) + terms * math.log(number_of)

        best, least = np.zeros(len(TERMS)), criterion(float(products[-1, -1]), 0)
        for number in range(1, len(TERMS) + 1):
            for chosen in map(list, combinations(range(len(TERMS)), number)):
                inside, towards = products[np.ix_(chosen, chosen)], products[chosen, -1]
                parts = np.linalg.lstsq(inside, towards, rcond=None)[0]
                error = float(products[-1, -1] - 2 * parts @ towards + parts @ inside @ parts)
                found = criterion(error, number)
                if (parts >= 0.0).all() and found < least - _GAIN_LEAST:
                    best, least = np.zeros(len(TERMS)), found
                    best[chosen] = parts
        found = Fitted(*(best * scale[-1] / scale[:-1]).tolist())
        return replace(found, seen=self._sights.seen(is_queued=found.queued_s > 0, is_considered=found.considered_s > 0))


KINDS_MAX: Final = 100_000
"""Bound on the kinds of decisions that are remembered."""

_GAIN_LEAST: Final = 1e-9
"""The fraction of the sum of squares below which a fit is exact."""


def parse(text: str | None) -> Cost | None:
    """A cost model from a command line argument.

    Args:
        text: ``none``; ``fixed:0.02`` seconds per start; ``fitted:start=0.01,considered=1e-4,size=1e-6``; ``measured``,
            ``measured:2`` or ``measured:calibrate``; the name of a model, such as ``fluxion-first``.

    Errors: UsageError.

    >>> parse("fixed:0.02").decide(Decision(3, 1, 10, 100, 0.0))
    0.02
    """
    from fluxres.simulation.cost_models import MODELS, find  # it is made of what is here

    name, _, rest = (text or "none").partition(":")
    where = f"cost {text!s:.80}"
    if name == "none" and not rest:
        return None
    if name == "fixed":
        return Fitted(start_s=_seconds(rest, where))
    if name == "measured":
        words = rest.split(",") if rest else []
        factors = [word for word in words if word != "calibrate"]
        if len(factors) > 1 or len(words) - len(factors) > 1:
            raise UsageError("expected measured, measured:FACTOR, measured:calibrate or measured:FACTOR,calibrate", where=where)
        return Measured(_seconds(factors[0], where) if factors else 1.0, calibrates=len(words) > len(factors))
    if name == "fitted":
        return _fitted(rest, where)
    if any(name == model.name for model in MODELS) or name.startswith("flux"):
        return find(text or "").cost
    forms = "none, fixed:S, fitted:PART=S,…, measured or a model"
    raise UsageError(f"expected {forms}, got {text!r:.80}", where="cost", hint=f"models are {listed_models()}")


def _fitted(text: str, where: str) -> Fitted:
    parts: dict[str, float] = {}
    seen = None
    for pair in text.split(","):
        key, _, value = pair.partition("=")
        if key == "seen":
            seen = parse_seen(value, where)
        elif key in TERMS:
            parts[f"{key}_s"] = _seconds(value, where)
        else:
            raise UsageError(f"expected {', '.join(TERMS)}, got {key!r:.80}", where=where)
    return Fitted(**parts, seen=seen)


def listed_models() -> str:
    """The names of all models."""
    from fluxres.simulation.cost_models import MODELS

    return ", ".join(model.name for model in MODELS)


def _seconds(value: str, where: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0.0 <= found < 1e9:
        raise UsageError(f"expected a number of at least 0, got {value!r:.80}", where=where)
    return found

"""Cost models of other schedulers, by name: Fluxion's matches as measured, and the whole path of a job through Flux as published.

Constants are data here: each model has its source and how far it can be trusted.  Those of Fluxion are fitted to the match
times of 1,000 jobs, submitted at once, on machines of 16 to 10,240 nodes of 44 cores (`python -m tests.bench.fluxion_costs
DIR` makes them from the measured times).  They are costs of matching alone.  Those of Flux are rates in jobs per second of
everything that one instance does for a job, matching included, so that the two are never added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fluxres.documents.suggestion import choose_from, suggest
from fluxres.errors import UsageError
from fluxres.simulation.costs.decision import Decision


@dataclass(frozen=True)
class Matching:
    """Fluxion's matches in a decision: the one that starts a job, and one for each other job that is tried, which is reserved.

    Cores are those of the machine; each processor of a machine without cores counts as one.

    Args:
        start_s: per start.
        size_s: per start and core of the machine.
        free_s: per start and free core.
        unit_s: per core that the started job gets.
        plan_s: per reservation.
        plan_unit_s: per core that the job requests.
        held_s: per reservation, job that holds or has reserved something, and core of the machine.
    """

    start_s: float = 0.0
    size_s: float = 0.0
    free_s: float = 0.0
    unit_s: float = 0.0
    plan_s: float = 0.0
    plan_unit_s: float = 0.0
    held_s: float = 0.0

    measures: bool = field(default=False, init=False, repr=False)
    sees_pools: bool = field(default=False, init=False, repr=False)
    sees_load: bool = field(default=True, init=False, repr=False)

    def decide(self, made: Decision) -> float:
        size, planned = made.size * made.cores, made.considered - made.started
        spent = 0.0
        if made.started:
            spent = self.start_s + self.size_s * size + (self.free_s * made.free + self.unit_s * made.units) * made.cores
        if planned > 0:
            units = max(made.asked - made.units, 0) * made.cores
            spent += planned * (self.plan_s + self.held_s * made.held * size) + self.plan_unit_s * units
        return spent


@dataclass(frozen=True)
class StartRate:
    """The same time for each start, given as the number of jobs that an instance starts per second."""

    per_s: float

    measures: bool = field(default=False, init=False, repr=False)
    sees_pools: bool = field(default=False, init=False, repr=False)
    sees_load: bool = field(default=False, init=False, repr=False)

    def decide(self, made: Decision) -> float:
        return made.started / self.per_s


@dataclass(frozen=True)
class Residual:
    """How far a fit is from what it was fitted to.

    Args:
        matches: their number.
        factor: the median factor between fitted and measured time.
        explained: the fraction of the variance of the logarithms that the fit explains.
        totals: fitted divided by measured total, by the number of nodes.
    """

    matches: int
    factor: float
    explained: float
    totals: Mapping[int, float]

    def __str__(self) -> str:
        lowest, highest = min(self.totals.values()), max(self.totals.values())
        return (
            f"{self.matches:,} matches, off by a factor of {self.factor:.2f} at the median; totals by machine {lowest:.2f} to "
            f"{highest:.2f} times those measured"
        )


@dataclass(frozen=True)
class CostModel:
    """A named model.

    Args:
        name: as in studies and after ``--cost``.
        cost: of a decision.
        source: where its constants are from.
        valid: what was measured there.
        low, high: the range of rates in the source, of models by a rate; selected by ``NAME:low`` and ``NAME:high``.
        start, plan: residuals of the fits of starts and reservations, of fitted models.
    """

    name: str
    cost: Matching | StartRate
    source: str
    valid: str
    low: float | None = None
    high: float | None = None
    start: Residual | None = None
    plan: Residual | None = None

    @property
    def residuals(self) -> str:
        """What is known about its errors, in words."""
        if self.start is None or self.plan is None:
            return f"published rates: {self.low:g} to {self.high:g} jobs/s" if self.low is not None else "none published"
        return f"starts: {self.start}. Reservations: {self.plan}"


_BENCH: Final = (
    "match times of Fluxion (resource-query, allocate_orelse_reserve), 1,000 jobs submitted at once, one core of an AMD EPYC"
)
_NODES: Final = (16, 128, 1024, 4096, 10240)


def _measured(matches: int, factor: float, explained: float, *totals: float) -> Residual:
    return Residual(matches, factor, explained, dict(zip(_NODES, totals, strict=True)))


_RACK: Final = "16 to 10,240 nodes in racks of 16, 2 sockets of 22 cores, 59 pools a node; 1 core to 2,536 nodes a job"
_FLAT: Final = "16 to 10,240 nodes of 44 cores and 4 GPUs below the cluster; 1 core to 2,536 nodes a job"

MODELS: Final = (
    CostModel(
        "fluxion-first",
        Matching(1.15e-4, 6.74e-10, 0.0, 2.16e-6, 6.41e-5, 3.78e-6, 3.68e-10),
        f"{_BENCH}; policy first, racks",
        _RACK,
        start=_measured(522, 1.36, 0.89, 1.48, 1.34, 1.08, 0.88, 1.07),
        plan=_measured(4236, 1.61, 0.77, 0.96, 1.24, 1.06, 0.76, 0.77),
    ),
    CostModel(
        "fluxion-low",
        Matching(1.26e-4, 3.56e-9, 8.06e-7, 1.84e-6, 4.55e-5, 6.17e-6, 4.04e-10),
        f"{_BENCH}; policy low, racks",
        _RACK,
        start=_measured(700, 1.31, 0.95, 1.67, 1.40, 0.95, 0.98, 0.67),
        plan=_measured(3851, 1.51, 0.80, 1.00, 1.03, 0.76, 1.03, 1.06),
    ),
    CostModel(
        "fluxion-first-flat",
        Matching(1.77e-4, 9.17e-10, 0.0, 1.60e-6, 4.35e-5, 1.66e-6, 4.66e-10),
        f"{_BENCH}; policy first, no racks",
        _FLAT,
        start=_measured(501, 1.46, 0.86, 1.77, 1.53, 0.69, 0.98, 1.14),
        plan=_measured(4191, 1.64, 0.85, 0.84, 1.26, 1.48, 0.85, 0.59),
    ),
    CostModel(
        "fluxion-low-flat",
        Matching(0.0, 2.42e-8, 5.75e-7, 1.13e-6, 3.35e-5, 3.42e-6, 3.83e-10),
        f"{_BENCH}; policy low, no racks",
        _FLAT,
        start=_measured(695, 1.31, 0.93, 1.03, 1.51, 0.83, 0.91, 0.96),
        plan=_measured(3948, 1.43, 0.91, 0.94, 1.18, 0.89, 0.97, 0.89),
    ),
    CostModel(
        "flux-core-2021",
        StartRate(109.0),
        "https://github.com/flux-framework/flux-core/issues/3583",
        "throughput.py, April 2021: 4,096 jobs per iteration, execution simulated",
        104.8,
        113.7,
    ),
    CostModel(
        "flux-core-2022",
        StartRate(285.4),
        "https://github.com/flux-framework/flux-core/issues/4365",
        "throughput.py, June 2022: 128 jobs on one node of 48 cores, execution simulated",
        285.4,
        285.4,
    ),
    CostModel(
        "flux-core-2025",
        StartRate(139.0),
        "https://github.com/flux-framework/flux-core/issues/6690",
        "throughput.py, March 2025: 2,048 and 4,096 jobs, execution simulated; 67 jobs/s with 8,192, before its fixes",
        131.3,
        147.0,
    ),
    CostModel(
        "flux-exec-2022",
        StartRate(65.4),
        "https://github.com/flux-framework/flux-core/issues/4365",
        "throughput.py -x, June 2022: 256 real jobs on one node of 48 cores, without CPU affinity; 8.3 jobs/s with it",
        8.3,
        65.4,
    ),
    CostModel(
        "flux-frontier-2025",
        StartRate(700.0),
        "https://arxiv.org/abs/2509.20819",
        "RADICAL-Pilot with Flux on Frontier: over 700 tasks/s with one instance, up to 930 with several",
        700.0,
        930.0,
    ),
)
"""All models.  Fluxion's policies lonode and others were measured on one size of machine, which identifies no term for size."""


def find(text: str, where: str = "cost") -> CostModel:
    """The model of this name, or one end of its range: ``flux-core-2025:low``.

    Errors: UsageError for a name that does not exist, and for an end of a model without a range.

    >>> find("flux-core-2025:low").cost
    StartRate(per_s=131.3)
    """
    name, _, end = text.partition(":")
    names = [model.name for model in MODELS]
    model = next((model for model in MODELS if model.name == name), None)
    if model is None:
        raise UsageError(f"no cost model {name!r:.80}", where=where, hint=suggest(name, names) or choose_from(names))
    if not end:
        return model
    ends = {"low": model.low, "high": model.high}
    rate = ends.get(end)
    if rate is None:
        hint = "low and high are the ends of its range" if model.low is not None else "it has no range: give the name alone"
        raise UsageError(f"cost model {name}: no {end!r:.80}", where=where, hint=hint)
    return CostModel(text, StartRate(rate), model.source, model.valid, model.low, model.high)

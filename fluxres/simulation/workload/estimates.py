"""Models of the run times that users request: limits for jobs that have none, or in place of those that they have.

`factor` is the model of A. Mu'alem and D. Feitelson, Utilization, predictability, workloads, and user runtime estimates in
scheduling the IBM SP2 with backfilling, IEEE Trans. Parallel Distrib. Syst. 12(6), 2001.  `tsafrir` is that of D. Tsafrir,
Y. Etsion and D. G. Feitelson, Modeling user runtime estimates, JSSPP 2005: users choose few values, 20 of which make 89 % of the
jobs, the largest one first.  Its constants are those of the authors' program (`est_model.cc`, `est_model.hh` of
http://www.cs.huji.ac.il/labs/parallel/workload/m_tsafrir05).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import ceil, exp
from random import Random
from typing import Final

from fluxres import limits
from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.errors import LimitExceeded, UsageError
from fluxres.simulation.workload.workload import Submission, Workload
from fluxres.syntax.registry import Registry, Reported


class EstimateModel(ABC):
    """A model of estimates, a base class of such; any class with this method is one."""

    @abstractmethod
    def estimates(self, jobs: Sequence[Submission], drawn: Random) -> list[int]:
        """The limits of jobs, in ticks.

        Args:
            drawn: for all random numbers.
        """


class Exact(EstimateModel):
    """The run time."""

    def estimates(self, jobs: Sequence[Submission], drawn: Random) -> list[int]:
        return [job.run for job in jobs]


class Factor(EstimateModel):
    """The run time, times a factor that is uniformly distributed from 1 to f + 1; in whole seconds, rounded up."""

    def __init__(self, f: float = 1.0) -> None:
        if not 0 <= f <= 1e6:
            raise UsageError(f"expected 0 to 1e6, got {f!r:.80}", where="estimates factor f")
        self.f = f

    def estimates(self, jobs: Sequence[Submission], drawn: Random) -> list[int]:
        return [job.run if not self.f else _seconds_up(job.run * drawn.uniform(1.0, self.f + 1.0)) for job in jobs]


def _seconds_up(length: float) -> int:
    return ceil(length / TICKS_PER_S) * TICKS_PER_S


# -- Tsafrir, Etsion and Feitelson 2005 ------------------------------------------------------------------------------------

MINUTE: Final = 60
HOUR: Final = 3600
TOP: Final = 20
"""How many values are popular."""
HEAD_PERCENT: Final = 89.0
"""The jobs that use one of them."""
HEAD_SIZE: Final = (14.0491, -0.177531, 0.462513)
"""a, b, c: rank x from 2 to 20 has a * exp(b * x) + c percent of the jobs; rank 1 has the rest of the head."""
TAIL_POWER: Final = -2.267
"""The other values have sizes in proportion to this power of their rank, from 21 on."""
TAIL_TIMES: Final = (12.1039, -0.6026)
"""p, q: the time of relative rank x is (a - 1) * x / (a - x) of the largest, where a = 1 + p * K ** q, for K values."""
JOINT_S: Final = tuple(MINUTE * m for m in (5, 10, 15, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 720, 1080))
"""Popular in all four traces that the authors looked at."""
ROUND_S: Final = (*(HOUR * h for h in (200, 100, 50, 10, 5, 2, 1)), *(MINUTE * m for m in (20, 10, 5)))
"""Multiples of these, from the largest value down, complete the popular ones."""
RANKS: Final = (
    (3, 1, 1, 1),
    (1, 3, 4, 6),
    (4, 4, 10, 5),
    (17, 2, 14, 3),
    (13, 12, 20, 7),
    (7, 9, 2, 2),
    (8, 8, 3, 18),
    (18, 18, 7, 19),
    (2, 6, 12, 4),
    (6, 7, 6, 11),
    (16, 11, 19, 20),
    (10, 20, 5, 9),
    (5, 16, 18, 10),
    (15, 5, 16, 14),
    (14, 14, 9, 13),
    (19, 13, 17, 16),
    (11, 10, 15, 15),
    (12, 15, 13, 17),
    (9, 17, 8, 8),
    (20, 19, 11, 12),
)
"""By rank of a popular value in time (0 is the largest, then ascending): its rank by popularity in SDSC-SP2, CTC, KTH, BLUE."""
VALUES: Final = ((0, 0), (20, 10), (200, 20), (1000, 35), (10_000, 90), (70_000, 340), (250_000, 565))
"""Jobs, and how many different values they use; linear between."""
OFFSETS_S: Final = (0, 30, -30, 20, -20, 10, -10)
LARGEST_MIN_S: Final = 2 * HOUR
"""Below, there are fewer than 20 multiples of five minutes."""


class Modal(EstimateModel):
    """The model of Tsafrir, Etsion and Feitelson.

    Args:
        max_s: the largest value; 0 for the largest limit of the jobs, or their longest run time.
        share: the fraction of the jobs that request it; 0 for that of the model, about a quarter.
    """

    def __init__(self, max_s: float = 0, share: float = 0) -> None:
        if max_s and not LARGEST_MIN_S <= max_s <= 1e9:
            raise UsageError(f"expected 2 hours or more, got {max_s:g} s", where="estimates tsafrir max")
        if not 0 <= share < HEAD_PERCENT / 100:
            raise UsageError(f"expected 0 to {HEAD_PERCENT / 100:g}, got {share!r:.80}", where="estimates tsafrir share")
        self.max_s, self.share = max_s, share

    def estimates(self, jobs: Sequence[Submission], drawn: Random) -> list[int]:
        known = [job.limit for job in jobs if job.limit < FOREVER] or [job.run for job in jobs]
        largest = int(self.max_s) or max(LARGEST_MIN_S, -(-max(known, default=0) // TICKS_PER_S))
        values = distribution(len(jobs), largest, self.share, drawn)
        runs = [min(job.run, largest * TICKS_PER_S) for job in jobs]
        return assigned(runs, values, drawn)


def distribution(jobs: int, largest: int, share: float, drawn: Random) -> Counter[int]:
    """How many jobs use each value, in seconds.

    >>> found = distribution(10_000, 18 * 3600, 0.0, Random(1))
    >>> found.total(), len(found), found.most_common(1)[0][0] // 3600
    (10000, 90, 18)
    """
    head = dict(zip(_popular(largest), _head_percent(share, drawn), strict=True))
    number = different_values(jobs)
    times = _other_times(number - TOP, number, largest, head)
    sizes = [(TOP + 1 + at) ** TAIL_POWER for at in range(len(times))]
    scale = (100.0 - HEAD_PERCENT) / sum(sizes) if sizes else 0.0
    drawn.shuffle(times)
    percent = head | {time: size * scale for time, size in zip(times, sizes, strict=True)}
    whole = sum(percent.values())  # less than 100 only without other values
    found = Counter({time: max(1, round(jobs * part / whole)) for time, part in percent.items()})
    return _equalized(found, jobs, keep=largest if share else None)


def different_values(jobs: int) -> int:
    """How many values that many jobs use.

    >>> different_values(100), different_values(5500), different_values(10**6)
    (14, 63, 565)
    """
    for (low, few), (high, many) in pairwise(VALUES):
        if jobs <= high:
            return few + round((jobs - low) * (many - few) / (high - low))
    return VALUES[-1][1]


def _popular(largest: int) -> list[int]:
    """The popular values: the largest, then the others, ascending."""
    found = [time for time in JOINT_S if time < largest]
    for step in ROUND_S:
        for time in range(largest // step * step, 0, -step):
            if len(found) < TOP - 1 and time < largest and time not in found:
                found.append(time)
    return [largest, *sorted(found)]


def _head_percent(share: float, drawn: Random) -> list[float]:
    """The percentage of jobs of each popular value, in their order."""
    a, b, c = HEAD_SIZE
    others = [a * exp(b * rank) + c for rank in range(2, TOP + 1)]
    first = 100.0 * share or HEAD_PERCENT - sum(others)
    scale = (HEAD_PERCENT - first) / sum(others)
    sizes = sorted([first, *(size * scale for size in others)], reverse=True)
    return [sizes[rank - 1] for rank in _popularity(sizes.index(first) + 1, drawn)]


def _popularity(first: int, drawn: Random) -> list[int]:
    """A rank by popularity for each rank in time: one that it or an earlier one had in a trace, and never later than in any.

    Args:
        first: that of the largest value.
    """
    latest = {rank: at for at, row in enumerate(RANKS) for rank in row}
    found, pool = [first], [rank for rank in RANKS[0] if rank != first]
    for at in range(1, TOP):
        pool = [rank for rank in (*pool, *RANKS[at]) if rank not in found]
        due = [rank for rank in range(1, TOP + 1) if latest[rank] <= at and rank not in found]
        found.append(due[0] if due else min(drawn.choice(pool), drawn.choice(pool)))
    return found


def _other_times(number: int, different: int, largest: int, head: dict[int, float]) -> list[int]:
    p, q = TAIL_TIMES
    a = 1.0 + p * different**q if different else 2.0
    found: list[int] = []
    for rank in range(1, number + 1):
        x = rank / number
        time = round((a - 1.0) * x / (a - x) * largest / MINUTE) * MINUTE
        for offset in OFFSETS_S:
            if 0 < time + offset < largest and time + offset not in head and time + offset not in found:
                found.append(time + offset)
                break
    return found


def _equalized(found: Counter[int], jobs: int, keep: int | None) -> Counter[int]:
    """As many jobs as there are: what rounding has added or removed, one of each value in turns, most frequent ones first."""
    for least in (1, 0):
        while (more := jobs - found.total()) != 0:
            changed = [time for time, number in found.most_common() if time != keep and (more > 0 or number > least)][: abs(more)]
            if not changed:
                break
            for time in changed:
                found[time] += 1 if more > 0 else -1
    if keep is not None:
        found[keep] += jobs - found.total()
    return +found


def assigned(runs: Sequence[int], values: Counter[int], drawn: Random) -> list[int]:
    """A value for each job, at least its run time, in ticks.

    Errors: UsageError if too many jobs run longer than the values.
    """
    order = sorted(range(len(runs)), key=lambda at: -runs[at])
    left = sorted((time * TICKS_PER_S for time in values.elements()), reverse=True)
    for at, value in zip(order, left, strict=True):
        if runs[at] > value:
            raise UsageError(
                "too many jobs run longer than the values of the model",
                where="estimates tsafrir",
                hint="give a larger max, or the share of jobs that request it: tsafrir:max=36h,share=0.4",
            )
    found, high = [0] * len(runs), 0
    for at, job in enumerate(order):
        while high < len(left) - 1 and runs[job] <= left[high + 1]:
            high += 1
        chosen = drawn.randint(at, high)
        found[job] = left[chosen]
        left[chosen] = left[at]
    return found


ESTIMATES: Final[Registry[EstimateModel]] = Registry(
    "estimate model",
    {"exact": Exact, "factor": Factor, "tsafrir": Modal},
    "fluxres.estimate_models",
    methods=("estimates",),
)


def estimate(workload: Workload, model: str | EstimateModel, seed: int, *, missing: bool = False) -> None:
    """Give the jobs of a workload limits by a model, except jobs that are instances.

    Args:
        missing: only those without a limit.

    Errors: UsageError; LimitExceeded for more than `limits.JOBS_LISTED_MAX` jobs.
    """
    made = ESTIMATES.make(model) if isinstance(model, str) else model
    if (workload.count or 0) > limits.JOBS_LISTED_MAX:
        message = f"{workload.count:,} jobs, which are kept as a list; at most {limits.JOBS_LISTED_MAX:,} are allowed"
        raise LimitExceeded(message, where="estimates")
    jobs = list(workload.submissions)
    chosen = [at for at, job in enumerate(jobs) if not job.jobs and (job.limit >= FOREVER or not missing)]
    with Reported(f"estimate model {type(made).__name__}"):
        found = [max(int(limit), 1) for limit in made.estimates([jobs[at] for at in chosen], Random(seed))]
    if len(found) != len(chosen):
        message = f"expected a limit for each of {len(chosen):,} jobs, got {len(found):,}"
        raise UsageError(message, where=f"estimate model {type(made).__name__}")
    for at, limit in zip(chosen, found, strict=True):
        jobs[at] = jobs[at]._replace(limit=limit)
    short = sum(jobs[at].run > jobs[at].limit for at in chosen)
    if short:
        workload.notes["jobs run longer than the limit that a model gives them"] = short
    workload.submissions = jobs

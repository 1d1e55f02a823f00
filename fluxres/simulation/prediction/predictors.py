"""What a job is expected to run, by what jobs like it have run before.

`tsafrir` is from D. Tsafrir, Y. Etsion and D. G. Feitelson, Backfilling using system-generated predictions rather than user
runtime estimates, IEEE Trans. Parallel Distrib. Syst. 18(6), 2007.  `categories` is from W. Smith, I. Foster and V. Taylor,
Predicting application run times using historical information, JSSPP 1998, with categories like those of R. Gibbons, A historical
application profiler for use by parallel schedulers, JSSPP 1997.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from math import sqrt
from statistics import NormalDist
from typing import Final

from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.errors import UsageError
from fluxres.instance.inventory import requested_units
from fluxres.simulation.workload.workload import Submission


class Predictor(ABC):
    """A predictor, a base class of such; any class with these methods is one.

    A job is predicted once, when it is submitted.  The caller keeps the prediction between 1 and the limit.
    """

    @abstractmethod
    def predict(self, job: Submission) -> int:
        """How long a job runs, in ticks."""

    def ended(self, job: Submission, ran: int) -> None:
        """Learn from a job that has ended, and was not canceled.

        Args:
            ran: how long, in ticks.
        """


class RequestedTime(Predictor):
    """The limit of the job."""

    def predict(self, job: Submission) -> int:
        return job.limit


class Perfect(Predictor):
    """What it will really run."""

    def predict(self, job: Submission) -> int:
        return job.run


def _size(job: Submission) -> int:
    """The size by powers of two."""
    units = job.ask if isinstance(job.ask, int) else requested_units(job.ask, "core")
    return units.bit_length()


_FEATURES: Final[dict[str, Callable[[Submission], Hashable]]] = {
    "user": lambda job: job.user,
    "account": lambda job: job.account,
    "name": lambda job: job.name,
    "application": lambda job: job.application,
    "queue": lambda job: job.queue,
    "partition": lambda job: job.partition,
    "limit": lambda job: job.limit,
    "size": _size,
    "parallel": lambda job: _size(job) > 1,
}


class Category:
    """Tells jobs apart by some of their features: names joined by +.

    Errors: UsageError for a feature that jobs do not have.
    """

    def __init__(self, by: str) -> None:
        self.names = by.split("+")
        for name in self.names:
            if name not in _FEATURES:
                raise UsageError(f"no feature {name!r:.80}", where="predictor", hint=f"jobs have {', '.join(_FEATURES)}")

    def of(self, job: Submission) -> Hashable:
        return tuple(_FEATURES[name](job) for name in self.names)


def whole_seconds(length: float) -> int:
    """A length in ticks without the fraction of a second, unless that is all of it."""
    ticks = int(length)
    return ticks - ticks % TICKS_PER_S or ticks


class Average(Predictor):
    """The mean run time of the last jobs of the same category; the limit if there are too few.

    Args:
        last: how many of them count; 0 for all.
        least: how many there must be.
        by: what a category has in common: user, account, name, application, queue, partition, limit, size (by powers of two),
            parallel (more than one unit, or not), joined by +.
    """

    def __init__(self, last: int = 0, least: int = 1, by: str = "user") -> None:
        if last < 0 or least < 1 or 0 < last < least:
            raise UsageError(f"expected 1 <= least <= last, got least={least}, last={last}", where="predictor")
        self.last, self.least = last, least
        self.category = Category(by)
        self._sums: defaultdict[Hashable, int] = defaultdict(int)
        self._counts: defaultdict[Hashable, int] = defaultdict(int)
        self._runs: defaultdict[Hashable, deque[int]] = defaultdict(deque)

    def predict(self, job: Submission) -> int:
        key = self.category.of(job)
        count = self._counts.get(key, 0)
        return whole_seconds(self._sums[key] / count) if count >= self.least else job.limit

    def ended(self, job: Submission, ran: int) -> None:
        key = self.category.of(job)
        self._sums[key] += ran
        self._counts[key] += 1
        if self.last:
            self._runs[key].append(ran)
            if self._counts[key] > self.last:
                self._counts[key] -= 1
                self._sums[key] -= self._runs[key].popleft()


class Tsafrir(Average):
    """The mean of the last two run times of the user, in whole seconds."""

    def __init__(self) -> None:
        super().__init__(last=2, least=2)


class UsedFraction(Predictor):
    """The limit, times the fraction of their limits that the last jobs of the same category used.

    Args:
        last, least, by: as of `Average`.
        of: which fraction: their mean, the largest, or the harmonic mean.  The last two, of the last five jobs of a user, are
            two of the predictors of Alea (`MinPercentage` and `AvgPercentage`, which are of the limit divided by the run time).
    """

    def __init__(self, last: int = 0, least: int = 1, by: str = "user", of: str = "mean") -> None:
        if of not in FRACTIONS:
            raise UsageError(f"of: expected {', '.join(FRACTIONS)}, got {of!r:.80}", where="predictor")
        self._parts, self._of = Average(last, least, by), of
        self._least = least
        self._category = self._parts.category
        self._known: defaultdict[Hashable, deque[int]] = defaultdict(lambda: deque(maxlen=last or None))

    def predict(self, job: Submission) -> int:
        if job.limit >= FOREVER:
            return job.limit
        if self._of == "mean":
            part: float = self._parts.predict(job._replace(limit=_WHOLE))
        else:
            known = self._known.get(self._category.of(job), ())
            if len(known) < self._least:
                return job.limit
            part = max(known) if self._of == "largest" else len(known) / sum(1 / max(each, 1) for each in known)
        return whole_seconds(job.limit * part / _WHOLE)

    def ended(self, job: Submission, ran: int) -> None:
        if job.limit >= FOREVER:
            return
        part = ran * _WHOLE // job.limit
        if self._of == "mean":
            self._parts.ended(job, part)
        else:
            self._known[self._category.of(job)].append(part)


FRACTIONS: Final = ("mean", "largest", "harmonic")


_WHOLE: Final = 10**6 * TICKS_PER_S
"""The fraction 1, as a length of which whole seconds are a millionth."""

TEMPLATES: Final = "user+application+size/user+application/user+size/user/application+size/application/size"
"""Sets of features, as those of Gibbons: which user, which executable, how many nodes."""
CONFIDENCE: Final = 0.9


class Categories(Predictor):
    """The mean of that category of a job for which its confidence interval is the smallest; the limit if none has two jobs.

    Args:
        last: how many of the last jobs of a category count.
        templates: what the jobs of a category have in common, as `by` of `Average`, several separated by ``/``.
    """

    def __init__(self, last: int = 64, templates: str = TEMPLATES) -> None:
        if last < 2:
            raise UsageError(f"last: expected at least 2, got {last}", where="predictor")
        self.last = last
        self.templates = [Category(by) for by in templates.split("/")]
        self._known: defaultdict[Hashable, deque[int]] = defaultdict(lambda: deque(maxlen=last))

    def _categories(self, job: Submission) -> list[Hashable]:
        return [(at, template.of(job)) for at, template in enumerate(self.templates)]

    def predict(self, job: Submission) -> int:
        best, least = float(job.limit), float("inf")
        for key in self._categories(job):
            runs = self._known.get(key)
            if runs is None or len(runs) < 2:
                continue
            mean, width = interval(runs)
            if width < least:
                best, least = mean, width
        return whole_seconds(best) if least < float("inf") else job.limit

    def ended(self, job: Submission, ran: int) -> None:
        for key in self._categories(job):
            self._known[key].append(ran)


def interval(values: deque[int]) -> tuple[float, float]:
    """The mean of some values, and half the width of its confidence interval, by the normal distribution.

    >>> mean, half = interval(deque([1, 2, 3]))
    >>> mean, round(half, 4)
    (2.0, 0.9497)
    """
    number = len(values)
    mean = sum(values) / number
    variance = sum((value - mean) ** 2 for value in values) / (number - 1)
    return mean, _FACTOR * sqrt(variance / number)


_FACTOR: Final = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)

"""Prediction of run times: policies plan with what a job is expected to run, while its limit still ends it.

A predictor says at the submission of a job how long it will run, at most its limit.  If the job runs on at the end of what was
predicted, a corrector says what is expected then, and the plan of the scheduler changes; at its limit the job is stopped.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from fluxres import limits
from fluxres.clock import FOREVER, TICKS_PER_S, seconds
from fluxres.errors import LimitExceeded
from fluxres.instance.job import Job
from fluxres.simulation.prediction.correctors import Corrector, Doubling, Increments, ToLimit
from fluxres.simulation.prediction.predictors import Average, Categories, Perfect, Predictor, RequestedTime, Tsafrir, UsedFraction
from fluxres.simulation.schedule import Finished
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax.registry import Registry, Reported

PREDICTORS: Final[Registry[Predictor]] = Registry(
    "predictor",
    {
        "requested": RequestedTime,
        "perfect": Perfect,
        "tsafrir": Tsafrir,
        "average": Average,
        "fraction": UsedFraction,
        "categories": Categories,
    },
    "fluxres.run_time_predictors",
    methods=("predict", "ended"),
)
CORRECTORS: Final[Registry[Corrector]] = Registry(
    "corrector",
    {"requested": ToLimit, "tsafrir": Increments, "doubling": Doubling},
    "fluxres.run_time_correctors",
    methods=("correct",),
)


@dataclass(frozen=True)
class Errors:
    """How good the predictions of a run were, made at submission, for the jobs that ended by themselves or at their limit.

    Args:
        jobs: their number.
        mean_absolute_s: of the difference between predicted and real run time; None without jobs.
        mean_s: of predicted less real run time: below 0 if predictions are too short.
        mean_ratio: of predicted to real run time.
        accuracy: mean of the smaller divided by the larger of both, as in Tsafrir et al. 2007.
        underpredicted: jobs that ran longer than predicted.
        corrections: number of corrections.
    """

    jobs: int = 0
    mean_absolute_s: float | None = None
    mean_s: float | None = None
    mean_ratio: float | None = None
    accuracy: float | None = None
    underpredicted: int = 0
    corrections: int = 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class ErrorSink:
    """A sink that compares predicted and real run times."""

    def __init__(self) -> None:
        self.jobs = self.underpredicted = self.corrections = self._absolute = self._difference = 0
        self._ratio = self._accuracy = 0.0

    def add(self, job: Finished) -> None:
        self.corrections += job.corrections
        run = job.end - job.start
        if job.start < 0 or run <= 0 or job.predicted >= FOREVER or job.earlier or job.result == "canceled":
            return
        self.jobs += 1
        self.underpredicted += run > job.predicted
        self._difference += job.predicted - run
        self._absolute += abs(job.predicted - run)
        self._ratio += job.predicted / run
        self._accuracy += min(job.predicted, run) / max(job.predicted, run)

    def close(self) -> None:
        """No-op: nothing is buffered."""

    def errors(self) -> Errors:
        number = self.jobs
        if not number:
            return Errors(corrections=self.corrections)
        return Errors(
            number,
            seconds(self._absolute) / number,
            self._difference / TICKS_PER_S / number,
            self._ratio / number,
            self._accuracy / number,
            self.underpredicted,
            self.corrections,
        )


class Prediction:
    """The predictor and the corrector of one run, and what they said about active jobs.

    Args:
        predictor: its name, as ``tsafrir`` or ``average:last=5,by=user+name``, or an object like a `Predictor`.
        corrector: likewise.

    Errors: UsageError for a name or a parameter that does not exist.
    """

    def __init__(self, predictor: str | Predictor = "requested", corrector: str | Corrector = "tsafrir") -> None:
        self.predictor = PREDICTORS.make(predictor) if isinstance(predictor, str) else predictor
        self.corrector = CORRECTORS.make(corrector) if isinstance(corrector, str) else corrector
        self._active: dict[tuple[int | str, int], tuple[int, int]] = {}
        """By id and submission of a job, what was predicted, and how often it was corrected."""

    def predict(self, job: Submission) -> int:
        """The planned length of a job, in ticks; the same if asked again while it is active."""
        key = job.id, job.submit
        if key not in self._active:
            with _reported("predictor", self.predictor):
                length = int(self.predictor.predict(job))
            self._active[key] = max(min(length, job.limit), 1), 0
        return self._active[key][0]

    def correct(self, job: Job, now: int) -> int:
        """The next planned length of a job that runs and has reached the end of what was planned, from its start."""
        given: Submission = job.payload
        predicted, number = self._active[given.id, given.submit]
        if number == limits.CORRECTIONS_MAX:
            message = f"job {given.id} has outlived {number:,} plans, the last one of {seconds(job.planned)} s"
            hint = "return more time for each next correction"
            raise LimitExceeded(message, where=f"corrector {type(self.corrector).__name__}", hint=hint)
        with _reported("corrector", self.corrector):
            length = int(self.corrector.correct(job.planned, job.duration, number))
        self._active[given.id, given.submit] = predicted, number + 1
        return min(max(length, now - job.started + 1), job.duration)

    def end(self, job: Submission, record: Finished | None = None) -> tuple[int, int]:
        """Learn from the record of a job, and forget it; returns what was predicted, and the number of corrections.

        Args:
            record: None for a job that was refused.
        """
        if record is not None and record.start >= 0 and record.result != "canceled":
            with _reported("predictor", self.predictor):
                self.predictor.ended(job, record.end - record.start)
        return self._active.pop((job.id, job.submit), (job.limit, 0))


def _reported(what: str, of: object) -> Reported:
    return Reported(f"{what} {type(of).__name__}")

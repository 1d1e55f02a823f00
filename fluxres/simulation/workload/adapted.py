"""Make jobs of a workload moldable or malleable: recorded jobs and those of models have one size each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, Final

from fluxres.clock import ticks
from fluxres.errors import UsageError
from fluxres.simulation.adaptive import speedup as speedups
from fluxres.simulation.adaptive.adaptive import Adaptive
from fluxres.simulation.adaptive.speedup import Speedup, Times
from fluxres.simulation.workload import workload as workloads
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax import parameters
from fluxres.syntax.count import Count, exactly
from fluxres.syntax.range import Range

KINDS: Final = ("moldable", "malleable")
OPERATORS: Final = ("+", "*")


@dataclass(frozen=True)
class Adapting:
    """How jobs that request a number become moldable or malleable.

    Args:
        kind: moldable or malleable.
        speedup: a model; `{size}` in its text is the number that the job requests.
        least, most: the smallest and the largest size, as multiples of the number requested.
        operator, operand: the steps from that number down and up: by adding or by multiplying.
        fraction: of the jobs, chosen by chance.
        reconfiguration_s: how long a malleable job does no work after each change.

    >>> made = Adapting("moldable", "downey:A={size},sigma=1", 0.25, 2.0, "*", 2)
    >>> str(made.sizes(12, 64)), str(made.model(12))
    ('3-24:2:*', 'downey:A=12,sigma=1')
    """

    kind: str
    speedup: str | Mapping[str, Any]
    least: float = 0.5
    most: float = 2.0
    operator: str = "+"
    operand: int = 1
    fraction: float = 1.0
    reconfiguration_s: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"expected {' or '.join(KINDS)}, got {self.kind!r:.80}", where="adaptive")
        for name, low, high in (("least", 1e-6, 1), ("most", 1, 1e6), ("fraction", 0, 1), ("reconfiguration_s", 0, 1e9)):
            if not low <= getattr(self, name) <= high:
                raise UsageError(f"{name}: expected {low:g} to {high:g}, got {getattr(self, name)!r:.80}", where="adaptive")
        if self.operator not in OPERATORS or self.operand < (2 if self.operator == "*" else 1):
            raise UsageError(
                f"expected steps such as + 1 or * 2, got {self.operator!r:.20} {self.operand!r:.20}", where="adaptive"
            )
        if self.reconfiguration_s and self.kind == "moldable":
            raise UsageError("reconfiguration: only malleable jobs change their size", where="adaptive")
        if isinstance(self.model(1), Times):
            raise UsageError("the jobs have run times already", where="adaptive", hint="give a table of speed-ups")

    def model(self, size: int) -> Speedup:
        """The model of a job that requests this number."""
        if isinstance(self.speedup, str):
            return _model(self.speedup.replace("{size}", str(size)))
        return speedups.parse(self.speedup)

    def sizes(self, size: int, units: int) -> Count:
        """The sizes of a job that requests this number on a machine with these units."""
        low, high = max(size * self.least, 1.0), max(min(size * self.most, units), size)
        first = size
        if self.operator == "+":
            first -= int((size - low) / self.operand) * self.operand
            last = first + int((high - first) / self.operand) * self.operand
        else:
            while first % self.operand == 0 and first // self.operand >= low:
                first //= self.operand
            last = first
            while last * self.operand <= high:
                last *= self.operand
        return exactly(first) if first == last else Count(Range(first, last, self.operator, self.operand))


@lru_cache(maxsize=4096)
def _model(text: str) -> Speedup:
    return speedups.parse(text)


@dataclass
class Adapted(workloads.ChangedJobs):
    """Jobs, some of which are moldable or malleable.

    Args:
        units: of the machine.
        seed: which jobs are chosen: the same ones for the same seed, whatever the other jobs are.
    """

    jobs: Any
    how: Adapting
    units: int
    seed: int = 0

    def changed(self, job: Submission) -> Submission:
        how = self.how
        if not isinstance(job.ask, int) or job.adaptive is not None or job.jobs:
            return job
        if how.fraction < 1 and Random(f"{self.seed} {job.id}").random() >= how.fraction:
            return job
        wait = ticks(how.reconfiguration_s)
        sizes = how.sizes(job.ask, self.units)
        return job._replace(adaptive=Adaptive(sizes, job.ask, how.model(job.ask), how.kind == "malleable", wait))


def parse(text: str, speedup: str) -> Adapting:
    """How jobs change, from a command line: ``malleable:min=0.5,max=2,fraction=0.3,reconfiguration=30s``.

    Errors: UsageError.

    >>> parse("moldable:min=0.25,operator=*,operand=2", "linear").least
    0.25
    """
    if not speedup:
        raise UsageError("expected a model of speed-up as well", where="adaptive", hint="such as amdahl:serial=0.05")
    kind, _, rest = text.partition(":")
    known = parameters.of(Adapting, without=("kind", "speedup"), renamed={"least": "min", "most": "max"})
    return Adapting(kind, speedup, **parameters.values(parameters.pairs(rest, "adaptive"), known, "adaptive"))

"""What a scheduling decision costs in simulated time.

A scheduler makes one decision after the other, and that is what limits a flat instance with a million short jobs.  A cost model
states how long a decision keeps its instance busy: not at all, always the same time, depending on what it had to look at, or as
long as it actually took here, with the real matcher on the real graph.  A decision starts at most one job; a job that needs the
next decision waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from fluxres.errors import UsageError
from fluxres.simulation.costs.decision import Decision
from fluxres.simulation.costs.seen import FitBounds
from fluxres.simulation.costs.seen import parse as parse_seen
from fluxres.syntax import parameters
from fluxres.syntax.parameters import Parameter


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
    seen: FitBounds | None = None

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


def parse(text: str | None) -> Cost | None:
    """A cost model from a command line argument.

    Args:
        text: ``none``; ``fixed:0.02`` seconds per start; ``fitted:start=0.01,considered=1e-4,size=1e-6``; ``measured``,
            ``measured:2`` or ``measured:calibrate``; the name of a model, such as ``fluxion-first``.

    Errors: UsageError.

    >>> parse("fixed:0.02").decide(Decision(3, 1, 10, 100, 0.0))
    0.02
    """
    from fluxres.simulation.costs.models import MODELS, find  # it is made of what is here

    name, _, rest = (text or "none").partition(":")
    where = f"cost {text!s:.80}"
    if name == "none" and not rest:
        return None
    if name == "fixed":
        return Fitted(start_s=_number(rest, where))
    if name == "measured":
        words = rest.split(",") if rest else []
        factors = [word for word in words if word != "calibrate"]
        if len(factors) > 1 or len(words) - len(factors) > 1:
            raise UsageError("expected measured, measured:FACTOR, measured:calibrate or measured:FACTOR,calibrate", where=where)
        return Measured(_number(factors[0], where) if factors else 1.0, calibrates=len(words) > len(factors))
    if name == "fitted":
        return _fitted(rest, where)
    if any(name == model.name for model in MODELS) or name.startswith("flux"):
        return find(text or "").cost
    forms = "none, fixed:S, fitted:PART=S,…, measured or a model"
    raise UsageError(f"expected {forms}, got {text!r:.80}", where="cost", hint=f"models are {listed_models()}")


def _fitted(text: str, where: str) -> Fitted:
    known = {name: Parameter(f"{name}_s", "a number of at least 0", _seconds) for name in TERMS}
    known["seen"] = Parameter("seen", "what a fit saw", partial(parse_seen, where=where))
    return Fitted(**parameters.read(text, known, where))


def listed_models() -> str:
    """The names of all models."""
    from fluxres.simulation.costs.models import MODELS

    return ", ".join(model.name for model in MODELS)


def _seconds(value: str) -> float:
    """A finite number of at least 0.

    Errors: ValueError.
    """
    found = float(value)
    if not 0.0 <= found < 1e9:
        raise ValueError(value)
    return found


def _number(value: str, where: str) -> float:
    try:
        return _seconds(value)
    except ValueError:
        raise UsageError(f"expected a number of at least 0, got {value!r:.80}", where=where) from None

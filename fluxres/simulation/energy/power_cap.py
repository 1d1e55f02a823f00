"""A cap on the power of a machine, over time.

The planner keeps it, as it keeps any other supply.  The machine gets an auxiliary graph with one feed for all nodes, in
milliwatts: its size is the highest cap without what nodes draw at most when no job runs on them, and each node, or each of its
cores, draws what it draws in use beyond that.  Where the cap is lower, an advance reservation holds the difference.  So a job
starts only if the cap holds for as long as it is planned, under every policy, and one that draws more than any cap is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from fluxres import limits
from fluxres.clock import FOREVER, ticks
from fluxres.errors import FluxresError, UsageError
from fluxres.syntax import duration as durations
from fluxres.syntax import parameters

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class PowerCap:
    """A step function.

    Args:
        steps: (seconds, watts), ascending; the cap holds from then on, None for none. Before the first, there is none.

    >>> PowerCap(((0.0, 6400.0), (3600.0, None))).at(0), PowerCap(((0.0, 6400.0), (3600.0, None))).at(3_600_000_000)
    (6400.0, None)
    """

    steps: tuple[tuple[float, float | None], ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise UsageError("expected at least one cap", where="power cap")
        for (before, _), (after, _) in pairwise(self.steps):
            if not before < after:
                raise UsageError(f"expected ascending times, got {after:g} s after {before:g} s", where="power cap")
        for at_s, watts in self.steps:
            if not 0 <= at_s <= 1e9:
                raise UsageError(f"expected a time up to 1e9 s, got {at_s!r:.40}", where="power cap")
            if watts is not None and not 0 <= watts <= limits.POWER_CAP_WATTS_MAX:
                raise UsageError(f"expected 0 to {limits.POWER_CAP_WATTS_MAX} W, got {watts!r:.40}", where="power cap")

    def at(self, moment: int) -> float | None:
        """Watts."""
        found = None
        for at_s, watts in self.steps:
            if ticks(at_s) <= moment:
                found = watts
        return found

    def intervals(self) -> Sequence[tuple[int, int, float]]:
        """Where there is a cap: begin and end in ticks, and watts."""
        moments = [*(ticks(at_s) for at_s, _ in self.steps), FOREVER]
        caps = [watts for _, watts in self.steps]
        return [(begin, end, watts) for (begin, end), watts in zip(pairwise(moments), caps, strict=True) if watts is not None]


def parse(text: str) -> PowerCap:
    """A cap from a command line: ``6.4kW``, or over time ``0=12.8kW,8h=6400,18h=none``.

    Errors: UsageError.

    >>> parse("0=12.8kW,8h=6400,18h=none").steps
    ((0.0, 12800.0), (28800.0, 6400.0), (64800.0, None))
    """
    if "=" not in text:
        return PowerCap(((0.0, _watts(text)),))
    steps = []
    for at, value in parameters.pairs(text, "power cap").items():
        try:
            steps.append((durations.read(at), None if value == "none" else _watts(value)))
        except FluxresError as error:
            raise UsageError(error.message, where=f"power cap {at:.80}", hint=error.hint) from None
    return PowerCap(tuple(steps))


_PREFIXES: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


def _watts(text: str) -> float:
    number = text.strip().removesuffix("W")
    prefix = number[-1:] if number[-1:] in _PREFIXES else ""
    try:
        return float(number.removesuffix(prefix)) * _PREFIXES[prefix]
    except ValueError:
        raise UsageError(f"expected watts such as 6.4kW, got {text!r:.80}", where="power cap") from None

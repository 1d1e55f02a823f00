"""Moldable and malleable jobs: the sizes that a job may have, and how long it runs at each.

A job has a range of sizes, one of which is preferred, and a model of speed-up.  Its run time and its limit are those of the
preferred size; at another size both are longer or shorter by the ratio of the speed-ups, rounded up to microseconds.  The size of
a moldable job is chosen when it starts (`fluxres.instance.sizes`); that of a malleable job may change while it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING

from fluxres import limits
from fluxres.clock import FOREVER
from fluxres.errors import InfeasibleRequest, LimitExceeded, UsageError
from fluxres.instance.sizes import Option, Sizes
from fluxres.syntax.count import Count
from fluxres.syntax.registry import Reported

if TYPE_CHECKING:
    from fluxres.simulation.adaptive.speedup import Speedup
    from fluxres.syntax.jobspec import Request


@dataclass(frozen=True)
class Adaptive:
    """The sizes of a job, in numbers of the outermost resource of its request.

    Args:
        sizes: those that it may have.
        preferred: that for which its run time and its limit are given.
        speedup: how much faster it is on more.
        is_malleable: whether its size may change while it runs.
        reconfiguration: how long it does no work after each change, in ticks.

    >>> from fluxres.simulation.adaptive.speedup import Amdahl
    >>> from fluxres.syntax import count
    >>> made = Adaptive(count.parse("1-16:2:*"), 4, Amdahl(0.25))
    >>> [made.length(70_000_000, size) / 1e6 for size in (1, 4, 16)]
    [160.0, 70.0, 47.5]
    """

    sizes: Count
    preferred: int
    speedup: Speedup
    is_malleable: bool = False
    reconfiguration: int = 0

    def length(self, run: int | Fraction, size: int) -> int:
        """How long it takes at this size for what takes `run` at the preferred one; in ticks, rounded up."""
        if size == self.preferred:
            exact = Fraction(run)
        elif run >= FOREVER:
            return FOREVER
        else:
            exact = run * speed(self.speedup, self.preferred) / speed(self.speedup, size)
        return min(-(-exact.numerator // exact.denominator), FOREVER)

    def at_preferred(self, run: int, size: int) -> Fraction:
        """How long what takes `run` at some size takes at the preferred one; the inverse of `length`, exact."""
        return Fraction(run) if size == self.preferred else run * speed(self.speedup, size) / speed(self.speedup, self.preferred)

    def options(self, limit: Callable[[int], int], request: Callable[[int], Request], most: int) -> Sizes:
        """The sizes of a job, for an instance.

        Args:
            limit, request: by size.
            most: no size is larger.

        Errors: InfeasibleRequest if all sizes are larger; LimitExceeded for more sizes than `limits.JOB_SIZES_MAX`.
        """
        found = list(islice(self.sizes.values(most), limits.JOB_SIZES_MAX + 1))
        if len(found) > limits.JOB_SIZES_MAX:
            raise LimitExceeded(
                f"more than {limits.JOB_SIZES_MAX} sizes", hint=f"use larger steps, such as {self.sizes.min}-{most}:2:*"
            )
        if not found:
            raise InfeasibleRequest(f"requested {self.sizes.min} at least, the machine has {most}", hint="request fewer")
        options = [Option(size, request(size), limit(size), speed(self.speedup, size)) for size in found]
        return Sizes(options, self.preferred, request, is_malleable=self.is_malleable)


@lru_cache(maxsize=65536)
def speed(model: Speedup, size: int) -> Fraction:
    """The speed-up of a model.

    Errors: UsageError for a model that returns anything but a number above 0.
    """
    with Reported(f"speedup {type(model).__name__}, size {size}"):
        found: object = model.of(size)
    if isinstance(found, int | float) and isfinite(found):
        found = Fraction(str(found))
    if not isinstance(found, Fraction) or found <= 0:
        raise UsageError(f"expected a speed-up above 0, got {found!r:.80}", where=f"speedup {type(model).__name__}, size {size}")
    return found

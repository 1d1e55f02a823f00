"""How much faster a job runs on more units: models of speed-up, by name.

Speed-ups are exact fractions, so the work that a job has done is known exactly, however often it changes its size: the sum of
each time multiplied by the speed-up of its size.  Parameters are decimal numbers, read as they are written.

Other packages add models by the entry point group ``fluxres.speedup_models``: a class whose annotations are its parameters, with
a method ``of(size)``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Any, ClassVar, Final, Protocol

from fluxres import limits
from fluxres.documents.document import shown
from fluxres.errors import InputError, UsageError
from fluxres.syntax import duration as durations
from fluxres.syntax.registry import Registry

_DENOMINATOR_MAX: Final = 10**12


class Speedup(Protocol):
    """A model of speed-up."""

    def of(self, size: int) -> Fraction:
        """How many times faster a job runs on this number of units than on one."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Linear:
    """Ideal: n units are n times as fast as one.

    >>> Linear().of(8), str(Linear())
    (Fraction(8, 1), 'linear')
    """

    name: ClassVar[str] = "linear"

    def of(self, size: int) -> Fraction:
        return Fraction(size)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Amdahl:
    """Amdahl's law (AFIPS 1967): a fraction of the work is serial, the rest is divided among the units.

    Args:
        serial: that fraction, 0 to 1; the speed-up never reaches its reciprocal.

    >>> Amdahl(0.1).of(9), str(Amdahl(0.1))
    (Fraction(5, 1), 'amdahl:serial=0.1')
    """

    serial: Fraction | float

    name: ClassVar[str] = "amdahl"

    def __post_init__(self) -> None:
        object.__setattr__(self, "serial", _decimal(self.serial, "serial", self.name))
        if not 0 <= self.serial <= 1:
            raise UsageError(f"serial: expected 0 to 1, got {_text(self.serial)}", where=self.name)

    def of(self, size: int) -> Fraction:
        serial = Fraction(self.serial)
        return size / (serial * size + (1 - serial))

    def __str__(self) -> str:
        return f"{self.name}:serial={_text(self.serial)}"


@dataclass(frozen=True)
class Downey:
    """A. B. Downey, A model for speedup of parallel programs, technical report UCB/CSD-97-933, 1997.

    The parallelism of a program varies while it runs.  With `sigma` 0 the model is the upper bound of Eager, Zahorjan and
    Lazowska (1989), min(n, A); as `sigma` grows, it approaches their lower bound, A n / (A + n - 1).

    Args:
        A: the average parallelism, at least 1: the largest speed-up.
        sigma: approximately the coefficient of variation of parallelism.  Up to 1 (low variance) the speed-up reaches A at
            2 A - 1 units, with a knee at A if `sigma` is below 1; above 1 (high variance) it does at A + A sigma - sigma.

    >>> Downey(16, 1).of(16), Downey(16, 0.5).of(31), str(Downey(16, 0.5))
    (Fraction(512, 47), Fraction(16, 1), 'downey:A=16,sigma=0.5')
    """

    A: Fraction | float
    sigma: Fraction | float = 1

    name: ClassVar[str] = "downey"

    def __post_init__(self) -> None:
        for parameter, least in (("A", 1), ("sigma", 0)):
            value = _decimal(getattr(self, parameter), parameter, self.name)
            object.__setattr__(self, parameter, value)
            if value < least:
                raise UsageError(f"{parameter}: expected at least {least}, got {_text(value)}", where=self.name)

    def of(self, size: int) -> Fraction:
        most, sigma = Fraction(self.A), Fraction(self.sigma)
        if sigma <= 1:
            if size <= most:
                return most * size / (most + sigma / 2 * (size - 1))
            if size < 2 * most - 1:
                return most * size / (sigma * (most - Fraction(1, 2)) + size * (1 - sigma / 2))
            return most
        if size < most + most * sigma - sigma:
            return size * most * (sigma + 1) / (sigma * (size + most - 1) + most)
        return most

    def __str__(self) -> str:
        return f"{self.name}:A={_text(self.A)},sigma={_text(self.sigma)}"


Points = tuple[tuple[int, Fraction | float], ...]
"""Sizes and values, ascending by size."""


@dataclass(frozen=True)
class Table:
    """Speed-ups of some sizes, as measured; between two of them, on the straight line through both.

    Below the first size, the speed-up per unit is that of the first; above the last size, the speed-up is that of the last.

    Args:
        points: sizes, ascending, with their speed-ups; that of size 1 is 1.

    >>> made = Table(((1, 1), (8, 6.6), (16, 9)))
    >>> made.of(8), made.of(12), made.of(99), str(made)
    (Fraction(33, 5), Fraction(39, 5), Fraction(9, 1), 'table:1=1,8=6.6,16=9')
    """

    points: Points

    name: ClassVar[str] = "table"

    @classmethod
    def from_parameters(cls, values: Mapping[str, Any]) -> Table:
        """A model from the values by size, as they are written."""
        return cls(tuple(sorted((_size(size), cls.read(value)) for size, value in values.items())))

    @staticmethod
    def read(value: Any) -> Any:
        """A value from text."""
        return value

    def __post_init__(self) -> None:
        points = tuple((size, _decimal(value, str(size), self.name)) for size, value in self.points)
        object.__setattr__(self, "points", points)
        sizes = [size for size, _ in points]
        if not points or sizes != sorted(set(sizes)) or sizes[0] < 1 or sizes[-1] > limits.SIZE_MAX:
            raise UsageError(f"expected sizes from 1 on, ascending, got {shown(sizes)}", where=self.name)
        for size, value in points:
            if value <= 0:
                raise UsageError(f"{size}: expected more than 0, got {_text(value)}", where=self.name)
        self._require()

    def _require(self) -> None:
        if self.points[0][0] == 1 and self.points[0][1] != 1:
            raise UsageError(f"1: the speed-up of one unit is 1, got {_text(self.points[0][1])}", where=self.name)

    def speedups(self) -> Points:
        """Sizes and speed-ups."""
        return self.points

    def of(self, size: int) -> Fraction:
        points = self.speedups()
        at = bisect_left(points, size, key=lambda point: point[0])
        if at == len(points):
            return Fraction(points[-1][1])
        above, value = points[at][0], Fraction(points[at][1])
        if above == size:
            return value
        below, before = (points[at - 1][0], Fraction(points[at - 1][1])) if at else (0, Fraction(0))
        return before + (value - before) * Fraction(size - below, above - below)

    def __str__(self) -> str:
        return f"{self.name}:" + ",".join(f"{size}={_text(value)}" for size, value in self.points)


@dataclass(frozen=True)
class Times(Table):
    """`Table` by run times in seconds; a job with it has these run times, whatever else says how long it runs.

    >>> made = Times(((4, 100), (8, 60)))
    >>> made.of(8) / made.of(4), str(made)
    (Fraction(5, 3), 'times:4=100,8=60')
    """

    name: ClassVar[str] = "times"

    @staticmethod
    def read(value: Any) -> Any:
        """Seconds from a duration."""
        return _seconds(value)

    def _require(self) -> None:
        """Any times above 0 are possible."""

    def speedups(self) -> Points:
        return _relative(self.points)

    def run_s(self, size: int) -> Fraction:
        """The run time in seconds."""
        first, time = self.points[0]
        return first * Fraction(time) / self.of(size)


@lru_cache(maxsize=1024)
def _relative(points: Points) -> Points:
    first, time = points[0]
    return tuple((size, first * Fraction(time) / Fraction(value)) for size, value in points)


MODELS: Final[Registry[Speedup]] = Registry(
    "speed-up model",
    {each.name: each for each in (Linear, Amdahl, Downey, Table, Times)},
    "fluxres.speedup_models",
    methods=("of",),
)


def models() -> list[str]:
    """The names of all models; those of other packages come last."""
    return MODELS.names()


def parse(given: str | Mapping[str, Any]) -> Speedup:
    """A model by its name and parameters, as text or as a mapping with one key.

    Errors: UsageError.

    >>> str(parse("downey:A=32,sigma=0.5")), str(parse({"amdahl": {"serial": 0.05}})), str(parse("times:1=1h,8=10m"))
    ('downey:A=32,sigma=0.5', 'amdahl:serial=0.05', 'times:1=3600,8=600')
    """
    if not isinstance(given, str | Mapping):
        raise UsageError(f"expected a name, or a mapping with one name, got {shown(given)}", where="speed-up model")
    return MODELS.make(given)


def _size(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise UsageError(f"expected a number of units, got {text!r:.80}", where="table")
    return int(text)


def _seconds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return durations.read(value)
    except InputError as error:
        raise UsageError(error.message, where="times", hint=error.hint) from None


def _decimal(value: object, name: str, where: str) -> Fraction:
    """The number that a decimal means: 1/10 for 0.1, whatever the float nearest to it is."""
    if isinstance(value, Fraction):
        return value
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str) or not isfinite(float(value)):
            raise ValueError
        return Fraction(str(value)).limit_denominator(_DENOMINATOR_MAX)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise UsageError(f"{name}: expected a number, got {shown(value)}", where=where) from None


def _text(value: Fraction | float) -> str:
    return str(int(value)) if Fraction(value).denominator == 1 else repr(float(value))

"""Jobs of several possible sizes (moldable jobs), and the size policies that choose one of them when a job starts.

A job is moldable if its size can be chosen when it starts (Feitelson and Rudolph 1996).  A policy of the queue decides when a job
starts, a size policy decides its size:

- `requested`: the preferred one.
- `greedy`: the largest for which there is room now; a job that has to wait has a reservation for its smallest size.
- `earliest-finish`: the one that ends first, by its limit, beside everything that is held and reserved, even if it starts later;
  the smallest one of equals.  So chooses SA, at submission: W. Cirne and F. Berman, A model for moldable supercomputer jobs,
  IPDPS 2001; Using moldability to improve the performance of supercomputer jobs, JPDC 62, 2002.  When and how to choose is the
  subject of S. Srinivasan, S. Krishnamoorthy and P. Sadayappan, A robust scheduling strategy for moldable scheduling of parallel
  jobs, CLUSTER 2003.
- `efficiency:X`: the largest whose speed-up is at least X times its size, else the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from fluxres.clock import FOREVER
from fluxres.documents import arguments
from fluxres.documents.suggestion import choose_from
from fluxres.errors import InfeasibleRequest, InsufficientResources, LimitExceeded, UsageError
from fluxres.syntax.count import exactly

if TYPE_CHECKING:
    from fluxres.instance.charged import Charged
    from fluxres.instance.inventory import Inventory
    from fluxres.syntax.jobspec import Request


SUCH_SIZES: Final = "such as sizes={2: '4h', 4: '2h'}"


class Option:
    """One size of a job.

    Args:
        size: the number that differs between the requests of the sizes.
        request: what the job requests at this size.
        duration: its limit at this size, in ticks.
        speedup: how many times faster it is than one unit.
    """

    __slots__ = ("ask", "duration", "request", "size", "speedup")

    def __init__(self, size: int, request: Request, duration: int, speedup: Fraction) -> None:
        self.size, self.request, self.duration, self.speedup = size, request, duration, speedup
        self.ask: Any = None
        """The request in the form of the inventory."""

    @property
    def efficiency(self) -> Fraction:
        return self.speedup / self.size

    def __repr__(self) -> str:
        return f"<Option {self.size}>"


class Sizes:
    """The sizes that a job may have, ascending, and the one that it has, or would have if it started now.

    Args:
        preferred: the size that the job requests; the next smaller one, else the smallest, if it cannot have that.
        request: by size, also for one that is a difference of two.
        is_malleable: whether the size may change while the job runs.
    """

    __slots__ = ("chosen", "is_malleable", "options", "pinned", "preferred", "request")

    def __init__(
        self,
        options: Sequence[Option],
        preferred: int,
        request: Callable[[int], Request],
        *,
        is_malleable: bool = False,
    ) -> None:
        self.request = request
        self.options = sorted(options, key=lambda option: option.size)
        self.preferred = self.at_most(preferred)
        self.chosen = self.preferred
        self.pinned: Option | None = None
        """The only size at which it may start now."""
        self.is_malleable = is_malleable

    def at_most(self, size: int) -> Option:
        """The largest option up to a size, else the smallest."""
        return next((option for option in reversed(self.options) if option.size <= size), self.options[0])

    def admit(self, admitted: Callable[[Request, int], tuple[Charged | None, Request, int, Any]]) -> Charged | None:
        """Keep the options that the instance accepts.

        Args:
            admitted: to whom a job with this request and limit is charged, and its request, limit and `ask`.

        Errors: that of the smallest option, if none is accepted.
        """
        kept, charged, problem = [], None, None
        for option in self.options:
            try:
                charged, option.request, option.duration, option.ask = admitted(option.request, option.duration)
            except (InfeasibleRequest, InsufficientResources, LimitExceeded) as error:
                problem = problem or error
            else:
                kept.append(option)
        if problem is not None and not kept:
            raise problem
        self.options = kept
        self.preferred = self.chosen = self.at_most(self.preferred.size)
        return charged

    def use(self, inventory: Inventory) -> None:
        """Ask an inventory: the request of a larger size may have changed which one is used."""
        for option in self.options:
            option.ask = inventory.ask(option.request)

    def use_requests(self) -> None:
        """Ask the graph, without a check."""
        for option in self.options:
            option.ask = option.request


@lru_cache(maxsize=4096)  # equal requests remain one object, by which inventories know them
def with_count(request: Request, size: int) -> Request:
    """A request with another count of its outermost resource.

    Errors: UsageError for a request with several of them.

    >>> from fluxres.syntax.jobspec import as_request
    >>> with_count(as_request("slot=4/core=2"), 8) == as_request("slot=8/core=2")
    True
    """
    if len(request.resources) != 1:
        raise UsageError("a request with one outermost resource has sizes, this one has several", where="sizes")
    outermost = structs.replace(request.resources[0], count=exactly(size))
    return replace(request, resources=(outermost,))


def of_limits(request: Request, limits: Mapping[int, int], *, is_malleable: bool = False) -> Sizes:
    """The sizes of a job by its limit at each, in ticks; it is as much faster as its limit is shorter.

    Errors: UsageError without sizes, and for one that is not a whole number from 1 on.
    """
    if not limits:
        raise UsageError("expected at least one size", where="sizes", hint=SUCH_SIZES)
    first = min(arguments.whole(size, "sizes") for size in limits)
    if first < 1:
        raise UsageError(f"expected sizes from 1 on, got {first}", where="sizes")
    options = [
        Option(size, with_count(request, size), limit, first * Fraction(limits[first], limit)) for size, limit in limits.items()
    ]
    preferred = request.resources[0].count.max or max(limits)
    return Sizes(options, preferred, partial(with_count, request), is_malleable=is_malleable)


Wait = Callable[[Option], int | None]
"""How long a job of this size waits beside everything that is held and reserved, in ticks; None if it can never start."""


class SizePolicy:
    """The base: a job has one size, whatever is free."""

    name = "requested"
    is_fixed = True
    keeps_reserved_size = True
    """Whether a job whose reservation begins starts at the size of that; otherwise the size is chosen anew."""

    def fixed(self, sizes: Sizes) -> Option:
        return sizes.preferred

    def to_start(self, sizes: Sizes, wait: Wait) -> Iterable[Option]:
        """The sizes at which a job may start now, the best first."""
        return (self.fixed(sizes),)

    def to_reserve(self, sizes: Sizes, wait: Wait) -> Option | None:
        """The size to reserve for a job that waits; None if there is no start for any."""
        return self.fixed(sizes)

    def least(self, sizes: Sizes) -> Option:
        """The smallest size at which a job may start now."""
        return sizes.options[0]


class Requested(SizePolicy):
    """The preferred size."""

    def least(self, sizes: Sizes) -> Option:
        return self.fixed(sizes)


class Efficiency(Requested):
    """The largest size with at least this efficiency: speed-up by size."""

    name = "efficiency"

    def __init__(self, at_least: float) -> None:
        self.at_least = Fraction(str(at_least))

    def fixed(self, sizes: Sizes) -> Option:
        return next((one for one in reversed(sizes.options) if one.efficiency >= self.at_least), sizes.options[0])


class Greedy(SizePolicy):
    """The largest size for which there is room now; a job waits for its smallest."""

    name = "greedy"
    is_fixed = False
    keeps_reserved_size = False

    def to_start(self, sizes: Sizes, wait: Wait) -> Iterator[Option]:
        return reversed(sizes.options)

    def to_reserve(self, sizes: Sizes, wait: Wait) -> Option | None:
        return sizes.options[0]


class EarliestFinish(SizePolicy):
    """The size that ends first, by its limit; without limits, the fastest of those that start first."""

    name = "earliest-finish"
    is_fixed = False

    def to_start(self, sizes: Sizes, wait: Wait) -> Iterable[Option]:
        found = self._best(sizes, wait)
        return () if found is None or found[1] else (found[0],)

    def to_reserve(self, sizes: Sizes, wait: Wait) -> Option | None:
        found = self._best(sizes, wait)
        return None if found is None else found[0]

    def _best(self, sizes: Sizes, wait: Wait) -> tuple[Option, int] | None:
        """The best size, and how long it waits."""
        best, key = None, (0, 0, Fraction(0))
        for option in sizes.options:
            waits = wait(option)
            if waits is None:
                continue
            end = min(waits + option.duration, FOREVER)
            own = (end, waits, -option.speedup) if end >= FOREVER else (end, option.size, Fraction(0))
            if best is None or own < key:
                best, key = (option, waits), own
        return best


_PLAIN: Final[dict[str, type[SizePolicy]]] = {each.name: each for each in (Requested, Greedy, EarliestFinish)}
NAMES: Final = (*_PLAIN, "efficiency:X")


def parse(text: str | SizePolicy) -> SizePolicy:
    """A size policy by its name; a policy itself is returned as it is.

    Errors: UsageError.

    >>> parse("greedy").name, float(parse("efficiency:0.5").at_least)
    ('greedy', 0.5)
    """
    if isinstance(text, SizePolicy):
        return text
    name, _, rest = arguments.text(text, "size policy").partition(":")
    if name == Efficiency.name:
        try:
            value = float(rest)
        except ValueError:
            value = 0.0
        if 0 < value <= 1:
            return Efficiency(value)
        raise UsageError(
            f"expected an efficiency above 0 and up to 1, such as efficiency:0.5, got {text!r:.80}", where="size policy"
        )
    if text in _PLAIN:
        return _PLAIN[text]()
    raise UsageError(f"no size policy {text!r:.80}", hint=choose_from(NAMES))

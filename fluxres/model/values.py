"""What the face answers with: spans and allocations, immutable."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fluxres.model.pool import Pool


@dataclass(frozen=True, slots=True)
class Span:
    """Units of one pool held by one job over ``[start, end)``.

    Args:
        job: id of the job.
        amount: units.
        start, end: seconds; infinity is no end.
        pool: path of the pool; not part of equality.

    >>> Span("j1", 4, 0.0, 3600.0).duration_s
    3600.0
    """

    job: str
    amount: int
    start: float
    end: float
    pool: str = field(default="", compare=False)

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.end - self.start


class Allocation:
    """Pools with units given to one job; iterates over the pools.  A value: it does not follow later changes.

    Two are equal that have the same job and the same spans of the same pools.

    Args:
        job: id of the job.
        pools: the pools that carry a record, in vertex order, or what makes them.
        spans: the records, by pool and start, or what makes them: most callers never look.
        r: makes the resource set, with the graph in this form where one is named.
        window: (start, end) in seconds, where all records have the same.
    """

    __slots__ = ("_pools", "_r", "_spans", "_window", "job")

    def __init__(
        self,
        job: str,
        pools: tuple[Pool, ...] | Callable[[], tuple[Pool, ...]],
        spans: tuple[Span, ...] | Callable[[], tuple[Span, ...]],
        r: Callable[[str | None], dict[str, Any]],
        window: tuple[float, float] | None = None,
    ) -> None:
        self.job = job
        self._pools = pools
        self._spans = spans
        self._r = r
        self._window = window

    def R(self, scheduling: bool | str = False) -> dict[str, Any]:  # noqa: N802 - what everybody calls it
        """The resource set of the job, R version 1 (RFC 20), as plain values.

        It has ranks, cores and gpus, node names, properties and times, and the number of slots of the requests. Of what is
        held that number is left out where pools were named, or some went back by name.

        Args:
            scheduling: with the graph of what is held (RFC 40), for a scheduler below; read again, it is what
                :meth:`ResourceGraph.copy` makes of the job. ``jgf_shorthand`` leaves out what is below pools held whole.

        Errors: UsageError for another form of the graph.
        """
        return self._r("jgf" if scheduling is True else scheduling or None)

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools that carry a record, in vertex order."""
        if callable(self._pools):
            self._pools = self._pools()
        return self._pools

    @property
    def spans(self) -> tuple[Span, ...]:
        """The records, by pool and start."""
        if callable(self._spans):
            self._spans = self._spans()
        return self._spans

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Allocation):
            return NotImplemented
        same = self is other or (self.job == other.job and self.spans == other.spans)
        return same and [span.pool for span in self.spans] == [span.pool for span in other.spans]

    def __hash__(self) -> int:
        return hash(self.job)

    def __repr__(self) -> str:
        return f"Allocation(job={self.job!r}, spans={self.spans!r})"

    @property
    def start(self) -> float:
        """Beginning of the earliest span in seconds."""
        return self._window[0] if self._window is not None else min((span.start for span in self.spans), default=0.0)

    @property
    def end(self) -> float:
        """End of the latest span in seconds; infinity is no end."""
        return self._window[1] if self._window is not None else max((span.end for span in self.spans), default=math.inf)

    def __reduce__(self) -> tuple[type[Allocation], tuple[Any, ...]]:
        return Allocation, (self.job, self.pools, self.spans, self._r, self._window)

    def __iter__(self) -> Iterator[Pool]:
        return iter(self.pools)

    def __len__(self) -> int:
        return len(self.pools)

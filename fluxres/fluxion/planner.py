"""The planners that Fluxion keeps per vertex: the units available at one vertex, or below it, over time.

Most vertices of a graph are never held, and the others have a handful of change points, so a sorted list of points is smaller and
faster here than a balanced tree. Times are whole seconds, spans half-open.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

HORIZON_S = 3_153_600_000
"""The planning horizon: a century, as in Fluxion."""


class Plan:
    """Units available over time.

    Args:
        total: units when nothing is planned.
    """

    __slots__ = ("_next", "_spans", "_users", "left", "times", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.times = [0]
        self.left = [total]
        self._users = [1]
        self._spans: dict[int, tuple[int, int, int]] = {}
        self._next = 1

    @property
    def is_used(self) -> bool:
        """Whether anything is planned at any time, even if it is 0 units."""
        return bool(self._spans)

    def lowest(self, at: int, duration: int) -> int:
        """The minimum number of available units in a window."""
        left = self.left
        if len(left) == 1:
            return left[0]
        first = bisect_right(self.times, at) - 1
        last = bisect_left(self.times, at + duration, first + 1)
        return min(left[first:last])

    def at(self, at: int) -> int:
        """Units available at a time."""
        return self.left[bisect_right(self.times, at) - 1]

    def add(self, at: int, duration: int, units: int) -> int:
        """Plan units for a window; returns the number of the span. The caller must check that the units are available."""
        first, last = self._point(at), self._point(at + duration)
        for point in range(first, last):
            self.left[point] -= units
        span, self._next = self._next, self._next + 1
        self._spans[span] = (at, at + duration, units)
        return span

    def window(self, span: int) -> tuple[int, int, int]:
        """Start, end and units of a span."""
        return self._spans[span]

    def remove(self, span: int) -> None:
        start, end, units = self._spans.pop(span)
        for point in range(bisect_left(self.times, start), bisect_left(self.times, end)):
            self.left[point] += units
        for moment in (start, end):
            self._leave(bisect_left(self.times, moment))

    def resize(self, total: int) -> None:
        """Change the total; plans are kept."""
        self.left = [left + total - self.total for left in self.left]
        self.total = total

    def _point(self, moment: int) -> int:
        point = bisect_left(self.times, moment)
        if point < len(self.times) and self.times[point] == moment:
            self._users[point] += 1
        else:
            self.times.insert(point, moment)
            self.left.insert(point, self.left[point - 1])
            self._users.insert(point, 1)
        return point

    def _leave(self, point: int) -> None:
        self._users[point] -= 1
        if not self._users[point]:
            del self.times[point], self.left[point], self._users[point]


class Aggregate:
    """Units available below a vertex, by type: used to prune a subtree.

    Args:
        totals: units of each type below the vertex.
    """

    __slots__ = ("plans", "types")

    def __init__(self, totals: dict[str, int]) -> None:
        self.types = list(totals)
        self.plans = [Plan(total) for total in totals.values()]

    def counts(self, wanted: dict[str, int]) -> list[int]:
        """The counts of the types tracked here, from those of a request or job."""
        return [wanted.get(type_, 0) for type_ in self.types]

    def fits(self, at: int, duration: int, counts: Sequence[int]) -> bool:
        """Whether these counts of each type are available throughout a window."""
        pairs = zip(self.plans, counts, strict=True)
        return all(not count or plan.lowest(at, duration) >= count for plan, count in pairs)

    def first_fit(self, after: int, duration: int, counts: Sequence[int]) -> int | None:
        """The first change point from `after` on at which a window fits; None if there is none."""
        times = self.plans[0].times if self.plans else []
        for number in range(bisect_left(times, after), len(times)):
            moment = times[number]
            if moment + duration <= HORIZON_S and self.fits(moment, duration, counts):
                return moment
        return None

    def ever_fits(self, counts: Sequence[int]) -> bool:
        """Whether the totals are large enough."""
        return all(plan.total >= count for plan, count in zip(self.plans, counts, strict=True))

    def add(self, at: int, duration: int, counts: Sequence[int]) -> tuple[int, ...]:
        """Plan counts of each type; the spans' numbers."""
        return tuple(plan.add(at, duration, count) for plan, count in zip(self.plans, counts, strict=True))

    def remove(self, spans: Sequence[int]) -> None:
        for plan, span in zip(self.plans, spans, strict=True):
            plan.remove(span)

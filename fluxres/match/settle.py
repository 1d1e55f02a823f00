"""Resolve counts that leave a choice to numbers.

A count such as `2-8` is resolved once, to the same number wherever its resource vertex occurs in instances of the request: all
slots of a job are equal.  Counts are resolved in the order written, each to the largest acceptable number with which the request
still matches while the later ones are at their minimum.  If a number does not fit, no larger one does, so the largest is found by
bisection.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from math import ceil

from fluxres.errors import LimitExceeded
from fluxres.match.demand import Demand, Plan
from fluxres.match.result import Match
from fluxres.match.typology import Typology
from fluxres.syntax.count import Count

Attempt = Callable[[tuple[int, ...]], Match | None]


def settle(plan: Plan, typology: Typology, attempt: Attempt) -> Match | None:
    """The match with the largest counts, or None if not even the minimum fits.

    Args:
        attempt: finds a match for fixed counts, by number of demand.

    Errors: LimitExceeded if even the minimum counts stay undecided; larger counts that stay undecided are not taken.
    Cost: one attempt, and for each count with a choice as many as its range has bits.
    """
    counts = list(plan.lowest)
    found = attempt(tuple(counts))
    if found is None:
        return None
    for demand in plan.all:
        if demand.count.fixed is not None:
            continue
        low, high = counts[demand.number], demand.count.valid(_at_most(demand, typology))
        trying = high
        while low < high:
            try:
                better = attempt((*counts[: demand.number], trying, *counts[demand.number + 1 :]))
            except LimitExceeded:
                # Undecided: fall back to what is known to fit.
                return found
            if better is not None:
                found, low = better, trying
            else:
                high = demand.count.valid(trying - 1)
            trying = _between(demand.count, low, high)
        counts[demand.number] = low
    return found


def _between(count: Count, low: int, high: int) -> int:
    """The acceptable number nearest below the middle of (low, high], or else the first one above `low`.

    >>> from fluxres.syntax.count import parse
    >>> _between(parse("1,90-100"), 1, 100), _between(parse("1,90-100"), 90, 100)
    (90, 95)
    """
    middle = count.valid((low + high + 1) // 2)
    if middle > low:
        return middle
    first = bisect_right(range(high + 1), low, lo=low, key=count.valid)
    return count.valid(min(first, high))


def _at_most(demand: Demand, typology: Typology) -> int:
    """An upper bound for the number of instances on this machine."""
    if demand.flow and demand.count.max is not None:
        return demand.count.max  # edges without a capacity are unlimited
    if not demand.is_slot:
        pools = typology.vertices(demand.kind)
        if demand.children:
            return len(pools)
        return max(ceil(int(typology.sizes(demand.kind).sum()) * typology.most_worth(demand)), 1)
    # Every pool satisfies one child, so units of one type that several children request add up. Pools that are only looked at
    # on a supply path are shared by all, and units of a graph may be unlimited.
    children = [child for child in demand.children if not child.flow and not (child.charged and child.shared)]
    needed: dict[int, int] = {}
    for child in children:
        worth = 0 if child.is_slot or child.children else typology.most_worth(child)
        if worth:
            needed[child.kind] = needed.get(child.kind, 0) + ceil(child.count.min / worth)
    together = [int(typology.sizes(kind).sum()) // units for kind, units in needed.items()]
    return min([_at_most(child, typology) // child.count.min for child in children] + together, default=1)

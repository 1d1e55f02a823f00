"""How many units of one pool one job holds over time: a step function, as a tuple of disjoint spans.

In RFC 4, an allocation may grow and shrink under one name, and records are arrays over time.  Both are the same operation here:
adding or subtracting units over a window.  Spans are ``(start, end, amount)`` in ticks, sorted, disjoint, with positive amounts;
neighbours with equal amounts are merged, so equal holdings are equal values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

Steps = tuple[tuple[int, int, int], ...]


def add(steps: Steps, start: int, end: int, amount: int) -> Steps:
    """The same holding with `amount` (positive or negative) more units over ``[start, end)``.

    The result must not be negative anywhere; use :func:`least` to check beforehand.
    Cost: O(spans).

    >>> add(((0, 10, 4),), 5, 15, 2)
    ((0, 5, 4), (5, 10, 6), (10, 15, 2))
    >>> add(((0, 5, 4), (5, 10, 6), (10, 15, 2)), 5, 15, -2)
    ((0, 10, 4),)
    """
    if not steps:
        return ((start, end, amount),)
    found: list[tuple[int, int, int]] = []
    at = start
    for s, e, held in steps:
        if e <= start or s >= end:
            continue
        if at < s:
            found.append((at, s, amount))
        lo, hi = max(s, start), min(e, end)
        found.append((lo, hi, held + amount))
        at = hi
    if at < end:
        found.append((at, end, amount))
    found.extend((s, min(e, start), held) for s, e, held in steps if s < start)
    found.extend((max(s, end), e, held) for s, e, held in steps if e > end)
    return canonical(found)


def joined(parts: Iterable[Steps]) -> Steps:
    """The sum of holdings.  Cost: O(spans log spans).

    >>> joined([((0, 10, 4),), ((5, 15, 2),)])
    ((0, 5, 4), (5, 10, 6), (10, 15, 2))
    """
    given = [part for part in parts if part]
    if len(given) <= 1:
        return given[0] if given else ()
    changes: dict[int, int] = {}
    for part in given:
        for s, e, held in part:
            changes[s] = changes.get(s, 0) + held
            changes[e] = changes.get(e, 0) - held
    at = sorted(changes)
    return canonical(list(zip(at, at[1:], accumulate(changes[time] for time in at), strict=False)))


def excess(steps: Steps, less: Steps) -> Steps:
    """What is held beyond another holding, nowhere less than 0.

    >>> excess(((0, 10, 4),), ((5, 20, 3), (20, 30, 9)))
    ((0, 5, 4), (5, 10, 1))
    """
    found = steps
    for start, end, units in less:
        for s, e, held in list(within(found, start, end)):
            found = add(found, s, e, -min(units, held))
    return found


def least_of(one: Steps, other: Steps) -> Steps:
    """The smaller of two holdings at every moment.

    >>> least_of(((0, 10, 4),), ((5, 20, 3),))
    ((5, 10, 3),)
    """
    return excess(one, excess(one, other))


def clipped(steps: Steps, windows: Iterable[tuple[int, int]]) -> Steps:
    """The part of a holding within some windows, which do not overlap.

    >>> clipped(((0, 10, 4),), [(2, 3), (8, 12)])
    ((2, 3, 4), (8, 10, 4))
    """
    return canonical([span for start, end in windows for span in within(steps, start, end)])


def overlap(one: Steps, other: Steps) -> bool:
    """Whether the two holdings overlap in time."""
    return any(touches(one, s, e) for s, e, _ in other)


def canonical(spans: list[tuple[int, int, int]]) -> Steps:
    """Disjoint spans in any order as a step function: sorted, without zeros, neighbours merged.

    >>> canonical([(5, 9, 2), (0, 5, 2), (9, 11, 0)])
    ((0, 9, 2),)
    """
    merged: list[tuple[int, int, int]] = []
    for s, e, held in sorted(spans):
        if held == 0:
            continue
        if merged and merged[-1][1] == s and merged[-1][2] == held:
            merged[-1] = (merged[-1][0], e, held)
        else:
            merged.append((s, e, held))
    return tuple(merged)


def within(steps: Steps, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The parts of the spans that lie in ``[start, end)``.

    >>> list(within(((0, 10, 4), (12, 14, 1)), 5, 13))
    [(5, 10, 4), (12, 13, 1)]
    """
    for s, e, held in steps:
        if s < end and start < e:
            yield max(s, start), min(e, end), held


def beside(steps: Steps, others: list[tuple[int, int, int]], size: int) -> Steps:
    """As much of the holding as other holdings leave free of a pool.

    >>> beside(((0, 10, 4),), ((5, 20, 3),), 6)
    ((0, 5, 4), (5, 10, 3))
    """
    found: list[tuple[int, int, int]] = []
    for s, e, held in steps:
        cuts = sorted({s, e, *(at for other in others for at in other[:2] if s < at < e)})
        used = [sum(units for a, b, units in others if a <= at < b) for at in cuts]
        found += [(a, b, max(0, min(held, size - n))) for a, b, n in zip(cuts, cuts[1:], used, strict=False)]
    return canonical(found)


def touches(steps: Steps, start: int, end: int) -> bool:
    """Whether anything is held at some moment of the window.

    >>> touches(((0, 10, 4),), 10, 12)
    False
    """
    for s, e, _ in steps:  # noqa: SIM110  # called for every holder of every pool: a generator is slower
        if s < end and start < e:
            return True
    return False


def least(steps: Steps, start: int, end: int) -> int:
    """Fewest units held at any moment of the window; 0 if nothing is held in a part of it.

    >>> least(((0, 10, 4), (10, 12, 3)), 5, 12), least(((0, 10, 4),), 5, 12)
    (3, 0)
    """
    covered, fewest = start, None
    for s, e, held in within(steps, start, end):
        if s > covered:
            return 0
        covered = e
        fewest = held if fewest is None else min(fewest, held)
    return 0 if covered < end or fewest is None else fewest


def amount_at(steps: Steps, moment: int) -> int:
    """Units held at one moment.

    >>> amount_at(((0, 10, 4),), 10)
    0
    """
    for s, e, held in steps:
        if s <= moment < e:
            return held
    return 0


def whole(steps: Steps, start: int, end: int, extra: int, size: int) -> list[tuple[int, int]]:
    """Parts of ``[start, end)`` in which the holding plus `extra` units is all of the pool.

    >>> whole(((0, 10, 2),), 5, 20, 2, 4)
    [(5, 10)]
    """
    found: list[tuple[int, int]] = []
    for s, e, held in within(add(steps, start, end, extra) if extra else steps, start, end):
        if held == size:
            if found and found[-1][1] == s:
                found[-1] = (found[-1][0], e)
            else:
                found.append((s, e))
    return found


def without(start: int, end: int, windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of ``[start, end)`` outside some windows, which may overlap.

    >>> without(0, 10, [(2, 4), (3, 5), (9, 20)])
    [(0, 2), (5, 9)]
    """
    found: list[tuple[int, int]] = []
    at = start
    for s, e in sorted(windows):
        if s >= end:
            break
        if at < s:
            found.append((at, s))
        at = max(at, e)
    if at < end:
        found.append((at, end))
    return found


def inside(start: int, end: int, windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of ``[start, end)`` in any of some windows, which may overlap.

    >>> inside(0, 10, [(2, 4), (3, 5), (9, 20)])
    [(2, 5), (9, 10)]
    """
    return without(start, end, without(start, end, windows))


Subtrees = list[tuple[int, int]]
"""Disjoint and ascending."""


def topmost(pools: Subtrees) -> Subtrees:
    """Of subtrees in any order, those that are not inside another.

    >>> topmost([(4, 6), (1, 7), (1, 2), (9, 10)])
    [(1, 7), (9, 10)]
    """
    found: Subtrees = []
    for start, stop in sorted(pools, key=lambda pool: (pool[0], -pool[1])):
        if not found or start >= found[-1][1]:
            found.append((start, stop))
    return found


def both(pools: Subtrees, others: Subtrees) -> Subtrees:
    """The intersection of two sets.

    >>> both([(1, 7)], [(2, 3), (5, 9)])
    [(2, 3), (5, 7)]
    """
    return [part for start, stop in pools for part in inside(start, stop, others)]


def minus(pools: Subtrees, others: Subtrees) -> Subtrees:
    """The first set without the second.

    >>> minus([(1, 7)], [(2, 3), (5, 9)])
    [(1, 2), (3, 5)]
    """
    return [part for start, stop in pools for part in without(start, stop, others)]

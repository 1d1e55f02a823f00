"""Sets of subtrees, as ranges of vertices: first and one past the last."""

from __future__ import annotations

from fluxres.allocation import steps

Subtrees = list[tuple[int, int]]
"""Disjoint and ascending."""


def topmost(pools: Subtrees) -> Subtrees:
    """Of subtrees in any order, those that are in no other.

    >>> topmost([(4, 6), (1, 7), (1, 2), (9, 10)])
    [(1, 7), (9, 10)]
    """
    found: Subtrees = []
    for start, stop in sorted(pools, key=lambda pool: (pool[0], -pool[1])):
        if not found or start >= found[-1][1]:
            found.append((start, stop))
    return found


def both(pools: Subtrees, others: Subtrees) -> Subtrees:
    """What is in both sets.

    >>> both([(1, 7)], [(2, 3), (5, 9)])
    [(2, 3), (5, 7)]
    """
    return [part for start, stop in pools for part in steps.inside(start, stop, others)]


def minus(pools: Subtrees, others: Subtrees) -> Subtrees:
    """What is in the first set and not in the second.

    >>> minus([(1, 7)], [(2, 3), (5, 9)])
    [(1, 2), (3, 5)]
    """
    return [part for start, stop in pools for part in steps.without(start, stop, others)]

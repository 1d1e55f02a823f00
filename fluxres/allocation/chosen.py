"""The order in which requests for amounts chose their pools, and the order in which these came back.

A task of HyperQueue sees its indices in the order in which they were chosen, and an index that was returned last is chosen first.
Records are sets, so both orders are kept beside them, for such requests only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from fluxres.arrays import Int32


class Chosen(msgspec.Struct, array_like=True, frozen=True):
    """The choice of a request for amounts.

    Args:
        pools: vertices, in the order in which the task sees them.
        variant: which of its variants was chosen, from 0.
    """

    pools: tuple[int, ...]
    variant: int = 0

    def joined(self, other: Chosen) -> Chosen:
        """This choice and a later one of the same job."""
        return Chosen((*self.pools, *(v for v in other.pools if v not in self.pools)), self.variant)

    def renumbered(self, old_to_new: Int32) -> Chosen:
        """The choice on another structure, without pools that were removed."""
        return Chosen(tuple([new for v in self.pools if (new := int(old_to_new[v])) >= 0]), self.variant)


class Returns:
    """The pools that came back, each with the number of its last return; a pool that was never returned has none.

    Attributes:
        by_parent: by parent, its pools with their numbers, in the order of these.
    """

    def __init__(self) -> None:
        self.by_parent: dict[int, dict[int, int]] = {}
        self.number = 0

    def push(self, parent: int, v: int) -> None:
        """Note that a pool came back just now."""
        pools = self.by_parent.setdefault(parent, {})
        pools.pop(v, None)
        self.number += 1
        pools[v] = self.number

    def in_order(self) -> list[int]:
        """The pools in the order of their returns, from which :meth:`restore` makes the same order again."""
        return [v for _, v in sorted((number, v) for pools in self.by_parent.values() for v, number in pools.items())]

    def restore(self, pools: Iterable[int], parent_of: Callable[[int], int]) -> None:
        """Forget everything, and note that these pools came back in this order."""
        self.by_parent.clear()
        for v in pools:
            self.push(parent_of(v), v)

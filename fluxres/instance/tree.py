"""The tree of instances as values and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Branch(NamedTuple):
    """One instance of a tree.

    Args:
        address: the path from the outermost instance, such as ``tioga/ƒA/ƒB``.
        depth: the number of levels below the instance at which the listing begins.
        pools: the number of pools of its graph, including pass-through pools.
        pending, running: the numbers of jobs.
    """

    address: str
    depth: int
    name: str
    queue_policy: str
    match_policy: str
    pools: int
    pending: int
    running: int


def lines(branches: Sequence[Branch]) -> list[str]:
    """A drawing of a tree; each line has the name, the queue policy and the numbers of jobs.

    Args:
        branches: depth first.
    """
    found: list[str] = []
    continued: set[int] = set()  # the levels at which a branch follows that has the same parent
    for branch in reversed(branches):
        continued = {depth for depth in continued if depth <= branch.depth}
        before = "".join("│   " if depth in continued else "    " for depth in range(1, branch.depth))
        corner = "" if not branch.depth else "├── " if branch.depth in continued else "└── "
        found.append(f"{before}{corner}{branch.name}  {branch.queue_policy}, {branch.pending} pending, {branch.running} running")
        continued.add(branch.depth)
    return found[::-1]

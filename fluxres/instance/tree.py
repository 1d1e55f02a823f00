"""The tree of instances as values and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def lines(branches: Sequence[Branch]) -> Iterator[str]:
    """A drawing of a tree; each line has the name, the queue policy and the numbers of jobs.

    Args:
        branches: depth first.
    """
    is_last: list[bool] = []
    for at, branch in enumerate(branches):
        after = next((other.depth for other in branches[at + 1 :] if other.depth <= branch.depth), -1)
        is_last[branch.depth :] = [after < branch.depth]
        before = "".join("    " if last else "│   " for last in is_last[1:-1])
        corner = "" if not branch.depth else "└── " if is_last[-1] else "├── "
        yield f"{before}{corner}{branch.name}  {branch.queue_policy}, {branch.pending} pending, {branch.running} running"

"""The tree of instances as values."""

from __future__ import annotations

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

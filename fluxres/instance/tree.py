"""The tree of instances as values and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance


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


def branches(instance: Instance) -> list[Branch]:
    """The values of an instance and all below it, depth first."""
    top = instance.depth
    return [
        Branch(
            one.address,
            one.depth - top,
            one.name,
            one.policy.name,
            one.match_policy,
            len(one._graph),
            one.pending,
            one.running,
        )
        for one in instance.walk()
    ]


def lines(instance: Instance) -> Iterator[str]:
    """A drawing of an instance and all below it; each line has the name, the queue policy and the numbers of jobs."""
    yield _text(instance)
    yield from _below(instance, "")


def _below(instance: Instance, before: str) -> Iterator[str]:
    children = instance.children
    for number, child in enumerate(children, 1):
        is_last = number == len(children)
        yield f"{before}{'└── ' if is_last else '├── '}{_text(child)}"
        yield from _below(child, f"{before}{'    ' if is_last else '│   '}")


def _text(instance: Instance) -> str:
    return f"{instance.name}  {instance.policy.name}, {instance.pending} pending, {instance.running} running"

"""The tree of instances as a table: addresses, policies, nodes and jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fluxres.render.style import PLAIN, Style
from fluxres.render.table import Column, table

if TYPE_CHECKING:
    from fluxres.instance import Instance


def lines(top: Instance, *, header: bool = True, style: Style = PLAIN) -> list[str]:
    """An instance and all below it: addresses, policies, nodes (parts of nodes count as nodes), running and pending jobs."""
    columns = [
        Column("INSTANCE"),
        Column("ADDRESS", role=lambda _text: "faint"),
        Column("POLICY"),
        Column("MATCH"),
        Column("NODES", right=True),
        Column("RUNNING", right=True),
        Column("PENDING", right=True),
    ]
    return table(columns, [*_rows(top, "", "")], header=header, style=style)


def _rows(one: Instance, first: str, then: str) -> list[list[str]]:
    job = one.job_in_parent
    name = one.name if job is None or job.name is None else job.name
    numbers = (_nodes(one), one.running, one.pending)
    found = [[first + name, one.address, one.policy.name, one.match_policy, *map(str, numbers)]]
    children = one.children
    for number, child in enumerate(children, 1):
        is_last = number == len(children)
        found += _rows(child, then + ("└─ " if is_last else "├─ "), then + ("   " if is_last else "│  "))
    return found


def _nodes(one: Instance) -> int:
    structure = one.graph.structure
    return int((structure.of_type("node") < structure.tree_end).sum())  # the roots of other trees are in auxiliary graphs


def document(top: Instance) -> list[dict[str, Any]]:
    """The same as plain values, parents before their children."""
    return [
        {
            "address": one.address,
            "queue_policy": one.policy.name,
            "match_policy": one.match_policy,
            "nodes": _nodes(one),
            "running": one.running,
            "pending": one.pending,
        }
        for one in top.walk()
    ]

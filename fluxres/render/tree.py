"""Draw the containment tree with equal parts folded: El Capitan in six lines.

A line is a group of siblings that look the same all the way down, in each of the pools of the line above. Only one pool of each
group is ever examined, so the cost is that of the lines and a few vector steps, not of the pools.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.auxiliary import Int32
from fluxres.graph.structure import Structure
from fluxres.model import ResourceGraph
from fluxres.render.folding import Subtrees, folded, groups, looks
from fluxres.render.listings import holders, notes, tag_text
from fluxres.render.text import PLAIN, Column, Style, state_role, table, units


@dataclass(frozen=True, slots=True)
class Branch:
    """One line of a tree.

    Args:
        level: 0 for the top.
        last: whether no sibling follows, for this line and each level above it.
        names: folded names.
        count: number of them in each pool of the line above.
        vertex: one of them.
        edge: the edge to it in an auxiliary graph.
    """

    level: int
    last: tuple[bool, ...]
    names: str
    count: int
    vertex: int
    edge: str = ""


def branches(graph: ResourceGraph, top: int = 0, depth: int | None = None) -> Iterator[Branch]:
    """The lines of a subtree, from its top down, `depth` levels below it (None: all)."""
    structure, now = graph.structure, graph.now()
    stop = structure.end.item(top)
    subtrees = Subtrees(structure, top, stop, looks(structure, top, stop, notes(graph, now)))
    yield Branch(0, (), structure.where(top), 1, top)
    yield from _below(structure, subtrees, np.array([top], np.int32), (), depth)


def _below(
    structure: Structure, subtrees: Subtrees, parents: Int32, last: tuple[bool, ...], depth: int | None
) -> Iterator[Branch]:
    if depth is not None and len(last) >= depth:
        return
    first = int(parents[0])
    children = structure.children(first)
    alike = groups(subtrees.of(children))
    for number, group in enumerate(alike):
        ends = (*last, number == len(alike) - 1)
        offsets = children[group] - first
        members = (parents[:, None] + offsets[None, :]).astype(np.int32)
        yield Branch(len(ends), ends, _names(structure, members), len(group), int(children[group[0]]))
        yield from _below(structure, subtrees, members.ravel(), ends, depth)


def _names(structure: Structure, members: NDArray[np.int32]) -> str:
    """Names of the members: those in one parent if all parents have the same, else all of them."""
    row = members[0]
    if not structure.names and bool((structure.id[members] == structure.id[row]).all()):
        return folded(structure, row)
    return folded(structure, members.ravel())


def draw(graph: ResourceGraph, lines: Iterator[Branch], *, style: Style = PLAIN) -> list[str]:
    """Branches as text: names, counts, type, size, state, holders, tags and properties."""
    now = graph.now()
    columns = [
        Column("name"),
        Column("count", right=True),
        Column("type"),
        Column("size", right=True),
        Column("edge"),
        Column("state", role=state_role),
        Column("held", role=lambda _text: "job"),
        Column("tags", role=lambda _text: "warn"),
        Column("properties", role=lambda _text: "faint"),
    ]
    return table(columns, [_cells(graph, line, now) for line in lines], header=False, style=style)


def _cells(graph: ResourceGraph, line: Branch, now: int) -> list[str]:
    structure, v = graph.structure, line.vertex
    kind, size, state = structure.kind_of(v), structure.size.item(v), structure.state_name(v)
    return [
        _indent(line) + line.names,
        f"×{line.count}" if line.count > 1 else "",
        "" if line.names.rpartition("/")[2].startswith(kind.type) else kind.type,
        units(size, kind.unit) if size != 1 or kind.unit else "",
        line.edge,
        "" if state == "up" else state,
        holders(graph, v, now) if v in graph.records.held else "",
        tag_text(structure.tags[v]) if v in structure.tags else "",
        " ".join(key if value is None else f"{key}={value}" for key, value in kind.properties),
    ]


def _indent(line: Branch) -> str:
    if not line.level:
        return ""
    above = "".join("   " if ended else "│  " for ended in line.last[:-1])
    return above + ("└─ " if line.last[-1] else "├─ ")

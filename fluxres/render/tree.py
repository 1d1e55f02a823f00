"""Draw the containment tree and auxiliary graphs, with equal parts folded: El Capitan in six lines.

A line is a group of siblings that look the same all the way down, in each of the pools of the line above. Only one pool of each
group is ever examined, so the cost is that of the lines and a few vector steps, not of the pools.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluxres.arrays import Int32, Mask, UInt64
from fluxres.graph import state_notes
from fluxres.graph.accounts import CAPACITY, UNIT
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.structure import Structure
from fluxres.model import ResourceGraph
from fluxres.render.folding import Subtrees, described, fold_all, folded, groups, looks, mixed, of_text
from fluxres.render.listings import holders, notes, properties_text, tags_text
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


def _names(structure: Structure, members: Int32) -> str:
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
        Column("type", drop=2),
        Column("size", right=True, drop=3),
        Column("edge", cut=True),
        Column("state", role=state_role),
        Column("held", role=lambda _text: "job", cut=True),
        Column("tags", role=lambda _text: "warn", cut=True),
        Column("properties", role=lambda _text: "faint", cut=True, drop=1),
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
        " ".join(filter(None, (_reason(structure, v), tags_text(structure, v)))),
        properties_text(described(kind)),
    ]


def _reason(structure: Structure, v: int) -> str:
    note = state_notes.of(structure, v)
    return f"({note.reason})" if note is not None and note.reason else ""


def _indent(line: Branch) -> str:
    if not line.level:
        return ""
    above = "".join("   " if ended else "│  " for ended in line.last[:-1])
    return above + ("└─ " if line.last[-1] else "├─ ")


def forest(graph: ResourceGraph, subsystem: Subsystem, depth: int | None = None, top: int | None = None) -> Iterator[Branch]:
    """The lines of an auxiliary hierarchy: below its roots, or below one of its pools."""
    structure = graph.structure
    drawn = _Forest(structure, subsystem, looks(structure, 0, structure.n, notes(graph, graph.now())))
    if top is not None:
        yield Branch(0, (), structure.auxiliary_uri(subsystem, top), 1, top)
        yield from drawn.below(np.array([top], np.int32), (), depth)
        return
    roots = subsystem.roots()
    for group in groups(drawn.signature[roots]):
        yield Branch(0, (), f"{subsystem.name}:/{folded(structure, roots[group])}", len(group), int(roots[group[0]]))
        yield from drawn.below(roots[group], (), depth)


class _Forest:
    """Signatures of the pools of a hierarchy, each including everything below it."""

    def __init__(self, structure: Structure, subsystem: Subsystem, own: UInt64) -> None:
        self.structure = structure
        self.subsystem = subsystem
        self.edge = _edge_looks(subsystem)
        self.into = np.full(structure.n, -1, np.int64)
        self.into[subsystem.dst] = np.arange(len(subsystem))
        self.signature = own
        levels = [subsystem.roots()]
        while len(levels[-1]):
            levels.append(subsystem.all_successors(levels[-1]))
        with np.errstate(over="ignore"):
            for level in reversed(levels[1:]):
                rows = self.into[level]
                sums = np.zeros(structure.n, np.uint64)
                np.add.at(sums, subsystem.src[rows], mixed(own[level], self.edge[rows]))
                above = np.unique(subsystem.src[rows])
                own[above] = mixed(own[above], sums[above])

    def below(self, parents: Int32, last: tuple[bool, ...], depth: int | None) -> Iterator[Branch]:
        if depth is not None and len(last) >= depth:
            return
        children = self.subsystem.all_successors(parents)
        looks_of = mixed(self.signature[children], self.edge[self.into[children]])
        alike = groups(looks_of)
        for number, group in enumerate(alike):
            ends = (*last, number == len(alike) - 1)
            members = children[group]
            row = int(self.into[members[0]])
            names = folded(self.structure, np.sort(members))
            edge = edge_text(self.structure, self.subsystem, row)
            yield Branch(len(ends), ends, names, len(group) // len(parents), int(members[0]), edge)
            yield from self.below(members, ends, depth)


def _edge_looks(subsystem: Subsystem) -> UInt64:
    """A number for each edge, from its relation and attributes."""
    columns: list[Any] = [subsystem.relation]
    for column in subsystem.attributes.values():
        if column.dtype.kind == "f":
            columns.append(np.where(np.isnan(column), -1.0, column).view(np.uint64))
        else:
            columns.append(np.array([of_text((type(value), value)) for value in column.tolist()], np.uint64))
    return mixed(*columns)


def edge_text(structure: Structure, subsystem: Subsystem, row: int) -> str:
    """Relation and attributes of an edge: ``supplies capacity=24 kW``."""
    data = subsystem.edge_data(row)
    said = {key: _number(value) for key, value in data.items() if key not in ("subsystem", "type")}
    if CAPACITY in data:
        said[CAPACITY] = _capacity(structure, subsystem, row, said.pop(UNIT, None))
    return " ".join([str(data["type"]), *(f"{key}={value}" for key, value in said.items())])


def _capacity(structure: Structure, subsystem: Subsystem, row: int, unit: str | None) -> str:
    """With its unit, or that of what the graph distributes."""
    carried = float(subsystem.edge_data(row)[CAPACITY])
    ends = subsystem.src[row : row + 1], subsystem.dst[row : row + 1]
    account = structure.accounts.between(subsystem, *ends).item()
    unit = structure.accounts.unit(account) if unit is None and account >= 0 else unit
    return units(int(carried), unit) if carried.is_integer() else f"{carried:g} {unit or ''}".rstrip()


def _number(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def edges(structure: Structure, subsystem: Subsystem, *, at: int | None = None, style: Style = PLAIN) -> list[str]:
    """The edges of an auxiliary graph as a table; pools with the same edges share a line, `↔` is an edge in each direction.

    Args:
        at: only the edges from and to this pool.
    """
    rows = [
        [
            fold_all(structure, sources.tolist()),
            arrow,
            fold_all(structure, targets.tolist()),
            edge_text(structure, subsystem, row),
        ]
        for sources, arrow, targets, row in edge_groups(subsystem, at)
    ]
    return table([Column("FROM"), Column(""), Column("TO"), Column("EDGE")], rows, style=style)


def edge_groups(subsystem: Subsystem, at: int | None = None) -> Iterator[tuple[Int32, str, Int32, int]]:
    """(sources, arrow, targets, row): every source has an edge like that row to every target.

    Args:
        at: only edges from and to this pool; edges in both directions count as one from it.
    """
    look = _edge_looks(subsystem)
    both = _both_ways(subsystem, look)
    if at is None:
        rows = np.flatnonzero(~(both & (subsystem.src > subsystem.dst)))
    else:
        rows = np.flatnonzero((subsystem.src == at) | ((subsystem.dst == at) & ~both))
    rows = rows[np.lexsort((subsystem.dst[rows], both[rows], look[rows], subsystem.src[rows]))]
    if not len(rows):
        return
    kind = mixed(look[rows], both[rows])
    src = subsystem.src[rows]
    starts = np.concatenate([[0], np.flatnonzero((np.diff(src) != 0) | (kind[1:] != kind[:-1])) + 1])
    stops = np.append(starts[1:], len(rows))
    with np.errstate(over="ignore"):
        sets = np.add.reduceat(mixed(subsystem.dst[rows]), starts)
    for group in groups(mixed(sets, kind[starts])):
        first = int(group[0])
        row = int(rows[starts[first]])
        targets = subsystem.dst[rows[starts[first] : stops[first]]]
        yield src[starts[group]], "↔" if both[row] else "→", targets, row


def _both_ways(subsystem: Subsystem, look: UInt64) -> Mask:
    there = mixed(subsystem.src, subsystem.dst, look)
    back = mixed(subsystem.dst, subsystem.src, look)
    # NumPy 2.0 chooses an algorithm by the range of the values, which overflows for uint64.
    return np.asarray(np.isin(there, back, kind="sort") & (subsystem.src != subsystem.dst), np.bool_)

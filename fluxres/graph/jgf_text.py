"""The text of a JGF document, made from columns: what pools share is written once a sort, and a pool adds its numbers and names.

A file of a large machine has 600,000 nodes of 200 bytes.  Dictionaries of them would take gigabytes, and a JSON writer a
second for keys that are always the same.  Here the pieces between the numbers are made for each sort of pool, and blocks of
nodes are joined as they come, so that memory stays near the size of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import UNAVAILABLE_STATES, WAY, Kind, PropertyValue
from fluxres.graph.recipe import hand_down
from fluxres.graph.structure import Structure
from fluxres.syntax import template

if TYPE_CHECKING:
    from fluxres.graph.jgf import Part

CONTAINMENT: Final = "containment"
_BLOCK: Final = 16_384


def chunks(structure: Structure, part: Part, *, node_uuids: bool = True, full: bool = False, head: str = "") -> Iterator[bytes]:
    """A JGF document, ``{"graph":{…,"nodes":[…],"edges":[…]}}``, in pieces.

    Args:
        structure: the machine.
        part: which pools of it.
        node_uuids: whether each node says its uuid.
        full: say also what only fluxres reads: states, tags, full sizes, where pools outside the tree stand, attributes of edges.
        head: members of the graph that come before its nodes, each with a comma behind it.

    Cost: about 1 µs a pool, memory for one block.
    Source: RFC 40.
    """
    yield f'{{"graph":{{{head}"nodes":['.encode()
    writer = _Nodes(structure, part, node_uuids=node_uuids, full=full)
    comma = b""
    for lo in range(0, len(part.vertices), _BLOCK):
        yield comma + ",".join(writer.block(slice(lo, lo + _BLOCK))).encode()
        comma = b","
    yield b'],"edges":['
    comma = b""
    for lo in range(0, len(part.vertices), _BLOCK):
        block = part.vertices[lo : lo + _BLOCK]
        above = structure.parent[block]
        edges = (above >= 0) & (block < structure.tree_end)
        pairs = zip(above[edges].tolist(), block[edges].tolist(), strict=True)
        if text := ",".join([f'{{"source":"{u}","target":"{v}"}}' for u, v in pairs]):
            yield comma + text.encode()
            comma = b","
    for subsystem in subsystems(structure, part):
        if text := ",".join(_subsystem_edges(subsystem, part, full=full)):
            yield comma + text.encode()
            comma = b","
    yield b"]"


def quoted(text: str) -> str:
    """A text as JSON has it, in quotes."""
    return orjson.dumps(text).decode()


def property_texts(properties: tuple[tuple[str, PropertyValue], ...]) -> dict[str, str]:
    """Properties as JGF has them, all text; one without a value has none.

    >>> property_texts((("class", 3), ("ssd", None)))
    {'class': '3', 'ssd': ''}
    """
    return {key: "" if value is None else _text(value) for key, value in properties}


def _text(value: PropertyValue) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


class _Nodes:
    """Writes nodes, block by block."""

    def __init__(self, structure: Structure, part: Part, *, node_uuids: bool, full: bool) -> None:
        self._structure, self._part, self._full = structure, part, full
        self._above: dict[int, str] = {-1: ""}
        self._uuid_bases = [f',"uuid":"{uuids.text(base, 0)[:-12]}' for base in structure.origins] if node_uuids else None
        self._auxiliary = _auxiliary_paths(structure, part)
        self._more = _sparse(structure) if full else {}
        self._before, self._between, self._behind, self._names = self._pieces()

    def _pieces(self) -> tuple[list[str], list[str], list[str], list[str | None]]:
        """By sort: the text before the uuid, between it and the name, and behind the rank; and the format of the name.

        The sort of each row is kept too: kind, size, exclusive and state together.
        """
        s, part = self._structure, self._part
        columns: list[NDArray[Any]] = [s.kind[part.vertices], part.sizes, part.exclusive]
        if self._full:
            columns += [s.state[part.vertices], s.flags[part.vertices] & WAY]
        first, self._sort = _sorts(columns)
        before, between, behind, names, defaults = [], [], [], [], []
        for row in first.tolist():
            v = int(part.vertices[row])
            kind = s.kind_of(v)
            before.append(f'"type":{quoted(kind.type)}')
            between.append(f',"basename":{quoted(kind.basename)}' if kind.basename != kind.type else "")
            text = ',"exclusive":true' if part.exclusive[row] else ""
            state = s.state_name(v)
            if self._full and state != "up":
                text += ',"status":1' if state in UNAVAILABLE_STATES else ""
                text += f',"state":"{state}"' if state != "down" else ""
            text += ',"way":true' if self._full and s.flags[v] & WAY else ""
            text += f',"unit":{quoted(kind.unit)}' if kind.unit else ""
            text += f',"size":{part.sizes[row]}' if part.sizes[row] != 1 else ""
            if kind.properties:
                text += f',"properties":{orjson.dumps(property_texts(kind.properties)).decode()}'
            behind.append(text)
            names.append(_name_format(kind))
            defaults.append(names[-1] == _name_format(Kind(kind.type, kind.basename)))
        self._by_default, self._rendered = np.array(defaults), np.array([name is None for name in names])
        return before, between, behind, names

    def block(self, rows: slice) -> list[str]:
        """The nodes of these rows."""
        s, part = self._structure, self._part
        block = part.vertices[rows]
        names, is_default = self._named(block, self._sort[rows])
        uuid_texts = self._uuids(block) if self._uuid_bases is not None else repeat("")
        above, auxiliary, more = self._above, self._auxiliary, self._more
        before, between, behind = self._before, self._between, self._behind
        inner = s.end[block] > block + 1
        columns = (block, s.parent[block], self._sort[rows], s.id[block], s.rank[block], inner)
        found = []
        for v, up, sort, number, rank, has_below, name, plain, uuid in zip(
            *(column.tolist() for column in columns), names, is_default, uuid_texts, strict=False
        ):
            path = f"{above[up]}/{name}"
            if has_below:
                above[v] = path
            own = "" if plain else f',"name":"{name}"'
            paths = f'"containment":"{path}"'
            if v in auxiliary:
                paths = f"{paths}{auxiliary[v]}" if v < s.tree_end else auxiliary[v][1:]
            elif v >= s.tree_end:
                paths = ""
            found.append(
                f'{{"id":"{v}","metadata":{{{before[sort]}{uuid}{between[sort]}{own},"id":{number},"rank":{rank}'
                f'{behind[sort]}{more.get(v, "") if more else ""},"paths":{{{paths}}}}}}}'
            )
        return found

    def _named(self, block: NDArray[np.int32], sorts: NDArray[Any]) -> tuple[list[str], list[bool]]:
        """The names of pools as JSON has them without quotes, and whether a reader knows them without being told."""
        s, formats = self._structure, self._names
        numbers = s.id[block]
        names = [
            form % number if form is not None else ""
            for form, number in zip([formats[sort] for sort in sorts.tolist()], numbers.tolist(), strict=True)
        ]
        is_default = (self._by_default[sorts] & (numbers >= 0)).tolist()
        rendered = self._rendered[sorts] | (numbers < 0)
        if s.names:
            rendered |= np.isin(block, np.fromiter(s.names, np.int32, len(s.names)))
        for i in np.flatnonzero(rendered).tolist():
            v, number = int(block[i]), int(numbers[i])
            name = s.name(v)
            names[i] = quoted(name)[1:-1]
            is_default[i] = number >= 0 and name == f"{s.kind_of(v).basename}{number}"
        return names, is_default

    def _uuids(self, block: NDArray[np.int32]) -> list[str]:
        s, bases, own = self._structure, self._uuid_bases, self._structure.uuid_texts
        assert bases is not None
        found = [
            f'{bases[origin]}{serial:012x}"'
            for origin, serial in zip(s.origin[block].tolist(), s.serial[block].tolist(), strict=True)
        ]
        if own:
            for i, v in enumerate(block.tolist()):
                if v in own:
                    found[i] = f',"uuid":{quoted(own[v])}'
        return found


def _sorts(columns: list[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first row of each different combination of values, and the number of the combination that each row has."""
    code = columns[0].astype(np.int64)
    for column in columns[1:]:
        if len(column) and (column != column[0]).any():
            values, which = np.unique(column, return_inverse=True)
            _, code = np.unique(code * len(values) + which, return_inverse=True)
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    return first, which


def _name_format(kind: Kind) -> str | None:
    """A ``%`` format from the id to the name as JSON has it; None where more than the id decides."""
    if kind.name is None:
        return f"{quoted(kind.basename)[1:-1].replace('%', '%%')}%d"
    if not template.is_invertible(kind.name):
        return None
    found = ""
    for part in template.parse(kind.name):
        if isinstance(part, template.Field):
            found += f"%0{part.width}d" if part.width else "%d"
        else:
            found += quoted(part)[1:-1].replace("%", "%%")
    return found


def _sparse(structure: Structure) -> dict[int, str]:
    """What few pools have: text by vertex."""
    found: dict[int, str] = {}
    for v, tags in structure.tags.items():
        found[v] = f',"tags":{orjson.dumps(tags).decode()}'
    for v, full in structure.capacity.items():
        found[v] = found.get(v, "") + f',"capacity":{full}'
    for v in range(structure.tree_end, structure.n):
        if structure.parent[v] >= 0:
            found[v] = found.get(v, "") + f',"within":"{structure.parent[v]}"'
    # A reader gives a pool of rank -1 that of the pool above, as Fluxion writes it for all that is below nodes.
    above = structure.rank.copy()
    hand_down(above, np.flatnonzero(above >= 0), structure.end)
    for v in np.flatnonzero(above != structure.rank).tolist():
        found[v] = found.get(v, "") + ',"unranked":true'
    return found


# -- auxiliary graphs ----------------------------------------------------------------------------------------------------


def subsystems(structure: Structure, part: Part) -> list[Subsystem]:
    """Auxiliary graphs with an edge within a part, or with the only place of one of its pools."""
    outside = part.vertices[np.searchsorted(part.vertices, structure.tree_end) :]
    return [
        s
        for s in structure.subsystems.values()
        if len(_rows_within(s, part)) or (len(outside) and bool(np.isin(outside, s.members).any()))
    ]


def _rows_within(subsystem: Subsystem, part: Part) -> NDArray[np.int64]:
    """Rows of the edges that have both ends in a part."""
    return np.flatnonzero(np.isin(subsystem.src, part.vertices) & np.isin(subsystem.dst, part.vertices))


def _auxiliary_paths(structure: Structure, part: Part) -> Mapping[int, str]:
    """Paths in auxiliary graphs, as text behind that of containment; where a graph is no tree, only of pools outside."""
    found: dict[int, str] = {}
    for subsystem in subsystems(structure, part):
        members = subsystem.members
        if subsystem.hierarchy:
            path = _paths(structure, dict(zip(subsystem.dst.tolist(), subsystem.src.tolist(), strict=True)))
        else:
            members, path = members[members >= structure.tree_end], _paths(structure, {})
        key = quoted(subsystem.name)
        for v in members.tolist():
            found[v] = f"{found.get(v, '')},{key}:{quoted(path(v))}"
    return found


def _paths(structure: Structure, above: dict[int, int]) -> Callable[[int], str]:
    """What makes the path of a pool by these parents."""
    known: dict[int, str] = {}

    def path(v: int) -> str:
        chain = []
        u = v
        while u >= 0 and u not in known:
            chain.append(u)
            u = above.get(u, -1)
        text = known.get(u, "")
        for u in reversed(chain):
            text = known[u] = f"{text}/{structure.name(u)}"
        return text

    return path


def _subsystem_edges(subsystem: Subsystem, part: Part, *, full: bool) -> Iterator[str]:
    rows = _rows_within(subsystem, part)
    key = quoted(subsystem.name)
    shared = [f'"subsystem":{key},"relationship":{quoted(relation)}' for relation in subsystem.relations]
    columns = (rows, subsystem.src[rows], subsystem.dst[rows], subsystem.relation[rows])
    with_attributes = full and bool(subsystem.attributes)
    for row, u, v, number in zip(*(column.tolist() for column in columns), strict=True):
        more = _attributes(subsystem, row) if with_attributes else ""
        yield f'{{"source":"{u}","target":"{v}","metadata":{{{shared[number]}{more}}}}}'


def _attributes(subsystem: Subsystem, row: int) -> str:
    data = subsystem.edge_data(row)
    del data["subsystem"], data["type"]
    return f',"attributes":{orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()}' if data else ""

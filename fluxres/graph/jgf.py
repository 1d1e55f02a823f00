"""A graph, or the part of it that a job holds, in JSON Graph Format: nodes and edges as in RFC 40 and Fluxion.

R, graph files and the output of `fluxres query` all use this form, so this module decides what a node contains.  Like Fluxion, it
leaves out what the reader assumes, except the id, the rank and the paths, which Fluxion always writes.  A node has a key for use
by edges (the vertex number) and permanent names: paths and the uuid.

A file of a large machine has 600,000 nodes of 200 bytes.  As dictionaries (`document`) they would take gigabytes, and a JSON
writer would spend a second on keys that are always the same.  So `chunks` renders the text between the numbers once per group of
equal pools and joins nodes block by block, so that memory stays close to the size of the file.

Fluxion refuses a whole file because of one graph that it cannot represent: its graph has one edge from one vertex to another and
one root per subsystem, and it finds vertices by path and rank.  So only the graphs that it accepts as subsystems
(`subsystems_of`) are written as such, and others go into a part of the file that Fluxion ignores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import orjson
from numpy.typing import NDArray

from fluxres.arrays import Int32, Int64, Mask
from fluxres.errors import FluxresError
from fluxres.graph import surgery, uuids
from fluxres.graph.accounts import cut
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import EXCLUSIVE, UNAVAILABLE_STATES, WAY, Kind, PropertyValue
from fluxres.graph.recipe import hand_down
from fluxres.graph.structure import Structure
from fluxres.graph.surgery import Along, Carried
from fluxres.syntax import hostlist, idset, template

CONTAINMENT = "containment"


class Subsystems(NamedTuple):
    """The auxiliary graphs that have edges, except one named containment.

    Args:
        taken: those that Fluxion accepts, by name.
        refused: why it would refuse each of the others, by name.
    """

    taken: Mapping[str, Subsystem]
    refused: Mapping[str, str]


def subsystems_of(structure: Structure) -> Subsystems:
    """The auxiliary graphs of a machine by whether Fluxion accepts them.

    The answer depends on the whole machine, not on the part that is written: in the R of a job, each pool must have the same
    paths as in the file of the machine, or Fluxion does not find it.

    Cost: O(edges) array operations and O(pools of hierarchies) Python, once per machine.
    """
    graphs = tuple(structure.subsystems.values())
    known = _KNOWN_SUBSYSTEMS.get(structure)
    if known is None or len(known[0]) != len(graphs) or any(a is not b for a, b in zip(known[0], graphs, strict=True)):
        known = _KNOWN_SUBSYSTEMS[structure] = graphs, _SubsystemCheck(structure).found()
    return known[1]


_KNOWN_SUBSYSTEMS: WeakKeyDictionary[Structure, tuple[tuple[Subsystem, ...], Subsystems]] = WeakKeyDictionary()


def paths_in(structure: Structure, subsystem: Subsystem) -> Callable[[int], str]:
    """A function from pool to path in an auxiliary graph: from the root of a hierarchy, in any other graph just the name."""
    known: dict[int, str] = {}

    def path(v: int) -> str:
        chain = []
        u = v
        while u >= 0 and u not in known:
            chain.append(u)
            u = subsystem.parent(u) if subsystem.hierarchy else -1
        text = known.get(u, "")
        for u in reversed(chain):
            text = known[u] = f"{text}/{structure.name(u)}"
        return text

    return path


class _SubsystemCheck:
    """Decides graph by graph; an accepted graph restricts the ones after it."""

    def __init__(self, structure: Structure) -> None:
        self._s = structure
        self._edges: dict[str, Int64] = {}
        self._places: dict[tuple[str, int], int] = {}

    def found(self) -> Subsystems:
        taken: dict[str, Subsystem] = {}
        refused: dict[str, str] = {}
        for name, graph in self._s.subsystems.items():
            if name == CONTAINMENT or not len(graph):
                continue
            reason = self._outside(graph) or self._doubled(graph) or self._misplaced(graph)
            if reason:
                refused[name] = reason
            else:
                taken[name] = graph
                self._edges[name] = self._codes(graph)
        return Subsystems(taken, refused)

    def _outside(self, graph: Subsystem) -> str:
        """Why it would be refused: several roots, or pools with a rank that no job can have; empty if neither."""
        s = self._s
        outside = graph.members[graph.members >= s.tree_end]
        roots = len(graph.roots()) if graph.hierarchy else len(outside)
        if roots > 1:
            return f"{roots} roots" if graph.hierarchy else f"{roots} pools outside containment"
        ranked = outside[s.rank[outside] >= 0]
        return f"{s.name(int(ranked[0]))} outside containment has a rank" if len(ranked) else ""

    def _doubled(self, graph: Subsystem) -> str:
        """Why it would be refused: an edge joins two pools that another edge joins already; empty if none does."""
        s = self._s
        codes = self._codes(graph)
        order = np.argsort(codes, kind="stable")
        again = order[1:][np.diff(codes[order]) == 0]
        if len(again):
            return f"two edges from {self._names(graph, int(again[0]))}"
        inside = (graph.dst < s.tree_end) & (s.parent[graph.dst] == graph.src)
        if inside.any():
            return f"an edge from {self._names(graph, int(inside.argmax()))}, as in containment"
        for name, others in self._edges.items():
            if len(both := np.flatnonzero(np.isin(codes, others))):
                return f"an edge from {self._names(graph, int(both[0]))}, as in {name}"
        return ""

    def _codes(self, graph: Subsystem) -> Int64:
        """A number for each pair of pools that an edge joins."""
        return graph.src.astype(np.int64) * self._s.n + graph.dst

    def _names(self, graph: Subsystem, row: int) -> str:
        return f"{self._s.name(int(graph.src[row]))} to {self._s.name(int(graph.dst[row]))}"

    def _misplaced(self, graph: Subsystem) -> str:
        """Why it would be refused: Fluxion would take two pools for one, because they share a path; empty if none do."""
        s = self._s
        members = graph.members if graph.hierarchy else graph.members[graph.members >= s.tree_end]
        path, found = paths_in(s, graph), dict[tuple[str, int], int]()
        top = f"/{s.name(0)}"
        for v in members.tolist():
            text, rank = path(v), s.rank.item(v)
            other = self._places.get((text, rank), found.get((text, rank), v))
            if other == v and (text == top or text.startswith(f"{top}/")):
                other = self._contained(text, rank, v)
            if other != v:
                return f"{text} is the path of two pools"
            found[text, rank] = v
        self._places |= found
        return ""

    def _contained(self, path: str, rank: int, v: int) -> int:
        """The pool of containment with this path and rank; `v` if there is none."""
        try:
            other = self._s.vertex(path)
        except FluxresError:
            return v
        return other if self._s.rank.item(other) == rank else v


SHORTHAND: Final = "fluxion:jgf_shorthand"
"""`writer` of a graph that leaves out what is below exclusively held pools."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphPart:
    """The pools of a structure to write, and how many units of each.

    Args:
        vertices: int32, ascending; includes the ancestors of each pool in it.
        sizes: int64, units of each.
        exclusive: bool, whether the job of this graph holds the pool exclusively.
        ways: bool, whether it is a pass-through pool, present only as the path to others.
    """

    vertices: Int32
    sizes: Int64
    exclusive: Mask
    ways: Mask


def held(
    structure: Structure,
    vertices: Int32,
    amounts: Int64,
    *,
    shorthand: bool = False,
    along: Along | None = None,
) -> GraphPart:
    """The part of a structure that is held, as a copy for a nested instance contains it (rule C1).

    It consists of the given pools, everything below those held exclusively and, as pass-through pools, the ancestors of any of
    them and the pools outside the containment tree that supply and connect them.

    Args:
        structure: the machine.
        vertices: int32, ascending, each once.
        amounts: int64, units of each.
        shorthand: leave out what is below exclusively held pools in the containment tree.
        along: given a part of the machine (bool by vertex), the further pass-through pools that it needs.

    Cost: arrays over the pools found; with auxiliary graphs, over the vertex range they span and the edges there.
    """
    whole = amounts == structure.size[vertices]
    implied = below = _own_below(structure, vertices[whole], structure.end[vertices[whole]])
    if shorthand:  # which Fluxion expands along containment
        stop = np.where(vertices < structure.tree_end, vertices + 1, structure.end[vertices])[whole]
        implied = _own_below(structure, vertices[whole], stop)
    own = np.unique(np.concatenate([vertices, implied])).astype(np.int32)
    tops = own[~np.isin(structure.parent[own], own)]
    if along is not None:
        kept = np.zeros(structure.n, np.bool_)
        kept[own] = kept[below] = True
        tops = np.union1d(tops, np.flatnonzero(along(kept)).astype(np.int32))
    every = surgery.with_the_way(structure, own, tops)
    sizes, exclusive = structure.size[every], np.zeros(len(every), np.bool_)
    sizes[np.searchsorted(every, vertices)] = amounts
    # A job may hold a pool exclusively and, at another time, a part of something below it: the exclusive holding wins.
    at = np.searchsorted(every, implied)
    sizes[at] = structure.size[implied]
    exclusive[at] = True
    ways = np.ones(len(every), np.bool_)
    ways[np.searchsorted(every, own)] = False
    only = (structure.flags[every] & WAY) != 0
    if structure.linked is not None:  # what the parent granted of a pass-through pool is the job's own
        only &= ~structure.linked[every]
    return GraphPart(every, sizes, exclusive, ways | only)


def _own_below(structure: Structure, first: Int32, end: Int32) -> Int32:
    """What exclusively held pools imply: all pools below them except those the enclosing instance grants on request (N1)."""
    found = _below(first, end)
    return found if structure.linked is None else found[~structure.linked[found] | np.isin(found, first)]


def _below(first: Int32, end: Int32) -> Int32:
    lengths = (end - first).astype(np.int64)
    return np.asarray(np.repeat(end - np.cumsum(lengths), lengths) + np.arange(int(lengths.sum())), np.int32)


def document(
    structure: Structure, part: GraphPart, more: Mapping[int, str] = MappingProxyType({}), carried: Carried | None = None
) -> dict[str, Any]:
    """The graph of a part as plain values: `{"graph": {"nodes": […], "edges": […]}}`.

    Args:
        more, carried: as for :func:`~fluxres.graph.jgf.chunks`.

    Cost: about 3 µs per pool.
    Source: RFC 40.
    """
    values: dict[str, Any] = orjson.loads(b"".join(chunks(structure, part, more=more, carried=carried)) + b"}")
    return values


def node(
    key: str,
    kind: Kind,
    name: str,
    number: int,
    rank: int,
    size: int,
    exclusive: bool,
    paths: Mapping[str, str],
    uuid: str | None = None,
) -> dict[str, Any]:
    """One pool as a node: the values that differ from the defaults, and always id, rank and paths.

    >>> node("7", Kind("core", "core"), "core3", 3, 0, 1, True, {"containment": "/c0/node0/core3"})["metadata"]
    {'type': 'core', 'id': 3, 'rank': 0, 'exclusive': True, 'paths': {'containment': '/c0/node0/core3'}}
    """
    metadata: dict[str, Any] = {"type": kind.type}
    if uuid is not None:
        metadata["uuid"] = uuid
    if kind.basename != kind.type:
        metadata["basename"] = kind.basename
    if name != f"{kind.basename}{number}":
        metadata["name"] = name
    metadata["id"] = number
    metadata["rank"] = rank
    if kind.properties:
        metadata["properties"] = dict(kind.properties)
    if kind.unit:
        metadata["unit"] = kind.unit
    if exclusive:
        metadata["exclusive"] = True
    if size != 1:
        metadata["size"] = size
    metadata["paths"] = paths
    return {"id": key, "metadata": metadata}


def edge(source: str, target: str, subsystem: str = CONTAINMENT, relationship: str | None = None) -> dict[str, Any]:
    """One edge; those of the containment tree are the default and carry no metadata.

    >>> edge("0", "1"), edge("5", "9", "power", "supplies")["metadata"]
    ({'source': '0', 'target': '1'}, {'subsystem': 'power', 'relationship': 'supplies'})
    """
    values: dict[str, Any] = {"source": source, "target": target}
    if subsystem != CONTAINMENT:
        values["metadata"] = {"subsystem": subsystem}
        if relationship is not None:
            values["metadata"]["relationship"] = relationship
    return values


_BLOCK: Final = 16_384


def chunks(
    structure: Structure,
    part: GraphPart,
    *,
    label: str | None = None,
    uuid_runs: list[list[Any]] | None = None,
    more: Mapping[int, str] = MappingProxyType({}),
    carried: Carried | None = None,
) -> Iterator[bytes]:
    """A JGF document without its last bracket, ``{"graph":{"nodes":[…],"edges":[…],"metadata":{…}}``, in pieces.

    The nodes and edges contain what Fluxion reads, plus keys that only fluxres reads.  The metadata of the graph, which Fluxion
    ignores, contains the auxiliary graphs that Fluxion would refuse and the pools that only these graphs have.

    Args:
        structure: the machine.
        part: which pools of it.
        label: name of the graph.
        uuid_runs: the uuids of all these pools in order, as runs; by default each node contains its own.
        more: further members of the metadata of nodes, by vertex, each preceded by a comma.
        carried: units of these edges with a capacity, by account; all by default.

    Cost: about 1 µs per pool, memory for one block.
    Source: RFC 40.
    """
    s, subsystems, shown = structure, subsystems_of(structure), _is_shown(structure, part)
    nodes = _Nodes(s, part, subsystems.taken, more, node_uuids=uuid_runs is None)
    yield b'{"graph":{' if label is None else f'{{"graph":{{"label":{quoted(label)},'.encode()
    yield b'"nodes":['
    yield from _joined(nodes.blocks(np.flatnonzero(shown)))
    yield b'],"edges":['
    edges = _Edges(s, part, part.vertices[~shown], carried)
    yield from _joined(edges.blocks(hidden=False))
    yield b"]"
    yield from _metadata(s, part, nodes, np.flatnonzero(~shown), uuid_runs, edges)
    yield b"}"


def in_order(structure: Structure, part: GraphPart) -> Int32:
    """The pools of a part in document order: those that Fluxion does not see come last."""
    shown = _is_shown(structure, part)
    return np.concatenate([part.vertices[shown], part.vertices[~shown]])


def _is_shown(structure: Structure, part: GraphPart) -> Mask:
    """Which pools of a part Fluxion sees: those of the containment tree and of the subsystems that it accepts.

    Fluxion has no notion of a pass-through pool.  One that leads to nothing else in the tree, such as the core through which a
    supply arrives, it would take for a core that it may allocate to a job.
    """
    vertices = part.vertices
    shown = vertices < structure.tree_end
    if part.ways.any():
        own, stop = np.concatenate([[0], np.cumsum(~part.ways)]), np.searchsorted(vertices, structure.end[vertices])
        shown &= (own[stop] > own[:-1]) | (vertices == 0)
    for graph in subsystems_of(structure).taken.values():
        shown |= _are_in(graph.members, vertices) & (vertices >= structure.tree_end)
    return np.asarray(shown, np.bool_)


def _joined(blocks: Iterable[list[str]]) -> Iterator[bytes]:
    """The values of a list separated by commas, in pieces."""
    comma = ""
    for texts in blocks:
        if texts:
            yield f"{comma}{','.join(texts)}".encode()
            comma = ","


def _metadata(
    structure: Structure,
    part: GraphPart,
    nodes: _Nodes,
    hidden: Int64,
    uuid_runs: list[list[Any]] | None,
    edges: _Edges,
) -> Iterator[bytes]:
    """The metadata of the graph; nothing if there is none."""
    members = [] if uuid_runs is None else [f'"uuids":{orjson.dumps(uuid_runs).decode()}']
    subsystems = subsystems_of(structure)
    within = {name: len(_rows_within(graph, part)) > 0 for name, graph in structure.subsystems.items()}
    graphs = {name: graph.hierarchy for name, graph in structure.subsystems.items() if name != CONTAINMENT}
    if any(name not in subsystems.taken or not within[name] for name in graphs):
        members.append(f'"graphs":{orjson.dumps(graphs).decode()}')
    if not len(hidden) and not any(within[name] for name in subsystems.refused):
        yield f',"metadata":{{{",".join(members)}}}'.encode() if members else b""
        return
    yield f',"metadata":{{{",".join([*members, ""])}"auxiliary":{{"nodes":['.encode()
    yield from _joined(nodes.blocks(hidden))
    yield b'],"edges":['
    yield from _joined(edges.blocks(hidden=True))
    yield b"]}}"


def quoted(text: str) -> str:
    """A text as a JSON string, with quotes."""
    return orjson.dumps(text).decode()


def property_texts(properties: tuple[tuple[str, PropertyValue], ...]) -> dict[str, str]:
    """Properties as JGF has them: all text, and empty for a property without a value.

    >>> property_texts((("class", 3), ("ssd", None)))
    {'class': '3', 'ssd': ''}
    """
    return {key: "" if value is None else _text(value) for key, value in properties}


def _text(value: PropertyValue) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


class _Nodes:
    """Writes nodes block by block; those of the containment tree in order, because a path extends that of the pool above."""

    def __init__(
        self,
        structure: Structure,
        part: GraphPart,
        subsystems: Mapping[str, Subsystem],
        more: Mapping[int, str],
        *,
        node_uuids: bool,
    ) -> None:
        self._structure, self._part = structure, part
        self._above: dict[int, str] = {-1: ""}
        self._uuid_bases = [f',"uuid":"{uuids.text(base, 0)[:-12]}' for base in structure.origins] if node_uuids else None
        self._auxiliary = _auxiliary_paths(structure, part, subsystems)
        self._more = _sparse(structure, part, more)
        self._before, self._between, self._behind, self._names = self._pieces()

    def _pieces(self) -> tuple[list[str], list[str], list[str], list[str | None]]:
        """For each group: the text before the uuid, the text between uuid and name, the text after the rank, and the name format.

        Also stores the group of each row: the distinct combination of kind, size, exclusive, flags and state.
        """
        s, part = self._structure, self._part
        may_be_whole = s.flags[part.vertices] & EXCLUSIVE
        columns: list[NDArray[Any]] = [
            s.kind[part.vertices], part.sizes, part.exclusive, s.state[part.vertices], may_be_whole, part.ways
        ]  # fmt: skip
        first, self._sort = _sorts(columns)
        before, between, behind, names, defaults = [], [], [], [], []
        for row in first.tolist():
            v = int(part.vertices[row])
            kind = s.kind_of(v)
            before.append(f'"type":{quoted(kind.type)}')
            between.append(f',"basename":{quoted(kind.basename)}' if kind.basename != kind.type else "")
            text = ',"exclusive":true' if part.exclusive[row] else ""
            text += ',"whole":true' if may_be_whole[row] else ""
            state = s.state_name(v)
            if state != "up":
                text += ',"status":1' if state in UNAVAILABLE_STATES else ""
                text += f',"state":"{state}"' if state != "down" else ""
            text += ',"way":true' if part.ways[row] else ""
            text += f',"unit":{quoted(kind.unit)}' if kind.unit else ""
            text += f',"size":{part.sizes[row]}' if part.sizes[row] != 1 else ""
            if kind.properties:
                text += f',"properties":{orjson.dumps(property_texts(kind.properties)).decode()}'
            behind.append(text)
            names.append(_name_format(kind))
            defaults.append(names[-1] == _name_format(Kind(kind.type, kind.basename)))
        self._by_default, self._rendered = np.array(defaults), np.array([name is None for name in names])
        return before, between, behind, names

    def blocks(self, rows: Int64) -> Iterator[list[str]]:
        """The nodes of these rows of the part, ascending."""
        for lo in range(0, len(rows), _BLOCK):
            yield self._block(rows[lo : lo + _BLOCK])

    def _block(self, rows: Int64) -> list[str]:
        s, part = self._structure, self._part
        block = part.vertices[rows]
        names, is_default = self._named(block, self._sort[rows])
        uuid_texts = self._uuids(block) if self._uuid_bases is not None else repeat("")
        above, auxiliary, more = self._above, self._auxiliary, self._more
        before, between, behind, tree_end = self._before, self._between, self._behind, s.tree_end
        inner = s.end[block] > block + 1
        columns = (block, s.parent[block], self._sort[rows], s.id[block], s.rank[block], inner)
        found = []
        for v, up, sort, number, rank, has_below, name, plain, uuid in zip(
            *(column.tolist() for column in columns), names, is_default, uuid_texts, strict=False
        ):
            if v < tree_end:
                path = f"{above[up]}/{name}"
                if has_below:
                    above[v] = path
                paths = f'"containment":"{path}"'
                if auxiliary and v in auxiliary:
                    paths += auxiliary[v]
            else:
                paths = auxiliary.get(v, "")[1:]
            own = "" if plain else f',"name":"{name}"'
            found.append(
                f'{{"id":"{v}","metadata":{{{before[sort]}{uuid}{between[sort]}{own},"id":{number},"rank":{rank}'
                f'{behind[sort]}{more.get(v, "") if more else ""},"paths":{{{paths}}}}}}}'
            )
        return found

    def _named(self, block: Int32, sorts: NDArray[Any]) -> tuple[list[str], list[bool]]:
        """The names of pools as JSON without the quotes, and whether a reader can derive them."""
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

    def _uuids(self, block: Int32) -> list[str]:
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


def _sorts(columns: list[NDArray[Any]]) -> tuple[Int64, Int64]:
    """The first row of each distinct combination of values, and for each row the number of its combination."""
    code = columns[0].astype(np.int64)
    for column in columns[1:]:
        if len(column) and (column != column[0]).any():
            values, which = np.unique(column, return_inverse=True)
            _, code = np.unique(code * len(values) + which, return_inverse=True)
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    return first, which


def _name_format(kind: Kind) -> str | None:
    """A ``%`` format from the id to the name as JSON; None if the name depends on more than the id."""
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


def _sparse(structure: Structure, part: GraphPart, more: Mapping[int, str]) -> dict[int, str]:
    """Metadata that only few pools have, as text by vertex."""
    s, found = structure, dict(more)

    def add(v: int, text: str) -> None:
        found[v] = found.get(v, "") + text

    if s.tags:
        tagged = part.vertices[np.isin(part.vertices, np.fromiter(s.tags, np.int64, len(s.tags)))]
        for v in tagged.tolist():
            add(v, f',"tags":{orjson.dumps(s.tags[v]).decode()}')
    cut = part.vertices[part.sizes < s.size[part.vertices]].tolist()
    known = set(part.vertices.tolist()) if s.capacity else set()
    for v in {*cut, *(s.capacity.keys() & known)}:
        add(v, f',"capacity":{s.capacity.get(v, s.size.item(v))}')
    for v in part.vertices[np.searchsorted(part.vertices, s.tree_end) :].tolist():
        if s.parent[v] >= 0:
            add(v, f',"within":"{s.parent[v]}"')
    # A reader gives a pool of rank -1 the rank of the pool above; Fluxion writes ranks below nodes that way.
    rank = s.rank[part.vertices]
    above = rank.copy()
    hand_down(above, np.flatnonzero(above >= 0), np.searchsorted(part.vertices, s.end[part.vertices]).astype(np.int32))
    for v in part.vertices[above != rank].tolist():
        add(v, ',"unranked":true')
    return found


# -- edges, and auxiliary graphs -----------------------------------------------------------------------------------------


def _rows_within(subsystem: Subsystem, part: GraphPart) -> Int64:
    """Rows of the edges with both ends in a part, ascending."""
    rows = subsystem.rows_from(part.vertices)[1]
    return np.sort(rows[_are_in(part.vertices, subsystem.dst[rows])])


def _are_in(table: Int32, vertices: Int32) -> Mask:
    """Which of these vertices are in an ascending table.  Cost O(vertices log table)."""
    if not len(table):
        return np.zeros(len(vertices), np.bool_)
    return np.asarray(table[np.minimum(np.searchsorted(table, vertices), len(table) - 1)] == vertices)


def _auxiliary_paths(structure: Structure, part: GraphPart, subsystems: Mapping[str, Subsystem]) -> Mapping[int, str]:
    """Paths in subsystems, as text that follows the containment path; for a graph that is not a tree, only of pools outside
    containment.

    A path is that in the whole machine even if the part lacks some of it, because Fluxion identifies a pool by its paths.
    """
    found: dict[int, str] = {}
    for name, graph in subsystems.items():
        members = part.vertices[_are_in(graph.members, part.vertices)]
        if not graph.hierarchy:
            members = members[members >= structure.tree_end]
        path, key = paths_in(structure, graph), quoted(name)
        for v in members.tolist():
            found[v] = f"{found.get(v, '')},{key}:{quoted(path(v))}"
    return found


class _Edges:
    """Writes edges block by block, either those that Fluxion sees or the others.

    Args:
        hidden: pools of the part that Fluxion does not see, ascending.
    """

    def __init__(self, structure: Structure, part: GraphPart, hidden: Int32, carried: Carried | None) -> None:
        self._structure, self._part, self._hidden, self._carried = structure, part, hidden, carried

    def blocks(self, *, hidden: bool) -> Iterator[list[str]]:
        """The edges of containment, then those of the subsystems."""
        subsystems = subsystems_of(self._structure)
        yield from self._tree(hidden=hidden)
        for name, graph in self._structure.subsystems.items():
            if name in subsystems.taken or (hidden and name in subsystems.refused):
                yield from self._of(graph, hidden=None if name in subsystems.refused else hidden)

    def _tree(self, *, hidden: bool) -> Iterator[list[str]]:
        s, vertices = self._structure, self._part.vertices
        for lo in range(0, len(vertices), _BLOCK):
            block = vertices[lo : lo + _BLOCK]
            above = s.parent[block]
            edges = (above >= 0) & (block < s.tree_end) & (_are_in(self._hidden, block) == hidden)
            pairs = zip(above[edges].tolist(), block[edges].tolist(), strict=True)
            yield [f'{{"source":"{u}","target":"{v}"}}' for u, v in pairs]

    def _of(self, subsystem: Subsystem, *, hidden: bool | None) -> Iterator[list[str]]:
        """The edges of one graph; `hidden` None selects all of them."""
        rows = _rows_within(subsystem, self._part)
        if self._carried is not None:
            subsystem = cut(self._structure.accounts, subsystem, rows, self._carried)
        if hidden is not None:
            ends = _are_in(self._hidden, subsystem.src[rows]) | _are_in(self._hidden, subsystem.dst[rows])
            rows = rows[ends == hidden]
        key = quoted(subsystem.name)
        shared = [f'"subsystem":{key},"relationship":{quoted(relation)}' for relation in subsystem.relations]
        for lo in range(0, len(rows), _BLOCK):
            block = rows[lo : lo + _BLOCK]
            columns = (block, subsystem.src[block], subsystem.dst[block], subsystem.relation[block])
            found = []
            for row, u, v, number in zip(*(column.tolist() for column in columns), strict=True):
                more = _attributes(subsystem, row) if subsystem.attributes else ""
                found.append(f'{{"source":"{u}","target":"{v}","metadata":{{{shared[number]}{more}}}}}')
            yield found


def _attributes(subsystem: Subsystem, row: int) -> str:
    data = subsystem.edge_data(row)
    del data["subsystem"], data["type"]
    return f',"attributes":{orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()}' if data else ""


def left_out_below(
    structure: Structure,
    part: GraphPart,
    types: Sequence[str],
    *,
    host: Callable[[int], str] | None = None,
    numbers: Int64 | None = None,
) -> dict[int, str]:
    """What the shorthand form of R leaves out, as members for the metadata of nodes: `hosts` above nodes, `children`
    within them.

    Without them, a reader that does not have the machine cannot tell which of two racks a node is in, or which socket a core is
    in.  Host names and ids stay valid when Flux assigns other ranks to the nodes.  Fluxion ignores these keys.

    Args:
        part: contains pools without what is below them.
        types: of the pools that R_lite lists by id.
        host: the host name of a node; its pool name by default.
        numbers: ids in R_lite, by vertex; by default the position among the pools of that type on the node.

    Errors: InputError for a name that a hostlist cannot express.
    Cost: a few microseconds for each such pool that is not a node itself.
    """
    s, found = structure, dict[int, str]()
    ranks, tops = s.execution_targets
    in_tree = np.sort(tops[tops < s.tree_end])
    for v in _hiding(s, part):
        rank, stop = s.rank.item(v), s.end.item(v)
        said: dict[str, Any] = {}
        if rank < 0:
            nodes = in_tree[np.searchsorted(in_tree, v) : np.searchsorted(in_tree, stop)].tolist()
            said = {"hosts": hostlist.format(map(host or s.name, nodes))} if nodes else {}
        elif (top := int(tops[np.searchsorted(ranks, rank)])) != v:
            for type_ in types:
                table = s.of_type(type_)
                lo, hi, first = np.searchsorted(table, [v + 1, stop, top]).tolist()
                if lo < hi:
                    ids = range(lo - first, hi - first) if numbers is None else numbers[table[lo:hi]].tolist()
                    said.setdefault("children", {})[type_] = idset.format(sorted(ids))
        if said:
            found[v] = f",{orjson.dumps(said).decode()[1:-1]}"
    return found


def _hiding(structure: Structure, part: GraphPart) -> Iterator[int]:
    """Exclusively held pools that have descendants, none of which is in the part."""
    vertices = part.vertices
    stop = structure.end[vertices]
    following = np.append(vertices[1:], structure.n)
    hides = part.exclusive & (stop > vertices + 1) & (following >= stop) & (vertices < structure.tree_end)
    yield from vertices[hides].tolist()

"""JGF: resource graphs as JSON documents of nodes and edges (Flux RFC 40), as Fluxion and fluxres write them.

The edges of containment make the containment tree; every other subsystem becomes an auxiliary graph. Fluxion's shorthand, which
leaves out everything below exclusively held pools, is read like any other graph: without what it leaves out.

A document states the same fact several times: the name of a pool in its name, its id and its paths, its parent in its paths and
in edges. All of them are compared here, since a reader that trusts one loses what the others say. Whole lists are compared;
single nodes are looked at only where a comparison fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Int32, Int64, Mask
from fluxres.documents import json_typed
from fluxres.documents.document import Key, plural, shown
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats import losses, pool_uuids
from fluxres.formats.flux.jgf_columns import EdgeColumns, NodeColumns, name_nodes
from fluxres.formats.flux.jgf_schema import Jgf, RawAuxiliary, RawGraph, RawGraphMetadata, RawJgf
from fluxres.formats.format import ALL, Hold, Loaded, Output
from fluxres.formats.losses import keys_passed_over
from fluxres.formats.pool_uuids import give_uuids
from fluxres.graph import jgf
from fluxres.graph.accounts import CAPACITY, LARGER_UNIT, is_countable
from fluxres.graph.assemble import assemble
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.forest import in_slices
from fluxres.graph.jgf import CONTAINMENT, SHORTHAND, GraphPart
from fluxres.graph.kinds import DRAW, EXCLUSIVE, STATES, WAY, Kind, KindTable, PropertyValue, properties_tuple, require_draws
from fluxres.graph.structure import Structure
from fluxres.syntax import idset

_DOWN: Final = STATES.index("down")


LABEL: Final = "label"
"""Tag of a pool: its label in JSON Graph Format, if that is not its name."""


class Built(NamedTuple):
    """A structure, whether its graph has keys that are ignored, the label of the graph, and what was not kept."""

    structure: Structure
    has_unknown_keys: bool
    label: str | None
    passed_over: list[str]
    hidden: Hidden


class Hidden(NamedTuple):
    """Pools that R says are held exclusively with everything below them, and what a shorthand leaves out below some of them.

    Args:
        held: ascending vertex numbers.
        hosts: hostlist of the nodes below, by vertex.
        children: ids by type of the pools below, by vertex.
    """

    held: Int32
    hosts: dict[int, str]
    children: dict[int, dict[str, str]]


def build(
    source: Source, graph: RawGraph, whole: type[Any], prefix: Sequence[Key], origin: int | None, *, is_of_job: bool = False
) -> Built:
    """The structure of a graph in a JSON text.

    Args:
        whole: type of the whole text.
        prefix: path of the graph in the text.
        is_of_job: whether `exclusive` means held by the job, and not that a pool may only be allocated exclusively.

    Errors: InputError with the place: edges to missing nodes, pools with two parents or none, names and
    ids that disagree with paths.
    Cost: about 2 µs per node.
    """
    metadata = graph.metadata if isinstance(graph.metadata, RawGraphMetadata) else RawGraphMetadata()
    auxiliary = metadata.auxiliary if metadata.auxiliary is not UNSET else RawAuxiliary()
    edge_parts = [msgspec.Raw(b"[]") if graph.edges is UNSET else graph.edges]
    edge_parts += [] if auxiliary.edges is UNSET else [auxiliary.edges]
    nodes = NodeColumns(source, [graph.nodes] if auxiliary.nodes is UNSET else [graph.nodes, auxiliary.nodes], whole)
    edges = EdgeColumns(source, edge_parts, whole, directed=graph.directed is not False)
    graphs = metadata.graphs if metadata.graphs is not UNSET else {}
    builder = _Builder(source, nodes, edges, prefix, graphs)
    structure = builder.structure(origin, metadata.uuids if metadata.uuids is not UNSET else None, is_of_job=is_of_job)
    empty = np.zeros(0, np.int32)
    for name, hierarchy in reversed(graphs.items()):  # they come first, in this order
        made = structure.subsystems.pop(name, Subsystem(name, hierarchy, empty, empty))
        structure.subsystems = {name: made, **structure.subsystems}
    for key, value in (("jgf.id", graph.id), ("jgf.type", graph.type)):
        if isinstance(value, str):
            structure.set_tag([0], key, value)
    has_unknown_keys = nodes.has_unknown_keys or edges.has_unknown_keys
    return Built(structure, has_unknown_keys, graph.label or None, builder.passed_over, builder.hidden)


class _Builder:
    def __init__(
        self, source: Source, nodes: NodeColumns, edges: EdgeColumns, prefix: Sequence[Key], graphs: Mapping[str, bool]
    ) -> None:
        self._source, self._prefix, self._graphs_said = source, prefix, graphs
        self.nodes, self._edges = nodes, edges
        self.passed_over = edges.passed_over
        if not nodes.n:
            self.fail(["nodes"], "expected at least one node, got none")
        self._row = dict(zip(nodes.key, range(nodes.n), strict=True))
        if len(self._row) < nodes.n:
            twice = next(i for i, key in enumerate(nodes.key) if self._row[key] != i)
            self.fail(["nodes", self._row[nodes.key[twice]], "id"], f"a second node with the id {nodes.key[twice]!r}")
        self._src, self._dst = self._ends(edges.source, "source"), self._ends(edges.target, "target")
        del edges.source[:], edges.target[:]  # the nodes take more memory than the rows made from them
        self._data = edges.metadata
        names = {CONTAINMENT: 0}
        self._of_subsystem = np.zeros(len(self._src), np.int32)
        for row, data in self._data.items():
            if data.subsystem is not UNSET and data.subsystem != CONTAINMENT:
                self._of_subsystem[row] = names.setdefault(data.subsystem, len(names))
        self._subsystems = list(names)[1:]
        if edges.undirected:
            self._direct(edges.undirected)

    def fail(self, path: Sequence[Key], message: str, hint: str = "", *, limit: bool = False) -> NoReturn:
        """Raise for the document at a place in the graph, whose nodes and edges may be in two lists."""
        if len(path) > 1 and path[0] in ("nodes", "edges") and isinstance(path[1], int):
            at, shown = path[1], self.nodes.shown
            if path[0] == "edges":
                at, shown = self._edges.place[at] if at < len(self._edges.place) else at, self._edges.shown
            path = [path[0], at, *path[2:]] if at < shown else ["metadata", "auxiliary", path[0], at - shown, *path[2:]]
        where = json_typed.where(self._source, [*self._prefix, *path])
        raise (LimitExceeded if limit else InputError)(message, where=where, hint=hint)

    def _ends(self, keys: list[str], side: str) -> Int32:
        try:
            return np.fromiter(map(self._row.__getitem__, keys), np.int32, len(keys))
        except KeyError as error:
            edge = keys.index(error.args[0])
            self.fail(["edges", edge, side], f"no node has the id {keys[edge]!r}", "edges refer to nodes by their id")

    def _direct(self, rows: Sequence[int]) -> None:
        """Orient edges without direction so that paths lead along them; the others become edges in both directions."""
        names = [CONTAINMENT, *self._subsystems]
        there = set(zip(self._src.tolist(), self._dst.tolist(), self._of_subsystem.tolist(), strict=True))
        both = []
        for row in rows:
            u, v, number = self._src.item(row), self._dst.item(row), self._of_subsystem.item(row)
            head, tail = (self._path_in(names[number], end) for end in (u, v))
            if head is not None and head.rpartition("/")[0] == tail:
                self._src[row], self._dst[row] = v, u
            elif (tail is None or tail.rpartition("/")[0] != head) and number and (v, u, number) not in there:
                both.append(row)
        place, n = self._edges.place, len(self._src)
        self._edges.place = [*place, *(place[row] for row in both)]
        self._data.update({n + i: self._data[row] for i, row in enumerate(both)})
        back = np.array(both, np.int64)
        self._src, self._dst = np.concatenate([self._src, self._dst[back]]), np.concatenate([self._dst, self._src[back]])
        self._of_subsystem = np.concatenate([self._of_subsystem, self._of_subsystem[back]])

    def _path_in(self, subsystem: str, row: int) -> str | None:
        return self.nodes.path[row] if subsystem == CONTAINMENT else self.nodes.auxiliary.get(row, {}).get(subsystem)

    def structure(self, origin: int | None, uuid_runs: Sequence[tuple[str, int]] | None, *, is_of_job: bool) -> Structure:
        nodes = self.nodes
        parent = self._parents()
        names = name_nodes(nodes, parent, self.fail)
        kinds, kind = self._kinds(names.templates)
        tags = nodes.given("tags")
        for row, ephemeral in nodes.given("ephemeral").items():
            tags[row] = {**tags.get(row, {}), **ephemeral}
        exclusive = _filled(nodes.column("exclusive"), 0, nodes.n)
        sizes = self._sizes()
        order = self._containment_first()
        place = np.empty(nodes.n, np.int32)
        place[order] = np.arange(nodes.n, dtype=np.int32)
        above = parent[order]
        made = assemble(
            np.where(above >= 0, place[above], np.int32(-1)),
            kind[order],
            kinds=kinds,
            size=sizes[order],
            id=names.ids[order],
            rank=_filled(nodes.column("rank"), -1, nodes.n)[order],
            state=self._states()[order],
            exclusive=self._may_be_whole(exclusive, is_of_job=is_of_job)[order],
            names={int(place[row]): name for row, name in names.explicit.items()},
            tags={int(place[row]): values for row, values in tags.items()},
            capacity={int(place[row]): full for row, full in self._capacities(sizes).items()},
            origin=origin,
            where=lambda i: json_typed.where(self._source, [*self._prefix, "nodes", int(order[i])]),
        )
        vertex = made.vertex[place]
        for row, is_way in nodes.given("way").items():
            made.structure.flags[vertex[row]] |= WAY if is_way else 0
        for row, has_none in nodes.given("unranked").items():
            made.structure.rank[vertex[row]] = -1 if has_none else made.structure.rank[vertex[row]]
        self._graphs(made.structure, vertex)
        self._label(made.structure, vertex)
        give_uuids(made.structure, vertex, nodes.column("uuid"), uuid_runs, self.fail)
        hosts, children = ({int(vertex[row]): said for row, said in nodes.given(key).items()} for key in ("hosts", "children"))
        self.hidden = Hidden(np.sort(vertex[exclusive > 0]), hosts, children)
        return made.structure

    def _may_be_whole(self, exclusive: Int64, *, is_of_job: bool) -> Int64:
        """Which nodes may only be allocated exclusively; that a job holds one exclusively does not imply this."""
        found = np.zeros(self.nodes.n, np.int64) if is_of_job else exclusive.copy()
        for row, whole in self.nodes.given("whole").items():
            found[row] = whole
        return found

    def _label(self, structure: Structure, vertex: Int32) -> None:
        """Keep labels that are not the names of their nodes."""
        for row, label in self.nodes.labels.items():
            v = int(vertex[row])
            if label and label != structure.name(v):
                structure.tags.setdefault(v, {}).setdefault(LABEL, label)

    # -- the containment tree --------------------------------------------------------------------------------------------------

    def _containment_first(self) -> Int64:
        """Rows in the order of the structure: those outside containment come last."""
        path, shown = self.nodes.path, self.nodes.shown
        inside = np.array([p is not None for p in path])
        parts = [np.flatnonzero(inside), np.flatnonzero(~inside)]
        # Nodes that Fluxion does not see come after those that it sees; their keys are numbers in their original order.
        for i, rows in enumerate(parts):
            keys = [self.nodes.key[row] for row in rows.tolist()] if len(rows) and rows[-1] >= shown else []
            if keys and all(key.isascii() and key.isdecimal() for key in keys):
                parts[i] = rows[np.array(sorted(range(len(keys)), key=lambda at: int(keys[at])), np.int64)]
        return np.concatenate(parts)

    def _parents(self) -> Int32:
        """By node: its parent, -1 for the root and for nodes outside containment without a parent."""
        path, n = self.nodes.path, self.nodes.n
        rows = np.flatnonzero(self._of_subsystem == 0)
        src, dst = self._src[rows], self._dst[rows]
        count = np.bincount(dst, minlength=n)
        root = self._root(count)
        if (count > 1).any() or count[root]:
            rows = self._downward(rows)
            src, dst = self._src[rows], self._dst[rows]
            count = np.bincount(dst, minlength=n)
        parent = np.full(n, -1, np.int32)
        parent[dst] = src
        if (count > 1).any():
            self._two_parents(rows, int(np.flatnonzero(count > 1)[0]))
        is_inside = np.array([p is not None for p in path]) if self.nodes.auxiliary or None in path else np.ones(n, np.bool_)
        stray = np.flatnonzero(~(is_inside[src] & is_inside[dst]))
        if len(stray):
            row = int(src[stray[0]] if not is_inside[src[stray[0]]] else dst[stray[0]])
            message = f"a containment edge at node {self.nodes.key[row]!r}, which has no containment path"
            self.fail(["edges", int(rows[stray[0]])], message)
        is_inside[root] = False
        alone = np.flatnonzero(is_inside & (count == 0))
        if len(alone):
            row = int(alone[0])
            self.fail(["nodes", row], f"no containment edge leads to {path[row]}", "an edge has a source and a target")
        for row, key in self.nodes.given("within").items():
            if key not in self._row or path[row] is not None:
                self.fail(["nodes", row, "metadata", "within"], f"expected the id of a node outside containment, got {key!r}")
            parent[row] = self._row[key]
        return parent

    def _root(self, count: Int64) -> int:
        """The root of containment: the only node whose path has one step."""
        path = self.nodes.path
        candidates = np.flatnonzero(count == 0).tolist()
        roots = [i for i in candidates if (p := path[i]) is not None and p.rfind("/") == 0]
        if len(roots) != 1:
            roots = [i for i, p in enumerate(path) if p is not None and p.rfind("/") == 0]
        if not roots:
            self.fail(["nodes"], "no node is the root of containment", "the path of the root has one step: /cluster0")
        if len(roots) > 1:
            first, second = path[roots[0]], path[roots[1]]
            self.fail(["nodes", roots[1]], f"{second} would be a second root of containment, beside {first}")
        return roots[0]

    def _downward(self, rows: Int64) -> Int64:
        """The containment edges from a parent to its child; edges in the opposite direction are redundant and allowed."""
        level = np.array([0 if p is None else p.count("/") for p in self.nodes.path], np.int32)
        up = level[self._src[rows]] > level[self._dst[rows]]
        down = rows[~up]
        parent = np.full(self.nodes.n, -1, np.int32)
        parent[self._dst[down]] = self._src[down]
        back = rows[up]
        wrong = back[parent[self._src[back]] != self._dst[back]]
        if len(wrong):
            source, target = (self.nodes.path[int(end[wrong[0]])] for end in (self._src, self._dst))
            self.fail(["edges", int(wrong[0])], f"an edge from {source} to {target}, which is not its child")
        return down

    def _two_parents(self, rows: Int64, row: int) -> NoReturn:
        first, second = rows[self._dst[rows] == row][:2].tolist()
        path = self.nodes.path[row]
        if self._src[first] == self._src[second]:
            self.fail(["edges", second], f"the edge to {path} is listed twice", "remove one")
        above = " and ".join(str(self.nodes.path[int(self._src[edge])]) for edge in (first, second))
        self.fail(["edges", second], f"{path} is already in {above}", "edges other than containment belong to a subsystem")

    # -- columns ---------------------------------------------------------------------------------------------------------

    def _kinds(self, templates: Sequence[str | None] | None) -> tuple[KindTable, Int32]:
        nodes = self.nodes
        units, basenames = nodes.column("unit"), nodes.column("basename")
        properties = nodes.column("properties")
        if properties is not None:
            properties = [_properties(value) if value is not UNSET else UNSET for value in properties]
        columns = (nodes.type, basenames, units, templates, properties)
        parts = [_factors(column) if column is not None else ([UNSET], np.zeros(nodes.n, np.int32)) for column in columns]
        code = np.zeros(nodes.n, np.int64)
        for values, which in parts:
            if len(values) > 1:
                _, code = np.unique(code * len(values) + which, return_inverse=True)
        _, first, code = np.unique(code, return_index=True, return_inverse=True)
        table, numbers = KindTable(), np.empty(len(first), np.int32)
        # In the order of the document, so that reading what was written numbers them the same way.
        for i in np.argsort(first).tolist():
            type_, basename, unit, name, pairs = (values[which[first[i]]] for values, which in parts)
            for what, word in (("type", type_), ("basename", basename)):
                if word is not UNSET and ("/" in word or not word.isprintable()):
                    self.fail(
                        ["nodes", int(first[i]), "metadata", what], f"{word!r} has a character that is not allowed in paths"
                    )
            if unit is not UNSET and not unit.isprintable():
                self.fail(["nodes", int(first[i]), "metadata", "unit"], f"{unit!r} has a control character")
            kind = Kind(
                type_,
                type_ if basename is UNSET else basename,
                None if unit is UNSET or not unit else unit,
                None if name is UNSET else name,
                () if pairs is UNSET else tuple((key, value) for key, _, value in pairs),
            )
            self._require_draws(kind, int(first[i]))
            numbers[i] = table.intern(kind)
        return table, numbers[code]

    def _require_draws(self, kind: Kind, row: int) -> None:
        try:
            require_draws(kind.properties, str)
        except InputError as error:
            self.fail(["nodes", row, "metadata", "properties"], error.message, error.hint)

    def _sizes(self) -> Int64:
        sizes = _filled(self.nodes.column("size"), 1, self.nodes.n)
        ways = self.nodes.given("way")
        for row in np.flatnonzero(sizes == 0).tolist():
            if not ways.get(row):
                self.fail(["nodes", row, "metadata", "size"], "expected a whole number of at least 1, got 0")
        return sizes

    def _capacities(self, sizes: Int64) -> dict[int, int]:
        found: dict[int, int] = self.nodes.given("capacity")
        for row, full in found.items():
            if full < sizes[row]:
                message = f"expected the full size, at least {sizes[row]}, got {full}"
                self.fail(["nodes", row, "metadata", "capacity"], message)
        return found

    def _states(self) -> Int64:
        states = _filled(self.nodes.column("status"), 0, self.nodes.n) * _DOWN
        for row, state in self.nodes.given("state").items():
            states[row] = STATES.index(state)
        return states

    # -- auxiliary graphs ------------------------------------------------------------------------------------------------

    def _graphs(self, structure: Structure, vertex: Int32) -> None:
        for number, name in enumerate(self._subsystems, 1):
            rows = np.flatnonzero(self._of_subsystem == number)
            src, dst = self._src[rows], self._dst[rows]
            hierarchy = self._is_hierarchy(name, rows, structure, vertex)
            hierarchy = self._graphs_said.get(name, hierarchy)
            relations: dict[str, int] = {}
            relation = np.empty(len(rows), np.uint16)
            columns: dict[str, NDArray[Any]] = {}
            for i, row in enumerate(rows.tolist()):
                data = self._data[row]
                word = "link" if data.relationship is UNSET else data.relationship
                relation[i] = relations.setdefault(word, len(relations))
                if data.attributes is not UNSET:
                    if taken := {"subsystem", "type"} & data.attributes.keys():
                        place: list[str | int] = ["edges", row, "metadata", "attributes", min(taken)]
                        self.fail(place, "every edge already has this", "give the attribute another name")
                    if not is_countable(value := data.attributes.get(CAPACITY)):
                        message = f"expected at most {limits.CAPACITY_MAX}, got {value}"
                        self.fail(["edges", row, "metadata", "attributes", CAPACITY], message, LARGER_UNIT)
                    for key, value in data.attributes.items():
                        if key not in columns and len(columns) >= limits.EDGE_ATTRIBUTES_MAX:
                            message = f"more than {limits.EDGE_ATTRIBUTES_MAX} attributes of edges of {name!r}"
                            self.fail(["edges", row, "metadata", "attributes"], message, limit=True)
                        columns.setdefault(key, np.full(len(rows), None, object))[i] = value
            attributes = {key: _numbers(column) for key, column in columns.items()}
            ends = vertex[src], vertex[dst]
            made = structure.subsystems[name] = Subsystem(name, hierarchy, *ends, relation, list(relations), attributes)
            if hierarchy and name in self._graphs_said:
                self._require_forest(made)
        self._compare_paths(structure, vertex)

    def _require_forest(self, subsystem: Subsystem) -> None:
        try:
            subsystem.require_forest()
        except InputError as error:
            self.fail(["metadata", "graphs", subsystem.name], error.message)

    def _compare_paths(self, structure: Structure, vertex: Int32) -> None:
        """Refuse paths of pools that no edge leads to, and paths in graphs that have no edges."""
        for row, paths in self.nodes.auxiliary.items():
            for name in paths:
                if name in structure.subsystems or name in self._graphs_said:
                    continue
                if structure.parent[vertex[row]] < 0 and self.nodes.path[row] is None and paths[name].count("/") > 1:
                    self.fail(["nodes", row, "metadata", "paths", name], f"no edge of {name!r} leads there")
                if self.nodes.path[row] is not None and (what := f"nodes.metadata.paths.{name}") not in self.passed_over:
                    self.passed_over.append(what)

    def _is_hierarchy(self, name: str, rows: Int64, structure: Structure, vertex: Int32) -> bool:
        """Whether a graph is a forest whose pools have paths in it; wrong paths are refused.

        A path may lead through pools that are missing in the document: what a job holds is a part of the graph.
        """
        src, dst = self._src[rows].tolist(), self._dst[rows].tolist()
        paths = self.nodes.auxiliary
        ends = dict.fromkeys([*src, *dst])
        if not all(row in paths and name in paths[row] for row in ends):
            return False
        above: dict[int, list[int]] = {}
        for u, v in zip(src, dst, strict=True):
            above.setdefault(v, []).append(u)
        one_each = all(len(parents) == 1 for parents in above.values())
        there = {own[name] for own in paths.values() if name in own}
        for v in ends:
            path, own = paths[v][name], structure.name(int(vertex[v]))
            head, _, tail = path.rpartition("/")
            if not head and v in above:
                return False
            leads_on = head in [paths[u][name] for u in above[v]] if v in above else head not in there
            if tail != own or not leads_on:
                place = ["nodes", v, "metadata", "paths", name]
                self.fail(place, f"{path} contradicts the edges of {name!r}, which place this pool at {own}")
        return one_each


def _factors(values: Sequence[Any]) -> tuple[list[Any], Int32]:
    """The distinct values, and the index of each element's value in them."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return list(numbers), np.fromiter(map(numbers.__getitem__, values), np.int32, len(values))


def _properties(values: dict[str, PropertyValue]) -> tuple[tuple[str, type, PropertyValue], ...]:
    """Properties by value, keeping apart values that are equal only to Python, such as 1 and True."""
    pairs = properties_tuple(values.items())
    return tuple((key, type(value), None if value == "" else value) for key, value in pairs)


def _filled(column: Sequence[Any] | None, default: int, n: int) -> Int64:
    if column is None:
        return np.full(n, default, np.int64)
    if UNSET in column:
        column = [default if value is UNSET else value for value in column]
    return np.array(column, np.int64)


def _numbers(column: NDArray[Any]) -> NDArray[Any]:
    """The column of an attribute, as numbers if all values are numbers."""
    if all(value is None or type(value) is float for value in column):
        return np.array([np.nan if value is None else value for value in column], np.float64)
    return column


WRITERS: Final = ("", "fluxion", "fluxion:", "fluxion:jgf", "fluxion:jgf_shorthand")
"""The values of `writer` for a graph of this form (RFC 40)."""
FREE_RANKS: Final = "free_ranks"
"""Tag of the root: ranks that were released since the graph was written."""


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of a JGF file.

    Errors: InputError ``FILE:line:column: path``; LimitExceeded.
    Cost: about 2 µs per node; memory about four times the file.
    Source: RFC 40, and the files that Fluxion reads and writes.

    >>> text = b'{"graph": {"nodes": [{"id": "0", "metadata": {"type": "node", "paths": {"containment": "/node0"}}}]}}'
    >>> read(Source(text)).structure.path(0)
    '/node0'
    """
    document, has_unknown_keys = json_typed.decode_leniently(source, RawJgf, whole=Jgf)
    if document.writer is not UNSET:
        require_known_writer(source, document.writer, ["writer"])
    made = build(source, document.graph, Jgf, ("graph",), origin)
    unknown = json_typed.unknown_keys(source, Jgf) if has_unknown_keys or made.has_unknown_keys else []
    passed_over = [*unknown, *(f"graph.{what}" for what in made.passed_over)]
    if document.free_ranks is not UNSET:
        try:
            idset.ranges(document.free_ranks)
        except InputError as error:
            raise InputError(error.message, where=json_typed.where(source, ["free_ranks"]), hint=error.hint) from None
        made.structure.set_tag([0], FREE_RANKS, document.free_ranks)
    return Loaded(made.structure, [], made.label or made.structure.name(0), keys_passed_over(source, passed_over))


def require_known_writer(source: Source, writer: str, path: list[Key]) -> None:
    """Refuse a graph whose `writer` is not Fluxion."""
    if writer not in WRITERS:
        hint = "fluxres reads fluxion:jgf and fluxion:jgf_shorthand"
        raise InputError(f"unknown writer {shown(writer)}", where=json_typed.where(source, path), hint=hint)


CARRIES = ALL - {"allocations"}
_RUNS_MAX: Final = 256
"""Maximal number of uuid runs written once for all nodes; with more runs each node has its own uuid, which is about as long."""


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None, shorthand: bool = False) -> Output:
    """A machine as a JGF file.

    Args:
        shorthand: leave out everything below pools of the containment tree that may only be allocated exclusively, like Fluxion's
            shorthand.

    Cost: about 1 µs per pool; memory about three times the file. Source: RFC 40.
    """
    part = part_of(structure, shorthand=shorthand)
    lost = losses.concern(structure, "pools", hidden_in(structure, part), "what is below exclusive ones")
    data = b"".join([*pieces_of(structure, part, name), b"\n"])
    return Output(data, [*lost, *lost_of(structure, allocations)], note_of(structure))


def write_shorthand(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as JGF in Fluxion's shorthand; see :func:`write`."""
    return write(structure, allocations, name=name, shorthand=True)


def part_of(structure: Structure, *, shorthand: bool) -> GraphPart:
    """All of a machine, or the part in the shorthand; pools that may only be allocated exclusively count as held."""
    ways = (structure.flags & WAY) != 0
    exclusive = ((structure.flags & EXCLUSIVE) != 0) & ~ways
    kept = np.ones(structure.n, np.bool_)
    if shorthand:
        hiding = np.flatnonzero(exclusive[: structure.tree_end])
        kept = ~in_slices(hiding + 1, structure.end[hiding], structure.n)
    vertices = np.flatnonzero(kept).astype(np.int32)
    return GraphPart(vertices, structure.size[kept], exclusive[kept], ways[kept])


def hidden_in(structure: Structure, part: GraphPart) -> Mask:
    """Pools outside a part, as a bool per vertex."""
    hidden = np.ones(structure.n, np.bool_)
    hidden[part.vertices] = False
    return hidden


def pieces_of(
    structure: Structure, part: GraphPart, name: str | None, more: Mapping[int, str] = MappingProxyType({})
) -> Iterator[bytes]:
    """The text of a graph in pieces, with the uuids of its pools as runs if there are few runs.

    Args:
        name: of the machine.
        more: as for :func:`~fluxres.graph.jgf.chunks`.
    """
    label = None if name is None or name == structure.name(0) else name
    runs = pool_uuids.runs_of(structure, jgf.in_order(structure, part))
    yield from jgf.chunks(structure, part, label=label, uuid_runs=runs if len(runs) <= _RUNS_MAX else None, more=more)
    yield b',"writer":"%s"}' % SHORTHAND.encode() if len(part.vertices) < structure.n else b"}"


def _is_plain(key: str, value: PropertyValue) -> bool:
    """Whether a property is read back unchanged: text, and the numbers that are known for their key."""
    return value is None or key.startswith(DRAW) or (isinstance(value, str) and value != "")


def lost_of(structure: Structure, allocations: Sequence[Hold]) -> list[str]:
    """What a graph of all pools does not express of a machine."""
    lost = losses.lines(structure, allocations, CARRIES)
    plain = [all(_is_plain(key, value) for key, value in kind.properties) for kind in structure.kinds]
    lost += losses.concern(structure, "properties", ~np.array(plain)[structure.kind], losses.TYPES)
    for name, graph in structure.subsystems.items():
        if name == CONTAINMENT:
            lost.append(f"graphs: {name}, which is what JGF calls the containment tree, with {plural(len(graph), 'edge')}")
        for key, column in graph.attributes.items():
            numbers = [value for value in column.tolist() if isinstance(value, float)]
            if np.isinf(numbers).any():
                lost.append(f"graphs: infinite values of {key}, of edges of {name}")
    return lost


def note_of(structure: Structure) -> str:
    """A note on the parts of a machine that are hidden from Fluxion because it would refuse them; empty if there are none."""
    refused = jgf.subsystems_of(structure).refused
    if not refused:
        return ""
    return f"Fluxion does not see {'; '.join(f'{name}: {reason}' for name, reason in refused.items())}"

"""R with a graph in shorthand: the nodes, cores and gpus that the graph leaves out below pools held whole are those of R_lite.

fluxres says below which pool they are (:mod:`fluxres.graph.jgf_shorthand`).  Fluxion, whose reader has the machine, does not:
what may be in several pools then stands in the nearest one above all of them, and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from fluxres.errors import InputError
from fluxres.formats.jgf_structure import Hidden
from fluxres.formats.notes import Notes, listed
from fluxres.formats.resource_set_lite import Lite
from fluxres.graph import uuids
from fluxres.graph.assemble import assemble
from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import Kind
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, idset

Ids = NDArray[np.int64]


def completed(structure: Structure, hidden: Hidden, lite: Lite, origin: int | None) -> tuple[Structure, tuple[str, ...]]:
    """A graph in shorthand with the pools of R_lite that it leaves out, and notes.

    Args:
        hidden: what the document says of pools held whole.
        origin: base of the uuids of what is added; random by default.

    Cost: O(pools) array operations, O(ranks) Python.
    """
    adding = _Completing(structure, hidden, lite)
    return adding.structure(origin), adding.notes.lines()


class _Completing:
    """Rows that are added: each below a vertex that is there, or below another added row (negative: -1 is the first)."""

    def __init__(self, structure: Structure, hidden: Hidden, lite: Lite) -> None:
        self._s, self._hidden, self._lite = structure, hidden, lite
        s = structure
        held = hidden.held[hidden.held < s.tree_end]
        #: pools that may have something below them which is not here, ascending
        self._closed = held[s.end[held] == held + 1]
        self._parent: list[Ids] = []
        self._kind: list[Ids] = []
        self._id: list[Ids] = []
        self._rank: list[Ids] = []
        self._n = 0
        self._names: dict[int, str] = {}
        self._tags: dict[int, dict[str, str | None]] = {}
        self.notes = Notes()

    def structure(self, origin: int | None) -> Structure:
        """The structure with all of them."""
        nodes = self._lite.nodes_in(self._s)
        self._add_nodes(np.flatnonzero(nodes < 0))
        for at in np.flatnonzero(nodes >= 0).tolist():
            self._add_children(nodes.item(at), at)
        return self._assembled(origin) if self._n else self._s

    # -- nodes -----------------------------------------------------------------------------------------------------------

    def _add_nodes(self, missing: NDArray[np.int64]) -> None:
        """Add the nodes of these positions among the ranks, each with what R_lite has of it."""
        if not len(missing):
            return
        s, lite = self._s, self._lite
        alone = lite.structure(0, None)
        tops = alone.execution_targets[1]
        above = self._above_nodes(missing)
        for at, parent in zip(missing.tolist(), above, strict=True):
            top = tops.item(at)
            row = self._add(parent, s.kinds.intern(alone.kind_of(top)), alone.id[top : top + 1], lite.ranks.item(at))
            if top in alone.names:
                self._names[row] = alone.names[top]
            if top in alone.tags:
                self._tags[row] = alone.tags[top]
            for type_, ids in lite.children[lite.entry.item(at)].items():
                self._add(-1 - row, s.kinds.intern(Kind(type_, type_)), ids, lite.ranks.item(at))

    def _above_nodes(self, missing: NDArray[np.int64]) -> list[int]:
        """The pool that each of these nodes is in."""
        said = self._said_hosts()
        names = [self._lite.names[at] for at in missing.tolist()]
        found = [said[name].pop(0) if said.get(name) else -1 for name in names]
        if -1 not in found:
            return found
        types = {"node", *(type_ for children in self._lite.children for type_ in children)}
        may_be = [v for v in self._closed.tolist() if self._s.rank[v] < 0 and self._s.kind_of(v).type not in types]
        may_be = [v for v in may_be if v not in self._hidden.hosts]
        lost = [name for name, v in zip(names, found, strict=True) if v < 0]
        nearest = self._nearest(may_be, "nodes", hostlist.fold(lost)) if may_be else self._none_called(lost[0])
        return [nearest if v < 0 else v for v in found]

    def _none_called(self, name: str) -> NoReturn:
        self._lite.fail(["scheduling", "graph"], f"0 nodes are called '{name}', which R has as one host")

    def _said_hosts(self) -> dict[str, list[int]]:
        """By host, the pools in which the document says it is."""
        found: dict[str, list[int]] = {}
        closed = set(self._closed.tolist())
        for v, text in sorted(self._hidden.hosts.items()):
            if v in closed:
                try:
                    names = hostlist.parse(text)
                except InputError as error:
                    self._lite.fail(["scheduling", "graph"], f"{self._s.path(v)}: {error.message}", hint=error.hint)
                for name in names:
                    found.setdefault(name, []).append(v)
        return found

    # -- in nodes --------------------------------------------------------------------------------------------------------

    def _add_children(self, node: int, at: int) -> None:
        """Add what R_lite has in a node that is there and the graph has not."""
        s, stop = self._s, self._s.end.item(node)
        lo, hi = np.searchsorted(self._closed, [node, stop]).tolist()
        closed = self._closed[lo:hi].tolist()
        if not closed:
            return
        children = self._lite.children[self._lite.entry.item(at)]
        for type_, ids in children.items():
            here = self._of_type(type_, node, stop)
            if len(here) >= len(ids):
                continue
            kind, rank = s.kinds.intern(Kind(type_, type_)), self._lite.ranks.item(at)
            left = dict.fromkeys(ids.tolist())
            for v in closed:
                said = [i for i in self._said_ids(v, type_) if i in left]
                self._add(v, kind, np.array(said, np.int64), rank)
                for i in said:
                    del left[i]
            count = len(ids) - len(here) - (len(ids) - len(left))
            taken = set(s.id[here].tolist())
            rest = [i for i in left if i not in taken][:count]
            may_be = [v for v in closed if s.kind_of(v).type not in children and v not in self._hidden.children]
            if rest and may_be:
                what = f"{type_} {idset.format(sorted(rest))} of {s.path(node)}"
                self._add(self._nearest(may_be, type_, what), kind, np.array(rest, np.int64), rank)

    def _of_type(self, type_: str, node: int, stop: int) -> Int32:
        pools = self._s.of_type(type_)
        return pools[np.searchsorted(pools, node) : np.searchsorted(pools, stop)]

    def _said_ids(self, v: int, type_: str) -> list[int]:
        text = self._hidden.children.get(v, {}).get(type_, "")
        try:
            return idset.parse(text)
        except InputError as error:
            self._lite.fail(["scheduling", "graph"], f"{self._s.path(v)}: {error.message}", hint=error.hint)

    # -- rows ------------------------------------------------------------------------------------------------------------

    def _nearest(self, vertices: Sequence[int], sort: str, what: str) -> int:
        """The one pool, or the nearest above all of several, which is noted."""
        s, file = self._s, self._lite.file
        if len(vertices) == 1:
            return vertices[0]
        common = [vertices[0], *s.ancestors(vertices[0])]
        for v in vertices[1:]:
            mine = {v, *s.ancestors(v)}
            common = [u for u in common if u in mine]
        places = listed([s.path(v) for v in vertices])
        self.notes.add(sort, file, f"{what} in one of {places}: R does not say in which, so it is put into {s.path(common[0])}")
        return common[0]

    def _add(self, parent: int, kind: int, ids: Ids, rank: int) -> int:
        """Add pools that differ in their ids; the number of the first one's row."""
        first, count = self._n, len(ids)
        for column, values in ((self._parent, parent), (self._kind, kind), (self._rank, rank)):
            column.append(np.full(count, values, np.int64))
        self._id.append(ids)
        self._n += count
        return first

    def _assembled(self, origin: int | None) -> Structure:
        s, n = self._s, self._s.n
        more = [np.concatenate(column) for column in (self._parent, self._kind, self._id, self._rank)]
        parent, kind, ids, rank = more
        columns: Mapping[str, NDArray[np.int64]] = {
            "parent": np.concatenate([s.parent, np.where(parent < 0, n - 1 - parent, parent)]),
            "size": np.concatenate([s.size, np.ones(self._n, np.int64)]),
            "id": np.concatenate([s.id, ids]),
        }
        made, vertex = assemble(
            columns["parent"],
            np.concatenate([s.kind, kind]),
            kinds=s.kinds,
            size=columns["size"],
            id=columns["id"],
            state=np.concatenate([s.state, np.zeros(self._n, np.uint8)]),
            names={**s.names, **{n + row: name for row, name in self._names.items()}},
            uuid_texts=s.uuid_texts,
            tags={**s.tags, **{n + row: tags for row, tags in self._tags.items()}},
            capacity=s.capacity,
        )
        old, new = vertex[:n], vertex[n:]
        made.rank[old], made.rank[new] = s.rank, rank
        made.flags[old], made.origin[old], made.serial[old] = s.flags, s.origin, s.serial
        base = uuids.new_origin() if origin is None else origin
        made.origins[:] = s.origins if base in s.origins else [*s.origins, base]
        number = made.origins.index(base)
        used = s.serial[s.origin == number]
        made.origin[new], made.serial[new] = number, np.arange(self._n) + (int(used.max()) + 1 if len(used) else 0)
        made.subsystems.update({name: graph.renumber(old) for name, graph in s.subsystems.items()})
        return made

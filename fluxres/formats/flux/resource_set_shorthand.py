"""R with a graph in shorthand: the nodes, cores and gpus that the graph leaves out below exclusively held pools are taken from
R_lite.

fluxres writes which pool contains them (:mod:`fluxres.graph.jgf`). Fluxion does not, because its reader has the
machine. A pool that may be in several places is then put into their nearest common ancestor, with a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NoReturn, TypeVar

import numpy as np

from fluxres import limits
from fluxres.arrays import Int32, Int64
from fluxres.documents.document import listed
from fluxres.errors import InputError
from fluxres.formats.flux.jgf import Hidden
from fluxres.formats.flux.ranks import Spans, count_of, positions
from fluxres.formats.flux.resource_set_lite import Lite
from fluxres.formats.losses import Notes
from fluxres.graph import uuids
from fluxres.graph.assemble import assemble
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, idset

T = TypeVar("T")


def completed(structure: Structure, hidden: Hidden, lite: Lite, origin: int | None) -> tuple[Structure, tuple[str, ...]]:
    """A graph in shorthand, completed with the pools of R_lite that it leaves out, and notes.

    Args:
        hidden: what the document says about exclusively held pools.

    Cost: O(pools) array operations; Python for each node, and for each type of which a node has some pools and lacks others.
    """
    if not len(lite.ranks):
        return structure, ()
    adding = _Completing(structure, hidden, lite)
    adding.choose()
    return adding.structure(origin), adding.notes.lines()


class _Completing:
    """Decides which rows of a machine made from R_lite alone are added to the graph, and below which pools."""

    def __init__(self, structure: Structure, hidden: Hidden, lite: Lite) -> None:
        self._s, self._hidden, self._lite = structure, hidden, lite
        self.notes = Notes()
        held = hidden.held[hidden.held < structure.tree_end]
        #: pools that may have descendants which the graph leaves out, ascending
        self._closed = held[structure.end[held] == held + 1]
        self._alone = lite.structure(0, None)
        self._tops = self._alone.execution_targets[1]
        self._nodes = lite.nodes_in(structure, self._said_hosts)
        #: by row of that machine: whether it is added, and the vertex it goes below; -1 for its parent row
        self._added = np.zeros(self._alone.n, np.bool_)
        self._home = np.full(self._alone.n, -1, np.int64)

    def choose(self) -> None:
        missing = np.flatnonzero(self._nodes < 0)
        if len(missing):
            self._choose_nodes(missing)
        here = np.flatnonzero(self._nodes >= 0)
        vertices = self._nodes[here]
        first, stop = np.searchsorted(self._closed, vertices), np.searchsorted(self._closed, self._s.end[vertices])
        for at, lo, hi in zip(here.tolist(), first.tolist(), stop.tolist(), strict=True):
            if lo < hi:
                self._choose_children(at, self._closed[lo:hi].tolist())

    # -- nodes -----------------------------------------------------------------------------------------------------------

    def _choose_nodes(self, missing: Int64) -> None:
        """Add nodes, by their positions among the ranks, each with its content in R_lite."""
        tops = self._tops[missing]
        self._added[_runs(tops, self._alone.end[tops])] = True
        self._home[tops] = self._above_nodes([self._lite.names[at] for at in missing.tolist()])

    def _above_nodes(self, names: Sequence[str]) -> list[int]:
        """The pool that contains each of these nodes."""
        said = self._said_hosts
        found = [said[name].pop(0) if said.get(name) else -1 for name in names]
        lost = [name for name, v in zip(names, found, strict=True) if v < 0]
        if not lost:
            return found
        types = {"node", *(type_ for children in self._lite.children for type_ in children)}
        may_be = [v for v in self._closed.tolist() if self._s.rank[v] < 0 and self._s.kind_of(v).type not in types]
        may_be = [v for v in may_be if v not in self._hidden.hosts]
        if not may_be:
            self._fail(f"0 nodes are named '{lost[0]}', which is one host in R")
        nearest = self._nearest(may_be, "nodes", hostlist.fold(lost))
        return [nearest if v < 0 else v for v in found]

    @cached_property
    def _said_hosts(self) -> dict[str, list[int]]:
        """By host, the pools that contain it according to the document."""
        found: dict[str, list[int]] = {}
        closed = set(self._closed.tolist())
        left = limits.RANKS_MAX
        for v, text in sorted(self._hidden.hosts.items()):
            if v not in closed:
                continue
            try:
                left -= hostlist.count(text)
                names = hostlist.parse(text) if left >= 0 else []
            except InputError as error:
                self._fail(f"{self._s.path(v)}: {error.message}", error.hint)
            if left < 0:
                self._fail(f"{self._s.path(v)}: more than {limits.RANKS_MAX} hosts in all", limit=True)
            for name in names:
                found.setdefault(name, []).append(v)
        return found

    # -- in nodes --------------------------------------------------------------------------------------------------------

    def _choose_children(self, at: int, closed: list[int]) -> None:
        """Add the pools that R_lite has in a node (given by its position among the ranks) and the graph lacks; some pools in it
        are closed.
        """
        s, entry, top = self._s, self._lite.entry.item(at), self._tops.item(at)
        children = self._lite.children[entry]
        said, present = self._said_ids(closed), self._present.get(at, {})
        # A target may itself be a core.
        may_be = [v for v in closed if v == self._nodes[at] or s.kind_of(v).type not in children]
        may_be = [v for v in may_be if v not in self._hidden.children]
        rows = slice(top + 1, self._alone.end.item(top))
        added, home = self._added[rows], self._home[rows]
        added[:] = bool(may_be)
        for type_ in {*said, *present} & children.keys():
            ids, there = children[type_], s.id[present.get(type_, np.zeros(0, np.int32))]
            first = self._first_of[entry][type_]
            mine = slice(first, first + len(ids))
            added[mine] = False
            for v, which in _shares(ids, said.get(type_, []), len(ids) - len(there)):
                added[mine][which], home[mine][which] = True, v
            count = max(len(ids) - len(there) - np.count_nonzero(added[mine]), 0) if may_be else 0
            added[mine][np.flatnonzero(~added[mine] & ~np.isin(ids, there))[:count]] = True
        rest = np.flatnonzero(added & (home < 0))
        if len(rest):
            alike = rest[self._alone.kind[rows][rest] == self._alone.kind[rows][rest[0]]]
            numbers = idset.format(self._alone.id[rows][alike].tolist())
            what = f"{self._alone.kind_of(int(rest[0]) + top + 1).type} {numbers} of {s.path(self._nodes.item(at))}"
            home[rest] = self._nearest(may_be, "pools", what)

    @cached_property
    def _first_of(self) -> list[dict[str, int]]:
        """By entry of R_lite, the offset from a node to its first pool of each type."""
        found = []
        for children in self._lite.children:
            ends = np.cumsum([0, *(len(ids) for ids in children.values())]).tolist()
            found.append(dict(zip(children, ends, strict=False)))
        return found

    @cached_property
    def _present(self) -> dict[int, dict[str, Int32]]:
        """By node, as position among the ranks, its pools of types in R_lite, by type."""
        s = self._s
        here = np.flatnonzero(self._nodes >= 0)
        order = here[np.argsort(self._nodes[here], kind="stable")]
        nodes = self._nodes[order]
        found: dict[int, dict[str, Int32]] = {}
        for type_ in {type_ for children in self._lite.children for type_ in children} & set(s.types):
            pools = s.of_type(type_)
            pools = pools[(s.flags[pools] & WAY) == 0]
            at = np.searchsorted(nodes, pools) - 1
            inside = (at >= 0) & (pools < s.end[nodes[at]])
            pools, at = pools[inside], at[inside]
            cuts = np.flatnonzero(np.diff(at)) + 1
            for mine in np.split(np.arange(len(at)), cuts) if len(at) else []:
                found.setdefault(int(order[at[mine[0]]]), {})[type_] = pools[mine]
        return found

    def _said_ids(self, closed: Sequence[int]) -> dict[str, list[tuple[int, Spans]]]:
        """By type, the pools of a node and the ids that the document says are below each."""
        found: dict[str, list[tuple[int, Spans]]] = {}
        for v in closed:
            for type_, text in self._hidden.children.get(v, {}).items():
                try:
                    found.setdefault(type_, []).append((v, idset.ranges(text)))
                except InputError as error:
                    self._fail(f"{self._s.path(v)}: {error.message}", error.hint)
        return found

    # -- the rows as a structure -----------------------------------------------------------------------------------------

    def _fail(self, message: str, hint: str = "", *, limit: bool = False) -> NoReturn:
        self._lite.fail(["scheduling", "graph"], message, hint=hint, limit=limit)

    def _nearest(self, vertices: Sequence[int], sort: str, what: str) -> int:
        """The only pool, or the nearest common ancestor of several, with a note."""
        s = self._s
        if len(vertices) == 1:
            return vertices[0]
        common = [vertices[0], *s.ancestors(vertices[0])]
        for v in vertices[1:]:
            mine = {v, *s.ancestors(v)}
            common = [u for u in common if u in mine]
        places = listed([s.path(v) for v in vertices])
        described = f"{what} in one of {places}: R does not say in which, so it goes into {s.path(common[0])}"
        self.notes.add(sort, self._lite.file, described)
        return common[0]

    def structure(self, origin: int | None) -> Structure:
        s, alone, n = self._s, self._alone, self._s.n
        rows = np.flatnonzero(self._added)
        if not len(rows):
            return s
        number = np.cumsum(self._added) - 1 + n
        above = np.where(self._home[rows] >= 0, self._home[rows], number[alone.parent[rows]])
        kinds = np.array([s.kinds.intern(kind) for kind in alone.kinds], np.int32)
        place = dict(zip(rows.tolist(), number[rows].tolist(), strict=True)) if alone.names or alone.tags else {}
        made, vertex = assemble(
            np.concatenate([s.parent, above]),
            np.concatenate([s.kind, kinds[alone.kind[rows]]]),
            kinds=s.kinds,
            size=np.concatenate([s.size, alone.size[rows]]),
            id=np.concatenate([s.id, alone.id[rows]]),
            state=np.concatenate([s.state, alone.state[rows]]),
            names={**s.names, **_moved(alone.names, place)},
            uuid_texts=s.uuid_texts,
            tags={**s.tags, **_moved(alone.tags, place)},
            capacity=s.capacity,
        )
        old, new = vertex[:n], vertex[n:]
        made.rank[old], made.rank[new] = s.rank, alone.rank[rows]
        made.flags[old], made.origin[old], made.serial[old] = s.flags, s.origin, s.serial
        base = uuids.new_origin() if origin is None else origin
        made.origins[:] = s.origins if base in s.origins else [*s.origins, base]
        origin_number = made.origins.index(base)
        used = s.serial[s.origin == origin_number]
        made.origin[new], made.serial[new] = origin_number, np.arange(len(rows)) + (int(used.max()) + 1 if len(used) else 0)
        made.subsystems.update({name: graph.renumber(old) for name, graph in s.subsystems.items()})
        return made


def _moved(sparse: Mapping[int, T], place: Mapping[int, int]) -> dict[int, T]:
    return {place[row]: value for row, value in sparse.items() if row in place}


def _runs(first: Int32, stop: Int32) -> Int64:
    """The concatenated numbers of several runs."""
    lengths = (stop - first).astype(np.int64)
    return np.asarray(np.repeat(stop - np.cumsum(lengths), lengths) + np.arange(int(lengths.sum())), np.int64)


def _shares(ids: Int64, said: Sequence[tuple[int, Spans]], count: int) -> list[tuple[int, Int64]]:
    """Which of these ids, by position, are below each pool for which the document lists some.

    Flux renumbers cores when an instance starts, without changing the graph. If a listed id is not among these, or is listed for
    two pools, only the number of ids of each pool is used, in ascending order.

    >>> ids = np.array([2, 3, 4])
    >>> [(v, mine.tolist()) for v, mine in _shares(ids, [(7, [(4, 4)]), (8, [(2, 3)])], 3)]
    [(7, [2]), (8, [0, 1])]
    >>> [(v, mine.tolist()) for v, mine in _shares(ids, [(7, [(9, 9)]), (8, [(5, 6)])], 3)]
    [(8, [0, 1]), (7, [2])]
    """
    left = np.ones(len(ids), np.bool_)
    found = []
    for v, spans in said:
        mine = positions(spans, ids)
        if len(mine) < count_of(spans) or not left[mine].all():
            break
        left[mine] = False
        found.append((v, mine))
    else:
        return found
    found, at = [], 0
    for v, spans in sorted(said, key=lambda each: each[1][:1]):
        stop = min(at + count_of(spans), count)
        found.append((v, np.arange(at, stop)))
        at = stop
    return found

"""One generation of a machine: its pools as columns in pre-order.

A subtree is the slice ``[v, end[v])``, so most questions about a tree are array arithmetic.  The shape
never changes here: growing or cutting a machine makes the next `Structure` (:mod:`fluxres.graph.surgery`).  Only data without
shape (states, tags, kinds) is written in place, through the methods below, which also drop whatever was derived from it.

`Lookup` finds a pool by path, URI, uuid or name, with arithmetic and small caches instead of a table of a million names.  A path
is resolved level by level, and the pools above its last name are cached, so that a second lookup below the same parent costs one
step.  That step guesses the position from the number in the name, because equal siblings are spaced evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Int32, Int64, Mask, UInt8, UInt16
from fluxres.documents.suggestion import choose_from, suggest_or_choose
from fluxres.errors import UnknownGraph, UnknownPool, UsageError
from fluxres.graph import uuids
from fluxres.graph.accounts import Accounts
from fluxres.graph.auxiliary import Subsystem, underived
from fluxres.graph.feeds import Feeds
from fluxres.graph.forest import Forest
from fluxres.graph.kinds import EXCLUSIVE, STATES, WAY, Kind, KindTable, instead_of
from fluxres.graph.outage import Outage
from fluxres.graph.partitions import PARTITIONS, Partition, partitions_of
from fluxres.graph.short_names import ShortNames
from fluxres.graph.sums import Sums
from fluxres.syntax import template

COLUMNS: Final[dict[str, Any]] = {
    "parent": np.int32,
    "end": np.int32,
    "kind": np.int32,
    "size": np.int64,
    "id": np.int64,
    "rank": np.int32,
    "state": np.uint8,
    "flags": np.uint8,
    "origin": np.uint16,
    "serial": np.int64,
}
CONTAINMENT: Final = "containment"
"""Another name of the containment tree besides that of its root, unless an auxiliary graph has this name."""


class Problem(msgspec.Struct, frozen=True):
    """One finding of an audit.

    Args:
        severity: ``error`` (a rule is broken) or ``warning``.
        where: path of the pool, or the part of the graph.
        message: what is wrong.
    """

    severity: str
    where: str
    message: str


class Structure:
    """Columns, kinds, sparse data and auxiliary graphs of one generation.

    Args:
        columns: the arrays named in `COLUMNS`, all of one length n >= 1.
        kinds: the table that `kind` indexes.
        origins: bases of uuids, which `origin` indexes.
        names: explicit names by vertex, where no template gives them.
        uuid_texts: explicit uuids by vertex.
        tags: tags by vertex.
        capacity: full sizes, by vertex, of pools that a copy took only partly.
        subsystems: auxiliary graphs by name.
        tree_end: number of pools in the containment tree; all by default.

    Cost: O(1); derived data is computed on first use.
    """

    parent: Int32
    end: Int32
    kind: Int32
    size: Int64
    id: Int64
    rank: Int32
    state: UInt8
    flags: UInt8
    origin: UInt16
    serial: Int64

    def __init__(
        self,
        columns: Mapping[str, NDArray[Any]],
        kinds: KindTable,
        *,
        origins: list[int],
        names: dict[int, str] | None = None,
        uuid_texts: dict[int, str] | None = None,
        tags: dict[int, dict[str, str | None]] | None = None,
        capacity: dict[int, int] | None = None,
        subsystems: dict[str, Subsystem] | None = None,
        tree_end: int | None = None,
    ) -> None:
        for column, dtype in COLUMNS.items():
            setattr(self, column, np.ascontiguousarray(columns[column], dtype=dtype))
        self.n = len(self.parent)
        self.tree_end = int(self.end[0]) if tree_end is None else tree_end
        self.kinds = kinds
        self.origins = origins
        self.names = names if names is not None else {}
        self.uuid_texts = uuid_texts if uuid_texts is not None else {}
        self.tags = tags if tags is not None else {}
        self.capacity = capacity if capacity is not None else {}
        self.subsystems = subsystems if subsystems is not None else {}
        self.linked: Mask | None = None
        """In the graph of a child instance: pass-through pools whose units the enclosing instance grants on request."""
        self.counts: frozenset[tuple[str, str]] = frozenset()
        """(graph, type) pairs that are counted in the enclosing instance, though perhaps by no pool here."""
        self._outage: Outage | None = None
        self._forests: dict[str, tuple[Subsystem, Forest]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**underived(self), "_outage": None, "_forests": {}}

    # -- names -------------------------------------------------------------------------------------------------------

    def kind_of(self, v: int) -> Kind:
        """Type, basename, unit, name template and properties of `v`."""
        return self.kinds.listed[self.kind.item(v)]

    def name(self, v: int) -> str:
        """The name of `v`: explicit, by its template, or basename + id (RFC 4, "Resource Pool Data")."""
        kind = self.kinds.listed[self.kind.item(v)]
        if kind.name is None:
            if self.names and (explicit := self.names.get(v)) is not None:
                return explicit
            number = self.id.item(v)
            return kind.basename if number < 0 else f"{kind.basename}{number}"
        explicit = self.names.get(v)
        return (
            explicit
            if explicit is not None
            else template.render(template.parse(kind.name), lambda field: self.attribute(v, field))
        )

    def attribute(self, v: int, field: str) -> object:
        """The value of ``${field}`` in the name of `v`: its own attribute, the name of its parent, its own property, or the id of
        its ancestor of that type.

        Errors: UsageError if none of them exists.
        """
        kind = self.kind_of(v)
        if field == "id":
            return self.id.item(v)
        if field in ("basename", "type", "unit"):
            return getattr(kind, field) or ""
        if field == "size":
            return self.size.item(v)
        if field == "rank":
            return self.rank.item(v)
        if field == "uuid":
            return self.uuid(v)
        if field == "parent" and (above := self.parent.item(v)) >= 0:
            return self.name(above)
        for key, value in kind.properties:
            if key == field:
                return key if value is None else value
        for ancestor in self.ancestors(v):
            if self.kind_of(ancestor).type == field:
                return self.id.item(ancestor)
        raise UsageError(
            f"name template '{kind.name}' uses '{field}', which is no attribute or property, and no type of an ancestor",
            where=self.path(self.parent.item(v)) if self.parent.item(v) >= 0 else "",
        )

    def path(self, v: int) -> str:
        """The path of `v` from its root: ``/demo/rack0/node3``.  Cost O(depth)."""
        names = [self.name(v)]
        parent = self.parent.item(v)
        while parent >= 0:
            names.append(self.name(parent))
            parent = self.parent.item(parent)
        return "/" + "/".join(reversed(names))

    def wheres(self, vertices: Iterable[int]) -> list[str]:
        """As :meth:`where`, for many pools: the path of a parent is made once for all its children."""
        above = self.lookup.paths_above
        if len(above) > limits.PATH_CACHE_MAX:
            above.clear()
        above[-1] = ""
        parent_of, found = self.parent.item, list[str]()
        for v in vertices:
            if v >= self.tree_end:
                found.append(self.where(v))
                continue
            parent = parent_of(v)
            if parent not in above:
                above[parent] = self.path(parent)
            found.append(f"{above[parent]}/{self.name(v)}")
        return found

    @cached_property
    def hierarchy(self) -> str:
        """The name of the containment hierarchy, which is the name of its root."""
        return self.name(0)

    def uri(self, v: int) -> str | None:
        """``name:/path`` of `v` in the containment tree; None for a pool that is only in auxiliary graphs."""
        if v >= self.tree_end:
            return None
        return f"{self.hierarchy}:/{self.path(v)[len(self.hierarchy) + 2 :]}"

    def uris(self, v: int) -> list[str]:
        """A URI for each hierarchy that `v` is in, containment first (RFC 4, "Composite Resource Data")."""
        first = self.uri(v)
        found = [first] if first is not None else []
        found.extend(self.auxiliary_uri(s, v) for s in self.subsystems.values() if s.hierarchy and self.is_member(s, v))
        return found

    @staticmethod
    def is_member(subsystem: Subsystem, v: int) -> bool:
        """Whether an edge of this auxiliary graph touches `v`."""
        members = subsystem.members
        at = int(np.searchsorted(members, v))
        return at < len(members) and int(members[at]) == v

    def auxiliary_uri(self, subsystem: Subsystem, v: int) -> str:
        """The URI of `v` in an auxiliary hierarchy that it is in."""
        chain = [v]
        while (above := subsystem.parent(chain[-1])) >= 0:
            chain.append(above)
        names = [self.name(u) for u in reversed(chain)]
        if names[0] == subsystem.name and len(subsystem.roots()) == 1:
            names = names[1:]
        return f"{subsystem.name}:/" + "/".join(names)

    def where(self, v: int) -> str:
        """The name of `v` in messages and records, which :meth:`vertex` accepts.

        It is the path in the containment tree; outside it, the URI in a hierarchy, or graph and path: ``network:leaf0``.  Where
        pools of a graph share a name, a number follows, which stays when the same file is loaded again: ``network:leaf0#17``.
        """
        if v < self.tree_end:
            return self.path(v)
        for name in self.names_outside(v):
            with suppress(UnknownPool):  # skip a name that two pools share, because lookups refuse it
                if self.vertex(name) == v:
                    return name
        return self.uuid(v)

    def names_outside(self, v: int) -> Iterator[str]:
        for subsystem in self.subsystems.values():
            if subsystem.hierarchy and self.is_member(subsystem, v):
                yield self.auxiliary_uri(subsystem, v)
        path, around = self.path(v)[1:], self.lookup.graphs_around(v) or [OUTSIDE]
        for name in around:
            found = self.subsystems.get(name)
            if found is None or not (found.hierarchy and self.is_member(found, v)):
                yield f"{name}:{path}"
        yield self.lookup.numbered(around[0], v)

    def graphs_of(self, v: int) -> list[str]:
        """Names of the auxiliary graphs with an edge from or to `v`."""
        return [name for name, subsystem in self.subsystems.items() if self.is_member(subsystem, v)]

    def uuid(self, v: int) -> str:
        """The uuid of `v`, which survives saving, loading, copying and renumbering."""
        explicit = self.uuid_texts.get(v)
        return explicit if explicit is not None else uuids.text(self.origins[self.origin[v]], self.serial.item(v))

    # -- lookup ------------------------------------------------------------------------------------------------------

    @cached_property
    def lookup(self) -> Lookup:
        return Lookup(self)

    @cached_property
    def short_names(self) -> ShortNames:
        return ShortNames(self, self.lookup.is_placed)

    def vertex(self, where: str) -> int:
        """The pool with this path, URI or uuid.

        Errors: UnknownPool naming the part of the path that does not exist and what exists instead.
        Cost: O(1) for a path whose parent was looked up before.
        """
        return self.lookup.vertex(where)

    def named(self, names: Iterable[str], block: slice | None = None, type_name: str | None = None) -> list[int]:
        """Every pool with one of these names, ascending.

        Args:
            block: only these vertices.
            type_name: only pools of this type.

        Cost: one vector scan for each way in which such a name may be made.
        """
        return self.lookup.named(names, block, type_name)

    def subsystem(self, name: str) -> Subsystem:
        """The auxiliary graph of this name.

        Errors: UnknownGraph listing the existing names.
        """
        found = self.subsystems.get(name) if isinstance(name, str) else None
        if found is None:
            raise UnknownGraph(f"no auxiliary graph '{name!s:.80}'", hint=choose_from(self.subsystems))
        return found

    # -- flow along edges --------------------------------------------------------------------------------------------

    @cached_property
    def accounts(self) -> Accounts:
        """Everything a job can hold units of: all pools, and the edges with a capacity."""
        return Accounts(self, self._units_of_graphs)

    def _units_of_graphs(self) -> dict[int, str | None]:
        return {feeds.kind: feeds.unit for feeds in self.feeds}

    @cached_property
    def feeds(self) -> list[Feeds]:
        """The auxiliary graphs in which some pool supplies another."""
        graphs = (graph for graph in self.subsystems.values() if graph.name != PARTITIONS or not self.partitions)
        return [feeds for feeds in (Feeds(self.accounts, graph) for graph in graphs) if len(feeds.below)]

    @cached_property
    def linked_types(self) -> frozenset[int]:
        """Numbers of the types with a pool at an edge of an auxiliary graph, or outside the containment tree.

        Only such pools supply others: a request for other types does not read the graphs.
        """
        ends = [self.type[pools] for graph in self.subsystems.values() for pools in (graph.src, graph.dst)]
        return frozenset(np.flatnonzero(np.bincount(np.concatenate([self.type[self.tree_end :], *ends]))).tolist())

    # -- partitions --------------------------------------------------------------------------------------------------

    @cached_property
    def partitions(self) -> dict[str, Partition]:
        """The partitions by name.

        Errors: InputError for a limit that is none, and for two partitions of one name.
        """
        return partitions_of(self) if PARTITIONS in self.subsystems else {}

    @cached_property
    def default_partition(self) -> Partition | None:
        """The partition of requests that name none."""
        return next((partition for partition in self.partitions.values() if partition.is_default), None)

    def partition(self, name: str) -> Partition:
        """The partition of this name.

        Errors: UsageError with the nearest names.
        """
        found = self.partitions.get(name) if isinstance(name, str) else None
        if found is None:
            known = list(self.partitions)
            hint = suggest_or_choose(str(name), known, most=limits.WHY_NAMES_MAX, otherwise="this machine has no partitions")
            raise UsageError(f"no partition '{name!s:.80}'", hint=hint)
        return found

    # -- hierarchies -------------------------------------------------------------------------------------------------

    def hierarchies(self) -> list[str]:
        """The names of the hierarchies, containment first."""
        return [self.hierarchy, *(name for name, subsystem in self.subsystems.items() if subsystem.hierarchy)]

    def forest(self, name: str | None = None) -> Forest:
        """A hierarchy by name; by default, or as ``containment``, the containment tree.

        Errors: UnknownGraph listing the existing names; UsageError for a graph that is not a hierarchy.
        """
        if name is None:
            return self._containment
        subsystem = self.subsystems.get(name) if isinstance(name, str) else None
        if isinstance(name, str) and (name == self.hierarchy or (name == CONTAINMENT and subsystem is None)):
            return self._containment
        if subsystem is None:
            raise UnknownGraph(f"no hierarchy '{name!s:.80}'", hint=choose_from(self.hierarchies()))
        if not subsystem.hierarchy:
            raise UsageError(
                f"'{name}' is a graph but not a hierarchy, so its pools are not above or below each other",
                hint=f"hierarchies are {', '.join(self.hierarchies())}; "
                "`fluxres show` lists the edges of one pool, `walk` follows them",
            )
        known = self._forests.get(name)
        if known is None or known[0] is not subsystem:
            known = self._forests[name] = subsystem, Forest.auxiliary(subsystem, self.n)
        return known[1]

    @cached_property
    def _containment(self) -> Forest:
        return Forest(self.hierarchy, self.n, self.end, self.parent)

    # -- the tree ----------------------------------------------------------------------------------------------------

    def children(self, v: int) -> Int32:
        """Vertex numbers of the children, in order.  Cost: one vector scan of the subtree."""
        below = self.parent[v + 1 : self.end.item(v)]
        return (np.flatnonzero(below == v) + (v + 1)).astype(np.int32)

    def ancestors(self, v: int) -> list[int]:
        """Vertex numbers from the parent up to the root."""
        found = []
        parent = self.parent.item(v)
        while parent >= 0:
            found.append(parent)
            parent = self.parent.item(parent)
        return found

    @cached_property
    def depth(self) -> NDArray[np.int16]:
        """The number of ancestors of each pool: 0 for a root.  Cost O(n) on the first call."""
        steps = np.ones(self.n, np.int16)
        closing = np.bincount(self.end[self.end < self.n], minlength=self.n).astype(np.int16)
        steps -= closing
        steps[0] = 0
        return np.cumsum(steps, dtype=np.int16)

    @cached_property
    def _typed(self) -> tuple[list[str], UInt16]:
        # Other generations share the table of kinds, so a type counts only if some pool here has it.
        numbers: dict[str, int] = {}
        of_kind = np.zeros(len(self.kinds), np.uint16)
        for number in np.flatnonzero(np.bincount(self.kind)).tolist():
            of_kind[number] = numbers.setdefault(self.kinds.listed[number].type, len(numbers))
        return list(numbers), of_kind[self.kind]

    @cached_property
    def types(self) -> list[str]:
        """The resource types of the pools, in the order in which their kinds were first seen."""
        return self._typed[0]

    @cached_property
    def type(self) -> UInt16:
        """The type number of each pool, an index into `types`."""
        return self._typed[1]

    @cached_property
    def type_order(self) -> tuple[Int32, Int64]:
        """All vertices ordered by type and then number, and where each type begins in that order."""
        order = np.argsort(self.type, kind="stable").astype(np.int32)
        return order, np.concatenate([[0], np.cumsum(np.bincount(self.type, minlength=len(self.types)))])

    @cached_property
    def sums(self) -> Sums:
        """Adds up units by type.  Cost O(n) on the first call."""
        return Sums(self.kinds, self.kind, self.size)

    @cached_property
    def may_pass_on(self) -> bool:
        """Whether several pools of a type counted in amounts touch an auxiliary graph, so that one may supply another.

        Where the type is attached to a supplier, its pools count wherever they are.
        """
        graphs = [subsystem.members for subsystem in self.subsystems.values()]
        if not any(map(len, graphs)):
            return False
        near = np.zeros(self.n, np.bool_)
        near[self.tree_end :] = True
        for members in graphs:
            near[members] = True
        near |= (self.parent >= 0) & near[self.parent]
        counts = np.bincount(self.type, minlength=len(self.types))
        several = (number for number in np.unique(self.type[near]).tolist() if counts[number] > 1)
        return any(self.sums.in_amounts(self.types[number]) for number in several)

    def of_type(self, type_name: str) -> Int32:
        """Vertices of one type, ascending; empty for a type the graph does not have."""
        if type_name not in self.types:
            return np.zeros(0, np.int32)
        number = self.types.index(type_name)
        order, starts = self.type_order
        return order[starts[number] : starts[number + 1]]

    def in_tree(self, type_name: str) -> Int32:
        """As :meth:`of_type`, without pools outside the containment tree."""
        found = self.of_type(type_name)
        return found[: int(found.searchsorted(self.tree_end))]

    @cached_property
    def execution_targets(self) -> tuple[Int32, Int32]:
        """Ranks, ascending, and the topmost pool on each (RFC 20).  Cost O(n) on the first call."""
        on_one = np.flatnonzero(self.rank >= 0)
        above = self.parent[on_one]
        tops = on_one[(above < 0) | (self.rank[above] != self.rank[on_one])].astype(np.int32)
        ranks, first = np.unique(self.rank[tops], return_index=True)
        return ranks, tops[first]

    # -- exclusive pools ---------------------------------------------------------------------------------------------

    @cached_property
    def exclusive_composites(self) -> Int32:
        """Pools with descendants that only one job may use at a time, ascending (RFC 4, "Exclusive flag")."""
        inside = self.end > np.arange(1, self.n + 1)
        return np.flatnonzero(inside & ((self.flags & EXCLUSIVE) != 0)).astype(np.int32)

    def exclusive_around(self, v: int) -> list[int]:
        """Of `v` and its ancestors, the exclusive composites."""
        if not len(self.exclusive_composites):
            return []
        return [u for u in (v, *self.ancestors(v)) if self.flags.item(u) & EXCLUSIVE and self.end.item(u) > u + 1]

    # -- units -------------------------------------------------------------------------------------------------------

    @cached_property
    def ways(self) -> Mask:
        """Pass-through pools: present only as the path to others, without units to allocate (rule N1)."""
        found: Mask = (self.flags & WAY) != 0
        return found if self.linked is None else found & ~self.linked

    @property
    def offers(self) -> Mask:
        """Pools that are not pass-through, or have such a pool below them.  Cost O(n)."""
        more_than_ways: Mask = (self.flags & WAY) == 0
        if more_than_ways.all():
            return more_than_ways
        own = np.concatenate([[0], np.cumsum(more_than_ways)])
        found: Mask = own[self.end] > own[:-1]
        return found

    def is_way(self, v: int) -> bool:
        """Whether a pool is a pass-through pool of which the enclosing instance grants nothing either."""
        return bool(self.flags.item(v) & WAY) and (self.linked is None or not self.linked.item(v))

    @cached_property
    def units(self) -> Int64:
        """Units of each pool that can be held here: its size, or 0 for a pass-through pool."""
        ways = self.ways
        return np.where(ways, 0, self.size) if ways.any() else self.size

    @property
    def full_size(self) -> Int64:
        """The full size of each pool, including units that a copy did not take.  Cost: a copy of the column if there are any."""
        if not self.capacity:
            return self.size
        full = self.size.copy()
        full[np.fromiter(self.capacity, np.int64, len(self.capacity))] = list(self.capacity.values())
        return full

    # -- states and tags ---------------------------------------------------------------------------------------------

    def unavailable_roots(self) -> Int32:
        """Topmost pools that take no new work, ascending; nor do the pools below them (rules A7, F3)."""
        return self.outage.roots

    @property
    def outage(self) -> Outage:
        """What takes no new work, given the present states."""
        if self._outage is None:
            self._outage = Outage(self, lambda: self.feeds)
        return self._outage

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """A context in which everything counts as in service, for jobs that keep running on a drained node: rule A7 concerns new
        work only.

        The states themselves stay readable within the block.
        """
        before = self._outage
        self._outage = Outage(self, lambda: self.feeds, np.zeros(0, np.int32))
        try:
            yield
        finally:
            self._outage = before

    def affected(self, vertices: Int32 | Sequence[int]) -> Int32:
        """The topmost pools that take no new work while these are out of service (rules A7, F3), ascending."""
        return self.outage.affected(np.asarray(vertices, np.int32), lambda: self.feeds)

    def unavailable_above(self, v: int) -> int:
        """The topmost pool whose state keeps `v` (itself, a descendant, or a pool that only it supplies) from new work, or -1."""
        return self.outage.culprit(v)

    def unavailable_because(self, v: int) -> list[int]:
        """All pools whose own state keeps `v` from new work: one of itself and its ancestors, or all the suppliers it lacks."""
        return self.outage.culprits(v)

    def state_name(self, v: int) -> str:
        return STATES[self.state.item(v)]

    def set_state(self, vertices: Int32 | Sequence[int], state: str) -> None:
        """Set the state of these pools.

        Errors: UsageError for a state that neither RFC 4 nor its extension defines.
        """
        if state not in STATES:
            raise UsageError(f"no state '{state}'", hint=instead_of(state))
        self.state[np.asarray(vertices, np.int64)] = STATES.index(state)
        self._outage = None

    def set_tag(self, vertices: Int32 | Sequence[int], key: str, value: str | None) -> None:
        """Tag these pools, replacing an earlier value of the key."""
        for v in np.asarray(vertices).tolist():
            self.tags.setdefault(v, {})[key] = value

    def drop_tag(self, vertices: Int32 | Sequence[int], key: str) -> None:
        """Remove a tag from those of these pools that have it."""
        for v in np.asarray(vertices).tolist():
            tags: MutableMapping[str, str | None] = self.tags.get(v, {})
            tags.pop(key, None)
            if not tags:
                self.tags.pop(v, None)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns by name, not copied."""
        return {column: getattr(self, column) for column in COLUMNS}

    def replaced(
        self, columns: Mapping[str, NDArray[Any]] = MappingProxyType({}), subsystems: Mapping[str, Subsystem] | None = None
    ) -> Structure:
        """The same pools with other values in some columns, or with other auxiliary graphs; shares all other data."""
        made = Structure(
            {**self.columns(), **columns},
            self.kinds,
            origins=self.origins,
            names=self.names,
            uuid_texts=self.uuid_texts,
            tags=self.tags,
            capacity=self.capacity,
            subsystems=dict(self.subsystems if subsystems is None else subsystems),
            tree_end=self.tree_end,
        )
        made.counts = self.counts
        return made


OUTSIDE: Final = "pools"
"""The graph name, also in cluster.yaml, for pools outside the containment tree that no auxiliary graph touches."""

NUMBER: Final = "#"
"""Before the number that distinguishes pools of one graph with equal names."""


class Lookup:
    """Finds pools of one structure.

    Args:
        structure: its shape and names must not change.
    """

    def __init__(self, structure: Structure) -> None:
        self._s = structure
        self._paths: dict[str, int] = {}
        #: By vertex, the paths of pools whose children were named.
        self.paths_above: dict[int, str] = {}
        #: By word, whether it names pools where it could be a request too, see `model/targets.py`.
        self.are_names: dict[str, bool] = {}
        self._levels: dict[tuple[str, int], dict[str, list[int]]] = {}
        self._levels_size = 0
        self._outside: dict[str, dict[str, list[int]]] = {}
        self._graphs: list[Subsystem] = []
        self._touched: dict[str, frozenset[int]] = {}

    def is_uuid(self, text: str) -> bool:
        """Whether this text is a uuid: in the standard form, or given to a pool explicitly."""
        return uuids.split(text) is not None or text in self._explicit_uuids

    def vertex(self, where: str) -> int:
        """The pool with this path, URI or uuid.

        Errors: UnknownPool naming the part of the path that does not exist and what exists instead.
        Cost: O(1) for a path whose parent was looked up before.
        """
        if where.count("/") > limits.DEPTH_MAX:
            raise UnknownPool(f"no pool is {where.count('/')} levels deep", where=where[: limits.NAME_LENGTH_MAX])
        if where.startswith("/"):
            return self._by_path(where)
        hierarchy, path = self.graph_and_path(where)
        if path is None:
            return self._by_uuid(where)
        if hierarchy == self._s.hierarchy:
            return self._by_path(f"/{hierarchy}/{path}" if path else f"/{hierarchy}")
        return self._by_graph_path(hierarchy, path)

    def graph_and_path(self, where: str) -> tuple[str, str | None]:
        """The graph and the path of ``graph:/path`` or ``graph:path``; the slash is needed only where there is no such graph.

        The path is None for any other text.
        """
        for separator in (":/", ":"):
            graph, colon, path = where.partition(separator)
            if colon and (graph in self._s.subsystems or graph in (self._s.hierarchy, OUTSIDE)):
                return graph, path if path or separator == ":/" else None
        graph, colon, path = where.partition(":/")
        return graph, path if colon and "@" not in graph else None

    def is_placed(self, text: str) -> bool:
        """Whether a text is a path, a URI or a uuid, rather than a name."""
        return text.startswith("/") or self.graph_and_path(text)[1] is not None or self.is_uuid(text)

    def _by_path(self, path: str) -> int:
        known = self._paths.get(path)
        if known is not None:
            return known
        clean = path.rstrip("/")
        above, _, name = clean.rpartition("/")
        if not above:
            if clean == "" or name == self._s.hierarchy:
                return 0
            raise UnknownPool(f"no pool '{path}': the root is '/{self._s.hierarchy}'", where=path, hint=self._outside_hint(clean))
        try:
            parent = self._by_path(above)
        except UnknownPool as error:
            if hint := self._outside_hint(clean):
                raise UnknownPool(error.message, where=path, hint=hint) from None
            raise
        v = self._child_named(parent, name)
        if v < 0:
            raise UnknownPool(f"no pool '{name}' in '{above}'", where=path, hint=self._what_is_in(parent))
        if self._s.end.item(v) > v + 1:
            if len(self._paths) >= limits.PATH_CACHE_MAX:
                self._paths.clear()
            self._paths[clean] = v
        return v

    def _outside_hint(self, path: str) -> str:
        """A hint naming the only pool outside containment that has this path in its own tree; empty if there is none."""
        names = path.strip("/").split("/")
        found = []
        for v in self._outside_roots.tolist() if names[0] != self._s.hierarchy else ():
            if self._s.name(v) == names[0]:
                for name in names[1:]:
                    v = self._child_named(v, name) if v >= 0 else v
                found += [v] * (v >= 0)
        return f"outside the containment tree: {self._s.where(found[0])}" if len(found) == 1 else ""

    def _what_is_in(self, v: int) -> str:
        children = self._s.children(v)
        if not len(children):
            return "it has no children"
        first, last = self._s.name(int(children[0])), self._s.name(int(children[-1]))
        return f"it has {len(children)} children, from '{first}' to '{last}'" if len(children) > 1 else f"it has only '{first}'"

    def _child_named(self, parent: int, name: str) -> int:
        guess = self._guess_child(parent, name)
        if guess >= 0:
            return guess
        if self._s.names:
            for v in self._explicit_names.get(name, []):
                if self._s.parent.item(v) == parent:
                    return v
        children = self._s.children(parent)
        kinds = self._s.kind[children]
        for number in np.flatnonzero(np.bincount(kinds)).tolist():
            for v in children[kinds == number][
                self._name_candidates(children[kinds == number], self._s.kinds.listed[number], name)
            ].tolist():
                if v not in self._s.names and self._s.name(v) == name:
                    return int(v)
        return -1

    def _guess_child(self, parent: int, name: str) -> int:
        # Equal siblings are spaced evenly, so the position of one follows from its number.
        first = parent + 1
        stop = self._s.end.item(parent)
        if first >= stop:
            return -1
        kind = self._s.kinds.listed[self._s.kind.item(first)]
        number = self._id_in_name(kind, name)
        if number is None:
            return -1
        guess = first + (number - self._s.id.item(first)) * (self._s.end.item(first) - first)
        if first <= guess < stop and self._s.parent.item(guess) == parent and self._s.name(guess) == name:
            return guess
        return -1

    @staticmethod
    def _id_in_name(kind: Kind, name: str) -> int | None:
        """The id (-1: no id) that gives a pool of this kind the name `name`; None if no id does, or more than the id matters."""
        if kind.name is not None:
            return template.invert(kind.name, name)
        return -1 if name == kind.basename else template.default_id(kind.basename, name)

    def _name_candidates(self, vertices: Int32, kind: Kind, name: str) -> Mask:
        """Which of these pools of one kind may have the name `name` by their template."""
        number = self._id_in_name(kind, name)
        if number is not None:
            return np.asarray(self._s.id[vertices] == number)
        if kind.name is None or template.is_invertible(kind.name):
            return np.zeros(len(vertices), np.bool_)
        return np.ones(len(vertices), np.bool_)

    def named(self, names: Iterable[str], block: slice | None, type_name: str | None) -> list[int]:
        """See :meth:`Structure.named`."""
        s, wanted, block = self._s, set(names), block or slice(0, self._s.n)
        found = [v for v in self._named_explicitly(wanted, block) if type_name in (None, s.kind_of(v).type)]
        kinds, ids = s.kind[block], s.id[block]
        for numbers in self._kinds_by_form(kinds, type_name).values():
            kind = s.kinds.listed[numbers[0]]
            is_exact = kind.name is None or template.is_invertible(kind.name)
            possible = self._possible_ids(kind, wanted, is_exact)
            if possible is None or possible:
                hits = self._of_kinds(kinds, numbers)
                hits = hits if possible is None else hits & np.isin(ids, possible)
                vertices = (np.flatnonzero(hits) + block.start).tolist()
                found += (v for v in vertices if v not in s.names and (is_exact or s.name(v) in wanted))
        return sorted(found)

    def _kinds_by_form(self, kinds: Int32, type_name: str | None) -> dict[tuple[bool, str], list[int]]:
        """The kinds of some pools, of one type or of all, by the way in which their names follow from the id."""
        table = self._s.kinds
        found: dict[tuple[bool, str], list[int]] = {}
        for number in range(len(table)) if len(table) < len(kinds) else np.unique(kinds).tolist():
            kind = table[number]
            if type_name in (None, kind.type):
                found.setdefault((kind.name is None, kind.name or kind.basename), []).append(number)
        return found

    def _possible_ids(self, kind: Kind, names: Iterable[str], is_exact: bool) -> list[int] | None:
        """The ids with which pools of this kind may have one of these names; None for any id."""
        if is_exact:
            return [n for n in (self._id_in_name(kind, name) for name in names) if n is not None]
        of_names = [template.possible_ids(str(kind.name), name) for name in names]
        return None if None in of_names else sorted({n for ids in of_names if ids is not None for n in ids})

    def _of_kinds(self, kinds: Int32, numbers: list[int]) -> Mask:
        if len(numbers) == 1:
            return np.asarray(kinds == numbers[0])
        is_one = np.zeros(len(self._s.kinds), np.bool_)
        is_one[numbers] = True
        found: Mask = is_one[kinds]
        return found

    def _named_explicitly(self, names: set[str], block: slice) -> list[int]:
        explicit = self._s.names
        if len(explicit) > block.stop - block.start:
            return [v for v in range(block.start, block.stop) if explicit.get(v) in names]
        return [v for v, name in explicit.items() if name in names and block.start <= v < block.stop]

    @cached_property
    def _explicit_names(self) -> dict[str, list[int]]:
        by_name: dict[str, list[int]] = {}
        for v, name in self._s.names.items():
            by_name.setdefault(name, []).append(v)
        return by_name

    # -- auxiliary graphs --------------------------------------------------------------------------------------------

    def _by_graph_path(self, graph: str, path: str) -> int:
        """A pool by its URI in an auxiliary hierarchy or, outside the containment tree, by graph and path in its own tree."""
        self._follow_graphs()
        subsystem = self._s.subsystems.get(graph)
        if subsystem is None and graph != OUTSIDE:
            known = [self._s.hierarchy, *self._s.subsystems]
            raise UnknownPool(f"no graph '{graph}'", where=f"{graph}:/{path}", hint=choose_from(known))
        names = [part for part in path.split("/") if part]
        if subsystem is None or not subsystem.hierarchy:
            return self._by_outside_path(graph, names, f"{graph}:/{path}")
        try:
            return self._by_hierarchy_path(subsystem, names, f"{graph}:/{path}")
        except UnknownPool:
            # A pool that the hierarchy declares but no edge touches is not in the hierarchy, yet it has a name.
            with suppress(UnknownPool):
                return self._by_outside_path(graph, names, path)
            raise

    def _by_hierarchy_path(self, subsystem: Subsystem, names: list[str], where: str) -> int:
        roots = subsystem.roots()
        if len(roots) == 1 and self._s.name(int(roots[0])) == subsystem.name and (not names or names[0] != subsystem.name):
            names = [subsystem.name, *names]
        if not names:
            raise UnknownPool(f"hierarchy '{subsystem.name}' has {len(roots)} roots", where=where, hint="name one of them")
        v = -1
        for name in names:
            level = self._level(subsystem, v)
            named = level.get(name, [])
            if len(named) != 1:
                raise self._not_one(named, name, where, level)
            v = named[0]
        return v

    def _level(self, subsystem: Subsystem, v: int) -> dict[str, list[int]]:
        """The children of `v` in a hierarchy by name, or its roots for -1; cached, since another lookup usually follows."""
        key = subsystem.name, v
        found = self._levels.get(key)
        if found is None:
            found = self._by_name((subsystem.successors(v) if v >= 0 else subsystem.roots()).tolist())
            self._levels_size += len(found)
            if self._levels_size > limits.PATH_CACHE_MAX:
                self._levels.clear()
                self._levels_size = len(found)
            self._levels[key] = found
        return found

    def _by_name(self, vertices: Iterable[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for v in vertices:
            found.setdefault(self._s.name(v), []).append(v)
        return found

    def _by_outside_path(self, graph: str, names: list[str], where: str) -> int:
        """A pool outside the containment tree by the path in its own tree, among the trees that the graph names."""
        if not names:
            raise UnknownPool(f"graph '{graph}' has no root", where=where, hint=f"name a pool of it, such as {graph}:/NAME")
        roots = self._outside_roots_by_name(graph)
        named = roots.get(names[0], []) or self._with_number(roots, names[0])
        if len(named) != 1:
            raise self._not_one(named, names[0], where, roots)
        v = named[0]
        for name in names[1:]:
            above, v = v, self._child_named(v, name)
            if v < 0:
                raise UnknownPool(f"no pool '{name}' in '{self._s.name(above)}'", where=where, hint=self._what_is_in(above))
        return v

    def _with_number(self, roots: Mapping[str, list[int]], name: str) -> list[int]:
        """The roots that ``leaf0#17`` names."""
        alike, hash_sign, number = name.rpartition(NUMBER)
        return [v for v in roots.get(alike, ()) if hash_sign and number in self._numbers(v)]

    def _numbers(self, v: int) -> tuple[str, str]:
        """What distinguishes a pool from others of its name: its number within its uuid, or its uuid where a file gives one.

        The second form is for numbers that two pools have because they come from two machines.
        """
        explicit = self._s.uuid_texts.get(v)
        if explicit is not None:
            return explicit, explicit
        return str(number := self._s.serial.item(v)), f"{number}.{self._s.origin.item(v)}"

    def numbered(self, graph: str, v: int) -> str:
        """The name of a pool outside containment that no other has, in a graph in its tree: ``network:leaf0#17/port1``."""
        self._follow_graphs()
        root, below = v, list[str]()
        while (above := self._s.parent.item(root)) >= 0:
            below.insert(0, self._s.name(root))
            root = above
        name = self._s.name(root)
        of_name, (number, longer) = self._outside_roots_by_name(graph).get(name, []), self._numbers(root)
        is_one = sum(number in self._numbers(u) for u in of_name) == 1
        return "/".join([f"{graph}:{name}{NUMBER}{number if is_one else longer}", *below])

    @cached_property
    def _outside_roots(self) -> Int32:
        """Roots of the trees outside containment, ascending."""
        return (np.flatnonzero(self._s.parent[self._s.tree_end :] < 0) + self._s.tree_end).astype(np.int32)

    def _follow_graphs(self) -> None:
        """Drop the caches if the auxiliary graphs have changed: a reader of a file adds them one after the other."""
        graphs = list(self._s.subsystems.values())
        if self._graphs != graphs:
            self._graphs = graphs
            self._levels.clear()
            self._levels_size = 0
            self._outside.clear()
            self._touched = {graph.name: self._touched_by(graph) for graph in graphs}

    def _touched_by(self, graph: Subsystem) -> frozenset[int]:
        """The roots outside containment whose trees contain a member of a graph."""
        members = graph.members[graph.members >= self._s.tree_end]
        at = np.unique(self._outside_roots.searchsorted(members, "right") - 1)
        return frozenset(self._outside_roots[at].tolist())

    def _outside_roots_by_name(self, graph: str) -> dict[str, list[int]]:
        found = self._outside.get(graph)
        if found is None:
            roots = self._outside_roots.tolist()
            if graph in self._touched:
                elsewhere = frozenset[int]().union(*self._touched.values()) - self._touched[graph]
                roots = [root for root in roots if root not in elsewhere]
            found = self._outside[graph] = self._by_name(roots)
        return found

    def outside(self, graph: str) -> list[int]:
        """The roots of the trees outside containment that are named by a graph, ascending."""
        self._follow_graphs()
        return sorted(root for roots in self._outside_roots_by_name(graph).values() for root in roots)

    def graphs_around(self, v: int) -> list[str]:
        """The auxiliary graphs with a member in the tree of a pool outside containment."""
        self._follow_graphs()
        root = int(self._outside_roots[self._outside_roots.searchsorted(v, "right") - 1])
        return [name for name, roots in self._touched.items() if root in roots]

    def _not_one(self, named: Sequence[int], name: str, where: str, there: Iterable[str]) -> UnknownPool:
        graph = where.partition(":")[0]
        if not named:
            subsystem = self._s.subsystems.get(graph)
            on = (
                f"at this place in hierarchy '{graph}'"
                if subsystem is not None and subsystem.hierarchy
                else f"of graph '{graph}'"
            )
            hint = choose_from(there, most=limits.WHY_NAMES_MAX, otherwise="there are none")
            return UnknownPool(f"no pool '{name}' {on}", where=where, hint=hint)
        # In a hierarchy made of edges, siblings may have the same name; guessing could pick the wrong one.
        places = " and ".join(self._s.path(u) if u < self._s.tree_end else self.numbered(graph, u) for u in named[:2])
        return UnknownPool(f"{len(named)} pools are named '{name}' there", where=where, hint=f"use {places}")

    def _by_uuid(self, where: str) -> int:
        v = self._explicit_uuids.get(where)
        if v is not None:
            return v
        parts = uuids.split(where)
        if parts is not None and parts[0] in self._s.origins:
            origin, serial = self._s.origins.index(parts[0]), parts[1]
            if serial < self._s.n and self._s.serial.item(serial) == serial and self._s.origin.item(serial) == origin:
                hits = [serial]
            else:
                hits = np.flatnonzero((self._s.serial == serial) & (self._s.origin == origin)).tolist()
            if len(hits) == 1 and hits[0] in self._s.uuid_texts:
                hits = np.flatnonzero((self._s.serial == serial) & (self._s.origin == origin)).tolist()
            # The serial of a pool with an explicit uuid is meaningless.
            for v in hits:
                if v not in self._s.uuid_texts:
                    return v
        hint = "a path starts with '/', a URI reads 'name:/path'" if parts is None else ""
        raise UnknownPool(f"no pool '{where}'", where=where, hint=hint)

    @cached_property
    def _explicit_uuids(self) -> dict[str, int]:
        return {text: v for v, text in self._s.uuid_texts.items()}

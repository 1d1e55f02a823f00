"""The execution section of R (RFC 20): the nodes, and the ids of the pools in each; and TreePool's topologies (RFC 49) of them.

This reader accepts what flux-core accepts: without hosts, nodes are named after their ranks; the content of a rank in two entries
is combined; and there may be no ranks at all.

TreePool gives the positions of cores and gpus in a node once for ranks with equal topology. What a job has is only in R_lite; the
topologies are those of complete nodes. So a core that is not in R_lite is left out here, and so is a domain that becomes empty.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, NoReturn

import msgspec
import numpy as np
from msgspec import UNSET

from fluxres import limits
from fluxres.arrays import Int32, Int64
from fluxres.documents import json_typed
from fluxres.documents.document import Key, shown
from fluxres.documents.source import Source
from fluxres.errors import ErrorPlace, FluxresError, InputError, LimitExceeded
from fluxres.formats.flux.ranks import (
    HOST,
    NO_IDS,
    Block,
    BlockRows,
    Spans,
    count_of,
    fill,
    hosts_of,
    members,
    positions,
    properties_by_node,
    property_text,
    require_path_steps,
)
from fluxres.formats.flux.resource_set_schema import Execution, Storage, TreePool
from fluxres.formats.format import Fail
from fluxres.graph.forest import in_slices
from fluxres.graph.kinds import WAY, Kind, KindTable, properties_tuple
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, idset
from fluxres.syntax.hostlist import Expression

RESOURCES: Final = {"cores": "core", "gpus": "gpu"}
"""Keys of a domain that list ids, and the pool types of these."""
MEMORY_UNIT: Final = "GiB"
DOMAINS_MAX: Final = 65_536
"""Maximal number of domains of one node: sockets, NUMA nodes and other levels; real nodes have a few dozen."""


class Topologies:
    """The entries of a TreePool.

    Attributes:
        entry: number of the entry of each rank.
    """

    def __init__(self, source: Source, pool: TreePool, ranks: Int64) -> None:
        self._source, self._pool = source, pool
        found, numbers = [], []
        total = 0
        for i, entry in enumerate(pool.children):
            with ErrorPlace(partial(self.where, [i, "ranks"])):
                spans = idset.ranges(str(entry.ranks))
            total += count_of(spans)
            if total > len(ranks):
                self.fail([i, "ranks"], f"topologies of more ranks than R_lite has ({len(ranks)})")
            found.append(members(spans))
            numbers.append(np.full(count_of(spans), i))
        every = np.concatenate([NO_IDS, *found])
        order = np.argsort(every, kind="stable")
        if len(np.unique(every)) != len(ranks):
            self.fail([], f"topologies of {len(np.unique(every))} ranks, but R_lite has {len(ranks)}", "each rank needs one")
        # The ranks may be those of the parent instance, in the same order; nothing else identifies the nodes.
        self.entry = np.concatenate([NO_IDS, *numbers])[order]

    def where(self, path: Sequence[Key]) -> str:
        return json_typed.where(self._source, ["scheduling", "children", *path])

    def fail(self, path: Sequence[Key], message: str, hint: str = "") -> NoReturn:
        raise InputError(message, where=self.where(path), hint=hint)

    def add_to(self, rows: BlockRows, kinds: KindTable, entry: int, children: Mapping[str, Int64]) -> None:
        """Add the content of a node with the topology of an entry and these children in R_lite."""
        node = _NodeRows(rows, kinds, children, self.where, self.fail)
        node.add(0, self._pool.children[entry].topo, [entry, "topo"], 0)
        for type_, ids in children.items():
            if node.left[type_].any():
                rows.add(0, kinds.intern(Kind(type_, type_)), ids[node.left[type_]])


class _NodeRows:
    """Collects the rows of one node."""

    def __init__(
        self,
        rows: BlockRows,
        kinds: KindTable,
        children: Mapping[str, Int64],
        where: Callable[[Sequence[Key]], str],
        fail: Fail,
    ) -> None:
        self._rows, self._kinds, self._children, self._where, self._fail = rows, kinds, children, where, fail
        #: by type, which of its ids are in no domain so far
        self.left = {type_: np.ones(len(ids), np.bool_) for type_, ids in children.items()}
        self._numbers: dict[str, int] = {}
        self._domains = 0

    def add(self, parent: int, domain: Mapping[str, Any], path: list[Key], level: int) -> None:
        self._domains += 1
        if level > limits.DEPTH_MAX - 4 or self._domains > DOMAINS_MAX:
            raise LimitExceeded(f"more than {DOMAINS_MAX} domains, or {limits.DEPTH_MAX} levels of them", where=self._where(path))
        for key, value in domain.items():
            place = [*path, key]
            if key in RESOURCES:
                type_ = RESOURCES[key]
                self._rows.add(parent, self._kinds.intern(Kind(type_, type_)), self._taken(value, place, type_))
            elif key == "memory":
                if type(value) is not int or not 1 <= value <= limits.SIZE_MAX:
                    self._fail(place, f"expected GiB, a whole number of at least 1, got {shown(value)}")
                self._rows.add(parent, self._kinds.intern(Kind("memory", "memory", MEMORY_UNIT)), np.array([-1]), value)
            elif key == "storage":
                if level:
                    self._fail(place, "storage belongs to a node, not to a domain in it")
                self._add_storage(value, place)
            else:
                self._add_domains(parent, key, value, place, level)

    def _add_domains(self, parent: int, key: str, value: Any, path: list[Key], level: int) -> None:
        if not key or len(key) > limits.NAME_LENGTH_MAX or "/" in key or not key.isprintable():
            self._fail(path, f"{shown(key)} is not a valid pool type")
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            hint = f"the resources are {', '.join(RESOURCES)}, memory and storage"
            self._fail(path, f"expected a list of domains named {key!r}, got {shown(value)}", hint)
        kind = self._kinds.intern(Kind(key, key))
        for i, domain in enumerate(value):
            number = self._numbers[key] = self._numbers.get(key, -1) + 1
            if self._has_something(domain):
                row = self._rows.add(parent, kind, np.array([number]))
                self.add(row, domain, [*path, i], level + 1)
                self._rows.close(row)

    def _has_something(self, domain: Mapping[str, Any]) -> bool:
        """Whether R_lite has one of the ids in a domain, or the domain lists none."""
        is_named = False
        todo: list[Mapping[str, Any]] = [domain]
        while todo:
            for key, value in todo.pop().items():
                if key in RESOURCES:
                    is_named = True
                    ids = self._children.get(RESOURCES[key], NO_IDS)
                    if len(positions(_spans(value), ids)):
                        return True
                elif isinstance(value, list) and key != "storage":
                    todo += [each for each in value if isinstance(each, dict)]
        return not is_named

    def _taken(self, value: Any, path: list[Key], type_: str) -> Int64:
        """The ids of an idset that R_lite has, which must not be in another domain."""
        if not isinstance(value, str) and type(value) is not int:
            self._fail(path, f"expected an idset, got {shown(value)}")
        with ErrorPlace(partial(self._where, path)):
            spans = idset.ranges(str(value))
        ids = self._children.get(type_, NO_IDS)
        at = positions(spans, ids)
        if len(at):
            if not self.left[type_][at].all():
                self._fail(path, f"{type_} {ids[at][~self.left[type_][at]][0]} is in two domains")
            self.left[type_][at] = False
        taken: Int64 = ids[at]
        return taken

    def _add_storage(self, value: Any, path: list[Key]) -> None:
        if not isinstance(value, list):
            self._fail(path, f"expected a list, got {shown(value)}")
        for i, each in enumerate(value):
            try:
                storage = msgspec.convert(each, Storage)
            except msgspec.ValidationError as error:
                self._fail([*path, i], str(error), "storage has a path, a capacity and optionally a unit")
            kind = Kind("storage", "storage", storage.unit, None, (("path", storage.path),))
            self._rows.add(0, self._kinds.intern(kind), np.array([i]), storage.capacity)


def _spans(value: Any) -> Spans:
    try:
        return idset.ranges(str(value))
    except InputError:
        return []  # an error is reported with its place when the domain is read


_OTHER_RANKS: Final = "its ranks are not those of R, and nodes cannot be matched by host"


class Lite:
    """The execution section: ranks in ascending order, and the content of each.

    Attributes:
        ranks: int64, ascending.
        entry: number of the entry of each rank.
        children: by entry, ids by type.
        hosts: of the ranks, in order.
        is_named: whether R gives the hosts.
        passed_over: keys that are ignored.
        notes: what is read differently than Flux means it.
    """

    def __init__(self, source: Source, execution: Execution) -> None:
        self._source, self._execution = source, execution
        self.passed_over: list[str] = []
        self.notes: tuple[str, ...] = ()
        ranks, self._found = self._entries()
        self.children = [{type_: members(spans) for type_, spans in have.items()} for have in self._found]
        every = np.concatenate([NO_IDS, *ranks])
        entries = np.repeat(np.arange(len(ranks)), [len(members) for members in ranks])
        order = np.argsort(every, kind="stable")
        self.ranks, self.entry = every[order], entries[order]
        path: list[Key] = ["execution", "R_lite"]
        if len(self.ranks) and self.ranks[-1] >= 2**31:
            self.fail([*path, int(self.entry[-1]), "rank"], f"rank {self.ranks[-1]}, at most {2**31 - 1}", limit=True)
        self._place: Sequence[int] = range(len(self.children))
        self._join()
        self.is_named = True
        self.hosts = self._hosts()

    @property
    def file(self) -> str:
        return self._source.file

    def fail(self, path: Sequence[Key], message: str, *, hint: str = "", limit: bool = False) -> NoReturn:
        raise (LimitExceeded if limit else InputError)(message, where=json_typed.where(self._source, path), hint=hint)

    def _entries(self) -> tuple[list[Int64], list[dict[str, Spans]]]:
        """The ranks of each entry, and ranges of ids by type."""
        path: list[Key] = ["execution", "R_lite"]
        ranks: list[Int64] = []
        total = pools = 0
        found: list[dict[str, Spans]] = []
        for i, entry in enumerate(self._execution.R_lite):
            spans = self._spans(entry.rank, [*path, i, "rank"])
            total += count_of(spans)
            if total > limits.RANKS_MAX:
                self.fail([*path, i, "rank"], f"more than {limits.RANKS_MAX} ranks", limit=True)
            here = max(count_of(spans), 1)
            ranks.append(members(spans))
            found.append({})
            for type_, ids in entry.children.items():
                place = [*path, i, "children", type_]
                if "/" in type_ or not type_.isprintable():
                    self.fail(place, f"{type_!r} is not a valid pool type")
                spans = self._spans(ids, place)
                if count_of(spans) > limits.IDSET_COUNT_MAX:
                    self.fail(place, f"more than {limits.IDSET_COUNT_MAX} ids", limit=True)
                pools += here * count_of(spans)
                if pools > limits.POOLS_MAX:
                    self.fail(place, f"more than {limits.POOLS_MAX} pools in all", limit=True)
                found[-1][type_] = spans
        return ranks, found

    def _spans(self, text: str | int, path: Sequence[Key]) -> Spans:
        with ErrorPlace(partial(json_typed.where, self._source, path)):
            return idset.ranges(str(text))

    def _join(self) -> None:
        """Combine the entries of a rank that has several."""
        again = self.ranks[1:] == self.ranks[:-1]
        if not again.any():
            return
        joint: dict[tuple[int, ...], int] = {}
        first = np.flatnonzero(np.concatenate([[True], ~again]))
        stop = np.append(first[1:], len(self.ranks))
        entry = self.entry[first]
        place = list(range(len(self.children)))
        for at in np.flatnonzero(stop - first > 1).tolist():
            several = tuple(sorted(set(self.entry[first[at] : stop[at]].tolist())))
            if several not in joint:
                joint[several] = len(self.children)
                place.append(several[0])
                types = dict.fromkeys(type_ for i in several for type_ in self.children[i])
                self.children.append({
                    type_: np.unique(np.concatenate([self.children[i].get(type_, NO_IDS) for i in several])) for type_ in types
                })  # fmt: skip
            entry[at] = joint[several]
        self.ranks, self.entry, self._place = self.ranks[first], entry, place

    # -- hosts -----------------------------------------------------------------------------------------------------------

    def _hosts(self) -> list[Expression]:
        by_entry = self._hosts_by_entry()
        if self._execution.nodelist is UNSET:
            self.is_named = by_entry is not None
            if not self.is_named and len(self.ranks):
                self.notes = (f"{self.file}: there is no nodelist, so nodes are named after their ranks",)
            names = f"node[{idset.format(self.ranks.tolist())}]" if len(self.ranks) else ""
            found = self._expressions(names if by_entry is None else hostlist.format(by_entry), ["execution", "R_lite"])
        else:
            path: list[Key] = ["execution", "nodelist"]
            found = [one for i, text in enumerate(self._execution.nodelist) for one in self._expressions(text, [*path, i])]
            count = sum(map(len, found))
            if count != len(self.ranks):
                hint = "one host for each rank, in ascending order"
                self.fail(path, f"{count} hosts for {len(self.ranks)} ranks", hint=hint)
        if self._says_nodes and by_entry != [host for expression in found for host in expression]:
            self.passed_over.append("execution.R_lite.node")
        return found

    @property
    def _says_nodes(self) -> bool:
        return any(entry.node is not UNSET for entry in self._execution.R_lite)

    def _hosts_by_entry(self) -> list[str] | None:
        """The hosts given by entries of an older form; None if they do not give one for each rank."""
        if not self._says_nodes:
            return None
        found: dict[int, str] = {}
        for i, entry in enumerate(self._execution.R_lite):
            ranks = members(self._spans(entry.rank, ["execution", "R_lite", i, "rank"])).tolist()
            expressions = self._expressions(entry.node, ["execution", "R_lite", i, "node"]) if isinstance(entry.node, str) else []
            if sum(map(len, expressions)) != len(ranks):
                return None
            found.update(zip(ranks, [host for expression in expressions for host in expression], strict=True))
        return [found[rank] for rank in self.ranks.tolist()]

    def _expressions(self, text: str, path: Sequence[Key]) -> list[Expression]:
        with ErrorPlace(partial(json_typed.where, self._source, path)):
            found = hostlist.expressions(text)
            require_path_steps(found)
        return found

    # -- as a machine ----------------------------------------------------------------------------------------------------

    def structure(self, origin: int, topologies: Topologies | None) -> Structure:
        kinds = KindTable()
        node = kinds.intern(Kind("node", "node"))
        known: dict[tuple[int, int], Block] = {}
        blocks: list[tuple[Block, int]] = []
        topology = np.zeros(len(self.ranks), np.int64) if topologies is None else topologies.entry
        changes = (np.diff(self.entry) != 0) | (np.diff(topology) != 0)
        first = np.concatenate([[0], np.flatnonzero(changes) + 1])[: len(self.ranks)]
        for at, count in zip(first.tolist(), np.diff(first, append=len(self.ranks)).tolist(), strict=True):
            key = int(self.entry[at]), int(topology[at])
            if key not in known:
                rows = BlockRows(kinds, node)
                if topologies is None:
                    for type_, ids in self.children[key[0]].items():
                        rows.add(0, kinds.intern(Kind(type_, type_)), ids)
                else:
                    topologies.add_to(rows, kinds, key[1], self.children[key[0]])
                try:
                    known[key] = rows.block()
                except InputError as error:
                    self.fail(["execution", "R_lite", self._place[key[0]]], error.message)
            blocks.append((known[key], count))
        try:
            structure, nodes = fill(blocks, self.ranks, kinds, origin)
        except FluxresError as error:
            raise type(error)(error.message, where=json_typed.where(self._source, ["execution", "R_lite"])) from None
        if len(nodes):
            properties = properties_by_node(self._source, self._properties(), self.ranks)
            hosts_of(self.hosts, self.ranks).describe(structure, nodes, *properties)
        return structure

    def _properties(self) -> Mapping[str, str]:
        return {} if self._execution.properties is UNSET else self._execution.properties

    @cached_property
    def names(self) -> list[str]:
        return [host for expression in self.hosts for host in expression]

    @cached_property
    def has_own_hosts(self) -> bool:
        """Whether R names a different host for each rank."""
        return self.is_named and len(set(self.names)) == len(self.names)

    # -- beside a graph --------------------------------------------------------------------------------------------------

    def nodes_in(self, structure: Structure, hidden: Container[str] = ()) -> Int64:
        """The nodes of a graph that R carries, one for each rank; -1 for a host that the graph does not have.

        Ranks in a graph are those of the instance that made it, so nodes are found by name, or by rank if several nodes have the
        same name.

        Args:
            hidden: hosts that the graph leaves out. A node with such a name is another one, unless it has the rank.

        Errors: InputError if neither identifies the node.
        """
        ranks, tops = structure.execution_targets
        inside = (tops < structure.tree_end) & structure.offers[tops]
        ranks, tops = ranks[inside], tops[inside]
        at = np.minimum(np.searchsorted(ranks, self.ranks), max(len(ranks) - 1, 0))
        by_rank = np.where(ranks[at] == self.ranks, tops[at], -1).astype(np.int64) if len(ranks) else np.full(len(self.ranks), -1)
        if not self.has_own_hosts:
            if not np.array_equal(ranks, self.ranks[by_rank >= 0]) and not self._has_hosts(structure, by_rank):
                self.fail(["scheduling", "graph"], _OTHER_RANKS)
            return by_rank
        names = self.names
        found = self._by_host(structure, names, tops)
        for i, name in enumerate(names):
            called = found.get(name, [])
            if name in hidden and by_rank[i] not in called:
                called.clear()
            elif len(called) > 1 and by_rank[i] not in called:
                self.fail(["scheduling", "graph"], f"{len(called)} nodes are named '{name}', which is one host in R")
        several = (found.get(name, []) for name in names)
        one_each = [
            called[0] if len(called) == 1 else rank if rank in called else -1
            for called, rank in zip(several, by_rank.tolist(), strict=True)
        ]
        return np.array(one_each, np.int64)

    def _has_hosts(self, structure: Structure, nodes: Int64) -> bool:
        """Whether each of these nodes that exists is the host that R names for its rank."""
        tags = structure.tags
        here = np.flatnonzero(nodes >= 0).tolist()
        called = [{structure.name(v), tags.get(v, {}).get(HOST)} for v in nodes[here].tolist()]
        return self.is_named and all(self.names[at] in names for at, names in zip(here, called, strict=True))

    def _by_host(self, structure: Structure, names: Sequence[str], tops: Int32) -> dict[str, list[int]]:
        targets, wanted, offers = set(tops.tolist()), set(names), structure.offers
        found: dict[str, list[int]] = {}
        for v in structure.named(names):
            if v < structure.tree_end and offers[v] and (structure.kind_of(v).type == "node" or v in targets):
                found.setdefault(structure.name(v), []).append(v)
        for v, tags in structure.tags.items():
            host = tags.get(HOST)
            if host in wanted and host is not None and v in targets and v not in found.get(host, ()):
                found.setdefault(host, []).append(v)
        return found

    def agree(self, structure: Structure) -> tuple[str, ...]:
        """Compare with the graph that R carries, and set the ranks and additional properties of its nodes from R.

        Returns notes of contradictions in the graph.

        Errors: InputError for a node that is missing or has different numbers of pools.
        """
        path: list[Key] = ["scheduling", "graph"]
        nodes = self.nodes_in(structure)
        missing = np.flatnonzero(nodes < 0)
        if len(missing) and self.has_own_hosts:
            self.fail(path, f"0 nodes are named '{self.names[int(missing[0])]}', which is one host in R")
        if len(missing):
            self.fail(path, _OTHER_RANKS)
        notes = self._rank(structure, nodes)
        for type_ in sorted({type_ for children in self.children for type_ in children}):
            pools = structure.of_type(type_)
            pools = pools[(structure.flags[pools] & WAY) == 0]
            if not len(pools) or not len(nodes):
                continue
            counts = np.searchsorted(pools, structure.end[nodes]) - np.searchsorted(pools, nodes)
            expected = np.array([len(children.get(type_, ())) for children in self.children])[self.entry]
            below = counts - np.isin(nodes, pools)  # a target may itself be a core
            differs = np.flatnonzero((counts != expected) & (below != expected))
            if len(differs):
                at = int(differs[0])
                self.fail(path, f"{structure.path(int(nodes[at]))} has {counts[at]} {type_} pools, but {expected[at]} in R_lite")
        self._add_properties(structure, nodes)
        return notes

    def _rank(self, structure: Structure, nodes: Int64) -> tuple[str, ...]:
        """Give nodes and everything in them the ranks of R, and take these ranks from all other pools; return notes of removed
        ranks.

        Pools outside these nodes keep other ranks: a job may hold a part of a node, which R does not list. If the ranks of R are
        those of another instance, they have no rank.
        """
        ordered = np.sort(nodes)
        inner = np.flatnonzero(structure.end[ordered[:-1]] > ordered[1:])
        if len(inner):
            outer, node = (structure.path(int(v)) for v in ordered[inner[0] : inner[0] + 2])
            self.fail(["scheduling", "graph"], f"{node} is in {outer}, but both are nodes in R")
        before = structure.rank[nodes]
        beside = np.flatnonzero(~in_slices(nodes, structure.end[nodes], structure.n) & (structure.rank >= 0))
        beside = beside[beside < structure.tree_end]
        if not ((before >= 0) & (before != self.ranks)).any():
            beside = np.setdiff1d(beside, _alone(structure, beside, self.ranks))
        structure.rank[beside] = -1
        for v, rank in zip(nodes.tolist(), self.ranks.tolist(), strict=True):
            structure.rank[v : structure.end.item(v)] = rank
        vars(structure).pop("execution_targets", None)  # pools with the ranks that the node had
        if not len(beside):
            return ()
        what = f"{structure.path(int(beside[0]))} has a rank and is in no node of R; the rank is left out"
        return (f"{self.file}: {what}" + (f" (and {len(beside) - 1} more like it)" if len(beside) > 1 else ""),)

    def _add_properties(self, structure: Structure, nodes: Int64) -> None:
        """Add the properties of R that the nodes of the graph do not have.

        R says `a=b` both for the property `a=b` and for the value b of `a`: if the graph has either, it has what R says.
        """
        sorts, which = properties_by_node(self._source, self._properties(), self.ranks)
        pairs, at = np.unique(np.stack([structure.kind[nodes], which]), axis=1, return_inverse=True)
        kinds = []
        for number, sort in pairs.T.tolist():
            kind = structure.kinds[number]
            known = {key for key, _ in kind.properties}
            said = {property_text(*pair) for pair in kind.properties} - {None}
            more = [pair for pair in sorts[sort] if pair[0] not in known and property_text(*pair) not in said]
            described = msgspec.structs.replace(kind, properties=properties_tuple([*kind.properties, *more]))
            kinds.append(structure.kinds.intern(described))
        structure.kind[nodes] = np.array(kinds, np.int32)[at.reshape(-1)]


def _alone(structure: Structure, pools: Int64, taken: Int64) -> Int64:
    """Which of these pools are subtrees of one rank that no other pool has."""
    rank, end = structure.rank, structure.end
    above = structure.parent[pools]
    tops = pools[(above < 0) | (rank[above] != rank[pools])]
    different, count = np.unique(rank[tops], return_counts=True)
    free = np.setdiff1d(different[count == 1], taken)
    kept = [np.arange(v, end[v]) for v in tops[np.isin(rank[tops], free)].tolist() if (rank[v : end[v]] == rank[v]).all()]
    return np.concatenate([NO_IDS, *kept])

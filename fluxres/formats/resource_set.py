"""R, the resource set of Flux, version 1 (RFC 20): as a machine of its nodes, with the graph or the topologies it carries.

Without `scheduling` a node has its cores and gpus below it.  With Fluxion's graph (RFC 40) that graph is the machine, and what R
says beside it must be the same.  With TreePool's topologies (RFC 49) cores and gpus stand in sockets and NUMA domains.  What R
says of a job and not of a machine (times, slots, what other schedulers keep in it) becomes tags of the root, from which R is
written again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.formats import jgf, json_typed
from fluxres.formats.jgf_schema import RawJgf
from fluxres.formats.jgf_structure import build
from fluxres.formats.loaded import Loaded
from fluxres.formats.rank_blocks import Block, BlockRows, fill
from fluxres.formats.rank_hosts import HOST, hosts_of, require_path_steps
from fluxres.formats.rank_properties import properties_by_node
from fluxres.formats.resource_set_schema import Execution, RawResourceSet, ResourceSet, TreePool, WithGraph, WithTopology
from fluxres.formats.source import Source
from fluxres.formats.treepool import Topologies
from fluxres.formats.yaml_document import Key
from fluxres.graph import uuids
from fluxres.graph.kinds import Kind, KindTable
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, idset
from fluxres.syntax.hostlist import Expression

NSLOTS: Final = "R.nslots"
STARTTIME: Final = "R.starttime"
EXPIRATION: Final = "R.expiration"
SCHEDULING: Final = "R.scheduling"
ATTRIBUTES: Final = "R.attributes"
TAGS: Final = (NSLOTS, STARTTIME, EXPIRATION, SCHEDULING, ATTRIBUTES)
"""Tags of the root in which R keeps what is no machine."""


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of a resource set.

    Errors: InputError ``FILE:line:column: path``; LimitExceeded.
    Cost: O(pools) array writes, O(entries + hosts without a rule) Python; that of :mod:`~fluxres.formats.jgf` with a graph.
    Source: RFC 20, 40, 49.

    >>> lite = '[{"rank": "0-1", "children": {"core": "0-3"}}]'
    >>> text = f'{{"version": 1, "execution": {{"R_lite": {lite}, "nodelist": ["n[08-09]"]}}}}'
    >>> [read(Source(text.encode())).structure.path(v) for v in (0, 6, 10)]
    ['/cluster0', '/cluster0/n09', '/cluster0/n09/core3']
    """
    document = json_typed.decode(source, RawResourceSet, whole=ResourceSet)
    execution = json_typed.decode(source, Execution, part=document.execution, whole=ResourceSet)
    keys = 2 + sum(part is not UNSET for part in (document.scheduling, document.attributes))
    keys += _keys(source, document.execution) + _keys(source, document.attributes)
    lite = Lite(source, execution)
    tags = _tags(source, execution)
    if document.attributes is not UNSET:
        tags[ATTRIBUTES] = _kept(source, document.attributes, "attributes")
    form = _form(source, document.scheduling)
    if form == "graph" and document.scheduling is not UNSET:
        graph = json_typed.decode(source, RawJgf, part=document.scheduling, whole=WithGraph)
        if graph.writer is not UNSET:
            jgf.require_known_writer(source, graph.writer, ["scheduling", "writer"])
        made = build(source, graph.graph, WithGraph, ("scheduling", "graph"), origin)
        keys += made.keys + 1 + (graph.writer is not UNSET) + (graph.free_ranks is not UNSET)
        structure = made.structure
        lite.agree(structure)
        if graph.free_ranks is not UNSET:
            tags[jgf.FREE_RANKS] = graph.free_ranks
    else:
        topologies = None
        if form == "topology" and document.scheduling is not UNSET:
            pool = json_typed.decode(source, TreePool, part=document.scheduling, whole=WithTopology)
            topologies = Topologies(source, pool, lite.ranks)
        elif document.scheduling is not UNSET:
            tags[SCHEDULING] = _kept(source, document.scheduling, "scheduling")
        keys += _keys(source, document.scheduling)
        structure = lite.structure(uuids.new_origin() if origin is None else origin, topologies)
    json_typed.require_unique_keys(source, keys)
    for key, value in tags.items():
        structure.set_tag([0], key, value)
    return Loaded(structure, [], structure.name(0))


def _values(source: Source, part: msgspec.Raw) -> Any:
    return json_typed.decode(source, Any, part=part, whole=ResourceSet)


def _keys(source: Source, part: msgspec.Raw | UnsetType) -> int:
    return 0 if part is UNSET else json_typed.keys_in(_values(source, part), source.file)


def _form(source: Source, scheduling: Any) -> str:
    """What `scheduling` holds: a graph, topologies, or nothing that is known here."""
    if scheduling is UNSET:
        return "none"
    if bytes(memoryview(scheduling)[:1]) != b"{":
        return "other"
    values = json_typed.decode(source, dict[str, msgspec.Raw], part=scheduling, whole=ResourceSet)
    writer = values.get("writer", msgspec.Raw(b'""'))
    if bytes(writer) == b'"TreePool"':
        return "topology"
    return "graph" if "graph" in values else "other"


def _kept(source: Source, part: msgspec.Raw, key: str) -> str:
    text = msgspec.json.encode(_values(source, part)).decode()
    if len(text) > limits.VALUE_LENGTH_MAX:
        message = f"{len(text)} characters that are kept as they are, at most {limits.VALUE_LENGTH_MAX}"
        raise LimitExceeded(message, where=json_typed.where(source, [key]))
    return text


def _tags(source: Source, execution: Execution) -> dict[str, str | None]:
    start, end = (0.0 if time is UNSET else time for time in (execution.starttime, execution.expiration))
    tags: dict[str, str | None] = {key: repr(time) for key, time in ((STARTTIME, start), (EXPIRATION, end)) if time}
    if 0 < end <= start:
        message = f"the expiration {end!r} is not after the starttime {start!r}"
        raise InputError(message, where=json_typed.where(source, ["execution", "expiration"]), hint="0 is unset")
    if execution.nslots is not UNSET:
        tags[NSLOTS] = str(execution.nslots)
    return tags


class Lite:
    """The execution section: ranks in ascending order, and what each has.

    Attributes:
        ranks: int64, ascending.
        entry: number of the entry of each rank.
        children: by entry, ids by type.
    """

    def __init__(self, source: Source, execution: Execution) -> None:
        self._source, self._execution = source, execution
        path: list[Key] = ["execution", "R_lite"]
        ranks, entries = [], []
        total = pools = 0
        found: list[dict[str, list[tuple[int, int]]]] = []
        for i, entry in enumerate(execution.R_lite):
            spans = self._spans(entry.rank, [*path, i, "rank"])
            total += sum(last - first + 1 for first, last in spans)
            if total > limits.RANKS_MAX:
                self._fail([*path, i, "rank"], f"more than {limits.RANKS_MAX} ranks", limit=True)
            here = max(sum(last - first + 1 for first, last in spans), 1)
            ranks.append(_members(spans))
            entries.append(np.full(len(ranks[-1]), i, np.int64))
            found.append({})
            for type_, ids in entry.children.items():
                place = [*path, i, "children", type_]
                if "/" in type_ or not type_.isprintable():
                    self._fail(place, f"{type_!r} is no type of a pool")
                spans = self._spans(ids, place)
                if sum(last - first + 1 for first, last in spans) > limits.IDSET_COUNT_MAX:
                    self._fail(place, f"more than {limits.IDSET_COUNT_MAX} ids", limit=True)
                pools += here * sum(last - first + 1 for first, last in spans)
                if pools > limits.POOLS_MAX:
                    self._fail(place, f"more than {limits.POOLS_MAX} pools in all", limit=True)
                found[-1][type_] = spans
        self.children = [{type_: _members(spans) for type_, spans in have.items()} for have in found]
        every = np.concatenate(ranks)
        order = np.argsort(every, kind="stable")
        self.ranks, self.entry = every[order], np.concatenate(entries)[order]
        if len(self.ranks) and self.ranks[-1] >= 2**31:
            self._fail([*path, int(self.entry[-1]), "rank"], f"rank {self.ranks[-1]}, at most {2**31 - 1}", limit=True)
        twice = np.flatnonzero(self.ranks[1:] == self.ranks[:-1])
        if len(twice):
            at = int(twice[0]) + 1
            self._fail([*path, int(self.entry[at]), "rank"], f"rank {self.ranks[at]} stands in two entries", hint="join them")
        if not len(self.ranks):
            self._fail(path, "expected at least one rank, got none")
        self.hosts = self._hosts()

    def _fail(self, path: Sequence[Key], message: str, *, hint: str = "", limit: bool = False) -> Any:
        raise (LimitExceeded if limit else InputError)(message, where=json_typed.where(self._source, path), hint=hint)

    def _spans(self, text: str | int, path: Sequence[Key]) -> list[tuple[int, int]]:
        try:
            return idset.ranges(str(text))
        except InputError as error:
            raise type(error)(error.message, where=json_typed.where(self._source, path), hint=error.hint) from None

    def _hosts(self) -> list[Expression]:
        path: list[Key] = ["execution", "nodelist"]
        found: list[Expression] = []
        for i, text in enumerate(self._execution.nodelist):
            try:
                more = hostlist.expressions(text)
                require_path_steps(more)
                found += more
            except InputError as error:
                raise type(error)(error.message, where=json_typed.where(self._source, [*path, i]), hint=error.hint) from None
        count = sum(map(len, found))
        if count != len(self.ranks):
            self._fail(path, f"{count} hosts for {len(self.ranks)} ranks", hint="one host for each rank, in ascending order")
        return found

    def structure(self, origin: int, topologies: Topologies | None) -> Structure:
        """A cluster of the nodes, each with what it has."""
        kinds = KindTable()
        node = kinds.intern(Kind("node", "node"))
        known: dict[tuple[int, int], Block] = {}
        blocks: list[tuple[Block, int]] = []
        topology = np.zeros(len(self.ranks), np.int64) if topologies is None else topologies.entry
        changes = (np.diff(self.entry) != 0) | (np.diff(topology) != 0)
        first = np.concatenate([[0], np.flatnonzero(changes) + 1])
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
                    self._fail(["execution", "R_lite", key[0]], error.message)
            blocks.append((known[key], count))
        try:
            structure, nodes = fill(blocks, self.ranks, kinds, origin)
        except FluxresError as error:
            raise type(error)(error.message, where=json_typed.where(self._source, ["execution", "R_lite"])) from None
        self._name(structure, nodes)
        return structure

    def _name(self, structure: Structure, nodes: NDArray[np.int32]) -> None:
        hosts = hosts_of(self.hosts, self.ranks)
        structure.id[nodes] = hosts.ids
        for at, name in hosts.names.items():
            structure.names[int(nodes[at])] = name
        for at, host in hosts.shared.items():
            structure.set_tag([int(nodes[at])], HOST, host)
        sorts, which = properties_by_node(self._source, self._given_properties(), self.ranks)
        numbers = [structure.kinds.intern(Kind("node", "node", None, hosts.template, pairs)) for pairs in sorts]
        structure.kind[nodes] = np.array(numbers, np.int32)[which]

    def _given_properties(self) -> Mapping[str, str]:
        return {} if self._execution.properties is UNSET else self._execution.properties

    def agree(self, structure: Structure) -> None:
        """Compare with the graph that R carries, and give its nodes the ranks that they have here.

        Ranks of a graph are those of the instance that made it, so its nodes are found by name.
        """
        path: list[Key] = ["scheduling", "graph"]
        names = [host for expression in self.hosts for host in expression]
        if len(set(names)) == len(names):
            found: dict[str, list[int]] = {}
            for v in structure.named(names):
                if v < structure.tree_end and structure.kind_of(v).type == "node":
                    found.setdefault(structure.name(v), []).append(v)
            for name in names:
                if len(found.get(name, ())) != 1:
                    self._fail(path, f"{len(found.get(name, ()))} nodes are called '{name}', which R has as one host")
            nodes = np.array([found[name][0] for name in names], np.int64)
        else:
            ranks, tops = structure.execution_targets
            if not np.array_equal(ranks, self.ranks):
                self._fail(path, "its ranks are not those of R, and hosts do not tell which is which")
            nodes = tops.astype(np.int64)
        for v, rank in zip(nodes.tolist(), self.ranks.tolist(), strict=True):
            structure.rank[v : structure.end.item(v)] = rank
        for type_ in sorted({type_ for children in self.children for type_ in children}):
            pools = structure.of_type(type_)
            if not len(pools):
                continue
            counts = np.searchsorted(pools, structure.end[nodes]) - np.searchsorted(pools, nodes)
            expected = np.array([len(children.get(type_, ())) for children in self.children])[self.entry]
            differs = np.flatnonzero(counts != expected)
            if len(differs):
                at = int(differs[0])
                self._fail(path, f"{structure.path(int(nodes[at]))} has {counts[at]} {type_} pools, and {expected[at]} in R_lite")


def _members(spans: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    if not spans:
        return np.zeros(0, np.int64)
    return np.concatenate([np.arange(first, last + 1, dtype=np.int64) for first, last in spans])

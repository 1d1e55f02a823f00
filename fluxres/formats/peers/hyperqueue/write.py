"""Write HyperQueue's workers: one ``hq worker start`` command line per node, or the JSON of its workers.

Cores become ``cpus`` and GPUs ``gpus``; pools with several parents in a node become groups; a single pool with a size becomes a
sum. HyperQueue groups the CPUs it finds by NUMA node, so the groups are NUMA domains (pools that contain memory) or sockets if
the machine has those, and not the caches within them. On any other machine the innermost level makes the groups. Pools in the
same groups as the cores are coupled with them, which is how HyperQueue expresses that they are close.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import orjson

from fluxres.arrays import Int64
from fluxres.formats.format import Fact, Hold, Output
from fluxres.formats.peers.hyperqueue import coupling as hyperqueue_coupling
from fluxres.formats.peers.hyperqueue import definitions as hyperqueue
from fluxres.formats.peers.hyperqueue.command_lines import Started
from fluxres.formats.peers.hyperqueue.coupling import Coupling
from fluxres.formats.peers.hyperqueue.definitions import Groups, Labels, Listed, Pool, Range, Sum
from fluxres.formats.peers.hyperqueue.read import GROUP
from fluxres.formats.peers.hyperqueue.tokens import U32_MAX
from fluxres.formats.peers.inventory import Inventory, Share
from fluxres.graph.groups import GRAPH, RELATION, WEIGHT, nearest
from fluxres.graph.structure import Structure
from fluxres.syntax.variants import CPUS, FRACTION_UNIT, PER_UNIT

CARRIES: Final[frozenset[Fact]] = frozenset({"names", "ids", "sizes", "units"})
_CARRIES_GRAPH: Final[frozenset[Fact]] = CARRIES | frozenset({"graphs"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9/]*")


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None, json: bool = False) -> Output:
    """The nodes of a machine as workers.

    Args:
        json: write what ``hq worker list --output-mode json`` prints instead of command lines.

    Cost: O(pools) array operations, O(hosts × types + labels outside ranges) Python.

    >>> from fluxres.formats.peers.hyperqueue.read import read
    >>> from fluxres.documents.source import Source
    >>> write(read(Source(b"cpus=2x4\\ngpus=[a]\\n")).structure).data
    b"hq worker start --hostname node0 --cpus 2x4 --resource 'gpus=[a]'\\n"
    """
    made = _Workers(Inventory(structure, marks=frozenset({GROUP})))
    workers = [made.worker(number) for number in range(len(made.inventory.hosts))]
    if json:
        data = (
            orjson.dumps([_plain(number, worker) for number, worker in enumerate(workers, 1)], option=orjson.OPT_INDENT_2) + b"\n"
        )
    else:
        data = "".join(map(_line, workers)).encode()
    return Output(data, made.left_out(allocations))


def clean(word: str) -> str:
    """A valid resource name: letters, digits and ``/``, which replaces the underscore of a type.

    >>> clean("gpus_amd"), clean("a-b"), clean("1x")
    ('gpus/amd', 'a/b', 'x1x')
    """
    made = re.sub(r"[^A-Za-z0-9]", "/", word)
    return made if _NAME.fullmatch(made) else f"x{made}"


class _Workers:
    """Makes workers from hosts, and records what could not be expressed."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory, self.structure = inventory, inventory.structure
        self.words, self.renamed = inventory.words(clean)
        self.merged: list[str] = []
        self.edges = _Edges(self.structure)
        #: by written vertex, the pool that is its group, or its host
        self.above = self._above()
        written = inventory.written
        #: whether each group is the parent of its content
        self.is_plain = bool((self.above[written] == self.structure.parent[written]).all())
        #: by type of the content of several groups, the types of the pools that are these groups
        self.grouped: dict[str, dict[str, None]] = {}

    def worker(self, number: int) -> Started:
        inventory, v = self.inventory, int(self.inventory.hosts[number])
        group = inventory.properties(v).get(GROUP)
        made = Started(name=inventory.label(v), group=group if isinstance(group, str) else None)
        stands: dict[int, list[tuple[int, int]]] = {}
        shares = [self._in_groups(share, v) for share in inventory.shares[number]]
        grouped = [(share, [] if inventory.is_sum(share) else share.groups()) for share in shares]
        placed = [(share, groups, [self._group_of(share, group) for group in groups]) for share, groups in grouped]
        of_cpus = [parents for share, _, parents in placed if self.words[share.type] == CPUS and len(parents) > 1]
        sockets = of_cpus[0] if of_cpus else None
        # Pools in the groups of the cpus follow them, as they will when this is read.
        placed.sort(key=lambda each: (self.words[each[0].type] != CPUS, each[2] != sockets))
        for share, groups, parents in placed:
            if not groups:
                made.pools.append(Pool(self.words[share.type], self._sum(share)))
                continue
            at = len(made.pools)
            is_beside = at > 0 and parents == sockets
            made.pools.append(Pool(self.words[share.type], self._labels(groups)))
            self._place(share, parents, v, type_name="socket" if is_beside or share.type == "core" else "group")
            if len(groups) > 1:
                for group_number, parent in enumerate(parents):
                    stands.setdefault(parent, []).append((at, group_number))
            if is_beside:
                made.couplings += [Coupling(0, each, at, each) for each in range(len(groups))]
        made.couplings = sorted([*made.couplings, *self.edges.couplings(stands)])
        return made

    def _above(self) -> Int64:
        """By written vertex: the nearest pool above it that is a group, or the host."""
        s = self.structure
        written = np.flatnonzero(self.inventory.written)
        above = np.full(s.n, -1, np.int64)
        above[written] = nearest(s, written, self.inventory.hosts)
        return above

    def _in_groups(self, share: Share, host: int) -> Share:
        """The same for the pools whose groups the vertices are in: their parents, if no group is above any of them."""
        if self.is_plain:
            return share
        above = self.above[share.vertices]
        return share if (above == host).all() else replace(share, above=above)

    def _group_of(self, share: Share, group: Int64) -> int:
        return self.structure.parent.item(int(group[0])) if self.is_plain else int(share.above[share.vertices == group[0]][0])

    def _place(self, share: Share, parents: list[int], host: int, *, type_name: str) -> None:
        """Record the pools that are read back in the same place: directly in the host, or in groups that are read back too."""
        s = self.structure
        if len(parents) == 1:
            self.inventory.moved[share.vertices] |= s.parent[share.vertices] != host
            return
        base = type_name if type_name == "socket" else f"{share.type}-group"
        types = self.grouped.setdefault(share.type, {})
        for number, parent in enumerate(parents):
            kind = s.kind_of(parent)
            types[kind.type] = None
            comes_back = (kind.type, kind.basename, kind.name, s.id.item(parent)) == (type_name, base, None, number)
            if comes_back and parent not in s.names and s.parent.item(parent) == host:
                self.inventory.between[parent] = True
                if not self.is_plain:
                    self.inventory.moved[share.vertices[(share.above == parent) & (s.parent[share.vertices] != parent)]] = True
            else:
                self.inventory.moved[share.vertices[share.above == parent]] = True

    def _levels(self) -> Iterator[str]:
        """Messages about what became groups, and about the levels within the groups."""
        s = self.structure
        for type_name, of in self.grouped.items():
            vertices = np.flatnonzero(self.inventory.written & (s.type == s.types.index(type_name)))
            above = self.above[vertices]
            in_groups = above != self.inventory.hosts[self.inventory.host[vertices]]
            at, above = s.parent[vertices[in_groups]].astype(np.int64), above[in_groups]
            within: dict[str, None] = {}
            while (is_within := at != above).any():
                within |= {s.types[kind]: None for kind in np.unique(s.type[at[is_within]]).tolist()}
                at = np.where(is_within, s.parent[at], at)
            if within or not of.keys() <= {"socket", "group"}:
                inner = f", and not by {', '.join(within)}" if within else ""
                yield f"pools: {self.words[type_name]} are in groups by {', '.join(of)}{inner}"

    def _sum(self, share: Share) -> Sum:
        s, vertices = self.structure, share.vertices
        first = int(vertices[0])
        if len(vertices) > 1:
            host = s.where(int(self.inventory.hosts[self.inventory.host[first]]))
            self.merged.append(f"pools: {len(vertices)} of type {share.type} in {host} are written as one sum")
        is_fraction = all(s.kind_of(v).unit == FRACTION_UNIT for v in vertices.tolist())
        total = sum(s.size[vertices].tolist()) * (1 if is_fraction else PER_UNIT)
        if total % PER_UNIT == 0:  # is read back as whole units
            self.inventory.mark_units(vertices)
            if is_fraction:
                self.inventory.mark("sizes", vertices)
        self.inventory.mark_unlabelled(share)
        return Sum(total)

    def _labels(self, groups: Sequence[Int64]) -> Labels | Groups:
        s, vertices = self.structure, np.concatenate(groups)
        self.inventory.mark("sizes", vertices[s.size[vertices] != 1])
        self.inventory.mark_units(vertices)
        labels = self.inventory.distinct(vertices)
        if isinstance(labels, list) and any('"' in label for label in labels):
            self.inventory.relabelled("names", vertices)
            labels = [label.replace('"', "'") for label in labels]
            labels = labels if len(set(labels)) == len(labels) else range(len(labels))
        if isinstance(labels, range) and labels.stop > U32_MAX:
            labels = list(map(str, labels))
        ends = np.cumsum([len(group) for group in groups]).tolist()
        parts = [labels[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        made = [Range(part[0], part[-1]) if isinstance(part, range) else Listed(tuple(part)) for part in parts]
        return made[0] if len(made) == 1 else hyperqueue.of_groups(made)

    def left_out(self, allocations: Sequence[Hold]) -> list[str]:
        carries = _CARRIES_GRAPH if self.edges.is_all_said else CARRIES
        return self.inventory.left_out(allocations, carries, [*self.renamed, *self._levels(), *self.merged[:1]])


class _Edges:
    """The weights between groups, and whether all of them are written."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._graph = structure.subsystems.get(GRAPH)
        self._said = 0
        self._fits = self._graph is not None and not self._graph.hierarchy and set(self._graph.attributes) == {WEIGHT}

    @property
    def is_all_said(self) -> bool:
        """Whether this is the only auxiliary graph of the machine and every edge of it is written."""
        s, graph = self._structure, self._graph
        return graph is not None and len(s.subsystems) == 1 and s.tree_end == s.n and self._said == len(graph)

    def couplings(self, stands: dict[int, list[tuple[int, int]]]) -> list[Coupling]:
        """The couplings among the groups of one host: (pool, group) by vertex."""
        graph = self._graph
        if graph is None or not self._fits or not stands:
            return []
        found = []
        for v, ends in stands.items():
            for row in graph.out_rows(v).tolist():
                other, weight = stands.get(graph.dst.item(row)), float(graph.attributes[WEIGHT][row])
                if other is None or not (0 <= weight <= 65_535 and weight.is_integer()):
                    continue
                self._said += ends[0] < other[0] and graph.relations[graph.relation.item(row)] == RELATION
                one, two = sorted([ends[0], other[0]])
                found.append(Coupling(*one, *two, int(weight)))
        return list({(each.resource1, each.group1, each.resource2, each.group2): each for each in found}.values())


def _line(worker: Started) -> str:
    words = ["hq", "worker", "start", "--hostname", str(worker.name)]
    words += ["--group", worker.group] if worker.group is not None else []
    for pool in worker.pools:
        if pool.name == CPUS and not isinstance(pool.kind, Sum):
            words += ["--cpus", hyperqueue.format_kind(pool.kind)]
        else:
            words += ["--resource", hyperqueue.format(pool)]
    if worker.couplings:
        words += ["--coupling", hyperqueue_coupling.format(worker.couplings, worker.pools)]
    return f"{shlex.join(words)}\n"


def _plain(number: int, worker: Started) -> dict[str, Any]:
    return {
        "id": number,
        "configuration": {
            "hostname": worker.name,
            "group": worker.group if worker.group is not None else "default",
            "resources": {
                "resources": [hyperqueue.to_plain(pool) for pool in worker.pools],
                "coupling": {"weights": hyperqueue_coupling.to_plain(worker.couplings)},
            },
        },
    }

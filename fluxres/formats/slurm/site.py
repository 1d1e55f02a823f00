"""A Slurm site as a machine: nodes in a cluster, partitions and switches in auxiliary graphs.

Partitions overlap, so no tree of nodes can contain them (specs/decisions/0006-partitions.md). Each is a property of its nodes,
which requests refer to, and a pool of the auxiliary graph ``partitions``, which carries its limits. Switches form the hierarchy
``network`` if each node and switch is below one switch, as in topology.conf, and a plain graph otherwise. A site may have several
networks, each a separate graph (`topology.yaml`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.documents.place import Place
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats.format import Loaded
from fluxres.formats.losses import Notes, listed
from fluxres.formats.slurm.gres import Devices
from fluxres.formats.slurm.nodes import Node, recipes
from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import PropertyValue
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure

PARTITIONS: Final = "partitions"
NETWORK: Final = "network"


@dataclass(slots=True)
class Partition:
    """A partition: a pool outside the tree, with edges to its nodes."""

    name: str
    hosts: list[str]
    state: str = "up"
    settings: dict[str, PropertyValue] = field(default_factory=dict)
    where: str = ""


@dataclass(slots=True)
class Switch:
    """A switch, or a block or ring of nodes: what it connects, and its speed."""

    name: str
    hosts: list[str]
    switches: list[str]
    speed: float | None = None
    type: str = "switch"
    where: str | Place = ""


@dataclass(slots=True)
class Site:
    """The content of all files."""

    file: str
    name: str = "cluster"
    nodes: list[Node] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    networks: dict[str, list[Switch]] = field(default_factory=dict)
    """Switches by the name of their graph."""
    devices: list[Devices] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)

    def loaded(self, origin: int | None) -> Loaded:
        """The machine.

        Errors: InputError for duplicate and unknown names; LimitExceeded. Cost: O(nodes + members of partitions and switches)
        Python, O(pools) array writes.
        """
        if not self.nodes:
            hint = "a configuration has NodeName= lines; topology.conf and gres.conf are read from the directory of slurm.conf"
            raise InputError("describes no node", where=self.file, hint=hint)
        number = _numbers(((node.name, node.where) for node in self.nodes), "node")
        self._join(number)
        places: dict[int, str | Place] = {}
        entries = recipes(self.nodes, self.devices, self.notes)
        first = 0
        for entry in entries:
            _place(entry, self.nodes[first].where, places)
            first += entry.count
        switches = [switch for network in self.networks.values() for switch in network]
        beside = [
            Recipe("partition", name=_literal(each.name), ids=None, rank=-1, state=each.state, properties=each.settings)
            for each in self.partitions
        ]
        beside += [Recipe(each.type, name=_literal(each.name), ids=None, rank=-1) for each in switches]
        wheres = [*(partition.where for partition in self.partitions), *(switch.where for switch in switches)]
        places |= {id(pool): where for pool, where in zip(beside, wheres, strict=True)}
        structure = expand(
            Recipe("cluster", name=_literal(self.name), children=tuple(entries)),
            more=beside,
            origin=uuids.new_origin() if origin is None else origin,
            where=lambda recipe, _key: str(places.get(id(recipe), self.file)),
        )
        self._connect(structure, number)
        return Loaded(structure, [], self.name, self.notes.lines())

    def _join(self, number: Mapping[str, int]) -> None:
        """Set the partitions of each node."""
        _numbers(((partition.name, partition.where) for partition in self.partitions), "partition")
        members = sum(len(partition.hosts) for partition in self.partitions)
        members += sum(len(switch.hosts) for network in self.networks.values() for switch in network)
        if members > limits.SELECTED_MAX:
            raise LimitExceeded(f"{members} members of partitions and switches, at most {limits.SELECTED_MAX}", where=self.file)
        for partition in self.partitions:
            partition.hosts = list(dict.fromkeys(partition.hosts))
            for host in partition.hosts:
                self.nodes[_known(number, host, "node", partition.where)].partitions.append(partition.name)

    def _connect(self, structure: Structure, number: Mapping[str, int]) -> None:
        vertices = structure.of_type("node")
        node = {name: int(vertices[i]) for name, i in number.items()}
        at = structure.tree_end
        if self.partitions:
            edges = [(at + i, node[host]) for i, partition in enumerate(self.partitions) for host in partition.hosts]
            structure.subsystems[PARTITIONS] = _graph(PARTITIONS, edges, "schedules", hierarchy=False)
        at += len(self.partitions)
        for name, switches in self.networks.items():
            self._network(structure, name, switches, node, at)
            at += len(switches)

    def _network(self, structure: Structure, name: str, switches: Sequence[Switch], node: Mapping[str, int], at: int) -> None:
        number = {each: at + i for each, i in _numbers(((s.name, s.where) for s in switches), switches[0].type).items()}
        edges: list[tuple[int, int]] = []
        speeds: list[float] = []
        strangers: dict[str, None] = {}
        for each in switches:
            below = [_known(number, other, "switch", each.where) for other in dict.fromkeys(each.switches)]
            hosts = dict.fromkeys(each.hosts)
            below += [node[host] for host in hosts if host in node]
            strangers |= {host: None for host in hosts if host not in node}
            edges += [(number[each.name], v) for v in below]
            speeds += [np.nan if each.speed is None else each.speed] * len(below)
        if strangers:
            where = next(str(each.where) for each in switches if not strangers.keys().isdisjoint(each.hosts))
            what = f"hosts that are not nodes of this configuration are left out of the network: {listed(list(strangers))}"
            self.notes.add(f"strangers in {name}", where, what)
        graph = _graph(name, edges, "connects", hierarchy=True)
        if any(each.speed is not None for each in switches):
            graph.attributes["capacity"] = np.array(speeds)
        try:
            graph.require_forest()
        except InputError:
            graph.hierarchy = False
        structure.subsystems[name] = graph


def _place(entry: Recipe, where: str, places: dict[int, str | Place]) -> None:
    """The place of an entry and of its content; equal nodes share their content, which has the place of the first one."""
    if places.setdefault(id(entry), where) == where:
        for child in entry.children:
            _place(child, where, places)


def _graph(name: str, edges: Sequence[tuple[int, int]], relation: str, *, hierarchy: bool) -> Subsystem:
    ends: NDArray[np.int32] = np.array(edges, np.int32).reshape(-1, 2)
    return Subsystem(name, hierarchy, ends[:, 0].copy(), ends[:, 1].copy(), relations=[relation])


def _numbers(named: Iterable[tuple[str, str | Place]], what: str) -> dict[str, int]:
    """The numbers of names. Errors: InputError for a duplicate name."""
    found: dict[str, int] = {}
    for name, where in named:
        if name in found:
            raise InputError(f"a second {what} {name!r}", where=str(where), hint="describe each only once")
        found[name] = len(found)
    return found


def _known(number: Mapping[str, int], name: str, what: str, where: str | Place) -> int:
    found = number.get(name)
    if found is None:
        raise InputError(f"there is no {what} {name!r}", where=str(where), hint="check the spelling; names are case-sensitive")
    return found


def _literal(name: str) -> str:
    """A name as a template, in which a dollar sign begins a field."""
    return name.replace("$", "$$")

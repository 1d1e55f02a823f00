"""A Slurm site as a machine: nodes in a cluster, partitions and switches in auxiliary graphs.

Slurm has numbers of boards, sockets, cores and threads of a node, not a tree, and infers the numbers that a configuration leaves
out (`src/common/read_config.c`), so the configuration and the output of sinfo give the same ones. A level is made only if it adds
information: boards if there are several, threads if they are what is scheduled (`CPUs` is then their number).

Partitions overlap, so no tree of nodes can contain them (specs/decisions/0006-partitions.md). Each is a property of its nodes,
which constraints can name, and a pool of the auxiliary graph ``partitions``, which has its limits and binds requests. Switches
form the hierarchy ``network`` if each node and switch is below one switch, as in topology.conf, and a plain graph otherwise. A
site may have several networks, each a separate graph (`topology.yaml`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Final

import numpy as np

from fluxres import limits
from fluxres.arrays import Int32
from fluxres.documents.document import Place, listed
from fluxres.documents.mistakes import Mistakes
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats.format import Loaded
from fluxres.formats.losses import Notes
from fluxres.formats.slurm import gres as slurm_gres
from fluxres.formats.slurm.gres import Devices, Gres
from fluxres.formats.slurm.lines import Line
from fluxres.graph import state_notes, uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import PropertyValue
from fluxres.graph.partitions import PARTITION, PARTITIONS, SCHEDULES
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure

NODE_KEYS: Final = frozenset(
    {
        *("nodename", "nodehostname", "nodeaddr", "bcastaddr", "boards", "corespeccount", "corespersocket", "cpubind", "cpus"),
        *("procs", "cpuspeclist", "features", "feature", "gres", "memspeclimit", "parameters", "port", "realmemory", "reason"),
        *("restrictedcorespergpu", "sockets", "socketsperboard", "state", "threadspercore", "tmpdisk", "topology", "weight"),
        *("extra", "instanceid", "instancetype", "arch", "comment", "owner"),
    }
)
_SPELLED: Final = {
    "boards": "Boards",
    "sockets": "Sockets",
    "socketsperboard": "SocketsPerBoard",
    "cpus": "CPUs",
    "procs": "Procs",
    "corespersocket": "CoresPerSocket",
    "threadspercore": "ThreadsPerCore",
}
#: keys that become properties of the node unchanged
_KEPT: Final = ("weight", "corespeccount", "cpuspeclist", "memspeclimit", "arch", "instancetype")
#: default values, which need not be kept
_DEFAULTS: Final = {"weight": ("0", "1")}
_STATES: Final = {
    # A node in power saving (POWERED_DOWN, `idle~`) is up: Slurm allocates it and wakes it for the job.
    **dict.fromkeys(("down", "error", "fail"), "down"),
    **dict.fromkeys(("drain", "drained", "draining"), "drain"),
    **dict.fromkeys(("failing",), "failing"),
    **dict.fromkeys(("future", "not_responding", "invalid", "invalid_reg"), "unknown"),
}
#: states by precedence, for a node with several
_WORST: Final = ("down", "failing", "drain", "unknown")


@dataclass(frozen=True, slots=True)
class Hardware:
    """The hardware of a node; equal for thousands of nodes."""

    boards: int = 1
    sockets: int = 0
    cores: int = 1
    threads: int = 1
    cpus: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
    gres: tuple[Gres, ...] = ()
    features: tuple[str, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class SiteNode:
    name: str
    hardware: Hardware
    state: str = "up"
    reason: str = ""
    where: str = ""
    partitions: list[str] = field(default_factory=list)


def state_of(words: Iterable[str]) -> str:
    """The pool state for the states that Slurm gives a node: a state that prevents work takes precedence; running or idle is up.

    >>> state_of(["MIXED", "DRAIN"]), state_of(["IDLE*"]), state_of(["IDLE", "CLOUD", "POWERED_DOWN"])
    ('drain', 'unknown', 'up')
    """
    found = set()
    for word in words:
        plain = word.strip().lower()
        if plain.endswith("*"):  # not responding
            found.add("unknown")
        found.add(_STATES.get(plain.rstrip("*~#%$@+^!-"), "up"))
    return next((state for state in _WORST if state in found), "up")


def require_hardware(line: Line, key: str) -> None:
    """Check the value of a key of a `NodeName=` line. Errors: InputError, LimitExceeded with the place."""
    if key in _SPELLED or key in ("realmemory", "tmpdisk"):
        line.count(key, 0)
    elif key == "gres":
        slurm_gres.parse(line.pairs[key], line)


def hardware_of(line: Line, notes: Notes) -> Hardware:
    """The hardware of the nodes of a `NodeName=` line with defaults applied: the numbers that slurmctld derives from it.

    Slurm infers missing numbers, and corrects impossible ones with a line in its log; here that is a note.

    Errors: InputError, LimitExceeded with the place.
    """
    boards, sockets, cores, threads, cpus = _counted(line, notes)
    features = _features(line.pairs.get("features", line.pairs.get("feature", "")))
    line.take("features", len(features))
    return Hardware(
        boards,
        sockets,
        cores,
        threads,
        cpus,
        line.count("realmemory", 0),
        line.count("tmpdisk", 0),
        slurm_gres.parse(line.pairs.get("gres", ""), line),
        features,
        tuple((key, line.pairs[key]) for key in _KEPT if line.pairs.get(key, "") not in ("", *_DEFAULTS.get(key, ()))),
    )


def _counted(line: Line, notes: Notes) -> tuple[int, int, int, int, int]:
    """Boards, sockets, cores per socket, threads per core, and CPUs, by the rules of slurmctld."""

    def positive(key: str) -> int | None:
        number = line.count(key, -1)
        if number == 0:
            notes.add(f"zero {key}", line.where, f"{_SPELLED[key]}=0 is read as 1, as Slurm does")
        return None if number < 0 else max(number, 1)

    cores, threads, boards = positive("corespersocket") or 1, positive("threadspercore") or 1, positive("boards") or 1
    sockets, per_board = positive("sockets"), positive("socketsperboard")
    cpus = positive("cpus") or positive("procs")
    if per_board is not None:
        if sockets not in (None, boards * per_board):
            message = f"Sockets={sockets} is ignored in favour of Boards={boards} and SocketsPerBoard={per_board}, as in Slurm"
            notes.add("sockets", line.where, message)
        sockets = boards * per_board
    if sockets is None:
        # Without any number of sockets there are as many as the CPUs fill, or one per board.
        filled, rest = divmod(cpus or 0, cores * threads)
        sockets = filled if filled and not rest else boards
    if sockets < boards:
        notes.add(
            "boards", line.where, f"Boards={boards} exceeds the number of sockets ({sockets}) and is read as 1, as Slurm does"
        )
        boards = 1
    every = sockets * cores * threads
    if cpus is None:
        cpus = every
    if cpus not in (sockets, sockets * cores, every):
        message = f"CPUs={cpus} is the number of neither sockets ({sockets}) nor cores ({sockets * cores}) nor threads ({every})"
        notes.add("cpus", line.where, f"{message} and is read as {every}, as Slurm does")
        cpus = every
    return boards, sockets, cores, threads, cpus


@lru_cache(maxsize=64)
def _features(text: str) -> tuple[str, ...]:
    """The features in a value; thousands of lines get the same value from their defaults."""
    return tuple(word.strip() for word in text.split(",") if word.strip() and word != "(null)")


def recipes(nodes: Sequence[SiteNode], devices: Sequence[Devices], notes: Notes) -> list[Recipe]:
    """The entries of a machine's nodes: one for each run of nodes that differ only in their name.

    Errors: LimitExceeded for more different nodes than `limits.SLURM_ENTRIES_MAX` allows.
    """
    room = limits.SLURM_ENTRIES_MAX
    near = _near(nodes, devices)
    made: list[Recipe] = []
    inside: dict[tuple[Hardware, tuple[int, ...]], tuple[Recipe, ...]] = {}

    def content(item: tuple[int, SiteNode]) -> tuple[Hardware, tuple[int, ...], str, str, tuple[str, ...]]:
        number, node = item
        return node.hardware, near.get(number, ()), node.state, node.reason, tuple(node.partitions)

    for (hardware, lines, *_), run in groupby(enumerate(nodes), key=content):
        same = [node for _, node in run]
        children = inside.get((hardware, lines))
        if children is None:
            room -= len(hardware.gres) * len(lines)
            _note_levels(hardware, same[0].where, notes)
            children = tuple(contents(hardware, [devices[i] for i in lines], same[0].where, max(room, 0)))
            inside[hardware, lines] = children
            room -= len(children)
        properties = {**dict.fromkeys(hardware.features), **dict(hardware.kept)}
        properties |= dict.fromkeys(f"partition-{name}" for name in same[0].partitions)
        room -= len(properties)
        if room < 0:
            message = f"more than {limits.SLURM_ENTRIES_MAX} properties and generic resources of distinct nodes"
            raise LimitExceeded(message, where=same[0].where, hint="list equal nodes one after the other")
        tags = {state_notes.REASON: same[0].reason} if same[0].reason else {}
        names = [node.name for node in same]
        made.append(
            Recipe("node", len(same), names=names, properties=properties, tags=tags, state=same[0].state, children=children)
        )
    return made


def _near(nodes: Sequence[SiteNode], devices: Sequence[Devices]) -> dict[int, tuple[int, ...]]:
    """By number of a node: the lines of gres.conf that apply to it."""
    everywhere = [i for i, line in enumerate(devices) if line.hosts is None]
    by_host: dict[str, list[int]] = {}
    for i, line in enumerate(devices):
        for host in line.hosts or ():
            by_host.setdefault(host, []).append(i)
    found: dict[int, tuple[int, ...]] = {}
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    for number, node in enumerate(nodes):
        if node.hardware.gres and devices:
            own = tuple(by_host.get(node.name, ()))
            if len(everywhere) + len(own) > limits.GRES_LINES_MAX:
                message = f"{len(everywhere) + len(own)} lines of gres.conf apply to node {node.name!r:.80}"
                hint = f"at most {limits.GRES_LINES_MAX} are allowed; one line may name several files"
                raise LimitExceeded(message, where=node.where, hint=hint)
            # Nodes with the same lines share them, which makes comparing the nodes cheap.
            if own not in known:
                known[own] = tuple(sorted([*everywhere, *own]))
            found[number] = known[own]
    return found


def _note_levels(hardware: Hardware, where: str, notes: Notes) -> None:
    """Note the levels of a node that :func:`contents` leaves out."""
    if hardware.sockets == hardware.cpus and hardware.cores > 1:
        message = f"each socket is one CPU because of CPUs={hardware.cpus}; its {hardware.cores} cores are not listed"
        notes.add("cores", where, message)
    if hardware.sockets % hardware.boards:
        notes.add(
            "levels",
            where,
            f"{hardware.sockets} sockets cannot be divided equally among {hardware.boards} boards, which are left out",
        )


def contents(hardware: Hardware, devices: Sequence[Devices], where: str, most: int) -> list[Recipe]:
    """The content of a node.

    Args:
        most: maximal number of entries of generic resources.

    Errors: LimitExceeded for more cores than any machine has, or more distinct generic resources than `most`.
    """
    made: list[Recipe] = []
    per_socket, sockets = hardware.cores, hardware.sockets
    total = max(sockets, 1) * per_socket * hardware.threads
    if max(total, hardware.cpus) > limits.POOLS_MAX:
        raise LimitExceeded(
            f"{max(total, hardware.cpus)} CPUs in a node, at most {limits.POOLS_MAX} pools are allowed", where=where
        )
    if sockets:
        # If there are no more CPUs than cores, the CPUs are cores, whose threads are not scheduled. If there are no more than
        # sockets, each socket is one CPU.
        threads = hardware.threads if hardware.cpus not in (sockets, sockets * per_socket) else 1
        pus = (Recipe("pu", threads),) if threads > 1 else ()
        core = Recipe("core", 1 if hardware.cpus == sockets else per_socket, children=pus)
        if hardware.boards > 1 and sockets % hardware.boards == 0:
            socket = Recipe("socket", sockets // hardware.boards, children=(core,))
            made.append(Recipe("board", hardware.boards, children=(socket,)))
        else:
            made.append(Recipe("socket", sockets, children=(core,)))
    else:
        made.append(Recipe("core", max(hardware.cpus, 1)))
    # If the memory of a node is not configured, Slurm reports 1 MiB.
    if hardware.memory_mib > 1:
        made.append(Recipe("memory", size=hardware.memory_mib, unit="MiB"))
    if hardware.disk_mib:
        made.append(Recipe("disk", size=hardware.disk_mib, unit="MiB"))
    return made + slurm_gres.recipes(hardware.gres, devices, where, most)


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
    nodes: list[SiteNode] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    networks: dict[str, list[Switch]] = field(default_factory=dict)
    """Switches by the name of their graph."""
    knows_nodes: bool = True
    """Whether the names of all nodes could be read; otherwise an unknown name may be that of a node."""
    devices: list[Devices] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)

    def loaded(self, origin: int | None, mistakes: Mistakes | None = None) -> Loaded:
        """The machine.

        Args:
            mistakes: what is wrong with it already.

        Errors: InputError with these, and for duplicate and unknown names; LimitExceeded. Cost: O(nodes + members of partitions
        and switches) Python, O(pools) array writes.
        """
        if mistakes is None:
            mistakes = Mistakes()
        if not self.nodes and not mistakes:
            hint = "a configuration has NodeName= lines; topology.conf and gres.conf are read from the directory of slurm.conf"
            raise InputError("describes no node", where=self.file, hint=hint)
        with mistakes.all():
            number = _numbers(((node.name, node.where) for node in self.nodes), "node", mistakes)
            self._join(number, mistakes)
            switches_by_name = {name: self._switches(switches, mistakes) for name, switches in self.networks.items()}
        places: dict[int, str | Place] = {}
        entries = recipes(self.nodes, self.devices, self.notes)
        first = 0
        for entry in entries:
            _place(entry, self.nodes[first].where, places)
            first += entry.count
        switches = [switch for network in self.networks.values() for switch in network]
        beside = [
            Recipe(PARTITION, name=_literal(each.name), ids=None, rank=-1, state=each.state, properties=each.settings)
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
        self._connect(structure, number, switches_by_name)
        return Loaded(structure, [], self.name, self.notes.lines())

    def _join(self, number: Mapping[str, int], mistakes: Mistakes) -> None:
        """Set the partitions of each node."""
        _numbers(((partition.name, partition.where) for partition in self.partitions), "partition", mistakes)
        members = sum(len(partition.hosts) for partition in self.partitions)
        members += sum(len(switch.hosts) for network in self.networks.values() for switch in network)
        if members > limits.SELECTED_MAX:
            raise LimitExceeded(f"{members} members of partitions and switches, at most {limits.SELECTED_MAX}", where=self.file)
        for partition in self.partitions:
            partition.hosts = list(dict.fromkeys(partition.hosts))
            if self.knows_nodes:
                _require_known(number, partition.hosts, "node", partition.where, mistakes)
            for host in partition.hosts:
                if host in number:
                    self.nodes[number[host]].partitions.append(partition.name)

    def _switches(self, switches: Sequence[Switch], mistakes: Mistakes) -> dict[str, int]:
        """The numbers of the switches of a network by name."""
        number = _numbers(((each.name, each.where) for each in switches), switches[0].type, mistakes)
        for each in switches:
            _require_known(number, each.switches, "switch", each.where, mistakes)
        return number

    def _connect(
        self, structure: Structure, number: Mapping[str, int], switches_by_name: Mapping[str, Mapping[str, int]]
    ) -> None:
        vertices = structure.of_type("node")
        node = {name: int(vertices[i]) for name, i in number.items()}
        at = structure.tree_end
        if self.partitions:
            edges = [(at + i, v) for i, each in enumerate(self.partitions) for v in sorted(node[host] for host in each.hosts)]
            structure.subsystems[PARTITIONS] = _graph(PARTITIONS, edges, SCHEDULES, hierarchy=False)
        at += len(self.partitions)
        for name, switches in self.networks.items():
            number_of = {each: at + i for each, i in switches_by_name[name].items()}
            self._network(structure, name, switches, node, number_of)
            at += len(switches)

    def _network(
        self, structure: Structure, name: str, switches: Sequence[Switch], node: Mapping[str, int], number: Mapping[str, int]
    ) -> None:
        edges: list[tuple[int, int]] = []
        speeds: list[float] = []
        strangers: dict[str, None] = {}
        for each in switches:
            below = [number[other] for other in dict.fromkeys(each.switches)]
            hosts = dict.fromkeys(each.hosts)
            below += [node[host] for host in hosts if host in node]
            strangers |= {host: None for host in hosts if host not in node}
            edges += [(number[each.name], v) for v in below]
            speeds += [np.nan if each.speed is None else each.speed] * len(below)
        if strangers:
            where = next(str(each.where) for each in switches if not strangers.keys().isdisjoint(each.hosts))
            what = f"hosts that are not nodes of this configuration are left out of the network: {listed(strangers)}"
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
    ends: Int32 = np.array(edges, np.int32).reshape(-1, 2)
    return Subsystem(name, hierarchy, ends[:, 0].copy(), ends[:, 1].copy(), relations=[relation])


def _numbers(named: Iterable[tuple[str, str | Place]], what: str, mistakes: Mistakes) -> dict[str, int]:
    """The numbers of names; a duplicate name is noted, the first one of each line."""
    found: dict[str, int] = {}
    noted: set[str] = set()
    for name, where in named:
        if name in found and str(where) not in noted:
            noted.add(str(where))
            with mistakes:
                raise InputError(f"a second {what} {name!r}", where=str(where), hint="describe each only once")
        found.setdefault(name, len(found))
    return found


def _require_known(number: Mapping[str, int], names: Iterable[str], what: str, where: str | Place, mistakes: Mistakes) -> None:
    """Note the first of these names that there is not."""
    name = next((name for name in names if name not in number), None)
    if name is not None:
        with mistakes:
            raise InputError(
                f"there is no {what} {name!r}", where=str(where), hint="check the spelling; names are case-sensitive"
            )


def _literal(name: str) -> str:
    """A name as a template, in which a dollar sign begins a field."""
    return name.replace("$", "$$")

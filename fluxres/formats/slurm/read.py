"""Slurm's configuration: slurm.conf, with gres.conf, topology.yaml or topology.conf in the same directory or appended to the same
file.

Nodes, partitions, generic resources and switches are read; the other few hundred keys configure daemons and do not describe
resources. In topology.yaml (Slurm 25.05), switches of a tree, blocks and rings become pools that connect nodes. A flat topology
has none. A 3D torus describes positions of nodes, which a graph of pools cannot express, so it is left out with a note. The
default topology of the cluster is the graph ``network``; others, which partitions refer to (`Topology=`), are ``network-NAME``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from fluxres import limits
from fluxres.documents import typed
from fluxres.documents.document import Document, Key, Place, shown
from fluxres.documents.json_typed import collector_paused
from fluxres.documents.mistakes import Mistakes
from fluxres.documents.source import Source
from fluxres.documents.suggestion import did_you_mean, near
from fluxres.errors import ErrorPlace, InputError, LimitExceeded
from fluxres.formats.format import Loaded
from fluxres.formats.slurm import gres as slurm_gres
from fluxres.formats.slurm.lines import ALMOST, Line, Room, beside, lines
from fluxres.formats.slurm.site import (
    NETWORK,
    NODE_KEYS,
    Partition,
    Site,
    SiteNode,
    Switch,
    hardware_of,
    require_hardware,
    state_of,
)
from fluxres.graph.accounts import is_countable
from fluxres.graph.kinds import PropertyValue
from fluxres.syntax import duration

Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]


class SwitchEntry(Struct):
    """A switch, and the switches or nodes below it, as hostlists."""

    switch: Name
    children: str = ""
    nodes: str = ""


class Tree(Struct):
    switches: list[SwitchEntry] = []


class BlockEntry(Struct):
    block: Name
    nodes: str = ""


class Blocks(Struct):
    """Blocks; the planned sizes are ignored because they are not resources."""

    blocks: list[BlockEntry] = []


class RingEntry(Struct):
    """A ring of nodes, in order."""

    ring: Name
    nodes: str = ""


class Rings(Struct):
    rings: list[RingEntry] = []


class Topology(Struct):
    """One network, of exactly one kind."""

    topology: Name
    cluster_default: bool = False
    tree: Tree | None = None
    block: Blocks | None = None
    ring: Rings | None = None
    flat: bool | dict[str, Any] | None = None
    torus3d: Any = None


def _read_networks(source: Source, site: Site, room: Room) -> None:
    """Put the networks of a file into a site.

    Errors: InputError `FILE:line:column: path`; LimitExceeded.
    Cost: O(length + hosts).
    """
    document = source.document
    found = typed.convert(document, list[Topology])
    default = next((i for i, each in enumerate(found) if each.cluster_default), 0)
    names: dict[str, int] = {}
    for i, each in enumerate(found):
        if names.setdefault(each.topology, i) != i:
            raise InputError(f"a second topology {shown(each.topology)}", where=document.where([i, "topology"]))
        sorts = [sort for sort in ("tree", "block", "ring", "flat", "torus3d") if getattr(each, sort) not in (None, False)]
        if len(sorts) != 1:
            got = " and ".join(sorts) or "none"
            message = f"expected one of tree, block, ring, flat and torus3d, got {got}"
            raise InputError(message, where=document.where([i]), hint="each topology is of one kind")
        if each.torus3d is not None:
            message = f"the 3D torus {shown(each.topology)} is left out: only trees, blocks and rings are supported"
            site.notes.add("torus3d", document.where([i, "torus3d"]), message)
            continue
        switches = _switches(each, i, document, room)
        if switches:
            site.networks[NETWORK if i == default else f"{NETWORK}-{_plain(each.topology, document, i)}"] = switches


def _plain(name: str, document: Document, i: int) -> str:
    if not name.isprintable() or any(mark in name for mark in "/:"):
        message = f"expected a name without '/' and ':', got {shown(name)}"
        raise InputError(message, where=document.where([i, "topology"]), hint="a graph is named after it")
    return name


def _switches(topology: Topology, i: int, document: Document, room: Room) -> list[Switch]:
    if topology.tree is not None:
        base: tuple[Key, ...] = (i, "tree", "switches")
        entries = [("switch", each.switch, each.nodes, each.children) for each in topology.tree.switches]
    elif topology.block is not None:
        base, entries = (i, "block", "blocks"), [("block", each.block, each.nodes, "") for each in topology.block.blocks]
    elif topology.ring is not None:
        base, entries = (i, "ring", "rings"), [("ring", each.ring, each.nodes, "") for each in topology.ring.rings]
    else:
        return []
    made = []
    for at, (sort, name, nodes, children) in enumerate(entries):
        place = Place((*base, at), document)
        made.append(
            Switch(name, _hosts(nodes, "nodes", place, room), _hosts(children, "children", place, room), None, sort, place)
        )
    return made


def _hosts(text: str, key: str, place: Place, room: Room) -> list[str]:
    with ErrorPlace(lambda: f"{place}.{key}"):
        return Line("", {key: text}, room).hosts(key)


#: the end of a state may be left out: INACT
_PARTITION_STATES: Final = {"up": "up", "down": "down", "drain": "drain", "inact": "inactive", "inactive": "inactive"}
_UNLIMITED: Final = frozenset({"unlimited", "infinite", "-1", "none"})
#: by key of Slurm, the setting of a partition (`graph.partitions.SETTINGS`)
_TIMES: Final = {"defaulttime": "default_time", "maxtime": "max_time"}
_NUMBERS: Final = {"minnodes": "min_nodes", "maxnodes": "max_nodes"}
#: keys by which Slurm decides which jobs may run in a partition, or which come first
_BINDING: Final = {
    key.lower(): key
    for key in (
        *("AllowAccounts", "AllowGroups", "AllowQos", "AllocNodes", "DenyAccounts", "DenyQos", "PriorityTier"),
        *("PriorityJobFactor", "QOS", "RootOnly", "ReqResv", "MaxCPUsPerNode", "MaxMemPerNode", "MaxMemPerCPU", "PreemptMode"),
    )
}
#: the keys of a partition that are read, and these, in Slurm's spelling
_KNOWN: Final = _BINDING | {
    key.lower(): key
    for key in (
        *(
            "PartitionName",
            "Nodes",
            "Default",
            "State",
            "DefaultTime",
            "MaxTime",
            "MinNodes",
            "MaxNodes",
            "OverSubscribe",
            "Hidden",
        ),
        *(
            "GraceTime",
            "OverTimeLimit",
            "ExclusiveUser",
            "ExclusiveTopo",
            "DisableRootJobs",
            "LLN",
            "JobDefaults",
            "DefCpuPerGPU",
        ),
        *(
            "DefMemPerCPU",
            "DefMemPerGPU",
            "DefMemPerNode",
            "MaxCPUsPerSocket",
            "PowerDownOnIdle",
            "ResumeTimeout",
        ),
        *("SelectTypeParameters", "SuspendTime", "SuspendTimeout", "TRESBillingWeights", "Topology", "CpuBind", "Alternate"),
        *("Priority", "Shared"),
    )
}
#: by the first key of a line of topology.conf: the type of its pool and the allowed keys
_SWITCHES: Final = {
    "switchname": ("switch", frozenset({"switchname", "nodes", "switches", "linkspeed"})),
    "blockname": ("block", frozenset({"blockname", "nodes"})),
    "ringname": ("ring", frozenset({"ringname", "nodes"})),
}
#: the lines of topology.conf that each of these Slurm plugins reads; other plugins read none
_PLUGINS: Final = {"topology/tree": "switchname", "topology/block": "blockname", "topology/ring": "ringname"}


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of a Slurm configuration.

    Errors: InputError with all that is wrong, each at `FILE:line: key`; LimitExceeded.
    Cost: O(nodes) Python, O(pools) array writes.

    >>> text = b"NodeName=n[1-2] CPUs=4 RealMemory=1024\\nPartitionName=batch Nodes=ALL Default=YES"
    >>> loaded = read(Source(text))
    >>> loaded.structure.path(1), loaded.structure.kind_of(1).properties
    ('/cluster/n1', (('partition-batch', None),))
    """
    mistakes = Mistakes()
    with collector_paused(), mistakes.all():
        return _Reading(source, mistakes).site().loaded(origin, mistakes)


class _Reading:
    """One pass over the lines; references to later lines are resolved at the end.

    Args:
        mistakes: what is wrong is noted here. A line is then read without the values that are wrong.
    """

    def __init__(self, source: Source, mistakes: Mistakes) -> None:
        self._source = source
        self._mistakes = mistakes
        self._site = Site(source.file)
        self._defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}
        self._partitions: list[Line] = []
        self._sets: dict[str, Line] = {}
        self._members_of_sets: dict[str, list[str]] = {}
        #: names of nodes by feature, one list per line
        self._featured: dict[str, list[list[str]]] = {}
        self._down: list[Line] = []
        self._plugin = ""
        self._room = Room()

    def site(self) -> Site:
        self._take_all(self._source)
        gres = beside(self._source, "gres.conf")
        if gres is not None:
            self._take_all(gres)
        with self._mistakes:
            self._read_topology()
        self._settle_partitions()
        self._settle_down()
        return self._site

    def _take_all(self, source: Source) -> None:
        noted = len(self._mistakes)
        for line in lines(source, self._room, self._mistakes):
            self._note_unreadable(noted)
            with self._mistakes:
                self._take(line)
            noted = len(self._mistakes)
        self._note_unreadable(noted)

    def _note_unreadable(self, noted: int) -> None:
        """Note that nodes may be missing if mistakes have been added: the lines that could not be read may name some.

        Args:
            noted: the number of mistakes before these lines.
        """
        if len(self._mistakes) > noted:
            self._site.knows_nodes = False

    def _take(self, line: Line) -> None:
        pairs, head = line.pairs, line.head
        if "name" in pairs or "autodetect" in pairs:  # lines of gres.conf may follow the nodes they refer to
            device = slurm_gres.devices(line, self._mistakes)
            if device is not None:
                self._site.devices.append(device)
        elif head == "nodename":
            self._nodes(line)
        elif head == "partitionname":
            default = self._with_defaults(line.right(_setting, self._mistakes))
            if default is not None:
                self._partitions.append(default)
        elif head == "nodeset":
            self._sets[line.name("nodeset")] = line
        elif head == "downnodes":
            self._down.append(line)
        elif head in _SWITCHES:
            self._switch(line)
        elif head == "clustername":
            self._site.name = line.name(head)
        elif head == "topologyplugin":
            self._plugin = line.pairs[head]

    def _read_topology(self) -> None:
        """Read the network that Slurm would read: topology.yaml, or else topology.conf if there is a plugin for it."""
        several, one = beside(self._source, "topology.yaml"), beside(self._source, "topology.conf")
        if several is not None:
            _read_networks(several, self._site, self._room)
            if one is not None:
                self._site.notes.add("topology", one.file, "is ignored: topology.yaml takes precedence, as in Slurm")
        elif one is not None:
            wanted = _PLUGINS.get(self._plugin.lower())
            if wanted is None:
                plugin = f"TopologyPlugin is {shown(self._plugin)}" if self._plugin else "no TopologyPlugin is set"
                message = f"is ignored: {plugin}, and Slurm reads it only for {', '.join(_PLUGINS)}"
                self._site.notes.add("topology", one.file, message)
                return
            for line in lines(one, self._room, self._mistakes):
                if line.head == wanted:
                    with self._mistakes:
                        self._switch(line)
                elif line.head in _SWITCHES:
                    self._site.notes.add("topology", line.where, f"is ignored: {self._plugin} has no {_SWITCHES[line.head][0]}")

    def _with_defaults(self, line: Line) -> Line | None:
        """The line with the defaults for its kind; None for a line that sets the defaults."""
        defaults = self._defaults[line.head]
        if line.pairs[line.head].upper() == "DEFAULT":
            defaults.update({key: value for key, value in line.pairs.items() if key != line.head})
            return None
        return Line(line.where, {line.head: line.pairs[line.head], **defaults, **line.pairs}, line.room, line.written)

    def _nodes(self, line: Line) -> None:
        line.require_known(NODE_KEYS, self._mistakes)
        whole = self._with_defaults(line.right(require_hardware, self._mistakes))
        if whole is None:
            return
        try:
            hosts = whole.hosts("nodename")
        except InputError:
            self._site.knows_nodes = False
            raise
        number = len(self._site.nodes) + len(hosts)
        if number > limits.SLURM_NODES_MAX:
            raise LimitExceeded(f"{number} nodes, at most {limits.SLURM_NODES_MAX} are allowed", where=line.where)
        if not hosts:
            raise line.refuse("nodename", "names no node")
        hardware = hardware_of(whole, self._site.notes)
        for feature in hardware.features:
            self._featured.setdefault(feature, []).append(hosts)
        # A state that the controller determines at startup is not a state.
        words = whole.pairs.get("state", "unknown").split("+")
        state = state_of(word for word in words if word.lower() != "unknown")
        reason = whole.pairs.get("reason", "")
        self._site.nodes += [SiteNode(host, hardware, state, reason, line.where) for host in hosts]

    def _switch(self, line: Line) -> None:
        type_name, keys = _SWITCHES[line.head]
        line.require_known(keys, self._mistakes)
        text = line.pairs.get("linkspeed")
        speed = None if text is None else line.number("linkspeed", text)
        if not is_countable(speed):
            raise line.refuse("linkspeed", f"expected at most {limits.CAPACITY_MAX}, got {speed}")
        self._site.networks.setdefault(NETWORK, []).append(
            Switch(
                line.name(line.head),
                line.hosts("nodes"),
                line.hosts("switches"),
                None if speed is None else float(speed),
                type_name,
                line.where,
            )
        )

    def _settle_partitions(self) -> None:
        for line in self._partitions:
            with self._mistakes:
                self._settle_partition(line)

        default = [partition for partition in self._site.partitions if partition.settings.get("default")]
        for partition in default[:-1]:
            message = f"{partition.name!r} is not the default: {default[-1].name!r} is, which comes later, as in Slurm"
            self._site.notes.add("default", partition.where, message)
            del partition.settings["default"]

    def _settle_partition(self, line: Line) -> None:
        state = _PARTITION_STATES[line.pairs.get("state", "UP").lower()]
        settings = {name: value for key in line.pairs for name, value in _setting(line, key).items()}
        if idle := [_BINDING[key] for key in line.pairs if key in _BINDING]:
            are = "are kept as properties" if len(idle) > 1 else "is kept as a property"
            message = f"{' and '.join(idle)} {are} of the partition, and bind{'s' * (len(idle) == 1)} no job"
            self._site.notes.add("binding", line.where, message)
        for key in (key for key in line.pairs if key not in _KNOWN):
            if meant := near(key, _KNOWN, cutoff=ALMOST):
                said = f"{line.written.get(key, key)!r} is no key of Slurm, and is kept as a property of the partition"
                self._site.notes.add(f"key {key}", line.where, f"{said} ({did_you_mean([_KNOWN[meant[0]]])})")
        names, members = line.hosts("partitionname"), self._members(line, ())
        line.take("partitionname", len(names) * (len(members) + len(settings)))
        self._site.partitions += [Partition(name, members, state, dict(settings), line.where) for name in names]

    def _members(self, line: Line, open_sets: tuple[str, ...]) -> list[str]:
        """The nodes that a partition or a node set names: hosts, ALL, other sets."""
        found: list[str] = []
        if line.head == "nodeset" and "feature" in line.pairs:
            for hosts in self._featured.get(line.pairs["feature"], ()):
                found += hosts
        for name in line.hosts("nodes"):
            if name.upper() == "ALL":
                more = [node.name for node in self._site.nodes]
            elif name in self._sets:
                more = self._set(name, line, open_sets)
            else:
                found.append(name)
                continue
            line.take("nodes", len(more))
            found += more
        return found

    def _set(self, name: str, line: Line, open_sets: tuple[str, ...]) -> list[str]:
        """The nodes of a set, resolved once however often it is used."""
        if name in open_sets:
            raise line.refuse("nodes", f"the set {name!r} contains itself")
        if len(open_sets) >= limits.DEPTH_MAX:
            raise LimitExceeded(f"sets are nested more than {limits.DEPTH_MAX} deep", where=f"{line.where}: nodes")
        if name not in self._members_of_sets:
            self._members_of_sets[name] = self._members(self._sets[name], (*open_sets, name))
        return self._members_of_sets[name]

    def _settle_down(self) -> None:
        if not self._down:
            return
        number = {node.name: node for node in self._site.nodes}
        for line in self._down:
            with self._mistakes:
                self._settle_downnodes(line, number)

    def _settle_downnodes(self, line: Line, number: Mapping[str, SiteNode]) -> None:
        state, reason = state_of([line.pairs.get("state", "DOWN")]), line.pairs.get("reason")
        for host in line.hosts("downnodes"):
            node = number.get(host)
            if node is None:
                self._site.notes.add("downnodes", f"{line.where}: downnodes", f"unknown node {shown(host)} is left out")
                continue
            node.state, node.reason = state, node.reason if reason is None else reason


def _setting(line: Line, key: str) -> dict[str, PropertyValue]:
    """What a key sets of a partition: limits by our names; other keys as they are, in lower case.

    Errors: InputError for a limit or a state that is none.
    """
    value = line.pairs[key]
    word = value.strip().lower()
    if key in ("partitionname", "nodes"):
        return {}
    if key == "state":
        if value.lower() not in _PARTITION_STATES:
            raise line.refuse(key, f"expected UP, DOWN, DRAIN or INACTIVE, got {shown(value)}")
        return {}
    if key == "default":
        if word not in ("yes", "no"):
            raise line.refuse(key, f"expected YES or NO, got {shown(value)}")
        return {key: True} if word == "yes" else {}
    if key in _TIMES:
        return {} if word in _UNLIMITED else {_TIMES[key]: _limit(line, key, value)}
    if key in _NUMBERS:
        return {} if word in _UNLIMITED else {_NUMBERS[key]: line.number(key, value)}
    return {key: value}


def _limit(line: Line, key: str, value: str) -> str:
    """A time limit as a Flux duration."""
    try:
        seconds = duration.read(value, bare_s=60.0)
    except InputError:
        hint = "such as 90 (minutes), 1:00:00, 1-12 (days-hours) or UNLIMITED"
        raise line.refuse(key, f"expected a time, got {shown(value)}", hint) from None
    if not 0 < seconds <= limits.TIME_MAX_S:
        raise line.refuse(key, f"expected a time above 0, got {shown(value)}")
    text = duration.format(seconds)
    return text if duration.parse(text) == seconds else f"{seconds:.0f}s"

"""Nodes as Slurm counts them, as pools: boards, sockets, cores, threads, memory, disk, generic resources.

Slurm has numbers, not a tree, and infers the numbers that a configuration leaves out (`src/common/read_config.c`), so the
configuration and the output of sinfo give the same ones. A level is made only if it adds information: boards if there are
several, threads if they are what is scheduled (`CPUs` is then their number).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Final

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.formats.losses import Notes
from fluxres.formats.slurm import gres as slurm_gres
from fluxres.formats.slurm.gres import Devices, Gres
from fluxres.formats.slurm.lines import Line
from fluxres.graph.recipe import Recipe

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
class Node:
    """One node."""

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


def recipes(nodes: Sequence[Node], devices: Sequence[Devices], notes: Notes) -> list[Recipe]:
    """The entries of a machine's nodes: one for each run of nodes that differ only in their name.

    Errors: LimitExceeded for more different nodes than `limits.SLURM_ENTRIES_MAX` allows.
    """
    room = limits.SLURM_ENTRIES_MAX
    near = _near(nodes, devices)
    made: list[Recipe] = []
    inside: dict[tuple[Hardware, tuple[int, ...]], tuple[Recipe, ...]] = {}

    def content(item: tuple[int, Node]) -> tuple[Hardware, tuple[int, ...], str, str, tuple[str, ...]]:
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
        tags = {"reason": same[0].reason} if same[0].reason else {}
        names = [node.name for node in same]
        made.append(
            Recipe("node", len(same), names=names, properties=properties, tags=tags, state=same[0].state, children=children)
        )
    return made


def _near(nodes: Sequence[Node], devices: Sequence[Devices]) -> dict[int, tuple[int, ...]]:
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

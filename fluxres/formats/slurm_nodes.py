"""Nodes as Slurm counts them, and the pools that they are: boards, sockets, cores, threads, memory, disc, generic resources.

Slurm gives numbers, not a tree.  A level is made where it says more than its number: boards where there are several, sockets
where they are named, threads where they are what is scheduled (`CPUs` is then their number).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Final

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.formats import slurm_gres
from fluxres.formats.slurm_gres import Devices, Gres
from fluxres.formats.slurm_lines import Line
from fluxres.graph.recipe import Recipe

NODE_KEYS: Final = frozenset(
    {
        *("nodename", "nodehostname", "nodeaddr", "bcastaddr", "boards", "corespeccount", "corespersocket", "cpubind", "cpus"),
        *("procs", "cpuspeclist", "features", "feature", "gres", "memspeclimit", "parameters", "port", "realmemory", "reason"),
        *("restrictedcorespergpu", "sockets", "socketsperboard", "state", "threadspercore", "tmpdisk", "topology", "weight"),
        *("extra", "instanceid", "instancetype", "arch", "comment", "owner"),
    }
)
#: keys that go with a node as they are
_KEPT: Final = ("weight", "corespeccount", "cpuspeclist", "memspeclimit", "arch", "instancetype")
_STATES: Final = {
    # What saves power (POWERED_DOWN, `idle~`) is up: Slurm gives it jobs, and wakes it for them.
    **dict.fromkeys(("down", "error", "fail"), "down"),
    **dict.fromkeys(("drain", "drained", "draining"), "drain"),
    **dict.fromkeys(("failing",), "failing"),
    **dict.fromkeys(("future", "not_responding", "invalid", "invalid_reg"), "unknown"),
}
#: which of several states of a node decides
_WORST: Final = ("down", "failing", "drain", "unknown")


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a node is made of; equal for thousands of them."""

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
    """The state of a pool from the states Slurm gives a node: what forbids work wins; running or idle is up.

    >>> state_of(["MIXED", "DRAIN"]), state_of(["IDLE*"]), state_of(["IDLE", "CLOUD", "POWERED_DOWN"])
    ('drain', 'unknown', 'up')
    """
    found = set()
    for word in words:
        plain = word.strip().lower()
        if plain.endswith("*"):  # it does not answer
            found.add("unknown")
        found.add(_STATES.get(plain.rstrip("*~#%$@+^!-"), "up"))
    return next((state for state in _WORST if state in found), "up")


def hardware_of(line: Line) -> Hardware:
    """What a `NodeName=` line says of its nodes, defaults applied.

    Errors: InputError, LimitExceeded with the place.
    """
    boards = line.count("boards", 1, least=1)
    per_board = line.count("socketsperboard", 0, least=1)
    sockets = line.count("sockets", 0, least=1)
    if per_board and not sockets:
        sockets = per_board * boards
    if sockets % boards:
        raise line.refuse("sockets", f"{sockets} sockets on {boards} boards", "boards have the same number of sockets")
    if per_board and sockets != per_board * boards:
        raise line.refuse("sockets", f"{sockets}, where {boards} boards have {per_board} each", "give one of them")
    features = _features(line.pairs.get("features", line.pairs.get("feature", "")))
    line.take("features", len(features))
    return Hardware(
        boards,
        sockets or (boards if "corespersocket" in line.pairs or "threadspercore" in line.pairs else 0),
        line.count("corespersocket", 1, least=1),
        line.count("threadspercore", 1, least=1),
        line.count("cpus", line.count("procs", 0, least=1), least=1),
        line.count("realmemory", 0),
        line.count("tmpdisk", 0),
        slurm_gres.parse(line.pairs.get("gres", ""), line),
        features,
        tuple((key, line.pairs[key]) for key in _KEPT if line.pairs.get(key)),
    )


@lru_cache(maxsize=64)
def _features(text: str) -> tuple[str, ...]:
    """The features that a value lists; thousands of lines have the same one from their defaults."""
    return tuple(word.strip() for word in text.split(",") if word.strip() and word != "(null)")


def recipes(nodes: Sequence[Node], devices: Sequence[Devices]) -> list[Recipe]:
    """The entries of a machine's nodes: one for each run of nodes that differ in the name only.

    Errors: LimitExceeded for more sorts of nodes than `limits.SLURM_ENTRIES_MAX` allows.
    """
    room = limits.SLURM_ENTRIES_MAX
    near = _near(nodes, devices)
    made: list[Recipe] = []
    inside: dict[tuple[Hardware, tuple[int, ...]], tuple[Recipe, ...]] = {}
    numbered = list(enumerate(nodes))
    for key, run in groupby(numbered, key=lambda item: _key(item[1], near.get(item[0], ()))):
        same = [node for _, node in run]
        hardware, lines = key[0], key[1]
        children = inside.get((hardware, lines))
        if children is None:
            room -= len(hardware.gres) * len(lines)
            children = tuple(contents(hardware, [devices[i] for i in lines], same[0].where, max(room, 0)))
            inside[hardware, lines] = children
            room -= len(children)
        properties = {**dict.fromkeys(hardware.features), **dict(hardware.kept)}
        properties |= dict.fromkeys(f"partition-{name}" for name in same[0].partitions)
        room -= len(properties)
        if room < 0:
            message = f"more than {limits.SLURM_ENTRIES_MAX} properties and generic resources of nodes that differ"
            raise LimitExceeded(message, where=same[0].where, hint="nodes that are alike stand in a row")
        tags = {"reason": same[0].reason} if same[0].reason else {}
        names = [node.name for node in same]
        made.append(
            Recipe("node", len(same), names=names, properties=properties, tags=tags, state=same[0].state, children=children)
        )
    return made


def _key(node: Node, near: tuple[int, ...]) -> tuple[Hardware, tuple[int, ...], str, str, tuple[str, ...]]:
    return node.hardware, near, node.state, node.reason, tuple(node.partitions)


def _near(nodes: Sequence[Node], devices: Sequence[Devices]) -> dict[int, tuple[int, ...]]:
    """By number of a node: which lines of gres.conf are about it."""
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
                message = f"{len(everywhere) + len(own)} lines of gres.conf are about node {node.name!r:.80}"
                hint = f"at most {limits.GRES_LINES_MAX} are read; one line may name several files"
                raise LimitExceeded(message, where=node.where, hint=hint)
            # Nodes that the same lines are about share them, which makes comparing them cheap.
            if own not in known:
                known[own] = tuple(sorted([*everywhere, *own]))
            found[number] = known[own]
    return found


def contents(hardware: Hardware, devices: Sequence[Devices], where: str, most: int) -> list[Recipe]:
    """What is in a node.

    Args:
        most: entries of generic resources.

    Errors: LimitExceeded for more cores than any machine has, or more generic resources that differ than `most`.
    """
    made: list[Recipe] = []
    per_socket, sockets = hardware.cores, hardware.sockets
    total = max(sockets, 1) * per_socket * hardware.threads
    if max(total, hardware.cpus) > limits.POOLS_MAX:
        raise LimitExceeded(f"{max(total, hardware.cpus)} CPUs in a node, at most {limits.POOLS_MAX} pools fit", where=where)
    if sockets:
        # CPUs that are no more than the cores are cores: the threads of each are not scheduled.
        threads = hardware.threads if hardware.cpus not in (sockets, sockets * per_socket) else 1
        pus = (Recipe("pu", threads),) if threads > 1 else ()
        core = Recipe("core", per_socket, children=pus)
        if hardware.boards > 1:
            socket = Recipe("socket", sockets // hardware.boards, children=(core,))
            made.append(Recipe("board", hardware.boards, children=(socket,)))
        else:
            made.append(Recipe("socket", sockets, children=(core,)))
    else:
        made.append(Recipe("core", max(hardware.cpus, 1)))
    if hardware.memory_mib:
        made.append(Recipe("memory", size=hardware.memory_mib, unit="MiB"))
    if hardware.disk_mib:
        made.append(Recipe("disk", size=hardware.disk_mib, unit="MiB"))
    return made + slurm_gres.recipes(hardware.gres, devices, where, most)

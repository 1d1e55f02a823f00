"""`topology.yaml` of Slurm 25.05 and later: several named networks of one site.

Switches of a tree, blocks and rings become pools that connect nodes. A flat topology has none. A 3D torus describes positions of
nodes, which a graph of pools cannot express, so it is left out with a note. The default topology of the cluster is the graph
``network``; others, which partitions refer to (`Topology=`), are ``network-NAME``.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from fluxres import limits
from fluxres.documents import typed
from fluxres.documents.document import Document, Key, shown
from fluxres.documents.source import Source
from fluxres.errors import InputError
from fluxres.formats.slurm.lines import Line, Room
from fluxres.formats.slurm.nodes import Place
from fluxres.formats.slurm.site import NETWORK, Site, Switch

Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]


class SwitchEntry(Struct):
    """A switch, and the switches or nodes below it, as hostlists."""

    switch: Name
    children: str = ""
    nodes: str = ""


class Tree(Struct):
    """A tree of switches."""

    switches: list[SwitchEntry] = []


class BlockEntry(Struct):
    """A block of nodes."""

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


def read(source: Source, site: Site, room: Room) -> None:
    """Put the networks of a file into a site.

    Args:
        room: remaining number of names that the files of the site may expand to.

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
        place = Place(document, (*base, at))
        made.append(
            Switch(name, _hosts(nodes, "nodes", place, room), _hosts(children, "children", place, room), None, sort, place)
        )
    return made


def _hosts(text: str, key: str, place: Place, room: Room) -> list[str]:
    try:
        return Line("", {key: text}, room).hosts(key)
    except InputError as error:
        raise type(error)(error.message, where=f"{place}.{key}", hint=error.hint) from None

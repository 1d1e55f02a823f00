"""hwloc topologies as `lstopo` writes them: XML of hwloc 1 and 2 as one tree of objects.

In version 1 a NUMA node stands above its cores; version 2 hangs it beside them.  Files of the first kind are read as the
second: what was below a NUMA node goes to the object around it, or to the one package that covers the same processors.
Children come in the order in which hwloc lists them: processors and caches, memory, devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fluxres.errors import InputError
from fluxres.formats import safe_xml
from fluxres.formats.safe_xml import Element

_MEMORY: Final = ("NUMANode", "MemCache")
_DEVICES: Final = ("Bridge", "PCIDev", "OSDev")
_TYPES: Final = {"Socket": "Package", "Node": "NUMANode"}
_OS_DEVICES: Final = {"0": "Block", "1": "GPU", "2": "Network", "3": "OpenFabrics", "4": "DMA", "5": "CoProc"}


@dataclass(slots=True)
class Object:
    """One object: type as hwloc 2 calls it, what it is called, where it stands in its level."""

    type: str
    name: str
    attributes: Mapping[str, str]
    infos: Mapping[str, str]
    children: list[Object] = field(default_factory=list)
    index: int = 0
    """Logical index among the objects of its type."""

    @property
    def device(self) -> str:
        """Kind of an OS device: Block, GPU, Network, OpenFabrics, DMA or CoProc; empty for others."""
        return _OS_DEVICES.get(self.attributes.get("osdev_type", ""), "") if self.type == "OSDev" else ""

    def walk(self) -> Iterator[Object]:
        """The object and all below it, parents first."""
        todo = [self]
        while todo:
            found = todo.pop()
            yield found
            todo += reversed(found.children)


def load(path: Path) -> Object:
    """The machine of a file; errors as :func:`parse`."""
    return _topology(safe_xml.load(path), str(path))


def parse(data: bytes, *, file: str = "<text>") -> Object:
    """The machine of an XML text.

    Cost O(length). Errors: InputError `FILE:line` for what is no topology.

    >>> parse(b'<topology><object type="Machine"><object type="Core" os_index="4"/></object></topology>').children[0].index
    0
    """
    return _topology(safe_xml.load(data, file=file), file)


def _topology(root: Element, file: str) -> Object:
    if root.name != "topology":
        raise InputError(f"expected <topology>, got <{root.name}>", where=f"{file}:{root.line}")
    machines = [element for element in root.all("object") if element.attributes.get("type") in ("Machine", "System")]
    if len(machines) != 1:
        raise InputError(f"expected one object of type Machine, got {len(machines)}", where=f"{file}:{root.line}")
    machine = _object(machines[0], file)
    counts: dict[str, int] = {}
    for found in machine.walk():
        key = found.type + (found.attributes.get("depth", "") + found.attributes.get("cache_type", "")) * (found.type == "Cache")
        found.index = counts.get(key, 0)
        counts[key] = found.index + 1
    return machine


def _object(element: Element, file: str) -> Object:
    type_ = element.attributes.get("type", "")
    if not type_:
        raise InputError("an <object> without type", where=f"{file}:{element.line}")
    infos = {info.attributes.get("name", ""): info.attributes.get("value", "") for info in element.all("info")}
    found = Object(_TYPES.get(type_, type_), element.attributes.get("name", ""), element.attributes, infos)
    normal: list[Object] = []
    memory: list[Object] = []
    devices: list[Object] = []
    for child in element.all("object"):
        below = _object(child, file)
        if below.type in _DEVICES:
            devices.append(below)
        elif below.type in _MEMORY:
            memory.append(below)
            _lift(below, normal, devices)
        else:
            normal.append(below)
    found.children = [*normal, *memory, *devices]
    return found


def _lift(numa: Object, normal: list[Object], devices: list[Object]) -> None:
    """Take what version 1 has below a NUMA node out of it."""
    if not numa.children:
        return
    above = [child for child in numa.children if child.type not in (*_DEVICES, *_MEMORY)]
    own = [child for child in numa.children if child.type in _DEVICES]
    numa.children = [child for child in numa.children if child.type in _MEMORY]
    if len(above) == 1 and above[0].attributes.get("cpuset") == numa.attributes.get("cpuset"):
        above[0].children += own
    elif own and above:
        # Between them there would be a group of the same processors, which carries the devices.
        group = Object("Group", "", numa.attributes, {}, [*above, *own])
        above = [group]
    else:
        devices += own
    normal += above

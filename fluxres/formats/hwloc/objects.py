"""The objects of an hwloc topology as one tree, from XML of hwloc 1, 2 or 3.

In version 1 a NUMA node contains its cores; from version 2 on it is beside them. Version 1 files are read as libhwloc 2 reads
them: the node goes to the object with the same processors, or to a group made from its children; memory that only the machine has
is one NUMA node. Disallowed resources are left out, as libhwloc does by default, and so are objects without processors, memory
and devices. Numeric kinds of devices differ between versions 2 and 3, so they are words here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fluxres.documents.safe_xml import Element
from fluxres.errors import InputError

MEMORY: Final = frozenset(("NUMANode", "MemCache"))
DEVICES: Final = frozenset(("Bridge", "PCIDev", "OSDev"))
_TYPES: Final = {"Socket": "Package", "Node": "NUMANode", "System": "Machine"}
_OS_DEVICES: Final = {"0": "Block", "1": "GPU", "2": "Network", "3": "OpenFabrics", "4": "DMA", "5": "CoProc"}
#: bits of version 3, in which a device may be of several kinds; the first one set is the most specific
_OS_DEVICE_BITS: Final = {8: "CoProc", 4: "GPU", 1: "Block", 32: "OpenFabrics", 16: "Network", 64: "DMA", 2: "Memory"}
_HEX: Final = re.compile(r"(?:0x)?[0-9a-f]{0,8}")
#: prefix of an unbounded set
_ENDLESS: Final = "0xf...f"
#: a group that means a die in hwloc 2.0, which had no type for dies
_DIE_KIND: Final = "104"


@dataclass(slots=True)
class Object:
    """One object: its type in hwloc 2, its name, and its position in its level."""

    type: str
    name: str
    attributes: Mapping[str, str]
    infos: Mapping[str, str]
    children: list[Object] = field(default_factory=list)
    index: int = 0
    """Logical index among the objects of its type."""
    device: str = ""
    """Kind of an OS device: Block, GPU, Network, OpenFabrics, DMA, CoProc or Memory; empty for others."""
    line: int = 0

    def walk(self) -> Iterator[Object]:
        todo = [self]
        while todo:
            found = todo.pop()
            yield found
            todo += reversed(found.children)

    def normal(self) -> list[Object]:
        """The children that are neither memory nor devices."""
        return [child for child in self.children if child.type not in MEMORY and child.type not in DEVICES]


class MachineObject(NamedTuple):
    """A machine, and the number of objects of it that were left out, by kind."""

    object: Object
    left_out: dict[str, int]


def machines_of(root: Element, file: str) -> list[MachineObject]:
    """The machines of a document: one, or those in a system object of hwloc 1.

    Cost O(elements). Errors: InputError `FILE:line` for text that is not a topology.
    """
    if root.name != "topology":
        hint = "lstopo --of xml writes one"
        raise InputError(f"expected <topology>, got <{root.name}>", where=f"{file}:{root.line}", hint=hint)
    tops = [element for element in root.all("object") if _TYPES.get(kind := _type(element), kind) in ("Machine", "NUMANode")]
    if len(tops) != 1:
        raise InputError(f"expected one object of type Machine, got {len(tops)}", where=f"{file}:{root.line}")
    elements, levels = _machines_below(tops[0])
    is_new = root.attributes.get("version", "").startswith("3")
    if elements:
        machines = [_machine(element, file, is_new, {}) for element in elements]
        if levels:
            machines[0].left_out["levels above the machines"] = levels
        return machines
    # From version 3 on, the infos of the machine are beside its element.
    return [_machine(tops[0], file, is_new, _infos(root))]


def _machines_below(top: Element) -> tuple[list[Element], int]:
    """The machines in a system of several, and the number of objects between them and it; none if the system is the machine."""
    found: list[Element] = []
    levels = 0
    todo = top.all("object")[::-1]
    while todo:
        element = todo.pop()
        if _type(element) == "Machine":
            found.append(element)
        elif _type(element) in ("Misc", "Group", "System"):
            levels += 1
            todo += element.all("object")[::-1]
    return found, levels


def _machine(element: Element, file: str, is_new: bool, infos: Mapping[str, str]) -> MachineObject:
    machine = _object(element, file, is_new)
    if machine.type == "NUMANode":
        # hwloc 1 had no machine object around a single NUMA node, so the infos of that node are those of the machine.
        sets = {key: value for key, value in machine.attributes.items() if key.endswith(("cpuset", "nodeset"))}
        machine = Object("Machine", "", sets, machine.infos, [machine], line=machine.line)
    machine.infos = {**infos, **machine.infos}
    if any(_has_more(found) for found in machine.walk()):
        _lift(machine, [])
    if machine.attributes.get("local_memory", "0") != "0" and not any(found.type == "NUMANode" for found in machine.walk()):
        # If there is one NUMA node, version 1 may have its memory on the machine object.
        shared = {key: machine.attributes[key] for key in ("cpuset", "local_memory") if key in machine.attributes}
        machine.children.append(Object("NUMANode", "", shared, {}, line=machine.line))
    left_out: dict[str, int] = {}
    _Allowed(machine, left_out).stays(machine)
    return MachineObject(settled(machine), left_out)


class _Allowed:
    """The part of a machine its user may use, restricted as libhwloc does by default: objects without processors, memory and
    devices are removed.

    Args:
        left_out: receives the number of processing units and NUMA nodes removed.
    """

    def __init__(self, machine: Object, left_out: dict[str, int]) -> None:
        cpus, own = _bits(machine, "allowed_cpuset"), _bits(machine, "cpuset")
        #: None if all are allowed
        self._cpus = None if cpus is None or (own is not None and own & ~cpus == 0) else cpus
        self._nodes = _bits(machine, "allowed_nodeset")
        self._left_out = left_out

    def stays(self, found: Object) -> bool:
        """Whether an object stays; removes the children that do not."""
        if found.children:
            found.children = [child for child in found.children if child.type in DEVICES or self.stays(child)]
            for child in found.children:
                if child.type != "Misc" or child.children:
                    return True
        if found.type in MEMORY:
            return self._is_used(found, "nodeset", self._nodes, "NUMA nodes that are not allowed")
        return found.type == "Misc" or self._is_used(found, "cpuset", self._cpus, "processing units that are not allowed")

    def _is_used(self, found: Object, key: str, allowed: int | None, what: str) -> bool:
        text = found.attributes.get(key)
        if text is None:
            return True
        if not text.strip("0x,"):
            return False
        if allowed is None:
            return True
        bits = _bits(found, key)
        if bits is None or bits & allowed:
            return True
        if found.type in ("PU", "NUMANode"):
            self._left_out[what] = self._left_out.get(what, 0) + 1
        return False


def settled(machine: Object) -> Object:
    """The same tree in hwloc's order: processors, memory, devices. Each object gets its logical index."""
    _settle(machine)
    _merge_dies(machine)
    counts: dict[str, int] = {}
    for found in machine.walk():
        found.index = counts.get(found.type, 0)
        counts[found.type] = found.index + 1
    return machine


def _type(element: Element) -> str:
    return element.attributes.get("type", "")


def _infos(element: Element) -> dict[str, str]:
    given = (child.attributes for child in element.children if child.name == "info")
    return {info.get("name", ""): info.get("value", "") for info in given}


def _object(element: Element, file: str, is_new: bool) -> Object:
    attributes = element.attributes
    type_ = attributes.get("type", "")
    if not type_:
        raise InputError("an <object> without type", where=f"{file}:{element.line}")
    type_ = _TYPES.get(type_, type_)
    if "memory_kB" in attributes:
        attributes = _of_version_0(attributes, "cache_size" if type_ == "Cache" else "local_memory")
    if type_ == "Cache":
        # Version 1 has a single type for all caches.
        type_ = f"L{attributes.get('depth', '')}{'i' * (attributes.get('cache_type') == '2')}Cache"
    if type_ == "Group" and (attributes.get("subtype") == "Die" or attributes.get("kind") == _DIE_KIND):
        # Versions 1 and 2.0 have no type for dies.
        type_ = "Die"
    found = Object(type_, attributes.get("name", ""), attributes, {}, line=element.line)
    if type_ == "OSDev":
        found.device = _device(attributes.get("osdev_type", ""), is_new)
    if not element.children:
        return found
    found.infos = _infos(element)
    if type_ == "Group" and found.infos.get("Type") == "Die":
        found.type = "Die"
    found.children = [_object(child, file, is_new) for child in element.children if child.name == "object"]
    if type_ in DEVICES:
        wrong = next((child for child in found.children if child.type not in DEVICES and child.type != "Misc"), None)
        if wrong is not None:
            raise InputError(f"expected devices in a {type_}, got a {wrong.type}", where=f"{file}:{wrong.line}")
    return found


def _of_version_0(attributes: dict[str, str], key: str) -> dict[str, str]:
    """Attributes with bytes where version 0.9 has KiB."""
    text = attributes["memory_kB"]
    return {key: str(int(text) * 1024), **attributes} if text.isascii() and text.isdecimal() and len(text) < 20 else attributes


def _device(number: str, is_new: bool) -> str:
    if not is_new:
        return _OS_DEVICES.get(number, "")
    bits = int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0
    return next((kind for bit, kind in _OS_DEVICE_BITS.items() if bits & bit), "")


def _has_more(numa: Object) -> bool:
    """Whether a NUMA node contains something other than memory, as only in version 1."""
    return numa.type == "NUMANode" and any(child.type not in MEMORY for child in numa.children)


def _lift(found: Object, above: list[tuple[Object, int]]) -> None:
    """Move the NUMA nodes of version 1 in an object beside their content, as libhwloc does.

    `above` are the enclosing objects and their processors, the machine first.
    """
    above.append((found, _cpus(found)))
    before, found.children = found.children, []
    for child in before:
        _lift(child, above)
        found.children += _beside(child, above) if _has_more(child) else [child]
    above.pop()


def _beside(numa: Object, above: list[tuple[Object, int]]) -> list[Object]:
    """The objects that replace a NUMA node, which itself goes to the highest object with its processors."""
    within = numa.normal()
    devices = [child for child in numa.children if child.type in DEVICES]
    numa.children = [child for child in numa.children if child.type in MEMORY]
    cpus = _cpus(numa)
    same = next((object_ for object_, others in above if others == cpus), None)
    if same is not None or not within:
        (same or above[-1][0]).children.append(numa)
        return [*within, *devices]
    shared = {key: numa.attributes[key] for key in ("cpuset", "nodeset") if key in numa.attributes}
    return [Object("Group", "", shared, {}, [*within, numa, *devices], line=numa.line)]


def _settle(found: Object) -> None:
    """Sort the children of an object, and replace a group with at most one child by that child."""
    children: list[Object] = []
    for child in found.children:
        if child.children:
            _settle(child)
        within = child.normal() if child.type == "Group" else []
        while len(within) == 1 and len(child.children) > 1:
            # libhwloc makes such groups for memory, and removes them again if all of a level are alike.
            within[0].children += child.children[1:]
            within[0].children.sort(key=_place)
            child = within[0]
            within = child.normal() if child.type == "Group" else []
        children += [child] if within or child.type != "Group" else child.children
    if len(children) > 1:
        children.sort(key=_place)
    found.children = children


def _merge_dies(machine: Object) -> None:
    """Remove dies that equal their packages, as libhwloc does whatever types are kept."""
    packages = [found for found in machine.walk() if found.type == "Package"]
    within = [found.normal() for found in packages]
    if all(len(each) == 1 and each[0].type == "Die" for each in within):
        for package, (die,) in zip(packages, within, strict=True):
            package.children = sorted([*die.children, *(child for child in package.children if child is not die)], key=_place)


def _place(child: Object) -> int:
    return 2 if child.type in DEVICES else int(child.type in MEMORY)


def _cpus(found: Object) -> int:
    """The processors of an object as bits, -1 if they cannot be read."""
    bits = _bits(found, "cpuset")
    return -1 if bits is None else bits


def _bits(found: Object, key: str) -> int | None:
    """A set of an object as bits; an unbounded set has all bits from some bit on. None if it cannot be read."""
    text = found.attributes.get(key)
    if text is None:
        return None
    words = text.lower().split(",")
    is_endless = words[0] == _ENDLESS
    words = words[1:] if is_endless else words
    if any(_HEX.fullmatch(word) is None for word in words):
        return None
    bits = int("".join(word.removeprefix("0x").zfill(8) for word in words) or "0", 16)
    return bits | (-1 << (32 * len(words))) if is_endless else bits

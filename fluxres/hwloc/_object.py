"""What every object of a topology can say about itself.

An object is a pointer and a weak reference.  Every read asks first whether the topology still is, and whether the object
outlived what was cut from it since; then it reads, with other threads kept from destroying it meanwhile.
"""

from __future__ import annotations

import ctypes
from typing import Final

from fluxres.hwloc import _structs
from fluxres.hwloc._enums import ObjSnprintfFlag, ObjType
from fluxres.hwloc._library import C, check
from fluxres.hwloc._relatives import Relatives
from fluxres.hwloc.bitmap import Bitmap, copy_of
from fluxres.hwloc.utils import Flags, PciId, or_flags, texts

_ATTRIBUTES: Final = {
    ObjType.NUMANODE: "numanode",
    ObjType.GROUP: "group",
    ObjType.PCI_DEVICE: "pcidev",
    ObjType.BRIDGE: "bridge",
    ObjType.OS_DEVICE: "osdev",
}


class Object(Relatives):
    """Any object; topologies make them, nobody else does."""

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def type(self) -> ObjType:
        """Its type."""
        return ObjType(self._field("type"))

    @property
    def subtype(self) -> str | None:
        """Its kind within the type, such as ``HBM`` or ``CUDA``."""
        return self._text("subtype")

    @property
    def os_index(self) -> int:
        """Number the operating system gives it."""
        return int(self._field("os_index"))

    @property
    def name(self) -> str | None:
        """Its own name, such as ``eth0``."""
        return self._text("name")

    @property
    def total_memory(self) -> int:
        """Bytes of memory of the NUMA nodes below it."""
        return int(self._field("total_memory"))

    @property
    def gp_index(self) -> int:
        """Number that is its own among all objects."""
        return int(self._field("gp_index"))

    @property
    def symmetric_subtree(self) -> bool:
        """Whether all below it repeats regularly."""
        return bool(self._field("symmetric_subtree"))

    def is_numa_node(self) -> bool:
        """Whether it is memory."""
        return self.type == ObjType.NUMANODE

    def is_group(self) -> bool:
        """Whether it only groups others."""
        return self.type == ObjType.GROUP

    def is_pci_device(self) -> bool:
        """Whether it is a PCI device."""
        return self.type == ObjType.PCI_DEVICE

    def is_bridge(self) -> bool:
        """Whether it is a bridge to devices."""
        return self.type == ObjType.BRIDGE

    def is_os_device(self) -> bool:
        """Whether it is a device as the operating system knows it."""
        return self.type == ObjType.OS_DEVICE

    def is_package(self) -> bool:
        """Whether it is a package (socket)."""
        return self.type == ObjType.PACKAGE

    def is_machine(self) -> bool:
        """Whether it is the machine."""
        return self.type == ObjType.MACHINE

    def is_normal(self) -> bool:
        """Whether it stands in the main tree: neither memory nor device nor remark."""
        return bool(C.obj_type_is_normal(self.type))

    def is_io(self) -> bool:
        """Whether it is a bridge or a device."""
        return bool(C.obj_type_is_io(self.type))

    def is_memory(self) -> bool:
        """Whether it is memory or a cache in front of it."""
        return bool(C.obj_type_is_memory(self.type))

    def is_cache(self) -> bool:
        """Whether it is a processor's cache."""
        return bool(C.obj_type_is_cache(self.type))

    def is_dcache(self) -> bool:
        """Whether it is a cache of data, or of both."""
        return bool(C.obj_type_is_dcache(self.type))

    def is_icache(self) -> bool:
        """Whether it is a cache of instructions."""
        return bool(C.obj_type_is_icache(self.type))

    # -- its attributes ----------------------------------------------------------------------------------------------

    @property
    def attr(self) -> ctypes.Structure | None:
        """A copy of what it has by its type; None for types that have nothing."""
        with self._read() as found:
            type_ = ObjType(found.type)
            name = "cache" if C.obj_type_is_cache(type_) else _ATTRIBUTES.get(type_)
            return None if name is None or not found.attr else _structs.own_attributes(getattr(found.attr.contents, name))

    def format_attr(self, sep: str = ", ", flags: Flags[ObjSnprintfFlag] = ObjSnprintfFlag.OLD_VERBOSE) -> str | None:
        """Its attributes in words, None for none."""
        size = 1024
        while True:
            buffer = ctypes.create_string_buffer(size)
            with self._read() as found:
                length = C.obj_attr_snprintf(buffer, size, ctypes.byref(found), sep.encode("utf-8"), or_flags(flags))
            if length < size:
                return buffer.value.decode("utf-8", "replace") or None
            size = length + 1

    @property
    def info(self) -> dict[str, str]:
        """What else is known, by key."""
        with self._read() as found:
            return texts(found.infos, found.infos_count)

    def get_info_by_name(self, name: str) -> str | None:
        """What is known under a key; of a key given twice the first."""
        with self._read() as found:
            given = [found.infos[i] for i in range(found.infos_count)]
            values = [info.value for info in given if info.name == name.encode("utf-8")]
        return values[0].decode("utf-8", "replace") if values and values[0] is not None else None

    def add_info(self, name: str, value: str) -> None:
        """Note something under a key.

        Errors: ValueError for nothing.
        """
        if not name or not value:
            raise ValueError("name and value must be non-empty strings")
        with self._read() as found:
            check(C.obj_add_info(ctypes.byref(found), name.encode("utf-8"), value.encode("utf-8")))

    @property
    def pci_id(self) -> PciId:
        """Where it is on PCI.

        Errors: ValueError for what is no PCI device.
        """
        attributes = self.attr
        if not isinstance(attributes, _structs.PcidevAttr):
            raise ValueError(f"Invalid object type. Expecting PCI device, got {self.type!r}")
        return PciId(attributes.domain, attributes.bus, attributes.dev)

    # -- its processors and memory -----------------------------------------------------------------------------------

    def _bitmap(self, field: str) -> Bitmap | None:
        with self._read() as found:
            handle = getattr(found, field)
            return copy_of(handle) if handle else None

    @property
    def cpuset(self) -> Bitmap | None:
        """Processors in it."""
        return self._bitmap("cpuset")

    @property
    def complete_cpuset(self) -> Bitmap | None:
        """Processors in it, with those that are unknown or not allowed."""
        return self._bitmap("complete_cpuset")

    @property
    def nodeset(self) -> Bitmap | None:
        """NUMA nodes in it, or around it."""
        return self._bitmap("nodeset")

    @property
    def complete_nodeset(self) -> Bitmap | None:
        """NUMA nodes in it or around it, with those that are unknown or not allowed."""
        return self._bitmap("complete_nodeset")

    def is_in_subtree(self, subtree_root: Object) -> bool:
        """Whether its processors are among those of `subtree_root`; False for devices."""
        own, other = self.cpuset, subtree_root.cpuset
        return own is not None and other is not None and own.is_included(other)

    def __str__(self) -> str:
        parts = [f"{self.type.name}#{self.logical_index}"]
        parts += [f"({self.name})"] if self.name else []
        parts += [f"[{self.subtype}]"] if self.subtype else []
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"Object(type={self.type.name}, logical_index={self.logical_index}, depth={self.depth})"

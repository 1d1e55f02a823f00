"""Objects of a topology by type: caches, memory, groups, bridges and devices.

What an object of any type can say stands in :mod:`fluxres.hwloc._object`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fluxres.hwloc import _structs
from fluxres.hwloc._enums import (
    GetTypeDepth,
    ObjBridgeType,
    ObjCacheType,
    ObjOsdevType,
    ObjSnprintfFlag,
    ObjType,
    ObjTypeCmp,
)
from fluxres.hwloc._library import C
from fluxres.hwloc._object import Object
from fluxres.hwloc.utils import PciId

if TYPE_CHECKING:
    from fluxres.hwloc._structs import ObjPtr
    from fluxres.hwloc.utils import TopoRef

__all__ = [
    "Bridge",
    "Cache",
    "GetTypeDepth",
    "Group",
    "NumaNode",
    "ObjBridgeType",
    "ObjOsdevType",
    "ObjSnprintfFlag",
    "ObjType",
    "ObjTypeCmp",
    "Object",
    "OsDevice",
    "PciDevice",
    "compare_types",
]


class NumaNode(Object):
    """Memory."""

    @dataclass
    class PageType:
        """Pages of one size in bytes."""

        size: int
        count: int

    @property
    def attr(self) -> Any:
        """A copy of its attributes."""
        return super().attr

    @property
    def local_memory(self) -> int:
        """Bytes."""
        return int(self.attr.local_memory)

    @property
    def page_types(self) -> list[PageType]:
        """Its pages by size, the smallest first."""
        attributes = self.attr
        pages = [attributes.page_types[i] for i in range(attributes.page_types_len)]
        return [self.PageType(size=page.size, count=page.count) for page in pages]


class Cache(Object):
    """A cache of processors."""

    @property
    def attr(self) -> Any:
        """A copy of its attributes."""
        return super().attr

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self.attr.size)

    @property
    def cache_depth(self) -> int:
        """1 for L1, and so on."""
        return int(self.attr.depth)

    @property
    def linesize(self) -> int:
        """Bytes of a line, 0 if unknown."""
        return int(self.attr.linesize)

    @property
    def associativity(self) -> int:
        """Ways; -1 for fully associative, 0 if unknown."""
        return int(self.attr.associativity)

    @property
    def cache_type(self) -> int:
        """What it keeps."""
        return ObjCacheType(self.attr.type)


class Group(Object):
    """Objects that belong together for no reason the other types have."""

    @property
    def attr(self) -> Any:
        """A copy of its attributes."""
        return super().attr

    @property
    def group_depth(self) -> int:
        """Level among the groups."""
        return int(self.attr.depth)


class _Pci:
    """The attributes of a PCI device, one by one."""

    @property
    def attr(self) -> Any:
        """The structure they stand in."""
        raise NotImplementedError

    @property
    def func(self) -> int:
        """Function number."""
        return int(self.attr.func)

    @property
    def vendor_id(self) -> int:
        """Vendor."""
        return int(self.attr.vendor_id)

    @property
    def device_id(self) -> int:
        """Device of the vendor."""
        return int(self.attr.device_id)

    @property
    def subvendor_id(self) -> int:
        """Vendor of the board."""
        return int(self.attr.subvendor_id)

    @property
    def subdevice_id(self) -> int:
        """Board of that vendor."""
        return int(self.attr.subdevice_id)

    @property
    def revision(self) -> int:
        """Revision."""
        return int(self.attr.revision)

    @property
    def prog_if(self) -> int:
        """Third byte of the class, which libhwloc 2 does not keep (NotImplementedError)."""
        return int(self.attr.prog_if)

    @property
    def linkspeed(self) -> float:
        """GB/s of the link, 0 if unknown."""
        return float(self.attr.linkspeed)

    @property
    def base_class(self) -> int:
        """Class."""
        return int(self.attr.base_class)

    @property
    def subclass(self) -> int:
        """Class within the class."""
        return int(self.attr.subclass)

    @property
    def pci_id(self) -> PciId:
        """Domain, bus and device."""
        return PciId(self.attr.domain, self.attr.bus, self.attr.dev)


class PciDevAttr(_Pci):
    """The PCI side of a bridge."""

    def __init__(self, attr: _structs.PcidevAttr) -> None:
        self._attr = attr

    @property
    def attr(self) -> Any:
        """The structure."""
        return self._attr


class PciDevice(Object, _Pci):
    """A device on PCI."""

    @property
    def attr(self) -> Any:
        """A copy of its attributes."""
        return super().attr


class Bridge(Object):
    """From the host or from PCI to PCI."""

    @property
    def attr(self) -> Any:
        """A copy of its attributes."""
        return super().attr

    @property
    def upstream_pci(self) -> PciDevAttr:
        """It as a PCI device, as seen from above."""
        return PciDevAttr(self.attr.upstream.pci)

    @property
    def upstream_type(self) -> ObjBridgeType:
        """What is above."""
        return ObjBridgeType(self.attr.upstream_type)

    @property
    def downstream_pci(self) -> Any:
        """The buses below."""
        return self.attr.downstream.pci

    def downstream_type(self) -> ObjBridgeType:
        """What is below."""
        return ObjBridgeType(self.attr.downstream_type)


class OsDevice(Object):
    """A device as the operating system or a driver knows it."""

    @property
    def attr(self) -> Any:
        """A copy of its attributes."""
        return super().attr

    def is_osdev_type(self, typ: int) -> bool:
        """Whether it is of one of these kinds, bits of :class:`ObjOsdevType`."""
        return bool(self.attr.types & typ)

    def is_gpu(self) -> bool:
        """Whether it is a GPU."""
        return self.is_osdev_type(ObjOsdevType.GPU)

    def is_coproc(self) -> bool:
        """Whether it computes: CUDA, OpenCL and others."""
        return self.is_osdev_type(ObjOsdevType.COPROC)

    def is_storage(self) -> bool:
        """Whether it stores."""
        return self.is_osdev_type(ObjOsdevType.STORAGE)


_CLASSES: dict[ObjType, type[Object]] = {
    ObjType.NUMANODE: NumaNode,
    ObjType.GROUP: Group,
    ObjType.PCI_DEVICE: PciDevice,
    ObjType.BRIDGE: Bridge,
    ObjType.OS_DEVICE: OsDevice,
    **{type_: Cache for type_ in ObjType if type_.name.endswith("CACHE") and type_ != ObjType.MEMCACHE},
}


def object_of(handle: ObjPtr, topology: TopoRef) -> Object:
    """The object behind a pointer, of the class of its type; to be called while the topology is held."""
    found = handle.contents
    return _CLASSES.get(ObjType(found.type), Object)(handle, topology) if found.attr else Object(handle, topology)


def compare_types(type1: ObjType | Object, type2: ObjType | Object) -> ObjTypeCmp:
    """Whether objects of one type usually contain those of the other: of package and core the answer is INCLUDE."""
    first = type1.type if isinstance(type1, Object) else type1
    second = type2.type if isinstance(type2, Object) else type2
    order = C.compare_types(first, second)
    if order == ObjTypeCmp.UNORDERED:
        return ObjTypeCmp.UNORDERED
    return ObjTypeCmp((order > 0) - (order < 0))

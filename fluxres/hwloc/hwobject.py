"""The objects of a topology: `Object`, and a subclass for each type that has attributes.

An object is a pointer and a weak reference to its topology.  Each read takes the topology's lock, checks that the topology
still exists and that :meth:`Topology.restrict` has not removed the object, and only then follows the pointer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

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
from fluxres.hwloc._library import C, check
from fluxres.hwloc.bitmap import Bitmap, copy_of
from fluxres.hwloc.utils import Flags, PciId, TopologyPart, info_dict, or_flags

if TYPE_CHECKING:
    from fluxres.hwloc._structs import Obj, ObjPtr
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


class Object(TopologyPart):
    """An object of a topology; get one from the topology or from another object.

    Two objects are equal if they are the same object of the same topology.

    Errors: every read raises RuntimeError if the topology was destroyed or the object was removed from it.
    """

    def __init__(self, hdl: ObjPtr, topology: TopoRef) -> None:
        if not hdl:
            raise ValueError("expected a pointer to an object, got NULL")
        self._hdl = hdl
        self._topo_ref = topology
        self._generation = self._topo.generation

    @property
    def native_handle(self) -> ObjPtr:
        """The pointer to pass to libhwloc."""
        with self._read():
            return self._hdl

    @contextmanager
    def _read(self) -> Iterator[Obj]:
        """The structure, which stays valid inside the ``with`` block."""
        with self._locked():
            topology = self._topo
            if self._generation != topology.generation:
                if ctypes.addressof(self._hdl.contents) not in topology.addresses():
                    raise RuntimeError("Object is invalid: it was removed from its topology")
                self._generation = topology.generation
            yield self._hdl.contents

    def _field(self, name: str) -> Any:
        with self._read() as obj:
            return getattr(obj, name)

    def _text(self, name: str) -> str | None:
        value = self._field(name)
        return value.decode("utf-8", "replace") if value else None

    def _object(self, name: str) -> Object | None:
        with self._read() as obj:
            handle = getattr(obj, name)
            return object_of(handle, self._topo_ref) if handle else None

    def _bitmap(self, name: str) -> Bitmap | None:
        with self._read() as obj:
            handle = getattr(obj, name)
            return copy_of(handle) if handle else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Object) and hash(self) == hash(other)

    def __hash__(self) -> int:
        return ctypes.addressof(self.native_handle.contents)

    def __str__(self) -> str:
        parts = [f"{self.type.name}#{self.logical_index}"]
        parts += [f"({self.name})"] if self.name else []
        parts += [f"[{self.subtype}]"] if self.subtype else []
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"Object(type={self.type.name}, logical_index={self.logical_index}, depth={self.depth})"

    # -- type and names ----------------------------------------------------------------------------------------------

    @property
    def type(self) -> ObjType:
        return ObjType(self._field("type"))

    @property
    def subtype(self) -> str | None:
        """Kind within the type, such as ``HBM`` or ``CUDA``."""
        return self._text("subtype")

    @property
    def name(self) -> str | None:
        return self._text("name")

    @property
    def os_index(self) -> int:
        """Index assigned by the operating system, ``HWLOC_UNKNOWN_INDEX`` if there is none."""
        return int(self._field("os_index"))

    @property
    def gp_index(self) -> int:
        """Index that is unique in the topology and survives changes of it."""
        return int(self._field("gp_index"))

    @property
    def total_memory(self) -> int:
        """Bytes of memory of all NUMA nodes below this object."""
        return int(self._field("total_memory"))

    def is_numa_node(self) -> bool:
        return self.type == ObjType.NUMANODE

    def is_group(self) -> bool:
        return self.type == ObjType.GROUP

    def is_pci_device(self) -> bool:
        return self.type == ObjType.PCI_DEVICE

    def is_bridge(self) -> bool:
        return self.type == ObjType.BRIDGE

    def is_os_device(self) -> bool:
        return self.type == ObjType.OS_DEVICE

    def is_package(self) -> bool:
        return self.type == ObjType.PACKAGE

    def is_machine(self) -> bool:
        return self.type == ObjType.MACHINE

    def is_normal(self) -> bool:
        """Whether the type belongs to the main tree: not memory, I/O or Misc."""
        return bool(C.obj_type_is_normal(self.type))

    def is_io(self) -> bool:
        """Whether it is a bridge, a PCI device or an OS device."""
        return bool(C.obj_type_is_io(self.type))

    def is_memory(self) -> bool:
        """Whether it is a NUMA node or a memory-side cache."""
        return bool(C.obj_type_is_memory(self.type))

    def is_cache(self) -> bool:
        """Whether it is a CPU cache; memory-side caches are not."""
        return bool(C.obj_type_is_cache(self.type))

    def is_dcache(self) -> bool:
        return bool(C.obj_type_is_dcache(self.type))

    def is_icache(self) -> bool:
        return bool(C.obj_type_is_icache(self.type))

    # -- position among its parent, siblings and level ---------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Level in the main tree, or one of the negative values of `GetTypeDepth` for memory, I/O and Misc objects."""
        return int(self._field("depth"))

    @property
    def logical_index(self) -> int:
        """Index among the objects of its level."""
        return int(self._field("logical_index"))

    @property
    def sibling_rank(self) -> int:
        """Index among the children of its parent that are of its kind: normal, memory, I/O or Misc."""
        return int(self._field("sibling_rank"))

    @property
    def parent(self) -> Object | None:
        """The object that contains this one; None for the machine."""
        return self._object("parent")

    @property
    def next_cousin(self) -> Object | None:
        return self._object("next_cousin")

    @property
    def prev_cousin(self) -> Object | None:
        return self._object("prev_cousin")

    @property
    def next_sibling(self) -> Object | None:
        return self._object("next_sibling")

    @property
    def prev_sibling(self) -> Object | None:
        return self._object("prev_sibling")

    def iter_siblings(self) -> Iterator[Object]:
        """All siblings in order, including this object."""
        first = self
        while (before := first.prev_sibling) is not None:
            first = before
        yield from _and_next_siblings(first)

    # -- children ----------------------------------------------------------------------------------------------------

    @property
    def arity(self) -> int:
        """Number of normal children; memory, I/O and Misc children are counted separately."""
        return int(self._field("arity"))

    @property
    def children(self) -> list[Object]:
        """Normal children; memory, I/O and Misc children have iterators of their own."""
        with self._read() as obj:
            return [object_of(obj.children[i], self._topo_ref) for i in range(obj.arity)]

    @property
    def first_child(self) -> Object | None:
        return self._object("first_child")

    @property
    def last_child(self) -> Object | None:
        return self._object("last_child")

    @property
    def symmetric_subtree(self) -> bool:
        """Whether all normal children have identical subtrees, at every level below."""
        return bool(self._field("symmetric_subtree"))

    @property
    def memory_arity(self) -> int:
        return int(self._field("memory_arity"))

    @property
    def memory_first_child(self) -> Object | None:
        return self._object("memory_first_child")

    @property
    def io_arity(self) -> int:
        return int(self._field("io_arity"))

    @property
    def io_first_child(self) -> Object | None:
        return self._object("io_first_child")

    @property
    def misc_arity(self) -> int:
        return int(self._field("misc_arity"))

    @property
    def misc_first_child(self) -> Object | None:
        return self._object("misc_first_child")

    def iter_children(self) -> Iterator[Object]:
        return _and_next_siblings(self.first_child)

    def iter_memory_children(self) -> Iterator[Object]:
        """NUMA nodes and memory-side caches in order."""
        return _and_next_siblings(self.memory_first_child)

    def iter_io_children(self) -> Iterator[Object]:
        """Bridges and devices in order."""
        return _and_next_siblings(self.io_first_child)

    def iter_misc_children(self) -> Iterator[Object]:
        return _and_next_siblings(self.misc_first_child)

    # -- ancestors ---------------------------------------------------------------------------------------------------

    def _ancestors(self) -> Iterator[Object]:
        """The parent, its parent, and so on up to the machine."""
        ancestor = self.parent
        while ancestor is not None:
            yield ancestor
            ancestor = ancestor.parent

    def common_ancestor_obj(self, other: Object) -> Object:
        """The deepest object that contains both, which may be one of them.

        Errors: ValueError if one is outside the main tree, or if they belong to different topologies.
        """
        self._check_same_topology(other)
        if self.depth < 0 or other.depth < 0:
            raise ValueError("This function only works with objects in the main tree.")
        candidates = {self, *self._ancestors()}
        return next(ancestor for ancestor in (other, *other._ancestors()) if ancestor in candidates)

    def get_ancestor_obj_by_depth(self, depth: int) -> Object | None:
        """The ancestor on a level, or the object itself if it is on that level; None for a level below it."""
        if self.depth < depth:
            return None
        # Branches of an irregular tree skip levels, so the ancestor may be above the level asked for.
        return next((ancestor for ancestor in (self, *self._ancestors()) if ancestor.depth <= depth), None)

    def get_ancestor_obj_by_type(self, obj_type: ObjType) -> Object | None:
        """The nearest ancestor of a type."""
        return next((ancestor for ancestor in self._ancestors() if ancestor.type == obj_type), None)

    def is_in_subtree(self, subtree_root: Object) -> bool:
        """Whether `subtree_root` has all PUs of this object; False for I/O and Misc objects, which have no PUs."""
        own, other = self.cpuset, subtree_root.cpuset
        return own is not None and other is not None and own.is_included(other)

    # -- CPU sets and node sets --------------------------------------------------------------------------------------

    @property
    def cpuset(self) -> Bitmap | None:
        """A copy of the set of its PUs; None for I/O and Misc objects."""
        return self._bitmap("cpuset")

    @property
    def complete_cpuset(self) -> Bitmap | None:
        """As `cpuset`, including PUs that are disallowed or whose position is unknown."""
        return self._bitmap("complete_cpuset")

    @property
    def nodeset(self) -> Bitmap | None:
        """A copy of the set of NUMA nodes in or near this object; None for I/O and Misc objects."""
        return self._bitmap("nodeset")

    @property
    def complete_nodeset(self) -> Bitmap | None:
        """As `nodeset`, including NUMA nodes that are disallowed or whose position is unknown."""
        return self._bitmap("complete_nodeset")

    # -- attributes and info -----------------------------------------------------------------------------------------

    @property
    def attr(self) -> ctypes.Structure | None:
        """A copy of the attributes of its type; None for types that have none."""
        with self._read() as obj:
            known = _TYPES.get(ObjType(obj.type))
            return _structs.own_attributes(getattr(obj.attr.contents, known[1])) if known and obj.attr else None

    def format_attr(self, sep: str = ", ", flags: Flags[ObjSnprintfFlag] = ObjSnprintfFlag.OLD_VERBOSE) -> str | None:
        """The attributes and info as text; None if there are none."""
        size = 1024
        while True:
            buffer = ctypes.create_string_buffer(size)
            with self._read() as obj:
                length = C.obj_attr_snprintf(buffer, size, ctypes.byref(obj), sep.encode("utf-8"), or_flags(flags))
            if length < size:
                return buffer.value.decode("utf-8", "replace") or None
            size = length + 1

    @property
    def info(self) -> dict[str, str]:
        """Additional information by key; of a key that occurs twice, the last value."""
        with self._read() as obj:
            return info_dict(obj.infos, obj.infos_count)

    def get_info_by_name(self, name: str) -> str | None:
        """The value of a key in `info`; of a key that occurs twice, the first value."""
        with self._read() as obj:
            infos = [obj.infos[i] for i in range(obj.infos_count)]
            values = [info.value for info in infos if info.name == name.encode("utf-8")]
        return values[0].decode("utf-8", "replace") if values and values[0] is not None else None

    def add_info(self, name: str, value: str) -> None:
        """Add a key and its value to `info`.

        Errors: ValueError if either is empty.
        """
        if not name or not value:
            raise ValueError("name and value must be non-empty strings")
        with self._read() as obj:
            check(C.obj_add_info(ctypes.byref(obj), name.encode("utf-8"), value.encode("utf-8")))

    @property
    def pci_id(self) -> PciId:
        """Address on the PCI bus.

        Errors: ValueError if it is not a PCI device.
        """
        attributes = self.attr
        if not isinstance(attributes, _structs.PcidevAttr):
            raise ValueError(f"Invalid object type. Expecting PCI device, got {self.type!r}")
        return PciId(attributes.domain, attributes.bus, attributes.dev)


def _and_next_siblings(obj: Object | None) -> Iterator[Object]:
    while obj is not None:
        yield obj
        obj = obj.next_sibling


class _WithAttributes(Object):
    """An object of a type that has attributes."""

    @property
    def attr(self) -> Any:
        """A copy of the attributes."""
        return super().attr


class NumaNode(_WithAttributes):
    """A NUMA node: memory that is near some PUs."""

    @dataclass
    class PageType:
        """Memory pages of one size in bytes."""

        size: int
        count: int

    @property
    def local_memory(self) -> int:
        """Memory in bytes."""
        return int(self.attr.local_memory)

    @property
    def page_types(self) -> list[PageType]:
        """Page sizes and the number of pages of each, in ascending order."""
        attributes = self.attr
        pages = [attributes.page_types[i] for i in range(attributes.page_types_len)]
        return [self.PageType(size=page.size, count=page.count) for page in pages]


class Cache(_WithAttributes):
    """A CPU cache."""

    @property
    def size(self) -> int:
        """Size in bytes."""
        return int(self.attr.size)

    @property
    def cache_depth(self) -> int:
        """1 for L1, 2 for L2 and so on."""
        return int(self.attr.depth)

    @property
    def linesize(self) -> int:
        """Size of a cache line in bytes, 0 if unknown."""
        return int(self.attr.linesize)

    @property
    def associativity(self) -> int:
        """Number of ways; -1 if fully associative, 0 if unknown."""
        return int(self.attr.associativity)

    @property
    def cache_type(self) -> int:
        """Unified, data or instruction cache, as an `ObjCacheType`."""
        return ObjCacheType(self.attr.type)


class Group(_WithAttributes):
    """Objects that the operating system, libhwloc or the user put together."""

    @property
    def group_depth(self) -> int:
        """Nesting level among groups."""
        return int(self.attr.depth)


class _HasPciAttributes(Protocol):
    @property
    def attr(self) -> _structs.PcidevAttr: ...


class _PciProperties:
    """The PCI attributes in `attr` as properties."""

    @property
    def func(self: _HasPciAttributes) -> int:
        """Function number in the PCI address."""
        return int(self.attr.func)

    @property
    def vendor_id(self: _HasPciAttributes) -> int:
        return int(self.attr.vendor_id)

    @property
    def device_id(self: _HasPciAttributes) -> int:
        return int(self.attr.device_id)

    @property
    def subvendor_id(self: _HasPciAttributes) -> int:
        return int(self.attr.subvendor_id)

    @property
    def subdevice_id(self: _HasPciAttributes) -> int:
        return int(self.attr.subdevice_id)

    @property
    def revision(self: _HasPciAttributes) -> int:
        return int(self.attr.revision)

    @property
    def base_class(self: _HasPciAttributes) -> int:
        return int(self.attr.base_class)

    @property
    def subclass(self: _HasPciAttributes) -> int:
        return int(self.attr.subclass)

    @property
    def prog_if(self: _HasPciAttributes) -> int:
        """Third byte of the PCI class code.

        Errors: NotImplementedError, because libhwloc 2 does not record it.
        """
        return int(self.attr.prog_if)

    @property
    def linkspeed(self: _HasPciAttributes) -> float:
        """Link speed in GB/s, 0 if unknown."""
        return float(self.attr.linkspeed)


class PciDevAttr(_PciProperties):
    """The PCI side of a bridge."""

    def __init__(self, attr: _structs.PcidevAttr) -> None:
        self._attr = attr

    @property
    def attr(self) -> Any:
        return self._attr

    @property
    def pci_id(self) -> PciId:
        """Address on the PCI bus."""
        return PciId(self._attr.domain, self._attr.bus, self._attr.dev)


class PciDevice(_WithAttributes, _PciProperties):
    """A PCI device."""


class Bridge(_WithAttributes):
    """A bridge from the host to PCI, or between PCI buses."""

    @property
    def upstream_pci(self) -> PciDevAttr:
        """The bridge as a PCI device on its upstream bus."""
        return PciDevAttr(self.attr.upstream.pci)

    @property
    def upstream_type(self) -> ObjBridgeType:
        return ObjBridgeType(self.attr.upstream_type)

    @property
    def downstream_pci(self) -> Any:
        """Domain, secondary and subordinate bus."""
        return self.attr.downstream.pci

    def downstream_type(self) -> ObjBridgeType:
        return ObjBridgeType(self.attr.downstream_type)


class OsDevice(_WithAttributes):
    """A device as the operating system or a driver shows it, such as ``eth0`` or ``cuda0``."""

    def is_osdev_type(self, typ: int) -> bool:
        """Whether it is of at least one of the types in `typ`, bits of `ObjOsdevType`."""
        return bool(self.attr.types & typ)

    def is_gpu(self) -> bool:
        return self.is_osdev_type(ObjOsdevType.GPU)

    def is_coproc(self) -> bool:
        """Whether it is a co-processor, such as a CUDA or OpenCL device."""
        return self.is_osdev_type(ObjOsdevType.COPROC)

    def is_storage(self) -> bool:
        return self.is_osdev_type(ObjOsdevType.STORAGE)


#: type -> (class, member of the union of attributes)
_TYPES: Final[dict[ObjType, tuple[type[Object], str]]] = {
    ObjType.NUMANODE: (NumaNode, "numanode"),
    ObjType.GROUP: (Group, "group"),
    ObjType.PCI_DEVICE: (PciDevice, "pcidev"),
    ObjType.BRIDGE: (Bridge, "bridge"),
    ObjType.OS_DEVICE: (OsDevice, "osdev"),
    **{type_: (Cache, "cache") for type_ in ObjType if ObjType.L1CACHE <= type_ <= ObjType.L3ICACHE},
}


def object_of(handle: ObjPtr, topology: TopoRef) -> Object:
    """The object behind a pointer, as an instance of the class of its type; the caller holds the topology's lock."""
    known = _TYPES.get(ObjType(handle.contents.type))
    return known[0](handle, topology) if known and handle.contents.attr else Object(handle, topology)


def compare_types(type1: ObjType | Object, type2: ObjType | Object) -> ObjTypeCmp:
    """Whether objects of the first type usually contain those of the second: INCLUDE for package and core."""
    first = type1.type if isinstance(type1, Object) else type1
    second = type2.type if isinstance(type2, Object) else type2
    order = C.compare_types(first, second)
    if order == ObjTypeCmp.UNORDERED:
        return ObjTypeCmp.UNORDERED
    return ObjTypeCmp((order > 0) - (order < 0))

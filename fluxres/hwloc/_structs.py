"""Memory layouts and numbers of libhwloc 2, as its ABI has them since 2.1.

Fields that releases added stand at the end of structures which the library allocates, and are read only where the
version says that they are there.  Copies of attributes leave here with nothing in them that points into a topology.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_float, c_int, c_ubyte, c_uint, c_uint64, c_ulong, c_ushort, c_void_p
from typing import TYPE_CHECKING, Any, Final, TypeAlias

UNKNOWN_INDEX: Final = 0xFFFFFFFF
TYPE_UNORDERED: Final = 0x7FFFFFFF


class Printable(ctypes.Structure):
    """A structure that prints its fields."""

    def __str__(self) -> str:
        shown = []
        for name, *_ in self._fields_:
            value = getattr(self, name)
            if isinstance(value, ctypes._Pointer):
                shown.append(f"Pointer[{name}]({value.contents})" if value else f"{name}=None")
            else:
                shown.append(f"{name}={value}")
        return f"{type(self).__name__}({', '.join(shown)})"


class Info(Printable):
    """A key and its value."""

    _fields_ = (("name", c_char_p), ("value", c_char_p))


class MemoryPageType(Printable):
    """Pages of one size."""

    _fields_ = (("size", c_uint64), ("count", c_uint64))


class NumanodeAttr(Printable):
    """Of a NUMA node; memory in bytes."""

    _fields_ = (("local_memory", c_uint64), ("page_types_len", c_uint), ("page_types", POINTER(MemoryPageType)))


class CacheAttr(Printable):
    """Of a cache; sizes in bytes."""

    _fields_ = (("size", c_uint64), ("depth", c_uint), ("linesize", c_uint), ("associativity", c_int), ("type", c_int))


class GroupAttr(Printable):
    """Of a group."""

    _fields_ = (("depth", c_uint), ("kind", c_uint), ("subkind", c_uint), ("dont_merge", c_ubyte))


class PcidevAttr(Printable):
    """Of a PCI device; the link speed is in GB/s."""

    _fields_ = (
        ("domain", c_ushort),
        ("bus", c_ubyte),
        ("dev", c_ubyte),
        ("func", c_ubyte),
        ("class_id", c_ushort),
        ("vendor_id", c_ushort),
        ("device_id", c_ushort),
        ("subvendor_id", c_ushort),
        ("subdevice_id", c_ushort),
        ("revision", c_ubyte),
        ("linkspeed", c_float),
    )

    @property
    def base_class(self) -> int:
        """Upper byte of the class."""
        return int(self.class_id) >> 8

    @property
    def subclass(self) -> int:
        """Lower byte of the class."""
        return int(self.class_id) & 0xFF

    @property
    def prog_if(self) -> int:
        """Third byte of the class, which libhwloc 2 does not keep."""
        raise NotImplementedError("libhwloc 2 does not keep the programming interface of PCI devices")


class BridgeUpstream(ctypes.Union):
    """What a bridge is above."""

    _fields_ = (("pci", PcidevAttr),)


class BridgeDownstreamPci(Printable):
    """PCI buses below a bridge."""

    _fields_ = (("domain", c_ushort), ("secondary_bus", c_ubyte), ("subordinate_bus", c_ubyte))


class BridgeDownstream(ctypes.Union):
    """What a bridge is below."""

    _fields_ = (("pci", BridgeDownstreamPci),)


class BridgeAttr(Printable):
    """Of a bridge."""

    _fields_ = (
        ("upstream", BridgeUpstream),
        ("upstream_type", c_int),
        ("downstream", BridgeDownstream),
        ("downstream_type", c_int),
        ("depth", c_uint),
    )


#: by the number libhwloc 2 has for a kind of device: the bit that pyhwloc and libhwloc 3 have for it
OSDEV_BITS: Final = {0: 1 << 0, 1: 1 << 2, 2: 1 << 4, 3: 1 << 5, 4: 1 << 6, 5: 1 << 3}


class OsdevAttr(Printable):
    """Of a device of the operating system."""

    _fields_ = (("type", c_int),)

    @property
    def types(self) -> int:
        """Its kind as a set of one bit of :class:`~fluxres.hwloc.hwobject.ObjOsdevType`."""
        return OSDEV_BITS.get(self.type, 0)


class ObjAttr(ctypes.Union):
    """What an object has by its type."""

    _fields_ = (
        ("numanode", NumanodeAttr),
        ("cache", CacheAttr),
        ("group", GroupAttr),
        ("pcidev", PcidevAttr),
        ("bridge", BridgeAttr),
        ("osdev", OsdevAttr),
    )


class Obj(Printable):
    """An object of a topology."""


obj_t: Final = POINTER(Obj)

Obj._fields_ = (
    ("type", c_int),
    ("subtype", c_char_p),
    ("os_index", c_uint),
    ("name", c_char_p),
    ("total_memory", c_uint64),
    ("attr", POINTER(ObjAttr)),
    ("depth", c_int),
    ("logical_index", c_uint),
    ("next_cousin", obj_t),
    ("prev_cousin", obj_t),
    ("parent", obj_t),
    ("sibling_rank", c_uint),
    ("next_sibling", obj_t),
    ("prev_sibling", obj_t),
    ("arity", c_uint),
    ("children", POINTER(obj_t)),
    ("first_child", obj_t),
    ("last_child", obj_t),
    ("symmetric_subtree", c_int),
    ("memory_arity", c_uint),
    ("memory_first_child", obj_t),
    ("io_arity", c_uint),
    ("io_first_child", obj_t),
    ("misc_arity", c_uint),
    ("misc_first_child", obj_t),
    ("cpuset", c_void_p),
    ("complete_cpuset", c_void_p),
    ("nodeset", c_void_p),
    ("complete_nodeset", c_void_p),
    ("infos", POINTER(Info)),
    ("infos_count", c_uint),
    ("userdata", c_void_p),
    ("gp_index", c_uint64),
)

if TYPE_CHECKING:
    ObjPtr: TypeAlias = ctypes._Pointer[Obj]
    DistancesPtr: TypeAlias = "ctypes._Pointer[Distances]"
else:
    ObjPtr = DistancesPtr = Any


class Distances(Printable):
    """A matrix of values between objects, row by row."""

    _fields_ = (("nbobjs", c_uint), ("objs", POINTER(obj_t)), ("kind", c_ulong), ("values", POINTER(c_uint64)))


class _Place(ctypes.Union):
    _fields_ = (("cpuset", c_void_p), ("object", obj_t))


class Location(Printable):
    """Who accesses memory: an object or a set of processors."""

    _fields_ = (("type", c_int), ("location", _Place))


def _flags(*names: str) -> tuple[tuple[str, type[c_ubyte]], ...]:
    return tuple((name, c_ubyte) for name in names)


class DiscoverySupport(Printable):
    """What can be found out; the last field exists since 2.4."""

    _fields_ = _flags("pu", "numa", "numa_memory", "disallowed_pu", "disallowed_numa", "cpukind_efficiency")


class CpubindSupport(Printable):
    """Which binding to processors works."""

    _fields_ = _flags(
        *("set_thisproc_cpubind", "get_thisproc_cpubind", "set_proc_cpubind", "get_proc_cpubind"),
        *("set_thisthread_cpubind", "get_thisthread_cpubind", "set_thread_cpubind", "get_thread_cpubind"),
        *("get_thisproc_last_cpu_location", "get_proc_last_cpu_location", "get_thisthread_last_cpu_location"),
    )


class MembindSupport(Printable):
    """Which binding of memory works; the last field exists since 2.11."""

    _fields_ = _flags(
        *("set_thisproc_membind", "get_thisproc_membind", "set_proc_membind", "get_proc_membind"),
        *("set_thisthread_membind", "get_thisthread_membind", "set_area_membind", "get_area_membind"),
        *("alloc_membind", "firsttouch_membind", "bind_membind", "interleave_membind", "nexttouch_membind"),
        *("migrate_membind", "get_area_memlocation", "weighted_interleave_membind"),
    )


class MiscSupport(Printable):
    """Whether the other flags came with the topology from another machine."""

    _fields_ = _flags("imported_support")


class TopologySupport(Printable):
    """What works on this machine; the last field exists since 2.3."""

    _fields_ = (
        ("discovery", POINTER(DiscoverySupport)),
        ("cpubind", POINTER(CpubindSupport)),
        ("membind", POINTER(MembindSupport)),
        ("misc", POINTER(MiscSupport)),
    )


#: field -> API version that brought it; older libraries have other memory there
SUPPORT_SINCE: Final = {
    "misc": (2, 3, 0),
    "cpukind_efficiency": (2, 4, 0),
    "weighted_interleave_membind": (2, 11, 0),
}


def own_attributes(attributes: ctypes.Structure) -> ctypes.Structure:
    """A copy that stays readable when its topology is gone."""
    copy = type(attributes).from_buffer_copy(attributes)
    if isinstance(copy, NumanodeAttr) and copy.page_types_len:
        pages = (MemoryPageType * copy.page_types_len)()
        ctypes.memmove(pages, copy.page_types, ctypes.sizeof(pages))
        copy.page_types = ctypes.cast(pages, POINTER(MemoryPageType))
    return copy

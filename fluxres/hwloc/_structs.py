"""The structures and constants of the ABI of libhwloc 2.1 and newer.

Later releases added fields at the end of structures that the library allocates.  These fields are read only if the version of
the library is recent enough.
"""

from __future__ import annotations

import ctypes
from collections import namedtuple
from ctypes import POINTER, c_char_p, c_float, c_int, c_ubyte, c_uint, c_uint64, c_ulong, c_ushort, c_void_p
from typing import TYPE_CHECKING, Any, Final, TypeAlias

UNKNOWN_INDEX: Final = 0xFFFFFFFF
TYPE_UNORDERED: Final = 0x7FFFFFFF


class Printable(ctypes.Structure):
    """A structure whose ``str`` shows its fields."""

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
    """A key and its value, both in UTF-8."""

    _fields_ = (("name", c_char_p), ("value", c_char_p))


class MemoryPageType(Printable):
    """Memory pages of one size in bytes, and their number."""

    _fields_ = (("size", c_uint64), ("count", c_uint64))


class NumanodeAttr(Printable):
    """Attributes of a NUMA node; `local_memory` is in bytes."""

    _fields_ = (("local_memory", c_uint64), ("page_types_len", c_uint), ("page_types", POINTER(MemoryPageType)))


class CacheAttr(Printable):
    """Attributes of a cache; `size` and `linesize` are in bytes."""

    _fields_ = (("size", c_uint64), ("depth", c_uint), ("linesize", c_uint), ("associativity", c_int), ("type", c_int))


class GroupAttr(Printable):
    _fields_ = (("depth", c_uint), ("kind", c_uint), ("subkind", c_uint), ("dont_merge", c_ubyte))


class PcidevAttr(Printable):
    """Attributes of a PCI device; `linkspeed` is in GB/s."""

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
        """Upper byte of `class_id`."""
        return int(self.class_id) >> 8

    @property
    def subclass(self) -> int:
        """Lower byte of `class_id`."""
        return int(self.class_id) & 0xFF

    @property
    def prog_if(self) -> int:
        """Third byte of the PCI class code.

        Errors: NotImplementedError, because libhwloc 2 does not record it.
        """
        raise NotImplementedError("libhwloc 2 does not record the programming interface of PCI devices")


class BridgeUpstream(ctypes.Union):
    _fields_ = (("pci", PcidevAttr),)


class BridgeDownstreamPci(Printable):
    """The PCI buses below a bridge."""

    _fields_ = (("domain", c_ushort), ("secondary_bus", c_ubyte), ("subordinate_bus", c_ubyte))


class BridgeDownstream(ctypes.Union):
    _fields_ = (("pci", BridgeDownstreamPci),)


class BridgeAttr(Printable):
    _fields_ = (
        ("upstream", BridgeUpstream),
        ("upstream_type", c_int),
        ("downstream", BridgeDownstream),
        ("downstream_type", c_int),
        ("depth", c_uint),
    )


#: type of OS device as libhwloc 2 numbers it -> its bit in libhwloc 3 and pyhwloc
OSDEV_BITS: Final = {0: 1 << 0, 1: 1 << 2, 2: 1 << 4, 3: 1 << 5, 4: 1 << 6, 5: 1 << 3}


class OsdevAttr(Printable):
    """Attributes of an OS device; `type` is the number that libhwloc 2 has for it."""

    _fields_ = (("type", c_int),)

    @property
    def types(self) -> int:
        """Its type as a bit of :class:`~fluxres.hwloc.hwobject.ObjOsdevType`."""
        return OSDEV_BITS.get(self.type, 0)


class ObjAttr(ctypes.Union):
    """The attributes of an object; its type selects the member."""

    _fields_ = (
        ("numanode", NumanodeAttr),
        ("cache", CacheAttr),
        ("group", GroupAttr),
        ("pcidev", PcidevAttr),
        ("bridge", BridgeAttr),
        ("osdev", OsdevAttr),
    )


class Obj(Printable):
    """An object of a topology; its fields are set below, because their types refer to this class."""


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
    """A matrix of values between objects, in row-major order."""

    _fields_ = (("nbobjs", c_uint), ("objs", POINTER(obj_t)), ("kind", c_ulong), ("values", POINTER(c_uint64)))


class _LocationUnion(ctypes.Union):
    _fields_ = (("cpuset", c_void_p), ("object", obj_t))


class Location(Printable):
    """The initiator of memory accesses: an object or a CPU set."""

    _fields_ = (("type", c_int), ("location", _LocationUnion))


def _flags(*names: str) -> tuple[tuple[str, type[c_ubyte]], ...]:
    return tuple((name, c_ubyte) for name in names)


class DiscoverySupport(Printable):
    """What libhwloc can discover; the last field exists since 2.4."""

    _fields_ = _flags("pu", "numa", "numa_memory", "disallowed_pu", "disallowed_numa", "cpukind_efficiency")


class CpubindSupport(Printable):
    """Which calls for CPU binding work."""

    _fields_ = _flags(
        *("set_thisproc_cpubind", "get_thisproc_cpubind", "set_proc_cpubind", "get_proc_cpubind"),
        *("set_thisthread_cpubind", "get_thisthread_cpubind", "set_thread_cpubind", "get_thread_cpubind"),
        *("get_thisproc_last_cpu_location", "get_proc_last_cpu_location", "get_thisthread_last_cpu_location"),
    )


class MembindSupport(Printable):
    """Which calls for memory binding work; the last field exists since 2.11."""

    _fields_ = _flags(
        *("set_thisproc_membind", "get_thisproc_membind", "set_proc_membind", "get_proc_membind"),
        *("set_thisthread_membind", "get_thisthread_membind", "set_area_membind", "get_area_membind"),
        *("alloc_membind", "firsttouch_membind", "bind_membind", "interleave_membind", "nexttouch_membind"),
        *("migrate_membind", "get_area_memlocation", "weighted_interleave_membind"),
    )


class MiscSupport(Printable):
    """Whether the flags were imported from the XML of another machine."""

    _fields_ = _flags("imported_support")


class TopologySupport(Printable):
    """What libhwloc supports on this machine; the last field exists since 2.3."""

    _fields_ = (
        ("discovery", POINTER(DiscoverySupport)),
        ("cpubind", POINTER(CpubindSupport)),
        ("membind", POINTER(MembindSupport)),
        ("misc", POINTER(MiscSupport)),
    )


#: field -> API version that added it; in older libraries the structure ends before it
SUPPORT_SINCE: Final = {
    "misc": (2, 3, 0),
    "cpukind_efficiency": (2, 4, 0),
    "weighted_interleave_membind": (2, 11, 0),
}


def own_attributes(attributes: ctypes.Structure) -> ctypes.Structure:
    """A copy that contains no pointer into the topology."""
    copy = type(attributes).from_buffer_copy(attributes)
    if isinstance(copy, NumanodeAttr) and copy.page_types_len:
        pages = (MemoryPageType * copy.page_types_len)()
        ctypes.memmove(pages, copy.page_types, ctypes.sizeof(pages))
        copy.page_types = ctypes.cast(pages, POINTER(MemoryPageType))
    return copy


def support_tuples(support: TopologySupport, version: tuple[int, int, int]) -> Any:
    """A copy as named tuples of booleans; flags that this version of libhwloc does not have are False."""
    groups: dict[str, Any] = {}
    for name, pointer_type in support._fields_:
        has_group = version >= SUPPORT_SINCE.get(name, (0,)) and bool(getattr(support, name))
        flags = getattr(support, name).contents if has_group else None
        fields = [field for field, *_ in pointer_type._type_._fields_]
        values = {field: bool(getattr(flags, field, 0)) and version >= SUPPORT_SINCE.get(field, (0,)) for field in fields}
        groups[name] = namedtuple(f"{name.capitalize()}Support", fields)(**values)
    return namedtuple("TopologySupport", list(groups))(**groups)

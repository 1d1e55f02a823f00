"""Memory attributes: capacity of NUMA nodes, bandwidth and latency of access to them.  Requires libhwloc 2.3 or newer."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from fluxres.hwloc._enums import LocalNumaNodeFlag, LocationType, MemAttrFlag, MemAttrId
from fluxres.hwloc._library import C, check
from fluxres.hwloc._structs import Location, obj_t
from fluxres.hwloc.bitmap import Bitmap, copy_of
from fluxres.hwloc.hwobject import Object, object_of
from fluxres.hwloc.utils import Flags, TopologyPart, or_flags

if TYPE_CHECKING:
    from fluxres.hwloc.utils import TopoRef

__all__ = ["LocalNumaNodeFlag", "MemAttr", "MemAttrFlag", "MemAttrId", "MemAttrs"]

Initiator: TypeAlias = Object | Bitmap | set[int]


class _InitiatorArgument:
    """An initiator as libhwloc takes it: a pointer to a structure, which holds pointers to what `_kept_alive` owns."""

    def __init__(self, initiator: Initiator | None, part: TopologyPart) -> None:
        self._kept_alive = Bitmap.from_sched_set(initiator) if isinstance(initiator, set) else initiator
        self._location: Location | None = None
        if self._kept_alive is None:
            return
        self._location = Location()
        if isinstance(self._kept_alive, Object):
            part._check_same_topology(self._kept_alive)
            self._location.type = LocationType.OBJECT
            self._location.location.object = self._kept_alive.native_handle
        elif isinstance(self._kept_alive, Bitmap):
            self._location.type = LocationType.CPUSET
            self._location.location.cpuset = self._kept_alive.native_handle
        else:
            raise TypeError(f"Invalid initiator, expecting a CPU set or an object, or None, got {type(initiator)}.")

    @property
    def pointer(self) -> Any:
        return None if self._location is None else ctypes.byref(self._location)


def _listed(call: Callable[[Any, Any, Any], int], item: Any) -> list[tuple[Any, int]]:
    """The items and values of a function that is called twice, for the number and then for the content."""
    count = ctypes.c_uint(0)
    check(call(ctypes.byref(count), None, None))
    if not count.value:
        return []
    items, values = (item * count.value)(), (ctypes.c_uint64 * count.value)()
    check(call(ctypes.byref(count), items, values))
    return [(items[i], int(values[i])) for i in range(min(count.value, len(items)))]


class MemAttr(TopologyPart):
    """One attribute of the NUMA nodes; for most attributes the value depends on the initiator of the accesses."""

    def __init__(self, attr_id: ctypes.c_uint, topo: TopoRef) -> None:
        self._attr_id = attr_id
        self._topo_ref = topo

    @property
    def native_handle(self) -> ctypes.c_uint:
        """The id of the attribute."""
        return self._attr_id

    @property
    def name(self) -> str:
        """Name of the attribute, such as ``Bandwidth``."""
        name = ctypes.c_char_p()
        with self._locked() as topology:
            check(C.memattr_get_name(topology, self._attr_id, ctypes.byref(name)))
            return (name.value or b"").decode("utf-8", "replace")

    @property
    def flags(self) -> int:
        """Bits of :class:`MemAttrFlag`."""
        flags = ctypes.c_ulong()
        with self._locked() as topology:
            check(C.memattr_get_flags(topology, self._attr_id, ctypes.byref(flags)))
        return flags.value

    @property
    def needs_initiator(self) -> bool:
        """Whether the value depends on the initiator."""
        return bool(self.flags & MemAttrFlag.NEED_INITIATOR)

    @property
    def higher_first(self) -> bool:
        """Whether higher values are better."""
        return bool(self.flags & MemAttrFlag.HIGHER_FIRST)

    @property
    def lower_first(self) -> bool:
        """Whether lower values are better."""
        return bool(self.flags & MemAttrFlag.LOWER_FIRST)

    def get_value(self, target_node: Object, initiator: Initiator | None = None) -> int:
        """The value of a NUMA node: bytes for capacity, MiB/s for bandwidth, ns for latency.

        Errors: ValueError if the attribute needs an initiator and none is given, or if there is no value.
        """
        value = ctypes.c_uint64()
        with self._locked() as topology:
            argument, node = _InitiatorArgument(initiator, self), self._target(target_node)
            check(C.memattr_get_value(topology, self._attr_id, node, argument.pointer, 0, ctypes.byref(value)))
        return value.value

    def set_value(self, target_node: Object, value: int, initiator: Initiator | None = None) -> None:
        with self._locked() as topology:
            argument, node = _InitiatorArgument(initiator, self), self._target(target_node)
            check(C.memattr_set_value(topology, self._attr_id, node, argument.pointer, 0, value))

    def get_best_target(self, initiator: Initiator | None = None) -> tuple[Object, int]:
        """The NUMA node with the best value, and the value.

        Errors: FileNotFoundError if no NUMA node has a value.
        """
        best, value = obj_t(), ctypes.c_uint64()
        with self._locked() as topology:
            argument = _InitiatorArgument(initiator, self)
            out = (ctypes.byref(best), ctypes.byref(value))
            check(C.memattr_get_best_target(topology, self._attr_id, argument.pointer, 0, *out))
            return object_of(best, self._topo_ref), value.value

    def get_best_initiator(self, target_node: Object) -> tuple[Object | Bitmap, int]:
        """The initiator with the best value for a NUMA node, and the value.

        Errors: ValueError if the attribute has no initiators; FileNotFoundError if no initiator has a value.
        """
        best, value = Location(), ctypes.c_uint64()
        with self._locked() as topology:
            node = self._target(target_node)
            out = (ctypes.byref(best), ctypes.byref(value))
            check(C.memattr_get_best_initiator(topology, self._attr_id, node, 0, *out))
            return self._initiator_of(best), value.value

    def get_targets(self, initiator: Initiator | None = None) -> list[tuple[Object, int]]:
        """The NUMA nodes that have a value, and their values."""
        with self._locked() as topology:
            argument = _InitiatorArgument(initiator, self)
            found = _listed(lambda *out: int(C.memattr_get_targets(topology, self._attr_id, argument.pointer, 0, *out)), obj_t)
            return [(object_of(handle, self._topo_ref), value) for handle, value in found]

    def get_initiators(self, target_node: Object) -> list[tuple[Object | Bitmap, int]]:
        """The initiators that have a value for a NUMA node, and their values."""
        with self._locked() as topology:
            node = self._target(target_node)
            found = _listed(lambda *out: int(C.memattr_get_initiators(topology, self._attr_id, node, 0, *out)), Location)
            return [(self._initiator_of(location), value) for location, value in found]

    def _target(self, node: Object) -> Any:
        self._check_same_topology(node)
        return node.native_handle

    def _initiator_of(self, location: Location) -> Object | Bitmap:
        if location.type == LocationType.OBJECT:
            return object_of(location.location.object, self._topo_ref)
        return copy_of(location.location.cpuset)

    __hash__ = None  # type: ignore[assignment]  # attributes of different topologies may be equal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemAttr) and self._attr_id.value == other._attr_id.value

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"MemAttr({self.name})"


class MemAttrs(TopologyPart):
    """The memory attributes of a topology."""

    def __init__(self, topo: TopoRef) -> None:
        self._topo_ref = topo

    def get(self, identifier: str | int | MemAttrId) -> MemAttr:
        """An attribute by name or id.

        Errors: ValueError if there is no attribute of this name.
        """
        number = ctypes.c_uint(0 if isinstance(identifier, str) else int(identifier))
        if isinstance(identifier, str):
            with self._locked() as topology:
                check(C.memattr_get_by_name(topology, identifier.encode("utf-8"), ctypes.byref(number)))
        return MemAttr(number, self._topo_ref)

    def register(self, name: str, flags: Flags[MemAttrFlag] = 0) -> MemAttr:
        """Add an attribute.

        Errors: HwLocError if the name is taken (EBUSY); ValueError unless exactly one of HIGHER_FIRST and LOWER_FIRST is given.
        """
        number = ctypes.c_uint()
        with self._locked() as topology:
            check(C.memattr_register(topology, name.encode("utf-8"), or_flags(flags), ctypes.byref(number)))
        return MemAttr(number, self._topo_ref)

    def get_local_numa_nodes(self, initiator: Initiator, flags: Flags[LocalNumaNodeFlag] = 0) -> list[Object]:
        """The NUMA nodes that are local to an initiator."""
        if initiator is None:
            raise TypeError("Initiator cannot be None")
        with self._locked() as topology:
            argument = _InitiatorArgument(initiator, self)
            # This function returns no values and takes the flags instead.
            found = _listed(
                lambda count, nodes, _: int(C.get_local_numanode_objs(topology, argument.pointer, count, nodes, or_flags(flags))),
                obj_t,
            )
            return [object_of(handle, self._topo_ref) for handle, _ in found]

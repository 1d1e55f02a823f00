"""Capacity, bandwidth and latency of memory, as seen from processors; libhwloc 2.3 or newer has them."""

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


class _Initiator:
    """Who accesses, in the form libhwloc takes; keeps alive what it points to."""

    def __init__(self, given: Initiator | None, part: TopologyPart) -> None:
        self.kept = Bitmap.from_sched_set(given) if isinstance(given, set) else given
        self.location: Location | None = None
        if self.kept is None:
            return
        self.location = Location()
        if isinstance(self.kept, Object):
            part._same(self.kept)
            self.location.type = LocationType.OBJECT
            self.location.location.object = self.kept.native_handle
        elif isinstance(self.kept, Bitmap):
            self.location.type = LocationType.CPUSET
            self.location.location.cpuset = self.kept.native_handle
        else:
            raise TypeError(f"Invalid initiator, expecting a CPU set or an object, or None, got {type(given)}.")

    @property
    def pointer(self) -> Any:
        """For the call."""
        return None if self.location is None else ctypes.byref(self.location)


def _listed(call: Callable[[Any, Any, Any], int], item: Any) -> list[tuple[Any, int]]:
    """What a function gives that is first asked how much there is: items and values."""
    count = ctypes.c_uint(0)
    check(call(ctypes.byref(count), None, None))
    if not count.value:
        return []
    items, values = (item * count.value)(), (ctypes.c_uint64 * count.value)()
    check(call(ctypes.byref(count), items, values))
    return [(items[i], int(values[i])) for i in range(min(count.value, len(items)))]


class MemAttr(TopologyPart):
    """One attribute."""

    def __init__(self, attr_id: ctypes.c_uint, topo: TopoRef) -> None:
        self._attr_id = attr_id
        self._topo_ref = topo

    @property
    def native_handle(self) -> ctypes.c_uint:
        """Its number."""
        return self._attr_id

    @property
    def name(self) -> str:
        """What it is called, such as ``Bandwidth``."""
        name = ctypes.c_char_p()
        with self._valid() as topology:
            check(C.memattr_get_name(topology, self._attr_id, ctypes.byref(name)))
            return (name.value or b"").decode("utf-8", "replace")

    @property
    def flags(self) -> int:
        """Its flags, bits of :class:`MemAttrFlag`."""
        flags = ctypes.c_ulong()
        with self._valid() as topology:
            check(C.memattr_get_flags(topology, self._attr_id, ctypes.byref(flags)))
        return flags.value

    @property
    def needs_initiator(self) -> bool:
        """Whether values depend on who accesses."""
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
        """The value of a NUMA node.

        Errors: ValueError without the initiator it needs, or without a value.
        """
        value = ctypes.c_uint64()
        with self._valid() as topology:
            who, node = _Initiator(initiator, self), self._node(target_node)
            check(C.memattr_get_value(topology, self._attr_id, node, who.pointer, 0, ctypes.byref(value)))
        return value.value

    def set_value(self, target_node: Object, value: int, initiator: Initiator | None = None) -> None:
        """Set the value of a NUMA node."""
        with self._valid() as topology:
            who, node = _Initiator(initiator, self), self._node(target_node)
            check(C.memattr_set_value(topology, self._attr_id, node, who.pointer, 0, value))

    def get_best_target(self, initiator: Initiator | None = None) -> tuple[Object, int]:
        """The NUMA node of the best value, and that.

        Errors: FileNotFoundError when there is none.
        """
        best, value = obj_t(), ctypes.c_uint64()
        with self._valid() as topology:
            who = _Initiator(initiator, self)
            out = (ctypes.byref(best), ctypes.byref(value))
            check(C.memattr_get_best_target(topology, self._attr_id, who.pointer, 0, *out))
            return object_of(best, self._topo_ref), value.value

    def get_best_initiator(self, target_node: Object) -> tuple[Object | Bitmap, int]:
        """Who has the best value for a NUMA node, and that.

        Errors: ValueError for an attribute without initiators; FileNotFoundError when there is none.
        """
        best, value = Location(), ctypes.c_uint64()
        with self._valid() as topology:
            node = self._node(target_node)
            out = (ctypes.byref(best), ctypes.byref(value))
            check(C.memattr_get_best_initiator(topology, self._attr_id, node, 0, *out))
            return self._who(best), value.value

    def get_targets(self, initiator: Initiator | None = None) -> list[tuple[Object, int]]:
        """All NUMA nodes that have a value, and it."""
        with self._valid() as topology:
            who = _Initiator(initiator, self)
            found = _listed(lambda *out: int(C.memattr_get_targets(topology, self._attr_id, who.pointer, 0, *out)), obj_t)
            return [(object_of(handle, self._topo_ref), value) for handle, value in found]

    def get_initiators(self, target_node: Object) -> list[tuple[Object | Bitmap, int]]:
        """All who have a value for a NUMA node, and it."""
        with self._valid() as topology:
            node = self._node(target_node)
            found = _listed(lambda *out: int(C.memattr_get_initiators(topology, self._attr_id, node, 0, *out)), Location)
            return [(self._who(location), value) for location, value in found]

    def _node(self, node: Object) -> Any:
        self._same(node)
        return node.native_handle

    def _who(self, location: Location) -> Object | Bitmap:
        if location.type == LocationType.OBJECT:
            return object_of(location.location.object, self._topo_ref)
        return copy_of(location.location.cpuset)

    __hash__ = None  # type: ignore[assignment]  # equal ones may be of different topologies

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemAttr) and self._attr_id.value == other._attr_id.value

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"MemAttr({self.name})"


class MemAttrs(TopologyPart):
    """The attributes of a topology."""

    def __init__(self, topo: TopoRef) -> None:
        self._topo_ref = topo

    def get(self, identifier: str | int | MemAttrId) -> MemAttr:
        """An attribute by name or number.

        Errors: ValueError for a name that there is not.
        """
        number = ctypes.c_uint(0 if isinstance(identifier, str) else int(identifier))
        if isinstance(identifier, str):
            with self._valid() as topology:
                check(C.memattr_get_by_name(topology, identifier.encode("utf-8"), ctypes.byref(number)))
        return MemAttr(number, self._topo_ref)

    def register(self, name: str, flags: Flags[MemAttrFlag] = 0) -> MemAttr:
        """A new attribute.

        Errors: HwLocError for a name that is taken (EBUSY); ValueError for flags that do not say which values are better.
        """
        number = ctypes.c_uint()
        with self._valid() as topology:
            check(C.memattr_register(topology, name.encode("utf-8"), or_flags(flags), ctypes.byref(number)))
        return MemAttr(number, self._topo_ref)

    def get_local_numa_nodes(self, initiator: Initiator, flags: Flags[LocalNumaNodeFlag] = 0) -> list[Object]:
        """The NUMA nodes near to who accesses."""
        if initiator is None:
            raise TypeError("Initiator cannot be None")
        with self._valid() as topology:
            who = _Initiator(initiator, self)
            # This function gives no values: the third argument of the list stands for the flags.
            found = _listed(
                lambda count, nodes, _: int(C.get_local_numanode_objs(topology, who.pointer, count, nodes, or_flags(flags))),
                obj_t,
            )
            return [object_of(handle, self._topo_ref) for handle, _ in found]

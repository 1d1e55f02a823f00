"""The levels of a topology, and the objects on them."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from fluxres.hwloc._enums import GetTypeDepth, ObjType
from fluxres.hwloc._library import C
from fluxres.hwloc.bitmap import Bitmap, copy_of
from fluxres.hwloc.hwobject import Bridge, NumaNode, Object, OsDevice, PciDevice, object_of

if TYPE_CHECKING:
    from fluxres.hwloc.topology import Topology

#: levels outside the tree, where libhwloc 2 has them
_SPECIAL = (
    GetTypeDepth.NUMANODE,
    GetTypeDepth.BRIDGE,
    GetTypeDepth.PCI_DEVICE,
    GetTypeDepth.OS_DEVICE,
    GetTypeDepth.MISC,
    GetTypeDepth.MEMCACHE,
)


class Levels:
    """Everything that is asked by level, type or number."""

    lock: threading.RLock
    generation: int
    _addresses: tuple[int, frozenset[int]]

    @property
    def native_handle(self) -> ctypes.c_void_p:
        """The pointer to the topology."""
        raise NotImplementedError

    def _own(self, handle: Any) -> Object:
        return object_of(handle, weakref.ref(cast("Topology", self)))

    def addresses(self) -> frozenset[int]:
        """Where all its objects are in memory; to be called while it is held."""
        if self._addresses[0] != self.generation:
            found: set[int] = set()
            for depth in (*range(self.depth), *_SPECIAL):
                for number in range(self.get_nbobjs_by_depth(depth)):
                    found.add(ctypes.addressof(C.get_obj_by_depth(self.native_handle, depth, number).contents))
            self._addresses = (self.generation, frozenset(found))
        return self._addresses[1]

    # -- levels ------------------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """How many levels."""
        with self.lock:
            return int(C.topology_get_depth(self.native_handle))

    def get_depth_type(self, depth: int) -> ObjType:
        """Type of the objects of a level.

        Errors: ValueError for a level that there is not.
        """
        with self.lock:
            return ObjType(C.get_depth_type(self.native_handle, depth))

    def _depths(self, obj_type: ObjType) -> list[int]:
        """The levels of a type: mostly one, none, or several for groups."""
        with self.lock:
            depth = int(C.get_type_depth(self.native_handle, obj_type))
            if depth == GetTypeDepth.MULTIPLE:
                return [level for level in range(self.depth) if self.get_depth_type(level) == obj_type]
            return [] if depth == GetTypeDepth.UNKNOWN else [depth]

    def get_nbobjs_by_depth(self, depth: int) -> int:
        """How many objects on a level."""
        with self.lock:
            return int(C.get_nbobjs_by_depth(self.native_handle, depth))

    def get_nbobjs_by_type(self, obj_type: ObjType) -> int:
        """How many objects of a type; -1 when they stand on several levels."""
        depths = self._depths(obj_type)
        return -1 if len(depths) > 1 else sum(self.get_nbobjs_by_depth(depth) for depth in depths)

    # -- one object --------------------------------------------------------------------------------------------------

    def get_obj_by_depth(self, depth: int, idx: int) -> Object | None:
        """The object of this number on a level."""
        if idx < 0:
            return None
        with self.lock:
            handle = C.get_obj_by_depth(self.native_handle, depth, idx)
            return self._own(handle) if handle else None

    def get_obj_by_type(self, obj_type: ObjType, idx: int) -> Object | None:
        """The object of this number of a type; None when they stand on several levels."""
        depths = self._depths(obj_type)
        return self.get_obj_by_depth(depths[0], idx) if len(depths) == 1 else None

    def get_root_obj(self) -> Object:
        """The machine."""
        found = self.get_obj_by_depth(0, 0)
        assert found is not None, "every topology has a machine"
        return found

    def get_pu_obj_by_os_index(self, os_index: int) -> Object | None:
        """The processing unit with this number of the operating system."""
        return next((found for found in self.iter_cpus() if found.os_index == os_index), None)

    def get_numanode_obj_by_os_index(self, os_index: int) -> Object | None:
        """The NUMA node with this number of the operating system."""
        return next((found for found in self.iter_numa_nodes() if found.os_index == os_index), None)

    # -- several objects ---------------------------------------------------------------------------------------------

    def iter_objs_by_depth(self, depth: int) -> Iterator[Object]:
        """The objects of a level in order."""
        # By number: a pointer kept between two steps might not outlive what happens meanwhile.
        number = 0
        while (found := self.get_obj_by_depth(depth, number)) is not None:
            yield found
            number += 1

    def iter_objs_by_type(self, obj_type: ObjType) -> Iterator[Object]:
        """The objects of a type in order."""
        for depth in self._depths(obj_type):
            yield from self.iter_objs_by_depth(depth)

    def iter_all_breadth_first(self) -> Iterator[Object]:
        """The objects of the tree, level by level."""
        for depth in range(self.depth):
            yield from self.iter_objs_by_depth(depth)

    def iter_cpus(self) -> Iterator[Object]:
        """Processing units."""
        return self.iter_objs_by_type(ObjType.PU)

    def iter_cores(self) -> Iterator[Object]:
        """Cores."""
        return self.iter_objs_by_type(ObjType.CORE)

    def iter_packages(self) -> Iterator[Object]:
        """Packages (sockets)."""
        return self.iter_objs_by_type(ObjType.PACKAGE)

    def iter_numa_nodes(self) -> Iterator[NumaNode]:
        """Memory."""
        return cast("Iterator[NumaNode]", self.iter_objs_by_type(ObjType.NUMANODE))

    def iter_os_devices(self) -> Iterator[OsDevice]:
        """Devices of the operating system."""
        return cast("Iterator[OsDevice]", self.iter_objs_by_type(ObjType.OS_DEVICE))

    def iter_bridges(self) -> Iterator[Bridge]:
        """Bridges."""
        return cast("Iterator[Bridge]", self.iter_objs_by_type(ObjType.BRIDGE))

    def iter_pci_devices(self) -> Iterator[PciDevice]:
        """Devices on PCI."""
        return cast("Iterator[PciDevice]", self.iter_objs_by_type(ObjType.PCI_DEVICE))

    def n_cpus(self) -> int:
        """How many processing units."""
        return self.get_nbobjs_by_type(ObjType.PU)

    def n_cores(self) -> int:
        """How many cores."""
        return self.get_nbobjs_by_type(ObjType.CORE)

    def n_packages(self) -> int:
        """How many packages."""
        return self.get_nbobjs_by_type(ObjType.PACKAGE)

    def n_numa_nodes(self) -> int:
        """How many NUMA nodes."""
        return self.get_nbobjs_by_type(ObjType.NUMANODE)

    def n_pci_devices(self) -> int:
        """How many devices on PCI."""
        return self.get_nbobjs_by_type(ObjType.PCI_DEVICE)

    def n_os_devices(self) -> int:
        """How many devices of the operating system."""
        return self.get_nbobjs_by_type(ObjType.OS_DEVICE)

    # -- sets --------------------------------------------------------------------------------------------------------

    def _set(self, function: Any) -> Bitmap:
        with self.lock:
            return copy_of(function(self.native_handle))

    @property
    def cpuset(self) -> Bitmap:
        """Its processors."""
        return self._set(C.topology_get_topology_cpuset)

    @property
    def allowed_cpuset(self) -> Bitmap:
        """The processors that may be used."""
        return self._set(C.topology_get_allowed_cpuset)

    @property
    def allowed_nodeset(self) -> Bitmap:
        """The NUMA nodes that may be used."""
        return self._set(C.topology_get_allowed_nodeset)

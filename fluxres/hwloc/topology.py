"""Topologies: of this machine, as a process sees it, from XML, or from a synthetic description.

A topology owns the memory of everything in it.  Each read takes its lock, and so does :meth:`Topology.destroy`: it waits for
the reads of other threads, and reads that start later raise a RuntimeError.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, TypeAlias, TypeVar

from fluxres.hwloc import _structs
from fluxres.hwloc._enums import (
    AllowFlags,
    CpuBindFlags,
    DistancesKind,
    ExportSyntheticFlags,
    ExportXmlFlags,
    GetTypeDepth,
    MemBindFlags,
    MemBindPolicy,
    ObjType,
    RestrictFlags,
    TopologyComponentsFlag,
    TopologyFlags,
    TypeFilter,
)
from fluxres.hwloc._library import C, check, failure, get_api_version
from fluxres.hwloc.bitmap import Bitmap, copy_of
from fluxres.hwloc.cpukinds import CpuKinds
from fluxres.hwloc.distances import Distances
from fluxres.hwloc.hwobject import Bridge, NumaNode, Object, OsDevice, PciDevice, object_of
from fluxres.hwloc.memattrs import MemAttrs
from fluxres.hwloc.utils import Flags, address_of, or_flags

__all__ = [
    "AllowFlags",
    "CpuBindFlags",
    "DistancesKind",
    "ExportSyntheticFlags",
    "ExportXmlFlags",
    "MemBindFlags",
    "MemBindPolicy",
    "RestrictFlags",
    "Topology",
    "TopologyComponentsFlag",
    "TopologyFlags",
    "TypeFilter",
    "from_pid",
    "from_synthetic",
    "from_this_system",
    "from_xml_buffer",
    "from_xml_file",
    "get_api_version",
]

BindTarget: TypeAlias = Bitmap | set[int] | Object

_Obj = TypeVar("_Obj", bound=Object)

#: levels outside the main tree
_VIRTUAL_LEVELS: Final = (
    GetTypeDepth.NUMANODE,
    GetTypeDepth.BRIDGE,
    GetTypeDepth.PCI_DEVICE,
    GetTypeDepth.OS_DEVICE,
    GetTypeDepth.MISC,
    GetTypeDepth.MEMCACHE,
)


class Topology:
    """The hardware of a machine, as libhwloc sees it.

    ``Topology()`` is this machine, loaded.  The class methods return a topology that is loaded by :meth:`load` or by a
    ``with`` statement, so that filters and flags can be set first::

        with Topology.from_synthetic("package:2 core:4 pu:1").set_icache_types_filter(TypeFilter.KEEP_ALL) as topology:
            print(topology.n_cores())

    Errors: all methods that need a loaded topology raise RuntimeError before it is loaded and after it is destroyed.
    """

    def __init__(self) -> None:
        self._adopt(_new_handle(load=True), True)

    def _adopt(self, handle: ctypes.c_void_p, is_loaded: bool) -> None:
        self.lock = threading.RLock()
        self._hdl: ctypes.c_void_p | None = handle
        self._loaded = is_loaded
        #: increases whenever objects may have been removed
        self.generation = 0
        self._addresses: tuple[int, frozenset[int]] = (-1, frozenset())
        self._distances: weakref.WeakSet[Distances] = weakref.WeakSet()
        #: memory of distance matrices that were collected without being released
        self.orphans: list[_structs.DistancesPtr] = []

    # -- sources -----------------------------------------------------------------------------------------------------

    @classmethod
    def from_native_handle(cls, hdl: ctypes.c_void_p, is_loaded: bool) -> Topology:
        """Take ownership of a topology that libhwloc made."""
        topology = cls.__new__(cls)
        topology._adopt(hdl, is_loaded)
        return topology

    @classmethod
    def from_this_system(cls, *, load: bool = False) -> Topology:
        return cls.from_native_handle(_new_handle(load=load), load)

    @classmethod
    def from_pid(cls, pid: int, *, load: bool = False) -> Topology:
        """This machine as a process sees it."""
        return cls.from_native_handle(_new_handle(lambda handle: int(C.topology_set_pid(handle, pid)), load=load), load)

    @classmethod
    def from_synthetic(cls, description: str, *, load: bool = False) -> Topology:
        """A machine of libhwloc's synthetic description: ``package:2 core:8 pu:2``.

        Errors: ValueError if the description is invalid.
        """
        text = description.encode("utf-8")
        return cls.from_native_handle(_new_handle(lambda handle: int(C.topology_set_synthetic(handle, text)), load=load), load)

    @classmethod
    def from_xml_file(cls, xml_path: os.PathLike[str] | str, *, load: bool = False) -> Topology:
        """A machine from an XML file of ``lstopo``.  libhwloc parses it and trusts its content."""
        path = os.fsencode(os.path.expanduser(xml_path))
        return cls.from_native_handle(_new_handle(lambda handle: int(C.topology_set_xml(handle, path)), load=load), load)

    @classmethod
    def from_xml_buffer(cls, xml_buffer: str, *, load: bool = False) -> Topology:
        """As :meth:`from_xml_file`, from the text of the file."""
        return cls.from_native_handle(_handle_of_xml(xml_buffer, load=load), load)

    # -- life cycle --------------------------------------------------------------------------------------------------

    @property
    def is_loaded(self) -> bool:
        """False also after :meth:`destroy`."""
        return getattr(self, "_hdl", None) is not None and self._loaded

    @property
    def native_handle(self) -> ctypes.c_void_p:
        """The pointer to pass to libhwloc."""
        handle = self._undestroyed()
        if not self._loaded:
            raise RuntimeError("Topology is not loaded, please call the `load` method or use the context manager")
        return handle

    def _undestroyed(self) -> ctypes.c_void_p:
        """The pointer, of a topology that need not be loaded."""
        handle: ctypes.c_void_p | None = getattr(self, "_hdl", None)
        if handle is None:
            raise RuntimeError("Topology has been destroyed")
        return handle

    def load(self) -> Topology:
        """Discover the hardware; does nothing if it is already loaded."""
        with self.lock:
            handle = self._undestroyed()
            if not self._loaded:
                check(C.topology_load(handle))
                self._loaded = True
        return self

    def destroy(self) -> None:
        """Free the memory and invalidate everything read from this topology; does nothing the second time."""
        if getattr(self, "_hdl", None) is None:
            return
        with self.lock:
            if self._hdl is None:
                return
            for matrix in list(self._distances):
                matrix.release()
            self._free_orphans()
            handle, self._hdl, self._loaded = self._hdl, None, False
            C.topology_destroy(handle)

    def __enter__(self) -> Topology:
        return self.load()

    def __exit__(self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None) -> None:
        self.destroy()

    def __del__(self) -> None:
        self.destroy()

    def __copy__(self) -> Topology:
        copy = ctypes.c_void_p()
        with self.lock:
            check(C.topology_dup(ctypes.byref(copy), self.native_handle))
        return Topology.from_native_handle(copy, True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Topology:
        return self.__copy__()

    def __getstate__(self) -> dict[str, str]:
        return {"xml_buffer": self.export_xml_buffer(0)}

    def __setstate__(self, state: dict[str, str]) -> None:
        self._adopt(_handle_of_xml(state["xml_buffer"], load=True), True)

    def check(self) -> None:
        """Run libhwloc's consistency checks, which abort the process if one fails."""
        with self.lock:
            C.topology_check(self.native_handle)

    # -- configuration before loading --------------------------------------------------------------------------------

    def _configure(self, function: Any, value: int) -> Topology:
        with self.lock:
            if self.is_loaded:
                raise RuntimeError("Cannot set filter after topology is loaded")
            check(function(self._undestroyed(), value))
        return self

    def set_flags(self, flags: Flags[TopologyFlags]) -> Topology:
        return self._configure(C.topology_set_flags, or_flags(flags))

    def get_flags(self) -> int:
        with self.lock:
            return int(C.topology_get_flags(self.native_handle))

    def set_io_types_filter(self, type_filter: TypeFilter) -> Topology:
        """Choose which bridges, PCI devices and OS devices to keep."""
        return self._configure(C.topology_set_io_types_filter, type_filter)

    def set_all_types_filter(self, type_filter: TypeFilter) -> Topology:
        """Choose which objects to keep, of every type."""
        return self._configure(C.topology_set_all_types_filter, type_filter)

    def set_cache_types_filter(self, type_filter: TypeFilter) -> Topology:
        return self._configure(C.topology_set_cache_types_filter, type_filter)

    def set_icache_types_filter(self, type_filter: TypeFilter) -> Topology:
        return self._configure(C.topology_set_icache_types_filter, type_filter)

    def set_components(self, name: str, flags: Flags[TopologyComponentsFlag] = TopologyComponentsFlag.BLACKLIST) -> Topology:
        """Exclude a discovery component of libhwloc, such as ``linux`` or ``opencl``."""
        with self.lock:
            check(C.topology_set_components(self._undestroyed(), or_flags(flags), name.encode("utf-8")))
        return self

    # -- properties of the machine -----------------------------------------------------------------------------------

    def is_this_system(self) -> bool:
        """Whether it describes the machine this process runs on, so that binding works."""
        with self.lock:
            return self.is_loaded and bool(C.topology_is_thissystem(self.native_handle))

    def get_support(self) -> Any:
        """What libhwloc supports here: named tuples ``discovery``, ``cpubind``, ``membind`` and ``misc`` of booleans."""
        with self.lock:
            return _structs.support_tuples(C.topology_get_support(self.native_handle).contents, get_api_version())

    @property
    def info(self) -> dict[str, str]:
        return self.get_root_obj().info

    def _copy_set(self, function: Any) -> Bitmap:
        with self.lock:
            return copy_of(function(self.native_handle))

    @property
    def cpuset(self) -> Bitmap:
        """A copy of the set of all PUs."""
        return self._copy_set(C.topology_get_topology_cpuset)

    @property
    def allowed_cpuset(self) -> Bitmap:
        """A copy of the set of PUs that may be used."""
        return self._copy_set(C.topology_get_allowed_cpuset)

    @property
    def allowed_nodeset(self) -> Bitmap:
        """A copy of the set of NUMA nodes that may be used."""
        return self._copy_set(C.topology_get_allowed_nodeset)

    def get_distances(self, kind: Flags[DistancesKind] = 0) -> list[Distances]:
        """The distance matrices of the given kinds, all of them by default."""
        flags, count = or_flags(kind), ctypes.c_uint()
        with self.lock:
            self._free_orphans()
            handle = self.native_handle
            check(C.distances_get(handle, ctypes.byref(count), None, flags, 0))
            pointers = (ctypes.POINTER(_structs.Distances) * count.value)()
            if count:
                check(C.distances_get(handle, ctypes.byref(count), pointers, flags, 0))
            found = [Distances(pointer, weakref.ref(self)) for pointer in pointers]
            self._distances.update(found)
        return found

    def _free_orphans(self) -> None:
        if self._loaded:
            while self.orphans:
                C.distances_release(self.native_handle, self.orphans.pop())

    def get_memattrs(self) -> MemAttrs:
        return MemAttrs(weakref.ref(self))

    def get_cpukinds(self) -> CpuKinds:
        return CpuKinds(weakref.ref(self))

    # -- levels ------------------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Number of levels of the main tree."""
        with self.lock:
            return int(C.topology_get_depth(self.native_handle))

    def get_depth_type(self, depth: int) -> ObjType:
        """Type of the objects on a level.

        Errors: ValueError if there is no such level.
        """
        with self.lock:
            return ObjType(C.get_depth_type(self.native_handle, depth))

    def _depths(self, obj_type: ObjType) -> list[int]:
        """The levels that have objects of a type: one for most types, none or several for groups."""
        with self.lock:
            depth = int(C.get_type_depth(self.native_handle, obj_type))
            if depth == GetTypeDepth.MULTIPLE:
                return [level for level in range(self.depth) if self.get_depth_type(level) == obj_type]
            return [] if depth == GetTypeDepth.UNKNOWN else [depth]

    def get_nbobjs_by_depth(self, depth: int) -> int:
        with self.lock:
            return int(C.get_nbobjs_by_depth(self.native_handle, depth))

    def get_nbobjs_by_type(self, obj_type: ObjType) -> int:
        """Number of objects of a type; -1 if they are on several levels."""
        depths = self._depths(obj_type)
        return -1 if len(depths) > 1 else sum(self.get_nbobjs_by_depth(depth) for depth in depths)

    def n_cpus(self) -> int:
        return self.get_nbobjs_by_type(ObjType.PU)

    def n_cores(self) -> int:
        return self.get_nbobjs_by_type(ObjType.CORE)

    def n_packages(self) -> int:
        return self.get_nbobjs_by_type(ObjType.PACKAGE)

    def n_numa_nodes(self) -> int:
        return self.get_nbobjs_by_type(ObjType.NUMANODE)

    def n_os_devices(self) -> int:
        return self.get_nbobjs_by_type(ObjType.OS_DEVICE)

    def n_pci_devices(self) -> int:
        return self.get_nbobjs_by_type(ObjType.PCI_DEVICE)

    # -- objects -----------------------------------------------------------------------------------------------------

    def addresses(self) -> frozenset[int]:
        """The memory addresses of all objects; the caller holds the lock."""
        if self._addresses[0] != self.generation:
            found: set[int] = set()
            for depth in (*range(self.depth), *_VIRTUAL_LEVELS):
                for number in range(self.get_nbobjs_by_depth(depth)):
                    found.add(ctypes.addressof(C.get_obj_by_depth(self.native_handle, depth, number).contents))
            self._addresses = (self.generation, frozenset(found))
        return self._addresses[1]

    def get_obj_by_depth(self, depth: int, idx: int) -> Object | None:
        """The object with a logical index on a level."""
        if idx < 0:
            return None
        with self.lock:
            handle = C.get_obj_by_depth(self.native_handle, depth, idx)
            return object_of(handle, weakref.ref(self)) if handle else None

    def get_obj_by_type(self, obj_type: ObjType, idx: int) -> Object | None:
        """The object of a type with a logical index; None also if objects of the type are on several levels."""
        depths = self._depths(obj_type)
        return self.get_obj_by_depth(depths[0], idx) if len(depths) == 1 else None

    def get_root_obj(self) -> Object:
        """The machine, which contains all other objects."""
        found = self.get_obj_by_depth(0, 0)
        assert found is not None, "every topology has a machine"
        return found

    def get_pu_obj_by_os_index(self, os_index: int) -> Object | None:
        return next((found for found in self.iter_cpus() if found.os_index == os_index), None)

    def get_numanode_obj_by_os_index(self, os_index: int) -> Object | None:
        return next((found for found in self.iter_numa_nodes() if found.os_index == os_index), None)

    def iter_objs_by_depth(self, depth: int) -> Iterator[Object]:
        # By index: another thread may free the object behind a `next_cousin` pointer between two steps.
        number = 0
        while (found := self.get_obj_by_depth(depth, number)) is not None:
            yield found
            number += 1

    def iter_objs_by_type(self, obj_type: ObjType) -> Iterator[Object]:
        """The objects of a type; if they are on several levels, level by level."""
        for depth in self._depths(obj_type):
            yield from self.iter_objs_by_depth(depth)

    def _iter_instances(self, obj_type: ObjType, instances_of: type[_Obj]) -> Iterator[_Obj]:
        for found in self.iter_objs_by_type(obj_type):
            assert isinstance(found, instances_of), f"{found!r} has no attributes"
            yield found

    def iter_all_breadth_first(self) -> Iterator[Object]:
        """The objects of the main tree, level by level."""
        for depth in range(self.depth):
            yield from self.iter_objs_by_depth(depth)

    def iter_cpus(self) -> Iterator[Object]:
        return self.iter_objs_by_type(ObjType.PU)

    def iter_cores(self) -> Iterator[Object]:
        return self.iter_objs_by_type(ObjType.CORE)

    def iter_packages(self) -> Iterator[Object]:
        return self.iter_objs_by_type(ObjType.PACKAGE)

    def iter_numa_nodes(self) -> Iterator[NumaNode]:
        return self._iter_instances(ObjType.NUMANODE, NumaNode)

    def iter_os_devices(self) -> Iterator[OsDevice]:
        return self._iter_instances(ObjType.OS_DEVICE, OsDevice)

    def iter_bridges(self) -> Iterator[Bridge]:
        return self._iter_instances(ObjType.BRIDGE, Bridge)

    def iter_pci_devices(self) -> Iterator[PciDevice]:
        return self._iter_instances(ObjType.PCI_DEVICE, PciDevice)

    # -- changes to a loaded topology --------------------------------------------------------------------------------

    def restrict(self, cpuset: Bitmap, flags: Flags[RestrictFlags]) -> None:
        """Remove everything outside a set of PUs, or with `RestrictFlags.BYNODESET` outside a set of NUMA nodes.

        Errors: ValueError if nothing would remain.
        """
        with self.lock:
            handle = self.native_handle
            self.generation += 1
            check(C.topology_restrict(handle, cpuset.native_handle, or_flags(flags)))

    def allow(self, cpuset: Bitmap | None, nodeset: Bitmap | None, flags: Flags[AllowFlags]) -> None:
        """Change which PUs and NUMA nodes may be used; both sets must be None unless the flag is `AllowFlags.CUSTOM`."""
        sets = [None if given is None else given.native_handle for given in (cpuset, nodeset)]
        with self.lock:
            check(C.topology_allow(self.native_handle, *sets, or_flags(flags)))

    def refresh(self) -> None:
        """Update internal caches now instead of at the next read."""
        with self.lock:
            check(C.topology_refresh(self.native_handle))

    # -- export ------------------------------------------------------------------------------------------------------

    def export_xml_buffer(self, flags: Flags[ExportXmlFlags] = 0) -> str:
        text, size = ctypes.c_void_p(), ctypes.c_int()
        with self.lock:
            handle = self.native_handle
            check(C.topology_export_xmlbuffer(handle, ctypes.byref(text), ctypes.byref(size), or_flags(flags)))
            try:
                return ctypes.string_at(text.value or 0).decode("utf-8", "replace")
            finally:
                C.free_xmlbuffer(handle, text)

    def export_xml_file(self, path: os.PathLike[str] | str, flags: Flags[ExportXmlFlags] = 0) -> None:
        with self.lock:
            check(C.topology_export_xml(self.native_handle, os.fsencode(os.path.expanduser(path)), or_flags(flags)))

    def export_synthetic(self, flags: Flags[ExportSyntheticFlags]) -> str:
        """The synthetic description.

        Errors: ValueError if the topology is irregular.
        """
        size = 1024
        while True:
            buffer = ctypes.create_string_buffer(size)
            with self.lock:
                length = C.topology_export_synthetic(self.native_handle, buffer, size, or_flags(flags))
            if length < 0:
                raise failure(length)
            # Some releases return the length written instead of the length needed.
            if length < size - 1:
                return buffer.value.decode("utf-8", "replace")
            size *= 2

    # -- binding -----------------------------------------------------------------------------------------------------
    #
    # Without a flag of PROCESS or THREAD, libhwloc binds the current process, which it assumes to have a single thread.
    # Errors of all methods: NotImplementedError if this machine does not support the call, ValueError for an empty set,
    # PermissionError if the operating system denies it, HwLocError otherwise.

    def _bind(self, function: Any, *arguments: Any) -> None:
        # The bitmaps are passed as objects, which keeps their memory alive until the call returns.
        handles = [given.native_handle if isinstance(given, Bitmap) else given for given in arguments]
        with self.lock:
            check(function(self.native_handle, *handles))

    def _get_cpubind(self, function: Any, *arguments: Any) -> Bitmap:
        """Call `function`, which writes a CPU set to its last argument but one."""
        found = Bitmap()
        with self.lock:
            check(function(self.native_handle, *arguments[:-1], found.native_handle, arguments[-1]))
        return found

    def _get_membind(self, function: Any, *arguments: Any) -> tuple[Bitmap, MemBindPolicy]:
        """Call `function`, which writes a set and a policy to the two arguments before the last."""
        found, policy = Bitmap(), ctypes.c_int()
        with self.lock:
            check(function(self.native_handle, *arguments[:-1], found.native_handle, ctypes.byref(policy), arguments[-1]))
        return found, MemBindPolicy(policy.value)

    def set_cpubind(self, target: BindTarget, flags: Flags[CpuBindFlags] = 0) -> None:
        """Bind the current process or thread to PUs."""
        self._bind(C.set_cpubind, _target_set(target), or_flags(flags))

    def get_cpubind(self, flags: Flags[CpuBindFlags] = 0) -> Bitmap:
        """The PUs that the current process or thread is bound to."""
        return self._get_cpubind(C.get_cpubind, or_flags(flags))

    def set_proc_cpubind(self, pid: int, target: BindTarget, flags: Flags[CpuBindFlags] = 0) -> None:
        self._bind(C.set_proc_cpubind, pid, _target_set(target), or_flags(flags))

    def get_proc_cpubind(self, pid: int, flags: Flags[CpuBindFlags] = 0) -> Bitmap:
        return self._get_cpubind(C.get_proc_cpubind, pid, or_flags(flags))

    def set_thread_cpubind(self, thread_id: int, target: BindTarget, flags: Flags[CpuBindFlags] = 0) -> None:
        """Bind a running Python thread, by its ``threading.get_ident()``."""
        self._bind(C.set_thread_cpubind, _running_thread(thread_id), _target_set(target), or_flags(flags))

    def get_thread_cpubind(self, thread_id: int, flags: Flags[CpuBindFlags] = 0) -> Bitmap:
        """The PUs that a running Python thread is bound to, by its ``threading.get_ident()``."""
        return self._get_cpubind(C.get_thread_cpubind, _running_thread(thread_id), or_flags(flags))

    def get_last_cpu_location(self, flags: Flags[CpuBindFlags] = 0) -> Bitmap:
        """The PUs on which the current process or thread ran last."""
        return self._get_cpubind(C.get_last_cpu_location, or_flags(flags))

    def get_proc_last_cpu_location(self, pid: int, flags: Flags[CpuBindFlags] = 0) -> Bitmap:
        return self._get_cpubind(C.get_proc_last_cpu_location, pid, or_flags(flags))

    def set_membind(self, target: BindTarget, policy: MemBindPolicy, flags: Flags[MemBindFlags] = 0) -> None:
        """Choose where the current process or thread allocates memory from now on."""
        number = or_flags(flags)
        self._bind(C.set_membind, _target_set(target, number), policy, number)

    def get_membind(self, flags: Flags[MemBindFlags] = 0) -> tuple[Bitmap, MemBindPolicy]:
        """Where the current process or thread allocates memory: PUs, or NUMA nodes with `MemBindFlags.BYNODESET`."""
        return self._get_membind(C.get_membind, or_flags(flags))

    def set_proc_membind(self, pid: int, target: BindTarget, policy: MemBindPolicy, flags: Flags[MemBindFlags] = 0) -> None:
        number = or_flags(flags)
        self._bind(C.set_proc_membind, pid, _target_set(target, number), policy, number)

    def get_proc_membind(self, pid: int, flags: Flags[MemBindFlags] = 0) -> tuple[Bitmap, MemBindPolicy]:
        return self._get_membind(C.get_proc_membind, pid, or_flags(flags))

    def set_area_membind(
        self, mem: memoryview, target: BindTarget, policy: MemBindPolicy, flags: Flags[MemBindFlags] = 0
    ) -> None:
        """Bind memory that is already allocated; `mem` must be writable."""
        number = or_flags(flags)
        self._bind(C.set_area_membind, *address_of(mem), _target_set(target, number), policy, number)

    def get_area_membind(self, mem: memoryview, flags: Flags[MemBindFlags] = 0) -> tuple[Bitmap, MemBindPolicy]:
        """Where memory is bound; `mem` must be writable."""
        return self._get_membind(C.get_area_membind, *address_of(mem), or_flags(flags))


def _new_handle(set_source: Callable[[ctypes.c_void_p], int] | None = None, *, load: bool) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    check(C.topology_init(ctypes.byref(handle)))
    try:
        if set_source is not None:
            check(set_source(handle))
        if load:
            check(C.topology_load(handle))
    except BaseException:
        C.topology_destroy(handle)
        raise
    return handle


def _handle_of_xml(text: str, *, load: bool) -> ctypes.c_void_p:
    data = text.encode("utf-8")
    return _new_handle(lambda handle: int(C.topology_set_xmlbuffer(handle, data, len(data))), load=load)


def _target_set(target: BindTarget, flags: int = 0) -> Bitmap:
    """The PUs of a target, or its NUMA nodes with `MemBindFlags.BYNODESET`.

    A copy, because another thread may change the bitmap of the caller during the call.
    """
    if isinstance(target, Object):
        by_nodes = bool(flags & MemBindFlags.BYNODESET)
        found = target.nodeset if by_nodes else target.cpuset
        if found is None:
            raise ValueError(f"Object has no associated {'NUMA nodes' if by_nodes else 'CPUs'}.")
        return found
    if isinstance(target, Bitmap):
        return target.__copy__()
    return Bitmap.from_sched_set(target)


def _running_thread(thread_id: int) -> int:
    # libhwloc would use the id of any other thread as a pointer.
    if thread_id not in sys._current_frames():
        raise ValueError(f"no running thread has the id {thread_id} (get the id from threading.get_ident())")
    return thread_id


from_this_system = Topology.from_this_system
from_pid = Topology.from_pid
from_synthetic = Topology.from_synthetic
from_xml_file = Topology.from_xml_file
from_xml_buffer = Topology.from_xml_buffer

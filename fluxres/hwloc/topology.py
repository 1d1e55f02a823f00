"""Topologies: of this machine, of a process, from XML, or made up.

A topology owns the memory of everything in it.  Its lock is held by whoever reads there, so `destroy` waits for readers
of other threads, and whoever comes later gets a RuntimeError.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fluxres.hwloc._binding import Binding
from fluxres.hwloc._enums import (
    AllowFlags,
    CpuBindFlags,
    DistancesKind,
    ExportSyntheticFlags,
    ExportXmlFlags,
    MemBindFlags,
    MemBindPolicy,
    RestrictFlags,
    TopologyComponentsFlag,
    TopologyFlags,
    TypeFilter,
)
from fluxres.hwloc._levels import Levels
from fluxres.hwloc._library import C, check, failure, get_api_version
from fluxres.hwloc._support import support_of
from fluxres.hwloc.bitmap import Bitmap
from fluxres.hwloc.utils import Flags, or_flags

if TYPE_CHECKING:
    from fluxres.hwloc._structs import DistancesPtr
    from fluxres.hwloc.cpukinds import CpuKinds
    from fluxres.hwloc.distances import Distances
    from fluxres.hwloc.memattrs import MemAttrs

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


def _made(configure: Callable[[ctypes.c_void_p], int], load: bool) -> ctypes.c_void_p:
    """A topology whose source `configure` chose."""
    handle = ctypes.c_void_p()
    check(C.topology_init(ctypes.byref(handle)))
    try:
        check(configure(handle))
        if load:
            check(C.topology_load(handle))
    except BaseException:
        C.topology_destroy(handle)
        raise
    return handle


def _of_xml(text: str, load: bool) -> ctypes.c_void_p:
    data = text.encode("utf-8")
    return _made(lambda handle: int(C.topology_set_xmlbuffer(handle, data, len(data))), load)


class Topology(Levels, Binding):
    """A machine, as libhwloc sees it.

    ``Topology()`` is this machine, loaded.  The class methods make one that is loaded when it is entered (``with``) or by
    :meth:`load`, so that filters can be set before::

        with Topology.from_synthetic("package:2 core:4 pu:1").set_icache_types_filter(TypeFilter.KEEP_ALL) as topology:
            print(topology.n_cores())
    """

    def __init__(self) -> None:
        self._take(_made(lambda _: 0, True), True)

    def _take(self, handle: ctypes.c_void_p, is_loaded: bool) -> None:
        self.lock = threading.RLock()
        self._hdl: ctypes.c_void_p | None = handle
        self._loaded = is_loaded
        #: grows whenever objects may have been removed
        self.generation = 0
        self._addresses: tuple[int, frozenset[int]] = (-1, frozenset())
        self._matrices: weakref.WeakSet[Distances] = weakref.WeakSet()
        #: matrices that nobody released before they went, to be freed
        self.orphans: list[DistancesPtr] = []

    # -- where it comes from -----------------------------------------------------------------------------------------

    @classmethod
    def from_native_handle(cls, hdl: ctypes.c_void_p, is_loaded: bool) -> Topology:
        """A topology of libhwloc, which this object destroys in the end."""
        topology = cls.__new__(cls)
        topology._take(hdl, is_loaded)
        return topology

    @classmethod
    def from_this_system(cls, *, load: bool = False) -> Topology:
        """This machine."""
        return cls.from_native_handle(_made(lambda _: 0, load), load)

    @classmethod
    def from_pid(cls, pid: int, *, load: bool = False) -> Topology:
        """This machine as a process sees it."""
        return cls.from_native_handle(_made(lambda handle: int(C.topology_set_pid(handle, pid)), load), load)

    @classmethod
    def from_synthetic(cls, description: str, *, load: bool = False) -> Topology:
        """A machine made up: ``package:2 core:8 pu:2``.

        Errors: ValueError for a description that cannot be read.
        """
        text = description.encode("utf-8")
        return cls.from_native_handle(_made(lambda handle: int(C.topology_set_synthetic(handle, text)), load), load)

    @classmethod
    def from_xml_file(cls, xml_path: os.PathLike[str] | str, *, load: bool = False) -> Topology:
        """A machine from a file of ``lstopo``; libhwloc itself parses it."""
        path = os.fsencode(os.path.expanduser(xml_path))
        return cls.from_native_handle(_made(lambda handle: int(C.topology_set_xml(handle, path)), load), load)

    @classmethod
    def from_xml_buffer(cls, xml_buffer: str, *, load: bool = False) -> Topology:
        """A machine from the text of such a file."""
        return cls.from_native_handle(_of_xml(xml_buffer, load), load)

    # -- its life ----------------------------------------------------------------------------------------------------

    @property
    def is_loaded(self) -> bool:
        """Whether it can be asked."""
        return getattr(self, "_hdl", None) is not None and self._loaded

    @property
    def native_handle(self) -> ctypes.c_void_p:
        """The pointer to give to libhwloc.

        Errors: RuntimeError when it is destroyed, or not loaded yet.
        """
        handle = self._present()
        if not self._loaded:
            raise RuntimeError("Topology is not loaded, please call the `load` method or use the context manager")
        return handle

    def _present(self) -> ctypes.c_void_p:
        handle: ctypes.c_void_p | None = getattr(self, "_hdl", None)
        if handle is None:
            raise RuntimeError("Topology has been destroyed")
        return handle

    def load(self) -> Topology:
        """Find out what there is; nothing for a loaded one."""
        with self.lock:
            handle = self._present()
            if not self._loaded:
                check(C.topology_load(handle))
                self._loaded = True
        return self

    def destroy(self) -> None:
        """Free it; everything that was read from it is invalid then.  Nothing for a destroyed one."""
        if getattr(self, "_hdl", None) is None:
            return
        with self.lock:
            if self._hdl is None:
                return
            for matrix in list(self._matrices):
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
        self._take(_of_xml(state["xml_buffer"], True), True)

    def check(self) -> None:
        """Let libhwloc look for contradictions in it, and end the process when it finds one."""
        with self.lock:
            C.topology_check(self.native_handle)

    # -- what is found out -------------------------------------------------------------------------------------------

    def _configured(self, function: Any, value: int) -> Topology:
        with self.lock:
            if self.is_loaded:
                raise RuntimeError("Cannot set filter after topology is loaded")
            check(function(self._present(), value))
        return self

    def set_flags(self, flags: Flags[TopologyFlags]) -> Topology:
        """How it is found out; before it is loaded."""
        return self._configured(C.topology_set_flags, or_flags(flags))

    def get_flags(self) -> int:
        """How it was found out."""
        with self.lock:
            return int(C.topology_get_flags(self.native_handle))

    def set_io_types_filter(self, type_filter: TypeFilter) -> Topology:
        """Which bridges and devices are kept; before it is loaded."""
        return self._configured(C.topology_set_io_types_filter, type_filter)

    def set_all_types_filter(self, type_filter: TypeFilter) -> Topology:
        """Which objects are kept; before it is loaded."""
        return self._configured(C.topology_set_all_types_filter, type_filter)

    def set_cache_types_filter(self, type_filter: TypeFilter) -> Topology:
        """Which caches are kept; before it is loaded."""
        return self._configured(C.topology_set_cache_types_filter, type_filter)

    def set_icache_types_filter(self, type_filter: TypeFilter) -> Topology:
        """Which caches of instructions are kept; before it is loaded."""
        return self._configured(C.topology_set_icache_types_filter, type_filter)

    def set_components(self, name: str, flags: Flags[TopologyComponentsFlag] = TopologyComponentsFlag.BLACKLIST) -> Topology:
        """Which parts of libhwloc are not to be used; before it is loaded."""
        with self.lock:
            check(C.topology_set_components(self._present(), or_flags(flags), name.encode("utf-8")))
        return self

    def is_this_system(self) -> bool:
        """Whether it is of this machine, so that binding means something."""
        with self.lock:
            return self.is_loaded and bool(C.topology_is_thissystem(self.native_handle))

    def get_support(self) -> Any:
        """What works with it: named tuples ``discovery``, ``cpubind``, ``membind`` and ``misc`` of booleans."""
        with self.lock:
            return support_of(C.topology_get_support(self.native_handle).contents)

    @property
    def info(self) -> dict[str, str]:
        """What is known of the whole machine, by key."""
        return self.get_root_obj().info

    # -- changed after it was loaded ---------------------------------------------------------------------------------

    def restrict(self, cpuset: Bitmap, flags: Flags[RestrictFlags]) -> None:
        """Cut away everything outside a set of processors, or of NUMA nodes.

        Errors: ValueError when nothing would be left.
        """
        with self.lock:
            handle = self.native_handle
            self.generation += 1
            check(C.topology_restrict(handle, cpuset.native_handle, or_flags(flags)))

    def allow(self, cpuset: Bitmap | None, nodeset: Bitmap | None, flags: Flags[AllowFlags]) -> None:
        """Change which processors and NUMA nodes are allowed."""
        sets = [None if given is None else given.native_handle for given in (cpuset, nodeset)]
        with self.lock:
            check(C.topology_allow(self.native_handle, *sets, or_flags(flags)))

    def refresh(self) -> None:
        """Compute at once what would be computed later, so that threads may read."""
        with self.lock:
            check(C.topology_refresh(self.native_handle))

    # -- written out -------------------------------------------------------------------------------------------------

    def export_xml_buffer(self, flags: Flags[ExportXmlFlags] = 0) -> str:
        """It as XML."""
        text, size = ctypes.c_void_p(), ctypes.c_int()
        with self.lock:
            handle = self.native_handle
            check(C.topology_export_xmlbuffer(handle, ctypes.byref(text), ctypes.byref(size), or_flags(flags)))
            try:
                return ctypes.string_at(text.value or 0).decode("utf-8", "replace")
            finally:
                C.free_xmlbuffer(handle, text)

    def export_xml_file(self, path: os.PathLike[str] | str, flags: Flags[ExportXmlFlags] = 0) -> None:
        """It as a file of XML."""
        with self.lock:
            check(C.topology_export_xml(self.native_handle, os.fsencode(os.path.expanduser(path)), or_flags(flags)))

    def export_synthetic(self, flags: Flags[ExportSyntheticFlags]) -> str:
        """It as a synthetic description.

        Errors: ValueError for a topology that is not regular.
        """
        size = 1024
        while True:
            buffer = ctypes.create_string_buffer(size)
            with self.lock:
                length = C.topology_export_synthetic(self.native_handle, buffer, size, or_flags(flags))
            if length < 0:
                raise failure(length)
            # Some releases say the length that was written, not that which was needed.
            if length < size - 1:
                return buffer.value.decode("utf-8", "replace")
            size *= 2

    # -- what else there is ------------------------------------------------------------------------------------------

    def get_distances(self, kind: Flags[DistancesKind] = 0) -> list[Distances]:
        """The matrices between its objects."""
        from fluxres.hwloc.distances import matrices_of

        with self.lock:
            self._free_orphans()
            found = matrices_of(self, or_flags(kind))
            self._matrices.update(found)
        return found

    def _free_orphans(self) -> None:
        if self._loaded:
            while self.orphans:
                C.distances_release(self.native_handle, self.orphans.pop())

    def get_memattrs(self) -> MemAttrs:
        """Its attributes of memory."""
        from fluxres.hwloc.memattrs import MemAttrs

        return MemAttrs(weakref.ref(self))

    def get_cpukinds(self) -> CpuKinds:
        """Its kinds of processors."""
        from fluxres.hwloc.cpukinds import CpuKinds

        return CpuKinds(weakref.ref(self))


from_this_system = Topology.from_this_system
from_pid = Topology.from_pid
from_synthetic = Topology.from_synthetic
from_xml_file = Topology.from_xml_file
from_xml_buffer = Topology.from_xml_buffer

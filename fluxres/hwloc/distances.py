"""Matrices of latencies, bandwidths or hops between objects."""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

from fluxres.hwloc import _structs
from fluxres.hwloc._library import C, check
from fluxres.hwloc.hwobject import Object, object_of
from fluxres.hwloc.utils import TopologyPart

if TYPE_CHECKING:
    from fluxres.hwloc._structs import DistancesPtr
    from fluxres.hwloc.topology import Topology
    from fluxres.hwloc.utils import TopoRef

__all__ = ["Distances"]


class Distances(TopologyPart):
    """One matrix: ``matrix[0, 1]`` or ``matrix[one, other]`` is a value in it."""

    def __init__(self, hdl: DistancesPtr, topo: TopoRef) -> None:
        if not hdl:
            raise ValueError("Distance handle cannot be None")
        self._hdl: DistancesPtr | None = hdl
        self._topo_ref = topo
        self._generation = self._topo.generation
        self._key = ctypes.addressof(hdl.contents)

    @property
    def native_handle(self) -> DistancesPtr:
        """The pointer, checked.

        Errors: RuntimeError when the topology is gone, or the matrix was released.
        """
        with self._valid():
            if self._hdl is None:
                raise RuntimeError("This distances object has been released.")
            return self._hdl

    @property
    def objects(self) -> list[Object]:
        """The objects of its rows and columns.

        Errors: RuntimeError when one of them was removed from the topology.
        """
        with self._valid():
            found, topology = self.native_handle.contents, self._topo
            handles = [found.objs[i] for i in range(found.nbobjs)]
            if topology.generation != self._generation:
                known = topology.addresses()
                if any(not handle or ctypes.addressof(handle.contents) not in known for handle in handles):
                    raise RuntimeError("Object is invalid: it was removed from its topology")
            return [object_of(handle, self._topo_ref) for handle in handles]

    @property
    def name(self) -> str | None:
        """What it is called, such as ``NUMALatency``."""
        with self._valid() as topology:
            name: bytes | None = C.distances_get_name(topology, self.native_handle)
            return name.decode("utf-8", "replace") if name else None

    @property
    def nbobjs(self) -> int:
        """How many rows."""
        with self._valid():
            return int(self.native_handle.contents.nbobjs)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (self.nbobjs, self.nbobjs)

    def __getitem__(self, key: tuple[int | Object, int | Object]) -> float:
        if not (isinstance(key, tuple) and len(key) == 2):
            raise TypeError("Key must be (i, j) or (Object, Object)")
        row, column = (part if isinstance(part, int) else self.find_object_index(part) for part in key)
        with self._valid():
            size = self.nbobjs
            if not (0 <= row < size and 0 <= column < size):
                raise IndexError(f"Index ({row}, {column}) is out of bounds for matrix of size {size}x{size}")
            return float(self.native_handle.contents.values[row * size + column])

    def __setitem__(self, key: Any, value: float) -> None:
        raise RuntimeError("Distance matrices are read-only")

    def find_object_index(self, obj: Object) -> int:
        """The row of an object, -1 for none."""
        address = hash(obj)
        with self._valid():
            found = self.native_handle.contents
            rows = (i for i in range(found.nbobjs) if found.objs[i] and ctypes.addressof(found.objs[i].contents) == address)
            return next(rows, -1)

    def get_distance(self, obj1: Object, obj2: Object) -> tuple[float, float]:
        """The values from one object to the other, and back.

        Errors: ValueError for an object that is not in it.
        """
        there, back = self.find_object_index(obj1), self.find_object_index(obj2)
        if there < 0 or back < 0:
            raise ValueError("obj1 or obj2 is not involved in the distances structure.")
        return self[there, back], self[back, there]

    def release(self) -> None:
        """Free it; nothing for one that is free."""
        topology = self._topo_ref()
        # A topology that goes away frees its matrices first, so there is nothing left to free without one.
        if topology is not None:
            with topology.lock:
                self._free(topology)

    def _free(self, topology: Topology) -> None:
        handle, self._hdl = self._hdl, None
        if handle is not None and topology.is_loaded:
            C.distances_release(topology.native_handle, handle)

    def __del__(self) -> None:
        handle = getattr(self, "_hdl", None)
        topology = None if handle is None else self._topo_ref()
        # Whoever holds the lock may wait for this very thread, so it is not waited for: the topology frees the memory later.
        if topology is not None and handle is not None:
            topology.orphans.append(handle)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distances) and self._key == other._key

    def __hash__(self) -> int:
        return self._key

    def __str__(self) -> str:
        return f"Distance matrix '{self.name or '<unnamed>'}'"

    def __repr__(self) -> str:
        return f"Distance(nbobjs={self.nbobjs}, name={self.name!r})"

    def __copy__(self) -> Distances:
        raise RuntimeError("The Distance class cannot be copied.")

    def __deepcopy__(self, memo: dict[int, Any]) -> Distances:
        raise RuntimeError("The Distance class cannot be copied.")


def matrices_of(topology: Topology, kind: int) -> list[Distances]:
    """The matrices of a topology; to be called while it is held."""
    count = ctypes.c_uint(0)
    check(C.distances_get(topology.native_handle, ctypes.byref(count), None, kind, 0))
    if not count.value:
        return []
    handles = (ctypes.POINTER(_structs.Distances) * count.value)()
    check(C.distances_get(topology.native_handle, ctypes.byref(count), handles, kind, 0))
    return [Distances(handles[i], weakref.ref(topology)) for i in range(min(count.value, len(handles)))]

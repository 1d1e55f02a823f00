"""Matrices of latency, bandwidth or hops between objects."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from fluxres.hwloc._library import C
from fluxres.hwloc.hwobject import Object, object_of
from fluxres.hwloc.utils import TopologyPart

if TYPE_CHECKING:
    from fluxres.hwloc._structs import DistancesPtr
    from fluxres.hwloc.topology import Topology
    from fluxres.hwloc.utils import TopoRef

__all__ = ["Distances"]


class Distances(TopologyPart):
    """A matrix of values between objects, indexed by row and column or by two objects: ``matrix[0, 1]``, ``matrix[a, b]``."""

    def __init__(self, hdl: DistancesPtr, topo: TopoRef) -> None:
        if not hdl:
            raise ValueError("Distance handle cannot be None")
        self._hdl: DistancesPtr | None = hdl
        self._topo_ref = topo
        self._generation = self._topo.generation
        self._key = ctypes.addressof(hdl.contents)

    @property
    def native_handle(self) -> DistancesPtr:
        """The pointer to pass to libhwloc.

        Errors: RuntimeError if the topology was destroyed or the matrix released.
        """
        with self._locked():
            if self._hdl is None:
                raise RuntimeError("This distances object has been released.")
            return self._hdl

    @property
    def objects(self) -> list[Object]:
        """The objects, in the order of the rows and columns.

        Errors: RuntimeError if one of them was removed from the topology.
        """
        with self._locked():
            found, topology = self.native_handle.contents, self._topo
            handles = [found.objs[i] for i in range(found.nbobjs)]
            if topology.generation != self._generation:
                known = topology.addresses()
                if any(not handle or ctypes.addressof(handle.contents) not in known for handle in handles):
                    raise RuntimeError("Object is invalid: it was removed from its topology")
            return [object_of(handle, self._topo_ref) for handle in handles]

    @property
    def name(self) -> str | None:
        """Name of the matrix, such as ``NUMALatency``."""
        with self._locked() as topology:
            name: bytes | None = C.distances_get_name(topology, self.native_handle)
            return name.decode("utf-8", "replace") if name else None

    @property
    def nbobjs(self) -> int:
        """Number of objects."""
        with self._locked():
            return int(self.native_handle.contents.nbobjs)

    @property
    def shape(self) -> tuple[int, int]:
        return (self.nbobjs, self.nbobjs)

    def __getitem__(self, key: tuple[int | Object, int | Object]) -> float:
        if not (isinstance(key, tuple) and len(key) == 2):
            raise TypeError("Key must be (i, j) or (Object, Object)")
        row, column = (part if isinstance(part, int) else self.find_object_index(part) for part in key)
        with self._locked():
            size = self.nbobjs
            if not (0 <= row < size and 0 <= column < size):
                raise IndexError(f"Index ({row}, {column}) is out of bounds for matrix of size {size}x{size}")
            return float(self.native_handle.contents.values[row * size + column])

    def __setitem__(self, key: Any, value: float) -> None:
        raise RuntimeError("Distance matrices are read-only")

    def find_object_index(self, obj: Object) -> int:
        """The row and column of an object, -1 if it is not in the matrix."""
        address = hash(obj)
        with self._locked():
            found = self.native_handle.contents
            rows = (i for i in range(found.nbobjs) if found.objs[i] and ctypes.addressof(found.objs[i].contents) == address)
            return next(rows, -1)

    def get_distance(self, obj1: Object, obj2: Object) -> tuple[float, float]:
        """The values from `obj1` to `obj2` and from `obj2` to `obj1`.

        Errors: ValueError if one of them is not in the matrix.
        """
        first, second = self.find_object_index(obj1), self.find_object_index(obj2)
        if first < 0 or second < 0:
            raise ValueError("obj1 or obj2 is not involved in the distances structure.")
        return self[first, second], self[second, first]

    def release(self) -> None:
        """Free the memory; does nothing the second time."""
        topology = self._topo_ref()
        # A topology releases its matrices before it is destroyed, so without one there is nothing to free.
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
        # Let the topology free the memory later: waiting for its lock here could deadlock, because the thread that holds the
        # lock may be waiting for this one.
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

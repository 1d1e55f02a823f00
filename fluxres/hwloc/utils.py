"""Shared by the modules of the binding: references to topologies, flags, PCI addresses, views of native memory."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from fluxres.hwloc._structs import Info
    from fluxres.hwloc.topology import Topology

    TopoRef: TypeAlias = weakref.ReferenceType[Topology]

__all__ = ["PciId", "memoryview_from_memory"]

_F = TypeVar("_F", bound=int)
Flags: TypeAlias = int | _F | Sequence[_F]
_READ, _WRITE = 0x100, 0x200


@dataclass
class PciId:
    """Address of a PCI device, without the function number."""

    domain: int
    bus: int
    dev: int


def or_flags(flags: int | Sequence[int]) -> int:
    """The bitwise OR of a sequence of flags; a single flag is returned as it is.

    >>> or_flags([1, 4]), or_flags(2)
    (5, 2)
    """
    if not isinstance(flags, Sequence):
        return int(flags)
    number = 0
    for flag in flags:
        number |= flag
    return number


def memoryview_from_memory(ptr: ctypes.c_void_p, size: int, read_only: bool) -> memoryview:
    """A view of `size` bytes of memory, which the caller must keep alive as long as the view.

    >>> buffer = ctypes.create_string_buffer(b"abc")
    >>> bytes(memoryview_from_memory(ctypes.cast(buffer, ctypes.c_void_p), 3, True))
    b'abc'
    """
    make = ctypes.pythonapi.PyMemoryView_FromMemory
    make.argtypes, make.restype = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int), ctypes.py_object
    view: memoryview = make(ptr, size, _READ if read_only else _WRITE)
    return view


def address_of(mem: memoryview) -> tuple[ctypes.c_void_p, int]:
    """The address and the size in bytes of a writable view.

    Errors: TypeError if `mem` is read-only, or not a memoryview.
    """
    if not isinstance(mem, memoryview):
        raise TypeError(f"Expecting a memoryview, got: {type(mem)}")
    buffer = (ctypes.c_char * mem.nbytes).from_buffer(mem)
    return ctypes.cast(buffer, ctypes.c_void_p), mem.nbytes


def info_dict(infos: Any, count: int) -> dict[str, str]:
    """A C array of :class:`~fluxres.hwloc._structs.Info` as a dict; of a key that occurs twice, the last value."""

    def text(value: bytes | None) -> str:
        return value.decode("utf-8", "replace") if value else ""

    found: list[Info] = [infos[i] for i in range(count)]
    return {text(info.name): text(info.value) for info in found}


class TopologyPart:
    """Base of everything that points into the memory of a topology, and is valid only as long as the topology.

    Subclasses read native memory only inside ``with self._locked()``, so that no other thread can destroy the topology
    during the read.
    """

    _topo_ref: TopoRef

    @property
    def _topo(self) -> Topology:
        topology = self._topo_ref()
        if topology is None or not topology.is_loaded:
            raise RuntimeError("Topology is invalid")
        return topology

    def _check_same_topology(self, other: TopologyPart) -> None:
        if other._topo_ref() is not self._topo:
            raise ValueError("the object belongs to another topology")

    @contextmanager
    def _locked(self) -> Iterator[ctypes.c_void_p]:
        """Hold the lock of the topology, and yield its pointer.

        Errors: RuntimeError if the topology was destroyed.
        """
        topology = self._topo
        with topology.lock:
            if not topology.is_loaded:
                raise RuntimeError("Topology is invalid")
            yield topology.native_handle

"""What the modules of the binding share: references to topologies, flags, PCI ids, memory as Python sees it."""

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
    """Where a PCI device is: domain, bus, device."""

    domain: int
    bus: int
    dev: int


def or_flags(flags: int | Sequence[int]) -> int:
    """One number of flags given alone or as several.

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
    """Memory behind a pointer, which has to live as long as the view.

    Args:
        size: bytes.

    >>> buffer = ctypes.create_string_buffer(b"abc")
    >>> bytes(memoryview_from_memory(ctypes.cast(buffer, ctypes.c_void_p), 3, True))
    b'abc'
    """
    make = ctypes.pythonapi.PyMemoryView_FromMemory
    make.argtypes, make.restype = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int), ctypes.py_object
    view: memoryview = make(ptr, size, _READ if read_only else _WRITE)
    return view


def address_of(mem: memoryview) -> tuple[ctypes.c_void_p, int]:
    """Address and bytes of a writable view.

    Errors: TypeError for anything else.
    """
    if not isinstance(mem, memoryview):
        raise TypeError(f"Expecting a memoryview, got: {type(mem)}")
    buffer = (ctypes.c_char * mem.nbytes).from_buffer(mem)
    return ctypes.cast(buffer, ctypes.c_void_p), mem.nbytes


def texts(infos: Any, count: int) -> dict[str, str]:
    """Keys and values of an array of :class:`~fluxres.hwloc._structs.Info`; of a key given twice the last."""

    def text(value: bytes | None) -> str:
        return value.decode("utf-8", "replace") if value else ""

    found: list[Info] = [infos[i] for i in range(count)]
    return {text(info.name): text(info.value) for info in found}


class TopologyPart:
    """Something that is only valid while its topology is.

    Whatever reads native memory does so inside ``with self._valid() as handle``, which keeps other threads from
    destroying the topology meanwhile.
    """

    _topo_ref: TopoRef

    @property
    def _topo(self) -> Topology:
        topology = self._topo_ref()
        if topology is None or not topology.is_loaded:
            raise RuntimeError("Topology is invalid")
        return topology

    def _same(self, other: TopologyPart) -> None:
        """Refuse what is of another topology.

        Errors: ValueError.
        """
        if other._topo_ref() is not self._topo:
            raise ValueError("expected an object of the same topology, got one of another")

    @contextmanager
    def _valid(self) -> Iterator[ctypes.c_void_p]:
        topology = self._topo
        with topology.lock:
            if not topology.is_loaded:
                raise RuntimeError("Topology is invalid")
            yield topology.native_handle

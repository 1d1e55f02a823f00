"""Kinds of processors of one machine: fast and frugal ones, for instance."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fluxres.hwloc._library import C, HwLocError, check, failure
from fluxres.hwloc._structs import Info
from fluxres.hwloc.bitmap import Bitmap
from fluxres.hwloc.utils import TopologyPart, texts

if TYPE_CHECKING:
    from fluxres.hwloc.utils import TopoRef

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class CpuKinds(TopologyPart):
    """The kinds of a topology, from the most frugal to the fastest; libhwloc 2.4 or newer has them."""

    def __init__(self, topology: TopoRef) -> None:
        self._topo_ref = topology

    def register(self, cpuset: Bitmap, forced_efficiency: int, infos: Mapping[str, str] = _NONE) -> None:
        """Say of processors that they are of one kind; an efficiency of -1 is unknown.

        Errors: ValueError for an empty set.
        """
        given = (Info * len(infos))(*(Info(key.encode("utf-8"), value.encode("utf-8")) for key, value in infos.items()))
        with self._valid() as handle:
            # Kinds are stored with the topology; bitmaps are copied there.
            check(C.cpukinds_register(handle, cpuset.native_handle, forced_efficiency, len(infos), given, 0))

    def n_kinds(self) -> int:
        """How many kinds; 0 when nothing is known."""
        with self._valid() as handle:
            count = int(C.cpukinds_get_nr(handle, 0))
        if count < 0:
            raise failure(count)
        return count

    def get_kind_by_cpuset(self, cpuset: Bitmap) -> int:
        """The kind that all processors of a set are of.

        Errors: HwLocError for processors of several kinds (EXDEV), or of none that is known (ENOENT); ValueError.
        """
        with self._valid() as handle:
            kind = int(C.cpukinds_get_by_cpuset(handle, cpuset.native_handle, 0))
            number = ctypes.get_errno()
        if kind >= 0:
            return kind
        words = {
            errno.EXDEV: "The cpuset is only partially included in the some kind.",
            errno.ENOENT: "The cpuset is not included in any kind, even partially.",
        }
        raise HwLocError(kind, number, words[number]) if number in words else failure(kind)

    def get_info(self, kind_index: int) -> tuple[Bitmap, int, dict[str, str]]:
        """Processors of a kind, its efficiency, and what else is known.

        Errors: ValueError, FileNotFoundError for a kind that there is not.
        """
        found, efficiency = Bitmap(), ctypes.c_int()
        count, infos = ctypes.c_uint(), ctypes.POINTER(Info)()
        out = (ctypes.byref(efficiency), ctypes.byref(count), ctypes.byref(infos))
        with self._valid() as handle:
            check(C.cpukinds_get_info(handle, kind_index, found.native_handle, *out, 0))
            return found, efficiency.value, texts(infos, count.value)

    def __deepcopy__(self, memo: dict[int, Any]) -> CpuKinds:
        raise RuntimeError("The CpuKinds class cannot be deep-copied.")

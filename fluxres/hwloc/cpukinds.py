"""Kinds of CPUs in one machine, such as performance and efficiency cores."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fluxres.hwloc._library import C, HwLocError, check, failure
from fluxres.hwloc._structs import Info
from fluxres.hwloc.bitmap import Bitmap
from fluxres.hwloc.utils import TopologyPart, info_dict

if TYPE_CHECKING:
    from fluxres.hwloc.utils import TopoRef

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class CpuKinds(TopologyPart):
    """The CPU kinds of a topology, from the least to the most powerful.  Requires libhwloc 2.4 or newer."""

    def __init__(self, topology: TopoRef) -> None:
        self._topo_ref = topology

    def register(self, cpuset: Bitmap, forced_efficiency: int, infos: Mapping[str, str] = _NONE) -> None:
        """Declare the PUs of a set to be of one kind; kinds are ranked by efficiency, and -1 means unknown.

        Errors: ValueError if the set is empty.
        """
        native_infos = (Info * len(infos))(*(Info(key.encode("utf-8"), value.encode("utf-8")) for key, value in infos.items()))
        with self._locked() as handle:
            check(C.cpukinds_register(handle, cpuset.native_handle, forced_efficiency, len(infos), native_infos, 0))

    def n_kinds(self) -> int:
        """Number of kinds; 0 if libhwloc knows of none."""
        with self._locked() as handle:
            count = int(C.cpukinds_get_nr(handle, 0))
        if count < 0:
            raise failure(count)
        return count

    def get_kind_by_cpuset(self, cpuset: Bitmap) -> int:
        """The index of the kind of all PUs in a set.

        Errors: HwLocError if the PUs are of several kinds (EXDEV) or of no known kind (ENOENT); ValueError if the set is
        empty.
        """
        with self._locked() as handle:
            kind = int(C.cpukinds_get_by_cpuset(handle, cpuset.native_handle, 0))
            number = ctypes.get_errno()
        if kind >= 0:
            return kind
        messages = {
            errno.EXDEV: "The cpuset is only partially included in a kind.",
            errno.ENOENT: "The cpuset is not included in any kind, even partially.",
        }
        raise HwLocError(kind, number, messages[number]) if number in messages else failure(kind)

    def get_info(self, kind_index: int) -> tuple[Bitmap, int, dict[str, str]]:
        """The PUs of a kind, its efficiency rank from 0 (-1 if the kinds cannot be ranked), and its info.

        Errors: ValueError or FileNotFoundError if there is no such kind.
        """
        found, efficiency = Bitmap(), ctypes.c_int()
        count, infos = ctypes.c_uint(), ctypes.POINTER(Info)()
        out = (ctypes.byref(efficiency), ctypes.byref(count), ctypes.byref(infos))
        with self._locked() as handle:
            check(C.cpukinds_get_info(handle, kind_index, found.native_handle, *out, 0))
            return found, efficiency.value, info_dict(infos, count.value)

    def __deepcopy__(self, memo: dict[int, Any]) -> CpuKinds:
        raise RuntimeError("The CpuKinds class cannot be deep-copied.")

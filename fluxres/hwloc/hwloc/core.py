"""The constants and structures of libhwloc 2, under their names in pyhwloc."""

from __future__ import annotations

from ctypes import c_uint, c_uint64, c_void_p
from typing import Final

from fluxres.hwloc._enums import (
    AllowFlags,
    CpuBindFlags,
    DistancesKind,
    ExportSyntheticFlags,
    ExportXmlFlags,
    GetTypeDepth,
    LocalNumaNodeFlag,
    LocationType,
    MemAttrFlag,
    MemAttrId,
    MemBindFlags,
    MemBindPolicy,
    ObjBridgeType,
    ObjCacheType,
    ObjOsdevType,
    ObjSnprintfFlag,
    ObjType,
    RestrictFlags,
    TopologyComponentsFlag,
    TopologyFlags,
    TypeFilter,
)
from fluxres.hwloc._library import HwLocError, get_api_version
from fluxres.hwloc._structs import (
    TYPE_UNORDERED,
    UNKNOWN_INDEX,
    BridgeAttr,
    BridgeDownstreamPci,
    CacheAttr,
    Distances,
    GroupAttr,
    Info,
    Location,
    MemoryPageType,
    NumanodeAttr,
    Obj,
    ObjAttr,
    ObjPtr,
    OsdevAttr,
    PcidevAttr,
    obj_t,
)

__all__ = [
    "HWLOC_TYPE_UNORDERED",
    "HWLOC_UNKNOWN_INDEX",
    "AllowFlags",
    "BridgeAttr",
    "BridgeDownstreamPci",
    "CacheAttr",
    "CpuBindFlags",
    "Distances",
    "DistancesKind",
    "ExportSyntheticFlags",
    "ExportXmlFlags",
    "GetTypeDepth",
    "GroupAttr",
    "HwLocError",
    "Info",
    "LocalNumaNodeFlag",
    "Location",
    "LocationType",
    "MemAttrFlag",
    "MemAttrId",
    "MemBindFlags",
    "MemBindPolicy",
    "MemoryPageType",
    "NumanodeAttr",
    "Obj",
    "ObjAttr",
    "ObjBridgeType",
    "ObjCacheType",
    "ObjOsdevType",
    "ObjPtr",
    "ObjSnprintfFlag",
    "ObjType",
    "OsdevAttr",
    "PcidevAttr",
    "RestrictFlags",
    "TopologyComponentsFlag",
    "TopologyFlags",
    "TypeFilter",
    "get_api_version",
    "hwloc_memattr_id_t",
    "hwloc_uint64_t",
    "obj_t",
    "topology_t",
]

HWLOC_UNKNOWN_INDEX: Final = UNKNOWN_INDEX
HWLOC_TYPE_UNORDERED: Final = TYPE_UNORDERED
topology_t = c_void_p
hwloc_memattr_id_t = c_uint
hwloc_uint64_t = c_uint64

"""The types of the libhwloc 2 functions that this package calls.

Functions that the C headers define inline are not in the library; their callers implement them in Python.
"""

from __future__ import annotations

from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_ulong, c_void_p
from typing import Any, Final

from fluxres.hwloc._structs import Distances, Info, Location, TopologySupport, obj_t

_topology: Final = c_void_p
_bitmap: Final = c_void_p
_text: Final = POINTER(c_char_p)
_ints: Final = POINTER(c_int)
_uints: Final = POINTER(c_uint)
_ulongs: Final = POINTER(c_ulong)
_values: Final = POINTER(c_uint64)
_objects: Final = POINTER(obj_t)
_location: Final = POINTER(Location)
_matrices: Final = POINTER(POINTER(Distances))

_BITMAPS: Final[dict[str, tuple[Any, list[Any]]]] = {
    "bitmap_alloc": (_bitmap, []),
    "bitmap_alloc_full": (_bitmap, []),
    "bitmap_free": (None, [_bitmap]),
    "bitmap_dup": (_bitmap, [_bitmap]),
    "bitmap_asprintf": (c_int, [_text, _bitmap]),
    "bitmap_list_asprintf": (c_int, [_text, _bitmap]),
    "bitmap_taskset_asprintf": (c_int, [_text, _bitmap]),
    "bitmap_sscanf": (c_int, [_bitmap, c_char_p]),
    "bitmap_list_sscanf": (c_int, [_bitmap, c_char_p]),
    "bitmap_taskset_sscanf": (c_int, [_bitmap, c_char_p]),
    "bitmap_zero": (None, [_bitmap]),
    "bitmap_fill": (None, [_bitmap]),
    "bitmap_only": (c_int, [_bitmap, c_uint]),
    "bitmap_allbut": (c_int, [_bitmap, c_uint]),
    "bitmap_from_ulong": (c_int, [_bitmap, c_ulong]),
    "bitmap_from_ith_ulong": (c_int, [_bitmap, c_uint, c_ulong]),
    "bitmap_from_ulongs": (c_int, [_bitmap, c_uint, _ulongs]),
    "bitmap_set": (c_int, [_bitmap, c_uint]),
    "bitmap_set_range": (c_int, [_bitmap, c_uint, c_int]),
    "bitmap_clr": (c_int, [_bitmap, c_uint]),
    "bitmap_clr_range": (c_int, [_bitmap, c_uint, c_int]),
    "bitmap_singlify": (c_int, [_bitmap]),
    "bitmap_isset": (c_int, [_bitmap, c_uint]),
    "bitmap_iszero": (c_int, [_bitmap]),
    "bitmap_isfull": (c_int, [_bitmap]),
    "bitmap_isequal": (c_int, [_bitmap, _bitmap]),
    "bitmap_isincluded": (c_int, [_bitmap, _bitmap]),
    "bitmap_intersects": (c_int, [_bitmap, _bitmap]),
    "bitmap_compare": (c_int, [_bitmap, _bitmap]),
    "bitmap_compare_first": (c_int, [_bitmap, _bitmap]),
    "bitmap_weight": (c_int, [_bitmap]),
    "bitmap_first": (c_int, [_bitmap]),
    "bitmap_next": (c_int, [_bitmap, c_int]),
    "bitmap_last": (c_int, [_bitmap]),
    "bitmap_first_unset": (c_int, [_bitmap]),
    "bitmap_next_unset": (c_int, [_bitmap, c_int]),
    "bitmap_or": (c_int, [_bitmap, _bitmap, _bitmap]),
    "bitmap_and": (c_int, [_bitmap, _bitmap, _bitmap]),
    "bitmap_andnot": (c_int, [_bitmap, _bitmap, _bitmap]),
    "bitmap_xor": (c_int, [_bitmap, _bitmap, _bitmap]),
    "bitmap_not": (c_int, [_bitmap, _bitmap]),
}

_TOPOLOGIES: Final[dict[str, tuple[Any, list[Any]]]] = {
    "topology_init": (c_int, [POINTER(_topology)]),
    "topology_load": (c_int, [_topology]),
    "topology_destroy": (None, [_topology]),
    "topology_dup": (c_int, [POINTER(_topology), _topology]),
    "topology_check": (None, [_topology]),
    "topology_set_pid": (c_int, [_topology, c_int]),
    "topology_set_synthetic": (c_int, [_topology, c_char_p]),
    "topology_set_xml": (c_int, [_topology, c_char_p]),
    "topology_set_xmlbuffer": (c_int, [_topology, c_char_p, c_int]),
    "topology_set_components": (c_int, [_topology, c_ulong, c_char_p]),
    "topology_set_flags": (c_int, [_topology, c_ulong]),
    "topology_get_flags": (c_ulong, [_topology]),
    "topology_set_all_types_filter": (c_int, [_topology, c_int]),
    "topology_set_cache_types_filter": (c_int, [_topology, c_int]),
    "topology_set_icache_types_filter": (c_int, [_topology, c_int]),
    "topology_set_io_types_filter": (c_int, [_topology, c_int]),
    "topology_is_thissystem": (c_int, [_topology]),
    "topology_get_support": (POINTER(TopologySupport), [_topology]),
    "topology_get_depth": (c_int, [_topology]),
    "topology_restrict": (c_int, [_topology, _bitmap, c_ulong]),
    "topology_allow": (c_int, [_topology, _bitmap, _bitmap, c_ulong]),
    "topology_refresh": (c_int, [_topology]),
    "topology_get_topology_cpuset": (_bitmap, [_topology]),
    "topology_get_allowed_cpuset": (_bitmap, [_topology]),
    "topology_get_allowed_nodeset": (_bitmap, [_topology]),
    "topology_export_xml": (c_int, [_topology, c_char_p, c_ulong]),
    "topology_export_xmlbuffer": (c_int, [_topology, POINTER(c_void_p), _ints, c_ulong]),
    "free_xmlbuffer": (None, [_topology, c_void_p]),
    "topology_export_synthetic": (c_int, [_topology, c_char_p, c_size_t, c_ulong]),
}

_OBJECTS: Final[dict[str, tuple[Any, list[Any]]]] = {
    "get_type_depth": (c_int, [_topology, c_int]),
    "get_depth_type": (c_int, [_topology, c_int]),
    "get_nbobjs_by_depth": (c_uint, [_topology, c_int]),
    "get_obj_by_depth": (obj_t, [_topology, c_int, c_uint]),
    "compare_types": (c_int, [c_int, c_int]),
    "obj_type_is_normal": (c_int, [c_int]),
    "obj_type_is_io": (c_int, [c_int]),
    "obj_type_is_memory": (c_int, [c_int]),
    "obj_type_is_cache": (c_int, [c_int]),
    "obj_type_is_dcache": (c_int, [c_int]),
    "obj_type_is_icache": (c_int, [c_int]),
    "obj_attr_snprintf": (c_int, [c_char_p, c_size_t, obj_t, c_char_p, c_ulong]),
    "obj_add_info": (c_int, [obj_t, c_char_p, c_char_p]),
}

_BINDING: Final[dict[str, tuple[Any, list[Any]]]] = {
    "set_cpubind": (c_int, [_topology, _bitmap, c_int]),
    "get_cpubind": (c_int, [_topology, _bitmap, c_int]),
    "set_proc_cpubind": (c_int, [_topology, c_int, _bitmap, c_int]),
    "get_proc_cpubind": (c_int, [_topology, c_int, _bitmap, c_int]),
    "set_thread_cpubind": (c_int, [_topology, c_ulong, _bitmap, c_int]),
    "get_thread_cpubind": (c_int, [_topology, c_ulong, _bitmap, c_int]),
    "get_last_cpu_location": (c_int, [_topology, _bitmap, c_int]),
    "get_proc_last_cpu_location": (c_int, [_topology, c_int, _bitmap, c_int]),
    "set_membind": (c_int, [_topology, _bitmap, c_int, c_int]),
    "get_membind": (c_int, [_topology, _bitmap, _ints, c_int]),
    "set_proc_membind": (c_int, [_topology, c_int, _bitmap, c_int, c_int]),
    "get_proc_membind": (c_int, [_topology, c_int, _bitmap, _ints, c_int]),
    "set_area_membind": (c_int, [_topology, c_void_p, c_size_t, _bitmap, c_int, c_int]),
    "get_area_membind": (c_int, [_topology, c_void_p, c_size_t, _bitmap, _ints, c_int]),
}

_ATTRIBUTES: Final[dict[str, tuple[Any, list[Any]]]] = {
    "distances_get": (c_int, [_topology, _uints, _matrices, c_ulong, c_ulong]),
    "distances_get_name": (c_char_p, [_topology, POINTER(Distances)]),
    "distances_release": (None, [_topology, POINTER(Distances)]),
    "memattr_get_by_name": (c_int, [_topology, c_char_p, _uints]),
    "memattr_get_name": (c_int, [_topology, c_uint, _text]),
    "memattr_get_flags": (c_int, [_topology, c_uint, _ulongs]),
    "memattr_register": (c_int, [_topology, c_char_p, c_ulong, _uints]),
    "memattr_get_value": (c_int, [_topology, c_uint, obj_t, _location, c_ulong, _values]),
    "memattr_set_value": (c_int, [_topology, c_uint, obj_t, _location, c_ulong, c_uint64]),
    "memattr_get_best_target": (c_int, [_topology, c_uint, _location, c_ulong, _objects, _values]),
    "memattr_get_best_initiator": (c_int, [_topology, c_uint, obj_t, c_ulong, _location, _values]),
    "memattr_get_targets": (c_int, [_topology, c_uint, _location, c_ulong, _uints, _objects, _values]),
    "memattr_get_initiators": (c_int, [_topology, c_uint, obj_t, c_ulong, _uints, _location, _values]),
    "get_local_numanode_objs": (c_int, [_topology, _location, _uints, _objects, c_ulong]),
    "cpukinds_get_nr": (c_int, [_topology, c_ulong]),
    "cpukinds_get_by_cpuset": (c_int, [_topology, _bitmap, c_ulong]),
    "cpukinds_get_info": (c_int, [_topology, c_uint, _bitmap, _ints, _uints, POINTER(POINTER(Info)), c_ulong]),
    "cpukinds_register": (c_int, [_topology, _bitmap, c_int, c_uint, POINTER(Info), c_ulong]),
}

#: name without the first ``hwloc_`` -> (type of the result, types of the arguments)
FUNCTIONS: Final = {**_BITMAPS, **_TOPOLOGIES, **_OBJECTS, **_BINDING, **_ATTRIBUTES}

LONG: Final = frozenset(
    {"topology_load", "topology_export_xml", "topology_export_xmlbuffer", "topology_dup", "topology_refresh", "set_area_membind"}
)
"""Functions that may take milliseconds or move memory; they release the interpreter lock."""

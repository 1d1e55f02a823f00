"""Kinds, flags and policies of libhwloc 2, with the names that pyhwloc gives them."""

from __future__ import annotations

from enum import IntEnum

from fluxres.hwloc._structs import TYPE_UNORDERED


class ObjType(IntEnum):
    """Type of an object."""

    MACHINE = 0
    PACKAGE = 1
    CORE = 2
    PU = 3
    L1CACHE = 4
    L2CACHE = 5
    L3CACHE = 6
    L4CACHE = 7
    L5CACHE = 8
    L1ICACHE = 9
    L2ICACHE = 10
    L3ICACHE = 11
    GROUP = 12
    NUMANODE = 13
    BRIDGE = 14
    PCI_DEVICE = 15
    OS_DEVICE = 16
    MISC = 17
    MEMCACHE = 18
    DIE = 19
    TYPE_MAX = 20


class ObjCacheType(IntEnum):
    """What a cache keeps."""

    UNIFIED = 0
    DATA = 1
    INSTRUCTION = 2


class ObjBridgeType(IntEnum):
    """What stands on one side of a bridge."""

    HOST = 0
    PCI = 1


class ObjOsdevType(IntEnum):
    """Kinds of devices of the operating system, as bits."""

    STORAGE = 1 << 0
    MEMORY = 1 << 1
    GPU = 1 << 2
    COPROC = 1 << 3
    NETWORK = 1 << 4
    OPENFABRICS = 1 << 5
    DMA = 1 << 6


class ObjSnprintfFlag(IntEnum):
    """How attributes are written out."""

    OLD_VERBOSE = 1 << 0
    LONG_NAMES = 1 << 1
    SHORT_NAMES = 1 << 2
    MORE_ATTRS = 1 << 3
    NO_UNITS = 1 << 4
    UNITS_1000 = 1 << 5


class GetTypeDepth(IntEnum):
    """Depths that are no levels of the tree."""

    UNKNOWN = -1
    MULTIPLE = -2
    NUMANODE = -3
    BRIDGE = -4
    PCI_DEVICE = -5
    OS_DEVICE = -6
    MISC = -7
    MEMCACHE = -8


class ObjTypeCmp(IntEnum):
    """How the objects of two types stand to each other."""

    UNORDERED = TYPE_UNORDERED
    INCLUDE = -1
    EQUAL = 0
    INCLUDED_BY = 1


class TopologyFlags(IntEnum):
    """How a topology is found out."""

    INCLUDE_DISALLOWED = 1 << 0
    IS_THISSYSTEM = 1 << 1
    THISSYSTEM_ALLOWED_RESOURCES = 1 << 2
    IMPORT_SUPPORT = 1 << 3
    RESTRICT_TO_CPUBINDING = 1 << 4
    RESTRICT_TO_MEMBINDING = 1 << 5
    DONT_CHANGE_BINDING = 1 << 6
    NO_DISTANCES = 1 << 7
    NO_MEMATTRS = 1 << 8
    NO_CPUKINDS = 1 << 9


class TopologyComponentsFlag(IntEnum):
    """What is done with a component."""

    BLACKLIST = 1 << 0


class TypeFilter(IntEnum):
    """Which objects of a type are kept."""

    KEEP_ALL = 0
    KEEP_NONE = 1
    KEEP_STRUCTURE = 2
    KEEP_IMPORTANT = 3


class RestrictFlags(IntEnum):
    """What goes when a topology is cut down."""

    REMOVE_CPULESS = 1 << 0
    ADAPT_MISC = 1 << 1
    ADAPT_IO = 1 << 2
    BYNODESET = 1 << 3
    REMOVE_MEMLESS = 1 << 4


class AllowFlags(IntEnum):
    """Which processors and memory become allowed."""

    ALL = 1 << 0
    LOCAL_RESTRICTIONS = 1 << 1
    CUSTOM = 1 << 2


class ExportXmlFlags(IntEnum):
    """Which XML is written."""

    V1 = 1 << 0


class ExportSyntheticFlags(IntEnum):
    """What a synthetic description leaves out."""

    NO_EXTENDED_TYPES = 1 << 0
    NO_ATTRS = 1 << 1
    V1 = 1 << 2
    IGNORE_MEMORY = 1 << 3


class CpuBindFlags(IntEnum):
    """What is bound to processors, and how strictly."""

    PROCESS = 1 << 0
    THREAD = 1 << 1
    STRICT = 1 << 2
    NOMEMBIND = 1 << 3


class MemBindPolicy(IntEnum):
    """Where memory comes from."""

    DEFAULT = 0
    FIRSTTOUCH = 1
    BIND = 2
    INTERLEAVE = 3
    WEIGHTED_INTERLEAVE = 5
    NEXTTOUCH = 4
    MIXED = -1


class MemBindFlags(IntEnum):
    """Whose memory is bound, and how strictly."""

    PROCESS = 1 << 0
    THREAD = 1 << 1
    STRICT = 1 << 2
    MIGRATE = 1 << 3
    NOCPUBIND = 1 << 4
    BYNODESET = 1 << 5


class DistancesKind(IntEnum):
    """Where a matrix comes from and what its values are."""

    FROM_OS = 1 << 0
    FROM_USER = 1 << 1
    VALUE_LATENCY = 1 << 2
    VALUE_BANDWIDTH = 1 << 3
    HETEROGENEOUS_TYPES = 1 << 4
    VALUE_HOPS = 1 << 5


class MemAttrId(IntEnum):
    """Attributes of memory that every topology has."""

    CAPACITY = 0
    LOCALITY = 1
    BANDWIDTH = 2
    LATENCY = 3
    READ_BANDWIDTH = 4
    WRITE_BANDWIDTH = 5
    READ_LATENCY = 6
    WRITE_LATENCY = 7
    MAX = 8


class MemAttrFlag(IntEnum):
    """Which values of an attribute are good, and whether they depend on who accesses."""

    HIGHER_FIRST = 1 << 0
    LOWER_FIRST = 1 << 1
    NEED_INITIATOR = 1 << 2


class LocalNumaNodeFlag(IntEnum):
    """Which NUMA nodes count as local."""

    LARGER_LOCALITY = 1 << 0
    SMALLER_LOCALITY = 1 << 1
    ALL = 1 << 2
    INTERSECT_LOCALITY = 1 << 3


class LocationType(IntEnum):
    """How an initiator is given."""

    OBJECT = 0
    CPUSET = 1

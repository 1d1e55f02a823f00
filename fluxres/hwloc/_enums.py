"""The enumerations of libhwloc 2, under the names that pyhwloc has for them."""

from __future__ import annotations

from enum import IntEnum

from fluxres.hwloc._structs import TYPE_UNORDERED


class ObjType(IntEnum):
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
    UNIFIED = 0
    DATA = 1
    INSTRUCTION = 2


class ObjBridgeType(IntEnum):
    """Type of the upstream or downstream side of a bridge."""

    HOST = 0
    PCI = 1


class ObjOsdevType(IntEnum):
    """Types of OS devices, as bits."""

    STORAGE = 1 << 0
    MEMORY = 1 << 1
    GPU = 1 << 2
    COPROC = 1 << 3
    NETWORK = 1 << 4
    OPENFABRICS = 1 << 5
    DMA = 1 << 6


class ObjSnprintfFlag(IntEnum):
    """How `Object.format_attr` writes attributes."""

    OLD_VERBOSE = 1 << 0
    LONG_NAMES = 1 << 1
    SHORT_NAMES = 1 << 2
    MORE_ATTRS = 1 << 3
    NO_UNITS = 1 << 4
    UNITS_1000 = 1 << 5


class GetTypeDepth(IntEnum):
    """Values of `depth` that are not levels of the main tree."""

    UNKNOWN = -1
    MULTIPLE = -2
    NUMANODE = -3
    BRIDGE = -4
    PCI_DEVICE = -5
    OS_DEVICE = -6
    MISC = -7
    MEMCACHE = -8


class ObjTypeCmp(IntEnum):
    """Whether objects of one type contain those of another."""

    UNORDERED = TYPE_UNORDERED
    INCLUDE = -1
    EQUAL = 0
    INCLUDED_BY = 1


class TopologyFlags(IntEnum):
    """What a topology includes, and how libhwloc discovers it."""

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
    BLACKLIST = 1 << 0


class TypeFilter(IntEnum):
    """Which objects of a type a topology keeps."""

    KEEP_ALL = 0
    KEEP_NONE = 1
    KEEP_STRUCTURE = 2
    KEEP_IMPORTANT = 3


class RestrictFlags(IntEnum):
    """What `Topology.restrict` removes besides PUs."""

    REMOVE_CPULESS = 1 << 0
    ADAPT_MISC = 1 << 1
    ADAPT_IO = 1 << 2
    BYNODESET = 1 << 3
    REMOVE_MEMLESS = 1 << 4


class AllowFlags(IntEnum):
    """Which PUs and NUMA nodes `Topology.allow` allows."""

    ALL = 1 << 0
    LOCAL_RESTRICTIONS = 1 << 1
    CUSTOM = 1 << 2


class ExportXmlFlags(IntEnum):
    V1 = 1 << 0


class ExportSyntheticFlags(IntEnum):
    """What a synthetic description omits."""

    NO_EXTENDED_TYPES = 1 << 0
    NO_ATTRS = 1 << 1
    V1 = 1 << 2
    IGNORE_MEMORY = 1 << 3


class CpuBindFlags(IntEnum):
    """What to bind to PUs, and how strictly."""

    PROCESS = 1 << 0
    THREAD = 1 << 1
    STRICT = 1 << 2
    NOMEMBIND = 1 << 3


class MemBindPolicy(IntEnum):
    """From which of the NUMA nodes memory is allocated."""

    DEFAULT = 0
    FIRSTTOUCH = 1
    BIND = 2
    INTERLEAVE = 3
    WEIGHTED_INTERLEAVE = 5
    NEXTTOUCH = 4
    MIXED = -1


class MemBindFlags(IntEnum):
    """Whose memory to bind, how strictly, and whether the set is of NUMA nodes."""

    PROCESS = 1 << 0
    THREAD = 1 << 1
    STRICT = 1 << 2
    MIGRATE = 1 << 3
    NOCPUBIND = 1 << 4
    BYNODESET = 1 << 5


class DistancesKind(IntEnum):
    """Source of a distance matrix, and meaning of its values."""

    FROM_OS = 1 << 0
    FROM_USER = 1 << 1
    VALUE_LATENCY = 1 << 2
    VALUE_BANDWIDTH = 1 << 3
    HETEROGENEOUS_TYPES = 1 << 4
    VALUE_HOPS = 1 << 5


class MemAttrId(IntEnum):
    """Ids of the memory attributes that every topology has."""

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
    """Whether higher or lower values are better, and whether values depend on the initiator."""

    HIGHER_FIRST = 1 << 0
    LOWER_FIRST = 1 << 1
    NEED_INITIATOR = 1 << 2


class LocalNumaNodeFlag(IntEnum):
    """Which NUMA nodes count as local to an initiator."""

    LARGER_LOCALITY = 1 << 0
    SMALLER_LOCALITY = 1 << 1
    ALL = 1 << 2
    INTERSECT_LOCALITY = 1 << 3


class LocationType(IntEnum):
    OBJECT = 0
    CPUSET = 1

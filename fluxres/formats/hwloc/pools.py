"""Which objects of a topology become pools, and with which types and names.

Packages are sockets, groups around memory are NUMA domains; the other types keep their names. A level whose objects each contain
only one other object says nothing about where work can run, so caches, dies and groups are kept only if one of them has several
children, unless they are requested. Memory, caches and block devices have their bytes as size.

The system knows one card by many names: a GPU is `card1` and `renderD128` to the kernel, and `cuda0`, `nvml0` and `opencl0d0` to
its libraries. Everything below one PCI function is one GPU, or as many as one library lists there: a partitioned MI300A is one
function with `rsmi0` to `rsmi5`, which are allocated separately. flux-core counts the same way (`flux R encode --xml`). A PCI
function is one network card; each disk is separate.

A GPU that a library names is usable. If the topology has such GPUs, only those are counted. If it has none, the writer may have
had no library, and GPUs with a driver (a render node) are counted. A function that only PCI lists has no driver and cannot be
used; it is left out with a note, as is the graphics chip of a console, which does not compute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.formats.hwloc.objects import DEVICES, Object
from fluxres.graph.kinds import Kind, PropertyValue, properties_tuple
from fluxres.syntax.name import is_name

DEVICE_TYPES: Final = ("gpu", "coproc", "nic", "storage")
_NUMBERED: Final = re.compile(r"(cuda|rsmi|nvml|ze|opencl[0-9]+d)([0-9]{1,9})")
_APIS: Final = ("CUDA", "RSMI", "LevelZero", "NVML", "OpenCL", "VectorEngine")
"""Libraries that name a coprocessor, the most reliable first; without PCI, only the devices of the first one present are counted.
"""
_STARTS: Final = {"cuda": "CUDA", "rsmi": "RSMI", "nvml": "NVML", "ze": "LevelZero", "opencl": "OpenCL", "ve": "VectorEngine"}
_NAMED_AFTER: Final = re.compile(rf"({'|'.join(_STARTS)})[0-9][0-9a-z.]*")
VOLUME: Final = "LVM PV "
"""Prefix of the model of a disk if the model is the id of a volume on it, which no other disk has."""
#: classes of PCI devices that compute: 3D and other display controllers, processing accelerators; not VGA
_COMPUTING: Final = ("0302", "0380", "1200")
_MEMORY_KIB: Final = ("CUDAGlobalMemorySize", "RSMIVRAMSize", "LevelZeroHBMSize", "LevelZeroDDRSize", "OpenCLGlobalMemorySize")
_SIZE: Final = re.compile(r"([0-9]{1,18})(?:KiB)?")


class Device(NamedTuple):
    """One pool without its parent: the fields of a row."""

    kind: Kind
    id: int
    size: int
    name: str | None
    line: int


class _Found(NamedTuple):
    """The parts of one card or disk: the PCI function it is on, and its names."""

    at: int
    type: str
    pci: Object | None
    names: list[Object]

    def has_library(self) -> bool:
        return any(_api(name) for name in self.names)

    def has_driver(self) -> bool:
        """Whether the kernel exposes it as a compute device."""
        return any(name.name.startswith("renderD") or name.device == "CoProc" for name in self.names)


def _known(**values: str) -> dict[str, PropertyValue]:
    """The known properties: stripped words, without the empty ones."""
    stripped = {key: " ".join(text.split())[: limits.VALUE_LENGTH_MAX] for key, text in values.items()}
    return {key: text for key, text in stripped.items() if text}


def _device_pools(machine: Object, types: frozenset[str], file: str, left_out: dict[str, int]) -> dict[int, list[Device]]:
    """The devices of a machine by id() of the object that contains them, in the order of the topology.

    Args:
        left_out: receives the number of GPUs and coprocessors that are not counted.

    Errors: LimitExceeded for a disk larger than any pool may be.
    """
    found = _usable(list(_found(machine)), types, left_out)
    gpu_ids = _gpu_ids([each for each in found if each.type == "gpu"])
    taken: set[str] = set()
    count = dict.fromkeys(DEVICE_TYPES, 0)
    by_place: dict[int, list[Device]] = {}
    for each in found:
        number = count[each.type]
        count[each.type] += 1
        if each.type not in types:
            continue
        id_ = gpu_ids[number] if each.type == "gpu" else number
        size, unit = _size(each, file) if each.type == "storage" else (1, None)
        properties = properties_tuple(_properties(each).items())
        name = _name(each, taken)
        kind = Kind(each.type, each.type, unit, name, properties)
        by_place.setdefault(each.at, []).append(Device(kind, id_, size, None, (each.names or [machine])[0].line))
    return by_place


# -- finding devices -----------------------------------------------------------------------------------------------------


def _usable(found: list[_Found], types: frozenset[str], left_out: dict[str, int]) -> list[_Found]:
    """The compute devices that can be used, and all devices of other kinds."""
    is_named = any(each.type == "gpu" and each.has_library() for each in found)
    stay = []
    for each in found:
        if each.type not in ("gpu", "coproc") or each.has_library():
            stay.append(each)
            continue
        what = {"gpu": "GPUs", "coproc": "coprocessors"}[each.type]
        if not each.has_driver():
            what += " that only PCI lists, without a driver or a library for them"
        elif is_named and each.type == "gpu":
            what += " that no library names, while it names others"
        else:
            stay.append(each)
            continue
        if each.type in types:
            left_out[what] = left_out.get(what, 0) + 1
    return stay


def _found(machine: Object) -> Iterator[_Found]:
    """The cards and disks in the order of the file; `at` is id() of the object that contains the bridges to them."""
    for holder in machine.walk():
        if holder.type in ("Bridge", "PCIDev", "OSDev"):
            continue
        loose: list[Object] = []
        todo = [child for child in reversed(holder.children) if child.type in ("Bridge", "PCIDev", "OSDev")]
        while todo:
            found = todo.pop()
            if found.type == "PCIDev":
                yield from _cards(id(holder), found, [below for below in found.walk() if below.type == "OSDev"])
            elif found.type == "OSDev":
                loose += (below for below in found.walk() if below.type == "OSDev")
            else:
                todo += reversed(found.children)
        if loose:
            yield from _loose(id(holder), loose)


def _cards(at: int, pci: Object, names: list[Object]) -> Iterator[_Found]:
    """The devices of one PCI function."""
    computing = [name for name in names if name.device in ("GPU", "CoProc")]
    type_ = _computes(pci, computing)
    if type_ is not None:
        yield from (_Found(at, type_, pci, part) for part in _partitions(computing))
    yield from (_Found(at, "storage", pci, [name]) for name in names if name.device == "Block")
    network = [name for name in names if name.device == "Network"] + [name for name in names if name.device == "OpenFabrics"]
    if network:
        yield _Found(at, "nic", pci, network)


def _partitions(names: list[Object]) -> list[list[Object]]:
    """The names of one PCI function grouped by device: one group for each device that its most reliable library lists."""
    by_api = {api: _of_library(names, api) for api in _APIS}
    surest = next((devices for devices in by_api.values() if devices), [])
    if len(surest) < 2:
        return [names]
    return [list(part) for part in zip(*(devices for devices in by_api.values() if len(devices) == len(surest)), strict=True)]


def _of_library(names: list[Object], api: str) -> list[Object]:
    """The devices of one library, without parts of devices (`ze0.1`) and without those that a second OpenCL platform repeats."""
    found = [name for name in names if _api(name) == api and "." not in name.name]
    platforms = [name.name.rpartition("d")[0] for name in found]
    return found if api != "OpenCL" else [name for name, of in zip(found, platforms, strict=True) if of == platforms[0]]


def _computes(pci: Object, names: list[Object]) -> str | None:
    """Whether a PCI function is a GPU, another coprocessor, or neither."""
    class_ = pci.attributes.get("pci_type", "")[:4]
    apis = {_api(name) for name in names}
    renders = any(name.name.startswith("renderD") for name in names)
    if apis & {"CUDA", "RSMI", "LevelZero", "NVML"} or renders or class_ in _COMPUTING[:2]:
        return "gpu"
    if "OpenCL" in apis:
        return "gpu" if class_.startswith("03") else "coproc"
    return "coproc" if apis - {""} or class_ in _COMPUTING or any(name.device == "CoProc" for name in names) else None


def _loose(at: int, names: list[Object]) -> Iterator[_Found]:
    """Devices whose PCI function is unknown."""
    coprocessors = [name for name in names if name.device == "CoProc" or _api(name) in ("RSMI", "NVML")]
    for api in _APIS:
        fitting = [name for name in coprocessors if _api(name) == api and name.infos.get("OpenCLDeviceType", "GPU") != "CPU"]
        if fitting:
            is_gpu = api in ("CUDA", "RSMI", "LevelZero", "NVML") or api == "OpenCL"
            yield from (_Found(at, "gpu" if is_gpu else "coproc", None, [name]) for name in fitting)
            break
    yield from (_Found(at, "storage", None, [name]) for name in names if name.device == "Block")
    yield from (_Found(at, "nic", None, [name]) for name in names if name.device == "Network")


def _api(name: Object) -> str:
    """The library that names a device; hwloc 1 gives it in an info, and sometimes only the name shows it."""
    said = name.attributes.get("subtype") or name.infos.get("CoProcType") or name.infos.get("Backend", "")
    if said in _APIS:
        return said
    match = _NAMED_AFTER.fullmatch(name.name)
    return _STARTS[match[1]] if match is not None else ""


# -- their attributes -------------------------------------------------------------------------------------------------------


def _gpu_ids(gpus: list[_Found]) -> list[int]:
    """The numbers that their library gives the GPUs, or their order if it gives none or gives one twice."""
    for api in _APIS:
        numbers = [
            int(match[2])
            for gpu in gpus
            for name in gpu.names[:]
            if _api(name) == api and (match := _NUMBERED.fullmatch(name.name)) is not None
        ]
        if len(numbers) == len({*numbers}) == len(gpus):
            return numbers
    return list(range(len(gpus)))


def _name(found: _Found, taken: set[str]) -> str | None:
    """The system's name of a disk or network card as a name template, None if it cannot be the name of a pool."""
    if found.type not in ("nic", "storage"):
        return None
    name = found.names[0].name
    # A name is not used if another pool of the node might get it from its type and number.
    plain = re.fullmatch(r"(?:socket|numa|memory|gpumemory|core|pu|group|die|gpu|coproc|nic|storage|l[1-5]i?cache)[0-9]*", name)
    if plain or name in taken or not is_name(name, without="$/"):
        return None
    taken.add(name)
    return name


def _size(found: _Found, file: str) -> tuple[int, str | None]:
    """The size of a disk in bytes; 1 if it is unknown."""
    match = _SIZE.fullmatch(found.names[0].infos.get("Size", ""))
    if match is None or int(match[1]) == 0:
        return 1, None
    size = int(match[1]) * 1024
    if size > limits.SIZE_MAX:
        raise LimitExceeded(f"Size is {match[1]} KiB, at most {limits.SIZE_MAX >> 10}", where=f"{file}:{found.names[0].line}")
    return size, "B"


def _properties(found: _Found) -> dict[str, PropertyValue]:
    infos: dict[str, str] = {}
    for name in reversed(found.names):
        infos |= name.infos
    pci = {} if found.pci is None else found.pci.infos
    vendor = infos.get("GPUVendor") or (infos.get("Vendor") if found.type == "storage" else "") or pci.get("PCIVendor", "")
    named = infos.get("Model", "") if found.type == "storage" and not infos.get("Model", "").startswith(VOLUME) else ""
    model = infos.get("GPUModel") or named or pci.get("PCIDevice", "")
    kind = found.names[0].attributes.get("subtype", "") if found.type == "storage" else ""
    if found.type == "coproc":
        kind = next((api for api in _APIS if any(_api(name) == api for name in found.names)), "")
    properties = _known(vendor=vendor or "", model=model or "", kind=kind or infos.get("Type", ""))
    if found.pci is not None and (ids := re.search(r"\[([0-9a-f]{4}:[0-9a-f]{4})\]", found.pci.attributes.get("pci_type", ""))):
        properties["pci"] = ids[1]
    memory = next((infos[key] for key in _MEMORY_KIB if _SIZE.fullmatch(infos.get(key, ""))), None)
    if memory is not None and found.type in ("gpu", "coproc"):
        properties["memory_bytes"] = int(_SIZE.fullmatch(memory)[1]) * 1024  # type: ignore[index]  # it matched
    return properties


CACHES: Final = ("l1cache", "l2cache", "l3cache", "l4cache", "l5cache", "l1icache", "l2icache", "l3icache")
_LEVELS: Final = ("group", "die", *CACHES)
_PLAIN: Final = ("socket", "numa", "memory", "gpumemory", "core", "pu", *DEVICE_TYPES)
TYPES: Final = (*_PLAIN, *_LEVELS)
"""All types that may be kept; the node is always kept."""
_ALIASES: Final = {"package": "socket", "numanode": "memory", "network": "nic", "openfabrics": "nic", "block": "storage"}
_OBJECT_TYPES: Final = {
    "Package": "socket",
    "Core": "core",
    "PU": "pu",
    "Die": "die",
    "Group": "group",
    "NUMANode": "memory",
    **{name: name.lower() for level in range(1, 6) for name in (f"L{level}Cache", f"L{level}iCache")},
}
_HOST_DIGITS: Final = re.compile(r"(.*?)([0-9]*)", re.DOTALL)
_ID_DIGITS_MAX: Final = 18


class Keep(NamedTuple):
    """Types to keep everywhere, and types to keep where they add structure."""

    always: frozenset[str]
    structure: frozenset[str]


@dataclass(frozen=True, slots=True)
class Row:
    """One pool: its attributes and the row of its parent."""

    parent: int
    kind: Kind
    id: int
    size: int
    name: str | None = None
    line: int = 0


def kept(keep: str | Iterable[str] = ()) -> Keep:
    """The types selected by words.

    Args:
        keep: types in any case, by hwloc's and Fluxion's names; ``default``, ``all``, and ``cache`` for all caches. Commas may
            separate
            them. An empty list is ``default``.

    Errors: UsageError for an unknown type.

    >>> sorted(kept("package,L3Cache").always), kept("core").structure
    (['l3cache', 'socket'], frozenset())
    """
    given = [keep] if isinstance(keep, str) else list(keep)
    words = [word.strip().lower() for text in given for word in text.split(",") if word.strip()] or ["default"]
    always: set[str] = set()
    structure: set[str] = set()
    for word in words:
        if word == "default":
            always |= {*_PLAIN}
            structure |= {*_LEVELS}
        elif word in ("all", "cache", "caches"):
            always |= {*TYPES} if word == "all" else {*CACHES}
        elif (named := _ALIASES.get(word, word)) in TYPES:
            always.add(named)
        elif word not in ("node", "machine"):
            raise UsageError(f"no type {word!r} to keep", hint=f"the types are default, all, cache, {', '.join(TYPES)}")
    return Keep(frozenset(always), frozenset(structure))


def rows(machine: Object, keep: Keep, file: str, host: str, left_out: dict[str, int]) -> list[Row]:
    """The pools of a node, parents first and devices last.

    Args:
        left_out: receives the number of objects, by kind, that could be pools but are left out.

    Errors: InputError and LimitExceeded `FILE:line` for numbers that are malformed or too large.
    """
    found = [node_row(host, f"{file}:{machine.line}")]
    late: list[Row] = []
    groups = {"numa": 0, "group": 0}
    has_devices = keep.always.intersection(DEVICE_TYPES)
    devices = _device_pools(machine, keep.always, file, left_out) if has_devices else {}
    # Keyed by identity, since two objects may have equal fields.
    todo = [(machine, 0)]
    while todo:
        object_, parent = todo.pop()
        type_ = None if object_ is machine else _type(object_)
        row = None if type_ is None else _row(object_, type_, parent, keep, file, groups)
        if row is not None:
            parent = len(found)
            found.append(row)
        if devices:
            late += (Row(parent, *device) for device in devices.get(id(object_), ()))
        if object_.children:
            todo += [(child, parent) for child in reversed(object_.children) if child.type not in DEVICES]
    return found + late


def node_row(host: str, where: str) -> Row:
    """The row of a node of this name: the digits at the end are its id, the rest is its basename.

    Errors: InputError for text that cannot be a name.
    """
    if not is_name(host, without="/"):
        raise InputError(f"expected a host name, got {host[:40]!r}", where=where, hint="HostName must be a name without '/'")
    prefix, digits = _HOST_DIGITS.fullmatch(host).groups()  # type: ignore[union-attr]  # any text matches
    if len(digits) > _ID_DIGITS_MAX:
        prefix, digits = host, ""
    id_ = int(digits) if digits else -1
    is_regular = prefix != "" and (f"{prefix}{id_}" if digits else prefix) == host
    return Row(-1, Kind("node", prefix or "node"), id_, 1, None if is_regular else host)


def _row(found: Object, type_: str, parent: int, keep: Keep, file: str, groups: dict[str, int]) -> Row | None:
    """The row of an object, None if it is not kept; `groups` numbers the pools of a type that several hwloc types map to."""
    size, unit, id_ = 1, None, groups.get(type_, found.index)
    if type_ in groups:
        groups[type_] += 1
    if not (type_ in keep.always or (type_ in keep.structure and len(found.normal()) > 1)):
        return None
    properties: dict[str, PropertyValue] = {}
    if type_ in ("memory", "gpumemory"):
        size, unit = whole(found, "local_memory", file), "B"
        if size == 0:
            return None
        properties = _known(kind=found.attributes.get("subtype", ""))
    elif type_ in CACHES:
        size, unit = whole(found, "cache_size", file), "B"
        if size == 0:
            size, unit = 1, None
    elif type_ == "socket":
        properties = _known(vendor=found.infos.get("CPUVendor", ""), model=found.infos.get("CPUModel", ""))
    return Row(parent, Kind(type_, type_, unit, None, properties_tuple(properties.items())), id_, size, None, found.line)


def _type(found: Object) -> str | None:
    type_ = _OBJECT_TYPES.get(found.type)
    if type_ == "memory" and found.attributes.get("subtype") == "GPUMemory":
        return "gpumemory"
    if type_ == "group" and any(child.type == "NUMANode" for child in found.children):
        return "numa"
    return type_


def whole(found: Object, key: str, file: str) -> int:
    """The integer value of an attribute, 0 if it is missing.

    Errors: InputError for text that is not an integer; LimitExceeded for one that is too large for a size.
    """
    text = found.attributes.get(key, "0")
    if not (text.isascii() and text.isdecimal()):
        raise InputError(f"expected a whole number for {key}, got {text[:40]!r}", where=f"{file}:{found.line}")
    if len(text) > 20 or int(text) > limits.SIZE_MAX:
        raise LimitExceeded(f"{key} is {text[:40]}, at most {limits.SIZE_MAX}", where=f"{file}:{found.line}")
    return int(text)

"""GPUs, coprocessors, network cards and disks from the I/O devices of a topology.

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
from collections.abc import Iterator
from typing import Final, NamedTuple

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.formats.hwloc.objects import Object
from fluxres.graph.kinds import Kind, PropertyValue, properties_tuple

TYPES: Final = ("gpu", "coproc", "nic", "storage")
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


def known_properties(**values: str) -> dict[str, PropertyValue]:
    """The known properties: stripped words, without the empty ones."""
    stripped = {key: " ".join(text.split())[: limits.VALUE_LENGTH_MAX] for key, text in values.items()}
    return {key: text for key, text in stripped.items() if text}


def pools(machine: Object, types: frozenset[str], file: str, left_out: dict[str, int]) -> dict[int, list[Device]]:
    """The devices of a machine by id() of the object that contains them, in the order of the topology.

    Args:
        left_out: receives the number of GPUs and coprocessors that are not counted.

    Errors: LimitExceeded for a disk larger than any pool may be.
    """
    found = _usable(list(_found(machine)), types, left_out)
    gpu_ids = _gpu_ids([each for each in found if each.type == "gpu"])
    taken: set[str] = set()
    count = dict.fromkeys(TYPES, 0)
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
    if not name or plain or name in taken or "$" in name or "/" in name:
        return None
    if not name.isprintable() or len(name) > limits.NAME_LENGTH_MAX:
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
    """Vendor, model and kind, where known."""
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
    properties = known_properties(vendor=vendor or "", model=model or "", kind=kind or infos.get("Type", ""))
    if found.pci is not None and (ids := re.search(r"\[([0-9a-f]{4}:[0-9a-f]{4})\]", found.pci.attributes.get("pci_type", ""))):
        properties["pci"] = ids[1]
    memory = next((infos[key] for key in _MEMORY_KIB if _SIZE.fullmatch(infos.get(key, ""))), None)
    if memory is not None and found.type in ("gpu", "coproc"):
        properties["memory_bytes"] = int(_SIZE.fullmatch(memory)[1]) * 1024  # type: ignore[index]  # it matched
    return properties

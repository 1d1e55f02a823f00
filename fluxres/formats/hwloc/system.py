"""The local machine, or a synthetic one, through libhwloc: the sources ``hwloc:`` and ``hwloc:package:2 core:8 pu:2``.

The library's objects become the same tree as XML does, so both give the same pools.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from fluxres.errors import FluxresError, InputError
from fluxres.formats.format import Loaded
from fluxres.formats.hwloc import cluster as hwloc_cluster
from fluxres.formats.hwloc.objects import Object, settled

if TYPE_CHECKING:
    from fluxres.hwloc import Topology
    from fluxres.hwloc.hwobject import Object as Native

_TYPES: Final = {
    "MACHINE": "Machine",
    "PACKAGE": "Package",
    "DIE": "Die",
    "CORE": "Core",
    "PU": "PU",
    "GROUP": "Group",
    "NUMANODE": "NUMANode",
    "MEMCACHE": "MemCache",
    "BRIDGE": "Bridge",
    "PCI_DEVICE": "PCIDev",
    "OS_DEVICE": "OSDev",
    "MISC": "Misc",
}
_DEVICES: Final = {1: "Block", 4: "GPU", 8: "CoProc", 16: "Network", 32: "OpenFabrics", 64: "DMA"}


def read(text: str = "", *, origin: int | None = None, keep: str | Iterable[str] = (), cluster: str | None = None) -> Loaded:
    """The node that this program runs on.

    Args:
        text: a synthetic description of another node, in libhwloc's syntax; empty for the local machine.
        origin, keep, cluster: as for :func:`.hwloc.read`.

    Errors: InputError if there is no libhwloc, or for a description or a machine that it cannot read.
    """
    from fluxres.hwloc import Topology
    from fluxres.hwloc.topology import TypeFilter

    name = f"hwloc:{text}"
    try:
        topology = Topology.from_synthetic(text) if text.strip() else Topology.from_this_system()
        with topology.set_all_types_filter(TypeFilter.KEEP_ALL).set_io_types_filter(TypeFilter.KEEP_IMPORTANT):
            machine = tree(topology)
    except FluxresError:
        raise
    except (OSError, RuntimeError, ValueError, MemoryError, NotImplementedError) as error:
        hint = "such as hwloc:package:2 core:8 pu:2" if text else "lstopo may report more"
        raise InputError(f"libhwloc cannot read this: {error}", where=name, hint=hint) from error
    return hwloc_cluster.of_machine(machine, name, keep=keep, cluster=cluster, origin=origin)


def tree(topology: Topology) -> Object:
    return settled(_object(topology.get_root_obj()))


def _object(native: Native) -> Object:
    type_ = native.type.name
    # The other types are caches: L1ICACHE is L1iCache in XML.
    in_xml = _TYPES.get(type_) or f"L{type_[1]}{'i' * (type_[2] == 'I')}Cache"
    made = Object(in_xml, native.name or "", _attributes(native), native.info)
    if type_ == "OS_DEVICE":
        made.device = _DEVICES.get(native.attr.types, "")  # type: ignore[union-attr]  # devices have attributes
    below = [*native.children, *native.iter_memory_children(), *native.iter_io_children(), *native.iter_misc_children()]
    made.children = [_object(child) for child in below]
    return made


def _attributes(native: Native) -> dict[str, str]:
    """The XML attributes of an object, as far as they affect pools."""
    from fluxres.hwloc.hwobject import Cache, NumaNode, PciDevice

    attributes = {"subtype": native.subtype} if native.subtype else {}
    if isinstance(native, NumaNode):
        attributes["local_memory"] = str(native.local_memory)
    elif isinstance(native, Cache):
        attributes["cache_size"] = str(native.size)
    elif isinstance(native, PciDevice):
        device = native.attr
        attributes["pci_type"] = f"{device.class_id:04x} [{device.vendor_id:04x}:{device.device_id:04x}]"
    return attributes

"""The GPUs of the machine that this process may use, of all vendors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fluxres.documents.document import listed
from fluxres.formats.machine.files import Files, is_value

PCI: Final = "/sys/bus/pci/devices"
#: a function on a PCI bus: domain, bus, device and function
ADDRESS: Final = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
#: values that are written to hide all GPUs; Slurm writes the last one
_NO_DEVICE: Final = ("", "-1", "none", "void", "NoDevFiles")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, or an instance of one.

    Args:
        visible: what the vendor's variable calls it.
        numa: the NUMA domain of its bus; -1 if unknown.
        address: on the PCI bus.
    """

    vendor: str
    visible: str
    numa: int = -1
    model: str = ""
    uuid: str = ""
    address: str = ""

    def properties(self) -> dict[str, str]:
        said = {"model": self.model, "uuid": self.uuid, "address": self.address}
        return {"vendor": self.vendor, "visible": self.visible} | {key: text for key, text in said.items() if is_value(text)}


@dataclass(frozen=True, slots=True)
class Seen:
    """The GPUs of one vendor, and where they are said."""

    gpus: list[Gpu]
    where: str = ""


def gpus(files: Files, environ: Mapping[str, str], vendors: Iterable[str]) -> list[Seen]:
    """The GPUs of these vendors, each vendor's in the order of its library.

    Sources: see the modules of the vendors.
    """
    from fluxres.formats.machine import amd, intel, nvidia

    asked = frozenset(vendors)
    readers = {"nvidia": nvidia.gpus, "amd": amd.gpus, "intel": intel.gpus}
    found = {vendor: reader(files, environ) for vendor, reader in readers.items() if vendor in asked}
    intel.note_others(files, {vendor for vendor, seen in found.items() if not seen.gpus and not seen.where})
    return [*found.values()]


def domain(files: Files, address: str) -> int:
    """The NUMA domain of a PCI device; -1 if unknown."""
    found = files.number(f"{PCI}/{address}/numa_node")
    return -1 if found is None else found


def note_denied(files: Files, place: str, denied: list[str], what: str) -> None:
    """Report GPUs whose device files this process may not open."""
    if denied:
        count = f"{len(denied)} GPU{'s' * (len(denied) > 1)}"
        files.note(f"denied {place}", place, f"left out: {count} that cannot be opened: {listed(denied)}{what}")


def note_ended(files: Files, variable: str, value: str, ended: str, count: int) -> None:
    """Report a list of devices that ended before its last word, unless it is one that is written for "no device"."""
    if ended and value.strip() not in _NO_DEVICE:
        files.note(variable, "", f"{variable}={value[:80]}: {ended}; programs see {count or 'no'} GPU{'s' * (count != 1)}")

"""Intel's discrete GPUs, and cards of any vendor that have no driver for computing, by the kernel's graphics devices (DRM).

The graphics unit of a processor is not counted: it is at 0000:00:02.0, and a scheduler has no use for it. Level Zero numbers
discrete GPUs first, in the order of the PCI bus. In its default mode (FLAT) each stack of a GPU is a device of its own, so a GPU
of two stacks is called ``0,1`` and the next one ``2,3``.

Sources: Linux, Documentation/gpu/drm-uapi.rst, drivers/gpu/drm/xe/xe_gt_sysfs.c and i915/gt/intel_gt_sysfs.c; oneAPI GPU
Optimization Guide, Exposing the Device Hierarchy; Level Zero specification, ZE_AFFINITY_MASK.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from fluxres.documents.document import listed
from fluxres.formats.machine.files import Files
from fluxres.formats.machine.gpus import ADDRESS, Gpu, Seen, domain, note_denied

VENDOR: Final = "intel"
DRM: Final = "/sys/class/drm"
_CARD: Final = re.compile(r"card[0-9]{1,5}")
_RENDER: Final = re.compile(r"renderD[0-9]{1,5}")
_TILE, _GT = re.compile(r"tile[0-9]"), re.compile(r"gt[0-9]")
_VENDORS: Final = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": VENDOR}
_NEEDED: Final = {"nvidia": "NVIDIA's driver", "amd": "/sys/class/kfd"}
_DRIVERS: Final = ("xe", "i915")
_MASKS: Final = ("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR")


def gpus(files: Files, environ: Mapping[str, str]) -> Seen:
    """The discrete GPUs of Intel that this process may open."""
    is_flat = environ.get("ZE_FLAT_DEVICE_HIERARCHY", "FLAT").upper() != "COMPOSITE"
    found, denied, device = list[Gpu](), list[str](), 0
    for card, address in sorted(_cards(files, VENDOR), key=lambda pair: pair[1]):
        place = f"{DRM}/{card}/device"
        driver = files.link(f"{place}/driver").rpartition("/")[2]
        if driver not in _DRIVERS or address.endswith(":00:02.0"):
            continue
        renders = files.names(f"{place}/drm", _RENDER)
        if not renders or not files.is_usable(f"/dev/dri/{renders[0]}"):
            denied.append(f"/dev/dri/{renders[0] if renders else card}")
            continue
        stacks = len(files.names(place, _TILE)) or len(files.names(f"{DRM}/{card}/gt", _GT)) or 1
        count = stacks if is_flat else 1
        visible = ",".join(map(str, range(device, device + count)))
        code = (files.text(f"{place}/device") or "").strip().removeprefix("0x")
        found.append(Gpu(VENDOR, visible, domain(files, address), f"8086:{code}" if code else "", "", address))
        device += count
    note_denied(files, DRM, denied, "; members of the group 'render' may")
    for name in _MASKS if found else ():
        if environ.get(name):
            files.note(name, "", f"{name}={environ[name][:80]} is not read: all GPUs of Intel are listed")
    return Seen(found, files.path(DRM) if found or denied else "")


def note_others(files: Files, missing: Collection[str]) -> None:
    """Report cards of vendors whose driver for computing is missing."""
    for vendor in sorted(_NEEDED.keys() & missing):
        cards = [card for card, _ in _cards(files, vendor)]
        if cards:
            files.note(f"no driver {vendor}", DRM, f"left out: {listed(cards)} of vendor {vendor}, for lack of {_NEEDED[vendor]}")


def _cards(files: Files, vendor: str) -> Iterator[tuple[str, str]]:
    """The cards of a vendor with their addresses."""
    for card in files.names(DRM, _CARD):
        address = files.link(f"{DRM}/{card}/device").rpartition("/")[2]
        code = (files.text(f"{DRM}/{card}/device/vendor") or "").strip().lower()
        if ADDRESS.fullmatch(address) and _VENDORS.get(code) == vendor:
            yield card, address

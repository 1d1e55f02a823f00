"""AMD's GPUs, by the topology of the kernel's compute driver (KFD).

ROCr numbers the nodes with compute units in the order of the topology; nodes that this process may not open do not count. A
module with two dies (MI250X), or a GPU that is partitioned (CPX), has several nodes, and so does an APU beside its CPU.

Sources: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c; ROCm, GPU isolation techniques; ROCr-Runtime, amd_filter_device.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from fluxres.formats.machine.files import Files
from fluxres.formats.machine.gpus import PCI, Gpu, Seen, domain, note_denied, note_ended
from fluxres.formats.machine.visible import ROCR, Device, rocr

VENDOR: Final = "amd"
TOPOLOGY: Final = "/sys/class/kfd/kfd/topology/nodes"
_DEVICE: Final = "/dev/kfd"
_NODE: Final = re.compile(r"[0-9]{1,5}")
_FIELD: Final = re.compile(r"^([a-z_]+) ([0-9]{1,20})$", re.MULTILINE)
#: variables that choose among what ROCR_VISIBLE_DEVICES leaves
_INNER: Final = ("HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


def gpus(files: Files, environ: Mapping[str, str]) -> Seen:
    """The GPUs that a program of this process sees on ROCr."""
    found = list(_gpus(files))
    value = environ.get(ROCR)
    if not found:
        has_driver = files.exists(TOPOLOGY)
        if value and not has_driver:
            files.note(ROCR, "", f"{ROCR}={value[:80]} is ignored, since there is no driver of AMD ({files.path(TOPOLOGY)})")
        return Seen([], files.path(TOPOLOGY) if has_driver else "")
    for name in _INNER:
        if environ.get(name):
            files.note(name, "", f"{name}={environ[name][:80]} is not read: it counts among the GPUs that {ROCR} leaves")
    if value is None:
        return Seen(found, files.path(TOPOLOGY))
    chosen = rocr(value, [Device(index, gpu.uuid) for index, gpu in enumerate(found)])
    note_ended(files, ROCR, value, chosen.ended, len(chosen.devices))
    where = f"{files.path(TOPOLOGY)}, {ROCR}={value[:80]}"
    return Seen([replace(found[at], visible=word) for at, word in chosen.devices], where)


def _gpus(files: Files) -> Iterator[Gpu]:
    index, denied = 0, list[str]()
    can_compute = files.is_usable(_DEVICE)
    for name in files.names(TOPOLOGY, _NODE):
        said = {key: int(digits) for key, digits in _FIELD.findall(files.text(f"{TOPOLOGY}/{name}/properties") or "")}
        if not said.get("simd_count"):
            continue
        render = f"/dev/dri/renderD{said.get('drm_render_minor', 0)}"
        if not can_compute or not files.is_usable(render):
            denied.append(render if can_compute else _DEVICE)
            continue
        place, bits = said.get("location_id", 0), said.get("domain", 0)
        address = f"{bits:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7:x}"
        uuid = f"GPU-{said['unique_id']:016x}" if said.get("unique_id") else ""
        yield Gpu(VENDOR, str(index), domain(files, address), _model(files, address, said), uuid, address)
        index += 1
    note_denied(files, TOPOLOGY, [*dict.fromkeys(denied)], "; members of the group 'render' may")


def _model(files: Files, address: str, said: Mapping[str, int]) -> str:
    """The name of the product, or that of the instruction set: 90010 is gfx90a."""
    product = (files.text(f"{PCI}/{address}/product_name") or "").strip()
    version = said.get("gfx_target_version", 0)
    return product or (f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else "")

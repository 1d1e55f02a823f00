"""NVIDIA's GPUs, by the files of the driver.

CUDA numbers them in the order of the PCI bus if ``CUDA_DEVICE_ORDER=PCI_BUS_ID``, which is set for every program that gets a GPU
from fluxres. GPUs that this process may not open do not count, as they do not for CUDA. Instances of a GPU (MIG) are GPUs of
their own; the driver's files have their numbers, but only nvidia-smi knows the names that today's CUDA uses. It is also asked
where Windows has the driver (WSL), and nowhere else.

Sources: NVIDIA driver README, "/proc file system interface"; MIG User Guide, Device Nodes and Capabilities, CUDA_VISIBLE_DEVICES;
nvidia-smi(1), ``-L``.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fluxres import limits
from fluxres.clock import stopwatch
from fluxres.formats.machine.files import Files
from fluxres.formats.machine.gpus import ADDRESS, Gpu, Seen, domain, note_denied, note_ended
from fluxres.formats.machine.visible import CUDA, Device, cuda

VENDOR: Final = "nvidia"
DRIVER: Final = "/proc/driver/nvidia"
_ORDER: Final = "CUDA_DEVICE_ORDER"
_FIELD: Final = re.compile(r"^([A-Z][A-Za-z ]*?):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_GI, _CI = re.compile(r"gi[0-9]{1,4}"), re.compile(r"ci[0-9]{1,4}")
_LISTED: Final = re.compile(
    r"^GPU [0-9]+: (.*?) \(UUID: (GPU-[0-9a-fA-F-]+)\)|^\s+MIG (\S+)\s.*\(UUID: (MIG-[0-9A-Za-z/-]{1,128})\)", re.MULTILINE
)
_UUID: Final = re.compile(r"GPU-[0-9A-Za-z-]{1,64}")
#: of Windows, below which WSL has its own nvidia-smi
_WSL, _WSL_BIN = "/dev/dxg", "/usr/lib/wsl/lib"
#: creates the device files when the first program wants them
_MODPROBE: Final = "/usr/bin/nvidia-modprobe"


@dataclass(frozen=True, slots=True)
class _Card:
    """A GPU that can be opened: its index, and its instances by name."""

    index: int
    gpu: Gpu
    minor: int
    instances: list[_Instance] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Instance:
    """A MIG instance: the names of it, the best one first, and its profile (``1g.10gb``), if known."""

    names: tuple[str, ...]
    profile: str = ""


def gpus(files: Files, environ: Mapping[str, str]) -> Seen:
    """The GPUs and instances of GPUs that a CUDA program of this process sees."""
    cards = list(_cards(files))
    where = files.path(f"{DRIVER}/gpus")
    if not cards and files.exists(_WSL):
        cards, where = _cards_of_windows(files), f"{files.path(_WSL_BIN)}/nvidia-smi"
    elif any(card.instances for card in cards):
        cards = _with_names(files, environ, cards)
    value = environ.get(CUDA)
    if not cards:
        has_driver = files.exists(f"{DRIVER}/gpus")
        if value and value.strip() and not has_driver:
            files.note(CUDA, "", f"{CUDA}={value[:80]} is ignored, since there is no driver of NVIDIA ({files.path(DRIVER)})")
        return Seen([], where if has_driver else "")
    entries = list(_entries(cards))
    if value is None:
        return Seen([gpu for gpu, _ in entries], where)
    chosen = cuda(value, [device for _, device in entries])
    note_ended(files, CUDA, value, chosen.ended, len(chosen.devices))
    _note_order(files, environ, cards, value)
    seen = []
    for at, word in chosen.devices:
        gpu, device = entries[at]
        # The number of a partitioned GPU stands for its first instance.
        is_name = not device.instance or word.startswith("MIG-")
        seen.append(replace(gpu, visible=word) if is_name else gpu)
    return Seen(seen, f"{where}, {CUDA}={value[:80]}")


def _entries(cards: list[_Card]) -> Iterator[tuple[Gpu, Device]]:
    """The GPUs without instances and the instances of the others, with what each can be called."""
    for card in cards:
        if not card.instances:
            yield card.gpu, Device(card.index, card.gpu.uuid)
        for instance in card.instances:
            model = f"{card.gpu.model} MIG {instance.profile}".strip() if instance.profile else f"{card.gpu.model} MIG"
            made = replace(card.gpu, visible=instance.names[0], uuid=instance.names[0], model=model)
            yield made, Device(card.index, card.gpu.uuid, instance.names)


def _note_order(files: Files, environ: Mapping[str, str], cards: list[_Card], value: str) -> None:
    numbered = value.lstrip()[:1].isdecimal()
    if numbered and len({card.gpu.model for card in cards}) > 1 and environ.get(_ORDER) != "PCI_BUS_ID":
        what = f"{CUDA}={value[:80]} is read in the order of the PCI bus; with GPUs of several models, set {_ORDER}=PCI_BUS_ID"
        files.note(_ORDER, "", what)


# -- the files of the driver -----------------------------------------------------------------------------------------------


def _cards(files: Files) -> Iterator[_Card]:
    place = f"{DRIVER}/gpus"
    has_files = files.exists("/dev/nvidiactl")
    index, denied = 0, list[str]()
    for name in sorted(files.names(place, ADDRESS)):
        text = files.text(f"{place}/{name}/information")
        if text is None:
            continue
        said = dict(_FIELD.findall(text))
        minor = said.get("Device Minor", "")
        if not minor.isdecimal() or len(minor) > 5:
            files.note("information", f"{place}/{name}/information", "has no 'Device Minor'; ignored")
            continue
        if "Yes" in (said.get("GPU Excluded"), said.get("GPU Blacklisted"), said.get("Blacklisted")):
            files.note("excluded", f"{place}/{name}", "left out: the driver excludes this GPU")
            continue
        device = f"/dev/nvidia{minor}"
        # Without any device file, the driver's helper creates them for the first program, but not inside a plain container.
        if not (files.is_usable(device) if has_files else files.exists(_MODPROBE)):
            denied.append(device)
            continue
        # Of a GPU that no program uses, the driver may not know the uuid yet: "GPU-????????-…".
        uuid = said.get("GPU UUID", "")
        uuid = uuid if _UUID.fullmatch(uuid) else ""
        gpu = Gpu(VENDOR, str(index), domain(files, name.lower()), said.get("Model", ""), uuid, name.lower())
        yield _Card(index, gpu, int(minor), _instances(files, int(minor), uuid))
        index += 1
    note_denied(files, place, denied, "")


def _instances(files: Files, minor: int, uuid: str) -> list[_Instance]:
    """The instances of a GPU, by the capabilities that the driver has for them."""
    place = f"{DRIVER}/capabilities/gpu{minor}/mig"
    both = [(gi, ci) for gi in files.names(place, _GI) for ci in files.names(f"{place}/{gi}", _CI)]
    return [_Instance((f"MIG-{uuid}/{gi[2:]}/{ci[2:]}",) if uuid else ()) for gi, ci in both]


# -- nvidia-smi ------------------------------------------------------------------------------------------------------------


def _with_names(files: Files, environ: Mapping[str, str], cards: list[_Card]) -> list[_Card]:
    """The cards, with the names that nvidia-smi has for their instances."""
    listed = _listed(files, _program(files, environ.get("PATH", "")))
    by_uuid = {gpu.uuid: instances for gpu, instances in listed}
    made = []
    for card in cards:
        known, old = by_uuid.get(card.gpu.uuid, []), card.instances
        if not card.gpu.uuid and card.index < len(listed):
            known = listed[card.index][1]
        if known and len(known) == len(old):
            both = [_Instance((*new.names, *was.names), new.profile) for new, was in zip(known, old, strict=True)]
            made.append(replace(card, instances=both))
            continue
        if old:
            place = f"{DRIVER}/capabilities/gpu{card.minor}"
            named = "they have the names of drivers before 470" if card.gpu.uuid else "it is left out, since nothing names them"
            files.note("instances", place, f"nvidia-smi does not list its instances; {named}")
        if card.gpu.uuid or not old:
            made.append(card)
    return made


def _cards_of_windows(files: Files) -> list[_Card]:
    program = f"{files.path(_WSL_BIN)}/nvidia-smi"
    if not os.access(program, os.X_OK):
        return []
    found = enumerate(_listed(files, program))
    return [_Card(index, replace(gpu, visible=str(index)), index, instances) for index, (gpu, instances) in found]


def _program(files: Files, path: str) -> str:
    """The nvidia-smi on the search path of the machine; empty if there is none."""
    for folder in path.split(os.pathsep):
        program = f"{files.path(folder)}/nvidia-smi"
        if folder.startswith("/") and os.access(program, os.X_OK) and os.path.isfile(program):
            return program
    return ""


def _listed(files: Files, program: str) -> list[tuple[Gpu, list[_Instance]]]:
    """The GPUs in the answer of ``nvidia-smi -L``, each with its instances."""
    found: list[tuple[Gpu, list[_Instance]]] = []
    for model, uuid, profile, name in _LISTED.findall(_output(files, program) if program else ""):
        if uuid:
            found.append((Gpu(VENDOR, uuid, model=model, uuid=uuid), []))
        elif found:
            found[-1][1].append(_Instance((name,), profile))
    return found


def _output(files: Files, program: str) -> str:
    """What ``nvidia-smi -L`` prints; empty if it fails or takes too long."""
    import subprocess

    try:
        running = subprocess.Popen([program, "-L"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except (OSError, ValueError) as error:
        files.notes.add("nvidia-smi", program, f"cannot be started: {getattr(error, 'strerror', None) or error}")
        return ""
    assert running.stdout is not None
    data, until = b"", stopwatch() + limits.DETECTION_PROGRAM_S
    ended = False
    while (left := until - stopwatch()) > 0 and len(data) <= limits.DETECTED_FILE_BYTES_MAX:
        if not select.select([running.stdout], [], [], left)[0]:
            break
        chunk = os.read(running.stdout.fileno(), 65_536)
        if not chunk:
            ended = True
            break
        data += chunk
    if not ended:
        running.kill()
        files.notes.add("nvidia-smi", program, f"stopped after {limits.DETECTION_PROGRAM_S:g} s or too much output")
    running.stdout.close()
    try:
        # A process that waits for a broken driver does not end even when it is killed.
        status = running.wait(1.0)
    except subprocess.TimeoutExpired:
        return ""
    if ended and status != 0:
        files.notes.add("nvidia-smi", program, f"ended with status {status}; its answer is ignored")
    return data.decode("utf-8", "replace") if ended and status == 0 else ""

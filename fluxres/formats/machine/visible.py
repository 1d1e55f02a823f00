"""The variables that restrict a process to some GPUs: ``CUDA_VISIBLE_DEVICES`` and ``ROCR_VISIBLE_DEVICES``.

Pure: the value and the devices go in, the devices that a program sees come out. Both lists end at the first word that is no
device, whatever follows: ``0,9,1`` on two GPUs is the first one, and ``-1``, ``NoDevFiles`` (Slurm's word) and the empty text are
none. They differ in the rest: CUDA reads ``1gpu`` as 1 and shows nothing at all if a device is repeated, ROCr reads ``0x1`` as 1
and ends the list there. HyperQueue takes the words as they are and asks no device.

Sources: CUDA C++ Programming Guide, CUDA Environment Variables, and PyTorch's torch/cuda/__init__.py, which repeats the rules of
the driver; ROCr-Runtime, amd_filter_device.cpp; HyperQueue, generic resources.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fluxres.documents.document import excerpt

CUDA: Final = "CUDA_VISIBLE_DEVICES"
ROCR: Final = "ROCR_VISIBLE_DEVICES"
_LEADING: Final = re.compile(r"\s*\+?([0-9]{1,9})")
_STRTOL: Final = re.compile(r"\s*\+?(?:(0[xX][0-9a-fA-F]{1,8})|(0[0-7]{0,9})|([1-9][0-9]{0,8}))")
_ROCR_MIN, _ROCR_MAX = 5, 20


class Device(NamedTuple):
    """What a device can be called.

    Args:
        number: its index; the instances of one GPU share it.
        uuid: ``GPU-…``; empty if unknown.
        instance: ``MIG-…``, in each form that is known; empty for a whole GPU.
    """

    number: int
    uuid: str = ""
    instance: tuple[str, ...] = ()


class Chosen(NamedTuple):
    """The devices that a value chooses, by position, each with its number or name in the value; and why the list ended early."""

    devices: list[tuple[int, str]]
    ended: str = ""


def words(value: str) -> list[str]:
    """The words of a list of devices.

    >>> words("2, GPU-a,")
    ['2', 'GPU-a']
    """
    return [word for part in value.split(",") if (word := part.strip())]


def cuda(value: str, devices: Sequence[Device]) -> Chosen:
    """The devices that a CUDA program sees.

    >>> two = [Device(0, "GPU-8932"), Device(1, "GPU-77aa")]
    >>> cuda("1,0", two).devices, cuda("GPU-77", two).devices, cuda("0,5,1", two)
    ([(1, '1'), (0, '0')], [(1, 'GPU-77')], Chosen(devices=[(0, '0')], ended="'5' is no GPU here"))
    >>> cuda("0,0", two), cuda("", two)
    (Chosen(devices=[], ended="'0' is repeated"), Chosen(devices=[], ended='it is empty'))
    """
    if not value.strip():
        return Chosen([], "it is empty")
    # The first word decides whether the list has numbers or names.
    prefix = next((each for each in ("GPU-", "MIG-") if value.lstrip().startswith(each)), "")

    def find(word: str) -> tuple[int, str]:
        if prefix:
            return (_named(word, prefix, devices) if word.startswith(prefix) else -1), word
        match = _LEADING.match(word)
        number = -1 if match is None else int(match[1])
        return next((at for at, device in enumerate(devices) if device.number == number), -1), str(number)

    chosen = _chosen([part.strip() for part in value.split(",")], find)
    return Chosen([], chosen.ended) if chosen.ended.endswith("repeated") else chosen


def rocr(value: str, devices: Sequence[Device]) -> Chosen:
    """The devices that a program on ROCr sees.

    >>> two = [Device(0, "GPU-00ab"), Device(1, "GPU-00cd")]
    >>> rocr("gpu-00c,0x0", two).devices, rocr("0,0,1", two)
    ([(1, 'gpu-00c'), (0, '0')], Chosen(devices=[(0, '0')], ended="'0' is repeated"))
    """
    if not value:
        return Chosen([], "it is empty")
    names = [Device(device.number, device.uuid.upper()) for device in devices]

    def find(word: str) -> tuple[int, str]:
        if word[:1] in ("G", "g"):
            return (_named(word.upper(), "GPU-", names) if _ROCR_MIN <= len(word) <= _ROCR_MAX else -1), word
        match = _STRTOL.fullmatch(word)
        if match is None:
            return -1, word
        number = int(match[1], 16) if match[1] else int(match[2], 8) if match[2] else int(match[3])
        return (number if number < len(devices) else -1), str(number)

    return _chosen([part.strip() for part in value.split(",")], find)


def _chosen(parts: Sequence[str], find: Callable[[str], tuple[int, str]]) -> Chosen:
    found: dict[int, str] = {}
    for word in parts:
        at, name = find(word)
        if at < 0:
            return Chosen([*found.items()], f"{excerpt(word)} is no GPU here")
        if at in found:
            return Chosen([*found.items()], f"{excerpt(word)} is repeated")
        found[at] = name
    return Chosen([*found.items()])


def _named(word: str, prefix: str, devices: Sequence[Device]) -> int:
    """The one device whose name begins with the word; -1 if there is none or several."""
    if prefix == "MIG-":
        fitting = [at for at, each in enumerate(devices) if any(name.startswith(word) for name in each.instance)]
        exact = [at for at in fitting if word in devices[at].instance]
        return exact[0] if exact else fitting[0] if len(fitting) == 1 else -1
    fitting = [at for at, each in enumerate(devices) if each.uuid and each.uuid.startswith(word)]
    # The instances of one GPU are one name.
    return fitting[0] if fitting and len({devices[at].number for at in fitting}) == 1 else -1

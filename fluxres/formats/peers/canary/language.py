"""canary's small languages: pools in words of the command line, requests from parameters, variables of a test.

What a parameter of a test means depends on the pool: `gpus=4` asks for four GPUs where the pool knows the type, be it with none
of them, and is a plain parameter where it does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fluxres import limits
from fluxres.documents.document import excerpt, shown
from fluxres.errors import InputError, LimitExceeded, UsageError

CPUS: Final = "cpus"
#: types of items that ask for the node itself, which the request is of
NODES: Final = ("node", "nodes")
_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[0-9]+")
#: widths and precisions that Python would fill with blanks, however many
_WIDE = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(?:[0-9]{4,}|[0-9]*\.[0-9]{4,})")
_PREFIX: Final = "resource_pool:"
_TIMES: Final = "--oversubscribe"
_FORMS: Final = "such as gpus=4, nodes=2, slots_per_gpu=3 or resource_pool:gpus:4"


Slots = int | float


@dataclass(frozen=True, slots=True)
class Item:
    """Slots of one instance of a type."""

    type: str
    slots: int


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """What a test asks for on one node; `exclusive` has all of the node."""

    items: tuple[Item, ...]
    exclusive: bool = False


def plural(type_name: str) -> str:
    """The name of a type as canary keeps it.

    >>> plural("gpu"), plural("cpus")
    ('gpus', 'cpus')
    """
    return type_name if type_name.endswith("s") else f"{type_name}s"


def parse_counts(text: str) -> dict[str, int]:
    """A pool in words: how many of each type, of nodes, and slots of each instance.

    Args:
        text: words ``TYPE=N`` as behind ``-r``, or ``resource_pool:TYPE:N`` as behind ``-c``, apart by blanks or commas;
            the options themselves may stand before them.  ``--oversubscribe TYPE=N`` multiplies the slots of each instance.

    Errors: InputError with the word, for one that is neither, and for a type that is listed twice; LimitExceeded.

    >>> parse_counts("-c resource_pool:gpus:4 -r cpu=32"), parse_counts("nodes=2,slots_per_gpu=3")
    ({'gpus': 4, 'cpus': 32}, {'nodes': 2, 'slots_per_gpus': 3})
    """
    if len(text) > limits.REQUEST_TEXT_MAX:
        raise LimitExceeded(f"expected at most {limits.REQUEST_TEXT_MAX} characters, got {len(text)}", where="resource pool")
    found: dict[str, int] = {}
    times: dict[str, int] = {}
    option = ""
    for word in re.split(r"[\s,]+", text.strip()):
        if word in ("-c", "-r", _TIMES, ""):
            option = word or option
            continue
        word, option = word.removeprefix(f"{_TIMES}="), _TIMES if word.startswith(f"{_TIMES}=") else option
        is_path = word.startswith(_PREFIX)
        name, sign, digits = word.removeprefix(_PREFIX).partition(":" if is_path else "=")
        if not sign or not _TYPE.fullmatch(name) or not _NUMBER.fullmatch(digits):
            raise InputError(f"expected a type and a number, got {excerpt(word)}", where="resource pool", hint=_FORMS)
        if len(digits) > 20 or int(digits) > limits.COUNT_MAX:
            raise LimitExceeded(f"expected a number up to {limits.COUNT_MAX}, got {excerpt(digits)}", where="resource pool")
        key = f"slots_per_{plural(name[10:])}" if name.startswith("slots_per_") and name[10:] else plural(name)
        taken = times if option == _TIMES else found
        if key in taken:
            raise InputError(f"{key} is given twice", where="resource pool", hint="remove one")
        taken[key] = int(digits)
    return _oversubscribed(found, times)


def _oversubscribed(found: dict[str, int], times: dict[str, int]) -> dict[str, int]:
    for key, factor in times.items():
        if key == "nodes" or key.startswith("slots_per_") or key not in found or not factor:
            known = ", ".join(sorted(name for name in found if name != "nodes" and not name.startswith("slots_per_")))
            message = f"expected a type of the pool and at least 1, got {key}={factor}"
            raise InputError(message, where=f"resource pool: {_TIMES}", hint=f"types are {known}")
        slots = f"slots_per_{key}"
        found[slots] = found.get(slots, 1) * factor
        if found[slots] > limits.COUNT_MAX:
            raise LimitExceeded(f"expected at most {limits.COUNT_MAX} slots, got {found[slots]}", where="resource pool")
    return found


def cost(cpus: int, runtime_s: float) -> float:
    """The measure by which canary sorts tests, the largest first.

    >>> cost(3, 4)
    5.0
    """
    return math.hypot(cpus, runtime_s)


def infer(parameters: Mapping[str, Any], types: Iterable[str]) -> dict[str, int]:
    """How many of each type a test needs by its parameters.

    Args:
        types: those that the pool declares, also with none of them.

    Errors: InputError for a parameter that names a type and is no whole number.

    >>> infer({"gpus": 2, "np": 3}, ["cpus", "gpus"]), infer({"fpgas": 2}, ["cpus"])
    ({'gpus': 2, 'cpus': 1}, {'cpus': 1})
    """
    known = set(types)
    found: dict[str, int] = {}
    for name, value in parameters.items():
        if name not in known:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            hint = f"{name} is a type of the resource pool"
            raise InputError(f"expected a whole number, got {shown(value)}", where=f"parameter {name}", hint=hint)
        if value > limits.COUNT_MAX:
            raise LimitExceeded(f"expected a number up to {limits.COUNT_MAX}, got {shown(value)}", where=f"parameter {name}")
        found[name] = value
    found.setdefault(CPUS, 1)
    return found


def requests(counts: Mapping[str, int], slots_per_node: Mapping[str, int], *, nodes: int | None = None) -> list[NodeRequest]:
    """What a test asks for on each of its nodes.

    Args:
        counts: of each type, as :func:`infer` gives them.
        slots_per_node: slots of each type on one node.
        nodes: how many; as many as the counts need when left out.

    Counts are dealt out evenly, and the first nodes have what remains.  A test on several nodes has them for itself.
    Errors: UsageError for less than one node; InputError for a type of which no node has any;
    LimitExceeded beyond `limits.REQUEST_VERTICES_MAX` items.

    >>> [len(each.items) for each in requests({"cpus": 5}, {"cpus": 4})]
    [3, 2]
    """
    for type_name, count in counts.items():
        if count and not slots_per_node.get(type_name):
            hint = f"the pool has {', '.join(name for name, slots in slots_per_node.items() if slots) or 'nothing'}"[:200]
            raise InputError(f"{count} {type_name} are requested, but no node has any", where=type_name, hint=hint)
    needed = max((-(-count // slots_per_node[type_name]) for type_name, count in counts.items() if count), default=1)
    number = needed if nodes is None else nodes
    if number < 1:
        raise UsageError(f"expected at least one node, got {number}", where="nodes")
    if number + sum(counts.values()) > limits.REQUEST_VERTICES_MAX:
        message = f"{sum(counts.values())} items on {number} nodes, at most {limits.REQUEST_VERTICES_MAX} are looked at"
        raise LimitExceeded(message, where="request")
    return [
        NodeRequest(
            tuple(
                Item(type_name, 1)
                for type_name, count in counts.items()
                for _ in range(count // number + (node < count % number))
            ),
            exclusive=number > 1,
        )
        for node in range(number)
    ]


# -- variables of a test ---------------------------------------------------------------------------------------------


def variable(type_name: str) -> str:
    """The word for a type in names of variables: without one `s` at its end.

    >>> variable("crypto_chips"), variable("fpga")
    ('crypto_chip', 'fpga')
    """
    return type_name.removesuffix("s")


def environment(ids: Mapping[str, Sequence[str]], variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a test, with placeholders filled in.

    Args:
        ids: of the instances given, by type; an instance of which several slots were given stands as often.
        variables: those it has already, its own and those around it; ``%(gpu_ids)s`` in a value is the ids of the GPUs.

    A value that is no template of these, because it names something else or has a lone ``%``, stays as it is, and so does one
    of more than VALUE_LENGTH_MAX characters.

    >>> environment({"gpus": ["0", "0", "1"]}, {"CUDA_VISIBLE_DEVICES": "%(gpu_ids)s"})
    {'CUDA_VISIBLE_DEVICES': '0,0,1', 'CANARY_GPU_IDS': '0,0,1'}
    """
    texts = {variable(type_name): ",".join(given) for type_name, given in ids.items()}
    named = {f"{word}_ids": text for word, text in texts.items()}
    made = {key: _filled(value, named) for key, value in (variables or {}).items()}
    return made | {f"CANARY_{word.upper()}_IDS": text for word, text in texts.items()}


def _filled(value: str, named: Mapping[str, str]) -> str:
    if len(value) > limits.VALUE_LENGTH_MAX or _WIDE.search(value):
        return value
    try:
        return value % named
    except (KeyError, TypeError, ValueError, OverflowError):
        return value


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU that a test was given; `vendor` is None, empty or `UNKNOWN` where nobody knows it."""

    node: str
    id: str
    vendor: str | None = None


def device_environment(devices: Sequence[Device], variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that show a test its GPUs, each id once, in order.

    Args:
        devices: that it was given; those of no known vendor are NVIDIA's, as canary has it.
        variables: those it has already, which stay.

    >>> device_environment([Device("a", "0", "NVIDIA"), Device("b", "0", "NVIDIA"), Device("b", "1", "AMD")])
    {'CUDA_VISIBLE_DEVICES': '0', 'ROCR_VISIBLE_DEVICES': '1'}
    """
    made = dict(variables or {})
    known: dict[str, list[str]] = {"CUDA_VISIBLE_DEVICES": [], "ROCR_VISIBLE_DEVICES": []}
    for device in devices:
        vendor = (device.vendor or "").upper()
        if vendor in ("", "UNKNOWN", "NVIDIA"):
            known["CUDA_VISIBLE_DEVICES"].append(device.id)
        elif vendor in ("AMD", "ROCM"):
            known["ROCR_VISIBLE_DEVICES"].append(device.id)
    for key, ids in known.items():
        if ids and key not in made:
            made[key] = ",".join(dict.fromkeys(ids))
    return made

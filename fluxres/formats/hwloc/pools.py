"""Which objects of a topology become pools, and with which types and names.

Packages are sockets, groups around memory are NUMA domains; the other types keep their names. A level whose objects each contain
only one other object says nothing about where work can run, so caches, dies and groups are kept only if one of them has several
children, unless they are requested. Memory, caches and block devices have their bytes as size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.formats.hwloc import devices as hwloc_devices
from fluxres.formats.hwloc.objects import DEVICES, Object
from fluxres.graph.kinds import Kind, PropertyValue, properties_tuple

CACHES: Final = ("l1cache", "l2cache", "l3cache", "l4cache", "l5cache", "l1icache", "l2icache", "l3icache")
_LEVELS: Final = ("group", "die", *CACHES)
_PLAIN: Final = ("socket", "numa", "memory", "gpumemory", "core", "pu", *hwloc_devices.TYPES)
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
        host: its name.
        left_out: receives the number of objects, by kind, that somebody might expect as pools but that are left out.

    Errors: InputError and LimitExceeded `FILE:line` for numbers that are malformed or too large.
    """
    found = [node_row(host, f"{file}:{machine.line}")]
    late: list[Row] = []
    groups = {"numa": 0, "group": 0}
    has_devices = keep.always.intersection(hwloc_devices.TYPES)
    devices = hwloc_devices.pools(machine, keep.always, file, left_out) if has_devices else {}
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
    if not host or not host.isprintable() or "/" in host or len(host) > limits.NAME_LENGTH_MAX:
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
        properties = hwloc_devices.known_properties(kind=found.attributes.get("subtype", ""))
    elif type_ in CACHES:
        size, unit = whole(found, "cache_size", file), "B"
        if size == 0:
            size, unit = 1, None
    elif type_ == "socket":
        properties = hwloc_devices.known_properties(
            vendor=found.infos.get("CPUVendor", ""), model=found.infos.get("CPUModel", "")
        )
    return Row(parent, Kind(type_, type_, unit, None, properties_tuple(properties.items())), id_, size, None, found.line)


def _type(found: Object) -> str | None:
    """The pool type of an object."""
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

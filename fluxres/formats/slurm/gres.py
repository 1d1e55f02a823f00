"""Generic resources of Slurm: those of nodes (`gpu:a100:4(S:0-1)`) and the devices that gres.conf describes.

Each GPU is a pool, since jobs are allocated single GPUs; a GRES that is only counted (licences on a node, bandwidth) is one pool
with that size. gres.conf distinguishes devices by file, nearby cores and links.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from fluxres import limits
from fluxres.documents.document import shown
from fluxres.documents.mistakes import Mistakes
from fluxres.errors import ErrorPlace, InputError, LimitExceeded
from fluxres.formats.slurm.lines import Line
from fluxres.graph.kinds import PropertyValue
from fluxres.graph.recipe import Recipe
from fluxres.syntax import hostlist

#: resources that are single devices even if no file is named
DEVICES: Final = frozenset({"gpu", "mic", "nic", "fpga", "hca", "npu", "tpu", "xpu"})
_NEAR = re.compile(r"\((?:S|IDX):([^()]*)\)")
_SCALE: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_COUNT = re.compile(r"(\d{1,19})([kmgtp]?)", re.IGNORECASE)
KEYS: Final = frozenset(
    {"name", "type", "file", "cores", "cpus", "count", "links", "flags", "nodename", "autodetect", "multiplefiles"}
)
_ITEMS_MAX: Final = 256
_OPEN_MAX: Final = 65_536
"""Maximal number of devices of one kind in a node; a larger number is one pool with a size."""


@dataclass(frozen=True, slots=True)
class Gres:
    """A number of one generic resource in a node.

    Args:
        name: such as ``gpu``.
        type: such as ``a100``; empty if none is given.
        no_consume: whether a job that asks for it leaves all of it to others.
    """

    name: str
    type: str
    count: int
    no_consume: bool = False


@dataclass(frozen=True, slots=True)
class Devices:
    """A line of gres.conf.

    Args:
        hosts: the nodes with these devices; None for all nodes.
        files: one for each device; empty if they have none.
    """

    hosts: frozenset[str] | None
    name: str
    type: str
    count: int
    files: tuple[str, ...] = ()
    cores: str = ""
    links: str = ""
    flags: str = ""


def parse(text: str, line: Line, key: str = "gres") -> tuple[Gres, ...]:
    """The generic resources of a node.

    Errors: InputError with the place of the line.

    >>> parse("gpu:a100:4(S:0-1),craynetwork:2", Line("slurm.conf:1", {}))[0]
    Gres(name='gpu', type='a100', count=4, no_consume=False)
    """
    with ErrorPlace(f"{line.where}: {key}"):
        return _parsed(text)


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[Gres, ...]:
    """The same without a place; thousands of lines get the same value from their defaults."""
    found: list[Gres] = []
    for item in _NEAR.sub("", text).split(","):
        item = item.strip()
        if not item or item.lower() in ("(null)", "none", "n/a"):
            continue
        name, *rest = item.split(":")
        no_consume = "no_consume" in rest
        rest = [part for part in rest if part != "no_consume"]
        count = 1
        if rest and (scaled := _COUNT.fullmatch(rest[-1])):
            count = int(scaled[1]) * _SCALE[scaled[2].lower()]
            rest.pop()
        if not name or len(rest) > 1 or len(item) > limits.NAME_LENGTH_MAX:
            raise InputError(f"expected name:type:count, got {shown(item)}")
        if count > limits.SIZE_MAX:
            raise LimitExceeded(f"expected at most {limits.SIZE_MAX}, got {shown(item)}")
        if len(found) >= _ITEMS_MAX:
            raise LimitExceeded(f"more than {_ITEMS_MAX} generic resources in a node")
        if count:
            found.append(Gres(name, rest[0] if rest else "", count, no_consume))
    return tuple(found)


def devices(line: Line, mistakes: Mistakes) -> Devices | None:
    """A line of gres.conf; None for one that describes no device.

    Args:
        mistakes: unknown keys are noted here.
    """
    line.require_known(KEYS, mistakes)
    if "name" not in line.pairs:
        return None
    files = tuple(_files(line))
    given = line.pairs.get("count")
    scaled = None if given is None else _COUNT.fullmatch(given)
    if given is not None and scaled is None:
        raise line.refuse("count", f"expected a number, got {shown(given)}")
    count = len(files) or 1 if scaled is None else int(scaled[1]) * _SCALE[scaled[2].lower()]
    return Devices(
        frozenset(line.hosts("nodename")) if "nodename" in line.pairs else None,
        line.name("name"),
        line.pairs.get("type", ""),
        count,
        files,
        line.pairs.get("cores", line.pairs.get("cpus", "")),
        line.pairs.get("links", ""),
        line.pairs.get("flags", ""),
    )


def _files(line: Line) -> Iterable[str]:
    text = line.pairs.get("file") or line.pairs.get("multiplefiles", "")
    with ErrorPlace(f"{line.where}: file"):
        if hostlist.count(text) > _OPEN_MAX:
            raise LimitExceeded(f"more than {_OPEN_MAX} devices")
        files = hostlist.parse(text)
    line.take("file", len(files))
    return files


def recipes(found: Sequence[Gres], known: Sequence[Devices], where: str, most: int) -> list[Recipe]:
    """The pools of a node's generic resources.

    Args:
        known: lines of gres.conf for this node, in order.
        most: maximal number of entries.

    Errors: LimitExceeded for more entries.
    """
    made: list[Recipe] = []
    numbers: dict[str, int] = {}
    open_lines: dict[str, list[Devices]] = {}
    for devices in known:
        open_lines.setdefault(devices.name, []).append(devices)
    for gres in found:
        named = open_lines.get(gres.name, [])
        lines = [devices for devices in named if gres.type in ("", devices.type)]
        single = gres.name in DEVICES or any(line.files for line in lines)
        for part, line in _parts(gres, lines):
            properties = _properties(part, line)
            if len(made) >= most:
                message = f"more than {limits.SLURM_ENTRIES_MAX} distinct generic resources in distinct nodes"
                raise LimitExceeded(message, where=where, hint="each device of a File= counts")
            if not single or part.count > _OPEN_MAX:
                made.append(Recipe(gres.name, size=part.count, properties=properties, ids=numbers.setdefault(gres.name, 0)))
                numbers[gres.name] += 1
                continue
            first = numbers.get(gres.name, 0)
            numbers[gres.name] = first + part.count
            made.append(Recipe(gres.name, part.count, properties=properties, ids=first))
        if gres.type:
            open_lines[gres.name] = [devices for devices in named if devices.type != gres.type]
    return made


def _parts(gres: Gres, lines: Sequence[Devices]) -> Iterable[tuple[Gres, Devices | None]]:
    """The resource split as gres.conf distinguishes its devices: one by one if each has a file."""
    left = gres.count
    for line in lines:
        if not left:
            return
        named = replace(gres, type=gres.type or line.type)
        if line.files and line.count == len(line.files):
            for file in line.files[:left]:
                yield replace(named, count=1), replace(line, files=(file,))
            left -= min(left, len(line.files))
        else:
            part = min(left, line.count)
            yield replace(named, count=part), replace(line, files=())
            left -= part
    if left:
        yield replace(gres, count=left), None


def _properties(gres: Gres, line: Devices | None) -> dict[str, PropertyValue]:
    properties: dict[str, PropertyValue] = {}
    if gres.type:
        properties["model"] = gres.type
    if gres.no_consume:
        properties["no_consume"] = None
    if line is not None:
        file = line.files[0] if line.files else ""
        found = (("cores", line.cores), ("file", file), ("links", line.links), ("flags", line.flags))
        properties |= {key: value for key, value in found if value}
    return properties

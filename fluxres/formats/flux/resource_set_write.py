"""Write R version 1 (RFC 20): ranks, the cores and gpus of each, hosts and properties; with a graph or topologies on request.

In the topologies of TreePool (RFC 49), equal nodes share one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from fluxres import limits
from fluxres.allocation.resource_set import CHILDREN
from fluxres.errors import FluxresError, InputError, UsageError
from fluxres.formats import losses
from fluxres.formats.flux import jgf
from fluxres.formats.flux.rank_columns import (
    Children,
    Described,
    Targets,
    children_of,
    host_ids,
    host_of,
    lost,
    nodelist_of,
    pools_within,
    properties_of,
    targets_of,
)
from fluxres.formats.flux.resource_set import ATTRIBUTES, EXPIRATION, NSLOTS, SCHEDULING, STARTTIME
from fluxres.formats.flux.treepool import MEMORY_UNIT, RESOURCES
from fluxres.formats.format import Hold, Output
from fluxres.graph.jgf import left_out_below
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import Structure
from fluxres.syntax import idset, unit

SCHEDULINGS: Final = ("none", "jgf", "jgf_shorthand", "treepool")
"""The possible values of `scheduling`."""


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None, scheduling: str = "none") -> Output:
    """A machine as a resource set.

    Args:
        scheduling: ``none``, the graph as ``jgf`` or ``jgf_shorthand``, or ``treepool``.

    Errors: InputError for a machine without ranks, with one rank twice, or with node names that a hostlist cannot express;
    UsageError for another value of `scheduling`. Cost: O(pools) array operations, O(different nodes) Python, and that of the
    graph. Source: RFC 20, 40, 49.
    """
    if scheduling not in SCHEDULINGS:
        raise UsageError(f"no scheduling {scheduling!r}", hint=f"the values are {', '.join(SCHEDULINGS)}")
    targets = targets_of(structure)
    described = Described.nothing(structure, targets)
    children = children_of(structure, targets)
    if scheduling == "treepool":
        children.gpus_first[:] = False  # in the order of the topologies
    tags = structure.tags.get(0, {})
    execution: dict[str, Any] = {"R_lite": _entries(targets, children)}
    execution["starttime"], execution["expiration"] = (_number(tags, key) for key in (STARTTIME, EXPIRATION))
    execution["nodelist"] = [nodelist_of(structure, targets)]
    if properties := properties_of(structure, targets, described):
        execution["properties"] = properties
    if tags.get(NSLOTS):
        execution["nslots"] = _slots(tags)
    parts = [b'{"version":1,"execution":', orjson.dumps(execution)]
    lines: list[str] | None = None
    note = ""
    if scheduling == "treepool":
        parts += [b',"scheduling":', topologies(structure, targets, children.numbers, described)]
    elif scheduling != "none":
        pieces, lines = _graph(structure, children, name, shorthand=scheduling == "jgf_shorthand")
        parts += [b',"scheduling":', *pieces]
        lines += jgf.lost_of(structure, allocations)
        note = jgf.note_of(structure)
    elif tags.get(SCHEDULING):
        parts += [b',"scheduling":', _json(tags, SCHEDULING)]
    if scheduling != "treepool":
        for type_ in CHILDREN:
            pools = pools_within(structure, targets, type_)
            described.pools[pools] = True
            described.ids[pools] = structure.id[pools] == children.numbers[pools]
        described.mixed[targets.vertices[children.mixed]] = True
    if lines is None:
        lines = lost(structure, allocations, targets, described, host_ids(structure, targets), name)
        if scheduling == "treepool" and tags.get(SCHEDULING):
            lines.append(f"tags: {SCHEDULING} of the root, which is replaced by topologies")
    attributes = b',"attributes":' + _json(tags, ATTRIBUTES) if tags.get(ATTRIBUTES) else b""
    return Output(b"".join([*parts, attributes, b"}\n"]), lines, note)


def write_treepool(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as a resource set with the topologies of its nodes; see :func:`write`."""
    return write(structure, allocations, name=name, scheduling="treepool")


def _graph(structure: Structure, children: Children, name: str | None, *, shorthand: bool) -> tuple[Iterator[bytes], list[str]]:
    """The graph as JSON in pieces, and what its shorthand leaves out."""
    part = jgf.part_of(structure, shorthand=shorthand)
    more = {}
    if shorthand:
        more = left_out_below(structure, part, CHILDREN, host=partial(host_of, structure), numbers=children.numbers)
    what = "what is below exclusive ones, of which R says nodes, cores and gpus;"
    lost = losses.concern(structure, "pools", jgf.hidden_in(structure, part), what)
    return jgf.pieces_of(structure, part, name, more), lost


def _json(tags: dict[str, str | None], key: str) -> bytes:
    """The JSON in a tag."""
    text = str(tags[key]).encode()
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(f"the tag {key} of the root is not JSON: {error.msg}", hint="remove the tag") from None
    return text


def _slots(tags: dict[str, str | None]) -> int:
    text = tags[NSLOTS] or ""
    # A float cannot hold all digits of a count.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else int(_number(tags, NSLOTS))


def _number(tags: dict[str, str | None], key: str, most: float = limits.TIME_MAX_S) -> float:
    """The number in a tag, 0 without the tag."""
    text = tags.get(key) or "0"
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        raise InputError(f"the tag {key} of the root is not a valid number in R: {text[:40]!r}", hint="remove the tag")
    return number


def _entries(targets: Targets, children: Children) -> list[dict[str, Any]]:
    alike: dict[tuple[bool, str, str], list[int]] = {}
    columns = (children.gpus_first.tolist(), *(children.texts[type_] for type_ in CHILDREN))
    for rank, sort in zip(targets.ranks.tolist(), zip(*columns, strict=True), strict=True):
        alike.setdefault(sort, []).append(rank)
    entries = []
    for (gpus_first, cores, gpus), ranks in alike.items():
        held = {"core": cores, **({"gpu": gpus} if gpus else {})}
        entries.append({"rank": idset.format(ranks), "children": dict(reversed(held.items())) if gpus_first else held})
    return entries


_KEYS: Final = {type_: key for key, type_ in RESOURCES.items()}
_STORAGE_UNIT: Final = "GiB"
_NO_LEVELS: Final = frozenset({*RESOURCES, "memory", "storage"})


def topologies(structure: Structure, targets: Targets, numbers: NDArray[np.int64], described: Described) -> bytes:
    """The `scheduling` of R for these execution targets, as JSON.

    Args:
        numbers: by vertex, the id that R_lite has for each core and gpu.
        described: receives marks for what is written of pools.

    Cost: O(different nodes) Python, and a comparison of rows for each node.
    Source: RFC 49.
    """
    counted = np.array([kind.type in _KEYS for kind in structure.kinds])[structure.kind]
    shown = np.where(counted, numbers, -1)
    offers = structure.offers
    alike: dict[tuple[bytes, ...], list[int]] = {}
    for i, v in enumerate(targets.vertices.tolist()):
        rows = slice(v + 1, structure.end.item(v))
        columns = (structure.parent[rows] - v, structure.kind[rows], shown[rows], structure.size[rows], offers[rows])
        alike.setdefault(tuple(column.tobytes() for column in columns), []).append(i)
    ranks: dict[bytes, list[int]] = {}
    for members in alike.values():
        tops = targets.vertices[members]
        node = _Node(structure, int(tops[0]), numbers, offers)
        # Nodes are equal here if they differ only in what is not written.
        ranks.setdefault(orjson.dumps(node.topology()), []).extend(targets.ranks[members].tolist())
        for v, number in node.numbers.items():
            others = tops + (v - tops[0])
            described.pools[others] = True
            described.ids[others] = structure.id[others] == number
        for mask, vertices in (
            (described.sizes, node.sized),
            (described.properties, node.described),
            (described.mixed, node.mixed),
        ):
            for v in vertices:
                mask[tops + (v - tops[0])] = True
    entries = [b'{"ranks":"%s","topo":%s}' % (idset.format(members).encode(), topo) for topo, members in ranks.items()]
    return b'{"writer":"TreePool","children":[%s]}' % b",".join(entries)


class _Node:
    """Writes one node, and records what it wrote about each pool.

    Attributes:
        numbers: by written pool, the id that a reader gives it.
        sized, described: pools whose size, and whose properties, are written.
        mixed: pools with interleaved types of children.
    """

    def __init__(self, structure: Structure, top: int, numbers: NDArray[np.int64], offers: NDArray[np.bool_]) -> None:
        self._s, self._top, self._ids, self._offers = structure, top, numbers, offers
        self._levels: dict[str, int] = {}
        self.numbers: dict[int, int] = {}
        self.sized: list[int] = []
        self.described: list[int] = []
        self.mixed: list[int] = []

    def topology(self) -> dict[str, Any]:
        """The content of the node; cores and gpus in pools that RFC 49 cannot express go directly into it."""
        s, found = self._s, self.domain(self._top)
        inside = range(self._top + 1, s.end.item(self._top))
        for type_, key in _KEYS.items():
            lost = [self._ids.item(v) for v in inside if v not in self.numbers and self._is_offered(v, type_)]
            if lost:
                found[key] = idset.format([*idset.parse(found.get(key, "")), *lost])
        return found

    def domain(self, v: int) -> dict[str, Any]:
        """The content of a pool: levels by name, cores, gpus, memory, and storage of a node."""
        s = self._s
        by_type: dict[str, list[int]] = {}
        for child in s.children(v)[self._offers[s.children(v)]].tolist():
            by_type.setdefault(s.kind_of(child).type, []).append(child)
        if any(first[-1] > second[0] for first, second in itertools.pairwise(by_type.values())):
            self.mixed.append(v)
        found: dict[str, Any] = {}
        for type_, children in by_type.items():
            if type_ in _KEYS:
                leaves = [u for u in children if s.end.item(u) == u + 1]
                self.numbers.update((u, self._ids.item(u)) for u in leaves)
                if leaves:
                    found[_KEYS[type_]] = idset.format([self._ids.item(u) for u in leaves])
            elif type_ == "memory":
                self._memory(children[0], found)
            elif type_ == "storage":
                self._storage(children if v == self._top else [], found)
            elif levels := [inner for inner in (self._level(u, type_) for u in children) if inner]:
                found[type_] = levels
        return found

    def _is_offered(self, v: int, type_: str) -> bool:
        return self._s.kind_of(v).type == type_ and not self._s.flags.item(v) & WAY

    def _level(self, v: int, type_: str) -> dict[str, Any]:
        """The content of a level; nothing for one that no reader would see."""
        if type_ in _NO_LEVELS or self._s.end.item(v) == v + 1:
            return {}
        number = self._levels.get(type_, 0)
        self._levels[type_] = number + 1
        if inner := self.domain(v):
            self.numbers[v] = number
        else:
            self._levels[type_] = number
        return inner

    def _memory(self, v: int, found: dict[str, Any]) -> None:
        """The first memory of a domain, which has a single number for it."""
        size = _gib(self._s.size.item(v), self._s.kind_of(v).unit)
        if size is not None:
            found["memory"] = size
            self.numbers[v] = -1
            if self._s.kind_of(v).unit == MEMORY_UNIT:
                self.sized.append(v)

    def _storage(self, pools: list[int], found: dict[str, Any]) -> None:
        for v in pools:
            kind = self._s.kind_of(v)
            path = dict(kind.properties).get("path")
            if isinstance(path, str) and path:
                values = {"path": path, "capacity": self._s.size.item(v), "unit": kind.unit or _STORAGE_UNIT}
                self.numbers[v] = len(found.setdefault("storage", []))
                found["storage"].append(values)
                self.sized += [v] if kind.unit else []
                self.described += [v] if len(kind.properties) == 1 else []


def _gib(size: int, of: str | None) -> int | None:
    """A size in GiB, if it is a whole number."""
    try:
        scaled = unit.convert(size, of, MEMORY_UNIT)
    except FluxresError:
        return None
    return scaled if isinstance(scaled, int) else None

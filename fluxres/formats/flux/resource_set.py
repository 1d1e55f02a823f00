"""R, the resource set of Flux, version 1 (RFC 20), as a machine of its nodes, with the graph or the topologies it carries.

Without `scheduling`, a node has its cores and gpus as children. With Fluxion's graph (RFC 40), that graph is the machine, and the
rest of R must agree with it. With TreePool's topologies (RFC 49), cores and gpus are in sockets and NUMA domains; equal nodes
share one topology. The parts of R that describe a job and not a machine (times, slots, data of other schedulers) become tags of
the root, from which R is written again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import orjson
from msgspec import UNSET

from fluxres import limits
from fluxres.allocation.resource_set import CHILDREN
from fluxres.arrays import Int64, Mask
from fluxres.documents import json_typed
from fluxres.documents.source import Source
from fluxres.errors import FluxresError, InputError, LimitExceeded, UsageError
from fluxres.formats import losses
from fluxres.formats.flux import jgf, resource_set_shorthand
from fluxres.formats.flux.jgf import build
from fluxres.formats.flux.jgf_schema import RawJgf
from fluxres.formats.flux.ranks import (
    Children,
    Described,
    Targets,
    children_of,
    host_ids,
    host_of,
    lost,
    nodelist_of,
    properties_of,
    targets_of,
)
from fluxres.formats.flux.resource_set_lite import MEMORY_UNIT, RESOURCES, Lite, Topologies
from fluxres.formats.flux.resource_set_schema import (
    ATTRIBUTES,
    EXPIRATION,
    NSLOTS,
    SCHEDULING,
    STARTTIME,
    Execution,
    RawResourceSet,
    ResourceSet,
    TreePool,
    WithGraph,
    WithTopology,
)
from fluxres.formats.format import Hold, Loaded, Output
from fluxres.formats.losses import keys_passed_over
from fluxres.graph import uuids
from fluxres.graph.jgf import SHORTHAND, left_out_below
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import Structure
from fluxres.syntax import idset, unit


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of a resource set.

    Errors: InputError ``FILE:line:column: path``; LimitExceeded.
    Cost: O(pools) array writes, O(entries + irregular host names) Python; that of :mod:`~fluxres.formats.flux.jgf` with a graph.
    Source: RFC 20, 40, 49.

    >>> lite = '[{"rank": "0-1", "children": {"core": "0-3"}}]'
    >>> text = f'{{"version": 1, "execution": {{"R_lite": {lite}, "nodelist": ["n[08-09]"]}}}}'
    >>> [read(Source(text.encode())).structure.path(v) for v in (0, 6, 10)]
    ['/cluster0', '/cluster0/n09', '/cluster0/n09/core3']
    """
    document, some_unknown = json_typed.decode_leniently(source, RawResourceSet, whole=ResourceSet)
    execution, more_unknown = json_typed.decode_leniently(source, Execution, part=document.execution, whole=ResourceSet)
    has_unknown_keys = some_unknown or more_unknown
    lite = Lite(source, execution)
    tags = _tags(source, execution)
    if document.attributes is not UNSET:
        tags[ATTRIBUTES] = _kept(source, document.attributes, "attributes")
    form, passed_over = _form(source, document.scheduling), lite.passed_over
    kind: type[ResourceSet] = ResourceSet
    notes: tuple[str, ...] = ()
    if form == "graph" and document.scheduling is not UNSET:
        graph, more_unknown = json_typed.decode_leniently(source, RawJgf, part=document.scheduling, whole=WithGraph)
        made = _with_graph(source, graph, lite, origin)
        has_unknown_keys = has_unknown_keys or more_unknown or made.has_unknown_keys
        structure, kind = made.structure, WithGraph
        passed_over, notes = passed_over + made.passed_over, made.notes
        if graph.free_ranks is not UNSET:
            tags[jgf.FREE_RANKS] = graph.free_ranks
    else:
        topologies = None
        if form == "topology" and document.scheduling is not UNSET:
            pool = json_typed.decode(source, TreePool, part=document.scheduling, whole=WithTopology)
            topologies = Topologies(source, pool, lite.ranks)
        elif document.scheduling is not UNSET:
            tags[SCHEDULING] = _kept(source, document.scheduling, "scheduling")
        structure, notes = lite.structure(uuids.new_origin() if origin is None else origin, topologies), lite.notes
    passed_over = [*(json_typed.unknown_keys(source, kind) if has_unknown_keys else ()), *passed_over]
    for key, value in tags.items():
        structure.set_tag([0], key, value)
    return Loaded(structure, [], structure.name(0), (*keys_passed_over(source, passed_over), *notes))


class _CarriedGraph(NamedTuple):
    """The machine of a graph, whether it has keys that are ignored, the unkept parts, and notes."""

    structure: Structure
    has_unknown_keys: bool
    passed_over: list[str]
    notes: tuple[str, ...]


def _with_graph(source: Source, graph: RawJgf, lite: Lite, origin: int | None) -> _CarriedGraph:
    if graph.writer is not UNSET:
        jgf.require_known_writer(source, graph.writer, ["scheduling", "writer"])
    made = build(source, graph.graph, WithGraph, ("scheduling", "graph"), origin, is_of_job=True)
    structure = made.structure
    notes: tuple[str, ...] = ()
    # The graph may have tags from the R that its instance was started from; they do not belong to this R.
    for key in (NSLOTS, STARTTIME, EXPIRATION, ATTRIBUTES):
        structure.drop_tag([0], key)
    if graph.writer == SHORTHAND:
        structure, notes = resource_set_shorthand.completed(structure, made.hidden, lite, origin)
    notes += lite.agree(structure)
    return _CarriedGraph(structure, made.has_unknown_keys, [f"scheduling.graph.{what}" for what in made.passed_over], notes)


def _form(source: Source, scheduling: Any) -> str:
    """The content of `scheduling`: a graph, topologies, or something unknown."""
    if scheduling is UNSET:
        return "none"
    if bytes(memoryview(scheduling)[:1]) != b"{":
        return "other"
    values = json_typed.decode(source, dict[str, msgspec.Raw], part=scheduling, whole=ResourceSet)
    writer = values.get("writer", msgspec.Raw(b'""'))
    if bytes(writer) == b'"TreePool"':
        return "topology"
    return "graph" if "graph" in values else "other"


def _kept(source: Source, part: msgspec.Raw, key: str) -> str:
    text = msgspec.json.encode(json_typed.decode(source, Any, part=part, whole=ResourceSet)).decode()
    if len(text) > limits.VALUE_LENGTH_MAX:
        message = f"{len(text)} characters to keep, at most {limits.VALUE_LENGTH_MAX} are allowed"
        raise LimitExceeded(message, where=json_typed.where(source, [key]))
    return text


def _tags(source: Source, execution: Execution) -> dict[str, str | None]:
    start, end = (0.0 if time is UNSET else time for time in (execution.starttime, execution.expiration))
    tags: dict[str, str | None] = {key: repr(time) for key, time in ((STARTTIME, start), (EXPIRATION, end)) if time}
    if 0 < end <= start:
        message = f"the expiration {end!r} is not after the starttime {start!r}"
        raise InputError(message, where=json_typed.where(source, ["execution", "expiration"]), hint="0 means unset")
    if execution.nslots is not UNSET:
        tags[NSLOTS] = str(execution.nslots)
    return tags


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
        described.add_children(structure, targets, children)
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
    what = "what is below exclusive ones, of which R says nodes, cores and gpus"
    lost = losses.concern(structure, "pools", jgf.hidden_in(structure, part), what)
    return jgf.pieces_of(structure, part, name, more), lost


def _json(tags: dict[str, str | None], key: str) -> bytes:
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


def topologies(structure: Structure, targets: Targets, numbers: Int64, described: Described) -> bytes:
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
        node = _NodeTopology(structure, int(tops[0]), numbers, offers)
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


class _NodeTopology:
    """Writes one node, and records what it wrote about each pool.

    Attributes:
        numbers: by written pool, the id that a reader gives it.
        sized, described: pools whose size, and whose properties, are written.
        mixed: pools with interleaved types of children.
    """

    def __init__(self, structure: Structure, top: int, numbers: Int64, offers: Mask) -> None:
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

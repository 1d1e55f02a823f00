"""Write a structure as ``cluster.yaml``, as short as its regularity allows.

Runs of equal siblings become counts, lists that repeat in every parent are written once, contents shared by several entries
become parts, and defaults are left out. A pool that differs costs one more entry. The file always describes the same machine,
pool by pool and uuid by uuid.

Two subtrees are equal when their rows are equal apart from ids, ranks and uuids, which lists can express. A polynomial hash over
the pre-order rows gives every subtree a number in one pass. Siblings with equal numbers make a run, and the run is then compared
row by row, so a collision costs compactness and never correctness.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Int64, UInt64
from fluxres.documents import yaml_document
from fluxres.documents.document import Document
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats.cluster import holdings, partitions
from fluxres.formats.cluster.edges import edge_entries, outside_homes
from fluxres.formats.cluster.entries import DefaultIds
from fluxres.formats.cluster.read import ROOT_TYPES, require_readable
from fluxres.formats.format import Hold, Output, Reserved
from fluxres.formats.pool_uuids import runs_of
from fluxres.formats.selector import Selectors
from fluxres.graph.draws import Draws
from fluxres.graph.kinds import DRAW, EXCLUSIVE, STATES, WAY, Kind, KindTable
from fluxres.graph.partitions import PARTITIONS
from fluxres.graph.structure import OUTSIDE, Structure
from fluxres.syntax import hostlist, template

Values = dict[str, Any]

#: keys that move into a part; the others identify the pools or are their current state
_PART_KEYS = ("type", "basename", "name", "size", "unit", "properties", "draw", "with")
_ORDER = (
    *("use", "type", "count", "basename", "name", "names", "id", "size", "unit", "properties", "draw", "tags"),
    *("state", "exclusive", "rank", "capacity", "way", "with"),
)


def write(
    structure: Structure,
    allocations: Sequence[Hold] = (),
    *,
    name: str | None = None,
    reservations: Sequence[Reserved] = (),
) -> Output:
    """The bytes of a cluster file, which expresses everything.

    Errors: InputError and LimitExceeded for a machine with a value that the format does not allow, or more than a reader accepts.
    Cost: O(pools) array operations and O(entries written) Python.
    """
    made = document(structure, allocations, name=name, reservations=reservations)
    data = made.text.encode()
    most = limits.DOCUMENT_BYTES_MAX if made.is_json else limits.YAML_BYTES_MAX
    if len(data) > most:
        raise LimitExceeded(f"{len(data)} bytes, but a reader accepts at most {most}")
    if len(data) > limits.DOCUMENT_VALUES_MAX and yaml_document.count(made.values, made.file) > limits.DOCUMENT_VALUES_MAX:
        raise LimitExceeded(f"more values than a reader accepts ({limits.DOCUMENT_VALUES_MAX})")
    require_readable(made, structure)
    return Output(data, [])


def document(
    structure: Structure,
    allocations: Iterable[Hold] = (),
    *,
    name: str | None = None,
    reservations: Iterable[Reserved] = (),
) -> Document:
    """A cluster file as text and values; JSON where YAML would be too long to read.

    Cost: O(pools) array operations and O(entries written) Python.

    >>> from fluxres.documents.source import Source
    >>> from fluxres.formats.cluster.read import read
    >>> text = "fluxres: 1\\nname: tiny\\nresources:\\n  - {type: node, count: 2}\\n"
    >>> document(read(Source(text.encode())).structure).text.startswith(text)
    True
    """
    values = _values(structure, allocations, reservations, name)
    text = yaml_document.block(values)
    if len(text) <= limits.YAML_BYTES_MAX // 4 or len(text.encode()) <= limits.YAML_BYTES_MAX:
        return Document(values, "<cluster>", text)
    return Document(values, "<cluster>", json.dumps(values), is_json=True)


def _values(structure: Structure, allocations: Iterable[Hold], reservations: Iterable[Reserved], name: str | None) -> Values:
    writing = _Writing(structure)
    document: Values = {"fluxres": 1}
    root, *outside = writing.runs.groups()
    entry = writing.entries([root], is_root=True)[0]
    root_name = _plain_name(structure, entry)
    shown = name if name is not None else root_name
    if shown is not None and "name" not in entry and "names" not in entry:
        # A root without a name takes the name of the file, so a root with another name needs its own.
        root_name = structure.name(0)
        if root_name != shown:
            named = {**entry, "name": root_name.replace("$", "$$")}
            entry = {key: named[key] for key in _ORDER if key in named}
    homes = outside_homes(structure)
    by_home = writing.by_home(outside, homes)
    parts = _Parts([entry, *(e for entries in by_home.values() for e in entries)])
    if shown is not None:
        document["name"] = shown
    body = parts.apply(entry)
    inside = body.get("with", [])
    plain = root_name == shown and set(entry) <= {"type", "name", "with"} and entry["type"] == "cluster" and "use" not in body
    top: Values = {}
    if plain and not any(writing.kind(child).type in ROOT_TYPES for child in writing.runs.children(root)):
        top["resources"] = inside
    else:
        if root_name is not None and root_name == shown:
            body.pop("name", None)
        top["root"] = body
    selectors = Selectors(structure, homes)
    listed = partitions.entries(structure, selectors) if PARTITIONS in homes else None
    if listed is not None:
        top["partitions"] = listed
    if OUTSIDE in by_home:
        top["pools"] = [parts.apply(e) for e in by_home[OUTSIDE]]
    graphs: Values = {}
    for graph, subsystem in structure.subsystems.items():
        if graph == PARTITIONS and listed is not None:
            continue
        graphs[graph] = {"hierarchy": True} if subsystem.hierarchy else {}
        if graph in by_home:
            graphs[graph]["pools"] = [parts.apply(e) for e in by_home[graph]]
        if edges := edge_entries(structure, subsystem, selectors, homes.get(graph, ())):
            graphs[graph]["edges"] = edges
    if parts.defined:
        document["parts"] = parts.defined
    document |= top
    if graphs:
        document["graphs"] = graphs
    if held := [holdings.hold_entry(selectors, hold) for hold in allocations]:
        document["allocations"] = held
    if windows := [holdings.reserved_entry(selectors, one) for one in reservations]:
        document["reservations"] = windows
    document["uuids"] = uuid_runs(structure)
    return document


def _plain_name(structure: Structure, root: Values) -> str | None:
    """The literal name of a root that may be left out because the name of the file gives it."""
    kind = structure.kind_of(0)
    if kind.name is None or "names" in root:
        return None
    parts = template.parse(kind.name)
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else None


class _Writing:
    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.runs = Runs(structure)
        is_node = np.array([kind.type == "node" for kind in structure.kinds])
        nodes = np.flatnonzero(is_node[structure.kind[: structure.tree_end]])
        inherited = np.where(structure.parent >= 0, structure.rank[structure.parent], -1).astype(np.int32)
        inherited[nodes] = np.arange(len(nodes))
        self._shared: dict[bytes, list[Values]] = {}
        draws = Draws(structure)
        #: Properties that are written as `draw`; a draw that the reader would refuse there stays a property.
        self._draws = frozenset(DRAW + name for name in draws.types if name and (not draws.supplied or draws.fault(name) is None))
        #: where the rank is not the reader's default
        self.ranked = structure.rank != inherited

    def kind(self, group: Group) -> Kind:
        return self.runs.kinds[self.runs.rows["kind"].item(group.at)]

    def by_home(self, outside: Sequence[Group], homes: dict[str, list[int]]) -> dict[str, list[Values]]:
        """Entries of the trees outside containment, by the graph that declares them."""
        found: dict[str, list[Values]] = {}
        for graph, roots in homes.items():
            wanted = set(roots)
            found[graph] = self.entries(_cut(outside, wanted))
        return {graph: entries for graph, entries in found.items() if entries}

    def entries(self, groups: Sequence[Group], *, is_root: bool = False) -> list[Values]:
        named = [self._named(group) for group in groups]
        kinds = [self.kind(group) for group in groups]
        defaults = DefaultIds([(k.type, k.basename, name) for k, name in zip(kinds, named, strict=True)])
        return [self._entry(group, defaults, is_root=is_root) for group in groups]

    def _named(self, group: Group) -> str | None:
        return "" if group.at in self.structure.names else self.kind(group).name

    def _entry(self, group: Group, defaults: DefaultIds, *, is_root: bool) -> Values:
        structure, kind, at = self.structure, self.kind(group), group.at
        entry: Values = {"type": kind.type}
        if kind.basename != kind.type:
            entry["basename"] = kind.basename
        if kind.name is not None:
            entry["name"] = kind.name
        running = False
        if at in structure.names:
            entry["names"], running = self._names(group)
        self._ids(group, kind, defaults, entry, counted=group.count > 1 or running, is_root=is_root)
        if group.count > 1 or running or isinstance(entry.get("id"), str | list):
            entry["count"] = group.count
        if structure.size.item(at) != 1:
            entry["size"] = structure.size.item(at)
        if kind.unit is not None:
            entry["unit"] = kind.unit
        properties = dict(kind.properties)
        draw = {
            key.removeprefix(DRAW): properties.pop(key)
            for key, units in kind.properties
            if key in self._draws
            and isinstance(units, int)
            and not isinstance(units, bool)
            and structure.size.item(at) == 1 <= units
        }
        if properties:
            entry["properties"] = _short_pairs(properties)
        if draw:
            entry["draw"] = draw
        if tags := structure.tags.get(at):
            entry["tags"] = _short_pairs(dict(sorted(tags.items())))
        state = STATES[structure.state.item(at)]
        if state != "up":
            entry["state"] = None if state == "null" else state
        flags = structure.flags.item(at)
        if flags & EXCLUSIVE:
            entry["exclusive"] = True
        if flags & WAY:
            entry["way"] = True
        if at in structure.capacity:
            entry["capacity"] = structure.capacity[at]
        if self.ranked[group.positions].any():
            entry["rank"] = self._rank(group)
        if below := self._below(group):
            entry["with"] = below
        return {key: entry[key] for key in _ORDER if key in entry}

    def _below(self, group: Group) -> list[Values]:
        """Entries below a group. Groups with equal contents share them, so a thousand odd nodes cost as much as one."""
        stop = group.at + group.count * group.length
        # The key has no ranks or names of single pools, so contents that have any are not shared.
        key = None if self.ranked[group.at : stop].any() or self.structure.names else self.runs.inside(group)
        below = self._shared.get(key) if key is not None else None
        if below is None:
            below = self.entries(self.runs.children(group))
            if key is not None:
                self._shared[key] = below
        return below

    def _names(self, group: Group) -> tuple[str | list[str], bool]:
        names = np.array([self.structure.names[v] for v in group.positions.tolist()], object)
        length = per_parent(names, group.counts)
        listed: list[str] = names[:length].tolist()
        try:
            return hostlist.format(listed), length > group.count
        except InputError:
            return listed, length > group.count

    def _ids(self, group: Group, kind: Kind, defaults: DefaultIds, entry: Values, *, counted: bool, is_root: bool) -> None:
        ids = self.structure.id[group.positions]
        named = self._named(group)
        default = None if is_root else defaults.start(kind.type, kind.basename, named, counted=counted)
        if ids[0] < 0:
            if default is not None:
                entry["id"] = None
            return
        length = per_parent(ids, group.counts)
        first = int(ids[0])
        if length == group.count and _counts_up(ids[:length]):
            if default != first:
                entry["id"] = first
        else:
            entry["id"] = _numbers(ids[:length])
        defaults.took(kind.type, kind.basename, int(ids[:length].max()))

    def _rank(self, group: Group) -> object:
        ranks = self.structure.rank[group.positions].astype(np.int64)
        if ranks[0] < 0:
            return None
        length = per_parent(ranks, group.counts)
        if length == group.count and _counts_up(ranks[:length]):
            return int(ranks[0])
        return _numbers(ranks[:length])


def _cut(groups: Sequence[Group], wanted: set[int]) -> list[Group]:
    """The groups of these roots, cutting a run where a graph begins in the middle of it."""
    found = []
    for group in groups:
        inside = [v for v in group.positions.tolist() if v in wanted]
        if not inside:
            continue
        found.append(replace(group, at=inside[0], count=len(inside), positions=np.array(inside), counts=(len(inside),)))
    return found


def _counts_up(numbers: NDArray[Any]) -> bool:
    return bool((np.diff(numbers) == 1).all())


def _numbers(numbers: NDArray[Any]) -> str | list[int | str]:
    """Numbers as an idset, or, if they do not ascend, as a list of idsets."""
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    starts = np.concatenate([[0], cuts])
    lows = numbers[starts].tolist()
    highs = numbers[np.concatenate([cuts, [len(numbers)]]) - 1].tolist()
    spans = [low if low == high else f"{low}-{high}" for low, high in zip(lows, highs, strict=True)]
    if bool((np.diff(numbers) > 0).all()) and not (len(spans) == 1 and isinstance(spans[0], int)):
        return ",".join(map(str, spans))
    return spans


def _short_pairs(pairs: dict[str, Any]) -> dict[str, Any] | list[str]:
    """Keys with values, or a list of keys if none has a value."""
    return list(pairs) if all(value is None for value in pairs.values()) else pairs


class _Parts:
    """Contents that several entries share, each written once."""

    def __init__(self, entries: Iterable[Values]) -> None:
        self.defined: Values = {}
        self._names: dict[str, str] = {}
        self._keys: dict[int, str] = {}
        self._uses: dict[str, int] = {}
        self._kept = list(entries)
        for entry in self._kept:
            self._count(entry)
        self._taken: set[str] = set()

    def _key(self, entry: Values) -> str:
        below = entry["with"]
        contents = self._keys.get(id(below))
        if contents is None:
            rest = [{k: v for k, v in child.items() if k not in _PART_KEYS} for child in below]
            inner = [self._key(child) if "with" in child else child for child in below]
            contents = self._keys[id(below)] = hashlib.sha256(json.dumps([rest, inner]).encode()).hexdigest()
        return json.dumps([{k: entry[k] for k in _PART_KEYS if k in entry and k != "with"}, contents])

    def _count(self, entry: Values) -> None:
        if "with" not in entry:
            return
        key = self._key(entry)
        self._uses[key] = self._uses.get(key, 0) + 1
        if self._uses[key] == 1:
            for child in entry["with"]:
                self._count(child)

    def apply(self, entry: Values) -> Values:
        """The entry, with parts instead of contents that occur elsewhere too."""
        if "with" not in entry:
            return entry
        key = self._key(entry)
        if self._uses[key] < 2:
            return {**entry, "with": [self.apply(child) for child in entry["with"]]}
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self._free_name(entry["type"])
            part = {k: entry[k] for k in _PART_KEYS if k in entry}
            part["with"] = [self.apply(child) for child in entry["with"]]
            self.defined[name] = part
        return {"use": name, **{k: v for k, v in entry.items() if k not in _PART_KEYS}}

    def _free_name(self, type_name: str) -> str:
        number, name = 1, type_name
        while name in self._taken:
            number += 1
            name = f"{type_name}-{number}"
        self._taken.add(name)
        return name


def uuid_runs(structure: Structure) -> str | list[str | list[str | int]]:
    """The uuids of all pools in order: the first one if they count up from it, else runs of [first, count].

    >>> from fluxres.graph.recipe import Recipe, expand
    >>> uuid_runs(expand(Recipe("cluster", children=(Recipe("core", 3),)), origin=8 << 76 | 2 << 62))
    '00000000-0000-8000-8000-000000000000'
    """
    runs = runs_of(structure, np.arange(structure.n))
    if len(runs) == 1 and not structure.uuid_texts:
        return str(runs[0][0])
    return [run if run[1] > 1 else run[0] for run in runs]


#: odd, so that it has an inverse modulo 2**64
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
#: contents of fewer pools than this are compared with those seen before: enough for a rack, not a copy of the machine
_INSIDE_MAX = 65_536
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@dataclass(slots=True)
class Group:
    """A run of equal siblings, in each of the equal parents.

    Args:
        at: the first pool, in the first parent.
        count: pools in each parent.
        length: pools of one subtree.
        positions: all pools of the group, ascending.
        counts: `count`, the parents in each grandparent, and so on upwards.
    """

    at: int
    count: int
    length: int
    positions: Int64
    counts: tuple[int, ...]


class Runs:
    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        #: kinds; explicitly named pools have theirs without the template, which does not make their name
        self.kinds = KindTable(structure.kinds)
        self.rows = self._rows()
        self._hash = self._subtree_hashes()

    def groups(self) -> list[Group]:
        """The group of the containment tree, then those of the trees outside it, in order."""
        structure = self._structure
        tops = np.flatnonzero(structure.parent < 0)
        groups = []
        for at, count in [(0, 1), *((at, count) for at, count in self._brothers(tops[tops >= structure.tree_end]))]:
            length = structure.end.item(at) - at
            groups.append(Group(at, count, length, at + np.arange(count) * length, (count,)))
        return groups

    def _rows(self) -> dict[str, NDArray[Any]]:
        structure = self._structure
        kind = structure.kind
        extra = np.zeros(structure.n, np.int32)
        if structure.names:
            kind = kind.copy()
            for v in structure.names:
                kind[v] = self.kinds.intern(structs.replace(self.kinds[kind.item(v)], name=None))
        numbers: dict[tuple[object, ...], int] = {}
        for v in sorted({*structure.names, *structure.tags, *structure.capacity}):
            tags = structure.tags.get(v, {})
            key = (v in structure.names, tuple(sorted(tags.items(), key=str)), structure.capacity.get(v))
            extra[v] = numbers.setdefault(key, len(numbers) + 1)
        marks = structure.flags.astype(np.int32) * 4 + (structure.id >= 0) * 2 + (structure.rank >= 0)
        length = structure.end - np.arange(structure.n, dtype=np.int32)
        return {"kind": kind, "size": structure.size, "state": structure.state, "marks": marks, "extra": extra, "length": length}

    def _subtree_hashes(self) -> UInt64:
        n = self._structure.n
        mixed = np.zeros(n, np.uint64)
        for values in self.rows.values():
            mixed *= np.uint64(_MIX[0])
            mixed += values.astype(np.uint64)
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(_MIX[1])
            mixed ^= mixed >> np.uint64(32)
        mixed *= _powers(_BASE, n)
        sums = np.zeros(n + 1, np.uint64)
        np.cumsum(mixed, out=sums[1:])
        return (sums[self._structure.end] - sums[:-1]) * _powers(_INVERSE, n)

    def _brothers(self, vertices: NDArray[Any]) -> Iterator[tuple[int, int]]:
        """Runs of equal neighbours: the first vertex and the length."""
        if not len(vertices):
            return
        cuts = np.flatnonzero(self._hash[vertices[1:]] != self._hash[vertices[:-1]]) + 1
        starts = [0, *cuts.tolist()]
        for start, stop in zip(starts, [*starts[1:], len(vertices)], strict=True):
            at, count = int(vertices[start]), stop - start
            if count == 1 or self._is_repeated(at, count):
                yield at, count
            else:
                yield from ((v, 1) for v in vertices[start:stop].tolist())

    def _is_repeated(self, at: int, count: int) -> bool:
        length = self._structure.end.item(at) - at
        stop = at + count * length
        if stop > self._structure.n:
            return False
        return all(
            bool((block[1:] == block[0]).all())
            for block in (values[at:stop].reshape(count, length) for values in self.rows.values())
        )

    def children(self, group: Group) -> list[Group]:
        found = []
        for at, count in self._brothers(self._structure.children(group.at)) if group.length > 1 else ():
            length = self._structure.end.item(at) - at
            first = group.positions + (at - group.at)
            positions = (first[:, None] + np.arange(count) * length).ravel()
            found.append(Group(at, count, length, positions, (count, *group.counts)))
        return found

    def inside(self, group: Group) -> bytes | None:
        """A key for everything below a run of siblings in one parent, ids included; None if lists run on across them."""
        if not 1 < group.length <= _INSIDE_MAX or len(group.positions) != group.count:
            return None
        stop = group.at + group.count * group.length
        ids = self._structure.id[group.at : stop].reshape(group.count, group.length)[:, 1:]
        if group.count > 1 and not bool((ids[1:] == ids[0]).all()):
            return None
        below = slice(group.at + 1, group.at + group.length)
        return b"".join([ids[0].tobytes(), *(values[below].tobytes() for values in self.rows.values())])


def _powers(base: int, n: int) -> UInt64:
    powers = np.full(n, base, np.uint64)
    powers[:1] = 1
    np.multiply.accumulate(powers, out=powers)
    return powers


def per_parent(values: NDArray[Any], counts: Iterable[int]) -> int:
    """The shortest period of a list that may repeat in every parent.

    Args:
        values: one for each instance, in order.
        counts: instances in a parent, parents in a grandparent, and so on.

    >>> per_parent(np.array([0, 1, 0, 1]), [2, 2]), per_parent(np.array([0, 1, 2, 3]), [2, 2])
    (2, 4)
    """
    for length in _products(counts):
        if len(values) % length == 0 and bool((values.reshape(-1, length) == values[:length]).all()):
            return length
    return len(values)


def _products(counts: Iterable[int]) -> Iterator[int]:
    product = 1
    for count in counts:
        product *= count
        yield product

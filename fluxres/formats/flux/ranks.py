"""What resource sets and node tables say about ranks, read into columns and written from them.

The content of a node becomes rows that are written once and copied for every rank with the same content; a list of hosts becomes
the names of nodes, and ranks by property become properties by node. The writers of R, TreePool and resource tables mark here
which pools and which of their attributes they write, so that everything else is reported as left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from fluxres import limits
from fluxres.allocation.resource_set import CHILDREN
from fluxres.arrays import Int32, Int64, Mask
from fluxres.documents import json_typed
from fluxres.documents.document import excerpt
from fluxres.documents.source import Source
from fluxres.errors import ErrorPlace, InputError, LimitExceeded
from fluxres.formats import losses
from fluxres.formats.flux.resource_set_schema import TAGS
from fluxres.formats.format import Fact, Hold
from fluxres.graph.identity import repeated
from fluxres.graph.kinds import DRAW, WAY, Kind, KindTable, draws_as_numbers, require_draws
from fluxres.graph.structure import COLUMNS, Structure
from fluxres.syntax import hostlist, idset, template
from fluxres.syntax.constraint import RESERVED
from fluxres.syntax.hostlist import Expression

Spans = list[tuple[int, int]]
"""An idset as ranges, both ends included."""
NO_IDS: Final = np.zeros(0, np.int64)


def count_of(spans: Spans) -> int:
    return sum(last - first + 1 for first, last in spans)


def members(spans: Spans) -> Int64:
    return np.concatenate([NO_IDS, *(np.arange(first, last + 1) for first, last in spans)])


def positions(spans: Spans, ids: Int64 | Int32) -> Int64:
    """The positions of those ids, ascending, that the spans contain."""
    return np.concatenate([NO_IDS, *(np.arange(*np.searchsorted(ids, [first, last + 1])) for first, last in spans)])


@dataclass(frozen=True)
class Block:
    """A node and its content, in pre-order; row 0 is the node.

    Args:
        parent: row in the block, int32; undefined for row 0.
        end: one past the last descendant, as row in the block, int32.
        kind, id, size: of each row.
    """

    parent: Int32
    end: Int32
    kind: Int32
    id: Int64
    size: Int64

    def __len__(self) -> int:
        return len(self.parent)


class BlockRows:
    """Collects the rows of a block; those of a level follow their parent."""

    def __init__(self, kinds: KindTable, node: int) -> None:
        self._kinds = kinds
        self._rows: list[tuple[int, Int32, Int64, Int64]] = []
        self._ends: list[tuple[int, int]] = []
        self._n = 0
        self.add(0, node, np.array([-1]))

    def add(self, parent: int, kind: int, ids: Int64, size: int = 1) -> int:
        """Add equal pools below a row and return the first row. Pools with children must be added one by one."""
        first = self._n
        count = len(ids)
        self._rows.append((parent, np.full(count, kind, np.int32), ids, np.full(count, size, np.int64)))
        self._n += count
        return first

    def close(self, row: int) -> None:
        """Declare that everything below this row has been added."""
        self._ends.append((row, self._n))

    def block(self) -> Block:
        """The finished block. Errors: InputError for two siblings with the same name."""
        self.close(0)
        parent = np.concatenate([np.full(len(ids), above, np.int32) for above, _, ids, _ in self._rows])
        end = np.arange(1, self._n + 1, dtype=np.int32)
        for row, stop in self._ends:
            end[row] = stop
        kind, ids, size = (np.concatenate([row[i] for row in self._rows]) for i in (1, 2, 3))
        self._require_distinct(parent, kind, ids)
        return Block(parent, end, kind, ids, size)

    def _require_distinct(self, parent: Int32, kind: Int32, ids: Int64) -> None:
        basenames = [self._kinds[number].basename for number in range(len(self._kinds))]
        numbers = {basename: i for i, basename in enumerate(dict.fromkeys(basenames))}
        base = np.array([numbers[basename] for basename in basenames])[kind]
        again = repeated(parent, base, ids)[:1].tolist()
        if not again and any(basename[-1].isdigit() for basename in basenames):
            seen: set[tuple[int, str]] = set()
            for row, place in enumerate(zip(parent.tolist(), self._names(basenames, kind, ids), strict=True)):
                if place in seen:
                    again = [row]
                seen.add(place)
        if again:
            name = self._names(basenames, kind[again], ids[again])[0]
            raise InputError(f"two siblings are named {name!r}")

    @staticmethod
    def _names(basenames: list[str], kind: Int32, ids: Int64) -> list[str]:
        return [basenames[k] if i < 0 else f"{basenames[k]}{i}" for k, i in zip(kind.tolist(), ids.tolist(), strict=True)]


def fill(blocks: Sequence[tuple[Block, int]], ranks: Int64, kinds: KindTable, origin: int) -> tuple[Structure, Int32]:
    """A cluster of nodes.

    Args:
        blocks: the content of each of a number of consecutive ranks.
        ranks: of all nodes, in order.

    Returns the structure and the vertex of each node.
    Errors: LimitExceeded past POOLS_MAX.
    Cost: O(pools) array writes and O(len(blocks)) Python.
    """
    n = 1 + sum(len(block) * count for block, count in blocks)
    if n > limits.POOLS_MAX:
        raise LimitExceeded(f"{n} pools in all, at most {limits.POOLS_MAX} are allowed")
    columns = {name: np.zeros(n, dtype) for name, dtype in COLUMNS.items()}
    columns["parent"][0], columns["end"][0], columns["rank"][0], columns["size"][0] = -1, n, -1, 1
    columns["kind"][0] = kinds.intern(Kind("cluster", "cluster"))
    nodes = np.empty(len(ranks), np.int32)
    at, first = 1, 0
    for block, count in blocks:
        length = len(block)
        rows = slice(at, at + length * count)
        starts = at + length * np.arange(count, dtype=np.int32)
        nodes[first : first + count] = starts
        for name, values in (("kind", block.kind), ("id", block.id), ("size", block.size)):
            columns[name][rows].reshape(count, length)[:] = values
        for name, relative in (("parent", block.parent), ("end", block.end)):
            np.add(starts[:, None], relative, out=columns[name][rows].reshape(count, length))
        columns["parent"][starts] = 0
        columns["rank"][rows].reshape(count, length)[:] = ranks[first : first + count, None]
        at, first = at + length * count, first + count
    columns["serial"][:] = np.arange(n)
    return Structure(columns, kinds, origins=[origin]), nodes


_DIGITS: Final = "0123456789"
_DIGITS_MAX: Final = 18
HOST: Final = "host"
"""Tag of a node that is not named after its host because the host has other nodes too."""


@dataclass(frozen=True)
class Hosts:
    """Nodes in the order of their hosts.

    Args:
        ids: the number at the end of each name, -1 without one.
        template: of all names; None if the names are in `names`, or are ``node`` and the id.
        names: by position, if no template gives them.
        shared: host by position, of nodes that could not be named after it.
    """

    ids: Int64
    template: str | None = None
    names: dict[int, str] = field(default_factory=dict)
    shared: dict[int, str] = field(default_factory=dict)

    def describe(self, structure: Structure, nodes: Int32, properties: Sequence[Pairs], which: Int64) -> None:
        """Give these nodes their names, and their properties: the distinct sets of them, and which set each node has."""
        structure.id[nodes] = self.ids
        structure.names.update((int(nodes[at]), name) for at, name in self.names.items())
        for at, host in self.shared.items():
            structure.set_tag([int(nodes[at])], HOST, host)
        numbers = [structure.kinds.intern(Kind("node", "node", None, self.template, pairs)) for pairs in properties]
        structure.kind[nodes] = np.array(numbers, np.int32)[which]


def require_path_steps(expressions: Sequence[Expression]) -> None:
    """Refuse hosts that could not be a step of a path. Errors: InputError with the name."""
    for expression in expressions:
        if "/" in expression.prefix or "/" in expression.suffix:
            host = excerpt(expression.prefix + expression.suffix)
            raise InputError(f"the host {host} has a '/'", hint="a name is one step of a path")


def hosts_of(expressions: Sequence[Expression], ranks: Int64) -> Hosts:
    """The nodes of these hosts, of which there are as many as ranks.

    Two brokers may run on one host, but two siblings need two names: the second is ``HOST@RANK``, and its host a tag.

    Cost: O(expressions) for hosts that one template names, O(hosts) otherwise.

    >>> from fluxres.syntax import hostlist
    >>> hosts_of(hostlist.expressions("n[08-10]"), np.arange(3)).template
    'n${id:02}'
    """
    regular = _regular(expressions)
    if regular is not None and len(np.unique(regular[1])) == len(regular[1]):
        return Hosts(regular[1], None if regular[0] == "node${id}" else regular[0])
    names: dict[int, str] = {}
    shared: dict[int, str] = {}
    ids = np.full(len(ranks), -1, np.int64)
    taken: set[str] = set()
    for i, host in enumerate(host for expression in expressions for host in expression):
        digits = host[len(host.rstrip(_DIGITS)) :]
        if 0 < len(digits) <= _DIGITS_MAX:
            ids[i] = int(digits)
        name = host
        while name in taken:
            name = f"{name}@{ranks[i]}"
            shared[i] = host
        taken.add(name)
        names[i] = name
    return Hosts(ids, None, names, shared)


def _regular(expressions: Sequence[Expression]) -> tuple[str, Int64] | None:
    """Template and numbers of hosts that differ in one number at the end."""
    stems: set[str] = set()
    runs: list[tuple[int, int, int]] = []
    for expression in expressions:
        stem = expression.prefix
        if not expression.runs:
            stem = stem.rstrip(_DIGITS)
            digits = expression.prefix[len(stem) :]
            if not 0 < len(digits) <= _DIGITS_MAX:
                return None
            runs.append((int(digits), int(digits), len(digits)))
        elif expression.suffix or stem[-1:] in _DIGITS:
            return None
        runs.extend(expression.runs)
        stems.add(stem)
    widths = {width for _, _, width in runs}
    padded = any(width > len(str(first)) for first, _, width in runs)
    if len(stems) != 1 or (padded and len(widths) > 1) or any(last >= 10**_DIGITS_MAX for _, last, _ in runs):
        return None
    stem = stems.pop().replace("$", "$$")
    template = f"{stem}${{id:0{widths.pop()}}}" if padded else f"{stem}${{id}}"
    return template, np.concatenate([np.arange(first, last + 1, dtype=np.int64) for first, last, _ in runs])


BARRED: Final = RESERVED
Pairs = tuple[tuple[str, str | None], ...]


def properties_by_node(source: Source, given: Mapping[str, str], ranks: Int64) -> tuple[list[Pairs], Int64]:
    """The distinct sets of properties, and the number of the set of each node.

    Args:
        given: idset of ranks by property; a value follows an equals sign.
        ranks: of the nodes, ascending.

    Errors: InputError for names that RFC 20 forbids and for ranks that do not exist; LimitExceeded past IDSET_COUNT_MAX
    memberships. Cost: O(memberships) array operations.
    """
    sort = np.zeros(len(ranks), np.int64)
    made: list[tuple[int, str]] = [(-1, "")]  # a set is another set and one more property
    total = 0
    for name, text in given.items():
        path = ["execution", "properties", name]
        if BARRED & set(name):
            barred = min(BARRED & set(name))
            raise InputError(f"{barred!r} in the name of a property", where=json_typed.where(source, path, key=True))
        require_draws(pairs_of([name]), partial(json_typed.where, source, path, key=True))
        with ErrorPlace(partial(json_typed.where, source, path)):
            spans = idset.ranges(text)
        having = positions(spans, ranks)
        if count_of(spans) != len(having):
            known = set(ranks[having].tolist())
            lost = next(rank for first, last in spans for rank in range(first, last + 1) if rank not in known)
            raise InputError(f"rank {lost} is in no entry of R_lite", where=json_typed.where(source, path))
        total += len(having)
        if total > limits.IDSET_COUNT_MAX:
            raise LimitExceeded(f"more than {limits.IDSET_COUNT_MAX} properties of nodes", where=json_typed.where(source, path))
        before, which = np.unique(sort[having], return_inverse=True)
        sort[having] = len(made) + which
        made += [(number, name) for number in before.tolist()]
    used, which = np.unique(sort, return_inverse=True)
    return [_pairs(made, number) for number in used.tolist()], which


def _pairs(made: list[tuple[int, str]], number: int) -> Pairs:
    names = []
    while number > 0:
        number, name = made[number]
        names.append(name)
    return pairs_of(names)


def pairs_of(names: Iterable[str]) -> Pairs:
    """Properties of a node from their names in R; a value follows an equals sign.

    >>> pairs_of(["gen=5", "ssd", "gen=4"])
    (('gen', '4'), ('gen=5', None), ('ssd', None))
    """
    pairs: dict[str, str | None] = {}
    for name in sorted(set(names)):
        key, equals, value = name.partition("=")
        if equals and key and value and key not in pairs:
            pairs[key] = value
        else:
            pairs[name] = None  # for a second value of one key, or no value at all, the whole word is the property
    return tuple(sorted(pairs.items()))


ROOT: Final = "cluster0"
_CARRIES: Final[frozenset[Fact]] = frozenset({"pools", "names", "ids", "sizes", "units", "properties", "ranks", "tags"})


class Targets(NamedTuple):
    """Execution targets in the order of their ranks."""

    ranks: Int64
    vertices: Int32


def targets_of(structure: Structure) -> Targets:
    """The topmost pool of each rank, without pools that only connect the root with others.

    Errors: InputError if there is none, if two siblings have one rank, and if one is in another. Cost: O(pools) array operations.
    """
    on_rank = np.flatnonzero(structure.rank[: structure.tree_end] >= 0)
    above = structure.parent[on_rank]
    tops = on_rank[(above < 0) | (structure.rank[above] != structure.rank[on_rank])].astype(np.int32)
    vertices = tops[np.argsort(structure.rank[tops], kind="stable")]
    ranks = structure.rank[vertices]
    again = np.flatnonzero(ranks[1:] == ranks[:-1])
    if len(again):
        at = int(again[0])
        first, second = (structure.path(int(v)) for v in vertices[at : at + 2])
        raise InputError(f"{first} and {second} both have rank {ranks[at]}", hint="each node must have its own rank")
    inner = np.flatnonzero(np.diff(np.searchsorted(np.sort(vertices), [vertices, structure.end[vertices]]), axis=0)[0] > 1)
    if len(inner):
        message = f"{structure.path(int(vertices[inner[0]]))} has rank {ranks[inner[0]]}, but contains pools of other ranks"
        raise InputError(message, hint="nodes in R cannot be nested")
    offers = structure.offers[vertices]
    if not offers.any():
        raise InputError("no pool has a rank", hint="R describes nodes, which have ranks")
    ranks, vertices = ranks[offers], vertices[offers]
    return Targets(ranks.astype(np.int64), vertices)


class Described(NamedTuple):
    """Pools that are written, and those whose id, size and unit, and properties are; bool by vertex."""

    pools: Mask
    ids: Mask
    sizes: Mask
    properties: Mask
    retyped: Mask
    """Pools whose properties are written, except for the difference between numbers and text."""
    mixed: Mask
    """Pools whose children are in an order that is not preserved."""

    @classmethod
    def nothing(cls, structure: Structure, targets: Targets) -> Described:
        """Only the root and the targets, as the state before writing."""
        described = cls(*(np.zeros(structure.n, np.bool_) for _ in cls._fields))
        for mask in (described.pools, described.ids):
            mask[targets.vertices] = True
            mask[0] = True
        return described

    def add_children(self, structure: Structure, targets: Targets, children: Children) -> None:
        """Mark the cores and gpus below targets."""
        starts = np.sort(targets.vertices)
        reach = np.maximum.accumulate(structure.end[starts])
        for type_ in CHILDREN:
            pools = offered(structure, type_)
            at = np.searchsorted(starts, pools) - 1
            pools = pools[(at >= 0) & (pools < reach[at])]
            self.pools[pools] = True
            self.ids[pools] = structure.id[pools] == children.numbers[pools]


def offered(structure: Structure, type_name: str) -> Int32:
    """Pools of a type, without those that only connect the root with others."""
    pools, ways = structure.of_type(type_name), (structure.flags & WAY) != 0
    return np.asarray(pools[~ways[pools]], np.int32) if ways.any() else pools


def lost(
    structure: Structure,
    allocations: Sequence[Hold],
    targets: Targets,
    described: Described,
    host_ids: Int64,
    name: str | None,
) -> list[str]:
    """What was not written.

    Args:
        host_ids: the id that a reader gives each target, from its host.
    """
    is_target = np.zeros(structure.n, np.bool_)
    is_target[targets.vertices] = True
    kinds, kind = structure.kinds, structure.kind

    def of_kind(test: list[bool]) -> Mask:
        return np.asarray(np.array(test)[kind] & described.pools)

    lines = losses.concern(structure, "pools", ~described.pools)
    lines += losses.concern(
        structure, "pools", is_target & of_kind([k.type != "node" for k in kinds]), "their nodes are written instead"
    )
    lines += losses.concern(structure, "pools", described.mixed, "the order in which types alternate")
    lines += losses.lines(structure, allocations, _CARRIES, within=described.pools)
    if structure.kind_of(0).type != "cluster":
        lines.append(f"pools: the root is a {structure.kind_of(0).type} and becomes a cluster")
    if structure.name(0) != ROOT or name not in (None, ROOT):
        lines.append(f"names: of the root, which becomes {ROOT}")
    named = of_kind([k.name is not None for k in kinds])
    named[list(structure.names)] = True
    named[0] = False
    lines += losses.concern(structure, "names", named & described.pools & ~is_target)
    ids = described.pools & ~described.ids
    ids[0] = structure.id[0] != 0
    ids[targets.vertices] = structure.id[targets.vertices] != host_ids
    lines += losses.concern(structure, "ids", ids)
    lines += losses.concern(structure, "sizes", described.pools & ~described.sizes & (structure.size != 1))
    lines += losses.concern(structure, "units", ~described.sizes & of_kind([k.unit is not None for k in kinds]))
    undescribed = ~described.properties & of_kind([bool(k.properties) for k in kinds])
    lines += losses.concern(structure, "properties", undescribed & described.retyped, losses.TYPES)
    lines += losses.concern(structure, "properties", undescribed & ~described.retyped)
    tagged = np.zeros(structure.n, np.bool_)
    for v, tags in structure.tags.items():
        tagged[v] = bool(tags.keys() - (TAGS if v == 0 else (HOST,) if is_target[v] else ()))
    return lines + losses.concern(structure, "tags", tagged & described.pools)


class Children(NamedTuple):
    """The cores and gpus of targets.

    Attributes:
        texts: by type, the ids on each target as an idset.
        numbers: by vertex, the id of a core or gpu in R. If ids repeat on a target because they start over in each socket, the
            pools are renumbered.
        gpus_first: targets on which all gpus precede all cores.
        mixed: targets on which cores and gpus are interleaved.
    """

    texts: dict[str, list[str]]
    numbers: Int64
    gpus_first: Mask
    mixed: Mask


def children_of(structure: Structure, targets: Targets) -> Children:
    """The cores and gpus of targets. Cost: O(pools) array operations, O(different targets) Python."""
    texts: dict[str, list[str]] = {}
    numbers = structure.id.copy()
    first_of, last_of = [], []
    for type_ in CHILDREN:
        pools = offered(structure, type_)
        first = np.searchsorted(pools, targets.vertices, side="right")
        count = np.searchsorted(pools, structure.end[targets.vertices]) - first
        column = [""] * len(first)
        for size in np.unique(count).tolist():
            if size:
                at = np.flatnonzero(count == size)
                rows = first[at, None] + np.arange(size)
                for i, text in zip(at.tolist(), _id_texts(structure, pools[rows], numbers), strict=True):
                    column[i] = text
        texts[type_] = column
        ends = np.append(pools, structure.n)
        first_of.append(np.where(count > 0, ends[first], -1))
        last_of.append(np.where(count > 0, ends[first + count - 1], -1))
    both = (first_of[0] >= 0) & (first_of[1] >= 0)
    gpus_first = both & (last_of[1] < first_of[0])
    return Children(texts, numbers, gpus_first, both & ~gpus_first & (last_of[0] > first_of[1]))


def _id_texts(structure: Structure, pools: Int32, numbers: Int64) -> list[str]:
    ids = structure.id[pools]
    if (ids == ids[0]).all():
        different, which = ids[:1], np.zeros(len(ids), np.int64)
    else:
        different, which = np.unique(ids, axis=0, return_inverse=True)
        which = which.reshape(-1)
    texts = []
    for i, row in enumerate(different):
        if row.min() < 0 or len(np.unique(row)) < len(row):
            row = np.arange(len(row))
            numbers[pools[which == i]] = row
        texts.append(idset.format(row.tolist()))
    return [texts[i] for i in which.tolist()]


def nodelist_of(structure: Structure, targets: Targets) -> str:
    """Hosts of the targets in the order of their ranks."""
    vertices, kinds = targets.vertices, np.unique(structure.kind[targets.vertices]).tolist()
    forms = {_stem(structure.kinds[kind]) for kind in kinds}
    form = forms.pop() if len(forms) == 1 else None
    sparse = bool(structure.names) or any(HOST in tags for tags in structure.tags.values())
    if form is not None and not sparse and (structure.id[vertices] >= 0).all():
        stem, width = form
        ids = structure.id[vertices]
        first = np.concatenate([[0], np.flatnonzero(np.diff(ids) != 1) + 1])
        last = np.concatenate([first[1:], [len(ids)]]) - 1
        if width or (ids < 10**18).all():
            ends = zip(ids[first].tolist(), ids[last].tolist(), strict=True)
            return _checked(stem, [f"{low:0{width}}" if low == high else f"{low:0{width}}-{high:0{width}}" for low, high in ends])
    return hostlist.format([host_of(structure, v) for v in vertices.tolist()])


def host_of(structure: Structure, v: int) -> str:
    """The host of a node, which is its name unless several nodes have the same host."""
    return structure.tags.get(v, {}).get(HOST) or structure.name(v)


def _checked(stem: str, runs: list[str]) -> str:
    hostlist.format([stem + runs[0].partition("-")[0]])  # refuses names that a hostlist cannot express
    return f"{stem}{runs[0]}" if len(runs) == 1 and "-" not in runs[0] else f"{stem}[{','.join(runs)}]"


def _stem(kind: Kind) -> tuple[str, int] | None:
    """Text before the id in names of a kind, and the width of the id; None if names have more parts."""
    if kind.name is None:
        stem, width = kind.basename, 0
    else:
        parts = template.parse(kind.name)
        if not parts or not isinstance(parts[-1], template.Field) or not template.is_invertible(kind.name):
            return None
        stem, width = "".join(map(str, parts[:-1])), parts[-1].width
    # A digit before the id would be read as a part of it.
    return None if not stem or stem[-1:] in _DIGITS or width > _DIGITS_MAX else (stem, width)


def host_ids(structure: Structure, targets: Targets) -> Int64:
    """The ids that a reader gives the targets: the number at the end of each name."""
    vertices = targets.vertices
    found = structure.id[vertices].copy()
    kinds = structure.kind[vertices]
    for number in np.unique(kinds).tolist():
        if _stem(structure.kinds[number]) is None:
            found[kinds == number] = -2
    found[found < 0] = -2
    if structure.names:
        found[np.isin(vertices, np.fromiter(structure.names, np.int64, len(structure.names)))] = -2
    for i in np.flatnonzero(found == -2).tolist():
        name = host_of(structure, int(vertices[i]))
        digits = name[len(name.rstrip(_DIGITS)) :]
        found[i] = int(digits) if 0 < len(digits) <= _DIGITS_MAX else -1
    return found


def properties_of(structure: Structure, targets: Targets, described: Described) -> dict[str, str]:
    """Ranks by property of the targets; marks in `described` the properties that a reader gets back."""
    found: dict[str, list[Int64]] = {}
    kinds = structure.kind[targets.vertices]
    for number in np.unique(kinds).tolist():
        have = kinds == number
        properties = structure.kinds[number].properties
        texts = {text for key, value in properties if (text := property_text(key, value)) is not None}
        pairs = pairs_of(texts)
        described.properties[targets.vertices[have]] = draws_as_numbers(pairs) == properties
        described.retyped[targets.vertices[have]] = pairs == tuple((k, v if v is None else str(v)) for k, v in properties)
        for text in texts:
            found.setdefault(text, []).append(targets.ranks[have])
    return {name: idset.format(np.concatenate(ranks).tolist()) for name, ranks in sorted(found.items())}


def property_text(key: str, value: object) -> str | None:
    """A property as R names it, with the value as text after an equals sign; None if R cannot name it.

    >>> property_text("ssd", None), property_text("gen", "4"), property_text("a|b", None), property_text("gen", 4)
    ('ssd', 'gen=4', None, 'gen=4')
    """
    if key.startswith(DRAW) and "=" in key:
        return None  # the value would begin at this sign, and readers refuse a draw that is not a number
    text = key if value is None else f"{key}={value}"
    return text if value != "" and len(text) <= limits.NAME_LENGTH_MAX and not BARRED & set(text) else None

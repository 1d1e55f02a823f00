"""What resource sets and node tables say about execution targets, from columns: ids of cores and gpus, hosts, properties.

The writers of R, TreePool and resource tables mark here which pools and which of their attributes they write, so that everything
else is reported as left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.allocation.resource_set import CHILDREN
from fluxres.errors import InputError
from fluxres.formats import losses
from fluxres.formats.flux.ranks import BARRED, HOST, pairs_of
from fluxres.formats.flux.resource_set import TAGS
from fluxres.formats.format import Fact, Hold
from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import DRAW, WAY, Kind, draws_as_numbers
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, idset, template

ROOT: Final = "cluster0"
_CARRIES: Final[frozenset[Fact]] = frozenset({"pools", "names", "ids", "sizes", "units", "properties", "ranks", "tags"})
Mask = NDArray[np.bool_]


class Targets(NamedTuple):
    """Execution targets in the order of their ranks."""

    ranks: NDArray[np.int64]
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


def offered(structure: Structure, type_name: str) -> Int32:
    """Pools of a type, without those that only connect the root with others."""
    pools, ways = structure.of_type(type_name), (structure.flags & WAY) != 0
    return np.asarray(pools[~ways[pools]], np.int32) if ways.any() else pools


def pools_within(structure: Structure, targets: Targets, type_name: str) -> Int32:
    """Pools of a type below targets, as :func:`offered`."""
    pools = offered(structure, type_name)
    starts = np.sort(targets.vertices)
    at = np.searchsorted(starts, pools) - 1
    reach = np.maximum.accumulate(structure.end[starts])
    return pools[(at >= 0) & (pools < reach[at])]


def lost(
    structure: Structure,
    allocations: Sequence[Hold],
    targets: Targets,
    described: Described,
    host_ids: NDArray[np.int64],
    name: str | None,
) -> list[str]:
    """What was not written.

    Args:
        host_ids: the id that a reader gives each target, from its host.
        name: of the machine.
    """
    is_target = np.zeros(structure.n, np.bool_)
    is_target[targets.vertices] = True
    kinds, kind = structure.kinds, structure.kind

    def of_kind(test: list[bool]) -> Mask:
        return np.asarray(np.array(test)[kind] & described.pools)

    lines = losses.concern(structure, "pools", ~described.pools)
    lines += losses.concern(structure, "pools", is_target & of_kind([k.type != "node" for k in kinds]), "nodes instead;")
    lines += losses.concern(structure, "pools", described.mixed, "the order in which types alternate,")
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


_DIGITS: Final = "0123456789"
_DIGITS_MAX: Final = 18


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
    numbers: NDArray[np.int64]
    gpus_first: NDArray[np.bool_]
    mixed: NDArray[np.bool_]


def children_of(structure: Structure, targets: Targets) -> Children:
    """The cores and gpus of targets.

    Cost: O(pools) array operations, O(different targets) Python.
    """
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


def _id_texts(structure: Structure, pools: Int32, numbers: NDArray[np.int64]) -> list[str]:
    """The ids of each row of pools as an idset."""
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


def host_ids(structure: Structure, targets: Targets) -> NDArray[np.int64]:
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
    found: dict[str, list[NDArray[np.int64]]] = {}
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

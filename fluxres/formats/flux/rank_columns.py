"""What resource sets and node tables say about execution targets, from columns: ids of cores and gpus, hosts, properties."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.allocation.resource_set import CHILDREN
from fluxres.formats.flux.rank_hosts import HOST
from fluxres.formats.flux.rank_properties import BARRED, pairs_of
from fluxres.formats.flux.resource_set_told import Targets, Told, offered
from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import DRAW, Kind, draws_as_numbers
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, idset, template

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


def properties_of(structure: Structure, targets: Targets, told: Told) -> dict[str, str]:
    """Ranks by property of the targets; marks in `told` the properties that a reader gets back."""
    found: dict[str, list[NDArray[np.int64]]] = {}
    kinds = structure.kind[targets.vertices]
    for number in np.unique(kinds).tolist():
        have = kinds == number
        properties = structure.kinds[number].properties
        texts = {text for key, value in properties if (text := property_text(key, value)) is not None}
        pairs = pairs_of(texts)
        told.properties[targets.vertices[have]] = draws_as_numbers(pairs) == properties
        told.retyped[targets.vertices[have]] = pairs == tuple((k, v if v is None else str(v)) for k, v in properties)
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

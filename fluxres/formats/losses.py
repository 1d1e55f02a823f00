"""What a format cannot express of a machine, and what a reader leaves out of a file.

Every writer must return its losses (rule S1), and nearly all of them follow from the facts that the format carries. They are
computed from the columns, with one line per kind of loss, which begins with the fact.

A file that its own program accepts must not be refused because of a line that this program ignores or corrects. But the loss is
not silent either: there is one note per kind, with the first place and the total number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from fluxres.arrays import Mask
from fluxres.documents.document import listed, plural
from fluxres.documents.source import Source
from fluxres.formats.format import Fact, Hold
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import EXCLUSIVE, WAY, Kind
from fluxres.graph.recipe import hand_down
from fluxres.graph.structure import Structure

TYPES: Final = "the types of their values, which all become text"


def lines(
    structure: Structure, allocations: Sequence[Hold], carries: frozenset[Fact], *, within: Mask | None = None
) -> list[str]:
    """What is lost in a format that carries these facts.

    Args:
        within: pools that are written; all pools by default.

    Cost: O(pools) array operations for each fact that is not carried.

    >>> from fluxres.graph.recipe import Recipe, expand
    >>> s = expand(Recipe("cluster", children=(Recipe("memory", 2, size=64, unit="GiB"),)), origin=0)
    >>> lines(s, [], frozenset({"sizes"}))[0]
    'units: 2 pools, such as /cluster/memory0'
    """
    found = []
    for fact, ask in _MASKS.items():
        if fact not in carries:
            concerned = ask(structure)
            found += concern(structure, fact, concerned if within is None else concerned & within)
    if "graphs" not in carries:
        found += _graphs(structure)
    if "uuids" not in carries:
        found.append(f"uuids: {plural(structure.n, 'pool')}; reading the file generates new ones")
    if "allocations" not in carries and allocations:
        jobs = list(dict.fromkeys(hold.job for hold in allocations))
        found.append(f"allocations: {plural(len(jobs), 'job')}, {'such as ' * (len(jobs) > 1)}{jobs[0]}")
    return found


def concern(structure: Structure, fact: str, concerned: Mask, what: str = "") -> list[str]:
    """The line for the marked pools; empty if there are none.

    Args:
        what: the part of the fact that is lost, if not all of it is.
    """
    count = int(np.count_nonzero(concerned))
    if not count:
        return []
    first = structure.where(int(concerned.argmax()))
    return [f"{fact}: {what + '; ' if what else ''}{plural(count, 'pool')}, {'such as ' * (count > 1)}{first}"]


def _graphs(structure: Structure) -> Iterator[str]:
    if structure.subsystems:
        edges = sum(len(graph) for graph in structure.subsystems.values())
        yield f"graphs: {', '.join(structure.subsystems)}, with {plural(edges, 'edge')}"
    if structure.tree_end < structure.n:
        outside = plural(structure.n - structure.tree_end, "pool")
        yield f"graphs: {outside} outside the tree, such as {structure.where(structure.tree_end)}"


def _of_kinds(test: Callable[[Kind], object]) -> Callable[[Structure], Mask]:
    return lambda s: np.array([bool(test(kind)) for kind in s.kinds])[s.kind]


def _rows(s: Structure, vertices: Mapping[int, object]) -> Mask:
    marked = np.zeros(s.n, np.bool_)
    marked[np.fromiter(vertices, np.int64, len(vertices))] = True
    return marked


def _named(s: Structure) -> Mask:
    """Pools whose name is not basename and id."""
    found = _of_kinds(lambda kind: kind.name is not None and kind.name not in (f"{kind.basename}${{id}}", "${basename}${id}"))(s)
    for v, name in s.names.items():
        kind, number = s.kind_of(v), s.id.item(v)
        found[v] = name != (kind.basename if number < 0 else f"{kind.basename}{number}")
    return found


def _numbered(s: Structure) -> Mask:
    """Pools whose id is not their number among the siblings of their basename (a root has none)."""
    number = {base: i for i, base in enumerate(dict.fromkeys(kind.basename for kind in s.kinds))}
    base = np.array([number[kind.basename] for kind in s.kinds])[s.kind]
    order = np.lexsort((base, s.parent))
    parent, base = s.parent[order], base[order]
    begins = np.ones(s.n, np.bool_)
    begins[1:] = (parent[1:] != parent[:-1]) | (base[1:] != base[:-1])
    at = np.arange(s.n)
    usual = np.empty(s.n, np.int64)
    usual[order] = at - np.maximum.accumulate(np.where(begins, at, 0))
    usual[0] = -1
    return np.asarray(s.id != usual)


def _ranked(s: Structure) -> Mask:
    """Pools whose rank is not the number of their node among the nodes."""
    nodes = s.in_tree("node")
    usual = np.empty(s.n, np.int32)
    usual[nodes] = np.arange(len(nodes))
    hand_down(usual, nodes.astype(np.int64), s.end)
    return np.asarray(s.rank != usual)


_MASKS: Final[dict[Fact, Callable[[Structure], Mask]]] = {
    "names": _named,
    "basenames": _of_kinds(lambda kind: kind.basename != kind.type),
    "ids": _numbered,
    "sizes": lambda s: s.size != 1,
    "units": _of_kinds(lambda kind: kind.unit),
    "properties": _of_kinds(lambda kind: kind.properties),
    "tags": lambda s: _rows(s, s.tags),
    "states": lambda s: s.state != 0,
    "exclusive": lambda s: (s.flags & EXCLUSIVE) != 0,
    "ranks": _ranked,
    "capacities": lambda s: ((s.flags & WAY) != 0) | _rows(s, s.capacity),
}


# -- values that few formats can express ------------------------------------------------------------------------------


def is_endless(value: object) -> bool:
    """Whether a value is a number that JSON does not have: infinity or NaN."""
    return isinstance(value, float) and not math.isfinite(value)


def is_set(value: object) -> bool:
    """Whether an edge has a value of an attribute: columns have None or NaN where it has none."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def endless_attributes(graph: Subsystem) -> list[str]:
    """A line for each attribute of an auxiliary graph that is infinite on some edge."""
    found = []
    for key, column in graph.attributes.items():
        count = sum(isinstance(value, float) and math.isinf(value) for value in column.tolist())
        if count:
            found.append(f"graphs: infinite values of {key}, of {plural(count, 'edge')} of {graph.name}")
    return found


#: maximal number of names in a note


class Notes:
    """Collects notes while a file is read.

    >>> notes = Notes()
    >>> for line in (3, 7, 9):
    ...     notes.add("zero", f"slurm.conf:{line}", "CPUs=0 is read as 1")
    >>> notes.lines()
    ('slurm.conf:3: CPUs=0 is read as 1 (and 2 more like it)',)
    """

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def add(self, sort: str, where: str, what: str) -> None:
        """Add a note; only the first of each kind is kept, the others are counted."""
        if sort not in self._first:
            self._first[sort] = f"{where}: {what}" if where else what
        self._count[sort] = self._count.get(sort, 0) + 1

    def lines(self) -> tuple[str, ...]:
        """The notes, in the order of the first of each kind."""
        return tuple(
            f"{first} (and {self._count[sort] - 1} more like it)" if self._count[sort] > 1 else first
            for sort, first in self._first.items()
        )


def keys_passed_over(source: Source, names: Sequence[str]) -> tuple[str, ...]:
    """A note on the keys of a document that its reader passed over; none where there are none."""
    return (f"{source.file}: ignored, since a machine has no place for it: {listed(names)}",) if names else ()

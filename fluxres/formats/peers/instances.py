"""The instances on a node as the peer systems see them: pools of a type, their labels, and how many units a slot is.

What `inventory` does for the files, for all of a machine at once, this does for a request, node by node.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from fluxres.arrays import Int32, Int64
from fluxres.formats.peers.inventory import COUNTED, FRACTION_UNIT, FRACTIONS, LABEL, RESERVED, SLOTS, TYPES
from fluxres.graph.structure import Structure
from fluxres.match.chooser import free_units
from fluxres.match.situation import Situation

_WORDS: Final = {type_name: word for word, type_name in TYPES.items()}


def word_of(type_name: str, types: Collection[str] = ()) -> str:
    """The word of another system for a graph type, the opposite of :func:`fluxres.syntax.variants.type_of`.

    >>> word_of("core"), word_of("node_"), word_of("core", ["core", "cpus"])
    ('cpus', 'node', 'core')
    """
    if type_name.endswith("_") and type_name[:-1] in RESERVED:
        return type_name[:-1]
    word = _WORDS.get(type_name, type_name)
    return type_name if word in types else word


def nodes(structure: Structure) -> list[int]:
    """The nodes, without those in another node; the root of a machine without nodes."""
    found: list[int] = []
    stop = 0
    for v in structure.of_type("node").tolist():
        if v >= stop and v < structure.tree_end:
            found.append(v)
            stop = structure.end.item(v)
    return found or [0]


def inside(structure: Structure, node: int, type_name: str) -> Int32:
    """The pools of a type in a node, ascending."""
    found = structure.of_type(type_name)
    first, stop = found.searchsorted(np.array([node + 1, structure.end.item(node)], np.int32))
    return found[first:stop]


def everything(structure: Structure, node: int) -> list[int]:
    """All instances in a node: the pools of counted types and the leaves, without those in another of them."""
    counted = {structure.types.index(name) for name in COUNTED if name in structure.types}
    found: list[int] = []
    v, stop = node + 1, structure.end.item(node)
    while v < stop:
        end = structure.end.item(v)
        if end == v + 1 or structure.type.item(v) in counted:
            found.append(v)
            v = end
        else:
            v += 1
    return found


def scale(structure: Structure, vertices: Int32) -> Int64:
    """How many units of each pool are one slot: 1, or 10,000 where slots have decimals."""
    kinds = structure.kind[vertices]
    is_fraction = np.array([kind.unit == FRACTION_UNIT for kind in structure.kinds])
    return np.where(is_fraction[kinds], FRACTIONS, 1).astype(np.int64)


def free(situation: Situation, vertices: Int32) -> Int64:
    """Units of each instance (ascending) that a request may take in a window; none of one without slots."""
    without = np.array([any(key == SLOTS for key, _ in kind.properties) for kind in situation.structure.kinds])
    return np.where(without[situation.structure.kind[vertices]], 0, free_units(situation, vertices))


def has_slots(structure: Structure, v: int) -> bool:
    """Whether an instance has any slot; one without is a pool of size 1 that is down."""
    return not any(key == SLOTS for key, _ in structure.kind_of(v).properties)


def labels(structure: Structure, vertices: Int32) -> list[str]:
    """The labels of the instances of one type on one node; their numbers where a label occurs twice."""
    found = [label(structure, v) for v in vertices.tolist()]
    return found if len(set(found)) == len(found) else list(map(str, range(len(found))))


def label(structure: Structure, v: int) -> str:
    """What a peer system calls an instance: the label in its file, else its id if its name is made of that, else its name.

    >>> from fluxres.formats.peers.hyperqueue.read import read_words
    >>> made = read_words("cpus=1x1 gpus=[a]").structure
    >>> [label(made, v) for v in (2, 3)]
    ['0', 'a']
    """
    kind = structure.kind_of(v)
    kept = dict(kind.properties).get(LABEL)
    if isinstance(kept, str):
        return kept
    number = structure.id.item(v)
    return str(number) if number >= 0 and kind.name is None and v not in structure.names else structure.name(v)

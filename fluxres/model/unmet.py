"""Values in criteria that no pool has: why nothing was found, and what may have been meant.

An empty selection is an answer: a program that looks for GPUs on a machine without any has asked a good question.  For a person
it is often a slip of the pen, so commands say which value is on no pool at all.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from fluxres import limits
from fluxres.graph.kinds import Kind
from fluxres.graph.structure import CONTAINMENT
from fluxres.syntax.criteria import All, And, Compare, Criteria, Not, Or

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

_COMPARED_MAX: Final = 1000
"""Known values that a wrong one is compared with: more take longer than a reader waits for a hint."""


def unmet(graph: ResourceGraph, criteria: Criteria) -> Iterator[str]:
    """A sentence for each value asked for that no pool of the graph has."""
    match criteria:
        case And() | Or():
            for item in criteria.items:
                yield from unmet(graph, item)
        case Compare(op="="):
            yield from _compared(graph, criteria)
        case All() | Not() | Compare():
            return


def _compared(graph: ResourceGraph, node: Compare) -> Iterator[str]:
    known = _KNOWN.get(node.key)
    if known is None or node.flag is not None:
        return
    texts = node.texts if node.qualifier is None else (node.qualifier,)
    values = dict.fromkeys(known(graph))
    for text in texts:
        if text not in values:
            yield f"no {node.key} '{text[: limits.NAME_LENGTH_MAX]}' in this graph{_instead(text, values)}"


def _instead(text: str, known: Iterable[str]) -> str:
    some = list(islice(known, _COMPARED_MAX))
    close = difflib.get_close_matches(text[:64], some, n=3, cutoff=0.7)
    if close:
        return f" (did you mean {' or '.join(close)}?)"
    shown = ", ".join(some[: limits.WHY_NAMES_MAX])
    return f" (there is {shown}{' …' * (len(some) > limits.WHY_NAMES_MAX)})" if some else " (there is none)"


def _kinds(graph: ResourceGraph) -> Iterator[Kind]:
    structure = graph.structure
    return (structure.kinds[number] for number in np.flatnonzero(np.bincount(structure.kind)).tolist())


_KNOWN: Final[dict[str, Callable[[ResourceGraph], Iterable[str]]]] = {
    "type": lambda graph: graph.structure.types,
    "basename": lambda graph: (kind.basename for kind in _kinds(graph)),
    "unit": lambda graph: (kind.unit for kind in _kinds(graph) if kind.unit is not None),
    "property": lambda graph: (key for kind in _kinds(graph) for key, _ in kind.properties),
    "tag": lambda graph: (key for tags in graph.structure.tags.values() for key in tags),
    "subsystem": lambda graph: [CONTAINMENT, graph.structure.hierarchy, *graph.structure.subsystems],
    "hierarchy": lambda graph: graph.structure.hierarchies(),
    "job": lambda graph: graph.jobs(),
}

"""Write DOT, the graph language of Graphviz. No limit is enforced, though a drawing of more than a few thousand pools is not
useful.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fluxres.formats import losses
from fluxres.formats.format import Fact, Hold, Output
from fluxres.formats.pool_texts import PoolTexts, blocks, by_kind, edge_rows, tree_edges
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import STATES, UNAVAILABLE_STATES
from fluxres.graph.structure import Structure

CARRIES: Final[frozenset[Fact]] = frozenset({"pools", "names", "sizes", "units", "states", "graphs"})


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as a DOT digraph. Solid edges are containment, dashed ones auxiliary graphs; pools that are out of service are
    grey.

    Cost: about 1 µs per pool.
    """
    title = _escape(name if name is not None else structure.name(0))
    chunks = [f'digraph "{title}" {{\n  node [shape=box];\n'.encode(), *_nodes(structure), *_edges(structure), b"}\n"]
    lost = losses.lines(structure, allocations, CARRIES)
    for graph in structure.subsystems.values():
        others = [key for key in graph.attributes if key != "capacity"]
        lost += [f"graphs: {key} of edges of {graph.name}" for key in others]
    return Output(b"".join(chunks), lost)


def _escape(text: str) -> str:
    # A line break would end the label, so it is written as an escape sequence.
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _nodes(structure: Structure) -> Iterator[bytes]:
    names = PoolTexts(structure, _escape).names
    units = by_kind(structure, lambda kind: f" {_escape(kind.unit)}" if kind.unit else "", "")
    states = [
        f' state="{state}"' + (' style=filled fillcolor="grey80"' if state in UNAVAILABLE_STATES else "") if number else ""
        for number, state in enumerate(STATES)
    ]
    types = by_kind(structure, lambda kind: _escape(kind.type), "")
    for part in blocks(structure.n):
        columns = (structure.kind, structure.size, structure.state)
        rows = zip(range(part.start, part.stop), *(column[part].tolist() for column in columns), strict=True)
        yield "".join(
            [
                f'  {v} [label="{names[v]}'
                + (f"\\n{size}{units[kind]}" if size != 1 or units[kind] else "")
                + f'" type="{types[kind]}"{states[state]}];\n'
                for v, kind, size, state in rows
            ]
        ).encode()


def _edges(structure: Structure) -> Iterator[bytes]:
    for pairs in tree_edges(structure):
        yield "".join([f"  {u} -> {v};\n" for u, v in pairs]).encode()
    for graph in structure.subsystems.values():
        yield "".join(_of_graph(graph)).encode()


def _of_graph(graph: Subsystem) -> Iterator[str]:
    name = _escape(graph.name)
    labels = [f'label="{_escape(relation)}' for relation in graph.relations]
    capacity = graph.attributes.get("capacity")
    for row, (u, v, relation) in edge_rows(graph):
        amount = "" if capacity is None or np.isnan(capacity[row]) else f" {capacity[row]:g}"
        yield f'  {u} -> {v} [{labels[relation]}{amount}" subsystem="{name}" style=dashed constraint=false];\n'

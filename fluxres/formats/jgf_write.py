"""JGF, written: all that fluxres knows of a machine, in the keys that Fluxion reads and some that it passes over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from fluxres.formats import left_out, pool_uuids
from fluxres.formats.format import ALL
from fluxres.formats.jgf_columns import CONTAINMENT
from fluxres.formats.loaded import Hold, Output
from fluxres.graph import jgf_text
from fluxres.graph.jgf import SHORTHAND, Part
from fluxres.graph.kinds import EXCLUSIVE
from fluxres.graph.structure import Structure

CARRIES = ALL - {"allocations"}
_RUNS_MAX = 256
"""Runs of uuids that stand before the nodes; more would hide from the first look at a file what it is."""


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None, shorthand: bool = False) -> Output:
    """A machine as a JGF file.

    Args:
        shorthand: leave out what is below pools that may only be allocated whole, as Fluxion does in its shorthand.

    Cost: about 1 µs a pool; memory of about three times the file.
    Source: RFC 40.
    """
    vertices = np.arange(structure.n, dtype=np.int32)
    exclusive = (structure.flags & EXCLUSIVE) != 0
    hidden = np.zeros(structure.n, np.bool_)
    if shorthand:
        depth = np.zeros(structure.n + 1, np.int32)
        np.add.at(depth, np.flatnonzero(exclusive) + 1, 1)
        np.add.at(depth, structure.end[exclusive], -1)
        hidden = np.cumsum(depth[:-1]) > 0
    lost = left_out.concern(structure, "pools", hidden, "what is below exclusive ones;")
    lost += left_out.lines(structure, allocations, CARRIES)
    lost += _lost(structure)
    told = _told(structure)
    part = Part(vertices[~hidden], structure.size[~hidden], exclusive[~hidden])
    label = "" if name is None or name == structure.name(0) else f'"label":{jgf_text.quoted(name)},'
    runs = pool_uuids.runs_of(structure, part.vertices)
    alone = len(runs) > _RUNS_MAX
    metadata: dict[str, Any] = {} if alone else {"uuids": runs}
    if empty := {name: graph.hierarchy for name, graph in structure.subsystems.items() if not len(graph) and name != CONTAINMENT}:
        metadata["graphs"] = empty
    head = f'{label}"metadata":{orjson.dumps(metadata).decode()},' if metadata else label
    text = b"".join([*jgf_text.chunks(told, part, node_uuids=alone, full=True, head=head), _end(shorthand=bool(hidden.any()))])
    return Output(text, lost)


def write_shorthand(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as JGF in Fluxion's shorthand; see :func:`write`."""
    return write(structure, allocations, name=name, shorthand=True)


def _end(*, shorthand: bool) -> bytes:
    return b'},"writer":"%s"}\n' % SHORTHAND.encode() if shorthand else b"}}\n"


def _told(structure: Structure) -> Structure:
    """The structure without auxiliary graphs that the format has no words for."""
    kept = {name: graph for name, graph in structure.subsystems.items() if len(graph) and name != CONTAINMENT}
    if len(kept) == len(structure.subsystems):
        return structure
    return Structure(
        structure.columns(),
        structure.kinds,
        origins=structure.origins,
        names=structure.names,
        uuid_texts=structure.uuid_texts,
        tags=structure.tags,
        capacity=structure.capacity,
        subsystems=kept,
        tree_end=structure.tree_end,
    )


def _lost(structure: Structure) -> list[str]:
    """What of the facts that JGF carries it still does not say."""
    plain = [all(value is None or (value and isinstance(value, str)) for _, value in k.properties) for k in structure.kinds]
    lost = left_out.concern(structure, "properties", ~np.array(plain)[structure.kind], left_out.TYPES)
    for name, graph in structure.subsystems.items():
        if name == CONTAINMENT:
            lost.append(f"graphs: {name}, which is what JGF calls the has-a tree, with {len(graph)} edges")
        for key, column in graph.attributes.items():
            numbers = [value for value in column.tolist() if isinstance(value, float)]
            if np.isinf(numbers).any():
                lost.append(f"graphs: {key} without end, of edges of {name}")
    return lost

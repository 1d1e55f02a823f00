"""Write JGF: all that fluxres knows of a machine, in the keys that Fluxion reads and some that it ignores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from fluxres.formats import losses, pool_uuids
from fluxres.formats.format import ALL, Hold, Output
from fluxres.graph import jgf, jgf_subsystems
from fluxres.graph.jgf import SHORTHAND, GraphPart
from fluxres.graph.jgf_subsystems import CONTAINMENT
from fluxres.graph.kinds import DRAW, EXCLUSIVE, WAY, PropertyValue
from fluxres.graph.structure import Structure

CARRIES = ALL - {"allocations"}
_RUNS_MAX: Final = 256
"""Maximal number of uuid runs written once for all nodes; with more runs each node has its own uuid, which is about as long."""


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None, shorthand: bool = False) -> Output:
    """A machine as a JGF file.

    Args:
        shorthand: leave out everything below pools of the containment tree that may only be allocated exclusively, like Fluxion's
            shorthand.

    Cost: about 1 µs per pool; memory about three times the file. Source: RFC 40.
    """
    part = part_of(structure, shorthand=shorthand)
    lost = losses.concern(structure, "pools", hidden_in(structure, part), "what is below exclusive ones;")
    data = b"".join([*pieces_of(structure, part, name), b"\n"])
    return Output(data, [*lost, *lost_of(structure, allocations)], note_of(structure))


def write_shorthand(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as JGF in Fluxion's shorthand; see :func:`write`."""
    return write(structure, allocations, name=name, shorthand=True)


def part_of(structure: Structure, *, shorthand: bool) -> GraphPart:
    """All of a machine, or the part in the shorthand; pools that may only be allocated exclusively count as held."""
    ways = (structure.flags & WAY) != 0
    exclusive = ((structure.flags & EXCLUSIVE) != 0) & ~ways
    kept = np.ones(structure.n, np.bool_)
    if shorthand:
        depth = np.zeros(structure.n + 1, np.int32)
        hiding = np.flatnonzero(exclusive[: structure.tree_end])
        np.add.at(depth, hiding + 1, 1)
        np.add.at(depth, structure.end[hiding], -1)
        kept = np.cumsum(depth[:-1]) == 0
    vertices = np.flatnonzero(kept).astype(np.int32)
    return GraphPart(vertices, structure.size[kept], exclusive[kept], ways[kept])


def hidden_in(structure: Structure, part: GraphPart) -> losses.Mask:
    """Pools outside a part, as a bool per vertex."""
    hidden = np.ones(structure.n, np.bool_)
    hidden[part.vertices] = False
    return hidden


def pieces_of(
    structure: Structure, part: GraphPart, name: str | None, more: Mapping[int, str] = MappingProxyType({})
) -> Iterator[bytes]:
    """The text of a graph in pieces, with the uuids of its pools as runs if there are few runs.

    Args:
        name: of the machine.
        more: as for :func:`~fluxres.graph.jgf.chunks`.
    """
    label = None if name is None or name == structure.name(0) else name
    runs = pool_uuids.runs_of(structure, jgf.in_order(structure, part))
    yield from jgf.chunks(structure, part, label=label, uuid_runs=runs if len(runs) <= _RUNS_MAX else None, more=more)
    yield b',"writer":"%s"}' % SHORTHAND.encode() if len(part.vertices) < structure.n else b"}"


def _is_plain(key: str, value: PropertyValue) -> bool:
    """Whether a property is read back unchanged: text, and the numbers that are known for their key."""
    return value is None or key.startswith(DRAW) or (isinstance(value, str) and value != "")


def lost_of(structure: Structure, allocations: Sequence[Hold]) -> list[str]:
    """What a graph of all pools does not express of a machine."""
    lost = losses.lines(structure, allocations, CARRIES)
    plain = [all(_is_plain(key, value) for key, value in kind.properties) for kind in structure.kinds]
    lost += losses.concern(structure, "properties", ~np.array(plain)[structure.kind], losses.TYPES)
    for name, graph in structure.subsystems.items():
        if name == CONTAINMENT:
            lost.append(f"graphs: {name}, which is what JGF calls the containment tree, with {len(graph)} edges")
        for key, column in graph.attributes.items():
            numbers = [value for value in column.tolist() if isinstance(value, float)]
            if np.isinf(numbers).any():
                lost.append(f"graphs: infinite values of {key}, of edges of {name}")
    return lost


def note_of(structure: Structure) -> str:
    """A note on the parts of a machine that are hidden from Fluxion because it would refuse them; empty if there are none."""
    refused = jgf_subsystems.of(structure).refused
    if not refused:
        return ""
    return f"Fluxion does not see {'; '.join(f'{name}: {reason}' for name, reason in refused.items())}"

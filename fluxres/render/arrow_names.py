"""Names and paths of pools as Arrow columns, made by vector steps: a million pools need no million texts in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluxres.arrays import Int32
from fluxres.graph.kinds import around_id
from fluxres.graph.structure import Structure


def names(structure: Structure, vertices: Int32, arrow: Any) -> Any:
    """The name of each pool, as :meth:`Structure.name` has it."""
    compute = arrow.compute
    kinds, numbers = structure.kind[vertices], structure.id[vertices]
    used, kind = np.unique(kinds, return_inverse=True)
    around = [around_id(structure.kinds[number]) for number in used.tolist()]
    has_template = np.array([structure.kinds[number].name is not None for number in used.tolist()], np.bool_)
    is_odd = np.array([one is None for one in around], np.bool_)[kind] | ((numbers < 0) & has_template[kind])
    if structure.names:
        is_odd |= np.isin(vertices, np.fromiter(structure.names, np.int32))
    digits = compute.if_else(arrow.array(numbers < 0), "", arrow.array(numbers).cast(arrow.large_string()))
    width_of = np.array([0 if one is None else one[1] for one in around], np.int64)[kind]
    for width in np.unique(width_of[numbers >= 0]).tolist():
        if width:
            wide = arrow.array((width_of == width) & (numbers >= 0))
            digits = compute.if_else(wide, compute.utf8_lpad(digits, width, padding="0"), digits)
    before, after = (
        arrow.array(["" if one is None else one[part] for one in around], arrow.large_string()).take(arrow.array(kind))
        for part in (0, 2)
    )
    found = compute.binary_join_element_wise(before, digits, after, arrow.scalar("", arrow.large_string()))
    if not is_odd.any():
        return found
    odd = [structure.name(v) for v in vertices[is_odd].tolist()]
    return compute.replace_with_mask(found, arrow.array(is_odd), arrow.array(odd, arrow.large_string()))


def paths(structure: Structure, vertices: Int32, arrow: Any) -> Any:
    """The path of each pool, and the URI outside containment, as :meth:`Structure.where` has them.

    Args:
        vertices: ascending.
    """
    split = int(np.searchsorted(vertices, structure.tree_end))
    outside = arrow.array([structure.where(v) for v in vertices[split:].tolist()], arrow.large_string())
    levels = [vertices[:split]]
    while len(above := _parents(structure, levels[-1])):
        levels.append(above)
    texts = arrow.array([], arrow.large_string())
    for level, above in zip(reversed(levels), [levels[-1][:0], *reversed(levels[1:])], strict=True):
        texts = _below(structure, level, above, texts, arrow)
    return arrow.concat_arrays([texts, outside])


def _parents(structure: Structure, vertices: Int32) -> Int32:
    parents: Int32 = np.unique(structure.parent[vertices])
    return parents[parents >= 0]


def _below(structure: Structure, level: Int32, above: Int32, texts: Any, arrow: Any) -> Any:
    """The paths of a level from those of the parents of its pools."""
    parents = structure.parent[level]
    at = arrow.array(np.searchsorted(above, parents), mask=parents < 0)
    before = arrow.compute.fill_null(texts.take(at), "")
    return arrow.compute.binary_join_element_wise(before, names(structure, level, arrow), arrow.scalar("/", arrow.large_string()))

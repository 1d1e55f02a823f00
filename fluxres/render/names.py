"""Many pools as one text, `node[0-15,20]`, without making a name for each.

Pools of one kind differ by their id, so the text follows from runs of ids and the names at their ends. Only explicitly named
pools, and templates that depend on more than the id, are written out; beyond a bound they are counted.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import Kind
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, template

_SPELLED_MAX: Final = 65_536
"""Maximal number of names written out in one text: this takes a tenth of a second."""


def runs(numbers: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Index ranges (first, last) of consecutive ascending numbers.

    >>> runs(np.array([0, 1, 2, 7]))
    [(0, 2), (3, 3)]
    """
    cuts = (np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()
    return [(a, b - 1) for a, b in pairwise([0, *cuts, len(numbers)])]


def folded(structure: Structure, vertices: Int32) -> str:
    """Names of pools, folded as a hostlist; in the order of kinds and ids, or in pool order if some are explicitly named.

    Args:
        vertices: at least one; pools with the same name count once.
    """
    explicit = structure.names
    plain = vertices
    texts: list[str] = []
    if explicit:
        named = np.fromiter((v in explicit for v in vertices.tolist()), np.bool_, len(vertices))
        plain = vertices[~named]
        if named.any():
            texts.append(_spelled([explicit[v] for v in vertices[named][:_SPELLED_MAX].tolist()], int(named.sum())))
        # `n09` is explicitly named and `n10` is not; in pool order they are one run.
        if len(plain) and len(vertices) <= _SPELLED_MAX:
            return _spelled([structure.name(v) for v in vertices.tolist()], len(vertices))
    kinds = structure.kind[plain]
    numbers = dict.fromkeys(kinds.tolist() if len(kinds) < 64 else np.unique(kinds).tolist())
    texts += [_of_kind(structure, plain[kinds == number], number) for number in numbers]
    return ",".join(dict.fromkeys(texts))


def _spelled(names: list[str], count: int) -> str:
    text = hostlist.fold(dict.fromkeys(names))
    return text if count <= len(names) else f"{text},… {count - len(names)} more"


def _of_kind(structure: Structure, vertices: Int32, number: int) -> str:
    kind = structure.kinds[number]
    if kind.name is not None and not template.is_invertible(kind.name):
        return _spelled([structure.name(v) for v in vertices[:_SPELLED_MAX].tolist()], len(vertices))
    prefix, width, suffix = _around_id(kind)
    ids = np.unique(structure.id[vertices])
    alone = [structure.name(int(vertices[structure.id[vertices] < 0][0]))] if ids[0] < 0 else []
    ids = ids[ids >= 0]
    pieces = [(f"{ids[a]:0{width}}", f"{ids[b]:0{width}}") for a, b in runs(ids)] if len(ids) else []
    if (len(pieces) == 1 and pieces[0][0] == pieces[0][1]) or not pieces:
        return hostlist.fold([*alone, *(f"{prefix}{low}{suffix}" for low, _ in pieces)])
    inside = ",".join(low if low == high else f"{low}-{high}" for low, high in pieces)
    return ",".join([*(hostlist.fold([name]) for name in alone), f"{prefix}[{inside}]{suffix}"])


def _around_id(kind: Kind) -> tuple[str, int, str]:
    """The text before the id in a name, the width of the id, and the text after it."""
    if kind.name is None:
        return kind.basename, 0, ""
    parts = template.parse(kind.name)
    at = next(i for i, part in enumerate(parts) if isinstance(part, template.Field))
    field = parts[at]
    assert isinstance(field, template.Field)
    return "".join(map(str, parts[:at])), field.width, "".join(map(str, parts[at + 1 :]))

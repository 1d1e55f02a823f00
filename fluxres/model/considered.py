"""Which pools a question about a graph is about at all: find, available and totals ask here and nowhere else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.structure import Structure

Mask = NDArray[np.bool_]


def considered(structure: Structure) -> Mask | None:
    """By vertex, the pools that a search can find; None for all.

    What is a way outside the tree has nothing to give and nothing in it (rules M1, N1); the way within the tree has.
    """
    outside = structure.ways[structure.tree_end :]
    if not outside.any():
        return None
    found = np.ones(structure.n, np.bool_)
    found[structure.tree_end :] = ~outside
    return found


def giving(structure: Structure) -> Mask | None:
    """By vertex, the pools with units to give, whichever job holds them; None for all."""
    return None if structure.units is structure.size else ~structure.ways

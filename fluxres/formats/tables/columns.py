"""The columns of a table of pools, shared by CSV and Parquet: one row per pool of the containment tree, in tree order.

A table has no edges, so auxiliary graphs and the pools that are only in them are left out; the path shows containment.
"""

from __future__ import annotations

import json
from typing import Final

import numpy as np

from fluxres.formats.format import ALL, Fact
from fluxres.graph.kinds import Kind
from fluxres.graph.structure import Structure

CARRIES: Final[frozenset[Fact]] = ALL - {"graphs", "capacities", "allocations"}
COLUMNS: Final = (
    *("path", "type", "basename", "name", "id", "rank", "size", "unit", "state", "exclusive"),
    *("uuid", "properties", "tags"),
)


def properties_text(kind: Kind) -> str:
    """The properties of a kind as JSON; empty if it has none.

    >>> properties_text(Kind("node", "node", properties=(("class", 3), ("ssd", None))))
    '{"class":3,"ssd":null}'
    """
    return json.dumps(dict(kind.properties), ensure_ascii=False, separators=(",", ":")) if kind.properties else ""


def tags_texts(structure: Structure) -> dict[int, str]:
    """The tags of pools that have some, as JSON, by vertex."""
    return {
        v: json.dumps(dict(sorted(tags.items())), ensure_ascii=False, separators=(",", ":"))
        for v, tags in structure.tags.items()
        if tags
    }


def within(structure: Structure) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which pools have a row."""
    return np.arange(structure.n) < structure.tree_end

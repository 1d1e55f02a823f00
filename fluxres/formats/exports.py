"""Formats for other programs than schedulers: graphs for networkx and for drawing, tables of pools."""

from __future__ import annotations

import re
from typing import Final

from fluxres.formats.detection import keys, xml_root
from fluxres.formats.format import ALL, Format

_TYPES = re.compile(rb"""attr\.name\s*=\s*["']type["']""")
#: what only Fluxion's recipes have
_RECIPE = re.compile(rb"""(?:attr\.name|key)\s*=\s*["'](?:gen_method|multi_scale|id_scope|root)["']""")


def _is_node_link(head: bytes) -> bool:
    found = keys(head)
    # Names of pools and edges may be anything, so what stands in the first of them decides.
    return bool({"nodes[].id", "nodes[].type"} <= found and found & {"directed", "multigraph", "edges", "links"})


def _is_graphml(head: bytes) -> bool:
    return xml_root(head) == "graphml" and _TYPES.search(head) is not None and _RECIPE.search(head) is None


def _never(_head: bytes) -> bool:
    """Of formats that are only written."""
    return False


FORMATS: Final = (
    Format(
        "node-link",
        "node-link JSON of networkx",
        (".node-link.json", ".nl.json"),
        _is_node_link,
        reader="fluxres.formats.node_link:read",
        writer="fluxres.formats.node_link_write:write",
        carries=ALL,
        loses="numbers without end",
    ),
    Format(
        "graphml",
        "GraphML for graph tools",
        (".graphml",),
        _is_graphml,
        reader="fluxres.formats.graphml:read",
        writer="fluxres.formats.graphml_write:write",
        carries=ALL - {"allocations"},
        loses="who holds what",
    ),
    Format(
        "dot",
        "DOT for Graphviz",
        (".dot", ".gv"),
        _never,
        writer="fluxres.formats.dot_write:write",
        carries=frozenset({"pools", "names", "sizes", "units", "states", "graphs"}),
        loses="what is not drawn: ids, ranks, properties, tags, uuids, who holds what",
    ),
    Format(
        "csv",
        "table of pools, CSV",
        (".csv",),
        _never,
        writer="fluxres.formats.csv_write:write",
        carries=ALL - {"graphs", "capacities", "allocations"},
        loses="auxiliary graphs and the pools that stand only in them; full sizes of what a copy cut down; who holds what",
    ),
    Format(
        "parquet",
        "table of pools, Parquet (needs pyarrow)",
        (".parquet",),
        _never,
        writer="fluxres.formats.parquet_write:write",
        carries=ALL - {"graphs", "capacities", "allocations"},
        loses="auxiliary graphs and the pools that stand only in them; full sizes of what a copy cut down; who holds what",
    ),
)

"""Graphs for programs that draw or edit them: GraphML, node-link JSON, DOT."""

from __future__ import annotations

import re
from typing import Final

from fluxres.formats.detection import keys, xml_root
from fluxres.formats.format import ALL, Format, never

_TYPES = re.compile(rb"""attr\.name\s*=\s*["']type["']""")
#: keys that only Fluxion's recipes have
_RECIPE = re.compile(rb"""(?:attr\.name|key)\s*=\s*["'](?:gen_method|multi_scale|id_scope|root)["']""")


def _is_node_link(head: bytes) -> bool:
    found = keys(head)
    # Names of pools and edges may be anything, so only the keys of the first one decide.
    return bool({"nodes[].id", "nodes[].type"} <= found and found & {"directed", "multigraph", "edges", "links"})


def _is_graphml(head: bytes) -> bool:
    return xml_root(head) == "graphml" and _TYPES.search(head) is not None and _RECIPE.search(head) is None


FORMATS: Final = (
    Format(
        "node-link",
        "node-link JSON of networkx",
        (".node-link.json", ".nl.json"),
        _is_node_link,
        reader="fluxres.formats.graphs.node_link:read",
        writer="fluxres.formats.graphs.node_link:write",
        carries=ALL,
        loses="infinite values",
    ),
    Format(
        "graphml",
        "GraphML for graph tools",
        (".graphml",),
        _is_graphml,
        reader="fluxres.formats.graphs.graphml:read",
        writer="fluxres.formats.graphs.graphml:write",
        carries=ALL - {"allocations", "reservations"},
        loses="allocations, reservations",
    ),
    Format(
        "dot",
        "DOT for Graphviz",
        (".dot", ".gv"),
        never,
        writer="fluxres.formats.graphs.dot:write",
        carries=frozenset({"pools", "names", "sizes", "units", "states", "graphs"}),
        loses="what is not drawn: ids, ranks, properties, tags, uuids, allocations, reservations",
    ),
)

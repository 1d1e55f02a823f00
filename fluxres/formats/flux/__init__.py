"""The formats of Flux: JGF, R, `[resource]` tables and GRUG recipes."""

from __future__ import annotations

import re
from typing import Final

from fluxres.formats.detection import keys, xml_root
from fluxres.formats.format import ALL, Fact, Format, never

_GRUG_KEY = re.compile(rb"""(?:attr\.name|key)\s*=\s*["'](?:gen_method|multi_scale|id_scope|root)["']""")
_RESOURCE_TABLE = re.compile(
    rb"""
    ^[ \t]*+(?:
        \[\[?[ \t]*resource(?:[ \t]*\.[ \t]*config)?[ \t]*\]        # a table of its own
        | resource[ \t]*\.[ \t]*(?:config[ \t]*=[ \t]*\[|path[ \t]*=[ \t]*["'])     # a key with dots before all tables
        | resource[ \t]*=[ \t]*\{                                    # a table on one line
    )""",
    re.MULTILINE | re.VERBOSE,
)


def _is_jgf(head: bytes) -> bool:
    found = keys(head)
    return bool({"graph.nodes", "graph.edges"} & found) and "execution" not in found


def _is_resource_set(head: bytes) -> bool:
    found = keys(head)
    is_one = "execution.R_lite" in found or ("version" in found and bool({"execution", "scheduling"} & found))
    return is_one and "scheduling.children" not in found


def _is_treepool(head: bytes) -> bool:
    found = keys(head)
    return "scheduling.children" in found and bool({"version", "execution"} & found)


def _is_grug(head: bytes) -> bool:
    return xml_root(head) == "graphml" and _GRUG_KEY.search(head) is not None


def _is_resource_config(head: bytes) -> bool:
    return head.lstrip()[:1] not in (b"{", b"<") and _RESOURCE_TABLE.search(head) is not None


_RESOURCE_SET: Final[frozenset[Fact]] = frozenset({"names", "ids", "properties", "ranks"})
_SIZED: Final[frozenset[Fact]] = frozenset({"sizes", "units"})

FORMATS: Final = (
    Format(
        "jgf",
        "JSON Graph Format of Fluxion (RFC 40)",
        (".jgf", ".json"),
        _is_jgf,
        reader="fluxres.formats.flux.jgf:read",
        writer="fluxres.formats.flux.jgf:write",
        carries=ALL - {"allocations", "reservations"},
        loses="allocations; reservations; whether the value of a property is a number or text",
        options=frozenset({"shorthand"}),
    ),
    Format(
        "jgf_shorthand",
        "JGF without what is below exclusive pools; jgf reads it",
        (),
        never,
        writer="fluxres.formats.flux.jgf:write_shorthand",
        carries=ALL - {"allocations", "reservations", "pools"},
        loses="what jgf loses, and everything below pools that are only allocated exclusively",
    ),
    Format(
        "treepool",
        "R with topologies for flux-core's TreePool (RFC 49)",
        (),
        _is_treepool,
        reader="fluxres.formats.flux.resource_set:read",
        writer="fluxres.formats.flux.resource_set:write_treepool",
        carries=_RESOURCE_SET | _SIZED,
        loses="everything but nodes and, in them, cores, gpus, the levels around these, memory in GiB, storage",
    ),
    Format(
        "R",
        "resource set of Flux, R version 1 (RFC 20)",
        (".R",),
        _is_resource_set,
        reader="fluxres.formats.flux.resource_set:read",
        writer="fluxres.formats.flux.resource_set:write",
        carries=_RESOURCE_SET,
        loses="everything but nodes, their cores and gpus, host names and properties; with scheduling=jgf only what jgf loses",
        options=frozenset({"scheduling"}),
    ),
    Format(
        "grug",
        "GRUG, Fluxion's generation recipe in GraphML",
        (".graphml",),
        _is_grug,
        reader="fluxres.formats.flux.grug:read",
    ),
    Format(
        "resource-config",
        "nodes in the configuration of flux-core, TOML",
        (".toml",),
        _is_resource_config,
        reader="fluxres.formats.flux.resource_config:read",
        writer="fluxres.formats.flux.resource_config:write",
        carries=_RESOURCE_SET - {"ranks"},
        loses="everything but nodes, their cores and gpus, host names and properties; ranks count up",
    ),
)

"""The formats of Flux: how files of each are told, and who reads and writes them."""

from __future__ import annotations

import re
from typing import Final

from fluxres.formats.detection import keys, xml_root
from fluxres.formats.format import ALL, Format

_GRUG_KEY = re.compile(rb"""(?:attr\.name|key)\s*=\s*["'](?:gen_method|multi_scale|id_scope|root)["']""")
_RESOURCE_TABLE = re.compile(rb"^[ \t]*\[\[?[ \t]*resource(?:[ \t]*\.[ \t]*config)?[ \t]*\]", re.MULTILINE)


def _is_jgf(head: bytes) -> bool:
    found = keys(head)
    return bool({"graph.nodes", "graph.edges"} & found) and "execution" not in found


def _is_resource_set(head: bytes) -> bool:
    found = keys(head)
    return "execution.R_lite" in found or ("version" in found and bool({"execution", "scheduling"} & found))


def _is_grug(head: bytes) -> bool:
    return xml_root(head) == "graphml" and _GRUG_KEY.search(head) is not None


def _is_resource_config(head: bytes) -> bool:
    return head.lstrip()[:1] not in (b"{", b"<") and _RESOURCE_TABLE.search(head) is not None


_RESOURCE_SET = frozenset({"names", "ids", "properties", "ranks"})

FORMATS: Final = (
    Format(
        "jgf",
        "JSON Graph Format of Fluxion (RFC 40)",
        (".jgf", ".json"),
        _is_jgf,
        reader="fluxres.formats.jgf:read",
        writer="fluxres.formats.jgf_write:write",
        carries=ALL - {"allocations"},
        loses="who holds what; whether the value of a property is a number or text",
        options=frozenset({"shorthand"}),
    ),
)

"""Machines from Slurm's configuration and from its JSON."""

from __future__ import annotations

import re
from typing import Final

from fluxres.formats.detection import keys
from fluxres.formats.format import Fact, Format

_NODE_LINE = re.compile(rb"^[ \t]*NodeName[ \t]*=", re.MULTILINE | re.IGNORECASE)


def _is_configuration(head: bytes) -> bool:
    return head.lstrip()[:1] not in (b"{", b"<", b"[") and _NODE_LINE.search(head) is not None


def _is_answer(head: bytes) -> bool:
    found = keys(head)
    return "sinfo[].nodes.nodes" in found or ("nodes[].name" in found and bool({"nodes[].real_memory", "nodes[].cpus"} & found))


_CARRIES: Final[frozenset[Fact]] = frozenset({"names", "sizes", "units", "properties", "tags", "states", "graphs"})

FORMATS: Final = (
    Format(
        "slurm",
        "Slurm configuration: slurm.conf, with gres.conf, topology.yaml or topology.conf in the same directory",
        (".conf",),
        _is_configuration,
        reader="fluxres.formats.slurm.read:read",
        carries=_CARRIES,
    ),
    Format(
        "slurm-json",
        "Slurm nodes as JSON: sinfo --json, scontrol show nodes --json",
        (".json",),
        _is_answer,
        reader="fluxres.formats.slurm.read_json:read",
        carries=_CARRIES,
    ),
)

"""Machines from hwloc topologies: files, and the local machine."""

from __future__ import annotations

from typing import Final

from fluxres.formats.detection import xml_root
from fluxres.formats.format import Format

FORMATS: Final = (
    Format(
        "hwloc",
        "hwloc topology, XML of versions 1 to 3; 'hwloc:' is the local machine",
        (".xml",),
        lambda head: xml_root(head) == "topology",
        reader="fluxres.formats.hwloc.cluster:read",
        many="fluxres.formats.hwloc.cluster:read_many",
        live="fluxres.formats.hwloc.system:read",
        carries=frozenset({"pools", "names", "basenames", "ids", "sizes", "units", "properties"}),
        options=frozenset({"keep", "cluster"}),
    ),
)

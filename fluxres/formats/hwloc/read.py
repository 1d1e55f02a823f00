"""hwloc topologies as written by `lstopo --of xml` of hwloc 1, 2 and 3: one node and its content.

Reading files needs no library. :mod:`.pools` decides which objects become pools, for this reader and for the one of the
local machine (:mod:`.system`); :mod:`.cluster` combines many nodes into a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fluxres.documents import safe_xml
from fluxres.documents.source import Source
from fluxres.formats.format import Loaded
from fluxres.formats.hwloc.objects import Object, machine_of

__all__ = ["Object", "load", "parse", "read"]


def load(path: Path) -> Object:
    """The machine of a file as a tree of objects; see :func:`parse` for errors."""
    return machine_of(safe_xml.load(path), str(path))


def parse(data: bytes, *, file: str = "<text>") -> Object:
    """The machine of an XML text as a tree of objects.

    Cost O(length). Errors: InputError `FILE:line` for text that is not a topology.

    >>> parse(b'<topology><object type="Machine"><object type="Core" os_index="4"/></object></topology>').children[0].index
    0
    """
    return machine_of(safe_xml.load(data, file=file), file)


def read(source: Source, *, origin: int | None = None, keep: str | Iterable[str] = (), cluster: str | None = None) -> Loaded:
    """The node of a file.

    Args:
        origin: base of the uuids; random by default.
        keep: types to keep (:func:`.hwloc_pools.kept`).
        cluster: name of a cluster to put the node into; without it the node is the root.

    Cost: 15 ms for 512 processing units. Errors: InputError with file and line; UsageError for unknown types.

    >>> text = b'<topology><object type="Machine"><info name="HostName" value="n7"/><object type="Core"/></object></topology>'
    >>> read(Source(text)).structure.path(1)
    '/n7/core0'
    """
    from fluxres.formats.hwloc import cluster as hwloc_cluster

    return hwloc_cluster.read_many([source], origin=origin, keep=keep, cluster=cluster)

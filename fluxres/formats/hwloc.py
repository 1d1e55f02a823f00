"""hwloc topologies as `lstopo --of xml` writes them, of hwloc 1, 2 and 3: one node with what is in it.

No library is needed for files.  What becomes a pool stands in :mod:`.hwloc_pools`, which this reader and the one of this
machine (:mod:`.hwloc_system`) share; many nodes make a cluster in :mod:`.hwloc_cluster`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fluxres.documents import safe_xml
from fluxres.documents.source import Source
from fluxres.formats.hwloc_objects import Object, machine_of
from fluxres.formats.loaded import Loaded

__all__ = ["Object", "load", "parse", "read"]


def load(path: Path) -> Object:
    """The machine of a file as a tree of objects; errors as :func:`parse`."""
    return machine_of(safe_xml.load(path), str(path))


def parse(data: bytes, *, file: str = "<text>") -> Object:
    """The machine of an XML text as a tree of objects.

    Cost O(length). Errors: InputError `FILE:line` for what is no topology.

    >>> parse(b'<topology><object type="Machine"><object type="Core" os_index="4"/></object></topology>').children[0].index
    0
    """
    return machine_of(safe_xml.load(data, file=file), file)


def read(source: Source, *, origin: int | None = None, keep: str | Iterable[str] = (), cluster: str | None = None) -> Loaded:
    """The node of a file.

    Args:
        origin: base of the uuids; random by default.
        keep: types to keep (:func:`.hwloc_pools.kept`).
        cluster: put it into a cluster of this name; the node is the root otherwise.

    Cost: 15 ms for 512 processing units. Errors: InputError with file and line; UsageError for types that there are not.

    >>> text = b'<topology><object type="Machine"><info name="HostName" value="n7"/><object type="Core"/></object></topology>'
    >>> read(Source(text)).structure.path(1)
    '/n7/core0'
    """
    from fluxres.formats import hwloc_cluster

    return hwloc_cluster.read_many([source], origin=origin, keep=keep, cluster=cluster)

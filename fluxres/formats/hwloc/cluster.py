"""Nodes and clusters from hwloc topologies, as `lstopo --of xml` of hwloc 1, 2 and 3 writes them: one file per node.

Nodes of one order differ only in name, addresses, serial numbers and the last few pages of their memory. Each file is split at
its quotes. If everything outside the quotes is as in a file read before, and no value that affects a pool differs, the file is
not parsed again. So ten thousand files cost little more than reading their bytes, and the pools of equal nodes are copied as
columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Int32, Int64
from fluxres.documents import safe_xml
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.formats.format import Loaded
from fluxres.formats.hwloc import pools as hwloc_pools
from fluxres.formats.hwloc.objects import MachineObject, Object, machines_of
from fluxres.formats.hwloc.pools import Keep, Row
from fluxres.formats.losses import Notes
from fluxres.graph.assemble import assemble
from fluxres.graph.kinds import Kind, KindTable
from fluxres.syntax.name import is_name

#: attributes that do not affect any pool
_IGNORED: Final = frozenset({b"gp_index", b"id", b"os_index", b"pci_busid", b"pci_link_speed", b"count", b"size"})
#: keys of <info> that affect a pool; HostName is handled separately
_USED: Final = frozenset(
    b"AssemblerName CPUVendor CPUModel GPUVendor GPUModel Vendor Model PCIVendor PCIDevice Size Type CoProcType Backend"
    b" OpenCLDeviceType CUDAGlobalMemorySize RSMIVRAMSize LevelZeroHBMSize LevelZeroDDRSize OpenCLGlobalMemorySize".split()
)
#: the name of a node if neither its topology nor a file name gives one
NODE: Final = "node0"
_NO_VALUE: Final = -1
_HOST: Final = -2
_VOLUME: Final = -3
_BLOCK: Final = 64
#: number of files whose values are kept for comparison; with more different files than this, comparing does not pay
_REMEMBERED_MAX: Final = 64


@dataclass(slots=True)
class _Shape:
    """The pools of one node as columns, shared by all nodes like it."""

    parent: Int32
    kind: Int32
    id: Int64
    size: Int64
    line: list[int]
    #: the name that the topology gives the node
    host: str
    #: number of objects of a node that were left out, by kind
    left_out: dict[str, int]
    #: its file split at the quotes: every second part is a value
    parts: list[bytes] = field(default_factory=list)
    #: the meaning of each value that may differ: none, the host, a volume, or the row whose size it is; None until needed
    free: dict[int, int] | None = None


class _Node(NamedTuple):
    """One node: its shape, its name, and memory sizes by row where they differ from those of the shape.

    `other` is its name if topologies do not distinguish the nodes.
    """

    shape: int
    host: str
    other: str
    file: str
    line: int
    sizes: dict[int, int]


def read_many(
    sources: Sequence[Source], *, origin: int | None = None, keep: str | Iterable[str] = (), cluster: str | None = None
) -> Loaded:
    """The cluster that files describe, with one node per file or one per machine of an hwloc 1 system; their order determines the
    ranks.

    Args:
        cluster: its name; ``cluster`` by default. A single file without it gives a node without a cluster around it.

    Nodes are named as their topologies say, or after their files if a topology does not say, or if all topologies give the same
    name.

    Cost: 0.5 ms for a file like one read before, 15 ms for a new one of 512 processing units. Errors: InputError with file and
    line, also for a host in two files; UsageError for unknown types.
    """
    nodes = _Nodes(hwloc_pools.kept(keep))
    for source in sources:
        nodes.add(source)
    return nodes.loaded(cluster, origin)


def of_machine(
    machine: Object, file: str, *, keep: str | Iterable[str] = (), cluster: str | None = None, origin: int | None = None
) -> Loaded:
    """The node of a parsed topology; named `NODE` if the topology gives no name."""
    nodes = _Nodes(hwloc_pools.kept(keep))
    nodes.add_machine(MachineObject(machine, {}), file, NODE)
    return nodes.loaded(cluster, origin)


class _Nodes:
    """Collects nodes while their files are read."""

    def __init__(self, keep: Keep) -> None:
        self.keep = keep
        self.kinds = KindTable()
        self.shapes: list[_Shape] = []
        self.nodes: list[_Node] = []
        #: shapes whose files are kept, the most recently used first
        self._known: list[int] = []

    def add(self, source: Source) -> None:
        parts = source.data.split(b'"')
        for place, number in enumerate(self._known):
            node = self._alike(number, parts, source)
            if node is not None:
                self.nodes.append(node)
                self._known.insert(0, self._known.pop(place))
                return
        machines = machines_of(safe_xml.load(source.data, file=source.file), source.file)
        if len(machines) > 1:
            for number, machine in enumerate(machines):
                self.add_machine(machine, source.file, f"{_stem(source)}-{number}")
            return
        self.add_machine(machines[0], source.file, _stem(source))
        # A quote in a comment or in text would shift the positions of the values.
        skeleton = b"".join(parts[::2])
        is_plain = b"<!--" not in skeleton and b"<![" not in skeleton and b"'" not in skeleton
        if is_plain and len(self._known) < _REMEMBERED_MAX:
            self.shapes[-1].parts = parts
            self._known.insert(0, len(self.shapes) - 1)

    def add_machine(self, machine: MachineObject, file: str, other: str) -> None:
        """Add the next node, with a shape of its own.

        Args:
            other: its name if its topology gives none.
        """
        found, left_out = machine.object, dict(machine.left_out)
        said = found.infos.get("HostName") or found.infos.get("AssemblerName", "").removesuffix(".xml")
        rows = hwloc_pools.rows(found, self.keep, file, said or other, left_out)
        self.shapes.append(_shape(rows, self.kinds, said, left_out))
        self.nodes.append(_Node(len(self.shapes) - 1, said or other, other, file, found.line, {}))

    def _alike(self, number: int, parts: list[bytes], source: Source) -> _Node | None:
        """The node of a file that is like one read before; None if there is none like it."""
        shape = self.shapes[number]
        if len(parts) != len(shape.parts):
            return None
        if shape.free is None:
            shape.free = _free(shape.parts, shape, self.kinds)
        host, sizes = "", {}
        for at in _differing(parts, shape.parts):
            role, value = shape.free.get(at), parts[at]
            if role is None or not value.isascii() or b"<" in value or b"&" in value or not value.decode().isprintable():
                return None
            if role == _HOST:
                host = value.decode()
            elif role == _VOLUME:
                if not value.startswith(hwloc_pools.VOLUME.encode()):
                    return None
            elif role != _NO_VALUE:
                if not value.isdigit() or not 0 < int(value[:20]) <= limits.SIZE_MAX:
                    return None
                sizes[role] = int(value[:20])
        other = _stem(source)
        return _Node(number, host or shape.host or other, other, source.file, 0, sizes)

    # -- assembly ------------------------------------------------------------------------------------------------

    def loaded(self, cluster: str | None, origin: int | None) -> Loaded:
        hosts = self._hosts()
        top = 1 if cluster is not None or len(self.nodes) > 1 else 0
        name = (cluster if cluster is not None else "cluster") if top else hosts[0]
        if top and not is_name(name, without="/"):
            raise UsageError(f"expected a name for the cluster, got {name[:40]!r}", hint="a name has no '/'")
        lengths = np.array([len(self.shapes[node.shape].parent) for node in self.nodes], np.int64)
        starts = top + np.cumsum(lengths) - lengths
        total = top + int(lengths.sum())
        if total > limits.POOLS_MAX:
            raise LimitExceeded(f"{total} pools, at most {limits.POOLS_MAX} are allowed", hint="keep fewer types with --keep")
        columns = self._columns(starts, total, top)
        names = self._names(columns, hosts, starts)
        if top:
            columns["kind"][0], columns["parent"][0] = self.kinds.intern(Kind("cluster", name)), -1

        def where(row: int) -> str:
            at = max(int(np.searchsorted(starts, row, "right")) - 1, 0)
            node = self.nodes[at]
            return f"{node.file}:{self.shapes[node.shape].line[max(row - int(starts[at]), 0)]}"

        made = assemble(
            columns["parent"],
            columns["kind"],
            kinds=self.kinds,
            size=columns["size"],
            id=columns["id"],
            names=names,
            origin=origin,
            where=where,
        )
        return Loaded(made.structure, [], name, self._notes())

    def _notes(self) -> tuple[str, ...]:
        notes = Notes()
        for node in self.nodes:
            for what, number in self.shapes[node.shape].left_out.items():
                notes.add(what, node.file, f"left out: {what} ({number})")
        return notes.lines()

    def _hosts(self) -> list[str]:
        hosts = [node.host for node in self.nodes]
        if len({*hosts}) == 1 < len(hosts):
            hosts = [node.other for node in self.nodes]
        first: dict[str, int] = {}
        for at, host in enumerate(hosts):
            if first.setdefault(host, at) != at:
                message = f"host {host!r} is also in {self.nodes[first[host]].file}"
                hint = "give the file of each node once, and each machine its own HostName"
                raise InputError(message, where=self.nodes[at].file, hint=hint)
        return hosts

    def _columns(self, starts: Int64, total: int, top: int) -> dict[str, NDArray[Any]]:
        columns: dict[str, NDArray[Any]] = {
            "parent": np.empty(total, np.int32),
            "kind": np.empty(total, np.int32),
            "id": np.full(total, -1, np.int64),
            "size": np.ones(total, np.int64),
        }
        of = np.array([node.shape for node in self.nodes], np.int64)
        for number, shape in enumerate(self.shapes):
            begins = starts[of == number]
            at = (begins[:, None] + np.arange(len(shape.parent))[None, :]).ravel()
            columns["parent"][at] = (begins[:, None] + shape.parent[None, :]).ravel()
            for key in ("kind", "id", "size"):
                columns[key][at] = np.tile(getattr(shape, key), len(begins))
        columns["parent"][starts] = 0 if top else -1
        for node, begin in zip(self.nodes, starts.tolist(), strict=True):
            for row, size in node.sizes.items():
                columns["size"][begin + row] = size
        return columns

    def _names(self, columns: dict[str, NDArray[Any]], hosts: list[str], starts: Int64) -> dict[int, str]:
        """Explicit names by row, for those that do not follow from basename and id; also sets the nodes' kinds and ids in the
        columns.
        """
        names: dict[int, str] = {}
        for node, host, begin in zip(self.nodes, hosts, starts.tolist(), strict=True):
            row = hwloc_pools.node_row(host, f"{node.file}:{node.line}" if node.line else node.file)
            columns["kind"][begin], columns["id"][begin] = self.kinds.intern(row.kind), row.id
            if row.name is not None:
                names[begin] = row.name
        return names


def _differing(parts: list[bytes], known: list[bytes]) -> Iterator[int]:
    """The positions at which two lists of equal length differ."""
    # Comparing slices avoids an interpreter step for each part, and most slices are equal.
    for low in range(0, len(parts), _BLOCK):
        if parts[low : low + _BLOCK] != known[low : low + _BLOCK]:
            yield from (at for at in range(low, min(low + _BLOCK, len(parts))) if parts[at] != known[at])


def _stem(source: Source) -> str:
    """The name of a file up to its first dot."""
    name = PurePath(source.file).name.partition(".")[0]
    return name if source.path is not None and name else NODE


def _shape(rows: list[Row], kinds: KindTable, host: str, left_out: dict[str, int]) -> _Shape:
    # Many rows share one Kind object, so look at each object once.
    known: dict[int, int] = {}
    numbers = []
    for row in rows:
        number = known.get(id(row.kind))
        if number is None:
            number = known[id(row.kind)] = kinds.intern(row.kind)
        numbers.append(number)
    return _Shape(
        np.array([row.parent for row in rows], np.int32),
        np.array(numbers, np.int32),
        np.array([row.id for row in rows], np.int64),
        np.array([row.size for row in rows], np.int64),
        [row.line for row in rows],
        host,
        left_out,
    )


def _free(parts: list[bytes], shape: _Shape, kinds: KindTable) -> dict[int, int]:
    """Which values may differ between nodes of a shape, and their meaning."""
    rows = [row for row, number in enumerate(shape.kind.tolist()) if kinds[number].type in ("memory", "gpumemory")]
    by_line = {shape.line[row]: row for row in rows}
    free: dict[int, int] = {}
    sizes: dict[int, int] = {}
    hosts: list[int] = []
    info, line = b"", 1
    for at in range(1, len(parts), 2):
        before, value = parts[at - 1], parts[at]
        line += before.count(b"\n") + (parts[at - 2].count(b"\n") if at > 1 else 0)
        key = before[before.rfind(b" ") + 1 : -1] if before.endswith(b"=") else b""
        if key == b"name":
            # An attribute of an info, or the name of an object, which may become a property or name of its pool.
            info = value if before.endswith(b"<info name=") else b""
        elif key == b"value":
            if info == b"HostName":
                if value == shape.host.encode():
                    hosts.append(at)
            elif info == b"Model" and value.startswith(hwloc_pools.VOLUME.encode()):
                free[at] = _VOLUME
            elif info and info not in _USED:
                free[at] = _NO_VALUE
        elif key in _IGNORED:
            free[at] = _NO_VALUE
        elif key == b"local_memory" and line in by_line:
            sizes[at] = by_line[line]
    if len(hosts) == 1:
        free[hosts[0]] = _HOST
    # A line identifies the pool of a size only if each size is on a line of its own.
    return free | sizes if len(sizes) == len({*sizes.values()}) == len(by_line) == len(rows) else free


def parse(source: Path | bytes, *, file: str | None = None) -> Object:
    """The machine of an XML file or text that describes one, as a tree of objects.

    Cost O(length). Errors: InputError `FILE:line` for text that is not a topology, or has several machines.

    >>> parse(b'<topology><object type="Machine"><object type="Core" os_index="4"/></object></topology>').children[0].index
    0
    """
    file = file if file is not None else str(source) if isinstance(source, Path) else "<text>"
    root = safe_xml.load(source, file=file)
    found = machines_of(root, file)
    if len(found) > 1:
        hint = "it describes a cluster, not a node"
        raise InputError(f"expected one machine, got {len(found)}", where=f"{file}:{root.line}", hint=hint)
    return found[0].object


def read(source: Source, *, origin: int | None = None, keep: str | Iterable[str] = (), cluster: str | None = None) -> Loaded:
    """The node of a file; see :func:`read_many`.

    >>> text = b'<topology><object type="Machine"><info name="HostName" value="n7"/><object type="Core"/></object></topology>'
    >>> read(Source(text)).structure.path(1)
    '/n7/core0'
    """
    return read_many([source], origin=origin, keep=keep, cluster=cluster)

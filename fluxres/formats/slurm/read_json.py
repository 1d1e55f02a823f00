"""Slurm's nodes in JSON: `scontrol show nodes --json` lists single nodes, `sinfo --json` groups of equal nodes.

Both give the names of the partitions of nodes but no details, and both give the resources and the current state of nodes.

Slurm's REST data has a hundred fields per node and changes between versions; other keys are ignored. A number is plain in older
versions, and an object with a flag `set` in newer ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from fluxres import limits
from fluxres.documents import typed
from fluxres.documents.document import Document, Place
from fluxres.documents.source import Source
from fluxres.errors import ErrorPlace, InputError, LimitExceeded
from fluxres.formats.format import Loaded
from fluxres.formats.slurm import gres as slurm_gres
from fluxres.formats.slurm.gres import Gres
from fluxres.formats.slurm.lines import Line, Room
from fluxres.formats.slurm.site import Hardware, Partition, Site, SiteNode, state_of


class Number(Struct):
    """A number that may be unset or infinite."""

    set: bool = True
    infinite: bool = False
    number: Annotated[int, Meta(le=limits.SIZE_MAX)] | Annotated[float, Meta(le=2.0**53)] = 0


Count = Annotated[int, Meta(ge=0, le=limits.SIZE_MAX)] | Number
Words = str | list[str]


class Node(Struct):
    """One node, as in `scontrol show nodes --json` (and in `sinfo --json` before Slurm 23.02)."""

    name: Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
    boards: Count = 1
    sockets: Count = 0
    cores: Count = 0
    threads: Count = 1
    cpus: Count = 0
    real_memory: Count = 0
    temporary_disk: Count = 0
    weight: Count = 1
    features: Words = ""
    gres: str = ""
    state: Words = "idle"
    state_flags: list[str] = []
    partitions: list[str] = []
    reason: str = ""
    architecture: str | None = None
    cluster_name: str | None = None


class Names(Struct):
    """Names of nodes, as hostlists."""

    nodes: Words = ""


class States(Struct):
    """The states of the nodes of a record."""

    state: Words = "idle"


class Span(Struct):
    """The minimum and the maximum over the nodes of a record."""

    minimum: Count = 0
    maximum: Count = 0


class Total(Struct):
    """Text about all units, and text about those in use."""

    total: str = ""


class PartitionName(Struct):
    """The partition of a record."""

    name: str = ""


class Reason(Struct):
    """The reason for the state of nodes."""

    description: str = ""


class Record(Struct):
    """Equal nodes of one partition, a line of `sinfo`."""

    nodes: Names
    node: States = msgspec.field(default_factory=States)
    cpus: Span = msgspec.field(default_factory=Span)
    sockets: Span = msgspec.field(default_factory=Span)
    cores: Span = msgspec.field(default_factory=Span)
    threads: Span = msgspec.field(default_factory=Span)
    memory: Span = msgspec.field(default_factory=Span)
    disk: Span = msgspec.field(default_factory=Span)
    weight: Span = msgspec.field(default_factory=Span)
    features: Total = msgspec.field(default_factory=Total)
    gres: Total = msgspec.field(default_factory=Total)
    partition: PartitionName = msgspec.field(default_factory=PartitionName)
    reason: Reason | str = ""
    cluster: str = ""


class Release(Struct):
    """The Slurm release."""

    cluster: str | None = None


class About(Struct):
    """Metadata of the output."""

    slurm: Release = msgspec.field(default_factory=Release)


class Answer(Struct):
    """The output of either command."""

    nodes: list[Node] | None = None
    sinfo: list[Record] | None = None
    meta: About = msgspec.field(default_factory=About)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the output, as in ``specs/slurm.schema.json``."""
    return typed.json_schema(Answer)


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine in the output of sinfo or scontrol.

    Errors: InputError `FILE:line:column: path`; LimitExceeded. Cost: O(nodes) Python, O(pools) array writes.

    >>> text = b'{"nodes": [{"name": "n1", "sockets": 2, "cores": 8, "cpus": 16, "real_memory": 1024, "state": ["IDLE"]}]}'
    >>> read(Source(text)).structure.path(3)
    '/cluster/n1/socket0/core0'
    """
    document = source.document
    answer = typed.convert(document, Answer)
    site = Site(source.file)
    site.name = answer.meta.slurm.cluster or site.name
    members: dict[str, dict[str, None]] = {}
    if answer.nodes is not None:
        for i, node in enumerate(answer.nodes):
            _node(site, node, Place(("nodes", i), document), members)
    else:
        _records(site, answer.sinfo or [], document, members)
    site.partitions = [Partition(name, list(hosts), where=source.file) for name, hosts in members.items() if name]
    return site.loaded(origin)


def _whole(value: Count) -> int:
    if not isinstance(value, Number):
        return value
    return int(value.number) if value.set and not value.infinite and value.number >= 0 else 0


def _most(span: Span) -> int:
    return _whole(span.maximum)


def _words(value: Words) -> list[str]:
    return value.replace("+", ",").split(",") if isinstance(value, str) else list(value)


def _node(site: Site, node: Node, place: Place, members: dict[str, dict[str, None]]) -> None:
    cores = _whole(node.cores)
    hardware = Hardware(
        max(_whole(node.boards), 1),
        _whole(node.sockets) if cores else 0,
        max(cores, 1),
        max(_whole(node.threads), 1),
        _whole(node.cpus),
        _whole(node.real_memory),
        _whole(node.temporary_disk),
        _gres(node.gres, place, "gres"),
        tuple(word for word in _words(node.features) if word),
        _kept(_whole(node.weight), node.architecture),
    )
    state = state_of([*_words(node.state), *node.state_flags])
    site.nodes.append(SiteNode(node.name, hardware, state, node.reason, site.file))
    site.name = node.cluster_name or site.name
    for name in node.partitions:
        members.setdefault(name, {})[node.name] = None


def _gres(text: str, place: Place, key: str) -> tuple[Gres, ...]:
    if not text:
        return ()
    with ErrorPlace(lambda: f"{place}.{key}"):
        return slurm_gres.parse(text, Line("", {}))


def _kept(weight: int, architecture: str | None = None) -> tuple[tuple[str, str], ...]:
    found = (("weight", str(weight) if weight not in (0, 1) else ""), ("arch", architecture or ""))
    return tuple((key, value) for key, value in found if value)


def _records(site: Site, records: Iterable[Record], document: Document, members: dict[str, dict[str, None]]) -> None:
    seen: dict[str, int] = {}
    room = Room()
    for i, record in enumerate(records):
        place = Place(("sinfo", i), document)
        hosts = _hosts(record, place, room)
        hardware = _alike(record, place)
        reason = record.reason if isinstance(record.reason, str) else record.reason.description
        site.name = record.cluster or site.name
        for host in hosts:
            if seen.setdefault(host, len(seen)) == len(site.nodes):
                site.nodes.append(SiteNode(host, hardware, state_of(_words(record.node.state)), reason, site.file))
            members.setdefault(record.partition.name, {})[host] = None
        if len(seen) > limits.SLURM_NODES_MAX:
            raise LimitExceeded(f"{len(seen)} nodes, at most {limits.SLURM_NODES_MAX} are allowed", where=str(place))


def _hosts(record: Record, place: Place, room: Room) -> list[str]:
    names = record.nodes.nodes
    line = Line("", {"nodes": names if isinstance(names, str) else ",".join(names)}, room)
    with ErrorPlace(lambda: f"{place}.nodes.nodes"):
        return line.hosts("nodes")


def _alike(record: Record, place: Place) -> Hardware:
    for name, span in (("cpus", record.cpus), ("sockets", record.sockets), ("cores", record.cores), ("memory", record.memory)):
        if _whole(span.minimum) != _most(span) and _whole(span.minimum):
            hint = "use 'sinfo --Node --json' or 'scontrol show nodes --json'"
            raise InputError(f"nodes of {_whole(span.minimum)} to {_most(span)}", where=f"{place}.{name}", hint=hint)
    cores = _most(record.cores)
    return Hardware(
        1,
        _most(record.sockets) if cores else 0,
        max(cores, 1),
        max(_most(record.threads), 1),
        _most(record.cpus),
        _most(record.memory),
        _most(record.disk),
        _gres(record.gres.total, place, "gres.total"),
        tuple(word for word in _words(record.features.total) if word and word != "(null)"),
        _kept(_most(record.weight)),
    )

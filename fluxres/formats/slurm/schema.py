"""The typed documents of `sinfo --json` and `scontrol show nodes --json`, as far as they describe resources.

Slurm's REST data has a hundred fields per node and changes between versions; other keys are ignored. A number is plain in older
versions, and an object with a flag `set` in newer ones.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from fluxres import limits


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
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Answer)}

"""JGF as a typed document: the nodes and edges of Flux RFC 40, with the additional keys that Fluxion and fluxres write.

Every key that a node may leave out is UNSET by default, since its default depends on the rest of the node. There are two types of
a node and of an edge: a plain one that covers nearly every node of nearly every file and takes half the memory, and the complete
one. Unknown keys are ignored, as in Fluxion, and a note lists them (:func:`fluxres.documents.json_typed.unknown_keys`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits
from fluxres.documents import typed

Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Value = Annotated[str, Meta(max_length=limits.VALUE_LENGTH_MAX)]
Unit = Annotated[str, Meta(max_length=limits.NAME_LENGTH_MAX)]
Label = Annotated[str, Meta(max_length=limits.NAME_LENGTH_MAX)]
Path = Annotated[str, Meta(min_length=2, description="From the root: /cluster0/rack0/node3.")]
Number = Annotated[int, Meta(ge=-1, le=limits.ID_MAX)]
Units = Annotated[int, Meta(ge=0, le=limits.SIZE_MAX)]
Rank = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
State = Literal["up", "down", "drain", "degraded", "failing", "unknown", "null", "inactive"]


class PlainPaths(Struct, gc=False, forbid_unknown_fields=True):
    """The path of a pool that is only in containment."""

    containment: Path


class PlainMetadata(Struct, gc=False, forbid_unknown_fields=True):
    """What Fluxion writes about a pool that is only in containment or leads to what a job holds."""

    type: Word
    paths: PlainPaths
    uuid: Word | UnsetType = UNSET
    basename: Word | UnsetType = UNSET
    name: Word | UnsetType = UNSET
    id: Number | UnsetType = UNSET
    uniq_id: Number | UnsetType = UNSET
    rank: Rank | UnsetType = UNSET
    exclusive: bool | UnsetType = UNSET
    status: Literal[0, 1] | UnsetType = UNSET
    unit: Unit | UnsetType = UNSET
    size: Units | UnsetType = UNSET
    properties: dict[Word, Value | int | float | bool | None] | UnsetType = UNSET
    way: bool | UnsetType = UNSET


class PlainNode(Struct, gc=False, forbid_unknown_fields=True):
    """A pool that is only in containment."""

    id: Word
    metadata: PlainMetadata


class Metadata(Struct, gc=False):
    """The attributes of a pool."""

    type: Annotated[Word, Meta(description="Resource type.")]
    paths: Annotated[dict[Word, Path], Meta(description="By subsystem; a path of one step makes the pool its root.")]
    uuid: Word | UnsetType = UNSET
    basename: Annotated[Word | UnsetType, Meta(description="First part of the default name. Default: the type.")] = UNSET
    name: Annotated[Word | UnsetType, Meta(description="Default: basename and id.")] = UNSET
    id: Annotated[
        Number | UnsetType,
        Meta(description="Default: the number in the path, the number at the end of a node's name, or uniq_id."),
    ] = UNSET
    uniq_id: Annotated[Number | UnsetType, Meta(description="Default: the key of the node, if it is a number.")] = UNSET
    rank: Annotated[Rank | UnsetType, Meta(description="Execution target. Default: that of the parent.")] = UNSET
    exclusive: Annotated[
        bool | UnsetType,
        Meta(description="In R: whether the job holds it exclusively. In a file: whether it may only be allocated exclusively."),
    ] = UNSET
    status: Annotated[Literal[0, 1] | UnsetType, Meta(description="0 up, 1 down.")] = UNSET
    unit: Unit | UnsetType = UNSET
    size: Annotated[Units | UnsetType, Meta(description="Units of the pool. Default: 1.")] = UNSET
    properties: dict[Word, Value | int | float | bool | None] | UnsetType = UNSET
    agfilter: Annotated[Any, Meta(description="Totals of Fluxion's planner, which follow from the pools below.")] = UNSET
    ephemeral: Annotated[dict[Word, Value] | UnsetType, Meta(description="Temporary properties; they become tags.")] = UNSET
    state: Annotated[State | UnsetType, Meta(description="State that status cannot express. Written by fluxres.")] = UNSET
    tags: Annotated[dict[Word, Value | None] | UnsetType, Meta(description="Written by fluxres.")] = UNSET
    capacity: Annotated[Units | UnsetType, Meta(description="Full size of a pool that a copy reduced. Written by fluxres.")] = (
        UNSET
    )
    whole: Annotated[bool | UnsetType, Meta(description="Whether it may only be allocated exclusively. Written by fluxres.")] = (
        UNSET
    )
    way: Annotated[
        bool | UnsetType, Meta(description="Whether it only connects the root with copied pools. Written by fluxres.")
    ] = UNSET
    unranked: Annotated[
        bool | UnsetType, Meta(description="Has no rank although it is below a pool with one. Written by fluxres.")
    ] = UNSET
    within: Annotated[
        Word | UnsetType, Meta(description="Key of the parent of a pool outside containment. Written by fluxres.")
    ] = UNSET
    hosts: Annotated[
        str | UnsetType,
        Meta(description="In R: the nodes below it that the shorthand leaves out, as a hostlist. Written by fluxres."),
    ] = UNSET
    children: Annotated[
        dict[Word, str] | UnsetType,
        Meta(description="In R: the ids by type below it that the shorthand leaves out, as in R_lite. Written by fluxres."),
    ] = UNSET


class Node(Struct, gc=False):
    id: Annotated[Word, Meta(description="Key of the node in this document.")]
    metadata: Metadata
    label: Annotated[Value | UnsetType | None, Meta(description="Becomes a tag if it is not the name.")] = UNSET


class PlainEdgeMetadata(Struct, gc=False, forbid_unknown_fields=True):
    """The subsystem of an edge, as Fluxion and fluxres write it."""

    subsystem: Word | UnsetType = UNSET
    relationship: Word | UnsetType = UNSET
    attributes: dict[Word, Value | int | float | bool | None] | UnsetType = UNSET


class PlainEdge(Struct, gc=False, forbid_unknown_fields=True):
    """An edge as Fluxion and fluxres write it."""

    source: Word
    target: Word
    metadata: PlainEdgeMetadata | UnsetType | None = UNSET


class EdgeMetadata(Struct, gc=False):
    """The subsystem of an edge."""

    subsystem: Annotated[Word | UnsetType, Meta(description="Default: containment.")] = UNSET
    relationship: Annotated[Word | UnsetType, Meta(description="Default: the relation of the edge, or link.")] = UNSET
    attributes: Annotated[dict[Word, Value | int | float | bool | None] | UnsetType, Meta(description="Written by fluxres.")] = (
        UNSET
    )
    name: Annotated[Any, Meta(description="Older form: the relationship by subsystem.")] = UNSET


class Edge(Struct, gc=False):
    """An edge between the keys of two nodes."""

    source: Word
    target: Word
    metadata: EdgeMetadata | UnsetType | None = UNSET
    directed: Annotated[bool | UnsetType, Meta(description="Default: that of the graph.")] = UNSET
    relation: Annotated[Label | UnsetType | None, Meta(description="The relationship, if the metadata have none.")] = UNSET
    label: Annotated[Value | UnsetType | None, Meta(description="An attribute of an edge of a subsystem.")] = UNSET
    id: Annotated[Value | int | UnsetType | None, Meta(description="An attribute of an edge of a subsystem.")] = UNSET


class Auxiliary(Struct):
    """Auxiliary graphs that Fluxion would refuse, and pools that only they contain. Written by fluxres."""

    nodes: list[Node] | UnsetType = UNSET
    edges: list[Edge] | UnsetType = UNSET


Uuids = list[tuple[Word, Annotated[int, Meta(ge=1)]]]


class GraphMetadata(Struct):
    """What fluxres stores about all nodes together, and what Fluxion must not see."""

    uuids: Annotated[
        Uuids | UnsetType,
        Meta(description="Uuids of all nodes in order, as runs that count up: the first uuid and the number of uuids."),
    ] = UNSET
    graphs: Annotated[
        dict[Word, bool] | UnsetType,
        Meta(description="Subsystems in order, with or without edges, and whether they are hierarchies."),
    ] = UNSET
    auxiliary: Auxiliary | UnsetType = UNSET


class Graph(Struct):
    """The nodes and edges of all subsystems."""

    nodes: Annotated[list[Node], Meta(min_length=1)]
    edges: list[Edge] | UnsetType = UNSET
    directed: Annotated[
        bool | UnsetType, Meta(description="Whether edges are directed from source to target. Default: true.")
    ] = UNSET
    label: Annotated[Label | UnsetType | None, Meta(description="Name of the machine. Default: that of the root.")] = UNSET
    id: Annotated[Value | UnsetType | None, Meta(description="Becomes a tag of the root.")] = UNSET
    type: Annotated[Value | UnsetType | None, Meta(description="Becomes a tag of the root.")] = UNSET
    metadata: GraphMetadata | UnsetType | None = UNSET


class Jgf(Struct):
    """A file of JSON Graph Format (Flux RFC 40)."""

    graph: Graph
    writer: Annotated[str | UnsetType, Meta(description="fluxion:jgf or fluxion:jgf_shorthand.")] = UNSET
    free_ranks: Annotated[str | UnsetType, Meta(description="Ranks released since; they become a tag of the root.")] = UNSET


class RawAuxiliary(Struct):
    """As `Auxiliary`, but nodes and edges are decoded one at a time."""

    nodes: msgspec.Raw | UnsetType = UNSET
    edges: msgspec.Raw | UnsetType = UNSET


class RawGraphMetadata(Struct):
    uuids: Uuids | UnsetType = UNSET
    graphs: dict[Word, bool] | UnsetType = UNSET
    auxiliary: RawAuxiliary | UnsetType = UNSET


class RawGraph(Struct):
    """A graph whose nodes and edges are decoded one at a time."""

    nodes: msgspec.Raw
    edges: msgspec.Raw | UnsetType = UNSET
    directed: bool | UnsetType = UNSET
    label: Label | UnsetType | None = UNSET
    id: Value | UnsetType | None = UNSET
    type: Value | UnsetType | None = UNSET
    metadata: RawGraphMetadata | UnsetType | None = UNSET


class RawJgf(Struct):
    """A file whose nodes and edges are decoded one at a time."""

    graph: RawGraph
    writer: str | UnsetType = UNSET
    free_ranks: str | UnsetType = UNSET


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a JGF file, as in ``specs/schemas/jgf.schema.json``."""
    return typed.json_schema(Jgf, title="JSON Graph Format")

"""Node-link JSON as written by networkx, as a typed document: the attributes of pools and edges.

The keys are the attributes of fluxres' networkx views, with two exceptions. The numeric id is ``number``, because ``id`` is the
key of the node. ``exclusive``, as in all formats, is ``exclusive_only`` in a view, where ``exclusive`` would mean a pool that is
held exclusively; both keys are read.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits

Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Text = Annotated[str, Meta(max_length=limits.VALUE_LENGTH_MAX)]
Key = Annotated[int, Meta(ge=-(2**62), le=2**62)] | Annotated[str, Meta(max_length=limits.VALUE_LENGTH_MAX)]
Value = Text | int | float | bool | None
Units = Annotated[int, Meta(ge=0, le=limits.SIZE_MAX)]


State = Literal["up", "down", "drain", "degraded", "failing", "unknown", "null"]


class Node(Struct, gc=False, forbid_unknown_fields=True):
    """A pool."""

    id: Key
    type: Word
    name: Word | UnsetType | None = UNSET
    basename: Word | UnsetType | None = UNSET
    number: Annotated[int, Meta(ge=0, le=limits.ID_MAX)] | UnsetType | None = UNSET
    size: Units | UnsetType | None = UNSET
    unit: Word | UnsetType | None = UNSET
    rank: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType | None = UNSET
    state: State | UnsetType | None = UNSET
    exclusive: bool | UnsetType | None = UNSET
    exclusive_only: bool | UnsetType | None = UNSET
    uuid: Word | UnsetType | None = UNSET
    path: str | UnsetType | None = UNSET
    properties: dict[Word, Value] | UnsetType | None = UNSET
    tags: dict[Word, Text | None] | UnsetType | None = UNSET
    capacity: Units | UnsetType | None = UNSET
    way: bool | UnsetType | None = UNSET


class PlainEdge(Struct, gc=False, forbid_unknown_fields=True):
    """An edge with only the attributes that nearly all edges have: it takes a third of the memory of a dictionary."""

    source: Key
    target: Key
    subsystem: Word | UnsetType = UNSET
    type: Word | UnsetType = UNSET
    capacity: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    key: Any = UNSET


class Held(Struct, forbid_unknown_fields=True):
    """What a job holds: (key of a node or name of an edge, units); and what it draws for which node, starting with that node."""

    job: Annotated[str, Meta(min_length=1, max_length=limits.JOB_ID_LENGTH_MAX)]
    start: float
    end: float | None
    pools: list[tuple[Key, Annotated[int, Meta(ge=1, le=limits.SIZE_MAX)]]]
    slots: Annotated[int, Meta(ge=0, le=limits.COUNT_MAX)] = 0
    drawn: list[tuple[Key, Key, Annotated[int, Meta(ge=0, le=limits.SIZE_MAX)]]] = []


class About(Struct, forbid_unknown_fields=True):
    """The attributes of the graph: its name, its auxiliary graphs and whether they are hierarchies, its allocations."""

    name: Word | None = None
    subsystems: dict[Word, bool] | UnsetType = UNSET
    allocations: list[Held] = []


class NodeLink(Struct, kw_only=True, forbid_unknown_fields=True):
    """A graph; networkx before 3.6 calls edges links."""

    nodes: Annotated[list[Node], Meta(min_length=1)]
    edges: list[dict[str, Any]] | UnsetType = UNSET
    links: list[dict[str, Any]] | UnsetType = UNSET
    directed: Literal[True] | UnsetType = UNSET
    multigraph: bool | UnsetType = UNSET
    graph: About | UnsetType = UNSET


class RawNodeLink(Struct, kw_only=True, forbid_unknown_fields=True):
    """A graph whose parts are decoded one at a time, each in the type that takes the least memory."""

    nodes: Annotated[list[Node], Meta(min_length=1)]
    edges: msgspec.Raw | UnsetType = UNSET
    links: msgspec.Raw | UnsetType = UNSET
    directed: Literal[True] | UnsetType = UNSET
    multigraph: bool | UnsetType = UNSET
    graph: msgspec.Raw | UnsetType = UNSET


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a graph, as in ``specs/node-link.schema.json``."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(NodeLink)}

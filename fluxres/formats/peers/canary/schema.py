"""canary's resource pool as a typed document: the common parts of its three forms."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from fluxres import limits

Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Identity = Annotated[str, Meta(max_length=limits.VALUE_LENGTH_MAX)] | int
Slots = Annotated[int, Meta(ge=0, le=limits.SIZE_MAX)] | Annotated[float, Meta(ge=0, le=float(1 << 53))]


class Instance(Struct, forbid_unknown_fields=True):
    """One instance of a type."""

    id: Annotated[Identity, Meta(description="Its name on its node; a number is read as text.")]
    slots: Annotated[Slots, Meta(description="Number of slots, with up to four decimals. Default: 1.")] = 1
    properties: Annotated[dict[str, Any], Meta(description="Its properties, such as vendor and uuid.")] = {}


Types = dict[str, list[Instance]]


class Node(Struct, forbid_unknown_fields=True):
    id: Annotated[Identity, Meta(description="Its name, unique among the nodes.")]
    resources: Types = {}
    additional_properties: dict[str, Any] = {}


class Nodes(Struct, forbid_unknown_fields=True):
    """The current form: nodes and the instances on each."""

    nodes: list[Node]
    allow_multinode: bool | None = None
    additional_properties: dict[str, Any] = {}


class Flat(Struct, forbid_unknown_fields=True):
    """The older form: one node, whose instances are listed."""

    resources: Types
    allow_multinode: bool | None = None
    additional_properties: dict[str, Any] = {}


class Local(Struct, forbid_unknown_fields=True):
    """The older form with the key that CTest uses."""

    local: Types
    allow_multinode: bool | None = None
    additional_properties: dict[str, Any] = {}


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a resource pool, as in ``specs/schemas/canary.schema.json``.

    >>> json_schema()["title"]
    'canary resource pool'
    """
    count = {"type": "integer", "minimum": 0}
    (nodes, flat, local), definitions = msgspec.json.schema_components([Nodes, Flat, Local], ref_template="#/$defs/{name}")
    counts = {"type": "object", "additionalProperties": count, "minProperties": 1}
    pool = {"anyOf": [nodes, flat, local, counts]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "canary resource pool",
        "anyOf": [pool, {"type": "object", "properties": {"resource_pool": pool}, "required": ["resource_pool"]}],
        "$defs": definitions,
    }

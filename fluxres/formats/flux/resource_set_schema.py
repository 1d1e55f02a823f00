"""R version 1 (RFC 20), TreePool (RFC 49) and Fluxion's graph (RFC 40) in it, as typed documents."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits
from fluxres.formats.flux.jgf_schema import Jgf, Word

NSLOTS: Final = "R.nslots"
STARTTIME: Final = "R.starttime"
EXPIRATION: Final = "R.expiration"
SCHEDULING: Final = "R.scheduling"
ATTRIBUTES: Final = "R.attributes"
TAGS: Final = (NSLOTS, STARTTIME, EXPIRATION, SCHEDULING, ATTRIBUTES)
"""Tags of the root with the parts of R that do not describe a machine."""

Ids = Annotated[str | int, Meta(description="An idset (RFC 22): 0-3,7.")]
Time = Annotated[float, Meta(ge=0, le=limits.TIME_MAX_S, description="Seconds since 1970; 0 means unset.")]


class Entry(Struct):
    """The content of each of some ranks."""

    rank: Ids
    children: Annotated[dict[Word, Ids], Meta(description="Ids by type, logical and per node.")]
    node: Annotated[Any, Meta(description="Older form: the hosts of these ranks, if there is no nodelist.")] = UNSET


class Execution(Struct):
    """Ranks, their content, hosts and properties."""

    R_lite: list[Entry]
    nodelist: Annotated[
        list[str] | UnsetType,
        Meta(description="Hostlists (RFC 29); hosts of the ranks in ascending order. Default: node and the rank."),
    ] = UNSET
    nslots: Annotated[int, Meta(ge=1, le=limits.COUNT_MAX)] | UnsetType = UNSET
    properties: Annotated[dict[Word, str] | UnsetType, Meta(description="Ranks by property.")] = UNSET
    starttime: Time | UnsetType = UNSET
    expiration: Time | UnsetType = UNSET


class Storage(Struct, forbid_unknown_fields=True):
    """A file system of a node."""

    path: Word
    capacity: Annotated[int, Meta(ge=1, le=limits.SIZE_MAX)]
    unit: Word = "GiB"


class TreePoolEntry(Struct, forbid_unknown_fields=True):
    """The topology of each of some ranks."""

    ranks: Ids
    topo: Annotated[
        dict[Word, Any],
        Meta(
            description="cores and gpus (idsets), memory (GiB), storage, and lists of nested domains by the name of their level."
        ),
    ]


class TreePool(Struct, forbid_unknown_fields=True):
    """Topologies of nodes for flux-core's TreePool."""

    writer: Literal["TreePool"]
    children: Annotated[list[TreePoolEntry], Meta(min_length=1)]


class ResourceSet(Struct):
    """A resource set, R version 1 (Flux RFC 20).

    `scheduling` may be anything; a graph (RFC 40) and topologies (RFC 49) are interpreted. Unknown keys are ignored, as in
    flux-core, and a note lists them.
    """

    version: Literal[1]
    execution: Execution
    scheduling: Annotated[Any, Meta(description="JGF, TreePool, or data of another scheduler.")] = UNSET
    attributes: Annotated[Any, Meta(description="Kept unchanged.")] = UNSET


class RawResourceSet(Struct):
    """A resource set whose parts are decoded one at a time."""

    version: Literal[1]
    execution: msgspec.Raw
    scheduling: msgspec.Raw | UnsetType = UNSET
    attributes: msgspec.Raw | UnsetType = UNSET


class WithGraph(ResourceSet):
    """A resource set that carries a graph."""

    scheduling: Jgf


class WithTopology(ResourceSet):
    """A resource set that carries topologies."""

    scheduling: TreePool


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a resource set, as in ``specs/schemas/resource-set.schema.json``."""
    kinds = (ResourceSet, Jgf, TreePool)
    (schema, graph, pool), definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    definitions["ResourceSet"]["properties"]["scheduling"]["anyOf"] = [graph, pool, {}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "resource set, R version 1",
        **schema,
        "$defs": definitions,
    }

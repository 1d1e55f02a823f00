"""The typed documents of ``cluster.yaml``, from which its JSON Schema is generated.

One definition serves the reader, editors (``specs/cluster.schema.json``) and messages. Missing keys are ``UNSET`` and have no
default here, because an entry that uses a part overrides exactly the keys it has.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits
from fluxres.documents import typed

Count = Annotated[
    int, Meta(ge=1, description="Number of these pools in each parent. Default: the number of ids or names given, else 1.")
]
Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
State = Literal["up", "down", "drain", "degraded", "failing", "unknown", "null", "inactive"]
Properties = dict[str, str | int | float | bool | None] | list[str]
Tags = dict[str, str | None] | list[str]
IdList = Annotated[list[int | str], Meta(min_length=1)]


class IdStart(Struct, forbid_unknown_fields=True):
    """Ids that count up from a start and start over in each pool of an enclosing type."""

    start: Annotated[int, Meta(ge=0, le=limits.ID_MAX, description="The first id. Default: 0.")] = 0
    within: Annotated[
        Word | UnsetType,
        Meta(
            description="Type of the enclosing pool in which the ids run on; the parent by default.", examples=["node", "cluster"]
        ),
    ] = UNSET


class Resource(Struct, forbid_unknown_fields=True):
    """One entry of the containment tree: a pool, how many of it each parent has, and its children."""

    worded: ClassVar[dict[str, str]] = {"size": "a whole number of at least 1 or text such as '192GiB'"}
    also_called: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("children", "contains", "content", "resources", "pools", "has", "nodes"), "with"),
        **dict.fromkeys(("number", "quantity", "num", "n", "instances"), "count"),
        **dict.fromkeys(("hostlist", "hostnames", "nodelist", "nodename", "host"), "hosts"),
        **dict.fromkeys(("part", "template", "include"), "use"),
        **dict.fromkeys(("features", "labels", "constraints"), "properties"),
        **dict.fromkeys(("ids", "index"), "id"),
        **dict.fromkeys(("amount", "units", "total"), "size"),
        **dict.fromkeys(("kind", "resource"), "type"),
        "status": "state",
        "ranks": "rank",
    }

    use: Annotated[
        Word | UnsetType, Meta(description="Name of a part; the other keys of this entry override those of the part.")
    ] = UNSET
    type: Annotated[Word | UnsetType, Meta(description="Resource type.", examples=["node", "core", "gpu", "memory"])] = UNSET
    count: Count | UnsetType = UNSET
    basename: Annotated[Word | UnsetType, Meta(description="First part of the default name. Default: the type.")] = UNSET
    name: Annotated[
        Word | UnsetType,
        Meta(
            description="Name, or a template: ${id}, ${id:05}, ${type}, a property, or the type of an enclosing pool for its id. "
            "Default: basename and id.",
            examples=["login", "node-${rack}-${id}"],
        ),
    ] = UNSET
    hosts: Annotated[
        str | UnsetType, Meta(description="Names as a hostlist. The numbers become the ids.", examples=["tioga[10-17]"])
    ] = UNSET
    names: Annotated[
        str | list[Word] | UnsetType, Meta(description="Literal names, as a hostlist or a list; they do not affect ids.")
    ] = UNSET
    id: Annotated[
        int | str | IdList | IdStart | UnsetType | None,
        Meta(
            description="First id, an idset such as 0-7, a list of ids and idsets, or where to start and within which type; "
            "null for no id. Default: 0, 1, ...; no id for a single pool without siblings of the same name.",
            examples=[0, "0-3,8", {"start": 1, "within": "cluster"}],
        ),
    ] = UNSET
    size: Annotated[
        Annotated[int, Meta(ge=0, le=limits.SIZE_MAX)] | Word | UnsetType,
        Meta(
            description="Units of each pool, or a text with a number and a unit. If a unit is given as well, it must be a whole "
            "number of these. Default: 1.",
            examples=[64, "192GiB", "20 kW"],
        ),
    ] = UNSET
    unit: Annotated[Word | UnsetType, Meta(description="Unit of the size. Default: as in the size.", examples=["GiB", "W"])] = (
        UNSET
    )
    properties: Annotated[
        Properties | UnsetType,
        Meta(
            description="Static properties: names with a value or null, or a list of names.", examples=[{"ssd": None, "class": 3}]
        ),
    ] = UNSET
    draw: Annotated[
        dict[Word, Annotated[int, Meta(ge=1, le=limits.SIZE_MAX)] | Word] | UnsetType,
        Meta(
            description="Units that each pool draws from its suppliers, by their type or the name of the graph, whichever job "
            "holds it: a number of their units, or a text with a number and a unit. The same as a property such as draw.power.",
            examples=[{"power": 400}, {"power": "2.5 kW"}],
        ),
    ] = UNSET
    tags: Annotated[Tags | UnsetType, Meta(description="Tags: keys with a text or null, or a list of keys.")] = UNSET
    state: Annotated[State | UnsetType | None, Meta(description="State of each pool. Default: up.")] = UNSET
    exclusive: Annotated[bool | UnsetType, Meta(description="May only be allocated exclusively. Default: false.")] = UNSET
    rank: Annotated[
        int | str | IdList | UnsetType | None,
        Meta(
            description="Execution target (RFC 20): the first rank, or the ranks as an idset or a list; null for none. "
            "Default: nodes are numbered from 0, other pools have the rank of their parent."
        ),
    ] = UNSET
    uuid: Annotated[Word | UnsetType, Meta(description="UUID of an entry that makes one pool. Default: generated.")] = UNSET
    capacity: (
        Annotated[int, Meta(ge=1, le=limits.SIZE_MAX, description="Full size of a pool of which a copy has a part.")] | UnsetType
    ) = UNSET
    way: Annotated[
        bool | UnsetType, Meta(description="In a copy: only connects the root with copied pools and has nothing to allocate.")
    ] = UNSET
    with_: Annotated[list[Resource] | UnsetType, Meta(description="The children of each of these pools.")] = msgspec.field(
        default=UNSET, name="with"
    )


class Edge(Struct, forbid_unknown_fields=True):
    """Edges between pools: one, or those between two selections of pools."""

    also_called: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("source", "src", "parent"), "from"),
        **dict.fromkeys(("target", "dst", "dest", "child"), "to"),
        **dict.fromkeys(("bandwidth", "size"), "capacity"),
        "type": "relation",
    }

    from_: Annotated[
        str | Annotated[list[str], Meta(min_length=1)],
        Meta(description="Source pools: paths with [0-3] for numbers and * for any name.", examples=["power:/pdu[0-1]"]),
    ] = msgspec.field(name="from")
    to: Annotated[
        str | Annotated[list[str], Meta(min_length=1)], Meta(description="Target pools.", examples=["/demo/rack[0-1]/node*"])
    ]
    relation: Annotated[
        Word | UnsetType, Meta(description="Relation that the edge expresses. Default: link.", examples=["supplies"])
    ] = UNSET
    direction: Annotated[
        Literal["out", "in", "both"] | UnsetType,
        Meta(description="From 'from' to 'to' (out), the reverse (in), or both. Default: out."),
    ] = UNSET
    pairing: Annotated[
        Literal["each", "cross", "share"] | UnsetType,
        Meta(
            description="each: first with first, second with second; the default for sides of equal length. "
            "cross: all with all. "
            "share: the longer side is divided among the shorter in equal runs. A single pool is connected with every pool on "
            "the other side."
        ),
    ] = UNSET
    capacity: Annotated[
        float | int | Word | UnsetType,
        Meta(
            description="Integer number of units that each edge carries at once, or a text with a number and a unit. "
            "Default: unlimited.",
            examples=[24000, "24 kW"],
        ),
    ] = UNSET
    unit: Annotated[
        Word | UnsetType,
        Meta(description="Unit of the capacity. Default: the unit of the pools that the graph distributes.", examples=["Gbit/s"]),
    ] = UNSET
    supply: Annotated[
        Literal["all", "any"] | UnsetType,
        Meta(
            description="For a pool with several suppliers: each supplies the full draw (all), or one does (any), the first in "
            "service among those whose edges say so. Default: all."
        ),
    ] = UNSET
    attributes: Annotated[
        dict[str, str | int | float | bool] | UnsetType, Meta(description="Further attributes of each edge.")
    ] = UNSET


class Graph(Struct, forbid_unknown_fields=True):
    """An auxiliary graph over the pools."""

    hierarchy: Annotated[
        bool | UnsetType, Meta(description="Each pool has at most one incoming edge, and a URI NAME:/path. Default: false.")
    ] = UNSET
    pools: Annotated[
        list[Resource] | UnsetType, Meta(description="Pools of this graph that are not in the containment tree.")
    ] = UNSET
    edges: Annotated[list[Edge] | UnsetType, Meta(description="Edges, in order.")] = UNSET


Time = Annotated[str, Meta(min_length=1)] | float | int
Nodes = Annotated[int, Meta(ge=1, le=limits.POOLS_MAX)]


class PartitionEntry(Struct, forbid_unknown_fields=True):
    """A partition (Slurm), or queue (Flux): nodes, with a state and limits that bind the requests that go to it."""

    nodes: Annotated[
        str | list[str] | UnsetType,
        Meta(
            description="Its nodes: host names as a hostlist, paths with [0-3] and * (a rack means its nodes), or all.",
            examples=["cpu[001-064]", "/demo/rack[0-1]", "all"],
        ),
    ] = UNSET
    requires: Annotated[
        str | list[str] | UnsetType,
        Meta(description="Only those of them that meet a query such as 'ssd -slow', or have all properties of a list."),
    ] = UNSET
    state: Annotated[
        Literal["up", "down", "drain", "inactive"] | UnsetType,
        Meta(description="down: jobs wait, none starts; drain: no new jobs, waiting ones start; inactive: neither. Default: up."),
    ] = UNSET
    default: Annotated[bool | UnsetType, Meta(description="Requests that name no partition go here. Default: false.")] = UNSET
    default_time: Annotated[
        Time | UnsetType, Meta(description="Duration of requests that state none. Default: max_time.", examples=["1h"])
    ] = UNSET
    max_time: Annotated[Time | UnsetType, Meta(description="Longest duration. Default: no limit.", examples=["24h", "7d"])] = (
        UNSET
    )
    min_nodes: Annotated[Nodes | UnsetType, Meta(description="Fewest nodes of a job. Default: no limit.")] = UNSET
    max_nodes: Annotated[Nodes | UnsetType, Meta(description="Most nodes of a job. Default: no limit.")] = UNSET
    properties: Annotated[Properties | UnsetType, Meta(description="Further properties, which bind nothing.")] = UNSET
    tags: Annotated[Tags | UnsetType, Meta(description="Tags: keys with a text or null, or a list of keys.")] = UNSET


class Held(Struct, forbid_unknown_fields=True):
    """The pools that one job holds in one window."""

    job: Annotated[str, Meta(min_length=1, max_length=limits.JOB_ID_LENGTH_MAX, description="Id of the job.")]
    pools: Annotated[
        dict[str, Annotated[int, Meta(ge=1)]],
        Meta(
            description="Units by path; a path may select several pools, as for edges.", examples=[{"/demo/rack0/node[0-1]": 1}]
        ),
    ]
    start: Annotated[float, Meta(ge=0, le=limits.TIME_MAX_S, description="First second of the window. Default: 0.")] = 0.0
    end: (
        Annotated[
            float, Meta(ge=0, le=limits.TIME_MAX_S, description="End of the window in seconds, exclusive; null for no end.")
        ]
        | None
    ) = None
    slots: Annotated[
        int, Meta(ge=0, le=limits.COUNT_MAX, description="Slots of the requests of the job; the slots of all its entries add up.")
    ] = 0
    drawn: Annotated[
        dict[str, dict[str, Annotated[int, Meta(ge=0)]]] | UnsetType,
        Meta(
            description="Which units are drawn for which of these pools, and are released with it: units by pool and supplier or "
            "edge. 0 means that an exclusively held supplier also serves this pool."
        ),
    ] = UNSET


Second = Annotated[float, Meta(ge=0, le=limits.TIME_MAX_S)]


class Window(Struct, forbid_unknown_fields=True):
    """A window of time."""

    start: Annotated[Second, Meta(description="First second.")]
    end: Annotated[Second, Meta(description="End in seconds, exclusive.")]


class ReservedPart(Window, forbid_unknown_fields=True):
    """The pools that a reservation holds in one window."""

    pools: Annotated[dict[str, Annotated[int, Meta(ge=1)]], Meta(description="Units by path, as in an allocation.")]


class ReservationEntry(Struct, forbid_unknown_fields=True):
    """A maintenance reservation: pools that take no work in some windows."""

    name: Annotated[str, Meta(min_length=1, max_length=limits.JOB_ID_LENGTH_MAX, description="Its name; no job has this id.")]
    pools: Annotated[
        list[str],
        Meta(min_length=1, description="Paths; a path may select several pools, as for edges.", examples=[["/demo/rack0"]]),
    ]
    windows: Annotated[list[Window], Meta(min_length=1, description="When, in order; several if it repeats.")]
    ignores_jobs: Annotated[
        bool, Meta(description="Whether jobs may run into the windows; what they release is reserved. Default: false.")
    ] = False
    user: Annotated[Word | UnsetType | None, Meta(description="Who reserved.")] = UNSET
    submitted: Annotated[Second | UnsetType | None, Meta(description="When, in seconds.")] = UNSET
    held: Annotated[
        list[ReservedPart] | UnsetType,
        Meta(description="What it holds. Default: all that jobs leave of its pools in its windows. Written by save."),
    ] = UNSET
    affected: Annotated[
        list[str] | UnsetType,
        Meta(description="What takes no work meanwhile. Default: its pools and what only they supply. Written by save."),
    ] = UNSET


class Cluster(Struct, forbid_unknown_fields=True):
    """A machine, or a file of parts for other files to include."""

    also_called: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("with", "nodes", "tree", "children"), "resources"),
        **dict.fromkeys(("subsystems", "graph"), "graphs"),
        **dict.fromkeys(("includes", "import"), "include"),
        **dict.fromkeys(("part", "templates"), "parts"),
        "cluster": "name",
    }

    fluxres: Annotated[Literal[1], Meta(description="Version of this format.")]
    name: Annotated[Word | UnsetType, Meta(description="Name of the machine and of its root pool.")] = UNSET
    include: Annotated[list[str] | UnsetType, Meta(description="Files with further parts; paths are relative to this file.")] = (
        UNSET
    )
    parts: Annotated[dict[str, Resource] | UnsetType, Meta(description="Entries by name, for 'use'.")] = UNSET
    resources: Annotated[
        list[Resource] | UnsetType,
        Meta(
            description="Children of the root, a pool of type cluster; or one entry of type cluster or center, the root itself."
        ),
    ] = UNSET
    root: Annotated[Resource | UnsetType, Meta(description="A root of any type, instead of resources.")] = UNSET
    partitions: Annotated[
        dict[str, PartitionEntry] | UnsetType, Meta(description="Partitions by name, as in Slurm; Flux calls them queues.")
    ] = UNSET
    pools: Annotated[
        list[Resource] | UnsetType, Meta(description="Pools outside the containment tree that belong to no particular graph.")
    ] = UNSET
    graphs: Annotated[dict[str, Graph] | UnsetType, Meta(description="Auxiliary graphs by name.")] = UNSET
    allocations: Annotated[list[Held] | UnsetType, Meta(description="What jobs hold, now and later; written by save.")] = UNSET
    reservations: Annotated[
        list[ReservationEntry] | UnsetType, Meta(description="Maintenance reservations; written by save.")
    ] = UNSET
    uuids: Annotated[
        str | list[str | list[str | int]] | UnsetType,
        Meta(
            description="UUIDs of all pools in order: the first, from which they count up, or runs [first, count]. "
            "Written by save."
        ),
    ] = UNSET


def json_schema() -> dict[str, Any]:
    """The JSON Schema of ``cluster.yaml``, as in ``specs/cluster.schema.json``."""
    return typed.json_schema(Cluster, title="fluxres cluster file")

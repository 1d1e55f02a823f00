"""A machine described in Python: `fluxres.build`, with the keys of ``cluster.yaml``.

A description becomes the same values as such a file, so it has the same meaning, bounds and messages. The columns are filled from
these values without a loop over pools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Literal

from msgspec import UNSET, UnsetType

from fluxres.arrays import Integers
from fluxres.clock import Clock
from fluxres.documents import arguments
from fluxres.errors import UsageError
from fluxres.formats import plain_values
from fluxres.formats.cluster import read as cluster
from fluxres.graph.kinds import PropertyValue
from fluxres.model.resource_graph import ResourceGraph
from fluxres.syntax.hostlist import Hostlist
from fluxres.syntax.idset import IDset

Ids = int | str | Sequence[int] | Integers | IDset


class _Entry:
    """Its fields are the keys of an entry in the file."""

    __slots__ = ()

    def __repr__(self) -> str:
        said = ((f.name, getattr(self, f.name)) for f in fields(self))  # type: ignore[arg-type]  # all are dataclasses
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in said if value is not UNSET)})"

    def described(self) -> dict[str, object]:
        """The entry as in ``cluster.yaml``, without the fields that are unset."""
        found = {f.metadata.get("key", f.name): getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]  # all are dataclasses
        return {key: value for key, value in found.items() if value is not UNSET}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Resource(_Entry):
    """A kind of pool, how many of it each parent has, and its children (specs/cluster-yaml.md, Entries).

    Args:
        type: resource type.
        count: pools in each parent. Default: the number of ids or names given, else 1.
        children: the children of each of these pools.
        name: name, or template such as ``node-${rack}-${id}``; basename and id by default.
        hosts, names: `hosts` is a hostlist whose numbers become the ids; `names` are literal names.
        basename: first part of the default name; the type by default.
        id: ids; a mapping ``{"start": 0, "within": "node"}`` continues them across parents; None for no id.
        size, unit: units of each pool.
        draw: units that each pool draws from its suppliers, by type or by graph name: ``{"power": 400}`` or ``"2.5 kW"``.
        properties, tags: names with values, or a list of names.
        state, exclusive, rank, uuid: as in the file.

    >>> Resource("node", 2, children=[Resource("core", 4)]).count
    2
    """

    type: str
    count: int | UnsetType = UNSET
    _: KW_ONLY
    children: Sequence[Resource] | UnsetType = field(default=UNSET, metadata={"key": "with"})
    name: str | UnsetType = UNSET
    hosts: str | Hostlist | UnsetType = UNSET
    names: str | Sequence[str] | Hostlist | UnsetType = UNSET
    basename: str | UnsetType = UNSET
    id: Ids | Mapping[str, int | str] | UnsetType | None = UNSET
    size: int | UnsetType = UNSET
    unit: str | UnsetType = UNSET
    draw: Mapping[str, int | str] | UnsetType = UNSET
    properties: Mapping[str, PropertyValue] | Sequence[str] | UnsetType = UNSET
    tags: Mapping[str, str | None] | Sequence[str] | UnsetType = UNSET
    state: str | UnsetType = UNSET
    exclusive: bool | UnsetType = UNSET
    rank: Ids | UnsetType | None = UNSET
    uuid: str | UnsetType = UNSET


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Edge(_Entry):
    """Edges of an auxiliary graph: one edge, or those between two selections of pools (specs/cluster-yaml.md, Graphs).

    Args:
        source, target: paths or URIs, with ``[0-3]`` for numbers and ``*`` for any name; or several of them.
        relation: ``link`` by default.
        direction: ``out`` from source to target, ``in`` or ``both``.
        pairing: ``each``, ``cross`` or ``share``; by default it follows from the number of pools on each side.
        capacity, unit: of each edge.
        supply: ``all`` or ``any``: whether a pool with several suppliers needs all of them.
        attributes: further attributes of each edge.
    """

    source: str | Sequence[str] = field(metadata={"key": "from"})
    target: str | Sequence[str] = field(metadata={"key": "to"})
    _: KW_ONLY
    relation: str | UnsetType = UNSET
    direction: Literal["out", "in", "both"] | UnsetType = UNSET
    pairing: Literal["each", "cross", "share"] | UnsetType = UNSET
    capacity: float | UnsetType = UNSET
    unit: str | UnsetType = UNSET
    supply: Literal["all", "any"] | UnsetType = UNSET
    attributes: Mapping[str, str | float | bool] | UnsetType = UNSET


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class AuxiliaryGraph(_Entry):
    """An auxiliary graph: its edges, and the pools that belong to no other graph.

    Args:
        hierarchy: whether it is a forest, in which every pool has a URI ``name:/path``.
    """

    hierarchy: bool | UnsetType = UNSET
    pools: Sequence[Resource] | UnsetType = UNSET
    edges: Sequence[Edge] | UnsetType = UNSET


def build(
    *resources: Resource,
    name: str | None = None,
    root: Resource | None = None,
    partitions: Mapping[str, Mapping[str, object]] | None = None,
    pools: Iterable[Resource] = (),
    graphs: Mapping[str, AuxiliaryGraph] | None = None,
    clock: Clock | None = None,
) -> ResourceGraph:
    """Build a resource graph from a description with the keys of ``cluster.yaml``.

    Args:
        resources: the children of the root, a pool of type cluster; or one entry of type cluster or center, the root itself.
        name: of the graph and of its root.
        root: a root of any type, instead of `resources`: for example a node to be merged into a machine.
        partitions: by name, with the keys of the file: ``{"batch": {"nodes": "all", "max_time": "24h", "default": True}}``.
        pools: pools outside the containment tree that belong to no particular graph.
        clock: returns "now" in seconds; always 0 by default.

    Errors: InputError and LimitExceeded with the place as in a file: ``resources[0].with[1].count``.
    Cost: O(entries) Python and O(pools) array writes.

    >>> node = Resource("node", 4, children=[Resource("core", 16), Resource("memory", size=64, unit="GiB")])
    >>> g = build(
    ...     Resource("rack", 2, children=[node]),
    ...     name="demo",
    ...     graphs={"power": AuxiliaryGraph(
    ...         hierarchy=True,
    ...         pools=[Resource("pdu", 2, size=4000, unit="W")],
    ...         edges=[Edge("power:/pdu[0-1]", "/demo/rack[0-1]", relation="supplies")],
    ...     )},
    ... )
    >>> len(g), g.pool("/demo/rack1/node3/memory").size, g.pool("/demo/rack1").uris
    (149, 64, ['demo:/rack1', 'power:/pdu1/rack1'])
    >>> g.merge(build(root=Resource("node", id=[4], children=[Resource("core", 16)])), at="/demo/rack0")
    >>> g.pool("/demo/rack0/node4/core15").available()
    1
    """
    for given in (*resources, *(() if root is None else (root,))):
        if not isinstance(given, Resource):
            raise UsageError(f"expected a Resource, got {given!r:.60}", hint='such as Resource("node", 2)')
    values: dict[str, object] = {"fluxres": 1}
    if name is not None:
        values["name"] = name
    if resources or root is None:
        values["resources"] = resources
    if root is not None:
        values["root"] = root
    if partitions is not None:
        values["partitions"] = arguments.mapping(partitions, "partitions", "keys by name")
    if others := list(arguments.items(pools, "pools", "resources")):
        values["pools"] = others
    if graphs is not None:
        values["graphs"] = arguments.mapping(graphs, "graphs", "auxiliary graphs by name")
    loaded = cluster.build(plain_values.document(values, "build"))
    return ResourceGraph(loaded.structure, name=loaded.name, clock=clock)

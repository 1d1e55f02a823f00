"""canary's resource pool: counts, `resources` (or `local`), and the current form `nodes`, in JSON or YAML.

The keys of a pool determine its form. canary itself no longer reads the older forms but still documents them, so all are read
unless a grammar is given. An instance is a pool whose size is its slots; fractional slots are counted in ten-thousandths.
"""

from __future__ import annotations

import json as plain_json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from functools import partial
from itertools import groupby
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
import orjson
from msgspec import Meta, Struct

from fluxres import limits
from fluxres.documents import typed
from fluxres.documents.document import Document, Key, SubDocument, shown
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.formats.format import Fact, Hold, Loaded, Output
from fluxres.formats.peers.canary import language as words
from fluxres.formats.peers.inventory import (
    EMPTY,
    FRACTION_UNIT,
    FRACTIONS,
    MARKS,
    NESTED,
    SLOTS,
    Host,
    Inventory,
    Run,
    Share,
    Stock,
    compact,
    kept_properties,
    structure,
)
from fluxres.graph.kinds import Kind, PropertyValue
from fluxres.graph.structure import Structure
from fluxres.match.matcher import MULTINODE

Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Identity = Annotated[str, Meta(max_length=limits.VALUE_LENGTH_MAX)] | int
Slots = Annotated[int, Meta(ge=0, le=limits.SIZE_MAX)] | Annotated[float, Meta(ge=0, le=float(1 << 53))]


class Instance(Struct, forbid_unknown_fields=True):
    """One instance of a type."""

    id: Annotated[Identity, Meta(description="Its name on its node; a number is read as text.")]
    slots: Annotated[Slots, Meta(description="Number of slots, with up to four decimals. Default: 1.")] = 1
    properties: Annotated[dict[str, Any], Meta(description="Its properties, such as vendor and uuid.")] = {}


Types = dict[str, list[Instance]]


class NodeResources(Struct, forbid_unknown_fields=True):
    id: Annotated[Identity, Meta(description="Its name, unique among the nodes.")]
    resources: Types = {}
    additional_properties: dict[str, Any] = {}


class Nodes(Struct, forbid_unknown_fields=True):
    """The current form: nodes and the instances on each."""

    nodes: list[NodeResources]
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
    """The JSON Schema of a resource pool, as in ``specs/schemas/canary.schema.json``."""
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


Grammar = Literal["any", "seed", "current"]
"""`seed`: counts, `resources` and `local`; `current`: `nodes`."""

#: the property of an instance that holds the unit of its slots
UNIT: Final = "unit"
_SLOTS_PER: Final = "slots_per_"


@dataclass(frozen=True, slots=True)
class Alike:
    """A number of instances of one type, with ids from 0 and the same number of slots each."""

    count: int
    slots: int = 1

    def instances(self) -> Iterator[Instance]:
        return (Instance(str(number), self.slots) for number in range(self.count))


@dataclass(frozen=True, slots=True)
class PoolNode:
    """One node and its instances by type; `id` is None where the form has no nodes."""

    resources: Mapping[str, Sequence[Instance] | Alike]
    id: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    path: tuple[Key, ...] = ()

    def counts(self) -> dict[str, int]:
        return {word: each.count if isinstance(each, Alike) else len(each) for word, each in self.resources.items()}

    def slots(self) -> dict[str, int | float]:
        return {
            word: listed.count * listed.slots if isinstance(listed, Alike) else sum(each.slots for each in listed)
            for word, listed in self.resources.items()
        }


@dataclass(frozen=True, slots=True)
class ResourcePool:
    nodes: tuple[PoolNode, ...]
    properties: Mapping[str, Any] = field(default_factory=dict)
    allow_multinode: bool | None = None

    def machine(self) -> dict[str, dict[str, dict[str, int | float]]]:
        """Slots by node, type and id, the form in which canary checks out resources."""
        return {
            name: {
                word: {str(each.id): each.slots for each in (listed.instances() if isinstance(listed, Alike) else listed)}
                for word, listed in node.resources.items()
            }
            for name, node in self.named().items()
        }

    def named(self) -> dict[str, PoolNode]:
        """The nodes by name; a form without names has `node0`, `node1`, …."""
        return {node.id if node.id is not None else f"node{number}": node for number, node in enumerate(self.nodes)}

    def per_node(self, word: str) -> int:
        """Instances of a type on each node. Errors: InputError if the nodes differ in it."""
        found = {node.counts().get(word, 0) for node in self.nodes}
        if len(found) != 1:
            hint = "ask node by node"
            raise InputError(f"the nodes have different numbers of {word}: {sorted(found)}"[:200], where=word, hint=hint)
        return found.pop()

    def types(self) -> list[str]:
        """The types it declares, including those of which it has no instances."""
        return list(dict.fromkeys(word for node in self.nodes for word in node.resources))


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of a resource pool.

    Errors: InputError with file, line, column and path; LimitExceeded.  Cost: O(instances listed) Python, O(pools) array writes.

    >>> s = read(Source(b"resource_pool: {cpus: 2, gpus: 1}")).structure
    >>> [s.path(v) for v in range(2, s.n)]
    ['/cluster/node0/core0', '/cluster/node0/core1', '/cluster/node0/gpu0']
    """
    return machine(parse(source.document), source.file, origin, source.document)


def read_words(text: str, *, origin: int | None = None) -> Loaded:
    """The machine of ``canary:gpus=4 cpus=32`` or ``canary:resource_pool:gpus:4``, a pool written on the command line.

    >>> read_words("nodes=2 cpus=4").structure.n
    11
    """
    return machine(of_counts(words.parse_counts(text)), "canary:", origin, None)


def machine(pool: ResourcePool, file: str, origin: int | None, document: Document | None) -> Loaded:
    if not pool.nodes:
        where = document.where(()) if document is not None else file
        raise InputError("the resource pool has no nodes", where=where, hint="list at least one under 'nodes'")
    known: dict[bytes, tuple[tuple[Stock, ...], list[str]]] = {}
    hosts = [_host(node, document, known) for node in pool.nodes]
    properties = kept_properties(pool.properties, partial(document.where, ()) if document is not None else str)
    if pool.allow_multinode is not None:
        properties[MULTINODE] = pool.allow_multinode
    return Loaded(structure(hosts, file=file, origin=origin, properties=properties), [], "canary")


def _host(node: PoolNode, document: Document | None, known: dict[bytes, tuple[tuple[Stock, ...], list[str]]]) -> Host:
    """The recipe of a node; nodes with equal instances share what is made from them."""

    def where(*more: Key) -> str:
        return document.where([*node.path, *more]) if document is not None else "canary:"

    try:
        key = msgspec.msgpack.encode(node.resources)
    except OverflowError:  # MessagePack has no integer of more than 64 bits
        key = repr(node.resources).encode()
    if key not in known:
        known[key] = _stocks(node, where)
    stocks, empty = known[key]
    properties = kept_properties(node.properties, where)
    if empty:
        properties |= kept_properties({EMPTY: empty})
    return Host(stocks, node.id, properties, where)


def _stocks(node: PoolNode, where: Callable[..., str]) -> tuple[tuple[Stock, ...], list[str]]:
    """The instances of a node, and the types of which it has none."""
    stocks: list[Stock] = []
    empty: list[str] = []
    runs: tuple[Run, ...]
    for word, listed in node.resources.items():
        if isinstance(listed, Alike):
            runs = (Run(range(listed.count), listed.slots),) if listed.count else ()
        else:
            runs = tuple(_runs(listed, partial(where, word)))
        if runs:
            stocks.append(Stock(word, (runs,), where=partial(where, word)))
        else:
            empty.append(word)
    return tuple(stocks), empty


def _runs(instances: Sequence[Instance], where: Callable[[], str]) -> Iterator[Run]:
    if not any(each.properties for each in instances):
        for slots, some in groupby(instances, key=lambda each: each.slots):
            yield Run(compact([str(each.id) for each in some]), *_size(slots, where))
        return

    def alike(each: Instance) -> tuple[int, str | None, Any]:
        slots, unit = _size(each.slots, where)
        stated = each.properties.get(UNIT)
        is_unit = unit is None and isinstance(stated, str) and stated
        properties = {key: value for key, value in each.properties.items() if not (is_unit and key == UNIT)}
        return slots, stated if is_unit else unit, properties

    for (slots, unit, properties), run in groupby(instances, key=alike):
        yield Run(compact([str(each.id) for each in run]), slots, unit, kept_properties(properties, where))


def _size(slots: int | float, where: Callable[[], str]) -> tuple[int, str | None]:
    if isinstance(slots, int) or slots.is_integer():
        return int(slots), None
    made = 0 if math.isnan(slots) else round(slots * FRACTIONS)
    if made < 1 or abs(made / FRACTIONS - slots) > 1e-9:
        raise InputError(f"slots have at most four decimals, got {slots!r}", where=where(), hint="round them")
    return made, FRACTION_UNIT


# -- the forms -------------------------------------------------------------------------------------------------------


def of_counts(counts: Mapping[str, int]) -> ResourcePool:
    """The pool described by counts: of types, of nodes, and of slots per instance of a type.

    Errors: InputError for slots of a type that has no count.

    >>> of_counts({"gpus": 2, "slots_per_gpus": 3}).nodes[0].slots()
    {'gpus': 6}
    """
    slots = {words.plural(key.removeprefix(_SLOTS_PER)): value for key, value in counts.items() if key.startswith(_SLOTS_PER)}
    types = {key: value for key, value in counts.items() if not key.startswith(_SLOTS_PER) and key != "nodes"}
    for word in slots:
        if word not in types:
            hint = f"give {word} a number"
            raise InputError(f"slots are given for {word}, but not how many there are", where=f"{_SLOTS_PER}{word}", hint=hint)
    number = counts.get("nodes", 1)
    if not 1 <= number <= limits.RANKS_MAX:
        raise InputError(f"expected 1 to {limits.RANKS_MAX} nodes, got {number}", where="nodes")
    pools = number * (1 + sum(types.values()))
    if pools > limits.POOLS_MAX:
        hint = "give one pool a size instead of many pools"
        where = "nodes" if number > 1 else ""
        raise LimitExceeded(f"{pools} pools in all, at most {limits.POOLS_MAX} are allowed", where=where, hint=hint)
    resources = {word: Alike(count, slots.get(word, 1)) for word, count in types.items()}
    return ResourcePool(tuple(PoolNode(resources) for _ in range(number)))


def modified(pool: ResourcePool, counts: Mapping[str, int], oversubscribe: Mapping[str, int] | None = None) -> ResourcePool:
    """A pool after the options ``-r`` and ``--oversubscribe``, applied as canary applies them to the pool of a file.

    Args:
        counts: of ``-r``: nodes, instances of a type on each node, and ``slots_per_TYPE``, by which the slots of each instance
            are multiplied.
        oversubscribe: the same as ``slots_per_TYPE``, and in place of it.

    Nodes beyond those that there are are copies of the first.  Errors: InputError for a type that the pool does not have, for
    slots of nodes, and for no nodes; LimitExceeded.

    >>> pool = of_counts({"gpus": 2, "cpus": 4})
    >>> modified(pool, {"gpus": 3}, {"gpu": 2}).nodes[0].slots()
    {'gpus': 6, 'cpus': 4}
    """
    number = counts.get("nodes", counts.get("node", len(pool.nodes)))
    if not 1 <= number <= limits.RANKS_MAX:
        raise InputError(f"expected 1 to {limits.RANKS_MAX} nodes, got {number}", where="nodes")
    first = pool.nodes[0] if pool.nodes else PoolNode({})
    more = [dataclass_replace(first, id=str(at)) for at in range(len(pool.nodes), number)]
    types = {words.plural(word): count for word, count in counts.items() if word not in ("node", "nodes") and not _slots_of(word)}
    times = {words.plural(_slots_of(word)): count for word, count in counts.items() if _slots_of(word)}
    times |= {words.plural(word): count for word, count in (oversubscribe or {}).items()}
    known = {word for node in pool.nodes for word in node.resources} | types.keys()
    for word in times:
        if word == "nodes" or word not in known:
            hint = "nodes have no slots" if word == "nodes" else f"the pool has {', '.join(sorted(known)) or 'no types'}"[:200]
            raise InputError(f"slots of {word} cannot be multiplied", where=f"slots_per_{word}", hint=hint)
    if number * sum(types.values()) > limits.POOLS_MAX:
        raise LimitExceeded(f"{number * sum(types.values())} pools in all, at most {limits.POOLS_MAX} are allowed", where="nodes")
    nodes = [_with_counts(node, types, times) for node in (*pool.nodes[:number], *more)]
    is_several = True if counts.get("nodes", 1) > 1 else pool.allow_multinode
    return ResourcePool(tuple(nodes), pool.properties, is_several)


def _slots_of(word: str) -> str:
    return word.removeprefix(_SLOTS_PER) if word.startswith(_SLOTS_PER) else ""


def _with_counts(node: PoolNode, types: Mapping[str, int], times: Mapping[str, int]) -> PoolNode:
    resources: dict[str, Sequence[Instance] | Alike] = {**node.resources, **{word: Alike(count) for word, count in types.items()}}
    for word, factor in times.items():
        listed = resources.get(word, ())
        if isinstance(listed, Alike):
            resources[word] = Alike(listed.count, listed.slots * factor)
        else:
            resources[word] = [Instance(each.id, each.slots * factor, each.properties) for each in listed]
    return dataclass_replace(node, resources=resources)


def parse(document: Document, *, grammar: Grammar = "any") -> ResourcePool:
    """The pool in a document, with or without the key `resource_pool` above it.

    Args:
        grammar: the forms to accept.

    Errors: InputError with file, line, column and path; LimitExceeded.
    """
    path: tuple[Key, ...] = ()
    values = document.values
    if isinstance(values, Mapping) and "resource_pool" in values:
        values, path = values["resource_pool"], ("resource_pool",)
    if not isinstance(values, Mapping):
        raise InputError(f"expected a mapping, got {shown(values)}", where=document.where(path), hint="such as {cpus: 4}")
    if grammar == "current" or (grammar == "any" and "nodes" in values and not isinstance(values["nodes"], int)):
        return _nodes(document, values, path)
    if "resources" in values or "local" in values:
        return _flat(document, values, path)
    return _counted(document, values, path)


def _nodes(document: Document, values: Mapping[str, Any], path: tuple[Key, ...]) -> ResourcePool:
    found = typed.convert(SubDocument(document, values, path), Nodes)
    nodes: list[PoolNode] = []
    seen: set[str] = set()
    for at, node in enumerate(found.nodes):
        below = (*path, "nodes", at)
        name = str(node.id)
        if name in seen:
            message = f"the node {shown(name)} is listed twice"
            raise InputError(message, where=document.where([*below, "id"]), hint="rename one")
        seen.add(name)
        resources = _instances(document, node.resources, (*below, "resources"))
        nodes.append(PoolNode(resources, name, node.additional_properties, (*below, "resources")))
    return ResourcePool(tuple(nodes), found.additional_properties, found.allow_multinode)


def _flat(document: Document, values: Mapping[str, Any], path: tuple[Key, ...]) -> ResourcePool:
    if "resources" in values and "local" in values:
        where = document.where([*path, "local"], key=True)
        raise InputError("both 'resources' and 'local'", where=where, hint="they mean the same; keep one")
    part = SubDocument(document, values, path)
    found: Local | Flat
    if "local" in values:
        found, key = typed.convert(part, Local), "local"
        types = found.local
    else:
        found, key = typed.convert(part, Flat), "resources"
        types = found.resources
    resources = _instances(document, types, (*path, key))
    return ResourcePool((PoolNode(resources, None, {}, (*path, key)),), found.additional_properties, found.allow_multinode)


def _instances(document: Document, types: Types, path: tuple[Key, ...]) -> Types:
    """Instances with their ids as text. Errors: InputError for an id that occurs twice."""
    for word, listed in types.items():
        twice = _named(listed)
        if twice is not None:
            message = f"the id {shown(listed[twice].id)} is listed twice"
            raise InputError(message, where=document.where([*path, word, twice, "id"]), hint="the ids of one type must differ")
    return types


def _named(listed: Sequence[Instance]) -> int | None:
    """Convert numeric ids to text; return the index of the first instance with a repeated id, None if there is none."""
    for each in listed:
        if each.id.__class__ is int:
            each.id = str(each.id)
    ids = [each.id for each in listed]
    if len(set(ids)) == len(ids):
        return None
    first: dict[str | int, int] = {}
    return next(at for at, name in enumerate(ids) if first.setdefault(name, at) != at)


def _counted(document: Document, values: Mapping[str, Any], path: tuple[Key, ...]) -> ResourcePool:
    counts: dict[str, int] = {}
    properties: Mapping[str, Any] = {}
    for word, value in values.items():
        if word == "additional_properties" and isinstance(value, Mapping):
            properties = value
            continue
        where = partial(document.where, [*path, word])
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            hint = "a pool has counts such as gpus: 4, or 'resources', or 'nodes'"
            raise InputError(
                f"Missing key: resources; expected a count of at least 0, got {shown(value)}", where=where(), hint=hint
            )
        if value > limits.POOLS_MAX:
            raise LimitExceeded(f"expected a count up to {limits.POOLS_MAX}, got {shown(value)}", where=where())
        counts[word] = value
    if not counts:
        hint = "a pool has counts such as gpus: 4, or 'resources', or 'nodes'"
        raise InputError("Missing key: resources", where=document.where(path), hint=hint)
    try:
        found = of_counts(counts)
    except InputError as error:
        raise type(error)(error.message, where=document.where([*path, error.where]), hint=error.hint) from None
    nodes = tuple(PoolNode(node.resources, None, {}, path) for node in found.nodes)
    return ResourcePool(nodes, properties)


CARRIES: Final[frozenset[Fact]] = frozenset({"names", "ids", "sizes", "units", "properties"})


def write(
    structure: Structure,
    allocations: Sequence[Hold] = (),
    *,
    name: str | None = None,
    form: Literal["nodes", "resources"] = "nodes",
) -> Output:
    """The nodes of a machine as a resource pool.

    Args:
        form: ``nodes`` is the current form; ``resources`` the older one, which describes one machine without nodes.

    Errors: UsageError for several nodes in the older form.  Cost: O(instances) Python, since each is an entry of the file.

    >>> from fluxres.graph.recipe import Recipe, expand
    >>> machine = expand(Recipe("cluster", children=(Recipe("node", children=(Recipe("gpu", size=2),)),)), origin=0)
    >>> write(machine, form="resources").data
    b'{"resource_pool":{"resources":{"gpus":[{"id":"0","slots":2}]}}}\\n'
    """
    if form not in ("nodes", "resources"):
        raise UsageError(f"no form {form!r} of a resource pool", hint="the forms are nodes and resources")
    inventory = Inventory(structure, marks=frozenset({MULTINODE, NESTED + EMPTY}))
    if form == "resources" and len(inventory.hosts) > 1:
        message = f"{len(inventory.hosts)} nodes, but the older form of a resource pool has one"
        raise UsageError(message, hint="write the form 'nodes'")
    words, more = inventory.words(str)
    writing = _Kinds(structure)
    nodes: list[dict[str, Any]] = []
    names = inventory.distinct_names()
    for number, v in enumerate(inventory.hosts.tolist()):
        resources = {words[share.type]: _written(inventory, share, writing) for share in inventory.shares[number]}
        described, empty = _described(structure.kind_of(v))
        resources |= {word: [] for word in empty if word not in resources}
        node: dict[str, Any] = {"id": names[number], "resources": resources}
        if described:
            node["additional_properties"] = described
        nodes.append(node)
    inventory.mark_moved()
    inventory.mark("properties", np.flatnonzero(writing.unsaid[structure.kind]))
    pool = _top(structure, inventory)
    if form == "nodes":
        pool["nodes"] = nodes
    else:
        pool["resources"] = nodes[0]["resources"]
        host = inventory.hosts
        inventory.mark("names", host[[structure.name(v) != "node0" for v in host.tolist()]])
        inventory.mark("properties", host[["additional_properties" in nodes[0]]])
    data = orjson.dumps({"resource_pool": pool}) + b"\n"
    return Output(data, inventory.left_out(allocations, CARRIES, more))


def _top(structure: Structure, inventory: Inventory) -> dict[str, Any]:
    """The part of a pool that applies to all of its nodes."""
    if inventory.hosts[0] == 0:
        return {}
    made: dict[str, Any] = {}
    described, _ = _described(structure.kind_of(0))
    multinode = described.pop(MULTINODE, None)
    if isinstance(multinode, bool):
        made[MULTINODE] = multinode
    if described:
        made["additional_properties"] = described
    return made


def _described(kind: Kind) -> tuple[dict[str, Any], list[str]]:
    """The properties of a pool as the file has them, and the types of which it declares none."""
    made: dict[str, Any] = {}
    empty: list[str] = []
    for key, value in kind.properties:
        if key in MARKS or not _is_sayable(key, value):
            continue
        if key == NESTED + EMPTY:
            found = plain_json.loads(str(value))
            empty = [word for word in found if isinstance(word, str)] if isinstance(found, list) else []
        elif key.startswith(NESTED):
            made[key.removeprefix(NESTED)] = plain_json.loads(str(value))
        else:
            made[key] = value
    return made, empty


def _is_sayable(key: str, value: PropertyValue) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < 1 << 63
    if not key.startswith(NESTED):
        return True
    try:
        orjson.dumps(plain_json.loads(str(value)))
    except (ValueError, TypeError, RecursionError):
        return False
    return True


class _Kinds:
    """The common part of all instances of a kind."""

    def __init__(self, structure: Structure) -> None:
        self.described: list[Mapping[str, Any]] = []
        self.scaled: list[bool] = []
        self.ghost: list[bool] = []
        unsaid = []
        for kind in structure.kinds:
            properties, _ = _described(kind)
            is_scaled = kind.unit == FRACTION_UNIT
            unsaid.append(not all(_is_sayable(key, value) for key, value in kind.properties))
            if kind.unit is not None and not is_scaled:
                unsaid[-1] |= UNIT in properties
                properties = {**properties, UNIT: kind.unit}
            self.described.append(properties)
            self.scaled.append(is_scaled)
            self.ghost.append(any(key == SLOTS for key, _ in kind.properties))
        self.unsaid = np.array(unsaid)


def _written(inventory: Inventory, share: Share, kinds: _Kinds) -> list[dict[str, Any]]:
    s, vertices = inventory.structure, share.vertices
    made = []
    labels = inventory.distinct(vertices)
    numbers = s.kind[vertices].tolist()
    for v, label, size, number in zip(vertices.tolist(), labels, s.size[vertices].tolist(), numbers, strict=True):
        slots: int | float = 0 if kinds.ghost[number] else size
        if kinds.scaled[number]:
            slots = size / FRACTIONS if size % FRACTIONS else size // FRACTIONS
            if isinstance(slots, int) or round(slots * FRACTIONS) != size:
                inventory.mark("sizes", np.array([v]))
                inventory.mark("units", np.array([v]))
        entry: dict[str, Any] = {"id": str(label), "slots": slots}
        if kinds.described[number]:
            entry["properties"] = kinds.described[number]
        made.append(entry)
    return made

"""JQM's resource managers as a machine: a quantity becomes one pool with a size, each item of a discrete manager a pool.

A highlander manager has no resource, so it is kept as a property of its node. So is the amount that a job takes by default, since
both are rules for jobs and not resources of a node. A queue with managers of its own is a pool that has their pools in it.

JQM keeps its managers in a database. A file has them in the form of its administration API (key, implementation, parameters), or
shorter with the type and the parameters beside the key. Released versions have only three global parameters instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
import orjson
from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits
from fluxres.documents import typed
from fluxres.documents.document import Document, Key, plural, shown
from fluxres.documents.source import Source
from fluxres.errors import InputError, UsageError
from fluxres.formats.format import Fact, Hold, Loaded, Output
from fluxres.formats.peers.inventory import NESTED, Host, Inventory, Run, Share, Stock, kept_properties, structure
from fluxres.formats.peers.jqm import managers as jqm
from fluxres.formats.peers.jqm.managers import Discrete, Highlander, Quantity, Rules
from fluxres.formats.peers.jqm.pollers import ORDER, QUEUE, RULES, order_of, rules_of
from fluxres.graph.structure import Structure

Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Text = Annotated[str, Meta(max_length=limits.VALUE_LENGTH_MAX)]
Number = Annotated[int, Meta(ge=0, le=limits.SIZE_MAX)] | Word
Items = str | list[Word]


class ManagedResource(Struct, forbid_unknown_fields=True):
    """One resource manager."""

    key: Annotated[Word, Meta(description="Its name, which parameters of jobs refer to.")]
    type: Annotated[Word | UnsetType, Meta(description="quantity, discrete or highlander.")] = UNSET
    implementation: Annotated[
        Word | UnsetType, Meta(description="Its class, such as com.enioka.jqm.tools.QuantityResourceManager.")
    ] = UNSET
    description: Text | UnsetType | None = UNSET
    enabled: Annotated[bool, Meta(description="A disabled manager has no effect. Default: true.")] = True
    quantity: Annotated[Number | UnsetType, Meta(description="Total amount. Default: 10.")] = UNSET
    consumption: Annotated[Number | UnsetType, Meta(description="Amount that a job takes by default.")] = UNSET
    list_: Annotated[
        Items | UnsetType, Meta(description="Items, separated by commas or as a list. Default: item01 to item10.")
    ] = msgspec.field(default=UNSET, name="list")
    parameters: Annotated[dict[str, Any] | UnsetType, Meta(description="Parameters by name, in any capitalisation.")] = UNSET
    shared: Annotated[
        bool, Meta(description="In a queue: the node has one of this key for all queues that list it. Default: false.")
    ] = False


Managers = list[ManagedResource]


class NodeQueue(Struct, forbid_unknown_fields=True):
    """A queue that a node polls, with its managers in the order in which they are asked; those of the node follow."""

    name: Word
    managers: Managers | UnsetType = UNSET
    resource_managers: Managers | UnsetType = msgspec.field(default=UNSET, name="resourceManagers")
    threads: Annotated[Number | UnsetType, Meta(description="Threads of its poller, as the manager 'thread'.")] = msgspec.field(
        default=UNSET, name="nbThread"
    )


class Node(Struct, forbid_unknown_fields=True):
    """One node and its managers."""

    name: Word | UnsetType = UNSET
    managers: Managers | UnsetType = UNSET
    resource_managers: Managers | UnsetType = msgspec.field(default=UNSET, name="resourceManagers")
    discrete_list: Annotated[Items | UnsetType, Meta(description="Items of the discrete manager of a node.")] = msgspec.field(
        default=UNSET, name="discreteRmList"
    )
    discrete_name: Annotated[Word | UnsetType, Meta(description="Its key. Default: ports.")] = msgspec.field(
        default=UNSET, name="discreteRmName"
    )
    threads: Annotated[Number | UnsetType, Meta(description="Threads of a poller, as the manager 'thread'.")] = msgspec.field(
        default=UNSET, name="nbThread"
    )
    queues: Annotated[
        list[NodeQueue] | UnsetType, Meta(description="Queues that the node polls. Default: one, with the managers of the node.")
    ] = UNSET


class Site(Node, forbid_unknown_fields=True):
    """One node, or several."""

    nodes: Annotated[list[Node] | UnsetType, Meta(description="Several nodes, each with its managers.")] = UNSET


def json_schema() -> dict[str, Any]:
    """The JSON Schema of resource managers, as in ``specs/schemas/jqm.schema.json``."""
    return typed.json_schema(Site, title="JQM resource managers")


_NAME_DEFAULT: Final = "ports"


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of resource managers.

    Errors: InputError with file, line, column and path; LimitExceeded.

    >>> text = b"managers: [{type: quantity, key: thread, quantity: 3}, {type: discrete, key: ports, list: 'p1,p2'}]"
    >>> s = read(Source(text)).structure
    >>> [(s.path(v), s.size.item(v)) for v in range(2, s.n)]
    [('/cluster/node0/thread', 3), ('/cluster/node0/p1', 1), ('/cluster/node0/p2', 1)]
    """
    return Loaded(machine(parse(source.document), source, origin), [], "jqm")


def machine(nodes: Sequence[Parsed], source: Source, origin: int | None) -> Structure:
    """The machine of the managers of some nodes; `source` is for messages."""
    known: dict[object, Host] = {}
    hosts: list[Host] = []
    for node in nodes:
        same = (tuple(node.managers), tuple((queue.name, tuple(queue.managers)) for queue in node.queues))
        if same not in known:
            known[same] = _host(node, source.document)
        hosts.append(replace(known[same], name=node.name, where=partial(source.document.where, node.path)))
    return structure(hosts, file=source.file, origin=origin)


class Stated(NamedTuple):
    """A manager as written in a file."""

    rules: Rules
    is_enabled: bool = True
    description: str | None = None
    is_shared: bool = False
    """Of a queue: whether the node has it, for all queues that list it."""
    size: int | None = None
    """Size of the pool of a quantity that was reduced while more is in use."""


class StatedQueue(NamedTuple):
    name: str
    managers: list[Stated]


class Parsed(NamedTuple):
    """A node as written in a file, and its place there."""

    name: str | None
    managers: list[Stated]
    path: tuple[Key, ...]
    queues: list[StatedQueue]


def parse(document: Document) -> list[Parsed]:
    """The managers of each node in a document. Errors: InputError with file, line, column and path."""
    site = typed.convert(document, Site)
    if site.nodes is UNSET:
        return [_node(site, document, ())]
    if _stated(site):
        message = f"both 'nodes' and {shown(_stated(site)[0])}"
        raise InputError(message, where=document.where(["nodes"], key=True), hint="put the managers into the nodes")
    if not site.nodes:
        raise InputError("no nodes", where=document.where(["nodes"]), hint="list at least one")
    return [_node(node, document, ("nodes", at)) for at, node in enumerate(site.nodes)]


def _stated(node: Node) -> list[str]:
    keys = ("managers", "resource_managers", "discrete_list", "threads", "queues")
    return [key for key in keys if getattr(node, key) is not UNSET]


def _node(node: Node, document: Document, path: tuple[Key, ...]) -> Parsed:
    found = _listed(node, document, path)
    for stated in found:
        if stated.is_shared:
            hint = "all managers of a node are; put it into a queue"
            raise InputError(f"the manager {shown(stated.rules.key)} is shared", where=document.where(path), hint=hint)
    seen = {stated.rules.key for stated in found}
    released: list[tuple[str, str, dict[str, Any], str]] = []
    if node.threads is not UNSET:
        released.append(("quantity", "thread", {"quantity": node.threads}, "nbThread"))
    if node.discrete_list is not UNSET:
        word = _NAME_DEFAULT if node.discrete_name is UNSET else node.discrete_name
        released.append(("discrete", word, {"list": node.discrete_list}, "discreteRmList"))
    for type_name, word, parameters, key in released:
        place: tuple[Key, ...] = (*path, key)
        made = _configured(type_name, word, parameters, partial(document.where, place))
        if made.key in seen:
            raise InputError(f"a second manager {shown(made.key)}", where=document.where(place, key=True), hint="leave one out")
        seen.add(made.key)
        found.append(Stated(made))
    queues = _queues(node, document, path)
    if not found and not queues:
        hint = "list 'managers', or give 'discreteRmList' or 'nbThread'"
        raise InputError("no resource managers", where=document.where(path), hint=hint)
    return Parsed(None if node.name is UNSET else node.name, found, path, queues)


def _queues(node: Node, document: Document, path: tuple[Key, ...]) -> list[StatedQueue]:
    """The queues of a node; one without managers of its own has a single thread, as in JQM."""
    found: dict[str, StatedQueue] = {}
    shared: dict[str, Rules] = {}
    for at, queue in enumerate(node.queues or []):
        place = (*path, "queues", at)
        if queue.name in found:
            raise InputError(f"a second queue {shown(queue.name)}", where=document.where([*place, "name"]), hint="rename one")
        managers = _listed(queue, document, place)
        keys = {stated.rules.key for stated in managers}
        for stated in managers:
            if stated.is_shared and shared.setdefault(stated.rules.key, stated.rules) != stated.rules:
                message = f"the shared manager {shown(stated.rules.key)} differs from that of another queue"
                raise InputError(message, where=document.where(place), hint="write it the same way in each queue")
        if queue.threads is not UNSET and "thread" in keys:
            raise InputError(
                "a second manager 'thread'", where=document.where([*place, "nbThread"], key=True), hint="leave one out"
            )
        if queue.threads is not UNSET or not any(not stated.is_shared for stated in managers):
            threads = 1 if queue.threads is UNSET else queue.threads
            where = partial(document.where, place)
            if "thread" not in keys and not (queue.threads is UNSET and managers):
                managers.insert(0, Stated(_configured("quantity", "thread", {"quantity": threads}, where)))
        found[queue.name] = StatedQueue(queue.name, managers)
    return list(found.values())


def _listed(node: Node | NodeQueue, document: Document, path: tuple[Key, ...]) -> list[Stated]:
    found: list[Stated] = []
    seen: set[str] = set()
    for key, managers in (("managers", node.managers), ("resourceManagers", node.resource_managers)):
        for at, each in enumerate(managers or []):
            place: tuple[Key, ...] = (*path, key, at)
            made = _manager(each, document, place)
            if made.key in seen:
                message = f"a second manager {shown(made.key)}"
                raise InputError(message, where=document.where([*place, "key"]), hint="rename one")
            seen.add(made.key)
            found.append(Stated(made, each.enabled, each.description or None, each.shared))
    return found


def _manager(given: ManagedResource, document: Document, path: tuple[Key, ...]) -> Rules:
    where = partial(document.where, path)
    if (given.type is UNSET) == (given.implementation is UNSET):
        hint = f"the types are {', '.join(jqm.TYPES)}"
        raise InputError("expected either a type or an implementation", where=where(), hint=hint)
    class_name = str(given.implementation).rpartition(".")[2].lower()
    type_name = given.type if given.type is not UNSET else class_name.removesuffix("resourcemanager")
    parameters: dict[str, Any] = dict(given.parameters) if given.parameters is not UNSET else {}
    for name, value in (("quantity", given.quantity), ("consumption", given.consumption), ("list", given.list_)):
        if value is not UNSET:
            if name in parameters:
                raise InputError(
                    f"{name} is given twice", where=where(), hint="give it either beside the key or among the parameters"
                )
            parameters[name] = value
    return _configured(str(type_name), given.key, parameters, where)


def _configured(type_name: str, key: str, parameters: Mapping[str, Any], where: Any) -> Rules:
    try:
        return jqm.configured(type_name, key, parameters)
    except InputError as error:
        raise type(error)(f"{error.where}: {error.message}", where=where(), hint=error.hint) from None


def _host(node: Parsed, document: Document) -> Host:
    where = partial(document.where, node.path)
    own = list(node.managers)
    known = {stated.rules.key for stated in own}
    listed: dict[str, Stated] = {}
    for queue in node.queues:
        for stated in queue.managers:
            if stated.is_shared and stated.rules.key not in known:
                listed[stated.rules.key] = stated
    own += listed.values()
    stocks = _stocks(own, where)
    rules: dict[str, dict[str, Any]] = {}
    for stated in own:
        if kept := _rules_of(stated) | ({"listed": True} if stated.rules.key in listed else {}):
            rules[f"{jqm.type_of(stated.rules)}.{stated.rules.key}"] = kept
    properties: dict[str, Any] = {RULES: dict(sorted(rules.items()))}  # also without any: it marks a node of JQM
    order = [stated.rules.key for stated in own]
    derived = [stock.word for stock in stocks]
    if order != [*derived, *(key for key in order if key not in derived)]:
        properties[ORDER] = order
    inner = tuple((QUEUE, _inner(queue, where)) for queue in node.queues)
    return Host(stocks, node.name, kept_properties(properties), where, inner)


def _inner(queue: StatedQueue, where: Any) -> Host:
    rules = [
        {"type": jqm.type_of(stated.rules), "key": stated.rules.key, "shared": True}
        if stated.is_shared
        else {"type": jqm.type_of(stated.rules), "key": stated.rules.key} | _rules_of(stated)
        for stated in queue.managers
    ]
    own = [stated for stated in queue.managers if not stated.is_shared]
    return Host(_stocks(own, where), queue.name, kept_properties({RULES: rules}), where)


def _stocks(managers: Sequence[Stated], where: Any) -> tuple[Stock, ...]:
    stocks: list[Stock] = []
    for stated in managers:
        rules = stated.rules
        if stated.is_enabled and isinstance(rules, Quantity) and (rules.quantity or stated.size):
            stocks.append(Stock(rules.key, amount=stated.size or rules.quantity, where=where))
        elif stated.is_enabled and isinstance(rules, Discrete) and rules.items:
            stocks.append(Stock(rules.key, ((Run(rules.items),),), where=where))
    return tuple(stocks)


def _rules_of(stated: Stated) -> dict[str, Any]:
    """What the pools of a manager do not say; all of it for one without pools."""
    rules = stated.rules
    kept = plain(rules)
    if stated.is_enabled and isinstance(rules, Quantity) and rules.quantity and stated.size is None:
        kept = {} if rules.consumption == 1 else {"consumption": rules.consumption}
    elif stated.is_enabled and isinstance(rules, Discrete) and rules.items:
        kept = {} if rules.consumption == 0 else {"consumption": rules.consumption}
    elif not stated.is_enabled:
        kept["enabled"] = False
    if stated.description is not None:
        kept["description"] = stated.description
    return kept


def plain(manager: Rules) -> dict[str, Any]:
    """A manager in the short form of a file, without default values.

    >>> plain(Quantity("thread", 3))
    {'type': 'quantity', 'key': 'thread', 'quantity': 3}
    """
    made: dict[str, Any] = {"type": jqm.type_of(manager), "key": manager.key}
    if isinstance(manager, Highlander):
        return made
    if isinstance(manager, Quantity):
        made["quantity"] = manager.quantity
        return made | ({} if manager.consumption == 1 else {"consumption": manager.consumption})
    made["list"] = list(manager.items)
    return made | ({} if manager.consumption == 0 else {"consumption": manager.consumption})


CARRIES: Final[frozenset[Fact]] = frozenset({"names", "ids", "sizes"})


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """The nodes of a machine, each with a manager for every type it has.

    Errors: UsageError for a machine whose nodes are empty.  Cost: O(pools) array operations, O(items) Python.

    >>> from fluxres.formats.peers.jqm.resource_managers import read
    >>> from fluxres.documents.source import Source
    >>> write(read(Source(b"nbThread: 3")).structure).data
    b'{"nodes":[{"name":"node0","managers":[{"type":"quantity","key":"thread","quantity":3}]}]}\\n'
    """
    inventory = Inventory(structure, marks=frozenset({NESTED + RULES, NESTED + ORDER}))
    words, more = inventory.words(str.lower)
    nodes = []
    for number, v in enumerate(inventory.hosts.tolist()):
        of_node, of_queues = _by_queue(structure, inventory.shares[number])
        managers = [_written(inventory, share, words[share.type]) for share in of_node]
        node: dict[str, Any] = {
            "name": inventory.label(v),
            "managers": _ordered(_ruled(managers, inventory.properties(v)), inventory.properties(v)),
        }
        queues = [q for q in structure.children(v).tolist() if rules_of(structure, q) is not None]
        inventory.between[queues] = True
        listed = {each["key"]: each for each in node["managers"] if each.pop("listed", False)}
        node["managers"] = [each for each in node["managers"] if each["key"] not in listed]
        if queues:
            node["queues"] = [
                {
                    "name": inventory.label(q),
                    "managers": _of_queue(
                        [_written(inventory, share, words[share.type]) for share in of_queues.get(q, [])],
                        rules_of(structure, q) or [],
                        {each["key"]: each for each in node["managers"]} | listed,
                    ),
                }
                for q in queues
            ]
        if not node["managers"] and not queues:
            more.append(f"pools: {structure.where(v)} has nothing to manage")
            continue
        nodes.append(node)
    plain = sum(rules_of(structure, v) is None for v in inventory.hosts.tolist())
    if plain:
        more.append(f"properties: {plural(plain, 'node')} will be of JQM when the file is read, with resource managers")
    inventory.mark_moved()
    inventory.moved &= ~np.isin(structure.parent, np.flatnonzero(inventory.between))
    if not nodes:
        raise UsageError("no node has anything to manage", hint="a manager counts the pools in a node")
    data = orjson.dumps({"nodes": nodes}) + b"\n"
    return Output(data, inventory.left_out(allocations, CARRIES, more))


def _by_queue(structure: Structure, shares: Sequence[Share]) -> tuple[list[Share], dict[int, list[Share]]]:
    """The pools of a node, and those of each of its queues."""
    of_node: list[Share] = []
    of_queues: dict[int, list[Share]] = {}
    for share in shares:
        for vertices in share.groups():
            above = structure.parent.item(int(vertices[0]))
            part = Share(share.type, vertices, structure.parent[vertices].astype(np.int64))
            if rules_of(structure, above) is not None and structure.types[structure.type.item(above)] == QUEUE:
                of_queues.setdefault(above, []).append(part)
            elif of_node and of_node[-1].type == share.type:
                joined = np.concatenate([of_node[-1].vertices, vertices])
                of_node[-1] = Share(share.type, joined, structure.parent[joined].astype(np.int64))
            elif structure.types[structure.type.item(int(vertices[0]))] != QUEUE or rules_of(structure, int(vertices[0])) is None:
                of_node.append(part)
    return of_node, of_queues


def _of_queue(
    managers: list[dict[str, Any]], rules: Sequence[Mapping[str, Any]], of_node: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The managers of a queue in their order."""
    by_key = {each["key"]: each for each in managers}
    found = []
    for each in rules:
        if each.get("shared"):
            found.append({**of_node.get(each["key"], {"type": each["type"], "key": each["key"]}), "shared": True})
        else:
            found.append({**by_key.pop(each["key"], {}), **each})
    return [*found, *by_key.values()]


def _ordered(managers: list[dict[str, Any]], properties: Mapping[str, Any]) -> list[dict[str, Any]]:
    order = {key: at for at, key in enumerate(order_of(properties))}
    return sorted(managers, key=lambda each: order.get(each["key"], len(order)))


def _written(inventory: Inventory, share: Share, key: str) -> dict[str, Any]:
    s, vertices = inventory.structure, share.vertices
    inventory.mark_units(vertices)
    if inventory.is_sum(share):
        inventory.moved[vertices] |= len(vertices) > 1
        inventory.mark_unlabelled(share)
        return {"type": "quantity", "key": key, "quantity": sum(s.size[vertices].tolist())}
    inventory.mark("sizes", vertices[s.size[vertices] != 1])
    labels = list(map(str, inventory.distinct(vertices)))
    items = [" ".join(label.split()) for label in labels]
    if items != labels or len(set(items)) < len(items):
        inventory.relabelled("names", vertices)
        items = items if len(set(items)) == len(items) and all(items) else list(map(str, range(len(items))))
    return {"type": "discrete", "key": key, "list": items}


def _ruled(managers: list[dict[str, Any]], properties: dict[str, Any]) -> list[dict[str, Any]]:
    """The managers with the rules kept on the node, and those that consist only of rules."""
    by_id = {f"{each['type']}.{each['key']}": each for each in managers}
    more = []
    for name, kept in _rules(properties.get(NESTED + RULES)).items():
        if name in by_id:
            by_id[name].update(kept)
        elif "type" in kept:
            more.append(kept)
    return [*managers, *more]


def _rules(text: object) -> dict[str, dict[str, Any]]:
    """The rules in a property, which may have been written by hand."""
    try:
        found = json.loads(text) if isinstance(text, str) else {}
        orjson.dumps(found)
    except (ValueError, TypeError, RecursionError):
        return {}
    return {name: kept for name, kept in found.items() if isinstance(kept, dict)} if isinstance(found, dict) else {}

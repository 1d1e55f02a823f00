"""JQM's resource managers as a machine: a quantity becomes one pool with a size, each item of a discrete manager a pool.

A highlander manager has no resource, so it is kept as a property of its node. So is the amount that a job takes by default, since
both are rules for jobs and not resources of a node.

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
import orjson
from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits
from fluxres.documents import typed
from fluxres.documents.document import Document, Key, shown
from fluxres.documents.source import Source
from fluxres.errors import InputError, UsageError
from fluxres.formats.format import Fact, Hold, Loaded, Output
from fluxres.formats.peers.inventory import NESTED, OF_FILE, Host, Inventory, Run, Share, Stock, kept_properties, structure
from fluxres.formats.peers.jqm import managers as jqm
from fluxres.formats.peers.jqm.managers import Discrete, Highlander, Quantity, Rules
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


Managers = list[ManagedResource]


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


class Site(Node, forbid_unknown_fields=True):
    """One node, or several."""

    nodes: Annotated[list[Node] | UnsetType, Meta(description="Several nodes, each with its managers.")] = UNSET


def json_schema() -> dict[str, Any]:
    """The JSON Schema of resource managers, as in ``specs/schemas/jqm.schema.json``."""
    return typed.json_schema(Site, title="JQM resource managers")


#: the property that keeps what is not a resource, by key of the manager
RULES: Final = f"{OF_FILE}managers"
_NAME_DEFAULT: Final = "ports"


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of resource managers.

    Errors: InputError with file, line, column and path; LimitExceeded.

    >>> text = b"managers: [{type: quantity, key: thread, quantity: 3}, {type: discrete, key: ports, list: 'p1,p2'}]"
    >>> s = read(Source(text)).structure
    >>> [(s.path(v), s.size.item(v)) for v in range(2, s.n)]
    [('/cluster/node0/thread', 3), ('/cluster/node0/p1', 1), ('/cluster/node0/p2', 1)]
    """
    known: dict[tuple[Stated, ...], Host] = {}
    hosts: list[Host] = []
    for name, managers, path in parse(source.document):
        same = tuple(managers)
        if same not in known:
            known[same] = _host(name, managers, source.document, path)
        hosts.append(replace(known[same], name=name, where=partial(source.document.where, path)))
    return Loaded(structure(hosts, file=source.file, origin=origin), [], "jqm")


class Stated(NamedTuple):
    """A manager as written in a file."""

    rules: Rules
    is_enabled: bool = True
    description: str | None = None


Parsed = tuple[str | None, list[Stated], tuple[Key, ...]]
"""Name of a node, its managers, and the place in the document."""


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
    return [key for key in ("managers", "resource_managers", "discrete_list", "threads") if getattr(node, key) is not UNSET]


def _node(node: Node, document: Document, path: tuple[Key, ...]) -> Parsed:
    found: list[Stated] = []
    seen: set[str] = set()
    place: tuple[Key, ...]
    for key, managers in (("managers", node.managers), ("resourceManagers", node.resource_managers)):
        for at, each in enumerate(managers or []):
            place = (*path, key, at)
            made = _manager(each, document, place)
            if made.key in seen:
                message = f"a second manager {shown(made.key)}"
                raise InputError(message, where=document.where([*place, "key"]), hint="rename one")
            seen.add(made.key)
            found.append(Stated(made, each.enabled, each.description or None))
    released: list[tuple[str, str, dict[str, Any], str]] = []
    if node.threads is not UNSET:
        released.append(("quantity", "thread", {"quantity": node.threads}, "nbThread"))
    if node.discrete_list is not UNSET:
        word = _NAME_DEFAULT if node.discrete_name is UNSET else node.discrete_name
        released.append(("discrete", word, {"list": node.discrete_list}, "discreteRmList"))
    for type_name, word, parameters, key in released:
        place = (*path, key)
        made = _configured(type_name, word, parameters, partial(document.where, place))
        if made.key in seen:
            raise InputError(f"a second manager {shown(made.key)}", where=document.where(place, key=True), hint="leave one out")
        seen.add(made.key)
        found.append(Stated(made))
    if not found:
        hint = "list 'managers', or give 'discreteRmList' or 'nbThread'"
        raise InputError("no resource managers", where=document.where(path), hint=hint)
    return None if node.name is UNSET else node.name, found, path


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


def _host(name: str | None, managers: Sequence[Stated], document: Document, path: tuple[Key, ...]) -> Host:
    where = partial(document.where, path)
    stocks: list[Stock] = []
    rules: dict[str, dict[str, Any]] = {}
    for manager, is_enabled, description in managers:
        kept = plain(manager)
        if is_enabled and isinstance(manager, Quantity) and manager.quantity:
            stocks.append(Stock(manager.key, amount=manager.quantity, where=where))
            kept = {} if manager.consumption == 1 else {"consumption": manager.consumption}
        elif is_enabled and isinstance(manager, Discrete) and manager.items:
            stocks.append(Stock(manager.key, ((Run(manager.items),),), where=where))
            kept = {} if manager.consumption == 0 else {"consumption": manager.consumption}
        elif not is_enabled:
            kept["enabled"] = False
        if description is not None:
            kept["description"] = description
        if kept:
            rules[f"{jqm.type_of(manager)}.{manager.key}"] = kept
    return Host(tuple(stocks), name, kept_properties({RULES: dict(sorted(rules.items()))}) if rules else {}, where)


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
    inventory = Inventory(structure, marks=frozenset({NESTED + RULES}))
    words, more = inventory.words(str.lower)
    nodes = []
    for number, v in enumerate(inventory.hosts.tolist()):
        managers = [_written(inventory, share, words[share.type]) for share in inventory.shares[number]]
        nodes.append({"name": inventory.label(v), "managers": _ruled(managers, inventory.properties(v))})
        if not nodes[-1]["managers"]:
            more.append(f"pools: {structure.where(v)} has nothing to manage")
            nodes.pop()
    inventory.mark_moved()
    if not nodes:
        raise UsageError("no node has anything to manage", hint="a manager counts the pools in a node")
    data = orjson.dumps({"nodes": nodes}) + b"\n"
    return Output(data, inventory.left_out(allocations, CARRIES, more))


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
        if "type" in kept:
            more.append(kept)
        elif name in by_id:
            by_id[name].update(kept)
    return [*managers, *more]


def _rules(text: object) -> dict[str, dict[str, Any]]:
    """The rules in a property, which may have been written by hand."""
    try:
        found = json.loads(text) if isinstance(text, str) else {}
        orjson.dumps(found)
    except (ValueError, TypeError, RecursionError):
        return {}
    return {name: kept for name, kept in found.items() if isinstance(kept, dict)} if isinstance(found, dict) else {}

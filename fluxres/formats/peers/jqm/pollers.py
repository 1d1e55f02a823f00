"""The pollers of a machine: for each queue of a node its resource managers, in the order in which they are asked, and their
pools.

The quantities and items of managers are pools of the graph, and what is free of them is read from it.  What is no resource, such
as the order of the managers, the default consumption and highlanders, is kept in properties of the node and of its queues.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from fluxres.arrays import Int32
from fluxres.formats.peers import instances
from fluxres.formats.peers.inventory import NESTED, OF_FILE
from fluxres.formats.peers.jqm.managers import Discrete, Highlander, Rules, configured
from fluxres.graph.structure import Structure
from fluxres.planner.planner import Planner
from fluxres.syntax.variants import type_of

QUEUE: Final = "queue"
"""The type of the pool that has the pools of a queue's own managers in it."""
RULES: Final = f"{OF_FILE}managers"
"""The property with the managers of a queue, in order, or what the pools of a node do not say of its managers."""
ORDER: Final = f"{OF_FILE}order"
"""The property of a node with the keys of its managers in the order in which they are asked, where that is not the order of
pools.
"""


@dataclass(frozen=True, eq=False)
class Manager:
    """A resource manager of a node; queues of the node may share it.

    Args:
        pools: the pool with the quantity, or one for each item; none for a highlander.
    """

    rules: Rules
    pools: Int32

    def free(self, structure: Structure, planner: Planner, start: int, end: int) -> int:
        """Units or items that are free in a window; negative if the quantity was reduced while more is in use."""
        if not len(self.pools) or isinstance(self.rules, Highlander):
            return 0
        if isinstance(self.rules, Discrete):
            return len(self.items(structure, planner, start, end))
        v = int(self.pools[0])
        left = planner.free(v, start, end) if structure.unavailable_above(v) < 0 else 0
        return self.rules.quantity - (structure.size.item(v) - left)

    def items(self, structure: Structure, planner: Planner, start: int, end: int) -> list[int]:
        """The pools of the items that are free in a window, ascending."""
        assert isinstance(self.rules, Discrete)
        listed = set(self.rules.items)
        return [
            v
            for v in self.pools.tolist()
            if planner.free(v, start, end) and structure.unavailable_above(v) < 0 and instances.label(structure, v) in listed
        ]


@dataclass(frozen=True, eq=False)
class Poller:
    """A queue of a node: its managers, in the order in which they are asked; "" is the queue of a node that names none."""

    queue: str
    node: int
    managers: tuple[Manager, ...]

    def manager(self, key: str) -> Manager | None:
        return next((each for each in self.managers if each.rules.key == key), None)


@dataclass(frozen=True)
class Pollers:
    """The pollers of a machine by queue, in the order of the file."""

    by_queue: Mapping[str, tuple[Poller, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_queue)


_KNOWN: Final[WeakKeyDictionary[Structure, Pollers]] = WeakKeyDictionary()


def pollers(structure: Structure) -> Pollers:
    """The pollers of a machine; none for a machine without managers.

    >>> import fluxres
    >>> machine = fluxres.load(b"managers: [{type: quantity, key: thread, quantity: 3}]")
    >>> [poller.managers[0].rules for poller in pollers(machine.structure).by_queue[""]]
    [Quantity(key='thread', quantity=3, consumption=1)]
    """
    found = _KNOWN.get(structure)
    if found is None:
        found = _KNOWN[structure] = _read(structure)
    return found


def _read(structure: Structure) -> Pollers:
    found: dict[str, list[Poller]] = {}
    for node in instances.nodes(structure):
        own = _of_node(structure, node)
        if own is None:
            continue
        by_key = {each.rules.key: each for each in own}
        queues = [v for v in instances.inside(structure, node, QUEUE).tolist() if rules_of(structure, v) is not None]
        if not queues:
            found.setdefault("", []).append(Poller("", node, tuple(own)))
        for v in queues:
            listed = rules_of(structure, v) or []
            managers = [_of_queue(structure, v, each, by_key) for each in listed]
            known = {each["key"] for each in listed}
            for_all = [
                each for each in own if each.rules.key not in known and each.rules.key not in _only_listed(structure, node)
            ]
            queue = instances.label(structure, v)
            found.setdefault(queue, []).append(Poller(queue, node, (*[each for each in managers if each is not None], *for_all)))
    return Pollers({queue: tuple(some) for queue, some in found.items()})


def rules_of(structure: Structure, v: int) -> list[dict[str, Any]] | None:
    """The managers that a property lists, in the short form of a file; None where there is no such property."""
    text = dict(structure.kind_of(v).properties).get(NESTED + RULES)
    if not isinstance(text, str):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict):  # of a node: what its pools do not say, by type and key
        found = [{"type": name.partition(".")[0], "key": name.partition(".")[2], **kept} for name, kept in found.items()]
    return (
        [each for each in found if isinstance(each, dict) and {"type", "key"} <= each.keys()] if isinstance(found, list) else None
    )


def _only_listed(structure: Structure, node: int) -> set[str]:
    return {each["key"] for each in rules_of(structure, node) or [] if each.get("listed")}


def _of_node(structure: Structure, node: int) -> list[Manager] | None:
    """The managers of a node: one for each type of pool directly in it, and those that are only rules; None for a node of another
    system.
    """
    stated = rules_of(structure, node)
    if stated is None:
        return None
    kept = {each["key"]: each for each in stated}
    found: list[Manager] = []
    seen: set[str] = set()
    types = dict.fromkeys(structure.type[structure.children(node)].tolist())
    for type_name in map(structure.types.__getitem__, types):
        pools = _pools(structure, node, type_name)
        if type_name == QUEUE:
            pools = pools[[rules_of(structure, v) is None for v in pools.tolist()]]
        if not len(pools):
            continue
        key = instances.word_of(type_name, structure.types).lower()
        rules = kept.get(key, {})
        seen.add(key)
        if rules.get("enabled", True):
            found.append(_manager(structure, _type_of(structure, pools, rules), key, rules, pools))
    for key, rules in kept.items():
        if key not in seen and rules.get("enabled", True):
            found.append(_manager(structure, rules["type"], key, rules, np.zeros(0, np.int32)))
    order = {key: at for at, key in enumerate(order_of(dict(structure.kind_of(node).properties)))}
    found.sort(key=lambda each: order.get(each.rules.key, len(order)))
    return found


def _of_queue(structure: Structure, v: int, rules: Mapping[str, Any], of_node: Mapping[str, Manager]) -> Manager | None:
    if rules.get("shared"):
        return of_node.get(rules["key"])
    if not rules.get("enabled", True):
        return None
    return _manager(structure, rules["type"], rules["key"], rules, _pools(structure, v, _type_in(structure, rules["key"])))


def _manager(structure: Structure, type_name: str, key: str, rules: Mapping[str, Any], pools: Int32) -> Manager:
    """A manager from its pools and what is stated of it besides."""
    known: dict[str, Any] = {one: rules[one] for one in ("quantity", "consumption", "list") if one in rules}
    if type_name == "quantity":
        known.setdefault("quantity", int(structure.size[pools].sum()))
    elif type_name == "discrete":
        known.setdefault("list", [instances.label(structure, v) for v in pools.tolist()])
    return Manager(configured(type_name, key, known if type_name != "highlander" else {}), pools)


def _type_of(structure: Structure, pools: Int32, rules: Mapping[str, Any]) -> str:
    if "type" in rules:
        return str(rules["type"])
    first = int(pools[0])
    is_bare = structure.id.item(first) < 0 and structure.name(first) == structure.types[structure.type.item(first)]
    return "quantity" if len(pools) == 1 and (is_bare or structure.size.item(first) != 1) else "discrete"


def _pools(structure: Structure, above: int, type_name: str) -> Int32:
    """The pools of a type directly in another."""
    found = instances.inside(structure, above, type_name) if type_name in structure.types else np.zeros(0, np.int32)
    direct: Int32 = found[structure.parent[found] == above]
    return direct


def _type_in(structure: Structure, key: str) -> str:
    return type_of(key, structure.types)


def order_of(properties: Mapping[str, Any]) -> list[str]:
    """The keys of the managers of a node in the order in which they are asked; empty where it is that of the pools."""
    text = properties.get(NESTED + ORDER)
    try:
        found = json.loads(text) if isinstance(text, str) else []
    except (ValueError, RecursionError):
        return []
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []

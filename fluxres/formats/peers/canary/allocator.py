"""How canary checks resources out: for each request the node with the most room, and on it the fullest instance that suffices.

Slots are packed within a node and spread over nodes.  Feasibility is decided from totals, so a request may be feasible and still
be refused, because the slots of one item come from one instance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fluxres.documents.document import shown
from fluxres.errors import InputError, NotHeld, UsageError
from fluxres.formats.peers.canary.language import NODES, NodeRequest

Slots = int | float
Machine = Mapping[str, Mapping[str, Mapping[str, Slots]]]
"""Slots by node, type and id."""


@dataclass(frozen=True, slots=True)
class InstanceSlots:
    """Slots of one instance that were checked out."""

    node: str
    id: str
    slots: Slots


Checkout = dict[str, list[InstanceSlots]]
"""Checked-out slots by type, in the order of the items."""


class Shelf:
    """The free slots of a machine.

    Args:
        allow_multinode: whether one test may have several nodes, from the resource pool.

    A request may name a type without the final `s`: a node that has no `cpu` serves it from `cpus`.

    >>> from fluxres.formats.peers.canary.language import Item, NodeRequest
    >>> shelf = Shelf({"n": {"gpus": {"0": 2, "1": 1}}})
    >>> shelf.checkout([NodeRequest((Item("gpus", 1),))])
    {'gpus': [InstanceSlots(node='n', id='1', slots=1)]}
    """

    def __init__(self, machine: Machine, *, allow_multinode: bool = True) -> None:
        self.allow_multinode = allow_multinode
        self._free, self._most = _copied(machine), _copied(machine)

    def free(self) -> dict[str, dict[str, dict[str, Slots]]]:
        return _copied(self._free)

    def is_feasible(self, requests: Sequence[NodeRequest]) -> bool:
        """Whether there is a node for each request, by the totals of the free slots; never for several requests without
        multinode.

        Errors: UsageError for a machine without nodes.
        """
        return self._nodes(requests) is not None

    def checkout(self, requests: Sequence[NodeRequest]) -> Checkout | None:
        """Take what is requested, each request from a node of its own; None, without a change, if that is not possible.

        Resources are in the order in which nodes are chosen: those of the largest request first.

        Errors: UsageError for a machine without nodes.
        """
        nodes = self._nodes(requests)
        if nodes is None:
            return None
        before = self.free()
        found: Checkout = {}
        for request, node in nodes:
            taken = self._everything(node) if request.exclusive else self._items(node, request)
            if taken is None:
                self._free = before
                return None
            for type_name, each in taken:
                found.setdefault(type_name, []).append(each)
                self._free[node][type_name][each.id] -= each.slots
        return found

    def checkin(self, resources: Mapping[str, Sequence[Any]]) -> None:
        """Return what was checked out: all of it or, if anything in it is wrong, nothing.

        Args:
            resources: by type, :class:`InstanceSlots` or mappings of node, id and slots.

        Errors: InputError for an unknown node, type or id and for invalid slots; NotHeld for more than is checked out.
        """
        back: dict[tuple[str, str, str], Slots] = {}
        for type_name, listed in resources.items():
            for each in listed:
                key, slots = self._checked(type_name, each)
                back[key] = back.get(key, 0) + slots
        for (node, type_name, name), slots in back.items():
            if self._free[node][type_name][name] + slots > self._most[node][type_name][name]:
                message = f"{slots} slots of {type_name} {name} returned, but fewer are checked out"
                raise NotHeld(message, where=f"{node}/{type_name}/{name}", hint="they may have been returned before")
        for (node, type_name, name), slots in back.items():
            self._free[node][type_name][name] += slots

    def _checked(self, type_name: str, each: Any) -> tuple[tuple[str, str, str], Slots]:
        given = {"node": each.node, "id": each.id, "slots": each.slots} if isinstance(each, InstanceSlots) else each
        if not isinstance(given, Mapping):
            raise InputError(f"expected node, id and slots, got {shown(given)}", where=type_name)
        node, name, slots = given.get("node"), given.get("id"), given.get("slots", 1)
        where = f"{node}/{type_name}/{name}"[:200]
        if isinstance(node, str) and node in self._free:
            type_name = self._type(node, type_name)
        if not isinstance(node, str) or not isinstance(name, str) or name not in self._free.get(node, {}).get(type_name, {}):
            raise InputError(f"no {type_name} of id {shown(name)} on a node {shown(node)}", where=where)
        if isinstance(slots, bool) or not isinstance(slots, int | float) or not 0 < slots < float("inf"):
            raise InputError(f"expected slots above 0, got {shown(slots)}", where=where)
        return (node, type_name, name), slots

    # -- selection ---------------------------------------------------------------------------------------------------

    def _nodes(self, requests: Sequence[NodeRequest]) -> list[tuple[NodeRequest, str]] | None:
        """A node for each request: the largest request first, each to the node with the most left."""
        if not self._free:
            raise UsageError("the resource pool has no nodes", hint="give it at least one")
        if len(requests) > 1 and not self.allow_multinode:
            return None
        found: list[tuple[NodeRequest, str]] = []
        left = dict.fromkeys(self._free)
        for request in sorted(requests, key=lambda request: -sum(item.slots for item in request.items)):
            totals = _totals(request)
            rooms = {node: room for node in left if (room := self._room(node, totals)) is not None}
            if not rooms:
                return None
            node = max(rooms, key=lambda node: rooms[node])  # ties go to the first
            found.append((request, node))
            del left[node]
        return found

    def _type(self, node: str, type_name: str) -> str:
        """The type of a node that a request means: that type or its plural."""
        types = self._free[node]
        return type_name if type_name in types or f"{type_name}s" not in types else f"{type_name}s"

    def _room(self, node: str, wanted: Mapping[str, Slots]) -> Slots | None:
        """How much would be left (squared); None if there is not enough."""
        needed: dict[str, Slots] = {}
        for type_name, slots in wanted.items():
            known = self._type(node, type_name)
            needed[known] = needed.get(known, 0) + slots
        room: Slots = 0
        for type_name, slots in needed.items():
            if type_name not in self._free[node]:
                return None
            rest = sum(self._free[node][type_name].values()) - slots
            if rest < 0:
                return None
            room += rest * rest
        return room

    def _items(self, node: str, request: NodeRequest) -> list[tuple[str, InstanceSlots]] | None:
        free = {type_name: dict(instances) for type_name, instances in self._free[node].items()}
        found = []
        for item in request.items:
            if item.type in NODES:
                continue
            type_name = self._type(node, item.type)
            instances = free.get(type_name, {})
            fitting = [name for name in sorted(instances, key=lambda name: instances[name]) if instances[name] >= item.slots]
            if not fitting:
                return None
            instances[fitting[0]] -= item.slots
            found.append((type_name, InstanceSlots(node, fitting[0], item.slots)))
        return found

    def _everything(self, node: str) -> list[tuple[str, InstanceSlots]]:
        return [
            (type_name, InstanceSlots(node, name, slots))
            for type_name, instances in self._free[node].items()
            for name, slots in instances.items()
            if slots > 0
        ]


@dataclass(frozen=True, slots=True)
class Test:
    """A waiting test.

    Args:
        cost: by :func:`cost`; tests of high cost come first.
    """

    __test__ = False  # not a test class for pytest
    id: str
    requests: tuple[NodeRequest, ...]
    cost: float


def cost(cpus: int, runtime_s: float) -> float:
    """The measure by which canary sorts tests.

    >>> cost(3, 4)
    5.0
    """
    return math.hypot(cpus, runtime_s)


def start(shelf: Shelf, tests: Iterable[Test]) -> dict[str, Checkout]:
    """Check out for all tests that can start now, by descending cost; returns the checkouts by test in that order.

    A test that finds no room waits and the next is tried; nothing is reserved for it.  No other test is started after one that
    uses its nodes exclusively.

    >>> from fluxres.formats.peers.canary.language import Item
    >>> shelf = Shelf({"n": {"cpus": {"0": 3}}})
    >>> def test(id, cpus, runtime_s): return Test(id, (NodeRequest((Item("cpus", cpus),)),), cost(cpus, runtime_s))
    >>> list(start(shelf, [test("a", 1, 5), test("b", 3, 1), test("c", 2, 9)]))
    ['c', 'a']
    """
    started = {}
    for test in sorted(tests, key=lambda test: -test.cost):
        found = shelf.checkout(test.requests)
        if found is not None:
            started[test.id] = found
            if any(request.exclusive for request in test.requests):
                break
    return started


def _copied(machine: Machine) -> dict[str, dict[str, dict[str, Slots]]]:
    return {node: {type_name: dict(instances) for type_name, instances in types.items()} for node, types in machine.items()}


def _totals(request: NodeRequest) -> dict[str, Slots]:
    found: dict[str, Slots] = {}
    for item in request.items:
        if item.type not in NODES:
            found[item.type] = found.get(item.type, 0) + item.slots
    return found

"""Write canary's resource pool: its nodes and the instances on each, with their slots and properties."""

from __future__ import annotations

import json as plain_json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import orjson

from fluxres.errors import UsageError
from fluxres.formats.format import Fact, Hold, Output
from fluxres.formats.peers.canary.read import UNIT
from fluxres.formats.peers.inventory import EMPTY, FRACTION_UNIT, FRACTIONS, NESTED, SLOTS
from fluxres.formats.peers.inventory_write import MARKS, Inventory, Lost, Share
from fluxres.graph.kinds import Kind, PropertyValue
from fluxres.graph.structure import Structure
from fluxres.match.matcher import MULTINODE

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
    inventory, lost = Inventory(structure, marks=frozenset({MULTINODE, NESTED + EMPTY})), Lost(structure)
    if form == "resources" and len(inventory.hosts) > 1:
        message = f"{len(inventory.hosts)} nodes, but the older form of a resource pool has one"
        raise UsageError(message, hint="write the form 'nodes'")
    words, more = inventory.words(str)
    writing = _Kinds(structure)
    nodes: list[dict[str, Any]] = []
    names = inventory.distinct_names(lost)
    for number, v in enumerate(inventory.hosts.tolist()):
        resources = {words[share.type]: _instances(inventory, share, writing, lost) for share in inventory.shares[number]}
        described, empty = _described(structure.kind_of(v))
        resources |= {word: [] for word in empty if word not in resources}
        node: dict[str, Any] = {"id": names[number], "resources": resources}
        if described:
            node["additional_properties"] = described
        nodes.append(node)
    parents = structure.parent[np.flatnonzero(inventory.written)]
    lost.moved[np.flatnonzero(inventory.written)[parents != inventory.hosts[inventory.host[inventory.written]]]] = True
    lost.mark("properties", np.flatnonzero(writing.unsaid[structure.kind]))
    pool = _top(structure, inventory)
    if form == "nodes":
        pool["nodes"] = nodes
    else:
        pool["resources"] = nodes[0]["resources"]
        host = inventory.hosts
        lost.mark("names", host[[structure.name(v) != "node0" for v in host.tolist()]])
        lost.mark("properties", host[["additional_properties" in nodes[0]]])
    data = orjson.dumps({"resource_pool": pool}) + b"\n"
    return Output(data, inventory.left_out(allocations, CARRIES, lost, more))


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


def _instances(inventory: Inventory, share: Share, kinds: _Kinds, lost: Lost) -> list[dict[str, Any]]:
    s, vertices = inventory.structure, share.vertices
    made = []
    labels = inventory.distinct(vertices, lost)
    numbers = s.kind[vertices].tolist()
    for v, label, size, number in zip(vertices.tolist(), labels, s.size[vertices].tolist(), numbers, strict=True):
        slots: int | float = 0 if kinds.ghost[number] else size
        if kinds.scaled[number]:
            slots = size / FRACTIONS if size % FRACTIONS else size // FRACTIONS
            if isinstance(slots, int) or round(slots * FRACTIONS) != size:
                lost.mark("sizes", np.array([v]))
                lost.mark("units", np.array([v]))
        entry: dict[str, Any] = {"id": str(label), "slots": slots}
        if kinds.described[number]:
            entry["properties"] = kinds.described[number]
        made.append(entry)
    return made

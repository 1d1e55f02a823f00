"""Write JQM's resource managers: pools with a size as quantities, other pools as items, and the rules kept on nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson

from fluxres.errors import UsageError
from fluxres.formats.format import Fact, Hold, Output
from fluxres.formats.peers.inventory import NESTED
from fluxres.formats.peers.inventory_write import Inventory, Lost, Share
from fluxres.formats.peers.jqm.read import RULES
from fluxres.graph.structure import Structure

CARRIES: Final[frozenset[Fact]] = frozenset({"names", "ids", "sizes"})


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """The nodes of a machine, each with a manager for every type it has.

    Errors: UsageError for a machine whose nodes are empty.  Cost: O(pools) array operations, O(items) Python.

    >>> from fluxres.formats.peers.jqm.read import read
    >>> from fluxres.documents.source import Source
    >>> write(read(Source(b"nbThread: 3")).structure).data
    b'{"nodes":[{"name":"node0","managers":[{"type":"quantity","key":"thread","quantity":3}]}]}\\n'
    """
    inventory, lost = Inventory(structure, marks=frozenset({NESTED + RULES})), Lost(structure)
    words, more = inventory.words(str.lower)
    nodes = []
    for number, v in enumerate(inventory.hosts.tolist()):
        managers = [_manager(inventory, share, words[share.type], lost) for share in inventory.shares[number]]
        nodes.append({"name": inventory.host_name(number), "managers": _ruled(managers, inventory.properties(v))})
        if not nodes[-1]["managers"]:
            more.append(f"pools: {structure.where(v)} has nothing to manage")
            nodes.pop()
    parents = structure.parent[np.flatnonzero(inventory.written)]
    lost.moved[np.flatnonzero(inventory.written)[parents != inventory.hosts[inventory.host[inventory.written]]]] = True
    if not nodes:
        raise UsageError("no node has anything to manage", hint="a manager counts the pools in a node")
    data = orjson.dumps({"nodes": nodes}) + b"\n"
    return Output(data, inventory.left_out(allocations, CARRIES, lost, more))


def _manager(inventory: Inventory, share: Share, key: str, lost: Lost) -> dict[str, Any]:
    s, vertices = inventory.structure, share.vertices
    lost.mark("units", vertices[[s.kinds[number].unit is not None for number in s.kind[vertices].tolist()]])
    if inventory.is_sum(share):
        first = int(vertices[0])
        if len(vertices) > 1:
            lost.moved[vertices] = True
        lost.mark("ids", vertices[s.id[vertices] >= 0])
        if s.id.item(first) < 0 and s.name(first) != share.type:
            lost.mark("names", vertices)
        return {"type": "quantity", "key": key, "quantity": sum(s.size[vertices].tolist())}
    lost.mark("sizes", vertices[s.size[vertices] != 1])
    labels = list(map(str, inventory.distinct(vertices, lost)))
    items = [" ".join(label.split()) for label in labels]
    if items != labels or len(set(items)) < len(items):
        inventory.relabelled("names", vertices, lost)
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

"""Write CTest's resource specification file.

The file describes one machine. If there are several nodes, one can be chosen by name; otherwise all instances are written as
those of one machine, with the name of the node prefixed to their ids, and this is reported.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson

from fluxres.errors import UsageError
from fluxres.formats.format import Fact, Hold, Output
from fluxres.formats.peers.ctest.groups import ID, TYPE
from fluxres.formats.peers.ctest.read import VERSION
from fluxres.formats.peers.inventory import LABEL, SLOTS
from fluxres.formats.peers.inventory_write import Inventory, Lost, Share
from fluxres.graph.structure import Structure

CARRIES: Final[frozenset[Fact]] = frozenset({"names", "ids", "sizes"})
_SLOTS_MAX: Final = (1 << 32) - 1


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None, node: str | None = None) -> Output:
    """The instances on the nodes of a machine.

    Args:
        node: name of the node to write; all nodes by default.

    Errors: UsageError for a node that does not exist.  Cost: O(instances) Python, since each is an entry of the file.

    >>> from fluxres.graph.recipe import Recipe, expand
    >>> machine = expand(Recipe("cluster", children=(Recipe("node", children=(Recipe("gpu", size=2),)),)), origin=0)
    >>> write(machine).data.decode().split("local")[1]
    '":[{"gpus":[{"id":"0","slots":2}]}]}\\n'
    """
    inventory, lost = Inventory(structure), Lost(structure)
    names = inventory.distinct_names(lost)
    if node is not None and node not in names:
        raise UsageError(f"no node {node!r}", hint=f"the nodes are {', '.join(names)}"[:200])
    chosen = [number for number, each in enumerate(names) if node is None or each == node]
    words, more = inventory.words(clean)
    local: dict[str, list[dict[str, Any]]] = {}
    for number in chosen:
        for share in inventory.shares[number]:
            prefix = f"{_id(names[number])}_" if len(chosen) > 1 else ""
            local.setdefault(words[share.type], []).extend(_instances(inventory, share, prefix, lost))
    inventory.written &= np.isin(inventory.host, chosen)
    lost.moved |= inventory.written & (structure.parent != inventory.hosts[np.maximum(inventory.host, 0)])
    if len(chosen) > 1:
        more.append(f"pools: which of {len(chosen)} nodes an instance is in")
        lost.moved |= inventory.written
    inventory.hosts = inventory.hosts[chosen]
    is_other = [structure.name(v) != "node0" for v in inventory.hosts.tolist()]
    lost.mark("names", inventory.hosts[is_other])  # the single node is read back as node0
    data = orjson.dumps({"version": VERSION, "local": [local]}) + b"\n"
    return Output(data, inventory.left_out(allocations, CARRIES, lost, more))


def clean(word: str) -> str:
    """A valid type name for CTest: lower case letters, digits and underscores, not starting with a digit.

    >>> clean("GPU/amd"), clean("1x")
    ('gpu_amd', '_1x')
    """
    made = re.sub(r"[^a-z0-9_]", "_", word.lower())
    return made if TYPE.fullmatch(made) else f"_{made}"


def _id(label: str) -> str:
    return label if ID.fullmatch(label) else re.sub(r"[^a-z0-9_]", "_", label.lower()) or "_"


def _instances(inventory: Inventory, share: Share, prefix: str, lost: Lost) -> list[dict[str, Any]]:
    s, vertices = inventory.structure, share.vertices
    kinds = s.kind[vertices].tolist()
    keeps = [LABEL in dict(s.kinds[number].properties) for number in kinds]
    given = list(map(str, inventory.labels(vertices)))
    own = [label for label, is_kept in zip(given, keeps, strict=True) if not is_kept]
    if len(set(own)) < len(own):  # a label may occur twice if it did so in the file it came from
        given = list(map(str, inventory.distinct(vertices, lost)))
    labels = [f"{prefix}{label}" for label in given]
    ids = list(map(_id, labels))
    if len(set(ids)) < len(set(labels)):
        ids = [f"{each}_{at}" for at, each in enumerate(ids)]
    if prefix or ids != labels:
        inventory.relabelled("names", vertices, lost)
    slots = s.size[vertices]
    lost.mark("sizes", vertices[slots > _SLOTS_MAX])
    lost.mark("units", vertices[[s.kinds[number].unit is not None for number in kinds]])
    is_none = [SLOTS in dict(s.kinds[number].properties) for number in kinds]
    return [
        {"id": each, "slots": 0 if is_ghost else min(size, _SLOTS_MAX)}
        for each, size, is_ghost in zip(ids, slots.tolist(), is_none, strict=True)
    ]

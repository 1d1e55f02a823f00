"""The choice of the inventory that an instance schedules on, by name or by request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fluxres.documents import arguments
from fluxres.errors import UsageError
from fluxres.instance.counted import CountedInventory
from fluxres.instance.graph_inventory import GraphInventory
from fluxres.instance.inventory import Inventory, NotUniform
from fluxres.instance.named import ASCENDING, DESCENDING, NamedInventory
from fluxres.instance.uniform import UniformRequest, interchangeable, one_pool, uniform_request
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph

KINDS: Final = ("graph", "auto", "named", "counted")


def make_inventory(kind: str, graph: ResourceGraph, match_policy: str) -> Inventory:
    """An inventory by name: graph, auto, named or counted.

    `named:TYPE` and `counted:TYPE` give the type of the pools; the default is node for `named`, and for `counted` the first type
    with pools of several units, else that of the only leaf.  `auto` begins with the graph, and the first request decides.

    Errors: UsageError for another name, and if the pools of the type are not interchangeable or not a single pool.
    """
    name, _, type_name = arguments.text(kind, "inventory").partition(":")
    if name not in KINDS or (type_name and name in ("graph", "auto")):
        raise UsageError(f"inventory: expected {', '.join(KINDS)}, got {kind!r:.80}")
    if name in ("graph", "auto"):
        return GraphInventory(graph, match_policy)
    structure = graph.structure
    if name == "named":
        try:
            return NamedInventory(graph, type_name or "node", match_policy)
        except NotUniform as error:
            raise UsageError(str(error), where=f"inventory {kind}", hint="use inventory='graph' or 'auto'") from None
    large = np.flatnonzero(structure.size[: structure.tree_end] > 1)
    leaves = np.flatnonzero(structure.end[: structure.tree_end] == np.arange(1, structure.tree_end + 1))
    first = large[:1] if len(large) else leaves if len(leaves) == 1 else leaves[:0]
    wanted = type_name or (structure.types[structure.type.item(int(first[0]))] if len(first) else "")
    pool = one_pool(structure, UniformRequest(wanted, 1, 1, False, True), 1 if type_name or not len(large) else 2)
    if pool is None:
        problem = f"there is no single pool of {wanted or 'several'} units to count"
        raise UsageError(problem, where=f"inventory {kind}", hint="use inventory='named:TYPE', 'graph' or 'auto'")
    return CountedInventory(graph, pool)


def fastest(graph: ResourceGraph, match_policy: str, request: Request, measure: str | None = None) -> Inventory:
    """The fastest inventory that supports a request."""
    wanted = uniform_request(request)
    return (wanted and _fastest(graph, match_policy, wanted, measure)) or GraphInventory(graph, match_policy, measure)


def _fastest(graph: ResourceGraph, match_policy: str, wanted: UniformRequest, measure: str | None) -> Inventory | None:
    structure = graph.structure
    if graph.records.jobs() or graph.records.stages or match_policy not in (*ASCENDING, *DESCENDING):
        return None
    pool = one_pool(structure, wanted)
    if pool is not None:
        return CountedInventory(graph, pool)
    if interchangeable(structure, wanted) is None:
        return None
    return NamedInventory(graph, wanted.type, match_policy, measure)

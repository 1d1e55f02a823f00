"""What every node is doing, as columns: what `sinfo` shows, and what to count a node as free by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from fluxres.arrays import Int32, Int64, Mask, UInt8
from fluxres.graph.forest import slice_of, topmost
from fluxres.graph.kinds import STATES
from fluxres.graph.structure import Structure
from fluxres.model.totals import available_units

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

NODE_STATES: Final = ("idle", "mixed", "allocated", "reserved", "draining", "drained", "down")
"""A node has the last of these that is true of it."""
_IDLE, _MIXED, _ALLOCATED, _RESERVED, _DRAINING, _DRAINED, _DOWN = range(len(NODE_STATES))


@dataclass(frozen=True, slots=True)
class NodeStates:
    """Nodes in ascending order, as columns of one length.

    Args:
        vertices: the nodes; where a machine has none, its execution targets or its root.
        codes: index into NODE_STATES. A node is allocated if a job holds it, or all of its cores; mixed if jobs hold a part of
            it; reserved in a maintenance window; drained if it takes no new work, draining as long as jobs hold something there;
            down also if its supplier is.
        cores: number of cores.
        free_cores: those in service that no job holds.
        because: the topmost pool whose state makes the node drained or down, -1 for none or a supplier.
    """

    vertices: Int32
    codes: UInt8
    cores: Int64
    free_cores: Int64
    because: Int32

    def __len__(self) -> int:
        return len(self.vertices)

    @property
    def states(self) -> list[str]:
        return [NODE_STATES[code] for code in self.codes.tolist()]

    def counts(self) -> dict[str, int]:
        """The number of nodes by state, without states of no node."""
        found = np.bincount(self.codes, minlength=len(NODE_STATES)).tolist()
        return {state: count for state, count in zip(NODE_STATES, found, strict=True) if count}

    def only(self, mask: Mask) -> NodeStates:
        """Some of the nodes."""
        columns = (self.vertices, self.codes, self.cores, self.free_cores, self.because)
        return NodeStates(*(column[mask] for column in columns))  # type: ignore[arg-type]  # columns in the order of the class


def nodes_of(structure: Structure) -> Int32:
    """The nodes of a machine, ascending, none below another; its execution targets where it has none, else its root."""
    found = structure.in_tree("node")
    if not len(found):
        found = np.sort(structure.execution_targets[1])
    if not len(found):
        return np.zeros(1, np.int32)
    return topmost(structure.end, found)


def of(graph: ResourceGraph, start: int, end: int) -> NodeStates:
    """The nodes in a window, in ticks.

    Cost: some vector scans over the pools.
    """
    structure, planner = graph.structure, graph.planner
    nodes = nodes_of(structure)
    stop = structure.end[nodes]
    free = planner.free_slice(0, structure.tree_end, start, end)
    used = np.concatenate([planner.busy(0, structure.tree_end, start, end), [structure.n]])
    is_whole = free[nodes] == 0
    has_use = is_whole | (used.searchsorted(stop) > used.searchsorted(nodes))
    cores = structure.in_tree("core")
    total, left = _within(cores, np.ones(len(cores), np.int64), nodes, stop), _within(cores, free[cores], nodes, stop)
    codes = np.zeros(len(nodes), np.uint8)
    codes[has_use] = _MIXED
    codes[is_whole | ((total > 0) & (left == 0))] = _ALLOCATED
    reserved, has_job = _maintained(graph, nodes, stop, start, end), has_use
    if reserved is not None:
        codes[reserved] = _RESERVED
        has_job = has_use & _has_job(graph, nodes, stop, start, end)
    because = np.full(len(nodes), -1, np.int32)
    outage = structure.outage
    if len(outage.roots):
        _take_out(structure, nodes, codes, because, has_job)
        left = _within(cores, available_units(graph, start, end, 0, structure.tree_end)[cores], nodes, stop)
    return NodeStates(nodes, codes, total, np.where(is_whole, 0, left), because)


def _within(pools: Int32, values: Int64, nodes: Int32, stop: Int32) -> Int64:
    """The sum of the values of the pools in each node."""
    sums = np.concatenate([[0], np.cumsum(values)])
    found: Int64 = sums[pools.searchsorted(stop)] - sums[pools.searchsorted(nodes)]
    return found


def _take_out(structure: Structure, nodes: Int32, codes: UInt8, because: Int32, has_job: Mask) -> None:
    """Mark nodes that take no new work: at, below or above which a pool says so, or whose suppliers do."""
    outage = structure.outage
    stated = outage.stated
    at = slice_of(stated, structure.end[stated], nodes)
    within = at >= 0
    because[within] = stated[at[within]]
    drains = np.zeros(len(nodes), np.bool_)
    drains[within] = structure.state[because[within]] == STATES.index("drain")
    codes[within | outage.is_cut_off(nodes)] = _DOWN
    codes[drains] = np.where(has_job[drains], _DRAINING, _DRAINED)


def _maintained(graph: ResourceGraph, nodes: Int32, stop: Int32, start: int, end: int) -> Mask | None:
    """The nodes that are reserved for maintenance, wholly or in part, in a window; None for none."""
    found: Mask | None = None
    for reservation in graph.records.reservations.values():
        if reservation.window_at(start, end) is None:
            continue
        tops = np.array(reservation.out, np.int32)
        ends = graph.structure.end[tops]
        inside = tops.searchsorted(stop) > tops.searchsorted(nodes)  # something in the node
        above = ends.searchsorted(nodes, "right") < tops.searchsorted(nodes, "right")  # something around it
        found = inside | above if found is None else found | inside | above
    return found


def _has_job(graph: ResourceGraph, nodes: Int32, stop: Int32, start: int, end: int) -> Mask:
    """The nodes of which jobs hold something in a window, not only reservations."""
    from fluxres.model import holdings

    held = [one.vertices for one in holdings.of(graph, start, end) if not one.is_maintenance]
    return holdings.nodes_held(np.concatenate([np.zeros(0, np.int64), *held]), graph.structure, nodes, stop)

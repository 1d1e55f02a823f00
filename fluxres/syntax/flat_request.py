"""A request as Flux's simple schedulers read it: numbers of nodes, slots, cores and GPUs, and nothing else.

Their reader walks a jobspec depth first and keeps the last slot, core and gpu that it visits. Counts above a node multiply the
node count, and unknown types are ignored. That loses most of what RFC 14 can express, but it determines where a job runs in
`sched-simple` and `sched-backfill`, with flux-core's own pools (RFC 20) and TreePool (RFC 49).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fluxres.errors import InputError
from fluxres.syntax import constraint as constraints
from fluxres.syntax import count as counts
from fluxres.syntax.constraint import Constraint
from fluxres.syntax.count import Count
from fluxres.syntax.jobspec import Request
from fluxres.syntax.vertex import SLOT, Vertex

NODE: Final = "node"
_COUNTED: Final = (NODE, SLOT, "core", "gpu")


@dataclass(frozen=True, slots=True)
class FlatRequest:
    """The contents of a request, flattened.

    Args:
        node_factor: product of the counts above a node; 0 if no node is requested.
        node_count: as written at the node; None if no node is requested.
        slot_count: per node, or in total if no node is requested.
        core_count: per slot; None if each slot takes a container or a node exclusively.
        gpu_count: per slot; None if none are requested.
        exclusive: nodes are allocated exclusively. Only explicit values in the request count; RFC 14's default inside slots
            does not.
        container: the level of a node that each slot takes exclusively (RFC 49), such as `numa`.
    """

    node_factor: int
    node_count: Count | None
    slot_count: Count
    core_count: Count | None
    gpu_count: Count | None = None
    exclusive: bool = False
    container: str | None = None
    duration_s: float = 0.0
    constraint: Constraint | None = None

    @property
    def nnodes(self) -> int:
        """The minimum number of nodes; 0 if only slots are requested."""
        return 0 if self.node_count is None else self.node_factor * self.node_count.min

    @property
    def nnodes_max(self) -> int | None:
        """The maximum number of nodes; None if unlimited."""
        if self.node_count is None:
            return 0
        return None if self.node_count.max is None else self.node_factor * self.node_count.max

    @property
    def nslots(self) -> int:
        """The minimum total number of slots."""
        return self.slot_count.min * (self.nnodes if self.node_count is not None else 1)

    @property
    def nslots_max(self) -> int | None:
        """The maximum total number of slots; None if unlimited."""
        if self.node_count is None:
            return self.slot_count.max
        if self.slot_count.max is None or self.nnodes_max is None:
            return None
        return self.slot_count.max * self.nnodes_max

    @property
    def slot_size(self) -> int:
        """Cores per slot; 0 if each slot takes a container or a node exclusively."""
        return 0 if self.core_count is None else self.core_count.min

    @property
    def gpu_per_slot(self) -> int:
        return 0 if self.gpu_count is None else self.gpu_count.min

    @property
    def is_stepped(self) -> bool:
        """Whether some counts between minimum and maximum are not acceptable, which these schedulers cannot honour."""
        return any(count is not None and not count.contiguous for count in (self.node_count, self.slot_count))


def flatten(request: Request, *, containers: bool = False) -> FlatRequest:
    """A request as counts.

    Args:
        containers: as TreePool reads it (RFC 49): a slot may take a level of a node exclusively (`slot/numa{x}`), or a node
            without giving its cores (`slot/node{x}`), and slots above nodes are distributed, one on each node.

    Errors: InputError if there is no slot, no core in it, or a count above a node that is not a single number.

    >>> from fluxres.syntax.jobspec import parse_shape
    >>> flat = flatten(Request(parse_shape("rack=5/slot=2{a}/[ssd;node{x}/slot{b}/core=2]")))
    >>> flat.nnodes, flat.nslots, flat.slot_size, flat.exclusive
    (10, 10, 2, True)
    >>> flatten(Request(parse_shape("slot=2/numa{x}")), containers=True).container
    'numa'
    """
    walk = _Walk()
    walk.through(request.resources, "resources", 1, fixed=True)
    slots, cores = walk.last.get(SLOT), walk.last.get("core")
    if slots is None:
        raise InputError("expected a slot", where="resources", hint="such as slot=4/core=2")
    container = walk.container if containers else None
    if cores is None and container is None and not (containers and walk.exclusive):
        raise InputError("expected cores in the slot", where="resources", hint="such as slot=4/core=2")
    nodes, factor = walk.last.get(NODE), walk.factor
    if containers and nodes is not None and walk.slot_above and factor > 1 and slots.min % factor == 0:
        slots = _divided(slots, factor)
    if walk.exclusive and nodes is None and container is None:
        nodes, factor, slots = slots, 1, counts.exactly(1)
    return FlatRequest(
        factor if nodes is not None else 0,
        nodes,
        slots,
        cores,
        walk.last.get("gpu"),
        walk.exclusive,
        container,
        request.duration_s or 0.0,
        None if request.constraint in (None, constraints.EVERYTHING) else request.constraint,
    )


class _Walk:
    """The last vertex of each kind visited in a walk through a request."""

    def __init__(self) -> None:
        self.last: dict[str, Count] = {}
        self.factor = 1
        self.exclusive = False
        self.slot_above = False
        self.container: str | None = None

    def through(self, vertices: Iterable[Vertex], place: str, factor: int, *, fixed: bool) -> None:
        for number, vertex in enumerate(vertices):
            here = f"{place}[{number}]"
            if vertex.type == NODE:
                if not fixed:
                    hint = "these schedulers do not support ranges above nodes"
                    raise InputError("expected one number for each count above a node", where=here, hint=hint)
                self.factor, self.slot_above = factor, SLOT in self.last
            if vertex.type in _COUNTED:
                self.last[vertex.type] = vertex.count
            elif vertex.exclusive and not vertex.children:
                self.container = vertex.type
            if vertex.exclusive and vertex.type in (NODE, SLOT):
                self.exclusive = True
            if vertex.type == NODE:
                self.through(vertex.children, f"{here}.with", factor, fixed=fixed)
            else:
                below = vertex.count.fixed is not None and fixed
                self.through(vertex.children, f"{here}.with", factor * vertex.count.min, fixed=below)


def _divided(count: Count, by: int) -> Count:
    least = {"min": count.min // by}
    return counts.parse(least if count.max is None else least | {"max": count.max // by})

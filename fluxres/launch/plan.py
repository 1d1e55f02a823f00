"""What each instance of a hierarchy has and how it divides that and its jobs among its children, and the plan made of it before
any process is started.

The parts are allocated and copied exactly as the instances will do it. So a hierarchy that needs more than the machine has, or
whose smallest instance is too small for a job, is refused before anything is started.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import structs

from fluxres import clock as clocks
from fluxres import limits
from fluxres.arrays import Int32
from fluxres.errors import InfeasibleRequest, LimitExceeded, UsageError
from fluxres.graph.draws import ONLY_A_WAY
from fluxres.graph.kinds import WAY
from fluxres.instance import Instance
from fluxres.instance.watchdog import watching
from fluxres.launch import work
from fluxres.launch.protocol import Begin, line
from fluxres.simulation.nesting.hierarchy import shares
from fluxres.syntax.jobspec import Request, as_request, parse_shape

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph


class Facts(NamedTuple):
    """Nodes (parts of nodes count as nodes), cores and GPUs."""

    nodes: int
    cores: int
    gpus: int

    @property
    def cores_per_node(self) -> int:
        """Rounded up if nodes differ."""
        return _per(self.cores, self.nodes)

    @property
    def gpus_per_node(self) -> int:
        """Rounded up if nodes differ."""
        return _per(self.gpus, self.nodes)


def _per(units: int, nodes: int) -> int:
    return -(-units // nodes) if nodes else units


def facts(graph: ResourceGraph) -> Facts:
    """The size of a graph.

    >>> from fluxres.simulation.machine import of_shape
    >>> facts(of_shape("node=4/[core=8;gpu=2]"))
    Facts(nodes=4, cores=32, gpus=8)
    """
    structure = graph.structure

    def pools(name: str) -> Int32:
        found = structure.of_type(name)
        return found[found < structure.tree_end]  # the roots of other trees are in auxiliary graphs

    def units(name: str) -> int:
        found = pools(name)
        own = found[(structure.flags[found] & WAY) == 0]
        return int(structure.size[own].sum())

    return Facts(len(pools("node")), units("core"), units("gpu"))


def child_begins(graph: ResourceGraph, begin: Begin) -> Iterator[tuple[Request, Begin]]:
    """For each child of an instance: the request for its part, and its parameters.

    Errors: InfeasibleRequest if there are fewer pools than children.
    """
    number = begin.fan_outs[0]
    unit, sizes = shares(graph, number, begin.tree_id, finest=_wanted(as_request(begin.request)))
    for child, size in enumerate(sizes):
        name = f"{begin.tree_id}.{child + 1}"
        yield (
            Request(parse_shape(f"slot={size}/{unit}")),
            structs.replace(
                begin,
                tree_id=name,
                store=f"{begin.folder}/{begin.tree_id}.db",
                graph=name,
                parent=os.getpid(),
                fan_outs=begin.fan_outs[1:],
                queue_policies=begin.queue_policies[1:] or begin.queue_policies,
                match_policies=begin.match_policies[1:] or begin.match_policies,
                jobs=begin.jobs // number + (child < begin.jobs % number),
            ),
        )


def _wanted(request: Request) -> str:
    """What a job asks for: the content of its slots, or else its first resource."""
    todo = list(request.resources)
    for vertex in todo:
        if vertex.is_slot:
            return vertex.children[0].type
        todo += vertex.children
    return request.resources[0].type


class Planned(NamedTuple):
    """A planned instance: its name, the jobs of it and those below, its resources, the number of its children."""

    tree_id: str
    jobs: int
    has: Facts
    children: int


def instances(fan_outs: tuple[int, ...]) -> int:
    """The number of instances, including the outermost.

    >>> instances(()), instances((2, 4))
    (1, 11)
    """
    return sum(prod(fan_outs[:level]) for level in range(len(fan_outs) + 1))


def plan(graph: ResourceGraph, begin: Begin) -> list[Planned]:
    """The instances of a hierarchy, parents before their children.

    Errors: LimitExceeded for too many; InfeasibleRequest if there are not enough pools for the instances, or in an instance for a
    job; UsageError for parameters that are not a valid hierarchy.
    """
    if begin.instances > limits.INSTANCE_PROCESSES_MAX:
        raise LimitExceeded(
            f"{begin.instances} instances, expected at most {limits.INSTANCE_PROCESSES_MAX} processes",
            where=begin.tree_id,
            hint="'fluxres simulate --topology' allows more",
        )
    if len(begin.fan_outs) >= limits.INSTANCE_DEPTH_MAX:
        raise LimitExceeded(f"expected at most {limits.INSTANCE_DEPTH_MAX} levels of instances", where=begin.tree_id)
    if begin.jobs < 0:
        raise UsageError(f"expected a number of jobs, got {begin.jobs}", where="jobs")
    work.parse(begin.job)
    line(begin)
    return list(_plan(graph, begin, as_request(begin.request)))


_ASKS_NO_PARENT: Final = (
    "a process has only the units of its part and cannot ask its parent for more: give the nodes a `draw`, "
    "or use `fluxres simulate --topology`, whose instances share suppliers"
)


def _plan(graph: ResourceGraph, begin: Begin, request: Request) -> list[Planned]:
    fan_outs = begin.fan_outs
    found = [Planned(begin.tree_id, begin.jobs, facts(graph), fan_outs[0] if fan_outs else 0)]
    top = Instance(
        graph,
        queue_policy=begin.queue_policies[0],
        match_policy=begin.match_policies[0],
        inventory="graph",
        name=begin.tree_id,
        clock=clocks.fixed(),
        events=False,
    )
    with watching(lambda: [top], [top.policy]):
        return found + _parts(top, begin, request)


def _parts(top: Instance, begin: Begin, request: Request) -> list[Planned]:
    """The instances below one, parents first."""
    graph, found = top.graph, list[Planned]()
    if not begin.fan_outs:
        try:
            top.submit(request, duration_s=begin.duration_s)
        except InfeasibleRequest as error:
            raise InfeasibleRequest(
                f"a job asks for more than this instance has: {error.message}",
                where=begin.tree_id,
                hint=_ASKS_NO_PARENT if ONLY_A_WAY in error.message else "use smaller fan-outs, or let jobs ask for less",
                reasons=error.reasons,
            ) from None
        return found
    for part, child in child_begins(graph, begin):
        job = top.submit(part)
        if job.started_at is None:
            raise top.queue.starts_nothing() or _nothing_left(graph, begin.tree_id, child.tree_id, part)
        found += _plan(graph.copy(job=str(job.id)), child, request)
    return found


def _nothing_left(graph: ResourceGraph, where: str, child: str, part: Request) -> InfeasibleRequest:
    """Why there is no part for one more child."""
    refusal = graph.why_not(part)
    short = [] if refusal is None else [one for one in refusal.parts if one.is_short]
    hint = "use a smaller fan-out"
    if any(one.each for one in short):
        hint = "the children share the complete machine, and its suppliers cannot supply all of it: copy a part (fluxres copy)"
    reasons = {} if refusal is None else refusal.reasons()
    said = "".join(f": {place}: {why}" for place, why in list(reasons.items())[:1]).removesuffix(".")
    return InfeasibleRequest(f"there is nothing left for {child}{said}", where=where, hint=hint, reasons=reasons)

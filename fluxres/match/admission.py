"""What a partition allows a request: its state, its longest time, its number of nodes (rule P2), and which one it is (rule P1).

The members of a partition are a mask of the nodes (`situation.Eligible`); this is about the rest.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf
from typing import Final, NamedTuple

import numpy as np
from msgspec import structs

from fluxres.clock import seconds
from fluxres.documents.document import plural
from fluxres.graph.partitions import Partition
from fluxres.graph.structure import Structure
from fluxres.match.result import Placement
from fluxres.match.typology import Typology
from fluxres.syntax import duration
from fluxres.syntax.count import Count
from fluxres.syntax.jobspec import Request
from fluxres.syntax.range import Range
from fluxres.syntax.vertex import Vertex

NODE: Final = "node"
_UNTIL_CHANGED: Final = {
    "down": "is down: no job starts in it",
    "drain": "is draining: it accepts no new jobs",
    "inactive": "is inactive: it accepts no jobs and starts none",
}


class Objection(NamedTuple):
    """One thing that a partition does not allow.

    Args:
        partition: its name.
        code: ``state``, ``max_time``, ``min_nodes`` or ``max_nodes``.
        text: in words, without the name of the partition in front.
        is_lasting: whether no change of states lifts it.
    """

    partition: str
    code: str
    text: str
    is_lasting: bool

    def sentence(self) -> str:
        return f"Partition '{self.partition}' {self.text}."


def of_request(structure: Structure, request: Request) -> Partition | None:
    """The partition that a request goes to: the one it names, else the default one of the machine, if there is one.

    A request whose queue is explicitly null is for the whole machine.

    Errors: UsageError for a partition that the machine does not have, with the nearest names.
    """
    name = request.queue
    if name is not None:
        return structure.partition(name)
    return None if "queue" in request.system else structure.default_partition


def objections(
    partition: Partition, request: Request, length: int | None, *, is_queued: bool, ideal: bool = False
) -> list[Objection]:
    """What a partition does not allow, states first.

    Args:
        length: ticks; None if it is not known.
        is_queued: the job was accepted before, and is to start; otherwise it is accepted and started at once.
        ideal: whatever the state of the partition is.
    """
    found: list[Objection] = []
    state = partition.state
    if not ideal and state != "up" and not (is_queued and partition.starts_jobs):
        found.append(Objection(partition.name, "state", _UNTIL_CHANGED[state], is_lasting=False))
    if length is not None:
        found += of_time(partition, length)
    least, most = nodes_of(request)
    if partition.max_nodes is not None and least > partition.max_nodes:
        text = f"allows at most {plural(partition.max_nodes, 'node')} per job, requested {least}"
        found.append(Objection(partition.name, "max_nodes", text, is_lasting=True))
    if 0 < most < partition.min_nodes:
        text = f"needs at least {plural(partition.min_nodes, 'node')} per job, requested {most:g}"
        found.append(Objection(partition.name, "min_nodes", text, is_lasting=True))
    return found


def not_accepted(partition: Partition, request: Request, length: int) -> list[Objection]:
    """Why a partition does not accept a job for its queue; empty if it does.  In a down partition, jobs wait."""
    found = objections(partition, request, length, is_queued=True, ideal=True)
    if not partition.accepts_jobs:
        found.insert(0, Objection(partition.name, "state", _UNTIL_CHANGED[partition.state], is_lasting=False))
    return found


def of_time(partition: Partition, length: int) -> list[Objection]:
    """That a partition does not allow a time, in ticks; empty if it does."""
    if partition.max_time_s == inf or seconds(length) <= partition.max_time_s:
        return []
    asked = duration.exact(seconds(length))
    text = f"allows at most {duration.exact(partition.max_time_s)} per job, requested {asked}"
    return [Objection(partition.name, "max_time", text, is_lasting=True)]


def nodes_of(request: Request) -> tuple[int, float]:
    """The least and the largest number of nodes that a request names; 0 if it names none."""
    return _sum(request.resources)


def _sum(vertices: tuple[Vertex, ...]) -> tuple[int, float]:
    least, most = 0, 0.0
    for vertex in vertices:
        low, high = _sum(vertex.children)
        low, high = low + (vertex.type == NODE), high + (vertex.type == NODE)
        if high:
            least += low * vertex.count.min
            most += high * (inf if vertex.count.max is None else vertex.count.max)
    return least, most


def within_limits(partition: Partition, request: Request) -> Request:
    """The request with the range of nodes it asks for cut to what the partition allows, as Slurm does with ``-N2-8``.

    Only a single range of nodes can be cut; several are left to :func:`number_of_nodes`.
    """
    if partition.max_nodes is None and not partition.min_nodes:
        return request
    resources = _cut(request.resources, partition.min_nodes, inf if partition.max_nodes is None else partition.max_nodes)
    return request if resources is None else replace(request, resources=resources)


def _cut(vertices: tuple[Vertex, ...], least: float, most: float) -> tuple[Vertex, ...] | None:
    """The resources with the one range of nodes cut; None if there is no such range, or nothing to cut."""
    having = [at for at, vertex in enumerate(vertices) if _sum((vertex,))[1]]
    if len(having) != 1:
        return None
    at = having[0]
    vertex = vertices[at]
    if vertex.type == NODE:
        if vertex.count.fixed is not None or _sum(vertex.children)[1]:
            return None
        count = _between(vertex.count, least, most)
        changed = None if count is None or count == vertex.count else structs.replace(vertex, count=count)
    else:
        times = vertex.count.fixed
        inside = None if not times else _cut(vertex.children, least / times, most / times)
        changed = None if inside is None else structs.replace(vertex, children=inside)
    return None if changed is None else (*vertices[:at], changed, *vertices[at + 1 :])


def _between(count: Count, least: float, most: float) -> Count | None:
    """The acceptable amounts from `least` to `most`; None if there are none, or no count can say it."""
    low = max(ceil(least), count.min)
    high = int(min(most, inf if count.max is None else count.max)) if most < inf or count.max is not None else None
    if high is not None and high < low:
        return None
    if count.steps is None:
        runs = tuple((max(a, low), min(b, high or b)) for a, b in count.runs if max(a, low) <= min(b, high or b))
        return Count(None, runs) if runs else None
    if count.contiguous:
        return Count(Range(low, high))
    return Count(Range(count.min, high, count.steps.operator, count.steps.operand))  # the steps begin where they began


def number_of_nodes(typology: Typology, found: Placement) -> int:
    """The number of nodes in which the pools of a match lie."""
    structure, nodes = typology.structure, typology.vertices(typology.node) if typology.node >= 0 else None
    if nodes is None:
        return 0
    pools = np.concatenate([found.vertices, found.shared])
    pools = pools[pools < structure.n]
    inside = typology.node_of[pools]
    marks = np.zeros(len(nodes) + 1, np.int64)
    at = np.unique(nodes.searchsorted(inside[inside >= 0]))
    marks[at] += 1
    marks[at + 1] -= 1
    above = found.vertices[found.whole]
    above = above[above < structure.n]
    above = above[typology.node_of[above] < 0]
    np.add.at(marks, nodes.searchsorted(above), 1)
    np.add.at(marks, nodes.searchsorted(structure.end[above]), -1)
    return int((np.cumsum(marks) > 0).sum())


def beyond_limits(partition: Partition, nodes: int) -> Objection | None:
    """The objection to the number of nodes of a match, for a request that does not state one."""
    if partition.max_nodes is not None and nodes > partition.max_nodes:
        most = plural(partition.max_nodes, "node")
        text = f"allows at most {most} per job, and what was found lies in {nodes}: ask for nodes, such as -N1"
        return Objection(partition.name, "max_nodes", text, is_lasting=False)
    if 0 < nodes < partition.min_nodes:
        least = plural(partition.min_nodes, "node")
        text = (
            f"needs at least {least} per job, and what was found lies in {nodes}: ask for nodes, such as -N{partition.min_nodes}"
        )
        return Objection(partition.name, "min_nodes", text, is_lasting=False)
    return None

"""What each job holds in a window, as columns: what lists of jobs and timelines are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fluxres.allocation.facts import JobFacts
from fluxres.arrays import Int32, Int64, Mask
from fluxres.clock import FOREVER
from fluxres.graph.forest import in_slices, topmost
from fluxres.graph.structure import Structure

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


class Holding(msgspec.Struct, frozen=True):
    """The records of one job, or of a maintenance reservation, that touch a window.

    Args:
        job: id.
        facts: its user and name, as far as known.
        is_maintenance: whether it is a reservation.
        vertices: of pools, and of edges with a capacity beyond them; ascending.
        starts, ends: in ticks.
        amounts: units.
    """

    job: str
    facts: JobFacts
    is_maintenance: bool
    vertices: Int64
    starts: Int64
    ends: Int64
    amounts: Int64

    @property
    def start(self) -> int:
        return int(self.starts.min())

    @property
    def end(self) -> int:
        return int(self.ends.max())


_UNKNOWN = JobFacts()


def of(graph: ResourceGraph, start: int, end: int = FOREVER) -> list[Holding]:
    """What jobs and reservations hold at some moment of a window, in the order of their first allocation.

    Cost: their records.
    """
    found = []
    records = graph.records
    for job in records.jobs():
        rows = _rows(graph, job)
        rows = rows[:, (rows[1] < end) & (start < rows[2])]
        if rows.shape[1]:
            found.append(Holding(job, records.facts.get(job, _UNKNOWN), job in records.reservations, *rows))
    return found


def _rows(graph: ResourceGraph, job: str) -> Int64:
    """Vertices, starts, ends and amounts of a job."""
    records = graph.records
    batch = records.batch_of(job)
    if batch is not None:
        length = len(batch.vertices)
        return np.array([batch.vertices, np.full(length, batch.start), np.full(length, batch.end), batch.amounts], np.int64)
    held = records.held
    rows = [(v, *span) for v in sorted(records.pools_of[job]) for span in held[v][job]]
    return np.array(rows, np.int64).reshape(-1, 4).T


def nodes_held(vertices: Int64, structure: Structure, nodes: Int32, stop: Int32) -> Mask:
    """Which nodes contain one of the pools, or are contained in one.

    Args:
        nodes: ascending, none below another.
        stop: one past the last descendant of each.
    """
    inside = vertices[vertices < structure.tree_end]
    first = stop.searchsorted(inside, "right")
    return in_slices(first, np.maximum(first, nodes.searchsorted(structure.end[inside])), len(nodes))


def overlapping(structure: Structure, own: Int64, others: Int64) -> Mask:
    """Which of the other pools are among some pools, above or below one of them.

    Args:
        own: ascending.
    """
    found: Mask = _within(structure, own, others) | _around(structure, own, others)
    return found


def is_held_by(structure: Structure, own: Int64, holding: Holding) -> bool:
    """Whether something of these pools is held: of them, of a pool below one, or all of a pool above one.

    A part of a pool above, such as some watts of the supplier of a PDU, is nothing of the pools below.

    Args:
        own: ascending.
    """
    is_whole = holding.amounts == structure.accounts.size[holding.vertices]
    around = _around(structure, own, holding.vertices) & is_whole
    return bool((around | _within(structure, own, holding.vertices)).any())


def _within(structure: Structure, own: Int64, others: Int64) -> Mask:
    ends = structure.accounts.end
    tops = topmost(ends, own)
    found: Mask = ends[tops].searchsorted(others, "right") < tops.searchsorted(others, "right")
    return found


def _around(structure: Structure, own: Int64, others: Int64) -> Mask:
    found: Mask = own.searchsorted(structure.accounts.end[others]) > own.searchsorted(others)
    return found

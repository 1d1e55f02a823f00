"""Between a live graph and the columns that are stored of its records.

Records are put back through the same checks that made them.  It takes some microseconds a span more than
filling the dictionaries would, and in return no file can talk a graph into breaking a rule.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fluxres.allocation.records import Records
from fluxres.clock import Clock
from fluxres.graph.kinds import STATES
from fluxres.graph.structure import Structure
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store.encoding import RecordColumns


def capture(records: Records) -> RecordColumns:
    """The records as columns.  Cost O(spans)."""
    jobs = records.jobs()
    number = {job: i for i, job in enumerate(jobs)}
    spans = [
        (number[job], v, start, end, amount)
        for v, holders in records.held.items()
        for job, held in holders.items()
        if job in number
        for start, end, amount in held
    ]
    return RecordColumns.of(jobs, spans, list(records.stages.values()))


def restore(structure: Structure, stored: RecordColumns, *, name: str, clock: Clock | None) -> ResourceGraph:
    """A graph that holds what the columns say.

    Errors: those of the operations, when the records break a rule.
    """
    # A pool that went down keeps what it holds (rule A7), but would not be given anew: states come last.
    states = structure.state.copy()
    structure.state[:] = 0
    graph = ResourceGraph(structure, name=name, clock=clock)
    _allocate(graph.records, stored)
    for staged in stored.stages:
        graph.records.stage(staged, graph.records.plan_stage(staged))
    for code in np.unique(states).tolist():
        structure.set_state(np.flatnonzero(states == code).astype(np.int32), STATES[code])
    return graph


def _allocate(records: Records, stored: RecordColumns) -> None:
    order = np.lexsort((stored.vertex, stored.end, stored.start, stored.job))
    columns = (stored.job, stored.start, stored.end)
    job, start, end = (column[order] for column in columns)
    cuts = np.flatnonzero((np.diff(job) != 0) | (np.diff(start) != 0) | (np.diff(end) != 0)) + 1
    targets = list(zip(stored.vertex[order].tolist(), stored.amount[order].tolist(), strict=True))
    bounds = [0, *cuts.tolist(), len(targets)] if targets else [0]
    for lo, hi in pairwise(bounds):
        owner, window = stored.jobs[job[lo]], (int(start[lo]), int(end[lo]))
        records.allocate(records.plan_allocate(targets[lo:hi], owner, *window), owner, *window)

"""Conversion between a live graph and the stored columns of its records.

Records from a store are restored without checks: a checksum guarantees that they are what was written, and every command must
load a machine with all nodes allocated. Records from a file may be handwritten, and go through the checks of an allocation.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from fluxres.allocation import plans
from fluxres.allocation.drawn import DrawRecords
from fluxres.allocation.planned import Batch
from fluxres.allocation.records import HIDDEN, Records
from fluxres.allocation.steps import Steps
from fluxres.arrays import Mask
from fluxres.clock import Clock
from fluxres.graph.structure import Structure
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store.encoding import DrawnRow, RecordColumns


def capture(records: Records) -> RecordColumns:
    """The records as columns, including those of stages.  Cost O(spans).

    What other instances draw from the suppliers of a child is left out, because it is not a record of this graph.
    """
    owners, spans, ledgers = records.columns()
    number = {owner: i for i, owner in enumerate(owners)}
    # Spans implied by an exclusive holding are written like records; restored below that holding, they are implied again.
    implied = [
        (number[owner], v, start, end, amount)
        for owner, pools in records.implied.items()
        for v, held in pools.items()
        for start, end, amount in held
    ]
    if implied:
        spans = np.concatenate([spans, np.array(implied, np.int64)])
    drawn = drawn_rows(ledgers, number)
    stages = list(records.stages.values())
    more = dict(records.facts), dict(records.reservations), dict(records.chosen), records.returns.in_order()
    return RecordColumns.of(owners, spans, stages, dict(records.slots_of), records.stages_made, drawn, *more)


def drawn_rows(drawn: DrawRecords, number: Mapping[str, int]) -> list[DrawnRow]:
    """The units drawn for pools, as stored.

    Args:
        number: of each owner.
    """
    return [
        (number[owner], consumers, account, start, end, units)
        for owner, consumers, account, held in drawn.rows()
        for start, end, units in held
    ]


def restore(structure: Structure, stored: RecordColumns, *, name: str, clock: Clock | None) -> ResourceGraph:
    """A graph with the records that :func:`capture` found.

    Errors: UsageError if units exceed the size of a pool.
    """
    graph = ResourceGraph(structure, name=name, clock=clock)
    records = graph.records
    if stored.owners:
        _restore_held(records, stored)
    records.facts, records.reservations = dict(stored.facts), dict(stored.reservations)
    records.chosen = dict(stored.chosen)
    if stored.returned:
        records.returns.restore(stored.returned, structure.parent.item)
    records.stages_made = max(records.stages_made, stored.stages_made)
    return graph


def _restore_held(records: Records, stored: RecordColumns) -> None:
    """What owners hold, with their stages."""
    structure = records.structure
    before = Records(structure, records.planner)
    columns = (stored.owner, stored.vertex, stored.start, stored.end, stored.amount)
    below = _below_whole(structure, stored)
    alike, batches = _batches(structure, stored, below)
    singly = ~alike
    rows = zip(*(column[singly].tolist() for column in (below, *columns)), strict=True)
    for implied, i, v, start, end, amount in rows:
        owner = stored.owners[i]
        of_owner: dict[int, Steps] = before.implied.setdefault(owner, {}) if implied else {}
        holders: dict[str, Steps] = {} if implied else before.held.setdefault(v, {})
        if implied:
            of_owner[v] = (*of_owner.get(v, ()), (start, end, amount))
        else:
            holders[owner] = (*holders.get(owner, ()), (start, end, amount))
    _put_drawn(before, stored)
    before.stages = {staged.stage: staged for staged in stored.stages}
    # Jobs are listed in the order they first held something, and not in that of their pools.
    records.pools_of = {owner: set() for owner in stored.owners}
    records.carry_over(before, np.arange(structure.n, dtype=np.int32))
    records.add_batches(batches)
    records.slots_of = dict(stored.slots_of)


def _batches(structure: Structure, stored: RecordColumns, below: Mask) -> tuple[Mask, dict[str, Batch]]:
    """Which spans are of owners with nothing but records over one window, and what these hold.

    Args:
        below: spans that may be implied.
    """
    order = np.lexsort((stored.vertex, stored.owner))
    owner, vertex, amount, start, end = (
        column[order] for column in (stored.owner, stored.vertex, stored.amount, stored.start, stored.end)
    )
    is_same = owner[1:] == owner[:-1]
    odd = below[order] | (vertex >= structure.n)
    odd[1:] |= is_same & ((start[1:] != start[:-1]) | (end[1:] != end[:-1]) | (vertex[1:] == vertex[:-1]))
    is_odd = np.zeros(len(stored.owners), np.bool_)
    is_odd[owner[odd]] = True
    is_odd[[row[0] for row in stored.drawn]] = True
    is_odd |= [name.startswith(HIDDEN) for name in stored.owners]
    accounts = structure.accounts
    size, within = accounts.size[vertex], accounts.end[vertex] > vertex + 1
    is_covered = (size > 1) & (amount == size) & within
    cuts = np.flatnonzero(~is_same) + 1
    found = dict[str, Batch]()
    for lo, hi in pairwise([0, *cuts.tolist(), len(owner)]):
        if not is_odd[owner[lo]]:
            covered = vertex[lo:hi][is_covered[lo:hi]].tolist()
            batch = Batch(vertex[lo:hi].astype(np.int32), amount[lo:hi].astype(np.int64), covered, int(start[lo]), int(end[lo]))
            found[stored.owners[owner[lo]]] = batch
    return ~is_odd[stored.owner], found


def _below_whole(structure: Structure, stored: RecordColumns) -> Mask:
    """Which spans are of a pool below one that their owner holds exclusively at some time: these may be implied."""
    order = np.lexsort((stored.vertex, stored.owner))
    vertex, owner = stored.vertex[order].astype(np.int64), stored.owner[order].astype(np.int64)
    accounts = structure.accounts
    stop = np.where(stored.amount[order] == accounts.size[vertex], accounts.end[vertex], 0)
    # The furthest end so far, reset for each owner.
    reach = np.maximum.accumulate(np.concatenate([[0], (owner * (accounts.n + 1) + stop)[:-1]])) - owner * (accounts.n + 1)
    same = np.concatenate([[False], owner[1:] == owner[:-1]])
    found = np.zeros(len(order), np.bool_)
    found[order] = same & (reach > vertex)
    return found


def allocate(structure: Structure, wanted: RecordColumns, *, name: str, clock: Clock | None) -> ResourceGraph:
    """A graph with these allocations.

    Errors: those of an allocation.
    """
    graph = ResourceGraph(structure, name=name, clock=clock)
    order = np.lexsort((wanted.vertex, wanted.end, wanted.start, wanted.owner))
    owner, start, end = (column[order] for column in (wanted.owner, wanted.start, wanted.end))
    cuts = np.flatnonzero((np.diff(owner) != 0) | (np.diff(start) != 0) | (np.diff(end) != 0)) + 1
    targets = list(zip(wanted.vertex[order].tolist(), wanted.amount[order].tolist(), strict=True))
    bounds = [0, *cuts.tolist(), len(targets)] if targets else [0]
    with structure.lifted():  # a pool that is down keeps its allocations (rule A7), but could not be allocated now
        for lo, hi in pairwise(bounds):
            job, window = wanted.owners[owner[lo]], (int(start[lo]), int(end[lo]))
            graph.records.allocate(plans.allocate(graph.records, targets[lo:hi], job, *window, implies=True), job, *window)
    graph.records.slots_of = dict(wanted.slots_of)
    _put_drawn(graph.records, wanted)
    return graph


def _put_drawn(records: Records, stored: RecordColumns) -> None:
    for i, consumers, account, start, end, units in stored.drawn:
        records.drawn.put(stored.owners[i], consumers, account, ((start, end, units),))

"""Checked changes and stages as values: :mod:`fluxres.allocation.plans` returns them, and the records apply them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import msgspec

from fluxres.allocation import steps
from fluxres.allocation.chosen import Chosen
from fluxres.allocation.drawn import NO_ROWS, Rows
from fluxres.allocation.steps import Steps
from fluxres.arrays import Int32, Int64

Window = tuple[int, int]
"""Start and end in ticks."""
Target = tuple[int, int]
"""A vertex and an amount of its units."""
Piece = tuple[int, int, int, int]
"""A vertex, an amount of its units, and the window (start, end) over which they are freed."""


class Batch(msgspec.Struct, frozen=True):
    """Everything that one job holds, over one window: the match of a job that held nothing before.

    Args:
        vertices: int32, ascending, each once, none below another that is held exclusively.
        amounts: int64, units of each.
        covered: those with more than one unit that are held exclusively and have pools below.
        start, end: window in ticks.
        drawn: the pools for which parts of it were drawn.
    """

    vertices: Int32
    amounts: Int64
    covered: list[int]
    start: int
    end: int
    drawn: Rows = msgspec.field(default_factory=lambda: NO_ROWS)

    def pieces(self) -> list[Piece]:
        """The pieces that free everything."""
        window = (self.start, self.end)
        return [(v, amount, *window) for v, amount in zip(self.vertices.tolist(), self.amounts.tolist(), strict=True)]


class Change(msgspec.Struct):
    """One checked step of an allocation: units of one pool.

    Args:
        covers: windows in which the owner then holds the pool exclusively.
        absorbs: records of the owner below the pool that become implied: (vertex, start, end).
        implied: windows in which an exclusive pool of the owner implies these units, so that they are not recorded.
    """

    v: int
    amount: int
    covers: list[Window]
    absorbs: list[tuple[int, int, int]]
    implied: list[Window] = msgspec.field(default_factory=list)


class Planned(NamedTuple):
    """Checked changes, and the window that they are over."""

    changes: list[Change]
    window: Window


def freed(pieces: Iterable[Piece]) -> dict[int, Steps]:
    """By vertex, the units over time that pieces free."""
    gone: dict[int, Steps] = {}
    for v, amount, s, e in pieces:
        gone[v] = steps.add(gone.get(v, ()), s, e, amount)
    return gone


class StagedWindow(NamedTuple):
    """What a stage locks in one window, and the pools for which parts of it are drawn."""

    start: int
    end: int
    targets: tuple[Target, ...]
    drawn: tuple[tuple[int, int, int], ...]


class Staged(msgspec.Struct, frozen=True):
    """A temporary lock on pools while a job is considered (RFC 4, "Staged").

    Args:
        targets: vertices and amounts; the largest amount if the units drawn from an account vary over time.
        expires: tick at which the lock expires.
        slots: number of slots of the request; 0 if pools were named.
        drawn: (pool, account, units) of what is drawn for pools, as in :data:`fluxres.allocation.drawn.Rows`.
        apart: (start, end, pool, account, units) instead, if the job draws some of it already for a part of the time.
        relied_on: (pool, start, end) of pools that the job holds exclusively, so that nothing is drawn for them a second time.
        variant: the chosen alternative of a request for amounts; the targets are then in the order in which they were chosen.
    """

    stage: str
    job: str
    targets: tuple[Target, ...]
    start: int
    end: int
    expires: int
    slots: int = 0
    drawn: tuple[tuple[int, int, int], ...] = ()
    apart: tuple[tuple[int, int, int, int, int], ...] = ()
    relied_on: tuple[tuple[int, int, int], ...] = ()
    variant: int | None = None

    @property
    def chosen(self) -> Chosen | None:
        """The order of the pools of a request for amounts."""
        if self.variant is None:
            return None
        suppliers = {account for _, account, _ in self.drawn}
        return Chosen(tuple(v for v, _ in self.targets if v not in suppliers), self.variant)

    def renumbered(self, consumers: Int32, accounts: Int32) -> Staged:
        """The stage on another structure, without pools that were removed.

        Args:
            consumers, accounts: new number by old number, -1 if removed. They differ for an account without units in the new
                structure: something may be drawn for it, but not from it.
        """
        rows = [(int(consumers[v]), int(accounts[account]), units) for v, account, units in self.drawn]
        apart = [(s, e, int(consumers[v]), int(accounts[account]), units) for s, e, v, account, units in self.apart]
        relied_on = [(int(accounts[v]), s, e) for v, s, e in self.relied_on]
        return msgspec.structs.replace(
            self,
            targets=tuple((int(accounts[v]), amount) for v, amount in self.targets if accounts[v] >= 0),
            drawn=tuple(row for row in rows if row[0] >= 0 and row[1] >= 0),
            apart=tuple(row for row in apart if row[2] >= 0 and row[3] >= 0),
            relied_on=tuple(row for row in relied_on if row[0] >= 0),
        )

    def parts(self) -> list[StagedWindow]:
        """What is locked, by windows during which it does not change; together they are the window of the stage."""
        if not self.apart:
            return [StagedWindow(self.start, self.end, self.targets, self.drawn)]
        moments = sorted({self.start, self.end, *(at for row in self.apart for at in row[:2])})
        rows = [
            (start, end, tuple(row[2:] for row in self.apart if row[0] <= start < row[1])) for start, end in pairwise(moments)
        ]
        drawn = [Counter[int]() for _ in rows]
        for total, (_, _, of_part) in zip(drawn, rows, strict=True):
            for _, account, units in of_part:
                total[account] += units
        most = Counter[int]()
        for total in drawn:
            most |= total
        named = Counter[int]()
        for v, amount in self.targets:
            named[v] += amount
        return [
            StagedWindow(start, end, tuple(sorted((named - most + total).items())), of_part)
            for total, (start, end, of_part) in zip(drawn, rows, strict=True)
        ]

"""Stages: temporary locks on pools while a job is considered (RFC 4, "Staged")."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from fluxres.allocation.planned import Target
from fluxres.graph.auxiliary import Int32


class StagedWindow(NamedTuple):
    """What a stage locks in one window, and for which pools parts of it are drawn."""

    start: int
    end: int
    targets: tuple[Target, ...]
    drawn: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Staged:
    """A temporary lock on pools while a job is considered (RFC 4, "Staged").

    Args:
        targets: vertices and amounts; the largest amount, for an account from which different amounts are drawn over time.
        expires: tick at which the lock expires.
        slots: number of slots of the request; 0 where pools were named.
        drawn: (pool, account, units) of what is drawn for pools, as in :data:`fluxres.allocation.drawn.Rows`.
        apart: (start, end, pool, account, units) instead, where the job draws some of it already for a part of the time.
        relied_on: (pool, start, end) of what the job holds exclusively, so that nothing is drawn for it a second time.
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

    def renumbered(self, consumers: Int32, accounts: Int32) -> Staged:
        """The stage on another structure, without what is gone there.

        Args:
            consumers, accounts: new by old number, -1 for what is gone; something may be drawn for an account that has no units
                there, and nothing can be drawn from it.
        """
        rows = [(int(consumers[v]), int(accounts[account]), units) for v, account, units in self.drawn]
        apart = [(s, e, int(consumers[v]), int(accounts[account]), units) for s, e, v, account, units in self.apart]
        relied_on = [(int(accounts[v]), s, e) for v, s, e in self.relied_on]
        return replace(
            self,
            targets=tuple((int(accounts[v]), amount) for v, amount in self.targets if accounts[v] >= 0),
            drawn=tuple(row for row in rows if row[0] >= 0 and row[1] >= 0),
            apart=tuple(row for row in apart if row[2] >= 0 and row[3] >= 0),
            relied_on=tuple(row for row in relied_on if row[0] >= 0),
        )

    def parts(self) -> list[StagedWindow]:
        """What is locked, by windows in each of which it is the same; together they are the window of the stage."""
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

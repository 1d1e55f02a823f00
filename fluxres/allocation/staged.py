"""Stages: temporary locks on pools while a job is considered (RFC 4, "Staged")."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from fluxres.allocation.planned import Target


class Part(NamedTuple):
    """What is locked in a window of a stage, and for which pools what of it is drawn."""

    start: int
    end: int
    targets: tuple[Target, ...]
    drawn: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Staged:
    """A temporary lock on pools while a job is considered (RFC 4, "Staged").

    Args:
        slots: of the request that it answers; 0 where pools were named.
        targets: of an account from which not the same is drawn all the time, the most.
        drawn: (pool, account, units) of what is drawn for pools, as in :data:`fluxres.allocation.drawn.Rows`.
        apart: (start, end, pool, account, units) instead, where the job draws some of it already for a part of the time.
        relied_on: (pool, start, end) of what the job holds exclusively, so that nothing is drawn for it once more.
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

    def parts(self) -> list[Part]:
        """By window in which it is the same, what is locked; all windows together are that of the stage."""
        if not self.apart:
            return [Part(self.start, self.end, self.targets, self.drawn)]
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
            Part(start, end, tuple(sorted((named - most + total).items())), of_part)
            for total, (start, end, of_part) in zip(drawn, rows, strict=True)
        ]

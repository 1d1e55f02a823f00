"""What all jobs hold, and the totals of a graph, as tables: sequences of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fluxres.clock import seconds
from fluxres.documents.document import plural
from fluxres.graph.structure import Structure
from fluxres.model.totals import Total
from fluxres.model.values import Span
from fluxres.shown import Tabular

Row = tuple[str, int, int, int, int]
"""Job, vertex, start and end in ticks, units."""


class Spans(Tabular):
    """Records of all jobs, by job, pool and start; iterates over :class:`Span`.  A value: it does not follow later changes.

    Args:
        structure: the machine that the vertices belong to.
        records: (job, vertex, start, end, units) in ticks.
    """

    __slots__ = ("records", "structure")

    def __init__(self, structure: Structure, records: Sequence[Row]) -> None:
        self.structure = structure
        self.records = records

    def __iter__(self) -> Iterator[Span]:
        names = self.structure.accounts.wheres([v for _, v, *_ in self.records])
        for (job, _, start, end, amount), name in zip(self.records, names, strict=True):
            yield Span(job, amount, seconds(start), seconds(end), name)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        jobs = len({job for job, *_ in self.records})
        return f"<Spans of {plural(jobs, 'job')}: {plural(len(self), 'record')}>"


class Totals(Tabular):
    """Pools and units by type; iterates over :class:`fluxres.model.totals.Total`.  A value: it does not follow later changes."""

    __slots__ = ("rows",)

    def __init__(self, rows: Sequence[Total]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Total]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<Totals of {len(self)} types>"

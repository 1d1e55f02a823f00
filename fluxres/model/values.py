"""The values that `ResourceGraph` returns: spans, allocations and stages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fluxres.allocation import steps
from fluxres.allocation.chosen import Chosen
from fluxres.allocation.planned import Target, Window
from fluxres.allocation.steps import Steps
from fluxres.arrays import Int32, Int64
from fluxres.clock import FOREVER, now_ticks, seconds
from fluxres.documents.document import plural
from fluxres.errors import StaleHandle
from fluxres.shown import Tabular
from fluxres.syntax.moment import in_words

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.match.result import Picked
    from fluxres.model.pool import Pool
    from fluxres.model.resource_graph import ResourceGraph

VerticesAndAmounts = tuple[Int32, Int64]
"""Vertices, ascending, each once, and the units of each."""
Record = tuple[int, int, int, int]
"""Vertex, start and end in ticks, units."""


@dataclass(frozen=True, slots=True)
class Span:
    """Units of one pool held by one job over ``[start, end)``.

    Args:
        job: id of the job.
        amount: units.
        start, end: seconds; infinity is no end.
        pool: path of the pool; not part of equality.

    >>> Span("j1", 4, 0.0, 3600.0).duration_s
    3600.0
    """

    job: str
    amount: int
    start: float
    end: float
    pool: str = field(default="", compare=False)

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.end - self.start


def columns(named: Iterable[Target]) -> VerticesAndAmounts:
    """Pairs of vertex and amount as columns; amounts of a repeated vertex are added."""
    total: dict[int, int] = {}
    for v, amount in named:
        total[v] = total.get(v, 0) + amount
    vertices = sorted(total)
    return np.array(vertices, np.int32), np.array([total[v] for v in vertices], np.int64)


class Allocation(Tabular):
    """Pools with units allocated to one job; iterates over the pools.  A value: it does not follow later changes.

    Two allocations are equal if they have the same job and the same spans of the same pools.

    Args:
        graph: the graph of the pools.
        job: id of the job.
        held: pools, and edges with a capacity, with the units of each, as columns or as pairs; empty if `several` is given.
        window: (start, end) in ticks, from the beginning of the earliest record to the end of the latest.
        nslots: number of slots of the requests; 0 if pools were named, None if unknown.
        implied: units drawn below pools held exclusively; in the graph of R, a parent instance gives them on request.
        several: the records, if their windows differ: (vertex, start, end, units), by vertex and start.
        picked: by item of a request that the rule of another system answered (`match.chooser`), in their order; only of an
            allocation as it was made, since records have no order.
        chosen: of requests for amounts, the order of the pools and the variant.

    Cost: O(1); pools and spans are created when they are first read.
    """

    __slots__ = (
        "_generation",
        "_graph",
        "_held",
        "_implied",
        "_nslots",
        "_pools",
        "_several",
        "_spans",
        "_structure",
        "chosen",
        "job",
        "picked",
        "window",
    )

    def __init__(
        self,
        graph: ResourceGraph,
        job: str,
        held: VerticesAndAmounts | list[Target],
        window: Window,
        nslots: int | None = 0,
        implied: Sequence[Target] = (),
        several: Sequence[Record] = (),
        picked: tuple[Picked, ...] = (),
        chosen: Chosen | None = None,
    ) -> None:
        self.job = job
        self.chosen = chosen
        self.window = window
        self.picked = picked
        self._graph, self._structure, self._generation = graph, graph.structure, graph.generation
        self._held, self._several = held, several
        self._nslots, self._implied = nslots, implied
        self._pools: tuple[Pool, ...] | None = None
        self._spans: tuple[Span, ...] | None = None

    @classmethod
    def of_records(
        cls,
        graph: ResourceGraph,
        job: str,
        held: Sequence[Record],
        nslots: int | None = None,
        implied: Sequence[Target] = (),
        chosen: Chosen | None = None,
    ) -> Allocation:
        """The allocation of records with different windows, ordered by vertex and start."""
        window = min((s for _, s, _, _ in held), default=0), max((e for _, _, e, _ in held), default=FOREVER)
        return cls(graph, job, [], window, nslots, implied, held, chosen=chosen)

    @classmethod
    def of_windows(cls, graph: ResourceGraph, job: str, parts: Iterable[tuple[Window, Iterable[Target]]]) -> Allocation:
        """The allocation of a job over consecutive windows."""
        spans: dict[int, Steps] = {}
        for (start, end), named in parts:
            for v, amount in named:
                spans[v] = steps.add(spans.get(v, ()), start, end, amount)
        return cls.of_records(graph, job, [(v, s, e, n) for v, held in sorted(spans.items()) for s, e, n in held], 0)

    @property
    def held(self) -> VerticesAndAmounts:
        """Pools, and edges with a capacity, each with its largest amount; without pools below an exclusive one."""
        if isinstance(self._held, list):
            self._held = _most(self._structure, self._several) if self._several else columns(self._held)
        return self._held

    @property
    def graph(self) -> ResourceGraph:
        return self._graph

    @property
    def structure(self) -> Structure:
        """The machine that the vertices of the records belong to; the graph may have changed since."""
        return self._structure

    @property
    def records(self) -> list[Record]:
        """(vertex, start, end, units) in ticks, by vertex and start."""
        if self._several:
            return list(self._several)
        vertices, amounts = self.held
        return [(v, *self.window, amount) for v, amount in zip(vertices.tolist(), amounts.tolist(), strict=True)]

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools that have a record, in vertex order."""
        if self._pools is None:
            vertices = np.unique(np.array([v for v, *_ in self._several], np.int32)) if self._several else self.held[0]
            self._pools = self._graph.handles(vertices[vertices < self._structure.n], self._generation)
        return self._pools

    @property
    def spans(self) -> tuple[Span, ...]:
        """The records, by pool and start."""
        if self._spans is None:
            self._spans = tuple([Span(self.job, n, seconds(s), seconds(e), name) for name, (_, s, e, n) in self.named])
        return self._spans

    @property
    def named(self) -> list[tuple[str, Record]]:
        """The records with the names of their pools."""
        records = self.records
        return list(zip(self._structure.accounts.wheres([v for v, *_ in records]), records, strict=True))

    @property
    def start(self) -> float:
        """Beginning of the earliest span in seconds."""
        return seconds(self.window[0])

    @property
    def end(self) -> float:
        """End of the latest span in seconds; infinity is no end."""
        return seconds(self.window[1])

    def R(self, scheduling: bool | str = False) -> dict[str, Any]:  # noqa: N802 - its usual name
        """The resource set of the job, R version 1 (RFC 20), as plain values.

        It has ranks, cores and gpus, node names, properties and times, and the number of slots of the requests. That number is
        left out if some pools were allocated or freed by name.

        Args:
            scheduling: include the graph of the pools (RFC 40), for a nested scheduler; reading it yields the graph that
                :meth:`ResourceGraph.copy` returns for the job. ``jgf_shorthand`` leaves out what is below exclusive pools.

        Errors: UsageError for another form of the graph.
        """
        from fluxres.allocation.resource_set import resource_set

        held = vertices, amounts = self.held
        accounts, n = self._structure.accounts, self._structure.n
        if accounts.n > n:  # R has no edges
            is_pool = vertices < n
            vertices, amounts = vertices[is_pool], amounts[is_pool]
        r = resource_set(self._structure, vertices, amounts, *self.window, self._nslots)
        if not scheduling:
            return r
        from fluxres.allocation.resource_set import scheduling as graph_of

        linked = accounts.linked
        asked = [(v, amount) for v, amount in self._implied if linked is not None and linked[v]]
        if asked:
            held = columns([*zip(held[0].tolist(), held[1].tolist(), strict=True), *asked])
        return {**r, "scheduling": graph_of(self._structure, *held, "jgf" if scheduling is True else scheduling)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Allocation):
            return NotImplemented
        same = self is other or (self.job == other.job and self.spans == other.spans)
        return same and [span.pool for span in self.spans] == [span.pool for span in other.spans]

    def __hash__(self) -> int:
        return hash(self.job)

    def __repr__(self) -> str:
        window = in_words(*self.window)
        return f"<Allocation {self.job}: {counted(self.structure, np.unique([v for v, *_ in self.records]))}, {window}>"

    def __iter__(self) -> Iterator[Pool]:
        return iter(self.pools)

    def __len__(self) -> int:
        return len(self.pools)


def counted(structure: Structure, vertices: NDArray[Any]) -> str:
    """Pools by type, such as `32 core, 4 gpu`, and edges as such."""
    pools = vertices[vertices < structure.n].astype(np.int32)
    numbers: dict[str, int] = {}
    for kind, number in zip(*(part.tolist() for part in np.unique(structure.kind[pools], return_counts=True)), strict=True):
        name = structure.kinds[kind].type
        numbers[name] = numbers.get(name, 0) + number
    texts = [f"{number} {name}" for name, number in numbers.items()]
    return ", ".join([*texts, *([f"{len(vertices) - len(pools)} edge"] if len(pools) < len(vertices) else [])]) or "no pools"


def _most(structure: Structure, records: Sequence[Record]) -> VerticesAndAmounts:
    """The largest amount of each pool, without pools below an exclusive one: R has one window, and one amount for each pool."""
    amounts = {v: amount for v, _, _, amount in sorted(records, key=itemgetter(3))}
    size, end, reach = structure.accounts.size, structure.accounts.end, 0
    named: list[Target] = []
    for v, amount in sorted(amounts.items()):
        if v >= reach:
            named.append((v, amount))
            reach = end.item(v) if amount == size.item(v) else reach
    return columns(named)


class Stage:
    """Pools locked for a job that is being considered, until committed, released, or expired (RFC 4, "Staged").

    As a context manager it releases what was not committed when the block is left.

    Args:
        graph: the resource graph.
        stage: id of the stage.
        job: the job it was made for.
    """

    __slots__ = ("graph", "job", "stage")

    def __init__(self, graph: ResourceGraph, stage: str, job: str) -> None:
        self.graph = graph
        self.stage = stage
        self.job = job

    def __repr__(self) -> str:
        what = f"<Stage {self.stage} of job {self.job}"
        try:
            staged = self.graph.records.stages.get(self.stage)
        except StaleHandle:  # the graph was destroyed
            staged = None
        if staged is None or staged.expires <= now_ticks(self.graph.clock):  # unlike now(), this does not ask the parent instance
            return f"{what}: committed, released or expired>"
        pools = len(staged.targets)
        return f"{what}: {plural(pools, 'pool')}>"

    @property
    def active(self) -> bool:
        """Whether it can still be committed."""
        staged = self.graph.records.stages.get(self.stage)
        return staged is not None and staged.expires > self.graph.now()

    def commit(self) -> Allocation:
        """Make it an allocation of its job.

        Errors: StaleHandle when it is no longer active.
        """
        return self.graph.commit(self.stage)

    def release(self) -> None:
        """Release the pools.

        Errors: StaleHandle when it is no longer active.
        """
        self.graph.release(self.stage)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.active:
            self.release()

"""Rows and columns for data frames: Arrow tables of pools, of what jobs hold, of totals, and of the jobs of an instance.

The columns of pools are made from arrays, without an object for each pool. Times are seconds, as everywhere; no end, and
a value that is unknown, is null. Words that repeat (types, states, jobs) are dictionary-encoded: categories in pandas and polars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fluxres.arrays import Int32, Mask
from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.errors import UsageError
from fluxres.formats.pool_texts import by_kind
from fluxres.graph.forest import slice_of
from fluxres.graph.kinds import STATES
from fluxres.graph.structure import Structure
from fluxres.model import Allocation, ResourceGraph, Selection
from fluxres.model.tables import Row, Spans, Totals
from fluxres.model.totals import available_units
from fluxres.render import arrow_names

if TYPE_CHECKING:
    from fluxres.instance import Instance

    Value = ResourceGraph | Selection | Allocation | Spans | Totals | Instance


def table(value: Value) -> Any:
    """The rows of a value as a pyarrow.Table. Errors: UsageError if pyarrow is not installed."""
    arrow = _needed("pyarrow")
    import_module("pyarrow.compute")
    match value:
        case ResourceGraph():
            with value.lock:
                return _pools(value, np.arange(value.structure.n, dtype=np.int32), arrow)
        case Selection():
            with value.graph.lock:
                return _pools(value.graph, value.vertices, arrow)
        case Allocation():
            return _held(value.structure, [(value.job, *record) for record in value.records], arrow)
        case Spans():
            return _held(value.structure, value.records, arrow)
        case Totals():
            return _totals(value, arrow)
    with value.lock:
        return _jobs(value, arrow)


def to_pandas(value: Value) -> Any:
    """The rows as a pandas.DataFrame."""
    _needed("pandas")
    return table(value).to_pandas()


def to_polars(value: Value) -> Any:
    """The rows as a polars.DataFrame."""
    return _needed("polars").from_arrow(table(value))


def _needed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise UsageError(f"{name} is not installed", hint=f"pip install {name}") from None


def _pools(graph: ResourceGraph, vertices: Int32, arrow: Any) -> Any:
    """A row for each pool, in vertex order: its data, what is free of it now, and the jobs with a record on it now."""
    s, (start, end) = graph.structure, graph.window(None, None)
    number, rank, jobs = s.id[vertices], s.rank[vertices], _jobs_of(graph, vertices, start, end)
    columns = {
        "path": arrow_names.paths(s, vertices, arrow),
        "name": arrow_names.names(s, vertices, arrow),
        "type": _of_kind(s, vertices, lambda kind: kind.type, arrow),
        "id": arrow.array(number, mask=number < 0),
        "rank": arrow.array(rank, mask=rank < 0),
        "host": _hosts(s, vertices, arrow),
        "size": arrow.array(s.size[vertices]),
        "unit": _of_kind(s, vertices, lambda kind: kind.unit, arrow),
        "free": arrow.array(available_units(graph, start, end)[vertices]),
        "state": _words(s.state[vertices].astype(np.int32), list(STATES), arrow),
        "jobs": _repeated(jobs, arrow),
    }
    return arrow.table(columns)


def _jobs_of(graph: ResourceGraph, vertices: Int32, start: int, end: int) -> list[str | None]:
    found: list[str | None] = [None] * len(vertices)
    held = np.fromiter((v for v in graph.records.held if v < graph.structure.n), np.int32)
    for at in np.flatnonzero(np.isin(vertices, held)).tolist():
        jobs = dict.fromkeys(job for job, *_ in graph.records.spans(vertices.item(at), start, end))
        found[at] = ", ".join(sorted(jobs)) or None
    return found


def _held(structure: Structure, records: Sequence[Row], arrow: Any) -> Any:
    """A row for each record, the pools and the edges with a capacity: job, path, type, units, start and end in seconds."""
    vertices = np.array([v for _, v, *_ in records], np.int64)
    starts, ends, amounts = (np.array([record[i] for record in records], np.int64) for i in (2, 3, 4))
    pools = np.minimum(vertices, structure.n - 1).astype(np.int32)
    is_edge = vertices >= structure.n
    columns = {
        "job": _repeated([job for job, *_ in records], arrow),
        "path": arrow.array(structure.accounts.wheres(vertices.tolist()), arrow.string()),
        "type": _of_kind(structure, pools, lambda kind: kind.type, arrow, is_edge),
        "host": _hosts(structure, pools, arrow, is_edge),
        "amount": arrow.array(amounts),
        "unit": _repeated([structure.accounts.unit(v) for v in vertices.tolist()], arrow),
        "start": arrow.array(starts / TICKS_PER_S),
        "end": arrow.array(ends / TICKS_PER_S, mask=ends >= FOREVER),
    }
    return arrow.table(columns)


def _totals(value: Totals, arrow: Any) -> Any:
    columns = {
        "type": arrow.array([each.type for each in value], arrow.string()),
        "pools": arrow.array([each.pools for each in value], arrow.int64()),
        "units": arrow.array([each.units for each in value], arrow.int64()),
        "unit": arrow.array([each.unit for each in value], arrow.string()),
        "available": arrow.array([each.available for each in value], arrow.int64()),
    }
    return arrow.table(columns)


def _jobs(instance: Instance, arrow: Any) -> Any:
    """A row for each job that the instance still knows, in the order of submission."""
    jobs = instance.jobs()

    def times(moments: Iterable[float | None]) -> Any:
        return arrow.array([None if at is None or at == float("inf") else at for at in moments], arrow.float64())

    columns = {
        "id": arrow.array([str(job.id) for job in jobs], arrow.string()),
        "name": arrow.array([job.name for job in jobs], arrow.string()),
        "user": _repeated([job.user for job in jobs], arrow),
        "state": _repeated([job.state.name for job in jobs], arrow),
        "result": _repeated([job.result for job in jobs], arrow),
        "urgency": arrow.array([job.urgency for job in jobs], arrow.int64()),
        "priority": arrow.array([job.priority for job in jobs], arrow.int64()),
        "duration": times(job.duration_s for job in jobs),
        "submitted": times(job.submitted_at for job in jobs),
        "started": times(job.started_at for job in jobs),
        "finished": times(job.finished_at for job in jobs),
    }
    return arrow.table(columns)


# -- columns -------------------------------------------------------------------------------------------------------------


def _words(numbers: NDArray[Any], words: Sequence[str], arrow: Any) -> Any:
    """A dictionary-encoded column: an index into the words, negative for null."""
    index = numbers.astype(np.int32)
    return arrow.DictionaryArray.from_arrays(arrow.array(index, mask=index < 0), arrow.array(words, arrow.string()))


def _repeated(texts: Sequence[str | None], arrow: Any) -> Any:
    numbers: dict[str, int] = {}
    index = np.array([-1 if text is None else numbers.setdefault(text, len(numbers)) for text in texts], np.int32)
    return _words(index, list(numbers), arrow)


def _of_kind(
    structure: Structure,
    vertices: Int32,
    text: Callable[[Any], str | None],
    arrow: Any,
    without: Mask | None = None,
) -> Any:
    of_kind = by_kind(structure, text, None)
    numbers = {word: i for i, word in enumerate(dict.fromkeys(word for word in of_kind if word is not None))}
    index = np.array([-1 if word is None else numbers[word] for word in of_kind], np.int32)[structure.kind[vertices]]
    return _words(index if without is None else np.where(without, -1, index), list(numbers), arrow)


def _hosts(structure: Structure, vertices: Int32, arrow: Any, without: Mask | None = None) -> Any:
    """The name of the node that a pool is or is in, null outside of nodes."""
    nodes = structure.in_tree("node")
    at = slice_of(nodes, structure.end[nodes], vertices)
    inside = at >= 0
    if without is not None:
        inside &= ~without
    used, index = np.unique(at[inside], return_inverse=True)
    numbers = np.full(len(vertices), -1, np.int32)
    numbers[inside] = index
    return _words(numbers, [structure.name(v) for v in nodes[used].tolist()], arrow)

"""R, the resource set that a job is given (RFC 20, version 1), from the pools it holds.

R knows execution targets (ranks), cores and gpus; everything else a job holds is not in it, except in the graph that it
carries on request for the scheduler below (RFC 40).  Ids are logical: the place of a core among the cores of its target,
whatever levels lie between.  Targets that are held alike share an entry, and whole ones, the usual case, are told alike by
two numbers and not by lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fluxres.clock import FOREVER, seconds
from fluxres.errors import UsageError
from fluxres.graph import jgf
from fluxres.graph.auxiliary import Int32
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, idset

CHILDREN: Final = ("core", "gpu")
GRAPHS: Final = {"jgf": "fluxion:jgf", "jgf_shorthand": jgf.SHORTHAND}
"""Forms of the graph that R may carry, and how each is called there."""
_BARRED: Final = frozenset("!&'\"^\\`|()")
"""Characters that RFC 20 has in no name of a property."""


def resource_set(structure: Structure, held: Iterable[tuple[int, int]], start: int, end: int, nslots: int = 0) -> dict[str, Any]:
    """R version 1 as plain values.

    Args:
        structure: the machine.
        held: (vertex, amount) of each pool; one that is held whole stands for all below it.
        start, end: window in ticks; no end leaves the expiration unset (0).
        nslots: slots of the request; where it had none (0), each target is one.

    Cost: arrays over the pools held, and a dictionary entry for each target that is held in part.
    Source: RFC 20.
    """
    size, stop = structure.size, structure.end
    tops = np.array([v for v, amount in held if amount == size.item(v) or stop.item(v) == v + 1], np.int32)
    parts = {child: _within(structure, child, tops) for child in CHILDREN}
    ranks = np.unique(np.concatenate([structure.rank[tops], *(structure.rank[v] for v in parts.values())]))
    ranks = ranks[ranks >= 0]
    execution: dict[str, Any] = {
        "R_lite": _entries(structure, ranks, parts),
        "starttime": seconds(start),
        "expiration": 0.0 if end >= FOREVER else seconds(end),
        "nodelist": [hostlist.format(names)] if (names := [structure.name(v) for v in _targets(structure, ranks)]) else [],
    }
    if properties := _properties(structure, ranks):
        execution["properties"] = properties
    if slots := nslots or len(ranks):
        execution["nslots"] = slots
    return {"version": 1, "execution": execution}


def scheduling(structure: Structure, held: Iterable[tuple[int, int]], form: str = "jgf") -> dict[str, Any]:
    """The graph of what is held, as R carries it under `scheduling`.

    Args:
        structure, held: as for :func:`resource_set`; each pool once.
        form: ``jgf``; ``jgf_shorthand`` leaves out what is below pools held whole.

    Errors: UsageError for another form.
    Cost: about 2 µs a pool of the graph.
    Source: RFC 40.
    """
    if form not in GRAPHS:
        raise UsageError(f"no form '{form}' of the graph in R", hint=f"there is {', '.join(GRAPHS)}")
    rows = np.array(sorted(held), np.int64).reshape(-1, 2)
    part = jgf.held(structure, rows[:, 0].astype(np.int32), rows[:, 1], shorthand=form == "jgf_shorthand")
    return {"writer": GRAPHS[form], **jgf.document(structure, part)}


def _within(structure: Structure, type_name: str, tops: Int32) -> Int32:
    """Pools of a type at or below these, ascending."""
    pools = structure.of_type(type_name)
    lo, hi = np.searchsorted(pools, tops), np.searchsorted(pools, structure.end[tops])
    lengths = hi - lo
    return np.asarray(pools[np.repeat(hi - np.cumsum(lengths), lengths) + np.arange(int(lengths.sum()))], np.int32)


def _targets(structure: Structure, ranks: Int32) -> list[int]:
    """The pool that is the execution target of each rank: the topmost one on it."""
    by_rank, vertices = structure.execution_targets
    return [int(v) for v in vertices[np.searchsorted(by_rank, ranks)]]


def _entries(structure: Structure, ranks: Int32, parts: dict[str, Int32]) -> list[dict[str, Any]]:
    if not len(ranks):
        return []
    tops = np.array(_targets(structure, ranks), np.int32)
    columns = [_ids(structure, child, tops, parts[child]) for child in CHILDREN]
    alike: dict[tuple[str, ...], list[int]] = {}
    for rank, texts in zip(ranks.tolist(), zip(*columns, strict=True), strict=True):
        alike.setdefault(texts, []).append(rank)
    # Every entry has cores (RFC 20), be it none.
    return [
        {"rank": idset.format(members), "children": {"core": core, "gpu": gpu} if gpu else {"core": core}}
        for (core, gpu), members in alike.items()
    ]


def _ids(structure: Structure, type_name: str, tops: Int32, held: Int32) -> list[str]:
    """For each target the logical ids of its held pools of a type, as an idset."""
    pools = structure.of_type(type_name)
    first, last = np.searchsorted(pools, tops), np.searchsorted(pools, structure.end[tops])
    lo, hi = np.searchsorted(held, tops), np.searchsorted(held, structure.end[tops])
    count, every = hi - lo, last - first
    known: dict[int, str] = {}
    texts = []
    for i, (n, total) in enumerate(zip(count.tolist(), every.tolist(), strict=True)):
        if n == total:
            if n not in known:
                known[n] = idset.format(range(n))
            texts.append(known[n])
        else:
            texts.append(idset.format(_numbers(pools, held[lo[i] : hi[i]], int(first[i]))))
    return texts


def _numbers(pools: Int32, held: Int32, first: int) -> Sequence[int]:
    found: NDArray[np.int64] = np.searchsorted(pools, held) - first
    numbers: list[int] = found.tolist()
    return numbers


def _properties(structure: Structure, ranks: Int32) -> dict[str, str]:
    """Properties of the targets by name, with the ranks that have them; a value stands behind an equals sign.

    What RFC 20 keeps from jobs is left out: names with a leading plus, which mean something to this instance only, and
    names that no reader takes.
    """
    found: dict[str, list[int]] = {}
    for rank, v in zip(ranks.tolist(), _targets(structure, ranks), strict=True):
        for key, value in structure.kind_of(v).properties:
            found.setdefault(key if value is None else f"{key}={value}", []).append(rank)
    return {name: idset.format(ranks_of) for name, ranks_of in found.items() if name[0] != "+" and not _BARRED & set(name)}

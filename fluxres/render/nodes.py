"""Nodes by state, as `sinfo` shows them, with the reason where there is one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from fluxres.clock import seconds
from fluxres.graph import state_notes
from fluxres.model import ResourceGraph
from fluxres.model.node_states import NODE_STATES, NodeStates, nodes_of
from fluxres.render.folding import hosts
from fluxres.render.text import PLAIN, Column, Style, table, when
from fluxres.syntax import duration

_ROLES: Final = {"down": "bad", "drained": "warn", "draining": "warn", "reserved": "job"}
_SHOWN: Final = ("idle", "mixed", "allocated", "reserved", "draining", "drained", "down")


class Reason(NamedTuple):
    """Why a node takes no work.

    Args:
        text: in words; empty without a note.
        user: the one who set the state.
        since: in seconds.
    """

    text: str = ""
    user: str | None = None
    since: float | None = None


def lines(
    graph: ResourceGraph,
    found: NodeStates,
    window: tuple[int, int],
    *,
    reasons: bool,
    partitions: Collection[str] = (),
    style: Style = PLAIN,
) -> list[str]:
    """Nodes as a table, those in the same state and, with `reasons`, for the same reason in one line; partition by partition.

    Args:
        window: in ticks.
        partitions: only these; empty for all, and for the nodes in none.
    """
    every = nodes_of(graph.structure)
    rows = [
        [
            *partition,
            NODE_STATES[code],
            str(len(part)),
            f"{int(part.free_cores.sum())}/{int(part.cores.sum())}" if part.cores.any() else "",
            hosts(graph.structure, part.vertices, every),
            *([reason.text, reason.user or "", "" if reason.since is None else when(reason.since)] if reasons else ()),
        ]
        for partition, members in _partitions(graph, found, partitions)
        for code, part, reason in _groups(graph, members, window, reasons=reasons)
    ]
    columns = [
        Column("PARTITION", role=_job),
        Column("AVAIL", role=_availability),
        Column("TIME LIMIT", right=True, drop=2),
        Column("STATE", role=_ROLES.get),
        Column("NODES", right=True),
        Column("FREE CORES", right=True, drop=1),
        Column("HOSTS"),
        *([Column("REASON"), Column("BY", drop=3), Column("SINCE", drop=2)] if reasons else ()),
    ]
    return table(columns, rows, style=style)


def _limit(seconds: float) -> str:
    return "unlimited" if seconds == float("inf") else duration.readable(seconds)


def _partitions(
    graph: ResourceGraph, found: NodeStates, only: Collection[str]
) -> Iterator[tuple[tuple[str, str, str], NodeStates]]:
    """Name (with a star: the default), state and longest time of each partition, with its nodes; last, nodes in none."""
    is_in_none = np.ones(len(found), np.bool_)
    for one in graph.partitions.values():
        is_member = one.covers(found.vertices)
        is_in_none &= ~is_member
        if only and one.name not in only:
            continue
        yield (one.name + "*" * one.is_default, one.state, _limit(one.max_time_s)), found.only(is_member)
    if not only:
        yield ("-" if graph.partitions else "", "", ""), found.only(is_in_none)


def _job(_text: str) -> str:
    return "job"


def _availability(text: str) -> str | None:
    return {"down": "bad", "inactive": "bad", "drain": "warn"}.get(text)


def _groups(
    graph: ResourceGraph, found: NodeStates, window: tuple[int, int], *, reasons: bool
) -> Iterator[tuple[int, NodeStates, Reason]]:
    for state in _SHOWN:
        code = NODE_STATES.index(state)
        part = found.only(found.codes == code)
        if not len(part):
            continue
        if not reasons or state in {"idle", "mixed", "allocated"}:
            yield code, part, Reason()
            continue
        why = each_reason(graph, part, window)
        for reason in dict.fromkeys(why):
            yield code, part.only(np.array([one == reason for one in why])), reason


def each_reason(graph: ResourceGraph, found: NodeStates, window: tuple[int, int]) -> list[Reason]:
    """Why each node takes no work, without a reason for those that do."""
    known: dict[tuple[int, int], Reason] = {}
    answers = []
    for v, code, because in zip(found.vertices.tolist(), found.codes.tolist(), found.because.tolist(), strict=True):
        state = NODE_STATES[code]
        if state in {"idle", "mixed", "allocated"}:
            answers.append(Reason())
            continue
        key = (-1, v) if because < 0 else (because, v if because == v else -1)
        if key not in known:
            known[key] = _reason(graph, v, because, state, window)
        answers.append(known[key])
    return answers


def _reason(graph: ResourceGraph, v: int, because: int, state: str, window: tuple[int, int]) -> Reason:
    structure = graph.structure
    if state == "reserved":
        return _maintenance(graph, v, window)
    if because < 0:
        others = [f"{structure.where(u)} is {structure.state_name(u)}" for u in structure.unavailable_because(v)]
        return Reason(", ".join(others))
    note, own = state_notes.of(structure, because), structure.state_name(because)
    if because == v:
        said = "" if note is None else note.reason or ""
        return Reason(said or (own if own not in {"down", "drain"} else ""), *(note[1:] if note is not None else ()))
    said = f": {note.reason}" if note is not None and note.reason else ""
    return Reason(f"{structure.name(because)} is {own}{said}", *(note[1:] if note is not None else ()))


def _maintenance(graph: ResourceGraph, v: int, window: tuple[int, int]) -> Reason:
    structure, facts = graph.structure, graph.records.facts
    for name, one in graph.records.reservations.items():
        reserved = one.window_at(*window)
        near = any(v <= u < structure.end.item(v) or u <= v < structure.end.item(u) for u in one.out)
        if reserved is not None and near:
            user = facts[name].user if name in facts else None
            return Reason(f"maintenance '{name}' until {when(seconds(reserved[1]))}", user, seconds(reserved[0]))
    return Reason()


def documents(graph: ResourceGraph, found: NodeStates, window: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """Each node as plain values."""
    structure, partitions = graph.structure, graph.partitions
    is_member = {name: set(one.members.tolist()) for name, one in partitions.items()}
    columns = (found.vertices, found.codes, found.cores, found.free_cores)
    for (v, code, cores, free), reason in zip(
        zip(*(column.tolist() for column in columns), strict=True), each_reason(graph, found, window), strict=True
    ):
        yield {
            "name": structure.name(v),
            "path": structure.where(v),
            "partitions": [name for name in partitions if v in is_member[name]],
            "state": NODE_STATES[code],
            "cores": cores,
            "free_cores": free,
            "reason": reason.text or None,
            "user": reason.user,
            "since": reason.since,
        }

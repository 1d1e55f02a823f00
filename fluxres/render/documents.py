"""Pools, records and problems as plain values: the documents of ``--json`` (specs/cli.md).

Keys are always present and lists are never null, so a script needs no special cases; no end is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from fluxres.allocation.planned import Staged
from fluxres.clock import FOREVER, seconds
from fluxres.graph import state_notes
from fluxres.graph.kinds import STATES
from fluxres.model import Allocation, Pool, Problem, ResourceGraph, Span
from fluxres.model.pool import units_free, units_held
from fluxres.model.totals import by_type
from fluxres.render.text import seconds_or_none

if TYPE_CHECKING:
    from fluxres.instance import Instance, Job
    from fluxres.match.result import Placement
    from fluxres.model.targets import Place
    from fluxres.store import GraphRow
    from fluxres.store.claims import Standing

Document = dict[str, Any]


def _others(p: Pool) -> list[Document]:
    """The other pools whose state keeps this one from new work."""
    structure = p.graph.structure
    found = structure.unavailable_because(p.vertex)
    return [{"path": structure.where(v), "state": structure.state_name(v)} for v in found if v != p.vertex]


def pool(p: Pool, window: tuple[int, int] | None = None) -> Document:
    """One pool: RFC 4's base data, its places, and what is held of it.

    Args:
        window: of `available` and `jobs`, in ticks; `allocated` is at its start. Now by default.
    """
    graph, v, note = p.graph, p.vertex, p.state_note
    start, end = graph.window(None, None) if window is None else window
    return {
        "path": p.where,
        "uris": p.uris,
        "uuid": p.uuid,
        "type": p.type,
        "basename": p.basename,
        "name": p.name,
        "id": p.id,
        "rank": p.rank,
        "size": p.size,
        "unit": p.unit,
        "state": p.state,
        "out_of_service_by": _others(p),
        "properties": dict(p.properties),
        "state_reason": None if note is None else note.reason,
        "state_user": None if note is None else note.user,
        "state_since": None if note is None else note.since,
        "tags": state_notes.without(dict(p.tags)),
        "exclusive_only": p.exclusive_required,
        "available": units_free(graph, v, start, end),
        "allocated": units_held(graph, v, start, start + 1),
        "jobs": sorted({job for job, *_ in graph.records.spans(v, start, end)}),
        "shared": sorted(graph.records.shared_jobs(v, start, end)),
        "staged": p.staged,
    }


def spans(graph: ResourceGraph, vertices: Iterable[int], start: int, end: int, job: str | None = None) -> list[Document]:
    """Records that touch the window (ticks), by job, start and pool."""
    found = [
        (holder, begin, v, stop, amount)
        for v in vertices
        for holder, begin, stop, amount in graph.records.spans(v, start, end)
        if job is None or holder == job
    ]
    return [
        {
            "job": holder,
            "path": graph.structure.accounts.where(v),
            "amount": amount,
            "start": seconds(begin),
            "end": seconds_or_none(seconds(stop)),
        }
        for holder, begin, v, stop, amount in sorted(found)
    ]


def span(s: Span) -> Document:
    return {"job": s.job, "path": s.pool, "amount": s.amount, "start": s.start, "end": seconds_or_none(s.end)}


def granted(allocation: Allocation) -> Document:
    """What a job has just been allocated."""
    return {
        "job": allocation.job,
        "start": allocation.start,
        "end": seconds_or_none(allocation.end),
        "pools": [{"path": name, "amount": amount} for name, (*_, amount) in allocation.named],
    }


def left(graph: ResourceGraph, job: str) -> list[Document]:
    """What a job still holds after a release, by job, start and pool."""
    held = graph.records.require_job(job) if graph.records.is_holder(job) else ()
    return spans(graph, sorted(held), 0, FOREVER, job)


def matched(graph: ResourceGraph, found: Placement, now: float) -> Document:
    """What a request would get, and when; `now` is in seconds."""
    return {
        "start": seconds(found.start),
        "end": seconds_or_none(seconds(found.end)),
        "now": seconds(found.start) <= now,
        "pools": [{"path": graph.structure.accounts.where(v), "amount": amount} for v, amount in found.targets],
        "shared": [graph.structure.where(v) for v in found.shared.tolist()],
    }


def graphs(rows: Sequence[GraphRow], in_use: str | None, standings: Mapping[str, Standing]) -> list[Document]:
    """The graphs of a store; `held` of one that was copied for a job of another."""
    return [
        {
            "graph": row.name,
            "in_use": row.name == in_use,
            "pools": row.pools,
            "events": row.seq,
            "created": row.created,
            "held": msgspec.to_builtins(standings.get(row.name)),
        }
        for row in rows
    ]


def totals(
    graph: ResourceGraph, at: float | None = None, duration_s: float | None = None, place: Place | None = None
) -> list[Document]:
    """Pools, units and available units by type: of everything, including pools outside containment, or at and below a place.

    Units are added up as in :meth:`ResourceGraph.aggregate`; a type whose units cannot be converted has a document for each unit.
    """
    return [
        {
            "type": each.type,
            "pools": each.pools,
            "units": each.units,
            "unit": each.unit,
            "available": each.available,
            "mixed": each.mixed,
        }
        for each in by_type(graph, *graph.window(at, duration_s), place)
    ]


def stage(graph: ResourceGraph, staged: Staged) -> Document:
    where = graph.structure.accounts.where
    return {
        "stage": staged.stage,
        "job": staged.job,
        "pools": [{"path": where(v), "amount": amount} for v, amount in staged.targets],
        "start": seconds(staged.start),
        "end": seconds_or_none(seconds(staged.end)),
        "expires": seconds_or_none(seconds(staged.expires)),
    }


def problem(p: Problem) -> Document:
    return {"severity": p.severity, "where": p.where, "message": p.message}


def summary(graph: ResourceGraph) -> dict[str, Any]:
    """Name, pools, levels, auxiliary graphs, states, jobs, and totals by type."""
    structure = graph.structure
    counts = np.bincount(structure.state, minlength=len(STATES)).tolist()
    return {
        "graph": graph.name,
        "pools": structure.n,
        "levels": int(structure.depth.max()) + 1,
        "subsystems": [
            {"name": s.name, "hierarchy": s.hierarchy, "edges": len(s), "pools": len(s.members)}
            for s in structure.subsystems.values()
        ],
        "states": {state: count for state, count in zip(STATES, counts, strict=True) if count},
        "jobs": graph.jobs(),
        "reservations": list(graph.reservations()),
        "stages": list(graph.records.stages),
        "types": totals(graph),
    }


def moved(graph: ResourceGraph, path: str, to: str, uuid: str) -> Document:
    """Where a pool was, and where it is after a move."""
    pool, (hierarchy, _) = graph.pool(uuid), graph.structure.lookup.graph_and_path(to)
    is_auxiliary = hierarchy in graph.subsystems
    place = next((uri for uri in pool.uris if is_auxiliary and uri.startswith(f"{hierarchy}:/")), pool.path)
    return {"path": path, "to": place, "uuid": uuid}


def edge(graph: ResourceGraph, source: str, target: str, subsystem: str, relation: str | None) -> Document:
    """An edge that was added, changed or removed, and how many there are."""
    edges = len(graph.structure.subsystem(subsystem))
    return {"subsystem": subsystem, "source": source, "target": target, "relation": relation, "edges": edges}


def part(graph: ResourceGraph, place: Place | None, at: float | None, duration_s: float | None) -> dict[str, Any]:
    """Totals by type at and below a place, or of everything, at some time."""
    named = None
    if place is not None:
        named = f"{place.name}:/" if place.above_roots else graph.structure.where(place.vertices[0])
    return {"graph": graph.name, "path": named, "types": totals(graph, at, duration_s, place)}


def nodes_of(one: Instance) -> int:
    """The number of nodes of an instance; parts of nodes count as nodes."""
    return len(one.graph.structure.in_tree("node"))  # the roots of other trees are in auxiliary graphs


def instances(top: Instance) -> list[dict[str, Any]]:
    """An instance and all below it, parents before their children."""
    return [
        {
            "address": one.address,
            "queue_policy": one.policy.name,
            "match_policy": one.match_policy,
            "nodes": nodes_of(one),
            "running": one.running,
            "pending": one.pending,
        }
        for one in top.walk()
    ]


def instance(one: Instance) -> Document:
    """An instance, with the addresses of those on its jobs."""
    return {
        "address": one.address,
        "name": one.name,
        "queue_policy": one.queue_policy,
        "match_policy": one.match_policy,
        "unit": one.inventory.measure,
        "has_accounting": one.ledger is not None,
        "pools": len(one.graph),
        "pending": one.pending,
        "running": one.running,
        "expires": one.expires_at,
        "job": None if one.job_in_parent is None else str(one.job_in_parent.id),
        "children": [child.address for child in one.children],
    }


def instance_job(job: Job) -> Document:
    """A job of an instance; no end is null."""
    return {
        "id": str(job.id),
        "state": job.state.name,
        "result": job.result,
        "name": job.name,
        "user": job.user,
        "account": job.account,
        "qos": job.qos,
        "partition": job.partition,
        "limit_reached": job.limit_reached,
        "is_booking": job.is_booking,
        "urgency": job.urgency,
        "priority": job.priority,
        "duration": seconds_or_none(job.duration_s),
        "submitted": job.submitted_at,
        "reserved": job.reserved_at,
        "started": job.started_at,
        "ends": None if job.ends_at is None else seconds_or_none(job.ends_at),
        "expires": job.instance.expires_at,
        "finished": job.finished_at,
        "status": job.status,
        "size": job.size,
        "unit": job.instance.inventory.measure,
        "pools": [{"path": path, "amount": amount} for path, amount in job.pools],
        "dependencies": [str(one) for one in job.dependencies],
        "exceptions": [one._asdict() for one in job.exceptions],
        "payload": job.payload,
        "child": None if job.child is None or job.child.is_closed else job.child.address,
    }

"""Changes as plain values: what a journal stores, a log prints and :func:`apply` replays.

Pools are named by path or URI and not by number, so that a journal outlives the generations; times are
ticks, so that replaying yields the same numbers.  An event is created before its change is applied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from fluxres import limits
from fluxres.allocation import plans, reserved, together
from fluxres.allocation.chosen import Chosen
from fluxres.allocation.drawn import NO_ROWS, Rows
from fluxres.allocation.facts import JobFacts, Reservation
from fluxres.allocation.planned import Staged
from fluxres.allocation.together import Share
from fluxres.clock import FOREVER, seconds
from fluxres.documents import arguments
from fluxres.errors import InputError, UsageError
from fluxres.graph.kinds import STATES, instead_of
from fluxres.graph.structure import Structure
from fluxres.model import extending, targets
from fluxres.syntax.name import is_name

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

Event = dict[str, Any]


class PatientSink(ABC):
    """A sink that can create an event later: it receives a function that does so, which stays valid."""

    @abstractmethod
    def __call__(self, event: Event) -> None:
        """Take an event that exists already."""

    @abstractmethod
    def later(self, event: Callable[[], Event], pools: int) -> None:
        """Take a function that creates an event, and the number of pools that the event names."""


def _named(structure: Structure, pools: list[tuple[int, int]] | list[tuple[int, int | None]]) -> list[list[Any]]:
    names = structure.accounts.wheres([v for v, _ in pools])
    return [[name, amount] for name, (_, amount) in zip(names, pools, strict=True)]


def _end(end: int | None) -> int | None:
    return None if end is None or end >= FOREVER else end


def _drawn(structure: Structure, rows: Rows | Sequence[tuple[int, int, int]]) -> Event:
    """The field that lists what was drawn for which pools, if anything was: [[pool, [[account, units], …]], …]."""
    found: dict[str, list[list[Any]]] = {}
    name_of = structure.accounts.where
    for pool, account, units in rows.tolist() if isinstance(rows, np.ndarray) else rows:
        found.setdefault(name_of(pool), []).append([name_of(account), units])
    return {"drawn": [[pool, parts] for pool, parts in found.items()]} if found else {}


def _apart(structure: Structure, staged: Staged) -> Event:
    """The fields that list what is drawn in which windows, and which pools draw already, where windows differ."""
    name_of, found = structure.accounts.where, Event()
    if staged.apart:
        found["apart"] = [[s, _end(e), name_of(v), name_of(account), units] for s, e, v, account, units in staged.apart]
    if staged.relied_on:
        found["relied_on"] = [[name_of(v), s, _end(e)] for v, s, e in staged.relied_on]
    return found


def _rows(graph: ResourceGraph, e: Event) -> Rows:
    """The rows that :func:`_drawn` named."""
    number = partial(targets.account, graph)
    rows = [(number(pool), number(account), units) for pool, parts in e.get("drawn", ()) for account, units in parts]
    return np.array(rows, np.int64).reshape(-1, 3)


def _about(facts: JobFacts | None) -> Event:
    """The fields with what is known about a job that gets something for the first time."""
    values = {} if facts is None else {key: getattr(facts, key) for key in JobFacts.__struct_fields__}
    return {key: msgspec.to_builtins(value) for key, value in values.items() if value is not None}


def _facts(e: Event) -> JobFacts | None:
    """The facts that :func:`_about` wrote."""
    values = [e.get(key) for key in JobFacts.__struct_fields__]
    return None if values.count(None) == len(values) else msgspec.convert(values, JobFacts)


def _chosen(graph: ResourceGraph, e: Event) -> Chosen | None:
    """The order of the pools, if it was that of a choice by amounts."""
    if "variant" not in e:
        return None
    suppliers = {name for _, parts in e.get("drawn", ()) for name, _ in parts}
    return Chosen(tuple(v for v, _ in _targets(graph, [each for each in e["pools"] if each[0] not in suppliers])), e["variant"])


def _slots(slots: int) -> Event:
    """The field with the number of slots of a request, if there was one."""
    return {"slots": slots} if slots else {}


def allocate(
    structure: Structure,
    job: str,
    pools: list[tuple[int, int]],
    start: int,
    end: int,
    slots: int = 0,
    drawn: Rows = NO_ROWS,
    facts: JobFacts | None = None,
    chosen: Chosen | None = None,
) -> Event:
    """Units of pools are allocated to a job; if they were chosen by amounts, in the order of `pools`."""
    event = {"event": "allocate", "job": job, "pools": _named(structure, pools), "start": start, "end": _end(end)}
    if slots:
        event["slots"] = slots
    if len(drawn):
        event |= _drawn(structure, drawn)
    if facts is not None:
        event |= _about(facts)
    return event if chosen is None else event | {"variant": chosen.variant}


def allocate_all(structure: Structure, shares: Sequence[Share]) -> Event:
    """Units of pools are allocated to several jobs, all or none."""
    parts = [
        allocate(
            structure, share.job, list(share.targets), share.start, share.end, share.slots, share.drawn, share.facts, share.chosen
        )
        for share in shares
    ]
    return {"event": "allocate_all", "parts": [{key: part[key] for key in part if key != "event"} for part in parts]}


def free(
    structure: Structure,
    job: str,
    targets: list[tuple[int, int | None]] | None,
    start: int | None,
    end: int | None,
    slots: int = 0,
    *,
    implied: bool = False,
    reason: str = "",
    status: int | None = None,
) -> Event:
    """A job frees pools; None for pools is everything, None for start and end all of the time.

    Args:
        implied: whether implied units are freed without the pool above.
        reason: why, if the job did not free them itself.
        status: exit status of the program, if the job was one that has ended.
    """
    pools = None if targets is None else _named(structure, targets)
    more = {**_slots(slots), **({"implied": True} if implied else {}), **({"reason": reason} if reason else {})}
    more |= {} if status is None else {"status": status}
    return {"event": "free", "job": job, "pools": pools, "start": start, "end": _end(end), **more}


def set_end(job: str, start: int, end: int) -> Event:
    """The end of what a job holds is moved; records that ended by `start` stay as they are."""
    return {"event": "set_end", "job": job, "start": start, "end": _end(end)}


def renew(job: str, lease: int) -> Event:
    """The lease of a job that lives by its processes is renewed."""
    return {"event": "renew", "job": job, "lease": lease}


def expire(before: int) -> Event:
    """Records that ended are dropped."""
    return {"event": "expire", "before": before}


def reserve(
    structure: Structure,
    name: str,
    reservation: Reservation,
    facts: JobFacts,
    held: Sequence[tuple[int, int, list[tuple[int, int]]]],
) -> Event:
    """A maintenance window is reserved; it holds these pools in these windows."""
    return {
        "event": "reserve",
        "job": name,
        "pools": structure.wheres(reservation.pools),
        "windows": [[start, _end(end)] for start, end in reservation.windows],
        "ignores_jobs": reservation.ignores_jobs,
        **({"affected": structure.wheres(reservation.affected)} if reservation.affected else {}),
        "held": [[start, _end(end), _named(structure, pools)] for start, end, pools in held],
        **_about(facts),
    }


def unreserve(name: str) -> Event:
    """A maintenance window is given up."""
    return {"event": "unreserve", "job": name}


def stage(structure: Structure, staged: Staged) -> Event:
    """Pools are locked for a job."""
    return {
        "event": "stage",
        "job": staged.job,
        "stage": staged.stage,
        "pools": _named(structure, list(staged.targets)),
        "start": staged.start,
        "end": _end(staged.end),
        "expires": _end(staged.expires),
        **_slots(staged.slots),
        **({} if staged.variant is None else {"variant": staged.variant}),
        **_drawn(structure, staged.drawn),
        **_apart(structure, staged),
    }


def stage_end(event: str, stage: str) -> Event:
    """A stage is committed or released."""
    return {"event": event, "stage": stage}


def instance(address: str, what: str, parts: list[Event]) -> Event:
    """What happened to jobs of an instance (RFC 21): it changes nothing of the graph."""
    return {"event": "instance", "instance": address, "what": what, "parts": parts}


def check_state(state: str) -> dict[str, Any]:
    """Fields of a state event.

    Errors: UsageError for a state RFC 4 and its extension do not know.
    """
    if arguments.text(state, "state") not in STATES:
        raise UsageError(f"no state '{state}'", hint=instead_of(state))
    return {"state": state}


def check_tag(key: str, value: str | None) -> dict[str, Any]:
    """Fields of a tag event.

    Errors: UsageError for a key or value that is empty, too long or not printable.
    """
    if not is_name(key, without="="):
        raise UsageError(f"tag: expected a key of 1 to {limits.NAME_LENGTH_MAX} printable characters without '=', got {key!r}")
    if value is not None:
        is_text = isinstance(value, str) and "\x00" not in value and arguments.is_unicode(value)
        if not is_text or len(value) > limits.VALUE_LENGTH_MAX:
            raise UsageError(f"tag {key}: expected a text of at most {limits.VALUE_LENGTH_MAX} characters, got {value!r:.80}")
    return {"key": key, "value": value}


def _targets(graph: ResourceGraph, pools: list[list[Any]]) -> list[tuple[int, Any]]:
    return [(targets.account(graph, where), amount) for where, amount in pools]


def _until(end: int | None) -> int:
    return FOREVER if end is None else end


# Replaying changes the records directly: the journal records when a stage expired, and the clock during replay must not decide
# it. Replaying may allocate pools that are out of service: the writer of the event checked that, and a job may keep a drained
# node.


def _apply_allocate(graph: ResourceGraph, e: Event) -> None:
    window = e["start"], _until(e["end"])
    with graph.structure.lifted():
        planned = plans.allocate(graph.records, _targets(graph, e["pools"]), e["job"], *window, implies=True)
    graph.records.allocate(planned, e["job"], *window, e.get("slots", 0), _rows(graph, e))
    graph.records.note_facts(e["job"], _facts(e))
    graph.records.note_chosen(e["job"], _chosen(graph, e))


def _apply_allocate_all(graph: ResourceGraph, e: Event) -> None:
    parts = [
        Share(
            f"part {i}",
            part["job"],
            _targets(graph, part["pools"]),
            part["start"],
            _until(part["end"]),
            slots=part.get("slots", 0),
            implies=True,
            drawn=_rows(graph, part),
            facts=_facts(part),
            chosen=_chosen(graph, part),
        )
        for i, part in enumerate(e["parts"], 1)
    ]
    with graph.structure.lifted():
        together.grant(graph.records, parts)


def _apply_free(graph: ResourceGraph, e: Event) -> None:
    pools = None if e["pools"] is None else _targets(graph, e["pools"])
    planned = plans.free(graph.records, e["job"], pools, e["start"], e["end"], implied=bool(e.get("implied")))
    graph.records.free(planned, e["job"], e.get("slots", 0))


def _apply_set_end(graph: ResourceGraph, e: Event) -> None:
    extending.plan(graph, e["job"], _until(e["end"]), e["start"]).apply(graph.records, e["job"])


def _apply_renew(graph: ResourceGraph, e: Event) -> None:
    graph.records.renew(e["job"], e["lease"])


def _apply_expire(graph: ResourceGraph, e: Event) -> None:
    for job, pieces in graph.records.ended(e["before"]):
        graph.records.free(pieces, job)
    graph.records.forget_reservations(e["before"])


def _apply_reserve(graph: ResourceGraph, e: Event) -> None:
    pools, affected = (tuple(sorted(graph.vertex(where) for where in of)) for of in (e["pools"], e.get("affected", ())))
    windows = tuple((start, _until(end)) for start, end in e["windows"])
    held = [(start, _until(end), _targets(graph, named)) for start, end, named in e["held"]]
    planned = reserved.plan(graph.records, e["job"], held)
    reservation = Reservation(pools, windows, e["ignores_jobs"], affected)
    reserved.apply(graph.records, e["job"], reservation, _facts(e) or JobFacts(), planned)


def _apply_unreserve(graph: ResourceGraph, e: Event) -> None:
    graph.records.drop_reservation(e["job"])


def _apply_stage(graph: ResourceGraph, e: Event) -> None:
    window = e["start"], _until(e["end"])
    drawn = tuple(map(tuple, _rows(graph, e).tolist()))
    pools = tuple(_targets(graph, e["pools"]))
    number = partial(targets.account, graph)
    apart = tuple((start, _until(end), number(v), number(account), units) for start, end, v, account, units in e.get("apart", ()))
    relied_on = tuple((number(v), start, _until(end)) for v, start, end in e.get("relied_on", ()))
    slots = e.get("slots", 0)
    staged = Staged(e["stage"], e["job"], pools, *window, _until(e["expires"]), slots, drawn, apart, relied_on, e.get("variant"))
    with graph.structure.lifted():
        planned = plans.stage(graph.records, staged, implies=True)
    graph.records.stage(staged, planned)


def _apply_commit(graph: ResourceGraph, e: Event) -> None:
    graph.records.commit(e["stage"], plans.commit(graph.records, e["stage"]))


def _apply_release(graph: ResourceGraph, e: Event) -> None:
    graph.records.release(e["stage"])


def _ends(e: Event) -> tuple[str, str, str]:
    return e["source"], e["target"], e["subsystem"]


def _edge(e: Event) -> dict[str, Any]:
    values = dict(e["attributes"])
    capacity = values.pop("capacity", ...)
    return (
        {"attributes": values} if capacity is ... else {"attributes": values, "capacity": inf if capacity is None else capacity}
    )


def _seconds(tick: int | None) -> float | None:
    return None if tick is None else seconds(tick)


def _apply_state(graph: ResourceGraph, e: Event) -> None:
    if not e["pools"]:
        return  # of a version that accepted none
    graph.set_state(e["pools"], e["state"], reason=e.get("reason"), user=e.get("user"), since=_seconds(e.get("since")))


def _apply_tag(graph: ResourceGraph, e: Event) -> None:
    if e["pools"]:
        graph.tag(e["pools"], e["key"], e["value"])


def _apply_untag(graph: ResourceGraph, e: Event) -> None:
    if e["pools"]:
        graph.untag(e["pools"], e["key"])


def _apply_merge(graph: ResourceGraph, e: Event) -> None:
    graph.merge(e["graph"], e["at"])


def _apply_apply(graph: ResourceGraph, e: Event) -> None:
    graph.apply(e["graph"], drain=e["drain"])


def _apply_unlink(graph: ResourceGraph, e: Event) -> None:
    graph.unlink(e["pool"], e["hierarchy"])


def _apply_move(graph: ResourceGraph, e: Event) -> None:
    graph.move(e["pool"], e["to"])


def _apply_add_edge(graph: ResourceGraph, e: Event) -> None:
    graph.add_edge(*_ends(e), relation=e["relation"], hierarchy=e["hierarchy"], **_edge(e))


def _apply_set_edge(graph: ResourceGraph, e: Event) -> None:
    graph.set_edge(*_ends(e), relation=e["relation"], **_edge(e))


def _apply_remove_edge(graph: ResourceGraph, e: Event) -> None:
    graph.remove_edge(*_ends(e), relation=e["relation"])


def _apply_instance(graph: ResourceGraph, e: Event) -> None:
    """What it allocated or freed has events of its own."""
    graph.changed_instances.add(e["instance"])


_APPLY: dict[str, Callable[[ResourceGraph, Event], None]] = {
    "allocate": _apply_allocate,
    "allocate_all": _apply_allocate_all,
    "free": _apply_free,
    "set_end": _apply_set_end,
    "renew": _apply_renew,
    "expire": _apply_expire,
    "reserve": _apply_reserve,
    "unreserve": _apply_unreserve,
    "stage": _apply_stage,
    "commit": _apply_commit,
    "release": _apply_release,
    "state": _apply_state,
    "tag": _apply_tag,
    "untag": _apply_untag,
    "merge": _apply_merge,
    "apply": _apply_apply,
    "unlink": _apply_unlink,
    "move": _apply_move,
    "add_edge": _apply_add_edge,
    "set_edge": _apply_set_edge,
    "remove_edge": _apply_remove_edge,
    "instance": _apply_instance,
}


def apply(graph: ResourceGraph, event: Event) -> None:
    """Replay one event.

    Errors: InputError for an unknown event or missing fields; otherwise those of the operation.
    """
    name = event.get("event") if isinstance(event, dict) else None
    change = _APPLY.get(name) if isinstance(name, str) else None
    if change is None:
        raise InputError(f"no event {name!r}", hint=f"events are {', '.join(_APPLY)}")
    before, clock = graph.revision, graph._clock_given
    graph._clock_given = None  # the clock ends no record: the journal has an event for each expiry before a change of the shape
    try:
        change(graph, event)
        graph.revision = before + 1
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"event '{event['event']}' is incomplete: {error}") from error
    finally:
        graph._clock_given = clock

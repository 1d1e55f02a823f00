"""What stands between a graph and its journal while a request is served.

The sink of a graph gets the event of each change before the change is made (`fluxres.model.changes`), and an error there prevents
it. So this one place refuses what a token does not allow, whichever operation it is. From here on, the time limit of the request
does not apply any more. (It still does while expired stages are dropped: any change begins with that.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from fluxres.errors import Forbidden
from fluxres.graph.structure import Structure
from fluxres.model import ResourceGraph
from fluxres.model.events import Event, PatientSink
from fluxres.service.access import Caller
from fluxres.service.time_limit import TimeLimit

Sink = Callable[[Event], None]


class _Thread(threading.local):
    """The request that a thread serves."""

    request: Serving | None = None


class Serving:
    """Within its block, the changes of this thread are those of a request."""

    __slots__ = ("_thread", "caller", "limit")

    def __init__(self, thread: _Thread, caller: Caller, limit: TimeLimit | None) -> None:
        self._thread, self.caller, self.limit = thread, caller, limit

    def __enter__(self) -> None:
        self._thread.request = self

    def __exit__(self, *_error: object) -> None:
        self._thread.request = None


class Tap(PatientSink):
    """A sink in front of the sink of a graph.

    Args:
        graph: whose sink it becomes.
    """

    def __init__(self, graph: ResourceGraph) -> None:
        self._graph = graph
        self._inner = graph.sink
        self._later = self._inner.later if isinstance(self._inner, PatientSink) else None
        self._thread = _Thread()
        graph.sink = self

    def serving(self, caller: Caller, limit: TimeLimit | None) -> Serving:
        """Within the block, the changes of this thread are those of a request."""
        return Serving(self._thread, caller, limit)

    def __call__(self, event: Event) -> None:
        self._admit(lambda: event)
        if self._inner is not None:
            self._inner(event)

    def later(self, event: Callable[[], Event], pools: int) -> None:
        self._admit(event)
        if self._later is not None:
            self._later(event, pools)
        elif self._inner is not None:
            self._inner(event())

    def _admit(self, event: Callable[[], Event]) -> None:
        request = self._thread.request
        if request is None:
            return
        if request.caller.paths is not None:
            _require_within(self._graph, event(), request.caller)
        if request.limit is not None and not (self._graph.records.stages and _is_over(self._graph, event())):
            request.limit.spare()  # not yet where a change begins by dropping expired stages


def _require_within(graph: ResourceGraph, event: Event, caller: Caller) -> None:
    """Refuse an event that concerns pools outside of the parts of the machine that a token is for.

    Errors: Forbidden.
    """
    kind = event["event"]
    if _is_over(graph, event):
        return  # it ends what has ended
    if kind == "release" or (kind in ("free", "set_end") and event.get("pools") is None) or kind == "commit":
        what = f"stage '{event['stage']}'" if kind in ("commit", "release") else f"job '{event['job']}'"
        caller.require_paths(_held(graph, event), what)
    elif kind == "unreserve":
        reserved = graph.records.reservations.get(event["job"])
        held = () if reserved is None else reserved.out
        caller.require_paths(graph.structure.wheres(held), f"reservation '{event['job']}'")
    elif kind == "expire":
        caller.require_whole("to expire records before their time")
    elif kind == "renew":
        return  # it ends nothing
    elif kind in ("allocate", "free", "stage", "state", "tag", "untag", "reserve"):
        require_pools(event, caller)
    elif kind == "allocate_all":
        for part in event["parts"]:
            require_pools(part, caller)
    else:
        raise Forbidden(f"token '{caller.name}' is for a part of the machine, and '{kind}' changes more than pools")


def require_pools(event: Event, caller: Caller) -> None:
    """Errors: Forbidden for pools outside of the parts that a token is for."""
    for item in event["pools"] or ():
        caller.require_path(item if isinstance(item, str) else item[0])
    for path in event.get("affected") or ():  # by a reservation
        caller.require_path(path)
    for _, _, held in event.get("held") or ():  # of a reservation
        for path, _ in held:
            caller.require_path(path)


def _is_over(graph: ResourceGraph, event: Event) -> bool:
    """Whether an event drops only what has ended: every change begins by dropping expired stages, its own and those of others."""
    if event["event"] == "expire":
        return int(event["before"]) <= graph.now()
    return event["event"] == "release" and graph.records.require_stage(event["stage"]).expires <= graph.now()


def _held(graph: ResourceGraph, event: Event) -> list[str]:
    """What a job holds, or a stage locks, by path."""
    records, structure = graph.records, graph.structure
    if event["event"] in ("commit", "release"):
        return _named(structure, [v for v, _ in records.require_stage(event["stage"]).targets])
    return _named(structure, list(records.require_job(event["job"])))


def _named(structure: Structure, numbers: list[int]) -> list[str]:
    return structure.accounts.wheres(numbers)

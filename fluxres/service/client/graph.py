"""`fluxres.connect`: a graph on a server, with the methods that schedulers use.

A method has the arguments of that of :class:`fluxres.ResourceGraph`, raises the same errors, and returns values with the same
names. A change is in the journal of the server when the method returns; each is sent with an idempotency key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from secrets import token_hex
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

import msgspec

from fluxres import clock, limits
from fluxres.clock import Length, Time, stopwatch
from fluxres.errors import FluxresError, StoreError, UnknownGraph
from fluxres.model.values import Span
from fluxres.service.client.connection import Connection, addresses, of_graph
from fluxres.service.client.values import (
    RemoteAllocation,
    RemoteMatch,
    RemotePool,
    RemoteRefusal,
    RemoteSelection,
    end_of,
    names_of,
)


def connect(url: str, *, graph: str | None = None, token: str | None = None, timeout_s: float = 60.0) -> RemoteGraph:
    """A graph on a server that `fluxres serve` runs.

    Args:
        url: ``http://HOST:PORT``, with ``?graph=NAME`` or without; several servers of one store with commas in between, of which
            the one that leads is found, also when it changes.
        graph: its name; by default the one in the URL, else the one in use.
        token: by default that of ``$FLUXRES_TOKEN``.
        timeout_s: to wait for an answer.

    Errors: StoreError if the server cannot be reached; UnknownGraph; Unauthorized.
    """
    servers = addresses(url)
    connection = Connection(servers, token, timeout_s)
    try:
        listed = connection.get("/v1/graphs").document()["graphs"]
    except FluxresError:
        connection.close()
        raise
    name = graph or servers[0].graph or next((one["graph"] for one in listed if one["in_use"]), None)
    known = [one["graph"] for one in listed]
    if name is None or name not in known:
        connection.close()
        said = f"no graph '{name}'" if name is not None else "no graph is in use"
        raise UnknownGraph(said, where=str(connection.at), hint=f"there is {', '.join(known) or 'none'}")
    return RemoteGraph(connection, name)


class RemoteGraph:
    """A graph on a server.

    Threads may share it. As a context manager it closes the connection of its thread.

    Args:
        connection: to the server.
        name: of the graph.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.name = name

    def __enter__(self) -> RemoteGraph:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection of this thread."""
        self.connection.close()

    def __repr__(self) -> str:
        return f"<RemoteGraph {self.name} at {self.connection.at}>"

    def __len__(self) -> int:
        return int(self.summary()["pools"])

    # -- asking ------------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """Totals by type, states, jobs: what `fluxres info --json` prints."""
        found: dict[str, Any] = self._get("")
        return found

    def pool(self, where: str) -> RemotePool:
        """The pool with this path, URI, uuid or short name. Errors: UnknownPool."""
        document = self._fetch(where)
        return RemotePool(document["path"], self._fetch, document)

    @property
    def root(self) -> RemotePool:
        return self.pool("/")

    def find(self, criteria: str, at: Time | None = None) -> RemoteSelection:
        """Pools that meet the criteria, read page by page. Errors: InputError with the column."""
        return self._selection("pools", criteria=criteria, at=_moment(at))

    def available(self, at: Time | None = None, duration_s: Length | None = None) -> RemoteSelection:
        """Pools with units free at a moment or throughout a window."""
        return self._selection("available", at=_moment(at), duration_s=_length(duration_s))

    def walk(self, where: str = "/", order: str = "pre", hierarchy: str | None = None) -> Iterator[RemotePool]:
        """A pool and everything below it."""
        yield from self._pages("walk", path=where, order=order, hierarchy=hierarchy)

    def aggregate(
        self,
        where: str = "/",
        at: Time | None = None,
        duration_s: Length | None = None,
        all: bool = False,
        hierarchy: str | None = None,
    ) -> dict[str, int]:
        """Available units by type in a subtree, including its top."""
        given = {"path": where, "at": _moment(at), "duration_s": _length(duration_s), "all": all, "hierarchy": hierarchy}
        found: dict[str, int] = self._get("aggregate", **given)["available"]
        return found

    def jobs(self) -> list[str]:
        """Jobs that hold anything now or later, running ones first."""
        found = list[str]()
        after: int | None = 0
        while after is not None:
            page = self._get("jobs", after=after, limit=limits.SERVICE_PAGE_MAX)
            found += [one["job"] for one in page["jobs"]]
            after = page["next"]
        return found

    def allocation(self, job: str, at: Time | None = None) -> RemoteAllocation:
        """What a job holds from now on, or at a moment. Errors: UnknownJob."""
        return self._held(job, self._get("job", job=job, at=_moment(at))["allocated"])

    def allocated(self, job: str, at: Time | None = None) -> RemoteSelection:
        """Pools with a record of a job. Errors: UnknownJob."""
        return RemoteSelection(sorted(self.allocation(job, at).pools, key=lambda pool: pool.path))

    def match(self, wanted: Any, at: Time | None = None, duration_s: Length | None = None, policy: str = "first") -> RemoteMatch:
        """What a request would get. Errors: InsufficientResources, InfeasibleRequest, InputError."""
        return RemoteMatch(self._question("match", wanted, at, duration_s, policy), self._fetch)

    def earliest(
        self, wanted: Any, after: Time | None = None, duration_s: Length | None = None, policy: str = "first"
    ) -> float | None:
        """The first start, in seconds, at which a request has a match; None if there is none."""
        from fluxres.errors import InfeasibleRequest, InsufficientResources

        try:
            return float(self._question("when", wanted, after, duration_s, policy)["start"])
        except (InsufficientResources, InfeasibleRequest):
            return None

    def satisfiable(self, wanted: Any) -> bool:
        """Whether a request could ever be matched, with everything up and nothing held."""
        return bool(self._question("satisfiable", wanted, None, None, "first")["satisfiable"])

    def why_not(
        self, wanted: Any, at: Time | None = None, duration_s: Length | None = None, policy: str = "first"
    ) -> RemoteRefusal | None:
        """Why a request has no match; None if it has one."""
        found = self._question("why", wanted, at, duration_s, policy)
        return None if found["matches"] else RemoteRefusal(found)

    def check(self) -> list[dict[str, Any]]:
        """Check all rules on the live data; empty if all hold."""
        found: list[dict[str, Any]] = self._get("check")["problems"]
        return found

    def log(self, after: int = 0, *, job: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Events of the journal after a number, oldest first."""
        found: list[dict[str, Any]] = self._get("log", after=after, job=job, limit=limit)["log"]
        return found

    def save(self, *, format: str = "cluster", where: str = "/") -> bytes:
        """The graph, or a pool and everything below it, as a file in any format."""
        path = of_graph(self.name, f"document?{urlencode({'format': format, 'path': where})}")
        return self.connection.get(path).body

    def events(self, after: int | None = None) -> Iterator[dict[str, Any]]:
        """The events after a number of the journal, and then each as it happens: number, timestamp, name and context (RFC 18).

        A stream that breaks is resumed where it ended, at another server if there are several.

        Errors: StoreError if no server can be reached again.
        """
        path = of_graph(self.name, "events")
        until_s = stopwatch() + limits.SERVICE_FOLLOW_SECONDS
        while True:
            query = f"?after={after}" if after is not None else ""
            number = 0
            try:
                for line in self.connection.stream(path + query, {}):
                    until_s = stopwatch() + limits.SERVICE_FOLLOW_SECONDS
                    if line.startswith(b"id: "):
                        number = int(line[4:])
                    elif line.startswith(b"data: "):
                        yield {"number": number, **msgspec.json.decode(line[6:])}
                        after = number
            except StoreError:
                if not self.connection.is_one_of_several or stopwatch() > until_s:
                    raise
            clock.sleep(_RESUME_S)

    # -- changing ----------------------------------------------------------------------------------------------------

    def allocate(
        self,
        wanted: Any,
        *,
        job: str,
        start: Time | None = None,
        end: Time | None = None,
        duration_s: Length | None = None,
        at: Time | None = None,
        policy: str = "first",
        user: str | None = None,
        name: str | None = None,
    ) -> RemoteAllocation:
        """Allocate pools to a job, all or none, in addition to those it holds.

        Errors: InsufficientResources with the earliest time, InfeasibleRequest, UnknownPool, UsageError; nothing changes then.
        """
        begin = start if start is not None else at
        whose = {"user": user, "name": name, "policy": policy, "grow": True}
        return self._granted("allocate", wanted, job, {**_window(begin, end, duration_s), **whose})

    def allocate_orelse_reserve(
        self,
        wanted: Any,
        *,
        job: str,
        after: Time | None = None,
        duration_s: Length | None = None,
        policy: str = "first",
        user: str | None = None,
        name: str | None = None,
    ) -> RemoteAllocation:
        """Allocate what a request asks for now (or at `after`), or reserve it at the earliest possible time."""
        whose = {"user": user, "name": name, "policy": policy, "grow": True, "or_reserve": True}
        return self._granted("allocate", wanted, job, {**_window(after, None, duration_s), **whose})

    def allocate_all(
        self,
        wanted: Iterable[tuple[Any, str]],
        *,
        start: Time | None = None,
        end: Time | None = None,
        duration_s: Length | None = None,
        policy: str = "first",
        user: str | None = None,
    ) -> list[RemoteAllocation]:
        """Allocate pools to several jobs at one start: all of them or none."""
        return self._together(wanted, {**_window(start, end, duration_s), "policy": policy, "user": user})

    def allocate_all_orelse_reserve(
        self,
        wanted: Iterable[tuple[Any, str]],
        *,
        after: Time | None = None,
        duration_s: Length | None = None,
        policy: str = "first",
        user: str | None = None,
    ) -> list[RemoteAllocation]:
        """Allocate what several requests ask for now, or at the earliest time possible for all."""
        given = {**_window(after, None, duration_s), "policy": policy, "user": user, "or_reserve": True}
        return self._together(wanted, given)

    def grow(
        self, job: str, wanted: Any, *, start: Time | None = None, end: Time | None = None, policy: str = "first"
    ) -> RemoteAllocation:
        """Allocate more to a job that holds something; by default until the job ends."""
        return self._granted("grow", wanted, job, {**_window(start, end, None), "policy": policy})

    def free(self, job: str, wanted: Any = None, start: Time | None = None, end: Time | None = None) -> None:
        """Free what a job holds: everything, or some pools, or units of them. Errors: UnknownJob, NotHeld."""
        named = None if wanted is None else names_of(wanted)
        self._post("free", {"job": job, "wanted": named, **_window(start, end, None)})

    def shrink(
        self, job: str, wanted: Any, *, start: Time | None = None, end: Time | None = None, policy: str = "high"
    ) -> RemoteAllocation:
        """Free part of what a job holds; returns what was freed."""
        given = {"job": job, "wanted": names_of(wanted), "policy": policy, **_window(start, end, None)}
        return self._held(job, self._post("shrink", given)["taken"])

    def set_end(self, job: str, end: Time | None = None, *, duration_s: Length | None = None) -> RemoteAllocation:
        """Extend or shorten what a job holds; returns what it holds now."""
        return self._held(job, self._post("extend", {"job": job, **_window(None, end, duration_s)})["held"])

    def expire(self, before: Time | None = None) -> list[str]:
        """Drop the records that ended by now, or by `before`; returns the jobs concerned."""
        found: list[str] = self._post("expire", {"before": _moment(before)})["ended"]
        return found

    def set_state(self, where: Any, state: str, *, reason: str | None = None) -> None:
        """Set the state of pools."""
        self._post("set_state", {"wanted": names_of(where), "state": state, "reason": reason})

    def tag(self, where: Any, key: str, value: str | None = None) -> None:
        """Tag pools."""
        self._post("tag", {"wanted": names_of(where), "key": key, "value": value})

    def untag(self, where: Any, key: str) -> None:
        """Remove a tag from pools that have it."""
        self._post("untag", {"wanted": names_of(where), "key": key})

    def stage(
        self,
        wanted: Any,
        *,
        job: str,
        start: Time | None = None,
        end: Time | None = None,
        duration_s: Length | None = None,
        ttl_s: Length = limits.STAGE_SECONDS_DEFAULT,
        policy: str = "first",
    ) -> RemoteStage:
        """Lock pools for a job that is being considered."""
        given = {"wanted": names_of(wanted), "job": job, "ttl_s": _length(ttl_s), "policy": policy}
        return RemoteStage(self, self._post("stage", {**given, **_window(start, end, duration_s)}))

    def commit(self, stage: str) -> RemoteAllocation:
        """Turn a stage into an allocation of its job. Errors: StaleHandle."""
        return self._of_grant(self._post("commit", {"stage": stage}))

    def release(self, stage: str) -> None:
        """Release what a stage locks. Errors: StaleHandle."""
        self._post("release", {"stage": stage})

    # -- inside ------------------------------------------------------------------------------------------------------

    def _get(self, operation: str, **query: Any) -> Any:
        return self.connection.get(of_graph(self.name, operation), **query).document()

    def _post(self, operation: str, body: Mapping[str, Any]) -> Any:
        return self.connection.post(of_graph(self.name, operation), body, key=token_hex(16)).document()

    def _question(self, operation: str, wanted: Any, at: Time | None, duration_s: Length | None, policy: str) -> dict[str, Any]:
        body = {"wanted": names_of(wanted), "at": _moment(at), "duration_s": _length(duration_s), "policy": policy}
        found: dict[str, Any] = self.connection.post(of_graph(self.name, operation), body).document()
        return found

    def _fetch(self, where: str) -> dict[str, Any]:
        found: dict[str, Any] = self._get("pool", path=where)
        return found

    def _pages(self, operation: str, **query: Any) -> Iterator[RemotePool]:
        after = None
        while True:
            page = self._get(operation, after=after, limit=limits.SERVICE_PAGE_MAX, **query)
            yield from (RemotePool(one["path"], self._fetch, one) for one in page["pools"])
            after = page["next"]
            if after is None:
                return

    def _selection(self, operation: str, **query: Any) -> RemoteSelection:
        return RemoteSelection(list(self._pages(operation, **query)))

    def _granted(self, operation: str, wanted: Any, job: str, more: Mapping[str, Any]) -> RemoteAllocation:
        return self._of_grant(self._post(operation, {"wanted": names_of(wanted), "job": job, **more}))

    def _together(self, wanted: Iterable[tuple[Any, str]], more: Mapping[str, Any]) -> list[RemoteAllocation]:
        parts = [{"wanted": names_of(one), "job": job} for one, job in wanted]
        found = self._post("allocate_all", {"parts": parts, "grow": True, **more})
        return [self._of_grant(one) for one in found["allocations"]]

    def _of_grant(self, granted: Mapping[str, Any]) -> RemoteAllocation:
        job, start, end = granted["job"], granted["start"], end_of(granted["end"])
        spans = [Span(job, one["amount"], start, end, one["path"]) for one in granted["pools"]]
        return self._allocation(job, spans)

    def _held(self, job: str, found: Iterable[Mapping[str, Any]]) -> RemoteAllocation:
        spans = [Span(job, one["amount"], one["start"], end_of(one["end"]), one["path"]) for one in found]
        return self._allocation(job, spans)

    def _allocation(self, job: str, spans: list[Span]) -> RemoteAllocation:
        def resource_set(scheduling: bool) -> dict[str, Any]:
            found: dict[str, Any] = self._get("resource_set", job=job, scheduling=scheduling)
            return found

        return RemoteAllocation(job, spans, self._fetch, resource_set)


class RemoteStage:
    """Pools locked for a job, until committed, released, or expired; a context manager that releases what was not committed.

    Args:
        graph: on the server.
        document: of the stage.
    """

    def __init__(self, graph: RemoteGraph, document: Mapping[str, Any]) -> None:
        self.graph = graph
        self.stage = str(document["stage"])
        self.job = str(document["job"])
        self._is_over = False

    def commit(self) -> RemoteAllocation:
        """Make it an allocation of its job. Errors: StaleHandle when it is no longer active."""
        granted = self.graph.commit(self.stage)
        self._is_over = True
        return granted

    def release(self) -> None:
        """Release the pools. Errors: StaleHandle when it is no longer active."""
        self.graph.release(self.stage)
        self._is_over = True

    def __enter__(self) -> RemoteStage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._is_over:
            self.release()


_RESUME_S = 0.5


def _window(start: Time | None, end: Time | None, duration_s: Length | None) -> dict[str, float | str | None]:
    return {"start": _moment(start), "end": _moment(end), "duration_s": _length(duration_s)}


def _moment(at: Time | None) -> float | str | None:
    """A moment as JSON can say it: seconds, or text, which the server reads; infinity is ``-``."""
    if at is None or isinstance(at, str):
        return at
    if isinstance(at, datetime):
        return at.timestamp()
    found = clock.seconds(clock.ticks(at))
    return "-" if math.isinf(found) else found


def _length(length: Length | None) -> float | str | None:
    if length is None or isinstance(length, str):
        return length
    if isinstance(length, timedelta):
        return length.total_seconds()
    found = clock.seconds(clock.length_ticks(length))
    return "unlimited" if math.isinf(found) else found

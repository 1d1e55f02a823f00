"""What a graph on a server is asked, and what is made of the answers, without the sending: one text for clients of both kinds.

Each method is a generator: it yields requests, is sent their replies, and returns what the method of a local graph returns. What
the server refuses is raised in it. :mod:`fluxres.service.client.graph` sends the requests, and
:mod:`fluxres.service.client.async_graph` awaits them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from msgspec import to_builtins

from fluxres import clock, limits
from fluxres.clock import Length, Time
from fluxres.documents.suggestion import choose_from
from fluxres.errors import InfeasibleRequest, InsufficientResources, UnknownGraph, UsageError
from fluxres.model import ResourceGraph
from fluxres.model.values import Span
from fluxres.service.client.difference import RemoteDifference
from fluxres.service.client.requests import Call, get, of_graph, post, send
from fluxres.service.client.values import (
    Fetch,
    RemoteMatch,
    RemotePool,
    RemoteRefusal,
    RemoteReservation,
    RemoteSelection,
    end_of,
    name_of,
    names_of,
)

if TYPE_CHECKING:
    from fluxres.instance.accounting import Accounting

T = TypeVar("T")
A = TypeVar("A")
S = TypeVar("S")


def chosen(wanted: str | None, where: str) -> Call[str]:
    """The graph to use: this one, else the one in use. Errors: UnknownGraph."""
    listed = (yield get("/v1/graphs")).document()["graphs"]
    name = wanted or next((one["graph"] for one in listed if one["in_use"]), None)
    known = [one["graph"] for one in listed]
    if name is None or name not in known:
        said = f"no graph '{name}'" if name is not None else "no graph is in use"
        raise UnknownGraph(said, where=where, hint=choose_from(known), graph=name or "")
    return name


def _rules(given: object) -> dict[str, Any]:
    """Rules of accounting as plain values. Errors: those of `accounting.given`."""
    from fluxres.instance import accounting

    found: dict[str, Any] = to_builtins(accounting.given(given))
    return found


class Calls(Generic[A, S]):
    """What can be asked of one graph.

    The changes have an `idempotency_key`, by default a new one: a change that is sent twice with one key is made once, and gets
    the same answer.

    Args:
        graph: its name.
        allocation: makes an allocation of a job and its spans.
        stage: makes a stage of its document.
        fetch: asks for the document of a pool; None if a property cannot wait for that.
    """

    def __init__(
        self, graph: str, allocation: Callable[[str, list[Span]], A], stage: Callable[[dict[str, Any]], S], fetch: Fetch | None
    ) -> None:
        self.graph = graph
        self._allocation, self._stage, self._fetch = allocation, stage, fetch

    # -- asking ------------------------------------------------------------------------------------------------------

    def summary(self) -> Call[dict[str, Any]]:
        """Totals by type, states, jobs: what `fluxres info --json` prints."""
        found: dict[str, Any] = yield from self._get("")
        return found

    def pool(self, where: str | RemotePool) -> Call[RemotePool]:
        """The pool with this path, URI, uuid or short name, as it is now. Errors: UnknownPool."""
        document = yield from self.document(name_of(where))
        return RemotePool(document["path"], self._fetch, document)

    def document(self, where: str) -> Call[dict[str, Any]]:
        """Everything about a pool, as `fluxres show PATH --json` prints it."""
        found: dict[str, Any] = yield from self._get("pool", path=where)
        return found

    def find(self, criteria: str, at: Time | None = None) -> Call[RemoteSelection]:
        """Pools that meet the criteria, read page by page. Errors: InputError with the column; UsageError for a function."""
        if callable(criteria):
            hint = "give criteria as text, such as type=node and state=up"
            raise UsageError("a function finds pools of a local graph only", hint=hint)
        return (yield from self._selection("pools", criteria=criteria, at=moment_of(at)))

    def available(self, at: Time | None = None, duration_s: Length | None = None) -> Call[RemoteSelection]:
        """Pools with units free at a moment or throughout a window."""
        return (yield from self._selection("available", at=moment_of(at), duration_s=length_of(duration_s)))

    def page(self, operation: str, after: str | None, **query: Any) -> Call[tuple[list[RemotePool], str | None]]:
        """A page of pools, and what comes after it."""
        page = yield from self._get(operation, after=after, limit=limits.SERVICE_PAGE_MAX, **query)
        return [RemotePool(one["path"], self._fetch, one) for one in page["pools"]], page["next"]

    def aggregate(
        self,
        where: str = "/",
        at: Time | None = None,
        duration_s: Length | None = None,
        all: bool = False,
        hierarchy: str | None = None,
    ) -> Call[dict[str, int]]:
        """Available units by type in a subtree, including its top."""
        given = {"path": where, "at": moment_of(at), "duration_s": length_of(duration_s), "all": all, "hierarchy": hierarchy}
        found: dict[str, int] = (yield from self._get("aggregate", **given))["available"]
        return found

    def jobs(self) -> Call[list[str]]:
        """Jobs that hold anything now or later, running ones first."""
        found = list[str]()
        after: int | None = 0
        while after is not None:
            page = yield from self._get("jobs", after=after, limit=limits.SERVICE_PAGE_MAX)
            found += [one["job"] for one in page["jobs"]]
            after = page["next"]
        return found

    def allocation(self, job: str, at: Time | None = None) -> Call[A]:
        """What a job holds from now on, or at a moment. Errors: UnknownJob."""
        return self._held(job, (yield from self._spans(job, at)))

    def allocated(self, job: str, at: Time | None = None) -> Call[RemoteSelection]:
        """Pools with a record of a job. Errors: UnknownJob."""
        spans = yield from self._spans(job, at)
        return RemoteSelection([RemotePool(path, self._fetch) for path in sorted({one["path"] for one in spans})])

    def _spans(self, job: str, at: Time | None) -> Call[list[dict[str, Any]]]:
        try:
            found: list[dict[str, Any]] = (yield from self._get("job", job=job, at=moment_of(at)))["allocated"]
        except UsageError as error:
            if error.where != f"job '{job}'":
                raise
            return []  # it holds nothing then, but earlier or later
        return found

    def resource_set(self, job: str, scheduling: bool = False) -> Call[dict[str, Any]]:
        """R of all that a job holds now (RFC 20). Errors: UnknownJob."""
        found: dict[str, Any] = yield from self._get("resource_set", job=job, scheduling=scheduling)
        return found

    def match(
        self, wanted: Any, at: Time | None = None, duration_s: Length | None = None, policy: str = "first"
    ) -> Call[RemoteMatch]:
        """What a request would get. Errors: InsufficientResources, InfeasibleRequest, InputError."""
        return RemoteMatch((yield from self._question("match", wanted, at, duration_s, policy)), self._fetch)

    def earliest(
        self, wanted: Any, after: Time | None = None, duration_s: Length | None = None, policy: str = "first"
    ) -> Call[float | None]:
        """The first start, in seconds, at which a request has a match; None if there is none."""
        try:
            return float((yield from self._question("when", wanted, after, duration_s, policy))["start"])
        except (InsufficientResources, InfeasibleRequest):
            return None

    def satisfiable(self, wanted: Any) -> Call[bool]:
        """Whether a request could ever be matched, with everything up and nothing held."""
        return bool((yield from self._question("satisfiable", wanted, None, None, "first"))["satisfiable"])

    def why_not(
        self, wanted: Any, at: Time | None = None, duration_s: Length | None = None, policy: str = "first"
    ) -> Call[RemoteRefusal | None]:
        """Why a request has no match; None if it has one."""
        found = yield from self._question("why", wanted, at, duration_s, policy)
        return None if found["matches"] else RemoteRefusal(found)

    def check(self) -> Call[list[dict[str, Any]]]:
        """Check all rules on the live data; empty if all hold."""
        found: list[dict[str, Any]] = (yield from self._get("check"))["problems"]
        return found

    def log(self, after: int = 0, *, job: str | None = None, limit: int = 100) -> Call[list[dict[str, Any]]]:
        """Events of the journal after a number, oldest first."""
        found: list[dict[str, Any]] = (yield from self._get("log", after=after, job=job, limit=limit))["log"]
        return found

    def reservations(self) -> Call[dict[str, RemoteReservation]]:
        """The maintenance reservations that are not over, by name."""
        found = (yield from self._get("reservations"))["reservations"]
        return {one["name"]: RemoteReservation(one, self._fetch) for one in found}

    def save(self, *, format: str = "cluster", where: str = "/") -> Call[bytes]:
        """The graph, or a pool and everything below it, as a file in any format."""
        return (yield get(of_graph(self.graph, "document"), format=format, path=where)).body

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
        idempotency_key: str | None = None,
    ) -> Call[A]:
        """Allocate pools to a job, all or none, in addition to those it holds.

        Errors: InsufficientResources with the earliest time, InfeasibleRequest, UnknownPool, UsageError; nothing changes then.
        """
        begin = start if start is not None else at
        whose = {"user": user, "name": name, "policy": policy, "grow": True}
        given = {"wanted": names_of(wanted), "job": job, **_window(begin, end, duration_s), **whose}
        return self._of_grant((yield from self._post("allocate", given, idempotency_key)))

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
        idempotency_key: str | None = None,
    ) -> Call[A]:
        """Allocate what a request asks for now (or at `after`), or reserve it at the earliest possible time."""
        whose = {"user": user, "name": name, "policy": policy, "grow": True, "or_reserve": True}
        given = {"wanted": names_of(wanted), "job": job, **_window(after, None, duration_s), **whose}
        return self._of_grant((yield from self._post("allocate", given, idempotency_key)))

    def allocate_all(
        self,
        wanted: Iterable[tuple[Any, str]],
        *,
        start: Time | None = None,
        end: Time | None = None,
        duration_s: Length | None = None,
        policy: str = "first",
        user: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[list[A]]:
        """Allocate pools to several jobs at one start: all of them or none."""
        given = {**_window(start, end, duration_s), "policy": policy, "user": user}
        return (yield from self._together(wanted, given, idempotency_key))

    def allocate_all_orelse_reserve(
        self,
        wanted: Iterable[tuple[Any, str]],
        *,
        after: Time | None = None,
        duration_s: Length | None = None,
        policy: str = "first",
        user: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[list[A]]:
        """Allocate what several requests ask for now, or at the earliest time possible for all."""
        given = {**_window(after, None, duration_s), "policy": policy, "user": user, "or_reserve": True}
        return (yield from self._together(wanted, given, idempotency_key))

    def grow(
        self,
        job: str,
        wanted: Any,
        *,
        start: Time | None = None,
        end: Time | None = None,
        policy: str = "first",
        idempotency_key: str | None = None,
    ) -> Call[A]:
        """Allocate more to a job that holds something; by default until the job ends."""
        given = {"wanted": names_of(wanted), "job": job, **_window(start, end, None), "policy": policy}
        return self._of_grant((yield from self._post("grow", given, idempotency_key)))

    def free(
        self,
        job: str,
        wanted: Any = None,
        start: Time | None = None,
        end: Time | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Call[None]:
        """Free what a job holds: everything, or some pools, or units of them. Errors: UnknownJob, NotHeld."""
        named = None if wanted is None else names_of(wanted)
        yield from self._post("free", {"job": job, "wanted": named, **_window(start, end, None)}, idempotency_key)

    def shrink(
        self,
        job: str,
        wanted: Any,
        *,
        start: Time | None = None,
        end: Time | None = None,
        policy: str = "high",
        idempotency_key: str | None = None,
    ) -> Call[A]:
        """Free part of what a job holds; returns what was freed."""
        given = {"job": job, "wanted": names_of(wanted), "policy": policy, **_window(start, end, None)}
        return self._held(job, (yield from self._post("shrink", given, idempotency_key))["taken"])

    def set_end(
        self, job: str, end: Time | None = None, *, duration_s: Length | None = None, idempotency_key: str | None = None
    ) -> Call[A]:
        """Extend or shorten what a job holds; returns what it holds now."""
        given = {"job": job, **_window(None, end, duration_s)}
        return self._held(job, (yield from self._post("extend", given, idempotency_key))["held"])

    def expire(self, before: Time | None = None, *, idempotency_key: str | None = None) -> Call[list[str]]:
        """Drop the records that ended by now, or by `before`; returns the jobs concerned."""
        found: list[str] = (yield from self._post("expire", {"before": moment_of(before)}, idempotency_key))["ended"]
        return found

    def set_state(self, where: Any, state: str, *, reason: str | None = None, idempotency_key: str | None = None) -> Call[None]:
        """Set the state of pools."""
        yield from self._post("set_state", {"wanted": names_of(where), "state": state, "reason": reason}, idempotency_key)

    def reserve(
        self,
        where: Any,
        *,
        name: str,
        start: Time | None = None,
        end: Time | None = None,
        duration_s: Length | None = None,
        every_s: Length | None = None,
        until: Time | None = None,
        ignore_jobs: bool = False,
        user: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[RemoteReservation]:
        """Reserve pools for maintenance: no job gets any of them, or anything below them, in the window.

        Errors: InsufficientResources with the jobs in the way; UsageError; LimitExceeded; nothing changes then.
        """
        repeated = {"every_s": length_of(every_s), "until": moment_of(until)}
        whose = {"name": name, "ignore_jobs": ignore_jobs, "user": user}
        given = {"wanted": names_of(where), **whose, **_window(start, end, duration_s), **repeated}
        return RemoteReservation((yield from self._post("reserve", given, idempotency_key)), self._fetch)

    def unreserve(self, name: str, *, idempotency_key: str | None = None) -> Call[None]:
        """Give up a maintenance reservation with all of its windows. Errors: UnknownJob."""
        yield from self._post("unreserve", {"name": name}, idempotency_key)

    def undo(self, *, idempotency_key: str | None = None) -> Call[list[dict[str, Any]]]:
        """Put back the state before the last change of any client; returns the events that were undone.

        The store keeps one step: another undo is refused, and `redo` brings back what this one undid. Errors: UsageError.
        """
        found: list[dict[str, Any]] = (yield from self._post("undo", {}, idempotency_key))["undone"]
        return found

    def redo(self, *, idempotency_key: str | None = None) -> Call[list[dict[str, Any]]]:
        """Bring back what the last change undid, if that was an undo; returns the events of the undo. Errors: UsageError."""
        found: list[dict[str, Any]] = (yield from self._post("undo", {"redo": True}, idempotency_key))["undone"]
        return found

    def tag(self, where: Any, key: str, value: str | None = None, *, idempotency_key: str | None = None) -> Call[None]:
        """Tag pools."""
        yield from self._post("tag", {"wanted": names_of(where), "key": key, "value": value}, idempotency_key)

    def untag(self, where: Any, key: str, *, idempotency_key: str | None = None) -> Call[None]:
        """Remove a tag from pools that have it."""
        yield from self._post("untag", {"wanted": names_of(where), "key": key}, idempotency_key)

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
        idempotency_key: str | None = None,
    ) -> Call[S]:
        """Lock pools for a job that is being considered."""
        given = {"wanted": names_of(wanted), "job": job, "ttl_s": length_of(ttl_s), "policy": policy}
        return self._stage((yield from self._post("stage", {**given, **_window(start, end, duration_s)}, idempotency_key)))

    def commit(self, stage: str | S, *, idempotency_key: str | None = None) -> Call[A]:
        """Turn a stage, or the one with this id, into an allocation of its job. Errors: StaleHandle."""
        return self._of_grant((yield from self._post("commit", {"stage": _id_of(stage)}, idempotency_key)))

    def release(self, stage: str | S, *, idempotency_key: str | None = None) -> Call[None]:
        """Release what a stage, or the one with this id, locks. Errors: StaleHandle."""
        yield from self._post("release", {"stage": _id_of(stage)}, idempotency_key)

    # -- instances ---------------------------------------------------------------------------------------------------

    def instances(self) -> Call[list[dict[str, Any]]]:
        """The instances of the graph, each with those below it."""
        found: list[dict[str, Any]] = (yield from self._get("instances"))["instances"]
        return found

    def create_instance(
        self,
        name: str,
        *,
        queue_policy: str = "easy",
        match_policy: str = "first",
        accounting: Accounting | Mapping[str, Any] | None = None,
        unit: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[str]:
        """Begin an instance on the graph; returns its address.

        Args:
            unit: the type of pools in which sizes are measured; `measure_in` changes it.
            accounting: partitions, QOS, accounts and users with limits: an Accounting, or a mapping as a file has it.

        Errors: UsageError for a name that is taken; UnknownType; InputError for rules of accounting that are not valid.
        """
        rules = None if accounting is None else _rules(accounting)
        given = {"name": name, "queue_policy": queue_policy, "match_policy": match_policy, "accounting": rules, "unit": unit}
        return str((yield from self._post("instances", given, idempotency_key))["address"])

    # -- changing the machine ----------------------------------------------------------------------------------------

    def merge(self, other: ResourceGraph | str, at: str | None = None, *, idempotency_key: str | None = None) -> Call[None]:
        """Add another graph to this one: a local graph, or one of the server by name. Errors: MergeConflict, UnknownPool."""
        if isinstance(other, str):
            yield from self._send("merge", b"", idempotency_key, source=other, at=at)
        else:
            yield from self._send("merge", _document_of(other), idempotency_key, at=at)

    def apply(self, change: ResourceGraph, *, drain: bool = False, idempotency_key: str | None = None) -> Call[RemoteDifference]:
        """Change the machine into what a local graph describes; returns what was changed. Errors: StillHeld, MergeConflict."""
        return RemoteDifference((yield from self._send("apply", _document_of(change), idempotency_key, drain=drain)))

    def diff(self, other: ResourceGraph) -> Call[RemoteDifference]:
        """What `apply` would change. Errors: MergeConflict for the description of another machine."""
        reply = yield send(of_graph(self.graph, "diff"), _document_of(other))
        return RemoteDifference(reply.document())

    def unlink(self, where: str | RemotePool, hierarchy: str | None = None, *, idempotency_key: str | None = None) -> Call[None]:
        """Remove a pool and everything below it from a hierarchy. Errors: StillHeld; UsageError for the root."""
        yield from self._post("unlink", {"path": name_of(where), "hierarchy": hierarchy}, idempotency_key)

    def move(self, where: str | RemotePool, to: str | RemotePool, *, idempotency_key: str | None = None) -> Call[None]:
        """Move a pool and everything below it into another pool, or to a path. Errors: StillHeld, MergeConflict."""
        yield from self._post("move", {"path": name_of(where), "to": name_of(to)}, idempotency_key)

    def add_edge(
        self,
        source: str | RemotePool,
        target: str | RemotePool,
        subsystem: str,
        *,
        relation: str = "link",
        capacity: float | None = None,
        unit: str | None = None,
        supply: Literal["all", "any"] | None = None,
        attributes: Mapping[str, Any] | None = None,
        hierarchy: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Call[None]:
        """Add an edge between two pools to an auxiliary graph. Errors: UsageError for an edge that exists already."""
        values = {"relation": relation, "unit": unit, "supply": supply, "attributes": attributes, "hierarchy": hierarchy}
        given = {**_ends(source, target, subsystem), "capacity": _capacity(capacity), **values}
        yield from self._post("add_edge", given, idempotency_key)

    def set_edge(
        self,
        source: str | RemotePool,
        target: str | RemotePool,
        subsystem: str,
        *,
        relation: str | None = None,
        capacity: float | None = None,
        unit: str | None = None,
        supply: Literal["all", "any"] | None = None,
        attributes: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[None]:
        """Change the capacity, unit, supply or attributes of an edge. Errors: UsageError if there is none; StillHeld."""
        values = {"relation": relation, "unit": unit, "supply": supply, "attributes": attributes}
        given = {**_ends(source, target, subsystem), "capacity": _capacity(capacity), **values}
        yield from self._post("set_edge", given, idempotency_key)

    def remove_edge(
        self,
        source: str | RemotePool,
        target: str | RemotePool,
        subsystem: str,
        *,
        relation: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[None]:
        """Remove an edge; the pools stay. Errors: UsageError where there is none; StillHeld."""
        yield from self._post("remove_edge", {**_ends(source, target, subsystem), "relation": relation}, idempotency_key)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _get(self, operation: str, **query: Any) -> Call[Any]:
        return (yield get(of_graph(self.graph, operation), **query)).document()

    def _post(self, operation: str, body: Mapping[str, Any], key: str | None) -> Call[Any]:
        return (yield post(of_graph(self.graph, operation), body, key=key or token_hex(16))).document()

    def _send(self, operation: str, document: bytes, key: str | None, **query: Any) -> Call[Any]:
        return (yield send(of_graph(self.graph, operation), document, key=key or token_hex(16), **query)).document()

    def _question(self, operation: str, wanted: Any, at: Time | None, duration_s: Length | None, policy: str) -> Call[Any]:
        body = {"wanted": names_of(wanted), "at": moment_of(at), "duration_s": length_of(duration_s), "policy": policy}
        return (yield post(of_graph(self.graph, operation), body)).document()

    def _selection(self, operation: str, **query: Any) -> Call[RemoteSelection]:
        pools, after = yield from self.page(operation, None, **query)
        while after is not None:
            more, after = yield from self.page(operation, after, **query)
            pools += more
        return RemoteSelection(pools)

    def _together(self, wanted: Iterable[tuple[Any, str]], more: Mapping[str, Any], key: str | None) -> Call[list[A]]:
        parts = [{"wanted": names_of(one), "job": job} for one, job in wanted]
        found = yield from self._post("allocate_all", {"parts": parts, "grow": True, **more}, key)
        return [self._of_grant(one) for one in found["allocations"]]

    def _of_grant(self, granted: Mapping[str, Any]) -> A:
        job, start, end = granted["job"], granted["start"], end_of(granted["end"])
        return self._allocation(job, [Span(job, one["amount"], start, end, one["path"]) for one in granted["pools"]])

    def _held(self, job: str, found: Iterable[Mapping[str, Any]]) -> A:
        return self._allocation(job, [Span(job, one["amount"], one["start"], end_of(one["end"]), one["path"]) for one in found])


def _id_of(stage: Any) -> str:
    """Of a stage, or its id."""
    return stage if isinstance(stage, str) else str(stage.stage)


def _ends(source: str | RemotePool, target: str | RemotePool, subsystem: str) -> dict[str, str]:
    return {"source": name_of(source), "target": name_of(target), "subsystem": subsystem}


def _capacity(units: float | None) -> float | str | None:
    """As JSON can say it: it has no infinity."""
    return "inf" if units == math.inf else units


def _document_of(graph: ResourceGraph) -> bytes:
    """A local graph as a document, with all that it has. Errors: UsageError for another value, and for one with stages."""
    from fluxres.store.files import dumps

    return dumps(graph)


def _window(start: Time | None, end: Time | None, duration_s: Length | None) -> dict[str, float | str | None]:
    return {"start": moment_of(start), "end": moment_of(end), "duration_s": length_of(duration_s)}


def moment_of(at: Time | None) -> float | str | None:
    """A moment as JSON can say it: seconds, or text, which the server reads; infinity is ``-``."""
    if at is None or isinstance(at, str):
        return at
    if isinstance(at, datetime):
        return at.timestamp()
    found = clock.seconds(clock.ticks(at))
    return "-" if math.isinf(found) else found


def length_of(length: Length | None) -> float | str | None:
    if length is None or isinstance(length, str):
        return length
    if isinstance(length, timedelta):
        return length.total_seconds()
    found = clock.seconds(clock.length_ticks(length))
    return "unlimited" if math.isinf(found) else found

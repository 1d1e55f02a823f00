"""`fluxres.connect`: a graph on a server and its instances, with the methods that schedulers use.

A method has the arguments of that of :class:`fluxres.ResourceGraph` or :class:`fluxres.Instance`, raises the same errors, and
returns values with the same names. A change is in the journal of the server when the method returns; each is sent with an
idempotency key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from fluxres import clock
from fluxres.clock import Length, length_ticks, seconds
from fluxres.errors import FluxresError, UnknownJob
from fluxres.instance.states import State
from fluxres.model.values import Span
from fluxres.service.client.addresses import addresses
from fluxres.service.client.calls import Calls, chosen
from fluxres.service.client.connection import Connection
from fluxres.service.client.following import Following
from fluxres.service.client.instance_calls import AnyJob, InstanceCalls, concerns
from fluxres.service.client.job import RemoteJob
from fluxres.service.client.requests import Call
from fluxres.service.client.stage import RemoteStage
from fluxres.service.client.values import RemoteAllocation, RemotePool

C_co = TypeVar("C_co", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


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
        return RemoteGraph(connection, connection.run(chosen(graph or servers[0].graph, str(servers[0]))))
    except FluxresError:
        connection.close()
        raise


class _Caller(Protocol[C_co]):
    """What has a connection, and calls to send through it."""

    @property
    def connection(self) -> Connection: ...

    @property
    def calls(self) -> C_co: ...


def _sending(call: Callable[Concatenate[C_co, P], Call[T]]) -> Callable[Concatenate[_Caller[C_co], P], T]:
    """The method that sends the requests of a call."""

    def method(caller: _Caller[C_co], /, *given: P.args, **named: P.kwargs) -> T:
        return caller.connection.run(call(caller.calls, *given, **named))

    update_wrapper(method, call)
    return method


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
        self.calls = Calls[RemoteAllocation, RemoteStage](name, self._allocation, self._stage, self._fetch)

    def __enter__(self) -> RemoteGraph:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection of this thread."""
        self.connection.close()

    def __repr__(self) -> str:
        return f"<RemoteGraph {self.name} at {self.connection.servers.at}>"

    def __len__(self) -> int:
        return int(self.summary()["pools"])

    @property
    def root(self) -> RemotePool:
        return self.pool("/")

    summary = _sending(Calls.summary)
    pool = _sending(Calls.pool)
    find = _sending(Calls.find)
    available = _sending(Calls.available)
    aggregate = _sending(Calls.aggregate)
    jobs = _sending(Calls.jobs)
    allocation = _sending(Calls.allocation)
    allocated = _sending(Calls.allocated)
    match = _sending(Calls.match)
    earliest = _sending(Calls.earliest)
    satisfiable = _sending(Calls.satisfiable)
    why_not = _sending(Calls.why_not)
    check = _sending(Calls.check)
    log = _sending(Calls.log)
    save = _sending(Calls.save)
    reservations = _sending(Calls.reservations)

    allocate = _sending(Calls.allocate)
    allocate_orelse_reserve = _sending(Calls.allocate_orelse_reserve)
    allocate_all = _sending(Calls.allocate_all)
    allocate_all_orelse_reserve = _sending(Calls.allocate_all_orelse_reserve)
    grow = _sending(Calls.grow)
    free = _sending(Calls.free)
    shrink = _sending(Calls.shrink)
    set_end = _sending(Calls.set_end)
    expire = _sending(Calls.expire)
    set_state = _sending(Calls.set_state)
    reserve = _sending(Calls.reserve)
    unreserve = _sending(Calls.unreserve)
    undo = _sending(Calls.undo)
    redo = _sending(Calls.redo)
    tag = _sending(Calls.tag)
    untag = _sending(Calls.untag)
    stage = _sending(Calls.stage)
    commit = _sending(Calls.commit)
    release = _sending(Calls.release)

    merge = _sending(Calls.merge)
    apply = _sending(Calls.apply)
    diff = _sending(Calls.diff)
    unlink = _sending(Calls.unlink)
    move = _sending(Calls.move)
    add_edge = _sending(Calls.add_edge)
    set_edge = _sending(Calls.set_edge)
    remove_edge = _sending(Calls.remove_edge)

    instances = _sending(Calls.instances)

    def create_instance(self, name: str, **given: Any) -> RemoteInstance:
        """Begin an instance on the graph, which the server keeps, with `queue_policy`, `match_policy` and `accounting` as
        of an Instance, and the `unit` that its `measure_in` takes.
        """
        return RemoteInstance(self, self.connection.run(self.calls.create_instance(name, **given)))

    def instance(self, address: str) -> RemoteInstance:
        """The instance with this name, or with this address below one. Errors: UnknownJob."""
        found = self.connection.run(InstanceCalls(self.name, address).summary())
        return RemoteInstance(self, found["address"])

    def walk(self, where: str = "/", order: str = "pre", hierarchy: str | None = None) -> Iterator[RemotePool]:
        """A pool and everything below it."""
        after, is_first = None, True
        while is_first or after is not None:
            page = self.calls.page("walk", after, path=where, order=order, hierarchy=hierarchy)
            pools, after = self.connection.run(page)
            yield from pools
            is_first = False

    def events(self, after: int | None = None) -> Iterator[dict[str, Any]]:
        """The events after a number of the journal, and then each as it happens: number, timestamp, name and context (RFC 18).

        A stream that breaks is resumed where it ended, at another server if there are several.

        It has a connection of its own, and ends with its generator. Errors: StoreError if no server can be reached for
        `SERVICE_RESUME_SECONDS`.
        """
        return (event for event in self.news(after) if event is not None)

    def news(self, after: int | None = None, until_s: float | None = None) -> Iterator[dict[str, Any] | None]:
        """As `events`, and None whenever a stream begins: what is asked from then on is not older.

        Args:
            until_s: when it ends, by the stopwatch.
        """
        following = Following(self.connection.servers, self.name, after)
        for line in self.connection.follow(following, until_s):
            event = following.event(line)
            if event is not None or following.is_begin(line):
                yield event

    def _fetch(self, where: str) -> dict[str, Any]:
        return self.connection.run(self.calls.document(where))

    def _allocation(self, job: str, spans: list[Span]) -> RemoteAllocation:
        def resource_set(scheduling: bool) -> dict[str, Any]:
            return self.connection.run(self.calls.resource_set(job, scheduling))

        return RemoteAllocation(job, spans, self._fetch, resource_set)

    def _stage(self, document: dict[str, Any]) -> RemoteStage:
        return RemoteStage(document, self.commit, self.release)


class RemoteInstance:
    """An instance on a server: it schedules on a graph there, and goes on when the server changes.

    Args:
        graph: on the server.
        address: of the instance.
    """

    def __init__(self, graph: RemoteGraph, address: str) -> None:
        self.graph, self.address, self.connection = graph, address, graph.connection
        self.calls = InstanceCalls(graph.name, address)

    def __repr__(self) -> str:
        return f"<RemoteInstance {self.address} on {self.graph.name}>"

    summary = _sending(InstanceCalls.summary)
    job = _sending(InstanceCalls.job)
    jobs = _sending(InstanceCalls.jobs)
    check = _sending(InstanceCalls.check)
    tree = _sending(InstanceCalls.tree)
    submit = _sending(InstanceCalls.submit)
    reserve = _sending(InstanceCalls.reserve)
    cancel = _sending(InstanceCalls.cancel)
    finish = _sending(InstanceCalls.finish)
    exception = _sending(InstanceCalls.exception)
    requeue = _sending(InstanceCalls.requeue)
    set_urgency = _sending(InstanceCalls.set_urgency)
    set_duration = _sending(InstanceCalls.set_duration)
    add_dependency = _sending(InstanceCalls.add_dependency)
    grow = _sending(InstanceCalls.grow)
    shrink = _sending(InstanceCalls.shrink)
    set_state = _sending(InstanceCalls.set_state)
    drain = _sending(InstanceCalls.drain)
    down = _sending(InstanceCalls.down)
    up = _sending(InstanceCalls.up)
    set_expiration = _sending(InstanceCalls.set_expiration)
    measure_in = _sending(InstanceCalls.measure_in)
    fail = _sending(InstanceCalls.fail)
    close = _sending(InstanceCalls.close)

    def wait(self, job: AnyJob, timeout_s: Length | None = None) -> RemoteJob:
        """A job once it has ended, or as it is when the time is over; the server pushes what happens meanwhile.

        Errors: UnknownJob; StoreError if no server can be reached for `SERVICE_RESUME_SECONDS`.
        """
        until_s = None if timeout_s is None else clock.stopwatch() + seconds(length_ticks(timeout_s, "timeout_s"))
        for event in self.graph.news(until_s=until_s):
            if concerns(event, job) and (found := self.job(job)).state is State.INACTIVE:
                return found
        return self.job(job)

    def find(self, address: str) -> RemoteInstance:
        """An instance below this one by its address, relative or complete. Errors: UnknownJob."""
        return RemoteInstance(self.graph, self.connection.run(self.calls.find(address)))

    def walk(self) -> Iterator[RemoteInstance]:
        """This instance and all below it, depth first."""
        return (RemoteInstance(self.graph, one.address) for one in self.tree())

    @property
    def depth(self) -> int:
        """The number of instances above this one."""
        return self.address.count("/")

    @property
    def parent(self) -> RemoteInstance | None:
        above = self.address.rpartition("/")[0]
        return RemoteInstance(self.graph, above) if above else None

    @property
    def outermost(self) -> RemoteInstance:
        return RemoteInstance(self.graph, self.address.partition("/")[0])

    @property
    def job_in_parent(self) -> RemoteJob | None:
        """The job that holds what this instance has."""
        return None if self.parent is None else self.parent.job(self.address.rpartition("/")[2])

    @property
    def name(self) -> str:
        return str(self.summary()["name"])

    @property
    def queue_policy(self) -> str:
        return str(self.summary()["queue_policy"])

    @property
    def match_policy(self) -> str:
        return str(self.summary()["match_policy"])

    @property
    def expires_at(self) -> float | None:
        """When the instance ends, in seconds; None for never."""
        found: float | None = self.summary()["expires"]
        return found

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        try:
            self.summary()
        except UnknownJob:
            return True
        return False

    @property
    def pending(self) -> int:
        """The number of jobs that have no resources yet."""
        return int(self.summary()["pending"])

    @property
    def running(self) -> int:
        """The number of jobs that hold resources."""
        return int(self.summary()["running"])

    @property
    def children(self) -> list[RemoteInstance]:
        return [RemoteInstance(self.graph, address) for address in self.summary()["children"]]

    def spawn(self, job: AnyJob, **given: Any) -> RemoteInstance:
        """Begin a child on what a running job holds; it ends with the job, and the job with it."""
        return RemoteInstance(self.graph, self.connection.run(self.calls.spawn(job, **given)))

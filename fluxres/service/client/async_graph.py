"""`fluxres.aconnect`: a graph on a server and its instances for asyncio: the methods of `graph.py` as coroutines.

Any number of tasks may share one. A task that is cancelled while it waits for an answer leaves the server to make the change or
not; the same call with the same `idempotency_key` says which, and makes it if it was not made.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from contextlib import aclosing, suppress
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, Protocol, TypeVar

from fluxres.clock import Length, length_ticks, seconds
from fluxres.errors import StoreError, UsageError
from fluxres.instance.states import State
from fluxres.model.values import Span
from fluxres.service.client.addresses import addresses
from fluxres.service.client.async_connection import AsyncConnection
from fluxres.service.client.async_stage import AsyncRemoteStage
from fluxres.service.client.calls import Calls, chosen
from fluxres.service.client.following import RESUME_S, Following
from fluxres.service.client.instance_calls import AnyJob, InstanceCalls, concerns
from fluxres.service.client.job import RemoteJob
from fluxres.service.client.requests import Call
from fluxres.service.client.values import AsyncRemoteAllocation, RemotePool

C_co = TypeVar("C_co", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


def aconnect(url: str, *, graph: str | None = None, token: str | None = None, timeout_s: float = 60.0) -> Connecting:
    """A graph on a server, for asyncio: ``graph = await aconnect(url)``, or ``async with aconnect(url) as graph``.

    It needs h11 (``pip install h11``). The arguments and the errors are those of :func:`fluxres.connect`.
    """
    return Connecting(url, graph, token, timeout_s)


_CONNECT: Final = "async with fluxres.aconnect(url) as graph, or graph = await fluxres.aconnect(url)"


class Connecting:
    """A graph that is being connected to: awaited, or as a context manager, which closes it."""

    def __init__(self, url: str, graph: str | None, token: str | None, timeout_s: float) -> None:
        self._url, self._name, self._token, self._timeout_s = url, graph, token, timeout_s
        self._graph: AsyncRemoteGraph | None = None

    def __getattr__(self, name: str) -> NoReturn:
        """Errors: AttributeError, with the way out for what the graph has once it is connected."""
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        if not name.startswith("_") and (hasattr(AsyncRemoteGraph, name) or name in ("connection", "name", "calls")):
            message = f"{name}: the graph is not connected yet ({_CONNECT})"
        raise AttributeError(message, name=name, obj=self)

    def __enter__(self) -> NoReturn:
        """Errors: UsageError."""
        raise UsageError("the graph is for asyncio", where="aconnect", hint=_CONNECT)

    def __exit__(self, *raised: object) -> None:
        """For Python, which looks for it before it enters."""

    def __await__(self) -> Generator[Any, None, AsyncRemoteGraph]:
        return self._connect().__await__()

    async def __aenter__(self) -> AsyncRemoteGraph:
        self._graph = await self._connect()
        return self._graph

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._graph is not None:
            await self._graph.close()

    async def _connect(self) -> AsyncRemoteGraph:
        servers = addresses(self._url)
        connection = AsyncConnection(servers, self._token, self._timeout_s)
        try:
            name = await connection.run(chosen(self._name or servers[0].graph, str(servers[0])))
        except BaseException:
            connection.close()
            raise
        return AsyncRemoteGraph(connection, name)


class _Caller(Protocol[C_co]):
    """What has a connection, and calls to send through it."""

    @property
    def connection(self) -> AsyncConnection: ...

    @property
    def calls(self) -> C_co: ...


def _awaiting(call: Callable[Concatenate[C_co, P], Call[T]]) -> Callable[Concatenate[_Caller[C_co], P], Coroutine[Any, Any, T]]:
    """The method that awaits the answers to a call."""

    async def method(caller: _Caller[C_co], /, *given: P.args, **named: P.kwargs) -> T:
        return await caller.connection.run(call(caller.calls, *given, **named))

    update_wrapper(method, call)
    return method


class AsyncRemoteGraph:
    """A graph on a server, in the event loop that it was connected in. As a context manager it closes its connections.

    Args:
        connection: to the server.
        name: of the graph.
    """

    def __init__(self, connection: AsyncConnection, name: str) -> None:
        self.connection = connection
        self.name = name
        self.calls = Calls[AsyncRemoteAllocation, AsyncRemoteStage](name, self._allocation, self._stage, None)

    async def __aenter__(self) -> AsyncRemoteGraph:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections: streams of events end, and requests on their way fail."""
        self.connection.close()

    def __repr__(self) -> str:
        return f"<AsyncRemoteGraph {self.name} at {self.connection.servers.at}>"

    @property
    def root(self) -> Coroutine[Any, Any, RemotePool]:
        return self.pool("/")

    summary = _awaiting(Calls.summary)
    pool = _awaiting(Calls.pool)
    find = _awaiting(Calls.find)
    available = _awaiting(Calls.available)
    aggregate = _awaiting(Calls.aggregate)
    jobs = _awaiting(Calls.jobs)
    allocation = _awaiting(Calls.allocation)
    allocated = _awaiting(Calls.allocated)
    match = _awaiting(Calls.match)
    earliest = _awaiting(Calls.earliest)
    satisfiable = _awaiting(Calls.satisfiable)
    why_not = _awaiting(Calls.why_not)
    check = _awaiting(Calls.check)
    log = _awaiting(Calls.log)
    save = _awaiting(Calls.save)
    reservations = _awaiting(Calls.reservations)

    allocate = _awaiting(Calls.allocate)
    allocate_orelse_reserve = _awaiting(Calls.allocate_orelse_reserve)
    allocate_all = _awaiting(Calls.allocate_all)
    allocate_all_orelse_reserve = _awaiting(Calls.allocate_all_orelse_reserve)
    grow = _awaiting(Calls.grow)
    free = _awaiting(Calls.free)
    shrink = _awaiting(Calls.shrink)
    set_end = _awaiting(Calls.set_end)
    expire = _awaiting(Calls.expire)
    set_state = _awaiting(Calls.set_state)
    reserve = _awaiting(Calls.reserve)
    unreserve = _awaiting(Calls.unreserve)
    undo = _awaiting(Calls.undo)
    redo = _awaiting(Calls.redo)
    tag = _awaiting(Calls.tag)
    untag = _awaiting(Calls.untag)
    stage = _awaiting(Calls.stage)
    commit = _awaiting(Calls.commit)
    release = _awaiting(Calls.release)

    merge = _awaiting(Calls.merge)
    apply = _awaiting(Calls.apply)
    diff = _awaiting(Calls.diff)
    unlink = _awaiting(Calls.unlink)
    move = _awaiting(Calls.move)
    add_edge = _awaiting(Calls.add_edge)
    set_edge = _awaiting(Calls.set_edge)
    remove_edge = _awaiting(Calls.remove_edge)

    instances = _awaiting(Calls.instances)

    async def create_instance(self, name: str, **given: Any) -> AsyncRemoteInstance:
        """Begin an instance on the graph, which the server keeps: with arguments as of an Instance:
        `queue_policy`, `match_policy` and `accounting`.
        """
        made = await self.connection.run(self.calls.create_instance(name, **given))
        return AsyncRemoteInstance(self, made)

    async def instance(self, address: str) -> AsyncRemoteInstance:
        """The instance with this name, or with this address below one. Errors: UnknownJob."""
        found = await self.connection.run(InstanceCalls(self.name, address).summary())
        return AsyncRemoteInstance(self, found["address"])

    async def walk(self, where: str = "/", order: str = "pre", hierarchy: str | None = None) -> AsyncIterator[RemotePool]:
        """A pool and everything below it."""
        after, is_first = None, True
        while is_first or after is not None:
            page = self.calls.page("walk", after, path=where, order=order, hierarchy=hierarchy)
            pools, after = await self.connection.run(page)
            for pool in pools:
                yield pool
            is_first = False

    async def events(self, after: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """The events after a number of the journal, and then each as it happens: number, timestamp, name and context (RFC 18).

        A stream that breaks is resumed where it ended, at another server if there are several. Leaving the loop closes it, and
        closing the graph ends it.

        Errors: StoreError if no server can be reached for `SERVICE_RESUME_SECONDS`.
        """
        async with aclosing(self.news(after)) as news:
            async for event in news:
                if event is not None:
                    yield event

    async def news(self, after: int | None = None) -> AsyncGenerator[dict[str, Any] | None]:
        """As `events`, and None whenever a stream begins: what is asked from then on is not older."""
        following = Following(self.connection.servers, self.name, after)
        while not self.connection.is_closed:
            try:
                async with aclosing(self.connection.stream(following.path)) as lines:
                    async for line in lines:
                        event = following.event(line)
                        if event is not None or following.is_begin(line):
                            yield event
            except StoreError as error:
                following.broke(error)
            await asyncio.sleep(RESUME_S)

    def _allocation(self, job: str, spans: list[Span]) -> AsyncRemoteAllocation:
        async def resource_set(scheduling: bool) -> dict[str, Any]:
            return await self.connection.run(self.calls.resource_set(job, scheduling))

        return AsyncRemoteAllocation(job, spans, None, resource_set)

    def _stage(self, document: dict[str, Any]) -> AsyncRemoteStage:
        return AsyncRemoteStage(document, self.commit, self.release)


class AsyncRemoteInstance:
    """An instance on a server.

    Args:
        graph: on the server.
        address: of the instance.
    """

    def __init__(self, graph: AsyncRemoteGraph, address: str) -> None:
        self.graph, self.address, self.connection = graph, address, graph.connection
        self.calls = InstanceCalls(graph.name, address)

    def __repr__(self) -> str:
        return f"<AsyncRemoteInstance {self.address} on {self.graph.name}>"

    summary = _awaiting(InstanceCalls.summary)
    job = _awaiting(InstanceCalls.job)
    jobs = _awaiting(InstanceCalls.jobs)
    check = _awaiting(InstanceCalls.check)
    tree = _awaiting(InstanceCalls.tree)
    submit = _awaiting(InstanceCalls.submit)
    reserve = _awaiting(InstanceCalls.reserve)
    cancel = _awaiting(InstanceCalls.cancel)
    finish = _awaiting(InstanceCalls.finish)
    exception = _awaiting(InstanceCalls.exception)
    requeue = _awaiting(InstanceCalls.requeue)
    set_urgency = _awaiting(InstanceCalls.set_urgency)
    set_duration = _awaiting(InstanceCalls.set_duration)
    add_dependency = _awaiting(InstanceCalls.add_dependency)
    grow = _awaiting(InstanceCalls.grow)
    shrink = _awaiting(InstanceCalls.shrink)
    set_state = _awaiting(InstanceCalls.set_state)
    drain = _awaiting(InstanceCalls.drain)
    down = _awaiting(InstanceCalls.down)
    up = _awaiting(InstanceCalls.up)
    set_expiration = _awaiting(InstanceCalls.set_expiration)
    measure_in = _awaiting(InstanceCalls.measure_in)
    fail = _awaiting(InstanceCalls.fail)
    close = _awaiting(InstanceCalls.close)

    async def wait(self, job: AnyJob, timeout_s: Length | None = None) -> RemoteJob:
        """A job once it has ended, or as it is when the time is over; the server pushes what happens meanwhile.

        Errors: UnknownJob; StoreError if no server can be reached for `SERVICE_RESUME_SECONDS`.
        """
        within_s = None if timeout_s is None else seconds(length_ticks(timeout_s, "timeout_s"))
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s), aclosing(self.graph.news()) as news:
                async for event in news:
                    if concerns(event, job) and (found := await self.job(job)).state is State.INACTIVE:
                        return found
        return await self.job(job)

    async def find(self, address: str) -> AsyncRemoteInstance:
        """An instance below this one by its address, relative or complete. Errors: UnknownJob."""
        return AsyncRemoteInstance(self.graph, await self.connection.run(self.calls.find(address)))

    @property
    def depth(self) -> int:
        """The number of instances above this one."""
        return self.address.count("/")

    @property
    def parent(self) -> AsyncRemoteInstance | None:
        above = self.address.rpartition("/")[0]
        return AsyncRemoteInstance(self.graph, above) if above else None

    @property
    def outermost(self) -> AsyncRemoteInstance:
        return AsyncRemoteInstance(self.graph, self.address.partition("/")[0])

    async def spawn(self, job: AnyJob, **given: Any) -> AsyncRemoteInstance:
        """Begin a child on what a running job holds; it ends with the job, and the job with it."""
        return AsyncRemoteInstance(self.graph, await self.connection.run(self.calls.spawn(job, **given)))

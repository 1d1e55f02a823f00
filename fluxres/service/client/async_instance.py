"""An instance on a server for programs with asyncio: the methods of :class:`RemoteInstance` as coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from fluxres.instance.states import State
from fluxres.service.client.async_graph import AsyncRemoteGraph, sent
from fluxres.service.client.calls import Call
from fluxres.service.client.instance_calls import AnyJob, InstanceCalls, concerns
from fluxres.service.client.job import RemoteJob

P = ParamSpec("P")
T = TypeVar("T")


def _awaiting(
    call: Callable[Concatenate[InstanceCalls, P], Call[T]],
) -> Callable[Concatenate[AsyncRemoteInstance, P], Coroutine[Any, Any, T]]:
    """The method that awaits the answers to a call."""

    async def method(instance: AsyncRemoteInstance, /, *given: P.args, **named: P.kwargs) -> T:
        return await sent(instance.graph.connection, call(instance.calls, *given, **named))

    update_wrapper(method, call)
    return method


class AsyncRemoteInstance:
    """An instance on a server.

    Args:
        graph: on the server.
        address: of the instance.
    """

    def __init__(self, graph: AsyncRemoteGraph, address: str) -> None:
        self.graph, self.address = graph, address
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

    async def wait(self, job: AnyJob, timeout_s: float | None = None) -> RemoteJob:
        """A job once it has ended, or as it is when the time is over; the server pushes what happens meanwhile.

        Errors: UnknownJob; StoreError if no server can be reached for `SERVICE_RESUME_SECONDS`.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), aclosing(self.graph.news()) as news:
                async for event in news:
                    if concerns(event, job) and (found := await self.job(job)).state is State.INACTIVE:
                        return found
        return await self.job(job)

    async def find(self, address: str) -> AsyncRemoteInstance:
        """An instance below this one by its address, relative or complete. Errors: UnknownJob."""
        return AsyncRemoteInstance(self.graph, await sent(self.graph.connection, self.calls.find(address)))

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
        return AsyncRemoteInstance(self.graph, await sent(self.graph.connection, self.calls.spawn(job, **given)))

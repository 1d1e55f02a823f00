"""An instance on a server for programs with asyncio: the methods of :class:`RemoteInstance` as coroutines."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from fluxres.service.client.async_graph import AsyncRemoteGraph, sent
from fluxres.service.client.calls import Call
from fluxres.service.client.instance_calls import AnyJob, InstanceCalls

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
    submit = _awaiting(InstanceCalls.submit)
    cancel = _awaiting(InstanceCalls.cancel)
    finish = _awaiting(InstanceCalls.finish)
    exception = _awaiting(InstanceCalls.exception)
    requeue = _awaiting(InstanceCalls.requeue)
    set_urgency = _awaiting(InstanceCalls.set_urgency)
    set_duration = _awaiting(InstanceCalls.set_duration)
    add_dependency = _awaiting(InstanceCalls.add_dependency)
    grow = _awaiting(InstanceCalls.grow)
    shrink = _awaiting(InstanceCalls.shrink)
    close = _awaiting(InstanceCalls.close)

    async def spawn(self, job: AnyJob, **given: Any) -> AsyncRemoteInstance:
        """Begin a child on what a running job holds; it ends with the job, and the job with it."""
        return AsyncRemoteInstance(self.graph, await sent(self.graph.connection, self.calls.spawn(job, **given)))

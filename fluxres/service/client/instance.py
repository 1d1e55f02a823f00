"""An instance on a server, with the methods of :class:`fluxres.Instance`; its jobs are values."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from fluxres.service.client.calls import Call
from fluxres.service.client.graph import RemoteGraph, sent
from fluxres.service.client.instance_calls import AnyJob, InstanceCalls

P = ParamSpec("P")
T = TypeVar("T")


def _sending(call: Callable[Concatenate[InstanceCalls, P], Call[T]]) -> Callable[Concatenate[RemoteInstance, P], T]:
    """The method that sends the requests of a call."""

    def method(instance: RemoteInstance, /, *given: P.args, **named: P.kwargs) -> T:
        return sent(instance.graph.connection, call(instance.calls, *given, **named))

    update_wrapper(method, call)
    return method


class RemoteInstance:
    """An instance on a server: it schedules on a graph there, and goes on when the server changes.

    Args:
        graph: on the server.
        address: of the instance.
    """

    def __init__(self, graph: RemoteGraph, address: str) -> None:
        self.graph, self.address = graph, address
        self.calls = InstanceCalls(graph.name, address)

    def __repr__(self) -> str:
        return f"<RemoteInstance {self.address} on {self.graph.name}>"

    summary = _sending(InstanceCalls.summary)
    job = _sending(InstanceCalls.job)
    jobs = _sending(InstanceCalls.jobs)
    check = _sending(InstanceCalls.check)
    submit = _sending(InstanceCalls.submit)
    cancel = _sending(InstanceCalls.cancel)
    finish = _sending(InstanceCalls.finish)
    exception = _sending(InstanceCalls.exception)
    requeue = _sending(InstanceCalls.requeue)
    set_urgency = _sending(InstanceCalls.set_urgency)
    set_duration = _sending(InstanceCalls.set_duration)
    add_dependency = _sending(InstanceCalls.add_dependency)
    grow = _sending(InstanceCalls.grow)
    shrink = _sending(InstanceCalls.shrink)
    close = _sending(InstanceCalls.close)

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
        return RemoteInstance(self.graph, sent(self.graph.connection, self.calls.spawn(job, **given)))

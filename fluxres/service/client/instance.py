"""An instance on a server, with the methods of :class:`fluxres.Instance`; its jobs are values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from fluxres.clock import stopwatch
from fluxres.errors import UnknownJob
from fluxres.instance.states import State
from fluxres.service.client.calls import Call
from fluxres.service.client.graph import RemoteGraph, sent
from fluxres.service.client.instance_calls import AnyJob, InstanceCalls, concerns
from fluxres.service.client.job import RemoteJob

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

    def wait(self, job: AnyJob, timeout_s: float | None = None) -> RemoteJob:
        """A job once it has ended, or as it is when the time is over; the server pushes what happens meanwhile.

        Errors: UnknownJob; StoreError if no server can be reached for `SERVICE_RESUME_SECONDS`.
        """
        until_s = None if timeout_s is None else stopwatch() + timeout_s
        for event in self.graph.news(until_s=until_s):
            if concerns(event, job) and (found := self.job(job)).state is State.INACTIVE:
                return found
        return self.job(job)

    def find(self, address: str) -> RemoteInstance:
        """An instance below this one by its address, relative or complete. Errors: UnknownJob."""
        return RemoteInstance(self.graph, sent(self.graph.connection, self.calls.find(address)))

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
        return RemoteInstance(self.graph, sent(self.graph.connection, self.calls.spawn(job, **given)))

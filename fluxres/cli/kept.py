"""Instances that a store keeps, for commands: on a server, or in the store itself, with the same methods.

Without a server, no process lets time pass: an instance handles what was due when a command asks it. With a server, also one on
the same store, both see what the other has done (`service/instances.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from fluxres import clock
from fluxres.cli.settings import Settings
from fluxres.cli.stores import os_user, server, store
from fluxres.documents.document import excerpt, listed
from fluxres.documents.suggestion import nearest
from fluxres.errors import InputError, UnknownJob, UsageError
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.instance import Instance
    from fluxres.model import ResourceGraph
    from fluxres.service.client.graph import RemoteInstance
    from fluxres.service.client.store import RemoteStore
    from fluxres.service.instances import Instances

T = TypeVar("T")
Document = dict[str, Any]
_LOOK_EVERY_S: Final = 0.25


class Keeper(Protocol):
    """The instances of one graph; what is asked of a job answers with its document."""

    def instances(self) -> list[Document]: ...

    def instance(self, address: str) -> Document: ...

    def create(self, name: str, given: Document) -> Document:
        """Begin an instance, with `queue_policy`, `match_policy`, `accounting` and `unit`."""

    def graph(self) -> ResourceGraph:
        """The graph, to read a request on it."""

    def jobs(self, address: str, state: str | None) -> list[Document]: ...

    def job(self, address: str, job: str) -> Document: ...

    def submit(self, address: str, wanted: Any, given: Document) -> Document: ...

    def reserve(self, address: str, wanted: Any, given: Document) -> Document: ...

    def spawn(self, address: str, job: str, given: Document) -> Document:
        """A child, by its document."""

    def grow(self, address: str, wanted: Any) -> list[str]: ...

    def shrink(self, address: str, wanted: Any) -> list[str]: ...

    def cancel(self, address: str, job: str, note: str) -> Document: ...

    def finish(self, address: str, job: str, status: int) -> Document: ...

    def set_duration(self, address: str, job: str, duration_s: float, urgency: int | None) -> Document:
        """Another limit, and with it another urgency, if one is given."""

    def set_urgency(self, address: str, job: str, urgency: int) -> Document: ...

    def set_end(self, job: str, end: float | None, duration_s: float | None) -> bool:
        """Move the end of a job in the records of the graph; False, with nothing done, if no instance has it."""

    def wait(self, address: str, job: str) -> Document:
        """A job once it has ended."""

    def close(self, address: str, *, if_idle: bool) -> None: ...


@contextmanager
def keeper(settings: Settings) -> Iterator[Keeper]:
    """The instances of the graph given by --graph, or of the one in use."""
    if (remote := server(settings)) is not None:
        yield RemoteKeeper(settings, remote)
        return
    from fluxres.service.instances import Instances
    from fluxres.store.attached import Attached

    opened = store(settings)
    wait_s = settings.wait_s
    graph = Attached(opened, settings.graph, "full", settings.command, wait_s, clock.system).graph
    try:
        yield LocalKeeper(graph, Instances(opened, graph, lambda: 0))
    finally:
        graph.close()


def one_of(kept: Keeper, name: str | None) -> str:
    """The address of an instance: this one, or the only one of the graph. Errors: UsageError."""
    if name is not None:
        return name
    names = [one["address"] for one in kept.instances() if "/" not in one["address"]]
    if len(names) != 1:
        hint = f"name one with --instance: {listed(names)}" if names else "`fluxres instance create NAME` makes one"
        raise UsageError("the graph has several instances" if names else "the graph has no instance", hint=hint)
    return str(names[0])


_IDS: Final = "`fluxres instance queue -a` lists the ids of jobs, in which f may stand for ƒ, also of those that have ended"


_NOT_ONE: Final = frozenset("+?,:")
"""In what is no dependency on one job; the instance says what is wrong."""


def ids_of(kept: Keeper, address: str, words: Iterable[str]) -> list[str]:
    """The ids of jobs, each given by id or by the name of an active job.

    Errors: UsageError for a name that several jobs have; UnknownJob for any other text that is no id.
    """
    given = list(words)
    if all(map(fluid.is_name, given)):
        return given
    active = kept.jobs(address, "active")
    return [_id_of(active, word, address) for word in given]


def _id_of(active: Sequence[Document], word: str, address: str) -> str:
    is_id = False
    with suppress(InputError):
        named, is_id = fluid.encode(fluid.decode(word)), True
        if any(one["id"] == named for one in active):
            return named
    ids = [str(one["id"]) for one in active if one["name"] == word]
    if len(ids) > 1:
        message = f"{len(ids)} jobs are named {excerpt(word)}: {listed(ids)}"
        raise UsageError(message, where=address, hint="name one by its id")
    if not ids and not is_id:
        hint = nearest(word, [str(one["name"]) for one in active if one["name"]], _IDS)
        raise UnknownJob(f"no job named {excerpt(word)} runs or waits", where=address, hint=hint)
    return ids[0] if ids else word


def with_ids(kept: Keeper, address: str, dependencies: Iterable[str]) -> list[str]:
    """Dependencies, with the names of active jobs as ids. Errors: as `ids_of`."""
    parted = [(one, *one.partition(":")[::2]) for one in dependencies]
    names = [value for _, scheme, value in parted if value and scheme != "begin-time" and _NOT_ONE.isdisjoint(value)]
    ids = dict(zip(names, ids_of(kept, address, names), strict=True))  # one question, however many there are
    return [f"{scheme}:{ids[value]}" if value in ids and scheme != "begin-time" else one for one, scheme, value in parted]


class RemoteKeeper:
    """The instances of a graph on a server."""

    def __init__(self, settings: Settings, remote: RemoteStore) -> None:
        from fluxres.service.client.graph import RemoteGraph

        self._remote = remote
        self._graph = RemoteGraph(remote.connection, remote.name_of(settings.graph))

    def _instance(self, address: str) -> RemoteInstance:
        from fluxres.service.client.graph import RemoteInstance

        return RemoteInstance(self._graph, address)

    def instances(self) -> list[Document]:
        return self._graph.instances()

    def instance(self, address: str) -> Document:
        return self._instance(address).summary()

    def create(self, name: str, given: Document) -> Document:
        return self._graph.create_instance(name, **given).summary()

    def graph(self) -> ResourceGraph:
        return self._remote.load(self._graph.name)

    def jobs(self, address: str, state: str | None) -> list[Document]:
        return [one.document for one in self._instance(address).jobs(state)]

    def job(self, address: str, job: str) -> Document:
        return self._instance(address).job(job).document

    def submit(self, address: str, wanted: Any, given: Document) -> Document:
        return self._instance(address).submit(wanted, **given).document

    def reserve(self, address: str, wanted: Any, given: Document) -> Document:
        return self._instance(address).reserve(wanted, **given).document

    def spawn(self, address: str, job: str, given: Document) -> Document:
        return self._instance(address).spawn(job, **given).summary()

    def grow(self, address: str, wanted: Any) -> list[str]:
        return self._instance(address).grow(wanted)

    def shrink(self, address: str, wanted: Any) -> list[str]:
        return self._instance(address).shrink(wanted)

    def cancel(self, address: str, job: str, note: str) -> Document:
        return self._instance(address).cancel(job, note).document

    def finish(self, address: str, job: str, status: int) -> Document:
        return self._instance(address).finish(job, status).document

    def set_duration(self, address: str, job: str, duration_s: float, urgency: int | None) -> Document:
        return self._instance(address).set_duration(job, duration_s, urgency).document

    def set_urgency(self, address: str, job: str, urgency: int) -> Document:
        return self._instance(address).set_urgency(job, urgency).document

    def set_end(self, job: str, end: float | None, duration_s: float | None) -> bool:
        self._graph.set_end(job, end, duration_s=duration_s)  # the server knows whose the job is
        return True

    def wait(self, address: str, job: str) -> Document:
        return self._instance(address).wait(job).document

    def close(self, address: str, *, if_idle: bool) -> None:
        self._instance(address).close(if_idle=if_idle)


def _of_user(given: Document) -> Document:
    """The options of a job, which is that of the user of this process if they name none."""
    return {**given, "user": os_user()} if given["user"] is None else given


class LocalKeeper:
    """The instances of a graph in a store, changed by this process."""

    def __init__(self, graph: ResourceGraph, kept: Instances) -> None:
        self._graph, self._kept = graph, kept

    def _do(self, address: str, what: str, operation: Callable[[Instance], T]) -> T:
        if not what:
            return self._kept.ask(self._graph, address, operation)
        with self._graph.batch():
            return self._kept.operate(self._graph, address, what, operation)

    def _of_job(self, address: str, what: str, job: str, operation: Callable[[Instance], object]) -> Document:
        from fluxres.render import documents

        def change(one: Instance) -> Document:
            operation(one)
            return documents.instance_job(one.job(job))

        return self._do(address, what, change)

    def instances(self) -> list[Document]:
        from fluxres.render import documents

        found: list[Document] = []
        for name in self._kept.names():
            found += self._do(name, "", lambda top: [documents.instance(one) for one in top.walk()])
        return found

    def instance(self, address: str) -> Document:
        from fluxres.render import documents

        return self._do(address, "", documents.instance)

    def create(self, name: str, given: Document) -> Document:
        from fluxres.render import documents

        with self._graph.batch():
            return documents.instance(self._kept.create(self._graph, name, **given))

    def graph(self) -> ResourceGraph:
        return self._graph

    def jobs(self, address: str, state: str | None) -> list[Document]:
        from fluxres.render import documents

        wanted = [] if state is None else [state]
        return self._do(address, "", lambda one: [documents.instance_job(job) for job in one.jobs(*wanted)])

    def job(self, address: str, job: str) -> Document:
        return self._of_job(address, "", job, lambda _one: None)

    def submit(self, address: str, wanted: Any, given: Document) -> Document:
        from fluxres.render import documents

        return self._do(address, "submit", lambda one: documents.instance_job(one.submit(wanted, **_of_user(given))))

    def reserve(self, address: str, wanted: Any, given: Document) -> Document:
        from fluxres.render import documents

        return self._do(address, "reserve", lambda one: documents.instance_job(one.reserve(wanted, **_of_user(given))))

    def spawn(self, address: str, job: str, given: Document) -> Document:
        from fluxres.instance.saved import require_policy
        from fluxres.render import documents

        policy = given["queue_policy"]
        options = {**given, "queue_policy": policy and require_policy(policy)}
        return self._do(address, "spawn", lambda one: documents.instance(one.spawn(job, **options)))

    def grow(self, address: str, wanted: Any) -> list[str]:
        return self._do(address, "grow", lambda one: one.grow(wanted))

    def shrink(self, address: str, wanted: Any) -> list[str]:
        return self._do(address, "shrink", lambda one: one.shrink(wanted))

    def cancel(self, address: str, job: str, note: str) -> Document:
        return self._of_job(address, "cancel", job, lambda one: one.cancel(job, note))

    def finish(self, address: str, job: str, status: int) -> Document:
        return self._of_job(address, "finish", job, lambda one: one.finish(job, status))

    def set_duration(self, address: str, job: str, duration_s: float, urgency: int | None) -> Document:
        return self._of_job(address, "set_duration", job, lambda one: one.set_duration(job, duration_s, urgency))

    def set_urgency(self, address: str, job: str, urgency: int) -> Document:
        return self._of_job(address, "set_urgency", job, lambda one: one.set_urgency(job, urgency))

    def set_end(self, job: str, end: float | None, duration_s: float | None) -> bool:
        with self._graph.batch():
            name = self._kept.owner(self._graph, job)
            if name is not None:
                self._kept.set_end(self._graph, name, job, end, duration_s)
        return name is not None

    def wait(self, address: str, job: str) -> Document:
        while (found := self.job(address, job))["state"] != "INACTIVE":
            clock.sleep(_LOOK_EVERY_S)
        return found

    def close(self, address: str, *, if_idle: bool) -> None:
        self._do(address, "close", lambda one: one.close(if_idle=if_idle))

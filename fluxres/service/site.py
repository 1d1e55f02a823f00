"""The graphs that a service has open, and the threads that work on them.

A graph is attached to its store: it is in memory, and a change returns when it is in the journal. One thread changes a graph;
questions are answered by others, and do not wait for the disk. Each request has a bound on the time that it may take.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from fluxres import clock, limits
from fluxres.clock import stopwatch
from fluxres.errors import (
    FluxresError,
    InDoubt,
    NotLeader,
    RevisionConflict,
    StoreConflict,
    StoreError,
    Unavailable,
    UnknownGraph,
    UsageError,
)
from fluxres.model import ResourceGraph
from fluxres.service.access import Caller
from fluxres.service.caretaker import Caretaker
from fluxres.service.kept import Keep, KeptAnswers
from fluxres.service.leadership import Leadership
from fluxres.service.served import Served
from fluxres.service.tenancy import Tenancy
from fluxres.service.thread_names import show_name
from fluxres.service.time_limit import TimeLimit
from fluxres.store import GraphRow, Held, Store, child, open_store
from fluxres.store.attached import Attached
from fluxres.store.child import Child

T = TypeVar("T")

_COMMAND: Final = "fluxres serve"
_ASKING_THREADS: Final = 8
_STORING_THREADS: Final = 16
_LOOK_S: Final = 0.1
_SUPERSESSION_S: Final = 2.0
"""How long a server whose lease is over waits to learn which one leads, once a change has failed."""


class Site:
    """The graphs of one store.

    Args:
        url: of the store; the default one if None.
        question_s: seconds that a question may take.
        life_s: of the lease under which it may be changed.
        child: the only graph that is served; by default all graphs of the store.
    """

    def __init__(self, url: str | None, question_s: float, life_s: float, child: Child | None = None) -> None:
        self.child = child
        self.leadership: Leadership | Tenancy
        if child is not None:
            self.leadership, self.store, self.kept = Tenancy(child), child.store, KeptAnswers(child.uid)
        else:
            leadership = Leadership(url, life_s, self._prepare)
            self.leadership, self.store, self.kept = leadership, open_store(url, clock=clock.system), KeptAnswers()
            self.store.fence = leadership.fence
        self.question_s = question_s
        self.boot = os.urandom(4).hex()
        self._open: dict[str, Served] = {}
        self._lock = threading.Lock()
        self._asking = ThreadPoolExecutor(_ASKING_THREADS, "fluxres-ask", show_name)
        self._storing = ThreadPoolExecutor(_STORING_THREADS, "fluxres-store", show_name)
        self.waiting = 0
        self.caretaker = Caretaker(self.store, self.leadership, lambda: self.open_graphs, self.let_go)
        self.exchange = self.caretaker.exchange
        self.caretaker.start()
        #: Set in the event loop when something has changed, for those that wait for it.
        self.changed = asyncio.Event()

    def served(self, name: str) -> Served:
        """A graph by name, opened when it is first asked for.

        Errors: UnknownGraph; StoreError.
        """
        found = self._open.get(name)
        if found is not None:
            return found
        with self._lock:
            if name not in self._open:
                self.require_served(name)
                graph = (
                    Attached(self.store, name, "full", _COMMAND, limits.LOCK_WAIT_SECONDS_DEFAULT, clock.system).graph
                    if self.child is None
                    else self.child.graph
                )
                served = Served(graph, self.store, lambda: self.leadership.epoch)
                if self.leadership.is_leading:
                    self.caretaker.spare(served)
                self._open[name] = served
            return self._open[name]

    def served_as(self, graph: ResourceGraph) -> Served:
        """What is served with a graph that is being changed. Errors: Unavailable if another one of its name was opened since."""
        found = self.served(graph.name)
        if found.graph is not graph:
            raise Unavailable("the graph was replaced just now", hint="send the request again", retry_after_s=1)
        return found

    def require_served(self, name: str | None) -> None:
        """Refuse another graph than that of a child, or all graphs if None.

        Errors: UnknownGraph; UsageError.
        """
        if self.child is None or name == self.child.name:
            return
        hint = "ask the server of its parent"
        if name is None:
            raise UsageError(f"this server has the graph '{self.child.name}' only", hint=hint)
        raise UnknownGraph(f"no graph '{name}': this server has '{self.child.name}' only", hint=hint, graph=name)

    def graphs(self) -> list[GraphRow]:
        """The graphs that are served."""
        return [row for row in self.store.graphs() if self.child is None or row.name == self.child.name]

    async def count_graphs(self) -> int:
        """The number of graphs in the store, which can be read then. Errors: StoreError."""
        return len(await self.work(self.store.graphs))

    def drain(self) -> None:
        """End the streams; called in the event loop."""
        for served in self.open_graphs:
            served.feed.close()
        self.exchange.close()

    def current(self, name: str) -> Served:
        """A graph with what other processes wrote; opened again if it was dropped and created again."""
        served = self.served(name)
        try:
            served.refresh()
        except (StoreConflict, UnknownGraph):
            self.forget(name, served)
            return self.served(name)
        return served

    @property
    def open_graphs(self) -> list[Served]:
        return list(self._open.values())

    def forget(self, name: str, only: Served | None = None) -> None:
        """Close a graph; the next request opens it again, if it is still there.

        Args:
            only: not if a request has opened another one of its name since this one.
        """
        with self._lock:
            found = self._open.get(name)
            if found is None or (only is not None and only is not found):
                return
            del self._open[name]
        found.close()

    def let_go(self, served: Served) -> None:
        """Close a graph that another process dropped, unless a request has opened one of its name again."""
        if self.child is None:
            self.forget(served.name, served)

    def close(self) -> None:
        """Wait for the requests that have begun, and close all graphs."""
        self.caretaker.close()
        self._storing.shutdown()
        self._asking.shutdown()
        for name in list(self._open):
            self.forget(name)
        self.leadership.close()

    def _prepare(self, store: Store) -> None:
        """Before it writes under a new lease: know what others answered before."""
        with store.reading(None) as rows:
            self.kept.learn(rows.db.notes())

    # -- revisions ---------------------------------------------------------------------------------------------------

    def revision(self, graph: ResourceGraph) -> str:
        """The entity tag of the present state of a graph; it is valid until the service starts again.

        The caller holds the lock of the graph.
        """
        return f'"{self.boot}-{graph.number}-{graph.revision}"'

    def require_revision(self, graph: ResourceGraph, expected: str | None) -> None:
        """Errors: RevisionConflict unless the graph has one of the revisions in an If-Match header."""
        if expected is None or expected.strip() == "*":
            return
        present = self.revision(graph)
        if present not in [one.strip().removeprefix("W/") for one in expected.split(",")]:
            message = f"the graph is at revision {present}, not at {expected}"
            raise RevisionConflict(message, hint="read it again, and decide on its current state")

    def require_stored_revision(self, name: str, expected: str | None) -> None:
        """As `require_revision`, for the stored state, within a change of the store. Errors: RevisionConflict."""
        if expected is not None:
            served = self.served(name)
            served.catch_up()
            graph = served.graph
            with graph.lock:
                self.require_revision(graph, expected)

    # -- work --------------------------------------------------------------------------------------------------------

    async def ask(self, name: str, question: Callable[[ResourceGraph], T]) -> tuple[T, str]:
        """Answer a question in a thread, within the time of a question.

        Returns: the answer, and the revision it is of.
        Errors: those of the question; UnknownGraph; Unavailable.
        """

        if name not in self._open:
            await self.run(self._asking, lambda: self.served(name))  # reading a large graph is not the question

        def answer() -> tuple[T, str]:
            graph = self.current(name).graph
            with graph.lock:
                return question(graph), self.revision(graph)

        limit = TimeLimit(self.question_s)
        asked = asyncio.ensure_future(self.run(self._asking, lambda: limit.run(answer)))
        await limit.cut_if_gone(asked)
        return await asked

    async def change(
        self,
        name: str,
        caller: Caller,
        command: str,
        expected: str | None,
        operation: Callable[[ResourceGraph], T],
        keep: Keep | None = None,
        mark: str | None = None,
    ) -> tuple[T, str]:
        """Make a change in the thread of the graph's writer; it is in the journal when this returns.

        Args:
            command: for the journal.
            expected: the revision that the graph must have, as in If-Match; None for any.
            keep: keeps the answer with the change; what the operation returns are bytes then.
            mark: of the lease that a child has on the graph; None for a change by others.

        Returns: what the operation returns, and the revision after it.
        Errors: those of the operation; RevisionConflict; Unavailable; nothing is changed then. InDoubt.
        """
        before = self._open.get(name)
        try:
            made = await self._change(name, caller, command, expected, operation, keep, mark)
        except StoreConflict as error:
            if self.child is not None or isinstance(error, RevisionConflict):
                raise
            # Another process dropped the graph, and nothing was changed; perhaps there is one of this name again.
            if self._open.get(name) is before:
                await self.run(self._asking, lambda: self.forget(name))
            made = await self._change(name, caller, command, expected, operation, keep, mark)
        self.changed.set()
        return made

    async def _change(
        self,
        name: str,
        caller: Caller,
        command: str,
        expected: str | None,
        operation: Callable[[ResourceGraph], T],
        keep: Keep | None,
        mark: str | None,
    ) -> tuple[T, str]:
        found = self._open.get(name)
        served = await self.run(self._asking, lambda: self.served(name)) if found is None else found
        graph = served.graph

        def make() -> tuple[T, str]:
            limit = TimeLimit(self.question_s)
            with served.tap.serving(caller, limit), graph.batch(command=command, user=caller.name):
                if mark is not None:
                    child.require(self.store, name, mark)
                if keep is not None and keep.is_doubtful:
                    with self.store.reading(name) as rows:
                        keep.require(rows.db)
                if expected is not None:
                    self.require_revision(graph, expected)
                generation = graph.generation
                found, revision = limit.run(lambda: operation(graph)), self.revision(graph)
                if graph.generation != generation:
                    graph.matcher.prepare()  # for the machine as it is now: no part of a question
                if keep is not None and graph.attachment is not None:
                    assert isinstance(found, bytes)
                    graph.attachment.note(*keep(found, revision))
                return found, revision

        self._count()
        try:
            made: tuple[T, str] = await served.writer.submit(make)
        except StoreError as error:
            refusal = await self._to_answer(error, has_key=keep is not None)
            if refusal is error:
                raise
            raise refusal from error
        finally:
            self.waiting -= 1
        return made

    async def _to_answer(self, error: StoreError, *, has_key: bool) -> FluxresError:
        """What a client learns of a change that failed at the store, whose connection may have been ended by another leader.

        Args:
            has_key: whether the change is noted with an idempotency key, and so is done once, also if this server did it.
        """
        if isinstance(error, NotLeader) or (refusal := await self._supersession()) is None:
            return error
        if has_key or not isinstance(error, InDoubt):  # it changed nothing
            return refusal
        at = f" at {self.leadership.leader}" if self.leadership.leader else ""
        hint = f"check the current state{at}; a change with an idempotency key can be sent again"
        return InDoubt("another server leads the store by now, and the change may have been made before that", hint=hint)

    async def _supersession(self) -> FluxresError | None:
        """What refuses a change because this server does not lead any more.

        A server that takes over ends the connections of one that stood still, and only then notes that it leads. So one whose
        lease is over looks more than once.
        """
        until_s = stopwatch() + _SUPERSESSION_S
        while True:
            try:
                refusal = await self.run(self._asking, self.leadership.supersession)
            except StoreError:
                refusal = None
            if refusal is not None or not self.leadership.is_overdue or stopwatch() > until_s:
                return refusal
            await asyncio.sleep(_LOOK_S)

    def catch_up(self) -> None:
        """Catch up with what was written to the store past the graphs in memory; those that were dropped are closed."""
        for served in self.open_graphs:
            try:
                served.catch_up()
            except (StoreConflict, UnknownGraph):
                self.forget(served.name, served)

    async def in_store(self, name: str, operation: Callable[[Store], T], keep: Keep | None = None) -> T:
        """Do something in a thread that writes to the store and not to the graphs in memory, which catch up afterwards.

        Args:
            keep: keeps the answer with the change.
        """
        store = self.store if keep is None or not keep.is_doubtful else self.store.guarded(keep)

        def make() -> T:
            self.served(name)
            try:
                return operation(store)
            finally:
                self.catch_up()

        try:
            return await self.run(self._storing, make)
        except StoreError as error:
            raise await self._to_answer(error, has_key=keep is not None) from error

    async def work(self, operation: Callable[[], T]) -> T:
        """Do something else that takes time in a thread."""
        return await self.run(self._asking, operation)

    async def run(self, pool: ThreadPoolExecutor, function: Callable[[], T]) -> T:
        self._count()
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, function)
        finally:
            self.waiting -= 1

    def _count(self) -> None:
        """Count a request that waits for a thread until it is done.  Errors: Unavailable if too many wait already."""
        if self.waiting >= limits.SERVICE_WAITING_MAX:
            raise Unavailable(f"{self.waiting} requests are waiting already", hint="try again later")
        self.waiting += 1

    # -- graphs ------------------------------------------------------------------------------------------------------

    def put(
        self, graph: ResourceGraph, name: str, command: str, *, replace: bool, use: bool = False, held: Held | None = None
    ) -> None:
        """Add a graph to the store. Errors: UsageError for a name that is taken; HoldLapsed."""
        self.store.put(name, graph, replace=replace, use=use, held=held, command=command)
        if replace:
            self.forget(name)

    def drop(self, name: str, command: str, *, force: bool) -> list[str]:
        """Remove a graph from the store; returns what was lost with it. Errors: StillHeld, unless it is forced."""
        lost = self.store.drop(name, force=force, command=command)
        self.forget(name)
        return lost

    def chosen(self) -> str:
        """The graph in use. Errors: UsageError if there is none."""
        found = self.store.default if self.child is None else self.child.name
        if found is None:
            raise UsageError("no graph is in use", hint="name one")
        return found

"""A thread of the service that looks after runs and children: it frees what dead processes held, and grants it to requests that
wait (rules H1, H2 and N1).

Those who wait through the server cannot see the processes of other runs, so this thread watches for them. It looks at the graphs
in memory, and writes to the store only when something has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import Final

from fluxres import limits
from fluxres.clock import stopwatch
from fluxres.errors import FluxresError, StoreConflict, UnknownGraph
from fluxres.launch import desk, orphans
from fluxres.service.leadership import Leadership
from fluxres.service.news import Exchange
from fluxres.service.served import Served
from fluxres.service.tenancy import Tenancy
from fluxres.store import Store, mailbox

_LOOK_EVERY_S: Final = 0.2
_QUIET_S: Final = 1.0
"""The same while no run is connected for news."""


class Caretaker:
    """Looks after the runs of a store.

    Args:
        store: of the graphs.
        leadership: whether this server may change them.
        open_graphs: returns those that it looks at.
        let_go: closes one that another process dropped.

    Attributes:
        exchange: the news of runs elsewhere.
    """

    def __init__(
        self,
        store: Store,
        leadership: Leadership | Tenancy,
        open_graphs: Callable[[], Sequence[Served]],
        let_go: Callable[[Served], None],
    ) -> None:
        self._store, self._leadership, self._open_graphs, self._let_go = store, leadership, open_graphs, let_go
        self.exchange = Exchange(store, self.look, self.left)
        self._wanted: list[tuple[float, str]] = []
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="fluxres-caretaker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def look(self, graph: str, after_s: float = 0.0) -> None:
        """Look at a graph, now or later."""
        with self._lock:
            heappush(self._wanted, (stopwatch() + after_s, graph))
        if not after_s:
            self._news.set()

    def left(self, graph: str, lease_s: float) -> None:
        """A run has lost its connection: its processes may have ended, or its lease will not be renewed."""
        self.look(graph)
        self.look(graph, lease_s)

    def close(self) -> None:
        self._is_closed = True
        self._news.set()
        self._thread.join()

    def spare(self, served: Served) -> None:
        """When a graph is opened, or this server begins to lead: once, since runs may have shorter leases from then on.

        Leases could not be renewed before, and a server that was killed has left its sockets.
        """
        served.spared_in = self._leadership.epoch
        with suppress(FluxresError):
            mailbox.sweep(mailbox.folder_of(self._store.path))
            served.catch_up()
            desk.spare(self._store, served.graph, limits.RUN_LEASE_SECONDS_DEFAULT)
        self.look(served.name)
        self.look(served.name, limits.RUN_LEASE_SECONDS_DEFAULT)

    def _run(self) -> None:
        while not self._is_closed:
            self._news.wait(_LOOK_EVERY_S if len(self.exchange) else _QUIET_S)
            self._news.clear()
            if not self._leadership.is_leading:
                continue
            self._look_at_all()

    def _look_at_all(self) -> None:
        for served in self._open_graphs():
            if served.spared_in != self._leadership.epoch:
                self.spare(served)
        with suppress(FluxresError):  # a store that is busy, or away
            self._store.settle()
        wanted = self._due()
        for served in self._open_graphs():
            try:
                served.refresh()
                if served.name in wanted or self._has_ended(served):
                    if desk.has_runs(self._store, served.graph):  # else a look would read the graph for nothing
                        desk.look(self._store, served.name)
                    served.catch_up()
            except (StoreConflict, UnknownGraph):  # another process dropped it
                self._seen.pop(served.name, None)
                self._let_go(served)
            except FluxresError:  # a store that is busy, or away
                pass

    def _due(self) -> set[str]:
        found, now = set(), stopwatch()
        with self._lock:
            while self._wanted and self._wanted[0][0] <= now:
                found.add(heappop(self._wanted)[1])
        return found

    def _has_ended(self, served: Served) -> bool:
        """Whether the processes of a job have ended, or the time of something that is held."""
        graph = served.graph
        with graph.lock:
            now = graph.now()
            before = self._seen.get(served.name, now)
            self._seen[served.name] = now
            if not len(self.exchange) and next(orphans.launched(graph), None) is None:
                return False
            return orphans.are_there(graph) or bool(graph.planner.moments(before, now))

"""A graph that is served: in memory, attached to its store, with what its requests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fluxres.clock import stopwatch
from fluxres.errors import StoreConflict, UsageError
from fluxres.model import ResourceGraph
from fluxres.service.feed import Feed
from fluxres.service.instances import Instances
from fluxres.service.tap import Tap
from fluxres.service.writer import Writer
from fluxres.store import Store
from fluxres.store.attached import Attached

_REFRESH_S: Final = 0.1
"""How long an answer may lack what another process has written to the store."""


class Served:
    """A graph that is served.

    Args:
        graph: attached to its store.
        store: of the graph.
        epoch: returns that of the lead of this server.

    Attributes:
        spared_in: the epoch for which the caretaker has spared the runs of the graph.
    """

    spared_in: int | None = None
    _is_closed = False

    def __init__(self, graph: ResourceGraph, store: Store, epoch: Callable[[], int]) -> None:
        self.graph = graph
        self.name = graph.name
        self.instances = Instances(store, graph, epoch)
        self.tap = Tap(graph)
        self.feed = Feed(store, graph.name)
        assert isinstance(graph.attachment, Attached)
        graph.attachment.on_commit = self.feed.committed
        self.writer = Writer(graph.attachment, graph.name)
        self._refreshed = stopwatch()
        with graph.lock:
            graph.matcher.prepare()  # seconds on a large machine, and no part of a question

    def refresh(self) -> None:
        """Catch up with what other processes wrote, unless that has been done just now. Errors: as for `catch_up`."""
        now = stopwatch()
        if now - self._refreshed > _REFRESH_S:
            self._refreshed = now
            self._follow()

    def catch_up(self) -> None:
        """Catch up with what was written to the store here, past the graph in memory.

        Errors: StoreConflict, UnknownGraph if it was dropped, and also once another thread has closed it for that; StoreError.
        """
        self._follow()
        self.feed.wake()

    def _follow(self) -> None:
        try:
            self.graph.refresh()
        except UsageError as error:
            if not self._is_closed:
                raise
            raise StoreConflict(f"graph '{self.name}' was replaced just now", hint="send the request again") from error

    def close(self) -> None:
        self._is_closed = True
        self.writer.close()
        self.feed.close()
        self.graph.close()

"""Where a run gets its resources, and gives them back: a store that its launcher writes to, or a server."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from fluxres import limits
from fluxres.errors import FluxresError
from fluxres.launch import desk, waiting
from fluxres.launch.desk import Application, Author, Standing
from fluxres.store.mailbox import Mailbox, News
from fluxres.store.url import ServerUrl

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph
    from fluxres.store import Store

_LEASE_PARTS: Final = 3
"""A lease is renewed after a third of it, so that one renewal may fail."""


class Broker(ABC):
    """Where one run gets its resources.

    Args:
        graph: name of the graph.
        lease_s: life of the lease, which is renewed; None for no lease.
        command: for the journal.

    Attributes:
        url: of the store or the server, for the program.
        mark: by which everything that the run starts is found.
        is_served: whether there is a server between the run and the store.
    """

    url: str
    is_served = False

    def __init__(self, graph: str, lease_s: float | None, command: str) -> None:
        self.graph, self.lease_s, self.author = graph, lease_s, Author(command)
        self.mark = os.urandom(12).hex()

    @property
    def renews_every_s(self) -> float | None:
        """Time between renewals; None for no lease."""
        return None if self.lease_s is None else self.lease_s / _LEASE_PARTS

    @property
    def asks_every_s(self) -> float | None:
        """Time after which a run that waits asks how it stands, since not everybody can wake it; None if everybody can."""
        return None

    @abstractmethod
    def listen(self) -> None:
        """Begin to receive news, before anything is asked for."""

    @abstractmethod
    def fileno(self) -> int | None:
        """What is readable when there is news; None if there will be none."""

    @abstractmethod
    def read(self) -> list[News]:
        """The news that have come."""

    @abstractmethod
    def close(self) -> None:
        """Receive no more news."""

    @abstractmethod
    def enter(self, asking: Callable[[ResourceGraph], Application]) -> tuple[Standing, ResourceGraph | None]:
        """Ask for resources.  Returns and errors: as :func:`fluxres.launch.desk.enter`."""

    @abstractmethod
    def look(self) -> Standing | None:
        """Renew the lease, and find out how the run stands; None if that cannot be said now.

        Errors: StoreError if that has not been possible for too long.
        """

    @abstractmethod
    def renew(self) -> Standing | None:
        """As :meth:`look`, while the program runs: without a pass of the queue, and without errors."""

    @abstractmethod
    def load(self) -> ResourceGraph:
        """The graph.  Errors: StoreError."""

    @abstractmethod
    def start_s(self, job: str) -> float | None:
        """When a run that waits is expected to start; infinity if that is not known."""

    @abstractmethod
    def release(self, status: int | None = None) -> None:
        """Free everything that the run holds, and take its ticket out of the queue.

        Args:
            status: exit status of the program, which others read with `fluxres wait`; None if it is not known.

        Errors: StoreError.
        """


class StoreBroker(Broker):
    """A store.

    Args:
        store: of the graph.
    """

    def __init__(self, store: Store, graph: str, lease_s: float | None = None, command: str = "") -> None:
        super().__init__(graph, lease_s, command)
        self.store, self.url = store, store.url
        self._mailbox: Mailbox | None = None

    @property
    def asks_every_s(self) -> float | None:
        return limits.QUEUE_ASK_SECONDS if isinstance(self.store.address, ServerUrl) else None

    def listen(self) -> None:
        with suppress(OSError):  # a full disk: it looks by itself
            self._mailbox = Mailbox(self.store.path, self.mark)

    def fileno(self) -> int | None:
        return None if self._mailbox is None else self._mailbox.fileno()

    def read(self) -> list[News]:
        return [] if self._mailbox is None else self._mailbox.read()

    def close(self) -> None:
        if self._mailbox is not None:
            self._mailbox.close()
            self._mailbox = None

    def enter(self, asking: Callable[[ResourceGraph], Application]) -> tuple[Standing, ResourceGraph | None]:
        return desk.enter(self.store, self.graph, self.mark, asking, self.author)

    def look(self) -> Standing:
        return desk.look(self.store, self.graph, self.mark, self.lease_s)

    def renew(self) -> Standing | None:
        with suppress(FluxresError):
            if self.lease_s is not None:
                return desk.renew(self.store, self.graph, self.mark, self.lease_s, self.author)
            return desk.standing(self.store.load(self.graph), self.store.tickets(self.graph), self.mark)
        return None

    def load(self) -> ResourceGraph:
        return self.store.load(self.graph)

    def start_s(self, job: str) -> float | None:
        graph = self.load()
        return waiting.Pass(graph).run(self.store.tickets(self.graph), only_estimate=True).starts.get(job)

    def release(self, status: int | None = None) -> None:
        desk.release(self.store, self.graph, self.mark, self.author, status)


def look_every_s(broker: Broker) -> float:
    """The time after which a run that waits looks by itself."""
    return min(limits.QUEUE_LOOK_SECONDS, broker.renews_every_s or limits.QUEUE_LOOK_SECONDS)

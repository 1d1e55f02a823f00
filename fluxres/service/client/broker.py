"""A run that gets its resources from a server: it is woken by the event stream of the server, and renews its lease there.

The program runs here. If the server restarts, the stream is opened again, and the run asks how it stands.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex
from typing import Any, Final, TypeVar

import msgspec

from fluxres import clock, limits
from fluxres.clock import stopwatch
from fluxres.errors import FluxresError, StoreError
from fluxres.launch.broker import Broker
from fluxres.launch.desk import Application, Standing
from fluxres.model import ResourceGraph
from fluxres.service.client.connection import Connection
from fluxres.service.client.requests import of_graph
from fluxres.service.client.store import RemoteStore
from fluxres.store.mailbox import News

T = TypeVar("T")

_RESUME_S: Final = 0.5
_SILENCE_S: Final = 45.0
"""A stream without the comment that comes every 15 s is dead."""


class ServerBroker(Broker):
    """A server.

    Args:
        server: where the graph is.
        lease_s: life of the lease.
    """

    is_served = True
    lease_s: float

    def __init__(self, server: RemoteStore, graph: str, lease_s: float, command: str) -> None:
        super().__init__(graph, lease_s, command)
        self.url = server.url
        self._server = server
        self._answered_s: float | None = None
        self._news: deque[News] = deque()
        self._pipe: tuple[int, int] | None = None
        self._is_closed = threading.Event()
        self._is_known = False
        """Whether the server may know this run, so that news may have been missed."""

    # -- news --------------------------------------------------------------------------------------------------------

    def listen(self) -> None:
        self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        threading.Thread(target=self._follow, args=(self._pipe[1],), name="fluxres-news", daemon=True).start()

    def fileno(self) -> int | None:
        return None if self._pipe is None else self._pipe[0]

    def read(self) -> list[News]:
        if self._pipe is not None:
            with suppress(BlockingIOError):
                os.read(self._pipe[0], 4096)
        found = []
        while self._news:
            found.append(self._news.popleft())
        return found

    def close(self) -> None:
        self._is_closed.set()
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            os.close(pipe[0])  # the thread has the other end until the process ends

    def _follow(self, out: int) -> None:
        """Put the news of the server where the loop finds them, over one connection after the other."""
        connection = Connection(self._server.connection.servers.known, timeout_s=_SILENCE_S)
        path = f"{of_graph(self.graph, 'news')}?mark={self.mark}&lease_s={self.lease_s}"
        while not self._is_closed.is_set():
            with suppress(FluxresError, ValueError):
                for line in connection.stream(path):
                    if line.startswith(b": following"):
                        if self._is_known:
                            self._tell(out, News(look=True))
                    elif line.startswith(b"data: "):
                        self._tell(out, msgspec.json.decode(line[6:], type=News))
            self._is_closed.wait(_RESUME_S)

    def _tell(self, out: int, news: News) -> None:
        self._news.append(news)
        with suppress(OSError):  # full: it is readable then; or nobody reads any more
            os.write(out, b"!")

    # -- resources ---------------------------------------------------------------------------------------------------

    def enter(self, asking: Callable[[ResourceGraph], Application]) -> tuple[Standing, ResourceGraph | None]:
        asked = asking(self._server.load(self.graph))
        launch = asked.launch
        body = {
            "mark": self.mark,
            "host": launch.host,
            "boot": launch.boot,
            "processes": launch.processes,
            "program": launch.command,
            "request": asked.plain,
            "pools": asked.pools,
            "waits": asked.waits,
            "job": asked.job,
            "user": asked.user,
            "name": asked.name,
            "priority": asked.priority,
            "duration_s": asked.duration_s,
            "policy": asked.policy,
            "shows_place": asked.shows_place,
            "lease_s": self.lease_s,
        }
        self._is_known = True
        standing = self._post("run", body, key=self.mark)
        return standing, self._patiently(lambda: self._server.load(self.graph)) if standing.state == "running" else None

    def look(self) -> Standing | None:
        try:
            return self._renewed()
        except StoreError as error:
            if self._answered_s is None or stopwatch() - self._answered_s > self.lease_s:
                message = f"the server has not answered for {self.lease_s:g} s: {error.message}"
                raise StoreError(message, where=error.where, hint=error.hint) from None
            return None

    def renew(self) -> Standing | None:
        with suppress(FluxresError):
            return self._renewed()
        return None

    def _renewed(self) -> Standing:
        return self._post("renew", {"mark": self.mark, "lease_s": self.lease_s})

    def load(self) -> ResourceGraph:
        if self._is_known:
            self._patiently(self._renewed)  # the server catches up with the store, where others may have granted it
        return self._patiently(lambda: self._server.load(self.graph))

    def start_s(self, job: str) -> float | None:
        with suppress(FluxresError):  # it is only shown
            return self._server.queue(self.graph)[1].get(job)
        return None

    def release(self, status: int | None = None) -> None:
        self._patiently(lambda: self._post("end", {"mark": self.mark, "status": status}))

    def _post(self, operation: str, body: dict[str, Any], key: str | None = None) -> Standing:
        said = {**body, "command": self.author.command}
        reply = self._server.connection.post(of_graph(self.graph, operation), said, key=key or token_hex(16))
        self._answered_s = stopwatch()
        return msgspec.json.decode(reply.body, type=Standing)

    def _patiently(self, call: Callable[[], T]) -> T:
        """Do something, for some time again if a server that has answered before is not there."""
        until_s = stopwatch() + limits.RUN_RELEASE_SECONDS
        while True:
            try:
                return call()
            except StoreError:
                if self._answered_s is None or stopwatch() > until_s:
                    raise
                clock.sleep(_RESUME_S)

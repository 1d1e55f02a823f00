"""The events of a graph, which come line by line over one stream after the other."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fluxres import limits
from fluxres.clock import stopwatch
from fluxres.errors import StoreError
from fluxres.service.client.requests import of_graph
from fluxres.service.client.servers import Servers

RESUME_S: Final = 0.5
"""Between the end of a stream and the next one."""


class Following:
    """Where a reader of events is.

    Args:
        servers: that have the graph.
        graph: its name.
        after: number of the last event that is known; None to begin with the next one.
    """

    def __init__(self, servers: Servers, graph: str, after: int | None) -> None:
        self._servers, self._graph = servers, graph
        self._after = None if after is None else str(after)
        self._id = ""
        self._has_begun = False
        self._broke_s: float | None = None

    @staticmethod
    def is_begin(line: bytes) -> bool:
        """Whether a stream begins with this line: what is asked from now on is not older than it."""
        return line.startswith(b": following ")

    @property
    def path(self) -> str:
        """Where the next stream is."""
        return of_graph(self._graph, "events" + (f"?after={self._after}" if self._after is not None else ""))

    def event(self, line: bytes) -> dict[str, Any] | None:
        """The event that a line completes."""
        self._has_begun, self._broke_s = True, None
        if self.is_begin(line) and self._after is None:  # where a stream of what is to come begins
            self._after = line[12:].decode()
        elif line.startswith(b"id: "):
            self._id = line[4:].decode()
        elif line.startswith(b"data: "):
            self._after = self._id or self._after
            return {"number": int((self._after or "0").partition("-")[0]), **msgspec.json.decode(line[6:])}
        return None

    def broke(self, error: StoreError) -> None:
        """A stream broke.

        Errors: this one, if no server has gone on for `SERVICE_RESUME_SECONDS`, or the only one has never begun.
        """
        now_s = stopwatch()
        self._broke_s = now_s if self._broke_s is None else self._broke_s
        is_hopeless = not (self._has_begun or self._servers.is_one_of_several)
        if is_hopeless or now_s - self._broke_s > limits.SERVICE_RESUME_SECONDS:
            raise error

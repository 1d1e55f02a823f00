"""A connection with a client: that of uvicorn, with a fast path for requests and answers that are complete.

An ASGI server passes a request and its answer on in pieces: it wakes a task for each, and writes each by itself, so that even a
small answer is two packets. But most bodies have arrived when their request is handled, and most answers are complete when they
are sent. So the gate takes the entire body if it is there, and sends the entire answer at once. Otherwise it uses ASGI.

Several requests may have come over a connection that its client closes (pipelining). uvicorn tells only the latest of them, and
the one that is being answered would go on: a search to its end, a stream for ever. Here, all of them learn it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

CONNECTION: Final = "fluxres.connection"
"""The key of the connection in the scope of a request."""
_ANSWER_BYTES_MAX: Final = 1 << 16
"""A longer answer is sent by uvicorn: to join it with its head would be to copy it."""
_USED: Final = frozenset(
    (
        "scope",
        "default_headers",
        "body",
        "more_body",
        "disconnected",
        "response_started",
        "response_complete",
        "keep_alive",
        "message_event",
        "on_response",
    )
)
"""Attributes of uvicorn's `RequestResponseCycle` that are used here; they are not part of its API."""
_HAS_FAST_PATH: Final = _USED.issubset(RequestResponseCycle.__init__.__code__.co_names)


class Connection(HttpToolsProtocol):
    """Speaks HTTP with one client."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open: list[RequestResponseCycle] = []
        """The requests without a complete answer, of which the first is being answered."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if _HAS_FAST_PATH:
            self.scope[CONNECTION] = self  # type: ignore[typeddict-unknown-key]  # what ASGI does not know is for the application

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if _HAS_FAST_PATH:
            self._open = [cycle for cycle in self._open if not cycle.response_complete] + [self.cycle]

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for cycle in self._open:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._open.clear()

    def body(self, scope: MutableMapping[str, Any], most: int) -> bytes | None:
        """The body of a request, which can still be received; None if it has not come yet, or has more than `most` bytes."""
        cycle = self.cycle
        is_there = cycle.scope is scope and not (cycle.more_body or cycle.disconnected)
        return bytes(cycle.body) if is_there and len(cycle.body) <= most else None

    def answer(self, scope: MutableMapping[str, Any], head: MutableMapping[str, Any], body: bytes) -> bool:
        """Send an answer with one system call; False, with nothing sent, if it has to go through ASGI."""
        cycle, headers = self.cycle, head["headers"]
        if cycle.scope is not scope or cycle.response_started or not cycle.keep_alive or scope["method"] == "HEAD":
            return False
        if self.flow.write_paused or self.transport.is_closing():
            return False
        if len(body) > _ANSWER_BYTES_MAX or (b"content-length", b"%d" % len(body)) not in headers:
            return False
        lines = [STATUS_LINE[head["status"]], *[b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers)]]
        whole = b"".join(lines)
        if whole.count(b"\n") != len(lines) or b"\r\nconnection: " in whole.lower():  # malformed, or uvicorn must act on it
            return False
        self.transport.write(whole + b"\r\n" + body)
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        cycle.on_response()
        return True

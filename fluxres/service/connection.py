"""A connection with a client: that of uvicorn, with a short way for requests and answers that are complete.

An ASGI server passes a request and its answer on in pieces: it wakes whoever waits for one, and writes each by itself, so that
even a small answer is two packets. Most bodies have come when their request is looked at, and most answers are complete when they
are sent. So the gate may ask for the entire body, and send an entire answer at once. It goes the ordinary way if that is refused.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

CONNECTION: Final = "fluxres.connection"
"""The connection of a request in its scope."""
_ANSWER_BYTES_MAX: Final = 1 << 16
"""A longer answer is not copied behind its head."""
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
"""What is used of a cycle of uvicorn, which promises none of it."""
_HAS_SHORT_WAY: Final = _USED.issubset(RequestResponseCycle.__init__.__code__.co_names)


class Connection(HttpToolsProtocol):
    """Speaks HTTP with one client."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if _HAS_SHORT_WAY:
            self.scope[CONNECTION] = self  # type: ignore[typeddict-unknown-key]  # what ASGI does not know is for the application

    def body(self, scope: MutableMapping[str, Any], most: int) -> bytes | None:
        """The body of a request, which can still be received; None if it has not come yet, or has more than `most` bytes."""
        cycle = self.cycle
        is_there = cycle.scope is scope and not (cycle.more_body or cycle.disconnected)
        return bytes(cycle.body) if is_there and len(cycle.body) <= most else None

    def answer(self, scope: MutableMapping[str, Any], head: MutableMapping[str, Any], body: bytes) -> bool:
        """Answer a request by one call of the system; False, with nothing sent, if the ordinary way is needed."""
        cycle, headers = self.cycle, head["headers"]
        if cycle.scope is not scope or cycle.response_started or not cycle.keep_alive or scope["method"] == "HEAD":
            return False
        if self.flow.write_paused or self.transport.is_closing():
            return False
        if len(body) > _ANSWER_BYTES_MAX or (b"content-length", b"%d" % len(body)) not in headers:
            return False
        lines = [STATUS_LINE[head["status"]], *[b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers)]]
        whole = b"".join(lines)
        if (
            whole.count(b"\n") != len(lines) or b"\r\nconnection: " in whole.lower()
        ):  # a wrong header, or one that uvicorn acts upon
            return False
        self.transport.write(whole + b"\r\n" + body)
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        cycle.on_response()
        return True

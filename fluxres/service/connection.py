"""A connection with a client: that of uvicorn, which sends the head and the body of a small answer at once.

uvicorn writes the head of an answer, then its body, and each write is a packet: a call of the system, and a reader that wakes up.
So what is written first is held until something follows, or until the event loop comes to its next step.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Connection(HttpToolsProtocol):
    """Speaks HTTP with one client."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base class
        super().connection_made(_Joining(transport, self.loop))


class _Joining(asyncio.Transport):
    """A transport that writes two pieces at once, as far as `HttpToolsProtocol` uses one."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""

    def write(self, data: Any) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        else:
            self._held = data
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

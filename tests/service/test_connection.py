"""How the pieces of an answer are written to a connection."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from uvicorn.protocols import utils
from uvicorn.protocols.http import flow_control, httptools_impl

from fluxres.errors import UsageError
from fluxres.service.connection import Connection, _Joining
from fluxres.service.gate import _Answer


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: Any) -> None:
        assert not self.is_closed
        self.written.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


def written(steps: Callable[[_Joining, Transport], None]) -> list[bytes]:
    """What is written in some steps, and in the next one of the event loop."""

    async def run() -> list[bytes]:
        transport = Transport()
        steps(_Joining(transport, asyncio.get_running_loop()), transport)
        await asyncio.sleep(0)
        return transport.written

    return asyncio.run(run())


def test_head_and_body_are_written_at_once() -> None:
    def steps(joining: _Joining, transport: Transport) -> None:
        joining.write(b"head ")
        assert not transport.written
        joining.write(b"body")
        assert transport.written == [b"head body"]

    assert written(steps) == [b"head body"]


def test_what_nothing_follows_is_written_in_the_next_step() -> None:
    def steps(joining: _Joining, transport: Transport) -> None:
        joining.write(b"event")
        assert not transport.written

    assert written(steps) == [b"event"]


def test_all_pieces_are_written_in_order() -> None:
    def steps(joining: _Joining, _transport: Transport) -> None:
        for piece in (b"1", b"", b"2", b"3", b"4", b"5"):
            joining.write(piece)

    assert b"".join(written(steps)) == b"12345"


def test_a_connection_closes_after_what_was_written() -> None:
    def steps(joining: _Joining, transport: Transport) -> None:
        joining.write(b"the end")
        joining.close()
        assert transport.is_closed

    assert written(steps) == [b"the end"]


def test_nothing_is_written_to_a_connection_that_was_lost() -> None:
    def steps(joining: _Joining, transport: Transport) -> None:
        joining.write(b"late")
        transport.close()

    assert written(steps) == []


def test_uvicorn_needs_no_more_of_a_transport() -> None:
    """What a transport does not have raises NotImplementedError, when a connection gets there."""
    used = {"write", "close", "is_closing", "get_extra_info", "pause_reading", "resume_reading"}

    named = {
        name
        for module in (flow_control, httptools_impl, utils)
        for word in inspect.getsource(module).split("transport.")[1:]
        if (name := word.split("(")[0]).isidentifier()
    }
    assert named - {"set_protocol"} == used  # that is for WebSockets
    assert issubclass(Connection, httptools_impl.HttpToolsProtocol)


def test_an_answer_that_has_not_begun_gives_way_to_a_problem() -> None:

    async def run() -> list[dict[str, Any]]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        answer = _Answer(send)
        await answer({"type": "http.response.start", "status": 200, "headers": []})
        assert not sent
        await answer.problem(UsageError("wrong"))
        await answer.problem(UsageError("wrong again"))
        return sent

    head, body = asyncio.run(run())
    assert (head["status"], body["type"]) == (400, "http.response.body")

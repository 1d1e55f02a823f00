"""Complete requests and answers take a short way through uvicorn; everything else is sent as it would be without one."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fluxres import limits
from fluxres.errors import UsageError
from fluxres.service import connection
from fluxres.service.access import Access
from fluxres.service.connection import Connection
from fluxres.service.gate import Gate
from fluxres.service.metrics import ServiceMetrics
from tests.launch.runs import wait_until
from tests.service.conftest import Server, demo_store, running

PATH = "/v1/graphs/demo"
ALLOCATE = b'{"wanted":"slot/core=1","job":"%b"}'


def _head(status: int, length: int | None) -> dict[str, Any]:
    headers = [(b"content-type", b"text/plain")]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return {"type": "http.response.start", "status": status, "headers": headers}


def _body(content: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(demo_store(tmp_path_factory.mktemp("site"))) as found:
        yield found


def request(path: str, body: bytes = b"", *lines: str, method: str = "POST", version: str = "1.1") -> bytes:
    head = [f"{method} {PATH}{path} HTTP/{version}", "host: 127.0.0.1", "content-type: application/json", *lines]
    return "\r\n".join([*head, f"content-length: {len(body)}", "", ""]).encode() + body


class Client:
    """A connection of which each byte is seen."""

    def __init__(self, server: Server) -> None:
        host, _, port = urlsplit(server.url).netloc.partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.file.close()
        self.socket.close()

    def answer(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        status = int(self.file.readline().split()[1])
        headers = dict[str, str]()
        while (line := self.file.readline().decode("latin-1").rstrip("\r\n")) != "":
            key, _, value = line.partition(": ")
            headers[key] = value
        return status, headers, self.file.read(int(headers["content-length"])) if has_body else b""

    def is_at_end(self) -> bool:
        return self.file.read(1) == b""


def test_this_uvicorn_has_the_short_way() -> None:
    assert connection._HAS_FAST_PATH


def test_a_small_answer_is_one_packet(served: Server) -> None:
    with Client(served) as client:
        client.socket.sendall(request("/allocate", ALLOCATE % b"packet"))
        said = client.socket.recv(1 << 16)
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\ndate: ")
    assert b"content-length: %d" % len(body) in head
    assert body.startswith(b'{"job":"packet"')


def test_pipelined_requests_are_answered_in_order(served: Server) -> None:
    jobs = [b"pipe%d" % number for number in range(8)]
    sent = [request("/allocate", ALLOCATE % job) for job in jobs] + [request("/free", b'{"job":"%b"}' % job) for job in jobs]
    with Client(served) as client:
        client.socket.sendall(b"".join(sent))
        found = [client.answer() for _ in sent]
    assert [status for status, _, _ in found] == [200] * len(sent)
    assert [body.startswith(b'{"job":"%b"' % job) for job, (_, _, body) in zip(jobs * 2, found, strict=True)] == [True] * len(
        sent
    )


def test_all_requests_of_a_connection_learn_that_its_client_has_gone(tmp_path: Path) -> None:
    """uvicorn tells the latest one only: it called an answer to another one incomplete, and a stream went on for ever."""
    streams = "fluxres_event_streams "
    with running(demo_store(tmp_path)) as server:

        def open_streams() -> float:
            with Client(server) as client:
                client.socket.sendall(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
                lines = client.answer()[2].decode().splitlines()
            return float(next(line for line in lines if line.startswith(streams)).removeprefix(streams))

        for number in range(9):
            with Client(server) as client:
                client.socket.sendall(b"".join(request("/allocate", ALLOCATE % b"%d-%d" % (number, job)) for job in range(20)))
                time.sleep(0.002 * number)
        for _ in range(3):
            with Client(server) as client:
                client.socket.sendall(request("/events", method="GET") + request("", method="GET"))
                assert client.file.readline().startswith(b"HTTP/1.1 200")
                assert open_streams() == 1
            wait_until(lambda: open_streams() == 0)
        assert server.stop() == (0, "")


def test_a_body_may_come_in_pieces(served: Server) -> None:
    whole = request("/allocate", ALLOCATE % b"pieces")
    with Client(served) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(whole), 40):
            client.socket.sendall(whole[at : at + 40])
        assert client.answer()[0] == 200
        client.socket.sendall(request("/free", b'{"job":"pieces"}'))
        assert client.answer()[2] == b'{"job":"pieces","left":[]}'


@pytest.mark.parametrize(("lines", "version"), [(("connection: close",), "1.1"), ((), "1.0")])
def test_a_connection_ends_if_its_client_wants_that(served: Server, lines: tuple[str, ...], version: str) -> None:
    with Client(served) as client:
        client.socket.sendall(request("/free", b'{"job":"none"}', *lines, version=version))
        status, headers, _ = client.answer()
        assert (status, headers["connection"]) == (404, "close")
        assert client.is_at_end()


def test_a_body_that_is_too_long_ends_the_connection(served: Server) -> None:
    with Client(served) as client:
        head = request("/free").replace(b"content-length: 0", b"content-length: %d" % (limits.SERVICE_BODY_BYTES_MAX + 1))
        client.socket.sendall(head)
        status, headers, _ = client.answer()
        assert (status, headers["connection"]) == (413, "close")
        assert client.is_at_end()


def test_a_head_alone_has_no_body(served: Server) -> None:
    with Client(served) as client:
        client.socket.sendall(request("", method="HEAD"))
        status, _, _ = client.answer(has_body=False)
        client.socket.sendall(request("", method="GET"))
        assert client.answer()[0] == 200
    assert status in (200, 405)


def test_wrong_bodies_get_problems_and_the_connection_stays(served: Server) -> None:
    with Client(served) as client:
        for body in (b"{", b"[]", b'{"job":1}', b""):
            client.socket.sendall(request("/free", body))
            assert client.answer()[0] == 400
        client.socket.sendall(request("/free", b'{"job":"none"}', "if-match: *"))
        assert client.answer()[0] == 404


ANSWERS: dict[str, list[dict[str, Any]]] = {
    "complete": [_head(200, 5), _body(b"hello")],
    "empty": [_head(200, 0), _body(b"")],
    "long": [_head(200, 100_000), _body(b"x" * 100_000)],
    "parts": [_head(200, 5), {**_body(b"hel"), "more_body": True}, _body(b"lo")],
    "no length": [_head(200, None), _body(b"hello")],
    "wrong length": [_head(200, 4), _body(b"hello")],
    "nothing": [{**_head(204, None), "headers": []}, _body(b"")],
    "wrong header": [{**_head(200, 5), "headers": [(b"content-length", b"5"), (b"x", b"1\r\ny: 2")]}, _body(b"hello")],
    "closes": [{**_head(200, 5), "headers": [(b"content-length", b"5"), (b"Connection", b"close")]}, _body(b"hello")],
    "other status": [_head(404, 5), _body(b"hello")],
}


async def application(scope: Any, receive: Any, send: Any) -> None:
    name = scope["path"][1:]
    if name == "problem":
        raise UsageError("wrong")
    if name == "late problem":
        await send(_head(200, 5))
        raise UsageError("wrong")
    for message in ANSWERS.get(name, ANSWERS["complete"]):
        await send(message)


async def said(http: type[asyncio.Protocol], requests: list[bytes]) -> list[bytes]:
    """What a server with this protocol sends for requests, each over a connection that another request ends."""
    found = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        app = Gate(application, Access(is_open=True), ServiceMetrics())
        config = uvicorn.Config(app, http=http, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False)
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        for one in requests:
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(one + b"GET /last HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            found.append(re.sub(rb"date: [^\r]*", b"date: D", await asyncio.wait_for(reader.read(), 30)))
            writer.close()
        server.should_exit = True
        await running
    return found


def test_answers_are_those_of_uvicorn_alone() -> None:
    requests = [
        f"{method} /{name} HTTP/{version}\r\nhost: 127.0.0.1\r\n\r\n".replace(f"/{name}", f"/{name.replace(' ', '%20')}").encode()
        for name in (*ANSWERS, "problem", "late problem")
        for method, version in (("GET", "1.1"), ("HEAD", "1.1"), ("GET", "1.0"))
    ]
    short, ordinary = (asyncio.run(said(http, requests)) for http in (Connection, HttpToolsProtocol))
    assert dict(zip(requests, short, strict=True)) == dict(zip(requests, ordinary, strict=True))
    assert sum(b"hello" in one for one in short) > len(ANSWERS)

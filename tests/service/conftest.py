"""A server as a process of its own, on a store of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import fluxres
from fluxres.service.client.addresses import address
from fluxres.service.client.connection import Connection
from tests.forks import Fork
from tests.store.servers import Etcd, Postgresql, etcd, postgresql

DEMO = {
    "fluxres": 1,
    "name": "demo",
    "resources": [
        {
            "type": "rack",
            "count": 2,
            "with": [{"type": "node", "count": 4, "properties": {"ssd": None}, "with": [{"type": "core", "count": 8}]}],
        }
    ],
}


@dataclass
class Server:
    """A running server.

    Args:
        url: where it listens.
        store: URL of its store.
        process: to send signals to.
    """

    url: str
    store: str
    process: subprocess.Popen[str] | Fork
    opened: list[Connection] = field(default_factory=list)

    def connection(self, token: str | None = None) -> Connection:
        self.opened.append(Connection([address(self.url)], token or "", timeout_s=30.0, user="ada"))
        return self.opened[-1]

    def answers(self, method: str, path: str, body: bytes | None = None) -> tuple[int, dict[str, Any]]:
        """Status and document of this server itself, whichever one leads."""
        at = address(self.url)
        asked = HTTPConnection(at.host, at.port, timeout=30.0)
        asked.request(method, path, body, {"content-type": "application/json"})
        answer = asked.getresponse()
        found = answer.status, json.loads(answer.read())
        asked.close()
        return found

    def says(self, *texts: str) -> str:
        """Wait for a line with one of these texts on its standard error, and return it."""
        assert self.process.stderr is not None
        guard = threading.Timer(60.0, self.process.kill)
        guard.start()
        try:
            for line in self.process.stderr:
                if any(text in line for text in texts):
                    return line
        finally:
            guard.cancel()
        raise AssertionError(f"the server did not say: {texts}")

    def stop(self) -> tuple[int, str]:
        """End it with SIGTERM; returns its status and what it wrote to standard error."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


@contextmanager
def running(
    store: str,
    *options: str,
    environment: Mapping[str, str] = {},
    bounds: Mapping[str, float] = {},
    command: bool = False,
) -> Iterator[Server]:
    """A server on a free port, which is killed at the end if it has not ended.

    Args:
        environment: variables that it has besides those of this process.
        command: whether it is a command in a new interpreter, and not a fork, which can have other `bounds`.
    """
    create = ["--create"] if store.startswith("sqlite") else []
    words = ["serve", "--store", store, "--port", "0", *create, *options]
    process: subprocess.Popen[str] | Fork
    variables = {**os.environ, **environment}
    if command:
        assert not bounds
        line = [sys.executable, "-m", "fluxres", *words]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)
    else:
        process = Fork(*words, bounds=bounds, environment=variables)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            raise AssertionError(f"the server did not start: {process.communicate(timeout=30)[1]}")
        server = Server(line.removeprefix("listening on ").strip(), store, process)
        yield server
        for connection in server.opened:
            connection.close()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


_numbers = count()
_below: list[Etcd | Postgresql] = []
"""The server of the stores with `--service-store`; none for files."""


@pytest.fixture(scope="session", autouse=True)
def store_server(request: pytest.FixtureRequest) -> Iterator[None]:
    """What `--service-store` asks for."""
    kind = request.config.getoption("--service-store")
    if kind == "sqlite":
        yield
        return
    with etcd() if kind == "etcd" else postgresql() as server:
        _below.append(server)
        yield
        _below.clear()


def empty_store(folder: Path) -> str:
    """The address of a store without graphs: a file in a folder, or by `--service-store`."""
    if not _below:
        return f"sqlite://{folder}/site.db"
    server, name = _below[0], f"site{next(_numbers)}"
    if isinstance(server, Etcd):
        return server.url(name)
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}")
    return server.url.replace("/postgres", f"/{name}")


def demo_store(folder: Path) -> str:
    """A store with the graph `demo`."""
    url = empty_store(folder)
    fluxres.save(fluxres.load(DEMO), url)
    return url


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server without tokens, with the graph `demo`: 2 racks of 4 nodes of 8 cores."""
    with running(demo_store(tmp_path)) as found:
        yield found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers with options, on one store with the graph `demo`."""
    from contextlib import ExitStack

    url = demo_store(tmp_path)
    with ExitStack() as stack:

        def begin(*options: str, environment: Mapping[str, str] = {}) -> Server:
            return stack.enter_context(running(url, *options, environment=environment))

        yield begin

"""Requests that are no proper HTTP are refused and harm nobody; `python -m tests.service.malformed` sends thousands."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fluxres.service.access import Access
from fluxres.service.gate import Gate
from fluxres.service.metrics import ServiceMetrics
from tests.service.conftest import empty_store, running
from tests.service.malformed import campaign

REQUESTS = 250


def test_damaged_requests_are_refused_and_harm_nobody(tmp_path: Path) -> None:
    with running(empty_store(tmp_path)) as server:
        statuses, found = campaign(server.url, REQUESTS, Random(7))
        status, errors = server.stop()
    assert found == []
    assert (status, "Traceback" in errors) == (0, False), errors
    assert statuses[400] > REQUESTS // 4, statuses


@pytest.mark.parametrize(("said", "is_logged"), [("perform operation; the handler is closed", False), ("anything else", True)])
def test_a_client_that_has_gone_is_no_fault_of_the_service(caplog: pytest.LogCaptureFixture, said: str, is_logged: bool) -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})

    async def send(_message: Any) -> None:
        raise RuntimeError(said)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": "/v1/graphs", "headers": [(b"host", b"127.0.0.1")]}
    gate = Gate(app, Access.open(None, None, "127.0.0.1"), ServiceMetrics())
    with caplog.at_level(logging.ERROR):
        asyncio.run(gate(scope, receive, send))
    assert bool(caplog.records) == is_logged

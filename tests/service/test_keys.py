"""Idempotency keys: how many are kept, what is kept of them, and two requests at once."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from fluxres import limits
from fluxres.errors import InsufficientResources, KeyReused, StoreError
from fluxres.service.access import LOCAL
from fluxres.service.kept import KeptAnswers
from fluxres.service.replies import Asked, Keys


class _Request:
    """What the keys read of a request."""

    def __init__(self, key: str, body: bytes = b"{}") -> None:
        self.headers = {"idempotency-key": key}
        self.scope = {"fluxres.caller": LOCAL, "method": "POST", "path": "/v1/graphs/demo/free", "query_string": b""}
        self._body = body

    async def body(self) -> bytes:
        return self._body


def asked(key: str, body: bytes = b"{}") -> Asked:
    return cast("Asked", _Request(key, body))


def counted(made: list[int], error: Exception | None = None) -> Any:
    async def make(_keep: object) -> int:
        made.append(len(made))
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return made[-1]

    return make


def test_two_requests_at_once_are_done_once() -> None:
    async def run() -> list[int]:
        keys, made = Keys(KeptAnswers()), list[int]()
        return [*await asyncio.gather(*(keys.once(asked("k"), counted(made)) for _ in range(3))), len(made)]

    assert asyncio.run(run()) == [0, 0, 0, 1]


def test_the_oldest_keys_are_forgotten() -> None:
    async def run() -> tuple[int, int]:
        keys, made = Keys(KeptAnswers()), list[int]()
        for number in range(limits.SERVICE_KEYS_KEPT + 1):
            await keys.once(asked(f"k{number}"), counted(made))
        before = len(made)
        await keys.once(asked(f"k{limits.SERVICE_KEYS_KEPT}"), counted(made))
        again = len(made)
        await keys.once(asked("k0"), counted(made))
        return again - before, len(made) - again

    assert asyncio.run(run()) == (0, 1)


@pytest.mark.parametrize(("error", "times"), [(InsufficientResources("none"), 1), (StoreError("disk"), 2), (OSError("disk"), 2)])
def test_refusals_last_and_trouble_does_not(error: Exception, times: int) -> None:
    async def run() -> int:
        keys, made = Keys(KeptAnswers()), list[int]()
        for _ in range(2):
            with pytest.raises(type(error)):
                await keys.once(asked("k"), counted(made, error))
            await asyncio.sleep(0)
        return len(made)

    assert asyncio.run(run()) == times


def test_another_request_with_the_same_key_is_refused() -> None:
    async def run() -> None:
        keys = Keys(KeptAnswers())
        await keys.once(asked("k"), counted([]))
        with pytest.raises(KeyReused):
            await keys.once(asked("k", b'{"job":"j2"}'), counted([]))

    asyncio.run(run())

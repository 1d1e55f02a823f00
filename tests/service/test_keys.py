"""Idempotency keys: how many are kept, what is kept of them, and two requests at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from fluxres import limits
from fluxres.errors import InDoubt, InsufficientResources, KeyReused, StoreError, StoreUnreachable, Unavailable
from fluxres.service import problems
from fluxres.service.access import LOCAL
from fluxres.service.client import servers
from fluxres.service.client.addresses import address
from fluxres.service.client.requests import error_of, post
from fluxres.service.client.servers import Attempts, Servers
from fluxres.service.kept import KeptAnswers
from fluxres.service.replies import Asked, Keys
from fluxres.store.sqlite import SqliteConnection
from tests.service.test_express import Answer, Side


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


# -- changes whose commit was not answered ---------------------------------------------------------------------------------


@pytest.fixture
def side(tmp_path: Path) -> Iterator[Side]:
    made = Side(tmp_path / "side", None, is_express=True)
    made.asked("/v1/graphs/demo/allocate", {"wanted": "slot=1/core", "job": "j1"})
    made.asked("/v1/graphs/demo/copy", {"name": "part", "job": "j1"})
    made.asked("/v1/graphs/part/child/refresh", {})
    yield made
    made.site.close()


GROWTH = {
    "demo": ("/v1/graphs/demo/grow", {"job": "j1", "wanted": "slot=1/core"}),
    "part": ("/v1/graphs/part/child/grow", {"wanted": "slot=1/core"}),
}
Commit = Callable[[SqliteConnection], None]


def failing(monkeypatch: pytest.MonkeyPatch, *, is_made: bool, error: type[StoreError] = InDoubt) -> pytest.MonkeyPatch:
    commit = SqliteConnection.commit

    def fail(db: SqliteConnection) -> None:
        if is_made:
            commit(db)
        raise error("no answer")

    monkeypatch.setattr(SqliteConnection, "commit", fail)
    return monkeypatch


def cores(side: Side) -> int:
    return len(side.site.store.load("demo").allocation("j1").pools)


def code(answer: Answer) -> str:
    return str(answer.document().get("error", answer.status))


@pytest.mark.parametrize("is_made", [True, False])
@pytest.mark.parametrize("graph", GROWTH)
def test_a_request_whose_commit_was_not_answered_is_done_once_when_it_is_sent_again(
    side: Side, monkeypatch: pytest.MonkeyPatch, graph: str, is_made: bool
) -> None:
    path, body = GROWTH[graph]
    key = {"headers": {"idempotency-key": "k1"}}
    with monkeypatch.context() as patched:
        failing(patched, is_made=is_made)
        first = side.asked(path, body, **key)
    assert (first.status, code(first), first.headers.get(b"retry-after")) == (503, "in-doubt", None)
    with monkeypatch.context() as patched:
        failing(patched, is_made=False, error=StoreUnreachable)
        away = side.asked(path, body, **key)
    assert code(away) == ("200" if is_made else "in-doubt")
    found = side.asked(path, body, **key)
    assert (found.status, cores(side)) == (200, 2)
    assert side.asked(path, body, **key) == found
    assert code(side.asked(path, {**body, "wanted": "slot=2/core"}, **key)) == "key-reused"
    assert cores(side) == 2


def test_a_store_that_cannot_be_reached_is_worth_another_try(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, is_made=False, error=StoreUnreachable)
    found = side.asked(*GROWTH["demo"])
    assert (found.status, code(found), found.headers[b"retry-after"]) == (503, "store-unreachable", b"1")


@pytest.mark.parametrize(("key", "times"), [("k1", 3), (None, 1)])
def test_a_client_sends_a_change_in_doubt_again_if_it_has_a_key(key: str | None, times: int) -> None:
    at = address("http://127.0.0.1:7390")
    attempts = Attempts(Servers([at]), post("/v1/graphs/demo/free", {"job": "j1"}, key=key), 1.0)
    for _ in range(times - 1):
        attempts.failed(at, InDoubt("no answer"))
    with pytest.raises(InDoubt):
        attempts.failed(at, InDoubt("no answer"))


@pytest.mark.parametrize(("retry_after_s", "times"), [(1, 3), (10, 1)])
def test_a_client_sends_again_what_was_refused_for_a_moment(retry_after_s: int, times: int) -> None:
    """A graph that was replaced just now is there at once; a server that stops is not."""
    at = address("http://127.0.0.1:7390")
    attempts = Attempts(Servers([at]), post("/v1/graphs/demo/free", {"job": "j1"}), 60.0)
    refused = error_of(503, problems.body(Unavailable("the graph was replaced just now")), str(retry_after_s))
    assert isinstance(refused, Unavailable)
    for _ in range(times - 1):
        assert attempts.failed(at, refused) == retry_after_s
    with pytest.raises(Unavailable):
        attempts.failed(at, refused)


def test_a_client_looks_for_the_leader_after_an_answer_that_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(servers, "stopwatch", lambda: now_s)
    known = [address("http://127.0.0.1:7390"), address("http://127.0.0.1:7391")]
    attempts = Attempts(Servers(known), post("/v1/graphs/demo/free", {"job": "j1"}, key="k1"), 60.0)
    now_s = 40.0
    attempts.failed(known[0], StoreUnreachable("its connections were ended"))
    now_s += limits.SERVICE_FOLLOW_SECONDS + 1
    with pytest.raises(StoreUnreachable):
        attempts.failed(known[1], StoreUnreachable("away"))

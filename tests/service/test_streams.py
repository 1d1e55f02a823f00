"""Events, as they happen, from where one left off, and until the end."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import resource
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import fluxres
from fluxres import limits
from fluxres.clock import stopwatch, system
from fluxres.errors import StaleHandle, UnknownGraph
from fluxres.service import feed
from fluxres.service.client import connection
from fluxres.service.client.addresses import Address, address
from fluxres.service.client.store import RemoteStore
from fluxres.service.feed import Feed
from fluxres.store import open_store, upkeep
from fluxres.store.attached import Attached
from tests.launch.runs import wait_until
from tests.service import streams
from tests.service.conftest import DEMO, Server, demo_store, running
from tests.service.test_api import send


class Reader:
    """Reads a stream of events over a connection of its own."""

    def __init__(self, server: Server, query: str = "", **headers: str) -> None:
        self.opened = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        self.opened.request("GET", f"/v1/graphs/demo/events{query}", headers=sent)
        self.answer = self.opened.getresponse()
        assert self.answer.status == 200
        assert (self.answer.headers["content-type"] or "").startswith("text/event-stream")

    def take(self, number: int) -> list[dict[str, Any]]:
        """The next events: id, event and data of each."""
        found, fields = list[dict[str, Any]](), dict[str, Any]()
        while len(found) < number:
            line = self.answer.readline().decode().rstrip("\n")
            if not line:
                found += [fields] * bool(fields)
                fields = {}
            elif not line.startswith(":"):
                key, _, value = line.partition(": ")
                fields[key] = json.loads(value) if key == "data" else value
        return found

    def rest(self) -> bytes:
        return self.answer.read()

    def close(self) -> None:
        self.opened.close()


def number_of(event: dict[str, Any]) -> int:
    return int(event["id"].partition("-")[0])


def test_events_are_pushed_in_the_form_of_rfc_18(server: Server) -> None:
    reader = Reader(server)
    try:
        with fluxres.connect(server.url) as graph:
            graph.allocate("slot=1/node", job="j1", duration_s=60)
            graph.set_state("/demo/rack1", "drain", reason="fan")
            graph.free("j1")
        first, second, third = reader.take(3)
        assert [one["event"] for one in (first, second, third)] == ["allocate", "state", "free"]
        assert [number_of(one) for one in (first, second, third)] == [2, 3, 4]
        assert set(first["data"]) == {"timestamp", "name", "context"}
        assert first["data"]["name"] == "allocate"
        assert first["data"]["context"]["job"] == "j1"
        assert first["data"]["context"]["pools"] == [["/demo/rack0/node0", 1]]
        assert abs(first["data"]["timestamp"] - system()) < 60
    finally:
        reader.close()


def test_a_stream_is_resumed_where_it_ended(server: Server) -> None:
    with fluxres.connect(server.url) as graph:
        for number in range(5):
            graph.allocate("slot=1/node", job=f"j{number}")
    for reader in (Reader(server, last_event_id="3"), Reader(server, "?after=3")):
        assert [number_of(one) for one in reader.take(3)] == [4, 5, 6]
        reader.close()
    beginning = Reader(server, "?after=0")
    assert [number_of(one) for one in beginning.take(6)] == [1, 2, 3, 4, 5, 6]
    beginning.close()


def test_a_number_that_the_journal_has_not_reached_is_refused(server: Server, tmp_path: Path) -> None:
    """A store that was restored from an earlier copy counts from there: a stream would be silent until the old number."""
    dump = tmp_path / "site.jsonl"
    upkeep.dump_to(open_store(server.store), dump)
    with fluxres.connect(server.url) as graph:
        for number in range(3):
            graph.allocate("slot=1/node", job=f"j{number}")
        events = graph.events(after=3)
        assert next(events)["number"] == 4
        upkeep.restore(open_store(server.store), dump, replace=True)
        until = time.monotonic() + 20
        while graph.jobs():
            assert time.monotonic() < until
            time.sleep(0.05)
        with pytest.raises(StaleHandle, match=r"event 4 is of another graph of this name.*\(read the graph again"):
            next(events)
        graph.allocate("slot=1/node", job="new")
        assert next(graph.events(after=1))["context"]["job"] == "new"

    async def ask() -> None:
        async with fluxres.aconnect(server.url) as other:
            with pytest.raises(StaleHandle, match="there is no event 3, the latest is 2"):
                await anext(other.events(after=3))

    asyncio.run(ask())
    assert send(server, "GET", "/v1/graphs/demo/events", headers={"last-event-id": "3"})[0] == 409


@pytest.mark.parametrize("is_by_server", [True, False])
def test_a_stream_does_not_go_on_with_another_graph_of_the_same_name(server: Server, is_by_server: bool) -> None:
    reader = Reader(server, "?after=0")
    (first,) = reader.take(1)
    if is_by_server:
        assert send(server, "DELETE", "/v1/graphs/demo")[0] == 200
        assert b"following" not in reader.rest()
        assert send(server, "GET", "/v1/graphs/demo/events", headers={"last-event-id": first["id"]})[0] == 404
        assert send(server, "POST", "/v1/graphs?name=demo", json.dumps(DEMO).encode())[0] == 201
    else:
        open_store(server.store).drop("demo")
        fluxres.save(fluxres.load(DEMO), server.store)
        reader.rest()
    reader.close()
    with fluxres.connect(server.url) as graph:
        graph.allocate("slot=1/node", job="anew")
    status, document, _ = send(server, "GET", "/v1/graphs/demo/events", headers={"last-event-id": first["id"]})
    assert (status, document["error"]) == (409, "stale")
    assert "event 1 is of another graph" in document["message"]
    anew = Reader(server, last_event_id="1")  # a number alone is one of the present graph
    assert anew.take(1)[0]["data"]["context"]["job"] == "anew"
    anew.close()


def test_a_server_that_does_not_begin_a_stream_is_noticed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is silent while it does not begin; afterwards, nothing has to come for a while."""
    monkeypatch.setattr(connection, "_SILENCE_S", 0.5)
    silent = list[Address]()
    store = RemoteStore(server.url, on_silence=silent.append)
    with closing(store.changes("demo")) as changes:
        next(changes)
        later = threading.Timer(1.5, open_store(server.store).drop, ("demo",))
        later.start()
        with pytest.raises(UnknownGraph):
            deque(changes, maxlen=0)
        later.join()
    assert silent == []
    fluxres.save(fluxres.load(DEMO), server.store)
    server.process.send_signal(signal.SIGSTOP)
    later = threading.Timer(1.5, server.process.send_signal, (signal.SIGCONT,))
    later.start()
    with closing(store.changes("demo")) as changes:
        next(changes)
    later.join()
    assert silent == [address(server.url)]


def test_the_end_of_a_server_is_not_the_end_of_a_wait(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stops ends its streams; who waits for a job goes on with the next server."""
    store = RemoteStore(server.url)
    asked, streams = (
        list[str](),
        iter([[b": following 4-ab"], [b": following 4-ab", b"id: 5-ab", b'data: {"event": "free"}'], None]),
    )

    def stream(path: str, until_s: float | None = None) -> Iterator[bytes]:
        assert until_s is None
        asked.append(path)
        lines = next(streams)
        if lines is None:
            raise UnknownGraph("dropped")
        yield from lines

    monkeypatch.setattr(store.connection, "stream", stream)
    changes = store.changes("demo")
    assert [next(changes) for _ in range(3)] == [None] * 3
    with pytest.raises(UnknownGraph):
        next(changes)
    assert [path.partition("?")[2] for path in asked] == ["", "after=4-ab", "after=5-ab"]


def test_a_stream_ends_when_another_process_drops_its_graph(server: Server) -> None:
    """As it does when the server drops it: a reader learns at once that there is no such graph any more."""
    guard = threading.Timer(30, server.process.kill)
    guard.start()
    reader, until_s = Reader(server, "?after=0"), stopwatch() + 30

    async def follow() -> None:
        async with fluxres.aconnect(server.url, graph="demo") as other, aclosing(other.events(after=0)) as events:
            assert (await anext(events))["number"] == 1
            await asyncio.to_thread(open_store(server.store).drop, "demo")
            begun_s = stopwatch()
            with pytest.raises(UnknownGraph):
                await anext(events)
            assert stopwatch() - begun_s < 10

    with fluxres.connect(server.url) as graph:
        news = graph.news(after=0, until_s=until_s)
        assert [next(news) is None for _ in range(2)] == [True, False]
        asyncio.run(follow())
        with pytest.raises(UnknownGraph):
            next(news)
        assert b"event: " not in reader.rest().partition(b"\n\n")[2].partition(b"\n\n")[2]
    reader.close()
    guard.cancel()


def test_changes_of_other_processes_are_told_too(server: Server) -> None:
    reader = Reader(server)
    try:
        with fluxres.open(server.store, name="demo") as graph:
            graph.allocate("slot=1/node", job="elsewhere")
        assert reader.take(1)[0]["data"]["context"]["job"] == "elsewhere"
        # the event comes from the store; the graph of the server follows up to 0.1 s later
        wait_until(lambda: send(server, "GET", "/v1/graphs/demo/jobs")[1]["count"] == 1)
    finally:
        reader.close()


def test_clients_get_events_as_they_happen(server: Server) -> None:
    found: list[str] = []

    def listen() -> None:
        with fluxres.connect(server.url) as graph:
            for event in graph.events(after=1):
                found.append(event["context"]["job"])
                if len(found) == 3:
                    return

    listener = threading.Thread(target=listen)
    listener.start()
    with fluxres.connect(server.url) as graph:
        for number in range(3):
            graph.allocate("slot=1/node", job=f"j{number}")
    listener.join(timeout=30)
    assert found == ["j0", "j1", "j2"]


def test_events_of_a_single_server_go_on_after_it_was_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SERVICE_RESUME_SECONDS", 30.0)
    store = demo_store(tmp_path)
    with running(store) as server:
        port = server.url.rpartition(":")[2]
        with fluxres.connect(server.url) as graph:
            events = graph.events(after=0)
            assert next(events)["name"] == "load"
            server.process.kill()
            server.process.wait()
            with running(store, "--port", port):
                graph.allocate("slot=1/node", job="j1")
                assert next(events)["context"]["job"] == "j1"
            monkeypatch.setattr(limits, "SERVICE_RESUME_SECONDS", 0.8)
            begun = time.monotonic()
            with pytest.raises(fluxres.StoreError, match="cannot be reached"):
                next(events)
            assert time.monotonic() - begun >= 0.8
            with pytest.raises(fluxres.StoreError, match="cannot be reached"):
                next(graph.events())


def test_sigterm_ends_streams_and_answers_what_has_begun(tmp_path: Path) -> None:
    with running(demo_store(tmp_path)) as server:
        reader = Reader(server)
        with fluxres.connect(server.url) as graph:
            graph.allocate("slot=1/node", job="j1")
        begun = time.monotonic()
        status, errors = server.stop()
        assert (status, errors) == (0, "")
        assert time.monotonic() - begun < limits.SERVICE_DRAIN_SECONDS
        assert b'"job":"j1"' in reader.rest()
        reader.close()
        assert fluxres.load(server.store).jobs() == ["j1"]


def test_a_reader_far_behind_gets_everything_in_parts(tmp_path: Path) -> None:
    import asyncio

    url, number = demo_store(tmp_path), limits.SERVICE_EVENTS_READ_MAX + 5
    with fluxres.open(url) as graph, graph.batch():
        for i in range(number):
            graph.tag("/demo", "k", str(i))

    async def read() -> list[bytes]:
        feed = Feed(open_store(url), "demo")
        found, count = list[bytes](), 0
        async for text in feed.follow(0):
            found.append(text)
            count += text.count(b"\nevent: ")
            if count == number + 1:
                feed.close()
        return found

    parts = [text for text in asyncio.run(read()) if text.startswith(b"id: ")]
    assert [text.count(b"\nevent: ") for text in parts] == [limits.SERVICE_EVENTS_READ_MAX, 6]


def test_changes_of_this_process_are_told_from_their_commits_and_those_of_others_from_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = demo_store(tmp_path)
    store, plain = open_store(url), open_store(url)
    told, journal = Feed(store, "demo"), Feed(plain, "demo")
    is_hidden, number = False, 5
    log_after = store.log_after
    monkeypatch.setattr(store, "log_after", lambda *given: [] if is_hidden else log_after(*given))

    async def texts(followed: Feed) -> bytes:
        found, items = b"", followed.follow(None)
        async with asyncio.timeout(20):
            while found.count(b"\nevent: ") < number:
                found += await anext(items)
                followers[followed].set()
        followed.close()
        await items.aclose()
        return found

    async def run() -> None:
        nonlocal is_hidden
        both = [asyncio.create_task(texts(one)) for one in (told, journal)]
        for one in (told, journal):
            await followers[one].wait()
        with fluxres.open(url, command="here") as graph:
            assert isinstance(graph.attachment, Attached)
            graph.attachment.on_commit = told.committed
            is_hidden = True
            graph.allocate("/demo/rack0/node0", job="j1", duration_s=3600)
            with graph.batch():
                graph.tag("/demo", "k", "v" * 4_096)
                graph.free("j1")
            async with asyncio.timeout(20):
                while told._last < 4:
                    await asyncio.sleep(0.01)
            is_hidden = False
            with fluxres.open(url, command="there") as other:
                other.allocate("/demo/rack0/node1", job="j2", duration_s=3600)
            graph.free("j2")
        one, other = await asyncio.gather(*both)
        assert one == other
        assert one.count(b'"command":"here"') == 4

    followers = {told: asyncio.Event(), journal: asyncio.Event()}
    asyncio.run(run())


def test_what_the_journal_forgot_before_it_was_sent_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = demo_store(tmp_path)
    store = open_store(url)
    followed, log_after, is_hidden = Feed(store, "demo"), store.log_after, False
    monkeypatch.setattr(store, "log_after", lambda *given: [] if is_hidden else log_after(*given))

    async def run() -> None:
        nonlocal is_hidden
        items = followed.follow(1)
        async with asyncio.timeout(20):
            assert (await anext(items)).startswith(b": following 1-")
            with fluxres.open(url) as graph:
                graph.tag("/demo", "k", "1")
                assert (await anext(items)).startswith(b"id: 2-")
                is_hidden = True
                graph.unlink("/demo/rack1")
                for value in "23":
                    graph.tag("/demo", "k", value)
            upkeep.compact(open_store(url), keep=1)
            is_hidden = False
            while not (found := await anext(items)).startswith(b"event: gap"):
                assert found.startswith(b":"), found
            assert found == feed._gap(3, 3)  # `undo` needs the last but one
            assert (await anext(items)).startswith(b"id: 4-")
        followed.close()
        await items.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("wrong", ["-1", "x", "9" * 40])
def test_wrong_ids_are_refused(server: Server, wrong: str) -> None:
    status, document, _ = send(server, "GET", "/v1/graphs/demo/events", headers={"last-event-id": wrong})
    assert (status, document["error"]) == (400, "usage")


@pytest.mark.parametrize("is_gone", [False, True], ids=["quiet", "store gone"])
def test_a_quiet_stream_gets_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_gone: bool) -> None:
    monkeypatch.setattr(feed, "_COMMENT_EVERY_S", 0.05)
    url = demo_store(tmp_path)

    async def first_three() -> list[bytes]:
        followed = feed.Feed(open_store(url), "demo")
        items = followed.follow(None)
        found = [await anext(items)]
        if is_gone:
            (tmp_path / "site.db").unlink()
        async with asyncio.timeout(20):
            found += [await anext(items), await anext(items)]
        followed.close()
        await items.aclose()
        return found

    assert re.fullmatch(rb": following 1-[0-9a-f]{16}\n\n(: still there\n\n){2}", b"".join(asyncio.run(first_three())))


def test_a_server_takes_more_files_than_it_was_started_with(tmp_path: Path) -> None:
    """The usual limit of open files is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with running(demo_store(tmp_path), command=True) as server:
            found = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found[0] == min(hard, limits.SERVICE_STREAMS_MAX + 512)


def test_many_streams_get_every_event(tmp_path: Path) -> None:
    """A small run of the campaign, also with clients that are slow, and that resume."""
    with running(demo_store(tmp_path)) as server:
        followed, _ = asyncio.run(streams.drive(server.url, 60, 12))
    assert (followed.done, followed.faults) == (60, {})

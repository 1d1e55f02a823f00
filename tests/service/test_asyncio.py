"""The client for asyncio: many tasks on one graph, tasks that are cancelled, servers that end, and pushed events."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from random import Random
from typing import Any

import pytest

import fluxres
from fluxres import limits
from fluxres.service.client import async_connection, servers
from fluxres.service.client.async_graph import AsyncRemoteGraph
from fluxres.service.client.line import Line
from fluxres.store import open_store
from tests.service.conftest import Server, running
from tests.service.test_standby import LEASE

CORE = "slot=1/core"


def made(store: str, job: str) -> int:
    """How often something was allocated to a job, by the journal."""
    return sum(entry.event["event"] == "allocate" for entry in open_store(store).log("demo", job=job))


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await main

    asyncio.run(bounded())


def test_what_is_not_connected_yet_says_how() -> None:
    connecting = fluxres.aconnect("http://127.0.0.1:9")
    how = r"\(async with fluxres.aconnect\(url\) as graph, or graph = await fluxres.aconnect\(url\)\)"
    for name in ("jobs", "allocate", "name"):
        assert not hasattr(connecting, name)
        with pytest.raises(AttributeError, match=f"{name}: the graph is not connected yet {how}"):
            getattr(connecting, name)
    with pytest.raises(fluxres.UsageError, match="async with"), connecting:
        pass
    assert not hasattr(connecting, "jbos")


def test_it_is_awaited_or_a_context_manager(server: Server) -> None:
    async def main() -> None:
        graph = await fluxres.aconnect(server.url, graph="demo")
        assert (await graph.root).path == "/demo"
        assert (await graph.summary())["pools"] == 75
        await graph.close()
        async with fluxres.aconnect(f"{server.url}?graph=demo") as graph:
            assert await graph.jobs() == []
            assert repr(graph) == f"<AsyncRemoteGraph demo at {server.url}>"
        with pytest.raises(fluxres.UnknownGraph, match="no graph 'other'"):
            await fluxres.aconnect(server.url, graph="other")
        with pytest.raises(fluxres.StoreError, match="cannot be reached"):
            await fluxres.aconnect("http://127.0.0.1:9")

    run(main())


def test_tasks_share_a_graph_and_connections_are_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVICE_CLIENT_CONNECTIONS_MAX", 5)
    opened, open_line = list[Line](), Line.open

    async def counted(at: Any) -> Line:
        opened.append(await open_line(at))
        return opened[-1]

    monkeypatch.setattr(async_connection.Line, "open", counted)

    async def main() -> None:
        async with fluxres.aconnect(server.url) as graph:
            granted = await asyncio.gather(*(graph.allocate(CORE, job=f"j{number}") for number in range(64)))
            assert len({pool.path for one in granted for pool in one.pools}) == 64
            with pytest.raises(fluxres.InsufficientResources):
                await graph.allocate(CORE, job="one too many")
            await asyncio.gather(*(graph.free(f"j{number}") for number in range(64)))
            assert await graph.jobs() == []

    run(main())
    assert len(opened) == 5


def test_a_pool_of_which_only_the_path_is_known_says_how_to_ask(server: Server) -> None:
    async def main() -> None:
        async with fluxres.aconnect(server.url) as graph:
            granted = await graph.allocate(CORE, job="j1")
            (pool,) = granted.pools
            with pytest.raises(fluxres.UsageError, match="only the path"):
                _ = pool.type
            assert (await graph.pool(pool)).type == "core"
            assert (await granted.R())["execution"]["nodelist"] == ["node0"]
            async with await graph.stage(CORE, job="j2") as stage:
                await stage.commit()
            async with await graph.stage(CORE, job="j3"):
                pass
            assert await graph.jobs() == ["j1", "j2"]
            assert [pool.path async for pool in graph.walk("/demo/rack0/node0/core0")] == ["/demo/rack0/node0/core0"]

    run(main())


def test_a_cancelled_change_is_made_once_or_not_and_its_key_says_which(server: Server) -> None:
    async def main() -> None:
        random, cancelled = Random(1), 0
        async with fluxres.aconnect(server.url) as graph:
            for number in range(60):
                job = f"j{number}"
                task = asyncio.create_task(graph.allocate(CORE, job=job, idempotency_key=f"k{number}"))
                await asyncio.sleep(random.uniform(0, 0.006))
                cancelled += task.cancel()
                await asyncio.wait([task])
                again = await graph.allocate(CORE, job=job, idempotency_key=f"k{number}")
                assert again == (await graph.allocation(job))
                assert len(again) == 1
            assert cancelled > 5
        assert [made(server.store, f"j{number}") for number in range(60)] == [1] * 60

    run(main())


def test_a_change_that_is_cancelled_while_the_server_stands_still_is_known_by_its_key(server: Server) -> None:
    async def main() -> None:
        async with fluxres.aconnect(server.url) as graph:
            server.process.send_signal(signal.SIGSTOP)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await graph.allocate(CORE, job="j1", idempotency_key="k1")
            server.process.send_signal(signal.SIGCONT)
            granted = await graph.allocate(CORE, job="j1", idempotency_key="k1")
            assert granted == await graph.allocation("j1")
        assert made(server.store, "j1") == 1

    run(main())


def test_a_server_that_restarts_closes_idle_connections_and_nothing_fails(tmp_path: Path, server: Server) -> None:
    port = server.url.rpartition(":")[2]

    async def main() -> None:
        async with fluxres.aconnect(server.url) as graph:
            await asyncio.gather(*(graph.allocate(CORE, job=f"j{number}") for number in range(8)))
            assert server.stop()[0] == 0
            with running(server.store, "--port", port):
                await asyncio.gather(*(graph.free(f"j{number}") for number in range(8)))
                assert await graph.jobs() == []

    run(main())


def test_it_goes_to_the_server_that_takes_over(start: Callable[..., Server]) -> None:
    leader, second = start(*LEASE), start(*LEASE)

    async def main() -> None:
        async with fluxres.aconnect(f"{leader.url},{second.url}") as graph, aclosing(graph.events()) as events:
            await graph.allocate(CORE, job="j1")
            seen = asyncio.create_task(anext(events))
            await asyncio.sleep(0.5)
            leader.process.kill()
            await graph.allocate(CORE, job="j2", idempotency_key="k2")
            assert str(graph.connection.servers.at) == second.url
            assert (await seen)["context"]["job"] == "j2"
        assert made(leader.store, "j2") == 1

    run(main())


def test_events_are_pushed_and_a_stream_ends_when_its_loop_is_left(server: Server) -> None:
    async def main() -> None:
        async with fluxres.aconnect(server.url) as graph:
            await graph.allocate(CORE, job="j1")
            found = list[tuple[int, str]]()
            async for event in graph.events(after=0):
                found.append((event["number"], event["name"]))
                if event["name"] == "free":
                    break
                if event["name"] == "allocate":
                    await graph.free("j1")
            assert found == [(1, "load"), (2, "allocate"), (3, "free")]
            waiting = asyncio.create_task(anext(graph.events()))
            await asyncio.sleep(0.1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    run(main())


def test_a_change_without_an_answer_is_in_doubt_and_a_question_is_not(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_TRIES", 1)

    async def main() -> None:
        async with fluxres.aconnect(server.url, timeout_s=0.5) as graph:
            with fluxres.connect(server.url, timeout_s=0.5) as other:
                server.process.send_signal(signal.SIGSTOP)
                doubt = r"did not answer within 0\.5 s: the change may have been made \(check the current state"
                with pytest.raises(fluxres.InDoubt, match=doubt):
                    await graph.allocate(CORE, job="j1")
                with pytest.raises(fluxres.InDoubt, match=doubt):
                    other.allocate(CORE, job="j1")
                for ask in (graph.jobs, lambda: asyncio.to_thread(other.jobs)):
                    with pytest.raises(fluxres.StoreError, match=r"did not answer within 0\.5 s \(wait longer") as found:
                        await ask()
                    assert not isinstance(found.value, fluxres.InDoubt)
                server.process.kill()
                server.process.wait()
                with pytest.raises(fluxres.StoreError, match="cannot be reached") as refused:
                    await graph.free("j1")
                assert not isinstance(refused.value, fluxres.InDoubt)  # it was never sent

    run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_that_is_not_there_is_reported_without_what_asyncio_says(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "PAUSE_S", 0)
    with socket.socket() as bound:  # and listens to nobody
        bound.bind(("127.0.0.1", 0))
        url = f"http://{host}:{bound.getsockname()[1]}"

        async def main() -> None:
            said = rf"^{url}: the server cannot be reached: (Connection refused|no address of localhost answers) \(is"
            with pytest.raises(fluxres.StoreError, match=said):
                await fluxres.aconnect(url)

        run(main())


def test_a_graph_that_is_closed_ends_its_streams_and_says_so(server: Server) -> None:
    async def main() -> None:
        graph = await fluxres.aconnect(server.url)

        async def follow() -> list[str]:
            return [event["name"] async for event in graph.events(after=0)]

        following = asyncio.create_task(follow())
        await graph.allocate(CORE, job="j1")
        await asyncio.sleep(0.3)
        server.process.send_signal(signal.SIGSTOP)
        change, question = asyncio.create_task(graph.free("j1")), asyncio.create_task(graph.jobs())
        await asyncio.sleep(0.3)
        await graph.close()
        assert await following == ["load", "allocate"]
        with pytest.raises(fluxres.InDoubt, match="the graph was closed before the answer came: the change may have been made"):
            await change
        with pytest.raises(fluxres.StoreError, match="the graph was closed before the answer came"):
            await question
        with pytest.raises(fluxres.UsageError, match=r"the graph was closed \(connect again\)"):
            await graph.jobs()
        server.process.send_signal(signal.SIGCONT)

    run(main())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the connections of a loop that has ended
def test_another_event_loop_is_refused(server: Server) -> None:
    async def connect() -> AsyncRemoteGraph:
        graph = await fluxres.aconnect(server.url)
        assert await graph.jobs() == []
        return graph

    async def other(graph: AsyncRemoteGraph) -> None:
        for ask in (graph.jobs(), anext(graph.events())):
            with pytest.raises(fluxres.UsageError, match="connected in another event loop"):
                await ask
        await graph.close()

    run(other(asyncio.run(connect())))
    gc.collect()


def test_a_body_that_is_too_long_is_refused_before_all_of_it_is_sent(server: Server) -> None:
    async def main() -> None:
        async with fluxres.aconnect(server.url) as graph:
            with pytest.raises(fluxres.FluxresError, match="bytes"):
                await graph.allocate([f"/demo/rack0/node{number}" for number in range(400_000)], job="j1")
            assert await graph.jobs() == []

    run(main())


def test_h11_that_is_missing_is_named_with_what_to_install() -> None:
    code = "import sys; sys.modules['h11'] = None; import fluxres; fluxres.aconnect('http://127.0.0.1:1')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "UsageError: asyncio needs the package h11 (pip install h11)" in ended.stderr

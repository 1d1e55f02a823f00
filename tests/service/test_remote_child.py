"""A child whose parent is reached through a server only: it works on its part, and is fenced when it is late (rule N1)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fluxres
from fluxres.errors import HoldLapsed, UnknownJob
from fluxres.service.client.child import CHILD, RemoteChild, begin
from fluxres.service.client.requests import of_graph, post
from fluxres.store import open_store, upkeep
from tests.forks import output
from tests.service.conftest import Server, demo_store, running
from tests.service.test_access import FILE, WORDS


def held(server: Server, graph: str, job: str) -> list[str]:
    with fluxres.connect(server.url, graph=graph) as found:
        try:
            return found.allocated(job).paths()
        except UnknownJob:
            return []


def test_a_child_grows_shrinks_extends_and_ends(server: Server) -> None:
    with fluxres.open_child(server.url, job="j1", wanted="slot=2/node", duration_s=600, name="part") as child:
        assert isinstance(child, RemoteChild)
        assert (child.name, child.parent, child.job) == ("part", "demo", "j1")
        assert child.graph.find("type=node").paths() == ["/demo/rack0/node0", "/demo/rack0/node1"]
        child.graph.allocate("slot=1/node", job="inner")
        assert child.grow("slot=1/node") == ["/demo/rack0/node2"]
        assert len(child.graph.find("type=node")) == 3
        with pytest.raises(fluxres.StillHeld):
            child.shrink("/demo/rack0/node0")
        assert child.shrink("/demo/rack0/node1") == ["/demo/rack0/node1"]
        assert held(server, "demo", "j1") == ["/demo/rack0/node0", "/demo/rack0/node2"]
        until = child.extend(duration_s=1200)
        with fluxres.connect(server.url) as graph:
            assert graph.allocation("j1").end == until
            graph.shrink("j1", "/demo/rack0/node2")
        child.refresh()
        assert child.graph.find("type=node").paths() == ["/demo/rack0/node0"]
        with pytest.raises(fluxres.InsufficientResources):
            child.grow("slot=8/node")
        assert child.graph.create_instance("main").submit("slot=1/core").state.name == "SCHED"
    assert held(server, "demo", "j1") == []
    with pytest.raises(fluxres.UnknownGraph):
        fluxres.connect(server.url, graph="part")
    with pytest.raises(HoldLapsed):
        child.graph.allocate("slot=1/core", job="late")
    with pytest.raises(HoldLapsed, match="it has ended"):
        child.grow("slot=1/node")
    child.end()  # once more
    child.graph.close()


def test_a_lease_is_renewed_and_two_do_not_have_it(server: Server) -> None:
    with begin(server.url, job="j1", wanted="slot=1/node", lease_s=3.0) as child:
        with pytest.raises(fluxres.StoreBusy):
            begin(server.url, job="j1")
        time.sleep(4.0)
        child.graph.tag("/demo/rack0/node0", "alive")
        assert not child.is_over
    with pytest.raises(fluxres.InfeasibleRequest):
        begin(server.url, job="j2", wanted="slot=9/node")
    with pytest.raises(fluxres.UnknownJob):
        begin(server.url, job="j3")
    assert held(server, "demo", "j1") == held(server, "demo", "j2") == []


def test_a_detached_child_is_taken_over(server: Server) -> None:
    child = begin(server.url, job="j1", wanted="slot=1/node", name="part")
    child.graph.allocate("slot=2/core", job="inner")
    child.detach()
    with pytest.raises(HoldLapsed):
        child.grow("slot=1/node")
    with pytest.raises(HoldLapsed):
        child.graph.free("inner")
    child.graph.close()
    with begin(server.url, job="j1") as again:
        assert again.name == "part"
        assert again.graph.jobs() == ["inner"]


STAND_STILL = """
import sys, time
from fluxres.service.client.child import begin
child = begin(sys.argv[1], job="j1", wanted="slot=2/node", name="part", lease_s=1.0)
child.graph.allocate("slot=1/node", job="inner")
print("ready", flush=True)
sys.stdin.readline()
for change in (lambda: child.graph.allocate("slot=1/node", job="late"), lambda: child.grow("slot=1/node"), child.renew):
    try:
        change()
    except Exception as error:
        print(type(error).__name__, flush=True)
    else:
        print("made", flush=True)
"""


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_child_that_is_late_changes_nothing_and_its_parent_has_everything_back(server: Server, is_killed: bool) -> None:
    command = [sys.executable, "-c", STAND_STILL, server.url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        assert len(held(server, "demo", "j1")) == 2
        os.kill(process.pid, signal.SIGKILL if is_killed else signal.SIGSTOP)
        until = time.monotonic() + 30
        while held(server, "demo", "j1"):
            assert time.monotonic() < until
            time.sleep(0.05)
        if is_killed:
            return
        with fluxres.connect(server.url) as graph:
            assert len(graph.allocate("slot=8/node", job="j2").pools) == 8
        os.kill(process.pid, signal.SIGCONT)
        said, _ = process.communicate("\n", timeout=60)
        assert said.split() == ["HoldLapsed"] * 3
        assert held(server, "demo", "j1") == []
    finally:
        process.kill()
        process.communicate()


def test_the_mark_of_another_lease_changes_nothing(server: Server) -> None:
    with begin(server.url, job="j1", wanted="slot=1/node", name="part") as child:
        for operation, body in (
            ("allocate", {"wanted": "slot=1/core", "job": "x"}),
            ("child/grow", {"wanted": "slot=1/node"}),
            ("instances", {"name": "main"}),
        ):
            with pytest.raises(HoldLapsed):
                server.connection().make(post(of_graph("part", operation), body, headers={CHILD: "0" * 16}))
        for operation in ("renew", "end", "detach"):
            with pytest.raises(HoldLapsed):
                server.connection().make(post(of_graph("part", f"child/{operation}"), {"mark": "0" * 16}))
        assert child.graph.jobs() == []


def test_the_end_of_a_child_is_made_once_also_by_the_next_server(tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with running(store) as server:
        marks = {}
        for job in ("j1", "j2"):
            body = {"job": job, "wanted": "slot=1/node", "name": f"part-{job}"}
            marks[job] = server.connection().post(of_graph("demo", "child/open"), body, key=None).document()["mark"]
        asked = {
            "renew": ("part-j1", "renew", {"mark": marks["j1"]}),
            "detach": ("part-j1", "detach", {"mark": marks["j1"]}),
            "end": ("part-j2", "end", {"mark": marks["j2"]}),
        }

        def send(at: Server, key: str) -> object:
            graph, what, body = asked[key]
            return at.connection().post(of_graph(graph, f"child/{what}"), body, key=key).document()

        first = {key: send(server, key) for key in asked}
        assert {key: send(server, key) for key in asked} == first
        with pytest.raises(fluxres.errors.KeyReused):
            server.connection().post(of_graph("part-j1", "child/detach"), {"mark": "0" * 16}, key="detach")
        server.process.kill()
        server.process.wait()
    with running(store) as server:
        assert {key: send(server, key) for key in ("detach", "end")} == {key: first[key] for key in ("detach", "end")}
        with pytest.raises(HoldLapsed):
            send(server, "renew")  # it was detached


def test_commands_change_a_child_on_a_server(server: Server) -> None:
    def child(*words: str) -> tuple[int, str]:
        done = output("--store", server.url, "child", *words)
        return done.returncode, done.stdout + done.stderr

    with begin(server.url, job="j1", wanted="slot=2/node", name="part") as mine:
        assert child("grow", "part", "-N1", "-x") == (0, "/demo/rack0/node2\n")
        assert child("shrink", "part", "/demo/rack0/node[0-1]") == (0, "/demo/rack0/node0\n/demo/rack0/node1\n")
        assert child("extend", "part", "--duration", "2h")[0] == 0
        with fluxres.connect(server.url, graph="demo") as graph:
            held = graph.allocation("j1")
            assert held.end - graph.log(job="j1")[0]["start"] / 1e6 == pytest.approx(7200, abs=5)
            commands = [one["command"] for one in graph.log(job="j1")]
            assert commands[1].startswith("fluxres --store http")
        assert child("grow", "part", "-N9", "-x")[0] == 3  # never
        status, said = child("grow", "demo", "-N1", "-x")
        assert (status, "is no part of another graph" in said) == (2, True)
        status, said = child("grow", "nosuch", "-N1", "-x")
        assert (status, "no graph 'nosuch'" in said) == (2, True)
        assert child("extend", "part")[0] == 2
        mine.graph.allocate("/demo/rack0/node2", job="inner")
        assert child("grow", "part", "/demo/rack0/node3") == (0, "/demo/rack0/node3\n")
        status, said = child("shrink", "part", "/demo/rack0/node2")
        assert (status, "inner" in said) == (1, True)
        assert child("end", "part") == (0, "part has ended\n")
        with pytest.raises(HoldLapsed):
            mine.graph.free("inner")
    assert held_by(server) == []
    assert child("end", "part")[0] == 2


def held_by(server: Server) -> list[str]:
    with fluxres.connect(server.url, graph="demo") as graph:
        return graph.jobs()


@pytest.mark.parametrize("is_remote", [True, False])
def test_a_request_is_nothing_to_return(server: Server, is_remote: bool) -> None:
    where = server.url if is_remote else server.store
    with fluxres.open_child(where, job="j1", wanted="slot=2/node") as child:
        for wanted in ("-N1 -x", "slot=1/node"):
            with pytest.raises(fluxres.UsageError, match="expected pools to return, got a request"):
                child.shrink(wanted)


def test_a_child_for_asyncio(server: Server) -> None:
    async def work() -> None:
        async with fluxres.aopen_child(server.url, job="j1", wanted="slot=2/node", name="part", lease_s=1.0) as child:
            assert (child.name, child.parent, child.job) == ("part", "demo", "j1")
            await child.graph.allocate("slot=1/node", job="inner")
            assert await child.grow("slot=1/node") == ["/demo/rack0/node2"]
            with pytest.raises(fluxres.StillHeld):
                await child.shrink("/demo/rack0/node0")
            assert await child.shrink("/demo/rack0/node1") == ["/demo/rack0/node1"]
            until = await child.extend(duration_s=1200)
            async with fluxres.aconnect(server.url, graph="demo") as graph:
                assert (await graph.allocation("j1")).end == until
            await asyncio.sleep(2.5)  # it is renewed
            assert (await child.graph.jobs(), child.is_over) == (["inner"], False)
        with pytest.raises(HoldLapsed):
            await child.grow("slot=1/node")
        await child.end()  # once more
        kept = await fluxres.aopen_child(server.url, job="j2", wanted="slot=1/node")
        await kept.detach()
        with pytest.raises(fluxres.InfeasibleRequest):
            await fluxres.aopen_child(server.url, job="j3", wanted="slot=9/node")
        with pytest.raises(fluxres.UsageError, match="http"):
            fluxres.aopen_child(server.store, job="j1")

    asyncio.run(work())
    assert held_by(server) == ["j2"]


def test_a_late_child_for_asyncio_changes_nothing(server: Server) -> None:
    async def work() -> None:
        child = await fluxres.aopen_child(server.url, job="j1", wanted="slot=2/node", lease_s=1.0)
        lost = asyncio.Event()
        child.on_loss = lost.set
        time.sleep(1.5)
        with pytest.raises(HoldLapsed):
            await child.graph.allocate("slot=1/node", job="late")
        await asyncio.wait_for(lost.wait(), 20)
        assert child.is_over
        await child.end()

    asyncio.run(work())
    assert held_by(server) == []


def test_a_child_goes_on_when_its_server_is_succeeded(tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with running(store, "--lease", "1") as first, running(store, "--lease", "1") as second:
        with begin(f"{first.url},{second.url}", job="j1", wanted="slot=2/node", name="part", lease_s=30) as child:
            child.graph.allocate("slot=1/node", job="inner", idempotency_key="k1")
            first.process.kill()
            assert child.graph.allocate("slot=1/node", job="inner", idempotency_key="k1").pools
            assert child.grow("slot=1/node") == ["/demo/rack0/node2"]
            child.renew()
            assert child.graph.allocated("inner").paths() == ["/demo/rack0/node0"]
        assert held(second, "demo", "j1") == []
    assert upkeep.check(open_store(store))[1] == []


def test_a_child_needs_a_token_for_both_graphs(tmp_path: Path) -> None:
    (tmp_path / "tokens.toml").write_text(FILE)
    with running(demo_store(tmp_path), "--tokens", str(tmp_path / "tokens.toml")) as server:
        for token in ("rack0", "eyes", "other"):
            with pytest.raises(fluxres.FluxresError):
                begin(server.url, graph="demo", job="j1", wanted="/demo/rack0/node0", token=WORDS[token])
        with begin(server.url, graph="demo", job="j1", wanted="slot=1/node", token=WORDS["flux"]) as child:
            assert child.graph.log()[-1]["by"]
        with fluxres.connect(server.url, graph="demo", token=WORDS["ops"]) as graph:
            assert graph.jobs() == []
            assert {one["by"] for one in graph.log() if one["event"] == "allocate"} == {"flux"}

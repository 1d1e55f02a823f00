"""A child whose parent is reached through a server only: it works on its part, and is fenced when it is late (rule N1)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fluxres
from fluxres.errors import HoldLapsed
from fluxres.service.client.child import CHILD, RemoteChild, begin
from fluxres.service.client.requests import of_graph, post
from fluxres.store import open_store, upkeep
from tests.service.conftest import Server, demo_store, running
from tests.service.test_access import FILE, WORDS


def held(server: Server, graph: str, job: str) -> list[str]:
    with fluxres.connect(server.url, graph=graph) as found:
        return found.allocated(job).paths() if job in found.jobs() else []


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

"""Servers for what jobs hold, on machines that reach the server of the parent and not its store (rule N1)."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import fluxres
from fluxres.errors import Forbidden, HoldLapsed, KeyReused, StoreError, Unauthorized, UnknownGraph
from fluxres.service.client.requests import Request, of_graph
from fluxres.store import open_store, upkeep
from tests.service.conftest import DEMO, Server, demo_store, running
from tests.service.test_access import FILE, WORDS

LEASE_S = 1.5
RACK0 = [f"/demo/rack0/node{i}" for i in range(4)]


@contextmanager
def serving_rack0(parent: str, *options: str, environment: Mapping[str, str] = {}) -> Iterator[Server]:
    """A server that has `rack0` by the job `a`, as the graph `part`."""
    given = ("--graph", "demo", "--job", "a", "--as", "part", "--lease", str(LEASE_S), *options)
    with running(parent, *given, environment=environment) as found:
        yield found


@pytest.fixture
def demo(server: Server) -> Iterator[Any]:
    with fluxres.connect(server.url) as graph:
        graph.allocate("/demo/rack0", job="a", duration_s=3600)
        yield graph


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_requests_are_passed_on_and_all_returns_at_the_end(server: Server, demo: Any) -> None:
    with serving_rack0(server.url) as relay, fluxres.connect(relay.url) as part:
        assert part.name == "part"
        assert part.find("type=node").paths() == RACK0
        seen = part.events()
        heard: list[str] = []
        listening = threading.Thread(target=lambda: heard.extend(next(seen)["name"] for _ in range(2)))
        listening.start()
        time.sleep(1)
        granted = part.allocate("slot=2/node", job="k", duration_s=60, idempotency_key="one")
        assert part.allocate("slot=2/node", job="k", duration_s=60, idempotency_key="one") == granted
        with pytest.raises(KeyReused):
            part.allocate("slot=1/node", job="k", idempotency_key="one")
        with pytest.raises(fluxres.InsufficientResources) as refused:
            part.allocate("slot=3/node", job="m")
        assert refused.value.earliest == granted.end
        with pytest.raises(UnknownGraph, match="network"):
            part.add_edge(RACK0[0], RACK0[1], "network")
        with pytest.raises(fluxres.UnknownPool):
            part.pool("/demo/rack1")
        part.tag(RACK0[0], "seen")
        listening.join(timeout=30)
        assert heard == ["allocate", "tag"]
        top = part.create_instance("main", queue_policy="fcfs")
        job = top.submit("slot=1/node", duration_s=600)
        assert [top.job(job.id).state.name, len(top.jobs())] == ["RUN", 1]
        assert fluxres.loads(part.save(format="jgf")).find("type=node").paths() == RACK0

        def does(what: str, **body: object) -> Any:
            return relay.connection().post(of_graph("part", f"child/{what}"), body, key=None).document()

        assert does("grow", wanted="slot/node") == {"paths": ["/demo/rack1/node0"]}
        assert does("shrink", wanted=RACK0[3]) == {"paths": RACK0[3:]}
        until = does("extend", duration_s=7200)["end"]
        assert demo.allocation("a").end == until
        with pytest.raises(fluxres.StillHeld):
            does("shrink", wanted=RACK0[0])
        time.sleep(2 * LEASE_S)  # it is renewed
        assert len(part.allocate("slot=1/node", job="late").pools) == 1
        assert upkeep.check(open_store(server.store))[1] == []
        status, errors = relay.stop()
        assert (status, "what job 'a'" in errors) == (0, True)
    assert demo.jobs() == []
    assert [row.name for row in open_store(server.store).graphs()] == ["demo"]


def test_it_has_its_graph_only(server: Server, demo: Any) -> None:
    with serving_rack0(server.url) as relay:
        listed = relay.answers("GET", "/v1/graphs")[1]["graphs"]
        assert [(one["graph"], one["in_use"], one["held"]["job"]) for one in listed] == [("part", True, "a")]
        assert relay.answers("GET", "/ready") == (200, {"status": "ok", "store": "ok", "graphs": 1, "epoch": 0})
        assert relay.answers("GET", "/schema/openapi.json")[1]["info"]["title"] == "fluxres"
        for method, path, status in (
            ("GET", "/v1/graphs/demo/jobs", 404),
            ("POST", "/v1/graphs?name=new", 400),
            ("POST", "/v1/graphs/part/merge?source=demo", 404),
            ("GET", "/v1/graphs/part/nothing", 404),
            ("PUT", "/v1/graphs/part/jobs", 405),
        ):
            assert relay.answers(method, path, json.dumps(DEMO).encode() if method == "POST" else None)[0] == status, path
        assert relay.connection().get("/metrics").body.count(b"fluxres_requests_total") > 1
    with (
        pytest.raises(AssertionError, match="give --job"),
        running(server.url),
    ):
        pass


def test_a_relay_that_is_killed(server: Server, demo: Any) -> None:
    with serving_rack0(server.url) as relay, fluxres.connect(relay.url) as part:
        part.allocate(RACK0[0], job="k")
        with pytest.raises(AssertionError, match="works on what this job holds"), running(server.url, "--job", "a"):
            pass
        relay.process.kill()
        wait_until(lambda: demo.jobs() == [])
    assert len(demo.allocate("slot=8/node", job="b").pools) == 8
    assert [one["reason"] for one in demo.log(job="a") if one["event"] == "free"] == ["the lease of its graph 'part' was over"]


def test_a_relay_whose_parent_is_away_ends_with_a_line(tmp_path: Path) -> None:
    with running(demo_store(tmp_path)) as parent:
        with fluxres.connect(parent.url) as graph:
            graph.allocate("/demo/rack0", job="a", duration_s=3600)
        with serving_rack0(parent.url, "--lease", "60") as relay:
            parent.process.kill()
            parent.process.wait()
            status, errors = relay.stop()
    assert status == 0
    assert "Traceback" not in errors
    said = "graph 'part' cannot be ended: .*: the server cannot be reached.*; job 'a' is freed once its lease is over"
    assert re.search(said, errors)


def test_a_relay_that_was_stopped_for_longer_than_its_lease(server: Server, demo: Any) -> None:
    with serving_rack0(server.url) as relay, fluxres.connect(relay.url, timeout_s=20) as part:
        part.allocate(RACK0[2], job="k")
        relay.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: demo.jobs() == [])
        demo.allocate(RACK0, job="b")
        relay.process.send_signal(signal.SIGCONT)
        for change in (lambda: part.allocate(RACK0[3], job="late"), lambda: part.free("k")):
            with pytest.raises((HoldLapsed, StoreError)):
                change()
        _, errors = relay.process.communicate(timeout=20)
        assert relay.process.returncode == 2
        assert "graph 'part'" in errors
    assert demo.jobs() == ["b"]


def test_a_relay_goes_on_when_the_server_of_its_parent_is_succeeded(tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with running(store, "--lease", "1") as first, running(store, "--lease", "1") as second:
        with fluxres.connect(first.url) as graph:
            graph.allocate("/demo/rack0", job="a", duration_s=3600)
        with (
            serving_rack0(f"{first.url},{second.url}", "--lease", "20") as relay,
            fluxres.connect(relay.url) as part,
        ):
            granted = part.allocate("slot=1/node", job="k", idempotency_key="one")
            first.process.kill()
            assert part.allocate("slot=1/node", job="k", idempotency_key="one").job == granted.job
            assert len(part.allocate("slot=1/node", job="m").pools) == 1
            assert sorted(part.jobs()) == ["k", "m"]
            assert relay.stop()[0] == 0
        with fluxres.connect(second.url) as graph:
            assert graph.jobs() == []


def test_a_relay_on_a_relay(server: Server, demo: Any) -> None:
    with ExitStack() as stack:
        relay = stack.enter_context(serving_rack0(server.url))
        part = stack.enter_context(fluxres.connect(relay.url))
        part.allocate(RACK0[:2], job="k", duration_s=1800)
        given = ("--graph", "part", "--job", "k", "--as", "inner", "--lease", str(LEASE_S))
        deeper = stack.enter_context(running(relay.url, *given))
        inner = stack.enter_context(fluxres.connect(deeper.url))
        inner.allocate("slot=2/node", job="deep")
        time.sleep(2 * LEASE_S)
        inner.free("deep")
        assert relay.answers("GET", "/v1/graphs/demo/jobs")[0] == 404
        body = json.dumps({"wanted": RACK0[0], "job": "x"}).encode()
        assert relay.answers("POST", "/v1/graphs/inner/allocate", body)[1]["error"] == "hold-lapsed"  # without its mark
        assert inner.jobs() == []
        relay.process.kill()
        wait_until(lambda: demo.jobs() == [])
        with pytest.raises((HoldLapsed, StoreError)):
            inner.allocate("slot/node", job="late")
        assert deeper.process.wait(timeout=30) == 2
    assert [row.name for row in open_store(server.store).graphs()] == ["demo"]


def test_tokens_of_a_relay_and_of_its_parent(tmp_path: Path) -> None:
    (tmp_path / "tokens.toml").write_text(FILE)
    (tmp_path / "own.toml").write_text(
        "".join(
            f'[tokens."{name}"]\nrole = "{role}"\ntoken = "{name}-0123456789abcdef"\n{more}\n'
            for name, role, more in (
                ("boss", "admin", ""),
                ("user", "scheduler", ""),
                ("user/x", "scheduler", ""),
                ("reader", "read-only", ""),
                ("some", "admin", 'paths = ["/demo/rack0/node0"]'),
                ("none", "admin", 'graphs = ["demo"]'),
            )
        )
    )
    with running(demo_store(tmp_path), "--tokens", str(tmp_path / "tokens.toml")) as server:
        with fluxres.connect(server.url, token=WORDS["ops"]) as graph:
            graph.allocate("/demo/rack0", job="a", duration_s=3600)
        with serving_rack0(
            server.url, "--tokens", str(tmp_path / "own.toml"), environment={"FLUXRES_TOKEN": WORDS["flux"]}
        ) as relay:

            def as_(name: str) -> Any:
                return fluxres.connect(relay.url, token=f"{name}-0123456789abcdef")

            with as_("user") as part:
                part.allocate("slot=1/node", job="k", idempotency_key="one")
                assert part.log(job="k")[-1]["by"] == "flux"  # the token that the relay has there
                with pytest.raises(Forbidden, match="token 'user' has the role scheduler"):
                    part.set_state(RACK0[0], "down")
            with as_("boss") as part:
                part.allocate("slot=1/node", job="m", idempotency_key="one")  # keys are those of a token
                with pytest.raises(Forbidden, match="token 'flux' has the role scheduler"):
                    part.set_state(RACK0[0], "down")
                assert sorted(part.jobs()) == ["k", "m"]
            with as_("user") as part:
                part.allocate("slot=1/node", job="p", idempotency_key="x/one")
            with as_("user/x") as part:
                part.allocate("slot=1/node", job="q", idempotency_key="one")
                assert sorted(part.jobs()) == ["k", "m", "p", "q"]
            with as_("reader") as part, pytest.raises(Forbidden):
                part.free("k")
            for name, kind in (("some", Forbidden), ("none", Forbidden), ("nobody", Unauthorized)):
                with pytest.raises(kind):
                    relay.connection(f"{name}-0123456789abcdef").make(Request("GET", of_graph("part", "jobs")))


def test_a_command_grows_the_child_through_its_own_server(server: Server, demo: Any) -> None:
    demo.free("a")
    demo.allocate(RACK0[:3], job="a", duration_s=3600)
    with serving_rack0(server.url) as relay:
        command = [sys.executable, "-m", "fluxres", "--store", relay.url, "child", "grow", "part"]
        done = subprocess.run([*command, "-N1", "-x"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, f"{RACK0[3]}\n")
        done = subprocess.run([*command, "/demo/rack1/node4"], capture_output=True, text=True, check=False)
        assert (done.returncode, "ask the server of its parent" in done.stderr) == (2, True)

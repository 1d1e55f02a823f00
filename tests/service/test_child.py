"""Servers that work on what jobs of other graphs hold: parent, child and grandchild on one store."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import fluxres
from fluxres import clock
from fluxres.clock import stopwatch
from fluxres.errors import FluxresError, HoldLapsed, InsufficientResources, KeyReused, StoreError, UnknownGraph
from fluxres.service.client import RemoteGraph
from fluxres.store import open_store, upkeep
from fluxres.store.child import open_child
from tests.service.conftest import DEMO, Server, demo_store, running
from tests.store.servers import etcd

LEASE_S = 1.5
NODES = [f"/demo/rack0/node{i}" for i in range(4)]


class Tree:
    """Three servers on one store, whose child holds `rack0` by the job `a`, and whose grandchild holds two nodes by `k`."""

    def __init__(self, store: str, stack: ExitStack) -> None:
        self.store, self._stack = store, stack
        self.parent = self._begin()
        self.demo = self.connected(self.parent, "demo")
        self.demo.allocate("/demo/rack0", job="a", duration_s=3600)
        self.child = self._begin("--graph", "demo", "--job", "a", "--as", "part")
        self.part = self.connected(self.child, "part")
        self.part.allocate(NODES[:2], job="k", duration_s=1800)
        self.grandchild = self._begin("--graph", "part", "--job", "k", "--as", "inner")
        self.inner = self.connected(self.grandchild, "inner")

    def _begin(self, *options: str) -> Server:
        return self._stack.enter_context(running(self.store, "--lease", str(LEASE_S), *options))

    def connected(self, server: Server, graph: str) -> RemoteGraph:
        return self._stack.enter_context(fluxres.connect(server.url, graph=graph, timeout_s=20))

    def wait_for(self, *graphs: str) -> None:
        """Wait until the store has these graphs, and the parent has everything back."""
        until_s = stopwatch() + 20
        while self.names() != list(graphs) or "a" in self.demo.jobs():
            assert stopwatch() < until_s, (self.names(), self.demo.jobs())
            clock.sleep(0.05)

    def names(self) -> list[str]:
        return open_store(self.store).names()

    def child_does(self, server: Server, graph: str, what: str, **body: object) -> dict[str, object]:
        found: dict[str, object] = server.connection().post(f"/v1/graphs/{graph}/child/{what}", body, key=None).document()
        return found


def becomes(read: Callable[[], object], expected: object) -> None:
    """Check what a server says of what another one wrote, which it reads ten times a second."""
    until_s = stopwatch() + 5
    while (found := read()) != expected and stopwatch() < until_s:
        clock.sleep(0.05)
    assert found == expected


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of stores in an etcd."""
    with pytest.MonkeyPatch.context() as patch, etcd() as server:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield server.url("")


@pytest.fixture
def tree(site: str, request: pytest.FixtureRequest) -> Iterator[Tree]:
    store = f"{site}{request.node.name}"
    fluxres.save(fluxres.load(DEMO), store)
    with ExitStack() as stack:
        yield Tree(store, stack)


def test_three_servers_on_one_store(tree: Tree) -> None:
    tree.inner.allocate("slot=2/core=8", job="deep")
    assert tree.demo.allocated("a").paths() == ["/demo/rack0"]
    with pytest.raises(InsufficientResources):
        tree.part.allocate(NODES[0], job="other")
    with pytest.raises(UnknownGraph):
        tree.connected(tree.child, "demo")

    # more for the grandchild, of what the child has
    assert tree.child_does(tree.grandchild, "inner", "grow", wanted="slot/node") == {"paths": NODES[2:3]}
    becomes(lambda: tree.part.allocated("k").paths(), NODES[:3])
    tree.inner.allocate(NODES[2], job="more")
    with pytest.raises(FluxresError, match="held by k"):
        tree.child_does(tree.child, "part", "shrink", wanted=NODES[2])

    # more for the child, of what its parent has
    assert tree.child_does(tree.child, "part", "grow", wanted="slot/node") == {"paths": ["/demo/rack1/node0"]}
    assert tree.child_does(tree.child, "part", "shrink", wanted=NODES[3]) == {"paths": NODES[3:]}
    becomes(lambda: tree.demo.allocated("a").paths(), [*NODES[:3], "/demo/rack1/node0"])
    tree.demo.allocate(NODES[3], job="b", duration_s=60)
    before = tree.demo.allocation("a").end
    assert tree.child_does(tree.child, "part", "extend", end=before + 3600) == {"end": before + 3600}

    clock.sleep(2 * LEASE_S)  # the leases are renewed
    tree.part.allocate("slot/core", job="late")
    assert tree.part.allocation("late").pools[0].path.startswith("/demo/rack1")
    assert upkeep.check(open_store(tree.store))[1] == []

    assert tree.grandchild.stop()[0] == 0
    becomes(tree.part.jobs, ["late"])
    assert tree.child.stop()[0] == 0
    becomes(tree.demo.jobs, ["b"])
    assert tree.names() == ["demo"]


def test_a_child_that_is_killed(tree: Tree) -> None:
    tree.inner.allocate("slot/core", job="deep")
    tree.child.process.kill()
    tree.wait_for("demo")
    tree.demo.allocate(NODES, job="b")
    with pytest.raises((HoldLapsed, StoreError)):  # it is refused, or the server has ended
        tree.inner.allocate("slot/core", job="late")
    tree.grandchild.process.wait(timeout=20)
    assert tree.grandchild.process.returncode == 2
    reasons = [entry["reason"] for entry in tree.demo.log(job="a") if entry["event"] == "free"]
    assert reasons == ["the lease of its graph 'part' was over"]


def test_a_child_that_was_stopped_for_longer_than_its_lease(tree: Tree) -> None:
    tree.part.allocate(NODES[2], job="x")
    tree.child.process.send_signal(signal.SIGSTOP)
    tree.wait_for("demo")
    tree.demo.allocate(NODES, job="b")
    tree.child.process.send_signal(signal.SIGCONT)
    for change in (lambda: tree.part.allocate(NODES[3], job="late"), lambda: tree.part.free("x")):
        with pytest.raises((HoldLapsed, StoreError)):
            change()
    _, errors = tree.child.process.communicate(timeout=20)
    assert tree.child.process.returncode == 2
    assert "graph 'part': its lease was over" in errors
    assert tree.demo.jobs() == ["b"]


def test_a_request_to_grow_is_made_once(tmp_path: Path) -> None:
    """Also if its answer is lost, and it is sent again to the next server."""
    store, body = demo_store(tmp_path), {"wanted": "slot/node"}
    place = "/v1/graphs/demo.a/child/grow"
    with open_child(store, job="a", wanted="slot/node") as child:
        with running(store) as server:
            first = server.connection().post(place, body, key="one").document()
            assert server.connection().post(place, body, key="one").document() == first
            with pytest.raises(KeyReused):
                server.connection().post(place, {"wanted": "slot=2/node"}, key="one")
            server.process.kill()
        with running(store) as server:
            assert server.connection().post(place, body, key="one").document() == first
        child.graph.refresh()
        assert len(child.graph.find("type=node")) == 2


def test_a_second_server_for_a_job_does_not_start(tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with (
        open_child(store, job="a", wanted="slot/node"),
        pytest.raises(AssertionError, match="works on what this job holds, until"),
        running(store, "--job", "a"),
    ):
        pass
    with pytest.raises(AssertionError, match="no job 'a' holds anything"), running(store, "--job", "a"):
        pass
    with pytest.raises(AssertionError, match="give --job"), running(store, "--as", "part"):
        pass


def test_what_a_server_of_a_child_says(tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with fluxres.open(store) as demo:
        demo.allocate(NODES[0], job="a")
    with running(store, "--job", "a") as server:
        listed = server.answers("GET", "/v1/graphs")[1]["graphs"]
        assert [(one["graph"], one["in_use"], one["held"]["job"]) for one in listed] == [("demo.a", True, "a")]
        assert server.answers("GET", "/ready")[0] == 200
        assert server.answers("GET", "/v1/graphs/demo/jobs")[0] == 404
        assert server.answers("POST", "/v1/graphs?name=new", json.dumps(DEMO).encode())[0] == 400
        assert server.says("graph 'demo.a' has what job 'a' of graph 'demo' holds")


@pytest.mark.parametrize("is_of_job", [True, False])
def test_ctrl_c_twice_gives_back_what_is_held(tmp_path: Path, is_of_job: bool) -> None:
    """The second one comes while the server ends; nothing waits for a lease."""
    store = demo_store(tmp_path)
    with fluxres.open(store) as demo:
        demo.allocate(NODES[0], job="a")
    with running(store, "--lease", "60", *(["--job", "a"] if is_of_job else [])) as server:
        for _ in range(2):
            server.process.send_signal(signal.SIGINT)
            clock.sleep(0.02)
        _, errors = server.process.communicate(timeout=30)
        assert (server.process.returncode, "Traceback" in errors) == (0, False)
    with running(store) as after:
        assert "has ended" not in after.stop()[1]  # it did not take over: the lease was given back
    assert open_store(store).names() == ["demo"]
    with fluxres.open(store) as demo:
        assert ("a" in demo.jobs()) != is_of_job

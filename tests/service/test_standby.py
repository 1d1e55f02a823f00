"""Two servers on one store: one leads, the other one stands by and takes over."""

from __future__ import annotations

import re
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import fluxres
from fluxres import limits
from fluxres.cli.program import run
from fluxres.errors import KeyReused, StoreError
from fluxres.service.client.addresses import address, followed
from fluxres.service.client.connection import Connection
from fluxres.store import open_store
from tests.service.conftest import DEMO, Server, demo_store, running

LEASE = ("--lease", "1")


@pytest.fixture
def pair(start: Callable[..., Server]) -> tuple[Server, Server]:
    """A server that leads, and one that stands by."""
    return start(*LEASE), start(*LEASE)


def allocate(to: Connection, job: str, key: str | None = None, wanted: str = "slot/core=2") -> Any:
    return to.post("/v1/graphs/demo/allocate", {"wanted": wanted, "job": job}, key=key).document()


def leads(server: Server) -> tuple[str, ...]:
    """Whether a server leads, and the epoch, as Prometheus is told."""
    text = server.connection().get("/metrics").body.decode()
    return tuple(re.findall(r"^fluxres_(?:leads|epoch) (\S+)$", text, re.MULTILINE))


def stored_jobs(server: Server) -> set[str]:
    return set(fluxres.load(f"{server.store}?graph=demo").jobs())


def test_a_server_that_stands_by_is_healthy_and_not_ready_and_answers_questions(pair: tuple[Server, Server]) -> None:
    leader, second = pair
    allocate(leader.connection(), "j1")
    assert second.answers("GET", "/health")[0] == 200
    status, problem = second.answers("GET", "/ready")
    assert (status, problem["error"], problem["leader"]) == (503, "not-leader", leader.url)
    assert leader.url in problem["hint"]
    assert [job["job"] for job in second.answers("GET", "/v1/graphs/demo/jobs")[1]["jobs"]] == ["j1"]
    assert second.answers("POST", "/v1/graphs/demo/match", b'{"wanted": "slot/node"}')[1]["pools"]
    log = second.answers("GET", "/v1/graphs/demo/log")[1]["log"]
    assert [entry["event"] for entry in log] == ["load", "allocate"]


CHANGES = [
    ("POST", "/v1/graphs/demo/allocate", b'{"wanted": "slot/node", "job": "j1"}'),
    ("POST", "/v1/graphs/demo/tag", b'{"wanted": "/demo/rack0", "key": "k"}'),
    ("POST", "/v1/graphs/demo/events", b'{"events": []}'),
    ("POST", "/v1/graphs/demo/end", b'{"mark": "000000000000000000000000"}'),
    ("GET", "/v1/graphs/demo/news?mark=000000000000000000000000", None),
    ("POST", "/v1/graphs?name=other", b"fluxres: 1"),
    ("DELETE", "/v1/graphs/demo", None),
]


def test_a_server_that_stands_by_refuses_changes_and_names_the_leader(pair: tuple[Server, Server]) -> None:
    leader, second = pair
    before = open_store(leader.store).log("demo")
    for method, path, body in CHANGES:
        status, problem = second.answers(method, path, body)
        assert (status, problem["error"], problem["leader"]) == (503, "not-leader", leader.url), path
    assert open_store(leader.store).log("demo") == before


def test_a_killed_leader_is_followed_at_once_and_nothing_acknowledged_is_lost_or_done_twice(pair: tuple[Server, Server]) -> None:
    leader, second = pair
    assert [leads(server) for server in pair] == [("1.0", "1.0"), ("0.0", "1.0")]
    granted = allocate(leader.connection(), "j1", key="k1")
    large = allocate(leader.connection(), "j2", key="k2", wanted="slot=20/core")
    leader.process.kill()
    assert "has ended" in second.says("this server leads the store now (epoch 2)")
    asked = second.connection()
    assert asked.get("/ready").document()["epoch"] == 2
    assert leads(second) == ("1.0", "2.0")
    assert allocate(asked, "j1", key="k1") == granted
    assert allocate(asked, "j2", key="k2", wanted="slot=20/core") == large
    with pytest.raises(KeyReused):
        allocate(asked, "j1", key="k1", wanted="slot/node")
    assert [entry.event["event"] for entry in open_store(leader.store).log("demo")] == ["load", "allocate", "allocate"]
    assert stored_jobs(second) == {"j1", "j2"}


def test_an_answer_too_long_to_be_kept_is_still_not_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = {**DEMO, "resources": [{"type": "node", "count": 400, "with": [{"type": "core", "count": 40}]}]}
    store = f"sqlite://{tmp_path}/site.db"
    fluxres.save(fluxres.load(big), store)
    with running(store, *LEASE) as first:
        answered = first.connection().post("/v1/graphs/demo/allocate", {"wanted": "slot=15000/core", "job": "j1"}, key="k1")
        assert len(answered.body) > 10 * limits.SERVICE_KEPT_BYTES_MAX
        assert first.stop()[0] == 0
    with running(store, *LEASE) as second, pytest.raises(KeyReused, match="was made, and its answer was not kept"):
        second.connection().post("/v1/graphs/demo/allocate", {"wanted": "slot=15000/core", "job": "j1"}, key="k1")


def test_a_leader_that_ends_in_order_gives_the_lease_back(pair: tuple[Server, Server]) -> None:
    leader, second = pair
    allocate(leader.connection(), "j1")
    assert leader.stop()[0] == 0
    assert "the lease was free" in second.says("this server leads the store now (epoch 2)")
    allocate(second.connection(), "j2")
    assert stored_jobs(second) == {"j1", "j2"}


def test_a_leader_that_was_stopped_for_too_long_acknowledges_nothing_and_stands_by(pair: tuple[Server, Server]) -> None:
    leader, second = pair
    allocate(leader.connection(), "j1")
    stop(leader)
    assert "has not renewed its lease" in second.says("this server leads the store now (epoch 2)")
    allocate(second.connection(), "j2")
    leader.process.send_signal(signal.SIGCONT)
    for number in range(3):
        body = b'{"wanted": "slot/core", "job": "late-%d"}' % number
        status, problem = leader.answers("POST", "/v1/graphs/demo/allocate", body)
        assert (status, problem["leader"]) == (503, second.url)
    leader.says(f"{second.url} leads the store (epoch 2): this server stands by")
    assert leader.answers("GET", "/ready")[1]["leader"] == second.url
    assert [job["job"] for job in leader.answers("GET", "/v1/graphs/demo/jobs")[1]["jobs"]] == ["j1", "j2"]
    assert stored_jobs(second) == {"j1", "j2"}


def test_a_renewed_lease_is_not_taken(pair: tuple[Server, Server]) -> None:
    leader, second = pair
    first = lease_of(leader.store)
    while (now := lease_of(leader.store)).renewals < first.renewals + 4:
        assert now.epoch == 1
    assert second.answers("GET", "/ready")[1]["leader"] == leader.url
    allocate(leader.connection(), "j1")


def test_a_server_that_may_not_stand_by_does_not_start(start: Callable[..., Server], capsys: pytest.CaptureFixture[str]) -> None:
    leader = start(*LEASE)
    assert run(["serve", "--store", leader.store, "--port", "0", "--no-standby"]) == 4
    assert f"another server leads this store: {leader.url}" in capsys.readouterr().err
    stop(leader)
    second = start(*LEASE, "--no-standby")  # waits until the lease is over
    assert second.connection().get("/ready").document()["epoch"] == 2


def test_a_copy_of_a_store_has_a_leader_of_its_own(tmp_path: Path) -> None:
    with running(demo_store(tmp_path), *LEASE) as first:
        assert run(["store", "--store", first.store, "backup", str(tmp_path / "copy.db")]) == 0
        with running(f"sqlite://{tmp_path}/copy.db", *LEASE, "--no-standby") as second:
            assert second.connection().get("/ready").document()["epoch"] == 2
            allocate(second.connection(), "j1")
        assert stored_jobs(first) == set()


@pytest.mark.parametrize("life_s", [limits.SERVICE_LEASE_SECONDS_MIN / 2, limits.SERVICE_LEASE_SECONDS_MAX * 2])
def test_the_life_of_a_lease_has_bounds(life_s: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert limits.SERVICE_LEASE_SECONDS_MIN < limits.SERVICE_LEASE_SECONDS_DEFAULT < 10.0
    assert run(["serve", "--store", demo_store(tmp_path), "--port", "0", "--lease", f"{life_s:g}s"]) == 2
    assert "--lease" in capsys.readouterr().err


def test_the_address_for_others_can_be_given(start: Callable[..., Server]) -> None:
    start(*LEASE, "--url", "http://db.site:80")
    assert start(*LEASE).answers("GET", "/ready")[1]["leader"] == "http://db.site:80"


def test_options_that_would_mean_nothing_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = demo_store(tmp_path)
    assert run(["serve", "--store", store, "--port", "0", "--url", "db.site:7390"]) == 2
    assert "db.site:7390: expected http://HOST:PORT" in capsys.readouterr().err
    assert run(["serve", "--store", store, "--port", "0", "--graph", "demo"]) == 2
    assert "--graph: all graphs of a store are served" in capsys.readouterr().err


def test_a_client_of_several_servers_follows_the_one_that_leads(pair: tuple[Server, Server]) -> None:
    leader, second = pair
    with fluxres.connect(f"{second.url},{leader.url}?graph=demo") as graph:
        graph.allocate("slot/core", job="j1")
        following = graph.events(after=0)
        assert [next(following)["name"] for _ in range(2)] == ["load", "allocate"]
        leader.process.kill()
        graph.allocate("slot/core", job="j2")
        assert next(following)["context"]["job"] == "j2"
        assert graph.jobs() == ["j1", "j2"]


def test_a_client_of_the_server_that_stands_by_is_sent_to_the_leader_and_back(pair: tuple[Server, Server]) -> None:
    leader, second = pair
    with fluxres.connect(second.url, graph="demo") as graph:
        graph.allocate("slot/core", job="j1")
        assert str(graph.connection.servers.at) == leader.url
        leader.process.kill()
        graph.allocate("slot/core", job="j2")
        assert str(graph.connection.servers.at) == second.url


def test_a_client_looks_for_a_leader_for_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def once(_self: Connection, at: Any, *_: Any) -> Any:
        tried.append(str(at))
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(Connection, "_once", once)
    monkeypatch.setattr(limits, "SERVICE_FOLLOW_SECONDS", 1.5)
    with pytest.raises(StoreError, match="the server cannot be reached"):
        fluxres.connect("http://127.0.0.1:1,http://127.0.0.1:2")
    assert len(tried) > 4
    assert tried[:4] == ["http://127.0.0.1:1", "http://127.0.0.1:2"] * 2


@pytest.mark.parametrize(
    ("asked", "leader", "is_followed"),
    [
        ("http://127.0.0.1:1", "http://127.0.0.1:2", True),
        ("http://a.site:1", "http://b.site:2", True),
        ("http://a.site:1", "http://127.0.0.1:2", False),
        ("http://a.site:1", "http://localhost:2", False),
        ("https://a.site:1", "http://b.site:2", False),
        ("https://a.site:1", "https://b.site:2", True),
        ("http://a.site:1", "file:///etc", False),
    ],
)
def test_which_leader_a_client_goes_to(asked: str, leader: str, is_followed: bool) -> None:
    found = followed(address(asked), leader)
    assert (None if found is None else str(found)) == (leader if is_followed else None)


def stop(leader: Server) -> None:
    """Stop a leader between two transactions: just after it has renewed its lease, while its locks are held here."""
    before = lease_of(leader.store)
    while lease_of(leader.store) == before:
        pass
    file = leader.store.removeprefix("sqlite://")
    with open_store(leader.store).locked("stop", 10), closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        leader.process.send_signal(signal.SIGSTOP)
        db.execute("ROLLBACK")


def lease_of(store: str) -> Any:
    from fluxres.store import lease

    with open_store(store).reading(None) as rows:
        return lease.read(rows.db)

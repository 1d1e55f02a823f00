"""Commands on a store that a server leads: their changes go through the server, or to the store, and nobody sees a difference."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import fluxres
from fluxres import clock
from fluxres.allocation.facts import Launch
from fluxres.cli.program import program, run
from fluxres.errors import RevisionConflict, StoreError
from fluxres.launch import identity
from fluxres.service.client import led
from fluxres.service.client.connection import Connection
from fluxres.service.client.requests import Request
from fluxres.store import lease, open_store
from fluxres.store.lease import Lease
from tests.launch.runs import wait_until
from tests.service.conftest import Server, demo_store, running
from tests.service.test_commands import SCRIPT, words_of

LEASE = ("--lease", "1h")
"""Nothing is renewed, so tests can change the note."""


@pytest.fixture
def led_store(tmp_path: Path) -> Iterator[Server]:
    with running(demo_store(tmp_path), *LEASE) as found:
        yield found


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the changes that this process sent to a server and that were answered."""
    found: list[str] = []
    original = Connection.make

    def make(self: Connection, request: Request) -> Any:
        reply = original(self, request)
        if request.method == "POST":
            found.append(request.path)
        return reply

    monkeypatch.setattr(Connection, "make", make)
    return found


def lease_of(store: str) -> Lease:
    found = lease.of(open_store(store).database)
    assert found is not None
    return found


def put_lease(store: str, fields: dict[str, Any]) -> None:
    found = msgspec.structs.replace(lease_of(store), **fields)
    with open_store(store).creating("test", None) as db:
        lease.write(db, found)


def tag(store: str, key: str = "k") -> int:
    return run(["--store", store, "tag", "/demo", key])


def tags(store: str) -> set[str]:
    return set(fluxres.load(f"{store}?graph=demo").pool("/demo").tags)


def test_commands_print_the_same_on_a_store_that_a_server_leads(
    led_store: Server, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, posts: list[str]
) -> None:
    alone = demo_store(tmp_path_factory.mktemp("alone"))
    monkeypatch.setattr(clock, "system", clock.fixed(clock.system()))
    monkeypatch.delenv("FLUXRES_STORE", raising=False)
    for line in (*SCRIPT.splitlines(), "unlink /demo/rack1/node7", "info"):
        words = words_of(line)
        local = CliRunner().invoke(program, ["--store", alone, *words])
        through = CliRunner().invoke(program, ["--store", led_store.store, *words])
        assert (through.exit_code, through.output) == (local.exit_code, local.output), line
    assert len(posts) > 8
    logs = [[entry.event for entry in open_store(store).log("demo")] for store in (led_store.store, alone)]
    assert logs[0] == logs[1]
    assert led_store.answers("GET", "/v1/graphs/demo/jobs?start=2100-01-01T08:30")[0] == 200


def test_the_journal_names_the_command_and_its_user(led_store: Server, posts: list[str]) -> None:
    assert tag(led_store.store) == 0
    assert posts == ["/v1/graphs/demo/events"]
    last = open_store(led_store.store).log("demo")[-1]
    assert last.command == f"fluxres --store {led_store.store} tag /demo k"
    assert last.user == open_store(led_store.store).log("demo")[0].user


NOT_USED: dict[str, dict[str, Any]] = {
    "of another store": {"store": "sqlite:///elsewhere/site.db"},
    "that needs a token": {"is_open": False},
    "at an address of another machine": {"url": "http://db.site:7390"},
}


@pytest.mark.parametrize("what", NOT_USED)
def test_a_server_is_not_asked_that(led_store: Server, posts: list[str], what: str) -> None:
    put_lease(led_store.store, NOT_USED[what])
    assert tag(led_store.store) == 0
    assert tags(led_store.store) == {"k"}
    assert posts == []


def test_a_server_on_another_host_is_not_asked(led_store: Server, posts: list[str]) -> None:
    holder = lease_of(led_store.store).holder
    assert holder is not None
    put_lease(led_store.store, {"holder": msgspec.structs.replace(holder, host="elsewhere")})
    assert tag(led_store.store) == 0
    assert posts == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_a_server_that_does_not_run_is_not_asked(led_store: Server, posts: list[str], number: int) -> None:
    led_store.process.send_signal(number)
    if number == signal.SIGSTOP:
        status = Path(f"/proc/{led_store.process.pid}/status")
        wait_until(lambda: "State:\tT" in status.read_text())
    else:
        led_store.process.wait()
    assert tag(led_store.store) == 0
    assert tags(led_store.store) == {"k"}
    assert posts == []


def test_what_listens_at_the_address_of_a_dead_leader_gets_nothing(
    led_store: Server, posts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running(demo_store(tmp_path_factory.mktemp("other")), *LEASE) as other:
        own = identity.of(os.getpid())  # a process that runs
        holder = lease_of(led_store.store).holder
        assert holder is not None
        led_store.stop()
        with open_store(led_store.store).creating("test", None) as db:
            found = Lease(9, msgspec.structs.replace(holder, processes=(own,)), other.url, led_store.store, 9.0, is_open=True)
            lease.write(db, found)
        assert tag(led_store.store) == 0
        assert tags(led_store.store) == {"k"}
        assert tags(other.store) == set()
        assert posts == []


def test_no_token_goes_to_an_address_that_was_found_in_a_store(led_store: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUXRES_TOKEN", "secret-secret-secret")
    sent: list[dict[str, str]] = []
    original = Connection._once

    def once(self: Connection, at: Any, request: Request) -> Any:
        sent.append({**self._headers, **request.headers})
        return original(self, at, request)

    monkeypatch.setattr(Connection, "_once", once)
    assert tag(led_store.store) == 0
    assert len(sent) == 2
    assert not any("authorization" in headers for headers in sent)


def test_a_command_decides_again_if_the_graph_changed_meanwhile(led_store: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    original, others = led.Through._send, ["other"]

    def send(self: led.Through) -> None:
        if others:
            led_store.connection().post("/v1/graphs/demo/allocate", {"wanted": "/demo/rack0", "job": others.pop()})
        original(self)

    monkeypatch.setattr(led.Through, "_send", send)
    assert run(["--store", led_store.store, "allocate", "-N1", "-x", "--job", "j1"]) == 0
    graph = fluxres.load(f"{led_store.store}?graph=demo")
    assert [pool.path for pool in graph.allocation("j1").pools] == ["/demo/rack1/node0"]


def test_jobs_that_live_by_processes_are_seen_to_by_the_command_itself(led_store: Server, posts: list[str]) -> None:
    assert run(["--store", led_store.store, "run", "-c1", "--", "true"]) == 0
    with fluxres.open(led_store.store, name="demo") as graph:
        mine = Launch(identity.host(), identity.boot(), (identity.of(os.getpid()),), "0" * 24)
        graph.allocate("/demo/rack0/node0/core0", job="alive", launch=mine)
        dead = Launch(identity.host(), identity.boot(), ((os.getpid(), 1),), "1" * 24)
        graph.allocate("/demo/rack1", job="dead", launch=dead)
    assert run(["--store", led_store.store, "allocate", "-N8", "--job", "j1"]) == 0
    assert posts == []
    assert fluxres.load(f"{led_store.store}?graph=demo").jobs() == ["alive", "j1"]


Cut = Callable[[], None]


@pytest.mark.parametrize("is_made", [True, False])
def test_a_change_whose_answer_is_lost_with_the_server_is_made_once(
    led_store: Server, monkeypatch: pytest.MonkeyPatch, is_made: bool
) -> None:
    original = Connection.post

    def post(self: Connection, *given: Any, **more: Any) -> Any:
        if is_made:
            original(self, *given, **more)
        led_store.process.kill()
        led_store.process.wait()
        raise StoreError("the answer is lost")

    monkeypatch.setattr(Connection, "post", post)
    assert run(["--store", led_store.store, "allocate", "-N1", "-x", "--job", "j1"]) == 0
    log = open_store(led_store.store).log("demo")
    assert [entry.event["event"] for entry in log] == ["load", "allocate"]


def test_a_change_that_may_still_be_made_is_not_repeated(
    led_store: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def post(self: Connection, *given: Any, **more: Any) -> Any:
        raise StoreError("no answer within 10 s")

    monkeypatch.setattr(Connection, "post", post)
    assert tag(led_store.store) == 4
    assert "the change may or may not have been made" in capsys.readouterr().err
    assert tags(led_store.store) == set()


def test_a_command_that_always_comes_too_late_goes_to_the_store(led_store: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def post(self: Connection, *given: Any, **more: Any) -> Any:
        raise RevisionConflict("too late")

    monkeypatch.setattr(Connection, "post", post)
    assert tag(led_store.store) == 0
    assert tags(led_store.store) == {"k"}


def test_a_store_without_a_lease_is_used_itself(tmp_path: Path, posts: list[str]) -> None:
    store = demo_store(tmp_path)
    assert tag(store) == 0
    assert posts == []
    assert json.loads(CliRunner().invoke(program, ["--store", store, "info", "--json"]).output)["pools"] == 75

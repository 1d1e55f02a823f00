"""Stores in PostgreSQL: what is peculiar to them, against a real server."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

import fluxres
from fluxres import limits
from fluxres.clock import fixed
from fluxres.errors import InDoubt, StoreUnreachable
from fluxres.store import open_store
from fluxres.store.attached import Attached
from fluxres.store.postgresql import PostgresqlConnection, PostgresqlDatabase
from tests.store.graphs import machine
from tests.store.link import Link
from tests.store.servers import Postgresql
from tests.store.test_attached import until

psycopg = pytest.importorskip("psycopg", reason="PostgreSQL needs the package psycopg")


@pytest.fixture
def url(empty: Callable[[str], str]) -> str:
    made = empty("postgresql")
    open_store(made, clock=fixed(0)).put("demo", machine())
    return made


@pytest.fixture
def link(url: str, postgresql_server: Postgresql) -> Iterator[Link]:
    made = Link(postgresql_server.port)
    yield made
    made.close()


def test_rule_d1_a_commit_without_an_answer_is_in_doubt_and_what_was_not_sent_is_not(
    url: str, link: Link, postgresql_server: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = PostgresqlConnection.execute

    def lose(self: PostgresqlConnection, statement: str, *parameters: Any) -> Any:
        if statement == "COMMIT":
            link.is_deaf = True
            threading.Timer(0.2, link.cut).start()
        return execute(self, statement, *parameters)

    with fluxres.open(url.replace(str(postgresql_server.port), str(link.port)), clock=fixed(0)) as graph:
        graph.allocate("slot/core", job="first")
        with monkeypatch.context() as patched:
            patched.setattr(PostgresqlConnection, "execute", lose)
            with pytest.raises(InDoubt, match="the change may or may not have been made"):
                graph.allocate("slot/core", job="unsure")
        with pytest.raises(StoreUnreachable, match="cannot be reached, or ended the connection"):
            graph.allocate("slot/core", job="none")
        link.heal()
        graph.allocate("slot/core", job="last")
        assert graph.jobs() == open_store(url, clock=fixed(0)).load().jobs() == ["first", "unsure", "last"]


@pytest.mark.parametrize(
    ("option", "expected_ms"), [("", 1000 * limits.POSTGRESQL_DEAD_SECONDS), ("?tcp_user_timeout=5000", 5000)]
)
def test_a_connection_to_a_server_that_is_cut_off_ends(url: str, option: str, expected_ms: int) -> None:
    database = open_store(url + option).database
    assert isinstance(database, PostgresqlDatabase)
    with closing(database._connect()) as db, socket.socket(fileno=os.dup(db.db.pgconn.socket)) as connected:
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == expected_ms
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == limits.POSTGRESQL_DEAD_SECONDS // 4


def test_the_graphs_of_a_process_share_a_few_connections(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POSTGRESQL_CONNECTIONS_MAX", 2)
    store, most = open_store(url, clock=fixed(0)), 0
    names = ["demo", *(f"g{number}" for number in range(5))]
    for name in names[1:]:
        store.put(name, machine())
    graphs = [Attached(store, name, "full", "test", 30.0, fixed(0)).graph for name in names]

    def change(graph: fluxres.ResourceGraph) -> None:
        for number in range(20):
            graph.allocate("slot/core", job=f"j{number}")
            graph.refresh()
            graph.free(f"j{number}")
        graph.allocate("slot/core", job="last")

    threads = [threading.Thread(target=change, args=(graph,)) for graph in graphs]
    with psycopg.connect(url, autocommit=True) as db:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            most = max(most, _connections(db))
        assert 2 <= most <= 2 * limits.POSTGRESQL_CONNECTIONS_MAX
        assert [store.load(name).jobs() for name in names] == [["last"]] * len(names)
        for graph in graphs:
            graph.close()
        until(lambda: _connections(db) == 0)


def _connections(db: Any) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'fluxres %'"
    return int(db.execute(query).fetchone()[0])

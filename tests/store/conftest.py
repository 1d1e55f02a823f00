"""Stores of each kind: an SQLite file, and servers that the tests start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from fluxres.clock import fixed
from fluxres.store import Store, open_store
from tests.store.servers import Etcd, Postgresql, etcd, postgresql

KINDS = ("sqlite", "postgresql", "etcd")
_PREFIXES = count()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Postgresql]:
    with postgresql() as running:
        yield running


@pytest.fixture(scope="session")
def etcd_server() -> Iterator[Etcd]:
    with etcd() as running:
        yield running


@pytest.fixture
def empty(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Gives the address of an empty store of a kind."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def make(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite://{tmp_path}/site.db"
        if kind == "etcd":
            return str(request.getfixturevalue("etcd_server").url(f"t{next(_PREFIXES)}"))
        import psycopg

        running = request.getfixturevalue("postgresql_server")
        with psycopg.connect(running.url, autocommit=True) as db:
            db.execute("DROP SCHEMA IF EXISTS fluxres CASCADE")
        return str(running.url)

    return make


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, empty: Callable[[str], str]) -> str:
    """The address of an empty store."""
    return empty(request.param)


@pytest.fixture
def store(url: str) -> Store:
    return open_store(url, clock=fixed(0))

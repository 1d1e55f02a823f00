"""`Store.undo`: the state before the last change, put back as a new change."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from fluxres import limits
from fluxres.errors import FluxresError, StoreError, UnknownGraph, UsageError
from fluxres.model import ResourceGraph
from fluxres.store import Store, files, open_store, writing
from tests.store.graphs import change, facts, machine


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "site.db"), clock=lambda: 100.0)


def sql(store: Store, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(store.path)) as db, db:
        return db.execute(statement).fetchall()


def put(store: Store) -> None:
    graph = machine()
    graph.allocate("/demo/rack0/node0", job="j1", start=0, end=900)
    graph.allocate("/demo/rack1/node3/core[0-1]", job="j2", start=0, end=900)
    store.put("demo", graph)


CHANGES: dict[str, Callable[[ResourceGraph], object]] = {
    "allocate": lambda g: g.allocate("/demo/rack1/node4", job="j3", end=900),
    "free": lambda g: g.free("j1"),
    "grow": lambda g: g.grow("j1", "/demo/rack0/node1"),
    "shrink": lambda g: g.shrink("j2", "/demo/rack1/node3/core0"),
    "extend": lambda g: g.set_end("j1", 1000),
    "state": lambda g: g.set_state("/demo/rack0", "drain"),
    "tag": lambda g: g.tag("/demo/rack0", "owner", "ops"),
    "stage": lambda g: g.stage([("/demo/rack1/node4", 1)], job="j3"),
    "expire": lambda g: g.expire(900),
    "unlink": lambda g: g.unlink("/demo/rack0/node1"),
    "move": lambda g: g.move("/demo/rack0/node1", "/demo/rack1"),
    "merge": lambda g: g.merge(machine(1, 1, origin=9), "/demo/other"),
    "add_edge": lambda g: g.add_edge("/demo/rack0", "/demo/rack1", "net", hierarchy=False),
    "apply": lambda g: g.apply(machine(3, 3, origin=9)),
    "several": lambda g: (g.free("j1"), g.unlink("/demo/rack0"), g.tag("/demo/rack1", "last")),
    "large": lambda g: g.tag(g.find("type=core").vertices.tolist() * 20, "owner", "ops"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_can_be_undone_and_redone(store: Store, name: str) -> None:
    put(store)
    with store.writing(command="before") as tx:
        tx.graph.tag("/demo", "seen")
    before = facts(store.load())
    with store.writing(command=f"fluxres {name}") as tx:
        CHANGES[name](tx.graph)
        events = len(tx.events)
    after = facts(store.load())
    assert after != before
    undone = store.undo(command="fluxres undo")
    assert facts(store.load()) == before
    assert {entry.command for entry in undone} == {f"fluxres {name}"}
    assert len(undone) == events
    last = store.log()[-1]
    assert (last.command, last.event) == (
        "fluxres undo",
        {"event": "undo", "first": undone[0].seq, "last": undone[-1].seq, "undone": f"fluxres {name}"},
    )
    with pytest.raises(UsageError, match="was itself an undo"):
        store.undo()
    store.undo(redo=True)
    assert facts(store.load()) == after
    with pytest.raises(UsageError, match="was not an undo"):
        store.undo(redo=True)
    store.undo()
    assert facts(store.load()) == before
    assert store.load().check() == []


@pytest.mark.parametrize("weight", [0, 3, 256])
def test_the_last_of_many_changes_is_undone(store: Store, weight: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "WEIGHT_MAX", weight)
    random = Random(weight)
    store.put("demo", machine(4, 8))
    for number in range(60):
        before = facts(store.load())
        with store.writing() as tx:
            tx.graph.tag(0, "number", str(number))
            if random.random() < 0.2:
                with suppress(FluxresError):
                    tx.graph.unlink(random.randrange(1, len(tx.graph)))
            for _ in range(random.randrange(6)):
                change(tx.graph, random)
        if random.random() < 0.5:
            store.undo()
            assert facts(store.load()) == before
    assert store.load().check() == []


def test_a_graph_that_was_replaced_comes_back(store: Store) -> None:
    put(store)
    before = facts(store.load())
    store.put("demo", machine(1, 1), replace=True, command="fluxres load other.yaml --replace")
    assert [entry.event["replaced"] for entry in store.undo()] == ["39 pools and the allocations of 2 jobs"]
    assert facts(store.load()) == before


def test_stages_never_share_an_id(store: Store) -> None:
    put(store)
    with store.writing() as tx:
        first = tx.graph.stage([("/demo/rack1/node4", 1)], job="j3").stage
    store.undo()
    with store.writing() as tx:
        assert tx.graph.stage([("/demo/rack1/node4", 1)], job="j3").stage != first


def test_what_cannot_be_undone_is_refused_with_the_reason(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownGraph):
        store.undo()
    put(store)
    with pytest.raises(UsageError, match=r"loading it was the only change so far \(`fluxres graphs drop demo`"):
        store.undo()
    monkeypatch.setattr(limits, "UNDO_BYTES_MAX", 100)
    with store.writing() as tx:
        tx.graph.tag("/demo", "small")
    store.undo()  # needs no more than the journal
    with store.writing() as tx:
        tx.graph.unlink("/demo/rack0/node1")
    state = facts(store.load())
    with pytest.raises(UsageError, match=r"the state before the last change was not kept .* of up to 0 MiB"):
        store.undo()
    assert facts(store.load()) == state


def test_events_that_the_journal_dropped_cannot_be_undone(store: Store) -> None:
    put(store)
    with store.writing() as tx:
        tx.graph.tag("/demo", "a")
    with store.writing() as tx:
        tx.graph.tag("/demo", "b")
    sql(store, "DELETE FROM events WHERE seq = 2")
    with pytest.raises(StoreError):
        store.load()
    sql(store, "UPDATE previous SET snapshot_seq = 0, before = 1")
    with pytest.raises((StoreError, UsageError)):
        store.undo()


def test_a_damaged_previous_version_is_an_error(store: Store) -> None:
    put(store)
    with store.writing() as tx:
        tx.graph.unlink("/demo/rack0/node1")
    for column, value in (("shape", "zeroblob(40)"), ("marks", "'text'"), ("before", "'x'")):
        sql(store, f"UPDATE previous SET {column} = {value}")
        with pytest.raises(StoreError):
            store.undo()


def test_a_store_of_version_2_is_read_and_upgraded_by_a_write(store: Store) -> None:
    put(store)
    sql(store, "DROP TABLE previous")
    sql(store, "DROP TABLE tickets")
    sql(store, "PRAGMA user_version = 2")
    assert store.tickets() == []
    assert store.load().jobs() == ["j1", "j2"]
    with pytest.raises(UsageError, match="only change"):
        store.undo()
    with store.writing() as tx:
        tx.graph.free("j1")
    store.undo()
    assert store.load().jobs() == ["j1", "j2"]
    assert sql(store, "PRAGMA user_version") == [(3,)]


def test_one_version_is_kept_and_dropped_with_its_graph(store: Store) -> None:
    put(store)
    for name in ("node1", "node2"):
        with store.writing() as tx:
            tx.graph.unlink(f"/demo/rack0/{name}")
    assert sql(store, "SELECT count(*) FROM previous") == [(1,)]
    store.drop("demo", force=True)
    assert sql(store, "SELECT count(*) FROM previous") == [(0,)]


def test_of_two_who_undo_at_once_one_is_refused(store: Store) -> None:
    put(store)
    with store.writing() as tx:
        tx.graph.free("j1")
    done: list[str] = []

    def undo() -> None:
        try:
            open_store(str(store.path)).undo()
            done.append("undone")
        except UsageError as error:
            done.append(error.message)

    threads = [Thread(target=undo) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == ["the last change was itself an undo", "undone"]
    assert store.load().jobs() == ["j1", "j2"]


def test_changes_are_saved_after_an_undo_and_an_apply(store: Store, tmp_path: Path) -> None:
    put(store)
    files.save_stored(store, None, tmp_path / "base.yaml")
    with store.writing() as tx:
        tx.graph.apply(machine(3, 3, origin=9))
    store.undo()
    with store.writing() as tx:
        tx.graph.apply(machine(4, 3, origin=9))
    report = files.save_stored(store, None, tmp_path / "changes.json", changed_only=True)
    assert report.events == 3
    again = files.load(tmp_path / "base.yaml", changes=[tmp_path / "changes.json"])
    assert [len(again), sorted(again.jobs())] == [len(store.load()), ["j1", "j2"]]

"""What every store does, on each kind of store (`url` in conftest.py)."""

from __future__ import annotations

import threading
from random import Random

import pytest

import fluxres
from fluxres.allocation.facts import Launch
from fluxres.cli.program import run
from fluxres.clock import fixed
from fluxres.errors import InsufficientResources, StillHeld, StoreBusy, StoreConflict, StoreError, UnknownGraph, UsageError
from fluxres.store import Store, Ticket, open_store
from fluxres.store.rows import Saved
from tests.store.graphs import change, fingerprint, machine
from tests.store.servers import Postgresql, Server


def test_an_empty_store_has_no_graphs(store: Store) -> None:
    assert (store.names(), store.default) == ([], None)
    for call in (store.load, store.log, store.undo, lambda: fluxres.open(store.url)):
        with pytest.raises(UnknownGraph, match="no graphs"):
            call()


def test_graphs_are_kept_chosen_and_dropped(store: Store) -> None:
    first, second = machine(), machine(1, 2)
    store.put("first", first)
    store.put("second", second)
    assert (store.names(), store.default) == (["first", "second"], "first")
    store.use("second")
    assert fingerprint(store.load()) == fingerprint(second)
    assert fingerprint(store.load("first")) == fingerprint(first)
    with pytest.raises(UsageError, match="already exists, with 39 pools"):
        store.put("first", second)
    store.put("first", second, replace=True)
    assert [entry.event["event"] for entry in store.log("first")] == ["load", "load"]
    store.drop("second")
    assert store.names() == ["first"]
    with pytest.raises(UnknownGraph, match="choose from first"):
        store.load("second")


@pytest.mark.parametrize("weight", [0, 12, 256])
def test_rule_d1_changes_are_there_when_the_block_ends(store: Store, weight: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fluxres.store.writing.WEIGHT_MAX", weight)
    store.put("demo", machine())
    random = Random(5)
    for turn in range(12):
        with store.writing(command=f"turn {turn}") as transaction:
            for _ in range(3):
                change(transaction.graph, random)
            told = fingerprint(transaction.graph)
        assert fingerprint(store.open()[0]) == told
    assert store.load().check() == []


def test_rule_d1_an_exception_discards_all_changes(store: Store) -> None:
    store.put("demo", machine())

    def fail() -> None:
        with store.writing() as transaction:
            transaction.graph.allocate("slot/core", job="j1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.load().jobs() == []
    assert len(store.log()) == 1


def test_the_log_can_be_filtered(store: Store) -> None:
    store.put("demo", machine())
    for job in ("j1", "j2"):
        with store.writing(command=f"allocate {job} Größe") as transaction:
            transaction.graph.allocate("/demo/rack0/node0/core0" if job == "j1" else "/demo/rack1", job=job)
    assert [entry.seq for entry in store.log(after=1)] == [2, 3]
    assert [entry.command for entry in store.log(job="j2")] == ["allocate j2 Größe"]
    assert [entry.seq for entry in store.log(path="/demo/rack0")] == [2]
    assert [entry.seq for entry in store.log(limit=1)] == [3]


def test_the_log_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fluxres.store.writing.WEIGHT_MAX", 0)
    monkeypatch.setattr("fluxres.limits.LOG_EVENTS_MAX", 5)
    store.put("demo", machine())
    for number in range(9):
        with store.writing() as transaction:
            transaction.graph.tag("/demo", f"k{number}")
    assert [entry.seq for entry in store.log()] == [6, 7, 8, 9, 10]
    monkeypatch.setattr("fluxres.limits.LOG_BYTES_MAX", 150)
    with store.writing() as transaction:
        transaction.graph.tag("/demo", "last")
    assert 0 < len(store.log()) < 4


def test_undo_puts_the_state_before_the_last_change_back(store: Store) -> None:
    store.put("demo", machine())
    states = [fingerprint(store.load())]
    with store.writing() as transaction:
        transaction.graph.allocate("slot/core", job="j1")
    states.append(fingerprint(store.load()))
    with store.writing() as transaction:
        transaction.graph.unlink("/demo/rack1")
    store.undo()
    assert fingerprint(store.load()) == states[1]
    store.undo(redo=True)
    assert len(store.load().find("type=rack")) == 1


def test_changes_are_appended_only_to_the_state_that_they_follow(url: str, store: Store) -> None:
    store.put("demo", machine())
    first, second = fluxres.load(f"{url}?graph=demo"), fluxres.load(f"{url}?graph=demo")
    first.allocate("slot/core", job="j1")
    assert fluxres.save(first, url, changed_only=True).events == 1
    second.allocate("slot/core", job="j2")
    with pytest.raises(StoreConflict):
        fluxres.save(second, url, changed_only=True)
    first.free("j1")
    assert fluxres.save(first, url, changed_only=True).events == 1
    assert store.load().jobs() == []


def test_it_remembers_where_a_graph_was_saved(store: Store) -> None:
    position = store.put("demo", machine())
    places = [Saved("file", 1, "abc")]
    store.remember("demo", position.uid, places)
    assert store.saved("demo")[2] == places


@pytest.mark.parametrize("key", ["k é/ü", "answer:7"])
def test_notes_are_kept(store: Store, key: str) -> None:
    store.put("demo", machine())
    with store.creating("test", 0) as db:
        db.put_note(key, "first")
        assert (db.note(key), db.notes()[key]) == ("first", "first")
    with store.creating("test", 0) as db:
        db.remove_note(key)
        assert (db.note(key), key in db.notes()) == (None, False)
        db.put_note(key, "second é")
    with store.reading(None) as rows:
        assert (rows.db.note(key), rows.db.notes()[key]) == ("second é", "second é")
    with store.creating("test", 0) as db:
        db.remove_note(key)
    with store.reading(None) as rows:
        assert (rows.db.note(key), key in rows.db.notes()) == (None, False)


def test_tickets_wait_by_priority_and_number(store: Store) -> None:
    store.put("demo", machine())
    launch = Launch("host", "boot", ((1, 2),), "mark", ("true",), None)
    with store.writing() as transaction:
        assert [transaction.tickets.next_job() for _ in range(2)] == ["r1", "r2"]
        made = [transaction.tickets.add(Ticket(f"j{i}", "ada", i % 2, 0.0, launch)) for i in range(4)]
    assert [ticket.job for ticket in store.tickets()] == ["j1", "j3", "j0", "j2"]
    with store.writing() as transaction:
        transaction.tickets.remove(made[1])
        assert transaction.tickets.next_job() == "r3"
    assert [ticket.job for ticket in store.tickets()] == ["j3", "j0", "j2"]


def test_one_writer_at_a_time_and_the_others_learn_which(url: str, store: Store) -> None:
    store.put("demo", machine())
    told = []
    other = open_store(url, notify=told.append)
    with store.writing(command="fluxres allocate /demo") as transaction:
        transaction.graph.allocate("slot/core", job="j1")
        assert other.load().jobs() == []
        with pytest.raises(StoreBusy, match="fluxres allocate /demo"):
            other.drop("demo", wait_s=0)
        with pytest.raises(StoreBusy):
            other.drop("demo", wait_s=0.7)
    assert [holder.command for holder in told] == ["fluxres allocate /demo"]
    assert other.load().jobs() == ["j1"]


# -- attached graphs -----------------------------------------------------------------------------------------------------


def test_rule_d1_an_attached_graph_stores_each_change(url: str, store: Store) -> None:
    store.put("demo", machine())
    random = Random(9)
    with fluxres.open(url, clock=fixed(0)) as graph, fluxres.open(url, clock=fixed(0), durability="normal") as other:
        for _ in range(40):
            one = random.choice((graph, other))
            change(one, random)
            one.refresh()  # not every one of these changes is one
            assert fingerprint(one) == fingerprint(store.open()[0])
        for job in graph.jobs():
            graph.free(job)
        graph.unlink("/demo/rack1")
        other.refresh()
        assert fingerprint(other) == fingerprint(graph)
        assert graph.check() == []


def test_rule_d1_a_batch_is_there_or_not(url: str, store: Store) -> None:
    store.put("demo", machine())
    with fluxres.open(url, clock=fixed(0)) as graph:
        with graph.batch(command="both", user="ada"):
            graph.allocate("slot/core", job="j1")
            graph.allocate("slot/core", job="j2")
            assert store.load().jobs() == []
        assert store.load().jobs() == ["j1", "j2"]

        def fail() -> None:
            with graph.batch():
                graph.free("j1")
                graph.allocate("slot=6/node", job="j3")

        with pytest.raises(InsufficientResources):
            fail()
        assert graph.jobs() == store.load().jobs() == ["j1", "j2"]
    assert {(entry.command, entry.user) for entry in store.log(after=1)} == {("both", "ada")}


def test_rule_a2_threads_and_connections_never_allocate_the_same_units(url: str, store: Store) -> None:
    store.put("demo", machine())
    failures = []

    def take(graph: fluxres.ResourceGraph, number: int) -> None:
        try:
            for turn in range(3):
                graph.allocate("slot/core", job=f"t{number}-{turn}")
        except fluxres.FluxresError as error:
            failures.append(error)

    with fluxres.open(url) as graph, fluxres.open(url) as other:
        threads = [threading.Thread(target=take, args=((graph, other)[i % 2], i)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        graph.refresh()
        assert failures == []
        assert len(graph.jobs()) == 24
        assert fingerprint(graph) == fingerprint(store.open()[0])
        assert graph.check() == []


# -- a server ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["postgresql", "etcd"])
def test_a_server_that_restarts_loses_nothing_and_is_found_again(kind: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(f"{kind}_server")
    store = open_store(server.store_url, clock=fixed(0))
    store.put("restarted", machine(), replace=True, use=True)
    with fluxres.open(server.store_url, name="restarted", clock=fixed(0)) as graph:
        graph.allocate("slot/core", job="j1")
        server.kill()
        for _ in range(2):
            with pytest.raises(StoreError, match="cannot be reached"):
                graph.allocate("slot/core", job="j2")
        with pytest.raises(StoreError, match="cannot be reached"):
            store.load("restarted")
        server.start()
        assert any(_changed(graph, f"k{i}") for i in range(3))
        assert fingerprint(graph) == fingerprint(store.open("restarted")[0])
        assert graph.jobs() == ["j1"]


@pytest.mark.parametrize("kind", ["postgresql", "etcd"])
def test_a_server_that_restarted_between_two_changes_is_not_noticed(kind: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(f"{kind}_server")
    store = open_store(server.store_url, clock=fixed(0))
    store.put("unnoticed", machine(), replace=True, use=True)
    with fluxres.open(server.store_url, name="unnoticed", clock=fixed(0)) as graph:
        for number in range(2):
            graph.allocate("slot/core", job=f"j{number}")
            server.kill()
            server.start()
        graph.refresh()
        graph.free("j0")
        assert fingerprint(graph) == fingerprint(store.open("unnoticed")[0])
        assert graph.jobs() == ["j1"]


def _changed(graph: fluxres.ResourceGraph, key: str) -> bool:
    """Whether a change was made; the first one may learn that its connection is gone."""
    try:
        graph.tag("/demo", key)
    except StoreError:
        return False
    return True


@pytest.mark.parametrize("address", ["ada:secret@127.0.0.1:1/none", "ada@127.0.0.1:1/none?password=secret"])
def test_a_password_is_in_no_message(address: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(f"postgresql://{address}").names()
    assert "secret" not in str(caught.value)
    assert "ada@127.0.0.1" in caught.value.where


def test_a_password_is_not_in_the_journal(postgresql_server: Postgresql) -> None:
    store = open_store(postgresql_server.store_url)
    store.put("secrets", machine(), replace=True)
    address = postgresql_server.store_url.replace("fluxres@", "fluxres:secret@")
    assert run(["--store", f"{address}?password=secret", "--graph", "secrets", "tag", "/demo", "mine"]) == 0
    command = store.log("secrets")[-1].command
    assert command.startswith("fluxres --store 'postgresql://fluxres@127.0.0.1:")
    assert command.endswith("?password=…' --graph secrets tag /demo mine")


def test_a_graph_with_jobs_is_dropped_by_force_only(store: Store) -> None:
    store.put("demo", machine())
    with store.writing("demo") as transaction:
        transaction.graph.allocate("slot/node", job="a", start=5000, duration_s=60)
    said = r"graph 'demo': it has 1 job that holds some of it \(a\) \(`fluxres graphs drop demo --force`"
    with pytest.raises(StillHeld, match=said) as refused:
        store.drop("demo")
    assert refused.value.jobs == ("a",)
    with pytest.raises(UsageError, match="force: expected True or False, got 'yes'"):
        store.drop("demo", force="yes")  # type: ignore[arg-type]  # what is tested
    assert store.names() == ["demo"]
    assert store.drop("demo", force=True) == ["1 job that holds some of it (a)"]
    assert store.names() == []


def test_a_graph_whose_jobs_have_ended_is_dropped(store: Store) -> None:
    store.put("demo", machine())
    with store.writing("demo") as transaction:
        transaction.graph.allocate("slot/node", job="a", start=0, end=1)
    open_store(store.url, clock=fixed(2)).drop("demo")
    assert store.names() == []

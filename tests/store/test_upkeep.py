"""What the operator of a store does with all of it, on each kind of store; and damaged stores."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

import fluxres
from fluxres.cli.program import program
from fluxres.clock import fixed
from fluxres.errors import FluxresError, InputError, StoreError, UnknownGraph, UsageError
from fluxres.store import Entry, Store, open_store, upkeep
from tests.ports import free_port
from tests.store.conftest import KINDS
from tests.store.graphs import change, facts, fingerprint, machine
from tests.store.servers import Postgresql


def populate(store: Store, turns: int = 12) -> None:
    """Two graphs: one with a history, and with a snapshot that is not of its last event; one with a new shape."""
    random = Random(3)
    store.put("demo", machine())
    for turn in range(turns):
        with store.writing("demo", command=f"turn {turn}") as transaction:
            change(transaction.graph, random)
            transaction.graph.tag("/demo", f"turn{turn}")
    store.put("other", machine(1, 2), use=True)
    with store.writing("other", command="cut") as transaction:
        transaction.graph.allocate("/demo/rack0/node0", job="kept")
        transaction.graph.unlink("/demo/rack0/node1")


def everything(store: Store) -> list[tuple[str, int, object, list[Entry]]]:
    return [(row.name, row.seq, fingerprint(store.open(row.name)[0]), store.log(row.name)) for row in store.graphs()]


def test_a_sound_store_has_no_problems(store: Store) -> None:
    with pytest.raises(UnknownGraph, match="no graphs"):
        upkeep.check(store)
    populate(store)
    assert upkeep.check(store) == (["demo", "other"], [])


def test_a_store_is_not_replaced_by_its_own_dump_or_backup(tmp_path: Path) -> None:
    store = open_store(f"sqlite://{tmp_path}/site.db", clock=fixed(0))
    populate(store)
    (tmp_path / "link").symlink_to(tmp_path)
    for write in (upkeep.dump_to, upkeep.back_up):
        for name in ("site.db", "site.db-wal", "link/site.db"):
            with pytest.raises(UsageError, match=rf"{name}: is the store itself \(name another file"):
                write(store, tmp_path / name, replace=True)
        with pytest.raises(UsageError, match="is a directory"):
            write(store, tmp_path, replace=True)
        with pytest.raises(StoreError, match=f"^{tmp_path}/nowhere: there is no such directory"):
            write(store, tmp_path / "nowhere" / "b.db")
    assert upkeep.check(store) == (["demo", "other"], [])


@pytest.mark.parametrize("there", KINDS)
def test_rule_s1_a_dump_restores_a_store_of_any_kind(
    url: str, store: Store, there: str, empty: Callable[[str], str], tmp_path: Path
) -> None:
    populate(store)
    before, path = everything(store), tmp_path / "site.jsonl"
    assert upkeep.dump_to(store, path) == (2, sum(len(log) for *_, log in before))
    with pytest.raises(UsageError, match="exists already"):
        upkeep.dump_to(store, path)
    restored = open_store(empty(there) if not url.startswith(there) else f"sqlite://{tmp_path}/again.db", clock=fixed(0))
    upkeep.restore(restored, path)
    assert everything(restored) == before
    assert restored.default == "other"
    assert upkeep.check(restored)[1] == []
    undone = store.undo("other"), restored.undo("other")
    assert undone[0] == undone[1]
    assert fingerprint(restored.load("other")) == fingerprint(store.load("other"))
    assert restored.undo("demo")[0].command == "turn 11"


def test_restoring_replaces_only_what_may_be_replaced(url: str, store: Store, tmp_path: Path) -> None:
    populate(store)
    path = tmp_path / "site.jsonl"
    upkeep.dump_to(store, path)
    before = everything(store)
    with fluxres.open(url, name="demo", clock=fixed(0)) as graph:
        graph.tag("/demo", "later")
        changed = everything(store)
        with pytest.raises(UsageError, match="not empty: it has demo, other"):
            upkeep.restore(store, path)
        assert everything(store) == changed
        upkeep.restore(store, path, replace=True)
        assert everything(store) == before
        with pytest.raises(StoreError, match="dropped and created again"):
            graph.tag("/demo", "lost")
    assert everything(store) == before


@pytest.mark.parametrize("damage", ["cut", "line", "digit", "end", "header", "other"])
def test_a_damaged_dump_is_not_restored(store: Store, tmp_path: Path, damage: str) -> None:
    populate(store, 3)
    path = tmp_path / "site.jsonl"
    upkeep.dump_to(store, path)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = {
        "cut": lines[:-2],
        "line": [*lines[:3], *lines[4:]],
        "digit": [line.replace(b'"turn 1"', b'"turn 2"') for line in lines],
        "end": [*lines[:-1], lines[-1][:20]],
        "header": [lines[0].replace(b'"version":1', b'"version":9'), *lines[1:]],
        "other": [b"name: demo\n"],
    }[damage]
    path.write_bytes(b"".join(changed))
    empty = open_store(f"sqlite://{tmp_path}/empty.db")
    with pytest.raises(InputError):
        upkeep.restore(empty, path)
    assert empty.names() == []


def test_compacting_keeps_the_graphs_and_undo(store: Store) -> None:
    populate(store, 40)
    with store.writing("demo", command="last") as transaction:
        transaction.graph.tag("/demo", "last")
    before = [row[:3] for row in everything(store)]
    sizes = upkeep.compact(store, keep=5)
    assert sizes[0].events > sizes[1].events
    assert [row[:3] for row in everything(store)] == before
    assert upkeep.check(store)[1] == []
    assert store.graphs()[0].weight == 0
    assert [entry.command for entry in store.undo("demo")] == ["last"]
    assert "last" not in store.load("demo").pool("/demo").tags
    again = upkeep.compact(store)
    assert again[0].events == again[1].events


def test_compacting_beside_an_attached_graph(url: str, store: Store) -> None:
    store.put("demo", machine())
    with fluxres.open(url, name="demo", clock=fixed(0)) as graph:
        for turn in range(3):
            graph.allocate("slot/core", job=f"j{turn}")
            upkeep.compact(store, keep=1)
            graph.allocate("slot/core", job=f"k{turn}")
            assert upkeep.check(store)[1] == []
            assert facts(store.load("demo")) == facts(graph)
        store.undo("demo")
        graph.refresh()
        assert "k2" not in graph.jobs()
        assert facts(store.load("demo")) == facts(graph)


def test_a_backup_is_of_one_moment_while_others_write(url: str, store: Store, tmp_path: Path) -> None:
    populate(store, 2)
    is_over = threading.Event()

    def write() -> None:
        with fluxres.open(url, name="demo", clock=fixed(0)) as graph:
            while not is_over.is_set():
                with graph.batch():
                    graph.tag("/demo/rack0", "a")
                    graph.tag("/demo/rack1", "a")
                    graph.untag("/demo/rack0", "a")
                    graph.untag("/demo/rack1", "a")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(4):
            path = tmp_path / f"backup{number}.db"
            assert upkeep.back_up(store, path) == path.stat().st_size
            copy = open_store(str(path), clock=fixed(0))
            assert upkeep.check(copy) == (["demo", "other"], [])
            assert not copy.load("demo").find("tag=a").paths()
    finally:
        is_over.set()
        writer.join()
    with pytest.raises(UsageError, match="exists already"):
        upkeep.back_up(store, path)
    upkeep.back_up(store, path, replace=True)
    assert everything(open_store(str(path), clock=fixed(0))) == everything(store)


def test_the_commands_work_on_each_kind_of_store(url: str, store: Store, tmp_path: Path) -> None:
    populate(store)
    before = everything(store)

    def said(*arguments: str) -> str:
        result = CliRunner().invoke(program, ["--store", url, "store", *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    assert "2 graphs, no problems" in said("check")
    assert "backup.db" in said("backup", str(tmp_path / "backup.db"))
    assert "2 graphs" in said("dump", str(tmp_path / "dump.jsonl"))
    assert "already" in said("migrate")
    assert "->" in said("compact", "--keep", "0")
    assert everything(store) != before
    assert "2 graphs" in said("restore", str(tmp_path / "dump.jsonl"), "--replace")
    assert everything(store) == before
    assert "no problems" in said("check")


def test_rule_s1_a_dump_and_a_backup_have_the_instances(url: str, store: Store, tmp_path: Path) -> None:
    def said(*arguments: str, at: str = url) -> str:
        result = CliRunner().invoke(program, ["--store", at, *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    store.put("demo", machine())
    said("instance", "create", "main", "-Q", "fairshare")
    for name in ("first", "second"):
        said("instance", "submit", "slot=1/rack", "--duration", "1d", "--name", name)
    said("instance", "submit", "slot=1/rack", "--name", "third", "--urgency", "0")
    before = said("instance", "queue", "--json")
    dump, backup, again = (str(tmp_path / name) for name in ("dump.jsonl", "backup.db", "again.db"))
    said("store", "dump", dump)
    said("store", "backup", backup)
    said("store", "restore", dump, at=again)
    assert [said("instance", "queue", "--json", at=at) for at in (backup, again)] == [before, before]
    said("store", "restore", dump, "--replace")  # the graph gets another uid
    assert said("instance", "queue", "--json") == before
    said("instance", "submit", "slot=1/core", "--name", "fourth")
    assert "no problems" in said("store", "check")


def test_a_store_of_an_earlier_version_is_migrated(tmp_path: Path) -> None:
    store = open_store(f"sqlite://{tmp_path}/site.db", clock=fixed(0))
    store.put("demo", machine())
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("DROP TABLE previous")
        db.execute("DROP TABLE tickets")
        db.execute("PRAGMA user_version = 2")
    assert upkeep.check(store)[1] == []
    assert upkeep.migrate(store) == (2, 3)
    assert upkeep.migrate(store) == (3, 3)
    assert upkeep.check(store)[1] == []
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("PRAGMA user_version = 9")
    with pytest.raises(StoreError, match="has version 9, but this fluxres supports only versions 2 to 3"):
        upkeep.migrate(store)


# -- damage --------------------------------------------------------------------------------------------------------------


DAMAGES = {
    "DELETE FROM events WHERE graph = 1 AND seq = 4": "event 4 is missing",
    "DELETE FROM events WHERE graph = 1 AND seq IN (4, 5)": "events 4 to 5 are missing",
    "DELETE FROM events WHERE graph = 1 AND seq = (SELECT seq FROM graphs WHERE id = 1)": "is missing",
    "UPDATE events SET body = replace(body, 'turn1', 'turn9') WHERE graph = 1": "checksum of event",
    "UPDATE events SET time = 'soon' WHERE graph = 1 AND seq = 3": "checksum of event 3",
    "DELETE FROM snapshots WHERE graph = 1": "no row in snapshots",
    "DELETE FROM shapes WHERE graph = 2": "no row in shapes",
    "UPDATE shapes SET blob = substr(blob, 1, 40)": "snapshot",
    "UPDATE snapshots SET blob = x'00'": "snapshot",
    "UPDATE graphs SET seq = 900 WHERE id = 1": "is missing",
    "UPDATE graphs SET pools = 5 WHERE id = 1": "has 39 pools, but its row says 5",
    "UPDATE graphs SET uid = x'07' WHERE id = 1": "list of graphs",
    "UPDATE previous SET marks = x'0102', shape = x'01'": "graph 'other' cannot be read",
    "UPDATE previous SET before = 'x'": "previous version",
    "UPDATE meta SET value = 'nobody' WHERE key = 'default'": "'nobody', does not exist",
    "INSERT INTO meta VALUES ('saved:' || (SELECT uid FROM graphs LIMIT 1), '{')": "where it was saved to",
    "INSERT INTO tickets VALUES (1, 1, 'j', 0, x'00')": "unreadable ticket",
    "DELETE FROM graphs WHERE id = 2": "is of no graph",
}


@pytest.mark.parametrize(("statement", "said"), DAMAGES.items())
def test_damage_is_found_and_named(tmp_path: Path, statement: str, said: str) -> None:
    store = open_store(f"sqlite://{tmp_path}/site.db", clock=fixed(0))
    populate(store)
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute(statement)
    result = CliRunner().invoke(program, ["--store", store.url, "store", "check"])
    assert result.exit_code == 4
    assert said in result.stdout
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_double_holdings_are_found(tmp_path: Path) -> None:
    """Two jobs hold one core (rule A2): the events are sound, what they say is not."""
    from fluxres.store import journal

    store = open_store(f"sqlite://{tmp_path}/site.db", clock=fixed(0))
    store.put("demo", machine())
    with store.writing() as transaction:
        transaction.graph.allocate("/demo/rack0/node0/core0", job="j1")
    with closing(sqlite3.connect(store.path)) as db, db:
        (body,) = db.execute("SELECT body FROM events WHERE seq = 2").fetchone()
        body = body.replace(b'"j1"', b'"j2"')
        db.execute("INSERT INTO events VALUES (1, 3, 0.0, '', ?, ?)", (body, journal.checksum(3, body)))
        db.execute("UPDATE graphs SET seq = 3")
    problems = upkeep.check(store)[1]
    assert any("event 3" in problem.message and "core0" in problem.message for problem in problems)


@pytest.mark.parametrize("seed", range(6))
def test_rule_e1_a_damaged_file_never_ends_in_a_traceback(tmp_path: Path, seed: int) -> None:
    store = open_store(f"sqlite://{tmp_path}/site.db", clock=fixed(0))
    populate(store, 4)
    whole, random = store.path.read_bytes(), Random(seed)
    found = 0
    for _ in range(25):
        damaged = bytearray(whole[: random.randrange(len(whole))] if random.random() < 0.3 else whole)
        for _ in range(random.randrange(1, 4) if damaged else 0):
            damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
        for suffix in ("-wal", "-shm"):
            store.path.with_name(store.path.name + suffix).unlink(missing_ok=True)
        store.path.write_bytes(damaged)
        for act in (
            lambda: upkeep.check(store)[1],
            lambda: upkeep.dump_to(store, tmp_path / "d", replace=True),
            lambda: upkeep.back_up(store, tmp_path / "b", replace=True),
            lambda: upkeep.compact(store),
            lambda: upkeep.migrate(store),
        ):
            try:
                found += bool(act())
            except FluxresError:
                found += 1
    assert found


def test_a_server_that_does_not_answer_is_one_problem() -> None:
    (problem,) = upkeep.check(open_store(f"etcd://127.0.0.1:{free_port()}/site"))[1]
    assert "cannot be reached" in problem.message


def test_a_database_that_is_not_there(postgresql_server: Postgresql) -> None:
    store = open_store(urlsplit(postgresql_server.url)._replace(path="/nowhere").geturl())
    with pytest.raises(StoreError, match=r"refuses the connection: .*\"nowhere\" does not exist \(check the user.*`createdb`"):
        store.names()

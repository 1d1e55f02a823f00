"""A store on disk: committed changes are there, failed ones are not, and no reader sees half of one."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import limits
from fluxres.clock import fixed
from fluxres.errors import InsufficientResources, StoreBusy, StoreConflict, StoreError, UnknownGraph, UsageError
from fluxres.model import ResourceGraph
from fluxres.store import Store, open_store, upkeep, writing
from fluxres.store.sqlite import SqliteConnection
from tests.store import full_disk
from tests.store.graphs import change, facts, machine


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "site.db"), clock=fixed(1.7e9))


def sql(store: Store, statement: str, *values: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(store.path)) as db, db:
        return db.execute(statement, values).fetchall()


def test_a_graph_is_restored(store: Store) -> None:
    graph = machine()
    graph.allocate("/demo/rack0", job="j1", start=0, end=100)
    store.put("demo", graph)
    back = store.load("demo")
    assert facts(back) == facts(graph)
    assert back.name == "demo"
    assert back.check() == []


def test_changes_are_saved_when_the_block_is_left(store: Store) -> None:
    store.put("demo", machine())
    with store.writing("demo", command="fluxres allocate") as tx:
        tx.graph.allocate("/demo/rack0", job="j1")
        tx.graph.tag("/demo/rack1", "owner", "x")
    back = store.load()
    assert back.jobs() == ["j1"]
    assert facts(back) == facts(tx.graph)
    assert tx.position.seq == store.graphs()[0].seq == 3


def test_exception_rolls_everything_back(store: Store) -> None:
    store.put("demo", machine())
    before = store.path.read_bytes()

    def clash() -> None:
        with store.writing() as tx:
            tx.graph.allocate("/demo/rack0", job="j1")
            tx.graph.allocate("/demo/rack0", job="j2")

    with pytest.raises(InsufficientResources):
        clash()
    assert store.load().jobs() == []
    assert store.path.read_bytes() == before
    with store.writing() as tx:
        tx.graph.allocate("/demo/rack0", job="j2")
    assert store.load().jobs() == ["j2"]


def test_exception_of_the_caller_is_passed_on(store: Store) -> None:
    store.put("demo", machine())
    with pytest.raises(OSError, match="mine"), store.writing():
        raise OSError("mine")
    with pytest.raises(sqlite3.OperationalError, match="mine"), store.writing():
        raise sqlite3.OperationalError("mine")


def test_a_block_without_changes_writes_nothing(store: Store) -> None:
    store.put("demo", machine())
    before = store.path.read_bytes()
    with store.writing() as tx:
        assert tx.graph.jobs() == []
    assert store.path.read_bytes() == before


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), weight_max=st.sampled_from([0, 3, 512]))
def test_rule_s1_snapshot_and_replay_restore_the_written_graph(
    tmp_path_factory: pytest.TempPathFactory, seed: int, weight_max: int
) -> None:
    store, random = open_store(str(tmp_path_factory.mktemp("s") / "x.db")), Random(seed)
    store.put("demo", machine())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "WEIGHT_MAX", weight_max)
        for _ in range(6):
            with store.writing() as tx:
                for _ in range(random.randrange(5)):
                    change(tx.graph, random)
            back = store.load()
            assert facts(back) == facts(tx.graph)
            assert back.check() == []


def test_merge_and_unlink_write_a_new_shape(store: Store) -> None:
    graph = machine()
    store.put("demo", graph)
    with store.writing() as tx:
        tx.graph.allocate("/demo/rack0", job="j1")
        tx.graph.unlink("/demo/rack1/node4")
        tx.graph.tag("/demo/rack1", "small")
    assert facts(store.load()) == facts(tx.graph)
    with store.writing() as tx:
        tx.graph.merge(machine(3, 1, origin=7).copy("/demo/rack2"))
        tx.graph.allocate("/demo/rack2", job="j2")
    back = store.load()
    assert facts(back) == facts(tx.graph)
    assert back.check() == []
    assert [row.generation for row in store.graphs()] == [2]
    assert [entry.event["event"] for entry in store.log()] == ["load", "allocate", "unlink", "tag", "merge", "allocate"]


def test_many_events_become_a_snapshot(store: Store) -> None:
    store.put("demo", machine(2, 60))
    for i in range(3):
        with store.writing() as tx:
            for v in range(1, 300):
                tx.graph.tag(v, "round", str(i))
    (row,) = store.graphs()
    assert row.seq == 898
    assert row.seq - row.snapshot_seq == row.weight <= writing.WEIGHT_MAX
    assert len(store.log()) == 898
    assert store.load().pool(5).tags == {"round": "2"}


def test_the_log_is_bounded_by_log_events_max(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_EVENTS_MAX", 10)
    monkeypatch.setattr(writing, "WEIGHT_MAX", 20)
    store.put("demo", machine())
    for i in range(50):
        with store.writing() as tx:
            tx.graph.tag(1, "round", str(i))
    seqs = [entry.seq for entry in store.log()]
    assert seqs == list(range(seqs[0], 52))
    assert 10 <= len(seqs) <= 31
    assert store.load().pool(1).tags == {"round": "49"}


def test_the_log_is_bounded_by_log_bytes_max(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_BYTES_MAX", 500)
    monkeypatch.setattr(writing, "WEIGHT_MAX", 0)
    store.put("demo", machine())
    for i in range(20):
        with store.writing() as tx:
            tx.graph.tag(1, "round", "x" * 50 + str(i))
    assert 2 <= len(store.log()) <= 6
    assert store.load().pool(1).tags == {"round": "x" * 50 + "19"}


def test_log_is_queried_by_number_job_and_path(store: Store) -> None:
    store.put("demo", machine(), command="fluxres load demo.yaml")
    with store.writing(command="fluxres  allocate\n/demo/rack0") as tx:
        tx.graph.allocate("/demo/rack0/node1", job="j1", start=0, end=1_800_000_000)
        tx.graph.allocate("/demo/rack1", job="j2")
        tx.graph.tag("/demo/rack0/node1/core2", "k")
    entries = store.log()
    assert [(e.seq, e.time, e.command) for e in entries[:2]] == [
        (1, 1.7e9, "fluxres load demo.yaml"),
        (2, 1.7e9, "fluxres allocate /demo/rack0"),
    ]
    assert entries[1].event == {
        "event": "allocate",
        "job": "j1",
        "pools": [["/demo/rack0/node1", 1]],
        "start": 0,
        "end": 1_800_000_000_000_000,
    }
    assert [e.seq for e in store.log(after=2)] == [3, 4]
    assert [e.seq for e in store.log(job="j2")] == [3]
    assert [e.seq for e in store.log(path="/demo/rack0")] == [2, 4]
    assert [e.seq for e in store.log(path="/demo/rack0/node1")] == [2, 4]
    assert [e.seq for e in store.log(path="/demo/rack")] == []
    assert [e.seq for e in store.log(limit=2)] == [3, 4]
    assert store.log(limit=0) == []
    with pytest.raises(UsageError, match="limit"):
        store.log(limit=-1)


def test_a_large_event_is_kept_completely(store: Store) -> None:
    store.put("demo", machine(2, 100))
    with store.writing() as tx:
        tx.graph.allocate(tx.graph.find("type=core"), job="j1")
    assert len(store.log()[-1].event["pools"]) == 800
    assert facts(store.load()) == facts(tx.graph)


# -- several graphs --------------------------------------------------------------------------------------------------------


def test_a_store_keeps_several_graphs(store: Store) -> None:
    assert (store.names(), store.default) == ([], None)
    store.put("a", machine(1, 1))
    store.put("b", machine(2, 2))
    assert (store.names(), store.default) == (["a", "b"], "a")
    store.use("b")
    assert len(store.load()) == len(machine(2, 2))
    assert open_store(f"sqlite://{store.path}?graph=a").load().name == "a"
    store.drop("b")
    assert (store.names(), store.default) == (["a"], "a")
    assert sql(store, "SELECT DISTINCT graph FROM events") == [(1,)]
    store.put("c", machine(1, 1), use=True)
    assert store.default == "c"
    store.drop("c")
    store.drop("a")
    with pytest.raises(UnknownGraph, match=r"has no graphs.*fluxres load"):
        store.load()


def test_a_store_in_a_missing_directory_is_reported(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "nowehre" / "site.db"))
    with pytest.raises(UnknownGraph, match=rf"no graphs: there is no directory {tmp_path}/nowehre \(check the address"):
        store.load()
    store = open_store(str(tmp_path / "site.db"))
    with pytest.raises(UnknownGraph, match=r"has no graphs \(add one"):
        store.load()


@pytest.mark.parametrize("call", ["load", "use", "drop", "log"])
def test_unknown_graph_is_reported_with_the_known_ones(store: Store, call: str) -> None:
    with pytest.raises(UnknownGraph, match="no graphs"):
        getattr(store, call)("x")
    assert not store.path.exists()
    store.put("a", machine(1, 1))
    with pytest.raises(UnknownGraph, match=r"no graph 'x' \(choose from a\)"):
        getattr(store, call)("x")
    with pytest.raises(UnknownGraph), store.writing("x"):
        pass


def test_no_graph_is_chosen_among_several(store: Store) -> None:
    store.put("a", machine(1, 1))
    store.put("b", machine(1, 1))
    store.drop("a")
    store.put("c", machine(1, 1))
    store.drop("c")
    assert store.default == "b"
    store.put("d", machine(1, 1))
    assert store.default == "b"
    sql(store, "DELETE FROM meta")
    with pytest.raises(UnknownGraph, match=r"no graph is selected \(choose from b, d\)"):
        store.load()


def test_loading_over_a_name_reports_what_would_be_lost(store: Store) -> None:
    store.put("demo", machine())
    with store.writing() as tx:
        tx.graph.allocate(["/demo/rack0", "/demo/rack1/node3"], job="j1")
        tx.graph.allocate("/demo/rack1/node4", job="j2")
    before = facts(store.load())
    with pytest.raises(UsageError, match=r"already exists, with 39 pools and the allocations of 2 jobs .*--replace"):
        store.put("demo", machine(1, 1))
    assert facts(store.load()) == before
    store.put("demo", machine(1, 1), replace=True)
    assert len(store.load()) == len(machine(1, 1))
    assert store.log()[-1].event["replaced"] == "39 pools and the allocations of 2 jobs"
    assert len(store.log()) == 4


def test_a_damaged_graph_can_be_replaced(store: Store) -> None:
    store.put("demo", machine())
    sql(store, "UPDATE shapes SET blob = zeroblob(40)")
    with pytest.raises(UsageError, match="with 39 pools, and allocations that cannot be read"):
        store.put("demo", machine())
    store.put("demo", machine(), replace=True)
    assert facts(store.load()) == facts(machine())


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256])
def test_an_invalid_name_is_refused(store: Store, name: str) -> None:
    with pytest.raises(UsageError, match="name"):
        store.put(name, machine(1, 1))
    assert not store.path.exists()


# -- saving only what changed ----------------------------------------------------------------------------------------------


def test_events_are_appended_only_to_the_state_they_follow(store: Store) -> None:
    store.put("demo", machine())
    graph, base = store.open("demo")
    events: list[dict[str, object]] = []
    graph.sink = events.append
    graph.allocate("/demo/rack0", job="j1")
    moved = store.append("demo", graph, events, base, command="save")
    assert facts(store.load()) == facts(graph)
    assert moved.seq == base.seq + 1
    with pytest.raises(StoreConflict, match=r"1 events have been written since.*load it again"):
        store.append("demo", graph, events, base)
    assert len(store.log()) == 2
    store.drop("demo", force=True)
    store.put("demo", machine())
    with pytest.raises(StoreConflict, match="dropped and created again"):
        store.append("demo", graph, events, moved)


# -- readers and writers ---------------------------------------------------------------------------------------------------


def test_readers_see_one_state_and_do_not_wait(store: Store) -> None:
    store.put("demo", machine())
    with store.writing() as tx:
        tx.graph.allocate("/demo/rack0", job="j1")
        assert store.load().jobs() == []
        assert store.names() == ["demo"]
        assert len(store.log()) == 1
    assert store.load().jobs() == ["j1"]


def test_second_writer_waits_and_then_sees_the_first_ones_changes(store: Store) -> None:
    store.put("demo", machine())
    entered, found = threading.Event(), []

    def second() -> None:
        entered.wait()
        with store.writing(command="second", wait_s=30) as tx:
            found.append(tx.graph.jobs())
            tx.graph.allocate("/demo/rack1", job="j2")

    thread = threading.Thread(target=second)
    thread.start()
    with store.writing(command="first") as tx:
        entered.set()
        tx.graph.allocate("/demo/rack0", job="j1")
        with pytest.raises(StoreBusy, match=r"process \d+ \(first"), store.writing(wait_s=0.1):
            pass
    thread.join()
    assert found == [["j1"]]
    assert store.load().jobs() == ["j1", "j2"]


def test_writer_waits_lock_wait_seconds_by_default(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("demo", machine())
    monkeypatch.setattr(limits, "LOCK_WAIT_SECONDS_DEFAULT", 0.1)
    with store.writing(), pytest.raises(StoreBusy, match=r"waited 0.1 s"), store.writing():
        pass


def test_another_program_that_locks_the_database_is_waited_for_and_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("demo", machine())
    monkeypatch.setattr("fluxres.store.sqlite._BUSY_S", 0.1)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="another program"), store.writing():
            pass
        assert store.load().jobs() == []


# -- the file --------------------------------------------------------------------------------------------------------------


def test_commits_are_flushed_to_disk(store: Store) -> None:
    store.put("demo", machine())
    db = store.database.begin()
    assert isinstance(db, SqliteConnection)
    try:
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        db.end()


def test_the_default_store_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLUXRES_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    store = open_store()
    store.put("demo", machine())
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in store.path.parent.iterdir()} == {0o600}
    assert store.names() == ["demo"]


def damaged(store: Store, statement: str, *values: object) -> StoreError:
    store.put("demo", machine())
    with store.writing() as tx:
        tx.graph.allocate("/demo/rack0", job="j1")
        tx.graph.allocate("/demo/rack1", job="j2")
    sql(store, statement, *values)
    with pytest.raises(StoreError, match="graph 'demo' cannot be read") as caught:
        store.load()
    assert caught.value.where == store.url
    with pytest.raises(StoreError), store.writing():
        pass
    return caught.value


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE events SET body = replace(body, 'j1', 'j9') WHERE seq = 2", "checksum of event 2"),
        ("UPDATE events SET body = 'text' WHERE seq = 2", "checksum of event 2"),
        ("DELETE FROM events WHERE seq = 2", "event 2 is missing"),
        ("DELETE FROM events WHERE seq = 3", "event 3 is missing"),
        ("UPDATE graphs SET seq = 9", "event 4 is missing"),
        ("UPDATE snapshots SET blob = x'00'", "snapshot: 1 bytes are too short"),
        ("UPDATE shapes SET blob = zeroblob(99)", "snapshot: the marks belong to a different shape"),
        ("DELETE FROM snapshots", "no row in snapshots"),
        ("DELETE FROM shapes", "no row in shapes"),
        ("UPDATE shapes SET blob = 'text'", "no row in shapes"),
    ],
)
def test_a_damaged_row_is_named(store: Store, statement: str, message: str) -> None:
    assert message in str(damaged(store, statement))


def test_any_damaged_page_is_an_error_or_the_same_graph(store: Store) -> None:
    store.put("demo", machine())
    whole, before, random = store.path.read_bytes(), facts(store.load()), Random(5)
    outcomes = set()
    for _ in range(150):
        at = random.randrange(len(whole))
        store.path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << random.randrange(8))]) + whole[at + 1 :])
        try:
            graph = store.load("demo")
        except (StoreError, UnknownGraph):
            outcomes.add("error")
        else:
            assert facts(graph) == before
            outcomes.add("same")
    assert "error" in outcomes


@pytest.mark.parametrize("content", [b"cluster: demo\n" * 100, b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 5000, b"x"])
def test_files_that_are_not_databases_are_reported(store: Store, content: bytes) -> None:
    store.path.write_bytes(content)
    for call in (store.names, store.load, lambda: store.put("demo", machine())):
        with pytest.raises(StoreError) as caught:
            call()
        assert caught.value.where == str(store.path)
        assert caught.value.hint
    assert store.path.read_bytes() == content


def test_an_empty_file_is_an_empty_store(store: Store) -> None:
    store.path.touch()
    assert store.names() == []
    store.put("demo", machine())
    assert store.names() == ["demo"]


def test_another_programs_database_is_left_alone(store: Store) -> None:
    sql(store, "CREATE TABLE songs (title)")
    for call in (store.names, lambda: store.put("demo", machine())):
        with pytest.raises(StoreError, match="another program"):
            call()
    assert sql(store, "SELECT name FROM sqlite_master") == [("songs",)]


@pytest.mark.parametrize(
    ("version", "way_out"),
    [
        (4, "use a newer fluxres"),
        (
            1,
            "read it with the fluxres that wrote it, or name another file by --store or FLUXRES_STORE and load the machine again",
        ),
    ],
)
def test_a_store_of_another_version_is_left_alone(store: Store, version: int, way_out: str) -> None:
    store.put("demo", machine())
    sql(store, f"PRAGMA user_version = {version}")
    said = re.escape(f"has version {version}, but this fluxres supports only versions 2 to 3 ({way_out})")
    for call in (store.names, store.load, lambda: store.put("x", machine()), lambda: store.drop("demo")):
        with pytest.raises(StoreError, match=said):
            call()


def test_directory_or_device_is_not_a_store(tmp_path: Path) -> None:
    for path, message in ((str(tmp_path), "is a directory"), ("/dev/null", "not a regular file")):
        for call in (open_store(path).names, lambda path=path: open_store(path).put("demo", machine())):
            with pytest.raises(StoreError, match=message):
                call()


@pytest.mark.parametrize("path", ["/proc/fluxres.db", "{tmp}/missing/site.db", "{tmp}/file/site.db"])
def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    where = path.format(tmp=tmp_path)
    with pytest.raises(StoreError) as caught:
        open_store(where).put("demo", machine())
    assert os.path.dirname(where) in caught.value.where
    assert caught.value.hint
    assert open_store(where).names() == []


def test_full_disk_changes_nothing(store: Store) -> None:
    import resource

    store.put("demo", machine())
    before = facts(store.load())

    def fill() -> None:
        with store.writing() as tx:
            for v in range(1, 39):
                tx.graph.tag(v, "k", "x" * 4000)

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        with pytest.raises(StoreError, match="nothing was changed"):
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert facts(store.load()) == before
    with store.writing() as tx:
        tx.graph.tag(1, "k")
    assert store.load().pool(1).tags == {"k": None}


@pytest.mark.parametrize("logged", [False, True])
def test_a_store_on_a_full_disk_can_be_read(store: Store, tmp_path: Path, logged: bool) -> None:
    import resource

    store.put("demo", machine())
    if logged:  # as after a crash: the last change is only in the write-ahead log
        with closing(sqlite3.connect(store.path)) as other:
            other.execute("SELECT * FROM graphs").fetchall()
            with store.writing() as tx:
                tx.graph.tag(1, "k")
            (tmp_path / "crashed").mkdir()
            for suffix in ("", "-wal"):
                shutil.copy(f"{store.path}{suffix}", tmp_path / "crashed" / f"site.db{suffix}")
        store = open_store(str(tmp_path / "crashed" / "site.db"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with ThreadPoolExecutor(4) as threads:
            found = [each.pool(1).tags for each in threads.map(lambda _: store.load(), range(8))]
        assert upkeep.check(store) == (["demo"], [])
        with pytest.raises(StoreError, match="no space left; nothing was changed"), store.writing() as tx:
            tx.graph.tag(2, "k")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    expected = {"k": None} if logged else {}
    assert found == [expected] * 8
    assert (store.load().pool(1).tags, store.load().pool(2).tags) == (expected, {})


def test_a_store_on_a_full_disk_can_be_backed_up_to_another(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("demo", machine())
    full_disk.fill(store.path, monkeypatch)
    upkeep.back_up(store, tmp_path / "copy.db")
    assert facts(open_store(str(tmp_path / "copy.db")).load()) == facts(store.load())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_store_in_a_read_only_directory_can_be_read(store: Store) -> None:
    store.put("demo", machine())
    store.path.parent.chmod(0o500)
    try:
        assert store.load().name == "demo"
        with pytest.raises(StoreError), store.writing():
            pass
    finally:
        store.path.parent.chmod(0o700)


@pytest.mark.parametrize("limit", [0, 512, 5000, 20_000, 40_000])
def test_a_put_that_fails_leaves_no_empty_database_behind(tmp_path: Path, limit: int) -> None:
    import resource

    path = tmp_path / "site.db"
    structure = machine(40, 40).structure
    structure.id[:] = np.random.default_rng(1).permutation(structure.n)
    graph = ResourceGraph(structure)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(StoreError):
            open_store(str(path)).put("demo", graph)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [entry.name for entry in tmp_path.iterdir()] in ([], ["site.db.lock"])
    open_store(str(path)).put("demo", graph)
    assert open_store(str(path)).names() == ["demo"]


def test_a_put_that_fails_leaves_the_database_that_was_there(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "site.db"))
    store.put("demo", machine())
    with pytest.raises(UsageError, match="already exists, with 39 pools and no jobs"):
        store.put("demo", machine())
    assert store.names() == ["demo"]

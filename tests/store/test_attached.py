"""A graph attached to its store: each change is stored when it returns, and those of others arrive before the next one."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import fluxres
from fluxres import ResourceGraph, StaleHandle, StoreBusy, StoreConflict, StoreError, UsageError
from fluxres.clock import Clock, fixed
from fluxres.errors import InDoubt, InfeasibleRequest, InputError, InsufficientResources, StoreUnreachable, UnknownGraph
from fluxres.instance.states import State
from fluxres.model import changes
from fluxres.store import open_store
from fluxres.store.attached import Attached
from fluxres.store.sqlite import SqliteConnection
from fluxres.store.writing import WEIGHT_MAX, Change
from tests.instance.test_upstream import ManualRunner
from tests.store.conftest import KINDS
from tests.store.graphs import change, fingerprint, machine


@pytest.fixture(params=KINDS)
def path(request: pytest.FixtureRequest, tmp_path: Path, empty: Callable[[str], str]) -> str:
    made = str(tmp_path / "x.db") if request.param == "sqlite" else empty(request.param)
    open_store(made).put("demo", machine())
    return made


in_a_file = pytest.mark.parametrize("path", ["sqlite"], indirect=True)
"""Tests that look into SQLite, or make it fail."""


@pytest.fixture
def graph(path: str) -> Iterator[ResourceGraph]:
    with fluxres.open(path, clock=fixed(0), command="scheduler") as opened:
        yield opened


def stored(path: str) -> ResourceGraph:
    return open_store(path, clock=fixed(0)).open()[0]


def events(path: str) -> list[str]:
    return [entry.event["event"] for entry in open_store(path).log()[1:]]


def link_of(graph: ResourceGraph) -> Attached:
    assert isinstance(graph.attachment, Attached)
    return graph.attachment


def statements_of(graph: ResourceGraph) -> list[str]:
    """What the connection executes from now on."""
    seen: list[str] = []
    db = link_of(graph)._link._rows.db
    assert isinstance(db, SqliteConnection)
    db.db.set_trace_callback(seen.append)
    return seen


def until(is_there: Callable[[], bool]) -> None:
    """Wait for other threads."""
    pause = threading.Event()
    assert any(is_there() or pause.wait(0.01) for _ in range(3000))


def full_disk(graph: ResourceGraph, is_full: bool = True) -> None:
    pages = 1 if is_full else 1 << 30
    link_of(graph)._link._rows.db.execute(f"PRAGMA max_page_count = {pages}")


# -- rule D1 -----------------------------------------------------------------------------------------------------------


def test_rule_d1_a_change_of_an_attached_graph_is_stored_when_it_returns(graph: ResourceGraph, path: str) -> None:
    random = Random(7)
    for _ in range(60):
        change(graph, random)
        assert fingerprint(stored(path)) == fingerprint(graph)
    log = open_store(path).log()[1:]
    assert len(log) > 30
    assert {entry.command for entry in log} == {"scheduler"}
    assert graph.check() == []


def test_rule_d1_changes_of_the_shape_are_stored_too(graph: ResourceGraph, path: str) -> None:
    graph.allocate("slot/core", job="j1")
    graph.unlink("/demo/rack1")
    graph.allocate("slot/core", job="j2")
    assert fingerprint(stored(path)) == fingerprint(graph)
    assert events(path) == ["allocate", "unlink", "allocate"]
    open_store(path).undo()
    graph.refresh()
    assert graph.jobs() == ["j1"]


def test_rule_d1_an_undo_puts_back_the_state_before_the_last_change_only(graph: ResourceGraph, path: str) -> None:
    states = [fingerprint(graph)]
    random = Random(3)
    while len(states) < 12:
        change(graph, random)
        if fingerprint(graph) != states[-1]:
            states.append(fingerprint(graph))
    open_store(path, clock=fixed(0)).undo()
    graph.refresh()
    assert fingerprint(graph) == states[-2]


# -- batches -----------------------------------------------------------------------------------------------------------


@in_a_file
def test_rule_d1_a_batch_is_one_commit(graph: ResourceGraph, path: str) -> None:
    seen = statements_of(graph)
    with graph.batch(command="tick 7", user="ada"):
        for number in range(5):
            graph.allocate("slot/core", job=f"j{number}")
        assert stored(path).jobs() == []
    assert [statement for statement in seen if statement == "COMMIT"] == ["COMMIT"]
    assert fingerprint(stored(path)) == fingerprint(graph)
    assert {(entry.command, entry.user) for entry in open_store(path).log()[1:]} == {("tick 7", "ada")}
    open_store(path).undo()
    graph.refresh()
    assert graph.jobs() == []


def test_rule_d1_a_batch_that_fails_is_undone_in_memory_and_not_written(graph: ResourceGraph, path: str) -> None:
    graph.allocate("slot/core", job="before")
    node, was = graph.pool("/demo/rack0/node0"), fingerprint(graph)

    def several() -> None:
        with graph.batch():
            graph.tag(node, "owner", "ada")
            graph.allocate(node, job="j1")
            graph.set_state("/demo/rack1", "drain")
            graph.allocate("slot=6/node", job="j2")

    with pytest.raises(InsufficientResources):
        several()
    assert fingerprint(graph) == was == fingerprint(stored(path))
    assert node.state == "up"
    graph.allocate("slot/core", job="after")
    assert fingerprint(stored(path)) == fingerprint(graph)
    assert events(path) == ["allocate", "allocate"]


def test_rule_d1_handles_from_within_a_failed_change_of_the_shape_are_stale(graph: ResourceGraph) -> None:
    made = []

    def cut() -> None:
        with graph.batch():
            graph.unlink("/demo/rack0")
            made.append(graph.pool("/demo/rack1/node3"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cut()
    assert graph.pool("/demo/rack0/node0").state == "up"
    with pytest.raises(StaleHandle):
        _ = made[0].state


def test_a_refusal_within_a_batch_may_be_caught(graph: ResourceGraph, path: str) -> None:
    with graph.batch():
        graph.allocate("slot/core", job="j1")
        with pytest.raises(InsufficientResources):
            graph.allocate("slot=6/node", job="j2")
        graph.allocate("slot/core", job="j3")
    assert stored(path).jobs() == ["j1", "j3"]


def test_a_batch_within_a_batch_is_refused(graph: ResourceGraph, path: str) -> None:
    def nested() -> None:
        with graph.batch():
            graph.allocate("slot/core", job="j1")
            with graph.batch():
                pass

    with pytest.raises(UsageError, match="another batch"):
        nested()
    assert stored(path).jobs() == graph.jobs() == []


def test_a_graph_in_memory_has_no_batches() -> None:
    with pytest.raises(UsageError, match="not attached") as caught:
        machine().batch()
    assert "fluxres.open" in caught.value.hint


# -- others ------------------------------------------------------------------------------------------------------------


def test_a_change_is_decided_on_what_others_have_written(graph: ResourceGraph, path: str) -> None:
    random = Random(11)
    with fluxres.open(path, clock=fixed(0)) as other:
        for _ in range(80):
            change(random.choice((graph, other)), random)
        graph.refresh()
        other.refresh()
        assert fingerprint(graph) == fingerprint(other) == fingerprint(stored(path))


def test_rule_a2_two_attached_graphs_never_allocate_the_same_units(graph: ResourceGraph, path: str) -> None:
    with fluxres.open(path, clock=fixed(0)) as other:
        for number in range(6):
            (graph if number % 2 else other).allocate("slot/node", job=f"n{number}")
        with pytest.raises(InsufficientResources):
            graph.allocate("slot/node", job="more")
    assert sorted(stored(path).jobs()) == [f"n{number}" for number in range(6)]
    assert stored(path).check() == []


def test_a_command_and_an_attached_graph_take_turns(graph: ResourceGraph, path: str) -> None:
    graph.allocate("slot/core", job="j1")
    with open_store(path, clock=fixed(0)).writing(command="fluxres free j1") as transaction:
        transaction.graph.free("j1")
        with pytest.raises(StoreBusy), fluxres.open(path, wait_s=0):
            pass
    assert graph.jobs() == ["j1"]
    graph.allocate("slot/core", job="j2")
    assert graph.jobs() == ["j2"]


def test_a_change_of_the_shape_by_others_makes_handles_stale(graph: ResourceGraph, path: str) -> None:
    rack = graph.pool("/demo/rack0")
    with open_store(path).writing() as transaction:
        transaction.graph.unlink("/demo/rack1")
    graph.refresh()
    assert len(graph.find("type=rack")) == 1
    with pytest.raises(StaleHandle):
        _ = rack.state


def test_rule_t1_what_others_free_after_another_process_has_changed_the_shape_is_held_again(
    graph: ResourceGraph, path: str
) -> None:
    top = fluxres.Instance(graph, clock=fixed(0), runner=ManualRunner(), inventory="graph")
    first, job = (top.submit("slot=1/node", duration_s=50) for _ in range(2))
    held, (gone, _) = job.pools, first.pools[0]
    top.finish(first)
    with fluxres.open(path, clock=fixed(0)) as other:
        other.unlink(gone)
        other.free(str(job.id))
    waits = top.submit("slot=1/node", duration_s=5)
    assert job.state is State.CLEANUP
    assert graph.allocated(str(job.id)).paths() == [name for name, _ in held]
    assert not {name for name, _ in waits.pools} & {name for name, _ in held}
    assert top.check() == []


def test_many_changes_by_others_arrive_at_once(graph: ResourceGraph, path: str) -> None:
    rack = graph.pool("/demo/rack0")
    with fluxres.open(path, clock=fixed(0)) as other, other.batch():
        for number in range(600):
            other.allocate("slot/core", job=f"j{number}")
            other.free(f"j{number}")
        for _ in range(5):
            other.tag("type=core" and other.find("type=core"), "x")
        other.allocate("slot/core", job="last")
    graph.refresh()
    assert graph.jobs() == ["last"]
    assert rack.state == "up"
    assert fingerprint(graph) == fingerprint(stored(path))


def test_a_dropped_graph_takes_no_changes(graph: ResourceGraph, path: str) -> None:
    open_store(path).drop("demo")
    for _ in range(2):
        with pytest.raises(StoreConflict, match="was dropped"):
            graph.allocate("slot/core", job="j1")
    open_store(path).put("demo", machine())
    with pytest.raises(StoreConflict, match="created again"):
        graph.refresh()


@in_a_file
def test_rule_d1_opening_the_store_again_leaves_the_log_to_the_attached_graph(graph: ResourceGraph, path: str) -> None:
    """The system drops the locks of a process with the first descriptor of the file that it closes, whoever opened it."""
    graph.allocate("slot/core", job="j1")
    open_store(path).load()
    other = f"import sqlite3; db = sqlite3.connect({path!r}); print(db.execute('SELECT seq FROM graphs').fetchone()); db.close()"
    done = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, check=True)
    assert done.stdout == "(2,)\n"
    assert Path(path + "-wal").exists()
    graph.allocate("slot/core", job="j2")
    assert stored(path).jobs() == ["j1", "j2"]


# -- failures ----------------------------------------------------------------------------------------------------------


@in_a_file
def test_rule_d1_a_change_that_cannot_be_written_is_not_made(graph: ResourceGraph, path: str) -> None:
    graph.allocate("slot/core", job="j1")
    full_disk(graph)
    text = "x" * 4000
    states = []

    def fill() -> None:
        for number in range(60):
            states.append(fingerprint(graph))
            graph.tag("/demo", f"k{number}", text)

    with pytest.raises(StoreError, match="no space left"):
        fill()
    was = states[-1]
    assert fingerprint(graph) == was == fingerprint(stored(path))
    full_disk(graph, is_full=False)
    graph.tag("/demo", "k", text)
    assert fingerprint(stored(path)) == fingerprint(graph)
    assert graph.check() == []


@in_a_file
def test_rule_d1_what_others_decided_on_a_lost_change_is_lost_too(graph: ResourceGraph, path: str) -> None:
    """Threads whose changes wait for the same commit all learn that it failed."""
    attached, failures, begun = link_of(graph), [], threading.Barrier(5)
    full_disk(graph)

    def take(number: int) -> None:
        begun.wait()
        try:
            graph.tag("/demo", f"k{number}", "x" * 4000)
        except StoreError as error:
            failures.append(error.message)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    with attached._committing:
        for thread in threads:
            thread.start()
        begun.wait()
        until(lambda: len(attached._waiting) == 4)
    for thread in threads:
        thread.join()
    assert len(failures) == 4
    assert graph.root.tags == {} == stored(path).root.tags


def test_a_lock_that_somebody_holds_leaves_the_graph_unchanged(path: str) -> None:
    with fluxres.open(path, wait_s=0) as graph:
        with open_store(path).writing(command="slow"), pytest.raises(StoreBusy, match="slow"):
            graph.allocate("slot/core", job="j1")
        assert graph.jobs() == []
        graph.allocate("slot/core", job="j2")
    assert stored(path).jobs() == ["j2"]


def test_a_change_that_the_store_would_not_see_is_refused(graph: ResourceGraph, path: str) -> None:
    with pytest.raises(UsageError, match="outside of a batch"):
        changes.allocate_more(graph, "j1", [(3, 1)], (0, 10))
    assert graph.jobs() == []
    with graph.batch():
        changes.allocate_more(graph, "j1", [(3, 1)], (0, 10))
    assert stored(path).jobs() == ["j1"]
    event = {"event": "free", "job": "j1", "pools": None, "start": None, "end": None}
    with pytest.raises(UsageError, match="other than by its operations"):
        graph.apply(event)
    assert graph.jobs() == stored(path).jobs() == ["j1"]


def test_a_closed_graph_answers_and_refuses_changes(path: str) -> None:
    with fluxres.open(path) as graph:
        graph.allocate("slot/core", job="j1")
    graph.close()
    assert graph.jobs() == ["j1"]
    with pytest.raises(UsageError, match="was closed"):
        graph.free("j1")
    with pytest.raises(UsageError, match="was closed"):
        graph.refresh()
    assert graph.duplicate().allocate("slot/core", job="j2").job == "j2"


def test_a_fork_must_open_the_graph_again(graph: ResourceGraph, path: str) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            graph.allocate("slot/core", job="j1")
        except UsageError as error:
            status = 0 if "fork" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert stored(path).jobs() == []


def test_what_is_not_a_store_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not the address of a store"):
        fluxres.open("cluster.yaml")
    with pytest.raises(UsageError, match="is for servers"):
        fluxres.open("http://127.0.0.1:7390")
    with pytest.raises(UnknownGraph):
        fluxres.open(tmp_path / "none.db")
    with pytest.raises(UsageError, match="durability"):
        fluxres.open(tmp_path / "none.db", durability="fast")


def test_an_instance_stores_what_it_records(graph: ResourceGraph, path: str) -> None:
    top = fluxres.Instance(graph)
    job, nested = top.submit("slot=2/node", duration_s=60), top.submit("slot=2/node", duration_s=60)
    child = top.spawn(nested.id)
    inner = child.submit("slot/node", duration_s=9)
    assert fingerprint(stored(path)) == fingerprint(graph)
    assert len(stored(path).jobs()) == 2
    child.finish(inner)
    child.close()
    top.cancel(job.id)
    assert stored(path).jobs() == graph.jobs() == []
    assert top.check() == []


# -- threads -----------------------------------------------------------------------------------------------------------


@in_a_file
def test_rule_a2_threads_share_a_graph_and_their_commits(graph: ResourceGraph, path: str) -> None:
    attached, seen, begun = link_of(graph), statements_of(graph), threading.Barrier(9)

    def take(number: int) -> None:
        begun.wait()
        for turn in range(3):
            graph.allocate("slot/core", job=f"t{number}-{turn}")

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    with attached._committing:
        for thread in threads:
            thread.start()
        begun.wait()
        until(lambda: len(attached._waiting) == 8)
    for thread in threads:
        thread.join()
    assert seen.count("COMMIT") < 24
    assert len(graph.jobs()) == 24
    assert fingerprint(stored(path)) == fingerprint(graph)
    assert graph.check() == []


@in_a_file
def test_rule_d1_operations_together_are_one_commit_and_each_all_or_none(graph: ResourceGraph, path: str) -> None:
    attached, seen = link_of(graph), statements_of(graph)

    def fails() -> str:
        with graph.batch():
            graph.allocate("slot/core", job="lost")
            raise InputError("no")

    found = attached.together(
        [
            lambda: graph.allocate("slot/core", job="a").job,
            lambda: graph.allocate("slot=9999/core", job="b").job,
            fails,
            lambda: ",".join(graph.jobs()),
            lambda: graph.allocate("slot/core", job="c").job,
        ]
    )
    assert [str(one) if isinstance(one, str) else type(one) for one in found] == ["a", InfeasibleRequest, InputError, "a", "c"]
    assert graph.jobs() == stored(path).jobs() == ["a", "c"]
    assert fingerprint(stored(path)) == fingerprint(graph)
    assert seen.count("COMMIT") == 2  # what fails after an event is read from the store again, so what waits is committed first
    seen.clear()
    attached.together([lambda n=n: graph.free(n) for n in "ac"])
    assert seen.count("COMMIT") == 1


@in_a_file
def test_rule_d1_operations_together_fail_together_if_the_commit_fails(graph: ResourceGraph, path: str) -> None:
    full_disk(graph)
    tags = [lambda n=n: graph.tag("/demo", f"k{n}", "x" * 4000) for n in range(4)]
    found = link_of(graph).together([*tags, lambda: len(graph)])
    assert [type(one) for one in found] == [StoreError] * 4 + [int]
    assert graph.root.tags == {} == stored(path).root.tags
    full_disk(graph, is_full=False)
    assert link_of(graph).together(tags) == [None] * 4
    assert fingerprint(stored(path)) == fingerprint(graph)


@in_a_file
def test_rule_d1_a_snapshot_does_not_divide_operations_together(graph: ResourceGraph, path: str) -> None:
    attached, seen = link_of(graph), statements_of(graph)
    attached.together([lambda n=n: graph.tag("/demo", "k", str(n)) for n in range(WEIGHT_MAX + 20)])
    assert seen.count("COMMIT") == 1
    assert any("INTO snapshots" in statement for statement in seen)
    assert fingerprint(stored(path)) == fingerprint(graph)
    seen.clear()
    attached.together([lambda: graph.tag("/demo", "k", "last")])
    assert not any("INTO snapshots" in statement for statement in seen)


@in_a_file
def test_rule_d1_a_snapshot_after_a_new_shape_is_of_that_shape(graph: ResourceGraph, path: str) -> None:
    tags = [lambda n=n: graph.tag("/demo", "k", str(n)) for n in range(WEIGHT_MAX + 20)]
    link_of(graph).together([lambda: graph.unlink("/demo/rack0/node0"), *tags])
    assert fingerprint(stored(path)) == fingerprint(graph)


def test_rule_d1_a_commit_in_doubt_is_said_to_be_although_the_store_cannot_be_read_again(
    graph: ResourceGraph, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    attached, commit = link_of(graph), link_of(graph)._link.commit

    def unanswered(changes: Sequence[Change]) -> None:
        commit(changes)
        raise InDoubt("the answer was lost")

    def unreachable(_clock: Clock) -> tuple[ResourceGraph, bool]:
        raise StoreUnreachable("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(attached._link, "commit", unanswered)
        patched.setattr(attached._link, "read", unreachable)
        found = attached.together([lambda: graph.allocate("slot/core", job="unsure"), lambda: None])
        assert [type(one) for one in found] == [InDoubt, type(None)]
        with pytest.raises(StoreUnreachable, match="away"):
            graph.allocate("slot/core", job="none")
    graph.allocate("slot/core", job="last")
    assert graph.jobs() == stored(path).jobs() == ["unsure", "last"]


def test_operations_together_are_made_outside_of_changes(graph: ResourceGraph) -> None:
    (error,) = link_of(graph).together([lambda: link_of(graph).together([])])
    assert isinstance(error, UsageError)
    with graph.batch(), pytest.raises(UsageError, match="outside of any change"):
        link_of(graph).together([])


@pytest.mark.parametrize("durability", ["full", "normal"])
@in_a_file
def test_the_durability_is_that_of_the_connection(path: str, durability: str) -> None:
    with fluxres.open(path, durability=durability) as graph:
        db = link_of(graph)._link._rows.db
        assert isinstance(db, SqliteConnection)
        (found,) = db.execute("PRAGMA synchronous").fetchone()
        graph.allocate("slot/core", job="j1")
    assert found == {"full": 2, "normal": 1}[durability]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT seq FROM graphs").fetchone() == (2,)


# -- history -----------------------------------------------------------------------------------------------------------


def test_undo_takes_back_what_others_did_last(path: str, graph: ResourceGraph) -> None:
    graph.allocate("slot=2/node", job="j1")
    with fluxres.open(path, clock=fixed(0)) as other:
        other.unlink(other.find("type=node").paths()[-1])
        before = len(graph)
        done = other.undo()
    assert [one["event"] for one in done] == ["unlink"]
    graph.allocate("slot/node", job="j2")
    assert len(graph) == before
    with graph.batch():
        graph.free("j1")
        graph.free("j2")
    assert [(one["event"], one["job"]) for one in graph.undo()] == [("free", "j1"), ("free", "j2")]
    assert sorted(graph.jobs()) == ["j1", "j2"]
    assert [one["command"] for one in graph.log()][-1] == "scheduler"
    assert fingerprint(stored(path)) == fingerprint(graph)


def test_undo_waits_for_the_end_of_a_batch(graph: ResourceGraph) -> None:
    graph.allocate("slot/node", job="j1")
    with graph.batch():
        graph.free("j1")
        with pytest.raises(UsageError, match="within a batch"):
            graph.undo()
    assert graph.jobs() == []
    graph.undo()
    assert graph.jobs() == ["j1"]
    graph.close()
    with pytest.raises(UsageError, match="closed"):
        graph.redo()

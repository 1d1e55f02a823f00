"""`fluxres.load` and `fluxres.save`: files and stores, complete and changes only."""

from __future__ import annotations

import concurrent.futures
import gzip
import io
import os
import pickle
import stat
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import fluxres
from fluxres import clock, limits
from fluxres.clock import fixed
from fluxres.errors import (
    FluxresError,
    InputError,
    InsufficientResources,
    LimitExceeded,
    StoreConflict,
    StoreError,
    UnknownGraph,
    UnknownPool,
    UsageError,
)
from fluxres.model import ResourceGraph
from fluxres.store import changes, open_store, writing
from fluxres.store.changes import Pending
from fluxres.store.files import save_stored
from tests.store import full_disk
from tests.store.graphs import change, facts, machine

PLACES = ("site.yaml", "site.db")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def without_stages(graph: ResourceGraph) -> ResourceGraph:
    for stage in list(graph.records.stages):
        graph.release(stage)
    return graph


def held(graph: ResourceGraph) -> object:
    """The content of a file, apart from the numbering of kinds and uuid bases."""
    return {key: value for key, value in facts(graph).items() if key not in ("kinds", "stages")}


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_rule_s1_save_then_load_gives_an_equal_graph(place: str, seed: int) -> None:
    graph, random = machine(), Random(seed)
    for _ in range(random.randrange(20)):
        change(graph, random)
    without_stages(graph)
    report = fluxres.save(graph, place, replace=True)
    assert report.left_out == []
    assert held(fluxres.load(place)) == held(graph)


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), reshape=st.booleans(), parts=st.integers(1, 3))
def test_rule_s1_saves_of_changes_equal_a_full_save(
    tmp_path_factory: pytest.TempPathFactory, place: str, seed: int, reshape: bool, parts: int
) -> None:
    folder, random = tmp_path_factory.mktemp("s"), Random(seed)
    fluxres.save(machine(), folder / place)
    graph = fluxres.load(folder / place)
    names = []
    for part in range(parts):
        for _ in range(random.randrange(12)):
            change(graph, random)
        if reshape:
            without_stages(graph)
            try:
                graph.unlink(random.randrange(1, len(graph)))
                graph.merge(machine(3, 2, origin=part + 2))
            except FluxresError:
                pass
            change(graph, random)
        names.append(folder / f"{part}.changes")
        report = fluxres.save(graph, names[-1], changed_only=True)
        assert (report.note, report.left_out) == ("", [])
    back = fluxres.load(folder / place, changes=names)
    without_stages(back)
    without_stages(graph)
    full = folder / "full.db"
    fluxres.save(graph, full)
    assert facts(back)["held"] == facts(fluxres.load(full))["held"]
    assert held(back) == held(graph)
    assert back.check() == []


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_rule_s1_saves_of_changes_to_a_store_equal_a_full_save(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    place, random = tmp_path_factory.mktemp("s") / "site.db", Random(seed)
    fluxres.save(machine(), place)
    graph = fluxres.load(place)
    for _ in range(4):
        count = len(open_store(str(place)).log())
        for _ in range(random.randrange(8)):
            change(graph, random)
        report = fluxres.save(graph, place, changed_only=True)
        assert report.events == len(open_store(str(place)).log()) - count
        assert facts(fluxres.load(place)) == facts(graph)


def test_a_document_of_changes_is_continued(here: Path) -> None:
    fluxres.save(machine(), "base.yaml")
    graph = fluxres.load("base.yaml")
    for job in ("j1", "j2"):
        graph.allocate({"/demo/rack0/node0/memory0": 1}, job=job)
        assert fluxres.save(graph, "c.changes", changed_only=True).events == 1
    assert fluxres.load("base.yaml", changes="c.changes").jobs() == ["j1", "j2"]
    assert fluxres.save(graph, "c.changes", changed_only=True).events == 0
    assert len(Path("c.changes").read_bytes().splitlines()) == 3


def test_changes_never_overwrite_a_document_they_do_not_continue() -> None:
    fluxres.save(machine(), "base.yaml")
    graph = fluxres.load("base.yaml")
    graph.tag(1, "k")
    with pytest.raises(UsageError, match="something other than changes"):
        fluxres.save(graph, "base.yaml", changed_only=True)
    fluxres.save(graph, "c.changes", changed_only=True)
    other = fluxres.load("base.yaml")
    other.tag(2, "k")
    before = Path("c.changes").read_bytes()
    with pytest.raises(UsageError, match="other changes, which would be lost"):
        fluxres.save(other, "c.changes", changed_only=True)
    assert Path("c.changes").read_bytes() == before


def test_a_document_is_continued_from_its_own_last_save_whatever_was_saved_elsewhere_in_between() -> None:
    fluxres.save(machine(), "base.yaml")
    graph = fluxres.load("base.yaml")
    graph.tag(1, "a")
    assert fluxres.save(graph, "c.changes", changed_only=True).events == 1
    graph.tag(1, "b")
    fluxres.save(graph, "other.yaml")
    graph.tag(1, "c")
    assert fluxres.save(graph, "d.changes", changed_only=True).events == 1
    assert fluxres.save(graph, "./c.changes", changed_only=True).events == 2
    assert held(fluxres.load("base.yaml", changes="c.changes")) == held(graph)
    assert held(fluxres.load("other.yaml", changes="d.changes")) == held(graph)
    Path("c.changes").unlink()
    graph.tag(1, "d")
    assert fluxres.save(graph, "c.changes", changed_only=True).events == 1


def test_changes_of_another_state_are_refused() -> None:
    fluxres.save(machine(), "base.yaml")
    graph = fluxres.load("base.yaml")
    graph.tag(1, "k")
    fluxres.save(graph, "c1.changes", changed_only=True)
    graph.tag(1, "l")
    fluxres.save(graph, "c2.changes", changed_only=True)
    with pytest.raises(StoreConflict, match="follows a different state"):
        fluxres.load("base.yaml", changes="c2.changes")
    with pytest.raises(StoreConflict, match="needs the save that it follows"):
        fluxres.load("c1.changes")
    assert fluxres.load("base.yaml", changes=["c1.changes", "c2.changes"]).pool(1).tags == {"k": None, "l": None}


def test_a_graph_never_saved_is_written_completely_with_a_note() -> None:
    graph = machine()
    graph.allocate("/demo/rack0", job="j1")
    report = fluxres.save(graph, "c.changes", changed_only=True)
    assert (report.events, report.format) == (None, "changes")
    assert report.note.startswith("everything was written")
    assert facts(fluxres.load("c.changes")) == facts(graph)
    graph.free("j1")
    assert fluxres.save(graph, "c.changes", changed_only=True).events == 1
    assert facts(fluxres.load("c.changes")) == facts(graph)
    report = fluxres.save(graph, "site.db", changed_only=True)
    assert (report.events, report.note[:22]) == (None, "everything was written")


def test_past_pending_events_max_everything_is_written_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PENDING_EVENTS_MAX", 3)
    fluxres.save(machine(), "site.db")
    graph = fluxres.load("site.db")
    for i in range(4):
        graph.tag(1, "k", str(i))
    report = fluxres.save(graph, "c.changes", changed_only=True)
    assert (report.events, report.note[:22]) == (None, "everything was written")
    assert fluxres.load("c.changes").pool(1).tags == {"k": "3"}
    graph.tag(2, "k")
    assert fluxres.save(graph, "d.changes", changed_only=True).events == 1


def test_changes_beyond_the_event_list_are_not_lost() -> None:
    fluxres.save(machine(), "base.yaml")
    graph = fluxres.load("base.yaml")
    graph.apply({"event": "allocate", "job": "j1", "pools": [["/demo/rack0", 1]], "start": 0, "end": None})
    kept, graph.sink = graph.sink, None
    report = fluxres.save(graph, "c.changes", changed_only=True)
    assert report.note
    assert fluxres.load("c.changes").jobs() == ["j1"]
    graph.sink = kept
    assert Pending.of(graph) is None


def test_saves_to_stores_do_not_affect_files() -> None:
    fluxres.save(machine(), "base.yaml")
    graph = fluxres.load("base.yaml")
    for key in ("a", "b"):
        graph.tag(1, key)
        fluxres.save(graph, "site.db", changed_only=True)
    graph.tag(1, "c")
    assert fluxres.save(graph, "c.changes", changed_only=True).events == 3
    assert sorted(fluxres.load("base.yaml", changes="c.changes").pool(1).tags) == ["a", "b", "c"]


def test_unneeded_event_list_is_dropped() -> None:
    fluxres.save(machine(), "site.db")
    graph = fluxres.load("site.db")
    for _ in range(5):
        graph.tag(1, "k")
        fluxres.save(graph, "site.db", changed_only=True)
    pending = Pending.of(graph)
    assert pending is not None
    assert pending._events == []


def test_only_one_of_two_loaded_copies_can_be_saved() -> None:
    fluxres.save(machine(), "site.db")
    one, two = fluxres.load("site.db"), fluxres.load("site.db")
    one.allocate("/demo/rack0", job="j1")
    two.allocate("/demo/rack0", job="j2")
    fluxres.save(one, "site.db", changed_only=True)
    for changed_only in (True, False):
        with pytest.raises(StoreConflict, match="1 events have been written since"):
            fluxres.save(two, "site.db", changed_only=changed_only)
    assert fluxres.load("site.db").jobs() == ["j1"]
    fluxres.save(two, "site.db", replace=True)
    assert fluxres.load("site.db").jobs() == ["j2"]


def test_saving_twice_to_a_store_loses_nothing() -> None:
    graph = machine()
    fluxres.save(graph, "site.db")
    graph.tag(1, "k")
    fluxres.save(graph, "site.db")
    assert fluxres.load("site.db").pool(1).tags == {"k": None}
    with pytest.raises(UsageError, match="already exists, with"):
        fluxres.save(machine(), "site.db")


def test_records_in_a_store_are_present_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "system", fixed(1.8e9))
    fluxres.save(machine(), "sqlite:///site.db")
    with open_store("sqlite:///site.db", clock=clock.system).writing() as transaction:
        transaction.graph.allocate("slot=3/node", job="j1", duration_s=3600)
    again = fluxres.load("sqlite:///site.db")
    assert again.clock() == 1.8e9
    assert [pool.available() for pool in again.find("type=node")] == [0, 0, 0, 1, 1, 1]
    with pytest.raises(InsufficientResources):
        again.allocate("slot=4/node", job="j2", duration_s=60)
    assert fluxres.load("sqlite:///site.db", clock=fixed(1.9e9)).pool("/demo/rack0/node0").available() == 1
    assert open_store("sqlite:///site.db", clock=clock.system).load().pool("/demo/rack0/node0").available() == 0
    for made in (again.copy(), again.duplicate(), pickle.loads(pickle.dumps(again))):
        assert made.clock() == 1.8e9
    assert fluxres.load(fluxres.dumps(again)).clock() == 1.8e9, "its allocations are at calendar times"


def test_an_open_store_is_a_source_with_its_own_clock() -> None:
    fluxres.save(machine(), "sqlite:///site.db")
    store = open_store("sqlite:///site.db", clock=fixed(77.0))
    assert fluxres.load(store).clock() == 77.0
    assert fluxres.load(store, clock=fixed(78.0)).clock() == 78.0
    with pytest.raises(UsageError, match="a store has neither a format nor options"):
        fluxres.load(store, format="cluster")
    g = fluxres.load(store)
    g.allocate("slot/node", job="j", duration_s=60)
    assert fluxres.save(g, "sqlite:///site.db", changed_only=True).events == 1


def test_a_graph_from_a_file_is_at_the_beginning_of_its_own_time() -> None:
    fluxres.save(machine(), "site.yaml")
    assert fluxres.load("site.yaml").now() == fluxres.load(fluxres.dumps(machine())).now() == 0


@pytest.mark.parametrize("form", ["whole", "changes", "file of changes"])
def test_file_with_dates_uses_calendar_time(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(clock, "system", fixed(1.8e9))
    g = machine()
    fluxres.save(g, "base.yaml")
    g.clock = clock.system
    g.allocate("slot=3/node", job="j1", duration_s=3600)
    if form == "whole":
        fluxres.save(g, "site.yaml")
        again = fluxres.load("site.yaml")
    elif form == "changes":
        fluxres.save(g, "site.changes", changed_only=True)
        again = fluxres.load("base.yaml", changes="site.changes")
    else:
        fluxres.save(g.duplicate(), "site.changes", changed_only=True)
        again = fluxres.load("site.changes")
    assert again.pool("/demo/rack0/node0").available() == 0
    assert again.clock() == 1.8e9
    assert fluxres.load("base.yaml").clock() == 0


def test_saving_a_graph_with_its_own_clock_to_a_store_is_noted() -> None:
    g = machine()
    assert fluxres.save(g, "sqlite:///site.db").note == ""
    g.allocate("slot/node", job="j1", duration_s=60)
    report = fluxres.save(g, "sqlite:///site.db", changed_only=True)
    assert "load it with a clock of your own" in report.note
    assert fluxres.load("sqlite:///site.db", clock=fixed(0)).pool("/demo/rack0/node0").available() == 0
    assert "load it with a clock of your own" in fluxres.save(g, "sqlite:///other.db").note


def test_url_names_the_graph_of_a_store() -> None:
    fluxres.save(machine(), "sqlite:site.db?graph=a")
    fluxres.save(machine(1, 1), "sqlite:site.db?graph=b")
    assert len(fluxres.load("sqlite:site.db?graph=b")) == len(machine(1, 1))
    assert fluxres.load("site.db").name == "a"
    assert fluxres.load("site.db", name="mine").name == "mine"
    with pytest.raises(UnknownGraph, match="choose from a, b"):
        fluxres.load("sqlite:site.db?graph=c")


def test_losses_in_a_file_are_reported() -> None:
    graph = ResourceGraph(machine().structure, clock=fixed(100))
    graph.stage("/demo/rack0", job="j1")
    graph.allocate("/demo/rack1", job="j2", start=2e12, duration_s=1e-6)
    report = fluxres.save(graph, "x.yaml")
    assert report.left_out[0] == "stage s0 of job j1: files do not store temporary locks"
    assert "1 rounded" in report.left_out[1]
    assert "round to nothing: 1" in report.left_out[2]
    assert fluxres.load("x.yaml").jobs() == []
    assert fluxres.save(graph, "c.changes", changed_only=True).events is None


def test_a_pool_that_is_down_keeps_its_job_in_a_file() -> None:
    graph = machine()
    graph.allocate("/demo/rack0", job="j1", start=5, end=9.5)
    graph.set_state("/demo", "down")
    fluxres.save(graph, "x.yaml")
    assert held(fluxres.load("x.yaml")) == held(graph)


def test_a_format_is_chosen_by_ending_or_name() -> None:
    assert fluxres.save(machine(), "x.yml").format == "cluster"
    assert fluxres.save(machine(), "x", format="cluster").format == "cluster"
    with pytest.raises(UsageError, match=r"extension '.xyz'.*fluxres formats"):
        fluxres.save(machine(), "x.xyz")
    with pytest.raises(UsageError, match="format"):
        fluxres.save(machine(), "x.yaml", format="dot-matrix")
    with pytest.raises(UsageError, match="format"):
        fluxres.save(machine(), "x.db", format="cluster")
    with pytest.raises(UsageError, match="format"):
        fluxres.save(machine(), "x.changes", format="cluster", changed_only=True)


# -- from a store, as commands do ------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), reshape=st.booleans())
def test_rule_s1_saves_of_changes_from_a_store_equal_a_full_save(
    tmp_path_factory: pytest.TempPathFactory, seed: int, reshape: bool
) -> None:
    folder, random = tmp_path_factory.mktemp("s"), Random(seed)
    store = open_store(str(folder / "site.db"))
    store.put("demo", machine())
    save_stored(store, "demo", folder / "base.yaml")
    names = []
    for part in range(3):
        with store.writing("demo") as tx:
            for _ in range(random.randrange(8)):
                change(tx.graph, random)
            without_stages(tx.graph)
            if reshape:
                node = fluxres.Resource("node", id=[10 + part], children=[fluxres.Resource("core", 2 + part)])
                tx.graph.merge(fluxres.build(root=node), at="/demo/rack0")
        save_stored(store, "demo", folder / "copy.db", changed_only=True)
        assert facts(fluxres.load(folder / "copy.db")) == facts(store.load())
        names.append(folder / f"{part}.changes")
        report = save_stored(store, "demo", names[-1], changed_only=True)
        assert (report.note, report.events is None) == ("", False)
    assert held(fluxres.load(folder / "base.yaml", changes=names)) == held(store.load())


def test_a_document_of_a_store_is_continued_whatever_was_saved_elsewhere_in_between() -> None:
    store = open_store("site.db")
    store.put("demo", machine())
    save_stored(store, None, "base.yaml")
    for key, events in (("a", 1), ("b", 3)):
        with store.writing() as tx:
            tx.graph.tag(1, key)
        assert save_stored(store, None, "c.changes", changed_only=True).events == events
        with store.writing() as tx:
            tx.graph.untag(1, key)
            tx.graph.tag(1, key)
        save_stored(store, None, f"{key}.yaml")
    assert save_stored(store, None, "c.changes", changed_only=True).events == 2
    assert held(fluxres.load("base.yaml", changes="c.changes")) == held(store.load())


def test_beyond_saved_places_max_the_oldest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SAVED_PLACES_MAX", 3)
    graph = machine()
    fluxres.save(graph, "base.yaml")
    for i in range(5):
        graph.tag(1, "k", str(i))
        fluxres.save(graph, f"{i}.changes", changed_only=True)
    pending = Pending.of(graph)
    assert pending is not None
    assert len(pending.marks) == 3


def test_a_store_that_was_never_saved_elsewhere_is_written_completely() -> None:
    store = open_store("site.db")
    store.put("demo", machine())
    assert save_stored(store, None, "c.changes", changed_only=True).events is None
    store.put("demo", machine(1, 1), replace=True)
    assert save_stored(store, None, "c.changes", changed_only=True).events == 1
    assert len(fluxres.load("c.changes")) == len(machine(1, 1))


def test_a_graph_is_not_saved_over_itself() -> None:
    store = open_store("sqlite:site.db?graph=demo")
    store.put("demo", machine())
    for dest in ("site.db", "sqlite:site.db?graph=demo"):
        with pytest.raises(UsageError, match="are the same graph"):
            save_stored(store, None, dest, replace=True)
    save_stored(store, None, "sqlite:site.db?graph=copy")
    assert store.names() == ["demo", "copy"]


def test_a_store_on_a_full_disk_is_saved_to_another_and_says_that_it_recorded_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(here / "site.db"))
    store.put("demo", machine())
    save_stored(store, None, "base.yaml")
    with store.writing() as tx:
        tx.graph.tag(1, "k")
    with monkeypatch.context() as disk:
        full_disk.fill(store.path, disk)
        reports = [save_stored(store, None, "later.yaml"), save_stored(store, None, "copy.db")]
    for saved in ("later.yaml", "copy.db"):
        assert held(fluxres.load(saved)) == held(store.load())
    expected = f"the save was made, but {store.path} could not record it: no space left; save everything again"
    assert [report.note.startswith(expected) for report in reports] == [True, True]
    assert save_stored(store, None, "c.changes", changed_only=True).events == 1
    assert held(fluxres.load("base.yaml", changes="c.changes")) == held(store.load())
    with pytest.raises(StoreConflict, match="follows a different state"):
        fluxres.load("later.yaml", changes="c.changes")


def test_dropped_journal_events_lead_to_a_complete_save(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_EVENTS_MAX", 5)
    monkeypatch.setattr(writing, "WEIGHT_MAX", 3)
    store = open_store("site.db")
    store.put("demo", machine())
    save_stored(store, None, "base.yaml")
    for i in range(12):
        with store.writing() as tx:
            tx.graph.tag(1, "k", str(i))
    report = save_stored(store, None, "c.changes", changed_only=True)
    assert (report.events, report.note[:22]) == (None, "everything was written")
    assert facts(fluxres.load("c.changes")) == facts(store.load())


# -- the file itself -------------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_atomically_and_keeps_its_mode(here: Path) -> None:
    path = here / "x.yaml"
    path.write_text("old")
    path.chmod(0o640)
    link = here / "link.yaml"
    link.symlink_to(path)
    fluxres.save(machine(), link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert len(fluxres.load(path)) == 39
    assert sorted(os.listdir(here)) == ["link.yaml", "x.yaml"]


@pytest.mark.parametrize("dest", ["missing/x.yaml", "/proc/x.yaml", "folder.yaml", "/dev/null"])
def test_a_place_that_cannot_be_written_to_is_named(here: Path, dest: str) -> None:
    (here / "folder.yaml").mkdir()
    with pytest.raises(StoreError) as caught:
        fluxres.save(machine(), dest, format="cluster")
    assert dest in caught.value.where
    assert caught.value.hint


def test_a_failed_write_leaves_the_old_file(here: Path) -> None:
    import resource

    path = here / "x.yaml"
    fluxres.save(machine(1, 1), path)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(StoreError, match="nothing was written"):
            fluxres.save(machine(2, 9), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert os.listdir(here) == ["x.yaml"]


SOURCES = {
    "missing.yaml": "no such file",
    "missing.changes": "no such file",
    ".": "is a directory",
    "": "is empty",
    "\0": "is not a valid file name",
    "a\ud800.yaml": "is not a valid file name",
    "x" * 5000: "File name too long",
    "base.yaml/x": "Not a directory",
    "/dev/null": "is a device",
}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: ascii(source[:20]))
def test_a_source_that_cannot_be_read_is_an_input_error_of_one_kind(source: str) -> None:
    Path("base.yaml").write_text("fluxres: 1\nresources: []\n")
    for wanted in (
        lambda: fluxres.load(source),
        lambda: fluxres.load(Path(source)) if source else fluxres.load(source),
        lambda: fluxres.load("base.yaml", changes=source),
    ):
        with pytest.raises(InputError, match=SOURCES[source]) as caught:
            wanted()
        assert caught.value.where in (source, repr(source))
        assert caught.value.hint


@pytest.mark.parametrize("source", [None, 7, 2.5])
def test_values_that_are_not_paths_are_refused(source: object) -> None:
    with pytest.raises(UsageError, match=f"got {type(source).__name__}"):
        fluxres.load(source)  # type: ignore[arg-type]  # the point of the test


def test_a_machine_can_be_read_from_a_pipe() -> None:
    fluxres.save(machine(), "base.yaml")
    os.mkfifo("pipe")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        writing = pool.submit(Path("pipe").write_bytes, Path("base.yaml").read_bytes())
        assert held(fluxres.load("pipe")) == held(machine())
        writing.result()


def document() -> list[bytes]:
    fluxres.save(machine(), "base.yaml")
    graph = fluxres.load("base.yaml")
    graph.allocate("/demo/rack0", job="j1")
    graph.tag(1, "k", "v")
    fluxres.save(graph, "c.changes", changed_only=True)
    return Path("c.changes").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: lines[:-1], "1 changes instead of 2"),
        (lambda lines: [lines[0].replace(b'"version":1', b'"version":2'), *lines[1:]], "version 2"),
        (lambda lines: [lines[0][:40] + b"\n", *lines[1:]], "c.changes:1: unreadable header"),
        (lambda lines: [lines[0].replace(b'"demo"', b'"' + b"x" * 300 + b'"'), *lines[1:]], "c.changes:1: unreadable header"),
        (lambda lines: [lines[0].replace(b'"demo"', b'"a\\n"'), *lines[1:]], "c.changes:1: .* is not a valid graph name"),
        (lambda lines: [lines[0], b"{\n", lines[2]], "c.changes:2: this change cannot be applied"),
        (lambda lines: [lines[0], lines[1].replace(b"rack0", b"rack7"), lines[2]], "c.changes:2:.*no pool 'rack7'"),
        (
            lambda lines: [lines[0], lines[1].replace(b'"start":0', b'"start":' + b"9" * 30), lines[2]],
            "start: expected a whole number",
        ),
        (lambda lines: [lines[0], lines[1].replace(b'"start":0', b'"start":0.5'), lines[2]], "start: expected.*got 0.5"),
        (lambda lines: [lines[0], lines[1].replace(b'0",1]', b'0",true]'), lines[2]], "pools: expected.*got True"),
        (lambda lines: [lines[0], lines[1].replace(b"j1", b"j2"), lines[2]], "do not lead to the state"),
        (lambda lines: [lines[0], b'{"state":{"shape":"AAAA","marks":"AAAA"}}\n', lines[2]], "c.changes:2: unreadable state"),
        (lambda lines: [lines[0], b'{"state":7}\n', lines[2]], "c.changes:2: unreadable state"),
        (lambda lines: [b"x", *lines], "not a document of changes"),
        (lambda lines: [lines[0], b"\xff\n", lines[2]], "c.changes:2"),
    ],
)
def test_a_damaged_document_of_changes_is_refused(damage: object, message: str) -> None:
    Path("c.changes").write_bytes(b"".join(damage(document())))  # type: ignore[operator]  # a function, see above
    with pytest.raises(InputError, match=message):
        fluxres.load("base.yaml", changes="c.changes")


def test_a_document_beyond_document_bytes_max_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    document()
    monkeypatch.setattr(limits, "DOCUMENT_BYTES_MAX", 100)
    with pytest.raises(LimitExceeded, match="more than 100 bytes"):
        changes.read(Path("c.changes"))


def test_allocations_of_a_file_that_break_a_rule_name_the_file() -> None:
    graph = machine()
    graph.allocate({"/demo/rack0/node0/memory0": 3}, job="j1")
    fluxres.save(graph, "x.yaml")
    text = Path("x.yaml").read_text()
    assert "memory0: 3}" in text
    Path("x.yaml").write_text(text.replace("memory0: 3}", "memory0: 9}"))
    with pytest.raises(InputError, match=r"x.yaml.*9"):
        fluxres.load("x.yaml")


SITE = b"{fluxres: 1, name: site, resources: [{type: node, count: 2, with: [{type: core, count: 4}]}]}"


@pytest.mark.parametrize(
    "source",
    [
        SITE,
        bytearray(SITE),
        memoryview(SITE),
        gzip.compress(SITE),
        io.BytesIO(SITE),
        io.StringIO(SITE.decode()),
        io.BytesIO(gzip.compress(SITE)),
        yaml.safe_load(SITE),
        MappingProxyType(yaml.safe_load(SITE)),
    ],
    ids=lambda source: type(source).__name__,
)
def test_content_and_values_are_loaded_like_a_file(source: Any) -> None:
    g = fluxres.load(source, name="other")
    assert (g.name, g.pool("/site/node1/core3").type, len(g)) == ("other", "core", 11)
    g.tag("/site", "a")
    assert fluxres.save(g, "changes.json", changed_only=True).events == 1
    again = fluxres.load(yaml.safe_load(SITE), changes="changes.json")
    assert dict(again.pool("/site").tags) == {"a": None}


@pytest.mark.parametrize("mode", ["r", "rb"])
def test_an_open_file_is_read_from_its_position_and_includes_from_its_directory(here: Path, mode: str) -> None:
    folder = here / "folder"
    folder.mkdir()
    (folder / "parts.yaml").write_text("{fluxres: 1, parts: {cpu: {type: core, count: 2}}}")
    (folder / "site.yaml").write_text("ignored\nfluxres: 1\ninclude: [parts.yaml]\nresources: [{use: cpu}]\n")
    with open(folder / "site.yaml", mode) as file:
        file.readline()
        assert len(fluxres.load(file)) == 3
    with pytest.raises(InputError, match=r"folder/site.yaml: cannot be read: .*closed file"):
        fluxres.load(file)


def test_other_formats_are_loaded_from_values() -> None:
    g = fluxres.load(SITE)
    r = g.allocate("slot=2/core", job="a", duration_s=60).R(scheduling=True)
    assert fluxres.load(r).aggregate()["core"] == 2
    assert fluxres.load(r, format="R").aggregate()["core"] == 2
    with pytest.raises(InputError, match=r"<dict>: execution: expected a finite number, got nan"):
        fluxres.load({"version": 1, "execution": float("nan")})
    with pytest.raises(InputError, match="<dict>: cannot be written as JSON: Integer exceeds 64-bit range"):
        fluxres.load({"version": 2**70, "execution": {"R_lite": []}})


def test_changes_are_loaded_from_content() -> None:
    g = fluxres.load(SITE)
    g.allocate("slot=2/core", job="a", duration_s=60)
    fluxres.save(g.duplicate(), "all.json", changed_only=True)
    assert fluxres.load(Path("all.json").read_bytes()).jobs() == ["a"]


CYCLE: dict[str, Any] = {"fluxres": 1}
CYCLE["resources"] = [CYCLE]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"<dict>: the key 'fluxres' is missing"),
        ({"fluxres": 2}, r"<dict>: fluxres: expected 1, got 2"),
        ({"fluxres": 1, "resources": [{"type": "node", "cuont": 2}]}, r"<dict>: resources\[0\].cuont: unknown key 'cuont'"),
        ({"fluxres": 1, "resources": [{"type": {1}}]}, r"<dict>: resources\[0\].type: expected text, a number.* got set"),
        ({"fluxres": 1, 2: 3}, r"<dict>: the key 2 is not text"),
        ({"fluxres": 1, "include": ["a"], "resources": []}, r"<dict>: include\[0\]: only a document loaded from a file"),
        (CYCLE, rf"more than {limits.DOCUMENT_DEPTH_MAX} levels"),
    ],
)
def test_wrong_values_are_named_by_their_path(values: dict[Any, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fluxres.load(values)


def test_values_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DOCUMENT_VALUES_MAX", 9)
    with pytest.raises(LimitExceeded, match="more than 9 values"):
        fluxres.load({"fluxres": 1, "resources": [{"type": "node", "id": range(9)}]})


class Wrapped:
    """A text file that shows this only by its encoding, like temporary files."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.written = ""

    def write(self, data: str) -> int:
        self.written += data
        return len(data)


def test_a_graph_is_written_to_an_open_file(here: Path) -> None:
    g = fluxres.load(SITE)
    text, binary, wrapped = io.StringIO(), io.BytesIO(), Wrapped()
    reports = [fluxres.save(g, stream) for stream in (text, binary, wrapped)]
    assert text.getvalue() == binary.getvalue().decode() == wrapped.written
    assert [(report.dest, report.format, report.pools) for report in reports] == [("<stream>", "cluster", 11)] * 3
    with (here / "out").open("wb") as file:
        assert fluxres.save(g, file, format="jgf").dest.endswith("out")
    assert fluxres.load("out").aggregate() == g.aggregate()
    with pytest.raises(UsageError, match=r"out: cannot be written: .*closed file"):
        fluxres.save(g, file)
    for refused in ({"changed_only": True}, {"replace": True}):
        with pytest.raises(UsageError, match=r"<stream>: .*to a file or a store"):
            fluxres.save(g, io.BytesIO(), **refused)
    with pytest.raises(UsageError, match="<stream>: format 'parquet' is binary"):
        fluxres.save(g, io.StringIO(), format="parquet")


def test_graph_is_saved_to_bytes_completely() -> None:
    g = fluxres.load(SITE)
    assert fluxres.loads(fluxres.dumps(g).decode(), name="x").name == "x"
    g.stage("/site/node0", job="a")
    with pytest.raises(UsageError, match="format 'cluster' would leave out stage s0") as refused:
        fluxres.dumps(g)
    assert refused.value.hint == (
        "nothing was written; commit or release the stages first, pickle and a store preserve it, "
        "or write without --strict (in Python, strict=False)"
    )
    assert list(pickle.loads(pickle.dumps(g)).records.stages) == ["s0"]
    assert fluxres.loads(fluxres.dumps(g, strict=False)).aggregate()["node"] == 2
    with pytest.raises(UsageError, match="expected text or bytes, got PosixPath"):
        fluxres.loads(Path("site.yaml"))  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(InputError, match="<text>: unrecognized format"):
        fluxres.loads("site.yaml")


def test_changes_of_a_part_are_refused() -> None:
    g = fluxres.load(SITE)
    with pytest.raises(UsageError, match="/site/node0: only changes of a part"):
        fluxres.save(g, "part.json", where="/site/node0", changed_only=True)
    with pytest.raises(UnknownPool):
        fluxres.save(g, "part.json", where="/site/node7")
    assert fluxres.save(g, "part.yaml", where="/site/node0").pools == 5


def test_graph_opened_from_a_store_has_no_expired_stages(tmp_path: Path) -> None:
    now, url = [1000.0], f"sqlite:///{tmp_path}/s.db"
    made = fluxres.load({"fluxres": 1, "name": "m", "resources": [{"type": "node", "count": 2}]}, clock=lambda: now[0])
    made.stage("/m/node0", job="a", ttl_s=5)
    made.stage("/m/node1", job="b", ttl_s=50)
    fluxres.save(made, url)
    now[0] = 1005.0
    store = open_store(url)
    assert list(store.load(clock=lambda: now[0]).records.stages) == ["s1"]
    graph = fluxres.load(url, clock=lambda: now[0])
    assert list(graph.records.stages) == ["s1"]
    assert graph.earliest("slot=1/node{x}") == 1005.0
    # Later changes can be written to the file that still has the stage.
    graph.allocate("/m/node0", job="c", duration_s=5)
    fluxres.save(graph, url)
    again = fluxres.load(url, clock=lambda: now[0])
    assert (again.jobs(), list(again.records.stages)) == (["c"], ["s1"])
    assert again.check() == []


def test_a_refusal_mentions_expired_stages() -> None:
    now = [0.0]
    graph = fluxres.load({"fluxres": 1, "name": "m", "resources": [{"type": "node", "count": 2}]}, clock=lambda: now[0])
    graph.stage("/m/node0", job="a", ttl_s=1)
    assert "expire()" not in str(graph.why_not("slot=2/node", duration_s=1))
    now[0] = 1.0
    revision = graph.revision
    assert r"held by a (its stage is over: expire() drops it)" in str(graph.why_not("slot=2/node", duration_s=1))
    assert graph.revision == revision
    graph.expire()
    assert graph.why_not("slot=2/node", duration_s=1) is None

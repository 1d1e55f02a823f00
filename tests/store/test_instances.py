"""Changes by instances are saved like any others: in a store, and in documents of changes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import fluxres
from fluxres import AuxiliaryGraph, Edge, Instance, Resource, ResourceGraph
from fluxres.instance.runner import Runner
from fluxres.store import Store, open_store
from tests.instance.machines import ManualClock
from tests.store.graphs import facts

BEGIN_S = 1000.0


class Late(Runner):
    """A runner that needs time to end a job."""

    def start(self, job: fluxres.Job) -> None:
        pass

    def stop(self, job: fluxres.Job, why: str) -> None:
        pass


def lab() -> ResourceGraph:
    node = Resource("node", 2, children=[Resource("core", 2)])
    pdus = [Resource("pdu", 1, size=1000, unit="W", id=[0])]
    supply = Edge("power:/pdu0", "/lab/node*", relation="supplies", capacity=500)
    return fluxres.build(node, name="lab", graphs={"power": AuxiliaryGraph(hierarchy=True, pools=pdus, edges=[supply])})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(str(tmp_path / "site.db"))
    store.put("lab", lab())
    return store


def outlast(graph: ResourceGraph, clock: ManualClock) -> None:
    """A job has not ended at its limit, and its node has been drained."""
    top = Instance(graph, runner=Late())
    job = top.submit("slot/node", duration_s=3)
    top.drain("/lab/node0")
    clock.now_s += 5
    top.advance()
    assert top.check() == []
    assert graph.allocation(str(job.id)).end > clock.now_s


def lengthen(graph: ResourceGraph, clock: ManualClock) -> None:
    """A job on a node that is down is extended."""
    top = Instance(graph)
    job = top.submit("slot/node", duration_s=3)
    top.drain("/lab/node0")
    top.set_duration(job, 60)
    graph.allocate("/lab/node1", job="mine", end=clock.now_s + 10)
    graph.set_state("/lab/node1", "down")
    graph.set_end("mine", clock.now_s + 20)


def give_a_part_back(graph: ResourceGraph, clock: ManualClock) -> None:
    """The remaining parts of a drained node get their own records."""
    top = Instance(graph)
    child = top.spawn(top.submit("slot/node"))
    top.drain("/lab/node0")
    assert child.shrink("/lab/node0/core1") == ["/lab/node0/core1"]


def come_late_in_a_child(graph: ResourceGraph, clock: ManualClock) -> None:
    """A child that draws power has not ended at its limit, and all of its suppliers are drained."""
    top = Instance(graph, runner=Late())
    child = top.spawn(top.submit("slot/node", duration_s=5), runner=Late())
    child.submit("slot/[core;power=90]")
    top.drain(["/lab/node0", "power:/pdu0"])
    clock.now_s += 8
    top.advance()
    assert top.check() == []


COURSES = (outlast, lengthen, give_a_part_back, come_late_in_a_child)


@pytest.mark.parametrize("course", COURSES)
def test_rule_d1_records_on_pools_out_of_service_are_restored(store: Store, course: Callable[..., None]) -> None:
    clock = ManualClock(BEGIN_S)
    with store.writing(clock=clock) as tx:
        course(tx.graph, clock)
    back = store.load(clock=clock)
    assert facts(back) == facts(tx.graph)
    assert back.check() == []


@pytest.mark.parametrize("course", COURSES)
def test_rule_s1_changes_include_records_on_pools_out_of_service(tmp_path: Path, course: Callable[..., None]) -> None:
    clock = ManualClock(BEGIN_S)
    fluxres.save(lab(), tmp_path / "lab.yaml")
    graph = fluxres.load(tmp_path / "lab.yaml", clock=clock)
    course(graph, clock)
    fluxres.save(graph, tmp_path / "lab.changes", changed_only=True)
    back = fluxres.load(tmp_path / "lab.yaml", changes=[tmp_path / "lab.changes"], clock=clock)
    assert facts(back)["held"] == facts(graph)["held"]


def test_changes_begin_with_a_record_on_a_drained_node(tmp_path: Path) -> None:
    clock = ManualClock(BEGIN_S)
    fluxres.save(lab(), tmp_path / "lab.yaml")
    graph = fluxres.load(tmp_path / "lab.yaml", clock=clock)
    top = Instance(graph, runner=Late())
    top.submit("slot/node", duration_s=3)
    top.drain("/lab/node0")
    fluxres.save(graph, tmp_path / "drained.yaml")
    clock.now_s += 5
    top.advance()
    fluxres.save(graph, tmp_path / "late.changes", changed_only=True)
    back = fluxres.load(tmp_path / "drained.yaml", changes=[tmp_path / "late.changes"], clock=clock)
    assert facts(back)["held"] == facts(graph)["held"]


def test_rule_d1_draws_of_a_child_are_restored(store: Store) -> None:
    clock = ManualClock(BEGIN_S)
    with store.writing(clock=clock) as tx:
        top = Instance(tx.graph)
        child = top.spawn(top.submit("slot/node"))
        child.finish(child.submit("slot/[core;power=90]"))
        child.submit("slot/[core;power=70]", duration_s=20)
        seq = tx.position.seq
    assert facts(store.load(clock=clock)) == facts(tx.graph)
    assert [entry.event["event"] for entry in store.log(after=seq)] == ["allocate", "allocate", "free", "allocate"]
    assert store.log(after=seq)[2].event["pools"] == [["power:/pdu0", 90], ["power: power:/pdu0 -> /lab/node0", 90]]


def powered_child() -> Instance:
    """A child on a node that draws watts from its parent: from a PDU in a feed, through a cable."""
    pdu = Resource("power", 1, basename="pdu", size=1000, unit="W", id=[0])
    feed = Resource("power", 1, basename="feed", size=1000, unit="W", id=[0], children=[pdu])
    supply = Edge("power:/feed0/pdu0", "/lab/node*", relation="supplies", capacity=500)
    node = Resource("node", 2, children=[Resource("core", 2)])
    top = Instance(
        fluxres.build(node, name="lab", graphs={"power": AuxiliaryGraph(hierarchy=True, pools=[feed], edges=[supply])})
    )
    return top.spawn(top.submit("slot/node"))


def by_document(graph: ResourceGraph, folder: Path) -> ResourceGraph:
    fluxres.save(graph, folder / "whole.changes", changed_only=True)
    return fluxres.load(folder / "whole.changes")


def by_store(graph: ResourceGraph, folder: Path) -> ResourceGraph:
    url = f"sqlite:///{folder}/child.db"
    fluxres.save(graph, url, replace=True)
    return fluxres.load(url, clock=fluxres.clock.fixed(0))


def by_file(graph: ResourceGraph, folder: Path) -> ResourceGraph:
    assert fluxres.save(graph, folder / "child.yaml").left_out == []
    return fluxres.load(folder / "child.yaml")


KEPT = {
    "file": by_file,
    "store": by_store,
    "document": by_document,
    "bytes": lambda graph, _: fluxres.loads(fluxres.dumps(graph)),
    "pickle": lambda graph, _: pickle.loads(pickle.dumps(graph)),
    "duplicate": lambda graph, _: graph.duplicate(),
    "copy": lambda graph, _: copy.deepcopy(graph),
}
DRAWING = ("slot/[core;power=200]", "slot/[node;power=500]")


@pytest.mark.parametrize("how", KEPT)
@pytest.mark.parametrize("request_", DRAWING)
def test_rule_s1_linked_draws_of_a_child_become_its_own_when_saved(request_: str, how: str, tmp_path: Path) -> None:
    child = powered_child()
    child.submit(request_, duration_s=20)
    child.submit("slot/[core;power=100]", duration_s=20)
    child.parent.submit("slot/[core;power=300]", duration_s=40)
    graph = child.graph
    assert graph.pool("power:/feed0").available() <= 500
    back = KEPT[how](graph, tmp_path)
    assert facts(back)["held"] == facts(graph)["held"]
    assert [held for held in facts(back)["held"] if held[1] >= graph.structure.tree_end]
    assert (back.check(), back.jobs()) == ([], graph.jobs())
    for job in back.jobs():
        back.free(job)
    # Draws of others are not known there, so all units of the parent are available.
    assert [back.pool(name).available() for name in ("power:/feed0", "power:/feed0/pdu0")] == [1000, 1000]


def test_rule_c1_duplicate_has_a_supplier_that_a_child_holds_exclusively() -> None:
    top = Instance(lab())
    child = top.spawn(top.submit("slot/node"))
    child.submit("slot/[core;pdu=3{x}]", duration_s=20)
    for made in (child.graph.duplicate(), pickle.loads(pickle.dumps(child.graph))):
        assert facts(made)["held"] == facts(child.graph)["held"]
        assert made.pool("power:/pdu0").allocated() == 1000
        assert made.check() == []


@pytest.mark.parametrize("request_", DRAWING)
def test_rule_d1_changes_of_a_child_with_linked_suppliers_are_restored(request_: str, tmp_path: Path) -> None:
    child, url = powered_child(), f"sqlite:///{tmp_path}/child.db"
    graph = child.graph
    fluxres.save(graph, url)
    fluxres.save(graph, tmp_path / "child.yaml")
    child.finish(child.submit(request_, duration_s=20))
    child.submit(request_, duration_s=20)
    assert fluxres.save(graph, url, changed_only=True).events == 3
    fluxres.save(graph, tmp_path / "child.changes", changed_only=True)
    stored = fluxres.load(url, clock=fluxres.clock.fixed(0))
    changed = fluxres.load(tmp_path / "child.yaml", changes=[tmp_path / "child.changes"])
    for back in (stored, changed):
        assert facts(back)["held"] == facts(graph)["held"]
        assert (back.check(), back.jobs()) == ([], graph.jobs())

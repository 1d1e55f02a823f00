"""What instances do to a graph is kept like any other change: in a store, and in documents of changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import fluxres
from fluxres import AuxiliaryGraph, Edge, Instance, Resource, ResourceGraph
from fluxres.instance.runner import Runner
from fluxres.store import SqliteStore, open_store
from tests.instance.machines import Hand
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
def store(tmp_path: Path) -> SqliteStore:
    store = open_store(str(tmp_path / "site.db"))
    store.put("lab", lab())
    return store


def outlast(graph: ResourceGraph, clock: Hand) -> None:
    """A job is not over at its limit, and its node has been drained."""
    top = Instance(graph, runner=Late())
    job = top.submit("slot/node", duration_s=3)
    top.drain("/lab/node0")
    clock.now_s += 5
    top.advance()
    assert top.check() == []
    assert graph.allocation(str(job.id)).end > clock.now_s


def lengthen(graph: ResourceGraph, clock: Hand) -> None:
    """A job on a node that is down is given longer."""
    top = Instance(graph)
    job = top.submit("slot/node", duration_s=3)
    top.drain("/lab/node0")
    top.set_duration(job, 60)
    graph.allocate("/lab/node1", job="mine", end=clock.now_s + 10)
    graph.set_state("/lab/node1", "down")
    graph.set_end("mine", clock.now_s + 20)


def give_a_part_back(graph: ResourceGraph, clock: Hand) -> None:
    """The parts that are left of a drained node are held by themselves."""
    top = Instance(graph)
    child = top.spawn(top.submit("slot/node"))
    top.drain("/lab/node0")
    assert child.shrink("/lab/node0/core1") == ["/lab/node0/core1"]


def come_late_in_a_child(graph: ResourceGraph, clock: Hand) -> None:
    """A child that draws power is not over at its limit, and all of its supply is drained."""
    top = Instance(graph, runner=Late())
    child = top.spawn(top.submit("slot/node", duration_s=5), runner=Late())
    child.submit("slot/[core;power=90]")
    top.drain(["/lab/node0", "power:/pdu0"])
    clock.now_s += 8
    top.advance()
    assert top.check() == []


COURSES = (outlast, lengthen, give_a_part_back, come_late_in_a_child)


@pytest.mark.parametrize("course", COURSES)
def test_rule_d1_what_jobs_hold_on_out_of_service_is_read_back(store: SqliteStore, course: Callable[..., None]) -> None:
    clock = Hand(BEGIN_S)
    with store.writing(clock=clock) as tx:
        course(tx.graph, clock)
    back = store.load(clock=clock)
    assert facts(back) == facts(tx.graph)
    assert back.check() == []


@pytest.mark.parametrize("course", COURSES)
def test_rule_s1_changes_have_what_jobs_hold_on_out_of_service(tmp_path: Path, course: Callable[..., None]) -> None:
    clock = Hand(BEGIN_S)
    fluxres.save(lab(), tmp_path / "lab.yaml")
    graph = fluxres.load(tmp_path / "lab.yaml", clock=clock)
    course(graph, clock)
    fluxres.save(graph, tmp_path / "lab.changes", changed_only=True)
    back = fluxres.load(tmp_path / "lab.yaml", changes=[tmp_path / "lab.changes"], clock=clock)
    assert facts(back)["held"] == facts(graph)["held"]


def test_changes_begin_with_a_hold_on_a_drained_node(tmp_path: Path) -> None:
    clock = Hand(BEGIN_S)
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


def test_rule_d1_what_a_child_draws_and_gives_back_is_read_back(store: SqliteStore) -> None:
    clock = Hand(BEGIN_S)
    with store.writing(clock=clock) as tx:
        top = Instance(tx.graph)
        child = top.spawn(top.submit("slot/node"))
        child.finish(child.submit("slot/[core;power=90]"))
        child.submit("slot/[core;power=70]", duration_s=20)
        seq = tx.position.seq
    assert facts(store.load(clock=clock)) == facts(tx.graph)
    assert [entry.event["event"] for entry in store.log(after=seq)] == ["allocate", "allocate", "free", "allocate"]
    assert store.log(after=seq)[2].event["pools"] == [["power:/pdu0", 90], ["power: power:/pdu0 -> /lab/node0", 90]]

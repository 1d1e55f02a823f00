"""No two stages of a graph have the same id, whatever happens to the graph in between."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import fluxres
from fluxres.model import ResourceGraph
from fluxres.store import open_store
from tests.store.graphs import machine


def staged(g: ResourceGraph) -> str:
    with g.stage("slot/core", job="j", duration_s=10) as stage:
        return stage.stage


def by_store(g: ResourceGraph, tmp: Path) -> ResourceGraph:
    fluxres.save(g, f"sqlite:///{tmp}/site.db")
    return fluxres.load(f"sqlite:///{tmp}/site.db")


def by_changes(g: ResourceGraph, tmp: Path) -> ResourceGraph:
    base = machine()
    fluxres.save(base, tmp / "base.yaml")
    for _ in range(3):
        staged(base)
    fluxres.save(base, tmp / "base.changes", changed_only=True)
    return fluxres.load(tmp / "base.yaml", changes=[tmp / "base.changes"])


def by_journal(g: ResourceGraph, tmp: Path) -> ResourceGraph:
    fluxres.save(machine(), f"sqlite:///{tmp}/site.db")
    store = open_store(f"sqlite:///{tmp}/site.db")
    for _ in range(3):
        with store.writing() as kept:
            staged(kept.graph)
    return store.load()


@pytest.mark.parametrize(
    "way",
    [by_store, by_changes, by_journal, lambda g, _: pickle.loads(pickle.dumps(g)), lambda g, _: g.duplicate()],
    ids=["store", "changes", "journal", "pickle", "duplicate"],
)
def test_stage_ids_are_never_reused(way: Callable[[ResourceGraph, Path], ResourceGraph], tmp_path: Path) -> None:
    g = machine()
    before = [staged(g) for _ in range(3)]
    assert before == ["s0", "s1", "s2"]
    after = way(g, tmp_path)
    assert not after.records.stages
    assert staged(after) == "s3"


def test_replayed_events_advance_the_stage_number() -> None:
    g, events = machine(), list[dict[str, object]]()
    g.sink = events.append
    for _ in range(2):
        staged(g)
    again = machine()
    for event in events:
        again.apply(event)
    assert staged(again) == "s2"


def test_merge_keeps_the_stage_number() -> None:
    g, other = machine(), machine()
    for _ in range(4):
        staged(other)
    staged(g)
    g.unlink("/demo/rack1/node5")
    g.merge(other.copy("/demo/rack1/node5"))
    assert staged(g) == "s1"
    other.unlink("/demo/rack1")
    assert staged(other) == "s4"


def test_refused_stage_uses_no_id() -> None:
    g = machine()
    for _ in range(2):
        with pytest.raises(fluxres.InfeasibleRequest):
            g.stage("slot=100/core", job="j", duration_s=10)
    assert staged(g) == "s0"


def test_stage_refuses_an_amount_of_0_like_an_allocation() -> None:
    g = machine()
    g.set_state("/demo", "drain")
    core = g.find("type=core").paths()[0]
    named = [(core, 1), (core, 0)]
    for call in (g.stage, g.allocate):
        with pytest.raises(fluxres.UsageError, match="amount must be at least 1, got 0"):
            call(named, job="j")

"""A new end for what a job holds: for all of its pools, or for none."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest

from fluxres.errors import InsufficientResources, LimitExceeded, NotHeld, StaleHandle, UnknownJob, UsageError
from fluxres.model import ResourceGraph
from tests.allocation.test_records import BUNDLE, CORE, LICENSE, MEMORY, NODE, machine, trace


def spans(g: ResourceGraph, job: str) -> list[tuple[str, int, float, float]]:
    return [(span.pool, span.amount, span.start, span.end) for span in g.allocation(job).spans]


def at(now_s: float) -> ResourceGraph:
    g = machine()
    g.clock = lambda: now_s
    return g


def test_pools_with_different_ends_get_one_end() -> None:
    g = at(10)
    g.allocate(CORE, job="a", start=10, end=20)
    g.allocate([(MEMORY, 3)], job="a", start=10, end=40)
    g.allocate([(MEMORY, 1)], job="a", start=30, end=40)
    assert spans(g, "a") == [(CORE, 1, 10, 20), (MEMORY, 3, 10, 30), (MEMORY, 4, 30, 40)]
    assert g.set_end("a", 35).end == 35
    assert spans(g, "a") == [(CORE, 1, 10, 35), (MEMORY, 3, 10, 30), (MEMORY, 4, 30, 35)]
    g.set_end("a", duration_s=10)
    assert spans(g, "a") == [(CORE, 1, 10, 20), (MEMORY, 3, 10, 20)]
    assert g.set_end("a", math.inf).end == math.inf
    assert g.check() == []


def test_ended_records_are_unchanged() -> None:
    g = machine()
    g.allocate(CORE, job="a", end=20)
    g.allocate([(MEMORY, 3)], job="a", end=40)
    g.clock = lambda: 30.0
    g.set_end("a", 60)
    assert spans(g, "a") == [(CORE, 1, 0, 20), (MEMORY, 3, 0, 60)]


def test_implied_pool_gets_no_record() -> None:
    g = machine()
    g.allocate(CORE, job="a", end=20)
    g.allocate(NODE, job="a", start=40, end=60)
    g.set_end("a", 80)
    assert spans(g, "a") == [(NODE, 1, 40, 80), (CORE, 1, 0, 40)]
    assert g.check() == []


def test_all_pools_are_extended_or_none() -> None:
    g = machine()
    g.allocate([CORE, (MEMORY, 3)], job="a", end=20)
    g.allocate([(MEMORY, 6)], job="b", start=50, end=60)
    before, revision = trace(g), g.revision
    with pytest.raises(InsufficientResources, match=r"requested 3 units.*held by b\) \(free until 50 s\)") as caught:
        g.set_end("a", math.inf)
    assert caught.value.reasons == {MEMORY: "b"}
    assert (trace(g), g.revision) == (before, revision)
    g.set_end("a", 50)
    with pytest.raises(InsufficientResources, match="cannot be extended"):
        g.set_end("a", 51)
    g.free("b")
    g.stage([(MEMORY, 6)], job="c", start=70, end=80)
    with pytest.raises(InsufficientResources, match=r"held by c\) \(free until 70 s\)"):
        g.set_end("a", 90)


def test_job_on_a_drained_node_is_extended() -> None:
    g = machine()
    g.allocate(NODE, job="a", end=20)
    g.pool("/demo/rack").state = "drain"
    g.set_end("a", 30)
    assert (g.allocation("a").end, g.pool("/demo/rack").state) == (30, "drain")
    assert g.pool(NODE).available(at=40) == 0


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"job": "z", "end": 90}, UnknownJob, "no job 'z'"),
        ({"job": "over", "end": 90}, NotHeld, "job 'over' ended at 10 s, and now is 30 s"),
        ({"job": "a", "end": 29}, UsageError, "the end 29 s is in the past"),
        ({"job": "later", "end": 40}, UsageError, "would end at 40 s, not after its beginning at 40 s"),
        ({"job": "later", "end": math.inf}, UsageError, "holds something from 40 s on, later than now"),
        ({"job": "a"}, UsageError, "neither an end nor a duration"),
        ({"job": "a", "end": 90, "duration_s": 9}, UsageError, "both an end and a duration"),
        ({"job": "a", "end": "1h"}, UsageError, "end: expected a time, got '1h'"),
        ({"job": "a", "duration_s": -1}, UsageError, "duration_s: expected seconds from 0 to"),
    ],
)
def test_impossible_extension_is_explained_and_changes_nothing(
    given: dict[str, Any], error: type[Exception], message: str
) -> None:
    g = machine()
    g.allocate(CORE, job="over", end=10)
    g.allocate([(MEMORY, 3)], job="a", end=60)
    g.allocate(CORE, job="later", start=40, end=60)
    g.clock = lambda: 30.0
    before = trace(g)
    with pytest.raises(error, match=message):
        g.set_end(**given)
    assert trace(g) == before


def test_extension_keeps_slots_and_is_one_event() -> None:
    g, told = machine(), []
    g.sink = lambda event: told.append(orjson.loads(orjson.dumps(event)))
    g.allocate("slot=2/core", job="a", duration_s=20)
    g.set_end("a", 60)
    g.set_end("a", 30)
    g.set_end("a", 30)
    assert [event["event"] for event in told] == ["allocate", "set_end", "set_end"]
    assert told[1] == {"event": "set_end", "job": "a", "start": 0, "end": 60_000_000}
    assert g.allocation("a").R()["execution"]["nslots"] == 2
    replayed = machine()
    replayed.clock = lambda: 10_000.0
    for event in told:
        replayed.apply(event)
    assert trace(replayed) == trace(g)


def test_earlier_match_is_stale() -> None:
    g = machine()
    g.allocate(LICENSE, job="a", end=20)
    found = g.match(f"slot/{g.pool(BUNDLE).type}", duration_s=5)
    g.set_end("a", 30)
    with pytest.raises(StaleHandle):
        g.commit_match(found, job="b")


def test_planner_refusal_halfway_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    g = machine()
    g.allocate("slot=1/core", job="a", duration_s=20)
    g.allocate([(MEMORY, 3)], job="a", end=30)
    before = trace(g)

    def full(*given: Any) -> None:
        assert g.pool(CORE).allocated(at=25) == 1  # the first of two windows is applied already
        raise LimitExceeded("too many breakpoints")

    monkeypatch.setattr(g.planner, "hold_all", full)
    with pytest.raises(LimitExceeded):
        g.set_end("a", 60)
    assert trace(g) == before


def test_latest_end_is_the_latest_that_is_accepted() -> None:
    g = at(10)
    g.allocate([(CORE, 1), (MEMORY, 4)], job="j1", start=0, end=20)
    g.allocate([(CORE, 1)], job="j1", start=40, end=50)
    with pytest.raises(UsageError, match="from 40 s on, later than now, which needs an end"):
        g.latest_end("j1")
    g.allocate(NODE, job="j2", start=80, end=90)
    latest = g.latest_end("j1")
    assert latest == 80
    with pytest.raises(InsufficientResources):
        g.set_end("j1", latest + 1)
    g.set_end("j1", latest)
    assert g.allocation("j1").end == latest
    assert g.latest_end("j1") == latest
    with pytest.raises(UnknownJob):
        g.latest_end("j9")
    with pytest.raises(UsageError, match="needs an end"):
        g.latest_end("j2")
    g.free("j2")
    g.clock = lambda: 45.0
    assert g.latest_end("j1") == math.inf
    g.clock = lambda: 100.0
    with pytest.raises(NotHeld):
        g.latest_end("j1")

"""The single writer: what it refuses, with which message, and that a refusal leaves no trace."""

from __future__ import annotations

from typing import Any

import pytest

from fluxres.clock import FOREVER
from fluxres.errors import FluxresError, InfeasibleRequest, InsufficientResources, NotHeld, StaleHandle, UnknownJob, UsageError
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.model import ResourceGraph


def machine() -> ResourceGraph:
    """A rack of two nodes with two cores and 8 GiB each, a license pool of 4 with two features, an exclusive part."""
    node = Recipe("node", count=2, children=(Recipe("core", count=2), Recipe("memory", size=8, unit="GiB", ids=None)))
    license_pool = Recipe("license", size=4, ids=None, children=(Recipe("feature", count=2),))
    bundle = Recipe("bundle", size=3, ids=None, exclusive=True)
    root = Recipe("cluster", name="demo", ids=None, children=(Recipe("rack", ids=None, children=(node,)), license_pool, bundle))
    return ResourceGraph(expand(root, origin=uuids.new_origin(bytes(16))))


NODE, CORE, MEMORY = "/demo/rack/node0", "/demo/rack/node0/core0", "/demo/rack/node0/memory"
LICENSE, FEATURE, BUNDLE = "/demo/license", "/demo/license/feature0", "/demo/bundle"


def trace(g: ResourceGraph) -> Any:
    """The complete state of the records and the planner."""
    return (
        {v: dict(holders) for v, holders in g.records.held.items()},
        {job: set(pools) for job, pools in g.records.pools_of.items()},
        {v: dict(jobs) for v, jobs in g.records.shared.items()},
        dict(g.records.stages),
        [g.planner.segments(v) for v in range(len(g))],
        g.planner.free_slice(0, len(g), 0, FOREVER).tolist(),
    )


REFUSED: list[tuple[str, dict[str, Any], type[FluxresError], str]] = [
    ("allocate", {"wanted": [(MEMORY, 9)], "job": "b"}, InfeasibleRequest, "requested 9 units of a pool of 8"),
    (
        "allocate",
        {"wanted": [(MEMORY, 6)], "job": "b", "start": 0, "end": 5},
        InsufficientResources,
        "requested 6 units, 5 of 8 free (held by a)",
    ),
    ("allocate", {"wanted": [(MEMORY, 0)], "job": "b"}, UsageError, "amount must be at least 1"),
    ("allocate", {"wanted": [(MEMORY, True)], "job": "b"}, UsageError, "whole number"),
    ("allocate", {"wanted": [], "job": "b"}, UsageError, "no pools named"),
    ("allocate", {"wanted": NODE, "job": "b"}, InsufficientResources, f"a holds {MEMORY} in it"),
    ("allocate", {"wanted": "/demo/rack", "job": "b"}, InsufficientResources, "cannot be allocated exclusively: a holds"),
    ("allocate", {"wanted": "/demo/rack/node1/core1", "job": "b"}, InsufficientResources, "held through /demo/rack/node1 by a"),
    ("allocate", {"wanted": "/demo/rack/node1/core1", "job": "a"}, InsufficientResources, "held through /demo/rack/node1 by a"),
    ("allocate", {"wanted": [("/demo/license", 4), FEATURE], "job": "b"}, UsageError, "includes it"),
    ("allocate", {"wanted": [CORE, (MEMORY, 6)], "job": "b"}, InsufficientResources, "5 of 8 free"),
    ("allocate", {"wanted": [(BUNDLE, 2)], "job": "b"}, UsageError, "only allocated exclusively"),
    ("allocate", {"wanted": CORE, "job": "b", "start": 5, "end": 5}, UsageError, "not after its beginning"),
    ("allocate", {"wanted": CORE, "job": "b", "start": 6, "end": 5}, UsageError, "not after its beginning"),
    ("allocate", {"wanted": CORE, "job": "b", "start": -1}, UsageError, "start"),
    ("allocate", {"wanted": CORE, "job": "b", "duration_s": 0}, UsageError, "positive"),
    ("allocate", {"wanted": CORE, "job": "b", "duration_s": float("nan")}, UsageError, "nan"),
    ("allocate", {"wanted": CORE, "job": "b", "end": 5, "duration_s": 5}, UsageError, "one of them"),
    ("allocate", {"wanted": CORE, "job": ""}, UsageError, "printable"),
    ("allocate", {"wanted": CORE, "job": "b\x00"}, UsageError, "printable"),
    ("allocate", {"wanted": CORE, "job": "b" * 300}, UsageError, "255 characters"),
    ("free", {"job": "nobody"}, UnknownJob, "nobody"),
    ("free", {"job": "a", "wanted": CORE}, NotHeld, "holds nothing of it"),
    ("free", {"job": "a", "wanted": "/demo/rack/node1/core0"}, NotHeld, "held through /demo/rack/node1: free that"),
    ("free", {"job": "a", "wanted": [(MEMORY, 4)]}, NotHeld, "holds 3"),
    ("free", {"job": "a", "wanted": [(MEMORY, 1)], "start": 0, "end": 20}, NotHeld, "holds 0 throughout"),
    ("free", {"job": "a", "start": 50, "end": 60}, NotHeld, "nothing in this window"),
    ("free", {"job": "a", "wanted": [(BUNDLE, 1)]}, UsageError, "free all of it"),
    ("grow", {"job": "nobody", "wanted": CORE}, UnknownJob, "nobody"),
    ("shrink", {"job": "nobody", "wanted": CORE}, UnknownJob, "nobody"),
    ("stage", {"wanted": CORE, "job": "b", "ttl_s": 0}, UsageError, "ttl_s"),
    ("stage", {"wanted": NODE, "job": "b"}, InsufficientResources, "cannot be allocated exclusively: a holds"),
]


@pytest.mark.parametrize(("operation", "arguments", "error", "message"), REFUSED)
def test_refusal_names_the_reason_and_changes_nothing(
    operation: str, arguments: dict[str, Any], error: type[FluxresError], message: str
) -> None:
    g = machine()
    g.allocate([(MEMORY, 3), "/demo/rack/node1", BUNDLE], job="a", start=0, end=10)
    before = trace(g)
    with pytest.raises(error) as caught:
        getattr(g, operation)(**arguments)
    assert message in str(caught.value)
    assert trace(g) == before
    assert g.check() == []


def test_refusal_names_the_earliest_time_and_the_holders() -> None:
    g = machine()
    g.allocate([(MEMORY, 3)], job="a", start=0, end=10)
    g.allocate([(MEMORY, 3)], job="b", start=5, end=20)
    with pytest.raises(InsufficientResources) as caught:
        g.allocate([(MEMORY, 6)], job="c", start=0, end=5)
    assert caught.value.earliest == 20
    assert caught.value.reasons == {MEMORY: "a"}
    g.allocate([(MEMORY, 6)], job="c", start=20, end=25)


def test_refusal_has_no_earliest_time_if_own_records_are_below() -> None:
    g = machine()
    g.allocate(CORE, job="a", start=0, end=13)
    g.allocate("/demo/rack", job="b", start=20, end=30)
    with pytest.raises(InsufficientResources) as caught:
        g.allocate(NODE, job="a", start=12, end=22)
    assert caught.value.earliest is None
    with pytest.raises(InsufficientResources) as caught:
        g.allocate("/demo/rack/node1", job="a", start=12, end=22)
    assert caught.value.earliest == 30


def test_allocate_grows_and_free_shrinks_under_one_name() -> None:
    g = machine()
    memory = g.pool(MEMORY)
    memory.allocate(2, "a", 0, 10)
    memory.allocate(3, "a", 5, 15)
    assert [(s.amount, s.start, s.end) for s in memory.allocations() + memory.reservations()] == [
        (2, 0, 5),
        (5, 5, 10),
        (3, 10, 15),
    ]
    memory.free("a", 2)
    assert [(s.amount, s.start, s.end) for s in memory.reservations()] == [(3, 5, 10), (1, 10, 15)]
    memory.free("a", 1, start=10, end=15)
    memory.free("a")
    assert g.jobs() == []
    assert trace(g) == trace(machine())


def test_exclusive_pool_absorbs_own_records_below_for_its_window() -> None:
    g = machine()
    g.allocate(CORE, job="a", start=0, end=20)
    g.allocate(NODE, job="a", start=5, end=10)
    assert [(s.start, s.end) for s in g.pool(CORE).allocations() + g.pool(CORE).reservations()] == [(0, 5), (10, 20)]
    assert g.pool(NODE).shared_by(at=7) == []
    assert g.pool(NODE).shared_by(at=3) == ["a"]
    assert g.pool(CORE).allocated(at=7) == 1
    assert g.pool("/demo/rack/node0/core1").available(at=7) == 0
    assert g.check() == []


def test_larger_pool_is_exclusive_only_if_one_job_holds_all_units() -> None:
    g = machine()
    g.allocate([(LICENSE, 2)], job="a")
    g.allocate([(LICENSE, 2)], job="b")
    assert not g.pool(LICENSE).exclusive
    assert g.pool(FEATURE).available() == 1
    g.free("b")
    g.allocate([(LICENSE, 2)], job="a")
    assert g.pool(LICENSE).holder == "a"
    assert g.pool(FEATURE).exclusive
    assert g.pool(FEATURE).available() == 0
    assert g.pool(FEATURE).allocations() == []
    g.pool(LICENSE).free("a", 1)
    assert g.pool(FEATURE).available() == 1
    assert g.check() == []


def test_stage_locks_commits_and_expires() -> None:
    now = [0.0]
    g = machine()
    g.clock = lambda: now[0]
    with g.stage(NODE, job="a") as stage:
        assert g.pool(NODE).staged
        assert g.jobs() == []
        with pytest.raises(InsufficientResources, match="by a"):
            g.allocate(CORE, job="b")
        stage.commit()
    assert g.jobs() == ["a"]
    assert not g.pool(NODE).staged
    with pytest.raises(StaleHandle):
        stage.commit()
    with g.stage("/demo/rack/node1", job="b"):
        pass
    assert g.pool("/demo/rack/node1").available() == 1
    lock = g.stage("/demo/rack/node1", job="b", ttl_s=30)
    now[0] = 29.0
    assert lock.active
    now[0] = 30.0
    assert not lock.active
    with pytest.raises(StaleHandle, match="expired"):
        lock.commit()
    assert g.pool("/demo/rack/node1").available() == 1
    assert g.check() == []


def test_stage_expires_at_a_change_and_not_at_a_query() -> None:
    now, events = [0.0], []
    g = machine()
    g.clock = lambda: now[0]
    g.stage(NODE, job="a", ttl_s=1)
    found = g.match("slot=1/core", duration_s=100)
    g.sink = events.append
    now[0] = 5.0
    revision = g.revision
    for ask in (
        lambda: g.pool(NODE).available(),
        lambda: g.pool(NODE).staged,
        lambda: g.find("type=node and available>=1", during=(8, 9)),
        lambda: g.match("slot=1/core"),
        lambda: g.why_not("slot=9/core"),
        lambda: g.earliest("slot=1/node"),
        lambda: g.satisfiable("slot=1/node"),
        lambda: (g.aggregate(), g.available(), g.allocated(), g.jobs(), g.check()),
        lambda: (g.copy("/demo/rack/node1"), g.duplicate()),
    ):
        ask()
        assert (g.revision, events) == (revision, [])
    g.commit_match(found, job="b")
    g.allocate(NODE, job="c", start=6, end=7)
    assert [event["event"] for event in events] == ["allocate", "release", "allocate"]
    g.stage(NODE, job="a", start=8, end=9, ttl_s=1)
    now[0] = 7.0
    g.expire()
    assert g.pool(NODE).available(at=8) == 1


def test_stage_may_name_a_pool_twice() -> None:
    g = machine()
    g.stage([(LICENSE, 2), (LICENSE, 2)], job="a").commit()
    assert g.pool(LICENSE).holder == "a"
    assert g.pool(FEATURE).available() == 0
    assert g.check() == []


def test_commit_succeeds_after_the_pool_went_down() -> None:
    g = machine()
    stage = g.stage(NODE, job="a")
    g.set_state(NODE, "down")
    stage.commit()
    assert g.pool(NODE).holder == "a"
    assert g.check() == []


def test_job_cannot_hold_a_pool_above_its_own_stage_exclusively() -> None:
    g = machine()
    stage = g.stage(NODE, job="a")
    with pytest.raises(InsufficientResources, match="cannot be allocated exclusively: a holds"):
        g.allocate("/demo/rack", job="a")
    stage.release()
    g.allocate("/demo/rack", job="a")
    assert g.check() == []


def test_commit_that_would_enclose_another_job_is_refused_and_stays_staged() -> None:
    g = machine()
    g.allocate([(LICENSE, 2)], job="a")
    stage = g.stage([(LICENSE, 2)], job="a")
    g.allocate(FEATURE, job="b")
    before = trace(g)
    with pytest.raises(InsufficientResources, match="b holds"):
        stage.commit()
    assert trace(g) == before
    g.free("b")
    stage.commit()
    assert g.pool(LICENSE).holder == "a"


def test_ended_records_are_dropped_on_request() -> None:
    g = machine()
    g.allocate(CORE, job="a", start=0, end=10)
    g.allocate(CORE, job="b", start=10, end=20)
    g.clock = lambda: 10.0
    assert g.expire() == ["a"]
    assert g.jobs() == ["b"]
    assert g.expire() == []
    assert g.check() == []


def test_audit_finds_wrong_records() -> None:
    g = machine()
    g.allocate([(MEMORY, 3)], job="a")
    v = g.vertex(MEMORY)
    g.records.held[v]["a"] = ((0, FOREVER, 9),)
    found = [problem.message for problem in g.check()]
    assert any(message.startswith("A1: 9 of 8") for message in found)
    assert any("planner" in message for message in found)
    g = machine()
    g.allocate(CORE, job="a")
    g.records.shared.clear()
    assert any(problem.message.startswith("A4") for problem in g.check())

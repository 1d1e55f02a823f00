"""Pools that are for one job at a time (RFC 4, "Exclusive flag"; rule A8)."""

from __future__ import annotations

import random

import pytest

from fluxres.errors import FluxresError, InsufficientResources
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.model import ResourceGraph


@pytest.fixture
def two() -> ResourceGraph:
    """Two exclusive nodes of four cores and 8 GiB."""
    inside = (Recipe("core", count=4), Recipe("memory", size=8, unit="GiB", ids=None))
    node = Recipe("node", count=2, exclusive=True, children=inside)
    return ResourceGraph(expand(Recipe("cluster", ids=None, children=(node,)), origin=uuids.new_origin()))


def test_rule_a8_second_job_is_refused_by_name(two: ResourceGraph) -> None:
    two.allocate("/cluster/node0/core0", job="a", start=0, end=10)
    two.allocate("/cluster/node0/core1", job="a", start=0, end=20)
    with pytest.raises(InsufficientResources, match="node0 is exclusive to one job, and a holds /cluster/node0/core1 in it"):
        two.allocate("/cluster/node0/core2", job="b", start=15, end=30)
    with pytest.raises(InsufficientResources):
        two.stage("/cluster/node0/core2", job="b", start=0, end=30)
    two.allocate("/cluster/node0/core2", job="b", start=20, end=30)
    two.stage("/cluster/node1/core0", job="b")
    with pytest.raises(InsufficientResources):
        two.allocate([("/cluster/node1/memory", 1)], job="a")
    assert two.check() == []


def test_rule_a8_maintenance_is_named_as_such_with_the_time_of_its_end(two: ResourceGraph) -> None:
    two.reserve("/cluster/node0/core0", name="weekend", start=0, end=100)
    with pytest.raises(InsufficientResources, match="and maintenance 'weekend' holds /cluster/node0/core0 in it") as refused:
        two.allocate("/cluster/node0/core1", job="b", start=0, end=30)
    assert refused.value.earliest == 100
    assert refused.value.reasons == {"/cluster/node0": "maintenance 'weekend'"}


def test_rule_a8_request_is_placed_elsewhere_or_later(two: ResourceGraph) -> None:
    two.allocate("slot=1/core=2", job="a", start=0, duration_s=10)
    assert [pool.path for pool in two.allocate("slot=2/core", job="b", start=0, duration_s=10).pools] == [
        "/cluster/node1/core0",
        "/cluster/node1/core1",
    ]
    assert two.why_not("slot=1/core", at=0, duration_s=5) is not None
    assert two.earliest("slot=1/core", after=0, duration_s=5) == 10
    assert two.satisfiable("slot=8/core")


def test_rule_a8_check_names_the_pool_and_both_jobs(two: ResourceGraph) -> None:
    two.allocate("/cluster/node0/core0", job="a")
    v = two.vertex("/cluster/node0/core1")
    two.records._hold([v], [1], 0, 10)
    two.records._note(v, "b", 1, 0, 10)
    (problem,) = two.check()
    assert problem.where == "/cluster/node0"
    assert problem.message == "A8: exclusive, and b holds /cluster/node0/core1 while a holds /cluster/node0/core0" or (
        problem.message == "A8: exclusive, and a holds /cluster/node0/core0 while b holds /cluster/node0/core1"
    )


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(12))
def test_rule_a8_holds_in_random_histories(two: ResourceGraph, seed: int) -> None:
    source = random.Random(seed)
    inside = [two.find(f"under={node}").paths() for node in ("/cluster/node0", "/cluster/node1")]
    for _ in range(60):
        job, start = source.choice("abc"), source.randrange(20)
        with_end = {"start": start, "end": start + source.randrange(1, 10)}
        name = f"/cluster/node{source.randrange(2)}/core{source.randrange(4)}"
        try:
            if source.random() < 0.25:
                two.free(job)
            else:
                two.allocate(source.choice([name, "slot=2/core", "slot/[core;memory=2]", "slot/node"]), job=job, **with_end)
        except FluxresError:
            pass
        for paths in inside:
            pools = [two.pool(path) for path in paths]
            spans = [span for pool in pools for span in (*pool.allocations(0, 30), *pool.reservations(0, 30))]
            for moment in range(30):
                assert len({span.job for span in spans if span.start < moment + 1 and span.end > moment}) <= 1
        assert two.check() == []

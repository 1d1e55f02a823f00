"""Requests on a graph: matched, recorded, refused with reasons, and never allocated twice."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

import fluxres
from fluxres.errors import FluxresError, InfeasibleRequest, InputError, InsufficientResources, StaleHandle, UsageError
from fluxres.model import ResourceGraph
from fluxres.syntax.jobspec import as_request
from tests.allocation.test_records import CORE, LICENSE, MEMORY, NODE, machine, trace

JOBSPEC: dict[str, Any] = {
    "version": 1,
    "resources": [{"type": "slot", "count": 2, "label": "task", "with": [{"type": "core", "count": 1}]}],
    "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
    "attributes": {"system": {"duration": 60}},
}


def paths(g: ResourceGraph, job: str) -> list[str]:
    return [pool.path for pool in g.allocation(job)]


@pytest.mark.parametrize("request_", ["slot=2/core", "-n2", JOBSPEC, fluxres.Request.parse("slot=2/core")])
def test_requests_are_accepted_in_any_form(request_: Any) -> None:
    g = machine()
    g.allocate(request_, job="a")
    assert paths(g, "a") == [CORE, "/demo/rack/node0/core1"]
    assert g.check() == []


def test_duration_of_the_call_overrides_that_of_the_request() -> None:
    g = machine()
    assert g.allocate(JOBSPEC, job="e", start=0, end=math.inf).end == math.inf
    g.free("e")
    assert g.allocate(JOBSPEC, job="a", at=5).end == 65
    assert g.allocate("slot/core", job="b", at=5, duration_s=7).end == 12
    assert g.allocate("slot/core", job="c", start=5, end=9).end == 9
    assert g.allocate(fluxres.Request.parse("core{x}", duration_s=3), job="d", at=100).end == 103


def test_word_is_a_type_and_path_is_a_pool() -> None:
    g = machine()
    g.allocate("node{x}", job="a", start=0, end=1)
    g.allocate(MEMORY, job="b", start=5, end=9)
    g.allocate(g.pool(CORE).uuid, job="c", start=5, end=9)
    assert paths(g, "b") == [MEMORY]
    assert paths(g, "c") == [CORE]


def test_allocate_now_or_reserve_the_earliest_time() -> None:
    g = machine()
    g.allocate("node=2{x}", job="a", duration_s=10)
    reserved = g.allocate_orelse_reserve("node=2{x}", job="b", duration_s=5)
    assert (reserved.start, reserved.end) == (10, 15)
    assert g.earliest("node{x}", duration_s=5) == 15
    assert [span.start for span in g.pool(NODE).reservations()] == [10]
    assert g.check() == []


def test_match_is_recorded_only_by_a_fresh_commit() -> None:
    g = machine()
    before = trace(g)
    found = g.match("slot=2/[core;memory=2]", duration_s=60)
    assert trace(g) == before
    assert g.commit_match(found, job="a").spans[0].end == 60
    with pytest.raises(StaleHandle, match="match again"):
        g.commit_match(found, job="b")
    assert g.jobs() == ["a"]


def test_refusal_is_not_now_with_a_time_or_never_with_reasons() -> None:
    g = machine()
    g.allocate(NODE, job="a", start=0, end=30)
    with pytest.raises(InsufficientResources) as caught:
        g.allocate("node=2{x}", job="b", duration_s=10)
    assert caught.value.earliest == 30
    assert "held by a until 30 s" in str(caught.value)
    with pytest.raises(InfeasibleRequest) as never:
        g.allocate("node=3{x}", job="b")
    assert list(never.value.reasons) == ["resources[0]"]
    assert g.satisfiable("node=2{x}")
    assert not g.satisfiable("node=3{x}")
    with pytest.raises(InfeasibleRequest, match="gpu"):
        g.match("gpu=1")
    refusal = g.why_not("node=2{x}", duration_s=10)
    assert refusal is not None
    assert refusal.sentences()[-1] == "The earliest start is 30 s."
    assert g.why_not("node{x}", duration_s=10) is None


def test_job_grows_by_request_and_stage_locks_a_request() -> None:
    g = machine()
    g.allocate("slot/core", job="a", duration_s=50)
    grown = g.grow("a", "slot=2/core")
    assert (len(grown), grown.end) == (2, 50)
    with g.stage("slot/core", job="b", duration_s=9) as stage:
        assert "core" not in g.aggregate()
        assert stage.commit().end == 9
    assert g.allocation("b").spans[0].pool == "/demo/rack/node1/core1"
    assert g.check() == []


def test_state_changes_take_effect_at_once() -> None:
    g = machine()
    assert g.match("node{x}").vertices.tolist() == [g.vertex(NODE)]
    g.set_state(NODE, "drain")
    assert g.match("node{x}").vertices.tolist() == [g.vertex("/demo/rack/node1")]
    g.unlink("/demo/rack/node1")
    with pytest.raises(InsufficientResources, match="drain"):
        g.match("node{x}")


def test_bytes_are_neither_a_request_nor_vertex_numbers() -> None:
    g = machine()
    for wanted in (b"slot/core", bytearray(b"core")):
        with pytest.raises(UsageError, match=r"pools are named by a path, .* not by "):
            g.allocate(wanted, job="a")
    assert g.jobs() == []


def test_custom_and_invalid_policies() -> None:
    g = machine()
    g.allocate("slot/core", job="a", policy="high")
    assert paths(g, "a") == ["/demo/rack/node1/core1"]
    with pytest.raises(UsageError, match="only asks for shared pools"):
        g.allocate("core", job="b")
    with pytest.raises(UsageError, match="only asks for shared pools"):
        g.stage("core", job="b")
    with pytest.raises(UsageError, match="no match policy 'best'"):
        g.match("core", policy="best")


def test_requests_come_from_yaml_text_and_files(tmp_path: Path) -> None:
    text = (
        "version: 1\nresources:\n  - type: slot\n    count: COUNT\n    label: task\n    with:\n      - {type: core, count: 1}\n"
    )
    text += "tasks:\n  - {command: [app], slot: task, count: {per_slot: 1}}\nattributes: {system: {duration: 60}}\n"
    file = tmp_path / "job.yaml"
    file.write_text(text.replace("COUNT", "3"))
    request = fluxres.Request.parse(file)
    assert (request.duration_s, len(machine().match(request))) == (60, 3)
    file.write_text(text.replace("COUNT", "three"))
    with pytest.raises(InputError, match=r"job.yaml:4:12: resources\[0\].count"):
        fluxres.Request.parse(file)
    with pytest.raises(InputError, match=r"missing\.yaml"):
        fluxres.Request.parse(tmp_path / "missing.yaml")
    assert fluxres.Request.parse(text.replace("COUNT", "2")).resources == fluxres.Request.parse(JOBSPEC).resources


@pytest.mark.parametrize(
    "wrong", ["slot=", "-N", "-q3", "node=0", "node=99999999999999999999", "slot=2/[core", {"resources": 4}, "", "{"]
)
def test_invalid_requests_are_refused_with_place(wrong: Any) -> None:
    g = machine()
    with pytest.raises(InputError):
        g.allocate(wrong, job="a")
    assert g.jobs() == []


def test_match_has_the_pools_of_its_allocation() -> None:
    g = machine()
    found = g.match("slot=2/[core;memory=3]", duration_s=60)
    pools = found.pools
    assert [pool.path for pool in pools] == [CORE, "/demo/rack/node0/core1", MEMORY]
    assert [each.pools for each in g.match_all(["slot/core"], duration_s=60)] == [(g.pool(CORE),)]
    assert g.commit_match(found, job="a").pools == pools
    g.unlink(LICENSE)
    with pytest.raises(StaleHandle):
        _ = pools[0].path
    without_graph = g.matcher.match(as_request("slot/core"), 100, 200)
    assert without_graph is not None
    with pytest.raises(UsageError, match="not found by a graph"):
        _ = without_graph.pools


def test_refusal_is_printed_as_sentences() -> None:
    g = machine()
    refusal, shortage = g.why_not("slot=9/core"), g.why_not_all(["slot/core", "slot=9/core"])
    assert refusal is not None
    assert shortage is not None
    assert str(refusal).splitlines() == refusal.sentences()
    assert str(refusal).startswith("requested 9 slots, 2 of 2 nodes have room for only 4")
    assert str(shortage).splitlines() == shortage.sentences()


REQUESTS = [
    "slot/core",
    "slot=2/core",
    "slot/[core;memory=3]",
    "slot/node",
    "node=2{x}",
    "slot=2/[memory=2]",
    "license=2{x}",
    "slot/bundle",
]
POLICIES = ["low", "high", "lonodex", "locality"]


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(12))
def test_requests_and_named_pools_mix_and_every_rule_holds(seed: int) -> None:
    source = random.Random(seed)
    g = machine()
    for step in range(60):
        job = f"j{source.randrange(5)}"
        start, duration_s = source.randrange(0, 10), source.randint(1, 6)
        pool = g.pool(source.randrange(1, len(g)))
        operation = source.randrange(5)
        try:
            if operation == 0:
                g.allocate(
                    source.choice(REQUESTS), job=job, at=start, duration_s=duration_s, policy=source.choice(["low", "high"])
                )
            elif operation == 1:
                g.allocate_orelse_reserve(source.choice(REQUESTS), job=job, after=start, duration_s=duration_s)
            elif operation == 2:
                g.allocate([(pool, source.randint(1, pool.size))], job=job, start=start, duration_s=duration_s)
            elif operation == 3:
                g.free(job)
            else:
                g.set_state(pool, source.choice(["up", "up", "drain"]))
        except FluxresError:
            continue
        assert g.check() == [], step

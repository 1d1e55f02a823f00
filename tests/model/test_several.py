"""Several requests at once: all or none, disjoint pools, and refusals that name the request."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import Resource, build, limits
from fluxres.errors import (
    FluxresError,
    InfeasibleRequest,
    InputError,
    InsufficientResources,
    LimitExceeded,
    StaleHandle,
    UsageError,
)
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.match import Placement
from fluxres.model import ResourceGraph, several
from fluxres.model.events import Event
from fluxres.syntax.jobspec import as_request
from tests import sites
from tests.allocation.test_records import BUNDLE, CORE, FEATURE, LICENSE, MEMORY, NODE, machine, trace
from tests.choices import among, integers


def rack(nodes: int = 4, *, gpus: int = 1) -> ResourceGraph:
    """Nodes of four cores; the first `gpus` of them have a gpu."""
    below = (Recipe("core", count=4),)
    parts = (
        Recipe("node", count=gpus, children=(*below, Recipe("gpu"))),
        Recipe("node", count=nodes - gpus, ids=gpus, children=below),
    )
    return ResourceGraph(expand(Recipe("cluster", children=tuple(p for p in parts if p.count)), origin=uuids.new_origin()))


def held(g: ResourceGraph) -> dict[str, list[str]]:
    return {job: [pool.name for pool in g.allocation(job)] for job in g.jobs()}


def test_each_job_gets_its_own_pools_at_one_start() -> None:
    g = rack()
    told: list[Any] = []
    g.sink = told.append
    given_ = g.allocate_all([("slot=2/node", "a"), ("slot=3/core", "b"), ("/cluster/node3", "c")], at=5, duration_s=10)
    assert [a.job for a in given_] == ["a", "b", "c"]
    assert {(a.start, a.end) for a in given_} == {(5, 15)}
    # Pools by name have no alternative and come first, whatever the order.
    assert held(g) == {"a": ["node0", "node1"], "b": ["core0", "core1", "core2"], "c": ["node3"]}
    assert [a.R()["execution"]["nslots"] for a in given_] == [2, 3, 1]
    assert ([event["event"] for event in told], g.revision, g.check()) == (["allocate_all"], 1, [])


def test_each_request_has_its_own_duration() -> None:
    g = rack()
    jobspec = {
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": ["x"], "slot": "s", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 60}},
    }
    assert [a.end for a in g.allocate_all([(jobspec, "a"), ("slot/core", "b")])] == [60, float("inf")]
    g.free("b")
    assert [a.end for a in g.allocate_all([(jobspec, "a"), ("slot/core", "b")], at=10, end=30)] == [30, 30]


def test_one_job_may_have_several_requests() -> None:
    g = rack()
    g.allocate_all([("slot/[core=4;gpu]", "a"), ("slot=2/node", "a")], duration_s=5)
    assert held(g) == {"a": ["core0", "core1", "core2", "core3", "gpu0", "node1", "node2"]}
    assert g.check() == []


def test_request_with_the_least_choice_is_matched_first() -> None:
    g = rack()
    # The first request would take the only gpu's node.
    g.allocate_all([("slot/node", "a"), ("slot/node/gpu", "b")])
    assert held(g) == {"a": ["node1"], "b": ["node0"]}
    found = rack().match_all(["slot/node", "slot/node/gpu"])
    assert [match.vertices.tolist() for match in found] == [[7], [1]]


def test_refusal_names_the_request_without_pools() -> None:
    g = rack()
    g.allocate("/cluster/node0", job="x", start=0, end=50)
    before = trace(g)
    with pytest.raises(InsufficientResources) as caught:
        g.allocate_all([("slot/core", "a"), ("slot/gpu", "b")], duration_s=5)
    error = caught.value
    assert error.where == "request 2 (b)"
    assert "1 is held by x until 50 s; 3 lack 1 gpu" in str(error)
    assert str(error).endswith("(free from 50 s on)")
    places = ["request 2 (b): resources[0]", "request 2 (b): resources[0].with[0]"]
    assert (error.earliest, list(error.reasons)) == (50, places)
    assert trace(g) == before
    assert g.revision == 1


def test_joint_failure_is_reported() -> None:
    g = rack()
    g.allocate("/cluster/node3", job="x", start=0, end=50)
    with pytest.raises(InsufficientResources) as caught:
        g.allocate_all([("slot=2/node", "a"), ("slot=2/node", "b")], duration_s=5)
    assert caught.value.earliest == 50 == g.earliest_all(["slot=2/node"] * 2, duration_s=5)
    assert "held by a until 5 s" in str(caught.value), "what the others would take is in the way"
    assert caught.value.reasons["request 2 (b)"].startswith("by itself it has a match")
    assert g.jobs() == ["x"]
    shortage = g.why_not_all(["slot=2/node"] * 2, duration_s=5)
    assert shortage is not None
    assert (shortage.number, shortage.is_alone, shortage.is_never, shortage.refusal.earliest) == (1, False, False, 50)
    assert shortage.sentences()[0] == "request 2:"
    assert g.why_not_all(["slot=2/node", "slot/node"], duration_s=5) is None


@pytest.mark.parametrize(
    ("wanted", "where"),
    [
        ([("slot=3/node", "a"), ("slot=2/node", "b")], "request 2 (b)"),
        ([("slot/node", "a"), ("slot=9/core=4", "b")], "request 2 (b)"),
        ([("slot/gpu", "a"), ("slot/gpu", "b")], "request 2 (b)"),
        ([("slot/core", "a"), ("fpga", "b")], "request 2 (b)"),
    ],
)
def test_never_is_distinguished_from_not_now(wanted: list[tuple[str, str]], where: str) -> None:
    g = rack()
    for state in ("up", "down"):
        g.set_state("/cluster/node2", state)
        for call in (g.allocate_all, g.allocate_all_orelse_reserve):
            with pytest.raises(InfeasibleRequest) as caught:
                call(wanted, duration_s=5)
            assert caught.value.where.startswith(where)
    assert g.jobs() == []


def test_pools_that_are_down_do_not_mean_never() -> None:
    g = rack()
    g.set_state("/cluster/node2", "down")
    with pytest.raises(InsufficientResources) as caught:
        g.allocate_all([("slot=2/node", "a"), ("slot=2/node", "b")], duration_s=5)
    assert caught.value.earliest is None


def test_all_start_together_at_the_earliest_time() -> None:
    g = rack()
    g.allocate("/cluster/node0", job="x", start=0, end=50)
    g.allocate("/cluster/node1", job="y", start=0, end=20)
    g.allocate("/cluster/node2", job="z", start=30, end=40)
    made = g.allocate_all_orelse_reserve([("slot=2/node", "a"), ("slot/node", "b")], after=0, duration_s=15)
    assert [(a.start, a.end) for a in made] == [(40, 55), (40, 55)]
    assert g.check() == []


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_earliest_start_is_the_first_at_which_all_match(data: st.DataObject) -> None:
    g = rack(3)
    for i in range(data.draw(integers(0, 5))):
        start = data.draw(integers(0, 12))
        try:
            shape, length = data.draw(among("slot/node", "slot=2/core", "slot/gpu")), data.draw(integers(1, 6))
            g.allocate(shape, job=f"h{i}", start=start, duration_s=length)
        except InsufficientResources:
            continue
    shapes = ["slot/node", "slot=2/node", "slot=3/core=2", "slot/[gpu;core]", "slot=2/core=4"]
    wanted = data.draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=3))
    duration = data.draw(integers(1, 7))

    def fits(at: int) -> bool:
        try:
            g.match_all(wanted, at, duration)
        except (InsufficientResources, InfeasibleRequest):
            return False
        return True

    before = trace(g)
    first = next((at for at in range(20) if fits(at)), None)
    assert g.earliest_all(wanted, duration_s=duration) == first
    assert trace(g) == before


def test_requests_are_matched_jointly_if_no_order_works() -> None:
    g = rack(4, gpus=2)
    # Each alone would take both nodes with a gpu.
    wanted = ["[slot{any}/node;slot{gpu}/node/gpu]"] * 2
    found = g.match_all(wanted, duration_s=5)
    taken = [{g.structure.name(v) for v in m.vertices.tolist()} for m in found]
    assert all(len(names & {"node0", "node1"}) == 1 for names in taken), "each has one with a gpu and one without"
    assert len(set.union(*taken)) == 4
    assert [(m.nslots, [len(group) for group in m.slots]) for m in found] == [(2, [1, 1])] * 2
    made = g.allocate_all([(shape, f"j{i}") for i, shape in enumerate(wanted)], duration_s=5)
    assert [len(a) for a in made] == [2, 2]
    assert g.check() == []
    with pytest.raises(InfeasibleRequest):
        rack(4, gpus=1).allocate_all([(shape, f"j{i}") for i, shape in enumerate(wanted)], duration_s=5)


def drawing_nodes(watts: int, nodes: int = 2) -> ResourceGraph:
    """Nodes that draw 4 W each, on one PDU."""
    below = f"- {{type: node, count: {nodes}, draw: {{pdu: 4}}, with: [{{type: core, count: 2}}]}}"
    return sites.graph(f"""\
fluxres: 1
name: m
resources:
  {below}
graphs:
  power:
    hierarchy: true
    pools: [{{type: pdu, id: [0], size: {watts}, unit: W}}]
    edges: [{{from: "power:/pdu0", to: "/m/node*", relation: supplies}}]
""")


@pytest.mark.parametrize(
    ("wanted", "watts"),
    [
        (["slot/[node;pdu=2]", "slot/node"], 6),
        (["slot/node", "slot/[node;pdu=2]"], 6),
        (["slot/[node;power=1]", "slot/node"], 5),
        (["slot/pdu=1", "slot/node", "slot/node"], 9),
        (["pdu=1", "slot/node", "slot/node"], 9),
        (["[slot{a}/node;slot{b}/pdu=1]", "slot/node"], 5),
    ],
)
def test_stated_draw_applies_to_its_own_request_only(wanted: list[str], watts: int) -> None:
    jobs = [(what, f"j{number}") for number, what in enumerate(wanted)]
    enough, short = drawing_nodes(watts), drawing_nodes(watts - 1)
    given_ = enough.allocate_all(jobs, at=0, duration_s=9)
    for allocation, what in zip(given_, wanted, strict=True):
        by_path = {span.pool: span.amount for span in allocation.spans}
        says = "pdu" in what or "power" in what
        nodes = [path for path in by_path if path.startswith("/m/node")]
        assert by_path["power:/pdu0"] == (int(what.rstrip("]").split("=")[-1]) if says else 4 * len(nodes))
    assert enough.check() == []
    before = trace(short)
    with pytest.raises(FluxresError, match="pdu0"):
        short.allocate_all(jobs, at=0, duration_s=9)
    with pytest.raises(FluxresError, match="pdu0"):
        short.match_all(wanted, duration_s=9)
    assert short.earliest_all(wanted, duration_s=9) is None
    shortage = short.why_not_all(wanted, duration_s=9)
    assert shortage is not None
    assert shortage.is_never
    assert trace(short) == before


RACKS = """\
fluxres: 1
name: m
resources:
  - type: rack
    count: 2
    with:
      - {type: pdu, size: 10, unit: W}
      - {type: node, count: 2, draw: {pdu: 4}, with: [{type: core, count: 2}]}
graphs:
  power:
    hierarchy: true
    edges:
      - {from: "/m/rack0/pdu", to: "/m/rack0/node*", relation: supplies}
      - {from: "/m/rack1/pdu", to: "/m/rack1/node*", relation: supplies}
"""


def weighed(graph: ResourceGraph, *wanted: str) -> list[Placement] | None:
    return several.match_joined(graph, [as_request(what) for what in wanted], 0, 9, "first")


@pytest.mark.parametrize("wanted", [["slot/rack", "slot/node"], ["slot/rack", "slot/[node;pdu=2]"]])
def test_jointly_matched_requests_get_the_same_as_in_sequence(wanted: list[str]) -> None:
    g = sites.graph(RACKS)
    found, one_by_one = weighed(g, *wanted), g.match_all(wanted, duration_s=9)
    assert found is not None
    for one, other in zip(found, one_by_one, strict=True):
        assert one.targets == other.targets
        assert one.drawn.tolist() == other.drawn.tolist()
        assert one.counts == other.counts


def test_units_outside_slots_are_not_matched_jointly() -> None:
    """They would be attributed to the request with a slot that takes units of the same pool."""
    node = Recipe("node", children=(Recipe("memory", size=4), Recipe("core", count=2)))
    g = ResourceGraph(expand(Recipe("cluster", children=(node,)), origin=uuids.new_origin()))
    assert weighed(g, "memory=2", "slot/memory=1") is None
    assert weighed(g, "slot/memory=2", "slot/core") is not None


def test_nodes_of_two_requests_do_not_meet() -> None:
    g = sites.graph("""\
fluxres: 1
name: m
resources:
  - {type: node, count: 4, with: [{type: core, count: 2}]}
graphs:
  net:
    hierarchy: true
    pools: [{type: spine, id: [0], size: 9}, {type: leaf, id: 0-1, size: 9}]
    edges:
      - {from: "net:/spine0", to: "net:/leaf*"}
      - {from: "net:/leaf0", to: "/m/node[0-1]"}
      - {from: "net:/leaf1", to: "/m/node[2-3]"}
""")
    # As one request, nodes of the first would meet those of the second at the spine.
    assert weighed(g, "slot=2/[node;net=1{between:node}]", "slot=2/node") is None
    first, _ = g.allocate_all([("slot=2/[node;net=1{between:node}]", "a"), ("slot=2/node", "b")], duration_s=9)
    assert not any("spine" in span.pool.split("/")[-1] for span in first.spans)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_every_joint_assignment_is_found(data: st.DataObject) -> None:
    """Compared with all assignments of nodes: slots of an exclusive node, of any kind or with a gpu."""
    nodes, gpus = data.draw(integers(2, 5)), data.draw(integers(1, 3))
    g = rack(max(nodes, gpus), gpus=gpus)
    for v in data.draw(st.sets(st.sampled_from(g.find("type=node").vertices.tolist()), max_size=2)):
        g.allocate([(v, 1)], job=f"h{v}")
    pairs = st.tuples(st.integers(0, 2), st.integers(0, 2)).filter(any)
    wanted = data.draw(st.lists(pairs, min_size=1, max_size=3))
    slots = [[f"slot={a}{{any}}/node"] * bool(a) + [f"slot={b}{{gpu}}/node/gpu"] * bool(b) for a, b in wanted]
    shapes = [f"[{';'.join(both)}]" for both in slots]
    free = g.find("type=node and available>=1").vertices.tolist()
    with_gpu = [v for v in free if g.structure.end.item(v) - v == 6]
    plain, special = sum(a for a, _ in wanted), sum(b for _, b in wanted)
    fits = special <= len(with_gpu) and plain + special <= len(free)
    try:
        made = g.allocate_all([(shape, f"j{i}") for i, shape in enumerate(shapes)], duration_s=5)
    except (InsufficientResources, InfeasibleRequest):
        assert not fits
        return
    assert fits
    assert [len(a) for a in made] == [a + b for a, b in wanted]
    assert g.check() == []


# -- matches -------------------------------------------------------------------------------------------------------------


def test_matches_are_committed_together_or_not_at_all() -> None:
    g = rack()
    first, second = g.match_all(["slot/node", "slot/node"], duration_s=5)
    assert g.jobs() == []
    g.commit_all([(first, "a"), (second, "b")])
    assert held(g) == {"a": ["node0"], "b": ["node1"]}
    one, same = (g.match("slot/node", duration_s=5) for _ in range(2))
    before = trace(g)
    with pytest.raises(InsufficientResources, match=r"request 2 \(d\): /cluster/node2: .*held by c"):
        g.commit_all([(one, "c"), (same, "d")])
    assert trace(g) == before
    assert g.commit_all([]) == []


def test_stale_match_is_refused_everywhere() -> None:
    g, other = rack(), rack()
    found = g.match("slot/node", duration_s=5)
    elsewhere = other.match("slot/node", duration_s=5)
    for stale in (elsewhere, found):
        before = trace(g)
        for call in (
            lambda m: g.commit_match(m, job="a"),
            lambda m: g.commit_all([(m, "a")]),
            lambda m: g.commit_all([(g.match("slot/core"), "b"), (m, "a")]),
        ):
            with pytest.raises(StaleHandle, match=r"match again|match on this graph"):
                call(stale)
        assert trace(g) == before
        g.tag("/cluster", "touched")
    with pytest.raises(UsageError, match="expected a match"):
        g.commit_all([("slot/node", "a")])  # type: ignore[list-item]  # what a user may try


@pytest.mark.parametrize(
    "change",
    [
        lambda g: g.allocate("/cluster/node3", job="x"),
        lambda g: g.free("y"),
        lambda g: g.stage("/cluster/node3", job="x"),
        lambda g: g.set_state("/cluster/node3", "down"),
        lambda g: g.tag("/cluster/node3", "k"),
        lambda g: g.unlink("/cluster/node3"),
        lambda g: g.allocate_all([("/cluster/node3", "x")]),
        lambda g: g.expire(before=60),
        lambda g: g.grow("y", "slot/core"),
    ],
)
def test_every_change_makes_a_match_stale(change: Any) -> None:
    g = rack()
    g.allocate("/cluster/node0", job="y", start=0, end=50)
    found = g.match("slot/node", at=5, duration_s=5)
    change(g)
    with pytest.raises(StaleHandle):
        g.commit_match(found, job="a")
    with pytest.raises(StaleHandle):
        g.commit_all([(found, "a")])
    assert "a" not in g.jobs()


# -- what is refused -----------------------------------------------------------------------------------------------------

WRONG: list[tuple[Any, type[FluxresError], str]] = [
    ([], UsageError, "no requests"),
    (["slot/core"], UsageError, "pair of request and job"),
    ([("slot/core",)], UsageError, "pair of request and job"),
    ([("slot/core", "a"), ("slot/core", "")], UsageError, "request 2: job"),
    ([("slot/core", "a"), ("slot=/core", "b")], InputError, r"request 2 \(b\): "),
    ([("slot/core", "a"), ({"resources": 3}, "b")], InputError, r"request 2 \(b\): "),
    ([("slot/core", "a"), ("/cluster/node9", "b")], FluxresError, r"request 2 \(b\): "),
    ([("slot/core", "a"), ("node", "b")], UsageError, r"request 2 \(b\): .*nothing is recorded"),
    ([("/cluster/node0", "a"), ("/cluster/node0/core0", "b")], InsufficientResources, r"request 2 \(b\): .*by a"),
    ([("/cluster/node0/core0", "a"), ("/cluster/node0", "b")], InsufficientResources, r"request 2 \(b\): .*a holds .*core0"),
]


@pytest.mark.parametrize(("wanted", "kind", "message"), WRONG)
def test_invalid_requests_are_named_and_change_nothing(wanted: Any, kind: type[FluxresError], message: str) -> None:
    g = rack()
    before = trace(g)
    with pytest.raises(kind, match=message):
        g.allocate_all(wanted, duration_s=5)
    assert (trace(g), g.revision) == (before, 0)


def test_number_of_requests_is_bounded() -> None:
    g = rack()
    with pytest.raises(LimitExceeded, match=str(limits.TOGETHER_MAX)):
        g.allocate_all([("slot/core", "a")] * (limits.TOGETHER_MAX + 1))
    with pytest.raises(UsageError, match="pools by name"):
        g.allocate_all_orelse_reserve([("/cluster/node0", "a")])
    with pytest.raises(UsageError, match="one text"):
        g.match_all("slot/core")


def test_last_units_of_a_pool_are_refused_while_others_hold_something_below() -> None:
    g = machine()
    g.allocate([(LICENSE, 3)], job="a")
    before = trace(g)
    with pytest.raises(InsufficientResources, match=r"request 1 \(a\): .*b holds /demo/license/feature0 in it"):
        g.allocate_all([([(LICENSE, 1)], "a"), (FEATURE, "b")])
    with pytest.raises(UsageError, match="all units of it at once"):
        machine().allocate_all([([(LICENSE, 1)], "c"), ([(LICENSE, 1)], "c")])
    assert trace(g) == before
    assert g.check() == []


def test_refusal_by_the_sink_changes_nothing() -> None:
    g = rack()

    def full(_event: Any) -> None:
        raise OSError("no space left")

    g.sink = full
    before = trace(g)
    with pytest.raises(OSError, match="no space"):
        g.allocate_all([("slot/node", "a"), ("slot/node", "b")])
    assert (trace(g), g.revision) == (before, 0)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(20))
def test_random_co_allocations_are_all_or_nothing(seed: int) -> None:
    source, told = random.Random(seed), []
    g = machine()
    g.sink = lambda event: told.append(orjson.dumps(event))
    things: list[Any] = ["slot/node", "slot=2/core", "slot/[core;memory=3]", "license=2{x}", "-n2", NODE, CORE, BUNDLE]
    things += [[(MEMORY, 3)], [(LICENSE, 2)], FEATURE, [CORE, (MEMORY, 1)]]
    for _ in range(30):
        wanted = [(source.choice(things), f"j{source.randrange(4)}") for _ in range(source.randint(1, 3))]
        before, order, revision, count = trace(g), g.jobs(), g.revision, len(told)
        start, length = source.randrange(6), source.choice([1, 3, None])
        try:
            made = g.allocate_all(wanted, start=start, duration_s=length)
            assert [a.job for a in made] == [job for _, job in wanted]
            assert (g.revision, len(told)) == (revision + 1, count + 1)
        except FluxresError:
            assert (trace(g), g.jobs(), g.revision, len(told)) == (before, order, revision, count)
        if source.random() < 0.4 and g.jobs():
            g.free(source.choice(g.jobs()))
        assert g.check() == []
    replayed = machine()
    for event in told:
        replayed.apply(orjson.loads(event))
    assert trace(replayed) == trace(g)


def part(job: str, path: str) -> dict[str, Any]:
    return {"job": job, "pools": [[path, 1]], "start": 0, "end": 5}


@pytest.mark.parametrize(
    "parts",
    [
        None,
        3,
        [3],
        [{}],
        [part("b", NODE), part("a", CORE)],
        [part("b", NODE), part("c", "/x")],
    ],
)
def test_failed_replay_leaves_nothing(parts: Any) -> None:
    g = machine()
    before = trace(g)
    with pytest.raises(FluxresError):
        g.apply({"event": "allocate_all", "parts": parts})
    assert trace(g) == before


def test_bound_hit_half_way_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    g = machine()
    for start in range(0, 6, 2):
        g.allocate([(MEMORY, 1)], job="x", start=start, end=start + 1)
    monkeypatch.setattr("fluxres.limits.BREAKPOINTS_MAX", 7)
    before = trace(g)
    for call in (
        lambda: g.allocate_all([(CORE, "a"), ([(MEMORY, 1)], "b")], start=20, end=30),
        lambda: g.stage([CORE, (MEMORY, 1)], job="a", start=20, end=30),
    ):
        with pytest.raises(LimitExceeded, match="breakpoints"):
            call()
        assert trace(g) == before


def test_rule_a6_free_that_hits_a_bound_changes_and_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    g = machine()
    for start in (0, 20):
        g.allocate([(MEMORY, 1)], job="x", start=start, end=start + 10)
    before, told = trace(g), list[Event]()
    g.sink = told.append
    monkeypatch.setattr("fluxres.limits.BREAKPOINTS_MAX", 5)  # there are five moments already, and 5 s would be another
    with pytest.raises(LimitExceeded, match="breakpoints"):
        g.free("x", start=5, end=25)
    assert trace(g) == before
    assert told == []
    monkeypatch.setattr("fluxres.limits.BREAKPOINTS_MAX", 7)
    g.free("x", start=5, end=25)
    assert [(span.start, span.end) for span in g.allocation("x").spans] == [(0, 5), (25, 30)]
    monkeypatch.setattr("fluxres.limits.BREAKPOINTS_MAX", 5)
    g.free("x")
    assert g.jobs() == []
    assert g.check() == []


@pytest.mark.parametrize("nodes", [1, 2])
def test_rule_a8_co_allocated_jobs_share_no_exclusive_pool(nodes: int) -> None:
    g = build(Resource("node", nodes, exclusive=True, children=[Resource("core", 4)]))
    jobs = [f"j{i}" for i in range(nodes)]
    assert [len(a) for a in g.allocate_all([("slot=1/core", job) for job in jobs], at=0, duration_s=10)] == [1] * nodes
    assert g.check() == []
    for job in jobs:
        g.free(job)
    with pytest.raises(InsufficientResources, match="lack"):
        g.allocate_all([("slot=1/core", job) for job in [*jobs, "more"]], at=0, duration_s=10)
    both = g.allocate_all([("slot=1/core", "j0"), ("slot=3/core", "j0")], at=0, duration_s=10)
    assert [len(a) for a in both] == [1, 3]
    assert g.check() == []

"""Partitions: a request gets pools of its partition only (rule P1), and the partition's state and limits bind it (rule P2)."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fluxres
from fluxres import (
    FluxresError,
    InfeasibleRequest,
    Instance,
    InsufficientResources,
    MergeConflict,
    ResourceGraph,
    UnknownType,
    UsageError,
)
from fluxres.documents.source import Source
from fluxres.formats.cluster.read import read
from fluxres.graph.compare import equal
from fluxres.graph.kinds import WAY
from fluxres.match.admission import nodes_of
from fluxres.syntax.jobspec import Request, as_request
from tests.choices import among

PARTITIONS: dict[str, Any] = {
    "batch": {"nodes": "node[0-3]", "default": True, "default_time": "1h", "max_time": "24h"},
    "debug": {"nodes": "node[3-5]", "max_time": "30m", "max_nodes": 2},
    "large": {"nodes": "all", "min_nodes": 3},
    "off": {"nodes": "/demo/rack1", "state": "down"},
}


def machine(partitions: dict[str, Any] | None = None, nodes: int = 3, cores: int = 4) -> ResourceGraph:
    """Two racks of nodes, numbered throughout."""
    node = {"type": "node", "count": nodes, "id": {"within": "cluster"}, "with": [{"type": "core", "count": cores}]}
    values = {"fluxres": 1, "name": "demo", "resources": [{"type": "rack", "count": 2, "with": [node]}]}
    text = json.dumps({**values, "partitions": PARTITIONS if partitions is None else partitions})
    return ResourceGraph(read(Source(text.encode())).structure)


def queued(shape: str, queue: str | None, duration_s: float | None = None) -> Request:
    """A request for a partition."""
    attributes = {} if queue is None else {"system": {"queue": queue}}
    return replace(as_request(shape), attributes=attributes, duration_s=duration_s)


def nodes(granted: fluxres.Allocation) -> list[str]:
    return sorted({pool.path.split("/")[3] for pool in granted.pools})


# -- P1: where a request goes --------------------------------------------------------------------------------------------


def test_rule_p1_a_request_gets_pools_of_its_partition() -> None:
    g = machine()
    assert nodes(g.allocate("-N2 -c4 -p debug -t 10m", job="a")) == ["node3", "node4"]
    assert nodes(g.allocate("-N3 -c1 --queue=large", job="b")) == ["node0", "node1", "node2"]
    with pytest.raises(InfeasibleRequest, match="2 are not in partition 'batch'"):
        g.allocate("-N5", job="c")


def test_rule_p1_the_default_partition_is_for_requests_and_not_for_pools_by_name() -> None:
    g = machine()
    assert nodes(g.allocate("slot=4/core=4", job="a")) == ["node0", "node1", "node2", "node3"]
    with pytest.raises(InsufficientResources):
        g.allocate("slot=1/core=4", job="b")
    assert nodes(g.allocate("/demo/rack1/node5/core0", job="c")) == ["node5"]
    assert g.allocation("c").end == math.inf


def test_rule_p1_without_a_default_a_request_goes_to_the_whole_machine() -> None:
    g = machine({"debug": PARTITIONS["debug"]})
    assert nodes(g.allocate("-N6", job="a")) == [f"node{i}" for i in range(6)]


def test_rule_p1_a_rack_is_exclusive_only_if_all_of_it_is_in_the_partition() -> None:
    g = machine({"a": {"nodes": ["/demo/rack0", "node3"]}})
    assert g.match(queued("rack{x}", "a")).targets == [(g.vertex("/demo/rack0"), 1)]
    with pytest.raises(InfeasibleRequest):
        g.match(queued("rack=2{x}", "a"))


def test_rule_p1_a_jobspec_names_its_queue() -> None:
    g = machine()
    resources = [{"type": "slot", "count": 1, "label": "a", "with": [{"type": "node", "count": 1}]}]
    jobspec = {"version": 1, "resources": resources, "tasks": [{"command": ["x"], "slot": "a", "count": {"per_slot": 1}}]}
    named = {"attributes": {"system": {"queue": "debug", "duration": 60}}}
    assert nodes(g.allocate({**jobspec, **named}, job="a")) == ["node3"]
    assert nodes(g.allocate({**jobspec, "attributes": {"system": {"duration": 60}}}, job="b")) == ["node0"]


@pytest.mark.parametrize("ask", ["allocate", "match", "why_not", "earliest", "satisfiable", "stage", "submit", "match_all"])
def test_an_unknown_partition_is_wrong_use_with_the_nearest_name(ask: str) -> None:
    g = machine()
    named: dict[str, Any] = {"job": "a"} if ask in ("allocate", "stage") else {}
    owner = Instance(g) if ask == "submit" else g
    with pytest.raises(UsageError, match="no partition 'bathc'") as error:
        getattr(owner, ask)(["-N1 -p bathc"] if ask == "match_all" else "-N1 -p bathc", **named)
    assert error.value.hint == "did you mean batch?"
    with pytest.raises(UsageError, match="this machine has no partitions"):
        machine({}).match("-N1 -p batch")


@pytest.mark.parametrize("where", ["-p off -t 1h", "-p debug -t 7d", "-t inf"])
@pytest.mark.parametrize("ask", ["allocate", "match", "why_not", "earliest", "satisfiable"])
def test_an_unknown_type_is_wrong_use_whatever_the_partition_allows(ask: str, where: str) -> None:
    g = machine()
    named: dict[str, Any] = {"job": "a"} if ask == "allocate" else {}
    with pytest.raises(UnknownType, match="no pool of type 'gpu'"):
        getattr(g, ask)(f"-N1 -g1 {where}", **named)


def test_several_partitions_are_refused() -> None:
    with pytest.raises(FluxresError, match="expected the name of one partition, got 'a,b'"):
        as_request("-N1 -p a,b")


# -- P2: state and limits ------------------------------------------------------------------------------------------------


def test_rule_p2_a_request_without_a_duration_gets_that_of_its_partition() -> None:
    g = machine()
    assert g.allocate("-N1", job="a").end == 3600.0
    assert g.allocate("-N1 -p debug", job="b").end == 1800.0
    assert g.allocate("-N3 -p large", job="c").end == math.inf
    assert g.allocate("-N1 -t 5m", job="d").end == 300.0
    assert g.stage("-N1", job="e").commit().end == 3600.0


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("-N1 -t 25h", "partition 'batch' allows at most 1 d per job, requested 1 d 1 h"),
        ("-N3 -p debug", "partition 'debug' allows at most 2 nodes per job, requested 3"),
        ("-N2 -p large", "partition 'large' needs at least 3 nodes per job, requested 2"),
    ],
)
def test_rule_p2_beyond_a_limit_is_never(wanted: str, said: str) -> None:
    g = machine()
    with pytest.raises(InfeasibleRequest) as error:
        g.allocate(wanted, job="a")
    assert error.value.message == said
    assert "can never start in partition" in error.value.hint
    refusal = g.why_not(wanted)
    assert refusal is not None
    assert refusal.never
    assert [each.is_lasting for each in refusal.objections] == [True]
    assert g.earliest(wanted) is None
    assert g.jobs() == []


def test_rule_p2_no_end_is_longer_than_any_limit() -> None:
    with pytest.raises(InfeasibleRequest, match="requested no end"):
        machine().allocate("-N1", job="a", end=math.inf)
    for text in ("-N1 -t inf", "-N1 --time=UNLIMITED", "-N1 -t 0"):
        with pytest.raises(InfeasibleRequest, match="requested no end"):
            machine().allocate(text, job="a")


def test_rule_p2_the_default_time_is_for_requests_that_state_none() -> None:
    g = machine({"debug": {"nodes": "all", "default_time": "20m"}})
    assert g.allocate("-N1 -p debug", job="a").end == 1200
    assert g.allocate("-N1 -p debug -t inf", job="b").end == math.inf


@pytest.mark.parametrize("state", ["down", "drain", "inactive"])
def test_rule_p2_nothing_new_is_allocated_unless_the_partition_is_up(state: str) -> None:
    g = machine()
    g.set_state("partitions:/batch", state)
    with pytest.raises(InsufficientResources, match="partition 'batch' is") as error:
        g.allocate("-N1", job="a")
    assert error.value.earliest is None
    assert "until the state of partition 'batch' changes" in error.value.hint
    assert g.earliest("-N1") is None
    assert g.satisfiable("-N1")
    assert g.why_not("-N1").reasons() == {"partition batch: state": g.why_not("-N1").objections[0].sentence()}
    g.set_state("partitions:/batch", "up")
    assert g.why_not("-N1") is None


def test_rule_p2_a_job_keeps_what_it_has_in_a_partition_that_goes_down() -> None:
    g = machine()
    g.allocate("-N1", job="a")
    g.set_state("partitions:/batch", "down")
    assert g.set_end("a", 7200.0).end == 7200.0
    with pytest.raises(InsufficientResources, match="is down"):
        g.grow("a", "-N1")
    g.free("a")


@pytest.mark.parametrize(("state", "accepted", "starts"), [("up", 1, 1), ("down", 1, 0), ("drain", 0, 1), ("inactive", 0, 0)])
def test_rule_p2_a_queue_follows_the_states_of_slurm(state: str, accepted: bool, starts: bool) -> None:
    instance = Instance(machine({"off": PARTITIONS["off"]}))
    first = instance.submit(queued("rack{x}", "off"))
    assert first.state.name == "SCHED"  # off is down
    graph = instance.graph
    graph.set_state("partitions:/off", state)
    instance.advance()
    assert (first.state.name == "RUN") == bool(starts)
    if accepted:
        assert instance.submit(queued("-N1", "off")).state.name == "SCHED"
    else:
        with pytest.raises(InsufficientResources, match="partition 'off' is"):
            instance.submit(queued("-N1", "off"))
    assert instance.check() == []


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_rule_p2_a_job_for_a_closed_partition_holds_up_no_others(policy: str) -> None:
    instance = Instance(machine(), queue_policy=policy)
    waiting = instance.submit(queued("-N1", "off"))
    first = instance.submit("-N1")
    assert (waiting.state.name, first.state.name) == ("SCHED", "RUN")
    instance.queue.sort()
    assert list(instance.queue) == []
    assert list(instance.queue.waiting()) == [waiting]
    instance.graph.set_state("partitions:/off", "up")
    instance.advance()
    assert waiting.state.name == "RUN"
    assert instance.check() == []


def test_rule_p2_a_queue_refuses_what_a_partition_never_allows() -> None:
    instance = Instance(machine())
    with pytest.raises(InfeasibleRequest, match="allows at most 2 nodes"):
        instance.submit("-N3 -p debug")
    with pytest.raises(InfeasibleRequest, match="allows at most 1 d"):
        instance.submit("-N1", duration_s=100_000)
    assert instance.submit("-N1").duration_s == 3600.0


def test_rule_p2_a_range_of_nodes_is_cut_to_the_limits() -> None:
    g = machine()
    assert len(g.match("-N1-8 -c1 -p debug").vertices) == 2
    assert len(g.match("-N1-8 -c1 -p large").vertices) == 6
    assert len(g.match("-N1+ -c1 -p debug").vertices) == 2


def test_rule_p2_pools_in_more_nodes_than_allowed_are_no_match() -> None:
    g = machine()
    refusal = g.why_not(queued("slot=3/core=4", "debug", 60))
    assert refusal is not None
    assert "what was found lies in 3" in refusal.sentences()[0]
    assert g.why_not(queued("slot=2/core=4", "debug", 60)) is None


# -- against an oracle ---------------------------------------------------------------------------------------------------

NODES, CORES = 4, 2
members = st.lists(st.integers(0, NODES - 1), min_size=1, unique=True)
limits = st.one_of(st.none(), st.integers(1, NODES))


@st.composite
def partitions(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True)):
        low, high = draw(limits), draw(limits)
        entry: dict[str, Any] = {"nodes": [f"node{i}" for i in draw(members)], "state": draw(among(*STATES))}
        entry |= {} if low is None or (high is not None and low > high) else {"min_nodes": low}
        entry |= {} if high is None else {"max_nodes": high}
        entry |= draw(st.sampled_from([{}, {"max_time": 10}, {"max_time": 10, "default_time": 5}]))
        found[name] = entry
    if draw(st.booleans()):
        found[draw(st.sampled_from(sorted(found)))]["default"] = True
    return found


STATES = ("up", "down", "drain", "inactive")
asked = st.tuples(st.integers(1, NODES), st.integers(0, NODES), st.sampled_from([None, 3.0, 10.0, 11.0]))


@given(partitions(), asked, st.sampled_from([None, "a", "b", "c"]), st.lists(st.integers(0, NODES - 1), unique=True))
@settings(max_examples=300, deadline=None)
def test_rule_p1_p2_allowed_if_and_only_if_the_oracle_says_so(
    given_: dict[str, Any], ask: tuple[int, int, float | None], queue: str | None, busy: list[int]
) -> None:
    """For `-N LOW-HIGH`: free nodes of the partition, its state, the time and the number of nodes decide, and nothing else."""
    least, more, duration_s = ask
    g = machine(given_, nodes=NODES // 2, cores=CORES)
    for i in busy:
        g.allocate(f"/demo/rack{i // (NODES // 2)}/node{i}", job=f"busy{i}")
    wanted = queued(f"-N{least}-{least + more} -x" if more else f"-N{least} -x", queue, duration_s)
    chosen = given_.get(queue) if queue else next((one for one in given_.values() if one.get("default")), None)
    if queue is not None and chosen is None:
        with pytest.raises(UsageError):
            g.match(wanted)
        return
    terms: dict[str, Any] = chosen or {}
    free = [i for i in range(NODES) if i not in busy and (not chosen or f"node{i}" in terms["nodes"])]
    low, high = max(least, terms.get("min_nodes", 0)), min(least + more, terms.get("max_nodes", NODES), len(free))
    unstated = terms.get("default_time", terms.get("max_time", math.inf))
    length = unstated if duration_s is None else duration_s
    allowed = terms.get("state", "up") == "up" and length <= terms.get("max_time", math.inf) and low <= high
    refusal = g.why_not(wanted)
    assert (refusal is None) == allowed, refusal
    assert (g.earliest(wanted) == 0.0) == allowed
    if not allowed:
        with pytest.raises((InsufficientResources, InfeasibleRequest)):
            g.allocate(wanted, job="a")
        return
    granted = g.allocate(wanted, job="a")
    assert len(granted.pools) == high
    assert {int(pool.path[-1]) for pool in granted.pools} <= set(free)
    assert granted.end == length


@given(st.sampled_from(["-N2", "-N2-4", "slot=2/node=3", "rack/node=1-2", "slot/core", "[node;slot/node=2-3]", "node/node=2"]))
def test_nodes_of_a_request(shape: str) -> None:
    expected = {"-N2": (2, 2), "-N2-4": (2, 4), "slot=2/node=3": (6, 6), "rack/node=1-2": (1, 2), "slot/core": (0, 0)}
    expected |= {"[node;slot/node=2-3]": (3, 4), "node/node=2": (3, 3)}
    assert nodes_of(as_request(shape)) == expected[shape]


# -- what becomes of them ------------------------------------------------------------------------------------------------


def told(g: ResourceGraph) -> dict[str, Any]:
    def one(each: Any) -> tuple[Any, ...]:
        limits = each.is_default, each.default_time_s, each.max_time_s, each.min_nodes, each.max_nodes
        return each.state, g.select(each.members).paths(), *limits

    return {name: one(each) for name, each in g.partitions.items()}


@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), ResourceGraph.duplicate, ResourceGraph.copy]
)
def test_copies_of_the_machine_have_them(how: Callable[[ResourceGraph], ResourceGraph]) -> None:
    g = machine()
    g.set_state("partitions:/debug", "inactive")
    made = how(g)
    assert told(made) == told(g)
    made.set_state("partitions:/debug", "up")
    assert g.partitions["debug"].state == "inactive"


@pytest.mark.parametrize("name", ["m.yaml", "m.json", "m.graphml", "sqlite"])
def test_files_and_stores_have_them(name: str, tmp_path: Path) -> None:
    g = machine()
    g.set_state("partitions:/debug", "inactive")
    g.tag("partitions:/debug", "reason", "upgrade")
    place = f"sqlite:///{tmp_path / 'x.db'}" if name == "sqlite" else str(tmp_path / name)
    fluxres.save(g, place)
    assert told(fluxres.load(place)) == told(g)
    if name == "m.yaml":
        assert 'debug: {nodes: "node[3-5]", state: inactive, max_time: 30m' in Path(place).read_text()
        assert equal(fluxres.load(place).structure, g.structure) == []


def test_a_copy_of_a_part_has_the_members_that_are_in_it() -> None:
    g = machine()
    rack = g.copy("/demo/rack1")
    assert {name: len(each.members) for name, each in rack.partitions.items()} == {"batch": 1, "debug": 3, "large": 3, "off": 3}
    assert rack.partitions["off"].state == "down"
    assert nodes(rack.allocate("-N1", job="a")) == ["node3"]
    assert rack.check() == []


def test_what_a_job_got_is_its_own_in_a_copy_and_in_a_child() -> None:
    g = machine()
    g.allocate("-N2 -x", job="a")
    assert dict(g.copy(job="a").partitions) == {}
    assert g.copy(job="a").allocate("-N2", job="b").end == math.inf
    instance = Instance(machine())
    child = instance.spawn(instance.submit("-N2 -x"))
    assert dict(child.graph.partitions) == {}
    assert child.submit("-N2").state.name == "RUN"
    assert instance.check() == []


def test_merge_and_unlink_take_members_along() -> None:
    g = machine()
    rack = g.copy("/demo/rack1")
    g.unlink("/demo/rack1")
    assert {name: len(each.members) for name, each in g.partitions.items()} == {"batch": 3, "debug": 0, "large": 3, "off": 0}
    g.merge(rack)
    assert {name: len(each.members) for name, each in g.partitions.items()} == {"batch": 4, "debug": 3, "large": 6, "off": 3}
    assert not (g.structure.flags[[each.vertex for each in g.partitions.values()]] & WAY).any()
    assert g.check() == []


def test_two_machines_with_a_partition_of_one_name_are_not_merged() -> None:
    def site(name: str, *partitions: str) -> ResourceGraph:
        told = {each: {"nodes": "all", "default": each == partitions[0]} for each in partitions}
        return fluxres.build(
            fluxres.Resource("node", 2, basename=f"{name}-", children=[fluxres.Resource("core")]), name=name, partitions=told
        )

    center = fluxres.build(root=fluxres.Resource("center", name="c"))
    center.merge(site("one", "batch", "debug"), at="/c")
    with pytest.raises(MergeConflict, match="two partitions are named 'debug'"):
        center.merge(site("two", "gpu", "debug"), at="/c")
    center.merge(site("two", "gpu"), at="/c")
    assert [name for name, each in center.partitions.items() if each.is_default] == ["batch"]
    assert [pool.path for pool in center.allocate("-N2 -x -p gpu", job="a").pools] == ["/c/two/two-0", "/c/two/two-1"]


def test_members_change_with_edges() -> None:
    g = machine()
    g.remove_edge("partitions:/batch", "/demo/rack0/node0", "partitions")
    g.add_edge("partitions:/batch", "/demo/rack1/node5", "partitions", relation="schedules")
    assert g.select(g.partitions["batch"].members).paths()[-1] == "/demo/rack1/node5"
    assert nodes(g.allocate("-N4", job="a")) == ["node1", "node2", "node3", "node5"]


def test_a_shrink_is_not_bound_but_may_name_a_partition() -> None:
    g = machine()
    g.allocate("-N4 -x", job="a")
    assert g.shrink("a", queued("node{x}", "debug")).pools[0].path == "/demo/rack1/node3"
    g.set_state("partitions:/batch", "down")
    assert len(g.shrink("a", "node{x}").pools) == 1


def test_several_requests_go_to_their_partitions_together() -> None:
    g = machine()
    found = g.allocate_all([("-N2 -x -p debug", "a"), ("-N3 -x", "b")])
    assert [nodes(one) for one in found] == [["node3", "node4"], ["node0", "node1", "node2"]]
    with pytest.raises(InfeasibleRequest, match="request 2"):
        machine().allocate_all([("-N1", "a"), ("-N3 -p debug", "b")])


def test_a_partition_cannot_be_in_a_state_of_a_node() -> None:
    g = machine()
    with pytest.raises(UsageError, match="a partition cannot be failing"):
        g.set_state("partitions:/batch", "failing")
    assert g.partitions["batch"].state == "up"


def test_a_down_partition_takes_nothing_out_of_service() -> None:
    g = machine()
    before = len(g.find("status=up and type=node"))
    g.set_state("partitions:/large", "down")
    assert len(g.find("status=up and type=node")) == before
    assert np.array_equal(g.structure.unavailable_roots(), sorted([g.vertex("partitions:/large"), g.vertex("partitions:/off")]))

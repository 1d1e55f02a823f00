"""Requests for amounts on graphs: refusals with their reason, machines of other formats, pools that change while in use."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import fluxres
from fluxres import limits
from fluxres.allocation.chosen import Chosen
from fluxres.errors import InfeasibleRequest, InsufficientResources
from fluxres.formats.peers.hyperqueue.environment import HOST_FILE, NODE_FILE, environment, node_files
from fluxres.formats.peers.hyperqueue.read import read_words
from fluxres.model import ResourceGraph
from fluxres.model.events import Event
from fluxres.store import open_store
from fluxres.syntax import jobspec
from fluxres.syntax.jobspec import Request


def worker(text: str, *, fractions: bool = True) -> ResourceGraph:
    return ResourceGraph(read_words(text, fractions=fractions).structure)


def ask(text: str) -> Request:
    return Request.parse(text, format="hyperqueue")


def values(graph: ResourceGraph, text: str, job: str) -> str:
    return environment(ask(text), graph.allocate(ask(text), job=job))["HQ_RESOURCE_VALUES_cpus"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("gpus=3", fluxres.InfeasibleRequest, "requested 3 gpus, there are only 2"),
        ("fpgas=1", fluxres.InfeasibleRequest, "no 'fpgas'"),
        ("fpgas=1 | gpus=9", fluxres.InfeasibleRequest, "variant 0: this machine has no fpgas"),
        ("mem=65", fluxres.InfeasibleRequest, "mem"),
        ("gpus=2", fluxres.InsufficientResources, "1 is held by held"),
        ("gpus=all", fluxres.InsufficientResources, "requested all of gpus, some of it is held in each node"),
        ("gpus=1.5", fluxres.InsufficientResources, "a fraction is of one index, and one node has at most 1"),
        (
            "cpus=4 compact!",
            fluxres.InsufficientResources,
            "cpus compact!: it waits for as few groups as an idle node would need",
        ),
        ("--nodes 1", fluxres.InsufficientResources, "something in it is held"),
        ("gpus=1 gpu=1", fluxres.InputError, "are the same resource"),
        ("gpus=0.12345", fluxres.InputError, "precision exceeded"),
        ("gpus=0", fluxres.InputError, "Zero resources"),
        ("gpus=-1", fluxres.InputError, "expected an amount"),
        ("gpus=1 gpus=1", fluxres.InputError, "defined more than once"),
    ],
)
def test_a_refusal_says_why_and_changes_nothing(text: str, error: type[Exception], message: str) -> None:
    graph = worker("cpus=2x4 gpus=[a,b] mem=sum(64)")
    graph.allocate(ask("gpus=1 cpus=1"), job="held")
    graph.allocate(ask("cpus=2 scatter"), job="beside")
    before = graph.revision
    with pytest.raises(error, match=message):
        graph.allocate(ask(text), job="j")
    assert graph.revision == before
    assert "j" not in graph.jobs()


def test_why_and_when_answer_as_for_any_request() -> None:
    graph = worker("cpus=1x4 gpus=[a]")
    graph.allocate(ask("gpus=0.5"), job="a", end=60)
    refusal = graph.why_not(ask("gpus=0.75"))
    assert refusal is not None
    assert refusal.earliest == graph.earliest(ask("gpus=0.75")) == 60.0
    assert graph.why_not(ask("gpus=0.5")) is None
    later = graph.allocate_orelse_reserve(ask("gpus=0.75"), job="b", duration_s=10)
    assert (later.start, later.end) == (60.0, 70.0)
    assert graph.match(ask("gpus=0.5"), duration_s=60).pools[-1].type == "share"
    found = graph.match_all([ask("gpus=0.25"), ask("cpus=2")], duration_s=5)
    assert [one.variant for one in graph.commit_all(zip(found, "cd", strict=True)) for one in [one.chosen] if one] == [0, 0]
    assert graph.check() == []


@pytest.mark.parametrize(
    ("text", "values_each"),
    [("cpus=2", "3,2"), ("cpus=2 compact", "3,2"), ("cpus=all", "3,2,1,0")],
)
def test_an_ordinary_machine_serves_such_requests(text: str, values_each: str) -> None:
    core = fluxres.Resource("core", 4)
    graph = fluxres.build(fluxres.Resource("cluster", children=(fluxres.Resource("node", 2, children=(core,)),)))
    assert values(graph, text, "a") == values_each
    assert graph.check() == []
    assert {pool.path.split("/")[2] for pool in graph.allocated("a")} == {"node0"}


def test_groups_are_the_sockets_of_a_machine_and_gpus_in_them_are_close() -> None:
    inside = (fluxres.Resource("core", 4), fluxres.Resource("gpu", 1))
    socket = fluxres.Resource("socket", 2, children=inside)
    graph = fluxres.build(fluxres.Resource("cluster", children=(fluxres.Resource("node", children=(socket,)),)))
    graph.allocate(ask("cpus=1"), job="a")
    found = graph.allocate(ask("gpus=1 cpus=4"), job="b")
    assert {pool.path.split("/")[3] for pool in found.pools} == {"socket1"}


def test_order_of_returns_survives_a_store_a_pickle_and_a_change_of_the_machine(tmp_path: Path) -> None:
    graph = worker("cpus=1x4")
    for job in ("x", "y"):
        graph.allocate(ask("cpus=2"), job=job)
    graph.free("x")
    graph.free("y")
    store = open_store(str(tmp_path / "site.db"))
    store.put("w", graph)
    with store.writing("w", command="allocate") as tx:
        tx.graph.allocate(ask("cpus=1"), job="z")
        tx.graph.free("z")
    for one in (graph, pickle.loads(pickle.dumps(graph)), store.load("w"), open_store(str(tmp_path / "site.db")).load("w")):
        assert values(one, "cpus=4", "all") == "1,0,3,2"
        assert one.allocation("all").chosen == Chosen((4, 2, 8, 6), 0) or one.check() == []
    more = store.load("w")
    more.apply(worker("cpus=1x6"))
    assert values(more, "cpus=6", "all") == "1,0,3,2,5,4"


def test_a_worker_whose_pools_change_while_they_are_in_use() -> None:
    graph = worker("cpus=1x4 gpus=[a,b] mem=sum(10)")
    graph.allocate(ask("cpus=2 gpus=0.5 mem=4"), job="a")
    graph.apply(worker("cpus=1x8 gpus=[a,b,c] mem=sum(20)"))
    assert graph.check() == []
    assert values(graph, "cpus=6 gpus=2", "b") == "7,6,5,4,1,0"
    with pytest.raises(fluxres.InsufficientResources):
        graph.allocate(ask("mem=17 cpus=1"), job="c")
    graph.free("b")
    graph.apply(worker("cpus=1x3 gpus=[b] mem=sum(20)"), drain=True)
    assert graph.check() == []
    assert set(graph.jobs()) == {"a"}
    graph.free("a")
    assert values(graph, "cpus=2 gpus=1", "d") in ("2,1", "2,0")


def test_parts_of_a_choice_are_freed() -> None:
    graph = worker("cpus=1x4")
    graph.allocate(ask("cpus=3"), job="a")
    graph.free("a", "/cluster/node0/core3")
    chosen = graph.allocation("a").chosen
    assert chosen is not None
    assert [graph.pool(v).name for v in chosen.pools] == ["core2", "core1"]
    graph.grow("a", ask("cpus=1"))
    assert [graph.pool(v).name for v in graph.records.chosen["a"].pools] == ["core2", "core1", "core3"]


def test_a_task_on_several_nodes_has_files_with_their_names(tmp_path: Path) -> None:
    lines = b"--cpus 2 --hostname a.example.org\n--cpus 2 --hostname b.example.org\n"
    from fluxres.formats import registry

    graph = ResourceGraph(registry.read(lines).structure)
    got = graph.allocate(ask("--nodes 2"), job="j")
    assert environment(ask("--nodes 2"), got, folder=tmp_path) == {
        "HQ_NUM_NODES": "2",
        "HQ_NODE_FILE": str(tmp_path / NODE_FILE),
        "HQ_HOST_FILE": str(tmp_path / HOST_FILE),
    }
    assert node_files(got) == {NODE_FILE: "a\nb\n", HOST_FILE: "a.example.org\nb.example.org\n"}
    assert environment(ask("--nodes 2"), got) == {"HQ_NUM_NODES": "2"}


def test_variables_of_variants_devices_and_amounts() -> None:
    graph = worker("cpus=1x4 gpus/nvidia=[x7,x9] gpus/amd=[0] mem=sum(1.5)")
    request = ask("cpus=9 | cpus=1.5 gpus/nvidia=1 gpus/amd=1 mem=0.25")
    assert environment(request, graph.allocate(request, job="j"), policy=True, pin="omp") == {
        "HQ_RESOURCE_REQUEST_cpus": "1.5 compact",
        "HQ_RESOURCE_VALUES_cpus": "3,2",
        "HQ_CPUS": "3,2",
        "HQ_PIN": "omp",
        "OMP_PROC_BIND": "close",
        "OMP_PLACES": "{3,2}",
        "HQ_RESOURCE_REQUEST_gpus_nvidia": "1 compact",
        "HQ_RESOURCE_VALUES_gpus_nvidia": "x9",
        "CUDA_VISIBLE_DEVICES": "x9",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "HQ_RESOURCE_REQUEST_gpus_amd": "1 compact",
        "HQ_RESOURCE_VALUES_gpus_amd": "0",
        "ROCR_VISIBLE_DEVICES": "0",
        "HQ_RESOURCE_REQUEST_mem": "0.25 compact",
        "HQ_RESOURCE_VARIANT": "1",
    }
    with pytest.raises(fluxres.UsageError, match="not in the language of HyperQueue"):
        environment(Request.parse("slot/core"), graph.allocation("j"))


def test_a_stage_keeps_the_order_of_indices() -> None:
    words = "cpus=1x4 gpus=[a,b]"
    task = Request.parse("cpus=2 gpus=1 | cpus=1", format="hyperqueue")
    graph, other = (ResourceGraph(read_words(words).structure) for _ in range(2))
    events: list[Event] = []
    graph.sink = events.append
    for each in (graph, other):  # what came back last is chosen first
        each.allocate(Request.parse("cpus=3", format="hyperqueue"), job="before")
        each.free("before", [("/cluster/node0/core2", 1)])
        each.free("before")
    direct = other.allocate(task, job="j")
    with graph.stage(task, job="j") as stage:
        staged = stage.commit()
    assert staged.chosen == direct.chosen == graph.records.chosen["j"]
    assert environment(task, staged) == environment(task, direct)
    replayed = ResourceGraph(read_words(words).structure)
    for event in events:
        replayed.apply(event)
    assert replayed.records.chosen["j"].pools == graph.records.chosen["j"].pools
    for each in (graph, other, replayed):
        each.free("j")
    assert graph.records.returns.in_order() == other.records.returns.in_order() == replayed.records.returns.in_order()


@pytest.mark.parametrize("format", ["hyperqueue", "canary", "ctest", "jqm"])
def test_the_rule_of_a_long_request_survives_its_jobspec(format: str) -> None:
    text = {
        "hyperqueue": "cpus=1 " + " " * 5000 + "| gpus=1",
        "canary": " " * 5000 + "gpus=1",
        "ctest": ";".join(["gpus:1"] * 1000),
        "jqm": "queue=q1 " + " ".join(f"p{number}=1" for number in range(1000)),
    }[format]
    request = Request.parse(text, format=format)
    assert len(text) > limits.VALUE_LENGTH_MAX
    task = {"command": ["a"], "slot": "task", "count": {"per_slot": 1}}
    again = Request.parse({**jobspec.to_plain(request), "tasks": [task]})
    assert again.chooser == request.chooser
    assert again.chooser is not None


def test_a_refusal_names_amounts_in_parts_as_the_request_does() -> None:
    graph = fluxres.load("hyperqueue:cpus=4 mem=sum(3.5)", fractions=True)
    graph.allocate(Request.parse("mem=3", format="hyperqueue"), job="a")
    with pytest.raises(InsufficientResources, match=r"requested 0\.75 of mem, only 0\.5 available"):
        graph.allocate(Request.parse("mem=0.75", format="hyperqueue"), job="b")
    with pytest.raises(InfeasibleRequest, match=r"requested 9 of mem, only 3\.5 available"):
        graph.allocate(Request.parse("mem=9", format="hyperqueue"), job="b")

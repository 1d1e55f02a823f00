"""A machine described in Python equals that of the equivalent cluster file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluxres
from fluxres import AuxiliaryGraph, Edge, Hostlist, IDset, Resource, build, limits
from fluxres.errors import FluxresError, InputError, LimitExceeded, UsageError
from fluxres.graph.compare import equal
from tests.traceability import ROOT


def demo() -> fluxres.ResourceGraph:
    """The machine of data/clusters/demo.yaml."""
    within: dict[str, Any] = {"start": 0, "within": "node"}
    socket = Resource(
        "socket",
        2,
        children=[
            Resource("core", 8, id=within),
            Resource("gpu", 1, id=within),
            Resource("memory", size=64, unit="GiB"),
        ],
    )
    node = Resource(
        "node",
        4,
        id=range(8),
        properties={"ssd": None, "class": 3},
        children=[socket, Resource("ssd", size=960, unit="GB")],
    )
    supplies: dict[str, Any] = {"relation": "supplies"}
    both: dict[str, Any] = {"relation": "connects", "direction": "both"}
    power = AuxiliaryGraph(
        hierarchy=True,
        pools=[Resource("pdu", 2, size=np.int64(24000), unit="W")],
        edges=[
            Edge("power:/pdu[0-1]", "/demo/rack[0-1]", capacity=24000, **supplies),
            Edge("/demo/rack0", "/demo/rack0/node*", capacity=4000, **supplies),
            Edge("/demo/rack1", "/demo/rack1/node*", capacity=4000, **supplies),
        ],
    )
    network = AuxiliaryGraph(
        pools=[Resource("switch", name="spine"), Resource("switch", 2, basename="leaf")],
        edges=[
            Edge("network:/spine", "network:/leaf[0-1]", capacity=400, **both),
            Edge("network:/leaf0", "/demo/rack0/node*", capacity=100, **both),
            Edge("network:/leaf1", ["/demo/rack1/node*"], capacity=100, **both),
        ],
    )
    return build(Resource("rack", 2, children=[node]), name="demo", graphs={"power": power, "network": network})


def test_build_equals_the_same_file() -> None:
    made, read = demo(), fluxres.load(ROOT / "data" / "clusters" / "demo.yaml")
    assert equal(made.structure, read.structure, uuids=False) == []
    assert (made.name, made.check(), made.clock()) == ("demo", [], 0)
    made.allocate("slot=2/[core=8;gpu]", job="a", duration_s=60)
    with pytest.raises(fluxres.InsufficientResources):
        made.allocate("slot=8/node", job="b")


def test_ids_and_names_are_given_in_any_form() -> None:
    g = build(
        Resource("a", id=range(3, 5)),
        Resource("b", id=np.array([7, 2])),
        Resource("c", id=IDset("1,3")),
        Resource("d", hosts=Hostlist("n[08-09]")),
        Resource("e", names=("x", "y")),
        Resource("f", id=None),
        Resource("g", 2, id="4-5", rank=[3, 1], tags=["t"], state="down"),
        name="m",
    )
    assert [pool.name for pool in g.root.children] == [
        "a3",
        "a4",
        "b7",
        "b2",
        "c1",
        "c3",
        "n08",
        "n09",
        "x",
        "y",
        "f",
        "g4",
        "g5",
    ]
    last = g.pool("/m/g5")
    assert (last.rank, dict(last.tags), last.state) == (1, {"t": None}, "down")


def test_the_root_may_be_of_any_type_and_pools_outside_the_tree() -> None:
    center = build(Resource("center", children=[Resource("cluster", 2)]), name="site", pools=[Resource("license", size=9)])
    assert (center.root.type, len(center)) == ("center", 4)
    assert build(root=Resource("node", name="n1", children=[Resource("core", 2)])).pool("/n1/core1").type == "core"
    assert len(build()) == 1


def test_a_built_graph_is_merged_below_a_pool() -> None:
    g = demo()
    g.allocate("/demo/rack0/node0", job="a")
    g.merge(build(root=Resource("node", id=[8], children=[Resource("core", 4)])), at="/demo/rack0")
    assert [node.name for node in g.pool("/demo/rack0").children] == ["node0", "node1", "node2", "node3", "node8"]
    assert g.pool("/demo/rack0/node8").rank == 8
    assert (g.allocated("a").paths(), g.check()) == (["/demo/rack0/node0"], [])


@pytest.mark.parametrize(
    ("resources", "more", "message"),
    [
        ([Resource("node", 0)], {}, "build: resources[0].count: expected a whole number of at least 1, got 0"),
        (
            [Resource("node", children=[Resource("core"), Resource("core", size=-1)])],
            {},
            "build: resources[0].with[1].size: expected a whole number of at least 1 or text such as '192GiB', got -1",
        ),
        ([Resource("node", {"a": 1})], {}, "build: resources[0].count: expected a whole number of at least 1, got a mapping"),
        ([Resource("node", id=iter([1]))], {}, "build: resources[0].id: expected text, a number"),
        ([Resource("node")], {"root": Resource("node")}, "both 'root' and 'resources'"),
        ([Resource("node")], {"graphs": {"a/b": AuxiliaryGraph()}}, "build: graphs.a/b: 'a/b' is not a valid graph name"),
        (
            [Resource("node", 2)],
            {"graphs": {"net": AuxiliaryGraph(edges=[Edge("/cluster/node0", "/cluster/node7")])}},
            "build: graphs.net.edges[0].to: no pool 'node7'",
        ),
    ],
)
def test_errors_name_their_place(resources: list[Any], more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        build(*resources, **more)
    assert str(caught.value).startswith(message) or message in str(caught.value)


@pytest.mark.parametrize("wrong", [5, None, {"type": "node"}, [Resource("node")]])
def test_values_other_than_resources_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="expected a Resource"):
        build(wrong)


def test_levels_are_bounded() -> None:
    deepest = Resource("core")
    for _ in range(limits.DOCUMENT_DEPTH_MAX):
        deepest = Resource("part", children=[deepest])
    with pytest.raises(LimitExceeded, match=f"more than {limits.DOCUMENT_DEPTH_MAX} levels"):
        build(deepest)


def test_the_repr_of_a_resource_shows_its_arguments() -> None:
    assert repr(Resource("node", 2, children=[Resource("core", id=None)])) == (
        "Resource(type='node', count=2, children=[Resource(type='core', id=None)])"
    )


def test_million_pools_become_columns() -> None:
    node = Resource("node", 1000, children=[Resource("core", 99)])
    assert len(build(Resource("rack", 10, children=[node]), name="big")) == 1 + 10 * (1 + 1000 * 100)


@pytest.mark.parametrize("length", [0, 1])
def test_wrong_values_raise_only_fluxres_errors(length: int) -> None:
    for value in (b"x", object(), float("nan"), {1: 2}, {"a": {2}}, np.array([object()]), "x" * 10_000, -(10**400)):
        for key in ("name", "id", "size", "properties", "children", "rank"):
            given: Any = [value] * length if length else value
            try:
                build(Resource("node", **{key: given}))
            except FluxresError:
                continue


def test_power_keys_are_those_of_the_file() -> None:
    power = AuxiliaryGraph(
        hierarchy=False,
        pools=[Resource("power", 2, size=1000, unit="W")],
        edges=[Edge("power:/power[0-1]", "/m/node*", pairing="cross", capacity=500, unit="W", supply="any")],
    )
    graph = build(Resource("node", 2, draw={"power": 400}), name="m", graphs={"power": power})
    assert graph.pool("/m/node0").properties == {"draw.power": 400}
    assert {data["supply"] for *_, data in graph.subsystem("power").edges(data=True)} == {"any"}
    with pytest.raises(TypeError, match="draws"):
        Resource("node", draws={"power": 400})  # type: ignore[call-arg]  # what is tested

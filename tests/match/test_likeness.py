"""Policies only order candidates: if one of them finds a match, all do, whatever attempts failed before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluxres import ResourceGraph
from fluxres.graph.recipe import Recipe
from tests import sites
from tests.match.machines import matcher, request

POLICIES = ["first", "high", "pack", "spread", "locality"]
RACKS_AND_NODES = [{"type": "rack", "count": 2, "with": [{"type": "node", "count": 2, "with": [{"type": "core", "count": 2}]}]}]
GPU_NODES = [{"type": "node", "count": 2, "with": [{"type": "gpu", "count": 2}]}]


def machine(resources: list[dict[str, Any]], pools: list[dict[str, Any]], **edges: list[tuple[str, str]]) -> ResourceGraph:
    graphs = {name: {"edges": [{"from": a, "to": b} for a, b in pairs]} for name, pairs in edges.items()}
    text = json.dumps({"fluxres": 1, "name": "m", "resources": resources, "pools": pools, "graphs": graphs})
    return sites.graph(text)


@pytest.fixture
def one_sided() -> ResourceGraph:
    """One GPU of node0 supplies the other, so node0 never has two; a PDU for both nodes, and a switch at node0."""
    return machine(
        GPU_NODES,
        [{"type": "switch"}, {"type": "pdu", "size": 4, "unit": "W"}],
        nvlink=[("/m/node0/gpu1", "/m/node0/gpu0")],
        power=[("pools:/pdu", "/m/node*")],
        network=[("pools:/switch", "/m/node0")],
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_node_with_a_supplier_in_it_differs_from_one_without(one_sided: ResourceGraph, policy: str) -> None:
    assert one_sided.satisfiable("slot/gpu=2")
    assert one_sided.why_not("slot/gpu=2", policy=policy) is None


@pytest.mark.parametrize("policy", POLICIES)
def test_supplier_in_another_node_makes_a_difference(policy: str) -> None:
    graph = machine(
        RACKS_AND_NODES,
        [{"type": "pdu", "count": 2, "size": 5, "unit": "W"}],
        power=[
            ("/m/rack0/node0/core1", "/m/rack0/node1/core1"),
            ("pools:/pdu0", "/m/rack0/node1"),
            ("pools:/pdu1", "/m/rack0/node1"),
        ],
    )
    assert graph.why_not("slot=2/core=2", policy=policy) is None


@pytest.mark.parametrize("policy", POLICIES)
def test_rack_with_a_cut_off_node_differs_from_a_rack_in_service(policy: str) -> None:
    graph = machine(
        RACKS_AND_NODES,
        [{"type": "pdu", "count": 2, "size": 4, "unit": "W"}],
        power=[("pools:/pdu0", "/m/rack0/node0"), ("pools:/pdu1", "/m/rack0/node1"), ("pools:/pdu1", "/m/rack1/node*")],
    )
    graph.set_state("pools:/pdu0", "down")
    assert graph.why_not("[rack/node=2;rack/node=1]", policy=policy) is None


@pytest.mark.parametrize("policy", POLICIES)
def test_rack_with_an_ineligible_node_differs_from_one_without(policy: str) -> None:
    made = matcher(Recipe("rack", 2, ids=0, children=(Recipe("node", 2, ids=0, children=(Recipe("core", 2),)),)))
    assert made.match(request("[rack/node=2;rack/node=1]", "rank:1-3"), 0, 10, policy) is not None


@pytest.fixture
def cabled() -> ResourceGraph:
    """24 nodes, each with a limited cable from one PDU or from each of two, and from one of two leaf switches."""
    nodes = {"type": "node", "count": 8, "id": "0-23", "draw": {"power": 450}}
    power = [{"from": f"power:/pdu{i}", "to": f"/m/rack[{i}-{i + 1}]/*", "relation": "supplies", "capacity": 500} for i in (0, 1)]
    leaves = [{"from": "network:/spine", "to": "network:/leaf[0-1]", "direction": "both", "capacity": 100}]
    ends = (("/m/rack0/*", "/m/rack1/node[8-11]"), ("/m/rack1/node[12-15]", "/m/rack2/*"))
    leaves += [{"from": f"network:/leaf{i}", "to": list(to), "direction": "both", "capacity": 25} for i, to in enumerate(ends)]
    switches = [{"type": "switch", "name": "spine", "size": 400}, {"type": "switch", "basename": "leaf", "count": 2, "size": 200}]
    document = {
        "fluxres": 1,
        "name": "m",
        "resources": [{"type": "rack", "count": 3, "with": [nodes]}],
        "graphs": {
            "power": {"pools": [{"type": "pdu", "count": 2, "size": 6000, "unit": "W"}], "edges": power},
            "network": {"pools": switches, "edges": leaves},
        },
    }
    return sites.graph(json.dumps(document))


@pytest.mark.parametrize("policy", POLICIES)
def test_nodes_with_separate_cables_are_interchangeable(cabled: ResourceGraph, policy: str) -> None:
    """The cables to the leaves carry 100 each, which is enough for five nodes of 20; the search rejects one more."""
    assert cabled.why_not("slot=10/[node;network=20]", policy=policy) is None
    assert not cabled.satisfiable("slot=11/[node;network=20]")
    refusal = cabled.why_not("slot=11/[node;network=20]", policy=policy)
    assert refusal is not None
    assert not refusal.undecided
    assert refusal.enough["resources[0]"] == 10


def test_cable_in_use_makes_a_difference(cabled: ResourceGraph) -> None:
    """Leaf 0 has room for three more nodes then, leaf 1 for five."""
    cabled.allocate("slot=2/[node;network=20]", job="a")
    assert {span.pool for span in cabled.allocation("a").spans} >= {"/m/rack0/node0", "/m/rack0/node1"}
    for policy in POLICIES:
        assert cabled.why_not("slot=8/[node;network=20]", policy=policy) is None
        refusal = cabled.why_not("slot=9/[node;network=20]", policy=policy)
        assert refusal is not None
        assert refusal.enough["resources[0]"] == 8

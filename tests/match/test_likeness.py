"""Policies only order candidates: where one of them finds a match, all do, whatever was tried before in vain."""

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
def test_a_node_with_a_supplier_in_it_is_not_like_one_without(one_sided: ResourceGraph, policy: str) -> None:
    assert one_sided.satisfiable("slot/gpu=2")
    assert one_sided.why_not("slot/gpu=2", policy=policy) is None


@pytest.mark.parametrize("policy", POLICIES)
def test_a_supplier_in_another_node_counts(policy: str) -> None:
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
def test_a_rack_with_a_node_cut_off_is_not_like_a_rack_in_service(policy: str) -> None:
    graph = machine(
        RACKS_AND_NODES,
        [{"type": "pdu", "count": 2, "size": 4, "unit": "W"}],
        power=[("pools:/pdu0", "/m/rack0/node0"), ("pools:/pdu1", "/m/rack0/node1"), ("pools:/pdu1", "/m/rack1/node*")],
    )
    graph.set_state("pools:/pdu0", "down")
    assert graph.why_not("[rack/node=2;rack/node=1]", policy=policy) is None


@pytest.mark.parametrize("policy", POLICIES)
def test_a_rack_with_a_node_that_the_constraint_bars_is_not_like_one_without(policy: str) -> None:
    made = matcher(Recipe("rack", 2, ids=0, children=(Recipe("node", 2, ids=0, children=(Recipe("core", 2),)),)))
    assert made.match(request("[rack/node=2;rack/node=1]", "rank:1-3"), 0, 10, policy) is not None

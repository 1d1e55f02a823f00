"""Edges with a capacity in matching: charged like pools, refused by name, in the vector path and the traverser alike."""

from __future__ import annotations

import re

import pytest

from fluxres.errors import InfeasibleRequest, InputError
from fluxres.match import Matcher, Placement
from tests import sites
from tests.match.machines import both, request

SITE = """
fluxres: 1
name: site
resources:
  - {type: rack, count: 2, with: [{type: node, count: 3, id: 0-5, with: [{type: core, count: 4}]}]}
graphs:
  power:
    hierarchy: true
    pools: [{type: pdu, count: 2, size: 5000, unit: W}]
    edges:
      - {from: "power:/pdu[0-1]", to: "/site/rack[0-1]", capacity: 2500}
      - {from: "/site/rack0", to: "/site/rack0/node*", capacity: 1000}
      - {from: "/site/rack1", to: "/site/rack1/node*", capacity: 1000}
  network:
    pools: [{type: switch, name: spine}, {type: switch, basename: leaf, count: 2}]
    edges:
      - {from: "network:/spine", to: "network:/leaf[0-1]", direction: both, capacity: 40}
      - {from: "network:/leaf0", to: "/site/rack0/node*", direction: both, capacity: 25}
      - {from: "network:/leaf1", to: "/site/rack1/node*", direction: both}
"""


@pytest.fixture
def site() -> Matcher:
    """Two racks of three nodes: 1,000 W to a node, 2,500 W to a rack, 5,000 W a PDU; a network of cables only."""
    graph = sites.graph(SITE)
    return Matcher(graph.structure, graph.planner)


def drawn(made: Matcher, found: Placement | None) -> dict[str, int] | None:
    """What a match takes outside the containment tree, by name without the graph and the site."""
    if found is None:
        return None
    said = made.structure.accounts.said
    outside = {said(v): n for v, n in found.targets if v >= made.structure.tree_end}
    graphs = re.compile("(power|network): |(power|network):/?|/site/")
    return {graphs.sub("", name): n for name, n in outside.items()}


@pytest.mark.parametrize("name", ["pdu", "power"])
def test_every_edge_of_the_path_is_charged(site: Matcher, name: str) -> None:
    """By the type of the suppliers, or by the name of the graph."""
    found = both(site, f"slot=2/[node;{name}=800]")
    assert drawn(site, found) == {
        "rack0 -> rack0/node0": 800,
        "rack0 -> rack0/node1": 800,
        "pdu0 -> rack0": 1600,
        "pdu0": 1600,
    }
    assert found is not None
    assert not found.fallback


def test_overdrawn_edge_moves_the_job_elsewhere_then_later_then_never(site: Matcher) -> None:
    found = both(site, "slot=4/[node;power=900]")
    # 2,500 W are two nodes of 900 W a rack.
    assert found is not None
    nodes = [v for v in found.vertices.tolist() if v in site.structure.of_type("node")]
    assert [site.structure.name(v) for v in nodes] == ["node0", "node1", "node3", "node4"]
    assert both(site, "slot=5/[node;power=900]") is None
    assert not site.satisfiable(request("slot=5/[node;power=900]"))
    assert not site.satisfiable(request("slot=1/[node;power=1001]"))
    site.planner.hold_all(found.vertices, found.amounts, 0, 7)
    assert both(site, "slot=1/[node;power=701]") is None
    assert drawn(site, both(site, "slot=1/[node;power=700]")) == {"rack0 -> rack0/node2": 700, "pdu0 -> rack0": 700, "pdu0": 700}
    for reference in (False, True):
        later = site.earliest(request("slot=1/[node;power=701]"), 5, 0, reference=reference)
        assert later is not None
        assert later.start == 7


def test_refusal_names_the_edge_and_its_free_capacity(site: Matcher) -> None:
    edge = site.structure.accounts.number("power: /site/rack0 -> /site/rack0/node0")
    site.planner.hold(edge, 600, 0, 10)
    refusal = site.why_not(request("node=6{x}/power=500"), 0, 10)
    assert refusal is not None
    assert "power: /site/rack0 -> /site/rack0/node0: 400 W of 1 kW free" in " ".join(refusal.sentences())
    assert refusal.enough == {"resources[0]": 5, "resources[0].with[0]": 400}


def test_network_of_cables_is_requested_by_its_name(site: Matcher) -> None:
    """Towards the root, and in both directions of each cable; a cable without a capacity carries any amount."""
    assert drawn(site, both(site, "slot=1/[node;network=20]")) == {
        "spine -> leaf0": 20,
        "leaf0 -> spine": 20,
        "leaf0 -> rack0/node0": 20,
        "rack0/node0 -> leaf0": 20,
    }
    # The second node of rack0 would need 50 of the 40 of the spine.
    found = both(site, "slot=2/[node;network=25]")
    assert found is not None
    assert [site.structure.name(v) for v in found.vertices[:2].tolist()] == ["node0", "node3"]
    assert drawn(site, both(site, "node=3{x}/network=13", policy="high")) == {"spine -> leaf1": 39, "leaf1 -> spine": 39}
    assert both(site, "slot=1/[node;network=41]", policy="high") is None
    found = both(site, "slot=1/[node;network=1-50]", policy="high")
    assert found is not None
    assert found.counts[-1] == 40


def test_unit_of_a_graph(site: Matcher) -> None:
    assert drawn(site, both(site, "slot=1/[node;power=1{unit:kW}]")) == {
        "rack0 -> rack0/node0": 1000,
        "pdu0 -> rack0": 1000,
        "pdu0": 1000,
    }
    # The cables of the network have no unit.
    assert both(site, "slot=1/[node;network=1{unit:Gbit/s}]") is None
    refusal = site.why_not(request("slot=1/[node;network=1{unit:Gbit/s}]"), 0, 10)
    assert refusal is not None
    assert "unit that does not convert" in " ".join(refusal.sentences())


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("network=10", InputError, "must be requested together with the pools"),
        ("slot/network=10", InputError, "must be requested together with the pools"),
        ("[node;network=2/core]", InputError, "contain nothing"),
        ("[node;network=2{id:'0'}]", InputError, "have no ids"),
        ("[node;water=2]", InfeasibleRequest, "no pool of type 'water'"),
        # To a pool that is named.
        ("network=1{to:leaf0}", InputError, "must be requested together with the pools"),
        ("[node;network=1{to:leaf0,id:'0'}]", InputError, "have no ids"),
        ("[node;network=1{to:leaf7}]", InfeasibleRequest, "units to 'leaf7': no pool 'leaf7'"),
        ("[node;network=1{to:/site/rack9}]", InfeasibleRequest, "units to '/site/rack9': .*rack9"),
        ("[node;water=1{to:leaf0}]", InfeasibleRequest, "no graph 'water' that could carry units to 'leaf0'"),
        ("[node;switch=1{to:leaf0}]", InfeasibleRequest, "no graph 'switch'"),
        # Between nodes.
        ("[node;water=1{between:node}]", InfeasibleRequest, "no graph 'water' that could carry units between nodes"),
    ],
)
def test_invalid_requests_for_units_of_a_graph(site: Matcher, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        site.match(request(text), 0, 10)


def test_edge_of_one_unit_is_used_up() -> None:
    """A pool of one unit would be shared, but units of an edge are drawn."""
    text = SITE.replace("capacity: 25", "capacity: 1")
    graph = sites.graph(text)
    made = Matcher(graph.structure, graph.planner)
    found = both(made, "[node=1/core;network=1]")
    assert found is not None
    assert drawn(made, found) == {
        "spine -> leaf0": 1,
        "leaf0 -> spine": 1,
        "leaf0 -> rack0/node0": 1,
        "rack0/node0 -> leaf0": 1,
    }
    made.planner.hold_all(found.vertices, found.amounts, 0, 10)
    again = both(made, "[node=1/core;network=1]")
    assert drawn(made, again) is not None
    assert "rack0/node0 -> leaf0" not in (drawn(made, again) or {})


def test_exclusive_request_draws_all_of_its_cables(site: Matcher) -> None:
    assert drawn(site, both(site, "slot=1/[node;network=1{x}]")) == {
        "spine -> leaf0": 40,
        "leaf0 -> spine": 40,
        "leaf0 -> rack0/node0": 25,
        "rack0/node0 -> leaf0": 25,
    }

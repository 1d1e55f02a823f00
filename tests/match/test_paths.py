"""Pools outside the containment tree are charged along the complete supply path, so that nothing is overdrawn."""

from __future__ import annotations

import random

import numpy as np
import pytest

from fluxres.allocation import plans
from fluxres.allocation.records import Records
from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import WAY
from fluxres.graph.recipe import Recipe, expand
from fluxres.match import Matcher, Placement
from fluxres.match.paths import Paths
from fluxres.planner.planner import Planner
from tests.match.auxiliary import with_graphs
from tests.match.machines import request
from tests.match.ways import Ways


@pytest.fixture
def site() -> Matcher:
    """Four nodes; each of two PDUs of 1,000 W feeds two, and one feed of 1,500 W both; a network that points both ways."""
    power = Recipe("power", size=1000, unit="W", ids=None)
    outside = [
        Recipe("feed", children=(Recipe("power", size=1500, unit="W", ids=None),)),
        Recipe("pdu", 2, ids=0, children=(power,)),
    ]
    outside.append(Recipe("switch", children=(Recipe("bandwidth", size=10),)))
    made = expand(
        Recipe("cluster", children=(Recipe("node", 4, children=(Recipe("core", 4),)),)), more=outside, origin=uuids.new_origin()
    )
    nodes, feed, pdus, switch = (made.of_type(name).tolist() for name in ("node", "feed", "pdu", "switch"))
    edges = [(feed[0], pdu) for pdu in pdus] + [(pdus[at // 2], node) for at, node in enumerate(nodes)]
    src, dst = (np.array(column, np.int32) for column in zip(*edges, strict=True))
    links = [pair for node in nodes for pair in ((switch[0], node), (node, switch[0]))]
    both = [np.array(column, np.int32) for column in zip(*links, strict=True)]
    made.subsystems = {"power": Subsystem("power", True, src, dst), "network": Subsystem("network", False, *both)}
    return Matcher(made, Planner(made.parent, made.end, made.type, made.size))


def watts(made: Matcher, found: Placement | None) -> list[int]:
    """Units of power taken from the feed and the two PDUs."""
    assert found is not None
    taken = dict(found.targets)
    return [taken.get(v, 0) for v in made.structure.of_type("power").tolist()]


def taken_nodes(made: Matcher, found: Placement | None) -> list[int]:
    assert found is not None
    nodes = made.structure.of_type("node").tolist()
    return [nodes.index(v) for v, _ in found.targets if v in nodes]


def test_every_pool_of_the_path_is_charged(site: Matcher) -> None:
    found = site.match(request("node=1{x}/power=400"), 0, 10)
    assert watts(site, found) == [400, 400, 0]
    assert taken_nodes(site, found) == [0]
    assert watts(site, site.match(request("slot=3/[core=4;power=400]"), 0, 10)) == [1200, 800, 400]
    assert watts(site, site.match(request("node/slot/[core;power=1{unit:kW}]"), 0, 10)) == [1000, 1000, 0]


def test_job_that_would_overdraw_is_placed_elsewhere_or_refused(site: Matcher) -> None:
    # Two nodes of 600 W are too much for one PDU, and 1,500 W are the feed's.
    assert taken_nodes(site, site.match(request("node=2{x}/power=600"), 0, 10)) == [0, 2]
    assert site.match(request("node=3{x}/power=600"), 0, 10) is None
    assert not site.satisfiable(request("node=3{x}/power=600"))
    assert site.match(request("node=1{x}/power=1001"), 0, 10) is None


def test_job_that_would_overdraw_starts_later(site: Matcher) -> None:
    asked = request("node=2{x}/power=500")
    first = site.match(asked, 0, 10)
    assert first is not None
    site.planner.hold_all(first.vertices, first.amounts, 0, 10)
    found = site.earliest(asked, 10, 0)
    assert found is not None
    assert found.start == 10
    refusal = site.why_not(asked, 0, 10)
    assert refusal is not None
    assert refusal.enough == {"resources[0]": 1, "resources[0].with[0]": 250}
    (short,) = refusal.parts[1].causes
    assert short.code == "supply"
    assert short.detail == ("power on feed0: 500 W of 1.5 kW free",)
    refusal = site.why_not(request("node=1{x}/power=600"), 0, 10)
    assert refusal is not None
    (lacking,) = (cause for cause in refusal.parts[0].causes if cause.code == "inside")
    assert lacking.detail == ("600 W of power (power on feed0: 500 W of 1.5 kW free)",)


def test_writer_accepts_the_charges(site: Matcher) -> None:
    found = site.match(request("slot=2/[core=2;power=300]"), 0, 10)
    assert found is not None
    records = Records(site.structure, site.planner)
    records.allocate(plans.allocate(records, found.targets, "j", 0, 10), "j", 0, 10)
    assert watts(site, found) == [600, 600, 0]


def test_farther_end_of_a_bidirectional_link_supplies(site: Matcher) -> None:
    found = site.match(request("node=2/bandwidth=3"), 0, 10)
    assert found is not None
    assert [amount for _, amount in found.targets] == [6]
    assert site.match(request("node=2/bandwidth=6"), 0, 10) is None
    assert site.match(request("bandwidth=1"), 0, 10) is not None


def test_counts_are_limited_by_power(site: Matcher) -> None:
    found = site.match(request("node=1-4{x}/power=500"), 0, 10)
    assert found is not None
    assert found.counts == (3, 500)


def test_nodes_with_two_supplies_find_the_assignment_that_works() -> None:
    """node0 is supplied by both PDUs, the others by one each: taking node0 first would leave nothing for a second node."""
    power = Recipe("power", size=500, unit="W", ids=None)
    made = expand(
        Recipe("cluster", children=(Recipe("node", 3, children=(Recipe("core"),)),)),
        more=[Recipe("pdu", 2, ids=0, children=(power,))],
        origin=uuids.new_origin(),
    )
    nodes, pdus = made.of_type("node").tolist(), made.of_type("pdu").tolist()
    edges = [(pdus[0], nodes[0]), (pdus[1], nodes[0]), (pdus[1], nodes[1]), (pdus[0], nodes[2])]
    src, dst = (np.array(column, np.int32) for column in zip(*edges, strict=True))
    made.subsystems = {"power": Subsystem("power", False, src, dst)}
    matcher = Matcher(made, Planner(made.parent, made.end, made.type, made.size))
    assert taken_nodes(matcher, matcher.match(request("node=2{x}/power=500"), 0, 10)) == [1, 2]
    assert taken_nodes(matcher, matcher.match(request("node=2{x}/power=250"), 0, 10)) == [0, 1]


@pytest.mark.parametrize("seeds", [range(50), range(50, 100)])
def test_first_supplier_with_units_gives(seeds: range) -> None:
    """Random machines with some pass-through suppliers, compared with the oracle, edge by edge."""
    differing = 0
    for seed in seeds:
        source = random.Random(seed)
        made = with_graphs(source, Recipe("cluster", children=(Recipe("rack", 2, children=(Recipe("node", 2),)),)))
        for graph in made.subsystems.values():
            graph.attributes["supply"] = np.array(["any"] * len(graph), object)
        whole = Ways(made)
        types = [name for name in made.types if whole.distributed(name)]
        before = {(v, name): whole.charged(v, name) for v in range(made.n) for name in types}
        for v in range(made.tree_end, made.n):
            made.flags[v] |= WAY * (source.random() < 0.5)
        paths, ways = Paths(made, made.outage.dead), Ways(made)
        for (v, name), of_all in before.items():
            expected = ways.charged(v, name)
            found = paths.charged(v, made.types.index(name))
            assert (None if found is None else dict(found)) == expected, (seed, v, name)
            differing += expected != of_all
    assert differing > 10

"""Auxiliary graphs from request to records: what is charged where, placed elsewhere or later, reported and freed."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fluxres
from fluxres import limits
from fluxres.clock import TICKS_PER_S
from fluxres.errors import InfeasibleRequest, InsufficientResources, LimitExceeded
from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.recipe import Recipe, expand
from fluxres.match import Matcher
from fluxres.match.typology import Typology
from fluxres.model.resource_graph import ResourceGraph
from fluxres.planner.planner import Planner
from tests import sites
from tests.choices import integers
from tests.match import cases
from tests.match.machines import request

SITE = (
    sites.racks(cores=8)
    + sites.power(5000, 3000)
    + """\
  network:
    pools:
      - {type: filesystem, with: [{type: bandwidth, size: 40, unit: GB/s, id: null}]}
      - {type: switch, count: 2, with: [{type: bandwidth, size: 24, unit: GB/s, id: null}]}
    edges:
      - {from: "network:/filesystem", to: "network:/switch[0-1]", direction: both}
      - {from: "network:/switch0", to: "/site/rack0/node*", direction: both}
      - {from: "network:/switch1", to: "/site/rack1/node*", direction: both}
"""
)


@pytest.fixture
def site() -> ResourceGraph:
    """Two racks of four nodes; a feed of 5 kW, a PDU of 3 kW a rack; a file system of 40 GB/s, a switch of 24 GB/s a rack."""
    return sites.graph(SITE)


def drawn(graph: ResourceGraph, job: str) -> dict[str, int]:
    """A job's units of each supplier, by the supplier's name; and its nodes."""
    found = {}
    for span in graph.allocation(job).spans:
        pool = graph.pool(span.pool)
        found[pool.parent.name if pool.type in ("power", "bandwidth") and pool.parent else pool.name] = span.amount
    return found


def test_two_graphs_at_once(site: ResourceGraph) -> None:
    site.allocate("slot=2/[node;power=500;bandwidth=4]", job="j", duration_s=100)
    assert drawn(site, "j") == {"node0": 1, "node1": 1, "feed": 1000, "pdu0": 1000, "filesystem": 8, "switch0": 8}
    assert site.check() == []


def test_job_that_would_overdraw_is_placed_elsewhere_then_later_then_never(site: ResourceGraph) -> None:
    site.allocate("slot=3/[node;power=900]", job="a", duration_s=100)
    # 300 W are left in rack0, 2,300 W on the feed.
    site.allocate("slot=1/[node;power=400]", job="b", duration_s=50)
    assert drawn(site, "b") == {"node4": 1, "feed": 400, "pdu1": 400}
    with pytest.raises(InsufficientResources, match=r"power on feed: 1.9 kW of 5 kW free.*held by a until 100 s") as refused:
        site.allocate("slot=2/[node;power=1000]", job="c", duration_s=50)
    assert refused.value.earliest == 50.0
    site.allocate_orelse_reserve("slot=2/[node;power=1000]", job="c", duration_s=50)
    assert site.allocation("c").start == 50.0
    with pytest.raises(InfeasibleRequest, match=r"power on pdu0: 3 kW of 3 kW free"):
        site.allocate("slot=1/[node;power=3001]", job="d")
    assert not site.satisfiable("slot=6/[node;power=1000]")
    assert site.check() == []


def test_freeing_pools_frees_their_charges(site: ResourceGraph) -> None:
    before = site.available()
    for text in ("slot=2/[node;power=500;bandwidth=4]", "node=3{x}/power=700", "slot=4/[core=2;bandwidth=3]"):
        site.allocate(text, job="j", duration_s=10)
        site.free("j")
    assert site.available() == before
    assert site.planner.moments(0, 10**18) == []


def test_growing_and_staging_charge_suppliers(site: ResourceGraph) -> None:
    site.allocate("slot=1/[node;power=500]", job="j", duration_s=100)
    site.grow("j", "slot=1/[node;power=700]")
    assert drawn(site, "j")["feed"] == 1200
    with site.stage("slot=1/[node;power=3000]", job="s") as stage:
        assert site.why_not("slot=1/[node;power=1000]") is not None
        stage.commit()
    assert drawn(site, "s")["pdu1"] == 3000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # next to nodes, in them, in a slot in them, next to cores, at the top: the same paths.
        ("slot=2/[node;power=500]", {"feed": 1000, "pdu0": 1000}),
        ("node=2{x}/power=500", {"feed": 1000, "pdu0": 1000}),
        ("node=2/slot=2/[core;power=250]", {"feed": 1000, "pdu0": 1000}),
        ("slot=4/[core=4;power=250]", {"feed": 1000, "pdu0": 1000}),
        ("[node=2{x};power=1000]", {"feed": 1000, "pdu0": 1000}),
        # 1,000 W for six nodes of a slot, four in one rack and two in the other: each has a sixth of them.
        ("slot=1/[node=6;power=1000]", {"feed": 1000, "pdu0": 667, "pdu1": 334}),
        ("slot=1/[node;power=1{unit:kW}]", {"feed": 1000, "pdu0": 1000}),
        ("rack=1/[node=2{x};power=500]", {"feed": 500, "pdu0": 500}),
        ("rack=1{x}/power=500", {"feed": 500, "pdu0": 500}),
        # picked, and charged farther up.
        ("pdu=1/power=800", {"feed": 800, "pdu0": 800}),
        ("power=800", {"feed": 800}),
        # a job that wants a supplier exclusively has all of it.
        ("slot=1/[node;power=500{x}]", {"feed": 5000, "pdu0": 3000}),
    ],
)
def test_charges_by_position_in_the_request(site: ResourceGraph, text: str, expected: dict[str, int]) -> None:
    site.allocate(text, job="j", duration_s=10)
    taken = drawn(site, "j")
    assert {name: units for name, units in taken.items() if name in ("feed", "pdu0", "pdu1")} == expected
    assert site.check() == []


def test_supplier_out_of_service_supplies_nothing(site: ResourceGraph) -> None:
    site.pool("power:/feed/pdu0").state = "down"
    site.allocate("slot=1/[node;power=500]", job="j", duration_s=10)
    assert drawn(site, "j") == {"node4": 1, "feed": 500, "pdu1": 500}
    refusal = site.why_not("slot=8/[node;power=100]")
    assert refusal is not None
    assert any("4 get nothing from pdu0, which is down" in sentence for sentence in refusal.sentences())


def test_unit_of_another_dimension_is_refused(site: ResourceGraph) -> None:
    refusal = site.why_not("slot=1/[node;power=5{unit:GiB}]")
    assert refusal is not None
    assert refusal.never
    assert any("counted in a unit that does not convert" in sentence for sentence in refusal.sentences())


def test_request_without_a_supply_path_is_refused(site: ResourceGraph) -> None:
    made = expand(
        Recipe("cluster", children=(Recipe("node", 2, children=(Recipe("core"),)),)),
        more=[Recipe("pdu", children=(Recipe("power", size=100, ids=None),))],
        origin=uuids.new_origin(),
    )
    node, pdu = made.of_type("node")[1:], made.of_type("pdu")
    made.subsystems = {"power": Subsystem("power", False, pdu, node)}
    matcher = Matcher(made, Planner(made.parent, made.end, made.type, made.size))
    found = matcher.match(request("slot=1/[node;power=5]"), 0, 10)
    assert found is not None
    assert int(node[0]) in found.vertices
    assert matcher.match(request("slot=2/[node;power=5]"), 0, 10) is None


def test_pools_attached_to_one_supplier_give_together() -> None:
    """A PDU of four pools of 10 W, and each node a limit of two of 5 W, at the ends of edges of a hierarchy."""
    made = expand(
        Recipe("cluster", children=(Recipe("pdu"), Recipe("node", 2, children=(Recipe("core"),)))),
        more=[Recipe("power", 4, size=10, unit="W"), Recipe("power", 4, ids=4, size=5, unit="W")],
        origin=uuids.new_origin(),
    )
    pdu, nodes, power = made.of_type("pdu"), made.of_type("node"), made.of_type("power")
    edges = [(pdu[0], v) for v in (*nodes, *power[:4])] + [(nodes[at // 2], v) for at, v in enumerate(power[4:])]
    src, dst = (np.array(column, np.int32) for column in zip(*edges, strict=True))
    made.subsystems = {"power": Subsystem("power", True, src, dst)}
    matcher = Matcher(made, Planner(made.parent, made.end, made.type, made.size))
    found = matcher.match(request("slot=2/[node;power=8]"), 0, 10)
    assert found is not None
    taken = dict(found.targets)
    assert [taken.get(v, 0) for v in power.tolist()] == [10, 6, 0, 0, 5, 3, 5, 3]
    assert matcher.match(request("slot=1/[node;power=11]"), 0, 10) is None
    matcher.planner.hold_all(power[:3], 9, 0, 10)
    refusal = matcher.why_not(request("slot=2/[node;power=8]"), 0, 10)
    assert refusal is not None
    assert refusal.parts[1].causes[0].detail == ("power on pdu0: 13 W of 40 W free",)


def crossed(nodes: int, pdus: int, size: int) -> Matcher:
    """Every node is supplied by two PDUs, each pair by another two: no order of nodes is best for all."""
    power = Recipe("power", size=size, unit="W", ids=None)
    made = expand(
        Recipe("cluster", children=(Recipe("node", nodes, children=(Recipe("core", 2),)),)),
        more=[Recipe("pdu", pdus, ids=0, children=(power,))],
        origin=uuids.new_origin(),
    )
    of = made.of_type("pdu")
    pairs = list(combinations(range(pdus), 2))
    edges = [(of[p], v) for at, v in enumerate(made.of_type("node")) for p in pairs[at % len(pairs)]]
    src, dst = (np.array(column, np.int32) for column in zip(*edges, strict=True))
    made.subsystems = {"power": Subsystem("power", False, src, dst)}
    return Matcher(made, Planner(made.parent, made.end, made.type, made.size))


def test_overlapping_suppliers_need_no_search_if_the_first_nodes_fit() -> None:
    made = crossed(40, 5, 100)
    found = made.match(request("node=25{x}/power=10"), 0, 10)
    assert found is not None
    assert not found.fallback
    assert found.is_equal(made.match(request("node=25{x}/power=10"), 0, 10, reference=True))
    assert made.match(request("node=41{x}/power=1"), 0, 10) is None


def test_undecided_start_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    made = crossed(40, 5, 95)
    monkeypatch.setattr(limits, "MATCH_STEPS_MAX", 200)
    asked = request("node=23{x}/power=10")
    with pytest.raises(LimitExceeded, match="compete"):
        made.match(asked, 0, 10)
    # Undecided now, and also at the only moment at which something changes.
    made.planner.hold(int(made.structure.of_type("power")[0]), 5, 0, 7)
    with pytest.raises(LimitExceeded):
        made.earliest(asked, 10, 0)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_laminar_limits_equal_those_node_by_node(data: st.DataObject) -> None:
    """Node by node or group by group: if groups nest, both supply the same nodes, and no order could supply more."""
    number = data.draw(integers(1, 8))
    cuts = sorted(data.draw(st.sets(st.integers(1, number), max_size=3)) | {0, number})
    groups = [range(a, b) for a, b in pairwise(cuts)] + [range(number)] * data.draw(integers(0, 2))
    more = [Recipe("pdu", len(groups), ids=0, size=9)]
    made = expand(Recipe("cluster", children=(Recipe("node", number),)), more=more, origin=uuids.new_origin())
    nodes, pdus = made.of_type("node"), made.of_type("pdu")
    edges = np.array([(pdus[p], nodes[v]) for p, group in enumerate(groups) for v in group], np.int32)
    made.subsystems = {"power": Subsystem("power", False, edges[:, 0].copy(), edges[:, 1].copy())}
    supply = Typology(made).supply(frozenset({made.types.index("pdu")}))
    assert supply.is_laminar
    order = np.array(data.draw(st.permutations(range(number))))
    room = np.array(data.draw(st.lists(st.integers(0, 3), min_size=number, max_size=number)))
    caps = np.array(data.draw(st.lists(st.integers(0, 6), min_size=len(groups), max_size=len(groups))))
    limited = supply.limited(order, room.copy(), caps)
    assert limited.tolist() == supply.one_by_one(order, room, caps).tolist()
    assert (supply.drawn(order, limited) <= caps).all()
    backwards = supply.limited(order[::-1], room[::-1].copy(), caps)
    assert limited.sum() == backwards.sum()


def test_queue_of_jobs_never_overdraws_power(site: ResourceGraph) -> None:
    power = {v: int(site.structure.size[v]) for v in site.structure.of_type("power").tolist()}
    for job in range(40):
        nodes, watts = 1 + job % 5, 200 + 90 * (job % 7)
        site.allocate_orelse_reserve(f"slot={nodes}/[node;power={watts}]", job=f"j{job}", duration_s=10 + job % 3)
    moments = site.planner.moments(0, 10**18)
    assert moments[-1] > 100 * TICKS_PER_S
    for v, size in power.items():
        assert all(site.planner.used(v, t, t + 1) <= size for t in moments)
    assert site.check() == []


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(4))
def test_queue_short_of_power_gets_the_same_starts_and_pools_from_both(seed: int) -> None:
    """Vector path with its caches, compared with a traverser without any; some jobs end early."""
    source = cases.random_source(seed)
    power = Recipe("power", size=2000, unit="W", ids=None)
    more = [Recipe("pdu", 8, ids=0, children=(power,)), Recipe("feed", 2, children=(replace(power, size=6500),))]
    inside = (Recipe("core", 4), Recipe("memory", size=8))
    made = expand(
        Recipe("cluster", children=(Recipe("rack", 4, children=(Recipe("node", 10, children=inside),)),)),
        more=more,
        origin=uuids.new_origin(),
    )
    nodes, pdus, feeds = (made.of_type(name) for name in ("node", "pdu", "feed"))
    edges = [(pdus[at // 5], v) for at, v in enumerate(nodes)] + [(u, v) for u in feeds for v in pdus]
    src, dst = (np.array(column, np.int32) for column in zip(*edges, strict=True))
    made.subsystems = {"power": Subsystem("power", False, src, dst)}
    planner = Planner(made.parent, made.end, made.type, made.size)
    matcher = Matcher(made, planner)
    held = []
    for _ in range(40):
        watts, number = source.choice([100, 300, 700, 1900]), source.choice([1, 2, 5, 12])
        text = source.choice(
            [
                f"slot={number}/[node;power={watts}]",
                f"node={number}{{x}}/[core=2;power={watts}]",
                f"slot={number}/[core=2;memory=3;power={watts}]",
                f"node={number}/slot=2/[core;power={watts // 2}]",
                f"slot={number}/core=3",
            ]
        )
        if text.startswith("node") and "slot" not in text:
            # The same watts next to all nodes of the request.
            beside = request(f"[node={number}{{x}}/core=2;power={watts * number}]")
            together, each = matcher.match(beside, 0, 9), matcher.match(request(text), 0, 9)
            assert (together is None) == (each is None)
            assert together is None or each is None or together.targets == each.targets
        duration, policy = source.choice([3, 7, 20]), source.choice(["first", "high", "locality", "pack", "hinodex"])
        found = matcher.earliest(request(text), duration, 0, policy)
        expected = Matcher(made, planner).earliest(request(text), duration, 0, policy, reference=True)
        assert (found is None) == (expected is None), text
        if found is None or expected is None:
            continue
        assert found.is_equal(expected), (text, policy)
        planner.hold_all(found.vertices, found.amounts, found.start, found.end)
        held.append(found)
        if source.random() < 0.2:
            gone = held.pop(source.randrange(len(held)))
            planner.release_all(gone.vertices, gone.amounts, gone.start, gone.end)
    assert len(held) > 15
    assert planner.check() == []


@pytest.mark.parametrize(
    ("pools", "supplying", "named"),
    [
        ("{type: power, name: feed, size: 6, with: [{type: power, basename: pdu, count: 2, size: 4}]}", "feed/pdu[0-1]", "pdu{}"),
        ("{type: power, name: feed, size: 6, with: [{type: power, count: 2, size: 4}]}", "feed/power[0-1]", "power{} on feed"),
        ("{type: pdu, count: 2, with: [{type: power, size: 4, id: null}]}", "pdu[0-1]", "power on pdu{}"),
        (
            "{type: feed, count: 2, with: [{type: pdu, with: [{type: power, size: 4, id: null}]}]}",
            "feed[0-1]/pdu",
            "power:/feed{}/pdu/power",
        ),
    ],
)
def test_refusals_distinguish_suppliers(pools: str, supplying: str, named: str) -> None:
    text = f"""
fluxres: 1
name: c
resources: [{{type: node, count: 2}}]
graphs:
  power: {{hierarchy: true, pools: [{pools}], edges: [{{from: "power:/{supplying}", to: "/c/node[0-1]"}}]}}
"""
    g = sites.graph(text)
    refusal = g.why_not("slot=2/[node;power=5]")
    assert refusal is not None
    detail = " ".join(detail for part in refusal.parts for cause in part.causes for detail in cause.detail)
    for number in (0, 1):
        assert f"{named.format(number)}: 4 of 4 free" in detail


@pytest.mark.parametrize("wanted", ["slot=2/[node{x};power=300]", "slot=2/[core=2;power=300]"])
@pytest.mark.parametrize("policy", ["first", "high", "lonodex"])
def test_fully_drawn_feed_implies_all_suppliers_below_it(wanted: str, policy: str) -> None:
    """The first slot uses up a PDU, the second one the feed above it."""
    outlet = Recipe("power", basename="outlet", size=300, unit="W")
    feed = Recipe("power", basename="feed", size=600, unit="W", children=(
        Recipe("power", 2, basename="pdu", size=300, unit="W", children=(outlet,)),
    ))  # fmt: skip
    structure = expand(
        Recipe("cluster", children=(Recipe("node", 2, children=(Recipe("core", 2),)),)), more=[feed], origin=uuids.new_origin()
    )
    power, nodes = structure.of_type("power"), structure.of_type("node")
    leaves = power[structure.end[power] == power + 1]
    inner = power[structure.parent[power] >= 0]
    sources = np.concatenate([structure.parent[inner], leaves]).astype(np.int32)
    structure.subsystems["power"] = Subsystem("power", True, sources, np.concatenate([inner, nodes]).astype(np.int32))
    graph = ResourceGraph(structure)
    found = graph.match(wanted, duration_s=10, policy=policy)
    top = int(power[0])
    assert [(v, n) for v, n in zip(found.vertices.tolist(), found.amounts.tolist(), strict=True) if v >= top] == [(top, 600)]
    slots = found.slots[0]
    for at in range(2):
        assert top in found.vertices[slots.picks[slots.starts[at] : slots.starts[at + 1]]].tolist()
    given = graph.commit_match(found, job="a")
    assert sum(span.amount for span in given.spans if span.pool.startswith("power:")) == 600
    assert graph.check() == []
    graph.free("a")
    assert graph.jobs() == []
    assert graph.check() == []


FEED = {
    "fluxres": 1,
    "name": "m",
    "resources": [{"type": "node", "count": 2}],
    "graphs": {
        "power": {
            "hierarchy": True,
            "pools": [{"type": "feed", "id": 0, "size": 10_000, "with": [{"type": "pdu", "count": 2, "size": 6000}]}],
            "edges": [{"from": "power:/feed0/pdu[0-1]", "to": "/m/node[0-1]", "pairing": "each"}],
        }
    },
}


@pytest.mark.parametrize("text", ["feed=10000", "slot/feed=10000", "feed=4000-10000"])
def test_all_units_of_a_supplier_are_refused_while_one_below_it_is_in_use(text: str) -> None:
    graph = fluxres.load(FEED)
    graph.allocate([("power:/feed0/pdu0", 100)], job="x", duration_s=50)
    if "-" in text:
        assert graph.match(text).counts == (9999,)
        return
    with pytest.raises(
        InsufficientResources, match="cannot be allocated exclusively: something in it is held by x until 50 s"
    ) as refused:
        graph.allocate(text, job="y")
    assert refused.value.earliest == graph.earliest(text) == 50.0
    refusal = graph.why_not(text)
    assert refusal is not None
    assert not refusal.undecided
    assert 9999 in refusal.enough.values()
    assert "together they compete for the same pools" not in str(refusal)


def test_joint_units_are_not_tried_one_by_one() -> None:
    memory = {"type": "memory", "count": 3, "size": 10**6, "with": [{"type": "page", "count": 2}]}
    graph = fluxres.load({"fluxres": 1, "name": "m", "resources": [memory]})
    graph.allocate([f"/m/memory{k}/page0" for k in range(3)], job="x", duration_s=50)
    assert graph.match(f"memory={3 * 10**6 - 3}").amounts.tolist() == [10**6 - 1] * 3
    refusal = graph.why_not(f"memory={3 * 10**6 - 2}")
    assert refusal is not None
    assert (refusal.undecided, refusal.earliest, refusal.enough) == (False, 50.0, {"resources[0]": 3 * 10**6 - 3})
    assert refusal.sentences()[0] == (
        "requested 2999998 units of memory, only 2999997 available in 3 of 3 pools: "
        "3 cannot be allocated exclusively: something in them is held by x until 50 s."
    )


@pytest.mark.parametrize(("text", "said"), [("slot/[node;power=3001]", ""), ("slot=2/[node;power=3001]", " (3001 W each)")])
def test_too_large_a_request_is_not_reported_as_room_for_none(site: ResourceGraph, text: str, said: str) -> None:
    refusal = site.why_not(text)
    assert refusal is not None
    asked = 3001 * (2 if said else 1)
    part = next(part for part in refusal.parts if part.type == "power")
    head = f"requested {asked} W of power{said}, suppliers cannot give 3001 W at once: of "
    assert part.sentence().startswith(head)
    assert "power on pdu0: 3 kW of 3 kW free" in part.sentence()

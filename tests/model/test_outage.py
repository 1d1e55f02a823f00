"""Rule F3: a pool whose suppliers are all out of service takes no new work."""

from __future__ import annotations

from pathlib import Path

import pytest

import fluxres
from fluxres.clock import FOREVER
from fluxres.errors import InsufficientResources
from fluxres.graph.kinds import is_state
from fluxres.instance import Instance
from fluxres.model import ResourceGraph
from fluxres.render.jobs import views
from tests import sites
from tests.instance.machines import ManualClock

SITE = (
    sites.racks()
    + """\
  power:
    pools:
      - type: feed
        count: 2
        with:
          - {type: power, size: 9000, unit: W, id: null}
          - {type: pdu, count: 2, id: 0-3, with: [{type: power, size: 5000, unit: W, id: null}]}
    edges:
      - {from: "power:/feed0/pdu[0-1]", to: "/site/rack[0-1]"}
      - {from: "power:/feed1/pdu2", to: "/site/rack0"}
"""
)
RACK0, RACK1 = ([f"/site/rack{rack}/node{number}" for number in range(4 * rack, 4 * rack + 4)] for rack in (0, 1))


def made(text: str = SITE) -> ResourceGraph:
    return sites.graph(text)


@pytest.fixture
def site() -> ResourceGraph:
    """Two racks of four nodes; rack0 is fed by pdu0 and pdu2, each of another feed, rack1 by pdu1 alone."""
    return made()


def free_nodes(graph: ResourceGraph) -> list[str]:
    return graph.find("type=node and available>=1").paths()


def drawn(graph: ResourceGraph, job: str = "j") -> dict[str, int]:
    spans = graph.allocation(job).spans
    return {span.pool.removeprefix("power:").split("/")[-2]: span.amount for span in spans if span.pool.startswith("power:")}


def test_rule_f3_pool_next_to_a_separately_supplied_one_is_not_supplied_by_it() -> None:
    graph = sites.graph("""
fluxres: 1
name: site
resources:
  - {type: node, with: [{type: socket, with: [{type: core, count: 2}, {type: memory}]}]}
graphs:
  power:
    pools: [{type: pdu, count: 2}]
    edges:
      - {from: "power:/pdu0", to: /site/node}
      - {from: "power:/pdu1", to: /site/node/socket/memory}
""")
    graph.set_state("power:/pdu0", "down")
    free = {pool.path: pool.available() for pool in graph.walk("/site/node")}
    assert free == {
        "/site/node": 1,
        "/site/node/socket": 1,
        "/site/node/socket/core0": 0,
        "/site/node/socket/core1": 0,
        "/site/node/socket/memory": 1,
    }
    with pytest.raises(InsufficientResources, match="power:pdu0"):
        graph.allocate("/site/node/socket/core1", job="j")


def test_rule_f3_nested_node_is_supplied_from_above_not_by_neighbouring_cards() -> None:
    graph = sites.graph("""\
fluxres: 1
name: site
resources:
  - type: node
    with:
      - type: socket
        with:
          - {type: core, with: [{type: node, name: inner, with: [{type: core, id: 5}]}]}
          - {type: nic}
graphs:
  power:
    pools: [{type: pdu, count: 2}]
    edges:
      - {from: "power:/pdu0", to: /site/node}
      - {from: "power:/pdu1", to: /site/node/socket/nic}
""")
    graph.set_state("power:/pdu1", "down")
    assert graph.pool("/site/node/socket/nic").available() == 0
    assert graph.pool("/site/node/socket/core/inner").available() == 1
    graph.set_state("power:/pdu0", "down")
    assert graph.pool("/site/node/socket/core/inner").available() == 0


@pytest.mark.parametrize("state", ["down", "drain", "failing", "unknown"])
@pytest.mark.parametrize("culprit", ["power:feed0/pdu1", "power:feed0"])
def test_rule_f3_unsupplied_pools_take_no_new_work(site: ResourceGraph, state: str, culprit: str) -> None:
    site.allocate(RACK1[0], job="before")
    site.set_state(culprit, state)
    assert free_nodes(site) == RACK0
    assert site.aggregate()["node"] == 4
    assert site.pool(RACK1[1]).available() == site.pool("/site/rack1").available() == 0
    assert [pool.name for pool in site.available() if pool.type == "core"] == [f"core{n}" for _ in range(4) for n in range(4)]
    for wanted in (RACK1[1], f"{RACK1[1]}/core0", "/site/rack1"):
        with pytest.raises(InsufficientResources, match=f"{culprit} is {is_state(state)}"):
            site.allocate(wanted, job="j")
    for request in ("node=5", "slot=5/node", "slot=5/core=4", "slot=5/[node;power=1]", "[node=4{x};slot=1/core=4]"):
        refusal = site.why_not(request)
        assert refusal is not None
        assert not refusal.never
        assert any(f"which is {is_state(state)}" in sentence for sentence in refusal.sentences()), request
        assert site.satisfiable(request)
    assert site.earliest("node=5") is None
    assert site.jobs() == ["before"]
    assert site.check() == []
    site.set_state(culprit, "up")
    assert free_nodes(site) == [*RACK0, *RACK1[1:]]
    assert site.why_not("node=7") is None


def test_pool_with_another_live_supplier_draws_from_it(site: ResourceGraph) -> None:
    site.set_state("power:/feed1", "down")
    assert free_nodes(site) == [*RACK0, *RACK1]
    site.allocate("slot=1/[node;power=3000]", job="j")
    assert drawn(site) == {"feed0": 3000, "pdu0": 3000}
    site.set_state("power:/feed1", "up")
    site.set_state("power:/feed0/pdu0", "down")
    site.grow("j", "slot=1/[node;power=4000]")
    assert drawn(site) == {"feed0": 3000, "pdu0": 3000, "feed1": 4000, "pdu2": 4000}
    site.set_state("power:/feed1/pdu2", "drain")
    assert free_nodes(site) == RACK1
    refusal = site.why_not("slot=5/node")
    assert refusal is not None
    assert "4 get nothing from pdu0, which is down" in " ".join(refusal.sentences())


def test_supplier_in_a_cut_off_pool_gives_nothing() -> None:
    site = made(
        sites.racks()
        + """\
  power:
    hierarchy: false
    pools: [{type: feed}, {type: plant, with: [{type: panel}]}]
    edges:
      - {from: "power:/feed", to: "power:/plant"}
      - {from: "power:/plant/panel", to: "/site/rack0"}
"""
    )
    site.set_state("power:/feed", "down")
    with pytest.raises(InsufficientResources, match="power:feed is down"):
        site.allocate(RACK0[0], job="j")


@pytest.mark.parametrize("policy", ["low", "high", "locality"])
def test_traverser_and_vector_path_agree(site: ResourceGraph, policy: str) -> None:
    site.set_state("power:/feed0/pdu0", "down")
    site.set_state("power:/feed1/pdu2", "down")
    for request in ("slot=2/[node;power=100]", "slot=3/core=4", "slot=3/[core=2;power=20]"):
        asked = fluxres.Request.parse(request)
        found = [site.matcher.match(asked, 0, 10, policy, reference=reference) for reference in (False, True)]
        assert found[0] is not None
        assert found[1] is not None
        assert found[0].targets == found[1].targets
        assert [one.fallback for one in found if one is not None] == [False, True]


def test_jobs_keep_and_free_pools_during_an_outage(site: ResourceGraph) -> None:
    site.allocate("slot=2/[node{id:'4-5'};power=500]", job="j", duration_s=100)
    site.set_state("power:/feed0/pdu1", "down")
    assert drawn(site) == {"feed0": 1000, "pdu1": 1000}
    site.shrink("j", RACK1[0])
    assert drawn(site) == {"feed0": 500, "pdu1": 500}
    site.free("j")
    assert free_nodes(site) == RACK0


def test_node_with_two_cards_uses_the_supplied_one() -> None:
    graph = made("""
fluxres: 1
name: site
resources:
  - {type: node, count: 2, with: [{type: core, count: 2}, {type: hca, count: 2}]}
graphs:
  network:
    pools:
      - {type: leaf, count: 2, with: [{type: bandwidth, size: 10, id: null}]}
    edges:
      - {from: "network:/leaf0", to: "/site/node*/hca0", direction: both}
      - {from: "network:/leaf1", to: "/site/node*/hca1", direction: both}
""")
    graph.allocate("slot=1/[node;bandwidth=8]", job="a")
    assert [span.amount for span in graph.allocation("a").spans if "leaf" in span.pool] == [4, 4]
    graph.set_state("network:/leaf0", "down")
    assert graph.find("type=node and available>=1").paths() == ["/site/node1"]
    assert graph.pool("/site/node1/hca0").available() == 0
    assert graph.why_not("slot=1/[node;bandwidth=7]") is not None
    graph.allocate("slot=1/[core;bandwidth=6]", job="b")
    assert [span.amount for span in graph.allocation("b").spans if "leaf" in span.pool] == [6]
    graph.set_state("network:/leaf1", "down")
    assert graph.find("type=core and available>=1").paths() == []


def test_child_starts_no_work_on_cut_off_pools(site: ResourceGraph) -> None:
    top = Instance(site, clock=ManualClock(), name="top")
    child = top.spawn(top.submit("slot=8/node", duration_s=100))
    job = child.submit("slot=1/node{id:'4'}", duration_s=50)
    top.set_state("power:/feed0/pdu1", "drain")
    assert free_nodes(child.graph) == RACK0
    assert job.state.name == "RUN"
    waiting = child.submit("slot=5/node", duration_s=10)
    assert waiting.state.name == "SCHED"
    child.finish(job, 0)
    top.set_state("power:/feed0/pdu1", "up")
    assert waiting.state.name == "RUN"
    assert top.check() == []


def test_copy_keeps_the_other_supplier(site: ResourceGraph) -> None:
    site.set_state("power:/feed1", "down")
    part = site.copy("/site/rack0")
    assert free_nodes(part) == RACK0
    part.set_state("power:/feed0/pdu0", "down")
    assert free_nodes(part) == []
    assert site.copy().why_not("slot=8/node") is None


def test_copies_leave_out_cut_off_pools_and_files_keep_them(site: ResourceGraph, tmp_path: Path) -> None:
    site.set_state("power:/feed0", "down")
    assert site.copy().find("type=node").paths() == RACK0
    fluxres.save(site, tmp_path / "site.yaml")
    again = fluxres.load(tmp_path / "site.yaml")
    assert free_nodes(again) == RACK0
    again.set_state("power:/feed0", "up")
    assert free_nodes(again) == [*RACK0, *RACK1]


def test_ring_of_suppliers_without_a_source_supplies_nothing() -> None:
    graph = made("""
fluxres: 1
name: site
resources: [{type: node, count: 2, with: [{type: core}]}]
graphs:
  water:
    pools: [{type: pump}, {type: pipe, count: 3, size: 5}]
    edges:
      - {from: "water:/pump", to: "water:/pipe0"}
      - {from: "water:/pipe0", to: "water:/pipe1"}
      - {from: "water:/pipe1", to: "water:/pipe2"}
      - {from: "water:/pipe2", to: "water:/pipe0"}
      - {from: "water:/pipe2", to: "/site/node*"}
""")
    assert len(graph.find("type=node and available>=1")) == 2
    graph.set_state("water:/pump", "down")
    graph.set_state("water:/pipe1", "drain")
    assert len(graph.find("type=node and available>=1")) == 0


def test_pool_above_supplied_pools_is_not_cut_off(site: ResourceGraph) -> None:
    site.set_state("power:/feed0", "down")
    assert site.pool("/site").available() == 1
    site.set_state("power:/feed1", "down")
    refusal = site.why_not("node")
    assert refusal is not None
    assert "8 get nothing from feed0, which is down" in " ".join(refusal.sentences())


def test_any_supplier_is_enough_if_the_edges_say_so(tmp_path: Path) -> None:
    both = made()
    graph = made(
        SITE.replace('rack[0-1]"}', 'rack[0-1]", supply: any}').replace('to: "/site/rack0"}', 'to: "/site/rack0", supply: any}')
    )
    for one in (both, graph):
        one.allocate("slot=1/[node;power=700]", job="j")
    assert drawn(both) == {"feed0": 700, "pdu0": 700, "feed1": 700, "pdu2": 700}
    assert drawn(graph) == {"feed0": 700, "pdu0": 700}
    fluxres.save(graph, tmp_path / "site.yaml")
    fluxres.save(graph, tmp_path / "site.json", format="node-link")
    for again in (
        graph,
        fluxres.load(tmp_path / "site.yaml", clock=lambda: 0),
        fluxres.load(tmp_path / "site.json", clock=lambda: 0),
    ):
        again.free("j")
        again.set_state("power:/feed0/pdu0", "down")
        again.allocate("slot=1/[node{id:'0-3'};power=700]", job="j")
        assert drawn(again) == {"feed1": 700, "pdu2": 700}
    assert "supply: any" in (tmp_path / "site.yaml").read_text()


def test_nested_node_is_supplied_through_its_parent() -> None:
    inner = {"type": "node", "name": "inner", "with": [{"type": "core"}]}
    outer = {"type": "node", "with": [inner, {"type": "nic", "name": "a"}]}
    g = fluxres.load(
        {
            "fluxres": 1,
            "name": "c",
            "resources": [outer],
            "graphs": {
                "network": {
                    "pools": [{"type": "switch", "name": "leaf", "size": 8}],
                    "edges": [{"from": "network:/leaf", "to": "/c/node/a", "direction": "both"}],
                }
            },
        }
    )
    (feeds,) = g.structure.feeds
    assert [g.structure.where(v) for v in feeds.above.tolist()] == ["network:leaf"]
    g.set_state("network:/leaf", "down")
    assert g.pool("/c/node/inner").available() == 0
    g.set_state("network:/leaf", "up")
    assert g.pool("/c/node/inner").available() == 1


def test_rule_f1_nested_node_does_not_hide_the_cards_of_the_node_around_it() -> None:
    graph = sites.graph("""
fluxres: 1
name: site
resources:
  - type: node
    with:
      - {type: board, with: [{type: node, name: inner}]}
      - {type: socket, with: [{type: core}, {type: nic}]}
      - {type: nic, id: 7}
graphs:
  network:
    pools: [{type: bandwidth, basename: switch, count: 2, size: 100}]
    edges:
      - {from: "network:/switch0", to: /site/node/socket/nic}
      - {from: "network:/switch1", to: /site/node/nic7}
""")
    (feeds,) = graph.structure.feeds
    core = graph.vertex("/site/node/socket/core")
    assert [graph.structure.where(v) for v in feeds.entries(core)] == ["/site/node/socket/nic"]


# -- what an outage would affect -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "down", "affected"),
    [
        (["power:feed0/pdu0"], [], ["power:feed0/pdu0"]),  # rack0 has another supplier
        (["power:feed0/pdu1"], [], ["/site/rack1", "power:feed0/pdu1"]),
        (["power:feed0"], [], ["/site/rack1", "power:feed0"]),
        (["power:feed0", "power:feed1"], [], ["/site/rack0", "/site/rack1", "power:feed0", "power:feed1"]),
        (["/site/rack0/node1", "/site/rack0"], [], ["/site/rack0"]),
        (["power:feed0/pdu0"], ["power:feed1"], ["/site/rack0", "power:feed0/pdu0"]),  # the other supplier is down now
        (["power:feed0/pdu0"], ["power:feed0/pdu0"], ["power:feed0/pdu0"]),
        (["power:feed0/pdu1"], ["power:feed0/pdu1", "/site/rack1"], ["/site/rack1", "power:feed0/pdu1"]),
        (["power:feed0/pdu0"], ["/site/rack1"], ["power:feed0/pdu0"]),
    ],
)
def test_rule_f3_an_outage_affects_what_has_no_other_supplier(named: list[str], down: list[str], affected: list[str]) -> None:
    graph = made()
    for path in down:
        graph.set_state(path, "down")
    found = graph.structure.affected([graph.vertex(path) for path in named]).tolist()
    assert graph.structure.wheres(found) == affected


UPS = """
fluxres: 1
name: site
resources:
  - {type: node, count: 4, properties: {draw.power: 100}, with: [{type: core, count: 2}]}
graphs:
  power:
    hierarchy: true
    pools:
      - {type: power, basename: ups, size: 1000, unit: W, with: [{type: power, basename: pdu, count: 2, size: 500, unit: W}]}
    edges:
      - {from: "power:/ups/pdu0", to: "/site/node[0-1]"}
      - {from: "power:/ups/pdu1", to: "/site/node[2-3]"}
"""


@pytest.mark.parametrize(
    ("path", "jobs"),
    [
        ("power:/ups/pdu0", {"whole", "watts", "core", "later"}),
        ("power:/ups/pdu1", {"other"}),
        ("power:/ups", {"whole", "watts", "core", "later", "other", "feed"}),
        ("/site/node0", {"whole"}),
    ],
)
def test_jobs_are_on_what_an_outage_affects(path: str, jobs: set[str]) -> None:
    graph = sites.graph(UPS)
    graph.allocate("/site/node0", job="whole")
    graph.allocate("/site/node1/core0", job="core")
    graph.allocate("/site/node1/core1", job="later", start=50, end=60)
    graph.allocate("/site/node2", job="other")
    graph.allocate([("power:/ups/pdu0", 5)], job="watts")
    graph.allocate([("power:/ups", 5)], job="feed")
    affected = graph.structure.affected([graph.vertex(path)]).tolist()
    assert {view.holding.job for view in views(graph, (0, FOREVER), on=affected)} == jobs


def test_jobs_that_draw_from_a_supplier_above_a_pool_are_not_on_it() -> None:
    graph = sites.graph(UPS)
    graph.allocate("/site/node0", job="j")
    pdus = [graph.vertex(f"power:/ups/pdu{i}") for i in range(2)]
    assert [[view.holding.job for view in views(graph, (0, FOREVER), on=[v])] for v in pdus] == [["j"], []]
    graph.free("j")
    graph.allocate("power:/ups", job="all")
    assert [[view.holding.job for view in views(graph, (0, FOREVER), on=[v])] for v in pdus] == [["all"], ["all"]]


@pytest.mark.parametrize(
    ("edges", "down", "affected"),
    [
        ([("pdu0", "rack0"), ("pdu0", "rack0/node1"), ("pdu1", "rack0/node1")], ["pdu0"], ["/site/rack0/node1", "power:pdu1"]),
        ([("pdu0", "rack0"), ("pdu1", "rack0"), ("pdu2", "rack0/node0")], ["pdu0", "pdu2"], ["/site/rack0/node1", "power:pdu1"]),
        ([("pdu0", "rack0"), ("pdu1", "rack0"), ("pdu2", "rack0/node0")], ["pdu2"], ["power:pdu1"]),
        ([("pdu0", "rack0"), ("pdu1", "rack0")], ["pdu0", "pdu1"], ["/site/rack0", "power:pdu1"]),
    ],
)
def test_rule_f3_a_part_of_a_rack_that_is_out_anyway_is_not_affected(
    edges: list[tuple[str, str]], down: list[str], affected: list[str]
) -> None:
    lines = [f"      - {{from: 'power:/{pdu}', to: /site/{of}, relation: supplies}}" for pdu, of in edges]
    pools = "    pools: [{type: pdu, count: 3, size: 1000, unit: W}]"
    racks = "resources: [{type: rack, id: [0], with: [{type: node, count: 2}]}]"
    graph = sites.graph("\n".join(["fluxres: 1", "name: site", racks, "graphs:", "  power:", pools, "    edges:", *lines]))
    for pdu in down:
        graph.set_state(f"power:/{pdu}", "down")
    found = graph.structure.affected([graph.vertex("power:/pdu1")]).tolist()
    assert graph.structure.wheres(found) == affected

"""Units of a graph towards a named pool, and between the nodes of a request."""

from __future__ import annotations

import random

import numpy as np
import pytest

from fluxres import limits
from fluxres.errors import InfeasibleRequest, InputError
from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.instance import Instance
from fluxres.match import Matcher, Placement
from fluxres.match.typology import Typology
from fluxres.model import ResourceGraph
from fluxres.syntax import jobspec, shape
from fluxres.syntax.jobspec import parse_shape
from tests import sites
from tests.match.machines import both, request

SITE = """
fluxres: 1
name: site
resources:
  - {type: rack, count: 3, with: [{type: node, count: 3, id: 0-8, with: [{type: core, count: 4}]}]}
graphs:
  network:
    pools:
      - {type: switch, name: spine}
      - {type: switch, basename: leaf, count: 3}
      - {type: storage, basename: fs, count: 2}
    edges:
      - {from: "network:/spine", to: "network:/leaf[0-2]", direction: both, capacity: 40}
      - {from: "network:/leaf0", to: "/site/rack0/node*", direction: both, capacity: 25}
      - {from: "network:/leaf1", to: "/site/rack1/node*", direction: both, capacity: 25}
      - {from: "network:/leaf2", to: "/site/rack2/node*", direction: both, capacity: 25}
      - {from: "network:/leaf0", to: "network:/fs0", direction: both, capacity: 30}
"""


def matcher(text: str = SITE) -> Matcher:
    graph = sites.graph(text)
    return Matcher(graph.structure, graph.planner)


@pytest.fixture
def site() -> Matcher:
    """Three racks of three nodes, with a leaf each below one spine; fs0 is on leaf0, and no route leads to fs1."""
    return matcher()


def nodes(made: Matcher, found: Placement | None) -> str:
    """The numbers of the nodes that are taken."""
    of_type = set(made.structure.of_type("node").tolist())
    return "".join(made.structure.name(v)[4:] for v, _ in found.targets if v in of_type) if found is not None else "-"


def cables(made: Matcher, found: Placement | None) -> dict[str, int]:
    """The flow along each cable, which must be equal in both directions."""
    assert found is not None
    drawn: dict[str, int] = {}
    accounts = made.structure.accounts
    amounts = dict(found.targets)
    for v, units in amounts.items():
        if accounts.is_edge(v):
            graph, src, dst = accounts.edge(v)
            assert amounts[int(accounts.between(graph, np.array([dst]), np.array([src]))[0])] == units
            drawn[" ".join(sorted((made.structure.name(src), made.structure.name(dst))))] = units
    return drawn


# -- to a pool that is named -----------------------------------------------------------------------------------------


def test_route_to_a_pool_is_charged_and_nothing_beyond(site: Matcher) -> None:
    assert cables(site, both(site, "slot=1/[node;network=20{to:network:/leaf0}]")) == {"leaf0 node0": 20}
    assert cables(site, both(site, "slot=1/[node;network=20{to:spine}]")) == {"leaf0 node0": 20, "leaf0 spine": 20}
    assert cables(site, both(site, "slot=1/[node;network=20{to:fs0}]")) == {"leaf0 node0": 20, "fs0 leaf0": 20}
    assert cables(site, both(site, "slot=1/[node;network=20{to:fs0}]", policy="high")) == {
        "leaf2 node8": 20,
        "leaf2 spine": 20,
        "leaf0 spine": 20,
        "fs0 leaf0": 20,
    }
    # To another node it leads up to where both paths meet, and down; to itself along no cable.
    assert cables(site, both(site, "slot=1/[node;network=20{to:/site/rack1/node4}]")) == {
        "leaf0 node0": 20,
        "leaf0 spine": 20,
        "leaf1 spine": 20,
        "leaf1 node4": 20,
    }
    assert cables(site, both(site, "[node=1{id:'4',x};network=15{to:/site/rack1/node4}]")) == {}


def test_overdrawn_route_moves_the_job_elsewhere_then_later_then_never(site: Matcher) -> None:
    # 30 to fs0 in all.
    assert nodes(site, both(site, "slot=3/[node;network=10{to:fs0}]")) == "012"
    assert both(site, "slot=4/[node;network=10{to:fs0}]") is None
    assert not site.satisfiable(request("slot=4/[node;network=10{to:fs0}]"))
    # 25 to each node, 40 from the spine to leaf0: there are three nodes next to it and one beyond.
    found = both(site, "slot=4/[node;network=25{to:leaf0}]")
    assert nodes(site, found) == "0123"
    assert both(site, "slot=5/[node;network=25{to:leaf0}]") is None
    assert found is not None
    site.planner.hold_all(found.vertices, found.amounts, 0, 7)
    assert both(site, "slot=1/[node;network=16{to:leaf0}]") is None
    assert nodes(site, both(site, "slot=1/[node;network=15{to:leaf0}]")) == "4"
    for reference in (False, True):
        later = site.earliest(request("slot=1/[node;network=16{to:leaf0}]"), 5, 0, reference=reference)
        assert later is not None
        assert later.start == 7


def test_refusal_names_the_unreachable_pool(site: Matcher) -> None:
    for text in ("slot=2/[node;network=10{to:fs1}]", "node=1{x}/network=10{to:network:/fs1}", "slot=1/[core;network=1{to:fs1}]"):
        assert both(site, text) is None
        assert not site.satisfiable(request(text))
        refusal = site.why_not(request(text), 0, 10)
        assert refusal is not None
        assert "no route to " in str(refusal)
        assert "fs1" in str(refusal)
    refusal = site.why_not(request("slot=4/[node;network=10{to:fs0}]"), 0, 10)
    assert refusal is not None
    assert "network: network:leaf0 -> network:fs0" in str(refusal)
    assert refusal.enough["resources[0]"] == 3


def linked(nodes: int, leaves: int, spines: int, pairs: list[tuple[int, int]]) -> Structure:
    """Nodes, leaves and spines, numbered through, with links of 10 both ways."""
    top = Recipe("cluster", children=(Recipe("node", nodes, children=(Recipe("nic", 2),)),))
    made = expand(top, more=[Recipe("leaf", leaves), Recipe("spine", spines)], origin=uuids.new_origin())
    ends = np.array([*pairs, *((b, a) for a, b in pairs)], np.int32)
    graph = Subsystem("network", False, ends[:, 0].copy(), ends[:, 1].copy())
    graph.attributes["capacity"] = np.full(len(ends), 10.0)
    made.subsystems["network"] = graph
    return made


def test_first_route_in_service_is_used() -> None:
    """node 1, 4, 7 and 10; leaf 13 and 14; spine 15 and 16."""
    pairs = [(13, 1), (13, 4), (14, 7), (14, 10), (15, 13), (15, 14), (16, 13), (16, 14)]
    graph = ResourceGraph(linked(4, 2, 2, pairs))
    made = Matcher(graph.structure, graph.planner)
    asked = "slot=1/[node;network=6{to:leaf1}]"
    first = {"leaf0 node0": 6, "leaf0 spine0": 6, "leaf1 spine0": 6}
    second = {"leaf0 node0": 6, "leaf0 spine1": 6, "leaf1 spine1": 6}
    assert cables(made, both(made, asked)) == first
    graph.structure.set_state([15], "drain")
    assert cables(made, both(made, asked)) == second
    graph.structure.set_state([16], "down")
    assert both(made, asked) is None
    assert made.satisfiable(request("slot=3/[node;network=3{to:leaf1}]"))
    graph.structure.set_state([15], "up")
    assert cables(made, both(made, asked)) == first


def test_routes_do_not_lead_through_nodes() -> None:
    """node 1 on leaf 7, node 4 on leaf 7 and 8; spine 9 on neither."""
    graph = ResourceGraph(linked(2, 2, 1, [(7, 1), (7, 4), (8, 4)]))
    made = Matcher(graph.structure, graph.planner)
    assert nodes(made, both(made, "slot=1/[node;network=8{to:leaf1}]")) == "1"
    assert both(made, "slot=2/[node;network=1{to:leaf1}]") is None


def test_route_cache_is_bounded(site: Matcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROUTE_HOPS_MAX", 40)
    known = []
    for at in range(9):
        assert nodes(site, both(site, f"slot=1/[node;network=1{{to:/site/rack{at // 3}/node{at}}}]")) == "0"
        known.append(site.typology)
    # A route to a pool knows fourteen others: three of them are more than forty.
    assert known[0] is known[2] is not known[3]
    assert known[3] is known[5] is not known[6]


def test_each_card_with_a_route_carries_an_equal_part() -> None:
    """node 1 (cards 2 and 3) and 4 (5 and 6); leaf 7 and 8 in planes of their own, leaf 8 on spine 9."""
    graph = ResourceGraph(linked(2, 2, 1, [(7, 2), (8, 3), (7, 5), (8, 6), (9, 8)]))
    made = Matcher(graph.structure, graph.planner)
    # Of either node each card reaches the one in its own plane.
    both_cards = cables(made, both(made, "[node=1{id:'0',x};network=8{to:/cluster/node1}]"))
    assert both_cards == {"leaf0 nic0": 4, "leaf1 nic1": 4}
    assert cables(made, both(made, "[node=1{id:'0',x};network=8{to:spine0}]")) == {"leaf1 nic1": 8, "leaf1 spine0": 8}


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(30))
def test_route_in_a_tree_is_both_supply_paths_without_their_common_part(seed: int) -> None:
    source = random.Random(seed)
    leaves = source.randint(1, 4)
    spines = source.randint(1, leaves)
    first = 1 + 3 * 6
    pairs = [(first + (at if at < leaves else source.randrange(leaves)), 1 + 3 * at) for at in range(6)]
    pairs += [(first + leaves + (at if at < spines else source.randrange(spines)), first + at) for at in range(leaves)]
    pairs += [(first + leaves + spines, first + leaves + at) for at in range(spines)]
    made = linked(6, leaves, spines + 1, pairs)
    paths = Typology(made).paths
    feeds = made.feeds[0]
    for v in made.of_type("node").tolist():
        for to in sorted({end for pair in pairs for end in pair}):
            ways = [{givers for givers, _ in paths.charged(u, feeds.kind) or ()} for u in (v, to)]
            charges = paths.charged(v, paths.channel(feeds.kind, to))
            assert charges is not None
            assert {givers for givers, _ in charges} == ways[0] ^ ways[1]
            assert all(part == 1 for _, part in charges)


# -- between nodes ---------------------------------------------------------------------------------------------------


def test_nodes_of_one_leaf_do_not_charge_the_spine(site: Matcher) -> None:
    assert cables(site, both(site, "slot=1/[node;network=99{between:node}]")) == {}
    assert cables(site, both(site, "slot=4/[core;network=99{between:node}]")) == {}
    assert cables(site, both(site, "slot=2/[node;network=20{between:node}]")) == {"leaf0 node0": 20, "leaf0 node1": 20}
    found = both(site, "slot=4/[node;network=10{between:node}]")
    assert cables(site, found) == {
        **{f"leaf0 node{at}": 10 for at in range(3)},
        "leaf0 spine": 30,
        "leaf1 node3": 10,
        "leaf1 spine": 10,
    }
    assert found is not None
    assert not found.fallback
    assert nodes(site, both(site, "slot=3/[node;network=25{between:node}]", policy="high")) == "678"


def test_the_nearest_leaf_with_room_then_the_spine_then_later(site: Matcher) -> None:
    taken = both(site, "[node=1{id:'1',x};node=1{id:'3',x};network=14{to:spine}]")
    assert taken is not None
    site.planner.hold_all(taken.vertices, taken.amounts, 0, 5)
    assert nodes(site, both(site, "slot=3/[node;network=25{between:node}]")) == "678"
    assert nodes(site, both(site, "slot=2/[node;network=25{between:node}]")) == "02"
    found = both(site, "slot=2/[node;network=25{between:node}]")
    assert cables(site, found) == {"leaf0 node0": 25, "leaf0 node2": 25}
    # Of four, 26 and 26 are left of 40 to two leaves.
    assert nodes(site, both(site, "slot=4/[node;network=13{between:node}]")) == "0245"
    assert both(site, "slot=6/[node;network=20{between:node}]") is None
    for reference in (False, True):
        later = site.earliest(request("slot=6/[node;network=20{between:node}]"), 3, 0, reference=reference)
        assert later is not None
        assert later.start == 5


def test_counts_are_settled_before_the_place_to_meet(site: Matcher) -> None:
    """The largest number of nodes comes first, then the nearest place for these; not a single node because it is nearest."""
    found = both(site, "slot=1-9/[node;network=20{between:node}]")
    assert found is not None
    assert found.counts[0] == 6
    assert nodes(site, both(site, "slot=1-3/[node;network=20{between:node}]")) == "012"


def test_refusal_of_units_between_nodes(site: Matcher) -> None:
    asked = request("slot=9/[node;network=20{between:node}]")
    assert not site.satisfiable(asked)
    refusal = site.why_not(asked, 0, 10)
    assert refusal is not None
    assert refusal.never
    assert refusal.enough == {"resources[0]": 6, "resources[0].with[1]": 13}
    assert "network: network:leaf0 -> network:spine" in str(refusal)
    with pytest.raises(InputError, match="expected one graph between the nodes"):
        matcher(SITE + POWER).match(request("slot=2/[node;network=1{between:node};power=1{between:node}]"), 0, 10)


POWER = """  power:
    pools: [{type: pdu}]
    edges: [{from: "power:/pdu", to: "/site/rack*/node*", capacity: 9}]
"""


def test_nodes_outside_the_constraint_do_not_count_for_locality(site: Matcher) -> None:
    fast, slow = (
        site.match(request("slot=2/[node;network=25{between:node}]", "host:node[2-4]"), 0, 10, reference=way)
        for way in (False, True)
    )
    assert nodes(site, fast) == nodes(site, slow) == "34"


# -- as it is written ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["slot=2/[node;network=10{to:network:/leaf0}]", "slot=2/[node;network=10{x,between:node}]"])
def test_shape_and_jobspec_are_equivalent(text: str) -> None:
    vertices = parse_shape(text)
    plain = jobspec.resources_to_plain(vertices)
    assert jobspec.parse_resources(plain) == vertices
    assert shape.format(plain) == text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"to": "a", "between": "node"}, r"resources\[0\]: expected one of `to` and `between`"),
        ({"between": "rack"}, r"resources\[0\].between: expected node"),
        ({"to": 3}, r"resources\[0\].to"),
        ({"to": "a", "with": [{"type": "core", "count": 1}]}, "nothing below them"),
        ({"type": "slot", "label": "s", "to": "a", "with": [{"type": "core", "count": 1}]}, "nothing below them"),
    ],
)
def test_invalid_jobspecs_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        jobspec.parse_resources([{"type": "network", "count": 1, **given}])


def test_other_dialects_refuse_routes() -> None:
    core = {"type": "core", "count": 1, "to": "network:/leaf0"}
    slot = {"type": "slot", "count": 1, "label": "task", "with": [core]}
    with pytest.raises(InputError, match="to"):
        jobspec.parse_resources([slot], dialect="v1")


def test_uri_in_the_keys_of_a_shape_is_not_a_requested_pool() -> None:
    graph = sites.graph(SITE)
    made = graph.allocate("slot=1/[node;network=20{to:network:/leaf1}]", job="a")
    assert made.pools[0].name == "node0"
    assert graph.check() == []


def test_child_draws_bandwidth_from_its_parent() -> None:
    graph = sites.graph(SITE)
    top = Instance(graph)
    child = top.spawn(top.submit("slot=4/node{x}", duration_s=100))
    job = child.submit("slot=2/[node;network=25{between:node}]", duration_s=10)
    more = child.submit("slot=1/[node;network=12{to:spine}]", duration_s=10)
    assert [each.state.name for each in (job, more)] == ["RUN", "RUN"]
    held = {graph.structure.accounts.where(v) for v in graph.records.held if v >= graph.structure.n}
    assert {"network: network:leaf0 -> /site/rack0/node0", "network: network:leaf0 -> network:spine"} <= held
    assert top.check() == child.check() == []
    # A pool that nothing in the child is supplied by is not in it.
    with pytest.raises(InfeasibleRequest, match="no pool 'leaf2'"):
        child.submit("slot=1/[node;network=1{to:leaf2}]")


def test_slots_without_charges_are_counted(site: Matcher) -> None:
    found = both(site, "node=1{id:'0'}/slot=2/[core{-x};network=5{to:/site/rack0/node0}]")
    assert both(site, "node=1/slot=2/[core{-x};network=5{to:/site/rack0/node0}]") is not None
    assert found is not None
    assert [len(group) for group in found.slots] == [2]
    assert found.targets == []

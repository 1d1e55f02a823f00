"""A refusal names the obstacles, their numbers, and what would be enough."""

from __future__ import annotations

import pytest

import fluxres
from fluxres import limits
from fluxres.clock import TICKS_PER_S
from fluxres.graph.recipe import Recipe
from fluxres.match import Matcher
from fluxres.match.refusal import CUT, Refusal
from fluxres.match.traverser import Budget
from fluxres.model import ResourceGraph
from fluxres.syntax.jobspec import Request
from tests import sites
from tests.match.machines import matcher, request

S = TICKS_PER_S


@pytest.fixture
def six() -> Matcher:
    """Six nodes of four cores: node0 down, node1 held until 100 s, one core of node2 until 200 s, a class on node5."""
    nodes = [
        Recipe("node", 5, children=(Recipe("core", 4),)),
        Recipe("node", 1, ids=5, properties={"slow": None}, children=(Recipe("core", 4),)),
    ]
    made = matcher(*nodes)
    v = made.structure.vertex
    made.structure.set_state([v("/cluster/node0")], "down")
    made.planner.hold(v("/cluster/node1"), 1, 0, 100 * S)
    made.planner.hold(v("/cluster/node2/core3"), 1, 0, 200 * S)
    return made


def why(made: Matcher, text: str, requires: str | None = None) -> Refusal:
    holders = {
        made.structure.vertex("/cluster/node1"): ("big", 100 * S),
        made.structure.vertex("/cluster/node2/core3"): ("small", 200 * S),
    }
    found = made.why_not(request(text, requires), 0, 1000 * S, holders=lambda v, start, end: [holders[v]] if v in holders else [])
    assert found is not None
    return found


def causes(refusal: Refusal, part: int = 0) -> dict[str, int]:
    return {cause.code: cause.number for cause in refusal.parts[part].causes}


def test_every_candidate_is_counted_once(six: Matcher) -> None:
    refusal = why(six, "slot=5/node", requires="-slow")
    assert causes(refusal) == {"state": 1, "constraint": 1, "held": 1, "below": 1}
    part = refusal.parts[0]
    assert (part.asked, part.candidates, part.left, part.room) == (5, 6, 2, 2)
    assert part.is_short


def test_holders_have_names_and_times(six: Matcher) -> None:
    refusal = why(six, "slot=4/node")
    assert {cause.code: cause.holders for cause in refusal.parts[0].causes if cause.holders} == {
        "held": (("big", 100.0),),
        "below": (("small", 200.0),),
    }
    text = " ".join(refusal.sentences())
    assert "1 is down" in text
    assert "held by big until 100 s" in text
    assert "something in it is held by small until 200 s" in text


def test_refusal_says_what_would_be_enough_and_when(six: Matcher) -> None:
    refusal = why(six, "slot=4/node")
    assert refusal.enough == {"resources[0]": 3}
    assert refusal.earliest == 100.0
    assert not refusal.never
    assert refusal.sentences()[-1] == "The earliest start is 100 s."


def test_refusal_of_an_impossible_request(six: Matcher) -> None:
    refusal = why(six, "slot=2/core=5")
    assert refusal.never
    assert refusal.earliest is None
    assert causes(refusal) == {"inside": 6}
    assert refusal.parts[0].causes[0].detail == ("5 cores",)
    assert refusal.enough == {"resources[0].with[0]": 4}
    assert "never" in refusal.sentences()[-1]


def test_node_without_room_for_its_slots_is_reported(six: Matcher) -> None:
    refusal = why(six, "node=4/slot=4{work}/core=1")
    words = "lacks room for 4 instances of slot 'work', some of it held by small until 200 s"
    assert refusal.parts[0].causes[-1].sentence() == words


def test_missing_resources_outside_the_node_of_a_slot() -> None:
    made = matcher(Recipe("node", 2, children=(Recipe("core", 2),)), Recipe("licence", 1))
    refusal = why_plain(made, "slot/[core;licence=2]")
    assert [cause.detail for cause in refusal.parts[0].causes] == [("2 licences",)]


def test_no_start_while_a_node_is_down(six: Matcher) -> None:
    refusal = why(six, "slot=6/node")
    assert not refusal.never
    assert refusal.earliest is None
    assert "return to service" in refusal.sentences()[-1]


def test_missing_contents_are_reported(six: Matcher) -> None:
    refusal = why(six, "slot=1/[core=4]", requires="host:node2")
    assert causes(refusal) == {"constraint": 4, "state": 1, "inside": 1}


def test_free_units_of_large_pools_are_counted() -> None:
    made = matcher(Recipe("node", 2, children=(Recipe("memory", 2, size=8, unit="GiB"),)))
    made.planner.hold(2, 5, 0, 10 * S)
    made.planner.hold(3, 8, 0, 10 * S)
    refusal = why_plain(made, "memory=20")
    assert (refusal.parts[0].room, refusal.parts[0].left) == (19, 3)
    assert causes(refusal) == {"held": 1, "held-in-part": 1}
    assert refusal.enough == {"resources[0]": 19}
    assert causes(why_plain(made, "memory=20{unit:W}")) == {"unit": 4}


def test_holders_of_a_part_are_named() -> None:
    made = matcher(Recipe("node", 2, children=(Recipe("memory", 2, size=8, unit="GiB"), Recipe("core", 4))))
    made.planner.hold(2, 5, 0, 10 * S)
    made.planner.hold(4, 1, 0, 20 * S)
    holders = {2: ("a", 10 * S), 4: ("b", 20 * S)}

    def parts(text: str) -> list[list[tuple[str, int, tuple[tuple[str, float], ...]]]]:
        refusal = made.why_not(request(text), 0, 5 * S, holders=lambda v, start, end: [holders[v]] if v in holders else [])
        assert refusal is not None
        return [[(cause.code, cause.number, cause.holders) for cause in part.causes] for part in refusal.parts]

    a, b = ("a", 10.0), ("b", 20.0)
    assert parts("memory=30") == [[("held-in-part", 1, (a,))]]
    assert parts("slot=8/core=1")[0] == [("held-in-part", 1, (b,))]
    # Pools that are not requested are no obstacle.
    assert parts("node=2/slot/core=4")[0] == [("inside", 1, (b,))]
    assert parts("node=2/slot/memory=16")[0] == [("inside", 1, (a,))]
    assert parts("node=2/slot/[memory=16;core=4]")[0] == [("inside", 1, (a, b))]
    words = str(made.why_not(request("memory=30"), 0, 5 * S, holders=lambda v, start, end: [holders[v]] if v in holders else []))
    assert "27 GiB available in 4 of 4 pools: 1 of those available is held in part by a until 10 s." in words


def why_plain(made: Matcher, text: str) -> Refusal:
    found = made.why_not(request(text), 0, 5 * S)
    assert found is not None
    return found


def test_competing_parts_are_reported() -> None:
    made = matcher(Recipe("node", 2, children=(Recipe("core", 4),)))
    made.planner.hold(2, 1, 0, 10 * S)
    refusal = why_plain(made, "[slot=1{a}/core=4;slot=1{b}/core=4]")
    assert not any(part.is_short for part in refusal.parts if part.type == "slot")
    assert any("together" in sentence for sentence in refusal.sentences())
    assert refusal.earliest == 10.0


def test_every_node_that_lacks_something_is_counted() -> None:
    made = matcher(Recipe("node", 3 * limits.WHY_POOLS_MAX, children=(Recipe("core", 2),)))
    refusal = why_plain(made, "slot/core=3")
    assert causes(refusal) == {"inside": 3 * limits.WHY_POOLS_MAX}
    assert refusal.parts[0].left == 0


def test_reasons_are_by_place(six: Matcher) -> None:
    assert list(why(six, "slot=4/node").reasons()) == ["resources[0].with[0]"]


def test_no_refusal_if_there_is_a_match(six: Matcher) -> None:
    assert six.why_not(request("slot=1/node"), 0, 10) is None


def test_large_machine_is_counted_completely_and_named_partly(monkeypatch: pytest.MonkeyPatch) -> None:
    """`WHY_POOLS_MAX`, `WHY_NAMES_MAX`."""
    monkeypatch.setattr(limits, "WHY_POOLS_MAX", 3)
    made = matcher(Recipe("node", 9, children=(Recipe("core", 1),)))
    for v in made.structure.of_type("node").tolist():
        made.planner.hold(v, 1, 0, 10)
    asked: list[int] = []
    refusal = made.why_not(request("slot=9/node"), 0, 5, holders=lambda v, start, end: asked.append(v) or [(f"j{v}", 10)])
    assert refusal is not None
    assert causes(refusal) == {"held": 9}
    assert asked == made.structure.of_type("node")[::3].tolist()
    assert len(refusal.parts[0].causes[0].pools) == limits.WHY_NAMES_MAX


def test_all_suppliers_out_of_service_are_named_and_none_that_is_up() -> None:
    """Two PDUs, each fed from both sides: the feeds are down, the PDUs are not."""
    graph = sites.graph(
        """
fluxres: 1
name: m
resources: [{type: node, count: 2, draw: {power: 2}, with: [{type: core}]}]
graphs:
  power:
    pools:
      - {type: power, basename: feed, count: 2, size: 9, unit: W}
      - {type: power, basename: pdu, count: 2, size: 9, unit: W}
    edges:
      - {from: "power:/feed0", to: "power:/pdu*", supply: any}
      - {from: "power:/feed1", to: "power:/pdu*", supply: any}
      - {from: "power:/pdu*", to: "/m/node*", supply: any}
"""
    )
    graph.set_state(["power:/feed0", "power:/feed1"], "down")
    said = str(graph.why_not("slot/node{x}"))
    assert "get nothing from feed0, which is down and feed1, which is down" in said
    assert "cut off from feed0 (down) and feed1 (down)" in said
    assert "pdu0: down" not in said


def eight_racks(pdu: int, feed: int) -> ResourceGraph:
    """Eight nodes of 700 W a rack, each rack on a PDU of its own."""
    return sites.graph(
        f"""
fluxres: 1
name: m
resources:
  - {{type: rack, count: 8, with: [{{type: node, count: 8, draw: {{power: 700}}, with: [{{type: core}}]}}]}}
graphs:
  power:
    hierarchy: true
    pools: [{{type: power, name: feed, size: {feed}, with: [{{type: power, basename: pdu, count: 8, size: {pdu}}}]}}]
    edges: [{{from: "power:/feed/pdu[0-7]", to: "/m/rack[0-7]"}}]
"""
    )


def supplies(graph: ResourceGraph, text: str) -> tuple[tuple[str, ...], int, int]:
    """The suppliers with too little to give, and how much of the request is available."""
    refusal = graph.why_not(text)
    assert refusal is not None
    found = [(cause.pools, part.room, part.asked) for part in refusal.parts for cause in part.causes if cause.code == "supply"]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("pdu", "feed", "number", "named"),
    [
        (4000, 24000, 36, "feed"),  # the PDUs have enough for 40 nodes, the feed for 34
        (8000, 24000, 36, "feed"),
        (4000, 24000, 41, "feed pdu"),
        (3000, 24000, 34, "pdu"),  # 32 nodes
        (3000, 22400, 33, "feed pdu"),  # both are enough for 32
    ],
)
def test_only_limiting_suppliers_are_named(pdu: int, feed: int, number: int, named: str) -> None:
    pools, room, asked = supplies(eight_racks(pdu, feed), f"slot={number}/node")
    assert {pool.rsplit("/", 1)[1].rstrip("01234567") for pool in pools} == set(named.split())
    assert (room, asked) == (min(feed // 700, 8 * (pdu // 700)) * 700, number * 700)


def test_all_suppliers_that_have_too_little_are_counted() -> None:
    number = limits.WHY_POOLS_MAX + 44
    edges = [fluxres.Edge(f"power:/pdu{i}", f"/m/node{i}") for i in range(number)]
    power = fluxres.AuxiliaryGraph(pools=[fluxres.Resource("pdu", number, size=4, unit="W")], edges=edges)
    refusal = fluxres.build(fluxres.Resource("node", number), name="m", graphs={"power": power}).why_not("slot/[node;power=5]")
    assert f"{number} have too little to give" in str(refusal)
    assert f" and {number - limits.WHY_NAMES_MAX} more)" in str(refusal)


TWO_DRAWS = """
fluxres: 1
name: m
resources:
  - {type: node, count: 3, draw: {power: 600}, with: [{type: core}]}
  - {type: node, count: 3, id: 3-5, draw: {power: 1500}, with: [{type: core}, {type: gpu}]}
graphs:
  power:
    pools: [{type: power, name: feed, size: 5000, unit: W}]
    edges: [{from: "power:/feed", to: "/m/node*", capacity: 1600, unit: W}]
"""


def test_requested_units_are_those_of_the_pools_that_draw_least() -> None:
    graph = sites.graph(TWO_DRAWS)
    pools, room, asked = supplies(graph, "slot=6/node")
    assert (pools, room, asked) == (("power:feed",), 3 * 600 + 2 * 1500, 3 * 600 + 3 * 1500)
    said = str(graph.why_not("slot=6/node"))
    assert "requested at least 6.3 kW of power (600 W to 1.5 kW each), suppliers have room for only 4.8 kW" in said
    assert "Each part fits on its own" not in said
    assert "it would match with 5 slots." in said


def test_pools_without_the_requested_contents_draw_nothing() -> None:
    """With a core and a GPU only nodes of 1500 W count."""
    graph = sites.graph(TWO_DRAWS.replace("5000", "4000"))
    assert supplies(graph, "slot=3/node/[core;gpu]") == (("power:feed",), 3000, 4500)


def test_node_lacks_the_units_it_draws() -> None:
    graph = sites.graph(TWO_DRAWS)
    graph.allocate("slot=5/node", job="j")
    assert "1 lacks 1.5 kW of power (feed: 200 W of 5 kW free)" in str(graph.why_not("slot/node"))


def test_too_few_pools_are_not_blamed_on_their_suppliers() -> None:
    refusal = eight_racks(8000, 99999).why_not("slot=65/node")
    assert refusal is not None
    assert [part.type for part in refusal.parts if part.is_short] == ["node"]


def test_the_searches_of_one_explanation_share_what_they_may_take_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """`WHY_STEPS_MAX`: three slots compete for the nodes, and each smaller count that is tried is a search of its own."""
    spent = [0]
    spend = Budget.spend

    def counted(budget: Budget) -> None:
        spent[0] += 1
        spend(budget)

    made = matcher(Recipe("node", 40, children=(Recipe("core", 16), Recipe("gpu", 4))))
    for node in range(35):
        for core in range(3):
            made.planner.hold(made.structure.vertex(f"/cluster/node{node}/core{core}"), 1, 0, 100 * S)
    slots = [(30, 9, 1), (20, 5, 2), (25, 7, 0)]
    resources = [
        {"type": "slot", "count": count, "label": f"s{cores}", "with": [{"type": "core", "count": cores}]}
        for count, cores, _ in slots
    ]
    for slot, (*_, gpus) in zip(resources, slots, strict=True):
        slot["with"] += [{"type": "gpu", "count": gpus}] * bool(gpus)
    tasks = [{"command": ["x"], "slot": "s9", "count": {"per_slot": 1}}]
    asked = Request.parse({"version": 1, "resources": resources, "tasks": tasks, "attributes": {"system": {"duration": 10}}})
    monkeypatch.setattr(limits, "MATCH_STEPS_MAX", 2_000)
    monkeypatch.setattr(limits, "WHY_STEPS_MAX", 500)
    monkeypatch.setattr(Budget, "spend", counted)
    found = made.why_not(asked, 0, 10 * S)
    bound = 8 * made.structure.n  # what every search may take back besides
    assert found is not None
    assert found.undecided
    assert found.sentences()[-1] == CUT
    assert spent[0] < 2_000 + bound + 2 * (500 + bound) + 20

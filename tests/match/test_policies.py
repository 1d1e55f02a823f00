"""Orders of candidates: which pools a policy takes, and which are closest together."""

from __future__ import annotations

import doctest
import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fluxres
from fluxres.errors import PolicyError, UsageError
from fluxres.graph.recipe import Recipe
from fluxres.match import Matcher, Placement, Policy, vector
from fluxres.match.policy import POLICIES, Score, nearest
from fluxres.match.situation import Situation
from fluxres.simulation.machine import of_shape
from tests.match.machines import matcher, names, request
from tests.traceability import ROOT


def nodes_of(made: Matcher, found: Placement | None) -> list[str]:
    assert found is not None
    return names(made, found)


@pytest.fixture
def eight() -> Matcher:
    """Two racks of four nodes of four cores."""
    return matcher(Recipe("rack", 2, children=(Recipe("node", 4, children=(Recipe("core", 4),)),)))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("first", ["core0", "core1"]), ("low", ["core0", "core1"]), ("high", ["core2", "core3"]), ("hinode", ["core2", "core3"])],
)
def test_low_and_high_take_the_lowest_and_highest_pools(eight: Matcher, policy: str, expected: list[str]) -> None:
    found = eight.match(request("slot=1/core=2"), 0, 10, policy)
    assert [name.rpartition("/")[2] for name in nodes_of(eight, found)] == expected
    assert ("rack0/node0" if expected[0] == "core0" else "rack1/node3") in nodes_of(eight, found)[0]


def test_node_exclusive_forms_take_the_node_exclusively(eight: Matcher) -> None:
    found = eight.match(request("slot=1/core=2"), 0, 10, "hinodex")
    assert nodes_of(eight, found) == ["/cluster/rack1/node3"]
    assert found is not None
    assert found.whole.tolist() == [True]


def test_pack_takes_the_fullest_node_that_has_room_and_spread_the_emptiest(eight: Matcher) -> None:
    cores = eight.structure.of_type("core")
    eight.planner.hold_all(cores[4:6], 1, 0, 10)
    eight.planner.hold(int(cores[8]), 1, 0, 10)
    assert "rack0/node1" in nodes_of(eight, eight.match(request("slot=1/core=2"), 0, 10, "pack"))[0]
    assert "rack0/node2" in nodes_of(eight, eight.match(request("slot=1/core=3"), 0, 10, "pack"))[0]
    assert "rack0/node0" in nodes_of(eight, eight.match(request("slot=1/core=1"), 0, 10, "spread"))[0]


def test_spread_distributes_slots_over_nodes(eight: Matcher) -> None:
    """Each instance goes to the node with most room left: one in every node before a second one in any."""
    cores = eight.structure.of_type("core")
    eight.planner.hold_all(cores[:2], 1, 0, 10)
    for reference in (False, True):
        found = eight.match(request("slot=10/core=1"), 0, 10, "spread", reference=reference)
        assert found is not None
        per_node = [name.rsplit("/", 1)[0].removeprefix("/cluster/") for name in names(eight, found)]
        # node0 has two of its four cores left, and waits until the others are down to two.
        assert [per_node.count(f"rack{n // 4}/node{n % 4}") for n in range(8)] == [0, 2, 2, 2, 1, 1, 1, 1]
        group = found.slots[0]
        first = [names(eight, found)[group.picks[k]] for k in range(3)]
        assert first == [f"/cluster/rack0/node{n}/core0" for n in (1, 2, 3)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=6), st.integers(1, 3), st.integers(1, 8))
def test_largest_equals_choosing_one_after_the_other(nodes: list[tuple[int, int]], units: int, number: int) -> None:
    level, most = (np.array(column) for column in zip(*nodes, strict=True))
    if most.sum() < number:
        return
    left, taken = level.tolist(), [0] * len(nodes)
    for _ in range(number):
        at = max((k for k in range(len(nodes)) if taken[k] < most[k]), key=lambda k: (left[k], -k))
        left[at] -= units
        taken[at] += 1
    assert vector._largest(level, most, units, number).tolist() == taken


def test_variation_takes_the_best_class_first_and_unclassed_nodes_last() -> None:
    sorts = [
        Recipe("node", 1, ids=at, children=(Recipe("core"),), properties={} if grade is None else {"perf_class": grade})
        for at, grade in enumerate([None, 3, 1])
    ]
    made = matcher(*sorts)
    order = [nodes_of(made, made.match(request(f"slot={n}/core"), 0, 10, "variation")) for n in (1, 2)]
    assert order == [["/cluster/node2/core0"], ["/cluster/node1/core0", "/cluster/node2/core0"]]


def test_locality_takes_the_fewest_racks(eight: Matcher) -> None:
    nodes = eight.structure.of_type("node")
    eight.planner.hold(int(nodes[1]), 1, 0, 10)
    assert nodes_of(eight, eight.match(request("node=4{x}"), 0, 10, "locality")) == [f"/cluster/rack1/node{n}" for n in range(4)]
    assert nodes_of(eight, eight.match(request("slot=2/node"), 0, 10, "locality")) == [
        "/cluster/rack0/node2",
        "/cluster/rack0/node3",
    ]


def test_custom_policy(eight: Matcher) -> None:
    def odd_first(situation: Situation, vertices: np.ndarray) -> np.ndarray:
        return (situation.structure.id[vertices] + 1) % 2

    own = Policy("odd-first", score=odd_first)
    for reference in (False, True):
        found = eight.match(request("slot=1/core=3"), 0, 10, own, reference=reference)
        assert nodes_of(eight, found) == [f"/cluster/rack0/node1/core{n}" for n in (0, 1, 3)]


def test_example_in_the_specification_runs() -> None:
    text = (ROOT / "specs" / "matching.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    results = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(example, {}, "matching.md", None, 0))
    assert results.attempted > 3
    assert results.failed == 0


def test_policy_without_a_number_for_each_candidate_is_refused(eight: Matcher) -> None:
    with pytest.raises(UsageError, match="one number for each of 8 candidates"):
        eight.match(request("slot=1/node"), 0, 10, Policy("short", score=lambda situation, vertices: np.zeros(2)))


def test_unknown_policy_is_refused_with_the_known_ones(eight: Matcher) -> None:
    with pytest.raises(UsageError, match=r"no match policy 'best' .*locality"):
        eight.match(request("slot=1/node"), 0, 10, "best")


def test_every_policy_has_its_own_name() -> None:
    assert all(name == policy.name for name, policy in POLICIES.items())


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=5),
    st.integers(1, 10),
)
@settings(max_examples=400, deadline=None)
def test_nearest_takes_the_fewest_parents_then_the_closest(racks: list[list[int]], wanted: int) -> None:
    nodes, parents, room, v = [], [], [], 1
    for rack in racks:
        top, v = v, v + 1
        for has in rack:
            nodes.append(v)
            parents.append(top)
            room.append(has)
            v += 2
    chosen = nearest(np.array(nodes, np.int32), np.array(parents, np.int32), np.array(room), wanted).tolist()
    if sum(room) < wanted:
        assert chosen == []
        return
    usable = [at for at, has in enumerate(room) if has]
    tops = sorted({parents[at] for at in usable})

    def parents_of(positions: tuple[int, ...] | list[int]) -> list[int]:
        return sorted({parents[at] for at in positions})

    enough = [
        subset
        for size in range(1, len(usable) + 1)
        for subset in combinations(usable, size)
        if sum(room[at] for at in subset) >= wanted
    ]
    fewest = min(len(parents_of(subset)) for subset in enough)
    span = {subset: tops.index(parents_of(subset)[-1]) - tops.index(parents_of(subset)[0]) for subset in enough}
    closest = min(span[subset] for subset in enough if len(parents_of(subset)) == fewest)
    assert sum(room[at] for at in chosen) >= wanted
    assert len(parents_of(chosen)) == fewest
    assert span[tuple(chosen)] == closest
    within = [subset for subset in enough if parents_of(subset) == parents_of(chosen)]
    assert nodes[chosen[-1]] - nodes[chosen[0]] == min(nodes[subset[-1]] - nodes[subset[0]] for subset in within)


def _damage_rank(situation: Situation, vertices: np.ndarray) -> np.ndarray:
    situation.structure.rank[vertices] = 0
    return vertices


def _damage_units(situation: Situation, vertices: np.ndarray) -> np.ndarray:
    situation.structure.units[:] = 9
    return vertices


def _damage_accounts(situation: Situation, vertices: np.ndarray) -> np.ndarray:
    situation.accounts.size[vertices] = 9
    return vertices


def _damage_size(situation: Situation, vertices: np.ndarray) -> np.ndarray:
    situation.size[int(vertices[0])] = 9
    return vertices


def _damage_state(situation: Situation, vertices: np.ndarray) -> np.ndarray:
    situation.structure.set_state(vertices, "down")
    return vertices


@pytest.mark.parametrize("score", [_damage_rank, _damage_units, _damage_accounts, _damage_size, _damage_state])
def test_a_policy_that_writes_into_the_machine_is_refused_and_changes_nothing(score: Score) -> None:
    graph = of_shape("rack=2/node=2/socket=2/core=2")
    before = fluxres.dumps(graph)
    for wanted in ("slot/node", "slot=2/core"):
        with pytest.raises(PolicyError, match=r"policy own: \w+Error: .*read-only"):
            graph.allocate(wanted, job="x", policy=Policy("own", score=score))
    assert (graph.jobs(), graph.check(), fluxres.dumps(graph)) == ([], [], before)


def test_a_policy_sees_the_machine_as_it_is() -> None:
    def up_first(situation: Situation, vertices: np.ndarray) -> np.ndarray:
        assert situation.structure.unavailable_roots().tolist() == graph.structure.unavailable_roots().tolist()
        assert (situation.structure.state == graph.structure.state).all()
        return vertices

    graph = of_shape("rack=2/node=2/socket=2/core=2")
    for state in ("down", "up"):
        graph.allocate("slot/node", job=state, policy=Policy("own", score=up_first))
        graph.set_state("/cluster/rack1", state)


def _turn(situation: Situation, vertices: np.ndarray) -> np.ndarray:
    vertices %= 5
    return vertices


def _clear(situation: Situation, vertices: np.ndarray) -> np.ndarray:
    vertices.sort()
    vertices.fill(0)
    return vertices


@pytest.mark.parametrize("wanted", ["slot/node", "slot=2/core", "slot=2/node/core=2", "slot=2/socket{x}", "-N2 -c2"])
@pytest.mark.parametrize("score", [_turn, _clear])
def test_a_policy_that_writes_into_the_vertices_is_refused_and_changes_nothing(score: Score, wanted: str) -> None:
    graph = of_shape("rack=2/node=2/socket=2/core=2")
    with pytest.raises(PolicyError, match=r"policy own: ValueError: .*read-only"):
        graph.allocate(wanted, job="x", policy=Policy("own", score=score))
    assert (graph.jobs(), graph.check()) == ([], [])
    untouched = of_shape("rack=2/node=2/socket=2/core=2")
    after, expected = ([pool.path for pool in each.allocate(wanted, job="y").pools] for each in (graph, untouched))
    assert after == expected


def test_a_policy_that_fails_is_named(eight: Matcher) -> None:
    with pytest.raises(PolicyError, match="policy short: IndexError"):
        eight.match(request("slot=1/node"), 0, 10, Policy("short", score=lambda situation, vertices: vertices[100]))


def test_a_score_that_is_nan_is_refused(eight: Matcher) -> None:
    policy = Policy("gaps", score=lambda situation, vertices: np.where(vertices > vertices[0], 1.0, np.nan))
    with pytest.raises(UsageError, match=r"policy gaps: the score of /\S+ is nan \(give a number"):
        eight.match(request("slot=1/node"), 0, 10, policy)

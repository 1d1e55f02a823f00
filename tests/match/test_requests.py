"""What requests of each form take, one example for each rule of `specs/matching.md`, by the vector path and the traverser."""

from __future__ import annotations

import numpy as np
import pytest

from fluxres import limits
from fluxres.clock import FOREVER
from fluxres.errors import InfeasibleRequest, LimitExceeded, UsageError
from fluxres.graph.kinds import EXCLUSIVE, WAY
from fluxres.graph.recipe import Recipe
from fluxres.match import Matcher
from fluxres.syntax import jobspec
from fluxres.syntax.jobspec import Request
from tests.match.machines import matcher, request, takes


@pytest.fixture
def two() -> Matcher:
    """Two nodes: two sockets of two cores and a GPU each, and 8 GiB of memory next to them; a licence with three seats."""
    socket = Recipe("socket", 2, children=(Recipe("core", 2), Recipe("gpu")))
    node = Recipe("node", 2, children=(socket, Recipe("memory", size=8, unit="GiB")))
    return matcher(node, Recipe("licence", size=3))


def hold(made: Matcher, *paths: str, amount: int = 1, start: int = 0, end: int = 10) -> None:
    for path in paths:
        made.planner.hold(made.structure.vertex(f"/cluster/{path}"), amount, start, end)


class TestExclusivity:
    def test_pools_in_a_slot_are_taken_exclusively_or_by_unit(self, two: Matcher) -> None:
        assert takes(two, "slot=1/[core=1;memory=3]") == {"node0/socket0/core0": 1, "node0/memory0": 3}

    def test_pool_outside_slots_is_shared_and_not_recorded(self, two: Matcher) -> None:
        found = two.match(request("node=2"), 0, 10)
        assert found is not None
        assert found.targets == []
        assert [two.structure.name(v) for v in found.shared.tolist()] == ["node0", "node1"]

    def test_shared_pool_must_not_be_held_itself(self, two: Matcher) -> None:
        hold(two, "node0")
        assert takes(two, "node=2") is None
        assert takes(two, "node=1") == {}

    def test_exclusive_node_is_the_only_record(self, two: Matcher) -> None:
        assert takes(two, "node=1{x}/core=3") == {"node0": 1}
        assert takes(two, "node=1{x}/core=5") is None

    def test_exclusive_node_must_have_no_other_job_in_it(self, two: Matcher) -> None:
        hold(two, "node0/socket1/core0")
        assert takes(two, "slot=1/node") == {"node1": 1}
        assert takes(two, "node=1/slot=1/core=3") == {f"node0/socket{s}/core{c}": 1 for s, c in ((0, 0), (0, 1), (1, 1))}

    def test_exclusive_false_in_a_slot_passes_through(self, two: Matcher) -> None:
        assert takes(two, "slot=2/node{-x}/core=1") == {"node0/socket0/core0": 1, "node1/socket0/core0": 1}

    def test_exclusive_memory_is_a_complete_pool(self, two: Matcher) -> None:
        assert set(takes(two, "slot=1/memory=3{x}").values()) == {8}

    def test_all_units_of_a_pool_mean_the_pool_exclusively(self, two: Matcher) -> None:
        found = two.match(request("slot=1/memory=8"), 0, 10)
        assert found is not None
        assert found.whole.tolist() == [True]

    def test_pool_that_can_only_be_allocated_exclusively(self, two: Matcher) -> None:
        two.structure.flags[two.structure.of_type("memory")] |= EXCLUSIVE
        assert set(takes(Matcher(two.structure, two.planner), "slot=1/memory=3").values()) == {8}

    def test_pass_through_pool_is_not_taken_exclusively(self, two: Matcher) -> None:
        two.structure.flags[two.structure.vertex("/cluster/node0")] |= WAY
        made = Matcher(two.structure, two.planner)
        assert takes(made, "slot=1/node") == {"node1": 1}
        assert takes(made, "node=1/slot=1/core=1") == {"node0/socket0/core0": 1}


class TestSlots:
    def test_slot_instance_is_within_one_node(self, two: Matcher) -> None:
        hold(two, "node0/socket0/core0", "node1/socket1/core1")
        assert takes(two, "slot=1/core=4") is None
        assert takes(two, "slot=2/core=3") == {
            **{f"node0/socket{s}/core{c}": 1 for s, c in ((0, 1), (1, 0), (1, 1))},
            **{f"node1/socket{s}/core{c}": 1 for s, c in ((0, 0), (0, 1), (1, 0))},
        }

    def test_types_outside_nodes_are_searched_for_around_the_slot(self, two: Matcher) -> None:
        taken = takes(two, "slot=2/[core=4;licence=1]")
        assert taken is not None
        assert sum(units for name, units in taken.items() if name.startswith("licence")) == 2

    def test_two_slots_are_disjoint(self, two: Matcher) -> None:
        taken = takes(two, "[slot=1{a}/[core=3;gpu=1];slot=1{b}/[core=3;gpu=1]]")
        assert taken is not None
        assert len(taken) == 8

    def test_competing_slots_are_placed(self, two: Matcher) -> None:
        hold(two, "node0/socket1/gpu0", "node1/socket0/gpu0", "node1/socket1/gpu0")
        # Only node0 has a GPU, and the first slot must leave it enough cores.
        taken = takes(two, "[slot=1{a}/core=2;slot=1{b}/[core=4;gpu=1]]")
        assert taken is not None
        assert [name for name in taken if name.startswith("node1")] == ["node1/socket0/core0", "node1/socket0/core1"]

    def test_slots_in_an_exclusive_node_refer_to_it(self, two: Matcher) -> None:
        found = two.match(request("node=2{x}/slot=2/core=2"), 0, 10)
        assert found is not None
        assert found.slots[0].picks.tolist() == [0, 0, 1, 1]
        assert found.nslots == 4

    @pytest.mark.parametrize("number", [1, 2])
    def test_slots_without_pools_of_their_own_are_counted(self, number: int) -> None:
        made = matcher(Recipe("node", 4, children=(Recipe("core", 2),)))
        for reference in (False, True):
            found = made.match(request(f"slot=2{{a}}/node={number}{{-x}}/slot=1{{b}}/core=1"), 0, 10, reference=reference)
            assert found is not None
            assert ([len(group) for group in found.slots], found.nslots) == ([2, 2 * number], 2 + 2 * number)

    def test_levels_may_be_left_out(self, two: Matcher) -> None:
        assert takes(two, "node/slot/core=3") == takes(two, "slot/core=3")
        assert takes(two, "slot/socket/core=2") == {"node0/socket0": 1}


class TestCounts:
    def test_largest_count_that_fits(self, two: Matcher) -> None:
        hold(two, "node1")
        assert len(takes(two, "slot=1/core=2+") or {}) == 4
        assert len(takes(two, "slot=1-9/core=1") or {}) == 4
        assert len(takes(two, "slot=1/core=1-4:2:*") or {}) == 4
        assert len(takes(two, "slot=1/core=1,3,7") or {}) == 3

    def test_earlier_counts_come_first_and_all_instances_are_equal(self, two: Matcher) -> None:
        found = two.match(request("slot=1-3/core=1-4"), 0, 10)
        assert found is not None
        assert found.counts == (3, 2)

    def test_units_are_converted_and_rounded_up(self, two: Matcher) -> None:
        assert set(takes(two, "slot/memory=2{unit:GB}").values()) == {2}
        assert set(takes(two, "slot/memory=3000{unit:MiB}").values()) == {3}
        assert takes(two, "slot/memory=1{unit:W}") is None

    def test_ids_and_names(self, two: Matcher) -> None:
        assert takes(two, "node{x,id:'1'}") == {"node1": 1}
        assert takes(two, "node{x,id:'node[1-9]'}") == {"node1": 1}
        assert takes(two, "slot/core=2{id:'1'}") == {"node0/socket0/core1": 1, "node0/socket1/core1": 1}

    def test_gpu_count_of_zero_is_not_a_demand(self, two: Matcher) -> None:
        inside = [{"type": "core", "count": 1}, {"type": "gpu", "count": 0}]
        slot = {"type": "slot", "count": 1, "label": "task", "with": inside}
        found = two.match(Request(jobspec.parse_resources([slot], dialect="v1")), 0, 10)
        assert found is not None
        assert len(found) == 1


class TestAvailability:
    def test_pools_that_are_down_are_not_matched(self, two: Matcher) -> None:
        two.structure.set_state([two.structure.vertex("/cluster/node0")], "down")
        assert takes(two, "slot/node") == {"node1": 1}
        assert takes(two, "slot=2/core=3") is None
        assert two.satisfiable(request("slot=2/core=3"))

    def test_state_change_is_seen(self, two: Matcher) -> None:
        asked = request("slot=2/node")
        assert two.match(asked, 0, 10) is not None
        two.structure.set_state([1], "drain")
        assert two.match(asked, 0, 10) is None
        two.structure.set_state([1], "up")
        assert two.match(asked, 0, 10) is not None

    def test_constraint_on_states_sees_a_state_change(self, two: Matcher) -> None:
        asked = request("slot/node", "state:degraded")
        assert two.match(asked, 0, 10) is None
        two.structure.set_state([two.structure.vertex("/cluster/node1")], "degraded")
        assert takes(two, "slot/node", requires="state:degraded") == {"node1": 1}
        assert two.match(asked, 0, 10) is not None

    def test_constraints_apply_to_nodes(self, two: Matcher) -> None:
        assert takes(two, "slot/core", requires="host:node1") == {"node1/socket0/core0": 1}
        assert takes(two, "slot/core=3", requires="-node0") is not None
        assert takes(two, "slot/core", requires="rank:7") is None
        assert takes(two, "licence=1", requires="rank:7") is not None

    def test_unit_must_be_free_through_the_complete_window(self, two: Matcher) -> None:
        # At every moment three cores of node0 are free, but only two of them all the time.
        hold(two, "node0/socket0/core0", end=5)
        hold(two, "node0/socket0/core1", start=5)
        hold(two, "node1")
        assert takes(two, "slot/core=3") is None
        assert takes(two, "slot/core=2") == {"node0/socket1/core0": 1, "node0/socket1/core1": 1}

    def test_pools_implied_by_an_exclusive_socket(self, two: Matcher) -> None:
        hold(two, "node0/socket0", "node1/socket1")
        assert takes(two, "slot/core=3") is None
        assert takes(two, "slot=2/core=2") == {
            **{f"node0/socket1/core{c}": 1 for c in range(2)},
            **{f"node1/socket0/core{c}": 1 for c in range(2)},
        }


class TestTime:
    def test_earliest_start(self, two: Matcher) -> None:
        hold(two, "node0", end=30)
        hold(two, "node1", start=40, end=50)
        starts = {}
        for duration in (10, 20, 40, FOREVER):
            for text in ("slot=2/node", "slot/core=4"):
                found = two.earliest(request(text), duration, 0)
                slow = two.earliest(request(text), duration, 0, reference=True)
                assert found is not None
                assert slow is not None
                assert found.is_equal(slow)
                starts[text, duration] = found.start
        assert [starts["slot=2/node", duration] for duration in (10, 20, 40, FOREVER)] == [30, 50, 50, 50]
        assert [starts["slot/core=4", duration] for duration in (10, 20, 40, FOREVER)] == [0, 0, 0, 30]

    def test_no_start_for_an_impossible_request(self, two: Matcher) -> None:
        hold(two, "node0", end=FOREVER)
        assert two.earliest(request("slot=2/node"), 5, 0) is None
        assert two.satisfiable(request("slot=2/node"))
        assert not two.satisfiable(request("slot=3/node"))

    @pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (-1, 5), (FOREVER, FOREVER + 1)])
    def test_invalid_window_is_refused(self, two: Matcher, start: int, end: int) -> None:
        with pytest.raises(UsageError, match="window"):
            two.match(request("node"), start, end)


def test_unknown_type_is_refused_with_the_known_ones(two: Matcher) -> None:
    with pytest.raises(InfeasibleRequest, match=r"resources\[0\].with\[1\]: no pool of type 'tpu'.*core, gpu"):
        two.match(request("slot/[core;tpu]"), 0, 10)


def test_an_unknown_type_is_refused_with_the_nearest_one(two: Matcher) -> None:
    with pytest.raises(InfeasibleRequest, match=r"no pool of type 'gup' .*\(did you mean gpu\?\)"):
        two.match(request("slot/[core;gup]"), 0, 10)


def test_parts_that_compete_too_long_are_undecided(two: Matcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """`MATCH_STEPS_MAX`: the search ends, whatever its result would be."""
    monkeypatch.setattr(limits, "MATCH_STEPS_MAX", -8 * two.structure.n)
    hold(two, "node0/socket1/gpu0", "node1/socket0/gpu0", "node1/socket1/gpu0")
    with pytest.raises(LimitExceeded, match="compete for the same pools"):
        two.match(request("[slot=1{a}/core=2;slot=1{b}/[core=4;gpu=1]]"), 0, 10)


@pytest.mark.parametrize("policy", ["first", "locality", "pack", "hinodex"])
def test_large_count_is_decided_quickly(two: Matcher, policy: str) -> None:
    most = limits.COUNT_MAX
    for text in (
        f"slot={most}/core=1",
        f"slot=1/core={most}",
        f"slot={most}/node={most}",
        f"node={most}{{x}}/core={most}",
        f"slot={most}/[core=1;memory={most}]",
        f"memory={most}{{unit:EiB}}",
        f"slot/memory={most}{{unit:EiB}}",
        f"memory={most}{{x}}",
    ):
        assert takes(two, text, policy) is None
        assert not two.satisfiable(request(text))
        assert two.why_not(request(text), 0, 10, policy) is not None
        assert two.earliest(request(text), 10, 0, policy) is None
    assert len(takes(two, f"slot=1-{most}/core=1") or {}) == 8
    assert takes(two, f"memory=1-{most}{{unit:EiB}}", policy) is None


def test_matching_changes_nothing(two: Matcher) -> None:
    before = [column.copy() for column in two.structure.columns().values()]
    takes(two, "slot=2/[core=2;memory=3]")
    assert all(np.array_equal(a, b) for a, b in zip(before, two.structure.columns().values(), strict=True))
    assert two.planner.moments(0, FOREVER) == []

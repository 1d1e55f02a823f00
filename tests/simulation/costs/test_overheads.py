"""What the work of an instance costs beside its decisions: one processor, one task after the other, and slots for launches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.documents import yaml_document
from fluxres.errors import UsageError
from fluxres.experiments import parts
from fluxres.experiments.study import of_document
from fluxres.simulation.costs.cost import Fitted
from fluxres.simulation.costs.overheads import LevelCost, Overheads
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.energy.energy import Energy
from fluxres.simulation.energy.node_power import NodePower
from fluxres.simulation.energy.power_cap import PowerCap
from fluxres.simulation.events import EVENT_ORDERS
from fluxres.simulation.machine import of_number, of_shape
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.nesting.slots import Slots, SlotStart
from fluxres.simulation.prediction.prediction import Prediction
from fluxres.simulation.result import Result
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload.workload import Submission, Workload
from tests.simulation.nesting.nested_run import differences
from tests.simulation.nesting.test_nested import starts
from tests.simulation.test_simulator import job

S = 1_000_000


def columns(result: Result) -> list[object]:
    schedule = result.schedule
    assert schedule is not None
    return [schedule.ids, list(schedule.start), list(schedule.end), schedule.allocated, [row.busy_s for row in result.instances]]


@pytest.mark.parametrize("event_order", EVENT_ORDERS)
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_costs_of_nothing_change_nothing(policy: str, event_order: str) -> None:
    work = [job(n, n // 5, 1 + n % 7, 1 + n % 4, 9) for n in range(40)]
    levels = Hierarchy((2,), (policy,))
    ways = [(None, LevelCost(Fitted()), [None, LevelCost()]), (Fitted(start_s=0.25), [LevelCost(Fitted(start_s=0.25))])]
    for same in ways:
        found = [columns(simulate(work, 9, hierarchy=levels, cost=cost, event_order=event_order)) for cost in same]
        assert all(each == found[0] for each in found)


def test_each_task_takes_its_time_one_after_the_other() -> None:
    own = Overheads(ingest_s=1, start_s=2, event_s=4, launch_s=16)
    result = simulate([job(0, 0, 100, 1), job(1, 0, 100, 1)], 2, queue_policy="fcfs", cost=LevelCost(Fitted(start_s=0.5), own))
    # Both are taken in by 2 s, then a decision, the start of job 0, a decision, the start of job 1; each runs 16 s later.
    assert starts(result) == {0: (2 + 0.5 + 2 + 16, 0), 1: (2 + 0.5 + 2 + 0.5 + 2 + 16, 0)}
    (row,) = result.instances
    spent = (row.ingest_s, row.decide_s, row.start_s, row.event_s, row.spawn_s, row.busy_s)
    assert spent == (2.0, 1.0, 4.0, 8.0, 0.0, 15.0)
    # Job 0 ends at 120.5 s and job 1 at 123; the second end is processed after the first.
    assert row.end_s == 128.5


def test_resources_are_free_when_the_end_is_processed_even_if_the_limit_has_come() -> None:
    for policy in ("fcfs", "easy", "conservative"):
        result = simulate(
            [job(0, 0, 10, 1, 10), job(1, 0, 10, 1, 10)], 1, queue_policy=policy, cost=LevelCost(None, Overheads(event_s=3))
        )
        assert starts(result) == {0: (0.0, 0), 1: (13.0, 0)}
        assert result.metrics.makespan_s == 23.0


def test_limits_count_from_the_moment_at_which_a_job_runs() -> None:
    result = simulate([job(0, 0, 5, 1, 3), job(1, 0, 2, 1, 3)], 2, cost=LevelCost(None, Overheads(start_s=10, launch_s=1)))
    assert result.metrics.results == {"timeout": 1, "completed": 1}
    assert result.schedule is not None
    assert list(zip(result.schedule.start, result.schedule.end, strict=True)) == [(11 * S, 14 * S), (21 * S, 23 * S)]


def test_children_boot_at_the_expense_of_their_parent() -> None:
    own = Overheads(spawn_s=10, messages=2, message_s=1)
    result = simulate([job(n, 0, 1, 1) for n in range(2)], 2, hierarchy=Hierarchy((2,), boot_s=5), cost=LevelCost(None, own))
    # The parent spawns both, then answers by turns: the first child has its last answer at 23 s, the second at 24 s.
    assert [row.begin_s for row in result.instances] == [0.0, 28.0, 29.0]
    assert [row.boot_s for row in result.instances] == [0.0, 28.0, 29.0]
    assert result.instances[0].spawn_s == 24.0


def test_where_only_decisions_take_time_children_boot_during_the_next_one() -> None:
    outer = Submission("outer", 0, S, 9 * S, 1, jobs=(job(1, 0, 1, 1),))
    only = LevelCost(Fitted(base_s=2), Overheads(messages=3))
    result = simulate([outer], 1, queue_policy="fcfs", cost=only)
    assert [row.begin_s for row in result.instances] == [0.0, 4.0]
    busy = LevelCost(Fitted(base_s=2), Overheads(messages=3, launch_s=1e-6))
    result = simulate([outer], 1, queue_policy="fcfs", cost=busy)
    assert [row.begin_s for row in result.instances] == [0.0, 6.0]  # the spawn waits for the decision that starts nothing
    assert differences(60377, "named") == []


def test_a_reservation_that_moved_costs_no_decision_at_the_moment_it_had_before() -> None:
    work = [job(0, 0, 10, 1, 20), job(1, 0, 30, 1, 30), job(2, 1, 5, 1, 5)]
    decisions = {}
    for order in EVENT_ORDERS:
        (row,) = simulate(work, 1, queue_policy="conservative", cost="fixed:0.001", event_order=order).instances
        decisions[order] = row.decisions
    # Job 1 was to start at 20 s, and starts at 10. One decision more where the first two submissions come one after the other.
    assert decisions == {"sequential": 9, "batched": 8}


def test_costs_by_level() -> None:
    costs = [LevelCost(None, Overheads(start_s=4)), LevelCost(None, Overheads(start_s=1)), None]
    result = simulate([job(n, 0, 1, 1) for n in range(4)], 4, hierarchy=Hierarchy((2, 2), ("fcfs",)), cost=costs)
    # The spawn of the first child waits for the start of the second.
    assert [row.begin_s for row in result.instances if row.level] == [8.0, 8.0, 10.0, 10.0, 10.0, 10.0]
    assert {start for start, _ in starts(result).values()} == {10.0}


def test_a_node_starts_only_so_many_at_a_time() -> None:
    levels = Hierarchy((), ("fcfs",), starts_per_node=2)
    cost = LevelCost(None, Overheads(launch_s=1))
    result = simulate([job(n, 0, 10, 1) for n in range(8)], of_shape("node=1/core=8"), unit="core", hierarchy=levels, cost=cost)
    assert sorted(start for start, _ in starts(result).values()) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert result.instances[0].slot_wait_s == 2 * (1 + 2 + 3)
    # A child has its slot until it has begun, so two of four begin at 5 s, two at 10 s.
    nested = replace(levels, fan_outs=(4,), boot_s=5)
    result = simulate([job(n, 0, 1, 1) for n in range(4)], of_shape("node=1/core=8"), unit="core", hierarchy=nested)
    assert [row.begin_s for row in result.instances] == [0.0, 5.0, 5.0, 10.0, 10.0]


@given(st.lists(st.tuples(st.sets(st.integers(0, 4), min_size=1), st.integers(0, 9)), max_size=12), st.integers(1, 3))
def test_slots_are_given_in_order_on_each_node(wanted: list[tuple[set[int], int]], each: int) -> None:
    # Of all starts that want a node and are not over, the first `each` have a slot on it.
    slots, alive, running = Slots(each), list[SlotStart](), set[SlotStart]()
    for nodes, drop in wanted:
        start = SlotStart(sorted(nodes))
        alive.append(start)
        if slots.take(start):
            running.add(start)
        if drop % 3 == 0:
            gone = alive.pop(drop % len(alive))
            running.discard(gone)
            running.update(slots.give_back(gone))
        first = {node: [one for one in alive if node in one.nodes][:each] for node in range(5)}
        assert running == {one for one in alive if all(one in first[node] for node in one.nodes)}


@pytest.mark.parametrize("seed", [28, 44, 45, 76, 105, 215, 233])
def test_hierarchies_with_costs_equal_the_oracle(seed: int) -> None:
    assert differences(seed, "auto") == []


@pytest.mark.parametrize("balance", ["none", "steal", "redeal:5"])
@pytest.mark.parametrize("elastic", ["none", "demand", "share:5"])
def test_all_jobs_run_whatever_moves_them(balance: str, elastic: str) -> None:
    work = [job(n, n / 4, 1 + n % 7, 1 + n % 3, 20) for n in range(40)]
    inner = tuple(job(100 + n, 0, 1, 1) for n in range(3))
    work.append(Submission(99, 11 * S, S, 30 * S, 2, jobs=inner))
    levels = Hierarchy((2,), ("easy",), sizes=((3, 5),), larger="up", balance=balance, elastic=elastic)
    own = Overheads(0.01, 0.02, 0.03, 0.4, 2, 0.05, 0.06)
    result = simulate(Workload("x", work), 9, hierarchy=levels, cost=LevelCost(Fitted(start_s=0.01), own))
    assert (result.metrics.results, result.left) == ({"completed": 43}, 0)


def test_jobs_of_an_instance_that_ends_before_they_were_taken_in_are_accounted_for() -> None:
    inner = tuple(job(n, 0, 1, 1) for n in range(5))
    outer = Submission("outer", 0, S, 3 * S, 2, jobs=inner)
    result = simulate([outer], 2, queue_policy="fcfs", cost=LevelCost(None, Overheads(ingest_s=1.5)))
    assert (result.metrics.results, result.left) == ({"timeout": 2}, 3)
    result = simulate([outer], 2, queue_policy="fcfs", cost=LevelCost(None, Overheads(spawn_s=5)))
    assert (result.metrics.results, result.left) == ({}, 5)


def test_wrong_costs_are_refused() -> None:
    with pytest.raises(UsageError, match="start_s: expected a number of at least 0, got -1"):
        Overheads(start_s=-1)
    with pytest.raises(UsageError, match="messages: expected at most"):
        Overheads(messages=limits.BOOT_MESSAGES_MAX + 1)
    with pytest.raises(UsageError, match="at least one level"):
        simulate([], 4, cost=[])
    with pytest.raises(UsageError, match="the machine has no nodes"):
        simulate([], of_number(4), hierarchy=Hierarchy(starts_per_node=1))
    with pytest.raises(UsageError, match="starts of at least 0"):
        Hierarchy(starts_per_node=-1)
    down = Disturbances([ExternalEvent(0, "down", "node0")])
    with pytest.raises(UsageError, match="only decisions may take time beside external events"):
        simulate([], of_shape("node=4"), cost=LevelCost(None, Overheads(event_s=1)), disturbances=down)
    capped = Energy(NodePower(100, 200), cap=PowerCap(((0.0, 700.0),)))
    with pytest.raises(UsageError, match="only decisions may take time below a power cap"):
        simulate([], of_shape("node=4"), cost=LevelCost(None, Overheads(event_s=1)), energy=capped)


def page(cost: object) -> list[LevelCost]:
    document = {"fluxres-experiment": 1, "name": "x", "machine": 4, "workload": {"ensemble": {"jobs": 1}}, "cost": cost}
    return parts.costs(of_document(yaml_document.load(yaml.safe_dump(document).encode()), Path()).runs[0].page.cost)


def test_costs_of_a_page() -> None:
    assert page("none") == [LevelCost()]
    assert page({"fixed_s": 2}) == [LevelCost(Fitted(start_s=2.0))]
    given = {"fixed_s": 2, "ingest_s": 3, "start_s": 4, "event_s": 5, "launch_s": 6}
    given["boot"] = {"spawn_s": 7, "messages": 8, "message_s": 9}
    assert page(["none", given]) == [LevelCost(), LevelCost(Fitted(start_s=2.0), Overheads(3, 4, 5, 7, 8, 9, 6))]
    assert page({"ingest_s": 3}) == [LevelCost(None, Overheads(3))]
    for wrong in ({}, {"fixed_s": 1, "measured": {}}):
        with pytest.raises(UsageError, match=r"cost\.1: expected one of fixed_s, fitted, measured and model"):
            page(["none", wrong])


@pytest.mark.parametrize(
    "settings",
    [
        {"cost": LevelCost(None, Overheads(event_s=0.1))},
        {"cost": LevelCost(Fitted(start_s=0.001), Overheads(launch_s=0.001))},
        {"cost": "fixed:0.001"},
        {"event_order": "batched"},
        {"prediction": Prediction("requested")},
    ],
)
def test_a_job_that_its_instance_is_about_to_start_is_not_stolen(settings: dict[str, Any]) -> None:
    work = [job(0, 0, 5, 1, 5), job(1, 1, 5, 1, 5), job(2, 10, 5, 1, 5)]
    result = simulate(work, 4, hierarchy=Hierarchy((2,), ("fcfs",), balance="steal"), **settings)
    assert result.schedule is not None
    assert [(int(start), number) for _, (start, number) in sorted(starts(result).items())] == [(0, 1), (1, 2), (10, 1)]

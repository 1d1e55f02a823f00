"""Hierarchies in a simulation: divided types, and jobs that wait for each other."""

from __future__ import annotations

import pytest

from fluxres import InputError, QueuePolicy, limits
from fluxres.documents.source import Source
from fluxres.errors import InfeasibleRequest
from fluxres.instance import Queue
from fluxres.instance.policy import POLICIES
from fluxres.simulation.costs.cost import Fitted
from fluxres.simulation.machine import Machine, of_shape
from fluxres.simulation.nesting.hierarchy import Hierarchy, shares
from fluxres.simulation.schedule import RESULTS
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload import jobspecs
from fluxres.simulation.workload.workload import Workload
from tests.simulation.invariants import violations
from tests.simulation.test_simulator import job


@pytest.mark.parametrize(
    ("machine", "finest", "expected"),
    [
        ("node=5/core=8", "core", {2: [20, 20], 3: [14, 13, 13], 4: [10] * 4, 7: [6] * 5 + [5] * 2}),
        ("node=5/core=8", "node", {2: [3, 2], 3: [2, 2, 1], 4: [2, 1, 1, 1], 7: []}),
        ("node=4/[core=8;gpu=2]", "", {2: [2, 2], 3: [2, 1, 1], 4: [1] * 4, 7: [5] * 4 + [4] * 3}),
    ],
)
def test_type_that_is_divided(machine: str, finest: str, expected: dict[int, list[int]]) -> None:
    # Cores are divided if only cores count and they divide evenly; nodes with GPUs stay undivided while there are enough.
    for children, sizes in expected.items():
        if sizes:
            assert shares(of_shape(machine), children, "x", finest=finest)[1] == sizes
        else:
            with pytest.raises(InfeasibleRequest, match="7 children requested, but there are at most 5 of type node"):
                shares(of_shape(machine), children, "x", finest=finest)


def test_type_to_divide_can_be_set() -> None:
    assert shares(of_shape("rack=2/node=3/core=4"), 2, "x", by="node") == ("node", [3, 3])
    with pytest.raises(InfeasibleRequest, match="at most 0 of type gpu"):
        shares(of_shape("node=3"), 2, "x", by="gpu")
    levels = Hierarchy((2, 2), ("fcfs",), divide=("node", "core"))
    rows = simulate([], Machine(of_shape("node=3/core=2"), "core"), hierarchy=levels).instances
    assert [row.size for row in rows if row.level == 1] == [4, 2]
    assert [row.size for row in rows if row.level == 2] == [2, 2, 1, 1]


def test_jobs_that_count_nodes_get_nodes() -> None:
    jobs = [job(n, 0, 1, 1, 1) for n in range(10)]
    result = simulate(jobs, of_shape("node=5/core=8"), hierarchy=Hierarchy((2,), ("easy",)))
    assert (result.metrics.jobs, [row.size for row in result.instances]) == (10, [5, 3, 2])


@pytest.mark.parametrize("fan_outs", [(), (2,), (2, 2)])
@pytest.mark.parametrize(
    ("scheme", "status", "result"),
    [("afterok", 0, "completed"), ("afterok", 1, "failed"), ("afternotok", 0, "failed"), ("afternotok", 1, "completed")],
)
def test_dependencies_hold_at_any_depth(fan_outs: tuple[int, ...], scheme: str, status: int, result: str) -> None:
    # Eight pairs, all second halves after all first ones: dealt in turns, the halves would be in different instances.
    work = [job(n, 0, 2, 1, 5, status=status) for n in range(8)]
    work += [job(8 + n, 1, 1, 1, 5, dependencies=(f"{scheme}:{7 - n}",)) for n in range(8)]
    workload = Workload("pairs", work, has_dependencies=True)
    found = simulate(workload, of_shape("node=4"), hierarchy=Hierarchy(fan_outs, ("easy",)))
    schedule = found.schedule
    assert schedule is not None
    assert (len(schedule), found.left, len(found.refusals)) == (16, 0, 0)
    assert violations(schedule, 4, work) == [] or fan_outs  # instances number their units separately
    ends = dict(zip(schedule.ids, schedule.end, strict=True))
    for at, number in enumerate(schedule.ids):
        if isinstance(number, int) and number >= 8:
            assert RESULTS[schedule.result[at]] == result
            assert schedule.end[at] >= ends[15 - number]
            assert schedule.start[at] == -1 or schedule.start[at] >= ends[15 - number]
            assert schedule.instance[at] == schedule.instance[schedule.ids.index(15 - number)]


@pytest.mark.parametrize("fan_outs", [(2,), (2, 2)])
def test_singletons_of_a_hierarchy_run_one_at_a_time(fan_outs: tuple[int, ...]) -> None:
    work = [job(n, 0, 3, 1, 5, user="ann", name="x", dependencies=("singleton",) if n % 2 else ()) for n in range(9)]
    workload = Workload("x", work, has_dependencies=True)
    schedule = simulate(workload, of_shape("node=4"), hierarchy=Hierarchy(fan_outs, ("easy",))).schedule
    assert schedule is not None
    assert not [problem for problem in violations(schedule, 4, work) if "before" in problem]
    assert len(set(schedule.instance)) == 1


def test_a_cycle_in_a_workload_is_reported_before_anything_runs() -> None:
    cycle = "[{id: a, request: slot=1/core, run: 1, dependencies: ['afterok:b']}, "
    cycle += "{id: b, request: slot=1/core, run: 1, dependencies: ['afterany:a']}]"
    with pytest.raises(InputError, match="a cycle of dependencies: a → b → a"):
        jobspecs.read(Source(cycle.encode(), "jobs.yaml"))


class Late(QueuePolicy):
    """FCFS for a while, and then the behaviour given by `what`."""

    name = "late"

    def __init__(self, loops: int = 0) -> None:
        self.loops = loops

    def schedule(self, queue: Queue) -> None:
        if queue.now_s > 3:
            while self.loops:
                pass
            raise KeyError("x")
        for waiting in queue:
            if not queue.start(waiting):
                break


@pytest.mark.parametrize("levels", [("late", "late"), ("fcfs", "late"), ("late", "fcfs")])
@pytest.mark.parametrize("cost", [None, Fitted(start_s=0.25)])
def test_a_policy_that_raises_anywhere_is_named_and_all_jobs_are_accounted_for(
    monkeypatch: pytest.MonkeyPatch, levels: tuple[str, ...], cost: Fitted | None
) -> None:
    monkeypatch.setattr(POLICIES, "built_in", {**POLICIES.built_in, "late": Late})
    result = simulate([job(n, n, 2, 1, 5) for n in range(40)], of_shape("node=4"), hierarchy=Hierarchy((2,), levels), cost=cost)
    assert result.errors
    assert all("queue policy late: KeyError: 'x' (test_hierarchies.py, line " in error for error in result.errors)
    assert 0 < result.metrics.jobs < 40 if levels[1] == "late" else result.metrics.jobs + result.left == 40


def test_a_policy_that_loops_in_many_instances_is_soon_stopped_in_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PASS_SECONDS_MAX", 3.0)
    monkeypatch.setattr(POLICIES, "built_in", {**POLICIES.built_in, "late": lambda: Late(loops=1)})
    result = simulate([job(n, n, 2, 1, 5) for n in range(40)], of_shape("node=8"), hierarchy=Hierarchy((8,), ("fcfs", "late")))
    told = [error.split(": ", 1)[1].partition(" (")[0] for error in result.errors]
    assert told == ["queue policy late: it did not return"] * 8

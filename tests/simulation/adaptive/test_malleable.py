"""Malleable jobs: exact work at changing sizes, the resize policies, and what they meet (`malleable`)."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import UsageError
from fluxres.errors import FluxresError
from fluxres.experiments import checks, execution, study
from fluxres.instance import Instance
from fluxres.instance.accounting import Accounting
from fluxres.instance.queue import QueuePolicy
from fluxres.simulation import Hierarchy, Submission, simulate
from fluxres.simulation.adaptive import malleable
from fluxres.simulation.adaptive.adaptive import Adaptive
from fluxres.simulation.adaptive.malleable import MalleableRun
from fluxres.simulation.adaptive.speedup import Linear, Table
from fluxres.simulation.costs.cost import Fitted
from fluxres.simulation.disturbances.attempts import Checkpoint
from fluxres.simulation.disturbances.external import AdvanceReservation, Disturbances, ExternalEvent
from fluxres.simulation.machine import of_number, of_shape
from fluxres.simulation.metrics import Series
from fluxres.simulation.schedule import Finished
from fluxres.syntax import count
from tests.instance.machines import ManualClock
from tests.simulation.adaptive.reshaped import difference

S = 1_000_000
ON_EACH = pytest.mark.parametrize(
    ("machine", "inventory"), [(8, "counted"), ("node=8", "named"), ("node=8", "graph"), (8, "graph"), ("node=8", "auto")]
)


@pytest.mark.parametrize("part", range(2))
def test_random_malleable_workloads_run_as_an_oracle_says(part: int, deeper: float) -> None:
    """`python -m tests.simulation.adaptive.reshaped` makes thousands of them."""
    assert {difference(seed) for seed in range(part, round(320 * deeper), 2)} == {""}


def test_a_reservation_that_moved_makes_no_pass_at_the_moment_it_had_before() -> None:
    assert difference(2409) == ""  # such a pass made reservations again, which then moved


class Kept(list[Finished]):
    def add(self, record: Finished) -> None:
        self.append(record)

    def close(self) -> None:
        pass


def job(number: int, submit: int, run: int, allowed: str, preferred: int, pause: int = 0, **more: Any) -> Submission:
    adaptive = Adaptive(count.parse(allowed), preferred, Linear(), True, pause * S)
    limit = more.pop("limit", run + 100)
    return Submission(number, submit * S, run * S, limit * S, preferred, adaptive=adaptive, **more)


def rigid(number: int, submit: int, run: int, size: int, **more: Any) -> Submission:
    return Submission(number, submit * S, run * S, (run + 10) * S, size, **more)


def ran(
    jobs: list[Submission], machine: Any = 8, **settings: Any
) -> dict[object, tuple[float, float, str, list[tuple[float, int]]]]:
    """By job, its start and end in seconds, its result and its sizes over time."""
    kept = Kept()
    simulate(jobs, machine, sinks=[kept], **settings)
    return {
        one.id: (one.start / S, one.end / S, one.result, [(at / S, n) for at, n in one.sizes or [(one.start, one.size)]])
        for one in kept
    }


SPEEDS = st.fractions(Fraction(1, 10), 100, max_denominator=50)


@given(
    st.fractions(1, 10**9, max_denominator=1000),
    st.lists(st.tuples(st.integers(0, 10**7), SPEEDS), max_size=8),
    SPEEDS,
    st.integers(0, 10**5),
)
def test_work_is_the_integral_of_the_speed(
    work: Fraction, changes: list[tuple[int, Fraction]], first: Fraction, pause: int
) -> None:
    progress = MalleableRun(work, first, 0, 2**62, pause, 1)
    now, speed, works_from, done = 0, first, 0, Fraction(0)
    for gap, faster in changes:
        if now + gap >= progress.ends:
            break
        done += max(now + gap - max(works_from, now), 0) * speed
        now += gap
        progress.change(faster, now, 2**62, 1)
        speed, works_from = faster, now + pause * (now > 0)
    exact = max(works_from, now) + (work - done) / speed
    assert exact <= progress.ends < exact + 1


@ON_EACH
def test_a_job_grows_while_nothing_waits_and_pays_for_it(machine: Any, inventory: str) -> None:
    """400 unit-seconds: 20 s on 4 beside a rigid job, then 2 s of nothing and 40 s on 8."""
    jobs = [rigid(1, 0, 20, 4), job(2, 0, 100, "1-8:2:*", 4, pause=2)]
    found = ran(jobs, machine, inventory=inventory, resize_policy="expand-idle", queue_policy="easy")
    assert found[2] == (0, 62, "completed", [(0, 4), (20, 8)])


@ON_EACH
@pytest.mark.parametrize("queue_policy", ["fcfs", "easy", "easy-count", "conservative", "hybrid", "priority", "fairshare"])
def test_jobs_shrink_to_let_the_next_one_start(machine: Any, inventory: str, queue_policy: str) -> None:
    """640 unit-seconds: 10 s on 8, then 30 s on 5, then the rest on 8."""
    jobs = [job(1, 0, 80, "2-8", 8), rigid(2, 10, 30, 3)]
    found = ran(jobs, machine, inventory=inventory, resize_policy="shrink-to-start", queue_policy=queue_policy)
    assert found == {1: (0, 91.25, "completed", [(0, 8), (10, 5), (40, 8)]), 2: (10, 40, "completed", [(10, 3)])}


@ON_EACH
def test_no_job_shrinks_if_that_is_not_enough(machine: Any, inventory: str) -> None:
    jobs = [job(1, 0, 80, "4-8", 8), rigid(2, 10, 30, 5)]
    found = ran(jobs, machine, inventory=inventory, resize_policy="shrink-to-start")
    assert found[1] == (0, 80, "completed", [(0, 8)])


@ON_EACH
def test_equal_shares(machine: Any, inventory: str) -> None:
    jobs = [job(1, 0, 80, "1-8", 8), job(2, 10, 20, "1-8", 8), job(3, 20, 10, "2-3", 3)]
    found = ran(jobs, machine, inventory=inventory, resize_policy="equipartition", queue_policy="fcfs")
    assert found[1][3][:3] == [(0, 8), (10, 4), (20, 3)]
    assert found[2][3][:2] == [(10, 4), (20, 3)]
    assert found[3][3] == [(20, 2)]


def test_a_limit_is_a_bound_on_work() -> None:
    """It may do 8 * 50 unit-seconds: 20 s on 8 and 60 s on 4."""
    jobs = [job(1, 0, 100, "1-8", 8, limit=50), rigid(2, 20, 1000, 4)]
    assert ran(jobs, resize_policy="shrink-to-start")[1] == (0, 80, "timeout", [(0, 8), (20, 4)])


def test_a_change_at_the_start_costs_nothing() -> None:
    jobs = [job(1, 0, 80, "1-8", 4, pause=5), job(2, 0, 80, "1-8", 4, pause=5)]
    found = ran(jobs, 16, resize_policy="expand-idle")
    assert found[2] == (0, 40, "completed", [(0, 8)])


@ON_EACH
def test_a_failure_interrupts_it_like_any_job(machine: Any, inventory: str) -> None:
    if isinstance(machine, int):
        pytest.skip("units without names do not fail")
    events = [ExternalEvent(10 * S, "down", "node7"), ExternalEvent(30 * S, "up", "node7")]
    jobs = [job(1, 0, 80, "1-8", 8)]
    settings = {"inventory": inventory, "resize_policy": "expand-idle", "size_policy": "greedy"}
    found = ran(jobs, machine, disturbances=Disturbances(events, "requeue"), **settings)
    assert found[1] == (10, 10 + 20 + 500 / 8, "completed", [(10, 7), (30, 8)])
    assert ran(jobs, machine, disturbances=Disturbances(events), **settings)[1][:3] == (0, 10, "failed")


@ON_EACH
def test_an_advance_reservation_is_kept_free(machine: Any, inventory: str) -> None:
    events = [ExternalEvent(0, "reserve", AdvanceReservation(4, 50 * S, 100 * S))]
    jobs = [job(1, 1, 40, "2-8", 4, limit=40)]
    found = ran(jobs, machine, inventory=inventory, resize_policy="expand-idle", disturbances=Disturbances(events))
    assert found[1] == (1, 21, "completed", [(1, 8)])
    jobs = [job(1, 1, 120, "2-8", 4, limit=120)]
    found = ran(jobs, machine, inventory=inventory, resize_policy="expand-idle", disturbances=Disturbances(events))
    assert found[1][3][0] == (1, 4)  # on 8 it would run until 61 s


def test_preempted_jobs_begin_anew() -> None:
    qos = {"low": {}, "high": {"priority": 9, "preempt": ["low"]}}
    site = msgspec.convert({"preempt_type": "qos", "preempt_mode": "requeue", "qos": qos}, Accounting)
    jobs = [job(1, 0, 80, "4-8", 8, qos="low"), rigid(2, 10, 10, 6, qos="high")]
    found = ran(jobs, resize_policy="expand-idle", accounting=site)
    assert found == {1: (20, 100, "completed", [(20, 8)]), 2: (10, 20, "completed", [(10, 6)])}


def test_a_job_that_has_changed_ends_in_the_place_of_its_last_change_among_the_ends_of_a_moment() -> None:
    flat = Adaptive(count.parse("1-2"), 2, Table(((1, Fraction(1)), (2, Fraction(1)))), True)
    changed = Submission(1, 0, 10 * S, 20 * S, 2, adaptive=flat)  # at 2 s it shrinks to one unit, and still ends at 10 s
    jobs = [changed, rigid(2, 1, 9, 2), rigid(3, 2, 20, 1), rigid(4, 3, 5, 1)]
    kept = Kept()
    simulate(jobs, "node=4", sinks=[kept], queue_policy="fcfs", resize_policy="shrink-to-start")
    found = {one.id: (one.start / S, one.end / S, one.allocated()) for one in kept}
    assert found == {1: (0, 10, "0"), 2: (1, 10, "2-3"), 3: (2, 22, "1"), 4: (10, 15, "2")}
    assert [one.id for one in kept][:2] == [2, 1]


def test_limits_of_the_accounting_hold_for_growth() -> None:
    site = msgspec.convert({"users": {"ann": {"max_size": 6}}}, Accounting)
    jobs = [job(1, 0, 60, "1-8", 2, user="ann"), job(2, 0, 60, "1-8", 2, user="ann")]
    found = ran(jobs, 16, resize_policy="expand-idle", accounting=site)
    assert [found[1][3][0], found[2][3][0]] == [(0, 2), (0, 2)]  # 14 and more are not allowed, and it is all or nothing


def test_instances_of_a_hierarchy_change_sizes_of_their_own() -> None:
    jobs = [job(n, 0, 60, "1-8", 2) for n in (1, 2)]
    found = ran(jobs, hierarchy=Hierarchy((2,)), resize_policy="expand-idle")
    assert found == {n: (0, 30, "completed", [(0, 4)]) for n in (1, 2)}


def test_what_does_not_go_together_is_refused_with_words() -> None:
    with pytest.raises(UsageError, match="where decisions take time"):
        simulate([job(1, 0, 1, "1-2", 1)], 2, resize_policy="expand-idle", cost=Fitted(base_s=1.0))
    saving = Disturbances(checkpoint=Checkpoint(interval_s=5.0))
    assert list(simulate([job(1, 0, 1, "1-2", 1)], 2, disturbances=saving, resize_policy="expand-idle").refusals.reasons) == [
        "a malleable job has no checkpoints: make it moldable, or leave them out"
    ]
    with pytest.raises(UsageError, match="no resize policy 'grow'"):
        malleable.parse("grow")


def test_areas_and_curves_count_each_size_for_its_time() -> None:
    series, kept = Series(), Kept()
    jobs = [job(1, 0, 80, "2-8", 8, pause=1), rigid(2, 10, 30, 3)]
    result = simulate(jobs, 8, resize_policy="shrink-to-start", sinks=[series, kept])
    by_id = {one.id: one for one in kept}
    first = by_id[1]
    assert first.area == (10 * 8 + 30 * 5) * S + (first.end - 40 * S) * 8
    assert first.area - first.paused == 640 * S
    end = first.end / S
    assert result.metrics.utilisation == pytest.approx((first.area / S + 90) / (8 * end))
    curves = series.over_time(100)
    assert float(curves.used.sum()) * curves.part_s == pytest.approx(first.area / S + 90)
    assert result.metrics.peak == 8


class Sizes(QueuePolicy):
    """FCFS that notes sizes."""

    name = "sizes"

    def __init__(self) -> None:
        self.seen: list[int] = []

    def schedule(self, queue: Any) -> None:
        for each in queue:
            queue.start(each)

    def resized(self, job: Any, now_s: float) -> None:
        self.seen.append(job.size)


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("machine", ["node=4/core=2", 8])
def test_a_real_instance_resizes(machine: Any, inventory: str) -> None:
    clock, policy = ManualClock(), Sizes()
    graph = of_shape(machine) if isinstance(machine, str) else of_number(machine)
    top = Instance(graph, clock=clock, inventory=inventory, queue_policy=policy)
    shape = "slot=4/node" if isinstance(machine, str) else "slot=4/core=2"
    one = top.submit(shape, sizes={1: 400, 2: 200, 4: 100}, is_malleable=True)
    fixed = top.submit(shape, sizes={1: 400, 2: 200})
    assert (fixed.state.name, one.ends_at) == ("SCHED", 100)
    clock.now_s = 50
    assert top.resize(one, 2)
    assert (one.ends_at, one.size * 2, fixed.state.name) == (150, fixed.size * 2, "RUN")
    assert not top.resize(one, 4)
    assert top.resize(one, 2)
    assert (one.ends_at, top.check(), graph.check()) == (150, [], [])
    with pytest.raises(UsageError, match="it is moldable"):
        top.resize(fixed, 1)
    with pytest.raises(UsageError, match="it has 1, 2, 4"):
        top.resize(one, 3)
    clock.now_s = 60
    top.finish(fixed)
    assert top.resize(one, 4)
    assert (one.ends_at, policy.seen[-1], top.check()) == (105, one.size, [])
    top.finish(one)
    assert top.check() == []
    assert not graph.jobs()


def test_a_study_has_resize_policies(tmp_path: Path) -> None:
    page = tmp_path / "page.yaml"
    text = (
        "fluxres-experiment: 1\nname: sizes\nmachine: 64\nworkload:\n  lublin: {jobs: 60, size: 64}\n"
        "  adaptive: {kind: malleable, speedup: 'amdahl:serial=0.02', reconfiguration_s: 5}\nresize_policy: grow\n"
    )
    page.write_text(text)
    with pytest.raises(FluxresError, match=r"page\.yaml:7:16: resize_policy: no resize policy 'grow'"):
        checks.check(study.load(page))
    page.write_text(text.replace("grow", "equipartition") + "cost: {fixed_s: 1}\n")
    with pytest.raises(FluxresError, match="where decisions take time"):
        checks.check(study.load(page))


def test_a_run_of_a_study_writes_the_sizes_over_time(tmp_path: Path) -> None:
    page = tmp_path / "page.yaml"
    page.write_text(
        "fluxres-experiment: 1\nname: sizes\nmachine: node=64\nworkload:\n  lublin: {jobs: 40, size: 64}\n"
        "  adaptive: {kind: malleable, speedup: 'amdahl:serial=0.02', reconfiguration_s: 5}\nresize_policy: equipartition\n"
    )
    (run,) = study.load(page).runs
    assert not execution.execute(run, tmp_path).error
    with (tmp_path / "sizes.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    by_job: dict[str, list[tuple[float, int]]] = {}
    for line in lines:
        by_job.setdefault(line["job_id"], []).append((float(line["time"]), int(line["units"])))
    assert by_job
    assert all(len(steps) > 1 and steps == sorted(steps) for steps in by_job.values())
    with (tmp_path / "jobs.csv").open(encoding="utf-8", newline="") as file:
        begun = {line["job_id"]: line for line in csv.DictReader(file)}
    for number, steps in by_job.items():
        assert float(begun[number]["starting_time"]) == steps[0][0]
        assert int(begun[number]["requested_number_of_resources"]) == steps[0][1]

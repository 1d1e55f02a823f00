"""Runs: order of events, jobs that cannot run, costs, failures."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import InputError, QueuePolicy, Resource, UsageError, build, limits
from fluxres.clock import FOREVER
from fluxres.documents.source import Source
from fluxres.errors import InfeasibleRequest, RunFailed
from fluxres.instance import Instance, Job, Queue
from fluxres.simulation.costs.cost import Fitted, Measured
from fluxres.simulation.costs.cost import parse as cost_of
from fluxres.simulation.costs.decision import Decision
from fluxres.simulation.costs.fit import Fit
from fluxres.simulation.costs.seen import FitBounds
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.events import EVENT_ORDERS
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.machine import read as machine_of
from fluxres.simulation.nesting.hierarchy import Hierarchy, fan_outs, shares
from fluxres.simulation.results.numbering import Translated
from fluxres.simulation.schedule import Finished, Schedule
from fluxres.simulation.simulator import Simulator, simulate
from fluxres.simulation.workload import jobspecs
from fluxres.simulation.workload.models import Ensemble, Lublin
from fluxres.simulation.workload.workload import Submission, Workload
from fluxres.syntax.jobspec import as_request
from tests.simulation.invariants import violations

S = 1_000_000


def job(number: int, submit: float, run: float, size: int, limit: float | None = None, **more: object) -> Submission:
    end = FOREVER if limit is None else round(limit * S)
    return Submission(number, round(submit * S), round(run * S), end, size)._replace(**more)


def test_metrics_computed_by_hand() -> None:
    # Two nodes: the second job waits 10 s for the first, the third one 15 s.
    work = [job(1, 0, 10, 2, 10), job(2, 0, 5, 1, 5), job(3, 0, 5, 2, 5)]
    found = simulate(work, of_shape("node=2"), queue_policy="fcfs").metrics
    assert (found.jobs, found.results) == (3, {"completed": 3})
    assert (found.mean_wait_s, found.max_wait_s) == (pytest.approx(25 / 3), 15.0)
    assert found.mean_turnaround_s == 15.0
    assert found.mean_stretch == pytest.approx((1 + 3 + 4) / 3)
    assert found.mean_bounded_slowdown == pytest.approx((1 + 1.5 + 2) / 3)
    assert (found.makespan_s, found.utilisation, found.throughput_per_s) == (20.0, 35 / 40, 3 / 20)


def test_an_empty_workload() -> None:
    result = simulate([], of_number(3))
    assert (result.metrics.jobs, result.metrics.makespan_s, result.events) == (0, None, 0)


def test_jobs_larger_than_the_machine_are_counted_and_the_others_run() -> None:
    result = simulate([job(1, 0, 5, 9), job(2, 0, 5, 2), job(3, 1, 5, 99)], of_number(4))
    assert (result.metrics.jobs, len(result.refusals), result.refusals.ids) == (1, 2, [1, 3])


def test_jobs_that_wait_for_a_refused_job_are_refused_and_the_others_run() -> None:
    work = [
        job(1, 0, 5, 9),
        job(2, 0, 5, 2, dependencies=("afterany:1",)),
        job(3, 1, 5, 1, dependencies=("after:2",)),
        job(4, 2, 5, 4),
    ]
    result = simulate(Workload("x", work, has_dependencies=True), of_number(4))
    assert (result.metrics.jobs, result.left, result.refusals.ids) == (1, 0, [1, 2, 3])
    assert result.refusals.reasons["waits for a job that was refused"] == 2


def test_a_job_with_an_undecided_request_is_refused_and_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(build(Resource("node", 2, children=[Resource("core", 4), Resource("gpu")]), name="m"))
    monkeypatch.setattr(limits, "MATCH_STEPS_MAX", -8 * len(machine.graph))
    competing = as_request("[slot=1{a}/[core=3;gpu=1];slot=1{b}/core=4;slot=1{c}/gpu=1]")
    work = [job(1, 0, 5, 2), job(2, 1, 5, competing), job(3, 1, 5, 1, dependencies=("afterany:2",)), job(4, 2, 5, 1)]
    result = simulate(Workload("x", work, has_dependencies=True), machine)
    assert (result.metrics.jobs, result.left, result.refusals.ids) == (2, 0, [2, 3])
    assert any("undecided after" in reason for reason in result.refusals.reasons)


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_jobs_that_are_too_large_are_refused_for_one_kind_of_reason(inventory: str) -> None:
    sizes = (2, 33, 62, 40, 33)
    jobs = [job(n, 0, 5, size) for n, size in enumerate(sizes)]
    refusals = simulate(jobs, of_number(32), inventory=inventory).refusals
    assert (len(refusals.reasons), refusals.reasons.total()) == (3, 4)
    [(kind, number)] = refusals.by_kind().items()
    assert number == 4
    assert kind.startswith("requested 33 to 62 ")


def test_the_first_refused_jobs_are_named() -> None:
    result = simulate([job(n, 0, 5, 9) for n in range(1, 151)], of_number(4))
    assert result.refusals.listed(3) == "1, 2, 3 and 147 more"
    assert result.refusals.listed(150) == f"{', '.join(map(str, range(1, 101)))} and 50 more"
    assert simulate([job(7, 0, 5, 9)], of_number(4)).refusals.listed() == "7"


def test_a_limit_ends_a_job() -> None:
    result = simulate([job(1, 0, 50, 1, 20), job(2, 0, 5, 1, 20, status=1)], of_number(1), queue_policy="fcfs")
    assert result.metrics.results == {"timeout": 1, "failed": 1}
    assert result.schedule is not None
    assert list(result.schedule.end) == [20 * S, 25 * S]


def test_submissions_come_in_order() -> None:
    with pytest.raises(InputError, match="job 2 is submitted at 3"):
        simulate([job(1, 5, 1, 1), job(2, 3, 1, 1)], of_number(1))


def test_at_one_moment_submissions_come_before_ends() -> None:
    # At 10 the first job ends and two arrive: with the end first, the large one would start at once.
    work = [job(1, 0, 10, 1, 20), job(2, 10, 5, 2, 5), job(3, 10, 5, 1, 5)]
    schedule = simulate(work, of_shape("node=2"), queue_policy="easy").schedule
    assert schedule is not None
    assert schedule.starts() == {1: 0, 2: 15 * S, 3: 10 * S}


def test_dependencies_of_a_workload() -> None:
    workload = jobspecs.read(
        Source(
            b"""
            - {id: a, request: slot=1/node, run: 10, status: 1}
            - {id: b, request: slot=1/node, run: 5, dependencies: ["afternotok:a"]}
            - {id: c, request: slot=1/node, run: 5, dependencies: ["afterok:b"]}
            - {id: d, request: slot=1/node, run: 5, dependencies: ["afterok:a"]}
            - {id: e, request: slot=1/node, run: 5, dependencies: ["begin-time:40"]}
            """,
            "jobs",
        )
    )
    result = simulate(workload, of_shape("node=4"))
    assert result.schedule is not None
    assert result.schedule.starts() == {"a": 0, "b": 10 * S, "c": 15 * S, "d": -1, "e": 40 * S}
    assert result.metrics.results == {"failed": 2, "completed": 3}
    assert violations(result.schedule, 4, workload) == []


@pytest.mark.parametrize("inventory", ["auto", "graph"])
@pytest.mark.parametrize("policy", ["easy", "hybrid:depth=2", "conservative", "fairshare"])
def test_reservations_that_are_due_wait_for_an_instance_that_is_busy(policy: str, inventory: str) -> None:
    work = [job(at, at // 4, 1 + at % 3, 1 + at % 4, 4) for at in range(24)]
    result = simulate(work, of_shape("node=4"), queue_policy=policy, inventory=inventory, cost=cost_of("fixed:0.3"))
    assert (result.metrics.jobs, result.left, result.errors) == (24, 0, [])
    assert result.schedule is not None
    assert violations(result.schedule, 4, work) == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 9), st.lists(st.integers(0, 40), max_size=2), st.booleans()), max_size=25
    ),
    st.sampled_from([(2,), (3,), (2, 2)]),
)
def test_jobs_that_wait_for_each_other_go_to_one_instance(
    drawn: list[tuple[int, int, list[int], bool]], fan_outs: tuple[int, ...]
) -> None:
    drawn.sort(key=lambda row: row[0])
    jobs = []
    for at, (submit, run, others, alone) in enumerate(drawn):
        wanted = [f"afterany:{other % at}" for other in others if at]
        jobs.append(job(at, submit, run, 1, dependencies=(*wanted, *(("singleton",) if alone else ())), user="u", name="n"))
    workload = Workload("x", jobs, has_dependencies=True)
    machine, schedule = of_shape("node=4"), Schedule()
    sink = Translated(schedule, machine.structure, "node")
    result = simulate(workload, machine, hierarchy=Hierarchy(fan_outs), sinks=[sink], keep=False)
    assert violations(schedule, 4, jobs) == []
    assert (result.metrics.jobs, result.left) == (len(jobs), 0)


def test_a_dependency_on_an_unknown_job_is_named() -> None:
    with pytest.raises(InputError, match="job 2"):
        simulate([job(1, 0, 5, 1), job(2, 0, 5, 1, dependencies=("afterok:7",))], of_number(1))


def test_requests_may_be_more_than_a_number() -> None:
    work = [job(n, 0, 10, 1, 10)._replace(ask=as_request("slot=2/[core=2;gpu=1]")) for n in range(3)]
    for inventory in ("auto", "graph"):
        result = simulate(work, of_shape("node=2/[core=4;gpu=2]"), inventory=inventory, queue_policy="conservative")
        assert result.schedule is not None
        assert sorted(result.schedule.starts().values()) == [0, 0, 10 * S]


def test_machines() -> None:
    assert machine_of("5").pool("/processors/core").size == 5
    assert len(machine_of("rack=2/node=3/[core=2;gpu]")) == 1 + 2 + 6 * 4
    assert machine_of(None, 7).pool("/processors/core").size == 7
    assert Machine(of_shape("rack=2/node=3/core=2")).unit == "node"
    assert Machine(of_shape("rack=2/core=3")).unit == "core"
    assert Machine(of_number(9)).count == 9
    for wrong in ("0", "slot=2/node", "node=1-3"):
        with pytest.raises((UsageError, InputError)):
            machine_of(wrong)
    with pytest.raises(UsageError, match="--machine"):
        machine_of(None)
    with pytest.raises(UsageError, match="has no 'socket'"):
        Machine(of_number(3), "socket")


@pytest.mark.parametrize("event_order", EVENT_ORDERS)
@pytest.mark.parametrize("queue_policy", ["fcfs", "easy", "conservative"])
def test_decisions_that_take_no_time_change_nothing(queue_policy: str, event_order: str) -> None:
    work = list(Lublin(300, size=32, seed=3))
    starts = []
    for cost in (None, cost_of("fixed:0"), Fitted()):
        found = simulate(work, of_shape("node=32"), queue_policy=queue_policy, cost=cost, event_order=event_order)
        assert found.schedule is not None
        starts.append((found.schedule.starts(), found.schedule.allocated))
    assert starts[0] == starts[1] == starts[2]


def test_events_of_one_moment_are_handled_one_by_one_or_at_once() -> None:
    # At 10 s a job ends and two arrive. One by one, the first arrival finds two nodes busy, and the second one fits before it.
    work = [job(1, 0, 10, 2, 12), job(2, 10, 5, 3, 5), job(3, 10, 2, 1, 2)]
    starts = {}
    for event_order in EVENT_ORDERS:
        result = simulate(work, of_shape("node=3"), queue_policy="easy", event_order=event_order)
        assert result.schedule is not None
        starts[event_order] = {number: start // S for number, start in result.schedule.starts().items()}
    assert starts == {"sequential": {1: 0, 2: 12, 3: 10}, "batched": {1: 0, 2: 10, 3: 15}}
    with pytest.raises(UsageError, match="event_order: expected sequential or batched, got 'random'"):
        simulate(work, of_shape("node=3"), event_order="random")


def test_decisions_with_a_cost_are_made_one_by_one() -> None:
    result = simulate(Ensemble(10, 1.0), of_number(100), cost=cost_of("fixed:0.5"), queue_policy="fcfs")
    assert result.schedule is not None
    assert sorted(result.schedule.start) == [round((n + 1) * 0.5 * S) for n in range(10)]
    (row,) = result.instances
    assert (row.jobs, row.busy_s) == (10, 5.0)


def test_a_job_that_ends_before_its_decision_is_complete_has_not_run() -> None:
    work = [job(0, 0, 10, 1), job(1, 20, 10, 1)]
    ends = Disturbances([ExternalEvent(22_000_000, "cancel", 1)])
    result = simulate(work, of_shape("node=1"), cost=cost_of("fixed:5"), queue_policy="fcfs", disturbances=ends)
    assert result.schedule is not None
    assert (list(result.schedule.start), list(result.schedule.end)) == ([5_000_000, -1], [15_000_000, 22_000_000])
    assert result.metrics.mean_wait_s == 5.0  # of the job that ran


def test_a_limit_counts_from_the_decision() -> None:
    work = [job(n, 0, 10, 1, 10) for n in range(3)]
    result = simulate(work, of_shape("node=1"), cost=cost_of("fitted:base=1"), queue_policy="easy")
    assert result.schedule is not None
    assert result.metrics.results == {"completed": 3}
    assert violations(result.schedule, 1, work) == []


def test_costs() -> None:
    decision = Decision(considered=4, started=1, queued=10, size=100, took_s=0.25, units=7)
    assert cost_of("fitted:base=1,start=2,considered=3,queued=4,size=5,unit=6").decide(decision) == 597
    assert Measured(2.0).decide(decision) == 0.5
    assert cost_of("none") is cost_of(None) is None
    for wrong in ("fixed", "fixed:-1", "fixed:x", "fitted:weight=1", "fitted:", "guessed", "measured:nan"):
        with pytest.raises(UsageError):
            cost_of(wrong)


@given(
    st.lists(st.floats(0, 10), min_size=6, max_size=6),
    st.lists(
        st.tuples(
            st.integers(0, 50), st.integers(0, 1), st.integers(0, 99), st.integers(1, 999), st.just(0.0), st.integers(0, 99)
        ),
        min_size=30,
        max_size=60,
    ),
)
def test_a_fit_reproduces_the_cost_of_decisions(
    parts: list[float], decisions: list[tuple[int, int, int, int, float, int]]
) -> None:
    model = Fitted(*parts)
    fit = Fit(model)
    for made in decisions:
        fit.decide(Decision(*made))
    found = fit.fitted()
    assert min(found.terms) >= 0.0
    again = cost_of(str(found))
    assert isinstance(again, Fitted)
    assert (again.terms, again.seen) == (pytest.approx(found.terms, rel=5.01e-6, abs=0.0), found.seen)  # six digits
    took, said = ([each.decide(Decision(*made)) for made in decisions] for each in (model, found))
    # By the criterion, each of up to seven terms is left out if that multiplies the error, or a billionth of the sum of squares
    # where the error is less, by at most the n-th root of n; decisions of less than 1e-140 s count as none.
    off, number = sum((a - b) ** 2 for a, b in zip(took, said, strict=True)), len(decisions)
    assert off <= 1.000001e-9 * number ** (len(parts) / number) * sum(a**2 for a in took) + 1e-277


def test_decisions_that_take_no_time_count_in_a_fit() -> None:
    fit = Fit(Fitted(considered_s=1.0))
    for tried in (*([0] * 29), 1):
        fit.decide(Decision(tried, 0, 0, 1, 0.0))
    assert fit.fitted() == Fitted(considered_s=1.0, seen=FitBounds(considered=1))


def test_a_fit_without_decisions_is_zero() -> None:
    assert (Fit(Measured()).fitted(), str(Fitted())) == (Fitted(), "fitted:base=0")
    assert cost_of(str(Fitted())) == Fitted()


def test_measured_decisions_take_time() -> None:
    result = simulate(Ensemble(20, 1.0), of_number(100), cost=cost_of("measured"), queue_policy="fcfs")
    assert result.instances[0].busy_s > 0
    assert result.metrics.jobs == 20


def test_request_size_and_machine_size_are_separate_terms_of_a_fit() -> None:
    """A root that starts large requests is not mistaken for one whose machine is large."""
    model = Fitted(start_s=1e-3, size_s=1e-6, unit_s=1e-4)
    fit = Fit(model)
    hierarchy = Hierarchy((4,), ("fcfs",))
    simulate(Ensemble(64, 0.0), of_shape("node=4/core=8"), unit="core", cost=fit, hierarchy=hierarchy)
    assert fit.fitted().terms == pytest.approx(model.terms, rel=1e-3, abs=1e-7)


def test_a_hierarchy_divides_machine_and_jobs() -> None:
    machine = Machine(of_shape("node=4/core=8"), "core")
    result = simulate(Ensemble(101, 1.0), machine, hierarchy=Hierarchy((4, 2), ("easy", "fcfs", "conservative"), boot_s=2.0))
    levels = [[row for row in result.instances if row.level == level] for level in range(3)]
    assert [len(rows) for rows in levels] == [1, 4, 8]
    assert [row.size for row in levels[2]] == [4] * 8
    assert sorted(row.jobs for row in levels[2]) == [12] * 3 + [13] * 5
    assert {row.begin_s for row in levels[2]} == {4.0}
    assert result.metrics.jobs == 101
    assert result.schedule is not None
    assert min(result.schedule.start) == 4 * S
    for number in {row.number for row in levels[2]}:
        part = [at for at in range(101) if result.schedule.instance[at] == number]
        assert len(part) in (12, 13)
    assert len({row.address for row in result.instances}) == 13


class Auditor:
    """A sink that audits the tree of instances from time to time."""

    def __init__(self) -> None:
        self.top: Instance | None = None
        self.seen = self.audits = 0

    def add(self, job: Finished) -> None:
        self.seen += 1
        if self.top is not None and self.seen % 23 == 0:
            self.audits += 1
            assert self.top.check() == []

    def close(self) -> None:
        pass


@pytest.mark.parametrize("inventory", ["auto", "graph"])
def test_rule_n1_children_are_inside_their_parents_while_a_hierarchy_runs(inventory: str) -> None:
    auditor = Auditor()
    simulator = Simulator(
        Machine(of_shape("node=4/core=4"), "core"),
        hierarchy=Hierarchy((2, 2), ("easy", "fcfs", "conservative")),
        inventory=inventory,
        sinks=[auditor],
    )
    auditor.top = simulator.instance
    result = simulator.run(Ensemble(200, 5.0, "uniform", limit_s=10.0, seed=1))
    assert auditor.audits == 8
    assert result.schedule is not None
    for row in result.instances:
        own = [at for at in range(200) if result.schedule.instance[at] == row.number]
        assert all(result.schedule.start[at] / S >= row.begin_s and result.schedule.end[at] / S <= row.end_s for at in own)
        assert violations(part(result.schedule, own), row.size) == []


def part(schedule: Schedule, own: list[int]) -> Schedule:
    """Some jobs of a schedule."""
    made = Schedule()
    made.ids = [schedule.ids[at] for at in own]
    for name in ("submit", "start", "end", "limit", "size", "result", "instance"):
        setattr(made, name, [getattr(schedule, name)[at] for at in own])
    made._claims = [schedule._claims[at] for at in own]
    return made


def test_instances_of_a_hierarchy_decide_in_parallel() -> None:
    machine = "node=4/core=8"
    flat, nested = (
        simulate(Ensemble(400, 1.0), Machine(of_shape(machine), "core"), hierarchy=hierarchy, cost=cost_of("fixed:0.1")).metrics
        for hierarchy in (Hierarchy(), Hierarchy((4,)))
    )
    assert flat.makespan_s is not None
    assert nested.makespan_s is not None
    assert flat.makespan_s == pytest.approx(41.0)
    # A hundred jobs on eight cores each: now the cores are the bottleneck, no longer the scheduler.
    assert 100 / 8 <= nested.makespan_s < flat.makespan_s / 2.5


def test_a_hierarchy_with_more_children_than_pools_is_refused() -> None:
    with pytest.raises(InfeasibleRequest, match="9 children"):
        simulate(Ensemble(5), of_shape("node=4/core=2"), hierarchy=Hierarchy((9,)))
    assert shares(of_shape("rack=2/node=3"), 4, "x") == ("node", [2, 2, 1, 1])
    assert shares(of_shape("node=6/core=4"), 4, "x") == ("core", [6, 6, 6, 6])
    assert shares(of_shape("node=42/core=4"), 4, "x") == ("node", [11, 11, 10, 10])
    for wrong in ("0x4", "2x", "x", "", "two", "1000000000"):
        with pytest.raises(UsageError):
            fan_outs(wrong)
    for wrong_settings in (
        {"boot_s": -1.0},
        {"ahead": -1},
        {"fan_outs": (0,)},
        {"queue_policies": ("x",)},
        {"match_policies": ("x",)},
    ):
        with pytest.raises(UsageError):
            Hierarchy(**wrong_settings)  # type: ignore[arg-type]  # that is the test


class Stops(QueuePolicy):
    """Works for a while."""

    name = "stops"

    def __init__(self, what: str = "raises", after: int = 3) -> None:
        self.what, self.left = what, after

    def schedule(self, queue: Queue) -> None:
        self.left -= 1
        if self.left < 0:
            if self.what == "raises":
                raise ZeroDivisionError("by hand")
            while True:
                pass
        for waiting in queue:
            queue.start(waiting)


def test_a_policy_that_raises_ends_its_instance_and_keeps_the_results() -> None:
    result = simulate([job(n, n, 1, 1) for n in range(10)], of_number(4), queue_policy=Stops())
    (told,) = result.errors
    assert re.fullmatch(r"processors: queue policy stops: ZeroDivisionError: by hand \(test_simulator\.py, line \d+\)", told)
    assert 0 < result.metrics.jobs < 10


def test_a_policy_that_loops_is_stopped(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(limits, "PASS_SECONDS_MAX", 0.1)
    result = simulate([job(n, n, 1, 1) for n in range(10)], of_number(4), queue_policy=Stops("loops"))
    assert len(result.errors) == 1
    assert "stops" in result.errors[0]
    assert "did not return" in result.errors[0]
    (said,) = caplog.messages  # before it was stopped
    where = r"\(test_simulator\.py, line \d+\); it is stopped after 0\.1 s"
    assert re.fullmatch(rf"fluxres: queue policy stops has been deciding for [\d.]+ s {where}", said)


def test_a_run_reports_its_progress() -> None:
    seen: list[int] = []
    simulate(Ensemble(3000, 1.0), of_number(4), progress=seen.append, keep=False)
    assert seen == sorted(set(seen))
    assert 2 <= len(seen) <= 10
    assert 0 < seen[0] < seen[-1] <= 3000


def test_a_workload_may_be_run_again() -> None:
    workload = Workload("x", Ensemble(50, 3.0, "exponential", seed=4))
    first, second = (simulate(workload, of_number(5), queue_policy="conservative") for _ in range(2))
    assert first.metrics == second.metrics
    assert first.schedule is not None
    assert second.schedule is not None
    assert list(first.schedule) == list(second.schedule)


class Broken(Simulator):
    """Cannot start job 1."""

    problem: Exception = UsageError("no such program", hint="install it")

    def _begin(self, job: Job, moment: int) -> None:
        if job.payload.id == 1:
            raise self.problem
        super()._begin(job, moment)


def test_a_job_that_cannot_be_started_fails_and_says_why() -> None:
    result = Broken(of_number(2)).run([job(n, 0, 5, 1, 5) for n in range(3)])
    assert result.metrics.results == {"completed": 2, "failed": 1}
    assert result.notes == {"jobs that failed: the runner could not start it: UsageError: no such program (install it)": 1}


@pytest.mark.parametrize("event_order", EVENT_ORDERS)
def test_a_defect_of_the_simulator_is_no_failed_job(event_order: str) -> None:
    simulator = Broken(of_number(2), event_order=event_order)
    simulator.problem = ZeroDivisionError("division by zero")
    with pytest.raises(RunFailed, match=r"job 1: ZeroDivisionError: division by zero .*defect of the simulator"):
        simulator.run([job(n, 0, 5, 1, 5) for n in range(3)])


def test_ids_of_an_ensemble_are_not_remembered() -> None:
    made = Simulator(Machine(of_number(4)), queue_policy="fcfs")
    assert made.run(Ensemble(20, run_s=1.0)).metrics.jobs == 20
    assert not made.instance.dependencies.remembers

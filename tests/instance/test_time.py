"""Time in instances (rule T1): due events come first, and nothing starts before the previous job has stopped."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fluxres
from fluxres import InsufficientResources, PolicyError, QueuePolicy, Resource, UsageError, clock, limits
from fluxres.errors import FluxresError, StaleHandle
from fluxres.instance import Instance, Job, Queue, Runner, State
from fluxres.instance.accounting import Accounting, Qos
from fluxres.instance.holding import OVERTIME_S
from fluxres.model import ResourceGraph
from fluxres.simulation.costs.cost import Fitted
from fluxres.simulation.schedule import RESULTS
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload.workload import Submission
from tests.instance.course import Course
from tests.instance.machines import ManualClock, nodes, of_number, of_shape, racks

S = 1_000_000
INVENTORIES = ["graph", "auto", "named"]
POLICIES = ["fcfs", "easy", "easy-count", "easy-sjbf", "hybrid", "conservative", "priority", "fairshare"]


class ManualRunner(Runner):
    """Records its calls; tests report the end of jobs.

    Args:
        at_once: the names of jobs that end as soon as they are asked to stop.
    """

    def __init__(self, *at_once: str) -> None:
        self.at_once = at_once
        self.calls: list[str] = []

    def start(self, job: Job) -> None:
        self.calls.append(f"start {job.name}")

    def stop(self, job: Job, why: str) -> None:
        self.calls.append(f"stop {job.name}: {why}")
        if job.name in self.at_once:
            job.instance.finish(job, 15)


def make_instance(
    inventory: str = "graph", policy: str = "fcfs", size: int = 6, at_once: tuple[str, ...] = (), **settings: Any
) -> tuple[Instance, ManualClock, ManualRunner]:
    clock, runner = ManualClock(), ManualRunner(*at_once)
    made = Instance(nodes(size), queue_policy=policy, clock=clock, inventory=inventory, runner=runner, name="top", **settings)
    return made, clock, runner


# -- any call first ----------------------------------------------------------------------------------------------------


def _children(top: Instance) -> Instance:
    return next(one for one in top.walk() if one is not top)


def _waiting(top: Instance) -> Job:
    return top.jobs(State.SCHED)[0]


EVENTS: dict[str, Callable[[Instance, Job], Any]] = {
    "submit": lambda top, other: top.submit("slot=1/node", duration_s=1, name="new"),
    "finish": lambda top, other: top.finish(other),
    "cancel": lambda top, other: top.cancel(other),
    "cancel waiting": lambda top, other: top.cancel(top.submit("slot=6/node", name="new")),
    "exception": lambda top, other: top.exception(other, "note", severity=5),
    "state": lambda top, other: top.drain("/cluster/node5"),
    "set_duration": lambda top, other: top.set_duration(other, 500),
    "set_urgency": lambda top, other: top.set_urgency(_waiting(top), 20),
    "add_dependency": lambda top, other: top.add_dependency(_waiting(top), f"afterany:{other.id}"),
    "spawn": lambda top, other: top.spawn(other),
    "grow": lambda top, other: _children(top).grow("slot=1/node"),
    "shrink": lambda top, other: _children(top).shrink("/cluster/node4"),
    "close": lambda top, other: _children(top).close(),
    "fail": lambda top, other: _children(top).fail("broken"),
    "child": lambda top, other: _children(top).submit("slot=1/node", name="inner"),
    "expiration": lambda top, other: _children(top).set_expiration(90),
    "schedule": lambda top, other: top.schedule(),
    "advance": lambda top, other: top.advance(),
    "graph": lambda top, other: top.graph,
    "check": lambda top, other: top.check(),
    "unknown": lambda top, other: _unknown(top),
}


def _unknown(top: Instance) -> None:
    with pytest.raises(FluxresError):
        top.cancel("ƒzzz")


@pytest.mark.parametrize("passes", ["event", "manual"])
@pytest.mark.parametrize("inventory", INVENTORIES)
@pytest.mark.parametrize("event", EVENTS)
def test_rule_t1_an_overdue_job_is_stopped_by_any_call(event: str, inventory: str, passes: str) -> None:
    top, clock, runner = make_instance(inventory, at_once=("other", "inner"), passes=passes)
    overdue = top.submit("slot=3/node", duration_s=10, name="overdue")
    other = top.submit("slot=2/node", duration_s=100, name="other")
    top.schedule()
    if event != "spawn":
        top.spawn(other)
    waiting = top.submit("slot=4/node", duration_s=10, name="waiting")
    clock.now_s = 10.001
    EVENTS[event](top, other)
    assert runner.calls[2:3] == ["stop overdue: timelimit"]
    assert (overdue.state, waiting.started_at) == (State.CLEANUP, None)
    assert top.check() == []
    clock.now_s = 12.0
    top.finish(overdue)
    for job in top.jobs(State.RUN):
        top.cancel(job) if job.name == "new" else None
    if event not in ("cancel waiting", "state"):
        top.schedule()
        clock.now_s = 600.0
        top.advance()
        top.schedule()
        assert waiting.started_at is not None
    assert runner.calls.count("stop overdue: timelimit") == 1
    assert overdue.result == "timeout"
    assert top.check() == []


def test_rule_t1_holds_in_real_time() -> None:
    runner = ManualRunner()
    top = Instance(nodes(4), clock=clock.system, runner=runner, queue_policy="easy")
    overdue = top.submit("slot=4/node", duration_s=0.02, name="overdue")
    waiting = top.submit("slot=2/node", duration_s=5, name="waiting")
    time.sleep(0.03)
    new = top.submit("slot=1/node", duration_s=5, name="new")
    assert runner.calls == ["start overdue", "stop overdue: timelimit"]
    top.finish(overdue)
    assert (waiting.state, new.state, top.check()) == (State.RUN, State.RUN, [])


@pytest.mark.parametrize("inventory", [*INVENTORIES, "counted"])
@pytest.mark.parametrize("policy", POLICIES)
def test_rule_t1_two_limits_at_one_moment(policy: str, inventory: str) -> None:
    clock, runner = ManualClock(), ManualRunner("quick")
    machine, ask = (of_number(4), "slot=1/core={}") if inventory == "counted" else (nodes(4), "slot={}/node")
    top = Instance(machine, queue_policy=policy, clock=clock, inventory=inventory, runner=runner)
    top.submit(ask.format(2), duration_s=10, name="quick")
    slow = top.submit(ask.format(2), duration_s=10, name="slow")
    waiting = top.submit(ask.format(3), duration_s=10, name="waiting")
    small = top.submit(ask.format(2), duration_s=3, name="small")
    clock.now_s = 10.0
    top.advance()
    assert runner.calls[2:] == ["stop quick: timelimit", "stop slow: timelimit", *["start small"] * (small.state is State.RUN)]
    assert (slow.state, waiting.state, top.check()) == (State.CLEANUP, State.SCHED, [])
    clock.now_s = 17.0
    top.finish(slow)
    if small.started_at is not None:
        top.finish(small)
    assert waiting.state is State.RUN
    assert top.check() == []


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_rule_t1_a_job_that_never_ends_keeps_its_resources(inventory: str) -> None:
    top, clock, runner = make_instance(inventory, "conservative")
    overdue = top.submit("slot=4/node", duration_s=10, name="overdue")
    waiting = top.submit("slot=4/node", duration_s=5, name="waiting")
    for clock.now_s in (11.0, 12.0, 40.0, 41.0, 500.0):
        small = top.submit("slot=1/node", duration_s=1, name="small")
        assert (small.state, waiting.state, top.check()) == (State.RUN, State.SCHED, [])
        top.finish(small)
    assert top.next_due() == overdue.ends_at == 500.0 + OVERTIME_S
    assert runner.calls.count("stop overdue: timelimit") == 1
    top.finish(overdue)
    assert waiting.state is State.RUN


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_job_that_has_ended_is_not_asked_to_stop(inventory: str) -> None:
    top, clock, runner = make_instance(inventory)
    first, second = (top.submit("slot=3/node", duration_s=10, name=name) for name in ("first", "second"))
    waiting = top.submit("slot=6/node", name="waiting")
    clock.now_s = 10.5
    top.finish(first)
    assert (first.result, second.state, waiting.state) == ("completed", State.CLEANUP, State.SCHED)
    assert runner.calls == ["start first", "start second", "stop second: timelimit"]
    top.finish(second)
    assert (second.result, waiting.state) == ("timeout", State.RUN)


@pytest.mark.parametrize("inventory", [*INVENTORIES, "counted"])
@pytest.mark.parametrize("policy", POLICIES)
def test_rule_t1_a_job_exactly_at_its_limit_may_end_and_keeps_its_resources_until_then(policy: str, inventory: str) -> None:
    clock, runner = ManualClock(), ManualRunner("third")
    machine, ask = (of_number(6), "slot=1/core={}") if inventory == "counted" else (nodes(6), "slot={}/node")
    top = Instance(machine, queue_policy=policy, clock=clock, inventory=inventory, runner=runner)
    first, second, third = (top.submit(ask.format(2), duration_s=10, name=name) for name in ("first", "second", "third"))
    waiting = top.submit(ask.format(4), duration_s=10, name="waiting")
    clock.now_s = 10.0
    small = top.submit(ask.format(3), duration_s=3, name="small")
    assert (small.state, waiting.state, top.check()) == (State.SCHED, State.SCHED, [])
    top.finish(first)
    top.set_duration(second, 20)
    assert (first.result, waiting.state, second.ends_at, top.next_due()) == ("completed", State.SCHED, 20.0, 10.0)
    top.advance()
    assert (third.result, waiting.started_at, top.check()) == ("timeout", 10.0, [])
    top.finish(second)
    assert (second.result, small.state) == ("completed", State.SCHED)


def test_calls_from_a_runner_belong_to_the_same_moment() -> None:
    class SubmittingRunner(ManualRunner):
        def stop(self, job: Job, why: str) -> None:
            if job.name == "first":
                for number in range(2):
                    job.instance.submit("slot=1/node", duration_s=5, name=f"more{number}")
                job.instance.schedule()
                job.instance.advance()
            super().stop(job, why)

    runner, clock = SubmittingRunner("first"), ManualClock()
    top = Instance(nodes(2), clock=clock, runner=runner)
    for name in ("first", "second"):
        top.submit("slot=1/node", duration_s=10, name=name)
    clock.now_s = 11.0
    top.advance()
    assert runner.calls[2:] == ["stop first: timelimit", "stop second: timelimit", "start more0"]
    assert [job.started_at for job in top.jobs(State.RUN)] == [11.0]


def test_a_pass_within_a_pass_is_another_round() -> None:
    class SchedulingRunner(ManualRunner):
        def start(self, job: Job) -> None:
            super().start(job)
            if job.name == "first":
                job.instance.submit("slot=1/node", name="second")
                self.calls.append(f"schedule {job.instance.schedule()}")

    runner = SchedulingRunner()
    top = Instance(nodes(2), runner=runner)
    top.submit("slot=1/node", name="first")
    assert runner.calls == ["start first", "schedule 0", "start second"]


def test_time_does_not_run_backwards_and_does_not_change_in_a_pass() -> None:
    seen: list[float] = []

    class SlowPolicy(QueuePolicy):
        name = "long"

        def schedule(self, queue: Queue) -> None:
            for job in queue:
                clock.now_s += 1.0
                queue.start(job)
                seen.append(queue.now_s)

    clock = ManualClock(5.0)
    top = Instance(nodes(4), queue_policy=SlowPolicy(), clock=clock, passes="manual")
    for _ in range(3):
        top.submit("slot=1/node", duration_s=0.5)
    top.schedule()
    assert seen == [5.0] * 3
    clock.now_s = 2.0
    assert top.submit("slot=1/node").submitted_at == 5.0


# -- limits that runners keep ------------------------------------------------------------------------------------------


class LimitKeepingRunner(ManualRunner):
    keeps_limits = True


class ClosingRunner(LimitKeepingRunner):
    """Closes the instance of a job when the job starts."""

    def start(self, job: Job) -> None:
        super().start(job)
        if job.payload == "end":
            job.instance.close()


@pytest.mark.parametrize("lapses", [True, False], ids=["asked at its limit", "not asked"])
@pytest.mark.parametrize("how", ["ends", "closes in its pass"])
@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_rule_t1_a_late_job_is_detected_before_the_pass_that_a_child_causes(inventory: str, how: str, lapses: bool) -> None:
    clock, runner = ManualClock(), ClosingRunner()
    top = Instance(nodes(4), clock=clock, runner=runner, inventory=inventory, name="top")
    holder = top.submit("slot=1/node", name="holder")
    child = top.spawn(holder)
    other = top.submit("slot=3/node", duration_s=10, name="other")
    waiting = top.submit("slot=2/node", duration_s=5, name="waiting")
    last = child.submit("slot=1/node", name="inner") if how == "ends" else None
    if last is not None:
        top.finish(holder)
        assert runner.calls[-1] == "stop inner: cancel"
    if lapses:
        clock.now_s = 10.0
        assert child.check() == []
        assert (top.next_due(), top.check()) == (None, [])
    clock.now_s = 12.0
    if last is not None:
        child.finish(last)
    else:
        child.submit("slot=1/node", name="inner", payload="end")
    assert runner.calls[-1] == "stop other: timelimit"
    assert (waiting.started_at, other.state, top.check()) == (None, State.CLEANUP, [])
    top.finish(other)
    assert waiting.started_at == 12.0


@pytest.mark.parametrize("inventory", [*INVENTORIES, "counted"])
def test_a_runner_that_keeps_limits_is_asked_only_after_a_limit_has_passed(inventory: str) -> None:
    clock, runner = ManualClock(), LimitKeepingRunner()
    machine, ask = (of_number(4), "slot=1/core={}") if inventory == "counted" else (nodes(4), "slot={}/node")
    top = Instance(machine, clock=clock, runner=runner, inventory=inventory)
    first = top.submit(ask.format(3), duration_s=10, name="first")
    second = top.submit(ask.format(3), duration_s=10, name="second")
    assert top.next_due() is None
    clock.now_s = 10.0
    top.submit(ask.format(4), name="last")
    assert (runner.calls, second.started_at) == (["start first", "start second"], 10.0)
    top.finish(first)
    clock.now_s = 20.5  # nothing was called at 20
    small = top.submit(ask.format(1), duration_s=1, urgency=31, name="small")
    top.submit(ask.format(2), duration_s=1, urgency=31, name="pair")
    assert runner.calls[2:] == ["stop second: timelimit", "start small"]
    assert (second.state, small.state, top.check()) == (State.CLEANUP, State.RUN, [])
    clock.now_s = 20.5 + OVERTIME_S
    top.submit(ask.format(2), duration_s=1, urgency=31, name="again")
    assert runner.calls[4:] == ["stop small: timelimit"]
    assert top.check() == []


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_promise_broken_at_the_limit_is_reported(inventory: str) -> None:
    clock, runner = ManualClock(), LimitKeepingRunner()
    top = Instance(nodes(4), clock=clock, runner=runner, inventory=inventory)
    liar = top.submit("slot=4/node", duration_s=10, name="liar")
    top.submit("slot=2/node", duration_s=50, name="second")
    clock.now_s = 10.0
    top.submit("slot=1/node", duration_s=50, name="third")
    assert runner.calls == ["start liar", "start second", "start third"]
    clock.now_s = 11.0
    last = top.submit("slot=1/node", duration_s=50, name="last")
    assert (runner.calls[3], liar.state) == ("stop liar: timelimit", State.CLEANUP)
    assert [failure.type for failure in liar.exceptions] == ["timelimit", "overlap"]
    assert "rule T1" in {problem.message.partition(":")[0] for problem in top.check()}
    top.finish(liar)
    assert (last.state, top.check()) == (State.RUN, [])


def with_kept_limits(inventory: str, size: int = 4, **settings: Any) -> tuple[Instance, ManualClock, LimitKeepingRunner, str]:
    """An instance with a runner that keeps limits, its clock and runner, and a template of requests for nodes or units."""
    clock, runner = ManualClock(), LimitKeepingRunner()
    machine, ask = (of_number(size), "slot=1/core={}") if inventory == "counted" else (nodes(size), "slot={}/node")
    return Instance(machine, clock=clock, runner=runner, inventory=inventory, **settings), clock, runner, ask


@pytest.mark.parametrize("inventory", [*INVENTORIES, "counted"])
def test_rule_t1_a_late_job_keeps_what_others_did_not_get_at_its_limit(inventory: str) -> None:
    top, clock, _, ask = with_kept_limits(inventory)
    late_job = top.submit(ask.format(2), duration_s=10, name="late")
    top.submit(ask.format(2), duration_s=30, name="other")
    held = late_job.pools
    clock.now_s = 10.0
    taker = top.submit(ask.format(1), duration_s=50, name="taker")
    clock.now_s = 11.0
    top.advance()
    waiting = top.submit(ask.format(1), duration_s=5, name="waiting")
    assert (late_job.state, taker.state, waiting.state) == (State.CLEANUP, State.RUN, State.SCHED)
    assert late_job.pools == held
    assert [failure.type for failure in late_job.exceptions] == ["timelimit", "overlap"]
    assert {problem.message[:8] for problem in top.check()} == {"rule T1:"}
    clock.now_s = 12.0
    top.finish(taker)  # and the late job has it again
    assert (waiting.state, late_job.pools, top.check()) == (State.SCHED, held, [])
    top.finish(late_job)
    assert (waiting.state, late_job.pools, top.check()) == (State.RUN, [], [])


@pytest.mark.parametrize("is_shown", [False, True])
@pytest.mark.parametrize("policy", ["fcfs", "easy"])
@pytest.mark.parametrize("inventory", [*INVENTORIES, "counted"])
def test_a_later_limit_is_refused_at_a_kept_limit_if_others_have_the_units(inventory: str, policy: str, is_shown: bool) -> None:
    top, clock, _, ask = with_kept_limits(inventory, queue_policy=policy)
    first, second = (top.submit(ask.format(4), duration_s=10) for _ in range(2))
    if is_shown:
        assert top.graph.check() == []
    clock.now_s = 10.0
    top.submit(ask.format(1), duration_s=5)
    with pytest.raises(InsufficientResources, match=r"0 of \d free .held by .2.") as refused:
        top.set_duration(first, 20)
    assert refused.value.where == second.pools[0][0]
    assert (first.duration_s, first.ends_at, second.state, top.check()) == (10.0, 10.0, State.RUN, [])
    top.finish(first)
    assert (second.state, top.check()) == (State.RUN, [])
    with pytest.raises(InsufficientResources):
        top.graph.allocate(ask.format(1), job="other", start=10.0, end=11.0)


@pytest.mark.parametrize("inventory", [*INVENTORIES, "counted"])
def test_a_later_limit_is_granted_at_a_kept_limit_if_the_units_are_free(inventory: str) -> None:
    top, clock, runner, ask = with_kept_limits(inventory)
    first = top.submit(ask.format(3), duration_s=10, name="first")
    clock.now_s = 10.0
    top.schedule()
    top.set_duration(first, 20)
    waiting = top.submit(ask.format(2), duration_s=5, name="waiting")
    assert (first.ends_at, waiting.state, top.check()) == (20.0, State.SCHED, [])
    clock.now_s = 20.0
    top.schedule()
    assert (runner.calls, waiting.state) == (["start first", "start waiting"], State.RUN)


@pytest.mark.parametrize("inventory", [*INVENTORIES, "counted"])
def test_rule_t1_a_late_call_does_not_take_back_what_was_allocated_at_a_limit(inventory: str) -> None:
    top, clock, _, ask = with_kept_limits(inventory)
    first = top.submit(ask.format(4), duration_s=2, name="first")
    clock.now_s = 2.0
    second = top.submit(ask.format(1), duration_s=1, name="second")
    clock.now_s = 5.0  # both are late, and the second one was given its units by the promise of the first
    top.schedule()
    lacking = [job.name for job in (first, second) if any(failure.type == "overlap" for failure in job.exceptions)]
    assert (first.state, second.state, lacking) == (State.CLEANUP, State.CLEANUP, ["first"])


@pytest.mark.parametrize("inventory", [*INVENTORIES, "counted"])
def test_rule_t1_a_late_job_comes_before_others_when_a_limit_frees_its_units(inventory: str) -> None:
    top, clock, _, ask = with_kept_limits(inventory)
    first = top.submit(ask.format(4), duration_s=2, name="first")
    clock.now_s = 2.0
    top.submit(ask.format(1), duration_s=2, name="second")
    clock.now_s = 3.0
    top.advance()
    clock.now_s = 4.0
    third = top.submit(ask.format(1), duration_s=2, name="third")
    assert (third.state, first.state, top.check()) == (State.SCHED, State.CLEANUP, [])


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_job_at_its_limit_keeps_its_pools_when_others_leave_the_machine(inventory: str, is_late: bool) -> None:
    top, clock, _, ask = with_kept_limits(inventory)
    before, job = top.submit(ask.format(1), duration_s=5), top.submit(ask.format(2), duration_s=10)
    held = job.pools
    clock.now_s = 5.0
    top.finish(before)
    clock.now_s = 10.0
    taker = top.submit(ask.format(2), duration_s=50) if is_late else None  # gets one of the two, which the late job lacks
    top.schedule()
    if is_late:
        clock.now_s = 11.0
        top.advance()
    where = "/cluster/node3" if is_late else "/cluster/node0"
    top._graph.unlink(where)
    assert (job.pools, job.state) == (held, State.CLEANUP if is_late else State.RUN)
    clock.now_s = 12.0
    top.advance()
    assert job.pools == held
    if taker is not None:
        top.finish(taker)
    others = [top.submit(ask.format(1), duration_s=1) for _ in range(2)]
    assert [other.state for other in others] == [State.RUN, State.SCHED]
    assert not {pool for other in others for pool in other.pools} & set(held)
    assert top.check() == []


def test_a_job_at_its_limit_keeps_its_pools_when_its_instance_returns_a_node() -> None:
    top, clock, _, ask = with_kept_limits("graph")
    child = top.spawn(top.submit(ask.format(4)), inventory="auto")
    before, job = child.submit(ask.format(1), duration_s=5), child.submit(ask.format(2), duration_s=10)
    held = job.pools
    clock.now_s = 5.0
    child.finish(before)
    clock.now_s = 10.0
    child.schedule()
    child.shrink("/cluster/node0")
    assert (child.inventory.kind, job.pools) == ("named", held)
    clock.now_s = 11.0
    top.advance()
    other = child.submit(ask.format(1), duration_s=5)
    assert (job.pools, other.pools, top.check()) == (held, [("/cluster/node3", 1)], [])


@pytest.mark.parametrize("how", ["slow", "slow below", "late", "slow at its limit"])
@pytest.mark.parametrize("inventory", INVENTORIES)
def test_rule_t1_a_promise_does_not_cover_a_job_whose_child_has_jobs_of_another_runner(inventory: str, how: str) -> None:
    top, clock, runner, ask = with_kept_limits(inventory)
    job = top.submit(ask.format(4), duration_s=10, name="job")
    slow = runner if how == "late" else ManualRunner()
    child = top.spawn(job, runner=runner if how == "slow below" else slow)
    if how == "slow below":
        child = child.spawn(child.submit(ask.format(2), duration_s=10, name="middle"), runner=slow)
    inner = child.submit(ask.format(1), duration_s={"late": 8, "slow at its limit": 10}.get(how, 30), name="inner")
    waiting = top.submit(ask.format(4), duration_s=10, name="waiting")
    clock.now_s = 10.0
    top.submit(ask.format(1), duration_s=1)  # whatever is called
    assert (waiting.state, top.check()) == (State.SCHED, [])
    top.advance()
    assert (job.state, inner.state, waiting.state) == (State.CLEANUP, State.CLEANUP, State.SCHED)
    assert slow.calls[-1 if slow is not runner else -2] == "stop inner: timelimit"
    assert runner.calls[-1] == "stop job: timelimit"
    clock.now_s = 11.0
    top.advance()
    assert (waiting.state, top.check()) == (State.SCHED, [])
    child.finish(inner)
    for one in (child.job_in_parent, job):
        if one is not None and one.state is not State.INACTIVE:
            one.instance.finish(one)
    assert (waiting.state, top.check()) == (State.RUN, [])


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_rule_t1_a_job_that_has_finished_at_its_limit_waits_for_the_jobs_in_its_child(inventory: str) -> None:
    top, clock, _, ask = with_kept_limits(inventory)
    job = top.submit(ask.format(4), duration_s=10, name="job")
    child = top.spawn(job, runner=ManualRunner())
    inner = child.submit(ask.format(1), duration_s=30, name="inner")
    waiting = top.submit(ask.format(4), duration_s=10, name="waiting")
    clock.now_s = 10.0
    top.finish(job)
    assert (job.state, inner.state, waiting.state, top.check()) == (State.CLEANUP, State.CLEANUP, State.SCHED, [])
    clock.now_s = 12.0
    top.advance()
    assert (waiting.state, top.check()) == (State.SCHED, [])
    child.finish(inner)
    assert (job.state, waiting.state, top.check()) == (State.INACTIVE, State.RUN, [])


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_promise_covers_a_job_whose_child_has_only_runners_that_keep_limits(inventory: str) -> None:
    top, clock, runner, ask = with_kept_limits(inventory)
    job = top.submit(ask.format(4), duration_s=10, name="job")
    child = top.spawn(job)
    child.submit(ask.format(1), duration_s=30, name="inner")
    waiting = top.submit(ask.format(4), duration_s=10, name="waiting")
    clock.now_s = 10.0
    top.submit(ask.format(1), duration_s=1, name="last")
    assert (waiting.state, runner.calls) == (State.RUN, ["start job", "start inner", "start waiting"])


def test_a_runner_needs_only_start_and_stop() -> None:
    class MinimalRunner(Runner):
        def start(self, job: Job) -> None:
            self.job = job

        def stop(self, job: Job, why: str) -> None:
            job.instance.finish(job, 1)

    class DuckTypedRunner:
        def start(self, job: Job) -> None:
            pass

        def stop(self, job: Job, why: str) -> None:
            job.instance.finish(job, 1)

    class IncompleteRunner(Runner):
        def start(self, job: Job) -> None:
            pass

    for runner in (MinimalRunner(), DuckTypedRunner()):
        clock = ManualClock()
        top = Instance(nodes(1), queue_policy="easy", clock=clock, runner=runner)  # type: ignore[arg-type]  # one lacks the default
        job = top.submit("slot=1/node", duration_s=5)
        clock.now_s = 6.0
        top.advance()
        assert (job.result, top.keeps_limits) == ("timeout", False)
    with pytest.raises(TypeError, match="stop"):
        IncompleteRunner()  # type: ignore[abstract]  # that is the test


# -- trees -------------------------------------------------------------------------------------------------------------


def family(inventory: str = "auto", **settings: Any) -> tuple[Instance, Instance, ManualClock, ManualRunner]:
    """An instance, a child with half of it, and a job in the child."""
    clock, runner = ManualClock(), ManualRunner("outer")
    top = Instance(racks(), clock=clock, inventory=inventory, runner=runner, name="top", **settings)
    child = top.spawn(top.submit("slot=1/rack", duration_s=100, name="outer"))
    child.submit("slot=2/node", duration_s=500, name="inner")
    return top, child, clock, runner


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("end", ["limit", "expire", "finish", "cancel", "close", "fail", "exception"])
def test_rule_t1_the_resources_of_a_child_are_free_when_its_jobs_have_stopped(end: str, inventory: str) -> None:
    top, child, clock, runner = family(inventory, queue_policy="easy")
    outer, (inner,) = child.job_in_parent, child.jobs()
    assert outer is not None
    waiting = top.submit("slot=2/rack", duration_s=10, name="waiting")
    pending = child.submit("slot=3/node", name="pending")
    if end in ("limit", "expire"):
        if end == "expire":
            child.set_expiration(50)
        clock.now_s = 100.5
        top.submit("slot=8/node", duration_s=1, name="late")  # whatever
    elif end in ("close", "fail"):
        getattr(child, end)()
    elif end == "exception":
        top.exception(outer, "exec")
    else:
        getattr(top, end)(outer)
    stops = [calls for calls in runner.calls if calls.startswith("stop")]
    assert [calls.partition(":")[0] for calls in stops] == ["stop inner", "stop outer"][: 1 if end in ("finish", "close") else 2]
    assert (inner.state, pending.state, outer.state, waiting.state) == (
        State.CLEANUP,
        State.INACTIVE,
        State.CLEANUP,
        State.SCHED,
    )
    assert (child.is_ending, child.is_closed, top.check()) == (True, False, [])
    with pytest.raises(StaleHandle, match="ending"):
        child.submit("slot=1/core")
    with pytest.raises(StaleHandle, match="ending"):
        child.grow("slot=1/core")
    with pytest.raises(UsageError, match="has finished"):
        top.finish(outer)
    clock.now_s += 30.0
    top.advance()
    assert (outer.state, waiting.state, top.check()) == (State.CLEANUP, State.SCHED, [])
    child.finish(inner)
    assert (child.is_closed, waiting.state, top.check()) == (True, State.RUN, [])
    assert outer.finished_at == inner.finished_at == clock.now_s
    assert (outer.result, inner.result) == {
        "limit": ("timeout", "timeout"),
        "expire": ("timeout", "timeout"),
        "finish": ("completed", "canceled"),
        "cancel": ("canceled", "canceled"),
        "close": ("completed", "canceled"),
        "fail": ("failed", "canceled"),
        "exception": ("failed", "canceled"),
    }[end]


def test_rule_t1_events_are_in_order_of_time_and_children_come_first() -> None:
    clock = ManualClock()
    runner = ManualRunner("outer", "inner", "leaf", "early", "other")
    top = Instance(racks(), clock=clock, runner=runner, name="top")
    outer = top.submit("slot=1/rack", duration_s=100, name="outer")
    top.submit("slot=1/node", duration_s=60, name="other")
    top.submit("slot=1/core", duration_s=1, name="soon", dependencies=["begin-time:70"])
    child = top.spawn(outer)
    inner = child.submit("slot=2/node", duration_s=100, name="inner")
    child.submit("slot=1/node", duration_s=80, name="early")
    leaf = child.spawn(inner)
    leaf.submit("slot=1/core", duration_s=100, name="leaf")
    runner.calls.clear()
    clock.now_s = 300.0
    top.submit("slot=1/core", name="new")
    assert runner.calls == [
        "stop other: timelimit",
        "stop early: timelimit",
        "stop leaf: timelimit",
        "stop inner: timelimit",
        "stop outer: timelimit",
        "start soon",
        "start new",
    ]
    assert (leaf.is_closed, child.is_closed, top.check()) == (True, True, [])


def test_rule_t1_an_event_that_is_over_brings_no_later_one_forward() -> None:
    top, clock, runner = make_instance(at_once=("long", "inner"))
    brief = top.submit("slot/node", duration_s=100, name="brief")
    top.submit("slot/node", duration_s=500, name="long")
    child = top.spawn(top.submit("slot/node", name="outer"))
    child.submit("slot/node", duration_s=300, name="inner")
    clock.now_s = 10
    top.finish(brief)  # nothing is due at 100 any more
    clock.now_s = 600
    top.advance()
    assert runner.calls[-2:] == ["stop inner: timelimit", "stop long: timelimit"]


def test_a_call_of_a_child_past_its_expiration_finds_it_closed() -> None:
    top, child, clock, runner = family()
    (inner,) = child.jobs()
    runner.at_once = ("outer", "inner")
    clock.now_s = 100.5
    with pytest.raises(StaleHandle, match="closed"):
        child.submit("slot=1/core")
    assert (inner.result, child.next_due(), top.graph.jobs()) == ("timeout", None, [])
    child.close()
    with pytest.raises(StaleHandle, match="closed"):
        child.advance()


def test_closing_an_outermost_instance_waits_for_its_jobs_too() -> None:
    top, _, runner = make_instance()
    job, waiting = (top.submit("slot=6/node", name=name) for name in ("job", "waiting"))
    graph = top.graph
    top.close()
    assert (top.is_closed, job.state, waiting.result, graph.jobs()) == (False, State.CLEANUP, "canceled", [str(job.id)])
    top.finish(job)
    assert (top.is_closed, job.result, graph.jobs()) == (True, "canceled", [])
    assert runner.calls == ["start job", "stop job: cancel"]


def test_after_a_failing_policy_the_passes_of_other_instances_are_still_made() -> None:
    class FailingPolicy(QueuePolicy):
        name = "fussy"
        is_broken = False

        def schedule(self, queue: Queue) -> None:
            for job in queue:
                if self.is_broken:
                    raise ValueError("no")
                queue.start(job)

    clock, fussy = ManualClock(), FailingPolicy()
    top = Instance(racks(), clock=clock, queue_policy=fussy)
    child = top.spawn(top.submit("slot=1/rack"), queue_policy="fcfs")
    for one, size in ((child, 3), (top, 3)):
        one.submit(f"slot={size}/node", duration_s=10)
        one.submit(f"slot={size}/node", duration_s=10)
    fussy.is_broken = True
    clock.now_s = 11.0
    with pytest.raises(PolicyError, match="fussy"):
        top.advance()
    fussy.is_broken = False
    assert top.next_due() == 11.0
    top.advance()
    assert [len(one.jobs(State.RUN)) for one in (child, top)] == [1, 2]


# -- beside others -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_overtime_yields_to_a_reservation_of_others(inventory: str) -> None:
    top, clock, _ = make_instance(inventory, "easy", size=4)
    overdue = top.submit("slot=3/node", duration_s=10, name="overdue")
    top.graph.allocate("/cluster/node1", job="login", start=15, end=30)
    waiting = top.submit("slot=2/node", duration_s=5, name="waiting")
    clock.now_s = 10.5
    top.advance()
    assert (top.check(), [failure.type for failure in overdue.exceptions]) == ([], ["timelimit", "overlap"])
    clock.now_s = 16.0
    top.advance()
    (problem,) = top.check()
    assert problem.where == "top /cluster/node1"
    assert problem.message == f"rule T1: {overdue.id} has not ended, and no longer holds it; login does"
    assert overdue.exceptions[1] == ("overlap", 1, "it has not ended, and others hold /cluster/node1")
    assert [(span.pool, span.end) for span in top.graph.allocation(str(overdue.id)).spans if span.end > 16] == [
        ("/cluster/node0", 20.5),
        ("/cluster/node2", 20.5),
    ]
    assert overdue.pools == [(f"/cluster/node{n}", 1) for n in range(3)]
    for clock.now_s in (27.0, 29.0, 30.0):
        top.submit("slot=1/node", duration_s=0.5, name="small")
        assert top.job(top.jobs()[-1]).pools in ([], [("/cluster/node3", 1)])
    assert (waiting.state, top.check(), len(overdue.exceptions)) == (State.SCHED, [], 2)
    top.finish(overdue)
    assert (waiting.state, top.check()) == (State.RUN, [])


@pytest.mark.parametrize("early", [True, False])
def test_a_late_job_gets_back_what_others_free(early: bool) -> None:
    top, clock, _ = make_instance(size=2)
    overdue = top.submit("slot=2/node", duration_s=10, name="overdue")
    graph = top.graph
    graph.allocate("/cluster/node0", job="login", start=10, end=20)
    clock.now_s = 12.0
    top.advance()
    if early:
        clock.now_s = 14.0
        graph.free("login")
    else:
        clock.now_s = 20.0
    waiting = top.submit("slot=1/node", duration_s=5, name="waiting")
    assert (waiting.state, top.check()) == (State.SCHED, [])
    top.finish(overdue)
    assert waiting.state is State.RUN


def test_the_rest_of_an_exclusive_pool_stays_held() -> None:
    runner, clock = ManualRunner(), ManualClock()
    top = Instance(racks(), clock=clock, runner=runner, name="top")
    overdue = top.submit("slot=1/rack", duration_s=10, name="overdue")
    top.graph.allocate("/cluster/rack0/node2/core1", job="login", start=10, end=15)
    clock.now_s = 11.0
    top.advance()
    assert [problem.where for problem in top.check()] == ["top /cluster/rack0/node2/core1"]
    assert top.submit("slot=13/core", name="other").pools == [
        *((f"/cluster/rack1/node{n // 4}/core{n % 4}", 1) for n in range(13)),
    ]
    assert top.submit("slot=4/core", name="waiting").state is State.SCHED
    clock.now_s = 15.5
    top.advance()
    assert top.check() == []
    assert top.submit("slot=1/core", urgency=31, name="one").pools[0][0].startswith("/cluster/rack1")
    top.finish(overdue)
    assert top.check() == []


@pytest.mark.parametrize("inventory", ["graph", "auto", "named"])
def test_a_later_limit_is_refused_if_others_have_reserved(inventory: str) -> None:
    top, _, _ = make_instance(inventory, "easy", size=2)
    job = top.submit("slot=2/node", duration_s=10, name="job")
    head = top.submit("slot=1/node", duration_s=4, name="head")
    top.graph.allocate("/cluster/node0", job="login", start=20, end=30)
    with pytest.raises(InsufficientResources, match="login"):
        top.set_duration(job, 25)
    assert (job.ends_at, job.duration_s, head.reserved_at, top.check()) == (10.0, 10.0, 10.0, [])
    top.set_duration(job, 15)
    assert (job.ends_at, head.reserved_at, top.check()) == (15.0, 15.0, [])
    top.finish(job)
    assert head.state is State.RUN


@pytest.mark.parametrize("inventory", [*INVENTORIES, "counted"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_reservation_of_others_delays_the_queue_and_does_not_starve_it(policy: str, inventory: str) -> None:
    machine, ask = (of_number(4), "slot=1/core={}") if inventory == "counted" else (nodes(4), "slot={}/node")
    where = [("/processors/core", 3)] if inventory == "counted" else [(f"/cluster/node{n}", 1) for n in range(3)]
    machine.allocate(where, job="login", start=50, end=100)
    clock = ManualClock()
    top = Instance(machine, queue_policy=policy, clock=clock, inventory=inventory)
    job = top.submit(ask.format(2), duration_s=60)
    assert (job.state, top.next_due(), top.check()) == (State.SCHED, 100.0, [])
    clock.now_s = 100.0
    top.advance()
    assert (job.state, top.check()) == (State.RUN, [])
    for wrong in (top.graph.jobs(), top.next_due()):
        assert wrong is not None


@pytest.mark.parametrize("inventory", ["graph", "auto", "named"])
@pytest.mark.parametrize("policy", ["fcfs", "easy", "hybrid", "easy-sjbf", "conservative", "priority"])
def test_simulations_wait_for_reservations_of_others(policy: str, inventory: str) -> None:
    machine = of_shape("node=4")
    machine.allocate("/cluster/node0", job="login", start=50, end=100)
    jobs = [Submission(n, n * S, 60 * S, 60 * S, size) for n, size in enumerate((4, 3, 4, 1))]
    result = simulate(jobs, machine, queue_policy=policy, inventory=inventory)
    assert result.left == 0
    assert result.schedule is not None
    start = {row[0]: row[2] // S for row in result.schedule}
    assert min(start[0], start[2]) >= 100
    assert (start[1] < 50) == (policy != "fcfs")


def test_a_decision_that_takes_time_does_not_move_a_job_into_what_others_hold() -> None:
    machine = of_shape("node=2")
    machine.allocate("/cluster/node0", job="login", start=10, end=100)
    jobs = [Submission(0, 0, 10 * S, 10 * S, 2), Submission(1, 0, 4 * S, 5 * S, 1)]
    result = simulate(jobs, machine, queue_policy="easy", inventory="graph", cost=Fitted(base_s=2.0))
    assert result.schedule is not None
    rows = {row[0]: (row[2] // S, row[3] // S) for row in result.schedule}
    assert rows == {0: (102, 112), 1: (4, 8)}  # at 2, the first one would end after the beginning of `login`
    assert {RESULTS[number] for number in result.schedule.result} == {"completed"}


def test_changes_by_others_are_detected_by_the_next_call() -> None:
    top, clock, _ = make_instance(policy="easy", size=2)
    graph = top.graph
    graph.allocate("/cluster/node0", job="login")
    waiting = top.submit("slot=2/node", duration_s=5, name="waiting")
    assert (waiting.state, top.next_due()) == (State.SCHED, None)
    graph.free("login")
    assert top.next_due() == 0.0
    assert top.graph is graph
    assert (waiting.state, top.next_due()) == (State.RUN, 5.0)
    top.finish(waiting)
    lock = graph.stage("/cluster/node1", job="login", ttl_s=30)
    waiting = top.submit("slot=2/node", duration_s=5, name="waiting")
    assert (waiting.state, top.next_due()) == (State.SCHED, 30.0)
    clock.now_s = 30.0
    top.advance()
    assert (waiting.state, lock.active, top.check()) == (State.RUN, False, [])


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_states_that_others_set_are_detected(inventory: str) -> None:
    top, _, _ = make_instance(inventory, "conservative", size=2)
    graph = top.graph
    graph.set_state("/cluster/node0", "down")
    waiting = top.submit("slot=2/node", duration_s=5, name="waiting")
    small = top.submit("slot=1/node", duration_s=5, name="small")
    assert (waiting.state, small.pools) == (State.SCHED, [("/cluster/node1", 1)])
    top.finish(small)
    graph.set_state("/cluster/node0", "up")
    top.advance()
    assert (waiting.state, top.check()) == (State.RUN, [])


@pytest.mark.parametrize("inventory", ["graph", "auto", "named:node"])
def test_rule_t1_check_reports_a_pool_of_a_late_job_while_others_hold_it(inventory: str) -> None:
    clock = ManualClock()
    top = Instance(of_shape("node=2/core=2"), clock=clock, inventory=inventory, runner=ManualRunner(), name="top")
    job = top.submit("slot/node", duration_s=3)
    top.graph.allocate("/cluster/node0", job="login", start=6, end=30)
    clock.now_s = 4.0
    top.advance()
    assert top.check() == []
    clock.now_s = 7.0
    (problem,) = top.check()
    assert (problem.where, job.pools) == ("top /cluster/node0", [("/cluster/node0", 1)])
    assert problem.message == f"rule T1: {job.id} has not ended, and no longer holds it; login does"
    top.graph.free("login")
    top.advance()
    assert (top.check(), job.pools) == ([], [("/cluster/node0", 1)])


def test_auto_changes_to_the_graph_when_others_hold_something() -> None:
    top, _, _ = make_instance("auto", "conservative", size=4)
    job = top.submit("slot=2/node", duration_s=10, name="job")
    assert top.inventory.kind == "named"
    top.graph.allocate("/cluster/node3", job="login", start=5, end=20)
    first, second = (top.submit("slot=2/node", duration_s=length, name="next") for length in (5, 9))
    assert (top.inventory.kind, first.state, second.reserved_at) == ("graph", State.RUN, 10.0)
    assert (job.pools, top.check()) == ([("/cluster/node0", 1), ("/cluster/node1", 1)], [])


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_the_graph_may_allocate_what_is_running_and_that_is_reported(inventory: str) -> None:
    machine, clock = nodes(2), ManualClock()
    top = Instance(machine, clock=clock, inventory=inventory, name="top")
    job = top.submit("slot=2/node", duration_s=10)
    if inventory == "graph":
        clock.now_s = 10.5
    machine.allocate("/cluster/node0", job="login", start=clock.now_s, end=30)
    waiting = top.submit("slot=2/node", duration_s=5)
    if inventory != "graph":
        assert [failure.type for failure in job.exceptions] == ["overlap"]
        assert [problem.where for problem in top.check()] == ["top /cluster/node0"]
        top.finish(job)
    assert (waiting.state, top.check(), top.graph.jobs()[0]) == (State.SCHED, [], "login")
    clock.now_s = 30.0
    top.advance()
    assert (waiting.state, top.check()) == (State.RUN, [])


def test_jobs_of_others_are_allowed_and_their_ids_are_not_used() -> None:
    top, _, _ = make_instance(size=4)
    top.graph.allocate("/cluster/node0", job="ƒ2")
    top.graph.allocate("/cluster/node1", job="login")
    first, second = top.submit("slot=1/node", name="first"), top.submit("slot=1/node", name="second")
    assert ([str(first.id), str(second.id)], top.check()) == (["ƒ1", "ƒ3"], [])
    top.finish(first)
    top.graph.allocate("/cluster/node2", job="ƒ1")
    assert [problem.message for problem in top.check()] == ["rule A6: ƒ1 holds resources and is not a job"]


# -- reservations of a head --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cancel", "hold", "depend", "shorten"])
@pytest.mark.parametrize("inventory", [*INVENTORIES, "counted"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_head_that_leaves_blocks_no_other_job(policy: str, inventory: str, how: str) -> None:
    machine, ask = (of_number(4), "slot=1/core={}") if inventory == "counted" else (nodes(4), "slot={}/node")
    top = Instance(machine, queue_policy=policy, clock=ManualClock(), inventory=inventory)
    running = top.submit(ask.format(1), duration_s=100)
    head = top.submit(ask.format(4), duration_s=50)
    behind = top.submit(ask.format(2), duration_s=200)
    assert (head.state, behind.state) == (State.SCHED, State.SCHED)
    if how == "cancel":
        top.cancel(head)
    elif how == "hold":
        top.set_urgency(head, 0)
    elif how == "depend":
        top.add_dependency(head, f"afterany:{running.id}")
    else:
        top.set_duration(behind, 100)
    expected = State.RUN if how != "shorten" or policy != "fcfs" else State.SCHED
    assert (behind.state, top.check()) == (expected, [])


def test_a_job_with_a_number_reserved_can_be_started() -> None:
    class CountingPolicy(QueuePolicy):
        name = "counting"

        def schedule(self, queue: Queue) -> None:
            for job in queue:
                queue.reserve_count(job)
                queue.start(job)

    top = Instance(nodes(2), queue_policy=CountingPolicy(), inventory="named")
    assert [top.submit("slot=1/node", duration_s=5).state for _ in range(3)] == [State.RUN, State.RUN, State.SCHED]


# -- dependencies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["after", "afterok"])
def test_a_dependency_on_a_job_that_never_started_fails(scheme: str) -> None:
    top, _, _ = make_instance(size=1)
    top.submit("slot=1/node", name="running")
    never = top.submit("slot=1/node", name="never")
    waiting = top.submit("slot=1/node", name="waiting", dependencies=[f"{scheme}:{never.id}"])
    top.cancel(never)
    assert (waiting.result, [failure.type for failure in waiting.exceptions]) == ("failed", ["dependency"])
    with pytest.raises(UsageError, match=f"{scheme}:{never.id} can never be satisfied"):
        top.submit("slot=1/node", name="late", dependencies=[f"{scheme}:{never.id}"])
    assert [job.name for job in top.jobs()] == ["running", "never", "waiting"]


def test_a_begin_time_that_has_passed_comes_before_later_submissions() -> None:
    top, clock, runner = make_instance(size=1)
    top.submit("slot=1/node", name="soon", dependencies=["begin-time:5"])
    clock.now_s = 6.0
    top.submit("slot=1/node", name="new")
    assert runner.calls == ["start soon"]


# -- what others free --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_job_is_canceled_when_others_free_what_it_holds(inventory: str) -> None:
    top, clock, runner = make_instance(inventory, at_once=("whole", "later"))
    whole, part, later = (top.submit("slot=2/node", duration_s=100, name=name) for name in ("whole", "part", "later"))
    waits = top.submit("slot=2/node", duration_s=10, name="waits")
    clock.now_s = 1.0
    graph = top.graph
    graph.free(str(whole.id))
    graph.free(str(part.id), [part.pools[0][0]])
    graph.set_end(str(later.id), 5)
    assert top.next_due() == 1.0
    top.advance()
    assert [job.state.name for job in (whole, part, later, waits)] == ["INACTIVE", "RUN", "RUN", "RUN"]
    assert [(one.type, one.severity, one.note) for one in whole.exceptions] == [("cancel", 0, "others have freed what it held")]
    assert whole.result == "canceled"
    assert whole.started_at == 0.0
    assert top.next_due() == later.ends_at == pytest.approx(5.0)
    assert all(str(part.id) in problem.message for problem in top.check())  # nothing is wrong with a job that ends earlier
    clock.now_s = 5.0
    top.advance()
    assert (later.result, later.finished_at) == ("canceled", 5.0)
    assert [call for call in runner.calls if "stop" in call] == ["stop whole: cancel", "stop later: cancel"]


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_job_has_the_rest_of_what_others_free_in_part(inventory: str) -> None:
    top, clock, _ = make_instance(inventory, at_once=("job",))
    job = top.submit("slot=3/node", duration_s=100, name="job")
    clock.now_s = 1.0
    for node in ("node1", "node2"):
        top.graph.free(str(job.id), f"/cluster/{node}")
        top.advance()
    assert (job.pools, job.size) == ([("/cluster/node0", 1)], 1)
    lost = f"rule T1: {job.id} has not ended, and no longer holds it"
    assert sorted((each.where, each.message) for each in top.check()) == [(f"top /cluster/node{n}", lost) for n in (1, 2)]
    assert top.submit("slot=1/node", name="next").pools == [("/cluster/node1", 1)]
    top.cancel(job)
    assert top.check() == []


def test_a_job_has_the_rest_of_counted_units_that_others_free() -> None:
    graph = fluxres.build(fluxres.Resource("cluster", 1, children=(fluxres.Resource("memory", 1, size=8),)), name="m")
    top = Instance(graph, inventory="counted:memory")
    job = top.submit("slot=1/memory=6", duration_s=100)
    (path, _), *_ = job.pools
    for left in (5, 3):
        top.graph.free(str(job.id), {path: job.size - left})
        top.advance()
        assert (job.pools, job.size) == ([(path, left)], left)
    assert [each.message for each in top.check()] == [f"rule T1: {job.id} has not ended, and holds 3 of 6 units"]


@pytest.mark.parametrize("inventory", INVENTORIES)
@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_job_that_others_free_holds_it_again_until_it_has_stopped(inventory: str, is_stopping: bool) -> None:
    top, clock, _ = make_instance(inventory)
    job = top.submit("slot=2/node", duration_s=100, name="job")
    top.submit("slot=1/node", duration_s=100, name="other")
    graph = top.graph
    waits = top.submit("slot=5/node", duration_s=100, name="waits")
    if is_stopping:
        top.cancel(job)
    clock.now_s = 1.0
    graph.free(str(job.id))
    top.advance()
    assert (job.state, waits.state) == (State.CLEANUP, State.SCHED)
    assert top.check() == []
    with pytest.raises(InsufficientResources):
        graph.allocate("slot=4/node", job="theirs")
    clock.now_s = 150.0  # also after its limit
    top.advance()
    assert len(graph.allocated(str(job.id))) == 2
    top.finish(job)
    assert waits.state is State.RUN
    assert top.check() == []


@pytest.mark.parametrize("moment_s", [0.0, 1.0])
def test_no_job_starts_on_what_others_have_just_freed_of_one_that_has_not_stopped(moment_s: float) -> None:
    top, clock, _ = make_instance(size=2)
    job = top.submit("slot=2/node", duration_s=100)
    clock.now_s = moment_s
    top.graph.free(str(job.id))
    waits = top.submit("slot=1/node")
    assert (job.state, waits.state) == (State.CLEANUP, State.SCHED)
    assert top.check() == []
    top.finish(job)
    assert waits.state is State.RUN


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_what_others_take_at_once_is_theirs_until_they_free_it(inventory: str) -> None:
    top, clock, _ = make_instance(inventory)
    job = top.submit("slot=2/node", duration_s=100, name="job")
    graph = top.graph
    clock.now_s = 1.0
    graph.free(str(job.id))
    graph.allocate("/cluster/node0", job="theirs")
    top.advance()
    assert [(one.type, one.severity) for one in job.exceptions] == [("cancel", 0), ("overlap", 1)]
    found = [(problem.where, problem.message) for problem in top.check()]
    assert found == [("top /cluster/node0", f"rule T1: {job.id} has not ended, and no longer holds it; theirs does")]
    graph.free("theirs")
    top.advance()
    assert len(graph.allocated(str(job.id))) == 2
    assert top.check() == []
    top.finish(job)
    assert [name for name in graph.jobs() if name == str(job.id)] == []


def _merged(graph: ResourceGraph) -> None:
    graph.merge(fluxres.build(Resource("node", id=9, children=[Resource("core", 2)]), name="lab"))


SHAPE_CHANGES: list[Callable[[ResourceGraph], object]] = [
    lambda graph: graph.unlink("/lab/node0"),
    lambda graph: graph.unlink("/lab/node2/core1"),
    lambda graph: graph.move("/lab/node2", "/lab/node7"),
    lambda graph: graph.remove_edge("power:/pdu0", "/lab/node2", "power"),
    _merged,
]


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("change", SHAPE_CHANGES)
@pytest.mark.parametrize("is_between", [False, True])
def test_what_others_free_is_held_again_after_a_change_of_the_shape(
    inventory: str, change: Callable[[ResourceGraph], object], is_between: bool
) -> None:
    clock = ManualClock()
    graph = lab(clock)
    top = Instance(graph, clock=clock, runner=ManualRunner(), inventory=inventory)
    first, job = top.submit("slot=1/node", duration_s=50), top.submit("slot=1/node", duration_s=50)
    top.finish(first)
    graph = top.graph
    clock.now_s = 1.0
    change(graph)
    if is_between:
        top.advance()
    graph.free(str(job.id))
    others = [top.submit("slot=1/node", duration_s=5) for _ in range(4)]
    assert job.state is State.CLEANUP
    assert graph.allocated(str(job.id)).paths() == ["/lab/node1"]
    assert State.RUN in {one.state for one in others}
    assert not any(dict(one.pools).get("/lab/node1") for one in others)
    assert top.check() == []
    top.finish(job)
    assert not graph.records.is_holder(str(job.id))
    assert top.check() == []


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("call", ["submit", "schedule", "graph", "finish", "advance"])
@pytest.mark.parametrize("seen_s", [None, 0.25])
def test_at_the_moment_to_which_others_moved_an_end_nothing_starts_beside_the_job(
    policy: str, inventory: str, call: str, seen_s: float | None
) -> None:
    clock = ManualClock()
    node = Resource("node", 1, children=[Resource("core", 2)])
    graph = fluxres.build(node, name="lab", clock=clock)
    top = Instance(graph, clock=clock, runner=ManualRunner(), inventory=inventory, queue_policy=policy)
    job, other, waits = (top.submit("slot/core", duration_s=length) for length in (1, 9, 5))
    top.graph.set_end(str(job.id), 0.5)
    if seen_s is not None:
        clock.now_s = seen_s
        top.advance()
        assert job.ends_at == 0.5
    clock.now_s = 0.5
    calls: dict[str, Callable[[], object]] = {
        "submit": lambda: top.submit("slot/core", duration_s=5),
        "schedule": top.schedule,
        "graph": lambda: top.graph,
        "finish": lambda: top.finish(other),
        "advance": top.advance,
    }
    calls[call]()
    assert job.state is State.CLEANUP
    assert waits.state is (State.RUN if call == "finish" else State.SCHED)
    assert top.check() == []
    top.finish(job)
    assert waits.state is State.RUN


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("now_s", [0.5, 1.0, 2.0])
def test_an_advance_reservation_that_others_free_never_starts(inventory: str, now_s: float) -> None:
    clock, runner = ManualClock(), ManualRunner()
    graph = fluxres.build(Resource("node", 1, children=[Resource("core", 2)]), name="lab", clock=clock)
    top = Instance(graph, clock=clock, runner=runner, inventory=inventory, queue_policy="easy")
    ahead = top.reserve("slot/node", start_s=1, duration_s=3)
    graph = top.graph
    clock.now_s = 0.5
    graph.free(str(ahead.id))
    graph.allocate("slot/node", job="theirs", duration_s=10)
    clock.now_s = now_s
    top.advance()
    assert (ahead.state, ahead.result, runner.calls) == (State.INACTIVE, "canceled", [])
    assert [(one.type, one.note) for one in ahead.exceptions] == [("cancel", "others have freed what it held")]
    assert top.check() == []


def test_an_advance_reservation_that_others_free_after_a_change_of_the_shape_is_held_until_its_program_has_stopped() -> None:
    clock = ManualClock()
    graph = fluxres.build(Resource("node", 2, children=[Resource("core", 2)]), name="lab", clock=clock)
    top = Instance(graph, clock=clock, runner=ManualRunner(), inventory="graph")
    ahead = top.reserve("slot=2/node", start_s=1, duration_s=30)
    graph.merge(fluxres.build(Resource("node", id=9, children=[Resource("core", 2)]), name="lab"))
    clock.now_s = 2.0
    top.advance()
    assert ahead.state is State.RUN
    graph.free(str(ahead.id))
    waits = top.submit("slot=2/node", duration_s=5)
    assert (ahead.state, waits.state) == (State.CLEANUP, State.SCHED)
    assert graph.allocated(str(ahead.id)).paths() == ["/lab/node0", "/lab/node1"]
    assert top.check() == []


@pytest.mark.parametrize("inventory", INVENTORIES)
@pytest.mark.parametrize("start_s", [None, 5.0])
def test_a_job_that_others_free_before_its_limit_is_late_with_its_resources(inventory: str, start_s: float | None) -> None:
    top, clock, _ = make_instance(inventory, size=2)
    job = top.submit("slot=2/node", duration_s=10)
    top.graph.free(str(job.id), start=start_s)
    clock.now_s = 20.0
    waits = top.submit("slot=1/node", duration_s=5)  # the first call after that, and after the limit
    assert (job.state, waits.state) == (State.CLEANUP, State.SCHED)
    assert len(top.graph.allocated(str(job.id))) == 2
    assert top.check() == []
    top.finish(job)
    assert waits.state is State.RUN
    assert top.check() == []


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_later_end_that_others_set_at_the_moment_of_the_limit_leaves_no_gap(inventory: str) -> None:
    top, clock, _ = make_instance(inventory, size=2)
    job = top.submit("slot=2/node", duration_s=10)
    graph = top.graph
    clock.now_s = 10.0
    top.schedule()  # until its end is reported, or until `advance`, it holds its resources
    graph.set_end(str(job.id), 20)
    top.schedule()
    assert (job.state, job.ends_at) == (State.RUN, 20.0)
    assert {(span.pool, span.amount) for span in graph.allocation(str(job.id), at=10.0).spans} == set(job.pools)
    with pytest.raises(InsufficientResources):
        graph.allocate("slot=1/node", job="theirs", duration_s=1e-6)
    assert top.check() == []


def test_a_late_job_that_has_everything_again_at_its_limit_loses_nothing_that_others_free_then() -> None:
    top, clock, _ = make_instance("graph", size=2)
    job = top.submit("slot=2/node", duration_s=3)
    graph = top.graph
    graph.allocate("/cluster/node0", job="theirs", start=3, duration_s=4)
    clock.now_s = 4.0
    top.advance()
    limit_s = job.ends_at
    assert [each.type for each in job.exceptions] == ["timelimit", "overlap"]
    assert limit_s == 7.0  # until others free what they hold of it
    clock.now_s = limit_s
    top.schedule()
    assert [span.pool for span in graph.allocation(str(job.id), at=limit_s).spans] == ["/cluster/node0", "/cluster/node1"]
    graph.free(str(job.id))
    clock.now_s = 11.0
    waits = top.submit("slot=1/node", duration_s=5)
    assert (job.state, waits.state) == (State.CLEANUP, State.SCHED)
    assert len(graph.allocated(str(job.id))) == 2
    assert top.check() == []


@pytest.mark.parametrize("change", ["free", "end", "part", "start"])
def test_a_reservation_that_others_change_is_made_again(change: str) -> None:
    clock = ManualClock()
    graph = fluxres.build(Resource("node", 2, children=[Resource("core", 2)]), name="lab", clock=clock)
    top = Instance(graph, clock=clock, runner=ManualRunner(), inventory="graph", queue_policy="conservative")
    first, waits = top.submit("slot=2/node", duration_s=10), top.submit("slot=2/node", duration_s=30)
    name, clock.now_s = str(waits.id), 1.0
    changes: dict[str, Callable[[], object]] = {
        "free": lambda: graph.free(name),
        "end": lambda: graph.set_end(name, 11),
        "part": lambda: graph.free(name, {"/lab/node0": 1}),
        "start": lambda: graph.free(name, start=10, end=12),
    }
    changes[change]()
    clock.now_s = 10.0
    top.finish(first)
    assert waits.state is State.RUN
    assert {(span.pool, span.start, span.end) for span in graph.allocation(name).spans} == {
        ("/lab/node0", 10.0, 40.0),
        ("/lab/node1", 10.0, 40.0),
    }
    assert top.check() == []


@pytest.mark.parametrize("now_s", [3.0, 200.0])
def test_an_advance_reservation_does_not_begin_beside_a_job_that_others_ended_before_it(now_s: float) -> None:
    clock = ManualClock()
    graph = fluxres.build(Resource("node", 1, children=[Resource("core", 2)]), name="lab", clock=clock)
    top = Instance(graph, clock=clock, runner=ManualRunner(), inventory="graph")
    job = top.submit("slot=1/node", duration_s=100)
    graph.free(str(job.id), start=1)
    ahead = top.reserve("slot=1/node", start_s=1, duration_s=500)
    graph.set_state("/lab/node0", "drain")  # another change that the next call has to look at
    clock.now_s = now_s  # before and after the limit of the job
    top.advance()
    assert (job.state, ahead.state) == (State.CLEANUP, State.DEPEND)
    top.finish(job)
    assert ahead.state is State.RUN
    assert top.check() == []


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_job_whose_end_others_move_holds_again_what_they_have_freed_before_it(inventory: str) -> None:
    top, clock, _ = make_instance(inventory, size=2)
    job = top.submit("slot=2/node", duration_s=5)
    graph = top.graph
    graph.set_end(str(job.id), 40)
    graph.free(str(job.id), start=1, end=5)
    clock.now_s = 5.0
    waits = top.submit("slot=1/node", duration_s=5)
    assert (job.state, job.ends_at, waits.state) == (State.RUN, 40.0, State.SCHED)
    assert len(graph.allocated(str(job.id), at=5.0)) == 2
    assert top.check() == []


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_late_job_whose_end_others_move_takes_nothing_twice(inventory: str) -> None:
    top, clock, _ = make_instance(inventory, size=2)
    late, other = (top.submit("slot=1/node", duration_s=duration_s) for duration_s in (1, 30))
    graph = top.graph
    clock.now_s = 2.0
    top.advance()
    assert (late.state, late.ends_at) == (State.CLEANUP, 12.0)
    graph.set_end(str(late.id), 60)
    for now_s in (20.0, 30.0, 40.0):
        clock.now_s = now_s
        top.advance()
        spans = graph.allocation(str(late.id), at=now_s).spans
        assert [(span.pool, span.amount) for span in spans] == late.pools
        assert (other.state, top.check()) == (State.RUN if now_s < 30 else State.CLEANUP, [])


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_a_job_at_its_limit_gets_back_what_others_give_up_at_that_moment(inventory: str) -> None:
    top, clock, _ = make_instance(inventory, size=2)
    job = top.submit("slot=2/node", duration_s=3)
    ahead = top.reserve("slot=1/node", start_s=3, duration_s=4)
    graph = top.graph
    clock.now_s = 3.0
    top.schedule()
    graph.free(str(ahead.id))
    waits = top.submit("slot=1/node", duration_s=5)
    assert (job.state, ahead.result, waits.state) == (State.RUN, "canceled", State.SCHED)
    assert len(graph.allocated(str(job.id), at=3.0)) == 2
    assert top.check() == []


@pytest.mark.parametrize("inventory", INVENTORIES)
@pytest.mark.parametrize("change", ["graph", "theirs", "core"])
def test_an_advance_reservation_stays_when_the_inventory_changes_beside_a_late_job(inventory: str, change: str) -> None:
    clock, runner = ManualClock(), ManualRunner()
    graph = fluxres.build(Resource("node", 3, children=[Resource("core", 2)]), name="lab", clock=clock)
    kind = "named:node" if inventory == "named" else inventory
    top = Instance(graph, clock=clock, runner=runner, inventory=kind, match_policy="low")
    ahead = top.reserve("slot=1/node", start_s=4, duration_s=1)
    clock.now_s = 1.0
    late = top.submit("slot=1/node", duration_s=1)
    clock.now_s = 2.0
    top.advance()
    assert (late.state, late.pools) == (State.CLEANUP, [("/lab/node0", 1)])
    if change == "graph":
        assert top.graph.jobs()
    elif change == "theirs":
        graph.allocate("/lab/node2", job="theirs")
    elif inventory != "named":
        top.submit("slot=1/core", duration_s=1)
    clock.now_s = 3.0
    top.finish(late)
    assert ahead.pools == [("/lab/node0", 1)]
    clock.now_s = 4.0
    top.advance()
    assert (ahead.state, ahead.pools) == (State.RUN, [("/lab/node0", 1)])
    assert top.check() == []


def test_an_advance_reservation_whose_pools_others_got_ends_with_a_reason() -> None:
    clock = ManualClock()
    graph = fluxres.build(Resource("node", 1, children=[Resource("core", 2)]), name="lab", clock=clock)
    top = Instance(graph, clock=clock, runner=ManualRunner(), inventory="auto")
    ahead = top.reserve("slot=1/node", start_s=4, duration_s=1)
    graph.allocate("/lab/node0", job="theirs")  # in the graph itself, which does not show it yet
    top.advance()
    assert (ahead.state, ahead.result) == (State.INACTIVE, "failed")
    assert [one.note.partition(":")[0] for one in ahead.exceptions] == ["others got what was reserved for it"]
    assert top.check() == []


@pytest.mark.parametrize("inventory", INVENTORIES)
@pytest.mark.parametrize("start_s", [0.0, 2.0])
def test_a_job_of_which_others_free_everything_for_a_while_ends_then(inventory: str, start_s: float) -> None:
    top, clock, _ = make_instance(inventory, size=2)
    job, waits = top.submit("slot=2/node", duration_s=10), top.submit("slot=1/node", duration_s=1)
    graph = top.graph
    graph.free(str(job.id), start=start_s, end=5)
    clock.now_s = start_s
    top.advance()
    assert (job.state, waits.state) == (State.CLEANUP, State.SCHED)
    assert len(graph.allocated(str(job.id), at=start_s)) == 2
    assert top.check() == []
    top.finish(job)
    assert waits.state is State.RUN
    assert top.check() == []


def test_an_advance_reservation_that_others_shorten_is_over_then() -> None:
    clock = ManualClock()
    graph = fluxres.build(Resource("node", 1, children=[Resource("core", 2)]), name="lab", clock=clock)
    top = Instance(graph, clock=clock, runner=ManualRunner(), inventory="graph")
    first = top.reserve("slot=1/node", start_s=1, duration_s=5)
    graph.free(str(first.id), start=2)
    second = top.reserve("slot=1/node", start_s=2, duration_s=5)
    clock.now_s = 3.0
    top.advance()
    assert (first.result, second.state) == ("canceled", State.RUN)
    assert [one.note for one in first.exceptions] == ["others have freed what it held"]
    assert top.check() == []


@pytest.mark.parametrize("inventory", INVENTORIES)
@pytest.mark.parametrize("is_seen", [False, True])
def test_a_new_limit_takes_the_place_of_an_end_that_others_set(inventory: str, is_seen: bool) -> None:
    top, clock, _ = make_instance(inventory)
    job = top.submit("slot=2/node", duration_s=10)
    graph = top.graph
    graph.set_end(str(job.id), 5)
    if is_seen:
        top.advance()
    top.set_duration(job, 40)
    assert job.ends_at == 40.0
    assert {span.end for span in graph.allocation(str(job.id)).spans} == {40.0}
    clock.now_s = 20.0
    top.advance()
    assert job.state is State.RUN
    assert top.check() == []


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_new_limit_that_others_prevent_leaves_the_end_that_they_set(inventory: str) -> None:
    top, clock, _ = make_instance(inventory)
    job = top.submit("slot=2/node", duration_s=10)
    graph = top.graph
    graph.set_end(str(job.id), 5)
    graph.allocate("/cluster/node0", job="theirs", start=5, duration_s=100)
    with pytest.raises(InsufficientResources):
        top.set_duration(job, 40)
    assert job.ends_at == 5.0
    clock.now_s = 5.0
    top.advance()
    assert (job.state, job.exceptions[0].type) == (State.CLEANUP, "cancel")


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_later_end_that_others_set_is_the_new_limit_on_every_inventory(inventory: str) -> None:
    top, clock, _ = make_instance(inventory)
    job = top.submit("slot=2/node", duration_s=10)
    top.graph.set_end(str(job.id), 30)
    top.advance()
    assert (job.ends_at, job.duration_s) == (30.0, 30.0)
    clock.now_s = 20.0
    waits = top.submit("slot=5/node", duration_s=10)
    assert (job.state, waits.state) == (State.RUN, State.SCHED)
    assert top.check() == []


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_no_job_starts_on_what_others_have_added_to_one(inventory: str) -> None:
    top, _, _ = make_instance(inventory, size=3)
    job = top.submit("slot=1/node", duration_s=100)
    top.graph.grow(str(job.id), "slot=1/node")
    first, second = (top.submit("slot=1/node", duration_s=100) for _ in range(2))
    assert (first.pools, second.state) == ([("/cluster/node2", 1)], State.SCHED)
    assert top.check() == []
    top.finish(job)
    third = top.submit("slot=1/node", duration_s=100)
    assert sorted([*second.pools, *third.pools]) == [("/cluster/node0", 1), ("/cluster/node1", 1)]
    assert top.check() == []


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_what_a_child_gets_is_held_until_the_end_that_others_set_for_its_job(inventory: str) -> None:
    top, clock, _ = make_instance(inventory, size=3)
    job = top.submit("slot=1/node", duration_s=100)
    child = top.spawn(job, runner=ManualRunner())
    top.graph.set_end(str(job.id), 50)
    child.grow("slot=1/node")
    assert {span.end for span in top.graph.allocation(str(job.id)).spans} == {50.0}
    assert (job.size, job.ends_at) == (2, 50.0)
    clock.now_s = 50.0
    top.advance()
    assert (job.state, len(top.graph.allocated(str(job.id)))) == (State.CLEANUP, 2)
    top.finish(job)
    assert top.graph.jobs() == top.check() == []


def test_a_job_at_its_limit_that_others_free_holds_its_resources_again() -> None:
    top, clock, _ = make_instance(size=2)
    job = top.submit("slot=2/node", duration_s=10)
    clock.now_s = 10.0
    waits = top.submit("slot=1/node")
    top.graph.free(str(job.id))
    top.schedule()
    assert (job.state, waits.state) == (State.CLEANUP, State.SCHED)
    assert top.check() == []


def test_a_child_starts_nothing_on_what_others_have_freed_of_its_job() -> None:
    top, _, _ = make_instance(size=2)
    job = top.submit("slot=2/node")
    child = top.spawn(job, runner=ManualRunner())
    running = child.submit("slot=1/node")
    top.graph.shrink(str(job.id), "/cluster/node1")
    theirs = top.submit("slot=1/node")
    waits = child.submit("slot=1/node")
    assert (theirs.pools, running.pools) == ([("/cluster/node1", 1)], [("/cluster/node0", 1)])
    assert waits.state is State.SCHED
    child.finish(running)
    assert (waits.state, waits.pools) == (State.RUN, [("/cluster/node0", 1)])


def test_a_job_that_has_ended_ends_when_it_did() -> None:
    top, clock, _ = make_instance()
    cut, short, never = (top.submit("slot=2/node", duration_s=100) for _ in range(3))
    clock.now_s = 1.0
    top.graph.set_end(str(cut.id), 5)
    top.finish(short)
    assert cut.ends_at == 5.0
    clock.now_s = 6.0
    top.advance()
    top.finish(cut)
    held = top.submit("slot=1/node", urgency=0)
    top.cancel(held)
    assert (cut.ends_at, short.ends_at, never.ends_at, held.ends_at) == (6.0, 1.0, 100.0, None)


def test_what_others_end_later_is_no_end_of_the_job() -> None:
    top, clock, _ = make_instance()
    job = top.submit("slot=2/node", duration_s=100, name="job")
    clock.now_s = 1.0
    top.graph.set_end(str(job.id), 5)
    top.advance()
    top.graph.set_end(str(job.id), 200)  # before it took place
    clock.now_s = 50.0
    top.advance()
    assert job.state is State.RUN
    top.finish(job)
    assert top.check() == []


def test_an_end_that_others_move_is_the_limit_of_the_job() -> None:
    top, clock, runner = make_instance(policy="easy")
    job = top.submit("slot=2/node", duration_s=10, name="job")
    child = top.spawn(job)
    clock.now_s = 1.0
    top.graph.set_end(str(job.id), 30)
    assert top.next_due() == 1.0
    waits = top.submit("slot=6/node", duration_s=10, name="waits")
    assert (job.duration_s, job.ends_at, child.expires_at, waits.reserved_at) == (30, 30, 30, 30)
    clock.now_s = 20.0
    top.advance()
    assert job.state is State.RUN
    assert top.check() == []
    clock.now_s = 30.0
    top.advance()
    assert "stop job: timelimit" in runner.calls


def test_an_end_that_others_move_beyond_what_is_allowed_is_no_limit() -> None:
    top, clock, _ = make_instance(accounting=Accounting(qos={"normal": Qos(max_wall="20s")}))
    job = top.submit("slot=2/node", duration_s=10, name="job")
    clock.now_s = 1.0
    top.graph.set_end(str(job.id), 30)
    top.advance()
    (one,) = job.exceptions
    assert (one.type, one.severity, job.ends_at) == ("timelimit", 1, 10)
    assert "max_wall" in one.note
    assert top.graph.allocation(str(job.id)).end == 10


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_an_advance_reservation_that_others_end_earlier_ends_then(inventory: str) -> None:
    top, clock, _ = make_instance(inventory, at_once=("ahead",))
    ahead = top.reserve("slot=6/node", start_s=10, duration_s=100, name="ahead")
    top.graph.set_end(str(ahead.id), 20)
    clock.now_s = 10.0
    top.advance()
    assert (ahead.state, ahead.ends_at, top.next_due()) == (State.RUN, 20, 20)
    clock.now_s = 30.0
    job = top.submit("slot=6/node", duration_s=50)
    assert (ahead.result, job.state, top.check()) == ("canceled", State.RUN, [])


@pytest.mark.parametrize("moment_s", [59.9, 60.0, 60.000001, 61.0])
@pytest.mark.parametrize("is_advanced", [True, False])
@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_late_job_has_again_what_a_reservation_had_that_is_over(inventory: str, moment_s: float, *, is_advanced: bool) -> None:
    top, clock, _ = make_instance(inventory, size=2, policy="easy")
    late = top.reserve("slot=1/node", start_s=47, duration_s=5)
    clock.now_s = 47.0
    top.advance()
    top.reserve("slot=2/node", start_s=55, duration_s=5)
    for clock.now_s in (52.0, 55.0):
        top.advance()
    assert late.state is State.CLEANUP
    clock.now_s = moment_s
    if is_advanced:
        top.advance()
    assert top.submit("slot=2/node", duration_s=50).state is State.SCHED
    assert top.check() == []


# -- the audit ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_rule_t1_is_audited(inventory: str) -> None:
    top, clock, _ = make_instance(inventory)
    job = top.submit("slot=2/node", duration_s=100, name="job")
    clock.now_s = 1.0
    top.graph.free(str(job.id), "/cluster/node1", start=1)
    (problem,) = top.check()
    assert problem.where == "top /cluster/node1"
    assert problem.message == f"rule T1: {job.id} has not ended, and no longer holds it"
    job.limit = 0
    assert f"rule T1: {job.id} is past its limit and was not asked to stop" in [problem.message for problem in top.check()]


# -- random steps ------------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "submit", "wait", "finish", "cancel", "duration", "urgency", "state", "schedule"]),
        st.integers(0, 30),
        st.integers(1, 9),
    ),
    max_size=40,
)


class DelayedRunner(ManualRunner):
    """Jobs end some seconds after they were asked to stop, some immediately."""

    def __init__(self) -> None:
        super().__init__()
        self.ending: list[tuple[float, Job]] = []

    def stop(self, job: Job, why: str) -> None:
        self.calls.append(f"stop {job.name}: {why}")
        if job.number % 3 == 0:
            job.instance.finish(job, 15)
        else:
            self.ending.append((job.instance.clock() + 1 + job.number % 14, job))


def _live(policy: str, inventory: str, steps: list[tuple[str, int, int]], *, advances: bool) -> list[str]:
    """The calls of the runner, with or without a call of `advance` before each step."""
    clock, runner = ManualClock(), DelayedRunner()
    top = Instance(nodes(5), queue_policy=policy, clock=clock, inventory=inventory, runner=runner)
    made: list[Job] = []
    for number, (name, a, b) in enumerate(steps):
        clock.now_s = int(clock.now_s) + b + number / 1000  # no limit is ever at that moment
        runner.calls.append(f"-- {name} at {clock.now_s}")
        for end_s, job in list(runner.ending):
            if end_s <= clock.now_s:
                runner.ending.remove((end_s, job))
                top.finish(job, 15)
        if advances:
            top.advance()
        job = made[a % len(made)] if made else None
        calls: dict[str, Callable[[Job], Any]] = {
            "finish": top.finish,
            "cancel": top.cancel,
            "duration": partial(top.set_duration, duration_s=b * 3),
            "urgency": partial(top.set_urgency, urgency=a % 32),
        }
        # Who says that an overdue job has ended is believed, if it was not asked to stop before.
        has_ended = (job is not None and job.limit < clock.now_s * S) or job in [each for _, each in runner.ending]
        with contextlib.suppress(FluxresError):
            if name == "submit":
                made.append(top.submit(f"slot={1 + a % 5}/node", duration_s=b, name=f"j{len(made)}"))
            elif name == "state":
                top.set_state(f"/cluster/node{a % 5}", ("drain", "down", "up")[b % 3])
            elif name == "schedule":
                top.schedule()
            elif job is None or name == "wait" or (name == "finish" and has_ended):
                assert top.graph.name
            else:
                calls[name](job)
    return runner.calls


@settings(max_examples=200, deadline=None)
@given(STEPS, st.sampled_from([*POLICIES[:2], *POLICIES[3:6]]), st.sampled_from(["graph", "named"]))
def test_rule_t1_a_late_call_first_does_what_advance_does(steps: list[tuple[str, int, int]], policy: str, inventory: str) -> None:
    assert _live(policy, inventory, steps, advances=False) == _live(policy, inventory, steps, advances=True)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 40))
@example(1004469)  # a job is held at the very limit of another
@example(7620)  # a child ends after the limit of a job whose runner promised to keep it
@example(226)  # others reserved units of a pool for the moment after the limit of a job that does not stop
def test_rule_t1_no_unit_is_used_twice(seed: int) -> None:
    assert Course(seed).run() == []


@pytest.mark.parametrize("inventory", [*INVENTORIES, "counted"])
def test_rule_j1_a_job_put_on_hold_at_the_limit_of_another_has_no_reservation(inventory: str) -> None:
    machine, ask = (of_number(4), "slot=1/core={}") if inventory == "counted" else (nodes(4), "slot={}/node")
    clock = ManualClock()
    top = Instance(machine, queue_policy="conservative", clock=clock, runner=ManualRunner(), inventory=inventory, name="top")
    top.submit(ask.format(3), duration_s=10, name="running")
    waiting = [top.submit(ask.format(4), duration_s=10, name=name) for name in ("first", "second")]
    assert [job.reserved_at for job in waiting] == [10.0, 20.0]
    clock.now_s = 10.0
    top.set_urgency(waiting[1], 0)
    assert (waiting[0].reserved_at, waiting[1].reserved_at) == (10.000001, None)
    assert top.check() == []
    top.cancel(waiting[1])
    assert top.check() == []


def test_rule_t1_a_late_job_with_a_child_may_lose_to_others_later() -> None:
    clock = ManualClock()
    graph = of_number(8)
    top = Instance(graph, clock=clock, inventory="counted", runner=UnstoppableRunner())
    child = top.spawn(top.submit("slot=4/core", duration_s=10))
    child.submit("slot=4/core")
    clock.now_s = 5.0
    top.graph.allocate([("/processors/core", 7)], job="others", start=15, end=16)
    clock.now_s = 12.0
    top.advance()
    assert top.check() == []
    clock.now_s = 15.0
    top.advance()
    assert [problem.message[:8] for problem in top.check()] == ["rule T1:"]


class UnstoppableRunner:
    """A runner that does not stop jobs."""

    def start(self, job: Job) -> None: ...

    def stop(self, job: Job, why: str) -> None: ...


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("bad", [math.inf, math.nan, -1.0, limits.TIME_MAX_S * 2])
def test_a_clock_that_returns_no_time_is_refused_and_nothing_changes(bad: float, inventory: str) -> None:
    clock = ManualClock()
    top = Instance(nodes(2), clock=clock, inventory=inventory)
    for call in (top.advance, lambda: top.submit("slot/node", duration_s=1), top.check, lambda: top.graph):
        clock.now_s = bad
        with pytest.raises(UsageError, match="clock: expected seconds from 0 to"):
            call()
        clock.now_s = 1.0
        assert (top.check(), list(top.jobs())) == ([], [])
    assert top.submit("slot/node", duration_s=1).state is State.RUN


def test_a_clock_past_the_range_of_job_ids_is_refused_and_nothing_changes() -> None:
    clock = ManualClock()
    top = Instance(nodes(2), clock=clock)
    first = top.submit("slot/node")
    clock.now_s = 2**40 / 1000
    with pytest.raises(UsageError, match=r"clock: job ids \(RFC 19\) have no room for more than 34 years"):
        top.submit("slot/node")
    assert (top.check(), list(top.jobs())) == ([], [first])


@pytest.mark.parametrize("policy", ["fcfs", "conservative"])
@pytest.mark.parametrize("inventory", [*INVENTORIES, "counted"])
def test_a_late_job_gets_back_its_units_even_after_another_limit(inventory: str, policy: str) -> None:
    """Two jobs break their promises; what others got from the second one becomes free while the first one is handled."""
    machine, ask = (of_number(2), "slot=1/core") if inventory == "counted" else (nodes(2), "slot/node")
    clock = ManualClock()
    top = Instance(machine, clock=clock, runner=LimitKeepingRunner(), inventory=inventory, queue_policy=policy)
    late, later = top.submit(ask, duration_s=8), top.submit(ask, duration_s=3)
    taker = top.submit(ask, duration_s=6)
    clock.now_s = 3.0
    top.advance()
    clock.now_s = 5.0
    top.advance()
    waiting = top.submit(ask, duration_s=50)
    clock.now_s = 9.0
    top.advance()
    assert [job.state.name for job in (late, later, taker, waiting)] == ["CLEANUP", "CLEANUP", "RUN", "SCHED"]
    top.finish(taker)
    assert waiting.state is State.SCHED
    top.finish(later)
    assert waiting.state is State.RUN
    assert all(problem.severity != "error" for problem in top.check())


# -- others change the graph -------------------------------------------------------------------------------------------


def lab(clock: ManualClock) -> ResourceGraph:
    """Three nodes with two cores each, memory, and a feed of 12 W through edges of 6 W."""
    return fluxres.load(
        {
            "fluxres": 1,
            "name": "lab",
            "resources": [
                {"type": "node", "count": 3, "with": [{"type": "core", "count": 2}]},
                {"type": "memory", "count": 1, "size": 10},
            ],
            "graphs": {
                "power": {
                    "hierarchy": True,
                    "pools": [{"type": "pdu", "count": 1, "size": 12, "unit": "W"}],
                    "edges": [{"from": "power:/pdu0", "to": "/lab/node[0-2]", "capacity": 6}],
                }
            },
        },
        clock=clock,
    )


@pytest.mark.parametrize(("pool", "ask"), [("/lab/memory0", "memory=4"), ("/lab/node0", "slot/node")])
def test_rule_t1_a_late_job_loses_pools_that_are_removed_from_the_graph(pool: str, ask: str) -> None:
    clock = ManualClock()
    graph = lab(clock)
    top = Instance(graph, runner=ManualRunner(), clock=clock, inventory="graph")
    late, other = top.submit(ask, duration_s=5), top.submit("slot=2/node", duration_s=20)
    waiting = top.submit("slot=2/node", duration_s=20)
    clock.now_s = 6.0
    graph.unlink(pool)
    for now_s, state in ((6.0, State.RUN), (16.0, State.RUN), (21.0, State.CLEANUP)):
        clock.now_s = now_s
        top.advance()
        assert (late.state, late.pools, other.state, top.check()) == (State.CLEANUP, [], state, [])
    top.finish(other)
    assert (late.state, waiting.state) == (State.CLEANUP, State.RUN)
    top.finish(late)
    assert (late.state, top.check()) == (State.INACTIVE, [])


@pytest.mark.parametrize("inventory", ["graph", "named:node", "named:core"])
@pytest.mark.parametrize("change", ["edge", "state"])
@pytest.mark.parametrize("depth", [1, 2])
def test_allocations_by_others_in_a_child_are_detected_despite_later_changes_of_the_parent(
    inventory: str, change: str, depth: int
) -> None:
    clock = ManualClock()
    graph = lab(clock)
    child = Instance(graph, clock=clock, runner=ManualRunner())
    for level in range(depth):
        of_last = {"inventory": inventory} if level == depth - 1 else {}
        child = child.spawn(child.submit("slot=3/node", duration_s=100), runner=ManualRunner(), **of_last)
    child.graph.allocate("/lab/node0", job="other", start=0, end=50)
    if change == "edge":
        graph.set_edge("power:/pdu0", "/lab/node0", "power", capacity=3)
    else:
        graph.set_state("/lab/node1", "drain")
    job = child.submit("slot=2/core" if inventory == "named:core" else "slot/node", duration_s=10)
    place = "/lab/node1" if change == "edge" else "/lab/node2"
    assert (job.state, {path[:10] for path, _ in job.pools}) == (State.RUN, {place})
    assert child.check() == []


@pytest.mark.parametrize("inventory", ["graph", "named:node"])
@pytest.mark.parametrize("change", ["edge", "state"])
def test_frees_by_others_in_a_child_are_detected_despite_later_changes_of_the_parent(inventory: str, change: str) -> None:
    clock = ManualClock()
    graph = lab(clock)
    top = Instance(graph, clock=clock, runner=ManualRunner())
    child = top.spawn(top.submit("slot=3/node", duration_s=100), inventory=inventory, runner=ManualRunner())
    child.graph.allocate("/lab/node0", job="other", start=0, end=50)
    waiting = child.submit("slot=2/node", duration_s=10)
    more = child.submit("slot/node", duration_s=10)
    assert (waiting.state, more.state) == (State.RUN, State.SCHED)
    child.graph.free("other")
    if change == "edge":
        graph.set_edge("power:/pdu0", "/lab/node1", "power", capacity=3)
    else:
        graph.set_state("/lab/node2", "drain")
    top.advance()
    child.advance()
    assert more.state is State.RUN
    assert top.check() == []


@pytest.mark.parametrize("moment_s", [0.0, 1.0])
def test_a_job_continues_when_its_counted_pool_is_removed_from_the_graph(moment_s: float) -> None:
    clock = ManualClock()
    graph = lab(clock)
    graph.allocate("/lab/node0/core0", job="other")
    top = Instance(graph, clock=clock, runner=ManualRunner(), inventory="counted:memory")
    job, second = top.submit("memory=4", duration_s=20), top.submit("memory=8", duration_s=20)
    graph.unlink("/lab/memory0")
    assert top.check() == []
    assert top.graph is graph
    clock.now_s = moment_s
    top.advance()
    top.set_duration(job, 60)
    assert (job.limit, job.state, second.state) == (60 * S, State.RUN, State.SCHED)
    top.cancel(job)
    top.finish(job, 15)
    assert (job.state, top.check()) == (State.INACTIVE, [])


def test_rule_t1_pools_of_a_closed_child_that_were_removed_are_not_reported() -> None:
    clock = ManualClock()
    graph = lab(clock)
    top = Instance(graph, clock=clock, runner=ManualRunner())
    child = top.spawn(top.submit("slot=2/node", duration_s=5), runner=ManualRunner())
    clock.now_s = 6.0
    graph.unlink("/lab/node1")
    assert (top.check(), child.is_closed) == ([], True)


@pytest.mark.parametrize("inventory", ["graph", "counted:memory"])
def test_rule_t1_check_reports_what_a_late_job_lacks_at_any_moment(inventory: str) -> None:
    clock = ManualClock()
    graph = lab(clock)
    top = Instance(graph, clock=clock, runner=ManualRunner(), inventory=inventory)
    top.submit("memory=6", duration_s=1)
    graph.allocate([("/lab/memory0", 8)], job="other", start=12, end=42)
    for now_s in (2.0, 12.0, 20.0, 20.5, 22.0, 30.0, 30.5, 32.0):
        clock.now_s = now_s
        found = top.check()
        assert (now_s, [problem.message[:8] for problem in found]) == (now_s, ["rule T1:"] * (now_s >= 12))

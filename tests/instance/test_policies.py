"""Queue policies on small queues and on random workloads."""

from __future__ import annotations

import gc
import re
from importlib.metadata import EntryPoint
from math import exp, log
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import InfeasibleRequest, PolicyError, QueuePolicy, Resource, StoreError, UsageError, build, limits, load
from fluxres.instance import Instance, Job, Queue, State
from fluxres.instance.availability import AvailableCounts, AvailableSets
from fluxres.instance.counted import CountedInventory
from fluxres.instance.fair_share import Usage
from fluxres.instance.job import JobEvent
from fluxres.instance.named import NamedInventory
from fluxres.instance.policy import FairShare, Multifactor, names, policy
from fluxres.instance.runner import Unattended
from fluxres.model import changes
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax import parameters, registry
from tests.instance.machines import ManualClock, nodes, of_number, of_shape, on_nodes
from tests.simulation.invariants import Watched, violations
from tests.traceability import ROOT

S = 1_000_000
SIZE = 5


def started(instance: Instance) -> list[int]:
    return [index for index, job in enumerate(instance.jobs()) if job.started_at is not None]


def queue_of(policy_name: str, jobs: list[tuple[int, float]], **given: Any) -> Instance:
    """An instance on four nodes with jobs of (nodes, seconds), submitted at 0 s."""
    instance, _ = on_nodes(4, policy_name, **given)
    for size, length in jobs:
        instance.submit(f"slot={size}/node", duration_s=length)
    return instance


JOBS = [(3, 100.0), (4, 10.0), (1, 100.0), (1, 200.0), (1, 20.0)]


@pytest.mark.parametrize("inventory", ["graph", "named"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fcfs", [0]),
        ("easy", [0, 2]),
        ("easy-count", [0, 2]),
        ("easy-sjbf", [0, 2]),
        ("hybrid", [0, 2]),
        ("conservative", [0, 2]),
        ("priority", [0, 2]),
        ("fairshare", [0, 2]),
    ],
)
def test_jobs_that_start_immediately(name: str, expected: list[int], inventory: str) -> None:
    assert started(queue_of(name, JOBS, inventory=inventory)) == expected


@pytest.mark.parametrize(("name", "starts"), [("easy", False), ("easy-count", True)])
def test_easy_and_easy_count_differ(name: str, starts: bool) -> None:
    # At 10 nodes 0, 1 and 2 will be free, and the head needs two: by name 0 and 1, by number any. Now only node 0 is free.
    instance = queue_of(name, [(1, 5.0), (2, 10.0), (1, 20.0)], inventory="named")
    instance.finish(instance.jobs()[0])
    head = instance.submit("slot=2/node", duration_s=10)
    assert head.reserved_at == 10.0
    last = instance.submit("slot=1/node", duration_s=100)
    assert (last.state is State.RUN) == starts


def test_shortest_first() -> None:
    jobs = [(3, 100.0), (2, 10.0), (1, 90.0), (1, 20.0)]
    instance = Instance(nodes(4), queue_policy="easy-sjbf", passes="manual")
    for size, length in jobs:
        instance.submit(f"slot={size}/node", duration_s=length)
    instance.schedule()
    assert started(instance) == [0, 3]


def test_depths() -> None:
    jobs = [(3, 100.0), (4, 10.0), (2, 300.0), (1, 250.0)]
    assert queue_of("easy", jobs).queue.reserved == 1
    assert queue_of("hybrid:depth=2", jobs).queue.reserved == 2
    assert queue_of("hybrid", jobs).queue.reserved == 3
    assert queue_of("easy:depth=0", jobs).queue.reserved == 0
    assert started(queue_of("easy:queue-depth=2", [(3, 100.0), (4, 10.0), (4, 1.0), (1, 10.0)])) == [0]


def test_the_table_of_policies_lists_the_parameters_of_each() -> None:
    rows = [line for line in (ROOT / "specs" / "instances.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    listed = {line.split("`")[1]: set(re.findall("`([a-z-]+)`", line)) for line in rows if line.count("|") == 3}
    for name in ("fcfs", "easy", "easy-count", "easy-sjbf", "hybrid", "conservative", "priority", "hyperqueue", "canary"):
        known = {one.replace("_", "-") for one in parameters.of(type(policy(name)))}
        assert known <= listed[name], name
        assert not {"depth", "queue-depth"} & (listed[name] - known), name
    for name in ("jqm-poller", "jqm-tours"):
        assert {one.replace("_", "-") for one in parameters.of(type(policy(name))) if one != "claim"} <= listed[name]


def test_names_with_parameters() -> None:
    assert {"fcfs", "easy", "easy-count", "easy-sjbf", "hybrid", "conservative", "priority", "fairshare"} <= set(names())
    for wrong in ("eas", "easy:depth", "easy:depth=x", "easy:height=1", "easy:depth=-1", "priority:half-life-s=0", ""):
        with pytest.raises(UsageError):
            policy(wrong)
    with pytest.raises(UsageError):
        policy(3)  # type: ignore[arg-type]  # that is the test


class Largest(QueuePolicy):
    name = "largest"

    def schedule(self, queue: Queue) -> None:
        for job in sorted(queue, key=lambda job: -job.ask):
            queue.start(job)


def test_custom_policies() -> None:
    instance = Instance(nodes(4), queue_policy=Largest(), inventory="named", passes="manual")
    for size in (1, 2, 3):
        instance.submit(f"slot={size}/node")
    assert instance.schedule() == 2
    assert started(instance) == [0, 2]


def test_policies_of_other_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("largest", f"{__name__}:Largest", "fluxres.queue_policies")
    monkeypatch.setattr(registry, "others", lambda group: [entry])
    monkeypatch.setattr(EntryPoint, "load", lambda self: Largest)
    assert policy("largest").name == "largest"
    assert "largest" in names()
    monkeypatch.setattr(EntryPoint, "load", lambda self: dict)
    with pytest.raises(UsageError, match="QueuePolicy"):
        policy("largest")


class Broken(QueuePolicy):
    name = "broken"

    def __init__(self, what: str) -> None:
        self.what = what

    def schedule(self, queue: Queue) -> None:
        waiting = list(queue)
        if self.what == "raises":
            raise KeyError("x")
        if self.what == "again":
            queue.start(waiting[0])
            queue.start(waiting[0])
        while self.what == "loops":
            queue.reserve(waiting[-1])

    def priority(self, job: object, now_s: float) -> int:
        return -1 if self.what == "priority" else 0


def test_a_job_with_another_duration_keeps_its_priority_and_its_place() -> None:
    instance, clock = on_nodes(1, "priority", inventory="named")
    running = instance.submit("slot=1/node", duration_s=500)
    first, second = (instance.submit("slot=1/node", duration_s=50) for _ in range(2))
    clock.now_s = 200.0
    before = second.priority
    instance.set_duration(second, 40)
    assert (second.priority, second.state) == (before, State.SCHED)
    assert [event.name for event in second.events or ()][-2:] == ["jobspec-update", "priority"]
    instance.finish(running)
    assert (first.state, second.state) == (State.RUN, State.SCHED)


@pytest.mark.parametrize("what", ["raises", "again", "loops", "priority"])
def test_a_failing_policy_is_named_and_the_instance_stays_consistent(what: str) -> None:
    instance = Instance(nodes(2), queue_policy=Broken(what))
    with pytest.raises(PolicyError, match="broken"):
        instance.submit("slot=1/node", duration_s=5)
    assert instance.check() == []
    assert limits.PASS_ACTIONS_MAX > 0
    for job in instance.jobs(State.SCHED, State.RUN):
        instance.queue.is_running = True
        instance.cancel(job)
    assert instance.graph.jobs() == []


class Submits(QueuePolicy):
    """Does something that changes the queue in each call."""

    name = "submits"

    def __init__(self, what: str) -> None:
        self.what, self.calls = what, 0

    def schedule(self, queue: Queue) -> None:
        self.calls += 1
        instance: Any = queue.instance  # declared with what policies are meant to use
        if self.what == "submit":
            instance.submit("slot=1/node")
        elif self.what == "double":
            for _ in list(queue):
                instance.submit("slot=1/node")
        elif self.what == "double and start":
            for job in list(queue):
                instance.submit("slot=1/node")
                queue.start(job)
        elif self.what == "loop":
            while True:
                instance.submit("slot=1/node")
        elif self.what == "cancel" and (job := next(iter(queue), None)) is not None:
            instance.cancel(job)


def test_a_policy_that_submits_a_job_in_each_call_comes_to_an_end() -> None:
    policy = Submits("submit")
    instance = Instance(nodes(2), queue_policy=policy)
    with pytest.raises(PolicyError, match=r"queue policy submits: its pass does not end: 1,\d+ rounds in a row started"):
        instance.submit("slot=1/node", duration_s=5)
    assert policy.calls == instance.pending - 1 == limits.PASS_IDLE_ROUNDS_MAX + 2
    assert instance.check() == []


@pytest.mark.parametrize("what", ["double", "double and start", "loop"])
def test_a_policy_that_submits_jobs_without_end_is_stopped(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PASS_GROWTH_MAX", 100)
    instance = Instance(nodes(2), queue_policy=Submits(what))
    with pytest.raises(PolicyError, match=r"its pass does not end: it has submitted 101 jobs, and \d+ jobs wait") as refused:
        instance.submit("slot=1/node", duration_s=5)
    assert refused.value.hint == "let schedule() not submit or cancel jobs"
    assert refused.value.where == "queue policy submits"
    assert "(test_policies.py, line " in refused.value.message
    assert len(instance.jobs()) == 102
    assert instance.check() == []


@pytest.mark.parametrize("do", ["start", "reserve", "earliest"])
def test_a_policy_cannot_start_or_reserve_a_held_job(do: str) -> None:
    class Keeps(QueuePolicy):
        name = "keeps"

        def __init__(self) -> None:
            self.known: list[Job] = []

        def schedule(self, queue: Queue) -> None:
            self.known += [job for job in queue if job not in self.known]
            for job in self.known:
                if job.state is State.SCHED:
                    getattr(queue, do)(job)

    instance = Instance(nodes(1), queue_policy=Keeps())
    first, held = (instance.submit("slot=1/node", duration_s=5) for _ in range(2))
    with pytest.raises(PolicyError, match=rf"queue policy keeps: job {held.id} is held \(urgency 0\) and cannot be"):
        instance.set_urgency(held, 0)
    assert (held.state, held.reserved_at) == (State.SCHED, None)
    assert len(instance.queue) == (first.state is State.SCHED)
    assert instance.check() == []


@pytest.mark.parametrize("where", ["runner", "listener"])
def test_jobs_that_follow_others_in_a_pass_are_not_submitted_by_the_policy(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that end at once, each followed by another one."""
    monkeypatch.setattr(limits, "PASS_GROWTH_MAX", 10)
    left = iter(range(200))

    def follow(job: Job) -> None:
        if next(left, None) is not None:
            instance.submit("slot=1/node")

    class InOrder(QueuePolicy):
        def schedule(self, queue: Queue) -> None:
            for job in queue:
                queue.start(job)

    class AtOnce(Unattended):
        def start(self, job: Job) -> None:
            if where == "runner":
                follow(job)
            job.instance.finish(job)

    def listen(job: Job, event: JobEvent) -> None:
        if where == "listener" and event.name == "finish":
            follow(job)

    instance = Instance(nodes(2), runner=AtOnce(), queue_policy=InOrder(), events=listen)
    instance.submit("slot=1/node")
    assert next(left, None) is None
    assert [job.result for job in instance.jobs()] == ["completed"] * 201


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda queue: queue.graph.pool("/cluster/rack7"), "UnknownPool: no pool 'rack7' in '/cluster'"),
        (lambda queue: queue.graph.free("x"), "UnknownJob: no job 'x' holds anything"),
        (lambda queue: queue.graph.allocate("slot=99/node", job="x"), "InfeasibleRequest: requested 99 nodes, there are only 2"),
        (lambda queue: queue.instance.submit("slot=99/node"), "InfeasibleRequest: requested 99 nodes, there are only 2"),
    ],
)
def test_what_fluxres_refuses_a_policy_is_an_error_of_the_policy(call: Any, said: str) -> None:
    class Calls(QueuePolicy):
        name = "calls"

        def schedule(self, queue: Queue) -> None:
            call(queue)

    instance = Instance(nodes(2), queue_policy=Calls())
    with pytest.raises(PolicyError) as refused:
        instance.submit("slot=1/node", duration_s=5)
    assert refused.value.where == "queue policy calls"
    assert refused.value.message.startswith(said)
    assert refused.value.message.endswith(")")
    assert "(test_policies.py, line " in refused.value.message
    assert [job.state for job in instance.jobs()] == [State.SCHED]
    assert instance.check() == []


def test_a_policy_may_cancel_one_job_in_each_call() -> None:
    policy = Submits("nothing")
    instance = Instance(of_number(1), queue_policy=policy)
    jobs = [instance.submit("slot=1/core") for _ in range(limits.PASS_IDLE_ROUNDS_MAX + 200)]
    policy.what, policy.calls = "cancel", 0
    jobs.append(instance.submit("slot=1/core"))
    assert {job.result for job in jobs} == {"canceled"}
    assert policy.calls > len(jobs)


class Odd(QueuePolicy):
    """Does what no policy should."""

    name = "odd"

    def __init__(self, what: str) -> None:
        self.what = what

    def schedule(self, queue: Queue) -> None:
        if self.what == "advance":
            queue.instance.advance()  # type: ignore[attr-defined]  # the instance, of which policies see less
        if self.what in ("exit", "generator"):
            raise SystemExit(3) if self.what == "exit" else GeneratorExit

    def lane(self, job: Job) -> str:
        return "all"

    def place(self, job: Job) -> object:
        return object()


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("advance", "its pass does not end"),
        ("exit", r"it ends the program with sys\.exit\(\) \(test_policies\.py, line \d+\)"),
        ("generator", "GeneratorExit"),
        ("place", "TypeError: '<=' not supported"),
    ],
)
def test_what_no_policy_should_do_is_an_error_that_names_it(what: str, said: str) -> None:
    instance = Instance(nodes(2), queue_policy=Odd(what))
    if what == "place":
        instance.submit("slot=1/node", duration_s=5)  # one has its place anywhere
    with pytest.raises(PolicyError, match=f"queue policy odd: {said}"):
        instance.submit("slot=1/node", duration_s=5)
    assert instance.check() == []


class Ask(QueuePolicy):
    """A policy that does something with a job that runs, or that is of another instance."""

    name = "ask"

    def __init__(self, what: str, other: Job | None = None) -> None:
        self.what, self.other = what, other

    def schedule(self, queue: Queue) -> None:
        for job in list(queue):
            if queue.start(job):
                getattr(queue, self.what)(job if self.other is None else self.other)


@pytest.mark.parametrize("inventory", ["auto", "named", "graph", "counted"])
@pytest.mark.parametrize("what", ["start", "reserve", "reserve_count", "earliest"])
def test_a_policy_can_only_handle_jobs_that_wait(what: str, inventory: str) -> None:
    machine, request = (of_number(2), "slot=1/core") if inventory == "counted" else (nodes(2), "slot=1/node")
    instance = Instance(machine, queue_policy=Ask(what), inventory=inventory)
    with pytest.raises(PolicyError, match=r"queue policy ask: job .* is RUN and cannot be"):
        instance.submit(request, duration_s=5)
    assert instance.check() == []
    assert instance.graph.check() == []
    assert [len(job.pools) for job in instance.jobs(State.RUN)] == [1]
    assert instance.inventory.free_units == 1


@pytest.mark.parametrize("what", ["start", "reserve", "reserve_count", "earliest"])
def test_a_policy_can_only_handle_jobs_of_its_own_instance(what: str) -> None:
    other = Instance(nodes(1), queue_policy="fcfs")
    other.submit("slot=1/node", duration_s=5)
    instance = Instance(nodes(2), queue_policy=Ask(what, other.submit("slot=1/node", duration_s=5)))
    with pytest.raises(PolicyError, match="is of another instance and cannot be"):
        instance.submit("slot=1/node", duration_s=5)
    assert instance.check() == other.check() == []


def test_pools_that_are_not_interchangeable_are_reserved_by_name() -> None:
    instance = Instance(of_shape("node=1/core=4"), queue_policy="easy-count", inventory="auto")
    instance.submit("slot=1/core=3", duration_s=5)
    head = instance.submit("slot=1/core=3", duration_s=5)
    assert (head.reserved_at, instance.inventory.kind) == (5.0, "graph")
    assert [instance.submit("slot=1/core", duration_s=s).state.name for s in (5, 6)] == ["RUN", "SCHED"]


def test_age_size_and_urgency() -> None:
    instance, clock = on_nodes(1, Multifactor(recalculate_s=10, age_max_s=100, size=50_000), inventory="named")
    instance.submit("slot=1/node", duration_s=1000)
    old = instance.submit("slot=1/node")
    clock.now_s = 50.0
    urgent = instance.submit("slot=1/node", urgency=20)
    young = instance.submit("slot=1/node")
    assert list(instance.queue) == [urgent, old, young]
    before = old.priority
    clock.now_s = 90.0
    instance.advance()
    assert old.priority > before


def test_users_with_much_usage_wait() -> None:
    instance, clock = on_nodes(1, FairShare(recalculate_s=1), inventory="named")
    first = instance.submit("slot=1/node", user="ann", duration_s=100)
    clock.now_s = 100.0
    instance.finish(first)
    running = instance.submit("slot=1/node", user="cy", duration_s=50)
    ann = instance.submit("slot=1/node", user="ann")
    bob = instance.submit("slot=1/node", user="bob")
    assert list(instance.queue) == [bob, ann]
    policy_used = instance.policy
    assert isinstance(policy_used, FairShare)
    assert policy_used.share(ann, 100.0) < policy_used.share(bob, 100.0) == 1.0
    instance.finish(running)
    assert bob.state is State.RUN


def test_users_are_charged_while_their_jobs_run() -> None:
    instance, clock = on_nodes(100, FairShare(recalculate_s=60), inventory="named")
    short = instance.submit("slot=1/node", user="bob", duration_s=3600)
    instance.submit("slot=99/node", user="ann", duration_s=86400)
    clock.now_s = 3600.0
    instance.finish(short)
    clock.now_s = 7200.0
    instance.advance()
    instance.submit("slot=99/node", user="cy", duration_s=10)
    ann, bob = (instance.submit("slot=99/node", user=name) for name in ("ann", "bob"))
    assert isinstance(instance.policy, FairShare)
    assert instance.policy.share(ann, 7200.0) < 0.3 < 0.9 < instance.policy.share(bob, 7200.0)
    assert list(instance.queue)[1:] == [bob, ann]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 9)), max_size=12), st.floats(1.0, 1e4))
def test_usage_is_the_decaying_integral_of_what_a_user_holds(held: list[tuple[int, int, int]], half_life_s: float) -> None:
    """Each second counts for less by half after a half-life; here the second is divided into a thousand parts."""
    changes_of = [(start, size) for start, _, size in held] + [(start + length, -size) for start, length, size in held]
    usage, now = Usage(), 120.0
    for moment, change in sorted(changes_of):
        usage.charge(change, float(moment), half_life_s)
    rate = log(2.0) / half_life_s
    expected = sum(
        size * (exp(-rate * (now - start - length)) - exp(-rate * (now - start))) / rate for start, length, size in held
    )
    assert usage.at(now, half_life_s) == pytest.approx(expected, rel=1e-6, abs=1e-6)


class Seen(QueuePolicy):
    """Notes what it is told."""

    name = "seen"

    def __init__(self) -> None:
        self.told: list[tuple[str, int, float]] = []

    def schedule(self, queue: Queue) -> None:
        for job in queue:
            queue.start(job)

    def started(self, job: Job, now_s: float) -> None:
        self.told.append(("started", job.size, now_s))

    def finished(self, job: Job, now_s: float) -> None:
        self.told.append(("finished", job.size, now_s))


@pytest.mark.parametrize("inventory", ["graph", "named"])
def test_a_policy_is_told_of_starts_and_ends_and_knows_sizes(inventory: str) -> None:
    instance, clock = on_nodes(4, Seen(), inventory=inventory)
    first = instance.submit("slot=3/node", duration_s=10)
    waiting = instance.submit("slot=2/node", duration_s=10)
    assert (first.size, waiting.size, waiting.state) == (3, 2, State.SCHED)
    clock.now_s = 5.0
    instance.cancel(first)
    assert isinstance(instance.policy, Seen)
    assert instance.policy.told == [("started", 3, 0.0), ("finished", 3, 5.0), ("started", 2, 5.0)]


@pytest.mark.parametrize("name", ["easy", "easy-count", "easy-sjbf", "hybrid"])
def test_a_full_machine_without_limits_costs_a_pass_little(name: str) -> None:
    """No job can be reserved if none has a limit; jobs behind the first one were tried all the same, at every end."""
    instance, _ = on_nodes(8, name, inventory="named")
    jobs = [instance.submit("slot=1/node") for _ in range(100)]
    for job in jobs[:50]:
        instance.finish(job)
        assert instance.queue.actions <= 4
    assert started(instance) == list(range(58))


@pytest.mark.parametrize("inventory", ["named", "graph"])
@pytest.mark.parametrize("name", ["easy", "easy-count", "easy-sjbf", "hybrid"])
def test_a_small_job_is_reserved_on_a_full_machine_where_the_head_cannot_be(name: str, inventory: str) -> None:
    instance, _ = on_nodes(4, name, inventory=inventory)
    instance.submit("slot=3/node")
    instance.submit("slot=1/node", duration_s=10)
    head, behind = instance.submit("slot=4/node"), instance.submit("slot=1/node", duration_s=5)
    last = instance.submit("slot=1/node", duration_s=3)
    instance.schedule()
    assert (head.reserved, behind.reserved, last.reserved) == (-1, 10 * S, 15 * S if name == "hybrid" else -1)


def test_jobs_that_start_do_not_count_for_the_queue_depth() -> None:
    instance, _ = on_nodes(16, "hybrid:queue-depth=4")
    whole = instance.submit("slot=16/node", duration_s=100)
    for _ in range(20):
        instance.submit("slot=1/node", duration_s=50)
    instance.finish(whole)
    assert instance.running == 16


jobs_of = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 12), st.integers(1, 12), st.integers(1, SIZE)), min_size=1, max_size=25
).map(
    lambda drawn: [
        Submission(number, submit * S, run * S, max(run, limit) * S if number % 3 else limit * S, size)
        for number, (submit, run, limit, size) in enumerate(sorted(drawn))
    ]
)


@settings(max_examples=60, deadline=None)
@given(jobs_of, st.sampled_from(["fcfs", "easy", "hybrid:depth=2", "conservative", "easy-sjbf", "priority", "fairshare"]))
def test_schedules_are_equal_on_all_inventories_and_keep_the_rules(work: list[Submission], name: str) -> None:
    found = [
        simulate(work, of_shape(f"node={SIZE}/core=2"), queue_policy=name, inventory=inventory) for inventory in ("auto", "graph")
    ]
    schedules = [result.schedule for result in found]
    assert schedules[0] is not None
    assert schedules[1] is not None
    assert list(schedules[0]) == list(schedules[1])
    assert schedules[0].allocated == schedules[1].allocated
    assert violations(schedules[0], SIZE, work) == []
    assert len(schedules[0]) == len(work)
    assert [result.left for result in found] == [0, 0]


@settings(max_examples=80, deadline=None)
@given(
    jobs_of, st.sampled_from([("easy", True), ("easy-count", True), ("easy-sjbf", True), ("conservative", False)]), st.booleans()
)
def test_reserved_starts_are_kept(work: list[Submission], promise: tuple[str, bool], counted: bool) -> None:
    watched = Watched(policy(promise[0]), head_only=promise[1])
    result = simulate(work, of_number(SIZE) if counted else of_shape(f"node={SIZE}"), queue_policy=watched)
    assert watched.broken == []
    assert result.schedule is not None
    assert violations(result.schedule, SIZE, work) == []


@settings(max_examples=40, deadline=None)
@given(jobs_of)
def test_fcfs_starts_in_order_of_submission(work: list[Submission]) -> None:
    schedule = simulate(work, of_number(SIZE), queue_policy="fcfs").schedule
    assert schedule is not None
    start = schedule.starts()
    in_order = [start[job.id] for job in work]
    assert in_order == sorted(in_order)


SHARED_FEED = {
    "fluxres": 1,
    "name": "m",
    "resources": [{"type": "node", "count": 6}],
    "graphs": {
        "power": {
            "hierarchy": True,
            "pools": [
                {"type": "power", "name": "feed", "size": 500, "unit": "W", "with": [
                    {"type": "power", "basename": "panel", "count": 2, "size": 700, "unit": "W", "with": [
                        {"type": "power", "basename": "pdu", "count": 3, "size": 200, "unit": "W"},
                    ]},
                ]},
            ],
            "edges": [{"from": f"power:/feed/panel{at // 3}/pdu{at % 3}", "to": f"/m/node{at}"} for at in range(6)],
        }
    },
}  # fmt: skip
"""Watts can be chosen at three levels of suppliers, so a request for watts alone that does not fit may be undecided."""


@pytest.mark.parametrize("name", ["fcfs", "easy", "easy-sjbf", "hybrid", "conservative", "priority", "fairshare"])
def test_an_undecided_request_waits_and_no_other_call_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MATCH_STEPS_MAX", 1000)
    now = [0.0]
    top = Instance(load(SHARED_FEED), clock=lambda: now[0], queue_policy=name, events=True)
    first = top.submit("slot=2/[node{x};power=100]", duration_s=100)
    undecided = top.submit("power=350", duration_s=10)
    behind = [top.submit("node{x}", duration_s=10) for _ in range(2)]
    assert undecided.state is State.SCHED
    assert all(job.state is (State.SCHED if name == "fcfs" else State.RUN) for job in behind)
    top.advance()
    # Where the policy asked whether it could start, the job says that nobody knows; once, and it is not over.
    noted = [failure for failure in undecided.exceptions if failure.type == "alloc"]
    assert len(noted) == (name != "conservative")
    assert all(failure.severity == 1 and "undecided after" in failure.note for failure in noted)
    top.finish(first)
    assert undecided.state is State.RUN
    assert top.check() == []


@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative"])
def test_errors_of_the_matcher_in_a_pass_are_recorded_on_the_job(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls about other jobs do not raise."""
    now = [0.0]
    top = Instance(load(SHARED_FEED), clock=lambda: now[0], queue_policy=name)
    first = top.submit("slot=6/node{x}", duration_s=100)
    waiting = top.submit("slot=1/node{x}", duration_s=100)

    def fail(*_: object, **__: object) -> None:
        raise InfeasibleRequest("600 units wanted of a pool of 300")

    with monkeypatch.context() as patched:
        patched.setattr(changes, "record_match", fail)
        top.finish(first)
        other = top.submit("slot=1/node{x}", duration_s=5)
        now[0] = 10
        top.advance()
        assert waiting.state is other.state is State.SCHED
        assert ["600 units wanted" in failure.note for failure in waiting.exceptions] == [True]
    top.set_state("/m/node5", "drain")
    assert waiting.state is State.RUN


def test_errors_of_the_store_are_raised_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    top = Instance(load(SHARED_FEED), clock=lambda: 0.0)

    def fail(*_: object, **__: object) -> None:
        raise StoreError("no space left")

    monkeypatch.setattr(changes, "record_match", fail)
    with pytest.raises(StoreError):
        top.submit("slot=1/node{x}", duration_s=100)


@pytest.mark.parametrize("inventory", ["graph", "named", "auto"])
@pytest.mark.parametrize("drops", ["limit", "state", "late"])
def test_conservative_keeps_its_starts_when_all_reservations_are_made_again(inventory: str, drops: str) -> None:
    instance, clock = on_nodes(5, "conservative", inventory=inventory)
    runs = instance.submit("slot=3/node", duration_s=10)
    ends_early = instance.submit("slot=2/node", duration_s=30)
    large = instance.submit("slot=4/node", duration_s=10)
    small = instance.submit("slot=3/node", duration_s=20)
    clock.now_s = 5.0
    instance.finish(ends_early)
    assert (large.reserved_at, small.reserved_at) == (
        30.0,
        10.0,
    )  # the first in the queue would fit at 10, were it not for the second
    if drops == "limit":
        instance.set_duration(runs, 10)
    elif drops == "state":
        instance.up("/cluster/node0")
    else:
        clock.now_s = 10.0
        assert instance.graph is not None  # until its end is reported, what runs keeps what it has
    clock.now_s = 10.0
    instance.finish(runs)
    assert (small.state.name, large.reserved_at) == ("RUN", 30.0)


def two_at_their_limit(inventory: str) -> tuple[Instance, ManualClock, dict[str, Job]]:
    """Two jobs that end at 7 s, on a core of one node and on the other node, and the jobs that wait for them."""
    clock = ManualClock()
    graph = build(Resource("node", 2, children=[Resource("core", 2)]), name="lab")
    instance = Instance(graph, queue_policy="conservative", clock=clock, inventory=inventory)
    wanted = {"core": 7, "other core": 100, "node": 7, "small": 4, "large": 4, "last": 3}
    asks = {"node": "slot/node", "large": "slot/node", "last": "slot=3/core"}
    jobs = {name: instance.submit(asks.get(name, "slot/core"), duration_s=s) for name, s in wanted.items()}
    assert [jobs[name].reserved_at for name in ("small", "large", "last")] == [7.0, 7.0, 11.0]
    clock.now_s = 7.0
    return instance, clock, jobs


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("seen", ["", "graph", "next_due", "jobs"])
def test_a_job_at_its_limit_does_not_move_other_reservations(inventory: str, seen: str) -> None:
    instance, clock, jobs = two_at_their_limit(inventory)
    instance.finish(jobs["node"])
    assert (jobs["large"].state, jobs["small"].state) == (State.RUN, State.SCHED)
    if seen:
        getattr(instance, seen) if seen == "graph" else getattr(instance, seen)()
    instance.finish(jobs["core"])
    assert (jobs["small"].started_at, jobs["large"].started_at, jobs["last"].reserved_at) == (7.0, 7.0, 11.0)
    clock.now_s = 11.0
    instance.finish(jobs["small"])
    instance.finish(jobs["large"])
    assert (jobs["last"].started_at, instance.check()) == (11.0, [])


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_a_job_that_is_stopped_at_its_limit_does_not_move_other_reservations(inventory: str) -> None:
    instance, clock, jobs = two_at_their_limit(inventory)
    instance.finish(jobs["node"])
    instance.advance()
    assert (jobs["core"].result, jobs["small"].started_at, jobs["last"].reserved_at) == ("timeout", 7.0, 11.0)
    clock.now_s = 11.0
    instance.advance()
    assert (jobs["last"].started_at, instance.check()) == (11.0, [])


@pytest.mark.parametrize("inventory", ["graph", "named", "auto", "counted"])
def test_a_chain_of_reservations_behind_a_job_at_its_limit_keeps_its_starts(inventory: str) -> None:
    clock = ManualClock()
    machine, ask = (of_number(4), "slot=1/core={}") if inventory == "counted" else (nodes(4), "slot={}/node")
    instance = Instance(machine, queue_policy="conservative", clock=clock, inventory=inventory)
    first, beside = (instance.submit(ask.format(2), duration_s=10) for _ in range(2))
    chain = [instance.submit(ask.format(n), duration_s=5) for n in (4, 3, 2)]
    promised = [10.0, 15.0, 20.0]
    assert [job.reserved_at for job in chain] == promised
    clock.now_s = 10.0
    instance.finish(beside)
    assert [job.reserved_at for job in chain] == [moment + 1e-6 for moment in promised]
    instance.finish(first)
    assert [job.reserved_at for job in chain] == [None, 15.0, 20.0]
    clock.now_s = 15.0
    instance.finish(chain[0])
    clock.now_s = 20.0
    instance.finish(chain[1])
    assert ([job.started_at for job in chain], instance.check()) == (promised, [])


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_a_changed_limit_moves_only_reservations_that_overlap(inventory: str) -> None:
    graph = build(Resource("node", 3, children=[Resource("core", 2)]), name="lab")
    instance = Instance(graph, queue_policy="conservative", inventory=inventory)
    runs = [
        instance.submit(ask, duration_s=s)
        for ask, s in (("slot/node", 3), ("slot/node", 6), ("slot/core", 3), ("slot/core", 100))
    ]
    nodes_later, core_first = instance.submit("slot=2/node", duration_s=2), instance.submit("slot/core", duration_s=10)
    assert (nodes_later.reserved_at, core_first.reserved_at) == (6.0, 3.0)
    instance.set_duration(runs[1], 6)  # fitted anew, the core would be one of the nodes
    assert (nodes_later.reserved_at, core_first.reserved_at) == (6.0, 3.0)
    instance.set_duration(runs[2], 4)
    assert (nodes_later.reserved_at, core_first.reserved_at) == (6.0, 4.0)
    assert instance.check() == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:P", "cannot be imported: ModuleNotFoundError"),
        ("fluxres.clock:NoSuchClass", "cannot be imported: AttributeError"),
        ("json:loads", "expected s as well"),
        ("fluxres.syntax.options:words", "expected text as well"),
    ],
)
def test_policy_of_another_package_that_cannot_be_made_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    metadata = tmp_path / "other-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: other\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[fluxres.queue_policies]\nother = {value}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match=message) as caught:
        policy("other")
    assert caught.value.where == "queue policy other"


@pytest.mark.parametrize("depth", ["nan", "inf", "-inf"])
def test_policy_parameter_is_a_finite_number(depth: str) -> None:
    with pytest.raises(UsageError, match=r"queue policy easy depth: expected a whole number"):
        policy(f"easy:depth={depth}")


def test_queue_forgets_the_jobs_that_have_started() -> None:
    ended: list[Job] = []
    top, _ = on_nodes(1, "fcfs", inventory="named", sink=ended.append)
    running = top.submit("slot=1/node")
    for _ in range(40):
        top.submit("slot=1/node")
    for _ in range(60):
        top.submit("slot=1/node")
        top.finish(running)
        running = next(job for job in top.jobs("running"))
    ended.clear()
    gc.collect()
    assert sum(isinstance(one, Job) and one.instance is top for one in gc.get_objects()) <= 50


@pytest.mark.parametrize("machine", ["8", "node=8"])
def test_conservative_searches_once_for_each_job_that_ends_at_its_limit(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[int] = []
    for kind in (AvailableCounts, AvailableSets):
        search = kind.earliest
        monkeypatch.setattr(kind, "earliest", lambda *args, of=search: searches.append(1) or of(*args))
    jobs = [Submission(number, 0, (number % 7 + 1) * S, (number % 7 + 1) * S, number % 5 + 1) for number in range(100)]
    assert simulate(jobs, machine, queue_policy="conservative").metrics.jobs == 100
    assert len(searches) <= 100


@pytest.mark.parametrize("machine", ["12", "node=12"])
@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(20))
def test_conservative_finds_what_searches_for_all_jobs_find(seed: int, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Random(seed)
    jobs = []
    for number in range(80):
        run = drawn.randint(1, 40)
        jobs.append(Submission(number, number * 2 * S, run * S, run * drawn.randint(1, 5) * S, drawn.choice((1, 2, 3, 7, 12))))
    found = simulate(jobs, machine, queue_policy="conservative").schedule
    monkeypatch.setattr(CountedInventory, "_is_fitted", lambda *_: False)
    monkeypatch.setattr(NamedInventory, "_is_still_earliest", lambda *_: False)
    expected = simulate(jobs, machine, queue_policy="conservative").schedule
    assert found is not None
    assert expected is not None
    assert (found.starts(), found.allocated) == (expected.starts(), expected.allocated)

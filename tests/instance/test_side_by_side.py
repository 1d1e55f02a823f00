"""Two instances, on the graph and on a fast inventory, get the same calls and must do the same."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fluxres.errors import FluxresError
from fluxres.instance import Instance, Job, State
from tests.instance.machines import ManualClock, nodes, of_number

SIZE = 5
S = 1_000_000
POLICIES = ["fcfs", "easy", "hybrid:depth=2", "conservative", "easy-sjbf", "priority:recalculate-s=3"]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "submit",
                "submit",
                "submit",
                "wait",
                "wait",
                "finish",
                "cancel",
                "duration",
                "urgency",
                "drain",
                "down",
                "up",
                "depend",
            ]
        ),
        st.integers(0, 30),
        st.integers(1, 9),
    ),
    max_size=40,
)


class RecordingRunner:
    """Records the jobs that it starts.

    Args:
        stops_at_once: whether jobs end when they are asked to stop, or only when the test says so.
        keeps_limits: a promise that is not always kept.
    """

    def __init__(self, *, stops_at_once: bool, keeps_limits: bool = False) -> None:
        self.stops_at_once = stops_at_once
        self.keeps_limits = keeps_limits
        self.started: list[int] = []

    def start(self, job: Job) -> None:
        self.started.append(job.number)

    def stop(self, job: Job, why: str) -> None:
        if self.stops_at_once:
            job.instance.finish(job, 15)


class Pair:
    """Two instances that get the same calls.

    Args:
        fast: the inventory of the second one.
    """

    def __init__(self, policy: str, *, stops_at_once: bool, keeps_limits: bool = False, fast: str = "named") -> None:
        self.clock = ManualClock()
        self.wanted, self.machine, self.first = "slot={}/node", nodes, "/cluster/node{}"
        if fast == "counted":
            self.wanted, self.machine, self.first = "slot=1/core={}", of_number, "/processors/core"
        self.runners = [RecordingRunner(stops_at_once=stops_at_once, keeps_limits=keeps_limits) for _ in range(2)]
        self.both = [
            Instance(self.machine(SIZE), queue_policy=policy, clock=self.clock, inventory=inventory, runner=runner)
            for inventory, runner in zip(("graph", fast), self.runners, strict=True)
        ]

    def act(self, call: Any) -> None:
        outcomes = []
        for instance in self.both:
            try:
                call(instance)
                outcomes.append("")
            except FluxresError as error:
                outcomes.append(f"{type(error).__name__} {error.where} {error.message}")
        assert outcomes[0] == outcomes[1]

    def job(self, instance: Instance, which: int) -> Job | None:
        active = [job for job in instance.jobs() if job.state is not State.INACTIVE]
        return active[which % len(active)] if active else None

    def step(self, name: str, a: int, b: int) -> None:
        if name == "submit":
            self.act(lambda one: one.submit(self.wanted.format(1 + a % SIZE), duration_s=None if a == 30 else b))
        elif name == "wait":
            self.clock.now_s += b
            self.act(lambda one: one.advance())
        elif name == "pass by":
            self.clock.now_s += b
        elif name == "keep":
            self.act(lambda one: [one.finish(job) for job in one.jobs(State.RUN) if job.limit == self.clock.now_s * S])
        elif name == "check":
            self.check()
        elif name in ("graph", "schedule"):
            self.act(lambda one: one.graph if name == "graph" else one.schedule())
        elif name in ("drain", "down", "up"):
            self.act(lambda one: getattr(one, name)([self.first.format(a % SIZE)]))
        else:
            numbers = {job.number if (job := self.job(one, a)) else None for one in self.both}
            (number,) = numbers
            if number is None:
                return
            calls: dict[str, Any] = {
                "finish": lambda one: one.finish(number),
                "cancel": lambda one: one.cancel(number),
                "duration": lambda one: one.set_duration(number, b * 3),
                "urgency": lambda one: one.set_urgency(number, b * 3),
                "depend": lambda one: one.add_dependency(number, f"begin-time:{self.clock.now_s + b}"),
            }
            self.act(calls[name])

    def check(self) -> None:
        """Only what others got at the limit of a late job is reported."""
        found = [sorted((problem.where, problem.message) for problem in one.check()) for one in self.both]
        assert found[0] == found[1]
        late = {
            (f"{one.address} {where}", str(job.id))
            for one in self.both
            for job in one.jobs(State.CLEANUP)
            for where, _ in job.pools
        }
        for where, message in found[0]:
            assert any((where, number) in late and message.startswith(f"rule T1: {number} has not ended") for _, number in late)

    def compare(self) -> None:
        seen = [
            [
                (job.number, job.state, job.started, job.limit, job.reserved, job.pools if job.state is State.RUN else None)
                for job in one.jobs()
            ]
            for one in self.both
        ]
        assert seen[0] == seen[1]
        assert len({one.next_due() for one in self.both}) == 1
        assert self.runners[0].started == self.runners[1].started


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from(POLICIES), st.booleans())
def test_both_inventories_do_the_same(steps: list[tuple[str, int, int]], policy: str, stops_at_once: bool) -> None:
    pair = Pair(policy, stops_at_once=stops_at_once)
    for name, a, b in steps:
        pair.step(name, a, b)
        pair.compare()
    for instance in pair.both:
        assert instance.check() == []


PROMISES = st.lists(
    st.tuples(
        st.sampled_from(
            ["submit"] * 6
            + ["pass by"] * 4
            + ["wait", "keep", "finish", "cancel", "duration", "duration", "graph", "schedule", "check", "drain", "up"]
        ),
        st.integers(0, 29),
        st.integers(1, 3),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@example(
    [("submit", 2, 1), ("pass by", 0, 1), ("submit", 12, 1), ("graph", 0, 1), ("submit", 0, 1), ("duration", 0, 1)],
    "fcfs",
    False,
    "counted",
)
@given(PROMISES, st.sampled_from(POLICIES), st.booleans(), st.sampled_from(["named", "counted"]))
def test_both_inventories_do_the_same_if_a_runner_breaks_its_promise(
    steps: list[tuple[str, int, int]], policy: str, stops_at_once: bool, fast: str
) -> None:
    pair = Pair(policy, stops_at_once=stops_at_once, keeps_limits=True, fast=fast)
    for name, a, b in steps:
        pair.step(name, a, b)
        pair.compare()
    pair.step("check", 0, 0)

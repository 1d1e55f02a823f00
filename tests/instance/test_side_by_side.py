"""Two instances, one on the graph and one on the fast inventory, live through the same and must not differ."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.errors import FluxresError
from fluxres.instance import Instance, Job, State
from tests.instance.machines import Hand, nodes

SIZE = 5
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


class Deaf:
    """Jobs that stop some time after they were told to."""

    keeps_limits = False

    def __init__(self, *, hears: bool) -> None:
        self.hears = hears

    def start(self, job: Job) -> None:
        pass

    def stop(self, job: Job, why: str) -> None:
        if self.hears:
            job.instance.finish(job, 15)


class Pair:
    def __init__(self, policy: str, *, hears: bool) -> None:
        self.clock = Hand()
        self.both = [
            Instance(nodes(SIZE), queue_policy=policy, clock=self.clock, inventory=inventory, runner=Deaf(hears=hears))
            for inventory in ("graph", "named")
        ]

    def act(self, call: Any) -> None:
        told = []
        for instance in self.both:
            try:
                call(instance)
                told.append("")
            except FluxresError as error:
                told.append(type(error).__name__)
        assert told[0] == told[1]

    def job(self, instance: Instance, which: int) -> Job | None:
        active = [job for job in instance.jobs() if job.state is not State.INACTIVE]
        return active[which % len(active)] if active else None

    def step(self, name: str, a: int, b: int) -> None:
        if name == "submit":
            self.act(lambda one: one.submit(f"slot={1 + a % SIZE}/node", duration_s=None if a == 30 else b))
        elif name == "wait":
            self.clock.now_s += b
            self.act(lambda one: one.advance())
        elif name in ("drain", "down", "up"):
            self.act(lambda one: getattr(one, name)([f"/cluster/node{a % SIZE}"]))
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


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from(POLICIES), st.booleans())
def test_they_do_not_differ(steps: list[tuple[str, int, int]], policy: str, hears: bool) -> None:
    pair = Pair(policy, hears=hears)
    for name, a, b in steps:
        pair.step(name, a, b)
        pair.compare()
    for instance in pair.both:
        assert instance.check() == []

"""Several instances, and jobs of others, on one graph."""

from __future__ import annotations

import random

import pytest

from fluxres.errors import FluxresError
from fluxres.instance import Instance, Job, State
from tests.instance.machines import ManualClock, nodes

TICK_S = 0.000001


class UsageRunner:
    """Records which job uses which pool, and conflicts; it does not raise, since that would only be an exception of the job."""

    keeps_limits = False

    def __init__(self, users: dict[str, str]) -> None:
        self.users = users
        self.twice: list[str] = []

    def start(self, job: Job) -> None:
        for path, _ in job.pools:
            if path in self.users:
                self.twice.append(f"{path} is allocated to {job.id} and used by {self.users[path]}")
            self.users[path] = job.id

    def stop(self, job: Job, why: str) -> None:
        pass

    def release(self, job: Job) -> None:
        for path in [path for path, user in self.users.items() if user == job.id]:
            del self.users[path]


def test_calls_return_although_others_free_something_in_the_next_tick() -> None:
    graph, clock = nodes(2), ManualClock()
    graph.allocate("/cluster/node0", job="other", start=0, end=1 + TICK_S)
    top = Instance(graph, clock=clock)
    waiting = top.submit("slot=2/node{x}")
    clock.now_s = 1.0
    top.advance()
    assert waiting.state is State.SCHED
    clock.now_s = 1 + TICK_S
    top.advance()
    assert waiting.state is State.RUN


def test_limits_of_that_moment_are_still_enforced() -> None:
    graph, clock = nodes(2), ManualClock()
    graph.allocate("/cluster/node0", job="other", start=0, end=1 + TICK_S)
    top = Instance(graph, clock=clock)
    job = top.submit("slot/node{x}", duration_s=1)
    clock.now_s = 1.0
    top.advance()
    assert [event.name for event in job.events if event.name == "exception"] or job.state is State.INACTIVE


def test_one_instance_waits_for_a_job_at_its_limit_in_the_other() -> None:
    graph, clock = nodes(2), ManualClock()
    graph.clock = clock
    one, other = Instance(graph, name="one"), Instance(graph, name="other")
    other.submit("slot/node{x}", duration_s=10)
    one.submit("slot/node{x}", duration_s=30)
    clock.now_s = 10.0
    other.submit("slot/node{x}", duration_s=5)
    one.advance()
    assert one.check() == other.check() == []


def test_instances_on_one_graph_use_different_job_ids() -> None:
    graph = nodes(2)
    one, other = Instance(graph, name="one"), Instance(graph, name="other")
    first, waiting, also = one.submit("slot=2/node{x}"), one.submit("slot/node{x}"), other.submit("slot/node{x}")
    assert len({first.id, waiting.id, also.id}) == 3
    one.finish(first)
    other.advance()
    assert sorted(waiting.pools + also.pools) == [("/cluster/node0", 1), ("/cluster/node1", 1)]
    one.finish(waiting)
    assert one.submit("slot=2/node{x}").state is State.SCHED
    assert one.check() == other.check() == []


def test_the_generator_of_a_closed_instance_is_used_again() -> None:
    graph = nodes(1)
    first = Instance(graph)
    ids = first.submit("slot/node{x}").id
    first.close()
    assert Instance(graph).submit("slot/node{x}").id == ids


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(12))
def test_several_instances_on_one_graph_do_not_share_units(seed: int) -> None:
    source, graph, clock = random.Random(seed), nodes(4), ManualClock()
    graph.clock = clock
    runner = UsageRunner({})
    instances = [Instance(graph, name=f"i{i}", runner=runner, queue_policy=source.choice(["fcfs", "easy"])) for i in range(3)]
    for _ in range(120):
        instance = source.choice(instances)
        active = [job for job in instance.jobs() if job.state is not State.INACTIVE]
        step = source.choice(["submit", "submit", "finish", "wait", "advance", "cancel"])
        try:
            if step == "submit":
                instance.submit(f"slot={source.randint(1, 3)}/node{{x}}")
            elif step == "wait":
                clock.now_s += source.choice([TICK_S, 0.5, 1, 5])
            elif step == "advance":
                instance.advance()
            elif active:
                job = source.choice(active)
                if step == "finish":
                    if job.state in (State.RUN, State.CLEANUP):
                        runner.release(job)
                    instance.finish(job)
                else:
                    instance.cancel(job)
        except FluxresError:
            pass
        assert runner.twice == []
        assert [problem for each in instances for problem in each.check()] == []
    assert runner.users

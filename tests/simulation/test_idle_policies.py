"""A policy that starts no job, although there is room for each, is an error; jobs that can never start are none
(specs/simulation.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fluxres import PolicyError, QueuePolicy, UsageError, limits
from fluxres.clock import FOREVER
from fluxres.clock import TICKS_PER_S as S
from fluxres.instance import Instance, Job, Queue
from fluxres.instance.policy import names
from fluxres.launch.hierarchy import EqualJobs, check
from fluxres.simulation import Hierarchy, Submission, simulate
from fluxres.simulation.disturbances.external import AdvanceReservation, Disturbances, ExternalEvent
from fluxres.simulation.machine import of_number, of_shape
from tests.instance.machines import nodes

LAZY = """
from fluxres import QueuePolicy

class Lazy(QueuePolicy):
    def schedule(self, queue):
        {}
"""


class Lazy(QueuePolicy):
    def schedule(self, queue: Queue) -> None:
        pass


class InOrder(QueuePolicy):
    """As fcfs."""

    def schedule(self, queue: Queue) -> None:
        for job in queue:
            if not queue.start(job):
                break


class Promises(QueuePolicy):
    """Reserves, and never starts."""

    def schedule(self, queue: Queue) -> None:
        for job in queue:
            queue.reserve(job)


class StartsTwo(QueuePolicy):
    """Then it starts no more."""

    def schedule(self, queue: Queue) -> None:
        for job in list(queue):
            if job.payload.id in (1, 2):
                queue.start(job)


def job(number: int | str, size: int = 1, **more: Any) -> Submission:
    return Submission(number, 0, 10 * S, 20 * S, size)._replace(**more)


WAY_OUT = "its schedule starts jobs with queue.start(job), and queue.wake_at(seconds) asks for a later pass"


@pytest.mark.parametrize("settings", [{}, {"event_order": "batched"}, {"cost": "fixed:0.1"}, {"inventory": "graph"}])
@pytest.mark.parametrize("policy", [Lazy, Promises])
def test_a_policy_that_starts_nothing_is_an_error_with_the_way_out(policy: type[QueuePolicy], settings: dict[str, Any]) -> None:
    result = simulate([job("first"), job("second"), job("third")], of_shape("node=4"), queue_policy=policy(), **settings)
    told = "it starts no job: 3 jobs wait, job first first, there is room for each of them, and nothing else is to come"
    assert result.errors == [f"cluster: queue policy {policy.__name__}: {told} (test_idle_policies.py) ({WAY_OUT})"]
    assert (result.left, result.metrics.jobs) == (3, 0)


def test_a_policy_that_starts_no_more_is_an_error_and_the_metrics_are_those_of_the_others() -> None:
    result = simulate([job(number) for number in range(1, 4)], of_number(4), queue_policy=StartsTwo())
    (told,) = result.errors
    assert told.startswith("processors: queue policy StartsTwo: it starts no job: job 3 waits, there is room for it, and")
    assert (result.left, result.metrics.jobs) == (1, 2)


def test_each_instance_of_a_hierarchy_reports_its_policy(tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text(LAZY.format("pass"))
    work, levels = [job(number) for number in range(4)], Hierarchy((2,), ("easy", f"{tmp_path}/lazy.py:Lazy"))
    result = simulate(work, of_shape("node=4"), hierarchy=levels)
    assert [each.partition(": it starts no job: 2 jobs wait, job ")[0] for each in result.errors] == [
        "cluster/ƒ1: queue policy Lazy",
        "cluster/ƒ2: queue policy Lazy",
    ]
    assert all("(lazy.py)" in each for each in result.errors)
    outer = simulate(work, of_shape("node=4"), hierarchy=Hierarchy((2,), (f"{tmp_path}/lazy.py:Lazy",)))
    assert [each.partition(": it")[0] for each in outer.errors] == ["cluster: queue policy Lazy"]


NEVER: dict[str, tuple[list[Submission], dict[str, Any]]] = {
    "held": ([job("h", urgency=0)], {}),
    "depends on a held job": ([job("h", urgency=0), job("d", dependencies=("afterok:h",))], {}),
    "a limit of the accounting": ([job("x", user="ann")], {"accounting": {"users": {"ann": {"max_jobs": 0}}}}),
    "nodes that are down": (
        [job("big", 4, submit=S), job("small", submit=S)],
        {"disturbances": Disturbances([ExternalEvent(0, "down", "node3")])},
    ),
    "too large beside a reservation without an end": (
        [job("big", 4, submit=S), job("small", submit=S)],
        {"disturbances": Disturbances([ExternalEvent(0, "reserve", AdvanceReservation("node3", S // 2, FOREVER))])},
    ),
}


@pytest.mark.parametrize("policy", [*names(), InOrder])
@pytest.mark.parametrize("why", NEVER)
def test_jobs_that_can_never_start_are_left_without_an_error(why: str, policy: Any) -> None:
    work, settings = NEVER[why]
    result = simulate(work, of_shape("node=4"), queue_policy=policy, **settings)
    assert result.errors == []
    assert result.left > 0


def test_a_hierarchy_whose_parent_starts_no_child_names_the_policy() -> None:
    levels = Hierarchy((2,), ("tests/simulation/test_idle_policies.py:Lazy", "fcfs"))
    with pytest.raises(PolicyError, match=r"queue policy Lazy: it starts no job: job .* waits, there is room for it"):
        check(of_shape("node=2/core=2"), levels, EqualJobs(4))


def test_a_policy_without_a_name_has_that_of_its_class() -> None:
    class Mine(InOrder):
        pass

    class Named(Mine):
        name = "other"

    assert (Lazy.name, Mine.name, Named.name, Named().name) == ("Lazy", "Mine", "other", "other")


class Wrong(QueuePolicy):
    """Does something that a policy cannot do."""

    def __init__(self, what: str, value: Any) -> None:
        self.what, self.value = what, value

    def schedule(self, queue: Queue) -> None:
        if self.what not in ("priority", "take_in"):
            getattr(queue, self.what)(self.value)

    def priority(self, job: Job, now_s: float) -> int:
        return self.value if self.what == "priority" else 1

    def take_in(self, job: Job) -> Job:
        return self.value if self.what == "take_in" else job


@pytest.mark.parametrize("what", ["start", "reserve", "reserve_count", "earliest"])
@pytest.mark.parametrize("value", ["x", 3, None])
def test_what_is_no_job_is_told_with_what_is_expected(what: str, value: Any) -> None:
    instance = Instance(nodes(2), queue_policy=Wrong(what, value))
    line = r"\(test_idle_policies\.py, line \d+\)"
    told = f"queue policy Wrong: expected a job of the queue, got {value!r}, which cannot be "
    with pytest.raises(PolicyError, match=rf"^{told}.* {line}$"):
        instance.submit("slot=1/node")
    assert instance.check() == []


@pytest.mark.parametrize(
    ("what", "value", "told"),
    [
        ("priority", "high", "priority: expected a number, got 'high'"),
        ("priority", None, "priority: expected a number, got None"),
        ("priority", 2**40, "priority 1099511627776 is not in 0 to 4294967295"),
        ("take_in", "x", "take_in: expected a job, got 'x'"),
    ],
)
def test_what_a_method_of_a_policy_may_not_return_is_told_with_its_file(what: str, value: Any, told: str) -> None:
    instance = Instance(nodes(2), queue_policy=Wrong(what, value))
    with pytest.raises(PolicyError) as raised:
        instance.submit("slot=1/node")
    assert str(raised.value) == f"queue policy Wrong: {told} (test_idle_policies.py)"
    (error,) = simulate([job(1)], of_number(4), queue_policy=Wrong(what, value)).errors
    assert error == f"processors: {raised.value}"


class Wakes(QueuePolicy):
    """Asks for a pass every second, and starts jobs from a moment on."""

    def __init__(self, from_s: float) -> None:
        self.from_s = from_s

    def schedule(self, queue: Queue) -> None:
        if queue.now_s < self.from_s:
            queue.wake_at(queue.now_s + 1)
        else:
            for job in list(queue):
                queue.start(job)


def test_a_policy_that_asks_for_passes_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IDLE_WAKEUPS_MAX", 500)
    jobs = [job(n) for n in range(4)]
    late = simulate(jobs, of_number(2), queue_policy=Wakes(450))
    assert (late.errors, late.metrics.jobs) == ([], 4)
    never = simulate(jobs, of_number(2), queue_policy=Wakes(1e9))
    (told,) = never.errors
    assert "queue policy Wakes: it asked for 501 passes in a row and started no job, and nothing else is to come" in told
    assert (never.metrics.jobs, never.metrics.results["canceled"]) == (0, 4)


def test_what_a_policy_does_wrong_within_another_of_its_methods_is_told_with_one_line() -> None:
    class Nested(QueuePolicy):
        def schedule(self, queue: Queue) -> None:
            for each in queue:
                queue.start(each)

        def started(self, job: Job, now_s: float) -> None:
            raise ValueError("no")

    with pytest.raises(PolicyError, match=r"^queue policy Nested: ValueError: no \(test_idle_policies\.py, line \d+\)$"):
        Instance(nodes(2), queue_policy=Nested()).submit("slot=1/node")


def test_one_sink_is_not_a_list_of_sinks() -> None:
    class One:
        def add(self, job: object) -> None: ...
        def close(self) -> None: ...

    with pytest.raises(UsageError, match=r"sinks: expected a list of objects with the methods add and close, .*write sinks="):
        simulate([job(1)], of_number(4), sinks=One())

"""External events: failures and repairs, requeuing, checkpoints, advance reservations, cancels and holds, growth."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from fluxres import limits
from fluxres.clock import TICKS_PER_S
from fluxres.documents.source import Source
from fluxres.errors import InputError, InsufficientResources, LimitExceeded, UnknownPool, UsageError
from fluxres.instance import Instance, Queue, QueuePolicy
from fluxres.simulation.disturbances import external
from fluxres.simulation.disturbances.external import AdvanceReservation, Disturbances, ExternalEvent
from fluxres.simulation.disturbances.failures import PoolFailures, parse
from fluxres.simulation.energy.energy import Energy
from fluxres.simulation.energy.node_power import NodePower
from fluxres.simulation.energy.power_cap import PowerCap
from fluxres.simulation.events import EVENT_ORDERS, SimulatedClock
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.simulator import Simulator, simulate
from fluxres.simulation.workload.workload import Submission
from tests.simulation.disturbances.disturbed_run import differences
from tests.simulation.test_simulator import job

S = TICKS_PER_S


@pytest.mark.parametrize("part", range(2))
def test_random_courses_agree_with_an_oracle(part: int, deeper: float) -> None:
    assert [problem for seed in range(1 + part, 1 + round(240 * deeper), 2) for problem in differences(seed)] == []


def _simulator(events: object, machine: Machine | None = None, **settings: object) -> Simulator:
    made = Disturbances(events, **settings)
    return Simulator(machine or Machine(of_shape("node=2")), queue_policy="fcfs", disturbances=made)


def _job(number: int, run: int, size: int = 1, submit: int = 0, **more: object) -> Submission:
    return Submission(number, submit * S, run * S, run * S, size, **more)


def test_losses_are_those_of_a_small_case() -> None:
    events = [ExternalEvent(4 * S, "down", "node0"), ExternalEvent(6 * S, "up", "node0")]
    result = _simulator(events, on_failure="requeue").run([_job(1, 10, 2)])
    assert result.schedule is not None
    assert result.schedule.starts() == {1: 6 * S}
    losses = result.losses
    assert losses is not None
    # two nodes for 16 s: one of them is down for 2 s; 8 node-seconds lost, 20 useful
    assert losses.availability == pytest.approx(30 / 32)
    assert losses.goodput == pytest.approx(20 / 32)
    assert losses.lost_work == pytest.approx(8 / 28)
    assert losses.interruptions == 1
    assert result.metrics.utilisation == pytest.approx(28 / 32)


def test_dependencies_on_a_requeued_job_stay_open() -> None:
    events = [ExternalEvent(4 * S, "down", "node0"), ExternalEvent(5 * S, "up", "node0")]
    jobs = [_job(1, 10), _job(2, 3, dependencies=("afterok:1",))]
    result = _simulator(events, on_failure="requeue").run(jobs)
    assert result.schedule is not None
    assert result.schedule.starts() == {1: 4 * S, 2: 14 * S}  # on the other node


def test_a_machine_that_grows_is_counted_as_it_is() -> None:
    events = [ExternalEvent(0, "remove", "node1"), ExternalEvent(10 * S, "add", "node1")]
    result = _simulator(events).run([_job(1, 20), _job(2, 10, submit=1)])
    assert result.schedule is not None
    assert result.schedule.starts() == {1: 0, 2: 10 * S}
    assert result.metrics.utilisation == pytest.approx(1.0)
    assert result.losses is not None
    assert result.losses.availability == 1.0


@pytest.mark.parametrize("machine", [of_number(4), of_shape("node=4")])
@pytest.mark.parametrize("policy", ["fcfs", "easy", "easy-count", "easy-sjbf", "hybrid", "conservative"])
@pytest.mark.parametrize("order", ["sequential", "batched"])
def test_no_policy_starves_behind_a_reservation(machine: object, policy: str, order: str) -> None:
    events = [ExternalEvent(0, "reserve", AdvanceReservation(4, 50 * S, 50 * S))]
    jobs = [_job(1, 200, 4, 1), _job(2, 60, 2, 1), _job(3, 40, 3, 1)]
    made = Disturbances(events)
    simulator = Simulator(Machine(machine), queue_policy=policy, event_order=order, disturbances=made)
    result = simulator.run(jobs)
    assert result.schedule is not None
    assert result.left == 0
    for _, _, start, end, _ in result.schedule:
        assert end <= 50 * S or start >= 100 * S


@pytest.mark.parametrize("policy", ["fcfs", "easy", "hybrid"])
def test_no_policy_starves_behind_what_others_hold_later(policy: str) -> None:
    graph = of_shape("node=4")
    graph.allocate("slot=4/node", job="maintenance", start=50, end=100)
    result = Simulator(Machine(graph), queue_policy=policy).run([_job(1, 200, 4), _job(2, 60, 2), _job(3, 40, 3)])
    assert result.left == 0


def test_failures_have_their_means_and_belong_to_pools() -> None:
    made = PoolFailures(1000.0, 100.0, shape=0.7, seed=5)
    few, many = of_shape("node=2").structure, of_shape("node=40").structure
    events = list(islice(made.events(many), 20_000))
    assert [event.at for event in events] == sorted(event.at for event in events)
    span = events[-1].at / S
    failures = sum(event.action == "down" for event in events)
    assert failures / 40 == pytest.approx(span / 1100.0, rel=0.05)
    own = [event for event in events if event.target in ("/cluster/node0", "/cluster/node1")]
    assert list(islice(made.events(few), len(own))) == own


def test_a_model_without_end_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IDLE_EVENTS_MAX", 5_000)
    machine = Machine(of_shape("node=2"))
    events = PoolFailures(1.0, 1.0, seed=1).events(machine.graph.structure)
    held = [_job(1, 5, urgency=0)]
    result = _simulator(events, machine).run(held)
    assert result.left == 1
    assert 5_000 <= result.events < 6_000


@pytest.mark.parametrize("fan_outs", [(), (2,)])
def test_a_job_that_never_gets_to_its_end_ends_the_run(fan_outs: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ATTEMPTS_MAX", 50)
    machine = Machine(of_shape("node=2"))
    made = Disturbances(PoolFailures(10.0, 3.0, seed=1).events(machine.graph.structure), "requeue")
    simulator = Simulator(machine, hierarchy=Hierarchy(fan_outs), disturbances=made)
    message = "job 7: 50 attempts were interrupted by .* it runs 86400 s, of which 0 s are saved .*on_failure: fail"
    with pytest.raises(LimitExceeded, match=message):
        simulator.run([_job(7, 86_400)])


def test_a_file_is_read_with_the_place_of_what_is_wrong(tmp_path: Path) -> None:
    def read(text: str) -> list[ExternalEvent]:
        file = tmp_path / "events.yaml"
        file.write_text(text)
        return external.read(Source.named(str(file)))

    lines = ("{at: 1h, up: node3}", "{at: 5, down: node3}", "{at: 0, reserve: 4, start: 1h, duration: 10}", "{at: 9, cancel: 7}")
    found = read("\n".join(f"- {line}" for line in lines))
    assert found == [
        ExternalEvent(0, "reserve", AdvanceReservation(4, 3600 * S, 10 * S)),
        ExternalEvent(5 * S, "down", "node3"),
        ExternalEvent(9 * S, "cancel", 7),
        ExternalEvent(3600 * S, "up", "node3"),
    ]
    for text, message in (
        ("- {at: 1, up: a, down: b}", "expected one of"),
        ("- {at: x, up: a}", "x"),
        ("- {at: 1, up: a, start: 4}", "start is for reserve"),
        ("- {at: 1, reserve: 4, start: 4}", "duration"),
        ("- {up: a}", "at"),
    ):
        with pytest.raises(InputError, match=message):
            read(text)


def test_what_a_machine_does_not_have_is_refused_before_the_run() -> None:
    with pytest.raises(UnknownPool):
        _simulator([ExternalEvent(0, "down", "node9")])
    with pytest.raises(UsageError, match="is made at"):
        _simulator([ExternalEvent(5, "reserve", AdvanceReservation(1, 5, 1))])
    with pytest.raises(UsageError, match="one by one"):
        parse("mtbf=1d,mttr=1h,each=core").require(of_number(100).structure)
    with pytest.raises(UsageError, match="has no 'rack'"):
        parse("mtbf=1d,mttr=1h,each=rack").require(of_shape("node=4").structure)
    for text in ("mtbf=1d", "mtbf=1d,mttr=1h,color=red", "mtbf=x,mttr=1h"):
        with pytest.raises((UsageError, InputError)):
            parse(text)


@pytest.mark.parametrize("inventory", ["graph", "auto", "named"])
def test_a_reservation_of_an_instance_is_audited_and_can_be_given_up(inventory: str) -> None:
    clock = SimulatedClock()
    top = Instance(of_shape("node=4"), queue_policy="easy", clock=clock, inventory=inventory)
    top.measure_in("node")
    booked = top.reserve(pools="node0,node1", start_s=50, duration_s=50, name="maintenance")
    why = "2 are held by" if inventory == "graph" else f"cannot be reserved from 60 s on: {booked.id} may hold"
    with pytest.raises(InsufficientResources, match=why):
        top.reserve("slot=3/node", start_s=60, duration_s=5)
    job = top.submit("slot=4/node", duration_s=60)
    assert (job.reserved_at, booked.state.name, top.check()) == (100.0, "DEPEND", [])
    clock.now = 40 * S
    top.cancel(booked)
    assert (job.started_at, booked.result, top.check()) == (40.0, "canceled", [])


def test_a_requeued_job_keeps_its_id_and_place() -> None:
    clock = SimulatedClock()
    top = Instance(of_shape("node=1"), queue_policy="fcfs", clock=clock)
    first, second = (top.submit("slot=1/node", duration_s=60) for _ in range(2))
    top.requeue(first)
    assert (first.state.name, second.state.name, first.result) == ("RUN", "SCHED", None)
    top.down("node0", requeue=True)
    assert (first.state.name, first.started_at, top.check()) == ("SCHED", None, [])
    top.up("node0")
    top.finish(first)
    assert (first.result, second.state.name, top.check()) == ("completed", "RUN", [])


def test_a_reservation_that_a_power_cap_never_allows_is_noted_and_the_run_goes_on() -> None:
    event = ExternalEvent(0, "reserve", AdvanceReservation(2, 3 * S, 5 * S, "class"))
    energy = Energy(NodePower(100, 200), cap=PowerCap(((0.0, 300.0),)))
    made = Simulator(Machine(of_shape("node=2")), disturbances=Disturbances([event]), energy=energy)
    result = made.run([_job(1, 10, submit=1)])
    assert (len(result.notes), result.metrics.jobs) == (1, 1)


class Counting(QueuePolicy):
    """Starts what it can, and counts its passes by moment."""

    name = "counting"

    def __init__(self) -> None:
        self.passes: Counter[float] = Counter()

    def schedule(self, queue: Queue) -> None:
        self.passes[queue.now_s] += 1
        for each in queue:
            queue.start(each)


@pytest.mark.parametrize("event_order", EVENT_ORDERS)
@pytest.mark.parametrize("on_failure", ["fail", "requeue"])
@pytest.mark.parametrize("inventory", ["auto", "graph"])
def test_one_pass_follows_a_failure_however_many_jobs_it_stops(inventory: str, on_failure: str, event_order: str) -> None:
    policy, failure = Counting(), [ExternalEvent(5 * S, "down", "node0")]
    result = simulate(
        [job(n, 0, 10, 1, 20) for n in range(14)],
        of_shape("node=2/core=8"),
        unit="core",
        queue_policy=policy,
        inventory=inventory,
        event_order=event_order,
        disturbances=Disturbances(failure, on_failure),
    )
    assert policy.passes[5.0] == 1
    assert result.metrics.results == ({"completed": 14} if on_failure == "requeue" else {"completed": 6, "failed": 8})
    assert result.schedule is not None
    # Two of the eight jobs that wait again get the cores that node1 has left, the others those of the six that end at 10 s.
    starts = Counter(start // S for start in result.schedule.start)
    assert starts == ({0: 6, 5: 2, 10: 6} if on_failure == "requeue" else {0: 14})

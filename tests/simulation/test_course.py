"""Invariants of random simulations: policies, inventories, hierarchies, dependencies, costs, nodes that fail."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.instance import Instance, State
from fluxres.instance.policy import Multifactor
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.results.numbering import Translated
from fluxres.simulation.schedule import Schedule
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload.workload import Submission, Workload, dealt
from fluxres.syntax.jobspec import as_request
from tests.instance.machines import ManualClock, nodes
from tests.simulation.course import Disturbed, Incident, course
from tests.simulation.invariants import violations

S = TICKS_PER_S


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 40))
def test_every_invariant_holds(seed: int) -> None:
    assert course(Random(seed)).problems() == []


def test_the_checker_finds_violations() -> None:
    jobs = [
        Submission(1, 0, 5 * S, FOREVER, 2, status=1),
        Submission(2, 0, 5 * S, FOREVER, 2, dependencies=("afterok:1",)),
        Submission(3, 0, 5 * S, FOREVER, 2, "ann", "x"),
        Submission(4, 0, 5 * S, FOREVER, 1, "ann", "x", dependencies=("singleton", "begin-time:9")),
    ]
    schedule = simulate([job._replace(dependencies=()) for job in jobs], of_shape("node=8"), queue_policy="fcfs").schedule
    assert schedule is not None
    problems = violations(schedule, 5, jobs)
    assert [text for text in problems if "units are held" in text]
    assert [text for text in problems if "holds unit" in text]
    assert "job 2 starts before afterok:1" in problems
    assert "job 2 starts in spite of afterok:1" in problems
    assert "job 4 starts before another x has ended" in problems
    assert "job 4 starts before begin-time:9" in problems


# -- findings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_a_job_that_may_start_because_another_started_starts_in_the_same_pass(policy: str) -> None:
    instance = Instance(nodes(2), queue_policy=policy, passes="manual")
    first = instance.submit("slot=1/node")
    then = instance.submit("slot=1/node", dependencies=[f"after:{first.id}"])
    assert instance.schedule() == 2
    assert (first.state, then.state) == (State.RUN, State.RUN)


def test_a_pass_is_limited_to_a_number_of_starts() -> None:
    instance = Instance(nodes(3), queue_policy="easy", passes="manual")
    first = instance.submit("slot=1/node")
    jobs = [instance.submit("slot=1/node", dependencies=[f"after:{first.id}"]) for _ in range(2)]
    assert [instance.schedule(1) for _ in range(4)] == [1, 1, 1, 0]
    assert [job.state for job in jobs] == [State.RUN, State.RUN]


def test_singletons_of_one_name_go_to_one_instance() -> None:
    jobs = [
        Submission(0, 0, S, S, 1, "ann", "x"),
        Submission(1, 0, S, S, 1),
        Submission(2, 0, S, S, 1, "ann", "x"),
        Submission(3, 0, S, S, 1, "ann", "x", dependencies=("singleton",)),
    ]
    assert dealt(jobs, 2) == [[0, 2, 3], [1]]


def test_units_of_a_pool_that_children_share_have_no_numbers() -> None:
    machine, named = of_number(4), Schedule()
    jobs = [Submission(job, 0, S, S, 1) for job in range(6)]
    sinks = [Translated(named, machine.structure, "core")]
    simulate(jobs, machine, hierarchy=Hierarchy((3,), ("fcfs",)), sinks=sinks)
    assert named.allocated == [""] * 6


@pytest.mark.parametrize("inventory", ["auto", "graph"])
def test_a_reservation_without_an_end_keeps_its_pools(inventory: str) -> None:
    # The last job gets 2 to 5 from 3 s on while 0 and 1 are reserved for others, one of which then starts earlier elsewhere.
    jobs = [
        Submission(1, 0, 3 * S, 3 * S, 4),
        Submission(2, 1 * S, 1 * S, 2 * S, 2),
        Submission(3, 1 * S, 1 * S, 1 * S, 1),
        Submission(4, 2 * S, 2 * S, 2 * S, 1),
        Submission(5, 2 * S, 2 * S, FOREVER, 4, urgency=31),
    ]
    schedule = simulate(jobs, of_shape("node=6"), queue_policy="conservative", inventory=inventory).schedule
    assert schedule is not None
    assert dict(zip(schedule.ids, schedule.allocated, strict=True)) == {1: "0-3", 2: "4-5", 3: "4", 4: "0", 5: "2-5"}


def test_priority_by_size_is_equal_on_every_inventory() -> None:
    found = []
    for inventory in ("graph", "named"):
        instance = Instance(nodes(4), queue_policy=Multifactor(size=1e6), clock=ManualClock(), inventory=inventory)
        instance.submit("slot=4/node", duration_s=10)
        found.append([instance.submit(f"slot={n}/node", duration_s=10).priority for n in (1, 2, 4)])
    assert found[0] == found[1] == sorted(set(found[0]))


def test_the_size_of_a_job_outlives_a_change_of_inventory() -> None:
    machine = Machine(of_shape("node=2/[core=4;gpu=1]"), "core")
    asks = [as_request(text) for text in ("slot=1/gpu", "slot=1/node/[core=2;gpu=1]")]
    jobs = [Submission(at, 0, 5 * S, FOREVER, ask) for at, ask in enumerate(asks)]
    for inventory in ("auto", "graph"):
        schedule = simulate(Workload("x", jobs, has_requests=True), machine, inventory=inventory).schedule
        assert schedule is not None
        assert sorted(zip(schedule.ids, schedule.size, strict=True)) == [(0, 0), (1, 4)]  # a node in a slot is exclusive


def test_jobs_of_an_instance_that_never_started_are_counted() -> None:
    jobs = [Submission(job, job * S, S, S, 1) for job in range(6)]
    lost = [(137_000, Incident("down", "/cluster/node1")), (90 * S, Incident("up", "/cluster/node1"))]
    simulator = Disturbed(of_shape("node=2"), hierarchy=Hierarchy((2, 1), ("fcfs",), boot_s=1.0), incidents=lost)
    result = simulator.run(jobs)
    assert (result.metrics.jobs, result.left) == (3, 3)
    assert not simulator.instance.children

"""Jobs of inner instances, instances made for jobs, unequal children, and jobs that move between siblings."""

from __future__ import annotations

from typing import Any

import pytest

import fluxres
from fluxres import InputError
from fluxres.clock import FOREVER
from fluxres.documents.source import Source
from fluxres.errors import InfeasibleRequest, UsageError
from fluxres.formats.peers.jqm import jobs as jqm
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.events import EVENT_ORDERS
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.nesting import balance
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.result import Result
from fluxres.simulation.results.numbering import Translated
from fluxres.simulation.schedule import Finished
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload import jobspecs
from fluxres.simulation.workload.workload import Submission, Workload
from fluxres.syntax.jobspec import as_request
from tests.simulation.invariants import violations
from tests.simulation.nesting import elastic_run
from tests.simulation.nesting.nested_run import INVENTORIES, differences, machine_of
from tests.simulation.test_simulator import job

S = 1_000_000


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_nested_simulations_equal_the_oracle_and_hold_nothing_twice(inventory: str, deeper: float) -> None:
    assert [problem for seed in range(40, 40 + round(8 * deeper)) for problem in differences(seed, inventory)] == []


def test_a_job_whose_instance_ends_before_its_decision_is_complete_has_not_run() -> None:
    assert differences(300647, "graph") == []


@pytest.mark.parametrize("seed", [2, 29, 111, 159, 163, 300166, 500971, 501704, 501743])
def test_elastic_instances_choose_the_same_units_on_all_inventories(seed: int) -> None:
    """`python -m tests.simulation.nesting.elastic_run` makes thousands of them."""
    assert elastic_run.difference(seed) == ""


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_schedule_of_elastic_instances_names_what_each_job_held(inventory: str) -> None:
    levels = Hierarchy((2,), ("fcfs",), larger="up", elastic="demand")
    result = simulate([job(n, n, 9, 2, 9) for n in range(3)], machine_of(inventory, 4), hierarchy=levels, inventory=inventory)
    assert result.schedule is not None
    assert [bool(text) for text in result.schedule.allocated] == [inventory != "counted"] * 3


def starts(result: Result) -> dict[int | str, tuple[float, int]]:
    """By job, its start in seconds, and the number of the instance that ran it."""
    schedule = result.schedule
    assert schedule is not None
    columns = zip(schedule.ids, schedule.start, schedule.instance, strict=True)
    return {name: (start / S, number) for name, start, number in columns}


def test_a_job_larger_than_its_instance_goes_to_the_lowest_one_that_can_hold_it() -> None:
    work = [job(0, 0, 10, 1, 10), job(1, 0, 10, 3, 10), job(2, 0, 10, 5, 10)]
    levels = Hierarchy((2,), ("fcfs",), sizes=((2, 4),))
    result = simulate(work, 8, hierarchy=levels)
    assert (result.refusals.ids, result.metrics.jobs) == ([2], 2)  # job 1 is dealt to the child of 4
    up = Hierarchy((2,), ("fcfs",), sizes=((4, 2),), larger="up")
    # Job 1 goes to the sibling of 4, and job 2 to the outermost instance, where 2 units are nobody's until the children end.
    assert starts(simulate(work, 8, hierarchy=up)) == {0: (0.0, 1), 1: (0.0, 1), 2: (10.0, 0)}


def test_jobs_with_a_level_run_there() -> None:
    work = [job(n, 0, 10, 1, 10)._replace(level=0 if n % 2 else None) for n in range(4)]
    levels = Hierarchy((2,), ("fcfs",), sizes=((1, 1),))
    found = starts(simulate(Workload("x", work, has_levels=True), 3, hierarchy=levels))
    assert found == {0: (0.0, 1), 1: (0.0, 0), 2: (0.0, 2), 3: (10.0, 0)}


def test_an_instance_is_made_for_a_stage_of_a_workflow_and_ends_with_it() -> None:
    text = """
    - {id: prepare, request: slot=2/core, jobs: [{id: p, request: slot=1/core, run: 3, count: 4}]}
    - {id: solve, request: slot=4/core, dependencies: ['afterok:prepare'], jobs: [
        {id: s, request: slot=1/core, run: 5, count: 4}, {id: t, request: slot=4/core, run: 1, submit: 2}]}
    """
    result = simulate(jobspecs.read(Source(text.encode(), "jobs.yaml")), of_shape("core=4"), queue_policy="fcfs")
    assert starts(result) == {
        **{f"p.{n}": (3.0 * (n // 2), 1) for n in range(4)},
        **{f"s.{n}": (6.0, 2) for n in range(4)},
        "t": (11.0, 2),
    }
    rows = [(row.level, row.size, row.jobs, row.begin_s, row.end_s, row.wait_s) for row in result.instances]
    assert rows == [(0, 4, 0, 0.0, 12.0, 0.0), (1, 2, 4, 0.0, 6.0, 0.0), (1, 4, 5, 6.0, 12.0, 6.0)]


def test_jobs_in_jobs_are_of_the_same_user_and_account_unless_they_name_others() -> None:
    text = """
    - {id: a, request: -n2, user: ann, account: chem, jobs: [
        {id: b, request: -n1, run: 1}, {id: c, request: -n1, user: bob, jobs: [{id: d, request: -n1, run: 1}]}]}
    """
    (outer,) = jobspecs.read(Source(text.encode(), "jobs.yaml"))
    b, c = outer.jobs
    assert [(job.user, job.account) for job in (b, c, *c.jobs)] == [("ann", "chem"), ("bob", "chem"), ("bob", "chem")]


def test_an_instance_of_a_job_ends_at_its_limit_with_its_jobs() -> None:
    inner = tuple(job(f"i{n}", n, 10, 1, 10) for n in range(4))
    work = [job("outer", 0, 1, 2)._replace(limit=2 * S, jobs=inner), job("next", 0, 1, 4, 1)]
    result = simulate(work, 4, queue_policy="fcfs")
    schedule = result.schedule
    assert schedule is not None
    assert dict(zip(schedule.ids, schedule.end, strict=True)) == {"i0": 2 * S, "i1": 2 * S, "next": 3 * S, "i2": 2 * S}
    assert (result.left, result.instances[0].end_s) == (1, 3.0)  # i3 is never submitted


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{id: a, request: slot=1/core, run: 1, jobs: [{id: b, request: slot=1/core, run: 1}]}", "cannot be combined"),
        ("{id: a, request: slot=1/core, jobs: [{id: a, request: slot=1/core, run: 1}]}", "occurs twice"),
        ("{id: a, request: slot=1/core, jobs: []}", "a list of jobs"),
        ("{id: a, request: slot=1/core, run: 1, level: -1}", "level"),
    ],
)
def test_wrong_instances_of_jobs_are_refused(entry: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        jobspecs.read(Source(f"[{entry}]".encode(), "jobs.yaml"))


def test_an_idle_instance_steals_the_latest_job_that_fits_and_lives_while_there_may_be_more() -> None:
    work = [job(0, 0, 100, 2), job(1, 0, 1, 1), job(2, 0.5, 10, 2), job(3, 50, 1, 1)]
    levels = Hierarchy((2,), ("fcfs",), balance="steal")
    assert starts(simulate(work, 4, hierarchy=levels)) == {0: (0.0, 1), 1: (0.0, 2), 2: (1.0, 2), 3: (50.0, 2)}
    assert starts(simulate(work, 4, hierarchy=Hierarchy((2,), ("fcfs",))))[2] == (100.0, 1)


@pytest.mark.parametrize("settings", [{"cost": "fixed:0.25"}, {"event_order": "batched"}])
@pytest.mark.parametrize("way", [{"balance": "steal"}, {"balance": "redeal:5"}, {"elastic": "demand"}, {"elastic": "share:5"}])
def test_all_jobs_run_if_decisions_take_time_or_events_are_batched(settings: dict[str, Any], way: dict[str, str]) -> None:
    work = [job(n, n / 4, 1 + n % 7, 1 + n % 3) for n in range(40)]
    result = simulate(work, 9, hierarchy=Hierarchy((2,), ("easy",), sizes=((3, 5),), larger="up", **way), **settings)
    assert (result.metrics.results, result.left) == ({"completed": 40}, 0)
    assert result.schedule is not None
    assert violations(result.schedule, 9, work) == []


def test_waiting_jobs_are_dealt_anew_by_load() -> None:
    work = [job(n, 0, 100 if n % 2 else 10, 2) for n in range(7)]
    found = starts(simulate(work, 4, hierarchy=Hierarchy((2,), ("fcfs",), balance="redeal:15")))
    # At 15 s jobs 4 and 6 wait in the first child, 3 and 5 in the second: dealt in turns, 6 and 3 change places.
    # At 30 s job 5 goes to the first child, in which none waits.
    assert found == {0: (0.0, 1), 1: (0.0, 2), 2: (10.0, 1), 3: (30.0, 1), 4: (20.0, 1), 5: (130.0, 1), 6: (100.0, 2)}


@pytest.mark.parametrize("seed", [4138, 5817])
def test_a_job_that_is_dealt_anew_does_not_start_before_because_another_one_has_gone(seed: int) -> None:
    # In these cases an older job waits behind a newer one, with which it was dealt before.
    assert differences(seed, "counted") == []


@pytest.mark.parametrize("inventory", ["auto", "counted", "graph"])
def test_an_instance_that_shrank_to_one_unit_of_a_pool_grows_again(inventory: str) -> None:
    work = [job(0, 16, 12, 1, 12), job(1, 18, 2, 1, 2)]
    levels = Hierarchy((1,), ("fcfs",), larger="up", elastic="demand")
    assert starts(simulate(work, 3, hierarchy=levels, inventory=inventory)) == {0: (16.0, 1), 1: (18.0, 1)}


class Numbers:
    """A sink of the units of each job."""

    def __init__(self) -> None:
        self.found: dict[int | str, str] = {}

    def add(self, job: Finished) -> None:
        self.found[job.id] = " ".join(each.allocated() for each in (*job.earlier, job))

    def close(self) -> None:
        """No-op: nothing is buffered."""


@pytest.mark.parametrize("inventory", ["auto", "graph"])
def test_jobs_of_an_instance_that_grew_have_their_unit_numbers(inventory: str) -> None:
    work = [job(0, 0, 10, 1, 10), job(1, 1, 20, 1, 20), job(2, 2, 10, 2, 10)]
    machine, sink = Machine(of_shape("node=4")), Numbers()
    whole = Translated(sink, machine.graph.structure, machine.unit)
    levels = Hierarchy((2,), ("fcfs",), larger="up", elastic="demand")
    simulate(work, machine, hierarchy=levels, inventory=inventory, sinks=[whole])
    assert sink.found == {0: "0", 1: "2", 2: "1,3"}


@pytest.mark.parametrize("inventory", ["auto", "graph"])
def test_interrupted_attempts_have_the_unit_numbers_of_their_time(inventory: str) -> None:
    work = [job(0, 1, 4, 1, 4), job(1, 2, 20, 1, 20), job(2, 8, 2, 2, 2)]
    failure = [ExternalEvent(6 * S, "down", "node1"), ExternalEvent(9 * S, "up", "node1")]
    machine, sink = Machine(of_shape("node=3")), Numbers()
    whole = Translated(sink, machine.graph.structure, machine.unit)
    settings = {"inventory": inventory, "disturbances": Disturbances(failure, "requeue"), "sinks": [whole]}
    simulate(work, machine, hierarchy=Hierarchy((1,), ("fcfs",), larger="up", elastic="demand"), **settings)
    assert sink.found[1].split()[0] == "1"


def test_jobs_that_others_depend_on_stay() -> None:
    work = [job(0, 0, 100, 2), job(1, 0, 1, 1), job(2, 0, 10, 2), job(3, 0, 1, 1, dependencies=("afterok:1",))]
    workload = Workload("x", work, has_dependencies=True)
    assert starts(simulate(workload, 4, hierarchy=Hierarchy((2,), ("fcfs",), balance="steal")))[2] == (100.0, 1)


def test_an_instance_grows_by_what_its_sibling_returns() -> None:
    work = [job(0, 0, 10, 1), *(job(n, 1, 10, 2) for n in (1, 2, 3, 4))]
    fixed = starts(simulate(work, 4, hierarchy=Hierarchy((2,), ("fcfs",), larger="up")))
    assert fixed == {0: (0.0, 1), 1: (1.0, 2), 2: (10.0, 1), 3: (11.0, 2), 4: (20.0, 1)}
    result = simulate(work, 4, hierarchy=Hierarchy((2,), ("fcfs",), larger="up", elastic="demand"))
    # At 1 s each has 1 unit, and 2 are free: job 2 takes them for the first instance.  Nothing is left for jobs 1 and 3, which
    # are too large for the second one and go to the first.  At 10 s it gets the unit of the second one, which has ended.
    assert starts(result) == {0: (0.0, 1), 2: (1.0, 1), 1: (10.0, 1), 4: (11.0, 1), 3: (20.0, 1)}


def test_shares_follow_the_work() -> None:
    work = [job(n, 0, 100, 1) for n in range(16)]
    workload = [one._replace(run=1_000_000) if one.id % 2 else one for one in work]
    levels = Hierarchy((2,), ("fcfs",), larger="up", elastic="share:10")
    result = simulate(workload, 8, hierarchy=levels)
    # The jobs of the second instance are over at 2 s, and it ends; the first one has all units from 10 s on.
    found = starts(result)
    assert [found[name] for name in (8, 10, 12, 14)] == [(10.0, 1)] * 4
    assert [row.size for row in result.instances] == [8, 8, 4]


def test_elastic_instances_need_a_way_for_large_jobs() -> None:
    with pytest.raises(UsageError, match="may be too small for a job"):
        Hierarchy((2,), elastic="demand")
    for text in ("share", "share:0", "demands"):
        with pytest.raises(UsageError, match="elastic"):
            Hierarchy((2,), larger="up", elastic=text)


@pytest.mark.parametrize("text", ["steel", "redeal", "redeal:0", "redeal:x", "steal:2"])
def test_unknown_balances_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        balance.parse(text)


def test_wrong_hierarchies_are_refused() -> None:
    with pytest.raises(UsageError, match="larger: expected refuse or up"):
        Hierarchy((2,), larger="down")
    with pytest.raises(UsageError, match="expected the sizes of 2 children"):
        Hierarchy((2,), sizes=((1, 2, 3),))
    with pytest.raises(InfeasibleRequest, match=r"children of 3\+2 requested, but there are 4 of type core"):
        simulate([], of_number(4), hierarchy=Hierarchy((2,), sizes=((3, 2),)))


@pytest.mark.parametrize("event_order", EVENT_ORDERS)
def test_an_instance_keeps_what_a_job_at_its_limit_holds_until_it_ends(event_order: str) -> None:
    jobs = Workload("x", [Submission(0, 0, 5 * S, 9 * S, 1), Submission(1, 0, 9 * S, 5 * S, 1)])
    hierarchy = Hierarchy((1,), ("fcfs",), larger="up", elastic="demand")
    result = simulate(jobs, of_shape("node=2"), hierarchy=hierarchy, event_order=event_order)
    assert (result.metrics.results, result.left) == ({"completed": 1, "timeout": 1}, 0)


def test_every_job_is_completed_refused_or_left_whatever_becomes_of_its_instance() -> None:
    inner = tuple(Submission(n, 0, 5 * S, FOREVER, 1) for n in (1, 2))
    held = Submission("w", 0, 0, FOREVER, 2, urgency=0, jobs=inner)
    assert simulate([held], of_shape("node=4")).left == 2
    one_held = held._replace(urgency=16, jobs=(inner[0]._replace(urgency=0), inner[1]))
    result = simulate([one_held], of_shape("node=4"))
    assert (result.metrics.results, result.left) == ({"completed": 1}, 1)
    refused = simulate([held._replace(urgency=16, ask=9)], of_shape("node=4"))
    assert (len(refused.refusals), refused.left) == (2, 0)


def test_an_instance_of_a_job_that_holds_nothing_is_a_mistake() -> None:
    inner, nothing = Submission(1, 0, S, FOREVER, 1), jqm.request(parameters={"com.enioka.jqm.rm.thread.consumption": 0})
    machine = fluxres.load(b"managers: [{type: quantity, key: thread, quantity: 4}]")
    with pytest.raises(InputError, match=r"^job w: holds nothing that jobs of its own could get \(.*node\{x\}\)$"):
        simulate([Submission("w", 0, 0, FOREVER, nothing, jobs=(inner,))], machine)


def test_a_job_that_asks_for_shared_pools_alone_is_refused() -> None:
    found = simulate([Submission("w", 0, S, FOREVER, as_request("node"))], of_shape("node=4"))
    assert found.refusals.reasons == {"the request only asks for shared pools, for which nothing is recorded": 1}


def test_a_dependency_on_a_job_of_another_level_says_so() -> None:
    jobs = [Submission("a", 0, S, FOREVER, 1), Submission("b", 0, S, FOREVER, 1, level=0, dependencies=("afterok:a",))]
    with pytest.raises(InputError, match="jobs that depend on each other need the same level"):
        simulate(jobs, of_shape("node=4"), hierarchy=Hierarchy((2,)))

"""What nodes draw, when they are switched off and on, and what they and their jobs consume."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import fluxres
from fluxres import limits
from fluxres.cli.program import program
from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.errors import InfeasibleRequest, InputError, UsageError
from fluxres.formats.peers.jqm import jobs as jqm
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.uuids import new_origin
from fluxres.instance.accounting import Accounting, PartitionLimits, User
from fluxres.model import ResourceGraph
from fluxres.simulation.costs.cost import Fitted
from fluxres.simulation.costs.overheads import LevelCost, Overheads
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.energy import node_power, power_cap, power_saving
from fluxres.simulation.energy.energy import CATEGORIES, Energy
from fluxres.simulation.energy.node_power import MICROWATTS, NodePower, of_properties
from fluxres.simulation.energy.power_cap import PowerCap
from fluxres.simulation.energy.power_saving import MinuteLimit, PowerSaving
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.result import Result
from fluxres.simulation.results.results import SCHEDULE_COLUMNS, BatsimCsv, schedule_row
from fluxres.simulation.simulator import Simulator, simulate
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax.jobspec import as_request
from tests.simulation.energy import resized_run
from tests.simulation.energy.powered_run import differences

S = TICKS_PER_S
NODE = NodePower(100, 200, off_w=5, resume_w=150, suspend_w=80)


def _job(number: int, submit: int, run: int, size: object = 1, limit: int | None = None) -> Submission:
    return Submission(number, submit * S, run * S, (run if limit is None else limit) * S, size)


def _energies(result: Result) -> dict[str, float]:
    assert result.energy is not None
    return {name: result.energy.joules(name) for name in CATEGORIES if result.energy.joules(name)}


@pytest.mark.parametrize("part", range(2))
def test_random_courses_agree_with_an_oracle(part: int, deeper: float) -> None:
    assert [problem for seed in range(1 + part, 1 + round(240 * deeper), 2) for problem in differences(seed)] == []


# -- what a node draws -------------------------------------------------------------------------------------------------


def test_the_draw_is_that_of_the_example_of_simgrid() -> None:
    # https://simgrid.org/doc/latest/Plugins.html: "100.0:120.0:200.0" on four cores
    node = of_properties({"wattage_per_state": "100.0:120.0:200.0", "wattage_off": "10"}, 4, "HostA")
    assert node is not None
    assert (node.microwatts(np.arange(5), np.full(5, 4)) // MICROWATTS).tolist() == [120, 140, 160, 180, 200]
    assert (node.fixed()[0] // MICROWATTS, node.fixed()[3] // MICROWATTS) == (100, 10)


def test_the_older_property_has_the_draw_of_one_core() -> None:
    node = of_properties({"watt_per_state": "100.0:120.0:200.0, 93.0:115.0:170.0"}, 4, "HostA")
    assert node is not None
    watts = node.microwatts(np.arange(1, 5), np.full(4, 4)) / MICROWATTS
    assert watts.round().tolist() == [120, 147, 173, 200]  # the table of SimGrid 3.16
    assert of_properties({"watt_per_state": "100:200:200"}, 1, "HostB") == NodePower(100, 200, 200)
    assert of_properties({"ssd": None}, 4, "HostC") is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("100", "expected Idle:AllCores or Idle:Epsilon:AllCores, got '100'"),
        ("a:b", "expected watts, got 'a'"),
        ("100:90", "full_w: expected at least idle_w, 100 W, got 90"),
        ("-1:90", "idle_w: expected 0 to 1000000, got -1.0"),
        ("nan:90", "idle_w: expected 0 to 1000000, got nan"),
    ],
)
def test_properties_that_are_no_powers(value: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        of_properties({"wattage_per_state": value}, 2, "node0")
    assert raised.value.message == message
    assert str(raised.value.where).startswith("node0")


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (node_power.parse, "idle=100", "expected full as well, got 'idle=100'"),
        (node_power.parse, "idle=100,full=x", "expected a number, got 'x'"),
        (node_power.parse, "idle=100,fool=1", "no parameter 'fool'"),
        (power_saving.parse, "resume=1m", "expected suspend_time as well, got 'resume=1m'"),
        (power_saving.parse, "suspend_time=1m,x=1", "no parameter 'x'"),
        (power_saving.parse, "suspend_time=1m,keep=1.5", "expected a whole number, got '1.5'"),
        (power_saving.parse, "suspend_time=", "expected a duration, got ''"),
        (node_power.parse, "idle=100,full=50", "full_w: expected at least idle_w, 100 W, got 50"),
        (node_power.parse, "idle=9,epsilon=100,full=50", "full_w: expected at least epsilon_w, 100 W, got 50"),
        (power_saving.parse, "suspend_time=1m,keep=-1", "keep_idle: expected 0 to 1e9, got -1"),
    ],
)
def test_words_of_a_command_line_that_are_wrong(read: object, text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(text)
    assert raised.value.message == message


def test_bounds_of_powers() -> None:
    assert NodePower(0, limits.NODE_WATTS_MAX).full_w == limits.NODE_WATTS_MAX
    with pytest.raises(UsageError, match="expected 0 to 1000000, got 1000001"):
        NodePower(0, limits.NODE_WATTS_MAX + 1)
    assert power_cap.parse(f"{limits.POWER_CAP_WATTS_MAX}W").steps == ((0.0, limits.POWER_CAP_WATTS_MAX),)
    with pytest.raises(UsageError, match="expected 0 to 1000000000000 W"):
        power_cap.parse("1001GW")
    with pytest.raises(UsageError, match="10000000 nodes draw more than can be added up"):
        simulate([_job(1, 0, 10)], Machine(of_number(10_000_000)), energy=Energy(NodePower(0, limits.NODE_WATTS_MAX)))


def test_properties_of_nodes_are_used_without_any_option() -> None:
    watts = {"wattage_off": 10, "wattage_per_state": "100:120:200"}
    root = Recipe("cluster", children=(Recipe("node", 2, children=(Recipe("core", 4),), properties=watts),))
    machine = Machine(ResourceGraph(expand(root, origin=new_origin())), "core")
    result = simulate([_job(1, 0, 10, 3)], machine)
    assert _energies(result) == {"computing": 1800.0, "idle": 1000.0}


def test_a_node_whose_draw_is_not_known_is_named() -> None:
    with pytest.raises(UsageError, match="what /cluster/node0 draws is not known"):
        simulate([_job(1, 0, 10)], "node=2", energy=Energy())


# -- what jobs and nodes consume ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["node=4", "4", "node=4/core=2"])
@pytest.mark.parametrize("inventory", ["auto", "graph"])
def test_a_case_by_hand(machine: str, inventory: str) -> None:
    # Two jobs after a pause in which the nodes are switched off: the second waits 20 s for three nodes, the third for its end.
    jobs = [_job(1, 0, 10, 2), _job(2, 100, 10, 3), _job(3, 101, 10, 2)]
    result = simulate(jobs, machine, inventory=inventory, energy=Energy(NODE, PowerSaving(30, 5, 20)))
    assert result.schedule is not None
    assert result.energy is not None
    assert {job: start / S for job, start in result.schedule.starts().items()} == {1: 0, 2: 120, 3: 130}
    assert _energies(result) == {
        "computing": 200.0 * (20 + 30 + 20),
        # Two nodes from 0 to 30, two from 10 to 40, two (of the three of the second job) from 130 to 140.
        "idle": 100.0 * (60 + 60 + 10),
        "sleeping": 5.0 * (2 * 65 + 2 * 55 + 40),
        "switching_on": 150.0 * 60,
        "switching_off": 80.0 * 20,
    }
    figures = result.energy.figures(3, result.metrics.mean_turnaround_s)
    assert (figures["boots"], figures["peak_power_w"], figures["energy_j"]) == (3, 605.0, 39_000.0)
    assert figures["energy_delay_js"] == pytest.approx(13_000 * (10 + 30 + 39) / 3)


def test_the_energy_of_a_job_is_what_its_nodes_drew_while_it_ran() -> None:
    file = io.StringIO()
    simulate([_job(1, 0, 10, 2), _job(2, 0, 1, 3), _job(3, 0, 5, 4)], "node=4", energy=Energy(NODE), sinks=[BatsimCsv(file)])
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert {row["job_id"]: row["consumed_energy"] for row in rows} == {"1": "4000.000000", "2": "600.000000", "3": "4000.000000"}


def test_jobs_that_share_a_node_count_all_that_it_draws() -> None:
    # Four cores: one job of one core for 10 s, one of two cores from 4 s to 8 s.
    jobs = [_job(1, 0, 10, as_request("slot=1/core=1")), _job(2, 4, 4, as_request("slot=1/core=2"))]
    found: list[object] = []

    class Sink:
        def add(self, job: object) -> None:
            found.append(job)

        def close(self) -> None:
            """Nothing to do."""

    simulate(jobs, "node=1/core=4", energy=Energy(NodePower(100, 200, 120)), sinks=[Sink()])
    assert {job.id: job.joules for job in found} == {1: 6 * 140.0 + 4 * 180.0, 2: 4 * 180.0}


def test_a_job_without_cores_draws_epsilon() -> None:
    root = Recipe("cluster", children=(Recipe("node", 1, children=(Recipe("core", 4), Recipe("gpu", 1))),))
    result = simulate(
        [_job(1, 0, 10, as_request("slot=1/gpu=1"))],
        Machine(ResourceGraph(expand(root, origin=new_origin()))),
        energy=Energy(NodePower(100, 200, 120)),
    )
    assert _energies(result) == {"computing": 1200.0}


def test_a_job_that_holds_nothing_consumes_nothing() -> None:
    machine = fluxres.load(b"managers: [{type: quantity, key: thread, quantity: 4}]")
    asks = jqm.request(parameters={"com.enioka.jqm.rm.thread.consumption": 0})
    result = simulate([_job(1, 0, 10, asks)], machine, energy=Energy(NodePower(100, 200)))
    assert (_energies(result), result.metrics.results) == ({"idle": 1000.0}, {"completed": 1})


def test_energy_has_no_drift() -> None:
    jobs = [Submission(n, n * 333_333, 333_333, 333_333, 1) for n in range(3000)]
    result = simulate(jobs, "node=1", energy=Energy(NodePower(0.1, 0.3)))
    assert result.energy is not None
    assert sum(result.energy.energies) == 3000 * 333_333 * 300_000


def test_time_counts_from_the_first_submission() -> None:
    at = 500_000_000
    result = simulate([_job(1, at, 10), _job(2, at + 20, 10)], "node=1", energy=Energy(NODE))
    assert _energies(result) == {"computing": 4000.0, "idle": 1000.0}


# -- switching ---------------------------------------------------------------------------------------------------------


def test_a_limit_counts_from_the_moment_at_which_all_nodes_are_on() -> None:
    jobs = [_job(1, 0, 1), _job(2, 50, 10, 2, limit=8), _job(3, 50, 10, 2, limit=10)]
    result = simulate(jobs, "node=2", queue_policy="fcfs", energy=Energy(NODE, PowerSaving(5, 0, 20)))
    assert result.schedule is not None
    ends = dict(zip(result.schedule.ids, result.schedule.end, strict=True))
    assert (ends[2] / S, ends[3] / S) == (78, 88)
    assert result.metrics.results == {"completed": 2, "timeout": 1}
    limits = dict(zip(result.schedule.ids, result.schedule.limit, strict=True))
    assert limits == {1: 1 * S, 2: 8 * S, 3: 10 * S}


def test_idle_nodes_are_kept_and_the_rest_is_switched_off_at_a_rate() -> None:
    saving = PowerSaving(10, keep_idle=1, suspend_rate=1)
    result = simulate([_job(1, 0, 1), _job(2, 200, 1, 4)], "node=4", energy=Energy(NODE, saving))
    assert result.energy is not None
    # One at 10 s, one at 70 s, one at 130 s, and one stays on.
    assert result.energy.time_s("sleeping") == 190 + 130 + 70
    assert (result.energy.boots, result.energy.shutdowns, result.energy.grouped) == (3, 3, 4)


def test_nodes_are_switched_on_at_a_rate() -> None:
    saving = PowerSaving(0, resume_s=5, resume_rate=2)
    jobs = [_job(1, 0, 1), _job(2, 100, 10, 3), _job(3, 100, 10)]
    result = simulate(jobs, "node=4", energy=Energy(NODE, saving), queue_policy="fcfs")
    assert result.schedule is not None
    # Of six in all, two may be switched on in any minute: two at once, the third with the fourth a minute later.
    assert {job: start / S for job, start in result.schedule.starts().items()} == {1: 0, 2: 165, 3: 165}


def test_a_job_canceled_while_its_nodes_are_switched_on_has_not_run() -> None:
    events = [ExternalEvent(55 * S, "cancel", 2)]
    simulator = Simulator(
        Machine(of_shape("node=1")),
        disturbances=Disturbances(events),
        energy=Energy(NODE, PowerSaving(5, 0, 20)),
    )
    result = simulator.run([_job(1, 0, 1), _job(2, 50, 10), _job(3, 100, 1)])
    assert simulator.schedule is not None
    rows = {job: (start, end / S) for job, _, start, end, _ in simulator.schedule}
    assert rows == {1: (0, 1), 2: (-1, 55), 3: (120 * S, 121)}  # the node was on at 70 s, and off again at 75 s
    assert (result.metrics.jobs, result.metrics.results) == (2, {"completed": 2, "canceled": 1})
    assert result.energy is not None
    assert result.energy.boots == 2


def test_nodes_are_held_while_an_instance_works_for_their_job_and_launches_wait_for_them() -> None:
    work = LevelCost(Fitted(start_s=1.0), Overheads(start_s=2, event_s=4, launch_s=3))
    jobs = [_job(1, 0, 10), _job(2, 60, 10)]
    result = simulate(jobs, "node=1", cost=work, energy=Energy(NODE, PowerSaving(5, 0, 20)), queue_policy="fcfs")
    # 1 s of decision, 2 s of start, 3 s of launch; the node is free 4 s after the end, at 20 s, and off at 25 s. The decision on
    # the second job ends at 61 s; the node is on at 81 s, when the start has long been complete, and the launch at 84 s.
    assert result.schedule is not None
    assert {job: start / S for job, start in result.schedule.starts().items()} == {1: 6, 2: 84}
    idle = 6 + (20 - 16) + (25 - 20) + (84 - 81)
    assert _energies(result) == {"computing": 20 * 200, "idle": idle * 100, "sleeping": 36 * 5, "switching_on": 20 * 150}


def test_nodes_that_are_switched_wait_for_a_decision_that_takes_time() -> None:
    result = simulate(
        [_job(1, 0, 1), _job(2, 50, 10)], "node=1", cost=Fitted(start_s=2.0), energy=Energy(NODE, PowerSaving(5, 0, 20))
    )
    assert result.schedule is not None
    assert {job: start / S for job, start in result.schedule.starts().items()} == {1: 2, 2: 72}


def test_nodes_that_are_down_or_removed() -> None:
    events = [ExternalEvent(at * S, action, "node1") for at, action in ((10, "down"), (30, "up"), (40, "remove"), (60, "add"))]
    result = simulate([_job(1, 0, 100)], "node=2", energy=Energy(NODE), disturbances=Disturbances(events), queue_policy="fcfs")
    assert _energies(result) == {"computing": 20_000.0, "idle": 100.0 * (10 + 10 + 40), "unavailable": 5.0 * 20}


def test_units_without_names_are_chosen_among_those_that_are_on() -> None:
    # Two of four are off at 50 s; the job of two gets the two that are on.
    jobs = [_job(1, 0, 40, 2), _job(2, 50, 10, 2)]
    result = simulate(jobs, Machine(of_number(4)), energy=Energy(NODE, PowerSaving(20, 0, 30)))
    assert result.schedule is not None
    assert result.schedule.starts()[2] == 50 * S


def test_a_rate_holds_in_any_minute() -> None:
    rate = MinuteLimit(2)
    assert [rate.take(at * S) // S for at in (0, 30, 31, 61, 200)] == [0, 30, 60, 90, 200]


# -- a cap over time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["node=4", "node=4/core=2"])
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "hybrid"])
def test_a_job_starts_only_if_the_cap_holds_until_its_limit(machine: str, policy: str) -> None:
    # No cap until 15 s, then two nodes at a time; the job at 6 s would run past that.
    jobs = [_job(1, 0, 10, 4), _job(2, 11, 4, 4), _job(3, 11, 10, 2), _job(4, 11, 10, 2)]
    cap = PowerCap(((15.0, 600.0), (60.0, None)))
    result = simulate(jobs, machine, queue_policy=policy, energy=Energy(NODE, cap=cap))
    assert result.schedule is not None
    assert result.energy is not None
    assert {job: start / S for job, start in result.schedule.starts().items()} == {1: 0, 2: 11, 3: 15, 4: 25}
    assert (result.energy.over_cap, result.energy.peak) == (0, 800 * MICROWATTS)


def test_an_instance_ends_with_its_last_job_whatever_caps_follow() -> None:
    cap = PowerCap(((0.0, 600.0), (1000.0, 500.0), (2000.0, None)))
    result = simulate([_job(1, 0, 10, 2)], "node=4", energy=Energy(NODE, cap=cap))
    assert [(row.begin_s, row.end_s) for row in result.instances] == [(0.0, 10.0)]


def test_a_job_above_every_cap_is_refused() -> None:
    result = simulate([_job(1, 0, 10, 3), _job(2, 0, 10, 2)], "node=4", energy=Energy(NODE, cap=PowerCap(((0.0, 600.0),))))
    assert result.refusals.ids == [1]
    reason = next(iter(result.refusals.reasons))
    assert "power_cap" in reason
    assert " mW" not in reason


def test_cores_draw_their_part_of_a_node() -> None:
    # 40 W above rest for four cores: a cap of 130 W leaves three of them.
    energy = Energy(NodePower(100, 140), cap=PowerCap(((0.0, 130.0),)))
    result = simulate(
        [_job(1, 0, 10, 2), _job(2, 0, 10, 2), _job(3, 0, 10, 1)], Machine(of_shape("node=1/core=4"), "core"), energy=energy
    )
    assert result.schedule is not None
    assert {job: start / S for job, start in result.schedule.starts().items()} == {1: 0, 2: 10, 3: 0}


@pytest.mark.parametrize(
    ("machine", "watts", "message"),
    [
        ("4", 600.0, "units of one pool have no power cap"),
        ("node=4", 300.0, "300 W is below the 400 W that all nodes may draw without jobs"),
    ],
)
def test_caps_that_cannot_be_kept(machine: str, watts: float, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        simulate([_job(1, 0, 10)], machine, energy=Energy(NODE, cap=PowerCap(((0.0, watts),))))
    assert raised.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "expected watts such as 6.4kW, got 'x'"),
        ("1h=2kW,30m=1kW", "expected ascending times, got 1800 s after 3600 s"),
        ("0=-1", "expected 0 to 1000000000000 W, got -1.0"),
        ("0=nan", "expected 0 to 1000000000000 W, got nan"),
    ],
)
def test_texts_that_are_no_caps(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        power_cap.parse(text)
    assert raised.value.message == message


def test_an_instance_that_may_draw_more_than_the_cap_is_refused_with_its_size() -> None:
    energy = Energy(NodePower(100, 200), cap=PowerCap(((0.0, 1100.0),)))
    simulator = Simulator(Machine(of_shape("node=8")), hierarchy=Hierarchy((2,)), energy=energy)
    with pytest.raises(InfeasibleRequest, match="400 W of power_cap") as refused:
        simulator.run([Submission(0, 0, S, S, 1)])
    assert refused.value.where == "an instance of 4 units below cluster"
    assert "more and smaller instances" in refused.value.hint


def test_a_draw_above_the_cap_is_counted() -> None:
    # A job is canceled while its node is switched on, from 30 s to 50 s; another node is, from 32 s to 52 s, for the next one.
    node = NodePower(100, 200, resume_w=200)
    events = [ExternalEvent(31 * S, "cancel", 2), ExternalEvent(31 * S, "drain", "node0")]
    simulator = Simulator(
        Machine(of_shape("node=2")),
        queue_policy="fcfs",
        disturbances=Disturbances(events),
        energy=Energy(node, PowerSaving(5, 0, 20), PowerCap(((0.0, 300.0),))),
    )
    result = simulator.run([_job(1, 0, 1), _job(2, 30, 10), _job(3, 32, 10)])
    assert result.energy is not None
    assert result.energy.over_cap == 18 * S


# -- output ------------------------------------------------------------------------------------------------------------


def test_the_line_of_a_schedule_has_the_columns_of_batsim() -> None:
    result = simulate([_job(1, 0, 10), _job(2, 0, 30, limit=20)], "node=2", energy=Energy(NODE))
    row = dict(zip(SCHEDULE_COLUMNS, schedule_row(result.metrics, result.energy, machines=2, max_turnaround_s=20.0), strict=True))
    assert list(row) == sorted(row)
    assert (row["consumed_joules"], row["time_computing"], row["time_idle"]) == ("7000.000000", "30.000000", "10.000000")
    assert (row["nb_jobs"], row["nb_jobs_success"], row["nb_jobs_killed"], row["success_rate"]) == (2, 1, 1, "0.500000")
    bare = dict(zip(SCHEDULE_COLUMNS, schedule_row(result.metrics, None, machines=2, max_turnaround_s=20.0), strict=True))
    assert (bare["consumed_joules"], bare["time_idle"], bare["nb_computing_machines"]) == ("", "", 2)


def test_the_command_and_a_study_give_the_same_energy(tmp_path: Path) -> None:
    words = ["simulate", "lublin:jobs=40,size=8", "--machine", "node=8", "--energy", "idle=100,full=200,off=5"]
    words += ["--power-saving", "suspend_time=5m,suspend=10s,resume=1m,keep=1"]
    single = json.loads(CliRunner().invoke(program, [*words, "-o", "json"]).stdout)
    assert CliRunner().invoke(program, [*words, "--out", str(tmp_path / "out")]).exit_code == 0
    (folder,) = (tmp_path / "out" / "runs").iterdir()
    document = json.loads((folder / "metrics.json").read_text())
    names = [name for name in single if name.endswith(("_j", "_w", "_js"))] + ["boots"]
    assert len(names) == 9
    assert single["boots"] > 0
    assert {name: document["metrics"][name] for name in names} == {name: single[name] for name in names}
    over = document["over_time"]
    drawn = sum(over["power_w"]) * over["part_s"]
    assert drawn == pytest.approx(single["energy_j"], rel=1e-6)
    (line,) = csv.DictReader(io.StringIO((folder / "schedule.csv").read_text()))
    assert float(line["consumed_joules"]) == pytest.approx(single["energy_j"])
    assert "drawn (kW)" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        (Accounting(partitions={"p": PartitionLimits(default=True, default_time=5, max_time=8)}), None),
        (Accounting(users={"ann": User(max_wall=8)}), "ann"),
    ],
)
def test_limits_on_times_of_a_site_are_those_of_the_run_without_the_wait_for_nodes(rules: Accounting, user: str | None) -> None:
    energy = Energy(NodePower(100, 200), PowerSaving(0.0, 0.0, 10.0))
    unstated = 5 if user is None else 8
    jobs = [_job(0, 0, 3, limit=8), _job(1, 20, 20, limit=8), _job(2, 50, 20)._replace(limit=FOREVER), _job(3, 80, 3, limit=9)]
    result = simulate([job._replace(user=user) for job in jobs], 2, energy=energy, accounting=rules)
    assert (result.refusals.ids, result.metrics.results) == ([3], {"completed": 1, "timeout": 2})
    assert result.schedule is not None
    times = list(zip(result.schedule.start, result.schedule.end, strict=True))
    # All nodes are on at the first submission; each later job waits 10 s for its node.
    assert times == [(0, 3 * S), (30 * S, 38 * S), (60 * S, (60 + unstated) * S)]
    nested = Submission("outer", 0, S, FOREVER, 1, jobs=(_job(4, 0, 1),), user=user)
    assert simulate([nested], 2, energy=energy, accounting=rules).refusals.ids == ["outer"]


def test_energy_of_malleable_jobs_agrees_with_an_oracle(deeper: float) -> None:
    assert [problem for seed in range(1, 1 + round(120 * deeper)) for problem in resized_run.differences(seed)] == []


def test_malleable_jobs_are_refused_where_growing_would_wait_for_nodes_or_power() -> None:
    with pytest.raises(UsageError, match="would wait for nodes that are switched off"):
        Simulator(of_number(2), energy=Energy(NODE, PowerSaving(10.0)), resize_policy="expand-idle")
    with pytest.raises(UsageError, match="below a power cap is planned at its start"):
        Simulator(of_shape("node=2"), energy=Energy(NODE, cap=PowerCap(((0.0, 500.0),))), resize_policy="expand-idle")

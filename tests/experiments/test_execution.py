"""One run: its files agree with each other and with a simulation without the page."""

from __future__ import annotations

import csv
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from fluxres.documents.source import Source
from fluxres.experiments import parts
from fluxres.experiments.execution import INSTANCES, JOBS, METRICS, SWF, Outcome, execute
from fluxres.simulation.costs.cost import Fitted, Measured
from fluxres.simulation.costs.overheads import NO_OVERHEADS
from fluxres.simulation.machine import of_shape
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload import swf
from fluxres.simulation.workload.models import Ensemble, Lublin
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax import idset
from tests.experiments.conftest import one

HEAD = "fluxres-experiment: 1\nname: x\nmachine: node=4/core=4\nunit: core\n"
ENSEMBLE = HEAD + "workload: {ensemble: {jobs: 50, run_s: 3, distribution: uniform, size: 2}}\n"


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def executed(text: str, place: Path) -> tuple[Outcome, dict[str, Any]]:
    outcome = execute(one(text), place)
    return outcome, orjson.loads((place / METRICS).read_bytes()) if (place / METRICS).exists() else {}


def units_of(row: dict[str, str]) -> list[int]:
    return idset.parse(row["allocated_resources"].replace(" ", ","))


def require_no_unit_twice(rows: list[dict[str, str]]) -> None:
    held: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        for unit in units_of(row):
            held[unit].append((float(row["starting_time"]), float(row["finish_time"])))
    for spans in held.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_a_run_is_the_simulation_its_page_describes(tmp_path: Path) -> None:
    outcome, document = executed(
        HEAD + "workload: {lublin: {jobs: 60, size: 16, overestimate: 2}}\nseed: 5\nhierarchy: {queue_policy: conservative}\n",
        tmp_path,
    )
    from fluxres.simulation.machine import Machine

    machine = Machine(of_shape("node=4/core=4"), "core")
    result = simulate(Lublin(60, 16, 5, 2.0), machine, queue_policy="conservative")
    assert outcome.error == ""
    assert outcome.figures["mean_wait_s"] == result.metrics.mean_wait_s == document["metrics"]["mean_wait_s"]
    assert outcome.figures["jobs"] == 60
    assert result.schedule is not None
    starts = {str(job): f"{start / 1e6:.6f}" for job, start in result.schedule.starts().items()}
    assert {row["job_id"]: row["starting_time"] for row in table(tmp_path / JOBS)} == starts


@pytest.mark.parametrize("topology", ["1", "4", "2x2", "4x4", "3x2"])
def test_units_have_the_numbers_of_the_machine_throughout_a_hierarchy(tmp_path: Path, topology: str) -> None:
    outcome, document = executed(ENSEMBLE.replace("size: 2", "size: 1") + f"hierarchy: {{topology: {topology}}}\n", tmp_path)
    assert outcome.error == ""
    rows = table(tmp_path / JOBS)
    assert len(rows) == 50
    assert {unit for row in rows for unit in units_of(row)} == set(range(16))
    require_no_unit_twice(rows)
    assert [level["jobs"] for level in document["levels"]][-1] == 50
    instances = table(tmp_path / INSTANCES)
    assert sum(int(row["jobs"]) for row in instances) == 50
    assert len(instances) == outcome.figures["instances"] == sum(level["instances"] for level in document["levels"])


def test_figures_of_an_instance_count_from_its_own_beginning(tmp_path: Path) -> None:
    """No instance has anything to do before the first job of a trace, which may begin in 2013."""
    trace = "\n".join(f"{n} {1000 + n} -1 50 1 -1 -1 1 100 -1 1 1 1 -1 -1 -1 -1 -1" for n in range(1, 9))
    (tmp_path / "trace.swf").write_text(trace)
    page = "fluxres-experiment: 1\nname: x\nmachine: node=4\nworkload: {file: %s}\n" % (tmp_path / "trace.swf")
    executed(page + "hierarchy: {topology: 4, boot_s: 20}\n", tmp_path)
    rows = table(tmp_path / INSTANCES)
    assert [float(row["begin_s"]) for row in rows] == [1001.0] * 5
    for row in rows[1:]:
        length = float(row["end_s"]) - float(row["begin_s"])
        assert float(row["throughput_per_s"]) == pytest.approx(2 / length)
        assert float(row["utilisation"]) == pytest.approx(100 / length)


def test_units_without_names_are_laid_out(tmp_path: Path) -> None:
    text = "fluxres-experiment: 1\nname: x\nmachine: 16\nworkload: {lublin: {jobs: 80, size: 16}}\n"
    executed(text, tmp_path)
    rows = table(tmp_path / JOBS)
    assert all(len(units_of(row)) == int(row["requested_number_of_resources"]) for row in rows)
    require_no_unit_twice(rows)


def test_the_swf_of_a_run_can_be_run(tmp_path: Path) -> None:
    executed(HEAD + "workload: {lublin: {jobs: 40, size: 16}}\n", tmp_path)
    read = swf.read(Source.named(str(tmp_path / SWF)))
    assert read.count == 40
    assert read.processors == 16
    text = "fluxres-experiment: 1\nname: y\nmachine: node=4/core=4\nunit: core\nworkload: {file: %s, jobs: 10}\n"
    (tmp_path / "again").mkdir()
    outcome, document = executed(text % (tmp_path / SWF), tmp_path / "again")
    assert outcome.figures["jobs"] == 10
    assert document["workload"]["name"] == "jobs"


def test_curves_have_the_area_of_the_jobs(tmp_path: Path) -> None:
    _, document = executed(ENSEMBLE, tmp_path)
    over = document["over_time"]
    area = sum(over["used"]) * over["part_s"]
    assert area == pytest.approx(sum(2 * float(row["execution_time"]) for row in table(tmp_path / JOBS)), rel=1e-3)
    waited = sum(over["waiting"]) * over["part_s"]
    assert waited == pytest.approx(sum(float(row["waiting_time"]) for row in table(tmp_path / JOBS)), rel=1e-3)


def test_jobs_that_can_never_run_are_counted_and_reported(tmp_path: Path) -> None:
    outcome, document = executed(HEAD + "workload: {ensemble: {jobs: 5, size: 17}}\n", tmp_path)
    assert outcome.error == ""
    assert outcome.figures["refused"] == 5
    assert outcome.figures["mean_wait_s"] is None
    assert sum(document["refused"]["reasons"].values()) == 5


def test_jobs_larger_than_the_machine_are_cut_on_request(tmp_path: Path) -> None:
    outcome, document = executed(HEAD + "workload: {ensemble: {jobs: 5, size: 17}, cut: true}\n", tmp_path)
    assert (outcome.figures["jobs"], outcome.figures["refused"]) == (5, 0)
    assert {row["requested_number_of_resources"] for row in table(tmp_path / JOBS)} == {"16"}
    assert document["workload"]["notes"] == {"a job larger than the machine was cut to it": 5}


def test_an_impossible_division_is_an_error_of_the_run(tmp_path: Path) -> None:
    outcome, _ = executed(
        "fluxres-experiment: 1\nname: x\nmachine: 16\nworkload: {ensemble: {jobs: 5}}\nhierarchy: {topology: 32}\n", tmp_path
    )
    assert "32 innermost instances" in outcome.error
    assert outcome.figures == {}


def test_costs_are_those_of_the_page() -> None:
    def cost(text: str) -> object:
        (found,) = parts.costs(one(ENSEMBLE + f"cost: {text}\n").page.cost)
        assert found.overheads == NO_OVERHEADS
        return found.decision

    assert cost("none") is None
    assert cost("measured") == Measured()
    assert cost("{measured: {factor: 3}}") == Measured(3.0)
    assert cost("{fixed_s: 0.5}") == Fitted(start_s=0.5)
    assert cost("{fitted: {base_s: 1, start_s: 2, considered_s: 3, queued_s: 4, size_s: 5}}") == Fitted(1.0, 2.0, 3.0, 4.0, 5.0)


# -- workloads -------------------------------------------------------------------------------------------------------


def jobs(ensemble: int) -> list[Submission]:
    return list(Ensemble(ensemble, run_s=10.0, distribution="exponential", seed=3))


def test_blocks_are_dealt_completely() -> None:
    dealt = parts.Dealt(jobs(10), by_work=False)
    hands = [[job.id for job in dealt.share(hand, 3)] for hand in range(3)]
    assert hands == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]


def test_dealing_by_work_is_more_even_than_in_turns() -> None:
    given = jobs(200)
    by_work = parts.Dealt(given, by_work=True)
    hands = [[job.run for job in by_work.share(hand, 7)] for hand in range(7)]
    turns = [[job.run for job in given[hand::7]] for hand in range(7)]
    assert sorted(run for hand in hands for run in hand) == sorted(job.run for job in given)
    assert max(map(sum, hands)) < max(map(sum, turns))


@pytest.mark.parametrize("deal", ["even", "batch", "work"])
def test_every_job_runs_however_they_are_dealt(tmp_path: Path, deal: str) -> None:
    text = HEAD + f"workload: {{bursts: {{jobs: 60, size: 4}}}}\nhierarchy: {{topology: 4, jobs: {deal}}}\n"
    outcome, _ = executed(text, tmp_path)
    assert sorted(int(row["job_id"]) for row in table(tmp_path / JOBS)) == list(range(60))
    assert (outcome.figures["jobs"], outcome.figures["left"]) == (60, 0)


def test_load_and_requests_are_changed_and_nothing_else() -> None:
    (first, *_), (changed, *_) = (
        jobs(3),
        parts.Changed([job._replace(submit=9, ask=9) for job in jobs(3)], 3.0, "slot={size/4}/node"),
    )
    assert changed.submit == 3
    assert changed.run == first.run
    assert not isinstance(changed.ask, int)
    assert changed.ask == parts.asking("slot=3/node", 0)


def test_a_request_may_name_power(tmp_path: Path) -> None:
    text = """\
fluxres-experiment: 1
name: x
machine:
  fluxres: 1
  name: m
  resources: [{type: node, count: 4}]
  graphs:
    power:
      pools: [{type: power, name: feed, size: 200}]
      edges: [{from: "power:/feed", to: "/m/node*"}]
workload: {ensemble: {jobs: 8, run_s: 10}, request: "slot={size}/[node{x};power=100]"}
"""
    outcome, _ = executed(text, tmp_path)
    assert outcome.error == ""
    assert outcome.figures["makespan_s"] == 40.0  # two at a time, although there are four nodes


def test_jobs_kept_in_memory_for_dealing_are_bounded(tmp_path: Path) -> None:
    outcome, _ = executed(HEAD + "workload: {lublin: {jobs: 2147483648}}\nhierarchy: {topology: 2}\n", tmp_path)
    assert "2147483648 jobs to deal" in outcome.error

"""Recorded workloads: results of PySS on a counted machine, of Batsim on named hosts."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from fluxres.documents.source import Source
from fluxres.instance.policy import policy
from fluxres.simulation.machine import of_number, of_shape
from fluxres.simulation.results.results import hosts_of
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload import batsim, swf
from fluxres.syntax import idset
from tests.conformance.conftest import Report
from tests.conformance.runner import Tally
from tests.simulation.invariants import Watched, violations

pytestmark = pytest.mark.conformance

FIGURES = {
    "mean_wait": "mean_wait_s",
    "max_wait": "max_wait_s",
    "mean_flow": "mean_turnaround_s",
    "avg_stretch": "mean_stretch",
    "avg_bsld": "mean_bounded_slowdown",
    "max_bsld": "max_bounded_slowdown",
    "makespan": "makespan_s",
    "util": "utilisation",
}
"""Names of figures in recorded results, and ours."""
GIVEN = ("n", "procs")
"""What a record of figures says of the run itself."""
THEIR_POLICIES = {"fcfs": "fcfs", "easy": "easy-count", "easy-sjbf": "easy-sjbf", "conservative": "conservative"}


def test_counting_simulators_agree(cases: Path, minima: dict[str, Any], report: Report) -> None:
    found = Tally("counted-figures")
    for path in sorted((cases / "traces").glob("*.expected.json")):
        for trace, expected in json.loads(path.read_text(encoding="utf-8")).items():
            file = path.with_name(f"{trace}.swf")
            if not file.is_file():
                found.pass_over({"id": trace}, f"figures of {trace}, of which there is no {file.name}")
                continue
            workload = swf.read(Source.named(str(file)))
            for name, figures in expected.items():
                _count(found, f"{trace} {name}", THEIR_POLICIES.get(name), figures, workload)
    report([found], {"counted-figures": minima.get("traces", {}).get("counted-figures", 0)})


def _count(found: Tally, run: str, queue_policy: str | None, figures: dict[str, Any], workload: Any) -> None:
    """Compare the figures of one run, each by itself."""
    metrics = None
    for key, expected in figures.items():
        if key in GIVEN:
            continue
        if queue_policy is None or "procs" not in figures or key not in FIGURES:
            found.pass_over({}, f"figure {key} of policy {run.rsplit(maxsplit=1)[-1]}")
            continue
        metrics = metrics or simulate(workload, of_number(figures["procs"]), queue_policy=queue_policy).metrics
        found.cases += 1
        got = getattr(metrics, FIGURES[key])
        if got == pytest.approx(expected, rel=1e-9):
            found.agreeing += 1
        else:
            found.differing.append(f"{run} {key}: expected {expected}, got {got}")


@pytest.mark.parametrize("inventory", ["auto", "graph"])
def test_named_hosts_agree(cases: Path, minima: dict[str, Any], report: Report, inventory: str) -> None:
    name = f"named-jobs, {inventory}"
    found = Tally(name)
    for path in sorted((cases / "traces").glob("*_out_jobs.csv")):
        trace, _, theirs = path.name.removesuffix("_out_jobs.csv").rpartition("_")
        with path.open(encoding="utf-8") as file:
            rows = {row["job_id"]: row for row in csv.DictReader(file)}
        if theirs not in ("easy", "conservative") or not path.with_name(f"{trace}.json").is_file():
            for row in rows.values():
                found.pass_over(row, f"jobs of policy {theirs} on {trace}")
            continue
        _compare(found, f"{trace} {theirs}", batsim.read(Source.named(str(path.with_name(f"{trace}.json")))), rows, inventory)
    report([found], {name: minima.get("traces", {}).get("named-jobs", 0)})


def _compare(found: Tally, run: str, workload: Any, rows: dict[str, dict[str, str]], inventory: Any) -> None:
    """Compare start and hosts of each job of a run, in which no rule may be broken either."""
    name = run.rsplit(maxsplit=1)[-1]
    watched = Watched(policy(name), head_only=name == "easy")
    schedule = simulate(workload, of_shape(f"node={workload.processors}"), queue_policy=watched, inventory=inventory).schedule
    assert schedule is not None
    found.differing += [f"{run}: {each}" for each in [*violations(schedule, workload.processors or 0, workload), *watched.broken]]
    for job, start, hosts in zip(schedule.ids, schedule.start, schedule.allocated, strict=True):
        row = rows.get(str(job))
        found.cases += 1
        # Batsim computes in floating point and prints six digits of it.
        is_same = row is not None and abs(start / 1e6 - float(row["starting_time"])) < 2e-3
        if row is not None and is_same and idset.parse(hosts) == hosts_of(row["allocated_resources"]):
            found.agreeing += 1
        else:
            found.differing.append(f"{run} job {job}: {start / 1e6} on {hosts}, expected {row and row['starting_time']}")


def test_schedules_of_recorded_workloads_keep_the_rules(cases: Path) -> None:
    files = sorted((cases / "traces").glob("*.swf"))
    if not files:
        pytest.skip("there is no workload in SWF")
    for file in files:
        workload = swf.read(Source.named(str(file)))
        for name, head_only in (("easy", True), ("conservative", False)):
            watched = Watched(policy(name), head_only=head_only)
            processors = workload.processors or 100
            schedule = simulate(workload, of_shape(f"node={processors}"), queue_policy=watched).schedule
            assert schedule is not None
            assert violations(schedule, processors, workload) == []
            assert watched.broken == []
            assert len(schedule) == workload.count

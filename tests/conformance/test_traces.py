"""Recorded workloads: results of PySS on a counted machine, of Batsim on named hosts."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from fluxres.formats.source import Source
from fluxres.instance.policy import policy
from fluxres.simulation import batsim, swf
from fluxres.simulation.invariants import Watched, violations
from fluxres.simulation.machine import of_number, of_shape
from fluxres.simulation.results import hosts_of
from fluxres.simulation.simulator import simulate
from fluxres.syntax import idset

FIGURES = {
    "mean_wait_s": "mean_wait",
    "max_wait_s": "max_wait",
    "mean_turnaround_s": "mean_flow",
    "mean_stretch": "avg_stretch",
    "mean_bounded_slowdown": "avg_bsld",
    "max_bounded_slowdown": "max_bsld",
    "makespan_s": "makespan",
    "utilisation": "util",
}
"""Our names of figures, and those of the recorded results."""

THEIR_POLICIES = {"fcfs": "fcfs", "easy": "easy-count", "easy-sjbf": "easy-sjbf", "conservative": "conservative"}


def test_counting_simulators_agree(cases: Path, agreeing_min: dict[str, Any]) -> None:
    folder = cases / "traces"
    equal, told = 0, []
    for path in sorted(folder.glob("*.expected.json")):
        for trace, expected in json.loads(path.read_text(encoding="utf-8")).items():
            workload = swf.read(Source.named(str(folder / f"{trace}.swf")))
            for theirs, figures in expected.items():
                found = simulate(workload, of_number(figures["procs"]), queue_policy=THEIR_POLICIES[theirs]).metrics
                for ours, key in FIGURES.items():
                    value = getattr(found, ours)
                    if value == pytest.approx(figures[key], rel=1e-9):
                        equal += 1
                    else:
                        told.append(f"{trace} {theirs} {key}: {value}, expected {figures[key]}")
    print(f"traces, counted: {equal} figures agree", *told, sep="\n")
    assert equal >= agreeing_min["traces"]["counted-figures"], "\n".join(told)


@pytest.mark.parametrize("inventory", ["auto", "graph"])
def test_named_hosts_agree(cases: Path, agreeing_min: dict[str, Any], inventory: str) -> None:
    folder = cases / "traces"
    equal, told = 0, []
    for path in sorted(folder.glob("*_out_jobs.csv")):
        trace, _, name = path.name.removesuffix("_out_jobs.csv").rpartition("_")
        workload = batsim.read(Source.named(str(folder / f"{trace}.json")))
        watched = Watched(policy(name), head_only=name == "easy")
        machine = of_shape(f"node={workload.processors}")
        schedule = simulate(workload, machine, queue_policy=watched, inventory=inventory).schedule
        assert schedule is not None
        assert violations(schedule, workload.processors or 0, workload) == []
        assert watched.broken == []
        with path.open(encoding="utf-8") as file:
            expected = {row["job_id"]: row for row in csv.DictReader(file)}
        for job, start, hosts in zip(schedule.ids, schedule.start, schedule.allocated, strict=True):
            row = expected[str(job)]
            # Batsim computes in floating point and prints six digits of it.
            if abs(start / 1e6 - float(row["starting_time"])) < 2e-3 and idset.parse(hosts) == hosts_of(
                row["allocated_resources"]
            ):
                equal += 1
            else:
                told.append(f"{trace} {name} job {job}: {start / 1e6} on {hosts}, expected {row['starting_time']}")
    print(f"traces, named hosts, {inventory}: {equal} jobs agree", *told[:20], sep="\n")
    assert equal >= agreeing_min["traces"]["named-jobs"], "\n".join(told[:20])


def test_schedules_of_recorded_workloads_keep_the_rules(cases: Path) -> None:
    workload = swf.read(Source.named(str(cases / "traces" / "KTH-SP2.swf")))
    for name, head_only in (("easy", True), ("conservative", False)):
        watched = Watched(policy(name), head_only=head_only)
        schedule = simulate(workload, of_shape("node=100"), queue_policy=watched).schedule
        assert schedule is not None
        assert violations(schedule, 100, workload) == []
        assert watched.broken == []
        assert len(schedule) == workload.count

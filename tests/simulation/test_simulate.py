"""`fluxres.simulation.simulate` takes machines and workloads as values, as paths, and as the command writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

import fluxres
from fluxres.errors import UsageError
from fluxres.simulation import Machine, Submission, simulate
from fluxres.simulation.workload.workload import Workload

TRACE = "; MaxProcs: 4\n1 0 -1 10 2 -1 -1 2 20 -1 1 1 1 -1 -1 -1 -1 -1\n2 0 -1 10 4 -1 -1 4 20 -1 1 1 1 -1 -1 -1 -1 -1\n"
JOBS = [Submission(1, 0, 10_000_000, 20_000_000, 2), Submission(2, 0, 10_000_000, 20_000_000, 4)]


def test_files_values_and_texts_are_the_same_machine_and_workload(tmp_path: Path) -> None:
    trace, site = tmp_path / "trace.swf", tmp_path / "site.yaml"
    trace.write_text(TRACE)
    node = fluxres.build(fluxres.Resource("node", 4), name="site")
    fluxres.save(node, site)
    workloads = (JOBS, trace, str(trace))
    machines = (4, "4", "node=4", node, site, str(site), Machine(node))
    found = [simulate(workload, machine, queue_policy="fcfs") for workload in workloads for machine in machines]
    assert {(result.metrics.jobs, result.metrics.makespan_s) for result in found} == {(2, 20.0)}
    assert simulate(trace).metrics.makespan_s == 20.0  # on the machine that the trace names


def test_cost_and_unit_are_as_the_command_takes_them() -> None:
    assert simulate(JOBS, "node=2/core=4", unit="core", cost="fixed:1").metrics.makespan_s > 10.0
    with pytest.raises(UsageError, match="the machine has no 'gpu'"):
        simulate(JOBS, 4, unit="gpu")


@pytest.mark.parametrize(("workload", "machine"), [(7, 4), (JOBS, True), (JOBS, 0), (JOBS, None), (JOBS, 2.5), ("lublin", 4)])
def test_what_is_neither_is_refused(workload: object, machine: object) -> None:
    with pytest.raises(UsageError):
        simulate(workload, machine)  # type: ignore[arg-type]  # the wrong type is the point


@pytest.mark.parametrize("items", [[(1, 2)], [*JOBS, 7], ["a.swf"]])
def test_items_of_a_workload_are_submissions(items: list[object]) -> None:
    for workload in (items, iter(items), Workload("jobs", items)):  # type: ignore[arg-type]  # the wrong type is the point
        with pytest.raises(
            UsageError, match=r"workload: expected items that are a Submission, got .* \(in microseconds: Submission"
        ):
            simulate(workload, "node=8")  # type: ignore[arg-type]  # the wrong type is the point

"""`fluxres simulate` with several policies makes the runs that it makes with each of them alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from fluxres.cli.program import program
from fluxres.errors import InputError, UsageError
from fluxres.experiments import campaign, comparison
from fluxres.experiments.folder import ResultsFolder
from fluxres.experiments.quick import study_of
from fluxres.simulation import machine
from fluxres.simulation.costs import cost
from fluxres.simulation.nesting.hierarchy import Hierarchy, by_level, fan_outs
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload import reading

OPTIONS: dict[str, Any] = {"hierarchy": "2", "boot": 1.0, "match_policy": "low:high", "costs": ["fixed:0.1"], "cut": False}


@pytest.mark.parametrize("workload", ["lublin:jobs=40,size=8", "bursts:days=1,on=2m,size=4", "ensemble:jobs=30,run=2s"])
def test_each_policy_has_the_metrics_of_a_run_of_its_own(workload: str, tmp_path: Path) -> None:
    policies = ("fcfs", "easy:fcfs", "conservative")
    study = study_of(workload, policies, machine="node=2/core=8", unit="core", options=OPTIONS, seed=4)
    assert campaign.run(study, tmp_path / "a").failed == {}
    rows = comparison.compare(study, ResultsFolder(tmp_path / "a")).rows
    assert [row.label for row in rows] == ["queue policy fcfs", "queue policy easy+fcfs", "queue policy conservative"]
    for policy, row in zip(policies, rows, strict=True):
        levels = Hierarchy(fan_outs("2"), by_level(policy), by_level("low:high"), 1.0)
        made = machine.Machine(machine.read("node=2/core=8"), "core")
        alone = Simulator(made, hierarchy=levels, cost=cost.parse("fixed:0.1"), keep=False)
        expected = alone.run(reading.read(workload, seed=4)).metrics
        (document,) = (document for _, document in row.runs)
        assert document["metrics"]["mean_wait_s"] == expected.mean_wait_s
        assert document["metrics"]["makespan_s"] == expected.makespan_s
    assert rows[0].ratios["makespan_s"] == (1.0, None, None, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "none"),
        ("measured:2", {"measured": {"factor": 2.0, "passes": 8, "calibrate": False}}),
        (
            "fixed:0.5",
            {
                "fitted": {
                    "base_s": 0.0,
                    "start_s": 0.5,
                    "considered_s": 0.0,
                    "queued_s": 0.0,
                    "size_s": 0.0,
                    "unit_s": 0.0,
                    "first_s": 0.0,
                    "doubling_s": 0.0,
                    "several_s": 0.0,
                }
            },
        ),
    ],
)
def test_costs_are_those_of_a_study(text: str | None, expected: Any) -> None:
    study = study_of("ensemble:jobs=3", ["fcfs"], machine="4", options={"costs": [text] if text else []})
    assert study.document.values["cost"] == expected
    assert study.page.machine == 4


def test_a_policy_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="queue policy fcfs is given twice"):
        study_of("ensemble:jobs=3", ["fcfs", "easy", "fcfs"], machine="4", options={})


@pytest.mark.parametrize("more", [(), ("-Q", "fcfs")])
def test_policies_of_levels_that_there_are_not_are_refused(more: tuple[str, ...]) -> None:
    words = ["simulate", "ensemble:jobs=4,run=1s", "--machine", "node=4", "-T", "2"]
    for own, name in ((["-Q", "easy:fcfs:easy", *more], "queue policy"), (["-M", "first:low:high", *more], "match policy")):
        done = CliRunner().invoke(program, [*words, *own])
        assert done.exit_code == 2
        assert f"{name}: expected at most one for each of 2 levels of instances" in done.output


def test_jobs_with_instances_of_their_own_have_policies_of_more_levels() -> None:
    words = ["simulate", "data/examples/workflow.yaml", "--machine", "core=8", "-T", "1", "-Q", "easy:fcfs"]
    done = CliRunner().invoke(program, words)
    assert done.exit_code == 0, done.output


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="jobs"):
        study_of("lublin:jobs=0", ["fcfs"], machine="4", options={})


@pytest.mark.usefixtures("without_charts")
def test_results_are_kept_where_the_command_says(tmp_path: Path) -> None:
    words = ["simulate", "lublin:jobs=20,size=4", "-m", "4", "-Q", "fcfs", "-Q", "easy", "--repeats", "2"]
    answers = []
    for _ in range(2):
        result = CliRunner().invoke(program, [*words, "--out", str(tmp_path / "a"), "--json"])
        assert result.exit_code == 0, result.output
        answers.append(orjson.loads(result.stdout))
    assert [(each["made"], each["kept"]) for each in answers] == [(4, 0), (0, 4)]
    assert answers[0]["settings"] == answers[1]["settings"]
    assert "fluxres simulate lublin:jobs=20,size=4 -m 4 -Q fcfs" in (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    other = CliRunner().invoke(program, [*words[:-2], "--out", str(tmp_path / "a")])
    assert other.exit_code == 2
    assert "contains results of another study: repeats differs" in other.stderr


def test_a_trace_is_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("; MaxProcs: 4\n1 0 -1 10 1 -1 -1 1 10 -1 1 1 -1 -1 -1 -1 -1 -1\n")
    result = CliRunner().invoke(program, ["simulate", str(tmp_path / "a.swf"), "--repeats", "2"])
    assert (result.exit_code, "--repeats needs a model" in result.stderr) == (2, True)


@pytest.mark.parametrize("policies", [("-Q", "fcfs"), ("-Q", "fcfs", "-Q", "easy")])
def test_the_draw_of_nodes_may_be_left_out(tmp_path: Path, policies: tuple[str, ...]) -> None:
    nodes = "{type: node, count: 2, properties: {wattage_per_state: '100:200'}}"
    (tmp_path / "c.yaml").write_text(f"fluxres: 1\nname: c\nresources: [{nodes}]\n")
    words = ["simulate", "ensemble:jobs=2,run=1s", "--machine", str(tmp_path / "c.yaml"), "--json", *policies]
    counted, left_out = (CliRunner().invoke(program, [*words, *more]) for more in ((), ("--energy", "none")))
    has_energy = [bool(re.search('"energy_j": *[{0-9]', done.stdout)) for done in (counted, left_out)]
    assert (has_energy, left_out.exit_code) == ([True, False], 0), left_out.output
    refused = CliRunner().invoke(program, [*words, "--energy", "none", "--power-cap", "9kW"])
    assert (refused.exit_code, "--energy none counts nothing" in refused.stderr) == (2, True), refused.output


def test_one_run_names_what_it_depends_on() -> None:
    words = ["simulate", "ensemble:jobs=20,run=1h", "--machine", "node=2", "--energy", "idle=1,full=2", "--power-cap", "0=9W"]
    words += ["--failures", "mtbf=9h,mttr=1h", "--on-failure", "requeue", "--boot", "2s", "-T", "1", "--cut", "--seed", "3"]
    said = "energy idle=1,full=2, power cap 0=9W, failures mtbf=9h,mttr=1h (seed 3), on failure requeue, boot 2 s"
    said += ", cut to the machine"
    done = CliRunner().invoke(program, words)
    assert f"conditions             {said}\n" in done.output, done.output
    assert "interruptions " in done.output
    assert " number" not in done.output
    assert orjson.loads(CliRunner().invoke(program, [*words, "--json"]).stdout)["made"]["conditions"] == said
    plain = CliRunner().invoke(program, ["simulate", "ensemble:jobs=2,run=1s", "--machine", "2"])
    assert (plain.exit_code, "conditions" in plain.output) == (0, False)


def test_a_report_has_no_folders_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("fluxres: 1\nname: m\nresources: [{type: node, count: 2}]\n")
    words = ["simulate", "ensemble:jobs=2,run=1s", "--machine", "m.yaml", "--out", "found"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        done = CliRunner().invoke(program, words)
    assert done.exit_code == 0, done.output
    report = (tmp_path / "found" / "report.html").read_text()
    assert ">m.yaml: 2 nodes<" in report
    assert str(tmp_path) not in report

"""`simulate --cost`, `--overhead` and `--starts-per-node`: repeated by level, with makespans that follow by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fluxres.cli.program import program

TWO = ("ensemble:jobs=6,run=0", "--machine", "2")
NESTED = (*TWO, "--topology", "2")
FOUR = ("ensemble:jobs=4,run=0", "--unit", "core", "--overhead", "launch=1s", "--machine")
TICKS = 2e-5
"""A job of no length takes a tick, a microsecond."""


def simulated(*words: str) -> Result:
    return CliRunner().invoke(program, ["simulate", "--json", *words])


@pytest.mark.parametrize(
    ("words", "makespan_s"),
    [
        (TWO, 0),
        ((*TWO, "--cost", "fixed:1"), 6),
        # Three jobs for each of two children, which start for nothing, or the second of them after two seconds.
        ((*NESTED, "--cost", "none", "--cost", "fixed:1"), 3),
        ((*NESTED, "--cost", "fixed:1"), 2 + 3),
        ((*NESTED, "--cost", "fixed:1", "--cost", "none"), 2),
        ((*NESTED, "--cost", "fixed:1", "--cost", "fixed:2"), 2 + 3 * 2),
    ],
)
def test_a_cost_for_each_level_the_last_for_all_further_ones(words: tuple[str, ...], makespan_s: float) -> None:
    assert json.loads(simulated(*words).stdout)["makespan_s"] == pytest.approx(makespan_s, abs=TICKS)


@pytest.mark.parametrize(
    ("words", "makespan_s"),
    [
        ((*TWO, "--overhead", "ingest=1s"), 6),
        ((*TWO, "--overhead", "start=500ms"), 3),
        # Both processors are free again after the two ends of before.
        ((*TWO, "--overhead", "event=1s"), 4),
        ((*TWO, "--overhead", "ingest=1s,start=500ms"), 9),
        ((*NESTED, "--overhead", "start=0s", "--overhead", "start=1s"), 3),
        ((*NESTED, "--overhead", "start=1s"), 2 + 3),
        ((*NESTED, "--overhead", "start=1s", "--overhead", "start=0s"), 2),
        # Only the parent makes children; its costs are not those of the innermost level.
        ((*NESTED, "--overhead", "spawn=5s", "--overhead", "start=1s"), 10 + 3),
        ((*NESTED, "--overhead", "messages=4,message=1s", "--overhead", "start=0s"), 8),
        ((*NESTED, "--cost", "fixed:1", "--cost", "none", "--overhead", "start=0s", "--overhead", "start=1s"), 2 + 3),
    ],
)
def test_other_work_by_level(words: tuple[str, ...], makespan_s: float) -> None:
    assert json.loads(simulated(*words).stdout)["makespan_s"] == pytest.approx(makespan_s, abs=TICKS)


@pytest.mark.parametrize(
    ("machine", "bound", "makespan_s"),
    [
        ("node=1/core=4", (), 1),
        ("node=1/core=4", ("--starts-per-node", "1"), 4),
        ("node=1/core=4", ("--starts-per-node", "2"), 2),
        ("node=1/core=4", ("--starts-per-node", "4"), 1),
        ("node=2/core=2", ("--starts-per-node", "1"), 2),
        ("node=4/core=1", ("--starts-per-node", "1"), 1),
    ],
)
def test_a_node_launches_so_many_jobs_at_once(machine: str, bound: tuple[str, ...], makespan_s: float) -> None:
    assert json.loads(simulated(*FOUR, machine, *bound).stdout)["makespan_s"] == pytest.approx(makespan_s, abs=TICKS)


def test_several_policies_have_the_same_costs_as_each_alone(tmp_path: Path) -> None:
    words = (*NESTED, "--cost", "fixed:1", "--cost", "none", "--overhead", "start=0s", "--overhead", "start=1s")
    both = simulated(*words, "-Q", "fcfs", "-Q", "easy", "--out", str(tmp_path / "out"))
    assert both.exit_code == 0, both.output
    documents = [json.loads(path.read_bytes()) for path in sorted(tmp_path.glob("out/runs/*/metrics.json"))]
    assert [each["metrics"]["makespan_s"] for each in documents] == pytest.approx([5, 5], abs=TICKS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cost", "fixed:-1"), "expected a number of at least 0"),
        (("--cost", "fitted:strat=1"), "did you mean start?"),
        (("--cost", "fitted:start=1,start=2"), "start is given twice"),
        (("--cost", "fitted:"), "expected name=value"),
        (("--cost", "fluxion-frist"), "did you mean fluxion-first?"),
        (("--overhead", "strat=1s"), "did you mean start?"),
        (("--overhead", "start=-1s"), "start"),
        (("--starts-per-node", "-1"), "--starts-per-node"),
        (("--cost", "none", "--cost", "fixed:1"), "expected at most one cost for each of 1 level of instances, got 2"),
        (("--overhead", "start=1s", "--overhead", "start=1s"), "use a topology with more levels"),
    ],
)
def test_wrong_costs_are_refused_with_a_way_out(words: tuple[str, str], message: str) -> None:
    result = simulated(*TWO, *words)
    assert (result.exit_code, message in result.output) == (2, True), result.output


@pytest.mark.parametrize(("words", "said"), [((), ""), (("-T", "1"), ""), (("-T", "2"), ", 2 instances, balance steal")])
def test_one_instance_has_no_siblings_to_balance(words: tuple[str, ...], said: str) -> None:
    shown = CliRunner().invoke(program, ["simulate", *TWO, *words, "--balance", "steal"]).stdout
    (scheduler,) = (line for line in shown.splitlines() if line.startswith("scheduler"))
    assert scheduler.endswith(f"queue policy easy, match policy first{said}, cost none")


@pytest.mark.parametrize("cost", [(), ("--cost", "fixed:1"), ("--overhead", "launch=1s")])
def test_a_job_too_large_for_all_is_refused_with_the_size_of_the_machine(cost: tuple[str, ...]) -> None:
    words = ("ensemble:jobs=1,run=9,size=5", "--machine", "node=4", "-T", "4")
    reasons = [simulated(*words, *cost, *more).stderr for more in ((), ("--larger", "up"))]
    assert ["the instance has 1" in reasons[0], "the instance has 4" in reasons[1]] == [True, True], reasons

"""A study: valid pages, the runs that they describe, and the positions of errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.experiments import checks, study
from fluxres.experiments.figures import FIGURES
from fluxres.experiments.study import (
    BurstsModel,
    CostEntry,
    EnsembleModel,
    Expectation,
    FittedCost,
    HierarchyEntry,
    LublinModel,
    MeasuredCost,
    StudyDocument,
    WorkloadEntry,
    label,
    matches,
    value_text,
)
from tests.experiments.conftest import SMALL, Write
from tests.traceability import ROOT

BASE = "fluxres-experiment: 1\nname: x\nmachine: 8\nworkload:\n  ensemble: {jobs: 5}\n"


def test_every_combination_is_a_run_with_every_repeat(page: Write) -> None:
    found = page(SMALL + "seed: 7\n")
    assert [(run.settings["hierarchy.queue_policy"], run.repeat, run.seed) for run in found.runs] == [
        ("fcfs", 0, 7),
        ("fcfs", 1, 8),
        ("easy", 0, 7),
        ("easy", 1, 8),
    ]
    assert [run.key for run in found.runs][::2] == ["001-queue_policy=fcfs,seed=7", "003-queue_policy=easy,seed=7"]
    assert found.runs[2].page.hierarchy.queue_policy == "easy"


def test_several_workloads_are_varied_first(page: Write) -> None:
    found = page(
        "fluxres-experiment: 1\nname: x\nmachine: 8\n"
        "workload: [{name: short, ensemble: {jobs: 5}}, {name: long, ensemble: {jobs: 5, run_s: 9}}]\n"
        "vary: {workload.ensemble.size: [1, 2]}\nlabels: {workload.ensemble.size: width}\n"
    )
    runs = [(run.workload.name, run.workload.ensemble.size, run.label) for run in found.runs if run.workload.ensemble]
    assert runs == [
        ("short", 1, "workload short, width 1"),
        ("short", 2, "workload short, width 2"),
        ("long", 1, "workload long, width 1"),
        ("long", 2, "workload long, width 2"),
    ]


def test_anything_on_the_page_can_vary_also_in_lists(page: Write) -> None:
    found = page(
        "fluxres-experiment: 1\nname: x\nworkload: {ensemble: {jobs: 5}}\n"
        "machine: {fluxres: 1, name: m, resources: [{type: node, count: 2}]}\n"
        "vary: {machine.resources.0.count: [2, 3], cost: [none, {fixed_s: 1}], hierarchy.topology: [1, 2]}\n"
    )
    checks.check(found)
    machines = [run.page.machine for run in found.runs]
    assert [one["resources"][0]["count"] for one in machines if isinstance(one, dict)] == [2] * 4 + [3] * 4
    assert len({run.key for run in found.runs}) == 8


def test_keys_of_values_with_special_characters_are_directory_names(page: Write) -> None:
    found = page(BASE + "vary:\n  workload.name: ['../../x', 'a b/c', '" + "y" * 200 + "']\n")
    assert [run.key for run in found.runs][:2] == ["001-name=..-..-x", "002-name=a-b-c"]
    assert all("/" not in run.key and len(run.key) < 100 for run in found.runs)


def test_keys_of_long_settings_keep_the_seed(page: Write) -> None:
    found = page(BASE + "repeats: 2\nseed: 7\nvary:\n  workload.name: ['" + "y" * 100 + "', '" + "y" * 99 + "z']\n")
    long = f"name={'y' * 75}"
    assert [run.key for run in found.runs] == [
        f"001-{long},seed=7",
        f"002-{long},seed=8",
        f"003-{long},seed=7",
        f"004-{long},seed=8",
    ]


def test_values_have_short_texts() -> None:
    assert value_text({"fitted": {"start_s": 1}}) == "fitted"
    assert value_text("../clusters/quartz.yaml") == "quartz"
    assert value_text("lublin.v1") == "lublin.v1"
    assert label({}, {}) == ""
    assert matches({"a": {"name": "short", "x": 1}}, {"a": "short"})
    assert not matches({"a": 1}, {"a": 2})


WRONG = [
    ("nmae: y\n", "6:1", "unknown key 'nmae'", "did you mean 'name'?"),
    ("repeats: 0\n", "6:10", "expected a whole number from 1 to 10000", ""),
    ("hierarchy: {topolgy: 2}\n", "6:13", "unknown key 'topolgy'", "topology"),
    ("hierarchy: {topology: 2x}\n", "6:23", "expected fan-outs such as 2x4, got '2x'", ""),
    ("hierarchy: {topology: 3x3}\n", "6:23", "9 innermost instances, but the machine has at most 8", "smaller fan-outs"),
    ("disturbances: {on_failure: fail, events: none.yaml}\n", "6:42", "none.yaml", ""),
    ("hierarchy: {queue_policy: esay}\n", "6:27", "no queue policy 'esay'", "easy"),
    ("hierarchy: {match_policy: lowest}\n", "6:27", "lowest", ""),
    ("inventory: quick\n", "6:12", "expected graph, auto, named, counted, got 'quick'", ""),
    ("cost: free\n", "6:7", "expected one of measured, none or a mapping or a list, got 'free'", ""),
    ("cost: {fixed_s: -1}\n", "6:17", "a number of at least 0, or nothing", ""),
    ("cost: {fixed_s: 1, measured: {}}\n", "6:7", "expected one of fixed_s, fitted, measured and model", ""),
    ("trim: {warm_up: 0.6}\n", "6:17", "expected a number of at least 0 and below 0.5, got 0.6", ""),
    ("stop: {metric: jobs, within: 0}\n", "6:30", "expected a number above 0 and below 10, got 0", ""),
    (
        "energy: {idle_w: 1, full_w: 2}\ncost: {launch_s: 1}\nprediction: {predictor: perfect}\n",
        "7:7",
        "only decisions may take time beside predictions",
        "leave out starts_per_node",
    ),
    (
        "prediction: {predictor: perfect}\nhierarchy: {starts_per_node: 2}\n",
        "7:30",
        "only decisions may take time beside predictions",
        "leave out starts_per_node",
    ),
    ("cost: [none, {fixed_s: 1}]\n", "6:7", "expected at most one cost for each of 1 level of instances, got 2", "more levels"),
    (
        "hierarchy: {topology: 2, queue_policy: [easy, fcfs, easy]}\nvary: {hierarchy.boot_s: [0, 1]}\n",
        "6:40",
        "queue policy: expected at most one for each of 2 levels of instances, got easy:fcfs:easy",
        "fewer policies",
    ),
    (
        "hierarchy: {topology: 2, match_policy: [first, low, high]}\nvary: {hierarchy.boot_s: [0, 1]}\n",
        "6:40",
        "match policy: expected at most one for each of 2 levels of instances, got first:low:high",
        "fewer policies",
    ),
    (
        "disturbances: {on_failure: requeue}\nhierarchy: {topology: 2, balance: steal}\n",
        "7:35",
        "jobs that move between instances cannot be requeued",
        "use on_failure: fail",
    ),
    ("unit: gpu\n", "6:7", "the machine has no 'gpu'", "it has"),
    ("accounting: no.yaml\n", "6:13", "no such file", "relative paths start in the directory of the study"),
    ("hierarchy: {topology: 2y4}\nvary: {hierarchy.boot_s: [0, 1]}\n", "6:23", "expected fan-outs", ""),
    (
        "hierarchy: {queue_policy: [esay]}\nvary: {hierarchy.boot_s: [0, 1]}\n",
        "6:27",
        "no queue policy 'esay'",
        "did you mean easy",
    ),
    ("hierarchy: {match_policy: lo}\nvary: {hierarchy.boot_s: [0, 1]}\n", "6:27", "no match policy 'lo'", ""),
    ("vary: {hierarchy.topology: []}\n", "6:28", "at least one entry", ""),
    ("vary: {hierarchy.topology: [1, 2, 1]}\n", "6:28", "1 occurs in the list twice", ""),
    ("vary:\n  hierarchy.topology:\n    - 1\n    - x\n", "9:7", "expected fan-outs", ""),
    ("vary:\n  hierarchy.topology:\n    - 1\n    - [x]\n", "9:7", "expected a whole number or text, got a list of 1", ""),
    ("vary:\n  hierarchy.depth: [1]\n", "7:21", "unknown key 'depth'", ""),
    ("vary: {queue_policy: [easy]}\n", "6:23", "unknown key 'queue_policy'", "did you mean 'hierarchy.queue_policy'?"),
    ("vary:\n  seed.x: [1]\n", "7:12", "", ""),
    ("vary: {repeats: [1, 2]}\n", "6:8", "repeats is not a setting of a run", ""),
    ("baseline: {seed: 1}\n", "6:12", "seed does not vary", "nothing varies"),
    ("vary: {seed: [1, 2]}\nbaseline: {seed: 3}\n", "7:18", "seed is never 3", "it is 1, 2"),
    ("labels: {seed: s}\n", "6:10", "seed does not vary", ""),
    ("metrics: [mean_wiat_s]\n", "6:11", "no metric 'mean_wiat_s'", "mean_wait_s"),
    ("expect: [{metric: speed, range: [0, 1]}]\n", "6:19", "no metric 'speed'", ""),
    ("expect: [{metric: jobs, range: [2, 1]}]\n", "6:10", "lower one first", ""),
    ("expect: [{metric: jobs, range: [2]}]\n", "6:32", "expected 2 entries, got a list of 1", ""),
    ("expect: [{metric: jobs, range: [1, 2, 3]}]\n", "6:32", "expected 2 entries, got a list of 3", ""),
    ("expect: [{metric: jobs, ratio: [1, 2]}]\n", "6:10", "'ratio' and 'against'", ""),
    ("expect: [{metric: jobs, against: baseline, ratio: [1, 2]}]\n", "6:34", "no baseline", ""),
    ("expect: [{metric: jobs, of: {seed: 1}, range: [1, 2]}]\n", "6:30", "seed does not vary", ""),
]


@pytest.mark.parametrize(("more", "place", "message", "hint"), WRONG, ids=lambda value: str(value)[:30].strip())
def test_errors_are_reported_with_their_line(page: Write, more: str, place: str, message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        checks.check(page(BASE + more))
    error = caught.value
    assert message in error.message
    assert hint in error.hint
    if message:
        assert f"study.yaml:{place}" in error.where


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ("{}", "expected one of file, ensemble, lublin, bursts and model"),
        ("{ensemble: {jobs: 1}, file: x.swf}", "expected one of file, ensemble, lublin, bursts and model"),
        ("{file: nothing.swf}", "no such file"),
        ("{ensemble: {jobs: 3}, jobs: 2}", "which has its own number of jobs"),
        ("{ensemble: {jobs: 3}, request: 'slot={size}/'}", "study.yaml:4"),
        ("{ensemble: {jobs: 3, run: 5}}", "unknown key 'run'"),
        ("{ensemble: {jobs: 3}, load: 0}", "expected a number"),
    ],
)
def test_a_workload_has_exactly_one_form(page: Write, workload: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        checks.check(page(f"fluxres-experiment: 1\nname: x\nmachine: 8\nworkload: {workload}\n"))


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ("nothing.yaml", "no such file"),
        ("0", "at least one processor"),
        ("{fluxres: 1, resources: [{typo: node}]}", "unknown key 'typo'"),
        ("[1]", "expected a whole number or text or a mapping"),
        ("node=", "study.yaml:3"),
    ],
)
def test_a_machine_is_read_before_the_first_run(page: Write, machine: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        checks.check(page(f"fluxres-experiment: 1\nname: x\nmachine: {machine}\nworkload: {{ensemble: {{jobs: 1}}}}\n"))


ON_THE_PAGE = """fluxres-experiment: 1
name: x
machine:
  fluxres: 1
  name: m
  resources:
    - type: node
      count: 2
      with: [{type: core, count: 4}]
workload: {ensemble: {jobs: 1}}
"""


@pytest.mark.parametrize(
    ("changed", "to", "where"),
    [
        ("count: 4", "count: four", ["9:34: machine.resources[0].with[0].count"]),
        ("      count: 2", "      cuont: 2", ["8:7: machine.resources[0].cuont"]),
        ("  name: m", "  nmae: m\n  uuids: 3", ["5:3: machine.nmae", "6:10: machine.uuids"]),
        (
            "workload:",
            "vary: {machine.resources.0.count: [2, many]}\nworkload:",
            ["10:39: vary.machine.resources.0.count[1]"],
        ),
        (
            "workload:",
            "vary: {machine: [2, {fluxres: 1, resources: [{type: core, count: x}]}]}\nworkload:",
            ["10:66: vary.machine[1].resources[0].count"],
        ),
        (
            "workload:",
            "cases: {a: {}, b: {machine.resources.0.with: [{type: core, count: x}]}}\nworkload:",
            ["10:67: cases.b.machine.resources.0.with[0].count"],
        ),
    ],
)
def test_mistakes_in_a_machine_on_the_page_are_at_their_lines(page: Write, changed: str, to: str, where: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        checks.check(page(ON_THE_PAGE.replace(changed, to)))
    assert [each.where.partition("study.yaml:")[2] for each in caught.value.mistakes] == where


def test_a_damaged_trace_is_reported_with_its_line_and_the_line_naming_it(page: Write, tmp_path: Path) -> None:
    (tmp_path / "trace.swf").write_text("; Version: 2\n1 0 0 x 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n")
    with pytest.raises(InputError, match=r"study\.yaml:4:.*trace\.swf:2:7.*expected a number, got 'x'"):
        checks.check(page("fluxres-experiment: 1\nname: x\nmachine: 8\nworkload: {file: trace.swf}\n"))


def test_the_number_of_runs_is_bounded(page: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RUNS_MAX", 5)
    with pytest.raises(LimitExceeded, match="6 runs, at most 5 are allowed"):
        page(BASE + "vary: {seed: [1, 2, 3], workload.load: [1, 2]}\n")


def test_the_page_of_the_documentation_can_be_run_and_names_every_key(tmp_path: Path) -> None:
    text = (ROOT / "specs" / "experiments.md").read_text(encoding="utf-8")
    found = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    (tmp_path / "clusters").symlink_to(ROOT / "data" / "clusters")
    (tmp_path / "x").mkdir()
    path = tmp_path / "x" / "study.yaml"
    path.write_text(found[1], encoding="utf-8")
    checks.check(study.load(path))
    kinds = (StudyDocument, WorkloadEntry, HierarchyEntry, CostEntry, FittedCost, MeasuredCost, Expectation)
    keys = {name for kind in (*kinds, EnsembleModel, LublinModel, BurstsModel) for name in kind.__struct_encode_fields__}
    assert sorted(key for key in {*keys, *FIGURES} if not re.search(rf"\b{key}\b", text)) == []


@pytest.mark.parametrize("request_", ["slot={size}/noed", "slot={size}/node/core=5"])
def test_a_request_that_the_machine_can_never_satisfy_is_found_before_the_first_run(page: Write, request_: str) -> None:
    text = (
        f'fluxres-experiment: 1\nname: x\nmachine: node=16/core=4\nworkload: {{ensemble: {{jobs: 5}}, request: "{request_}"}}\n'
    )
    with pytest.raises(InputError) as caught:
        checks.check(page(text))
    assert "workload.request" in caught.value.where
    checks.check(page(text.replace(request_, "slot={size}/node/core=4")))


def test_no_more_instances_than_pools_that_may_be_divided(page: Write) -> None:
    text = (
        "fluxres-experiment: 1\nname: x\nmachine: node=16/core=4\nunit: node\nworkload: {ensemble: {jobs: 5}}\n"
        "hierarchy: {topology: 40}\n"
    )
    with pytest.raises(InputError, match="40 innermost instances, but the machine has at most 16 of type node to divide"):
        checks.check(page(text))
    checks.check(page(text.replace("unit: node", "unit: core")))
    checks.check(page(text.replace("topology: 40", "topology: 40, divide: core")))

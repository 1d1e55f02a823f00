"""What studies compare: the same jobs, own results with guards, published values with claims, and enough repeats."""

from __future__ import annotations

import csv
import json
import re
from html import unescape
from pathlib import Path

import pytest

from fluxres.documents import yaml_document
from fluxres.errors import InputError
from fluxres.experiments import campaign, parts, report
from fluxres.experiments.comparison import check, compare, estimate, remarks, repeats_needed, warnings
from fluxres.experiments.folder import ResultsFolder
from fluxres.experiments.job_table import read_jobs
from fluxres.experiments.study import Study, of_document
from fluxres.simulation.results.distribution import Trim
from tests.experiments.conftest import Write

REFUSING = """
fluxres-experiment: 1
name: sets
machine: node=16
workload: {lublin: {jobs: 60, size: 16, overestimate: 2}, rate: 3}
repeats: 2
seed: 4
vary: {hierarchy.topology: [1, 2]}
baseline: {hierarchy.topology: 1}
metrics: [mean_wait_s, mean_bounded_slowdown]
"""
ALL = REFUSING.replace("hierarchy.topology: [1, 2]", "hierarchy.queue_policy: [fcfs, easy]").replace(
    "hierarchy.topology: 1}", "hierarchy.queue_policy: fcfs}"
)

pytestmark = pytest.mark.usefixtures("without_charts")


def waits(folder: Path) -> dict[str, float]:
    with (folder / "jobs.csv").open(encoding="utf-8") as file:
        return {row["job_id"]: float(row["waiting_time"]) for row in csv.DictReader(file) if row["waiting_time"]}


def test_settings_are_compared_on_the_jobs_that_both_ran(page: Write, tmp_path: Path) -> None:
    study = page(REFUSING)
    campaign.run(study, tmp_path / "a")
    found, _ = report.write(study, ResultsFolder(tmp_path / "a"))
    flat, halves = found.rows
    assert halves.common
    expected = []
    for (run, document), (base, _) in zip(halves.runs, flat.runs, strict=True):
        own, theirs = waits(found.folder.runs / run.key), waits(found.folder.runs / base.key)
        assert len(theirs) - len(own) == document["metrics"]["refused"]
        assert halves.common.get(run.repeat, 60) == len(own)
        expected.append(sum(own.values()) / sum(theirs[name] for name in own))
    ratio = halves.ratios["mean_wait_s"]
    assert ratio is not None
    assert ratio.mean == pytest.approx(sum(expected) / 2)
    # The ratio of the means of different jobs is another one.
    means = [row.figures["mean_wait_s"] for row in found.rows]
    assert means[0]
    assert means[1]
    assert ratio.mean != pytest.approx(means[1].mean / means[0].mean, rel=1e-3)
    (said,) = warnings(found)
    assert "topology 2: " in said
    assert "refused" in said
    assert said.endswith("Ratios are of the jobs that both settings ran.")
    text = (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    assert "<b>Warning:</b> settings ran different jobs." in text
    assert "<th scope=col class=n>jobs compared (number)</th>" in text


RESIZED = """
fluxres-experiment: 1
name: resized
machine: node=8
workload: {file: jobs.json}
resize_policy: expand-idle
vary: {hierarchy.topology: [1, 4]}
baseline: {hierarchy.topology: 1}
metrics: [utilisation, mean_turnaround_s]
"""


def test_what_jobs_held_is_not_compared_where_the_table_of_jobs_does_not_say_it(page: Write, tmp_path: Path) -> None:
    study = page(RESIZED)
    small = {"request": "slot=1/node", "submit": 0, "run": 10, "duration": 10}
    grows = {"request": "slot=2-8/node", "preferred": 2, "speedup": "linear", "malleable": True, "submit": 0, "run": 100}
    large = {"request": "slot=8/node", "submit": 100, "run": 10, "duration": 10}
    (study.folder / "jobs.json").write_text(json.dumps([small, grows | {"duration": 100}, large]))
    campaign.run(study, tmp_path / "a")
    _, apart = compare(study, ResultsFolder(tmp_path / "a")).rows
    assert apart.common == {0: 2}
    assert apart.ratios["utilisation"] is None
    assert apart.ratios["mean_turnaround_s"] is not None
    assert apart.ratios["mean_turnaround_s"].mean == pytest.approx((10 + 100) / (10 + 26.25))


def test_all_lines_of_a_job_in_a_trace_are_compared(page: Write, tmp_path: Path) -> None:
    rows = [(1, 0, 40, 2, 1), (7, 0, 10, 2, 2), (7, 5, 10, 2, 3), (8, 20, 10, 4, 1)]
    line = "{} {} -1 {run} {size} -1 -1 {size} {run} -1 {} 1 1 1 1 1 -1 -1\n".format
    study = page(RESIZED.replace("jobs.json", "parts.swf").replace("node=8", "node=4").replace("[1, 4]", "[1, 2]"))
    text = "".join(line(job, at, status, run=run, size=size) for job, at, run, size, status in rows)
    (study.folder / "parts.swf").write_text(text)
    campaign.run(study, tmp_path / "a")
    whole, halves = compare(study, ResultsFolder(tmp_path / "a")).rows
    assert halves.common == {0: 3}
    table = read_jobs(tmp_path / "a" / "runs" / whole.runs[0][0].key / "jobs.csv", 4, Trim(), is_complete=True)
    assert table.metrics({("1", 1), ("7", 2)})["jobs"] == 3


def test_different_jobs_that_a_trim_leaves_out_in_a_closed_loop_are_a_warning(page: Write, tmp_path: Path) -> None:
    study = page(ALL + "trim: {warm_up: 0.2}\nfeedback: sessions\n")
    campaign.run(study, tmp_path / "a")
    assert any("closed loop" in each for each in warnings(compare(study, ResultsFolder(tmp_path / "a"))))


def test_a_metric_that_no_run_has_is_a_warning(page: Write, tmp_path: Path) -> None:
    study = page(ALL.replace("metrics: [", "metrics: [boots, energy_j, "))
    campaign.run(study, tmp_path / "a")
    assert warnings(compare(study, ResultsFolder(tmp_path / "a"))) == ["no run has a value of boots, energy_j."]
    drawing = page(ALL.replace("metrics: [", "energy: {idle_w: 100, full_w: 200}\nmetrics: [boots, energy_j, "))
    campaign.run(drawing, tmp_path / "b")
    assert warnings(compare(drawing, ResultsFolder(tmp_path / "b"))) == []


def test_repeats_that_are_all_alike_are_one_result(page: Write, tmp_path: Path) -> None:
    head = "fluxres-experiment: 1\nname: x\nmachine: node=4\nrepeats: 3\n"
    study = page(f"{head}workload: [{{ensemble: {{jobs: 9, run_s: 5}}}}, {{lublin: {{jobs: 20, size: 4}}}}]\n")
    campaign.run(study, tmp_path / "a")
    found, _ = report.write(study, ResultsFolder(tmp_path / "a"))
    (said,) = warnings(found)
    assert said.startswith("the runs of 1 setting (workload ensemble) are all alike")
    assert said in (tmp_path / "a" / "report.html").read_text(encoding="utf-8")


def test_settings_that_ran_the_same_jobs_cause_no_warning(page: Write, tmp_path: Path) -> None:
    study = page(ALL)
    campaign.run(study, tmp_path / "a")
    found, _ = report.write(study, ResultsFolder(tmp_path / "a"))
    assert warnings(found) == []
    assert not any(row.common for row in found.rows)
    with (tmp_path / "a" / "pairs.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["jobs"] for row in rows] == ["all"] * 4
    own = next(row for row in rows if (row["metric"], row["setting"]) == ("mean_wait_s", "queue_policy easy"))
    ratio = found.rows[1].ratios["mean_wait_s"]
    assert ratio is not None
    assert float(own["ratio"]) == ratio.mean


DISTURBED = """
fluxres-experiment: 1
name: disturbed
machine: node=4/core=1
inventory: graph
event_order: batched
workload: {file: jobs.yaml}
disturbances: {events: events.yaml, on_failure: requeue}
accounting: {partitions: {p: {default: true, max_size: 3, max_time: 1h}}, users: {ann: {}, bob: {}}}
"""
JOBS = "[{request: -N4, run: 5, duration: 9}, {request: -N2, run: 5, duration: 9}]"
EVENTS = "[{at: 1, down: node0}, {at: 2, up: node0}, {at: 3, cancel: x}, {at: 3, cancel: y}]"


def test_a_report_says_why_jobs_did_not_run_and_what_a_run_depends_on(page: Write, tmp_path: Path) -> None:
    study = page(DISTURBED)
    (study.folder / "jobs.yaml").write_text(JOBS)
    (study.folder / "events.yaml").write_text(EVENTS)
    campaign.run(study, tmp_path / "a")
    found, _ = report.write(study, ResultsFolder(tmp_path / "a"))
    assert list(remarks(found)) == [
        "run 001: 1 job never started, partition p: requests more than max_size allows: 3 nodes",
        "run 001: cancel: no job with this id had been submitted (the first was x) (2 times)",
    ]
    text = (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    assert all(line in text for line in remarks(found))
    for key, value in (
        ("inventory", "graph"),
        ("order of events", "batched"),
        ("disturbances", "events: events.yaml, on_failure: requeue"),
        ("accounting", "1 partition, 2 users"),
    ):
        assert f"<th scope=row>{key}</th><td>{value}</td>" in text
    assert study.shown[-2:] == ["goodput", "interruptions"]


POWERED = """
fluxres-experiment: 1
name: powered
machine: node=4
workload: {ensemble: {jobs: 4, run_s: 10}}
energy: {idle_w: 100, full_w: 200, cap: [{at_s: 0, watts: 1000}, {at_s: 1234567.5, watts: null}]}
feedback: think
trim: {warm_up: 0.25}
cases:
  limits: {}
  predicted: {prediction: {predictor: perfect}, hierarchy.queue_policy: fcfs, cost: {fixed_s: 1.0e-5}}
"""
LEVELS = """
fluxres-experiment: 1
name: levels
machine: node=2/core=2
unit: core
workload: {ensemble: {jobs: 4, run_s: 1}}
hierarchy: {topology: 2}
cost: [{fixed_s: 0.01, boot: {messages: 2}}, {event_s: 0.5}]
"""
DRAWING = """
fluxres-experiment: 1
name: drawing
machine:
  fluxres: 1
  name: m
  resources: [{type: node, count: 2, properties: {wattage_per_state: "100:200"}}]
workload: {ensemble: {jobs: 1, run_s: 1}}
"""
FACTS = {
    "energy": "idle_w: 100, full_w: 200, cap: [{at_s: 0, watts: 1000}, {at_s: 1234567.5, watts: null}]",
    "feedback": "think",
    "jobs left out": "warm_up: 0.25",
    "case limits": "as the page says",
    "case predicted": "prediction: {predictor: perfect}, hierarchy.queue_policy: fcfs, cost: {fixed_s: 1e-05}",
}


def facts(study: Study, folder: Path) -> dict[str, str]:
    """How a report says that its results were made."""
    campaign.run(study, folder)
    report.write(study, ResultsFolder(folder))
    text = (folder / "report.html").read_text(encoding="utf-8")
    return {key: unescape(value) for key, value in re.findall(r"<th scope=row>(.*?)</th><td>(.*?)</td>", text)}


def test_a_report_names_every_setting(page: Write, tmp_path: Path) -> None:
    assert facts(page(POWERED), tmp_path / "a").items() >= FACTS.items()
    levels = facts(page(LEVELS), tmp_path / "b")
    assert levels["cost of a decision"] == "level 0: fixed_s: 0.01, boot: {messages: 2}; level 1: event_s: 0.5"
    assert "energy" not in levels


def test_a_report_says_that_nodes_themselves_say_what_they_draw(page: Write, tmp_path: Path) -> None:
    assert facts(page(DRAWING), tmp_path / "a")["energy"] == "by the properties of the nodes"


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        ("range: [0, 1.0e9]", "unchanged"),
        ("range: [0, 1.0e-9]", "CHANGED"),
        ("published: 5, source: a paper", "beside what was published"),
        ("published: 5, range: [0, 1.0e9], source: a paper", "agrees with what was published"),
        ("published: 5, within: 1.0e-6, source: a paper", "DIFFERS FROM WHAT WAS PUBLISHED"),
    ],
)
def test_a_guard_never_claims_agreement_with_others(bounds: str, verdict: str, page: Write, tmp_path: Path) -> None:
    study = page(ALL + f"expect:\n  - {{metric: mean_wait_s, of: {{hierarchy.queue_policy: fcfs}}, {bounds}}}\n")
    campaign.run(study, tmp_path / "a")
    found, _ = report.write(study, ResultsFolder(tmp_path / "a"))
    (checked,) = check(found)
    assert (checked.verdict, checked.holds) == (verdict, verdict == verdict.lower())
    text = (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    is_guard = "published" not in bounds
    assert ("Guards of these results" in text, "<h2>Published values</h2>" in text) == (is_guard, not is_guard)
    assert ("published" in checked.text) is not is_guard


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ("published: 60, range: [62, 80], source: x", r"the published value 60 is not within \[62, 80\]"),
        ("published: 60", "a published value needs a 'source'"),
        ("within: 0.1, range: [1, 2]", "'within' is a fraction of a published value"),
        ("published: 60, ratio: [50, 70], source: x", "expected a 'range', or a 'ratio' and 'against'"),
    ],
)
def test_claims_that_make_no_sense_are_refused(bounds: str, message: str) -> None:
    text = ALL + f"expect:\n  - {{metric: mean_wait_s, {bounds}}}\n"
    with pytest.raises(InputError, match=message):
        of_document(yaml_document.load(text.encode()), Path())


STOPPING = ALL.replace("repeats: 2", "repeats: 12") + "stop: {metric: mean_wait_s, within: %s, least: 3}\n"


@pytest.mark.parametrize("within", [0.001, 0.9, 9])
def test_a_study_stops_when_its_intervals_are_small_enough(within: float, page: Write, tmp_path: Path) -> None:
    study = page(STOPPING % within)
    made = campaign.run(study, tmp_path / "a")
    found = compare(study, ResultsFolder(tmp_path / "a"))
    needed = repeats_needed(found)
    assert made.made == 2 * needed
    assert found.missing == []
    assert {len(row.runs) for row in found.rows} == {needed}

    def is_small(number: int) -> bool:
        values = [[document["metrics"]["mean_wait_s"] for _, document in row.runs[:number]] for row in found.rows]
        return all((own := estimate(one)) and own.half <= within * own.mean for one in values)

    steps = [3, 4, 5, 6, 7, 8, 10, 12]
    assert needed == next((number for number in steps if number <= needed and is_small(number)), 12)
    assert campaign.run(study, tmp_path / "a").made == 0
    assert f"{needed} of each of 2 settings: repeated until" in _text(study, tmp_path / "a")


def _text(study: Study, folder: Path) -> str:
    report.write(study, ResultsFolder(folder))
    return (folder / "report.html").read_text(encoding="utf-8")


def test_an_interrupted_study_with_a_stopping_rule_goes_on(page: Write, tmp_path: Path) -> None:
    study = page(STOPPING % 0.9)
    whole, parts_of = tmp_path / "whole", tmp_path / "parts"
    campaign.run(study, whole)

    def stop(done: float, _: str) -> None:
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign.run(study, parts_of, on_progress=stop)
    campaign.run(study, parts_of)
    assert sorted(path.name for path in (parts_of / "runs").iterdir()) == sorted(path.name for path in (whole / "runs").iterdir())


@pytest.mark.parametrize("load", [0.4, 1.3])
def test_jobs_arrive_as_fast_as_the_offered_load_needs(load: float, page: Write, tmp_path: Path) -> None:
    study = page(ALL.replace("rate: 3", f"offered_load: {load}"))
    campaign.run(study, tmp_path / "a")
    for row in compare(study, ResultsFolder(tmp_path / "a")).rows:
        assert all(document["metrics"]["offered_load"] == pytest.approx(load, rel=1e-3) for _, document in row.runs)


def test_load_is_an_older_word_for_rate(page: Write) -> None:
    starts = [
        [job.submit for job in parts.workload(page(ALL.replace("rate", word)).runs[0], 16).submissions]
        for word in ("rate", "load")
    ]
    assert starts[0] == starts[1]


def test_figures_are_trimmed_on_request(page: Write, tmp_path: Path) -> None:
    found = {}
    for name, text in (("all", ALL), ("trimmed", ALL + "trim: {warm_up: 0.2, drain: 0.1}\n")):
        study = page(text)
        campaign.run(study, tmp_path / name)
        run, document = compare(study, ResultsFolder(tmp_path / name)).rows[0].runs[0]
        found[name] = document["metrics"]
        own = waits(tmp_path / name / "runs" / run.key)
        order = sorted(own, key=int)  # jobs of a model are numbered by submission
        kept = order[12:54] if name == "trimmed" else order
        assert document["metrics"]["mean_wait_s"] == pytest.approx(sum(own[job] for job in kept) / len(kept), abs=1e-6)
    assert found["all"]["makespan_s"] == found["trimmed"]["makespan_s"]
    assert "Without the first 20% and the last 10% of the jobs" in _text(study, tmp_path / "trimmed")


def test_intervals_of_positive_values_are_positive() -> None:
    values = [1.0, 1.2, 0.8, 40.0, 1.1]
    own = estimate(values)
    assert own is not None
    assert own.method == "log"
    assert own.low is not None
    assert own.high is not None
    assert 0 < own.low < own.mean < own.high
    mixed = estimate([-1.0, 5.0, -3.0])
    assert mixed is not None
    assert mixed.method == "t"
    assert mixed.low is not None
    assert mixed.low < 0


def test_jobs_left_waiting_and_cut_stand_beside_the_figures(page: Write, tmp_path: Path) -> None:
    study = page(ALL.replace("rate: 3", "rate: 3, cut: true").replace("machine: node=16", "machine: node=8"))
    campaign.run(study, tmp_path / "a")
    found = compare(study, ResultsFolder(tmp_path / "a"))
    cut = [document["metrics"]["cut"] for _, document in found.rows[0].runs]
    assert sum(cut) > 0
    assert "cut to the machine" in _text(study, tmp_path / "a")
    document = json.loads((found.folder.runs / study.runs[0].key / "metrics.json").read_text(encoding="utf-8"))
    assert document["metrics"]["cut"] == document["workload"]["notes"][parts.CUT]

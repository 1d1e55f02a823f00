"""Settings of a study that are run in processes as well, beside their simulations."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fluxres.cli.program import program
from fluxres.documents import yaml_document
from fluxres.errors import UsageError
from fluxres.experiments import parts, real
from fluxres.experiments.study import of_document

STUDY = """
fluxres-experiment: 1
name: both
machine: node=2/core=1
unit: core
workload: {ensemble: {jobs: 6, run_s: 0.1}}
vary: {hierarchy.topology: [1, 2]}
baseline: {hierarchy.topology: 1}
"""


def run(place: Path, text: str, *more: str) -> Result:
    (place / "study.yaml").write_text(text, encoding="utf-8")
    return CliRunner().invoke(program, ["experiment", "run", str(place / "study.yaml"), "--out", str(place / "out"), *more])


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The study, run in processes as well."""
    place = tmp_path_factory.mktemp("real")
    return place, run(place, STUDY, "--real", "--json")


@pytest.fixture
def place(done: tuple[Path, Result], tmp_path: Path) -> Path:
    """A copy of its folder."""
    return Path(shutil.copytree(done[0], tmp_path / "copy"))


def test_real_runs_stand_beside_the_simulated_ones(done: tuple[Path, Result]) -> None:
    folder, result = done
    assert result.exit_code == 0, result.output
    flat, two = json.loads(result.stdout)["real"]
    for each, instances in ((flat, 1), (two, 3)):
        assert (each["jobs"], each["completed"], each["failed"], each["instances"]) == (6, 6, 0, instances)
        assert each["simulated_s"] == pytest.approx(0.3)  # six jobs of 0.1 s on two cores
        assert each["real_s"] >= 0.3
        assert each["ratio"] == pytest.approx(each["real_s"] / each["simulated_s"])
    text = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Simulated and real</h2>" in text
    assert "<td class=n>0.3</td>" in text
    for place, topology in zip(sorted(folder.glob("out/runs/*")), (flat, two), strict=True):
        starts = real.read_starts(place)
        assert starts is not None
        assert starts.simulated_s == pytest.approx([0, 0, 0.1, 0.1, 0.2, 0.2])
        assert starts.real_s == sorted(starts.real_s)
        assert len(starts.real_s) == 6
        # A core runs one job after the other: the third start is the end of the first, at least.
        assert starts.real_s[0] >= topology["boot_s"]
        assert starts.real_s[4] >= starts.real_s[0] + 0.2
        assert starts.real_s[5] + 0.1 <= topology["real_s"] + 0.05
        assert min(starts.later_s) >= 0
    assert "starts later, mean (s)" in text


@pytest.mark.usefixtures("without_charts")
def test_a_measured_setting_is_not_run_again(place: Path) -> None:
    kept = [path.read_bytes() for path in sorted(place.glob("out/runs/*/real.json"))]
    assert len(kept) == 2
    again = run(place, STUDY, "--real")
    assert [path.read_bytes() for path in sorted(place.glob("out/runs/*/real.json"))] == kept
    assert re.search(r"topology 2 +0\.3 +[\d.]+ +[\d.]+ +[\d.]+ +6/6", again.output), again.output


@pytest.mark.usefixtures("without_charts")
def test_the_table_is_there_without_the_option_and_damage_is_named(place: Path) -> None:
    assert "REAL / SIMULATED" in CliRunner().invoke(program, ["experiment", "report", str(place / "out")]).output
    (next(place.glob("out/runs/*/real.json"))).write_text("{}")
    damaged = CliRunner().invoke(program, ["experiment", "report", str(place / "out")])
    assert (damaged.exit_code, "remove it and run the study with --real again" in damaged.output) == (2, True)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("workload: {lublin: {jobs: 5}}", "an ensemble of equal jobs"),
        ("workload: {ensemble: {jobs: 6, run_s: 1, distribution: uniform}}", "an ensemble of equal jobs"),
        ("workload: {ensemble: {jobs: 6, run_s: 1, interval_s: 2}}", "an ensemble of equal jobs"),
        ("disturbances: {on_failure: requeue}", "real runs have no disturbances"),
        ("accounting: {partitions: {p: {}}}", "real runs have no accounting"),
        ("energy: {idle_w: 10, full_w: 20}", "real runs have no energy"),
        ("prediction: {predictor: tsafrir}", "real runs have no prediction"),
        ("workload: {ensemble: {jobs: 6, run_s: 1}, estimates: exact}", "real runs have no workload.estimates"),
        (
            "workload: {ensemble: {jobs: 6, run_s: 1}, adaptive: {kind: moldable, speedup: linear}}",
            "real runs have no workload.adaptive",
        ),
        ("hierarchy: {starts_per_node: 1}", "real runs have no hierarchy.starts_per_node"),
        ("hierarchy: {balance: steal}", "real runs have no hierarchy.balance"),
    ],
)
def test_what_only_a_simulation_has_is_refused_before_anything_runs(tmp_path: Path, changed: str, words: str) -> None:
    key = changed.partition(":")[0]
    text = "".join(line + "\n" for line in STUDY.strip().splitlines() if not line.startswith(f"{key}:")) + changed + "\n"
    if key in ("accounting", "hierarchy"):
        text = text.replace("vary: {hierarchy.topology: [1, 2]}\nbaseline: {hierarchy.topology: 1}\n", "")
    result = run(tmp_path, text, "--real")
    assert (result.exit_code, words in result.output, (tmp_path / "out").exists()) == (2, True, False), result.output
    line = (tmp_path / "study.yaml").read_text(encoding="utf-8").splitlines().index(changed) + 1
    assert f"study.yaml:{line}:" in result.output


def test_a_real_run_that_could_not_start_is_refused_at_the_hierarchy(tmp_path: Path) -> None:
    result = run(tmp_path, STUDY.replace("run_s: 0.1", "run_s: 0.1, size: 4"), "--real")
    assert (result.exit_code, (tmp_path / "out").exists()) == (2, False)
    assert re.search(r"study\.yaml:7:29: vary\.hierarchy\.topology\[0\]: .*a job asks for more", result.output), result.output


def test_requests_and_limits_are_those_of_the_ensemble() -> None:
    text = STUDY.replace("{jobs: 6, run_s: 0.1}", "{jobs: 6, run_s: 0, size: 2, limit_s: 5}")
    study = of_document(yaml_document.load(text.encode()), Path())
    found = real.wanted(study.runs[0])
    assert found[3:] == (6, "instant", "slot=1/core=2", 5.0)
    assert found.hierarchy == parts.hierarchy(study.runs[0].page.hierarchy, 2)
    with pytest.raises(UsageError, match=r"hierarchy\.parts"):
        real.wanted(of_document(yaml_document.load((STUDY + "hierarchy: {parts: [1, 1]}\n").encode()), Path()).runs[0])

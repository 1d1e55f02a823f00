"""Cases, which set several values at once; parts by their size; how much of the machine was used; how well fits describe runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import InputError
from fluxres.experiments import campaign, comparison, report
from fluxres.experiments.figures import most_at_once
from fluxres.experiments.folder import ResultsFolder
from fluxres.experiments.parts import levels_of
from fluxres.experiments.study import HierarchyEntry
from fluxres.simulation.costs import models
from fluxres.simulation.costs.cost import Fitted, Measured
from fluxres.simulation.costs.decision import Decision
from fluxres.simulation.costs.fit import Fit
from fluxres.simulation.metrics import Series
from fluxres.simulation.results.numbering import UsedUnits
from fluxres.simulation.schedule import Finished
from fluxres.syntax import idset
from tests.experiments.conftest import Write

CASES = """\
fluxres-experiment: 1
name: cases
machine: node=4/core=4
unit: core
workload:
  ensemble: {jobs: 32, run_s: 1}
hierarchy: {queue_policy: fcfs}
cost: {fixed_s: 0.01}
cases:
  flat: {}
  two: {hierarchy.parts: [4], cost.fixed_s: 0.02}
vary:
  workload.ensemble.run_s: [0, 1]
baseline: {case: flat}
"""


def test_a_case_sets_several_values_beside_what_varies(page: Write, tmp_path: Path) -> None:
    study = page(CASES)
    assert [run.settings for run in study.runs] == [
        {"case": case, "workload.ensemble.run_s": run_s} for case in ("flat", "two") for run_s in (0, 1)
    ]
    flat, two = study.runs[0].page, study.runs[2].page
    assert (flat.hierarchy.parts, two.hierarchy.parts) == (None, [4])
    assert [each.cost.fixed_s for each in (flat, two) if not isinstance(each.cost, str)] == [0.01, 0.02]
    assert campaign.run(study, tmp_path / "a").failed == {}
    found = comparison.compare(study, ResultsFolder(tmp_path / "a"))
    instances = [row.figures["instances"] for row in found.rows]
    assert [own.mean for own in instances if own] == [1, 1, 5, 5]
    assert [found.base(row, study.page.baseline) for row in found.rows] == [found.rows[0], found.rows[1]] * 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hierarchy.parts: [4]", "hierarchy.no: 4", "no"),
        ("hierarchy.parts: [4]", "repeats: 4", "repeats is not a setting of a run"),
        ("hierarchy.parts: [4]", "workload.ensemble.run_s: 4", "varies as well"),
        ("vary:\n", "vary:\n  case: [flat]\n", "case is not a setting of a run"),
        ("{case: flat}", "{case: none}", "case is never none"),
    ],
)
def test_wrong_cases_are_refused_at_their_line(old: str, new: str, message: str, page: Write) -> None:
    with pytest.raises(InputError, match=message) as refused:
        page(CASES.replace(old, new))
    assert "study.yaml:" in refused.value.where


@pytest.mark.parametrize(
    ("workloads", "axis"),
    [
        ("workload: [{name: a, ensemble: {jobs: 2, run_s: 1}}, {name: b, ensemble: {jobs: 3, run_s: 1}}]", "vary: {}"),
        ("workload: 4", "vary: {workload: [{name: a, ensemble: {jobs: 2}}, {name: b, ensemble: {jobs: 3}}]}"),
    ],
)
def test_a_case_sets_a_key_of_each_workload_that_varies(workloads: str, axis: str, page: Write) -> None:
    """Before, the workload replaced what the case had set, and the report named the case all the same."""
    head = "fluxres-experiment: 1\nname: cases\nmachine: node=4\n"
    first = "workload: {ensemble: {jobs: 1}}" if workloads.endswith("4") else workloads
    study = page(f"{head}{first}\ncases: {{as it is: {{}}, faster: {{workload.rate: 3}}}}\n{axis}\n")
    assert [(run.settings["case"], run.workload.name, run.workload.rate) for run in study.runs] == [
        ("as it is", "a", None),
        ("as it is", "b", None),
        ("faster", "a", 3.0),
        ("faster", "b", 3.0),
    ]


def test_what_varies_is_set_from_above_to_below(page: Write) -> None:
    varied = "vary:\n  hierarchy.boot_s: [1, 2]\n  hierarchy: [{topology: 2}, {topology: 4}]\n"
    study = page(f"fluxres-experiment: 1\nname: x\nmachine: node=4\nworkload: {{ensemble: {{jobs: 1}}}}\n{varied}")
    assert [(run.page.hierarchy.topology, run.page.hierarchy.boot_s) for run in study.runs] == [(2, 1), (4, 1), (2, 2), (4, 2)]


@given(st.lists(st.integers(1, 5), max_size=3))
def test_parts_are_a_topology_by_size(fans: list[int]) -> None:
    units, sizes = 1, []
    for number in reversed(fans):
        sizes.insert(0, units)
        units *= number
    found = levels_of(HierarchyEntry(parts=sizes), units)
    assert found == (tuple(fans) if any(number > 1 for number in fans) else ())


def test_parts_that_do_not_divide_the_machine_are_refused(page: Write, tmp_path: Path) -> None:
    ended = campaign.run(page(CASES.replace("[4]", "[3]")), tmp_path / "a")
    assert len(ended.failed) == 2
    assert all("16 units cannot be divided into parts of 3" in error for error in ended.failed.values())


def _job(start: int, end: int, units: str) -> Finished:
    class Text:
        def ids(self, claim: object) -> str:
            return str(claim)

    inventory: object = Text()
    return Finished(1, 0, start, end, 0, 1, 0, "completed", None, 0, units, inventory)  # type: ignore[arg-type]  # only ids


class Ignored:
    def add(self, job: Finished) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


@given(st.lists(st.tuples(st.integers(-1, 9), st.integers(0, 5), st.integers(0, 20), st.integers(1, 6))))
def test_use_of_the_machine_is_counted_unit_by_unit(jobs: list[tuple[int, int, int, int]]) -> None:
    used, series = UsedUnits(Ignored()), Series()
    for start, length, first, number in jobs:
        job = _job(start, start + length, idset.format(range(first, first + number)))
        used.add(job)
        series.add(job)
    assert used.count == len({unit for _, _, first, number in jobs for unit in range(first, first + number)})
    at_once = [sum(start >= 0 and start <= moment < start + length for start, length, _, _ in jobs) for moment in range(16)]
    assert most_at_once(series) == max(at_once)


@pytest.mark.usefixtures("without_charts")
def test_a_hierarchy_that_uses_a_part_of_the_machine_says_so(page: Write, tmp_path: Path) -> None:
    study = page(CASES.replace("jobs: 32", "jobs: 4"))
    campaign.run(study, tmp_path / "a")
    found, _ = report.write(study, ResultsFolder(tmp_path / "a"))
    (said,) = comparison.warnings(found)
    assert "case two, run_s 1: 4 of 16 units (core)" in said
    assert "case flat" not in said
    text = (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    assert said in text
    assert "units ever used (units)" in text


def test_a_fit_says_how_much_it_does_not_explain() -> None:
    made = [Decision(tried, tried % 2, 9, 16, took) for tried, took in ((1, 0.3), (2, 0.5), (3, 0.4), (4, 0.8), (5, 0.7))]
    fit = Fit(Measured())
    taken = [fit.decide(each) for each in made]
    left = [own - fit.fitted().decide(each) for each, own in zip(made, taken, strict=True)]
    mean = sum(taken) / 5
    quality = fit.quality()
    assert (quality.decisions, quality.mean_s) == (5, pytest.approx(mean))
    assert quality.residual_s == pytest.approx((sum(each**2 for each in left) / 5) ** 0.5)
    assert quality.explained == pytest.approx(1 - sum(each**2 for each in left) / sum((own - mean) ** 2 for own in taken))
    assert 0 < quality.explained < 1


def test_a_fit_of_nothing_and_of_equal_decisions_is_exact() -> None:
    assert Fit(Measured()).quality() == (0, 0.0, 0.0, 1.0, ())
    fit = Fit(Fitted(base_s=0.5))
    for tried in (1, 2, 3):
        fit.decide(Decision(tried, 1, 9, 16, 0.0))
    assert fit.quality().explained == 1.0
    assert fit.quality().residual_s == pytest.approx(0.0, abs=1e-9)


@pytest.mark.usefixtures("without_charts")
def test_the_report_names_models_with_their_sources_and_residuals(page: Write, tmp_path: Path) -> None:
    text = """
fluxres-experiment: 1
name: models
machine: node=4/core=8
workload: {ensemble: {jobs: 20}}
cost: {model: fluxion-low}
vary: {cost.model: [fluxion-low, flux-core-2025]}
"""
    study = page(text)
    campaign.run(study, tmp_path / "a")
    report.write(study, ResultsFolder(tmp_path / "a"))
    written = (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    for name in ("fluxion-low", "flux-core-2025"):
        model = models.find(name)
        assert model.source in written
        assert model.residuals in written

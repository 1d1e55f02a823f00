"""The studies of data/experiments can be run; small ones are run and give the expected results.

`tests/docs/test_studies.py` makes single runs of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fluxres.documents import yaml_document
from fluxres.experiments import campaign, checks, comparison, study
from fluxres.experiments.folder import ResultsFolder
from tests.docs import studies
from tests.docs.test_studies import RUNS
from tests.traceability import ROOT

EXAMPLES = sorted((ROOT / "data" / "experiments").glob("*.yaml"))


def test_examples_exist() -> None:
    assert {path.stem for path in EXAMPLES} >= {"levels", "policies", "power", "sharing"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_valid(path: Path) -> None:
    found = study.load(path)
    checks.check(found)
    assert found.page.expect
    assert found.page.baseline


@pytest.mark.parametrize(
    "path",
    [path for path in EXAMPLES if "lublin" in path.read_text(encoding="utf-8") and path.stem not in RUNS],
    ids=lambda path: path.stem,
)
def test_small_part_of_an_example_runs(path: Path, tmp_path: Path) -> None:
    document = yaml_document.load(path)
    values: Any = document.values
    values["repeats"] = 1
    for entry in values["workload"] if isinstance(values["workload"], list) else [values["workload"]]:
        entry["lublin"]["jobs"] = 60
    ended = campaign.run(study.of_document(document, path.parent), tmp_path / "a")
    assert ended.failed == {}


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_meets_its_expectations_and_measures_what_the_document_says(path: Path, tmp_path: Path) -> None:
    found, folder = study.load(path), ResultsFolder(tmp_path / "a")
    assert campaign.run(found, folder.path, processes=2).failed == {}
    compared = comparison.compare(found, folder)
    assert [each.text for each in comparison.check(compared) if not each.holds] == []
    assert studies.measured_runs(found, folder) == studies.recorded()[path.stem].runs
    for row, shown in zip(compared.rows, studies.rows(path.stem), strict=True):  # as if all settings ran the same jobs
        for name in found.shown:
            for own, theirs in ((row.figures[name], shown.figures[name]), (row.ratios[name], shown.ratios[name])):
                assert (own is None) == (theirs is None)
                assert own is None or own.mean == pytest.approx(theirs.mean)

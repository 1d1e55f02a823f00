"""The studies of data/experiments can be run; small ones are run and give the expected results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fluxres.documents import yaml_document
from fluxres.experiments import campaign, checks, comparison, study
from fluxres.experiments.folder import ResultsFolder
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
    "path", [path for path in EXAMPLES if "lublin" in path.read_text(encoding="utf-8")], ids=lambda path: path.stem
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
def test_example_meets_its_expectations(path: Path, tmp_path: Path) -> None:
    found = study.load(path)
    assert campaign.run(found, tmp_path / "a", processes=2).failed == {}
    checked = comparison.check(comparison.compare(found, ResultsFolder(tmp_path / "a")))
    assert [each.text for each in checked if not each.holds] == []

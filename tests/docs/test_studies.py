"""The figures of the studies in specs/experiments.md are what the studies measure."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest

from fluxres.experiments import execution
from tests.docs import studies

TEXT = studies.PAGE.read_text(encoding="utf-8")
HOW = "python -m tests.docs.studies RESULTS records and writes them again"


@pytest.mark.parametrize("name", studies.names())
def test_a_study_has_a_section_with_its_figures(name: str) -> None:
    section = re.search(rf"^### {name}\n(.*?)(?=^##)", TEXT, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert studies.BLOCK.search(section[1])
    row = re.search(rf"^\| \[{name}\]\(#{name}\) \| (\d+) \|", TEXT, re.MULTILINE)
    assert row is not None
    assert int(row[1]) == len(studies.load(name).runs)


def test_the_tables_are_those_of_the_record() -> None:
    assert studies.with_tables(TEXT) == TEXT, HOW


@pytest.mark.parametrize("name", studies.names())
def test_the_record_is_of_the_page_as_it_is(name: str) -> None:
    recorded = studies.recorded()[name]
    assert recorded.page == studies.digest(name), HOW
    assert [*recorded.runs] == [run.key for run in studies.load(name).runs]


@pytest.mark.parametrize("name", studies.PICTURES)
def test_a_picture_shows_the_figures_of_the_record(name: str) -> None:
    pytest.importorskip("matplotlib")
    drawn = (studies.FIGURES / f"experiment-{name}.svg").read_text(encoding="utf-8")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert texts == re.findall(r"<text[^>]*>([^<]*)</text>", studies.picture(name).decode()), HOW


def test_the_readme_shows_the_figures_of_the_record() -> None:
    readme = (studies.ROOT / "README.md").read_text(encoding="utf-8")
    for row in studies.rows("levels"):
        assumption, topology = row.settings["case"], row.settings["hierarchy.topology"]
        (shown,) = re.findall(rf"^{assumption} +{topology} +([\d,.]+) +×([\d.]+) +([\d,.]+) +×([\d.]+)$", readme, re.MULTILINE)
        of = [each for name in ("throughput_per_s", "makespan_s") for each in (row.figures[name], row.ratios[name])]
        for text, estimate, digits in zip(shown, of, (4, 3, 4, 3), strict=True):
            value = 1.0 if estimate is None else estimate.mean
            assert f"{float(text.replace(',', '')):.{digits}g}" == f"{value:.{digits}g}", (assumption, topology, text)


RUNS = {
    "cost-models": 40,
    "energy": 25,
    "estimates": 50,
    "failures": 40,
    "levels": 2,
    "malleable": 50,
    "policies": 60,
    "power-nested": 40,
    "sharing": 1,
}
"""A short run of each study of which one takes a second: `pytest -m slow tests/experiments/test_examples.py` makes all of all."""


@pytest.mark.parametrize(("name", "number"), RUNS.items(), ids=RUNS)
def test_a_run_measures_what_is_recorded(name: str, number: int, tmp_path: Path) -> None:
    found = studies.load(name)
    run = found.runs[number - 1]
    assert execution.execute(run, tmp_path).error == ""
    document = orjson.loads((tmp_path / "metrics.json").read_bytes())
    assert studies.measured(found, document["metrics"]) == studies.recorded()[name].runs[run.key], HOW

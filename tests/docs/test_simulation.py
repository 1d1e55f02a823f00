"""The table of features in specs/simulation.md: what it says of fluxres has tests, and what it says of others has sources."""

from __future__ import annotations

import re

import pytest

from tests.traceability import ROOT

SECTION = (ROOT / "specs" / "simulation.md").read_text(encoding="utf-8").partition("## Features, beside")[2].partition("\n## ")[0]
HEADINGS, _, *ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in SECTION.splitlines() if line.startswith("|")
]


def test_it_has_a_column_for_each_of_the_others() -> None:
    assert HEADINGS[1:] == ["fluxres", "Batsim", "AccaSim", "Alea", "Slurm simulators", "ElastiSim"]
    assert {len(row) for row in ROWS} == {len(HEADINGS)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_yes_names_tests_that_exist(row: list[str]) -> None:
    assert row[1] == "no" or row[1].startswith("yes (")
    named = re.findall(r"`([\w/]+)`", row[1])
    assert bool(named) == row[1].startswith("yes")
    for name in named:
        assert "\ndef test_" in (ROOT / "tests" / f"{name}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", HEADINGS[2:])
def test_others_have_sources(name: str) -> None:
    source = re.search(rf"^- {name}: (.*?)(?=^- |^$)", SECTION, re.MULTILINE | re.DOTALL)
    assert source is not None
    assert "](https://" in source[1]

"""The schedules of all studies, walked unit by unit: at the leaves and at each level nothing is allocated twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fluxres.experiments.study import Run
from fluxres.instance.upstream import ParentSupply
from tests.experiments.walking import STUDIES, Row, load, simulated, walk


def with_every_value(runs: Sequence[Run]) -> Iterator[Run]:
    """Those that have a value of a setting that none before them has."""
    seen = set[tuple[str, str]]()
    for run in runs:
        values = {(name, repr(value)) for name, value in run.settings.items()}
        if not values <= seen:
            yield run
        seen |= values


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.yaml")), ids=lambda path: path.stem)
def test_rule_n1_every_unit_of_a_study_is_allocated_once(path: Path, deeper: float) -> None:
    runs = load(path, small=True).runs
    for run in runs if deeper >= 1 else with_every_value(runs):
        found = walk(simulated(run))
        assert found.problems == [], run.key
        assert sum(row.is_leaf for row in found.rows) == 60, run.key
        assert found.units >= 60
        if "power" in path.stem:
            assert 0.5 < found.fullest <= 1.0, run.key


def test_the_walk_finds_units_allocated_twice() -> None:
    simulator = simulated(load(STUDIES / "levels.yaml", small=True).runs[1])
    rows = simulator.walk.rows
    first = next(row for row in rows if row.is_leaf)
    v = max(first.units)
    rows.append(Row("another", first.level, True, first.end - 1, first.end + 9, Counter({v: 1})))
    found = [text for text in walk(simulator).problems if text.startswith("the leaves")]
    assert f"2 of 1 units of {simulator.top.where(v)}" in found[0]
    assert "another" in found[0]


def test_the_walk_finds_draws_above_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ParentSupply, "take", lambda *_: None)
    monkeypatch.setattr(ParentSupply, "give", lambda *_: None)
    run = next(run for run in load(STUDIES / "power-nested.yaml", small=True).runs if run.settings["hierarchy.topology"] == 4)
    assert any("units of feed" in text for text in walk(simulated(run)).problems)

"""A short run of the long runner, and checks that it reports errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluxres.allocation import plans
from fluxres.allocation.records import Records
from fluxres.model import search
from tests.properties import long_run


def test_graph_and_oracle_agree_for_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    assert long_run.main(["--steps", "1200", "--seed", "20", "--quiet"]) == 0
    assert capsys.readouterr().out == "1200 steps, 0 differences, seed 20, 3 machines\n"


@pytest.mark.parametrize("course", ["778/15", "20261123/169", "31/44", "20261124/582", "9001/457"])
def test_histories_that_once_showed_a_difference(course: str) -> None:
    long_run.Course(course).run(400)


def test_seed_determines_the_history() -> None:
    first, second = long_run.Course("7/0"), long_run.Course("7/0")
    first.run(40)
    second.run(40)
    assert first.operations == second.operations
    assert long_run.Course("7/1").machine != first.machine


def test_records_below_an_exclusive_pool_are_found_and_shrunk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absorb_nothing(records: Records, *given: Any) -> list[tuple[int, int, int]]:
        return []

    monkeypatch.setattr(plans, "_absorbed", absorb_nothing)
    assert long_run.main(["--steps", "4000", "--seed", "20", "--quiet"]) == 1
    told = capsys.readouterr().out.splitlines()
    replay = [json.loads(line) for line in told if line.startswith("[")]
    # What is held below, and what makes the pool above exclusive.
    assert 2 <= len(replay) <= 4
    assert f"shortest replay, {len(replay)} operations" in "\n".join(told)


def test_ignored_states_in_totals_are_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def count_everything(graph: Any, start: int, end: int) -> Any:
        return graph.planner.free_slice(0, graph.structure.n, start, end)

    monkeypatch.setattr(search, "available_units", count_everything)
    assert long_run.main(["--steps", "4000", "--seed", "20", "--quiet"]) == 1
    assert "differences" not in capsys.readouterr().out

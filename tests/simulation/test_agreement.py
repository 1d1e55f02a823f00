"""Start times, job by job, compared with simple oracles of other simulators."""

from __future__ import annotations

import pytest

from tests.simulation.agreement import CASES, differences


@pytest.mark.parametrize("name", CASES)
def test_every_start_equals_that_of_the_oracle(name: str, deeper: float) -> None:
    wrong = {seed: found for seed in range(round(120 * deeper)) if (found := differences(name, seed))}
    assert not wrong, wrong


@pytest.mark.parametrize("name", ["fcfs, counted", "conservative, counted", "fcfs, named", "easy, named", "conservative, named"])
def test_every_start_on_the_resource_graph_equals_that_of_the_oracle(name: str, deeper: float) -> None:
    wrong = {seed: found for seed in range(round(40 * deeper)) if (found := differences(name, seed, "graph"))}
    assert not wrong, wrong

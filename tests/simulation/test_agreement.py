"""Start times, job by job, beside simple oracles of the simulators that others have."""

from __future__ import annotations

import pytest

from tests.simulation.agreement import CASES, differences

SEEDS = range(60)


@pytest.mark.parametrize("name", CASES)
def test_every_start_is_that_of_the_oracle(name: str) -> None:
    found = {seed: told for seed in SEEDS if (told := differences(name, seed))}
    assert not found, found


@pytest.mark.parametrize("name", ["fcfs, counted", "conservative, counted", "fcfs, named", "easy, named", "conservative, named"])
def test_so_it_is_on_the_resource_graph(name: str) -> None:
    found = {seed: told for seed in SEEDS[:15] if (told := differences(name, seed, "graph"))}
    assert not found, found

"""Calls of Python functions for each job of an ensemble over three levels: `pytest tests/bench/test_million.py -m bench`.

A count is the same on every machine at any load, other than a time.  Instances and imports are left out: it is the difference of
two workloads.
"""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from fluxres.simulation import simulate
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.workload.models import Ensemble

pytestmark = pytest.mark.bench

MORE = 1_000


def calls(jobs: int, inventory: str) -> int:
    """Calls in a simulation of this many jobs on 4 nodes with 8 cores, an instance for each node and each core."""
    number = 0

    def count(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal number
        number += event == "call"

    levels = Hierarchy((4, 8), ("fcfs",))
    sys.setprofile(count)
    try:
        result = simulate(
            Ensemble(jobs, run_s=2.0), "node=4/core=8", unit="core", hierarchy=levels, inventory=inventory, keep=False
        )
    finally:
        sys.setprofile(None)
    assert result.metrics.jobs == jobs
    return number


@pytest.mark.parametrize(("inventory", "most"), [("auto", 160), ("graph", 290)])
def test_calls_of_a_job(inventory: str, most: int) -> None:
    calls(MORE, inventory)
    found = (calls(2 * MORE, inventory) - calls(MORE, inventory)) / MORE
    print(f"{inventory}: {found:.1f} calls per job")
    assert found <= most

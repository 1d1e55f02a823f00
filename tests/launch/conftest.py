"""A machine with a store for each test of programs that run in allocations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launch import runs
from tests.launch.runs import Workstation


@pytest.fixture
def workstation(tmp_path: Path) -> Iterator[Workstation]:
    """A machine with eight cores and two GPUs; what was started ends with the test."""
    made = runs.workstation(tmp_path)
    try:
        yield made
    finally:
        made.end()

"""Recorded facts of HyperQueue, canary, CTest and JQM: pools, requests, variables and choices must be the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import runner
from tests.conformance.conftest import Load, Report
from tests.conformance.runner import Suite
from tests.conformance.seed_allocations import EVERY

pytestmark = pytest.mark.conformance


def suite(system: str, kind: str) -> Suite:
    """The cases of one kind of a system."""
    return Suite(f"{system} {kind}", lambda case: (case["system"], case["kind"]) == (system, kind), EVERY[system, kind].differs)


def test_seed_cases(load: Load, minima: dict[str, Any], report: Report) -> None:
    suites = [suite(system, kind) for system, kind in EVERY]
    least = {f"{system} {kind}": number for system, kinds in minima.get("seeds", {}).items() for kind, number in kinds.items()}
    report(runner.tally("other kinds", load("seeds/cases.json"), suites), least)

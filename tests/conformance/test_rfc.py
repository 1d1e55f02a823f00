"""Worked examples of the Flux RFC formats, put to whatever here reads, writes or computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conformance import rfc_jobs, rfc_requests, rfc_resources, rfc_text, runner
from tests.conformance.conftest import Report

pytestmark = pytest.mark.conformance


def test_rfc_vectors(cases: Path, minima: dict[str, Any], report: Report) -> None:
    vectors = runner.load(cases / "rfc" / "vectors.json")
    suites = [*rfc_text.SUITES, *rfc_requests.SUITES, *rfc_resources.suites(vectors), *rfc_jobs.SUITES]
    report(runner.tally("other RFCs", vectors, suites), minima.get("rfc"))

"""Worked examples of the Flux RFC formats, tested with our code that reads, writes or computes the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import rfc_jobs, rfc_requests, rfc_resources, rfc_text, runner
from tests.conformance.conftest import Load, Report

pytestmark = pytest.mark.conformance


def test_rfc_vectors(load: Load, minima: dict[str, Any], report: Report) -> None:
    vectors = load("rfc/vectors.json")
    suites = [*rfc_text.SUITES, *rfc_requests.SUITES, *rfc_resources.suites(vectors), *rfc_jobs.SUITES]
    report(runner.tally("other RFCs", vectors, suites), minima.get("rfc"))

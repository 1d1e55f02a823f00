"""Recorded facts of HyperQueue, canary, CTest and JQM: pools, requests, variables and choices that come out the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fluxres.errors import FluxresError
from tests.conformance.seed_allocations import EVERY
from tests.conformance.seed_cases import Case

pytestmark = pytest.mark.conformance


def differences(case: Case) -> list[str]:
    """Where we differ from a case."""
    try:
        return list(EVERY[case["system"], case["kind"]](case))
    except FluxresError as error:
        return [f"refused: {error}"]


@pytest.mark.parametrize(("system", "kind"), EVERY, ids="-".join)
def test_seed_cases(system: str, kind: str, cases: Path, agreeing_min: dict[str, Any]) -> None:
    known: list[Case] = json.loads((cases / "seeds" / "cases.json").read_text(encoding="utf-8"))
    tried = [(case, differences(case)) for case in known if (case["system"], case["kind"]) == (system, kind)]
    differing = [f"{case['id']}: {case['description']}: {'; '.join(found)}" for case, found in tried if found]
    agreeing = len(tried) - len(differing)
    print(f"{system} {kind}: {agreeing} of {len(tried)} agree", *differing, sep="\n")
    assert agreeing >= agreeing_min["seeds"][system][kind], "\n".join(differing)

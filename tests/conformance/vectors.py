"""Shared by the suites of RFC vectors: the comparison of expected results with ours."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from fluxres.errors import FluxresError
from tests.conformance.runner import Case, Deviation, NotCovered, Suite, form_of, short

Outcome = Callable[[Case], Any]


def suite(
    name: str, rfc: int, outcome: Outcome, takes: Callable[[Case], bool] | None = None, deviations: Sequence[Deviation] = ()
) -> Suite:
    """The suite of an RFC, or of the cases of it that `takes` takes.

    Args:
        outcome: computes our result from the input of a case.
    """

    def differs(case: Case) -> list[str]:
        try:
            got = outcome(case)
        except FluxresError as error:
            got = {"error": str(error)}
        if agrees(normal(case["expected"]), got):
            return []
        return [f"{short(case['input'])}: expected {short(case['expected'])}, got {short(got)}"]

    return Suite(name, lambda case: case["rfc"] == rfc and (takes is None or takes(case)), differs, deviations)


def agrees(expected: Any, got: Any) -> bool:
    """Whether a result is the expected one; a mapping must contain everything that is expected."""
    if isinstance(expected, dict) and "error" in expected:
        return isinstance(got, dict) and "error" in got
    if isinstance(expected, dict) and isinstance(got, dict):
        return all(key in got and agrees(value, got[key]) for key, value in expected.items())
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(agrees, expected, got))
    if isinstance(got, float) and not isinstance(expected, bool):
        return math.isclose(float(expected), got, rel_tol=1e-12)
    return type(expected) in (type(got), int, float) and bool(expected == got)


def normal(expected: Any) -> Any:
    """The expected result, where a max of `Infinity`, which JSON cannot express, means no max."""
    return json.loads(json.dumps(expected).replace('"max": "Infinity", ', ""))


def given(case: Case, *keys: str) -> Any:
    """The input of a case, which must be a mapping of just these keys."""
    values = case["input"]
    if not isinstance(values, dict) or values.keys() != set(keys):
        raise NotCovered(form_of(case))
    return values


def text(case: Case) -> str:
    """The input of a case, which must be text."""
    value = case["input"]
    if not isinstance(value, str):
        raise NotCovered(form_of(case))
    return value


def has(case: Case, *keys: str) -> bool:
    """Whether the input of a case is a mapping with all of these keys."""
    return isinstance(case["input"], dict) and case["input"].keys() >= set(keys)


def not_covered(case: Case) -> NotCovered:
    """The case is of a form that is not known here."""
    return NotCovered(form_of(case))

"""Worked examples of the Flux RFC formats: how many of those we have code for come out the same.

A case whose operation does not exist here yet is no disagreement and is not counted. The number that agrees may only
grow: where it falls below `specs/conformance.toml`, the test fails and lists what differs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fluxres.errors import FluxresError
from fluxres.syntax import duration, hostlist, idset
from tests.conformance.request_vectors import SUITES, normal

pytestmark = pytest.mark.conformance

Case = dict[str, Any]
Operation = Callable[[Any], Any]


def format_idset(given: Any) -> str:
    """`{"idset": text, "range": …, "brackets": …}`, or the members themselves under "construct"."""
    if "construct" in given:
        made = given["construct"]
        members = idset.parse(made) if isinstance(made, str) else [made] if isinstance(made, int) else made
        return idset.format(members)
    return idset.format(idset.parse(given["idset"]), brackets=given["brackets"], ranges=given["range"])


def format_hostlist(given: str) -> dict[str, Any]:
    hosts = hostlist.parse(given)
    return {"encoded": hostlist.format(hosts), "count": len(hosts)}


def format_duration(given: Any) -> str:
    return duration.format(float(given))


OPERATIONS: dict[str, tuple[int, dict[str, Operation]]] = {
    "idset": (
        22,
        {"expand": idset.parse, "count": lambda given: len(idset.parse(given)), "format": format_idset, "reject": idset.parse},
    ),
    "hostlist": (
        29,
        {"expand": hostlist.parse, "count": hostlist.count, "format": format_hostlist, "reject": hostlist.parse},
    ),
    "duration": (23, {"parse": duration.parse, "format": format_duration, "reject": duration.parse}),
}
"""Suite -> (RFC, kind -> what we do with the input)."""

NOT_OURS = {"datetime_offset", "precision", "hostname"}
"""Inputs of functions around these formats that have no counterpart here."""


def covered(case: Case, rfc: int, operations: dict[str, Operation]) -> bool:
    known = case["rfc"] == rfc and case["kind"] in operations
    return known and not (isinstance(case["input"], dict) and NOT_OURS & case["input"].keys())


def outcome(case: Case, operations: dict[str, Operation]) -> Any:
    """What we make of the input of a case; a refusal is `{"error": …}` as in the cases."""
    given = case["input"]
    operation = operations["format" if isinstance(given, dict) and "format" in given else case["kind"]]
    if isinstance(given, dict) and "format" in given:
        given = given["format"]
    try:
        return operation(given)
    except FluxresError as error:
        return {"error": str(error)}


def agrees(expected: Any, got: Any) -> bool:
    if isinstance(expected, dict) and "error" in expected:
        return isinstance(got, dict) and "error" in got
    if isinstance(expected, dict) and isinstance(got, dict):
        return all(got.get(key) == value for key, value in expected.items())  # a case may ask for less than we answer
    if isinstance(got, float):
        return math.isclose(float(expected), got, rel_tol=1e-12)
    return bool(expected == got)


@pytest.mark.parametrize("suite", SUITES)
def test_request_vectors(suite: str, cases: Path, agreeing_min: dict[str, Any]) -> None:
    rules = SUITES[suite]
    vectors: list[Case] = json.loads((cases / "rfc" / "vectors.json").read_text(encoding="utf-8"))
    tried: list[tuple[Case, Any]] = []
    for case in vectors:
        if case["rfc"] == rules.rfc and rules.covers(case):
            try:
                tried.append((case, rules.outcome(case)))
            except FluxresError as error:
                tried.append((case, {"error": str(error)}))
    differing = [
        f"{case['id']}: {case['input']!r}: expected {case['expected']!r}, got {got!r}"
        for case, got in tried
        if not agrees(normal(case["expected"]), got)
    ]
    agreeing = len(tried) - len(differing)
    print(f"{suite}: {agreeing} of {len(tried)} agree", *differing, sep="\n")
    assert agreeing >= agreeing_min["rfc"][suite], "\n".join(differing)


@pytest.mark.parametrize("suite", OPERATIONS)
def test_rfc_vectors(suite: str, cases: Path, agreeing_min: dict[str, Any]) -> None:
    rfc, operations = OPERATIONS[suite]
    vectors: list[Case] = json.loads((cases / "rfc" / "vectors.json").read_text(encoding="utf-8"))
    tried = [(case, outcome(case, operations)) for case in vectors if covered(case, rfc, operations)]
    differing = [
        f"{case['id']}: {case['input']!r}: expected {case['expected']!r}, got {got!r}"
        for case, got in tried
        if not agrees(case["expected"], got)
    ]
    agreeing = len(tried) - len(differing)
    print(f"{suite}: {agreeing} of {len(tried)} agree", *differing, sep="\n")
    assert agreeing >= agreeing_min["rfc"][suite], "\n".join(differing)

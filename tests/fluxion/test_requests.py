"""Reading jobspecs, and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.documents import yaml_document
from fluxres.errors import InputError, LimitExceeded
from fluxres.fluxion import jobspec
from fluxres.fluxion.jobspec import Count
from tests.fluxion import conftest
from tests.fluxion.conftest import ask

TYPES = ("rack", "socket")


def read(text: str) -> jobspec.Jobspec:
    return jobspec.read(yaml_document.load(text.encode()), TYPES)


@given(st.integers(1, 5), st.integers(1, 60), st.sampled_from("+*^"), st.integers(1, 4), st.integers(0, 60))
def test_counts_are_the_largest_of_their_series(least: int, most: int, operator: str, operand: int, available: int) -> None:
    operand += operator != "+" and operand == 1
    least += operator == "^" and least == 1
    series, value = [], least
    while value <= most and value not in series:
        series.append(value)
        value = {"+": value + operand, "*": value * operand, "^": value**operand}[operator]
    expected = max((value for value in series if value <= available), default=0)
    assert Count(least, most, operator, operand).up_to(available) == expected


def test_powers_of_huge_operands_are_not_computed() -> None:
    assert Count(2, limits.COUNT_MAX, "^", limits.COUNT_MAX).up_to(limits.COUNT_MAX) == 2


def test_needs_are_the_minimum_of_each_type() -> None:
    inner = ask("socket", {"min": 2, "max": 8, "operator": "+", "operand": 1}, ask("core", 3))
    found = read(conftest.jobspec(ask("slot", 4, inner), ask("rack", 1))).resources
    assert jobspec.sum_needs(found) == {"slot": 4, "socket": 8, "core": 24, "rack": 1}
    assert found[0].needs == {"socket": 2, "core": 6}
    slots = read(conftest.jobspec(ask("slot", 1, ask("core", 3)), ask("slot", 2, ask("core", 1)))).resources
    assert jobspec.sum_needs(slots, alternatives=True) == {"slot": 1, "core": 2}


def test_complete_jobspec() -> None:
    job = read(
        conftest.jobspec(ask("rack", 1, unit="x", label="l", id="3"), queue="q", duration=2.5, constraints={"ranks": ["0"]})
    )
    assert (job.queue, job.duration_s, job.resources[0].label) == ("q", 2.5, "l")
    assert job.constraint is not None
    assert read(conftest.jobspec(ask("rack"))).constraint is None
    assert jobspec.has_labels(job.resources)
    assert not jobspec.has_labels(read(conftest.jobspec(ask("slot", 1, ask("rack")))).resources)


TASK: dict[str, Any] = {"command": ["app"], "slot": "s", "count": {"per_slot": 1}}


@pytest.mark.parametrize(
    "changes",
    [
        {"attributes": None},
        {"attributes": {}},
        {"attributes": {"user": [1], "system": None}},
        {"attributes": {"system": {"environment": {"A": "b", "C": 1}, "cwd": "/", "queue": "q", "site": {"any": [1]}}}},
        {"attributes": {"system": {"constraints": {"ranks": [0, "2-3"]}}}},
        {"tasks": []},
        {"tasks": [TASK | {"distribution": "block", "attributes": {"a": 1}}]},
        {"tasks": [{"command": [], "slot": "other", "site": 1}]},
        {"resources": [ask("rack", 1, label=3, unit="x", id=7)]},
        {"resources": [{"type": "rack", "count": 1, "with": []}]},
    ],
)
def test_requests_that_fluxion_accepts(changes: dict[str, Any]) -> None:
    assert read(changed(**changes)).resources


def changed(**changes: Any) -> str:
    values = json.loads(conftest.jobspec(ask("slot", 1, ask("core", 1))))
    values.update(changes)
    return json.dumps({key: value for key, value in values.items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (changed(version=0), "version"),
        (changed(version=10000), "version"),
        (changed(version="1"), "version"),
        (changed(resources=...), "resources"),
        (changed(resources=[]), "resources"),
        (changed(resources={}), "resources"),
        (changed(extra=1), "extra"),
        (changed(tasks={}), "tasks"),
        (changed(tasks=[{"slot": "s"}]), "tasks[0]"),
        (changed(attributes=[]), "attributes"),
        (changed(attributes={"system": 3}), "attributes.system"),
        (changed(attributes={"system": {"duration": "1h"}}), "attributes.system.duration"),
        (changed(attributes={"system": {"duration": -1}}), "attributes.system.duration"),
        (changed(attributes={"system": {"constraints": {"colour": ["red"]}}}), "attributes.system.constraints"),
        (changed(resources=[ask("nonsense")]), "resources[0].type"),
        (changed(resources=[ask("rack", 0)]), "resources[0].count"),
        (changed(resources=[ask("rack", "2-4")]), "resources[0].count"),
        (changed(resources=[ask("rack", {"max": 3})]), "resources[0].count"),
        (changed(resources=[ask("rack", {"min": 1, "max": 3})]), "resources[0].count"),
        (changed(resources=[ask("rack", {"min": 3, "max": 2, "operator": "+", "operand": 1})]), "resources[0].count.max"),
        (changed(resources=[ask("rack", {"min": 1, "max": 2, "operator": "-", "operand": 1})]), "resources[0].count.operator"),
        (changed(resources=[ask("rack", {"min": 1, "max": 2, "operator": "^", "operand": 2})]), "resources[0].count.min"),
        (changed(resources=[ask("rack", {"min": 1, "max": 2, "operator": "*", "operand": 1})]), "resources[0].count.operand"),
        (changed(resources=[ask("rack", 1, exclusive="yes")]), "resources[0].exclusive"),
        (changed(resources=[ask("rack", 1, colour="red")]), "resources[0]"),
        (changed(resources=[{"type": "slot", "count": 1, "with": [ask("core")]}]), "resources[0]"),
        (changed(resources=[ask("slot", 1)]), "resources[0]"),
        (changed(resources=[ask("rack", 1, ask("socket", -3))]), "resources[0].with[0].count"),
        (changed(tasks=[TASK | {"command": "app"}]), "tasks[0].command"),
        (changed(tasks=[TASK | {"command": [["app"]]}]), "tasks[0].command"),
        (changed(tasks=[TASK | {"slot": None}]), "tasks[0].slot"),
        (changed(tasks=[TASK | {"slot": ["s"]}]), "tasks[0].slot"),
        (changed(tasks=[TASK | {"count": {}}]), "tasks[0].count"),
        (changed(tasks=[TASK | {"count": {"per_slot": 1, "total": 2}}]), "tasks[0].count"),
        (changed(tasks=[TASK | {"count": 1}]), "tasks[0].count"),
        (changed(tasks=[TASK | {"count": {"per_slot": [1]}}]), "tasks[0].count.per_slot"),
        (changed(tasks=[TASK | {"distribution": {}}]), "tasks[0].distribution"),
        (changed(tasks=[TASK | {"attributes": [1]}]), "tasks[0].attributes"),
        (changed(tasks=[TASK | {"attributes": {"a": {}}}]), "tasks[0].attributes.a"),
        (changed(tasks=[TASK | {"a": 1, "b": 1, "c": 1}]), "tasks[0]"),
        (changed(tasks=[{"command": ["app"], "slot": "s"}]), "tasks[0]"),
        (changed(tasks=["app"]), "tasks[0]"),
        (changed(attributes={"site": {}}), "attributes"),
        (changed(attributes={"system": {"queue": ["q"]}}), "attributes.system.queue"),
        (changed(attributes={"system": {"cwd": {}}}), "attributes.system.cwd"),
        (changed(attributes={"system": {"environment": ["A"]}}), "attributes.system.environment"),
        (changed(attributes={"system": {"environment": {"A": {}}}}), "attributes.system.environment.A"),
        (changed(attributes={"system": {"constraints": []}}), "attributes.system.constraints"),
        (changed(resources=[ask("rack", 1, label={"a": 1})]), "resources[0].label"),
        (changed(resources=[ask("rack", 1, label=None)]), "resources[0].label"),
        (changed(resources=[ask("rack", 1, unit=[])]), "resources[0].unit"),
        (changed(resources=[ask("rack", 1, id={})]), "resources[0].id"),
        (changed(resources=[{"type": "slot", "count": 1, "label": "s", "with": []}]), "resources[0]"),
        ("[]", ""),
        ("{", ""),
        ("a: [1", ""),
    ],
)
def test_errors_have_a_place(text: str, place: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert place in str(caught.value)


def test_counts_are_bounded() -> None:
    with pytest.raises(LimitExceeded):
        read(conftest.jobspec(ask("rack", limits.COUNT_MAX + 1)))


def test_levels_are_bounded() -> None:
    deep = ask("rack", 1)
    for _ in range(limits.REQUEST_DEPTH_MAX):
        deep = ask("rack", 1, deep)
    with pytest.raises(LimitExceeded):
        read(conftest.jobspec(deep))

"""A pytest option for the number of examples: `--deeper 10` runs ten times as many of each Hypothesis test and state machine,
and of the random cases of other tests.

Almost every test sets its own number of examples, therefore a Hypothesis profile would not reach them. By default a run tries
a quarter of them, with another seed each time; a campaign tries ten times as many.
"""

from __future__ import annotations

import unittest

import pytest
from hypothesis import is_hypothesis_test, settings

TIMES = 0.25
FEW = 20
"""Tests with no more examples than this keep all of them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--deeper",
        metavar="TIMES",
        type=float,
        default=TIMES,
        help=f"how many times the examples of each Hypothesis test and state machine (default: {TIMES})",
    )


@pytest.fixture
def deeper(request: pytest.FixtureRequest) -> float:
    """The option, for tests that try random cases without Hypothesis."""
    times: float = request.config.getoption("deeper")
    return times


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    times = config.getoption("deeper")
    # One function is several items if it has parameters.
    for owner, attribute in {place for item in items for place in _settings_of(item)}:
        found = getattr(owner, attribute)
        few = min(FEW, found.max_examples)
        setattr(owner, attribute, settings(found, max_examples=max(few, round(times * found.max_examples))))


def _settings_of(item: pytest.Item) -> list[tuple[object, str]]:
    """The object that has the Hypothesis settings of a test, and the attribute; empty if it has none."""
    if not isinstance(item, pytest.Function):
        return []
    if item.cls is not None and issubclass(item.cls, unittest.TestCase):
        return [(item.cls, "settings")] if hasattr(item.cls, "settings") else []
    function = getattr(item.obj, "__func__", item.obj)
    return [(function, "_hypothesis_internal_use_settings")] if is_hypothesis_test(function) else []

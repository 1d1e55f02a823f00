"""A pytest option for more examples: `--deeper 10` runs ten times as many of each Hypothesis test and state machine.

Almost every test sets its own number of examples, therefore a Hypothesis profile would not reach them.
"""

from __future__ import annotations

import unittest

import pytest
from hypothesis import is_hypothesis_test, settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--deeper",
        metavar="TIMES",
        type=int,
        default=1,
        help="how many times the examples of each Hypothesis test and state machine",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    times = config.getoption("deeper")
    if times != 1:
        # One function is several items if it has parameters.
        for owner, attribute in {place for item in items for place in _settings_of(item)}:
            found = getattr(owner, attribute)
            setattr(owner, attribute, settings(found, max_examples=times * found.max_examples))


def _settings_of(item: pytest.Item) -> list[tuple[object, str]]:
    """The object that has the Hypothesis settings of a test, and the attribute; empty if it has none."""
    if not isinstance(item, pytest.Function):
        return []
    if item.cls is not None and issubclass(item.cls, unittest.TestCase):
        return [(item.cls, "settings")] if hasattr(item.cls, "settings") else []
    function = getattr(item.obj, "__func__", item.obj)
    return [(function, "_hypothesis_internal_use_settings")] if is_hypothesis_test(function) else []

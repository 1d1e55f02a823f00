"""A pytest option for the number of examples: `--deeper 10` runs ten times as many of each Hypothesis test and state machine,
and of the random cases of other tests.

A plain test whose parameter is the seed of a random case is marked `sampled`, and runs that part of its seeds.

Almost every test sets its own number of examples, therefore a Hypothesis profile would not reach them. By default a run tries
a quarter of them, with another seed each time; a campaign tries ten times as many.
"""

from __future__ import annotations

import unittest
from collections import Counter

import pytest
from hypothesis import is_hypothesis_test, settings

TIMES = 0.25
FEW = 12
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


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sampled: its parameters are random cases, of which --deeper below 1 runs a part")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    times = config.getoption("deeper")
    _sample(config, items, times)
    # One function is several items if it has parameters.
    for owner, attribute in {place for item in items for place in _settings_of(item)}:
        found = getattr(owner, attribute)
        few = min(FEW, found.max_examples)
        setattr(owner, attribute, settings(found, max_examples=max(few, round(times * found.max_examples))))


def _sample(config: pytest.Config, items: list[pytest.Item], times: float) -> None:
    """Leave out all but the first cases of each test that is `sampled`; those that were asked for one by one stay."""

    def test(item: pytest.Item) -> str:
        return item.nodeid.partition("[")[0]

    if times >= 1 or any("[" in argument for argument in config.args):
        return
    of_test = Counter(test(item) for item in items if item.get_closest_marker("sampled"))
    room = {name: max(1, round(times * number)) for name, number in of_test.items()}
    kept, left = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        name = test(item)
        if name in room:
            room[name] -= 1
        (left if room.get(name, 0) < 0 else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def _settings_of(item: pytest.Item) -> list[tuple[object, str]]:
    """The object that has the Hypothesis settings of a test, and the attribute; empty if it has none."""
    if not isinstance(item, pytest.Function):
        return []
    if item.cls is not None and issubclass(item.cls, unittest.TestCase):
        return [(item.cls, "settings")] if hasattr(item.cls, "settings") else []
    function = getattr(item.obj, "__func__", item.obj)
    return [(function, "_hypothesis_internal_use_settings")] if is_hypothesis_test(function) else []

"""`--deeper`: every kind of Hypothesis test runs a multiple of its examples, a quarter by default, a plain test runs once."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

INNER = """
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

runs = Counter()
wide = st.integers(0, 10**9)


@settings(max_examples=7, database=None)
@given(wide)
def test_own(n):
    runs["own"] += 1


@settings(max_examples=5, database=None)
@pytest.mark.parametrize("name", ["a", "b"])
@given(n=wide)
def test_each(name, n):
    runs[name] += 1


class TestClass:
    @settings(max_examples=4, database=None)
    @given(wide)
    def test_method(self, n):
        runs["method"] += 1


class Machine(RuleBasedStateMachine):
    @initialize(n=wide)
    def begin(self, n):
        runs["machine"] += 1

    @rule(n=wide)
    def step(self, n):
        pass


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=3, stateful_step_count=2, database=None)


@settings(max_examples=60, database=None)
@given(wide)
def test_many(n):
    runs["many"] += 1


def test_plain():
    runs["plain"] += 1


def test_counts():
    assert runs == {counts}
"""


@pytest.mark.parametrize("times", [None, 1, 3])
def test_every_hypothesis_test_runs_a_multiple_of_its_examples(pytester: pytest.Pytester, times: int | None) -> None:
    once = {"own": 7, "a": 5, "b": 5, "method": 4, "machine": 3}
    counts = {name: count * (times or 1) for name, count in once.items()} | {"many": 60 * times if times else 15, "plain": 1}
    pytester.makepyfile(INNER.replace("{counts}", str(counts)))
    option = [] if times is None else ["--deeper", str(times)]
    found = pytester.runpytest_inprocess("-p", "tests.deeper", "-p", "no:cacheprovider", *option)
    found.assert_outcomes(passed=8)


SEEDS = """
import pytest


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("seed", range(10))
def test_seeds(seed, name):
    pass


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(1))
def test_one(seed):
    pass


@pytest.mark.parametrize("seed", range(3))
def test_all(seed):
    pass
"""


@pytest.mark.parametrize(
    ("option", "run"),
    [([], 5 + 1 + 3), (["--deeper", "0.01"], 1 + 1 + 3), (["--deeper", "1"], 20 + 1 + 3)],
)
def test_a_part_of_the_seeds_is_run(pytester: pytest.Pytester, option: list[str], run: int) -> None:
    pytester.makepyfile(SEEDS)
    found = pytester.runpytest_inprocess("-p", "tests.deeper", "-p", "no:cacheprovider", *option)
    found.assert_outcomes(passed=run, deselected=24 - run)


def test_a_seed_that_is_named_is_run(pytester: pytest.Pytester) -> None:
    path = pytester.makepyfile(SEEDS)
    found = pytester.runpytest_inprocess("-p", "tests.deeper", "-p", "no:cacheprovider", f"{path}::test_seeds[9-b]")
    found.assert_outcomes(passed=1)


def test_busy_machine_fails_no_test() -> None:
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check

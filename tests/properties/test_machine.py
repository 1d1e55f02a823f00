"""Hypothesis drives a graph and its oracle: whatever the order of operations, they agree, and a disagreement shrinks.

The long runner does the same with plain random numbers, a thousand times as often.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.choices import integers
from tests.properties.comparison import UNITS_S
from tests.properties.operations import CHOICES
from tests.properties.pair import Pair
from tests.strategies import JOBS, Machine, machines, pick


def operation(name: str) -> Callable[..., None]:
    """A rule for this kind of operation."""

    @rule(data=st.data())
    def step(self: ModelMachine, data: st.DataObject) -> None:
        def integer(low: int, high: int) -> int:
            return data.draw(integers(low, high))

        chosen = CHOICES[name](integer, self.pair.oracle, pick(integer, JOBS[:3]))
        self.pair.do(chosen)

    step.__name__ = name
    return step


class ModelMachine(RuleBasedStateMachine):
    """A machine of at most a dozen pools, six ticks and the time after them, three jobs."""

    pair: Pair

    @initialize(machine=machines(pools_max=12), unit_s=st.sampled_from(UNITS_S))
    def begin(self, machine: Machine, unit_s: float) -> None:
        self.pair = Pair(machine, 6, unit_s)

    # Twice, because every other operation needs something to be held.
    allocate = operation("allocate")
    allocate_more = operation("allocate")
    free = operation("free")
    grow = operation("grow")
    stage = operation("stage")
    commit = operation("commit")
    release = operation("release")
    pass_time = operation("pass_time")
    expire = operation("expire")
    set_end = operation("set_end")
    state = operation("state")
    tag = operation("tag")
    untag = operation("untag")
    copy = operation("copy")
    copy_job = operation("copy_job")
    duplicate = operation("duplicate")
    unlink = operation("unlink")
    relink = operation("relink")
    merge_jobs = operation("merge_jobs")
    merge = operation("merge")
    save = operation("save")

    @precondition(lambda self: hasattr(self, "pair"))
    @invariant()
    def graph_and_oracle_agree(self) -> None:
        self.pair.compare_all()


def part(number: int) -> Any:
    """A test with a part of the examples: several processes share them."""
    machine: Any = type(f"ModelMachine{number}", (ModelMachine,), {})
    machine.TestCase.settings = settings(
        max_examples=4,
        stateful_step_count=25,
        deadline=None,
        # No explanations: with a history of a hundred choices they take longer than the search itself.
        phases=[phase for phase in Phase if phase is not Phase.explain],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    return machine.TestCase


TestModelMachine1, TestModelMachine2, TestModelMachine3, TestModelMachine4 = map(part, range(1, 5))

"""Plans compared with a list of seconds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fluxres.fluxion.planner import HORIZON_S, Aggregate, Plan

END = 12
spans = st.lists(st.tuples(st.integers(0, END - 1), st.integers(1, END), st.integers(0, 4)), max_size=8)


@given(spans, st.sets(st.integers(0, 7)), st.integers(0, END - 1), st.integers(1, END))
def test_plan_agrees_with_a_list_of_seconds(added: list[tuple[int, int, int]], removed: set[int], at: int, duration: int) -> None:
    plan, seconds = Plan(20), [20] * (3 * END)
    numbers = [plan.add(start, length, units) for start, length, units in added]
    for position, (start, length, units) in enumerate(added):
        if position in removed:
            plan.remove(numbers[position])
        else:
            assert plan.window(numbers[position]) == (start, start + length, units)
            for second in range(start, start + length):
                seconds[second] -= units
    assert plan.lowest(at, duration) == min(seconds[at : at + duration])
    assert [plan.at(second) for second in range(len(seconds))] == seconds
    kept = [span for position, span in enumerate(added) if position not in removed]
    assert plan.times == sorted({0, *(start for start, _, _ in kept), *(start + length for start, length, _ in kept)})


@given(spans, st.integers(0, END), st.integers(1, END), st.integers(0, 20), st.integers(0, 6))
def test_first_fit_is_the_first_change_point_that_fits(
    added: list[tuple[int, int, int]], after: int, duration: int, cores: int, nodes: int
) -> None:
    aggregate = Aggregate({"core": 20, "node": 6})
    for start, length, units in added:
        aggregate.add(start, length, (units, min(units, 1)))
    moments = sorted({0} | {moment for start, length, _ in added for moment in (start, start + length)})
    fitting = [moment for moment in moments if moment >= after and aggregate.fits(moment, duration, (cores, nodes))]
    assert aggregate.first_fit(after, duration, (cores, nodes)) == (fitting[0] if fitting else None)
    assert aggregate.ever_fits((cores, nodes)) == (cores <= 20 and nodes <= 6)


def test_nothing_fits_beyond_the_horizon() -> None:
    aggregate = Aggregate({"core": 4})
    aggregate.add(0, 100, (4,))
    assert aggregate.first_fit(1, HORIZON_S - 100, (4,)) == 100
    assert aggregate.first_fit(1, HORIZON_S - 99, (4,)) is None


def test_resize_keeps_plans() -> None:
    plan = Plan(10)
    span = plan.add(5, 5, 4)
    plan.resize(6)
    assert (plan.at(0), plan.at(5), plan.total) == (6, 2, 6)
    plan.remove(span)
    assert (plan.times, plan.left) == ([0], [6])

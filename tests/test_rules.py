"""The numbered rules of specs/rules.md, each tested literally after random histories on a small machine.

Nothing here calls `check()`: the tests read the records through the public API and derive the rules from them. The
comparison with a second model, step by step, is in tests/properties; durability (D1) in tests/crash, formats (S1) in
tests/formats and tests/store.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fluxres import FluxresError, NotHeld, Pool, ResourceGraph, UnknownJob
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand

STATES = ("up", "down", "drain", "degraded", "failing", "unknown", "null")
UNAVAILABLE = ("down", "drain", "failing", "unknown")
HORIZON_S = 8
MOMENTS = range(HORIZON_S + 1)


def machine() -> ResourceGraph:
    node = Recipe("node", count=2, ids=np.arange(4), children=(Recipe("core", count=2), Recipe("memory", size=4, ids=None)))
    return ResourceGraph(
        expand(Recipe("cluster", children=(Recipe("rack", count=2, children=(node,)),)), origin=uuids.new_origin())
    )


PATHS = [pool.path for pool in machine().walk()]


@dataclass(frozen=True)
class Step:
    """One change to try; it is done completely or refused."""

    method: str
    args: tuple[Any, ...]
    times: dict[str, float]

    def apply(self, g: ResourceGraph) -> None:
        with contextlib.suppress(FluxresError):
            getattr(g, self.method)(*self.args, **self.times)


jobs = st.sampled_from(["a", "b", "c"])
pools = st.sampled_from(PATHS)
windows = st.tuples(st.integers(0, HORIZON_S - 1), st.integers(1, HORIZON_S)).map(
    lambda pair: {"start": pair[0], "end": pair[0] + pair[1]}
)
amounts = st.integers(1, 4)
allocations = st.builds(
    lambda job, path, n, window: Step("allocate", ([(path, n)],), {"job": job, **window}), jobs, pools, amounts, windows
)
frees = st.builds(lambda job, path, n: Step("free", (job, [(path, n)]), {}), jobs, pools, st.none() | amounts)
states = st.builds(lambda path, state: Step("set_state", (path, state), {}), pools, st.sampled_from(STATES))
history = st.lists(allocations | allocations | frees, max_size=12)
history_with_states = st.lists(allocations | allocations | frees | states, max_size=12)
few = settings(max_examples=40, deadline=None)


def after(steps: list[Step]) -> ResourceGraph:
    g = machine()
    for step in steps:
        step.apply(g)
    return g


def held(g: ResourceGraph, at: float) -> list[tuple[str, Pool, int]]:
    """(job, pool, units) of every record that covers the moment."""
    spans = [span for job in g.jobs() for span in g.allocation(job).spans]
    return [(span.job, g.pool(span.pool), span.amount) for span in spans if span.start <= at < span.end]


def is_above(upper: Pool, lower: Pool) -> bool:
    return upper in lower.ancestors


@few
@given(history)
def test_rule_a1_units_held_never_exceed_the_size(steps: list[Step]) -> None:
    g = after(steps)
    for at in MOMENTS:
        records = held(g, at)
        for pool in g.walk():
            own = sum(units for _, holder, units in records if holder == pool)
            implied = any(holder.size == units and is_above(holder, pool) for _, holder, units in records)
            assert own <= pool.size
            assert pool.allocated(at=at) == (pool.size if implied else own)


@few
@given(history)
def test_rule_a2_no_unit_is_held_by_two_jobs(steps: list[Step]) -> None:
    g = after(steps)
    for at in MOMENTS:
        for (job, pool, units), (other_job, other_pool, other_units) in combinations(held(g, at), 2):
            if job != other_job:
                assert pool != other_pool or units + other_units <= pool.size
                assert not (units == pool.size and is_above(pool, other_pool))
                assert not (other_units == other_pool.size and is_above(other_pool, pool))


@few
@given(history)
def test_rule_a3_all_units_of_one_job_are_exclusive(steps: list[Step]) -> None:
    g = after(steps)
    for at in MOMENTS:
        g.clock = lambda at=at: float(at)  # type: ignore[misc]  # mypy cannot type a default of a lambda
        records = held(g, at)
        for pool in g.walk():
            whole = [job for job, holder, units in records if units == holder.size and (holder == pool or is_above(holder, pool))]
            assert pool.holder == (whole[0] if whole else None)
            assert pool.exclusive == bool(whole)
            if whole:
                assert pool.shared == []
                assert not [holder for job, holder, _ in records if is_above(pool, holder)]


@few
@given(history)
def test_rule_a4_shared_names_the_jobs_below_as_long_as_they_hold(steps: list[Step]) -> None:
    g = after(steps)
    for at in MOMENTS:
        records = held(g, at)
        for pool in g.walk():
            assert pool.shared_by(at=at) == sorted({job for job, holder, _ in records if is_above(pool, holder)})


@few
@given(history, pools, windows)
def test_rule_a5_nothing_is_recorded_or_free_below_an_exclusive_pool(
    steps: list[Step], path: str, window: dict[str, int]
) -> None:
    g = after(steps)
    whole = g.pool(path)
    try:
        g.allocate([(whole, whole.size)], job="a", **window)
    except FluxresError:
        return
    for at in range(window["start"], window["end"]):
        below = list(g.walk(whole))[1:]
        assert not [holder for _, holder, _ in held(g, at) if is_above(whole, holder)]
        assert [(pool.available(at=at), pool.allocated(at=at)) for pool in below] == [(0, pool.size) for pool in below]


def picture(g: ResourceGraph) -> list[Any]:
    spans = sorted(
        (span.job, span.pool, span.start, span.end, span.amount) for job in g.jobs() for span in g.allocation(job).spans
    )
    free = [[pool.available(at=at) for pool in g.walk()] for at in MOMENTS]
    return [spans, free, [g.aggregate(at=at, all=True) for at in MOMENTS], [pool.shared for pool in g.walk()]]


@few
@given(history, st.lists(st.tuples(pools, amounts), min_size=1, max_size=3), windows)
def test_rule_a6_free_undoes_allocate_exactly(steps: list[Step], targets: list[tuple[str, int]], window: dict[str, int]) -> None:
    g = after(steps)
    before = picture(g)
    try:
        g.allocate(targets, job="new", **window)
    except FluxresError:
        assert picture(g) == before
        return
    g.free("new")
    assert picture(g) == before


@few
@given(history, jobs, st.lists(st.tuples(pools, st.none() | amounts), min_size=1, max_size=2), windows)
def test_rule_a6_shrinking_undoes_growing(
    steps: list[Step], job: str, more: list[tuple[str, int | None]], window: dict[str, int]
) -> None:
    g = after(steps)
    before = picture(g)
    targets = [(path, g.pool(path).size if amount is None else amount) for path, amount in more]
    try:
        g.allocate(targets, job=job, **window)
    except FluxresError:
        return
    assert g.check() == []
    g.free(job, targets, **window)
    assert picture(g) == before


@few
@given(history, jobs, pools, amounts)
def test_rule_a6_freeing_unheld_units_changes_nothing(steps: list[Step], job: str, path: str, amount: int) -> None:
    g = after(steps)
    before = picture(g)
    most = max(
        (units for at in MOMENTS for holder_job, holder, units in held(g, at) if (holder_job, holder.path) == (job, path)),
        default=0,
    )
    with pytest.raises((NotHeld, UnknownJob)):
        g.free(job, [(path, most + amount)])
    assert picture(g) == before


@few
@given(history_with_states, st.lists(allocations, max_size=4))
def test_rule_a7_unavailable_pools_are_not_allocated_and_keep_their_records(steps: list[Step], more: list[Step]) -> None:
    g = after(steps)
    barred = {pool.path for pool in g.walk() if any(one.state in UNAVAILABLE for one in [pool, *pool.ancestors])}

    def held_there() -> list[list[tuple[str, Pool, int]]]:
        return [[one for one in held(g, at) if one[1].path in barred] for at in MOMENTS]

    def holds(record: tuple[str, Pool, int], at: float) -> bool:
        """Whether a record is there, or implied by an exclusive one of the same job above it."""
        job, pool, _ = record
        records = held(g, at)
        return record in records or any(
            job == other and units == upper.size and is_above(upper, pool) for other, upper, units in records
        )

    assert all(g.pool(path).available(at=at) == 0 for path in barred for at in MOMENTS)
    before = held_there()
    for step in more:
        step.apply(g)
    for at, then, now in zip(MOMENTS, before, held_there(), strict=True):
        assert all(record in then for record in now)
        assert all(holds(record, at) for record in then)


@few
@given(history_with_states, pools)
def test_rule_c1_copy_has_what_is_available_and_shares_nothing(steps: list[Step], path: str) -> None:
    g = after(steps)
    top = g.pool(path)
    available = {pool.path: pool.available() for pool in g.walk(prune=lambda pool: is_above(top, pool) and pool.available() == 0)}
    if not available[path]:
        return
    before = picture(g)
    copied = g.copy(path)
    expected = {where: units for where, units in available.items() if units and (where == path or is_above(top, g.pool(where)))}
    below = {pool.path: pool.size for pool in copied.walk(path)}
    assert below == expected
    assert {pool.path for pool in copied.walk()} == {*expected, *(pool.path for pool in top.ancestors)}
    assert copied.jobs() == []
    copied.set_state(path, "down")
    assert picture(g) == before


@few
@given(history_with_states)
def test_rule_c1_duplicate_has_everything_and_shares_nothing(steps: list[Step]) -> None:
    g = after(steps)
    same = g.duplicate()
    before = picture(g), [pool.state for pool in g.walk()]
    assert (picture(same), [pool.state for pool in same.walk()]) == before
    for job in same.jobs():
        same.free(job)
    same.set_state("/cluster", "down")
    assert (picture(g), [pool.state for pool in g.walk()]) == before


@few
@given(history, pools.filter(lambda path: path != "/cluster"))
def test_rule_m1_merge_restores_what_unlink_removed_and_no_more(steps: list[Step], path: str) -> None:
    g = after(steps)
    for job in g.jobs():
        g.free(job)
    whole = {pool.path: (pool.uuid, pool.size) for pool in g.walk()}
    part = g.copy(path)
    g.unlink(path)
    assert {pool.path for pool in g.walk()} == {where for where in whole if where != path and not where.startswith(f"{path}/")}
    g.merge(part)
    assert {pool.path: (pool.uuid, pool.size) for pool in g.walk()} == whole


PLAUSIBLE = (
    "/",
    "/cluster/rack0",
    "a",
    "type=core",
    "pre",
    "up",
    {},
    (1, 2),
    [()],
    [("/cluster/rack0/node0/memory", 1.5)],
    {"/cluster": 0},
)
junk = st.one_of(
    st.sampled_from(PLAUSIBLE),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.lists(st.text(max_size=3), max_size=2),
)
CALLS = {
    "find": lambda g, a, b, c: g.find(a, at=b, during=c),
    "find by time": lambda g, a, b, c: g.find("available>0", at=a, during=b),
    "pool": lambda g, a, b, c: g.pool(a),
    "walk": lambda g, a, b, c: list(g.walk(a, order=b)),
    "aggregate": lambda g, a, b, c: g.aggregate(a, at=b, duration_s=c),
    "available": lambda g, a, b, c: g.available(at=a, duration_s=b),
    "allocated": lambda g, a, b, c: g.allocated(a, at=b),
    "subsystem": lambda g, a, b, c: g.subsystem(a),
    "allocate": lambda g, a, b, c: g.allocate(a, job=b, start=c),
    "allocate a window": lambda g, a, b, c: g.allocate("/cluster", job="a", start=a, end=b, duration_s=c),
    "free": lambda g, a, b, c: g.free(a, b, start=c),
    "grow": lambda g, a, b, c: g.grow(a, b, end=c),
    "shrink": lambda g, a, b, c: g.shrink(a, b, start=c),
    "stage": lambda g, a, b, c: g.stage(a, job=b, ttl_s=c),
    "set_state": lambda g, a, b, c: g.set_state(a, b),
    "tag": lambda g, a, b, c: g.tag(a, b, c),
    "copy": lambda g, a, b, c: g.copy(a, job=b, at=c),
    "copy a job": lambda g, a, b, c: g.copy(job=a),
    "merge": lambda g, a, b, c: g.merge(a, at=b),
    "unlink": lambda g, a, b, c: g.unlink(a, b),
    "apply": lambda g, a, b, c: g.apply(a),
    "diff": lambda g, a, b, c: g.diff(a),
    "reserve": lambda g, a, b, c: g.reserve(a, name=b, start=c),
    "reserve a window": lambda g, a, b, c: g.reserve("/cluster", name="maintenance", start=a, end=b, every_s=c),
    "reserve repeatedly": lambda g, a, b, c: g.reserve("/cluster", name="maintenance", duration_s=a, every_s=b, until=c),
    "unreserve": lambda g, a, b, c: g.unreserve(a),
    "set_end": lambda g, a, b, c: g.set_end(a, b),
    "match": lambda g, a, b, c: g.match(a, duration_s=b, at=c),
    "earliest": lambda g, a, b, c: g.earliest(a, duration_s=b),
    "why_not": lambda g, a, b, c: g.why_not(a, at=b, duration_s=c),
    "satisfiable": lambda g, a, b, c: g.satisfiable(a),
    "allocate or reserve": lambda g, a, b, c: g.allocate_orelse_reserve(a, job=b, duration_s=c),
    "allocation": lambda g, a, b, c: g.allocation(a),
    "holdings": lambda g, a, b, c: g.holdings(a),
    "facts": lambda g, a, b, c: g.facts(a),
    "node_states": lambda g, a, b, c: g.node_states(a),
    "move": lambda g, a, b, c: g.move(a, b),
}


@pytest.mark.parametrize("call", CALLS)
@settings(max_examples=60, deadline=None)
@given(junk, junk, junk)
@example({}, None, None)
@example([], {}, None)
def test_rule_e1_any_argument_gives_a_result_or_a_fluxres_error(call: str, first: Any, second: Any, third: Any) -> None:
    g = machine()
    g.allocate("/cluster/rack1", job="a")
    with contextlib.suppress(FluxresError):
        CALLS[call](g, first, second, third)
    assert g.check() == []

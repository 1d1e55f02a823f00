"""A match is stored as a batch; every later query and change sees the same records as without batches."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.errors import FluxresError
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.model import ResourceGraph

BASE = uuids.new_origin(bytes(16))
NODES = ["slot=1/node", "slot=2/node", "rack{x}"]
REQUESTS = [*NODES, "slot=2/[core;memory=3]", "slot=3/core", "slot=1/license=2", "slot=1/license=4"]
WINDOWS = [(0, 5), (2, 4), (0, None), (5, 9)]


def machine() -> ResourceGraph:
    """Two racks of two nodes, and a pool of four licenses that has features below it."""
    node = Recipe("node", count=2, children=(Recipe("core", count=2), Recipe("memory", size=8, ids=None)))
    license_pool = Recipe("license", size=4, ids=None, children=(Recipe("feature", count=2),))
    rack = Recipe("rack", count=2, children=(node,))
    return ResourceGraph(expand(Recipe("cluster", children=(rack, license_pool)), origin=BASE))


def trace(g: ResourceGraph) -> Any:
    """The complete state of the records and the planner."""
    return (
        {v: dict(holders) for v, holders in g.records.held.items() if holders},
        {job: set(pools) for job, pools in g.records.pools_of.items()},
        {v: dict(jobs) for v, jobs in g.records.shared.items()},
        [(g.planner.segments(v), g.planner.covers(v)) for v in range(len(g))],
    )


step = st.one_of(
    st.tuples(st.just("request"), st.sampled_from(REQUESTS), st.sampled_from("abc"), st.sampled_from(WINDOWS)),
    st.tuples(st.just("pool"), st.integers(1, 20), st.sampled_from("abc"), st.sampled_from(WINDOWS)),
    st.tuples(st.just("free"), st.none(), st.sampled_from("abc"), st.none()),
    st.tuples(st.just("free"), st.integers(0, 5), st.sampled_from("abc"), st.sampled_from([None, (1, 3), (None, 4)])),
    st.tuples(st.just("expire"), st.integers(1, 6), st.none(), st.none()),
    st.tuples(st.just("stage"), st.sampled_from(REQUESTS), st.sampled_from("abc"), st.sampled_from(WINDOWS)),
    st.tuples(st.just("look"), st.none(), st.none(), st.none()),
)


class Twins:
    """One graph gets matches as batches, the other the pools of the same matches by name."""

    def __init__(self) -> None:
        self.one, self.other = machine(), machine()

    def both(self, call: Any) -> None:
        said = []
        for g in (self.one, self.other):
            try:
                said.append(call(g))
            except FluxresError as error:
                said.append(str(error))
        assert said[0] == said[1]

    def request(self, text: str, job: str, window: tuple[int, int | None]) -> None:
        start, end = window
        try:
            found = self.one.match(text, start, None if end is None else end - start)
        except FluxresError:
            return
        twin = self.other.match(text, start, None if end is None else end - start)
        assert found.is_equal(twin)

        def give(g: ResourceGraph) -> int:
            if g is self.one:
                return len(g.commit_match(found, job=job))
            return len(g.allocate(twin.targets, job=job, start=start, end=end))

        self.both(give)

    def free(self, which: int | None, job: str, window: Any) -> None:
        start, end = window or (None, None)
        pools = sorted(self.other.records.pools_of.get(job, ()))
        wanted = None if which is None or not pools else pools[which % len(pools)]
        self.both(lambda g: g.free(job, wanted, start, end))

    def stage(self, text: str, job: str, window: tuple[int, int | None]) -> None:
        self.both(lambda g: len(g.stage(text, job=job, start=window[0], end=window[1]).commit()))


@settings(max_examples=300, deadline=None)
@given(st.lists(step, max_size=10))
def test_batches_behave_like_other_records(steps: list[tuple[str, Any, Any, Any]]) -> None:
    twins = Twins()
    for kind, what, job, window in steps:
        if kind == "request":
            twins.request(what, job, window)
        elif kind == "pool":
            twins.both(lambda g: len(g.allocate(what % len(g), job=job, start=window[0], end=window[1])))  # noqa: B023 - called at once
        elif kind == "free":
            twins.free(what, job, window)
        elif kind == "stage":
            twins.stage(what, job, window)
        elif kind == "expire":
            twins.both(lambda g: g.expire(what))  # noqa: B023 - called at once
        else:
            assert trace(twins.one) == trace(twins.other)
        assert twins.one.jobs() == twins.other.jobs()
    assert twins.one.check() == twins.other.check() == []
    assert trace(twins.one) == trace(twins.other)


def test_sink_reads_records_while_a_job_is_freed() -> None:
    g = machine()
    seen = []
    g.sink = lambda event: seen.append((event["event"], len(g.records.held)))
    g.allocate("slot=2/node", job="a", duration_s=5)
    g.free("a")
    assert seen == [("allocate", 0), ("free", 2)]
    assert (g.jobs(), g.records.held, g.check()) == ([], {}, [])


def test_ended_batch_is_dropped_completely() -> None:
    g = machine()
    g.allocate("slot=1/node", job="a", duration_s=5)
    g.allocate("slot=1/license=4", job="b", duration_s=9)
    assert g.expire(5) == ["a"]
    assert g.jobs() == ["b"]
    assert g.pool("/cluster/license/feature0").available() == 0
    assert g.expire(9) == ["b"]
    assert g.pool("/cluster/license/feature0").available() == 1
    assert g.check() == []

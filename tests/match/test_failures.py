"""The cache of failed searches never changes a result, whatever is allocated and freed in between."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.errors import FluxresError
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.match import Matcher
from fluxres.model import ResourceGraph
from fluxres.syntax.jobspec import as_request

TEXTS = ("slot=1/node", "slot=2/node", "slot=1/core", "slot=1/core=2", "slot=3/core", "slot=1/[core;gpu]")
REQUESTS = [as_request(text) for text in TEXTS]
NODE = Recipe("node", count=3, children=(Recipe("core", count=2), Recipe("gpu")))
MACHINE = Recipe("cluster", children=(NODE,))

taken = st.tuples(st.just("take"), st.sampled_from(REQUESTS), st.integers(0, 12), st.integers(1, 6))
reserved = st.tuples(st.just("reserve"), st.sampled_from(REQUESTS), st.integers(0, 6), st.integers(1, 6))
given_back = st.tuples(st.just("free"), st.none(), st.integers(0, 20), st.integers(0, 8))


@settings(max_examples=75, deadline=None)
@given(st.lists(st.one_of(taken, reserved, given_back), min_size=3, max_size=25))
def test_starts_equal_those_without_a_cache(steps: list[tuple[str, object, int, int]]) -> None:
    g = ResourceGraph(expand(MACHINE, origin=uuids.new_origin()))
    for number, (kind, request, at, length) in enumerate(steps):
        if kind == "free":
            jobs = g.jobs()
            if jobs:
                job = jobs[at % len(jobs)]
                span = g.allocation(job)
                # Sometimes only the end of it, as when a job ends early.
                cut = span.start + length
                g.free(job, start=cut if cut < span.end else None)
            continue
        try:
            if kind == "take":
                g.allocate(request, job=f"j{number}", at=at, duration_s=length)  # type: ignore[arg-type]  # it is a request
            else:
                g.allocate_orelse_reserve(request, job=f"j{number}", after=at, duration_s=length)
        except FluxresError:
            continue
        for other in REQUESTS:
            fresh = Matcher(g.structure, g.planner).earliest(other, 2 * 10**6, 0)
            assert fresh is not None
            assert g.earliest(other, 0, 2) == fresh.start / 10**6
    assert g.check() == []

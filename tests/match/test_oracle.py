"""The traverser and the vector path compared with the oracle, and with each other over complete queues."""

from __future__ import annotations

import pytest

from fluxres.clock import FOREVER
from fluxres.match import Matcher
from tests.match import auxiliary, cases
from tests.match.campaign import run


def test_matcher_agrees_with_the_oracle() -> None:
    """`python -m tests.match.campaign` makes many thousands of them."""
    failures, tally = run(0, 120)
    assert failures == []
    assert not tally["undecided"]
    assert tally["matched"] > 20
    assert tally["vector"] > 10
    assert tally["charged"] > 0
    assert tally["later"] > 2


def test_matcher_agrees_with_the_oracle_on_nested_suppliers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that draws all of a feed holds it exclusively, with the PDUs and outlets in it that it held exclusively before."""
    monkeypatch.setattr(auxiliary, "GRAPHS", ["deep"])
    monkeypatch.setattr(auxiliary, "DIRECTED", 0.0)
    failures, tally = run(600_900, 180, step=3)
    assert failures == []
    assert tally["charged"] > 5


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(25))
def test_queue_gets_the_same_starts_and_pools_from_both(seed: int) -> None:
    """One matcher with its caches plans job after job; some jobs end early, some pools go down."""
    source = cases.random_source(seed)
    graphs = cases.graphs_source(seed)
    structure = cases.machine(source, graphs)
    scene = cases.Scene(structure, cases.planner_of(structure), None, [])
    matcher = Matcher(structure, scene.planner)
    held = []
    requests = [cases.request(source, structure, graphs) for _ in range(4)]
    for _ in range(24):
        request, duration = source.choice(requests), source.choice([1, 2, 3, 5, FOREVER])
        policy, after = source.choice(["first", "high", "spread", "lonodex"]), source.choice([0, 0, 2, 4])
        found = matcher.earliest(request, duration, after, policy)
        expected = Matcher(structure, scene.planner).earliest(request, duration, after, policy, reference=True)
        assert (found is None) == (expected is None)
        if found is None or expected is None:
            continue
        assert found.is_equal(expected)
        if len(found) and found.end < FOREVER:
            scene.planner.hold_all(found.vertices, found.amounts, found.start, found.end)
            held.append(found)
        if held and source.random() < 0.2:
            gone = held.pop(source.randrange(len(held)))
            scene.planner.release_all(gone.vertices, gone.amounts, gone.start, gone.end)
        if source.random() < 0.05:
            structure.set_state([source.randrange(1, structure.n)], source.choice(["up", "down"]))
    assert scene.planner.check() == []

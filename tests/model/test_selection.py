"""Selections as ordered sets: indexes, slices, set operations, and refusals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import FluxresError, StaleHandle, UnknownPool, UsageError
from fluxres.model import ResourceGraph, Selection
from tests.graph.builders import demo

MACHINE = demo()
PLACES = st.one_of(st.none(), st.integers(-60, 60))


@pytest.fixture
def g() -> ResourceGraph:
    return ResourceGraph(demo())


@given(st.sets(st.integers(0, MACHINE.n - 1)), st.sets(st.integers(0, MACHINE.n - 1)))
def test_set_operations_match_those_of_sets(left: set[int], right: set[int]) -> None:
    g = ResourceGraph(MACHINE)
    one, other = (g.select(np.array(sorted(pools), np.int32)) for pools in (left, right))
    for joined, expected in ((one & other, left & right), (one | other, left | right), (one - other, left - right)):
        assert joined.vertices.tolist() == sorted(expected)
        assert joined.vertices.dtype == np.int32
        assert len(joined) == len(expected)
        assert all(g.pool(v) in joined for v in expected)
        assert not any(g.pool(v) in joined for v in range(MACHINE.n) if v not in expected)
    assert (one == other) == (left == right)


@given(st.sets(st.integers(0, MACHINE.n - 1)), PLACES, PLACES, st.one_of(st.none(), st.integers(1, 5)))
def test_indexes_and_slices_match_those_of_a_list(pools: set[int], start: int | None, stop: int | None, step: int | None) -> None:
    g = ResourceGraph(MACHINE)
    found, expected = g.select(np.array(sorted(pools), np.int32)), sorted(pools)
    part = found[start:stop:step]
    assert isinstance(part, Selection)
    assert part.vertices.tolist() == expected[start:stop:step]
    for place in range(-len(expected), len(expected)):
        assert found[place] == found[np.int64(place)] == g.pool(expected[place])
    assert [pool.vertex for pool in reversed(found)] == expected[::-1]


def test_selection_shows_its_first_pools(g: ResourceGraph) -> None:
    assert repr(g.find("type=rack")) == "<Selection of 2 pools: /demo/rack0, /demo/rack1>"
    assert repr(g.find("type=pdu and id=0")) == "<Selection of 1 pool: power:/pdu0>"
    assert repr(g.find("type=gpu")) == "<Selection of 0 pools>"
    nodes = "/demo/rack0/node-0-0, /demo/rack0/node-0-1, /demo/rack0/node-0-2"
    found = g.find("type=node")
    assert repr(found) == f"<Selection of 6 pools: {nodes}, …>"
    g.unlink("/demo/rack1")
    assert repr(found) == "<Selection of 6 pools of an earlier generation>"


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda s: s[6], UnknownPool, "index 6 is out of range: the selection has 6 pools"),
        (lambda s: s[-7], UnknownPool, "index -7 is out of range"),
        (lambda s: s["node0"], UsageError, "expected a place in the selection or a slice, got 'node0'"),
        (lambda s: s[True], UsageError, "expected a place"),
        (lambda s: s["a":"b"], UsageError, "expected whole numbers in a slice"),
        (lambda s: s[::-1], UsageError, "a step of -1 is not supported"),
        (lambda s: s & 5, UsageError, "expected another selection, got 5"),
        (lambda s: s | ["/demo"], UsageError, "expected another selection"),
        (lambda s: s - s.graph.duplicate().find("all"), StaleHandle, "belong to different graphs"),
    ],
)
def test_selection_refuses_invalid_operands(
    g: ResourceGraph, ask: Callable[[Selection], object], error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        ask(g.find("type=node"))


def test_selections_of_two_generations_are_not_combined(g: ResourceGraph) -> None:
    before, same = g.find("type=rack"), g.find("type=rack")
    g.unlink("/demo/rack1")
    after = g.find("type=rack")
    for ask in (lambda: before & after, lambda: after | before, lambda: before[0], lambda: list(before)):
        with pytest.raises(StaleHandle, match="before the graph changed its structure"):
            ask()
    assert before == same
    assert before != after
    assert before != g.duplicate().find("type=rack")


def test_find_accepts_a_function_of_a_pool(g: ResourceGraph) -> None:
    g.allocate("/demo/rack0/node-0-1", job="a")
    assert g.find(lambda pool: pool.type == "node" and pool.exclusive).paths() == ["/demo/rack0/node-0-1"]
    assert g.find(lambda pool: pool.size) == g.find("all")
    assert not g.find(lambda pool: None)


def test_function_that_changes_the_structure_raises_stale_handle(g: ResourceGraph) -> None:
    with pytest.raises(StaleHandle, match="during this search"):
        g.find(lambda pool: pool.vertex == g.structure.n - 1 and g.unlink("/demo/rack1") is None)


@pytest.mark.parametrize("wanted", [None, 5, ["type=node"], b"type=node", {"type": "node"}, int, ResourceGraph])
def test_find_refuses_invalid_criteria(g: ResourceGraph, wanted: object) -> None:
    with pytest.raises(UsageError, match=r"expected criteria, got .*give text such as type=node"):
        g.find(wanted)  # type: ignore[arg-type]  # what a type checker would refuse as well


def test_function_queries_its_own_time(g: ResourceGraph) -> None:
    errors: list[FluxresError] = []
    for time in ({"at": 3.0}, {"during": (0.0, 3.0)}):
        with pytest.raises(UsageError, match="a function was given with a time") as caught:
            g.find(lambda pool: True, **time)  # type: ignore[arg-type]  # the loop's keywords are those of find
        errors.append(caught.value)
    assert all("available(at=…)" in error.hint for error in errors)

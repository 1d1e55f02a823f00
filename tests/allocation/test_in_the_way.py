"""A refusal of several named pools: the first time at which all of them are free, and all that are in the way."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

import fluxres
from fluxres import FluxresError, InsufficientResources, Resource, ResourceGraph, limits


def machine(*, exclusive: bool = False) -> ResourceGraph:
    node = Resource("node", 3, children=[Resource("core", 2), Resource("memory", size=4)], exclusive=exclusive)
    return fluxres.build(Resource("rack", 2, children=[node]), name="m")


def refused(graph: ResourceGraph, *where: object, start: float = 0, end: float | None = 5) -> InsufficientResources:
    with pytest.raises(InsufficientResources) as caught:
        graph.allocate(list(where), job="c", start=start, end=end)
    return caught.value


def test_the_time_is_that_of_all_pools_and_all_in_the_way_are_named() -> None:
    graph = machine()
    graph.allocate("/m/rack0/node0", job="a", start=0, end=3)
    graph.allocate("/m/rack0/node1", job="b", start=0, end=9)
    graph.allocate("/m/rack0/node2", job="d", start=11, end=20)
    error = refused(graph, "/m/rack0/node0", "/m/rack0/node1")
    assert error.earliest == 9
    assert error.reasons == {"/m/rack0/node0": "a", "/m/rack0/node1": "b"}
    assert error.hint == "also in the way: /m/rack0/node1 (b); all are free from 9 s on"
    assert str(error).startswith("/m/rack0/node0: requested 1 unit, 0 of 1 free (held by a)")
    # There is no room for 5 s before 20 s.
    assert refused(graph, "/m/rack0/node0", "/m/rack0/node1", "/m/rack0/node2").earliest == 20
    assert refused(graph, "/m/rack0/node0", "/m/rack1/node0").earliest == 3
    assert refused(graph, "/m/rack0/node0", "/m/rack1/node0").hint == "free from 3 s on"
    assert refused(graph, "/m/rack0/node0", ("/m/rack0/node1/memory", 2)).reasons == {
        "/m/rack0/node0": "a",
        "/m/rack0/node1": "b",
    }


def test_no_time_if_one_of_them_is_never_free_or_out_of_service() -> None:
    graph = machine()
    graph.allocate("/m/rack0/node0", job="a", start=0, end=3)
    graph.allocate("/m/rack0/node1", job="b", start=0)
    error = refused(graph, "/m/rack0/node0", "/m/rack0/node1")
    assert (error.earliest, error.hint) == (None, "also in the way: /m/rack0/node1 (b)")
    graph.set_state("/m/rack1", "down")
    error = refused(graph, "/m/rack0/node0", "/m/rack1/node0")
    assert error.earliest is None
    assert error.reasons == {"/m/rack0/node0": "a", "/m/rack1": "down"}
    graph.set_state("/m/rack1", "up")
    graph.set_state("/m/rack0/node0", "drain")
    error = refused(graph, "/m/rack0/node0", "/m/rack0/node1")
    assert error.hint == "set the state of /m/rack0/node0 to up; also in the way: /m/rack0/node1 (b)"
    assert error.earliest is None


def test_the_number_of_reasons_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = machine()
    monkeypatch.setattr(limits, "POOLS_IN_THE_WAY_MAX", 3)
    for i, path in enumerate(graph.find("type=node").paths()):
        graph.allocate(path, job=f"j{i}", start=0, end=10 + i)
    error = refused(graph, *graph.find("type=node").paths())
    assert (len(error.reasons), error.earliest) == (3, 15)
    graph.set_state("/m/rack1/node2", "down")
    assert refused(graph, *graph.find("type=node").paths()).earliest is None


@pytest.mark.parametrize("exclusive", [False, True], ids=["shared nodes", "exclusive nodes"])
@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(20))
def test_the_time_is_the_first_at_which_it_succeeds(seed: int, exclusive: bool) -> None:
    random, graph = Random(seed), machine(exclusive=exclusive)
    pools = [pool.path for pool in graph.walk("/m")][1:]
    for number in range(12):
        start = random.randrange(30)
        end = None if random.random() < 0.1 else start + random.randrange(1, 15)
        with suppress(FluxresError):
            graph.allocate(random.choice(pools), job=f"j{number}", start=start, end=end)
    if random.random() < 0.2:
        graph.set_state(random.choice(pools), "down")
    named = random.sample([path for path in pools if path.count("/") > 2], 2) + random.sample(pools[-4:], 1)
    where, length = list(dict.fromkeys(named)), random.randrange(1, 8)

    def refusal(at: int) -> FluxresError | None:
        try:
            graph.allocate(where, job="c", start=at, end=at + length)
        except FluxresError as error:
            return error
        graph.free("c")
        return None

    refusals = [refusal(at) for at in range(60)]
    for at, error in enumerate(refusals[:30]):
        if isinstance(error, InsufficientResources):
            assert error.earliest == next((later for later in range(at, 60) if refusals[later] is None), None)
            assert error.reasons

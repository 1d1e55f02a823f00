"""Allocations as values: equal if the job holds the same units of the same pools over the same time."""

from __future__ import annotations

import pickle

import fluxres
from fluxres.model import ResourceGraph


def made() -> ResourceGraph:
    return fluxres.load({"fluxres": 1, "name": "m", "resources": [{"type": "memory", "count": 2, "size": 8}]})


def test_allocations_are_equal_by_job_window_and_spans() -> None:
    graph = made()
    given = graph.allocate("/m/memory0", job="a", start=0, end=10)
    found = graph.allocation("a")
    assert given == found == pickle.loads(pickle.dumps(found))
    assert len({given, found}) == 1
    assert given != "a"
    graph.set_end("a", 9)
    assert given != graph.allocation("a")
    graph.set_end("a", 10)
    assert given == graph.allocation("a")


def test_other_jobs_pools_and_amounts_differ() -> None:
    graph, other = made(), made()
    first = graph.allocate([("/m/memory0", 4)], job="a", start=0, end=10)
    assert first != graph.allocate([("/m/memory0", 4)], job="b", start=0, end=10)
    assert first != other.allocate([("/m/memory1", 4)], job="a", start=0, end=10)
    other.free("a")
    assert first != other.allocate([("/m/memory0", 3)], job="a", start=0, end=10)
    other.free("a")
    assert first == other.allocate([("/m/memory0", 4)], job="a", start=0, end=10)

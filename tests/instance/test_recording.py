"""What an instance records of a job in its graph."""

from __future__ import annotations

import pytest

from fluxres import Resource, build
from fluxres.allocation import records
from fluxres.clock import ticks
from fluxres.instance import recording


def test_the_rest_of_a_job_is_freed_from_a_moment_on() -> None:
    graph = build(Resource("node", 2), name="m")
    graph.allocate("/m/node0", job="j", start=0, end=10)
    recording.free_rest(graph, "j", ticks(4))
    assert [(span.start, span.end) for span in graph.allocation("j").spans] == [(0, 4)]
    recording.free_rest(graph, "j", ticks(4))
    assert [(span.start, span.end) for span in graph.allocation("j").spans] == [(0, 4)]


def test_the_rest_of_a_job_that_holds_nothing_is_not_looked_for_among_similar_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def suggest(*_: object, **__: object) -> str:
        raise AssertionError("compared with the names of all jobs")

    graph = build(Resource("node", 2), name="m")
    graph.allocate("/m/node0", job="j1")
    stage = graph.stage("/m/node1", job="j3", ttl_s=1)
    graph.clock = lambda: 2.0
    monkeypatch.setattr(records, "suggest", suggest)
    recording.free_rest(graph, "j2", 0)
    assert graph.jobs() == ["j1"]
    assert stage.stage not in graph.records.stages  # as before each change, stages that have expired are released

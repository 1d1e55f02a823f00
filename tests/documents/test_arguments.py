"""A wrong argument of a public method is a FluxresError that says what was expected, and changes nothing (rule E1)."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluxres
from fluxres import FluxresError, Hostlist, Instance, Resource, ResourceGraph, UsageError
from fluxres.documents.document import shown
from fluxres.formats.builder import AuxiliaryGraph, Edge

SEVERAL = np.array([1, 2])
"""An array, whose truth is an error of Python."""
NEVER = np.timedelta64("NaT")
HALF = "\ud800"
"""Half of a character, which no file can have."""


def machine() -> ResourceGraph:
    power = AuxiliaryGraph(hierarchy=True, pools=[Resource("pdu", size=100)], edges=[Edge("power:/pdu", "/m/node0")])
    return fluxres.build(Resource("node", 4, children=[Resource("core", 4)]), name="m", graphs={"power": power})


ON_A_GRAPH: dict[str, Callable[[Any], Any]] = {
    "since infinite": lambda g: g.set_state("/m/node0", "down", reason="x", since=math.inf),
    "since infinite, as text": lambda g: g.set_state("/m/node0", "down", user="x", since="inf"),
    "since without a reason": lambda g: g.set_state("/m/node0", "down", since=SEVERAL),
    **{f"state {state!r}": lambda g, state=state: g.set_state("/m/node0", state) for state in (SEVERAL, None, ["up"], HALF)},
    "tag": lambda g: g.tag("/m/node0", "a", HALF),
    "amount in a mapping": lambda g: g.allocate({"/m/node0": NEVER}, job="x"),
    "amount in a pair": lambda g: g.allocate([("/m/node0", np.timedelta64(1))], job="x"),
    "pool": lambda g: g.allocate(np.timedelta64(1), job="x"),
    "one of several pools": lambda g: g.allocate([NEVER], job="x"),
    "handle": lambda g: g.pool(NEVER),
    **{f"stage {stage!r}": lambda g, stage=stage: g.commit(stage) for stage in (None, SEVERAL, 3)},
    **{f"release {stage!r}": lambda g, stage=stage: g.release(stage) for stage in (None, SEVERAL, 3)},
    **{f"match_all {wanted!r}": lambda g, wanted=wanted: g.match_all(wanted) for wanted in (None, 3, "slot/node", b"slot/node")},
    **{
        f"allocate_all {wanted!r}": lambda g, wanted=wanted: g.allocate_all(wanted)
        for wanted in (None, 3, ["x"], [("slot/node",)])
    },
    **{
        f"commit_all {found!r}": lambda g, found=found: g.commit_all(found)
        for found in (None, 3, ["x"], [("x",)], [("x", "y", "z")])
    },
    "earliest_all": lambda g: g.earliest_all(None),
    "why_not_all": lambda g: g.why_not_all(None),
    "walk, hierarchy": lambda g: list(g.walk(hierarchy=SEVERAL)),
    "walk, order": lambda g: list(g.walk(order=SEVERAL)),
    "aggregate, hierarchy": lambda g: g.aggregate(hierarchy=SEVERAL),
    "aggregate, all": lambda g: g.aggregate(all=SEVERAL),
    "parent_in": lambda g: g.pool("/m").parent_in(SEVERAL),
    "unlink": lambda g: g.unlink("/m/node0", SEVERAL),
    "reserve": lambda g: g.reserve("/m/node0", name="r", start=5, end=6, ignore_jobs=SEVERAL),
    "edge, supply": lambda g: g.add_edge("/m/node0", "/m/node1", "power", supply=SEVERAL),
    "edge, capacity": lambda g: g.add_edge("/m/node0", "/m/node1", "net", capacity=NEVER),
    "edge, attribute": lambda g: g.add_edge("/m/node0", "/m/node1", "net", attributes={"a": HALF}),
    "show, text": lambda g: g.show(""),
    "show, array": lambda g: g.show(SEVERAL),
    "clock": lambda g: setattr(g, "clock", True),
    **{f"dumps {name!r}": lambda g, name=name: fluxres.dumps(g, format=name) for name in (None, 3, SEVERAL)},
    **{f"save {name!r}": lambda g, name=name: fluxres.save(g, io.BytesIO(), format=name) for name in (3, SEVERAL)},
    **{f"loads {name!r}": lambda g, name=name: fluxres.loads(fluxres.dumps(g), format=name) for name in (3, SEVERAL)},
    **{
        f"Instance, {name}": lambda g, given=given: Instance(g, **given)
        for name, given in {
            "clock": {"clock": True},
            "clock as a number": {"clock": 3.0},
            "name": {"name": ["x"]},
            "inventory": {"inventory": None},
            "inventory as an array": {"inventory": SEVERAL},
            "passes": {"passes": SEVERAL},
            "queue policy": {"queue_policy": SEVERAL},
            "match policy": {"match_policy": SEVERAL},
            "size policy": {"size_policy": 3},
        }.items()
    },
}


@pytest.mark.parametrize("wrong", ON_A_GRAPH.values(), ids=ON_A_GRAPH)
def test_wrong_arguments_of_a_graph_are_errors_that_change_nothing(wrong: Callable[[Any], Any]) -> None:
    graph = machine()
    graph.allocate("/m/node3", job="held")
    before, clock = fluxres.dumps(graph), graph.clock()
    with pytest.raises(FluxresError):
        wrong(graph)
    assert (fluxres.dumps(graph), graph.clock(), graph.check()) == (before, clock, [])


OF_AN_INSTANCE: dict[str, Callable[[Instance, Any], Any]] = {
    "exception, severity None": lambda one, job: one.exception(job, "x", None),  # type: ignore[arg-type]  # wrong on purpose
    "exception, severity": lambda one, job: one.exception(job, "x", SEVERAL),  # type: ignore[arg-type]  # wrong on purpose
    "exception, kind": lambda one, job: one.exception(job, None, 7),  # type: ignore[arg-type]  # wrong on purpose
    "exception, note": lambda one, job: one.exception(job, "x", 7, SEVERAL),  # type: ignore[arg-type]  # wrong on purpose
    "cancel": lambda one, job: one.cancel(job, SEVERAL),  # type: ignore[arg-type]  # wrong on purpose
    "finish": lambda one, job: one.finish(job, SEVERAL),  # type: ignore[arg-type]  # wrong on purpose
    "find None": lambda one, job: one.find(None),  # type: ignore[arg-type]  # wrong on purpose
    "find 3": lambda one, job: one.find(3),  # type: ignore[arg-type]  # wrong on purpose
    "jobs": lambda one, job: one.jobs(SEVERAL),  # type: ignore[arg-type]  # wrong on purpose
    "resize": lambda one, job: one.resize(job, SEVERAL),  # type: ignore[arg-type]  # wrong on purpose
    "schedule": lambda one, job: one.schedule("a"),  # type: ignore[arg-type]  # wrong on purpose
    "measure_in": lambda one, job: one.measure_in(SEVERAL),  # type: ignore[arg-type]  # wrong on purpose
    "set_state": lambda one, job: one.set_state("/m/node0", SEVERAL),  # type: ignore[arg-type]  # wrong on purpose
    "add_dependency": lambda one, job: one.add_dependency(one.submit("slot=4/node"), None),  # type: ignore[arg-type]  # wrong on purpose
    "spawn": lambda one, job: one.spawn(job, name=["x"]),  # type: ignore[arg-type]  # wrong on purpose
}


@pytest.mark.parametrize("wrong", OF_AN_INSTANCE.values(), ids=OF_AN_INSTANCE)
def test_wrong_arguments_of_an_instance_are_errors_that_leave_its_jobs(wrong: Callable[[Instance, Any], Any]) -> None:
    instance = Instance(machine())
    job = instance.submit("slot=2/node", sizes={1: None, 2: None}, is_malleable=True)
    with pytest.raises(UsageError):
        wrong(instance, job)
    assert (job.state.name, job.exceptions, job.child, instance.check()) == ("RUN", (), None, [])


OTHERS: dict[str, Callable[[], Any]] = {
    **{
        f"{key} of half a character": lambda key=key: fluxres.build(Resource("node", **{key: HALF}))
        for key in (
            "properties",
            "children",
            "count",
            "state",
            "exclusive",
            "unit",
        )
    },
    "property": lambda: fluxres.build(Resource("node", properties={"a": HALF})),
    "tag": lambda: fluxres.build(Resource("node", tags={"a": HALF})),
    "partitions": lambda: fluxres.build(Resource("node"), partitions={"a": "x"}),  # type: ignore[dict-item]  # wrong on purpose
    "partitions as text": lambda: fluxres.build(Resource("node"), partitions="x"),  # type: ignore[arg-type]  # wrong on purpose
    "no pools": lambda: fluxres.build(Resource("node"), pools=None),  # type: ignore[arg-type]  # wrong on purpose
    "pools as text": lambda: fluxres.build(Resource("node"), pools="a" * 100_000),  # type: ignore[arg-type]  # wrong on purpose
    "graphs": lambda: fluxres.build(Resource("node"), graphs=SEVERAL),  # type: ignore[arg-type]  # wrong on purpose
    "Hostlist of nothing": lambda: Hostlist(None),  # type: ignore[arg-type]  # wrong on purpose
    "Hostlist of a number": lambda: Hostlist(3),  # type: ignore[arg-type]  # wrong on purpose
    "Instance": lambda: Instance(None),  # type: ignore[arg-type]  # wrong on purpose
    "dumps": lambda: fluxres.dumps(None),  # type: ignore[arg-type]  # wrong on purpose
    "save": lambda: fluxres.save(None, io.BytesIO()),  # type: ignore[arg-type]  # wrong on purpose
}


@pytest.mark.parametrize("wrong", [None, SEVERAL, "cluster.yaml"], ids=["None", "a list", "a text"])
def test_another_value_in_place_of_a_graph_is_refused_in_the_same_words(wrong: Any) -> None:
    for ask in (lambda: fluxres.dumps(wrong), lambda: Instance(wrong), lambda: machine().diff(wrong)):
        with pytest.raises(UsageError) as caught:
            ask()
        assert caught.value.message == f"expected a ResourceGraph, got {shown(wrong)}"
        assert caught.value.hint == "such as fluxres.load('cluster.yaml')"


@pytest.mark.parametrize("wrong", OTHERS.values(), ids=OTHERS)
def test_other_wrong_arguments_are_errors(wrong: Callable[[], Any]) -> None:
    with pytest.raises(FluxresError) as caught:
        wrong()
    str(caught.value).encode()

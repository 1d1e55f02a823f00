"""A submission is checked completely before there is a job, so that one that is refused leaves nothing behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from fluxres import FluxresError, Request
from fluxres.instance.job import Dependency
from tests.instance.machines import on_nodes

WRONG: dict[str, list[Any]] = {
    **{word: [["a"], {}, bytearray(b"x"), 3, True, object(), np.array(["a", "b"])] for word in ("name", "user")},
    **{word: [["a"], 3, True] for word in ("account", "qos", "partition")},
    "dependencies": [
        True,
        3,
        b"x",
        [3],
        [None],
        [["afterok:ƒ1"]],
        ["singleton"],
        ["afterok:ƒ99"],
        ["afterok:ƒ2"],
        Dependency("afterok", [1]),  # type: ignore[arg-type]  # wrong on purpose
        Dependency(["afterok"], 1),  # type: ignore[arg-type]  # wrong on purpose
        Dependency("before", 1),
    ],
    "sizes": [3, [1, 2], "1", {}, {"a": None}, {1.5: None}, {True: None}, {0: None}, {None: None, 1: None}, {1: [3]}],
    "is_malleable": ["yes", 1, None],
    "urgency": ["a", None, 1.5, [1], np.array([1, 2])],
    "duration_s": ["soon", [1], timedelta(0), np.array([1, 2])],
}


@pytest.mark.parametrize(("argument", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_refused_submission_leaves_nothing(argument: str, value: Any) -> None:
    top, _ = on_nodes(4)
    job = top.submit("slot=2/node")
    child = top.spawn(job)
    with pytest.raises(FluxresError):
        child.submit("slot=1/node", **{argument: value})
    assert (child.jobs(), child.pending, child.running, child.jobs_kept) == ([], 0, 0, 0)
    assert child.submit("slot=2/node").state.name == "RUN"
    child.close()
    assert (child.is_closed, job.result, top.running) == (True, "completed", 0)


def test_a_wrong_dependency_in_a_request_leaves_nothing() -> None:
    instance, _ = on_nodes(2)
    plain = Request.parse("slot=1/node")
    for wrong in (3, "before:ƒ1", [3], [{"scheme": "singleton"}]):
        with pytest.raises(FluxresError):
            instance.submit(Request(plain.resources, attributes={"system": {"dependencies": wrong}}))
    assert (instance.jobs(), instance.running) == ([], 0)


@pytest.mark.parametrize("argument", ["name", "user"])
def test_a_refused_reservation_leaves_nothing(argument: str) -> None:
    instance, _ = on_nodes(2)
    with pytest.raises(FluxresError, match=f"{argument}: expected text"):
        instance.reserve("slot=1/node", start_s=10, duration_s=5, **{argument: ["a"]})  # type: ignore[arg-type]  # wrong on purpose
    assert (instance.jobs(), instance.running, instance.graph.jobs()) == ([], 0, [])


def test_a_refused_submission_has_no_events() -> None:
    seen: list[str] = []
    instance, _ = on_nodes(2, events=lambda job, event: seen.append(event.name))
    with pytest.raises(FluxresError, match="no such job"):
        instance.submit("slot=1/node", dependencies="afterok:ƒ99")
    assert seen == []
    instance.submit("slot=1/node")
    assert seen[0] == "submit"

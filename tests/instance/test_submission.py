"""A submission is checked completely before there is a job, so that one that is refused leaves nothing behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from fluxres import FluxresError, InfeasibleRequest, InputError, NothingHeld, Request, UnknownType, UsageError
from fluxres.instance import Instance
from fluxres.instance.job import Dependency
from tests.instance.machines import ManualClock, of_shape, on_nodes

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


@pytest.mark.parametrize("inventory", ["graph", "auto", "named", "counted:cluster"])
@pytest.mark.parametrize("wanted", ["node=2", "core=1", "node=2/core=1"])
def test_a_request_for_shared_pools_alone_is_refused(wanted: str, inventory: str) -> None:
    instance = Instance(of_shape("node=4/core=2"), inventory=inventory)
    for ask in (lambda: instance.submit(wanted), lambda: instance.reserve(wanted, start_s=5, duration_s=5)):
        with pytest.raises(NothingHeld, match=r"only asks for shared pools.*put them in a slot"):
            ask()
    assert (instance.jobs(), instance.graph.jobs(), instance.can_hold(Request.parse(wanted))) == ([], [], False)


def test_a_policy_that_takes_nodes_exclusively_needs_no_slot() -> None:
    instance = Instance(of_shape("node=4/core=2"), match_policy="firstnodex")
    assert instance.submit("node=2").pools == [("/cluster/node0", 1), ("/cluster/node1", 1)]


def test_a_number_is_no_pool() -> None:
    instance, _ = on_nodes(4)
    child = instance.spawn(instance.submit("slot=2/node"))
    for ask in (lambda: child.grow(1), lambda: child.shrink(1)):
        with pytest.raises(UsageError, match=r"expected a request or pools, got the number 1 .*slot=1/node"):
            ask()


@pytest.mark.parametrize("text", ["begin-time:+2h", "begin-time:7200", "begin-time:1970-01-01T02:00Z"])
def test_a_begin_time_is_any_text_for_a_time(text: str) -> None:
    instance, clock = on_nodes(1)
    job = instance.submit("slot=1/node", dependencies=text)
    assert instance.next_due() == 7200.0
    clock.now_s = 7200.0
    instance.advance()
    assert job.state.name == "RUN"


@pytest.mark.parametrize("text", ["begin-time:-", "begin-time:inf", "begin-time:nan", "begin-time:soon", "begin-time:"])
def test_a_begin_time_that_never_comes_is_refused(text: str) -> None:
    instance, _ = on_nodes(1)
    with pytest.raises(InputError, match=r"^dependency begin-time: "):
        instance.submit("slot=1/node", dependencies=text)


def test_a_dependency_on_no_job_is_named_as_it_was_given() -> None:
    instance, _ = on_nodes(1)
    with pytest.raises(UsageError, match=r"^afterok:first: no such job.*names a job by its id"):
        instance.submit("slot=1/node", dependencies="afterok:first")
    with pytest.raises(InputError, match="did you mean afterok"):
        instance.submit("slot=1/node", dependencies="after0k:ƒ1")


def test_jobs_of_no_state_are_all_jobs() -> None:
    instance, _ = on_nodes(1)
    job = instance.submit("slot=1/node")
    assert instance.jobs(None) == instance.jobs() == [job]


def test_a_type_to_measure_in_is_one_of_the_machine() -> None:
    instance, _ = on_nodes(1)
    with pytest.raises(UnknownType, match=r"no pool of type 'nod' .*node"):
        instance.measure_in("nod")
    instance.measure_in("node")


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_an_advance_reservation_says_what_it_has_and_when(inventory: str) -> None:
    clock = ManualClock()
    instance = Instance(of_shape("node=2"), inventory=inventory, clock=clock)
    job = instance.reserve("slot=1/node", start_s=10, duration_s=5)
    assert (job.reserved_at, job.ends_at, job.pools) == (10.0, 15.0, [("/cluster/node0", 1)])
    clock.now_s = 10.0
    instance.advance()
    assert (job.state.name, job.reserved_at, job.ends_at, job.pools) == ("RUN", None, 15.0, [("/cluster/node0", 1)])
    with pytest.raises(UsageError, match="expected a start after now, got never"):
        instance.reserve("slot=1/node", start_s=float("inf"), duration_s=5)
    with pytest.raises(UsageError, match="expected a request or pools, got both"):
        instance.reserve("slot=1/node", pools="/cluster/node0", start_s=20, duration_s=5)


def test_an_advance_reservation_takes_no_dependency() -> None:
    instance, _ = on_nodes(2)
    held = instance.submit("slot=2/node", urgency=0)
    ahead = instance.reserve("slot=2/node", start_s=100, duration_s=20)
    with pytest.raises(UsageError, match="an advance reservation begins at its time"):
        instance.add_dependency(ahead, f"afterany:{held.id}")
    assert (ahead.reserved_at, [str(one.scheme) for one in ahead.dependencies]) == (100, ["begin-time"])


def test_a_new_limit_is_no_change_of_the_limit() -> None:
    instance, _ = on_nodes(2)
    job = instance.submit("slot=2/node", duration_s="2h")
    with pytest.raises(UsageError, match=r"expected the new limit, got '\+1h', a change of it"):
        instance.set_duration(job, "+1h")
    assert job.duration_s == 7200


@pytest.mark.parametrize("first", ["slot=1/core", "slot=1/node", "slot=1/[node]"])
@pytest.mark.parametrize("unit", [None, "core"])
@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_limits_of_an_accounting_have_one_unit_whatever_jobs_have_asked_for(inventory: str, unit: str | None, first: str) -> None:
    rules = {"partitions": {"p": {"max_size_of_job": 8, "default": True}}, "users": {"v": {"max_size": 1}}}
    instance = Instance(of_shape("node=4/core=3"), inventory=inventory, accounting=rules)
    instance.measure_in(unit)
    instance.submit(first)
    with pytest.raises(InfeasibleRequest, match="requests more than max_size_of_job allows: 8 cores"):
        instance.submit("slot=4/[node]")
    job = instance.submit("slot=1/[node]", user="v")
    assert (job.size, job.limit_reached) == (3, "can never start: user v: requests more than max_size allows: 1 core")

"""Dependencies on jobs, names and times."""

from __future__ import annotations

from typing import Any

import pytest

from fluxres import InputError, UsageError, limits
from fluxres.instance import State
from fluxres.instance.dependencies import parse
from fluxres.instance.job import Dependency
from tests.instance.machines import on_nodes


def test_parse() -> None:
    assert parse("afterstart:ƒ2") == Dependency("after", 1)
    assert parse({"scheme": "afterany", "value": "0x10"}) == Dependency("afterany", 16)
    assert parse("singleton") == Dependency("singleton")
    assert [str(parse(text)) for text in ("afterok:f2", "begin-time:1.5", "singleton")] == [
        "afterok:ƒ2",
        "begin-time:1.5",
        "singleton",
    ]
    for wrong in ("before:ƒ2", "afterok:", "afterok:ƒ0", "begin-time:soon", "begin-time:nan", ""):
        with pytest.raises(InputError):
            parse(wrong)


def test_one_dependency_needs_no_list() -> None:
    instance, _ = on_nodes(2)
    first = instance.submit("slot=1/node")
    for one in (f"afterok:{first.id}", {"scheme": "afterok", "value": str(first.id)}, Dependency("afterok", first.id)):
        assert instance.submit("slot=1/node", dependencies=one).dependencies == (Dependency("afterok", first.id),)


@pytest.mark.parametrize(
    ("scheme", "status", "result"),
    [
        ("afterok", 0, "RUN"),
        ("afterok", 1, "INACTIVE"),
        ("afternotok", 0, "INACTIVE"),
        ("afternotok", 1, "RUN"),
        ("afterany", 1, "RUN"),
    ],
)
def test_outcomes(scheme: str, status: int, result: str) -> None:
    instance, _ = on_nodes(2)
    first = instance.submit("slot=1/node")
    then = instance.submit("slot=1/node", dependencies=[f"{scheme}:{first.id}"])
    assert then.state is State.DEPEND
    instance.finish(first, status=status)
    assert then.state.name == result
    waiting = instance.submit("slot=1/node", urgency=0)
    if result == "INACTIVE":
        assert (then.result, then.exceptions[0].type) == ("failed", "dependency")
        before = instance.jobs()
        known = {"scheme": scheme, "value": str(first.id)}
        for attempt in (
            lambda: instance.submit("slot=1/node", dependencies=[f"{scheme}:{first.id}"]),
            lambda: instance.submit(_with_dependency(known)),
            lambda: instance.add_dependency(waiting, known),
        ):
            with pytest.raises(UsageError, match=f"{scheme}:{first.id} can never be satisfied: job {first.id} "):
                attempt()
        assert (instance.jobs(), waiting.state) == (before, State.SCHED)
        return
    late = instance.submit("slot=1/node", dependencies=[f"{scheme}:{first.id}"])
    assert late.state.name == result


def _with_dependency(one: dict[str, str]) -> dict[str, Any]:
    slot = {"type": "slot", "count": 1, "label": "task", "with": [{"type": "node", "count": 1}]}
    task = {"command": ["true"], "slot": "task", "count": {"per_slot": 1}}
    system = {"duration": 0, "dependencies": [one]}
    return {"version": 1, "resources": [slot], "tasks": [task], "attributes": {"system": system}}


def test_a_job_that_never_started_is_no_start() -> None:
    instance, _ = on_nodes(1)
    first = instance.submit("slot=1/node", urgency=0)
    instance.cancel(first)
    with pytest.raises(UsageError, match=f"after:{first.id} can never be satisfied: job {first.id} ended without having started"):
        instance.submit("slot=1/node", dependencies=f"after:{first.id}")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("afterok:ƒ2?afterany:ƒ3", "expected one dependency, got .* not for any of several"),
        ("afterok:ƒ2?type=out", "unknown keys in .* a scheme and a value"),
        ("afterok:ƒ2,afterany:ƒ3", "expected one dependency, got .* repeat --dependency for each"),
        ("afterok:ƒ2:ƒ3", "expected one dependency, got .* repeat --dependency for each"),
        ("singleton,afterok:ƒ2", "expected one dependency, got .* repeat --dependency for each"),
        ("begin-time:5?x=y", "unknown keys in"),
        ("singleton:ƒ2", "a singleton has no value, got 'ƒ2'"),
        ({"scheme": "afterok", "value": "ƒ2", "type": "out"}, "unknown keys: type"),
        ("afterok", "^dependency: expected afterok:JOB, got 'afterok' .*names a job by its id"),
        ("afterok:", "^dependency: expected afterok:JOB, got 'afterok' .*names a job by its id"),
        ("after:solve", "^dependency: expected after:JOB, got 'after:solve' .*names a job by its id"),
        ("after:ƒ1+5", r"^dependency: expected after:JOB, got 'after:ƒ1\+5' .*begin-time:\+5m waits for a time"),
    ],
)
def test_nothing_of_a_dependency_is_left_out(wrong: str | dict[str, str], told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse(wrong)


def test_after_means_started() -> None:
    instance, _ = on_nodes(1)
    running, waiting = instance.submit("slot=1/node"), instance.submit("slot=1/node")
    then = instance.submit("slot=1/node", dependencies=[f"after:{waiting.id}"])
    at_once = instance.submit("slot=1/node", dependencies=[f"after:{running.id}"])
    assert (then.state, at_once.state) == (State.DEPEND, State.SCHED)
    instance.finish(running)
    assert then.state is State.SCHED
    never = instance.submit("slot=1/node", dependencies=[f"after:{at_once.id}"])
    instance.cancel(at_once)
    assert never.result == "failed"


def test_a_failed_job_fails_the_whole_chain_behind_it() -> None:
    instance, _ = on_nodes(1)
    chain = [instance.submit("slot=1/node")]
    for _ in range(20):
        chain.append(instance.submit("slot=1/node", dependencies=[f"afterok:{chain[-1].id}"]))
    instance.cancel(chain[0])
    assert {job.result for job in chain[1:]} == {"failed"}


def test_singletons_run_one_at_a_time() -> None:
    instance, _ = on_nodes(4)
    made = [instance.submit("slot=1/node", name="only", user="ann", dependencies=["singleton"]) for _ in range(3)]
    other = instance.submit("slot=1/node", name="only", user="bob", dependencies=["singleton"])
    assert [job.state.name for job in (*made, other)] == ["RUN", "DEPEND", "DEPEND", "RUN"]
    instance.cancel(made[1])
    instance.finish(made[0])
    assert made[2].state is State.RUN
    with pytest.raises(UsageError, match="name"):
        instance.submit("slot=1/node", dependencies=["singleton"])


def test_begin_time() -> None:
    instance, clock = on_nodes(1)
    job = instance.submit("slot=1/node", dependencies=["begin-time:5"])
    assert (job.state, instance.next_due()) == (State.DEPEND, 5.0)
    clock.now_s = 5.0
    instance.advance()
    assert job.started_at == 5.0
    assert instance.submit("slot=1/node", dependencies=["begin-time:5"]).state is State.SCHED


def test_cycles_are_refused_and_named() -> None:
    instance, _ = on_nodes(1)
    instance.submit("slot=1/node")
    first = instance.submit("slot=1/node", name="x")
    second = instance.submit("slot=1/node", dependencies=[f"afterok:{first.id}"])
    third = instance.submit("slot=1/node", dependencies=[f"afterany:{second.id}"])
    with pytest.raises(UsageError, match=f"cycle.*{first.id} → .*→ {first.id}"):
        instance.add_dependency(first, f"after:{third.id}")
    with pytest.raises(UsageError, match="cycle"):
        instance.add_dependency(first, f"after:{first.id}")
    waits = instance.submit("slot=1/node", name="x", dependencies=["singleton"])
    with pytest.raises(UsageError, match="cycle"):
        instance.add_dependency(first, f"afterok:{waits.id}")
    assert first.state is State.SCHED


def test_dependencies_can_be_added_later() -> None:
    instance, _ = on_nodes(1)
    running, waiting, last = (instance.submit("slot=1/node") for _ in range(3))
    instance.add_dependency(waiting, f"afterok:{last.id}")
    assert waiting.state is State.DEPEND
    instance.finish(running)
    assert last.state is State.RUN
    with pytest.raises(UsageError, match="not pending"):
        instance.add_dependency(last, "singleton")
    instance.finish(last)
    assert waiting.state is State.RUN


def test_dependencies_in_a_jobspec() -> None:
    instance, _ = on_nodes(2)
    first = instance.submit("slot=1/node")
    jobspec = {
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "node", "count": 1}]}],
        "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 5, "dependencies": [{"scheme": "afterok", "value": str(first.id)}]}},
    }
    then = instance.submit(jobspec)
    assert (then.state, then.duration_s) == (State.DEPEND, 5.0)
    instance.finish(first)
    assert then.state is State.RUN


def test_only_the_latest_outcomes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OUTCOMES_KEPT", 2)
    instance, _ = on_nodes(1)
    made = [instance.submit("slot=1/node") for _ in range(3)]
    for job in made:
        instance.finish(job)
    assert instance.submit("slot=1/node", dependencies=[f"afterok:{made[1].id}"]).state is State.RUN
    with pytest.raises(UsageError, match="no such job"):
        instance.submit("slot=1/node", dependencies=[f"afterok:{made[0].id}"])

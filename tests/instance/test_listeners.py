"""What listeners and sinks raise reaches the caller, and harms no job."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from fluxres import ListenerError, StoreError, UsageError
from fluxres.instance import Instance, Job, Runner, State
from fluxres.instance.job import JobEvent
from tests.instance.machines import ManualClock, nodes

EVENTS = 24
"""More than the course below has."""


def _course(instance: Instance, clock: ManualClock) -> list[ListenerError]:
    """Submit, finish, requeue, time out and close; returns what was raised."""
    raised: list[ListenerError] = []

    def attempt(step: Any) -> None:
        try:
            step()
        except ListenerError as error:
            raised.append(error)

    for _ in range(3):
        attempt(lambda: instance.submit("slot=2/node", duration_s=10))
    first, second, third = instance.jobs()
    attempt(lambda: instance.finish(first))
    attempt(lambda: instance.requeue(second))
    attempt(lambda: instance.cancel(third))
    clock.now_s = 30.0
    attempt(instance.advance)
    attempt(instance.close)
    return raised


@pytest.mark.parametrize("at", range(EVENTS))
def test_a_listener_that_raises_once_harms_no_job(at: int) -> None:
    seen, clock = count(), ManualClock()

    def listen(job: Job, event: JobEvent) -> None:
        if next(seen) == at:
            raise KeyError("wrong")

    instance = Instance(nodes(2), events=listen, clock=clock)
    raised = _course(instance, clock)
    assert [job.result for job in instance.jobs()] == ["completed", "timeout", "canceled"]
    assert (instance.is_closed, instance.running, instance.pending, instance.check()) == (True, 0, 0, [])
    assert next(seen) > EVENTS
    (error,) = raised
    assert "KeyError: 'wrong'" in str(error)
    assert isinstance(error.__cause__, KeyError)


@pytest.mark.parametrize("wanted", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("at", range(EVENTS))
def test_a_listener_that_ends_the_program_harms_no_job(at: int, wanted: type[BaseException]) -> None:
    seen, clock, ends = count(), ManualClock(), list[BaseException]()

    def listen(job: Job, event: JobEvent) -> None:
        if next(seen) == at:
            raise wanted

    instance = Instance(nodes(2), events=listen, clock=clock)

    def attempt(step: Callable[[], object]) -> None:
        try:
            step()
        except (SystemExit, KeyboardInterrupt) as end:
            ends.append(end)
        assert all(job.state is not State.NEW for job in instance.jobs())
        assert instance.check() == []

    for _ in range(3):
        attempt(lambda: instance.submit("slot=2/node", duration_s=10))
    first, second, third = instance.jobs()
    attempt(lambda: instance.finish(first))
    attempt(lambda: instance.requeue(second))
    attempt(lambda: instance.cancel(third))
    clock.now_s = 30.0
    attempt(instance.advance)
    attempt(instance.close)
    assert [job.result for job in instance.jobs()] == ["completed", "timeout", "canceled"]
    assert [type(end) for end in ends] == [wanted]


def test_a_wish_to_end_the_program_goes_before_errors() -> None:
    def listen(job: Job, event: JobEvent) -> None:
        if event.name == "validate":
            raise KeyboardInterrupt
        raise KeyError("wrong")

    instance = Instance(nodes(2), events=listen)
    with pytest.raises(KeyboardInterrupt):
        instance.submit("slot=2/node")
    assert [job.state for job in instance.jobs()] == [State.RUN]


def test_a_job_is_kept_if_the_sink_ends_the_program() -> None:
    def sink(job: Job) -> None:
        raise SystemExit(3)

    instance = Instance(nodes(2), sink=sink)
    job = instance.submit("slot=2/node")
    then = instance.submit("slot=2/node", dependencies=f"afterok:{job.id}")
    with pytest.raises(SystemExit):
        instance.finish(job)
    assert (instance.jobs(), then.state) == ([job, then], State.RUN)


def test_a_listener_that_always_raises_is_reported_once_a_call() -> None:
    def listen(job: Job, event: JobEvent) -> None:
        raise ValueError("never")

    instance = Instance(nodes(2), events=listen)
    with pytest.raises(ListenerError, match=r"event submit.*the job went on .*; 5 more errors followed in this call"):
        instance.submit("slot=1/node")
    assert [job.state for job in instance.jobs()] == [State.RUN]


def test_a_call_within_a_listener_leaves_the_error_to_the_outermost() -> None:
    instance: Instance

    def listen(job: Job, event: JobEvent) -> None:
        if event.name == "start" and not job.name:
            instance.submit("slot=1/node", name="second")
            inner.append("returned")
        if job.name and event.name == "alloc":
            raise ValueError("inner")

    inner: list[str] = []
    instance = Instance(nodes(2), events=listen)
    with pytest.raises(ListenerError, match="event alloc, job ƒ2: ValueError: inner"):
        instance.submit("slot=1/node")
    assert inner == ["returned"]
    assert [job.state for job in instance.jobs()] == [State.RUN, State.RUN]


def test_a_call_that_is_refused_has_the_error_of_a_listener_as_a_note() -> None:
    clock = ManualClock()

    def listen(job: Job, event: JobEvent) -> None:
        if event.name == "finish":
            raise ValueError("wrong")

    instance = Instance(nodes(2), events=listen, clock=clock)
    job = instance.submit("slot=1/node", duration_s=10)
    clock.now_s = 20.0
    with pytest.raises(UsageError, match="has ended: timeout") as refused:
        instance.cancel(job)
    (note,) = refused.value.__notes__
    assert note.startswith("before that: listener at event finish, job ƒ1: ValueError: wrong")
    assert instance.submit("slot=1/node").state is State.RUN


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (OSError("disk full"), OSError, r"^disk full$"),
        (StoreError("disk full"), StoreError, r"^disk full$"),
        (KeyError("x"), ListenerError, r"^sink, job ƒ1: KeyError: 'x' "),
    ],
)
def test_a_job_is_kept_if_the_sink_raises(wrong: Exception, error: type[Exception], text: str) -> None:
    def sink(job: Job) -> None:
        raise wrong

    instance = Instance(nodes(2), sink=sink)
    first, second = (instance.submit("slot=2/node") for _ in range(2))
    with pytest.raises(error, match=text):
        instance.finish(first)
    assert instance.jobs() == [first, second]
    assert (first.result, second.state, instance.check()) == ("completed", State.RUN, [])


def test_a_runner_that_calls_the_instance_is_not_stopped_by_a_listener() -> None:
    class Follows(Runner):
        def start(self, job: Job) -> None:
            if not job.name:
                job.instance.submit("slot=1/node", name="next")  # type: ignore[attr-defined]  # it is an Instance
                started.append(job)

        def stop(self, job: Job, why: str) -> None:
            job.instance.finish(job, 15)

    def listen(job: Job, event: JobEvent) -> None:
        if job.name:
            raise ValueError("wrong")

    started: list[Job] = []
    instance = Instance(nodes(2), runner=Follows(), events=listen)
    with pytest.raises(ListenerError):
        instance.submit("slot=1/node")
    assert started == instance.jobs()[:1]
    assert [job.state for job in instance.jobs()] == [State.RUN, State.RUN]


@pytest.mark.parametrize("argument", ["runner", "sink", "events"])
@pytest.mark.parametrize("value", [5, "x", object()], ids=["number", "text", "object"])
def test_what_cannot_be_called_is_refused(argument: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"^{argument}: expected a "):
        Instance(nodes(2), **{argument: value})  # type: ignore[arg-type]  # wrong on purpose
    instance = Instance(nodes(2))
    job = instance.submit("slot=1/node")
    with pytest.raises(UsageError, match=f"^{argument}: expected a "):
        instance.spawn(job, **{argument: value})  # type: ignore[arg-type]  # wrong on purpose
    assert instance.spawn(job).address.endswith(str(job.id))


@pytest.mark.parametrize("how", ["submit", "cancel"])
def test_a_listener_may_change_jobs_when_others_have_freed_some_of_what_jobs_hold(how: str) -> None:
    instance: Instance

    def listen(job: Job, event: JobEvent) -> None:
        if event.name == "resource-update" and not acted:
            acted.append(event.name)
            instance.submit("slot=1/node") if how == "submit" else instance.cancel(second)

    acted: list[str] = []
    instance = Instance(nodes(8), events=listen)
    first, second = (instance.submit("slot=3/node", duration_s=60) for _ in range(2))
    graph, pools = instance.graph, [(str(job.id), job.pools[0][0]) for job in (first, second)]
    for job, pool in pools:
        graph.free(job, pool)
    instance.advance()
    assert (acted, first.size) == (["resource-update"], 2)
    assert (second.state, second.size) == ((State.RUN, 2) if how == "submit" else (State.INACTIVE, second.size))


@pytest.mark.parametrize("how", ["submit", "cancel"])
def test_a_listener_may_change_jobs_when_others_have_moved_their_ends(how: str) -> None:
    instance: Instance

    def listen(job: Job, event: JobEvent) -> None:
        seen.append((job.number, event.name))
        if event.name == "jobspec-update" and not acted:
            acted.append(event.name)
            instance.submit("slot=1/node") if how == "submit" else instance.cancel(second)

    acted: list[str] = []
    seen: list[tuple[int, str]] = []
    instance = Instance(nodes(8), events=listen)
    first, second = (instance.submit("slot=3/node", duration_s=60) for _ in range(2))
    graph = instance.graph
    for job in (first, second):
        graph.set_end(str(job.id), 90.0)
    instance.advance()
    assert (acted, first.ends_at) == (["jobspec-update"], 90.0)
    assert (second.state, second.ends_at) == ((State.RUN, 90.0) if how == "submit" else (State.INACTIVE, second.ends_at))
    last = next(name for number, name in reversed(seen) if number == second.number)
    assert (last, instance.check()) == ("jobspec-update" if how == "submit" else "clean", [])


def test_an_exit_of_a_runner_takes_the_errors_of_listeners_with_it() -> None:
    def listener(job: Job, event: JobEvent) -> None:
        if event.name == "submit":
            raise OSError("old")

    class Exits(Runner):
        def start(self, job: Job) -> None:
            raise KeyboardInterrupt

        def stop(self, job: Job, why: str) -> None: ...

    instance = Instance(nodes(2), events=listener, runner=Exits())
    with pytest.raises(KeyboardInterrupt) as ended:
        instance.submit("slot=1/node")
    assert "old" in ended.value.__notes__[0]
    assert instance.check() == []

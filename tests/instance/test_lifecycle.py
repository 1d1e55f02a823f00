"""The life cycle of jobs: states, events, exceptions, limits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import fluxres
from fluxres import InfeasibleRequest, InputError, InsufficientResources, UnknownJob, UsageError, limits
from fluxres.errors import PolicyError, StaleHandle
from fluxres.instance import Instance, Job, JobId, Runner, State
from fluxres.instance import states as table
from fluxres.instance.job import Failure, JobEvent
from fluxres.instance.queue import Queue, QueuePolicy
from fluxres.instance.runner import NOT_STARTED
from fluxres.instance.states import LEADS_TO
from fluxres.store import open_store
from tests.instance.machines import ManualClock, nodes, of_shape, on_nodes, racks


def names(job: object) -> list[str]:
    return [event.name for event in job.events]  # type: ignore[attr-defined]  # a job with its events


def test_every_active_state_leads_to_inactive() -> None:
    for state in table.ACTIVE:
        assert LEADS_TO.get((state, "exception"), State.CLEANUP) is State.CLEANUP
    assert table.after(State.CLEANUP, "clean") is State.INACTIVE
    assert {state.value for state in State} == set("NDPSRCI")


def test_a_job_passes_through_the_states_of_rfc_21() -> None:
    instance, clock = on_nodes(2)
    job = instance.submit("slot=1/node", duration_s=10)
    assert job.state is State.RUN
    clock.now_s = 4.0
    instance.finish(job)
    assert names(job) == ["submit", "validate", "depend", "priority", "alloc", "start", "finish", "release", "free", "clean"]
    state = State.NEW
    for event in job.events or ():
        state = table.after(state, event.name)
    assert state is job.state is State.INACTIVE
    assert (job.submitted_at, job.started_at, job.finished_at, job.result) == (0.0, 0.0, 4.0, "completed")


def test_the_graph_shows_what_jobs_hold() -> None:
    graph = nodes(3)
    instance = Instance(graph)
    job = instance.submit("slot=2/node", duration_s=10)
    assert job.pools == [("/cluster/node0", 1), ("/cluster/node1", 1)]
    assert graph.jobs() == [str(job.id)]
    instance.finish(job, status=256)
    assert graph.jobs() == []
    assert job.result == "failed"


def test_the_graph_knows_the_user_and_the_name_of_a_job(tmp_path: Path) -> None:
    store = str(tmp_path / "site.db")
    fluxres.save(nodes(3), store)
    with fluxres.open(store) as graph:
        instance = Instance(graph)
        first = instance.submit("slot=2/node", duration_s=10, user="ada", name="my job")
        nameless = instance.submit("slot=1/node", duration_s=10)
        later = instance.submit("slot=2/node", duration_s=10, user="bob")
        unprintable = instance.submit("slot=3/node", duration_s=10)
        unprintable.user = "a\nb"  # as in a store of an earlier version
        instance.finish(first)
        assert (later.state, graph.facts(str(later.id)).user) == (State.RUN, "bob")
        instance.finish(later)
        instance.finish(nameless)
        assert (unprintable.state, graph.facts(str(unprintable.id)).user) == (State.RUN, None)
    events = [entry.event for entry in open_store(store).log() if entry.event["event"] == "allocate"]
    assert [(event.get("user"), event.get("name")) for event in events] == [
        ("ada", "my job"),
        (None, None),
        ("bob", None),
        (None, None),
    ]


@pytest.mark.parametrize("inventory", ["graph", "named", "auto"])
def test_the_size_of_what_is_reserved_ahead_is_that_of_its_pools(inventory: str) -> None:
    instance, clock = on_nodes(4, inventory=inventory)
    instance.measure_in("node")
    job = instance.reserve(pools=[instance.graph.structure.path(v) for v in (1, 2, 3)], start_s=10, duration_s=5)
    assert (job.state, job.size) == (State.DEPEND, 3)
    clock.now_s = 10.0
    instance.advance()
    assert (job.state, job.size, instance.check()) == (State.RUN, 3, [])


@pytest.mark.parametrize("wrong", ["", "a\nb", "tab\t", "x" * (limits.NAME_LENGTH_MAX + 1)])
def test_names_of_jobs_are_printable_and_short(wrong: str) -> None:
    instance, _ = on_nodes(2)
    for key in ("name", "user", "account", "qos", "partition"):
        with pytest.raises(UsageError, match=f"{key}: expected 1 to 255 printable characters, got "):
            instance.submit("slot=1/node", **{key: wrong})
    for key in ("name", "user"):
        with pytest.raises(UsageError, match=f"{key}: expected 1 to 255 printable characters, got "):
            instance.reserve("slot=1/node", start_s=10, duration_s=1, **{key: wrong})
    assert instance.jobs() == []


@pytest.mark.parametrize("wrong", ["", "a/b", "a b", "a\nb", "ƒA", "x" * (limits.INSTANCE_NAME_LENGTH_MAX + 1)])
def test_names_of_instances_are_parts_of_addresses(wrong: str) -> None:
    with pytest.raises(UsageError, match="use up to 64 letters, digits and any of"):
        Instance(nodes(2), name=wrong)
    top = Instance(nodes(2), name="x" * limits.INSTANCE_NAME_LENGTH_MAX)
    job = top.submit("slot=1/node")
    with pytest.raises(UsageError, match="use up to 64 letters, digits and any of"):
        top.spawn(job, name=wrong)
    assert top.spawn(job, name="part").name == "part"


def test_infeasible_requests_are_refused_and_leave_nothing() -> None:
    for inventory in ("graph", "auto", "named"):
        instance, _ = on_nodes(2, inventory=inventory)
        with pytest.raises(InfeasibleRequest, match="3"):
            instance.submit("slot=3/node")
        assert instance.jobs() == []
        assert instance.submit("slot=2/node").state is State.RUN


@pytest.mark.parametrize("duration_s", [0, -1.0, float("nan")])
def test_durations_must_be_positive(duration_s: float) -> None:
    instance, _ = on_nodes(1)
    with pytest.raises(UsageError, match="duration_s"):
        instance.submit("slot=1/node", duration_s=duration_s)


def test_ids_contain_the_submission_time() -> None:
    instance, clock = on_nodes(1)
    first = instance.submit("slot=1/node")
    clock.now_s = 1.5
    second = instance.submit("slot=1/node")
    assert (first.id, second.id) == (0, 1500 << 24)
    assert str(second.id) == f"{second.id}" == repr(JobId(1500 << 24))
    assert instance.job(str(second.id)) is instance.job(int(second.id)) is instance.job(second) is second


def test_more_than_1024_jobs_submitted_at_one_moment_have_ids() -> None:
    instance, _ = on_nodes(1, events=False)
    made = {instance.submit("slot=1/node").number for _ in range(1500)}
    assert len(made) == 1500


@pytest.mark.parametrize("job", ["ƒzzz", 5, "not an id"])
def test_unknown_jobs(job: object) -> None:
    instance, _ = on_nodes(1)
    with pytest.raises(UnknownJob):
        instance.cancel(job)  # type: ignore[arg-type]  # one of them has no form at all


def test_cancel_frees_running_jobs_and_removes_waiting_ones() -> None:
    instance, _ = on_nodes(2)
    running, waiting, last = (instance.submit("slot=2/node", duration_s=10) for _ in range(3))
    instance.cancel(waiting, "not needed")
    assert (waiting.state, waiting.result, waiting.started_at) == (State.INACTIVE, "canceled", None)
    instance.cancel(running)
    assert (running.result, last.state) == ("canceled", State.RUN)
    with pytest.raises(UsageError, match="has ended"):
        instance.cancel(running)


def test_a_nonfatal_exception_is_only_recorded() -> None:
    instance, _ = on_nodes(1)
    job = instance.submit("slot=1/node")
    instance.exception(job, "warning", severity=3, note="hot")
    assert job.state is State.RUN
    assert job.exceptions[0].note == "hot"
    with pytest.raises(UsageError, match="severity"):
        instance.exception(job, "warning", severity=8)


def test_urgency_orders_holds_and_expedites() -> None:
    instance, _ = on_nodes(1)
    running = instance.submit("slot=1/node")
    held = instance.submit("slot=1/node", urgency=0)
    normal = instance.submit("slot=1/node")
    urgent = instance.submit("slot=1/node", urgency=20)
    last = instance.submit("slot=1/node", urgency=31)
    assert [job.number for job in instance.queue] == [last.number, urgent.number, normal.number]
    assert (held.priority, last.priority) == (0, 4294967295)
    instance.set_urgency(normal, 25)
    assert next(iter(instance.queue)) is last
    instance.set_urgency(last, 0)
    instance.finish(running)
    assert normal.state is State.RUN
    instance.set_urgency(held, 16)
    instance.finish(normal)
    instance.finish(urgent)
    assert held.state is State.RUN
    assert [name for name in names(held) if name in ("urgency", "priority")] == ["priority", "urgency", "priority"]
    for wrong in (-1, 32, 1.5, True):
        with pytest.raises(UsageError, match="urgency"):
            instance.set_urgency(last, wrong)  # type: ignore[arg-type]  # two are no integers


def test_a_limit_ends_a_job() -> None:
    instance, clock = on_nodes(1)
    job, waiting = (instance.submit("slot=1/node", duration_s=10) for _ in range(2))
    assert instance.next_due() == 10.0
    clock.now_s = 10.0
    instance.advance()
    assert (job.result, job.finished_at, waiting.state) == ("timeout", 10.0, State.RUN)


class IgnoringRunner:
    """Does not stop jobs when asked to."""

    keeps_limits = False

    def __init__(self) -> None:
        self.stopped: list[str] = []

    def start(self, job: object) -> None:
        pass

    def stop(self, job: object, why: str) -> None:
        self.stopped.append(why)


@pytest.mark.parametrize("inventory", ["graph", "named"])
def test_a_job_that_outlives_its_limit_keeps_its_units(inventory: str) -> None:
    clock, runner = ManualClock(), IgnoringRunner()
    instance = Instance(nodes(2), queue_policy="easy", clock=clock, runner=runner, inventory=inventory)
    job = instance.submit("slot=2/node", duration_s=10)
    waiting = instance.submit("slot=1/node", duration_s=5)
    assert waiting.reserved_at == 10.0
    for clock.now_s in (10.0, 20.0, 30.0, 45.0):
        instance.advance()
        assert (job.state, waiting.state) == (State.CLEANUP, State.SCHED)
        assert instance.check() == []
    assert runner.stopped == ["timelimit"]
    clock.now_s = 46.0
    instance.finish(job)
    assert (job.result, waiting.state, waiting.started_at) == ("timeout", State.RUN, 46.0)


def test_a_job_may_end_while_it_is_being_started() -> None:
    class ImmediateRunner:
        keeps_limits = True

        def start(self, job: object) -> None:
            job.instance.finish(job)  # type: ignore[attr-defined]  # a job

        def stop(self, job: object, why: str) -> None:
            raise AssertionError

    instance = Instance(nodes(1), runner=ImmediateRunner())
    made = [instance.submit("slot=1/node") for _ in range(50)]
    assert {job.result for job in made} == {"completed"}


@pytest.mark.parametrize("inventory", ["graph", "named"])
def test_a_changed_duration_moves_reservations(inventory: str) -> None:
    instance, clock = on_nodes(2, "easy", inventory=inventory)
    first = instance.submit("slot=1/node", duration_s=100)
    head = instance.submit("slot=2/node", duration_s=10)
    assert head.reserved_at == 100.0
    instance.set_duration(first, 40)
    assert (first.ends_at, head.reserved_at) == (40.0, 40.0)
    instance.set_duration(first, 200)
    assert head.reserved_at == 200.0
    clock.now_s = 50.0
    with pytest.raises(UsageError, match="would have ended"):
        instance.set_duration(first, 50)
    instance.set_duration(head, 5)
    assert head.duration_s == 5.0
    instance.set_duration(first, None)
    assert head.reserved_at is None
    assert instance.check() == []


def test_only_the_latest_finished_jobs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FINISHED_KEPT", 3)
    instance, _ = on_nodes(1)
    made = [instance.submit("slot=1/node") for _ in range(5)]
    for job in made:
        instance.finish(job)
    assert instance.jobs() == made[2:]


def test_with_a_sink_no_finished_job_is_kept() -> None:
    seen: list[str] = []
    instance, _ = on_nodes(1, sink=lambda job: seen.append(job.result or ""), events=False)
    instance.finish(instance.submit("slot=1/node"))
    assert (seen, instance.jobs()) == (["completed"], [])


def test_manual_passes() -> None:
    instance, _ = on_nodes(3, passes="manual")
    made = [instance.submit("slot=1/node") for _ in range(3)]
    assert {job.state for job in made} == {State.SCHED}
    assert instance.schedule(limit=1) == 1
    assert instance.schedule() == 2
    with pytest.raises(UsageError, match="passes"):
        on_nodes(1, passes="never")


def test_node_states_change_under_jobs() -> None:
    for inventory in ("graph", "named"):
        instance, _ = on_nodes(2, inventory=inventory)
        first = instance.submit("slot=1/node", duration_s=10)
        instance.drain("/cluster/node0")
        waiting = instance.submit("slot=2/node", duration_s=10)
        assert (first.state, waiting.state) == (State.RUN, State.SCHED)
        assert instance.check() == []
        instance.up("/cluster/node0")
        instance.down("/cluster/node0")
        assert (first.result, first.exceptions[0].note) == ("failed", "lost /cluster/node0")
        assert waiting.state is State.SCHED
        instance.up(["/cluster/node0"])
        assert waiting.state is State.RUN


def test_a_request_changes_the_inventory_and_claims_are_kept() -> None:
    instance = Instance(racks(), inventory="auto", queue_policy="easy")
    whole = instance.submit("slot=3/node", duration_s=50)
    assert instance.inventory.kind == "named"
    part = instance.submit("slot=2/core=2", duration_s=20)
    assert instance.inventory.kind == "graph"
    assert part.pools[0] == ("/cluster/rack0/node3/core0", 1)
    assert instance.graph.jobs() == [str(whole.id), str(part.id)]
    assert instance.check() == []
    instance.finish(whole)
    instance.finish(part)
    assert instance.graph.jobs() == []
    instance.submit("slot=1/node")
    assert instance.inventory.kind == "named"


@pytest.mark.parametrize("inventory", ["graph", "auto", "named:core"])
def test_a_finished_job_holds_nothing_after_a_change_of_inventory(inventory: str) -> None:
    seen: list[list[tuple[str, int]]] = []
    top = Instance(racks(), inventory=inventory, runner=Scripted(start=lambda job: seen.append(job.pools)))
    job = top.submit("slot=20/core", duration_s=9)
    assert (len(job.pools), job.pools) == (20, seen[0])
    top.finish(job)
    assert (job.result, job.pools) == ("completed", [])
    top.submit("slot=8/node" if inventory == "auto" else "slot=32/core", duration_s=9)
    assert (job.pools, top.job(job.id).pools, len(seen[1])) == ([], [], 8 if inventory == "auto" else 32)


def test_an_explicit_inventory_does_not_change() -> None:
    with pytest.raises(UsageError, match="inventory"):
        Instance(racks(), inventory="named").submit("slot=2/core=2")
    with pytest.raises(UsageError, match="inventory"):
        Instance(racks(), inventory="numbered")
    with pytest.raises(UsageError, match="units to count"):
        Instance(racks(), inventory="counted")
    with pytest.raises(UsageError, match="not interchangeable"):
        Instance(racks(), inventory="named:cluster:x")


def test_others_may_hold_part_of_the_graph() -> None:
    graph = nodes(4)
    graph.allocate("/cluster/node0", job="ƒ1")
    graph.allocate("/cluster/node1", job="login")
    for inventory in ("graph", "auto"):
        instance = Instance(graph, queue_policy="easy", inventory=inventory)
        first, second = instance.submit("slot=2/node", duration_s=5), instance.submit("slot=2/node", duration_s=5)
        assert first.pools == [("/cluster/node2", 1), ("/cluster/node3", 1)]
        assert (str(first.id), second.reserved_at) == ("ƒ2", 5.0)
        assert instance.check() == []
        instance.close()
        assert graph.jobs() == ["ƒ1", "login"]


def test_wrong_arguments_change_nothing() -> None:
    instance, _ = on_nodes(1)
    with pytest.raises(InputError):
        instance.submit("slot=")
    with pytest.raises(UsageError):
        instance.submit("slot=1/node", dependencies=["afterok:ƒzz"])
    with pytest.raises(InputError):
        instance.submit("slot=1/node", dependencies=["before:ƒzz"])
    assert instance.jobs() == []
    assert instance.submit("slot=1/node").state is State.RUN


@pytest.mark.parametrize("inventory", ["graph", "auto", "named"])
def test_a_closed_instance_does_not_report_what_others_hold_later(inventory: str) -> None:
    machine = nodes(4)
    top = Instance(machine, queue_policy="easy", inventory=inventory)
    top.submit("slot=1/node", duration_s=10)
    top.close()
    machine.allocate("slot=1/node", job="later")
    following = Instance(machine, inventory=inventory)
    assert following.submit("slot=1/node").state is State.RUN
    assert (top.check(), following.check()) == ([], [])


def test_a_closed_instance_refuses_all_calls() -> None:
    instance, _ = on_nodes(1)
    job = instance.submit("slot=1/node")
    instance.close()
    instance.close()
    assert job.result == "canceled"
    with pytest.raises(StaleHandle, match="closed"):
        instance.submit("slot=1/node")


class Scripted(Runner):
    """A runner with the functions of a test."""

    def __init__(self, start: Callable[[Job], object] = id, stop: Callable[[Job], object] = id) -> None:
        self._start, self._stop = start, stop

    def start(self, job: Job) -> None:
        self._start(job)

    def stop(self, job: Job, why: str) -> None:
        self._stop(job)


def boom(job: Job) -> None:
    raise ValueError("boom")


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_a_job_that_cannot_be_started_fails_without_an_error_for_the_caller(policy: str) -> None:
    top, _ = on_nodes(2, policy, runner=Scripted(start=lambda job: boom(job) if job.name == "bad" else None))
    bad = top.submit("slot/node", name="bad", duration_s=5)
    good = [top.submit("slot/node", duration_s=5) for _ in range(2)]
    assert (bad.state, bad.status) == (State.INACTIVE, NOT_STARTED)
    assert bad.exceptions == (Failure("exec", 0, "the runner could not start it: ValueError: boom"),)
    assert [job.state for job in good] == [State.RUN, State.RUN]
    assert (top.graph.jobs(), top.check()) == ([str(job.id) for job in good], [])


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("policy", ["fcfs", "easy", "easy-count", "easy-sjbf", "hybrid", "conservative", "priority"])
@pytest.mark.parametrize("waits_for", ["afterany:{}", "afternotok:{}"])
def test_a_job_that_depends_on_one_that_could_not_be_started_starts(policy: str, inventory: str, waits_for: str) -> None:
    runner = Scripted(start=lambda job: boom(job) if job.name == "bad" else None)
    top, _ = on_nodes(1, policy, runner=runner, inventory=inventory)
    first, bad = top.submit("slot/node", duration_s=60), top.submit("slot/node", duration_s=60, name="bad")
    after = top.submit("slot/node", duration_s=60, dependencies=[waits_for.format(bad.id)])
    top.finish(first)
    assert (bad.result, after.state, top.next_due()) == ("failed", State.RUN, 60.0)


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_a_job_that_cannot_be_stopped_keeps_its_resources(inventory: str) -> None:
    top, clock = on_nodes(1, runner=Scripted(stop=boom), inventory=inventory)
    job, after = top.submit("slot/node", duration_s=5), top.submit("slot/node", duration_s=5)
    clock.now_s = 40
    assert top.check() == []
    top.advance()
    top.cancel(job)
    assert (job.state, after.state) == (State.CLEANUP, State.SCHED)
    assert Failure("exec", 1, "the runner could not stop it: ValueError: boom") in job.exceptions
    top.finish(job)
    assert (job.state, after.state, top.check()) == (State.INACTIVE, State.RUN, [])


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_a_runner_may_close_its_own_instance(inventory: str, policy: str) -> None:
    def close(job: Job) -> None:
        if job.name == "last":
            job.instance.close()

    runner = Scripted(start=close, stop=lambda job: job.instance.finish(job))
    top, _ = on_nodes(2, policy, runner=runner, inventory=inventory)
    child = top.spawn(top.submit("slot=2/node"))
    jobs = [child.submit("slot/node", duration_s=5, name=name) for name in (None, "last")]
    assert (child.is_closed, {job.state for job in jobs}) == (True, {State.INACTIVE})
    top.submit("slot/node", name="last")
    assert top.is_closed


def test_the_records_of_a_job_are_found_by_its_id_as_text() -> None:
    graph = fluxres.load({"fluxres": 1, "name": "ws", "resources": [{"type": "node", "count": 2}]})
    job = fluxres.Instance(graph).submit("slot/node", duration_s=60)
    assert graph.allocation(str(job.id)).job == str(job.id)
    for wrong in (job, job.id):
        with pytest.raises(UsageError, match=r"pass it as text: str\(job\.id\)"):
            graph.allocation(wrong)
        with pytest.raises(UsageError, match=r"pass it as text"):
            graph.allocate("slot/node", job=wrong)


# -- what is called while a job ends or is stopped ---------------------------------------------------------------------------


class Late:
    """A runner whose jobs end when the test says so."""

    def start(self, job: Job) -> None:
        pass

    def stop(self, job: Job, why: str) -> None:
        pass


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_a_job_that_is_being_requeued_gets_no_child(inventory: str) -> None:
    top = Instance(nodes(2), inventory=inventory, runner=Late())
    job, urgent = top.submit("slot=1/node"), top.submit("slot=2/node", urgency=31)
    top.requeue(job)
    with pytest.raises(UsageError, match="is being stopped, to wait again"):
        top.spawn(job)
    top.finish(job)
    assert (job.state, urgent.state, top.check()) == (State.SCHED, State.RUN, [])


def test_a_job_that_is_ending_is_not_requeued() -> None:
    top = Instance(nodes(2), runner=Late())
    job = top.submit("slot=1/node")
    top.cancel(job)
    with pytest.raises(UsageError, match="is ending"):
        top.requeue(job)
    top.finish(job)
    assert (job.state, job.result, top.check()) == (State.INACTIVE, "canceled", [])


Call = Callable[[Instance, Job], object]
CALLS: dict[str, Call] = {
    "set_duration": lambda top, job: top.set_duration(job, 50),
    "set_urgency": lambda top, job: top.set_urgency(job, 3),
    "finish": lambda top, job: top.finish(job),
    "cancel": lambda top, job: top.cancel(job),
    "requeue": lambda top, job: top.requeue(job),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("event", ["exception", "release", "free", "requeue", "priority"])
@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_a_listener_may_change_a_job_that_is_requeued(inventory: str, event: str, call: Call) -> None:
    clock, awaited = ManualClock(), list[str]()

    def listener(job: Job, posted: JobEvent) -> None:
        if posted.name in awaited:
            awaited.clear()
            with suppress(UsageError):
                call(top, job)

    top = Instance(nodes(2), inventory=inventory, events=listener, clock=clock)
    job, other = top.submit("slot=1/node", duration_s=60), top.submit("slot=2/node", duration_s=10)
    awaited.append(event)
    top.requeue(job)
    assert (awaited, top.check()) == ([], [])
    for now_s in (55.0, 100.0, 200.0):
        clock.now_s = now_s
        top.advance()
        assert top.check() == []
    assert (job.state, other.state) == (State.INACTIVE, State.INACTIVE)


@pytest.mark.parametrize("event", ["finish", "release", "free", "clean"])
@pytest.mark.parametrize("has_child", [False, True])
def test_a_listener_may_report_the_end_of_a_job_that_ends(event: str, *, has_child: bool) -> None:
    def listener(job: Job, posted: JobEvent) -> None:
        if posted.name == event:
            with suppress(UsageError):
                job.instance.finish(job)

    top = Instance(nodes(2), events=listener)
    job, other = top.submit("slot=1/node"), top.submit("slot=2/node")
    if has_child:
        top.spawn(job).submit("slot=1/node")
    top.finish(job)
    assert (job.result, other.state, top.check()) == ("completed", State.RUN, [])


@pytest.mark.parametrize("is_late", [False, True])
def test_a_listener_may_close_the_child_of_a_job_that_ends(*, is_late: bool) -> None:
    def listener(job: Job, posted: JobEvent) -> None:
        if posted.name == "finish" and job.child is not None:
            job.child.close()

    top = Instance(nodes(2), events=listener, **({"runner": Late()} if is_late else {}))
    job, other = top.submit("slot=1/node"), top.submit("slot=2/node")
    child = top.spawn(job)
    inner = child.submit("slot=1/node")
    top.finish(job)
    if is_late:
        assert (job.state, child.is_closed, top.check()) == (State.CLEANUP, False, [])
        child.finish(inner)
    assert (job.result, child.is_closed, other.state, top.check()) == ("completed", True, State.RUN, [])


@pytest.mark.parametrize("late_s", [0.0, 0.5])
@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_rule_t1_an_advance_reservation_begins_when_a_late_job_has_ended(inventory: str, late_s: float) -> None:
    clock = ManualClock()
    top = Instance(nodes(2), inventory=inventory, runner=Late(), clock=clock)
    late = top.submit("slot=2/node", duration_s=12)
    reserved = top.reserve("slot=1/node", start_s=12, duration_s=100)
    clock.now_s = 12.0 + late_s
    top.advance()
    assert (late.state, reserved.state, top.check()) == (State.CLEANUP, State.DEPEND, [])
    assert late.pools == [("/cluster/node0", 1), ("/cluster/node1", 1)]
    clock.now_s = 14.0
    top.finish(late)
    assert top.next_due() == 14.0
    top.advance()
    assert (late.result, reserved.state, len(reserved.pools), top.check()) == ("timeout", State.RUN, 1, [])
    assert (reserved.started_at, reserved.ends_at) == (14.0, 112.0)


@pytest.mark.parametrize("end_s", [8.0, 9.0])
@pytest.mark.parametrize("inventory", ["graph", "auto", "named"])
def test_rule_t1_an_advance_reservation_that_is_over_before_a_late_job_ends_never_starts(inventory: str, end_s: float) -> None:
    clock = ManualClock()
    top = Instance(nodes(1), inventory=inventory, runner=Late(), clock=clock)
    late = top.submit("slot=1/node", duration_s=4)
    reserved = top.reserve("slot=1/node", start_s=5, duration_s=3)
    waiting = top.submit("slot=1/node", duration_s=10)
    for moment in (4.0, 5.0, end_s):
        clock.now_s = moment
        top.advance()
    top.finish(late)
    assert (reserved.result, reserved.started_at, waiting.started_at, top.check()) == ("timeout", None, end_s, [])


@pytest.mark.parametrize("inventory", ["graph", "auto", "named"])
def test_rule_t1_a_late_job_keeps_what_a_canceled_reservation_was_waiting_for(inventory: str) -> None:
    clock = ManualClock()
    top = Instance(nodes(1), inventory=inventory, runner=Late(), clock=clock)
    late = top.submit("slot=1/node", duration_s=3)
    reserved = top.reserve("slot=1/node", start_s=4, duration_s=4)
    for moment in (3.0, 4.0, 5.0):
        clock.now_s = moment
        top.advance()
    top.cancel(reserved)
    following = top.submit("slot=1/node", duration_s=2)
    assert (late.state, late.pools, following.state) == (State.CLEANUP, [("/cluster/node0", 1)], State.SCHED)
    assert top.check() == []
    top.finish(late)
    assert following.state is State.RUN


@pytest.mark.parametrize("measure", [None, "core", "node"])
@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_reserved_pools_include_what_the_inventory_does_not_count(inventory: str, measure: str | None) -> None:
    clock = ManualClock()
    machine = of_shape("node=1/[core=4;memory=8]")
    top = Instance(machine, inventory=inventory, clock=clock)
    top.measure_in(measure)
    top.cancel(top.submit("slot=1/core", duration_s=1))
    maintenance = top.reserve(pools="/cluster/node0", start_s=10, duration_s=10)
    before = top.submit("slot=1/memory=3", duration_s=15)
    clock.now_s = 10.0
    top.advance()
    during = top.submit("slot=1/memory=3", duration_s=15)
    assert [job.state for job in (maintenance, before, during)] == [State.RUN, State.SCHED, State.SCHED]
    assert top.check() == []


@pytest.mark.parametrize("event", ["alloc", "start"])
@pytest.mark.parametrize(
    ("how", "result"), [("cancel", "canceled"), ("finish", "completed"), ("requeue", None), ("down", "failed")]
)
def test_a_job_that_a_listener_ends_before_its_runner_has_it_is_not_started(event: str, how: str, result: str | None) -> None:
    asked: list[tuple[str, str]] = []
    acted: list[str] = []

    class Asked(Runner):
        def start(self, job: Job) -> None:
            asked.append(("start", job.state.name))

        def stop(self, job: Job, why: str) -> None:
            asked.append(("stop", why))

    def act(job: Job, seen: JobEvent) -> None:
        if seen.name == event and not acted:
            acted.append(how)
            if how == "down":
                top.down("/cluster/node0")
            else:
                getattr(top, how)(job)

    top = Instance(nodes(1), runner=Asked(), events=act)
    job = top.submit("slot=1/node", duration_s=5)
    assert job.result == result
    assert asked == ([("start", "RUN")] if how == "requeue" else [])
    assert (job.state is State.RUN, top.check()) == (how == "requeue", [])


def test_a_job_is_in_the_queue_again_whatever_a_policy_raises_at_its_end() -> None:
    class Defective(QueuePolicy):
        def schedule(self, queue: Queue) -> None:
            for job in queue:
                queue.start(job)

        def finished(self, job: Job, now_s: float) -> None:
            raise RuntimeError("finished")

    top = Instance(nodes(1), queue_policy=Defective())
    job = top.submit("slot=1/node", duration_s=5)
    with pytest.raises(PolicyError, match="finished"):
        top.requeue(job)
    top.advance()
    assert (job.state, top.check()) == (State.RUN, [])


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_a_listener_that_requeues_holds_and_cancels_a_job_leaves_an_empty_queue(policy: str) -> None:
    todo = {"alloc": ("requeue",), "start": ("set_urgency", 0), "priority": ("cancel",)}

    def act(job: Job, event: JobEvent) -> None:
        if event.name in todo:
            method, *value = todo.pop(event.name)
            with suppress(UsageError):
                getattr(top, str(method))(job, *value)

    top = Instance(nodes(2), queue_policy=policy, events=act, inventory="auto")
    for _ in range(4):
        top.submit("slot=1/node", duration_s=5)
        assert top.check() == []
    assert len(top.queue) == sum(job.state is State.SCHED for job in top.jobs())


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_others_do_not_get_what_is_reserved_ahead(inventory: str) -> None:
    clock = ManualClock()
    top = Instance(nodes(2), inventory=inventory, clock=clock)
    running = top.submit("slot=1/node", duration_s=5)
    reserved = top.reserve("slot=2/node", start_s=10, duration_s=10)
    with pytest.raises(InsufficientResources):
        top.graph.allocate("slot=1/node", job="outside", duration_s=50)
    top.graph.allocate("slot=1/node", job="outside", duration_s=8)
    clock.now_s = 10.0
    top.advance()
    assert (running.result, reserved.state, len(reserved.pools), top.check()) == ("timeout", State.RUN, 2, [])

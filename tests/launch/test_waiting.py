"""Passes of the queue on graphs in memory: who gets what, in which order, and who learns of it."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fluxres
from fluxres import limits
from fluxres.allocation.facts import Launch
from fluxres.clock import fixed
from fluxres.launch import control, identity, waiting
from fluxres.launch.broker import StoreBroker
from fluxres.launch.gate import Gate
from fluxres.launch.loop import Loop
from fluxres.launch.runs import Order
from fluxres.launch.wait import Wait
from fluxres.launch.waiting import Pass
from fluxres.store import Ticket, journal, open_store
from fluxres.store.mailbox import Mailbox, News, send
from fluxres.syntax import jobspec
from tests.choices import integers
from tests.launch import runs

HERE = Launch(identity.host(), identity.boot(), (identity.of(os.getpid()),), "mark")


def machine(cores: int = 8, gpus: int = 2) -> fluxres.ResourceGraph:
    inside = [{"type": name, "count": count} for name, count in (("core", cores), ("gpu", gpus)) if count]
    graph = fluxres.load({"fluxres": 1, "name": "ws", "resources": [{"type": "node", "hosts": "ws", "with": inside}]})
    graph.clock = fixed(1000.0)
    return graph


def ticket(number: int, shape: str, duration_s: float | None = None, priority: int = 0) -> Ticket:
    request = jobspec.as_request(shape)
    plain = {**jobspec.to_plain(request), "tasks": [{"command": ["a"], "slot": "task", "count": {"per_slot": 1}}]}
    return Ticket(f"t{number}", "ada", priority, 0.0, HERE, request=plain, duration_s=duration_s, number=number)


def granted(graph: fluxres.ResourceGraph, tickets: Sequence[Ticket]) -> list[str]:
    return [one.job for one in Pass(graph).run(list(tickets)).granted]


def test_past_the_bound_none_overtakes() -> None:
    graph = machine()
    graph.allocate("slot/gpu", job="j")
    blocked = [ticket(i, "slot/[gpu=2;core]", duration_s=float(i)) for i in range(1, limits.QUEUE_PLACED_MAX + 2)]
    small = ticket(1000, "slot/core", duration_s=1.0)
    assert granted(graph, [*blocked[:2], small]) == ["t1000"]
    assert granted(machine_with(graph), [*blocked, small]) == []


def machine_with(graph: fluxres.ResourceGraph) -> fluxres.ResourceGraph:
    """The machine with the GPU held, and nothing else."""
    made = machine()
    made.allocate("slot/gpu", job="j")
    return made


def test_a_known_start_is_kept_and_an_unknown_one_keeps_its_pools() -> None:
    graph = machine()
    graph.allocate("slot/gpu", job="limited", duration_s=100)
    tickets = [ticket(1, "slot/gpu=2", 50), ticket(2, "slot/gpu", 101), ticket(3, "slot/gpu", 100)]
    made = Pass(graph).run(tickets)
    assert [one.job for one in made.granted] == ["t3"]
    assert made.starts["t1"] == 1100.0
    graph = machine(cores=2)
    graph.allocate("slot/gpu=2", job="endless")
    made = Pass(graph).run([ticket(1, "slot/[gpu;core=2]"), ticket(2, "slot/core", 1)])
    assert (made.granted, made.starts["t1"]) == ([], float("inf"))


def test_requests_that_the_machine_cannot_satisfy_any_more_are_refused() -> None:
    graph = machine()
    made = Pass(graph).run([ticket(1, "slot/node"), ticket(2, "slot/core")])
    assert [one.job for one in made.granted] == ["t1"]
    small = machine(gpus=0)
    made = Pass(small).run([ticket(1, "slot/gpu"), ticket(2, "slot/core")])
    assert [one.job for one, _ in made.refused] == ["t1"]
    assert "gpu" in made.refused[0][1]
    assert [one.job for one in made.granted] == ["t2"]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_ends_first_a_start_that_is_not_known_is_not_delayed(data: st.DataObject) -> None:
    """Whichever of the endless allocations end, who could start without those that overtook it starts with them, too."""
    cores, gpus = data.draw(integers(1, 5)), data.draw(integers(1, 3))
    graph, held = machine(cores, gpus), list[tuple[int, int]]()
    pools = data.draw(st.permutations([f"core{i}" for i in range(cores)] + [f"gpu{i}" for i in range(gpus)]))
    for number, pool in enumerate(pools[: data.draw(integers(0, 4))]):
        graph.allocate(f"/ws/ws/{pool}", job=f"j{number}")
        held.append((pool.startswith("core"), pool.startswith("gpu")))
    wanted = [(a, b) for a in range(min(cores, 3) + 1) for b in range(gpus + 1) if a or b]
    asked = data.draw(st.lists(st.tuples(st.sampled_from(wanted), st.integers(0, 1)), min_size=2, max_size=5))
    wants = {f"t{i}": want for i, (want, _) in enumerate(asked, 1)}
    tickets = [
        ticket(i, f"slot/[{';'.join([f'core={a}'] * bool(a) + [f'gpu={b}'] * bool(b))}]", priority=priority)
        for i, ((a, b), priority) in enumerate(asked, 1)
    ]
    tickets.sort(key=lambda one: (-one.priority, one.number))
    made = Pass(graph).run(tickets)
    has = {one.job for one in made.granted}
    for place, one in enumerate(tickets):
        if one.job in has:
            continue
        before = [wants[other.job] for other in tickets[:place] if other.job in has]
        after = [wants[other.job] for other in tickets[place:] if other.job in has]
        for ends in itertools.product((False, True), repeat=len(held)):
            left = [*before, *(pools for pools, is_over in zip(held, ends, strict=True) if not is_over)]
            if fits((cores, gpus), left, wants[one.job]):
                assert fits((cores, gpus), [*left, *after], wants[one.job])


def fits(machine: tuple[int, int], held: list[tuple[int, int]], wanted: tuple[int, int]) -> bool:
    return all(sum(one[i] for one in (*held, wanted)) <= machine[i] for i in (0, 1))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.sampled_from((None, 50, 500)), st.integers(0, 1)), max_size=7),
    st.lists(st.tuples(st.integers(1, 2), st.sampled_from((None, 60.0, 300.0))), max_size=2),
)
def test_rule_h2_what_fits_and_delays_none_is_granted(
    asked: list[tuple[int, int, float | None, int]], held: list[tuple[int, float | None]]
) -> None:
    """A ticket that fits is refused only if one before it waits, and never because of a later one."""
    graph = machine(cores=4)
    for number, (cores, length) in enumerate(held):
        graph.allocate(f"slot/core={cores}", job=f"j{number}", duration_s=length)
    tickets = [
        ticket(i, f"slot/[core={cores}{f';gpu={gpus}' if gpus else ''}]", length, priority)
        for i, (cores, gpus, length, priority) in enumerate(asked, 1)
    ]
    tickets.sort(key=lambda one: (-one.priority, one.number))
    alone = graph.duplicate()
    made = Pass(graph).run(tickets)
    assert {one.job for one in (*made.granted, *made.waiting)} == {one.job for one in tickets}
    assert graph.check() == []
    head = next((one for one in tickets if one in made.waiting), None)
    if head is not None:  # the first that waits does not fit beside those before it
        for one in tickets[: tickets.index(head)]:
            alone.allocate(jobspec.parse(one.request, dialect="any"), job=one.job, duration_s=one.duration_s)
        assert alone.why_not(jobspec.parse(head.request, dialect="any"), duration_s=head.duration_s) is not None
    if not made.waiting:
        return
    # Those that overtook it do not make its start later than it would be without them.
    first = jobspec.parse(tickets[tickets.index(made.waiting[0])].request, dialect="any")
    length = made.waiting[0].duration_s
    with_all, without = graph.earliest(first, duration_s=length), alone.earliest(first, duration_s=length)
    if without is not None and length is not None:
        assert with_all is not None
        assert with_all <= without


def test_a_queue_has_watchers_and_all_who_show_their_place_learn_it() -> None:
    graph = machine()
    tickets = [ticket(i, "slot/gpu=2") for i in range(1, 9)]
    shown = Ticket("t9", "ada", 0, 0.0, HERE, shows_place=True)
    news = [one for _, one in waiting._places(graph, [*tickets, shown])]
    assert [one.place for one in news] == [*range(1, limits.QUEUE_WATCHERS + 1), 9]
    assert [one.watch for one in news] == [True] * limits.QUEUE_WATCHERS + [False]


def test_stopped_processes_are_no_watchers(monkeypatch: pytest.MonkeyPatch) -> None:
    tickets = [ticket(i, "slot/gpu=2") for i in range(1, 9)]
    tickets[0] = msgspec.structs.replace(tickets[0], launch=msgspec.structs.replace(HERE, mark="stopped"))
    monkeypatch.setattr(waiting.identity, "is_awake", lambda launch, _now: launch.mark != "stopped")
    watchers = [one.place for _, one in waiting._places(machine(), tickets) if one.watch]
    assert watchers == [place + 1 for place in range(1, limits.QUEUE_WATCHERS + 1)]


def test_the_grace_period_of_a_run_is_longer_than_that_of_a_job() -> None:
    assert Order((), lambda _graph: (None, (), "first")).grace_s == limits.RUN_GRACE_SECONDS_DEFAULT
    assert limits.RUN_GRACE_SECONDS_DEFAULT > limits.GRACE_SECONDS_DEFAULT


class Silent:
    """Tells nobody."""

    shows_place = False

    def note(self, message: str) -> None: ...
    def waits(self, job: str, place: int, waiting: int, start_s: object) -> None: ...
    def begins(self) -> None: ...


def test_a_waiting_process_looks_by_itself_if_nothing_wakes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = runs.workstation(tmp_path)
    monkeypatch.setattr(limits, "QUEUE_LOOK_SECONDS", 0.05)
    store = open_store(str(place.store))
    with store.writing() as transaction:
        transaction.tickets.add(ticket(0, "slot/core"))
    broker = StoreBroker(store, "ws")  # it gets no message, since it does not listen
    broker.mark = HERE.mark
    with Loop() as loop:
        graph = Wait(broker, "t0", 10.0, Silent(), loop).until_granted()
    assert graph.jobs() == ["t0"]
    assert store.tickets() == []


def test_one_waits_on_if_its_start_cannot_be_estimated_now(tmp_path: Path) -> None:
    broker = StoreBroker(open_store(str(tmp_path / "gone.db")), "ws")
    with Loop() as loop:
        assert Wait(broker, "t0", 10.0, Silent(), loop)._estimate() is None


def test_messages_arrive_and_stale_sockets_go(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    store = deep / "a.db"
    store.touch(0o660)
    first = Mailbox(store, "first")
    news = News(place=2, waiting=3, watch=True, holders=(((1, 2), (3, 4)),), due_s=1.5)
    send(store, [("first", news), ("nobody", news)])
    assert first.read() == [news]
    first._socket.close()
    second = Mailbox(store, "second")
    assert [file.name for file in (deep / "a.db.run").iterdir()] == ["second"]
    second.close()
    assert list((deep / "a.db.run").iterdir()) == []


def test_on_another_machine_only_jobs_of_the_same_name_are_canceled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    elsewhere = msgspec.structs.replace(HERE, host="elsewhere")
    control.require_owner("r1", elsewhere, journal.os_user())
    with pytest.raises(fluxres.UsageError, match="belongs to another user"):
        control.require_owner("r1", elsewhere, "somebody-else")


def test_as_many_start_at_once_as_there_are_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = runs.workstation(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(limits, "START_WAIT_SECONDS", 0.05)
    first = Gate(place.store)
    pipe, said = os.pipe()
    if (pid := os.fork()) == 0:
        began = time.monotonic()
        Gate(place.store)
        os.write(said, b"late" if time.monotonic() - began >= 0.05 else b"soon")
        os._exit(0)
    assert os.read(pipe, 4) == b"late"
    os.waitpid(pid, 0)
    first.leave()
    if (pid := os.fork()) == 0:
        monkeypatch.setattr(limits, "START_WAIT_SECONDS", 1000.0)
        Gate(place.store)
        os.write(said, b"came")
        os._exit(0)
    assert os.read(pipe, 4) == b"came"
    os.waitpid(pid, 0)
    os.close(pipe)
    os.close(said)


def test_a_stopped_process_keeps_nobody_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = runs.workstation(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(limits, "START_WAIT_SECONDS", 1000.0)
    if (pid := os.fork()) == 0:
        Gate(place.store)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(pid, os.WUNTRACED)
    if (second := os.fork()) == 0:
        Gate(place.store)
        os._exit(0)
    try:
        assert runs.wait_until(lambda: os.waitpid(second, os.WNOHANG)[0]) == second
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def named(number: int, *pools: tuple[str, int | None], duration_s: float | None = None) -> Ticket:
    return Ticket(f"t{number}", "ada", 0, 0.0, HERE, pools=pools, duration_s=duration_s, number=number)


@pytest.mark.parametrize(("duration_s", "passes"), [(50.0, True), (100.0, True), (101.0, False), (None, False)])
def test_a_request_for_pools_by_name_is_not_delayed(duration_s: float | None, passes: bool) -> None:
    graph = machine()
    graph.allocate("/ws/ws/core0", job="j", duration_s=100)
    waiting_pass = Pass(graph).run([named(1, ("/ws/ws", None), duration_s=50.0), ticket(2, "slot/core", duration_s)])
    assert waiting_pass.starts == {"t1": 1100.0}
    assert [one.job for one in waiting_pass.granted] == ["t2"] * passes


def test_what_is_free_is_kept_although_a_held_pool_of_the_same_kind_comes_first() -> None:
    graph = machine(cores=3, gpus=1)
    graph.allocate("/ws/ws/core0", job="j1")
    graph.allocate("/ws/ws/gpu0", job="j2")
    waiting_pass = Pass(graph).run([ticket(1, "slot/[core;gpu]"), ticket(2, "slot/core"), ticket(3, "slot/core")])
    assert [one.job for one in waiting_pass.granted] == ["t2"]


@pytest.mark.parametrize("first", [named(1, ("/ws/ws", None), duration_s=50.0), ticket(1, "slot/node{x}", 50.0)])
def test_what_is_free_in_a_pool_that_is_wanted_as_a_whole_is_kept(first: Ticket) -> None:
    graph = machine()
    graph.allocate("/ws/ws/core0", job="j")
    assert granted(graph, [first, ticket(2, "slot/core", 10.0), ticket(3, "slot/gpu")]) == []
    graph.free("j")
    assert granted(graph, [first, ticket(2, "slot/core", 10.0)]) == ["t1"]


def test_no_more_than_what_is_wanted_is_kept() -> None:
    inside = [{"type": "gpu", "count": 1}, {"type": "memory", "size": 64, "unit": "GiB"}]
    graph = fluxres.load({"fluxres": 1, "name": "ws", "resources": [{"type": "node", "hosts": "ws", "with": inside}]})
    graph.clock = fixed(1000.0)
    graph.allocate("/ws/ws/gpu0", job="j")
    first = ticket(1, "slot/[gpu;memory=40]")
    assert granted(graph, [first, ticket(2, "slot/memory=25")]) == []
    assert granted(graph, [first, ticket(2, "slot/memory=24")]) == ["t2"]


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_nobody_starts_later_than_was_estimated(data: st.DataObject) -> None:
    """With limits of time that all use up, whatever comes later, and for requests and pools by name alike."""
    graph = machine(cores=4)
    what = st.sampled_from(
        ["slot/core", "slot/[core=2;gpu]", "slot/[gpu=2;core]", "slot/core=3", "/ws/ws", "/ws/ws/core1", "/ws/ws/gpu0"]
    )
    drawn = st.tuples(st.integers(0, 60), what, st.sampled_from([10.0, 20.0, 50.0, 100.0]))
    arriving = sorted(data.draw(st.lists(drawn, min_size=8, max_size=8)))
    left: list[Ticket] = []
    ends: dict[str, float] = {}
    estimated: dict[str, float] = {}
    while arriving or left:
        now = min([*ends.values(), *(1000.0 + after_s for after_s, _, _ in arriving[:1])])
        graph.clock = fixed(now)
        for job in [job for job, end in ends.items() if end <= now]:
            del ends[job]
            if graph.records.is_holder(job):
                graph.free(job)
        while arriving and 1000.0 + arriving[0][0] <= now:
            _, asked, duration_s = arriving.pop(0)
            number = 8 - len(arriving)
            is_named = asked.startswith("/")
            left.append(named(number, (asked, None), duration_s=duration_s) if is_named else ticket(number, asked, duration_s))
        for one in Pass(graph).run(left).granted:
            assert now <= estimated.get(one.job, now)
            assert one.duration_s is not None
            ends[one.job] = now + one.duration_s
        left = [one for one in left if one.job not in ends]
        estimated |= Pass(graph).run(left, only_estimate=True).starts
    assert not graph.check()

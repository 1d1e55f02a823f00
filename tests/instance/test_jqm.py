"""The queue policies of JQM: pollers and tours over several queues, on managers that are pools of a graph."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import fluxres
from fluxres import Instance
from fluxres.errors import UsageError
from fluxres.formats.peers.jqm import jobs
from fluxres.formats.peers.jqm.jobs import slots_available
from fluxres.instance.job import Job, JobEvent
from fluxres.instance.jqm import JqmPoller, JqmTours
from fluxres.instance.states import State
from fluxres.simulation import simulate
from fluxres.simulation.workload.workload import Submission

POLICIES = ("jqm-poller", "jqm-tours")
HELD, USUAL = 0, 16


def quantity(key: str, number: int, **more: Any) -> dict[str, Any]:
    return {"type": "quantity", "key": key, "quantity": number, **more}


def shared(number: int) -> dict[str, Any]:
    return quantity("cpu", number, shared=True)


ONLY = {"type": "highlander", "key": "only", "shared": True}


class Site:
    """An instance over the queues of one node; jobs are known by their names."""

    def __init__(self, policy: Any, **queues: list[dict[str, Any]]) -> None:
        site = {"queues": [{"name": name, "managers": managers} for name, managers in queues.items()]}
        self.graph = fluxres.load(json.dumps(site).encode())
        self.now = 0.0
        self.started: list[str] = []
        self.jobs: dict[str, Job] = {}
        self.instance = Instance(self.graph, queue_policy=policy, clock=lambda: self.now, events=self._note, passes="manual")

    def _note(self, job: Job, event: JobEvent) -> None:
        if event.name == "start":
            self.started.append(str(job.name))

    def submit(self, queue: str, name: str, since_s: float | None = None, *, held: bool = False, **needs: Any) -> Job:
        known = {word: needs.pop(word) for word in ("priority", "position", "definition", "highlander") if word in needs}
        parameters = {f"com.enioka.jqm.rm.{key}.consumption": number for key, number in needs.items()}
        request = jobs.request(queue=queue, since_s=since_s, parameters=parameters, **known)
        self.jobs[name] = self.instance.submit(request, name=name, urgency=HELD if held else USUAL)
        return self.jobs[name]

    def poll(self) -> list[str]:
        self.started.clear()
        self.instance.schedule()
        assert not self.graph.check()
        assert not self.instance.check()
        return list(self.started)

    def end(self, *names: str) -> None:
        for name in names:
            self.instance.finish(self.jobs[name])

    def waiting(self) -> list[str]:
        return [str(job.name) for job in self.instance.jobs(State.SCHED)]


def test_a_poller_skips_large_jobs_and_stops_when_nothing_is_left() -> None:
    site = Site("jqm-poller", q=[quantity("thread", 4)])
    for name, needs in (("a", 2), ("big", 3), ("b", 1), ("c", 1), ("d", 1)):
        site.submit("q", name, thread=needs)
    assert site.poll() == ["a", "b", "c"]
    assert site.waiting() == ["big", "d"]
    assert site.poll() == []  # no room by the defaults: the queue is not looked at
    site.end("a")
    assert site.poll() == ["d"]
    site.end("b", "c", "d")
    assert site.poll() == ["big"]


def test_a_poller_looks_at_three_jobs_per_free_place() -> None:
    site = Site("jqm-poller", q=[quantity("thread", 2)])
    site.submit("q", "first")
    assert site.poll() == ["first"]
    for number in range(3):
        site.submit("q", f"big{number}", thread=2)
    site.submit("q", "small")
    assert site.poll() == []
    site.instance.cancel(site.jobs["big2"])
    assert site.poll() == ["small"]


def test_exhausted_item_list_stops_the_complete_queue() -> None:
    site = Site("jqm-poller", q=[quantity("thread", 9), {"type": "discrete", "key": "ports", "list": "p"}])
    for name, items in (("a", 1), ("b", 1), ("c", 0)):
        site.submit("q", name, ports=items)
    assert site.poll() == ["a"]
    assert site.poll() == []
    site.end("a")
    assert site.poll() == ["b", "c"]
    assert site.graph.pool("/cluster/node0/q/p").available() == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_priority_then_place_then_arrival(policy: str) -> None:
    site = Site(policy, q=[quantity("thread", 1)])
    site.submit("q", "old", 1)
    site.submit("q", "moved", 9, position=0)
    site.submit("q", "high", 5, priority=3)
    site.submit("q", "twin", 1)
    order = []
    for _ in range(4):
        (name,) = site.poll()
        order.append(name)
        site.end(name)
    assert order == ["high", "moved", "old", "twin"]


def test_priority_is_changed_by_the_urgency() -> None:
    site = Site("jqm-poller", q=[quantity("thread", 1)])
    for name in "abc":
        site.submit("q", name, priority=5)
    site.instance.set_urgency(site.jobs["c"], USUAL + 6)
    assert site.poll() == ["c"]
    site.end("c")
    site.instance.set_urgency(site.jobs["a"], USUAL + 1)
    assert site.poll() == ["b"]


def test_tours_take_one_job_of_each_queue_the_longest_waiting_first() -> None:
    site = Site("jqm-tours", a=[shared(5)], b=[shared(5)], c=[shared(5)])
    for queue, name, since in (("a", "a1", 5), ("a", "a2", 6), ("a", "a3", 7), ("b", "b1", 1), ("c", "c1", 2), ("c", "c2", 3)):
        site.submit(queue, name, since)
    assert site.poll() == ["b1", "c1", "a1", "c2", "a2"]


def test_rest_is_kept_for_a_refused_job() -> None:
    site = Site("jqm-tours", a=[shared(5)], b=[shared(5)])
    for queue, name, since, needs in (
        ("a", "a1", 1, 2),
        ("a", "a2", 3, 3),
        ("b", "b1", 2, 1),
        ("b", "b2", 4, 1),
        ("b", "b3", 5, 1),
    ):
        site.submit(queue, name, since, cpu=needs)
    assert site.poll() == ["a1", "b1"]
    assert slots_available(site.graph, "cpu") == 2
    site.end("b1")
    assert site.poll() == ["a2"]


def test_refusal_by_one_manager_books_nothing_of_the_others() -> None:
    site = Site(
        "jqm-tours", q=[quantity("thread", 5), {"type": "discrete", "key": "ports", "list": "p"}], r=[quantity("thread", 1)]
    )
    site.instance.submit(jobs.request(queue="r"))
    with pytest.raises(fluxres.InfeasibleRequest, match="ports"):
        site.submit("q", "never", thread=2, ports=2)
    site.submit("q", "a", ports=1)
    site.submit("q", "b", thread=2, ports=1)
    assert site.poll()[0] == "a"
    assert (slots_available(site.graph, "thread", "q"), site.waiting()) == (4, ["b"])


def test_queues_with_separate_managers_do_not_stop_each_other() -> None:
    site = Site("jqm-tours", a=[quantity("thread", 1)], b=[quantity("thread", 3)])
    for queue, name, since in (("a", "a1", 1), ("a", "a2", 2), ("b", "b1", 3), ("b", "b2", 4), ("b", "b3", 5)):
        site.submit(queue, name, since)
    assert site.poll() == ["a1", "b1", "b2", "b3"]
    assert site.waiting() == ["a2"]


@pytest.mark.parametrize("policy", POLICIES)
def test_held_jobs_age_and_do_not_start(policy: str) -> None:
    site = Site(policy, a=[shared(1)], b=[shared(1)])
    site.submit("a", "f", 1, held=True)
    site.submit("b", "b1", 50)
    site.submit("b", "b2", 60)
    assert site.poll() == ["b1"]
    site.instance.set_urgency(site.jobs["f"], USUAL)
    site.instance.set_urgency(site.jobs["b2"], HELD)
    site.end("b1")
    assert site.poll() == ["f"]
    site.end("f")
    assert site.poll() == []


@pytest.mark.parametrize("policy", POLICIES)
def test_one_highlander_of_a_definition_runs_and_one_waits(policy: str) -> None:
    site = Site(policy, a=[quantity("thread", 9), ONLY], b=[quantity("thread", 9), ONLY])
    first = site.submit("a", "h0", definition="H", highlander=True)
    assert [site.submit("b", f"h{number}", definition="H", highlander=True) for number in (1, 2)] == [first, first]
    assert site.poll() == ["h0"]
    assert site.submit("b", "h3", definition="H", highlander=True) is not first
    assert site.submit("a", "h4", definition="H", highlander=True) is site.jobs["h3"]
    site.submit("b", "plain", definition="P")
    assert site.poll() == (["plain"] if policy == "jqm-poller" else [])
    site.end("h0")
    assert "h3" in site.poll()


@pytest.mark.parametrize("policy", POLICIES)
def test_no_highlander_starts_beside_a_job_of_its_definition_that_the_same_poll_started(policy: str) -> None:
    site = Site(policy, q=[quantity("thread", 9), ONLY])
    site.submit("q", "other", definition="H2", highlander=True)  # so what runs is known before "plain" starts
    site.submit("q", "plain", definition="H")
    site.submit("q", "h", definition="H", highlander=True)
    assert site.poll() == ["other", "plain"]
    site.end("plain")
    assert site.poll() == ["h"]


def test_a_waiting_highlander_may_let_the_others_of_its_queue_pass() -> None:
    for skips, expected in ((0, []), (1, ["a", "b"])):
        site = Site(f"jqm-tours:skips-highlanders={skips}", q=[quantity("thread", 9), ONLY], r=[quantity("thread", 1)])
        site.submit("r", "r", definition="H")
        assert site.poll() == ["r"]
        site.submit("q", "h", definition="H", highlander=True)
        site.submit("q", "a", 1)
        site.submit("q", "b", 2)
        assert site.poll() == expected


@pytest.mark.parametrize("kind", [JqmPoller, JqmTours])
def test_job_claimed_by_another_node_leaves_and_takes_nothing(kind: Callable[..., Any]) -> None:
    site = Site(kind(claim=lambda job: job.name != "a"), q=[shared(2)])
    for name in "abc":
        site.submit("q", name)
    assert site.poll() == ["b", "c"]
    assert (site.waiting(), site.jobs["a"].result, slots_available(site.graph, "cpu")) == ([], "failed", 0)


def test_turn_of_a_queue_passes_with_a_job_that_another_node_has() -> None:
    site = Site(JqmTours(claim=lambda job: job.name != "a1"), a=[shared(3)], b=[shared(3)])
    for queue, name, since in (("a", "a1", 1), ("a", "a2", 2), ("b", "b1", 3), ("b", "b2", 4)):
        site.submit(queue, name, since)
    assert site.poll() == ["b1", "a2", "b2"]


# -- when a poll is made ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strict", "starts"), [(0, [0.0, 0.3, 1.0]), (1, [0.0, 1.0, 2.0])])
def test_polls_are_made_each_period_or_when_a_job_ends(strict: int, starts: list[float]) -> None:
    site = Site("jqm-poller", q=[quantity("thread", 1)])
    now = [0.0]
    instance = Instance(site.graph, queue_policy=f"jqm-poller:period=1,strict={strict}", clock=lambda: now[0])
    found = [instance.submit(jobs.request(queue="q")) for _ in range(3)]
    assert found[0].started_at == 0.0
    now[0] = 0.3
    instance.finish(found[0])
    while found[1].state is not State.RUN:
        now[0] = instance.next_due() or now[0]
        instance.advance()
    if strict:
        instance.finish(found[1])
    else:
        now[0] = 1.0
        instance.finish(found[1])
    while found[2].state is not State.RUN:
        now[0] = instance.next_due() or now[0]
        instance.advance()
    assert [job.started_at for job in found] == starts


@pytest.mark.parametrize("policy", POLICIES)
def test_every_submission_and_end_makes_a_poll_by_default(policy: str) -> None:
    graph = fluxres.load(b"managers: [{type: quantity, key: thread, quantity: 1}]")
    instance = Instance(graph, queue_policy=policy)
    first, second = (instance.submit(jobs.request()) for _ in range(2))
    assert (first.state, second.state) == (State.RUN, State.SCHED)
    instance.finish(first)
    assert second.state is State.RUN


@pytest.mark.parametrize("policy", [*POLICIES, "jqm-poller:period=30", "jqm-tours:period=30,strict=1"])
def test_simulations_of_ordinary_workloads(policy: str) -> None:
    minute = 60_000_000
    workload = [Submission(n, n * 7_000_000, minute, 50_000_000 + n, 1 + n % 5) for n in range(1, 40)]
    result = simulate(workload, 8, queue_policy=policy)
    assert result.metrics.jobs == 39
    assert not result.errors
    easy = simulate(workload, 8, queue_policy="fcfs")
    assert result.metrics.makespan_s < 2 * easy.metrics.makespan_s


@pytest.mark.parametrize("name", ["jqm-poller:depth=1", "jqm-tours:period=-1", "jqm-poller:period=x"])
def test_wrong_parameters_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        Instance(fluxres.load("canary:cpus=1"), queue_policy=name)


# -- guarantees ------------------------------------------------------------------------------------------------------


class Polls(RuleBasedStateMachine):
    """Submissions, polls and ends at random: nothing is exceeded, held jobs stay, and what waits is in order."""

    @initialize(policy=st.sampled_from(POLICIES))
    def begin(self, policy: str) -> None:
        ports = {"type": "discrete", "key": "ports", "list": "p,q", "shared": True}
        self.site = Site(policy, a=[shared(4), ports], b=[shared(4), ONLY], c=[quantity("thread", 2), ONLY])
        self.policy = policy
        self.needs: dict[str, tuple[str, int, int]] = {}
        self.running: set[str] = set()
        self.held: set[str] = set()
        self.number = 0

    @rule(
        queue=st.sampled_from("abc"), cpus=st.integers(0, 4), items=st.integers(0, 2), rank=st.integers(0, 3), held=st.booleans()
    )
    def submit(self, queue: str, cpus: int, items: int, rank: int, held: bool) -> None:
        self.number += 1
        name = f"j{self.number}"
        needs = {"c": {"thread": min(cpus, 2)}, "a": {"cpu": cpus, "ports": items}, "b": {"cpu": cpus}}[queue]
        self.site.submit(queue, name, self.number, held=held, priority=rank or None, **needs)
        self.needs[name] = queue, cpus if queue != "c" else min(cpus, 2), items if queue == "a" else 0
        self.held |= {name} if held else set()

    @rule(definition=st.sampled_from("HI"), queue=st.sampled_from("bc"))
    def submit_highlander(self, definition: str, queue: str) -> None:
        self.number += 1
        name = f"h{self.number}{definition}"
        job = self.site.submit(queue, name, self.number, definition=definition, highlander=True)
        if job.name == name:
            self.needs[name] = queue, 1, 0

    @rule()
    def poll(self) -> None:
        before = set(self.site.waiting())
        found = set(self.site.poll())
        assert found <= before - self.held
        self.running |= found
        if self.policy == "jqm-poller" and not found:
            self.no_queue_has_a_job_that_fits_at_its_head()

    def no_queue_has_a_job_that_fits_at_its_head(self) -> None:
        used = sum(need for queue, need, _ in (self.needs[name] for name in self.running) if queue != "c")
        for queue in "b":
            waiting = [name for name in self.site.waiting() if self.needs[name][0] == queue and name not in self.held]
            order = sorted(waiting, key=lambda name: (-self.site.jobs[name].priority, self.site.jobs[name].number))
            if order and not order[0].startswith("h") and used < 4:
                assert self.needs[order[0]][1] > 4 - used

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if self.running:
            name = data.draw(st.sampled_from(sorted(self.running)))
            self.site.end(name)
            self.running.discard(name)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.held:
            name = data.draw(st.sampled_from(sorted(self.held)))
            self.site.instance.set_urgency(self.site.jobs[name], USUAL)
            self.held.discard(name)

    @invariant()
    def holdings_are_those_of_running_jobs(self) -> None:
        if not hasattr(self, "site"):
            return
        held = [self.needs[name] for name in self.running]
        assert slots_available(self.site.graph, "cpu", "a") == 4 - sum(need for queue, need, _ in held if queue != "c") >= 0
        assert slots_available(self.site.graph, "ports", "a") == 2 - sum(items for _, _, items in held) >= 0
        assert slots_available(self.site.graph, "thread", "c") == 2 - sum(need for queue, need, _ in held if queue == "c") >= 0
        for definition in "HI":
            assert sum(name.startswith("h") and name.endswith(definition) for name in self.running) <= 1
            assert sum(name.startswith("h") and name.endswith(definition) for name in self.site.waiting()) <= 1


TestPolls = Polls.TestCase
TestPolls.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)

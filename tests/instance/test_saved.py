"""An instance that is saved and made again goes on as if nothing had happened: random trees with auxiliary graphs."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any, ClassVar

import msgspec

import fluxres
from fluxres import Resource
from fluxres.errors import FluxresError
from fluxres.instance import Instance, Job, State, saved
from fluxres.instance.accounting import Account, Accounting, Qos, User
from fluxres.model import ResourceGraph
from fluxres.render import documents
from tests.instance import meeting
from tests.instance.machines import ManualClock

POLICIES = ("fcfs", "easy", "hybrid:depth=3", "conservative", "priority:qos=1000", "fairshare")
SITE = Accounting(
    accounts={"physics": Account(fairshare=3), "optics": Account(parent="physics", max_jobs=3)},
    users={"ann": User(account="optics"), "bob": User(max_jobs=2)},
    qos={"low": Qos(grace_time=4, preempt_mode="requeue"), "high": Qos(priority=9, preempt=["low"], max_submit_jobs=4)},
    preempt_type="qos",
)


def _way(one: Instance) -> tuple[int, ...]:
    return () if one.parent is None or one.job_in_parent is None else (*_way(one.parent), one.job_in_parent.number)


def again(top: Instance) -> Instance:
    """The same instance, made again on a copy of its graph; what is kept of it passes through JSON."""
    kept = msgspec.json.decode(msgspec.json.encode(saved.instance(top)), type=saved.SavedInstance)
    every = {_way(one): [saved.job(job) for job in one.jobs()] for one in top.walk()}
    jobs = {way: msgspec.json.decode(msgspec.json.encode(found), type=list[saved.SavedJob]) for way, found in every.items()}
    usage = {_way(one): saved.usage(one) for one in top.walk()}
    graph = top.inventory.graph.duplicate()
    graph.clock = top.clock
    rules = None if top.ledger is None else top.ledger.rules
    return saved.restored(graph, kept, jobs, top._options.events, rules, usage)  # type: ignore[arg-type]  # a function, as the tests give one


def drawn_in(graph: ResourceGraph, moment: int) -> dict[str, dict[str, Any]]:
    """By job, what it holds at a moment and from whom it draws that."""
    records, where = graph.records, graph.structure.accounts.where
    found: dict[str, dict[str, Any]] = {}
    for name in records.jobs():
        held = {where(v): [n for s, e, n in records.given(v, name) if s <= moment < e] for v in records.pools_with_implied(name)}
        rows = [(where(pool), where(account), units) for pool, account, units in records.draws_of(name).at(moment).tolist()]
        found[name] = {"held": {key: value for key, value in held.items() if value}, "drawn": sorted(rows)}
    return {name: one for name, one in found.items() if one["held"]}


def _states(graph: ResourceGraph) -> list[tuple[str, str, bool]]:
    structure = graph.structure
    return [(structure.where(v), structure.state_name(v), bool(structure.ways[v])) for v in range(structure.n)]


def described(top: Instance) -> dict[str, Any]:
    """Everything that can be seen of an instance and those below it."""
    top.advance()
    found: dict[str, Any] = {}
    for one in top.walk():
        graph = one.graph
        jobs = [documents.instance_job(job) for job in one.jobs()]
        found[one.address] = {
            "summary": {**documents.instance(one), "pools": None},
            "jobs": [{**job, "reserved": None} for job in jobs],
            "expires": one.expires_at,
            "priorities": sorted(job.priority for job in one.queue),
            "held": drawn_in(graph, top.time.now),
            "states": {where: state for where, state, is_way in _states(graph) if not is_way and state != "up"},
            "free": [graph.aggregate(at=top.time.now / 1e6 + later) for later in (0, 3, 30)],
            "used": {str(key): round(used[0], 3) for key, used in saved.usage(one).items() if any(used[:2])},
        }
    return found


class Course(meeting.Course):
    """A course whose tree is saved and made again all the time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.clock = meeting.Clock(None)
        graph = self.machine.graph
        rules = SITE if self.source.random() < 0.5 else None
        policy = self.source.choice(POLICIES)
        self.top = Instance(graph, queue_policy=policy, clock=self.clock, name="top", events=_ignore, accounting=rules)

    def submit(self) -> None:
        instance = self.instance()
        wanted, source = meeting.RandomRequest(self.source, self.machine), self.source
        charged: dict[str, Any] = {}
        if instance.ledger is not None:
            charged = {"account": source.choice([None, "physics"]), "qos": source.choice(["low", "high"])}
        duration, user = source.choice([None, 5, 10, 20, 50]), source.choice(["ann", "bob", "eve"])
        after = [f"afterany:{job.id}" for job in instance.jobs("active")[:1]] if source.random() < 0.1 else []
        instance.submit(wanted.request, duration_s=duration, user=user, dependencies=after, payload={"of": user}, **charged)

    def ahead(self) -> None:
        instance, source = self.instance(), self.source
        wanted = meeting.RandomRequest(source, self.machine)
        given: dict[str, Any] = {"start_s": self.clock.now_s + source.choice([1, 4, 12]), "duration_s": source.choice([5, 15])}
        if source.random() < 0.3:
            pools = instance.graph.find("type=node").paths()
            instance.reserve(pools=[source.choice(pools)], name="window", **given)
        else:
            instance.reserve(wanted.request, **given)

    def _spawned(self, job: Job) -> None:
        assert isinstance(job.instance, Instance)
        job.instance.spawn(job, queue_policy=self.source.choice(POLICIES))

    def spawn(self) -> None:
        if found := self.running(with_child=False):
            self._spawned(self.source.choice(found))

    def deeper(self) -> None:
        instance = max(self.top.walk(), key=lambda one: one.depth)
        job = instance.submit(meeting.RandomRequest(self.source, self.machine).request, duration_s=20)
        if job.state is State.RUN:
            self._spawned(job)

    def grow(self) -> None:
        if (child := self.child()) is not None:
            child.grow(meeting.RandomRequest(self.source, self.machine).request)

    def changed(self, child: Instance) -> None:
        pass

    def finishes(self, job: Job, status: int) -> None:
        job.instance.finish(job, status)

    def state(self) -> None:
        instance = self.instance()
        pools = instance.graph.find("type=node or type=core or type=rack").paths()
        instance.set_state([self.source.choice(pools or ["/nothing"])], self.source.choice(["down", "drain", "up", "up"]))

    def cable(self) -> None:
        pass

    WEIGHTS: ClassVar = {**meeting.Course.WEIGHTS, "ahead": 3, "submit": 14, "spawn": 7, "deeper": 5, "cable": 0, "ask": 0}

    def run(self, steps: int = meeting.STEPS) -> None:
        names, weights = list(self.WEIGHTS), list(self.WEIGHTS.values())
        for _ in range(steps):
            name = self.source.choices(names, weights)[0]
            self.log.append(f"{self.clock.now_s:g} {name}")
            with suppress(FluxresError):
                getattr(self, name)()
                self.counts[name] += 1
            self.top.advance()
            made = again(self.top)
            before, after = described(self.top), described(made)
            assert after == before, self.log
            assert made.check() == [], self.log
            assert made.inventory.graph.check() == [], self.log
            self.counts[f"depth {max(one.depth for one in self.top.walk())}"] += 1
            self.counts["drawn"] += any(held["drawn"] for one in after.values() for held in one["held"].values())
            self.top, self.machine.graph = made, made.inventory.graph


def _ignore(*_: object) -> None:
    pass


def lab() -> Instance:
    node = Resource("node", 2, children=[Resource("core", 2)])
    return Instance(fluxres.build(node, name="lab"), clock=ManualClock(), events=_ignore)


def test_a_job_that_has_ended_keeps_the_size_of_what_it_held() -> None:
    top = lab()
    job = top.submit("slot/node", duration_s=60)
    top.finish(job)
    made = again(top)
    made.measure_in("node")
    assert made.job(job.id).size == job.size == 2


def test_a_job_that_was_reserved_ahead_has_the_size_of_what_is_reserved() -> None:
    top = lab()
    job = top.reserve("slot/node", start_s=5, duration_s=60)
    made = again(top)
    for one in (top, made):
        one.clock.now_s = 5.0  # type: ignore[attr-defined]  # a ManualClock
        one.advance()
    assert made.job(job.id).state is State.RUN
    assert made.job(job.id).size == job.size == 2


def test_an_instance_that_is_made_again_is_the_same() -> None:
    counts: Counter[str] = Counter()
    for seed in range(4):
        course = Course(seed)
        course.run(25)
        counts += course.counts
    assert min(counts["ahead"], counts["spawn"], counts["depth 2"], counts["drawn"]) > 2

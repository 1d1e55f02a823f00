"""Instances: the same on a local graph and on a server, with and without asyncio; and what a server keeps of them."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

import fluxres
from fluxres import limits
from fluxres.errors import StoreConflict, UnknownGraph, UsageError
from fluxres.instance import State, accounting, saved
from fluxres.service.client.async_graph import AsyncRemoteInstance
from fluxres.service.client.graph import RemoteInstance
from fluxres.service.client.requests import Request, of_graph, post
from fluxres.service.instances import Instances
from fluxres.service.site import Site
from fluxres.store import Store, open_store
from fluxres.store.attached import open as attach
from tests.service.conftest import DEMO, Server, demo_store, empty_store, running
from tests.service.test_access import FILE, WORDS
from tests.service.test_both import awaited

_names = count()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(empty_store(tmp_path_factory.mktemp("shared"))) as found:
        yield found


Begin = Callable[..., Any]


class Begun:
    """An instance for asyncio whose coroutines run to their end at once."""

    def __init__(self, inside: Any, run: Callable[[Any], Any]) -> None:
        self._inside, self._run = inside, run

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inside, name)

        def call(*given: Any, **named: Any) -> Any:
            found = self._run(method(*given, **named))
            return Begun(found, self._run) if hasattr(found, "submit") else found

        return call if callable(method) else method

    @property
    def pending(self) -> int:
        return int(self.summary()["pending"])

    @property
    def running(self) -> int:
        return int(self.summary()["running"])


@pytest.fixture(params=["local", "remote", "asyncio"])
def begin(request: pytest.FixtureRequest) -> Iterator[Begin]:
    """Begins an instance on a machine of 2 racks of 4 nodes of 8 cores."""
    if request.param == "local":
        yield lambda **given: fluxres.Instance(fluxres.load(DEMO, clock=time.time), name="main", **given)
        return
    server, name = request.getfixturevalue("shared"), f"g{next(_names)}"
    server.connection().make(Request("POST", f"/v1/graphs?name={name}", json.dumps(DEMO).encode()))
    if request.param == "remote":
        with fluxres.connect(server.url, graph=name) as remote:
            yield lambda **given: remote.create_instance("main", **given)
    else:
        with awaited(server.url, name) as graph:
            yield lambda **given: Begun(
                graph._run(graph._inside.create_instance("main", **given)), graph._loop.run_until_complete
            )


def test_jobs_start_wait_and_end(begin: Begin) -> None:
    top = begin(queue_policy="easy")
    first = top.submit("slot=6/node", duration_s=600, name="a", user="ada", payload={"command": ["true"]})
    second = top.submit("slot=4/node", duration_s=60)
    third = top.submit("slot=2/node", duration_s=60)
    assert [one.state for one in (first, second, third)] == [State.RUN, State.SCHED, State.RUN]
    assert (first.name, first.user, first.payload, first.size) == ("a", "ada", {"command": ["true"]}, 48)
    assert first.ends_at == first.started_at + 600
    assert [path for path, _ in third.pools] == ["/demo/rack1/node2", "/demo/rack1/node3"]
    assert top.job(second.id).reserved_at == first.ends_at
    assert (top.pending, top.running) == (1, 2)
    assert [[job.id for job in top.jobs(state)] for state in ("pending", "RUN", "active")] == [
        [second.id],
        [first.id, third.id],
        [first.id, second.id, third.id],
    ]
    with pytest.raises(UsageError, match="no state 'asleep'"):
        top.jobs("asleep")
    top.finish(first.id)
    assert top.job(second.id).state is State.RUN
    assert top.job(first.id).result == "completed"
    top.cancel(third.id, "not needed")
    canceled = top.job(third.id)
    assert (canceled.result, canceled.pools) == ("canceled", [])
    assert [(one.type, one.severity, one.note) for one in canceled.exceptions] == [("cancel", 0, "not needed")]
    top.finish(second.id, 256)
    assert top.job(second.id).result == "failed"
    assert [one.state for one in top.jobs()] == [State.INACTIVE] * 3
    assert top.check() == []


def test_limits_end_jobs_in_time(begin: Begin) -> None:
    top = begin()
    first = top.submit("slot=8/node", duration_s=0.3)
    second = top.submit("slot=8/node", duration_s=60)
    assert second.state is State.SCHED
    time.sleep(0.5)
    if isinstance(top, fluxres.Instance):
        top.advance()  # a server lets time pass by itself
    assert top.job(first.id).result == "timeout"
    assert top.job(second.id).state is State.RUN


def test_urgency_dependencies_and_limits_change(begin: Begin) -> None:
    top = begin(queue_policy="fcfs")
    first = top.submit("slot=8/node", duration_s=600)
    held = top.submit("slot=1/node", urgency=0)
    after = top.submit("slot=1/node", dependencies=[f"afterok:{first.id}"])
    assert [held.state, after.state] == [State.SCHED, State.DEPEND]
    assert [str(one) for one in top.job(after.id).dependencies] == [f"afterok:{first.id}"]
    top.set_duration(first.id, 60)
    assert top.job(first.id).ends_at == first.started_at + 60
    top.set_urgency(held.id, 31)
    top.finish(first.id)
    assert [top.job(one.id).state for one in (held, after)] == [State.RUN, State.RUN]
    waiting = top.submit("slot=7/node")
    top.add_dependency(waiting.id, f"afternotok:{held.id}")
    assert top.job(waiting.id).state is State.DEPEND
    top.exception(held.id, "exec", note="lost")
    assert top.job(waiting.id).state is State.RUN
    top.requeue(waiting.id)
    assert top.job(waiting.id).state is State.RUN


def test_children_schedule_what_a_job_holds(begin: Begin) -> None:
    top = begin(queue_policy="easy")
    job = top.submit("slot=2/node")
    part = top.spawn(job.id, queue_policy="fcfs")
    assert part.address == f"main/{job.id}"
    inner = part.submit("slot=12/core", name="inner")
    assert inner.state is State.RUN
    assert part.submit("slot=16/core").state is State.SCHED
    assert part.grow("slot=1/node") == ["/demo/rack0/node2"]
    assert [one.state for one in part.jobs()] == [State.RUN, State.SCHED]
    part.cancel(part.jobs()[1].id)
    part.finish(inner.id)
    assert [job.result for job in part.jobs()] == ["completed", "canceled"]
    assert part.shrink(["/demo/rack0/node2"]) == ["/demo/rack0/node2"]
    part.close()
    assert top.job(job.id).result == "completed"
    with pytest.raises(fluxres.FluxresError):
        part.submit("slot=1/core")
    assert top.check() == []


def test_a_reservation_starts_at_its_time_and_others_keep_off(begin: Begin) -> None:
    top = begin(queue_policy="easy")
    now = time.time()
    ahead = top.reserve("slot=6/node", start_s=now + 3600, duration_s=600, name="window", user="ada", payload=[1])
    assert ahead.ends_at == pytest.approx(now + 4200)
    assert (ahead.state, ahead.is_booking, ahead.name, ahead.user, ahead.payload) == (State.DEPEND, True, "window", "ada", [1])
    short, long = top.submit("slot=6/node", duration_s=600), top.submit("slot=4/node", duration_s=7200)
    assert [one.state for one in (short, long)] == [State.RUN, State.SCHED]
    top.cancel(ahead.id)
    near = top.reserve(pools=["/demo/rack1/node3"], start_s=time.time() + 0.3, duration_s=60)
    time.sleep(0.5)
    if isinstance(top, fluxres.Instance):
        top.advance()
    assert top.job(near.id).state is State.RUN
    assert top.job(near.id).pools == [("/demo/rack1/node3", 1)]
    with pytest.raises(UsageError, match="was reserved ahead"):
        top.requeue(near.id)
    for wrong in (
        {"wanted": "slot=6/node", "start_s": now - 5},
        {"start_s": now + 5},
        {"wanted": "slot=9/node", "start_s": now + 5},
    ):
        with pytest.raises((UsageError, fluxres.InfeasibleRequest)):
            top.reserve(**wrong, duration_s=5)
    with pytest.raises(fluxres.InsufficientResources):
        top.reserve("slot=8/node", start_s=time.time() + 1, duration_s=5)
    assert top.check() == []


SITE = accounting.Accounting(
    users={"ann": accounting.User(account="optics"), "bob": accounting.User(max_jobs=1)},
    accounts={"physics": accounting.Account(fairshare=3), "optics": accounting.Account(parent="physics", grp_size=16)},
    qos={"normal": accounting.Qos(max_wall="1h"), "high": accounting.Qos(priority=9, max_submit_jobs=1)},
)


def test_accounting_limits_and_orders_jobs(begin: Begin) -> None:
    top = begin(queue_policy="priority:qos=1000000", accounting=SITE)
    first = top.submit("slot=1/node", user="bob", duration_s=60)
    second = top.submit("slot=1/node", user="bob", duration_s=60)
    assert (first.account, first.qos, first.state, first.limit_reached) == ("root", "normal", State.RUN, "")
    assert (second.state, second.limit_reached) == (State.SCHED, "user bob: max_jobs is 1")
    whole = top.submit("slot=2/node", user="ann", duration_s=60)
    other = top.submit("slot=1/node", user="ann", duration_s=60)
    assert (whole.account, other.limit_reached) == ("optics", "account optics: grp_size is 16 cores")
    urgent = top.submit("slot=8/node", user="eve", qos="high", account="physics", duration_s=60)
    assert (urgent.qos, urgent.account) == ("high", "physics")
    assert urgent.priority > other.priority
    with pytest.raises(fluxres.InsufficientResources, match="max_submit_jobs"):
        top.submit("slot=1/node", user="eve", qos="high", duration_s=60)
    with pytest.raises(fluxres.InfeasibleRequest, match="max_wall"):
        top.submit("slot=1/node", user="eve", duration_s=7200)
    with pytest.raises(fluxres.NotInAccounting, match=r"no QOS 'low' \(choose from normal, high\)"):
        top.submit("slot=1/node", user="eve", qos="low", duration_s=60)
    top.finish(first.id)
    assert top.job(second.id).state is State.SCHED  # the urgent one has the next pools
    top.cancel(urgent.id)
    assert top.job(second.id).state is State.RUN
    assert top.check() == []


def test_partitions_of_the_accounting_limit_on_a_machine_without_partitions(begin: Begin) -> None:
    rules = {"partitions": {"debug": {"max_jobs": 1}, "batch": {"default": True}}, "aliases": {"1": "debug"}}
    top = begin(accounting=rules)
    found = [top.submit(f"-N1 -x -p {name}", duration_s=60) for name in ("debug", "1", "batch")]
    assert [(one.partition, one.state) for one in found] == [
        ("debug", State.RUN),
        ("debug", State.SCHED),
        ("batch", State.RUN),
    ]
    for given in ({"wanted": "-N1 -p dbug"}, {"wanted": "-N1", "partition": "dbug"}):
        with pytest.raises(fluxres.NotInAccounting, match=r"no partition 'dbug' \(did you mean debug\?\)"):
            top.submit(**given, duration_s=60)
    assert top.reserve("-N1 -p debug", start_s=time.time() + 600, duration_s=60).state is State.DEPEND
    assert top.check() == []


@pytest.mark.parametrize(
    ("rules", "kind", "message"),
    [
        ({"qos": 3}, fluxres.InputError, "accounting: qos: expected a mapping, got 3"),
        ({"users": {"ann": {"qos": "x"}}}, fluxres.InputError, r"accounting: users.ann.qos: no qos 'x' \(there is none\)"),
        (accounting.Accounting(users={"ann": accounting.User(qos="x")}), fluxres.InputError, "accounting: users.ann.qos: no qos"),
        ("/nope", UsageError, r"accounting: expected an Accounting or a mapping, got '/nope' \(.*load\(\) reads a file"),
        (3, UsageError, "accounting: expected an Accounting or a mapping, got 3"),
    ],
)
def test_accounting_is_an_accounting_or_a_mapping(begin: Begin, rules: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        begin(accounting=rules)


def test_users_share_once_their_first_job_has_started(begin: Begin) -> None:
    top = begin(queue_policy="fairshare:urgency=0")
    top.submit("slot=8/node", user="ann", duration_s=60)
    top.submit("slot=1/node", user="bob", duration_s=60)
    assert top.submit("slot=1/node", user="ann", duration_s=60).priority == 50_000  # alone, she has used what her share says


def test_pools_out_of_service_end_jobs_also_in_children(begin: Begin) -> None:
    top = begin()
    first, second = top.submit("slot=2/node"), top.submit("slot=2/node")
    part = top.spawn(first.id, name="part")
    inner = part.submit("slot=1/node")
    top.down("/demo/rack0/node0")
    assert part.job(inner.id).result == "failed"
    top.drain(["/demo/rack0/node1"])
    assert part.submit("slot=1/core").state is State.SCHED
    top.up("/demo/rack0/node[0-1]")
    assert [job.state for job in part.jobs("active")] == [State.RUN]
    before = list(second.pools)
    top.set_state("/demo/rack0/node2", "down", requeue=True)
    assert top.job(second.id).state is State.RUN
    assert top.job(second.id).pools != before
    assert top.check() == []


def test_instances_expire_fail_and_are_found(begin: Begin) -> None:
    top = begin()
    first, second = top.submit("slot=2/node"), top.submit("slot=2/node")
    part, other = top.spawn(first.id, name="part"), top.spawn(second.id)
    assert (part.depth, part.parent.address, part.outermost.address) == (1, "main", "main")
    assert [top.find(name).address for name in (str(first.id), f"main/{first.id}")] == [part.address] * 2
    with pytest.raises(fluxres.UnknownJob):
        top.find("ƒ9")
    assert [(one.address, one.depth, one.queue_policy) for one in top.tree()] == [
        ("main", 0, top.tree()[0].queue_policy),
        (part.address, 1, top.tree()[0].queue_policy),
        (other.address, 1, top.tree()[0].queue_policy),
    ]
    other.fail("lost")
    assert (top.job(second.id).result, top.job(second.id).exceptions[0].note) == ("failed", "lost")
    part.set_expiration(time.time() + 0.3)
    time.sleep(0.5)
    if isinstance(top, fluxres.Instance):
        top.advance()
    assert top.job(first.id).result == "timeout"
    top.measure_in("node")
    assert top.submit("slot=3/node").size == 3


def test_the_question_that_ends_an_instance_finds_it_no_more(tmp_path: Path) -> None:
    with running(demo_store(tmp_path)) as server, fluxres.connect(server.url) as graph:
        for number in range(10):
            top = graph.create_instance(f"i{number}")
            end_s = time.time() + 0.05
            top.set_expiration(end_s)
            while time.time() <= end_s:
                time.sleep(0.0005)
            with pytest.raises(fluxres.UnknownJob):
                top.jobs()


WRONG: list[Callable[[Any], object]] = [
    lambda i: i.submit("slot=9/node"),
    lambda i: i.submit("slot="),
    lambda i: i.submit("slot=1/node", urgency=32),
    lambda i: i.submit("slot=1/node", duration_s=-1),
    lambda i: i.submit("slot=1/node", dependencies=["afterok:ƒ9"]),
    lambda i: i.submit("slot=1/node", dependencies=["before:ƒ9"]),
    lambda i: i.cancel("ƒ9"),
    lambda i: i.finish("ƒ9"),
    lambda i: i.job("x y"),
    lambda i: i.spawn("ƒ9"),
    lambda i: i.grow("slot=1/node"),
    lambda i: i.fail(),
    lambda i: i.set_state("/demo/rack7", "down"),
    lambda i: i.set_state("/demo/rack0", "asleep"),
    lambda i: i.reserve("slot=1/node", start_s=0, duration_s=5),
    lambda i: i.reserve(pools=[], start_s="+1h", duration_s=5),
    lambda i: i.set_state([], "down"),
    lambda i: i.set_expiration("yesterdays"),
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_errors_are_those_of_a_local_instance(begin: Begin, wrong: Callable[[Any], object]) -> None:
    top = begin()
    with pytest.raises(fluxres.FluxresError) as expected:
        wrong(fluxres.Instance(fluxres.load(DEMO, clock=time.time)))
    with pytest.raises(type(expected.value)):
        wrong(top)
    assert top.jobs() == []


def _public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


LOCAL = frozenset(
    [
        "advance",
        "next_due",
        "schedule",
        "resize",
        "replan",
        "shrink_idle",
        "can_hold",
        "has_room",
        "submit_request",
        "finish_running",
        "show",
        "to_arrow",
        "to_pandas",
        "to_polars",
    ]
)
"""Methods that only a local instance has; specs/service.md says why."""
INSIDE = frozenset(
    ["drop_child", "enter", "freed_from", "is_active", "is_ending", "jobs_kept", "make_child", "now", "policy", "resume", "shut"]
)
"""What the parts of an instance use of each other."""


def test_a_remote_instance_has_the_methods_of_a_local_one() -> None:
    local, remote, awaiting = map(_public, (fluxres.Instance, RemoteInstance, AsyncRemoteInstance))
    assert local - remote - {"graph", "address"} == LOCAL | INSIDE
    attributes = "children expires_at is_closed job_in_parent match_policy name pending queue_policy running walk"
    assert remote - awaiting == set(attributes.split())  # with asyncio they are in `summary()` and `tree()`
    for named in remote & local:
        ours, theirs = (getattr(kind, named) for kind in (RemoteInstance, fluxres.Instance))
        if callable(ours) and named != "spawn":
            given = set(inspect.signature(ours).parameters) - {"instance", "idempotency_key"}
            known = set(inspect.signature(theirs).parameters)
            assert given - known <= {"job", "self", "state"}, named  # `jobs(state)` names one of them
            assert known - given <= {"self", "kind", "in_states"}, named


@pytest.mark.parametrize("given", [{"sizes": {1: "2h", 2: "1h"}}, {"is_malleable": True}])
def test_a_server_refuses_jobs_of_several_sizes(shared: Server, given: dict[str, Any]) -> None:
    name = f"g{next(_names)}"
    shared.connection().make(Request("POST", f"/v1/graphs?name={name}", json.dumps(DEMO).encode()))
    way_out = r"sizes: a server does not keep jobs of several sizes \(submit one size .*local Instance\)"
    with fluxres.connect(shared.url, graph=name) as graph:
        top = graph.create_instance("main")
        with pytest.raises(UsageError, match=way_out):
            top.submit("slot=1/node", **given)
        assert top.jobs() == []

    async def ask() -> None:
        async with fluxres.aconnect(shared.url, graph=name) as graph:
            top = await graph.instance("main")
            with pytest.raises(UsageError, match=way_out):
                await top.submit("slot=1/node", **given)

    asyncio.run(ask())


# -- what a server keeps -------------------------------------------------------------------------------------------------


def described(top: fluxres.RemoteInstance) -> list[dict[str, Any]]:
    return [job.document for job in top.jobs()]


def test_a_killed_server_is_succeeded_by_one_that_goes_on(tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with running(store) as server:
        with fluxres.connect(server.url) as graph:
            top = graph.create_instance("main", queue_policy="easy")
            first = top.submit("slot=6/node", duration_s=600, payload=[1, "a"], name="first")
            second = top.submit("slot=4/node", duration_s=60)
            third = top.submit("slot=1/node", dependencies=[f"afterok:{second.id}"], user="ada")
            done = top.submit("slot=1/node")
            top.finish(done.id, 1)
            part = top.spawn(first.id)
            inner = part.submit("slot=3/node", name="inner")
            key = top.submit("slot=8/node", idempotency_key="k1")
            before, below = described(top), described(part)
        server.process.kill()
        server.process.wait()
    with running(store) as server, fluxres.connect(server.url) as graph:
        top = graph.instance("main")
        assert top.submit("slot=8/node", idempotency_key="k1").id == key.id
        part = graph.instance(f"main/{first.id}")
        assert described(top) == before
        assert described(part) == below
        assert (top.check(), graph.check()) == ([], [])
        assert [one.address for one in top.children] == [part.address]
        assert part.submit("slot=3/node").state is State.RUN
        part.cancel(inner.id)
        part.close()
        assert top.job(first.id).result == "completed"
        assert top.job(second.id).state is State.RUN
        top.finish(second.id)
        assert top.job(third.id).state is State.RUN
        assert top.job(third.id).user == "ada"
        assert open_store(store).open()[0].facts(third.id).user == "ada"
        assert top.job(done.id).result == "failed"
        numbers = [job.id for job in top.jobs()]
        assert len(set(numbers)) == len(numbers) == 5
        top.close()
        assert (graph.jobs(), graph.instances()) == ([], [])
        with pytest.raises(fluxres.UnknownJob):
            graph.instance("main")


def test_time_passes_without_calls_also_after_a_restart(tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with running(store) as server:
        with fluxres.connect(server.url) as graph:
            top = graph.create_instance("main")
            ids = [top.submit("slot=8/node", duration_s=0.4).id for _ in range(2)]
        server.process.kill()
        server.process.wait()
    with running(store) as server, fluxres.connect(server.url) as graph:
        ended = list[str]()
        for event in graph.events(after=0):  # nobody calls the instance
            ended += [part["job"] for part in event["context"].get("parts", ()) if part["name"] == "clean"]
            if len(ended) == 2:
                break
        assert ended == ids
        assert [graph.instance("main").job(one).result for one in ids] == ["timeout", "timeout"]
        told = [part["name"] for one in graph.log() if one["event"] == "instance" for part in one["parts"]]
        assert told.count("start") == told.count("clean") == 2


def test_a_graph_that_another_process_dropped_stops_no_other_one(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/site.db"
    for name in ("first", "second"):
        fluxres.save(fluxres.load({**DEMO, "name": name}), url)
    with running(url) as server:
        for name in ("first", "second"):
            with fluxres.connect(server.url, graph=name) as graph:
                graph.create_instance("main").submit("slot/node", duration_s=1.5)
        open_store(url).drop("first", force=True, command="graphs drop")
        until = time.monotonic() + 20
        while "advance" not in [one.get("what") for one in server.answers("GET", "/v1/graphs/second/log")[1]["log"]]:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert server.answers("GET", "/v1/graphs/first/instances")[0] == 404
        fluxres.save(fluxres.load({**DEMO, "name": "first"}), url)
        body = json.dumps({"name": "main"}).encode()
        assert server.answers("POST", "/v1/graphs/first/instances", body)[0] == 201
        open_store(url).drop("first", force=True, command="graphs drop")
        fluxres.save(fluxres.load({**DEMO, "name": "first"}), url)
        assert server.answers("POST", "/v1/graphs/first/instances", body)[0] in (201, 503)
        assert server.stop()[1].count("WARNING") <= 3


def test_a_graph_that_the_caretaker_closes_meanwhile_harms_no_answer(tmp_path: Path) -> None:
    """The end of a child drops its graph; the caretaker may see that and close the graph before the change catches up."""
    url = f"sqlite://{tmp_path}/site.db"
    fluxres.save(fluxres.load(DEMO), url)
    fluxres.save(fluxres.load({**DEMO, "name": "part"}), url)
    site = Site(url, 10, 10)

    def drop(store: Store) -> str:
        store.drop("part", command="child: end")
        for served in meanwhile:
            site.let_go(served)
        return "dropped"

    try:
        site.leadership.begin("http://127.0.0.1:1", is_open=True, may_stand_by=False)
        site.served("demo")
        meanwhile = [site.served("part")]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Site, "open_graphs", property(lambda _site: meanwhile))
            assert asyncio.run(site.in_store("demo", drop)) == "dropped"
        with pytest.raises(StoreConflict, match="graph 'part' was replaced just now"):
            meanwhile[0].catch_up()
        with pytest.raises(UnknownGraph):
            site.current("part")
        fluxres.save(fluxres.load({**DEMO, "name": "part"}), url)
        again = site.current("part")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Site, "open_graphs", property(lambda _site: meanwhile))
            site.catch_up()
        assert site.current("part") is again, "only what was dropped is closed"
    finally:
        site.close()


def test_a_graph_that_another_process_dropped_takes_no_memory(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/site.db"
    fluxres.save(fluxres.load(DEMO), url)
    site = Site(url, 10, 10)
    try:
        site.leadership.begin("http://127.0.0.1:1", is_open=True, may_stand_by=False)
        served = weakref.ref(site.served("demo"))
        graph = weakref.ref(site.current("demo").graph)
        open_store(url).drop("demo", command="graphs drop")
        until = time.monotonic() + 20
        while served() is not None or graph() is not None:
            assert time.monotonic() < until
            time.sleep(0.1)
            gc.collect()
        assert site.open_graphs == []
    finally:
        site.close()


@pytest.mark.parametrize("given", [{"name": "x" * 10_000}, {"user": "a\nb"}])
def test_names_in_instances_have_bounds(shared: Server, given: dict[str, str]) -> None:
    name = f"g{next(_names)}"
    shared.connection().make(Request("POST", f"/v1/graphs?name={name}", json.dumps(DEMO).encode()))
    with fluxres.connect(shared.url, graph=name) as graph:
        top = graph.create_instance("main")
        with pytest.raises(UsageError, match="printable"):
            top.submit("slot/node", **given)
        job = top.submit("slot/node")
        with pytest.raises(UsageError, match="printable"):
            top.exception(job, "x" * 10_000, severity=5)
        assert len(top.jobs()) == 1


POWER = {
    "fluxres": 1,
    "name": "demo",
    "resources": [{"type": "node", "count": 3, "with": [{"type": "core", "count": 4}]}],
    "graphs": {
        "power": {
            "pools": [{"type": "power", "basename": "pdu", "size": 1000, "unit": "W"}],
            "edges": [{"from": "power:/pdu", "to": "/demo/node[0-2]"}],
        }
    },
}


def test_what_a_killed_server_kept_of_reservations_accounting_and_supplies(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/site.db"
    fluxres.save(fluxres.load(POWER), url)
    with running(url) as server:
        with fluxres.connect(server.url) as graph:
            top = graph.create_instance("main", queue_policy="fairshare", accounting=SITE)
            jobs = [top.submit("slot=1/node", user=user, duration_s=600) for user in ("bob", "ann", "bob")]
            top.reserve("slot=3/node", start_s=time.time() + 3600, duration_s=60, name="window")
            part = top.spawn(jobs[0])
            inner = part.submit("slot=1/[core=1;power=300]", duration_s=60)
            waits = part.submit("slot=1/[core=1;power=800]", duration_s=60)
            deeper = part.spawn(inner)
            part.drain("/demo/node0/core1")
            part.set_expiration(time.time() + 300)
            before = described(top), described(part), graph.summary()["types"], part.summary(), deeper.summary()
            assert [job.state for job in (inner, waits)] == [State.RUN, State.SCHED]
        server.process.kill()
        server.process.wait()
    with running(url) as server, fluxres.connect(server.url) as graph:
        top, part, deeper = (graph.instance(one.address) for one in (top, part, deeper))
        assert (described(top), described(part), graph.summary()["types"], part.summary(), deeper.summary()) == before
        assert (top.check(), graph.check()) == ([], [])
        assert top.submit("slot=1/node", user="bob", duration_s=60).limit_reached == "user bob: max_jobs is 1"
        part.finish(inner)
        assert part.job(waits).state is State.RUN
        top.close()
        assert (graph.jobs(), graph.instances()) == ([], [])
        assert graph.available().paths()
    with open_store(url).reading("demo") as rows:
        assert [name for name in rows.db.notes() if name.startswith("instance:")] == []


def test_waits_are_pushed(shared: Server) -> None:
    name = f"g{next(_names)}"
    shared.connection().make(Request("POST", f"/v1/graphs?name={name}", json.dumps(DEMO).encode()))
    with fluxres.connect(shared.url, graph=name) as graph:
        top = graph.create_instance("main")
        job, limited = top.submit("slot=1/node"), top.submit("slot=1/node", duration_s=0.5)
        assert top.wait(job, timeout_s=0.3).state is State.RUN

        def end() -> None:
            with fluxres.connect(shared.url, graph=name) as mine:
                mine.instance("main").finish(job, 256)

        ending = threading.Timer(0.3, end)
        ending.start()
        assert top.wait(job.id, timeout_s=30).result == "failed"
        ending.join()
        assert top.wait(limited).result == "timeout"
        assert top.wait(limited).result == "timeout"
        with pytest.raises(fluxres.UnknownJob):
            top.wait("ƒ9", timeout_s=5)
        asked = top.submit("slot=1/node", duration_s=0.5)
    with awaited(shared.url, name) as other:
        same = Begun(other._run(other._inside.instance("main")), other._loop.run_until_complete)
        assert same.wait(asked.id, timeout_s=0.05).state in (State.RUN, State.INACTIVE)
        assert same.wait(asked.id).result == "timeout"


def test_another_process_changes_an_instance_that_a_server_keeps(tmp_path: Path) -> None:
    url = demo_store(tmp_path)
    with running(url) as server, fluxres.connect(server.url) as graph:
        top = graph.create_instance("main")
        job = top.submit("slot=8/node", duration_s=600)
        waits = top.submit("slot=1/node", duration_s=600)
        with attach(url) as mine:
            kept = Instances(open_store(url), mine, lambda: 0)
            with mine.batch():
                kept.operate(mine, "main", "finish", lambda one: one.finish(str(job.id)))
                kept.create(mine, "second", "fcfs", "first")
                kept.operate(mine, "second", "submit", lambda one: one.submit("slot=2/node"))
        assert [top.job(one.id).state for one in (job, waits)] == [State.INACTIVE, State.RUN]
        assert [one["address"] for one in graph.instances()] == ["main", "second"]
        with attach(url) as mine:
            kept = Instances(open_store(url), mine, lambda: 0)
            with mine.batch():
                kept.operate(mine, "second", "close", lambda one: one.close())
        assert [one["address"] for one in graph.instances()] == ["main"]
        assert graph.jobs() == [waits.id]
        time.sleep(0.5)
        assert "WARNING" not in server.stop()[1]


def test_a_refusal_forgets_nothing_that_was_made_together_with_it(tmp_path: Path) -> None:
    url = demo_store(tmp_path)
    with attach(url) as graph:
        instances = Instances(open_store(url), graph, lambda: 1)

        def within(operation: Callable[[fluxres.Instance], Any]) -> Callable[[], Any]:
            def make() -> Any:
                with graph.batch():
                    return instances.operate(graph, "main", "test", operation)

            return make

        def refused(one: fluxres.Instance) -> None:
            one.spawn(one.jobs()[0])
            raise UsageError("no child")

        with graph.batch():
            instances.create(graph, "main", "easy", "first")
        submit = within(lambda one: str(one.submit("slot/node").id))
        assert graph.attachment is not None
        first, second, error, third = graph.attachment.together([submit, submit, within(refused), submit])
        assert isinstance(error, UsageError)
        assert within(lambda one: [str(job.id) for job in one.jobs()])() == [first, second, third]
        assert len({first, second, third}) == 3


def test_what_an_instance_did_is_not_undone(shared: Server, tmp_path: Path) -> None:
    name = f"g{next(_names)}"
    shared.connection().make(Request("POST", f"/v1/graphs?name={name}", json.dumps(DEMO).encode()))
    with fluxres.connect(shared.url, graph=name) as graph:
        top = graph.create_instance("main")
        job = top.submit("slot/node", duration_s=1000)
        status, document = shared.answers("POST", f"/v1/graphs/{name}/undo", b"{}")
        assert (status, document["message"]) == (400, "the last change was one of an instance, which keeps it")
        status, document = shared.answers("POST", f"/v1/graphs?name={name}&replace=true", json.dumps(DEMO).encode())
        assert (status, document["message"]) == (400, "the store keeps instances on it")
        assert top.job(job).pools
        assert top.check() == []
        top.close()
        assert shared.answers("POST", f"/v1/graphs?name={name}&replace=true", json.dumps(DEMO).encode())[0] == 201


def test_a_standby_takes_the_instances_over(tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with running(store, "--lease", "1") as first, running(store, "--lease", "1") as second:
        graph = fluxres.connect(f"{first.url},{second.url}")
        with graph:
            top = graph.create_instance("main")
            jobs = [top.submit("slot=3/node", duration_s=3600) for _ in range(4)]
            before = described(top)
            first.process.kill()
            assert described(top) == before
            top.finish(jobs[0].id)
            assert top.job(jobs[2].id).state is State.RUN
            assert top.check() == []


def test_jobs_start_when_others_free_what_they_need(shared: Server, tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with running(store) as server, fluxres.connect(server.url) as graph:
        graph.allocate("slot=8/node", job="theirs")
        job = graph.create_instance("main").submit("slot=1/node")
        assert job.state is State.SCHED
        events = graph.events(after=int(graph.log()[-1]["number"]))
        graph.free("theirs")
        names = [next(events)["name"] for _ in range(3)]
        assert names[0] == "free"
        assert graph.instance("main").job(job.id).state is State.RUN
        assert str(job.id) in graph.jobs()


def test_a_job_that_others_free_is_canceled(begin: Begin) -> None:
    """So does `fluxres free`, which is what a user of the graph has for it."""
    top = begin(queue_policy="easy")
    whole = top.graph if isinstance(top, fluxres.Instance) else top._inside.graph if isinstance(top, Begun) else top.graph
    first, second = top.submit("slot=8/node", duration_s=600), top.submit("slot=8/node", duration_s=60)
    assert second.state is State.SCHED
    freed = whole.free(str(first.id))
    if freed is not None:  # of asyncio
        top._run(freed)
    if isinstance(top, fluxres.Instance):
        assert top.next_due() <= time.time()
        top.advance()  # a server looks by itself
    ended = _until(lambda: top.job(first.id), lambda job: job.state is State.INACTIVE)
    assert (ended.result, ended.pools) == ("canceled", [])
    assert [(one.type, one.severity) for one in ended.exceptions] == [("cancel", 0)]
    assert ended.exceptions[0].note == "others have freed what it held"
    assert top.job(second.id).state is State.RUN
    assert top.check() == []


def _until(ask: Callable[[], Any], is_so: Callable[[Any], bool]) -> Any:
    """What is asked, once it is so."""
    for _ in range(200):
        if is_so(found := ask()):
            return found
        time.sleep(0.05)
    raise AssertionError(f"it is still {found}")


def test_others_free_a_job_in_any_way_and_a_restarted_server_knows(tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    free = [sys.executable, "-m", "fluxres", "free", "--graph", "demo", "--store"]
    with running(store) as server, fluxres.connect(server.url) as graph:
        top = graph.create_instance("main", queue_policy="fcfs")
        jobs = [top.submit("slot=1/node", duration_s=600) for _ in range(6)]
        below = top.spawn(jobs[5].id)
        inner = below.submit("slot=1/core")
        waits = top.submit("slot=4/node", duration_s=60)
        assert waits.state is State.SCHED
        subprocess.run([*free, server.url, str(jobs[0].id)], check=True)  # by the server
        subprocess.run([*free, store.removeprefix("sqlite://"), str(jobs[1].id)], check=True)
        with attach(store) as other:
            other.set_end(str(jobs[2].id), time.time() + 1)  # from then on it holds nothing
            other.free(str(jobs[5].id))  # and with it what runs below it
        _until(lambda: top.job(waits.id), lambda job: job.state is State.RUN)
        graph.set_end(str(jobs[3].id), duration_s=3600)  # more than its limit is no less
        for job in (jobs[2], jobs[5]):
            _until(lambda job=job: top.job(job.id), lambda job: job.state is State.INACTIVE)
        assert below.job(inner.id).result == "canceled"
        assert [top.job(job.id).result for job in jobs] == [*["canceled"] * 3, None, None, "canceled"]
        server.process.kill()
        server.process.wait()
    with attach(store) as other:
        other.free(str(jobs[3].id))
        other.free(str(waits.id))
    with running(store) as server, fluxres.connect(server.url) as graph:
        top = graph.instance("main")
        assert [top.job(job.id).result for job in (jobs[3], waits, jobs[4])] == ["canceled", "canceled", None]
        assert graph.jobs() == [str(jobs[4].id)]
        assert top.submit("slot=7/node").state is State.RUN
        assert top.check() == []


def test_two_instances_share_a_graph(shared: Server, tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with running(store) as server:
        with fluxres.connect(server.url) as graph:
            one, two = (graph.create_instance(name) for name in ("one", "two"))
            assert one.submit("slot=6/node").state is State.RUN
            assert two.submit("slot=4/node").state is State.SCHED
            before = [described(one), described(two)]
        server.process.kill()
        server.process.wait()
    with running(store) as server, fluxres.connect(server.url) as graph:
        one, two = graph.instance("one"), graph.instance("two")
        assert [described(one), described(two)] == before
        ids = [each.submit("slot=1/core").id for each in (one, two) for _ in range(3)]
        assert len(set(ids)) == 6
        one.close()
        assert two.jobs()[0].state is State.RUN
        assert [each["address"] for each in graph.instances()] == ["two"]


def test_what_an_instance_does_is_in_the_journal(tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with running(store) as server, fluxres.connect(server.url) as graph:
        top = graph.create_instance("main")
        job = top.submit("slot=1/node")
        top.finish(job.id)
        found = [one for one in graph.log() if one["event"] == "instance"]
        assert [one["what"] for one in found] == ["create", "submit", "finish"]
        assert [part["name"] for one in found for part in one["parts"]] == [
            *("submit", "validate", "depend", "priority", "alloc", "start"),
            *("finish", "release", "free", "clean"),
        ]
        assert {part["job"] for one in found for part in one["parts"]} == {job.id}
        assert found[1]["command"] == "POST /v1/graphs/demo/instance/submit"
        assert [one["event"] for one in graph.log(job=job.id)] == ["allocate", "instance", "free", "instance"]


def test_an_instance_is_for_tokens_of_all_of_the_graph(tmp_path: Path) -> None:
    (tmp_path / "tokens.toml").write_text(FILE)
    with running(demo_store(tmp_path), "--tokens", str(tmp_path / "tokens.toml")) as server:
        with fluxres.connect(server.url, token=WORDS["flux"]) as graph:
            job = graph.create_instance("main").submit("slot=1/node")
            assert job.user == "flux"
        for token in ("rack0", "other"):
            for path in ("instances", "instance?instance=main", "instance/jobs?instance=main", "instance/check?instance=main"):
                with pytest.raises(fluxres.Forbidden):
                    server.connection(WORDS[token]).get(of_graph("demo", path))
            for operation in ("submit", "cancel", "close"):
                body = {"instance": "main", "wanted": "slot=1/node", "job": job.id}
                given = {"submit": ("instance", "wanted"), "cancel": ("instance", "job"), "close": ("instance",)}[operation]
                with pytest.raises(fluxres.Forbidden):
                    server.connection(WORDS[token]).post(
                        of_graph("demo", f"instance/{operation}"), {name: body[name] for name in given}
                    )
        with fluxres.connect(server.url, token=WORDS["eyes"]) as graph:
            assert graph.instance("main").running == 1
            with pytest.raises(fluxres.Forbidden):
                graph.instance("main").submit("slot=1/node")


@pytest.mark.parametrize("policy", ["hyperqueue", "canary", "policies.py:Mine", "nothing", "hybrid:width=3"])
def test_only_policies_without_a_memory_are_kept(shared: Server, policy: str) -> None:
    name = f"g{next(_names)}"
    shared.connection().make(Request("POST", f"/v1/graphs?name={name}", json.dumps(DEMO).encode()))
    with fluxres.connect(shared.url, graph=name) as graph:
        with pytest.raises(fluxres.UsageError):
            graph.create_instance("main", queue_policy=policy)
        for wrong in ("", "a/b", "a:b", "a b", "x" * 65):
            with pytest.raises(fluxres.UsageError):
                graph.create_instance(wrong)
        graph.create_instance("main", queue_policy="hybrid:depth=2")
        with pytest.raises(fluxres.UsageError):
            graph.create_instance("main")
        with pytest.raises(fluxres.UsageError):
            graph.instance("main").jobs("SLEEPING")
        with pytest.raises(fluxres.UnknownJob):
            graph.instance("other")


def test_pages_of_jobs(shared: Server) -> None:
    name = f"g{next(_names)}"
    connection = shared.connection()
    connection.make(Request("POST", f"/v1/graphs?name={name}", json.dumps(DEMO).encode()))
    with fluxres.connect(shared.url, graph=name) as graph:
        top = graph.create_instance("main")
        ids = [top.submit("slot=1/core").id for _ in range(5)]
    found, after = [], None
    while True:
        page = connection.get(of_graph(name, "instance/jobs"), instance="main", limit=2, after=after).document()
        assert page["count"] == 5
        found.append([one["id"] for one in page["jobs"]])
        after = page["next"]
        if after is None:
            break
    assert found == [ids[:2], ids[2:4], ids[4:]]
    connection.make(post(of_graph(name, "instance/close"), {"instance": "main"}))


def test_nothing_acknowledged_is_lost_when_servers_are_killed(tmp_path: Path) -> None:
    store, known, ended = demo_store(tmp_path), dict[str, str](), set[str]()
    random = Random(7)
    for cycle in range(4):
        with running(store) as server:
            killer = threading.Timer(0.3 + random.random() / 2, server.process.kill)
            with fluxres.connect(server.url, timeout_s=10) as graph:
                top = graph.create_instance("main") if cycle == 0 else graph.instance("main")
                killer.start()
                with suppress(fluxres.StoreError):
                    while True:
                        key = f"k{len(known)}"
                        job = top.submit(f"slot={1 + len(known) % 3}/node", name=key, idempotency_key=key)
                        known[key] = job.id
                        if random.random() < 0.5 and (runs := top.jobs("RUN")):
                            ended.add(top.finish(random.choice(runs).id).id)
            killer.join()
            server.process.wait()
    with running(store) as server, fluxres.connect(server.url) as graph:
        top = graph.instance("main")
        found = {job.id: job for job in top.jobs()}
        assert len(known) > 4
        assert set(known.values()) <= found.keys()
        assert all(found[one].result == "completed" for one in ended)
        assert (top.check(), graph.check()) == ([], [])
        assert len({job.name for job in found.values()}) == len(found)  # a key is submitted once
        held = set(graph.jobs())
        assert {one.id for one in found.values() if one.state is State.RUN} <= held


def test_a_graph_has_so_many_instances_and_no_more(tmp_path: Path) -> None:
    with running(demo_store(tmp_path)) as server, fluxres.connect(server.url) as graph:
        for number in range(limits.SERVICE_INSTANCES_MAX):
            graph.create_instance(f"i{number}")
        with pytest.raises(fluxres.LimitExceeded):
            graph.create_instance("one-more")


def test_an_instance_has_so_many_jobs_and_no_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "SERVICE_INSTANCE_JOBS_MAX", 3)
    url = demo_store(tmp_path)
    with attach(url) as graph:
        kept = Instances(open_store(url), graph, lambda: 1)
        with graph.batch():
            kept.create(graph, "main", "fcfs", "first")
        for _ in range(3):
            with graph.batch():
                kept.operate(graph, "main", "submit", lambda one: one.submit("slot=1/node"))
        with pytest.raises(fluxres.LimitExceeded), graph.batch():
            kept.operate(graph, "main", "submit", lambda one: one.submit("slot=1/node"))
        with graph.batch():
            assert len(kept.operate(graph, "main", "", lambda one: one.jobs())) == 3
        assert len(graph.jobs()) == 3


def test_an_instance_that_could_not_be_read_can_be_read_again() -> None:
    """The error of the first attempt, and so all that it had made, may live on for a while."""
    graph = fluxres.load(DEMO)
    top = fluxres.Instance(graph, name="main")
    kept = saved.instance(top)
    top.ids.release()
    errors = list[Exception]()
    try:
        saved.restored(graph, kept, {(): [cast("Any", None)]}, lambda _job, _event: None)
    except AttributeError as error:
        errors.append(error)
    assert len(errors) == 1
    assert saved.restored(graph, kept, {}, lambda _job, _event: None).ids.state == kept.ids


def test_another_limit_outlives_a_killed_server(tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with running(store) as server, fluxres.connect(server.url) as graph:
        top = graph.create_instance("main")
        runs, waits = top.submit("slot=8/node", duration_s=600), top.submit("slot=8/node", duration_s=600)
        assert top.set_duration(runs.id, 1200).ends_at == runs.started_at + 1200
        top.set_duration(waits.id, 60)
        graph.set_end(str(runs.id), runs.started_at + 3600)  # the instance is told
        event = {"event": "set_end", "job": str(runs.id), "start": 0, "end": 9 * 10**15}
        with pytest.raises(UsageError, match="belongs to instance 'main'"):
            graph.connection.make(post(of_graph("demo", "events"), {"events": [event]}, key="k"))
        server.process.kill()
        server.process.wait()
    with running(store) as server, fluxres.connect(server.url) as graph:
        top = graph.instance("main")
        assert top.job(runs.id).ends_at == runs.started_at + 3600
        assert (top.job(waits.id).duration_s, top.job(waits.id).reserved_at) == (60, runs.started_at + 3600)
        assert top.check() == []


@pytest.mark.parametrize(
    ("argument", "value"),
    [("name", 5), ("user", object()), ("dependencies", 3), ("dependencies", object()), ("qos", 3), ("urgency", "x")],
    ids=["name", "user", "number", "object", "qos", "urgency"],
)
def test_an_argument_of_another_type_is_named(begin: Begin, argument: str, value: object) -> None:
    top = begin()
    with pytest.raises(UsageError, match=rf"^{argument}: expected "):
        top.submit("slot=1/node", **{argument: value})
    assert top.submit("slot=1/node").state is State.RUN


@pytest.mark.parametrize("timeout", ["x", object(), -1, float("nan")], ids=["text", "object", "negative", "nan"])
def test_a_timeout_is_a_length_of_time(shared: Server, timeout: object) -> None:
    name = f"g{next(_names)}"
    shared.connection().make(Request("POST", f"/v1/graphs?name={name}", json.dumps(DEMO).encode()))
    with fluxres.connect(shared.url, graph=name) as graph:
        top = graph.create_instance("main")
        job = top.submit("slot=1/node")
        with pytest.raises(UsageError, match=r"^timeout_s: expected "):
            top.wait(job, timeout_s=timeout)
        with pytest.raises(UsageError, match=r"^payload: expected plain values .* got an object"):
            top.submit("slot=1/node", payload=object())
        assert top.wait(job, timeout_s="10ms").state is State.RUN
    with awaited(shared.url, name) as other:
        same = Begun(other._run(other._inside.instance("main")), other._loop.run_until_complete)
        with pytest.raises(UsageError, match=r"^timeout_s: expected "):
            same.wait(job.id, timeout_s=timeout)

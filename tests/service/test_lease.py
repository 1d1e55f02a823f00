"""The lease of a store: nothing is written without it, whatever a server was doing when it lost it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

import fluxres
from fluxres import clock, limits
from fluxres.errors import FluxresError, InDoubt, NotLeader, StoreError
from fluxres.launch import identity
from fluxres.model import ResourceGraph
from fluxres.service import leadership, problems
from fluxres.service.access import Caller, Role
from fluxres.service.kept import Keep, KeptAnswers
from fluxres.service.leadership import Leadership
from fluxres.service.served import Served
from fluxres.service.site import Site
from fluxres.store import Store, lease, open_store, upkeep
from fluxres.store.attached import Attached
from fluxres.store.lease import Fence, Lease
from tests.launch.runs import wait_until
from tests.service.conftest import DEMO
from tests.store.conftest import empty, etcd_server, postgresql_server, url  # noqa: F401

LIFE_S = limits.SERVICE_LEASE_SECONDS_MIN


@pytest.fixture
def demo(url: str) -> str:  # noqa: F811
    """The address of a store with the graph `demo`."""
    fluxres.save(fluxres.load(DEMO), url)
    return url


def note(store: str, found: Lease) -> None:
    with open_store(store).creating("test", None) as db:
        lease.write(db, found)


def attached(store: Store) -> ResourceGraph:
    return Attached(store, "demo", "full", "test", limits.LOCK_WAIT_SECONDS_DEFAULT, clock.system).graph


@contextmanager
def leading(store: str, name: str, **given: bool) -> Iterator[Leadership]:
    made = Leadership(store, LIFE_S, lambda _store: None)
    made.begin(f"http://{name}", is_open=True, may_stand_by=True, **given)
    yield made
    made.close()


def _change_attached(store: Store) -> None:
    with attached(store) as graph:
        graph.tag("/demo", "k")


def _change(store: Store) -> None:
    with store.writing("demo") as transaction:
        transaction.graph.tag("/demo", "k")


WRITES: dict[str, Callable[[Store], object]] = {
    "writing": _change,
    "put": lambda store: store.put("other", fluxres.load(DEMO)),
    "drop": lambda store: store.drop("demo"),
    "undo": lambda store: store.undo("demo"),
    "use": lambda store: store.use("demo"),
    "attached": _change_attached,
}


@pytest.mark.parametrize("write", WRITES)
def test_each_write_of_a_server_requires_its_lease(demo: str, write: str) -> None:
    lost: list[bool] = []
    fence = Fence(lambda: lost.append(True))
    fence.own = Lease(1, url="http://first")
    store = open_store(demo)
    with store.writing("demo") as transaction:
        transaction.graph.tag("/demo", "before")
    store.fence = fence
    note(demo, Lease(2, url="http://second"))
    before = open_store(demo).graphs()
    with pytest.raises(NotLeader) as refused:
        WRITES[write](store)
    assert refused.value.leader == "http://second"
    assert lost == [True]
    assert open_store(demo).graphs() == before
    with pytest.raises(NotLeader):  # and later, even if the note could not be read any more
        WRITES[write](store)
    fence.own = Lease(2, url="http://second")
    WRITES[write](store)
    assert open_store(demo).graphs() != before or write == "use"


def test_an_attached_graph_is_as_stored_after_it_lost_the_lease(demo: str) -> None:
    fence = Fence(lambda: None)
    fence.own = Lease(1)
    note(demo, Lease(1))
    store = open_store(demo)
    store.fence = fence
    with attached(store) as graph:
        graph.allocate("slot/core", job="j1")
        note(demo, Lease(2))
        with pytest.raises(NotLeader):
            graph.allocate("slot/core", job="j2")
        assert graph.jobs() == fluxres.load(demo).jobs() == ["j1"]


STOPPED = """
import os, signal, sys
from fluxres.errors import FluxresError
from fluxres.store import open_store
from tests.service.test_lease import attached, leading

with leading(sys.argv[1], "first") as leadership:
    store = open_store(sys.argv[1])
    store.fence = leadership.fence
    graph = attached(store)
    try:
        with graph.batch():
            graph.allocate("slot/node", job="first")
            os.kill(os.getpid(), signal.SIGSTOP)
        print("acknowledged")
    except FluxresError:
        print('refused', graph.jobs())
    os._exit(0)
"""


def test_a_server_that_is_stopped_within_a_change_loses_lease_and_lock_and_cannot_commit(demo: str) -> None:
    command = [sys.executable, "-c", STOPPED, demo]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        os.waitpid(first.pid, os.WUNTRACED)
        with leading(demo, "second") as second:
            wait_until(lambda: second.is_leading)
            store = open_store(demo)
            store.fence = second.fence
            with attached(store) as graph:
                graph.allocate("slot/core", job="second")
                first.send_signal(signal.SIGCONT)
                assert first.communicate(timeout=60)[0] == "refused ['second']\n"
                graph.allocate("slot/core", job="third")
    assert fluxres.load(demo).jobs() == ["second", "third"]


def test_the_epoch_increases_with_each_take_over_and_a_lease_given_back_has_no_holder(demo: str) -> None:
    for epoch in (1, 2, 3):
        with leading(demo, f"server-{epoch}") as found:
            assert found.is_leading
            assert found.epoch == epoch
            assert noted(demo).holder is not None
        assert noted(demo) == Lease(epoch)
        with pytest.raises(NotLeader):
            found.require()


def test_a_lease_of_a_process_that_has_ended_is_taken_at_once_and_another_one_when_it_was_not_renewed(demo: str) -> None:
    with leading(demo, "first"):
        known = noted(demo)
    assert known.holder is not None
    dead = msgspec.structs.replace(known.holder, processes=((os.getpid(), 1),))
    note(demo, msgspec.structs.replace(known, holder=dead, life_s=1e6))
    with leading(demo, "second") as second:
        assert second.is_leading
    elsewhere = msgspec.structs.replace(known.holder, host="other.site")
    note(demo, msgspec.structs.replace(known, holder=elsewhere, life_s=LIFE_S, epoch=7))
    with leading(demo, "third") as third:
        assert not third.is_leading
        assert third.leader == "http://first"
        wait_until(lambda: third.is_leading)
        assert third.epoch == 8
    note(demo, msgspec.structs.replace(known, holder=elsewhere, life_s=1e6, epoch=9))
    with leading(demo, "fourth") as fourth:
        assert not fourth.is_leading


def test_a_server_that_starts_while_another_process_writes_waits_for_it(demo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "_LOCK_WAIT_S", 0.2)
    tries: list[bool] = []
    original = Leadership._take

    def take(self: Leadership, *given: Any) -> None:
        tries.append(True)
        if len(tries) == 3:
            lock.close()
        original(self, *given)

    monkeypatch.setattr(Leadership, "_take", take)
    lock = open_store(demo).writer_lock()
    lock.acquire("load", 5.0)
    with leading(demo, "first") as first:
        assert first.is_leading
    assert len(tries) == 3


def test_a_note_that_is_damaged_or_gone_lets_nobody_write(demo: str) -> None:
    with leading(demo, "first") as first:
        store = open_store(demo)
        store.fence = first.fence
        with open_store(demo).creating("test", None) as db:
            db.put_note(lease.LEASE, "{")
        with pytest.raises(StoreError, match="the note of who leads the store is damaged"):
            store.use("demo")
        with open_store(demo).creating("test", None) as db:
            db.remove_note(lease.LEASE)
        with pytest.raises(NotLeader):
            store.use("demo")
        wait_until(lambda: first.is_leading)  # it takes the lease again
        store.use("demo")


def test_a_dump_has_neither_the_lease_nor_answers(demo: str, tmp_path: object) -> None:
    note(demo, Lease(3))
    with open_store(demo).creating("test", None) as db:
        db.put_note(*Keep(KeptAnswers(), "ada", "k", "print")(b"{}", '"1"'))
    upkeep.dump_to(open_store(demo), file := tmp_path / "dump")
    assert b'"lease"' not in file.read_bytes()
    assert b"answer:" not in file.read_bytes()


def test_answers_are_kept_in_a_ring_and_known_to_the_next_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVICE_KEYS_KEPT", 3)
    kept, notes = KeptAnswers(), dict[str, str]()
    for number in range(5):
        body = b'{"number": %d, "text": "%s"}' % (number, b"x" * 5000 * number)
        notes.update([Keep(kept, "ada", f"k{number}", "print")(body, f'"{number}"')])
    following = KeptAnswers()
    following.learn({**notes, "answer:damaged": "{"})
    found = [following.find("ada", f"k{number}") for number in range(5)]
    assert [one is None for one in found] == [True, True, False, False, False]
    assert found[4] is not None
    assert found[4].answer() == (b'{"number": 4, "text": "%s"}' % (b"x" * 20_000), '"4"')
    assert following.find("bob", "k4") is None
    name, _ = Keep(following, "ada", "k5", "print")(b"{}", '"5"')
    assert name in notes
    assert name == f"{lease.ANSWER}{5 % 3}"


def test_a_server_knows_itself(demo: str) -> None:
    with leading(demo, "first"):
        holder = noted(demo).holder
    assert holder is not None
    assert holder.host == identity.host()
    assert holder.processes == (identity.of(os.getpid()),)


def noted(store: str) -> Lease:
    with open_store(store).reading(None) as rows:
        found = lease.read(rows.db)
    assert found is not None
    return found


def test_a_change_that_fails_while_another_server_leads_is_one_for_that_server(
    demo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server that takes over ends the connections of one that stood still, which gets errors of the store then."""
    site, caller = Site(demo, 10.0, 60.0), Caller("ada", Role.ADMIN)
    site.leadership.begin("http://first", is_open=True, may_stand_by=True)

    refused = list[StoreError]()

    def fail(_change: Any) -> Any:
        raise InDoubt("the server ended the connection")

    async def change(keep: Any) -> str:
        try:
            await site.change("demo", caller, "test", None, lambda graph: graph.tag("/demo", "k"), keep)
        except StoreError as error:
            refused.append(error)
            return type(error).__name__
        return "made"

    async def main() -> list[str]:
        keep = Keep(site.kept, "ada", "k", "")
        found = [await change(None)]
        monkeypatch.setattr(site.served("demo").writer, "submit", fail)
        found.append(await change(keep))
        own = site.leadership.fence.own
        assert own is not None
        note(demo, Lease(own.epoch + 1, own.holder, "http://second", own.store, LIFE_S, own.until))
        return [*found, await change(keep), await change(None)]

    try:
        assert asyncio.run(main()) == ["made", "InDoubt", "NotLeader", "InDoubt"]
        assert site.leadership.leader == "http://second"
        assert "may have been made" in refused[-1].message
        assert "http://second" in refused[-1].hint
        # Nothing says that it can be repeated.
        assert (problems.status_of(refused[-1]), problems.headers(refused[-1])) == (503, {})
    finally:
        site.close()


def test_a_server_whose_lease_is_over_learns_who_leads_also_after_a_moment(demo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connections end before the note of the next leader is there, and reading the note fails at first."""
    site, caller, looked = Site(demo, 10.0, 60.0), Caller("ada", Role.ADMIN), list[str]()
    site.leadership.begin("http://first", is_open=True, may_stand_by=True)
    look = site.leadership.supersession

    def supersession() -> FluxresError | None:
        looked.append("")
        if len(looked) == 1:
            raise StoreError("the connection is closed")
        if len(looked) == 3:
            note(demo, Lease(own.epoch + 1, own.holder, "http://second", own.store, LIFE_S, own.until))
        return look()

    def fail(_change: Any) -> Any:
        raise StoreError("the server ended the connection")

    async def main() -> None:
        await site.change("demo", caller, "test", None, lambda graph: graph.tag("/demo", "k"), None)
        monkeypatch.setattr(site.served("demo").writer, "submit", fail)
        monkeypatch.setattr(site.leadership, "supersession", supersession)
        monkeypatch.setattr(Leadership, "is_overdue", True)
        with pytest.raises(NotLeader):
            await site.change(
                "demo", caller, "test", None, lambda graph: graph.tag("/demo", "k"), Keep(site.kept, "ada", "k", "")
            )

    try:
        own = site.leadership.fence.own
        assert own is not None
        assert not site.leadership.is_overdue
        asyncio.run(main())
        assert len(looked) == 3
    finally:
        site.close()


def test_reading_a_large_graph_is_no_part_of_the_time_of_a_question(demo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site, opened = Site(demo, 0.2, LIFE_S), Served.__init__

    def slow(*given: Any) -> None:
        until_s = clock.stopwatch() + 0.5
        while clock.stopwatch() < until_s:  # as a computation, which the limit could end
            pass
        opened(*given)

    monkeypatch.setattr(Served, "__init__", slow)
    site.leadership.begin("http://first", is_open=True, may_stand_by=True)
    try:
        assert asyncio.run(site.ask("demo", len))[0] == 75
    finally:
        site.close()

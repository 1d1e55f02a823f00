"""Stores in etcd: what is peculiar to them, against real servers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from random import Random

import pytest

import fluxres
from fluxres import limits
from fluxres.allocation.facts import Launch
from fluxres.clock import fixed
from fluxres.errors import FluxresError, InDoubt, StoreBusy, StoreConflict, StoreError, UnknownGraph
from fluxres.store import Store, Ticket, open_store, upkeep, writing
from fluxres.store.contents import Blob, GraphRow
from fluxres.store.etcd import state as states
from fluxres.store.etcd import wire
from fluxres.store.etcd.address import Address, parsed
from fluxres.store.etcd.client import Client
from fluxres.store.etcd.connection import EtcdConnection
from fluxres.store.etcd.database import EtcdDatabase
from fluxres.store.etcd.keys import end
from tests.ports import free_port
from tests.store.graphs import fingerprint, machine
from tests.store.link import Link
from tests.store.servers import Etcd, etcd
from tests.store.test_attached import until
from tests.traceability import ROOT

ROW = GraphRow(0, "g", "u", 0.0, 0, 1, 1, 1, 0)


@pytest.fixture
def url(etcd_server: Etcd, request: pytest.FixtureRequest) -> str:
    return etcd_server.url(f"{request.node.name}/of etcd")


@pytest.fixture
def store(url: str) -> Store:
    made = open_store(url, clock=fixed(0))
    made.put("demo", machine())
    return made


def database(store: Store) -> EtcdDatabase:
    assert isinstance(store.database, EtcdDatabase)
    return store.database


def keys(server: Etcd, store: Store, folder: str) -> list[str]:
    prefix = database(store).address.prefix + folder
    return [key for key in server.control("get", prefix, "--prefix", "--keys-only").splitlines() if key]


# -- addresses -----------------------------------------------------------------------------------------------------------


def test_an_address_names_servers_prefix_and_user(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed("etcd://a") == Address((("a", 2379),), "/fluxres/")
    assert parsed("etcd://a:1,[::1]:2/x/y/") == Address((("a", 1), ("::1", 2)), "/x/y/")
    found = parsed("etcds://ada:s%40cret@a/x%20y?cacert=/ca.pem&cert=/c.pem&key=/k.pem")
    assert found == Address((("a", 2379),), "/x y/", "ada", "s@cret", True, "/ca.pem", "/c.pem", "/k.pem")
    assert str(found) == "etcds://ada@a:2379/x y"
    monkeypatch.setenv("ETCDCTL_USER", "bob:pw")
    assert (parsed("etcd://a").user, parsed("etcd://a").password) == ("bob", "pw")
    assert parsed("etcd://ada@a").password == ""
    store = open_store("etcd://a/x?graph=demo")
    assert (store.address.graph, store.url) == ("demo", "etcd://bob@a:2379/x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("etcd://", "'' is not a server"),
        ("etcd://ada:secret@a,/x", "'' is not a server"),
        ("etcd://ada:secret@a:http/x", "'a:http' is not a server"),
        ("etcd://ada:secret@a/x?name=y", "'name' is not an option"),
        ("etcd://ada:secret@a/x?cacert=y", "not TLS"),
        ("etcds://ada:secret@a/x?cacert=/none.pem", "files for TLS cannot be used: No such file"),
    ],
)
def test_invalid_addresses_are_explained(text: str, said: str) -> None:
    with pytest.raises(StoreError, match=said) as caught:
        open_store(text)
    assert "secret" not in f"{caught.value}{caught.value.where}"


# -- what does not fit into one request --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, limits.ETCD_VALUE_BYTES_MAX, limits.ETCD_VALUE_BYTES_MAX + 1, 9_500_000])
def test_a_blob_of_any_size_is_kept(etcd_server: Etcd, url: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store, content, sent = open_store(url), os.urandom(size), list[int]()
    exchange = Client._exchange

    def count(self: Client, connection: HTTPConnection, path: str, body: bytes, time_s: float, token: str) -> tuple[int, bytes]:
        sent.append(len(body))
        return exchange(self, connection, path, body, time_s, token)

    monkeypatch.setattr(Client, "_exchange", count)
    with store.locked("test", 0), store.database.writing() as db:
        number = db.add_graph(ROW)
        db.put_blob("shapes", number, Blob(1, content))
        assert db.blob("shapes", number) == Blob(1, content)
    with store.reading(None) as rows:
        assert rows.db.blob("shapes", number) == Blob(1, content)
        assert rows.db.blob_tail("shapes", number) == content[-16:]
        assert rows.db.blob_size("shapes", number) == size == store.database.size()
    assert len(keys(etcd_server, store, "blobs/")) == max(1, -(-size // limits.ETCD_VALUE_BYTES_MAX))
    assert keys(etcd_server, store, "pending/") == []
    assert max(sent) * 3 // 4 <= limits.ETCD_REQUEST_BYTES_MAX  # they are base64
    with store.locked("test", 0), store.database.writing() as db:
        db.put_blob("shapes", number, Blob(2, b"other"))
    assert len(keys(etcd_server, store, "blobs/")) == 1
    with store.locked("test", 0), store.database.writing() as db:
        db.remove_graph(number)
    assert keys(etcd_server, store, "") == [database(store).address.prefix + "state/head"]


def test_an_event_above_the_size_of_a_value_is_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.writing() as transaction:
        transaction.graph.tag("/demo", "k", "é" * limits.VALUE_LENGTH_MAX)
    monkeypatch.setattr(limits, "ETCD_VALUE_BYTES_MAX", 100)
    with store.writing(command="several keys") as transaction:
        for path in ("/demo/rack0", "/demo/rack1"):
            transaction.graph.tag(path, "k", "ü" * 300)
    assert [entry.seq for entry in store.log()] == [1, 2, 3, 4]
    assert [entry.event["value"] for entry in store.log(limit=2)] == ["ü" * 300] * 2
    assert store.load().pool("/demo/rack1").tags == {"k": "ü" * 300}
    assert upkeep.check(store)[1] == []


@pytest.mark.parametrize("count", [limits.ETCD_OPERATIONS_MAX - 3, limits.ETCD_OPERATIONS_MAX, 450])
def test_rule_d1_a_batch_of_any_length_is_one_change(etcd_server: Etcd, url: str, store: Store, count: int) -> None:
    seen: list[int] = []
    with fluxres.open(url, clock=fixed(0)) as graph:
        with graph.batch():
            for number in range(count):
                graph.tag("/demo", f"k{number}")
            assert len(store.log()) == 1
        seen.append(len(store.log()))
        graph.tag("/demo", "last")
    assert seen == [1 + count]
    assert len(store.load().pool("/demo").tags) == count + 1
    assert keys(etcd_server, store, "pending/") == []
    assert upkeep.check(store)[1] == []


def test_many_graphs_are_restored_in_one_transaction(url: str, tmp_path: Path) -> None:
    origin = open_store(f"sqlite://{tmp_path}/x.db", clock=fixed(0))
    for number in range(limits.ETCD_OPERATIONS_MAX + 20):
        origin.put(f"g{number}", machine(1, 1))
    upkeep.dump_to(origin, tmp_path / "dump")
    store = open_store(url, clock=fixed(0))
    upkeep.restore(store, tmp_path / "dump")
    assert store.names() == origin.names()
    upkeep.restore(store, tmp_path / "dump", replace=True)
    assert store.names() == origin.names()
    assert upkeep.check(store)[1] == []


def test_a_large_restore_does_not_collect_everything(
    etcd_server: Etcd, url: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fluxres.store.etcd.transaction._AHEAD_FROM_BYTES", 1000)
    with store.locked("test", 0), store.database.writing() as db:
        for _ in range(3):
            db.put_blob("shapes", 1, Blob(1, os.urandom(3000)))
        assert isinstance(db, EtcdConnection)
        assert db._writing._bytes < 1000
        assert store.names() == ["demo"]
        assert fingerprint(store.load()) == fingerprint(machine())
        db.put_blob("shapes", 1, Blob(1, b"the last one"))
    with store.reading(None) as rows:
        assert rows.db.blob("shapes", 1) == Blob(1, b"the last one")
    assert len(keys(etcd_server, store, "blobs/")) == 2


# -- writers that die, pause, or are interrupted -------------------------------------------------------------------------


def leave_behind(store: Store) -> None:
    """Write a transaction ahead, and end without a commit or a farewell."""
    with store.locked("dies", 0):
        db = store.database.begin()
        assert isinstance(db, EtcdConnection)
        rows = store.rows(db)
        row, graph = rows.graph("demo"), rows.read(rows.graph("demo"))
        events = [{"event": "tag", "pools": ["/demo"], "key": f"lost{number}", "value": None} for number in range(150)]
        writing.append(rows, row, graph, events, 0.0, "lost", shape=b"s" * 3_000_000)
        db._writing._write_ahead()


def test_leftovers_are_seen_by_nobody_and_swept_by_the_next_writer(etcd_server: Etcd, store: Store) -> None:
    before, state = keys(etcd_server, store, ""), fingerprint(store.load())
    leave_behind(store)
    assert len(keys(etcd_server, store, "")) > len(before) + 150
    assert (fingerprint(store.load()), len(store.log()), upkeep.check(store)[1]) == (state, 1, [])
    store.use("demo")
    assert keys(etcd_server, store, "") == before


def test_leftovers_are_swept_by_an_attached_graph_too(etcd_server: Etcd, url: str, store: Store) -> None:
    with fluxres.open(url, clock=fixed(0)) as graph:
        graph.tag("/demo", "a")
        threading.Event().wait(0.2)  # the lock is given back
        before = keys(etcd_server, store, "")
        leave_behind(store)
        for key in ("b", "c"):
            graph.tag("/demo", key)
    assert len(keys(etcd_server, store, "")) == len(before) + 2
    assert [entry.event["key"] for entry in store.log(after=1)] == ["a", "b", "c"]
    assert upkeep.check(store)[1] == []


HOLD = """
import os, sys
import fluxres
from fluxres import limits
from fluxres.clock import fixed
limits.ETCD_LEASE_SECONDS = 2
with fluxres.open(sys.argv[1], command="holder", clock=fixed(0)) as graph:
    try:
        with graph.batch():
            graph.allocate("slot/core", job="held")
            print("holds", flush=True)
            sys.stdin.readline()
        print("done", flush=True)
    except fluxres.StoreError as error:
        print(error, flush=True)
    print(*graph.jobs(), flush=True)
    graph.allocate("slot/core", job="again")
    print(*graph.jobs(), flush=True)
"""


@contextmanager
def holder(url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is within a change."""
    command = [sys.executable, "-c", HOLD, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_killed_writer_loses_the_lock_with_its_lease(url: str, store: Store) -> None:
    with holder(url) as process:
        with pytest.raises(StoreBusy, match="holder"):
            store.drop("demo", wait_s=0)
        process.kill()
        with store.writing(wait_s=20) as transaction:
            assert transaction.graph.jobs() == []
            transaction.graph.allocate("slot/core", job="next")
    assert store.load().jobs() == ["next"]


def test_a_paused_writer_is_refused_when_it_comes_back(url: str, store: Store) -> None:
    with holder(url) as process:
        process.send_signal(signal.SIGSTOP)
        with store.writing(wait_s=20) as transaction:
            transaction.graph.allocate("slot/core", job="next")
        process.send_signal(signal.SIGCONT)
        said, _ = process.communicate("go\n", timeout=60)
    assert "the lock of this store was lost: this process was paused" in said
    assert said.splitlines()[-2:] == ["next", "next again"]
    assert store.load().jobs() == ["next", "again"]


def test_the_lock_of_a_paused_writer_can_be_broken(url: str, store: Store) -> None:
    with holder(url) as process:
        process.send_signal(signal.SIGSTOP)
        assert not store.database.break_lock(process.pid + 1, os.uname().nodename)
        assert store.database.break_lock(process.pid, os.uname().nodename)
        store.use("demo", wait_s=0)
        process.send_signal(signal.SIGCONT)
        said, _ = process.communicate("go\n", timeout=60)
    assert "the lock of this store was lost" in said
    assert store.load().jobs() == ["again"]


def test_a_writer_without_the_lock_changes_nothing(store: Store) -> None:
    with pytest.raises(StoreError, match="lock of this store was lost"), store.database.writing() as db:
        db.put_note("k", "x")
    with store.locked("one", 0):
        db = store.database.begin()
        db.put_note("k", "x")
        client = Client(database(store).address)
        client.call("/v3/kv/put", {"key": database(store)._keys.head, "value": b'{"fluxres":"store","version":1}'}, dict)
        with pytest.raises(StoreConflict, match="without its lock"):
            db.commit()
    assert store.names() == ["demo"]


@pytest.mark.parametrize("batch", [1, 150])
def test_a_commit_whose_answer_was_lost_is_made_once(url: str, store: Store, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, lost = Client._exchange, list[bytes]()

    def lose(self: Client, connection: HTTPConnection, path: str, body: bytes, time_s: float, token: str) -> tuple[int, bytes]:
        answer = exchange(self, connection, path, body, time_s, token)
        if path == "/v3/kv/txn" and b'"MOD"' in body and body not in lost:
            lost.append(body)
            raise ConnectionResetError("the answer was lost")
        return answer

    with fluxres.open(url, clock=fixed(0)) as graph:
        graph.tag("/demo", "first")
        monkeypatch.setattr(Client, "_exchange", lose)
        for turn in range(2):
            with graph.batch():
                for number in range(batch):
                    graph.tag("/demo", f"k{turn}-{number}")
    assert len(lost) >= 2
    assert len(store.log()) == 2 + 2 * batch
    assert upkeep.check(store)[1] == []


def test_a_commit_that_was_sent_again_after_others_had_committed_is_in_doubt(
    url: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, lost = Client._exchange, list[bytes]()

    def lose(self: Client, connection: HTTPConnection, path: str, body: bytes, time_s: float, token: str) -> tuple[int, bytes]:
        answer = exchange(self, connection, path, body, time_s, token)
        if path == "/v3/kv/txn" and b'"MOD"' in body and not lost:
            lost.append(body)
            assert store.database.break_lock(os.getpid(), os.uname().nodename)
            with store.writing(wait_s=20) as transaction:
                transaction.graph.tag("/demo", "other")
            raise ConnectionResetError("the answer was lost")
        return answer

    with fluxres.open(url, clock=fixed(0)) as graph:
        graph.tag("/demo", "first")
        monkeypatch.setattr(Client, "_exchange", lose)
        with pytest.raises(InDoubt, match="the answer of the server was lost, and then the lock"):
            graph.tag("/demo", "second")
        graph.tag("/demo", "third")
        assert graph.root.tags == store.load().root.tags == dict.fromkeys(["first", "second", "other", "third"])


@pytest.fixture
def link(etcd_server: Etcd, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    monkeypatch.setattr(limits, "ETCD_LEASE_SECONDS", 2)
    monkeypatch.setattr(limits, "ETCD_REQUEST_SECONDS", 1.0)
    made = Link(etcd_server.port)
    yield made
    made.close()


def test_a_writer_that_was_cut_off_is_refused_when_it_comes_back(url: str, store: Store, link: Link, etcd_server: Etcd) -> None:
    there = url.replace(str(etcd_server.port), str(link.port))

    def change(graph: fluxres.ResourceGraph) -> None:
        with graph.batch():
            graph.allocate("slot/core", job="held")
            link.cut()
            with store.writing(wait_s=20) as transaction:
                transaction.graph.allocate("slot/core", job="next")
            link.heal()

    with fluxres.open(there, clock=fixed(0)) as graph:
        with pytest.raises(StoreError, match="the lock of this store was lost"):
            change(graph)
        assert graph.jobs() == ["next"]
        graph.allocate("slot/core", job="again")
    assert store.load().jobs() == ["next", "again"]


def test_a_lock_that_could_not_be_given_back_ends_with_its_lease(url: str, store: Store, link: Link, etcd_server: Etcd) -> None:
    there = url.replace(str(etcd_server.port), str(link.port))
    with fluxres.open(there, clock=fixed(0), wait_s=20) as graph:
        with graph.batch():
            graph.allocate("slot/core", job="first")
        link.cut()
        until(lambda: link.refused > 0)  # the lock could not be given back
        link.heal()
        store.use("demo", wait_s=8)
        graph.allocate("slot/core", job="second")
    assert store.load().jobs() == ["first", "second"]


def test_a_place_in_the_queue_that_was_not_confirmed_ends_with_its_lease(
    url: str, store: Store, link: Link, etcd_server: Etcd
) -> None:
    there = url.replace(str(etcd_server.port), str(link.port))
    with fluxres.open(there, clock=fixed(0), wait_s=20) as graph:
        graph.allocate("slot/core", job="first")
        until(lambda: keys(etcd_server, store, "lock/") == [])
        link.is_deaf = True
        with pytest.raises(StoreError, match="timed out"):
            graph.allocate("slot/core", job="none")
        link.heal()
        store.use("demo", wait_s=8)
        graph.allocate("slot/core", job="second")
    assert store.load().jobs() == ["first", "second"]


def test_a_change_that_may_be_made_or_not_is_found_out(url: str, store: Store, link: Link, etcd_server: Etcd) -> None:
    there = url.replace(str(etcd_server.port), str(link.port))

    def change(graph: fluxres.ResourceGraph) -> None:
        with graph.batch():
            graph.allocate("slot/core", job="unsure")
            link.is_deaf = True

    with fluxres.open(there, clock=fixed(0)) as graph:
        graph.allocate("slot/core", job="first")
        with pytest.raises(InDoubt, match=r"timed out; the change may or may not have been made"):
            change(graph)
        assert store.load().jobs() == ["first", "unsure"]
        link.cut()
        with pytest.raises(StoreError, match="cannot be reached, or does not answer"):
            graph.allocate("slot/core", job="none")
        link.heal()
        graph.allocate("slot/core", job="last")
        assert graph.jobs() == store.load().jobs() == ["first", "unsure", "last"]
    assert upkeep.check(store)[1] == []


COUNT = """
import sys
import fluxres
with fluxres.open(sys.argv[1], command=sys.argv[2]) as graph:
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(40):
        with graph.batch():
            for number in range(3):
                graph.tag("/demo", f"{sys.argv[2]}-{turn}-{number}")
"""


def test_rule_d1_two_processes_lose_nothing_and_double_nothing(url: str, store: Store) -> None:
    names = ("a", "b")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    running = [subprocess.Popen([sys.executable, "-c", COUNT, url, name], **pipes) for name in names]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        process.communicate(timeout=120)
        assert process.returncode == 0
    expected = {f"{name}-{turn}-{number}" for name in names for turn in range(40) for number in range(3)}
    told = [entry.event["key"] for entry in store.log(after=1)]
    assert len(told) == len(expected)
    assert set(told) == expected == set(store.load().pool("/demo").tags)
    # The writers took turns: neither made all of its changes before the other.
    assert len({key[0] for key in told[:120]}) == 2
    assert upkeep.check(store)[1] == []


# -- servers -------------------------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_an_error(etcd_server: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match=r"cannot be reached.*refused"):
        open_store(f"etcd://127.0.0.1:{free_port()}/x").names()
    with pytest.raises(StoreError, match=r"cannot be reached.*unknown host"):
        open_store("etcd://no-such-host.invalid/x").names()
    monkeypatch.setattr(limits, "ETCD_REQUEST_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(StoreError, match=r"cannot be reached.*timed out"):
        open_store(f"etcd://127.0.0.1:{silent.getsockname()[1]}/x").names()
    monkeypatch.setattr(limits, "ETCD_CONNECT_SECONDS", 0.3)
    with pytest.raises(StoreError, match="cannot be reached"):
        open_store("etcd://192.0.2.1:2379/x").names()


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"SSH-2.0-OpenSSH_9.2\r\n", b"", b"\0" * 300]
)
def test_a_server_that_is_not_etcd_is_named(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(1 << 16)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(StoreError, match=r"not etcd|cannot be reached, or does not answer"):
                open_store(f"etcd://127.0.0.1:{server.getsockname()[1]}/x").names()
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_one_of_several_servers_may_be_down(etcd_server: Etcd) -> None:
    servers = f"127.0.0.1:{free_port()},127.0.0.1:{etcd_server.port},127.0.0.1:{free_port()}"
    url = f"etcd://{servers}/one-of-several"
    store = open_store(url, clock=fixed(0))
    store.put("demo", machine())
    with fluxres.open(url) as graph:
        graph.tag("/demo", "k")
        upkeep.compact(store)
        graph.tag("/demo", "l")
    assert len(open_store(etcd_server.url("one-of-several")).log()) == 3


def test_a_server_that_hangs_is_an_error_and_comes_back(
    etcd_server: Etcd, url: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fluxres.open(url, clock=fixed(0)) as graph:
        graph.allocate("slot/core", job="j1")
        monkeypatch.setattr(limits, "ETCD_REQUEST_SECONDS", 0.5)
        with etcd_server.paused():
            for _ in range(2):
                with pytest.raises(StoreError, match=r"cannot be reached.*timed out"):
                    graph.allocate("slot/core", job="j2")
        monkeypatch.undo()
        graph.allocate("slot/core", job="j3")
        # The change that timed out may have been made after all: memory and store agree on it.
        assert set(graph.jobs()) >= {"j1", "j3"}
        assert fingerprint(graph) == fingerprint(store.open()[0])
        assert upkeep.check(store)[1] == []


def test_history_that_is_read_while_etcd_is_compacted(url: str, store: Store) -> None:
    with store.reading(None) as rows:
        with store.writing("demo") as transaction:
            transaction.graph.tag("/demo", "k")
        upkeep.compact(store)
        row = rows.graph("demo")
        with pytest.raises(StoreError, match="etcd was compacted meanwhile"):
            rows.read(row)
    assert len(store.log()) == 2


def test_a_server_that_cannot_be_defragmented_in_time_is_an_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert upkeep.compact(store)[1].events == 1
    monkeypatch.setattr(limits, "ETCD_DEFRAGMENT_SECONDS", 1e-6)
    with pytest.raises(StoreError, match=r"cannot be reached.*timed out"):
        upkeep.compact(store)


def test_a_prefix_of_another_program_or_version_is_left_alone(etcd_server: Etcd, url: str) -> None:
    etcd_server.control("put", f"{parsed(url).prefix}state/head", "hello")
    store = open_store(url)
    for call in (store.names, lambda: store.put("demo", machine()), lambda: fluxres.open(url)):
        with pytest.raises(StoreError, match="another program uses this prefix"):
            call()
    etcd_server.control("put", f"{parsed(url).prefix}state/head", '{"fluxres": "store", "version": 9}')
    with pytest.raises(StoreError, match="has version 9, but this fluxres supports only version 1"):
        store.names()


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("events/00000001/0000000000000003", "event 3 is missing"),
        ("blobs/", "no row in"),
        ("state/graphs/00000001", "is of no graph"),
        ("garbage", "garbage is no key"),
    ],
)
def test_damage_is_found(etcd_server: Etcd, store: Store, what: str, said: str) -> None:
    for key in ("a", "b", "c"):
        with store.writing() as transaction:
            transaction.graph.tag("/demo", key)
    prefix = database(store).address.prefix
    if what == "garbage":
        etcd_server.control("put", prefix + what, "x")
    else:
        etcd_server.control("del", prefix + what, "--prefix")
    found = [problem.message for problem in upkeep.check(store)[1]]
    assert any(said in message for message in found), found


@pytest.mark.parametrize("seed", range(3))
def test_rule_e1_damage_of_any_key_never_ends_in_a_traceback(etcd_server: Etcd, url: str, seed: int, tmp_path: Path) -> None:
    random, found = Random(seed), 0
    for turn in range(8):
        store = open_store(f"{url}/{turn}", clock=fixed(0))
        store.put("demo", machine())
        with store.writing() as transaction:
            transaction.graph.tag("/demo", "k")
            launch = Launch("host", "boot", ((1, 2),), "mark", ("true",), None)
            transaction.tickets.add(Ticket("j", "ada", 0, 0.0, launch))
        client, prefix = Client(database(store).address), database(store)._keys.prefix
        stored = client.call("/v3/kv/range", {"key": prefix, "range_end": end(prefix)}, wire.Found).kvs
        stored.append(wire.KeyValue(prefix + b"pending/x"))
        for kv in random.sample(stored, random.randint(1, 3)):
            damaged = bytearray(kv.value[: random.randrange(len(kv.value) + 1)] if random.random() < 0.4 else kv.value)
            for _ in range(random.randint(0, 4) if damaged else 0):
                damaged[random.randrange(len(damaged))] = random.randrange(256)
            key = kv.key + b"x" * (random.random() < 0.2)
            client.call("/v3/kv/put", {"key": key, "value": bytes(damaged)}, wire.Nothing)
        for act in (
            lambda: upkeep.check(store)[1],  # noqa: B023 - called at once
            store.tickets,
            lambda: upkeep.dump_to(store, tmp_path / "d", replace=True),  # noqa: B023
            lambda: upkeep.back_up(store, tmp_path / "b", replace=True),  # noqa: B023
            lambda: upkeep.compact(store),  # noqa: B023
            lambda: store.drop("demo"),  # noqa: B023
        ):
            try:
                found += bool(act())
            except FluxresError:
                found += 1
    assert found


def test_space_that_runs_out_is_an_error_that_changes_nothing() -> None:
    with etcd("--quota-backend-bytes", str(1 << 20)) as server:
        url = server.url("full")
        store = open_store(url, clock=fixed(0))
        store.put("demo", machine())
        with fluxres.open(url, clock=fixed(0)) as graph:

            def fill() -> None:
                for number in range(3000):
                    graph.tag("/demo", f"k{number % 7}", os.urandom(1500).hex())

            with pytest.raises(StoreError, match="etcd has reached its quota; nothing was changed"):
                fill()
            assert fingerprint(graph) == fingerprint(store.open()[0])
            with pytest.raises(StoreError, match="quota"):
                graph.tag("/demo", "k")
            assert "etcd raises the alarm NOSPACE" in [problem.message for problem in upkeep.check(store)[1]]
            revision = states.read(database(store)._client, database(store)._keys).revision
            server.control("compact", "--physical=true", str(revision))
            server.control("defrag")
            server.control("alarm", "disarm")
            graph.tag("/demo", "k", "again")
            assert fingerprint(graph) == fingerprint(store.open()[0])
        assert upkeep.check(store)[1] == []


def test_users_need_the_right_password_and_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    with etcd() as server:
        for command in (
            "user add root:pw",
            "user grant-role root root",
            "user add ada:secret",
            "role add sites",
            "user grant-role ada sites",
        ):
            server.control(*command.split())
        server.control("role", "grant-permission", "sites", "readwrite", "/ours/", "--prefix=true")
        server.control("auth", "enable")
        where = f"127.0.0.1:{server.port}"
        for login in ("", "ada:wrong@", "eve:secret@", "ada@"):
            with pytest.raises(StoreError, match="etcd refuses the user") as caught:
                open_store(f"etcd://{login}{where}/ours").names()
            assert "wrong" not in str(caught.value)
        with pytest.raises(StoreError, match="may not be used: permission denied"):
            open_store(f"etcd://ada:secret@{where}/theirs").names()
        url = f"etcd://ada:secret@{where}/ours"
        store = open_store(url, clock=fixed(0))
        store.put("demo", machine())
        with fluxres.open(url) as graph:
            graph.tag("/demo", "k")
            server.kill()
            server.start()  # it has forgotten the tokens
            graph.tag("/demo", "l")
        assert upkeep.compact(store)[1].events == 3
        assert upkeep.check(store)[1] == []
        monkeypatch.setenv("ETCDCTL_USER", "ada:secret")
        assert open_store(f"etcd://{where}/ours").names() == ["demo"]


def test_tls_is_checked(tmp_path: Path) -> None:
    with etcd("--auto-tls") as server:
        where = f"127.0.0.1:{server.port}/secure"
        with pytest.raises(StoreError, match="cannot be reached"):
            open_store(f"etcd://{where}").names()
        with pytest.raises(StoreError, match=r"cannot be reached.*certificate verify failed"):
            open_store(f"etcds://{where}").names()
        store = open_store(f"etcds://{where}?cacert={server.certificate}", clock=fixed(0))
        store.put("demo", machine())
        with store.writing() as transaction:
            transaction.graph.tag("/demo", "k")
        assert store.names() == ["demo"]


def test_a_change_after_another_one_is_one_request(url: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, sent = Client._exchange, list[str]()

    def count(self: Client, connection: HTTPConnection, path: str, body: bytes, time_s: float, token: str) -> tuple[int, bytes]:
        sent.append(path)
        return exchange(self, connection, path, body, time_s, token)

    monkeypatch.setattr("fluxres.store.etcd.lock._LINGER_S", 1.0)  # no pause of this machine is that long
    with fluxres.open(url, clock=fixed(0)) as graph:
        graph.tag("/demo", "first")
        monkeypatch.setattr(Client, "_exchange", count)
        for number in range(10):
            graph.tag("/demo", f"k{number}")
        assert [path for path in sent if "keepalive" not in path] == ["/v3/kv/txn"] * 10


def test_the_lock_lingers_only_for_a_moment(url: str, store: Store) -> None:
    """A graph that is not changed keeps nobody waiting."""
    with fluxres.open(url) as graph:
        for _ in range(3):
            graph.tag("/demo", "k")
            store.use("demo", wait_s=5)
    with pytest.raises(UnknownGraph):
        fluxres.open(url, name="none")
    store.use("demo", wait_s=0)


def test_a_fork_leaves_the_lease_of_its_parent_alone(url: str, store: Store) -> None:
    with fluxres.open(url) as graph:
        graph.tag("/demo", "k")
        child = os.fork()
        if child == 0:
            status = 1
            with suppress(FluxresError):
                status = 0 if store.names() == ["demo"] else 2
            os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        graph.tag("/demo", "l")
    assert store.names() == ["demo"]

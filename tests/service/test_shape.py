"""Changes of the machine over HTTP: who may make them, when, how large they may be, and where they are noted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import fluxres
from fluxres import limits
from fluxres.cli.program import program
from fluxres.errors import KeyReused, LimitExceeded
from fluxres.service.client.requests import Request, of_graph, post, send
from fluxres.store import open_store
from tests.service.conftest import DEMO, Server, demo_store, empty_store, running
from tests.service.test_access import FILE, WORDS

RACK = {"fluxres": 1, "name": "demo", "resources": [{"type": "rack", "id": 9, "with": [{"type": "node", "count": 2}]}]}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens.toml").write_text(FILE)
    with running(demo_store(folder), "--tokens", str(folder / "tokens.toml")) as found:
        yield found


CHANGES: list[Callable[[fluxres.RemoteGraph], object]] = [
    lambda g: g.merge(fluxres.load(RACK)),
    lambda g: g.apply(fluxres.load(RACK)),
    lambda g: g.unlink("/demo/rack0/node3"),
    lambda g: g.move("/demo/rack0/node3", "/demo/rack1/node9"),
    lambda g: g.add_edge("/demo/rack0/node0", "/demo/rack0/node1", "network", hierarchy=False),
    lambda g: g.set_edge("/demo/rack0/node0", "/demo/rack0/node1", "network", capacity=4),
    lambda g: g.remove_edge("/demo/rack0/node0", "/demo/rack0/node1", "network"),
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
@pytest.mark.parametrize("token", ["rack0", "flux", "eyes"])
def test_the_machine_is_changed_with_a_token_of_an_admin_of_all_of_it(
    guarded: Server, change: Callable[[fluxres.RemoteGraph], object], token: str
) -> None:
    with fluxres.connect(guarded.url, graph="demo", token=WORDS[token]) as graph, pytest.raises(fluxres.Forbidden):
        change(graph)


def test_a_part_of_the_machine_is_not_changed_by_events_either(guarded: Server) -> None:
    event = {"event": "unlink", "pool": "/demo/rack0/node3", "hierarchy": None, "removed": 9}
    for token in ("rack0", "flux"):
        with pytest.raises(fluxres.Forbidden):
            guarded.connection(WORDS[token]).post(of_graph("demo", "events"), {"events": [event]})
    with pytest.raises(fluxres.Forbidden):
        guarded.connection(WORDS["rack0"]).make(send(of_graph("demo", "diff"), json.dumps(DEMO).encode()))


def test_a_graph_is_merged_only_by_who_may_see_it(guarded: Server) -> None:
    ops = guarded.connection(WORDS["ops"])
    ops.make(send("/v1/graphs", json.dumps(RACK).encode(), name="elsewhere"))
    with fluxres.connect(guarded.url, graph="demo", token=WORDS["rack0"]) as graph, pytest.raises(fluxres.Forbidden):
        graph.merge("elsewhere")
    with fluxres.connect(guarded.url, graph="demo", token=WORDS["ops"]) as graph:
        graph.merge("elsewhere")
        assert len(graph.find("type=node")) == 10
        graph.unlink("/demo/rack9")
    entries = ops.get(of_graph("demo", "log")).document()["log"][-2:]
    assert [(one["event"], one["by"], one["command"]) for one in entries] == [
        ("merge", "ops", "POST /v1/graphs/demo/merge"),
        ("unlink", "ops", "POST /v1/graphs/demo/unlink"),
    ]


def test_an_undo_that_is_sent_again_to_the_next_server_undoes_nothing_else(tmp_path: Path) -> None:
    url, key = demo_store(tmp_path), "0123456789"
    with running(url) as first:
        connection = first.connection()
        connection.post(of_graph("demo", "tag"), {"wanted": "/demo/rack0", "key": "k"})
        answer = connection.post(of_graph("demo", "undo"), {}, key=key).document()
        connection.post(of_graph("demo", "allocate"), {"wanted": "/demo/rack0/node0", "job": "j1"})
        first.process.kill()
        first.process.wait()
    with running(url) as second:
        assert second.connection().post(of_graph("demo", "undo"), {}, key=key).document() == answer
    assert open_store(url).load("demo").jobs() == ["j1"]


def test_changes_of_the_machine_reach_streams_and_can_be_undone(server: Server) -> None:
    with fluxres.connect(server.url) as graph:
        events = graph.events(after=1)
        graph.unlink("/demo/rack1")
        graph.merge(fluxres.load(RACK))
        seen = [next(events) for _ in range(2)]
        assert [one["name"] for one in seen] == ["unlink", "merge"]
        assert seen[0]["context"]["pool"] == "/demo/rack1"
        assert seen[1]["context"]["added"] == 3
        server.connection().post(of_graph("demo", "undo"), {})
        assert graph.find("type=rack").paths() == ["/demo/rack0"]
        server.connection().post(of_graph("demo", "undo"), {"redo": True})
        assert graph.find("type=rack").paths() == ["/demo/rack0", "/demo/rack9"]
        assert [next(events)["name"] for _ in range(2)] == ["undo", "redo"]
        assert graph.log()[-1]["by"] == "ada"
        assert graph.check() == []


def test_a_change_with_a_key_is_made_once_also_by_the_next_server(tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    with running(store) as server:
        with fluxres.connect(server.url) as graph:
            graph.merge(fluxres.load(RACK), idempotency_key="m1")
            with pytest.raises(KeyReused):
                graph.unlink("/demo/rack9", idempotency_key="m1")
        server.process.kill()
        server.process.wait()
    rack = fluxres.load(RACK)  # its uuids are others, so the request is another one
    with running(store) as server:
        with fluxres.connect(server.url) as graph:
            graph.unlink("/demo/rack1", idempotency_key="u1")
            with pytest.raises(KeyReused):
                graph.merge(rack, idempotency_key="m1")
        server.process.kill()
        server.process.wait()
    with running(store) as server, fluxres.connect(server.url) as graph:
        graph.unlink("/demo/rack1", idempotency_key="u1")
        assert graph.find("type=rack").paths() == ["/demo/rack0", "/demo/rack9"]
        assert [one["event"] for one in graph.log()[-2:]] == ["merge", "unlink"]


def test_a_change_is_made_on_the_revision_that_it_names(server: Server) -> None:
    connection, place = server.connection(), of_graph("demo", "unlink")
    seen = connection.get(of_graph("demo", "pools"), criteria="type=rack").revision
    connection.post(of_graph("demo", "tag"), {"wanted": "/demo", "key": "k"})
    with pytest.raises(fluxres.RevisionConflict):
        connection.make(post(place, {"path": "/demo/rack1"}, revision=seen))
    with pytest.raises(fluxres.RevisionConflict):
        connection.make(send(of_graph("demo", "apply"), json.dumps(RACK).encode(), revision=seen))
    now = connection.get(of_graph("demo", "pools"), criteria="type=rack").revision
    assert connection.make(post(place, {"path": "/demo/rack1"}, revision=now)).document()["removed"] == 37


def test_a_document_is_bounded_and_names_no_files(server: Server, tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("fluxres: 1\nname: demo\nresources: []\n")
    connection = server.connection()
    with pytest.raises(fluxres.InputError):
        connection.make(send(of_graph("demo", "apply"), f"fluxres: 1\nname: demo\ninclude: {secret}\n".encode()))
    for operation in ("merge", "apply", "diff"):
        with pytest.raises(fluxres.UsageError):
            connection.make(send(of_graph("demo", operation), b" "))
    with pytest.raises(LimitExceeded):
        connection.make(send(of_graph("demo", "unlink"), b" " * (limits.SERVICE_BODY_BYTES_MAX + 1)))
    with pytest.raises(fluxres.InputError):
        connection.make(send(of_graph("demo", "merge"), b"#" * (limits.SERVICE_BODY_BYTES_MAX + 1)))
    with pytest.raises(fluxres.UsageError):
        connection.make(send(of_graph("demo", "merge"), json.dumps(RACK).encode(), source="demo"))
    with pytest.raises(fluxres.UnknownGraph):
        connection.make(send(of_graph("demo", "merge"), b"", source="nothing"))


SCRIPT = """\
edge add /demo/rack0 /demo/rack1 --subsystem network --new graph --capacity 40GB --json
edge set /demo/rack0 /demo/rack1 --subsystem network --capacity inf --attribute colour=red
edge remove /demo/rack0 /demo/rack1 --subsystem network
move /demo/rack0/node0 /demo/rack1/node9 --json
unlink /demo/rack0/node1 --json
undo
undo --redo
merge rack.json
apply demo.json --dry-run
apply demo.json
diff demo.json
load rack.json --name rack
load rack.json --name rack
graphs use rack
info
graphs use demo
copy /demo/rack1 --as part --json
unlink /demo
"""


def test_commands_change_the_machine_of_a_server_as_that_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLUXRES_STORE", raising=False)
    Path("rack.json").write_text(json.dumps(RACK))
    Path("demo.json").write_text(json.dumps(DEMO))
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    machine = fluxres.load(DEMO, clock=time.time)
    alone, shared = (empty_store(tmp_path / folder) for folder in ("here", "there"))
    for store in (alone, shared):
        fluxres.save(machine, store)
    with running(shared) as server:
        for line in SCRIPT.splitlines():
            local = CliRunner().invoke(program, ["--store", alone, *line.split()])
            remote = CliRunner().invoke(program, ["--store", server.url, *line.split()])
            assert (remote.exit_code, _same(remote.output)) == (local.exit_code, _same(local.output)), line
    assert [fluxres.load(store).find("type=node").paths() for store in (alone, shared)] == [
        fluxres.load(DEMO).find("type=node").paths()
    ] * 2


def _same(output: str) -> str:
    """What does not depend on the store, or on the moment."""
    return "\n".join(line for line in output.splitlines() if not line.startswith(("made ", "redone: ")))


def test_the_graph_of_a_job_is_copied_on_a_server(server: Server) -> None:
    with fluxres.connect(server.url) as graph:
        graph.allocate("/demo/rack1", job="j1", duration_s=600)
    words = ["--store", server.url, "copy", "--job", "j1", "--as", "part"]
    assert CliRunner().invoke(program, words).exit_code == 0
    listed = server.connection().make(Request("GET", "/v1/graphs")).document()["graphs"]
    held = {one["graph"]: one["held"] for one in listed}
    assert held["demo"] is None
    assert (held["part"]["graph"], held["part"]["job"]) == ("demo", "j1")
    assert CliRunner().invoke(program, words).exit_code == 2
    assert CliRunner().invoke(program, [*words, "--replace"]).exit_code == 0

"""Tokens: roles, graphs, parts of the machine, and how they are read."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

import fluxres
from fluxres import limits
from fluxres.errors import Forbidden, InputError, Unauthorized
from fluxres.service.access import Access, Caller, Role
from fluxres.service.client.requests import of_graph
from fluxres.service.tap import Tap
from fluxres.service.time_limit import TimeLimit
from tests.forks import Fork
from tests.service import openapi
from tests.service.conftest import DEMO, Server, demo_store, running
from tests.service.test_api import send
from tests.service.test_documented import paths

OPEN = ["/health", "/ready"]
WORDS = {name: f"{name}-0123456789abcdef" for name in ("ops", "flux", "eyes", "rack0", "other")}
FILE = f"""
[tokens.ops]
role = "admin"
token = "{WORDS["ops"]}"
[tokens.flux]
role = "scheduler"
sha256 = "{sha256(WORDS["flux"].encode()).hexdigest()}"
[tokens.eyes]
role = "read-only"
token = "{WORDS["eyes"]}"
[tokens.rack0]
role = "admin"
token = "{WORDS["rack0"]}"
graphs = ["demo"]
paths = ["/demo/rack0"]
[tokens.other]
role = "admin"
token = "{WORDS["other"]}"
graphs = ["elsewhere"]
"""

Send = Callable[..., tuple[int, dict[str, object]]]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens.toml").write_text(FILE)
    with running(demo_store(folder), "--tokens", str(folder / "tokens.toml")) as found:
        yield found


@pytest.fixture
def ask(guarded: Server) -> Send:
    def ask(name: str | None, operation: str, body: object = None, method: str | None = None) -> tuple[int, dict[str, object]]:
        headers = {} if name is None else {"authorization": f"Bearer {WORDS.get(name, name)}"}
        path = operation if operation.startswith("/") else of_graph("demo", operation)
        status, document, _ = send(guarded, method or ("GET" if body is None else "POST"), path, body, headers)
        return status, document

    return ask


@pytest.mark.parametrize("name", [None, "wrong", "", "ops-0123456789abcde", "ops-0123456789abcdeff"])
def test_a_request_needs_a_known_token(ask: Send, name: str | None) -> None:
    status, document = ask(name, "jobs")
    assert (status, document["error"]) == (401, "unauthorized")


def test_health_needs_none(ask: Send) -> None:
    assert ask(None, "/health")[0] == 200
    assert ask(None, "/ready")[0] == 200
    assert ask(None, "/metrics")[0] == 401


def test_numbers_of_a_graph_are_for_those_who_may_see_it(guarded: Server, ask: Send) -> None:
    assert ask("eyes", "jobs")[0] == 200  # the graph is open
    texts = {name: guarded.connection(WORDS[name]).get("/metrics").body.decode() for name in ("eyes", "rack0", "other")}
    assert ['graph="demo"' in text for text in texts.values()] == [True, False, False]  # of a part, they would tell of the rest
    assert all("fluxres_requests_total" in text for text in texts.values())


@cache
def routes_with_roles() -> list[tuple[str, str, Role | None]]:
    """Every route that OpenAPI lists, with the role that its handler asks for."""
    from fluxres.service.app import routes

    found = []
    for route in routes().routes:
        for handler in getattr(route, "route_handlers", ()):
            for method in sorted(handler.http_methods - {"HEAD", "OPTIONS"}):
                path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)
                if path in paths():
                    found.append((method, path, handler.opt.get("role")))
    return sorted(found, key=lambda one: (one[1], one[0]))  # Litestar keeps the handlers of a route in a set


def test_a_command_says_which_role_it_needs(guarded: Server) -> None:
    def said(token: str, *words: str) -> str:
        command = Fork("--store", guarded.url, *words, environment={**os.environ, "FLUXRES_TOKEN": WORDS[token]})
        _, errors = command.communicate(timeout=60)
        assert command.returncode == 2
        return errors

    assert "and admin where the machine" in said("eyes", "unlink", "/demo/rack1/node0")
    assert "a program asks for its part (fluxres.connect)" in said("rack0", "unlink", "/demo/rack1/node0")
    assert said("other", "--graph", "demo", "nodes") == "fluxres: ERROR token 'other' is not for graph 'demo'\n"


def test_every_route_but_two_asks_for_a_role() -> None:
    every = routes_with_roles()
    assert {(method.lower(), path) for method, path, _ in every} == {(m, path) for path, ops in paths().items() for m in ops}
    assert [path for _, path, role in every if role is None] == OPEN
    assert openapi.FILE.exists()


# The document lists the routes faster than Litestar, in each process that collects the tests.
ROUTES = sorted((path, method.upper()) for path, methods in paths().items() for method in methods)


@pytest.mark.parametrize(("path", "method"), [one for one in ROUTES if one[0] not in OPEN])
def test_lower_roles_and_other_graphs_are_refused_on_every_route(ask: Send, method: str, path: str) -> None:
    (role,) = (role for *of, role in routes_with_roles() if of == [method, path])
    assert role is not None
    place = path.replace("{graph}", "demo")
    body = {} if method == "POST" else None
    tokens = {Role.READ_ONLY: "eyes", Role.SCHEDULER: "flux", Role.ADMIN: "ops"}
    for lower in (one for one in Role if one < role):
        assert ask(tokens[lower], place, body, method)[0] == 403
    assert ask(None, place, body, method)[0] == 401
    if "{graph}" in path:
        assert ask("other", place, body, method)[0] == 403


@pytest.mark.parametrize("path", [path for path, method in ROUTES if method == "GET" and "{graph}" in path])
def test_a_part_shows_nothing_of_the_rest(ask: Send, path: str) -> None:
    ask("ops", "allocate", {"wanted": "/demo/rack1/node0", "job": "outside", "grow": True, "duration_s": 3600})
    place = path.replace("{graph}", "demo")
    queries = {
        "pools": "?criteria=type=node",
        "pool": "?path=/demo/rack1",
        "job": "?job=outside",
        "resource_set": "?job=outside",
        "document": "?format=cluster",
        "news": f"?mark={'0' * 24}",
        "instance": "?instance=main",
        "instance/jobs": "?instance=main",
        "instance/job": "?instance=main&job=1",
        "instance/check": "?instance=main",
    }
    status, document = ask("rack0", place + queries.get(path.partition("{graph}/")[2], ""))
    assert status in (200, 403)
    if status == 200:
        assert "rack1" not in str(document)
        assert "outside" not in str(document)


def test_a_part_gets_and_frees_its_own_pools_only(ask: Send) -> None:
    ask("ops", "allocate", {"wanted": "/demo/rack1/node1", "job": "theirs", "duration_s": 3600})
    status, granted = ask("rack0", "allocate", {"wanted": "slot=4/node", "job": "mine", "duration_s": 3600})
    assert status == 200
    assert all(str(pool["path"]).startswith("/demo/rack0/") for pool in granted["pools"])
    try:
        assert ask("rack0", "allocate", {"wanted": "slot=1/node", "job": "more"})[0] == 409
        for operation, body in (
            ("allocate", {"wanted": "/demo/rack1/node2", "job": "more"}),
            ("free", {"job": "theirs"}),
            ("free", {"job": "theirs", "wanted": ["/demo/rack1/node1"]}),
            ("extend", {"job": "theirs", "duration_s": 60}),
            ("grow", {"job": "mine", "wanted": "/demo/rack1/node2"}),
            ("set_state", {"wanted": "/demo/rack1", "state": "down"}),
            ("set_state", {"wanted": "/demo", "state": "down"}),
            ("tag", {"wanted": "/demo/rack1", "key": "k"}),
            ("stage", {"wanted": "/demo/rack1/node2", "job": "more"}),
            ("events", {"events": [{"event": "free", "job": "theirs", "pools": None, "start": None, "end": None}]}),
        ):
            status, document = ask("rack0", operation, body)
            assert (status, document["error"]) == (403, "forbidden"), operation
        assert ask("rack0", "free", {"job": "mine"})[0] == 200
        assert ask("ops", "job?job=theirs")[0] == 200
        assert ask("ops", "check")[1]["problems"] == []
    finally:
        ask("ops", "free", {"job": "theirs"})


def test_a_part_is_not_told_of_the_rest(ask: Send) -> None:
    ask("ops", "allocate", {"wanted": "/demo/rack1/node1", "job": "both"})
    try:
        told = [
            ask("rack0", "why", {"wanted": "slot=8/node"}),
            ask("rack0", "grow", {"job": "both", "wanted": "/demo/rack0/node1"}),
            ask("rack0", "grow", {"job": "both", "wanted": "/demo/rack0/node2"}),
            ask("rack0", "shrink", {"job": "both", "wanted": "/demo/rack0/node2"}),
            ask("rack0", "free", {"job": "both", "wanted": ["/demo/rack0/node1"]}),
        ]
        assert [status for status, _ in told] == [200] * 5
        told += [
            ask("rack0", "free", {"job": "both"}),
            ask("rack0", "extend", {"job": "both", "duration_s": 60}),
            ask("rack0", "job?job=both"),
            ask("rack0", "resource_set?job=both"),
        ]
        assert [status for status, _ in told[5:]] == [403] * 4
        assert "rack1" not in str(told)
    finally:
        ask("ops", "free", {"job": "both"})


def test_the_list_of_graphs_has_only_the_part_of_a_token(guarded: Server, ask: Send) -> None:
    listed = {name: guarded.connection(WORDS[name]).get("/v1/graphs").document()["graphs"] for name in ("ops", "rack0")}
    (whole,), (part,) = listed.values()
    assert (whole["pools"], part["pools"]) == (1 + 2 * 37, 37)
    assert whole["events"] is not None
    assert (part["graph"], part["events"], part["held"]) == ("demo", None, None)


REFUSED = (
    "-N4 -x",
    "-N5 -x",
    "slot=3/node",
    "slot=40/core",
    "slot=30/core",
    "slot=5/core=8",
    "rack=2/slot=1/node",
    "slot=2/rack/node",
    "-N4 -x --requires ssd",
    "-N4 -x --requires rank:0-2",
)


def test_a_part_is_refused_as_if_it_were_the_machine(tmp_path: Path) -> None:
    """Candidates, causes and bounds are those of a machine that is this part: what is outside of it is not counted."""
    (tmp_path / "tokens.toml").write_text(FILE)
    only = fluxres.loads(json.dumps(DEMO).replace('"count": 2', '"count": 1'))
    only.allocate("/demo/rack0/node1", job="own")
    only.set_state("/demo/rack0/node3", "drain")
    with running(demo_store(tmp_path), "--tokens", str(tmp_path / "tokens.toml")) as server:
        with fluxres.connect(server.url, token=WORDS["ops"]) as graph:
            graph.allocate("/demo/rack0/node1", job="own")
            graph.allocate("/demo/rack1/node0", job="theirs")
            graph.set_state("/demo/rack0/node3", "drain")
            graph.set_state("/demo/rack1/node2", "down")
        with fluxres.connect(server.url, graph="demo", token=WORDS["rack0"]) as part:
            for wanted in REFUSED:
                expected, found = only.why_not(wanted), part.why_not(wanted)
                assert expected is not None
                assert found is not None
                assert found.sentences() == [
                    text.replace("This machine", "This part of the machine") for text in expected.sentences()
                ], wanted


def test_a_part_does_not_end_what_others_hold_by_events(ask: Send) -> None:
    _, granted = ask("ops", "allocate", {"wanted": "/demo/rack1/node1", "job": "theirs", "duration_s": 3600})
    start = round(granted["start"] * 1e6)
    later = start + 10**10
    window = [later, later + 10**6]
    held = [[*window, [["/demo/rack1/node2", 1]]]]
    try:
        for event in (
            {"event": "expire", "before": later},
            {"event": "reserve", "job": "m", "pools": ["/demo/rack0"], "windows": [window], "ignores_jobs": False, "held": held},
        ):
            status, document = ask("rack0", "events", {"events": [event]})
            assert (status, document["error"]) == (403, "forbidden"), event
        assert ask("rack0", "events", {"events": [{"event": "expire", "before": start}]})[0] == 200
        assert ask("ops", "job?job=theirs")[0] == 200
    finally:
        ask("ops", "free", {"job": "theirs"})


def test_only_admins_end_maintenance_before_its_time(ask: Send) -> None:
    body = {"wanted": "/demo/rack1/node3", "name": "pump", "start": "+1d", "duration_s": 60}
    made = ask("ops", "reserve", body)[1]
    end = made["windows"][-1]["end"]
    try:
        for operation, early in (
            ("expire", {"before": end + 60}),
            ("events", {"events": [{"event": "expire", "before": round((end + 60) * 1e6)}]}),
            ("events", {"events": [{"event": "free", "job": "pump", "pools": None, "start": None, "end": None}]}),
            ("child/open", {"job": "pump"}),
        ):
            status, document = ask("flux", operation, early)
            assert (status, document["error"]) in ((403, "forbidden"), (400, "usage")), operation
        assert ask("flux", "expire", {"before": end - 60})[0] == 200
        assert ask("eyes", "reservations")[1]["reservations"] == [made]
        assert ask("ops", "expire", {"before": end + 60}) == (200, {"ended": ["pump"]})
    finally:
        ask("ops", "unreserve", {"name": "pump"})


def test_a_part_reserves_and_gives_up_its_own_pools_only(ask: Send) -> None:
    assert ask("ops", "reserve", {"wanted": "/demo/rack1/node3", "name": "pump", "start": "+1d", "duration_s": 60})[0] == 200
    try:
        assert ask("flux", "reserve", {"wanted": "/demo/rack0/node3", "name": "fan", "duration_s": 60})[0] == 403
        for operation, body in (
            ("reserve", {"wanted": "/demo/rack1/node2", "name": "fan", "start": "+1d", "duration_s": 60}),
            ("reserve", {"wanted": "/demo", "name": "fan", "start": "+1d", "duration_s": 60}),
            ("unreserve", {"name": "pump"}),
        ):
            status, document = ask("rack0", operation, body)
            assert (status, document["error"]) == (403, "forbidden"), operation
            assert "rack1/node3" not in str(document)
        mine = {"wanted": "/demo/rack0/node3", "name": "fan", "start": "+1d", "duration_s": 60}
        made = ask("rack0", "reserve", mine)[1]
        assert (made["user"], made["pools"]) == ("rack0", ["/demo/rack0/node3"])
        assert ask("rack0", "reservations")[1] == {"reservations": [made]}
        assert len(ask("eyes", "reservations")[1]["reservations"]) == 2
        assert ask("rack0", "unreserve", {"name": "fan"})[0] == 200
        assert ask("rack0", "undo", {})[0] == 403
    finally:
        ask("ops", "unreserve", {"name": "pump"})


def test_a_part_reserves_no_supplier_of_other_parts(ask: Send) -> None:
    edge = {"source": "/demo/rack0/node0", "target": "/demo/rack1/node3", "subsystem": "cooling"}
    assert ask("ops", "add_edge", {**edge, "hierarchy": True})[0] == 200
    wanted = {"wanted": "/demo/rack0/node0", "start": "+1d", "duration_s": 60}
    made = ask("ops", "reserve", {**wanted, "name": "pump"})[1]
    try:
        assert made["affected"] == ["/demo/rack0/node0", "/demo/rack1/node3"]
        assert ask("rack0", "reservations")[1] == {"reservations": []}
        event = {"event": "reserve", "job": "fan", "windows": [[10**18, 10**18 + 1]], "ignores_jobs": True, "held": []}
        sent = {"events": [{**event, "pools": ["/demo/rack0/node0"], "affected": made["affected"]}]}
        tried = (("reserve", {**wanted, "name": "fan", "start": "+2d"}), ("unreserve", {"name": "pump"}), ("events", sent))
        for operation, body in tried:
            status, document = ask("rack0", operation, body)
            assert (status, document["error"]) == (403, "forbidden"), operation
        assert ask("ops", "events", sent)[0] == 200
        assert ask("ops", "unreserve", {"name": "fan"})[0] == 200
    finally:
        ask("ops", "unreserve", {"name": "pump"})
        ask("ops", "remove_edge", edge)


def test_an_expired_stage_of_others_does_not_stop_a_part(ask: Send) -> None:
    _, staged = ask("ops", "stage", {"wanted": "/demo/rack1/node3", "job": "theirs", "ttl_s": 0.001})
    while time.time() <= float(str(staged["expires"])):
        time.sleep(0.001)
    assert ask("rack0", "tag", {"wanted": "/demo/rack0", "key": "seen"})[0] == 200
    assert ask("rack0", "allocate", {"wanted": "/demo/rack0/node3", "job": "mine"})[0] == 200
    assert ask("rack0", "free", {"job": "mine"})[0] == 200
    assert ask("ops", "stages")[1]["stages"] == []


def test_the_journal_says_who(ask: Send) -> None:
    ask("flux", "allocate", {"wanted": "/demo/rack0/node3", "job": "traced"})
    ask("flux", "free", {"job": "traced"})
    entries = ask("ops", "log?job=traced")[1]["log"]
    assert isinstance(entries, list)
    assert [(e["event"], e["by"], e["command"]) for e in entries] == [
        ("allocate", "flux", "POST /v1/graphs/demo/allocate"),
        ("free", "flux", "POST /v1/graphs/demo/free"),
    ]


def test_clients_send_their_token(guarded: Server) -> None:
    with fluxres.connect(guarded.url, token=WORDS["flux"]) as graph:
        assert len(graph.find("type=node")) == 8
        with pytest.raises(Forbidden):
            graph.set_state("/demo/rack0", "down")
    with pytest.raises(Unauthorized):
        fluxres.connect(guarded.url, token="no such token at all")


def test_tokens_are_read_again_when_they_change(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(FILE)
    access = Access.open(str(file), None, "0.0.0.0")
    assert access.caller(f"Bearer {WORDS['ops']}").role is Role.ADMIN
    file.write_text('[tokens.new]\nrole = "admin"\ntoken = "another-0123456789abcdef"\n')
    access.reload()
    assert access.caller("bearer another-0123456789abcdef").name == "new"
    with pytest.raises(Unauthorized):
        access.caller(f"Bearer {WORDS['ops']}")
    file.write_text("nonsense")
    access.reload()
    assert access.caller("Bearer another-0123456789abcdef").name == "new"


def test_a_running_server_reads_its_tokens_again(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(FILE)
    with running(demo_store(tmp_path), "--tokens", str(file)) as server:
        headers = {"authorization": "Bearer another-0123456789abcdef"}
        assert send(server, "GET", "/v1/graphs", headers=headers)[0] == 401
        file.write_text('[tokens.new]\nrole = "read-only"\ntoken = "another-0123456789abcdef"\n')
        os.kill(server.process.pid, signal.SIGHUP)
        assert server.says("tokens") == f"fluxres: INFO the tokens were read again: 1 of {file}\n"
        until = time.monotonic() + 20
        while send(server, "GET", "/v1/graphs", headers=headers)[0] != 200:
            assert time.monotonic() < until
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[tokens.a]\nrole = "king"\ntoken = "0123456789abcdef"\n', "no role 'king'"),
        ('[tokens.a]\nrole = "admin"\n', "either token or sha256"),
        (f'[tokens.a]\nrole = "admin"\ntoken = "{"x" * (limits.TOKEN_LENGTH_MIN - 1)}"\n', f"at least {limits.TOKEN_LENGTH_MIN}"),
        ('[tokens.a]\nrole = "admin"\nsha256 = "abc"\n', "tokens.a"),
        ('[tokens.a]\nrole = "admin"\ntoken = "0123456789abcdef"\npaths = ["rack0"]\n', "paths"),
        ('[tokens.a]\nrole = "admin"\ntoken = "0123456789abcdef"\ncolour = "red"\n', "colour"),
        ('[tokens.a]\nrole = "admin"\ntoken = "0123456789abcdef"\ncolour = "red"\n', "tokens.a"),
        (
            "".join(
                f'[tokens.{name}]\nrole = "{role}"\ntoken = "0123456789abcdef"\n'
                for name, role in (("a", "admin"), ("b", "read-only"))
            ),
            "tokens.b: has the same token as tokens.a",
        ),
        ("[tokens]\n", "expected 1 to"),
        ("tokens", "tokens.toml"),
        ('[a]\nrole = "admin"\ntoken = "0123456789abcdef"\n', "each token is a table [tokens.NAME]"),
        (
            "".join(f'[tokens.t{i}]\nrole = "admin"\ntoken = "0123456789abcdef{i}"\n' for i in range(limits.TOKENS_MAX + 1)),
            f"expected 1 to {limits.TOKENS_MAX}",
        ),
    ],
    ids=["role", "none", "short", "digest", "path", "key", "key of which", "twice", "empty", "toml", "table", "many"],
)
def test_wrong_files_of_tokens_are_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(said)):
        Access.open(str(file), None, "127.0.0.1")


def test_tokens_of_the_environment() -> None:
    access = Access.open(None, "ops:admin:0123456789abcdef, flux:scheduler:fedcba9876543210", "0.0.0.0")
    assert access.caller("Bearer fedcba9876543210").role is Role.SCHEDULER
    with pytest.raises(InputError, match="NAME:ROLE:TOKEN"):
        Access.open(None, "secret", "0.0.0.0")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_other_machines_need_tokens(host: str) -> None:
    with pytest.raises(Unauthorized, match="other machines"):
        Access.open(None, None, host)


def test_an_address_that_users_can_open_is_said(tmp_path: Path) -> None:
    (tmp_path / "tokens.toml").write_text(FILE)
    with running(demo_store(tmp_path), "--host", "0.0.0.0", "--tokens", str(tmp_path / "tokens.toml")) as server:
        assert server.url.startswith(f"http://{os.uname().nodename}:")


def test_the_time_of_a_request_counts_while_expired_stages_are_dropped() -> None:
    now = [0.0]
    graph = fluxres.load(DEMO, clock=lambda: now[0])
    graph.stage("slot=1/node", job="j1", ttl_s=1)
    now[0] = 2.0
    limit, told = TimeLimit(5.0), list[tuple[str, bool]]()
    graph.sink = lambda event: told.append((event["event"], limit.is_spared))
    tap = Tap(graph)
    with tap.serving(Caller("ada", Role.ADMIN), limit):
        limit.run(lambda: graph.allocate("slot=1/node", job="j2"))
    assert told == [("release", False), ("allocate", True)]


def test_all_mistakes_of_a_file_of_tokens_are_listed_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(
        '[tokens.a]\nrole = "king"\ntoken = "short secret"\ncolour = "red"\n'
        '[tokens."b c"]\nrole = "admin"\ntoken = 1234567890123456\nrate = -1\npaths = ["rack0", "/demo//rack0"]\n'
        '[tokens.d]\nrole = "admin"\nsha256 = "abc"\ngraphs = [""]\n'
    )
    with pytest.raises(InputError) as refused:
        Access.open(str(file), None, "127.0.0.1")
    assert [(str(one.where).removeprefix(f"{file}:"), one.message) for one in refused.value.mistakes] == [
        ("1:1: tokens.a", f"a token has at least {limits.TOKEN_LENGTH_MIN} characters"),
        ("2:8: tokens.a.role", "no role 'king'"),
        ("4:1: tokens.a.colour", "unknown key 'colour'"),
        ("7:9: tokens.b c.token", "expected text, or nothing, got 1234567890123456"),
        ("8:8: tokens.b c.rate", "expected a number above 0, or nothing, got -1"),
        ("9:9: tokens.b c.paths[0]", "expected the path of a pool, got 'rack0'"),
        ("9:9: tokens.b c.paths[1]", "expected the path of a pool, got '/demo//rack0'"),
        ("12:10: tokens.d.sha256", "expected 64 hexadecimal digits"),
        ("13:10: tokens.d.graphs[0]", "expected the name of a graph, 1 to 255 printable characters"),
    ]
    assert "secret" not in str(refused.value.to_dict())


def test_a_table_beside_that_of_the_tokens_is_a_mistake_among_others(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text('[tokens.a]\nrole = "admin"\ntoken = "short"\n\n[token.b]\nrole = "admin"\n')
    with pytest.raises(InputError) as refused:
        Access.open(str(file), None, "127.0.0.1")
    assert [(str(one.where).removeprefix(f"{file}:"), one.message, one.hint) for one in refused.value.mistakes] == [
        ("1:1: tokens.a", f"a token has at least {limits.TOKEN_LENGTH_MIN} characters", ""),
        ("5:1: token", "unknown key 'token'", "did you mean 'tokens'?"),
    ]


def test_a_file_of_tokens_that_is_not_there() -> None:
    with pytest.raises(InputError, match="nofile: no such file"):
        Access.open("nofile", None, "127.0.0.1")


def test_a_scope_that_is_not_there_is_said_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(FILE + '[tokens.typo]\nrole = "admin"\ntoken = "typo-0123456789abcdef"\npaths = ["/demo/rack7"]\n')
    with running(demo_store(tmp_path), "--tokens", str(file)) as server:
        said = server.stop()[1]
    assert "WARNING token 'other' is for graph 'elsewhere', which is not in the store (choose from demo)\n" in said
    assert "WARNING token 'typo' is for /demo/rack7, which is not in demo\n" in said
    assert said.count("WARNING") == 2


def test_a_scope_that_is_not_there_is_said_when_the_tokens_are_read_again(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    good = '[tokens.new]\nrole = "admin"\ntoken = "another-0123456789abcdef"\n'
    file.write_text(good)
    with running(demo_store(tmp_path), "--tokens", str(file)) as server:
        file.write_text(f'{good}graphs = ["nowhere"]\n')
        os.kill(server.process.pid, signal.SIGHUP)
        warned = server.says("nowhere")
        file.write_text(good.replace("admin", "boss"))
        os.kill(server.process.pid, signal.SIGHUP)
        kept = server.says("stay as they are")
    assert warned == "fluxres: WARNING token 'new' is for graph 'nowhere', which is not in the store (choose from demo)\n"
    assert "fluxres: ERROR the tokens stay as they are" in kept


def test_each_mistake_in_tokens_that_are_read_again_is_a_line_of_the_log(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text('[tokens.new]\nrole = "admin"\ntoken = "another-0123456789abcdef"\n')
    with running(demo_store(tmp_path), "--tokens", str(file)) as server:
        file.write_text('[tokens.new]\nrole = "boss"\nrol = 1\ntoken = "another-0123456789abcdef"\n')
        os.kill(server.process.pid, signal.SIGHUP)
        first = server.says("stay as they are")
        said = server.stop()[1]
    about = [line for line in [first, *said.splitlines()] if "tokens.new.rol" in line]
    assert len(about) == 2
    assert all(line.startswith("fluxres: ERROR the tokens stay as they are: ") for line in about), about

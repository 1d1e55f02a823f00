"""What the service promises beyond the methods: problems, keys, revisions, pages, documents, limits."""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec
import pytest

import fluxres
from fluxres import limits
from fluxres.errors import STATUS
from fluxres.service import answers, log, problems
from fluxres.service.client.requests import of_graph
from tests.service.conftest import DEMO, Server, empty_store, running

_names = count()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(empty_store(tmp_path_factory.mktemp("shared"))) as found:
        yield found


class Graph:
    """A graph of its own on the shared server, and raw requests to it."""

    def __init__(self, server: Server, description: object = DEMO) -> None:
        self.server, self.name = server, f"api{next(_names)}"
        status, _, _ = send(server, "POST", f"/v1/graphs?name={self.name}", description)
        assert status == 201

    def __call__(self, operation: str, body: object = None, method: str | None = None, **headers: str) -> tuple[int, Any, Any]:
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        return send(self.server, method or ("GET" if body is None else "POST"), of_graph(self.name, operation), body, sent)


def send(
    server: Server, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, Any, Any]:
    """Status, document and headers of an answer."""
    opened = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    try:
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        with suppress(BrokenPipeError):  # a body that is too long is refused before all of it is sent
            opened.request(method, path, content, {"content-type": "application/json", **(headers or {})})
        answer = opened.getresponse()
        found = answer.read()
        is_json = (answer.headers.get("content-type") or "").endswith("json")
        return answer.status, json.loads(found) if is_json else found, answer.headers
    finally:
        opened.close()


@pytest.fixture
def graph(shared: Server) -> Graph:
    return Graph(shared)


# -- documents -----------------------------------------------------------------------------------------------------------

ANSWERS: list[tuple[str, object, type]] = [
    ("allocate", {"wanted": "slot=2/node", "job": "j1", "duration_s": 600}, answers.Granted),
    ("allocate_all", {"parts": [{"wanted": "-N1", "job": "j2"}, {"wanted": "-N1", "job": "j3"}]}, answers.GrantedAll),
    ("jobs", None, answers.Jobs),
    ("job?job=j1", None, answers.OneJob),
    ("resource_set?job=j1", None, answers.ResourceSet),
    ("resource_set?job=j1&scheduling=true", None, answers.ResourceSet),
    ("grow", {"job": "j1", "wanted": "-N1"}, answers.Granted),
    ("shrink", {"job": "j1", "wanted": "slot=1/node"}, answers.Shrunk),
    ("extend", {"job": "j1", "duration_s": "1h"}, answers.Extended),
    ("match", {"wanted": "-N1"}, answers.Matched),
    ("when", {"wanted": "slot=2/node", "duration_s": 60}, answers.Matched),
    ("why", {"wanted": "slot=8/node"}, answers.Refusal),
    ("why", {"wanted": "-N1"}, answers.Refusal),
    ("satisfiable", {"wanted": "-N1"}, answers.Satisfiability),
    ("pools?criteria=type=node&limit=3", None, answers.Pools),
    ("available?limit=3", None, answers.Pools),
    ("pool?path=/demo/rack0/node0", None, answers.Pool),
    ("walk?limit=3", None, answers.Pools),
    ("aggregate", None, answers.Aggregate),
    ("nodes?limit=2", None, answers.Nodes),
    ("stage", {"wanted": "-N1", "job": "j9"}, answers.Stage),
    ("stages", None, answers.Stages),
    ("commit", {"stage": "s0"}, answers.Granted),
    ("stage", {"wanted": "-N1", "job": "j8"}, answers.Stage),
    ("release", {"stage": "s1"}, answers.Released),
    ("set_state", {"wanted": ["/demo/rack1/node3"], "state": "drain", "reason": "fan"}, answers.Changed),
    ("tag", {"wanted": "/demo/rack1", "key": "k", "value": "v"}, answers.Changed),
    ("untag", {"wanted": "/demo/rack1", "key": "k"}, answers.Changed),
    ("free", {"job": "j1", "wanted": {"/demo/rack0/node0": 1}}, answers.Left),
    ("free", {"job": "j1"}, answers.Left),
    ("expire", {}, answers.Ended),
    ("events", {"events": [{"event": "tag", "pools": ["/demo"], "key": "a", "value": None}]}, answers.Applied),
    ("check", None, answers.Check),
    ("log", None, answers.Log),
    ("", None, answers.Summary),
]


def test_each_answer_is_of_the_type_that_openapi_shows(graph: Graph) -> None:
    for operation, body, kind in ANSWERS:
        status, document, headers = graph(operation, body)
        assert status == 200, (operation, document)
        msgspec.convert(document, kind)
        if operation != "log":
            assert headers["etag"], operation


def test_graphs_are_listed_copied_saved_and_dropped(shared: Server, graph: Graph) -> None:
    name = f"{graph.name}-copy"
    graph("allocate", {"wanted": "slot=2/node", "job": "j1"})
    status, document, _ = graph("copy", {"name": name, "job": "j1"})
    assert status == 201
    assert msgspec.convert(document, answers.Summary).states == {"up": 20}
    status, document, _ = send(shared, "GET", "/v1/graphs")
    assert name in [one.graph for one in msgspec.convert(document, answers.Graphs).graphs]
    status, content, headers = send(shared, "GET", of_graph(name, "document?format=jgf"))
    assert status == 200
    assert len(fluxres.loads(content)) == 20
    assert headers["fluxres-left-out"] == "0"
    status, document, _ = send(shared, "DELETE", of_graph(name, ""))
    assert (status, document) == (200, {"dropped": name, "lost": []})
    status, document, _ = send(shared, "GET", of_graph(name, "jobs"))
    assert (status, document["error"]) == (404, "unknown-graph")


@pytest.mark.parametrize("form", ["cluster", "jgf", "graphml", "node-link", "rv1"])
def test_a_part_is_saved_in_any_format(graph: Graph, form: str) -> None:
    status, content, _ = graph(f"document?format={form}&path=/demo/rack0")
    if form == "rv1":
        assert status in (200, 400, 422)
        return
    assert status == 200
    assert len(fluxres.loads(content)) == 37


def test_a_document_cannot_read_files(shared: Server, tmp_path: Any) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("fluxres: 1\nparts: {}\n")
    for body in (
        {"fluxres": 1, "name": "x", "include": [str(secret)], "resources": [{"type": "node"}]},
        str(secret).encode(),
        b"this-machine",
        f"sqlite://{tmp_path}/site.db".encode(),
        f"NodeName=n1 CPUs=1\nInclude {secret}\n".encode(),
    ):
        status, document, _ = send(shared, "POST", "/v1/graphs?name=x", body)
        assert status in (400, 422), document
        assert "parts" not in str(document["detail"])
    status, document, _ = send(shared, "POST", of_graph("nothing", "match"), {"wanted": "-"})
    assert status == 404


def test_pages_follow_each_other_and_are_complete(graph: Graph) -> None:
    for operation in ("pools?criteria=type=core", "walk?path=/demo/rack0", "available?duration_s=60"):
        found, after, pages = list[str](), "", 0
        while True:
            status, page, _ = graph(f"{operation}&limit=20{after}")
            assert status == 200
            found += [one["path"] for one in page["pools"]]
            pages += 1
            if page["next"] is None:
                break
            after = f"&after={quote(page['next'])}"
        assert len(found) == len(set(found)) == page["count"]
        assert pages == -(-page["count"] // 20)


def test_a_page_of_an_earlier_shape_is_stale(graph: Graph) -> None:
    status, document, _ = graph("pools?criteria=type=core&limit=1&after=7.1")
    assert (status, document["error"]) == (409, "stale")
    status, document, _ = graph("pools?criteria=type=core&limit=1&after=next")
    assert (status, document["error"]) == (400, "usage")


def test_a_page_has_a_size_of_its_own(shared: Server) -> None:
    nodes = {"type": "node", "count": limits.SERVICE_PAGE_DEFAULT + 1}
    page = Graph(shared, {"fluxres": 1, "name": "wide", "resources": [nodes]})("pools?criteria=type=node")[1]
    assert (page["count"], len(page["pools"])) == (limits.SERVICE_PAGE_DEFAULT + 1, limits.SERVICE_PAGE_DEFAULT)


@pytest.mark.parametrize("limit", [0, limits.SERVICE_PAGE_MAX + 1, "ten"])
def test_the_size_of_a_page_has_bounds(graph: Graph, limit: object) -> None:
    status, document, _ = graph(f"jobs?limit={limit}")
    assert (status, document["error"]) == (400, "usage")


# -- problems ------------------------------------------------------------------------------------------------------------

PROBLEMS: list[tuple[str, object, str]] = [
    ("allocate", {"wanted": "slot=9/node", "job": "j1"}, "infeasible"),
    ("allocate", {"wanted": "slot=1/gpu", "job": "j1"}, "unknown-type"),
    ("allocate", {"wanted": "slot=", "job": "j1"}, "input"),
    ("allocate", {"wanted": "/demo/rack7", "job": "j1"}, "unknown-pool"),
    ("allocate", {"wanted": "-N1", "job": "j1", "start": 5, "end": 3}, "usage"),
    ("free", {"job": "nobody"}, "unknown-job"),
    ("commit", {"stage": "s9"}, "stale"),
    ("pools?criteria=type=", None, "input"),
    ("aggregate?hierarchy=power", None, "unknown-graph"),
    ("pool?path=nowhere", None, "unknown-pool"),
]


@pytest.mark.parametrize(("operation", "body", "code"), PROBLEMS)
def test_errors_are_problem_details_with_the_codes_of_the_commands(graph: Graph, operation: str, body: object, code: str) -> None:
    status, document, headers = graph(operation, body)
    problem = msgspec.convert(document, problems.Problem, strict=True)
    error = next(error for error in STATUS if error.code == code)
    assert (problem.error, problem.status, status) == (code, STATUS[error][1], STATUS[error][1])
    assert problem.type == f"urn:fluxres:error:{code}"
    assert problem.message in problem.detail
    assert headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("method", "operation", "body", "status"),
    [
        ("GET", "nothing", None, 404),
        ("DELETE", "jobs", None, 405),
        ("POST", "allocate", b"{", 400),
        ("POST", "allocate", {"wanted": "-N1"}, 400),
        ("POST", "allocate", {"wanted": "-N1", "job": "j1", "colour": "red"}, 400),
        ("POST", "allocate", {"wanted": 5, "job": "j1"}, 400),
        ("POST", "allocate", b'{"wanted": ' + b"[" * 20_000, 413),
        ("POST", "allocate", b"\xff\xfe", 400),
        ("POST", "events", {"events": [{"event": "merge", "at": None}]}, 400),
        ("POST", "events", {"events": [{"event": "allocate", "job": "j1", "pools": [["/demo", -4]], "start": 0, "end": 1}]}, 422),
        ("POST", "events", {"events": [{"event": "allocate"}]}, 422),
        ("POST", "events", {"events": [{}]}, 400),
        ("GET", "events?after=-1", None, 400),
    ],
    ids=count(),
)
def test_wrong_requests_are_problems_too(graph: Graph, method: str, operation: str, body: object, status: int) -> None:
    answered, document, _ = graph(operation, body, method)
    assert answered == status, document
    assert msgspec.convert(document, problems.Problem).status == status
    assert graph("jobs")[1]["count"] == 0


@pytest.mark.parametrize("body", [b"{", b'{"wanted": "-N1", "job": "j', b'{"wanted": "-N1"'])
def test_a_body_without_its_end_is_named(graph: Graph, body: bytes) -> None:
    status, document, _ = graph("allocate", body)
    assert (status, document["where"], document["message"]) == (400, "body", "is not complete JSON")
    assert document["hint"] == "it ends too early: send all of it"


def test_refusals_name_the_earliest_start(graph: Graph) -> None:
    _, granted, _ = graph("allocate", {"wanted": "slot=8/node", "job": "j1", "duration_s": 600})
    status, document, _ = graph("allocate", {"wanted": "slot=1/node", "job": "j2"})
    assert (status, document["error"], document["earliest"]) == (409, "insufficient", granted["end"])
    assert document["reasons"]


def test_a_job_gets_nothing_twice_unless_it_asks_to_grow(graph: Graph) -> None:
    wanted = {"wanted": "slot=1/node", "job": "j1"}
    assert graph("allocate", wanted)[0] == 200
    status, document, _ = graph("allocate", wanted)
    assert (status, document["error"]) == (400, "usage")
    assert graph("allocate", {**wanted, "grow": True})[0] == 200


# -- retries and revisions -----------------------------------------------------------------------------------------------


def test_the_same_key_gives_the_same_answer_and_another_request_is_refused(graph: Graph) -> None:
    wanted = {"wanted": "slot=1/node", "job": "j1", "grow": True}
    first = graph("allocate", wanted, idempotency_key=f"{graph.name}-1")
    again = graph("allocate", wanted, idempotency_key=f"{graph.name}-1")
    assert (first[0], first[1]) == (again[0], again[1])
    assert graph("jobs")[1]["jobs"][0]["holds"] == {"node": 1}
    status, document, _ = graph("allocate", {**wanted, "job": "j2"}, idempotency_key=f"{graph.name}-1")
    assert (status, document["error"]) == (409, "key-reused")
    assert graph("allocate", wanted, idempotency_key=f"{graph.name}-2")[1]["pools"] != first[1]["pools"]


def test_a_refusal_is_remembered_with_its_key(graph: Graph) -> None:
    graph("allocate", {"wanted": "slot=8/node", "job": "j1"})
    wanted = {"wanted": "slot=1/node", "job": "j2"}
    first = graph("allocate", wanted, idempotency_key=f"{graph.name}-1")
    graph("free", {"job": "j1"})
    assert graph("allocate", wanted, idempotency_key=f"{graph.name}-1")[:2] == first[:2]
    assert graph("allocate", wanted, idempotency_key=f"{graph.name}-2")[0] == 200


def test_a_key_has_a_bound(graph: Graph) -> None:
    status, document, _ = graph("expire", {}, idempotency_key="k" * (limits.SERVICE_KEY_LENGTH_MAX + 1))
    assert (status, document["error"]) == (400, "usage")


def test_undo_and_copy_are_conditional_too_and_others_say_so(graph: Graph) -> None:
    _, _, headers = graph("jobs")
    now = graph("tag", {"wanted": "/demo/rack0", "key": "k"}, if_match=headers["etag"])[2]
    for operation, body in (("undo", {}), ("copy", {"name": "part"})):
        status, document, _ = graph(operation, body, if_match=headers["etag"])
        assert (status, document["error"]) == (412, "revision"), operation
    assert graph("undo", {}, if_match=now["etag"])[0] == 200
    for operation, body in (("end", {"mark": "ab" * 12}), ("child/open", {"job": "j1", "wanted": "slot=1/node"})):
        status, document, _ = graph(operation, body, if_match=now["etag"])
        assert (status, document["where"]) == (400, "If-Match"), operation
    assert graph("jobs")[1]["count"] == 0


def test_a_conditional_change_is_made_on_its_revision_only(graph: Graph) -> None:
    _, _, headers = graph("jobs")
    first = graph("allocate", {"wanted": "slot=1/node", "job": "j1"}, if_match=headers["etag"])
    assert first[0] == 200
    status, document, _ = graph("allocate", {"wanted": "slot=1/node", "job": "j2"}, if_match=headers["etag"])
    assert (status, document["error"]) == (412, "revision")
    assert graph("jobs")[1]["count"] == 1
    assert graph("allocate", {"wanted": "slot=1/node", "job": "j2"}, if_match=first[2]["etag"])[0] == 200
    assert graph("free", {"job": "j2"}, if_match="*")[0] == 200


MAINTENANCE: Final = {
    "event": "reserve",
    "job": "m",
    "pools": ["/demo/rack1"],
    "windows": [[7 * 10**15, 8 * 10**15]],
    "ignores_jobs": False,
    "held": [[7 * 10**15, 8 * 10**15, [["/demo/rack1", 1]]]],
}


def test_events_are_made_together_or_not_at_all(graph: Graph) -> None:
    good = {"event": "allocate", "job": "j1", "pools": [["/demo/rack0/node0", 1]], "start": 0, "end": None}
    status, document, _ = graph("events", {"events": [good, {**good, "job": "j2"}]})
    assert (status, document["error"]) == (409, "insufficient")
    assert graph("jobs")[1]["count"] == 0
    assert graph("events", {"events": [good]})[1] == {"events": 1}
    assert graph("jobs")[1]["count"] == 1


@pytest.mark.parametrize(
    "event",
    [
        {"event": "allocate", "job": "j1", "pools": -1, "start": 0, "end": None},
        {"event": "allocate_all", "parts": [{"job": "j1", "pools": [7], "start": 0, "end": None}]},
        {"event": "free", "job": "j1", "pools": -1, "start": None, "end": None},
        {"event": "set_end", "job": ["j1"], "start": 0, "end": None},
        {"event": "reserve", "job": "m", "pools": [], "windows": 5, "ignores_jobs": True, "held": [[0]]},
        {"event": "state", "pools": {}, "state": "up"},
        {"event": "expire"},
        {"event": "allocate_all", "parts": []},
        {**MAINTENANCE, "pools": []},
        {**MAINTENANCE, "windows": []},
        {**MAINTENANCE, "windows": [[9 * 10**15, 8 * 10**15]]},
        {**MAINTENANCE, "windows": [[8 * 10**15, 9 * 10**15], [7 * 10**15, 8 * 10**15]]},
    ],
    ids=lambda event: str(event["event"]),
)
def test_events_without_their_form_are_refused(graph: Graph, event: dict[str, Any]) -> None:
    before = graph("log")[1]["log"]
    status, document, _ = graph("events", {"events": [event]})
    assert (status, document["error"]) == (422, "input")
    assert f"event '{event['event']}': " in document["message"]
    assert graph("log")[1]["log"] == before


def test_events_keep_jobs_and_maintenance_apart(graph: Graph) -> None:
    assert graph("events", {"events": [MAINTENANCE]})[0] == 200
    assert graph("allocate", {"wanted": "/demo/rack0/node0", "job": "j1"})[0] == 200
    before = graph("reservations")[1]
    part = {"job": "m", "pools": [["/demo/rack0/node1", 1]], "start": 0, "end": None}
    for event in (
        {**MAINTENANCE, "job": "j1"},
        {**MAINTENANCE, "job": "m\n"},
        {**MAINTENANCE, "job": "n", "pools": ["/demo/rack1", "/demo/rack1"]},
        {**MAINTENANCE, "job": "n", "held": [[*MAINTENANCE["windows"][0], [["/demo/rack0/node3", 1]]]]},
        {**MAINTENANCE, "job": "n", "held": [[0, 5, [["/demo/rack1/node0", 1]]]]},
        {**MAINTENANCE, "job": "n", "held": [[*MAINTENANCE["windows"][0], [["/demo/rack1/node0/core0", 1]] * 2]]},
        {"event": "allocate", **part},
        {"event": "allocate_all", "parts": [part]},
        {"event": "free", "job": "m", "pools": None, "start": None, "end": None},
        {"event": "set_end", "job": "m", "start": 0, "end": 9 * 10**15},
    ):
        status, document, _ = graph("events", {"events": [event]})
        assert (status, document["error"]) == (400, "usage"), event
    assert graph("child/open", {"job": "m"})[0] == 400
    assert graph("reservations")[1] == before
    assert graph("jobs")[1]["count"] == 1


def test_events_do_not_allocate_what_is_out_of_service(graph: Graph) -> None:
    graph("set_state", {"wanted": "/demo/rack0", "state": "down"})
    event = {"event": "allocate", "job": "j1", "pools": [["/demo/rack0/node0", 1]], "start": 0, "end": None}
    status, document, _ = graph("events", {"events": [event]})
    assert (status, document["error"]) == (403, "forbidden")


# -- limits --------------------------------------------------------------------------------------------------------------


def test_a_body_has_a_bound(graph: Graph) -> None:
    big = b'{"wanted": "' + b"x" * limits.SERVICE_BODY_BYTES_MAX + b'"}'
    status, document, _ = graph("allocate", big)
    assert (status, document["error"]) == (413, "limit")


def test_a_body_without_a_length_has_a_bound(shared: Server, graph: Graph) -> None:
    opened = http.client.HTTPConnection(urlsplit(shared.url).netloc, timeout=30)
    try:
        parts = [b"x" * 65_536] * (limits.SERVICE_BODY_BYTES_MAX // 65_536 + 2)
        opened.request("POST", of_graph(graph.name, "allocate"), iter(parts), encode_chunked=True)
        answer = opened.getresponse()
        assert answer.status == 413
        answer.read()
    except BrokenPipeError:
        pass  # it was refused before all of it was sent
    finally:
        opened.close()


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Server]:
    """A server on which a question may take a second: other tests have servers that give a busy machine more time."""
    with running(empty_store(tmp_path), "--question-time", "1") as found:
        yield found


def test_a_question_that_takes_too_long_is_cut(hasty: Server) -> None:
    # Three kinds of slots compete for the same cores: the matcher weighs them against each other for a minute.
    nodes = {"type": "node", "count": 40, "with": [{"type": "core", "count": 11}, {"type": "gpu", "count": 3}]}
    graph = Graph(hasty, {"fluxres": 1, "name": "big", "resources": [nodes]})
    hard = "[slot=30{a}/core=7;slot=30{b}/core=6;slot=20{c}/[core=4;gpu=2]]"
    status, document, headers = graph("why", {"wanted": hard})
    assert (status, document["error"]) == (503, "unavailable")
    assert int(headers["retry-after"]) >= 1
    assert graph("allocate", {"wanted": hard, "job": "j1"})[0] == 503
    # What takes milliseconds of work may take a second by the clock; if it is cut as well, the same request succeeds later.
    assert _answered(lambda: graph("match", {"wanted": "-N1"}))[1]["now"]
    assert _answered(lambda: graph("check"))[1]["problems"] == []


def _answered(ask: Callable[[], tuple[int, Any, Any]]) -> tuple[int, Any, Any]:
    """An answer that was not cut."""
    for _ in range(60):
        if (found := ask())[0] != 503:
            return found
        time.sleep(0.5)
    raise AssertionError(found)


# -- browsers ------------------------------------------------------------------------------------------------------------


def test_pages_of_other_sites_are_kept_out(shared: Server, graph: Graph) -> None:
    assert graph("jobs", origin="https://example.org")[0] == 403
    assert graph("jobs", origin=shared.url)[0] == 200
    assert graph("jobs", host="example.org")[0] == 403
    status, _, headers = graph("jobs", method="OPTIONS", origin="https://example.org", access_control_request_method="POST")
    assert status == 403
    assert not any(key.lower().startswith("access-control") for key in headers)


@pytest.mark.parametrize(
    "host", ["[::1", "][", "[x]", "localhost:x", "localhost:99999999", "localhost/a", "localhost#", "127.0.0.1?"]
)
def test_a_host_that_is_no_address(graph: Graph, host: str) -> None:
    status, document, _ = graph("tag", {"wanted": "/demo", "key": "a"}, host=host, idempotency_key="k")
    assert (status, document["error"]) == (400, "usage")
    assert graph("tag", {"wanted": 1.5}, host=host)[0] == 400


@pytest.mark.parametrize("origin", ["http://[", "http://]x[", "["])
def test_an_origin_that_is_no_address(graph: Graph, origin: str) -> None:
    assert graph("jobs", origin=origin)[0] == 403


def test_it_tells_how_it_does(shared: Server, graph: Graph) -> None:
    assert send(shared, "GET", "/health")[1] == {"status": "ok", "version": fluxres.__version__}
    assert send(shared, "GET", "/ready")[1]["status"] == "ok"
    graph("allocate", {"wanted": "-N1", "job": "j1"})
    text = send(shared, "GET", "/metrics")[1].decode()
    assert 'fluxres_requests_total{method="POST",operation="allocate",status="200"}' in text
    assert f'fluxres_jobs{{graph="{graph.name}"}} 1.0' in text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/graph", 404), ("GET", "/v1/graphs/demo/allocate", 405), ("DELETE", "/health", 405)],
)
def test_a_route_that_is_not_there_says_where_the_routes_are(shared: Server, method: str, path: str, status: int) -> None:
    found, problem, _ = send(shared, method, path)
    assert found == status
    assert problem["message"].startswith(f"{method} {path}: ")
    assert "/schema/openapi.json" in problem["hint"]
    assert send(shared, "GET", "/schema/openapi.json")[0] == 200


def test_a_body_with_an_unknown_or_missing_field_gets_the_fields_that_it_has(graph: Graph) -> None:
    for body, where, fields in [
        ({"wanted": "slot/node", "job": "j", "durations": 3}, "data", "duration_s, end, grow, job, name, or_reserve"),
        ({"wanted": "slot/node"}, "data", "duration_s, end, grow, job, name, or_reserve"),
    ]:
        status, problem, _ = graph("allocate", body)
        assert (status, problem["where"]) == (400, where)
        assert problem["hint"].startswith(f"its fields: {fields}")
    status, problem, _ = graph("allocate_all", {"parts": [{"wanted": "slot/node", "jo": "x"}]})
    assert (status, problem["where"], problem["hint"]) == (400, "parts[0]", "its fields: job, wanted")
    status, problem, _ = graph("allocate", {"wanted": "slot/node", "job": 5.5})
    assert (status, problem["hint"]) == (400, "")


def test_a_server_does_not_stand_still_because_nobody_reads_its_log(start: Any) -> None:
    """`SERVICE_LOG_LINES_MAX`: a pipe has room for 64 KiB, and these lines are three times as many."""
    server = start("--log-requests")
    asked = server.connection()
    for _ in range(2_000):
        asked.get("/health")
    lines = 0
    server.process.send_signal(signal.SIGTERM)
    _, errors = server.process.communicate(timeout=30)
    lines = errors.count('"/health"')
    assert (server.process.returncode, lines) == (0, 2_000)


def test_a_log_that_nobody_reads_drops_lines_and_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVICE_LOG_LINES_MAX", 4)
    may_go_on, written = threading.Event(), list[str]()

    def slow(line: str) -> None:
        may_go_on.wait(10)
        written.append(line)

    monkeypatch.setattr(log, "_write", slow)
    handler = log.Lines()
    for number in range(50):
        handler.emit(logging.LogRecord("fluxres", logging.WARNING, "", 0, f"line {number}", None, None))
    may_go_on.set()
    handler.close()
    dropped = next(int(line.split()[2]) for line in written if "dropped" in line)
    assert dropped + sum(line.startswith("line") for line in written) == 50
    assert dropped >= 45


def test_a_question_ends_when_its_client_closes_the_connection(start: Any) -> None:
    """The search would take the time of a question, half a minute, and have the graph all the while."""
    server = start("--question-time", "30")
    machine = {"type": "node", "count": 40, "with": [{"type": "core", "count": 16}, {"type": "gpu", "count": 4}]}
    send(server, "POST", "/v1/graphs?name=hard", {"fluxres": 1, "name": "hard", "resources": [machine]})
    taken = [f"/hard/node{node}/core{core}" for node in range(35) for core in range(3)]
    assert send(server, "POST", "/v1/graphs/hard/allocate", {"wanted": taken, "job": "j1"})[0] == 200
    slots = [(30, "a", 9, 1), (20, "b", 5, 2), (25, "c", 7, 1)]
    resources = [
        {
            "type": "slot",
            "count": count,
            "label": label,
            "with": [{"type": "core", "count": a}, {"type": "gpu", "count": b}],
        }
        for count, label, a, b in slots
    ]
    tasks = [{"command": ["x"], "slot": "a", "count": {"per_slot": 1}}]
    asked = {"version": 1, "resources": resources, "tasks": tasks, "attributes": {"system": {"duration": 10}}}
    opened = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    body = json.dumps({"wanted": asked}).encode()
    opened.request("POST", "/v1/graphs/hard/match", body, {"content-type": "application/json"})
    time.sleep(0.5)
    opened.close()
    pattern, found = re.compile(r'requests_total\{.*operation="match".*status="(\d+)"'), None
    until_s = time.monotonic() + 60.0
    while found is None and time.monotonic() < until_s:
        time.sleep(0.1)
        found = pattern.search(send(server, "GET", "/metrics")[1].decode())
    assert found is not None
    assert found[1] == "503"  # by itself it would be refused, or end after half a minute
    assert send(server, "GET", "/v1/graphs/hard/jobs")[1]["count"] == 1


def test_errors_tell_nothing_of_the_host(server: Server) -> None:
    for method, path, body in (
        ("GET", "/v1/graphs/nothing/jobs", None),
        ("POST", "/v1/graphs/demo/copy", {"name": "demo"}),
        ("POST", "/v1/graphs?name=demo", DEMO),
        ("DELETE", "/v1/graphs/nothing", None),
        ("POST", "/v1/graphs/nothing/undo", {}),
    ):
        status, document = server.answers(method, path, None if body is None else json.dumps(body).encode())
        assert status in (400, 404, 409), path
        assert server.store.removeprefix("sqlite://") not in json.dumps(document), path


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "."])
def test_a_graph_has_a_name_that_has_an_address(server: Server, name: str) -> None:
    assert server.answers("POST", "/v1/graphs/demo/copy", json.dumps({"name": name}).encode())[0] == 400
    document = {**DEMO, "name": "x"}
    assert server.answers("POST", f"/v1/graphs?name={quote(name, safe='')}", json.dumps(document).encode())[0] == 400
    body = json.dumps({"job": "j", "wanted": "slot/node", "name": name}).encode()
    assert server.answers("POST", "/v1/graphs/demo/child/open", body)[0] == 400
    assert server.answers("GET", "/v1/graphs/demo/jobs")[1]["jobs"] == []


def test_a_store_that_does_not_exist_is_not_begun_by_accident(tmp_path: Path) -> None:
    missing = f"sqlite://{tmp_path}/typo.db"
    for words, environment in ((["--store", missing], {}), ([], {"FLUXRES_STORE": missing})):
        command = [sys.executable, "-m", "fluxres", "serve", "--port", "0", *words]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60, check=False)
        assert (done.returncode, "there is no store" in done.stderr, "--create" in done.stderr) == (4, True, True)
    assert list(tmp_path.iterdir()) == []
    with running(missing) as server:  # with --create
        assert server.answers("GET", "/v1/graphs") == (200, {"graphs": []})

"""Requests that go to their handlers directly get the answers that the framework would give."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fluxres import limits
from fluxres.service.access import Access
from fluxres.service.app import make
from fluxres.service.gate import Gate
from fluxres.service.site import Site
from fluxres.store import Entry
from tests.service.conftest import demo_store

JSON = "application/json"
ROOT = "/v1/graphs/demo"
NODE = "/demo/rack0/node0"


class Answer(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Side:
    """A service in this process, and how many requests its framework has answered."""

    def __init__(self, folder: Path, tokens: Path | None, *, is_express: bool) -> None:
        folder.mkdir()
        self.site = Site(demo_store(folder), limits.SERVICE_QUESTION_SECONDS_MAX, limits.SERVICE_LEASE_SECONDS_DEFAULT)
        self.site.leadership.begin("http://127.0.0.1:80", is_open=tokens is None, may_stand_by=False)
        self.gate: Gate = make(self.site, Access.open(None if tokens is None else str(tokens), None, "127.0.0.1"))
        express: Any = self.gate.app
        self.framework, self.answered = express._framework, 0
        if is_express:
            express._framework = self._counted
        else:
            self.gate.app = self.framework

    async def _counted(self, scope: Any, receive: Any, send: Any) -> None:
        self.answered += 1
        await self.framework(scope, receive, send)

    async def ask(self, path: str, pieces: list[bytes], headers: dict[str, str], query: str = "") -> Answer:
        messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        messages[-1]["more_body"] = False
        said: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            said.append(message)

        length = str(sum(map(len, pieces)))
        given = {"host": "127.0.0.1", "content-length": length, **headers}
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "scheme": "http",
            "http_version": "1.1",
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
            "headers": [(key.encode(), value.encode()) for key, value in given.items()],
            "state": {},
        }
        await self.gate(scope, receive, send)
        body = b"".join(message.get("body", b"") for message in said[1:])
        return Answer(said[0]["status"], dict(said[0]["headers"]), body)

    def asked(self, path: str, body: object, **how: Any) -> Answer:
        pieces = how.pop("pieces", None) or [body if isinstance(body, bytes) else json.dumps(body).encode()]
        headers = {"content-type": JSON, **how.pop("headers", {})}
        return asyncio.run(self.ask(path, pieces, headers, **how))


Sides = tuple[Side, Side]


def sides(folder: Path, tokens: Path | None = None) -> Iterator[Sides]:
    both = Side(folder / "side1", tokens, is_express=True), Side(folder / "side2", tokens, is_express=False)
    yield both
    for side in both:
        side.site.close()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    yield from sides(tmp_path_factory.mktemp("both"))


def same(both: Sides, path: str, body: object, *, is_express: bool, **how: Any) -> Answer:
    """The answer of both sides; `is_express` says whether the framework is passed by."""
    before = both[0].answered
    one, other = (side.asked(path, body, **dict(how)) for side in both)
    assert plain(one) == plain(other)
    assert (both[0].answered == before) == is_express
    return one


def plain(answer: Answer) -> tuple[int, dict[bytes, bytes], bytes]:
    """An answer without what is never the same: the folder of the store, the present time, and the start of the service."""
    body = re.sub(rb"/side./|1\d{9}\.\d+", b"", answer.body)
    headers = {key: re.sub(rb"[0-9a-f]{8}-\d+", b"", value) for key, value in answer.headers.items()}
    return answer.status, headers | {b"content-length": b""}, body


T = 4_000_000_000
"""After now, for all who run this before 2096."""

COURSE: list[tuple[str, object, int]] = [
    ("allocate", {"wanted": "slot/core=2", "job": "a", "start": T, "duration_s": 60}, 200),
    ("allocate", {"wanted": "slot/core=2", "job": "a", "start": T, "duration_s": 60}, 400),
    ("allocate", {"wanted": "slot/core=2", "job": "a", "start": str(T), "duration_s": "60", "grow": True}, 200),
    ("allocate", {"wanted": NODE, "job": "b", "start": T, "end": T + 1e6}, 409),
    ("allocate", {"wanted": "slot/core=99", "job": "c", "start": T}, 400),
    ("allocate", {"wanted": "slot/core=2", "job": "c", "duration_s": 9, "or_reserve": True}, 200),
    ("allocate", {"wanted": "slot/core", "job": "c", "start": T, "end": T + 9, "or_reserve": True}, 400),
    ("allocate_all", {"parts": [{"wanted": "slot/core=3", "job": job} for job in "de"], "start": T + 5, "end": T + 10}, 200),
    ("grow", {"job": "d", "wanted": "slot/core", "start": T + 6}, 200),
    ("shrink", {"job": "d", "wanted": "slot/core", "start": T + 6}, 200),
    ("extend", {"job": "d", "end": T + 12}, 200),
    ("set_state", {"wanted": "/demo/rack1/node1", "state": "drain", "reason": "disk"}, 200),
    ("tag", {"wanted": [NODE], "key": "colour", "value": "red"}, 200),
    ("untag", {"wanted": NODE, "key": "colour"}, 200),
    ("stage", {"wanted": "slot/core", "job": "f", "start": T + 500, "duration_s": 5}, 200),
    ("release", {"stage": "none"}, 409),
    ("free", {"job": "a"}, 200),
    ("free", {"job": "a"}, 404),
    ("expire", {"before": 1}, 200),
    ("events", {"events": [{"event": "tag", "pools": [NODE], "key": "k", "value": None}]}, 200),
    ("events", {"events": [{"event": "grow"}]}, 400),
]


def test_a_course_of_changes(both: Sides) -> None:
    statuses = [same(both, f"{ROOT}/{operation}", body, is_express=True).status for operation, body, _ in COURSE]
    assert statuses == [status for *_, status in COURSE]
    one, other = ([journal_entry(entry) for entry in side.site.store.log("demo")] for side in both)
    assert one == other


def journal_entry(entry: Entry) -> tuple[str, str, dict[str, Any]]:
    """Without what depends on the present time."""
    present = {key: value for key, value in entry.event.items() if not (isinstance(value, int) and value < T * 1_000_000)}
    return entry.command, entry.user, present | {"stage": None}


@pytest.mark.parametrize(
    ("body", "how"),
    [
        (b"", {}),
        (b"{", {}),
        (b"[]", {}),
        (b'{"job":"a"}{', {}),
        (b'{"job":1}', {}),
        (b'{"job":"a","more":1}', {}),
        (b'{"wanted":"node"}', {}),
        (b'{"job":"\xff"}', {}),
        (b'{"job":' + b"[" * 100_000, {}),
        (b'{"job":"none"}', {"query": "pretty=1"}),
        (b'{"job":"none"}', {"headers": {"content-type": "text/plain"}}),
        (b"", {"pieces": [b'{"job":', b'"none"}']}),
    ],
    ids=["empty", "cut", "list", "two", "number", "unknown", "missing", "bytes", "deep", "query", "text", "pieces"],
)
def test_what_is_out_of_the_ordinary_goes_to_the_framework(both: Sides, body: bytes, how: dict[str, Any]) -> None:
    answer = same(both, f"{ROOT}/free", body, is_express=False, **how)
    assert 400 <= answer.status < 500


@pytest.mark.parametrize("path", ["/v1/graphs//free", "/v1/graphs/demo/none", f"{ROOT}/free/", "/v1/graphs/a/b/free", "/v2/free"])
def test_other_paths_go_to_the_framework(both: Sides, path: str) -> None:
    same(both, path, {"job": "none"}, is_express=False)


def test_an_unknown_graph(both: Sides) -> None:
    assert same(both, "/v1/graphs/other/free", {"job": "a"}, is_express=True).status == 404


def test_keys_and_revisions(both: Sides) -> None:
    body, key = {"wanted": "slot/core", "job": "x", "start": T, "end": T + 2}, {"headers": {"idempotency-key": "k"}}
    first = same(both, f"{ROOT}/allocate", body, is_express=True, **key)
    assert same(both, f"{ROOT}/allocate", body, is_express=True, **key).body == first.body
    assert same(both, f"{ROOT}/allocate", {**body, "job": "y"}, is_express=True, **key).status == 409
    stale = {"headers": {"if-match": '"0-0-0"'}}
    assert both[0].asked(f"{ROOT}/free", {"job": "a"}, **stale).status == 412


TOKENS = """
[tokens.watch]
role = "read-only"
token = "watch-0123456789abcdef"

[tokens.sched]
role = "scheduler"
token = "sched-0123456789abcdef"
paths = ["/demo/rack1"]

[tokens.other]
role = "admin"
token = "other-0123456789abcdef"
graphs = ["other"]
"""


@pytest.mark.parametrize("token", ["", "watch", "sched", "other"])
def test_tokens(tmp_path: Path, token: str) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(TOKENS, encoding="ascii")
    tokens.chmod(0o600)
    headers = {"authorization": f"Bearer {token}-0123456789abcdef"} if token else {}
    for both in sides(tmp_path, tokens):
        for operation, body, _ in COURSE:
            one, other = (side.asked(f"{ROOT}/{operation}", body, headers=headers) for side in both)
            assert plain(one) == plain(other)
            if token != "sched":
                assert one.status == (403 if token else 401)

"""specs/openapi.json is what the routes make, and specs/service.md names every route, role and bound."""

from __future__ import annotations

import json
import re
from functools import cache

from fluxres import limits
from fluxres.service.access import Role
from fluxres.service.client import RemoteGraph
from tests.service import openapi
from tests.traceability import ROOT

TEXT = (ROOT / "specs" / "service.md").read_text(encoding="utf-8")


@cache
def paths() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(openapi.FILE.read_text(encoding="utf-8"))["paths"]
    return found


def test_openapi_is_what_the_routes_make() -> None:
    assert openapi.FILE.read_text(encoding="utf-8") == openapi.document(), "python -m tests.service.openapi writes it"


def test_each_route_is_in_the_table() -> None:
    section = TEXT.split("## Routes", 1)[1].split("\n## ", 1)[0]
    for path in paths():
        short = path.removeprefix("/v1/graphs/{graph}") or "/"
        assert re.search(rf"`[^`]*{re.escape(short)}[`?;, ]", section) or f"`{short}" in section, path


def test_each_operation_has_a_text_and_problems() -> None:
    for path, operations in paths().items():
        for method, operation in operations.items():
            assert isinstance(operation, dict)
            assert operation.get("description"), (method, path)
            if path.startswith("/v1"):
                assert "application/problem+json" in operation["responses"]["409"]["content"], (method, path)


def test_each_role_is_named() -> None:
    assert all(f"{role.word}" in TEXT for role in Role)


def test_each_method_of_the_client_is_named() -> None:
    methods = [name for name in vars(RemoteGraph) if not name.startswith("_") and name not in ("close", "root", "summary")]
    assert [name for name in methods if f"`{name}`" not in TEXT] == []


def test_bounds_are_those_of_the_code() -> None:
    section = TEXT.split("## Limits", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|", section, re.MULTILINE)
    assert dict(rows)["items of a page"] == f"{limits.SERVICE_PAGE_MAX:,}"
    assert dict(rows)["event streams"] == f"{limits.SERVICE_STREAMS_MAX:,}"
    assert dict(rows)["requests that wait for a thread"] == str(limits.SERVICE_WAITING_MAX)
    assert (
        dict(rows)["body"]
        == f"{limits.SERVICE_BODY_BYTES_MAX >> 20} MiB, documents {limits.SERVICE_DOCUMENT_BYTES_MAX >> 20} MiB"
    )
    assert dict(rows)["time until the body is there"] == f"{limits.SERVICE_BODY_SECONDS_MAX:g} s"
    assert dict(rows)["time in which a client takes a part of its answer"] == f"{limits.SERVICE_SEND_SECONDS_MAX:g} s"
    assert f"{limits.SERVICE_QUESTION_SECONDS_MAX:g} s" in dict(rows)["a question, or the search for a match"]

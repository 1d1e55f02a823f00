"""Requests to a server as values, its answers, and its problems as the exceptions that a local graph raises."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from fluxres.documents import arguments
from fluxres.errors import (
    STATUS,
    FluxresError,
    InfeasibleRequest,
    InputError,
    InsufficientResources,
    Mistake,
    NotLeader,
    StillHeld,
    StoreError,
    Unavailable,
    UnknownGraph,
)
from fluxres.service.client.addresses import TOKEN
from fluxres.store import journal

_BY_CODE: Final = {error.code: error for error in STATUS}
_QUESTIONS: Final = frozenset(("match", "when", "why", "satisfiable", "diff"))


class Request(NamedTuple):
    """A request.

    Args:
        path: with its query.
        headers: besides those that all requests have.
    """

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = {}

    @property
    def is_question(self) -> bool:
        return self.method == "GET" or self.path.partition("?")[0].rsplit("/", 1)[-1] in _QUESTIONS

    @property
    def may_repeat(self) -> bool:
        """Whether it may be sent again if it is not known whether it was done."""
        return self.is_question or "idempotency-key" in self.headers


def get(path: str, /, **query: Any) -> Request:
    """Ask for a list; parts of the query that are None are left out."""
    return Request("GET", _with_query(path, query))


def send(path: str, document: bytes, *, key: str | None = None, revision: str | None = None, **query: Any) -> Request:
    """Send a document that describes a machine; the rest is as for :func:`get` and :func:`post`."""
    headers = {"content-type": "application/octet-stream", **_conditions(key, revision)}
    return Request("POST", _with_query(path, query), document, headers)


def _with_query(path: str, query: Mapping[str, Any]) -> str:
    said = {key: str(value).lower() if isinstance(value, bool) else value for key, value in query.items() if value is not None}
    return f"{path}?{urlencode(said)}" if said else path


def _conditions(key: str | None, revision: str | None) -> dict[str, str]:
    given = {"idempotency-key": key, "if-match": revision}
    return {name: value for name, value in given.items() if value is not None}


def post(
    path: str,
    body: Mapping[str, Any],
    *,
    key: str | None = None,
    revision: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Request:
    """Ask a question, or change something.

    Args:
        body: fields; those that are None are left out.
        key: an idempotency key, for a change.
        revision: that the graph must have.
        headers: further ones.
    """
    given = {"content-type": "application/json", **(headers or {}), **_conditions(key, revision)}
    said = {name: value for name, value in body.items() if value is not None}
    try:
        content = msgspec.json.encode(said)
    except (TypeError, ValueError, RecursionError):
        name, value = next((item for item in said.items() if not _is_plain(item[1])), ("", said))
        raise arguments.expected("plain values such as text, numbers, lists and mappings", value, name) from None
    return Request("POST", path, content, given)


def _is_plain(value: object) -> bool:
    """Whether a value can be written as JSON."""
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def stream_of(path: str, headers: Mapping[str, str] | None = None) -> Request:
    """Ask for an answer that does not end."""
    return Request("GET", path, headers={**(headers or {}), "accept": "text/event-stream"})


class Reply(NamedTuple):
    """An answer.

    Args:
        body: as bytes.
        revision: its ETag, None if it has none.
        status, headers: of HTTP; the names of the headers in lower case.
    """

    body: bytes
    revision: str | None
    status: int = 200
    headers: Mapping[str, str] = {}

    def document(self) -> Any:
        return msgspec.json.decode(self.body)


T = TypeVar("T")
Call = Generator[Request, Reply, T]
"""What yields requests, is sent their replies, and returns what the method of a local graph returns."""


def of_graph(graph: str, operation: str) -> str:
    """The path of an operation on a graph."""
    return f"/v1/graphs/{quote(graph, safe='')}/{operation}"


def common_headers(token: str | None, user: str | None) -> dict[str, str]:
    """What each request says.

    Args:
        token: that of the environment if None.
        user: who asks, for the journal of a server without tokens; the user that runs this process if None.
    """
    token = os.environ.get(TOKEN) if token is None else token
    said = {"user-agent": "fluxres", "accept": "application/json"}
    if token:
        said["authorization"] = f"Bearer {token}"
    name = journal.os_user() if user is None else user
    if name.isascii() and name.isprintable():
        said["fluxres-user"] = name
    return said


def error_of(status: int, content: bytes, retry_after: str | None = None) -> FluxresError:
    """The exception that a problem tells of: the one that a local graph would raise.

    Args:
        retry_after: this header of the answer.
    """
    try:
        facts = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError:
        return StoreError(f"the server answered with status {status}", hint="is it a fluxres server?")
    kind = _BY_CODE.get(str(facts.get("error")), FluxresError)
    given: dict[str, Any] = {"where": str(facts.get("where", "")), "hint": str(facts.get("hint", ""))}
    if issubclass(kind, InsufficientResources | InfeasibleRequest):  # the part of the request is among the reasons
        given["where"] = re.sub(r"(: )?resources\[.*", "", given["where"])
    reasons = facts.get("reasons")
    if issubclass(kind, InsufficientResources):
        given |= {"earliest": facts.get("earliest"), "reasons": reasons}
    elif issubclass(kind, InfeasibleRequest):
        given["reasons"] = reasons or ()
    elif issubclass(kind, StillHeld):
        given["jobs"] = facts.get("jobs") or ()
    elif issubclass(kind, UnknownGraph):
        given["graph"] = str(facts.get("graph") or "")
    elif issubclass(kind, NotLeader):
        given["leader"] = str(facts.get("leader") or "")
    elif issubclass(kind, Unavailable) and retry_after is not None and retry_after.isdecimal():
        given["retry_after_s"] = int(retry_after)
    if issubclass(kind, InputError) and facts.get("mistakes"):
        found = [Mistake(str(one["where"]), str(one["message"]), str(one["hint"])) for one in facts["mistakes"]]
        return kind.of(found, int(facts.get("unlisted") or 0))
    return kind(str(facts.get("message") or facts.get("detail")), **given)

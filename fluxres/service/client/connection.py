"""Requests to a server over connections that stay open, and its problems as the exceptions that a local graph raises.

A request that fails because the connection broke is sent again, with the same idempotency key, so that it is done once. The token
is in ``$FLUXRES_TOKEN`` unless it is given.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, RemoteDisconnected
from ssl import SSLCertVerificationError
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec

from fluxres import clock, limits
from fluxres.clock import stopwatch
from fluxres.errors import (
    STATUS,
    FluxresError,
    InfeasibleRequest,
    InputError,
    InsufficientResources,
    Mistake,
    NotLeader,
    RateExceeded,
    StillHeld,
    StoreError,
    Unavailable,
    UsageError,
)
from fluxres.service.loopback import is_loopback

TOKEN: Final = "FLUXRES_TOKEN"
_TRIES: Final = 3
_PAUSE_S: Final = 0.2
_BY_CODE: Final = {error.code: error for error in STATUS}


class Address(NamedTuple):
    """A server, and one of its graphs.

    Args:
        secure: whether by HTTPS.
        host, port: of the server.
        graph: its name, None for the one in use.
    """

    secure: bool
    host: str
    port: int
    graph: str | None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' * self.secure}://{host}:{self.port}"


def address(url: str) -> Address:
    """The server and the graph that ``http://host:port?graph=NAME`` names.

    Errors: UsageError.

    >>> address("http://127.0.0.1:7390?graph=demo")
    Address(secure=False, host='127.0.0.1', port=7390, graph='demo')
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(str(error), where=url) from None
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or query.keys() - {"graph"}:
        raise UsageError("expected http://HOST:PORT, with ?graph=NAME or without", where=url)
    if parts.username is not None or parts.password is not None:
        raise UsageError("a token does not belong in an address", where=f"{parts.scheme}://…", hint=f"export {TOKEN}=…")
    secure = parts.scheme == "https"
    return Address(secure, parts.hostname, port or (443 if secure else 80), query.get("graph"))


def addresses(url: str) -> list[Address]:
    """The servers in a list such as ``http://a:7390,http://b:7390?graph=NAME``, of which one leads.

    Errors: UsageError.

    >>> [str(at) for at in addresses("http://a:7390,http://b:7390?graph=demo")]
    ['http://a:7390', 'http://b:7390']
    """
    found = [address(part.strip()) for part in url.split(",")]
    graph = next((at.graph for at in found if at.graph is not None), None)
    return [at._replace(graph=graph) for at in found]


class Reply(NamedTuple):
    """An answer.

    Args:
        body: as bytes.
        revision: its ETag, None if it has none.
    """

    body: bytes
    revision: str | None

    def document(self) -> Any:
        return msgspec.json.decode(self.body)


class Connection:
    """A server, reached over one connection for each thread; or several on one store, of which the leader is found.

    Args:
        at: the servers.
        token: sent with each request; that of the environment if None.
        timeout_s: to wait for an answer.
        user: who asks, for the journal of a server without tokens; the user that runs this process by default.
        keep: whether the connection stays open for the next request.
        follows: whether it goes to the server that leads, and waits for one.
    """

    def __init__(
        self,
        at: Sequence[Address],
        token: str | None = None,
        timeout_s: float = 60.0,
        user: str | None = None,
        *,
        keep: bool = True,
        follows: bool = True,
    ) -> None:
        self.servers = list(at)
        self.at = self.servers[0]
        self._keep, self._follows = keep, follows
        self._timeout_s = timeout_s
        self._thread = threading.local()
        token = os.environ.get(TOKEN) if token is None else token
        self._headers = {"user-agent": "fluxres", "accept": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        name = _os_user() if user is None else user
        if name.isascii() and name.isprintable():
            self._headers["fluxres-user"] = name

    def get(self, path: str, /, **query: Any) -> Reply:
        """Ask for a list. Errors: those of the server; StoreError if it cannot be reached."""
        return self.send("GET", _with(path, query))

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        key: str | None = None,
        revision: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Ask a question, or change something.

        Args:
            body: fields; those that are None are left out.
            key: an idempotency key, for a change.
            revision: that the graph must have.
            headers: further ones.
        """
        given = {"content-type": "application/json", **(headers or {})}
        if key is not None:
            given["idempotency-key"] = key
        if revision is not None:
            given["if-match"] = revision
        said = {name: value for name, value in body.items() if value is not None}
        return self.send("POST", path, msgspec.json.encode(said), given)

    def send(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request, again if the connection broke and that is safe, or to the server that leads."""
        given = {**self._headers, **(headers or {})}
        may_repeat = method == "GET" or "idempotency-key" in given or path.rsplit("/", 1)[-1] in _QUESTIONS
        tries, until_s = _TRIES, stopwatch() + limits.SERVICE_FOLLOW_SECONDS
        while True:
            at = self.at
            try:
                return self._once(at, method, path, body, given)
            except Unavailable as error:  # nothing was changed
                if not self._follows or stopwatch() > until_s or not self._turns(at, error):
                    raise
            except (OSError, HTTPException) as error:
                self._close()
                tries -= 1
                is_over = stopwatch() > until_s if len(self.servers) > 1 else not tries
                if is_over or not may_repeat:
                    raise _unreachable(at, error) from None
                self._turn(at)
            clock.sleep(_PAUSE_S)

    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[bytes]:
        """The lines of an answer that does not end, over a connection of its own.

        Errors: those of the server; StoreError if the connection breaks.
        """
        at = self.at
        opened = self._open(at)
        try:
            opened.request("GET", path, headers={**self._headers, **headers, "accept": "text/event-stream"})
            answer = opened.getresponse()
            if answer.status != 200:
                raise _error(answer.status, answer.read())
            while line := answer.readline():
                yield line.rstrip(b"\r\n")
        except Unavailable as error:
            self._turns(at, error)
            raise
        except (OSError, HTTPException) as error:
            self._turn(at)
            raise _unreachable(at, error) from None
        finally:
            opened.close()

    # -- which server --------------------------------------------------------------------------------------------------

    @property
    def is_one_of_several(self) -> bool:
        """Whether there may be another server that takes over."""
        return len(self.servers) > 1

    def _turns(self, at: Address, error: Unavailable) -> bool:
        """Whether another server, or the same one later, may do what this one does not."""
        if isinstance(error, RateExceeded):
            return False
        if not isinstance(error, NotLeader):
            self._turn(at)
            return self.is_one_of_several
        if not error.leader:
            self._turn(at)
            return True
        leader = followed(at, error.leader)
        if leader is None:
            self._turn(at)
            return self.is_one_of_several
        if leader not in self.servers:
            self.servers.append(leader)
        self.at = leader
        return True

    def _turn(self, at: Address) -> None:
        """Ask the next server, unless another thread has turned already."""
        if self.at == at and at in self.servers:
            self.at = self.servers[(self.servers.index(at) + 1) % len(self.servers)]

    def _once(self, at: Address, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        opened = self._of_thread(at)
        # A server refuses a body that is too long before all of it is sent; its answer says so.
        with suppress(BrokenPipeError):
            opened.request(method, path, body, dict(headers))
        answer: HTTPResponse = opened.getresponse()
        content = answer.read()
        if not self._keep:
            self._close()
        if answer.status >= 400:
            raise _error(answer.status, content)
        return Reply(content, answer.headers.get("etag"))

    def _of_thread(self, at: Address) -> HTTPConnection:
        opened: HTTPConnection | None = getattr(self._thread, "opened", None)
        if opened is None or self._thread.at != at:
            self._close()
            opened = self._thread.opened = self._open(at)
            self._thread.at = at
        return opened

    def _open(self, at: Address) -> HTTPConnection:
        kind = HTTPSConnection if at.secure else HTTPConnection
        return kind(at.host, at.port, timeout=self._timeout_s)

    def _close(self) -> None:
        opened: HTTPConnection | None = getattr(self._thread, "opened", None)
        if opened is not None:
            opened.close()
            self._thread.opened = None

    def close(self) -> None:
        """Close the connection of this thread."""
        self._close()


def _unreachable(at: Address, error: Exception) -> StoreError:
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, SSLCertVerificationError):
        hint = "if you trust its certificate: export SSL_CERT_FILE=FILE (PEM)"
        return StoreError(f"the certificate of the server is refused: {error.verify_message}", where=str(at), hint=hint)
    hint = "is `fluxres serve` running?"
    if isinstance(error, RemoteDisconnected) and not at.secure:
        hint = "does it speak HTTPS?"
    return StoreError(f"the server cannot be reached: {said}", where=str(at), hint=hint)


def followed(at: Address, url: str) -> Address | None:
    """The server that another one names as the leader, if it is one to go to.

    An address of a machine itself means something on that machine only, and who asked over HTTPS does not go on without.
    """
    try:
        found = address(url)._replace(graph=at.graph)
    except UsageError:
        return None
    may = (not is_loopback(found.host) or is_loopback(at.host)) and found.secure >= at.secure
    return found if may else None


_QUESTIONS: Final = frozenset(("match", "when", "why", "satisfiable"))


def _with(path: str, query: Mapping[str, Any]) -> str:
    said = {key: str(value).lower() if isinstance(value, bool) else value for key, value in query.items() if value is not None}
    return f"{path}?{urlencode(said)}" if said else path


def of_graph(graph: str, operation: str) -> str:
    """The path of an operation on a graph."""
    return f"/v1/graphs/{quote(graph, safe='')}/{operation}"


def _os_user() -> str:
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):
        return f"uid {os.geteuid()}"


def _error(status: int, content: bytes) -> FluxresError:
    """The exception that a problem tells of: the one that a local graph would raise."""
    try:
        facts = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError:
        return StoreError(f"the server answered with status {status}", hint="is it a fluxres server?")
    kind = _BY_CODE.get(str(facts.get("error")), FluxresError)
    given: dict[str, Any] = {"where": str(facts.get("where", "")), "hint": str(facts.get("hint", ""))}
    reasons = facts.get("reasons")
    if issubclass(kind, InsufficientResources):
        given |= {"earliest": facts.get("earliest"), "reasons": reasons}
    elif issubclass(kind, InfeasibleRequest):
        given["reasons"] = reasons or ()
    elif issubclass(kind, StillHeld):
        given["jobs"] = facts.get("jobs") or ()
    elif issubclass(kind, NotLeader):
        given["leader"] = str(facts.get("leader") or "")
    elif issubclass(kind, Unavailable):
        given["retry_after_s"] = 1
    if issubclass(kind, InputError) and facts.get("mistakes"):
        found = [Mistake(str(one["where"]), str(one["message"]), str(one["hint"])) for one in facts["mistakes"]]
        return kind.of(found, int(facts.get("unlisted") or 0))
    return kind(str(facts.get("message") or facts.get("detail")), **given)

"""Requests to the servers of an etcd, one of which may be down.

A request that was interrupted is sent to the next server, so every request must do no harm if it is done twice. Each wait has
an end.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import weakref
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, TypeVar

import msgspec

from fluxres import limits
from fluxres.errors import InDoubt, StoreError, StoreUnreachable
from fluxres.store.etcd import wire
from fluxres.store.etcd.address import Address

T = TypeVar("T")

_IDLE_MAX: Final = 4
"""Connections that are kept for the next request."""
_UNAVAILABLE: Final = (1, 4, 13, 14)
"""Codes of a server that has no leader, or stops."""
_CLOSED: Final = (ConnectionError, HTTPException)
"""What an idle connection raises if the server closed it meanwhile."""
_INVALID_TOKEN: Final = "invalid auth token"
_LOGINS: Final = 2
"""How often a request is sent again with a new token."""
_ENDED_SAID_MAX: Final = 200


class _Connection(HTTPConnection):
    """Sends the head and the body of a request at once, which spares a system call."""

    _parts = b""

    def send(self, data: Any) -> None:
        self._parts += data

    def getresponse(self) -> HTTPResponse:
        parts, self._parts = self._parts, b""
        super().send(parts)
        return super().getresponse()


class _TlsConnection(_Connection, HTTPSConnection):
    """With TLS."""


class _Post(msgspec.Struct):
    """A request that may be sent several times.

    Attributes:
        unsure: how often it was sent without an answer that says whether it was done.
    """

    path: str
    body: bytes
    timeout_s: float
    unsure: int = 0


class Client:
    """Sends requests.  Threads may share it; a fork of the process gets connections of its own.

    Args:
        address: of the servers.
    """

    def __init__(self, address: Address) -> None:
        self.address, self.url = address, str(address)
        self._guard = threading.Lock()
        self._server = 0
        self._idle: list[HTTPConnection] = []
        weakref.finalize(self, _close, self._idle)
        self._token = ""
        self._process = os.getpid()
        self._tls = self._tls_context() if address.is_tls else None

    def call(self, path: str, request: Any, kind: type[T], *, timeout_s: float | None = None) -> T:
        """The answer to a request.

        Errors: StoreError, as etcd refuses it; StoreUnreachable if no server answers in time.
        """
        return self._answer(_post(path, request, timeout_s), kind)

    def call_unless(self, code: int, path: str, request: Any, kind: type[T], *, timeout_s: float | None = None) -> T | None:
        """As :meth:`call`; None if it is refused with this code."""
        found = self._asked(_post(path, request, timeout_s), kind)
        if isinstance(found, wire.Failure):
            if found.code == code:
                return None
            raise translated(found, self.url)
        return found

    def transact(
        self,
        operations: list[wire.Operation],
        compare: list[wire.Comparison],
        otherwise: list[wire.Operation],
        *,
        is_commit: bool = False,
    ) -> wire.Outcome:
        """One transaction: `operations` if all comparisons hold, else `otherwise`.

        Args:
            is_commit: whether it matters if it was done although there is no answer.

        Errors: those of :meth:`call`; InDoubt if a commit may have been done.
        """
        post = _post("/v3/kv/txn", {"compare": compare, "success": operations, "failure": otherwise})
        try:
            found = self._answer(post, wire.Outcome)
        except StoreError as error:
            if is_commit and post.unsure:
                raise in_doubt(error.message, self.url) from error
            raise
        found.may_be_second = post.unsure > 0
        return found

    def ask(self, operations: list[wire.Operation]) -> wire.Outcome:
        """Several operations at once."""
        return self.transact(operations, [], [])

    def wait_for_deletion(self, key: bytes, revision: int, timeout_s: float) -> bool:
        """Wait until a key is deleted after this revision, or until the timeout; False if the server did not tell."""
        request = {"create_request": {"key": key, "start_revision": revision + 1, "filters": ["NOPUT"]}}
        with suppress(OSError, HTTPException), closing(self._opened(self.address.servers[self._server], timeout_s)) as connection:
            response = _sent(connection, "/v3/watch", msgspec.json.encode(request), self._token)
            try:
                return all(response.readline() for _ in range(2))  # the watch was created; the key was deleted
            except TimeoutError:
                return True
        return False

    def close(self) -> None:
        with self._guard:
            _close(self._idle)

    # -- one request -------------------------------------------------------------------------------------------------

    def _answer(self, post: _Post, kind: type[T]) -> T:
        found = self._asked(post, kind)
        if isinstance(found, wire.Failure):
            raise translated(found, self.url)
        return found

    def _asked(self, post: _Post, kind: type[T]) -> T | wire.Failure:
        said = ""
        for _ in range(len(self.address.servers) + _LOGINS):
            token, number = self._logged_in(), self._server
            try:
                status, content = self._exchanged(self.address.servers[number], post, token)
            except (OSError, HTTPException) as error:
                said = _why(error)
            else:
                found = self._read(status, content, kind)
                if not isinstance(found, wire.Failure) or found.code not in _UNAVAILABLE:
                    post.unsure -= 1
                if not isinstance(found, wire.Failure):
                    return found
                said = found.message
                if _INVALID_TOKEN in said and token:  # it lasts for five minutes
                    with self._guard:
                        if self._token == token:  # another thread may have a new one
                            self._token = ""
                    continue
                if found.code not in _UNAVAILABLE:
                    return found
            if len(self.address.servers) == 1:
                break
            with self._guard:
                if self._server == number:
                    self._server = (number + 1) % len(self.address.servers)
                    _close(self._idle)
        hint = "check the server and the address"
        raise StoreUnreachable(f"the server cannot be reached, or does not answer: {said}", where=self.url, hint=hint)

    def _read(self, status: int, content: bytes, kind: type[T]) -> T | wire.Failure:
        try:
            if status == 200:
                return msgspec.json.decode(content, type=kind, strict=False)
            return msgspec.json.decode(content, type=wire.Failure, strict=False)
        except msgspec.MsgspecError:
            said = " ".join(content[:80].decode("utf-8", "replace").split())
            hint = "check host and port; etcd listens for clients on port 2379"
            raise StoreError(
                f"what answers is not etcd 3.4 or later (HTTP {status}: {said})", where=self.url, hint=hint
            ) from None

    def _exchanged(self, server: tuple[str, int], post: _Post, token: str) -> tuple[int, bytes]:
        connection = self._taken()
        if connection is not None:
            post.unsure += 1
            try:
                return self._exchange(connection, post.path, post.body, post.timeout_s, token)
            except _CLOSED:
                self.close()
        connection = self._opened(server, post.timeout_s)
        post.unsure += 1
        return self._exchange(connection, post.path, post.body, post.timeout_s, token)

    def _exchange(self, connection: HTTPConnection, path: str, body: bytes, timeout_s: float, token: str) -> tuple[int, bytes]:
        try:
            connection.sock.settimeout(timeout_s)
            response = _sent(connection, path, body, token)
            content = response.read()
        except BaseException:
            connection.close()
            raise
        with self._guard:
            is_kept = not response.will_close and len(self._idle) < _IDLE_MAX
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()
        return response.status, content

    def _taken(self) -> HTTPConnection | None:
        with self._guard:
            if self._process != os.getpid():  # the parent goes on using the connections
                self._process = os.getpid()
                _close(self._idle)
            return self._idle.pop() if self._idle else None

    def _opened(self, server: tuple[str, int], timeout_s: float) -> HTTPConnection:
        connect_s = min(limits.ETCD_CONNECT_SECONDS, timeout_s)
        connection = (
            _Connection(*server, timeout=connect_s)
            if self._tls is None
            else _TlsConnection(*server, timeout=connect_s, context=self._tls)
        )
        connection.connect()
        connection.sock.settimeout(timeout_s)
        return connection

    # -- who asks ----------------------------------------------------------------------------------------------------

    def _logged_in(self) -> str:
        """The token to ask with; empty if there are no users."""
        token = self._token
        return token if token or not self.address.user else self._log_in()

    def _log_in(self) -> str:
        """A new token; empty if no server answers."""
        request = msgspec.json.encode({"name": self.address.user, "password": self.address.password})
        for server in (*self.address.servers[self._server :], *self.address.servers[: self._server]):
            with suppress(OSError, HTTPException):
                answer = self._exchange(
                    self._opened(server, limits.ETCD_REQUEST_SECONDS),
                    "/v3/auth/authenticate",
                    request,
                    limits.ETCD_REQUEST_SECONDS,
                    "",
                )
                found = self._read(*answer, wire.Token)
                if isinstance(found, wire.Token):
                    self._token = found.token
                    return found.token
                raise translated(found, self.url)
        return ""

    def _tls_context(self) -> ssl.SSLContext:
        given = self.address
        try:
            context = ssl.create_default_context(cafile=given.cacert or None)
            if given.cert:
                context.load_cert_chain(given.cert, given.key or None)
        except OSError as error:
            said = f"the files for TLS cannot be used: {error.strerror or error}"
            raise StoreError(said, where=self.url, hint="check the options cacert, cert and key of the address") from None
        return context


def _post(path: str, request: Any, timeout_s: float | None = None) -> _Post:
    return _Post(path, msgspec.json.encode(request), limits.ETCD_REQUEST_SECONDS if timeout_s is None else timeout_s)


def in_doubt(why: str, url: str) -> InDoubt:
    """The error of a commit that may have been made."""
    return InDoubt(f"{why}; the change may or may not have been made", where=url, hint="check the current state")


def _sent(connection: HTTPConnection, path: str, body: bytes, token: str) -> HTTPResponse:
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = token
    connection.request("POST", path, body, headers)
    return connection.getresponse()


def _close(idle: list[HTTPConnection]) -> None:
    while idle:
        idle.pop().close()


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, socket.gaierror):
        return f"unknown host ({error.strerror})"
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(said).split())[:_ENDED_SAID_MAX]


def translated(failure: wire.Failure, url: str) -> StoreError:
    """A refusal of etcd in plain words."""
    said = failure.message.removeprefix("etcdserver: ").removeprefix("mvcc: ")
    if "database space exceeded" in said:
        hint = "compact and defragment etcd, then `etcdctl alarm disarm`; or raise its --quota-backend-bytes"
        return StoreError("no space left: etcd has reached its quota; nothing was changed", where=url, hint=hint)
    if "has been compacted" in said:
        hint = "try again; if it happens often, raise etcd's --auto-compaction-retention"
        return StoreError("the state that was being read is gone: etcd was compacted meanwhile", where=url, hint=hint)
    if "request is too large" in said or "too many operations" in said:
        hint = "etcd's --max-request-bytes and --max-txn-ops must not be below their defaults"
        return StoreError(f"etcd refuses the request: {said}", where=url, hint=hint)
    if failure.code == 16 or "authentication failed" in said or "user name is empty" in said or "is not enabled" in said:
        hint = "give user and password as etcd://user:password@host, or in $ETCDCTL_USER"
        return StoreError(f"etcd refuses the user: {said}", where=url, hint=hint)
    if failure.code == wire.FORBIDDEN:
        hint = "let an administrator of etcd grant the user read and write on the prefix"
        return StoreError(f"may not be used: {said}", where=url, hint=hint)
    return StoreError(f"etcd answers: {said or f'code {failure.code}'}", where=url, hint="check the server's log")

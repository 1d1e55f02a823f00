"""`fluxres serve`: the application in uvicorn, until a signal ends it.

SIGTERM and Ctrl-C end it in order: it is not ready any more, refuses new requests, ends its event streams, answers what it has
begun, and closes the store. Another Ctrl-C ends it without waiting for answers that are being sent. SIGHUP reads the tokens and
the certificate again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from os import uname
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any, Final

import uvicorn

from fluxres import clock, limits
from fluxres.errors import FluxresError, StoreError, UsageError
from fluxres.service import scopes
from fluxres.service.access import Access, Caller
from fluxres.service.app import make
from fluxres.service.client import child as remote
from fluxres.service.client.addresses import addresses
from fluxres.service.client.store import is_server
from fluxres.service.connection import Connection
from fluxres.service.gate import Gate
from fluxres.service.leadership import Leadership
from fluxres.service.log import Lines
from fluxres.service.notify import notify
from fluxres.service.relay import Relay
from fluxres.service.site import Site
from fluxres.service.tenancy import Tenancy
from fluxres.store.child import open_child
from fluxres.store.url import VARIABLE, StoreUrl, parse

_BACKLOG: Final = 2_048
_OTHER_FILES: Final = 512
"""Requests, stores and the rest."""
_WILDCARDS: Final = ("0.0.0.0", "::", "")

_log = logging.getLogger("fluxres.service")


@dataclass(frozen=True, slots=True)
class Listening:
    """Where and how to listen.

    Args:
        host, port: 0 is any free port.
        certificate, key: files in PEM; both for HTTPS, or neither.
        question_s: seconds that a question may take.
        url: address under which others reach this server; by default made from the host.
        may_stand_by: whether it waits as long as another server leads the store.
        life_s: of its lease, in seconds.
        may_create: whether it begins an SQLite store where there is none.
        graph, job, name: to serve only what this job of a graph holds, as a graph of that name (`open_child`).
        is_json_log: whether the log has a JSON object in each line.
        is_verbose: whether it has a line for each request.
    """

    host: str = "127.0.0.1"
    port: int = 7390
    certificate: Path | None = None
    key: Path | None = None
    question_s: float = limits.SERVICE_QUESTION_SECONDS_MAX
    url: str | None = None
    may_stand_by: bool = True
    life_s: float = limits.SERVICE_LEASE_SECONDS_DEFAULT
    is_json_log: bool = False
    is_verbose: bool = False
    may_create: bool = False
    graph: str | None = None
    job: str | None = None
    name: str | None = None


class _Server(uvicorn.Server):
    """A server that lets its streams end before it waits for what is open."""

    def __init__(self, config: uvicorn.Config, gate: Gate, site: Site | Relay, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._gate, self._site, self._ready = gate, site, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started:
            self._ready()
            notify("READY=1")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.force_exit:  # its base class gives nothing back then: neither the lease of the store nor what a child holds
            await self.lifespan.shutdown()

    def end(self) -> None:
        """End in order; any thread may call it."""
        self._loop.call_soon_threadsafe(self.handle_exit, signal.SIGTERM, None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._gate.is_draining = True
        notify("STOPPING=1")
        self._loop.call_soon_threadsafe(self._site.drain)
        # Unlike its base class, it does not raise the signal again at the end: an orderly stop is no failure.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def serve(store: str | None, access: Access, listening: Listening, tell: Callable[[str, Leadership | Tenancy], None]) -> None:
    """Serve the graphs of a store until a signal comes.

    Args:
        store: its URL; the default one if None.
        tell: called with the address once it listens, with the host name for all addresses, and with the leadership of the store.

    Errors: StoreError for an address that is in use or not of this machine; StoreBusy for a store that another server leads, if
    this one may not stand by; UsageError for a certificate.
    """
    _log_to_stderr(is_json=listening.is_json_log, is_verbose=listening.is_verbose)
    _raise_file_limit()
    if (listening.certificate is None) != (listening.key is None):
        raise UsageError("a certificate needs its key, and a key its certificate", hint="give --tls-cert and --tls-key")
    site, gate = _site(store, access, listening)
    child = site.child
    with _listen(listening.host, listening.port) as bound:
        scheme = "http" if listening.certificate is None else "https"
        port = bound.getsockname()[1]
        address = _address(scheme, listening.host, port)
        reached = listening.url or _address(scheme, uname().nodename if listening.host in _WILDCARDS else listening.host, port)
        config = uvicorn.Config(
            gate,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            backlog=_BACKLOG,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=round(limits.SERVICE_DRAIN_SECONDS),
            ws="none",
            http=Connection,
            proxy_headers=False,
            ssl_certfile=listening.certificate,
            ssl_keyfile=listening.key,
        )
        try:
            config.load()
        except OSError as error:
            raise _refused(error, listening) from None
        with suppress(ValueError, AttributeError):
            signal.signal(signal.SIGHUP, lambda *_: _read_again(access, listening, config.ssl))
        leadership = site.leadership
        leadership.begin(reached, is_open=access.is_open, may_stand_by=listening.may_stand_by)
        server = _Server(config, gate, site, lambda: tell(reached if listening.host in _WILDCARDS else address, leadership))
        if child is not None:
            child.on_loss = server.end
        with suppress(KeyboardInterrupt):
            server.run(sockets=[bound])
        if child is not None:
            child.require()


def _site(store: str | None, access: Access, listening: Listening) -> tuple[Site | Relay, Gate]:
    """What is served: a store, or what a job holds in one, which may be that of another server."""
    url = os.environ.get(VARIABLE) if store is None else store
    asked: dict[str, Any] = {"graph": listening.graph, "job": listening.job, "name": listening.name, "lease_s": listening.life_s}
    if url is not None and is_server(url):
        if listening.job is None:
            hint = "give --job J to serve what a job of its graph holds"
            raise UsageError("this is a server already", where=url, hint=hint)
        relay = Relay(remote.begin(url, **asked), addresses(url))
        return relay, relay.gate(access)
    if url is not None and not listening.may_create:
        _require_store(url)
    child = None if listening.job is None else open_child(store, **asked, command="fluxres serve")
    site = Site(store, listening.question_s, listening.life_s, child)
    _warn_of_scopes(site, access.callers)  # a store that cannot be read is an error of this command
    access.on_read = lambda callers: Thread(target=_warn_again, args=(site, callers), name="fluxres-tokens", daemon=True).start()
    return site, make(site, access)


def _warn_of_scopes(site: Site, callers: list[Caller]) -> None:
    """Log what tokens are for that is not there. Errors: StoreError."""
    for said in scopes.unknown([row.name for row in site.graphs()], site.store.load, callers):
        _log.warning("%s", said)


def _warn_again(site: Site, callers: list[Caller]) -> None:
    """The same for tokens that were read again, in a thread of its own: requests do not wait for graphs to be read."""
    try:
        _warn_of_scopes(site, callers)
    except FluxresError as error:
        _log.error("what the tokens are for could not be checked: %s", error)


def _read_again(access: Access, listening: Listening, used: ssl.SSLContext | None) -> None:
    """Read the tokens, and the certificate with its key; with a mistake in one of them, it stays as it is."""
    access.reload()
    if used is None or listening.certificate is None:
        return
    try:
        # First apart: a certificate that does not belong to the key would take the old key away.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), used):
            context.load_cert_chain(listening.certificate, listening.key)
    except OSError as error:
        _log.error("the certificate stays as it is: %s", _refused(error, listening))
    else:
        _log.info("the certificate was read again: %s", listening.certificate)


def _refused(error: OSError, listening: Listening) -> UsageError:
    """What is wrong with a certificate or its key."""
    where = str(listening.certificate)
    if isinstance(error, ssl.SSLError):
        return UsageError("is no certificate (PEM) of this key", where=where, hint=f"give one that belongs to {listening.key}")
    return UsageError(error.strerror or str(error), where=where)


def _require_store(url: str) -> None:
    """Refuse an SQLite store that does not exist: its address may be misspelt, and an empty one would be served.

    Errors: StoreError.
    """
    at = parse(url)
    if isinstance(at, StoreUrl) and not at.path.exists():
        hint = "check the address; `fluxres load SOURCE` with it makes the store, and so does --create"
        raise StoreError("there is no store", where=url, hint=hint)


def _address(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _raise_file_limit() -> None:
    """Allow a file for each stream: a process usually starts with 1,024, and is allowed more if it asks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.SERVICE_STREAMS_MAX + _OTHER_FILES
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        _log.warning("the limit of open files is %d (ulimit -n): about %d streams can be open", allowed, allowed - _OTHER_FILES)


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # The system ends connections whose other side takes nothing, also those whose answer waits in its buffers.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(limits.SERVICE_SEND_SECONDS_MAX * 1000))
        bound.bind(address)
    except OSError as error:
        raise StoreError(error.strerror or str(error), where=f"{host}:{port}", hint="choose another --host or --port") from None
    bound.listen(_BACKLOG)
    bound.set_inheritable(True)
    return bound


class _JsonLines(logging.Formatter):
    """A JSON object in each line."""

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = {"time": round(clock.system(), 6), "level": record.levelname.lower(), "logger": record.name}
        facts |= getattr(record, "facts", None) or {"message": record.getMessage()}
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return json.dumps(facts)


def _log_to_stderr(*, is_json: bool, is_verbose: bool) -> None:
    handler = Lines()
    handler.setFormatter(_JsonLines() if is_json else logging.Formatter("fluxres: %(levelname)s %(message)s"))
    for name in ("fluxres.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO if name == "fluxres.service" else logging.WARNING)
    logging.getLogger("fluxres.service.access").setLevel(logging.INFO if is_verbose else logging.WARNING)

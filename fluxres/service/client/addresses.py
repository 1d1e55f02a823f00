"""Addresses of servers and of their graphs."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from fluxres.errors import UsageError
from fluxres.service.loopback import is_loopback

TOKEN: Final = "FLUXRES_TOKEN"
"""The variable with the token."""
_EXPECTED: Final = "expected http://HOST:PORT, with ?graph=NAME or without"


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
    except ValueError:
        raise UsageError(_EXPECTED, where=url) from None
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or query.keys() - {"graph"}:
        raise UsageError(_EXPECTED, where=url)
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

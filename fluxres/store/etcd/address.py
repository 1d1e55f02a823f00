"""The address of a store in etcd: servers, user, prefix of the keys, and files for TLS."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from fluxres.errors import StoreError
from fluxres.store.url import split_server

_PORT: Final = 2379
_PREFIX: Final = "/fluxres"
_OPTIONS: Final = ("cacert", "cert", "key")
_HINT: Final = "write etcd://host:2379/prefix, with more servers as host1:2379,host2:2379"


class Address(msgspec.Struct, frozen=True):
    """A parsed address.

    Args:
        servers: hosts and ports, in the order in which they are tried.
        prefix: of all keys; begins and ends with a slash.
        user, password: empty where etcd does not ask for them.
        is_tls: whether the servers speak TLS.
        cacert, cert, key: files for TLS, named as for etcdctl; empty for the defaults of this machine.
    """

    servers: tuple[tuple[str, int], ...]
    prefix: str
    user: str = ""
    password: str = ""
    is_tls: bool = False
    cacert: str = ""
    cert: str = ""
    key: str = ""

    def __str__(self) -> str:
        """Without the password.

        >>> str(parsed("etcd://ada:secret@a,b:2380/site"))
        'etcd://ada@a:2379,b:2380/site'
        """
        user = f"{self.user}@" if self.user else ""
        servers = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.servers)
        return f"etcd{'s' * self.is_tls}://{user}{servers}{self.prefix[:-1]}"


def parsed(text: str) -> Address:
    """Parse ``etcd://[user[:password]@]host[:port][,host[:port]…][/prefix]``; with ``etcds:``, the servers speak TLS.

    A user who is not in the address is taken from ``$ETCDCTL_USER`` (``name:password``) and ``$ETCDCTL_PASSWORD``.

    Errors: StoreError.
    """
    address, _, query = text.partition("?")
    scheme, login, hosts, path = split_server(address)
    user, _, password = login.partition(":")
    if not login:
        user, _, password = os.environ.get("ETCDCTL_USER", "").partition(":")
        password = password or os.environ.get("ETCDCTL_PASSWORD", "")
    servers = tuple(_server(host, text) for host in hosts)
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := set(options) - set(_OPTIONS):
        known = "graph, cacert, cert and key"
        raise StoreError(
            f"'{min(unknown)}' is not an option of a store in etcd", where=_safe(text), hint=f"the options are {known}"
        )
    if options and scheme != "etcds":
        raise StoreError("files for TLS, but not TLS", where=_safe(text), hint="begin the address with etcds://")
    prefix = "/" + unquote(path).strip("/")
    return Address(
        servers, f"{_PREFIX if prefix == '/' else prefix}/", unquote(user), unquote(password), scheme == "etcds", **options
    )


def _server(text: str, url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise StoreError(f"'{text}' is not a server", where=_safe(url), hint=_HINT)
    return host, _PORT if port is None else port


def _safe(url: str) -> str:
    """An address without what is before its servers, which may be a password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"

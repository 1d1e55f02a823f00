"""Addresses of stores.

All kinds of stores have one form of address, so a new kind needs a new scheme but no new command. ``sqlite:///site.db`` is read
as by most tools, as a file in the current directory; a store in the root directory, which is rare, needs four slashes.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import msgspec

from fluxres.documents.suggestion import did_you_mean
from fluxres.errors import StoreError

SCHEMES: Final = ("sqlite", *(_SERVERS := ("postgresql", "etcd", "etcds")))
_SUFFIXES: Final = (".db", ".sqlite", ".sqlite3")
VARIABLE: Final = "FLUXRES_STORE"


class StoreUrl(msgspec.Struct, frozen=True):
    """A parsed address.

    Args:
        path: of the SQLite file, absolute.
        graph: name of the graph, None for the default one.
        private: whether the file and its directory are created for the owner only.
    """

    path: Path
    graph: str | None = None
    private: bool = False

    def __str__(self) -> str:
        return f"sqlite://{self.path}"


class ServerUrl(msgspec.Struct, frozen=True):
    """The address of a store that a server keeps.

    Args:
        address: as the client library of the server reads it.
        graph: name of the graph, None for the default one.
    """

    address: str
    graph: str | None = None

    @property
    def path(self) -> Path:
        """A file of this machine in place of the store."""
        number = hashlib.blake2b(self.address.encode(), digest_size=8).hexdigest()
        return _data_folder() / f"{self.address.partition(':')[0]}-{number}"


def is_store_url(text: str) -> bool:
    """Whether this is the address of a store and not of a file to read: a store scheme, or a path with the extension of a
    database.

    >>> [is_store_url(t) for t in ("sqlite:///tmp/a.db", "site.db", "etcd://host", "cluster.yaml")]
    [True, True, True, False]
    """
    scheme, colon, _ = text.partition(":")
    return (bool(colon) and scheme in SCHEMES) or text.endswith(_SUFFIXES)


def parse(text: str) -> StoreUrl | ServerUrl:
    """Parse the address of a store.

    Args:
        text: ``sqlite:///abs/path.db``, ``sqlite:////path.db``, ``sqlite:path.db`` or ``sqlite:///name.db`` (both in the
            current directory), each with ``?graph=NAME`` or without; or a path.

    Errors: StoreError with the known schemes.

    >>> parse("sqlite:///srv/site.db?graph=test")
    StoreUrl(path=PosixPath('/srv/site.db'), graph='test', private=False)
    >>> parse("sqlite:///site.db").path == parse("site.db").path == Path.cwd() / "site.db"
    True
    """
    if "\0" in text:
        raise StoreError("a NUL character in the address of a store", where=repr(text))
    scheme, colon, rest = text.partition(":")
    if not colon or "/" in scheme or Path(text).exists():
        return StoreUrl(_absolute(text, text))
    if (meant := _meant(scheme, rest)) is not None:
        raise StoreError("is no address of a store", where=without_password(text), hint=did_you_mean([without_password(meant)]))
    if scheme in _SERVERS:
        return _server(text)
    if scheme not in SCHEMES:
        known = "sqlite:///path/to/file.db, postgresql://user@host/name, etcd://host/prefix and http://host:port"
        if scheme in ("http", "https"):
            hint = "`--store` takes it for most commands, `fluxres.connect` in Python"
            raise StoreError("is the address of a server, and not of a store", where=without_password(text), hint=hint)
        raise StoreError(f"unknown store scheme '{scheme}'", where=without_password(text), hint=f"known: {known}")
    address, _, query = rest.partition("?")
    return StoreUrl(_absolute(_file(unquote(address)), text), _graph(query, text))


def _meant(scheme: str, rest: str) -> str | None:
    """What was meant by an address with another name of a scheme, with too few slashes, or without a scheme.

    >>> _meant("postgres", "//db/site"), _meant("etcd", "/db:2379/site"), _meant("db", "7390")
    ('postgresql://db/site', 'etcd://db:2379/site', 'http://db:7390')
    """
    known = "postgresql" if scheme in ("postgres", "pgsql") else scheme
    if known in (*_SERVERS, "http", "https"):
        return None if known == scheme and rest.startswith("//") else f"{known}://{rest.lstrip('/')}"
    return f"http://{scheme}:{rest}" if rest.partition("/")[0].isdecimal() and known not in SCHEMES else None


def without_password(text: str) -> str:
    """An address, or a word of a command that has one, without its password.

    >>> without_password("postgres://ada:top/secret@db/site"), without_password("--store=etcd://ada:x@a:2379,b:2379/site")
    ('postgres://ada@db/site', '--store=etcd://ada@a:2379,b:2379/site')
    >>> without_password("postgresql:///site?user=ada&password=secret&port=5433"), without_password("slot=1/node")
    ('postgresql:///site?user=ada&password=…&port=5433', 'slot=1/node')
    """
    if "://" not in text:
        return text
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1…", re.sub(r"(://[^/@:]*):[^@]*@", r"\1@", text))


def split_server(address: str) -> tuple[str, str, list[str], str]:
    """The scheme, the login, the servers and the path of an address without options.

    ``urllib.parse.urlsplit`` refuses several servers of which a later one has brackets.

    >>> split_server("etcds://ada:secret@a:1,[::1]:2/site")
    ('etcds', 'ada:secret', ['a:1', '[::1]:2'], 'site')
    """
    scheme, _, rest = address.partition("://")
    network, _, path = rest.partition("/")
    login, _, hosts = network.rpartition("@")
    return scheme, login, hosts.split(","), path


def _server(text: str) -> ServerUrl:
    """The address of a server: options other than the graph are those of its client library."""
    servers, _, query = text.partition("?")  # as it is: urlunsplit drops the slashes of postgresql:///name
    for host in split_server(servers)[2]:
        try:
            urlsplit(f"//{host}")
        except ValueError as error:  # brackets that are not of an IPv6 address; the text may have a password
            raise StoreError(f"the address of the store cannot be read: {error}", hint="write etcd://[::1]:2379/prefix") from None
    options = parse_qsl(query, keep_blank_values=True)
    graph = next((value for key, value in options if key == "graph" and value), None)
    rest = urlencode([(key, value) for key, value in options if key != "graph"])
    return ServerUrl(f"{servers}?{rest}" if rest else servers, graph)


def _file(address: str) -> str:
    if address.startswith("////"):
        return address[3:]
    if address.startswith("///"):
        name = address[3:]
        return f"/{name}" if "/" in name else name
    return address.removeprefix("//")


def _absolute(path: str, text: str) -> Path:
    if not path:
        raise StoreError("the address of the store has no file name", where=text, hint="write sqlite:///path/to/file.db")
    # The real path names the files beside a store, so that a symbolic link leads to the same lock and queue.
    return Path(os.path.realpath(Path(path).expanduser()))


def _graph(query: str, text: str) -> str | None:
    graph = None
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key != "graph" or not value:
            raise StoreError(f"'{key}={value}' is not an option of a store", where=text, hint="the only option is ?graph=NAME")
        graph = value
    return graph


def default() -> StoreUrl | ServerUrl:
    """``$FLUXRES_STORE``, else ``fluxres/fluxres.db`` in the XDG data directory, for the owner only.

    Errors: StoreError for an invalid value of the variable.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return parse(given)
    return StoreUrl(_data_folder() / "fluxres.db", private=True)


def _data_folder() -> Path:
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data.startswith("/") else Path.home() / ".local" / "share") / "fluxres"

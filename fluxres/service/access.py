"""Who may ask what: tokens with a role, and the graphs and the part of the machine that each of them is for.

Tokens are in a file, one table each, or in the environment, one word each. They are compared by their SHA-256 digests, all of
them and in constant time. The file is read again when it has changed; a file with a mistake changes nothing.
"""

from __future__ import annotations

import hmac
import logging
import math
import os
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from fluxres import limits
from fluxres.clock import stopwatch
from fluxres.errors import Forbidden, InputError, Unauthorized
from fluxres.service.loopback import is_loopback

VARIABLE: Final = "FLUXRES_TOKENS"
"""``NAME:ROLE:TOKEN`` words, where there is no file."""
_FORM: Final = "each token is a table [tokens.NAME] with role and token; see fluxres help service"
_LOOK_EVERY_S: Final = 1.0

_log = logging.getLogger("fluxres.service")


class Role(IntEnum):
    """What a token allows; each role may do what those before it may."""

    READ_ONLY = 0
    SCHEDULER = 1
    ADMIN = 2

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, word: str) -> Role:
        """Errors: InputError."""
        for role in cls:
            if role.word == word:
                return role
        raise InputError(f"no role '{word}'", hint=f"roles are {', '.join(role.word for role in cls)}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request.

    Args:
        name: of the token, as the journal has it.
        role: of the token.
        graphs: the only graphs it is for; None for all.
        paths: tops of the only parts of the containment tree it is for; None for everything.
        rate: requests a second that it may send; None for any number.
    """

    name: str
    role: Role
    graphs: frozenset[str] | None = None
    paths: tuple[str, ...] | None = None
    rate: float | None = None

    def require_role(self, role: Role, needs: str | None = None) -> None:
        """Refuse a lower role.

        Args:
            needs: what is needed, in words, if that is more than the role.

        Errors: Forbidden.
        """
        if self.role < role:
            hint = f"this needs {needs or f'the role {role.word}'}"
            raise Forbidden(f"token '{self.name}' has the role {self.role.word}", hint=hint)

    def require_graph(self, graph: str) -> None:
        """Errors: Forbidden."""
        if self.graphs is not None and graph not in self.graphs:
            raise Forbidden(f"token '{self.name}' is not for graph '{graph}'")

    def require_whole(self, what: str) -> None:
        """Refuse what concerns an entire graph to a token that is for a part of it. Errors: Forbidden."""
        if self.paths is not None:
            parts = ", ".join(self.paths)
            raise Forbidden(f"token '{self.name}' is for {parts} only", hint=f"{what} needs a token for the entire graph")

    def covers(self, path: str) -> bool:
        """Whether a pool is in the parts that the token is for."""
        return self.paths is None or any(path == top or path.startswith(f"{top}/") for top in self.paths)

    def require_path(self, path: str) -> None:
        """Errors: Forbidden for a pool outside of the parts that the token is for."""
        self.require_paths([path], path)

    def require_paths(self, paths: Iterable[str], where: str) -> None:
        """Errors: Forbidden if a pool is outside of the parts that the token is for; the message does not name the pool."""
        if self.paths is not None and not all(map(self.covers, paths)):
            raise Forbidden(f"token '{self.name}' is for {', '.join(self.paths)} only", where=where)


LOCAL: Final = Caller("local", Role.ADMIN)
"""Who asks where no tokens are needed: this machine."""


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    role: str
    token: str | None = None
    sha256: str | None = None
    graphs: list[str] | None = None
    paths: list[str] | None = None
    rate: float | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    tokens: dict[str, dict[str, Any]]


Digests = Sequence[tuple[bytes, Caller]]


@dataclass
class Access:
    """The tokens of a service.

    Args:
        file: with the tokens; the environment has them if None.
        is_open: requests need no token.
    """

    file: Path | None = None
    is_open: bool = False
    _digests: Digests = ()
    _stamp: tuple[int, int, int] | None = None
    _looked: float = field(default=-_LOOK_EVERY_S)

    @classmethod
    def open(cls, file: str | None, environment: str | None, host: str) -> Access:
        """The tokens of a file or of the environment; without any, only this machine may be served.

        Errors: InputError for the file; Unauthorized for another address without tokens.
        """
        if file is not None:
            found = cls(Path(file))
            found._digests = found._read()
            return found
        if environment:
            return cls(None, False, _of_words(environment))
        if not is_loopback(host):
            hint = f"give --tokens FILE or ${VARIABLE}, or listen on 127.0.0.1"
            raise Unauthorized(f"{host} can be reached from other machines, so requests need tokens", hint=hint)
        return cls(None, True)

    def caller(self, header: str | None) -> Caller:
        """Who sends a request with this Authorization header.

        Errors: Unauthorized.
        """
        if self.is_open:
            return LOCAL
        self._refresh()
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized("the request has no token", hint="set $FLUXRES_TOKEN, or send Authorization: Bearer TOKEN")
        given, found = _digest(token.strip()), None
        for digest, caller in self._digests:  # all of them: the time does not tell which one it is
            if hmac.compare_digest(digest, given):
                found = caller
        if found is None:
            raise Unauthorized("the token is not known", hint="compare $FLUXRES_TOKEN with the tokens of the server")
        return found

    def reload(self) -> None:
        """Read the file again; with a mistake in it, the tokens stay as they are."""
        if self.file is None:
            return
        try:
            self._digests = self._read()
        except (InputError, OSError) as error:
            _log.error("the tokens stay as they are: %s", error)
        else:
            _log.info("the tokens were read again: %d of %s", len(self._digests), self.file)

    def _refresh(self) -> None:
        now = stopwatch()
        if self.file is None or now - self._looked < _LOOK_EVERY_S:
            return
        self._looked = now
        if self._stamp != _stamp(self.file):
            self.reload()

    def _read(self) -> Digests:
        assert self.file is not None
        self._stamp = _stamp(self.file)
        try:
            text = self.file.read_text(encoding="utf-8")
            found = msgspec.convert(tomllib.loads(text), _File)
        except OSError as error:
            raise InputError(error.strerror or str(error), where=str(self.file)) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
            raise InputError(str(error), where=str(self.file), hint=_FORM) from None
        try:
            return _checked((name, _entry(name, facts)) for name, facts in found.tokens.items())
        except InputError as error:
            error.put_within(str(self.file))
            raise


def _entry(name: str, facts: dict[str, Any]) -> _Entry:
    try:
        return msgspec.convert(facts, _Entry)
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=f"tokens.{name}", hint=_FORM) from None


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        seen = os.stat(file)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_ino, seen.st_size


def _of_words(text: str) -> Digests:
    """Errors: InputError."""
    entries = []
    for word in text.replace(",", " ").split():
        parts = word.split(":", 2)
        if len(parts) != 3:
            hint = "a file of tokens is given by --tokens"
            raise InputError("expected words NAME:ROLE:TOKEN", where=f"${VARIABLE}", hint=hint)
        entries.append((parts[0], _Entry(parts[1], parts[2])))
    return _checked(entries)


def _checked(entries: Iterable[tuple[str, _Entry]]) -> Digests:
    found: list[tuple[bytes, Caller]] = []
    for name, entry in entries:
        if (entry.token is None) == (entry.sha256 is None):
            raise InputError("expected either token or sha256", where=f"tokens.{name}")
        if entry.token is not None and len(entry.token) < limits.TOKEN_LENGTH_MIN:
            raise InputError(f"a token has at least {limits.TOKEN_LENGTH_MIN} characters", where=f"tokens.{name}")
        try:
            role = Role.of(entry.role)
            digest = _digest(entry.token) if entry.token is not None else bytes.fromhex(entry.sha256 or "")
        except (InputError, ValueError) as error:
            raise InputError(str(error), where=f"tokens.{name}") from None
        if len(digest) != sha256().digest_size:
            raise InputError("sha256: expected 64 hexadecimal digits", where=f"tokens.{name}")
        graphs = None if entry.graphs is None else frozenset(entry.graphs)
        paths = None if entry.paths is None else tuple(path.rstrip("/") for path in entry.paths)
        if paths is not None and not all(path.startswith("/") for path in paths):
            raise InputError("paths: expected paths of pools, such as /demo/rack0", where=f"tokens.{name}")
        if entry.rate is not None and not 0 < entry.rate < math.inf:
            raise InputError(f"rate: expected requests a second above 0, got {entry.rate:g}", where=f"tokens.{name}")
        if (other := next((caller.name for known, caller in found if known == digest), None)) is not None:
            raise InputError(f"has the same token as tokens.{other}", where=f"tokens.{name}", hint="make one for each")
        found.append((digest, Caller(name, role, graphs, paths, entry.rate)))
    if not 1 <= len(found) <= limits.TOKENS_MAX:
        raise InputError(f"expected 1 to {limits.TOKENS_MAX} tokens, got {len(found)}")
    return found


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()

"""Who may ask what: tokens with a role, and the graphs and the part of the machine that each of them is for.

Tokens are in a file, one table each, or in the environment, one word each. They are compared by their SHA-256 digests, all of
them and in constant time. The file is read again when it has changed; a file with a mistake changes nothing.
"""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import sha256
from pathlib import Path
from typing import Final

from fluxres.clock import stopwatch
from fluxres.errors import Forbidden, InputError, Unauthorized
from fluxres.service import tokens
from fluxres.service.loopback import is_loopback
from fluxres.service.tokens import Token

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
        """The role of a word, which is one of theirs."""
        return cls[word.upper().replace("-", "_")]


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


_ROLES: Final = tuple(role.word for role in Role)
LOCAL: Final = Caller("local", Role.ADMIN)
"""Who asks where no tokens are needed: this machine."""


Digests = Sequence[tuple[bytes, Caller]]


@dataclass
class Access:
    """The tokens of a service.

    Args:
        file: with the tokens; the environment has them if None.
        is_open: requests need no token.
        on_read: called with whose tokens are known, once the file was read again.
    """

    file: Path | None = None
    is_open: bool = False
    on_read: Callable[[list[Caller]], None] | None = None
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
            return cls(_digests=_digests(tokens.of_words(environment, _ROLES)))
        if not is_loopback(host):
            hint = f"give --tokens FILE or ${tokens.VARIABLE}, or listen on 127.0.0.1"
            raise Unauthorized(f"{host} can be reached from other machines, so requests need tokens", hint=hint)
        return cls(None, True)

    @property
    def callers(self) -> list[Caller]:
        """Whose tokens are known."""
        return [caller for _, caller in self._digests]

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
        given, found = sha256(token.strip().encode()).digest(), None
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
            for line in str(error).splitlines():  # one for each mistake
                _log.error("the tokens stay as they are: %s", line)
        else:
            _log.info("the tokens were read again: %d of %s", len(self._digests), self.file)
            if self.on_read is not None:
                self.on_read(self.callers)

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
        return _digests(tokens.of_file(self.file, _ROLES))


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        seen = os.stat(file)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_ino, seen.st_size


def _digests(found: Mapping[str, Token]) -> Digests:
    return [
        (
            token.digest,
            Caller(
                name,
                Role.of(token.role),
                None if token.graphs is None else frozenset(token.graphs),
                None if token.paths is None else tuple(path.rstrip("/") for path in token.paths),
                token.rate,
            ),
        )
        for name, token in found.items()
    ]

"""The tokens of a service as its file or its environment has them: one table each, or one word each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from fluxres import limits
from fluxres.documents import toml_document, typed
from fluxres.documents.document import Document, Key, Place
from fluxres.documents.mistakes import Mistakes
from fluxres.documents.source import Source
from fluxres.documents.toml_document import TomlDocument
from fluxres.errors import InputError, TextPlace
from fluxres.syntax.name import is_name

VARIABLE: Final = "FLUXRES_TOKENS"
"""``NAME:ROLE:TOKEN`` words, where there is no file."""
FORM: Final = "each token is a table [tokens.NAME] with role and token; see fluxres help service"


class Token(msgspec.Struct, forbid_unknown_fields=True):
    """A token, and what it is for; `access.Caller` has the meaning of each."""

    role: str
    token: str | None = None
    sha256: str | None = None
    graphs: list[str] | None = None
    paths: list[str] | None = None
    rate: Annotated[float, Meta(gt=0)] | None = None

    @property
    def digest(self) -> bytes:
        """The SHA-256 digest. Errors: ValueError for text that is none."""
        return sha256(self.token.encode()).digest() if self.token is not None else bytes.fromhex(self.sha256 or "")


class _TokenFile(TomlDocument):
    """A file whose lines with tokens are not shown."""

    def where(self, path: Iterable[Key], *, key: bool = False) -> str:
        """The place, with the text of its line as far as that is not a token."""
        path = list(path)
        place = super().where(path, key=key)
        if path[2:] in (["token"], ["sha256"]) and isinstance(place, TextPlace):
            place.text = f"{place.text[: place.offset]}…"
        return place


class _File(msgspec.Struct, forbid_unknown_fields=True):
    tokens: dict[str, Token]


def of_file(file: Path, roles: Iterable[str]) -> dict[str, Token]:
    """The tokens in a file, by name.

    Errors: InputError with all that is wrong, each with its line.
    """
    parsed = toml_document.parse(Source.open(file))
    document = _TokenFile(parsed.values, parsed.file, parsed.text, parsed.path)
    if not isinstance(document.values, dict) or not isinstance(document.values.get("tokens"), dict):
        raise InputError("no table 'tokens'", where=str(file), hint=FORM)
    return _of(document, roles)


def of_words(text: str, roles: Iterable[str]) -> dict[str, Token]:
    """The tokens in words ``NAME:ROLE:TOKEN``, by name. Errors: InputError."""
    found: dict[str, Any] = {}
    for word in text.replace(",", " ").split():
        name, _, rest = word.partition(":")
        role, colon, token = rest.partition(":")
        if not colon:
            hint = "a file of tokens is given by --tokens"
            raise InputError("expected words NAME:ROLE:TOKEN", where=f"${VARIABLE}", hint=hint)
        if name in found:
            raise InputError(f"two tokens are named '{name}'", where=f"${VARIABLE}", hint="name each differently")
        found[name] = {"role": role, "token": token}
    return _of(Document({"tokens": found}, f"${VARIABLE}", "", is_made=True), roles)


def _of(document: Document, roles: Iterable[str]) -> dict[str, Token]:
    mistakes, known, seen = Mistakes(), tuple(roles), dict[bytes, str]()
    made, wrong = typed.convert_partly(document, _File, mistakes)
    unread = {path[1] for path in wrong if path[:1] == ("tokens",) and path[2:] in ((), ("token",), ("sha256",))}
    for name, token in made.tokens.items():
        place = Place(("tokens", name), document)
        _check(token, place, known, mistakes)
        with mistakes:
            if name not in unread and seen.setdefault(digest := _digest(token, place), name) != name:
                raise place.error(f"has the same token as tokens.{seen[digest]}", "make one for each")
    mistakes.require_none()
    if not 1 <= len(made.tokens) <= limits.TOKENS_MAX:
        raise InputError(f"expected 1 to {limits.TOKENS_MAX} tokens, got {len(made.tokens)}", where=document.file, hint=FORM)
    return made.tokens


def _check(token: Token, place: Place, roles: tuple[str, ...], mistakes: Mistakes) -> None:
    """Find what the types do not say."""
    if isinstance(token.role, str) and token.role not in roles:
        mistakes.add(place.at("role").error(f"no role '{token.role:.40}'", f"roles are {', '.join(roles)}"))
    if token.rate == math.inf:
        mistakes.add(place.at("rate").error("expected a finite number", "leave it out for any number of requests"))
    for i, graph in enumerate(token.graphs or ()):
        if not is_name(graph):
            said = f"expected the name of a graph, 1 to {limits.NAME_LENGTH_MAX} printable characters"
            mistakes.add(place.at("graphs", i).error(said))
    for i, path in enumerate(token.paths or ()):
        if not path.startswith("/") or not all(path.rstrip("/").split("/")[1:]) or path == "/":
            mistakes.add(place.at("paths", i).expected("the path of a pool", path, "such as /demo/rack0"))


def _digest(token: Token, place: Place) -> bytes:
    """The digest of a token. Errors: InputError."""
    if (token.token is None) == (token.sha256 is None):
        raise place.error("expected either token or sha256", FORM)
    if token.token is not None and len(token.token) < limits.TOKEN_LENGTH_MIN:
        raise place.error(f"a token has at least {limits.TOKEN_LENGTH_MIN} characters")
    try:
        digest = token.digest
    except ValueError:
        digest = b""
    if len(digest) != sha256().digest_size:
        raise place.at("sha256").error("expected 64 hexadecimal digits")
    return digest

"""Split find criteria into words, strings, operators and parentheses, each with its position.

A word includes a bracket group, so that `node[0-3,7]` is one value and the comma in it is not a separator. Symbols that other
languages use for `and`, `or`, `not` end a word: they are reported with the word to use instead of becoming part of a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from fluxres.documents.document import excerpt
from fluxres.errors import InputError

TokenKind = Literal["word", "string", "operator", ",", "(", ")", "other", "end"]

# No bracket inside a bracket group: every character is then read at most twice.
_TOKEN = re.compile(
    r"""(?P<blank>\s+)
      | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<operator>==|!=|<=|>=|[=<>~])
      | (?P<mark>[,()])
      | (?P<word>(?:\[[^\s\[\]'"]*\]|[^\s()<>=!~,'"&|;])+)
      | (?P<other>[!&|;]+)
      | (?P<quote>['"])
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS: Final[dict[str, TokenKind]] = {"word": "word", "operator": "operator", "other": "other", ",": ",", "(": "(", ")": ")"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Token:
    """One token: for a string, `text` is its value; `start` and `end` are offsets in the criteria."""

    kind: TokenKind
    text: str
    start: int
    end: int

    def shown(self) -> str:
        """The token in an error message."""
        return "end of text" if self.kind == "end" else excerpt(self.text)


def at(offset: int) -> str:
    """The position of an offset for an error message: columns count from 1."""
    return f"criteria:{offset + 1}"


def tokens(text: str) -> list[Token]:
    """The tokens of criteria; the last is an `end` token. Cost O(length). Errors: InputError with the column.

    >>> [t.text for t in tokens("name=node[0-3,7]")]
    ['name', '=', 'node[0-3,7]', '']
    """
    found = []
    for match in _TOKEN.finditer(text):
        kind, start = match.lastgroup, match.start()
        if kind == "quote":
            raise InputError(f"expected a closing {match[0]} for the string {excerpt(text[start:])}", where=at(start))
        if kind == "string":
            found.append(Token("string", _unescaped(match[0][1:-1], start + 1), start, match.end()))
        elif kind != "blank":
            found.append(Token(_KINDS[match[0] if kind == "mark" else str(kind)], match[0], start, match.end()))
    return [*found, Token("end", "", len(text), len(text))]


def _unescaped(inside: str, offset: int) -> str:
    if "\\" not in inside:
        return inside
    for escape in _ESCAPE.finditer(inside):
        if escape[1] not in "'\"\\":
            raise InputError(
                f"unknown escape {excerpt(escape[0])} in a string",
                where=at(offset + escape.start()),
                hint="write \\\\ for a backslash",
            )
    return _ESCAPE.sub(r"\1", inside)

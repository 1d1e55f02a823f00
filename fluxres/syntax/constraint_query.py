"""Constraints as people type them: `ssd&(host:node[0-7]|-slow)` → the values of RFC 31 (Flux RFC 35).

The parser is a loop over the tokens with a stack, because user input must not cause recursion. `-`, `not`, *and* and *or* bind
in this order, and adjacent terms are ANDed. A query that Flux's own commands accept must select the same nodes here, so words
and grouping are those of flux-core, even where they are unexpected:

- A bare term or a parenthesis next to an operand closes every open operator (`a|b c` is `(a|b)&c`); a negation next to an
  operand closes none (`a|b -c` is `a|(b&-c)`, `not a -b` is `not (a&-b)`).
- `and`, `or` and `not` are operators before any character that cannot be part of a word (`not-a`).
- A value may follow its operator after a blank, and quotes only keep characters together (`'host:a b'` has an operator).
- A term without a name before its colon is refused, because no constraint has such an operator.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fluxres import limits
from fluxres.documents.document import Place, excerpt
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax import constraint
from fluxres.syntax.constraint import Constraint

Values = dict[str, list[Any]]

_TOKEN = re.compile(
    r"""\s*(?:(?P<end>\Z)|(?P<open>\()|(?P<close>\))|(?P<and>&&?|and\b)|(?P<or>\|\|?|or\b)|(?P<not>not\b)|(?P<minus>-)
      |(?P<quoted>'[^']*'|"[^"]*")|(?P<term>[^\s()|&'"]+))""",
    re.VERBOSE,
)
_OPERATOR = re.compile(r"[\w.+@-]+")
#: precedence; nothing is applied across an open parenthesis
_BINDS: Final = {"open": 0, "or": 1, "and": 2, "not": 3, "minus": 4}


@dataclass(frozen=True, slots=True)
class Options:
    """How a command reads its queries.

    Args:
        default: the operator of a bare operand; None makes one an error.
        names: short names of operators; an entry for None also sets the default.
        split: by operator, the text at which operands are split into values.
        combined: operators whose consecutive ANDed terms are joined into one with all values.
    """

    default: str | None = None
    names: Mapping[str | None, str] = field(default_factory=dict)
    split: Mapping[str, str] = field(default_factory=dict)
    combined: Collection[str] = ()


REQUIRES: Final = Options(
    default="properties",
    names={"property": "properties", "host": "hostlist", "hosts": "hostlist", "rank": "ranks", "state": "states"},
    split={"properties": ","},
    combined=("properties",),
)
"""The options of `flux run --requires`, plus our addition `state`."""


def parse(text: str, options: Options = REQUIRES) -> Values:
    """The RFC 31 values of a query.

    Cost O(length). Errors: InputError with the column; LimitExceeded beyond `limits.REQUEST_TEXT_MAX` characters or
    `limits.CONSTRAINT_DEPTH_MAX` levels. Source: RFC 35.

    >>> parse("ssd,big -host:node[0-7]")
    {'and': [{'properties': ['ssd', 'big']}, {'not': [{'hostlist': ['node[0-7]']}]}]}
    >>> parse("a or state:started", Options(default="name"))
    {'or': [{'name': ['a']}, {'state': ['started']}]}
    """
    if len(text) > limits.REQUEST_TEXT_MAX:
        raise LimitExceeded(f"expected at most {limits.REQUEST_TEXT_MAX} characters, got {len(text)}", where=_at(0))
    return _Reader(options).read(text)


def constraint_of(text: str) -> Constraint:
    """The constraint of a `--requires` query, checked. Errors: as :func:`parse` and `constraint.parse`.

    >>> constraint_of("gpu|rank:0-3")
    Or(items=(Properties(required=('gpu',), excluded=()), Ranks(texts=('0-3',))))
    """
    return constraint.parse(parse(text), Place(("query",)))


@dataclass(slots=True)
class _Part:
    """A finished expression, and its depth."""

    values: Values
    levels: int


class _Reader:
    """Operators wait on `pending` (with their columns) until one that binds less tightly follows; `parts` are their
    operands."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.parts: list[_Part] = []
        self.pending: list[tuple[str, int]] = []

    def read(self, text: str) -> Values:
        operand_due = True
        for kind, word, column in _tokens(text):
            if self.pending and self.pending[-1][0] == "minus" and kind != "term":
                raise InputError("expected a term after '-'", where=_at(column), hint="not (a|b) negates an expression")
            if kind in ("term", "open", "not", "minus"):
                if not operand_due:
                    # Next to an operand, a term or a parenthesis closes every open operator, a negation none.
                    if kind in ("term", "open"):
                        self.reduce(_BINDS["or"])
                    self.pending.append(("and", column))
                operand_due = kind != "term"
                if kind == "term":
                    self.parts.append(_Part(self.term(word, column), 1))
                    self.reduce(_BINDS["minus"])
                else:
                    self.pending.append((kind, column))
            elif operand_due:
                raise InputError(
                    f"expected a term, got {excerpt(word) if word else 'the end'}",
                    where=_at(column),
                    hint="such as ssd, host:node[0-7] or (a|b)&-c",
                )
            elif kind == "close":
                self.reduce(_BINDS["or"])
                if not self.pending:
                    raise InputError("expected '(' before this ')'", where=_at(column))
                self.pending.pop()
            elif kind != "end":
                self.reduce(_BINDS[kind])
                self.pending.append((kind, column))
                operand_due = True
        self.reduce(_BINDS["or"])
        if self.pending:
            raise InputError("expected ')' for this '('", where=_at(self.pending[-1][1]))
        return self.parts[0].values

    def reduce(self, binding: int) -> None:
        """Apply the pending operators that bind at least as tightly."""
        while self.pending and _BINDS[self.pending[-1][0]] >= binding:
            kind, column = self.pending.pop()
            right = self.parts.pop()
            made = self.negated(right) if kind in ("not", "minus") else self.join(kind, self.parts.pop(), right)
            if made.levels > limits.CONSTRAINT_DEPTH_MAX:
                raise LimitExceeded(f"expected at most {limits.CONSTRAINT_DEPTH_MAX} levels", where=_at(column))
            self.parts.append(made)

    def negated(self, part: _Part) -> _Part:
        return _Part({"not": [part.values]}, part.levels + 1)

    def join(self, kind: str, left: _Part, right: _Part) -> _Part:
        """`left kind right`: a left operand of the same kind is extended, so that chains become one list."""
        (name,) = right.values
        if kind == "and" and name in self.options.combined and name in left.values:
            left.values[name] += right.values[name]
            return left
        items = left.values.get(kind, [left.values])
        below = max(left.levels - (kind in left.values), right.levels)
        if below == limits.CONSTRAINT_DEPTH_MAX and kind in right.values:
            # A long row of negations is nested to its right; the flat form means the same.
            return _Part({kind: items + right.values[kind]}, below)
        items.append(right.values)
        return _Part({kind: items}, below + 1)

    def term(self, word: str, column: int) -> Values:
        operator, operand = self.options.names.get(None, self.options.default), word
        if ":" in word:
            given, operand = word.split(":", 1)
            if not _OPERATOR.fullmatch(given):
                raise InputError(f"expected an operator before ':', got {excerpt(given)}", where=_at(column))
            if not operand:
                raise InputError(f"expected a value after {excerpt(word)}", where=_at(column))
            operator = self.options.names.get(given, given)
            if operator in _BINDS:
                raise InputError(f"expected an operator with values, got {excerpt(given)}", where=_at(column))
        if operator is None:
            raise InputError(f"expected OPERATOR:VALUE, got {excerpt(word)}", where=_at(column))
        separator = self.options.split.get(operator)
        values = operand.split(separator) if separator else [operand]
        if "" in values:
            raise InputError(f"expected values that are not empty, got {excerpt(word)}", where=_at(column))
        return {operator: values}


Kind = Literal["term", "open", "close", "and", "or", "not", "minus", "end"]


def _tokens(text: str) -> Iterator[tuple[Any, str, int]]:
    """(kind, word, offset); quoted words without their quotes."""
    offset = 0
    waiting: tuple[str, int] | None = None
    while True:
        found = _TOKEN.match(text, offset)
        if found is None or found.lastgroup is None:
            at = offset + len(text[offset:]) - len(text[offset:].lstrip())
            raise InputError("expected a closing quote", where=_at(at), hint="or remove the quote")
        kind, word, start = found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)
        offset = found.end()
        if kind == "quoted":
            kind, word = "term", word[1:-1]
            if not word:
                continue  # empty quotes are ignored, as in flux-core
        if kind == "term" and waiting is not None:
            word, start, waiting = waiting[0] + word, waiting[1], None
        elif kind == "term" and word.endswith(":"):
            waiting = word, start  # its value follows, in quotes or after a blank
            continue
        if waiting is not None:
            message = f"expected a value after {excerpt(waiting[0])}"
            raise InputError(message, where=_at(waiting[1] + len(waiting[0])), hint="such as host:node[0-7]")
        yield kind, word, start
        if kind == "end":
            return


def _at(offset: int) -> str:
    return f"query:{offset + 1}"

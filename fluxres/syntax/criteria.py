"""The find language: `type=node and status=up and property=ssd and available>=8 at +1h`.

Criteria are data: parsed once into frozen values, checked completely (keys, operators, values, times) before a graph is
accessed, and printable as text that parses to the same values, so that a journal or a remote caller can store them. Nothing is
evaluated here. There is one spelling for each connective (`and or not`), and no juxtaposition: Fluxion reads `a b` as *and*,
RFC 35 after `|` as either, so its meaning would not be obvious.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.syntax import criteria_keys, hostlist, moment
from fluxres.syntax.criteria_keys import Key
from fluxres.syntax.criteria_tokens import Token, at, tokens
from fluxres.syntax.criteria_values import Value, values

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "~"]


class _Printed:
    """Criteria; their text parses to an equal value."""

    __slots__ = ()

    def __str__(self) -> str:
        return _text(self)


@dataclass(frozen=True, slots=True)
class When:
    """The time of a comparison of records, as written; it is resolved during evaluation, when the present time is known."""

    kind: Literal["at", "during"]
    text: str

    def resolve(self, now: float) -> tuple[float, float]:
        """(start, end) in seconds; for `at` both are the moment, for `during` the end may be infinite.

        Errors: UsageError for a window that ends before it begins, or a moment before time 0.

        >>> When("during", "now..+1h").resolve(100.0)
        (100.0, 3700.0)
        """
        if self.kind == "during":
            return moment.parse_window(self.text, now)
        time_s = moment.parse(self.text, now)
        return time_s, time_s


@dataclass(frozen=True, slots=True)
class All(_Printed):
    """Every pool: `all` or `*`."""


@dataclass(frozen=True, slots=True)
class Compare(_Printed):
    """One comparison: true if any of the values holds; `!=` is true if none does.

    `key` is a name of :func:`keys`. `qualifier` is the property or tag whose value is compared; without it `property`
    and `tag` compare the keys that a pool has, and with the value True ask whether it has any.  `when` is None for the
    graph's present time.
    """

    key: str
    op: Operator
    values: tuple[Value, ...]
    qualifier: str | None = None
    when: When | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The values that are text."""
        return tuple(value for value in self.values if isinstance(value, str))

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The values that are integer ranges: sorted, disjoint, both ends included. For `<`, `<=`, `>` and `>=`, one range of
        one number."""
        return tuple(value for value in self.values if isinstance(value, tuple))

    def names(self) -> list[str]:
        """The names in a comparison of names, with hostlists expanded. Cost O(names).

        >>> Compare("name", "=", ("node[0-1]", "left over")).names()
        ['node0', 'node1', 'left over']
        """
        # A text is only a hostlist if it has brackets: a name may contain blanks, which are separators in hostlists.
        return [name for text in self.texts for name in (hostlist.parse(text) if "[" in text else [text])]

    @property
    def flag(self) -> bool | None:
        """The value of a flag; None if the values are not a flag."""
        return self.values[0] if len(self.values) == 1 and isinstance(self.values[0], bool) else None


@dataclass(frozen=True, slots=True)
class Not(_Printed):
    """Pools that do not match."""

    item: Criteria


@dataclass(frozen=True, slots=True)
class And(_Printed):
    """Pools that match all items (two or more)."""

    items: tuple[Criteria, ...]


@dataclass(frozen=True, slots=True)
class Or(_Printed):
    """Pools that match at least one item (two or more)."""

    items: tuple[Criteria, ...]


Criteria = All | Compare | Not | And | Or


def parse(text: str) -> Criteria:
    """Criteria from text; `str()` of the result parses to an equal value.

    Cost O(length). Errors: InputError with the column; LimitExceeded beyond `limits.CRITERIA_LENGTH_MAX` characters or
    `limits.CRITERIA_DEPTH_MAX` levels. Grammar: specs/criteria.md.

    >>> parse("type=node AND not (rank in 7,0-3)")
    And(items=(Compare(key='type', op='=', values=('node',), qualifier=None, when=None), \
Not(item=Compare(key='rank', op='=', values=((0, 3), (7, 7)), qualifier=None, when=None))))
    >>> str(parse("type==node and(status='up' or available >= 2k at +1h)"))
    'type=node and (state=up or available>=2000 at +1h)'
    """
    if len(text) > limits.CRITERIA_LENGTH_MAX:
        raise LimitExceeded(f"expected at most {limits.CRITERIA_LENGTH_MAX} characters, got {len(text)}", where=at(0))
    return _Parser(text).criteria()


def keys() -> Mapping[str, Key]:
    """The keys of criteria, by name: kind of value, operators, one line of help.

    >>> keys()["depth"].kind, keys()["depth"].operators
    ('number', ('=', '!=', '<', '<=', '>', '>='))
    """
    return criteria_keys.KEYS


_CONNECTIVES: Final = frozenset({"and", "or", "not"})
_WRONG_SIGNS: Final = {"&": "and", "|": "or", "!": "not"}


class _Parser:
    """Recursive descent, one method a level of precedence; `depth` counts parentheses and `not`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._next = 0

    def criteria(self) -> Criteria:
        if self._peek().kind == "end":
            raise InputError("expected criteria, got empty text", where=at(0), hint="such as type=node and state=up, or all")
        found = self._either(0)
        if self._peek().kind != "end":
            raise self._expected("'and', 'or' or the end", hint="write `and` between comparisons")
        return found

    def _either(self, depth: int) -> Criteria:
        items = [self._both(depth)]
        while self._skip_word("or"):
            items.append(self._both(depth))
        return items[0] if len(items) == 1 else Or(tuple(items))

    def _both(self, depth: int) -> Criteria:
        items = [self._negated(depth)]
        while self._skip_word("and"):
            items.append(self._negated(depth))
        return items[0] if len(items) == 1 else And(tuple(items))

    def _negated(self, depth: int) -> Criteria:
        if depth > limits.CRITERIA_DEPTH_MAX:
            raise LimitExceeded(f"nested deeper than {limits.CRITERIA_DEPTH_MAX} levels", where=at(self._peek().start))
        if self._skip_word("not"):
            return Not(self._negated(depth + 1))
        if self._skip("("):
            found = self._either(depth + 1)
            if not self._skip(")"):
                raise self._expected("')'", hint="write `and` or `or` between comparisons")
            return found
        return self._comparison()

    def _comparison(self) -> Criteria:
        first = self._peek()
        if first.kind != "word" or first.text.lower() in _CONNECTIVES:
            raise self._expected("a comparison such as type=node")
        if first.text.lower() in ("all", "*"):
            self._take()
            return All()
        key, qualifier, value = self._subject()
        found = self._compared(key, qualifier, value)
        when = self._when(key)
        return found if when is None else Compare(found.key, found.op, found.values, found.qualifier, when)

    def _subject(self) -> tuple[Key, Token | None, Token | None]:
        """The part before the operator: the key, and for `property:KEY:VALUE` its parts."""
        token = self._take()
        name, colon, rest = token.text.partition(":")
        key = criteria_keys.find(name)
        if key is None:
            raise InputError(f"unknown key {token.shown()}", where=at(token.start), hint=criteria_keys.nearest(token.text))
        if not colon:
            return key, None, None
        if key.kind != "qualified":
            raise InputError(
                f"expected an operator after {name!r}, got ':'", where=at(token.start + len(name)), hint=f"write {name}=VALUE"
            )
        qualifier, rest_token = self._part(Token("word", rest, token.start + len(name) + 1, token.end), f"{name}:", last=False)
        value = None if rest_token is None else self._part(rest_token, f"{name}:{qualifier.text}:", last=True)[0]
        return key, qualifier, value

    def _part(self, token: Token, after: str, *, last: bool) -> tuple[Token, Token | None]:
        """One part between colons, bare or quoted, and the rest of the word after the colon."""
        if not token.text and self._peek().kind == "string" and self._peek().start == token.end:
            part = self._take()
            following = self._peek()
            if last or following.kind != "word" or following.start != part.end or not following.text.startswith(":"):
                return part, None
            self._take()
            return part, Token("word", following.text[1:], following.start + 1, following.end)
        text, colon, rest = (token.text, "", "") if last else token.text.partition(":")
        if not text:
            raise InputError(
                f"expected a {'value' if last else 'key'} after {after!r}",
                where=at(token.start),
                hint="quote names with other characters",
            )
        start = token.start + len(text)
        return Token("word", text, token.start, start), Token("word", rest, start + 1, token.end) if colon else None

    def _compared(self, key: Key, qualifier: Token | None, value: Token | None) -> Compare:
        if value is not None:
            return self._with_values(key, "=", qualifier, [value, *self._more()])
        op = self._operator(key, qualifier)
        if op is not None:
            return self._with_values(key, op, qualifier, self._list(op))
        if qualifier is not None:
            return self._with_values(key, "=", None, [qualifier, *self._more()])
        if key.alone:
            return Compare(key.name, "=", (True,))
        raise self._expected(f"an operator after {self._before()!r}", hint=f"{key.name} takes {' '.join(key.operators)} in")

    def _with_values(self, key: Key, op: Operator, qualifier: Token | None, words: list[Token]) -> Compare:
        found = values(key, op, words)
        if op == "!=" and found in ((True,), (False,)):
            op, found = "=", (not found[0],)
        return Compare(key.name, op, found, None if qualifier is None else qualifier.text)

    def _operator(self, key: Key, qualifier: Token | None) -> Operator | None:
        token = self._peek()
        if self._skip_word("in"):
            return "="
        if token.kind != "operator":
            return None
        self._take()
        op = _OPERATORS[token.text]
        ordered = key.kind == "qualified" and qualifier is None and op in ("<", "<=", ">", ">=")
        if op not in key.operators or ordered:
            hint = f"{key.name}:KEY{op}VALUE compares a value" if ordered else f"{key.name} takes {' '.join(key.operators)} in"
            raise InputError(f"{key.name!r} cannot be compared with {token.text!r}", where=at(token.start), hint=hint)
        return op

    def _list(self, op: Operator) -> list[Token]:
        bracketed = op == "=" and self._tokens[self._next - 1].kind == "word" and self._skip("(")
        found = [self._value(), *self._more()]
        if bracketed and not self._skip(")"):
            raise self._expected("',' or ')'")
        return found

    def _more(self) -> list[Token]:
        found = []
        while self._skip(","):
            found.append(self._value())
        return found

    def _value(self) -> Token:
        token = self._peek()
        if token.kind == "string" or (token.kind == "word" and token.text.lower() not in _CONNECTIVES):
            return self._take()
        quote = token.kind in ("word", "operator", "other")
        raise self._expected(f"a value after {self._before()!r}", hint="put it in quotes if it is the value" if quote else "")

    def _when(self, key: Key) -> When | None:
        token = self._peek()
        kind: Literal["at", "during"]
        if self._skip_word("at"):
            kind = "at"
        elif self._skip_word("during"):
            kind = "during"
        else:
            return None
        if not key.timed:
            timed = ", ".join(name for name, other in criteria_keys.KEYS.items() if other.timed)
            raise InputError(
                f"{key.name!r} does not depend on time", where=at(token.start), hint=f"{kind} can be used with {timed}"
            )
        value = self._value()
        try:
            if kind == "during":
                moment.read_window(value.text)
            elif moment.read(value.text).offset_s == math.inf:
                raise InputError(f"expected a finite moment, got {value.shown()}")
        except FluxresError as error:
            raise InputError(error.message, where=at(value.start), hint=error.hint) from None
        return When(kind, value.text.strip())

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _skip(self, kind: str) -> bool:
        if self._peek().kind != kind:
            return False
        self._next += 1
        return True

    def _skip_word(self, word: str) -> bool:
        return self._peek().kind == "word" and self._peek().text.lower() == word and self._skip("word")

    def _before(self) -> str:
        """The end of the text already read, for messages: enough to recognise the position."""
        end = self._tokens[self._next - 1].end
        start = self._tokens[max(0, self._next - 2)].start
        return self._text[max(start, end - 40) : end]

    def _expected(self, what: str, *, hint: str = "") -> InputError:
        token = self._peek()
        if token.kind == "other" and token.text[0] in _WRONG_SIGNS:
            hint = f"use the word {_WRONG_SIGNS[token.text[0]]}"
        return InputError(f"expected {what}, got {token.shown()}", where=at(token.start), hint=hint)


_OPERATORS: Final[dict[str, Operator]] = {
    "=": "=", "==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "~": "~",
}  # fmt: skip

_BARE: Final = re.compile(r"[A-Za-z0-9_./@%+*?:-]+", re.ASCII)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_./@%+*?-]+", re.ASCII)
_BARE_HOSTLIST: Final = re.compile(r"[A-Za-z0-9_./@%+*?:-]*\[[0-9,-]+\][A-Za-z0-9_./@%+*?:-]*", re.ASCII)


def _text(node: object) -> str:
    match node:
        case Compare():
            return _comparison_text(node)
        case Not():
            return f"not {_operand(node.item, (And, Or))}"
        case And():
            return " and ".join(_operand(item, (And, Or)) for item in node.items)
        case Or():
            return " or ".join(_operand(item, (Or,)) for item in node.items)
        case _:
            return "all"


def _operand(node: Criteria, weaker: tuple[type, ...]) -> str:
    return f"({_text(node)})" if isinstance(node, weaker) else _text(node)


def _comparison_text(node: Compare) -> str:
    key = criteria_keys.KEYS[node.key]
    subject = node.key if node.qualifier is None else f"{node.key}:{_quoted(node.qualifier, _BARE_KEY)}"
    if key.alone and node.op == "=" and node.flag:
        text = subject
    else:
        text = f"{subject}{node.op}{','.join(_value_text(key, node.op, value) for value in node.values)}"
    return text if node.when is None else f"{text} {node.when.kind} {_quoted(node.when.text, _BARE)}"


def _value_text(key: Key, op: str, value: Value) -> str:
    if isinstance(value, tuple):
        return str(value[0]) if value[0] == value[1] else f"{value[0]}-{value[1]}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if key.kind == "names" and op != "~" and _BARE_HOSTLIST.fullmatch(value):
        return value
    flag = key.kind == "sharing" and value.lower() in ("true", "false")
    return f'"{value}"' if flag else _quoted(value, _BARE)


def _quoted(text: str, bare: re.Pattern[str]) -> str:
    if bare.fullmatch(text) and text.lower() not in _CONNECTIVES:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

"""The find language: `type=node and status=up and property=ssd and available>=8 at +1h`.

Criteria are data: parsed once into frozen values, checked completely (keys, operators, values, times) before a graph is
accessed, and printable as text that parses to the same values, so that a journal or a remote caller can store them. Nothing is
evaluated here. There is one spelling for each connective (`and or not`), and no juxtaposition: Fluxion reads `a b` as *and*,
RFC 35 after `|` as either, so its meaning would not be obvious.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from fluxres import limits
from fluxres.documents.document import excerpt
from fluxres.documents.suggestion import suggest
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.syntax import hostlist, moment, unit
from fluxres.syntax.idset import joined

# -- keys -------------------------------------------------------------------------------------------------------------

Kind = Literal["text", "names", "number", "flag", "job", "sharing", "qualified"]
"""How values are read: exact text or globs; hostlists; integers and idsets, for `measured` keys also sizes with a unit; true or
false; job ids; for `shared`, either of the last two; for `property` and `tag`, a key or, with `:KEY`, its value."""

_EQUAL: Final = ("=", "!=", "~")
_ORDER: Final = ("=", "!=", "<", "<=", ">", ">=")
_EVERY: Final = (*_ORDER, "~")


@dataclass(frozen=True, slots=True)
class Key:
    """One key: the kind of its values, its operators, whether it may be used alone, whether it depends on time, and whether
    its numbers are units of a pool."""

    name: str
    kind: Kind
    help: str
    operators: tuple[str, ...] = _EQUAL
    alone: bool = False
    timed: bool = False
    measured: bool = False


def _table(*keys: Key) -> Mapping[str, Key]:
    return MappingProxyType({key.name: key for key in keys})


KEYS: Final = _table(
    Key("type", "text", "type of the pool, such as node or core"),
    Key("name", "names", "name of the pool; hostlists such as node[0-3,7]"),
    Key("basename", "names", "basename of the pool; hostlists"),
    Key("id", "number", "numeric id; idsets such as 0-3,7", _ORDER),
    Key("rank", "number", "execution target the pool is on; idsets", _ORDER),
    Key("path", "text", "containment path, such as /demo/rack0/node3"),
    Key("uri", "text", "URI in any of its hierarchies, such as power:/pdu0/node3"),
    Key("uuid", "text", "uuid of the pool"),
    Key("size", "number", "units of the pool, such as 8 or 64GiB", _ORDER, measured=True),
    Key("unit", "text", "what its size counts, such as GiB"),
    Key("state", "text", "up, down, drain, degraded, failing, unknown or null; also written status"),
    Key("property", "qualified", "property=KEY has it; property:KEY=VALUE compares its value", _EVERY, alone=True),
    Key("tag", "qualified", "tag=KEY has it; tag:KEY=VALUE compares its value", _EVERY, alone=True),
    Key("allocated", "number", "units that jobs hold", _ORDER, timed=True, measured=True),
    Key("available", "number", "units that are free", _ORDER, timed=True, measured=True),
    Key("job", "job", "id of a job that holds units of the pool", timed=True),
    Key("exclusive", "flag", "one job holds all of the pool", ("=", "!="), alone=True, timed=True),
    Key("shared", "sharing", "jobs hold something below the pool; shared=JOB for one job", alone=True, timed=True),
    Key("staged", "flag", "the pool is locked while a job is considered", ("=", "!="), alone=True, timed=True),
    Key("subsystem", "text", "name of a subsystem (auxiliary graph) the pool is in"),
    Key("hierarchy", "text", "name of a hierarchy the pool is in"),
    Key("depth", "number", "levels below the root, which is 0", _ORDER),
    Key("parent", "text", "path or name of the parent, or its URI in another hierarchy"),
    Key("under", "text", "path of an ancestor, or its URI in another hierarchy"),
)

ALIASES: Final = MappingProxyType({"status": "state"})


def _find_key(word: str) -> Key | None:
    """The key of this name or alias.

    >>> _find_key("status").name
    'state'
    """
    return KEYS.get(ALIASES.get(word, word))


def _nearest_key(word: str) -> str:
    """What to write instead of an unknown key.

    >>> _nearest_key("Tpye")
    'did you mean type?'
    """
    if word.startswith("/"):
        return f"for a path write path={word}"
    known = [*KEYS, *ALIASES]
    return suggest(word.lower().partition(".")[0], known, most=3) or "keys are " + ", ".join(KEYS)


# -- tokens -----------------------------------------------------------------------------------------------------------

# A word includes a bracket group, so that `node[0-3,7]` is one value and the comma in it is not a separator. Symbols that other
# languages use for `and`, `or`, `not` end a word: they are reported with the word to use instead of becoming part of a name.

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


def _at(offset: int) -> str:
    """The position of an offset for an error message: columns count from 1."""
    return f"criteria:{offset + 1}"


def _tokenized(text: str) -> list[Token]:
    """The tokens of criteria; the last is an `end` token. Cost O(length). Errors: InputError with the column.

    >>> [t.text for t in _tokenized("name=node[0-3,7]")]
    ['name', '=', 'node[0-3,7]', '']
    """
    found = []
    for match in _TOKEN.finditer(text):
        kind, start = match.lastgroup, match.start()
        if kind == "quote":
            raise InputError(f"expected a closing {match[0]} for the string {excerpt(text[start:])}", where=_at(start))
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
                where=_at(offset + escape.start()),
                hint="write \\\\ for a backslash",
            )
    return _ESCAPE.sub(r"\1", inside)


# -- values -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of a known unit, which is compared in the unit of each pool."""

    number: int
    unit: str


Value = str | bool | tuple[int, int] | Amount
"""Text (a glob after `~`, a hostlist expression if a name has brackets); a flag; a range of integers, ends included; or a
size."""

_FLAGS: Final = {"true": True, "false": False}
_RANGE: Final = re.compile(r"(?P<low>[^-]*)(?:-(?P<high>.*))?", re.DOTALL)
_NUMBER: Final = re.compile(r"(?P<digits>0|[1-9][0-9]*)(?P<unit>[kK]|[MGT]|[KMGT]i)?", re.ASCII)
_UNITS: Final = {
    "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


def _values_of(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    """The values of `words` in `key op …`.

    Errors: InputError with the column of the word; LimitExceeded for a number beyond `limits.SIZE_MAX`.
    """
    if op in ("<", "<=", ">", ">=") and len(words) > 1:
        raise InputError(f"expected one value after {key.name}{op}, got {len(words)}", where=_at(words[1].start))
    if op == "~":
        return _texts(words)
    return _READERS[key.kind](key, op, words)


def _texts(words: Sequence[Token]) -> tuple[Value, ...]:
    return tuple(word.text for word in words)


def _exact(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    return _texts(words)


def _names(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    found: list[Value] = []
    for word in words:
        items = hostlist.split(word.text)
        if not items:
            raise InputError(f"expected a name after {key.name}{op}, got {word.shown()}", where=_at(word.start))
        for item in items:
            if "[" in item or "]" in item:
                _check_hostlist(item, word)
            found.append(item)
    return tuple(found)


def _check_hostlist(item: str, word: Token) -> None:
    try:
        hostlist.count(item)
    except InputError as error:
        hint = error.hint or "for a glob write ~ instead of ="
        raise type(error)(error.message, where=_at(word.start), hint=hint) from None


def _numbers(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    found = [_amount(key, field, word) or _range(key, field, word) for word in words for field in _fields(word)]
    ranges = [value for value in found if isinstance(value, tuple)]
    if op in ("=", "!="):
        return (*joined(ranges), *dict.fromkeys(value for value in found if isinstance(value, Amount)))
    if len(found) != 1 or any(low != high for low, high in ranges):
        raise InputError(f"expected one number after {key.name}{op}, got {words[0].shown()}", where=_at(words[0].start))
    return tuple(found)


def _amount(key: Key, field: str, word: Token) -> Amount | None:
    """A number with a unit; None for other text."""
    if not key.measured or not (unit.is_size(field) or unit.is_misspelt(field)):
        return None
    try:
        return Amount(*unit.parse(field))
    except InputError as error:
        raise InputError(error.message, where=_at(word.start), hint=error.hint) from None


def _fields(word: Token) -> list[str]:
    text = word.text
    return (text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text).split(",")


def _range(key: Key, field: str, word: Token) -> tuple[int, int]:
    parts = _RANGE.fullmatch(field)
    low = _number(parts["low"], word) if parts else None
    high = low if parts is None or parts["high"] is None else _number(parts["high"], word)
    if low is None or high is None or high < low:
        raise InputError(
            f"expected a number, or a range lo-hi, got {excerpt(field)}",
            where=_at(word.start),
            hint="integers >= 0 without leading zeros; k M G T Ki Mi Gi Ti multiply"
            + "; sizes have a unit, such as 64GiB" * key.measured,
        )
    return low, high


def _number(text: str, word: Token) -> int | None:
    parts = _NUMBER.fullmatch(text)
    if parts is None:
        return None
    # int() refuses very long digit strings with a different error.
    number = int(parts["digits"]) * _UNITS.get(parts["unit"] or "", 1) if len(parts["digits"]) <= 19 else limits.SIZE_MAX + 1
    if number > limits.SIZE_MAX:
        raise LimitExceeded(f"expected a number up to {limits.SIZE_MAX}, got {excerpt(text)}", where=_at(word.start))
    return number


def _flag(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    if len(words) != 1 or words[0].text.lower() not in _FLAGS:
        raise InputError(f"expected true or false after {key.name}{op}, got {words[-1].shown()}", where=_at(words[-1].start))
    return (_FLAGS[words[0].text.lower()],)


def _jobs(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    for word in words:
        if not 0 < len(word.text) <= limits.JOB_ID_LENGTH_MAX:
            raise InputError(
                f"expected a job id of 1 to {limits.JOB_ID_LENGTH_MAX} characters, got {word.shown()}", where=_at(word.start)
            )
    return _texts(words)


def _sharing(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    # A job may be named "true": in quotes it is the job.
    if len(words) == 1 and words[0].kind == "word" and words[0].text.lower() in _FLAGS:
        return _flag(key, op, words)
    return _jobs(key, op, words)


_READERS: Final[dict[Kind, Callable[[Key, str, Sequence[Token]], tuple[Value, ...]]]] = {
    "text": _exact,
    "names": _names,
    "number": _numbers,
    "flag": _flag,
    "job": _jobs,
    "sharing": _sharing,
    "qualified": _exact,
}


# -- criteria ---------------------------------------------------------------------------------------------------------

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
    def amounts(self) -> tuple[Amount, ...]:
        return tuple(value for value in self.values if isinstance(value, Amount))

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
        raise LimitExceeded(f"expected at most {limits.CRITERIA_LENGTH_MAX} characters, got {len(text)}", where=_at(0))
    return _Parser(text).criteria()


def keys() -> Mapping[str, Key]:
    """The keys of criteria, by name: kind of value, operators, one line of help.

    >>> keys()["depth"].kind, keys()["depth"].operators
    ('number', ('=', '!=', '<', '<=', '>', '>='))
    """
    return KEYS


_CONNECTIVES: Final = frozenset({"and", "or", "not"})
_WRONG_SIGNS: Final = {"&": "and", "|": "or", "!": "not"}


class _Parser:
    """Recursive descent, one method a level of precedence; `depth` counts parentheses and `not`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokenized(text)
        self._next = 0

    def criteria(self) -> Criteria:
        if self._peek().kind == "end":
            raise InputError("expected criteria, got empty text", where=_at(0), hint="such as type=node and state=up, or all")
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
            raise LimitExceeded(f"nested deeper than {limits.CRITERIA_DEPTH_MAX} levels", where=_at(self._peek().start))
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
        key = _find_key(name)
        if key is None:
            raise InputError(f"unknown key {token.shown()}", where=_at(token.start), hint=_nearest_key(token.text))
        if not colon:
            return key, None, None
        if key.kind != "qualified":
            raise InputError(
                f"expected an operator after {name!r}, got ':'", where=_at(token.start + len(name)), hint=f"write {name}=VALUE"
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
                where=_at(token.start),
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
        found = _values_of(key, op, words)
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
            raise InputError(f"{key.name!r} cannot be compared with {token.text!r}", where=_at(token.start), hint=hint)
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
            timed = ", ".join(name for name, other in KEYS.items() if other.timed)
            raise InputError(
                f"{key.name!r} does not depend on time", where=_at(token.start), hint=f"{kind} can be used with {timed}"
            )
        value = self._value()
        try:
            if kind == "during":
                moment.read_window(value.text)
            elif moment.read(value.text).offset_s == math.inf:
                raise InputError(f"expected a finite moment, got {value.shown()}")
        except FluxresError as error:
            raise InputError(error.message, where=_at(value.start), hint=error.hint) from None
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
        return InputError(f"expected {what}, got {token.shown()}", where=_at(token.start), hint=hint)


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
    key = KEYS[node.key]
    subject = node.key if node.qualifier is None else f"{node.key}:{_quoted(node.qualifier, _BARE_KEY)}"
    if key.alone and node.op == "=" and node.flag:
        text = subject
    else:
        text = f"{subject}{node.op}{','.join(_value_text(key, node.op, value) for value in node.values)}"
    return text if node.when is None else f"{text} {node.when.kind} {_quoted(node.when.text, _BARE)}"


def _value_text(key: Key, op: str, value: Value) -> str:
    if isinstance(value, Amount):
        return f"{value.number}{value.unit}"
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

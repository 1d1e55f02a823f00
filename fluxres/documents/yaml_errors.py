"""What the messages of a YAML parser mean to the person who wrote the file: the likely cause, its place and the way out.

LibYAML and PyYAML's own parser say the same in different words; both are recognized. A message that is not is passed on as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fluxres.documents.document import excerpt

_WORD_MAX: Final = 60
"""Characters of a word that a message shows."""

_TAB: Final = "YAML is indented with spaces, not with tabs"
_QUOTE: Final = "put the value in quotes"
_COLON: Final = "write 'key: value', with a ':' and a blank"
_SAME: Final = "in the same column"
_ENTRY: Final = re.compile(r"[ ]*(?:- +)*")
_KEY: Final = re.compile(r"[ ]*(?:- +)*(?:\"[^\"]*\"|'[^']*'|[^\s#'\"\[\]{},&*!|>%@`][^:#\"'{}\[\]]*?):(?:\s|$)")
_GLUED: Final = re.compile(r"[ ]*(?:- +)*([A-Za-z_][\w-]*):(?=[^\s:/])(\S+)")


class Explanation(NamedTuple):
    """A message, its hint, and the line and column (from 0) that it is about."""

    message: str
    hint: str
    line: int
    column: int


class _Fault(NamedTuple):
    """What a parser reported: its words, the place, and where the construct it was in begins."""

    problem: str
    context: str
    line: int
    column: int
    begin: tuple[int, int] | None
    lines: list[str]
    opened: tuple[int, int] | None

    def text(self, line: int) -> str:
        return self.lines[line] if 0 <= line < len(self.lines) else ""

    @property
    def here(self) -> str:
        """The line of the place."""
        return self.text(self.line)

    @property
    def character(self) -> str:
        return self.here[self.column : self.column + 1]

    @property
    def is_end(self) -> bool:
        """Whether the text ends here."""
        return not self.here[self.column :].strip() and not any(line.strip() for line in self.lines[self.line + 1 :])

    def said(self, message: str, hint: str, at: tuple[int, int] | None = None) -> Explanation:
        return Explanation(message, hint, *(at or (self.line, self.column)))


def explained(error: Any, lines: list[str], quoted: Any = None, opened: tuple[int, int] | None = None) -> Explanation:
    """The explanation of an error of a parser, a MarkedYAMLError.

    Args:
        lines: of the text, as the parser counts them.
        quoted: the event of the last value in quotes that goes over several lines, if any.
        opened: where the innermost list or mapping begins that is still open.
    """
    mark = error.problem_mark or error.context_mark
    begin = error.context_mark
    fault = _Fault(
        error.problem or error.context or "cannot be read",
        error.context or "",
        mark.line if mark is not None else 0,
        mark.column if mark is not None else 0,
        (begin.line, begin.column) if begin is not None else None,
        lines,
        opened,
    )
    if quoted is not None and quoted.end_mark.line == fault.line and _opens_another(lines, quoted):
        message = f"this {quoted.style} is closed only in line {fault.line + 1}, by a quote that begins another value"
        at = (quoted.start_mark.line, quoted.start_mark.column)
        return fault.said(message, "write the closing quote at the end of this value", at)
    if "\t" in fault.here[: fault.column + 1] and not fault.here[: fault.column + 1].strip():
        return fault.said("a tab in the indentation", _TAB, (fault.line, fault.here.index("\t")))
    for pattern, explain in _EXPLAIN:
        if pattern.search(fault.problem):
            return explain(fault)
    return fault.said(fault.problem, "")


def _opens_another(lines: list[str], quoted: Any) -> bool:
    """Whether the quote at the end of a text seems to be the first one of another."""
    line: int = quoted.end_mark.line
    column: int = quoted.end_mark.column
    return line < len(lines) and lines[line][: max(column - 1, 0)].rstrip().endswith((":", "-", "[", "{", ","))


# -- indentation and keys --------------------------------------------------------------------------------------------------


def _key_above(fault: _Fault) -> int | None:
    """The column of the key in the nearest line above that has one, a dash before it not counted."""
    for line in range(fault.line - 1, max(-1, fault.line - 200), -1):
        text = fault.text(line)
        if _KEY.match(text) and not text.lstrip().startswith("#"):
            return _indent(text)
    return None


def _indent(line: str) -> int:
    """The column at which the first key or value of a line begins, after the dashes."""
    found = _ENTRY.match(line)
    return found.end() if found else 0


def _not_aligned(fault: _Fault, columns: int, expected: int | None) -> Explanation:
    at = (fault.line, columns)
    message = f"this line is indented by {_spaces(columns)}, which fits no line above"
    if expected is None:
        return fault.said(message, f"entries of one mapping or list begin {_SAME}", at)
    return fault.said(message, f"the keys above it begin after {_spaces(expected)}; keys of one mapping begin {_SAME}", at)


def _spaces(count: int) -> str:
    return "1 space" if count == 1 else f"{count} spaces" if count else "no space"


def _value_not_allowed(fault: _Fault) -> Explanation:
    """A ``: `` where no key can end."""
    before = fault.here[: fault.column]
    earlier = _KEY.match(before + " ") or re.match(r"[ ]*(?:- +)*[^\s:]+:\s", before)
    if earlier:
        key = before[: earlier.end()].rstrip().removesuffix(":")
        value = fault.here[earlier.end() :].strip()
        message = f"a second ': ' in the value of {excerpt(key.strip().removeprefix('- '))}"
        return fault.said(message, f'{_QUOTE}, as in "{value[:40]}"; or begin the inner key on a line of its own')
    above = fault.text(fault.line - 1) if fault.line else ""
    glued = _GLUED.match(above)
    if glued:
        return _no_blank(fault, glued, fault.line - 1)
    column = _indent(fault.here)
    expected = _key_above(fault)
    if expected is not None and column != expected and _KEY.match(above):
        return _not_aligned(fault, column, expected)
    if above.strip() and not _KEY.match(above):
        word = above.strip().removeprefix("- ").split("#")[0].strip()
        return fault.said(f"{excerpt(word)} has no ':'", _COLON, (fault.line - 1, _indent(above)))
    if fault.column > 1000:
        return fault.said("a key of more than 1000 characters", "keys are short")
    return fault.said("a ':' where no key can end", f"{_QUOTE}, or check the indentation of this line and the one above")


def _no_blank(fault: _Fault, glued: re.Match[str], line: int) -> Explanation:
    message = f"no blank after the ':' of {excerpt(glued[1])}"
    return fault.said(message, f"write {excerpt(f'{glued[1]}: {glued[2]}', 80)}", (line, glued.end(1)))


def _no_key(fault: _Fault) -> Explanation:
    """In a mapping in block style, what follows is neither a key of it nor the end of it."""
    column = _indent(fault.here)
    lead = len(fault.here) - len(fault.here.lstrip(" "))
    rest = fault.here[fault.column :]
    if fault.character and fault.character in "]}":
        opened = {"]": "[", "}": "{"}[fault.character]
        return fault.said(f"a '{fault.character}' that closes nothing", f"remove it, or write the '{opened}' before it")
    if fault.column > lead and not fault.here.lstrip().startswith("-"):
        quoted = fault.here[: fault.column].rstrip()[-1:]
        if quoted and quoted in "'\"":
            hint = f"put the quotes around the whole value{', and double a quote inside it' * (quoted == chr(39))}"
            return fault.said(f"{excerpt(rest.strip())} after the closing quote", hint)
        return fault.said(f"{excerpt(rest.strip())} does not belong to the value before it", _QUOTE)
    if rest.startswith("-") and fault.begin is not None:
        above = next((text for text in reversed(fault.lines[: fault.line]) if text.lstrip().startswith("- ")), "")
        expected = len(above) - len(above.lstrip())
        if above and expected != lead:
            message = f"this '-' is indented by {_spaces(lead)}, unlike the list above it"
            return fault.said(message, f"that list begins after {_spaces(expected)}; its entries begin {_SAME}")
        hint = "a list goes below a key of its own, such as 'with:'; the keys of one entry have no '-'"
        return fault.said("a list entry among the keys of a mapping", hint)
    return _not_aligned(fault, lead if not rest.startswith("-") else column, _key_above(fault))


def _no_dash(fault: _Fault) -> Explanation:
    """In a list in block style, what follows is neither an entry of it nor the end of it."""
    lead = len(fault.here) - len(fault.here.lstrip(" "))
    if fault.column > lead:
        return fault.said(f"{excerpt(fault.here[fault.column :].strip())} does not belong to the entry before it", _QUOTE)
    begin = fault.begin
    if begin is not None and lead == begin[1]:
        hint = f"begin it with '- ', or indent it by {_spaces(lead + 2)} as a key of the entry above"
        return fault.said("a key among the entries of a list", hint)
    return _not_aligned(fault, lead, _key_above(fault))


def _no_entry(fault: _Fault) -> Explanation:
    return _no_dash(fault) if "collection" in fault.context else _no_key(fault)


def _dash_not_allowed(fault: _Fault) -> Explanation:
    return fault.said("a list entry after a key on the same line", "begin the list on the next line, or write it as [a, b]")


def _no_colon(fault: _Fault) -> Explanation:
    at = fault.begin or (fault.line, fault.column)
    text = fault.text(at[0])
    glued = _GLUED.match(text)
    if glued:
        return _no_blank(fault, glued, at[0])
    return fault.said(f"{excerpt(text[at[1] :].strip())} has no ':'", _COLON, at)


# -- brackets and quotes ---------------------------------------------------------------------------------------------------


def _not_closed(fault: _Fault) -> Explanation:
    """In a list or mapping in brackets, what follows is neither a comma nor the end."""
    is_map = "mapping" in fault.context
    opening, closing, other = ("{", "}", "]") if is_map else ("[", "]", "}")
    begin = fault.begin or (fault.line, fault.column)
    opened = f"the '{opening}' in line {begin[0] + 1}, column {begin[1] + 1}"
    if fault.character == other:
        return fault.said(f"'{other}' where '{closing}' has to close {opened}", f"write '{closing}'")
    if fault.is_end or (fault.line > begin[0] and _KEY.match(fault.here)):
        until = "never closed" if fault.is_end else f"not closed before line {fault.line + 1}"
        message = f"this '{opening}' is {until}"
        return fault.said(message, f"write the '{closing}'", begin)
    if fault.character and fault.character in "[{" and not fault.here[: fault.column].endswith((" ", ",")):
        word = re.split(r"[\s,\[{]", fault.here[: fault.column])[-1]
        rest = fault.here[fault.column :].split("]")[0][:_WORD_MAX]
        return fault.said(f"brackets within a word of {opened}", f'put the word in quotes: "{word[:_WORD_MAX]}{rest}]"')
    if fault.character == "#":
        return fault.said("a comment begins here", "put a value with '#' in quotes")
    word = re.split(r"[\s,\[\]{}]", fault.here[: fault.column].rstrip())[-1] if fault.character == ":" else ""
    missing = f"no ',' before {excerpt(word or fault.here[fault.column :].strip())}"
    at = (fault.line, fault.here.rfind(word, 0, fault.column)) if word else None
    return fault.said(f"{missing} in {opened}", f"separate entries with ',', and close the last with '{closing}'", at)


def _no_content(fault: _Fault) -> Explanation:
    if fault.is_end and fault.opened is not None:
        bracket = fault.text(fault.opened[0])[fault.opened[1]]
        closing = "}" if bracket == "{" else "]"
        return fault.said(f"this '{bracket}' is never closed", f"write the '{closing}'", fault.opened)
    if fault.character == ",":
        return fault.said("a ',' with nothing before it", "remove it, or write the value")
    if fault.character and fault.character in "]}":
        return fault.said(f"'{fault.character}' where a value is expected", "write it, and close each bracket with its kind")
    return fault.said("a value is missing here", "write it; null is the value that says nothing")


def _quote_not_closed(fault: _Fault) -> Explanation:
    begin = fault.begin or (fault.line, fault.column)
    quote = fault.text(begin[0])[begin[1] : begin[1] + 1] or '"'
    return fault.said(f"this {quote} is never closed", "write the same quote at the end of the value", begin)


def _escape(fault: _Fault) -> Explanation:
    begin = fault.begin or (fault.line, fault.column)
    column = fault.here.rfind("\\", 0, fault.column + 2)
    at = (fault.line, column) if column >= 0 else begin
    word = fault.text(at[0])[at[1] : at[1] + 2]
    return fault.said(f"{word} is no escape sequence", "in double quotes write \\\\ for a backslash, or use single quotes", at)


# -- single characters and marks -------------------------------------------------------------------------------------------


def _no_token(fault: _Fault) -> Explanation:
    if fault.character == "\t" or "\t" in fault.here[: fault.column]:
        return fault.said("a tab where a value or key begins", _TAB)
    return fault.said(f"a value cannot begin with {fault.character!r}", f'{_QUOTE}: "{fault.here[fault.column :].strip()[:40]}"')


def _name(fault: _Fault) -> Explanation:
    begin = fault.begin or (fault.line, fault.column)
    mark = fault.text(begin[0])[begin[1] : begin[1] + 1]
    word = fault.text(begin[0])[begin[1] :].strip()
    if mark and mark in "*&":
        what = "an alias" if mark == "*" else "an anchor"
        hint = f'put the value in quotes: "{word[:40]}"' if len(word) > 1 else "put it in quotes"
        return fault.said(f"'{mark}' begins {what}, whose name is letters and digits", hint, begin)
    return fault.said("a line that begins with '%' is a directive to the parser", "put the key in quotes", begin)


def _directive(fault: _Fault) -> Explanation:
    at = fault.begin or (fault.line, fault.column)
    return fault.said("a line that begins with '%' is a directive to the parser", "remove it, or put the key in quotes", at)


def _no_document(fault: _Fault) -> Explanation:
    first = next((line for line in fault.lines if line.strip() and not line.lstrip().startswith("#")), "")
    if first.startswith(" "):
        spaces = _spaces(len(first) - len(first.lstrip()))
        hint = f"the first key begins after {spaces}; all keys of the top level begin {_SAME}"
        return fault.said("this line is not indented like the first one", hint)
    return fault.said("the document has ended before this line", "a file has one document; remove the '...' above")


def _block_text(fault: _Fault) -> Explanation:
    at = fault.begin or (fault.line, fault.column)
    mark = fault.text(at[0])[at[1] : at[1] + 1]
    hint = "put a value in quotes that begins with '|' or '>'; otherwise begin its text on the next line, indented"
    return fault.said(f"'{mark}' begins a text of several lines, and nothing but a comment may follow it", hint, at)


def _tag(fault: _Fault) -> Explanation:
    at = fault.begin or (fault.line, fault.column)
    return fault.said("'!' begins a tag, which is not supported", f"{_QUOTE} if it begins with '!'", at)


def _no_line_break(fault: _Fault) -> Explanation:
    return (_block_text if "block" in fault.context else _tag if "tag" in fault.context else _directive)(fault)


#: words of a message, and what explains it; the first that fits
_EXPLAIN: Final[tuple[tuple[re.Pattern[str], Callable[[_Fault], Explanation]], ...]] = tuple(
    (re.compile(words), explain)
    for words, explain in (
        (r"mapping values are not allowed", _value_not_allowed),
        (
            r"did not find expected key|expected <block end>, but found",
            _no_entry,
        ),
        (r"did not find expected '-' indicator", _no_dash),
        (r"sequence entries are not allowed", _dash_not_allowed),
        (r"mapping keys are not allowed", lambda f: f.said("'? ' begins a key here", _QUOTE)),
        (r"could not find expected ':'", _no_colon),
        (r"expected ',' or '[\]}]'", _not_closed),
        (r"expected (the )?node content", _no_content),
        (r"found unexpected (end of stream|document indicator)", _quote_not_closed),
        (r"unknown escape character|hexdecimal|hexadecimal|Unicode character escape", _escape),
        (r"tab character", lambda f: f.said("a tab in the indentation", _TAB, (f.line, max(f.here.find("\t"), 0)))),
        (r"cannot start any token", _no_token),
        (r"(block scalar|indentation indicator)", _block_text),
        (r"alphabetic|alphabetical", _name),
        (r"directive|incompatible YAML|version number|YAML document", _directive),
        (r"tag handle|tag URI|expected '>'|expected '!'|tag", _tag),
        (r"expected '?<document start>", _no_document),
        (
            r"comment or (a )?line break|whitespace or line break",
            _no_line_break,
        ),
    )
)

"""One cursor over a short text, for the small languages of HyperQueue's command line.

Their tokens may stand apart by any blanks, and their numbers may hold underscores; nothing else is shared.  A place is a
column of the text, since all of them are typed as one word of a command.
"""

from __future__ import annotations

import re
import struct
from decimal import ROUND_CEILING, Decimal
from typing import Final

from fluxres import limits
from fluxres.documents.document import excerpt
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax.variants import PER_UNIT

U32_MAX: Final = (1 << 32) - 1
U64_MAX: Final = (1 << 64) - 1

_BLANK: Final = " \t\r\n"
_BLANKS = re.compile(r"[ \t\r\n]+")
_DIGITS = re.compile(r"[0-9][0-9_]*")
_FRACTION = re.compile(r"[0-9]+")


class Cursor:
    """A place in a text that moves forward.

    Args:
        text: what is read; at most `limits.REQUEST_TEXT_MAX` characters unless `most` says otherwise.
        what: the language, for the place in messages: ``pool:7``.
        column: of its first character.
    """

    def __init__(self, text: str, what: str, most: int = limits.REQUEST_TEXT_MAX, *, column: int = 1) -> None:
        self.text, self.what, self.offset, self._column = text, what, 0, column
        if len(text) > most:
            raise LimitExceeded(f"expected at most {most} characters, got {len(text)}", where=f"{what}:1")

    def where(self, offset: int | None = None) -> str:
        """``what:column`` of an offset, or of the next token."""
        return f"{self.what}:{(self.offset if offset is None else offset) + self._column}"

    def error(self, expected: str, hint: str = "", *, offset: int | None = None) -> InputError:
        """`expected …, got REST` at this place."""
        start = self.offset if offset is None else offset
        rest = self.text[start : start + 60].strip()
        return InputError(f"expected {expected}, got {excerpt(rest) if rest else 'the end'}", where=self.where(start), hint=hint)

    def skip(self) -> None:
        # Asked before every token, and most stand close.
        if self.text[self.offset : self.offset + 1] in _BLANK:
            found = _BLANKS.match(self.text, self.offset)
            self.offset = found.end() if found else self.offset

    def peek(self, token: str) -> bool:
        """Whether this token comes next, blanks before it aside."""
        self.skip()
        return self.text.startswith(token, self.offset)

    def take(self, token: str) -> bool:
        """Pass this token if it comes next."""
        if not self.peek(token):
            return False
        self.offset += len(token)
        return True

    def require(self, token: str, hint: str = "") -> None:
        """Pass this token. Errors: InputError when something else stands there."""
        if not self.take(token):
            raise self.error(repr(token), hint)

    def match(self, pattern: re.Pattern[str], expected: str, hint: str = "") -> str:
        """The text of a pattern that must come next."""
        self.skip()
        found = pattern.match(self.text, self.offset)
        if found is None:
            raise self.error(expected, hint)
        self.offset = found.end()
        return found[0]

    def end(self, expected: str = "the end", hint: str = "") -> None:
        """Nothing but blanks follows. Errors: InputError with what does."""
        self.skip()
        if self.offset < len(self.text):
            raise self.error(expected, hint)

    def integer(self, expected: str = "a number", most: int = U32_MAX) -> int:
        """Digits, with underscores between them. Errors: LimitExceeded above `most`."""
        self.skip()
        start = self.offset
        digits = self.match(_DIGITS, expected).replace("_", "")
        if len(digits) > 40 or int(digits) > most:
            raise LimitExceeded(f"expected a number up to {most}, got {excerpt(digits)}", where=self.where(start))
        return int(digits)

    def amount(self, most: int = U32_MAX) -> int:
        """A number with up to four decimals, in ten-thousandths.

        >>> Cursor("1_0.25", "amount").amount()
        102500
        """
        units = self.integer("an amount", most)
        if not self.text.startswith(".", self.offset):
            return units * PER_UNIT
        self.offset += 1
        digits = _FRACTION.match(self.text, self.offset)
        if digits is None:
            raise self.error("decimals after the point")
        if len(digits[0]) > 4:
            hint = "amounts have at most four decimals"
            raise InputError(f"Resource precision exceeded: got {len(digits[0])} decimals", where=self.where(), hint=hint)
        self.offset = digits.end()
        return units * PER_UNIT + int(digits[0].ljust(4, "0"))


def parse_amount(text: str) -> int:
    """An amount as ten-thousandths.

    Errors: InputError with the column, also for a fifth decimal; LimitExceeded beyond 32 bits of whole units.

    >>> parse_amount("0.01"), parse_amount("100.9")
    (100, 1009000)
    """
    cursor = Cursor(text, "amount")
    found = cursor.amount()
    cursor.end()
    return found


def amount_of_float(value: float) -> int:
    """Ten-thousandths of a number from TOML or Python, rounded up, taken as the decimal number a person wrote.

    HyperQueue passes such numbers through 32 bit floats; the shortest decimal text of one is what was meant by it.

    Errors: InputError for what is negative or not finite; LimitExceeded beyond 32 bits of whole units.

    >>> amount_of_float(20.0001), amount_of_float(0.33333), amount_of_float(2)
    (200001, 3334, 20000)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise InputError(f"expected a number of at least 0, got {value!r:.40}", where="amount")
    if value > U32_MAX:
        raise LimitExceeded(f"expected a number up to {U32_MAX}, got {value!r:.40}", where="amount")
    return int((Decimal(_shortest(value)) * PER_UNIT).to_integral_value(ROUND_CEILING))


def _shortest(value: float) -> str:
    """The shortest decimal text that is the same 32 bit float."""
    single = struct.pack("f", value)
    return next(text for digits in range(1, 18) if struct.pack("f", float(text := f"{value:.{digits}g}")) == single)

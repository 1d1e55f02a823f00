"""Colour, with the few escape sequences that every terminal supports.

A table of ten rows does not need a library that takes longer to import than the command takes to run. Colour never carries
meaning alone: whatever is red also says "down".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_CODES: Final = {"heading": "1", "bad": "31", "warn": "33", "job": "36", "faint": "2"}
_STATE_ROLES: Final = {"down": "bad", "failing": "bad", "drain": "warn", "degraded": "warn", "unknown": "warn"}


@dataclass(frozen=True, slots=True)
class Style:
    """Paints text by role, or leaves it plain.

    >>> Style(False).paint("down", "bad"), Style(True).paint("down", "bad")
    ('down', '\\x1b[31mdown\\x1b[0m')
    """

    enabled: bool = False

    def paint(self, text: str, role: str | None) -> str:
        """The text in the colour of a role: heading, bad, warn, job or faint; None is plain."""
        if not self.enabled or role is None or not text.strip():
            return text
        return f"\x1b[{_CODES[role]}m{text}\x1b[0m"


PLAIN: Final = Style()


def state_role(state: str) -> str | None:
    return _STATE_ROLES.get(state)

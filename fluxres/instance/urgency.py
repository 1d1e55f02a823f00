"""Urgency, what a user says, and priority, what the queue is sorted by (Flux RFC 30)."""

from __future__ import annotations

from typing import Final

from fluxres.errors import UsageError

URGENCY_DEFAULT: Final = 16
URGENCY_HELD: Final = 0
URGENCY_EXPEDITED: Final = 31
PRIORITY_MIN: Final = 0
PRIORITY_MAX: Final = 4_294_967_295


def require_urgency(urgency: int) -> int:
    """An urgency that can be.

    Errors: UsageError.

    >>> require_urgency(16)
    16
    """
    if isinstance(urgency, bool) or not isinstance(urgency, int) or not URGENCY_HELD <= urgency <= URGENCY_EXPEDITED:
        raise UsageError(f"urgency: expected an integer from {URGENCY_HELD} (held) to {URGENCY_EXPEDITED}, got {urgency!r:.80}")
    return urgency


def bypass(urgency: int) -> int | None:
    """The priority that an urgency has by itself, whatever the policy: held jobs have the lowest, expedited the highest.

    >>> bypass(0), bypass(16), bypass(31)
    (0, None, 4294967295)
    """
    if urgency == URGENCY_EXPEDITED:
        return PRIORITY_MAX
    return PRIORITY_MIN if urgency == URGENCY_HELD else None

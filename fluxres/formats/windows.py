"""What must be right in the windows and maintenance reservations of any format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fluxres.documents.document import Key

Fail = Callable[[Sequence["Key"], str, str], object]
"""Raises for a place in the entry, with a message and a hint."""


def require_text(text: str | None, key: str, fail: Fail) -> None:
    """Refuse a name with control characters."""
    if text is not None and not text.isprintable():
        fail([key], f"{text!r} has control characters", "a name is printable text")


def require_window(start: float, end: float, fail: Fail) -> None:
    """Refuse an empty window, at its end."""
    if end <= start:
        fail(["end"], f"the window ends at {end:g}, before it begins at {start:g}", "the end must be after the start")


def require_in_order(windows: Sequence[tuple[float, float]], fail: Fail) -> None:
    """Refuse windows that are empty, overlap or are not in order."""
    before = 0.0
    for i, (start, end) in enumerate(windows):
        require_window(start, end, lambda inside, *said, i=i: fail(["windows", i, *inside], *said))
        if i and start < before:
            message = f"the window begins at {start:g}, and the one before it ends at {before:g}"
            fail(["windows", i, "start"], message, "list the windows in order; they must not overlap")
        before = end

"""The progress of long work on a store."""

from __future__ import annotations

from typing import Protocol


class OnProgress(Protocol):
    """Called as the work goes on, in its thread. An exception cancels the work, which leaves the store as it was."""

    def __call__(self, what: str, done: float, total: float, unit: str) -> None:
        """Take note.

        Args:
            what: is being done.
            done, total: how much of how much, in these units; both begin anew with each part of the work.
            unit: in the plural.
        """
        ...


def unwatched(what: str, done: float, total: float, unit: str) -> None:
    """For work whose progress is not shown."""

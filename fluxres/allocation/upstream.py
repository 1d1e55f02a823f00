"""Where a child instance gets units of the suppliers it shares with others: from its parent (rule N1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.auxiliary import Int32


class Upstream(Protocol):
    """Gives a graph units of the suppliers that it has only as ways: the parent of a child instance."""

    def refresh(self) -> None:
        """Update the records of what is held elsewhere."""

    def take(self, vertices: Sequence[int] | Int32, amounts: Sequence[int] | NDArray[np.int64], start: int, end: int) -> None:
        """Get those of these units that come from the parent.

        Errors: InsufficientResources; nothing changes then.
        """

    def give(self, vertices: Sequence[int] | Int32, amounts: Sequence[int] | NDArray[np.int64], start: int, end: int) -> None:
        """Give them back."""

    def note_route(self) -> None:
        """Note that a job draws along a route; see `Records.upward`."""

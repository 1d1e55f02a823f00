"""What a job is expected to run that has outlived what was predicted for it: the correctors of PySS.

The tables are those of D. Tsafrir, Y. Etsion and D. G. Feitelson, Backfilling using system-generated predictions rather than user
runtime estimates, IEEE Trans. Parallel Distrib. Syst. 18(6), 2007, as PySS has them (`common_correctors.py` of predictsim, in the
copies jad-darrous/predictsim and dinesh121991/predictsim; the former fails at the end of its table, the latter takes the limit).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from fluxres.clock import TICKS_PER_S


class Corrector(ABC):
    """A corrector, a base class of such; any class with this method is one."""

    @abstractmethod
    def correct(self, planned: int, requested: int, number: int) -> int:
        """The next length of a job, in ticks from its start; the caller keeps it above what the job has run and to its limit.

        Args:
            planned: what has passed just now.
            requested: the limit.
            number: how often the job was corrected before.
        """


class ToLimit(Corrector):
    """The limit, from then on."""

    def correct(self, planned: int, requested: int, number: int) -> int:
        return requested


INCREMENTS_S: Final = (0, 60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)
"""How much later than first predicted a job is expected to end, by the number of corrections."""


class Increments(Corrector):
    """1, 5, 15, 30 minutes, 1, 2, 5, 10, 20, 50, 100 hours more than first predicted; then the limit.

    >>> made, minute = Increments(), 60_000_000
    >>> [made.correct(10 * minute, 10**15, 0) // minute, made.correct(11 * minute, 10**15, 1) // minute]
    [11, 15]
    """

    def correct(self, planned: int, requested: int, number: int) -> int:
        if number + 1 >= len(INCREMENTS_S):
            return requested
        return planned + (INCREMENTS_S[number + 1] - INCREMENTS_S[number]) * TICKS_PER_S


class Doubling(Corrector):
    """Twice as long as expected so far."""

    def correct(self, planned: int, requested: int, number: int) -> int:
        return 2 * planned

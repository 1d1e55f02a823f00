"""What a job can be, and which event makes it so (Flux RFC 21), as data.

The life of a job is a line with one shortcut: a fatal exception leads to CLEANUP from wherever it is, and whoever has nothing
to clean up goes on to INACTIVE.  The code that moves jobs is checked against this table.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """A state, by its letter."""

    NEW = "N"
    DEPEND = "D"
    PRIORITY = "P"
    SCHED = "S"
    RUN = "R"
    CLEANUP = "C"
    INACTIVE = "I"

    @property
    def letter(self) -> str:
        """One letter, as Flux's tables have it."""
        return self.value


PENDING: Final = frozenset((State.DEPEND, State.PRIORITY, State.SCHED))
RUNNING: Final = frozenset((State.RUN, State.CLEANUP))
ACTIVE: Final = PENDING | RUNNING
"""Virtual states: PD, RU and A."""

EXEC: Final = "exec"
"""Type of the exception of a job that could not be started or stopped, or lost what it ran on."""
FATAL: Final = 0
"""Severity of an exception that ends a job; larger ones (to 7) are told and change nothing."""

WARNING: Final = 1
"""Severity of an exception that reports something and changes nothing."""

LEADS_TO: Final[dict[tuple[State, str], State]] = {
    (State.NEW, "validate"): State.DEPEND,
    (State.DEPEND, "depend"): State.PRIORITY,
    (State.PRIORITY, "priority"): State.SCHED,
    (State.SCHED, "urgency"): State.PRIORITY,
    (State.SCHED, "jobspec-update"): State.PRIORITY,
    (State.SCHED, "alloc"): State.RUN,
    (State.RUN, "finish"): State.CLEANUP,
    (State.CLEANUP, "clean"): State.INACTIVE,
    **{(state, "exception"): State.CLEANUP for state in (State.DEPEND, State.PRIORITY, State.SCHED, State.RUN)},
}
"""Events that move a job; any other leaves it where it is.  Of exceptions, those of severity 0."""


def after(state: State, event: str) -> State:
    """The state in which an event leaves a job.

    >>> after(State.SCHED, "alloc").name, after(State.RUN, "memo").name
    ('RUN', 'RUN')
    """
    return LEADS_TO.get((state, event), state)

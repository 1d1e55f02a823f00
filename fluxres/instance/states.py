"""The states of a job and the events that lead from one to the next (Flux RFC 21); :class:`~fluxres.instance.instance.Instance`
moves jobs by this table."""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """The state of a job, by its letter."""

    NEW = "N"
    DEPEND = "D"
    PRIORITY = "P"
    SCHED = "S"
    RUN = "R"
    CLEANUP = "C"
    INACTIVE = "I"

    __hash__ = object.__hash__  # of identity: Enum's own is a call in Python for each event of each job

    @property
    def letter(self) -> str:
        """The letter that Flux's tables print."""
        return self.value


PENDING: Final = frozenset((State.DEPEND, State.PRIORITY, State.SCHED))
RUNNING: Final = frozenset((State.RUN, State.CLEANUP))
ACTIVE: Final = PENDING | RUNNING
"""Virtual states: PD, RU and A."""

EXEC: Final = "exec"
"""Type of the exception of a job that could not be started or stopped, or lost its resources."""
FATAL: Final = 0
"""Severity of an exception that ends a job; an exception of a larger one (up to 7) only reports something."""
WARNING: Final = 1

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
"""By state and event, the next state; any other event leaves the state as it is.  Only exceptions of severity 0 count."""


def after(state: State, event: str) -> State:
    """The state of a job after an event.

    >>> after(State.SCHED, "alloc").name, after(State.RUN, "memo").name
    ('RUN', 'RUN')
    """
    return LEADS_TO.get((state, event), state)

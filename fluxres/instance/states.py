"""The states of a job, and the events that change them (Flux RFC 21); `Lifecycle` uses this table."""

from __future__ import annotations

from enum import Enum
from typing import Final

from fluxres.documents import arguments
from fluxres.errors import UsageError


class State(Enum):
    """The states of a job, by their letters in the tables of Flux."""

    NEW = "N"
    DEPEND = "D"
    PRIORITY = "P"
    SCHED = "S"
    RUN = "R"
    CLEANUP = "C"
    INACTIVE = "I"

    __hash__ = object.__hash__  # by identity in C; that of Enum is a Python call for each event of each job


PENDING: Final = frozenset((State.DEPEND, State.PRIORITY, State.SCHED))
RUNNING: Final = frozenset((State.RUN, State.CLEANUP))
ACTIVE: Final = PENDING | RUNNING
"""The virtual states PD, RU and A."""
_VIRTUAL: Final = {"pending": PENDING, "PD": PENDING, "running": RUNNING, "RU": RUNNING, "active": ACTIVE, "A": ACTIVE}


def named(name: str) -> frozenset[State]:
    """The states that a name stands for, which may be that of a virtual one. Errors: UsageError.

    >>> sorted(state.name for state in named("running")), [state.name for state in named("inactive")]
    (['CLEANUP', 'RUN'], ['INACTIVE'])
    """
    arguments.text(name, "state")
    found = _VIRTUAL.get(name) or _VIRTUAL.get(name.lower())
    if found is not None:
        return found
    if name.upper() not in State.__members__:
        hint = f"states are {', '.join(State.__members__)}, and pending, running and active"
        raise UsageError(f"no state {name!r:.40}", hint=hint)
    return frozenset((State[name.upper()],))


EXEC: Final = "exec"
"""Type of the exception of a job that could not be started or stopped, or lost its resources."""
FATAL: Final = 0
"""The severity of an exception that ends a job; one with a larger number, up to 7, is only a report."""
WARNING: Final = 1

LEADS_TO: Final[dict[tuple[State, str], State]] = {
    (State.NEW, "validate"): State.DEPEND,
    (State.DEPEND, "depend"): State.PRIORITY,
    (State.PRIORITY, "priority"): State.SCHED,
    (State.SCHED, "urgency"): State.PRIORITY,
    (State.SCHED, "jobspec-update"): State.PRIORITY,
    (State.SCHED, "alloc"): State.RUN,
    (State.RUN, "finish"): State.CLEANUP,
    (State.RUN, "requeue"): State.PRIORITY,
    (State.CLEANUP, "clean"): State.INACTIVE,
    **{(state, "exception"): State.CLEANUP for state in (State.DEPEND, State.PRIORITY, State.SCHED, State.RUN)},
}
"""By state and event, the next state; other events, and exceptions of other severities than 0, do not change the state."""


def after(state: State, event: str) -> State:
    """The state of a job after an event.

    >>> after(State.SCHED, "alloc").name, after(State.RUN, "memo").name
    ('RUN', 'RUN')
    """
    return LEADS_TO.get((state, event), state)

"""What listeners and sinks raise: it is kept until the work in progress is done, and raised once."""

from __future__ import annotations

from typing import Final

from fluxres.errors import FluxresError, ListenerError


class Deferred:
    """Errors that are raised later.

    Args:
        during: the work in progress, for messages.

    >>> errors = Deferred("in this call")
    >>> for name in "ab":
    ...     errors.defer(listener_error(KeyError(name), where="sink, job ƒ1", hint="the job went on"))
    >>> str(errors.take())
    "sink, job ƒ1: KeyError: 'a' (the job went on; 1 more error followed in this call)"
    """

    __slots__ = ("_during", "_others", "first")

    def __init__(self, during: str) -> None:
        self._during = during
        self._others = 0
        self.first: BaseException | None = None
        """The one that is raised; None if there is none."""

    def defer(self, error: BaseException) -> None:
        """Keep the first error, and count the others; an exit that is asked for comes before errors."""
        if self.first is None:
            self.first = error
            return
        self._others += 1
        if isinstance(self.first, Exception) and not isinstance(error, Exception):
            self.first = error

    def take(self) -> BaseException:
        """The first error, which says how many others there are; nothing is deferred any more."""
        found, others = self.first, self._others
        assert found is not None  # callers look first, because there rarely is one
        if others and isinstance(found, FluxresError):
            found.hint += f"{'; ' * bool(found.hint)}{others} more error{'s' * (others > 1)} followed {self._during}"
        self.first, self._others = None, 0
        return found

    def join(self, error: BaseException, said: str) -> None:
        """Make the first error a note of another one, which ends the work; an exit is raised in place of an error.

        Args:
            said: what leads to the first error, as in `before that`.
        """
        found = self.take()
        if isinstance(error, Exception) and not isinstance(found, Exception):
            raise found from error
        error.add_note(f"{said}: {found}")


EXITS: Final = (KeyboardInterrupt, SystemExit)
"""What listeners and sinks may raise to end the program: not before the work in progress is done, as with errors."""


def listener_error(error: Exception, *, where: str, hint: str) -> ListenerError:
    """What a listener or a sink has raised, as an error that names its place."""
    found = ListenerError(f"{type(error).__name__}: {error}", where=where, hint=hint)
    found.__cause__ = error
    return found

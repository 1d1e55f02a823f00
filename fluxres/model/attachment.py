"""What attaches a graph to the store that keeps its changes; :mod:`fluxres.store.attached` is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Attachment(Protocol):
    """Around each change of a graph: the graph is current when it begins, and the change is kept when it ends.

    It holds the lock of the graph in between, and may be entered again within.
    """

    def __enter__(self) -> object: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None: ...

    def batch(self, command: str | None, user: str | None) -> AbstractContextManager[None]:
        """Around several changes that are one."""
        ...

    def together(self, operations: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """What each of several operations returns or raises; they are kept at once."""
        ...

    def note(self, name: str, text: str | None) -> None:
        """Within a batch: a text that is kept with its changes, if it makes any."""
        ...

    def flush(self) -> None:
        """Keep now what changes before this one have made, those made together with it included."""
        ...

    def log(self, after: int, job: str | None, limit: int) -> list[dict[str, Any]]:
        """What was kept of the changes, oldest first."""
        ...

    def undo(self, *, redo: bool) -> list[dict[str, Any]]:
        """Put back the state before the last change, or before the last undo; returns what was undone."""
        ...

    def refresh(self) -> None:
        """Make the graph equal to the stored one."""
        ...

    def close(self) -> None:
        """End the connection; the graph refuses changes afterwards."""
        ...

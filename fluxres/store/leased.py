"""What children have in common whose lease a thread renews: the end of a block, and why they change nothing any more."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from fluxres.errors import FluxresError, HoldLapsed

RENEWALS: Final = 3
"""Of a lease in its life."""


class Leased(ABC):
    """A child whose lease a thread renews. It returns everything when the block ends.

    Args:
        name: of its graph.
        parent: name of the graph that it is a part of.
        job: that holds its pools there.
        life_s: of the lease.
    """

    def __init__(self, name: str, parent: str, job: str, life_s: float) -> None:
        self.name, self.parent, self.job = name, parent, job
        self.on_loss: Callable[[], object] = lambda: None
        self._life_s = life_s
        self._is_over = threading.Event()
        self._was_ended = False
        self._thread = threading.Thread(target=self._run, name="fluxres-child", daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.end()
            return
        with suppress(FluxresError):  # the error of the block says more, and the lease ends by itself
            self.end()

    @property
    @abstractmethod
    def loss(self) -> HoldLapsed | None:
        """Why it changes nothing any more: its lease was over, or it has ended; None while it may."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or has lost its lease, and changes nothing any more."""
        return self._is_over.is_set() or self.loss is not None

    def require(self) -> None:
        """Errors: HoldLapsed once it has lost its lease, and not if it was ended here."""
        if not self._was_ended:
            require_none(self.loss)

    @abstractmethod
    def renew(self) -> None:
        """Renew the lease now."""

    @abstractmethod
    def end(self) -> None:
        """End it: its job in the parent is freed, and its graph is removed."""

    @abstractmethod
    def _note_end_of_lease(self) -> None:
        """Note the loss of the lease if its time is over."""

    def _stop(self) -> None:
        """End the thread."""
        self._is_over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(self._life_s / RENEWALS):
            with suppress(FluxresError):  # the store or the server is busy or away: again until the lease is over
                self.renew()
            if self.loss is None:
                self._note_end_of_lease()
            if self.loss is not None:
                self.on_loss()
                return


def require_none(loss: HoldLapsed | None) -> None:
    """Errors: HoldLapsed, if there is one already."""
    if loss is not None:
        raise HoldLapsed(loss.message, where=loss.where, hint=loss.hint)

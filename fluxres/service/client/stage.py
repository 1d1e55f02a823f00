"""A stage on a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from fluxres.service.client.values import RemoteAllocation


class RemoteStage:
    """Pools locked for a job, until committed, released, or expired; a context manager that releases what was not committed.

    Args:
        document: of the stage.
        commit, release: of the graph, by the id of the stage.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        commit: Callable[[str], RemoteAllocation],
        release: Callable[[str], None],
    ) -> None:
        self._commit, self._release = commit, release
        self.stage = str(document["stage"])
        self.job = str(document["job"])
        self._is_over = False

    def commit(self) -> RemoteAllocation:
        """Make it an allocation of its job. Errors: StaleHandle when it is no longer active."""
        granted = self._commit(self.stage)
        self._is_over = True
        return granted

    def release(self) -> None:
        """Release the pools. Errors: StaleHandle when it is no longer active."""
        self._release(self.stage)
        self._is_over = True

    def __enter__(self) -> RemoteStage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._is_over:
            self.release()

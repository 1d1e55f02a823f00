"""A stage on a server."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fluxres.service.client.values import RemoteAllocation

if TYPE_CHECKING:
    from fluxres.service.client.graph import RemoteGraph


class RemoteStage:
    """Pools locked for a job, until committed, released, or expired; a context manager that releases what was not committed.

    Args:
        graph: on the server.
        document: of the stage.
    """

    def __init__(self, graph: RemoteGraph, document: Mapping[str, Any]) -> None:
        self.graph = graph
        self.stage = str(document["stage"])
        self.job = str(document["job"])
        self._is_over = False

    def commit(self) -> RemoteAllocation:
        """Make it an allocation of its job. Errors: StaleHandle when it is no longer active."""
        granted = self.graph.commit(self.stage)
        self._is_over = True
        return granted

    def release(self) -> None:
        """Release the pools. Errors: StaleHandle when it is no longer active."""
        self.graph.release(self.stage)
        self._is_over = True

    def __enter__(self) -> RemoteStage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._is_over:
            self.release()

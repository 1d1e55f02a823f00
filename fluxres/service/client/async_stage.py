"""A stage on a server, for asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any

from fluxres.service.client.values import AsyncRemoteAllocation


class AsyncRemoteStage:
    """Pools locked for a job, until committed, released, or expired; a context manager that releases what was not committed.

    Args:
        document: of the stage.
        commit, release: of the graph, by the id of the stage.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        commit: Callable[[str], Awaitable[AsyncRemoteAllocation]],
        release: Callable[[str], Awaitable[None]],
    ) -> None:
        self._commit, self._release = commit, release
        self.stage = str(document["stage"])
        self.job = str(document["job"])
        self._is_over = False

    async def commit(self) -> AsyncRemoteAllocation:
        """Make it an allocation of its job. Errors: StaleHandle when it is no longer active."""
        granted = await self._commit(self.stage)
        self._is_over = True
        return granted

    async def release(self) -> None:
        """Release the pools. Errors: StaleHandle when it is no longer active."""
        await self._release(self.stage)
        self._is_over = True

    async def __aenter__(self) -> AsyncRemoteStage:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._is_over:
            await self.release()

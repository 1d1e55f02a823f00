"""A temporary lock on pools while a job is considered (RFC 4, "Staged")."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from fluxres.clock import now_ticks
from fluxres.errors import StaleHandle
from fluxres.model.values import Allocation

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


class Stage:
    """Pools locked for a job until committed, released, or expired.

    As a context manager it releases what was not committed when the block is left.

    Args:
        graph: the resource graph.
        stage: id of the stage.
        job: the job it was made for.
    """

    __slots__ = ("graph", "job", "stage")

    def __init__(self, graph: ResourceGraph, stage: str, job: str) -> None:
        self.graph = graph
        self.stage = stage
        self.job = job

    def __repr__(self) -> str:
        what = f"<Stage {self.stage} of job {self.job}"
        try:
            staged = self.graph.records.stages.get(self.stage)
        except StaleHandle:  # the graph was destroyed
            staged = None
        if staged is None or staged.expires <= now_ticks(self.graph.clock):  # unlike now(), this asks no instance above
            return f"{what}: committed, released or expired>"
        pools = len(staged.targets)
        return f"{what}: {pools} pool{'s' * (pools != 1)}>"

    @property
    def active(self) -> bool:
        """Whether it can still be committed."""
        staged = self.graph.records.stages.get(self.stage)
        return staged is not None and staged.expires > self.graph.now()

    def commit(self) -> Allocation:
        """Make it an allocation of its job.

        Errors: StaleHandle when it is no longer active.
        """
        return self.graph.commit(self.stage)

    def release(self) -> None:
        """Give the pools back.

        Errors: StaleHandle when it is no longer active.
        """
        self.graph.release(self.stage)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.active:
            self.release()

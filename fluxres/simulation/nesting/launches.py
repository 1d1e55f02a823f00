"""The start of a job of a simulation on its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluxres.simulation.nesting.slots import SlotStart

if TYPE_CHECKING:
    from fluxres.instance import Job
    from fluxres.simulation.nesting.sites import Site


class JobLaunch(SlotStart):
    """The start of a job.

    Args:
        since: the moment at which it asked for its slots.
    """

    __slots__ = ("is_booting", "is_over", "job", "ready", "since", "site")

    def __init__(self, job: Job, site: Site, nodes: list[str], since: int) -> None:
        super().__init__(nodes)
        self.job = job
        self.site = site
        self.since = since
        self.is_over = self.is_booting = False
        self.ready = 0
        """When its nodes are on."""

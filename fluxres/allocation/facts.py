"""What is known about a job besides what it holds, and maintenance windows."""

from __future__ import annotations

import msgspec

from fluxres.graph.auxiliary import Int32


class JobFacts(msgspec.Struct, array_like=True, frozen=True):
    """Who a job belongs to.

    Args:
        user: name of the user; None if unknown.
        name: what the user calls the job.
        submitted: tick at which it first got something.
    """

    user: str | None = None
    name: str | None = None
    submitted: int | None = None


class Reservation(msgspec.Struct, array_like=True, frozen=True):
    """A maintenance window: pools that take no work while it lasts.

    Its units are held by an owner of the same name, as those of a job are. If it ignores jobs, it holds what they leave, and
    takes what they release before its end.

    Args:
        pools: vertices, ascending, none below another.
        windows: (start, end) in ticks, ascending, disjoint.
        ignores_jobs: whether jobs may run into the windows.
    """

    pools: tuple[int, ...]
    windows: tuple[tuple[int, int], ...]
    ignores_jobs: bool = False

    def window_at(self, start: int, end: int) -> tuple[int, int] | None:
        """The first window that overlaps this one."""
        return next((window for window in self.windows if window[0] < end and start < window[1]), None)

    def renumbered(self, old_to_new: Int32) -> Reservation:
        """The reservation on another structure, without pools that were removed."""
        pools = (int(old_to_new[v]) for v in self.pools)
        return Reservation(tuple(sorted(v for v in pools if v >= 0)), self.windows, self.ignores_jobs)

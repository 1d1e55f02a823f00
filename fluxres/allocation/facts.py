"""What is known about a job besides what it holds, and maintenance windows."""

from __future__ import annotations

import msgspec

from fluxres.arrays import Int32

ID_OF_JOB = "pass it as text: str(job.id) for the job of an instance, str(id) for its id"


class Launch(msgspec.Struct, frozen=True, omit_defaults=True):
    """The processes that a job lives by: what it holds is free when all of them are gone (rule H1).

    Args:
        host: name of the machine that they run on.
        boot: what makes process ids of this machine unique: its boot and its namespace of process ids.
        processes: (id, start time in clock ticks since the boot) of each.
        mark: value of an environment variable of everything that the job runs.
        command: the program with its arguments.
        lease: tick from which on it counts as gone unless it was renewed; None for no lease.
    """

    host: str
    boot: str
    processes: tuple[tuple[int, int], ...]
    mark: str
    command: tuple[str, ...] = ()
    lease: int | None = None


class JobFacts(msgspec.Struct, array_like=True, frozen=True):
    """Who a job belongs to.

    Args:
        user: name of the user; None if unknown.
        name: what the user calls the job.
        submitted: tick at which it first got something.
        launch: the processes it lives by; None for a job that ends when it is freed.
    """

    user: str | None = None
    name: str | None = None
    submitted: int | None = None
    launch: Launch | None = None

    def renewed(self, lease: int) -> JobFacts:
        """The facts with a lease until this tick, if the job lives by its processes."""
        if self.launch is None:
            return self
        return msgspec.structs.replace(self, launch=msgspec.structs.replace(self.launch, lease=lease))


class Reservation(msgspec.Struct, array_like=True, frozen=True):
    """A maintenance window: pools that take no work while it lasts.

    Its units are held by an owner of the same name, as those of a job are. If it ignores jobs, it holds what they leave, and
    takes what they release before its end.

    Args:
        pools: vertices, ascending, none below another.
        windows: (start, end) in ticks, ascending, disjoint.
        ignores_jobs: whether jobs may run into the windows.
        affected: the topmost pools that take no work meanwhile, if these are more than `pools`: those and what only they supply.
    """

    pools: tuple[int, ...]
    windows: tuple[tuple[int, int], ...]
    ignores_jobs: bool = False
    affected: tuple[int, ...] = ()

    @property
    def out(self) -> tuple[int, ...]:
        """The topmost pools that take no work while it lasts."""
        return self.affected or self.pools

    def window_at(self, start: int, end: int) -> tuple[int, int] | None:
        """The first window that overlaps this one."""
        return next((window for window in self.windows if window[0] < end and start < window[1]), None)

    def renumbered(self, old_to_new: Int32) -> Reservation:
        """The reservation on another structure, without pools that were removed.

        In a part without the pools that were named, it is one of what they affect there.
        """
        pools, affected = (
            tuple(sorted(v for v in old_to_new[list(of)].tolist() if v >= 0)) for of in (self.pools, self.affected)
        )
        return Reservation(pools or affected, self.windows, self.ignores_jobs, affected if pools else ())

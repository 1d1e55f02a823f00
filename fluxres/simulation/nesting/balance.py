"""Which waiting jobs of sibling instances go to another sibling than the one that they were dealt to.

Jobs are dealt before anybody knows how long they run, so one instance is idle while jobs wait in the next one.  `steal` moves
waiting jobs to an idle sibling, `redeal` deals all of them anew from time to time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from fluxres.clock import FOREVER
from fluxres.instance.states import State
from fluxres.simulation.nesting import periodic
from fluxres.simulation.nesting.sites import ChildPayload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fluxres.instance import Job
    from fluxres.simulation.nesting.sites import Site


class JobMove(NamedTuple):
    """A waiting job that goes from one instance to another."""

    job: Job
    source: Site
    target: Site


class Family:
    """The innermost instances below one parent.

    Args:
        awaited: how many of them have not started yet.
    """

    def __init__(self, parent: Site, awaited: int) -> None:
        self.parent = parent
        self.awaited = awaited
        self.sites: list[Site] = []
        """Those that have started and not ended, in the order of their places."""

    def add(self, site: Site) -> None:
        self.awaited -= 1
        self.sites.append(site)
        self.sites.sort(key=lambda each: each.place)

    def remove(self, site: Site) -> None:
        if site in self.sites:
            self.sites.remove(site)

    @property
    def is_exhausted(self) -> bool:
        """Whether no job waits or will be submitted, so that none can be moved any more.

        Instances for which there is no room are not waited for: they may wait for what these hold.
        """
        has_none = all(site.upcoming is None and not (site.ingesting or len(site.instance.queue)) for site in self.sites)
        return has_none and self.awaited <= self._held_up

    @property
    def _held_up(self) -> int:
        """The number of instances that wait for resources of their parent, which has decided."""
        if not self.awaited or self.parent.pass_at < FOREVER:
            return 0
        return sum(isinstance(job.payload, ChildPayload) for job in self.parent.instance.queue)


class Balance:
    """The base: jobs stay where they were dealt."""

    name = "none"
    is_needed = False
    period_s: float | None = None
    """How often `deal` is called; None for never."""

    def move(self, family: Family, now: int) -> JobMove | None:
        """The next job to move after an event; called again until there is none."""
        return None

    def deal(self, family: Family) -> list[JobMove]:
        """The jobs to move at the end of a period."""
        return []


class Steal(Balance):
    """An instance in which no job waits takes a job that fits into what it has free, and so on until none does.

    It asks the sibling with the most waiting jobs first; of these jobs it takes the latest that fits.
    """

    name = "steal"
    is_needed = True

    def move(self, family: Family, now: int) -> JobMove | None:
        # One that decides at this moment is asked afterwards: it may start the job itself.
        victims = [site for site in family.sites if len(site.instance.queue) and site.pass_at != now]
        if not victims:
            return None
        thieves = [site for site in family.sites if _is_idle(site)]
        victims.sort(key=lambda site: -len(site.instance.queue))
        for thief in thieves:
            for victim in victims:
                for job in reversed(list(_movable(victim))):
                    if thief.instance.has_room(thief.request(job.payload)):
                        return JobMove(job, victim, thief)
        return None


class Redeal(Balance):
    """All waiting jobs are dealt anew, each in order of submission to the instance with the fewest waiting units for its size."""

    name = "redeal"
    is_needed = True

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s

    def deal(self, family: Family) -> list[JobMove]:
        sites = [site for site in family.sites if not site.is_ending]
        waiting = [(job, site) for site in sites for job in _movable(site)]
        waiting.sort(key=lambda each: (each[0].payload.submit, each[1].place))
        moved = {id(job) for job, _ in waiting}
        load = {site: sum(job.size for job in site.instance.queue if id(job) not in moved) for site in sites}
        found = []
        for job, source in waiting:
            fitting = [site for site in sites if site is source or site.instance.can_hold(site.request(job.payload))]
            target = min(fitting, key=lambda site: (load[site] / site.instance.inventory.size, site.place))
            load[target] += job.size
            if target is not source:
                found.append(JobMove(job, source, target))
        return found


def _is_idle(site: Site) -> bool:
    """Whether an instance has nothing to decide: otherwise two of them could take a job from each other for ever."""
    instance = site.instance
    return not (
        site.pass_at < FOREVER
        or site.is_ending
        or instance.is_closed
        or site.ingesting
        or len(instance.queue)
        or instance.inventory.is_full
    )


def _movable(site: Site) -> Iterator[Job]:
    """The jobs of the workload that wait in an instance and that no other job waits for, in its order."""
    if not site.instance.dependencies.remembers:
        yield from (job for job in site.instance.queue if job.state is State.SCHED and job.payload is not None)


NAMES: Final = ("none", "steal", "redeal:SECONDS")


def parse(text: str) -> Balance:
    """A policy from its name.

    Errors: UsageError.

    >>> parse("redeal:60").period_s, parse("steal").name
    (60.0, 'steal')
    """
    return periodic.parse(text, "balance", {"none": Balance, "steal": Steal}, Redeal.name, Redeal)

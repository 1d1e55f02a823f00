"""The innermost instances below each parent: jobs move between them (`balance`), and they grow and shrink (`elastic`)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from fluxres.clock import ticks
from fluxres.errors import InfeasibleRequest, InsufficientResources, StaleHandle
from fluxres.instance.states import State
from fluxres.simulation.events import PeriodEvent
from fluxres.simulation.nesting import balance as balances
from fluxres.simulation.nesting import elastic as elastics
from fluxres.simulation.nesting.balance import Balance, Family, JobMove

if TYPE_CHECKING:
    from fluxres.simulation.nesting.elastic import Elastic
    from fluxres.simulation.nesting.hierarchy import Hierarchy
    from fluxres.simulation.nesting.sites import Site
    from fluxres.simulation.simulation import Simulation
    from fluxres.simulation.workload.workload import Submission


class Families:
    """The families of a simulation, by parent, if jobs may move in them or they are elastic; otherwise there are none."""

    def __init__(self, simulation: Simulation, hierarchy: Hierarchy) -> None:
        self.simulation = simulation
        self.balance = balances.parse(hierarchy.balance)
        self.elastic = elastics.parse(hierarchy.elastic)
        self.by_parent: dict[Site, Family] = {}
        self.periods = 0
        """Ends of periods that are scheduled."""

    def expect(self, parent: Site, number: int) -> None:
        """Expect the innermost instances below a parent."""
        if self.balance.is_needed or self.elastic.is_needed:
            self.by_parent[parent] = Family(parent, number)
            self._plan(parent, self.balance)
            self._plan(parent, self.elastic)

    def add(self, site: Site) -> None:
        """Note that an instance has started."""
        if site.place >= 0 and site.parent is not None and (family := self.by_parent.get(site.parent)) is not None:
            family.add(site)

    def remove(self, parent: Site, site: Site) -> None:
        """Note that an instance has ended, and so has the family below it."""
        self.by_parent.pop(site, None)
        if (family := self.by_parent.get(parent)) is not None:
            family.remove(site)

    def miss(self, parent: Site) -> None:
        """Expect one instance less below a parent."""
        if (family := self.by_parent.get(parent)) is not None:
            family.awaited -= 1
            for other in list(family.sites):
                self.simulation.settle_one(other, passed=True)

    def end_period(self, event: PeriodEvent) -> None:
        """Let a policy act at the end of a period, and schedule the next end."""
        parent, by = event.parent, event.by
        self.periods -= 1
        family = self.by_parent.get(parent)
        if family is None or not (family.sites or family.awaited):
            return
        if isinstance(by, Balance):
            self._deal(family, by)
        else:
            self._resize(parent)
        if len(self.simulation.events) > self.periods:  # otherwise nothing will ever happen again
            self._plan(parent, by)

    def _plan(self, parent: Site, by: Balance | Elastic) -> None:
        if by.period_s is not None:
            self.periods += 1
            self.simulation.events.push(self.simulation.clock.now + ticks(by.period_s), PeriodEvent(parent, by))

    def _of(self, site: Site) -> Family | None:
        return None if site.parent is None or site.place < 0 else self.by_parent.get(site.parent)

    # -- jobs that move between siblings -------------------------------------------------------------------------------

    def may_get_more(self, site: Site) -> bool:
        """Whether jobs may still come to an instance from its siblings."""
        family = self._of(site)
        return self.balance.is_needed and family is not None and not family.is_exhausted

    def move_around(self, site: Site) -> None:
        """Move jobs as the policy says, after an event at an instance; and end instances that can get no more jobs."""
        family = self._of(site)
        if family is not None:
            while (found := self.balance.move(family, self.simulation.clock.now)) is not None:
                self._withdraw(found)
                self._put(found)
            if family.is_exhausted:
                for other in list(family.sites):
                    if other is not site:
                        self.simulation.settle_one(other, passed=True)
        if (own := self.by_parent.get(site)) is not None and own.is_exhausted:
            for below in list(own.sites):
                self.simulation.settle_one(below, passed=True)

    def _withdraw(self, move: JobMove) -> None:
        job, source, _ = move
        given, job.payload = job.payload, None
        source.instance.exception(job, "cancel", note="it goes to another instance")
        job.payload = given
        source.jobs -= not given.jobs
        self.simulation.settle_one(source, passed=False)

    def _put(self, move: JobMove) -> None:
        self.simulation.transfer(move.target, move.job.payload)

    def _deal(self, family: Family, by: Balance) -> None:
        moves = by.deal(family)
        places = {job: at for site in family.sites for at, job in enumerate(site.instance.queue)}
        gone = set()
        for move in sorted(moves, key=lambda each: -places[each.job]):  # so that none starts because one before it has gone
            if move.job.state is State.SCHED:
                self._withdraw(move)
                gone.add(move.job)
        for move in moves:
            if move.job in gone:
                self._put(move)

    # -- elastic instances ---------------------------------------------------------------------------------------------

    def make_room(self, site: Site, job: Submission) -> bool:
        """Let an elastic instance grow by what a job lacks that is too large for it, if its parent has that."""
        if not self.elastic.is_needed or site.parent is None or self._of(site) is None:
            return False
        _see_limits(site.parent, site)
        above, inventory = site.parent.instance, site.instance.inventory
        units = job.ask if isinstance(job.ask, int) else inventory.requested(job.ask)
        if len(above.queue) or not 0 < units - inventory.size <= above.inventory.free_units:
            return False
        try:
            site.instance.grow(site.machine.asking(units - inventory.size))
        except (InsufficientResources, InfeasibleRequest):  # reserved, or in pieces that do not fit
            return False
        site.size = max(site.size, elastics.size(site))
        return True

    def resize_around(self, site: Site) -> None:
        """Let siblings of an instance, and those below it, change their sizes after an event, unless that is periodic."""
        if self.elastic.is_needed and self.elastic.period_s is None:
            if site.parent is not None:
                self._resize(site.parent)
            self._resize(site)

    def _resize(self, parent: Site) -> None:
        """Let the innermost instances below a parent shrink and grow: first all that return something, then the others."""
        family = self.by_parent.get(parent)
        if family is None:
            return
        _see_limits(parent, *family.sites)
        if parent.instance.is_closed:
            return
        sites = [site for site in family.sites if not site.is_ending and not site.instance.is_closed]
        above = parent.instance
        targets = self.elastic.targets(sites, 0 if len(above.queue) else above.inventory.free_units)
        changed = []
        for site, target in zip(sites, targets, strict=True):
            least = max(target, 1, *elastics.waiting(site))
            surplus = min(elastics.size(site) - least, elastics.idle(site))
            if surplus > 0 and site.instance.shrink_idle(surplus):
                changed.append(site)
        for site, target in zip(sites, targets, strict=True):
            more = 0 if len(above.queue) else self.elastic.gets(site, target, above.inventory.free_units)
            if more > 0:
                with suppress(InsufficientResources, InfeasibleRequest):  # reserved, or in pieces that do not fit
                    site.instance.grow(site.machine.asking(more))
                    changed.append(site)
        for site in changed:
            site.size = max(site.size, elastics.size(site))
            self.simulation.settle_one(site, passed=False)
        if changed:
            self.simulation.settle_one(parent, passed=False)


def _see_limits(*sites: Site) -> None:
    """Units whose limit has come are free, also where nothing else happens at this moment."""
    for site in sites:
        if not site.instance.is_closed:
            with suppress(StaleHandle):
                site.instance.enter()

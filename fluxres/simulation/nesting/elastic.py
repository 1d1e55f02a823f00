"""How innermost instances grow and shrink by demand while they run.

An instance returns units on which nothing runs to its parent, and gets units that are free there, unless a job waits there.  It
always keeps enough for the largest job that waits in it, so that each waiting job starts some day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fluxres.simulation.nesting import periodic

if TYPE_CHECKING:
    from fluxres.simulation.nesting.sites import Site


class Elastic:
    """The base: sizes stay as they are."""

    name = "none"
    is_needed = False
    period_s: float | None = None
    """How often sizes change; None for after each event."""

    def targets(self, sites: list[Site], free: int) -> list[int]:
        """The size that each instance should have; what is not free is not returned, and what the parent lacks not given.

        Args:
            free: units of the parent that can be given.
        """
        return [size(site) for site in sites]

    def gets(self, site: Site, target: int, free: int) -> int:
        """By how many units an instance grows.

        Args:
            free: units of the parent.
        """
        return max(min(target - size(site), free), 0)


class OnDemand(Elastic):
    """After each event: an instance in which no job waits returns what is idle; one in which jobs wait gets what they lack.

    It gets enough for as many of them, in its order, as the parent has units for, and nothing if that is not enough for one.
    """

    name = "demand"
    is_needed = True

    def targets(self, sites: list[Site], free: int) -> list[int]:
        return [size(site) if waiting(site) else max(size(site) - idle(site), 1) for site in sites]

    def gets(self, site: Site, target: int, free: int) -> int:
        found = lacking = 0
        for units in waiting(site):
            lacking += units
            if lacking - idle(site) > free:
                break
            found = lacking - idle(site)
        return max(found, 0)


class Proportional(Elastic):
    """Every period: all units, in proportion to the units of the jobs that run or wait in each instance, and at least one."""

    name = "share"
    is_needed = True

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s

    def targets(self, sites: list[Site], free: int) -> list[int]:
        wanted = [size(site) - idle(site) + sum(waiting(site)) for site in sites]
        total = sum(map(size, sites)) + free
        return [max(units, 1) for units in divided(total, wanted)] if any(wanted) else [size(site) for site in sites]


def divided(total: int, weights: list[int]) -> list[int]:
    """A number in parts proportional to weights: what is left goes to those with the largest remainders, the first of equals.

    >>> divided(10, [1, 1, 2]), divided(7, [1, 1, 1])
    ([3, 2, 5], [3, 2, 2])
    """
    parts = [total * weight // sum(weights) for weight in weights]
    order = sorted(range(len(weights)), key=lambda at: (-(total * weights[at] % sum(weights)), at))
    for at in order[: total - sum(parts)]:
        parts[at] += 1
    return parts


def size(site: Site) -> int:
    """The units that an instance has."""
    return site.instance.inventory.size


def idle(site: Site) -> int:
    """The units of an instance on which nothing runs."""
    return site.instance.inventory.free_units


def waiting(site: Site) -> list[int]:
    """The sizes of the jobs that wait in an instance, in its order."""
    return [job.size for job in site.instance.queue]


NAMES: Final = ("none", "demand", "share:SECONDS")


def parse(text: str) -> Elastic:
    """A policy from its name.

    Errors: UsageError.

    >>> parse("share:60").period_s, parse("demand").name
    (60.0, 'demand')
    """
    return periodic.parse(text, "elastic", {"none": Elastic, "demand": OnDemand}, Proportional.name, Proportional)

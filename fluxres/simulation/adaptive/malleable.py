"""Malleable jobs: what they have done at the sizes that they had, and the policies that change these.

The work of a job is its time at each size multiplied by the speed-up of that size, an exact fraction.  A job ends when it has
done its work, rounded up to a tick; its limit is a bound on work, too.  After a change it does no work for its time of
reconfiguration, unless it has started at the same moment.

Policies act after each event, once the queue policy has started what it can:

- `expand-idle`: while no job waits, jobs grow into free units, in the order of their starts, each as far as possible.
- `shrink-to-start`: as well, for the first job of the queue, jobs shrink if enough of them can: first that with the most units
  above its smallest size, each by no more than is missing.  The job starts at its smallest size then, or else at the largest
  that fits.  P. Zojer, J. Posner and
  T. Özden compare strategies of this kind on ElastiSim: jobs shrink to start others, and grow into what is idle (Evaluating
  malleable job scheduling in HPC clusters using real-world workloads, arXiv:2602.17318).
- `equipartition`: the first jobs of the queue start as long as the smallest sizes of all allow it; what is left is given to jobs
  with the fewest units, size by size, after the equal shares of L. V. Kalé, S. Kumar and J. DeSouza (A malleable-job system for
  timeshared parallel machines, CCGrid 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from fluxres.clock import FOREVER
from fluxres.documents.suggestion import choose_from
from fluxres.errors import UsageError
from fluxres.instance.states import State
from fluxres.simulation.adaptive.adaptive import speed

if TYPE_CHECKING:
    from fluxres.instance import Instance, Job
    from fluxres.instance.sizes import Option
    from fluxres.simulation.adaptive.adaptive import Adaptive


class MalleableRun:
    """What a running malleable job has done, in ticks.

    Args:
        work: that is left, as time on one unit.
        start: when it starts to work.
        limit: when it has to end; FOREVER for no limit.
        reconfiguration: the time without work after each change.
        units: that it has.
    """

    __slots__ = ("_bound", "_speed", "_started", "_work", "_works_from", "ends", "limit", "plan", "reconfiguration", "steps")

    def __init__(self, work: Fraction, speed: Fraction, start: int, limit: int, reconfiguration: int, units: int) -> None:
        self._work, self._speed = work, speed
        self._bound = None if limit >= FOREVER else (limit - start) * speed
        """The work that its limit allows."""
        self._started = self._works_from = start
        self.reconfiguration = reconfiguration
        self.steps: list[tuple[int, int]] = [(start, units)]
        """The moments of its sizes, and the units that it had from then on."""
        self.limit = limit
        self.ends = min(self._done_at(work), limit)
        """When it is to end."""
        self.plan = object()
        """Another one after each change: of several ends that were planned for one moment, the last one counts."""

    def _done_at(self, work: Fraction) -> int:
        time = work / self._speed
        return min(self._works_from - (-time.numerator // time.denominator), FOREVER)

    def paused(self, end: int) -> int:
        """The unit-ticks in which it has done no work because it changed its size."""
        stops = [*(moment for moment, _ in self.steps[1:]), end]
        parts = list(zip(self.steps, stops, strict=True))[1:]
        return sum(min(self.reconfiguration, stop - moment) * units for (moment, units), stop in parts)

    @property
    def is_done(self) -> bool:
        """Whether it will have done its work when it ends."""
        return self._done_at(self._work) <= self.ends

    def limit_at(self, speed: Fraction, now: int) -> int:
        """Its limit if it had another speed from now on."""
        if self._bound is None:
            return FOREVER
        left = (self._bound - self._elapsed(now) * self._speed) / speed
        return min(self._restart(now) - (-left.numerator // left.denominator), FOREVER)

    def _elapsed(self, now: int) -> int:
        return max(now - self._works_from, 0)

    def _restart(self, now: int) -> int:
        """From when on it works after a change."""
        return now if now <= self._started else now + self.reconfiguration

    def change(self, speed: Fraction, now: int, limit: int, units: int) -> None:
        """Go on at another size."""
        done = self._elapsed(now) * self._speed
        self._work -= done
        if self._bound is not None:
            self._bound -= done
        self._works_from, self._speed, self.limit = self._restart(now), speed, limit
        if self.steps[-1][0] == now:
            self.steps.pop()
        self.steps.append((now, units))
        self.ends = min(self._done_at(self._work), limit)
        self.plan = object()


class Claimed(NamedTuple):
    """A running malleable job, as policies see it; sizes in units of the machine, ascending."""

    job: Job
    units: int
    options: list[tuple[int, Option]]

    @property
    def least(self) -> int:
        return self.options[0][0]

    def at_most(self, units: int) -> tuple[int, Option]:
        """The largest option up to a number of units, else the smallest."""
        return next((each for each in reversed(self.options) if each[0] <= units), self.options[0])


class Resize(NamedTuple):
    """A new size for a running job."""

    job: Job
    option: Option


class ResizePlan(NamedTuple):
    """What to do: jobs that shrink, jobs of the queue that start then (None: of one size), and jobs that grow."""

    shrinks: Sequence[Resize] = ()
    starts: Sequence[tuple[Job, Option | None]] = ()
    grows: Sequence[Resize] = ()


class Resizing:
    """The base: jobs keep their sizes."""

    name = "none"
    is_needed = False

    def plan(self, running: list[Claimed], waiting: Iterable[Job], free: int) -> ResizePlan:
        """What to do after an event.

        Args:
            running: malleable jobs, in the order of their starts.
            waiting: the jobs of the queue, in its order.
            free: units that nobody holds.
        """
        return ResizePlan()


class ExpandIdle(Resizing):
    """While no job waits, jobs grow into free units, in the order of their starts."""

    name = "expand-idle"
    is_needed = True

    def plan(self, running: list[Claimed], waiting: Iterable[Job], free: int) -> ResizePlan:
        if next(iter(waiting), None) is not None:
            return ResizePlan()
        grows = []
        for each in running:
            units, option = each.at_most(each.units + free)
            if units > each.units:
                grows.append(Resize(each.job, option))
                free -= units - each.units
        return ResizePlan(grows=grows)


class ShrinkToStart(ExpandIdle):
    """Jobs shrink to let the first job of the queue start, and grow while no job waits."""

    name = "shrink-to-start"

    def plan(self, running: list[Claimed], waiting: Iterable[Job], free: int) -> ResizePlan:
        head = next(iter(waiting), None)
        if head is None:
            return super().plan(running, (), free)
        wanted, option = _least(head)
        lacking = wanted - free
        if lacking <= 0:
            return ResizePlan() if head.sizes is None else ResizePlan(starts=[(head, _most(head, free))])
        if sum(each.units - each.least for each in running) < lacking:
            return ResizePlan()
        shrinks = []
        for each in sorted(running, key=lambda one: one.least - one.units):
            if lacking <= 0:
                break
            units, smaller = each.at_most(each.units - lacking)
            if units < each.units:
                shrinks.append(Resize(each.job, smaller))
                lacking -= each.units - units
        return ResizePlan(shrinks, [(head, option)]) if lacking <= 0 else ResizePlan()


class Equipartition(Resizing):
    """All malleable jobs get the same number of units, as far as their sizes allow."""

    name = "equipartition"
    is_needed = True

    def plan(self, running: list[Claimed], waiting: Iterable[Job], free: int) -> ResizePlan:
        left = free + sum(each.units - each.least for each in running)
        sharing = [(each.job, each.options) for each in running]
        starts: list[tuple[Job, list[tuple[int, Option]]]] = []
        for job in waiting:
            wanted, _ = _least(job)
            if wanted > left:
                break
            left -= wanted
            starts.append((job, _options(job)))
        shares = _filled([*sharing, *starts], left)
        shrinks: list[Resize] = []
        grows: list[Resize] = []
        for each in running:
            units, option = shares[each.job]
            if units != each.units:
                (shrinks if units < each.units else grows).append(Resize(each.job, option))
        return ResizePlan(shrinks, [(job, shares[job][1] if options else None) for job, options in starts], grows)


def _filled(jobs: list[tuple[Job, list[tuple[int, Option]]]], left: int) -> dict[Job, tuple[int, Option]]:
    """The sizes of jobs: from the smallest on, the one with the fewest units gets the next size, while there are units for it."""
    found = {job: options[0] for job, options in jobs if options}
    at = dict.fromkeys(found, 0)
    order = {job: number for number, job in enumerate(found)}
    options_of = dict(jobs)
    growing = set(found)
    while growing:
        job = min(growing, key=lambda each: (found[each][0], order[each]))
        options, next_at = options_of[job], at[job] + 1
        if next_at == len(options) or options[next_at][0] - found[job][0] > left:
            growing.remove(job)
            continue
        left -= options[next_at][0] - found[job][0]
        found[job], at[job] = options[next_at], next_at
    return found


def _least(job: Job) -> tuple[int, Option | None]:
    """The units with which a waiting job may start, and its smallest size, if it has several."""
    options = _options(job)
    return options[0] if options else (job.size, None)


def _most(job: Job, free: int) -> Option:
    """The largest size of a waiting job that needs at most this many units."""
    return max((each for each in _options(job) if each[0] <= free), key=lambda each: each[0])[1]


def _options(job: Job) -> list[tuple[int, Option]]:
    """The sizes of a job in units of the machine; empty for a job of one size."""
    if job.sizes is None:
        return []
    inventory = job.instance.inventory
    return [(inventory.requested(option.request), option) for option in job.sizes.options]


class MalleableJobs:
    """The malleable jobs that run in a simulation.

    Args:
        policy: changes their sizes.
        moved: called with a job and its new end.
    """

    def __init__(self, policy: Resizing, moved: Callable[[Job, int], None]) -> None:
        self.policy = policy
        self.running: dict[Job, MalleableRun] = {}
        self._moved = moved

    def begin(self, job: Job, run: int, how: Adaptive, moment: int) -> int:
        """A job starts; returns when it is to end.

        Args:
            run: its run time at the preferred size.
        """
        assert job.sizes is not None  # it has several
        option = job.sizes.chosen
        work = run * speed(how.speedup, how.preferred)
        found = self.running[job] = MalleableRun(work, option.speedup, moment, job.limit, how.reconfiguration, job.size)
        return found.ends

    def adjust(self, instance: Instance) -> None:
        """Change sizes after an event, and let jobs start that can do so then."""
        if not self.running and not len(instance.queue):
            return
        now = instance.enter()
        while True:
            plan = self.policy.plan(list(self._claimed(instance)), instance.queue, instance.inventory.free_units)
            for job, option in plan.shrinks:
                self._change(instance, job, option, now)
            has_started = bool(plan.starts) and _start(instance, plan.starts)
            for job, option in plan.grows:
                self._change(instance, job, option, now)
            if any(plan) and _make_pass(instance):  # reservations were dropped, or are for those sizes
                has_started = True
            if not has_started:
                return

    def _claimed(self, instance: Instance) -> Iterator[Claimed]:
        """The running malleable jobs of an instance whose size may change, in the order of their starts."""
        jobs = [job for job in self.running if job.instance is instance and job.sizes is not None]
        for job in sorted(jobs, key=lambda job: (job.started, job.number)):
            if job.state is State.RUN and not job.is_requeued and self.running[job].ends > instance.now:
                assert job.sizes is not None  # chosen above
                each = job.size // job.sizes.chosen.size
                yield Claimed(job, job.size, [(option.size * each, option) for option in job.sizes.options])

    def _change(self, instance: Instance, job: Job, option: Option, now: int) -> None:
        progress = self.running[job]
        limit = progress.limit_at(option.speedup, now)
        if instance.lifecycle.resize(job, option, limit):
            progress.change(option.speedup, now, limit, job.size)
            self._moved(job, progress.ends)


def _make_pass(instance: Instance) -> bool:
    """Make a pass over all jobs of the queue; returns whether any has started."""
    waiting = len(instance.queue)
    instance.queue.changed = True
    instance.schedule()
    return len(instance.queue) < waiting  # also in a pass that was owed


def _start(instance: Instance, jobs: Sequence[tuple[Job, Option | None]]) -> bool:
    """Let jobs of the queue start at certain sizes; returns whether any job has started."""
    for job, option in jobs:
        if job.sizes is not None:
            job.sizes.pinned = option
    try:
        return _make_pass(instance)
    finally:
        for job, _ in jobs:
            if job.sizes is not None:
                job.sizes.pinned = None


POLICIES: Final[dict[str, type[Resizing]]] = {each.name: each for each in (Resizing, ExpandIdle, ShrinkToStart, Equipartition)}


def parse(text: str) -> Resizing:
    """A policy from its name.

    Errors: UsageError.

    >>> parse("equipartition").name
    'equipartition'
    """
    if text not in POLICIES:
        raise UsageError(f"no resize policy {text!r:.80}", hint=choose_from(POLICIES))
    return POLICIES[text]()

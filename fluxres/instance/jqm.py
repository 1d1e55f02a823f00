"""JQM's two ways to poll its queues, as queue policies: `jqm-poller` and `jqm-tours`.

Every released JQM has a poller for each queue: it walks down the queue and starts what it can, skips a job for which there is
*not enough*, and stops at *empty*.  The documentation of a release that never came describes tours instead: one job of each queue
per tour, beginning with the queue whose first job has waited longest, and nothing more from a queue, nor from the manager, after
a refusal.  The scarce resource then stays unused until the oldest job gets it.  Where that documentation and its code differ,
this follows the documentation (specs/seed-systems.md).

What is free is read from the graph at each poll.  On a machine without resource managers, the machine is the one manager of all
queues, a quantity in the units in which the instance measures jobs, and the queues are the partitions that requests name.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from fluxres.clock import Length, length_s, seconds, ticks
from fluxres.errors import UsageError
from fluxres.formats.peers.jqm import jobs, managers
from fluxres.formats.peers.jqm.managers import Answer, Highlander, Quantity
from fluxres.formats.peers.jqm.pollers import Manager, Poller, pollers
from fluxres.instance import states
from fluxres.instance.job import URGENCY_DEFAULT, Job, Scheduler
from fluxres.instance.lanes import Lane
from fluxres.instance.queue import Queue, QueuePolicy

_HEAD: Final = 3
"""Jobs that a poller looks at per job that it has room for."""
_UNLIMITED: Final = 100_000
"""Room beyond which a poller looks at all jobs."""
_MACHINE: Final = Quantity("machine", 0)
STOLEN: Final = "stolen"
"""The type of the exception of a job that another node has claimed."""


class _Jqm(QueuePolicy):
    """What both policies share: queues as lanes, priorities 1 to 10, age, highlanders.

    Args:
        period: seconds between polls; 0 polls whenever something happens.
        strict: whether a job that ends makes no poll before the period is over.
        claim: takes a job from the database that several nodes share; False if another node has it, and it leaves this queue.
    """

    def __init__(self, period: Length = 0, strict: float = 0, claim: Callable[[Job], bool] | None = None) -> None:
        self.period_s = length_s(period, "period") if period else 0.0
        if not self.period_s >= 0:
            raise UsageError(f"period: expected at least 0, got {period}", where=f"queue policy {self.name}")
        self.is_strict = bool(strict)
        self.claim = claim
        self._polled_s: float | None = None
        self._wakes_s: float | None = None
        """When it makes a poll even if nothing happens until then."""
        self._highlanders: dict[str, Job] = {}
        """By definition, the highlander that waited last."""

    def priority(self, job: Job, now_s: float) -> int:
        """1 to 10, and 0 for a job without: that of the request, or the urgency above the default one."""
        if job.urgency != URGENCY_DEFAULT:
            return max(0, min(managers.PRIORITY_MAX, job.urgency - URGENCY_DEFAULT))
        found: int = jobs.facts(job.request).get("priority", 0)
        return found

    def lane(self, job: Job) -> str:
        return jobs.facts(job.request).get("queue") or job.request.queue or ""

    def place(self, job: Job) -> Any:
        found = jobs.facts(job.request)
        position = found.get("position")
        return -job.priority, _since(job) if position is None else position, job.number

    def take_in(self, job: Job) -> Job:
        """The job itself; or, for a highlander, the one of its definition that waits already."""
        definition = _highlander(job)
        if definition is None:
            return job
        waiting = self._highlanders.get(definition)
        if waiting is not None and waiting.instance is job.instance and waiting.state in states.PENDING:
            return waiting
        self._highlanders[definition] = job
        return job

    def schedule(self, queue: Queue) -> None:
        now = queue.now_s
        next_s = now if self._polled_s is None else self._after(self._polled_s)
        if now >= next_s or (queue.changed and not self.is_strict):
            self._polled_s, next_s = now, self._after(now)
            self.poll(Poll(queue, self.claim))
        if self.period_s and len(queue) and not (self._wakes_s is not None and now < self._wakes_s <= next_s):
            self._wakes_s = next_s
            queue.wake_at(next_s)

    def _after(self, moment_s: float) -> float:
        """One period later, at a whole tick."""
        return seconds(ticks(moment_s + self.period_s))

    @abstractmethod
    def poll(self, poll: Poll) -> None:
        """Start what may start now."""


class JqmPoller(_Jqm):
    """The pollers of released versions of JQM, one for each queue: a job that does not fit is skipped, and *empty* ends the
    poll.
    """

    name = "jqm-poller"

    def poll(self, poll: Poll) -> None:
        for name, lane in poll.lanes():
            for poller in poll.pollers(name):
                room = poll.room(poller)
                if room <= 0 or lane.first is None:
                    continue
                for job in lane if room > _UNLIMITED else list(islice(lane, int(_HEAD * room))):
                    answer, _ = poll.answer([poller], job)
                    if answer == "empty":
                        break
                    if answer == "go":
                        poll.start(poller, job)


class JqmTours(_Jqm):
    """The tours that JQM's documentation describes: one job of each queue per tour, the longest-waiting queue first.

    Args:
        skips_highlanders: a highlander that must wait lets the next job of its queue have its turn; by default it ends the turn
            of its queue, as documented.
    """

    name = "jqm-tours"

    def __init__(
        self,
        period: Length = 0,
        strict: float = 0,
        skips_highlanders: float = 0,
        claim: Callable[[Job], bool] | None = None,
    ) -> None:
        super().__init__(period, strict, claim)
        self.skips_highlanders = bool(skips_highlanders)

    def poll(self, poll: Poll) -> None:
        firsts = [(name, lane, first) for name, lane in poll.lanes() if (first := lane.first) is not None]
        firsts.sort(key=lambda each: _since(each[2]))
        heads = {name: _Head(lane) for name, lane, _ in firsts}
        full: set[Manager] = set()
        while heads:
            for name in list(heads):
                is_done = self._turn(poll, name, heads[name], full)
                if is_done or heads[name].next is None:
                    del heads[name]
            if not any(self._has_room(poll, name, full) for name in heads):
                break

    def _turn(self, poll: Poll, name: str, head: _Head, full: set[Manager]) -> bool:
        """Let a queue start its next job; returns whether the queue is done for this poll."""
        while (job := head.next) is not None:
            open_pollers = _not_full(poll.pollers(name), full)
            if not open_pollers:
                return True
            head.take()
            answer, refusing = poll.answer(open_pollers, job)
            if answer == "go":
                unstarted = poll.start(open_pollers[0], job)
                if unstarted is None:
                    return False
                refusing = unstarted
            if self.skips_highlanders and refusing and all(isinstance(each.rules, Highlander) for each in refusing):
                continue
            full.update(refusing)
            return True
        return True

    def _has_room(self, poll: Poll, name: str, full: set[Manager]) -> bool:
        return any(poll.room(poller) > 0 for poller in _not_full(poll.pollers(name), full))


class _Head:
    """The jobs of a lane, one after the other, as they were when the poll began."""

    def __init__(self, lane: Lane) -> None:
        self._jobs: Iterator[Job] = iter(lane)
        self.next: Job | None = next(self._jobs, None)

    def take(self) -> None:
        self.next = next(self._jobs, None)


def _not_full(some: Sequence[Poller], full: set[Manager]) -> list[Poller]:
    return [poller for poller in some if full.isdisjoint(poller.managers)]


class Poll:
    """One poll: what the managers of the machine have left, and what they answer.

    Args:
        queue: the waiting jobs.
        claim: as for the policies.
    """

    def __init__(self, queue: Queue, claim: Callable[[Job], bool] | None) -> None:
        self._queue = queue
        self._instance: Scheduler = queue.instance
        self._claim = claim
        self._pollers = pollers(self._instance.inventory.graph.structure).by_queue
        self._machine = Poller("", 0, (Manager(_MACHINE, _NO_POOLS),))
        self._free: dict[Manager, int] = {}
        self._running: set[str] | None = None

    def lanes(self) -> Iterator[tuple[str, Lane]]:
        """The queues: those of the machine in their order, then the others."""
        lanes = self._queue.lanes
        for name in (*self._pollers, *[name for name in lanes if name not in self._pollers]):
            if name in lanes:
                yield name, lanes[name]

    def pollers(self, name: str) -> Sequence[Poller]:
        if not self._pollers:
            return (self._machine,)
        if not name and len(self._pollers) == 1:
            return next(iter(self._pollers.values()))
        return self._pollers.get(name, ())

    def room(self, poller: Poller) -> float:
        """How many more jobs of default size fit: the least of the managers; a highlander has no limit."""
        rooms = [managers.room(each.rules, self.free(each)) for each in poller.managers if not isinstance(each.rules, Highlander)]
        return min(rooms, default=float("inf"))

    def free(self, manager: Manager) -> int:
        """Units or items that are left now."""
        found = self._free.get(manager)
        if found is None:
            instance = self._instance
            if manager.rules is _MACHINE:
                inventory = instance.inventory
                found = inventory.size - sum(
                    hold.count for hold in (*inventory.running.holds, *inventory.running.lapsed.values())
                )
            else:
                graph, now = instance.inventory.graph, instance.now
                found = manager.free(graph.structure, graph.planner, now, now + 1)
            self._free[manager] = found
        return found

    def answer(self, some: Sequence[Poller], job: Job) -> tuple[Answer, list[Manager]]:
        """What pollers answer a job, go if one does, and the managers that refuse it, the first of each."""
        refusing: list[Manager] = []
        answers: list[Answer] = []
        for poller in some:
            for manager in poller.managers:
                found = self._answer(manager, job)
                if found != "go":
                    refusing.append(manager)
                    answers.append(found)
                    break
            else:
                return "go", []
        return "not-enough" if "not-enough" in answers or not answers else "empty", refusing

    def _answer(self, manager: Manager, job: Job) -> Answer:
        if isinstance(manager.rules, Highlander):
            definition = _highlander(job)
            return "not-enough" if definition is not None and definition in self._running_highlanders() else "go"
        return managers.answer(manager.rules, self._need(manager, job), self.free(manager))

    def _need(self, manager: Manager, job: Job) -> int:
        rule = job.request.chooser
        if manager.rules is not _MACHINE and isinstance(rule, jobs.Booking):
            return rule.need(manager.rules)
        if manager.rules is not _MACHINE:
            return managers.consumption(manager.rules, {}, {})
        return self._instance.inventory.requested(job.request)

    def start(self, poller: Poller, job: Job) -> list[Manager] | None:
        """Claim a job that may go, and start it; None if that is done, or another node has it.

        Returns: the managers that refuse it, if the resources are not free for as long as it may run.
        """
        if self._claim is not None and not self._claim(job):
            self._instance.exception(job, STOLEN, note="another node runs it")
            return None
        if not self._queue.start(job):
            return list(poller.managers)
        definition = jobs.facts(job.request).get("definition")
        if definition is not None and self._running is not None:
            self._running.add(definition)
        for manager in poller.managers:
            if manager in self._free:
                self._free[manager] -= self._need(manager, job)
        if any(len(some) > 1 for some in self._pollers.values()):
            self._free.clear()  # another node may have given it
        return None

    def _running_highlanders(self) -> set[str]:
        """The definitions of which a job runs."""
        if self._running is None:
            running = self._queue.running()
            self._running = {found for job in running if (found := jobs.facts(job.request).get("definition")) is not None}
        return self._running


_NO_POOLS: Any = ()


def _highlander(job: Job) -> str | None:
    """The definition of which only one job may run, if the job is a highlander."""
    found = jobs.facts(job.request)
    return found.get("definition") if found.get("highlander") else None


def _since(job: Job) -> float:
    """When the job was enqueued, in seconds."""
    since = jobs.facts(job.request).get("since")
    return job.submitted_at if since is None else float(since)

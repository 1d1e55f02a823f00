"""Preemption, as Slurm's PreemptType=preempt/qos: running jobs make room for the head of the queue.

The QOS of the head names the QOS that it may preempt.  Jobs are taken in the order of the priority of their QOS, lowest first,
and of those with the same priority the one that started last; then those that need not end for the head to fit are spared, the
last one taken first.  If the head does not fit even without all of them, none is preempted.  A preempted job ends, or waits
again, once its grace time is over, and does not start before the job for which it was preempted has.

Whether the head fits is asked of the inventory itself: the holds get an early end for the question, and their own end afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from fluxres.clock import FOREVER, ticks
from fluxres.instance import states
from fluxres.instance.accounting import CANCEL, OFF, REQUEUE, Accounting
from fluxres.instance.job import Job, Scheduler
from fluxres.instance.roles import JobStates, Moments
from fluxres.instance.states import State

if TYPE_CHECKING:
    from collections.abc import Sequence

PREEMPT: Final = "preempt"
"""Type of the exception of a preempted job."""


class Owner(Scheduler, Protocol):
    """What preemption uses of its instance."""

    @property
    def due(self) -> Moments: ...

    @property
    def lifecycle(self) -> JobStates: ...


class Preempted(NamedTuple):
    """A job that makes room for another one, by number.

    Args:
        started, due, mode, note: as of `Taken`; the start is -1 once its attempt has ended.
        cause: the number of the job for which it was chosen; 0 for none that waits.
    """

    number: int
    started: int
    due: int
    mode: str
    note: str
    cause: int


class Taken(NamedTuple):
    """A job that was chosen.

    Args:
        started: its attempt.
        due: when its grace time is over, in ticks.
    """

    job: Job
    started: int
    due: int
    mode: str
    note: str

    @property
    def is_there(self) -> bool:
        """Whether this attempt still holds something."""
        return self.job.claim is not None and self.job.started == self.started and self.job.state is not State.INACTIVE


class Preemption:
    """What was preempted in one instance, and what may be.

    Args:
        rules: with preempt_type qos.
    """

    def __init__(self, instance: Owner, rules: Accounting) -> None:
        self._instance = instance
        self._rules = rules
        self._taken: dict[int, Taken] = {}
        """By number, chosen jobs that still hold something."""
        self._for: dict[int, Job] = {}
        """By number of a chosen job, the waiting job for which it was chosen."""
        self._wakeup = -1
        """When jobs stop being exempt, if a pass is due then."""

    def state(self) -> tuple[Preempted, ...]:
        """What a later instance has to know."""
        numbers = [number for number in {**self._taken, **self._for} if number in self._instance.lifecycle.jobs]
        found = []
        for number in sorted(numbers):
            taken, cause = self._taken.get(number), self._for.get(number)
            if taken is None or not taken.is_there:
                taken = Taken(self._instance.lifecycle.jobs[number], -1, 0, "", "")
            found.append(Preempted(number, *taken[1:], 0 if cause is None else cause.number))
        return tuple(found)

    def resume(self, state: Sequence[Preempted]) -> None:
        """Go on with what an earlier instance began."""
        jobs = self._instance.lifecycle.jobs
        for number, started, due, mode, note, cause in state:
            if cause in jobs:
                self._for[number] = jobs[cause]
            if started >= 0 and number in jobs:
                self._taken[number] = Taken(jobs[number], started, due, mode, note)
                self._instance.due.wake_at(due)

    def obstacle(self, job: Job) -> str | None:
        """Why a job that was preempted does not start yet."""
        cause = self._for.get(job.number) if self._for else None
        if cause is None or cause is job or cause.state is not State.SCHED:
            return None
        return f"preempted, until job {cause.id} has started"

    def begin_pass(self) -> bool:
        """Forget what is over, and end the jobs whose grace time is; returns whether jobs wait no longer for another one."""
        now = self._instance.due.now
        released = [number for number, cause in self._for.items() if cause.state is not State.SCHED]
        for number in released:
            del self._for[number]
        for number, taken in list(self._taken.items()):
            if not taken.is_there:
                del self._taken[number]
            elif taken.due <= now:
                self._end(taken)
        return bool(released)

    def is_awaited(self, job: Job) -> bool:
        """Whether jobs were preempted for a waiting job."""
        return any(cause is job for cause in self._for.values())

    def releases(self, job: Job) -> bool:
        """Whether jobs that were preempted for this one may start, since it waits no longer."""
        return job.state is not State.SCHED and self.is_awaited(job)

    def may_preempt(self, job: Job) -> bool:
        """Whether the QOS of a job names another one."""
        own = self._rules.qos.get(job.qos or "")
        return own is not None and bool(own.preempt)

    def make_room(self, head: Job) -> bool:
        """Preempt as many jobs as a waiting job needs, which has no reservation, as no other job has.

        Returns: whether some were.

        Cost: one question to the inventory for each job taken, and one for each spared, besides O(jobs that run).
        """
        now = self._instance.due.now
        going = [taken.job for taken in self._taken.values() if taken.is_there]
        candidates = self._candidates(head)
        eligible = [job for job in candidates if self._exempt_until(job) <= now]
        if eligible or going:
            chosen = self._fewest(head, going, eligible)
            if chosen is not None:
                for job in chosen:
                    self._take(job, head)
                return bool(chosen)
        self._wake(min((moment for job in candidates if (moment := self._exempt_until(job)) > now), default=FOREVER))
        return False

    def _candidates(self, head: Job) -> list[Job]:
        """The running jobs that a job may preempt, in the order in which they are taken."""
        qos, now = self._rules.qos, self._instance.due.now
        allowed = {name for name in qos[head.qos or ""].preempt if self._rules.preempt_mode_of(name) != OFF}
        found = [
            job
            for job in self._instance.lifecycle.jobs.values()
            if job.claim is not None
            and job.qos in allowed
            and job.state is State.RUN
            and job.limit > now
            and job.child is None
            and not job.is_booking
            and job.number not in self._taken
        ]
        return sorted(found, key=lambda job: (qos[job.qos or ""].priority, -job.started, -job.number))

    def _exempt_until(self, job: Job) -> int:
        return job.started + ticks(self._rules.preempt_exempt_time_of(job.qos or ""))

    def _fewest(self, head: Job, going: list[Job], eligible: list[Job]) -> list[Job] | None:
        """The jobs to preempt, fewest in their order; None if the head does not fit without all of them."""
        trial = _Trial(self._instance, head)
        try:
            if trial.fits():
                return []
            for job in going:
                trial.leave_out(job)
            if going and trial.fits():
                return []
            taken: list[Job] = []
            for job in eligible:
                trial.leave_out(job)
                taken.append(job)
                if trial.fits():
                    break
            else:
                return None
            for job in reversed(taken[:-1]):
                trial.put_back(job)
                if trial.fits():
                    taken.remove(job)
                else:
                    trial.leave_out(job)
            return taken
        finally:
            trial.put_all_back()

    def _take(self, job: Job, head: Job) -> None:
        name, now = job.qos or "", self._instance.due.now
        due = now + ticks(self._rules.qos[name].grace_time_s)
        note = f"preempted by job {head.id} of qos {head.qos}"
        taken = self._taken[job.number] = Taken(job, job.started, due, self._rules.preempt_mode_of(name), note)
        self._for[job.number] = head
        if due > now:
            self._instance.due.wake_at(due)
        else:
            self._end(taken)

    def _end(self, taken: Taken) -> None:
        job, mode, note = taken.job, taken.mode, taken.note
        if job.state is not State.RUN:
            return  # it is being stopped
        if job.child is not None:
            del self._taken[job.number]  # it became an instance meanwhile, and these are not preempted
            return
        if mode == REQUEUE:
            self._instance.lifecycle.requeue(job, PREEMPT, note)
        else:
            assert mode == CANCEL
            self._instance.lifecycle.raise_exception(job, PREEMPT, states.FATAL, note)

    def _wake(self, moment: int) -> None:
        if moment < FOREVER and moment != self._wakeup:
            self._wakeup = moment
            self._instance.due.wake_at(moment)


class _Trial:
    """Whether a waiting job would fit if some holds ended at once."""

    def __init__(self, instance: Owner, head: Job) -> None:
        self._inventory, self._head, self._now = instance.inventory, head, instance.due.now
        self._left_out: list[Job] = []

    def fits(self) -> bool:
        inventory, head = self._inventory, self._head
        found = inventory.reserve(head.number, head.ask, head.planned, self._now)
        inventory.unreserve(head.number)
        return found is not None and found <= self._now + bool(self._left_out)

    def leave_out(self, job: Job) -> None:
        self._left_out.append(job)
        if job.limit > self._now + 1:
            self._inventory.resize(job.number, job.claim, self._now, self._now + 1)

    def put_back(self, job: Job) -> None:
        self._left_out.remove(job)
        if job.limit > self._now + 1:
            self._inventory.resize(job.number, job.claim, self._now, job.limit)

    def put_all_back(self) -> None:
        for job in list(self._left_out):
            self.put_back(job)

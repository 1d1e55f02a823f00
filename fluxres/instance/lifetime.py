"""Until when an instance is there: its expiration, and its end together with its jobs, its children and its job in the parent.

An instance that ends accepts no more jobs, and is closed when the last of its jobs has ended; only then does its parent get its
resources back (rule T1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from fluxres.clock import FOREVER, seconds
from fluxres.errors import InsufficientResources, StaleHandle, UsageError
from fluxres.instance import states
from fluxres.instance.due import DueEvents, DueOwner
from fluxres.instance.holding import FREED
from fluxres.instance.job import Job
from fluxres.instance.states import State
from fluxres.syntax.moment import in_message


class LifetimeOwner(DueOwner, Protocol):
    """What `Lifetime` uses of its instance."""

    due: DueEvents
    job_in_parent: Job | None
    lifetime: Lifetime

    @property
    def parent(self) -> LifetimeOwner | None: ...

    def walk(self) -> Iterator[LifetimeOwner]: ...

    def drop_child(self, job: Job) -> None: ...


class Lifetime:
    """The end of one instance."""

    def __init__(self, instance: LifetimeOwner) -> None:
        self._instance = instance
        self.is_closed = False
        self.is_ending = False
        """Whether it closes as soon as the jobs that were asked to stop have ended."""
        self.expires = FOREVER
        """When it expires, in ticks: at the earliest of `expires_given` and `latest`."""
        self.expires_given = FOREVER
        """The expiration set by `Instance.set_expiration`."""
        self.job_has_finished = False
        """Whether the job in the parent has finished, and only waits for this instance to close."""

    def require_open(self) -> None:
        """Errors: StaleHandle if the instance is closed."""
        if self.is_closed:
            job = self._instance.job_in_parent
            hint = "" if job is None else f"its job has ended: {job.result}"
            raise StaleHandle("this instance is closed", where=self._instance.address, hint=hint)

    def require_not_ending(self) -> None:
        """Errors: StaleHandle if the instance is ending."""
        if self.is_ending:
            raise StaleHandle("this instance is ending", where=self._instance.address)

    def require_open_until(self, moment: int) -> None:
        """Errors: InsufficientResources if the instance expires before."""
        if moment > self.expires:
            message = f"this instance ends at {in_message(seconds(self.expires))}"
            raise InsufficientResources(message, where=self._instance.address, hint=f"end before, or {self.way_out()} first")

    # -- expiration --------------------------------------------------------------------------------------------------

    @property
    def latest(self) -> int:
        """Until when the job in the parent, and the parent itself, allow it to be there, in ticks."""
        parent, job = self._instance.parent, self._instance.job_in_parent
        return FOREVER if parent is None or job is None else min(parent.holdings.end_of(job), parent.lifetime.expires)

    def way_out(self) -> str:
        """What has to change first if the instance is to be there longer."""
        if self.expires_given <= self.expires:
            return f"let {self._instance.address} expire later"
        return self._way_out_above()

    def _way_out_above(self) -> str:
        parent, job = self._instance.parent, self._instance.job_in_parent
        assert parent is not None  # it, or its job, determines `latest`
        assert job is not None
        return f"extend job {job.id} of {parent.address}" if self._ends_with_job else parent.lifetime.way_out()

    @property
    def _ends_with_job(self) -> bool:
        """Whether the job in the parent ends no later than the parent itself."""
        parent, job = self._instance.parent, self._instance.job_in_parent
        return parent is not None and job is not None and parent.holdings.end_of(job) <= self.latest

    def require_allowed(self, moment: int) -> None:
        """Errors: UsageError if the instance has to end before a moment."""
        if moment > (latest := self.latest):
            message = f"its {'job in the parent' if self._ends_with_job else 'parent'} ends at {in_message(seconds(latest))}"
            raise UsageError(message, where=self._instance.address, hint=f"{self._way_out_above()} first")

    def set_expiration(self, moment: int) -> None:
        """Expire at a moment in ticks, or before if the instances above do."""
        self.expires_given = moment
        self.take_end()

    def take_end(self) -> None:
        """Take over what determines the end of this instance, here and in all below: an instance ends with its parent."""
        for one in self._instance.walk():
            lifetime = one.lifetime
            if not lifetime.is_ending:
                lifetime._expire_at(min(lifetime.expires_given, lifetime.latest))

    def _expire_at(self, moment: int) -> None:
        due = self._instance.due
        if self.expires <= due.now < moment:
            due.owe_pass()  # no job was started at the moment of the former expiration
        self.expires = moment
        due.announce(moment)

    def expire(self) -> None:
        """End the instance at its expiration: its jobs, and its job in the parent."""
        if (freed := self._freed()) is not None:
            freed.lifetime.fail_job("cancel", FREED)
            return
        self.end_jobs("the instance expires", "timelimit")
        self.fail_job("timelimit", "the instance expires")

    def _freed(self) -> LifetimeOwner | None:
        """This instance or one above it that expires because others have freed what its job in the parent holds."""
        one: LifetimeOwner = self._instance
        while (parent := one.parent) is not None and (job := one.job_in_parent) is not None:
            if parent.holdings.freed_from(job.number) <= self.expires < FOREVER:
                return one
            one = parent
        return None

    # -- the end -----------------------------------------------------------------------------------------------------

    def end_jobs(self, why: str, kind: str = "cancel") -> None:
        """End all jobs here and below, but not the job in the parent; the instance closes when the last of them has ended.

        Args:
            kind: of the exception that ends them.
        """
        if self.is_closed or self.is_ending:
            return
        instance, lifecycle = self._instance, self._instance.lifecycle
        instance.due.now = instance.time.now
        self.is_ending, self.expires = True, FOREVER
        instance.queue.end()
        for job in list(lifecycle.jobs.values()):
            if job.number in lifecycle.jobs and job.state is not State.CLEANUP:
                lifecycle.raise_exception(job, kind, states.FATAL, why)
        if not lifecycle.jobs:
            self.close()

    def end_with_job(self) -> None:
        """End all jobs here and below, because the job in the parent has finished."""
        self.job_has_finished = True  # a runner that stops jobs here may close the instance, or report the end of that job again
        self.end_jobs("the job that held its resources has ended")

    def close(self) -> None:
        """Close the instance, in which no job is active any more."""
        if self.is_closed:
            return
        self.is_closed = True
        instance = self._instance
        instance.ids.release()
        if (upstream := instance.holdings.upstream) is not None:
            upstream.close()
        parent, job = instance.parent, instance.job_in_parent
        if parent is None or job is None:
            return
        parent.drop_child(job)
        if self.job_has_finished:
            parent.due.now = parent.time.now
            parent.lifecycle.clean(job)
            if parent.time.still:
                parent.due.follow_up()
            else:
                parent.due.owe_pass()  # events that are due there may not have been handled yet

    def fail_job(self, kind: str, note: str) -> None:
        """End the job in the parent by an exception, if it runs; the caller has advanced time."""
        parent, job = self._instance.parent, self._instance.job_in_parent
        if parent is not None and job is not None and job.state is State.RUN:
            parent.due.advance_to(parent.time.now)
            parent.lifecycle.raise_exception(job, kind, states.FATAL, note)
            parent.due.follow_up()

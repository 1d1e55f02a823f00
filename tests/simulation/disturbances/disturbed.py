"""A scheduler of named nodes with failures, repairs, advance reservations, cancels and holds, as simply as possible.

All events of a moment come at once: ends, reservations that begin, external events, submissions, and then one pass of FCFS, or of
EASY by name.  Times are seconds as integers, nodes are numbers from 0 on, and the lowest free ones are taken.  How far a job has
come is counted second by second.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NEVER = 10**9


@dataclass
class Job:
    """A job and its result; `status` is wait, run, or how it ended."""

    id: int
    submit: int
    run: int
    limit: int
    count: int
    urgency: int = 16
    status: str = "wait"
    is_held: bool = False
    start: int = -1
    end: int = -1
    units: frozenset[int] = frozenset()
    saved: int = 0
    lost: int = 0
    """Node-seconds of attempts that were interrupted."""

    @property
    def until(self) -> int:
        return self.start + self.limit


@dataclass
class Booked:
    start: int
    end: int
    units: frozenset[int]


@dataclass
class Saving:
    """Seconds of work between saves, and of a save and a restart."""

    interval: int = NEVER
    save: int = 0
    restart: int = 0

    def life(self, work: int, is_restart: bool) -> list[tuple[int, int]]:
        """Of an attempt, second by second: the work done, and the work saved, at the end of that second."""
        found = [(0, 0)] * (self.restart if is_restart else 0)
        done = saved = 0
        while done < work:
            for _ in range(min(self.interval, work - done)):
                done += 1
                if not self.save and done % self.interval == 0 and done < work:
                    saved = done
                found.append((done, saved))
            if done < work:
                for second in range(self.save):
                    if second == self.save - 1:
                        saved = done
                    found.append((done, saved))
        return found


@dataclass
class Disturbed:
    """Runs jobs in order of submission with events (at, action, target), sorted by time; see `run`."""

    size: int
    jobs: list[Job]
    events: list[tuple[int, str, object]]
    policy: str = "fcfs"
    has_names: bool = True
    requeues: bool = False
    saving: Saving = field(default_factory=Saving)
    now: int = 0
    down: set[int] = field(default_factory=set)
    booked: list[Booked] = field(default_factory=list)
    head: tuple[Job, int, frozenset[int]] | None = None
    refused: int = 0

    def run(self) -> None:
        """To the end, second by second: only moments at which something happens matter."""
        last = max([job.submit for job in self.jobs] + [at for at, *_ in self.events], default=0)
        while self.now <= last or any(job.status == "run" for job in self.jobs) or any(b.end >= self.now for b in self.booked):
            self.moment()
            self.now += 1

    def running(self) -> list[Job]:
        return [job for job in self.jobs if job.status == "run"]

    def waiting(self) -> list[Job]:
        found = [job for job in self.jobs if job.status == "wait" and job.submit <= self.now and not job.is_held]
        return sorted(found, key=lambda job: (-job.urgency, self.jobs.index(job)))

    def moment(self) -> None:
        changed = False
        for job in self.running():
            if self.now == self.end_of(job):
                self.end(job, "completed" if job.start + len(self.life(job)) == self.now else "timeout")
                changed = True
        changed |= any(self.now in (one.start, one.end) for one in self.booked)
        for at, action, target in self.events:
            if at == self.now and any(job.status in ("wait", "run") for job in self.jobs):
                changed |= self.event(action, target)
        waiting = self.waiting()
        fresh = [job for job in waiting if job.submit == self.now]
        changed |= fresh != waiting[len(waiting) - len(fresh) :]  # a job comes before others that wait
        if changed:
            self.head = None
        if changed or fresh:
            getattr(self, f"{self.policy}_pass")(waiting if changed else fresh)

    def end_of(self, job: Job) -> int:
        return min(job.start + len(self.life(job)), job.until)

    def life(self, job: Job) -> list[tuple[int, int]]:
        return self.saving.life(job.run - job.saved, job.saved > 0)

    def end(self, job: Job, status: str) -> None:
        job.status, job.end = status, self.now

    def interrupt(self, job: Job) -> None:
        elapsed = self.now - job.start
        life = self.life(job)
        job.lost += elapsed * len(job.units)
        job.saved += life[elapsed - 1][1] if elapsed else 0
        job.status, job.start, job.units = "wait", -1, frozenset()

    def event(self, action: str, target: object) -> bool:
        """Whether anything has changed that makes a pass over all jobs."""
        if action == "down":
            assert isinstance(target, int)
            self.down.add(target)
            for job in self.running():
                if target in job.units:
                    if self.requeues:
                        self.interrupt(job)
                    else:
                        self.end(job, "failed")
        elif action in ("drain", "remove"):
            assert isinstance(target, int)
            self.down.add(target)
        elif action in ("up", "add"):
            assert isinstance(target, int)
            self.down.discard(target)
        elif action == "reserve":
            return self.reserve(target)
        else:
            job = self.jobs[int(str(target))]
            if job.submit >= self.now and job.status == "wait" and job.start < 0 and job.submit > self.now - 1:
                return False  # not submitted yet: submissions follow the events of a moment
            if action == "cancel" and job.status in ("wait", "run"):
                was_held = job.is_held
                self.end(job, "canceled")
                return not was_held
            if action == "hold" and job.status == "wait" and not job.is_held:
                job.is_held = True
                return True
            if action == "release" and job.status == "wait" and job.is_held:
                job.is_held = False
                return True
            return False
        return True

    def reserve(self, target: object) -> bool:
        wanted, start, length = target
        end = start + length
        if not self.has_names:
            if wanted > self.size - max(map(self.used, range(start, end))):
                self.refused += 1
            else:
                self.booked.append(Booked(start, end, frozenset(range(wanted))))
            return True
        taken = {u for job in self.running() if job.until > start for u in job.units}
        taken |= {u for one in self.booked if one.start < end and start < one.end for u in one.units}
        if isinstance(wanted, int):
            free = sorted(set(range(self.size)) - taken - self.down)
            units = frozenset(free[:wanted]) if len(free) >= wanted else None
        else:
            units = None if taken & wanted else wanted
        if units is None:
            self.refused += 1
        else:
            self.booked.append(Booked(start, end, units))
        return True

    def free(self, start: int, end: int) -> frozenset[int]:
        """The nodes that are free throughout."""
        taken = {u for job in self.running() if job.until > start for u in job.units}
        taken |= {u for one in self.booked if one.start < end and start < one.end for u in one.units}
        return frozenset(set(range(self.size)) - taken - self.down)

    def used(self, at: int) -> int:
        """The number of nodes that are held or booked at a moment."""
        jobs = sum(job.count for job in self.running() if job.until > at)
        return jobs + sum(len(one.units) for one in self.booked if one.start <= at < one.end)

    def start(self, job: Job) -> bool:
        if not self.has_names:
            if job.count > self.size - max(map(self.used, range(self.now, self.now + job.limit))):
                return False
            job.start, job.status, job.units = self.now, "run", frozenset(range(job.count))
            return True
        units = self.free(self.now, self.now + job.limit)
        if self.head is not None and self.head[0] is not job and self.head[1] < self.now + job.limit:
            units -= self.head[2]
        if len(units) < job.count:
            return False
        job.units, job.start, job.status = frozenset(sorted(units)[: job.count]), self.now, "run"
        return True

    def fcfs_pass(self, among: list[Job]) -> None:
        for job in self.waiting():
            if not self.start(job):
                return

    def easy_pass(self, among: list[Job]) -> None:
        for job in among:
            if not self.start(job) and self.head is None:
                ends = {one.until for one in self.running()} | {one.end for one in self.booked}
                for start in sorted({self.now, *(end for end in ends if end > self.now)}):
                    units = self.free(start, start + job.limit)
                    if len(units) >= job.count:
                        self.head = job, start, frozenset(sorted(units)[: job.count])
                        break

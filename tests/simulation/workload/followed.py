"""A closed loop, as simply as possible: FCFS on a number of units, second by second, with jobs that are submitted after others.

Which job follows which is found for each job from the definitions, by looking at all jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Job:
    """A job of a trace, with the wait that was recorded, and its result."""

    id: int
    submit: int
    waited: int
    run: int
    limit: int
    count: int
    user: str
    previous: int | None = None
    think: int = 0
    follows: list[Job] = field(default_factory=list)
    submitted: int = -1
    start: int = -1
    end: int = -1
    begun: int = -1
    """Counts the starts."""

    @property
    def recorded_end(self) -> int:
        return self.submit + self.waited + min(self.run, self.limit)


def by_think(jobs: list[Job]) -> None:
    for at, job in enumerate(jobs):
        job.follows = [each for each in jobs[:at] if each.id == job.previous]


def by_sessions(jobs: list[Job], gap: int) -> None:
    """Sessions and batches as lists, then the batch that was the last to end."""
    for user in {job.user for job in jobs}:
        own = [job for job in jobs if job.user == user]
        sessions: list[list[list[Job]]] = []
        for job in own:
            before = own[own.index(job) - 1] if job is not own[0] else None
            if before is None or job.submit - before.submit > gap:
                sessions.append([[job]])
            elif before.recorded_end <= job.submit:
                sessions[-1].append([job])
            else:
                sessions[-1][-1].append(job)
        for session in sessions:
            for batch in session:
                ended = {max(job.recorded_end for job in other): other for other in session[: session.index(batch)]}
                known = [end for end in ended if end <= batch[0].submit]
                for job in batch:
                    if known:
                        job.follows, job.think = ended[max(known)], job.submit - max(known)


def run(jobs: list[Job], size: int, cancels: dict[int, int]) -> None:
    """Set the results: ends of a moment, cancels, submissions in the order of the workload, then those of followers, then a pass.

    Args:
        cancels: moments by job.

    A job larger than the machine is refused, and ends at its submission.
    """
    now, starts, queue = 0, 0, []
    order: list[Job] = []
    last = max([job.submit for job in jobs] + list(cancels.values()))
    while now <= last:
        order += sorted((job for job in jobs if 0 <= job.start <= now and job.end == now), key=lambda job: job.begun)
        for key, at in cancels.items():
            job = next(each for each in jobs if each.id == key)
            if at == now and job.submitted >= 0 and job.end < 0:
                queue.remove(job)
                job.end = now
                order.append(job)
            elif at == now and job.start >= 0 and job.end > now:
                job.end = now
                order.append(job)
        while True:
            due = [job for job in jobs if job.submitted < 0 and not job.follows and job.submit == now]
            later = [job for job in jobs if job.submitted < 0 and job.follows and _release(job) == now]
            # Followers come in the order in which the last of those that they follow ended.
            later.sort(key=lambda job: max(order.index(each) for each in job.follows))
            found = [*due, *later]
            if not found:
                break
            job = found[0]
            job.submitted = now
            if job.count > size:
                job.end = now
                order.append(job)
            else:
                queue.append(job)
        while queue and queue[0].count <= size - sum(job.count for job in jobs if job.start >= 0 and job.end > now):
            job = queue.pop(0)
            job.start, job.end = now, now + min(job.run, job.limit)
            starts += 1
            job.begun = starts
        last = max([last, *(job.end for job in jobs), *(_release(job) for job in jobs if job.submitted < 0 and job.follows)])
        now += 1


def _release(job: Job) -> int:
    """When a follower is submitted; -1 while that is not known."""
    ends = [each.end for each in job.follows]
    return -1 if -1 in ends else max(ends) + job.think

"""The queue policies that sites and papers use, each as short as its description."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from fluxres.errors import UsageError
from fluxres.instance.policy import QueuePolicy

if TYPE_CHECKING:
    from fluxres.instance.job import Job
    from fluxres.instance.queue import Queue


class Fcfs(QueuePolicy):
    """Strictly in order: no job starts before an earlier one."""

    name = "fcfs"

    def schedule(self, queue: Queue) -> None:
        """Start until one does not."""
        for job in queue:
            if not queue.start(job):
                break


class Easy(QueuePolicy):
    """EASY backfilling: the head of the queue has named pools reserved, others start where they do not delay it.

    Args:
        depth: how many have a reservation.
        queue_depth: how many of the queue are looked at; 0 for all.
    """

    name = "easy"

    def __init__(self, depth: int = 1, queue_depth: int = 0) -> None:
        if depth < 0 or queue_depth < 0:
            raise UsageError(f"expected depths of at least 0, got {min(depth, queue_depth)}", where=f"queue policy {self.name}")
        self.depth = depth
        self.queue_depth = queue_depth

    def looks(self, queue: Queue) -> bool:
        """Whether this is a moment for a pass; where all are looked at, reservations are made anew."""
        if queue.is_early():
            return False
        if queue.changed or queue.elapsed or self.queue_depth:
            queue.unreserve()
        return True

    def candidates(self, queue: Queue) -> Iterator[Job]:
        """The jobs that may start; behind `queue_depth` none."""
        if not self.queue_depth:
            return queue.candidates()
        return islice(queue, self.queue_depth)

    def schedule(self, queue: Queue) -> None:
        """In order; a job that does not fit is reserved as long as reservations are left."""
        if not self.looks(queue):
            return
        for job in self.candidates(queue):
            if queue.start(job):
                continue
            if queue.reserved < self.depth:
                queue.reserve(job)
            elif queue.is_full:
                break


class Hybrid(Easy):
    """EASY with the first jobs of the queue reserved (Fluxion's hybrid; its default depth)."""

    name = "hybrid"

    def __init__(self, depth: int = 64, queue_depth: int = 0) -> None:
        super().__init__(depth, queue_depth)


class EasyCount(Easy):
    """EASY as counting simulators have it: for the head a number of pools is kept free, whichever they are.

    Fewer jobs are held back than with names, and the head starts as early.  Where requests are not for pools that are all
    alike, the head is reserved by name, as EASY does.
    """

    name = "easy-count"

    def __init__(self) -> None:
        super().__init__()

    def schedule(self, queue: Queue) -> None:
        """In order; the first that does not fit is reserved by number."""
        if not self.looks(queue):
            return
        for job in queue.candidates():
            if queue.start(job):
                continue
            if not queue.reserved:
                queue.reserve_count(job)
            elif queue.is_full:
                break


class EasySjbf(Easy):
    """EASY that backfills the shortest first (Tsafrir et al. 2007), by the limits of the jobs."""

    name = "easy-sjbf"

    def __init__(self) -> None:
        super().__init__()

    def schedule(self, queue: Queue) -> None:
        """In order up to the first that does not fit, then by duration."""
        if not self.looks(queue):
            return
        waiting = queue.candidates()
        if not queue.reserved:
            for job in waiting:
                if not queue.start(job) and queue.reserve(job) is not None:
                    break
        for job in () if queue.is_full else sorted(waiting, key=attrgetter("duration")):
            if not queue.start(job) and queue.is_full:
                break


class Conservative(QueuePolicy):
    """Conservative backfilling: every job has a reservation from its submission on, which later ones never push back.

    Whenever something comes back, all are fitted again in order, each only forward.
    """

    name = "conservative"
    keeps_reservations = True

    def schedule(self, queue: Queue) -> None:
        """Start what is due, fit again what waits, reserve for new jobs."""
        for job in queue.due():
            queue.start(job)
        for job in queue.lost():
            queue.reserve(job)
        for job in queue if queue.changed else queue.fresh:
            if queue.reserve(job) == queue.now_s:
                queue.start(job)

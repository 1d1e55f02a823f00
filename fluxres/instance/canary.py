"""canary's order of tests as a queue policy: the dearest first, and whatever fits."""

from __future__ import annotations

from fluxres.formats.peers.canary.allocator import Checkout
from fluxres.formats.peers.canary.language import cost
from fluxres.instance.inventory import requested_units
from fluxres.instance.job import Job
from fluxres.instance.queue import Queue, QueuePolicy

_CPUS = "core"


class Canary(QueuePolicy):
    """Jobs by descending cost, the hypotenuse of cores and limit in seconds; one that does not fit is passed over, and nothing is
    reserved for it.  No job is started after one that uses its nodes exclusively, until that has ended.
    """

    name = "canary"

    def schedule(self, queue: Queue) -> None:
        if any(is_exclusive(job) for job in queue.running()):
            return
        for job in sorted(queue, key=_descending):
            if queue.start(job) and is_exclusive(job):
                break


def is_exclusive(job: Job) -> bool:
    """Whether a test uses its nodes exclusively."""
    rule = job.request.chooser
    return isinstance(rule, Checkout) and any(request.exclusive for request in rule.requests)


def _descending(job: Job) -> float:
    runtime = 0.0 if job.duration_s == float("inf") else job.duration_s
    return -cost(requested_units(job.request, _CPUS), runtime)

"""An example of a queue policy: the shortest job first, but no job waits longer than a day for shorter ones."""

from fluxres import QueuePolicy


class ShortestFirst(QueuePolicy):
    """By planned length (the limit, or what is predicted); jobs that have waited too long go first and get a reservation."""

    name = "shortest-first"

    def __init__(self, patience_s=86400):
        self.patience_s = patience_s

    def is_late(self, job, now_s):
        return now_s - job.submitted_at > self.patience_s

    def schedule(self, queue):
        queue.unreserve()
        for job in sorted(queue, key=lambda job: (not self.is_late(job, queue.now_s), job.planned_s)):
            if not queue.start(job) and self.is_late(job, queue.now_s):
                queue.reserve(job)  # later starts must not delay it

"""A priority like that of Slurm's multifactor plugin, with a limit of the jobs that a user may run at once."""

from collections import Counter

from fluxres.instance.policy import FairShare


class Multifactor(FairShare):
    """Weights of age, size and fair share, all from 0 to 1; jobs above the user's limit are passed over."""

    name = "multifactor"

    def __init__(self, weights=None, most_running=0):
        super().__init__(urgency=0, **(weights or {"age": 1000, "size": 1000, "share": 10000}))
        self.most_running = most_running

    def schedule(self, queue):
        queue.unreserve()
        users = Counter(job.user for job in queue.running())
        for job in queue:
            if self.most_running and users[job.user] >= self.most_running:
                continue
            if queue.start(job):
                users[job.user] += 1
            elif not self.reserve(queue, job) and self.is_over(queue):
                break

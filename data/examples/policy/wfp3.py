"""WFP3 (Tang et al., Cluster 2009): jobs that have waited long for their length come first, large ones above all."""

from fluxres.instance.policy import EasyByScore


class Wfp3(EasyByScore):
    """Cube of wait / planned length, times size; EASY below."""

    name = "wfp3"

    def __init__(self, power=3):
        super().__init__()
        self.power = power

    def score(self, job, now_s):
        return (job.waited_s(now_s) / job.planned_s) ** self.power * job.size

"""SAF: the smallest area first."""

from fluxres.instance.policy import EasyByScore


class Saf(EasyByScore):
    """Lowest limit * size first; EASY below."""

    name = "saf"

    def score(self, job, now_s):
        return -job.duration_s * job.size
